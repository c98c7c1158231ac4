"""Transforms and loops outside of jit: arguments that are values of Python's stay so, and programs that are
kept for later calls give what a capture would give then. Random programs whose state changes between calls
are those of test_state_random.py."""

import dataclasses
import enum
import functools
import gc
import io
import contextlib
import os
import random
import threading
import unittest
import unittest.mock
import weakref

import hop
import state_programs
from hop import _calls, _core
from support import Case, numpy
from test_state_random import differ, outcome, steps_of

SEEDS = int(os.environ.get("HOP_TEST_SEEDS", "600" if os.environ.get("HOP_TEST_SOAK") else "40"))
X = hop.asarray([1.0, 2.0, 3.0])
scale = 2.0
weights = hop.asarray([1.0, 2.0, 4.0])


class Mode(enum.Enum):
    UP = 1
    DOWN = 2


class Config:
    def __init__(self, k):
        self.k = k


@contextlib.contextmanager
def captures():
    """A list with an entry for each capture inside of it."""
    found, before = [], _core.capture

    def counted(*args):
        found.append(1)
        return before(*args)

    with unittest.mock.patch.object(_core, "capture", counted):
        yield found


class Case(Case):
    def equal(self, x, expected):
        """Elements, up to rounding."""
        x, expected = hop.asarray(x), hop.asarray(expected)
        self.assertTrue(hop.allclose(x, hop.broadcast_to(expected, x.shape), 1e-5, 1e-6), (x, expected))


