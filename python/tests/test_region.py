"""region: bodies under a regime, from Python."""

import unittest

import numpy as np

import hop


class Rewritings(unittest.TestCase):
    def rewriting(self, kind, fun, **options):
        hop.region_rewriting(kind, fun, **options)
        self.addCleanup(hop.region_rewriting, kind, None)

    def tearDown(self):
        self.doCleanups()
        with self.assertRaisesRegex(hop.InvalidError, "no rewriting of 'none'"):
            hop.region_rewriting("none", None)

    def test_everywhere(self):
        seen = []

        def scaled(attributes, body):
            seen.append((attributes, body.name))
            return lambda *args: attributes["by"] * body(*args)

        f = hop.region("scaled", by=10)(lambda x: x * x * x)
        self.assertEqual(float(f(2.0)), 8)
        self.rewriting("scaled", scaled)
        self.assertEqual(float(f(2.0)), 80)
        self.assertEqual(float(hop.jit(f)(2.0)), 80)
        self.assertEqual(float(hop.grad(f)(2.0)), 120)
        self.assertEqual(float(hop.jit(f).lower(2.0).function.interpret(2.0)), 80)
        np.testing.assert_array_equal(hop.vmap(f)(hop.asarray([1.0, 2.0])), [10, 80])
        np.testing.assert_array_equal(hop.jit(lambda x: hop.scan(lambda c, y: (c, f(y)), 0.0, x)[1])(
            hop.asarray([1.0, 2.0])), [10, 80])
        self.assertEqual(seen[0][0], {"by": 10})
        self.assertIn('region {kind = "scaled", by = 10}', hop.jit(f).text(2.0))
        self.assertIn("10", hop.jit(f).c(2.0))

    def test_compiled_programs_follow(self):
        f = hop.jit(lambda x: hop.region("scaled")(hop.cos)(x))
        program = hop.read(f.text(0.0))
        self.assertEqual([float(f(0.0)), float(program(0.0)), float(hop.grad(f)(0.0))], [1, 1, 0])
        self.rewriting("scaled", lambda attributes, body: lambda *x: 2 + body(*x))
        self.assertEqual([float(f(0.0)), float(program(0.0)), float(hop.grad(f)(0.0))], [3, 3, 2])
        hop.region_rewriting("scaled", lambda attributes, body: body, version=2)
        self.assertEqual([float(f(0.0)), float(program(0.0)), float(hop.grad(f)(0.0))], [1, 1, 0])

    def test_regions_in_regions(self):
        self.rewriting("a", lambda attributes, body: lambda x: body(x) + 1)
        self.rewriting("b", lambda attributes, body: lambda x: body(x) * 10)
        f = hop.region("a")(lambda x: hop.region("b")(lambda y: y * 2)(x))
        self.assertEqual(float(f(3.0)), 61)

    def test_any_size(self):
        self.rewriting("doubled", lambda attributes, body: lambda x: 2 * body(x))
        f = hop.jit(hop.region("doubled")(hop.abs), dims={"x": "T"})
        np.testing.assert_array_equal(f(hop.asarray([-1.0, 2.0])), [2, 4])
        np.testing.assert_array_equal(f(hop.asarray([-1.0, 2.0, 3.0])), [2, 4, 6])

    def test_attributes_come_back(self):
        given = {
            "i": -3, "r": 0.1, "s": 'a "b", [c] = \\\n\x01', "b": True, "l": [1, 2.5, "],", False], "e": [],
            "h": 1 / 3,
        }  # fmt: skip
        seen = []
        self.rewriting("kept", lambda attributes, body: seen.append(attributes) or body)
        hop.jit(hop.region("kept", **given)(hop.sin))(1.0)
        self.assertEqual(seen[0], given)
        self.assertEqual([type(x) for x in seen[0]["l"]], [int, float, str, bool])

    def test_a_rewriting_by_plain_control_flow(self):
        def capped(attributes, body):
            def f(x):
                y = body(x)
                if y > 1:
                    y = 0 * y
                return y

            return f

        self.rewriting("capped", capped)
        f = hop.jit(hop.region("capped")(lambda x: 3 * x))
        self.assertEqual([float(f(0.25)), float(f(1.0))], [0.75, 0])

    def test_fake_quantisation(self):
        def quantised(attributes, body):
            if body.name.endswith("_backward"):  # the gradient goes straight through
                return body
            levels = 2.0 ** attributes["bits"] - 1
            return lambda x, w: body(hop.round(x * levels) / levels, hop.round(w * levels) / levels)

        @hop.region("quantised", bits=2)
        def dense(x, w):
            return x @ w

        x, w = hop.asarray([[0.4, 0.9]]), hop.asarray([[0.5], [0.2]])
        plain = hop.grad(lambda w: hop.sum(dense(x, w)))(w)
        self.rewriting("quantised", quantised)
        np.testing.assert_allclose(hop.jit(dense)(x, w), [[1 / 3 * 2 / 3 + 1 * 1 / 3]], rtol=1e-6)
        np.testing.assert_array_equal(hop.jit(hop.grad(lambda w: hop.sum(dense(x, w))))(w), plain)

    def test_mistakes(self):
        f = hop.region("wrong")(hop.sin)

        def fails(rewriting, error, message):
            hop.region_rewriting("wrong", rewriting)
            for run in (f, hop.jit(f), hop.grad(f)):
                with self.assertRaisesRegex(error, message) as caught:
                    run(1.0)
            return caught.exception

        def raises(attributes, body):
            raise KeyError("nope")

        error = fails(raises, KeyError, "nope")
        self.assertIn("in the rewriting of regions of kind 'wrong'", error.__notes__)
        fails(lambda attributes, body: 3, TypeError, "expected a function in place of the body .*found 3")
        fails(lambda attributes, body: lambda *x: (1.0, 2.0, 3.0), hop.InvalidError,
              r"test_region.py:\d+: region: the rewriting of kind 'wrong' gives a function of 3 results")
        fails(lambda attributes, body: lambda *x: 3 > body(*x), hop.InvalidError,
              r"whose result 0 has type bool\[\], expected f")
        outside = hop.asarray([1.0])
        fails(lambda attributes, body: lambda *x: body(*x) + outside[0], hop.InvalidError, "from outside")
        hop.region_rewriting("wrong", None)
        self.assertAlmostEqual(float(f(1.0)), np.sin(1.0), places=6)
        with self.assertRaises(TypeError):
            hop.region_rewriting("wrong", 3)
        with self.assertRaises(TypeError):
            hop.region_rewriting(3, lambda attributes, body: body)


