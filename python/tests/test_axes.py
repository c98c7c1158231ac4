"""Named axes: operators across the lanes of vmap beside NumPy on the array of all lanes, their derivatives
from inside and from outside, in loops, branches and calls, and what is refused."""

import unittest

import hop
from support import needs_numpy, numpy as np

N = 4


def lanes(*shape):
    return np.random.default_rng(sum(shape) + 7).uniform(-1, 1, (N, *shape))


def over(f, **how):
    return hop.vmap(f, axis_name="i", **how)


def repeated(x):
    return np.broadcast_to(x, (N, *np.shape(x)))


@needs_numpy
class Axes(unittest.TestCase):
    def close(self, found, expected, rtol=1e-10):
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=rtol, atol=1e-12)

    # ---- values ----

    def test_reductions(self):
        x = lanes(3)
        self.close(over(lambda x: hop.psum(x, "i"))(x), repeated(x.sum(0)))
        self.close(over(lambda x: hop.pmean(x, "i"))(x), repeated(x.mean(0)))
        self.close(over(lambda x: hop.pmax(x, "i"))(x), repeated(x.max(0)))
        self.close(over(lambda x: hop.pmin(x, "i"))(x), repeated(x.min(0)))
        self.close(over(lambda x: hop.all_reduce(x, "i", "prod"))(x), repeated(x.prod(0)))

    def test_a_result_that_is_the_same_needs_no_axis(self):
        x = lanes(3)
        self.close(over(lambda x: hop.psum(x, "i"), out_axes=None)(x), x.sum(0))
        with self.assertRaisesRegex(hop.InvalidError, "differs from lane to lane"):
            over(lambda x: x + hop.psum(x, "i"), out_axes=None)(x)

    def test_trees(self):
        x, y = lanes(3), lanes(2)
        found = over(lambda t: hop.psum(t, "i"))({"a": x, "b": (y,)})
        self.close(found["a"], repeated(x.sum(0)))
        self.close(found["b"][0], repeated(y.sum(0)))

    def test_gathers(self):
        x = lanes(3, 2)
        self.close(over(lambda x: hop.all_gather(x, "i"))(x), repeated(x))
        for axis in (0, 1, 2, -1):
            expected = repeated(np.moveaxis(x, 0, axis % 3))
            self.close(over(lambda x: hop.all_gather(x, "i", axis=axis))(x), expected)
        self.close(over(lambda x: hop.all_gather(x, "i", tiled=True))(x), repeated(x.reshape(N * 3, 2)))
        wide = np.concatenate(list(x), axis=1)
        self.close(over(lambda x: hop.all_gather(x, "i", axis=1, tiled=True))(x), repeated(wide))

    def test_scatters(self):
        x, y = lanes(N, 2), lanes(3, 2 * N)
        self.close(over(lambda x: hop.psum_scatter(x, "i"))(x), x.sum(0))
        found = over(lambda y: hop.psum_scatter(y, "i", scatter_dimension=1, tiled=True))(y)
        self.close(found, np.moveaxis(y.sum(0).reshape(3, N, 2), 1, 0))

    def test_all_to_all(self):
        x, y = lanes(N, 2), lanes(2 * N, 3)
        self.close(over(lambda x: hop.all_to_all(x, "i", 0, 0))(x), np.swapaxes(x, 0, 1))
        self.close(over(lambda x: hop.all_to_all(x, "i", 0, 1))(x), np.moveaxis(x, (1, 0), (0, 2)))
        found = over(lambda y: hop.all_to_all(y, "i", 0, 1, tiled=True))(y)
        parts = y.reshape(N, N, 2, 3)
        expected = [np.concatenate([parts[s, t] for s in range(N)], axis=1) for t in range(N)]
        self.close(found, expected)

    def test_permutations(self):
        x = lanes(3)
        ring = [(k, (k + 1) % N) for k in range(N)]
        self.close(over(lambda x: hop.ppermute(x, "i", ring))(x), np.roll(x, 1, axis=0))
        found = over(lambda x: hop.ppermute(x, "i", [(0, 3)]))(x)
        self.close(found, [0 * x[0], 0 * x[0], 0 * x[0], x[0]])
        self.close(over(lambda x: hop.rank_broadcast(x, "i", 2))(x), repeated(x[2]))

    def test_numbers_of_lanes(self):
        x = lanes()
        self.close(over(lambda x: x * 0 + hop.axis_index("i"))(x), np.arange(N))
        self.assertEqual(over(lambda x: hop.axis_size("i") + 0 * x)(x)[0], N)

    def test_two_axes(self):
        x = np.random.default_rng(3).uniform(-1, 1, (2, 3, 4))

        def f(x):
            return x - hop.psum(x, ("i", "j")) / hop.axis_size(("i", "j"))

        found = hop.vmap(hop.vmap(f, axis_name="j"), axis_name="i")(x)
        self.close(found, x - x.mean((0, 1)))
        plain = hop.vmap(hop.vmap(lambda x: hop.psum(x, "i")), axis_name="i")(x)
        self.close(plain, np.broadcast_to(x.sum(0), x.shape))
        outside = hop.vmap(hop.vmap(lambda x: hop.psum(x, "i"), axis_name="i"))(x)
        self.close(outside, np.broadcast_to(x.sum(1, keepdims=True), x.shape))

    def test_under_jit_with_sizes_that_change(self):
        f = hop.jit(lambda x: over(lambda x: x - hop.pmean(x, "i"))(x))
        for n in (2, 3, 5, 6):
            x = np.random.default_rng(n).uniform(-1, 1, (n, 2))
            self.close(f(x), x - x.mean(0))
        g = hop.jit(lambda x: over(lambda x: hop.sum(hop.all_gather(x, "i") ** 2))(x))
        for n in (2, 3, 5):
            x = np.random.default_rng(n).uniform(-1, 1, (n, 2))
            self.close(g(x), np.full(n, (x**2).sum()))

    # ---- derivatives ----

    def both(self, f, x, w):
        """f(x, w), a number of each lane: gradients taken in the lane's function, and of the sum over all."""
        inside = over(hop.grad(f, (0, 1)), in_axes=(0, None), out_axes=(0, None))(x, w)

        def total(x, w):
            return hop.sum(over(f, in_axes=(0, None))(x, w))

        for found, expected in zip(inside, hop.grad(total, (0, 1))(x, w)):
            self.close(found, expected)
        hop.check_grads(total, (x, w), order=2, modes=("fwd", "rev"))

    def test_gradients_inside_and_outside(self):
        x, w, ring = lanes(3), lanes(3)[0] + 2, [(k, (k + 1) % N) for k in range(N)]
        functions = [
            lambda x, w: hop.sum(hop.sin(x * w)),
            lambda x, w: hop.sum(x * hop.psum(hop.sin(x * w), "i")),
            lambda x, w: hop.sum(hop.psum(x, "i") * w * x) + hop.sum(w**2),
            lambda x, w: hop.sum(hop.pmean(x * w, "i") ** 2 * x),
            lambda x, w: hop.sum(hop.pmax(x * w, "i") * x),
            lambda x, w: hop.sum(hop.all_reduce(x + w, "i", "prod") * x),
            lambda x, w: hop.sum(hop.all_gather(x * w, "i") ** 2 * x),
            lambda x, w: hop.sum(hop.all_gather(hop.sin(x), "i", tiled=True) ** 2) * hop.sum(w * x),
            lambda x, w: hop.sum(hop.ppermute(x * w, "i", ring) ** 3),
            lambda x, w: hop.sum(hop.ppermute(x * w, "i", ring[:2]) * x),
            lambda x, w: hop.sum(hop.rank_broadcast(x * w, "i", 1) ** 2 * x),
            lambda x, w: hop.sum(hop.psum_scatter(hop.outer(w[0] + hop.arange(N), x * w), "i") ** 2),
            lambda x, w: hop.sum(hop.all_to_all(hop.outer(w[0] + hop.arange(N), x), "i", 0, 0) ** 3),
            lambda x, w: hop.sum(x * w) * hop.astype(hop.axis_index("i") + 1, hop.float64),
        ]
        for k, f in enumerate(functions):
            with self.subTest(k):
                self.both(f, x, w)

    def test_in_loops_branches_and_calls(self):
        x, w = lanes(3), lanes(3)[0] + 2

        def scanned(x, w):
            def step(c, k):
                return hop.sin(c + hop.pmean(c * w, "i") * x), None

            return hop.sum(hop.scan(step, hop.zeros(3, dtype=hop.float64), None, length=3)[0])

        def counted(x, w):
            return hop.sum(hop.fori_loop(0, 2, lambda k, c: hop.psum(hop.sin(c * w), "i") + x, x))

        def chosen(x, w):
            return hop.sum(
                hop.cond(
                    hop.psum(hop.sum(x), "i") > -100, lambda: hop.psum(x * w, "i") * x, lambda: x * w
                )
            )

        def own(x, w):
            return hop.sum(hop.cond(hop.sum(x) > 0, lambda: x * w, lambda: hop.sin(w)))

        def called(x, w):
            return hop.sum(hop.jit(lambda x, w: hop.psum(x * w, "i") ** 2 * x)(x, w))

        def kept(x, w):
            return hop.sum(hop.checkpoint(lambda x, w: hop.sin(hop.psum(x * w, "i")) * x)(x, w))

        for f in (scanned, counted, chosen, own, called, kept):
            with self.subTest(f.__name__):
                self.both(f, x, w)

    def test_a_loop_that_ends_for_all_lanes(self):
        x = np.abs(lanes(2)) + 0.1

        def f(x):
            return hop.while_loop(lambda c: hop.pmax(hop.sum(c), "i") < 10, lambda c: c + hop.psum(c, "i"), x)

        expected = x.copy()
        while expected.sum(1).max() < 10:
            expected = expected + expected.sum(0)
        self.close(over(f)(x), expected)

    def test_what_lanes_share_has_one_gradient(self):
        x, w = lanes(3), lanes(3)[0]

        def loss(w, x):
            return hop.sum(hop.sin(w * x))

        shared = over(lambda x: hop.grad(loss)(w, x), out_axes=None)(x)
        self.close(shared, (x * np.cos(w * x)).sum(0))
        own = over(lambda x: hop.grad(loss)(hop.vary(w, "i"), x))(x)
        self.close(own, x * np.cos(w * x))
        mean = over(lambda x: hop.grad(lambda w: hop.pmean(loss(w, x), "i"))(w), out_axes=None)(x)
        self.close(mean, (x * np.cos(w * x)).mean(0))

    def test_a_loss_that_is_the_same_in_all_lanes_counts_once(self):
        x, w = lanes(3), lanes(3)[0]

        def f(x, w):
            return hop.sum(hop.psum(hop.sin(x * w), "i") ** 2)

        inside = over(hop.grad(f, (0, 1)), in_axes=(0, None), out_axes=(0, None))(x, w)
        outside = hop.grad(over(f, in_axes=(0, None), out_axes=None), (0, 1))(x, w)
        for found, expected in zip(inside, outside):
            self.close(found, expected)
        self.close(inside[0], 2 * np.sin(x * w).sum(0) * np.cos(x * w) * w)

    def test_a_function_under_jit_knows_what_varies(self):
        x, w = lanes(3), lanes(3)[0]
        slope = hop.jit(lambda w, x: hop.grad(lambda w: hop.sum(hop.sin(w * x)))(w))
        self.close(slope(w, x[0]), x[0] * np.cos(w * x[0]))
        self.close(over(lambda x: slope(w, x), out_axes=None)(x), (x * np.cos(w * x)).sum(0))
        own = over(lambda x: slope(hop.vary(w, "i"), x))(x)
        self.close(own, x * np.cos(w * x))
        self.close(hop.vmap(lambda x: slope(w, x))(x), x * np.cos(w * x))

    def test_tangents(self):
        x, d = lanes(3), lanes(3) + 1

        def f(x):
            return hop.psum(hop.sin(x), "i") * x

        found = over(lambda x, d: hop.jvp(f, (x,), (d,))[1])(x, d)
        expected = hop.jvp(over(f), (x,), (d,))[1]
        self.close(found, expected)
        self.close(found, (np.cos(x) * d).sum(0) * x + np.sin(x).sum(0) * d)

    def test_a_rule_of_ones_own(self):
        x, w = lanes(3), lanes(3)[0]

        @hop.custom_vjp
        def f(x, w):
            return hop.sin(x * w)

        def backward(saved, ct):
            x, w = saved
            return ct * hop.cos(x * w) * w, ct * x

        f.defvjp(lambda x, w: (hop.sin(x * w), (x, w)), backward)
        found = over(lambda x: hop.grad(lambda w: hop.sum(f(x, w)))(w), out_axes=None)(x)
        self.close(found, x.sum(0))

    # ---- what is refused ----

    def refused(self, message, f, x=None, kind=hop.InvalidError, **how):
        with self.assertRaisesRegex(kind, message):
            over(f, **how)(lanes(3) if x is None else x)

    def test_refusals(self):
        with self.assertRaisesRegex(hop.InvalidError, "the axis 'i' is not bound.*none is bound here"):
            hop.psum(hop.ones(3), "i")
        self.refused("the axis 'j' is not bound.*bound here: 'i'", lambda x: hop.psum(x, "j"))
        self.refused("lane 1 receives twice", lambda x: hop.ppermute(x, "i", [(0, 1), (2, 1)]))
        self.refused("lane 0 sends twice", lambda x: hop.ppermute(x, "i", [(0, 1), (0, 2)]))
        self.refused("below the size of the axis 'i', 4, found 4", lambda x: hop.ppermute(x, "i", [(0, 4)]))
        self.refused("a multiple of the 4 lanes", lambda x: hop.psum_scatter(x, "i", tiled=True))
        self.refused("expected the size of the axis 'i', 4", lambda x: hop.all_to_all(x, "i", 0, 0))
        self.refused("groups of lanes", lambda x: hop.psum(x, "i", axis_index_groups=[[0, 1], [2, 3]]))
        self.refused("an axis inside of itself", lambda x: over(lambda y: hop.psum(y, "i"))(x))
        self.refused("a lane below the size", lambda x: hop.rank_broadcast(x, "i", 7))
        self.refused("expected numbers", lambda x: hop.psum(x > 0, "i"))

    def test_a_loop_that_ends_lane_by_lane(self):
        self.refused(
            "its predicate varies along the axis 'i', and a body of it has all_reduce",
            lambda x: hop.while_loop(lambda c: hop.sum(c) < 9, lambda c: c + hop.psum(c, "i") + 1, x),
        )
        self.refused(
            "its index varies along the axis 'i'",
            lambda x: hop.cond(hop.sum(x) > 0, lambda: hop.psum(x, "i"), lambda: x),
        )
        self.refused(
            "how often it runs varies",
            lambda x: hop.fori_loop(0, hop.axis_index("i"), lambda k, c: hop.psum(c, "i"), x),
        )

    def test_a_carry_that_varies_too_late(self):
        def f(x):
            def step(c, k):
                slope = hop.grad(lambda c: hop.sum(c * x))(c)
                return c + x + 0 * slope, slope

            return hop.scan(step, hop.zeros(3, dtype=hop.float64), None, length=2)

        self.refused("the body takes gradients: vary what it begins with", f)

        def g(x):
            def step(c, k):
                slope = hop.grad(lambda c: hop.sum(c * x))(c)
                return c + x + 0 * slope, slope

            return hop.scan(step, hop.vary(hop.zeros(3, dtype=hop.float64), "i"), None, length=2)[1]

        x = lanes(3)
        self.close(over(g)(x), np.stack([x, x], axis=1))

    def test_sums_of_what_is_shared(self):
        two = hop.asarray(2.0, dtype=hop.float64)
        for shared in (lambda x: hop.psum(hop.sum(x), "i"), lambda x: two):
            self.refused("the same in all lanes", lambda x, s=shared: hop.psum(s(x), "i"))
            self.refused("the same in all lanes", lambda x, s=shared: hop.all_reduce(s(x), "i", "prod"))
            scattered = lambda x, s=shared: hop.psum_scatter(s(x) * hop.ones(4), "i")
            self.refused("the same in all lanes", scattered)
        x = lanes(4)
        self.close(over(lambda x: x + hop.psum(1, "i"))(x), x + 4)
        self.close(over(lambda x: x + hop.psum(hop.vary(two, "i"), "i"))(x), x + 8)
        self.close(over(lambda x: x + hop.all_reduce(2, "i", "prod"))(x), x + 16)
        self.close(over(lambda x: x + hop.pmean(hop.pmax(two, "i"), "i"))(x), x + 2)

    def test_names(self):
        for name in (3, "", 'a"b', ("i", "j")):
            with self.assertRaises((TypeError, ValueError, hop.InvalidError)):
                hop.vmap(lambda x: x, axis_name=name)(lanes(3))
        x = lanes(3)
        self.close(hop.vmap(lambda x: hop.psum(x, "a b"), axis_name="a b")(x), repeated(x.sum(0)))


if __name__ == "__main__":
    unittest.main()
