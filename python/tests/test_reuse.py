"""Functions called again inside of captures: captured, transformed and compiled once, and right when what
they read changes from one call to the next."""

import contextlib
import contextvars
import functools
import io
import json
import queue
import random
import re
import sys
import threading
import unittest

import hop
from support import Case, needs_numpy, numpy


CALLS = 48
SCALE = 2.0


def block(p, x):
    """Large enough to be compiled once."""
    a = hop.tanh(x @ p["u"]) * hop.sin(x @ p["u"])
    b = hop.cos(a) * a + hop.tanh(a * a)
    y = hop.tanh(b @ p["v"]) + x
    return hop.sin(y) * hop.tanh(y * 0.5) + hop.cos(y) * x


def weights(n, seed=0):
    r = random.Random(seed)

    def array(rows, columns):
        return hop.asarray([[r.uniform(-0.3, 0.3) for _ in range(columns)] for _ in range(rows)])

    return [{"u": array(16, 32), "v": array(32, 16)} for _ in range(n)], array(8, 16)


def chain(f):
    def whole(ps, x):
        for p in ps:
            x = f(p, x)
        return hop.sum(x)

    return whole


def shared(lowered):
    """(bodies that are compiled once, calls of them, bytes of code)"""
    said = json.loads(lowered.explain("json"))
    return len(said["shared"]), sum(q["calls"] for q in said["shared"]), said["code_bytes"]


