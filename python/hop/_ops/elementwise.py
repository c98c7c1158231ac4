"""Operators on elements. Those of the table are made from it: a new one is here by its line there. Others
are made of them."""

import builtins
import math
import operator

from .. import _arguments, _core, _dtypes, _shapes, tree
from .._dtypes import result_type
from .._arguments import place
from .._errors import InvalidError
from .common import _CODE, _call, _named, _op, _public
from .creation import _array, asarray, astype, full, inf, ones_like, zeros_like


def _unary(name, op, real, doc):
    code = _CODE[op]

    def as_given(x, /):
        return _op(code, x)

    def as_real(x, /):
        return _op(code, float(x) if type(x) is int else x)  # a Python number alone: float32, as 2.0 is

    return _named(as_real if real else as_given, name, doc)


def _binary(name, op, real, doc):
    code = _CODE[op]

    def as_given(x1, x2, /):
        return _op(code, x1, x2)

    def as_real(x1, x2, /):
        return _op(code, float(x1) if isinstance(x1, int) and isinstance(x2, int) else x1, x2)

    def of_sizes(x1, x2, /):
        if isinstance(x1, _shapes.WHOLE) and isinstance(x2, _shapes.WHOLE):
            if _shapes.is_symbolic(x1, x2) or op in _SIZES_OF_INTEGERS and type(x1) is type(x2) is int:
                if _core.tracing():
                    return size(x1, x2)
        return _op(code, x1, x2)

    size = _OF_SIZES.get(op)
    return _named(of_sizes if size else as_real if real else as_given, name, doc)


# What is a size again when it is computed of sizes.
_OF_SIZES = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "floor_div": operator.floordiv,
    "mod": operator.mod, "min": _shapes.least, "max": _shapes.largest,
}

# In a captured program of integers, too: a size that is a number there must stay one.
_SIZES_OF_INTEGERS = ("min", "max")

# What the standard calls an operator of the table, where it has a name of its own for it, and what it says of
# operands that it calls x1 and x2.
_NAMED = {
    "neg": ("negative", "-x."),
    "not": ("bitwise_invert", "Every bit turned over."),
    "add": ("add", "x1 + x2."),
    "sub": ("subtract", "x1 - x2."),
    "mul": ("multiply", "x1 * x2."),
    "div": ("divide", "x1 / x2; of integers a real number."),
    "floor_div": ("floor_divide", "x1 // x2, rounded down."),
    "mod": ("remainder", "x1 % x2, with the sign of x2."),
    "rem": ("fmod", "What a division leaves, with the sign of x1."),
    "max": ("maximum", "The larger of each two; NaN if one is."),
    "min": ("minimum", "The smaller of each two; NaN if one is."),
    "atan2": ("atan2", "The angle of the point (x2, x1)."),
    "hypot": ("hypot", "sqrt(x1**2 + x2**2) without overflow."),
    "copysign": ("copysign", "x1 with the sign of x2."),
    "eq": ("equal", "x1 == x2."),
    "ne": ("not_equal", "x1 != x2."),
    "lt": ("less", "x1 < x2."),
    "le": ("less_equal", "x1 <= x2."),
    "gt": ("greater", "x1 > x2."),
    "ge": ("greater_equal", "x1 >= x2."),
    "and": ("bitwise_and", "x1 & x2."),
    "or": ("bitwise_or", "x1 | x2."),
    "xor": ("bitwise_xor", "x1 ^ x2."),
    "shift_left": ("bitwise_left_shift", "x1 << x2."),
    "shift_right": ("bitwise_right_shift", "x1 >> x2."),
}  # fmt: skip
# Operators that do something else with integers here than in the table; they are written out below.
_WRITTEN_OUT = {
    "sign", "floor", "ceil", "trunc", "round", "isnan", "isinf", "isfinite", "pow", "select", "clamp", "fma",
}


def _sentence(meaning):
    """What the table says, as a sentence: formulas and names stay small."""
    first = meaning.split(" ", 1)[0]
    return meaning.capitalize() if first.isalpha() and len(first) > 1 and meaning.islower() else meaning


