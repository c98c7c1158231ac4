"""jit: when programs are made anew, static arguments, donation, what a closure refers to, looking inside."""

import collections
import dataclasses
import json
import queue
import typing
import unittest

import hop
from support import Case, needs_numpy, numpy


RUNS = []


class Counted:
    """A function that counts how often its Python code runs."""

    def __init__(self, function):
        self.function, self.calls = function, []

    def __call__(self, *args, **named):
        self.calls.append(None)
        return self.function(*args, **named)

    @property
    def runs(self):
        return len(self.calls)


class Caching(Case):
    def test_types_and_structure(self):
        f = Counted(lambda t: t["x"] + t["y"][0])
        g = hop.jit(f)
        x = hop.ones(2)
        for _ in range(3):
            self.equal(g({"x": x, "y": [x]}), [2, 2])
        self.assertEqual(f.runs, 1)
        g({"x": x, "y": (x,)})
        g({"y": [x], "x": x})
        self.assertEqual(f.runs, 2)
        g({"x": hop.ones(3), "y": [hop.ones(3)]})
        g({"x": x, "y": [x.astype(hop.float64)]})
        self.assertEqual(f.runs, 4)
        g.clear_cache()
        g({"x": x, "y": [x]})
        self.assertEqual(f.runs, 5)

    def test_functions_made_anew_share_programs(self):
        RUNS.clear()

        def make(k):
            return hop.jit(lambda x: RUNS.append(k) or x * k)

        x = hop.ones(2)
        self.assertEqual([make(k)(x)[0].item() for k in (2, 2, 3, 2)], [2, 2, 3, 2])
        self.assertEqual(RUNS, [2, 3])

    def test_closure_that_changes(self):
        scale = 2.0
        f = hop.jit(lambda x: x * scale)
        x = hop.ones(2)
        for value in (2.0, 5.0, 2.0):
            scale = value
            for _ in range(3):
                self.equal(f(x), [value, value])
        data = hop.ones(2)
        g = hop.jit(lambda x: x + data)
        self.equal(g(x), [2, 2])
        data = hop.zeros(2)
        self.equal(g(x), [1, 1])

    def test_arguments(self):
        f = hop.jit(lambda a, b=2.0, *, c=3.0: a + b * c)
        self.assertEqual(
            [f(1.0).item(), f(1.0, 1.0).item(), f(1.0, c=1.0).item(), f(a=1.0, b=0.0).item()], [7, 4, 3, 1]
        )
        self.equal(hop.jit(lambda x: x)(3), 3, hop.int64)
        self.assertEqual(hop.jit(lambda: (hop.ones(1), None))()[1], None)
        self.assertEqual(hop.jit(lambda x: ())(1), ())
        self.equal(hop.jit(lambda x: 5)(1.0), 5)

    @needs_numpy
    def test_numpy_arguments(self):
        f = hop.jit(lambda x: x * 2)
        a = numpy.arange(4.0)
        for v in (a, a[::2], a[::-1], numpy.broadcast_to(a, (2, 4))):
            for _ in range(2):
                self.same(f(v), v * 2)

    def test_constants_stay_concrete(self):
        def f(x):
            grid = hop.linspace(0.0, 1.0, 3)
            self.assertIn("0.5", repr(grid))
            self.assertEqual(grid[1:].tolist(), [0.5, 1.0])
            return x * hop.repeat(grid, hop.asarray([1, 2, 1]))[hop.asarray(1)]

        self.equal(hop.jit(f)(hop.ones(2)), [0.5, 0.5])

    def test_numbers_as_arguments(self):
        f = Counted(lambda x, n: x * n)
        g = hop.jit(f)
        x = hop.ones(1)
        self.assertEqual([g(x, n).item() for n in (2.0, 3.0, -1.5)], [2, 3, -1.5])
        self.assertEqual([g(x, n).item() for n in (2, 3)], [2, 3])
        self.assertEqual([g(x, n).item() for n in (True, False)], [1, 0])
        self.assertEqual(f.runs, 3)
        with self.assertRaises((OverflowError, TypeError)):
            g(x, 1 << 70)

    def test_static(self):
        f = Counted(lambda x, n, mode="up": x * n if mode == "up" else x / n)
        g = hop.jit(f, static_argnums=1, static_argnames="mode")
        x = hop.ones(1)
        self.assertEqual(
            [g(x, 2).item(), g(x, 2).item(), g(x, 4, mode="down").item(), g(x, 4).item()], [2, 2, 0.25, 4]
        )
        self.assertEqual(f.runs, 3)
        h = hop.jit(
            lambda x, n, mode: x * n if mode == "up" else x / n, static_argnums=1, static_argnames="mode"
        )
        self.assertEqual(
            [h(x, 2, "up").item(), h(x, n=4, mode="down").item(), h(x, 4, "down").item()], [2, 0.25, 0.25]
        )
        with self.assertRaises(TypeError):
            hop.jit(lambda x: x, static_argnums="x")
        with self.assertRaisesRegex(TypeError, "hashable"):
            g(x, [2])
        with self.assertRaisesRegex(TypeError, "argument s.*str.*static"):
            hop.jit(lambda x, s: x)(x, "up")

        @hop.jit
        def decorated(x):
            "What it does."
            return x

        self.assertEqual((decorated.__name__, decorated.__doc__), ("decorated", "What it does."))

    def test_methods(self):
        class Model:
            factor = 3.0

            @hop.jit
            def twice(x):
                return x * 2

            def apply(self, x):
                return x * self.factor

        self.equal(hop.jit(Model().apply)(hop.ones(1)), [3])
        self.equal(Model.twice(hop.ones(1)), [2])

    def test_donation(self):
        f = hop.jit(lambda s, x: {"a": s["a"] + x}, donate_argnums=0)
        s = {"a": hop.zeros(1000)}
        where = s["a"]._pointer
        for i in range(5):
            old = s
            s = f(s, hop.ones(1000))
            self.assertTrue(old["a"]._donated)
        self.equal(s["a"][:2], [5, 5])
        self.assertEqual(s["a"]._pointer, where)
        with self.assertRaisesRegex(RuntimeError, "donated"):
            old["a"] + 1
        self.assertIn("donated", repr(old["a"]))
        both = hop.jit(lambda a, b: a + b, donate_argnums=(0, 1))
        x = hop.ones(100)
        with self.assertRaisesRegex(hop.Error, "both donated"):
            both(x, x)
        failing = hop.jit(lambda a: (hop.check(a < 0, "m"), a)[1], donate_argnums=0)
        self.assertFalse(x._donated)  # wrong arguments take nothing
        with self.assertRaises(hop.CheckError):
            failing(x)
        # a call that fails has its memory all the same: it may have been overwritten
        with self.assertRaisesRegex(RuntimeError, "donated"):
            failing(x)
        self.assertEqual(x.shape, (100,))

    def test_looking_inside(self):
        f = hop.jit(lambda x: hop.sum(hop.sin(x)))
        x = hop.ones(3)
        self.assertIn("sin(%x)", f.text(x))
        self.assertIn("float", f.c(x))
        self.assertIn("nodes", f.explain(x))
        low = f.lower(x)
        self.assertIn("stored values", low.explain("all"))
        self.assertEqual(json.loads(low.explain("json"))["passes"][0].keys(), {"pass", "nodes", "ms"})
        self.assertIn("int norm(", low.emit("c", name="norm"))
        self.assertIn('#include "norm.h"', low.emit("c", name="norm", header="norm.h"))
        self.assertIn("int norm(", low.emit("header", name="norm"))
        self.assertIn("strict numbers", hop.jit(lambda x: hop.sin(x), strict=True).c(x))
        self.assertIn("define ", low.emit("llvm"))
        with self.assertRaisesRegex(hop.InvalidError, "expected 'c', 'header'"):
            low.emit("prose")
        with self.assertRaisesRegex(hop.InvalidError, "expected 'short', 'all' or 'json'"):
            low.explain("prose")
        self.assertEqual((low.in_types, low.out_types), (("f32[3]",), ("f32[]",)))
        self.close(low.compile().run([x])[0], 3 * 0.8414709848)
        self.close(low.function.interpret(x), 3 * 0.8414709848)

    def test_options(self):
        x = hop.asarray([0.1, 0.2, 0.3])
        f = lambda v: hop.sum(hop.exp(v) * v)  # noqa: E731
        strict = hop.jit(f, strict=True)
        self.assertEqual(strict(x).item(), strict.lower(x).function.interpret(x).item())
        self.close(hop.jit(f, portable=True)(x), f(x))

    def test_inside_of_programs(self):
        f = hop.jit(lambda x: x * 2)
        self.equal(hop.jit(lambda x: f(f(x)))(hop.ones(1)), [4])
        self.equal(hop.grad(lambda x: hop.sum(f(x)))(hop.ones(2)), [2, 2])

    def test_effects(self):
        import contextlib
        import io

        def f(x):
            hop.print("x = {}", x)
            hop.check(x > 0, "x is positive", x)
            return x

        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            hop.jit(f)(hop.asarray(2.0))
            f(hop.asarray(3.0))
        self.assertEqual(out.getvalue().split(), ["x", "=", "2", "x", "=", "3.0"])
        with self.assertRaisesRegex(hop.CheckError, "x is positive"):
            hop.jit(f)(hop.asarray(-2.0))

    def test_sizes_that_only_a_run_knows(self):
        f = hop.jit(lambda x: x[x > 1] * 2)
        self.equal(f(hop.asarray([1.0, 2.0, 3.0])), [4, 6])
        self.equal(f(hop.asarray([0.0, 0.0, 3.0])), [6])
        self.equal(f(hop.asarray([0.0, 0.0, 0.0])), [])