class Counts(Case):
    def counted(self, f, *, jit=hop.jit):
        runs = []

        def g(*args):
            runs.append(None)
            return f(*args)

        return jit(g), runs

    def test_one_capture_however_many_calls(self):
        for n in (1, 4, CALLS):
            ps, x = weights(n)
            f, runs = self.counted(lambda p, x: block(p, x))
            f.clear_cache()
            self.close(hop.jit(chain(f))(ps, x), chain(block)(ps, x), 1e-4)
            self.assertEqual(len(runs), 1)

    def test_one_capture_for_value_and_gradient(self):
        ps, x = weights(6)
        f, runs = self.counted(lambda p, x: block(p, x) * 1)
        f.clear_cache()
        found = hop.jit(hop.grad(chain(f)))(ps, x)
        expected = hop.grad(chain(block))(ps, x)
        for a, b in zip(found, expected):
            self.close(a["u"], b["u"], 1e-3)
            self.close(a["v"], b["v"], 1e-3)
        hop.jit(chain(f))(ps, x)
        hop.grad(chain(f))(ps, x)
        self.assertEqual(len(runs), 1)

    def test_bodies_and_code_do_not_grow_with_calls(self):
        few, many = weights(6), weights(CALLS)
        inner = hop.jit(block)
        for make in (chain, lambda f: hop.grad(chain(f))):
            a = shared(hop.jit(make(inner)).lower(*few))
            b = shared(hop.jit(make(inner)).lower(*many))
            self.assertEqual(a[0], b[0])
            self.assertGreater(b[1], a[1] + CALLS - 7)
            self.assertLess(b[2], a[2] + 256)  # calls are one loop over a list

    def test_stacked_weights_are_no_code(self):
        def whole(ps, x):
            for i in range(ps["u"].shape[0]):
                x = inner({name: a[i] for name, a in ps.items()}, x)
            return hop.sum(x)

        inner = hop.jit(lambda p, x: block(p, x) * p["s"] + p["b"])  # small ones, too
        found = {}
        for n in (12, CALLS):
            ps, x = weights(n)
            ps = {name: hop.stack([p[name] for p in ps]) for name in ("u", "v")}
            ps["s"], ps["b"] = hop.ones((n, 16)), hop.zeros((n, 16))
            gradient = hop.jit(hop.grad(whole))
            found[n] = shared(gradient.lower(ps, x))
            said = gradient.explain(ps, x)
            self.assertIn("copies: 0\n", said)
            expected = hop.grad(whole)(ps, x)  # an operator at a time
            for name, a in gradient(ps, x).items():
                self.close(a, expected[name], 1e-3)
        self.assertEqual(found[12][0], found[CALLS][0])
        self.assertLess(found[CALLS][2], found[12][2] + 256)

    def test_functions_of_the_program_do_not_grow_with_calls(self):
        inner = hop.jit(block)
        texts = [hop.jit(hop.grad(chain(inner))).lower(*weights(n)).text() for n in (4, CALLS)]
        few, many = (len(re.findall(r"^fn ", text, re.M)) for text in texts)
        self.assertEqual(few, many)

    def test_calls_say_whether_they_are_put_in_place(self):
        def small(p, x):
            return hop.tanh(x @ p["u"]) @ p["v"]

        ps, x = weights(4)
        for f, inline, bodies in (
            (small, None, 0), (small, True, 0), (small, False, 1),
            (block, None, 1), (block, True, 0), (block, False, 1),
        ):  # fmt: skip
            with self.subTest(f=f.__name__, inline=inline):
                inner = hop.jit(f, inline=inline)
                lowered = hop.jit(chain(inner)).lower(ps, x)
                gradient = hop.jit(hop.grad(chain(inner))).lower(ps, x)
                self.assertEqual(shared(lowered)[0], bodies)
                self.assertEqual(shared(gradient)[0], 2 * bodies)
                said = {None: "", True: "{inline = yes} ", False: "{inline = no} "}[inline]
                self.assertEqual(lowered.text().count(f"invoke_subgraph {said}@"), 4)
                reason = "by its size" if inline is None else "as written"
                self.assertEqual(lowered.explain().count(f"called in 4 places: {reason}"), bodies)
                self.close(hop.jit(chain(inner))(ps, x), chain(f)(ps, x), 1e-4)

    def test_inline_is_true_or_false(self):
        with self.assertRaisesRegex(TypeError, "jit: inline: expected True or False, found 'no'"):
            hop.jit(block, inline="no")

    def test_new_kinds_of_arguments_are_captured(self):
        f, runs = self.counted(lambda x, y: x * y)
        f.clear_cache()

        @hop.jit
        def whole(x, n):
            a = f(x, x)
            b = f(x, 2.0)  # weak
            c = f(n, n)
            return a, b, c, f(x, x), f(x[:1], x[:1])

        x, n = hop.asarray([1.5, 2.0]), hop.asarray([3, 4])
        a, b, c, d, e = whole(x, n)
        self.equal(a, [2.25, 4.0], hop.float32)
        self.equal(b, [3.0, 4.0], hop.float32)
        self.equal(c, [9, 16])
        self.equal(d, [2.25, 4.0])
        self.equal(e, [2.25])
        self.assertEqual(len(runs), 4)

    def test_static_arguments(self):
        runs = []

        @hop.jit
        def whole(x):
            return [power(x, n) for n in (1, 2, 3, 2, 1, True)]

        def raised(x, n):
            runs.append(n)
            return x**n

        power = hop.jit(raised, static_argnums=1)
        power.clear_cache()
        found = whole(hop.asarray(2.0))
        self.assertEqual([x.item() for x in found], [2, 4, 8, 4, 2, 2])
        self.assertEqual(runs, [1, 2, 3, True])

    def test_functions_made_anew_share_what_was_captured(self):
        runs = []

        def layer(w):
            def apply(x):
                runs.append(None)
                return hop.tanh(x * w)

            return hop.jit(apply)

        @hop.jit
        def whole(ws, x):
            for w in ws:
                x = layer(w)(x)
            return x

        ws, x = [hop.asarray(0.5 + i / 8) for i in range(9)], hop.asarray([1.0, 2.0])
        expected = x
        for w in ws:
            expected = hop.tanh(expected * w)
        self.close(whole(ws, x), expected, 1e-6)
        self.assertEqual(len(runs), 1)

    def test_in_loops_and_branches(self):
        f, runs = self.counted(lambda c, x: hop.tanh(c * x) + c)
        f.clear_cache()

        @hop.jit
        def whole(xs):
            def step(c, x):
                c = f(f(c, x), x)
                c = hop.cond(x > 0, lambda c: f(c, x), lambda c: f(c, -x), c)
                return c, f(c, x)

            return hop.scan(step, hop.asarray(0.5), xs)

        def plain(xs):
            c, ys = 0.5, []
            g = lambda c, x: hop.tanh(hop.asarray(c) * x) + c  # noqa: E731
            for x in xs.tolist():
                c = g(g(c, x), x)
                c = g(c, x) if x > 0 else g(c, -x)
                ys.append(g(c, x).item())
            return c, ys

        xs = hop.asarray([0.5, -1.0, 2.0])
        (last, ys), (want, rows) = whole(xs), plain(xs)
        self.close(last, want.item(), 1e-5)
        self.close(ys, rows, 1e-5)
        self.assertEqual(len(runs), 1)

    def test_nested(self):
        inner, runs = self.counted(lambda x: hop.sin(x) * x)
        outer, more = self.counted(lambda x: inner(inner(x)) + inner(x))
        inner.clear_cache(), outer.clear_cache()
        f = lambda x: hop.sin(x) * x  # noqa: E731
        g = lambda x: f(f(x)) + f(x)  # noqa: E731
        x = hop.asarray([0.3, 0.7])
        self.close(hop.jit(lambda x: outer(outer(x)))(x), g(g(x)), 1e-6)
        self.close(
            hop.jit(hop.grad(lambda x: hop.sum(outer(outer(x)))))(x), hop.grad(lambda x: hop.sum(g(g(x))))(x)
        )
        self.assertEqual((len(runs), len(more)), (1, 1))

    def test_recursion(self):
        @hop.jit
        def whole(x):
            return power(x, 5)

        def step(x, n):
            return x if n == 0 else power(x, n - 1) * x

        power = hop.jit(step, static_argnums=1)
        self.equal(whole(hop.asarray(2.0)), 64.0)


