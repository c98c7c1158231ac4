"""Trees of very many arrays: there is no number of arguments, results, carries or donated arrays at which
something ends."""

import unittest

import hop
from support import Case

MANY = 1100


def numbers(n=MANY):
    return [hop.asarray(float(i % 7)) for i in range(n)]


def total(xs):
    s = 0.0
    for x in xs:
        s = s + x * x
    return s


class Many(Case):
    def values(self, xs):
        return [x.item() for x in xs]

    def test_gradients(self):
        xs, expected = numbers(), [2.0 * (i % 7) for i in range(MANY)]
        f = hop.jit(hop.grad(total))
        for _ in range(2):
            self.assertEqual(self.values(f(xs)), expected)
        value, pullback = hop.vjp(total, xs)
        self.assertEqual(self.values(pullback(hop.asarray(1.0))[0]), expected)
        self.assertEqual(value.item(), sum((i % 7) ** 2 for i in range(MANY)))
        self.assertEqual(hop.jit(lambda t: hop.jvp(total, (t,), (t,)))(xs)[1].item(), 2 * value.item())

    def test_lanes(self):
        xs = [hop.asarray([float(i % 7), 1.0]) for i in range(MANY)]
        got = hop.jit(hop.vmap(hop.grad(total)))(xs)
        self.assertEqual([x.tolist() for x in got], [[2.0 * (i % 7), 2.0] for i in range(MANY)])

    def test_loops(self):
        xs = numbers()
        scan = hop.jit(lambda t: hop.scan(lambda c, _: ([x + 1 for x in c], c[-1]), t, None, length=3))
        last, seen = scan(xs)
        self.assertEqual(self.values(last), [i % 7 + 3.0 for i in range(MANY)])
        self.equal(seen, [(MANY - 1) % 7 + k for k in (0.0, 1.0, 2.0)])
        loop = hop.jit(lambda t: hop.while_loop(lambda c: c[0] < 4, lambda c: [x + 1 for x in c], t))
        self.assertEqual(self.values(loop(xs)), [i % 7 + 4.0 for i in range(MANY)])
        fori = hop.jit(lambda t: hop.fori_loop(0, 2, lambda i, c: c[::-1], t))
        self.assertEqual(self.values(fori(xs)), [i % 7 for i in range(MANY)])

    def test_branches_and_calls(self):
        xs = numbers()
        f = hop.jit(lambda p, t: hop.cond(p, lambda t: [x + 1 for x in t], lambda t: [x * 2 for x in t], t))
        self.assertEqual(self.values(f(hop.asarray(True), xs)), [i % 7 + 1.0 for i in range(MANY)])
        self.assertEqual(self.values(f(hop.asarray(False), xs)), [i % 7 * 2.0 for i in range(MANY)])
        again = hop.jit(lambda t: hop.checkpoint(lambda t: [x + 1 for x in t])(t))
        self.assertEqual(self.values(again(xs)), [i % 7 + 1.0 for i in range(MANY)])

    def test_donation(self):
        f = hop.jit(lambda t, u: [x + u for x in t], donate_argnums=0)
        for _ in range(2):
            xs = [hop.asarray([float(i), 0.0]) for i in range(MANY)]
            out = f(xs, hop.asarray(1.0))
            self.assertTrue(all(x._donated for x in xs))
            self.assertEqual([x.tolist() for x in out], [[i + 1.0, 1.0] for i in range(MANY)])
        shared = hop.asarray([1.0, 2.0])
        views = [shared[:] for _ in range(100)]
        self.assertEqual([x.tolist() for x in f(views, hop.asarray(1.0))], [[2.0, 3.0]] * 100)
        self.equal(shared, [1.0, 2.0])

    def test_donation_of_the_last(self):
        f = hop.jit(lambda a, b: b + 1, donate_argnums=-1)
        b = hop.asarray([1.0, 2.0])
        self.equal(f(numbers(100), b), [2.0, 3.0])
        self.assertTrue(b._donated)

    def test_what_a_function_closes_over(self):
        xs = numbers()
        f = hop.jit(lambda s: [x + s for x in xs])
        for s in (1.0, 2.0):
            self.assertEqual(self.values(f(hop.asarray(s))), [i % 7 + s for i in range(MANY)])

    def test_static_arguments_and_long_names(self):
        f = hop.jit(lambda x, s: x + len(s), static_argnums=1)
        self.equal(f(hop.asarray(1.0), tuple(range(MANY))), MANY + 1.0)
        name = "x" * 5000
        self.equal(hop.jit(lambda d: d[name] + 1)({name: hop.asarray(1.0)}), 2.0)

    def test_deep_trees(self):
        deep = hop.asarray(1.0)
        for _ in range(250):
            deep = [deep]
        f = hop.jit(lambda t: t)
        for _ in range(2):
            out = f(deep)
        for _ in range(250):
            (out,) = out
        self.equal(out, 1.0)
        for _ in range(100000):
            deep = (deep,)
        with self.assertRaises(RecursionError):
            f(deep)

    def test_branches_of_a_switch(self):
        branches = [lambda x, k=k: x * k + 1.0 for k in range(600)]
        chosen = lambda i, x: hop.switch(i, branches, x)  # noqa: E731
        self.equal(hop.jit(chosen)(hop.asarray(599), hop.asarray(2.0)), 1199.0)
        self.equal(hop.grad(chosen, 1)(hop.asarray(7), hop.asarray(2.0)), 7.0)
        self.equal(hop.vmap(chosen)(hop.asarray([1, 599]), hop.asarray([1.0, 2.0])), [2.0, 1199.0])


if __name__ == "__main__":
    unittest.main()
