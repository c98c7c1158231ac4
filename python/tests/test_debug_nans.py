"""hop.debug_nans: the first operator, element, trip and lane that made a NaN or an infinity is named, in
every place, under gradients and batches; functions that make none are as they were."""

import os
import random
import unittest

import hop

from support import Case


def message(f, *args):
    """What it says of the first NaN, None: there is none."""
    try:
        f(*args)
    except hop.NotFiniteError as error:
        return str(error)
    return None


# Operators, arguments that make a NaN and those that make an infinity (None: it makes none).
OPERATORS = {
    "log": (hop.log, (-1.0,), (0.0,)),
    "log2": (hop.log2, (-1.0,), (0.0,)),
    "log1p": (hop.log1p, (-2.0,), (-1.0,)),
    "sqrt": (hop.sqrt, (-1.0,), None),
    "rsqrt": (hop.rsqrt, (-1.0,), (0.0,)),
    "exp": (hop.exp, None, (1000.0,)),
    "sinh": (hop.sinh, None, (1000.0,)),
    "asin": (hop.asin, (2.0,), None),
    "acosh": (hop.acosh, (0.5,), None),
    "atanh": (hop.atanh, (2.0,), (1.0,)),
    "sin": (hop.sin, (hop.inf,), None),
    "div": (lambda a, b: a / b, (0.0, 0.0), (1.0, 0.0)),
    "mul": (lambda a, b: a * b, (0.0, hop.inf), (1e30, 1e30)),
    "add": (lambda a, b: a + b, (hop.inf, -hop.inf), (3e38, 3e38)),
    "sub": (lambda a, b: a - b, (hop.inf, hop.inf), (-3e38, 3e38)),
    "pow": (hop.pow, (-1.0, 0.5), (0.0, -1.0)),
    "sum": (lambda a: hop.sum(hop.stack([a, -a])), (hop.inf,), None),
    "prod": (lambda a: hop.prod(hop.stack([a, a])), None, (1e30,)),
}


class Operators(Case):
    def test_each_operator_is_named(self):
        for name, (f, makes_nan, makes_infinity) in OPERATORS.items():
            for given, what in ((makes_nan, "a NaN"), (makes_infinity, "an infinity")):
                if given is None:
                    continue
                for how in (hop.debug_nans(f), hop.jit(hop.debug_nans(f)), hop.debug_nans(hop.jit(f))):
                    said = message(how, *map(hop.asarray, given))
                    self.assertIsNotNone(said, (name, given))
                    self.assertIn(f"made {what}", said, name)
                    if name not in ("log2", "sinh", "acosh", "asin", "atanh"):  # made of others
                        self.assertIn(f"debug_nans: {name} made", said, name)

    def test_infinities_only_if_asked(self):
        f = hop.debug_nans(hop.log, infinities=False)
        self.assertEqual(f(0.0).item(), -hop.inf)
        self.assertIn("log made a NaN", message(f, -1.0))

    def test_what_is_given_is_no_fault(self):
        def attention(x, mask):
            return hop.softmax(x + mask)

        mask = hop.asarray([0.0, -hop.inf, 0.0])
        self.assertIsNone(message(hop.debug_nans(attention), hop.ones(3), mask))
        self.assertIsNone(message(hop.debug_nans(lambda x: hop.where(x > 0, x, hop.inf)), hop.ones(3)))

    def test_an_argument_with_a_nan(self):
        said = message(hop.debug_nans(lambda a, b: a + b), 1.0, hop.asarray([1.0, hop.nan]))
        self.assertIn("has a NaN: nan at [1]", said)

    def test_element_and_line(self):
        def f(x):
            y = x * 2
            return hop.log(y)  # here

        said = message(hop.debug_nans(f), hop.asarray([[1.0, 2.0], [0.0, 1.0]]))
        self.assertIn("log made an infinity: -inf at [1, 0] of 0", said)
        line = f.__code__.co_firstlineno + 2
        self.assertIn(f"test_debug_nans.py:{line}: debug_nans", said)

    def test_mistakes(self):
        with self.assertRaises((TypeError, ValueError)):
            hop.debug_nans(3)
        with self.assertRaises((TypeError, ValueError)):
            hop.debug_nans(hop.log, infinities="no")
        self.assertTrue(issubclass(hop.NotFiniteError, (hop.CheckError)))
        self.assertTrue(issubclass(hop.NotFiniteError, FloatingPointError))


# Places: a function of xs (8 floats) that takes the root of each, and what is said where xs[7] is -1.


def in_scan(xs):
    return hop.scan(lambda c, x: (c + hop.sqrt(x), None), 0.0, xs)[0]


def in_map(xs):
    return hop.sum(hop.map(lambda x: hop.sqrt(x), xs))


def in_fori(xs):
    return hop.fori_loop(0, 8, lambda i, c: c + hop.sqrt(xs[i]), 0.0)


def in_while(xs):
    def body(c):
        return c[0] + 1, c[1] + hop.sqrt(xs[c[0]])

    return hop.while_loop(lambda c: c[0] < 8, body, (0, 0.0))[1]


def in_cond(xs):
    return hop.cond(xs[0] > 0, lambda: hop.sum(hop.sqrt(xs)), lambda: hop.sum(xs))


def in_checkpoint(xs):
    return hop.checkpoint(lambda v: hop.sum(hop.sqrt(v)))(xs)


def in_nested(xs):
    def outer(c, x):
        return hop.fori_loop(0, 2, lambda i, c: c + hop.sqrt(x) * i, c), None

    return hop.scan(outer, 0.0, xs)[0]


