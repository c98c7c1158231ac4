"""Hooks on gradients: what they get, what takes its place, when and how often they are called, what is
refused. Every order of transforms in every place is in test_custom_random.py."""

import gc
import traceback
import unittest
import weakref

import hop
from support import Case, counted_captures


def f64(x):
    return hop.asarray(x, dtype=hop.float64)


def ways(f):
    """A function at once, under jit, portable and interpreted."""

    def interpreted(*args):
        return hop.jit(f).lower(*args).function.interpret(*args)

    portable = hop.jit(f, portable=True)
    return {"at once": f, "jit": hop.jit(f), "portable": portable, "interpreted": interpreted}


class InCheckpoints(Case):
    """What is computed again is computed without the hook, whatever order the derivative has."""

    def test_second_gradients(self):
        def f(x):
            return hop.sin(hop.hook(x * x, lambda g: 2 * g * g))

        x = hop.asarray(0.7, dtype=hop.float64)
        second = hop.grad(hop.grad(f))(x)
        for policy in (None, hop.policies.nothing, hop.policies.everything):
            again = hop.checkpoint(f, policy=policy)
            self.close([hop.grad(again)(x)], [hop.grad(f)(x)], 1e-12)
            for how in (hop.grad(hop.grad(again)), hop.jit(hop.grad(hop.grad(again)))):
                self.close([how(x)], [second], 1e-12)

    def test_calls_of_the_host(self):
        log = []

        def f(x):
            return hop.sin(hop.hook(x * x, lambda g: log.append(g.item()), host=True))

        x, logs = hop.asarray(0.7, dtype=hop.float64), []
        for how in (f, hop.checkpoint(f)):
            for derivative in (hop.grad(how), hop.grad(hop.grad(how))):
                log.clear()
                hop.jit(derivative)(x)
                logs.append(list(log))
        self.assertEqual([len(log) for log in logs], [1, 2, 1, 2])
        self.assertEqual(logs[:2], logs[2:])

    def test_within_a_budget(self):
        def loss(w, x):
            for _ in range(4):
                x = hop.hook(hop.tanh(x @ w), lambda g: hop.clip(g, -0.1, 0.1))
            return hop.sum(x * x)

        w, x = hop.eye(8) * 0.9, hop.ones((4, 8))
        less = hop.checkpoint(loss, policy=hop.policies.budget(0.95))
        self.assertTrue(bool((hop.grad(less)(w, x) == hop.grad(loss)(w, x)).all()))

    def test_beside_rules(self):
        @hop.custom_vjp
        def sine(x):
            return hop.sin(x)

        sine.defvjp(lambda x: (hop.sin(x), x), lambda x, g: (3 * g * hop.cos(x),))
        self.assertEqual(hop.grad(lambda x: sine(hop.hook(x, lambda g: 10 * g)))(0.0).item(), 30.0)
        self.assertEqual(hop.grad(lambda x: hop.hook(sine(x), lambda g: 10 * g))(0.0).item(), 30.0)


