"""Plain control flow in captures: what it gives is what Python gives, or it is refused."""

import colorsys
import math
import unittest

import hop
from support import Case


def early(x):
    if x < 0:
        return 0.0
    for _ in range(3):
        x = x * 2
        if x > 10:
            return x
    return -x


def halved(x):
    n = 0
    while x > 1:
        x /= 2
        n += 1
        if n == 5:
            break
    else:
        n += 100
    return n


def clipped(xs):
    total = 0.0
    for r in xs:
        if r == 3:
            continue
        total = total + (r if 0 < r < 5 or r > 8 else -1.0)
    return total


def nested(x):
    def inner(y):
        if y > 1:
            return y * 2
        return y

    return inner(x) + inner(x + 1)


def with_generator(x):
    def both():
        yield x
        yield x + 1

    total = 0.0
    for v in both():
        if v > 1:
            total = total + v
    return total


def best(x):
    found = None
    for v in (x, x + 1, x - 1):
        if found is None or v > found:
            found = v
    return found


def among(x):
    return 1.0 if any(v > 3 for v in (x, x * 2)) and all([x > 0, x < 100]) else 0.0


def tried(x):
    try:
        if x > 0:
            y = x
        else:
            y = -x
    finally:
        z = 1.0
    return y + z


def triangle(n):
    total = 0
    for i in range(n):
        for j in range(i):
            if j == 2:
                break
            total += j + 1
    return total


class Model:
    k = 2.0

    def f(self, x):
        if x > self.k:
            x = self.g(x)
        return x

    def g(self, x):
        while x > 1:
            x = x / 2
        return x


class Heir(Model):
    def f(self, x):
        y = super().f(x)
        return y if y > 0 else -y


class Snippets(Case):
    def check(self, fun, *calls):
        g = hop.jit(fun)
        for args in calls:
            self.assertAlmostEqual(g(*map(hop.asarray, args)).item(), fun(*args), places=5)

    def test_functions(self):
        self.check(early, (1.0,), (3.0,), (-1.0,))
        self.check(halved, (9.0,), (1000.0,), (0.5,))
        self.check(nested, (0.5,), (3.0,))
        self.check(with_generator, (0.5,), (2.0,))
        self.check(best, (1.0,))
        self.check(among, (2.0,), (1.0,), (-3.0,))
        self.check(tried, (2.0,), (-1.0,))
        self.check(triangle, (0,), (3,), (7,))
        self.check(lambda x: x if x > 0 else -x, (2.0,), (-2.0,))

    def test_the_standard_library(self):
        f = hop.jit(colorsys.rgb_to_hsv)
        for args in ((0.2, 0.4, 0.4), (0.5, 0.1, 0.9), (0.3, 0.3, 0.3)):
            for found, expected in zip(f(*map(hop.asarray, args)), colorsys.rgb_to_hsv(*args)):
                self.assertAlmostEqual(found.item(), expected, places=5)

    def test_numbers_take_the_dtype_of_arrays(self):
        def chosen(x):
            few = 1 if x > 0 else 2
            y = x
            if x > 2:
                y = 7.0 if x > 3 else 1
            elif x > 1:
                y = 0.5 if x > 1.5 else few
            return y

        f = hop.jit(chosen)
        for x, expected in ((0.5, 0.5), (1.25, 1.0), (1.75, 0.5), (2.5, 1.0), (4.0, 7.0)):
            self.equal(f(hop.asarray(x)), expected, hop.float32)
            self.equal(f(hop.asarray(x, dtype=hop.float64)), expected, hop.float64)

    def test_many_slices_behind_a_number(self):
        def f(v):
            return sum([s * s for s in v]) if v[1] > 0 else v[0]

        self.equal(hop.grad(f)(hop.arange(10.0)), [2.0 * i for i in range(10)])
        self.equal(hop.jit(hop.grad(f))(hop.arange(10.0)), [2.0 * i for i in range(10)])

    def test_arrays(self):
        xs = [float(i) for i in range(12)]
        self.equal(hop.jit(clipped)(hop.asarray(xs)), clipped(xs))
        self.equal(hop.jit(clipped)(hop.asarray(xs[:5])), clipped(xs[:5]))

    def test_methods(self):
        self.check(Model().f, (10.0,), (1.0,))
        self.check(Heir().f, (-3.0,), (10.0,))

    def test_state_is_watched(self):
        model = Model()
        f = hop.jit(model.f)
        self.assertEqual(f(hop.asarray(10.0)).item(), 0.625)
        model.k = 20.0
        self.assertEqual(f(hop.asarray(10.0)).item(), 10.0)

    def test_bodies_of_operators(self):
        def step(carry, x):
            if x > carry:
                carry = x
            return carry, carry

        xs = hop.asarray([1.0, 3.0, 2.0])
        f = hop.jit(lambda xs: hop.scan(step, hop.asarray(0.0), xs)[1])
        self.equal(f(xs), [1, 3, 3])
        g = hop.jit(lambda x: hop.grad(lambda v: v * v if v > 0 else -v)(x))
        self.assertEqual([g(hop.asarray(v)).item() for v in (3.0, -3.0)], [6.0, -1.0])

    def test_gradients(self):
        def root(a):
            x = a
            while abs(x * x - a) > 1e-6:
                x = (x + a / x) / 2
            return x

        f = hop.jit(hop.grad(root))
        self.assertAlmostEqual(f(hop.asarray(2.0)).item(), 0.5 / 2**0.5, places=4)

    def test_assertions_and_exceptions(self):
        def checked(x):
            assert x < 10, "large"
            if x < 0:
                raise ValueError("negative")
            return x * 2

        f = hop.jit(checked)
        self.assertEqual(f(hop.asarray(1.0)).item(), 2.0)
        for x, said in ((11.0, "large"), (-1.0, "ValueError: negative")):
            with self.assertRaisesRegex(hop.CheckError, said):
                f(hop.asarray(x))

    def test_source(self):
        self.assertIn("while_", hop.jit(halved).source())
        with self.assertRaisesRegex(hop.InvalidError, "source"):
            hop.jit(math.sin).source()

    def test_without(self):
        with self.assertRaises(hop.TracerError):
            hop.jit(early, control=False)(hop.asarray(1.0))


class Refused(Case):
    def refused(self, fun, said):
        with self.assertRaisesRegex(hop.Error, said):
            hop.jit(fun)(hop.asarray(1.0))

    def test_containers(self):
        def appends(x):
            out = []
            if x > 0:
                out.append(x)
            return len(out)

        def grows(x):
            table = {"a": x}
            while x < 3:
                table[len(table)] = x = x + 1
            return table["a"]

        self.refused(appends, r"the if in line \d+ changes what is inside of out: .*a list of 1")
        self.refused(grows, r"the while in line \d+ changes what is inside of table")

    def test_an_abandoned_attempt(self):
        seen = []

        def fun(x):
            seen.append(1)
            return x if x > 0 else -x

        self.refused(fun, "changes what is inside of seen")

    def test_recursion(self):
        def fun(n):
            return 1 if n <= 1 else n * fun(n - 1)

        self.refused(fun, "fun calls itself under the condition in line")


if __name__ == "__main__":
    unittest.main()
