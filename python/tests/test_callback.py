"""hop.debug_callback: what a function gets, how often and when; exceptions; lifetimes; threads."""

import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
import unittest
import weakref

import hop
from hop import _callback, _core


class Calls(unittest.TestCase):
    def setUp(self):
        self.seen = []
        self.note = lambda *xs: self.seen.append(tuple(x.tolist() for x in xs))

    def test_at_once(self):
        hop.debug_callback(self.note, hop.asarray([1.0, 2.0]), 3)
        self.assertEqual(self.seen, [([1.0, 2.0], 3)])

    def test_every_run(self):
        def f(x):
            hop.debug_callback(self.note, x, x * 2)
            return x + 1

        g = hop.jit(f)
        self.assertEqual(g(1.0).item(), 2.0)
        self.assertEqual(g(2.0).item(), 3.0)
        self.assertEqual(self.seen, [(1.0, 2.0), (2.0, 4.0)])
        self.assertIn("{effects = io}", g.text(1.0))
        self.assertIn("context->callback(", g.c(1.0))

    def test_portable(self):
        def f(x):
            hop.debug_callback(self.note, x)
            return x

        hop.jit(f, portable=True)(hop.asarray([1.0, 2.0]))
        self.assertEqual(self.seen, [([1.0, 2.0],)])
        g = hop.jit(f)
        g.lower(hop.asarray(1.0)).function.interpret(hop.asarray(1.0))
        self.assertEqual(self.seen[1:], [(1.0,)])

    def test_unused_values_are_computed(self):
        @hop.jit
        def f(x):
            hop.debug_callback(self.note, hop.sum(x) * 10)
            return x

        f(hop.asarray([1.0, 2.0]))
        self.assertEqual(self.seen, [(30.0,)])

    def test_in_loops(self):
        @hop.jit
        def f(xs):
            def step(c, x):
                hop.debug_callback(self.note, c, x)
                return c + x, None

            c, _ = hop.scan(step, 0.0, xs)

            def body(c):
                hop.debug_callback(self.note, c)
                return c / 2

            return hop.fori_loop(
                0,
                2,
                lambda i, c: (hop.debug_callback(self.note, i), c)[1],
                hop.while_loop(lambda c: c > 2.0, body, c),
            )

        self.assertEqual(f(hop.asarray([1.0, 2.0, 3.0])).item(), 1.5)
        self.assertEqual(self.seen, [(0.0, 1.0), (1.0, 2.0), (3.0, 3.0), (6.0,), (3.0,), (0,), (1,)])

    def test_loops_outside_of_jit(self):
        hop.scan(lambda c, x: (hop.debug_callback(self.note, x), (c, x))[1], 0.0, hop.asarray([1.0, 2.0]))
        self.assertEqual(self.seen, [(1.0,), (2.0,)])

    def test_gradients_call_once(self):
        def f(x):
            y = x * x
            hop.debug_callback(self.note, y)
            return y * y

        for transformed, expected in (
            (hop.grad(f), 32.0),
            (hop.jit(hop.grad(f)), 32.0),
            (hop.grad(hop.jit(f)), 32.0),
            (hop.grad(hop.checkpoint(f)), 32.0),
            (hop.grad(hop.grad(f)), 48.0),
        ):
            self.seen.clear()
            self.assertEqual(transformed(2.0).item(), expected)
            self.assertEqual(self.seen, [(4.0,)])
        self.seen.clear()
        value, tangent = hop.jvp(f, (2.0,), (1.0,))
        self.assertEqual((value.item(), tangent.item(), self.seen), (16.0, 32.0, [(4.0,)]))

    def test_schedules_do_not_repeat(self):
        def f(x, schedule):
            def step(c, y):
                hop.debug_callback(self.note, y)
                return c * y, None

            return hop.scan(step, x, hop.asarray([1.0, 2.0, 3.0, 4.0]), schedule=schedule)[0]

        for schedule in (None, "recompute", "sqrt", "every 2"):
            self.seen.clear()
            self.assertEqual(hop.grad(lambda x: f(x, schedule))(1.0).item(), 24.0)
            self.assertEqual(self.seen, [(1.0,), (2.0,), (3.0,), (4.0,)])

    def test_vmap_calls_for_each_lane(self):
        def f(x, y):
            hop.debug_callback(self.note, x, y)
            return x + y

        hop.vmap(f, in_axes=(0, None))(hop.asarray([1.0, 2.0]), 5.0)
        self.assertEqual(self.seen, [(1.0, 5.0), (2.0, 5.0)])
        self.seen.clear()

        def count(n):
            return hop.while_loop(lambda i: i > 0, lambda i: (hop.debug_callback(self.note, i), i - 1)[1], n)

        hop.jit(hop.vmap(count))(hop.asarray([2, 0, 3]))
        self.assertEqual(self.seen, [(2,), (3,), (1,), (2,), (1,)])
        self.seen.clear()
        hop.vmap(lambda x: (hop.debug_callback(self.note), x)[1])(hop.asarray([1.0, 2.0, 3.0]))
        self.assertEqual(self.seen, [(), (), ()])

    def test_vmap_calls_once_for_all_lanes(self):
        def f(x, y):
            hop.debug_callback(self.note, x, y, lanes="together")
            return x + y

        x = hop.asarray([1.0, 2.0])
        hop.jit(hop.vmap(f, in_axes=(0, None)))(x, 5.0)
        self.assertEqual(self.seen, [([1.0, 2.0], [5.0])])
        self.seen.clear()
        f(1.0, 2.0)
        hop.jit(f)(1.0, 2.0)
        hop.jit(hop.grad(f))(1.0, 2.0)
        self.assertEqual(self.seen, [(1.0, 2.0)] * 3)
        self.seen.clear()
        hop.jit(hop.vmap(hop.vmap(f)))(hop.ones((2, 3)), hop.zeros((2, 3)))
        self.assertEqual(self.seen, [([[1.0] * 3] * 2, [[0.0] * 3] * 2)])
        self.seen.clear()
        hop.jit(hop.grad(lambda v: hop.sum(hop.vmap(hop.checkpoint(lambda a: f(a, a) ** 2))(v))))(x)
        self.assertEqual(self.seen, [([1.0, 2.0], [1.0, 2.0])])
        self.seen.clear()

        def count(n):
            def step(i):
                hop.debug_callback(self.note, i, lanes="together")
                return i - 1

            return hop.while_loop(lambda i: i > 0, step, n)

        hop.jit(hop.vmap(count))(hop.asarray([2, 0, 3]))
        self.assertEqual(len(self.seen), 3)
        self.assertEqual([lanes[0][2] for lanes in self.seen], [3, 2, 1])
        hop.jit(hop.vmap(count))(hop.asarray([0, 0]))
        self.assertEqual(len(self.seen), 3)
        with self.assertRaisesRegex(ValueError, 'debug_callback: lanes: expected "each" or "together"'):
            hop.debug_callback(self.note, x, lanes="all")

    def test_only_the_branch_taken(self):
        @hop.jit
        def f(p, x):
            return hop.cond(p, lambda x: (hop.debug_callback(self.note, x), x)[1], lambda x: -x, x)

        f(True, 1.0)
        f(False, 2.0)
        self.assertEqual(self.seen, [(1.0,)])

    def test_trees_and_other_values(self):
        got = []

        def f(tree, word, *, scale):
            got.append((tree, word, scale))

        @hop.jit
        def g(x):
            hop.debug_callback(f, {"a": (x, [x * 2, None])}, "loss", scale=x + 1)
            return x

        for call in (g, lambda x: hop.debug_callback(f, {"a": (x, [x * 2, None])}, "loss", scale=x + 1)):
            got.clear()
            call(hop.asarray(1.0))
            (tree, word, scale) = got[0]
            self.assertEqual(
                (tree["a"][0].item(), tree["a"][1][0].item(), tree["a"][1][1], word, scale.item()),
                (1.0, 2.0, None, "loss", 2.0),
            )
            self.assertIsInstance(scale, hop.Array)

    def test_arrays_may_be_kept(self):
        kept = []

        @hop.jit
        def f(xs):
            return hop.scan(
                lambda c, x: (hop.debug_callback(kept.append, c), (c + x, None))[1], hop.zeros(1000), xs
            )[0]

        f(hop.ones((50, 1000)))
        f(hop.zeros((50, 1000)))
        gc.collect()
        self.assertEqual([k[7].item() for k in kept[:50]], [float(i) for i in range(50)])
        self.assertEqual({k[7].item() for k in kept[50:]}, {0.0})

    def test_order_with_prints(self):
        import contextlib
        import io

        out = io.StringIO()

        @hop.jit
        def f(x):
            hop.print("first {}", x)
            hop.debug_callback(lambda v: print("second", v.item()), x)
            hop.print("third {}", x)
            return x

        with contextlib.redirect_stdout(out):
            f(1.0)
        self.assertEqual(out.getvalue(), "first 1\nsecond 1.0\nthird 1\n")

    def test_wrong_uses(self):
        with self.assertRaisesRegex(TypeError, "debug_callback takes a function, found int"):
            hop.debug_callback(3)
        with self.assertRaisesRegex(hop.InvalidError, "predicate has effects"):
            hop.jit(
                lambda x: hop.while_loop(
                    lambda c: (hop.debug_callback(self.note, c), c < 3.0)[1], lambda c: c + 1, x
                )
            )(0.0)


