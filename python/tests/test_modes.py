"""Modes: no_grad, enable_grad and autocast, against the same functions with casts and stop_gradient written
by hand, bit for bit; which derivatives pass, in every operator that takes functions; keys of captures."""

import threading
import unittest

import numpy as np

import hop
from support import Case

bf16, f16, f32, f64 = hop.bfloat16, hop.float16, hop.float32, hop.float64


def rows(*shape, seed=0, dtype=f32):
    x = np.random.default_rng(seed).normal(size=shape)
    return hop.asarray(x, dtype=dtype)


def bits(x):
    return [(a.dtype, a.shape, np.asarray(a.astype(f64)).tobytes()) for a in hop.tree.leaves(x)]


# ---- operators that take functions: y is x·w, of scalars, made by body(x, w) ----


def by_scan(body, x, w):
    return hop.scan(lambda c, _: (body(c, w), None), x, None, length=1)[0]


def by_stack(body, x, w):
    return hop.scan(lambda c, _: (c, body(c, w)), x, None, length=1)[1][0]


def by_while(body, x, w):
    return hop.while_loop(lambda s: s[0] < 1, lambda s: (s[0] + 1, body(s[1], w)), (0, x), max_trips=2)[1]


def by_fori(body, x, w):
    return hop.fori_loop(0, 1, lambda i, c: body(c, w), x)


def by_cond(body, x, w):
    return hop.cond(x > 0, lambda x: body(x, w), lambda x: body(x, w), x)


def by_switch(body, x, w):
    return hop.switch(0, [lambda x: body(x, w), lambda x: x], x)


def by_checkpoint(body, x, w):
    return hop.checkpoint(body)(x, w)


def by_jit(body, x, w):
    return hop.jit(body)(x, w)


def by_plain_loop(body, x, w):
    i = hop.asarray(0)
    while i < 1:
        x = body(x, w)
        i = i + 1
    return x


def by_plain_if(body, x, w):
    if x > 0:
        y = body(x, w)
    else:
        y = x * 1
    return y


def by_region(body, x, w):
    return hop.region("wrap")(body)(x, w)


TRANSPARENT = (
    by_scan, by_while, by_fori, by_cond, by_switch, by_checkpoint, by_jit, by_plain_loop, by_plain_if,
    by_region,
)  # fmt: skip


def by_map(body, x, w):
    return hop.map(lambda v: body(v, w), hop.reshape(x, (1,)))[0]


def by_vmap(body, x, w):
    return hop.vmap(body, in_axes=(0, None))(hop.reshape(x, (1,)), w)[0]


def by_custom(body, x, w):
    f = hop.custom_vjp(lambda x, w: body(x, w))
    f.defvjp(lambda x, w: (body(x, w), (x, w)), lambda kept, g: (g * kept[1], g * kept[0]))
    return f(x, w)


def by_custom_jvp(body, x, w):
    f = hop.custom_jvp(lambda x, w: body(x, w))
    f.defjvp(lambda p, t: (body(*p), t[0] * p[1] + p[0] * t[1]))
    return f(x, w)


def by_jvp(body, x, w):
    return hop.jvp(lambda x: body(x, w) * x / 2, (x,), (hop.ones_like(x),))[1]


def by_grad(body, x, w):
    return hop.grad(lambda x: body(x, w) * x / 2)(x)


WHOLE = (by_stack, by_map, by_vmap, by_custom, by_custom_jvp, by_jvp, by_grad)


def times(x, w):
    return x * w


