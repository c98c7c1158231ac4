"""Products of matrices and of more axes, and diagonals."""

import builtins

from .. import _arguments, _shapes
from .._dtypes import result_type
from .axes import sum
from .common import _CODE, _along, _call, _op, _public, _text
from .creation import _array, astype, zeros


def matmul(x1, x2, /):
    """x1 @ x2.

    >>> hop.batch_matmul(hop.ones((2, 3, 4)), hop.ones((2, 4, 5))).shape
    (2, 3, 5)
    """
    return _op(_CODE["matmul"], x1, x2)


def tensordot(x1, x2, /, axes=2):
    """Sums of products over several axes.

    axes is how many of the last of x1 and the first of x2, or two lists of axes.

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
    d = result_type(x1, x2)
    return _call(
        _CODE["dot"],
        (astype(x1, d, copy=False), astype(x2, d, copy=False)),
        _text(left) or None,
        0,
        0,
        _text(right) or None,
    )


def vecdot(x1, x2, /, axis=-1):
    """Sums of products along an axis. The axis must be as long in both; the others broadcast.

    >>> hop.vecdot(hop.asarray([[1, 2], [3, 4]]), hop.asarray([1, 10]))
    Array([21, 43], dtype=int64)
    """
    x1, x2 = _array(x1), _array(x2)
    for x in (x1, x2):
        _along(x, axis)
    if _shapes.differ(x1.shape[axis], x2.shape[axis]):
        raise ValueError(f"vecdot: {x1.shape[axis]} and {x2.shape[axis]} elements along axis {axis}")
    return sum(x1 * x2, axis=axis, dtype=result_type(x1, x2))


def einsum(subscripts, /, *operands):
    """Sums of products, one letter per axis: einsum("bij,bjk->bik", x, y). Letters that the result does not
    name are summed; without -> those that occur twice are. Any number of operands.

    >>> x = hop.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> hop.einsum("ij,jk->ik", x, x)
    Array([[ 7., 10.],
           [15., 22.]], dtype=float32)
    >>> hop.einsum("ii->i", x)
    Array([1., 4.], dtype=float32)
    """
    return _call(_CODE["einsum"], tuple([_array(x) for x in operands]), subscripts)


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