class Nested(unittest.TestCase):
    def test_runs_within_runs(self):
        seen = []
        inner = hop.jit(lambda x: x * 10)

        def back(x):
            seen.append(inner(x).item())
            seen.append(hop.jit(hop.grad(lambda y: y * y))(x).item())
            seen.append(hop.sum(hop.stack([x, x])).item())

        @hop.jit
        def outer(x):
            return hop.fori_loop(0, 2, lambda i, c: (hop.debug_callback(back, c), c + 1)[1], x)

        self.assertEqual(outer(1.0).item(), 3.0)
        self.assertEqual(seen, [10.0, 2.0, 2.0, 20.0, 4.0, 4.0])

    def test_the_same_function_again(self):
        depths = []

        def back(x):
            depths.append(x.item())
            if x.item() < 3:
                f(x + 1)

        @hop.jit
        def f(x):
            hop.debug_callback(back, x)
            return x

        f(0.0)
        self.assertEqual(depths, [0.0, 1.0, 2.0, 3.0])

    def test_callbacks_within_callbacks(self):
        seen = []
        inner = hop.jit(lambda x: (hop.debug_callback(lambda v: seen.append(v.item()), x), x)[1])
        outer = hop.jit(lambda x: (hop.debug_callback(lambda v: inner(v * 2), x), x)[1])
        outer(4.0)
        self.assertEqual(seen, [8.0])

    def test_program_forgotten_while_it_runs(self):
        seen = []

        def back(x):
            f.clear_cache()
            gc.collect()
            seen.append(x.item())

        f = hop.jit(lambda x: hop.fori_loop(0, 3, lambda i, c: (hop.debug_callback(back, c), c + 1)[1], x))
        self.assertEqual(f(0.0).item(), 3.0)
        self.assertEqual(f(0.0).item(), 3.0)
        self.assertEqual(seen, [0.0, 1.0, 2.0] * 2)


