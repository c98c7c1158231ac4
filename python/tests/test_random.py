"""Random programs with branches, loops and transforms inside: captured ones against the same programs run
step by step in Python; derivatives against differences, batches against one call per lane. HOP_RANDOM=N in
the environment tries N programs, HOP_SEED=K begins with program K."""

import os
import random
import unittest

import hop
from support import Case

N = 3  # elements of every value


class Steps:
    """Operators that take functions, as plain Python on arrays."""

    @staticmethod
    def cond(p, then, otherwise, *operands):
        return (then if p.item() else otherwise)(*operands)

    @staticmethod
    def while_loop(test, body, carry):
        while test(carry).item():
            carry = body(carry)
        return carry

    @staticmethod
    def fori_loop(lo, hi, body, carry):
        for i in range(lo, hi):
            carry = body(i, carry)
        return carry

    @staticmethod
    def scan(f, carry, xs, reverse=False):
        rows = []
        order = range(len(xs))
        for i in reversed(order) if reverse else order:
            carry, y = f(carry, xs[i])
            rows.insert(0 if reverse else len(rows), y)
        return carry, hop.stack(rows)

    @staticmethod
    def map(f, xs):
        return hop.stack([f(xs[i]) for i in range(len(xs))])

    @staticmethod
    def associative_scan(f, xs):
        rows = [xs[0]]
        for i in range(1, len(xs)):
            rows.append(f(rows[-1], xs[i]))
        return hop.stack(rows)

    jit = checkpoint = staticmethod(lambda f: f)


def program(rng, depth):
    """A random function (operators, x, y) -> vector; y is closed over by bodies."""
    if depth == 0:
        k = rng.uniform(-1, 1)
        return rng.choice(
            [
                lambda o, x, y: hop.sin(x),
                lambda o, x, y: x * y,
                lambda o, x, y: x + k,
                lambda o, x, y: x - 0.5 * y,
                lambda o, x, y: hop.tanh(x * k) + y,
                lambda o, x, y: x[::-1] * k,
            ]
        )
    a, b = program(rng, depth - 1), program(rng, depth - 1)
    k, n = rng.uniform(-0.5, 0.5), rng.randrange(4)
    kinds = [
        lambda o, x, y: a(o, b(o, x, y), x),
        lambda o, x, y: o.cond(hop.sum(x) > k, lambda v: a(o, v, y), lambda v: b(o, v, y), x),
        lambda o, x, y: o.while_loop(
            lambda c: c[1] < n, lambda c: (hop.tanh(a(o, c[0], y)), c[1] + 1), (x, hop.asarray(0))
        )[0],
        lambda o, x, y: o.fori_loop(0, n, lambda i, c: hop.tanh(a(o, c, y)) + i * k, x),
        lambda o, x, y: o.scan(lambda c, v: (hop.tanh(a(o, c, y)) + v, c * v), x, hop.stack([y, x]))[0],
        lambda o, x, y: hop.sum(
            o.scan(lambda c, v: (hop.sin(c) * v, b(o, c, v)), y, hop.stack([x, y, x * k]), reverse=True)[1],
            axis=0,
        ),
        lambda o, x, y: hop.sum(o.map(lambda v: a(o, v, y), hop.stack([x, y])), axis=0),
        lambda o, x, y: o.associative_scan(lambda p, q: hop.tanh(p) + q, hop.stack([x, y, x]))[2],
        lambda o, x, y: o.jit(lambda v: a(o, v, y))(b(o, x, y)),
        lambda o, x, y: o.checkpoint(lambda v: a(o, v, y))(x),
        lambda o, x, y: hop.tanh(hop.grad(lambda v: hop.sum(hop.sin(v) * y))(x)) + b(o, x, y),
        lambda o, x, y: hop.vmap(lambda v: v * x[0] + hop.sum(y))(x) * k,
    ]
    return rng.choice(kinds)


def point(rng):
    return hop.asarray([rng.uniform(-1, 1) for _ in range(N)], dtype=hop.float64)


class Random(Case):
    def test_programs(self):
        first, n = int(os.environ.get("HOP_SEED", 0)), int(os.environ.get("HOP_RANDOM", 40))
        for seed in range(first, first + n):
            with self.subTest(seed=seed):
                self.one(seed)

    def one(self, seed):
        rng = random.Random(seed)
        f = program(rng, rng.choice([1, 2, 2, 3]))
        x, y = point(rng), point(rng)
        plain = f(Steps, x, y)
        self.close(f(hop, x, y), plain, 1e-9)
        self.close(hop.jit(lambda x, y: f(hop, x, y))(x, y), plain, 1e-9)
        direction, step = point(rng), 1e-6
        change = (f(Steps, x + step * direction, y) - f(Steps, x - step * direction, y)) / (2 * step)
        value, moved = hop.jvp(lambda v: f(hop, v, y), (x,), (direction,))
        self.close(value, plain, 1e-9)
        self.close(moved, change, 1e-5)
        weights = point(rng)
        gradient = hop.grad(lambda v: hop.sum(f(hop, v, y) * weights))(x)
        self.close(hop.sum(gradient * direction), hop.sum(change * weights).item(), 1e-5)
        xs = hop.stack([x, x * 0.5, -x])
        lanes = [f(Steps, xs[i], y).tolist() for i in range(3)]
        self.close(hop.vmap(lambda v: f(hop, v, y))(xs), lanes, 1e-9)
        each = [hop.grad(lambda v: hop.sum(f(hop, v, y)))(xs[i]).tolist() for i in range(3)]
        self.close(hop.jit(hop.vmap(hop.grad(lambda v: hop.sum(f(hop, v, y)))))(xs), each, 1e-9)


if __name__ == "__main__":
    unittest.main()