for _row, (_operands, _family, _meaning) in _core.elementwise.items():
    if _row not in _WRITTEN_OUT:
        _name, _doc = _NAMED.get(_row) or (_row, f"{_sentence(_meaning)}.")
        _real = _family in ("FLOAT", "FLOAT2") or _row == "div"
        globals()[_name] = (_unary if _operands == 1 else _binary)(_name, _row, _real, _doc)
keep = _unary("keep", "keep", False, "x; a gradient that reads it keeps it.")
recompute = _unary(
    "recompute", "recompute", False, "x; a gradient that reads it computes it again from what is kept."
)


def _whole_stays(name, op, doc):
    """Rounding leaves integers as they are."""
    code = _CODE[op]

    def function(x, /):
        x = _array(x)
        return _op(code, x) if x.dtype.kind == "f" else +x

    return _named(function, name, doc)


ceil = _whole_stays("ceil", "ceil", "Rounded up.")

floor = _whole_stays("floor", "floor", "Rounded down.")

trunc = _whole_stays("trunc", "trunc", "Rounded towards 0.")

_round = _whole_stays("round", "round", "Rounded to the nearest integer, halves to the even one.")


def round(x, /, decimals=0):
    """Rounded to the nearest integer, or to so many decimals; halves to the even one.

    Integers stay integers. The derivative is 0.

    >>> hop.round(hop.asarray([0.5, 1.5, 2.5]))
    Array([0., 2., 2.], dtype=float32)
    >>> hop.round(hop.asarray([3.14159]), 2)
    Array([3.14], dtype=float32)
    """
    decimals = _arguments.integer("round: decimals", decimals, -400, 400)
    if not decimals:
        return _round(x)
    x = _array(x)
    if x.dtype.kind != "f":
        return +x if decimals > 0 else _round_whole(x, 10**-decimals)
    power = 10.0 ** builtins.abs(decimals)
    scaled = x * power if decimals > 0 else x / power
    rounded = _round(scaled) / power if decimals > 0 else _round(scaled) * power
    return where(isfinite(scaled), rounded, x)


def _round_whole(x, power):
    """Integers rounded to multiples of a power of ten, halves to the even one."""
    if power > _dtypes.iinfo(x.dtype).max:
        return zeros_like(x)
    quotient, rest = x // power, x % power
    twice = rest >= power - rest
    up = where(rest == power - rest, quotient % 2 == 1, twice)
    return (quotient + where(up, 1, 0)) * power


def conj(x, /):
    """x: all numbers are real. It is here because the standard has it.

    >>> hop.conj(hop.asarray([1.0, -2.0]))
    Array([ 1., -2.], dtype=float32)
    """
    return +_array(x)


def real(x, /):
    """x: all numbers are real. It is here because the standard has it.

    >>> hop.real(hop.asarray([1.0, -2.0]))
    Array([ 1., -2.], dtype=float32)
    """
    return +_array(x)


def imag(x, /):
    """Zeros: all numbers are real. It is here because the standard has it.

    >>> hop.imag(hop.asarray([1.0, -2.0]))
    Array([0., 0.], dtype=float32)
    """
    return zeros_like(x)


def pow(x1, x2, /):
    """x1 ** x2; of integers an integer. A negative power of integers that is known now is an error; where
    powers are an array, what is no integer becomes 0. With a whole power the base may be negative, in
    derivatives too.

    >>> hop.integer_pow(hop.asarray([2.0, 3.0]), 3)
    Array([ 8., 27.], dtype=float32)
    """
    x1, x2 = [v if _dtypes.is_number(v) else _array(v) for v in (x1, x2)]
    if isinstance(x1, _core.ArrayBase) or isinstance(x2, _core.ArrayBase):
        return x1**x2
    return _array(float(x1) if isinstance(x2, float) else x1) ** x2


