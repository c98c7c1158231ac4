"""Functions of each element."""

import math

from .. import _arguments, _dtypes, _ops
from .._arguments import here
from .._dtypes import float64
from .._ops import (
    abs, any, astype, broadcast_arrays, copysign, cumulative_sum, diff, equal, exp2, floor_divide, inf,
    isfinite, isnan, maximum, nan, pad, pow, remainder, sin, trunc, where,
)  # fmt: skip
from .._ops.common import _along, _public
from .._ops.creation import _array
from .._ops.elementwise import _as_real
from .common import _integers


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
    from .._control import while_loop

    x1, x2 = broadcast_arrays(*_integers("gcd", x1, x2))
    return while_loop(lambda p: any(p[1] != 0), lambda p: _euclid(*p), (abs(x1), abs(x2)))[0]


def _euclid(a, b):
    done = b == 0
    return where(done, a, b), where(done, 0, a % where(done, 1, b))


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


__all__ = _public(globals())
