"""The array-API standard: its names, its signatures, its special values, its dtypes and its set functions.
The public suite checks more: make test-array-api."""

import inspect
import itertools
import math
import unittest

import hop
from support import Case, needs_numpy, numpy

# The parameters that the standard (2024.12) gives to functions, to methods of arrays and to what
# __array_namespace_info__ returns. A unary function of elements is name(x, /), a binary one
# name(x1, x2, /).
SIGNATURES = """
arange(start, /, stop=None, step=1, *, dtype=None, device=None)
asarray(obj, /, *, dtype=None, device=None, copy=None); empty(shape, *, dtype=None, device=None)
empty_like(x, /, *, dtype=None, device=None); eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)
from_dlpack(x, /, *, device=None, copy=None); full(shape, fill_value, *, dtype=None, device=None)
full_like(x, /, fill_value, *, dtype=None, device=None)
linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True); meshgrid(*arrays, indexing="xy")
ones(shape, *, dtype=None, device=None); ones_like(x, /, *, dtype=None, device=None); tril(x, /, *, k=0)
triu(x, /, *, k=0); zeros(shape, *, dtype=None, device=None); zeros_like(x, /, *, dtype=None, device=None)
astype(x, dtype, /, *, copy=True, device=None); can_cast(from_, to, /); finfo(type, /); iinfo(type, /)
isdtype(dtype, kind); result_type(*arrays_and_dtypes); clip(x, /, min=None, max=None)
take(x, indices, /, *, axis=None); take_along_axis(x, indices, /, *, axis=-1); tensordot(x1, x2, /, *, axes=2)
vecdot(x1, x2, /, *, axis=-1); broadcast_arrays(*arrays); broadcast_to(x, /, shape)
concat(arrays, /, *, axis=0); expand_dims(x, /, axis); flip(x, /, *, axis=None)
moveaxis(x, source, destination, /); permute_dims(x, /, axes); repeat(x, repeats, /, *, axis=None)
reshape(x, /, shape, *, copy=None); roll(x, /, shift, *, axis=None); squeeze(x, /, axis)
stack(arrays, /, *, axis=0); tile(x, repetitions, /); unstack(x, /, *, axis=0)
argmax(x, /, *, axis=None, keepdims=False); argmin(x, /, *, axis=None, keepdims=False)
count_nonzero(x, /, *, axis=None, keepdims=False); searchsorted(x1, x2, /, *, side="left", sorter=None)
where(condition, x1, x2, /); argsort(x, /, *, axis=-1, descending=False, stable=True)
sort(x, /, *, axis=-1, descending=False, stable=True)
cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False)
cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False)
max(x, /, *, axis=None, keepdims=False); mean(x, /, *, axis=None, keepdims=False)
min(x, /, *, axis=None, keepdims=False); prod(x, /, *, axis=None, dtype=None, keepdims=False)
std(x, /, *, axis=None, correction=0.0, keepdims=False); sum(x, /, *, axis=None, dtype=None, keepdims=False)
var(x, /, *, axis=None, correction=0.0, keepdims=False); all(x, /, *, axis=None, keepdims=False)
any(x, /, *, axis=None, keepdims=False); diff(x, /, *, axis=-1, n=1, prepend=None, append=None)
matmul(x1, x2, /); matrix_transpose(x, /); nonzero(x, /); unique_all(x, /); unique_counts(x, /)
unique_inverse(x, /); unique_values(x, /); linalg.cholesky(x, /, *, upper=False)
linalg.cross(x1, x2, /, *, axis=-1); linalg.det(x, /); linalg.diagonal(x, /, *, offset=0); linalg.eigh(x, /)
linalg.eigvalsh(x, /); linalg.inv(x, /); linalg.matmul(x1, x2, /)
linalg.matrix_norm(x, /, *, keepdims=False, ord="fro"); linalg.matrix_power(x, n, /)
linalg.matrix_rank(x, /, *, rtol=None); linalg.matrix_transpose(x, /); linalg.outer(x1, x2, /)
linalg.pinv(x, /, *, rtol=None); linalg.qr(x, /, *, mode="reduced"); linalg.slogdet(x, /)
linalg.solve(x1, x2, /); linalg.svd(x, /, *, full_matrices=True); linalg.svdvals(x, /)
linalg.tensordot(x1, x2, /, *, axes=2); linalg.trace(x, /, *, offset=0, dtype=None)
linalg.vecdot(x1, x2, /, *, axis=-1); linalg.vector_norm(x, /, *, axis=None, keepdims=False, ord=2)
info.capabilities(); info.default_device(); info.default_dtypes(*, device=None); info.devices()
info.dtypes(*, device=None, kind=None); array.__abs__(); array.__add__(other, /); array.__and__(other, /)
array.__array_namespace__(*, api_version=None); array.__bool__(); array.__complex__()
array.__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None); array.__dlpack_device__()
array.__eq__(other, /); array.__float__(); array.__floordiv__(other, /); array.__ge__(other, /)
array.__getitem__(key, /); array.__gt__(other, /); array.__index__(); array.__int__(); array.__invert__()
array.__le__(other, /); array.__lshift__(other, /); array.__lt__(other, /); array.__matmul__(other, /)
array.__mod__(other, /); array.__mul__(other, /); array.__ne__(other, /); array.__neg__()
array.__or__(other, /); array.__pos__(); array.__pow__(other, /); array.__rshift__(other, /)
array.__setitem__(key, value, /); array.__sub__(other, /); array.__truediv__(other, /)
array.__xor__(other, /); array.to_device(device, /, *, stream=None)
"""
UNARY = (
    "abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite "
    "isinf isnan log log1p log2 log10 logical_not negative positive real reciprocal round sign signbit sin "
    "sinh square sqrt tan tanh trunc"
).split()
BINARY = (
    "add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide "
    "equal floor_divide greater greater_equal hypot less less_equal logaddexp logical_and logical_or "
    "logical_xor maximum minimum multiply nextafter not_equal pow remainder subtract"
).split()
METHODS = (
    "__abs__ __add__ __and__ __array_namespace__ __bool__ __complex__ __dlpack__ __dlpack_device__ __eq__ "
    "__float__ __floordiv__ __ge__ __getitem__ __gt__ __index__ __int__ __invert__ __le__ __lshift__ __lt__ "
    "__matmul__ __mod__ __mul__ __ne__ __neg__ __or__ __pos__ __pow__ __rshift__ __setitem__ __sub__ "
    "__truediv__ __xor__ to_device dtype device mT ndim shape size T"
).split()
FLOATS = ("float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def found(name):
    start, _, last = name.rpartition(".")
    owners = {
        "": hop,
        "linalg": hop.linalg,
        "array": hop.ones((1, 1)),
        "info": hop.__array_namespace_info__(),
    }
    return getattr(owners[start], last)


class Names(Case):
    def test_names(self):
        for name in [
            *UNARY,
            *BINARY,
            "e",
            "inf",
            "nan",
            "newaxis",
            "pi",
            "bool",
            *FLOATS,
            *INTEGERS,
            "__array_namespace_info__",
            "__array_api_version__",
        ]:
            self.assertTrue(hasattr(hop, name), name)
        for name in METHODS:
            self.assertTrue(hasattr(hop.ones((1, 1)), name), name)

    def test_signatures(self):
        rows = [row.strip() for row in SIGNATURES.replace("\n", ";").split(";") if row.strip()]
        rows += [name + "(x, /)" for name in UNARY] + [name + "(x1, x2, /)" for name in BINARY]
        self.assertEqual(len(rows), 195)
        for row in rows:
            name = row.partition("(")[0]
            with self.subTest(row):
                standard = inspect.signature(eval(f"lambda {row[len(name) + 1 : -1]}: None"))
                self.accepts(inspect.signature(found(name)), standard, name.startswith("array.__"))

    def accepts(self, ours, standard, special):
        """The standard's parameters, of the same kinds, with the same defaults; those that it wants by
        name may be given by position, too. Others have defaults."""
        given, wanted = dict(ours.parameters), standard.parameters
        for place, (name, parameter) in enumerate(wanted.items()):
            # Python's own methods name them differently
            if special and parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
                name = list(ours.parameters)[place]
            self.assertIn(name, given)
            found_ = given.pop(name)
            kinds = (
                [parameter.kind, inspect.Parameter.POSITIONAL_OR_KEYWORD]
                if parameter.kind is inspect.Parameter.KEYWORD_ONLY
                else [parameter.kind]
            )
            self.assertIn(found_.kind, kinds)
            if parameter.kind not in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_POSITIONAL):
                self.assertEqual(list(ours.parameters).index(name), place)
            if parameter.default is not inspect.Parameter.empty:
                self.assertEqual(
                    (found_.default, type(found_.default)), (parameter.default, type(parameter.default))
                )
        for name, parameter in given.items():
            self.assertIsNot(parameter.default, inspect.Parameter.empty, name)
            self.assertTrue(
                special
                or parameter.kind
                in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD),
                name,
            )

    def test_as_many_axes_as_there_can_be(self):
        most = hop.__array_namespace_info__().capabilities()["max dimensions"]
        shape = (2, *(1,) * (most - 3), 3, 2)
        x = hop.arange(12.0)
        for f in (lambda v: hop.reshape(v, shape), lambda v: hop.jit(lambda u: hop.reshape(u, shape))(v)):
            y = f(x)
            self.assertEqual(y.shape, shape)
            self.equal(
                hop.permute_dims(y, tuple(reversed(range(most)))).reshape((-1,)),
                hop.permute_dims(x.reshape((2, 3, 2)), (2, 1, 0)).reshape((-1,)).tolist(),
            )
            self.equal(hop.sum(y), 66.0)
            self.equal(hop.sum(y, axis=tuple(range(most - 1))), [30.0, 36.0])
            self.equal(
                hop.max(y * 2 + y, axis=0, keepdims=True).reshape((-1,)), [18.0, 21.0, 24.0, 27.0, 30.0, 33.0]
            )
            self.equal(
                hop.flip(y, axis=most - 1)[(1,) + (0,) * (most - 3)], [[7.0, 6.0], [9.0, 8.0], [11.0, 10.0]]
            )
        self.equal(hop.grad(lambda v: hop.sum(hop.reshape(v, shape) ** 2))(x), [2.0 * i for i in range(12)])
        nested = x.reshape((*shape[:-1], 2)).tolist()
        self.assertEqual(hop.asarray(nested).shape, shape)
        with self.assertRaisesRegex(ValueError, "32"):
            hop.reshape(x, (1, *shape))

    def test_versions_and_devices(self):
        x = hop.ones(2)
        self.assertIs(x.__array_namespace__(api_version="2023.12"), hop)
        self.assertIs(x.to_device(x.device), x)
        for bad in (
            lambda: x.__array_namespace__(api_version="1999.12"),
            lambda: hop.zeros(1, device="elsewhere"),
            lambda: hop.eye(2, device="elsewhere"),
            lambda: hop.astype(x, hop.int8, device="elsewhere"),
            lambda: hop.arange(3, device="elsewhere"),
            lambda: hop.linspace(0, 1, 3, device="elsewhere"),
            lambda: hop.full_like(x, 1, device="elsewhere"),
            lambda: x.to_device("elsewhere"),
        ):  # fmt: skip
            with self.assertRaises(ValueError):
                bad()


