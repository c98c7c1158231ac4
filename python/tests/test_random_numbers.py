"""hop.random: the same numbers at once, compiled, batched and in loops; distributions; what is refused."""

import math
import unittest

import hop
from hop import random
from support import Case, needs_numpy, numpy

N = 4000
DRAWS = {
    "bits": lambda k: random.bits(k, (7, 3)),
    "uniform": lambda k: random.uniform(k, (5, 41)),
    "uniform float64": lambda k: random.uniform(k, (205,), hop.float64),
    "uniform between": lambda k: random.uniform(k, (205,), minval=-3, maxval=5.5),
    "normal": lambda k: random.normal(k, (1003,)),
    "normal float64": lambda k: random.normal(k, (1003,), hop.float64),
    "normal bfloat16": lambda k: random.normal(k, (103,), dtype=hop.bfloat16),
    "exponential": lambda k: random.exponential(k, (1003,)),
    "gumbel": lambda k: random.gumbel(k, (1003,)),
    "gumbel float16": lambda k: random.gumbel(k, (103,), hop.float16),
    "randint": lambda k: random.randint(k, (103,), -5, 17),
    "randint uint8": lambda k: random.randint(k, (103,), 0, 256, hop.uint8),
    "bernoulli": lambda k: random.bernoulli(k, 0.3, (103,)),
    "bernoulli of an array": lambda k: random.bernoulli(k, hop.linspace(0, 1, 11)),
    "permutation": lambda k: random.permutation(k, 21),
    "permutation of an array": lambda k: random.permutation(k, hop.arange(12).reshape((3, 4)), axis=-1),
    "categorical": lambda k: random.categorical(k, hop.asarray([0.0, 1.0, -2.0]), shape=(103,)),
    "choice": lambda k: random.choice(k, 9, (3, 5)),
    "choice once": lambda k: random.choice(k, hop.arange(9) * 2, (5,), replace=False),
    "choice weighted": lambda k: random.choice(k, 3, (103,), p=[0.5, 0.25, 0.25]),
    "choice weighted once": lambda k: random.choice(k, 5, (3,), replace=False, p=[0.5, 0.25, 0.1, 0.1, 0.05]),
    "split": lambda k: random.split(k, 5),
    "fold_in": lambda k: random.fold_in(k, 11),
}  # fmt: skip


class SameNumbers(Case):
    def test_at_once_and_compiled(self):
        k = random.key(3)
        for name, draw in DRAWS.items():
            with self.subTest(name):
                first = draw(k)
                for _ in range(14):  # operators used often are compiled
                    again = draw(k)
                self.equal(again, first.tolist(), first.dtype)
                self.equal(hop.jit(draw)(k), first.tolist(), first.dtype)
                if name not in INEXACT:
                    self.equal(hop.jit(draw, strict=True)(random.key(4)), draw(random.key(4)).tolist())

    def test_many_keys(self):
        keys = random.split(random.key(5), 3)
        for name, draw in DRAWS.items():
            with self.subTest(name):
                self.equal(hop.vmap(draw)(keys), [draw(k).tolist() for k in keys])

    def test_in_loops(self):
        def step(key, i):
            return random.fold_in(key, i), random.normal(key, (3,))

        k, rows = random.key(1), []
        at = k
        for i in range(4):
            at, y = step(at, i)
            rows.append(y.tolist())
        last, ys = hop.scan(step, k, hop.arange(4))
        self.equal(last, at.tolist())
        self.equal(ys, rows)

    def test_gradients_pass(self):
        """A sample that is moved and stretched has the derivatives of that."""
        k, n = random.key(2), random.normal(random.key(2), (5,))
        self.close(hop.grad(lambda s: hop.sum(s * random.normal(k, (5,))))(2.0), float(n.sum()))
        u = random.uniform(k, (5,))
        self.close(
            hop.grad(lambda hi: hop.sum(random.uniform(k, (5,), minval=0.0, maxval=hi)))(2.0), float(u.sum())
        )


# rounded more than once
INEXACT = [
    name
    for name in DRAWS
    if name.startswith(("normal", "exponential", "gumbel", "categorical", "choice weighted"))
]


class Keys(Case):
    def test_seeds(self):
        self.equal(random.key(7), [0, 7], hop.uint32)
        self.equal(random.key((5 << 32) + 7), [5, 7])
        self.equal(random.key(-1), [0xFFFFFFFF, 0xFFFFFFFF])
        for seed in (7, -7, 1 << 40):
            self.equal(hop.jit(random.key)(hop.asarray(seed)), random.key(seed).tolist())

    def test_different(self):
        k = random.key(0)
        seen = [
            k,
            *random.split(k, 8),
            *[random.fold_in(k, i) for i in range(-8, 8)],
            random.fold_in(random.key(1), 0),
            *random.split(random.split(k)[0]),
        ]
        self.assertEqual(len({tuple(s.tolist()) for s in seen}), len(seen))

    def test_split(self):
        k = random.key(0)
        self.assertEqual(random.split(k).shape, (2, 2))
        self.equal(random.split(k, (2, 3)).reshape((6, 2)), random.split(k, 6).tolist())
        a, b = random.split(k)
        self.assertNotEqual(random.normal(a, (3,)).tolist(), random.normal(b, (3,)).tolist())

    def test_fold_in(self):
        k = random.key(9)
        for data in (0, 5, -1, -(1 << 31)):
            for dtype in (hop.int32, hop.int64):
                self.equal(
                    random.fold_in(k, hop.asarray(data, dtype=dtype)), random.fold_in(k, data).tolist()
                )
        self.equal(random.fold_in(k, hop.asarray(200, dtype=hop.uint8)), random.fold_in(k, 200).tolist())
        with self.assertRaises(TypeError):
            random.fold_in(k, 1.5)


