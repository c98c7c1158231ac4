"""Products of matrices and of more axes, and diagonals."""

import builtins
import string

from .. import _arguments, _shapes
from .._arguments import here
from .._dtypes import as_dtype, result_type
from .axes import sum
from .common import _CODE, _along, _call, _op, _public, _text
from .creation import _array, astype, zeros
from .shape import moveaxis


def _chosen(dtype, preferred_element_type):
    """The dtype that a product is added up and given in; None: as it comes out."""
    if preferred_element_type is not None:
        if dtype is not None and as_dtype(dtype) is not as_dtype(preferred_element_type):
            expected = f"the same as dtype ({as_dtype(dtype).name}), or one of the two alone"
            raise _arguments.wrong(here("preferred_element_type"), expected, preferred_element_type)
        dtype = preferred_element_type
    return None if dtype is None else as_dtype(dtype)


def matmul(x1, x2, /, *, dtype=None, preferred_element_type=None):
    """x1 @ x2. With a dtype products are added up and given in it, and the operands keep their own, which may
    differ: int8 in int32, bfloat16 in float32. preferred_element_type is the same.

    >>> hop.batch_matmul(hop.ones((2, 3, 4)), hop.ones((2, 4, 5))).shape
    (2, 3, 5)
    >>> hop.matmul(hop.full((2,), 127, dtype=hop.int8), hop.full((2,), 127, dtype=hop.int8), dtype=hop.int32)
    Array(32258, dtype=int32)
    """
    if dtype is None and preferred_element_type is None:
        return _op(_CODE["matmul"], x1, x2)
    return _call(_CODE["matmul_as"], (_array(x1), _array(x2)), _chosen(dtype, preferred_element_type).text)


def tensordot(x1, x2, /, axes=2, *, dtype=None, preferred_element_type=None):
    """Sums of products over several axes.

    axes is how many of the last of x1 and the first of x2, or two lists of axes. dtype: as for matmul.

    >>> hop.tensordot(hop.ones((2, 3, 4)), hop.ones((3, 4, 5)), axes=2).shape
    (2, 5)
    """
    x1, x2 = _array(x1), _array(x2)
    if isinstance(axes, int):
        axes = _arguments.integer(
            "tensordot: axes", axes, 0, builtins.min(x1.ndim, x2.ndim), "as many axes as both have"
        )
        left, right = list(range(x1.ndim - axes, x1.ndim)), list(range(axes))
    else:
        left, right = [list(a) if isinstance(a, (tuple, list)) else [a] for a in axes]
    chosen = _chosen(dtype, preferred_element_type)
    if chosen is not None:
        return einsum(_subscripts(x1, x2, left, right), x1, x2, dtype=chosen)
    d = result_type(x1, x2)
    return _call(
        _CODE["dot"],
        (astype(x1, d, copy=False), astype(x2, d, copy=False)),
        _text(left) or None,
        0,
        0,
        _text(right) or None,
    )


def _subscripts(x1, x2, left, right):
    """What tensordot is in letters."""
    if len(left) != len(right):
        raise _arguments.wrong(here("axes"), "as many axes of x1 as of x2", (left, right))
    letters = string.ascii_letters
    names = [list(letters[: x1.ndim]), list(letters[x1.ndim : x1.ndim + x2.ndim])]
    for a, b in zip(left, right):
        names[1][_along(x2, b, "axes")] = names[0][_along(x1, a, "axes")]
    once = "".join(n for n in names[0] + names[1] if (n in names[0]) != (n in names[1]))
    return f"{''.join(names[0])},{''.join(names[1])}->{once}"


def vecdot(x1, x2, /, axis=-1, *, dtype=None, preferred_element_type=None):
    """Sums of products along an axis. The axis must be as long in both; the others broadcast. dtype: as for
    matmul.

    >>> hop.vecdot(hop.asarray([[1, 2], [3, 4]]), hop.asarray([1, 10]))
    Array([21, 43], dtype=int64)
    """
    x1, x2 = _array(x1), _array(x2)
    for x in (x1, x2):
        _along(x, axis)
    if _shapes.differ(x1.shape[axis], x2.shape[axis]):
        raise ValueError(f"vecdot: {x1.shape[axis]} and {x2.shape[axis]} elements along axis {axis}")
    chosen = _chosen(dtype, preferred_element_type)
    if chosen is not None:
        return einsum("...i,...i->...", moveaxis(x1, axis, -1), moveaxis(x2, axis, -1), dtype=chosen)
    return sum(x1 * x2, axis=axis, dtype=result_type(x1, x2))


def einsum(subscripts, /, *operands, dtype=None, preferred_element_type=None):
    """Sums of products, one letter per axis: einsum("bij,bjk->bik", x, y). Letters that the result does not
    name are summed; without -> those that occur twice are. Any number of operands. dtype: as for matmul.

    >>> x = hop.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> hop.einsum("ij,jk->ik", x, x)
    Array([[ 7., 10.],
           [15., 22.]], dtype=float32)
    >>> hop.einsum("ii->i", x)
    Array([1., 4.], dtype=float32)
    """
    operands = tuple([_array(x) for x in operands])
    if dtype is None and preferred_element_type is None:
        return _call(_CODE["einsum"], operands, subscripts)
    return _call(_CODE["einsum_as"], operands, subscripts, 0, 0, _chosen(dtype, preferred_element_type).text)


def outer(x1, x2, /):
    """All products of elements of two vectors. result[i, j] is x1[i] * x2[j].

    >>> hop.outer(hop.asarray([1, 2]), hop.asarray([3, 4]))
    Array([[3, 4],
           [6, 8]], dtype=int64)
    """
    return _op(_CODE["outer"], _array(x1), _array(x2))


def diagonal(x, /, offset=0):
    """The diagonal of the last two axes, or the one that is so far above it (below it when negative).

    >>> hop.diagonal(hop.asarray([[1, 2], [3, 4]]))
    Array([1, 4], dtype=int64)
    >>> hop.diagonal(hop.asarray([[1, 2], [3, 4]]), offset=1)
    Array([2], dtype=int64)
    """
    x = _array(x)
    if offset:
        x = x[..., :, offset:] if offset > 0 else x[..., -offset:, :]
        if _shapes.empty(x.shape[-2:]):
            return zeros((*x.shape[:-2], 0), dtype=x.dtype)
    return _op(_CODE["diagonal"], x)


def trace(x, /, offset=0, *, dtype=None):
    """The sum of a diagonal of the last two axes; of small integers an int64 or uint64.

    >>> hop.trace(hop.asarray([[1, 2], [3, 4]]))
    Array(5, dtype=int64)
    """
    return sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


__all__ = _public(globals())