@needs_numpy
class SpecialValues(Case):
    THEIRS = {
        "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan",
        "atan2": "arctan2", "atanh": "arctanh", "pow": "power", "bitwise_left_shift": None,
        "bitwise_right_shift": None, "bitwise_and": None, "bitwise_or": None, "bitwise_xor": None,
        "bitwise_invert": None,
    }  # fmt: skip

    def agree(self, name, *arrays):
        with numpy.errstate(all="ignore"):
            expected = getattr(numpy, self.THEIRS.get(name, name))(*arrays)
            if name == "floor_divide":  # at infinities the standard has the quotient, NumPy what Python has
                expected = numpy.where(
                    numpy.isinf(arrays[0]) | numpy.isinf(arrays[1]), arrays[0] / arrays[1], expected
                )
        of_float32, of_float64 = (3e-6, 1e-13) if name == "pow" else (6e-7, 4e-15)
        tolerance = of_float32 if arrays[0].dtype == "f4" else of_float64
        function = getattr(hop, name)
        for how in (function, hop.jit(function)):
            x = numpy.asarray(how(*map(hop.asarray, arrays)))
            self.assertEqual((x.dtype, x.shape), (expected.dtype, expected.shape), name)
            for i in range(x.size):
                a, b, at = x[i], expected[i], f"{name}{tuple(v[i].item() for v in arrays)}"
                if b != b:
                    self.assertTrue(a != a, f"{at}: {a} is not NaN")
                elif x.dtype == bool or b == 0 or math.isinf(b):
                    self.assertEqual((float(a), math.copysign(1, a)), (float(b), math.copysign(1, b)), at)
                else:
                    self.assertTrue(
                        abs(a - b) <= tolerance * abs(b)
                        or abs(a - b) <= numpy.finfo(x.dtype).smallest_subnormal,
                        f"{at}: {a} against {b}",
                    )

    def test_against_numpy(self):
        for dtype in ("f4", "f8"):
            v = [math.nan, math.inf, 0.0, 1.0, 0.5, 2.0, 3.0, 1.5, 2.5, 7.0, 1e-3, 100.0, 1e-40, 65535.0]
            v = numpy.array(v + [-x for x in v], dtype=dtype)
            pairs = numpy.array(list(itertools.product(v, v)), dtype=dtype).T
            for name in UNARY:
                if self.THEIRS.get(name, name):
                    self.agree(name, v)
            for name in BINARY:
                if self.THEIRS.get(name, name):
                    self.agree(name, pairs[0].copy(), pairs[1].copy())

    def test_neighbours(self):
        for dtype in ("f2", "f4", "f8"):
            info = numpy.finfo(dtype)
            sizes = [
                0.0,
                info.smallest_subnormal,
                2 * info.smallest_subnormal,
                info.tiny / 2,
                info.tiny,
                numpy.nextafter(info.tiny, info.dtype.type(0)),
                1.0,
                1 + info.eps,
                1 - info.epsneg,
                3.0,
                info.max / 2,
                info.max,
                math.inf,
            ]
            v = numpy.array([s * x for x in sizes for s in (1, -1)], dtype=dtype)
            a, b = numpy.array(list(itertools.product(v, [*v, math.nan])), dtype=dtype).T.copy()
            with numpy.errstate(all="ignore"):
                expected = numpy.nextafter(a, b)
            for x in (hop.nextafter(a, b), hop.jit(hop.nextafter)(a, b)):
                self.same(x, expected)
                # NumPy's half precision gives a, not b, for zeros of different sign
                told = ~numpy.isnan(expected) & ((a != b) | (dtype != "f2"))
                self.assertTrue((numpy.signbit(numpy.asarray(x)) == numpy.signbit(expected))[told].all())
        self.equal(
            hop.nextafter(
                hop.asarray([1.0, 1.0], dtype=hop.bfloat16), hop.asarray([2.0, 0.0], dtype=hop.bfloat16)
            ),
            [1.0078125, 0.99609375],
        )
        self.equal(hop.grad(lambda x: hop.nextafter(x, 9.0))(3.0), 1.0)
        self.equal(hop.vmap(lambda x: hop.nextafter(x, 2.0))(hop.asarray([2.0])), [2.0])

    def test_large_angles(self):
        x = numpy.array([2.0**k * s + 0.3 for k in range(23) for s in (1, -1)], dtype="f4")
        for name in ("sin", "cos"):
            for found_ in (getattr(hop, name)(x), hop.jit(getattr(hop, name))(x)):
                self.close(found_, getattr(numpy, name)(x.astype("f8")), 2e-6)
        self.assertEqual(math.copysign(1, hop.jit(hop.sin)(hop.asarray([-0.0]))[0].item()), -1)
        # nearest to odd multiples of pi/2: 16367173·2^72 among f32, 6381956970095103·2^797 among f64
        # (Muller and others, Handbook of Floating-Point Arithmetic)
        for x, dtype, cosine in (
            (16367173 * 2.0**72, hop.float32, -1.6147697982476212e-09),
            (6381956970095103 * 2.0**797, hop.float64, -4.6871659242546276e-19),
        ):
            x = hop.asarray([0.5, x, 1.5], dtype=dtype)
            for strict in (False, True):
                out = [hop.jit(f, strict=strict)(x)[1].item() for f in (hop.sin, hop.cos, hop.tan)]
                near = 1e-7 if dtype == hop.float32 else 2e-16
                self.assertEqual(out[0], 1.0)
                self.assertLess(abs(out[1] / cosine - 1), near)
                self.assertLess(abs(out[2] * cosine - 1), near)
        self.close(hop.grad(hop.sin)(hop.asarray(1e22, dtype=hop.float64)), 0.5232147853951389, 1e-15)


