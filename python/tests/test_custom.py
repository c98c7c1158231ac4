"""Functions with rules of their own. Every rule is scaled by a number of its own, so that a result shows
whose rule ran: BODY where nobody differentiates, FORWARD in the value of a function whose gradient is
taken."""

import copy
import math
import pickle
import unittest

import hop
from support import Case

FORWARD, FIRST, SECOND = 3.0, 10.0, 100.0


def asarray(x):
    return hop.asarray(x, dtype=hop.float64)


def product(tangent="transpose"):
    """sin(x) y, of which the derivatives are multiplied."""

    @hop.custom_vjp(tangent=tangent)
    def f(x, y):
        return hop.sin(x) * y

    def forward(x, y):
        return FORWARD * hop.sin(x) * y, (hop.cos(x), x, y, "sine")

    def backward(saved, g):
        slope, x, y, name = saved
        assert name == "sine"
        return FIRST * slope * y * g, SECOND * hop.sin(x) * g

    f.defvjp(forward, backward)
    return f


@hop.custom_vjp
def doubled(x):
    return 2 * x


class Vjp(Case):
    def test_outside_of_captures_the_function_is_called(self):
        seen = []

        @hop.custom_vjp
        def f(x, name):
            seen.append(type(x))
            return x, name

        self.assertEqual(f(3, name="a"), (3, "a"))
        self.assertEqual(seen, [int])

    def test_each_transform_takes_its_rule(self):
        f, x, y = product(), asarray(0.7), asarray(1.5)
        value, dx, dy = math.sin(0.7) * 1.5, FIRST * math.cos(0.7) * 1.5, SECOND * math.sin(0.7)
        self.close(hop.jit(f)(x, y), value, 1e-12)
        self.close(hop.grad(f)(x, y), dx, 1e-12)
        self.close(hop.grad(f, argnums=(1, 0))(x, y)[0], dy, 1e-12)
        self.close(hop.value_and_grad(f)(x, y)[0], FORWARD * value, 1e-12)
        self.close(hop.jit(hop.grad(f))(x, y), dx, 1e-12)
        self.close(hop.vjp(f, x, y)[1](asarray(2.0))[1], 2 * dy, 1e-12)
        out, moved = hop.jvp(f, (x, y), (asarray(1.0), asarray(-1.0)))
        self.close(moved, dx - dy, 1e-12)
        self.close(hop.linearize(f, x, y)[1](asarray(1.0), asarray(0.0)), dx, 1e-12)
        self.close(hop.jacfwd(f)(x, y), dx, 1e-12)
        self.close(hop.jacrev(f, argnums=1)(x, y), dy, 1e-12)

    def test_tangent_of_the_body(self):
        f, x, y = product("body"), asarray(0.7), asarray(1.5)
        self.close(hop.jvp(f, (x, y), (asarray(1.0), asarray(0.0)))[1], math.cos(0.7) * 1.5, 1e-12)
        self.close(hop.grad(f)(x, y), FIRST * math.cos(0.7) * 1.5, 1e-12)

    def test_the_second_order_differentiates_the_rules(self):
        f, x, y = product(), asarray(0.7), asarray(1.5)
        # d/dx of FIRST cos(x) y
        self.close(hop.grad(hop.grad(f))(x, y), -FIRST * math.sin(0.7) * 1.5, 1e-12)
        self.close(hop.hessian(f)(x, y), -FIRST * math.sin(0.7) * 1.5, 1e-12)
        self.close(hop.grad(hop.grad(f), argnums=1)(x, y), FIRST * math.cos(0.7), 1e-12)
        self.close(hop.jacrev(hop.jacfwd(f))(x, y), -FIRST * math.sin(0.7) * 1.5, 1e-12)

    def test_lanes(self):
        f, xs, y = product(), asarray([0.1, 0.2, 0.3]), asarray(1.5)
        over = hop.vmap(f, in_axes=(0, None))
        self.close(over(xs, y), [math.sin(x) * 1.5 for x in (0.1, 0.2, 0.3)], 1e-12)
        slopes = [FIRST * math.cos(x) * 1.5 for x in (0.1, 0.2, 0.3)]
        self.close(hop.vmap(hop.grad(f), in_axes=(0, None))(xs, y), slopes, 1e-12)
        total = lambda xs, y: hop.sum(over(xs, y))
        self.close(hop.grad(total)(xs, y), slopes, 1e-12)
        # of what all lanes share, the sum
        expected = SECOND * sum(math.sin(x) for x in (0.1, 0.2, 0.3))
        self.close(hop.grad(total, argnums=1)(xs, y), expected, 1e-12)
        self.close(hop.jvp(over, (xs, y), (xs * 0, asarray(1.0)))[1],
                   [SECOND * math.sin(x) for x in (0.1, 0.2, 0.3)], 1e-12)  # fmt: skip

    def test_in_bodies(self):
        f, y = product(), asarray(0.5)

        def slope(x, times):
            out = 1.0
            for _ in range(times):
                out *= FIRST * math.cos(x) * 0.5
                x = FORWARD * math.sin(x) * 0.5
            return out

        loops = {
            "fori_loop": lambda x: hop.fori_loop(0, 3, lambda i, c: f(c, y), x),
            "scan": lambda x: hop.scan(lambda c, _: (f(c, y), None), x, None, length=3)[0],
            "while_loop": lambda x: hop.while_loop(
                lambda c: c[1] < 3, lambda c: (f(c[0], y), c[1] + 1), (x, 0)
            )[0],
            "plain": lambda x: f(f(f(x, y), y), y),
        }
        for name, loop in loops.items():
            with self.subTest(name):
                self.close(hop.grad(loop)(asarray(0.7)), slope(0.7, 3), 1e-10)
                self.close(hop.jit(hop.grad(loop))(asarray(0.7)), slope(0.7, 3), 1e-10)
                self.close(hop.jacfwd(loop)(asarray(0.7)), slope(0.7, 3), 1e-10)
        chosen = lambda p, x: hop.cond(p, lambda x: f(x, y), lambda x: x, x)
        self.close(hop.grad(chosen, argnums=1)(True, asarray(0.7)), slope(0.7, 1), 1e-12)
        self.close(hop.grad(chosen, argnums=1)(False, asarray(0.7)), 1.0, 1e-12)
        kept = hop.checkpoint(lambda x: f(x, y) ** 2)
        self.close(hop.grad(kept)(asarray(0.7)),
                   2 * FORWARD * math.sin(0.7) * 0.5 * slope(0.7, 1), 1e-12)  # fmt: skip

    def test_trees_none_and_names(self):
        @hop.custom_vjp
        def f(p, scale=2.0, *, mode="plain"):
            return {"y": p["w"] * scale, "n": p["k"] + 1, "mode": "m"}

        with self.assertRaisesRegex(hop.InvalidError, "'mode' can be given by name alone"):
            hop.jit(f)({"w": asarray(1.0), "k": 1})

        @hop.custom_vjp
        def g(p, scale=2.0):
            return {"y": p["w"] * scale, "n": p["k"] + 1, "mode": "m"}

        def forward(p, scale):
            return g(p, scale), (p, scale)

        def backward(saved, cotangent):
            p, scale = saved
            self.assertEqual(cotangent["mode"], "m")
            self.assertEqual(cotangent["n"].dtype, p["k"].dtype)
            return {"w": cotangent["y"] * scale * 7, "k": None}, None

        g.defvjp(forward, backward)
        p = {"w": asarray([1.0, 2.0]), "k": hop.asarray(5)}
        loss = lambda p, **named: hop.sum(g(p, **named)["y"])
        gradient = hop.grad(loss, allow_int=True)
        self.close(gradient(p)["w"], [14.0, 14.0])
        self.equal(gradient(p)["k"], 0)
        self.close(gradient(p, scale=3.0)["w"], [21.0, 21.0])

    def test_static_arguments(self):
        @hop.custom_vjp(nondiff_argnums=(0,), nondiff_argnames="mode")
        def f(n, x, mode):
            return x**n if mode == "power" else x

        def forward(n, x, mode):
            return f(n, x, mode), (x, n)

        def backward(n, mode, saved, g):
            x, again = saved
            self.assertEqual((n, mode), (again, "power"))
            return (g * n * x ** (n - 1) * 5,)

        f.defvjp(forward, backward)
        self.close(hop.grad(f, argnums=1)(3, asarray(2.0), "power"), 60.0)
        # an array is as good, but has no derivative
        @hop.custom_vjp(nondiff_argnums=1)
        def g(x, w):
            return x * w

        g.defvjp(lambda x, w: (x * w, None), lambda w, _, ct: (ct * w * 3,))
        self.close(hop.grad(g)(asarray(2.0), asarray(5.0)), 15.0)
        self.close(hop.vmap(hop.grad(g), in_axes=(None, 0))(asarray(2.0), asarray([5.0, 6.0])), [15.0, 18.0])
        with self.assertRaisesRegex(hop.InvalidError, "uses from outside is differentiated"):
            hop.grad(g, argnums=1)(asarray(2.0), asarray(5.0))

    def test_what_is_used_from_outside(self):
        def outer(x, w):
            @hop.custom_vjp
            def f(x):
                return x * w

            f.defvjp(lambda x: (x * w, None), lambda _, g: (g * w * 7,))
            return f(x)

        self.close(hop.grad(outer)(asarray(3.0), asarray(2.0)), 14.0)
        self.close(hop.jit(hop.vmap(hop.grad(outer), in_axes=(None, 0)))(asarray(3.0), asarray([2.0, 4.0])),
                   [14.0, 28.0])  # fmt: skip
        with self.assertRaisesRegex(hop.InvalidError, r"test_custom.py:\d+: .*make it an argument"):
            hop.grad(outer, argnums=1)(asarray(3.0), asarray(2.0))

    def test_a_traced_value_must_not_be_kept_elsewhere(self):
        held = []

        @hop.custom_vjp
        def f(x):
            return x * x

        def forward(x):
            y = 5 * x
            held[:] = [y]
            return f(x), None

        f.defvjp(forward, lambda _, g: (held[0] * g,))
        with self.assertRaisesRegex(hop.InvalidError, "forward"):
            hop.grad(f)(asarray(3.0))  # an effect on a list from outside

    def test_methods(self):
        class Layer:
            def __init__(self, w):
                self.w = w

            @hop.custom_vjp
            def apply(self, x):
                return x * self.w

            def forward(self, x):
                return x * self.w, (self, x)

            def backward(saved, g):
                return None, g * saved[0].w * 100

            apply.defvjp(forward, backward)

            def loss(self, x):
                return self.apply(x)

        layer = Layer(2.0)
        compiled = hop.jit(lambda x: hop.grad(layer.loss)(x))
        for w in (2.0, 3.0):
            layer.w = w
            self.close(layer.apply(3.0), 3 * w)
            self.close(hop.grad(layer.apply)(3.0), 100 * w)
            self.close(hop.grad(layer.loss)(3.0), 100 * w)
            self.close(compiled(3.0), 100 * w)

    def test_programs_follow_what_rules_read(self):
        def made(k):
            f = hop.custom_vjp(lambda x: x * k)
            f.defvjp(lambda x: (x * k, None), lambda _, g: (g * k * 10,))
            return f

        a, b = made(2.0), made(3.0)
        self.close([hop.grad(f)(1.0).item() for f in (a, b, a)], [20.0, 30.0, 20.0])
        compiled = hop.jit(lambda x: hop.grad(a)(x))
        self.close(compiled(1.0), 20.0)
        a.defvjp(lambda x: (x, None), lambda _, g: (g * 7,))
        self.close(hop.grad(a)(1.0), 7.0)
        self.close(compiled(1.0), 7.0)

    def test_plain_control_flow(self):
        @hop.custom_vjp
        def f(x):
            if x > 0:
                return x
            return 0 * x

        def forward(x):
            if x > 0:
                return x, 2.0
            return 0 * x, 3.0

        def backward(scale, g):
            if g > 1:
                return (scale * g,)
            return (-scale * g,)

        f.defvjp(forward, backward)
        self.close(hop.grad(f)(1.0), -2.0)
        self.close(hop.grad(lambda x: 2 * f(x))(-1.0), 6.0)
        self.close(hop.jit(f)(-1.0), 0.0)

    def test_copies(self):
        f = product()
        self.assertIs(copy.deepcopy({"f": f})["f"], f)
        self.assertIs(copy.copy(f), f)
        self.assertIs(pickle.loads(pickle.dumps(doubled)), doubled)
        self.assertEqual(repr(doubled), "<hop.custom_vjp of doubled>")

    def test_modes(self):
        f, x, y = product(), asarray(0.7), asarray(1.5)
        slope = FIRST * math.cos(0.7) * 1.5

        def constant(x):
            with hop.no_grad():
                held = f(x, y)
            return held + x

        self.close(hop.grad(constant)(x), 1.0, 1e-12)
        with hop.no_grad():
            self.close(hop.grad(f)(x, y), slope, 1e-12)
            self.close(hop.jit(hop.grad(f))(x, y), slope, 1e-12)

        def inside(x):
            with hop.no_grad():
                return hop.grad(f)(x, y) + 0 * x

        self.close(hop.jit(inside)(x), slope, 1e-12)
        self.close(hop.grad(inside)(x), 0.0, 1e-12)

        def opened(x):
            with hop.no_grad():
                with hop.enable_grad():
                    return f(x, y)

        self.close(hop.grad(opened)(x), slope, 1e-12)

    def test_sizes_that_are_no_numbers(self):
        f = hop.custom_vjp(lambda x: hop.sum(x * x))
        f.defvjp(lambda x: (hop.sum(x * x), x), lambda x, g: (g * x * 10 + 0 * hop.arange(x.shape[0]),))
        gradient = hop.jit(hop.grad(f))
        for n in (2, 3):
            self.close(gradient(hop.ones(n)), [10.0] * n)


