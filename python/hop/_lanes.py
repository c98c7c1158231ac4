"""Axes with names: what vmap(f, axis_name="i") binds while it captures f, and the operators across its lanes.
In the program they are the rows of src/ops/collective.c; a value's type says along which axes it varies."""

import operator
import threading

from . import _arguments, _core, _dtypes, tree
from ._arguments import here, place
from ._errors import InvalidError
from ._ops.common import _along, _axis
from ._ops.creation import _array

__all__ = [
    "all_gather", "all_reduce", "all_to_all", "axis_index", "axis_size", "pmax", "pmean", "pmin", "ppermute",
    "psum", "psum_scatter", "pvary", "rank_broadcast", "vary",
]  # fmt: skip

_APPLY = _core.codes["apply"]


class _Around(threading.local):
    axes = ()  # (name, size) of those that captures around bind, the innermost last


_around = _Around()


def any_bound():
    """Whether something is captured for the lanes of an axis with a name. What was captured for other values
    is not used again there: it may have counted as the same in all lanes what is not."""
    return bool(_around.axes)


class binding:
    """A context in which an axis is bound. size: how many lanes it has."""

    def __init__(self, name, size):
        self.name, self.size = name, size

    def __enter__(self):
        if any(name == self.name for name, _ in _around.axes):
            raise InvalidError(
                f"{place()}vmap: the axis {self.name!r} is bound around it already: an axis inside of itself "
                "has another name"
            )
        self.before, _around.axes = _around.axes, (*_around.axes, (self.name, self.size))

    def __exit__(self, *error):
        _around.axes = self.before


def checked_name(what, name):
    """The name of an axis."""
    if not isinstance(name, str) or not name or '"' in name or "\\" in name or not name.isprintable():
        raise _arguments.wrong(what, "a text without quotes and backslashes, the name of an axis", name)
    return name


def _names(axis_name):
    return tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)


def _size(axis_name):
    name = checked_name(here("axis_name"), axis_name)
    for bound, size in reversed(_around.axes):
        if bound == name:
            return size
    known = ", ".join(repr(bound) for bound, _ in _around.axes)
    raise InvalidError(
        f"{place()}{here('axis_name')}: the axis {name!r} is not bound: hop.vmap(f, axis_name={name!r}) "
        f"binds it in f; {f'bound here: {known}' if known else 'none is bound here'}"
    )


def _number(axis_name):
    """The size of an axis as a number."""
    return operator.index(_size(axis_name))


def _apply(row, attributes, *operands):
    return _core.call(_APPLY, operands, f"{row} {{{attributes}}}")


def _each(x, make):
    return tree.map(lambda leaf: make(_array(leaf)), x)


def _whole(groups):
    if groups is not None:
        what = f"{place()}{here('axis_index_groups')}"
        raise InvalidError(f"{what}: groups of lanes are not there: leave it out")


def _reduced(x, axis_name, op, sized=False):
    if op in ("sum", "prod"):  # of a number each lane has its own
        x = tree.map(lambda leaf: vary(leaf, axis_name) if _dtypes.is_number(leaf) else leaf, x)
    for name in _names(axis_name):
        size = f"size = {_number(name)}, " if sized else ""
        _size(name)
        x = _each(x, lambda leaf, n=name, s=size: _apply("all_reduce", f'axis = "{n}", {s}op = {op}', leaf))
    return x


# ---- reductions ----


def all_reduce(x, axis_name, op="sum"):
    """The reduction of x, an array or a tree of arrays, over the lanes of the axis, the same in all of them.
    op: "sum", "max", "min", "prod", "mean". axis_name: that of vmap, or several.

    >>> hop.vmap(lambda x: hop.all_reduce(x, "i", "prod"), axis_name="i")(hop.asarray([2.0, 3.0, 4.0]))
    Array([24., 24., 24.], dtype=float32)
    """
    if op not in ("sum", "max", "min", "prod", "mean"):
        raise _arguments.wrong(here("op"), '"sum", "max", "min", "prod" or "mean"', op)
    return _reduced(x, axis_name, op, op == "prod")


