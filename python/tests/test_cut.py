"""Un-jitted derivatives of functions that ask their values for numbers: values and derivatives against the
same computation without Python's decisions and against differences; what runs, how often and in which order;
nested transforms; where nothing can be cut.

HOP_TEST_SEED=N runs the random program of that seed alone, HOP_TEST_SEEDS=N that many."""

import gc
import math
import os
import random
import threading
import traceback
import unittest
import weakref

import hop
from support import Case, needs_numpy, numpy


def newton(a):
    x, steps = a, 0
    while abs(float(x * x - a)) > 1e-6 and steps < 50:
        x = 0.5 * (x + a / x)
        steps += 1
    return x


def branches(x):
    y = x * x
    if y > 1:
        return y * x
    return -y


class Values(Case):
    def test_if(self):
        self.close(hop.grad(branches)(2.0), 12.0)
        self.close(hop.grad(branches)(0.5), -1.0)
        self.close(hop.value_and_grad(branches)(2.0), (8.0, 12.0))

    def test_while_float(self):
        for a in (0.3, 2.0, 9.0):
            self.close(hop.grad(newton)(a), 0.5 / math.sqrt(a))
            value, moved = hop.jvp(newton, (a,), (3.0,))
            self.close([value.item(), moved.item()], [math.sqrt(a), 1.5 / math.sqrt(a)])
            value, pullback = hop.vjp(newton, a)
            self.close([c.item() for c in pullback(2.0)], [1 / math.sqrt(a)])
            self.close([c.item() for c in pullback(-1.0)], [-0.5 / math.sqrt(a)])
            value, push = hop.linearize(newton, a)
            self.close([push(2.0).item(), push(-1.0).item()], [1 / math.sqrt(a), -0.5 / math.sqrt(a)])

    def test_int_as_size(self):
        def f(x):
            return hop.sum(hop.zeros(int(x * 2)) + x) + x[()] if x.ndim == 0 else x

        self.close(hop.grad(f)(2.6), 6.0)

    def test_item_index_tolist(self):
        def f(x, table=(1.0, 2.0, 3.0)):
            k = hop.argmax(x)
            return x[0] * table[k] + x[1] * x.tolist()[0] + x[2] * k.item()

        self.close(hop.grad(f)(hop.asarray([1.0, 5.0, 2.0])), [2.0, 1.0, 1.0])

    def test_numbers_are_constants(self):
        self.close(hop.grad(lambda x: x * float(x))(3.0), 3.0)
        self.close(hop.grad(lambda x: x * math.sin(x))(1.0), math.sin(1.0))

    def test_formatting(self):
        said = []

        def f(x):
            y = x * x
            said.append(f"{y:.2f} {y} {str(y)}")
            return y

        self.close(hop.grad(f)(1.5), 3.0)
        self.assertEqual(said, ["2.25 2.25 2.25"])

    def test_iteration_and_comparison_of_elements(self):
        def f(x):
            total = 0.0
            for v in x:
                if v > 0 and not v > 3:
                    total = total + v * v
            return total

        self.close(hop.grad(f)(hop.asarray([1.0, -2.0, 2.0, 4.0])), [2.0, 0.0, 4.0, 0.0])

    def test_recursion(self):
        def power(x, n):
            if n == 0:
                return 1.0
            return x * power(x, n - 1) if x < 10 else x

        self.close(hop.grad(lambda x: power(x, 4))(1.5), 4 * 1.5**3)

        def halved(x):
            return halved(x / 2) if x > 1 else x * x

        self.close(hop.grad(halved)(6.0), 2 * 0.75 / 8)

    def test_generators_stay_alive(self):
        def steps(x):
            while True:
                x = x * 1.5
                yield x

        def f(x):
            for y in steps(x):
                if y > 10:
                    return y
            return None

        self.close(hop.grad(f)(1.0), 1.5**6)

    def test_sizes_that_depend_on_elements(self):
        def f(x):
            (i,) = hop.nonzero(x > 0.4)
            y = x[i]
            n = y.shape[0]
            if n > 1:
                return hop.sum(y * y) * int(n) + n * 2
            return hop.sum(x)

        self.close(hop.grad(f)(hop.asarray([0.3, 0.5, 0.7])), [0.0, 2.0, 2.8])
        self.close(hop.grad(f)(hop.asarray([0.3, 0.5, 0.1])), [1.0, 1.0, 1.0])
        self.close(hop.value_and_grad(f)(hop.asarray([0.3, 0.5, 0.7]))[0], 2 * (0.25 + 0.49) + 4)

    def test_dtypes_and_weak_numbers(self):
        for d in (hop.float64, hop.float32, hop.float16):
            value, g = hop.value_and_grad(lambda x: x * 2 if x > 1 else x)(hop.asarray(3.0, dtype=d))
            self.assertEqual((value.dtype, g.dtype), (d, d))

        def mixed(n, x):
            m = n + 1
            return (x * m, m) if m > 3 else (x, m)

        g, m = hop.grad(mixed, argnums=1, has_aux=True)(3, hop.asarray(2.0, dtype=hop.float64))
        self.equal(g, 4.0, hop.float64)
        self.equal(m, 4, hop.int64)
        # a Python number takes the dtype of what it meets also behind a cut
        y = hop.grad(lambda p, x: x * p if p > 0 else x, argnums=1)(0.1, hop.asarray(1.0, dtype=hop.float64))
        self.equal(y, 0.1, hop.float64)

    def test_results_from_before(self):
        self.close(hop.grad(lambda x: x if x > 0 else -x)(2.0), 1.0)

        def early(x):
            y = x * x
            for _ in range(3):
                x = x + 1
                if x > 100:
                    break
            return y

        self.close(hop.grad(early)(3.0), 6.0)
        self.close(hop.grad(lambda x: 5.0 if x > 0 else x)(2.0), 0.0)
        self.close(hop.jvp(lambda x: hop.asarray(5.0) if x > 0 else x, (2.0,), (1.0,))[1], 0.0)

    def test_hidden_arrays(self):
        w = hop.asarray([1.0, 2.0])

        def f(x):
            y = x * w
            if hop.sum(y) > 0:
                y = y * w
            return hop.sum(y * w) + hop.sum(x * x)

        x = hop.asarray([3.0, 4.0])
        self.close(hop.grad(f)(x), [7.0, 16.0])
        # the same array as a constant has no part in the derivative
        self.close(hop.grad(lambda y: hop.sum(y * x) if y[0] > 0 else y[0])(x), [3.0, 4.0])

    def test_the_same_array_twice(self):
        def f(x, y):
            return hop.sum(x * x * y) if x[0] > 0 else x[0]

        x = hop.asarray([2.0, 3.0])
        gx, gy = hop.grad(f, argnums=(0, 1))(x, x)
        self.close(gx, [8.0, 18.0])
        self.close(gy, [4.0, 9.0])

    def test_argnums_trees_and_integers(self):
        def f(params, n, *, scale):
            y = params["w"] * params["b"][0]
            for _ in range(int(n)):
                y = y * 2
            return (hop.sum(y) * scale, {"y": y, "n": n + 1}) if scale > 0 else (y[0], None)

        params = {"w": hop.asarray([1.0, 2.0]), "b": [hop.asarray(3.0), hop.asarray(7)]}
        n = hop.asarray(2)
        g, aux = hop.grad(f, has_aux=True, allow_int=True)(params, n, scale=0.5)
        self.close(g["w"], [6.0, 6.0])
        self.close(g["b"][0], 6.0)
        self.equal(g["b"][1], 0)
        self.close(aux["y"], [12.0, 24.0])
        self.equal(aux["n"], 3)

    def test_jacobians(self):
        def plain(x, w, choice=None):
            y = hop.sin(x) * w
            z = hop.stack([y[0] * y[1], y[1] ** 2, x[0]])
            return z * w[0] if (choice if choice is not None else hop.sum(y) > 0) else z

        x, w = hop.asarray([0.3, 0.5]), hop.asarray([1.5, 2.0])
        for jacobian in (hop.jacfwd, hop.jacrev):
            found = jacobian(plain, argnums=(0, 1))(x, w)
            expected = jacobian(lambda x, w: plain(x, w, True), argnums=(0, 1))(x, w)
            for a, b in zip(found, expected):
                self.close(a, b.tolist())
        found = hop.hessian(lambda x: plain(x, w)[0])(x)
        self.close(found, hop.hessian(lambda x: plain(x, w, True)[0])(x).tolist())

        def mixed(x, n):
            return (x * n, hop.asarray(2.0)) if n > 1 else x

        for jacobian in (hop.jacfwd, hop.jacrev):
            (a, b), more = jacobian(lambda x, n: (mixed(x, n), n * 2), has_aux=True)(x, hop.asarray(3))
            self.close(a, [[3.0, 0.0], [0.0, 3.0]])
            self.close(b, [0.0, 0.0])
            self.equal(more, 6)


