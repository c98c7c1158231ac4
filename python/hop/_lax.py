"""Functions of jax.lax that the array-API standard has no name for, or another one: thin spellings of
operators that are there."""

import builtins
import string

from . import _arguments, _core, _shapes
from ._arguments import here
from ._dtypes import as_dtype
from ._errors import InvalidError
from ._ops import (
    astype, bitwise_invert, bitwise_left_shift, bitwise_right_shift, broadcast_to, conv,
    count_leading_zeros, cumulative_logsumexp, cumulative_max, cumulative_min, dynamic_slice,
    dynamic_update_slice, einsum, equal, expand_dims, flip, fmod, greater, greater_equal, isfinite, less,
    less_equal, matmul, maximum, minimum, multiply, negative, not_equal, permute_dims, popcount, pow,
    reshape, sigmoid, squeeze, subtract, where,
)  # fmt: skip
from ._ops.common import _along, _dims
from ._ops.creation import _array, arange

__all__ = [
    "batch_matmul", "bitwise_not", "broadcast", "broadcast_in_dim", "broadcasted_iota", "clamp", "clz",
    "conv_general_dilated", "convert_element_type", "cumlogsumexp", "cummax", "cummin", "div",
    "dot_general", "dynamic_index_in_dim", "dynamic_slice_in_dim", "dynamic_update_index_in_dim",
    "dynamic_update_slice_in_dim", "eq", "ge", "gt", "index_in_dim", "integer_pow", "iota", "is_finite",
    "le", "logistic", "lt", "mul", "ne", "neg", "population_count", "rem", "rev", "select", "select_n",
    "shift_left", "shift_right_arithmetic", "shift_right_logical", "slice", "slice_in_dim", "sub",
]  # fmt: skip

batch_matmul = matmul
bitwise_not = bitwise_invert
clz = count_leading_zeros
cumlogsumexp, cummax, cummin = cumulative_logsumexp, cumulative_max, cumulative_min
eq, ne, lt, le, gt, ge = equal, not_equal, less, less_equal, greater, greater_equal
integer_pow = pow
is_finite = isfinite
logistic = sigmoid
mul, neg, rem, sub = multiply, negative, fmod, subtract
population_count = popcount
shift_left = bitwise_left_shift


# ---- elements ----


def div(x, y):
    """x / y; of integers the quotient without its fraction, rounded towards zero.

    >>> hop.div(hop.asarray([7, -7]), hop.asarray([2, 2]))
    Array([ 3, -3], dtype=int64)
    """
    x, y = _array(x), _array(y)
    if x.dtype.kind == "f" or y.dtype.kind == "f":
        return x / y
    return (x - fmod(x, y)) // y


def shift_right_arithmetic(x, y):
    """x >> y; new bits are the sign of x. Of unsigned integers they are what x would have as a signed one.

    >>> hop.shift_right_arithmetic(hop.asarray([-8]), hop.asarray([1]))
    Array([-4], dtype=int64)
    """
    x = _array(x)
    if x.dtype.kind != "u":
        return bitwise_right_shift(x, y)
    signed = as_dtype(x.dtype.name[1:])
    return astype(bitwise_right_shift(astype(x, signed), astype(_array(y), signed)), x.dtype)


def shift_right_logical(x, y):
    """x >> y with zeros for new bits, whatever the sign of x.

    >>> hop.shift_right_logical(hop.asarray([-8], dtype=hop.int8), hop.asarray([1], dtype=hop.int8))
    Array([124], dtype=int8)
    """
    x = _array(x)
    if x.dtype.kind != "i":
        return bitwise_right_shift(x, y)
    unsigned = as_dtype("u" + x.dtype.name)
    return astype(bitwise_right_shift(astype(x, unsigned), astype(_array(y), unsigned)), x.dtype)


