"""NumPy's habits: arguments by position where NumPy takes them so, and what is said of arguments that hop
does not have."""

import inspect
import re
import unittest

import hop
from hop import _habits
from support import Case, needs_numpy, numpy


class Positions(Case):
    @needs_numpy
    def test_as_numpy(self):
        a = numpy.random.default_rng(1).normal(size=(2, 3, 4))
        v, m = a[0, 0], a[0]
        i = numpy.asarray([1, 0, 1])
        rows = [
            *[
                (name, (a, axis))
                for name in (
                    "sum", "prod", "mean", "var", "std", "max", "min", "any", "all", "argmax", "argmin",
                    "count_nonzero", "flip", "sort", "argsort",
                )
                for axis in (0, 1, -1)
            ],
            *[(name, (a, 1, "float32")) for name in ("sum", "prod", "mean", "var", "std")],
            ("expand_dims", (a, 1)),
            ("squeeze", (a[:1], 0)),
            ("roll", (a, 1, 2)),
            ("roll", (a, 1)),
            ("take", (a, i, 1)),
            ("repeat", (a, 2, 1)),
            ("repeat", (a, i + 1, 1)),
            ("concat", ([a, a], 1)),
            ("stack", ([a, a], -1)),
            ("moveaxis", (a, 0, 2)),
            ("swapaxes", (a, 0, 1)),
            ("zeros", (3, "int64")),
            ("ones", ((2, 2), "float32")),
            ("full", ((2,), 7, "float64")),
            ("empty", (0, "int8")),
            ("zeros_like", (a, "int64")),
            ("ones_like", (a, "int64")),
            ("full_like", (a, 3, "int64")),
            ("eye", (2, 3, 1, "float64")),
            ("arange", (1, 9, 2, "float32")),
            ("asarray", ([1, 2], "float64")),
            ("reshape", (a, (4, 6))),
            ("where", (a > 0, a, 0)),
            ("clip", (a, -0.5, 0.5)),
            ("diff", (a, 2, 1)),
            ("diff", (a, 1)),
            ("searchsorted", (numpy.sort(v), v, "right")),
            ("tensordot", (a, a, 3)),
            ("tensordot", (m, m, ((0,), (0,)))),
            ("tril", (m, 1)),
            ("triu", (m, -1)),
            ("quantile", (a, 0.3, 1)),
            ("isclose", (a, a + 1e-3, 1e-2, 1e-2)),
            ("broadcast_to", (v, (3, 4))),
            ("tile", (m, (2, 1))),
            ("take_along_axis", (m, numpy.argsort(m, 1), 1)),
            ("round", (a, 2)),
            ("round", (1234 * a, -2)),
            ("trace", (m, 1)),
            ("meshgrid", (v, v)),
            ("outer", (v, v)),
            ("linspace", (0.0, 1.0, 5, False)),
            ("linspace", (0.0, 1.0)),
            ("diagonal", (m, 1)),
            ("cumulative_sum", (v,)),
            ("split", (a, 2, 2)),
            ("atan2", (v, v)),
        ]
        for name, args in rows:
            with self.subTest(name):
                found, expected = getattr(hop, name)(*args), getattr(numpy, name)(*args)
                for x, y in (
                    zip(found, expected) if isinstance(expected, (tuple, list)) else [(found, expected)]
                ):
                    self.assertEqual(x.shape, numpy.shape(y))
                    self.close(x, numpy.asarray(y, dtype="float64").tolist(), 1e-5)

    @needs_numpy
    def test_methods(self):
        a = numpy.random.default_rng(2).normal(size=(3, 4))
        x = hop.asarray(a)
        for name in ("sum", "prod", "mean", "var", "std", "max", "min", "any", "all", "argmax", "argmin"):
            self.close(getattr(x, name)(1), getattr(a, name)(1).tolist(), 1e-12)
            self.close(numpy.asarray(getattr(numpy, name)(x, axis=0)), getattr(a, name)(0).tolist(), 1e-12)
        self.close(x.std(0, ddof=1), a.std(0, ddof=1).tolist(), 1e-12)
        self.assertIs(x.sum(0, "float32").dtype, hop.float32)
        self.close(x.take(hop.asarray([2, 0]), 1), a.take([2, 0], 1).tolist())
        self.close(x.repeat(2, 0), a.repeat(2, 0).tolist())
        self.close(x.round(1), a.round(1).tolist(), 1e-12)
        with self.assertRaisesRegex(TypeError, "keepdims"):
            x.max(0, None, True)

    @needs_numpy
    def test_round(self):
        rng = numpy.random.default_rng(3)
        a = numpy.concatenate(
            [rng.normal(size=20) * 100, [0.5, 1.5, -2.5, numpy.inf, -numpy.inf, numpy.nan, 1e300]]
        )
        for decimals in (-2, -1, 0, 1, 3):
            for f in (hop.round, hop.jit(hop.round, static_argnums=1)):
                self.close(f(a, decimals), numpy.round(a, decimals).tolist(), 1e-12)
        self.assertEqual(hop.round(hop.asarray(1e300, dtype=hop.float64), 300).item(), 1e300)
        n = rng.integers(-1000, 1000, 200)
        for decimals in (-3, -2, -1, 0, 2):
            self.same(hop.round(n, decimals), numpy.round(n, decimals))
        self.equal(hop.round(hop.asarray([3, 99], dtype=hop.int8), -5), [0, 0], hop.int8)
        with self.assertRaisesRegex(hop.InvalidError, "round: decimals"):
            hop.round(1.5, 0.5)


