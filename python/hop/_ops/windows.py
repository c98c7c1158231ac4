"""Windows over arrays: reduce_window and the pools; what lies between elements: resize, grid_sample,
map_coordinates."""

import math

from .. import _arguments, _core, _shapes
from .._arguments import here
from .._errors import InvalidError
from . import elementwise as _elementwise
from .common import _CODE, _along, _call, _public
from .creation import _array

_LARGEST = (1 << 31) - 1
# By the names of functions of the package: the elementwise ones, which JAX takes, and the reductions.
_REDUCTIONS = {
    "add": "sum", "sum": "sum", "multiply": "prod", "prod": "prod", "maximum": "max", "max": "max",
    "minimum": "min", "min": "min",
}  # fmt: skip
_IDENTITY = {"sum": 0, "prod": 1, "max": -math.inf, "min": math.inf}
_COMBINE = {
    "sum": _elementwise.add, "prod": _elementwise.multiply, "max": _elementwise.maximum,
    "min": _elementwise.minimum,
}  # fmt: skip


def _entries(argument, given, n, least, otherwise=None):
    """One integer for all, or one for each of n axes."""
    if given is None:
        return otherwise
    several = isinstance(given, (tuple, list))
    if several and len(given) != n:
        raise _arguments.wrong(
            here(argument), f"an integer, or one for each of {n} axes", f"{len(given)} of them"
        )
    entries = given if several else [given] * n
    return [_arguments.integer(here(argument), e, least, _LARGEST, f"at least {least}") for e in entries]


