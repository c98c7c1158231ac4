"""Modules of the standard library under jit, as they are: colorsys and bisect, against Python itself."""

import bisect
import colorsys
import random
import unittest

import hop
from support import Case

CONVERSIONS = ("rgb_to_yiq", "yiq_to_rgb", "rgb_to_hls", "hls_to_rgb", "rgb_to_hsv", "hsv_to_rgb")
STEP = 1e-7


def colours(count):
    """Random ones, greys, and those with two equal parts, black and white among them."""
    draw = random.Random(5)
    yield from [(0.0, 0.0, 0.0), (1.0, 1.0, 1.0), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0), (0.5, 0.5, 0.25)]
    for i in range(count):
        a, b, c = draw.random(), draw.random(), draw.random()
        yield ((a, b, c), (a, a, a), (a, a, c), (a, b, b), (a, b, a), (a, 0.0, c))[i % 6 if i % 2 else 0]


def real(x):
    return hop.asarray(x, dtype=hop.float64)


class Colorsys(Case):
    def test_values(self):
        for name in CONVERSIONS:
            plain = getattr(colorsys, name)
            f = hop.jit(plain)
            for colour in colours(300):
                with self.subTest(name, colour=colour):
                    found = [x.item() for x in map(hop.asarray, f(*map(real, colour)))]
                    self.close(found, list(plain(*colour)), 1e-12)

    def test_batches(self):
        every = list(colours(200))
        for name in CONVERSIONS:
            with self.subTest(name):
                plain = getattr(colorsys, name)
                found = hop.vmap(plain)(*[real(list(part)) for part in zip(*every)])
                for part, expected in zip(found, zip(*[plain(*c) for c in every])):
                    self.close(part, list(expected), 1e-12)

    def test_gradients(self):
        draw = random.Random(7)
        for name in CONVERSIONS:
            plain = getattr(colorsys, name)

            def total(a, b, c):
                x, y, z = plain(a, b, c)  # noqa: B023
                return x + 2 * y + 3 * z

            slope = hop.jit(hop.grad(total, argnums=(0, 1, 2)))
            for _ in range(20):
                colour = [draw.uniform(0.05, 0.95) for _ in range(3)]
                found = [x.item() for x in slope(*map(real, colour))]
                for i in range(3):
                    up, down = list(colour), list(colour)
                    up[i] += STEP
                    down[i] -= STEP
                    expected = (total(*up) - total(*down)) / (2 * STEP)
                    self.close(found[i], expected, 1e-5)


class Bisect(Case):
    def test_values(self):
        draw = random.Random(3)
        for name in ("bisect_left", "bisect_right", "bisect"):
            plain = getattr(bisect, name)
            f = hop.jit(plain)
            for size in (1, 2, 3, 10, 40):
                for _ in range(25):
                    row = sorted(draw.randint(0, 12) / 2 for _ in range(size))
                    x = draw.randint(-2, 14) / 2
                    with self.subTest(name, row=row, x=x):
                        self.assertEqual(int(f(real(row), real(x))), plain(row, x))

    def test_lists_of_numbers(self):
        row = [0.5, 1.0, 1.0, 2.5, 4.0]
        for plain in (bisect.bisect_left, bisect.bisect_right, bisect.bisect):
            given, closed_over = hop.jit(plain), hop.jit(lambda x, plain=plain: plain(row, x))
            for x in (0.0, 1.0, 2.0, 4.0, 9.0):
                self.assertEqual(int(given(row, x)), plain(row, x))
                self.assertEqual(int(closed_over(real(x))), plain(row, x))
        self.assertIn("while_", hop.jit(bisect.bisect_left).source())

    def test_ends_and_keys(self):
        row, key = [float(i * i) for i in range(-9, 1)], lambda v: -v
        for name in ("bisect_left", "bisect_right"):
            plain = getattr(bisect, name)
            within = hop.jit(lambda a, x, low, high: plain(a, x, low, high))  # noqa: B023
            keyed = hop.jit(lambda a, x: plain(a, x, key=key))  # noqa: B023
            for x in (-90.0, -81.0, -16.0, -5.0, 0.0, 3.0):
                self.assertEqual(int(keyed(real(row), real(x))), plain(row, x, key=key))
                for ends in ((0, 10), (2, 7), (5, 5)):
                    found = within(real(row[::-1]), real(-x), *map(hop.asarray, ends))
                    self.assertEqual(int(found), plain(row[::-1], -x, *ends))

    def test_batches(self):
        row, xs = [0.5, 1.0, 1.0, 2.5, 4.0], [0.0, 0.5, 1.0, 2.0, 4.0, 9.0]
        found = hop.vmap(bisect.bisect_left, in_axes=(None, 0))(real(row), real(xs))
        self.equal(found, [bisect.bisect_left(row, x) for x in xs])


if __name__ == "__main__":
    unittest.main()
