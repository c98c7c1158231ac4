"""Operators along axes: reductions, running values, order, and what is found by it."""

import builtins
import math

from .. import _arguments, _core, _dtypes, _shapes
from .._arguments import here
from .._dtypes import result_type
from .._errors import InvalidError
from .common import _CODE, _along, _axes_text, _call, _named, _public
from .creation import _array, asarray, astype, full, inf, nan
from .elementwise import _truth, clip, floor, isclose, isfinite, isnan, minimum, sqrt, where
from .parts import take
from .shape import concat, permute_dims


def _keep(x, out, axis, keepdims):
    """The reduced axes back, with size 1."""
    if not keepdims:
        return out
    axes = range(x.ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    gone = {_along(x, a) for a in axes}
    return out.reshape(tuple(1 if i in gone else n for i, n in enumerate(x.shape)))


def _reduction(name, op, doc):
    code = _CODE[op]

    def function(x, /, axis=None, *, keepdims=False):
        x = _array(x)
        if x.dtype is _dtypes.bool and op in _OF_BOOLS:
            return _OF_BOOLS[op](x, axis=axis, keepdims=keepdims)
        if axis == () or (axis is None and x.ndim == 0 and op not in ("sum", "prod", "any", "all")):
            return _call(code, (x.reshape((*x.shape, 1)),), str(x.ndim))
        return _keep(x, _call(code, (x,), _axes_text(axis)), axis, keepdims)

    function.__name__ = function.__qualname__ = name
    return _named(function, name, doc)


max = _reduction("max", "reduce_max", "The largest along axes (all when not said).")

min = _reduction("min", "reduce_min", "The smallest along axes (all when not said).")

_mean = _reduction("mean", "mean", "The mean along axes (all when not said).")

logsumexp = _reduction("logsumexp", "logsumexp", "log(sum(exp(x))) along axes, without overflow.")

_any = _reduction("any", "any", "Whether one element holds, along axes (all when not said).")

_all = _reduction("all", "all", "Whether all elements hold, along axes (all when not said).")

_OF_BOOLS = {"reduce_max": _any, "reduce_min": _all}


def any(x, /, axis=None, *, keepdims=False):
    """Whether one element holds, along axes (all when not said). bool; False of no elements. Numbers hold
    unless they are 0.

    >>> hop.any(hop.asarray([[False, True], [False, False]]), axis=1)
    Array([ True, False], dtype=bool)
    """
    return _any(_truth(x), axis=axis, keepdims=keepdims)


def all(x, /, axis=None, *, keepdims=False):
    """Whether all elements hold, along axes (all when not said). bool; True of no elements. Numbers hold
    unless they are 0.

    >>> hop.all(hop.asarray([[True, True], [True, False]]), axis=0)
    Array([ True, False], dtype=bool)
    """
    return _all(_truth(x), axis=axis, keepdims=keepdims)


def _as(x, dtype):
    """x in the dtype that was asked for."""
    return _array(x) if dtype is None else astype(x, dtype, copy=False)


def mean(x, /, axis=None, dtype=None, *, keepdims=False):
    """The mean along axes (all when not said).

    Integers give float32. dtype says otherwise: elements are added up in it, or in what is wider, and the
    result is rounded once.

    >>> hop.mean(hop.asarray([[1, 2], [3, 6]]), axis=0)
    Array([2., 4.], dtype=float32)
    >>> hop.mean(hop.asarray([1, 2], dtype=hop.int8), dtype=hop.float64)
    Array(1.5, dtype=float64)
    """
    x, d = _array(x), _chosen_float(dtype)
    if d is None or d is x.dtype or axis == () or x.ndim == 0:
        return _mean(_as(x, dtype), axis=axis, keepdims=keepdims)
    return _keep(x, _call(_CODE["mean_as"], (x,), _axes_text(axis), 0, 0, d.text), axis, keepdims)


def _chosen_float(dtype):
    """The dtype if it is a float's: what statistics are computed in without a copy of the operand."""
    d = None if dtype is None else _dtypes.as_dtype(dtype)
    return d if d is not None and d.kind == "f" else None


# Sums of small integers are taken as int64, those of small unsigned ones as uint64, as in NumPy.
_WIDE = {"i": _dtypes.int64, "b": _dtypes.int64, "u": _dtypes.uint64}


def _folded(x, dtype):
    """What is added up or multiplied, and in which dtype, to which elements are brought as they are read."""
    x = _array(x)
    d = _WIDE.get(x.dtype.kind, x.dtype) if dtype is None else _dtypes.as_dtype(dtype)
    if d.kind == "b" or (x.dtype.kind == "f" and d.kind != "f"):  # each element is cut off, as in NumPy
        x = astype(x, d, copy=False)
    return x, d


def _fold(op, x, axis, dtype, keepdims):
    """A sum or a product in a dtype of its own."""
    x, d = _folded(x, dtype)
    at = (x.reshape((*x.shape, 1)), str(x.ndim)) if axis == () else (x, _axes_text(axis))
    if d.kind == "b" or (dtype is None and d is x.dtype):
        out = _call(_CODE[op], (at[0],), at[1])
    else:
        out = _call(_CODE[op + "_as"], (at[0],), at[1], 0, 0, d.text)
    return out if axis == () else _keep(x, out, axis, keepdims)


def sum(x, /, axis=None, dtype=None, *, keepdims=False):
    """The sum along axes (all when not said).

    Small integers are summed as int64 or uint64; floats keep their dtype. dtype says otherwise: elements are
    added up in it, or in what is wider, and the result is rounded once.

    >>> x = hop.asarray([[1, 2], [3, 4]])
    >>> hop.sum(x)
    Array(10, dtype=int64)
    >>> hop.sum(x, axis=1)
    Array([3, 7], dtype=int64)
    """
    return _fold("sum", x, axis, dtype, keepdims)


def prod(x, /, axis=None, dtype=None, *, keepdims=False):
    """The product along axes (all when not said).

    Small integers are multiplied as int64 or uint64; dtype says otherwise. The gradient is right where
    elements are 0, too.

    >>> hop.prod(hop.asarray([[1, 2], [3, 4]]), axis=0)
    Array([3, 8], dtype=int64)
    """
    return _fold("prod", x, axis, dtype, keepdims)


def _spread(op):
    code, chosen = _CODE[op], _CODE[op + "_as"]

    def function(x, /, axis=None, dtype=None, *, correction=0.0, keepdims=False):
        correction = (
            correction if type(correction) is int else _arguments.real(here("correction"), correction)
        )
        x, d = _array(x), _chosen_float(dtype)
        if correction == correction // 1 and d is not None and d is not x.dtype:
            out = _call(chosen, (x,), _axes_text(axis), int(correction), 0, d.text)
            return _keep(x, out, axis, keepdims)
        x = _as(x, dtype)
        if correction == correction // 1:
            return _keep(x, _call(code, (x,), _axes_text(axis), int(correction)), axis, keepdims)
        d = x - mean(x, axis=axis, keepdims=True)
        n = (
            x.size
            if axis is None
            else math.prod(x.shape[a] for a in (axis if isinstance(axis, (tuple, list)) else (axis,)))
        )
        v = sum(d * d, axis=axis, keepdims=keepdims) / (n - correction)
        return v if op == "var" else sqrt(v)

    return _named(
        function, op, "The variance along axes." if op == "var" else "The standard deviation along axes."
    )


var, std = _spread("var"), _spread("std")


def _ordered(x):
    """Truth values as numbers, which have an order."""
    x = asarray(x)
    return astype(x, _dtypes.uint8) if x.dtype is _dtypes.bool else x


def _arg(op):
    code = _CODE[op]

    def function(x, /, axis=None, *, keepdims=False):
        x = _ordered(x)
        if _shapes.lacks_elements(x.shape if axis is None else (x.shape[_along(x, axis)],)):
            where_ = "all axes" if axis is None else f"axis {axis}"
            raise InvalidError(f"{op}: there are no elements along {where_} of {x._type}")
        if axis is None:
            out = _call(code, (x.reshape((-1,)),), None, 0)
            return out.reshape((1,) * x.ndim) if keepdims else out
        return _keep(x, _call(code, (x,), None, axis), axis, keepdims)

    return _named(
        function, op, f"Where the first of the {'largest' if op == 'argmax' else 'smallest'} stands."
    )


argmax, argmin = _arg("argmax"), _arg("argmin")


def count_nonzero(x, /, axis=None, *, keepdims=False):
    """How many elements are not 0. int64; NaN counts.

    >>> hop.count_nonzero(hop.asarray([[0, 1], [2, 3]]), axis=0)
    Array([1, 2], dtype=int64)
    """
    return sum(_truth(x), axis=axis, keepdims=keepdims)


def softmax(x, /, axis=-1):
    """exp(x) divided by its sum along axes.

    Without overflow. Along the last axis unless another is named.

    >>> hop.softmax(hop.asarray([[1000.0, 1000.0], [0.0, -1e9]]))
    Array([[0.5, 0.5],
           [1. , 0. ]], dtype=float32)
    """
    return _call(_CODE["softmax"], (_array(x),), _axes_text(axis))


def log_softmax(x, /, axis=-1):
    """The logarithm of softmax.

    Without overflow. Along the last axis unless another is named.

    >>> hop.log_softmax(hop.asarray([0.0, 0.0]))
    Array([-0.6931472, -0.6931472], dtype=float32)
    """
    return _call(_CODE["log_softmax"], (_array(x),), _axes_text(axis))


def quantile(x, q, /, axis=None, *, keepdims=False):
    """The number below which a part q (0 … 1) of the elements along an axis lies, between two elements by
    a straight line; of several q an axis in front. 0.5 gives the median. Between a number and an infinity
    it is the infinity, between both infinities NaN.

    >>> hop.quantile(hop.asarray([1.0, 2.0, 4.0, 8.0]), 0.5)
    Array(3., dtype=float32)
    >>> hop.quantile(hop.asarray([1.0, 2.0, 4.0]), hop.asarray([0.0, 1.0]))
    Array([1., 4.], dtype=float32)
    """
    x, q = _array(x), q if _dtypes.is_number(q) else _array(q)
    if x.dtype.kind != "f":
        x = astype(x, _dtypes.float32)
    shape, gone = (
        x.shape,
        [
            _along(x, a)
            for a in (range(x.ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,))
        ],
    )
    kept = [a for a in range(x.ndim) if a not in gone]
    if _shapes.lacks_elements([shape[a] for a in gone]):
        raise ValueError(f"{_core.call_place()}there are no elements along the axis in {x._type}")
    x = permute_dims(x, (*gone, *kept)) if kept else x
    x = sort(
        x.reshape((math.prod(shape[a] for a in gone), *[shape[a] for a in kept]) if kept else (-1,)), axis=0
    )
    last = x.shape[0] - 1
    at = asarray(q, dtype=_dtypes.float64) * last  # a position, which short floats cannot count to
    low = clip(floor(at), 0, last)
    part = astype(at - low, x.dtype).reshape((*at.shape, *(1,) * (x.ndim - 1)))
    below, above = (
        take(x, astype(low, _dtypes.int64), axis=0),
        take(x, astype(minimum(low + 1, last), _dtypes.int64), axis=0),
    )
    span = above - below
    # where the difference is infinite or NaN
    mixed = where(part == 0, below, below * (1 - part) + above * part)
    out = where(isfinite(span), below + part * span, mixed)
    out = where(isnan(x[-1]), nan, out)  # NaN is sorted to the end
    return (
        out.reshape((*at.shape, *(1 if i in gone else n for i, n in enumerate(shape)))) if keepdims else out
    )


def _first_running(op, dtype):
    """What a running value of nothing is."""
    if op in ("cumsum", "cumprod"):
        return int(op == "cumprod")
    if dtype.kind == "f":
        return inf if op == "cummin" else -inf
    return _dtypes.iinfo(dtype).max if op == "cummin" else _dtypes.iinfo(dtype).min


def _running(name, op, doc):
    code, chosen = _CODE[op], _CODE.get(op + "_as")

    def function(x, /, axis=None, dtype=None, *, include_initial=False, reverse=False):
        x, d = _folded(x, dtype) if chosen is not None else (_as(x, dtype), None)
        if axis is None and x.ndim > 1:
            raise ValueError(f"{_core.call_place()}which axis? An array with several axes needs axis=")
        axis = _along(x, 0 if axis is None else axis)
        reverse = _arguments.flag(here("reverse"), reverse)
        if d is None or d is x.dtype:
            out = _call(code, (x,), None, axis, reverse)
        else:
            out = _call(chosen, (x,), d.text, axis, reverse)
        if include_initial:
            shape = list(x.shape)
            shape[axis] = 1
            first = full(tuple(shape), _first_running(op, out.dtype), dtype=out.dtype)
            out = concat([out, first] if reverse else [first, out], axis=axis)
        return out

    return _named(function, name, doc)


cumulative_sum = _running("cumulative_sum", "cumsum", "Running sums along an axis.")

cumulative_prod = _running("cumulative_prod", "cumprod", "Running products along an axis.")

cumulative_max = _running("cumulative_max", "cummax", "Running maxima along an axis.")

cumulative_min = _running("cumulative_min", "cummin", "Running minima along an axis.")

cumulative_logsumexp = _running("cumulative_logsumexp", "logcumsumexp", "Running logsumexp along an axis.")


def linear_recurrence(a, b, /, axis=0, *, reverse=False):
    """s = a*s + b along an axis; the first s is the first b.

    Computed by an associative scan, its gradient too; several times quicker than a scan of one's own.

    >>> hop.linear_recurrence(hop.asarray([0.5, 0.5, 0.5]), hop.asarray([1.0, 1.0, 1.0]))
    Array([1.  , 1.5 , 1.75], dtype=float32)
    """
    return _call(
        _CODE["recurrence"], (_array(a), _array(b)), None, axis, _arguments.flag(here("reverse"), reverse)
    )


def diff(x, /, n=1, axis=-1, *, prepend=None, append=None):
    """Differences of neighbours along an axis, taken n times; prepend and append come before and behind x.

    >>> hop.diff(hop.asarray([1, 4, 9, 16]))
    Array([3, 5, 7], dtype=int64)
    >>> hop.diff(hop.asarray([1, 4, 9, 16]), n=2)
    Array([2, 2], dtype=int64)
    """
    x = _array(x)
    axis = _along(x, axis)
    n = _arguments.size("diff: n", n)
    parts = [p for p in (prepend, x, append) if p is not None]
    if len(parts) > 1 and n:
        x = concat(parts, axis=axis)
    most = x.shape[axis]  # then nothing is left
    for _ in range(n if isinstance(most, _shapes.Size) else builtins.min(n, most)):
        front, back = [slice(None)] * axis + [slice(1, None)], [slice(None)] * axis + [slice(None, -1)]
        x = x[tuple(front)] != x[tuple(back)] if x.dtype is _dtypes.bool else x[tuple(front)] - x[tuple(back)]
    return x


def sort(x, /, axis=-1, *, descending=False, stable=True):
    """Sorted along an axis; equals keep their order, NaN comes last.

    Gradients go where the elements came from.

    >>> hop.sort(hop.asarray([3, 1, 2]))
    Array([1, 2, 3], dtype=int64)
    >>> hop.sort(hop.asarray([3, 1, 2]), descending=True)
    Array([3, 2, 1], dtype=int64)
    """
    return _call(_CODE["sort"], (_array(x),), None, axis, _arguments.flag(here("descending"), descending))


def argsort(x, /, axis=-1, *, descending=False, stable=True):
    """Where the sorted elements stand.

    int64. Equals keep their order.

    >>> hop.argsort(hop.asarray([3, 1, 2]))
    Array([1, 2, 0], dtype=int64)
    """
    return _call(_CODE["argsort"], (_array(x),), None, axis, _arguments.flag(here("descending"), descending))


def top_k(x, /, k, axis=-1):
    """The k largest along an axis, largest first, and where they stand. Quicker than sorting for a small k;
    equals come in the order of their positions.

    >>> hop.top_k(hop.asarray([3.0, 9.0, 5.0]), 2)
    (Array([9., 5.], dtype=float32), Array([1, 2], dtype=int64))
    """
    k = _arguments.extent("top_k: k", k)
    return tuple(_call(_CODE["top_k"], (_array(x),), _shapes.text(k), axis))


def searchsorted(x1, x2, /, side="left", sorter=None):
    """Where x2 belongs in the sorted x1: before its equals, or behind them (side="right").

    >>> hop.searchsorted(hop.asarray([1, 3, 5]), hop.asarray([0, 3, 9]))
    Array([0, 1, 3], dtype=int64)
    >>> hop.searchsorted(hop.asarray([1, 3, 5]), 3, side="right")
    Array(2, dtype=int64)
    """
    if not isinstance(side, str) or side not in ("left", "right"):
        raise _arguments.wrong("searchsorted: side", "'left' or 'right'", side)
    x1 = _array(x1)
    if sorter is not None:
        x1 = take(x1, sorter, axis=0)
    x2 = _array(x2)
    d = result_type(x1, x2)
    return _call(
        _CODE["searchsorted"],
        (astype(x1, d, copy=False), astype(x2, d, copy=False)),
        None,
        int(side == "right"),
    )


def nonzero(x, /, *, size=None, fill_value=0):
    """Where x is not 0: an array of positions for each axis. In a captured program with size= there are
    exactly so many.

    Unlike in JAX no size is needed in jit: the program finds it. Under vmap it is.

    >>> hop.nonzero(hop.asarray([0, 3, 0, 4]))
    (Array([1, 3], dtype=int64),)
    >>> hop.nonzero(hop.asarray([0, 3, 0, 4]), size=3, fill_value=-1)
    (Array([ 1,  3, -1], dtype=int64),)
    """
    x = _truth(x)
    if x.ndim == 0:
        raise ValueError(f"{_core.call_place()}nonzero needs an axis at least")
    size = None if size is None else _shapes.text(_arguments.extent("nonzero: size", size))
    found = _call(_CODE["nonzero"], (x,), size, fill_value)
    return tuple(found) if isinstance(found, list) else (found,)


def allclose(x1, x2, /, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Whether isclose holds everywhere.

    A bool array without axes, not a Python bool.

    >>> hop.allclose(hop.asarray([1.0, 2.0]), hop.asarray([1.0, 2.000001]))
    Array(True, dtype=bool)
    """
    return all(isclose(x1, x2, rtol=rtol, atol=atol, equal_nan=equal_nan))


def interp(x, xp, fp, /):
    """The line through the points (xp, fp), xp ascending, at x; beyond the ends it goes on level.

    >>> hop.interp(hop.asarray([0.5, 1.5, 9.0]), hop.asarray([0.0, 1.0, 2.0]), hop.asarray([0.0, 10.0, 0.0]))
    Array([5., 5., 0.], dtype=float32)
    """
    x, xp, fp = [_array(v) for v in (x, xp, fp)]
    if xp.ndim != 1 or _shapes.shapes_differ(xp.shape, fp.shape) or _shapes.lacks_elements(xp.shape):
        raise ValueError(f"interp: expected two vectors of the same length, found {xp._type} and {fp._type}")
    i = clip(searchsorted(xp, x, side="right") - 1, 0, _shapes.largest(xp.size - 2, 0))
    j = minimum(i + 1, xp.size - 1)
    width = xp[j] - xp[i]
    part = clip((x - xp[i]) / where(width == 0, 1, width), 0, 1)
    return fp[i] + part * (fp[j] - fp[i])


__all__ = _public(globals())
