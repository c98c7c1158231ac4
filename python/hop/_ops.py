"""The operators, under the names of the array-API standard. Each works on arrays and on traced values, on NumPy arrays and on Python numbers."""

import builtins
import itertools
import math
import operator
import string

from . import _arguments, _core, _dtypes, tree
from ._arguments import here
from ._dtypes import as_dtype, result_type
from ._errors import InvalidError
from ._index import wrapped

_CODE = _core.codes
_op, _call = _core.op, _core.call

newaxis = None
e, inf, nan, pi = math.e, math.inf, math.nan, math.pi


def _axes_text(axis):
    if axis is None:
        return "all"
    return ", ".join(str(_axis(a)) for a in axis) if isinstance(axis, (tuple, list)) else str(_axis(axis))


def _axis(axis):
    return axis if type(axis) is int and -64 <= axis < 64 else _arguments.integer(here("axis"), axis, -64, 64, "the number of an axis")


def _along(x, axis, argument="axis"):
    """The number of an axis of x, from the front."""
    if type(axis) is int and -x.ndim <= axis < x.ndim:
        return axis % x.ndim
    return _arguments.integer(here(argument), axis, -x.ndim, x.ndim - 1, f"an axis of {x._type}") % x.ndim


def _dims(shape):
    """A shape as a tuple of ints; an int is a shape of one axis."""
    if isinstance(shape, (tuple, list)):
        return tuple([s if type(s) is int and -1 <= s < 1 << 62 else _size(s) for s in shape])
    return (_size(shape),)


def _size(s):
    return _arguments.integer(here("shape"), s, -(1 << 62), 1 << 62, "sizes (an integer, or several)")


def _text(dims):
    return ", ".join(map(str, dims))


def _on(device):
    """There is one device."""
    if device not in (None, "cpu"):
        raise ValueError(f"{_core.call_place()}there is no device {device!r}")


def _type(d, dims):
    return f"{d.text}[{_text(dims)}]"


# ---- making arrays ----


def _nested(x, shape, depth, out):
    if isinstance(x, (list, tuple)):
        if len(shape) <= depth:
            if out:
                raise ValueError(f"{_core.call_place()}the lists are nested to different depths")
            shape.append(len(x))
        if len(x) != shape[depth]:
            raise ValueError(f"{_core.call_place()}the lists have different lengths: {shape[depth]} and {len(x)} at depth {depth}")
        for item in x:
            _nested(item, shape, depth + 1, out)
    else:
        if len(shape) != depth:
            raise ValueError(f"{_core.call_place()}the lists are nested to different depths")
        out.append(x)


def _from_lists(x, dtype):
    shape, level, kinds = [len(x)], list(x), set(map(type, x))
    while kinds and kinds <= {list, tuple} and len(shape) <= 32 and len(lengths := set(map(len, level))) == 1:  # a list may hold itself
        shape.append(lengths.pop())
        level = list(itertools.chain.from_iterable(level))
        kinds = set(map(type, level))
    if kinds and kinds <= {float, int, bool_type}:  # as it is mostly
        d = dtype or (_dtypes.float32 if float in kinds else _dtypes.int64 if int in kinds else _dtypes.bool)
        return _core.from_numbers(d.code, shape, level)
    leaves = tree.leaves(x, is_leaf=lambda n: n is None or not isinstance(n, (list, tuple)))
    if not builtins.all(map(_dtypes.is_number, leaves)):
        return _strong(stack([_array(n) if dtype is None else asarray(n, dtype=dtype) for n in x]))
    shape, numbers = [], []
    _nested(x, shape, 0, numbers)
    if dtype is None:
        kinds = set(map(type, numbers))
        real = not kinds or builtins.any(issubclass(k, float) for k in kinds)
        dtype = _dtypes.float32 if real else _dtypes.int64 if kinds != {bool_type} else _dtypes.bool
    return _core.from_numbers(dtype.code, shape, numbers)


bool_type = builtins.bool


def asarray(obj, /, *, dtype=None, device=None, copy=None):
    """An array of it: another array, a NumPy array or anything with a buffer or DLPack (in the same memory where that can be), a number, nested lists of numbers.

    Real numbers become float32, integers int64; NumPy arrays keep their dtype. copy=True copies, copy=False is an error where the memory cannot be shared."""
    _on(device)
    dtype = None if dtype is None else as_dtype(dtype)
    if isinstance(obj, _core.ArrayBase):
        made = _strong(obj) if dtype in (None, obj.dtype) else obj
        made = made if not copy or made is not obj and obj._traced else +made if made._traced else made._copy()
    elif _dtypes.is_number(obj):
        if copy is False:
            raise ValueError("a Python number must be copied")
        d = dtype or _dtypes.weak_dtype(obj)
        return _core.full(d.code, (), obj)
    elif isinstance(obj, (list, tuple)):
        if copy is False:
            raise ValueError("a Python list must be copied")
        made = _from_lists(obj, dtype)
    else:
        made = _from_memory(obj, 1 if copy else 0 if copy is False else -1)
    if dtype is not None and made.dtype is not dtype:
        if copy is False:
            raise ValueError(f"elements of {made.dtype} must be copied to become {dtype}")
        made = astype(made, dtype)
    return made


def _strong(x):
    """x with a dtype of its own, the one that it shows."""
    if not x._weak:
        return x
    raw = x._raw()
    return raw if raw.dtype is x.dtype else _call(_CODE["cast"], (raw,), x.dtype.text)


def _array(x):
    """x as an array; Python numbers, and what stands for one, become weak arrays."""
    if isinstance(x, _core.ArrayBase):
        return _strong(x)._marked(False) if x._number else x
    if isinstance(x, (list, tuple)) or not _dtypes.is_number(x):
        return asarray(x)
    return asarray(x)._marked(False)


def _from_memory(obj, copy):
    made = _core.from_buffer(obj, copy)
    if made is not None:
        return made
    if hasattr(obj, "__dlpack__"):
        return from_dlpack(obj, copy=None if copy < 0 else bool_type(copy))
    if hasattr(obj, "__array__") and not isinstance(obj, type):
        made = _core.from_buffer(obj.__array__(), copy)
        if made is not None:
            return made
    advice = ": x.toarray() makes an array of a sparse one" if hasattr(obj, "toarray") else ""
    raise TypeError(f"{_core.call_place()}expected an array, a number or lists of numbers, found {type(obj).__name__}{advice}")


def array(obj, dtype=None, copy=True):
    """An array of its own with these elements."""
    return asarray(obj, dtype=dtype, copy=copy or None)


def from_dlpack(x, /, *, device=None, copy=None):
    """An array in the memory of another library's array; with device="cpu" that library copies one that is elsewhere.

    copy=True always copies, copy=False never."""
    _on(device)
    _core.unmasked(x)
    if not hasattr(x, "__dlpack__"):
        raise TypeError(f"from_dlpack takes an array with __dlpack__, found {type(x).__name__}")
    asked = {} if device is None else {"dl_device": (1, 0)}
    if copy is not None:
        asked["copy"] = copy
    try:
        capsule = x.__dlpack__(max_version=(1, 0), **asked)
    except TypeError:  # from before the keywords
        capsule = x.__dlpack__()
    made = _core.from_dlpack(capsule)
    if copy is False and made._memory == 0 and made.size:
        raise BufferError("the memory is read-only or badly aligned, so it had to be copied (copy=False was asked for)")
    return made._copy() if copy and made._memory and not hasattr(x, "_traced") else made