class Values(Case):
    """Arguments that are no arrays."""

    def test_every_kind(self):
        given = [
            True, False, 3, -1, 0, 2.5, "relu", "", b"x", None, (3, 4), [1, 2], {"a": 1, "b": "c"}, Mode.UP,
            int, hop.float32, hop.sin, max, len, lambda v: v, functools.partial(max, 1), slice(1, 3),
            range(4), frozenset((1, 2)), {1, 2}, Config(2), unittest, 1j, ..., numpy and numpy.dtype("int32"),
        ]  # fmt: skip
        for value in given:
            def check(*args):
                self.assertIs(type(args[0]), type(value))
                if not isinstance(value, (list, dict, tuple)):
                    self.assertTrue(args[0] is value or args[0] == value)
                else:
                    self.assertEqual(args[0], value)
                return args[1]

            with self.subTest(value=value):
                for _ in range(2):
                    self.equal(hop.grad(lambda x, v: hop.sum(check(v, x) ** 2))(X, value), 2 * X)
                    self.equal(hop.vmap(lambda x, v: check(v, x) * 2, (0, None))(X, value), 2 * X)
                    self.equal(hop.jacfwd(lambda x, v: check(v, x) * 2)(X, v=value), 2 * hop.eye(3))
                    self.equal(hop.grad(hop.checkpoint(lambda x, v: hop.sum(check(v, x))))(X, value), 1)
                    self.equal(hop.jit(hop.grad(lambda x: hop.grad(
                        lambda y, v: hop.sum(check(v, y) ** 3))(x, value).sum()))(X), 6 * X)  # fmt: skip
                    if not isinstance(value, float) and not isinstance(value, (list, tuple, dict)):
                        y, pull = hop.vjp(lambda x, v: check(v, x) * 2, X, value)
                        self.equal(pull(X)[0], 2 * X)
                        y, push = hop.linearize(lambda x, v: check(v, x) * 2, X, value)
                        self.equal(push(X, None), 2 * X)
                        _, moved = hop.jvp(lambda x, v: check(v, x) * 2, (X, value), (X, None))
                        self.equal(moved, 2 * X)

    def test_control_flow_by_values(self):
        def f(x, n, flag, act):
            for _ in range(n):
                x = act(x)
            return hop.sum(x if flag else -x)

        g = hop.grad(f)
        for n, flag in [(0, True), (1, True), (2, False), (3, True), (2, False), (4, False), (5, True)]:
            for k in (2.0, 3.0):
                sign = 1 if flag else -1
                self.equal(g(X, n, flag, lambda v: v * k), hop.full(3, sign * k**n))

    def test_inside_of_trees(self):
        def f(p):
            return hop.sum(hop.tanh(p["w"]) if p["act"] == "tanh" else p["w"] * p["w"])

        found = hop.grad(f)({"w": X, "act": "square"})
        self.assertEqual(found["act"], "square")
        self.equal(found["w"], 2 * X)
        self.equal(hop.grad(f)({"w": X, "act": "tanh"})["w"], 1 - hop.tanh(X) ** 2)
        batched = hop.vmap(lambda p: p["w"] * 2 if p["act"] == "square" else p["w"])
        self.equal(batched({"w": X, "act": "square"}), 2 * X)
        self.equal(batched({"w": X, "act": "none"}), X)

    def test_derivatives_of_numbers(self):
        _, pull = hop.vjp(lambda x, n, b, t: x * n, X, 3, True, "text")
        cotangents = pull(X)
        self.equal(cotangents[0], 3 * X)
        self.assertEqual((cotangents[1].item(), cotangents[1].dtype), (0, hop.int64))
        self.assertEqual((cotangents[2].item(), cotangents[2].dtype), (False, hop.bool))
        self.assertEqual(cotangents[3], "text")

    def test_what_cannot_be_differentiated(self):
        for bad, text in [("abc", "argument 0 is 'abc'"), (hop.sin, "argument 0 is the function sin")]:
            with self.assertRaisesRegex(hop.InvalidError, f"grad: {text}: derivatives need floats"):
                hop.grad(lambda s: 1.0)(bad)
        with self.assertRaisesRegex(hop.InvalidError, "argument 0 has dtype int64"):
            hop.grad(lambda s: s * 1.0)(3)
        with self.assertRaisesRegex(ValueError, "in_axes has 0 for argument 1"):
            hop.vmap(lambda x, n: x * n)(X, 3)

    def test_numbers_are_arrays_to_jit(self):
        f = hop.jit(lambda x, n: hop.sum(x * n))
        self.equal(hop.grad(f)(X, 3), 3)
        with self.assertRaisesRegex(TypeError, "static_argnums"):
            hop.grad(f)(X, "text")
        g = hop.grad(hop.jit(lambda x, n: hop.sum(x**n), static_argnums=1))
        self.equal(g(X, 3), 3 * X**2)

    def test_changing_numbers_become_arguments(self):
        g = hop.grad(lambda x, rate: hop.sum(x) * rate)
        for i in range(4):
            self.equal(g(X, 0.5 * i), 0.5 * i)
        with captures() as made:
            for i in range(4, 20):
                self.equal(g(X, 0.5 * i), 0.5 * i)
        self.assertEqual(made, [])
        n = hop.grad(lambda x, n: hop.sum(x.reshape((n, -1))[0]))  # has to be known
        for i in (1, 3, 1, 3, 1, 3):
            self.equal(n(X, i), [1, 1, 1] if i == 1 else [1, 0, 0])

    def test_vectorize(self):
        f = hop.vectorize(lambda x, mode, k: x * k if mode == "times" else x + k, excluded=(1, 2))
        for _ in range(2):
            self.equal(f(X, "times", 3), 3 * X)
            self.equal(f(X, "plus", 3), X + 3)


def ways(f):
    """f of an array under transforms and loops, as functions that are called many times."""
    g = hop.grad(lambda x: hop.sum(f(x)))
    v = hop.vmap(f)
    return {
        "grad": lambda x: g(x),
        "grad made anew": lambda x: hop.grad(lambda y: hop.sum(f(y)))(x),
        "value_and_grad": hop.value_and_grad(lambda x: hop.sum(f(x))),
        "vmap": lambda x: v(x[None, :] * 1.0),
        "vjp": lambda x: hop.vjp(f, x)[1](f(x)),
        "linearize": lambda x: hop.linearize(f, x)[1](x),
        "jvp": lambda x: hop.jvp(f, (x,), (x,)),
        "jacrev": hop.jacrev(f),
        "hessian": hop.hessian(lambda x: hop.sum(f(x))),
        "scan": lambda x: hop.scan(lambda c, r: (c * 0.5, f(r)), x, x[None, :] * 1.0),
        "map": lambda x: hop.map(f, x[None, :] * 1.0),
        "fori_loop": lambda x: hop.fori_loop(0, 2, lambda i, c: (c[0], f(c[0]) * 1.0), (x, f(x) * 1.0)),
        "while_loop": lambda x: hop.while_loop(
            lambda c: c[0] < 2, lambda c: (c[0] + 1, f(c[1]) * 0.0 + c[1]), (0, x)
        ),
        "associative_scan": lambda x: hop.associative_scan(lambda a, b: a + b * hop.mean(f(X)), x),
    }


