"""Arrays made of sizes, ranges and vectors, and positions in arrays of a shape."""

import builtins

from .. import _arguments, _core, _dtypes, _shapes
from .._arguments import here
from .._dtypes import as_dtype, float32, float64, int64
from .._errors import InvalidError
from .._ops import (
    arange, asarray, astype, broadcast_to, concat, cumulative_prod, diagonal, expand_dims, eye, flip,
    linspace, meshgrid, nonzero, ones, ones_like, pad, reshape, stack, tril, where, zeros,
)  # fmt: skip
from .._ops.common import _dims, _public
from .._ops.creation import _array
from .common import _integers, _vector


def identity(n, /, dtype=None):
    """The matrix with ones on its diagonal.

    >>> hop.identity(2)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return eye(n, dtype=dtype)


def copy(x, /):
    """An array of its own with the same elements.

    Arrays are values, so a copy is never needed to protect one.

    >>> hop.copy(hop.asarray([3, 1, 2]))
    Array([3, 1, 2], dtype=int64)
    """
    return asarray(x, copy=True)


def tri(n_rows, n_cols=None, /, k=0, dtype=None):
    """Ones on and below a diagonal, k above the main one, zeros above it.

    >>> hop.tri(2, 3)
    Array([[1., 0., 0.],
           [1., 1., 0.]], dtype=float32)
    """
    return tril(ones((n_rows, n_rows if n_cols is None else n_cols), dtype), k)


def _triangle(n, k, m, lower):
    n, k = _arguments.extent(here("n"), n), _arguments.integer(here("k"), k, -(1 << 40), 1 << 40)
    m = n if m is None else _arguments.extent(here("m"), m)
    first = k + (1 if lower else 0)  # how many of row 0 are counted, were it longer on both sides
    below = _clipped_sum(first + n, m) - _clipped_sum(first, m)
    kept = tri(n, m, k if lower else k - 1, _dtypes.bool)
    return nonzero(kept if lower else ~kept, size=below if lower else n * m - below)


def _clipped_sum(n, most):
    """The sum of min(i, most) for i from 0 to n - 1."""
    rising = _shapes.largest(0, _shapes.least(n, most + 1))
    return rising * (rising - 1) // 2 + _shapes.largest(0, n - rising) * most


def tril_indices(n, k=0, m=None):
    """Where a matrix has elements on and below a diagonal: (rows, columns).

    >>> hop.tril_indices(2)
    (Array([0, 1, 1], dtype=int64), Array([0, 0, 1], dtype=int64))
    """
    return _triangle(n, k, m, True)


def triu_indices(n, k=0, m=None):
    """Where a matrix has elements on and above a diagonal: (rows, columns).

    >>> hop.triu_indices(2)
    (Array([0, 0, 1], dtype=int64), Array([0, 1, 1], dtype=int64))
    """
    return _triangle(n, k, m, False)


def diag_indices(n, ndim=2):
    """Where an array with equal sizes has its diagonal.

    >>> hop.diag_indices(3)[0]
    Array([0, 1, 2], dtype=int64)
    """
    return (arange(_arguments.extent(here("n"), n)),) * _arguments.size(here("ndim"), ndim)


def diag(x, /, k=0):
    """The diagonal of a matrix, k above the main one; of a vector the matrix that has it there.

    >>> hop.diag(hop.asarray([[1, 2], [3, 4]]))
    Array([1, 4], dtype=int64)
    >>> hop.diag(hop.asarray([1, 2]))
    Array([[1, 0],
           [0, 2]], dtype=int64)
    """
    x, k = _array(x), _arguments.integer(here("k"), k, -(1 << 31), 1 << 31)
    if x.ndim == 2:
        return diagonal(x, offset=k)
    if x.ndim != 1:
        raise _arguments.wrong(here("x"), "a vector or a matrix", x)
    n = x.shape[0] + builtins.abs(k)
    line = pad(x, (0, builtins.abs(k)))
    return where(
        eye(n, n, k=k, dtype=_dtypes.bool), expand_dims(line, 1 if k > 0 else 0), zeros((), dtype=x.dtype)
    )


def diagflat(x, /, k=0):
    """The matrix with the elements of x on a diagonal.

    >>> hop.diagflat(hop.asarray([[1, 2]]))
    Array([[1, 0],
           [0, 2]], dtype=int64)
    """
    return diag(_vector(x), k)


def vander(x, /, n=None, *, increasing=False):
    """The powers of the elements of a vector, from n - 1 to 0, in columns.

    >>> hop.vander(hop.asarray([2, 3]), 3)
    Array([[4, 2, 1],
           [9, 3, 1]], dtype=int64)
    """
    x = _array(x)
    if x.ndim != 1:
        raise _arguments.wrong(here("x"), "a vector", x)
    n = x.shape[0] if n is None else _arguments.extent(here("n"), n)
    rest = broadcast_to(expand_dims(x, 1), (x.shape[0], _shapes.largest(n - 1, 0)))
    factors = concat([expand_dims(ones_like(x), 1), rest], axis=1)
    powers = cumulative_prod(factors, axis=1, dtype=x.dtype)[:, :n]
    return powers if increasing else flip(powers, axis=1)


def logspace(start, stop, /, num=50, endpoint=True, *, base=10.0, dtype=None):
    """num powers of the base, with exponents evenly from start to stop.

    >>> hop.logspace(0, 2, 3)
    Array([  1.,  10., 100.], dtype=float32)
    """
    start, stop, base = [
        _arguments.real(here(n), v) for n, v in (("start", start), ("stop", stop), ("base", base))
    ]
    return _spaced(num, endpoint, dtype, lambda t: base ** (start + t * (stop - start)))


def geomspace(start, stop, /, num=50, endpoint=True, *, dtype=None):
    """num numbers from start to stop, each the same multiple of the one before.

    >>> hop.geomspace(1, 8, 4)
    Array([1., 2., 4., 8.], dtype=float32)
    """
    start, stop = _arguments.real(here("start"), start), _arguments.real(here("stop"), stop)
    if not start * stop > 0:
        raise InvalidError(f"{_core.call_place()}expected two numbers of one sign, found {start} and {stop}")
    return _spaced(num, endpoint, dtype, lambda t: start * (stop / start) ** t)


def _spaced(num, endpoint, dtype, at):
    num, endpoint = _arguments.extent(here("num"), num), _arguments.flag(here("endpoint"), endpoint)
    d = float32 if dtype is None else as_dtype(dtype)
    if isinstance(num, _shapes.Size):
        return astype(at(linspace(0, 1, num, endpoint, dtype=float64)), d)
    if num > 1 << 24:
        _core.full(d.code, (num,), 0)  # what no memory can hold is refused before it is counted out
    parts = builtins.max(1, num - 1 if endpoint else num)
    try:
        numbers = [at(i / parts) for i in range(num)]
    except OverflowError:
        raise InvalidError(f"{_core.call_place()}the numbers do not fit into {d}") from None
    return _core.from_numbers(d.code, (num,), numbers)


def indices(dimensions, dtype=int64, *, sparse=False):
    """For each axis of a shape the position along it, everywhere: stacked along a new first axis, or a tuple
    of slim arrays.

    >>> hop.indices((2, 2))[1]
    Array([[0, 1],
           [0, 1]], dtype=int64)
    """
    dims = _dims(dimensions)
    lines = [arange(n, dtype=dtype) for n in dims]
    if _arguments.flag(here("sparse"), sparse):
        return ix_(*lines)
    return stack(meshgrid(*lines, indexing="ij")) if dims else zeros((0,), dtype)


def ix_(*sequences):
    """Arrays that index the grid of several vectors of positions: x[hop.ix_(rows, columns)]. A mask stands
    for where it holds.

    >>> hop.arange(9).reshape(3, 3)[hop.ix_([0, 2], [1])]
    Array([[1],
           [7]], dtype=int64)
    """
    out = []
    for i, s in enumerate(sequences):
        s = _array(s)
        if s.ndim != 1:
            raise _arguments.wrong(here(f"argument {i}"), "a vector", s)
        s = nonzero(s)[0] if s.dtype is _dtypes.bool else astype(s, int64) if _shapes.empty(s.shape) else s
        out.append(reshape(s, (1,) * i + (-1,) + (1,) * (len(sequences) - 1 - i)))
    return tuple(out)


def unravel_index(indices, shape):
    """Positions in an array without axes as positions along each axis of a shape.

    >>> hop.unravel_index(hop.asarray([5]), (2, 3))
    (Array([1], dtype=int64), Array([2], dtype=int64))
    """
    at, out = _integers(here("indices"), indices)[0], []
    for n in reversed(_dims(shape)):
        out.append(at % n)
        at = at // n
    return tuple(reversed(out))


def ravel_multi_index(multi_index, dims):
    """Positions along each axis of a shape as positions in an array without axes.

    >>> hop.ravel_multi_index((hop.asarray([1]), hop.asarray([2])), (2, 3))
    Array([5], dtype=int64)
    """
    sizes = _dims(dims)
    if not isinstance(multi_index, (tuple, list)) or len(multi_index) != len(sizes):
        raise _arguments.wrong(here("multi_index"), f"an array for each of {len(sizes)} axes", multi_index)
    at = zeros((), int64)
    for n, i in zip(sizes, _integers(here("multi_index"), *multi_index)):
        at = at * n + i
    return at


__all__ = _public(globals())