class Nested(Case):
    def test_grad_of_grad(self):
        self.close(hop.grad(hop.grad(newton))(2.0), -0.25 * 2**-1.5)
        self.close(hop.grad(hop.grad(hop.grad(newton)))(2.0), 0.375 * 2**-2.5)
        self.close(hop.grad(hop.grad(branches))(2.0), 12.0)

    def test_every_pair(self):
        def by(name, f):
            if name == "grad":
                return hop.grad(f)
            if name == "jvp":
                return lambda x: hop.jvp(f, (x,), (1.0,))[1]
            if name == "vjp":
                return lambda x: hop.vjp(f, x)[1](1.0)[0]
            return lambda x: hop.linearize(f, x)[1](1.0)

        names = ("grad", "jvp", "vjp", "linearize")
        for outer in names:
            for inner in names:
                with self.subTest(outer=outer, inner=inner):
                    self.close(by(outer, by(inner, newton))(2.0), -0.25 * 2**-1.5, 1e-4)

    def test_derivative_inside_of_a_cut_function(self):
        def f(x):
            slope = hop.grad(branches)(x)  # 3 x x
            if slope > 1:
                return slope * x
            return x

        self.close(hop.grad(f)(2.0), 36.0)
        value, pullback = hop.vjp(f, 2.0)
        self.close(pullback(1.0)[0], 36.0)

    def test_outer_values_in_inner_functions(self):
        def f(x):
            def g(y):
                return y * x if float(x) > 1 else y * x * x  # float of the outer one

            return hop.grad(g)(x * 3)

        self.close(hop.grad(f)(2.0), 1.0)
        self.close(hop.grad(f)(0.5), 1.0)

        def h(x):
            def g(y):
                if y > 1 and x > 0:
                    return y * y * x
                return y

            return hop.grad(g)(x) + hop.jvp(g, (x,), (1.0,))[1]

        self.close(hop.grad(h)(2.0), 16.0)

    def test_jit_inside(self):
        @hop.jit
        def g(y):
            return hop.where(y > 0, y * y, y)

        def f(x):
            y = g(x)
            return g(y) if y > 2 else g(-y)

        self.close(hop.grad(f)(2.0), 32.0)
        self.close(hop.grad(f)(1.0), -2.0)

    def test_numbers_of_outer_values_are_no_part_of_kept_programs(self):
        g = None

        def f(x):
            nonlocal g
            g = g or hop.jit(lambda y, of: y * float(of[0]))
            return hop.grad(lambda y: y * float(x))(x) * x

        self.close(hop.grad(f)(2.0), 2.0)
        self.close(hop.grad(f)(3.0), 3.0)

        def body(x):
            inner = hop.jit(lambda y: y * float(x))
            return inner(x * 1.0) + inner(x * 2.0)

        self.close(hop.grad(body)(2.0), 6.0)
        self.close(hop.grad(body)(3.0), 9.0)

    def test_pullbacks_as_arguments(self):
        _, pullback = hop.vjp(newton, 4.0)
        self.close(hop.jit(lambda p, c: p(c)[0])(pullback, 2.0), 0.5)
        leaves, treedef = hop.tree.flatten(pullback)
        self.close(hop.tree.unflatten(treedef, leaves)(1.0)[0], 0.25)
        self.close(hop.vmap(lambda c: pullback(c)[0])(hop.asarray([1.0, 2.0])), [0.25, 0.5])


