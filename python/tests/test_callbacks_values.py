"""hop.pure_callback and hop.io_callback: what they get and give, vmap_method, effects, mistakes; JAX's
signatures."""

import gc
import inspect
import unittest
import weakref

import hop


def struct(*shape, dtype=hop.float32):
    return hop.ShapeDtypeStruct(shape, dtype)


def doubled(x):
    return hop.asarray([2.0 * v for v in x.tolist()])


class Pure(unittest.TestCase):
    def test_signatures(self):
        names = list(inspect.signature(hop.pure_callback).parameters)
        self.assertEqual(names[:5], ["callback", "result_shape_dtypes", "args", "sharding", "vmap_method"])
        names = list(inspect.signature(hop.io_callback).parameters)
        self.assertEqual(names, ["callback", "result_shape_dtypes", "args", "sharding", "ordered", "kwargs"])

    def test_everywhere(self):
        f = lambda x: hop.pure_callback(doubled, struct(2), x) + 1
        x = hop.asarray([1.0, 2.0])
        for call in (f, hop.jit(f), hop.jit(f, portable=True), hop.jit(lambda x: hop.jit(f)(x))):
            self.assertEqual(call(x).tolist(), [3.0, 5.0])
        with hop.disable_jit():
            self.assertEqual(hop.jit(f)(x).tolist(), [3.0, 5.0])

    def test_results_that_do_not_lie_row_by_row(self):
        x = hop.asarray([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
        f = hop.jit(lambda x: hop.pure_callback(lambda v: v.T, struct(3, 2), x))
        self.assertEqual(f(x).tolist(), [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]])
        f = hop.jit(lambda x: hop.pure_callback(lambda v: v[::-1, ::2], struct(2, 2), x))
        self.assertEqual(f(x).tolist(), [[3.0, 5.0], [0.0, 2.0]])

    def test_trees(self):
        seen = []

        def back(tree, word, *, scale):
            seen.append((type(tree["a"]), word))
            return {"sum": tree["a"] + tree["b"][0], "more": (scale, [True])}

        wanted = {"sum": struct(2), "more": (struct(), [struct(dtype=hop.bool)])}
        f = lambda x: hop.pure_callback(back, wanted, {"a": x, "b": [x * 2]}, "word", scale=x[0])
        for call in (f, hop.jit(f)):
            out = call(hop.asarray([1.0, 2.0]))
            self.assertEqual(out["sum"].tolist(), [3.0, 6.0])
            self.assertEqual((out["more"][0].item(), out["more"][1][0].item()), (1.0, True))
        self.assertEqual(seen, [(hop.Array, "word")] * 2)

    def test_arrays_as_types(self):
        f = hop.jit(lambda x: hop.pure_callback(lambda x: x, x, x))
        self.assertEqual(f(hop.asarray([1.0, 2.0])).tolist(), [1.0, 2.0])
        self.assertEqual(hop.jit(lambda x: hop.pure_callback(lambda x: 3.0, 0.0, x))(1.0).item(), 3.0)

    def test_sizes(self):
        f = hop.jit(lambda x: hop.pure_callback(doubled, struct(x.shape[0]), x))
        for n in (2, 3, 4, 5):
            self.assertEqual(f(hop.ones(n)).tolist(), [2.0] * n)

    def test_in_loops(self):
        @hop.jit
        def f(xs):
            return hop.scan(lambda c, x: (c + hop.pure_callback(lambda v: v * 2, struct(), x), c), 0.0, xs)

        last, every = f(hop.asarray([1.0, 2.0, 3.0]))
        self.assertEqual((last.item(), every.tolist()), (12.0, [0.0, 2.0, 6.0]))

    def test_calls_that_nobody_needs(self):
        seen = []
        hop.jit(lambda x: (hop.pure_callback(seen.append, struct(), x), x)[1])(1.0)
        self.assertEqual(seen, [])

    def test_vmap(self):
        shapes = []

        def back(x, y):
            shapes.append((x.shape, y.shape))
            return x * y

        def f(method):
            return lambda x, y: hop.pure_callback(back, struct(), x, y, vmap_method=method)

        x, y = hop.asarray([1.0, 2.0, 3.0]), hop.asarray(2.0)
        for method, wanted in (
            ("sequential", [((), ())] * 3), ("sequential_unrolled", [((), ())] * 3),
            ("expand_dims", [((3,), (1,))]), ("broadcast_all", [((3,), (3,))]),
        ):  # fmt: skip
            for call in (
                hop.vmap(f(method), in_axes=(0, None)),
                hop.jit(hop.vmap(f(method), in_axes=(0, None))),
            ):
                shapes.clear()
                self.assertEqual(call(x, y).tolist(), [2.0, 4.0, 6.0])
                self.assertEqual(shapes, wanted)
        shapes.clear()
        nested = hop.vmap(hop.vmap(f("broadcast_all"), in_axes=(0, None)), in_axes=(None, 0))
        self.assertEqual(nested(x, x[:2]).tolist(), [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]])
        self.assertEqual(shapes, [((2, 3), (2, 3))])

    def test_vmap_without_a_method(self):
        with self.assertRaisesRegex(hop.InvalidError, "vmap_method"):
            hop.vmap(lambda x: hop.pure_callback(lambda v: v, struct(), x))(hop.ones(3))

    def test_no_derivatives(self):
        f = lambda x: hop.pure_callback(lambda v: v * v, struct(), x)
        for call in (lambda: hop.grad(f)(1.0), lambda: hop.jvp(f, (1.0,), (1.0,))):
            with self.assertRaisesRegex(hop.InvalidError, "no derivatives.*custom_vjp"):
                call()
        g = hop.custom_vjp(f)
        g.defvjp(lambda x: (f(x), x), lambda x, ct: (2 * x * ct,))
        self.assertEqual(hop.grad(g)(3.0).item(), 6.0)
        h = hop.custom_jvp(f)
        h.defjvp(lambda primals, tangents: (f(*primals), 2 * primals[0] * tangents[0]))
        self.assertEqual(hop.jit(hop.grad(h))(3.0).item(), 6.0)

    def test_wrong_results(self):
        for given, said in (
            (None, "None"), ("a", "'a'"), (hop.ones(3), "f32\\[3\\], expected f32\\[2\\]"),
            (hop.ones(2, dtype=hop.float64), "f64\\[2\\], expected f32\\[2\\]"), ((1.0, 2.0), "structure"),
            (object(), "object"), (1.0, "f32\\[\\], expected f32\\[2\\]"),
        ):  # fmt: skip
            f = lambda x: hop.pure_callback(lambda v: given, struct(2), x)
            for call in (f, hop.jit(f)):
                with self.assertRaisesRegex(hop.InvalidError, "pure_callback.*" + said):
                    call(hop.ones(2))

    def test_exceptions(self):
        def fail(x):
            raise LookupError("here")

        f = lambda x: hop.pure_callback(fail, struct(), x)
        for call in (f, hop.jit(f)):
            with self.assertRaisesRegex(LookupError, "here"):
                call(1.0)

    def test_wrong_uses(self):
        with self.assertRaisesRegex(hop.InvalidError, "callback: expected a function, found 3"):
            hop.pure_callback(3, struct())
        with self.assertRaisesRegex(hop.InvalidError, "vmap_method: expected None or one of"):
            hop.pure_callback(doubled, struct(2), hop.ones(2), vmap_method="fast")
        with self.assertRaisesRegex(hop.InvalidError, "a shape and a dtype"):
            hop.pure_callback(doubled, "f32", hop.ones(2))

    def test_lifetimes(self):
        def make():
            def back(x):
                return x

            return weakref.ref(back), hop.jit(lambda x: hop.pure_callback(back, x, x))

        gone, f = make()
        f(1.0)
        gc.collect()
        self.assertEqual(f(2.0).item(), 2.0)
        del f
        gc.collect()
        self.assertIsNone(gone())

    def test_what_is_kept(self):
        kept = []
        f = hop.jit(
            lambda x: hop.fori_loop(
                0, 3, lambda i, c: hop.io_callback(lambda v: (kept.append(v), v + 1)[1], c, c), x
            )
        )
        f(hop.zeros(100))
        self.assertEqual([k[50].item() for k in kept], [0.0, 1.0, 2.0])


