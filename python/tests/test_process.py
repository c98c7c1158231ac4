"""Memory, threads, forks, interrupts: nothing is lost, nothing crashes."""

import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import unittest
import warnings

import hop
from support import Case, needs_numpy, numpy


def work():
    """A bit of everything, errors included."""
    x = hop.asarray([1.0, 2.0, 3.0])
    (x + 1).sum()
    x[::2], x[hop.asarray([0, 1])], x.at[1].set(4.0), x[x > 1]
    f = hop.jit(lambda v: {"a": hop.sin(v) * x, "b": (v, None)})
    f(x), f(x)
    hop.grad(lambda v: hop.sum(v * x))(x)
    hop.vmap(lambda v: v * x)(x)
    hop.scan(lambda c, v: (c + v, {"y": c}), 0.0, x)
    hop.vjp(lambda v: v * 2, x)[1](x)
    hop.random.categorical(
        hop.random.fold_in(hop.random.key(0), 1), hop.random.normal(hop.random.key(2), (3,))
    )
    opt = hop.optim.adam(0.1)
    opt.update(x, opt.init(x), x)
    hop.show(lambda v: v * x, x).dot()
    for bad in (
        lambda: x + hop.ones(5),
        lambda: hop.jit(lambda v: v.item())(x),
        lambda: hop.scan(lambda c, v: 1 / 0, 0.0, x),
        lambda: hop.asarray("text"),
        lambda: hop.jit(lambda v: hop.check(v < 0, "m"))(x),
    ):
        try:
            bad()
        except Exception:
            pass
    memoryview(x).release()
    hop.from_dlpack(x)


POOL = hop.jit(lambda x: hop.sum(hop.sin(x @ x)))


def pool_work(k):
    """What processes and threads are given to do."""
    return (
        POOL(hop.ones((20 + k, 20 + k))).item()
        + hop.jit(lambda v: v * k)(1.0).item()
        + hop.grad(lambda v: hop.sum(v * v))(hop.ones(3)).shape[0]
    )


THREADS = """
import os, sys, hop

def tasks():
    return len(os.listdir("/proc/self/task"))

f = hop.jit(lambda x: hop.sum(hop.sin(x) * hop.cos(x), axis=1))
x = hop.ones((4000, 1000))
before = tasks()
first = f(x)
print(hop.get_threads(), tasks() - before, end=" ")
hop.set_threads(5)
second = f(x)
print(hop.get_threads(), tasks() - before, bool((first == second).all()))
"""


class Threads(Case):
    def test_how_many(self):
        """Runs take as many threads as the environment says, or the program; results do not depend on it."""
        for number, expected in (("3", "3 2 5 4 True"), ("1", "1 0 5 0 True")):
            env = {**os.environ, "HOP_NUM_THREADS": number}
            done = subprocess.run(
                [sys.executable, "-c", THREADS], env=env, capture_output=True, text=True, timeout=100
            )
            self.assertEqual(done.stdout.strip(), expected, done.stderr)

    def test_most(self):
        try:
            for many in (257, 1025, 100000, (1 << 31) - 1):
                hop.set_threads(many)
                self.assertEqual(hop.get_threads(), 256)
                self.assertEqual(float(hop.jit(hop.sum, threads=many)(hop.ones(10))), 10.0)
        finally:
            hop.set_threads(0)

    def test_nonsense(self):
        for bad in (-1, 2.5, "two", True, None, 1 << 31):
            with self.assertRaisesRegex((TypeError, ValueError, hop.InvalidError), "set_threads"):
                hop.set_threads(bad)