class Arguments(Case):
    def test_messages(self):
        x = hop.ones((2, 2))
        place = r"^.*test_habits\.py:\d+: "
        for call, text in [
            (
                lambda: hop.var(x, ddof=1),
                place + r"var: there is no argument 'ddof': use correction=1; it is var\(x, /, axis=None",
            ),
            (lambda: hop.sum(x, out=x), r"sum: there is no argument 'out': arrays are values"),
            (lambda: hop.sum(x, where=x > 0), r"hop\.sum\(hop\.where\(mask, x, 0\)\)"),
            (lambda: hop.exp(x, where=x > 0), r"hop\.where\(mask, hop\.exp\(…\), other\)"),
            (lambda: hop.max(x, initial=0), r"hop\.maximum\(hop\.max\(x\), initial\)"),
            (lambda: hop.take(x, 1, mode="wrap"), "indices % n"),
            (lambda: hop.zeros(2, order="F"), "row-major"),
            (lambda: hop.add(x, x, casting="no"), "astype"),
            (lambda: hop.add(x, x, dtype="int64"), r"hop\.add\(…\)\.astype"),
            (lambda: hop.asarray(x, like=x), "one class"),
            (lambda: hop.zeros_like(x, subok=True), "one class"),
            (lambda: hop.sum(x, dim=0), "use axis=0"),
            (lambda: hop.sum(x, keepdim=True), "use keepdims=True"),
            (lambda: hop.clip(x, a_min=0), "use min=0"),
            (lambda: hop.sort(x, kind="stable"), "sorting is stable"),
            (lambda: hop.quantile(x, 0.5, method="lower"), "straight line"),
            (lambda: hop.linspace(0.0, 1.0, 3, retstep=True), "step is"),
            (lambda: hop.random.uniform(hop.random.key(0), size=3), "use shape=3"),
            (lambda: hop.random.randint(hop.random.key(0), (), low=0, high=3), "use minval=0"),
            (lambda: hop.linalg.pinv(x, rcond=1e-3), "use rtol=0.001"),
            (lambda: hop.ones(2, requires_grad=True), "hop.grad says"),
            (lambda: hop.einsum("ij->ji", x, optimize=True), "leave it out"),
            (lambda: x.sum(where=x > 0), r"hop\.where"),
            (lambda: x.max(dim=0), "use axis=0"),
            (lambda: hop.concat([x], axs=0), r"those given by name are axis; did you mean 'axis'\?"),
            (lambda: hop.sin(x, banana=1), "no argument 'banana': all are given by position"),
            (lambda: hop.sum(x=x), "give x by position, not by name"),
            (lambda: hop.sum(x, 0, axis=1), "axis is given twice"),
            (
                lambda: hop.sum(x, 0, None, None, True),
                "takes 3 arguments by position, found 5: pass the others by name: keepdims=",
            ),
            (lambda: hop.any(x, 0, True), "pass keepdims by name: keepdims=True"),
            (lambda: hop.sin(x, x), "takes 1 arguments by position, found 2; it is sin"),
            (lambda: hop.roll(x), "roll: shift is missing; it is roll"),
            (lambda: hop.where(), "condition and x1 and x2 are missing"),
            (lambda: hop.interp(1.0, x[0], x[0], left=0), r"use hop\.where\(x < xp\[0\], left"),
            (lambda: hop.unique(x, axis=0), "whole slices are not compared"),
            (
                lambda: hop.where(x > 0),
                r"x1 and x2 are missing \(hop.nonzero\(condition\) says where it holds\)",
            ),
            (lambda: hop.sum(x, ddof=1), "those given by name are axis"),
            (lambda: hop.scan(lambda c, y: (c, y), 0.0, x, nothing=1), "no argument 'nothing'"),
            (lambda: hop.linspace(0.0, 1.0, num=3, num_=2), "did you mean 'num'"),
        ]:
            with self.assertRaisesRegex(TypeError, text):
                call()
            with self.assertRaisesRegex(TypeError, text):
                hop.jit(lambda v: call())(1.0)

    def test_own_type_errors_stay(self):
        with self.assertRaisesRegex(TypeError, r"^.*f\(\) got an unexpected keyword argument 'ddof'"):

            def f(x):
                return x

            hop.jit(lambda x: f(x, ddof=1))(1.0)
        with self.assertRaisesRegex(TypeError, "takes 1 positional argument"):
            hop.grad(lambda x: x)(1.0, 2.0)

    def test_advice_exists(self):
        """What a rule recommends is there, and no function has the argument that its rule is about."""
        for table in (_habits._RULES, _habits._RANDOM):
            for argument, found in table.items():
                for text in found.values() if isinstance(found, dict) else [found]:
                    for path in re.findall(r"\bhop\.([a-z][\w.]*\w)", text):
                        at = hop
                        for part in path.split("."):
                            self.assertTrue(hasattr(at, part), f"{argument}: {text}")
                            at = getattr(at, part)
                    for method in re.findall(r"\bx\.(\w+)", text):
                        self.assertTrue(hasattr(hop.Array, method), f"{argument}: {text}")
                if isinstance(found, dict):
                    for name in found:
                        function = (
                            getattr(hop, name, None) or getattr(hop.linalg, name, None) if name else None
                        )
                        if function is not None:
                            self.assertNotIn(argument, inspect.signature(function).parameters, name)


if __name__ == "__main__":
    unittest.main()