class Pure(Case):
    def test_the_cotangent_passes_through_it(self):
        f = lambda x: hop.sum(hop.hook(x, lambda g: hop.clip(g, -1, 1.5)) ** 2)  # noqa: E731
        x = f64([-3.0, 0.1, 2.0])
        self.close(f(x), 13.01, 1e-12)
        for how, g in ways(hop.grad(f)).items():
            with self.subTest(how):
                self.close(g(x), [-1.0, 0.2, 1.5], 1e-12)

    def test_none_leaves_it_as_it_is(self):
        self.close(hop.grad(lambda x: hop.hook(x, lambda g: None) ** 2)(3.0), 6.0)

    def test_tangents_do_not_see_it(self):
        f = lambda x: hop.hook(x, lambda g: 100 * g) ** 2  # noqa: E731
        self.close(hop.jvp(f, (3.0,), (2.0,))[1], 12.0)

    def test_results_thread_through_a_list(self):
        f = lambda x: hop.hook(x, [lambda g: g + 1, lambda g: None, lambda g: 10 * g]) ** 2  # noqa: E731
        self.close(hop.grad(f)(3.0), 70.0)
        self.close(hop.grad(lambda x: hop.hook(x, []) ** 2)(3.0), 6.0)

    def test_trees(self):
        """Once for all leaves: the norm is that of the tree. What is no float stays."""

        def unit(t):
            norm = hop.sqrt(sum(hop.sum(g * g) for g in (t["a"], *t["b"])))
            return {"a": t["a"] / norm, "b": [g / norm for g in t["b"]], "n": t["n"], "s": t["s"]}

        def f(a, b):
            t = hop.hook({"a": a, "b": [b], "n": hop.asarray(7), "s": "text"}, unit)
            self.assertEqual(t["s"], "text")
            return 3 * t["a"] + 4 * t["b"][0] + t["n"]

        a, b = hop.grad(f, (0, 1))(f64(1.0), f64(1.0))
        self.close([a.item(), b.item()], [0.6, 0.8], 1e-12)

    def test_a_weight_from_outside_has_its_own_gradient(self):
        """d/dw of (x w)^2 through a hook that scales by w: the hook is no part of the function."""
        f = lambda x, w: hop.hook(x * w, lambda g: g * w) ** 2  # noqa: E731
        dx, dw = hop.grad(f, (0, 1))(f64(2.0), f64(3.0))
        self.close([dx.item(), dw.item()], [2 * 6 * 3 * 3, 2 * 6 * 3 * 2], 1e-12)
        # but of the gradient 2 y w w it is, where what belongs to y = x w passes through the hook again
        second = hop.grad(lambda w: hop.grad(f)(f64(2.0), w))(f64(3.0))
        self.close(second, 2 * 3 * 3 * 3 * 2 + 4 * 6 * 3, 1e-12)

    def test_an_operator_is_a_function_too(self):
        try:
            import numpy  # noqa: F401
        except ImportError:
            self.skipTest("NumPy is not installed")
        halved = hop.operator("(x: f64[N]) -> f64[N]", lambda x: x / 2, name="hooks_halved")
        g = hop.jit(hop.grad(lambda x: hop.sum(hop.hook(x, halved) ** 2)))
        self.close(g(f64([1.0, 4.0])), [1.0, 4.0], 1e-12)

    def test_outside_of_captures_it_is_x(self):
        x = hop.ones(3)
        self.assertIs(hop.hook(x, lambda g: 1 / 0), x)
        self.assertEqual(hop.hook("text", lambda g: g), "text")

    def test_numbers_of_python(self):
        g = hop.grad(lambda x: hop.hook(x, lambda g: 2 * g) * 3)(2.0)
        self.equal(g, 6.0, hop.float32)

    def test_dtypes(self):
        for dtype in (hop.float16, hop.bfloat16, hop.float32, hop.float64):
            g = hop.grad(lambda x: hop.hook(x, lambda g: -2.0 * g) * 3)(hop.asarray(2.0, dtype=dtype))
            self.equal(g, -6.0, dtype)

    def test_sizes_that_only_a_run_knows(self):
        log = []

        def f(x):
            y = hop.hook(x, lambda g: g / g.shape[0])
            return hop.sum(hop.hook(y, lambda g: log.append(g.shape), host=True) ** 2)

        g = hop.jit(hop.grad(f), dims={"x": "T in 1..100"})
        for n in (2, 5):
            self.close(g(hop.ones(n)), [2 / n] * n)
        self.assertEqual(log, [(2,), (5,)])


class When(Case):
    def test_known_at_run_time(self):
        f = hop.jit(hop.grad(lambda x, on: hop.hook(x, lambda g: 10 * g, when=on) ** 2))
        self.close(f(1.0, True), 20.0)
        with counted_captures() as lines:
            self.close(f(1.0, False), 2.0)
        self.assertEqual(lines, [])

    def test_a_host_function_is_not_called(self):
        log = []
        f = hop.jit(hop.grad(lambda x, on: hop.hook(x, log.append, when=on, host=True) ** 2))
        f(1.0, True)
        f(2.0, False)
        f(3.0, True)
        self.assertEqual([g.item() for g in log], [2.0, 6.0])

    def test_per_lane(self):
        log = []

        def seen(g):
            log.append(g.item())
            return -g

        f = lambda x, on: hop.hook(x, seen, when=on, host=True) ** 2  # noqa: E731
        on = hop.asarray([True, False, True])
        self.close(hop.vmap(hop.grad(f))(f64([1.0, 2.0, 3.0]), on), [-2.0, 4.0, -6.0], 1e-12)
        self.assertEqual(log, [2.0, 6.0])

    def test_constants(self):
        self.close(hop.grad(lambda x: hop.hook(x, lambda g: 5 * g, when=False) ** 2)(1.0), 2.0)
        self.close(hop.grad(lambda x: hop.hook(x, lambda g: 5 * g, when=True) ** 2)(1.0), 10.0)