def full(shape, fill_value, *, dtype=None, device=None):
    """An array with one value everywhere."""
    _on(device)
    if isinstance(fill_value, complex):
        raise TypeError(f"full: there are no complex numbers, found {fill_value!r}")
    if isinstance(fill_value, _core.ArrayBase):
        d = fill_value.dtype if dtype is None else as_dtype(dtype)
        return broadcast_to(astype(fill_value, d), _dims(shape))
    _core.unmasked(fill_value)
    d = _dtypes.weak_dtype(fill_value) if dtype is None else as_dtype(dtype)
    dims = _dims(shape)
    if _core.tracing():
        return _call(_CODE["full"], (fill_value,), _type(d, dims))
    return _core.full(d.code, dims, fill_value)


def zeros(shape, *, dtype=None, device=None):
    """An array of zeros."""
    return full(shape, 0, dtype=_dtypes.float32 if dtype is None else dtype, device=device)


def ones(shape, *, dtype=None, device=None):
    """An array of ones."""
    return full(shape, 1, dtype=_dtypes.float32 if dtype is None else dtype, device=device)


empty = zeros


def full_like(x, /, fill_value, *, dtype=None, device=None):
    """An array of the shape and dtype of x with one value everywhere."""
    x = _array(x)
    return full(x.shape, fill_value, dtype=x.dtype if dtype is None else dtype, device=device)


def zeros_like(x, /, *, dtype=None, device=None):
    """Zeros of the shape and dtype of x."""
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x, /, *, dtype=None, device=None):
    """Ones of the shape and dtype of x."""
    return full_like(x, 1, dtype=dtype, device=device)


empty_like = zeros_like


