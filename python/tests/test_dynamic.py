"""jit and changing sizes: which dims become symbols and when, what programs are kept, sizes that are
declared; random programs over arrays whose sizes change give what they give without jit."""

import contextlib
import io
import os
import random
import subprocess
import tempfile
import unittest
from unittest import mock

import hop
from support import Case


def programs(f):
    """How many programs there are of a function."""
    return len(f.guards())


def types(f):
    """The types of the parameters of each program, sorted."""
    found = [p for family in [*f._shared.values(), *f._own.values()] for p in family]
    return sorted(", ".join(p.traced.function.params) for p in found)


@contextlib.contextmanager
def log():
    """What HOP_LOG=compile says."""
    out = io.StringIO()
    with mock.patch.dict(os.environ, HOP_LOG="compile"), contextlib.redirect_stderr(out):
        yield out


def array(*shape, seed=0):
    r = random.Random(repr((shape, seed)))
    n = 1
    for size in shape:
        n *= size
    return hop.reshape(hop.asarray([r.uniform(-1, 1) for _ in range(n)], dtype=hop.float32), shape)


class Rules(Case):
    def test_the_second_size_makes_a_symbol(self):
        f = hop.jit(lambda x: hop.sum(hop.sin(x)) + x)
        for i, n in enumerate((4, 7, 1, 0, 100, 4, 7)):
            x = array(n)
            self.close(f(x), hop.sum(hop.sin(x)) + x)
            self.assertEqual(programs(f), min(i + 1, 2))
        self.assertEqual(types(f), ["f32[4]", "f32[N]"])

    def test_a_thousand_lengths_of_a_gradient_of_a_loop(self):
        def loss(w, xs):
            def step(h, x):
                h = hop.tanh(w * h + x)
                return h, h

            return hop.sum(hop.scan(step, hop.asarray(0.0), xs)[1])

        f, plain = hop.jit(hop.grad(loss)), hop.grad(loss)
        before = hop._core.cache_statistics()
        for n in range(1, 1001):
            x = hop.ones(n) * 0.1
            got = f(0.5, x)
            if n in (1, 2, 3, 17, 999):
                self.close(got, plain(0.5, x))
        self.assertEqual(programs(f), 2)
        after = hop._core.cache_statistics()
        self.assertLessEqual(after["misses"] - before["misses"], 2 + 2 * 5)  # those of f, and of plain

    def test_dims_that_are_equal_share_a_symbol(self):
        f = hop.jit(lambda x, y: hop.concat([x * y, y]))
        for n in (3, 5, 6):
            f(array(n), array(n))
        self.assertEqual(types(f), ["f32[3], f32[3]", "f32[N], f32[N]"])
        g = hop.jit(lambda x, y: hop.concat([x, y]))
        for n, m in ((3, 3), (5, 4), (6, 9), (2, 2)):
            self.close(g(array(n), array(m)), hop.concat([array(n), array(m)]))
        self.assertEqual(types(g), ["f32[3], f32[3]", "f32[N], f32[M]"])

    def test_the_last_of_several_dims_waits_for_a_third_size(self):
        f = hop.jit(lambda x: hop.softmax(x, axis=-1))
        for shape in ((4, 3), (4, 5), (4, 6), (4, 7), (9, 8)):
            f(array(*shape))
        self.assertEqual(types(f), ["f32[4, 3]", "f32[4, 5]", "f32[4, N]", "f32[N, M]"])
        square = hop.jit(lambda x, mask: x @ mask)
        for n in (3, 4, 5):
            square(array(2, n), array(n, n))
        self.assertEqual(types(square), ["f32[2, 3], f32[3, 3]", "f32[2, N], f32[N, N]"])

    def test_sizes_that_a_program_does_not_take_get_one_of_their_own(self):
        f = hop.jit(lambda x, y: x + y)
        for n, m in ((3, 3), (5, 5), (6, 1), (7, 1), (1, 8), (9, 9), (1, 1)):
            self.close(f(array(n), array(m)), array(n) + array(m))
        self.assertEqual(types(f), ["f32[1], f32[N]", "f32[3], f32[3]", "f32[N], f32[1]", "f32[N], f32[N]"])

    def test_what_fixes_a_size(self):
        def unrolled(x):
            total = 0.0
            for i in range(x.shape[0]):
                total = total + x[i] * i
            return total

        f = hop.jit(unrolled)
        for n in (2, 3, 4, 5, 3):
            self.close(f(array(n)), unrolled(array(n)))
        self.assertEqual(types(f), [f"f32[{n}]" for n in (2, 3, 4, 5)])

    def test_what_divides_sizes(self):
        def f(x):
            return hop.sum(x) if x.shape[0] > 4 else hop.prod(x) + x.shape[0]

        g = hop.jit(f)
        for n in (2, 3, 7, 4, 5, 9, 1, 8):
            self.close(g(array(n)), f(array(n)))
        self.assertLessEqual(programs(g), 3)

    def test_one_program_per_size_where_that_is_wanted(self):
        f = hop.jit(lambda x: x * 2, dynamic=False)
        for n in (2, 3, 4, 5, 3):
            f(array(n))
        self.assertEqual(types(f), [f"f32[{n}]" for n in (2, 3, 4, 5)])

    def test_trees_and_arguments_by_name(self):
        def f(p, *, x):
            return p["w"] @ x + p["b"]

        g = hop.jit(f)
        for n in (3, 4, 5):
            p = {"w": array(2, n), "b": array(2)}
            self.close(g(p, x=array(n)), f(p, x=array(n)))
        self.assertEqual(types(g), ["f32[2], f32[2, 3], f32[3]", "f32[2], f32[2, N], f32[N]"])

    def test_functions_of_the_same_code_learn_together(self):
        def norm(k):
            return hop.jit(lambda x: hop.sum(x * x) * k)

        for n in range(2, 30):
            f = norm(2.0)
            self.close(f(array(n)), hop.sum(array(n) ** 2) * 2.0)
        self.assertEqual(programs(f), 2)

    def test_changed_state_and_changed_sizes(self):
        state = {"k": 2}
        f = hop.jit(lambda x: x * state["k"])
        for n, k in ((2, 2), (3, 2), (4, 2), (4, 5), (5, 5), (6, 2)):
            state["k"] = k
            self.close(f(array(n)), array(n) * k)
        self.assertEqual(types(f), ["f32[2]", "f32[N]", "f32[N]"])

    def test_donated_and_weak_arguments(self):
        f = hop.jit(lambda x, k: x * k + 1, donate_argnums=0)
        for n in (3, 4, 5):
            want = array(n) * 2.0 + 1
            self.close(f(array(n), 2.0), want)
        self.assertEqual(types(f), ["f32[3], f64[]", "f32[N], f64[]"])

    def test_strict_numbers_are_the_same_bits_in_every_program(self):
        def f(x, w):
            return hop.softmax(x @ w, axis=-1), hop.sum(x), hop.grad(lambda z: hop.mean(hop.exp(z) ** 2))(x)

        free, fixed = hop.jit(f, strict=True), hop.jit(f, strict=True, dynamic=False)
        for n in (3, 4, 17, 100, 1):
            for a, b in zip(free(array(n, 9), array(9, 5)), fixed(array(n, 9), array(9, 5))):
                self.assertEqual(a.tolist(), b.tolist())
        self.assertEqual(programs(free), 2 + 5)  # of the same code

    def test_what_the_log_says(self):
        f = hop.jit(lambda x: x + 1)
        with log() as out:
            for n in (3, 4):
                f(array(n))
        self.assertIn("captured again: x has size 4 along axis 0, not 3", out.getvalue())

        def stubborn(x):
            if not isinstance(x.shape[0], int) or type(x.shape[0]) is not int:
                raise ValueError("a size must be a number here")
            return x * 2

        g = hop.jit(stubborn)
        with log() as out:
            for n in (3, 4, 5):
                self.close(g(array(n)), array(n) * 2)
        said = "its sizes are numbers, since a capture without them failed: a size must be a number here"
        self.assertIn(said, out.getvalue())
        self.assertEqual(types(g), ["f32[3]", "f32[4]", "f32[5]"])

    def test_errors_are_those_of_the_call(self):
        f = hop.jit(lambda x, y: x * y)
        for n, m in ((3, 3), (4, 4), (5, 1)):
            f(array(n), array(m))
        for n, m in ((3, 4), (6, 2)):
            with self.assertRaises(hop.InvalidError):
                f(array(n), array(m))
        self.close(f(array(7), array(7)), array(7) ** 2)


