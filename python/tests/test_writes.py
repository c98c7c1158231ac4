"""Writes: x[i] = y to arrays from outside of the body that writes. Each operator with bodies, captured and at
once, with derivatives and batches, against the same function written with x.at[i].set(y); what is refused,
and that a refused or abandoned body leaves everything as it was; random programs of nested bodies that write,
against the same program over NumPy's arrays, with gradients against differences."""

import operator
import os
import random
import unittest

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


# ---- what is written to from outside of programs ----


class Outside(Case):
    def test_loops_at_once_update_arrays(self):
        y, n = hop.zeros(3), hop.zeros(2)
        same, copy_of_it = y, +y

        def step(c, i):
            y[i] = c
            hop.cond(c > 1, lambda: n.__setitem__(0, n[0] + c), lambda: None)
            return c + 1, y[0]

        hop.scan(step, 0.5, hop.arange(3))
        self.equal(y, [0.5, 1.5, 2.5])
        self.equal(same, [0.5, 1.5, 2.5])
        self.equal(n, [4.0, 0.0])
        self.equal(copy_of_it, [0.0, 0.0, 0.0])
        hop.fori_loop(0, 3, lambda i, c: y.__setitem__(i, y[i] * 2), None)
        self.equal(y, [1.0, 3.0, 5.0])
        hop.while_loop(lambda i: y[0] < 8, lambda i: y.__setitem__(0, y[0] * 3) or i, 0)
        self.equal(y, [9.0, 3.0, 5.0])
        hop.map(lambda v: y.__setitem__(1, y[1] + v), hop.ones(4))
        self.equal(y, [9.0, 7.0, 5.0])
        self.assertIs(type(y), hop.Array)

    def test_carries_and_slices_are_values(self):
        y, rows = hop.ones(2), hop.zeros((2, 2))

        def step(c, r):
            c[0] += 1
            r[1] = c[0]
            return c, r

        for plain in (False, True):
            with hop.disable_jit(plain):
                c, out = hop.scan(step, y, rows)
                self.equal(c, [3.0, 1.0])
                self.equal(out, [[0.0, 2.0], [0.0, 3.0]])
                self.equal(y, [1.0, 1.0])
                self.equal(rows, [[0.0, 0.0], [0.0, 0.0]])
                for pred in (True, hop.asarray(True)):
                    hop.cond(pred, lambda c: c.__setitem__(0, 9.0), lambda c: None, y)
                hop.switch(1, [lambda c: None, lambda c: c.__setitem__(0, 9.0)], y)
                hop.jit(lambda c: c.__setitem__(0, 9.0))(y)
                self.equal(y, [1.0, 1.0])

    def test_jit_updates_what_it_closes_over(self):
        y, box = hop.zeros(3), {"n": hop.zeros(2)}
        other = +y

        @hop.jit
        def f(x):
            box["n"][0] += 1
            y[0] += x
            return y * other

        for k in range(1, 4):
            self.equal(f(2.0), [0.0, 0.0, 0.0])
            self.equal(y, [2.0 * k, 0.0, 0.0])
            self.equal(box["n"], [float(k), 0.0])
        box["n"] = hop.ones(2)
        other[0] = 2.0
        self.equal(f(2.0), [16.0, 0.0, 0.0])
        self.equal(box["n"], [2.0, 1.0])

        @hop.jit
        def outer(x):
            return hop.sum(f(x)) + y[0]

        self.assertEqual(outer(1.0).item(), 9.0 * 2 + 9.0)
        self.equal(y, [9.0, 0.0, 0.0])
        with self.assertRaisesRegex(hop.WriteError, "box\\['n'\\] is an array from outside"):
            f.lower(1.0)

    def test_transforms_refuse(self):
        y = hop.zeros(3)

        def f(x):
            y[0] = x
            return y[0] * x

        for g in (
            lambda: hop.grad(f)(1.0), lambda: hop.vmap(f)(hop.ones(2)), lambda: hop.vjp(f, 1.0),
            lambda: hop.jvp(f, (1.0,), (1.0,)), lambda: hop.linearize(f, 1.0), lambda: hop.jacfwd(f)(1.0),
        ):  # fmt: skip
            with self.assertRaisesRegex(hop.WriteError, r"y\[…\] = …: y is an array from outside of the"):
                g()
        self.equal(y, [0.0, 0.0, 0.0])

        def inside(x):
            z = x * hop.ones(3)

            def h(v):
                z[0] = v
                return v

            return hop.vmap(h)(z)

        line = inside.__code__.co_firstlineno
        with self.assertRaises(hop.WriteError) as caught:
            hop.jit(inside)(1.0)
        wanted = f"test_writes.py:{line + 4}: z[…] = …", f"made at {__file__}:{line + 1}", f":{line + 7}"
        for part in wanted:
            self.assertIn(part, str(caught.exception))

    def test_predicates_and_combine_functions_refuse(self):
        def by_test(x):
            y = x * 1

            def test(i):
                y[0] = 1.0
                return i < 3

            return hop.while_loop(test, lambda i: i + 1, 0)

        def by_combine(x):
            y = x * 1

            def combine(a, b):
                y[0] = 1.0
                return a + b

            return hop.associative_scan(combine, x)

        for f, what in ((by_test, "the predicate of while"), (by_combine, "the combine function")):
            with self.assertRaisesRegex(hop.InvalidError, what):
                hop.jit(f)(hop.ones(3))

    def test_abandoned_bodies_change_nothing(self):
        log = []

        @hop.jit
        def f(x):
            y, n = x * 1, hop.asarray([0.0, 0.0])

            def fails(c, i):
                y[0] = 7.0
                n[0] += 1
                raise KeyError("mine")

            for _ in range(2):
                try:
                    hop.scan(fails, 0.0, hop.arange(2))
                except KeyError:
                    log.append("caught")
            before = y[0] + n[0]

            def widens(c, i):  # begun anew, because the carry becomes a float32
                n[0] += 1
                y[0] += 1
                return c + y[1], None

            hop.scan(widens, 0, hop.arange(2))
            return before, y, n

        before, y, n = f(hop.ones(2))
        self.assertEqual(before.item(), 1.0)
        self.equal(y, [3.0, 1.0])
        self.equal(n, [2.0, 0.0])
        for plain in (False, True):
            z = hop.zeros(2)
            with hop.disable_jit(plain):
                hop.scan(lambda c, i: (z.__setitem__(0, z[0] + 1), (c + z[1], 0))[1], 0, hop.arange(3))
            self.equal(z, [3.0, 0.0])

            def raises(c, i):
                z[1] = 5.0
                raise KeyError

            with self.assertRaises(KeyError), hop.disable_jit(plain):
                hop.scan(raises, 0.0, hop.arange(3))
            self.equal(z, [3.0, 5.0 if plain else 0.0])  # plain Python had begun
        self.assertIs(type(z), hop.Array)

    def test_used_after_its_body(self):
        def f(x):
            kept = hop.zeros(1)

            def body(c, i):
                nonlocal kept
                z = x * c
                hop.cond(c > 0, lambda: z.__setitem__(0, 1.0), lambda: None)
                kept = z
                return c, None

            hop.scan(body, 1.0, hop.arange(2))
            return kept * 2

        with self.assertRaises(hop.Error):
            hop.jit(f)(hop.ones(2))

    def test_numpy_from_outside(self):
        if np is None:
            self.skipTest("NumPy is not installed")
        n = np.zeros(3)

        @hop.jit
        def f(x):
            n[0] = x
            return n + x

        for g in (f, hop.jit(lambda x: f.__wrapped__(x * hop.ones(1)[0]))):
            with self.assertRaisesRegex(hop.TracerError, r"n\[0\] = …: n is no array of hop's"):
                g(1.0)
        self.assertEqual(n.tolist(), [0, 0, 0])