def clamp(min, x, max):
    """x brought between min and max: the order of the arguments is that of jax.lax.

    >>> hop.clamp(0.0, hop.asarray([-1.0, 0.5, 2.0]), 1.0)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return minimum(maximum(_array(x), min), max)


def select(which, on_true, on_false=0):
    """on_true where `which` holds, on_false elsewhere. Of a list of conditions and a list of arrays, as
    jax.numpy.select: for each element the array of the first condition that holds, on_false where none does.

    >>> hop.select(hop.asarray([True, False]), hop.asarray([1, 2]), hop.asarray([10, 20]))
    Array([ 1, 20], dtype=int64)
    """
    if not isinstance(which, (list, tuple)):
        return where(which, on_true, on_false)
    if not isinstance(on_true, (list, tuple)) or len(on_true) != len(which) or not which:
        raise _arguments.wrong(
            here("on_true"), f"a list of {len(which)} arrays, one for each condition", on_true
        )
    out = on_false
    for condition, x in zip(reversed(which), reversed(on_true)):
        out = where(condition, x, out)
    return out


def select_n(which, *cases):
    """cases[which], by element. which: bools for two cases, else integers, which are brought into range.

    >>> cases = hop.asarray([1, 2, 3]), hop.asarray([10, 20, 30]), hop.asarray([100, 200, 300])
    >>> hop.select_n(hop.asarray([0, 2, 1]), *cases)
    Array([  1, 200,  30], dtype=int64)
    """
    which = _array(which)
    if not cases:
        raise InvalidError(f"{_core.call_place()}there must be a case")
    if which.dtype.kind not in "biu" or which.dtype.kind == "b" and len(cases) > 2:
        raise _arguments.wrong(
            here("which"), f"integers that number {len(cases)} cases, or bools for two", which
        )
    out = _array(cases[0])
    for number, x in enumerate(cases[1:], 1):
        out = where(which >= number, x, out)
    return out


def convert_element_type(operand, new_dtype):
    """The elements as another dtype. The name that jax.lax has for hop.astype.

    >>> hop.convert_element_type(hop.asarray([1.5]), hop.int32)
    Array([1], dtype=int32)
    """
    return astype(operand, new_dtype)


# ---- shapes ----


def _several(argument, x, check):
    """A tuple or a list, each element of which check(where, element) gives."""
    if not isinstance(x, (tuple, list)):
        raise _arguments.wrong(here(argument), "a number for each axis", x)
    return [check(here(argument), element) for element in x]


def broadcast(operand, sizes):
    """With new axes of these sizes in front, the same along all of them. The result has the shape sizes +
    operand.shape; hop.broadcast_to takes the whole shape.

    >>> hop.broadcast(hop.asarray([1, 2]), (2,))
    Array([[1, 2],
           [1, 2]], dtype=int64)
    """
    x = _array(operand)
    return broadcast_to(x, (*_dims(sizes), *x.shape))


def broadcast_in_dim(operand, shape, broadcast_dimensions):
    """Brought to a shape; broadcast_dimensions says which axis of it each axis of the operand is.

    >>> hop.broadcast_in_dim(hop.asarray([1, 2]), (2, 3), (0,))
    Array([[1, 1, 1],
           [2, 2, 2]], dtype=int64)
    """
    x, dims = _array(operand), _dims(shape)
    most = builtins.max(len(dims) - 1, 0)
    places = _several(
        "broadcast_dimensions", broadcast_dimensions, lambda what, a: _arguments.integer(what, a, 0, most)
    )
    if len(places) != x.ndim or builtins.any(a >= b for a, b in zip(places, places[1:])):
        expected = f"an axis of the result for each axis of {x._type}, in ascending order"
        raise _arguments.wrong(here("broadcast_dimensions"), expected, broadcast_dimensions)
    between = [1] * len(dims)
    for place, n in zip(places, x.shape):
        between[place] = n
    return broadcast_to(reshape(x, tuple(between)), dims)


def rev(operand, dimensions):
    """The order along axes reversed.

    >>> hop.rev(hop.asarray([1, 2, 3]), (0,))
    Array([3, 2, 1], dtype=int64)
    """
    return flip(
        operand, axis=tuple(_several("dimensions", dimensions, lambda what, a: _arguments.integer(what, a)))
    )


def iota(dtype, size):
    """0, 1, … size - 1. The name that jax.lax has for hop.arange(size, dtype=dtype).

    >>> hop.iota(hop.int32, 3)
    Array([0, 1, 2], dtype=int32)
    """
    return arange(_arguments.extent(here("size"), size), dtype=as_dtype(dtype))


def broadcasted_iota(dtype, shape, dimension):
    """0, 1, … along one axis, the same along the others. The index of each element along the axis
    `dimension`; hop.arange and broadcasting give the same.

    >>> hop.broadcasted_iota(hop.int32, (2, 3), 1)
    Array([[0, 1, 2],
           [0, 1, 2]], dtype=int32)
    """
    dims = _dims(shape)
    axis = _arguments.integer(
        here("dimension"), dimension, -len(dims), len(dims) - 1, f"an axis of the shape {dims}"
    )
    row = iota(dtype, dims[axis])
    return broadcast_to(reshape(row, (-1, *[1] * (len(dims) - 1 - axis % len(dims)))), dims)


# ---- parts ----


def slice(operand, start_indices, limit_indices, strides=None):
    """From start_indices to limit_indices, a number per axis, every so many.

    >>> hop.slice(hop.arange(6), (1,), (6,), (2,))
    Array([1, 3, 5], dtype=int64)
    """
    x = _array(operand)
    starts = _several("start_indices", start_indices, _arguments.extent)
    limits = _several("limit_indices", limit_indices, _arguments.extent)
    steps = [1] * x.ndim if strides is None else _several("strides", strides, _step)
    for name, found in (("start_indices", starts), ("limit_indices", limits), ("strides", steps)):
        if len(found) != x.ndim:
            raise _arguments.wrong(here(name), f"a number for each axis of {x._type}", found)
    return x[tuple([builtins.slice(*part) for part in zip(starts, limits, steps)])]


def _step(what, n):
    return _arguments.integer(what, n, 1, expected="a step above 0")


def slice_in_dim(operand, start_index, limit_index, stride=1, axis=0):
    """From start_index to limit_index along one axis; None: from its beginning, to its end.

    >>> hop.slice_in_dim(hop.arange(6), 1, 5, stride=2)
    Array([1, 3], dtype=int64)
    """
    x = _array(operand)
    ends = [
        b if b is None or isinstance(b, _shapes.Size) else _arguments.integer(here("a bound"), b)
        for b in (start_index, limit_index)
    ]
    return x[
        (*[builtins.slice(None)] * _along(x, axis), builtins.slice(*ends, _step(here("stride"), stride)))
    ]


def index_in_dim(operand, index, axis=0, keepdims=True):
    """The slice at an index along one axis, which stays as an axis of size 1 unless keepdims is False.

    >>> hop.index_in_dim(hop.asarray([[1, 2], [3, 4]]), 1, axis=1)
    Array([[2],
           [4]], dtype=int64)
    """
    x = _array(operand)
    axis = _along(x, axis)
    index = index if isinstance(index, _shapes.Size) else _arguments.integer(here("index"), index)
    part = x[(*[builtins.slice(None)] * axis, index)]
    return expand_dims(part, axis=axis) if _arguments.flag(here("keepdims"), keepdims) else part


def dynamic_slice_in_dim(operand, start_index, slice_size, axis=0):
    """slice_size slices along one axis, from a position that may be traced, moved so that they fit.

    >>> hop.dynamic_slice_in_dim(hop.arange(6), 2, 3)
    Array([2, 3, 4], dtype=int64)
    """
    x = _array(operand)
    axis = _along(x, axis)
    starts, sizes = [0] * x.ndim, list(x.shape)
    starts[axis], sizes[axis] = start_index, slice_size
    return dynamic_slice(x, starts, sizes)


def dynamic_index_in_dim(operand, index, axis=0, keepdims=True):
    """The slice along one axis at an index that may be traced, brought into range; the axis stays, with size
    1, unless keepdims is False.

    >>> hop.dynamic_index_in_dim(hop.asarray([10, 20, 30]), 1, keepdims=False)
    Array(20, dtype=int64)
    """
    x = _array(operand)
    axis = _along(x, axis)
    part = dynamic_slice_in_dim(x, index, 1, axis)
    return part if _arguments.flag(here("keepdims"), keepdims) else squeeze(part, axis=axis)


def dynamic_update_slice_in_dim(operand, update, start_index, axis):
    """The operand with slices along one axis replaced, from a position that may be traced, moved so that they
    fit.

    >>> hop.dynamic_update_slice_in_dim(hop.zeros(4), hop.ones(2), 1, 0)
    Array([0., 1., 1., 0.], dtype=float32)
    """
    x = _array(operand)
    starts = [0] * x.ndim
    starts[_along(x, axis)] = start_index
    return dynamic_update_slice(x, update, starts)


def dynamic_update_index_in_dim(operand, update, index, axis):
    """The operand with the slice at an index along one axis replaced; the update may have that axis, of size
    1, or not.

    >>> hop.dynamic_update_index_in_dim(hop.zeros(3), 5.0, 1, 0)
    Array([0., 5., 0.], dtype=float32)
    """
    x, update = _array(operand), _array(update)
    axis = _along(x, axis)
    update = expand_dims(update, axis=axis) if update.ndim < x.ndim else update
    return dynamic_update_slice_in_dim(x, update, index, axis)


# ---- products ----


def dot_general(lhs, rhs, dimension_numbers, precision=None, preferred_element_type=None):
    """Sums of products over axes, side by side along others. dimension_numbers: ((summed axes of lhs, of
    rhs), (axes that both share, of lhs, of rhs)). The result has the shared axes, then what is left of lhs,
    then of rhs. precision changes nothing: products have the precision of their dtype. With
    preferred_element_type they are added up and given in that.

    >>> hop.dot_general(hop.ones((5, 2, 3)), hop.ones((5, 3, 4)), (((2,), (1,)), ((0,), (0,)))).shape
    (5, 2, 4)
    """
    x, y = _array(lhs), _array(rhs)
    try:
        (summed_x, summed_y), (shared_x, shared_y) = [[list(a) for a in pair] for pair in dimension_numbers]
        pairs = [(_along(x, a), _along(y, b)) for a, b in zip([*shared_x, *summed_x], [*shared_y, *summed_y])]
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidError):
            raise
        raise _arguments.wrong(
            here("dimension_numbers"), "((axes, axes), (axes, axes))", dimension_numbers
        ) from None
    if len(summed_x) != len(summed_y) or len(shared_x) != len(shared_y):
        raise _arguments.wrong(here("dimension_numbers"), "as many axes of lhs as of rhs", dimension_numbers)
    letters = iter(string.ascii_letters)
    left, right = [None] * x.ndim, [None] * y.ndim
    for a, b in pairs:
        left[a] = right[b] = next(letters)
    shared = [left[a] for a, _ in pairs[: len(shared_x)]]
    free = []
    for names in (left, right):
        for axis, name in enumerate(names):
            if name is None:
                names[axis] = next(letters)
                free.append(names[axis])
    text = f"{''.join(left)},{''.join(right)}->{''.join([*shared, *free])}"
    return einsum(text, x, y, preferred_element_type=preferred_element_type)


def conv_general_dilated(
    lhs,
    rhs,
    window_strides,
    padding,
    lhs_dilation=None,
    rhs_dilation=None,
    dimension_numbers=None,
    feature_group_count=1,
    batch_group_count=1,
    precision=None,
    preferred_element_type=None,
):
    """hop.conv under the names of JAX. dimension_numbers: the layouts of lhs, rhs and the result, as
    ("NHWC", "HWIO", "NHWC"); None: "NCHW", "OIHW" and "NCHW". batch_group_count: 1. precision changes
    nothing: products have the precision of their dtype.

    >>> lhs, rhs = hop.ones((1, 8, 8, 3)), hop.ones((3, 3, 3, 4))
    >>> layouts = ("NHWC", "HWIO", "NCHW")
    >>> hop.conv_general_dilated(lhs, rhs, (1, 1), "SAME", dimension_numbers=layouts).shape
    (1, 4, 8, 8)
    """
    if batch_group_count != 1:
        raise _arguments.wrong(here("batch_group_count"), "1", batch_group_count)
    layout = kernel = out = None
    if dimension_numbers is not None:
        try:
            layout, kernel, out = dimension_numbers
        except (TypeError, ValueError):
            layout = None
        if not all(isinstance(text, str) for text in (layout, kernel, out)):
            raise _arguments.wrong(here("dimension_numbers"), "three layouts as texts", dimension_numbers)
        if sorted(out) != sorted(layout):
            expected = "a result of the axes of lhs"
            raise _arguments.wrong(here("dimension_numbers"), expected, dimension_numbers)
    y = conv(
        lhs,
        rhs,
        window_strides,
        padding,
        1 if rhs_dilation is None else rhs_dilation,
        feature_group_count,
        layout=layout,
        kernel_layout=kernel,
        x_dilation=1 if lhs_dilation is None else lhs_dilation,
        preferred_element_type=preferred_element_type,
    )
    if out is None or out == layout:
        return y
    return permute_dims(y, tuple(layout.index(letter) for letter in out))
