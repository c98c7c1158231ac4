"""Every operator against NumPy, at once and captured."""

import math
import unittest

import hop
from support import Case, needs_numpy, numpy


@needs_numpy
class Elements(Case):
    UNARY = {
        "abs": "abs", "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh",
        "atan": "arctan", "atanh": "arctanh", "cos": "cos", "cosh": "cosh", "exp": "exp", "expm1": "expm1",
        "log": "log", "log1p": "log1p", "log2": "log2", "log10": "log10", "negative": "negative",
        "sin": "sin", "sinh": "sinh", "sqrt": "sqrt", "tan": "tan", "tanh": "tanh", "exp2": "exp2",
        "cbrt": "cbrt", "ceil": "ceil", "floor": "floor", "trunc": "trunc", "round": "round", "sign": "sign",
        "square": "square", "isnan": "isnan", "isinf": "isinf", "isfinite": "isfinite", "signbit": "signbit",
        "reciprocal": "reciprocal", "positive": "positive", "logical_not": "logical_not",
    }  # fmt: skip
    BINARY = {
        "add": "add", "atan2": "arctan2", "copysign": "copysign", "divide": "divide", "equal": "equal",
        "floor_divide": "floor_divide", "greater": "greater", "greater_equal": "greater_equal",
        "hypot": "hypot", "less": "less", "less_equal": "less_equal", "maximum": "maximum",
        "minimum": "minimum", "multiply": "multiply", "not_equal": "not_equal", "pow": "power",
        "remainder": "remainder", "subtract": "subtract", "fmod": "fmod", "logaddexp": "logaddexp",
        "logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor",
    }  # fmt: skip

    def test_unary(self):
        for dtype in ("float32", "float64"):
            a = numpy.array([[0.5, -0.25, 0.0], [-0.0, 2.5, numpy.nan]], dtype=dtype)
            for name, theirs in self.UNARY.items():
                with numpy.errstate(all="ignore"):
                    expected = getattr(numpy, theirs)(a)
                for x in (getattr(hop, name)(hop.asarray(a)), hop.jit(getattr(hop, name))(a)):
                    self.assertEqual((x.shape, x.dtype.name), (expected.shape, expected.dtype.name), name)
                    self.close(x, expected, 3e-6)

    def test_binary(self):
        for dtype in ("float32", "float64", "int32", "int64"):
            a = numpy.array([[1, -2, 3], [4, 5, -6]], dtype=dtype)
            b = numpy.array([3, 2, 4], dtype=dtype)
            for name, theirs in self.BINARY.items():
                real = name in ("atan2", "copysign", "hypot", "logaddexp")
                if real and dtype[0] == "i":
                    continue
                with numpy.errstate(all="ignore"):
                    expected = getattr(numpy, theirs)(a, b)
                if dtype[0] == "i" and expected.dtype == "float64":
                    expected = expected.astype("float32")
                for x in (getattr(hop, name)(hop.asarray(a), b), hop.jit(getattr(hop, name))(a, b)):
                    self.assertEqual(
                        (x.shape, x.dtype.name), (expected.shape, expected.dtype.name), f"{name} {dtype}"
                    )
                    self.close(x, expected, 3e-6)

    def test_bits(self):
        a, b = numpy.array([12, 5, 255], dtype="u1"), numpy.array([10, 1, 3], dtype="u1")
        for name, theirs in {
            "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor",
            "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift",
        }.items():
            if "shift" not in name:
                self.same(getattr(hop, name)(a, b), getattr(numpy, theirs)(a, b))
        self.same(hop.asarray(a) << 1, a << 1)
        self.same(hop.asarray(a) >> 1, a >> 1)
        self.same(~hop.asarray(a), ~a)
        self.equal(hop.popcount(a), [2, 2, 8])
        t = numpy.array([True, False])
        self.same(hop.asarray(t) & t[::-1], t & t[::-1])
        self.same(~hop.asarray(t), ~t)

    def test_python_signs(self):
        a = numpy.array([7.0, -7.0, 2.5])
        x = hop.asarray(a)
        for sign in ("+", "-", "*", "/", "//", "%", "**", "<", "<=", ">", ">=", "==", "!="):
            for left, right in (("v", "2"), ("3", "v"), ("v", "v"), ("v", "0.5")):
                if sign == "**" and left == "v" and right in ("v", "0.5"):
                    continue
                expected = eval(f"{left} {sign} {right}", {"v": a})
                self.close(eval(f"{left} {sign} {right}", {"v": x}), expected, 1e-12)
        self.equal(
            divmod(hop.asarray(7), 2)[0] if hasattr(hop.Array, "__divmod__") else hop.asarray(7) // 2, 3
        )
        self.equal(-x, [-7.0, 7.0, -2.5])
        self.equal(abs(x), [7.0, 7.0, 2.5])
        with self.assertRaises(TypeError):
            x + "a"
        with self.assertRaises(TypeError):
            x + None
        self.assertIsInstance(x == hop.asarray(1), hop.Array)

    def test_numbers_take_the_arrays_dtype(self):
        for d in ("float16", "float32", "float64", "int8", "uint8", "int64"):
            self.assertEqual((hop.ones(2, dtype=d) + 1).dtype, d)
            self.assertEqual((hop.ones(2, dtype=d) * 1.5).dtype, d if d[0] == "f" else "float32")
        self.assertEqual((hop.ones(2, dtype="bool") + 1).dtype, "int64")
        self.equal(hop.asarray([1, 255], dtype="uint8") == 255, [False, True])
        self.equal(hop.asarray([1, 255], dtype="uint8") + 1, [2, 0])

    def test_where_and_clip(self):
        a = numpy.arange(5.0)
        self.same(hop.where(a > 2, a, -a), numpy.where(a > 2, a, -a))
        self.equal(hop.where(hop.asarray([True, False]), 1.0, 0.0), [1, 0], hop.float32)
        self.same(hop.clip(a, 1, 3), numpy.clip(a, 1, 3))
        self.same(hop.astype(a, hop.int32), a.astype("i4"))
        self.equal(hop.fma(hop.asarray(2.0), 3.0, 1.0), 7.0)


