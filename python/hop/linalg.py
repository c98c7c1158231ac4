"""Linear algebra, under the names of the array-API standard: products, norms, and what follows from
elimination, Cholesky's and Householder's methods.

Every function takes matrices in the last two axes, as many as the axes before them say. They are hop
programs: loops over columns that are compiled once for each shape, that differentiate in both modes to any
order and batch under vmap. A matrix that has no answer (a singular one for inv and solve, one that is not
positive definite for cholesky) gives inf or NaN, not an error.
"""

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "norm", "outer", "pinv", "qr", "slogdet", "solve",
    "solve_triangular", "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip

import builtins
import collections
import math

from . import _arguments, _dtypes, _ops, _shapes
from ._control import fori_loop, while_loop
from ._jit import jit
from ._ops import (
    abs, any, arange, argmax, argsort, asarray, astype, broadcast_to, concat, copysign, count_nonzero,
    diagonal, expand_dims, eye, flip, full, isfinite, log, matmul, matrix_transpose, max, min, moveaxis, ones,
    outer, prod, sign, sqrt, stack, sum, take, tensordot, trace, triu, vecdot, where, zeros, zeros_like,
)  # fmt: skip
from ._ops.common import _along
from ._transforms import vmap

QRResult = collections.namedtuple("QRResult", ["Q", "R"])
SlogdetResult = collections.namedtuple("SlogdetResult", ["sign", "logabsdet"])
EighResult = collections.namedtuple("EighResult", ["eigenvalues", "eigenvectors"])
SVDResult = collections.namedtuple("SVDResult", ["U", "S", "Vh"])


# ---- matrices one by one ----


def _real(x):
    """An array of floats."""
    x = asarray(x)
    return x if x.dtype.kind == "f" else astype(x, _dtypes.result_type(x, 1.0))


def _matrix(x, name, square=False):
    x = _real(x)
    if x.ndim < 2:
        raise ValueError(f"{name}: a matrix has two axes at least, this array has {x.ndim}")
    if square and _shapes.differ(x.shape[-1], x.shape[-2]):
        raise ValueError(f"{name}: expected square matrices, found {x.shape[-2]} by {x.shape[-1]}")
    return x


def _compiled(function):
    """The function of single matrices, on stacks of them: compiled once for each shape."""
    one, many = jit(function), jit(vmap(function))

    def apply(x, *others):
        before = _ops.broadcast_shapes(*[a.shape[:-2] for a in (x, *others)])
        if not before:
            return one(x, *others)
        flat = [
            broadcast_to(a, (*before, *a.shape[-2:])).reshape((math.prod(before), *a.shape[-2:]))
            for a in (x, *others)
        ]
        out = many(*flat)
        shaped = [a.reshape((*before, *a.shape[1:])) for a in (out if isinstance(out, tuple) else (out,))]
        return tuple(shaped) if isinstance(out, tuple) else shaped[0]

    return apply


def _no_elements(*arrays):
    return builtins.any(_shapes.empty(a.shape) for a in arrays)


# ---- elimination ----


def _eliminate(m, stop_at_zero):
    """Gauss's and Jordan's elimination of the square part in front, the largest element of each column
    first: (what it becomes, the pivots, the sign of the exchange)."""
    n = m.shape[0]
    rows = arange(n)

    def column(k, carry):
        m, pivots, parity = carry
        below = where(rows >= k, abs(take(m, k, axis=1)), -1)
        p = argmax(below)
        lower = m[p]
        pivot = lower[k]
        row = lower / (where(pivot == 0, 1, pivot) if stop_at_zero else pivot)
        m = m.at[p].set(m[k]).at[k].set(row)
        factors = where(rows == k, 0, take(m, k, axis=1))
        return m - factors[:, None] * row[None, :], pivots.at[k].set(pivot), where(p == k, parity, -parity)

    return fori_loop(0, n, column, (m, zeros(n, dtype=m.dtype), ones((), dtype=m.dtype)))


@_compiled
def _solved(a, b):
    return _eliminate(concat([a, b], axis=1), False)[0][:, a.shape[1] :]


@_compiled
def _pivots(a):
    _, pivots, parity = _eliminate(a, True)
    return pivots, parity


