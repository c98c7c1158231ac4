"""Operators that make arrays, of numbers, of memory and of nothing; the dtype and the strength of one."""

import builtins
import itertools
import math
import operator

from .. import _arguments, _core, _dtypes, _shapes, tree
from .._dtypes import as_dtype
from .._errors import InvalidError, TracerError
from .common import _CODE, _call, _dims, _on, _public, _text, _type

newaxis = None
e, inf, nan, pi = math.e, math.inf, math.nan, math.pi


def _nested(x, shape, depth, out):
    if isinstance(x, (list, tuple)):
        if len(shape) <= depth:
            if out:
                raise ValueError(f"{_core.call_place()}the lists are nested to different depths")
            shape.append(len(x))
        if len(x) != shape[depth]:
            raise ValueError(
                f"{_core.call_place()}the lists have different lengths: "
                f"{shape[depth]} and {len(x)} at depth {depth}"
            )
        for item in x:
            _nested(item, shape, depth + 1, out)
    else:
        if len(shape) != depth:
            raise ValueError(f"{_core.call_place()}the lists are nested to different depths")
        out.append(x)


def _from_lists(x, dtype):
    shape, level, kinds = [len(x)], list(x), set(map(type, x))
    # a list may hold itself
    while (
        kinds and kinds <= {list, tuple} and len(shape) <= 32 and len(lengths := set(map(len, level))) == 1
    ):
        shape.append(lengths.pop())
        level = list(itertools.chain.from_iterable(level))
        kinds = set(map(type, level))
    if kinds and kinds <= {float, int, builtins.bool}:  # as it is mostly
        d = dtype or (_dtypes.float32 if float in kinds else _dtypes.int64 if int in kinds else _dtypes.bool)
        return _core.from_numbers(d.code, shape, level)
    leaves = tree.leaves(x, is_leaf=lambda n: n is None or not isinstance(n, (list, tuple)))
    if not builtins.all(map(_dtypes.is_number, leaves)):
        from .shape import stack

        return _strong(stack([_array(n) if dtype is None else asarray(n, dtype=dtype) for n in x]))
    shape, numbers = [], []
    _nested(x, shape, 0, numbers)
    if dtype is None:
        kinds = set(map(type, numbers))
        real = not kinds or builtins.any(issubclass(k, float) for k in kinds)
        dtype = _dtypes.float32 if real else _dtypes.int64 if kinds != {builtins.bool} else _dtypes.bool
    return _core.from_numbers(dtype.code, shape, numbers)


def asarray(obj, /, dtype=None, *, device=None, copy=None):
    """An array of it: another array, a NumPy array or anything with a buffer or DLPack (in the same memory
    where that can be), a number, nested lists of numbers.

    Real numbers become float32, integers int64; NumPy arrays keep their dtype. copy=True copies,
    copy=False is an error where the memory cannot be shared.

    >>> hop.asarray([[1, 2], [3, 4]])
    Array([[1, 2],
           [3, 4]], dtype=int64)
    >>> hop.asarray([0.5, 1], dtype=hop.float64)
    Array([0.5, 1. ], dtype=float64)
    """
    _on(device)
    dtype = None if dtype is None else as_dtype(dtype)
    if isinstance(obj, _shapes.Size):
        obj = obj._value
    if isinstance(obj, _core.ArrayBase):
        made = _strong(obj) if dtype in (None, obj.dtype) else obj
        made = (
            made if not copy or made is not obj and obj._traced else +made if made._traced else made._copy()
        )
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
    if isinstance(x, _shapes.Size):
        x = x._value
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
        return from_dlpack(obj, copy=None if copy < 0 else builtins.bool(copy))
    if hasattr(obj, "__array__") and not isinstance(obj, type):
        made = _core.from_buffer(obj.__array__(), copy)
        if made is not None:
            return made
    advice = ": x.toarray() makes an array of a sparse one" if hasattr(obj, "toarray") else ""
    raise TypeError(
        f"{_core.call_place()}expected an array, a number or lists of numbers, "
        f"found {type(obj).__name__}{advice}"
    )


def array(obj, dtype=None, copy=True):
    """An array of its own with these elements.

    As asarray, but always a copy; unlike in NumPy it makes no difference for the result, because arrays are
    values.

    >>> x = hop.asarray([1, 2])
    >>> hop.array(x, dtype=hop.float32)
    Array([1., 2.], dtype=float32)
    """
    return asarray(obj, dtype=dtype, copy=copy or None)


