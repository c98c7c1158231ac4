"""Branches and loops, at once and captured, with gradients, trees and closures; errors that name the place
in the tree."""

import math
import os
import queue
import subprocess
import sys
import threading
import unittest

import hop
from support import Case


def vector(*numbers):
    return hop.asarray(list(numbers), dtype=hop.float64)


class Branches(Case):
    def test_cond(self):
        f = lambda p, x: hop.cond(p, lambda v: {"y": v * 2}, lambda v: {"y": v - 1}, x)["y"]  # noqa: E731
        x = vector(1, 2)
        for p in (True, False, hop.asarray(True), hop.asarray(0)):
            expected = [2, 4] if bool(p) else [0, 1]
            self.equal(f(p, x), expected)
            self.equal(hop.jit(f)(hop.asarray(bool(p)), x), expected)
        self.equal(hop.grad(lambda v: hop.sum(f(v[0] > 0, v)))(x), [2, 2])
        self.equal(hop.vmap(lambda v: hop.cond(v > 1, lambda: v * 10, lambda: v))(x), [1, 20])
        self.equal(hop.jit(lambda p: hop.cond(p, lambda: 1.0, lambda: x[0]))(hop.asarray(True)), 1.0)

    def test_switch(self):
        branches = [lambda v: v, lambda v: v * 2, lambda v: v * 3]
        for i, k in ((0, 1), (1, 2), (2, 3), (7, 3), (-5, 1)):
            self.equal(hop.switch(i, branches, vector(1)), [k])
            self.equal(hop.jit(lambda i, v: hop.switch(i, branches, v))(hop.asarray(i), vector(1)), [k])

    def test_errors(self):
        p, x = hop.asarray(True), vector(1, 2)
        cases = [
            (
                lambda v: {"h": [v]},
                lambda v: {"h": [v[0]]},
                r"result\['h'\]\[0\]: false_fun gives f64\[\], true_fun gives f64\[2\]",
            ),
            (
                lambda v: {"h": v},
                lambda v: {"g": v},
                (
                    r"result\['g'\]: true_fun has nothing there, expected \*\n  "
                    r"result\['h'\]: true_fun has the structure \*, expected nothing"
                ),
            ),
            (
                lambda v: v,
                lambda v: v.astype(hop.float32),
                r"false_fun gives f32\[2\], true_fun gives f64\[2\]",
            ),
        ]
        for a, b, text in cases:
            with self.assertRaisesRegex(hop.Error, text):
                hop.jit(lambda p, v: hop.cond(p, a, b, v))(p, x)
        with self.assertRaisesRegex(hop.Error, "scalar"):
            hop.cond(x > 0, lambda: 1, lambda: 2)
        with self.assertRaises(TypeError):
            hop.cond(p, 1, 2)