class Host(Case):
    def test_it_gets_arrays_that_it_may_keep(self):
        log = []
        f = lambda x: hop.sum(hop.sin(hop.hook(x, log.append, host=True)))  # noqa: E731
        x = f64([1.0, 2.0])
        for how, g in ways(hop.grad(f)).items():
            with self.subTest(how):
                log.clear()
                self.close(g(x), [0.5403023058681398, -0.4161468365471424], 1e-12)
                g(2 * x)
                self.assertIsInstance(log[0], hop.Array)
                self.close(log[0], [0.5403023058681398, -0.4161468365471424], 1e-12)
                self.assertEqual(len(log), 2)

    def test_its_result_takes_the_place(self):
        f = lambda x: hop.sum(hop.hook(x, lambda g: hop.flip(g) * 2, host=True) ** 2)  # noqa: E731
        for how, g in ways(hop.grad(f)).items():
            with self.subTest(how):
                self.close(g(f64([1.0, 5.0])), [20.0, 4.0], 1e-12)

    def test_numbers_and_numpy_arrays(self):
        self.close(hop.grad(lambda x: hop.hook(x, lambda g: 2.5, host=True) ** 2)(f64(1.0)), 2.5)
        try:
            import numpy
        except ImportError:
            return
        f = lambda x: hop.sum(hop.hook(x, lambda g: numpy.asarray(g) + 1, host=True))  # noqa: E731
        self.close(hop.grad(f)(f64([0.0, 0.0])), [2.0, 2.0])

    def test_trees(self):
        log = []

        def swapped(t):
            log.append(t)
            return {"a": t["b"], "b": t["a"], "n": t["n"]}

        def f(a, b):
            t = hop.hook({"a": a, "b": b, "n": hop.asarray(3)}, swapped, host=True)
            return t["a"] * t["n"] + 10 * t["b"]

        self.close([x.item() for x in hop.jit(hop.grad(f, (0, 1)))(f64(1.0), f64(1.0))], [10.0, 3.0])
        self.assertEqual({k: v.item() for k, v in log[0].items()}, {"a": 3.0, "b": 10.0, "n": 0})

    def test_order_and_count_in_a_loop(self):
        """From the last trip to the first, each once; in lanes in ascending order."""
        log = []

        def step(c, _):
            return hop.hook(2 * c, lambda g: log.append(g.item()), host=True), None

        f = lambda x: hop.scan(step, x, None, length=4)[0]  # noqa: E731
        for how, g in ways(hop.grad(f)).items():
            with self.subTest(how):
                log.clear()
                self.close(g(f64(1.0)), 16.0)
                self.assertEqual(log, [1.0, 2.0, 4.0, 8.0])
        h = lambda x: x * f(x)  # noqa: E731
        for how, g in ways(hop.vmap(hop.grad(h))).items():
            with self.subTest(how):
                log.clear()
                self.close(g(f64([1.0, 10.0])), [32.0, 320.0])
                self.assertEqual(log, [1, 10, 2, 20, 4, 40, 8, 80])

    def test_once_where_a_gradient_computes_again(self):
        log = []

        def layer(x):
            return hop.hook(hop.sin(hop.sin(x)), lambda g: log.append(g.item()), host=True)

        def loop(x):
            return hop.scan(lambda c, _: (layer(c), None), x, None, length=5)[0]

        plain = hop.grad(loop)(f64(1.0))
        wanted, programs = list(log), {
            "checkpoint": hop.checkpoint(loop),
            "checkpoint in checkpoint": hop.checkpoint(lambda x: hop.checkpoint(loop)(x)),
            "steps": lambda x: hop.scan(lambda c, _: (hop.checkpoint(layer)(c), None), x, None, length=5)[0],
            "sqrt": hop.region("hints", schedule="sqrt")(loop),
        }
        self.assertEqual(len(wanted), 5)
        for name, f in programs.items():
            for how, g in ways(hop.grad(f)).items():
                with self.subTest(name, how=how):
                    log.clear()
                    self.close(g(f64(1.0)), plain, 1e-12)
                    self.close(log, wanted, 1e-12)

    def test_not_called_without_a_gradient(self):
        log = []
        f = lambda x: hop.hook(x, log.append, host=True) ** 2  # noqa: E731
        hop.jit(f)(2.0)
        hop.jvp(f, (2.0,), (1.0,))
        hop.vmap(f)(hop.ones(3))
        with hop.no_grad():
            f(2.0)
        hop.grad(lambda x, y: f(x) * y, 1)(2.0, 3.0)  # nothing passes through it
        self.assertEqual(log, [])


