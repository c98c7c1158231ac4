"""Solutions of equations as functions of what the equations are made of: their derivatives are those of the
solution, whatever solver found it.

A function of the user's becomes a program and the arrays that it uses from outside (_captured), its
parameters. A x = b and f(x) = 0 are then operators `custom` of these parameters, whose bodies are the solver
and whose backwards solve the transposed system. That is such an operator again, whose own backward needs one
more; they are made from the innermost on (_Systems), each once, up to _ORDERS of them, and what is inside of
the last is the solver, which is differentiated itself."""

__all__ = ["custom_linear_solve", "custom_root"]

from . import _arguments, _core, tree
from ._arguments import place, twins
from ._custom import _function, record
from ._errors import InvalidError
from ._ops import asarray, check, max as _max, stop_gradient, zeros_like
from ._trace import arrays_of, called, capture, check_same_tree, recorded, type_text

_ORDERS = 4  # of a derivative; any two of them in either mode need four


def custom_linear_solve(matvec, b, solve, transpose_solve=None, symmetric=False, has_aux=False):
    """The x with matvec(x) = b that solve(matvec, b) finds, with derivatives of the solution: with respect to
    b and to what matvec uses from outside, in both modes and of higher orders, whatever solve does.

    matvec: a linear function of trees of arrays like b. solve: any solver, direct or iterative, with or
    without the matrix. transpose_solve(vecmat, b): one of the transposed system, for gradients; without it,
    and for symmetric matrices, it is solve, given the transposed function. has_aux: solve gives (x, more).

    >>> a, b = hop.asarray([[2.0, 0.0], [1.0, 4.0]]), hop.asarray([2.0, 5.0])
    >>> def solution(a, b):
    ...     return hop.custom_linear_solve(lambda x: a @ x, b, lambda matvec, b: hop.linalg.solve(
    ...         hop.jacfwd(matvec)(b), b))
    >>> solution(a, b)
    Array([1., 1.], dtype=float32)
    >>> hop.grad(lambda b: hop.sum(solution(a, b)))(b)
    Array([0.375, 0.25 ], dtype=float32)
    """
    what = "custom_linear_solve"
    _arguments.function(f"{what}: matvec", matvec)
    _arguments.function(f"{what}: solve", solve)
    if transpose_solve is not None:
        _arguments.function(f"{what}: transpose_solve", transpose_solve)
    if not _core.tracing():
        return solve(matvec, b)

    def made():
        unknown = _Unknown(what, b, "b")
        product, theta = unknown.captured(matvec, "matvec")
        systems = _Systems(unknown, product, theta, solve, transpose_solve, symmetric, has_aux)
        return systems.solved(theta, unknown.leaves)

    return recorded(made)


def custom_root(f, initial_guess, solve, tangent_solve, has_aux=False):
    """The x with f(x) = 0 that solve(f, initial_guess) finds, with derivatives of the solution: with respect
    to what f uses from outside, in both modes and of higher orders, whatever solve does. That of the guess is
    zero.

    tangent_solve(g, y) gives the z with g(z) = y for a linear function g, the derivative of f at the
    solution, or its transpose: lambda g, y: y / g(1.0) for numbers. has_aux: solve gives (x, more).

    >>> def root(a):
    ...     newton = lambda f, x: hop.fori_loop(0, 20, lambda i, x: x - f(x) / hop.grad(f)(x), x)
    ...     return hop.custom_root(lambda x: x**2 - a, a, newton, lambda g, y: y / g(1.0))
    >>> root(2.0), hop.grad(root)(4.0)
    (Array(1.4142135, dtype=float32), Array(0.25, dtype=float32))
    """
    what = "custom_root"
    _arguments.function(f"{what}: f", f)
    _arguments.function(f"{what}: solve", solve)
    _arguments.function(f"{what}: tangent_solve", tangent_solve)
    return root(what, f, initial_guess, solve, tangent_solve, None, has_aux)


def root(what, f, guess, solve, tangent_solve, symmetric, has_aux):
    """custom_root for those who are called otherwise. symmetric: the derivative of f is."""
    if not _core.tracing():
        return solve(f, guess)
    return recorded(lambda: _root(what, f, guess, solve, tangent_solve, symmetric, has_aux))


