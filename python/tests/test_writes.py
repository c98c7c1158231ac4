"""Writes: x[i] = y to arrays from outside of the body that writes. Each operator with bodies, captured and at
once, with derivatives and batches, against the same function written with x.at[i].set(y); what is refused,
and that a refused or abandoned body leaves everything as it was; random programs of nested bodies that write,
against the same program over NumPy's arrays, with gradients against differences."""

import copy
import operator
import random

import hop
from support import Case

try:
    import numpy as np
except ImportError:
    np = None


# ---- the table: each function with writes and without, of f32[4] and f32[3] ----


def in_place_branches(x, xs):
    y = x * 1

    def yes():
        y[0] = 5 * y[1]
        return y[0]

    def no():
        y[1:3] = xs[:2]
        return y[3] * 1

    r = hop.cond(xs[0] > 0, yes, no)
    return y, r


def functional_branches(x, xs):
    def yes(y):
        y = y.at[0].set(5 * y[1])
        return y, y[0]

    def no(y):
        return y.at[1:3].set(xs[:2]), y[3] * 1

    return hop.cond(xs[0] > 0, yes, no, x * 1)


def in_place_one_branch(x, xs):
    y, z = x * 1, x * 2

    def write():
        y[...] = z
        z[0] = 0.0

    hop.cond(hop.sum(xs) > 0, write, lambda: None)
    return y, z


def functional_one_branch(x, xs):
    y, z = x * 1, x * 2
    return hop.cond(hop.sum(xs) > 0, lambda: (z * 1, z.at[0].set(0.0)), lambda: (y * 1, z * 1))


def in_place_switch(x, xs):
    y = x * 1
    branches = [lambda: y.__setitem__(0, 1.0), lambda: y.__setitem__(1, y[0] * xs[1]), lambda: None]
    hop.switch(hop.astype(xs[2], hop.int32), branches)
    return y


def functional_switch(x, xs):
    branches = [lambda y: y.at[0].set(1.0), lambda y: y.at[1].set(y[0] * xs[1]), lambda y: y]
    return hop.switch(hop.astype(xs[2], hop.int32), branches, x * 1)


def in_place_scan(x, xs):
    y = x * 1

    def step(c, v):
        before = y[0]
        whole = +y
        y[0] = before * v + 0.5
        y[1] += whole[0]
        return c + before, y[1]

    c, ys = hop.scan(step, 0.0, xs)
    return c, ys, y


def functional_scan(x, xs):
    def step(state, v):
        c, y = state
        before, whole = y[0], y
        y = y.at[0].set(before * v + 0.5)
        y = y.at[1].add(whole[0])
        return (c + before, y), y[1]

    (c, y), ys = hop.scan(step, (hop.asarray(0.0, dtype=hop.float32), x * 1), xs)
    return c, ys, y


def in_place_reverse_scan(x, xs):
    y = hop.zeros_like(x)
    hop.scan(lambda i, v: (i + 1, y.__setitem__(i, v * x[i])), 0, xs, reverse=True)
    return y


def functional_reverse_scan(x, xs):
    def step(s, v):
        i, y = s
        return (i + 1, y.at[i].set(v * x[i])), 0

    return hop.scan(step, (0, hop.zeros_like(x)), xs, reverse=True)[0][1]


def in_place_fori(x, xs):
    y = x * 1

    def body(i, c):
        y[i + 1] = y[i] * xs[i]
        return c + y[i]

    return hop.fori_loop(0, 3, body, hop.asarray(0.0, dtype=hop.float32)), y


def functional_fori(x, xs):
    def body(i, s):
        c, y = s
        y = y.at[i + 1].set(y[i] * xs[i])
        return c + y[i], y

    return hop.fori_loop(0, 3, body, (hop.asarray(0.0, dtype=hop.float32), x * 1))


def in_place_while(x, xs):
    y = x * 1

    def test(i):
        return (i < 5) & (y[0] < 20)

    def body(i):
        y[0] = y[0] * 1.5 + xs[0] * xs[0]
        y[3] -= y[0]
        return i + 1

    hop.while_loop(test, body, 0)
    return y