class Loops(Case):
    def test_while(self):
        collatz = lambda n: hop.while_loop(  # noqa: E731
            lambda c: c["n"] != 1,
            lambda c: {"n": hop.where(c["n"] % 2 == 0, c["n"] // 2, 3 * c["n"] + 1), "steps": c["steps"] + 1},
            {"n": n, "steps": 0},
        )["steps"]
        self.equal(collatz(27), 111)
        self.equal(hop.jit(collatz)(hop.asarray(27)), 111)
        self.equal(hop.vmap(collatz)(hop.asarray([1, 7, 27])), [0, 16, 111])
        power = lambda x: (  # noqa: E731
            hop.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * x), (0, 1.0))[1]
        )
        self.equal(hop.grad(power)(2.0), 80.0)
        with self.assertRaises(hop.CheckError):
            hop.while_loop(lambda c: c > 0, lambda c: c + 1, 1, max_trips=10)

    def test_fori(self):
        f = lambda n, x: hop.fori_loop(0, n, lambda i, c: c * x + i, 1.0)  # noqa: E731
        self.equal(f(3, 2.0), 1 * 8 + 0 * 4 + 1 * 2 + 2)
        self.equal(hop.jit(f)(hop.asarray(3), 2.0), 12.0)
        self.equal(hop.grad(f, argnums=1)(3, 2.0), 12 + 1)
        self.equal(hop.fori_loop(5, 2, lambda i, c: c + 1, 7), 7)

    def test_scan(self):
        xs = vector(1, 2, 3)
        last, all_ = hop.scan(lambda c, x: (c + x, {"before": c}), 0.0, xs)
        self.equal(last, 6.0, hop.float64)
        self.equal(all_["before"], [0, 1, 3])
        self.equal(hop.scan(lambda c, x: (c + x, c), 0.0, xs, reverse=True)[1], [5, 3, 0])
        self.equal(hop.scan(lambda c, _: (c * 2, None), 1, length=5)[0], 32)
        last, ys = hop.scan(
            lambda c, x: ((c[0] + x["a"], c[1]), x["b"]),
            (vector(0), None),
            {"a": hop.asarray([[1.0], [2.0]], dtype=hop.float64), "b": hop.arange(2)},
        )
        self.assertEqual((last[0].tolist(), last[1], ys.tolist()), ([3], None, [0, 1]))
        for schedule in (None, "recompute", "sqrt", "every 2"):
            g = hop.grad(lambda v: hop.scan(lambda c, x: (c * x, None), 1.0, v, schedule=schedule)[0])
            self.equal(g(xs), [6, 3, 2])
            self.equal(hop.jit(g)(xs), [6, 3, 2])

    def test_unroll_changes_nothing(self):
        step, xs = lambda c, x: (c * x, c), vector(2, 3, 4)  # noqa: E731
        for a, b in zip(hop.scan(step, 1.0, xs), hop.scan(step, 1.0, xs, None, False, 4)):
            self.equal(a, b.tolist())
        self.equal(hop.fori_loop(0, 3, lambda i, c: c + i, 1, unroll=True), 4)

    def test_scan_with_closure(self):
        w = hop.asarray([[0.5, 0.1], [0.0, 0.5]])
        rnn = lambda w, xs: (  # noqa: E731
            hop.scan(lambda h, x: (hop.tanh(h @ w + x), None), hop.zeros(2), xs)[0]
        )
        xs = hop.ones((4, 2))
        h = [0.0, 0.0]
        import math

        for _ in range(4):
            h = [math.tanh(0.5 * h[0] + 1), math.tanh(0.1 * h[0] + 0.5 * h[1] + 1)]
        self.close(rnn(w, xs), h)
        self.close(hop.jit(rnn)(w, xs), h)
        g = hop.grad(lambda w: hop.sum(rnn(w, xs)))(w)
        self.assertEqual(g.shape, (2, 2))
        self.close(hop.vmap(rnn, (None, 0))(w, hop.stack([xs, xs * 0])), [h, [0, 0]])

    def test_associative_scan_and_map(self):
        x = vector(1, 2, 3, 4)
        self.equal(hop.associative_scan(lambda a, b: a * b, x), [1, 2, 6, 24])
        self.equal(hop.associative_scan(lambda a, b: a + b, x, reverse=True), [10, 9, 7, 4])
        pairs = hop.associative_scan(lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), (x * 0 + 0.5, x))
        self.close(pairs[1], [1, 2.5, 4.25, 6.125])
        self.equal(
            hop.grad(lambda v: hop.sum(hop.associative_scan(lambda a, b: a * b, v)))(x), [33, 16, 10, 6]
        )
        self.equal(hop.map(lambda t: t["x"] * 2 + t["y"], {"x": x, "y": x}), [3, 6, 9, 12])
        self.equal(hop.grad(lambda v: hop.sum(hop.map(lambda e: e**2, v)))(x), [2, 4, 6, 8])

    def test_nested(self):
        def f(x):
            def step(c, v):
                inner = hop.while_loop(lambda s: s[1] < 3, lambda s: (s[0] * v, s[1] + 1), (c, 0))[0]
                return hop.cond(inner > 100.0, lambda: inner / 2, lambda: inner + x[0]), inner

            return hop.scan(step, 1.0, x)[0]

        def plain(x):
            c = 1.0
            for v in x:
                inner = c * v**3
                c = inner / 2 if inner > 100 else inner + x[0]
            return c

        x = [1.5, 2.0, 1.25]
        self.close(f(vector(*x)), plain(x))
        self.close(hop.jit(f)(vector(*x)), plain(x))
        step = 1e-6
        expected = [
            (
                plain([v + step * (i == k) for i, v in enumerate(x)])
                - plain([v - step * (i == k) for i, v in enumerate(x)])
            )
            / (2 * step)
            for k in range(3)
        ]
        self.close(hop.grad(f)(vector(*x)), expected, 1e-5)

    def test_python_numbers(self):
        """A number takes the dtype of what it meets; where that cannot hold it, it is not cut off."""
        for call, text in [
            (
                lambda: hop.jit(lambda p: hop.cond(p, lambda: hop.asarray(2), lambda: 0.5))(False),
                r"cond: result: false_fun gives f32\[\], true_fun gives i64\[\]",
            ),
            (
                lambda: hop.jit(lambda p: hop.cond(p, lambda: hop.ones(4), lambda: 0.0))(True),
                r"cond: result: false_fun gives f32\[\], true_fun gives f32\[4\]",
            ),
            (
                lambda: hop.jit(lambda k: hop.switch(k, [lambda: 2, lambda: 3.5, lambda: hop.asarray(4)]))(1),
                r"switch: result: branch 1 gives f32\[\], branch 2 gives i64\[\]",
            ),
            (
                lambda: hop.scan(lambda c, x: (0.5, c), hop.asarray(2), hop.ones(2)),
                r"scan: carry: the function gives f32\[\], the loop began with i64\[\]",
            ),
            (
                lambda: hop.while_loop(lambda c: c, lambda c: 2, hop.asarray(True)),
                r"while_loop: carry: the body gives i64\[\], the loop began with bool\[\]",
            ),
            (
                lambda: hop.fori_loop(0, 3, lambda i, c: c / 2, hop.asarray(8)),
                (
                    r"gives f32\[\], the loop began with i64\[\]; "
                    r"integers divided by integers.*\.astype\(hop\.int64\)"
                ),
            ),
            (
                lambda: hop.fori_loop(0, 3, lambda i, c: c * vector(2)[0], hop.asarray(8.0)),
                r"gives f64\[\], the loop began with f32\[\]$",
            ),
        ]:  # fmt: skip
            with self.assertRaisesRegex(hop.InvalidError, text):
                call()
        self.equal(
            hop.jit(lambda k: hop.switch(k, [lambda: 2, lambda: 3.5, lambda: hop.asarray(4.0)]))(1), 3.5
        )
        self.equal(hop.fori_loop(0, 1, lambda i, c: 0.5, 2), 0.5, hop.float32)
        self.equal(hop.scan(lambda c, x: (3, c), vector(2)[0], vector(0, 0))[1], [2, 3], hop.float64)

    def test_errors(self):
        cases = [
            (
                lambda: hop.scan(
                    lambda c, x: ({"h": [c["h"][0][:2]]}, None),
                    {"h": [vector(1, 2, 3)]},
                    vector(1),
                ),
                r"scan: carry\['h'\]\[0\]: the function gives f64\[2\], the loop began with f64\[3\]",
            ),
            (lambda: hop.scan(lambda c, x: (c, x, x), 0.0, vector(1)), "pair"),
            (lambda: hop.scan(lambda c, x: ((c, c), x), 0.0, vector(1)), r"carry: .*\(\*, \*\), expected \*"),
            (
                lambda: hop.scan(lambda c, x: (c, x), 0.0, {"a": vector(1), "b": vector(1, 2)}),
                r"xs\['b'\] has length 2, xs\['a'\] has 1",
            ),
            (lambda: hop.scan(lambda c, x: (c, x), 0.0, 1.0), "nothing to go over"),
            (lambda: hop.while_loop(lambda c: c, lambda c: c, 1.0), r"bool\[\]"),
            (
                lambda: hop.while_loop(lambda c: c < 1, lambda c: vector(1), vector(1)[0]),
                r"carry: the body gives f64\[1\], the loop began with f64\[\]",
            ),
            (lambda: hop.fori_loop(0, 3, lambda i, c: (c,), 1.0), "structure"),
            (lambda: hop.associative_scan(lambda a, b: (a, b), vector(1)), "structure"),
        ]  # fmt: skip
        for call, text in cases:
            with self.assertRaisesRegex(hop.Error, text):
                call()
            with self.assertRaisesRegex(hop.Error, "test_control.py:[0-9]+"):
                call()
        with self.assertRaises(ValueError):
            hop.scan(lambda c, x: (c, x), 0.0)