def pushed():
    """The same with a jvp."""

    @hop.custom_jvp
    def f(x, y):
        return hop.sin(x) * y

    @f.defjvp
    def rule(primals, tangents):
        (x, y), (dx, dy) = primals, tangents
        return FORWARD * hop.sin(x) * y, FIRST * hop.cos(x) * y * dx + SECOND * hop.sin(x) * dy

    return f


class Jvp(Case):
    def test_each_transform_takes_its_rule(self):
        f, x, y = pushed(), asarray(0.7), asarray(1.5)
        value, dx, dy = math.sin(0.7) * 1.5, FIRST * math.cos(0.7) * 1.5, SECOND * math.sin(0.7)
        self.close(hop.jit(f)(x, y), value, 1e-12)
        out, moved = hop.jvp(f, (x, y), (asarray(1.0), asarray(-1.0)))
        self.close([out.item(), moved.item()], [FORWARD * value, dx - dy], 1e-12)
        self.close(hop.grad(f)(x, y), dx, 1e-12)
        self.close(hop.jit(hop.grad(f, argnums=1))(x, y), dy, 1e-12)
        self.close(hop.value_and_grad(f)(x, y)[0], FORWARD * value, 1e-12)
        self.close(hop.vjp(f, x, y)[1](asarray(2.0))[1], 2 * dy, 1e-12)
        self.close(hop.linearize(f, x, y)[1](asarray(1.0), asarray(0.0)), dx, 1e-12)
        self.close(hop.grad(hop.grad(f))(x, y), -FIRST * math.sin(0.7) * 1.5, 1e-12)
        self.close(hop.hessian(f)(x, y), -FIRST * math.sin(0.7) * 1.5, 1e-12)

    def test_lanes(self):
        f, xs, y = pushed(), asarray([0.1, 0.2, 0.3]), asarray(1.5)
        over = hop.vmap(f, in_axes=(0, None))
        slopes = [FIRST * math.cos(x) * 1.5 for x in (0.1, 0.2, 0.3)]
        total = lambda xs, y: hop.sum(over(xs, y))
        self.close(hop.grad(total)(xs, y), slopes, 1e-12)
        self.close(hop.vmap(hop.grad(f), in_axes=(0, None))(xs, y), slopes, 1e-12)
        expected = SECOND * sum(math.sin(x) for x in (0.1, 0.2, 0.3))
        self.close(hop.grad(total, argnums=1)(xs, y), expected, 1e-12)
        self.close(hop.jvp(over, (xs, y), (xs * 0 + 1, asarray(0.0)))[1], slopes, 1e-12)

    def test_in_a_loop(self):
        f = pushed()
        loop = lambda x: hop.fori_loop(0, 3, lambda i, c: f(c, asarray(0.5)), x)
        x, slope = 0.7, 1.0
        for _ in range(3):
            x, slope = FORWARD * math.sin(x) * 0.5, slope * FIRST * math.cos(x) * 0.5
        self.close(hop.grad(loop)(asarray(0.7)), slope, 1e-10)
        self.close(hop.jit(hop.jacfwd(loop))(asarray(0.7)), slope, 1e-10)

    def test_a_rule_that_calls_its_function(self):
        @hop.custom_jvp
        def f(x):
            return hop.exp(x)

        f.defjvp(lambda primals, tangents: (f(*primals), 2 * f(*primals) * tangents[0]))
        g = f
        for order in range(1, 4):
            g = hop.grad(g)
            self.close(g(asarray(0.5)), 2**order * math.exp(0.5), 1e-12)
        with self.assertRaisesRegex(hop.InvalidError, r"test_custom\.py:\d+: .*of so high an order"):
            hop.grad(g)(asarray(0.5))

    def test_a_rule_for_each_argument(self):
        f = hop.custom_jvp(lambda x, y: x * y)
        f.defjvps(lambda t, out, x, y: 7 * t * y + 0 * out, None)
        self.close(hop.grad(f, argnums=(0, 1))(3.0, 4.0)[0], 28.0)
        self.close(hop.grad(f, argnums=(0, 1))(3.0, 4.0)[1], 0.0)
        f.defjvps(lambda t, out, x, y: t)
        with self.assertRaisesRegex(hop.InvalidError, r"has 2 arguments, defjvps was given 1 rule"):
            hop.grad(f)(3.0, 4.0)

    def test_trees_numbers_and_static_arguments(self):
        @hop.custom_jvp(nondiff_argnums=(0,))
        def f(how, p, n):
            return {"y": how(p["w"]) * n, "k": p["k"]}

        @f.defjvp
        def rule(how, primals, tangents):
            (p, n), (dp, dn) = primals, tangents
            self.assertEqual((n, dn.shape, dp["k"].dtype), (2, (), p["k"].dtype))
            return f(how, p, n), {"y": 5 * dp["w"], "k": None}

        p = {"w": asarray([1.0, 2.0]), "k": hop.asarray(3)}
        gradient = hop.grad(lambda p: hop.sum(f(hop.sin, p, 2)["y"]), allow_int=True)(p)
        self.close(gradient["w"], [5.0, 5.0])

    def test_mistakes(self):
        def wrong(message, rule, f=lambda x: x * 2, grad=hop.grad):
            g = hop.custom_jvp(f)
            g.defjvp(rule)
            with self.assertRaisesRegex(hop.InvalidError, r"test_custom\.py:\d+: .*" + message):
                grad(g)(hop.asarray(1.0))

        wrong("must give a pair", lambda p, t: p[0])
        wrong(r"tangent of the result has type f32\[1\], expected f32\[\]", lambda p, t: (p[0], hop.ones(1)))
        wrong("has the structure", lambda p, t: (p[0], {"a": t[0]}))
        wrong("has the structure", lambda p, t: (p, t[0]))
        wrong("not linear", lambda p, t: (p[0], t[0] * t[0]))
        with self.assertRaisesRegex(hop.InvalidError, "no rule: give it one with defjvp"):
            hop.grad(hop.custom_jvp(lambda x: x))(1.0)