class Tracers(Case):
    def test_truth(self):
        def f(x):
            if x > 0:
                return x
            return -x

        self.equal(hop.jit(f)(-1.0), 1)
        with self.assertRaisesRegex(hop.TracerError, "test_jit.py:[0-9]+.*hop.cond"):
            hop.jit(f, control=False)(1.0)
        for use in (
            float,
            int,
            lambda x: [1, 2][x],
            lambda x: x.item(),
            lambda x: x.tolist(),
            lambda x: range(x),
            lambda x: memoryview(x),
        ):
            with self.assertRaises((hop.TracerError, TypeError)):
                hop.jit(use, control=False)(hop.asarray(1))

    def test_quick_calls(self):
        """Trees of every kind, keywords and static values: the second call with the same types runs no
        Python code of the function."""

        @dataclasses.dataclass
        class Layer:
            weight: object
            kind: str = dataclasses.field(default="a", metadata={"static": True})

        class Pair(typing.NamedTuple):
            x: object
            y: object

        class Box:
            def __init__(self, held, label):
                self.held, self.label = held, label

        hop.tree.register(Box, lambda b: ([b.held], b.label), lambda label, children: Box(children[0], label))
        runs = []

        def f(tree, factor, mode="a", **named):
            runs.append(mode)
            return hop.tree.map(lambda x: x * factor + (mode == "b"), (tree, named))

        g = hop.jit(f, static_argnums=1, static_argnames="mode")
        make = lambda v: [  # noqa: E731
            Layer(hop.full((2,), v)),
            Pair(v, Layer(v, "b")),
            Box({"k": (v, None)}, "label"),
            collections.OrderedDict(z=v, a=v),
        ]
        for quick in (make(1.0), make(1.0)[:3]):
            runs.clear()
            for v in (1.0, 2.0, 3.0):
                tree, named = g(make(v)[: len(quick)], 2, mode="b", more=Pair(v, hop.ones(3)))
                self.equal(tree[0].weight, [2 * v + 1] * 2)
                self.assertEqual((tree[1].y.kind, tree[2].label), ("b", "label"))
                self.equal(tree[2].held["k"][0], 2 * v + 1)
                self.equal(named["more"].y, [3, 3, 3])
                self.assertEqual([type(x) for x in tree], [type(x) for x in quick])
            self.assertEqual(runs, ["b"])
        runs.clear()
        for factor, dtype in (
            (2, "int64"),
            (2.0, "float32"),
            (True, "int64"),
            (2, "int64"),
            (2.0, "float32"),
        ):
            self.assertEqual(g(1 if dtype == "int64" else 1.0, factor)[0].dtype, dtype)
        self.assertEqual(len(runs), 3)
        for other in (
            Layer(1.0, "c"),
            Box(1.0, "other"),
            Box(1.0, frozenset([1])),
            Box(1.0, frozenset([1])),
            Pair(1.0, 2.0),
            (1.0, 2.0),
            [1.0, 2.0],
        ):
            made = g(other, 2)[0]
            self.assertIs(type(made), type(other))
            self.assertEqual(getattr(made, "label", None), getattr(other, "label", None))
            self.assertEqual(getattr(made, "kind", None), getattr(other, "kind", None))

    def test_many_leaves(self):
        f = hop.jit(lambda tree: hop.tree.map(lambda x: x + 1, tree))
        for n in (50, 300, 1200):
            tree = {f"name of a leaf {i}": hop.full((1, 1), float(i)) for i in range(n)}
            for _ in range(2):
                out = f(tree)
                self.assertEqual([out[k].item() for k in tree], [i + 1.0 for i in range(n)])

    def test_leaks(self):
        way = queue.SimpleQueue()  # of which nobody knows what is inside
        hop.jit(lambda x: way.put(x * 2) or x)(hop.ones(1))
        kept = [way.get()]
        for use in (
            lambda: kept[0] + 1,
            lambda: hop.jit(lambda x: x + kept[0])(hop.ones(1)),
            lambda: hop.grad(lambda x: x * kept[0][0])(1.0),
        ):
            with self.assertRaisesRegex(hop.TracerError, "test_jit.py:[0-9]+.*test_jit.py:[0-9]+"):
                use()

        def f(x):
            hop.scan(lambda c, v: (way.put(c * 2) or c, v), x[0], x)
            return way.get() + 1

        with self.assertRaisesRegex(hop.Error, "test_jit.py:[0-9]+.*test_jit.py:[0-9]+"):
            hop.jit(f)(hop.ones(2))
        self.assertIn("Tracer", repr(kept[0]))

    @needs_numpy
    def test_numpy_functions(self):
        with self.assertRaisesRegex(hop.TracerError, "NumPy"):
            hop.jit(lambda x: numpy.sin(x))(hop.ones(2))


class WhatJaxTakes(Case):
    def test_donated_names(self):
        f = hop.jit(lambda x, y=1.0: {"z": x["a"] + y}, donate_argnames="x")
        for call in (lambda p: f(p), lambda p: f(x=p), lambda p: f(y=2.0, x=p)):
            for _ in range(2):  # at first and quickly
                x = {"a": hop.ones(3)}
                call(x)
                self.assertIn("donated", repr(x["a"]))
        by_number = hop.jit(lambda x, y: x + y, donate_argnums=0)
        x, y = hop.ones(3), hop.ones(3)
        by_number(y=y, x=x)
        self.assertIn("donated", repr(x))
        self.equal(y, [1, 1, 1])
        with self.assertRaisesRegex(hop.InvalidError, "donate_argnames: there is no argument 'z'"):
            hop.jit(lambda x: x, donate_argnames="z")
        with self.assertRaisesRegex(hop.InvalidError, "argument 'x' is static|argument 0 is static"):
            hop.jit(lambda x: x, donate_argnames="x", static_argnums=0)


if __name__ == "__main__":
    unittest.main()