class Trouble(Exception):
    pass


class Exceptions(unittest.TestCase):
    def setUp(self):
        def back(x):
            if x.item() == self.bad:
                raise self.error
            self.seen.append(x.item())

        self.seen, self.bad, self.error = [], 2.0, Trouble("two")
        self.run_ = hop.jit(
            lambda x: hop.fori_loop(0, 5, lambda i, c: (hop.debug_callback(back, c), c + 1)[1], x)
        )

    def test_comes_out_as_it_is(self):
        try:
            self.run_(0.0)
            self.fail("nothing was raised")
        except Trouble as error:
            self.assertIs(error, self.error)
            text = "".join(traceback.format_exception(error))
        self.assertIn("raise self.error", text)
        self.assertIn("self.run_(0.0)", text)
        self.assertEqual(self.seen, [0.0, 1.0])

    def test_later_runs_work(self):
        for _ in range(3):
            with self.assertRaises(Trouble):
                self.run_(0.0)
            self.seen.clear()
            self.assertEqual(self.run_(10.0).item(), 15.0)
            self.assertEqual(self.seen, [10.0, 11.0, 12.0, 13.0, 14.0])

    def test_keyboard_interrupt(self):
        self.error = KeyboardInterrupt()
        with self.assertRaises(KeyboardInterrupt):
            self.run_(0.0)
        self.assertEqual(self.run_(10.0).item(), 15.0)

    def test_signal_inside(self):
        seen = []

        def back(x):
            seen.append(x.item())
            if x.item() == 1.0:
                os.kill(os.getpid(), signal.SIGINT)

        f = hop.jit(lambda x: hop.fori_loop(0, 5, lambda i, c: (hop.debug_callback(back, c), c + 1)[1], x))
        with self.assertRaises(KeyboardInterrupt):
            f(0.0)
        self.assertEqual(seen, [0.0, 1.0])
        seen.clear()

        def patient(x):
            try:
                back(x)
            except KeyboardInterrupt:
                seen.append("caught")

        f = hop.jit(lambda x: hop.fori_loop(0, 5, lambda i, c: (hop.debug_callback(patient, c), c + 1)[1], x))
        try:
            f(0.0)
        except KeyboardInterrupt:  # the signal may come to notice only after the function
            self.assertEqual(seen, [0.0, 1.0])
        else:
            self.assertEqual([x for x in seen if x != "caught"], [0.0, 1.0, 2.0, 3.0, 4.0])

    def test_handlers_that_do_not_raise_repeat_nothing(self):
        seen, handled = [], []
        before = signal.signal(signal.SIGINT, lambda *_: handled.append(1))
        try:
            f = hop.jit(
                lambda x: hop.fori_loop(
                    0,
                    4,
                    lambda i, c: (
                        hop.debug_callback(
                            lambda v: (seen.append(v.item()), os.kill(os.getpid(), signal.SIGINT)), c
                        ),
                        c + 1,
                    )[1],
                    x,
                )
            )
            self.assertEqual(f(0.0).item(), 4.0)
        finally:
            signal.signal(signal.SIGINT, before)
        self.assertEqual((seen, bool(handled)), ([0.0, 1.0, 2.0, 3.0], True))

    def test_exceptions_of_nested_runs(self):
        outer = hop.jit(lambda x: (hop.debug_callback(lambda v: self.run_(v), x), x)[1])
        with self.assertRaises(Trouble):
            outer(0.0)
        self.assertEqual(outer(20.0).item(), 20.0)

    def test_donated_arguments(self):
        def fail(x):
            raise Trouble

        f = hop.jit(lambda x: (hop.debug_callback(fail, x), x + 1)[1], donate_argnums=0)
        with self.assertRaises(Trouble):
            f(hop.asarray([1.0, 2.0]))

    def test_arguments_that_do_not_fit(self):
        f = hop.jit(lambda x: (hop.debug_callback(lambda: None, x), x)[1])
        with self.assertRaisesRegex(TypeError, "positional argument"):
            f(1.0)