def psum(x, axis_name, *, axis_index_groups=None):
    """The sum of x over the lanes of the axis, the same in all of them. Its derivative is 1 for each lane.

    >>> hop.vmap(lambda x: x / hop.psum(x, "i"), axis_name="i")(hop.asarray([1.0, 3.0, 4.0]))
    Array([0.125, 0.375, 0.5  ], dtype=float32)
    """
    _whole(axis_index_groups)
    return _reduced(x, axis_name, "sum")


def pmean(x, axis_name, *, axis_index_groups=None):
    """The mean of x over the lanes of the axis, the same in all of them.

    >>> hop.vmap(lambda x: x - hop.pmean(x, "i"), axis_name="i")(hop.asarray([1.0, 3.0, 5.0]))
    Array([-2.,  0.,  2.], dtype=float32)
    """
    _whole(axis_index_groups)
    return _reduced(x, axis_name, "mean")


def pmax(x, axis_name, *, axis_index_groups=None):
    """The largest x over the lanes of the axis, the same in all of them; equals share the derivative.

    >>> hop.vmap(lambda x: hop.pmax(x, "i"), axis_name="i")(hop.asarray([1, 3, 2]))
    Array([3, 3, 3], dtype=int64)
    """
    _whole(axis_index_groups)
    return _reduced(x, axis_name, "max")


def pmin(x, axis_name, *, axis_index_groups=None):
    """The smallest x over the lanes of the axis, the same in all of them; equals share the derivative.

    >>> hop.vmap(lambda x: hop.pmin(x, "i"), axis_name="i")(hop.asarray([4, 3, 5]))
    Array([3, 3, 3], dtype=int64)
    """
    _whole(axis_index_groups)
    return _reduced(x, axis_name, "min")


# ---- parts of all lanes ----


def all_gather(x, axis_name, *, axis_index_groups=None, axis=0, tiled=False):
    """The x of all lanes along a new axis, or with tiled one behind the other along an axis that is there;
    the same in all lanes.

    >>> hop.vmap(lambda x: hop.all_gather(x, "i"), axis_name="i")(hop.asarray([1, 2]))
    Array([[1, 2],
           [1, 2]], dtype=int64)
    """
    _whole(axis_index_groups)
    tiled, size, axis = _arguments.flag(here("tiled"), tiled), _number(axis_name), _axis(axis)

    def gathered(leaf):
        n = leaf.ndim if tiled else leaf.ndim + 1
        if not -n <= axis < n:
            raise _arguments.wrong(here("axis"), f"an axis of the result, below {n}", axis)
        more = ", tiled" if tiled else ""
        return _apply("all_gather", f'axis = "{axis_name}", size = {size}, dim = {axis % n}{more}', leaf)

    return _each(x, gathered)


def psum_scatter(x, axis_name, *, scatter_dimension=0, axis_index_groups=None, tiled=False):
    """The sum of x over the lanes, of which each lane gets a part: its element along an axis as long as there
    are lanes, which goes away, or with tiled its share of the axis.

    >>> x = hop.asarray([[1, 2], [10, 20]])
    >>> hop.vmap(lambda x: hop.psum_scatter(x, "i"), axis_name="i")(x)
    Array([11, 22], dtype=int64)
    """
    _whole(axis_index_groups)
    tiled, size = _arguments.flag(here("tiled"), tiled), _number(axis_name)
    more = ", tiled" if tiled else ""

    def scattered(leaf):
        d = _along(leaf, scatter_dimension, "scatter_dimension")
        return _apply("reduce_scatter", f'axis = "{axis_name}", size = {size}, dim = {d}{more}', leaf)

    return _each(x, scattered)


