"""hop.Object: what programs give back is what they were given; kinds; refusals; transforms; lifetimes."""

import copy
import gc
import pickle
import threading
import unittest
import weakref

import hop


class Thing:
    pass


def thing(kind="thing"):
    return hop.Object(Thing(), kind=kind)


class HandedOn(unittest.TestCase):
    def setUp(self):
        self.a, self.b = thing(), thing()

    def test_itself(self):
        value = Thing()
        x = hop.Object(value, kind="some kind")
        self.assertIs(x.value, value)
        self.assertEqual((x.kind, x.shape, str(x.dtype)), ("some kind", (), 'object "some kind"'))
        self.assertIs(x.dtype, hop.Object(3, kind="some kind").dtype)
        self.assertIn("kind='some kind'", repr(x))
        self.assertEqual(x, hop.Object(value, kind="some kind"))
        self.assertNotEqual(x, hop.Object(value, kind="another"))
        self.assertNotEqual(self.a, self.b)
        self.assertEqual(len({x, hop.Object(value, kind="some kind")}), 1)
        self.assertIs(copy.copy(x), x)
        self.assertIs(copy.deepcopy([x])[0], x)

    def test_branches(self):
        f = hop.jit(lambda p, a, b: hop.cond(p, lambda a, b: a, lambda a, b: b, a, b))
        for a, b in ((self.a, self.b), (self.b, self.a)):
            self.assertIs(f(True, a, b).value, a.value)
            self.assertIs(f(False, a, b).value, b.value)

    def test_loops(self):
        a, b = self.a, self.b
        f = hop.jit(lambda a, b, n: hop.fori_loop(0, n, lambda i, c: (c[1], c[0]), (a, b)))
        self.assertEqual(f(a, b, 3), (b, a))
        step = lambda c: (c[1], c[0], c[2] + 1)  # noqa: E731
        g = hop.jit(lambda a, b, n: hop.while_loop(lambda c: c[2] < n, step, (a, b, 0)))
        self.assertEqual(g(a, b, 2)[:2], (a, b))
        h = lambda a, xs: hop.scan(lambda c, x: ((c[0], c[1] + x), x), (a, 0.0), xs)  # noqa: E731
        for run in (h, hop.jit(h)):
            (found, total), _ = run(a, hop.arange(4.0))
            self.assertEqual((found, total.item()), (a, 6.0))

    def test_plain_control_flow(self):
        @hop.jit
        def f(p, a, b):
            if p > 0:
                t = a
            else:
                t = b
            return t

        self.assertEqual((f(1, self.a, self.b), f(-1, self.a, self.b)), (self.a, self.b))

    def test_from_outside(self):
        held = [self.a]
        f = hop.jit(lambda p: hop.cond(p, lambda: held[0], lambda: self.b))
        self.assertEqual((f(True), f(False)), (self.a, self.b))
        held[0] = thing()
        self.assertEqual(f(True), held[0])

    def test_trees_and_nesting(self):
        inner = hop.jit(lambda p, ts: hop.cond(p, lambda: ts["a"], lambda: ts["b"]))
        outer = hop.jit(lambda ts, x: (inner(x > 0, ts), x))
        ts = {"a": self.a, "b": self.b}
        self.assertEqual(outer(ts, 1.0)[0], self.a)
        self.assertEqual(outer(ts, -1.0)[0], self.b)

    def test_texts(self):
        f = hop.read(
            'fn @main(%t: object "thing", %x: f32[]) -> (object "thing", f32[]) {\n'
            "  return %t, %x\n"
            "}\n"
        )
        value = Thing()
        self.assertIs(f(value, 1.0)[0].value, value)  # wrapped by the kind of the parameter
        self.assertEqual(f(self.a, 1.0)[0], self.a)
        with self.assertRaisesRegex(hop.InvalidError, 'expected object "thing", found object "other"'):
            f(thing("other"), 1.0)
        with self.assertRaisesRegex(hop.InvalidError, r'expected object "thing", found i64\[\]'):
            f(hop.asarray(3), 1.0)
        g = hop.jit(lambda t, x: (t, x + 1))
        self.assertIn('%t: object "thing"', g.text(self.a, 1.0))
        self.assertIn("void *t, double x, void **", g.c(self.a, 1.0))


