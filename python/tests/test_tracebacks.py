"""Tracebacks: an exception shows the user's lines, not the package's, whatever transforms, loops and
callbacks it came through; HOP_TRACEBACK=full shows all. Entries, the objects that see to it, look like the
functions that they stand for."""

import copy
import functools
import gc
import inspect
import io
import os
import pdb
import pickle
import pydoc
import queue
import threading
import traceback
import unittest
import unittest.mock
import weakref

import hop
from support import Case

PACKAGE = os.path.dirname(hop.__file__) + os.sep


def raised(call):
    """The exception of a call."""
    try:
        call()
    except BaseException as error:  # noqa: B036: whatever it is
        return error
    raise AssertionError("nothing was raised")


def functions(error):
    """The names of the functions in a traceback, from `raised` on, those of the package with a star."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    return [("*" if f.filename.startswith(PACKAGE) else "") + f.name for f in frames]


class Mine(Exception):
    pass


def boom(x):
    raise Mine("mine")


def wrong_shapes(x):
    return hop.reshape(x, (5, 7))


class Tracebacks(Case):
    def through(self, body):
        """Calls that run a body in the middle of something."""

        def in_scan(x):
            return hop.sum(hop.scan(lambda c, y: (c + hop.sum(body(y)), c), 0.0, x[None])[0])

        def in_cond(x):
            return hop.cond(x[0] > 0, lambda v: hop.sum(body(v)), lambda v: hop.sum(v), x)

        def in_while(x):
            return hop.while_loop(lambda c: c[0] < 3, lambda c: c + body(c), x)

        def in_fori(x):
            return hop.fori_loop(0, 3, lambda i, c: c + body(c), x)

        def in_map(x):
            return hop.map(lambda v: body(v), x[None])

        def in_associative(x):
            return hop.associative_scan(lambda a, b: a + body(b), x[None])

        def in_switch(x):
            return hop.switch(hop.asarray(1), [lambda v: v, lambda v: body(v)], x)

        x = hop.ones(3)
        plain = [in_scan, in_cond, in_while, in_fori, in_map, in_associative, in_switch]
        for f in plain:
            yield f"{f.__name__} at once", lambda f=f: f(x)
            yield f"jit of {f.__name__}", lambda f=f: hop.jit(f)(x)
        scalar = lambda x: hop.sum(body(x))  # noqa: E731
        yield "grad", lambda: hop.grad(scalar)(x)
        yield "value_and_grad", lambda: hop.value_and_grad(scalar)(x)
        yield "vmap", lambda: hop.vmap(body)(x)
        yield "vjp", lambda: hop.vjp(body, x)
        yield "jvp", lambda: hop.jvp(body, (x,), (x,))
        yield "linearize", lambda: hop.linearize(body, x)
        yield "jacrev", lambda: hop.jacrev(body)(x)
        yield "hessian", lambda: hop.hessian(scalar)(x)
        yield "checkpoint", lambda: hop.grad(hop.checkpoint(scalar))(x)
        yield "jit(vmap(grad(scan)))", lambda: hop.jit(hop.vmap(hop.grad(in_scan)))(x[None])
        yield "jit in jit", lambda: hop.jit(lambda v: hop.jit(body)(v))(x)
        yield "lower", lambda: hop.jit(body).lower(x)
        yield "text", lambda: hop.jit(body).text(x)
        yield "show", lambda: hop.show(body, x)
        yield "tree.map", lambda: hop.tree.map(body, [x])
        yield "check_grads", lambda: hop.check_grads(scalar, (x,))
        yield "callback", lambda: hop.jit(lambda v: (hop.debug_callback(body, v), v)[1])(x)
        yield "callback at once", lambda: hop.debug_callback(body, x)

    def test_user_frames_alone(self):
        for body, error_class in ((boom, Mine), (wrong_shapes, hop.Error)):
            for name, call in self.through(body):
                with self.subTest(name):
                    error = raised(call)
                    found = functions(error)
                    self.assertIsInstance(error, (error_class, ValueError))
                    self.assertFalse([f for f in found if f.startswith("*")], found)
                    self.assertEqual(found[-1], body.__name__)
                    self.assertTrue(traceback.format_exception(error)[-1])

    def test_full(self):
        with unittest.mock.patch.dict(os.environ, HOP_TRACEBACK="full"):
            for name, call in self.through(boom):
                with self.subTest(name):
                    found = functions(raised(call))
                    self.assertEqual(found[-1], "boom")
                    self.assertTrue([f for f in found if f.startswith("*")], found)
        with unittest.mock.patch.dict(os.environ, HOP_TRACEBACK=""):
            self.assertEqual(functions(raised(lambda: hop.vmap(boom)(hop.ones(2)))), ["<lambda>", "boom"])

    def test_errors_of_functions_and_methods(self):
        x = hop.ones((2, 3))
        calls = [
            lambda: hop.sum("a"),
            lambda: hop.sum(x, 7),
            lambda: hop.sum(x, axis=0, other=1),
            lambda: hop.reshape(x, (4, 4)),
            lambda: x.reshape((4, 4)),
            lambda: x.sum(7),
            lambda: x[5],
            lambda: x.at[1, 2, 3].set(1),
            lambda: x[0, 0, 0, 0],
            lambda: x[:, 0].T,
            lambda: x @ hop.ones(7),
            lambda: x + hop.ones(7),
            lambda: x + [1, [2]],
            lambda: hop.arange(3) ** -1,
            lambda: hop.linalg.solve(x, x),
            lambda: hop.random.normal(3),
            lambda: hop.random.key(0.5),
            lambda: hop.tree.map(max, [1], [1, 2]),
            lambda: hop.optim.adam(0.1).init({"w": 1}),
            lambda: hop.optim.sgd(0.1).update([], hop.optim.sgd(0.1).init([1.0]), [1.0]),
            lambda: hop.finfo(hop.int64),
            lambda: hop.no_such_thing,
            lambda: x.cpu,
            lambda: hop.load("/no/such/file.npy"),
            lambda: hop.jit(lambda v: v, static_argnums=7),
            lambda: hop.grad(3),
            lambda: hop.vjp(hop.sin, x)[1](hop.ones(9)),
            lambda: hop.linearize(hop.sin, x)[1](hop.ones(9)),
            lambda: hop.jit(lambda v: bool(v[0, 0]), control=False)(x),
            lambda: x.__array_namespace__(api_version="1"),
            lambda: hop.jit(hop.sin).lower(x).emit("nothing"),
            lambda: hop.check(False, "no"),
            lambda: hop.jit(lambda v: (hop.check(v < 0), v)[1])(1.0),
            lambda: "%s" % hop.asarray([1, [2]]),
            lambda: hop.grad(lambda v: v)(1),
            lambda: hop.__array_namespace_info__().dtypes(device="gpu"),
        ]
        for i, call in enumerate(calls):
            found = functions(raised(call))
            self.assertFalse([f for f in found if f.startswith("*")], (i, found))
            with unittest.mock.patch.dict(os.environ, HOP_TRACEBACK="full"):
                self.assertGreaterEqual(len(functions(raised(call))), len(found))

    def test_chains(self):
        def body(x):
            try:
                boom(x)
            except Mine as error:
                raise KeyError("outer") from error

        error = raised(lambda: hop.jit(hop.grad(lambda x: hop.vmap(body)(x[None])))(hop.ones(2)))
        self.assertEqual(
            (type(error), type(error.__cause__), error.__suppress_context__), (KeyError, Mine, True)
        )
        self.assertEqual(functions(error), ["<lambda>", "<lambda>", "body"])
        self.assertEqual(
            [f.name for f in traceback.extract_tb(error.__cause__.__traceback__)], ["body", "boom"]
        )

        def handling(x):
            try:
                hop.vmap(lambda v: hop.reshape(v, (9,)))(x)
            except hop.Error:
                raise Mine("during it")  # noqa: B904

        error = raised(lambda: hop.jit(handling)(hop.ones(2)))
        self.assertEqual((type(error), error.__cause__, error.__suppress_context__), (Mine, None, False))
        self.assertIsInstance(error.__context__, hop.InvalidError)
        self.assertEqual(
            [f.name for f in traceback.extract_tb(error.__context__.__traceback__)], ["handling", "<lambda>"]
        )

        def hidden(x):
            try:
                boom(x)
            except Mine:
                raise KeyError("none") from None

        error = raised(lambda: hop.jit(hidden)(1.0))
        self.assertEqual((error.__cause__, error.__suppress_context__), (None, True))
        loop = KeyError("a")
        loop.__context__ = other = KeyError("b")
        other.__cause__ = loop
        self.assertIs(raised(lambda: hop.jit(lambda x: self.throw(loop))(1.0)), loop)
        self.assertIs(loop.__context__, other)

    def throw(self, error):
        raise error

    def test_objects_stay_as_they_are(self):
        """What a function kept of an exception is not changed when it goes on."""
        kept = []

        def body(x):
            try:
                hop.tree.map(boom, [x])
            except Mine as error:
                kept.append((error, error.__traceback__, len(traceback.extract_tb(error.__traceback__))))
                raise

        error = raised(lambda: hop.jit(lambda x: hop.vmap(body)(x))(hop.ones(2)))
        self.assertIs(error, kept[0][0])
        self.assertEqual(len(traceback.extract_tb(kept[0][1])), kept[0][2])
        self.assertEqual(functions(error)[-2:], ["body", "boom"])

    def test_bugs_are_shown_whole(self):
        found = functions(
            raised(lambda: hop.vmap(lambda x: self.throw(hop.InternalError("a bug")))(hop.ones(2)))
        )
        self.assertTrue([f for f in found if f.startswith("*")], found)

    def test_other_threads(self):
        errors = []

        def work():
            errors.append(raised(lambda: hop.jit(hop.vmap(boom))(hop.ones(2))))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual([functions(e) for e in errors], [["<lambda>", "boom"]] * 4)

    def test_interrupts(self):
        self.assertEqual(
            functions(raised(lambda: hop.jit(lambda x: self.throw(KeyboardInterrupt()))(1.0))),
            ["<lambda>", "<lambda>", "throw"],
        )

    def test_debugger(self):
        def body(x):
            local = "found it"
            raise Mine(local)

        for full in ("", "full"):
            with unittest.mock.patch.dict(os.environ, HOP_TRACEBACK=full):
                error = raised(lambda: hop.jit(hop.vmap(body))(hop.ones(2)))
            out = io.StringIO()
            debugger = pdb.Pdb(
                stdin=io.StringIO("p local\nwhere\nup\nq\n"), stdout=out, nosigint=True, readrc=False
            )
            debugger.use_rawinput = False
            debugger.reset()
            debugger.interaction(None, error.__traceback__)
            self.assertIn("found it", out.getvalue())
            self.assertEqual(PACKAGE in out.getvalue(), full == "full", out.getvalue())

    def test_nothing_is_left_over(self):
        call = lambda: (  # noqa: E731
            hop.jit(hop.grad(lambda x: hop.sum(hop.vmap(wrong_shapes)(x))))(hop.ones(2))
        )
        misfit = lambda: hop.sum(hop.ones(2), ddof=1)  # noqa: E731
        for _ in range(20):
            raised(call), raised(misfit)
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(200):
            raised(call), raised(misfit)
        gc.collect()
        self.assertLess(len(gc.get_objects()) - before, 100)


class Entries(Case):
    def test_look(self):
        self.assertEqual(
            (hop.sum.__name__, hop.sum.__module__, hop.sum.__qualname__, repr(hop.sum)),
            ("sum", "hop", "sum", "<function hop.sum>"),
        )
        self.assertTrue(hop.sum.__doc__.startswith("The sum along axes (all when not said)."))
        self.assertEqual(str(inspect.signature(hop.sum)), "(x, /, axis=None, dtype=None, *, keepdims=False)")
        self.assertIn("The sum along axes", pydoc.render_doc(hop.sum))
        self.assertIn("def flip", inspect.getsource(hop.flip))
        self.assertTrue(inspect.isroutine(hop.sum) and callable(hop.sum))
        self.assertIs(hop.linalg.matmul, hop.matmul)

        def named(x, y=2):
            """What it does."""
            return x * y

        g = hop.grad(named)
        self.assertEqual(
            (g.__name__, g.__doc__, str(inspect.signature(g))),
            ("named", "Gradient of named.\n\nWhat it does.", "(x, y=2)"),
        )

        @functools.wraps(hop.sum)
        def more(*args):
            return hop.sum(*args)

        self.assertEqual((more.__name__, more.__doc__), ("sum", hop.sum.__doc__))

    def test_life(self):
        for function in (
            hop.sum, hop.linalg.solve, hop.random.normal, hop.tree.map, hop.scan, hop.grad,
            hop.cumulative_max,
        ):
            self.assertIs(pickle.loads(pickle.dumps(function)), function)
            self.assertIs(copy.deepcopy(function), function)
        self.assertEqual(len({hop.sum, hop.sum, hop.max}), 2)
        self.assertIs(weakref.ref(hop.sum)(), hop.sum)
        g = hop.grad(lambda x: x)
        g.note = "kept"
        self.assertEqual(g.note, "kept")
        gone = weakref.ref(g)
        del g
        gc.collect()
        self.assertIsNone(gone())
        with self.assertRaises(AttributeError):
            hop.sum.no_such_attribute

    def test_binding(self):
        class Model:
            loss = hop.grad(lambda self, x: x * x, argnums=1)

            @hop.jit
            def twice(x):
                return x + x

        self.equal(Model.twice(2.0), 4)
        x = hop.ones(3)
        bound = x.sum
        self.equal(bound(), 3)
        self.equal(hop.Array.sum(x), 3)
        self.assertIs(bound.__self__, x)
        self.equal(Model().loss(3.0), 6)

    def test_programs_are_shared(self):
        """What jit takes apart of functions, it takes apart of what transforms give."""
        hop.jit(hop.sin)(1.0)
        calls = queue.SimpleQueue()

        def f(x):
            calls.put(1)
            return x

        g = hop.grad(f)
        for _ in range(3):
            hop.jit(g)(1.0)
        self.assertLessEqual(calls.qsize(), 3)


if __name__ == "__main__":
    unittest.main()
