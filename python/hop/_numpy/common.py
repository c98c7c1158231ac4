"""What the families share: arrays as vectors, axes, positions and integers as they take them."""

from .. import _arguments, _dtypes
from .._arguments import here
from .._ops import astype, reshape
from .._ops.common import _along
from .._ops.creation import _array


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


def _integers(name, *xs):
    xs = [_array(x) for x in xs]
    for x in xs:
        if x.dtype.kind not in "iu":
            raise _arguments.wrong(name, "integers", x)
    d = _dtypes.result_type(*xs)
    return [astype(x, d, copy=False) for x in xs]
