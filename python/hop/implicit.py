"""Implicit differentiation: roots, fixed points and minima as functions of what their equations use from
outside. Derivatives are those of the solution, known there whatever led to it; the solver is not
differentiated, and may be anything.

>>> import hop
>>> def kepler(e, m):
...     return hop.implicit.root(lambda x: x - e * hop.sin(x) - m, m)
>>> hop.grad(kepler, (0, 1))(0.0, 0.5)
(Array(0.47942555, dtype=float32), Array(1., dtype=float32))
"""

__all__ = ["fixed_point", "minimum", "root"]

from . import _arguments, tree
from ._control import while_loop
from ._dtypes import finfo
from ._ops import abs as _abs, isfinite, max as _max, where
from ._ops.creation import asarray, eye, zeros_like
from ._ops.products import diagonal
from ._solves import root as _root
from ._transforms import grad, hessian, jacfwd, jvp
from .flatten_util import ravel_pytree
from .linalg import solve as _solve


def root(f, initial_guess, solve=None, tangent_solve=None, *, tol=None, max_trips=100):
    """The x with f(x) = 0, near a guess; f takes and gives trees of arrays like it. It is a function of what
    f uses from outside, with derivatives in both modes and of higher orders; that of the guess is zero.

    solve(f, guess) finds it: Newton's method when not said, until steps are below tol (2/3 of the digits of
    the dtype) beside x, or hop.CheckError after max_trips of them. tangent_solve(g, y) gives the z with
    g(z) = y for a linear function g, which the derivative of f or its transpose is: by the whole matrix when
    not said.

    >>> def side(a):
    ...     return hop.implicit.root(lambda x: x**3 - a, hop.asarray(1.0))
    >>> side(8.0), hop.grad(side)(8.0)
    (Array(2., dtype=float32), Array(0.08333334, dtype=float32))
    """
    _check("root", f, solve, tangent_solve)
    by = tangent_solve or _by_matrix
    guess = tree.map(asarray, initial_guess)
    return _root("implicit.root", f, guess, solve or _newton(by, tol, max_trips), by, None, False)


def fixed_point(g, initial_guess, solve=None, tangent_solve=None, *, tol=None, max_trips=1000):
    """The x with g(x) = x, near a guess; g takes and gives trees of arrays like it. It is a function of what
    g uses from outside, with derivatives in both modes and of higher orders; that of the guess is zero.

    solve(g, guess) finds it: g applied again and again when not said, until nothing moves by more than tol
    (3/4 of the digits of the dtype) beside x, or hop.CheckError after max_trips. tangent_solve(l, y) gives
    the z with l(z) = y for a linear function l, which the derivative of g(x) - x or its transpose is: by
    iteration, without a matrix, when not said.

    >>> def layer(w):
    ...     return hop.implicit.fixed_point(lambda x: hop.tanh(w * x + 1), hop.asarray(0.0))
    >>> x = layer(0.5)
    >>> bool(hop.abs(hop.tanh(0.5 * x + 1) - x) < 1e-6)
    True
    >>> hop.grad(layer)(0.5)
    Array(0.19737221, dtype=float32)
    """
    _check("fixed_point", g, solve, tangent_solve)
    guess = tree.map(asarray, initial_guess)
    find = solve or (lambda g, x: _iterated(g, x, tol, max_trips))

    def by_iteration(product, y):
        next_ = lambda z: tree.map(lambda a, b, c: a + b - c, product(z), z, y)  # noqa: E731
        return _iterated(next_, y, tol, max_trips, False)

    def f(x):
        return tree.map(lambda a, b: a - b, g(x), x)

    return _root(
        "implicit.fixed_point", f, guess, lambda _, x: find(g, x), tangent_solve or by_iteration, None, False
    )  # fmt: skip


