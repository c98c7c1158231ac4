"""Transforms: values against formulas and differences, in any order, inside of each other and of captured
programs."""

import copy
import dataclasses
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
            (lambda x: x, (vector(1, 2),), r"float scalar.*f64\[2\]"),
            (lambda x: (x, x), (1.0,), r"\(\*, \*\)"),
            (lambda x: x * 2, (hop.asarray(1),), "int64"),
            (lambda x: x["a"], ({"a": hop.asarray(1)},), r"argument 0\['a'\].*int64"),
            (lambda x: x > 0, (1.0,), "bool"),
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
        f = lambda x: hop.while_loop(  # noqa: E731
            lambda c: hop.sum(c[0]) < 50.0, lambda c: (c[0] * c[1], c[1]), (x, x + 1)
        )[0]
        x = vector(1.0, 1.5)
        y, pull = hop.vjp(f, x)
        gradient = hop.grad(lambda v: hop.sum(f(v)))(x)
        self.close(y, f(x))
        self.close(pull(vector(1, 1))[0], gradient)
        self.close(hop.jit(lambda c: pull(c)[0])(vector(1, 1)), gradient)
        self.close(
            hop.vmap(lambda c: pull(c)[0])(hop.asarray([[1.0, 1.0], [0.0, 0.0]], dtype=hop.float64))[0],
            gradient,
        )
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
        self.equal(
            hop.vmap(lambda t: t["x"] + t["y"], in_axes=({"x": 0, "y": None},))(
                {"x": a, "y": hop.asarray(1.0)}
            ),
            [2, 3],
        )
        self.equal(hop.vmap(hop.vmap(lambda x: x + 1))(b), [[2, 3], [4, 5]])
        self.assertEqual([r.tolist() for r in hop.vmap(lambda x: (x, 5.0))(a)], [[1, 2], [5, 5]])
        self.equal(hop.vmap(lambda x, k=1: x * k)(a, k=vector(2, 3)), [2, 6])

    def test_errors(self):
        with self.assertRaisesRegex(hop.Error, "argument 1 has size 3.*argument 0 has 2"):
            hop.vmap(lambda a, b: a)(vector(1, 2), vector(1, 2, 3))
        for bad in (
            lambda: hop.vmap(lambda a: a, in_axes=1)(vector(1)),
            lambda: hop.vmap(lambda a: a, in_axes=None)(vector(1)),
            lambda: hop.vmap(lambda a: a, in_axes=(0, 0))(vector(1)),
            lambda: hop.vmap(lambda a: a)(1.0),
        ):
            with self.assertRaises(ValueError):
                bad()

    def test_per_example_gradients(self):
        loss = lambda w, x: hop.tanh(hop.sum(w * x))  # noqa: E731
        w, xs = vector(0.1, 0.2), hop.asarray([[1.0, 2.0], [3.0, -1.0], [0.0, 1.0]], dtype=hop.float64)
        each = [hop.grad(loss)(w, xs[i]).tolist() for i in range(3)]
        for g in (
            hop.vmap(hop.grad(loss), (None, 0)),
            hop.jit(hop.vmap(hop.grad(loss), (None, 0))),
            hop.vmap(hop.jit(hop.grad(loss)), (None, 0)),
            hop.vmap(hop.grad(hop.jit(loss)), (None, 0)),
        ):
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
        for g in (
            hop.grad(outer),
            hop.jit(hop.grad(outer)),
            hop.grad(hop.jit(outer)),
            hop.jacfwd(outer),
            hop.jacrev(outer),
        ):
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

        self.close(
            hop.grad(f)(hop.asarray(1.5, dtype=hop.float64)),
            differences(lambda v: f(v[0]), vector(1.5))[0],
            1e-4,
        )
        self.assertEqual(hop.vmap(f)(vector(1, 2, 3)).shape, (3,))

    def test_exceptions_leave_nothing_behind(self):
        def bad(x):
            raise LookupError("mine")

        for call in (
            lambda: hop.grad(bad)(1.0),
            lambda: hop.jit(hop.vmap(bad))(vector(1)),
            lambda: hop.grad(lambda x: hop.grad(bad)(x))(1.0),
            lambda: hop.scan(lambda c, x: bad(c), 0.0, vector(1)),
        ):
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