class NoGrad(Case):
    def derivatives(self, f, how):
        """By both arguments at 3, 5."""
        x, w = hop.asarray(3.0, dtype=f64), hop.asarray(5.0, dtype=f64)
        if how == "grad":
            return tuple(map(float, hop.grad(f, argnums=(0, 1))(x, w)))
        if how == "jit":
            return tuple(map(float, hop.jit(hop.grad(f, argnums=(0, 1)))(x, w)))
        one, zero = hop.ones_like(x), hop.zeros_like(x)
        return tuple(float(hop.jvp(f, (x, w), t)[1]) for t in ((one, zero), (zero, one)))

    def check(self, f, expected, what):
        for how in ("grad", "jit", "jvp"):
            with self.subTest(what, how=how):
                self.assertEqual(self.derivatives(f, how), expected)

    def test_operators(self):
        for by in (*TRANSPARENT, *WHOLE):

            def plain(x, w, by=by):
                return by(times, x, w) + 100 * x

            def under(x, w, by=by):
                with hop.no_grad():
                    y = by(times, x, w)
                return y + 100 * x

            self.check(plain, (105.0, 3.0), by.__name__)
            self.check(under, (100.0, 0.0), by.__name__)

    def test_enable_grad_inside_of_bodies(self):
        @hop.enable_grad
        def enabled(x, w):
            return x * w

        for by in TRANSPARENT:

            def under(x, w, by=by):
                with hop.no_grad():
                    y = by(enabled, x, w)
                return y + 100 * x

            self.check(under, (105.0, 3.0), by.__name__)

    def test_no_grad_inside_of_bodies(self):
        @hop.no_grad()
        def stopped(x, w):
            return x * w

        for by in (*TRANSPARENT, by_map, by_vmap):
            self.check(lambda x, w, by=by: by(stopped, x, w) + 100 * x, (100.0, 0.0), by.__name__)

    def test_is_stop_gradient_by_hand(self):
        stop = hop.stop_gradient

        def under(x):
            with hop.no_grad():
                a = hop.sin(x) * x
                with hop.enable_grad():
                    b = a * x
                c = b * x
            return a * x + b + c

        def by_hand(x):
            a = stop(hop.sin(x) * x)
            b = a * x
            return a * x + b + stop(b * x)

        x = rows(5)
        for transform in (
            lambda f: hop.grad(lambda x: hop.sum(f(x))),
            lambda f: hop.vmap(hop.grad(f)),
            hop.jacfwd,
            hop.jacrev,
            lambda f: hop.hessian(lambda x: hop.sum(f(x))),
        ):
            self.assertEqual(bits(transform(under)(x)), bits(transform(by_hand)(x)))

    def test_no_node_is_needless(self):
        @hop.jit
        @hop.no_grad
        def f(x, i):
            return (
                hop.argsort(x),
                i + 1,
                hop.zeros(3) + 1,
                hop.scan(lambda c, v: (hop.sin(c * v), None), x[0], x)[0],
            )

        text = f.text(rows(3), hop.asarray(1))
        self.assertEqual(text.count("stop_gradient"), 1)  # of the scan's result

    def test_grad_inside(self):
        def inside(x, w):
            with hop.no_grad():
                g = hop.grad(lambda x: x**3 * w)(x)  # 3 x² w
            return g * w

        self.assertEqual(float(inside(3.0, 5.0)), 27.0 * 25)
        self.check(inside, (0.0, 135.0), "grad in no_grad")
        with hop.no_grad():
            self.assertEqual(float(hop.grad(lambda x: x**3)(3.0)), 27.0)
            self.assertEqual(float(hop.jit(hop.grad(lambda x: x**3))(3.0)), 27.0)
            self.assertEqual(float(hop.value_and_grad(hop.jit(lambda x: x**3))(3.0)[1]), 27.0)
            self.assertEqual(float(hop.grad(hop.grad(lambda x: x**3))(3.0)), 18.0)
            value, pull = hop.vjp(lambda x: x**3, 3.0)
            self.assertEqual(float(pull(1.0)[0]), 27.0)

    def test_decorated_functions(self):
        @hop.no_grad
        def plain(x):
            """A text."""
            return x * x

        self.assertEqual((plain.__name__, plain.__doc__), ("plain", "A text."))
        self.assertEqual(float(hop.grad(lambda x: plain(x) * x)(3.0)), 9.0)

        @hop.jit
        @hop.no_grad()
        def flows(x):
            if x > 0:  # plain control flow inside
                x = x * x
            return x

        self.assertEqual(float(hop.grad(lambda x: flows(x) * x)(3.0)), 9.0)
        with self.assertRaisesRegex(TypeError, "no_grad: fun"):
            hop.no_grad(3)

    def test_exceptions_end_it(self):
        def f(x):
            try:
                with hop.no_grad():
                    raise KeyError("x")
            except KeyError:
                return x * x

        self.assertEqual(float(hop.grad(f)(3.0)), 6.0)
        with self.assertRaises(ZeroDivisionError):
            with hop.no_grad(), hop.autocast():
                hop.jit(lambda x: 1 / 0)(1.0)
        self.assertEqual(hop._core.modes(), 0)

    def test_a_body_that_ends_in_it(self):
        def f(x):
            hop.no_grad().__enter__()
            return x * x

        with self.assertRaisesRegex(hop.InvalidError, "ends under other modes than it began with"):
            hop.jit(f)(3.0)
        self.assertEqual(hop._core.modes(), 0)

    def test_updated_arrays(self):
        def f(x):
            y = x * 1
            with hop.no_grad():
                y[0] = x[1] * 2
            return hop.sum(y * x)

        x = hop.asarray([3.0, 5.0])
        self.assertEqual(np.asarray(hop.grad(f)(x)).tolist(), [10.0, 5.0])


