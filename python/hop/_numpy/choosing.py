"""Comparisons, sets, and what is chosen by conditions."""

import builtins

from .. import _arguments, _core, _dtypes, _shapes
from .._arguments import here
from .._ops import (
    all, asarray, astype, broadcast_shapes, broadcast_to, concat, full, isnan, logical_not, moveaxis,
    nonzero, pad, searchsorted, sort, stack, take, where, zeros_like,
)  # fmt: skip
from .._ops.common import _along, _public
from .._ops.creation import _array
from .._sets import unique_all, unique_values
from .arranging import _line
from .common import _vector


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
    from .._transforms import vmap

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


__all__ = _public(globals())
