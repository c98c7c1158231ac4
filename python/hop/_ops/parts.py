"""Operators that read and replace parts of arrays, at positions that may be traced. x[…] and x.at[…] are
in _index."""

import builtins

from .. import _arguments, _core, _dtypes, _shapes
from .._arguments import here
from .._dtypes import as_dtype
from .._index import wrapped
from .common import _CODE, _along, _call, _dims, _public, _text
from .creation import _array, asarray


def take(x, indices, /, axis=None):
    """Slices of x at the indices along an axis. Indices beyond the ends are brought into range; negative
    ones count from the end.

    >>> hop.take(hop.asarray([10, 20, 30]), hop.asarray([2, 0]))
    Array([30, 10], dtype=int64)
    >>> hop.take(hop.asarray([[1, 2], [3, 4]]), 1, axis=1)
    Array([2, 4], dtype=int64)
    """
    x, indices = _array(x), _array(indices)
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"{_core.call_place()}which axis? An array with several axes needs axis=")
        axis = 0
    axis = _along(x, axis)
    return _call(_CODE["take"], (x, wrapped(indices, x.shape[axis])), None, axis)


def take_along_axis(x, indices, /, axis=-1):
    """For every place an element of x at a position along the axis. x and indices have the same number of
    axes and broadcast but for the axis. The inverse of hop.argsort and hop.argmax.

    >>> x = hop.asarray([[3, 1], [2, 9]])
    >>> hop.take_along_axis(x, hop.argsort(x, axis=1), axis=1)
    Array([[1, 3],
           [2, 9]], dtype=int64)
    """
    x, indices = _array(x), _array(indices)
    axis = _along(x, axis)
    return _call(_CODE["take_along"], (x, wrapped(indices, x.shape[axis])), None, axis)


def _starts(x, positions):
    """Negative positions counted from the end."""
    out = []
    if not isinstance(positions, (tuple, list)) and getattr(positions, "ndim", 0) != 1:
        raise _arguments.wrong(here("start_indices"), "a position for each axis", positions)
    for axis, i in enumerate(positions):
        whole = isinstance(i, _shapes.Size) or (
            isinstance(i, int) and not isinstance(i, builtins.bool) and builtins.abs(i) < 1 << 62
        )
        if not whole and (
            isinstance(i, (builtins.bool, int, float)) or asarray(i).ndim or asarray(i).dtype.kind not in "iu"
        ):
            raise _arguments.wrong(here(f"start_indices[{axis}]"), "an integer", i)
        if axis < x.ndim:
            n = x.shape[axis]
            negative = _shapes.holds(i, "<", 0) if whole else None
            i = wrapped(_array(i), n) if negative is None else i + n if negative else i
        out.append(i)
    return out


def dynamic_slice(x, start_indices, slice_sizes, /):
    """A part of known sizes at positions that may be traced, moved so that it fits. Negative positions
    count from the end.

    >>> hop.dynamic_slice(hop.arange(6), (4,), (3,))
    Array([3, 4, 5], dtype=int64)
    """
    x = _array(x)
    return _call(_CODE["dynamic_slice"], (x, *_starts(x, start_indices)), _text(_dims(slice_sizes)))


def dynamic_update_slice(x, update, start_indices, /):
    """x with a part replaced, at positions that may be traced, moved so that it fits. Negative positions
    count from the end.

    In a loop whose carry it is, the array is updated in its own memory.

    >>> hop.dynamic_update_slice(hop.zeros(4), hop.ones(2), (1,))
    Array([0., 1., 1., 0.], dtype=float32)
    """
    x = _array(x)
    return _call(_CODE["dynamic_update"], (x, _array(update), *_starts(x, start_indices)))


def one_hot(x, num_classes, /, *, dtype=None, axis=-1):
    """1 at the index, 0 elsewhere, along a new axis, the last one by default.

    float32 when no dtype is given; indices out of range give zeros.

    >>> hop.one_hot(hop.asarray([0, 2]), 3)
    Array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    d = _dtypes.float32 if dtype is None else as_dtype(dtype)
    n = _arguments.extent("one_hot: num_classes", num_classes)
    out = _call(_CODE["one_hot"], (_array(x),), _shapes.text(n), 0, 0, d.text)
    place = _along(out, axis)
    return out if place == out.ndim - 1 else _call(_CODE["move_axis"], (out,), None, out.ndim - 1, place)


__all__ = _public(globals())