class Memory(Case):
    def test_references(self):
        gettotal = getattr(sys, "gettotalrefcount", None)
        for _ in range(5):
            work()
        hop._core.clear_programs()
        gc.collect()
        before = len(gc.get_objects()), gettotal and gettotal()
        for _ in range(20):
            work()
        hop._core.clear_programs()
        gc.collect()
        after = len(gc.get_objects()), gettotal and gettotal()
        self.assertLess(after[0] - before[0], 30)
        if gettotal:
            self.assertLess(after[1] - before[1], 200)

    def test_handles(self):
        work()
        hop._core.clear_programs()
        hop._core.debug_track(1)
        try:
            for _ in range(3):
                work()
            hop._jit._SHARED.clear()
            hop.random._compiled.cache_clear()
            hop._core.clear_programs()
            gc.collect()
            self.assertEqual(hop._core.debug_leaks(), "")
        finally:
            hop._core.debug_track(0)

    def test_numbers_of_references(self):
        x, one = hop.asarray([1.0, 2.0]), object()
        f = hop.jit(lambda v: v + 1)
        f(x)
        before = sys.getrefcount(x), sys.getrefcount(None), sys.getrefcount(one)
        for _ in range(50):
            x + x, x * 2.0, f(x), x[0], x.at[0].add(1.0), hop.sum(x), x == x, -x
            with self.assertRaises(TypeError):
                x + one
        after = sys.getrefcount(x), sys.getrefcount(None), sys.getrefcount(one)
        self.assertEqual((before[0], before[2]), (after[0], after[2]))
        self.assertLess(abs(after[1] - before[1]), 40)

    @needs_numpy
    def test_lent_memory_is_given_back(self):
        a = numpy.zeros(3)
        before = sys.getrefcount(a)
        x = hop.asarray(a)
        y = x[1:]
        self.assertGreater(sys.getrefcount(a), before)
        del x
        gc.collect()
        self.assertGreater(sys.getrefcount(a), before)
        del y
        gc.collect()
        self.assertEqual(sys.getrefcount(a), before)
        b = numpy.asarray(hop.asarray([1.0, 2.0]))
        self.assertEqual(b.tolist(), [1, 2])

    def test_memory_does_not_grow(self):
        import resource

        f = hop.jit(lambda x: x * 2 + 1)
        x = hop.zeros(10_000)
        for _ in range(200):
            f(x), x + x
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(3000):
            f(x), x + x
        self.assertLess(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, 20_000)

    def test_every_kind_of_call(self):
        """Thousands of calls of everything, failures among them, leave the references of what they use as
        they were."""
        x, m, text, tree = (
            hop.asarray([1.0, 2.0, 3.0]),
            hop.asarray([True, False, True]),
            "name",
            {"a": (hop.ones(2), [hop.zeros(3)])},
        )
        f, g = (
            hop.jit(lambda v: {"r": (v * 2, [v, None])}),
            hop.jit(lambda t, k: t["a"][0] * k, static_argnums=1),
        )
        d, bad = (
            hop.jit(lambda v: v + 1, donate_argnums=0),
            hop.jit(lambda v: (hop.check(hop.all(v < 0), "no"), v)[1]),
        )
        calls = [
            lambda: f(x), lambda: g(tree, 2), lambda: d(x + 0), lambda: bad(x), lambda: f("text"),
            lambda: f(x, x), lambda: g(tree, []), lambda: x + m, lambda: x + hop.ones(5), lambda: x @ text,
            lambda: -x, lambda: x[1:], lambda: x[m], lambda: x[::-1].tolist(), lambda: x[5],
            lambda: x.at[0].set(1.0), lambda: x.at[text], lambda: hop.asarray(x),
            lambda: hop.asarray([1.0, 2]), lambda: hop.asarray([1, text]), lambda: float(x), lambda: bool(x),
            lambda: x.item(), lambda: hop.from_dlpack(x), lambda: x.__dlpack__(), lambda: memoryview(x),
            lambda: bytes(x), lambda: copy.copy(x), lambda: copy.deepcopy(x),
            lambda: pickle.loads(pickle.dumps(x)), lambda: hop.stack([x, x]), lambda: hop.concat([x, text]),
            lambda: x.reshape((4,)), lambda: repr(x), lambda: x == text,
            lambda: hop.tree.map(lambda v: v, tree), lambda: hop.tree.flatten(tree), lambda: x.shape,
            lambda: x.dtype, lambda: hop.zeros((2, 2)), lambda: hop.zeros((2, -2)),
            lambda: hop.sum(x, axis=7), lambda: hop.where(m, x, 0.0), lambda: hop.split(hop.ones(4), 2),
            lambda: hop.nonzero(m), lambda: iter(x), lambda: list(x), lambda: x.T,
        ]  # fmt: skip
        slow = [
            lambda: hop.scan(lambda c, v: (c + v, c), 0.0, x),
            lambda: hop.scan(lambda c, v: 1 / 0, 0.0, x),
            lambda: hop.grad(lambda v: hop.sum(v * x))(x),
            lambda: hop.vmap(lambda v: v * x)(x),
            lambda: hop.jit(lambda v: v + tree["a"][0][0])(1.0),
            lambda: hop.jit(lambda v: bool(v))(1.0),
            lambda: hop.cond(True, lambda v: v, lambda v: v, x),
            lambda: hop.jit(lambda p: hop.cond(p, lambda: x, lambda: m))(True),
            lambda: hop.vjp(lambda v: v * x, x)[1](x),
            lambda: f.text(x),
        ]  # fmt: skip
        watched = [
            x,
            m,
            text,
            tree,
            tree["a"],
            tree["a"][0],
            tree["a"][1],
            f,
            g,
            d,
            bad,
            hop.Array,
            hop.Tracer,
            hop.float32,
            hop.bool,
            hop._core.ArrayBase,
        ]

        def run(many, times):
            for call in many:
                for _ in range(times):
                    try:
                        call()
                    except Exception:
                        pass

        run(calls, 20)
        run(slow, 2)
        gc.collect()
        before = [sys.getrefcount(w) for w in watched]
        run(calls, 200)
        run(slow, 3)
        gc.collect()
        after = [sys.getrefcount(w) for w in watched]
        for w, a, b in zip(watched, before, after):
            self.assertLess(abs(b - a), 20, f"references to {type(w).__name__}: {a} before, {b} after")

    def test_python_memory(self):
        import tracemalloc

        x = hop.ones(100)
        for _ in range(3):
            work()
        hop._core.clear_programs()
        gc.collect()
        tracemalloc.start()
        try:
            sizes = []
            for _ in range(3):
                for _ in range(5):
                    work()
                for _ in range(500):
                    x + x, x[3], x.at[0].add(1.0)
                hop._core.clear_programs()
                gc.collect()
                sizes.append(tracemalloc.get_traced_memory()[0])
        finally:
            tracemalloc.stop()
        self.assertLess(sizes[2] - sizes[1], 20_000, sizes)


