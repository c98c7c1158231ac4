"""Roots, fixed points, minima and linear solves: values and derivatives against closed forms, differences and
the same computed otherwise, under every transform, in loops, with solvers that have no derivatives."""

import math
import traceback
import unittest

import hop
from support import Case, differences

implicit = hop.implicit


def asarray(x):
    return hop.asarray(x, dtype=hop.float64)


def numbers(key, *shape):
    return hop.random.normal(hop.random.key(key), shape, dtype=hop.float64)


def dense(matvec, b):
    return hop.linalg.solve(hop.jacfwd(matvec)(b), b)


def conjugate(matvec, b):
    """Conjugate gradients, without the matrix."""

    def step(c):
        x, r, p, rr = c
        ap = matvec(p)
        alpha = rr / hop.vdot(p, ap)
        r = r - alpha * ap
        new = hop.vdot(r, r)
        return x + alpha * p, r, r + new / rr * p, new

    start = (hop.zeros_like(b), b, b, hop.vdot(b, b))
    return hop.while_loop(lambda c: c[3] > 1e-26, step, start, max_trips=200)[0]


def newton(f, x):
    """Whose derivative is zero: only rules can give another."""
    solve = lambda x: hop.fori_loop(0, 30, lambda i, x: x - f(x) / hop.grad(f)(x), x)  # noqa: E731
    return hop.stop_gradient(solve(x))


def quotient(g, y):
    return y / g(hop.ones_like(y))