def from_dlpack(x, /, *, device=None, copy=None):
    """An array in the memory of another library's array; with device="cpu" that library copies one that is
    elsewhere.

    copy=True always copies, copy=False never.

    >>> hop.from_dlpack(hop.asarray([1.0, 2.0]))
    Array([1., 2.], dtype=float32)
    """
    _on(device)
    _core.unmasked(x)
    if not hasattr(x, "__dlpack__"):
        raise TypeError(f"from_dlpack takes an array with __dlpack__, found {type(x).__name__}")
    asked = {} if device is None else {"dl_device": (1, 0)}
    if copy is not None:
        asked["copy"] = copy
    try:
        capsule = x.__dlpack__(max_version=(1, 0), **asked)
    except TracerError:
        raise
    except TypeError:  # from before the keywords
        capsule = x.__dlpack__()
    made = _core.from_dlpack(capsule)
    if copy is False and made._memory == 0 and made.size:
        raise BufferError(
            "the memory is read-only or badly aligned, so it had to be copied (copy=False was asked for)"
        )
    return made._copy() if copy and made._memory and not hasattr(x, "_traced") else made


def full(shape, fill_value, dtype=None, *, device=None):
    """An array with one value everywhere.

    The dtype is that of the value when none is given: float32 of a real number, int64 of an integer. A
    number is a shape of one axis. Sizes may be those of a captured program, or traced integers.

    >>> hop.full((2, 3), 7)
    Array([[7, 7, 7],
           [7, 7, 7]], dtype=int64)
    >>> hop.full(2, 0.5, dtype=hop.float64)
    Array([0.5, 0.5], dtype=float64)
    """
    _on(device)
    if isinstance(fill_value, complex):
        raise TypeError(f"full: there are no complex numbers, found {fill_value!r}")
    if isinstance(fill_value, _core.ArrayBase):
        d = fill_value.dtype if dtype is None else as_dtype(dtype)
        return _call(_CODE["broadcast"], (_array(astype(fill_value, d)),), _text(_dims(shape)))
    _core.unmasked(fill_value)
    d = _dtypes.weak_dtype(fill_value) if dtype is None else as_dtype(dtype)
    dims = _dims(shape)
    if _core.tracing():
        return _call(_CODE["full"], (fill_value,), _type(d, dims))
    return _core.full(d.code, dims, fill_value)


def zeros(shape, dtype=None, *, device=None):
    """An array of zeros.

    Unlike in NumPy the elements are zeros, not what the memory happened to hold.

    >>> hop.empty(2)
    Array([0., 0.], dtype=float32)
    """
    return full(shape, 0, dtype=_dtypes.float32 if dtype is None else dtype, device=device)