class Transforms(Case):
    def test_gradients_in_a_loop(self):
        runs = []

        @hop.jit
        def energy(x):
            runs.append(None)
            return hop.sum(hop.sin(x) * x * x)

        energy.clear_cache()
        slope = hop.grad(energy)

        def descend(x):
            for _ in range(CALLS):
                x = x - 0.01 * slope(x)
            return x

        def plain(x):
            for _ in range(CALLS):
                x = x - 0.01 * hop.grad(lambda x: hop.sum(hop.sin(x) * x * x))(x)
            return x

        x = hop.asarray([0.5, 1.0, 2.0])
        self.close(hop.jit(descend)(x), plain(x), 1e-5)
        self.assertEqual(len(runs), 1)
        ((body, _),) = next(iter(energy._bodies._shared.values()))
        self.assertEqual(list(body._made), [("transform", "value_and_grad", "x")])
        hop.jit(lambda x: energy(x) + energy(x))(x)
        self.assertEqual(len(runs), 1)

    def test_all_of_them(self):
        runs = []

        @hop.jit
        def f(x):
            runs.append(None)
            return hop.sum(hop.sin(x) * x)

        def g(x):
            return hop.sum(hop.sin(x) * x)

        makers = [
            hop.grad,
            hop.value_and_grad,
            lambda f: hop.grad(lambda x: hop.sum(hop.grad(f)(x) ** 2)),
            lambda f: hop.vmap(f),
            lambda f: hop.vmap(hop.grad(f)),
            lambda f: hop.vmap(f, in_axes=1),
            hop.jacfwd,
            hop.jacrev,
            hop.hessian,
            lambda f: lambda x: hop.jvp(f, (x,), (x,)),
            lambda f: lambda x: hop.vjp(f, x)[1](2.0)[0],
            lambda f: lambda x: hop.linearize(f, x)[1](x),
            lambda f: hop.grad(hop.checkpoint(f)),
            lambda f: hop.checkpoint(hop.grad(f)),
        ]
        for k, make in enumerate(makers):
            x = hop.asarray([[0.5, 1.0], [2.0, 3.0]]) if 3 <= k < 6 else hop.asarray([0.5, 1.0])
            expected = hop.tree.leaves(make(g)(x))
            f.clear_cache()
            del runs[:]
            made = make(f)
            for run in (made, hop.jit(made), made, hop.jit(lambda x: [made(x), made(x)][1])):
                for a, b in zip(hop.tree.leaves(run(x)), expected):
                    self.close(a, b, 1e-5)
            self.assertEqual(len(runs), 1, k)

    def test_state_that_changes(self):
        cfg = {"k": 2.0}
        f = hop.jit(lambda x: hop.sum(x * x * cfg["k"]))
        slope = hop.grad(f)
        x = hop.asarray([1.0, 3.0])
        self.equal(slope(x), [4.0, 12.0])
        cfg["k"] = 0.5
        self.equal(slope(x), [1.0, 3.0])
        self.equal(hop.vmap(slope)(hop.asarray([[1.0, 3.0]])), [[1.0, 3.0]])
        cfg["k"] = 2.0
        self.equal(hop.vmap(slope)(hop.asarray([[1.0, 3.0]])), [[4.0, 12.0]])

    def test_arrays_that_change(self):
        w = hop.asarray([1.0, 2.0])
        slope = hop.grad(hop.jit(lambda x: hop.sum(x * w)))
        self.equal(slope(hop.ones(2)), [1.0, 2.0])
        w[0] = 7.0
        self.equal(slope(hop.ones(2)), [7.0, 2.0])

    def test_checkpoint(self):
        def f(p, x):
            return block(p, x)

        ps, x = weights(5)
        kept, runs = hop.checkpoint(f), []
        sys.setprofile(lambda frame, event, _: runs.append((frame.f_code, event)))
        try:
            found = hop.jit(hop.grad(chain(kept)))(ps, x)
        finally:
            sys.setprofile(None)
        self.assertEqual(runs.count((f.__code__, "call")), 1)
        for a, b in zip(found, hop.grad(chain(block))(ps, x)):
            self.close(a["u"], b["u"], 1e-3)
        slow = hop.checkpoint(lambda x, n: x**n, static_argnums=1)
        self.equal(hop.jit(lambda x: slow(x, 2) + slow(x, 3) + slow(x, 2))(hop.asarray(2.0)), 16.0)
        number = hop.checkpoint(lambda x: 2.0)
        self.equal(hop.jit(lambda x: number(x) * x)(hop.asarray(3, dtype="int32")), 6.0)

    def test_disable_jit(self):
        runs = queue.SimpleQueue()

        @hop.jit
        def f(x):
            runs.put(None)
            return x * x

        with hop.disable_jit():
            for _ in range(3):
                self.equal(hop.grad(f)(hop.asarray(3.0)), 6.0)
        self.assertEqual(runs.qsize(), 3)