def _root(what, f, guess, solve, tangent_solve, symmetric, has_aux):
    unknown = _Unknown(what, guess, "the guess")
    values, theta = unknown.captured(f, "f")
    n = len(unknown.leaves)
    solver = unknown.captured_solver(values, theta, solve, "solve", has_aux)

    def product(at, v):
        from ._transforms import jvp

        x, theta = at[:n], at[n:]
        return jvp(lambda *x: tuple(values(theta, x)), tuple(x), tuple(v))[1]

    # The system at a solution: its parameters are the solution and those of f.
    at = [*unknown.leaves, *theta]
    systems = _Systems(unknown, product, at, tangent_solve, None, symmetric, False, "tangent_solve")
    transposed = systems.transposed()

    def body(theta, more, systems_use, x):
        return solver(theta, more, x)

    def backward(call, g):
        (theta, _, systems_use, _), (x, _) = call
        u = transposed([*x, *theta], systems_use, g[0])
        return _pulled(lambda theta: values(theta, x), theta, [-v for v in u]), None, None, None

    guess = [stop_gradient(x) for x in unknown.leaves]
    x, aux = record(
        what, _named(body, solve), (theta, solver.more, systems.more, guess), backward=_named(backward, f)
    )  # fmt: skip
    return unknown.given(x, aux, has_aux)


class _Unknown:
    """What is looked for: its leaves now (the right side, or the guess), and its structure."""

    def __init__(self, what, like, root):
        self.what = what
        self.leaves, self.treedef = arrays_of(like, root)
        for path, x in zip(tree.leaf_paths(self.treedef), self.leaves):
            if x.dtype.kind != "f":
                raise InvalidError(
                    f"{place()}{what}: {tree.path_text(path, root)} has type {x._type}, expected floats"
                )

    def check(self, found, fun, role):
        """That a function gives a tree like this one."""
        leaves, structure = arrays_of(found, "result")

        def leaf(i, j):
            expected, is_ = self.leaves[i]._type, type_text(leaves[j])
            return None if expected == is_ else f"it has type {is_}, expected {expected}"

        check_same_tree(
            f"{self.what}: {called(role, fun)} must give a tree like what it is solved for", self.treedef,
            structure, "it", "result", leaf,
        )  # fmt: skip
        return leaves

    def captured(self, fun, role):
        """(a function of parameters and leaves that does what fun does, its parameters: what it uses from
        outside)"""
        t = capture(
            _named(lambda x: tuple(self.check(twins.of(fun)(x), fun, role)), fun),
            (tree.unflatten(self.treedef, self.leaves),),
        )
        return lambda theta, x: t.function.call([*x, *theta]), list(t.hidden)

    def captured_solver(self, product, theta, solve, role, has_aux):
        """A function of parameters, of what solve uses from outside (its attribute `more`) and of leaves,
        that gives (the leaves of what solve finds, aux). asks: whether solve calls the function that it is
        given."""

        asked = []

        def flat(theta, leaves):
            def fun(x):
                asked.append(True)
                leaves = self.check(x, solve, f"the argument of {role}")
                return tree.unflatten(self.treedef, product(theta, leaves))

            found = twins.of(solve)(fun, tree.unflatten(self.treedef, leaves))
            if not has_aux:
                return self.check(found, solve, role), None
            if not isinstance(found, (tuple, list)) or len(found) != 2:
                raise InvalidError(
                    f"{place()}{self.what}: has_aux: {called(role, solve)} must give a pair (solution, more)"
                )
            return self.check(found[0], solve, role), found[1]

        t = capture(_named(flat, solve), (list(theta), list(self.leaves)))

        def solver(theta, more, leaves):
            return tree.unflatten(t.out_tree, t.function.call([*theta, *leaves, *more]))

        solver.more, solver.asks = list(map(stop_gradient, t.hidden)), bool(asked)
        return solver

    def given(self, x, aux, has_aux):
        x = tree.unflatten(self.treedef, x)
        held = tree.map(lambda a: stop_gradient(a) if isinstance(a, _core.ArrayBase) else a, aux)
        return (x, held) if has_aux else x