@needs_numpy
class Axes(Case):
    A = (
        None
        if numpy is None
        else numpy.array([[[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]], [[9.0, 7.0, 8.0], [0.5, 0.25, 2.0]]])
    )

    def both(self, function, expected, tolerance=1e-12):
        x = hop.asarray(self.A)
        for found in (function(x), hop.jit(function)(x)):
            self.assertEqual(found.shape, numpy.asarray(expected).shape)
            self.assertEqual(found.dtype.name, numpy.asarray(expected).dtype.name)
            self.close(found, numpy.asarray(expected), tolerance)

    def test_reductions(self):
        for name in ("sum", "prod", "max", "min", "mean", "var", "std", "any", "all"):
            for axis in (None, 0, -1, (0, 2)):
                for keep in (False, True):
                    expected = getattr(numpy, name)(self.A, axis=axis, keepdims=keep)
                    self.both(
                        lambda x, n=name, a=axis, k=keep: getattr(hop, n)(x, axis=a, keepdims=k), expected
                    )
        self.both(lambda x: x.sum(1), self.A.sum(1))
        self.both(lambda x: hop.var(x, correction=1), self.A.var(ddof=1))
        for name in ("argmax", "argmin"):
            for axis in (None, 0, -1):
                self.both(
                    lambda x, n=name, a=axis: getattr(hop, n)(x, axis=a),
                    getattr(numpy, name)(self.A, axis=axis),
                )
        self.assertEqual(hop.sum(hop.ones(3, dtype=hop.int8)).dtype, hop.int64)
        self.assertEqual(hop.sum(hop.ones(3, dtype=hop.uint8)).dtype, hop.uint64)
        self.equal(hop.count_nonzero(hop.asarray([0, 1, 2])), 2)
        self.equal(hop.sum(hop.asarray(3.0)), 3.0)
        self.equal(hop.max(hop.asarray(3.0)), 3.0)
        self.close(hop.logsumexp(hop.asarray([1000.0, 1000.0])), 1000.6931471805599)

    def test_running(self):
        self.both(lambda x: hop.cumulative_sum(x, axis=1), self.A.cumsum(1))
        self.both(lambda x: hop.cumulative_prod(x, axis=-1), self.A.cumprod(-1))
        self.both(lambda x: hop.cumulative_max(x, axis=0), numpy.maximum.accumulate(self.A, 0))
        self.both(lambda x: hop.diff(x, axis=1), numpy.diff(self.A, axis=1))
        self.equal(hop.cumulative_sum(hop.asarray([1, 2]), include_initial=True), [0, 1, 3])
        self.equal(hop.linear_recurrence(hop.asarray([0.5, 0.5]), hop.asarray([1.0, 1.0])), [1, 1.5])

    def test_running_from_nothing(self):
        inf = math.inf
        firsts = (
            (hop.cumulative_sum, 0, 0),
            (hop.cumulative_prod, 1, 1),
            (hop.cumulative_max, -inf, -128),
            (hop.cumulative_min, inf, 127),
            (hop.cumulative_logsumexp, -inf, -inf),
        )
        for function, real, whole in firsts:
            name = function.__name__
            for dtype in (hop.float16, hop.bfloat16, hop.float32, hop.float64):
                x = hop.asarray([[2.0, 1.0], [3.0, 0.5]], dtype=dtype)
                plain = function(x, axis=1)
                for axis in (1, -1):
                    out = function(x, axis=axis, include_initial=True)
                    self.assertEqual((out.shape, out.dtype), ((2, 3), dtype), name)
                    self.equal(out[:, 0], [real, real])
                    self.equal(out[:, 1:], plain.tolist())
                out = function(x, axis=0, include_initial=True, reverse=True)
                self.equal(out[-1], [real, real])
                self.equal(out[:-1], function(x, axis=0, reverse=True).tolist())
                self.equal(function(x[:, :0], axis=1, include_initial=True), [[real], [real]])
                self.equal(
                    hop.jit(lambda v: function(v, axis=1, include_initial=True))(x),
                    function(x, axis=1, include_initial=True).tolist(),
                )
            x = hop.asarray([2, 1], dtype=hop.int8)
            out = function(x, include_initial=True)
            self.assertEqual(
                out.dtype,
                {
                    "cumulative_sum": hop.int64, "cumulative_prod": hop.int64,
                    "cumulative_logsumexp": hop.float32,
                }.get(name, hop.int8),
            )
            self.equal(out[0], whole)
            self.equal(function(x[:0], include_initial=True), [whole])
            self.assertEqual(function(x, dtype=hop.float32, include_initial=True).dtype, hop.float32, name)
            self.equal(function(x, dtype=hop.float32, include_initial=True)[0], real)
            with self.assertRaisesRegex(ValueError, rf"{name}: axis: expected an axis of f64\[\]"):
                function(hop.asarray(1.0, dtype=hop.float64))
        self.equal(hop.cumulative_max(hop.asarray([7], dtype=hop.uint64), include_initial=True), [0, 7])
        self.equal(
            hop.cumulative_min(hop.asarray([7], dtype=hop.uint64), include_initial=True), [2**64 - 1, 7]
        )
        self.equal(hop.cumulative_max(hop.asarray([-5]), include_initial=True), [-(2**63), -5])
        g = hop.grad(lambda v: hop.sum(hop.cumulative_max(v, include_initial=True)[1:]))(
            hop.asarray([1.0, 3.0, 2.0])
        )
        self.equal(g, [1, 2, 0])

    def test_order(self):
        self.both(lambda x: hop.sort(x, axis=1), numpy.sort(self.A, axis=1))
        self.both(lambda x: hop.argsort(x), numpy.argsort(self.A, kind="stable"))
        self.both(lambda x: hop.sort(x, descending=True), -numpy.sort(-self.A))
        self.equal(hop.top_k(hop.asarray([3.0, 9.0, 5.0]), 2)[0], [9, 5])
        self.equal(hop.searchsorted(hop.asarray([1.0, 2.0, 4.0]), hop.asarray([2.0, 3.0])), [1, 2])
        self.equal(hop.searchsorted(hop.asarray([1.0, 2.0, 4.0]), hop.asarray([2.0]), side="right"), [2])
        self.equal(hop.nonzero(hop.asarray([[0, 1], [2, 0]]))[1], [1, 0])
        self.equal(hop.nonzero(hop.asarray([0, 1, 1]), size=4, fill_value=-1)[0], [1, 2, -1, -1])

    def test_shapes(self):
        a = self.A
        for function, expected in [
            (lambda x: x.reshape(3, 4), a.reshape(3, 4)),
            (lambda x: x.reshape((-1, 2)), a.reshape(-1, 2)),
            (lambda x: hop.permute_dims(x, (2, 0, 1)), a.transpose(2, 0, 1)),
            (lambda x: x.mT, a.swapaxes(1, 2)),
            (lambda x: hop.moveaxis(x, 0, -1), numpy.moveaxis(a, 0, -1)),
            (lambda x: hop.expand_dims(x, axis=1), a[:, None]),
            (lambda x: hop.squeeze(x[:1], axis=0), a[0]),
            (lambda x: hop.concat([x, x], axis=1), numpy.concatenate([a, a], 1)),
            (lambda x: hop.stack([x, x], axis=-1), numpy.stack([a, a], -1)),
            (lambda x: hop.flip(x), numpy.flip(a)),
            (lambda x: hop.flip(x, axis=1), numpy.flip(a, 1)),
            (lambda x: hop.roll(x, 2), numpy.roll(a, 2)),
            (lambda x: hop.roll(x, -1, axis=2), numpy.roll(a, -1, 2)),
            (lambda x: hop.tile(x, (2, 1, 3)), numpy.tile(a, (2, 1, 3))),
            (lambda x: hop.repeat(x, 2, axis=1), numpy.repeat(a, 2, 1)),
            (lambda x: hop.pad(x, (1, 0)), numpy.pad(a, (1, 0))),
            (lambda x: hop.broadcast_to(x, (2, 2, 2, 3)), numpy.broadcast_to(a, (2, 2, 2, 3))),
            (lambda x: hop.swapaxes(x, 0, 2), a.swapaxes(0, 2)),
            (lambda x: hop.split(x, 3, axis=2)[1], a[:, :, 1:2]),
            (lambda x: hop.split(x, [1], axis=2)[1], a[:, :, 1:]),
            (lambda x: hop.unstack(x, axis=1)[1], a[:, 1]),
            (lambda x: hop.tril(x), numpy.tril(a)),
            (lambda x: hop.triu(x, k=1), numpy.triu(a, 1)),
            (lambda x: x.flatten(), a.ravel()),
            (lambda x: x.transpose(), a.T),
            (lambda x: hop.take(x, numpy.array([0, -1]), axis=2), a[:, :, [0, -1]]),
            (lambda x: hop.take_along_axis(x, hop.argsort(x), axis=-1), numpy.sort(a)),
            (lambda x: hop.one_hot(hop.asarray([0, 2]), 3, dtype=hop.float64), numpy.eye(3)[[0, 2]]),
            (lambda x: hop.dynamic_slice(x, (0, 1, 1), (1, 1, 2)), a[:1, 1:, 1:]),
            (lambda x: hop.diagonal(x), numpy.diagonal(a, axis1=1, axis2=2)),
        ]:  # fmt: skip
            self.both(function, expected)
        self.assertEqual(hop.broadcast_shapes((2, 1), (3,)), (2, 3))
        self.same(
            hop.meshgrid(hop.arange(2), hop.arange(3))[0], numpy.meshgrid(numpy.arange(2), numpy.arange(3))[0]
        )

    def test_products(self):
        a = self.A
        b = numpy.arange(12.0).reshape(2, 3, 2)
        for function, expected in [
            (lambda x: x @ b, a @ b),
            (lambda x: x[0] @ b[0, :, 0], a[0] @ b[0, :, 0]),
            (lambda x: hop.einsum("bij,bjk->ik", x, b), numpy.einsum("bij,bjk->ik", a, b)),
            (lambda x: hop.tensordot(x, b, axes=([2, 0], [1, 0])), numpy.tensordot(a, b, ([2, 0], [1, 0]))),
            (lambda x: hop.tensordot(x, b[0], axes=1), numpy.tensordot(a, b[0], 1)),
            (lambda x: hop.vecdot(x, x), (a * a).sum(-1)),
            (lambda x: hop.outer(x[0, 0], x[0, 1]), numpy.outer(a[0, 0], a[0, 1])),
            (lambda x: hop.trace(x), numpy.trace(a, axis1=1, axis2=2)),
        ]:  # fmt: skip
            self.both(function, expected)
        self.close(hop.softmax(hop.asarray([0.0, 0.0])), [0.5, 0.5])
        large = numpy.random.default_rng(0).normal(size=(200, 150))
        self.close(hop.asarray(large) @ large.T, large @ large.T, 1e-10)

    def test_much_data(self):
        a = numpy.random.default_rng(1).normal(size=100_000)
        x = hop.asarray(a)
        self.close((x * 2 + 1)[::9973], (a * 2 + 1)[::9973], 1e-12)
        self.close(hop.sum(x), a.sum(), 1e-9)
        for _ in range(20):  # interpreted, then compiled
            self.close(hop.sum(x[:50] * 3.0), (a[:50] * 3).sum(), 1e-9)


if __name__ == "__main__":
    unittest.main()