def functional_while(x, xs):
    def test(s):
        return (s[0] < 5) & (s[1][0] < 20)

    def body(s):
        i, y = s
        y = y.at[0].set(y[0] * 1.5 + xs[0] * xs[0])
        return i + 1, y.at[3].add(-y[0])

    return hop.while_loop(test, body, (0, x * 1))[1]


def in_place_map(x, xs):
    y = x * 1

    def body(v):
        y[0] += v
        return y[0] * v

    return hop.map(body, xs), y


def functional_map(x, xs):
    def step(y, v):
        y = y.at[0].add(v)
        return y, y[0] * v

    y, out = hop.scan(step, x * 1, xs)
    return out, y


def in_place_slices(x, xs):
    def step(c, r):
        r[0] = r[1] * 3  # the slice's own
        c[1] = r[0] + c[0]
        return c, r * 1

    rows = hop.reshape(x, (2, 2)) * 1
    c, out = hop.scan(step, xs, rows)
    return c, out, rows


def functional_slices(x, xs):
    def step(c, r):
        r = r.at[0].set(r[1] * 3)
        return c.at[1].set(r[0] + c[0]), r

    rows = hop.reshape(x, (2, 2)) * 1
    c, out = hop.scan(step, xs, rows)
    return c, out, rows


def in_place_nested(x, xs):
    y, n = x * 1, hop.zeros(2)

    def step(c, v):
        def big():
            def inner(i, d):
                y[i] += v * d
                n[0] += 1
                return d * 2

            return hop.fori_loop(0, 2, inner, c)

        def small():
            n[1] += v
            return c + y[0]

        return hop.cond(y[1] > v, big, small), y[0] * c

    c, out = hop.scan(step, x[0], xs)
    return c, out, y, n


def functional_nested(x, xs):
    def step(s, v):
        def big(c, y, n):
            def inner(i, s):
                d, y, n = s
                return d * 2, y.at[i].add(v * d), n.at[0].add(1)

            return hop.fori_loop(0, 2, inner, (c, y, n))

        def small(c, y, n):
            return c + y[0], y, n.at[1].add(v)

        c, y, n = s
        after = hop.cond(y[1] > v, big, small, c, y, n)
        return after, after[1][0] * c

    (c, y, n), out = hop.scan(step, (x[0], x * 1, hop.zeros(2)), xs)
    return c, out, y, n


def in_place_calls(x, xs):
    y = x * 1

    @hop.jit
    def inner(v):
        y[0] = v * y[1]
        return y * 2

    @hop.checkpoint
    def kept(v):
        y[2] += hop.sin(v)
        return y[2]

    a = inner(xs[0])
    b = kept(xs[1])
    hop.scan(lambda c, v: (kept(v), inner(v)[0]), b, xs)
    return a, b, y


def functional_calls(x, xs):
    def inner(y, v):
        y = y.at[0].set(v * y[1])
        return y, y * 2

    def kept(y, v):
        return y.at[2].add(hop.sin(v))

    y, a = inner(x * 1, xs[0])
    y = kept(y, xs[1])
    b = y[2]
    y = hop.scan(lambda y, v: (inner(kept(y, v), v)[0], 0), y, xs)[0]
    return a, b, y


def in_place_constants(x, xs):
    y = hop.asarray([1.0, 2.0, 3.0, 4.0])

    def step(c, v):
        before = y[0] * 1
        z = hop.asarray([0.0, 0.0])
        z[0] = v
        y[0] = before + z[0] + z[1]
        return c + before, 0

    c, _ = hop.scan(step, x[0], xs)
    hop.cond(xs[0] > 0, lambda: y.__setitem__(3, 9.0), lambda: y.__setitem__(2, 7.0))
    return c, y