class Parts(Case):
    def test_slices_are_values(self):
        def f(y):
            z = y[0:2]
            z[0] = 9.0
            w = y
            w[1] = 5.0
            return y, z, w

        for g in (f, hop.jit(f)):
            y, z, w = g(hop.zeros(3))
            self.equal(y, [0.0, 5.0, 0.0])
            self.equal(z, [9.0, 0.0])
            self.equal(w, [0.0, 5.0, 0.0])

    def test_unnamed_parts(self):
        def one(y):
            y[0:2][0] = 9.0

        def two(y):
            y[0][1] += 9.0

        def three(y):
            (y + 1)[0:1] = 9.0

        y = hop.zeros((3, 3))
        said = r"y\[0:2\]\[0\] = …: y\[0:2\] is", r"y\[0\]\[1\]", r"y \+ 1"
        for f, what in zip((one, two, three), said):
            line = f.__code__.co_firstlineno + 1
            for g in (f, hop.jit(f)):
                with self.assertRaisesRegex(hop.InvalidError, f"test_writes.py:{line}: .*{what}"):
                    g(y)
        self.equal(y, [[0.0] * 3] * 3)

    def test_what_somebody_holds(self):
        y = hop.zeros((2, 2))
        held, box = [y[0]], type("Box", (), {})()
        box.part = y[1]
        held[0][1] = 1.0
        box.part[0] = 2.0
        {"y": y}["y"][0, 0] = 3.0
        for r in y:
            r[0] = 50.0
        operator.setitem(y[0], 0, 7.0)
        self.equal(held[0], [0.0, 1.0])
        self.equal(box.part, [2.0, 0.0])
        self.equal(y, [[3.0, 0.0], [0.0, 0.0]])

        def given(z):
            z[0] = 4.0
            return z

        self.equal(given(y[0]), [4.0, 0.0])


