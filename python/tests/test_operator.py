"""hop.operator: functions on NumPy arrays as operators of programs; what they get, what they may give, rules,
lanes, mutation, exceptions, lifetimes, threads."""

import gc
import itertools
import os
import signal
import sys
import threading
import traceback
import unittest
import weakref

import numpy as np

import hop
from hop import _operator
from hop._index import part_of


def arrays(*shape, seed=0):
    return hop.asarray(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


@hop.operator("(x: f32[N]) -> f32[N]")
def cumulated(x):
    return np.add.accumulate(x)


@hop.operator("(x: T[N], y: T[N]) -> (T[N], T[])")
def both(x, y):
    return x + y, (x * y).sum(dtype=x.dtype)


@hop.operator("(x: f32[N], mut s: f32[S]) -> f32[N]")
def filtered(x, s):
    s += x.sum()
    return x * s[0]


@hop.operator("(x: f32[N]) -> f32[N]")
def squared(x):
    return x * x


squared.defvjp(lambda x: (squared(x), x), lambda x, g: (2 * x * g,))


@hop.operator("(mut a: T[N], mut b: T[M])", name="ordered")
def ordered(a, b):
    a += 1
    b *= 2
    a[1:] += b[:1]


@hop.operator("(mut a: f32[N, M], mut b: f32[K, L])", name="ordered_rows")
def ordered_rows(a, b):
    ordered.function(a[0], b[-1])
    ordered.function(b[:, 0], a[:, -1])


class Calls(unittest.TestCase):
    def check(self, op, *args, wanted):
        """The same at once, under jit, portable, interpreted, in a nested jit, under disable_jit."""
        f = hop.jit(lambda *xs: op(*xs))
        outer = hop.jit(lambda *xs: f(*xs))
        found = [op(*args), f(*args), outer(*args), hop.jit(lambda *xs: op(*xs), portable=True)(*args)]
        found.append(f.lower(*args).function.interpret(*args))
        with hop.disable_jit():
            found.append(f(*args))
        for out in found:
            for a, b in zip(hop.tree.leaves(out), hop.tree.leaves(wanted)):
                np.testing.assert_array_equal(np.asarray(a), b)
                self.assertIsInstance(a, hop.Array)

    def test_everywhere(self):
        x, y = arrays(5), arrays(5, seed=1)
        self.check(cumulated, x, wanted=np.add.accumulate(np.asarray(x)))
        nx, ny = np.asarray(x), np.asarray(y)
        self.check(both, x, y, wanted=(nx + ny, (nx * ny).sum(dtype=np.float32)))

    def test_dtypes(self):
        kinds = [d for d in hop._dtypes.ALL if d is not hop.bfloat16]
        one = hop.operator("(x: T[N]) -> T[N]", lambda x: x.copy(), name="copied_any")
        for dtype in kinds:
            x = hop.asarray([0, 1, 1], dtype=dtype)
            out = hop.jit(one)(x)
            self.assertEqual((out.dtype, out.tolist()), (dtype, x.tolist()))

    def test_bfloat16(self):
        one = hop.operator("(x: T[N]) -> T[N]", lambda x: x.copy(), name="copied_bf16")
        x = hop.asarray([1, 2], dtype=hop.bfloat16)
        try:
            import ml_dtypes  # noqa: F401
        except ImportError:
            with self.assertRaisesRegex(TypeError, "NumPy has no dtype bf16: install ml_dtypes"):
                one(x)
        else:
            self.assertEqual(one(x).tolist(), [1.0, 2.0])

    def test_what_the_function_gets(self):
        got = []

        @hop.operator("(x: f32[N, 2], k: i32[], flag: bool[]) -> f32[]", name="looks")
        def looks(x, k, flag):
            got.append(
                (type(x), x.dtype, x.shape, x.flags.writeable, x.flags.c_contiguous, k.shape, k.dtype, flag)
            )
            return x.sum()

        hop.jit(lambda x, k: looks(hop.permute_dims(x, (1, 0)), k, True))(hop.ones((2, 3)), 4)
        kind, dtype, shape, writable, row_major, k, k_dtype, flag = got[0]
        self.assertIs(kind, np.ndarray)
        self.assertEqual((dtype, shape, writable, row_major), (np.float32, (3, 2), False, True))
        self.assertEqual((k, k_dtype, bool(flag)), ((), np.int32, True))

    def test_numbers_and_names(self):
        add = hop.operator("(x: f32[], y: f64[]) -> f64[]", lambda x, y: float(x) + float(y), name="add_two")
        self.assertEqual(add(1, 2.5).item(), 3.5)
        self.assertEqual(add(y=2.5, x=1).item(), 3.5)
        self.assertEqual(hop.jit(lambda x: add(x, y=1))(2.0).item(), 3.0)
        for args, named, said in (
            ((1,), {}, "nothing for y"),
            ((1, 2, 3), {}, "takes 2 arguments"),
            ((1, 2), {"y": 3}, "y is given twice"),
            ((1, 2), {"z": 3}, "z is no parameter"),
            ((1, None), {}, "y: expected an array, found None"),
            ((1, "a"), {}, "y"),
        ):
            with self.assertRaisesRegex(hop.InvalidError, said):
                add(*args, **named)

    def test_no_results_no_operands(self):
        seen = []
        note = hop.operator("(x: f32[])", lambda x: seen.append(float(x)), name="notes", effect="io")
        self.assertIsNone(note(0.0))
        self.assertEqual(hop.jit(lambda x: (note(x), note(x + 1), x)[2])(1.0).item(), 1.0)
        self.assertEqual(seen, [0.0, 1.0, 2.0])
        three = hop.operator("() -> i64[]", lambda: 3, name="gives_three")
        self.assertEqual(hop.jit(lambda: three() + 1)().item(), 4)
        self.assertEqual(three().item(), 3)

    def test_sizes(self):
        pairs = hop.operator(
            "(x: f32[N], y: f32[2*N]) -> f32[N + 1]", lambda x, y: np.append(x, y[:1]), name="pairs"
        )
        self.assertEqual(pairs(hop.ones(2), hop.zeros(4)).tolist(), [1, 1, 0])
        with self.assertRaisesRegex(hop.InvalidError, "pairs"):
            pairs(hop.ones(2), hop.ones(3))
        with self.assertRaisesRegex(hop.InvalidError, "pairs"):
            pairs(hop.ones((2, 2)), hop.ones(4))
        with self.assertRaisesRegex(hop.InvalidError, "expected f32"):
            pairs(hop.ones(2, dtype=hop.float64), hop.ones(4))
        f = hop.jit(lambda x: pairs(x, hop.concat([x, x])))
        for n in (2, 3, 4, 5):
            self.assertEqual(f(hop.ones(n)).tolist(), [1] * (n + 1))

    def test_infer(self):
        halves = hop.operator(
            "(x: f32[N]) -> f32[M]", lambda x: x[: len(x) // 2], infer=lambda N: N // 2, name="halves"
        )
        self.assertEqual(halves(hop.ones(5)).tolist(), [1, 1])
        f = hop.jit(lambda x: halves(x) * 2)
        for n in (4, 5, 6, 7):
            self.assertEqual(f(hop.ones(n)).tolist(), [2] * (n // 2))
        for infer, said in (
            (lambda N: "a", "infer"), (lambda N: (1, 2), "expected M, found 2"), (lambda N: -1, "infer"),
            (lambda N: {"K": 1}, "gives nothing for M"), (lambda K: 1, "unexpected keyword"),
        ):  # fmt: skip
            wrong = hop.operator("(x: f32[N]) -> f32[M]", lambda x: x, infer=infer, name="infers_wrong")
            with self.assertRaisesRegex((hop.InvalidError, TypeError), said):
                wrong(hop.ones(4))

    def test_sizes_that_are_found(self):
        positive = hop.operator(
            "(x: f32[N]) -> (i64[?k], f32[?k])", lambda x: (np.flatnonzero(x > 0), x[x > 0]), name="positive"
        )
        where, values = positive(hop.asarray([1.0, -1.0, 2.0]))
        self.assertEqual((where.tolist(), values.tolist()), ([0, 2], [1.0, 2.0]))
        f = hop.jit(lambda x: hop.sum(positive(x)[1]))
        self.assertEqual(f(hop.asarray([1.0, -1.0, 2.0])).item(), 3.0)
        self.assertEqual(f(hop.asarray([-1.0, -1.0, -2.0])).item(), 0.0)
        unequal = hop.operator("(x: f32[N]) -> (f32[?k], f32[?k])", lambda x: (x, x[1:]), name="unequal")
        with self.assertRaisesRegex(hop.InvalidError, "unequal"):
            unequal(hop.ones(3))

    def test_in_loops_and_branches(self):
        def f(xs):
            def step(c, x):
                c = cumulated(c + x)
                return c, hop.cond(hop.sum(c) > 0, cumulated, lambda c: c * 2, c)

            return hop.scan(step, hop.zeros(3), xs)

        xs = arrays(4, 3)
        c, stack = np.zeros(3, np.float32), []
        for x in np.asarray(xs):
            c = np.add.accumulate(c + x)
            stack.append(np.add.accumulate(c) if c.sum() > 0 else c * 2)
        for call in (f, hop.jit(f)):
            last, every = call(xs)
            np.testing.assert_allclose(np.asarray(last), c, rtol=1e-5)
            np.testing.assert_allclose(np.asarray(every), np.stack(stack), rtol=1e-5)

    def test_plain_control_flow(self):
        @hop.jit
        def f(x, n):
            while hop.sum(x) < n:
                x = cumulated(x) + 1
            return x

        self.assertEqual(f(hop.zeros(2), 10.0).tolist(), [4.0, 10.0])

    def test_calls_that_nobody_needs(self):
        seen = []

        def note(x):
            seen.append(1)
            return x * 1

        quiet = hop.operator("(x: f32[N]) -> f32[N]", note, name="quiet_calls")
        loud = hop.operator("(x: f32[N]) -> f32[N]", note, name="loud_calls", effect="io")
        hop.jit(lambda x: (quiet(x), x)[1])(hop.ones(2))
        self.assertEqual(len(seen), 0)
        hop.jit(lambda x: quiet(x) + quiet(x))(hop.ones(2))
        self.assertEqual(len(seen), 1)
        hop.jit(lambda x: (loud(x), loud(x), x)[2])(hop.ones(2))
        self.assertEqual(len(seen), 3)


class Results(unittest.TestCase):
    def test_layouts(self):
        turned = hop.operator("(x: f32[N, M]) -> f32[M, N]", lambda x: x.T, name="turned")
        x = arrays(2, 3)
        np.testing.assert_array_equal(np.asarray(hop.jit(turned)(x)), np.asarray(x).T)
        backwards = hop.operator("(x: f32[N]) -> f32[N]", lambda x: x[::-1], name="backwards")
        self.assertEqual(backwards(hop.asarray([1.0, 2.0])).tolist(), [2.0, 1.0])
        swapped = hop.operator("(x: f32[N]) -> f32[N]", lambda x: x.astype(">f4"), name="swapped")
        self.assertEqual(swapped(hop.asarray([1.0, 2.0])).tolist(), [1.0, 2.0])
        same = hop.operator("(x: f32[N]) -> f32[N]", lambda x: x, name="the_same")
        self.assertEqual(hop.jit(lambda x: same(x) + x)(hop.asarray([1.0, 2.0])).tolist(), [2.0, 4.0])

    def test_other_things_that_are_arrays(self):
        for given in (3, 3.0, np.float32(3), np.array(3, np.float32), hop.asarray(3.0)):
            one = hop.operator("(x: f32[]) -> f32[]", lambda x: given, name="gives_one")
            self.assertEqual(one(1.0).item(), 3.0)
        listed = hop.operator("(x: f32[]) -> i64[2]", lambda x: [1, 2], name="gives_list")
        self.assertEqual(listed(1.0).tolist(), [1, 2])

    def test_wrong_ones(self):
        for given, said in (
            (None, "result 0: expected f32\\[2\\], found None"),
            ("ab", "expected f32\\[2\\], found a value of the class str"),
            (np.zeros(2), "expected f32\\[2\\], found an array of float64 and shape \\(2,\\)"),
            (np.zeros(3, np.float32), "found an array of float32 and shape \\(3,\\)"),
            (np.zeros((2, 1), np.float32), "shape \\(2, 1\\)"),
            (np.zeros(2, np.int32), "found an array of int32"),
            (object(), "found a value of the class object"),
            ([1, "a"], "found a value of the class list"),
            (np.zeros(2, object), "found an array of object"),
        ):
            wrong = hop.operator("(x: f32[2]) -> f32[2]", lambda x: given, name="gives_wrong")
            for call in (wrong, hop.jit(lambda x: wrong(x))):
                with self.assertRaisesRegex(hop.InvalidError, "gives_wrong.*" + said):
                    call(hop.ones(2))
        several = hop.operator("(x: f32[]) -> (f32[], f32[])", lambda x: (x, x, x), name="gives_three_of_two")
        with self.assertRaisesRegex(hop.InvalidError, "has 2 results.* gave 3"):
            several(1.0)
        none = hop.operator("(x: f32[])", lambda x: x, name="gives_too_much", effect="io")
        with self.assertRaisesRegex(hop.InvalidError, "has no result, found an array"):
            none(1.0)

    def test_the_place_is_named(self):
        wrong = hop.operator("(x: f32[2]) -> f32[2]", lambda x: None, name="gives_none")
        f = hop.jit(lambda x: wrong(x))
        line = sys._getframe().f_lineno - 1
        with self.assertRaisesRegex(hop.InvalidError, f"test_operator.py:{line}.*gives_none"):
            f(hop.ones(2))

    def test_arguments_are_read_only(self):
        def f(x):
            x[0] = 5
            return x

        wrong = hop.operator("(x: f32[2]) -> f32[2]", f, name="writes_argument")
        with self.assertRaisesRegex(ValueError, "read-only"):
            wrong(hop.ones(2))

    def test_arrays_may_be_kept(self):
        kept = []

        @hop.operator("(x: f32[N], mut s: f32[N]) -> f32[N]", name="keeps")
        def keeps(x, s):
            s += x
            kept.extend((x, x[1:], s))
            return s

        f = hop.jit(lambda xs: hop.scan(lambda c, x: (keeps(x, c), None), hop.zeros(1000), xs)[0])
        f(hop.ones((20, 1000)))
        f(hop.zeros((20, 1000)))
        gc.collect()
        self.assertEqual([k[7] for k in kept[0:60:3]], [1.0] * 20)
        self.assertEqual([k[7] for k in kept[2:60:3]], [float(i + 1) for i in range(20)])
        self.assertEqual({float(k[7]) for k in kept[60::3]}, {0.0})
        kept[2][:] = 77  # nobody else's


class Mutation(unittest.TestCase):
    def test_arguments_hold_the_new_content(self):
        x, s = hop.asarray([1.0, 2.0]), hop.zeros(1)
        same = s
        self.assertEqual(filtered(x, s).tolist(), [3.0, 6.0])
        self.assertEqual((s.tolist(), same.tolist()), ([3.0], [3.0]))
        filtered(x, s)
        self.assertEqual(s.tolist(), [6.0])
        whole = np.zeros(1, np.float32)
        filtered(x, whole)
        self.assertEqual(whole.tolist(), [3.0])

    def test_in_programs(self):
        def f(x):
            s = hop.zeros(1)
            before = s + 0
            a = filtered(x, s)
            b = filtered(x, s)
            return a, b, s, before

        for call in (f, hop.jit(f), hop.jit(f, portable=True)):
            found = [y.tolist() for y in call(hop.asarray([1.0, 2.0]))]
            self.assertEqual(found, [[3.0, 6.0], [6.0, 12.0], [6.0], [0.0]])

    def test_old_values_stay(self):
        @hop.jit
        def f(x, s):
            old = s
            t = s + 0
            y = filtered(x, t)
            return y, t, old * 1

        y, t, old = f(hop.asarray([1.0, 2.0]), hop.ones(1))
        self.assertEqual((y.tolist(), t.tolist(), old.tolist()), ([4.0, 8.0], [4.0], [1.0]))

    def test_arguments_of_jit(self):
        step = hop.jit(lambda x, s: filtered(x, s), mut="s")
        s = hop.zeros(1)
        step(hop.asarray([1.0, 2.0]), s)
        step(hop.asarray([1.0, 2.0]), s)
        self.assertEqual(s.tolist(), [6.0])

    def test_arrays_from_outside(self):
        total = hop.zeros(1)
        f = hop.jit(lambda x: filtered(x, total))
        f(hop.asarray([1.0, 2.0]))
        f(hop.asarray([1.0, 2.0]))
        self.assertEqual(total.tolist(), [6.0])

    def test_in_loops_and_branches(self):
        @hop.jit
        def f(xs):
            s = hop.zeros(1)

            def step(c, x):
                hop.cond(x[0] > 0, lambda: filtered(x, s), lambda: x)
                return c, s + 0

            _, seen = hop.scan(step, 0.0, xs)
            return s, seen

        s, seen = f(hop.asarray([[1.0, 2.0], [-1.0, 5.0], [1.0, 0.0]]))
        self.assertEqual((s.tolist(), seen.tolist()), ([4.0], [[3.0], [3.0], [4.0]]))

    def test_plain_loops(self):
        @hop.jit
        def f(xs):
            s = hop.zeros(1)
            for x in xs:
                if x[0] > 0:
                    filtered(x, s)
            return s

        self.assertEqual(f(hop.asarray([[1.0, 2.0], [-1.0, 5.0], [1.0, 0.0]])).tolist(), [4.0])

    def test_vmap(self):
        def f(x):
            s = hop.zeros(1)
            return filtered(x, s), s

        y, s = hop.vmap(f)(hop.asarray([[1.0, 2.0], [3.0, 4.0]]))
        self.assertEqual((y.tolist(), s.tolist()), ([[3.0, 6.0], [21.0, 28.0]], [[3.0], [7.0]]))

    def test_a_failed_call_writes_nothing(self):
        @hop.operator("(mut s: f32[S]) -> f32[]", name="fails_late")
        def fails_late(s):
            s[0] = 9
            raise ArithmeticError

        s = hop.zeros(2)
        for call in (fails_late, hop.jit(lambda: fails_late(s))):
            with self.assertRaises(ArithmeticError):
                call(s) if call is fails_late else call()
            self.assertEqual(s.tolist(), [0.0, 0.0])

    def test_out(self):
        @hop.operator("(x: f32[N], out y: f32[N], out n: i64[]) -> f32[]", name="fills")
        def fills(x, y, n):
            y[:] = x * 2
            n[...] = len(x)
            return x.sum()

        for call in (fills, hop.jit(lambda x: fills(x))):
            total, y, n = call(hop.asarray([1.0, 2.0]))
            self.assertEqual((total.item(), y.tolist(), n.item()), (3.0, [2.0, 4.0], 2))
        target = hop.zeros(2)
        self.assertIs(cumulated(hop.asarray([1.0, 2.0]), out=target), target)
        self.assertEqual(target.tolist(), [1.0, 3.0])
        with self.assertRaisesRegex(hop.InvalidError, "out: expected 3 arrays, found 1"):
            fills(hop.ones(2), out=target)

    def test_wrong_targets(self):
        for s in (1.0, [1.0], (1.0,), "a"):
            with self.assertRaisesRegex(hop.InvalidError, "s: expected an array of hop, or a part"):
                filtered(hop.ones(2), s)
        fixed = np.zeros(1, np.float32)
        fixed.flags.writeable = False
        with self.assertRaisesRegex(hop.InvalidError, "s: expected an array of hop"):
            filtered(hop.ones(2), fixed)

    def test_parts(self):
        @hop.operator("(mut a: f32[N], mut b: f32[N])", name="exchanges")
        def exchanges(a, b):
            a[:], b[:] = b.copy(), a + 1

        def f(x):
            x = x + 0
            exchanges(x.at[0:2], x.at[2:4])
            exchanges(x.at[0, None], x.at[1, None])
            return x

        for call in (f, hop.jit(f)):
            self.assertEqual(call(hop.asarray([1.0, 2.0, 3.0, 4.0])).tolist(), [4.0, 4.0, 2.0, 3.0])
        rows = hop.zeros((3, 2))
        for i in range(3):
            exchanges(rows.at[i], rows.at[(i + 1) % 3])
        self.assertEqual(rows.tolist(), [[3.0, 3.0], [0.0, 0.0], [0.0, 0.0]])
        loop = hop.jit(lambda x: hop.fori_loop(0, 3, lambda i, c: (exchanges(c.at[i], c.at[i + 1]), c)[1], x))
        self.assertEqual(loop(hop.zeros((4, 1)))[:, 0].tolist(), [0.0, 0.0, 0.0, 3.0])

    def test_arrays_of_numpys_that_overlap(self):
        a = np.zeros(6, np.float32)
        ordered(a[:3], a[3:])
        self.assertEqual(a.tolist(), [1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
        ordered(a[::2], a[1::2])
        self.assertEqual(a.tolist(), [2.0, 2.0, 4.0, 0.0, 3.0, 0.0])
        for x, y in ((a[:4], a[3:]), (a, a), (a, a[::-1])):
            with self.assertRaisesRegex(hop.InvalidError, r"test_operator.*'ordered': a and b overlap: arr"):
                ordered(x, y)

    def test_absent_ones(self):
        @hop.operator("(x: f32[N], w: f32[N]?, mut s: f32[]?) -> f32[]", name="weighs")
        def weighs(x, w, s):
            y = (x if w is None else x * w).sum()
            if s is not None:
                s += y
            return y

        x, w, s = hop.asarray([1.0, 2.0]), hop.asarray([2.0, 3.0]), hop.zeros(())
        for call in (weighs, hop.jit(lambda *args: weighs(*args))):
            self.assertEqual(call(x).item(), 3.0)
            self.assertEqual(call(x, w).item(), 8.0)
            self.assertEqual(call(x, None).item(), 3.0)
        weighs(x, w, s)
        weighs(x, s=s)
        self.assertEqual(s.item(), 11.0)

    def test_lists(self):
        @hop.operator("(xs: f32[N]*, k: f32[], mut sums: f32[]*) -> f32[]", name="sums_lists")
        def sums(xs, k, sums):
            total = np.float32(0)
            for x, s in zip(xs, sums):
                if x is not None:
                    total += x.sum() * k
                if s is not None:
                    s += total
            return total

        def f(x, y):
            first, second = hop.zeros(()), hop.zeros(())
            out = sums([x, None, y], 2.0, [first, None, second])
            return out, first, second, sums([], 1.0, []), sums([x], 1.0, [None])

        x, y = hop.asarray([1.0, 2.0]), hop.asarray([3.0, 4.0])
        for call in (f, hop.jit(f), hop.jit(f, portable=True)):
            self.assertEqual([v.item() for v in call(x, y)], [20.0, 6.0, 20.0, 0.0, 3.0])
        every = hop.vmap(f)(hop.stack([x, y]), hop.stack([y, x]))
        self.assertEqual(every[0].tolist(), [20.0, 20.0])
        self.assertEqual(every[1].tolist(), [6.0, 14.0])
        with self.assertRaisesRegex(hop.InvalidError, "xs: expected a list of arrays"):
            sums(x, 1.0, [])


class Rules(unittest.TestCase):
    def test_gradients(self):
        x = arrays(4)
        f = lambda x: hop.sum(squared(x) * x)
        wanted = 3 * np.asarray(x) ** 2
        for call in (hop.grad(f), hop.jit(hop.grad(f)), hop.grad(hop.jit(f))):
            np.testing.assert_allclose(np.asarray(call(x)), wanted, rtol=1e-5)
        hop.check_grads(f, (x,), order=2)
        _, tangent = hop.jvp(f, (x,), (hop.ones(4),))
        np.testing.assert_allclose(tangent.item(), wanted.sum(), rtol=1e-5)
        np.testing.assert_allclose(np.asarray(hop.hessian(f)(x)), np.diag(6 * np.asarray(x)), rtol=1e-4)
        every = hop.vmap(hop.grad(f))(hop.stack([x, x + 1]))
        np.testing.assert_allclose(np.asarray(every[1]), 3 * (np.asarray(x) + 1) ** 2, rtol=1e-5)

    def test_in_loops(self):
        def f(x):
            return hop.sum(hop.scan(lambda c, _: (squared(c) + x, None), x, None, length=3)[0])

        hop.check_grads(f, (hop.asarray([0.3, 0.5]),), order=1)

    def test_backward_alone(self):
        cubed = hop.operator("(x: f32[N]) -> f32[N]", lambda x: x**3, name="cubed_alone")
        cubed.defvjp(None, lambda needs, g: (3 * needs[0][0] ** 2 * g,))
        hop.check_grads(lambda x: hop.sum(cubed(x)), (hop.asarray([0.3, 0.5]),), order=1)

    def test_tangents(self):
        sine = hop.operator("(x: f32[N]) -> f32[N]", np.sin, name="sine_of_numpy")
        sine.defjvp(lambda primals, tangents: (sine(*primals), hop.cos(primals[0]) * tangents[0]))
        hop.check_grads(lambda x: hop.sum(sine(x) ** 2), (hop.asarray([0.3, 0.5]),), order=2)

    def test_mutation(self):
        @hop.operator("(x: f32[N], mut s: f32[N]) -> f32[]", name="adds_up")
        def adds_up(x, s):
            s += x * x
            return x.sum()

        def backward(x, cotangents):
            g, s = cotangents
            return g + 2 * x * s, s

        adds_up.defvjp(lambda x, s: ((adds_up(x, s), s), x), backward)

        def f(x):
            s = x * 2
            return adds_up(x, s) * hop.sum(s)

        hop.check_grads(f, (hop.asarray([0.3, 0.5]),), order=1)
        self.assertEqual(f(hop.asarray([1.0, 2.0])).item(), 33.0)

    def test_vmap(self):
        calls = []

        def f(x):
            calls.append(x.shape)
            return x.sum()

        total = hop.operator("(x: f32[N]) -> f32[]", f, name="total_rows")
        rows = hop.operator(
            "(x: f32[M, N]) -> f32[M]", lambda x: (calls.append(x.shape), x.sum(1))[1], name="row_sums"
        )
        total.def_vmap(lambda size, batched, xs: (rows(xs), True))
        self.assertEqual(hop.vmap(total)(hop.ones((3, 2))).tolist(), [2.0, 2.0, 2.0])
        self.assertEqual(calls, [(3, 2)])

    def test_without_rules(self):
        with self.assertRaisesRegex(hop.InvalidError, "cumulated' has no derivatives: give it"):
            hop.grad(lambda x: hop.sum(cumulated(x)))(hop.ones(2))
        with self.assertRaisesRegex(hop.InvalidError, "has no derivatives"):
            hop.jvp(lambda x: hop.sum(cumulated(x)), (hop.ones(2),), (hop.ones(2),))
        self.assertEqual(
            hop.grad(lambda x: hop.sum(cumulated(hop.stop_gradient(x)) * x))(hop.ones(2)).tolist(), [1.0, 2.0]
        )

    def test_wrong_rules(self):
        wrong = hop.operator("(x: f32[N]) -> f32[N]", lambda x: x, name="wrong_rules")
        wrong.defvjp(lambda x: (wrong(x), None), lambda needs, g: (g, g))
        with self.assertRaisesRegex(hop.InvalidError, "2 cotangents"):
            hop.grad(lambda x: hop.sum(wrong(x)))(hop.ones(2))
        for give in (lambda: wrong.defvjp(1, 2), lambda: wrong.defjvp(1), lambda: wrong.def_vmap(None)):
            with self.assertRaises(hop.InvalidError):
                give()


class Lanes(unittest.TestCase):
    def test_each(self):
        shapes = []

        def f(x, y):
            shapes.append(x.shape)
            return x * y

        op = hop.operator("(x: f32[N], y: f32[]) -> f32[N]", f, name="each_lane")
        x, y = arrays(3, 4), arrays(3, seed=1)
        wanted = np.asarray(x) * np.asarray(y)[:, None]
        for call in (hop.vmap(op), hop.jit(hop.vmap(op))):
            shapes.clear()
            np.testing.assert_array_equal(np.asarray(call(x, y)), wanted)
            self.assertEqual(shapes, [(4,)] * 3)
        found = hop.vmap(op, in_axes=(None, 0))(x[0], y)
        np.testing.assert_array_equal(np.asarray(found), np.asarray(x)[0] * np.asarray(y)[:, None])
        found = hop.vmap(hop.vmap(op, in_axes=(0, None)), in_axes=(None, 0))(x, y)
        np.testing.assert_array_equal(np.asarray(found), np.asarray(x) * np.asarray(y)[:, None, None])

    def test_together(self):
        shapes = []

        def f(x, y):
            shapes.append((x.shape, y.shape))
            return x * y[..., None]

        op = hop.operator("(x: f32[N], y: f32[]) -> f32[N]", f, name="together_lanes", lanes="together")
        x, y = arrays(3, 4), arrays(3, seed=1)
        self.assertEqual(op(x[0], y[0]).shape, (4,))
        for call in (hop.vmap(op), hop.jit(hop.vmap(op))):
            shapes.clear()
            np.testing.assert_array_equal(np.asarray(call(x, y)), np.asarray(x) * np.asarray(y)[:, None])
            self.assertEqual(shapes, [((3, 4), (3,))])
        shapes.clear()
        found = hop.vmap(op, in_axes=(0, None))(x, y[1])
        np.testing.assert_array_equal(np.asarray(found), np.asarray(x) * np.asarray(y)[1])
        self.assertEqual(shapes, [((3, 4), (1,))])

    def test_lanes_that_stop(self):
        seen = []

        def f(x):
            seen.append(int(x))
            return x - 1

        down = hop.operator("(x: i32[]) -> i32[]", f, name="downwards", effect="io")
        out = hop.vmap(lambda n: hop.while_loop(lambda i: i > 0, down, n))(
            hop.asarray([2, 0, 3], dtype=hop.int32)
        )
        self.assertEqual((out.tolist(), seen), ([0, 0, 0], [2, 3, 1, 2, 1]))


class Parts(unittest.TestCase):
    """Parts x.at[…] of one array mean to the function what views mean to NumPy's."""

    LINES = (
        np.s_[0:4], np.s_[2:6], np.s_[4:8], np.s_[::2], np.s_[1::2], np.s_[::3], np.s_[...], np.s_[-3:],
        np.s_[3, None],
    )  # fmt: skip
    TABLES = (
        np.s_[0:2], np.s_[1:3], np.s_[:, 0:2], np.s_[:, 1:], np.s_[::2], np.s_[1::2, ::3], np.s_[...],
        np.s_[2, None], np.s_[0:3, 3, None],
    )  # fmt: skip

    def check(self, op, x, a, b, ways):
        def update(y):
            op(y.at[a], y.at[b])
            return y

        def f(y):
            return update(y + 0)

        def repeated(y):
            return hop.fori_loop(0, 2, lambda i, c: update(c), y + 0)

        once, x = x.copy(), hop.asarray(x)
        op.function(once[a], once[b])
        twice = once.copy()
        op.function(twice[a], twice[b])
        both = hop.stack([hop.asarray(once), x])
        found = {
            "at once": lambda: f(x), "jit": lambda: hop.jit(f)(x), "a loop at once": lambda: repeated(x),
            "a loop": lambda: hop.jit(repeated)(x), "vmap": lambda: hop.vmap(f)(both),
            "portable": lambda: hop.jit(f, portable=True)(x), "an argument": lambda: hop.jit(update)(x),
            "interpreted": lambda: hop.jit(f).lower(x).function.interpret(x),
        }  # fmt: skip
        wanted = {"a loop": twice, "a loop at once": twice, "vmap": np.stack([twice, once])}
        for way in ways or found:
            y = np.asarray(found[way]())
            np.testing.assert_array_equal(y, wanted.get(way, once), f"{op.name} {a} {b}: {way}")

    def test_lines(self):
        x = np.arange(8, dtype=np.float32)
        for a in self.LINES:
            for b in self.LINES:
                self.check(ordered, x, a, b, ("at once", "interpreted"))
        for a, b in ((0, 1), (0, 2), (3, 4), (3, 5), (6, 1), (6, 6), (1, 3), (8, 1)):
            self.check(ordered, x, self.LINES[a], self.LINES[b], None)
        self.check(ordered, np.arange(8, dtype=np.int8), np.s_[0:5], np.s_[3:], None)

    def test_tables(self):
        x = np.arange(12, dtype=np.float32).reshape(3, 4)
        for a in self.TABLES:
            for b in self.TABLES[:-1]:
                self.check(ordered_rows, x, a, b, ("at once", "interpreted"))
        for a, b in ((0, 1), (2, 3), (4, 5), (6, 3), (7, 3), (1, 7)):
            self.check(ordered_rows, x, self.TABLES[a], self.TABLES[b], None)
        for a, b in ((np.s_[1], np.s_[:, 2]), (np.s_[:, 1], np.s_[:, 2]), (np.s_[0], np.s_[2, 1:])):
            self.check(ordered, x, a, b, None)

    def test_where_parts_lie(self):
        x = np.zeros((3, 1, 4, 2), np.float32)
        items = (slice(None), slice(1, 2), slice(1, None), slice(None, None, 2), 0, slice(0, 1))
        for key in itertools.product(items, items[:1] + items[4:], items, (slice(None), 0, slice(1, 2))):
            part = part_of(hop.asarray(x), key)
            self.assertEqual(part.row_major, bool(x[key].flags.c_contiguous), key)
        generator = np.random.default_rng(0)
        for _ in range(500):
            a, b = [slice(*map(int, generator.integers((0, 0, 1), (8, 13, 5)))) for _ in range(2)]
            y = np.arange(12)
            one, other = part_of(hop.asarray(y), a), part_of(hop.asarray(y), b)
            self.assertEqual(one.meets(other), bool(np.intersect1d(y[a], y[b]).size), (a, b))

    def test_the_array_itself(self):
        def f(x):
            x = x + 0
            ordered(x, x.at[1:])
            ordered(x, x)
            return x

        for call in (f, hop.jit(f)):
            self.assertEqual(call(hop.ones(3)).tolist(), [6.0, 24.0, 24.0])

    def test_lists_and_others(self):
        @hop.operator("(x: f32[N], mut parts: f32[2]*, mut last: f32[2]) -> f32[]", name="lists_parts")
        def adds(x, parts, last):
            for part in parts:
                part += x[0]
            last *= 2
            return last.sum()

        def f(x, y):
            x, y, z = x + 0, y + 0, y + 5
            r = adds(x, [x.at[0:2], y, x.at[1:3], z.at[::-1]], x.at[2:])
            return r, x, y, z

        for call in (f, hop.jit(f)):
            r, x, y, z = call(hop.asarray([1.0, 2.0, 3.0, 4.0]), hop.zeros(2))
            self.assertEqual((r.item(), x.tolist()), (16.0, [2.0, 4.0, 8.0, 8.0]))
            self.assertEqual((y.tolist(), z.tolist()), ([1.0, 1.0], [6.0, 6.0]))

    def test_sizes_that_are_no_numbers(self):
        @hop.jit
        def f(x):
            x = x + 0
            ordered(x.at[1:], x.at[:-1])
            return x

        for n in (3, 4, 5, 9):
            x = np.arange(n, dtype=np.float32)
            found = np.asarray(f(hop.asarray(x)))
            ordered.function(x[1:], x[:-1])
            np.testing.assert_array_equal(found, x)

    def test_lanes_together(self):
        @hop.operator("(mut a: f32[N], mut b: f32[M])", name="together_parts", lanes="together")
        def together(a, b):
            shapes.append((a.shape, b.shape))
            ordered.function(a.T, b.T)

        def f(x):
            x = x + 0
            together(x.at[0:3], x.at[::2])
            return x

        shapes, x = [], np.arange(10, dtype=np.float32).reshape(2, 5)
        found = [hop.vmap(f)(hop.asarray(x)), hop.jit(hop.vmap(f))(hop.asarray(x))]
        self.assertEqual(shapes, [((2, 3), (2, 3))] * 2)
        wanted = x.copy()
        ordered.function(wanted[:, 0:3].T, wanted[:, ::2].T)
        for y in found:
            np.testing.assert_array_equal(y, wanted)

    def test_nothing_is_cut(self):
        def f(x):
            x = x + 1
            ordered(x.at[0:4], x.at[2:6])
            return x

        def g(x):
            y = x + 1
            z = y * 1
            ordered(y.at[0:2], y.at[2:6])
            return y, z

        one, two = hop.jit(f).lower(hop.ones(8)), hop.jit(g).lower(hop.ones(8))
        for lowered, copies in ((one, 0), (two, 1)):
            text = lowered.function.text()
            self.assertIn("views = ", text)
            self.assertNotIn("slice", text)
            self.assertIn(f"copies: {copies}\n", lowered.explain())

    def test_a_function_that_fails_or_keeps(self):
        kept = []

        @hop.operator("(mut a: f32[N], mut b: f32[M])", name="keeps_parts", effect="io")
        def keeps(a, b):
            a += 1
            kept.append((a, b))
            if len(kept) == 2:
                raise Trouble("second")

        def f(x):
            keeps(x.at[0:2], x.at[1:3])

        x = hop.zeros(3)
        f(x)
        self.assertRaises(Trouble, f, x)
        self.assertEqual(x.tolist(), [1.0, 1.0, 0.0])
        a, b = kept[0]
        a[:] = 7
        self.assertEqual((b.tolist(), x.tolist(), a.base is not None), ([7.0, 0.0], [1.0, 1.0, 0.0], True))

    def test_arrays_are_released(self):
        gone = []
        op = hop.operator(
            "(mut a: f32[N], mut b: f32[M])", lambda a, b: weakref.finalize(a.base, gone.append, 1) and None,
            name="releases_parts",
        )  # fmt: skip
        for _ in range(10):
            x = hop.zeros(3)
            op(x.at[:2], x.at[1:])
        self.assertEqual(len(gone), 10)

    def test_indices_that_are_arrays(self):
        def f(x, i):
            x = x + 0
            ordered(x.at[i], x.at[hop.asarray([3, 2])])
            return x

        one = f(hop.zeros(4), hop.asarray([0, 1]))
        self.assertEqual(one.tolist(), [1.0, 1.0, 0.0, 0.0])
        np.testing.assert_array_equal(hop.jit(f)(hop.zeros(4), hop.asarray([0, 1])), one)

    def test_where_they_cannot_be_told(self):
        ruled = hop.operator("(mut a: f32[N], mut b: f32[M])", ordered.function, name="ordered_ruled")
        ruled.defjvp(lambda primals, tangents: (primals, tangents))

        def apart(x):
            x = x + 0
            ruled(x.at[:2], x.at[2:])
            ordered(x.at[::-2], x.at[-2::-2])
            return x

        for call in (apart, hop.jit(apart)):
            self.assertEqual(call(hop.zeros(4)).tolist(), [2.0, 2.0, 0.0, 1.0])

        def overlapping(x):
            x = x + 0
            ruled(x.at[0:3], x.at[2:, ...])

        def backwards(x):
            x = x + 0
            ordered(x.at[::-1], x)

        for f, said in (
            (overlapping, r"ordered_ruled': a, .at\[0:3\], and b, .at\[2:, ...\], overlap: .* its rules see"),
            (backwards, r"ordered': a, .at\[::-1\], and b, all of the array, overlap: .* goes back"),
        ):
            for call in (f, hop.jit(f)):
                with self.assertRaisesRegex(hop.InvalidError, r"test_operator\.py:\d+: operator '" + said):
                    call(hop.zeros(4))


class Trouble(Exception):
    pass


class Exceptions(unittest.TestCase):
    def setUp(self):
        def back(x):
            if x == 2:
                raise self.error
            self.seen.append(float(x))
            return x + 1

        self.seen, self.error = [], Trouble("two")
        op = hop.operator("(x: f32[]) -> f32[]", back, name="raises_at_two", effect="io")
        self.run_ = hop.jit(lambda x: hop.fori_loop(0, 5, lambda i, c: op(c), x))

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
        self.assertEqual(self.run_(10.0).item(), 15.0)

    def test_interrupts(self):
        self.error = KeyboardInterrupt()
        with self.assertRaises(KeyboardInterrupt):
            self.run_(0.0)
        self.assertEqual(self.run_(10.0).item(), 15.0)

    def test_signals(self):
        def f(x):
            if x == 1:
                os.kill(os.getpid(), signal.SIGINT)
            return x + 1

        op = hop.operator("(x: f32[]) -> f32[]", f, name="interrupted", effect="io")
        with self.assertRaises(KeyboardInterrupt):
            hop.jit(lambda x: hop.fori_loop(0, 5, lambda i, c: op(c), x))(0.0)

    def test_runs_within_runs(self):
        inner = hop.jit(lambda x: hop.sum(cumulated(x)))
        op = hop.operator(
            "(x: f32[N]) -> f32[]", lambda x: np.float32(inner(hop.asarray(x)).item()), name="nests"
        )
        self.assertEqual(hop.jit(lambda x: op(x) + 1)(hop.ones(3)).item(), 7.0)
        traced = hop.operator(
            "(x: f32[]) -> f32[]", lambda x: hop.grad(lambda y: y * y)(float(x)), name="nests_grad"
        )
        self.assertEqual(hop.jit(lambda x: traced(x))(3.0).item(), 6.0)

    def test_during_captures(self):
        seen = []
        op = hop.operator("(x: f32[]) -> f32[]", lambda x: (seen.append(1), x)[1], name="during", effect="io")

        @hop.jit
        def f(x):
            return x + op(hop.asarray(1.0))

        self.assertEqual((f(1.0).item(), f(1.0).item(), len(seen)), (2.0, 2.0, 2))


class Definitions(unittest.TestCase):
    def test_names(self):
        self.assertEqual(
            cumulated.name, "test_operator_cumulated" if __name__ != "__main__" else "main_cumulated"
        )
        made = [hop.operator("(x: f32[]) -> f32[]", lambda x: x) for _ in range(2)]
        self.assertNotEqual(made[0].name, made[1].name)
        self.assertIn("cumulated(x: f32[N]) -> f32[N]", repr(cumulated))
        self.assertIn(cumulated.name, hop.jit(cumulated).text(hop.ones(3)))

    def test_factories(self):
        def times(k):
            @hop.operator("(x: f32[]) -> f32[]")
            def scaled(x):
                return x * np.float32(k)

            return scaled

        two, three = times(2), times(3)
        f = hop.jit(lambda x: (two(x), three(x)))
        self.assertEqual([y.item() for y in f(5.0)], [10.0, 15.0])

    def test_again(self):
        def make(k):
            def again(x):
                return x * np.float32(k)

            again.__qualname__ = "again"
            return hop.operator("(x: f32[]) -> f32[]", again)

        first = make(2)
        self.assertEqual(first(1.0).item(), 2.0)
        second = make(3)
        self.assertEqual(second.name, first.name)
        self.assertEqual(second(1.0).item(), 3.0)
        self.assertEqual(hop.jit(lambda x: second(x))(1.0).item(), 3.0)
        for call in (first, hop.jit(lambda x: first(x))):
            with self.assertRaisesRegex(hop.InvalidError, "another was defined with its name"):
                call(1.0)

        def other(x):
            return hop.asarray(x)

        other.__qualname__ = "again"
        third = hop.operator("(x: f64[]) -> f64[]", other)
        self.assertEqual(third(1.0).dtype, hop.float64)

    def test_two_of_one_name(self):
        one = hop.operator("(x: f32[]) -> f32[]", np.sin, name="one_name")
        with self.assertRaisesRegex(hop.InvalidError, "there is an operator 'one_name' already, of sin"):
            hop.operator("(x: f32[]) -> f32[]", lambda x: x, name="one_name")
        self.assertAlmostEqual(one(1.0).item(), np.sin(1.0), 6)

    def test_wrong_signatures(self):
        for text in (
            "", "x: f32[]", "(x)", "(x: f32)", "(x: f99[]) -> f32[]", "(x: f32[N) -> f32[N]",
            "(x: f32[N]) ->", "(x: f32[N], x: f32[N]) -> f32[N]", "(x: f32[2*N]) -> f32[N]",
            "(x: f32[?k]) -> f32[]", "(x: f32[]) -> U[]",
            "(x: f32[-1]) -> f32[]", "(x: f32[]) f32[]", "(x: f32[]) -> f32[] more", "(x: f32[]) -> f32[_]",
        ):  # fmt: skip
            with self.assertRaises(hop.InvalidError, msg=text):
                hop.operator(text, lambda x: x, name="wrong_signature")
        with self.assertRaisesRegex(hop.InvalidError, "add"):
            hop.operator("(x: f32[]) -> f32[]", lambda x: x, name="add")

    def test_wrong_options(self):
        for wrong in (
            dict(effect="loud"), dict(lanes="none"), dict(version=-1), dict(version="a"), dict(infer=3),
            dict(name=3), dict(strided="a"), dict(c="a"), dict(c=0), dict(c=1.5),
        ):  # fmt: skip
            with self.assertRaises(hop.InvalidError, msg=wrong):
                hop.operator("f(x: f32[]) -> f32[]", **wrong)(lambda x: x)
        with self.assertRaises(hop.InvalidError):
            hop.operator("(x: f32[]) -> f32[]")(3)
        with self.assertRaises(hop.InvalidError):
            hop.operator(3)

    def test_texts_of_programs(self):
        hop.operator("(x: f32[N]) -> f32[N]", lambda x: x + 1, name="for_texts_gone")
        kept = hop.operator("(x: f32[N]) -> f32[N]", lambda x: x + 1, name="for_texts")
        text = "hop 1\noperator @{}(x: f32[N]) -> f32[N]\n"
        text += "fn @f(%x: f32[2]) -> (f32[2]) {{ %y = {}(%x) return %y }}"
        self.assertEqual(hop.read(text.format("for_texts", "for_texts"))(hop.ones(2)).tolist(), [2.0, 2.0])
        gc.collect()
        with self.assertRaisesRegex(hop.Error, "for_texts_gone"):
            hop.read(text.format("for_texts_gone", "for_texts_gone"))(hop.ones(2))
        f = hop.jit(hop.read(text.format("for_texts", "for_texts")).vmap())
        del kept  # the program keeps it
        gc.collect()
        self.assertEqual(f(hop.ones((3, 2))).tolist(), [[2.0, 2.0]] * 3)
        del f
        gc.collect()
        self.assertNotIn("for_texts", _operator._sites)


class Lifetimes(unittest.TestCase):
    def test_released_with_the_program(self):
        def make():
            def back(x):
                return x * 2

            op = hop.operator("(x: f32[]) -> f32[]", back)
            return weakref.ref(back), op, hop.jit(lambda x: op(x))

        gone, op, f = make()
        self.assertEqual(f(1.0).item(), 2.0)
        name = op.name
        del op
        gc.collect()
        self.assertIsNotNone(gone())
        self.assertEqual(f(2.0).item(), 4.0)
        del f
        gc.collect()
        self.assertIsNone(gone())
        self.assertNotIn(name, _operator._sites)

    def test_cycles(self):
        class Holder:
            pass

        h = Holder()
        h.op = hop.operator("(x: f32[]) -> f32[]", lambda x: (h, x)[1])
        h.f = hop.jit(lambda x: h.op(x))
        h.f(1.0)
        h.op(1.0)
        gone = weakref.ref(h)
        del h
        gc.collect()
        self.assertIsNone(gone())

    def test_nothing_is_left(self):
        kinds = [np.ones(1000, np.float32) for _ in range(3)]
        given = kinds[0]
        op = hop.operator("(x: f32[N]) -> f32[N]", lambda x: given, name="counts_references")
        f = hop.jit(lambda x: op(x))
        x = hop.ones(1000)
        f(x)
        before = sys.getrefcount(given)
        for _ in range(100):
            f(x)
            op(x)
        self.assertEqual(sys.getrefcount(given), before)
        wrong = hop.operator("(x: f32[N]) -> i32[N]", lambda x: given, name="counts_wrong_references")
        for _ in range(10):
            with self.assertRaises(hop.InvalidError):
                wrong(x)
        self.assertEqual(sys.getrefcount(given), before)

    def test_arrays_are_released(self):
        gone = []
        seen = []

        def f(x):
            weakref.finalize(x, gone.append, 1)
            seen.append(1)
            return x

        op = hop.operator("(x: f32[N]) -> f32[N]", f, name="releases", effect="io")
        g = hop.jit(lambda x: op(x))
        for _ in range(10):
            g(hop.ones(10))
        self.assertEqual((len(gone), len(seen)), (10, 10))


class Threads(unittest.TestCase):
    def test_many_at_once(self):
        op = hop.operator(
            "(x: f32[N], mut s: f32[]) -> f32[N]", lambda x, s: (s.__iadd__(1), x * 2)[1], name="threaded"
        )

        @hop.jit
        def f(x):
            s = hop.zeros(())
            for _ in range(20):
                x = op(x, s) / 2
            return x, s

        x = hop.ones(100)
        f(x)
        failed = []

        def run(k):
            for _ in range(20):
                y, s = f(x * k)
                if y.tolist() != [float(k)] * 100 or s.item() != 20:
                    failed.append(k)

        threads = [threading.Thread(target=run, args=(k,)) for k in range(1, 5)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(failed, [])

    def test_exceptions_stay_on_their_thread(self):
        def f(x):
            if x < 0:
                raise Trouble(str(x))
            return x

        op = hop.operator("(x: f32[]) -> f32[]", f, name="threaded_raises", effect="check")
        g = hop.jit(lambda x: hop.fori_loop(0, 10, lambda i, c: op(c), x))
        g(1.0)
        found = {}

        def run(k):
            for _ in range(30):
                try:
                    found.setdefault(k, set()).add(g(k).item())
                except Trouble as error:
                    found.setdefault(k, set()).add(str(error))

        threads = [threading.Thread(target=run, args=(k,)) for k in (1.0, -2.0, 3.0, -4.0)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(found, {1.0: {1.0}, -2.0: {"-2.0"}, 3.0: {3.0}, -4.0: {"-4.0"}})


if __name__ == "__main__":
    unittest.main()