def _integer_pow(x, n):
    """Integers to the power of integers, by squaring; a negative power of anything but 1 and -1 is 0."""
    x, n = [v if _dtypes.is_number(v) or isinstance(v, _core.ArrayBase) else asarray(v) for v in (x, n)]
    arrays = [v for v in (x, n) if isinstance(v, _core.ArrayBase)]
    d = result_type(x, n)
    out = _power_by_squaring(x, n, _dtypes.int64 if d is _dtypes.bool else d)
    return (
        out._marked(builtins.all(v._number for v in arrays)) if builtins.all(v._weak for v in arrays) else out
    )


def _power_by_squaring(x, n, d):
    if isinstance(n, int):
        if n < 0:
            raise ValueError("integers to a negative power are no integers: convert them to floats first")
        x, out = astype(x, d, copy=False), None
        while n:
            if n & 1:
                out = x if out is None else out * x
            n >>= 1
            x = x * x if n else x
        return ones_like(x) if out is None else out
    from .._control import while_loop
    from .axes import any
    from .shape import broadcast_arrays

    base, power = broadcast_arrays(astype(_array(x), d), astype(n, d))
    negative_power = power < 0 if d.kind == "i" else full(power.shape, False)
    sign_of_odd = where(power % 2 == 0, 1, base)
    start = (ones_like(base), base, where(negative_power, 0, power))

    def step(carry):
        out, square, rest = carry
        return where(rest % 2 == 1, out * square, out), square * square, rest // 2

    out = while_loop(lambda carry: any(carry[2] > 0), step, start)[0]
    return (
        where(negative_power, where(base == 1, 1, where(base == -1, sign_of_odd, 0)).astype(d), out)
        if d.kind == "i"
        else out
    )


def _as_real(x):
    """x as floats: integers as float32."""
    x = _array(x)
    if x.dtype.kind == "f":
        return x
    real = astype(x, _dtypes.float32)
    return real._marked(False) if x._weak else real


def positive(x, /):
    """x. What +x gives: the array unchanged; a number becomes an array.

    >>> hop.positive(hop.asarray([1, -2]))
    Array([ 1, -2], dtype=int64)
    """
    return +_array(x)


def sign(x, /):
    """-1, 0 or 1.

    NaN of NaN. The derivative is 0.

    >>> hop.sign(hop.asarray([-2.5, 0.0, 3.0]))
    Array([-1.,  0.,  1.], dtype=float32)
    """
    x = _array(x)
    if x.dtype.kind in "ub":
        return where(x != 0, 1, 0).astype(x.dtype)
    found = _op(_CODE["sign"], x)
    return found + 0.0 if x.dtype.kind == "f" else found  # 0 for -0


def square(x, /):
    """x times x. The dtype stays, so small integers wrap around.

    >>> hop.square(hop.asarray([-3, 4]))
    Array([ 9, 16], dtype=int64)
    """
    return _op(_CODE["mul"], x, x)


def reciprocal(x, /):
    """1 / x.

    Integers give float32.

    >>> hop.reciprocal(hop.asarray([2.0, 4.0]))
    Array([0.5 , 0.25], dtype=float32)
    """
    return 1 / _array(x)


# 1 / log(10) as a number of the dtype, not above it, and what that leaves out.
_PER_DECADE = {
    _dtypes.float32: (0.4342944622039795, 1.9699272335463627e-08),
    _dtypes.float64: (0.4342944819032518, 1.098319650216765e-17),
}


def log10(x, /):
    """The logarithm to base 10; of 1, 10, … 1e22 exactly 0, 1, … 22.

    >>> hop.log10(hop.asarray([1.0, 1000.0]))
    Array([0., 3.], dtype=float32)
    """
    y = log(x)
    if y.dtype not in _PER_DECADE:
        return y * (1 / math.log(10.0))
    factor, rest = _PER_DECADE[y.dtype]
    return fma(y, factor, y * rest)


def logaddexp(x1, x2, /):
    """log(exp(x1) + exp(x2)) without overflow.

    Both derivatives are softmax weights, between 0 and 1.

    >>> hop.logaddexp(hop.asarray([1000.0]), 1000.0)
    Array([1000.6932], dtype=float32)
    """
    x1, x2 = _array(x1), _array(x2)
    if x1.dtype.kind != "f" and x2.dtype.kind != "f":  # differences of integers may wrap
        x1, x2 = _as_real(x1), _as_real(x2)
    hi, lo = maximum(x1, x2), minimum(x1, x2)
    return where(hi == lo, hi + math.log(2.0), hi + log1p(exp(lo - hi)))