# ---- plain Python: which array is written ----


def one_or_other(v, n):
    w, z = v + 0, v * 2
    u = w if n > 2 else z
    u[0] = 100.0
    return w


def other_way(v, n):
    w, z = v + 0, v * 2
    u = w if n > 2 else z
    w[0] = 100.0
    return u


def rebound(v, n):
    w = v + 0
    u = w
    if n > 2:
        w = w + 1
    w[0] = 5.0
    return u


def bound_twice(v, n):
    a, b = v + 0, v + 1
    if n > 2:
        a = b = v * 3
    a[0] = 5.0
    return b


def first_round(v, n):
    w = v + 0
    u = w
    for i in range(n):
        w[0] = 7.0 + i
        w = w + 1
    return u


def best_so_far(v, n):
    w, best = v + 0, v + 0
    for i in range(n):
        w[i] = w[i] * 2.0
        if w[i] > 3:
            best = w
    return best


def swapped(v, n):
    a, b = v + 0, v * 10
    keep, i = a, 0
    while i < n:
        a, b = b, a
        a[i] = -1.0
        i += 1
    return keep


def helped(v, n):
    w = v + 0
    x = doubled(w, n)
    return w + x


def doubled(w, n):
    if n > 2:
        w = w * 2
    w[0] = 7.0
    return w


REFUSED = (one_or_other, other_way, rebound, bound_twice, first_round, best_so_far, swapped, helped)


def alone(v, n):
    w = v + 0
    if n > 2:
        w = w + 1
    w[0] = 5.0
    for _ in range(n):
        w = w * 2.0
        w[1] = 3.0
    return w


def handed_on(v, n):
    v = doubled(v, n)
    w = v + 0
    w = doubled(w, n)
    return w, v


def through_a_wrapper(*args):
    return doubled(*args)


def exchanged(v, n):
    a, b = v + 0, v * 10
    for i in range(n):
        a[i] = b[2]
        a, b = b, a
    return a, b


def chained(v, n):
    before, now = v + 0, v * 2
    for _ in range(n):
        new = now + before
        before = now
        now = new
        now[0] = 1.0
    return now, before