class Gradient(Case):
    def test_what_the_function_gives_is_the_rule(self):
        @hop.custom_gradient
        def square(x):
            y = 3 * x
            return x * x, lambda g: y * g

        self.close(square(4.0), 16.0)
        self.close(hop.grad(square)(4.0), 12.0)
        self.close(hop.grad(hop.grad(square))(4.0), 3.0)
        self.close(hop.jit(hop.vmap(hop.grad(square)))(hop.asarray([1.0, 2.0])), [3.0, 6.0])
        self.close(hop.jvp(square, (4.0,), (1.0,))[1], 12.0)

        @hop.custom_gradient
        def product(x, y):
            return x * y, lambda g: (5 * g, None)

        self.close(product(3.0, y=4.0), 12.0)
        self.close([g.item() for g in hop.grad(product, argnums=(0, 1))(3.0, 4.0)], [5.0, 0.0])

    def test_mistakes(self):
        with self.assertRaisesRegex(hop.InvalidError, r"test_custom\.py:\d+: .*must give a pair"):
            hop.custom_gradient(lambda x: x)(1.0)
        with self.assertRaisesRegex(hop.InvalidError, "gives 1 cotangents|gives a traced value"):
            hop.grad(hop.custom_gradient(lambda x, y: (x * y, lambda g: g)))(1.0, 2.0)