def fresh(function, x):
    """What a call gives without anything that is kept."""
    _calls.clear_caches()
    with unittest.mock.patch.object(_calls.Table, "call", lambda *a: NotImplemented):
        return outcome(function, x)


class State(Case):
    """What was kept is used as long as everything that the function reads is as it was."""

    def changes(self, f, *steps):
        for name, way in ways(f).items():
            with self.subTest(way=name):
                steps[-1]()
                for step in steps * 2:
                    step()
                    expected = fresh(way, X)
                    for _ in range(3):
                        self.assertIsNone(differ(outcome(way, X), expected), name)

    def test_global(self):
        def change(k):
            global scale
            scale = k

        self.changes(lambda x: x * x * scale, lambda: change(2.0), lambda: change(3.0), lambda: change(X))

    def test_closure_default_attribute_item_and_helper(self):
        cell, config, table = 2.0, Config(2.0), {"k": [2.0]}

        def closed(k):
            nonlocal cell
            cell = k

        self.changes(lambda x: x * x * cell, lambda: closed(2.0), lambda: closed(weights), lambda: closed(5))

        def f(x, *, by=2.0):
            return x * x * by

        self.changes(f, lambda: f.__kwdefaults__.update(by=2.0), lambda: f.__kwdefaults__.update(by=7.0))
        self.changes(
            lambda x: x * x * config.k, lambda: setattr(config, "k", 2), lambda: setattr(config, "k", weights)
        )
        self.changes(
            lambda x: x * x * table["k"][0],
            lambda: table["k"].__setitem__(0, 3.0),
            lambda: table["k"].__setitem__(0, weights),
        )

        def helper(x):
            return x * 2.0

        def other(x):
            return x * 5.0

        use = [helper]
        steps = [functools.partial(use.__setitem__, 0, function) for function in (helper, other)]
        self.changes(lambda x: use[0](x) * x, *steps)

    def test_arrays_are_read_at_every_call(self):
        held = [weights]
        g = hop.grad(lambda x: hop.sum(x * held[0]))
        self.equal(g(X), weights)
        with captures() as made:
            for k in range(5):
                held[0] = weights * k
                self.equal(g(X), weights * k)
                self.equal(hop.scan(lambda c, r: (c + r * held[0], None), X, hop.ones((2, 3)))[0] if k else X,
                           X + 2 * weights * k if k else X)  # fmt: skip
        self.assertLessEqual(len(made), 1)  # of the scan

    def test_kept(self):
        for name, way in ways(lambda x: hop.sin(x) * x).items():
            with self.subTest(way=name):
                way(X)
                way(X)
                with captures() as made:
                    way(X)
                self.assertEqual(made, [])

    def test_transforms_of_transforms_made_anew(self):
        def call(k):
            return hop.hessian(lambda x: hop.sum(x**3) * k)(X)

        call(2.0)
        with captures() as made:
            self.equal(call(2.0), hop.diag(12 * X))
        self.assertEqual(made, [])
        self.equal(call(3.0), hop.diag(18 * X))

    def test_lambdas_made_anew(self):
        def call(k, w):
            return hop.grad(lambda x: hop.sum(x * w) * k)(X)

        call(2.0, weights)
        with captures() as made:
            self.equal(call(2.0, weights * 3), weights * 6)
        self.assertEqual(made, [])
        self.equal(call(4.0, weights), weights * 4)

    def test_random_programs(self):
        for seed in range(SEEDS):
            program = state_programs.make(seed, numpy is not None)
            space, rng = program.load(), random.Random(seed)
            try:
                every = ways(space["f"])
                way = every[rng.choice(sorted(every))]
                for step in [None, *steps_of(program, seed)]:
                    if step is not None:
                        exec(step.statement, space)
                    found = [outcome(way, X) for _ in range(2)]
                    expected = fresh(way, X)
                    for one in found:
                        wrong = differ(one, expected)
                        if wrong:
                            self.fail(f"seed {seed}: {wrong}\n{program.text()}")
            finally:
                program.unload()