class Logarithms(Case):
    def test_powers_of_ten(self):
        for d, most in ((hop.float32, 11), (hop.float64, 23)):
            x = hop.asarray([10.0**k for k in range(most)], dtype=d)
            for f in (hop.log10, hop.jit(hop.log10)):
                self.equal(f(x), [float(k) for k in range(most)], d)
            ends = hop.jit(hop.log10)(hop.asarray([0.0, math.inf, -1.0, math.nan], dtype=d)).tolist()
            self.assertEqual(
                (str(ends), hop.grad(hop.log10)(hop.asarray(0.0, dtype=d)).item()),
                ("[-inf, inf, nan, nan]", math.inf),
            )
            self.close(hop.grad(hop.log10)(hop.asarray(4.0, dtype=d)), 0.25 / math.log(10), 1e-6)
        self.close(hop.log10(hop.asarray([100.0], dtype=hop.float16)), [2.0], 2e-3)
        self.close(hop.log10(1000), 3.0)


class Dtypes(Case):
    def test_numbers_beside_arrays(self):
        top = 2**64 - 1
        x = hop.asarray([1, top], dtype=hop.uint64)
        self.equal(x == top, [False, True])
        self.equal(x - top, [2, 0], hop.uint64)
        self.equal(top - x, [top - 1, 0], hop.uint64)
        self.equal(hop.where(hop.asarray([True, False]), x, top), [1, top], hop.uint64)
        self.equal(hop.jit(lambda v: v & (2**63 + 1))(x), [1, 2**63 + 1], hop.uint64)
        self.equal(hop.ones(1) * 2**63, [2.0**63], hop.float32)
        self.equal(hop.jit(lambda v: v * 2**63)(hop.ones(1)), [2.0**63], hop.float32)
        self.equal(hop.arange(top - 2, top, dtype=hop.uint64), [top - 2, top - 1], hop.uint64)
        for bad in (lambda: x + 2**64, lambda: hop.ones(1, dtype=hop.int64) + -(2**63) - 2**64):
            with self.assertRaises(OverflowError):
                bad()

    def test_kept(self):
        for d in ("uint8", "uint16", "uint32", "uint64"):
            x = hop.asarray([0, 3], dtype=d)
            self.equal(abs(x), [0, 3], d)
            self.equal(hop.jit(hop.abs)(x), [0, 3], d)
        self.equal(hop.sign(hop.asarray([-0.0, 2.0])), [0.0, 1.0])
        self.equal(hop.imag(hop.asarray([1.0, 2.0])), [0.0, 0.0], hop.float32)

    def test_sums(self):
        for d in INTEGERS:
            wide = hop.int64 if d[0] == "i" else hop.uint64
            x = hop.ones((2, 2), dtype=d)
            for value in (
                hop.sum(x),
                hop.prod(x),
                hop.cumulative_sum(x, axis=0),
                hop.cumulative_prod(x, axis=0),
                hop.trace(x),
            ):
                self.assertIs(value.dtype, wide)
        for d in FLOATS:
            x = hop.ones((2, 2), dtype=d)
            for value in (
                hop.sum(x),
                hop.prod(x),
                hop.mean(x),
                hop.var(x),
                hop.cumulative_sum(x, axis=0),
                hop.trace(x),
            ):
                self.assertEqual(value.dtype, d)

    def test_without_elements(self):
        none = hop.zeros((0,))
        self.assertEqual(
            (hop.sum(none).item(), hop.prod(none).item(), hop.any(none).item(), hop.all(none).item()),
            (0.0, 1.0, False, True),
        )
        for function in (hop.mean, hop.var, hop.std):
            self.assertTrue(math.isnan(function(none).item()))
        self.assertEqual([x.shape for x in hop.unique_all(none)], [(0,)] * 4)

    def test_shapes(self):
        self.equal(hop.eye(2, k=2**40), [[0, 0], [0, 0]])
        self.equal(hop.tril(hop.ones((2, 2)), k=2**40), [[1, 1], [1, 1]])
        self.equal(hop.triu(hop.ones((2, 2)), k=2**40), [[0, 0], [0, 0]])
        self.equal(hop.diff(hop.asarray([1, 4]), n=0, append=hop.asarray([9])), [1, 4])
        self.close(hop.linspace(-1.5e308, 1.5e308, 3, dtype=hop.float64), [-1.5e308, 0.0, 1.5e308])
        self.assertEqual(hop.ones((3, 2))[hop.zeros((0,), dtype=hop.bool)].shape, (0, 2))
        for bad in (
            lambda: hop.meshgrid(hop.ones(2), indexing="yx"),
            lambda: hop.vecdot(hop.ones(1), hop.ones(3)),
            lambda: hop.ones((3, 2))[hop.zeros((2,), dtype=hop.bool)],
        ):
            with self.assertRaises((ValueError, IndexError)):
                bad()
        x = hop.asarray([[1.0, 2.0], [3.0, 4.0]])
        self.assertEqual(hop.reshape(x, (4,), copy=False)._pointer, x._pointer)
        with self.assertRaises(ValueError):
            hop.reshape(x[:, ::-1], (4,), copy=False)


