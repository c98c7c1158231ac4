"""hop.policies.budget: gradients stay within the memory they are given, and are the same whatever it is."""

import random
import re
import unittest

import hop
from support import Case
from test_policies import Programs, weights

P = hop.policies
SIZE = 48


def block(w, x):
    return x + hop.tanh(hop.sin(x @ w) @ w)


def unrolled(ws, x):
    for w in ws:
        x = block(w, x)
    return hop.mean(x * x)


def called(ws, x):
    f = hop.jit(block)
    for w in ws:
        x = f(w, x)
    return hop.mean(x * x)


def scanned(ws, x):
    x, _ = hop.scan(lambda x, w: (block(w, x), None), x, hop.stack(ws))
    return hop.mean(x * x)


def branched(ws, x):
    for w in ws:
        x = hop.cond(hop.sum(x) > 0, lambda w, x: hop.sin(x @ w) + x, block, w, x)
    return hop.mean(x * x)


def nested(ws, x):
    first = hop.checkpoint(lambda ws, x: unrolled(ws, x) * x)
    return unrolled(ws[4:], first(ws[:4], x))


def explained(f, *args):
    return int(re.search(r"^memory: (\d+)", f.explain(*args), re.MULTILINE).group(1))


def gradient(f, policy=None, **options):
    return hop.jit(hop.grad(f if policy is None else hop.checkpoint(f, policy=policy)), **options)


def least(f, *args):
    """The bytes that an error about too small a budget gives."""
    try:
        gradient(f, P.budget(1))(*args)
    except hop.InvalidError as e:
        return int(re.search(r"needs at least (\d+) bytes", str(e)).group(1))
    raise AssertionError("a budget of one byte is met")