class InputOutput(unittest.TestCase):
    def test_every_call_is_made(self):
        numbers = iter(range(100))
        f = hop.jit(lambda x: (hop.io_callback(lambda: next(numbers), struct(dtype=hop.int32)), x)[1])
        f(1.0)
        f(1.0)
        self.assertEqual(next(numbers), 2)

    def test_order(self):
        seen = []

        @hop.jit
        def f(x):
            hop.io_callback(lambda v: seen.append(("a", v.item())), None, x)
            hop.debug_callback(lambda v: seen.append(("b", v.item())), x)
            y = hop.io_callback(lambda v: (seen.append(("c", v.item())), v)[1], x, x, ordered=True)
            hop.fori_loop(
                0, 2, lambda i, c: (hop.io_callback(lambda i: seen.append(("d", i.item())), None, i), c)[1], x
            )
            return y

        f(1.0)
        self.assertEqual(seen, [("a", 1.0), ("b", 1.0), ("c", 1.0), ("d", 0), ("d", 1)])

    def test_vmap(self):
        seen = []
        f = lambda x: hop.io_callback(lambda v: (seen.append(v.item()), v)[1], struct(), x)
        self.assertEqual(hop.vmap(f)(hop.asarray([1.0, 2.0])).tolist(), [1.0, 2.0])
        self.assertEqual(seen, [1.0, 2.0])
        f = lambda x: hop.io_callback(lambda v: v, struct(), x, ordered=True)
        with self.assertRaisesRegex(hop.InvalidError, "vmap"):
            hop.vmap(f)(hop.asarray([1.0, 2.0]))

    def test_wrong_uses(self):
        with self.assertRaisesRegex(hop.InvalidError, "ordered: expected True or False"):
            hop.io_callback(print, None, ordered="yes")
        with self.assertRaisesRegex(hop.InvalidError, "io_callback.*result"):
            hop.jit(lambda x: hop.io_callback(lambda v: v, None, x))(1.0)
        with self.assertRaisesRegex(hop.InvalidError, "no derivatives"):
            hop.grad(lambda x: hop.io_callback(lambda v: v, struct(), x))(1.0)


if __name__ == "__main__":
    unittest.main()
