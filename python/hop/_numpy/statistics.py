"""Order and statistics, with and without NaN."""

import builtins
import math

from .. import _arguments, _core, _dtypes, _ops, _shapes
from .._arguments import here
from .._dtypes import float64, int64
from .._errors import InvalidError
from .._ops import (
    any, arange, argsort, asarray, astype, broadcast_to, clip, concat, cumulative_prod, cumulative_sum,
    diagonal, diff, expand_dims, flip, floor, full, inf, isnan, logical_not, matmul, max, maximum, mean,
    min, minimum, moveaxis, nan, permute_dims, prod, quantile, reshape, searchsorted, sort, sqrt, sum,
    swapaxes, take_along_axis, where, zeros,
)  # fmt: skip
from .._ops.common import _along, _public
from .._ops.creation import _array
from .._ops.elementwise import _as_real
from .arranging import _line, _matrix, _several
from .common import _axes, _integers, _known, _vector


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


__all__ = _public(globals())
