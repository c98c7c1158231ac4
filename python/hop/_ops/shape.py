"""Operators on shapes: the same elements in another arrangement, repeated, or put together."""

import builtins
import math

from .. import _arguments, _core, _dtypes, _shapes
from .._arguments import here
from .._errors import InvalidError
from .common import _CODE, _along, _axes_text, _axis, _call, _dims, _public, _text
from .creation import _array, arange, asarray, astype
from .elementwise import clip, maximum, minimum
from .parts import take


def reshape(x, /, shape, *, copy=None):
    """The same elements, in the same order, in another shape; one size may be -1.

    >>> hop.reshape(hop.arange(6), (2, -1))
    Array([[0, 1, 2],
           [3, 4, 5]], dtype=int64)
    """
    x, dims = _array(x), _dims(shape)
    if not x._at_once or _shapes.is_symbolic(*dims):
        return _call(_CODE["reshape"], (x,), _text(dims))
    if dims.count(-1) == 1:
        known = math.prod(n for n in dims if n != -1)
        if known == 0 or x.size % known:
            raise ValueError(f"{x.size} elements cannot be arranged as {dims}")
        dims = tuple(x.size // known if n == -1 else n for n in dims)
    made = x._reshaped(dims)
    if copy is False and x.size and made._pointer != x._pointer:
        raise ValueError(
            "the elements are not in memory in this order, so they must be copied (copy=False was asked for)"
        )
    return made._copy() if copy else made


def permute_dims(x, /, axes):
    """The axes in another order: axis i of the result is axis axes[i] of x.

    NumPy's and JAX's transpose with axes.

    >>> hop.permute_dims(hop.zeros((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    axes = axes if isinstance(axes, (tuple, list)) else (axes,)
    return _call(_CODE["permute"], (_array(x),), _text([_axis(a) for a in axes]))


def matrix_transpose(x, /):
    """The last two axes exchanged.

    x.mT is the same.

    >>> hop.matrix_transpose(hop.asarray([[1, 2], [3, 4]]))
    Array([[1, 3],
           [2, 4]], dtype=int64)
    """
    x = _array(x)
    if x.ndim < 2:
        raise ValueError(f"a matrix has two axes at least, this array has {x.ndim}")
    return _call(_CODE["transpose"], (x,))


def moveaxis(x, source, destination, /):
    """Axes moved to other places; the others keep their order. source and destination are numbers, or
    lists of them of one length.

    >>> hop.moveaxis(hop.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    x = _array(x)
    source, destination = [v if isinstance(v, (tuple, list)) else (v,) for v in (source, destination)]
    if len(source) != len(destination):
        raise InvalidError(
            f"{_core.call_place()}expected as many places as axes, "
            f"found {source!r:.60} and {destination!r:.60}"
        )
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
    """Two axes exchanged. Negative numbers count from the end.

    >>> hop.swapaxes(hop.zeros((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    return _call(_CODE["swap_axes"], (_array(x),), None, axis1, axis2)


def expand_dims(x, /, axis=0):
    """A new axis of size 1; of several axes each is a place in the result.

    >>> hop.expand_dims(hop.zeros((2, 3)), axis=1).shape
    (2, 1, 3)
    """
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
    """Without axes of size 1. All of them when no axis is named; an axis of another size that is named is an
    error.

    >>> hop.squeeze(hop.zeros((1, 3, 1)), axis=0).shape
    (3, 1)
    >>> hop.squeeze(hop.zeros((1, 3, 1))).shape
    (3,)
    """
    return _call(_CODE["squeeze"], (_array(x),), None if axis is None else _axes_text(axis))


def broadcast_to(x, /, shape):
    """Repeated along axes to this shape, as NumPy does.

    The gradient is summed along the axes that were repeated.

    >>> hop.broadcast_to(hop.asarray([1, 2]), (2, 2))
    Array([[1, 2],
           [1, 2]], dtype=int64)
    """
    return _call(_CODE["broadcast"], (_array(x),), _text(_dims(shape)))


def broadcast_shapes(*shapes):
    """The shape that operators on arrays of these shapes have. Shapes are aligned at their ends; sizes
    must be equal or 1. What does not fit is an error.

    >>> hop.broadcast_shapes((3, 1), (4,))
    (3, 4)
    """
    out = []
    shapes = [_dims(s) for s in shapes]
    for i in range(builtins.max(map(len, shapes), default=0)):
        size = 1
        for n in [s[-1 - i] for s in shapes if i < len(s)]:
            if _shapes.equal(size, 1):
                size = n
            elif not _shapes.equal(n, 1) and _shapes.differ(n, size):
                raise ValueError(f"shapes {', '.join(map(str, shapes))} do not go together")
            elif isinstance(n, int) and n != 1:  # what only a run knows must be this
                size = n
        out.append(size)
    return tuple(reversed(out))


def broadcast_arrays(*arrays):
    """All brought to their common shape. A list; dtypes stay as they are.

    >>> [x.shape for x in hop.broadcast_arrays(hop.zeros((3, 1)), hop.zeros(4))]
    [(3, 4), (3, 4)]
    """
    arrays = [_array(a) for a in arrays]
    shape = broadcast_shapes(*[a.shape for a in arrays])
    return [broadcast_to(a, shape) for a in arrays]


def concat(arrays, /, axis=0):
    """One behind the other along an axis.

    axis=None joins the elements without axes. Dtypes are promoted together.

    >>> hop.concat([hop.asarray([1, 2]), hop.asarray([3])])
    Array([1, 2, 3], dtype=int64)
    """
    arrays = [_array(a) for a in arrays]
    if axis is None:
        arrays, axis = [a.reshape((-1,)) for a in arrays], 0
    return _call(_CODE["concat"], tuple(arrays), None, axis)


def stack(arrays, /, axis=0):
    """Side by side along a new axis. Arrays of one shape; the new axis is at the place `axis` of the result.
    hop.concat joins along an axis that is there.

    >>> hop.stack([hop.asarray([1, 2]), hop.asarray([3, 4])], axis=1)
    Array([[1, 3],
           [2, 4]], dtype=int64)
    """
    return _call(_CODE["stack"], tuple([_array(a) for a in arrays]), None, axis)


def unstack(x, /, axis=0):
    """The slices along an axis, as a tuple. As many as the axis is long; the axis is gone from each. for row
    in x does the same for the first axis.

    >>> hop.unstack(hop.asarray([[1, 2], [3, 4]]))
    (Array([1, 2], dtype=int64), Array([3, 4], dtype=int64))
    """
    x = _array(x)
    axis = _along(x, axis)
    return tuple(x[(slice(None),) * axis + (i,)] for i in range(x.shape[axis]))


def split(x, parts, /, axis=0):
    """Parts along an axis: so many equal ones, or at these positions. Equal parts must divide the axis;
    positions are where a part begins. A list, as in NumPy.

    >>> hop.split(hop.arange(6), 3)
    [Array([0, 1], dtype=int64), Array([2, 3], dtype=int64), Array([4, 5], dtype=int64)]
    >>> hop.split(hop.arange(6), [1, 3])
    [Array([0], dtype=int64), Array([1, 2], dtype=int64), Array([3, 4, 5], dtype=int64)]
    """
    x = _array(x)
    if isinstance(parts, _shapes.WHOLE):
        parts = _arguments.integer(here("parts"), parts, 1, (1 << 31) - 1, "a number of parts, or positions")
        out = _call(_CODE["split"], (x,), None, axis, parts)
    else:
        axis = _along(x, axis)
        if not isinstance(parts, (tuple, list)):
            raise _arguments.wrong(here("parts"), "a number of parts, or positions", parts)
        inner = [
            p if isinstance(p, _shapes.Size) else _arguments.integer(here("parts"), p) for p in parts
        ]
        edges = [0, *inner, x.shape[axis]]
        sizes = [b - a for a, b in zip(edges, edges[1:])]
        out = _call(_CODE["split"], (x,), _text(sizes), axis, len(sizes))
    return out if isinstance(out, list) else [out]


def flip(x, /, axis=None):
    """The order along axes reversed. All axes when none is named.

    >>> hop.flip(hop.asarray([[1, 2], [3, 4]]), axis=1)
    Array([[2, 1],
           [4, 3]], dtype=int64)
    """
    x = _array(x)
    if x.ndim == 0:
        return +x
    return _call(_CODE["reverse"], (x,), _axes_text(axis) if axis is not None else _text(range(x.ndim)))


def roll(x, /, shift, axis=None):
    """Moved along an axis, from its end to its beginning. Without an axis, of the elements in a row. The
    shift may be traced, and negative.

    >>> hop.roll(hop.asarray([1, 2, 3, 4]), 1)
    Array([4, 1, 2, 3], dtype=int64)
    """
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
    if type(shift) is int and type(axis) is int and -x.ndim <= axis < x.ndim:
        n = x.shape[axis]
        if shift and _shapes.is_symbolic(n) and _shapes.holds(n, ">", abs(shift)):  # two parts, none empty
            cut, front = (n - shift if shift > 0 else -shift), (slice(None),) * (axis % x.ndim)
            return concat([x[(*front, slice(cut, None))], x[(*front, slice(None, cut))]], axis=axis)
    return _call(_CODE["roll"], (x, shift), None, axis)


def tile(x, repetitions, /):
    """The whole array so many times along each axis. A number is for the last axis; more numbers than axes
    make new axes in front.

    >>> hop.tile(hop.asarray([1, 2]), (2, 2))
    Array([[1, 2, 1, 2],
           [1, 2, 1, 2]], dtype=int64)
    """
    x, reps = _array(x), _dims(repetitions)
    if len(reps) < x.ndim:
        reps = (1,) * (x.ndim - len(reps)) + reps
    if len(reps) > x.ndim:
        x = x.reshape((1,) * (len(reps) - x.ndim) + x.shape)
    return _call(_CODE["tile"], (x,), _text(reps))


def repeat(x, repeats, /, axis=None):
    """Each element so many times along an axis. Without an axis, of the elements in a row. The numbers may be
    an array, also a traced one; its sum is then the size of the result.

    >>> hop.repeat(hop.asarray([1, 2]), 2)
    Array([1, 1, 2, 2], dtype=int64)
    >>> hop.repeat(hop.asarray([1, 2]), hop.asarray([0, 3]))
    Array([2, 2, 2], dtype=int64)
    """
    x = _array(x)
    if axis is None:
        x, axis = x.reshape((-1,)), 0
    axis = _along(x, axis)
    if _shapes.is_traced_integer(repeats):
        repeats = _shapes.bound(repeats)
    if isinstance(repeats, _shapes.WHOLE):
        wide = expand_dims(x, axis=axis + 1)
        wide = broadcast_to(wide, (*x.shape[: axis + 1], repeats, *x.shape[axis + 1 :]))
        return wide.reshape((*x.shape[:axis], x.shape[axis] * repeats, *x.shape[axis + 1 :]))
    counts = _array(repeats)
    if counts.ndim > 1:
        raise _arguments.wrong(here("repeats"), "a number, or a number for each element", counts)
    if counts._traced:
        return _repeat_in_program(x, counts, axis)
    counts = counts.tolist()
    counts = [counts] if isinstance(counts, int) else counts
    counts = counts * x.shape[axis] if len(counts) == 1 else counts
    if len(counts) != x.shape[axis]:
        raise InvalidError(f"repeat: {len(counts)} counts for {x.shape[axis]} elements along axis {axis}")
    if builtins.any(n < 0 for n in counts):
        raise InvalidError(f"repeat: expected counts of at least 0, found {builtins.min(counts)}")
    positions = [i for i, n in enumerate(counts) for _ in range(n)]
    return take(x, asarray(positions, dtype=_dtypes.int64), axis=axis)


def _repeat_in_program(x, counts, axis):
    """By counts that only a run knows: the element that comes at a place is the first whose counts, summed
    up, go beyond it. Counts below 0 are none."""
    from .axes import cumulative_sum, searchsorted, sum

    counts = broadcast_to(maximum(astype(counts, _dtypes.int64), 0), (x.shape[axis],))
    ends = cumulative_sum(counts)
    places = arange(sum(counts))
    return take(x, searchsorted(ends, places, side="right"), axis=axis)


def _pairs(what, given, rank, read):
    """(before, after) for each axis: of one value, of (before, after), of a pair for each axis, or of a
    dict of them."""
    expected = f"a value, (before, after), or one such pair for each of {rank} axes"
    if isinstance(given, dict):
        rows = {a % rank if -rank <= a < rank else a: _pairs(what, v, 1, read)[0] for a, v in given.items()}
        if not set(rows) <= set(range(rank)):
            raise _arguments.wrong(here(what), f"axes of an array that has {rank}", given)
        return [rows.get(a) for a in range(rank)]
    if hasattr(given, "tolist") and getattr(given, "ndim", 0):
        given = given.tolist() if not getattr(given, "_traced", False) else list(given)
    if not isinstance(given, (tuple, list)):
        return [(read(given),) * 2] * rank
    nested = [isinstance(v, (tuple, list)) for v in given]
    rows = list(given) if builtins.all(nested) and nested else [given]
    if (
        builtins.any(nested) != builtins.all(nested)
        or builtins.any(len(row) not in (1, 2) for row in rows)
        or len(rows) not in (1, rank)
    ):
        raise _arguments.wrong(here(what), expected, given)
    made = [tuple(read(v) for v in row) * (3 - len(row)) for row in rows]
    return made * rank if len(made) == 1 else made


# Where elements at positions p, beside an axis of n elements too (negative: in front of it), come from.
_BESIDE = {
    "edge": lambda p, n: clip(p, 0, n - 1),
    "wrap": lambda p, n: p % n,
    "symmetric": lambda p, n: minimum(p % (2 * n), 2 * n - 1 - p % (2 * n)),
    "reflect": lambda p, n: minimum(p % _there_and_back(n), _there_and_back(n) - p % _there_and_back(n)),
}


def _there_and_back(n):
    """After how many steps a way over n elements and back, without a rest at the ends, begins again."""
    return _shapes.largest(2 * n - 2, 1)


def pad(x, pad_width, /, mode="constant", *, constant_values=0):
    """More elements in front of and behind each axis: pad_width is one number, (before, after), or one
    pair per axis.

    mode says which: "constant" (constant_values, given like the widths), "edge" (the outermost element),
    "reflect" (the elements backwards from the outermost, which is not repeated), "symmetric" (it is
    repeated), "wrap" (the elements of the other end). Widths may be larger than the array: the pattern
    goes on.

    >>> hop.pad(hop.asarray([1, 2]), (1, 2))
    Array([0, 1, 2, 0, 0], dtype=int64)
    >>> hop.pad(hop.asarray([1, 2, 3]), 1, mode="reflect")
    Array([2, 1, 2, 3, 2], dtype=int64)
    """
    x = _array(x)
    if not isinstance(mode, str) or mode not in ("constant", *_BESIDE):
        raise _arguments.wrong(here("mode"), f"one of constant, {', '.join(_BESIDE)}", mode)
    widths = [
        w or (0, 0)
        for w in _pairs(
            "pad_width",
            pad_width,
            x.ndim,
            lambda n: (
                _shapes.bound(n)
                if _shapes.is_traced_integer(n)
                else n
                if isinstance(n, _shapes.Size)
                else _arguments.integer(here("pad_width"), n, -(1 << 62), 1 << 62)
            ),
        )
    ]
    if mode == "constant":
        return _pad_constant(x, widths, constant_values)
    for axis, (before, after) in enumerate(widths):
        if _shapes.holds(before, "<", 0) or _shapes.holds(after, "<", 0):
            raise InvalidError(
                f"{_core.call_place()}expected widths of at least 0, found {(before, after)} for axis {axis}"
            )
        n = x.shape[axis]
        if _shapes.equal(before + after, 0):
            continue
        if _shapes.lacks_elements((n,)):
            raise InvalidError(
                f"{_core.call_place()}axis {axis} of {x._type} has no elements to go on with (mode={mode!r})"
            )
        x = take(x, _BESIDE[mode](arange(-before, n + after), n), axis=axis)
    return x


def _pad_constant(x, widths, values):
    alike = not isinstance(values, (tuple, list, dict)) and not getattr(values, "ndim", 0)
    if alike:
        return _call(_CODE["pad"], (x, values), ", ".join([_width(*w) for w in widths]))
    for axis, ((before, after), pair) in enumerate(
        zip(widths, _pairs("constant_values", values, x.ndim, lambda v: v))
    ):
        for sizes, value in zip(((before, 0), (0, after)), pair or (0, 0)):
            if not _shapes.equal(sizes[0] + sizes[1], 0):
                x = _call(
                    _CODE["pad"],
                    (x, value),
                    ", ".join([_width(*(sizes if i == axis else (0, 0))) for i in range(x.ndim)]),
                )
    return x


def _width(before, after):
    return f"{_shapes.text(before)}:{_shapes.text(after)}"


def meshgrid(*arrays, indexing="xy"):
    """Coordinate arrays over the grid of these vectors. indexing="xy", the default, exchanges the first two
    axes, as in NumPy; "ij" does not.

    >>> hop.meshgrid(hop.asarray([1, 2]), hop.asarray([3, 4, 5]))[0].shape
    (3, 2)
    >>> hop.meshgrid(hop.asarray([1, 2]), hop.asarray([3, 4, 5]), indexing="ij")[0].shape
    (2, 3)
    """
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


__all__ = _public(globals())
