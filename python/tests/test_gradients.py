"""clip_gradient, reverse_gradient and straight_through: values that nothing changes, gradients and tangents
as they say, at every order, over lanes, in loops, for several sizes."""

import unittest

import hop
from support import Case, differences


def asarray(x):
    return hop.asarray(x, dtype=hop.float64)


class Clip(Case):
    def test_gradients(self):
        x = asarray([-3.0, 0.1, 2.0])
        f = lambda x: hop.sum(hop.clip_gradient(x, -1, 1.5) ** 2)  # noqa: E731
        self.close(f(x), 13.01, 1e-12)
        for g in (hop.grad(f), hop.jit(hop.grad(f)), hop.grad(hop.jit(f))):
            self.close(g(x), [-1.0, 0.2, 1.5], 1e-12)
        self.close(hop.vmap(hop.grad(lambda x: hop.clip_gradient(x, -1, 1.5) ** 2))(x), [-1, 0.2, 1.5], 1e-12)
        # forward mode does not see it
        self.close(hop.jvp(f, (x,), (hop.ones_like(x),))[1], hop.sum(2 * x), 1e-12)
        one_sided = hop.grad(lambda x: hop.sum(hop.clip_gradient(x, max=0.0) ** 2))
        self.close(one_sided(x), [-6.0, 0.0, 0.0], 1e-12)

    def test_bounds_are_arrays(self):
        f = lambda x, b: hop.sum(hop.clip_gradient(x, -b, b) ** 2)  # noqa: E731
        g = hop.jit(hop.grad(f, (0, 1)))(asarray([3.0, 3.0]), asarray([1.0, 9.0]))
        self.close(g[0], [1.0, 6.0], 1e-12)
        self.close(g[1], [0.0, 0.0], 1e-12)

    def test_trees_and_python_values(self):
        tree = {"w": asarray(3.0), "n": hop.asarray(4), "s": "text"}

        def f(tree):
            t = hop.clip_gradient(tree, -1, 1)
            self.assertEqual(t["s"], "text")
            return t["w"] ** 2 * t["n"]

        self.close(hop.grad(lambda w: f({**tree, "w": w}))(tree["w"]), 1.0, 1e-12)
        self.assertEqual(hop.clip_gradient(5, 0, 1), 5)
        with self.assertRaisesRegex(hop.InvalidError, "test_gradients.py:.*expected a bound: min, max or"):
            hop.clip_gradient(tree)

    def test_in_a_loop(self):
        """Each step clips: what comes back from n steps of c -> 3 c is clipped at each."""
        step = lambda c, _: (3 * hop.clip_gradient(c, -5, 5), None)  # noqa: E731
        f = lambda x: hop.scan(step, x, None, length=4)[0]  # noqa: E731
        self.close(f(asarray(2.0)), 162.0, 1e-12)
        self.close(hop.jit(hop.grad(f))(asarray(2.0)), 5.0, 1e-12)