def inv(x, /):
    """The inverses of square matrices.

    To solve equations hop.linalg.solve is quicker and more exact.

    >>> hop.linalg.inv(hop.asarray([[2.0, 0.0], [0.0, 4.0]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    x = _matrix(x, "inv", square=True)
    return +x if _no_elements(x) else _solved(x, eye(x.shape[-1], dtype=x.dtype))


def solve(x1, x2, /):
    """The solutions y of x1 @ y = x2. A vector x2 is one right-hand side for all matrices; otherwise its
    last two axes are matrices.

    >>> hop.linalg.solve(hop.asarray([[4.0, 2.0], [2.0, 3.0]]), hop.asarray([8.0, 8.0]))
    Array([1., 2.], dtype=float32)
    """
    return _right_sides(x1, x2, "solve", _solved)


@_compiled
def _substituted(a, b):
    a = _ops.tril(a)
    return fori_loop(0, a.shape[0], lambda k, y: y.at[k].set((b[k] - a[k] @ y) / a[k, k]), zeros_like(b))


def solve_triangular(x1, x2, /, *, lower=False):
    """The solutions y of x1 @ y = x2, of which only the upper (with lower only the lower) triangle of x1
    is read; n² of work for each column of x2.

    >>> a = hop.asarray([[2.0, 0.0], [1.0, 1.0]])
    >>> hop.linalg.solve_triangular(a, hop.asarray([2.0, 3.0]), lower=True)
    Array([1., 2.], dtype=float32)
    """
    x1, x2 = asarray(x1), asarray(x2)
    if lower:
        return _right_sides(x1, x2, "solve_triangular", _substituted)
    turned = _right_sides(
        flip(x1, axis=(-2, -1)) if x1.ndim > 1 else x1,
        flip(x2, axis=-1 if x2.ndim == 1 else -2) if x2.ndim else x2,
        "solve_triangular",
        _substituted,
    )
    return flip(turned, axis=-1 if x2.ndim == 1 else -2)


def _right_sides(x1, x2, name, method):
    x1, x2 = asarray(x1), asarray(x2)
    d = _dtypes.result_type(x1, x2, 1.0)
    x1, x2 = _matrix(astype(x1, d, copy=False), name, square=True), astype(x2, d, copy=False)
    vector = x2.ndim == 1
    right = x2[:, None] if vector else x2
    if _shapes.differ(right.shape[-2], x1.shape[-1]):
        raise ValueError(f"{name}: matrices of {x1.shape[-1]} rows, and {right.shape[-2]} rows on the right")
    if _no_elements(x1, right):
        out = zeros((*_ops.broadcast_shapes(x1.shape[:-2], right.shape[:-2]), *right.shape[-2:]), dtype=d)
    else:
        out = method(x1, right)
    return out[..., 0] if vector else out


def det(x, /):
    """The determinants of square matrices.

    Axes in front of the last two are a batch.

    >>> hop.linalg.det(hop.asarray([[4.0, 2.0], [2.0, 3.0]]))
    Array(8., dtype=float32)
    """
    x = _matrix(x, "det", square=True)
    if _no_elements(x):
        return ones(x.shape[:-2], dtype=x.dtype)
    pivots, parity = _pivots(x)
    return parity * prod(pivots, axis=-1)


def slogdet(x, /):
    """The signs of the determinants of square matrices, and the logarithms of their absolute values:
    (sign, logabsdet).

    For determinants too large or small for a float.

    >>> hop.linalg.slogdet(hop.asarray([[-1.0, 0.0], [0.0, 1.0]]))
    SlogdetResult(sign=Array(-1., dtype=float32), logabsdet=Array(0., dtype=float32))
    """
    x = _matrix(x, "slogdet", square=True)
    if _no_elements(x):
        return SlogdetResult(ones(x.shape[:-2], dtype=x.dtype), zeros(x.shape[:-2], dtype=x.dtype))
    pivots, parity = _pivots(x)
    return SlogdetResult(parity * prod(sign(pivots), axis=-1), sum(log(abs(pivots)), axis=-1))


def matrix_power(x, n, /):
    """Square matrices multiplied n times; n may be negative. By repeated squaring; n = 0 gives the
    identity, a negative n the power of the inverse.

    >>> hop.linalg.matrix_power(hop.asarray([[1.0, 1.0], [0.0, 1.0]]), 5)
    Array([[1., 5.],
           [0., 1.]], dtype=float32)
    """
    n = _arguments.integer("matrix_power: n", n)
    x = asarray(x) if n >= 0 else inv(x)
    if x.ndim < 2 or _shapes.differ(x.shape[-1], x.shape[-2]):
        raise ValueError(f"matrix_power: expected square matrices, found shape {x.shape}")
    out, n = None, builtins.abs(n)
    while n:
        if n & 1:
            out = x if out is None else out @ x
        n >>= 1
        x = x @ x if n else x
    return +out if out is not None else broadcast_to(eye(x.shape[-1], dtype=x.dtype), x.shape)


# ---- decompositions ----


@_compiled
def _cholesky(a):
    n = a.shape[0]
    rows = arange(n)

    def column(k, lower):
        rest = take(a, k, axis=1) - lower @ lower[k]
        return lower.at[:, k].set(where(rows >= k, rest / sqrt(rest[k]), 0))

    return fori_loop(0, n, column, zeros_like(a))


def cholesky(x, /, *, upper=False):
    """The triangular matrix L with x = L @ L.mT (or U with x = U.mT @ U). x is symmetric and positive
    definite; its lower (upper) triangle is read.

    >>> hop.linalg.cholesky(hop.asarray([[4.0, 2.0], [2.0, 3.0]]))
    Array([[2.       , 0.       ],
           [1.       , 1.4142135]], dtype=float32)
    """
    x = _matrix(x, "cholesky", square=True)
    if upper:
        x = matrix_transpose(x)
    lower = +x if _no_elements(x) else _cholesky(x)
    return matrix_transpose(lower) if upper else lower


@_compiled
def _householder(a):
    m, n = a.shape
    rows = arange(m)

    def column(k, carry):
        q, r = carry
        below = where(rows >= k, take(r, k, axis=1), 0)
        square = sum(below * below)
        nothing = square == 0  # nothing to reflect; the roots and quotients below must stay differentiable
        head = below[k]
        v = below.at[k].set(head + copysign(sqrt(where(nothing, 1, square)), head))
        scale = where(nothing, 0, 2 / sum(v * v))
        return q - scale * outer(q @ v, v), r - scale * outer(v, v @ r)

    return fori_loop(0, _shapes.least(m, n), column, (eye(m, dtype=a.dtype), a))


def qr(x, /, mode="reduced"):
    """x = Q @ R with orthonormal columns in Q and an upper triangular R; mode="complete" gives a square Q.

    >>> q, r = hop.linalg.qr(hop.asarray([[3.0, 1.0], [4.0, 2.0]]))
    >>> hop.allclose(q @ r, hop.asarray([[3.0, 1.0], [4.0, 2.0]]), atol=1e-5), r[1, 0]
    (Array(True, dtype=bool), Array(0., dtype=float32))
    """
    x = _matrix(x, "qr")
    if mode not in ("reduced", "complete"):
        raise ValueError(f'qr: the mode is "reduced" or "complete", not {mode!r}')
    m, n = x.shape[-2:]
    q, r = (
        (broadcast_to(eye(m, dtype=x.dtype), (*x.shape[:-2], m, m)), x)
        if _no_elements(x)
        else _householder(x)
    )
    k = m if mode == "complete" else _shapes.least(m, n)
    return QRResult(q[..., :k], triu(r[..., :k, :]))


# ---- eigenvalues and singular values: Jacobi's rotations ----
#
# Rotations of disjoint pairs are made together. The lines of a matrix are kept in an order in which line i is
# paired with line i + half; after each round
# one line stays and the others move one seat on, so that after as many rounds as there are others everyone
# has met everyone and sits as in the beginning.


def _seats(n):
    """The order that moves the lines on by one seat; n is even."""
    half = n // 2
    circle = [*range(1, half), *range(n - 1, half - 1, -1)]
    order = list(range(n))
    for to, seat in zip(circle, circle[-1:] + circle[:-1]):
        order[to] = seat
    return order


def _angle(p, q, twice_both):
    """cos and sin of the rotation, by an eighth of a turn at most, that makes the element that both share
    0. Smooth where that element is 0 already."""
    d = q - p
    square = d * d + twice_both * twice_both
    t = twice_both / where(square == 0, 1, d + copysign(sqrt(where(square == 0, 1, square)), d))
    c = 1 / sqrt(1 + t * t)
    return c, t * c


def _turned(x, c, s):
    """The columns of x in pairs, turned."""
    half = x.shape[1] // 2
    p, q = x[:, :half], x[:, half:]
    return concat([c * p - s * q, s * p + c * q], axis=1)


def _sweeps(start, off, turn, n):
    """Sweeps of n - 1 rounds until what is off is off by rounding errors alone, and one more: derivatives
    arrive a sweep later."""
    order = asarray(_seats(n), dtype=_dtypes.int64)

    def sweep(carry):
        state, trips, last = carry
        return fori_loop(0, n - 1, lambda _, s: turn(s, order), state), trips + 1, ~off(state)

    return while_loop(lambda carry: ~carry[2] & (carry[1] < 40), sweep, (start, asarray(0), asarray(False)))[
        0
    ]


def _scale(a):
    """What to divide a matrix by, so that no square of an element overflows."""
    largest = max(abs(a))
    return _ops.stop_gradient(where((largest > 0) & isfinite(largest), largest, 1))


@_compiled
def _eigh(a):
    size, d = a.shape[0], a.dtype
    n = size + size % 2
    half = n // 2
    scale = _scale(a)
    a = _ops.pad(a / scale, [(0, n - size)] * 2)
    eps = _dtypes.finfo(d).eps

    def off(state):
        square = state[0] * state[0]
        return sum(square) - sum(diagonal(square)) > (eps * eps * n) * sum(square)

    def turn(state, order):
        a, v = state
        main = diagonal(a)
        c, s = _angle(main[:half], main[half:], 2 * diagonal(a, offset=half))
        a = _turned(matrix_transpose(_turned(a, c, s)), c, s)
        return take(take(a, order, axis=0), order, axis=1), take(_turned(v, c, s), order, axis=1)

    a, v = _sweeps((a, eye(n, dtype=d)), off, turn, n)
    values = diagonal(a)[:size] * scale
    order = argsort(values)
    return take(values, order), take(v[:size, :size], order, axis=1)


@_compiled
def _svd(a):
    """Of a matrix with as many rows as columns or more: its columns are turned until each is orthogonal to
    the others. (columns, turns, what the columns were divided by)"""
    size, d = a.shape[1], a.dtype
    n = size + size % 2
    half = n // 2
    eps = _dtypes.finfo(d).eps

    def off(state):
        products = matrix_transpose(state[0]) @ state[0]
        lengths = sqrt(diagonal(products))
        return any(
            abs(products - products * eye(n, dtype=d)) > (4 * eps) * lengths[:, None] * lengths[None, :]
        )

    def turn(state, order):
        w, v = state
        p, q = w[:, :half], w[:, half:]
        c, s = _angle(sum(p * p, axis=0), sum(q * q, axis=0), 2 * sum(p * q, axis=0))
        return take(_turned(w, c, s), order, axis=1), take(_turned(v, c, s), order, axis=1)

    scale = _scale(a)
    w, v = _sweeps((_ops.pad(a / scale, [(0, 0), (0, n - size)]), eye(n, dtype=d)), off, turn, n)
    w, v = w[:, :size], v[:size, :size]
    order = argsort(sum(w * w, axis=0), descending=True)
    return take(w, order, axis=1), take(v, order, axis=1), scale


def eigh(x, /):
    """The eigenvalues of symmetric matrices, ascending, and their eigenvectors as columns: (eigenvalues,
    eigenvectors). The upper triangle is read.

    >>> hop.linalg.eigh(hop.asarray([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    Array([1., 2.], dtype=float32)
    """
    x = _matrix(x, "eigh", square=True)
    if _no_elements(x):
        return EighResult(zeros(x.shape[:-1], dtype=x.dtype), +x)
    upper = triu(x)
    return EighResult(*_eigh(upper + matrix_transpose(triu(x, k=1))))


def eigvalsh(x, /):
    """The eigenvalues of symmetric matrices, ascending. As hop.linalg.eigh without the eigenvectors; the
    gradient is finite where eigenvalues are equal.

    >>> hop.linalg.eigvalsh(hop.asarray([[2.0, 1.0], [1.0, 2.0]]))
    Array([0.99999994, 2.9999998 ], dtype=float32)
    """
    return eigh(x)[0]


def svd(x, /, full_matrices=True):
    """x = U @ diag(S) @ Vh with orthonormal U and Vh and singular values S, largest first. With
    full_matrices=False U and Vh have as many columns and rows as S has elements.

    >>> hop.linalg.svd(hop.asarray([[3.0, 0.0], [0.0, -2.0]])).S
    Array([3.       , 1.9999999], dtype=float32)
    """
    x = _matrix(x, "svd")
    m, n = x.shape[-2:]
    if _shapes.holds(m, "<", n):
        v, s, uh = svd(matrix_transpose(x), full_matrices=full_matrices)
        return SVDResult(matrix_transpose(uh), s, matrix_transpose(v))
    if _no_elements(x):
        columns = m if full_matrices else n
        return SVDResult(
            broadcast_to(eye(m, columns, dtype=x.dtype), (*x.shape[:-2], m, columns)),
            zeros((*x.shape[:-2], n), dtype=x.dtype),
            broadcast_to(eye(n, dtype=x.dtype), (*x.shape[:-2], n, n)),
        )
    w, v, scale = _svd(x)
    u, r = qr(w, mode="complete" if full_matrices else "reduced")
    main = diagonal(r)
    signs = copysign(full((), 1, dtype=x.dtype), _ops.stop_gradient(main))
    s = main * signs * scale[..., None]
    # lengths that differ by rounding errors may have come out in another order
    order = argsort(s, descending=True)
    columns = lambda y: (  # noqa: E731
        _ops.take_along_axis(y, broadcast_to(order[..., None, :], y.shape), axis=-1)
    )
    front = columns(u[..., :n] * signs[..., None, :])
    return SVDResult(
        concat([front, u[..., n:]], axis=-1) if full_matrices and not _shapes.equal(m, n) else front,
        _ops.take_along_axis(s, order, axis=-1),
        matrix_transpose(columns(v)),
    )


def svdvals(x, /):
    """The singular values of matrices, largest first. As hop.linalg.svd without the vectors.

    >>> hop.linalg.svdvals(hop.asarray([[3.0, 0.0], [0.0, -2.0]]))
    Array([3.       , 1.9999999], dtype=float32)
    """
    return svd(x, full_matrices=False)[1]


def _cutoff(s, shape, rtol):
    """Below it a singular value counts as 0."""
    rtol = _shapes.largest(*shape) * _dtypes.finfo(s.dtype).eps if rtol is None else rtol
    rtol = rtol[..., None] if getattr(rtol, "ndim", 0) else rtol
    return rtol * max(s, axis=-1, keepdims=True)


def matrix_rank(x, /, *, rtol=None):
    """How many singular values are larger than rtol times the largest. rtol is the larger side times the
    dtype's eps when none is given. int64.

    >>> hop.linalg.matrix_rank(hop.asarray([[1.0, 2.0], [2.0, 4.0]]))
    Array(1, dtype=int64)
    """
    x = _matrix(x, "matrix_rank")
    s = svdvals(x)
    return count_nonzero(s > _cutoff(s, x.shape[-2:], rtol), axis=-1)


def pinv(x, /, *, rtol=None):
    """The pseudo-inverses of matrices; singular values up to rtol times the largest count as 0.

    >>> hop.linalg.pinv(hop.asarray([[2.0, 0.0], [0.0, 0.0]]))
    Array([[0.5, 0. ],
           [0. , 0. ]], dtype=float32)
    """
    x = _matrix(x, "pinv")
    u, s, vh = svd(x, full_matrices=False)
    large = s > _cutoff(s, x.shape[-2:], rtol)
    return matrix_transpose(vh) @ (where(large, 1 / where(large, s, 1), 0)[..., None] * matrix_transpose(u))


# ---- norms ----


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    """The norm of vectors along axes (of all elements when not said): ord 0 counts those that are not 0,
    inf is the largest, -inf the smallest, else (sum of abs(x)**ord)**(1/ord).

    >>> hop.linalg.vector_norm(hop.asarray([3.0, 4.0]))
    Array(5., dtype=float32)
    >>> hop.linalg.vector_norm(hop.asarray([[3.0, -4.0]]), axis=1, ord=1)
    Array([7.], dtype=float32)
    """
    x = _real(x)
    size = abs(x)
    if ord == math.inf:
        return max(size, axis=axis, keepdims=keepdims)
    if ord == -math.inf:
        return min(size, axis=axis, keepdims=keepdims)
    if ord == 0:
        return astype(count_nonzero(x, axis=axis, keepdims=keepdims), x.dtype)
    if ord == 1:
        return sum(size, axis=axis, keepdims=keepdims)
    if ord == 2:
        return sqrt(sum(x * x, axis=axis, keepdims=keepdims))
    return sum(size**ord, axis=axis, keepdims=keepdims) ** (1 / ord)


def norm(x, ord=None, axis=None, keepdims=False):
    """NumPy's: vector_norm along an axis, or of all elements; matrix_norm along two, or with an order
    where x is a matrix.

    >>> hop.linalg.norm(hop.asarray([3.0, 4.0]))
    Array(5., dtype=float32)
    """
    x = _real(x)
    if axis is None and (ord is None or x.ndim == 1):
        return vector_norm(x, keepdims=keepdims, ord=2 if ord is None else ord)
    axes = range(x.ndim) if axis is None else axis
    if isinstance(axes, int) or isinstance(axes, (tuple, list)) and len(axes) == 1:
        return vector_norm(x, axis=axes, keepdims=keepdims, ord=2 if ord is None else ord)
    if not isinstance(axes, (tuple, list, range)) or len(axes) != 2:
        raise _arguments.wrong("norm: axis", "an axis of vectors or two of matrices", axes)
    axes = [_along(x, a) for a in axes]
    out = matrix_norm(moveaxis(x, axes, (-2, -1)), ord="fro" if ord is None else ord)
    return expand_dims(out, axis=tuple(axes)) if keepdims else out


def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    """The norm of matrices: "fro" (the root of the sum of squares), 1 and -1 (the largest and smallest sum
    of a column), inf and -inf (of a row), 2 and -2 (the largest and smallest singular value), "nuc" (the
    sum of the singular values).

    >>> hop.linalg.matrix_norm(hop.asarray([[3.0, 0.0], [0.0, 4.0]]))
    Array(5., dtype=float32)
    >>> hop.linalg.matrix_norm(hop.asarray([[3.0, 0.0], [0.0, 4.0]]), ord=hop.inf)
    Array(4., dtype=float32)
    """
    x = _matrix(x, "matrix_norm")
    if ord == "fro":
        return sqrt(sum(x * x, axis=(-2, -1), keepdims=keepdims))
    best = max if ord in (1, 2, math.inf) else min
    if ord in (1, -1):
        out = best(sum(abs(x), axis=-2), axis=-1)
    elif ord in (math.inf, -math.inf):
        out = best(sum(abs(x), axis=-1), axis=-1)
    elif ord in (2, -2):
        out = best(svdvals(x), axis=-1)
    elif ord == "nuc":
        out = sum(svdvals(x), axis=-1)
    else:
        raise ValueError(f"matrix_norm: there is no order {ord!r}")
    return out[..., None, None] if keepdims else out


# ---- products ----


def cross(x1, x2, /, *, axis=-1):
    """The cross products of vectors of three elements along an axis. The axis has three elements in both; the
    others broadcast.

    >>> hop.linalg.cross(hop.asarray([1, 0, 0]), hop.asarray([0, 1, 0]))
    Array([0, 0, 1], dtype=int64)
    """
    x1, x2 = asarray(x1), asarray(x2)
    for x in (x1, x2):
        _along(x, axis)
    if _shapes.differ(x1.shape[axis], 3) or _shapes.differ(x2.shape[axis], 3):
        raise ValueError(
            f"cross: expected 3 elements along axis {axis}, found {x1.shape[axis]} and {x2.shape[axis]}"
        )
    a, b = [[moveaxis(x, axis, -1)[..., i] for i in range(3)] for x in (x1, x2)]
    parts = [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
    return moveaxis(stack(parts, axis=-1), -1, axis)