class Effects(Case):
    def test_each_runs_once_and_in_order(self):
        for transform in (
            hop.grad,
            hop.value_and_grad,
            lambda f: lambda x: hop.vjp(f, x)[1](1.0),
            lambda f: lambda x: hop.jvp(f, (x,), (1.0,)),
            lambda f: lambda x: hop.linearize(f, x)[1](1.0),
            lambda f: hop.grad(hop.grad(f)),
        ):
            said = []

            def f(x):
                for i in range(4):
                    hop.debug.callback(lambda v, i=i: said.append(("callback", i, float(v))), x)
                    x = x * 2
                    said.append(("python", i, float(x)))
                    if x > 10:
                        break
                hop.debug.callback(lambda v: said.append(("end", float(v))), x)
                return x * x

            transform(f)(2.0)
            expected = []
            for i, v in enumerate((2.0, 4.0, 8.0)):
                expected += [("callback", i, v), ("python", i, 2 * v)]
            self.assertEqual(said, [*expected, ("end", 16.0)])

    def test_python_runs_once(self):
        calls = []

        def f(x):
            calls.append(float(x))
            return x * x if x > 0 else x

        g = hop.grad(f)
        self.close([g(2.0).item(), g(3.0).item()], [4.0, 6.0])
        self.assertEqual(calls, [2.0, 3.0])

        def of_an_argument(x):
            calls.append(1.0)
            return x * float(x)

        self.close([hop.grad(of_an_argument)(v).item() for v in (2.0, 3.0, 2.0)], [2.0, 3.0, 2.0])
        self.assertEqual(calls, [2.0, 3.0, 1.0, 1.0, 1.0])

    def test_checks(self):
        def f(x):
            hop.check(x < 0, "below zero: {}", x)
            y = x * 2
            return y if x > 1 else x  # the line of the cut

        with self.assertRaisesRegex(hop.CheckError, "below zero: {} .2."):
            hop.grad(f)(2.0)

        def caught(x):
            hop.check(x < 0, "below zero")
            y = x * 2
            try:
                bool(y > 1)
            except hop.CheckError:
                pass
            return y

        with self.assertRaisesRegex(hop.CheckError, "below zero"):
            hop.grad(caught)(2.0)

        def used(x):
            hop.check(x < 0, "below zero")
            y = x * 2
            try:
                bool(y > 1)
            except hop.CheckError:
                y = y + 1
            return y

        with self.assertRaisesRegex(hop.CheckError, "below zero"):
            hop.grad(used)(2.0)

    def test_exceptions_of_the_user(self):
        def f(x):
            if x > 1:
                raise KeyError("mine")
            return x

        try:
            hop.grad(f)(2.0)
        except KeyError as error:
            shown = "".join(traceback.format_exception(error))
            self.assertIn('raise KeyError("mine")', shown)
            self.assertNotIn("hop/_", shown)
        else:
            self.fail("nothing was raised")

        def caught(x):
            try:
                if x > 1:
                    raise KeyError
            except KeyError:
                return x * 5
            return x

        self.close(hop.grad(caught)(2.0), 5.0)


