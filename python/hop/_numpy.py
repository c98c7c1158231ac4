"""Functions of NumPy that the array-API standard has no name for, or another one: spellings of what is there,
and short compositions of it, which differentiate, batch and compile because their parts do."""

import builtins
import math

from . import _arguments, _core, _dtypes, _ops, _shapes
from ._arguments import here
from ._array import METHODS, Array
from ._dtypes import as_dtype, float16, float32, float64, int64
from ._errors import InvalidError
from ._ops.common import _along, _dims
from ._ops.creation import _array
from ._ops.elementwise import _as_real
from ._ops import (
    abs, acos, acosh, all, any, arange, argsort, asarray, asin, asinh, astype, atan, atan2, atanh,
    bitwise_invert, bitwise_left_shift, bitwise_right_shift, broadcast_arrays, broadcast_shapes,
    broadcast_to, clip, concat, conj, copysign, cumulative_prod, cumulative_sum, diagonal, diff, divide,
    equal, exp2, expand_dims, eye, flip, floor, floor_divide, full, inf, isfinite, isnan, linspace,
    logical_not, matmul, max, maximum, mean, meshgrid, min, minimum, moveaxis, nan, nonzero, ones, ones_like,
    pad, permute_dims, popcount, pow, prod, quantile, remainder, reshape, round, searchsorted, sin, sort,
    split, sqrt, stack, sum, swapaxes, take, take_along_axis, tensordot, tril, trunc, where, zeros,
    zeros_like,
)  # fmt: skip
from ._sets import unique_all, unique_values
from .linalg import cross  # noqa: F401

absolute, amax, amin, around, conjugate, concatenate, fix, rint = (
    abs, max, min, round, conj, concat, trunc, round,
)
arccos, arccosh, arcsin, arcsinh, arctan, arctan2, arctanh = acos, acosh, asin, asinh, atan, atan2, atanh
bitwise_count, invert, left_shift, right_shift = (
    popcount, bitwise_invert, bitwise_left_shift, bitwise_right_shift,
)
ascontiguousarray, mod, power, true_divide = asarray, remainder, pow, divide
double, half, single = float64, float16, float32
euler_gamma = 0.5772156649015329

_SPELLINGS = (
    "absolute amax amin around conjugate concatenate fix rint arccos arccosh arcsin arcsinh arctan arctan2 "
    "arctanh bitwise_count invert left_shift right_shift ascontiguousarray mod power true_divide double half "
    "single euler_gamma cross"
).split()


def _vector(x):
    return reshape(_array(x), (-1,))