class Keys(Case):
    """Modes are part of every key."""

    def test_jit(self):
        count = []

        @hop.jit
        def f(x, w):
            count.append(1)
            return x @ w

        x, w = rows(2, 3), rows(3, 4)
        for _ in range(3):
            self.assertEqual(f(x, w).dtype, f32)
            with hop.autocast(bf16):
                self.assertEqual(f(x, w).dtype, bf16)
            with hop.autocast(f16):
                self.assertEqual(f(x, w).dtype, f16)
                with hop.autocast(enabled=False):
                    self.assertEqual(f(x, w).dtype, f32)
                with hop.no_grad():
                    self.assertEqual(f(x, w).dtype, f16)
        self.assertEqual(len(count), 4)

    def test_transforms_and_loops_outside(self):
        x, w = rows(2, 3), rows(3, 4)
        f = lambda x: hop.sum((x @ w).astype(f32))  # noqa: E731
        step = lambda c, _: (hop.sum(x @ w) + c, x @ w)  # noqa: E731
        plain, low = [], []
        for _ in range(3):
            plain.append(
                (hop.value_and_grad(f)(x), hop.vmap(f)(x[None]), hop.scan(step, 0.0, None, length=2))
            )
            with hop.autocast():
                low.append(
                    (hop.value_and_grad(f)(x), hop.vmap(f)(x[None]), hop.scan(step, 0.0, None, length=2))
                )
        for kind in (plain, low):
            self.assertEqual(bits(kind[0]), bits(kind[1]))
            self.assertEqual(bits(kind[0]), bits(kind[2]))
        self.assertNotEqual(bits(plain[0]), bits(low[0]))
        self.assertEqual(low[0][2][1].dtype, bf16)

    def test_inner_jit(self):
        inner = hop.jit(lambda x: hop.sum(x * x))

        @hop.jit
        def both(x):
            with hop.no_grad():
                a = inner(x)
            return a + inner(x)

        x = rows(3)
        self.assertEqual(bits(hop.grad(both)(x)), bits(hop.grad(lambda x: inner(x))(x)))
        self.assertEqual(bits(hop.grad(both)(x)), bits(2 * x))

    def test_decorated_by_jit_and_grad(self):
        f = hop.jit(hop.grad(hop.jit(lambda w, x: hop.sum(hop.tanh(x @ w)))))
        w, x = rows(3, 4), rows(2, 3, seed=1)
        a = f(w, x)
        with hop.autocast():
            b = f(w, x)
        self.assertEqual(bits(a), bits(f(w, x)))
        self.assertEqual(b.dtype, f32)
        self.assertNotEqual(bits(a), bits(b))

    def test_threads(self):
        f, found = hop.jit(lambda x, w: x @ w), {}
        x, w = rows(2, 3), rows(3, 4)
        inside, checked = threading.Event(), threading.Event()

        def other():
            inside.wait(10)
            found["other"] = f(x, w).dtype
            checked.set()

        thread = threading.Thread(target=other)
        thread.start()
        with hop.autocast():
            inside.set()
            checked.wait(10)
            found["here"] = f(x, w).dtype
        thread.join()
        self.assertEqual(found, {"other": f32, "here": bf16})