def functional_constants(x, xs):
    def step(s, v):
        c, y = s
        return (c + y[0], y.at[0].set(y[0] + v)), 0

    (c, y), _ = hop.scan(step, (x[0], hop.asarray([1.0, 2.0, 3.0, 4.0])), xs)
    return c, hop.cond(xs[0] > 0, lambda y: y.at[3].set(9.0), lambda y: y.at[2].set(7.0), y)


def in_place_aliases(x, xs):
    y = x * 1
    same, part, equal = y, y[0:2], y + 0
    part[1] = 100.0

    def step(c, v):
        same[0] += v
        mine = y[0:2]
        mine[1] = 50.0
        return c + mine[1] + part[0] + equal[0], mine

    c, out = hop.scan(step, 0.0 * x[0], xs)
    return c, out, y, same, part, equal


def functional_aliases(x, xs):
    y = x * 1
    part, equal = y[0:2].at[1].set(100.0), y

    def step(s, v):
        c, y = s
        y = y.at[0].add(v)
        mine = y[0:2].at[1].set(50.0)
        return (c + mine[1] + part[0] + equal[0], y), mine

    (c, y), out = hop.scan(step, (0.0 * x[0], x * 1), xs)
    return c, out, y, y, part, equal


NAMES = [name.removeprefix("in_place_") for name in list(globals()) if name.startswith("in_place_")]
POINTS = [
    ([1.0, 2.0, 3.0, 4.0], [0.5, -1.0, 2.0]),
    ([0.3, -2.0, 0.7, 1.5], [-0.5, 1.25, 1.0]),
    ([2.0, 0.1, -1.0, 0.2], [1.5, 0.75, 0.0]),
]


def total(f):
    def g(x, xs):
        return sum(hop.sum(hop.sin(leaf)) for leaf in hop.tree.leaves(f(x, xs)) if leaf.dtype.kind == "f")

    return g


class Table(Case):
    """Every row, every way."""

    def both(self, ways):
        for name in NAMES:
            a, b = globals()["in_place_" + name], globals()["functional_" + name]
            for point in POINTS:
                args = [hop.asarray(p, dtype=hop.float32) for p in point]
                with self.subTest(name, point=point):
                    found, expected = ways(a)(*args), ways(b)(*args)
                    for u, v in zip(hop.tree.leaves(found), hop.tree.leaves(expected), strict=True):
                        self.assertEqual((u.shape, u.dtype), (v.shape, v.dtype))
                        self.assertTrue(bool(hop.all(hop.abs(u - v) <= 1e-5 * (1 + hop.abs(v)))), (u, v))
                    kept = [hop.asarray(p, dtype=hop.float32) for p in point]
                    for u, v in zip(args, kept):
                        self.assertEqual(u.tolist(), v.tolist(), "an argument has changed")

    def test_captured(self):
        self.both(hop.jit)

    def test_at_once(self):
        self.both(lambda f: f)

    def test_plain(self):
        def plain(f):
            def g(*args):
                with hop.disable_jit():
                    return f(*args)

            return g

        self.both(plain)

    def test_gradients(self):
        self.both(lambda f: hop.jit(hop.grad(total(f), argnums=(0, 1))))
        self.both(lambda f: hop.grad(total(f), argnums=(0, 1)))

    def test_tangents(self):
        self.both(lambda f: hop.jit(lambda x, xs: hop.jvp(total(f), (x, xs), (hop.ones(4), hop.ones(3)))))

    def test_batches(self):
        def batch(f):
            def g(x, xs):
                return hop.vmap(f, in_axes=(0, None))(hop.stack([x, -x, x * 2]), xs)

            return g

        self.both(lambda f: hop.jit(batch(f)))
        self.both(lambda f: hop.jit(hop.grad(total(batch(f)), argnums=(0, 1))))

    def test_other_transforms(self):
        self.both(lambda f: hop.jit(hop.checkpoint(f)))
        self.both(lambda f: hop.jit(hop.jacrev(lambda x, xs: total(f)(x, xs))))
        self.both(lambda f: lambda x, xs: hop.jit(f, dims={"x": "N", "xs": "T"})(x, xs))