def at_top(xs):
    return hop.sum(hop.sqrt(xs))


PLACES = {
    at_top: [" at [7] of -1"],
    in_scan: ["in trip 7 of the scan"],
    in_map: ["in trip 7 of the map"],
    in_fori: ["in trip 7 of the fori_loop"],
    in_while: ["in trip 7 of the while_loop"],
    in_cond: [" at [7] of -1"],
    in_checkpoint: [" at [7] of -1"],
    in_nested: ["in trip 0 of the fori_loop", "in trip 7 of the scan"],
}
GOOD = [1.0, 4.0, 9.0, 16.0, 25.0, 36.0, 49.0, 64.0]
BAD = [*GOOD[:7], -1.0]
ZERO = [*GOOD[:7], 0.0]


class Places(Case):
    def test_trips_and_elements(self):
        for f, said in PLACES.items():
            for how in (hop.debug_nans(f), hop.jit(hop.debug_nans(f)), hop.debug_nans(hop.jit(f))):
                found = message(how, hop.asarray(BAD))
                self.assertIsNotNone(found, f.__name__)
                for part in ["sqrt made a NaN", *said]:
                    self.assertIn(part, found, f.__name__)

    def test_lanes(self):
        lanes = hop.asarray([GOOD, GOOD, BAD])
        for f, said in PLACES.items():
            for how in (hop.debug_nans(hop.vmap(f)), hop.vmap(hop.debug_nans(f))):
                found = message(how, lanes)
                self.assertIsNotNone(found, f.__name__)
                for part in ["sqrt made a NaN", "in lane 2"]:
                    self.assertIn(part, found, f.__name__)

    def test_lanes_that_do_not_run(self):
        """Where branches and loops run for some lanes, the lane that is named is one of these."""

        def branch(x):
            return hop.cond(x < 0, lambda x: hop.log(x), lambda x: x, x)

        def loop(x):
            def body(c):
                return c[0] + 1, hop.sqrt(c[1] - 1)

            return hop.while_loop(lambda c: c[0] < hop.where(x < 0, 2, 0), body, (0, x))[1]

        def nested(x):
            return hop.vmap(lambda y: branch(y) + loop(y))(hop.stack([hop.abs(x), x]))

        xs = hop.asarray([3.0, 2.0, -1.0, 4.0])
        for f, lane in ((branch, "lane 2"), (loop, "lane 2"), (nested, "lane (2, 1)")):
            plain, inner = hop.debug_nans(hop.vmap(f)), hop.debug_nans(hop.jit(hop.vmap(f)))
            for how in (plain, inner, hop.jit(plain), hop.vmap(hop.debug_nans(f))):
                self.assertIn(f"in {lane}", message(how, xs) or "", f.__name__)
        found = message(hop.debug_nans(hop.vmap(hop.grad(lambda x: hop.sqrt(branch(x) - x)))), xs)
        self.assertIn("in lane", found)
        self.assertIsNone(message(hop.debug_nans(hop.vmap(branch)), abs(xs)))
        found = message(hop.debug_nans(hop.vmap(loop), infinities=False), xs)
        self.assertIn("in lane 2", found)

    def test_gradients(self):
        for f in PLACES:
            for how in (hop.debug_nans(hop.grad(f)), hop.grad(hop.debug_nans(f))):
                found = message(how, hop.asarray(ZERO))
                self.assertIsNotNone(found, f.__name__)
                self.assertIn("made an infinity", found, f.__name__)
                self.assertIn("in a gradient", found, f.__name__)

    def test_forward_derivatives(self):
        xs = hop.asarray(ZERO)
        found = message(hop.debug_nans(lambda x: hop.jvp(at_top, (x,), (x + 1,))), xs)
        self.assertIn("in a forward derivative", found)

    def test_a_product_of_zero_and_infinity_in_a_gradient(self):
        def f(x):
            return hop.sum(hop.where(x > 0, hop.sqrt(x), 0.0))

        found = message(hop.debug_nans(hop.grad(f), infinities=False), hop.asarray(ZERO))
        self.assertIn("made a NaN", found)
        self.assertIn("in a gradient", found)

    def test_clean_functions_stay_as_they_are(self):
        xs = hop.asarray(GOOD)
        for f in PLACES:
            for g in (f, hop.grad(f), hop.jit(f)):
                self.assertEqual(hop.debug_nans(g)(xs).tolist(), hop.jit(g)(xs).tolist(), f.__name__)


class Random(Case):
    def test_first_of_random_chains(self):
        """The first operator of a chain that makes something, found by applying one after the other."""
        steps = [hop.log, hop.sqrt, hop.exp, lambda x: x * x, lambda x: 1 / x, lambda x: x - 1, hop.tanh]
        draw = random.Random(7)
        for _ in range(int(os.environ.get("HOP_TEST_SEEDS", "40"))):
            chain = [draw.choice(steps) for _ in range(6)]
            start = [draw.choice([-1.5, 0.0, 0.5, 1.0, 3.0, 40.0]) for _ in range(4)]

            def f(x):
                for step in chain:
                    x = step(x)
                return x

            x, wrong = hop.asarray(start), None
            for step in chain:
                x = step(x)
                finite = hop.isfinite(x).tolist()
                if not all(finite):
                    wrong = finite.index(False)
                    break
            found = message(hop.debug_nans(f), hop.asarray(start))
            self.assertEqual(found is None, wrong is None, (start, found))
            if wrong is not None:
                self.assertIn(f" at [{wrong}]", found)


if __name__ == "__main__":
    unittest.main()