class Programs(unittest.TestCase):
    def test_one_for_all_objects_of_a_kind(self):
        captures = []

        @hop.jit
        def f(t, x):
            captures.append(1)
            return t, x + 1

        for i in range(5):
            value = Thing()
            self.assertIs(f(hop.Object(value, kind="k"), float(i))[0].value, value)
        self.assertEqual(len(captures), 1)
        f(thing("l"), 1.0)
        self.assertEqual(len(captures), 2)
        for n in (2, 3, 4, 5):
            self.assertEqual(f(thing("k"), hop.ones(n))[1].shape, (n,))

    def test_kinds_do_not_mix(self):
        with self.assertRaisesRegex(hop.InvalidError, 'object "a"'):
            hop.jit(lambda p, a, b: hop.cond(p, lambda: a, lambda: b))(True, thing("a"), thing("b"))

    def test_addresses(self):
        x = hop.Object(4096, kind="an address", address=True)
        self.assertEqual(hop.jit(lambda x: x)(x).value, 4096)
        with self.assertRaisesRegex(hop.InvalidError, "are addresses, and this is a Python object"):
            hop.Object("text", kind="an address")
        with self.assertRaisesRegex(hop.InvalidError, "are Python objects, and this is an address"):
            thing("python's")
            hop.Object(4096, kind="python's", address=True)
        with self.assertRaises(TypeError):
            hop.Object("text", kind="an address", address=True)
        with self.assertRaisesRegex(hop.InvalidError, "found NULL"):
            hop.Object(0, kind="an address", address=True)


class Transforms(unittest.TestCase):
    def setUp(self):
        self.t = thing()

    def test_gradients(self):
        def f(x, t):
            (_, y), _ = hop.scan(lambda c, k: ((c[0], c[1] * k), None), (t, x), hop.arange(1.0, 4.0))
            return y

        self.assertEqual(hop.grad(f)(2.0, self.t).item(), 6.0)
        self.assertEqual(hop.jit(hop.grad(f))(2.0, self.t).item(), 6.0)
        self.assertEqual(hop.jit(hop.grad(hop.checkpoint(f)))(2.0, self.t).item(), 6.0)
        (value, aux), slope = hop.value_and_grad(lambda x, t: (x * 2, t), has_aux=True)(1.0, self.t)
        self.assertEqual((value.item(), aux, slope.item()), (2.0, self.t, 2.0))
        with self.assertRaisesRegex(hop.InvalidError, "derivatives need floats"):
            hop.grad(lambda t, x: x)(self.t, 1.0)

    def test_lanes(self):
        f = hop.vmap(lambda t, x: (t, x + 1))
        for g in (f, hop.jit(f), hop.vmap(lambda t, x: (t, x + 1), in_axes=(None, 0), out_axes=(None, 0))):
            t, xs = g(self.t, hop.arange(3.0))
            self.assertEqual((t, xs.tolist()), (self.t, [1.0, 2.0, 3.0]))
        choose = lambda p, a, b: hop.cond(p, lambda: a, lambda: b)  # noqa: E731
        with self.assertRaisesRegex(hop.InvalidError, "one for all lanes"):
            hop.vmap(choose, in_axes=(0, None, None))(hop.asarray([True, False]), self.t, thing())

    def test_a_changing_object_in_lanes_that_stop(self):
        def f(n, a, b):
            return hop.fori_loop(0, n, lambda i, c: (c[1], c[0]), (a, b))

        with self.assertRaisesRegex(hop.InvalidError, "lanes that stop would hold other objects"):
            hop.vmap(f, in_axes=(0, None, None))(hop.asarray([1, 2]), self.t, thing())