class Reverse(Case):
    def test_orders(self):
        x = asarray([1.0, 2.0])
        f = lambda x: hop.sum(hop.reverse_gradient(x, 3.0) ** 2)  # noqa: E731
        self.close(f(x), 5.0, 1e-12)
        for g in (hop.grad(f), hop.jit(hop.grad(f)), hop.jacfwd(f)):
            self.close(g(x), [-6.0, -12.0], 1e-12)
        self.close(hop.hessian(f)(x), [[18.0, 0.0], [0.0, 18.0]], 1e-12)
        self.close(hop.jvp(f, (x,), (hop.ones_like(x),))[1], -18.0, 1e-12)

    def test_scales_are_arrays(self):
        g = hop.vmap(hop.grad(lambda x, s: hop.reverse_gradient(x, s) ** 2))
        self.close(g(asarray([1.0, 2.0]), asarray([1.0, 3.0])), [-2.0, -12.0], 1e-12)
        scale = asarray([1.0, 3.0])  # from outside of the function
        g = hop.jit(hop.grad(lambda x: hop.sum(hop.reverse_gradient(x, scale) ** 2)))
        self.close(g(asarray([1.0, 2.0])), [-2.0, -12.0], 1e-12)

    def test_many_sizes(self):
        g = hop.jit(hop.grad(lambda x: hop.sum(hop.reverse_gradient(x) ** 3)))
        for n in range(2, 6):
            x = hop.arange(n, dtype=hop.float64)
            self.close(g(x), -3 * x**2, 1e-12)

    def test_a_game(self):
        """min over w, max over v of w v + w^2 / 2 - v^2 / 2 by one gradient."""

        def cost(p):
            w, v = p["w"], hop.reverse_gradient(p["v"])
            return (w + 1) * v + w**2 / 2 - v**2 / 2

        step = hop.jit(lambda p: hop.tree.map(lambda x, g: x - 0.1 * g, p, hop.grad(cost)(p)))
        p = {"w": asarray(1.0), "v": asarray(-1.0)}
        for _ in range(300):
            p = step(p)
        self.close(p["w"], -0.5, 1e-6)
        self.close(p["v"], 0.5, 1e-6)


class StraightThrough(Case):
    def test_rounding(self):
        f = hop.straight_through(hop.round)
        x = asarray([0.6, 1.7, -2.2])
        self.equal(f(x), [1.0, 2.0, -2.0])
        self.equal(hop.jit(f)(x), [1.0, 2.0, -2.0])
        cost = lambda x: hop.sum(f(x) ** 3)  # noqa: E731
        self.close(hop.grad(cost)(x), [3.0, 12.0, 12.0], 1e-12)
        self.close(hop.jvp(cost, (x,), (hop.ones_like(x),))[1], 27.0, 1e-12)
        self.close(hop.vmap(hop.hessian(lambda x: f(x) ** 3))(x), [6.0, 12.0, -12.0], 1e-12)
        third = hop.grad(hop.grad(hop.grad(lambda x: f(x) ** 4)))
        self.close(third(asarray(1.7)), 48.0, 1e-12)

    def test_surrogates(self):
        pick = hop.straight_through(
            lambda x: hop.one_hot(hop.argmax(x), x.shape[0], dtype=hop.float64), hop.softmax
        )
        x, w = asarray([0.3, 1.0, -0.5]), asarray([1.0, 2.0, 4.0])
        self.equal(hop.jit(pick)(x), [0.0, 1.0, 0.0])
        soft = lambda x: hop.softmax(x) @ w  # noqa: E731
        self.close(hop.grad(lambda x: pick(x) @ w)(x), differences(soft, x), 1e-5)
        two = hop.straight_through(lambda a, b: hop.sign(a - b), lambda a, b: hop.tanh(a - b))
        self.close(hop.grad(two, (0, 1))(asarray(1.0), asarray(1.0))[1], -1.0, 1e-12)
        self.equal(two(asarray(1.0), asarray(0.5)), 1.0)

    def test_plain_control_flow_in_it(self):
        def step(x):
            if x > 0:
                return 1.0 + 0 * x
            return 0 * x

        f = hop.straight_through(step)
        self.close(hop.jit(hop.grad(lambda x: f(x) * x))(asarray(3.0)), 4.0, 1e-12)

    def test_mistakes(self):
        x = hop.ones(3)
        with self.assertRaisesRegex(hop.InvalidError, r"gives i64\[\], its first argument is f32\[3\]"):
            hop.grad(lambda x: hop.sum(hop.straight_through(lambda x: hop.argmax(x))(x)))(x)
        with self.assertRaisesRegex(
            hop.InvalidError, r"the function 'head' gives f32\[2\], the surrogate 'tanh' is f32\[3\]"
        ):
            def head(x):
                return x[:2]

            hop.grad(lambda x: hop.sum(hop.straight_through(head, hop.tanh)(x)))(x)
        with self.assertRaisesRegex(TypeError, "straight_through: fun"):
            hop.straight_through(3)


if __name__ == "__main__":
    unittest.main()