class WhatJaxTakes(Case):
    """Spellings and cases that JAX's users (and PyTorch's) bring along."""

    def test_operand(self):
        negated = lambda v: -v  # noqa: E731
        for how in (lambda f: f, hop.jit):
            self.equal(how(lambda x: hop.cond(x > 0, negated, abs, operand=x))(hop.asarray(2.0)), -2.0)
            self.equal(how(lambda x: hop.switch(9, [abs, negated], operand=x))(hop.asarray(2.0)), -2.0)
            self.equal(
                how(lambda x: hop.cond(x > 0, lambda _: x, lambda _: -x, operand=None))(hop.asarray(2.0)), 2.0
            )
        for call in (
            lambda: hop.cond(True, abs, abs, 1, operand=2),
            lambda: hop.switch(0, [abs], 1, operand=2),
        ):
            with self.assertRaisesRegex(hop.InvalidError, "there are operands, and one given as operand="):
                call()

    def test_predicate_of_one_element(self):
        for shape in ((1,), (1, 1)):
            p = hop.ones(shape, dtype=hop.bool)
            self.assertEqual(hop.cond(p, lambda: 1, lambda: 2), 1)
            self.equal(hop.jit(lambda q: hop.cond(q, lambda: 1, lambda: 2))(~p), 2)
            doubled = lambda c: hop.while_loop(lambda v: v < 5, lambda v: v * 2, c)  # noqa: E731
            self.equal(doubled(hop.ones(shape)).reshape(()), 8.0)
            self.equal(hop.grad(lambda c: hop.sum(doubled(c)))(hop.ones(shape)).reshape(()), 8.0)
            self.equal(hop.vmap(doubled)(hop.ones((2, *shape))).reshape((2,)), [8, 8])
        with self.assertRaisesRegex(hop.InvalidError, "expected a bool scalar"):
            hop.cond(hop.ones(2) > 0, lambda: 1, lambda: 2)
        with self.assertRaisesRegex(hop.InvalidError, r"expected bool\[\]"):
            hop.while_loop(lambda c: c < 1, lambda c: c, hop.zeros(2))

    def test_nothing_carried(self):
        for nothing in ((), None, {}, [None, ()]):
            self.assertEqual(hop.while_loop(lambda c: False, lambda c: c, nothing), nothing)
            self.assertEqual(hop.fori_loop(0, 3, lambda i, c: c, nothing), nothing)

        def f(x):
            hop.while_loop(lambda c: x > 3, lambda c: c, ())
            return x * x

        self.equal(hop.jit(f)(2.0), 4.0)
        self.equal(hop.grad(f)(2.0), 4.0)
        self.equal(hop.vmap(f)(vector(1, 2)), [1, 4])
        with self.assertRaisesRegex(hop.InvalidError, "the predicate is always true"):
            hop.while_loop(lambda c: True, lambda c: c, ())

    def test_history(self):
        def powers(x, **options):
            step = lambda c: {"v": c["v"] * x, "n": c["n"] + 1}  # noqa: E731
            return hop.while_loop(lambda c: c["v"] < 100, step, {"v": x, "n": 0}, stack=True, **options)

        for how in (lambda f: f, hop.jit):
            last, history, trips = how(powers)(3.0)
            self.equal(last["v"], 243.0, hop.float32)
            self.equal(history["v"], [9, 27, 81, 243], hop.float32)
            self.equal(history["n"], [1, 2, 3, 4], hop.int64)
            self.equal(trips, 4)
            total = lambda x: hop.sum(powers(x)[1]["v"])  # noqa: E731
            self.equal(how(hop.grad(total))(3.0), 2 * 3 + 3 * 9 + 4 * 27 + 5 * 81)
            self.equal(how(hop.grad(hop.grad(total)))(3.0), 2 + 6 * 3 + 12 * 9 + 20 * 27)
        self.equal(hop.jvp(total, (3.0,), (1.0,))[1], 2 * 3 + 3 * 9 + 4 * 27 + 5 * 81)
        self.assertEqual(powers(1000.0)[1]["v"].shape, (0,))
        last, history, trips = hop.vmap(lambda x: powers(x, max_trips=5))(vector(3, 10))
        self.equal(history["v"], [[9, 27, 81, 243, 0], [100, 0, 0, 0, 0]])
        self.equal(trips, [4, 1])
        with self.assertRaises(hop.CheckError):
            powers(3.0, max_trips=3)
        rows = hop.while_loop(
            lambda c: hop.sum(c) < 9,
            lambda c: c + 1,
            hop.zeros((2,)),
            stack=True,
            max_trips=6,
            schedule="sqrt",
        )
        self.equal(rows[1], [[1, 1], [2, 2], [3, 3], [4, 4], [5, 5], [0, 0]])

    def test_bounds_that_are_no_integers(self):
        total = lambda a, b: hop.fori_loop(a, b, lambda i, c: c + i, 0.0)  # noqa: E731
        for a, b in ((0.0, 3.0), (0.5, 3.2), (0, 2.5), (2.0, -1.0), (-1.5, 2)):
            expected, i = 0.0, float(a)
            while i < b:
                expected, i = expected + i, i + 1
            self.equal(total(a, b), expected, hop.float32)
            self.equal(hop.jit(total)(a, b), expected)
        self.equal(hop.grad(total)(0.5, 3.2), 3.0)  # of three trips each begins at the first bound
        with self.assertRaisesRegex(
            hop.InvalidError, "fori_loop: upper: expected a number of steps that can be counted, found inf"
        ):
            total(0.0, math.inf)

    def test_other_axes(self):
        m = hop.arange(6).reshape((2, 3))
        step, zero = lambda c, x: (c + x, c), hop.asarray([0, 0])  # noqa: E731
        for how in (lambda f: f, hop.jit):
            for dim in (1, -1):
                last, seen = how(lambda v: hop.scan(step, zero, v, dim=dim))(m)
                self.equal(last, [3, 12])
                self.equal(seen, [[0, 0], [0, 3], [1, 7]])
                self.equal(
                    how(lambda v: hop.scan(step, zero, v, dim=dim, reverse=True)[1])(m),
                    [[3, 9], [2, 5], [0, 0]],
                )
        g = hop.grad(lambda v: hop.sum(hop.scan(lambda c, x: (c * x, None), hop.ones(2), v, dim=1)[0]))
        self.equal(g(hop.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])), [[6, 3, 2], [30, 24, 20]])
        with self.assertRaisesRegex(hop.InvalidError, r"scan: xs\[1\] has type i64\[3\], there is no axis 1"):
            hop.scan(step, zero, (m, m[0]), dim=1)
        self.equal(hop.associative_scan(hop.add, m, axis=1, reverse=True), [[3, 3, 2], [12, 9, 5]])

    def test_map_in_batches(self):
        f = lambda v: {"double": v["x"] * 2, "one": 1, "n": v["n"][0]}  # noqa: E731
        xs = {"x": vector(*range(7)), "n": hop.arange(14).reshape((7, 2))}
        for size in (1, 2, 3, 7, 50):
            for how in (lambda g: g, hop.jit):
                out = how(lambda v: hop.map(f, v, batch_size=size))(xs)
                self.equal(out["double"], [0, 2, 4, 6, 8, 10, 12])
                self.equal(out["one"], [1] * 7)
                self.equal(out["n"], [0, 2, 4, 6, 8, 10, 12])
        self.equal(
            hop.grad(lambda v: hop.sum(hop.map(hop.square, v, batch_size=2)))(vector(1, 2, 3)), [2, 4, 6]
        )
        self.assertEqual(hop.map(hop.square, hop.zeros((0, 2)), batch_size=3).shape, (0, 2))
        for bad in (0, -1, 1.5, "2"):
            with self.assertRaisesRegex(hop.InvalidError, "map: batch_size: expected a number of slices"):
                hop.map(hop.square, vector(1), batch_size=bad)