class Threads(Case):
    def run_all(self, *functions):
        """Each on a thread of its own; what any of them raises is raised."""
        errors = []

        def guarded(f):
            try:
                f()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=guarded, args=(f,)) for f in functions]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        if errors:
            raise errors[0]

    def test_one_function_compiled_by_many_at_once(self):
        f = hop.jit(lambda x: {"y": hop.sum(hop.cos(x) * 3), "shape": x * 1})
        start = threading.Barrier(8)
        found = []

        def use():
            start.wait()
            for n in (3, 4, 5, 6):
                found.append(
                    (n, f(hop.ones(n))["y"].item(), hop.grad(lambda v: f(v)["y"])(hop.ones(n)).shape)
                )

        self.run_all(*[use] * 8)
        self.assertEqual(len(set(found)), 4)

    def test_different_functions_compiled_at_once(self):
        def use(k):
            for i in range(6):
                x = hop.ones(10 + k)
                got = hop.jit(lambda v: hop.scan(lambda c, w: (c * 0.5 + w * (k + i), c), 0.0, v)[0])(
                    x
                ).item()
                expected = 0.0
                for _ in range(10 + k):
                    expected = expected * 0.5 + (k + i)
                self.assertAlmostEqual(got, expected, places=4)

        self.run_all(*[lambda k=k: use(k) for k in range(6)])

    def test_arrays_that_change_while_others_read_them(self):
        """x[i] = y and donation on one thread, programs that read the array on others: no crash, and every
        result is of one state or another."""
        n = 30_000  # enough for runs without the GIL
        x, given = hop.zeros(n), [hop.ones(n) for _ in range(3)]
        f, d = hop.jit(lambda a: hop.max(a) - hop.min(a)), hop.jit(lambda a: a * 1.0, donate_argnums=0)
        until = time.monotonic() + 1.0

        def write():
            while time.monotonic() < until:
                x[:] = float(int(time.monotonic() * 1000) % 7)
                for i in range(3):
                    given[i] = hop.ones(n)

        def read():
            while time.monotonic() < until:
                self.assertEqual(f(x).item(), 0)
                self.assertEqual(hop.max(x + x - 2 * (x + 0)).ndim, 0)

        def give():
            while time.monotonic() < until:
                for i in range(3):
                    try:
                        self.assertEqual(d(given[i])[0].item(), 1)
                    except RuntimeError as error:
                        self.assertIn("donated", str(error))

        self.run_all(write, read, read, give, give)

    def test_several(self):
        f = hop.jit(lambda x: hop.sum(hop.sin(x) * x))
        errors = []

        def run(k):
            try:
                x = hop.arange(0.0, 100.0 + k, 1.0, dtype=hop.float64)
                expected = f(x).item()
                for _ in range(30):
                    if f(x).item() != expected or hop.grad(f)(x).shape != x.shape or (x * k)[1].item() != k:
                        raise AssertionError("another result")
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=run, args=(k,)) for k in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(errors, [])

    def test_captures_belong_to_their_thread(self):
        found = []

        def f(x):
            t = threading.Thread(target=lambda: found.append(hop._core.tracing()))
            t.start()
            t.join()

            def use():
                try:
                    x + 1
                except hop.TracerError as error:
                    found.append(type(error).__name__)

            t = threading.Thread(target=use)
            t.start()
            t.join()
            return x

        hop.jit(f)(1.0)
        self.assertEqual(found, [False, "TracerError"])

    def test_threads_at_the_end_of_the_process(self):
        program = (
            "import hop, threading\n"
            "f = hop.jit(lambda x: hop.fori_loop(0, x, lambda i, c: hop.sin(c) + 1.0, 0.0))\n"
            "f(3)\n"
            "def forever():\n"
            "    while True: f(100000), hop.ones(30000) + 1, hop.asarray(bytearray(10)) + 1\n"
            "for _ in range(3): threading.Thread(target=forever, daemon=True).start()\n"
            "f(100000)\n"
            "print('end')\n"
        )
        for _ in range(3):
            child = script(program)
            out, err = child.communicate(timeout=60)
            self.assertEqual((out, child.returncode), ("end\n", 0), err)


