"""Branches and loops, at once and captured, with gradients, trees and closures; errors that name the place in the tree."""

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
            (lambda v: {"h": [v]}, lambda v: {"h": [v[0]]}, r"result\['h'\]\[0\]: false_fun gives f64\[\], true_fun gives f64\[2\]"),
            (lambda v: {"h": v}, lambda v: {"g": v}, r"result\['g'\]: true_fun has nothing there, expected \*\n  result\['h'\]: true_fun has the structure \*, expected nothing"),
            (lambda v: v, lambda v: v.astype(hop.float32), r"false_fun gives f32\[2\], true_fun gives f64\[2\]"),
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
        collatz = lambda n: hop.while_loop(lambda c: c["n"] != 1, lambda c: {"n": hop.where(c["n"] % 2 == 0, c["n"] // 2, 3 * c["n"] + 1), "steps": c["steps"] + 1}, {"n": n, "steps": 0})["steps"]  # noqa: E731
        self.equal(collatz(27), 111)
        self.equal(hop.jit(collatz)(hop.asarray(27)), 111)
        self.equal(hop.vmap(collatz)(hop.asarray([1, 7, 27])), [0, 16, 111])
        power = lambda x: hop.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * x), (0, 1.0))[1]  # noqa: E731
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
        last, ys = hop.scan(lambda c, x: ((c[0] + x["a"], c[1]), x["b"]), (vector(0), None), {"a": hop.asarray([[1.0], [2.0]], dtype=hop.float64), "b": hop.arange(2)})
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
        rnn = lambda w, xs: hop.scan(lambda h, x: (hop.tanh(h @ w + x), None), hop.zeros(2), xs)[0]  # noqa: E731
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
        self.equal(hop.grad(lambda v: hop.sum(hop.associative_scan(lambda a, b: a * b, v)))(x), [33, 16, 10, 6])
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
        expected = [(plain([v + step * (i == k) for i, v in enumerate(x)]) - plain([v - step * (i == k) for i, v in enumerate(x)])) / (2 * step) for k in range(3)]
        self.close(hop.grad(f)(vector(*x)), expected, 1e-5)

    def test_python_numbers(self):
        """A number takes the dtype of what it meets; where that cannot hold it, it is not cut off."""
        for call, text in [
            (lambda: hop.jit(lambda p: hop.cond(p, lambda: hop.asarray(2), lambda: 0.5))(False), r"cond: result: false_fun gives f32\[\], true_fun gives i64\[\]"),
            (lambda: hop.jit(lambda p: hop.cond(p, lambda: hop.ones(4), lambda: 0.0))(True), r"cond: result: false_fun gives f32\[\], true_fun gives f32\[4\]"),
            (lambda: hop.jit(lambda k: hop.switch(k, [lambda: 2, lambda: 3.5, lambda: hop.asarray(4)]))(1), r"switch: result: branch 1 gives f32\[\], branch 2 gives i64\[\]"),
            (lambda: hop.scan(lambda c, x: (0.5, c), hop.asarray(2), hop.ones(2)), r"scan: carry: the function gives f32\[\], the loop began with i64\[\]"),
            (lambda: hop.while_loop(lambda c: c, lambda c: 2, hop.asarray(True)), r"while_loop: carry: the body gives i64\[\], the loop began with bool\[\]"),
            (lambda: hop.fori_loop(0, 3, lambda i, c: c / 2, hop.asarray(8)), r"gives f32\[\], the loop began with i64\[\]; integers divided by integers.*\.astype\(hop\.int64\)"),
            (lambda: hop.fori_loop(0, 3, lambda i, c: c * vector(2)[0], hop.asarray(8.0)), r"gives f64\[\], the loop began with f32\[\]$"),
        ]:  # fmt: skip
            with self.assertRaisesRegex(hop.InvalidError, text):
                call()
        self.equal(hop.jit(lambda k: hop.switch(k, [lambda: 2, lambda: 3.5, lambda: hop.asarray(4.0)]))(1), 3.5)
        self.equal(hop.fori_loop(0, 1, lambda i, c: 0.5, 2), 0.5, hop.float32)
        self.equal(hop.scan(lambda c, x: (3, c), vector(2)[0], vector(0, 0))[1], [2, 3], hop.float64)

    def test_errors(self):
        cases = [
            (lambda: hop.scan(lambda c, x: ({"h": [c["h"][0][:2]]}, None), {"h": [vector(1, 2, 3)]}, vector(1)), r"scan: carry\['h'\]\[0\]: the function gives f64\[2\], the loop began with f64\[3\]"),
            (lambda: hop.scan(lambda c, x: (c, x, x), 0.0, vector(1)), "pair"), (lambda: hop.scan(lambda c, x: ((c, c), x), 0.0, vector(1)), r"carry: .*\(\*, \*\), expected \*"),
            (lambda: hop.scan(lambda c, x: (c, x), 0.0, {"a": vector(1), "b": vector(1, 2)}), r"xs\['b'\] has length 2, xs\['a'\] has 1"), (lambda: hop.scan(lambda c, x: (c, x), 0.0, 1.0), "nothing to go over"),
            (lambda: hop.while_loop(lambda c: c, lambda c: c, 1.0), r"bool\[\]"), (lambda: hop.while_loop(lambda c: c < 1, lambda c: vector(1), vector(1)[0]), r"carry: the body gives f64\[1\], the loop began with f64\[\]"),
            (lambda: hop.fori_loop(0, 3, lambda i, c: (c,), 1.0), "structure"), (lambda: hop.associative_scan(lambda a, b: (a, b), vector(1)), "structure"),
        ]  # fmt: skip
        for call, text in cases:
            with self.assertRaisesRegex(hop.Error, text):
                call()
            with self.assertRaisesRegex(hop.Error, "test_control.py:[0-9]+"):
                call()
        with self.assertRaises(ValueError):
            hop.scan(lambda c, x: (c, x), 0.0)


if __name__ == "__main__":
    unittest.main()
