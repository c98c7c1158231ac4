"""Profiles of compiled functions: structure, lines, sums, files, and what is refused."""

import json
import os
import tempfile
import unittest

import hop


def walk(node):
    yield node
    for inner in node["inside"]:
        yield from walk(inner)


@hop.jit
def network(w, xs):
    def step(h, x):
        return hop.tanh(h @ w + x), None

    return hop.sum(hop.exp(hop.scan(step, xs[0], xs)[0]))


W, XS = hop.ones((96, 96)) * 0.01, hop.ones((20, 96, 96))


class Profiles(unittest.TestCase):
    def test_structure(self):
        p = network.profile(W, XS, runs=20)
        self.assertEqual(p.runs, 20)
        self.assertEqual(p.tree["kind"], "function")
        loops = [n for n in walk(p.tree) if n["kind"] == "loop"]
        self.assertEqual([(n["label"], n["entered"], n["trips"]) for n in loops], [("scan @step", 20, 400)])
        products = [n for n in walk(p.tree) if n["kind"] == "product"]
        self.assertEqual([n["entered"] for n in products], [400])
        self.assertEqual(products[0]["operations"], 400 * 2 * 96**3)
        self.assertIn("test_profile.py:20", products[0]["place"])

    def test_sums(self):
        p = hop.jit(hop.grad(network)).profile(W, XS, seconds=0.2)
        self.assertGreater(p.samples, 0)
        self.assertAlmostEqual(p.tree["seconds"], p.seconds, delta=1e-6 * p.seconds + 1e-9)
        for n in walk(p.tree):
            inside = sum(c["seconds"] for c in n["inside"])
            self.assertAlmostEqual(n["seconds"], n["self"] + inside, delta=1e-6 * p.seconds + 1e-9)
            self.assertLessEqual(n["share"], 1.000001)

    def test_files(self):
        p = network.profile(W, XS, runs=3)
        with tempfile.TemporaryDirectory() as folder:
            for name, begin in (("a.svg", "<svg "), ("a.json", "{"), ("a.txt", "@network: 3 runs")):
                path = os.path.join(folder, name)
                p.save(path)
                with open(path, encoding="utf-8") as file:
                    self.assertTrue(file.read().startswith(begin), name)
        self.assertEqual(json.loads(p.json())["runs"], 3)
        self.assertIn("@network: 3 runs", repr(p))

    def test_updates_are_of_copies(self):
        def add(x, y):
            x[:] = x + y
            return hop.sum(x)

        x = hop.zeros(1000)
        hop.jit(add, mut=0).profile(x, hop.ones(1000), runs=4)
        self.assertEqual(float(hop.sum(x)), 0)

    def test_failing_runs(self):
        @hop.jit
        def f(x):
            hop.check(hop.all(x > 0), "x is positive")
            return hop.sum(x)

        with self.assertRaises(hop.Error):
            f.profile(-hop.ones(3), runs=2)
        self.assertEqual(f.profile(hop.ones(3), runs=2).runs, 2)

    def test_refused(self):
        for options in ({"seconds": 0}, {"seconds": "long"}, {"runs": 0}, {"runs": 1.5}, {"seconds": True}):
            with self.assertRaises(hop.InvalidError):
                network.profile(W, XS, **options)
        with self.assertRaisesRegex(hop.InvalidError, "lower"):
            hop.jit(lambda seconds: seconds + 1).profile(1.0)


if __name__ == "__main__":
    unittest.main()