class Declared(Case):
    def test_one_program_from_the_start(self):
        f = hop.jit(lambda x: hop.mean(x, axis=0), dims={"x": "T in 1..4096, 2"})
        for n in (3, 1, 4096):
            self.close(f(array(n, 2)), hop.mean(array(n, 2), axis=0))
        self.assertEqual(types(f), ["f32[T, 2]"])
        self.assertIn("T in 1..4096", f.text(array(3, 2)))
        wrong = (((3, 3), "axis 1, not 2"), ((0, 2), "size T is 0, not in 1..4096"), ((2,), "1 axes"))
        for shape, said in wrong:
            with self.assertRaisesRegex(hop.InvalidError, said):
                f(array(*shape))

    def test_names_are_shared_and_trees_have_trees(self):
        def f(p, x, y):
            return p["w"] @ x + p["b"] + hop.sum(y)

        dims = {"p": {"w": "M, N", "b": "M"}, "x": "N"}
        g = hop.jit(f, dims=dims)
        p = {"w": array(2, 3), "b": array(2)}
        self.close(g(p, array(3), array(4)), f(p, array(3), array(4)))
        self.assertEqual(types(g), ["f32[M], f32[M, N], f32[N], f32[4]"])
        g(p, array(3), array(5))
        self.assertEqual(programs(g), 2)
        with self.assertRaisesRegex(hop.InvalidError, "argument x has size 4 along axis 0, not N"):
            g(p, array(4), array(4))
        h = hop.jit(lambda p: p["a"] + p["b"], dims={"p": "T"})  # a prefix: for every leaf
        h({"a": array(3), "b": array(3)})
        self.assertEqual(types(h), ["f32[T], f32[T]"])

    def test_expressions_and_nothing_said(self):
        f = hop.jit(lambda x, y: hop.concat([x, x]) * y, dims={"x": "T", "y": "2*T"})
        for n in (2, 3):
            self.close(f(array(n), array(2 * n)), hop.concat([array(n), array(n)]) * array(2 * n))
        self.assertEqual(types(f), ["f32[T], f32[2*T]"])
        with self.assertRaisesRegex(hop.InvalidError, r"y has size 5 along axis 0, not 2\*T"):
            f(array(2), array(5))
        g = hop.jit(lambda x: x + 1, dims={"x": "T, _"})
        for n, m in ((2, 3), (4, 3), (5, 3), (5, 4), (5, 5)):
            g(array(n, m))
        self.assertEqual(types(g), ["f32[T, 3]", "f32[T, 4]", "f32[T, N]"])

    def test_what_needs_a_number_is_an_error(self):
        f = hop.jit(lambda x: sum(x[i] for i in range(x.shape[0])), dims={"x": "T"})
        with self.assertRaises((hop.InvalidError, hop.TracerError)):
            f(array(3))
        g = hop.jit(lambda x, y: x + y, dims={"x": "T", "y": "N"})
        self.close(g(array(3), array(3)), array(3) + array(3))
        with self.assertRaisesRegex(hop.InvalidError, "must equal"):
            g(array(3), array(4))

    def test_mistakes(self):
        for dims, error in (
            ("T", TypeError), ({"x": 3}, TypeError), ({1: "T"}, TypeError), ({"z": "T"}, hop.InvalidError),
            ({"x": "T in 5..2"}, hop.InvalidError), ({"x": "T in 1..2, T in 1..3"}, hop.InvalidError),
            ({"x": "T +"}, hop.InvalidError), ({"x": "a.b"}, hop.InvalidError),
            ({"x": "T[0]"}, hop.InvalidError),
        ):  # fmt: skip
            with self.assertRaises(error, msg=str(dims)):
                hop.jit(lambda x: x, dims=dims)
        with self.assertRaises((hop.InvalidError, ValueError)):
            hop.jit(lambda x: x, dims={"x": {"a": "T"}})(array(3))

    def test_written_as_c(self):
        f = hop.jit(lambda x, w: hop.tanh(x @ w), dims={"x": "T, 3"})
        self.assertIn("(int64_t T, const float *x, const float *w,", f.c(array(4, 3), array(3, 2)))
        with tempfile.TemporaryDirectory() as folder:
            f.export(folder, array(4, 3), array(3, 2))
            made = subprocess.run(["make", "-s", "check"], cwd=folder, capture_output=True, text=True)
            self.assertEqual(made.returncode, 0, made.stdout + made.stderr)