class Lanes(Case):
    def setUp(self):
        @hop.custom_vmap
        def f(x, y):
            return hop.sin(x) * y

        @f.def_vmap
        def rule(axis_size, in_batched, xs, ys):
            self.assertEqual(in_batched, [True, True])
            return 1000 * hop.sin(xs) * ys, True

        self.f = f

    def test_vmap_takes_the_rule(self):
        xs, y = asarray([0.1, 0.2, 0.3]), asarray(2.0)
        sines = [math.sin(x) * 2 for x in (0.1, 0.2, 0.3)]
        self.close(hop.jit(self.f)(xs[0], y), sines[0], 1e-12)
        over = hop.vmap(self.f, in_axes=(0, None))
        self.close(over(xs, y), [1000 * s for s in sines], 1e-12)
        self.close(hop.jit(over)(xs, y), [1000 * s for s in sines], 1e-12)
        twice = hop.vmap(over)(hop.stack([xs, xs]), hop.stack([y, y]))
        self.close(twice, [[1000 * s for s in sines]] * 2, 1e-12)

    def test_derivatives_are_those_of_the_body_and_of_the_rule(self):
        xs, y = asarray([0.1, 0.2, 0.3]), asarray(2.0)
        slopes = [math.cos(x) * 2 for x in (0.1, 0.2, 0.3)]
        self.close(hop.grad(self.f)(xs[0], y), slopes[0], 1e-12)
        self.close(hop.vmap(hop.grad(self.f), in_axes=(0, None))(xs, y), slopes, 1e-12)
        total = lambda xs: hop.sum(hop.vmap(self.f, in_axes=(0, None))(xs, y))
        self.close(hop.grad(total)(xs), [1000 * s for s in slopes], 1e-12)

    def test_trees_and_what_has_no_axis(self):
        @hop.custom_vmap
        def f(p, n):
            return {"a": p["x"] + n, "b": hop.asarray(3.0)}

        def rule(axis_size, in_batched, p, n):
            self.assertEqual(in_batched, [{"x": True}, False])
            return {"a": p["x"] + n + hop.arange(axis_size), "b": hop.asarray(3.0)}, {"a": True, "b": False}

        f.def_vmap(rule)
        over = hop.jit(hop.vmap(lambda p: f(p, 1)))
        for n in (1, 2, 4):
            out = over({"x": hop.ones(n)})
            self.close(out["a"], [2.0 + i for i in range(n)])
            self.close(out["b"], [3.0] * n)

    def test_what_is_used_from_outside(self):
        def outer(w, x):
            f = hop.custom_vmap(lambda x: x * w)
            f.def_vmap(lambda n, batched, xs: (100 * xs * w, True))
            return f(x)

        x, xs = hop.asarray(5.0), hop.asarray([1.0, 2.0])
        self.close(hop.vmap(outer, in_axes=(None, 0))(x, xs), [500.0, 1000.0])
        self.close(hop.grad(outer)(x, x), 5.0)
        with self.assertRaisesRegex(hop.InvalidError, r"test_custom\.py:\d+: .*lane to lane.*an argument"):
            hop.vmap(outer)(xs, xs)

    def test_mistakes(self):
        def wrong(message, rule):
            f = hop.custom_vmap(lambda x: 2 * x)
            f.def_vmap(rule)
            with self.assertRaisesRegex((hop.InvalidError, ValueError), r"test_custom\.py:\d+: .*" + message):
                hop.vmap(f)(hop.ones(3))

        wrong("must give a pair", lambda n, batched, xs: xs)
        wrong("has the structure", lambda n, batched, xs: ({"a": xs}, True))
        wrong(r"result 0 has type f32\[2, lanes", lambda n, batched, xs: (hop.stack([xs, xs]), True))
        wrong("out_batched", lambda n, batched, xs: (xs, [True, False]))
        with self.assertRaisesRegex(hop.InvalidError, "no rule: give it one with def_vmap"):
            hop.vmap(hop.custom_vmap(lambda x: x))(hop.ones(3))