class WhatJaxTakes(Case):
    """Keywords of JAX's transforms."""

    def test_more_besides(self):
        x = vector(1, -2, 3)
        f = lambda v: (v * v, {"sum": hop.sum(v), "positive": v > 0})  # noqa: E731
        diagonal = [[2, 0, 0], [0, -4, 0], [0, 0, 6]]
        for transform in (hop.jacfwd, hop.jacrev, hop.jacobian):
            for how in (lambda g: g, hop.jit):
                jacobian, more = how(transform(f, has_aux=True))(x)
                self.equal(jacobian, diagonal)
                self.equal(more["sum"], 2.0)
                self.equal(more["positive"], [True, False, True])
        second, more = hop.hessian(lambda v: (hop.sum(v**3), more_of(v)), has_aux=True)(x)
        self.equal(second, [[6, 0, 0], [0, -12, 0], [0, 0, 18]])
        self.equal(more, [2, -1, 4])
        value, moved, more = hop.jvp(f, (x,), (vector(1, 1, 0),), has_aux=True)
        self.assertEqual((value.tolist(), moved.tolist(), more["sum"].tolist()), ([1, 4, 9], [2, -4, 0], 2))
        value, push, more = hop.linearize(f, x, has_aux=True)
        self.assertEqual((value.tolist(), push(x).tolist(), more["sum"].tolist()), ([1, 4, 9], [2, 8, 18], 2))
        value, pull, more = hop.vjp(f, x, has_aux=True)
        self.assertEqual(
            (value.tolist(), pull(x)[0].tolist(), more["sum"].tolist()), ([1, 4, 9], [2, 8, 18], 2)
        )
        for call in (
            lambda: hop.jacfwd(lambda v: v, has_aux=True)(x),
            lambda: hop.jvp(lambda v: v, (x,), (x,), has_aux=True),
            lambda: hop.linearize(lambda v: [v, v], x, has_aux=True),
        ):
            with self.assertRaisesRegex(
                hop.InvalidError, r"with has_aux the function must give a pair \(value, more\)"
            ):
                call()

    def test_integers(self):
        params = {"n": hop.asarray([2, 3], dtype=hop.int32), "w": vector(1, 2), "on": True}
        f = lambda p: hop.sum(p["n"] * p["w"]) * p["on"]  # noqa: E731
        for how in (lambda g: g, hop.jit):
            g = how(hop.grad(f, allow_int=True))(params)
            self.equal(g["w"], [2, 3], hop.float64)
            self.equal(g["n"], [0, 0], hop.int32)
            self.equal(g["on"], False, hop.bool)
        self.equal(hop.grad(lambda n: n * 1.5, allow_int=True)(2), 0, hop.int64)
        value, (for_n, for_x) = hop.value_and_grad(lambda n, v: n * v, argnums=(0, 1), allow_int=True)(3, 2.0)
        self.assertEqual((value.item(), for_n.item(), for_x.item()), (6.0, 0, 3.0))
        jacobian = hop.jacrev(lambda p: p["n"] * p["w"], allow_int=True)(params)
        self.equal(jacobian["w"], [[2, 0], [0, 3]])
        self.equal(jacobian["n"], [[0, 0], [0, 0]], hop.int32)
        with self.assertRaisesRegex(
            hop.InvalidError, "derivatives need floats; .* allow_int=True gives zeros for it"
        ):
            hop.grad(f)(params)
        with self.assertRaisesRegex(hop.InvalidError, "leave it out of argnums$"):
            hop.jacfwd(lambda n: n * 1.5)(2)

    def test_complex_numbers(self):
        for transform in (hop.grad, hop.value_and_grad, hop.jacfwd, hop.jacrev, hop.hessian):
            with self.assertRaisesRegex(
                hop.InvalidError, f"{transform.__name__}: holomorphic=True is about complex numbers"
            ):
                transform(hop.sum, holomorphic=True)
            transform(hop.sum, holomorphic=False)

    def test_an_axis_that_nothing_has(self):
        x = vector(1, 2)
        self.equal(hop.vmap(lambda v: v, in_axes=None, axis_size=3)(1.5), [1.5] * 3)
        columns, first = hop.vmap(lambda v: (v * 2, v[0]), in_axes=None, out_axes=(1, None), axis_size=3)(x)
        self.equal(columns, [[2, 2, 2], [4, 4, 4]])
        self.equal(first, 1.0)
        g = hop.grad(lambda v: hop.sum(hop.vmap(lambda e: e * e, in_axes=None, out_axes=-1, axis_size=3)(v)))
        self.equal(g(x), [6, 12])
        self.equal(hop.jit(g)(x), [6, 12])
        self.equal(hop.vmap(lambda: hop.asarray(2.0), axis_size=2)(), [2, 2])
        self.equal(hop.vmap(lambda v: v, axis_name="batch")(x), [1, 2])
        with self.assertRaisesRegex(ValueError, "there is no axis_size"):
            hop.vmap(lambda v: v, in_axes=None)(x)

    def test_axes_as_trees(self):
        @dataclasses.dataclass
        class Pair:
            a: object
            b: object

        data = Pair(vector(1, 2), {"c": vector(10, 20, 30)})
        f = lambda p: Pair(p.a, p.b["c"] + p.a)  # noqa: E731
        out = hop.vmap(f, in_axes=(Pair(0, {"c": None}),), out_axes=Pair(0, 1))(data)
        self.equal(out.a, [1, 2])
        self.equal(out.b, [[11, 12], [21, 22], [31, 32]])
        with self.assertRaisesRegex(ValueError, r"vmap: in_axes\[0\].b: expected"):
            hop.vmap(f, in_axes=(Pair(0, (0, 1)),))(data)

    def test_remat(self):
        g = hop.grad(lambda v: hop.checkpoint(lambda name, e: e ** len(name), static_argnums=(0,))("abc", v))
        self.equal(g(2.0), 12.0)
        decorated = hop.remat(prevent_cse=False)(lambda v: v**2)
        self.equal(hop.grad(decorated)(3.0), 6.0)
        with self.assertRaisesRegex(hop.InvalidError, "checkpoint: policy: expected a policy"):
            hop.checkpoint(lambda v: v, policy=print)

    def test_vectorize(self):
        f = hop.vectorize(lambda a, b: a @ b, signature="(n,k),(k)->(n)")
        a, b = hop.ones((2, 1, 3, 4)), hop.arange(8).reshape((2, 4)).astype(hop.float32)
        self.assertEqual(f(a, b).shape, (2, 2, 3))
        self.equal(f(a, b)[0, :, 0], [6, 22])
        self.equal(f(a[0, 0], b[0]), [6, 6, 6])
        plain = hop.vectorize(lambda x, y: hop.cond(x > y, lambda: x, lambda: y))
        self.equal(plain(hop.asarray([1, 5]), hop.asarray([[3], [0]])), [[3, 5], [1, 5]])
        self.equal(hop.vectorize(lambda n, x: x * len(n), excluded={0})("abc", hop.asarray([1, 2])), [3, 6])
        self.equal(hop.grad(lambda v: hop.sum(plain(v, 0.0)))(hop.asarray([1.0, -1.0])), [1, 0])
        for bad in ("n->n", "(n)", 3, "(n)->"):
            with self.assertRaisesRegex(hop.InvalidError, "vectorize: signature: expected a text like"):
                hop.vectorize(abs, signature=bad)
        with self.assertRaisesRegex(hop.InvalidError, "has 2 arguments, found 1"):
            f(a)
        with self.assertRaisesRegex(hop.InvalidError, r"argument 1 has type f32\[\]"):
            f(a, 1.0)