def _same(argument, n, span, stride):
    """Padding for ceil(n / stride) windows, the odd element behind."""
    if isinstance(n, _shapes.Size):
        if stride > 1:
            raise InvalidError(
                f'{_core.call_place()}{argument}="SAME" with a stride of {stride} needs a size that is a '
                f"number, found {n}: give (before, after)"
            )
        total = span - 1
    else:
        total = max((-(-n // stride) - 1) * stride + span - n, 0)
    return total // 2, total - total // 2


def _padding(given, sizes, window, strides, dilation):
    """(before, after) for every axis."""
    n = len(sizes)
    if isinstance(given, str):
        if given.upper() not in ("SAME", "VALID"):
            raise _arguments.wrong(here("padding"), '"SAME", "VALID" or numbers', given)
        if given.upper() == "VALID":
            return [(0, 0)] * n
        spans = [(w - 1) * d + 1 for w, d in zip(window, dilation)]
        return [_same("padding", *each) for each in zip(sizes, spans, strides)]
    several = isinstance(given, (tuple, list))
    if several and len(given) != n:
        raise _arguments.wrong(
            here("padding"), f"a number, or one or a pair for each of {n} axes", f"{len(given)} of them"
        )
    pairs = []
    for entry in given if several else [given] * n:
        pair = entry if isinstance(entry, (tuple, list)) else (entry, entry)
        if len(pair) != 2:
            raise _arguments.wrong(here("padding"), "(before, after)", entry)
        pairs.append([_arguments.integer(here("padding"), p, 0, _LARGEST, "at least 0") for p in pair])
    return pairs


def _list(entries):
    return ", ".join([str(e) for e in entries])


def _window_text(x, axes, window, strides, padding, dilation):
    """The windows along these axes, for the library: an entry for every axis of x."""
    whole = {axis: k for k, axis in enumerate(axes)}

    def spread(entries, otherwise):
        return [entries[whole[axis]] if axis in whole else otherwise for axis in range(x.ndim)]

    pads = [f"{low}:{high}" for low, high in spread(padding, (0, 0))]
    return "; ".join(
        [_list(spread(window, 1)), _list(spread(strides, 1)), ", ".join(pads), _list(spread(dilation, 1))]
    )


def _reduction(computation):
    name = computation
    if callable(computation) and getattr(computation, "__module__", "").split(".")[0] == "hop":
        name = getattr(computation, "__name__", None)
    if not isinstance(name, str) or name not in _REDUCTIONS:
        expected = "hop.add, hop.multiply, hop.maximum, hop.minimum, or sum, prod, max, min"
        raise _arguments.wrong(here("computation"), expected, computation)
    return _REDUCTIONS[name]


def reduce_window(
    operand, init_value, computation, window_dimensions, window_strides=1, padding="VALID",
    base_dilation=None, window_dilation=None,
):  # fmt: skip
    """The windows of an array, each folded into one element by hop.add, hop.multiply, hop.maximum or
    hop.minimum (or "sum", "prod", "max", "min"), with init_value once.

    Sizes, strides and dilations are one integer for all axes or one for each; padding is "VALID", "SAME",
    or (before, after) for each axis. Padding counts for nothing. The derivative of a maximum goes to the
    first of equals.

    >>> hop.reduce_window(hop.asarray([1.0, 5.0, 2.0, 3.0]), 0.0, hop.add, 2)
    Array([6., 7., 5.], dtype=float32)
    >>> hop.reduce_window(hop.asarray([1, 5, 2, 3]), 0, hop.maximum, (3,), (2,), padding="SAME")
    Array([5, 3], dtype=int64)
    """
    x = _array(operand)
    by = _reduction(computation)
    if base_dilation is not None and _entries("base_dilation", base_dilation, x.ndim, 1) != [1] * x.ndim:
        raise _arguments.wrong(here("base_dilation"), "1", base_dilation)
    window = _entries("window_dimensions", window_dimensions, x.ndim, 1)
    strides = _entries("window_strides", window_strides, x.ndim, 1)
    dilation = _entries("window_dilation", window_dilation, x.ndim, 1, [1] * x.ndim)
    pairs = _padding(padding, x.shape, window, strides, dilation)
    text = _window_text(x, range(x.ndim), window, strides, pairs, dilation)
    out = _call(_CODE["reduce_window"], (x,), text, 0, 0, by)
    if isinstance(init_value, (int, float)) and init_value == _IDENTITY[by]:
        return out
    return _COMBINE[by](init_value, out)


def _spatial(x, layout, n):
    """The axes that windows run along: all letters of the layout but N and C; without one the last n, or
    all behind the first two."""
    if layout is None:
        if n is None and x.ndim < 3:
            raise _arguments.wrong(here("x"), "[N, C] and further axes (or layout=)", x)
        if n is not None and n > x.ndim:
            raise _arguments.wrong(here("x"), f"at least {n} axes", x)
        return list(range(x.ndim - n if n is not None else 2, x.ndim))
    letters = list(layout) if isinstance(layout, str) else []
    if len(letters) != x.ndim or len(set(letters)) != len(letters) or not all(map(str.isalpha, letters)):
        raise _arguments.wrong(here("layout"), f'a letter for each of {x.ndim} axes, as "NCHW"', layout)
    return [axis for axis, letter in enumerate(letters) if letter.upper() not in "NC"]


def _pooled(x, window, strides, padding, dilation, layout):
    x = _array(x)
    axes = _spatial(x, layout, len(window) if isinstance(window, (tuple, list)) else None)
    n = len(axes)
    window = _entries("window", window, n, 1)
    strides = _entries("strides", strides, n, 1, window)
    dilation = _entries("dilation", dilation, n, 1)
    pairs = _padding(padding, [x.shape[a] for a in axes], window, strides, dilation)
    return x, _window_text(x, axes, window, strides, pairs, dilation)


def max_pool(x, window, strides=None, padding=0, *, dilation=1, layout=None):
    """The largest of each window along the spatial axes: those behind batch and channels, [N, C, …], or
    those that the layout names by other letters than N and C ("NHWC").

    window, strides (None: the window's) and dilation are one integer or one for each spatial axis, padding
    an integer, one or (before, after) for each, "SAME" or "VALID". Padding is never the largest; a window of
    nothing else gives -inf. The gradient goes to the first of equals.

    >>> x = hop.reshape(hop.arange(16.0), (1, 1, 4, 4))
    >>> hop.max_pool(x, 2)[0, 0]
    Array([[ 5.,  7.],
           [13., 15.]], dtype=float32)
    """
    x, text = _pooled(x, window, strides, padding, dilation, layout)
    return _call(_CODE["reduce_window"], (x,), text, 0, 0, "max")


def min_pool(x, window, strides=None, padding=0, *, dilation=1, layout=None):
    """The smallest of each window; otherwise as max_pool.

    >>> hop.min_pool(hop.reshape(hop.arange(16.0), (1, 1, 4, 4)), 2)[0, 0]
    Array([[ 0.,  2.],
           [ 8., 10.]], dtype=float32)
    """
    x, text = _pooled(x, window, strides, padding, dilation, layout)
    return _call(_CODE["reduce_window"], (x,), text, 0, 0, "min")


def avg_pool(x, window, strides=None, padding=0, *, count_include_pad=True, dilation=1, layout=None):
    """The mean of each window; arguments as for max_pool. Padding counts as zeros, or with
    count_include_pad=False not at all: then a window of nothing else gives NaN.

    >>> hop.avg_pool(hop.reshape(hop.arange(16.0), (1, 1, 4, 4)), 2)[0, 0]
    Array([[ 2.5,  4.5],
           [10.5, 12.5]], dtype=float32)
    """
    counted = _arguments.flag(here("count_include_pad"), count_include_pad)
    x, text = _pooled(x, window, strides, padding, dilation, layout)
    return _call(_CODE["avg_pool"], (x,), text, int(not counted))


def _sizes(argument, given, axes):
    """One size for each axis."""
    several = isinstance(given, (tuple, list))
    if several and len(given) != len(axes):
        raise _arguments.wrong(
            here(argument), f"a size, or one for each of {len(axes)} axes", f"{len(given)} of them"
        )
    return [_arguments.extent(str(here(argument)), s) for s in (given if several else [given] * len(axes))]


def _adaptive(x, sizes, layout, by):
    x = _array(x)
    axes = _spatial(x, layout, len(sizes) if isinstance(sizes, (tuple, list)) else None)
    if isinstance(sizes, (tuple, list)) and len(sizes) == len(axes):
        sizes = [x.shape[a] if s is None else s for a, s in zip(axes, sizes)]
    wanted = _sizes("sizes", sizes, axes)
    text = f"{_list(axes)}; {', '.join([_shapes.text(s) for s in wanted])}"
    return _call(_CODE["adaptive_pool"], (x,), text, 0, 0, by)


def adaptive_avg_pool(x, sizes, *, layout=None):
    """The mean of bins along the spatial axes (as for max_pool), as many as sizes says: of n elements bin i
    of m has those from floor(i·n/m) up to ceil((i+1)·n/m). A size of None leaves the axis as it is; 1 is
    global pooling.

    >>> hop.adaptive_avg_pool(hop.reshape(hop.arange(5.0), (1, 1, 5)), 2)
    Array([[[1., 3.]]], dtype=float32)
    """
    return _adaptive(x, sizes, layout, "mean")


def adaptive_max_pool(x, sizes, *, layout=None):
    """The largest of bins, as for adaptive_avg_pool.

    >>> hop.adaptive_max_pool(hop.reshape(hop.arange(5.0), (1, 1, 5)), 2)
    Array([[[2., 4.]]], dtype=float32)
    """
    return _adaptive(x, sizes, layout, "max")


def _scaled(n, scale):
    if isinstance(n, _shapes.Size):
        whole = isinstance(scale, int) or float(scale).is_integer()
        if not whole:
            raise InvalidError(
                f"{_core.call_place()}scale: a size that is no number, {n}, is scaled by a whole number; "
                f"give sizes"
            )
        return n * int(scale)
    return math.floor(n * scale)


_METHODS = {
    "nearest": "nearest", "linear": "linear", "bilinear": "linear", "trilinear": "linear",
    "triangle": "linear", "cubic": "cubic", "bicubic": "cubic",
}  # fmt: skip


def _method(argument, given):
    if given not in _METHODS if isinstance(given, str) else True:
        raise _arguments.wrong(here(argument), "nearest, linear or cubic", given)
    return _METHODS[given]


def resize(x, sizes=None, method="linear", antialias=None, *, scale=None, axes=None, align_corners=False):
    """The array with other sizes, read at the middles of its new elements, as jax.image.resize does it.

    sizes has one for each axis, or for each of axes; scale is a factor (or one for each) in its place.
    method is "nearest", "linear" or "cubic" (also bilinear, bicubic). antialias: along axes that become
    shorter the kernel is as wide as a new element; on, but for nearest and align_corners. align_corners:
    the first and the last element stay where they are.

    >>> hop.resize(hop.asarray([0.0, 1.0, 2.0]), (6,))
    Array([0.  , 0.25, 0.75, 1.25, 1.75, 2.  ], dtype=float32)
    >>> hop.resize(hop.asarray([0.0, 1.0]), (3,), align_corners=True)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    x = _array(x)
    method = _method("method", method)
    align = _arguments.flag(here("align_corners"), align_corners)
    if (sizes is None) == (scale is None):
        raise InvalidError(f"{_core.call_place()}expected one of sizes and scale")
    several = axes if isinstance(axes, (tuple, list)) else None if axes is None else (axes,)
    along = list(range(x.ndim)) if several is None else [_along(x, a, "axes") for a in several]
    if sizes is None:
        factors = scale if isinstance(scale, (tuple, list)) else [scale] * len(along)
        if len(factors) != len(along):
            raise _arguments.wrong(
                here("scale"), f"a number, or one for each of {len(along)} axes", f"{len(factors)} of them"
            )
        for factor in factors:
            if isinstance(factor, bool) or not isinstance(factor, (int, float)) or not 0 < factor < 1 << 31:
                raise _arguments.wrong(here("scale"), "a positive number", factor)
        sizes = [_scaled(x.shape[a], factor) for a, factor in zip(along, factors)]
    wanted = _sizes("sizes", sizes, along)
    smooth = method != "nearest" and not align
    if antialias is not None:
        smooth = _arguments.flag(here("antialias"), antialias)
    if smooth and align:
        raise InvalidError(f"{_core.call_place()}expected one of antialias and align_corners")
    text = f"{_list(along)}; {', '.join([_shapes.text(s) for s in wanted])}"
    if not along:
        return x
    return _call(_CODE["resize"], (x,), text, int(align), int(smooth and method != "nearest"), method)


def grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=False):
    """Pictures [N, C, H, W] read at the positions of a grid [N, …, …, 2], each (x, y) from -1 to 1: as
    torch.nn.functional.grid_sample does it. Volumes [N, C, D, H, W] have (x, y, z).

    mode is "nearest", "bilinear" or "bicubic" (of pictures); padding_mode says what is outside: "zeros",
    "border" or "reflection". -1 and 1 are the outer edges of the picture, with align_corners the middles of
    its outermost elements. There are gradients by both.

    >>> x = hop.reshape(hop.arange(4.0), (1, 1, 2, 2))
    >>> hop.grid_sample(x, hop.asarray([[[[0.0, 0.0], [0.5, 0.5]]]]))
    Array([[[[1.5, 3. ]]]], dtype=float32)
    """
    x, grid = _array(x), _array(grid)
    method = _method("mode", mode)
    if padding_mode not in ("zeros", "border", "reflection"):
        raise _arguments.wrong(here("padding_mode"), "zeros, border or reflection", padding_mode)
    align = _arguments.flag(here("align_corners"), align_corners)
    return _call(_CODE["grid_sample"], (x, grid), method, int(align), 0, padding_mode)


def map_coordinates(x, coordinates, order=1, mode="constant"):
    """x at positions that are given for each of its axes, counted in elements; as scipy.ndimage's and
    JAX's. order 0 takes the nearest element, 1 goes linearly between neighbours; outside are zeros
    ("constant") or the outermost elements ("nearest").

    >>> x = hop.reshape(hop.arange(6.0), (2, 3))
    >>> hop.map_coordinates(x, (hop.asarray([0.5, 1.0]), hop.asarray([1.0, 1.5])))
    Array([2.5, 4.5], dtype=float32)
    """
    x = _array(x)
    order = _arguments.integer(here("order"), order, 0, 1, "0 or 1")
    if mode not in ("constant", "nearest"):
        raise _arguments.wrong(here("mode"), "constant or nearest", mode)
    if not isinstance(coordinates, (tuple, list)):
        given = _array(coordinates)
        coordinates = [given[k] for k in range(given.shape[0])] if given.ndim else [given]
    positions = [_array(c) for c in coordinates]
    if len(positions) != x.ndim or not positions:
        found = f"{len(positions)} of them"
        raise _arguments.wrong(here("coordinates"), f"one for each of {x.ndim} axes", found)
    padding = "border" if mode == "nearest" else "zeros"
    return _call(_CODE["map_coordinates"], (x, *positions), ("nearest", "linear")[order], 0, 0, padding)


__all__ = _public(globals())
