"""check_grads: right derivatives pass, wrong ones are found and named, in every mode and order, through
loops, branches and lanes."""

import re
import unittest

import hop
from support import Case


def asarray(x):
    return hop.asarray(x, dtype=hop.float64)


def wrong_square(x):
    """Has the value x², and the derivative x."""
    return x * hop.stop_gradient(x)


def wrong_second(x):
    """Has the value x³ and its derivative 3x², and the second derivative 3x."""
    return (
        x * hop.stop_gradient(x * x)
        + (hop.stop_gradient(2 * x) * wrong_square(x) - hop.stop_gradient(2 * x * x * x)) * 1.0
    )


class Right(Case):
    def test_functions(self):
        w = asarray([[1.0, 2.0], [0.5, -1.0]])
        hop.check_grads(lambda x: hop.sum(hop.sin(x) * x), (asarray([1.0, 2.0, -0.5]),), order=3)
        hop.check_grads(lambda a, b: hop.tanh(a @ b), (w, w.T), order=2)
        hop.check_grads(lambda x: hop.exp(x) / (1 + x * x), (0.7,), order=4)

    def test_trees_and_what_is_no_float(self):
        def f(p, n, mode):
            self.assertIs(type(n), int)  # as it was given
            return (
                {"y": p["w"] ** n, "count": p["k"] + 1, "more": [hop.cos(p["w"]), None, 5]}
                if mode == "power"
                else None
            )

        hop.check_grads(f, ({"w": asarray([1.0, 2.0]), "k": hop.asarray([1, 2])}, 3, "power"), order=2)

    def test_loops(self):
        def scan(w, xs):
            return hop.scan(lambda h, x: (hop.tanh(w * h + x),) * 2, 0.1, xs)

        hop.check_grads(scan, (0.5, asarray([1.0, -1.0, 0.5])), order=2)
        hop.check_grads(lambda x: hop.while_loop(lambda c: c < 50.0, lambda c: c * c + c, x), (1.5,), order=2)
        hop.check_grads(lambda x: hop.fori_loop(0, 4, lambda i, c: hop.sin(c) * x, x), (0.9,), order=2)
        hop.check_grads(
            lambda x: hop.associative_scan(lambda a, b: a * b, x), (asarray([1.5, 0.5, 2.0]),), order=2
        )

    def test_branches_and_lanes(self):
        def f(p, x):
            return hop.cond(p, lambda x: hop.sin(x), lambda x: x * x, x)

        for p in (True, False):
            hop.check_grads(lambda x: f(hop.asarray(p), x), (1.3,), order=2)
        hop.check_grads(hop.vmap(lambda x: f(x > 1, x)), (asarray([0.5, 1.5, 2.0]),), order=2)
        hop.check_grads(
            hop.vmap(hop.grad(lambda x: hop.sum(hop.sin(x) * x))),
            (asarray([[0.5, 1.5], [2.0, 1.0]]),),
            order=1,
        )

    def test_dtypes(self):
        for dtype in (hop.float32, hop.float16, hop.bfloat16):
            with self.subTest(dtype=dtype):
                # in float64
                hop.check_grads(lambda x: hop.sum(hop.sin(x)), (hop.asarray([0.5, 1.0], dtype=dtype),))
                # which it does not allow
                hop.check_grads(
                    lambda x: hop.sum(hop.sin(x.astype(dtype))),
                    (hop.asarray([0.5, 1.0], dtype=dtype),),
                    order=1,
                )

        def narrow(x):
            if x.dtype is not hop.float32:
                raise TypeError("float32 alone")
            return x * x

        hop.check_grads(narrow, (hop.asarray([1.0, 3.0]),))

    def test_infinities_and_emptiness(self):
        hop.check_grads(lambda x: hop.sum(x * x), (hop.zeros((0,), dtype=hop.float64),))
        hop.check_grads(lambda x: x * hop.asarray(float("nan"), dtype=hop.float64), (1.0,), order=1)