class State(Case):
    """Between two calls in one capture something changes."""

    def test_items_globals_attributes(self):
        global SCALE
        cfg = {"k": 1.0}

        class Model:
            rate = 1.0

        model = Model()
        f = hop.jit(lambda x: x * cfg["k"] * SCALE * model.rate)

        def changing(x):
            global SCALE
            out = [f(x)]
            cfg["k"] = 3.0
            out.append(f(x))
            SCALE = 5.0
            out.append(f(x))
            model.rate = 7.0
            out.append(f(x))
            cfg["k"], SCALE, model.rate = 1.0, 2.0, 1.0
            out.append(f(x))
            return out

        for whole in (changing, hop.grad(lambda x: hop.sum(hop.stack(changing(x))))):
            expected = [2.0, 6.0, 15.0, 105.0, 2.0]
            found = hop.jit(whole)(hop.asarray(1.0))
            if isinstance(found, list):
                self.close(hop.stack(found), expected)
            else:
                self.close(found, sum(expected))

    def test_cells_with_traced_values(self):
        runs = []

        def whole(x):
            w = x + 1.0

            def f(y):
                runs.append(None)
                return y * w

            g, out = hop.jit(f), []
            for k in range(4):
                w = x + k
                out.append(g(x))
            return out

        self.assertEqual([y.item() for y in hop.jit(whole)(hop.asarray(3.0))], [9.0, 12.0, 15.0, 18.0])
        self.assertEqual(len(runs), 1)
        found = hop.jit(hop.grad(lambda x: sum(whole(x))))(hop.asarray(3.0))
        self.equal(found, 30.0)

    def test_cells_with_values_of_loops(self):
        def whole(xs):
            def step(c, x):
                f = hop.jit(lambda y: y * c + x)
                return f(f(x)), f(c)

            return hop.scan(step, hop.asarray(1.0), xs)

        xs = hop.asarray([2.0, 3.0])
        last, ys = hop.jit(whole)(xs)
        c, rows = 1.0, []
        for x in (2.0, 3.0):
            rows.append(c * c + x)
            c = (x * c + x) * c + x
        self.equal(last, c)
        self.equal(ys, rows)

    def test_values_assigned_between_calls(self):
        def whole(x):
            h = x * 2
            f = hop.jit(lambda y: y * h)
            a = f(x)
            h[0] = 7.0
            return a, f(x), h

        a, b, h = hop.jit(whole)(hop.ones(2))
        self.assertEqual((a.tolist(), b.tolist(), h.tolist()), ([2.0, 2.0], [7.0, 2.0], [7.0, 2.0]))

    def test_defaults_and_partials(self):
        def whole(x):
            out, apart = [], hop.jit(lambda y, w: y * w)
            for k in range(3):

                def f(y, w=x * k):
                    return y * w

                out += [hop.jit(f)(x), functools.partial(apart, w=x + k)(x)]
            return out

        found = [y.item() for y in hop.jit(whole)(hop.asarray(2.0))]
        self.assertEqual(found, [0.0, 4.0, 4.0, 6.0, 8.0, 8.0])

    def test_pullbacks_among_results(self):
        f = hop.jit(lambda x: hop.vjp(lambda z: hop.sum(hop.sin(z) * z), x))
        slope = hop.grad(lambda z: hop.sum(hop.sin(z) * z))
        x = hop.ones(2)
        found = hop.jit(lambda x: [f(x * k)[1](1.0)[0] for k in (1, 2, 3)])(x)
        for k, y in enumerate(found):
            self.close(y, slope(x * (k + 1)), 1e-6)

    def test_objects_with_traced_values(self):
        class Layer:
            def __init__(self, w):
                self.w = w

            def __call__(self, x):
                return x * self.w["a"] + self.w["b"][0]

            def method(self, x):
                return x - self.w["a"]

        def whole(x):
            layers = [Layer({"a": x + i, "b": [x * i]}) for i in range(3)]
            out = [hop.jit(layer)(x) for layer in layers]
            return out + [hop.jit(layer.method)(x) for layer in layers]

        found = [y.item() for y in hop.jit(whole)(hop.asarray(2.0))]
        self.assertEqual(found, [4.0, 8.0, 12.0, 0.0, -1.0, -2.0])

    def test_arrays_made_in_the_capture_around(self):
        def whole(x):
            out = []
            for i in range(3):
                w = hop.asarray([1.0 + i, 2.0])
                v = w.reshape((2, 1))
                out += [hop.jit(lambda y: y * w)(x), hop.jit(lambda y: hop.sum(y * v))(x)]
            return out

        found = [y.tolist() for y in hop.jit(whole)(hop.ones(2))]
        self.assertEqual(found, [[1.0, 2.0], 6.0, [2.0, 2.0], 8.0, [3.0, 2.0], 10.0])

    def test_constants_of_the_body(self):
        runs = []

        def f(x):
            runs.append(None)
            return x * hop.asarray([1.0, 2.0])

        g = hop.jit(f)
        self.equal(hop.jit(lambda x: g(g(g(x))))(hop.ones(2)), [1.0, 8.0])
        self.assertEqual(len(runs), 1)

    @needs_numpy
    def test_numpy_arrays(self):
        w, table = numpy.ones(2, "float32"), numpy.arange(3.0)
        f = hop.jit(lambda x: x * w + float(numpy.sum(table)))

        def whole(x):
            out = [f(x)]
            w[0] = 5.0
            out.append(f(x))
            table[0] = 10.0
            out.append(f(x))
            w[0], table[0] = 1.0, 0.0
            return out

        # what the arrays hold while the program is captured, which a second capture finds as it was
        found = [y.tolist() for y in whole(hop.ones(2))]
        self.assertEqual(found, [[4.0, 4.0], [8.0, 4.0], [18.0, 14.0]])
        g = hop.jit(lambda x: f(x) + f(x))
        self.equal(g(hop.ones(2)), [8.0, 8.0])
        w[0] = 5.0
        self.equal(g(hop.ones(2)), [16.0, 8.0])
        table[0] = 10.0
        self.equal(g(hop.ones(2)), [36.0, 28.0])

    def test_arrays_assigned_between_runs(self):
        w = hop.asarray([1.0, 2.0])
        f = hop.jit(lambda x: x * w)
        g = hop.jit(lambda x: f(f(x)))
        self.equal(g(hop.ones(2)), [1.0, 4.0])
        w[0] = 3.0
        self.equal(g(hop.ones(2)), [9.0, 4.0])

    def test_parts_of_arrays(self):
        runs, w = [], hop.asarray([[1.0, 2.0], [3.0, 4.0]])

        def f(x):
            runs.append(None)
            return x * w[0] + w[1]

        g = hop.jit(f)
        h = hop.jit(lambda x: g(g(x)))
        self.equal(h(hop.ones(2)), [7.0, 16.0])
        w[0] = hop.asarray([5.0, 6.0])
        self.equal(h(hop.ones(2)), [43.0, 64.0])
        self.assertEqual(len(runs), 1)

        def whole(x):
            out = []
            for i in range(3):
                v = hop.asarray([[1.0 + i, 2.0], [3.0, 4.0]])
                out += [hop.jit(lambda y: y * v[0])(x), hop.jit(lambda y: y * w[i % 2])(x)]
            return out

        found = [y.tolist() for y in hop.jit(whole)(hop.ones(2))]
        self.assertEqual(found[::2], [[1.0, 2.0], [2.0, 2.0], [3.0, 2.0]])
        self.assertEqual(found[1::2], [[5.0, 6.0], [3.0, 4.0], [5.0, 6.0]])

    def test_arrays_that_python_reads(self):
        n = hop.asarray(2)
        f = hop.jit(lambda x: x ** int(n))
        g = hop.jit(lambda x: f(x) + f(x))
        self.equal(g(hop.asarray(3.0)), 18.0)
        n[()] = 3
        self.equal(g(hop.asarray(3.0)), 54.0)

    def test_what_cannot_be_known_is_captured_each_time(self):
        current = contextvars.ContextVar("current")
        local = threading.local()

        class Model:
            def __init__(self):
                self._w = 0.0

            @property
            def w(self):
                return self._w

            def __getattr__(self, name):
                return self._w

        model = Model()

        def whole(x):
            ws = iter([x, x * 2, x * 3])
            f = hop.jit(lambda y: y * next(ws))
            g = hop.jit(lambda y: y * current.get())
            h = hop.jit(lambda y: y * local.w)
            i, j = hop.jit(lambda y: y * model.w), hop.jit(lambda y: y * model.other)
            out = [f(x), f(x), f(x)]
            for k in (1.0, x):
                current.set(k), setattr(local, "w", k), setattr(model, "_w", k)
                out += [g(x), h(x), i(x), j(x)]
            model._w = 0.0
            local.w = current.set(0.0)
            return out

        found = [y.item() for y in hop.vmap(lambda x: hop.stack(whole(x)))(hop.asarray([2.0]))[0]]
        self.assertEqual(found, [4.0, 8.0, 12.0, 2.0, 2.0, 2.0, 2.0, 4.0, 4.0, 4.0, 4.0])

    def test_state_that_a_body_changes(self):
        seen = {"n": 0}

        def f(x):
            seen["n"] += 1
            return x * seen["n"]

        g = hop.jit(f)
        self.equal(hop.vmap(lambda x: g(x) + g(x) * 10)(hop.ones(2)), [21.0, 21.0])

    def test_constants_in_results(self):
        class Tag:
            pass

        tag = Tag()
        f = hop.jit(lambda x: (x, "text", None, tag))

        def whole(x):
            nonlocal tag
            a = f(x)
            first, tag = tag, Tag()
            b = f(x)
            self.assertIs(a[3], first)
            self.assertIs(b[3], tag)
            return a[0], b[1:3]

        x, rest = hop.jit(whole)(hop.asarray(1.0))
        self.assertEqual(rest, ("text", None))

    def test_weak_results_and_values(self):
        f = hop.jit(lambda x: (x * 2, 3.0))

        @hop.jit
        def whole(n):
            a, b = f(1.5)
            c, d = f(2.5)
            return n + a, n + b, n * c, n * d

        found = whole(hop.asarray(2, dtype=hop.float16))
        self.assertEqual([x.item() for x in found], [5.0, 5.0, 10.0, 6.0])
        self.assertEqual({x.dtype.name for x in found}, {"float16"})

    def test_weak_cells(self):
        def whole(x, k):
            f = hop.jit(lambda y: y * k)
            return f(x), f(x)

        a, b = hop.jit(whole)(hop.asarray(2, dtype=hop.float16), 1.5)
        self.assertEqual((a.item(), b.item(), b.dtype.name), (3.0, 3.0, "float16"))


