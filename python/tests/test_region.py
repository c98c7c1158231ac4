"""region: bodies under a regime, from Python."""

import unittest

import numpy as np

import hop


class Regions(unittest.TestCase):
    def test_means_its_function(self):
        @hop.region("mine", bits=8)
        def f(x, scale=2.0):
            return {"y": hop.sin(x) * scale, "n": 3}

        x = hop.asarray([0.5, 1.0])
        for g in (f, hop.jit(f)):
            np.testing.assert_allclose(g(x)["y"], 2 * np.sin([0.5, 1.0]), rtol=1e-6)
            self.assertEqual(int(g(x, scale=1.0)["n"]), 3)

    def test_transforms_keep_the_kind(self):
        f = hop.region("mine", bits=8)(lambda x: x * x * x)
        kind = 'region {kind = "mine", bits = 8}'
        self.assertEqual(hop.grad(f)(2.0), 12)
        self.assertEqual(hop.grad(hop.grad(f))(2.0), 12)
        self.assertEqual(hop.jvp(f, (2.0,), (1.0,))[1], 12)
        np.testing.assert_array_equal(hop.vmap(f)(hop.asarray([1.0, 2.0])), [1, 8])
        np.testing.assert_array_equal(hop.vmap(hop.grad(f))(hop.asarray([1.0, 2.0])), [3, 12])
        for transform in (hop.grad, hop.vmap, hop.jacfwd, lambda g: hop.grad(hop.grad(g))):
            argument = hop.asarray([1.0, 2.0]) if transform is hop.vmap else 2.0
            self.assertIn(kind, hop.jit(transform(f)).text(argument))

    def test_uses_what_is_around(self):
        def loss(x):
            a = 3 * x
            return hop.sum(hop.region("mine")(lambda y: y * a)(x))

        np.testing.assert_array_equal(hop.jit(hop.grad(loss))(hop.asarray([1.0, 2.0])), [6, 12])

    def test_in_a_loop(self):
        def run(x):
            return hop.fori_loop(0, 3, lambda i, c: hop.region("mine", step=1)(hop.sin)(c), x)

        slope = np.cos(1) * np.cos(np.sin(1)) * np.cos(np.sin(np.sin(1)))
        np.testing.assert_allclose(hop.grad(run)(1.0), slope, rtol=1e-6)

    def test_attributes(self):
        attributes = {"b": True, "i": -3, "r": 0.1, "s": 'a "b"\n', "l": [1, 2.5, "x", False], "e": 1e30, "t": ()}
        f = hop.region("mine", **attributes)(hop.sin)
        self.assertIn(
            r'{kind = "mine", b = true, e = 1e+30, i = -3, l = [1, 2.5, "x", false], r = 0.1, '
            r's = "a \"b\"\n", t = []}',
            hop.jit(f).text(1.0),
        )
        again = hop.read(hop.jit(f).text(1.0))
        self.assertAlmostEqual(float(again(1.0)), np.sin(1.0), places=6)

    def test_different_attributes_are_different_programs(self):
        for bits in (3, 4):
            f = hop.jit(lambda x: hop.region("mine", bits=bits)(hop.sin)(x))  # noqa: B023
            self.assertIn(f"bits = {bits}", f.text(1.0))

    def test_mistakes(self):
        with self.assertRaisesRegex(TypeError, r"test_region.py:\d+: region: expected the name of a kind"):
            hop.region(3)
        with self.assertRaisesRegex(TypeError, r"attribute bits: expected a string, a number, .*found dict"):
            hop.region("mine", bits={})
        with self.assertRaisesRegex(TypeError, "found list"):
            hop.region("mine", bits=[[1]])
        with self.assertRaisesRegex(hop.InvalidError, "64 bits"):
            hop.region("mine", bits=2**63)
        with self.assertRaisesRegex(TypeError, "region"):
            hop.region("mine")(3)


if __name__ == "__main__":
    unittest.main()
