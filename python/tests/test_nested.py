"""Transforms inside of captured functions, on values whose sizes only a run knows or that are symbols of the
function around: random nestings must give what they give an operator at a time."""

import queue
import random
import unittest

import hop
from hop import _trace
from support import Case


SEEDS = 12


def positive(x):
    return x[x > 0]


def shrunk(x):
    return x[::2]


class Nesting:
    """A random function of a vector: transforms within transforms, which use values from outside of them."""

    def __init__(self, random, cut):
        self.random, self.cut, self.left = random, cut, 6

    def vector(self, depth):
        """A function of (x, more) that gives a vector of the size of x; more is a list of vectors from
        outside, of which the first has that size."""
        r, self.left = self.random, self.left - 1
        if depth == 0 or self.left <= 0:
            k = r.choice([0.5, -1.5, 2.0])
            plain = [
                lambda x, more: x * k,
                lambda x, more: hop.sin(x) + k,
                lambda x, more: x * more[0],
                lambda x, more: x + hop.sum(more[-1]) * k,
                lambda x, more: hop.cumulative_sum(x),
            ]
            return r.choice(plain)
        kinds = ["grad", "vjp", "jvp", "vmap", "scan", "cond", "jit", "checkpoint", "hessian", "compose"]
        kind = r.choice(kinds)
        if kind == "compose":
            f, g = self.vector(depth - 1), self.vector(depth - 1)
            return lambda x, more: f(g(x, more), more) + x
        f = self.vector(depth - 1)
        if kind == "grad":
            return lambda x, more: hop.grad(lambda y: hop.sum(hop.tanh(f(y, [more[0], x]))))(x)
        if kind == "vjp":
            return lambda x, more: hop.vjp(lambda y: hop.tanh(f(y, more)), x)[1](more[0])[0]
        if kind == "jvp":
            return lambda x, more: hop.jvp(lambda y: hop.tanh(f(y, more)), (x,), (more[0],))[1]
        if kind == "vmap":
            return lambda x, more: hop.vmap(lambda a, b: f(more[0] * a, [more[0], x])[:1] + b)(x, x)[:, 0]
        if kind == "scan":
            return lambda x, more: hop.scan(lambda c, a: (hop.tanh(f(c, more)) + a, a * c[0]), x, x)[1]
        if kind == "cond":
            return lambda x, more: hop.cond(hop.sum(x) > 0, lambda y: f(y, more), lambda y: y * 2.0, x)
        if kind == "jit":
            return lambda x, more: hop.jit(lambda y: f(y, more))(x)
        if kind == "checkpoint":
            return lambda x, more: hop.grad(
                lambda y: hop.sum(hop.checkpoint(lambda z: hop.sin(f(z, more)))(y))
            )(x)
        return lambda x, more: hop.hessian(lambda y: hop.sum(hop.tanh(y * hop.sum(f(x, more)))))(x) @ x

    def function(self):
        f = self.vector(3)

        def whole(x):
            y = self.cut(x)
            return f(y, [y * 0.5, x])

        return whole


class Nested(Case):
    def values(self, seed, n):
        r = random.Random(seed)
        return hop.asarray([0.5, *[r.uniform(-1, 1) for _ in range(n - 1)]])

    def test_sizes_that_only_a_run_knows(self):
        for seed in range(SEEDS):
            f = Nesting(random.Random(seed), positive).function()
            for n in (7, 3):
                x = self.values(seed, n)
                with self.subTest(seed=seed, n=n):
                    self.close(hop.jit(f)(x), f(x), 2e-4)

    def test_symbols(self):
        for seed in range(SEEDS):
            f = Nesting(random.Random(seed), shrunk).function()
            t = _trace.capture(f, (self.values(0, 6),), types=["f32[T]"])
            exe = t.function.compile()
            for n in (6, 9, 1):
                x = self.values(seed, n)
                (got,) = exe.run([x, *t.hidden])
                with self.subTest(seed=seed, n=n):
                    self.close(got, f(x), 2e-4)

    def test_values_from_two_captures_out(self):
        def f(x):
            y = positive(x)

            def loss(w):
                return hop.sum(hop.grad(lambda v: hop.sum(v**2 * y) * w)(y * w))

            return hop.grad(loss)(1.5), hop.value_and_grad(lambda w: hop.sum(w * y))(y)

        x = self.values(1, 9)
        for got, want in zip(hop.tree.leaves(hop.jit(f)(x)), hop.tree.leaves(f(x))):
            self.close(got, want, 1e-5)

    def test_pullbacks_are_called_inside_of_other_captures(self):
        def f(x):
            y = positive(x)
            _, pullback = hop.vjp(lambda q: q**3, y)
            return hop.grad(lambda w: hop.sum(pullback(y * w)[0]))(2.0)

        x = self.values(2, 9)
        self.close(hop.jit(f)(x), f(x), 1e-5)

    def test_what_arguments_fit(self):
        t = _trace.capture(lambda x, y: x + y, (self.values(0, 3),) * 2, types=["f32[T]", "f32[N]"])
        three, four = self.values(0, 3), self.values(0, 4)
        self.assertIsNone(t.function.accepts([three, three]))
        self.assertIn("must equal", t.function.accepts([three, four]))
        self.assertIn("expected f32[T]", t.function.accepts([hop.ones((3, 3)), three]))
        self.assertIn("takes 2 arguments", t.function.accepts([three]))
        with self.assertRaises(TypeError):
            t.function.accepts([1.0, three])

    def test_types_of_parameters(self):
        x = self.values(0, 3)
        types = [(hop.ones((4, 3)), 0), "i32[N]"]
        f, _, _ = hop._core.capture(lambda a, b: [a * 2, b], "f", ["a", "b"], types)
        self.assertEqual(f.params, ("f32[3]", "i32[N]"))
        f, _, _ = hop._core.capture(lambda a: [a], "f", ["a"], [(x, "lanes")])
        self.assertEqual(f.params, ("f32[lanes, 3]",))
        for types in ([3, x], [x], [(x, 1.5), x], [(1, 2), x]):
            with self.assertRaises((TypeError, ValueError)):
                hop._core.capture(lambda a, b: [a], "f", ["a", "b"], types)
        kept = queue.SimpleQueue()
        hop.jit(lambda a: (kept.put(a), a)[1])(x)
        with self.assertRaises(hop.TracerError):
            hop._core.capture(lambda a: [a], "f", ["a"], [kept.get()])


if __name__ == "__main__":
    unittest.main()
