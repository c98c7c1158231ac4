"""Parts of programs for other engines: what an engine gets and may give, the engines of the examples against
hop under every transform, in loops and branches; a compiled program as an engine; engines that raise, give
something else, keep what they get, call hop, and are gone."""

import gc
import os
import pathlib
import sys
import threading
import unittest
import weakref

import hop
import hop._operator
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples" / "python" / "engines"))
import numpy_engine  # noqa: E402


class Engine:
    """Whatever give(function) says; asked: the bodies."""

    arrays = "numpy"

    def __init__(self, give, name="test", version=1):
        self.name, self.version, self._give, self.asked = name, version, give, []

    def compile(self, text, params, results, function):
        self.asked.append((text, params, results, function.name))
        return self._give(function)


def by_body(function):
    """A function of Python's that runs the body."""
    return lambda *arrays: function(*[hop.asarray(x) for x in arrays])


def strict(function):
    return function.compile(strict=True)


def mlp(x, w):
    h = hop.tanh(x @ w)
    return hop.where(h > 0, h, 0.1 * h) @ w.T + hop.sum(h, axis=1, keepdims=True)


X = hop.asarray(np.linspace(-1, 1, 6).reshape(2, 3).astype(np.float32))
W = hop.asarray(np.linspace(-0.5, 1, 12).reshape(3, 4).astype(np.float32))


def scanned(f):
    return lambda x, w: hop.scan(lambda c, _: (f(c, w) * 0.5, None), x, None, length=3)[0]


def branched(f):
    return lambda x, w: hop.cond(hop.sum(x) > -1, lambda: f(x, w), lambda: x)


def looped(f):
    def run(x, w):
        return hop.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, f(c[1], w)), (0, x))[1]

    return run


PLACES = {
    "plain": lambda f: f, "scan": scanned, "cond": branched, "while": looped,
    "map": lambda f: lambda x, w: hop.map(lambda r: f(r[None], w)[0], x),
    "checkpoint": lambda f: hop.checkpoint(f),
}  # fmt: skip


def total(f):
    return lambda x, w: hop.sum(f(x, w) ** 2)


TRANSFORMS = {
    "value": lambda f: f(X, W),
    "jit": lambda f: hop.jit(f)(X, W),
    "grad": lambda f: hop.grad(total(f), (0, 1))(X, W),
    "jit of grad": lambda f: hop.jit(hop.grad(total(f), (0, 1)))(X, W),
    "jvp": lambda f: hop.jvp(f, (X, W), (X, W)),
    "vmap": lambda f: hop.vmap(f, in_axes=(0, None))(hop.stack([X, 2 * X]), W),
    "vmap of grad": lambda f: hop.vmap(hop.grad(total(f)), in_axes=(0, None))(hop.stack([X, 2 * X]), W),
    "grad of vmap": lambda f: hop.grad(
        lambda w: hop.sum(hop.vmap(f, in_axes=(0, None))(hop.stack([X, 2 * X]), w) ** 2)
    )(W),
    "grad of grad": lambda f: hop.grad(lambda w: hop.sum(hop.grad(total(f), 1)(X, w) ** 2))(W),
    "jvp of grad": lambda f: hop.jvp(hop.grad(total(f)), (X, W), (X, W)),
}  # fmt: skip


class TransformsTest(unittest.TestCase):
    def compare(self, engine, places=PLACES):
        for place in places:
            put = PLACES[place]
            for name, transform in TRANSFORMS.items():
                with self.subTest(place=place, transform=name):
                    f = hop.delegate(mlp, engine)
                    found, expected = transform(put(f)), transform(put(mlp))
                    for a, b in zip(hop.tree.leaves(found), hop.tree.leaves(expected)):
                        a, b = np.asarray(a), np.asarray(b)
                        self.assertEqual(a.shape, b.shape)
                        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4 * np.abs(b).max(initial=1))

    def test_numpy(self):
        engine = numpy_engine.NumpyEngine()
        self.compare(engine)
        self.assertTrue(any(taken for _, taken in engine.seen))

    def test_a_compiled_program(self):
        engine = Engine(strict, "strict")
        self.compare(engine)
        self.assertTrue(engine.asked)

    def test_the_body_in_python(self):
        self.compare(Engine(by_body, "body"), ("plain", "scan"))

    def test_nothing_is_taken(self):
        self.compare(Engine(lambda function: None, "nothing"), ("scan",))

    def test_a_program_in_place(self):
        self.compare(Engine(lambda function: function, "in place"), ("scan",))

    def test_onnx(self):
        try:
            import onnx_engine
        except ImportError as missing:
            self.skipTest(f"no {missing.name}: make test-peers runs it")
        engine = onnx_engine.OnnxEngine()
        self.compare(engine)
        self.assertTrue(engine.taken)