class SecondOrder(Case):
    def test_pure_hooks_are_differentiated(self):
        """The gradient is h(2 x) with h(g) = g^3: its derivative is 3 (2 x)^2 2, then through the hook."""
        cube = lambda g: g**3  # noqa: E731
        f = lambda x: hop.hook(x, cube) ** 2  # noqa: E731
        self.close(hop.grad(f)(f64(1.5)), 27.0, 1e-12)
        self.close(hop.jvp(hop.grad(f), (f64(1.5),), (f64(1.0),))[1], 54.0, 1e-12)
        self.close(hop.grad(hop.grad(f))(f64(1.5)), 54.0**3, 1e-12)

    def test_a_host_hook_that_changed_nothing_is_the_identity(self):
        log = []
        f = lambda x: hop.sum(hop.sin(hop.hook(x, log.append, host=True)))  # noqa: E731
        x = f64([1.0, 2.0])
        for how, h in ways(lambda x: hop.jvp(hop.grad(f), (x,), (x,))[1]).items():
            with self.subTest(how):
                self.close(h(x), (-hop.sin(x) * x).tolist(), 1e-12)
        for how, h in ways(hop.grad(lambda x: hop.sum(hop.grad(f)(x)))).items():
            with self.subTest(how):
                log.clear()
                self.close(h(x), (-hop.sin(x)).tolist(), 1e-12)
                self.close(log[0], hop.cos(x), 1e-12)
                self.close(log[1], -hop.sin(x), 1e-12)  # the cotangent of x that the second gradient has
                self.assertEqual(len(log), 2)

    def test_the_derivative_of_a_change_is_unknown(self):
        f = lambda x: hop.sum(hop.hook(x, lambda g: 2 * g, host=True) ** 2)  # noqa: E731
        x = f64([1.0, 2.0])
        self.close(hop.grad(f)(x), [4.0, 8.0])
        second = {
            "grad": hop.grad(lambda x: hop.sum(hop.grad(f)(x))),
            "jvp": lambda x: hop.jvp(hop.grad(f), (x,), (x,))[1],
            "hessian": hop.hessian(f),
        }
        for name, h in second.items():
            for how, g in ways(h).items():
                with self.subTest(name, how=how):
                    said = "function of the host that changed.*hop's functions, or make it a hop.operator"
                    with self.assertRaisesRegex(hop.CheckError, said):
                        g(x)

    def test_an_operator_with_rules_has_derivatives(self):
        try:
            import numpy  # noqa: F401
        except ImportError:
            self.skipTest("NumPy is not installed")
        doubled = hop.operator("(x: f64[]) -> f64[]", lambda x: 2 * x, name="hooks_doubled")
        doubled.defvjp(lambda x: (doubled(x), None), lambda _, g: (2 * g,))
        f = lambda x: hop.hook(x, doubled) ** 3  # noqa: E731
        # the gradient is 2 * 3 x^2, its derivative 12 x, which passes through the hook again
        self.close(hop.jvp(hop.grad(f), (f64(1.5),), (f64(1.0),))[1], 18.0, 1e-12)
        self.close(hop.grad(hop.grad(f))(f64(1.5)), 36.0, 1e-12)