class Effects(Case):
    def test_prints_and_callbacks(self):
        seen = []

        def body(x):
            hop.print("x = {}", x)
            hop.debug_callback(lambda x: seen.append(x.item()), x)
            return x + 1

        f = hop.jit(body)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.equal(hop.jit(lambda x: f(f(f(x))))(hop.asarray(1.0)), 4.0)
        self.assertEqual(out.getvalue().splitlines(), ["x = 1", "x = 2", "x = 3"])
        self.assertEqual(seen, [1.0, 2.0, 3.0])

    def test_checks(self):
        def body(x):
            hop.check(x < 3, "too large:", x)
            return x + 1

        f = hop.jit(body)
        g = hop.jit(lambda x: f(f(x)))
        self.equal(g(hop.asarray(1.0)), 3.0)
        with self.assertRaisesRegex(hop.CheckError, r"too large: \(3\)"):
            g(hop.asarray(2.0))

    def test_errors(self):
        broken = {"it": True}

        def body(x):
            if broken["it"]:
                raise KeyError("broken")
            return x + 1

        f = hop.jit(body)

        def whole(x):
            for _ in range(2):
                with self.assertRaises(KeyError):
                    f(x)
            broken["it"] = False
            y = f(x)
            broken["it"] = True
            with self.assertRaises(KeyError):
                f(x)
            with self.assertRaisesRegex(hop.InvalidError, "test_reuse.py"):
                hop.jit(lambda x, y: x @ y)(x, hop.ones((2, 2)))
            return y

        self.equal(hop.vmap(whole)(hop.ones(2)), [2.0, 2.0])

    def test_random_keys(self):
        @hop.jit
        def noisy(key, x):
            return x + hop.random.normal(key, x.shape)

        def whole(key, x):
            keys = hop.random.split(key, 4)
            return [noisy(k, x) for k in keys]

        key, x = hop.random.key(3), hop.zeros(3)
        expected = [hop.random.normal(k, (3,)) for k in hop.random.split(key, 4)]
        for a, b in zip(hop.jit(whole)(key, x), expected):
            self.close(a, b, 1e-6)

    def test_leaks_are_noticed(self):
        kept = queue.SimpleQueue()
        f = hop.jit(lambda x: kept.put(x) or x)
        hop.jit(lambda x: f(f(x)))(hop.asarray(1.0))
        with self.assertRaises(hop.TracerError):
            kept.get() + 1

    def test_threads(self):
        f = hop.jit(lambda p, x: block(p, x))
        ps, x = weights(8)
        expected, found = chain(block)(ps, x), {}

        def work(i):
            found[i] = [hop.jit(chain(f))(ps, x), hop.grad(chain(f))(ps, x)[0]["u"]]

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for i in range(4):
            self.close(found[i][0], expected, 1e-4)
            self.equal(found[i][1], found[0][1].tolist())