class Wrong(Case):
    def fails(self, f, args, **options):
        with self.assertRaises(hop.GradientError) as caught:
            hop.check_grads(f, args, **options)
        self.assertIsInstance(caught.exception, AssertionError)
        self.assertIsInstance(caught.exception, hop.Error)
        return caught.exception

    def test_both_modes(self):
        for mode in ("fwd", "rev"):
            e = self.fails(wrong_square, (3.0,), modes=(mode,))
            self.assertEqual((e.mode, e.order), (mode, 1))
            self.assertAlmostEqual(e.expected / e.found, 2, 5)
            self.assertIn("kink", str(e))

    def test_second_order(self):
        for mode in ("fwd", "rev"):
            hop.check_grads(wrong_second, (1.5,), order=1, modes=mode)
            e = self.fails(wrong_second, (1.5,), order=2, modes=mode)
            self.assertEqual((e.mode, e.order), (mode, 2))
            self.assertIn("derivative of the", str(e))

    def test_the_leaf_is_named(self):
        p = {"a": asarray([1.0, 2.0]), "b": [asarray([1.0, 2.0]), asarray(3.0)]}
        f = lambda p: {"y": [p["a"] * hop.stop_gradient(p["b"][1]), p["b"][0]]}  # noqa: E731
        e = self.fails(f, (p,), modes="rev")
        self.assertEqual(e.path, "argument 0['b'][1]")
        self.assertEqual(e.found, 0)
        e = self.fails(f, (p,), modes="fwd")
        self.assertEqual(e.path, "result['y'][0][0] along argument 0['b'][1]")
        self.assertRegex(str(e), r"found .*differences give .*atol=.*rtol=.*eps=")

    def test_loops_branches_and_lanes(self):
        xs = asarray([1.0, -1.0, 0.5])
        self.fails(
            lambda w: hop.scan(lambda h, x: (hop.tanh(wrong_square(w) * h + x), None), 0.1, xs)[0], (0.5,)
        )
        self.fails(lambda x: hop.while_loop(lambda c: c < 50.0, lambda c: wrong_square(c) + 1, x), (1.5,))
        self.fails(lambda x: hop.cond(hop.asarray(True), wrong_square, lambda x: x, x), (1.3,))
        self.fails(hop.vmap(wrong_square), (xs,))

    def test_kinks(self):
        e = self.fails(lambda x: hop.where(x > 0, 3 * x, x), (0.0,), order=1)
        ahead_and_behind = sorted(
            abs(float(x)) for x in re.search(r"sides are (\S+) and (\S+):", str(e)).groups()
        )
        self.assertAlmostEqual(ahead_and_behind[1] / ahead_and_behind[0], 3, 4)
        e = self.fails(hop.abs, (0.0,), order=2)
        self.assertEqual(e.order, 2)
        self.assertIn("a jump or a kink", str(e))

    def test_tolerances(self):
        off = lambda x: x * x + 1e-3 * hop.stop_gradient(x)  # noqa: E731
        hop.check_grads(off, (1.0,), order=1, atol=1e-2)
        self.fails(off, (1.0,), order=1, atol=1e-5, rtol=1e-5)

    def test_requests(self):
        with self.assertRaisesRegex(TypeError, "tuple of arguments"):
            hop.check_grads(lambda x: x, 1.0)
        with self.assertRaisesRegex(ValueError, "modes"):
            hop.check_grads(lambda x: x, (1.0,), modes=("forward",))
        with self.assertRaisesRegex(ValueError, "order"):
            hop.check_grads(lambda x: x, (1.0,), order=0)
        with self.assertRaisesRegex(hop.InvalidError, "no floats among the arguments"):
            hop.check_grads(lambda x: x, (1,))
        with self.assertRaisesRegex(hop.InvalidError, "no floats among the results"):
            hop.check_grads(lambda x: x > 0, (1.0,))
        with self.assertRaisesRegex(ZeroDivisionError, "division"):  # of the function itself
            hop.check_grads(lambda x: x / (1 // 0), (1.0,))


if __name__ == "__main__":
    unittest.main()