class WithoutJit(Case):
    """hop.disable_jit: functions and loops are plain Python, with the same results."""

    def test_functions_see_numbers(self):
        seen = []
        f = hop.jit(lambda x: seen.append(isinstance(x, hop.Tracer)) or x + 1)
        with hop.disable_jit():
            self.equal(f(hop.asarray(1.0)), 2.0)
            with hop.disable_jit(False):
                self.equal(f(hop.asarray(1.0)), 2.0)
            self.equal(f(hop.asarray(1.0)), 2.0)
        self.equal(f(hop.asarray(1.0)), 2.0)
        self.assertEqual(seen, [False, True, False])
        with self.assertRaises(ZeroDivisionError), hop.disable_jit():
            hop.jit(lambda: 1 / 0)()
        self.assertFalse(hop._core.jit_disabled())

    def test_other_threads_compile(self):
        states = []
        with hop.disable_jit():
            thread = threading.Thread(target=lambda: states.append(hop._core.jit_disabled()))
            thread.start()
            thread.join()
        self.assertEqual(states, [False])

    def test_environment(self):
        code = "import hop; print(hop.jit(lambda x: isinstance(x, hop.Tracer))(hop.ones(1)))"
        for value, expected in (("1", "False"), ("0", "True")):
            environment = {**os.environ, "HOP_DISABLE_JIT": value}
            done = subprocess.run(
                [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
            )
            self.assertEqual(done.stdout.strip(), expected)

    def test_loops(self):
        x, m = vector(1, 2, 3), hop.arange(6).reshape((2, 3))
        traced = queue.SimpleQueue()
        look = lambda v: traced.put(isinstance(v, hop.Tracer))  # noqa: E731
        calls = [
            lambda: hop.while_loop(lambda c: c < 5, lambda c: look(c) or c * 2, 1.0),
            lambda: hop.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * x), (0, x), stack=True),
            lambda: hop.while_loop(lambda c: c < 5, lambda c: look(c) or c * 2, 1, stack=True, max_trips=7),
            lambda: hop.while_loop(lambda c: c < 0, lambda c: c * 2, x[0], stack=True),
            lambda: hop.fori_loop(0, 3, lambda i, c: look(i) or c + i, 0.0),
            lambda: hop.fori_loop(hop.asarray(1, dtype=hop.int32), 4, lambda i, c: c + i, 0),
            lambda: hop.fori_loop(0.5, 4, lambda i, c: c + i, 0.0),
            lambda: hop.scan(lambda c, v: (look(c) or c + v, c), 0.0, x, reverse=True),
            lambda: hop.scan(lambda c, v: (c + 1, {"y": 1.5}), 0, None, length=3),
            lambda: hop.scan(lambda c, v: (c + v, c), hop.asarray([0, 0]), m, dim=1),
            lambda: hop.scan(lambda c, v: (c + v, c), 0.0, x[:0]),
            lambda: hop.map(lambda v: (look(v) or v, 1), x),
            lambda: hop.map(lambda v: v * 2, x, batch_size=2),
            lambda: hop.associative_scan(lambda a, b: look(a) or a + b, x),
            lambda: hop.associative_scan(hop.maximum, m, axis=1, reverse=True),
        ]
        for number, call in enumerate(calls):
            with self.subTest(number=number):
                expected = call()
                while not traced.empty():
                    traced.get()
                with hop.disable_jit():
                    found = call()
                self.assertNotIn(True, [traced.get() for _ in range(traced.qsize())])
                self.assertEqual(hop.tree.structure(found), hop.tree.structure(expected))
                for a, b in zip(hop.tree.leaves(found), hop.tree.leaves(expected)):
                    self.assertEqual((a.dtype, a.shape, a.tolist()), (b.dtype, b.shape, b.tolist()))
        with hop.disable_jit(), self.assertRaises(hop.CheckError):
            hop.while_loop(lambda c: c > 0, lambda c: c + 1, 1, max_trips=10)

    def test_transforms_capture_all_the_same(self):
        with hop.disable_jit():
            self.equal(hop.grad(lambda x: hop.fori_loop(0, 3, lambda i, c: c * x, 1.0))(2.0), 12.0)
            self.equal(hop.vmap(hop.jit(lambda v: v + 1))(vector(1, 2)), [2, 3])


if __name__ == "__main__":
    unittest.main()