# ---- random programs ----


class Program:
    """A random function of two arrays, (n, 3) and (m,)."""

    def __init__(self, random):
        self.random = random

    def rows(self, depth):
        """A function (x, y) -> an array with the axes of x; its rows may be others."""
        r = self.random
        if depth == 0:
            return lambda x, y: x
        f, k = self.rows(depth - 1), r.choice([0.5, 2.0, -1.0])
        return r.choice([
            lambda x, y: hop.sin(f(x, y)) * k,
            lambda x, y: f(x, y)[1:] * k,
            lambda x, y: f(x, y)[::2],
            lambda x, y: hop.concat([f(x, y), x]),
            lambda x, y: f(x, y) + hop.sum(y),
            lambda x, y: hop.cumulative_sum(f(x, y), axis=0),
            lambda x, y: f(x, y) - hop.mean(f(x, y), axis=0),
            lambda x, y: hop.scan(lambda c, a: (c * 0.5 + a, c), hop.zeros(3), f(x, y))[1],
            lambda x, y: hop.grad(lambda z: hop.sum(hop.tanh(z) ** 2))(f(x, y)),
            lambda x, y: hop.vmap(lambda row: row * hop.sum(row))(f(x, y)),
            lambda x, y: hop.flip(f(x, y), axis=0),
            lambda x, y: f(x, y) * hop.reshape(hop.arange(f(x, y).shape[0]), (-1, 1)),
            lambda x, y: f(x, y) / (1 + f(x, y).shape[0]),
            lambda x, y: f(x, y) * 2 if x.shape[0] > y.shape[0] else f(x, y) - 1,
            lambda x, y: hop.where(f(x, y) > 0, f(x, y), hop.zeros(f(x, y).shape)),
            lambda x, y: hop.sort(f(x, y), axis=0),
            lambda x, y: hop.reshape(f(x, y), (-1,)).reshape(f(x, y).shape),
            lambda x, y: hop.cond(hop.sum(y) > 0, lambda a: a + 1, lambda a: a * 3, f(x, y)),
        ])  # fmt: skip

    def whole(self):
        r, f = self.random, self.rows(self.random.randint(1, 4))
        return r.choice([
            lambda x, y: f(x, y),
            lambda x, y: (hop.sum(f(x, y)), y * 2),
            lambda x, y: hop.grad(lambda z: hop.sum(f(z, y) ** 2))(x),
            lambda x, y: f(x, y) @ f(x, y).T,
            lambda x, y: f(x, y)[:, 0] + (y if y.shape[0] == f(x, y).shape[0] else 0.0),
            lambda x, y: hop.max(hop.concat([hop.reshape(f(x, y), (-1,)), y])),
        ])  # fmt: skip


def outcome(f, *args):
    try:
        return hop.tree.leaves(f(*args)), None
    except (hop.HopError, ValueError, IndexError, TypeError) as error:
        return None, error


class Random(Case):
    def test_programs(self):
        for seed in range(int(os.environ.get("HOP_DYNAMIC_SEEDS", "25"))):
            r = random.Random(seed)
            f = Program(r).whole()
            g = hop.jit(f)
            for step in range(7):
                n, m = r.choice([(2, 2), (3, 5), (4, 4), (5, 1), (1, 3), (6, 2), (7, 7), (0, 2), (3, 0)])
                x, y = array(n, 3, seed=step), array(m, seed=step)
                (want, error), (got, failed) = outcome(f, x, y), outcome(g, x, y)
                with self.subTest(seed=seed, n=n, m=m, step=step):
                    self.assertEqual(want is None, got is None, f"{error!r} without jit, {failed!r} with it")
                    for a, b in zip(got or (), want or ()):
                        self.close(a, b, 2e-4)


if __name__ == "__main__":
    unittest.main()