def ones(shape, dtype=None, *, device=None):
    """An array of ones.

    float32 when no dtype is given.

    >>> hop.ones((2, 2))
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    return full(shape, 1, dtype=_dtypes.float32 if dtype is None else dtype, device=device)


empty = zeros


def full_like(x, /, fill_value, dtype=None, *, device=None):
    """An array of the shape and dtype of x with one value everywhere.

    >>> hop.full_like(hop.zeros((2, 2)), 3)
    Array([[3., 3.],
           [3., 3.]], dtype=float32)
    """
    x = _array(x)
    return full(x.shape, fill_value, dtype=x.dtype if dtype is None else dtype, device=device)


def zeros_like(x, /, dtype=None, *, device=None):
    """Zeros of the shape and dtype of x.

    Unlike in NumPy the elements are zeros.

    >>> hop.empty_like(hop.asarray([0.5, 2]))
    Array([0., 0.], dtype=float32)
    """
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x, /, dtype=None, *, device=None):
    """Ones of the shape and dtype of x.

    >>> hop.ones_like(hop.asarray([0.5, 2]))
    Array([1., 1.], dtype=float32)
    """
    return full_like(x, 1, dtype=dtype, device=device)


empty_like = zeros_like


def arange(start, /, stop=None, step=1, dtype=None, *, device=None):
    """start, start + step, … below stop; from 0 when only stop is given.

    Integers give int64, real numbers float32. In a captured program the numbers may be sizes and traced
    values; the program finds out how many there are.

    >>> hop.arange(4)
    Array([0, 1, 2, 3], dtype=int64)
    >>> hop.arange(1, 2, 0.25)
    Array([1.  , 1.25, 1.5 , 1.75], dtype=float32)
    """
    _on(device)
    if stop is None:
        start, stop = 0, start
    if builtins.any(isinstance(n, (_core.ArrayBase, _shapes.Size)) for n in (start, stop, step)):
        start, stop, step = [
            n.item() if isinstance(n, _core.ArrayBase) and not n._traced else n for n in (start, stop, step)
        ]
        if builtins.any(isinstance(n, (_core.ArrayBase, _shapes.Size)) for n in (start, stop, step)):
            return _arange_in_program(start, stop, step, dtype)
    for name, n in (("start", start), ("stop", stop), ("step", step)):
        if not isinstance(n, int) and not math.isfinite(_arguments.real(f"arange: {name}", n)):
            raise _arguments.wrong(f"arange: {name}", "a finite number", n)
    if step == 0:
        raise ValueError("arange: the step is 0")
    start, stop, step = [operator.index(n) if hasattr(n, "__index__") else n for n in (start, stop, step)]
    whole = builtins.all(isinstance(n, int) for n in (start, stop, step))
    d = (_dtypes.int64 if whole else _dtypes.float32) if dtype is None else as_dtype(dtype)
    n = builtins.max(
        0, -((start - stop) // step) if whole else math.ceil((float(stop) - float(start)) / float(step))
    )
    if n >= 1 << 62 or (
        d.kind != "f"
        and n
        and not -(1 << 63)
        <= builtins.min(start, start + (n - 1) * step)
        <= builtins.max(start, start + (n - 1) * step)
        < 1 << 64
    ):
        raise InvalidError(f"{_core.call_place()}the numbers from {start} to {stop} do not fit into {d}")
    if d.kind != "f":
        start, step = int(start), int(step)
        start -= (start >= 1 << 63) << 64  # only its bits matter
    return _core.progression(d.code, n, start, step)


def _arange_in_program(start, stop, step, dtype):
    """Where sizes or traced numbers are among the bounds."""
    bounds = [_bound(name, n) for name, n in (("start", start), ("stop", stop), ("step", step))]
    if isinstance(bounds[2], (int, float)) and bounds[2] == 0:
        raise ValueError("arange: the step is 0")
    whole = not builtins.any(
        isinstance(n, float) or getattr(n, "dtype", None) is _dtypes.float64 for n in bounds
    )
    d = (_dtypes.int64 if whole else _dtypes.float32) if dtype is None else as_dtype(dtype)
    if builtins.all(isinstance(n, _shapes.WHOLE) for n in bounds):
        start, stop, step = bounds
        n = _shapes.largest(-((start - stop) // step), 0)
    else:
        from .elementwise import ceil, maximum

        start, stop, step = [
            n if whole or isinstance(n, float) else astype(n, _dtypes.float64) for n in bounds
        ]
        n = -((start - stop) // step) if whole else astype(ceil((stop - start) / step), _dtypes.int64)
        n = _shapes.bound(maximum(n, 0))
    positions = _call(_CODE["iota"], (), _type(_dtypes.int64, (n,)), 0)
    if not isinstance(start, int) or start != 0 or not isinstance(step, int) or step != 1:
        positions = start + (positions if whole else astype(positions, _dtypes.float64)) * step
    return astype(positions, d, copy=False)


def _bound(name, n):
    """A bound of arange: a number, a size, or a traced scalar of int64 or float64."""
    if isinstance(n, _core.ArrayBase) and n.ndim == 0 and n.dtype is not _dtypes.bool:
        return astype(n, _dtypes.float64 if n.dtype.kind == "f" else _dtypes.int64)
    if isinstance(n, _shapes.WHOLE) and not isinstance(n, builtins.bool):
        return n
    if isinstance(n, _core.ArrayBase):
        raise _arguments.wrong(f"arange: {name}", "a number", n)
    n = operator.index(n) if hasattr(n, "__index__") else _arguments.real(f"arange: {name}", n)
    if not math.isfinite(n):
        raise _arguments.wrong(f"arange: {name}", "a finite number", n)
    return n


def linspace(start, stop, /, num=50, endpoint=True, *, dtype=None, device=None):
    """num numbers from start to stop, evenly.

    float32 when no dtype is given.

    >>> hop.linspace(0, 1, 5)
    Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    >>> hop.linspace(0, 1, 4, endpoint=False)
    Array([0.  , 0.25, 0.5 , 0.75], dtype=float32)
    """
    _on(device)
    d = _dtypes.float32 if dtype is None else as_dtype(dtype)
    num, endpoint = _arguments.extent("linspace: num", num), _arguments.flag("linspace: endpoint", endpoint)
    if isinstance(num, _shapes.Size):
        return _linspace_in_program(start, stop, num, endpoint, d)
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


def _linspace_in_program(start, stop, num, endpoint, d):
    """With a number of them that is no number yet; the bounds may be traced."""
    from .elementwise import maximum, where

    start, stop = [
        astype(n, _dtypes.float64)
        if isinstance(n, (_core.ArrayBase, _shapes.Size))
        else _arguments.real(f"linspace: {name}", n)
        for name, n in (("start", start), ("stop", stop))
    ]
    positions = astype(_call(_CODE["iota"], (), _type(_dtypes.int64, (num,)), 0), _dtypes.float64)
    parts = (num - 1 if endpoint else num)._value
    out = start + positions * ((stop - start) / maximum(parts, 1))
    if endpoint:
        out = where((positions == parts) & (parts > 0), stop, out)
    return astype(out, d)


def eye(n_rows, n_cols=None, /, k=0, dtype=None, *, device=None):
    """Ones on a diagonal, k above the main one, zeros elsewhere.

    >>> hop.eye(2, 3, k=1)
    Array([[0., 1., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    _on(device)
    d = _dtypes.float32 if dtype is None else as_dtype(dtype)
    n_rows, n_cols = [
        _arguments.extent("eye: a size", n) for n in (n_rows, n_rows if n_cols is None else n_cols)
    ]
    k = _arguments.integer("eye: k", k)
    return _call(_CODE["eye"], (), _type(d, (n_rows, n_cols)), _within(k, n_rows, n_cols))


def _within(k, n_rows, n_cols):
    """The number of a diagonal; all that are outside of the matrix are alike."""
    low, high = [(1 << 31) - 2 if isinstance(n, _shapes.Size) else n + 1 for n in (n_rows, n_cols)]
    return builtins.max(-low, builtins.min(k, high))


def tril(x, /, k=0):
    """Zeros above the diagonal that is k above the main one.

    Of more than two axes the last two are matrices.

    >>> hop.tril(hop.ones((3, 3)), k=-1)
    Array([[0., 0., 0.],
           [1., 0., 0.],
           [1., 1., 0.]], dtype=float32)
    """
    x = _array(x)
    if isinstance(k, _core.ArrayBase):
        k = _arguments.integer("tril: k", k)
    return _call(_CODE["tril"], (x,), None, _within(k, *x.shape[-2:]) if x.ndim > 1 else k)


def triu(x, /, k=0):
    """Zeros below the diagonal that is k above the main one.

    Of more than two axes the last two are matrices.

    >>> hop.triu(hop.ones((3, 3)))
    Array([[1., 1., 1.],
           [0., 1., 1.],
           [0., 0., 1.]], dtype=float32)
    """
    x = _array(x)
    if isinstance(k, _core.ArrayBase):
        k = _arguments.integer("triu: k", k)
    return _call(_CODE["triu"], (x,), None, _within(k, *x.shape[-2:]) if x.ndim > 1 else k)


def astype(x, dtype, /, *, copy=True, device=None):
    """The elements as another dtype.

    Floats are cut towards 0 when they become integers, everything but 0 becomes True. Derivatives pass from
    float to float and end at integers.

    >>> hop.astype(hop.asarray([1.7, -1.7]), hop.int32)
    Array([ 1, -1], dtype=int32)
    >>> hop.astype(hop.asarray([0.0, 2.0]), hop.bool)
    Array([False,  True], dtype=bool)
    """
    _on(device)
    d = as_dtype(dtype)
    if _dtypes.is_number(x):
        return asarray(x, dtype=d)
    if isinstance(x, _shapes.Size):
        x = x._value
    x = x if isinstance(x, _core.ArrayBase) else asarray(x)
    if x.dtype is d:
        x, weak = _strong(x), x._weak
        return x if not copy or weak and x._traced else +x if x._traced or _core.tracing() else x._copy()
    return _call(_CODE["cast"], (x,), d.text)


__all__ = ["newaxis", "e", "inf", "nan", "pi", *_public(globals())]
