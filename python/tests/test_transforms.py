"""Transforms: values against formulas and differences, in any order, inside of each other and of captured programs."""

import math
import unittest

import hop
from support import Case, differences

X = [0.5, -1.0, 2.0]


def vector(*numbers):
    return hop.asarray(list(numbers), dtype=hop.float64)


class Gradients(Case):
    def test_grad(self):
        f = lambda x: hop.sum(hop.sin(x) * x**2)  # noqa: E731
        x = vector(*X)
        self.close(hop.grad(f)(x), differences(f, x), 1e-5)
        self.close(hop.jit(hop.grad(f))(x), differences(f, x), 1e-5)
        value, gradient = hop.value_and_grad(f)(x)
        self.close(value, f(x))
        self.close(gradient, hop.grad(f)(x))

    def test_arguments(self):
        f = lambda a, b, c=1.0: hop.sum(a * b["k"][0]) * c  # noqa: E731
        a, b = vector(1, 2), {"k": [vector(3, 4)]}
        self.equal(hop.grad(f)(a, b), [3, 4])
        self.assertEqual(hop.grad(f, argnums=1)(a, b)["k"][0].tolist(), [1, 2])
        ga, gb = hop.grad(f, argnums=(0, 1))(a, b)
        self.assertEqual((ga.tolist(), gb["k"][0].tolist()), ([3, 4], [1, 2]))
        gb, ga = hop.grad(f, argnums=(-1, 0))(a, b)
        self.assertEqual((ga.tolist(), gb["k"][0].tolist()), ([3, 4], [1, 2]))
        self.equal(hop.grad(f)(a, b, c=2.0), [6, 8])
        self.equal(hop.grad(lambda x: x * x)(3.0), 6.0)

    def test_aux(self):
        f = lambda x: (hop.sum(x**2), {"twice": x * 2, "n": 3})  # noqa: E731
        gradient, more = hop.grad(f, has_aux=True)(vector(1, 2))
        self.equal(gradient, [2, 4])
        self.equal(more["twice"], [2, 4])
        (value, more), gradient = hop.value_and_grad(f, has_aux=True)(vector(1, 2))
        self.assertEqual((value.item(), more["n"].item()), (5, 3))

    def test_errors(self):
        for bad, args, text in [
            (lambda x: x, (vector(1, 2),), r"float scalar.*f64\[2\]"), (lambda x: (x, x), (1.0,), r"\(\*, \*\)"), (lambda x: x * 2, (hop.asarray(1),), "int64"),
            (lambda x: x["a"], ({"a": hop.asarray(1)},), r"argument 0\['a'\].*int64"), (lambda x: x > 0, (1.0,), "bool"),
        ]:  # fmt: skip
            with self.assertRaisesRegex((hop.Error, TypeError), text):
                hop.grad(bad)(*args)
        with self.assertRaises(TypeError):
            hop.grad(3)
        with self.assertRaisesRegex(ValueError, "argnums"):
            hop.grad(lambda x: x, argnums=1)(1.0)

    def test_higher(self):
        third = hop.grad(hop.grad(hop.grad(lambda x: x**4)))
        self.close(third(2.0), 48.0)
        self.close(hop.jit(third)(2.0), 48.0)
        self.close(hop.grad(lambda a: hop.grad(lambda b: a * a * b * b)(a))(2.0), 24.0)

    def test_vjp(self):
        y, pull = hop.vjp(lambda a, b: {"p": a * b, "n": hop.sum(a)}, vector(1, 2), vector(3, 4))
        self.equal(y["p"], [3, 8])
        a, b = pull({"p": vector(1, 10), "n": 100.0})
        self.assertEqual((a.tolist(), b.tolist()), ([103, 140], [1, 20]))
        with self.assertRaisesRegex(hop.Error, "cotangent"):
            pull({"p": vector(1, 10)})
        with self.assertRaisesRegex(hop.Error, r"cotangent\['p'\]"):
            pull({"p": vector(1), "n": 1.0})
        y, pull = hop.vjp(lambda a, i: a[i], vector(1, 2), hop.asarray(1))
        self.equal(pull(hop.asarray(1.0, dtype=hop.float64))[0], [0, 1])
        self.equal(hop.jit(lambda a: hop.vjp(lambda v: v**2, a)[1](a)[0])(vector(1, 2)), [2, 8])

    def test_jvp_and_linearize(self):
        f = lambda a, b: (a * b, hop.sum(a))  # noqa: E731
        y, dy = hop.jvp(f, (vector(1, 2), vector(3, 4)), (vector(1, 0), vector(0, 1)))
        self.assertEqual((y[0].tolist(), dy[0].tolist(), dy[1].item()), ([3, 8], [3, 2], 1))
        y, derivative = hop.linearize(f, vector(1, 2), vector(3, 4))
        self.equal(derivative(vector(1, 0), vector(0, 1))[0], [3, 2])
        with self.assertRaisesRegex(hop.Error, r"tangents\[1\]"):
            hop.jvp(f, (vector(1, 2), vector(3, 4)), (vector(1, 0), vector(0)))

    def test_halves_of_loops(self):
        f = lambda x: hop.while_loop(lambda c: hop.sum(c[0]) < 50.0, lambda c: (c[0] * c[1], c[1]), (x, x + 1))[0]  # noqa: E731
        x = vector(1.0, 1.5)
        y, pull = hop.vjp(f, x)
        gradient = hop.grad(lambda v: hop.sum(f(v)))(x)
        self.close(y, f(x))
        self.close(pull(vector(1, 1))[0], gradient)
        self.close(hop.jit(lambda c: pull(c)[0])(vector(1, 1)), gradient)
        self.close(hop.vmap(lambda c: pull(c)[0])(hop.asarray([[1.0, 1.0], [0.0, 0.0]], dtype=hop.float64))[0], gradient)
        _, derivative = hop.linearize(f, x)
        self.close(derivative(vector(1, 0)), hop.jvp(f, (x,), (vector(1, 0),))[1])
        self.close(hop.jit(lambda v: hop.vjp(f, v)[1](v)[0])(x), hop.vjp(f, x)[1](x)[0])
        self.close(hop.jit(lambda v: hop.linearize(f, v)[1](v))(x), derivative(x))
        kept = lambda x: hop.sum(hop.recompute(hop.sin(hop.keep(hop.exp(x)))))  # noqa: E731
        self.close(hop.grad(kept)(x), differences(kept, x), 1e-4)

    def test_jacobians(self):
        f = lambda x: x * hop.sum(x)  # noqa: E731
        expected = [[7, 1, 1], [2, 8, 2], [3, 3, 9]]
        for jacobian in (hop.jacfwd(f), hop.jacrev(f), hop.jit(hop.jacfwd(f)), hop.jacrev(hop.jit(f))):
            self.equal(jacobian(vector(1, 2, 3)), expected)
        j = hop.jacfwd(lambda a, b: {"s": hop.sum(a * b)}, argnums=(0, 1))(vector(1, 2), vector(3, 4))
        self.assertEqual((j["s"][0].tolist(), j["s"][1].tolist()), ([3, 4], [1, 2]))
        h = hop.hessian(lambda x: hop.sum(x**3))(vector(1, 2))
        self.equal(h, [[6, 0], [0, 12]])
        self.equal(hop.jacfwd(lambda p: p["a"] ** 2)({"a": vector(1, 2)})["a"], [[2, 0], [0, 4]])

    def test_stop_gradient_and_checkpoint(self):
        self.equal(hop.grad(lambda x: hop.sum(hop.stop_gradient(x) * x))(vector(1, 2)), [1, 2])
        f = hop.checkpoint(lambda p: {"y": hop.sin(p["x"])})
        self.close(hop.grad(lambda x: hop.sum(f({"x": x})["y"]))(vector(*X)), [math.cos(v) for v in X])
        self.assertIn("recompute", hop.jit(lambda x: f({"x": x})["y"]).text(vector(1)))