class LinearSolve(Case):
    def setUp(self):
        self.a = numbers(1, 3, 3) + 4 * hop.eye(3, dtype=hop.float64)
        self.b = numbers(2, 3)

    def both(self, solve=dense, **options):
        """(a cost of the solution, the same by hop.linalg.solve)"""

        def ours(a, b):
            x = hop.custom_linear_solve(lambda x: a @ x, b, solve, **options)
            return hop.sum(hop.sin(x) * asarray([1.0, 2.0, 3.0]))

        def theirs(a, b):
            return hop.sum(hop.sin(hop.linalg.solve(a, b)) * asarray([1.0, 2.0, 3.0]))

        return ours, theirs

    def test_derivatives(self):
        ours, theirs = self.both()
        a, b = self.a, self.b
        self.close(ours(a, b), theirs(a, b), 1e-12)
        for make in (
            lambda f: hop.grad(f), lambda f: hop.grad(f, 1), lambda f: hop.jit(hop.grad(f)),
            lambda f: hop.grad(hop.jit(f), 1), lambda f: hop.jacfwd(f), lambda f: hop.jacrev(f, 1),
            lambda f: hop.hessian(f, 1), lambda f: hop.hessian(f), lambda f: hop.jacfwd(hop.jacfwd(f)),
            lambda f: hop.jacrev(hop.jacrev(f, 1)), lambda f: hop.jacrev(hop.jacfwd(f, 1)),
            lambda f: lambda a, b: hop.grad(hop.grad(hop.grad(lambda s: f(a * s, b))))(asarray(1.0)),
        ):  # fmt: skip
            self.close(make(ours)(a, b), make(theirs)(a, b), 1e-10)
        self.close(hop.grad(ours, 1)(a, b), differences(lambda b: ours(a, b), b), 1e-5)

    def test_lanes_and_loops(self):
        ours, theirs = self.both()
        a, bs = self.a, numbers(3, 4, 3)
        for axes in ((None, 0), (0, 0), (0, None)):
            args = (hop.stack([a, 2 * a, a.mT, a + 1]) if axes[0] == 0 else a, bs if axes[1] == 0 else bs[0])
            for make in (lambda f: f, lambda f: hop.grad(f), lambda f: hop.grad(f, 1)):
                self.close(hop.vmap(make(ours), axes)(*args), hop.vmap(make(theirs), axes)(*args), 1e-10)
        total = lambda f: hop.grad(lambda a: hop.sum(hop.vmap(f, (None, 0))(a, bs)))  # noqa: E731
        self.close(total(ours)(a), total(theirs)(a), 1e-10)

        def looped(solve):
            step = lambda c, k: (solve(a * k, c), hop.sum(c))  # noqa: E731
            return lambda b: hop.sum(hop.scan(step, b, asarray([1.0, 2.0, 0.5]))[1])

        ours = looped(lambda a, b: hop.custom_linear_solve(lambda x: a @ x, b, dense))
        theirs = looped(hop.linalg.solve)
        self.close(hop.jit(hop.grad(ours))(self.b), hop.grad(theirs)(self.b), 1e-10)
        second = lambda f: hop.hessian(lambda b: f(b) ** 2)(self.b)  # noqa: E731
        self.close(second(ours), second(theirs), 1e-10)

    def test_without_a_matrix(self):
        """Conjugate gradients on a tridiagonal system that nobody writes down."""
        n = 30

        def product(d, x):
            return d * x - hop.concat([x[1:], x[:1] * 0]) - hop.concat([x[-1:] * 0, x[:-1]])

        def total(d, b, symmetric):
            return hop.sum(
                hop.custom_linear_solve(lambda x: product(d, x), b, conjugate, symmetric=symmetric) ** 2
            )

        def written(d, b):
            matrix = hop.vmap(lambda e: product(d, e), out_axes=1)(hop.eye(n, dtype=hop.float64))
            return hop.sum(hop.linalg.solve(matrix, b) ** 2)

        d, b = 3 + numbers(1, n) ** 2, numbers(2, n)
        for symmetric in (True, False):
            ours = lambda d, b: total(d, b, symmetric)  # noqa: E731
            self.close(hop.grad(ours, (0, 1))(d, b)[0], hop.grad(written)(d, b), 1e-9)
            self.close(hop.jit(hop.grad(ours, 1))(d, b), hop.grad(written, 1)(d, b), 1e-9)
            along = lambda f: hop.jvp(hop.grad(f), (d, b), (d, b))[1]  # noqa: E731
            self.close(along(ours), along(written), 1e-8)

    def test_a_solver_that_knows_the_matrix(self):
        a, b = self.a, self.b
        lu = lambda a: lambda matvec, b: hop.stop_gradient(hop.linalg.solve(a, b))  # noqa: E731
        ours = lambda a, b: hop.sum(  # noqa: E731
            hop.custom_linear_solve(lambda x: a @ x, b, lu(a), transpose_solve=lu(a.mT)) ** 2
        )
        theirs = lambda a, b: hop.sum(hop.linalg.solve(a, b) ** 2)  # noqa: E731
        self.close(hop.grad(ours)(a, b), hop.grad(theirs)(a, b), 1e-10)
        self.close(hop.hessian(ours)(a, b), hop.hessian(theirs)(a, b), 1e-10)
        alone = lambda a, b: hop.sum(hop.custom_linear_solve(lambda x: a @ x, b, lu(a)) ** 2)  # noqa: E731
        self.close(hop.jit(alone)(a, b), theirs(a, b), 1e-12)
        self.close(hop.jvp(alone, (a, b), (a.mT, b))[1], hop.jvp(theirs, (a, b), (a.mT, b))[1], 1e-10)
        self.close(hop.jacfwd(hop.jacfwd(alone, 1), 1)(a, b), hop.hessian(theirs, 1)(a, b), 1e-10)
        with self.assertRaisesRegex(
            hop.CheckError, r"test_implicit.py:\d+: .*give transpose_solve\(vecmat, b\), or symmetric=True"
        ):
            hop.grad(alone)(a, b)

    def test_trees_and_aux(self):
        def product(p, x):
            return {"u": p * x["u"] + x["v"][0], "v": (2 * x["v"][0] - x["u"],)}

        def solve(product, b):
            zero = hop.tree.map(hop.zeros_like, b)
            flat, unravel = hop.flatten_util.ravel_pytree(b)
            matrix = hop.jacfwd(lambda v: hop.flatten_util.ravel_pytree(product(unravel(v)))[0])(
                hop.flatten_util.ravel_pytree(zero)[0]
            )
            return unravel(hop.linalg.solve(matrix, flat)), {"rows": flat.shape[0], "matrix": matrix}

        def f(p, b):
            x, aux = hop.custom_linear_solve(lambda x: product(p, x), b, solve, has_aux=True)
            self.assertEqual(aux["rows"], 2)
            return x["u"] * x["v"][0] + 100 * aux["matrix"][0, 0]

        p, b = asarray(3.0), {"u": asarray(1.0), "v": (asarray(2.0),)}

        def written(p):  # p u + v = 1, 2 v - u = 2
            u = 0 / (2 * p + 1)
            return u * (2 + u) / 2 + 100 * p

        self.close(f(p, b), written(p), 1e-12)
        slope = lambda p: 0.0  # noqa: E731 -- u is 0 for every p; aux has no gradient
        self.close(hop.grad(f)(p, b), slope(p), 1e-12)
        # u = (2 b_u - b_v) / (2 p + 1), v = (b_v + u) / 2, at u = 0: d(u v) = v du
        self.close(hop.grad(f, 1)(p, b)["u"], 1.0 * 2 / 7, 1e-12)
        self.close(hop.grad(f, 1)(p, b)["v"][0], -1.0 / 7, 1e-12)

    def test_many_sizes(self):
        @hop.jit
        def g(d, b):
            by = lambda matvec, b: b / matvec(0 * b + 1)  # noqa: E731
            return hop.grad(lambda d: hop.sum(hop.custom_linear_solve(lambda x: d * x, b, by)))(d)

        for n in (2, 3, 4, 5):
            d, b = 1 + hop.arange(n, dtype=hop.float64), hop.ones(n, dtype=hop.float64)
            self.close(g(d, b), -1 / d**2, 1e-12)

    def test_mistakes(self):
        b = hop.ones(3)
        cases = [
            (lambda x: x[:2], dense, b, r"the function|matvec"),
            (lambda x: x, lambda mv, b: b[:2], b, r"solve must give a tree like .*f32\[2\]"),
            (lambda x: x, dense, hop.arange(3), r"b has type i64\[3\], expected floats"),
        ]
        for matvec, solve, b, text in cases:
            try:
                hop.jit(lambda b: hop.custom_linear_solve(matvec, b, solve))(b)  # noqa: B023
            except hop.InvalidError as error:
                self.assertRegex(str(error), r"test_implicit.py:\d+: .*custom_linear_solve: .*" + text)
                frames = traceback.extract_tb(error.__traceback__)
                self.assertEqual({f.filename for f in frames}, {__file__})
            else:
                self.fail(text)
        with self.assertRaisesRegex(TypeError, "custom_linear_solve: matvec"):
            hop.custom_linear_solve(3, b, dense)