class Live(Case):
    def test_what_python_holds(self):
        class Holder:
            pass

        def f(x):
            holder, listed, closed = Holder(), [x * 2], x * 3
            holder.value = {"a": (x * 4, [x * 5])}

            def later():
                return closed * x

            if x > 0:
                listed.append(holder.value["a"][0] + listed[0])
            if listed[1] > 0:
                return later() + listed[1] * holder.value["a"][1][0]
            return x

        self.close(hop.grad(f)(2.0), 2 * 3 * 2.0 + 2 * 30 * 2.0)

    def test_assigned_elements(self):
        def f(x):
            y = x * 2
            z = y
            if x[0] > 0:
                y[0] = x[1] * 5
            y[1] += 1
            if y[0] > 0:
                y[1] = y[0] * y[1]
            return hop.sum(y) + hop.sum(z)

        def plain(x):
            y = x * 2
            y = y.at[0].set(x[1] * 5)
            y = y.at[1].add(1)
            y = y.at[1].set(y[0] * y[1])
            return 2 * hop.sum(y)

        x = hop.asarray([1.0, 2.0])
        self.close(hop.grad(f)(x), hop.grad(plain)(x).tolist())

    def test_nothing_is_kept(self):
        kept = []

        def f(x):
            y = x * 2
            kept.append(weakref.ref(y))
            if x > 0:
                y = y * x
            kept.append(weakref.ref(y))
            return y if y > 0 else x

        hop.grad(f)(2.0)
        gc.collect()
        self.assertEqual([r() for r in kept], [None, None])

    def test_values_that_outlive_their_function(self):
        out = []

        def f(x):
            y = x * 2
            if y > 0:
                out.append(y)
            return y

        hop.grad(f)(2.0)
        with self.assertRaisesRegex(hop.TracerError, "used after the function it belongs to has"):
            out[0] + 1

    def test_many_cuts(self):
        def f(x):
            kept = []
            for _ in range(1000):
                x = x * 0.999
                kept.append(x)
                if x > 100:
                    break
            return sum(kept)

        expected = sum(0.999**k for k in range(1, 1001))
        self.close(hop.grad(f)(1.0), expected, 1e-4)
        self.close(hop.jvp(f, (1.0,), (1.0,))[1], expected, 1e-4)

    def test_threads(self):
        found = {}

        def work(k):
            found[k] = [hop.grad(newton)(k + 0.5).item() for _ in range(5)]

        threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for k in range(1, 5):
            self.close(found[k], [0.5 / math.sqrt(k + 0.5)] * 5)

    def test_another_call_takes_another_way(self):
        g = hop.grad(branches)
        self.close([g(2.0).item(), g(0.5).item(), g(3.0).item()], [12.0, -1.0, 27.0])