def arange(start, /, stop=None, step=1, *, dtype=None, device=None):
    """start, start + step, … below stop; from 0 when only stop is given."""
    _on(device)
    if stop is None:
        start, stop = 0, start
    if builtins.any(isinstance(n, _core.ArrayBase) for n in (start, stop, step)):
        start, stop, step = [n.item() if isinstance(n, _core.ArrayBase) else n for n in (start, stop, step)]
    for name, n in (("start", start), ("stop", stop), ("step", step)):
        if not isinstance(n, int) and not math.isfinite(_arguments.real(f"arange: {name}", n)):
            raise _arguments.wrong(f"arange: {name}", "a finite number", n)
    if step == 0:
        raise ValueError("arange: the step is 0")
    start, stop, step = [operator.index(n) if hasattr(n, "__index__") else n for n in (start, stop, step)]
    whole = builtins.all(isinstance(n, int) for n in (start, stop, step))
    d = (_dtypes.int64 if whole else _dtypes.float32) if dtype is None else as_dtype(dtype)
    n = builtins.max(0, -((start - stop) // step) if whole else math.ceil((float(stop) - float(start)) / float(step)))
    if n >= 1 << 62 or (d.kind != "f" and n and not -(1 << 63) <= builtins.min(start, start + (n - 1) * step) <= builtins.max(start, start + (n - 1) * step) < 1 << 64):
        raise InvalidError(f"{_core.call_place()}the numbers from {start} to {stop} do not fit into {d}")
    if d.kind != "f":
        start, step = int(start), int(step)
        start -= (start >= 1 << 63) << 64  # only its bits matter
    return _core.progression(d.code, n, start, step)


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    """num numbers from start to stop, evenly."""
    _on(device)
    d = _dtypes.float32 if dtype is None else as_dtype(dtype)
    num, endpoint = _arguments.size("linspace: num", num), _arguments.flag("linspace: endpoint", endpoint)
    start, stop = [_arguments.real(f"linspace: {name}", n) for name, n in (("start", start), ("stop", stop))]
    parts = num - 1 if endpoint else num
    step = (stop - start) / parts if parts > 0 else 0.0
    if num > 1 << 24:
        _core.full(d.code, (num,), 0)  # what no memory can hold is refused before it is counted out
    if math.isinf(step):  # the difference is too large for a number, its parts are not
        numbers = [start * (1 - i / parts) + stop * (i / parts) for i in range(num)]
    else:
        numbers = [start + i * step for i in range(num)]
    if endpoint and num > 1:
        numbers[-1] = stop
    return _core.from_numbers(d.code, (num,), numbers)


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None):
    """Ones on a diagonal, k above the main one, zeros elsewhere."""
    _on(device)
    d = _dtypes.float32 if dtype is None else as_dtype(dtype)
    n_rows, n_cols = [_arguments.size("eye: a size", n) for n in (n_rows, n_rows if n_cols is None else n_cols)]
    k = _arguments.integer("eye: k", k)
    return _call(_CODE["eye"], (), _type(d, (n_rows, n_cols)), _within(k, n_rows, n_cols))


def _within(k, n_rows, n_cols):
    """The number of a diagonal; all that are outside of the matrix are alike."""
    return builtins.max(-n_rows - 1, builtins.min(k, n_cols + 1)) if n_rows is not None and n_cols is not None else k


def tril(x, /, *, k=0):
    """Zeros above the diagonal that is k above the main one."""
    x = _array(x)
    return _call(_CODE["tril"], (x,), None, _within(k, *x.shape[-2:]) if x.ndim > 1 else k)


def triu(x, /, *, k=0):
    """Zeros below the diagonal that is k above the main one."""
    x = _array(x)
    return _call(_CODE["triu"], (x,), None, _within(k, *x.shape[-2:]) if x.ndim > 1 else k)


def meshgrid(*arrays, indexing="xy"):
    """Coordinate arrays over the grid of these vectors."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f'meshgrid: the indexing is "xy" or "ij", not {indexing!r}')
    arrays = [_array(a) for a in arrays]
    n = len(arrays)
    swap = indexing == "xy" and n > 1
    order = [1, 0, *range(2, n)] if swap else list(range(n))
    shape = tuple(arrays[i].size for i in order)
    out = []
    for i, a in enumerate(arrays):
        view = [1] * n
        view[order.index(i)] = a.size
        out.append(broadcast_to(a.reshape(tuple(view)), shape))
    return out


# ---- elements ----


def _unary(name, op, doc):
    code = _CODE[op]
    whole = name in ("abs", "negative", "bitwise_invert", "popcount", "count_leading_zeros", "keep", "recompute")

    def function(x, /):
        return _op(code, x)

    def real(x, /):
        return _op(code, float(x) if type(x) is int else x)  # a Python number alone: float32, as 2.0 is

    function = function if whole else real
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _binary(name, op, doc):
    code = _CODE[op]

    def function(x1, x2, /):
        return _op(code, x1, x2)

    def real(x1, x2, /):
        return _op(code, float(x1) if isinstance(x1, int) and isinstance(x2, int) else x1, x2)

    function = real if name in ("divide", "atan2", "hypot") else function
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


_UNARY = {
    "abs": ("abs", "The absolute value."), "acos": ("acos", "The inverse cosine."), "acosh": ("acosh", "The inverse hyperbolic cosine."), "asin": ("asin", "The inverse sine."),
    "asinh": ("asinh", "The inverse hyperbolic sine."), "atan": ("atan", "The inverse tangent."), "atanh": ("atanh", "The inverse hyperbolic tangent."), "cos": ("cos", "The cosine."),
    "cosh": ("cosh", "The hyperbolic cosine."), "exp": ("exp", "e to the power of x."), "expm1": ("expm1", "exp(x) - 1, exact near 0."), "log": ("log", "The natural logarithm."),
    "log1p": ("log1p", "log(1 + x), exact near 0."), "log2": ("log2", "The logarithm to base 2."), "negative": ("neg", "-x."), "sin": ("sin", "The sine."),
    "sinh": ("sinh", "The hyperbolic sine."), "sqrt": ("sqrt", "The square root."), "tan": ("tan", "The tangent."), "tanh": ("tanh", "The hyperbolic tangent."),
    "bitwise_invert": ("not", "Every bit turned over."), "exp2": ("exp2", "2 to the power of x."), "cbrt": ("cbrt", "The cube root."), "rsqrt": ("rsqrt", "1/sqrt(x)."),
    "sigmoid": ("sigmoid", "1/(1 + exp(-x))."), "erf": ("erf", "The error function."), "erfc": ("erfc", "1 - erf(x), exact where that is small."), "popcount": ("popcount", "How many bits are set."),
    "count_leading_zeros": ("count_leading_zeros", "How many bits in front are not set."),
    "keep": ("keep", "x; a gradient that reads it keeps it."), "recompute": ("recompute", "x; a gradient that reads it computes it again from what is kept."),
}  # fmt: skip
_BINARY = {
    "add": ("add", "x1 + x2."), "atan2": ("atan2", "The angle of the point (x2, x1)."), "bitwise_and": ("and", "x1 & x2."), "bitwise_left_shift": ("shift_left", "x1 << x2."),
    "bitwise_or": ("or", "x1 | x2."), "bitwise_right_shift": ("shift_right", "x1 >> x2."), "bitwise_xor": ("xor", "x1 ^ x2."), "copysign": ("copysign", "x1 with the sign of x2."),
    "divide": ("div", "x1 / x2; of integers a real number."), "equal": ("eq", "x1 == x2."), "floor_divide": ("floor_div", "x1 // x2, rounded down."), "greater": ("gt", "x1 > x2."),
    "greater_equal": ("ge", "x1 >= x2."), "hypot": ("hypot", "sqrt(x1**2 + x2**2) without overflow."), "less": ("lt", "x1 < x2."), "less_equal": ("le", "x1 <= x2."),
    "maximum": ("max", "The larger of each two; NaN if one is."), "minimum": ("min", "The smaller of each two; NaN if one is."), "multiply": ("mul", "x1 * x2."), "not_equal": ("ne", "x1 != x2."),
    "remainder": ("mod", "x1 % x2, with the sign of x2."), "subtract": ("sub", "x1 - x2."), "fmod": ("rem", "What a division leaves, with the sign of x1."),
}  # fmt: skip
for _name, (_row, _doc) in _UNARY.items():
    globals()[_name] = _unary(_name, _row, _doc)
for _name, (_row, _doc) in _BINARY.items():
    globals()[_name] = _binary(_name, _row, _doc)


def _whole_stays(name, op, doc):
    """Rounding leaves integers as they are."""
    code = _CODE[op]

    def function(x, /):
        x = _array(x)
        return _op(code, x) if x.dtype.kind == "f" else +x

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


ceil = _whole_stays("ceil", "ceil", "Rounded up.")
floor = _whole_stays("floor", "floor", "Rounded down.")
trunc = _whole_stays("trunc", "trunc", "Rounded towards 0.")
round = _whole_stays("round", "round", "Rounded to the nearest integer, halves to the even one.")


def conj(x, /):
    """x: all numbers are real."""
    return +_array(x)


def real(x, /):
    """x: all numbers are real."""
    return +_array(x)


def imag(x, /):
    """Zeros: all numbers are real."""
    return zeros_like(x)


def pow(x1, x2, /):
    """x1 ** x2; of integers an integer."""
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
    return out._marked(builtins.all(v._number for v in arrays)) if builtins.all(v._weak for v in arrays) else out


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
    from ._control import while_loop

    base, power = broadcast_arrays(astype(_array(x), d), astype(n, d))
    negative_power = power < 0 if d.kind == "i" else full(power.shape, False)
    sign_of_odd = where(power % 2 == 0, 1, base)
    start = (ones_like(base), base, where(negative_power, 0, power))

    def step(carry):
        out, square, rest = carry
        return where(rest % 2 == 1, out * square, out), square * square, rest // 2

    out = while_loop(lambda carry: any(carry[2] > 0), step, start)[0]
    return where(negative_power, where(base == 1, 1, where(base == -1, sign_of_odd, 0)).astype(d), out) if d.kind == "i" else out


def _real(x):
    """x as floats: integers as float32."""
    x = _array(x)
    if x.dtype.kind == "f":
        return x
    real = astype(x, _dtypes.float32)
    return real._marked(False) if x._weak else real


def positive(x, /):
    """x."""
    return +_array(x)


def sign(x, /):
    """-1, 0 or 1."""
    x = _array(x)
    if x.dtype.kind in "ub":
        return where(x != 0, 1, 0).astype(x.dtype)
    found = _op(_CODE["sign"], x)
    return found + 0.0 if x.dtype.kind == "f" else found  # 0 for -0


def square(x, /):
    """x times x."""
    return _op(_CODE["mul"], x, x)


def reciprocal(x, /):
    """1 / x."""
    return 1 / _array(x)


# 1 / log(10) as a number of the dtype, not above it, and what that leaves out.
_PER_DECADE = {
    _dtypes.float32: (0.4342944622039795, 1.9699272335463627e-08),
    _dtypes.float64: (0.4342944819032518, 1.098319650216765e-17),
}


def log10(x, /):
    """The logarithm to base 10; of 1, 10, … 1e22 exactly 0, 1, … 22."""
    y = log(x)
    if y.dtype not in _PER_DECADE:
        return y * (1 / math.log(10.0))
    factor, rest = _PER_DECADE[y.dtype]
    return fma(y, factor, y * rest)


def logaddexp(x1, x2, /):
    """log(exp(x1) + exp(x2)) without overflow."""
    x1, x2 = _array(x1), _array(x2)
    if x1.dtype.kind != "f" and x2.dtype.kind != "f":  # differences of integers may wrap
        x1, x2 = _real(x1), _real(x2)
    hi, lo = maximum(x1, x2), minimum(x1, x2)
    return where(hi == lo, hi + math.log(2.0), hi + log1p(exp(lo - hi)))


def signbit(x, /):
    """Whether the sign bit is set, also of -0 and NaN."""
    x = _array(x)
    return _op(_CODE["copysign"], ones_like(x), x) < 0


def _question(name, op, otherwise):
    code = _CODE[op]

    def function(x, /):
        x = _array(x)
        return _op(code, x) if x.dtype.kind == "f" else full(x.shape, otherwise, dtype=_dtypes.bool)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Where elements are {name[2:]}."
    return function


isnan = _question("isnan", "isnan", False)
isinf = _question("isinf", "isinf", False)
isfinite = _question("isfinite", "isfinite", True)


def _truth(x):
    x = _array(x)
    return x if x.dtype is _dtypes.bool else x != 0


def logical_and(x1, x2, /):
    """Where both hold."""
    return _truth(x1) & _truth(x2)


def logical_or(x1, x2, /):
    """Where one holds."""
    return _truth(x1) | _truth(x2)


def logical_xor(x1, x2, /):
    """Where exactly one holds."""
    return _truth(x1) ^ _truth(x2)


def logical_not(x, /):
    """Where it does not hold."""
    return ~_truth(x)


def where(condition, x1, x2, /):
    """x1 where the condition holds, x2 elsewhere."""
    return _op(_CODE["select"], _truth(condition), x1, x2)


def clip(x, /, min=None, max=None):
    """Brought between min and max."""
    x = _array(x)
    if min is not None:
        x = maximum(x, min)
    return minimum(x, max) if max is not None else +x if min is None else x


def relu(x, /):
    """x where it is above 0, 0 elsewhere; its derivative at 0 is 0."""
    x = _array(x)
    return where(x <= 0, 0, x)


def gelu(x, /, *, approximate=True):
    """x times the probability that a normal number is below x; approximate=True by a tanh that is off by 0.0005 at most."""
    x = _array(x)
    if approximate:
        return 0.5 * x * (1 + tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * erfc(-math.sqrt(0.5) * x)


def silu(x, /):
    """x * sigmoid(x)."""
    return _array(x) * sigmoid(x)


def softplus(x, /):
    """log(1 + exp(x)) without overflow."""
    x = _real(x)
    return maximum(x, 0) + log1p(exp(-abs(x)))


def lgamma(x, /):
    """The logarithm of the absolute value of the gamma function, which is (x - 1)! for integers. Its derivative is the digamma function."""
    x = _real(x)
    mirrored = x < 0.5
    y = where(mirrored, 1 - x, x)
    small = y < 8  # where Stirling's series is not good enough: gamma(y) = gamma(y + 8) / (y (y + 1) … (y + 7))
    low = where(small, y, 1)
    product = low
    for i in range(1, 8):
        product = product * (low + i)
    z = where(small, y + 8, y)
    r = 1 / z
    q = r * r
    series = r * (1 / 12 - q * (1 / 360 - q * (1 / 1260 - q * (1 / 1680 - q * (1 / 1188 - q * (691 / 360360))))))
    out = (z - 0.5) * log(z) - z + (0.5 * math.log(2 * math.pi) + series) - where(small, log(product), 0)
    out = where(isinf(z), inf, out)
    # gamma(x) gamma(1 - x) = pi / sin(pi x); the sine of the distance to the nearest integer, which is exact. At integers and -inf there is a pole.
    part = where(mirrored, abs(x - round(x)), 0.5)
    return where(mirrored, where(part > 0, math.log(math.pi) - log(sin(math.pi * part)) - out, inf), out)


def isclose(x1, x2, /, *, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Where abs(x1 - x2) <= atol + rtol * abs(x2); infinities are close to themselves alone, NaN to nothing unless equal_nan."""
    x1, x2 = _array(x1), _array(x2)
    if x1.dtype is x2.dtype is _dtypes.bool:
        return x1 == x2
    near = (x1 == x2) | ((abs(x1 - x2) <= atol + rtol * abs(x2)) & isfinite(x2))
    return near | (isnan(x1) & isnan(x2)) if equal_nan else near


def allclose(x1, x2, /, *, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Whether isclose holds everywhere."""
    return all(isclose(x1, x2, rtol=rtol, atol=atol, equal_nan=equal_nan))


def interp(x, xp, fp, /):
    """The line through the points (xp, fp), xp ascending, at x; beyond the ends it goes on level."""
    x, xp, fp = [_array(v) for v in (x, xp, fp)]
    if xp.ndim != 1 or xp.shape != fp.shape or not xp.size:
        raise ValueError(f"interp: expected two vectors of the same length, found {xp._type} and {fp._type}")
    i = clip(searchsorted(xp, x, side="right") - 1, 0, builtins.max(xp.size - 2, 0))
    j = minimum(i + 1, xp.size - 1)
    width = xp[j] - xp[i]
    part = clip((x - xp[i]) / where(width == 0, 1, width), 0, 1)
    return fp[i] + part * (fp[j] - fp[i])


def fma(x, y, z, /):
    """x*y + z, rounded once."""
    return _op(_CODE["fma"], x, y, z)


def stop_gradient(x, /):
    """x, but a constant for gradients. x may be a tree."""
    if isinstance(x, _core.ArrayBase):
        return _op(_CODE["stop_gradient"], x) if x.dtype.kind == "f" else +x
    return tree.map(lambda leaf: stop_gradient(_array(leaf)), x)


def astype(x, dtype, /, *, copy=True, device=None):
    """The elements as another dtype."""
    _on(device)
    d = as_dtype(dtype)
    if _dtypes.is_number(x):
        return asarray(x, dtype=d)
    x = x if isinstance(x, _core.ArrayBase) else asarray(x)
    if x.dtype is d:
        x, weak = _strong(x), x._weak
        return x if not copy or weak and x._traced else +x if x._traced or _core.tracing() else x._copy()
    return _call(_CODE["cast"], (x,), d.text)


# ---- along axes ----


def _keep(x, out, axis, keepdims):
    """The reduced axes back, with size 1."""
    if not keepdims:
        return out
    axes = range(x.ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    gone = {_along(x, a) for a in axes}
    return out.reshape(tuple(1 if i in gone else n for i, n in enumerate(x.shape)))


def _reduction(name, op, doc):
    code = _CODE[op]

    def function(x, /, *, axis=None, keepdims=False):
        x = _array(x)
        if x.dtype is _dtypes.bool and op in _OF_BOOLS:
            return _OF_BOOLS[op](x, axis=axis, keepdims=keepdims)
        if axis == () or (axis is None and x.ndim == 0 and op not in ("sum", "prod", "any", "all")):
            return _call(code, (x.reshape((*x.shape, 1)),), str(x.ndim))
        return _keep(x, _call(code, (x,), _axes_text(axis)), axis, keepdims)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


max = _reduction("max", "reduce_max", "The largest along axes (all when not said).")
min = _reduction("min", "reduce_min", "The smallest along axes (all when not said).")
mean = _reduction("mean", "mean", "The mean along axes (all when not said).")
logsumexp = _reduction("logsumexp", "logsumexp", "log(sum(exp(x))) along axes, without overflow.")
_any = _reduction("any", "any", "Whether one element holds, along axes (all when not said).")
_all = _reduction("all", "all", "Whether all elements hold, along axes (all when not said).")
_sum = _reduction("sum", "sum", "The sum along axes (all when not said).")
_prod = _reduction("prod", "prod", "The product along axes (all when not said).")
_OF_BOOLS = {"reduce_max": _any, "reduce_min": _all}


def any(x, /, *, axis=None, keepdims=False):
    """Whether one element holds, along axes (all when not said)."""
    return _any(_truth(x), axis=axis, keepdims=keepdims)


def all(x, /, *, axis=None, keepdims=False):
    """Whether all elements hold, along axes (all when not said)."""
    return _all(_truth(x), axis=axis, keepdims=keepdims)


def _wide(x, dtype):
    """Sums of small integers are taken as int64, those of small unsigned ones as uint64, as in NumPy."""
    x = _array(x)
    if dtype is not None:
        return astype(x, dtype, copy=False)
    wide = {"i": _dtypes.int64, "b": _dtypes.int64, "u": _dtypes.uint64}.get(x.dtype.kind)
    return x if wide is None else astype(x, wide, copy=False)


def sum(x, /, *, axis=None, dtype=None, keepdims=False):
    """The sum along axes (all when not said)."""
    return _sum(_wide(x, dtype), axis=axis, keepdims=keepdims)


def prod(x, /, *, axis=None, dtype=None, keepdims=False):
    """The product along axes (all when not said)."""
    return _prod(_wide(x, dtype), axis=axis, keepdims=keepdims)


def _spread(op):
    code = _CODE[op]

    def function(x, /, *, axis=None, correction=0.0, keepdims=False):
        x = _array(x)
        correction = correction if type(correction) is int else _arguments.real(here("correction"), correction)
        if correction == correction // 1:
            return _keep(x, _call(code, (x,), _axes_text(axis), int(correction)), axis, keepdims)
        d = x - mean(x, axis=axis, keepdims=True)
        n = x.size if axis is None else math.prod(x.shape[a] for a in (axis if isinstance(axis, (tuple, list)) else (axis,)))
        v = sum(d * d, axis=axis, keepdims=keepdims) / (n - correction)
        return v if op == "var" else sqrt(v)  # noqa: F821

    function.__name__ = function.__qualname__ = op
    function.__doc__ = "The variance along axes." if op == "var" else "The standard deviation along axes."
    return function


var, std = _spread("var"), _spread("std")


def _ordered(x):
    """Truth values as numbers, which have an order."""
    x = asarray(x)
    return astype(x, _dtypes.uint8) if x.dtype is _dtypes.bool else x


def _arg(op):
    code = _CODE[op]

    def function(x, /, *, axis=None, keepdims=False):
        x = _ordered(x)
        if (x.size if axis is None else x.shape[_along(x, axis)]) == 0:
            where_ = "all axes" if axis is None else f"axis {axis}"
            raise InvalidError(f"{op}: there are no elements along {where_} of {x._type}")
        if axis is None:
            out = _call(code, (x.reshape((-1,)),), None, 0)
            return out.reshape((1,) * x.ndim) if keepdims else out
        return _keep(x, _call(code, (x,), None, axis), axis, keepdims)

    function.__name__ = function.__qualname__ = op
    function.__doc__ = f"Where the first of the {'largest' if op == 'argmax' else 'smallest'} stands."
    return function


argmax, argmin = _arg("argmax"), _arg("argmin")


def count_nonzero(x, /, *, axis=None, keepdims=False):
    """How many elements are not 0."""
    return sum(_truth(x), axis=axis, keepdims=keepdims)


def softmax(x, /, axis=-1):
    """exp(x) divided by its sum along axes."""
    return _call(_CODE["softmax"], (_array(x),), _axes_text(axis))


def log_softmax(x, /, axis=-1):
    """The logarithm of softmax."""
    return _call(_CODE["log_softmax"], (_array(x),), _axes_text(axis))


def quantile(x, q, /, *, axis=None, keepdims=False):
    """The number below which a part q (0 … 1) of the elements along an axis lies, between two elements by a straight line; of several q an axis in front. 0.5 gives the median.
    Between a number and an infinity it is the infinity, between both infinities NaN."""
    x, q = _array(x), q if _dtypes.is_number(q) else _array(q)
    if x.dtype.kind != "f":
        x = astype(x, _dtypes.float32)
    shape, gone = x.shape, [_along(x, a) for a in (range(x.ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,))]
    kept = [a for a in range(x.ndim) if a not in gone]
    if 0 in [shape[a] for a in gone]:
        raise ValueError(f"quantile: there are no elements along the axis in {x._type}")
    x = permute_dims(x, (*gone, *kept)) if kept else x
    x = sort(x.reshape((math.prod(shape[a] for a in gone), *[shape[a] for a in kept]) if kept else (-1,)), axis=0)
    last = x.shape[0] - 1
    at = asarray(q, dtype=_dtypes.float64) * last  # a position, which short floats cannot count to
    low = clip(floor(at), 0, last)
    part = astype(at - low, x.dtype).reshape((*at.shape, *(1,) * (x.ndim - 1)))
    below, above = take(x, astype(low, _dtypes.int64), axis=0), take(x, astype(minimum(low + 1, last), _dtypes.int64), axis=0)
    span = above - below
    mixed = where(part == 0, below, below * (1 - part) + above * part)  # where the difference is infinite or NaN
    out = where(isfinite(span), below + part * span, mixed)
    out = where(isnan(x[-1]), nan, out)  # NaN is sorted to the end
    return out.reshape((*at.shape, *(1 if i in gone else n for i, n in enumerate(shape)))) if keepdims else out


def _first_running(op, dtype):
    """What a running value of nothing is."""
    if op in ("cumsum", "cumprod"):
        return int(op == "cumprod")
    if dtype.kind == "f":
        return inf if op == "cummin" else -inf
    return _dtypes.iinfo(dtype).max if op == "cummin" else _dtypes.iinfo(dtype).min


def _running(op, doc):
    code = _CODE[op]

    def function(x, /, *, axis=None, dtype=None, include_initial=False, reverse=False):
        x = _wide(x, dtype) if dtype is not None or op in ("cumsum", "cumprod") else _array(x)
        if axis is None:
            if x.ndim > 1:
                raise ValueError(f"{_core.call_place()}which axis? An array with several axes needs axis=")
            axis = _along(x, 0)
        out = _call(code, (x,), None, axis, _arguments.flag(here("reverse"), reverse))
        if include_initial:
            shape = list(x.shape)
            shape[axis] = 1
            first = full(tuple(shape), _first_running(op, out.dtype), dtype=out.dtype)
            out = concat([out, first] if reverse else [first, out], axis=axis)
        return out

    function.__doc__ = doc
    return function


cumulative_sum = _running("cumsum", "Running sums along an axis.")
cumulative_prod = _running("cumprod", "Running products along an axis.")
cumulative_max = _running("cummax", "Running maxima along an axis.")
cumulative_min = _running("cummin", "Running minima along an axis.")
cumulative_logsumexp = _running("logcumsumexp", "Running logsumexp along an axis.")
for _name in ("cumulative_sum", "cumulative_prod", "cumulative_max", "cumulative_min", "cumulative_logsumexp"):
    globals()[_name].__name__ = globals()[_name].__qualname__ = _name


def linear_recurrence(a, b, /, *, axis=0, reverse=False):
    """s = a*s + b along an axis; the first s is the first b."""
    return _call(_CODE["recurrence"], (_array(a), _array(b)), None, axis, _arguments.flag(here("reverse"), reverse))


def diff(x, /, *, axis=-1, n=1, prepend=None, append=None):
    """Differences of neighbours along an axis, taken n times; prepend and append come before and behind x."""
    x = _array(x)
    axis = _along(x, axis)
    n = _arguments.size("diff: n", n)
    parts = [p for p in (prepend, x, append) if p is not None]
    if len(parts) > 1 and n:
        x = concat(parts, axis=axis)
    for _ in range(builtins.min(n, x.shape[axis])):  # then nothing is left
        front, back = [slice(None)] * axis + [slice(1, None)], [slice(None)] * axis + [slice(None, -1)]
        x = x[tuple(front)] != x[tuple(back)] if x.dtype is _dtypes.bool else x[tuple(front)] - x[tuple(back)]
    return x


def sort(x, /, *, axis=-1, descending=False, stable=True):
    """Sorted along an axis; equals keep their order, NaN comes last."""
    return _call(_CODE["sort"], (_array(x),), None, axis, _arguments.flag(here("descending"), descending))


def argsort(x, /, *, axis=-1, descending=False, stable=True):
    """Where the sorted elements stand."""
    return _call(_CODE["argsort"], (_array(x),), None, axis, _arguments.flag(here("descending"), descending))


def top_k(x, /, k, *, axis=-1):
    """The k largest along an axis, largest first, and where they stand."""
    return tuple(_call(_CODE["top_k"], (_array(x),), str(k), axis))


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    """Where x2 belongs in the sorted x1: before its equals, or behind them (side="right")."""
    if not isinstance(side, str) or side not in ("left", "right"):
        raise _arguments.wrong("searchsorted: side", "'left' or 'right'", side)
    x1 = _array(x1)
    if sorter is not None:
        x1 = take(x1, sorter, axis=0)
    x2 = _array(x2)
    d = result_type(x1, x2)
    return _call(_CODE["searchsorted"], (astype(x1, d, copy=False), astype(x2, d, copy=False)), None, int(side == "right"))


def nonzero(x, /, *, size=None, fill_value=0):
    """Where x is not 0: an array of positions for each axis. In a captured program with size= there are exactly so many."""
    x = _truth(x)
    if x.ndim == 0:
        raise ValueError(f"{_core.call_place()}nonzero needs an axis at least")
    found = _call(_CODE["nonzero"], (x,), None if size is None else str(size), fill_value)
    return tuple(found) if isinstance(found, list) else (found,)


# ---- shapes ----


def reshape(x, /, shape, *, copy=None):
    """The same elements, in the same order, in another shape; one size may be -1."""
    x, dims = _array(x), _dims(shape)
    if x._traced:
        return _call(_CODE["reshape"], (x,), _text(dims))
    if dims.count(-1) == 1:
        known = math.prod(n for n in dims if n != -1)
        if known == 0 or x.size % known:
            raise ValueError(f"{x.size} elements cannot be arranged as {dims}")
        dims = tuple(x.size // known if n == -1 else n for n in dims)
    made = x._reshaped(dims)
    if copy is False and x.size and made._pointer != x._pointer:
        raise ValueError("the elements are not in memory in this order, so they must be copied (copy=False was asked for)")
    return made._copy() if copy else made


def permute_dims(x, /, axes):
    """The axes in another order: axis i of the result is axis axes[i] of x."""
    return _call(_CODE["permute"], (_array(x),), _text(_dims(axes)))


def matrix_transpose(x, /):
    """The last two axes exchanged."""
    x = _array(x)
    if x.ndim < 2:
        raise ValueError(f"a matrix has two axes at least, this array has {x.ndim}")
    return _call(_CODE["transpose"], (x,))


def moveaxis(x, source, destination, /):
    """Axes moved to other places; the others keep their order."""
    x = _array(x)
    source, destination = [v if isinstance(v, (tuple, list)) else (v,) for v in (source, destination)]
    if len(source) != len(destination):
        raise InvalidError(f"{_core.call_place()}expected as many places as axes, found {source!r:.60} and {destination!r:.60}")
    source = [_along(x, a, "source") for a in source]
    destination = [_along(x, a, "destination") for a in destination]
    for axes in (source, destination):
        if len(set(axes)) < len(axes):
            raise InvalidError(f"{_core.call_place()}an axis is named twice: {axes}")
    order = [a for a in range(x.ndim) if a not in source]
    for to, a in sorted(zip(destination, source)):
        order.insert(to, a)
    return permute_dims(x, order)


def swapaxes(x, axis1, axis2, /):
    """Two axes exchanged."""
    return _call(_CODE["swap_axes"], (_array(x),), None, axis1, axis2)


def expand_dims(x, /, axis=0):
    """A new axis of size 1; of several axes each is a place in the result."""
    x = _array(x)
    axes = [_axis(a) for a in axis] if isinstance(axis, (tuple, list)) else [_axis(axis)]
    rank = x.ndim + len(axes)
    for a in axes:
        if not -rank <= a < rank:
            raise IndexError(f"expand_dims: there is no place {a} for an axis of an array with {x.ndim} axes")
    places = sorted(a % rank for a in axes)
    if len(set(places)) < len(places):
        raise InvalidError(f"expand_dims: a place is named twice: {axes}")
    for a in places:
        x = _call(_CODE["expand"], (x,), None, a)
    return x if places else +x


def squeeze(x, /, axis=None):
    """Without axes of size 1."""
    return _call(_CODE["squeeze"], (_array(x),), None if axis is None else _axes_text(axis))


def broadcast_to(x, /, shape):
    """Repeated along axes to this shape, as NumPy does."""
    return _call(_CODE["broadcast"], (_array(x),), _text(_dims(shape)))


def broadcast_shapes(*shapes):
    """The shape that operators on arrays of these shapes have."""
    out = []
    shapes = [_dims(s) for s in shapes]
    for i in range(builtins.max(map(len, shapes), default=0)):
        sizes = {s[-1 - i] for s in shapes if i < len(s)} - {1}
        if len(sizes) > 1:
            raise ValueError(f"shapes {', '.join(map(str, shapes))} do not go together")
        out.append(sizes.pop() if sizes else 1)
    return tuple(reversed(out))


def broadcast_arrays(*arrays):
    """All brought to their common shape."""
    arrays = [_array(a) for a in arrays]
    shape = broadcast_shapes(*[a.shape for a in arrays])
    return [broadcast_to(a, shape) for a in arrays]


def concat(arrays, /, *, axis=0):
    """One behind the other along an axis."""
    arrays = [_array(a) for a in arrays]
    if axis is None:
        arrays, axis = [a.reshape((-1,)) for a in arrays], 0
    return _call(_CODE["concat"], tuple(arrays), None, axis)


def stack(arrays, /, *, axis=0):
    """Side by side along a new axis."""
    return _call(_CODE["stack"], tuple([_array(a) for a in arrays]), None, axis)


def unstack(x, /, *, axis=0):
    """The slices along an axis, as a tuple."""
    x = _array(x)
    axis = _along(x, axis)
    return tuple(x[(slice(None),) * axis + (i,)] for i in range(x.shape[axis]))


def split(x, parts, /, *, axis=0):
    """Parts along an axis: so many equal ones, or at these positions."""
    x = _array(x)
    if isinstance(parts, int):
        out = _call(_CODE["split"], (x,), None, axis, parts)
    else:
        axis = _along(x, axis)
        if not isinstance(parts, (tuple, list)):
            raise _arguments.wrong(here("parts"), "a number of parts, or positions", parts)
        edges = [0, *[_arguments.integer(here("parts"), p) for p in parts], x.shape[axis]]
        sizes = [b - a for a, b in zip(edges, edges[1:])]
        out = _call(_CODE["split"], (x,), _text(sizes), axis, len(sizes))
    return out if isinstance(out, list) else [out]


def flip(x, /, *, axis=None):
    """The order along axes reversed."""
    x = _array(x)
    if x.ndim == 0:
        return +x
    return _call(_CODE["reverse"], (x,), _axes_text(axis) if axis is not None else _text(range(x.ndim)))


def roll(x, /, shift, *, axis=None):
    """Moved along an axis, from its end to its beginning."""
    x = _array(x)
    if axis is None and not isinstance(shift, (tuple, list)):
        return roll(x.reshape((-1,)), shift, axis=0).reshape(x.shape)
    if isinstance(axis, (tuple, list)):
        shifts = shift if isinstance(shift, (tuple, list)) else [shift] * len(axis)
        if len(shifts) != len(axis):
            raise InvalidError(f"roll: {len(shifts)} shifts for {len(axis)} axes")
        for s, a in zip(shifts, axis):
            x = roll(x, s, axis=a)
        return x if axis else +x
    if isinstance(shift, (tuple, list)):
        raise InvalidError(f"roll: {len(shift)} shifts need as many axes: axis=({axis},) or more")
    return _call(_CODE["roll"], (x, shift), None, axis)


def tile(x, repetitions, /):
    """The whole array so many times along each axis."""
    x, reps = _array(x), _dims(repetitions)
    if len(reps) < x.ndim:
        reps = (1,) * (x.ndim - len(reps)) + reps
    if len(reps) > x.ndim:
        x = x.reshape((1,) * (len(reps) - x.ndim) + x.shape)
    return _call(_CODE["tile"], (x,), _text(reps))


def repeat(x, repeats, /, *, axis=None):
    """Each element so many times along an axis."""
    x = _array(x)
    if axis is None:
        x, axis = x.reshape((-1,)), 0
    axis = _along(x, axis)
    if isinstance(repeats, int):
        wide = expand_dims(x, axis=axis + 1)
        wide = broadcast_to(wide, (*x.shape[: axis + 1], repeats, *x.shape[axis + 1 :]))
        return wide.reshape((*x.shape[:axis], x.shape[axis] * repeats, *x.shape[axis + 1 :]))
    counts = _array(repeats).reshape((-1,)).tolist()
    counts = counts * x.shape[axis] if len(counts) == 1 else counts
    if len(counts) != x.shape[axis]:
        raise InvalidError(f"repeat: {len(counts)} counts for {x.shape[axis]} elements along axis {axis}")
    if builtins.any(n < 0 for n in counts):
        raise InvalidError(f"repeat: expected counts of at least 0, found {builtins.min(counts)}")
    positions = [i for i, n in enumerate(counts) for _ in range(n)]
    return take(x, asarray(positions, dtype=_dtypes.int64), axis=axis)


def pad(x, pad_width, /, *, value=0):
    """More elements in front of and behind each axis: one number, (before, after), or one pair per axis."""
    x = _array(x)
    if isinstance(pad_width, int):
        pad_width = [(pad_width, pad_width)] * x.ndim
    elif len(pad_width) == 2 and isinstance(pad_width[0], int):
        pad_width = [tuple(pad_width)] * x.ndim
    return _call(_CODE["pad"], (x, value), ", ".join(f"{a}:{b}" for a, b in pad_width))


# ---- parts ----


def take(x, indices, /, *, axis=None):
    """Slices of x at the indices along an axis. Indices beyond the ends are brought into range; negative ones count from the end."""
    x, indices = _array(x), _array(indices)
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"{_core.call_place()}which axis? An array with several axes needs axis=")
        axis = 0
    axis = _along(x, axis)
    return _call(_CODE["take"], (x, wrapped(indices, _length(x, axis))), None, axis)


def take_along_axis(x, indices, /, *, axis=-1):
    """For every place an element of x at a position along the axis."""
    x, indices = _array(x), _array(indices)
    axis = _along(x, axis)
    return _call(_CODE["take_along"], (x, wrapped(indices, _length(x, axis))), None, axis)


def _length(x, axis):
    """Of an axis, also where only a run knows it."""
    n = x.shape[axis]
    return n if n is not None else _call(_CODE["size"], (x,), None, axis)


def _starts(x, positions):
    """Negative positions counted from the end."""
    out = []
    if not isinstance(positions, (tuple, list)) and getattr(positions, "ndim", 0) != 1:
        raise _arguments.wrong(here("start_indices"), "a position for each axis", positions)
    for axis, i in enumerate(positions):
        whole = isinstance(i, int) and not isinstance(i, bool_type) and builtins.abs(i) < 1 << 62
        if not whole and (isinstance(i, (bool_type, int, float)) or asarray(i).ndim or asarray(i).dtype.kind not in "iu"):
            raise _arguments.wrong(here(f"start_indices[{axis}]"), "an integer", i)
        n = x.shape[axis] if axis < x.ndim else None
        if n is not None and isinstance(i, int):
            i = i + n if i < 0 else i
        elif axis < x.ndim:
            i = wrapped(_array(i), _length(x, axis))
        out.append(i)
    return out


def dynamic_slice(x, start_indices, slice_sizes, /):
    """A part of known sizes at positions that may be traced, moved so that it fits. Negative positions count from the end."""
    x = _array(x)
    return _call(_CODE["dynamic_slice"], (x, *_starts(x, start_indices)), _text(_dims(slice_sizes)))


def dynamic_update_slice(x, update, start_indices, /):
    """x with a part replaced, at positions that may be traced, moved so that it fits. Negative positions count from the end."""
    x = _array(x)
    return _call(_CODE["dynamic_update"], (x, _array(update), *_starts(x, start_indices)))


def one_hot(x, num_classes, /, *, dtype=None):
    """1 at the index, 0 elsewhere, along a new last axis."""
    return _call(_CODE["one_hot"], (_array(x),), str(num_classes), 0, 0, (_dtypes.float32 if dtype is None else as_dtype(dtype)).text)


# ---- products ----


def matmul(x1, x2, /):
    """x1 @ x2."""
    return _op(_CODE["matmul"], x1, x2)


def tensordot(x1, x2, /, *, axes=2):
    """Sums of products over several axes."""
    x1, x2 = _array(x1), _array(x2)
    if isinstance(axes, int):
        axes = _arguments.integer("tensordot: axes", axes, 0, builtins.min(x1.ndim, x2.ndim), "as many axes as both have")
        left, right = list(range(x1.ndim - axes, x1.ndim)), list(range(axes))
    else:
        left, right = [list(a) if isinstance(a, (tuple, list)) else [a] for a in axes]
    d = result_type(x1, x2)
    return _call(_CODE["dot"], (astype(x1, d, copy=False), astype(x2, d, copy=False)), _text(left) or None, 0, 0, _text(right) or None)


def vecdot(x1, x2, /, *, axis=-1):
    """Sums of products along an axis."""
    x1, x2 = _array(x1), _array(x2)
    for x in (x1, x2):
        _along(x, axis)
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f"vecdot: {x1.shape[axis]} and {x2.shape[axis]} elements along axis {axis}")
    return sum(x1 * x2, axis=axis, dtype=result_type(x1, x2))


def einsum(subscripts, /, *operands):
    """Sums of products, one letter per axis: einsum("bij,bjk->bik", x, y)."""
    return _call(_CODE["einsum"], tuple([_array(x) for x in operands]), subscripts)


def outer(x1, x2, /):
    """All products of elements of two vectors."""
    return _op(_CODE["outer"], _array(x1), _array(x2))


def diagonal(x, /, *, offset=0):
    """The diagonal of the last two axes, or the one that is so far above it (below it when negative)."""
    x = _array(x)
    if offset:
        x = x[..., :, offset:] if offset > 0 else x[..., -offset:, :]
        if 0 in x.shape[-2:]:
            return zeros((*x.shape[:-2], 0), dtype=x.dtype)
    return _op(_CODE["diagonal"], x)


def trace(x, /, *, offset=0, dtype=None):
    """The sum of a diagonal of the last two axes; of small integers an int64 or uint64."""
    return sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


# ---- effects ----


def print(format, /, *values, **named):
    """Prints a line when the program runs, the values in place of {}, {0}, {name}; {:.3f} for values without axes."""
    parts, given, plain, used = list(string.Formatter().parse(format)), [], True, 0
    for text, field, spec, conversion in parts:
        plain = plain and "{" not in text and "}" not in text and not spec and not conversion
        if field is None:
            continue
        at = used if field == "" else int(field) if field.isdigit() else field
        if at not in named if isinstance(at, str) else at >= len(values):
            raise ValueError(f"print: there is no value for {{{field}}} in {format!r}")
        given.append(named[at] if isinstance(at, str) else values[at])
        used = used if isinstance(at, str) else builtins.max(used, at + 1)
    if not plain:
        from ._callback import debug_callback

        debug_callback(lambda v, n: builtins.print(format.format(*v, **n)), values, named)
        return
    given += values[used:]  # those without a place come last
    line = "".join(text + ("{}" if field is not None else "") for text, field, _, _ in parts)
    if _core.tracing():
        _call(_CODE["print"], tuple([_array(v) for v in given]), line)
        return
    for v in given:
        text = str(_array(v).tolist())
        line = line.replace("{}", text, 1) if "{}" in line else f"{line} {text}"
    builtins.print(line)


def check(condition, message="", /, *values):
    """Ends the run with hop.CheckError, the message and the values unless the condition holds everywhere."""
    condition = _truth(condition)
    if _core.tracing():
        _call(_CODE["check"], (condition, *[_array(v) for v in values]), message)
    elif not all(condition).item():
        from ._errors import CheckError

        raise CheckError(message + "".join(f" {_array(v).tolist()}" for v in values))


# ---- files ----


def save(path, arrays, /):
    """Writes an array (.npy), or a dict of arrays (.npz, .safetensors)."""
    if isinstance(arrays, dict):
        for name, a in arrays.items():
            if isinstance(a, (dict, list, tuple)) and not builtins.all(isinstance(n, (bool_type, int, float)) for n in tree.leaves(a)):
                raise TypeError(f"save: {name!r} is a {type(a).__name__}: a file holds arrays by name; {{hop.tree.path_text(path): x for path, x in hop.tree.leaves_with_path(t)}} makes names for the leaves of a tree")
        _core.save_file(str(path), tuple(arrays), tuple([_array(a) for a in arrays.values()]))
    else:
        _core.save_file(str(path), ("",), (_array(arrays),))


def load(path, /):
    """What a file holds: an array (.npy) or a dict of arrays (.npz, .safetensors)."""
    found = _core.load_file(str(path))
    return found[""] if list(found) == [""] else found


# ---- methods that take their arguments by position, as NumPy's do ----


def _method_reshape(x, *shape, copy=None):
    return reshape(x, shape[0] if len(shape) == 1 else shape, copy=copy)


def _method_transpose(x, *axes):
    if len(axes) == 1 and isinstance(axes[0], (tuple, list, type(None))):
        axes = axes[0]
    return permute_dims(x, axes or tuple(range(x.ndim))[::-1])


def _method_flatten(x):
    return reshape(x, (-1,))


def _method_dot(x, y):
    return matmul(x, y)


def _by_position(function):
    def method(x, axis=None, **named):
        for name in ("dtype", "out"):  # numpy.mean(x) and the like call methods with these
            if name in named and named[name] is None:
                del named[name]
        if "ddof" in named:
            named["correction"] = named.pop("ddof")
        return function(x, axis=axis, **named)

    method.__name__ = function.__name__
    method.__doc__ = function.__doc__
    return method


for _name in ("sum", "prod", "mean", "var", "std", "max", "min", "any", "all", "argmax", "argmin", "cumulative_sum", "cumulative_prod"):
    globals()["_method_" + _name] = _by_position(globals()[_name])


def _method_sort(x, axis=-1, **named):
    return sort(x, axis=axis, **named)


def _method_argsort(x, axis=-1, **named):
    return argsort(x, axis=axis, **named)


def _method_take(x, indices, axis=None):
    return take(x, indices, axis=axis)


def _method_repeat(x, repeats, axis=None):
    return repeat(x, repeats, axis=axis)


# Functions made by others are known by their own names: in tracebacks, and in messages about them.
for _function in [f for f in globals().values() if callable(f) and getattr(getattr(f, "__code__", None), "co_name", None) in ("function", "real", "method")]:
    if _function.__name__ not in ("real",):
        _function.__code__ = _function.__code__.replace(co_name=_function.__name__, co_qualname=_function.__name__)
del _function