def minimum(cost, initial_guess, solve=None, tangent_solve=None, *, tol=None, max_trips=200):
    """The x where cost(x), a number, is least, near a guess, a tree of arrays. It is a function of what cost
    uses from outside, with derivatives in both modes and of higher orders; that of the guess is zero.

    solve(cost, guess) finds it: Newton's method with damping when not said, until steps are below tol (2/3 of
    the digits of the dtype) beside x, or hop.CheckError after max_trips. tangent_solve(h, y) gives the z with
    h(z) = y, where h is the product with the second derivative: by the whole matrix when not said.

    >>> def ridge(weight):
    ...     x, y = hop.asarray([1.0, 2.0, 3.0]), hop.asarray([2.0, 4.0, 6.0])
    ...     return hop.implicit.minimum(lambda w: hop.sum((w * x - y) ** 2) + weight * w**2, 0.0)
    >>> ridge(0.0), ridge(14.0), hop.grad(ridge)(14.0)
    (Array(2., dtype=float32), Array(1., dtype=float32), Array(-0.03571429, dtype=float32))
    """
    _check("minimum", cost, solve, tangent_solve)
    guess = tree.map(asarray, initial_guess)
    find = solve or (lambda cost, x: _least(cost, x, tol, max_trips))
    return _root(
        "implicit.minimum", grad(cost), guess, lambda _, x: find(cost, x), tangent_solve or _by_matrix, True,
        False,
    )  # fmt: skip


def _check(name, fun, solve, tangent_solve):
    what = f"implicit.{name}"
    _arguments.function(f"{what}: {'cost' if name == 'minimum' else 'f'}", fun)
    for role, given in (("solve", solve), ("tangent_solve", tangent_solve)):
        if given is not None:
            _arguments.function(f"{what}: {role}", given)


# ---- solvers ----


def _by_matrix(g, y):
    flat, unravel = ravel_pytree(y)
    matrix = jacfwd(lambda v: ravel_pytree(g(unravel(v)))[0])(zeros_like(flat))
    return unravel(_solve(matrix, flat))


def _size(x):
    """The largest absolute value in a tree."""
    out = None
    for leaf in tree.leaves(x):
        if leaf.size:
            most = _max(_abs(leaf))
            out = most if out is None else where(most > out, most, out)
    return asarray(0.0) if out is None else out


def _tolerance(x, tol, part):
    if tol is not None:
        return tol
    return max([float(finfo(leaf.dtype).eps) for leaf in tree.leaves(x)], default=1.0) ** part


def _newton(tangent_solve, tol, max_trips):
    def solve(f, x):
        small = _tolerance(x, tol, 2 / 3)

        def step(c):
            x, _ = c
            by = tangent_solve(lambda v: jvp(f, (x,), (v,))[1], f(x))
            return tree.map(lambda a, b: a - b, x, by), _size(by)

        going = lambda c: ~(c[1] <= small * (1 + _size(c[0])))  # noqa: E731
        return while_loop(going, step, (x, _size(x) + 2 + _size(x)), max_trips=max_trips)[0]

    return solve


def _iterated(g, x, tol, max_trips, beside_one=True):
    """x, g(x), g(g(x)), … until nothing moves."""
    small = _tolerance(x, tol, 3 / 4)

    def step(c):
        now = g(c[0])
        return now, _size(tree.map(lambda a, b: a - b, now, c[0]))

    going = lambda c: ~(c[1] <= small * ((1 if beside_one else 0) + _size(c[0])))  # noqa: E731
    return while_loop(going, step, step((x, None)), max_trips=max_trips)[0]


def _least(cost, x, tol, max_trips):
    """Newton's method with a multiple of the unit matrix added, more of it after a step that does not lower
    the cost and less after one that does."""
    flat, unravel = ravel_pytree(x)
    small = _tolerance(x, tol, 2 / 3)
    of_flat = lambda v: cost(unravel(v))  # noqa: E731
    noise = float(finfo(flat.dtype).eps)
    unit = eye(flat.shape[0], dtype=flat.dtype)

    def step(c):
        x, value, damping, _ = c
        h = hessian(of_flat)(x)
        scale = _max(_abs(diagonal(h))) + noise
        by = _solve(h + damping * scale * unit, grad(of_flat)(x))
        there = of_flat(x - by)
        lower = isfinite(there) & (there <= value + 4 * noise * _abs(value))
        moved = where(isfinite(_size(by)), _size(by), 2 + 2 * _size(x))
        return (
            where(lower, x - by, x), where(lower, there, value),
            where(lower, damping * 0.1, damping * 10), moved,
        )  # fmt: skip

    start = (flat, of_flat(flat), asarray(1e-3, dtype=flat.dtype), 2 + 2 * _size(flat))
    going = lambda c: ~(c[3] <= small * (1 + _size(c[0])))  # noqa: E731
    return unravel(while_loop(going, step, start, max_trips=max_trips)[0])