class Autocast(Case):
    def same(self, under, by_hand, *args, dtype=bf16, plainly=True):
        """Under autocast one function is the other one: values and gradients, at once and compiled. plainly:
        as plain Python, too."""

        def cast(*args):
            with hop.autocast(dtype):
                return under(*args)

        def loss(f):
            return lambda *args: sum(hop.sum(y.astype(f32)) for y in hop.tree.leaves(f(*args)))

        numbers = tuple(range(len(args)))
        self.assertEqual(bits(cast(*args)), bits(by_hand(*args)))
        self.assertEqual(bits(hop.jit(cast)(*args)), bits(hop.jit(by_hand)(*args)))
        found = hop.grad(loss(cast), argnums=numbers)(*args)
        self.assertEqual(bits(found), bits(hop.grad(loss(by_hand), argnums=numbers)(*args)))
        self.assertEqual([g.dtype for g in found], [a.dtype for a in args])
        if plainly:
            with hop.disable_jit():
                self.assertEqual(bits(cast(*args)), bits(by_hand(*args)))

    def test_products(self):
        x, w = rows(4, 3), rows(3, 5, seed=1)
        for low in (bf16, f16, f32):
            self.same(lambda x, w: x @ w, lambda x, w: x.astype(low) @ w.astype(low), x, w, dtype=low)
        self.same(
            lambda x, w: hop.einsum("ij,jk->ki", x, w),
            lambda x, w: hop.einsum("ij,jk->ki", x.astype(bf16), w.astype(bf16)),
            x,
            w,
        )
        self.same(
            lambda x, w: hop.tensordot(x, w, axes=1),
            lambda x, w: hop.tensordot(x.astype(bf16), w.astype(bf16), axes=1),
            x,
            w,
        )
        # of a lower one and f32: no cast is made twice
        self.same(lambda x, w: x.astype(bf16) @ w, lambda x, w: x.astype(bf16) @ w.astype(bf16), x, w)
        self.same(
            lambda x, w: x.astype(f16) @ w, lambda x, w: x.astype(f16).astype(bf16) @ w.astype(bf16), x, w
        )

    def test_what_is_left_alone(self):
        x, w = rows(4, 3, dtype=f64), rows(3, 5, seed=1, dtype=f64)
        with hop.autocast():
            self.assertEqual((x @ w).dtype, f64)
            self.assertEqual(
                (hop.ones((2, 2), dtype=hop.int32) @ hop.ones((2, 2), dtype=hop.int32)).dtype, hop.int32
            )
            self.assertEqual(hop.exp(x).dtype, f64)
            self.assertEqual((x[0].astype(bf16) + x[0].astype(f32)).dtype, f32)
            self.assertEqual((x.astype(bf16) * 2).dtype, bf16)

    def test_sums_and_functions(self):
        x = rows(3, 5, dtype=bf16)
        for f in (
            hop.sum, hop.mean, hop.prod, hop.var, hop.std, hop.logsumexp, hop.softmax, hop.exp, hop.tanh,
            hop.sigmoid, lambda x: hop.cumulative_sum(x, axis=0), lambda x: hop.cumprod(x, axis=1),
            lambda x: x**x,
        ):  # fmt: skip
            self.same(f, lambda x, f=f: f(x.astype(f32)), hop.abs(x))

    def test_composites(self):
        x, w, b = rows(4, 3), rows(3, 5, seed=1), rows(5, seed=2)

        def layer(x, w, b):
            return hop.softmax(hop.tanh(x @ w + b), axis=-1)

        def by_hand(x, w, b):
            return hop.softmax(hop.tanh((x.astype(bf16) @ w.astype(bf16)).astype(f32) + b), axis=-1)

        self.same(layer, by_hand, x, w, b)

    def test_carries(self):
        w, c = rows(3, 3), rows(3, seed=1)

        def low(c, w):
            return (c.astype(bf16) @ w.astype(bf16)).astype(c.dtype)

        def plain_loop(c, w, product):
            for _ in range((c[0] * 0).astype(hop.int32) + 3):
                c = product(c, w)
            return c

        for loop in (
            lambda c, w, f: hop.scan(lambda c, _: (f(c, w), None), c, None, length=3)[0],
            lambda c, w, f: hop.fori_loop(0, 3, lambda i, c: f(c, w), c),
            lambda c, w, f: hop.while_loop(
                lambda s: s[0] < 3, lambda s: (s[0] + 1, f(s[1], w)), (0, c), max_trips=4
            )[1],
            plain_loop,
        ):
            with self.subTest(loop=loop):
                with_product = hop.jit(lambda c, w, loop=loop: loop(c, w, lambda c, w: c @ w))
                with_low = hop.jit(lambda c, w, loop=loop: loop(c, w, low))
                # a variable of Python's may change its dtype, a carry may not
                self.same(with_product, with_low, c, w, plainly=loop is not plain_loop)

    def test_branches(self):
        x, w = rows(3, 3), rows(3, 3, seed=1)

        def under(x, w):
            return hop.cond(x[0, 0] > 0, lambda: x @ w, lambda: x + w)

        def by_hand(x, w):
            return hop.cond(x[0, 0] > 0, lambda: (x.astype(bf16) @ w.astype(bf16)).astype(f32), lambda: x + w)

        self.same(hop.jit(under), hop.jit(by_hand), x, w)
        self.same(hop.jit(under), hop.jit(by_hand), -x, w)

    def test_transforms_inherit_it(self):
        x, w = rows(4, 3), rows(3, 5, seed=1)
        f = lambda x, w: hop.sum(hop.tanh(x @ w))  # noqa: E731
        g = lambda x, w: hop.sum(hop.tanh((x.astype(bf16) @ w.astype(bf16)).astype(f32)))  # noqa: E731
        with hop.autocast():
            found = hop.grad(f, argnums=1)(x, w), hop.vmap(lambda x: f(x, w))(x), hop.jvp(f, (x, w), (x, w))
            found += (hop.checkpoint(f)(x, w), hop.jit(hop.grad(f))(x, w))
        made = hop.grad(g, argnums=1)(x, w), hop.vmap(lambda x: g(x, w))(x), hop.jvp(g, (x, w), (x, w))
        made += (hop.checkpoint(g)(x, w), hop.jit(hop.grad(g))(x, w))
        self.assertEqual(bits(found), bits(made))

    def test_custom_rules(self):
        def rules(product):
            f = hop.custom_vjp(lambda x, w: product(x, w))
            f.defvjp(
                lambda x, w: (product(x, w), (x, w)),
                lambda kept, g: (3 * (product(g, kept[1].T)), 5 * product(kept[0].T, g)),
            )
            return f

        x, w = rows(4, 3), rows(3, 5, seed=1)
        f, g = rules(lambda x, w: x @ w), rules(lambda x, w: (x.astype(bf16) @ w.astype(bf16)).astype(f32))

        def under(x, w):
            with hop.autocast():
                return hop.sum(f(x, w))

        found = hop.grad(under, argnums=(0, 1))(x, w)
        self.assertEqual([y.dtype for y in found], [f32, f32])
        made = hop.grad(lambda x, w: hop.sum(g(x, w)), argnums=(0, 1))(x, w)
        for a, b in zip(found, made):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-2)

    def test_devices(self):
        with self.assertRaisesRegex(TypeError, "autocast: there is no argument 'device_type': there is one"):
            hop.autocast(device_type="cpu", dtype=hop.bfloat16)
        with self.assertRaisesRegex(TypeError, r"autocast: dtype is given twice.*it is autocast\(dtype"):
            hop.autocast("cpu", dtype=hop.bfloat16)

    def test_wrong_dtypes(self):
        for wrong in (hop.int32, f64, hop.bool, "int8"):
            with self.assertRaisesRegex(
                hop.InvalidError, r"test_modes.py:\d+: autocast: dtype: expected hop.bfloat16"
            ):
                hop.autocast(wrong)
        with self.assertRaises(TypeError):
            hop.autocast(bf16, enabled=3)


if __name__ == "__main__":
    unittest.main()