class Lifetimes(unittest.TestCase):
    def test_released_with_the_program(self):
        def make():
            def back(x):
                return None

            return back, hop.jit(lambda x: (hop.debug_callback(back, x), x + 1)[1])

        back, f = make()
        self.assertEqual(f(1.0).item(), 2.0)
        gone = weakref.ref(back)
        del back
        gc.collect()
        self.assertIsNotNone(gone())
        self.assertEqual(f(2.0).item(), 3.0)
        del f
        gc.collect()
        self.assertIsNone(gone())

    def test_released_without_a_closure(self):
        globals()["_back"] = lambda x: None
        f = hop.jit(lambda x: (hop.debug_callback(_back, x), x + 1)[1])  # noqa: F821
        f(1.0)
        gone = weakref.ref(globals().pop("_back"))
        gc.collect()
        with self.assertRaises(NameError):  # as without jit
            f(1.0)
        self.assertIsNotNone(gone())
        del f
        gc.collect()
        self.assertIsNone(gone())

    def test_cycles_are_collected(self):
        class Holder:
            pass

        h = Holder()
        h.back = lambda x: h
        h.f = hop.jit(lambda x: (hop.debug_callback(h.back, x), x)[1])
        h.f(1.0)
        gone = weakref.ref(h)
        del h
        gc.collect()
        self.assertIsNone(gone())

    def test_arrays_are_released(self):
        gone = []

        class Kept:
            def __init__(self, x):
                self.x = x

            def __del__(self):
                gone.append(1)

        f = hop.jit(lambda x: (hop.debug_callback(lambda v: Kept(v), x), x)[1])
        for _ in range(10):
            f(hop.ones(10))
        self.assertEqual(len(gone), 10)

    def test_names_do_not_pile_up(self):
        seen = []
        gc.collect()
        before = len(_callback._known)
        _core.debug_track(True)
        self.addCleanup(_core.debug_track, False)
        for i in range(50):

            def named_once(x):
                seen.append(x.item())

            hop.grad(lambda x: (hop.debug_callback(named_once, x), x * x)[1])(float(i))
        del named_once
        gc.collect()
        self.assertEqual(len(seen), 50)
        self.assertEqual(len(_callback._known), before)
        self.assertNotIn("named_once", _callback._names._next)
        self.assertEqual([line for line in _core.debug_leaks().splitlines() if "function" in line], [])

    def test_captured_anew_is_compiled_once(self):
        def run():
            def again(x):
                pass

            return hop.grad(lambda x: (hop.debug_callback(again, x), x * x * 1.25)[1])(3.0).item()

        for _ in range(20):  # operators outside of programs are compiled when they have been met often
            run()
        before = _core.cache_statistics()["misses"]
        self.assertEqual([run() for _ in range(5)], [7.5] * 5)
        self.assertEqual(_core.cache_statistics()["misses"], before)

    def test_one_function_twice_is_one_callback(self):
        def back(x):
            pass

        g = hop.jit(lambda x: (hop.debug_callback(back, x), hop.debug_callback(back, x + 1), x)[2])
        self.assertEqual(len(g.lower(hop.asarray(1.0)).function.callbacks), 1)

    def test_inner_programs_hand_theirs_on(self):
        seen = []

        def f(x):
            hop.debug_callback(lambda v: seen.append(v.item()), x)
            return x * x

        g = hop.jit(lambda x: hop.grad(f)(x) + hop.vmap(hop.jit(f))(hop.stack([x, x]))[0])
        self.assertEqual(g(3.0).item(), 15.0)
        gc.collect()
        self.assertEqual(g(1.0).item(), 3.0)
        self.assertEqual(seen, [3.0, 3.0, 3.0, 1.0, 1.0, 1.0])