class Budgets(Case):
    def setUp(self):
        *ws, self.x = weights(0, *[(SIZE, SIZE)] * 9)
        self.ws = [w / 8 for w in ws]

    def test_within_the_budget(self):
        """Default numbers, and the bits of strict ones."""
        for f in (unrolled, called, scanned, branched, nested):
            expected = gradient(f, strict=True)(self.ws, self.x)
            free = explained(gradient(f, P.budget(1.0)), self.ws, self.x)
            smallest = least(f, self.ws, self.x)
            self.assertLessEqual(smallest, free if f is nested else 0.7 * free, f.__name__)
            for bytes in (free, (free + smallest) // 2, smallest):
                with self.subTest(f=f.__name__, bytes=bytes, free=free):
                    policy = P.budget(bytes)
                    self.assertLessEqual(explained(gradient(f, policy), self.ws, self.x), bytes)
                    found = gradient(f, policy, strict=True)(self.ws, self.x)
                    for a, b in zip(found, expected):
                        self.assertEqual(a.tolist(), b.tolist())

    def test_shares(self):
        free = explained(gradient(called, P.budget(1.0)), self.ws, self.x)
        taken = [
            explained(gradient(called, P.budget(s)), self.ws, self.x) for s in (1.0, 0.9, 0.8, 0.7, 0.6)
        ]
        self.assertEqual(taken[0], free)
        self.assertEqual(taken, sorted(taken, reverse=True))
        for share, bytes in zip((1.0, 0.9, 0.8, 0.7, 0.6), taken):
            self.assertLessEqual(bytes, share * free)
            self.assertGreater(bytes, (share - 0.2) * free)  # and as much of it as can be

    def test_no_more_is_run_again_than_must(self):
        """The products in the gradient's program grow as the budget shrinks."""

        def products(policy):
            return gradient(unrolled, policy).text(self.ws, self.x).count("matmul(")

        free = explained(gradient(unrolled, P.budget(1.0)), self.ws, self.x)
        smallest = least(unrolled, self.ws, self.x)
        counts = [products(P.budget(free - (free - smallest) * k // 4)) for k in range(5)]
        self.assertEqual(counts, sorted(counts))
        self.assertLess(counts[0], counts[-1])
        self.assertLessEqual(counts[-1], 2 * counts[0])  # none is run again twice

    def test_derivatives_and_lanes(self):
        small = P.budget(least(unrolled, self.ws, self.x))
        f = hop.checkpoint(unrolled, policy=small)
        xs = hop.stack([self.x, self.x / 2])
        found = hop.vmap(hop.grad(f, 1), in_axes=(None, 0))(self.ws, xs)
        self.close(found[1], hop.grad(unrolled, 1)(self.ws, self.x / 2), 1e-6)

        def curvature(g):
            return hop.grad(lambda x: hop.sum(hop.grad(g, 1)(self.ws, x)))(self.x)

        self.close(curvature(f), curvature(unrolled), 1e-5)

    def test_effects_are_not_repeated(self):
        seen = []

        def f(ws, x):
            for w in ws:
                x = block(w, x)
                hop.debug_callback(lambda v: seen.append(float(v)), x[0, 0])
            return hop.mean(x * x)

        bytes = least(f, self.ws, self.x)
        seen.clear()
        gradient(f, P.budget(bytes))(self.ws, self.x)
        self.assertEqual(len(seen), len(self.ws))

    def test_random_numbers_are_the_same_again(self):
        def f(ws, x):
            for i, w in enumerate(ws):
                mask = hop.random.bernoulli(hop.random.key(i), 0.5, x.shape)
                x = block(w, hop.where(mask, x, 0.0))
            return hop.mean(x * x)

        expected = gradient(f, strict=True)(self.ws, self.x)
        found = gradient(f, P.budget(least(f, self.ws, self.x)), strict=True)(self.ws, self.x)
        for a, b in zip(found, expected):
            self.assertEqual(a.tolist(), b.tolist())

    def test_errors(self):
        for amount in (0, -1, 1.5, 0.0, True, "half", None, 1 << 70, float("nan")):
            with self.assertRaisesRegex(hop.InvalidError, "policies.budget: expected bytes, an integer"):
                P.budget(amount)
        message = r"test_budget.py:\d+.*policy \"budget\(1\)\": .* needs at least \d+ bytes \(\d+%\)"
        with self.assertRaisesRegex(hop.InvalidError, message):
            gradient(unrolled, P.budget(1))(self.ws, self.x)
        with self.assertRaisesRegex(hop.InvalidError, "expected a policy other than a budget"):
            gradient(unrolled, P.both(P.budget(0.5), P.products))(self.ws, self.x)
        with self.assertRaisesRegex(hop.InvalidError, "expected a policy other than a budget"):
            gradient(unrolled, P.both(P.budget(0.5), P.function(lambda *v: True)))(self.ws, self.x)
        for text in ("budget", "budget()", "budget(-1)", "budget(101%)", "budget(1 2)", "budget(.)"):
            with self.assertRaisesRegex(hop.InvalidError, r"policy \"budget"):
                gradient(unrolled, text)(self.ws, self.x)

    def test_random_programs(self):
        """Of loops, branches, functions and checkpoints in each other, at half of what can be saved."""
        smaller = 0
        for seed in range(8):
            w, x = weights(seed, (SIZE, SIZE), (SIZE, SIZE))
            w = w / 8
            policies = [random.Random(seed + k).choice([None, P.products, P.everything]) for k in range(100)]
            body = Programs(seed, policies).body(2)

            def f(w, x, body=body):
                return hop.sum(body(w, body(w, x)))

            free = explained(gradient(f, P.budget(1.0)), w, x)
            try:
                smallest = least(f, w, x)
            except AssertionError:
                smallest = free  # it takes nothing
            budget = P.budget(max((free + smallest) // 2, 1))
            with self.subTest(seed=seed, free=free, smallest=smallest):
                expected = gradient(f, strict=True)(w, x)
                found = gradient(f, budget, strict=True)(w, x)
                self.assertEqual(found.tolist(), expected.tolist())
                smaller += explained(gradient(f, budget), w, x) < free
        self.assertGreater(smaller, 3)


if __name__ == "__main__":
    unittest.main()