def signbit(x, /):
    """Whether the sign bit is set, also of -0 and NaN. hop.sign knows nothing of the sign of 0.

    >>> hop.signbit(hop.asarray([-0.0, 0.0, -1.0]))
    Array([ True, False,  True], dtype=bool)
    """
    x = _array(x)
    return _op(_CODE["copysign"], ones_like(x), x) < 0


def _question(name, op, otherwise):
    code = _CODE[op]

    def function(x, /):
        x = _array(x)
        return _op(code, x) if x.dtype.kind == "f" else full(x.shape, otherwise, dtype=_dtypes.bool)

    return _named(function, name, f"Where elements are {name[2:]}.")


isnan = _question("isnan", "isnan", False)

isinf = _question("isinf", "isinf", False)

isfinite = _question("isfinite", "isfinite", True)


def _truth(x):
    x = _array(x)
    return x if x.dtype is _dtypes.bool else x != 0


def logical_and(x1, x2, /):
    """Where both hold.

    Numbers hold unless they are 0.

    >>> hop.logical_and(hop.asarray([True, True]), hop.asarray([True, False]))
    Array([ True, False], dtype=bool)
    """
    return _truth(x1) & _truth(x2)


def logical_or(x1, x2, /):
    """Where one holds.

    Numbers hold unless they are 0.

    >>> hop.logical_or(hop.asarray([True, False]), hop.asarray([False, False]))
    Array([ True, False], dtype=bool)
    """
    return _truth(x1) | _truth(x2)


def logical_xor(x1, x2, /):
    """Where exactly one holds.

    Numbers hold unless they are 0.

    >>> hop.logical_xor(hop.asarray([True, True]), hop.asarray([True, False]))
    Array([False,  True], dtype=bool)
    """
    return _truth(x1) ^ _truth(x2)


def logical_not(x, /):
    """Where it does not hold.

    Numbers hold unless they are 0.

    >>> hop.logical_not(hop.asarray([0, 1, 2]))
    Array([ True, False, False], dtype=bool)
    """
    return ~_truth(x)


def where(condition, x1, x2, /):
    """x1 where the condition holds, x2 elsewhere.

    The three broadcast together. Both operands are computed, so the gradient of a part that is not chosen
    can be NaN: make its argument harmless first.

    >>> x = hop.asarray([1.0, -2.0])
    >>> hop.where(x > 0, x, 0)
    Array([1., 0.], dtype=float32)
    """
    return _op(_CODE["select"], _truth(condition), x1, x2)