class Missing(Case):
    """Cotangents of results that nothing depends on."""

    def setUp(self):
        @hop.custom_vjp
        def f(x):
            return {"sine": hop.sin(x), "name": "f", "cosine": hop.cos(x), "count": 3}

        def forward(x):
            self.assertTrue(x.perturbed)
            return f(x.value), x.value

        def backward(x, cotangent):
            out, missing = 0 * x, 0
            for bit, name, scale in ((1, "sine", 10), (2, "cosine", 100)):
                g = cotangent[name]
                if isinstance(g, hop.SymbolicZero):
                    self.assertEqual((g.shape, g.dtype), (x.shape, x.dtype))
                    missing += bit
                else:
                    out = out + scale * g
            return (out + 1000 * missing,) if missing else (out,)

        f.defvjp(forward, backward, symbolic_zeros=True)
        self.f = f

    def test_they_are_handed_over_as_missing(self):
        f, x = self.f, hop.asarray(0.5)
        for transform in (lambda g: g, hop.jit):
            self.close(transform(hop.grad(lambda x: f(x)["sine"]))(x), 2010.0)
            self.close(transform(hop.grad(lambda x: f(x)["cosine"]))(x), 1100.0)
        both = lambda x: (lambda out: out["sine"] + out["cosine"])(f(x))
        self.close(hop.grad(both)(x), 110.0)
        self.close(hop.vmap(hop.grad(lambda x: f(x)["sine"]))(hop.ones(2)), [2010.0] * 2)
        over = lambda xs: hop.sum(hop.vmap(lambda x: f(x)["sine"])(xs))
        self.close(hop.grad(over)(hop.ones(2)), [2010.0] * 2)

    def test_forward_mode_has_all_of_them(self):
        both = lambda x: (lambda out: (out["sine"], out["cosine"]))(self.f(x))
        self.close([t.item() for t in hop.jvp(both, (hop.asarray(0.5),), (1.0,))[1]], [10.0, 100.0])

    def test_without_it_they_are_zeros(self):
        f = hop.custom_vjp(lambda x: (x, 2 * x))
        f.defvjp(lambda x: (f(x), None), lambda _, g: (10 * g[0] + 100 * g[1],))
        self.close(hop.grad(lambda x: f(x)[0])(1.0), 10.0)
        self.close(hop.grad(lambda x: f(x)[1])(1.0), 100.0)

    def test_rules_may_give_them(self):
        f = hop.custom_vjp(lambda x, y: (x * y, x))
        zero = hop.SymbolicZero((), hop.float32)
        given = lambda _, g: (zero, zero if isinstance(g[0], hop.SymbolicZero) else 5 * g[0])
        f.defvjp(lambda x, y: (f(x.value, y.value), None), given, symbolic_zeros=True)
        self.close([g.item() for g in hop.grad(lambda x, y: sum(f(x, y)), (0, 1))(2.0, 3.0)], [0.0, 5.0])