class Threads(unittest.TestCase):
    def test_many_threads(self):
        seen, lock = {}, threading.Lock()

        def back(i, x):
            with lock:
                seen.setdefault(i.item(), []).append(x.item())

        f = hop.jit(
            lambda i, x: hop.fori_loop(0, 20, lambda k, c: (hop.debug_callback(back, i, c), c + 1)[1], x)
        )
        f(-1, 0)
        errors = []

        def work(i):
            try:
                for _ in range(10):
                    f(i, 0)
            except BaseException as error:  # noqa: BLE001
                errors.append(error)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(errors, [])
        for i in range(4):
            self.assertEqual(seen[i], list(range(20)) * 10)

    def test_called_on_the_thread_that_runs(self):
        seen = []
        f = hop.jit(
            lambda x: (
                hop.debug_callback(lambda v: seen.append(threading.get_ident()), hop.sum(x)),
                hop.exp(x),
            )[1]
        )
        f(hop.ones(300000))
        self.assertEqual(seen, [threading.get_ident()])

    def test_exceptions_stay_in_their_thread(self):
        def back(x):
            raise Trouble(x.item())

        f = hop.jit(lambda x: (hop.debug_callback(back, x), x)[1])
        found = []

        def work(i):
            try:
                f(float(i))
            except Trouble as error:
                found.append((i, error.args[0]))

        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(sorted(found), [(i, float(i)) for i in range(6)])


class Processes(unittest.TestCase):
    PROGRAM = """
import hop
def back(x):
    print("got", x.item())
f = hop.jit(lambda x: (hop.debug_callback(back, x), x * 1.5)[1])
print(f(2.0).item())
print(hop._core.cache_statistics()["disk_hits"])
"""

    def run_program(self, text, **environment):
        return subprocess.run(
            [sys.executable, "-c", text],
            capture_output=True,
            text=True,
            env={**os.environ, **environment},
            cwd=os.path.dirname(os.path.dirname(hop.__file__)),
        )

    def test_code_from_disk_calls_this_process(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o700)
            first = self.run_program(self.PROGRAM, HOP_CACHE=folder)
            second = self.run_program(self.PROGRAM, HOP_CACHE=folder)
        self.assertEqual(first.stdout.split()[:3], ["got", "2.0", "3.0"], first.stderr)
        self.assertEqual(second.stdout.split()[:3], ["got", "2.0", "3.0"], second.stderr)

    def test_the_end_of_the_process(self):
        done = self.run_program(
            self.PROGRAM + "\nkept = [f, back]\nclass C:\n    def __del__(self):\n        f(3.0)\nc = C()\n",
            HOP_CACHE="off",
        )
        self.assertEqual(done.returncode, 0, done.stderr)


class Errors(unittest.TestCase):
    def test_names_of_errors(self):
        for error in (
            hop.Error, hop.InvalidError, hop.CheckError, hop.TracerError, hop.UnavailableError, hop.FileError,
            hop.InternalError,
        ):
            self.assertEqual((error.__module__, getattr(hop, error.__qualname__)), ("hop", error))
        try:
            hop.jit(lambda x: float(x))(1.0)
        except hop.TracerError as error:
            self.assertTrue(traceback.format_exception_only(error)[0].startswith("hop.TracerError: "))

    def test_advice_about_other_arguments(self):
        with self.assertRaisesRegex(TypeError, r"argument mode: .*found str.*static_argnums"):
            hop.jit(lambda x, mode: x)(1.0, "fast")


if __name__ == "__main__":
    unittest.main()
