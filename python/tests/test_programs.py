"""The random programs that `make test-peers` compares with JAX, here in hop alone: at once against
compiled, batches against one call per lane, gradients against differences. HOP_RANDOM=N in the environment
tries N programs, HOP_SEED=K begins with program K."""

import os
import random
import sys
import unittest

import hop
from support import Case

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "peers"))
import programs  # noqa: E402


def flat(tree):
    """Every number of a tree of arrays."""
    out = []

    def add(x):
        if isinstance(x, list):
            for item in x:
                add(item)
        else:
            out.append(x)

    for leaf in hop.tree.leaves(tree):
        add(leaf.tolist())
    return out


def make(numbers, dtype):
    return hop.asarray(numbers, dtype=getattr(hop, dtype))


def direction(rng, x):
    return make([rng.uniform(-1, 1) for _ in range(x.size)], x.dtype.name).reshape(x.shape)


class Programs(Case):
    def agree(self, found, expected, tolerance, what):
        self.assertEqual(hop.tree.structure(found), hop.tree.structure(expected), what)
        for a, b in zip(hop.tree.leaves(found), hop.tree.leaves(expected)):
            self.assertEqual((a.dtype, a.shape), (b.dtype, b.shape), what)
        a, b = flat(found), flat(expected)
        scale = max([1.0, *[abs(v) for v in b if abs(v) < 1e300]])
        for u, v in zip(a, b):
            if u != v and not (u != u and v != v):
                self.assertLessEqual(abs(u - v), tolerance * scale, what)

    def one(self, seed):
        p = programs.make(seed)
        space = p.functions("hop", exact=True)
        program, loss = space["program"], space["loss"]
        x, tree, k = p.arguments(make, exact=True)
        rng = random.Random(seed)
        self.agree(hop.jit(program)(x, tree, k), program(x, tree, k), 1e-9, "jit")
        gradient = hop.grad(loss, (0, 1))
        g = hop.jit(gradient)(x, tree, k)
        self.agree(gradient(x, tree, k), g, 1e-9, "grad, at once")
        xs = hop.stack([x, 0.5 * x, hop.sin(3 * x)])
        lanes = [xs[i] for i in range(3)]
        join = lambda rows: hop.tree.map(lambda *leaves: hop.stack(leaves), *rows)  # noqa: E731
        self.agree(
            hop.vmap(program, (0, None, None))(xs, tree, k),
            join([program(v, tree, k) for v in lanes]),
            1e-9,
            "vmap",
        )
        self.agree(
            hop.vmap(gradient, (0, None, None))(xs, tree, k),
            join([hop.jit(gradient)(v, tree, k) for v in lanes]),
            1e-9,
            "vmap of grad",
        )
        if "stop_gradient" in p.text:
            return
        moves = hop.tree.map(lambda v: direction(rng, v), (x, tree))
        value = hop.jit(loss)
        at = lambda h: value(*hop.tree.map(lambda v, t: v + h * t, (x, tree), moves), k).item()  # noqa: E731
        slope = sum(u * v for u, v in zip(flat(g), flat(moves)))
        central = [(at(h) - at(-h)) / (2 * h) for h in (1e-4, 1e-5)]
        bound = 1e-6 * max(1.0, abs(slope)) + 4 * abs(central[0] - central[1])
        self.differences += 1
        if min(abs(slope - c) for c in central) <= bound and abs(central[0] - central[1]) < 1e-3 * max(
            1.0, abs(slope)
        ):
            return
        sides = [abs((at(h) - 2 * at(0.0) + at(-h)) / h) for h in (1e-5, 1e-6)]
        self.assertGreater(
            min(sides),
            1e-3 * max(1.0, abs(slope)),
            f"the gradient gives {slope}, differences give {central}, and there is no kink",
        )
        self.kinks += 1

    def test_programs(self):
        first, n = int(os.environ.get("HOP_SEED", 1000)), int(os.environ.get("HOP_RANDOM", 20))
        self.differences = self.kinks = 0
        for seed in range(first, first + n):
            with self.subTest(seed=seed):
                self.one(seed)
        self.assertLessEqual(self.kinks, 1 + self.differences // 20)

    def test_generator(self):
        """A seed says everything, and the seeds of make test-peers have every pair of operators one in the
        other."""
        self.assertEqual(programs.make(7).source("jax"), programs.make(7).source("jax"))
        pairs = set()
        for seed in range(600):
            pairs |= programs.make(seed).pairs
        self.assertEqual(set(programs.PAIRS) - pairs, set())


class Positions(Case):
    """What the comparison with JAX found: positions mean the same at once and compiled."""

    def test_beyond_the_ends(self):
        x = hop.asarray([1.0, 2.0, 3.0])
        for i, read, written in (
            (7, 3.0, [1, 2, 3]),
            (-7, 1.0, [1, 2, 3]),
            (-1, 3.0, [1, 2, 9]),
            (1, 2.0, [1, 9, 3]),
        ):
            k = hop.asarray(i)
            for f in (lambda x, k: x[k], hop.jit(lambda x, k: x[k])):
                self.equal(f(x, k), read)
            for f in (lambda x, k: x.at[k].set(9.0), hop.jit(lambda x, k: x.at[k].set(9.0))):
                self.equal(f(x, k), written)
        with self.assertRaises(IndexError):
            x[7]

    def test_dynamic_slices(self):
        x = hop.asarray([1.0, 2.0, 3.0])
        for i, part, changed in (
            (-1, [2, 3], [1, 8, 9]),
            (-3, [1, 2], [8, 9, 3]),
            (-9, [1, 2], [8, 9, 3]),
            (1, [2, 3], [1, 8, 9]),
            (5, [2, 3], [1, 8, 9]),
        ):
            self.equal(hop.dynamic_slice(x, (i,), (2,)), part)
            self.equal(hop.jit(lambda x, k: hop.dynamic_slice(x, (k,), (2,)))(x, i), part)
            self.equal(
                hop.jit(lambda x, k: hop.dynamic_update_slice(x, hop.asarray([8.0, 9.0]), (k,)))(x, i),
                changed,
            )


if __name__ == "__main__":
    unittest.main()