class State(Case):
    def test_objects_are_handed_in_at_the_call(self):
        def keep(log, g):
            log.value.append(g.item())

        f = hop.jit(hop.grad(lambda x, log: hop.hook(x, keep, state=log, host=True) ** 2))
        logs = [hop.Object([], kind="log") for _ in range(3)]
        f(1.0, logs[0])
        with counted_captures(every=True) as lines:
            f(2.0, logs[1])
            f(3.0, logs[2])
            f(4.0, logs[1])
        self.assertEqual([log.value for log in logs], [[2.0], [4.0, 8.0], [6.0]])
        self.assertEqual(lines, [])

    def test_trees_of_arrays(self):
        def scaled(s, g):
            return s["scale"] * g + s["shift"][0]

        f = hop.jit(hop.grad(lambda x, s: hop.hook(x, scaled, state=s) ** 2))
        for scale, shift in ((2.0, 1.0), (3.0, -1.0)):
            state = {"scale": f64(scale), "shift": [f64(shift)]}
            self.close(f(f64(5.0), state), scale * 10 + shift, 1e-12)

    def test_it_has_no_gradient(self):
        f = lambda x, s: hop.hook(x, lambda s, g: s * g, state=s) ** 2  # noqa: E731
        dx, ds = hop.grad(f, (0, 1))(f64(5.0), f64(3.0))
        self.close([dx.item(), ds.item()], [30.0, 0.0])

    def test_in_loops_and_lanes(self):
        def keep(log, k, g):
            pass

        def f(x, log):
            def step(c, k):
                def seen(s, g):
                    s[0].value.append((s[1].item(), g.item()))

                return hop.hook(2 * c, seen, state=(log, k), host=True), None

            return hop.scan(step, x, hop.arange(3))[0]

        log = hop.Object([], kind="log")
        for how, g in ways(hop.grad(f)).items():
            with self.subTest(how):
                log.value.clear()
                g(f64(1.0), log)
                self.assertEqual(log.value, [(2, 1.0), (1, 2.0), (0, 4.0)])
        log.value.clear()
        hop.vmap(hop.grad(f), in_axes=(0, None))(f64([1.0, 2.0]), log)
        self.assertEqual(log.value, [(2, 1), (2, 1), (1, 2), (1, 2), (0, 4), (0, 4)])

    def test_several_hooks_share_it(self):
        def keep(log, g):
            log.value.append(g.item())

        def f(x, log):
            y = hop.hook(3 * x, keep, state=log, host=True)
            return hop.hook(5 * y, keep, state=log, host=True)

        log = hop.Object([], kind="log")
        hop.jit(hop.grad(f))(1.0, log)
        self.assertEqual(log.value, [1.0, 5.0])


class Arguments(Case):
    """hop.grad(…, hooks={…}): behind the sum of all parts of a gradient."""

    params = {"w": hop.asarray([1.0, 2.0]), "layers": [{"a": hop.asarray(3.0)}, {"a": hop.asarray(4.0)}]}

    @staticmethod
    def loss(p, k):
        a, b = p["layers"][0]["a"], p["layers"][1]["a"]
        return hop.sum(p["w"] ** 2) * a * b * k + hop.sum(p["w"])

    def test_once_behind_the_sum(self):
        log = []
        f = lambda x: x**2 + 3 * x + hop.sin(x)  # noqa: E731
        g = hop.grad(f, hooks={0: {"f": log.append, "host": True}})(f64(0.0))
        self.assertEqual([x.item() for x in log], [4.0])
        self.close(g, 4.0)

    def test_places(self):
        plus, twice = (lambda g: g + 1), (lambda g: 2 * g)
        for name in ("grad", "value_and_grad"):
            f = getattr(hop, name)(self.loss, hooks={"p.w": lambda g: -g, "p.layers.*.a": [plus, twice]})
            g = f(self.params, 2.0) if name == "grad" else f(self.params, 2.0)[1]
            self.close(g["w"], [-49.0, -97.0])
            self.close([layer["a"].item() for layer in g["layers"]], [82.0, 62.0])

    def test_the_whole_tree(self):
        hundredth = lambda t: hop.tree.map(lambda g: g / 100, t)  # noqa: E731
        g = hop.jit(hop.grad(self.loss, hooks={"p": hundredth}))(self.params, 2.0)
        self.close(g["w"], [0.49, 0.97])

    def test_several_arguments(self):
        f = lambda a, b: a * b  # noqa: E731
        a, b = hop.grad(f, (0, 1), hooks={"b": hop.negative, 0: hop.square})(3.0, 5.0)
        self.close([a.item(), b.item()], [25.0, -3.0])

    def test_captured_once(self):
        k = 2.0
        f = hop.grad(self.loss, hooks={"p.w": lambda g: g * k})
        first = f(self.params, 1.0)["w"].tolist()
        with counted_captures() as lines:
            f(self.params, 1.0)
        self.assertEqual(lines, [])
        k = 4.0
        self.close(f(self.params, 1.0)["w"], [2 * x for x in first])

    def test_mistakes(self):
        known = {
            "expected a dict of functions by arguments": 3,
            "there is no argument 2: loss has 2": {2: hop.sign},
            "there is no argument 'q': loss has p, k": {"q": hop.sign},
            "argument 1 is not differentiated": {1: hop.sign},
            "argument 'k' is not differentiated": {"k": hop.sign},
            "nothing at 'z'": {"p.z": hop.sign},
            r"hooks\['p'\]: expected a function, or what hop.hook takes": {"p": {"g": 1}},
            "f: expected a function, found 3": {"p": 3},
            "expected numbers of arguments, found 0.5": {0.5: hop.sign},
        }
        for said, hooks in known.items():
            with self.subTest(said), self.assertRaisesRegex((hop.InvalidError, ValueError), said):
                hop.grad(self.loss, hooks=hooks)(self.params, 1.0)


