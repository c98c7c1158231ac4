"""Names: what an AttributeError of a well-known name says is itself right, and the functions that the
array-API standard has no name for agree with their definitions."""

import contextlib
import io
import math
import re
import unittest

import hop
from hop import _names
from support import Case, differences, needs_numpy, numpy


class Names(Case):
    def test_messages(self):
        for module, name, text in [
            (hop, "in1d", "hop has no 'in1d': use hop.isin"),
            (hop, "expit", "hop has no 'expit': use hop.sigmoid"),
            (hop, "segment_sum", r"\.at\[ids\]\.add"),
            (hop, "lax", "hop.scan"),
            (hop.linalg, "lstsq", "hop.linalg.pinv"),
            (hop.random, "seed", "hop.random.key"),
            (hop.tree, "tree_map", "hop.tree.map"),
            (hop.optim, "apply_updates", "new parameters"),
            (hop.ones(1), "fill", "hop.full_like"),
            (hop, "no_such_name", "^module 'hop' has no attribute 'no_such_name'$"),
        ]:  # fmt: skip
            with self.assertRaisesRegex(AttributeError, text):
                getattr(module, name)
            self.assertFalse(hasattr(module, name))
        with self.assertRaisesRegex(AttributeError, "numpy.asarray"):
            hop.jit(lambda x: x.numpy())(1.0)
        self.assertNotIn("fill", dir(hop.ones(1)))

    def test_advice_exists(self):
        """Every name that a message recommends is there; no name that a message is about is."""
        rows = [
            (hop, {n: "hop." + t for n, t in _names._RENAMED.items()}),
            (hop, _names._INSTEAD),
            (hop.linalg, _names._LINALG),
            (hop.random, _names._RANDOM),
            (hop.tree, _names._TREE),
            (hop.optim, _names._OPTIM),
            (hop.nn, _names._NN),
            (hop.tree_util, _names._TREE_UTIL),
            (hop.debug, _names._DEBUG),
            (hop.Array, _names._METHODS),
        ]
        for owner, table in rows:
            for name, text in table.items():
                self.assertFalse(hasattr(owner, name), name)
                for path in re.findall(r"\bhop\.([\w.]*\w)", text):
                    found = hop
                    for part in path.split("."):
                        self.assertTrue(hasattr(found, part), f"{name}: {text}")
                        found = getattr(found, part)
                for method in re.findall(r"\bx\.(\w+)", text):
                    self.assertTrue(hasattr(hop.Array, method), f"{name}: {text}")

    def test_dir(self):
        """It shows what is public, and nothing else."""
        for module in (hop, hop.linalg, hop.optim, hop.random, hop.tree):
            shown = [name for name in dir(module) if not name.startswith("__")]
            self.assertEqual(shown, sorted(name for name in module.__all__ if not name.startswith("__")))
            self.assertIn("__doc__", dir(module))
        self.assertIn("__version__", dir(hop))
        self.assertFalse({"builtins", "functools", "math", "os", "astype"} & set(dir(hop.random)))
        for shown in (dir(hop.ones(1)), dir(hop.Array)):
            self.assertIn("sum", shown)
        self.assertFalse(
            [name for name in dir(hop.ones(1)) if name.startswith("_") and not name.endswith("__")]
        )

    def test_print(self):
        def lines(call):
            with contextlib.redirect_stdout(io.StringIO()) as out:
                call()
            return out.getvalue()

        x = hop.asarray([1.0, 2.0])
        self.assertEqual(lines(lambda: hop.print("{y} {}, {}", x, 3, y=x[1])), "2.0 [1.0, 2.0], 3\n")
        self.assertEqual(lines(lambda: hop.print("{1} {0}", 1, 2, 3)), "2 1 3\n")
        for call in (
            lambda: hop.print("{:.3f} {{}}", x[0]),
            lambda: hop.jit(lambda v: hop.print("{:.3f} {{}}", v[0]))(x),
        ):
            self.assertEqual(lines(call), "1.000 {}\n")
        self.assertEqual(
            lines(lambda: hop.vmap(lambda v: (hop.print("{v:.1f}", v=v), v)[1])(x)), "1.0\n2.0\n"
        )
        for bad in (lambda: hop.print("{} {}", 1), lambda: hop.print("{name}", 1)):
            with self.assertRaisesRegex(ValueError, "there is no value for"):
                bad()