class Captured(Case):
    """Functions that are captured at each call."""

    def count(self, f, *args):
        g, calls = hop.grad(f), []
        for _ in range(3):
            with captures() as made:
                calls.append(g(X, *args))
            self.assertTrue(made, "nothing was captured")
        return calls

    def test_output(self):
        def f(x):
            print("here")
            return hop.sum(x)

        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            self.count(f)
        self.assertEqual(said.getvalue().count("here"), 3)

    def test_what_moves(self):
        import time

        self.count(lambda x: hop.sum(x) * (time.perf_counter() > 0))
        self.count(lambda x: hop.sum(x) * (os.environ.get("HOP_NO_SUCH") is None))

    def test_effects_are_not_lost(self):
        log = {}

        def f(x):
            log["size"] = x.size
            return hop.sum(x)

        g = hop.grad(f)
        for n in (3, 4, 3):
            try:
                g(hop.ones(n))
            except hop.Error:
                continue  # refused
            self.assertEqual(log["size"], n)

    def test_disabled(self):
        g = hop.grad(hop.jit(lambda x: hop.sum(x * x)))
        g(X)
        with hop.disable_jit(), captures() as made:
            self.equal(g(X), 2 * X)
        self.assertTrue(made)


class Memory(Case):
    def test_functions_are_let_go(self):
        class Model:
            def __init__(self, w):
                self.w = w

            def loss(self, x):
                return hop.sum(x * self.w)

        gone = []
        for k in range(3):
            model = Model(weights * k)
            self.equal(hop.grad(model.loss)(X), weights * k)
            self.equal(hop.grad(lambda x: model.loss(x))(X), weights * k)
            gone.append(weakref.ref(model))
        model = None
        gc.collect()
        self.assertEqual([r() for r in gone], [None] * 3)

    def test_tables_are_few(self):
        for k in range(_calls._MOST_TABLES + 20):
            space = {"hop": hop}
            exec(f"def f(x):\n    return hop.sum(x * {k}.0)", space)
            self.equal(hop.grad(space["f"])(X), k)
        self.assertLessEqual(len(_calls._tables), _calls._MOST_TABLES)
        g = hop.grad(lambda x, t: hop.sum(x) * len(t))
        for k in range(100):
            self.equal(g(X, "a" * k), k)
        self.assertLessEqual(max(t.count() for t in _calls._tables.values()), 64)

    def test_clear(self):
        g = hop.grad(lambda x: hop.sum(x * x))
        self.equal(g(X), 2 * X)
        hop.clear_caches()
        with captures() as made:
            self.equal(g(X), 2 * X)
        self.assertTrue(made)

    def test_threads(self):
        wrong = []

        def work(k):
            for i in range(40):
                n = (i + k) % 5 + 1
                x = hop.arange(n, dtype=hop.float32)
                if not hop.all(hop.grad(lambda v: hop.sum(v * v) * k)(x) == 2 * k * x).item():
                    wrong.append((k, n))
                if i % 13 == 0:
                    hop.clear_caches()

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])


@dataclasses.dataclass
class Layer:
    w: object
    name: str


class Trees(Case):
    def test_dataclasses(self):
        g = hop.grad(lambda p, x: hop.sum(p.w * x) * (2 if p.name == "two" else 1))
        for name, k in [("one", 1), ("two", 2), ("one", 1)]:
            found = g(Layer(weights, name), X)
            self.assertEqual(found.name, name)
            self.equal(found.w, k * X)


if __name__ == "__main__":
    unittest.main()