class EngineTest(unittest.TestCase):
    def test_what_an_engine_gets(self):
        engine = Engine(lambda function: None)
        hop.jit(hop.delegate(mlp, engine))(X, W)
        text, params, results, name = engine.asked[0]
        self.assertIn("fn @", text)
        self.assertEqual((params, results), (("f32[2, 3]", "f32[3, 4]"), ("f32[2, 3]",)))

    def test_equal_parts_are_compiled_once(self):
        engine = Engine(by_body)
        f = hop.delegate(mlp, engine)
        hop.jit(lambda x, w: f(f(f(x, w), w), w))(X, W)
        self.assertEqual(len(engine.asked), 1)

    def test_sizes_of_any_call(self):
        engine = Engine(by_body)
        f = hop.jit(hop.delegate(lambda x: hop.cumulative_sum(x) * 2, engine))
        for n in (3, 4, 5, 6, 0, 9):
            x = np.arange(n, dtype=np.float32)
            np.testing.assert_allclose(np.asarray(f(hop.asarray(x))), 2 * np.cumsum(x))
        self.assertLess(len(engine.asked), 4)

    def test_several_results_and_dtypes(self):
        def body(x, n):
            return {"sum": hop.sum(x), "more": (x.astype(hop.float64), n + 1, x > 0)}

        def give(function):
            return lambda x, n: (x.astype(np.float64), n + 1, x > 0, np.float32(x.sum()))

        found = hop.jit(hop.delegate(body, Engine(give)))(hop.asarray([1.0, -2.0]), hop.asarray(3))
        expected = hop.jit(body)(hop.asarray([1.0, -2.0]), hop.asarray(3))
        for a, b in zip(hop.tree.leaves(found), hop.tree.leaves(expected)):
            self.assertEqual((a.dtype, a.tolist()), (b.dtype, b.tolist()))

    def test_results_that_do_not_lie_row_by_row(self):
        def body(x):
            return x.T * 1, hop.broadcast_to(hop.sum(x), (2, 2)), x[:, ::-1] * 1

        def give(function):
            return lambda x: (x.T, np.broadcast_to(x.sum(), (2, 2)), x[:, ::-1])

        for found, expected in zip(hop.jit(hop.delegate(body, Engine(give)))(X), body(X)):
            np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-6)

    def test_arrays_of_hop(self):
        engine = Engine(lambda function: lambda x: self.assertIsInstance(x, hop.Array) or x * 2)
        engine.arrays = "hop"
        self.assertEqual(hop.jit(hop.delegate(lambda x: x + x, engine))(2.0).item(), 4.0)

    def test_effects_of_the_body(self):
        def body(x):
            hop.check(hop.all(x > 0), "positive")
            return hop.log(x)

        f = hop.jit(hop.delegate(body, Engine(strict)))
        self.assertEqual(f(1.0).item(), 0.0)
        with self.assertRaisesRegex(hop.CheckError, "positive"):
            f(-1.0)
        unused = hop.jit(lambda x: (hop.delegate(body, engine)(x), x)[1])
        engine = Engine(strict)
        with self.assertRaisesRegex(hop.CheckError, "positive"):
            unused(-1.0)

    def test_an_engine_in_the_place_of_one_that_is_gone(self):
        def result(k):  # programs are shared by functions of one code: not by those of other engines
            engine = Engine(lambda function: lambda x: x * np.float32(k), "passing")
            return hop.jit(hop.delegate(lambda x: x * 1, engine))(1.0).item()

        self.assertEqual([result(k) for k in range(5)], [0.0, 1.0, 2.0, 3.0, 4.0])

    def test_another_version_and_another_engine_of_the_name(self):
        def scaled(k, version):
            return Engine(lambda function: lambda x: x * np.float32(k), "scaled", version)

        one, two, three = scaled(2, 1), scaled(3, 1), scaled(4, 2)
        fs = [hop.delegate(lambda x: x * 1, e) for e in (one, two, three)]
        self.assertEqual([hop.jit(f)(1.0).item() for f in fs], [2.0, 3.0, 4.0])

    def test_what_programs_are_emitted_and_explained(self):
        lowered = hop.jit(hop.delegate(mlp, Engine(by_body, "named"))).lower(X, W)
        self.assertIn("engine_named", lowered.function.emit("c"))
        self.assertIn("region", lowered.function.text())

    def test_threads(self):
        f = hop.jit(hop.delegate(mlp, Engine(by_body)))
        expected, wrong = f(X, W).tolist(), []

        def work():
            for _ in range(20):
                if f(X, W).tolist() != expected:
                    wrong.append(1)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])