class Bodies(Case):
    """Operators that take functions, between cuts: with decisions of Python's and without them."""

    def agree(self, make):
        x = hop.asarray([1.0, 2.0, 3.0])
        cut, plain = make(lambda v: v > 1e6), make(lambda v: False)

        def twice(f):
            return hop.grad(lambda x: hop.sum(hop.grad(f)(x)))

        for of in (hop.grad, twice, lambda f: lambda x: hop.jvp(f, (x,), (x,))[1]):
            self.close(of(cut)(x), of(plain)(x).tolist())

    def test_writes_in_a_loop(self):
        def make(decide):
            def f(x):
                y = x * x
                z = y * 2
                if decide(y[0]):
                    return y[0]

                def step(i, c):
                    y[i] = c * z[i]
                    return c + y[i] * x[i]

                c = hop.fori_loop(0, 3, step, 1.0)
                if decide(c):
                    return c
                return c * hop.sum(y) + hop.sum(z)

            return f

        self.agree(make)

    def test_a_derivative_in_a_loop_of_what_the_loop_writes(self):
        def make(decide):
            def f(x):
                y = x * x
                if decide(y[0]):
                    return y[0]

                def step(c, v):
                    s = hop.grad(lambda u: hop.sum(u * u * y) * v)(x)
                    y[0] = y[0] * 0.5 + s[1] * 0.01
                    return c + hop.sum(s), c

                c, ys = hop.scan(step, 0.0, x)
                return c + hop.sum(y) + hop.sum(ys)

            return f

        self.agree(make)

    def test_branches_and_lanes(self):
        def make(decide):
            def f(x):
                y = hop.sin(x)
                if decide(y[0]):
                    return y[0]
                z = hop.cond(x[0] > 0, lambda: y * 2, lambda: y * 3)
                if decide(z[0]):
                    return z[0]
                w = hop.cond(z[0] > 0, lambda: z * y, lambda: y)
                out = hop.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * y), (0, x))[1]
                if decide(out[0]):
                    return out[0]
                return hop.sum(w * y * out) + hop.sum(hop.vmap(lambda a, b: a * b * y[0])(z, y))

            return f

        self.agree(make)

    def test_a_body_that_fails(self):
        def make(decide):
            def f(x):
                y = x * x
                if decide(y[0]):
                    return y[0]
                try:
                    hop.scan(lambda c, v: (c + y @ hop.ones((2, 2)), v), 0.0, x)
                except hop.InvalidError:
                    pass
                if decide(y[1]):
                    return y[0]
                return hop.sum(y * x)

            return f

        self.agree(make)

    def test_jit_and_checkpoint(self):
        def make(decide):
            g = hop.jit(lambda a, b: hop.sum(a * b) * a)

            def f(x):
                y = hop.exp(x * 0.1)
                if decide(y[0]):
                    return y[0]
                z = g(hop.checkpoint(lambda v: hop.sin(v) * y)(x), y)
                if decide(z[0]):
                    return z[0]
                return hop.sum(g(z, x) * y)

            return f

        self.agree(make)

    def test_in_place(self):
        def make(decide):
            def f(x):
                total = hop.zeros(3)
                for i in range(3):
                    total[i] = x[i] * x[i]
                    if decide(total[i]):
                        break
                    total *= 1.5
                    other = total
                    other[0] += x[2]
                return hop.sum(total * x) + hop.sum(other)

            return f

        self.agree(make)