class Distributions(Case):
    def about(self, x, mean, variance):
        x = x.astype(hop.float64)
        self.assertLess(abs(float(x.mean()) - mean), 5 * math.sqrt(variance / N))
        self.assertLess(abs(float(x.var()) - variance), 0.15 * variance)

    def test_moments(self):
        k = random.key(12)
        self.about(random.uniform(k, (N,)), 0.5, 1 / 12)
        self.about(random.uniform(k, (N,), minval=-1, maxval=3), 1, 16 / 12)
        self.about(random.normal(k, (N,)), 0, 1)
        self.about(random.exponential(k, (N,)), 1, 1)
        self.about(random.gumbel(k, (N,)), 0.5772156649, math.pi**2 / 6)
        self.about(random.bernoulli(k, 0.25, (N,)), 0.25, 0.25 * 0.75)
        self.about(random.randint(k, (N,), 10, 20), 14.5, 99 / 12)

    def counts(self, x, n):
        return [int(hop.sum(x == i)) / x.size for i in range(n)]

    def test_weights(self):
        k, weights = random.key(21), [0.1, 0.0, 0.6, 0.3]
        p = hop.asarray(weights)
        for found in (
            random.categorical(k, hop.log(p), shape=(N,)),
            random.choice(k, 4, (N,), p=p),
            random.choice(k, 4, (N,), p=10 * p),
        ):
            self.close(self.counts(found, 4), weights, 0.03)
            self.assertEqual(self.counts(found, 4)[1], 0)
        first = hop.vmap(lambda k: random.choice(k, 4, (2,), replace=False, p=p)[0])(random.split(k, N))
        self.close(self.counts(first, 4), weights, 0.03)

    def test_bounds(self):
        k = random.key(30)
        # a float32 in three is the upper bound before it is put right
        x = random.uniform(k, (N,), minval=1e8, maxval=1e8 + 16)
        self.assertTrue(bool(hop.all((x >= 1e8) & (x < 1e8 + 16))))
        self.equal(random.uniform(k, (3,), minval=2.0, maxval=2.0), [2, 2, 2])
        # a range that is wider than any float32
        for bounds in ((-3e38, 3e38), (hop.asarray(-3e38), hop.asarray(3e38))):
            x = random.uniform(k, (N,), minval=bounds[0], maxval=bounds[1])
            self.assertTrue(-3e38 <= float(x.min()) < -2e38 and 2e38 < float(x.max()) < 3e38)
        self.assertEqual(set(random.randint(k, (N,), -2, 2).tolist()), {-2, -1, 0, 1})
        self.assertTrue(bool(hop.all(hop.isfinite(random.gumbel(k, (N,))))))
        lo = hop.asarray([[0.0], [10.0]])
        y = random.uniform(k, (2, 50), minval=lo, maxval=lo + 1)
        self.assertTrue(bool(hop.all((y >= lo) & (y < lo + 1))))

    def test_permutations(self):
        k = random.key(40)
        self.assertEqual(sorted(random.permutation(k, 50).tolist()), list(range(50)))
        x = hop.arange(12).reshape((4, 3))
        self.assertEqual(sorted(random.permutation(k, x).tolist()), x.tolist())
        self.assertEqual(sorted(random.choice(k, 50, (50,), replace=False).tolist()), list(range(50)))

    def test_shapes(self):
        k = random.key(50)
        for draw in (random.bits, random.uniform, random.normal, random.exponential, random.gumbel):
            self.assertEqual(draw(k).shape, ())
            self.assertEqual(draw(k, 3).shape, (3,))
            self.assertEqual(draw(k, (0, 2)).shape, (0, 2))
        logits = hop.zeros((2, 5, 3))
        self.assertEqual(random.categorical(k, logits).shape, (2, 5))
        self.assertEqual(random.categorical(k, logits, axis=1).shape, (2, 3))
        self.assertEqual(random.categorical(k, logits, shape=(7, 2, 5)).shape, (7, 2, 5))
        self.assertEqual(random.choice(k, logits, (4, 6), axis=1).shape, (2, 4, 6, 3))
        self.assertEqual(random.choice(k, 3).shape, ())