class CheckTest(unittest.TestCase):
    def test_right_numbers_are_compared_once(self):
        calls = []

        def body(x):
            hop.debug_callback(lambda v: calls.append(1), x)
            return x * 2

        def give(function):
            return lambda x: x * 2

        f = hop.jit(hop.delegate(body, Engine(give), check=True))
        self.assertEqual([f(float(i)).item() for i in range(3)], [0.0, 2.0, 4.0])
        self.assertEqual(len(calls), 1)

    def test_wrong_numbers(self):
        def give(function):
            return lambda x: (x * 2, x + np.asarray([0, 0, 1e-2], np.float32))

        f = hop.delegate(lambda x: (x * 2, x + 0), Engine(give, "wrong"), check=True)
        said = "engine 'wrong': result 1 .* element 2 .*f32.3.*: expected 3"
        with self.assertRaisesRegex(hop.CheckError, said):
            hop.jit(f)(hop.asarray([1.0, 2.0, 3.0]))
        f = hop.delegate(lambda x: (x * 2, x + 0), Engine(give, "near"), check=True, atol=0.1)
        hop.jit(f)(hop.asarray([1.0, 2.0, 3.0]))

    def test_nan_and_infinity_are_what_they_are(self):
        x = hop.asarray([np.nan, np.inf, -np.inf, 1.0])
        f = hop.delegate(lambda x: x + 0, Engine(lambda function: lambda x: x), check=True)
        self.assertEqual(repr(hop.jit(f)(x)), repr(x))
        f = hop.delegate(lambda x: x + 0, Engine(lambda function: np.nan_to_num), check=True)
        with self.assertRaises(hop.CheckError):
            hop.jit(f)(x)

    def test_a_compiled_program(self):
        hop.jit(hop.delegate(mlp, Engine(strict), check=True))(X, W)


