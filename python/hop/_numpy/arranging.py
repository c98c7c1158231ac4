"""The same elements in other shapes: axes turned and added, arrays put together and cut, slices put in and
left out."""

import builtins

from .. import _arguments, _core, _dtypes, _shapes
from .._arguments import here
from .._dtypes import int64
from .._errors import InvalidError
from .._ops import (
    asarray, astype, broadcast_to, concat, expand_dims, flip, moveaxis, permute_dims, reshape, split,
    swapaxes, take,
)  # fmt: skip
from .._ops.common import _along, _public
from .._ops.creation import _array
from .common import _known, _vector


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


def _line(name, x):
    x = atleast_1d(x)
    if x.ndim != 1 or _shapes.lacks_elements(x.shape):
        raise _arguments.wrong(here(name), "a vector that is not empty", x)
    return x


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


__all__ = _public(globals())