def clip(x, /, min=None, max=None):
    """Brought between min and max.

    One of the bounds may be left out. The gradient passes where the element was left alone.

    >>> hop.clip(hop.asarray([-1.0, 0.5, 2.0]), 0, 1)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    x = _array(x)
    if min is not None:
        x = maximum(x, min)
    return minimum(x, max) if max is not None else +x if min is None else x


def relu(x, /):
    """x where it is above 0, 0 elsewhere; its derivative at 0 is 0.

    >>> hop.relu(hop.asarray([-1.0, 2.0]))
    Array([0., 2.], dtype=float32)
    >>> hop.grad(hop.relu)(0.0)
    Array(0., dtype=float32)
    """
    x = _array(x)
    return where(x <= 0, 0, x)


def gelu(x, /, *, approximate=True):
    """x times the probability that a normal number is below x; approximate=True by a tanh that is off by
    0.0005 at most.

    >>> hop.gelu(hop.asarray([-1.0, 0.0, 1.0]))
    Array([-0.158808,  0.      ,  0.841192], dtype=float32)
    """
    x = _array(x)
    if approximate:
        return 0.5 * x * (1 + tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * erfc(-math.sqrt(0.5) * x)


def silu(x, /):
    """x * sigmoid(x). Also called swish: a smooth relu, with its least value -0.278 at -1.278.

    >>> hop.silu(hop.asarray([-1.0, 0.0, 1.0]))
    Array([-0.26894143,  0.        ,  0.7310586 ], dtype=float32)
    """
    return _array(x) * sigmoid(x)


def softplus(x, /):
    """log(1 + exp(x)) without overflow. A smooth relu; its derivative is sigmoid(x).

    >>> hop.softplus(hop.asarray([-1.0, 0.0, 100.0]))
    Array([  0.3132617,   0.6931472, 100.       ], dtype=float32)
    """
    x = _as_real(x)
    return maximum(x, 0) + log1p(exp(-abs(x)))


def lgamma(x, /):
    """The logarithm of the absolute value of the gamma function, which is (x - 1)! for integers. Its
    derivative is the digamma function.

    >>> hop.lgamma(hop.asarray([1.0, 4.0]))
    Array([0.       , 1.7917595], dtype=float32)
    """
    x = _as_real(x)
    mirrored = x < 0.5
    y = where(mirrored, 1 - x, x)
    # where Stirling's series is not good enough: gamma(y) = gamma(y + 8) / (y (y + 1) … (y + 7))
    small = y < 8
    low = where(small, y, 1)
    product = low
    for i in range(1, 8):
        product = product * (low + i)
    z = where(small, y + 8, y)
    r = 1 / z
    q = r * r
    series = r * (
        1 / 12 - q * (1 / 360 - q * (1 / 1260 - q * (1 / 1680 - q * (1 / 1188 - q * (691 / 360360)))))
    )
    out = (z - 0.5) * log(z) - z + (0.5 * math.log(2 * math.pi) + series) - where(small, log(product), 0)
    out = where(isinf(z), inf, out)
    # gamma(x) gamma(1 - x) = pi / sin(pi x); the sine of the distance to the nearest integer, which is exact.
    # At integers and -inf there is a pole.
    part = where(mirrored, abs(x - round(x)), 0.5)
    return where(mirrored, where(part > 0, math.log(math.pi) - log(sin(math.pi * part)) - out, inf), out)


def isclose(x1, x2, /, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Where abs(x1 - x2) <= atol + rtol * abs(x2); infinities are close to themselves alone, NaN to
    nothing unless equal_nan.

    >>> hop.isclose(hop.asarray([1.0, 1.1]), hop.asarray([1.000001, 1.0]))
    Array([ True, False], dtype=bool)
    """
    x1, x2 = _array(x1), _array(x2)
    if x1.dtype is x2.dtype is _dtypes.bool:
        return x1 == x2
    near = (x1 == x2) | ((abs(x1 - x2) <= atol + rtol * abs(x2)) & isfinite(x2))
    return near | (isnan(x1) & isnan(x2)) if equal_nan else near


def fma(x, y, z, /):
    """x*y + z, rounded once. Where the processor has no instruction for it, it is done by exact arithmetic,
    not by two roundings.

    >>> hop.fma(2.0, 3.0, 4.0)
    Array(10., dtype=float32)
    """
    return _op(_CODE["fma"], x, y, z)


def checkpoint_name(x, /, name):
    """x, under a name that policies of hop.checkpoint speak of. x may be a tree.

    >>> hop.checkpoint_name(hop.asarray([1.0]), "attention")
    Array([1.], dtype=float32)
    """
    if not isinstance(name, str):
        raise InvalidError(f"{place()}checkpoint_name: expected a name, found {name!r}")
    if isinstance(x, _core.ArrayBase):
        return _call(_CODE["checkpoint_name"], (x,), name)
    return tree.map(lambda leaf: checkpoint_name(_array(leaf), name), x)


def stop_gradient(x, /):
    """x, but a constant for gradients. x may be a tree. Values do not change; in gradients, jvp and vmap of
    them the derivative is 0.

    >>> hop.grad(lambda x: x * hop.stop_gradient(x))(3.0)
    Array(3., dtype=float32)
    """
    if isinstance(x, _core.ArrayBase):
        return _op(_CODE["stop_gradient"], x) if x.dtype.kind == "f" else +x
    return tree.map(lambda leaf: stop_gradient(_array(leaf)), x)


__all__ = _public(globals())