class Refused(unittest.TestCase):
    def test_everywhere_else(self):
        t = thing()
        for f in (
            lambda t: t + 1,
            lambda t: t * t,
            hop.sin,
            lambda t: hop.where(True, t, t),
            lambda t: hop.stack([t, t]),
            lambda t: t.astype(hop.float32),
            lambda t: hop.reshape(t, (1,)),
            lambda t: hop.print("{}", t),
            lambda t: hop.scan(lambda c, x: (c, c), t, hop.arange(3.0)),
            lambda t: hop.map(lambda x: t, hop.arange(3.0)),
            lambda t: hop.sum(t),
        ):
            for run in (f, hop.jit(f)):
                with self.assertRaisesRegex(hop.InvalidError, 'object "thing"'):
                    run(t)

    def test_elements(self):
        t = thing()
        for f in (lambda t: t.tolist(), lambda t: t.item(), bool, float, memoryview):
            with self.assertRaisesRegex(hop.InvalidError, 'found object "thing"'):
                f(t)
        for f in (lambda: t[0], lambda: list(t), lambda: pickle.dumps(t), lambda: hop.save("x.npy", t)):
            with self.assertRaises((hop.InvalidError, TypeError, IndexError)):
                f()
        with self.assertRaisesRegex(hop.InvalidError, "only its host has one"):
            hop.jit(lambda t: t).lower(t).export("nowhere")
        with self.assertRaisesRegex(hop.InvalidError, "is an object"):
            hop.jit(lambda t, x: (t, x), donate_argnums=0)(t, 1.0)

    def test_kinds(self):
        for kind in ("", 'a"b', "a\\b", "a\nb", "x" * 101):
            with self.assertRaisesRegex(hop.InvalidError, "1 to 100 characters"):
                hop.Object(1, kind=kind)
        with self.assertRaisesRegex(TypeError, "Object: kind: expected a text"):
            hop.Object(1, kind=3)
        with self.assertRaisesRegex(TypeError, "Object: value: expected something that is no array"):
            hop.Object(hop.ones(3))


class Log(list):
    pass


