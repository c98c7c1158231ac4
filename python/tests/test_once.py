"""Regions of the kind once: what they make of constant arrays is computed at the first call and kept."""

import threading
import unittest

import numpy as np

import hop


@hop.region("once")
def normalised(w):
    return w / hop.sqrt(hop.sum(w * w, axis=0))


def layer(w, x):
    return x @ normalised(w)


def expected(w, x):
    w = np.array(w.tolist())  # np.asarray would share the memory, which counts as a write
    return np.asarray(x) @ (w / np.sqrt((w * w).sum(axis=0)))


class Once(unittest.TestCase):
    def setUp(self):
        self.w = hop.asarray([[3.0, 0.5], [4.0, 2.0]])
        self.x = hop.asarray([1.0, 2.0])

    def check(self, f, w, x):
        np.testing.assert_allclose(f(w, x), expected(w, x), rtol=1e-6)

    def test_is_computed_at_the_first_call(self):
        f = hop.jit(lambda w, x: layer(w, x), constant_argnames="w")
        self.assertEqual(f.kept(), {"values": 0, "bytes": 0, "made": 0})
        for k in range(3):
            np.testing.assert_allclose(f(self.w, self.x * k), expected(self.w, self.x * k), rtol=1e-6)
        self.assertEqual(f.kept(), {"values": 1, "bytes": 16, "made": 1})

    def test_by_number(self):
        f = hop.jit(lambda w, x: layer(w, x), constant_argnums=0)
        f(self.w, self.x)
        f(self.w, self.x)
        self.assertEqual(f.kept()["made"], 1)

    def test_another_array_and_writes(self):
        f = hop.jit(lambda w, x: layer(w, x), constant_argnames=("w",))
        w = self.w
        f(w, self.x)
        other = w + 1
        np.testing.assert_allclose(f(other, self.x), expected(other, self.x), rtol=1e-6)
        self.assertEqual(f.kept()["made"], 2)
        other[0, 0] = 7.0
        np.testing.assert_allclose(f(other, self.x), expected(other, self.x), rtol=1e-6)
        self.assertEqual(f.kept()["made"], 3)

        @hop.jit(mut="w")
        def halve(w):
            w[...] = w / 2 + 1

        halve(other)
        np.testing.assert_allclose(f(other, self.x), expected(other, self.x), rtol=1e-6)

    def test_other_looks_at_the_same_memory(self):
        f = hop.jit(lambda w, x: layer(w, x), constant_argnames="w")
        flat = hop.asarray([3.0, 0.5, 4.0, 2.0]) + 0
        w = flat.reshape(2, 2)
        for _ in range(2):
            f(w, self.x)
        self.assertEqual(f.kept()["made"], 1)
        np.asarray(flat)[0] = 7.0
        np.testing.assert_allclose(f(w, self.x), expected(w, self.x), rtol=1e-6)
        self.assertEqual(f.kept()["made"], 2)
        np.asarray(w)[0, 0] = 8.0
        turned = flat.reshape(2, 2)
        np.testing.assert_allclose(f(turned, self.x), expected(turned, self.x), rtol=1e-6)

    def test_trees(self):
        def model(params, x):
            return layer(params["w"], x) + params["b"]

        f = hop.jit(model, constant_argnames="params")
        params = {"w": self.w, "b": hop.asarray(1.0)}
        for _ in range(2):
            np.testing.assert_allclose(f(params, self.x), expected(self.w, self.x) + 1, rtol=1e-6)
        self.assertEqual(f.kept()["made"], 1)

    def test_what_is_closed_over_is_constant(self):
        w = self.w
        f = hop.jit(lambda x: layer(w, x))
        for _ in range(3):
            np.testing.assert_allclose(f(self.x), expected(w, self.x), rtol=1e-6)
        self.assertEqual(f.kept()["made"], 1)
        w[0, 0] = 5.0
        np.testing.assert_allclose(f(self.x), expected(w, self.x), rtol=1e-6)
        self.assertEqual(f.kept()["made"], 2)

    def test_memory_of_others(self):
        memory = np.array([[3.0, 0.5], [4.0, 2.0]], dtype=np.float32)
        w = hop.asarray(memory, copy=False)
        f = hop.jit(lambda w, x: layer(w, x), constant_argnames="w")
        for k in range(1, 4):
            memory[0, 0] = k
            np.testing.assert_allclose(f(w, self.x), expected(memory, self.x), rtol=1e-6)
        self.assertEqual(f.kept()["made"], 3)
        f.refresh()
        for _ in range(3):
            np.testing.assert_allclose(f(w, self.x), expected(memory, self.x), rtol=1e-6)
        self.assertEqual(f.kept()["made"], 4)
        memory[0, 0] = 9
        f.refresh()
        np.testing.assert_allclose(f(w, self.x), expected(memory, self.x), rtol=1e-6)
        self.assertEqual(f.kept()["made"], 5)

    def test_memory_that_others_see(self):
        f = hop.jit(lambda w, x: layer(w, x), constant_argnames="w")
        w = self.w + 0
        seen = np.asarray(w)
        for k in range(1, 4):
            seen[0, 0] = k
            np.testing.assert_allclose(f(w, self.x), expected(seen, self.x), rtol=1e-6)
        self.assertEqual(f.kept()["made"], 3)
        seen[0, 0] = 8
        now = expected(seen, self.x)
        del seen
        for _ in range(3):
            np.testing.assert_allclose(f(w, self.x), now, rtol=1e-6)
        self.assertEqual(f.kept()["made"], 4)
        taken = np.from_dlpack(w)
        made = f.kept()["made"]
        f(w, self.x)
        f(w, self.x)
        self.assertEqual(f.kept()["made"], made + 2)
        del taken
        f(w, self.x)
        f(w, self.x)
        self.assertEqual(f.kept()["made"], made + 3)

    def test_what_is_not_constant(self):
        said = r"(?s)test_once\.py:\d+.*once.*%x is not marked constant"
        with self.assertRaisesRegex(hop.InvalidError, said):
            hop.jit(lambda w, x: normalised(w * x[0]), constant_argnames="w")(self.w, self.x)
        with self.assertRaisesRegex(hop.InvalidError, "w is not marked constant"):
            hop.jit(lambda w, x: layer(w, x))(self.w, self.x)

        def steps(w, n):
            return hop.fori_loop(0, n, lambda i, c: normalised(c), w)

        with self.assertRaisesRegex(hop.InvalidError, "in each step of fori_loop"):
            hop.jit(steps, constant_argnames="w")(self.w, 3)
        for wrong in ({"donate_argnames": "w"}, {"mut": "w"}):
            with self.assertRaises(hop.InvalidError):
                hop.jit(layer, constant_argnames="w", **wrong)

    def test_otherwise_its_body(self):
        soft = hop.region("once", otherwise="body")(lambda w: w * w)
        f = hop.jit(lambda w, x: soft(w) @ x)
        want = (np.asarray(self.w) ** 2) @ np.asarray(self.x)
        np.testing.assert_allclose(f(self.w, self.x), want, rtol=1e-6)
        self.assertEqual(f.kept()["made"], 0)

    def test_gradients_go_through(self):
        def loss(w, x):
            return hop.sum(layer(w, x) ** 2)

        def plain(w, x):
            return hop.sum((x @ (w / hop.sqrt(hop.sum(w * w, axis=0)))) ** 2)

        want = hop.grad(plain)(self.w, self.x)
        np.testing.assert_allclose(hop.grad(loss)(self.w, self.x), want, rtol=1e-5)
        for constant in ("w", ()):
            g = hop.jit(hop.grad(loss), constant_argnames=constant)
            for _ in range(2):
                np.testing.assert_allclose(g(self.w, self.x), want, rtol=1e-5)
        by_x = hop.jit(hop.grad(loss, argnums=1), constant_argnums=0)
        want = hop.grad(plain, argnums=1)(self.w, self.x)
        for _ in range(2):
            np.testing.assert_allclose(by_x(self.w, self.x), want, rtol=1e-5)
        self.assertEqual(by_x.kept()["made"], 1)

    def test_lanes_and_loops(self):
        xs = hop.asarray([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        f = hop.jit(lambda w, xs: hop.vmap(lambda x: layer(w, x))(xs), constant_argnames="w")
        g = hop.jit(lambda w, xs: hop.scan(lambda c, x: (c, layer(w, x)), 0.0, xs)[1], constant_argnames="w")
        for made in (f, g):
            for _ in range(2):
                np.testing.assert_allclose(made(self.w, xs), expected(self.w, xs), rtol=1e-5)
            self.assertEqual(made.kept(), {"values": 1, "bytes": 16, "made": 1})

    def test_without_jit(self):
        np.testing.assert_allclose(layer(self.w, self.x), expected(self.w, self.x), rtol=1e-6)
        np.testing.assert_allclose(
            hop.vmap(layer, in_axes=(None, 0))(self.w, hop.asarray([[1.0, 2.0]])), [expected(self.w, self.x)],
            rtol=1e-6,
        )

    def test_threads(self):
        f = hop.jit(lambda w, x: layer(w, x), constant_argnames="w")
        failures = []

        def work(scale):
            w = self.w * scale + scale
            want = expected(w, self.x)
            for _ in range(100):
                if not np.allclose(f(w, self.x), want):
                    failures.append(scale)

        threads = [threading.Thread(target=work, args=(k + 1.0,)) for k in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(failures, [])

    def test_texts(self):
        f = hop.jit(layer, constant_argnames="w")
        self.assertIn("kept from run to run: 1", f.explain(self.w, self.x))
        self.assertIn("int layer_init(const float *w, ", f.c(self.w, self.x))
        with self.assertRaisesRegex(hop.InvalidError, "layer_init|NAME_init"):
            f.export("/nonexistent", self.w, self.x)


if __name__ == "__main__":
    unittest.main()