def script(text, **options):
    return subprocess.Popen(
        [sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


class Processes(Case):
    def test_fork(self):
        f = hop.jit(lambda x: hop.sum(x @ x))
        x = hop.ones((300, 300))
        expected = f(x).item()
        pid = os.fork()
        if pid == 0:
            good = (
                f(x).item() == expected
                and hop.jit(lambda v: v * 3)(x)[0, 0].item() == 3
                and (x + x)[0, 0].item() == 2
            )
            os._exit(0 if good else 1)
        self.assertEqual(self.ends(pid), 0)

    def test_multiprocessing(self):
        import multiprocessing

        # a program for all sizes may round otherwise than one for these sizes, which a process begins with
        expected = [round(pool_work(k), 3) for k in range(4)]
        for method in ("fork", "spawn"):
            with multiprocessing.get_context(method).Pool(2) as pool:
                got = [round(x, 3) for x in pool.map(pool_work, range(4))]
                self.assertEqual(got, expected)
                self.assertEqual(
                    [r.tolist() for r in pool.map(hop.square, [hop.asarray([3.0])] * 2)], [[9], [9]]
                )
        self.assertEqual([round(pool_work(k), 3) for k in range(4)], expected)

    def test_fork_while_threads_work(self):
        stop = threading.Event()

        def busy():
            k = 0
            while not stop.is_set():
                k += 1
                hop.jit(lambda v: hop.sum(v * k))(hop.ones(10))
                hop.ones((200, 200)) @ hop.ones((200, 200))

        expected = [pool_work(k) for k in range(4)]
        threads = [threading.Thread(target=busy) for _ in range(2)]
        for t in threads:
            t.start()
        try:
            for i in range(8):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # that forking with threads is risky is the point
                    pid = os.fork()
                if pid == 0:
                    os._exit(0 if pool_work(i % 4) == expected[i % 4] else 1)
                self.assertEqual(self.ends(pid), 0)
        finally:
            stop.set()
            for t in threads:
                t.join()

    def ends(self, pid):
        """The status of a child, which must end."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                return status
            time.sleep(0.01)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        self.fail("the child did not end")

    def test_other_interpreters(self):
        program = (
            "import sys\n"
            "try: import _interpreters as those\n"
            "except ImportError: import _xxsubinterpreters as those\n"
            "run = getattr(those, 'run_string', None) or those.exec\n"
            "import hop\n"
            "other = those.create()\n"
            "run(other, 'try:\\n import hop\\nexcept ImportError: print(\"refused\", flush=True)')\n"
            "those.destroy(other)\n"
            "print(hop.jit(lambda x: x + 1)(hop.ones(2)).tolist(), type(hop.ones(1)) is hop.Array)\n"
        )
        child = script("import sys; sys.modules['numpy'] = None\n" + program)
        out, err = child.communicate(timeout=60)
        self.assertEqual(out.splitlines(), ["refused", "[2.0, 2.0] True"], err)

    def test_imported_twice(self):
        child = script(
            "import hop, sys\n"
            "x = hop.ones(2)\n"
            "for n in [n for n in sys.modules if n.split('.')[0] == 'hop' and n != 'hop._core']: "
            "del sys.modules[n]\n"
            "import hop as again\n"
            "print((again.ones(2) + 1).tolist(), x.tolist(), again is hop)\n"
        )
        out, err = child.communicate(timeout=60)
        self.assertEqual(out.strip(), "[2.0, 2.0] [1.0, 1.0] False", err)

    def test_interrupt(self):
        program = (
            "import hop, sys, time\n"
            "f = hop.jit(lambda x: hop.while_loop(lambda c: c[0] >= 0.0, "
            "lambda c: (hop.sin(c[0]) ** 2, c[1] + 1), (x, 0)))\n"
            "print('ready', flush=True)\n"
            "try:\n"
            "    f(0.5)\n"
            "except KeyboardInterrupt:\n"
            "    print('interrupted', flush=True)\n"
            "print(hop.sum(hop.ones(3)).item(), flush=True)\n"
        )
        child = script(program)
        self.assertEqual(child.stdout.readline(), "ready\n")
        time.sleep(1.0)
        child.send_signal(signal.SIGINT)
        try:
            out, err = child.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            self.fail("the run went on")
        self.assertEqual(out.split(), ["interrupted", "3.0"], err)

    def test_interrupts_everywhere(self):
        """In loops and large products that would not end, while Python code is captured, which stops
        within a few steps; with arguments given away; many times in one process."""
        program = (
            "import hop, os, signal, threading, time\n"
            "steps, sent = 0, 0\n"
            "def send():\n"
            "    global sent\n"
            "    sent = steps\n"
            "    os.kill(os.getpid(), signal.SIGINT)\n"
            "def forever(c): return hop.while_loop(lambda c: c[0] >= 0.0, "
            "lambda c: (hop.sin(c[0]) ** 2, c[1] + 1), (c, 0))\n"
            "m = hop.ones((300, 300)) * 0.001\n"
            "products = hop.jit(lambda x: hop.fori_loop(0, 100_000_000, lambda i, c: c @ m, x))\n"
            "def slow_python(x):\n"
            "    global steps\n"
            "    for steps in range(100_000):\n"
            "        x = x + 1\n"
            "        if steps % 100 == 0: time.sleep(0.001)\n"
            "    return x\n"
            "f, lanes = hop.jit(forever), hop.jit(hop.vmap(forever))\n"
            "gives = hop.jit(lambda x: hop.fori_loop(0, 100_000_000_000, lambda i, c: hop.sin(c) + 1.0, x), "
            "donate_argnums=0)\n"
            "x = hop.ones(3)\n"
            "for name, run in dict(loop=lambda: f(0.5), lanes=lambda: lanes(hop.ones(5) * 0.5), "
            "products=lambda: products(hop.ones((300, 300))), capture=lambda: hop.jit(slow_python)(1.0), "
            "given=lambda: gives(x), again=lambda: f(0.5)).items():\n"
            "    threading.Timer(0.3, send).start()\n"
            "    try:\n"
            "        run(); print(name, 'ended')\n"
            "    except KeyboardInterrupt:\n"
            "        print(name, 'ok' if steps - sent < 1000 else 'late')\n"
            "    assert not hop._core.tracing()\n"
            "    assert hop.jit(lambda v: v * 2)(hop.ones(3)).tolist() == [2, 2, 2]\n"
            "print(x._donated)\n"
        )
        child = script(program)
        out, err = child.communicate(timeout=120)
        self.assertEqual(
            out.splitlines(),
            ["loop ok", "lanes ok", "products ok", "capture ok", "given ok", "again ok", "True"],
            err,
        )

    LARGE = (  # a program that LLVM needs seconds for
        "def large(seed, n=3000):\n"
        "    def f(x, y):\n"
        "        v = [x, y]\n"
        "        for i in range(n):\n"
        "            v.append(hop.sin(v[-1 - i * 7 % min(len(v), 9)]) "
        "+ v[-1 - i * 5 % min(len(v), 9)] * (seed + i))\n"
        "        return hop.sum(v[-1])\n"
        "    return f\n"
    )

    def test_interrupted_compilation(self):
        """It ends before its time: the same program is not in the cache yet, and is once the worker is
        done. Afterwards everything works, also the end of the process."""
        program = (
            "import hop, os, signal, threading, time\n" + self.LARGE + "x = hop.ones(7)\n"
            "lowered = hop.jit(large(1.0)).lower(x, x)\n"
            "hop.jit(lambda v: v * 3)(x)\n"  # the compiler is there
            "threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
            "try:\n"
            "    lowered.compile(); print('compiled')\n"
            "except KeyboardInterrupt:\n"
            "    print('interrupted')\n"
            "print(hop.jit(lambda v: v * 2)(x)[0].item(), hop._core.tracing())\n"
            "lowered.compile()\n"
            "for _ in range(3):\n"
            "    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
            "    try: hop.jit(large(2.0 + _, 9000))(x, x); print('compiled')\n"
            "    except KeyboardInterrupt: print('interrupted')\n"
            "print('end', flush=True)\n"
        )
        child = script(program, env={**os.environ, "HOP_CACHE": "memory"})
        out, err = child.communicate(timeout=120)
        self.assertEqual(
            (out.splitlines(), child.returncode),
            (["interrupted", "2.0 False", *["interrupted"] * 3, "end"], 0),
            err,
        )

    def test_other_handlers(self):
        """Handlers of other signals run in the middle of a run, which goes on where it was, with given
        arguments and callbacks too; one that raises ends it."""
        program = (
            "import hop, os, signal, threading\n"
            "seen, told = [], []\n"
            "def note(number, frame): "
            "seen.append(hop.jit(lambda v: v * 2)(hop.ones(2)).tolist())\n"  # runs a program of its own
            "signal.signal(signal.SIGALRM, note)\n"
            "def begun(v):\n"
            "    told.append(v.item())\n"
            "    threading.Timer(0.2, lambda: os.kill(os.getpid(), number)).start()\n"
            "def goes_on(x):\n"
            "    hop.debug_callback(begun, x[0])\n"
            "    return hop.while_loop(lambda c: c[1] < 1, lambda c: (c[0] + 1, c[1] + 0), (x, 0))\n"
            "n = hop.jit(lambda n, x: hop.fori_loop(0, n, lambda i, c: c + 1, x), donate_argnums=1)\n"
            "n(3, hop.zeros(1000, dtype=hop.int64))\n"
            "signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)\n"
            "trips, r = 1_000_000, None\n"
            "while len(seen) < 3:\n"  # until it took long enough
            "    seen.clear(); r = n(trips, hop.zeros(1000, dtype=hop.int64)); at = len(seen); trips *= 2\n"
            "signal.setitimer(signal.ITIMER_REAL, 0)\n"
            "print(r[0].item() == trips // 2, set(map(tuple, seen)))\n"
            "class Stop(Exception): pass\n"
            "def stop(*_): raise Stop\n"
            "for number in (signal.SIGUSR1, signal.SIGTERM):\n"
            "    signal.signal(number, stop)\n"
            "    try: hop.jit(goes_on)(hop.zeros(3)); print('ended')\n"
            "    except Stop: print('stopped', len(told))\n"
            "print(hop.sum(hop.ones(3)).item())\n"
        )
        child = script(program)
        out, err = child.communicate(timeout=120)
        self.assertEqual(out.splitlines(), ["True {(2.0, 2.0)}", "stopped 1", "stopped 2", "3.0"], err)

    def test_interrupts_of_nested_runs(self):
        """In a run that a callback of another run has begun, and in callbacks themselves; a thread's run
        goes on while the main thread is interrupted."""
        program = (
            "import hop, os, signal, threading, time\n"
            "def forever(c): return hop.while_loop(lambda c: c[0] >= 0.0, "
            "lambda c: (hop.sin(c[0]) ** 2, c[1] + 1), (c, 0))\n"
            "inner = hop.jit(forever)\n"
            "def outer(x):\n"
            "    hop.debug_callback(lambda v: inner(0.5), x)\n"
            "    return x + 1\n"
            "def sleeps(x):\n"
            "    hop.debug_callback(lambda v: time.sleep(100), x)\n"
            "    return x + 1\n"
            "for f in (outer, sleeps):\n"
            "    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
            "    try: hop.jit(f)(1.0); print('ended')\n"
            "    except KeyboardInterrupt: print('interrupted')\n"
            "count = hop.jit(lambda n: hop.fori_loop(0, n, lambda i, c: hop.sin(c) + 1.0, 0.0))\n"
            "results = []\n"
            "t = threading.Thread(target=lambda: results.append(count(20_000_000).item() > 0))\n"
            "t.start()\n"
            "threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
            "try: inner(0.5)\n"
            "except KeyboardInterrupt: print('interrupted')\n"
            "t.join()\n"
            "print(results)\n"
        )
        child = script(program)
        out, err = child.communicate(timeout=120)
        self.assertEqual(out.splitlines(), ["interrupted"] * 3 + ["[True]"], err)

    def test_interrupted_interpreter_and_products(self):
        program = (
            "import hop, os, signal, threading\n"
            "def forever(c): return hop.while_loop(lambda c: c[0] >= 0.0, "
            "lambda c: (hop.sin(c[0]) ** 2, c[1] + 1), (c, 0))\n"
            "fn, hidden, _ = hop._core.capture(lambda x: forever(x), 'f', ['x'], ['f32[]'])\n"
            "given = [hop.asarray(0.5), *hidden]\n"
            "m = hop.ones((3000, 3000), dtype=hop.float64)\n"
            "def products():\n"
            "    while True: m @ m\n"
            "def eager():\n"
            "    x = hop.ones(10_000_000)\n"
            "    while True: hop.sin(x)\n"
            "for run in (lambda: fn.interpret(given), lambda: fn.compile(portable=True).run(given), "
            "products, eager):\n"
            "    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
            "    try: run(); print('ended')\n"
            "    except KeyboardInterrupt: print('interrupted')\n"
        )
        child = script(program)
        out, err = child.communicate(timeout=120)
        self.assertEqual(out.splitlines(), ["interrupted"] * 4, err)

    def test_out_of_memory(self):
        program = (
            "import hop\n" + self.LARGE + "x = hop.ones(7)\n"
            "try: hop.jit(large(1.0))(x, x)\n"
            "except MemoryError as error: print('HOP_COMPILE_MEMORY' in str(error))\n"
            "print(hop.jit(lambda v: v * 2)(x)[0].item())\n"
        )
        child = script(program, env={**os.environ, "HOP_COMPILE_MEMORY": "17M", "HOP_CACHE": "off"})
        out, err = child.communicate(timeout=120)
        self.assertEqual(out.split(), ["True", "2.0"], err)

    def test_handler_that_goes_on_with_given_arguments(self):
        program = (
            "import hop, signal, threading, os\n"
            "seen = []\n"
            "signal.signal(signal.SIGINT, lambda *_: seen.append(1))\n"
            "f = hop.jit(lambda n, x: hop.fori_loop(0, n, lambda i, c: c + 1, x), donate_argnums=1, "
            "static_argnums=())\n"
            "f(3, hop.zeros(1000, dtype=hop.int64))\n"
            "threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
            "r = f(30_000_000, hop.zeros(1000, dtype=hop.int64))\n"
            "print(len(seen), r[0].item())\n"
        )
        child = script(program)
        out, err = child.communicate(timeout=120)
        self.assertEqual(out.split(), ["1", "30000000"], err)

    def test_handler_that_goes_on(self):
        program = (
            "import hop, signal, threading, os, time\n"
            "seen = []\n"
            "signal.signal(signal.SIGINT, lambda *_: seen.append(1))\n"
            "f = hop.jit(lambda n: hop.fori_loop(0, n, lambda i, c: hop.sin(c) + 1.0, 0.0))\n"
            "f(3)\n"
            "threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
            "r = f(30000000)\n"
            "print(len(seen), r.item() > 0)\n"
        )
        child = script(program)
        out, err = child.communicate(timeout=120)
        self.assertEqual(out.split(), ["1", "True"], err)

    def test_without_numpy(self):
        child = script(
            "import sys; sys.modules['numpy'] = None\n"
            "import hop; print(hop.grad(lambda x: x * x)(3.0).item(), hop.__version__)"
        )
        out, err = child.communicate(timeout=60)
        self.assertEqual(out.split(), ["6.0", hop.__version__], err)

    def test_debug_allocator(self):
        """Under Python's debug allocator and in its development mode, with every warning an error."""
        here = os.path.dirname(os.path.abspath(__file__))
        program = (
            f"import sys; sys.path.insert(0, {here!r})\n"
            "import hop, test_process\n"
            "for _ in range(3): test_process.work()\n"
            "print('done')"
        )
        child = subprocess.Popen(
            [sys.executable, "-X", "dev", "-W", "error", "-c", program],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONMALLOC": "debug"},
        )
        out, err = child.communicate(timeout=120)
        self.assertEqual((out.split(), child.returncode), (["done"], 0), err)


if __name__ == "__main__":
    unittest.main()