class Batching(Case):
    def test_axes(self):
        f = lambda a, b: a * hop.sum(b)  # noqa: E731
        a, b = vector(1, 2), hop.asarray([[1.0, 2.0], [3.0, 4.0]], dtype=hop.float64)
        self.equal(hop.vmap(f)(a, b), [3, 14])
        self.equal(hop.vmap(f, in_axes=(0, 1))(a, b), [4, 12])
        self.equal(hop.vmap(f, in_axes=(None, 0))(a, b), [[3, 6], [7, 14]])
        self.equal(hop.vmap(f, in_axes=(None, -1), out_axes=1)(a, b), [[4, 6], [8, 12]])
        self.equal(hop.vmap(lambda t: t["x"] + t["y"], in_axes=({"x": 0, "y": None},))({"x": a, "y": hop.asarray(1.0)}), [2, 3])
        self.equal(hop.vmap(hop.vmap(lambda x: x + 1))(b), [[2, 3], [4, 5]])
        self.assertEqual([r.tolist() for r in hop.vmap(lambda x: (x, 5.0))(a)], [[1, 2], [5, 5]])
        self.equal(hop.vmap(lambda x, k=1: x * k)(a, k=vector(2, 3)), [2, 6])

    def test_errors(self):
        with self.assertRaisesRegex(hop.Error, "argument 1 has size 3.*argument 0 has 2"):
            hop.vmap(lambda a, b: a)(vector(1, 2), vector(1, 2, 3))
        for bad in (lambda: hop.vmap(lambda a: a, in_axes=1)(vector(1)), lambda: hop.vmap(lambda a: a, in_axes=None)(vector(1)), lambda: hop.vmap(lambda a: a, in_axes=(0, 0))(vector(1)), lambda: hop.vmap(lambda a: a)(1.0)):
            with self.assertRaises(ValueError):
                bad()

    def test_per_example_gradients(self):
        loss = lambda w, x: hop.tanh(hop.sum(w * x))  # noqa: E731
        w, xs = vector(0.1, 0.2), hop.asarray([[1.0, 2.0], [3.0, -1.0], [0.0, 1.0]], dtype=hop.float64)
        each = [hop.grad(loss)(w, xs[i]).tolist() for i in range(3)]
        for g in (hop.vmap(hop.grad(loss), (None, 0)), hop.jit(hop.vmap(hop.grad(loss), (None, 0))), hop.vmap(hop.jit(hop.grad(loss)), (None, 0)), hop.vmap(hop.grad(hop.jit(loss)), (None, 0))):
            self.close(g(w, xs), each)