class _Systems:
    """A x = b for a product A(parameters) and its transpose, as operators: down[k] and up[k] have
    derivatives to the k-th order by rules. more: what the solvers use from outside."""

    def __init__(self, unknown, product, theta, solve, transpose_solve, symmetric, has_aux, role="solve"):
        self.unknown, self.product, self.theta, self.has_aux = unknown, product, theta, has_aux
        self.solve, zeros = solve, [zeros_like(x) for x in unknown.leaves]

        def back(theta, v):
            from ._transforms import vjp

            zero = [zeros_like(x) for x in zeros]
            return vjp(lambda *x: tuple(product(theta, x)), *zero)[1](tuple(v))

        self.back = product if symmetric else back
        self.solver = unknown.captured_solver(product, theta, solve, role, has_aux)
        if symmetric and not has_aux:
            self.other = self.solver
        elif not (self.solver.asks or transpose_solve or symmetric):
            self.other = _refused
        else:
            given, name = (solve, role) if transpose_solve is None else (transpose_solve, "transpose_solve")
            aux = has_aux and transpose_solve is None
            self.other = unknown.captured_solver(self.back, theta, given, name, aux)
        self.more = [self.solver.more, self.other.more]
        self.down = [lambda theta, more, b: self.solver(theta, more[0], b)[0]]
        self.up = [lambda theta, more, b: self.other(theta, more[1], b)[0]]
        for _ in range(_ORDERS - 1):
            down = self._ruled(self.down[0], self.down[-1], self.up[-1], self.product)
            up = self._ruled(self.up[0], self.up[-1], self.down[-1], self.back)
            self.down.append(self._program(down))
            self.up.append(self._program(up))

    def _program(self, fun):
        """A function of parameters, of what solvers use and of a right side, as a program."""
        flat, treedef = tree.flatten((self.theta, self.more, self.unknown.leaves))
        program = _function("system", lambda *values: fun(*tree.unflatten(treedef, list(values))), flat)
        return lambda *args: program.call(tree.leaves(args))

    def _ruled(self, body, same, transposed, product):
        """A system with rules: body solves it, and so does same, with rules; transposed solves the transposed
        one."""

        def backward(call, g):
            (theta, more, _), x = call
            u = transposed(theta, more, g)
            return _pulled(lambda theta: product(theta, x), theta, [-v for v in u]), None, u

        rule, fun = _named(backward, self.solve), _named(body, self.solve)
        how = {"backward": rule}
        if self.other is _refused:  # else it is the transpose of backward
            how["jvp"] = self._along(lambda *args: (same(*args), None), same, product)[0]
        return lambda theta, more, b: record(self.unknown.what, fun, (theta, more, b), **how)

    def _along(self, whole, same, product):
        """(a rule for tangents of the solution, the same beside what else a solver gives): without the
        transposed system."""

        def both(primals, tangents):
            (theta, more, b), (moved, _, of_b) = primals, tangents
            x, aux = whole(theta, more, b)
            pushed = _pushed(lambda theta: product(theta, x), theta, moved)
            of_x = same(theta, more, [d - m for d, m in zip(of_b, pushed)])
            return (x, aux), (of_x, None)

        def alone(primals, tangents):
            (x, _), (of_x, _) = both(primals, tangents)
            return x, of_x

        return _named(alone, self.solve), _named(both, self.solve)

    def transposed(self):
        return self._program(self._ruled(self.up[0], self.up[-1], self.down[-1], self.back))

    def solved(self, theta, b):
        """The solution at hand, and what else the solver gives."""

        def body(theta, more, b):
            return self.solver(theta, more[0], b)

        def backward(call, g):
            (theta, more, _), (x, _) = call
            u = self.up[-1](theta, more, g[0])
            return _pulled(lambda theta: self.product(theta, x), theta, [-v for v in u]), None, u

        def whole(theta, more, b):
            return self.down[-1](theta, more, b), body(theta, more, b)[1]

        how = {"backward": _named(backward, self.solve)}
        if self.other is _refused:
            how["jvp"] = self._along(whole, self.down[-1], self.product)[1]
        x, aux = record(self.unknown.what, _named(body, self.solve), (theta, self.more, b), **how)
        return self.unknown.given(x, aux, self.has_aux)


def _refused(theta, more, leaves):
    """In the place of a solver of the transposed system, where solve would solve the other one again."""
    zero = zeros_like(leaves[0]) if leaves else asarray(0.0)
    check(
        _max(zero) > 0,
        "custom_linear_solve: solve does not use the function that it is given, so it cannot solve the "
        "transposed system, which gradients need: give transpose_solve(vecmat, b), or symmetric=True",
    )
    return leaves, None


_refused.more, _refused.asks = [], False


def _pulled(fun, theta, cotangents):
    """Cotangents of parameters, of those of what a function of them gives; None for those that are no
    floats."""
    from ._transforms import vjp

    floats, of_floats = _of_floats(fun, theta)
    out = [None] * len(theta)
    if floats:
        for i, x in zip(floats, vjp(of_floats, *[theta[i] for i in floats])[1](tuple(cotangents))):
            out[i] = x
    return out


def _of_floats(fun, theta):
    """(numbers of the parameters that are floats, fun as a function of these)"""
    floats = [i for i, x in enumerate(theta) if x.dtype.kind == "f"]

    def of_floats(*values):
        now = list(theta)
        for i, x in zip(floats, values):
            now[i] = x
        return tuple(fun(now))

    return floats, of_floats


def _pushed(fun, theta, tangents):
    """Tangents of what a function of parameters gives, of theirs."""
    from ._transforms import jvp

    floats, of_floats = _of_floats(fun, theta)
    primals = tuple([theta[i] for i in floats])
    if not floats:
        return [zeros_like(x) for x in fun(theta)]
    return jvp(of_floats, primals, tuple([tangents[i] for i in floats]))[1]


def _named(rule, fun):
    """A function that calls one of the user's, which messages are about."""
    rule.__wrapped__, rule.__name__ = fun, getattr(fun, "__name__", "rule")
    return rule