def more_of(v):
    return v + 1


class DerivativesAreTrees(Case):
    """The function that vjp or linearize gives goes in and out of captured functions."""

    def test_out_of_jit(self):
        f = lambda x, y: {"v": hop.sin(x) * y, "n": 3}  # noqa: E731
        x, y = vector(0.5, 1), vector(2, 3)
        value, pull = hop.jit(lambda a, b: hop.vjp(f, a, b))(x, y)
        self.assertIsInstance(pull, hop.Pullback)
        expected = hop.vjp(f, x, y)
        cotangent = {"v": vector(1, 10), "n": 0}
        self.equal(value["v"], expected[0]["v"].tolist())
        for found, wanted in zip(pull(cotangent), expected[1](cotangent)):
            self.close(found, wanted, 1e-12)
        again = hop.jit(lambda a, b: hop.vjp(f, a, b)[1])
        self.close(again(2 * x, y)(cotangent)[1], (hop.sin(2 * x) * cotangent["v"]).tolist(), 1e-12)
        value, push = hop.jit(
            lambda a: hop.linearize(lambda v: hop.scan(lambda c, e: (hop.sin(c * e), c), 1.0, v)[0], a)
        )(x)
        self.close(
            push(y),
            hop.jvp(lambda v: hop.scan(lambda c, e: (hop.sin(c * e), c), 1.0, v)[0], (x,), (y,))[1],
            1e-12,
        )

    def test_into_jit(self):
        pull = hop.vjp(lambda x: hop.sum(x**3), vector(1, 2))[1]
        self.equal(hop.jit(lambda p, c: p(c)[0])(pull, 2.0), [6, 24])
        doubled = hop.tree.map(lambda a: a, pull)
        self.equal(doubled(1.0)[0], [3, 12])
        self.assertEqual(hop.tree.structure(doubled), hop.tree.structure(pull))
        self.equal(hop.jit(lambda x: hop.jit(lambda p: p(1.0)[0])(hop.vjp(lambda v: v**2, x)[1]))(3.0), 6.0)

    def test_it_keeps_what_it_reads(self):
        """Nothing of the function is computed again outside."""
        seen = []

        def f(x):
            hop.debug_callback(lambda v: seen.append(v.item()), x)
            return hop.exp(x)

        pull = hop.jit(lambda x: hop.vjp(f, x)[1])(0.0)
        count = len(seen)
        self.assertGreaterEqual(count, 1)
        self.equal(pull(2.0)[0], 2.0)
        self.equal(pull(3.0)[0], 3.0)
        self.assertEqual(len(seen), count)

    def test_sizes_that_depend_on_values(self):
        pull = hop.jit(lambda x: hop.vjp(lambda v: hop.sum(v[v > 0] ** 2), x)[1])(vector(1, -2, 3))
        self.equal(pull(1.0)[0], [2, 0, 6])

    def test_in_loops_and_branches(self):
        squared = lambda x: hop.vjp(lambda y: y**2, x)[1]  # noqa: E731
        last, seen = hop.jit(lambda xs: hop.scan(lambda pull, x: (pull, pull(x)[0]), squared(xs[0]), xs))(
            vector(1, -2, 3)
        )
        self.equal(seen, [2, -4, 6])
        self.equal(last(5.0)[0], 10.0)
        chosen = hop.jit(lambda p, pull: hop.cond(p, lambda: pull, lambda: pull)(1.0)[0])
        self.equal(chosen(True, squared(vector(3)[0])), 6.0)
        with self.assertRaisesRegex(hop.InvalidError, "the vjp of <lambda>"):
            hop.jit(lambda x: hop.cond(x > 0, lambda: squared(x), lambda: squared(x))(1.0))(1.0)
        self.equal(hop.grad(lambda x: hop.jit(lambda v: hop.vjp(lambda y: y**3, v)[1])(x)(1.0)[0])(2.0), 12.0)
        self.equal(copy.deepcopy(squared(vector(3)[0]))(1.0)[0], 6.0)

    def test_nothing_to_derive(self):
        value, pull = hop.jit(lambda n: hop.vjp(lambda k: k * 2, n))(hop.asarray(3))
        self.equal(value, 6)
        self.equal(pull(1)[0], 0, hop.int64)


if __name__ == "__main__":
    unittest.main()