class Sets(Case):
    def test_values(self):
        x = hop.asarray([[3, 1, 3], [2, 1, 3]], dtype=hop.int16)
        for function in (hop.unique_all, hop.jit(hop.unique_all)):
            values, indices, inverse, counts = function(x)
            self.equal(values, [1, 2, 3], hop.int16)
            self.equal(indices, [1, 3, 0], hop.int64)
            self.equal(inverse, [[2, 0, 2], [1, 0, 2]], hop.int64)
            self.equal(counts, [2, 1, 3], hop.int64)
        self.equal(hop.unique_values(x), [1, 2, 3])
        self.equal(hop.unique_counts(x).counts, [2, 1, 3])
        self.equal(hop.unique_inverse(x).inverse_indices, [[2, 0, 2], [1, 0, 2]])
        self.equal(hop.unique_values(hop.asarray([True, False, True])), [False, True], hop.bool)
        self.equal(hop.unique_all(hop.asarray(5)).inverse_indices, 0)

    def test_special_values(self):
        x = hop.asarray([math.nan, 0.0, -0.0, math.inf, math.nan])
        values, indices, inverse, counts = hop.unique_all(x)
        self.close(values, [0.0, math.inf, math.nan, math.nan])
        self.equal(counts, [2, 1, 1, 1])
        self.equal(indices, [1, 3, 0, 4])
        self.equal(inverse, [2, 0, 0, 1, 3])

    def test_sizes_that_are_known(self):
        x = hop.asarray([[1, 1, 2], [3, 3, 3]])
        values, counts = hop.vmap(lambda v: tuple(hop.unique_counts(v, size=2)))(x)
        self.equal(values, [[1, 2], [3, 3]])
        self.equal(counts, [[2, 1], [3, 0]])
        self.equal(hop.unique_values(x, size=2), [1, 2])
        with self.assertRaises(ValueError):
            hop.unique_values(hop.zeros(0), size=1)

    def test_gradient(self):
        f = lambda v: hop.sum(hop.unique_values(v) ** 2)  # noqa: E731
        self.equal(hop.grad(f)(hop.asarray([3.0, 1.0, 3.0])), [6.0, 2.0, 0.0])
        self.equal(hop.jit(hop.grad(f))(hop.asarray([3.0, 1.0, 3.0])), [6.0, 2.0, 0.0])

    @needs_numpy
    def test_against_numpy(self):
        rng = numpy.random.default_rng(0)
        for n in (1, 7, 300):
            a = rng.integers(0, 20, n)
            found_ = hop.unique_all(a)
            for x, expected in zip(
                found_, numpy.unique(a, return_index=True, return_inverse=True, return_counts=True)
            ):
                self.same(x, expected)


if __name__ == "__main__":
    unittest.main()