class Operators(unittest.TestCase):
    def setUp(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("NumPy is not installed")

        @hop.operator('(t: object "log", x: f32[]) -> f32[]')
        def note(t, x):
            if not isinstance(t, Log):
                raise TypeError("expected a log")
            t.append(float(x))
            return numpy.float32(len(t) * x)

        @hop.operator('(reads t: object "log") -> i64[]')
        def count(t):
            return numpy.int64(len(t))

        self.note, self.count = note, count
        self.a, self.b = hop.Object(Log(), kind="log"), hop.Object(Log(), kind="log")

    def test_at_once(self):
        self.assertEqual(self.note(self.a, 2.0).item(), 2.0)
        self.assertEqual(self.count(self.a).item(), 1)
        plain = Log()
        self.note(plain, 3.0)  # wrapped by the kind of the parameter
        self.assertEqual(plain, [3.0])

    def test_chosen_then_both_written(self):
        note, count = self.note, self.count

        def f(p, a, b, x):
            c = hop.cond(p, lambda: a, lambda: b)
            before = count(a)
            x = note(b, note(a, note(c, x)))
            return before, count(a), count(b), count(c), x

        g = hop.jit(f)
        for p, logs, found in (
            (True, ([1.0, 1.0], [2.0]), [0, 2, 1, 2, 2.0]),
            (False, ([1.0], [1.0, 1.0]), [0, 1, 2, 2, 2.0]),
        ):
            a, b = hop.Object(Log(), kind="log"), hop.Object(Log(), kind="log")
            self.assertEqual([x.item() for x in g(p, a, b, 1.0)], found)
            self.assertEqual((a.value, b.value), logs)

    def test_loops_and_lanes(self):
        note, count = self.note, self.count

        @hop.jit
        def f(t, xs):
            return hop.scan(lambda c, x: ((c[0], c[1] + note(c[0], x)), count(c[0])), (t, 0.0), xs)

        (t, total), counts = f(self.a, hop.arange(4.0))
        self.assertEqual((t, total.item(), counts.tolist()), (self.a, 20.0, [1, 2, 3, 4]))
        self.assertEqual(self.a.value, [0.0, 1.0, 2.0, 3.0])
        self.assertEqual(hop.vmap(lambda x: note(self.b, x))(hop.arange(3.0)).tolist(), [0.0, 2.0, 6.0])
        self.assertEqual(self.b.value, [0.0, 1.0, 2.0])

    def test_gradients(self):
        self.note.defvjp(None, lambda needs, ct: (None, ct * 2))
        self.assertEqual(hop.grad(lambda x: self.note(self.a, x) * 3)(2.0).item(), 6.0)
        self.assertEqual(hop.jit(hop.grad(lambda x, t: self.note(t, x) * 3))(2.0, self.a).item(), 6.0)
        self.assertEqual(self.a.value, [2.0, 2.0])

    def test_wrong_ones(self):
        with self.assertRaisesRegex(hop.InvalidError, r'\(t\): expected object "log", found object "other"'):
            self.note(hop.Object(1, kind="other"), 1.0)
        with self.assertRaisesRegex(hop.InvalidError, r'\(t\): expected object "log", found i64'):
            self.note(hop.asarray(1), 1.0)
        with self.assertRaisesRegex(hop.InvalidError, "x: expected"):
            self.note(self.a, "text")
        with self.assertRaisesRegex(hop.InvalidError, "made outside of the captured function"):
            hop.jit(lambda x: self.note(Log(), x))(1.0)
        with self.assertRaisesRegex(hop.InvalidError, "are one object, which the program writes"):
            hop.jit(lambda a, b, x: self.note(a, x) + self.note(b, x))(self.a, self.a, 1.0)
        with self.assertRaisesRegex(TypeError, "expected a log"):
            hop.jit(lambda t, x: self.note(t, x))(hop.Object("text", kind="log"), 1.0)
        with self.assertRaisesRegex(hop.InvalidError, "check_operator: .* takes an object"):
            hop.check_operator(self.note, (self.a, 1.0))
        for signature in ('(x: f32[]) -> object "log"', '(mut t: object "log")', '(t: object "log"?)'):
            with self.assertRaises(hop.InvalidError):
                hop.operator(signature)(lambda *xs: None)

    def test_functions_of_c(self):
        import ctypes

        run = ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_int64)
        )

        @run
        def add(call, arrays, sizes):
            counter = ctypes.c_double.from_address(arrays[0])
            counter.value += ctypes.c_double.from_address(arrays[1]).value
            ctypes.c_double.from_address(arrays[2]).value = counter.value
            return 0

        count_up = hop.operator('(t: object "c counter", x: f64[]) -> f64[]', name="test_count_up", c=add)
        counter = ctypes.c_double(1.5)
        t = hop.Object(ctypes.addressof(counter), kind="c counter", address=True)
        f = hop.jit(lambda t, x: count_up(t, x) + count_up(t, x))
        self.assertEqual(f(t, hop.asarray(2.0, dtype=hop.float64)).item(), 3.5 + 5.5)
        self.assertEqual(counter.value, 5.5)


class Lifetimes(unittest.TestCase):
    def test_nothing_is_kept(self):
        f = hop.jit(lambda t, x: (t, x))
        value = Thing()
        gone = weakref.ref(value)
        result = f(hop.Object(value, kind="thing"), 1.0)[0]
        del value
        gc.collect()
        self.assertIsNotNone(gone())
        del result
        gc.collect()
        self.assertIsNone(gone())

    def test_threads(self):
        f = hop.jit(lambda p, a, b: hop.cond(p, lambda: a, lambda: b))
        wrong = []

        def work():
            for i in range(50):
                a, b = thing(), thing()
                if f(i % 2 == 0, a, b) != (b if i % 2 else a):
                    wrong.append(i)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()