class Transpose(Case):
    def test_linear_functions(self):
        two = hop.ShapeDtypeStruct((2,), hop.float32)
        transposed = hop.linear_transpose(lambda x, y: {"a": 2 * x + hop.sum(y), "b": y[::-1] * 3}, 1.0, two)
        x, y = transposed({"a": 1.0, "b": None})
        self.close(x, 2.0)
        self.close(y, [1.0, 1.0])
        self.close(transposed({"a": 0.0, "b": hop.asarray([1.0, 2.0])})[1], [6.0, 3.0])
        within = hop.jit(lambda w, g: hop.linear_transpose(lambda x: x * w, hop.asarray(1.0))(g)[0])
        self.close(within(4.0, hop.asarray(3.0)), 12.0)
        # <A x, g> = <x, A' g>
        a, x = asarray([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), asarray([0.5, -1.0])
        g = asarray([1.0, 2.0, -3.0])
        self.close(hop.linear_transpose(lambda x: a @ x, x)(g)[0], a.T @ g, 1e-12)

    def test_loops_and_branches(self):
        x = hop.asarray(1.0)
        scan = lambda g: hop.scan(lambda c, _: (3 * c + g, None), g, None, length=2)[0]
        self.close(hop.linear_transpose(scan, x)(1.0)[0], 13.0)
        branch = lambda g: hop.cond(True, lambda g: 2 * g, lambda g: g, g)
        self.close(hop.linear_transpose(branch, x)(1.0)[0], 2.0)

    def test_others(self):
        x = hop.asarray(1.0)
        wrong = {
            "square": lambda g: g * g,
            "floor": lambda g: hop.floor(g),
            "in a branch": lambda g: hop.cond(True, lambda g: hop.floor(g), lambda g: g, g),
            "in a loop": lambda g: hop.fori_loop(0, 2, lambda i, c: hop.round(c), g),
            "behind a carry": lambda g: hop.scan(
                lambda c, _: ((c[0], hop.floor(c[0])), None), (g, 0.0), None, length=2
            )[0][1],
            "in a test": lambda g: hop.while_loop(lambda c: c < 3, lambda c: c * 2, g),
            "over slices": lambda g: hop.sum(hop.map(hop.round, hop.stack([g, g]))),
        }
        for name, f in wrong.items():
            with self.subTest(name), self.assertRaisesRegex(
                hop.InvalidError, r"test_custom\.py:\d+: linear_transpose: .*not linear"
            ):
                hop.linear_transpose(f, x)
        with self.assertRaisesRegex(hop.InvalidError, "argument 0 has dtype int"):
            hop.linear_transpose(lambda x: x, hop.asarray(1))
        with self.assertRaisesRegex(hop.InvalidError, r"cotangent is f32\[2\], the result is f32\[\]"):
            hop.linear_transpose(lambda x: x, x)(hop.ones(2))


class Mistakes(Case):
    def wrong(self, message, forward, backward, f=lambda x: 2 * x, at=1.0):
        g = hop.custom_vjp(f)
        g.defvjp(forward, backward)
        with self.assertRaisesRegex((hop.InvalidError, TypeError), message) as caught:
            hop.grad(g)(at)
        line = r"test_custom\.py:\d+"
        self.assertRegex(str(caught.exception), f"{line}: custom_vjp: .*(forward|backward) \\(.*{line}\\)")

    def test_each_says_what_is_expected(self):
        good = lambda x: (2 * x, x)
        self.wrong("must give a pair .* it gives a traced", lambda x: 2 * x, lambda s, g: (g,))
        self.wrong("must give a tuple with the cotangent of each argument", good, lambda s, g: g)
        self.wrong("gives 2 cotangents, the function has 1 argument", good, lambda s, g: (g, g))
        x = hop.asarray(1.0)
        shape, dtype = lambda s, g: (hop.ones(1),), lambda s, g: (g.astype(hop.float64),)
        self.wrong(r"of argument 0 has type f32\[1\], expected f32\[\]", good, shape, at=x)
        self.wrong(r"of argument 0 has type f64\[\], expected f32\[\]", good, dtype, at=x)
        self.wrong("has the structure .* expected", good, lambda s, g: ({"a": g},))
        self.wrong(r"gives bool\[\], expected f32\[\]", lambda x: (x > 1, x), lambda s, g: (g,))
        self.wrong("has the structure", lambda x: ((x, x), x), lambda s, g: (g,))

    def test_no_rules(self):
        f = hop.custom_vjp(lambda x: x)
        with self.assertRaisesRegex(hop.InvalidError, r"test_custom\.py:\d+: .*no rule.*defvjp"):
            hop.grad(f)(1.0)

    def test_options(self):
        with self.assertRaisesRegex(hop.InvalidError, '"transpose" or "body"'):
            hop.custom_vjp(lambda x: x, tangent="both")
        with self.assertRaisesRegex(hop.InvalidError, "there is no argument 3"):
            hop.custom_vjp(lambda x: x, nondiff_argnums=3)
        with self.assertRaisesRegex(hop.InvalidError, "there is no argument 'y'"):
            hop.custom_vjp(lambda x: x, nondiff_argnames="y")
        with self.assertRaisesRegex(hop.InvalidError, "defvjp: bwd: expected a function"):
            hop.custom_vjp(lambda x: x).defvjp(lambda x: (x, x), 3)

    def test_a_rule_that_raises(self):
        f = hop.custom_vjp(lambda x: x)

        def backward(_, g):
            raise KeyError("mine")

        f.defvjp(lambda x: (x, None), backward)
        with self.assertRaisesRegex(KeyError, "mine"):
            hop.grad(f)(1.0)
        self.close(hop.grad(lambda x: x * x)(3.0), 6.0)

    def test_backward_that_is_not_linear(self):
        for rule in (lambda _, g: (g * g,), lambda _, g: (hop.floor(g),), lambda _, g: (hop.clip(g, 0, 1),)):
            f = hop.custom_vjp(lambda x: x)
            f.defvjp(lambda x: (x, None), rule)
            hop.grad(f)(1.0)
            with self.assertRaisesRegex(hop.InvalidError, r"test_custom\.py:\d+: .*not linear"):
                hop.jvp(f, (1.0,), (1.0,))

    def test_effects(self):
        seen = []
        f = hop.custom_vjp(lambda x: x)
        f.defvjp(lambda x: (x, None), lambda _, g: (seen.append(g) or g,))
        with self.assertRaisesRegex(hop.InvalidError, "adds to|changes|seen"):
            hop.grad(f)(1.0)


if __name__ == "__main__":
    unittest.main()