class Others(Case):
    def test_numbers_of_arrays(self):
        k = random.key(0)
        self.equal(random.permutation(k, hop.asarray(5)), random.permutation(k, 5).tolist())
        self.equal(random.choice(k, hop.asarray(5), (3,)), random.choice(k, 5, (3,)).tolist())

    @needs_numpy
    def test_numpy(self):
        k = random.key(3)
        self.equal(random.key(numpy.uint64((1 << 63) + 1)), [1 << 31, 1])
        self.equal(random.normal(numpy.asarray(k), (numpy.int64(2),)), random.normal(k, (2,)).tolist())
        self.equal(random.fold_in(k, numpy.int32(-4)), random.fold_in(k, -4).tolist())
        self.equal(random.permutation(k, numpy.int32(6)), random.permutation(k, 6).tolist())
        self.equal(random.permutation(k, numpy.arange(6)), random.permutation(k, 6).tolist())
        self.equal(
            random.randint(k, (4,), numpy.int32(2), numpy.int64(9)), random.randint(k, (4,), 2, 9).tolist()
        )


class Refused(Case):
    def test_refused(self):
        k = random.key(0)
        for bad, message in (
            (lambda: random.normal(random.split(k)), "vmap"),
            (lambda: random.normal(0), r"hop\.random\.key"),
            (lambda: random.normal(k, (2,), hop.int32), "float dtype"),
            (lambda: random.randint(k, (2,), 0, 3, hop.float32), "integer dtype"),
            (lambda: random.randint(k, (2,), 3, 3), "no integers"),
            (lambda: random.randint(k, (2,), 0, 300, hop.uint8), "no integers"),
            (lambda: random.randint(k, (2,), 0.5, 3), "minval"),
            (lambda: random.permutation(k, hop.ones(3), axis=1), "axis 1"),
            (lambda: random.categorical(k, hop.ones((2, 3)), shape=(5,)), "broadcast"),
            (lambda: random.categorical(k, hop.ones((2, 0))), "nothing"),
            (lambda: random.choice(k, 3, (4,), replace=False), "without repetition"),
            (lambda: random.choice(k, 3, (4,), p=[0.5, 0.5]), "one weight"),
            (lambda: random.choice(k, 0, (4,)), "nothing"),
        ):
            with self.assertRaisesRegex((TypeError, ValueError), message):
                bad()


class Bounds(Case):
    def test_arrays(self):
        key = hop.random.key(3)
        lo, hi = hop.asarray([0, 10, -5]), hop.asarray([[1], [20]])
        drawn = hop.random.randint(key, (4000, 2, 3), lo, hi + 20, hop.int32)
        self.assertEqual((drawn.shape, drawn.dtype), ((4000, 2, 3), hop.int32))
        self.equal(hop.min(drawn, 0), [[0, 10, -5]] * 2)
        self.equal(hop.max(drawn, 0), [[20] * 3, [39] * 3])
        self.close(hop.mean(drawn, 0), [[10, 15, 7.5], [19.5, 24.5, 17]], 0.06)
        self.equal(hop.random.randint(key, (3,), 5, hop.asarray([6, 6, 6])), [5, 5, 5])
        self.assertEqual(hop.random.randint(key, None, lo, 30).shape, (3,))
        self.assertEqual(hop.random.randint(key, None, 0, 30).shape, ())

    def test_everywhere_the_same(self):
        # of the second span nearly half of all draws are repeated
        lo, hi = hop.asarray([0, 0, 0]), hop.asarray([3, 2**62 + 1, 2**63 - 1])
        draw = lambda key: hop.random.randint(key, (50, 3), lo, hi)  # noqa: E731
        keys = hop.random.split(hop.random.key(1), 4)
        expected = hop.stack([draw(k) for k in keys]).tolist()
        self.equal(hop.stack([hop.jit(draw)(k) for k in keys]), expected)
        self.equal(hop.vmap(draw)(keys), expected)
        self.equal(hop.jit(hop.vmap(draw))(keys), expected)
        self.equal(hop.map(draw, keys), expected)
        large = hop.stack([draw(k) for k in keys])[..., 1]
        self.assertTrue(hop.all((large >= 0) & (large <= 2**62)).item())
        self.close(hop.mean(large / 2**62), 0.5, 0.1)

    def test_equally_likely(self):
        drawn = hop.random.randint(hop.random.key(0), (30000, 1), 0, hop.asarray([7]))
        counts = hop.unique_counts(drawn).counts.tolist()
        self.assertEqual(len(counts), 7)
        # chi squared with 6 degrees, p = 0.001
        self.assertLess(sum((n - 30000 / 7) ** 2 / (30000 / 7) for n in counts), 22.5)

    def test_mistakes(self):
        key = hop.random.key(0)
        with self.assertRaisesRegex(TypeError, "maxval must be an integer or an array of integers"):
            hop.random.randint(key, (), 0, hop.asarray([1.5]))
        with self.assertRaisesRegex(ValueError, r"bounds of the shape \(3,\) do not broadcast to \(2,\)"):
            hop.random.randint(key, (2,), 0, hop.asarray([1, 2, 3]))


if __name__ == "__main__":
    unittest.main()