class Root(Case):
    def test_a_cube_root(self):
        """x^3 = a: the derivatives are those of a^(1/3), of any order."""
        for name, cube in {
            "custom_root": lambda a: hop.custom_root(lambda x: x**3 - a, asarray(1.0), newton, quotient),
            "implicit.root": lambda a: implicit.root(lambda x: x**3 - a, asarray(1.0)),
            "opaque": lambda a: implicit.root(lambda x: x**3 - a, asarray(1.0), newton, quotient),
        }.items():
            with self.subTest(name):
                a, f, expected = asarray(5.0), cube, lambda a: a ** (1 / 3)
                self.close(cube(a), 5 ** (1 / 3), 1e-10)
                for _ in range(3):
                    f, expected = hop.grad(f), hop.grad(expected)
                    self.close(f(a), expected(a), 1e-9)
                    self.close(hop.jit(f)(a), expected(a), 1e-9)
                self.close(hop.jvp(cube, (a,), (asarray(2.0),))[1], 2 / 3 * 5 ** (-2 / 3), 1e-9)
                second = -2 / 9 * 5 ** (-5 / 3)
                for make in (hop.jacfwd(hop.jacfwd(cube)), hop.jacrev(hop.jacfwd(cube)), hop.hessian(cube)):
                    self.close(make(a), second, 1e-9)
                many = asarray([1.0, 5.0, 8.0])
                slopes = [x ** (-2 / 3) / 3 for x in (1.0, 5.0, 8.0)]
                self.close(hop.vmap(cube)(many), [1.0, 5 ** (1 / 3), 2.0], 1e-9)
                self.close(hop.vmap(hop.grad(cube))(many), slopes, 1e-9)
                self.close(hop.grad(lambda a: hop.sum(hop.vmap(cube)(a)))(many), slopes, 1e-9)

    def test_kepler(self):
        """E - e sin E = m, in loops."""
        kepler = lambda e, m: implicit.root(lambda x: x - e * hop.sin(x) - m, m)  # noqa: E731
        e, m = asarray(0.3), asarray(1.0)
        x = kepler(e, m).item()
        of_e, of_m = hop.jit(hop.grad(kepler, (0, 1)))(e, m)
        self.close(of_e, math.sin(x) / (1 - 0.3 * math.cos(x)), 1e-10)
        self.close(of_m, 1 / (1 - 0.3 * math.cos(x)), 1e-10)

        def orbit(e):
            step = lambda c, t: (kepler(e, c + t), c)  # noqa: E731
            last, all_ = hop.scan(step, asarray(0.1), asarray([0.3, 0.5, 0.2]))
            return last + hop.sum(all_)

        h = 1e-6
        slope = (orbit(e + h) - orbit(e - h)) / (2 * h)
        self.close(hop.grad(orbit)(e), slope, 1e-6)
        self.close(hop.jacfwd(orbit)(e), slope, 1e-6)

    def test_systems(self):
        """A tree of unknowns, parameters in a tree."""

        def f(p, x):
            return {"u": x["u"] ** 2 + x["v"] - p["a"], "v": x["u"] - hop.exp(x["v"]) * p["b"]}

        def solution(p):
            return implicit.root(lambda x: f(p, x), {"u": asarray([1.0, 1.0]), "v": asarray([0.1, 0.1])})

        def cost(flat):
            x = solution({"a": flat[:2], "b": flat[2]})
            return hop.sum(x["u"] * x["v"] ** 2)

        at = asarray([1.5, 2.5, 0.8])
        x = solution({"a": at[:2], "b": at[2]})
        left = f({"a": at[:2], "b": at[2]}, x)
        self.close(left["u"], [0.0, 0.0], 1e-10)
        self.close(left["v"], [0.0, 0.0], 1e-10)
        self.close(hop.grad(cost)(at), differences(cost, at), 1e-5)
        slope = lambda i: lambda at: hop.grad(cost)(at)[i]  # noqa: E731
        for i in range(3):
            self.close(hop.hessian(cost)(at)[i], differences(slope(i), at), 1e-5)

    def test_aux_and_the_guess(self):
        def solve(f, x):
            return newton(f, x), {"trips": 30, "started": x}

        def f(a, start):
            x, aux = hop.custom_root(lambda x: x**2 - a, start, solve, quotient, has_aux=True)
            self.assertEqual(aux["trips"], 30)
            return x + aux["started"]

        of_a, of_start = hop.grad(f, (0, 1))(asarray(4.0), asarray(1.0))
        self.close(of_a, 0.25, 1e-10)
        self.close(of_start, 0.0)
        self.close(f(asarray(4.0), asarray(1.0)), 3.0, 1e-10)

    def test_no_root(self):
        with self.assertRaisesRegex(hop.CheckError, "trips"):
            implicit.root(lambda x: x**2 + 1, asarray(0.7), max_trips=50)

    def test_mistakes(self):
        with self.assertRaisesRegex(hop.InvalidError, r"test_implicit.py:\d+: .*custom_root: .*f32\[2\]"):
            hop.jit(lambda x: hop.custom_root(lambda x: x[:2], x, newton, quotient))(hop.ones(3))
        with self.assertRaisesRegex(TypeError, "custom_root: tangent_solve"):
            hop.custom_root(lambda x: x, 1.0, newton, None)
        with self.assertRaisesRegex(TypeError, "implicit.root: solve"):
            implicit.root(lambda x: x, 1.0, 3)


