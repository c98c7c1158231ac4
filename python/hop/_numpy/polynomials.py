"""Polynomials: their coefficients from the highest power down."""

import builtins

from .. import _arguments, _shapes
from .._arguments import here
from .._ops import arange, astype, broadcast_to, concat, flip, pad, zeros_like
from .._ops.common import _public
from .._ops.creation import _array
from .._ops.elementwise import _as_real
from .arranging import _line
from .products import _convolved


def polyval(p, x, /):
    """The polynomial with the coefficients p, from the highest power down, at x.

    >>> hop.polyval(hop.asarray([1.0, 0.0, -1.0]), 3.0)
    Array(8., dtype=float32)
    """
    from .._control import fori_loop

    p, x = _line("p", p), _array(x)
    n = p.shape[0]
    first = broadcast_to(p[0], x.shape) + zeros_like(x)
    if isinstance(n, _shapes.Size) or n > 64:
        return fori_loop(1, n, lambda i, out: out * x + p[i], first)
    for i in range(1, n):
        first = first * x + p[i]
    return first


def _coefficients(a1, a2):
    a1, a2 = _line("a1", a1), _line("a2", a2)
    n = _shapes.largest(a1.shape[0], a2.shape[0])
    return [pad(a, (n - a.shape[0], 0)) for a in (a1, a2)]


def polyadd(a1, a2, /):
    """The sum of two polynomials.

    >>> hop.polyadd(hop.asarray([1, 2]), hop.asarray([1, 0, 0]))
    Array([1, 1, 2], dtype=int64)
    """
    a1, a2 = _coefficients(a1, a2)
    return a1 + a2


def polysub(a1, a2, /):
    """The difference of two polynomials.

    >>> hop.polysub(hop.asarray([1, 2]), hop.asarray([1, 0, 0]))
    Array([-1,  1,  2], dtype=int64)
    """
    a1, a2 = _coefficients(a1, a2)
    return a1 - a2


def polymul(a1, a2, /):
    """The product of two polynomials.

    >>> hop.polymul(hop.asarray([1, 1]), hop.asarray([1, -1]))
    Array([ 1,  0, -1], dtype=int64)
    """
    return _convolved(_line("a1", a1), _line("a2", a2), "full")


def polyder(p, /, m=1):
    """The mth derivative of a polynomial.

    >>> hop.polyder(hop.asarray([1.0, 0.0, -1.0]))
    Array([2., 0.], dtype=float32)
    """
    p = _line("p", p)
    m, n = _arguments.size(here("m"), m), p.shape[0]
    for _ in range(m if isinstance(n, _shapes.Size) else builtins.min(m, n)):
        n = p.shape[0] - 1
        p = p[:-1] * flip(astype(arange(1, n + 1), p.dtype))
    return p


def polyint(p, /, m=1, k=0):
    """The mth integral of a polynomial; k is the constant, or one for each integral.

    >>> hop.polyint(hop.asarray([2.0, 1.0]))
    Array([1., 1., 0.], dtype=float32)
    """
    p = _as_real(_line("p", p))
    m = _arguments.integer(here("m"), m, 0, 1000)
    constants = list(k) if isinstance(k, (tuple, list)) else [k] * m
    if len(constants) != m:
        raise _arguments.wrong(here("k"), f"a constant, or {m}", k)
    for c in constants:
        p = concat(
            [
                p / flip(astype(arange(1, p.shape[0] + 1), p.dtype)),
                broadcast_to(astype(_array(c), p.dtype), (1,)),
            ]
        )
    return p


__all__ = _public(globals())