class Refused(Case):
    def test_under_jit(self):
        with self.assertRaises(hop.TracerError):
            hop.jit(hop.grad(lambda x: x * x.item()))(2.0)
        with self.assertRaises(hop.TracerError):
            hop.grad(hop.jit(lambda x: x * x.item()))(2.0)

    def test_lanes(self):
        x = hop.asarray([1.0, 2.0])
        with self.assertRaises(hop.TracerError):
            hop.vmap(hop.grad(lambda x: x * x.item()))(x)
        with self.assertRaises(hop.TracerError):
            hop.grad(lambda x: hop.sum(hop.vmap(lambda y: y * y.item())(x)))(x)

    def test_bodies(self):
        def f(x):
            return hop.scan(lambda c, y: (c + y.item() * y, None), 0.0, x)[0]

        with self.assertRaises(hop.TracerError):
            hop.grad(f)(hop.asarray([1.0, 2.0]))

    def test_control_flow_of_bodies_behind_a_cut(self):
        calls = []

        def f(x):
            calls.append(0)

            def step(c, y):
                if y > 1.5:
                    c = c + y * y
                return c, c

            if x[0] > 0:
                return hop.scan(step, 0.0, x)[0]
            return x[0]

        self.close(hop.grad(f)(hop.asarray([1.0, 2.0])), [0.0, 4.0])
        self.assertEqual(len(calls), 1)

    def test_truth_of_several_elements(self):
        with self.assertRaisesRegex(ValueError, "ambiguous"):
            hop.grad(lambda x: x[0] if x > 0 else x[1])(hop.asarray([1.0, 2.0]))

    @needs_numpy
    def test_numpy(self):
        x = hop.asarray([1.0, 2.0])
        self.close(hop.grad(lambda x: hop.sum(x * hop.asarray(numpy.asarray(x))))(x), [1.0, 2.0])
        self.close(hop.grad(lambda x: hop.sum(numpy.float32([3, 4]) * x))(x), [3.0, 4.0])
        for f in (numpy.sin, lambda x: numpy.dot(x, x), numpy.linalg.norm, lambda x: numpy.where(True, x, x)):
            with self.assertRaisesRegex(hop.TracerError, "NumPy"):
                hop.grad(lambda x: hop.sum(f(x)))(x)


# ---- random programs ----

SEEDS = int(os.environ.get("HOP_TEST_SEEDS", "30"))