class MistakesTest(unittest.TestCase):
    def fails(self, give, kind, message, body=lambda x: x * 2):
        f = hop.jit(hop.delegate(body, Engine(give, "broken")))
        with self.assertRaisesRegex(kind, message) as caught:
            f(hop.asarray([1.0, 2.0, 3.0]))
        return caught.exception

    def test_results_of_other_types(self):
        lead = "engine 'broken': result 0: expected f32.3., found "
        self.fails(lambda function: lambda x: x[1:], hop.InvalidError, lead + "f32.2.")
        self.fails(lambda function: lambda x: x.astype(np.float64), hop.InvalidError, lead + "f64.3.")
        self.fails(lambda function: lambda x: "no", hop.InvalidError, lead)
        self.fails(lambda function: lambda x: None, hop.InvalidError, lead + "None")
        self.fails(lambda function: lambda x: (x, x), hop.InvalidError, "expected 1 results, found 2")
        self.fails(lambda f: lambda x: x, hop.InvalidError, "expected 2 results", lambda x: (x, x * 2))
        self.fails(lambda function: 7, TypeError, "engine 'broken': expected a function")

    def test_programs_of_other_types(self):
        other = hop.read("fn @f(%x: f32[4]) -> (f32[4]) { %y = add(%x, %x) return %y }")
        self.fails(lambda function: other.compile(), hop.InvalidError, "engine 'broken': expected a program")
        self.fails(lambda function: other, hop.InvalidError, "parameter 0 has type f32.4.")

    def test_exceptions(self):
        def at_compile(function):
            raise KeyError("here")

        error = self.fails(at_compile, KeyError, "here")
        self.assertIn("in the engine 'broken'", "\n".join(error.__notes__))

        def at_run(x):
            raise ZeroDivisionError("there")

        self.fails(lambda function: at_run, ZeroDivisionError, "there")

    def test_what_is_updated_stays(self):
        def body(x):
            return x * 2

        def broken(x):
            raise ZeroDivisionError

        f = hop.delegate(body, Engine(lambda function: broken))

        def update(x):
            x[...] = f(x)

        x = hop.asarray([1.0, 2.0])
        with self.assertRaises(ZeroDivisionError):
            hop.jit(update, mut="x")(x)
        self.assertEqual(x.tolist(), [1.0, 2.0])

    def test_what_is_kept_does_not_change(self):
        kept = []
        f = hop.jit(hop.delegate(lambda x: x * 2, Engine(lambda function: lambda x: kept.append(x) or x * 2)))
        for i in range(3):
            f(hop.asarray([float(i)]))
        self.assertEqual([x.tolist() for x in kept], [[0.0], [1.0], [2.0]])

    def test_an_engine_calls_hop(self):
        inner = hop.jit(lambda x: x * 3)

        def give(function):
            hop.grad(lambda x: hop.sum(function(x)))(hop.ones(3))  # at compile time
            return lambda x: np.asarray(inner(hop.asarray(x)))

        f = hop.jit(hop.delegate(lambda x: x * 3, Engine(give)))
        self.assertEqual(f(hop.ones(3)).tolist(), [3.0, 3.0, 3.0])

    def test_engines_that_are_gone(self):
        engine = Engine(by_body, "going")
        f = hop.delegate(lambda x: x * 2, engine)
        program = hop.jit(f).lower(hop.ones(3)).function
        gone = weakref.ref(engine)
        del engine, f
        hop.clear_caches()
        gc.collect()
        self.assertIsNone(gone())
        self.assertEqual(program(hop.ones(3)).tolist(), [2.0, 2.0, 2.0])  # the body

    def test_nothing_is_left(self):
        def used():
            engine = Engine(by_body, "leaving")
            hop.jit(hop.grad(total(hop.delegate(mlp, engine)), (0, 1)))(X, W)
            hop.jit(hop.delegate(mlp, Engine(strict, "leaving")))(X, W)

        def names():
            hop.clear_caches()
            hop._jit._SHARED.clear()  # programs that functions of the same code share
            hop._reuse._shared.clear()
            gc.collect()
            return [name for name in hop._operator._sites if "leaving" in name]

        used()
        self.assertEqual(names(), [])

    def test_programs_keep_what_they_call(self):
        f = hop.jit(hop.delegate(lambda x: x * 2, Engine(by_body, "held")))
        f(hop.ones(3))
        gc.collect()
        self.assertEqual(f(hop.ones(3)).tolist(), [2.0, 2.0, 2.0])
        self.assertTrue([name for name in hop._operator._sites if "held" in name])

    def test_arguments(self):
        for engine in (None, 7, object(), type("E", (), {"name": 3})(), type("E", (), {"name": "x"})()):
            with self.assertRaisesRegex(TypeError, "delegate: engine"):
                hop.delegate(mlp, engine)
        with self.assertRaisesRegex(TypeError, "delegate"):
            hop.delegate(3, Engine(by_body))
        with self.assertRaisesRegex(TypeError, "rtol"):
            hop.delegate(mlp, Engine(by_body), check=True, rtol=-1)


class JsonTest(unittest.TestCase):
    def test_nodes(self):
        f = hop.jit(lambda x: hop.scan(lambda c, v: (c + v, c * v), 0.0, x)).lower(hop.ones(3)).function
        graph = f.json()
        self.assertEqual([p["type"] for p in graph["params"]], list(f.params))
        scan = next(node for node in graph["nodes"] if node["op"] == "scan")
        body = scan["bodies"][0]["function"]
        self.assertEqual([node["op"] for node in body["nodes"]], ["add", "mul"])
        self.assertIn(os.path.basename(__file__), body["nodes"][0]["place"])

    def test_constants_have_their_bits(self):
        program = hop.read(
            "const @k: f32[3] = [0.1, nan, 1e-45]\n"
            "fn @f(%x: f32[3]) -> (f32[3]) { %c = constant {value = @k} %y = add(%x, %c) return %y }"
        )
        held = [v for n in program.json()["nodes"] for v in n["attributes"].values() if isinstance(v, dict)]
        found = np.frombuffer(bytes.fromhex(held[0]["hex"]), np.float32)
        self.assertEqual(held[0]["type"], "f32[3]")
        self.assertEqual(found.tobytes(), np.asarray([0.1, np.nan, 1e-45], np.float32).tobytes())


if __name__ == "__main__":
    unittest.main()