class FixedPoint(Case):
    def test_babylon(self):
        """x = (x + a / x) / 2 is the square root."""
        root = lambda a: implicit.fixed_point(lambda x: (x + a / x) / 2, asarray(1.0))  # noqa: E731
        a = asarray(3.0)
        self.close(root(a), math.sqrt(3), 1e-10)
        self.close(hop.grad(root)(a), 0.5 / math.sqrt(3), 1e-9)
        self.close(hop.hessian(root)(a), -0.25 * 3**-1.5, 1e-9)
        self.close(hop.vmap(hop.grad(root))(asarray([1.0, 4.0])), [0.5, 0.25], 1e-9)

    def test_a_layer(self):
        w, a = 0.3 * numbers(0, 5, 5), hop.linspace(-1.0, 1.0, 5, dtype=hop.float64)

        def through(w, a):  # the loop itself, differentiated
            z = hop.zeros(5, dtype=hop.float64)
            return hop.sum(hop.fori_loop(0, 200, lambda i, z: hop.tanh(w @ z + a), z) ** 2)

        def layer(w, a):
            return hop.sum(implicit.fixed_point(lambda z: hop.tanh(w @ z + a), hop.zeros_like(a)) ** 2)

        self.close(layer(w, a), through(w, a), 1e-10)
        for make in (lambda f: hop.grad(f), lambda f: hop.jit(hop.grad(f, 1)), lambda f: hop.jacfwd(f, 1)):
            self.close(make(layer)(w, a), make(through)(w, a), 1e-8)
        self.close(hop.hessian(layer, 1)(w, a), hop.hessian(through, 1)(w, a), 1e-7)
        own = lambda w, a: hop.sum(implicit.fixed_point(  # noqa: E731
            lambda z: hop.tanh(w @ z + a), hop.zeros_like(a),
            lambda g, z: hop.stop_gradient(hop.fori_loop(0, 200, lambda i, z: g(z), z)), dense,
        ) ** 2)  # fmt: skip
        self.close(hop.grad(own)(w, a), hop.grad(through)(w, a), 1e-8)

    def test_no_fixed_point(self):
        with self.assertRaisesRegex(hop.CheckError, "trips"):
            implicit.fixed_point(lambda x: x + 1, asarray(0.0))