def all_to_all(x, axis_name, split_axis, concat_axis, *, axis_index_groups=None, tiled=False):
    """Lane k gets the k-th part along split_axis of every lane. The axis is as long as there are lanes, goes
    away, and what comes stands along a new one at concat_axis; with tiled parts are shares of split_axis, put
    one behind the other along concat_axis.

    >>> x = hop.asarray([[1, 2], [3, 4]])
    >>> hop.vmap(lambda x: hop.all_to_all(x, "i", 0, 0), axis_name="i")(x)
    Array([[1, 3],
           [2, 4]], dtype=int64)
    """
    _whole(axis_index_groups)
    tiled, size = _arguments.flag(here("tiled"), tiled), _number(axis_name)
    more = ", tiled" if tiled else ""

    def sent(leaf):
        split, concat = _along(leaf, split_axis, "split_axis"), _along(leaf, concat_axis, "concat_axis")
        attributes = f'axis = "{axis_name}", size = {size}, split = {split}, concat = {concat}{more}'
        return _apply("all_to_all", attributes, leaf)

    return _each(x, sent)


def ppermute(x, axis_name, perm):
    """Lane t gets the x of lane s for each pair (s, t) of perm; a lane that nobody sends to gets zeros. No
    lane sends twice, or receives twice.

    >>> x = hop.asarray([1, 2, 3])
    >>> hop.vmap(lambda x: hop.ppermute(x, "i", [(0, 1), (1, 2)]), axis_name="i")(x)
    Array([0, 1, 2], dtype=int64)
    """
    size, pairs = _number(axis_name), []
    for pair in perm:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise _arguments.wrong(here("perm"), "pairs of lanes (from, to)", pair)
        pairs += [_arguments.integer(here("perm"), lane) for lane in pair]
    attributes = f'axis = "{axis_name}", size = {size}, pairs = [{", ".join(map(str, pairs))}]'
    return _each(x, lambda leaf: _apply("rank_permute", attributes, leaf))


def rank_broadcast(x, axis_name, root=0):
    """The x of the lane of number root, in all lanes.

    >>> hop.vmap(lambda x: hop.rank_broadcast(x, "i", 1), axis_name="i")(hop.asarray([5, 6, 7]))
    Array([6, 6, 6], dtype=int64)
    """
    size, root = _number(axis_name), _arguments.integer(here("root"), root)
    attributes = f'axis = "{axis_name}", size = {size}, root = {root}'
    return _each(x, lambda leaf: _apply("rank_broadcast", attributes, leaf))


# ---- lanes ----


def axis_index(axis_name):
    """The number of the lane along the axis, from 0 on.

    >>> hop.vmap(lambda x: x * hop.axis_index("i"), axis_name="i")(hop.asarray([1.0, 2.0, 3.0]))
    Array([0., 2., 6.], dtype=float32)
    """
    _size(axis_name)
    return _apply("rank_index", f'axis = "{axis_name}"')


def axis_size(axis_name):
    """How many lanes the axis has, a number; of several axes the product.

    >>> hop.vmap(lambda x: x / hop.axis_size("i"), axis_name="i")(hop.asarray([1.0, 2.0]))
    Array([0.5, 1. ], dtype=float32)
    """
    size = 1
    for name in _names(axis_name):
        size = size * _size(name)
    return size


def vary(x, axis_name):
    """x, counted as one that may differ from lane to lane of the axis. Values do not change; the derivative
    of x is the sum over the lanes, that of the result each lane's own. Where an x that is the same in all
    lanes meets one that is not, this happens by itself.

    >>> x, w = hop.asarray([1.0, 3.0]), hop.asarray(2.0)
    >>> hop.vmap(lambda x: hop.grad(lambda w: x * w)(w), axis_name="i")(x)
    Array([4., 4.], dtype=float32)
    >>> hop.vmap(lambda x: hop.grad(lambda w: x * w)(hop.vary(w, "i")), axis_name="i")(x)
    Array([1., 3.], dtype=float32)
    """
    for name in _names(axis_name):
        _size(name)
        x = _each(x, lambda leaf, n=name: _apply("vary", f'axis = "{n}"', leaf))
    return x


pvary = vary