class Kinds(unittest.TestCase):
    def test_named(self):
        @hop.region("named", name="attention")
        def f(x):
            hop.check(hop.sum(x) > 0, "positive")
            return hop.sin(x)

        g = hop.jit(lambda x: f(hop.exp(x) - 2))
        self.assertIn("attention: ", g.explain(hop.ones(3)))
        with self.assertRaisesRegex(hop.CheckError, "positive(.|\n)*in the region 'attention'"):
            g(hop.zeros(3))

    def test_wrap_and_hints(self):
        def chain(kind, **attributes):
            return hop.jit(lambda x: hop.exp(hop.region(kind, **attributes)(hop.sin)(hop.exp(x))))

        x = hop.ones(64)
        self.assertIn("nests: 3", chain("wrap").explain(x))
        self.assertIn("nests: 1", chain("wrap", inline="yes").explain(x))
        self.assertIn("nests: 1", chain("mine").explain(x))
        self.assertIn("nests: 3", chain("hints", inline=False, flavour="sour").explain(x))
        with self.assertRaisesRegex(hop.InvalidError, r"region.py:\d+: region: unroll: expected an integer"):
            chain("hints", unroll="4")(x)

    def test_large_bodies_are_put_in_place_as_written(self):
        def body(x):
            for _ in range(8):
                x = hop.tanh(x @ x) * hop.sin(x)
            return x

        def twice(f):
            return hop.jit(lambda x: f(f(x))).explain(hop.eye(16))

        self.assertIn("called in 2 places: by its size", twice(hop.region("mine")(body)))
        self.assertNotIn("shared bodies", twice(hop.region("mine", inline="yes")(body)))

    def test_strict_numbers(self):
        x = hop.asarray(np.random.default_rng(1).normal(size=1003).astype(np.float32))
        y = hop.asarray(np.random.default_rng(2).normal(size=1003).astype(np.float32))

        def total(x, y):
            return hop.sum(x * y)

        strict = hop.jit(total, strict=True)(x, y)
        self.assertNotEqual(hop.jit(total)(x, y), strict)
        part = hop.region("numbers", mode="strict")(total)
        self.assertEqual(hop.jit(lambda x, y: part(x, y))(x, y), strict)


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
        attributes = {"b": True, "i": -3, "r": 0.1, "s": 'a "b"\n', "l": [1, 2.5, "x", False]}
        attributes |= {"e": 1e30, "t": ()}
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
        for kind, attributes in (("numbers", {"mode": "sloppy"}), ("named", {}), ("hints", {"unroll": "4"})):
            with self.assertRaisesRegex(hop.InvalidError, r"test_region.py:\d+: region: .*expected"):
                hop.region(kind, **attributes)
        with self.assertRaisesRegex(TypeError, "region"):
            hop.region("mine")(3)


if __name__ == "__main__":
    unittest.main()