class Sizes(Case):
    def test_symbols_of_the_program_around(self):
        f = hop.jit(lambda x: x * x.shape[0] + hop.sum(x))
        g = hop.jit(lambda x: f(f(x)) + f(x[: x.shape[0] // 2].sum() + x))
        for n in (2, 3, 4, 5, 8):
            x = hop.arange(n, dtype=hop.float32)
            h = lambda x: x * x.shape[0] + hop.sum(x)  # noqa: E731
            self.close(g(x), h(h(x)) + h(x[: n // 2].sum() + x), 1e-5)

    def test_declared(self):
        f = hop.jit(lambda x: hop.tanh(x) @ x)
        g = hop.jit(lambda x: f(x) + f(x * 2), dims={"x": "T"})
        for n in (2, 3, 7):
            x = hop.arange(n, dtype=hop.float32)
            self.close(g(x), (hop.tanh(x) @ x) + (hop.tanh(x * 2) @ (x * 2)), 1e-5)
        plain = hop.grad(lambda x: hop.tanh(x) @ x + hop.tanh(2 * x) @ (2 * x))
        self.close(hop.jit(hop.grad(g))(hop.ones(4)), plain(hop.ones(4)), 1e-5)


class Random(Case):
    """Random functions that call each other, by jit and plain: equal values and gradients."""

    def expression(self, r, names, depth):
        if depth == 0 or r.random() < 0.2:
            return r.choice([*names, f"{r.uniform(-1, 1):.3f}"])
        kind = r.randrange(7)
        a = self.expression(r, names, depth - 1)
        if kind < 2:
            return f"hop.{r.choice(['sin', 'tanh', 'cos'])}({a})"
        if kind < 5:
            return f"({a} {r.choice('+-*')} {self.expression(r, names, depth - 1)})"
        return f"hop.{r.choice(['sum', 'mean'])}({a} * x)"

    def program(self, seed, jit):
        """(a function of two vectors, state to change). Each of its functions reads a global, a cell, an item
        and calls those before it."""
        r = random.Random(seed)
        space = {"hop": hop, "jit": jit, "k": 0.5, "cfg": {"a": 0.25}, "w": hop.asarray([0.5, -0.5, 0.25])}
        lines = ["def make(c):"]
        for i in range(r.randrange(2, 5)):
            names = ["x", "y", "k", "cfg['a']", "c", "w", *[f"f{j}(x, y)" for j in range(i)]]
            names += [f"f{j}(y * 0.5, {self.expression(r, ['x', 'y', 'w'], 1)} + x)" for j in range(i)]
            lines.append(f"    @jit\n    def f{i}(x, y):\n        return {self.expression(r, names, 4)} + x")
        last = f"f{i}"
        lines.append("    def whole(x, y):\n        global k, w\n        nonlocal c")
        lines.append(f"        before = k, c, cfg['a'], w\n        out = {last}(x, y)")
        for change in r.sample(["k = 1.5", "cfg['a'] = -0.75", "c = x * y", "w = w + x", "pass"], 3):
            lines.append(f"        {change}\n        out = {last}(out, y) + {last}(x, out)")
        lines.append("        k, c, cfg['a'], w = before\n        return hop.sum(out)\n    return whole\n")
        text = "\n".join(lines)
        exec(compile(text, f"program{seed}.py", "exec"), space)
        return space["make"](2.0), text

    def test_values_and_gradients(self):
        x, y = hop.asarray([0.5, -0.25, 1.0]), hop.asarray([0.1, 0.7, -0.3])
        for seed in range(25):
            plain, text = self.program(seed, lambda f: f)
            jitted, _ = self.program(seed, hop.jit)
            with self.subTest(seed=seed, text=text):
                found, expected = (hop.vmap(f)(x[None], y[None])[0].item() for f in (jitted, plain))
                self.close(found, expected, 1e-3)
                for a, b in zip(hop.grad(jitted, (0, 1))(x, y), hop.grad(plain, (0, 1))(x, y)):
                    scale = max(1.0, *map(abs, b.tolist()))
                    self.close([v / scale for v in a.tolist()], [v / scale for v in b.tolist()], 1e-3)


if __name__ == "__main__":
    unittest.main()
