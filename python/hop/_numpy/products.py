"""Products of vectors and matrices, and convolutions."""

import builtins

from .. import _arguments, _shapes
from .._arguments import here
from .._ops import arange, expand_dims, flip, matmul, pad, reshape, take, tensordot
from .._ops.common import _public
from .._ops.creation import _array
from .arranging import _line
from .common import _vector


def dot(x1, x2, /, *, dtype=None, preferred_element_type=None):
    """The product of vectors and matrices; of more axes the sum over the last axis of x1 and the second to
    last of x2. dtype: as for matmul.

    >>> hop.dot(hop.asarray([[1, 2], [3, 4]]), hop.asarray([1, 1]))
    Array([3, 7], dtype=int64)
    """
    x1, x2 = _array(x1), _array(x2)
    chosen = {"dtype": dtype, "preferred_element_type": preferred_element_type}
    if not x1.ndim or not x2.ndim:
        return tensordot(x1, x2, axes=0, **chosen)
    if x2.ndim < 3:
        return matmul(x1, x2, **chosen)
    return tensordot(x1, x2, axes=((-1 % x1.ndim,), (x2.ndim - 2,)), **chosen)


def inner(x1, x2, /, *, dtype=None, preferred_element_type=None):
    """Sums of products over the last axes of both. dtype: as for matmul.

    >>> hop.inner(hop.asarray([[1, 2], [3, 4]]), hop.asarray([1, 10]))
    Array([21, 43], dtype=int64)
    """
    x1, x2 = _array(x1), _array(x2)
    chosen = {"dtype": dtype, "preferred_element_type": preferred_element_type}
    if not x1.ndim or not x2.ndim:
        return tensordot(x1, x2, axes=0, **chosen)
    return tensordot(x1, x2, axes=((x1.ndim - 1,), (x2.ndim - 1,)), **chosen)


def vdot(x1, x2, /, *, dtype=None, preferred_element_type=None):
    """The sum of the products of all elements. dtype: as for matmul.

    >>> hop.vdot(hop.asarray([[1, 2], [3, 4]]), hop.asarray([[1, 2], [3, 4]]))
    Array(30, dtype=int64)
    """
    return dot(_vector(x1), _vector(x2), dtype=dtype, preferred_element_type=preferred_element_type)


def kron(x1, x2, /):
    """Kronecker's product: x2 in the place of each element of x1, times it.

    >>> hop.kron(hop.asarray([1, 10]), hop.asarray([1, 2]))
    Array([ 1,  2, 10, 20], dtype=int64)
    """
    x1, x2 = _array(x1), _array(x2)
    rank = builtins.max(x1.ndim, x2.ndim)
    a, b = [(1,) * (rank - x.ndim) + x.shape for x in (x1, x2)]
    wide = reshape(x1, [n for m in a for n in (m, 1)]) * reshape(x2, [n for m in b for n in (1, m)])
    return reshape(wide, tuple(n * m for n, m in zip(a, b)))


def _windows(x, n):
    """The n neighbours from each element on, as rows."""
    return take(x, expand_dims(arange(x.shape[0] - n + 1), 1) + arange(n), axis=0)


def _mode(mode):
    if not isinstance(mode, str) or mode not in ("full", "same", "valid"):
        raise _arguments.wrong(here("mode"), "'full', 'same' or 'valid'", mode)
    return mode


def convolve(x1, x2, /, mode="full"):
    """The convolution of two vectors: all of it, its middle ("same": as long as the longer one), or where
    both overlap whole ("valid").

    >>> hop.convolve(hop.asarray([1, 2, 3]), hop.asarray([1, 1]))
    Array([1, 3, 5, 3], dtype=int64)
    """
    x1, x2, mode = _line("x1", x1), _line("x2", x2), _mode(mode)
    return _convolved(x1, x2, mode)


def _convolved(x1, x2, mode):
    n, m = x1.shape[0], x2.shape[0]
    first_is_long = _shapes.holds(n, ">=", m)
    if mode != "full" and first_is_long is None:  # all of it, and then the part that is wanted
        less, more = _shapes.least(n, m), _shapes.largest(n, m)
        start, length = ((less - 1) // 2, more) if mode == "same" else (less - 1, more - less + 1)
        return _convolved(x1, x2, "full")[start : start + length]
    long, short = (x1, x2) if first_is_long is not False else (x2, x1)
    n, m = long.shape[0], short.shape[0]
    before = {"full": m - 1, "same": m - 1 - (m - 1) // 2, "valid": 0}[mode]
    length = {"full": n + m - 1, "same": n, "valid": n - m + 1}[mode]
    return matmul(_windows(pad(long, (before, length - (n - m + 1) - before)), m), flip(short))


def correlate(x1, x2, /, mode="valid"):
    """Sums of products of a vector and another one that is moved along it.

    >>> hop.correlate(hop.asarray([1, 2, 3]), hop.asarray([1, 1]))
    Array([3, 5], dtype=int64)
    """
    x1, x2, mode = _line("x1", x1), _line("x2", x2), _mode(mode)
    if _shapes.holds(x1.shape[0], ">=", x2.shape[0]) is not False:
        return _convolved(x1, flip(x2), mode)
    return flip(_convolved(x2, flip(x1), mode))


__all__ = _public(globals())