class Mistakes(Case):
    """What is refused, with the user's line, the hook, and what is wrong; nothing is left behind."""

    x = hop.asarray([1.0, 2.0])

    def refused(self, said, f, host):
        loss = lambda x: hop.sum(hop.hook(x, f, host=host) ** 2)  # noqa: E731
        for how, g in ways(hop.grad(loss)).items():
            with self.subTest(said, how=how, host=host):
                with self.assertRaisesRegex(hop.Error, rf"test_hooks.py:\d+: hook: the hook.*{said}"):
                    g(self.x)

    def test_other_types(self):
        for host in (False, True):
            self.refused(r"another shape: f32\[1\], expected f32\[2\]", lambda g: g[:1], host)
            self.refused(r"another dtype: f64\[2\], expected f32\[2\]", lambda g: g.astype("float64"), host)
            self.refused("another dtype and shape", lambda g: g[:1].astype("int32"), host)
            self.refused(r"the structure \(\*,\), expected \*", lambda g: (g,), host)
            self.refused("it gives 'text', expected", lambda g: "text", host)

    def test_the_name_of_the_hook(self):
        def too_short(g):
            return g[:1]

        self.refused(r"'too_short' \(.*test_hooks.py:\d+\) must give", too_short, True)

    def test_an_exception_is_the_users(self):
        def fails(g):
            raise KeyError("mine")

        out = hop.zeros(2)
        for how, g in ways(hop.grad(lambda x: hop.sum(hop.hook(x, fails, host=True) ** 2))).items():
            with self.subTest(how):
                try:
                    out = g(self.x)
                except KeyError as error:
                    shown = "".join(traceback.format_exception(error))
                self.assertIn("in fails", shown)
        self.equal(out, [0.0, 0.0])

    def test_in_a_loop_the_rest_does_not_run(self):
        log = []

        def fails(g):
            log.append(g.item())
            if len(log) == 2:
                raise ValueError("second")

        step = lambda c, _: (hop.hook(2 * c, fails, host=True), None)  # noqa: E731
        for how, g in ways(hop.grad(lambda x: hop.scan(step, x, None, length=4)[0])).items():
            with self.subTest(how), self.assertRaisesRegex(ValueError, "second"):
                log.clear()
                g(1.0)
            self.assertEqual(log, [1.0, 2.0])

    def test_what_a_pure_hook_does_besides(self):
        log = []
        with self.assertRaisesRegex(hop.InvalidError, "log"):
            hop.grad(lambda x: hop.hook(x, lambda g: log.append(g)) ** 2)(2.0)

    def test_arguments(self):
        with self.assertRaisesRegex(hop.InvalidError, "hook: f: expected a function, found 3"):
            hop.hook(self.x, 3)
        with self.assertRaisesRegex(hop.InvalidError, "hook: f: expected a function, found 3"):
            hop.hook(self.x, [hop.sign, 3])
        with self.assertRaisesRegex(hop.InvalidError, "hook: host"):
            hop.hook(self.x, hop.sign, host="yes")

    def test_nothing_is_kept(self):
        """A hook that is gone with its programs is freed, and what it kept with it."""

        class Kept:
            def __init__(self):
                self.log = []

            def __call__(self, g):
                self.log.append(g)

        kept = Kept()
        gone = weakref.ref(kept)
        f = hop.jit(hop.grad(lambda x, kept=kept: hop.hook(x, kept, host=True) ** 2))
        f(1.0)
        self.assertEqual(len(kept.log), 1)
        del f, kept
        hop.clear_caches()
        gc.collect()
        self.assertIsNone(gone())


if __name__ == "__main__":
    unittest.main()