def one_array(v, n):
    w = v + 0
    u = w
    if n > 2:
        u[0] = 4.0
    for i in range(n):
        w[i] += 1.0
    return u, w


def several(v, n):
    a, b = v + 0, v * 1
    i = 0
    while i < n:
        a = a + b
        b = b * 2.0
        a[0] = 1.0
        b[i] = 3.0
        i += 1
    return a, b


CAPTURED = (alone, handed_on, through_a_wrapper, exchanged, chained, one_array, several)


class Identity(Case):
    """Where Python has two names for one array, a write by the one is seen by the other, or refused."""

    def test_captured(self):
        for f in CAPTURED:
            for n in (0, 1, 2, 3):
                with self.subTest(f.__name__, n=n):
                    expected = f(hop.asarray([1.0, 2.0, 3.0]) + 0, n)
                    found = hop.jit(f)(hop.asarray([1.0, 2.0, 3.0]), hop.asarray(n))
                    for a, b in zip(hop.tree.leaves(found), hop.tree.leaves(expected), strict=True):
                        self.close(a, b)

    def test_refused(self):
        for f in REFUSED:
            with self.subTest(f.__name__):
                said = r"test_writes.py:\d+: \w+\[…\] = …: in Python .* same array"
                with self.assertRaisesRegex(hop.InvalidError, said):
                    hop.jit(f)(hop.asarray([1.0, 2.0, 3.0]), hop.asarray(3))
                f(hop.asarray([1.0, 2.0, 3.0]), 3)


# ---- jit(f, mut=…) ----