class Program:
    """A random program of Python with decisions that depend on elements, as source; the margins of its
    decisions are noted, so that points near to one are left out."""

    def __init__(self, seed):
        self._random = random.Random(seed)
        self._lines, self._names = [], ["x", "y"]
        self.source = self._write()

    def _value(self):
        r, names = self._random, self._names
        a, b = r.choice(names), r.choice(names)
        return r.choice(
            (
                f"{a} * {b}", f"{a} + {b}", f"{a} - 0.5 * {b}", f"hop.sin({a})", f"hop.tanh({a} * {b})",
                f"{a} * {r.uniform(0.5, 1.5):.3f}", f"{a} / (1.5 + hop.cos({b}))", f"helper({a}, {b})",
                f"hop.grad(lambda v: v * v * {b} if decide(v, 0.2) else v * {b})({a})",
                f"hop.sum(hop.stack([{a}, {b}]) * hop.ones(1 + int(abs(float({a}))) % 1 + 1))",
            )
        )  # fmt: skip

    def _block(self, depth, indent):
        r, pad = self._random, "    " * indent
        for _ in range(r.randint(1, 3)):
            kind = r.random()
            if depth and kind < 0.25:
                self._lines.append(f"{pad}if decide({r.choice(self._names)}, {r.uniform(-1, 1):.3f}):")
                self._block(depth - 1, indent + 1)
                if r.random() < 0.5:
                    self._lines.append(f"{pad}else:")
                    self._block(depth - 1, indent + 1)
            elif depth and kind < 0.4:
                name = r.choice(self._names)
                self._lines.append(f"{pad}for k in range({r.randint(1, 4)}):")
                self._block(depth - 1, indent + 1)
                self._lines.append(f"{pad}    if decide({name}, {r.uniform(-1, 1):.3f}):")
                self._lines.append(f"{pad}        {r.choice(('break', 'continue'))}")
            elif kind < 0.5:
                self._lines.append(f"{pad}kept.append({self._value()})")
            elif kind < 0.55:
                self._lines.append(f"{pad}return {self._value()}" if indent > 1 else f"{pad}kept.append(x)")
            else:
                self._lines.append(f"{pad}{r.choice(self._names)} = hop.tanh({self._value()})")

    def _write(self):
        self._lines.append("def program(x, y):")
        self._lines.append("    kept = [x]")
        for k in range(2):
            self._lines.append(f"    z{k} = {self._value()}")
            self._names.append(f"z{k}")
        self._block(3, 1)
        self._lines.append(f"    return sum(kept) + {self._value()}")
        return "\n".join(self._lines) + "\n"

    def function(self):
        margins = []

        def decide(v, than):
            margins.append(abs(float(v) - than))
            return v > than

        def helper(a, b):
            return a * 0.5 if decide(b, 0.1) else a + b

        names = {"hop": hop, "decide": decide, "helper": helper}
        exec(self.source, names)
        return names["program"], margins


class Random(Case):
    def test_programs(self):
        one = os.environ.get("HOP_TEST_SEED")
        checked = sum(self._one(seed) for seed in ([int(one)] if one else range(SEEDS)))
        self.assertTrue(one or checked > SEEDS // 2)

    def _one(self, seed):
        program = Program(seed)
        f, margins = program.function()
        r = random.Random(seed + 1)
        point = [hop.asarray(r.uniform(-1.5, 1.5), dtype=hop.float64) for _ in range(2)]
        step = 1e-5
        value = f(*point)
        n = len(margins)
        if n and min(margins) < 100 * step:  # too near to another way
            return 0
        expected = []
        for i in range(2):
            ends = []
            for sign in (1, -1):
                moved = list(point)
                moved[i] = moved[i] + sign * step
                ends.append(float(f(*moved)))
            expected.append((ends[0] - ends[1]) / (2 * step))
        message = f"seed {seed}\n{program.source}"
        with self.subTest(seed=seed):
            found = {}
            v, found["grad"] = hop.value_and_grad(f, argnums=(0, 1))(*point)
            self.assertAlmostEqual(float(v), float(value), 9, message)
            found["vjp"] = hop.vjp(f, *point)[1](1.0)
            unit = [(1.0, 0.0), (0.0, 1.0)]
            found["jvp"] = [hop.jvp(f, tuple(point), u)[1] for u in unit]
            push = hop.linearize(f, *point)[1]
            found["linearize"] = [push(*u) for u in unit]
            for how, g in found.items():
                for a, b in zip(g, expected):
                    self.assertLess(abs(float(a) - b), 1e-5 * max(1, abs(b)), f"{how}, {message}")
        return 1


if __name__ == "__main__":
    unittest.main()