class Functions(Case):
    def test_units(self):
        points = [-30.0, -3.0, -0.5, 0.0, 0.5, 3.0, 30.0]
        normal = lambda x: 0.5 * math.erfc(-x / math.sqrt(2))  # noqa: E731
        for f, value in [
            (hop.relu, lambda x: max(x, 0.0)),
            (hop.silu, lambda x: x / (1 + math.exp(-x))),
            (hop.softplus, lambda x: math.log1p(math.exp(x))),
            (lambda x: hop.gelu(x, approximate=False), lambda x: x * normal(x)),
        ]:  # fmt: skip
            x = hop.asarray(points, dtype=hop.float64)
            self.close(f(x), [value(v) for v in points], 1e-12)
            self.close(hop.jit(f)(x), [value(v) for v in points], 1e-12)
            away = hop.asarray([v for v in points if v], dtype=hop.float64)
            self.close(hop.vmap(hop.grad(f))(away), differences(lambda v: hop.sum(f(v)), away), 1e-5)
        self.close(hop.gelu(hop.asarray(points)), [v * normal(v) for v in points], 5e-4)
        self.equal(hop.grad(hop.relu)(0.0), 0)
        self.equal(hop.grad(hop.softplus)(0.0), 0.5)
        self.close(
            hop.softplus(hop.asarray([1e30, -1e30, math.inf, -math.inf])),
            [hop.asarray(1e30).item(), 0, math.inf, 0],
        )
        self.assertTrue(math.isnan(hop.relu(hop.asarray(math.nan)).item()))

    def test_lgamma(self):
        points = [
            1e-6, 0.1, 0.5, 0.999, 1.0, 1.5, 2.0, 2.5, 7.9, 8.0, 8.1, 20.5, 171.0, 1e6, 1e200, -0.5, -1.5,
            -2.25, -10.9, -100.1, 1e-300,
        ]
        for call in (hop.lgamma, hop.jit(hop.lgamma)):
            for x in points:
                found, expected = call(hop.asarray(x, dtype=hop.float64)).item(), math.lgamma(x)
                self.assertLessEqual(abs(found - expected), 4e-14 * max(1, abs(expected)), x)
                rounded = hop.asarray(x).item()
                found = call(hop.asarray(x)).item()
                near = math.lgamma(rounded) if rounded not in (0.0, math.inf) else math.inf
                self.assertTrue(
                    found == near or abs(found - near) <= 2e-6 * max(1, abs(near)) * (10 if x < 0 else 1),
                    (x, found, near),
                )
        self.close(
            hop.lgamma(hop.asarray([math.inf, -2.0, 0.0, math.nan])), [math.inf, math.inf, math.inf, math.nan]
        )
        for dtype in (hop.float32, hop.float64):  # poles, and next to the one at 0
            poles = hop.asarray([-math.inf, -1e30, -(2.0**24), -3.0, -0.0], dtype=dtype)
            self.equal(hop.lgamma(poles), [math.inf] * 5)
            self.close(
                hop.lgamma(hop.asarray([-1e-38, 1e-38, -1e-10], dtype=dtype)),
                [87.498233534, 87.498233534, 23.025850930],
                1e-6,
            )
        euler = 0.5772156649015329
        digamma = {
            1.0: -euler,
            2.0: 1 - euler,
            0.5: -euler - 2 * math.log(2),
            10.0: sum(1 / k for k in range(1, 10)) - euler,
            -0.5: 2 - euler - 2 * math.log(2),
        }
        for x, expected in digamma.items():
            self.close(hop.grad(hop.lgamma)(hop.asarray(x, dtype=hop.float64)), expected, 1e-13)
        self.close(hop.grad(hop.grad(hop.lgamma))(hop.asarray(1.0, dtype=hop.float64)), math.pi**2 / 6, 1e-12)

    @needs_numpy
    def test_close(self):
        a, b = (
            numpy.asarray([1.0, 1.0, numpy.nan, numpy.inf, numpy.inf, 0.0]),
            numpy.asarray([1 + 1e-6, 1.1, numpy.nan, numpy.inf, -numpy.inf, 1e-9]),
        )
        for options in ({}, {"equal_nan": True}, {"rtol": 0.2}, {"atol": 1.0, "rtol": 0.0}):
            self.equal(hop.isclose(a, b, **options), numpy.isclose(a, b, **options).tolist())
            self.assertEqual(
                bool(hop.allclose(a[:2], b[:2], **options)), numpy.allclose(a[:2], b[:2], **options)
            )
        self.equal(hop.jit(hop.allclose)(a, a), False)

    @needs_numpy
    def test_quantile(self):
        x = numpy.random.default_rng(0).normal(size=(5, 4, 3))
        for q in (0, 0.0, 0.3, 0.5, 1.0, numpy.asarray([0.1, 0.9]), numpy.asarray([[0.1], [0.9]])):
            for axis in (None, 0, 1, -1, (0, 2), (-1, 1), (0, 1, 2)):
                for keepdims in (False, True):
                    self.same(
                        hop.quantile(x, q, axis=axis, keepdims=keepdims),
                        numpy.asarray(numpy.quantile(x, q, axis=axis, keepdims=keepdims)),
                        1e-12,
                    )
        self.close(hop.jit(hop.quantile)(x, 0.25), numpy.quantile(x, 0.25), 1e-12)
        self.close(hop.vmap(lambda v: hop.quantile(v, 0.5))(x), numpy.median(x.reshape(5, -1), axis=1), 1e-12)
        self.close(
            hop.grad(lambda v: hop.quantile(v, 0.5))(hop.asarray([3.0, 1.0, 2.0, 5.0])), [0.5, 0, 0.5, 0]
        )
        self.assertTrue(math.isnan(hop.quantile(hop.asarray([1.0, math.nan]), 0.0).item()))
        with self.assertRaisesRegex(ValueError, "no elements"):
            hop.quantile(hop.zeros(0), 0.5)

    def test_quantile_beside_infinities(self):
        inf, nan = math.inf, math.nan
        rows = (
            ([inf, inf], [inf, inf, inf, inf]),
            ([-inf, -inf], [-inf, -inf, -inf, -inf]),
            ([1.0, inf], [1.0, inf, inf, inf]),
            ([-inf, 1.0], [-inf, -inf, -inf, 1.0]),
            ([-inf, inf], [-inf, nan, nan, inf]),
            ([-1.5e308, 1.5e308], [-1.5e308, -0.75e308, 0.75e308, 1.5e308]),
        )
        for values, expected in rows:
            for function in (hop.quantile, hop.jit(hop.quantile)):
                found = function(
                    hop.asarray(values, dtype=hop.float64), hop.asarray([0.0, 0.25, 0.75, 1.0])
                ).tolist()
                self.assertTrue(
                    all(
                        (a == b) or (a != a and b != b) or abs(a - b) < 1e295 for a, b in zip(found, expected)
                    ),
                    (values, found),
                )
        self.equal(hop.quantile(hop.asarray([inf, 2.0, -inf, 1.0]), 0.5), 1.5)
        # more elements than an f16 can count
        x = hop.astype(hop.arange(0, 4001, dtype=hop.float32) / 4, hop.float16)
        self.equal(hop.quantile(x, 0.999), 999.0)
        self.assertEqual(hop.quantile(x, 0.5).dtype, hop.float16)
        self.equal(hop.grad(lambda q: hop.quantile(hop.asarray([1.0, 3.0, 7.0]), q))(0.25), 4.0)

    @needs_numpy
    def test_interp(self):
        xp, fp, x = (
            numpy.asarray([0.0, 1.0, 1.0, 3.0]),
            numpy.asarray([1.0, 2.0, 5.0, 4.0]),
            numpy.linspace(-1, 4, 26),
        )
        self.close(hop.interp(x, xp, fp), numpy.interp(x, xp, fp), 1e-12)
        self.close(
            hop.jit(hop.interp)(x.reshape(2, 13), xp, fp), numpy.interp(x.reshape(2, 13), xp, fp), 1e-12
        )
        slope = hop.grad(lambda v: hop.interp(v, hop.asarray([0.0, 1.0, 3.0]), hop.asarray([1.0, 2.0, 0.0])))
        self.equal(hop.vmap(slope)(hop.asarray([-1.0, 0.5, 2.0, 4.0])), [0, 1, -1, 0])
        self.equal(hop.interp(2.0, hop.asarray([1.0]), hop.asarray([7.0])), 7)
        with self.assertRaisesRegex(ValueError, "same length"):
            hop.interp(1.0, xp, fp[:2])


if __name__ == "__main__":
    unittest.main()