class Nesting(Case):
    """Closures over values of every level around."""

    def test_closures(self):
        w, data = vector(0.5, -0.5), vector(1.0, 2.0)

        def outer(w):
            scale = hop.exp(w[0])

            def inner(v):
                return hop.sum(hop.sin(v * scale) * data)

            return hop.sum(hop.grad(inner)(w) ** 2) + hop.sum(hop.vmap(lambda d: d * scale + inner(w))(data))

        expected = differences(outer, w)
        for g in (hop.grad(outer), hop.jit(hop.grad(outer)), hop.grad(hop.jit(outer)), hop.jacfwd(outer), hop.jacrev(outer)):
            self.close(g(w), expected, 1e-5)

    def test_three_levels(self):
        f = lambda a: hop.grad(lambda b: hop.grad(lambda c: a * b * c**2)(b) * b)(a)  # noqa: E731
        # d/dc = 2abc at c = b: 2ab²; times b: 2ab³; d/db = 6ab² at b = a: 6a³
        self.close(f(2.0), 48.0)
        self.close(hop.jit(f)(2.0), 48.0)
        self.close(hop.grad(f)(2.0), 72.0)
        self.close(hop.vmap(f)(vector(1, 2)), [6, 48])
        self.close(hop.vmap(hop.grad(f))(vector(1, 2)), [18, 72])

    def test_inside_of_loops(self):
        def f(x):
            step = lambda c, _: (c - 0.1 * hop.grad(lambda v: (v - x) ** 2 * v)(c), c)  # noqa: E731
            return hop.scan(step, x * 0.5, length=5)[0]

        self.close(hop.grad(f)(hop.asarray(1.5, dtype=hop.float64)), differences(lambda v: f(v[0]), vector(1.5))[0], 1e-4)
        self.assertEqual(hop.vmap(f)(vector(1, 2, 3)).shape, (3,))

    def test_exceptions_leave_nothing_behind(self):
        def bad(x):
            raise LookupError("mine")

        for call in (lambda: hop.grad(bad)(1.0), lambda: hop.jit(hop.vmap(bad))(vector(1)), lambda: hop.grad(lambda x: hop.grad(bad)(x))(1.0), lambda: hop.scan(lambda c, x: bad(c), 0.0, vector(1))):
            with self.assertRaisesRegex(LookupError, "mine"):
                call()
            self.assertFalse(hop._core.tracing())

        def forgiving(x):
            try:
                hop.scan(lambda c, v: bad(c), x, vector(1))
            except LookupError:
                pass
            try:
                x + hop.ones((2, 3, 7))
            except hop.Error:
                pass
            return hop.sum(x * data)

        data = vector(3, 4)
        self.equal(hop.grad(forgiving)(vector(1, 2)), [3, 4])


if __name__ == "__main__":
    unittest.main()
