"""Lines of hop.print: those of gradients, those under a condition; each once and in order, whatever is done
to the program."""

import contextlib
import io
import unittest

import hop


def lines(work):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        work()
    return out.getvalue().splitlines()


def squared(x):
    return hop.print("x {}", x, backward=True) ** 2


class Backward(unittest.TestCase):
    def test_values_come_back(self):
        x = hop.asarray([1.0, 2.0])
        for run in (lambda f, *a: f(*a), lambda f, *a: hop.jit(f)(*a)):
            got = []
            lines(lambda: got.append(run(lambda v: hop.print("{}", v, backward=True), x)))  # noqa: B023
            self.assertEqual(got[0].tolist(), [1.0, 2.0])
            both = lambda v, i: hop.print("{} {k}", v, k=i, backward=True)  # noqa: E731
            lines(lambda: got.append(run(both, x, 3)))  # noqa: B023
            self.assertEqual([v.tolist() for v in got[1]], [[1.0, 2.0], 3])
        self.assertEqual(hop.print("nothing", backward=True), ())

    def test_cotangents(self):
        for wrap in (lambda f: f, hop.jit):
            self.assertEqual(lines(lambda: wrap(hop.grad(squared))(3.0)), ["x 3", "[backward] x 6"])
            pushed = wrap(lambda x, t: hop.jvp(squared, (x,), (t,)))
            self.assertEqual(lines(lambda: pushed(3.0, 1.0)), ["x 3"])  # noqa: B023
        self.assertEqual(lines(lambda: hop.jit(squared)(3.0)), ["x 3"])

    def test_numbers_stand_as_they_are(self):
        def f(x, i):
            return hop.print("{i}: {x:.1f}", i=i, x=x, backward=True)[1] * 5

        self.assertEqual(lines(lambda: hop.jit(hop.grad(f))(2.0, 7)), ["7: 2.0", "[backward] 7: 5.0"])

    def test_lanes(self):
        x = hop.asarray([1.0, 2.0])
        expected = ["x 1", "x 2", "[backward] x 2", "[backward] x 4"]
        self.assertEqual(lines(lambda: hop.jit(hop.vmap(hop.grad(squared)))(x)), expected)
        self.assertEqual(
            lines(lambda: hop.jit(hop.grad(lambda v: hop.sum(hop.vmap(squared)(v))))(x)), expected
        )

    def test_loops_and_checkpoints(self):
        def f(x, step):
            return hop.scan(lambda c, _: (step(c), None), x, None, length=2)[0]

        expected = ["x 2", "x 4", "[backward] x 8", "[backward] x 32"]
        wrappers = [lambda g: g, hop.checkpoint]
        wrappers += [
            lambda g, p=p: hop.checkpoint(g, policy=p)
            for p in (hop.policies.everything, hop.policies.nothing, hop.policies.products)
        ]
        for wrap in wrappers:
            inside = hop.jit(hop.grad(lambda x: f(x, wrap(squared))))  # noqa: B023
            around = hop.jit(hop.grad(wrap(lambda x: f(x, squared))))
            self.assertEqual(lines(lambda: inside(2.0)), expected)  # noqa: B023
            self.assertEqual(lines(lambda: around(2.0)), expected)  # noqa: B023

    def test_second_derivatives(self):
        cubed = lambda x: hop.print("x {}", x, backward=True) ** 3  # noqa: E731
        expected = ["x 2", "[backward] x 12", "[backward] x 12"]
        self.assertEqual(lines(lambda: hop.jit(hop.grad(hop.grad(cubed)))(2.0)), expected)
        self.assertEqual(lines(lambda: hop.jit(hop.hessian(cubed))(2.0)), expected[:2])

    def test_unused_values_have_no_cotangent(self):
        def f(x):
            hop.print("x {}", x, backward=True)
            return x * 2

        self.assertEqual(lines(lambda: hop.jit(hop.grad(f))(2.0)), ["x 2"])


class When(unittest.TestCase):
    def test_at_once(self):
        self.assertEqual(lines(lambda: hop.print("no", when=False)), [])
        self.assertEqual(lines(lambda: hop.print("{}", 1, when=hop.asarray(True))), ["1"])

    def test_in_programs(self):
        def f(x):
            hop.print("large {}", x, when=x > 2)
            hop.print("{:.1f} is large", x, when=x > 2)
            return x

        self.assertEqual(lines(lambda: hop.jit(f)(1.0)), [])
        self.assertEqual(lines(lambda: hop.jit(f)(3.0)), ["large 3", "3.0 is large"])
        self.assertEqual(
            lines(lambda: hop.jit(hop.vmap(f))(hop.asarray([1.0, 3.0, 4.0]))),
            ["large 3", "large 4", "3.0 is large", "4.0 is large"],
        )
        self.assertEqual(lines(lambda: hop.jit(hop.grad(f))(3.0)), ["large 3", "3.0 is large"])

    def test_cotangents(self):
        f = hop.jit(hop.vmap(hop.grad(lambda x: hop.print("{}", x, when=x > 2, backward=True) ** 2)))
        self.assertEqual(lines(lambda: f(hop.asarray([1.0, 3.0]))), ["3", "[backward] 6"])

    def test_wrong_conditions(self):
        for bad in ([True, False], "yes", None):
            with self.subTest(bad), self.assertRaises((TypeError, ValueError)):
                hop.print("x", when=bad)


if __name__ == "__main__":
    unittest.main()