def _axes(x, axis):
    """The axes of a reduction, from the front."""
    axes = range(x.ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    return tuple(_along(x, a) for a in axes)


def _known(what, x):
    """An array whose elements are known now."""
    x = _array(x)
    if x._traced:
        raise _arguments.unknown(here(what), "integers", x)
    return x


# ---- elements ----


def fabs(x, /):
    """The absolute value, a real number.

    >>> hop.fabs(hop.asarray([-2, 3]))
    Array([2., 3.], dtype=float32)
    """
    return abs(_as_real(x))


def float_power(x1, x2, /):
    """x1 ** x2, a real number also of integers.

    >>> hop.float_power(hop.asarray([2, 3]), 2)
    Array([4., 9.], dtype=float32)
    """
    return pow(_as_real(x1), x2)


def deg2rad(x, /):
    """Degrees as radians.

    >>> hop.deg2rad(hop.asarray([0.0, 180.0]))
    Array([0.       , 3.1415927], dtype=float32)
    """
    return _as_real(x) * (math.pi / 180)


def rad2deg(x, /):
    """Radians as degrees.

    >>> hop.rad2deg(hop.asarray([0.0, hop.pi]))
    Array([  0., 180.], dtype=float32)
    """
    return _as_real(x) * (180 / math.pi)


radians, degrees = deg2rad, rad2deg


def sinc(x, /):
    """sin(pi x) / (pi x), and 1 at 0.

    The derivative at 0 is 0.

    >>> hop.sinc(hop.asarray([0.0, 0.5]))
    Array([1.        , 0.63661975], dtype=float32)
    """
    y = _as_real(x) * math.pi
    zero = y == 0
    away = where(zero, 1, y)  # so that the derivative at 0 is 0, not NaN
    return where(zero, 1, sin(away) / away)


def heaviside(x1, x2, /):
    """0 where x1 is below 0, x2 where it is 0, 1 where it is above.

    >>> hop.heaviside(hop.asarray([-1.0, 0.0, 2.0]), 0.5)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    x1 = _as_real(x1)
    step = where(x1 == 0, x2, where(x1 < 0, 0, 1))
    return where(isnan(x1), nan, step)


def fmax(x1, x2, /):
    """The larger of each two; of a number and NaN the number.

    hop.maximum gives NaN where one is.

    >>> hop.fmax(hop.asarray([1.0, hop.nan]), 0.5)
    Array([1. , 0.5], dtype=float32)
    """
    x1, x2 = _array(x1), _array(x2)
    return where(isnan(x2) | (x1 >= x2), x1, x2)


def fmin(x1, x2, /):
    """The smaller of each two; of a number and NaN the number.

    hop.minimum gives NaN where one is.

    >>> hop.fmin(hop.asarray([1.0, hop.nan]), 0.5)
    Array([0.5, 0.5], dtype=float32)
    """
    x1, x2 = _array(x1), _array(x2)
    return where(isnan(x2) | (x1 <= x2), x1, x2)


def logaddexp2(x1, x2, /):
    """log2(2**x1 + 2**x2) without overflow.

    >>> hop.logaddexp2(hop.asarray([3.0]), 3.0)
    Array([4.], dtype=float32)
    """
    return _ops.logaddexp(_as_real(x1) * math.log(2), _as_real(x2) * math.log(2)) / math.log(2)


def divmod(x1, x2, /):
    """(x1 // x2, x1 % x2)

    >>> hop.divmod(hop.asarray([-7, 7]), 3)
    (Array([-3,  2], dtype=int64), Array([2, 1], dtype=int64))
    """
    return floor_divide(x1, x2), remainder(x1, x2)


def modf(x, /):
    """(the part behind the point, the part before it), both with the sign of x.

    >>> hop.modf(hop.asarray([1.5, -2.25]))
    (Array([ 0.5 , -0.25], dtype=float32), Array([ 1., -2.], dtype=float32))
    """
    x = _as_real(x)
    whole = trunc(x)
    return copysign(where(isfinite(x), x - whole, 0), x), whole


def ldexp(x1, x2, /):
    """x1 * 2**x2.

    >>> hop.ldexp(hop.asarray([1.5, 3.0]), 2)
    Array([ 6., 12.], dtype=float32)
    """
    x1 = _as_real(x1)
    lower = _array(x2) // 2  # in two steps, so that neither power is too large
    return (
        x1
        * astype(exp2(astype(lower, float64)), x1.dtype)
        * astype(exp2(astype(x2 - lower, float64)), x1.dtype)
    )


def gcd(x1, x2, /):
    """The greatest common divisor.

    Of integers; 0 of two zeros.

    >>> hop.gcd(hop.asarray([12, 7]), 8)
    Array([4, 1], dtype=int64)
    """
    from ._control import while_loop

    x1, x2 = broadcast_arrays(*_integers("gcd", x1, x2))
    return while_loop(lambda p: any(p[1] != 0), lambda p: _euclid(*p), (abs(x1), abs(x2)))[0]


def _euclid(a, b):
    done = b == 0
    return where(done, a, b), where(done, 0, a % where(done, 1, b))


def _integers(name, *xs):
    xs = [_array(x) for x in xs]
    for x in xs:
        if x.dtype.kind not in "iu":
            raise _arguments.wrong(name, "integers", x)
    d = _dtypes.result_type(*xs)
    return [astype(x, d, copy=False) for x in xs]


def lcm(x1, x2, /):
    """The least common multiple.

    Of integers; 0 where one is 0.

    >>> hop.lcm(hop.asarray([4, 6]), 10)
    Array([20, 30], dtype=int64)
    """
    x1, x2 = _integers("lcm", x1, x2)
    common = gcd(x1, x2)
    return abs(x1 // where(common == 0, 1, common) * x2)


def isneginf(x, /):
    """Where x is minus infinity.

    >>> hop.isneginf(hop.asarray([-hop.inf, hop.inf]))
    Array([ True, False], dtype=bool)
    """
    return equal(x, -inf)


def isposinf(x, /):
    """Where x is infinity.

    >>> hop.isposinf(hop.asarray([-hop.inf, hop.inf]))
    Array([False,  True], dtype=bool)
    """
    return equal(x, inf)


def nan_to_num(x, /, *, nan=0.0, posinf=None, neginf=None):
    """x with numbers in place of NaN (0) and of infinities (the largest and the smallest number of the
    dtype).

    >>> hop.nan_to_num(hop.asarray([hop.nan, hop.inf, 1.0]), posinf=9.0)
    Array([0., 9., 1.], dtype=float32)
    """
    x = _array(x)
    if x.dtype.kind != "f":
        return +x
    most = _dtypes.finfo(x.dtype).max
    x = where(isposinf(x), most if posinf is None else posinf, x)
    x = where(isneginf(x), -most if neginf is None else neginf, x)
    return where(isnan(x), nan, x)


def unwrap(x, /, discont=None, axis=-1, *, period=2 * math.pi):
    """Angles along an axis without jumps: neighbours differ by half a period at most, unless by less than
    discont.

    >>> hop.unwrap(hop.asarray([0.0, 3.0, 6.0, 9.0 - 2 * hop.pi]))
    Array([0., 3., 6., 9.], dtype=float32)
    """
    x = _as_real(x)
    axis = _along(x, axis)
    period = _arguments.real(here("period"), period)
    step = diff(x, axis=axis)
    turned = (step + period / 2) % period - period / 2
    turned = where((turned == -period / 2) & (step > 0), period / 2, turned)
    least = period / 2 if discont is None else maximum(discont, period / 2)
    correction = where(abs(step) < least, 0, turned - step)
    first = [(1, 0) if a == axis else (0, 0) for a in range(x.ndim)]
    return x + pad(cumulative_sum(correction, axis=axis), first)


# ---- making and arranging ----


def identity(n, /, dtype=None):
    """The matrix with ones on its diagonal.

    >>> hop.identity(2)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return eye(n, dtype=dtype)


def copy(x, /):
    """An array of its own with the same elements.

    Arrays are values, so a copy is never needed to protect one.

    >>> hop.copy(hop.asarray([3, 1, 2]))
    Array([3, 1, 2], dtype=int64)
    """
    return asarray(x, copy=True)


def tri(n_rows, n_cols=None, /, k=0, dtype=None):
    """Ones on and below a diagonal, k above the main one, zeros above it.

    >>> hop.tri(2, 3)
    Array([[1., 0., 0.],
           [1., 1., 0.]], dtype=float32)
    """
    return tril(ones((n_rows, n_rows if n_cols is None else n_cols), dtype), k)


def _triangle(n, k, m, lower):
    n, k = _arguments.extent(here("n"), n), _arguments.integer(here("k"), k, -(1 << 40), 1 << 40)
    m = n if m is None else _arguments.extent(here("m"), m)
    first = k + (1 if lower else 0)  # how many of row 0 are counted, were it longer on both sides
    below = _clipped_sum(first + n, m) - _clipped_sum(first, m)
    kept = tri(n, m, k if lower else k - 1, _dtypes.bool)
    return nonzero(kept if lower else ~kept, size=below if lower else n * m - below)


def _clipped_sum(n, most):
    """The sum of min(i, most) for i from 0 to n - 1."""
    rising = _shapes.largest(0, _shapes.least(n, most + 1))
    return rising * (rising - 1) // 2 + _shapes.largest(0, n - rising) * most


def tril_indices(n, k=0, m=None):
    """Where a matrix has elements on and below a diagonal: (rows, columns).

    >>> hop.tril_indices(2)
    (Array([0, 1, 1], dtype=int64), Array([0, 0, 1], dtype=int64))
    """
    return _triangle(n, k, m, True)


def triu_indices(n, k=0, m=None):
    """Where a matrix has elements on and above a diagonal: (rows, columns).

    >>> hop.triu_indices(2)
    (Array([0, 0, 1], dtype=int64), Array([0, 1, 1], dtype=int64))
    """
    return _triangle(n, k, m, False)


def diag_indices(n, ndim=2):
    """Where an array with equal sizes has its diagonal.

    >>> hop.diag_indices(3)[0]
    Array([0, 1, 2], dtype=int64)
    """
    return (arange(_arguments.extent(here("n"), n)),) * _arguments.size(here("ndim"), ndim)


def diag(x, /, k=0):
    """The diagonal of a matrix, k above the main one; of a vector the matrix that has it there.

    >>> hop.diag(hop.asarray([[1, 2], [3, 4]]))
    Array([1, 4], dtype=int64)
    >>> hop.diag(hop.asarray([1, 2]))
    Array([[1, 0],
           [0, 2]], dtype=int64)
    """
    x, k = _array(x), _arguments.integer(here("k"), k, -(1 << 31), 1 << 31)
    if x.ndim == 2:
        return diagonal(x, offset=k)
    if x.ndim != 1:
        raise _arguments.wrong(here("x"), "a vector or a matrix", x)
    n = x.shape[0] + builtins.abs(k)
    line = pad(x, (0, builtins.abs(k)))
    return where(
        eye(n, n, k=k, dtype=_dtypes.bool), expand_dims(line, 1 if k > 0 else 0), zeros((), dtype=x.dtype)
    )


def diagflat(x, /, k=0):
    """The matrix with the elements of x on a diagonal.

    >>> hop.diagflat(hop.asarray([[1, 2]]))
    Array([[1, 0],
           [0, 2]], dtype=int64)
    """
    return diag(_vector(x), k)


def vander(x, /, n=None, *, increasing=False):
    """The powers of the elements of a vector, from n - 1 to 0, in columns.

    >>> hop.vander(hop.asarray([2, 3]), 3)
    Array([[4, 2, 1],
           [9, 3, 1]], dtype=int64)
    """
    x = _array(x)
    if x.ndim != 1:
        raise _arguments.wrong(here("x"), "a vector", x)
    n = x.shape[0] if n is None else _arguments.extent(here("n"), n)
    rest = broadcast_to(expand_dims(x, 1), (x.shape[0], _shapes.largest(n - 1, 0)))
    factors = concat([expand_dims(ones_like(x), 1), rest], axis=1)
    powers = cumulative_prod(factors, axis=1, dtype=x.dtype)[:, :n]
    return powers if increasing else flip(powers, axis=1)


def logspace(start, stop, /, num=50, endpoint=True, *, base=10.0, dtype=None):
    """num powers of the base, with exponents evenly from start to stop.

    >>> hop.logspace(0, 2, 3)
    Array([  1.,  10., 100.], dtype=float32)
    """
    start, stop, base = [
        _arguments.real(here(n), v) for n, v in (("start", start), ("stop", stop), ("base", base))
    ]
    return _spaced(num, endpoint, dtype, lambda t: base ** (start + t * (stop - start)))


def geomspace(start, stop, /, num=50, endpoint=True, *, dtype=None):
    """num numbers from start to stop, each the same multiple of the one before.

    >>> hop.geomspace(1, 8, 4)
    Array([1., 2., 4., 8.], dtype=float32)
    """
    start, stop = _arguments.real(here("start"), start), _arguments.real(here("stop"), stop)
    if not start * stop > 0:
        raise InvalidError(f"{_core.call_place()}expected two numbers of one sign, found {start} and {stop}")
    return _spaced(num, endpoint, dtype, lambda t: start * (stop / start) ** t)


def _spaced(num, endpoint, dtype, at):
    num, endpoint = _arguments.extent(here("num"), num), _arguments.flag(here("endpoint"), endpoint)
    d = float32 if dtype is None else as_dtype(dtype)
    if isinstance(num, _shapes.Size):
        return astype(at(linspace(0, 1, num, endpoint, dtype=float64)), d)
    if num > 1 << 24:
        _core.full(d.code, (num,), 0)  # what no memory can hold is refused before it is counted out
    parts = builtins.max(1, num - 1 if endpoint else num)
    try:
        numbers = [at(i / parts) for i in range(num)]
    except OverflowError:
        raise InvalidError(f"{_core.call_place()}the numbers do not fit into {d}") from None
    return _core.from_numbers(d.code, (num,), numbers)


def indices(dimensions, dtype=int64, *, sparse=False):
    """For each axis of a shape the position along it, everywhere: stacked along a new first axis, or a tuple
    of slim arrays.

    >>> hop.indices((2, 2))[1]
    Array([[0, 1],
           [0, 1]], dtype=int64)
    """
    dims = _dims(dimensions)
    lines = [arange(n, dtype=dtype) for n in dims]
    if _arguments.flag(here("sparse"), sparse):
        return ix_(*lines)
    return stack(meshgrid(*lines, indexing="ij")) if dims else zeros((0,), dtype)


def ix_(*sequences):
    """Arrays that index the grid of several vectors of positions: x[hop.ix_(rows, columns)]. A mask stands
    for where it holds.

    >>> hop.arange(9).reshape(3, 3)[hop.ix_([0, 2], [1])]
    Array([[1],
           [7]], dtype=int64)
    """
    out = []
    for i, s in enumerate(sequences):
        s = _array(s)
        if s.ndim != 1:
            raise _arguments.wrong(here(f"argument {i}"), "a vector", s)
        s = nonzero(s)[0] if s.dtype is _dtypes.bool else astype(s, int64) if _shapes.empty(s.shape) else s
        out.append(reshape(s, (1,) * i + (-1,) + (1,) * (len(sequences) - 1 - i)))
    return tuple(out)


def unravel_index(indices, shape):
    """Positions in an array without axes as positions along each axis of a shape.

    >>> hop.unravel_index(hop.asarray([5]), (2, 3))
    (Array([1], dtype=int64), Array([2], dtype=int64))
    """
    at, out = _integers(here("indices"), indices)[0], []
    for n in reversed(_dims(shape)):
        out.append(at % n)
        at = at // n
    return tuple(reversed(out))


def ravel_multi_index(multi_index, dims):
    """Positions along each axis of a shape as positions in an array without axes.

    >>> hop.ravel_multi_index((hop.asarray([1]), hop.asarray([2])), (2, 3))
    Array([5], dtype=int64)
    """
    sizes = _dims(dims)
    if not isinstance(multi_index, (tuple, list)) or len(multi_index) != len(sizes):
        raise _arguments.wrong(here("multi_index"), f"an array for each of {len(sizes)} axes", multi_index)
    at = zeros((), int64)
    for n, i in zip(sizes, _integers(here("multi_index"), *multi_index)):
        at = at * n + i
    return at


def shape(x, /):
    """The sizes of the axes of x.

    >>> hop.shape(hop.asarray([[1, 2], [3, 4]]))
    (2, 2)
    """
    return _array(x).shape


def ndim(x, /):
    """How many axes x has.

    >>> hop.ndim(hop.asarray([[1, 2], [3, 4]]))
    2
    """
    return _array(x).ndim


def size(x, /, axis=None):
    """How many elements x has, in all or along an axis.

    >>> hop.size(hop.asarray([[1, 2], [3, 4]])), hop.size(hop.asarray([[1, 2], [3, 4]]), 0)
    (4, 2)
    """
    x = _array(x)
    return x.size if axis is None else x.shape[_along(x, axis)]


def ravel(x, /):
    """The elements along one axis.

    >>> hop.ravel(hop.asarray([[1, 2], [3, 4]]))
    Array([1, 2, 3, 4], dtype=int64)
    """
    return _vector(x)


def transpose(x, /, axes=None):
    """The axes in another order, by default the reverse one.

    >>> hop.transpose(hop.asarray([[1, 2], [3, 4]]))
    Array([[1, 3],
           [2, 4]], dtype=int64)
    >>> hop.transpose(hop.zeros((2, 3, 4)), (1, 0, 2)).shape
    (3, 2, 4)
    """
    x = _array(x)
    return permute_dims(x, tuple(reversed(range(x.ndim))) if axes is None else axes)


def rollaxis(x, axis, start=0, /):
    """An axis moved in front of another one.

    >>> hop.rollaxis(hop.zeros((2, 3, 4)), 2).shape
    (4, 2, 3)
    """
    x = _array(x)
    axis = _along(x, axis)
    start = _arguments.integer(here("start"), start, -x.ndim, x.ndim)
    start = start + x.ndim if start < 0 else start
    return moveaxis(x, axis, start - 1 if axis < start else start)


def rot90(x, /, k=1, axes=(0, 1)):
    """Turned by 90 degrees k times, from the first of two axes to the second.

    >>> hop.rot90(hop.asarray([[1, 2], [3, 4]]))
    Array([[2, 4],
           [1, 3]], dtype=int64)
    """
    x = _array(x)
    if not isinstance(axes, (tuple, list)) or len(axes) != 2:
        raise _arguments.wrong(here("axes"), "two axes", axes)
    a, b = [_along(x, n, "axes") for n in axes]
    if a == b:
        raise _arguments.wrong(here("axes"), "two different axes", axes)
    k = _arguments.integer(here("k"), k) % 4
    if k == 2:
        return flip(x, axis=(a, b))
    if k == 1:
        return swapaxes(flip(x, axis=b), a, b)
    return flip(swapaxes(x, a, b), axis=b) if k else +x


def fliplr(x, /):
    """The order of the columns reversed.

    >>> hop.fliplr(hop.asarray([[1, 2], [3, 4]]))
    Array([[2, 1],
           [4, 3]], dtype=int64)
    """
    return flip(x, axis=1)


def flipud(x, /):
    """The order of the rows reversed.

    >>> hop.flipud(hop.asarray([[1, 2], [3, 4]]))
    Array([[3, 4],
           [1, 2]], dtype=int64)
    """
    return flip(x, axis=0)


def _at_least(arrays, raised):
    if not arrays:
        raise InvalidError(f"{_core.call_place()}expected an array at least")
    made = [raised(_array(x)) for x in arrays]
    return made[0] if len(made) == 1 else made


def atleast_1d(*arrays):
    """Arrays with one axis at least; of several a list.

    >>> hop.atleast_1d(3.0)
    Array([3.], dtype=float32)
    """
    return _at_least(arrays, lambda x: x if x.ndim else reshape(x, (1,)))


def _matrix(x):
    return x if x.ndim > 1 else reshape(x, (1, -1))


def _cube(x):
    x = reshape(x, (1, -1)) if x.ndim < 2 else x
    return x if x.ndim > 2 else expand_dims(x, 2)


def atleast_2d(*arrays):
    """Arrays with two axes at least, of size 1 in front; of several a list.

    >>> hop.atleast_2d(hop.asarray([3, 1, 2])).shape
    (1, 3)
    """
    return _at_least(arrays, _matrix)


def atleast_3d(*arrays):
    """Arrays with three axes at least: a vector in the middle one, a matrix in the first two; of several a
    list.

    >>> hop.atleast_3d(hop.asarray([3, 1, 2])).shape
    (1, 3, 1)
    """
    return _at_least(arrays, _cube)


def _several(arrays):
    if isinstance(arrays, _core.ArrayBase) and arrays.ndim or isinstance(arrays, (tuple, list)):
        return [_array(x) for x in arrays]
    raise _arguments.wrong(here("arrays"), "several arrays", arrays)


def vstack(arrays, /):
    """One below the other: along the first axis, vectors as rows.

    >>> hop.vstack([hop.asarray([1, 2]), hop.asarray([3, 4])])
    Array([[1, 2],
           [3, 4]], dtype=int64)
    """
    return concat([_matrix(x) for x in _several(arrays)], axis=0)


def hstack(arrays, /):
    """Side by side: along the second axis, vectors along their only one.

    >>> hop.hstack([hop.asarray([1, 2]), hop.asarray([3, 4])])
    Array([1, 2, 3, 4], dtype=int64)
    """
    parts = [atleast_1d(x) for x in _several(arrays)]
    return concat(parts, axis=0 if parts and parts[0].ndim == 1 else 1)


def dstack(arrays, /):
    """One behind the other: along the third axis.

    >>> hop.dstack([hop.asarray([1, 2]), hop.asarray([3, 4])]).shape
    (1, 2, 2)
    """
    return concat([_cube(x) for x in _several(arrays)], axis=2)


def column_stack(arrays, /):
    """Vectors as columns, beside matrices.

    >>> hop.column_stack([hop.asarray([1, 2]), hop.asarray([3, 4])])
    Array([[1, 3],
           [2, 4]], dtype=int64)
    """
    return concat([reshape(x, (-1, 1)) if x.ndim < 2 else x for x in _several(arrays)], axis=1)


def block(arrays, /):
    """Blocks put together: the innermost lists along the last axis, the next ones along the one before,
    and so on.

    >>> hop.block([[hop.eye(1), hop.zeros((1, 2))], [hop.ones((1, 3))]])
    Array([[1., 0., 0.],
           [1., 1., 1.]], dtype=float32)
    """
    depth = _depth(arrays)
    rank = builtins.max([depth, *[x.ndim for x in _leaves(arrays)]])

    def joined(x, level):
        if level == depth:
            x = _array(x)
            return reshape(x, (1,) * (rank - x.ndim) + x.shape)
        return concat([joined(part, level + 1) for part in x], axis=rank - depth + level)

    return joined(arrays, 0)


def _depth(x):
    if not isinstance(x, list):
        return 0
    depths = {_depth(part) for part in x}
    if len(depths) != 1:
        raise InvalidError(f"{_core.call_place()}expected lists nested to one depth, none of them empty")
    return 1 + depths.pop()


def _leaves(x):
    return [leaf for part in x for leaf in _leaves(part)] if isinstance(x, list) else [_array(x)]


def append(x, values, /, axis=None):
    """values behind x along an axis; without one both as vectors.

    >>> hop.append(hop.asarray([1, 2]), 9)
    Array([1, 2, 9], dtype=int64)
    """
    x, values = (_vector(x), _vector(values)) if axis is None else (_array(x), _array(values))
    return concat([x, values], axis=0 if axis is None else axis)


def _positions(obj, n, most):
    """Positions along an axis of size n, from the front; whether a single one was given."""
    if isinstance(obj, slice):
        return list(range(n)[obj]), False
    at = _known("obj", obj)
    if at.dtype is _dtypes.bool:
        return [i for i, holds in enumerate(_vector(at).tolist()) if holds], False
    found = [_arguments.integer(here("obj"), i, -n, most) for i in _vector(at).tolist()]
    return [i + n if i < 0 else i for i in found], at.ndim == 0


def delete(x, obj, /, axis=None):
    """x without the slices at the positions obj (a number, several, a slice or a mask, known now) along an
    axis; without one as a vector.

    >>> hop.delete(hop.asarray([3, 1, 2]), 1)
    Array([3, 2], dtype=int64)
    """
    x, axis = (_vector(x), 0) if axis is None else (_array(x), axis)
    axis = _along(x, axis)
    n = x.shape[axis]
    gone = set(_positions(obj, n, n - 1)[0])
    return take(x, asarray([i for i in range(n) if i not in gone], dtype=int64), axis=axis)


def insert(x, obj, values, /, axis=None):
    """x with values before the positions obj (a number, several or a slice, known now) along an axis; without
    one as a vector.

    >>> hop.insert(hop.asarray([3, 1, 2]), 1, 9)
    Array([3, 9, 1, 2], dtype=int64)
    """
    x, axis = (_vector(x), 0) if axis is None else (_array(x), axis)
    axis = _along(x, axis)
    n, values = x.shape[axis], astype(_array(values), x.dtype, copy=False)
    at, single = _positions(obj, n, n)
    values = reshape(values, (1,) * (x.ndim - values.ndim) + values.shape) if values.ndim < x.ndim else values
    if single:
        values = moveaxis(values, 0, axis)
        at = at * values.shape[axis]
    sizes = tuple(len(at) if a == axis else m for a, m in enumerate(x.shape))
    order = sorted(range(len(at)), key=lambda i: at[i])
    places, taken = [], 0
    for i in range(n + 1):
        while taken < len(order) and at[order[taken]] == i:
            places.append(n + order[taken])
            taken += 1
        places += [i] if i < n else []
    return take(concat([x, broadcast_to(values, sizes)], axis=axis), asarray(places, dtype=int64), axis=axis)


def array_split(x, parts, /, axis=0):
    """Parts along an axis: so many, the first ones longer by one where they cannot be equal, or at these
    positions.

    >>> hop.array_split(hop.arange(5), 2)
    [Array([0, 1, 2], dtype=int64), Array([3, 4], dtype=int64)]
    """
    x = _array(x)
    if isinstance(parts, int) and not isinstance(parts, builtins.bool):
        parts = _arguments.integer(here("parts"), parts, 1, 1 << 20)
        n = x.shape[_along(x, axis)]
        edges = [i * (n // parts) + _shapes.least(i, n % parts) for i in range(1, parts)]
    elif isinstance(parts, (tuple, list)):
        edges = [
            _shapes.least(
                p if isinstance(p, _shapes.Size) else _arguments.integer(here("parts"), p),
                x.shape[_along(x, axis)],
            )
            for p in parts
        ]
    else:
        raise _arguments.wrong(here("parts"), "a number of parts, or positions", parts)
    return split(x, edges, axis=axis) if edges else [+x]


def vsplit(x, parts, /):
    """Parts along the first axis.

    >>> hop.vsplit(hop.asarray([[1, 2], [3, 4]]), 2)
    [Array([[1, 2]], dtype=int64), Array([[3, 4]], dtype=int64)]
    """
    return split(x, parts, axis=0)


def hsplit(x, parts, /):
    """Parts along the second axis, of a vector along its only one.

    >>> hop.hsplit(hop.asarray([3, 1, 2]), [1])
    [Array([3], dtype=int64), Array([1, 2], dtype=int64)]
    """
    x = _array(x)
    return split(x, parts, axis=0 if x.ndim == 1 else 1)


def dsplit(x, parts, /):
    """Parts along the third axis.

    >>> [x.shape for x in hop.dsplit(hop.zeros((1, 2, 4)), 2)]
    [(1, 2, 2), (1, 2, 2)]
    """
    return split(x, parts, axis=2)


# ---- products ----


def dot(x1, x2, /, *, dtype=None, preferred_element_type=None):
    """The product of vectors and matrices; of more axes the sum over the last axis of x1 and the second to
    last of x2. dtype: as for matmul.

    >>> hop.dot(hop.asarray([[1, 2], [3, 4]]), hop.asarray([1, 1]))
    Array([3, 7], dtype=int64)
    """
    x1, x2 = _array(x1), _array(x2)
    chosen = {"dtype": dtype, "preferred_element_type": preferred_element_type}
    if not x1.ndim or not x2.ndim:
        return tensordot(x1, x2, axes=0, **chosen)
    if x2.ndim < 3:
        return matmul(x1, x2, **chosen)
    return tensordot(x1, x2, axes=((-1 % x1.ndim,), (x2.ndim - 2,)), **chosen)


def inner(x1, x2, /, *, dtype=None, preferred_element_type=None):
    """Sums of products over the last axes of both. dtype: as for matmul.

    >>> hop.inner(hop.asarray([[1, 2], [3, 4]]), hop.asarray([1, 10]))
    Array([21, 43], dtype=int64)
    """
    x1, x2 = _array(x1), _array(x2)
    chosen = {"dtype": dtype, "preferred_element_type": preferred_element_type}
    if not x1.ndim or not x2.ndim:
        return tensordot(x1, x2, axes=0, **chosen)
    return tensordot(x1, x2, axes=((x1.ndim - 1,), (x2.ndim - 1,)), **chosen)


def vdot(x1, x2, /, *, dtype=None, preferred_element_type=None):
    """The sum of the products of all elements. dtype: as for matmul.

    >>> hop.vdot(hop.asarray([[1, 2], [3, 4]]), hop.asarray([[1, 2], [3, 4]]))
    Array(30, dtype=int64)
    """
    return dot(_vector(x1), _vector(x2), dtype=dtype, preferred_element_type=preferred_element_type)


def kron(x1, x2, /):
    """Kronecker's product: x2 in the place of each element of x1, times it.

    >>> hop.kron(hop.asarray([1, 10]), hop.asarray([1, 2]))
    Array([ 1,  2, 10, 20], dtype=int64)
    """
    x1, x2 = _array(x1), _array(x2)
    rank = builtins.max(x1.ndim, x2.ndim)
    a, b = [(1,) * (rank - x.ndim) + x.shape for x in (x1, x2)]
    wide = reshape(x1, [n for m in a for n in (m, 1)]) * reshape(x2, [n for m in b for n in (1, m)])
    return reshape(wide, tuple(n * m for n, m in zip(a, b)))


def _windows(x, n):
    """The n neighbours from each element on, as rows."""
    return take(x, expand_dims(arange(x.shape[0] - n + 1), 1) + arange(n), axis=0)


def _line(name, x):
    x = atleast_1d(x)
    if x.ndim != 1 or _shapes.lacks_elements(x.shape):
        raise _arguments.wrong(here(name), "a vector that is not empty", x)
    return x


def _mode(mode):
    if not isinstance(mode, str) or mode not in ("full", "same", "valid"):
        raise _arguments.wrong(here("mode"), "'full', 'same' or 'valid'", mode)
    return mode


def convolve(x1, x2, /, mode="full"):
    """The convolution of two vectors: all of it, its middle ("same": as long as the longer one), or where
    both overlap whole ("valid").

    >>> hop.convolve(hop.asarray([1, 2, 3]), hop.asarray([1, 1]))
    Array([1, 3, 5, 3], dtype=int64)
    """
    x1, x2, mode = _line("x1", x1), _line("x2", x2), _mode(mode)
    return _convolved(x1, x2, mode)


def _convolved(x1, x2, mode):
    n, m = x1.shape[0], x2.shape[0]
    first_is_long = _shapes.holds(n, ">=", m)
    if mode != "full" and first_is_long is None:  # all of it, and then the part that is wanted
        less, more = _shapes.least(n, m), _shapes.largest(n, m)
        start, length = ((less - 1) // 2, more) if mode == "same" else (less - 1, more - less + 1)
        return _convolved(x1, x2, "full")[start : start + length]
    long, short = (x1, x2) if first_is_long is not False else (x2, x1)
    n, m = long.shape[0], short.shape[0]
    before = {"full": m - 1, "same": m - 1 - (m - 1) // 2, "valid": 0}[mode]
    length = {"full": n + m - 1, "same": n, "valid": n - m + 1}[mode]
    return matmul(_windows(pad(long, (before, length - (n - m + 1) - before)), m), flip(short))


def correlate(x1, x2, /, mode="valid"):
    """Sums of products of a vector and another one that is moved along it.

    >>> hop.correlate(hop.asarray([1, 2, 3]), hop.asarray([1, 1]))
    Array([3, 5], dtype=int64)
    """
    x1, x2, mode = _line("x1", x1), _line("x2", x2), _mode(mode)
    if _shapes.holds(x1.shape[0], ">=", x2.shape[0]) is not False:
        return _convolved(x1, flip(x2), mode)
    return flip(_convolved(x2, flip(x1), mode))


# ---- comparisons and sets ----


def array_equal(x1, x2, /, equal_nan=False):
    """Whether both have the same shape and the same elements.

    A bool array without axes; of different shapes False.

    >>> hop.array_equal(hop.asarray([3, 1, 2]), hop.asarray([3, 1, 2]))
    Array(True, dtype=bool)
    """
    x1, x2 = _array(x1), _array(x2)
    if _shapes.shapes_differ(x1.shape, x2.shape):
        return full((), False, dtype=_dtypes.bool)
    unproved = [(m, n) for m, n in zip(x1.shape, x2.shape) if not _shapes.equal(m, n)]
    for m, n in unproved:
        if _shapes.holds(m, "==", n) is False:
            return full((), False, dtype=_dtypes.bool)
    if builtins.any(_shapes.holds(m, "==", n) is None for m, n in unproved):
        raise _arguments.unknown(here("x1, x2"), "arrays of which it is known whether their shapes agree", x2)
    same = x1 == x2
    return all(same | (isnan(x1) & isnan(x2)) if _arguments.flag(here("equal_nan"), equal_nan) else same)


def array_equiv(x1, x2, /):
    """Whether both have the same elements when they are broadcast.

    >>> hop.array_equiv(hop.asarray([1, 1]), 1)
    Array(True, dtype=bool)
    """
    x1, x2 = _array(x1), _array(x2)
    try:
        broadcast_shapes(x1.shape, x2.shape)
    except ValueError:
        return full((), False, dtype=_dtypes.bool)
    return all(x1 == x2)


def isin(x1, x2, /, *, invert=False):
    """Where elements of x1 are among those of x2.

    >>> hop.isin(hop.asarray([3, 1, 2]), hop.asarray([1, 3]))
    Array([ True,  True, False], dtype=bool)
    """
    x1, x2 = _array(x1), sort(_vector(x2))
    if _shapes.empty(x2.shape):
        found = full(x1.shape, False, dtype=_dtypes.bool)
    else:
        at = searchsorted(x2, x1)
        inside = at < x2.shape[0]
        # one more, so that there is something to read where x2 has no elements
        found = inside & (pad(x2, (0, 1))[at] == x1)
    return logical_not(found) if _arguments.flag(here("invert"), invert) else found


def unique(
    x, /, return_index=False, return_inverse=False, return_counts=False, *, size=None, fill_value=None
):
    """The different elements in ascending order; on request where each is first, which of them stands where,
    how often each is there. With size= exactly so many: fill_value, by default the smallest, fills up.

    >>> hop.unique(hop.asarray([3, 1, 3]), size=3, fill_value=0)
    Array([1, 3, 0], dtype=int64)
    >>> hop.unique(hop.asarray([3, 1, 3]), return_counts=True)
    (Array([1, 3], dtype=int64), Array([1, 2], dtype=int64))
    """
    wanted = [
        _arguments.flag(here(n), v)
        for n, v in (
            ("return_index", return_index),
            ("return_inverse", return_inverse),
            ("return_counts", return_counts),
        )
    ]
    fills = size is not None and fill_value is not None
    if not builtins.any(wanted) and not fills:
        return unique_values(x, size=size)
    values, *more = unique_all(x, size=size)
    if fills:
        values = where(more[-1] > 0, values, asarray(fill_value, dtype=values.dtype))
    return (values, *[m for m, w in zip(more, wanted) if w]) if builtins.any(wanted) else values


def union1d(x1, x2, /):
    """The different elements of both, in ascending order.

    >>> hop.union1d(hop.asarray([3, 1, 2]), hop.asarray([5]))
    Array([1, 2, 3, 5], dtype=int64)
    """
    return unique_values(concat([_vector(x1), _vector(x2)]))


def intersect1d(x1, x2, /):
    """The different elements that both have, in ascending order.

    >>> hop.intersect1d(hop.asarray([3, 1, 2]), hop.asarray([1, 5, 3]))
    Array([1, 3], dtype=int64)
    """
    values = unique_values(x1)
    return values[isin(values, x2)]


def setdiff1d(x1, x2, /):
    """The different elements of x1 that x2 lacks, in ascending order.

    >>> hop.setdiff1d(hop.asarray([3, 1, 2]), hop.asarray([1]))
    Array([2, 3], dtype=int64)
    """
    values = unique_values(x1)
    return values[isin(values, x2, invert=True)]


def setxor1d(x1, x2, /):
    """The different elements that only one of both has, in ascending order.

    >>> hop.setxor1d(hop.asarray([3, 1, 2]), hop.asarray([1, 7]))
    Array([2, 3, 7], dtype=int64)
    """
    values = union1d(x1, x2)
    return values[isin(values, x1) ^ isin(values, x2)]


def argwhere(x, /, *, size=None):
    """Where x is not 0: a row of positions for each such element.

    >>> hop.argwhere(hop.asarray([[0, 1], [2, 0]]))
    Array([[0, 1],
           [1, 0]], dtype=int64)
    """
    return stack(nonzero(x, size=size), axis=1)


def flatnonzero(x, /, *, size=None):
    """Where x is not 0, counted without axes.

    >>> hop.flatnonzero(hop.asarray([[0, 1], [2, 0]]))
    Array([1, 2], dtype=int64)
    """
    return nonzero(_vector(x), size=size)[0]


def extract(condition, x, /):
    """The elements of x where the condition holds.

    >>> hop.extract(hop.asarray([3, 1, 2]) > 1, hop.asarray([3, 1, 2]))
    Array([3, 2], dtype=int64)
    """
    return _vector(x)[_vector(condition) != 0]


def compress(condition, x, /, axis=None):
    """The slices of x along an axis where the condition holds; without one of x as a vector.

    >>> hop.compress(hop.asarray([True, False]), hop.asarray([[1, 2], [3, 4]]), axis=1)
    Array([[1],
           [3]], dtype=int64)
    """
    x, axis = (_vector(x), 0) if axis is None else (_array(x), axis)
    kept = nonzero(_line("condition", condition))[0]
    return take(x, kept, axis=axis)


def piecewise(x, conditions, functions, /):
    """The function (or number) of the last condition that holds; of one function more than conditions that of
    none, else 0. All are computed.

    >>> x = hop.asarray([-2.0, 3.0])
    >>> hop.piecewise(x, [x < 0], [lambda v: -v, lambda v: v * 10])
    Array([ 2., 30.], dtype=float32)
    """
    x, conditions = (
        _array(x),
        [_array(c) for c in (conditions if isinstance(conditions, (tuple, list)) else [conditions])],
    )
    if not isinstance(functions, (tuple, list)) or len(functions) - len(conditions) not in (0, 1):
        raise _arguments.wrong(here("functions"), f"{len(conditions)} functions, or one more", functions)
    values = [f(x) if callable(f) else f for f in functions]
    out = broadcast_to(_array(values[-1]), x.shape) if len(values) > len(conditions) else zeros_like(x)
    for condition, value in zip(conditions, values):
        out = where(condition, value, out)
    return astype(out, x.dtype, copy=False)


def apply_along_axis(function, axis, x, /, *args, **named):
    """The function of each vector along an axis; what it gives stands in the place of that axis.

    >>> hop.apply_along_axis(hop.sum, 1, hop.asarray([[1, 2], [3, 4]]))
    Array([3, 7], dtype=int64)
    """
    from ._transforms import vmap

    _arguments.function(here("function"), function)
    x = _array(x)
    axis, mapped = _along(x, axis), lambda line: _arguments.twins.of(function)(line, *args, **named)
    for _ in range(x.ndim - 1):
        mapped = vmap(mapped)
    out = mapped(moveaxis(x, axis, -1))
    if not _dtypes.is_number(out) and not isinstance(out, _core.ArrayBase):
        raise _arguments.wrong(here("function"), "a function that gives an array", out)
    out = _array(out)
    more = out.ndim - (x.ndim - 1)
    return moveaxis(out, tuple(range(x.ndim - 1, out.ndim)), tuple(range(axis, axis + more)))


# ---- order and statistics ----


def cumsum(x, /, axis=None, dtype=None):
    """Running sums along an axis; without one of x as a vector.

    >>> hop.cumsum(hop.asarray([3, 1, 2]))
    Array([3, 4, 6], dtype=int64)
    >>> hop.cumsum(hop.asarray([[1, 2], [3, 4]]), axis=1)
    Array([[1, 3],
           [3, 7]], dtype=int64)
    """
    return cumulative_sum(_vector(x) if axis is None else x, axis=0 if axis is None else axis, dtype=dtype)


def cumprod(x, /, axis=None, dtype=None):
    """Running products along an axis; without one of x as a vector.

    >>> hop.cumprod(hop.asarray([3, 1, 2]))
    Array([3, 3, 6], dtype=int64)
    """
    return cumulative_prod(_vector(x) if axis is None else x, axis=0 if axis is None else axis, dtype=dtype)


def lexsort(keys, /, axis=-1):
    """Where elements stand that are sorted by several keys, the last one first.

    >>> hop.lexsort((hop.asarray([1, 0, 1]), hop.asarray([2, 2, 1])))
    Array([2, 1, 0], dtype=int64)
    """
    keys = _several(keys)
    if not keys:
        raise _arguments.wrong(here("keys"), "a key at least", keys)
    order = argsort(keys[0], axis=axis)
    for k in keys[1:]:
        order = take_along_axis(order, argsort(take_along_axis(k, order, axis=axis), axis=axis), axis=axis)
    return order


def partition(x, kth, /, axis=-1):
    """Sorted along an axis, which brings the kth elements to their places.

    >>> hop.partition(hop.asarray([3, 1, 2]), 1)
    Array([1, 2, 3], dtype=int64)
    """
    return sort(_vector(x) if axis is None else x, axis=-1 if axis is None else axis)


def argpartition(x, kth, /, axis=-1):
    """Where the elements of partition stand.

    >>> hop.argpartition(hop.asarray([3, 1, 2]), 1)
    Array([1, 2, 0], dtype=int64)
    """
    return argsort(_vector(x) if axis is None else x, axis=-1 if axis is None else axis)


def ptp(x, /, axis=None, *, keepdims=False):
    """The difference of the largest and the smallest along axes.

    >>> hop.ptp(hop.asarray([3, 1, 2]))
    Array(2, dtype=int64)
    """
    return max(x, axis=axis, keepdims=keepdims) - min(x, axis=axis, keepdims=keepdims)


def median(x, /, axis=None, *, keepdims=False):
    """The number in the middle along axes, or between the two that are there.

    >>> hop.median(hop.asarray([3, 1, 2]))
    Array(2., dtype=float32)
    >>> hop.median(hop.asarray([1.0, 2.0, 4.0, 9.0]))
    Array(3., dtype=float32)
    """
    return quantile(x, 0.5, axis=axis, keepdims=keepdims)


def percentile(x, q, /, axis=None, *, keepdims=False):
    """quantile, of q in hundredths.

    >>> hop.percentile(hop.asarray([1.0, 2.0, 4.0]), 50)
    Array(2., dtype=float32)
    """
    return quantile(x, q / 100 if _dtypes.is_number(q) else _as_real(q) / 100, axis=axis, keepdims=keepdims)


def average(x, /, axis=None, weights=None, returned=False, *, keepdims=False):
    """The mean along axes, with weights of the shape of x or along the one axis; with returned=True the sums
    of the weights, too.

    >>> hop.average(hop.asarray([1.0, 3.0]), weights=hop.asarray([3.0, 1.0]))
    Array(1.5, dtype=float32)
    """
    x = _as_real(x)
    if weights is None:
        out = mean(x, axis=axis, keepdims=keepdims)
        n = full((), math.prod(x.shape[a] for a in _axes(x, axis)), dtype=out.dtype)
        return (out, broadcast_to(n, out.shape)) if _arguments.flag(here("returned"), returned) else out
    weights = _as_real(weights)
    if weights.ndim != x.ndim or _shapes.shapes_differ(weights.shape, x.shape):
        axes = _axes(x, axis)
        if weights.ndim != 1 or len(axes) != 1 or _shapes.differ(weights.shape[0], x.shape[axes[0]]):
            raise _arguments.wrong(
                here("weights"), f"the shape of {x._type}, or a weight for each slice along one axis", weights
            )
        weights = broadcast_to(
            reshape(weights, tuple(-1 if a == axes[0] else 1 for a in range(x.ndim))), x.shape
        )
    total = sum(weights, axis=axis, keepdims=keepdims)
    out = sum(x * weights, axis=axis, keepdims=keepdims) / total
    return (out, total) if _arguments.flag(here("returned"), returned) else out


def cov(x, /, y=None, rowvar=True, *, correction=1):
    """The covariances of the rows of a matrix, the observations in its columns (rowvar=False: the other way
    round); y has more rows.

    >>> hop.cov(hop.asarray([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
    Array([[ 1., -1.],
           [-1.,  1.]], dtype=float32)
    """
    parts = []
    for v in (x,) if y is None else (x, y):
        v = _matrix(_as_real(v))
        if v.ndim > 2:
            raise _arguments.wrong(here("x"), "a vector or a matrix", v)
        lies = _arguments.flag(here("rowvar"), rowvar) or _shapes.holds(v.shape[0], "==", 1)
        parts.append(v if lies else _transposed(v))
    rows = concat(parts, axis=0)
    centred = rows - mean(rows, axis=1, keepdims=True)
    out = matmul(centred, _transposed(centred)) / (rows.shape[1] - correction)
    return reshape(out, ()) if _shapes.holds(out.shape[0], "==", 1) else out


def _transposed(x):
    return swapaxes(x, 0, 1)


def corrcoef(x, /, y=None, rowvar=True):
    """The correlations of the rows of a matrix, the observations in its columns.

    >>> hop.round(hop.corrcoef(hop.asarray([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])), 4)
    Array([[ 1., -1.],
           [-1.,  1.]], dtype=float32)
    """
    c = cov(x, y, rowvar)
    if not c.ndim:
        return c / c
    d = sqrt(diagonal(c))
    return clip(c / expand_dims(d, 1) / d, -1, 1)


def trapezoid(y, /, x=None, dx=1.0, axis=-1):
    """The integral of y along an axis by trapezoids, at the points x or at a distance dx.

    >>> hop.trapezoid(hop.asarray([0.0, 1.0, 4.0]))
    Array(3., dtype=float32)
    """
    y = _as_real(y)
    axis = _along(y, axis)
    if x is not None:
        x = _array(x)
        dx = diff(x, axis=0 if x.ndim == 1 else axis)
        dx = reshape(dx, tuple(-1 if a == axis else 1 for a in range(y.ndim))) if dx.ndim == 1 else dx
    front, back = [y[(slice(None),) * axis + (s,)] for s in (slice(1, None), slice(None, -1))]
    return sum((front + back) * dx, axis=axis) / 2


def ediff1d(x, /, to_end=None, to_begin=None):
    """Differences of neighbours of all elements; to_begin and to_end stand before and behind them.

    >>> hop.ediff1d(hop.asarray([1, 4, 9]))
    Array([3, 5], dtype=int64)
    """
    steps = diff(_vector(x))
    return concat([_vector(part) for part in (to_begin, steps, to_end) if part is not None])


def gradient(x, /, *spacing, axis=None):
    """Slopes along axes, by differences of both neighbours, at the ends of one. spacing: a distance for all
    axes, or a distance or the positions for each.

    Differences of numbers; hop.grad is the derivative of a function.

    >>> hop.gradient(hop.asarray([0.0, 1.0, 4.0, 9.0]))
    Array([1., 2., 4., 5.], dtype=float32)
    """
    x = _as_real(x)
    axes = _axes(x, axis)
    if len(spacing) not in (0, 1, len(axes)):
        raise InvalidError(
            f"{_core.call_place()}expected one spacing, or one for each of {len(axes)} axes, "
            f"found {len(spacing)}"
        )
    spacing = (spacing or (1.0,)) * (len(axes) if len(spacing) < 2 else 1)
    out = [_slopes(x, h, a) for a, h in zip(axes, spacing)]
    return out[0] if len(out) == 1 else tuple(out)


def _slopes(x, h, axis):
    n = x.shape[axis]
    if _shapes.lacks_elements((n - 1,)) or _shapes.holds(n, "<", 2):
        raise InvalidError(
            f"{_core.call_place()}expected two elements at least along axis {axis} of {x._type}"
        )
    h = _array(h)
    if h.ndim and _shapes.shapes_differ(h.shape, (n,)):
        raise _arguments.wrong(here("spacing"), f"a distance or {n} positions", h)
    x = moveaxis(x, axis, -1)
    steps = diff(h) if h.ndim else broadcast_to(h, (n - 1,))
    slopes = diff(x) / steps
    before, after = steps[:-1], steps[1:]
    inside = (slopes[..., :-1] * after + slopes[..., 1:] * before) / (before + after)
    return moveaxis(concat([slopes[..., :1], inside, slopes[..., -1:]], axis=-1), -1, axis)


def bincount(x, /, weights=None, minlength=0, *, length=None):
    """How often each integer from 0 on is in x, or the sum of its weights. length: how long the result is;
    needed where only a run knows x.

    >>> hop.bincount(hop.asarray([0, 2, 2]))
    Array([1, 0, 2], dtype=int64)
    >>> hop.bincount(hop.asarray([0, 2, 2]), length=5)
    Array([1, 0, 2, 0, 0], dtype=int64)
    """
    x = zeros((0,), int64) if _shapes.empty(_array(x).shape) else _integers(here("x"), _vector(x))[0]
    if length is None:
        most = None if _shapes.empty(x.shape) else _known("x", x)
        length = builtins.max(
            _arguments.size(here("minlength"), minlength), 0 if most is None else int(max(most)) + 1
        )
        if most is not None and int(min(most)) < 0:
            raise InvalidError(f"{_core.call_place()}expected integers of at least 0, found {int(min(most))}")
    start = zeros(
        (_arguments.extent(here("length"), length),), int64 if weights is None else _as_real(weights).dtype
    )
    return start.at[where(x < 0, start.shape[0], x)].add(1 if weights is None else _vector(_as_real(weights)))


def digitize(x, bins, /, right=False):
    """Between which edges elements lie: the number of edges at or below them (right=True: below), of falling
    edges those above them.

    >>> hop.digitize(hop.asarray([0.5, 2.5]), hop.asarray([1.0, 2.0, 3.0]))
    Array([0, 2], dtype=int64)
    """
    x, bins = _array(x), _line("bins", bins)
    right = _arguments.flag(here("right"), right)
    rising = searchsorted(bins, x, side="left" if right else "right")
    falling = bins.shape[0] - searchsorted(flip(bins), x, side="left" if right else "right")
    return where(bins[0] <= bins[-1], rising, falling)


def histogram_bin_edges(x, /, bins=10, range=None):
    """The edges of the bins of histogram: so many bins of one width over the range (of the elements when not
    said), or the edges given.

    >>> hop.histogram_bin_edges(hop.asarray([0.0, 4.0]), 2)
    Array([0., 2., 4.], dtype=float32)
    """
    if not isinstance(bins, int) or isinstance(bins, builtins.bool):
        return _line("bins", bins)
    bins, x = _arguments.integer(here("bins"), bins, 1, 1 << 40), _as_real(x)
    if range is not None and (not isinstance(range, (tuple, list)) or len(range) != 2):
        raise _arguments.wrong(here("range"), "(lowest, highest)", range)
    if range is None and _shapes.empty(x.shape):
        range = (0.0, 1.0)
    low, high = [_as_real(v) for v in (range if range is not None else (min(x), max(x)))]
    flat = low == high
    low, high = where(flat, low - 0.5, low), where(flat, high + 0.5, high)
    part = arange(0, bins + 1, dtype=low.dtype) / bins
    return where(part == 1, high, low + part * (high - low))


def histogram(x, /, bins=10, range=None, density=False, weights=None):
    """(how many elements, or what weights, lie in each bin; the edges of the bins). The last bin holds its
    upper edge, too. density=True: over an integral of 1.

    >>> hop.histogram(hop.asarray([0.0, 1.0, 4.0]), 2)
    (Array([2, 1], dtype=int64), Array([0., 2., 4.], dtype=float32))
    """
    x, edges = _vector(x), histogram_bin_edges(x, bins, range)
    n = edges.shape[0] - 1
    at = searchsorted(edges, x, side="right") - 1
    at = where(x == edges[-1], n - 1, at)
    inside = (x >= edges[0]) & (x <= edges[-1])
    start = zeros((n,), int64 if weights is None else _as_real(weights).dtype)
    counts = start.at[where(inside, at, n)].add(1 if weights is None else _vector(_as_real(weights)))
    if _arguments.flag(here("density"), density):
        counts = counts / diff(edges) / sum(counts)
    return counts, edges


# ---- without NaN ----


def _without_nan(x, value):
    """(x with a value in place of NaN, where it was not NaN)"""
    x = _array(x)
    return (where(isnan(x), value, x) if x.dtype.kind == "f" else x), logical_not(isnan(x))


def nansum(x, /, axis=None, dtype=None, *, keepdims=False):
    """The sum of what is not NaN along axes.

    >>> hop.nansum(hop.asarray([1.0, hop.nan, 4.0]))
    Array(5., dtype=float32)
    """
    return sum(_without_nan(x, 0)[0], axis=axis, dtype=dtype, keepdims=keepdims)


def nanprod(x, /, axis=None, dtype=None, *, keepdims=False):
    """The product of what is not NaN along axes.

    >>> hop.nanprod(hop.asarray([1.0, hop.nan, 4.0]))
    Array(4., dtype=float32)
    """
    return prod(_without_nan(x, 1)[0], axis=axis, dtype=dtype, keepdims=keepdims)


def nancumsum(x, /, axis=None, dtype=None):
    """cumsum of what is not NaN.

    >>> hop.nancumsum(hop.asarray([1.0, hop.nan, 4.0]))
    Array([1., 1., 5.], dtype=float32)
    """
    return cumsum(_without_nan(x, 0)[0], axis, dtype)


def nancumprod(x, /, axis=None, dtype=None):
    """cumprod of what is not NaN.

    >>> hop.nancumprod(hop.asarray([1.0, hop.nan, 4.0]))
    Array([1., 1., 4.], dtype=float32)
    """
    return cumprod(_without_nan(x, 1)[0], axis, dtype)


def nanmean(x, /, axis=None, *, keepdims=False):
    """The mean of what is not NaN along axes.

    >>> hop.nanmean(hop.asarray([1.0, hop.nan, 4.0]))
    Array(2.5, dtype=float32)
    """
    filled, there = _without_nan(_as_real(x), 0)
    return sum(filled, axis=axis, keepdims=keepdims) / astype(
        sum(there, axis=axis, keepdims=keepdims), filled.dtype
    )


def nanvar(x, /, axis=None, *, correction=0.0, keepdims=False):
    """The variance of what is not NaN along axes.

    >>> hop.nanvar(hop.asarray([1.0, hop.nan, 4.0]))
    Array(2.25, dtype=float32)
    """
    x = _as_real(x)
    distance, there = _without_nan(x - nanmean(x, axis=axis, keepdims=True), 0)
    free = astype(sum(there, axis=axis, keepdims=keepdims), x.dtype) - correction
    return where(
        free > 0, sum(distance * distance, axis=axis, keepdims=keepdims) / where(free > 0, free, 1), nan
    )


def nanstd(x, /, axis=None, *, correction=0.0, keepdims=False):
    """The standard deviation of what is not NaN along axes.

    >>> hop.nanstd(hop.asarray([1.0, hop.nan, 4.0]))
    Array(1.5, dtype=float32)
    """
    return sqrt(nanvar(x, axis=axis, correction=correction, keepdims=keepdims))


def _nan_extreme(x, axis, keepdims, reduced, worst):
    x = _array(x)
    if x.dtype.kind != "f":
        return reduced(x, axis=axis, keepdims=keepdims)
    filled, there = _without_nan(x, worst)
    return where(any(there, axis=axis, keepdims=keepdims), reduced(filled, axis=axis, keepdims=keepdims), nan)


def nanmax(x, /, axis=None, *, keepdims=False):
    """The largest of what is not NaN along axes; NaN where there is nothing else.

    >>> hop.nanmax(hop.asarray([1.0, hop.nan, 4.0]))
    Array(4., dtype=float32)
    """
    return _nan_extreme(x, axis, keepdims, max, -inf)


def nanmin(x, /, axis=None, *, keepdims=False):
    """The smallest of what is not NaN along axes; NaN where there is nothing else.

    >>> hop.nanmin(hop.asarray([1.0, hop.nan, 4.0]))
    Array(1., dtype=float32)
    """
    return _nan_extreme(x, axis, keepdims, min, inf)


def nanargmax(x, /, axis=None, *, keepdims=False):
    """Where the first of the largest that are not NaN stands; 0 where there is nothing else.

    >>> hop.nanargmax(hop.asarray([1.0, hop.nan, 4.0]))
    Array(2, dtype=int64)
    """
    return _ops.argmax(_without_nan(x, -inf)[0], axis=axis, keepdims=keepdims)


def nanargmin(x, /, axis=None, *, keepdims=False):
    """Where the first of the smallest that are not NaN stands; 0 where there is nothing else.

    >>> hop.nanargmin(hop.asarray([1.0, hop.nan, 4.0]))
    Array(0, dtype=int64)
    """
    return _ops.argmin(_without_nan(x, inf)[0], axis=axis, keepdims=keepdims)


def nanquantile(x, q, /, axis=None, *, keepdims=False):
    """quantile of what is not NaN; NaN where there is nothing else.

    >>> hop.nanquantile(hop.asarray([1.0, hop.nan, 4.0]), 0.5)
    Array(2.5, dtype=float32)
    """
    x, q = _as_real(x), asarray(q, dtype=float64)
    axes = _axes(x, axis)
    kept = [a for a in builtins.range(x.ndim) if a not in axes]
    rest = tuple(x.shape[a] for a in kept)
    lines = sort(
        reshape(permute_dims(x, (*axes, *kept)), (math.prod(x.shape[a] for a in axes), math.prod(rest))),
        axis=0,
    )
    if _shapes.lacks_elements(lines.shape[:1]):
        raise InvalidError(f"{_core.call_place()}there are no elements along the axis in {x._type}")
    last = sum(logical_not(isnan(lines)), axis=0) - 1  # NaN is sorted to the end
    at = reshape(q, (-1, 1)) * maximum(last, 0)
    low = astype(floor(at), int64)
    part = astype(at - low, x.dtype)
    below, above = [take_along_axis(lines, i, axis=0) for i in (low, minimum(low + 1, maximum(last, 0)))]
    out = where(part == 0, below, below + part * (above - below))
    sizes = tuple(1 if a in axes else n for a, n in enumerate(x.shape)) if keepdims else rest
    return reshape(where(last < 0, nan, out), (*q.shape, *sizes))


def nanpercentile(x, q, /, axis=None, *, keepdims=False):
    """percentile of what is not NaN.

    >>> hop.nanpercentile(hop.asarray([1.0, hop.nan, 4.0]), 50)
    Array(2.5, dtype=float32)
    """
    return nanquantile(x, asarray(q, dtype=float64) / 100, axis=axis, keepdims=keepdims)


def nanmedian(x, /, axis=None, *, keepdims=False):
    """median of what is not NaN.

    >>> hop.nanmedian(hop.asarray([1.0, hop.nan, 4.0]))
    Array(2.5, dtype=float32)
    """
    return nanquantile(x, 0.5, axis=axis, keepdims=keepdims)


# ---- polynomials: coefficients from the highest power down ----


def polyval(p, x, /):
    """The polynomial with the coefficients p, from the highest power down, at x.

    >>> hop.polyval(hop.asarray([1.0, 0.0, -1.0]), 3.0)
    Array(8., dtype=float32)
    """
    from ._control import fori_loop

    p, x = _line("p", p), _array(x)
    n = p.shape[0]
    first = broadcast_to(p[0], x.shape) + zeros_like(x)
    if isinstance(n, _shapes.Size) or n > 64:
        return fori_loop(1, n, lambda i, out: out * x + p[i], first)
    for i in range(1, n):
        first = first * x + p[i]
    return first


def _coefficients(a1, a2):
    a1, a2 = _line("a1", a1), _line("a2", a2)
    n = _shapes.largest(a1.shape[0], a2.shape[0])
    return [pad(a, (n - a.shape[0], 0)) for a in (a1, a2)]


def polyadd(a1, a2, /):
    """The sum of two polynomials.

    >>> hop.polyadd(hop.asarray([1, 2]), hop.asarray([1, 0, 0]))
    Array([1, 1, 2], dtype=int64)
    """
    a1, a2 = _coefficients(a1, a2)
    return a1 + a2


def polysub(a1, a2, /):
    """The difference of two polynomials.

    >>> hop.polysub(hop.asarray([1, 2]), hop.asarray([1, 0, 0]))
    Array([-1,  1,  2], dtype=int64)
    """
    a1, a2 = _coefficients(a1, a2)
    return a1 - a2


def polymul(a1, a2, /):
    """The product of two polynomials.

    >>> hop.polymul(hop.asarray([1, 1]), hop.asarray([1, -1]))
    Array([ 1,  0, -1], dtype=int64)
    """
    return _convolved(_line("a1", a1), _line("a2", a2), "full")


def polyder(p, /, m=1):
    """The mth derivative of a polynomial.

    >>> hop.polyder(hop.asarray([1.0, 0.0, -1.0]))
    Array([2., 0.], dtype=float32)
    """
    p = _line("p", p)
    m, n = _arguments.size(here("m"), m), p.shape[0]
    for _ in range(m if isinstance(n, _shapes.Size) else builtins.min(m, n)):
        n = p.shape[0] - 1
        p = p[:-1] * flip(astype(arange(1, n + 1), p.dtype))
    return p


def polyint(p, /, m=1, k=0):
    """The mth integral of a polynomial; k is the constant, or one for each integral.

    >>> hop.polyint(hop.asarray([2.0, 1.0]))
    Array([1., 1., 0.], dtype=float32)
    """
    p = _as_real(_line("p", p))
    m = _arguments.integer(here("m"), m, 0, 1000)
    constants = list(k) if isinstance(k, (tuple, list)) else [k] * m
    if len(constants) != m:
        raise _arguments.wrong(here("k"), f"a constant, or {m}", k)
    for c in constants:
        p = concat(
            [
                p / flip(astype(arange(1, p.shape[0] + 1), p.dtype)),
                broadcast_to(astype(_array(c), p.dtype), (1,)),
            ]
        )
    return p


__all__ = [
    *_SPELLINGS,
    *[n for n, v in list(globals().items()) if n[0] != "_" and getattr(v, "__module__", "") == __name__],
]

for _name in ("copy", "cumprod", "cumsum"):
    setattr(Array, _name, globals()[_name])
    METHODS.append(_name)