class Mut(Case):
    def setUp(self):
        def f(x, y):
            y[0] += x
            hop.cond(x > 2, lambda: y.__setitem__(1, 7.0), lambda: None)
            return hop.sum(y)

        self.f = f

    def test_arrays_of_hop(self):
        f = hop.jit(self.f, mut="y")
        y = hop.zeros(3)
        alias, part, same = +y, y[0:2], y
        view = memoryview(y)
        for k in range(1, 4):
            self.assertEqual(f(2.0, y).item(), 2.0 * k)
            self.equal(y, [2.0 * k, 0.0, 0.0])
        self.assertEqual(f(3.0, y=y).item(), 16.0)
        self.assertIs(same, y)
        for x, want in ((y, [9.0, 7.0, 0.0]), (alias, [0.0] * 3), (part, [0.0] * 2)):
            self.equal(x, want)
        self.assertEqual(view.tolist(), [0.0] * 3)
        own = hop.ones(3)
        at = own._pointer
        f(1.0, own)
        self.assertEqual(own._pointer, at, "nobody else sees it: it is updated where it is")
        kept = +own
        f(1.0, own)
        self.assertNotEqual(own._pointer, at)
        self.equal(kept, [2.0, 1.0, 1.0])
        self.equal(own, [3.0, 1.0, 1.0])

    def test_without_mut_arguments_stay(self):
        y = hop.zeros(3)
        self.assertEqual(hop.jit(self.f)(3.0, y).item(), 10.0)
        self.equal(y, [0.0] * 3)

    def test_numpy(self):
        if np is None:
            self.skipTest("NumPy is not installed")
        f = hop.jit(self.f, mut=1)
        n = np.zeros(3, np.float32)
        for _ in range(3):
            f(3.0, n)
        self.assertEqual(n.tolist(), [9.0, 7.0, 0.0])
        m = np.zeros((3, 2), np.float32)
        for _ in range(2):
            f(3.0, m[:, 0])
            f(3.0, m[::-1, 1])
        self.assertEqual(m.tolist(), [[6.0, 0.0], [7.0, 7.0], [0.0, 6.0]])
        n.flags.writeable = False
        for _ in range(2):
            with self.assertRaisesRegex(hop.InvalidError, r"y is updated \(mut\), but its memory is read"):
                f(1.0, n)
        for wrong in (1.0, np.float32(1), [1.0, 2.0]):
            with self.assertRaisesRegex(hop.InvalidError, "expected an array of hop or NumPy"):
                f(1.0, wrong)
        with self.assertRaises(TypeError):
            f(1.0, np.zeros(3, ">f4"))
        shifted = hop.jit(lambda a, b: a.__setitem__(slice(1, None), b[:-1]), mut=0)
        a = np.arange(5.0)
        shifted(a, a)
        self.assertEqual(a.tolist(), [0, 0, 1, 2, 3])
        a = np.arange(5.0)
        shifted(a[1:], a[:-1])
        self.assertEqual(a.tolist(), [0, 1, 0, 1, 2])
        both = hop.jit(lambda a, b: (a.__setitem__(0, 1.0), b.__setitem__(0, 2.0))[:0], mut=(0, 1))
        for _ in range(2):
            with self.assertRaisesRegex(hop.InvalidError, "the same memory"):
                both(a[:3], a[1:])
        self.assertEqual(a.tolist(), [0, 1, 0, 1, 2])

    def test_trees_and_static_arguments(self):
        def update(state, kind, g):
            if kind == "momentum":
                state["m"][...] = 0.5 * state["m"] + g
            weights = state["w"]
            weights[0][:] = weights[0] - state["m"]
            return None

        f = hop.jit(update, mut=0, static_argnums=1)
        state = {"m": hop.ones(2), "w": [hop.zeros(2), hop.ones(1)]}
        untouched = state["w"][1]
        f(state, "momentum", 1.0)
        f(state, "none", 1.0)
        self.equal(state["m"], [1.5, 1.5])
        self.equal(state["w"][0], [-3.0, -3.0])
        self.assertIs(state["w"][1], untouched)

    def test_sizes(self):
        def record(log, xs):
            def step(i, x):
                log[i] += x
                return i + 1, log[i]

            return hop.scan(step, 0, xs)[1]

        for f in (hop.jit(record, mut=0), hop.jit(record, mut="log", dims={"log": "T", "xs": "T"})):
            for n in (3, 4, 5, 1, 0, 7):
                log = hop.ones(n)
                self.equal(f(log, hop.ones(n)), [2.0] * n)
                self.equal(log, [2.0] * n)
        text = f.text(hop.ones(3), hop.ones(3))
        self.assertIn("%log: mut f32[T]", text)
        self.assertIn("new %log", text)

    def test_inside_of_other_programs(self):
        f = hop.jit(self.f, mut="y")

        def outer(x):
            y = x * 1
            s = f(x[0], y)
            hop.scan(lambda c, v: (f(v, y=y), None), 0.0 * s, x)
            return y, s

        def functional(x):
            y = x.at[0].add(x[0])
            s = hop.sum(y)
            return y.at[0].add(hop.sum(x)), s

        x = hop.asarray([1.0, 0.5, 2.0])
        for way in (hop.jit, lambda g: g, lambda g: lambda x: hop.vmap(g)(hop.stack([x, -x]))):
            for a, b in zip(way(outer)(x), way(functional)(x), strict=True):
                self.close(a, b)
        grad = lambda g: hop.grad(lambda x: hop.sum(hop.sin(g(x)[0])))(x)  # noqa: E731
        self.close(grad(outer), grad(functional))
        with hop.disable_jit():
            for a, b in zip(outer(x), functional(x), strict=True):
                self.close(a, b)
        self.equal(x, [1.0, 0.5, 2.0])
        box = hop.zeros(3)
        g = hop.jit(lambda v: f(v, box))
        g(1.0)
        g(3.0)
        self.equal(box, [4.0, 7.0, 0.0])

    def test_gradients_inside(self):
        @hop.jit(mut="w")
        def descend(w, x):
            g = hop.grad(lambda w: hop.sum((w - x) ** 2))(w)
            w[:] = w - 0.25 * g
            return hop.sum(g * g)

        w = hop.zeros(2)
        for _ in range(3):
            descend(w, hop.asarray([1.0, 2.0]))
        self.close(w, [0.875, 1.75])

    def test_failing_runs_leave_everything(self):
        @hop.jit(mut=0)
        def f(y, x):
            y[0] = x
            hop.check(x > 0, "not positive")
            y[1] = x

        arrays = [hop.zeros(2)] + ([np.zeros(2, np.float32)] if np else [])
        for y in arrays:
            f(y, 1.0)
            for _ in range(2):
                with self.assertRaises(hop.CheckError):
                    f(y, -1.0)
            self.assertEqual(y.tolist(), [1.0, 1.0])

    def test_refused(self):
        def f(y, x):
            return x

        for how, said in (
            ({"mut": 0, "static_argnums": 0}, "argument 0 is static"),
            ({"mut": "y", "donate_argnums": 0}, "is donated"),
            ({"mut": "z"}, "there is no argument 'z'"),
            ({"mut": 2}, "there is no argument 2"),
            ({"mut": 1.5}, "numbers or names of arguments"),
        ):
            with self.assertRaisesRegex(hop.InvalidError, said):
                hop.jit(f, **how)
        g = hop.jit(self.f, mut="y")
        for transform in (hop.grad, hop.vmap, hop.jacrev, hop.checkpoint):
            with self.assertRaisesRegex(hop.InvalidError, "updates arguments"):
                transform(g)(hop.ones(2), hop.ones(2))
        same = hop.zeros(3)
        self.assertEqual(hop.jit(f, mut=0)(same, 2.0).item(), 2.0)
        self.equal(same, [0.0] * 3)