class Minimum(Case):
    def test_least_squares(self):
        """Ridge regression, as a function of its weight and its data."""
        x, y = numbers(1, 8, 3), numbers(2, 8)

        def ours(weight, y):
            return implicit.minimum(
                lambda w: hop.sum((x @ w - y) ** 2) + weight * hop.sum(w**2), hop.zeros(3, dtype=hop.float64)
            )

        def closed(weight, y):
            return hop.linalg.solve(x.mT @ x + weight * hop.eye(3, dtype=hop.float64), x.mT @ y)

        weight = asarray(0.7)
        self.close(ours(weight, y), closed(weight, y), 1e-8)
        for make in (
            lambda f: hop.jacrev(f), lambda f: hop.jacfwd(f), lambda f: hop.jacrev(f, 1),
            lambda f: hop.jit(hop.hessian(f)), lambda f: hop.jacfwd(hop.jacrev(f, 1)),
        ):  # fmt: skip
            self.close(make(ours)(weight, y), make(closed)(weight, y), 1e-7)

    def test_a_valley(self):
        """Rosenbrock's function, least at (a, a^2), from far away."""
        least = lambda a: implicit.minimum(  # noqa: E731
            lambda x: (a - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2, asarray([-1.2, 1.0])
        )
        self.close(least(asarray(1.0)), [1.0, 1.0], 1e-7)
        self.close(hop.jacrev(least)(asarray(1.0)), [1.0, 2.0], 1e-6)
        self.close(hop.jacfwd(least)(asarray(2.0)), [1.0, 4.0], 1e-6)
        self.close(hop.vmap(least)(asarray([1.0, 2.0])), [[1.0, 1.0], [2.0, 4.0]], 1e-7)

    def test_bilevel(self):
        """The weight of a penalty that makes the solution least on other data: two levels of minima."""
        cost = lambda k: lambda w: (w - 3) ** 2 + hop.exp(k) * w**2  # noqa: E731
        fit = lambda k: implicit.minimum(cost(k), asarray(0.0))  # noqa: E731
        outer = implicit.minimum(lambda k: (fit(k) - 2) ** 2, asarray(0.0))
        self.close(outer, math.log(0.5), 1e-6)  # w = 3 / (1 + e^k) = 2

    def test_a_solver_of_ones_own(self):
        def descend(cost, x):
            return hop.stop_gradient(hop.fori_loop(0, 400, lambda i, x: x - 0.1 * hop.grad(cost)(x), x))

        least = lambda a: implicit.minimum(  # noqa: E731
            lambda x: hop.sum(hop.cosh(x - a)), asarray([0.0, 0.0]), descend, conjugate
        )
        a = asarray([0.5, -1.0])
        self.close(least(a), [0.5, -1.0], 1e-8)
        self.close(hop.jacrev(least)(a), [[1.0, 0.0], [0.0, 1.0]], 1e-8)


if __name__ == "__main__":
    unittest.main()