# ---- random programs ----


class Random:
    """A program over the arrays a, b, c of four elements and the number s: nested statements.

    ("set", array, index, expression), ("add", …), ("fill", array, expression), ("copy", array): remember its
    elements as "z", ("if", expression, statements, statements), ("scan", n, statements), ("fori", …),
    ("while", n, statements), ("map", n, statements), ("call", statements). In loops "i" is the round."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.program = self.statements(3, False, 4)

    def statements(self, depth, loop, n):
        return [self.statement(depth, loop) for _ in range(self.r.randint(1, n))]

    def statement(self, depth, loop):
        r = self.r
        kinds = ("set", "add", "set", "add", "fill", "copy")
        kinds += ("if", "scan", "fori", "while", "map", "call") if depth else ()
        kind = r.choice(kinds)
        if kind in ("set", "add"):
            return kind, r.choice("abc"), self.index(loop), self.expression(loop, 2)
        if kind == "fill":
            return kind, r.choice("abc"), self.expression(loop, 1)
        if kind == "copy":
            return kind, r.choice("abc")
        if kind == "if":
            test = self.expression(loop, 1)
            return kind, test, self.statements(depth - 1, loop, 3), self.statements(depth - 1, loop, 2)
        if kind == "call":
            return kind, r.choice((hop.jit, hop.checkpoint)), self.statements(depth - 1, loop, 2)
        return kind, r.randint(0, 3), self.statements(depth - 1, True, 3)

    def index(self, loop):
        return "i" if loop and self.r.random() < 0.5 else self.r.randrange(4)

    def expression(self, loop, depth):
        r = self.r
        kind = r.choice(["item", "item", "number", "kept", "total"] + ["add", "mul", "sin"] * bool(depth))
        if kind == "number":
            return kind, r.uniform(-1, 1)
        if kind == "item":
            return kind, r.choice("abc"), self.index(loop)
        if kind == "kept":
            return kind, self.index(loop)
        if kind == "total":
            return kind, r.choice("abc")
        return kind, *[self.expression(loop, depth - 1) for _ in range(1 if kind == "sin" else 2)]

    def __call__(self, x):
        """a is made of the argument, b is one that the program fills, c consists of numbers known now."""
        numbers = [0.5, -0.25, 1.0, 0.125]
        if isinstance(x, np.ndarray):
            env = {"lib": np, "a": x * 1, "b": np.zeros(4), "c": np.asarray(numbers), "z": x * 1}
        else:
            env = {"lib": hop, "a": x * 1, "b": hop.zeros(4, dtype=hop.float64), "z": x * 1}
            env["c"] = hop.asarray(numbers, dtype=hop.float64)
        run(self.program, env, 0)
        return [env[name] for name in "abcz"]


def value(e, env, i):
    kind, *rest = e
    lib = env["lib"]
    if kind == "number":
        return lib.asarray(rest[0], dtype=lib.float64)
    if kind in ("item", "kept"):
        name, at = rest if kind == "item" else ("z", rest[0])
        return env[name][i if at == "i" else at]
    if kind == "total":
        return lib.sum(env[rest[0]]) * 0.125
    if kind == "sin":
        return lib.sin(value(rest[0], env, i) * 1.0)
    a, b = value(rest[0], env, i), value(rest[1], env, i)
    return a + b if kind == "add" else lib.tanh(a * b * 1.0)


def run(statements, env, i):
    for kind, *rest in statements:
        if kind in ("set", "add"):
            name, at, e = rest
            at = i if at == "i" else at
            if kind == "set":
                env[name][at] = value(e, env, i)
            else:
                env[name][at] += value(e, env, i)
        elif kind == "fill":
            env[rest[0]][:] = env[rest[0]] * 0.5 + value(rest[1], env, i)
        elif kind == "copy":
            env["z"][...] = +env[rest[0]]
        elif env["lib"] is np:
            run_numpy(kind, rest, env, i)
        else:
            run_hop(kind, rest, env, i)


def run_numpy(kind, rest, env, i):
    if kind == "if":
        run(rest[1] if value(rest[0], env, i) > 0.05 else rest[2], env, i)
    elif kind == "call":
        run(rest[1], env, i)
    else:
        for k in range(rest[0]):
            run(rest[1], env, k)


def run_hop(kind, rest, env, i):
    n, body = rest[0], rest[1]
    if kind == "if":
        hop.cond(value(n, env, i) > 0.05, lambda: run(body, env, i), lambda: run(rest[2], env, i))
    elif kind == "call":
        n(lambda: run(body, env, i))()
    elif kind == "scan":
        hop.scan(lambda c, k: (c, run(body, env, k)), 0, hop.arange(n))
    elif kind == "map":
        hop.map(lambda k: run(body, env, k), hop.arange(n))
    elif kind == "fori":
        hop.fori_loop(0, n, lambda k, c: run(body, env, k), None)
    else:
        hop.while_loop(lambda k: (k < n) & (env["a"][0] < 1e9), lambda k: (run(body, env, k), k + 1)[1], 0)


@unittest.skipIf(np is None, "NumPy is not installed")
class RandomPrograms(Case):
    def test_against_numpy(self):
        seeds = int(os.environ.get("HOP_TEST_SEEDS", "60"))
        x = np.asarray([0.3, -0.7, 1.1, 0.9])
        for seed in range(seeds):
            p = Random(seed)
            with self.subTest(seed=seed, program=p.program):
                expected = p(x)
                for way in (hop.jit, lambda f: f):
                    found = way(lambda v: p(v))(hop.asarray(x))
                    for a, b in zip(found, expected, strict=True):
                        self.close(a, b, 1e-9)
                if seed % 3:
                    continue

                def weighted(v):
                    return sum((k + 1) * y.sum() for k, y in enumerate(p(v)))

                slopes = hop.jit(hop.grad(weighted))(hop.asarray(x))
                for k in range(4):
                    step = np.zeros(4)
                    step[k] = 1e-6
                    difference = (weighted(x + step) - weighted(x - step)) / 2e-6
                    error = abs(slopes[k].item() - difference)
                    self.assertLessEqual(error, 1e-5 * max(1, abs(difference)), k)
