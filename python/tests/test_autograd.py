"""Functions as classes, in PyTorch's spelling: every method and every mark, under every transform. Rules are
scaled by numbers of their own, so that a result shows whose rule ran."""

import math
import traceback
import unittest

import hop
from hop.autograd import Function
from support import Case

BACK, PUSH = 5.0, 7.0
STATE = {"by": 2.0}


def asarray(x):
    return hop.asarray(x, dtype=hop.float64)


class Exp(Function):
    """With setup_context, which keeps the output."""

    @staticmethod
    def forward(x):
        return hop.exp(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        assert isinstance(inputs, tuple) and len(inputs) == 1
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return BACK * y * g


class Product(Function):
    """forward and setup_context in one, with a value in the middle, something that is no array, and a jvp."""

    @staticmethod
    def forward(ctx, x, y, times):
        middle = hop.sin(x)
        ctx.save_for_backward(x, y, middle)
        ctx.save_for_forward(x, y)
        ctx.times = times
        return times * middle * y

    @staticmethod
    def backward(ctx, g):
        x, y, middle = ctx.saved_tensors
        return BACK * ctx.times * hop.cos(x) * y * g, BACK * ctx.times * middle * g, None

    @staticmethod
    def jvp(ctx, tx, ty, nothing):
        assert nothing is None
        x, y = ctx.saved_tensors
        return PUSH * ctx.times * (hop.cos(x) * y * tx + hop.sin(x) * ty)


class Transforms(Case):
    def test_setup_context(self):
        x = asarray(0.3)
        value = math.exp(0.3)
        self.close(Exp.apply(x), value, 1e-12)
        self.close(hop.jit(Exp.apply)(x), value, 1e-12)
        derivative = Exp.apply
        for order in range(1, 4):
            derivative = hop.grad(derivative)
            self.close(derivative(x), BACK**order * value, 1e-12)
            self.close(hop.jit(derivative)(x), BACK**order * value, 1e-12)
        self.close(hop.jvp(Exp.apply, (x,), (asarray(2.0),))[1], 2 * BACK * value, 1e-12)
        self.close(hop.jacfwd(hop.grad(Exp.apply))(x), BACK**2 * value, 1e-12)
        xs = asarray([0.0, 0.3])
        each = [1.0, value]
        self.close(hop.vmap(Exp.apply)(xs), each, 1e-12)
        self.close(hop.vmap(hop.grad(Exp.apply))(xs), [BACK * v for v in each], 1e-12)
        self.close(hop.grad(lambda x: hop.sum(hop.vmap(Exp.apply)(x)))(xs), [BACK * v for v in each], 1e-12)

    def test_both_in_one(self):
        x, y = asarray(0.7), asarray(1.5)
        f = lambda x, y: Product.apply(x, y, 3)  # noqa: E731
        dx, dy = 3 * math.cos(0.7) * 1.5, 3 * math.sin(0.7)
        self.close(f(x, y), 3 * math.sin(0.7) * 1.5, 1e-12)
        for g in (hop.grad(f, (0, 1)), hop.jit(hop.grad(f, (0, 1)))):
            self.close(g(x, y)[0], BACK * dx, 1e-12)
            self.close(g(x, y)[1], BACK * dy, 1e-12)
        self.close(hop.jvp(f, (x, y), (asarray(1.0), asarray(2.0)))[1], PUSH * (dx + 2 * dy), 1e-12)
        self.close(hop.grad(hop.grad(f))(x, y), -BACK * 3 * math.sin(0.7) * 1.5, 1e-12)
        lanes = hop.vmap(hop.grad(f, 1), (0, None))
        self.close(lanes(asarray([0.7, 0.0]), y), [BACK * dy, 0.0], 1e-12)
        shared = hop.grad(lambda y: hop.sum(hop.vmap(f, (0, None))(asarray([0.7, 0.7]), y)))
        self.close(shared(y), 2 * BACK * dy, 1e-12)

    def test_only_jvp(self):
        class Pushed(Function):
            @staticmethod
            def forward(x, y):
                return x * y, x + y

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_forward(*inputs)

            @staticmethod
            def jvp(ctx, tx, ty):
                x, y = ctx.saved_tensors
                return PUSH * (x * ty + y * tx), None

        f = lambda x, y: sum(Pushed.apply(x, y))  # noqa: E731
        x, y = asarray(2.0), asarray(3.0)
        self.close(hop.jvp(f, (x, y), (asarray(1.0), asarray(0.0)))[1], PUSH * 3, 1e-12)
        self.close(hop.grad(f, 1)(x, y), PUSH * 2, 1e-12)

    def test_in_bodies(self):
        step = lambda c, _: (Exp.apply(-c), None)  # noqa: E731
        f = lambda x: hop.scan(step, x, None, length=3)[0]  # noqa: E731
        x, slope = 0.4, 1.0
        for _ in range(3):
            x = math.exp(-x)
            slope *= -BACK * x
        self.close(f(asarray(0.4)), x, 1e-12)
        self.close(hop.jit(hop.grad(f))(asarray(0.4)), slope, 1e-12)
        looped = lambda x: hop.while_loop(  # noqa: E731
            lambda c: c[1] < 3, lambda c: (Exp.apply(-c[0]), c[1] + 1), (x, 0)
        )[0]
        self.close(hop.grad(looped)(asarray(0.4)), slope, 1e-12)
        chosen = lambda x: hop.cond(x > 0, Exp.apply, lambda x: x, x)  # noqa: E731
        self.close(hop.vmap(hop.grad(chosen))(asarray([0.0, 1.0])), [1.0, BACK * math.e], 1e-12)

    def test_vmap(self):
        """The rule for lanes is the one that runs: it multiplies by 100, and gives its second output with
        the axis last."""

        class Lanes(Function):
            @staticmethod
            def forward(x, y):
                return hop.sum(x) * y, x

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_backward(*inputs)

            @staticmethod
            def backward(ctx, g, h):
                x, y = ctx.saved_tensors
                return g * y * hop.ones_like(x) + h, g * hop.sum(x)

            @staticmethod
            def vmap(info, in_dims, x, y):
                assert in_dims == (0, 0) and info.batch_size == x.shape[0]
                return (100 * hop.sum(x, axis=1) * y, hop.moveaxis(x, 0, 1)), (0, 1)

        total, same = hop.vmap(Lanes.apply, (0, None))(hop.ones((2, 3)), hop.asarray(2.0))
        self.equal(total, [600.0, 600.0])
        self.equal(same, [[1.0] * 3] * 2)
        self.equal(hop.grad(lambda x: Lanes.apply(x, hop.asarray(2.0))[0])(hop.ones(3)), [2.0] * 3)

    def test_inheritance(self):
        class Other(Exp):
            @staticmethod
            def backward(ctx, g):
                return -g

        self.close(hop.grad(Other.apply)(asarray(1.0)), -1.0)
        self.close(hop.grad(Exp.apply)(asarray(0.0)), BACK)

    def test_what_methods_read_is_followed(self):
        class Scaled(Function):
            @staticmethod
            def forward(ctx, x):
                return x * STATE["by"]

            @staticmethod
            def backward(ctx, g):
                return g * STATE["by"] * 10

        run, slope = hop.jit(lambda x: Scaled.apply(x)), hop.jit(hop.grad(lambda x: Scaled.apply(x)))
        for by in (2.0, 3.0):
            STATE["by"] = by
            self.close(run(asarray(1.0)), by)
            self.close(slope(asarray(1.0)), 10 * by)

    def test_plain_control_flow(self):
        class Relu(Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                if x > 0:
                    return x * 1
                return x * 0

            @staticmethod
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                if x > 0:
                    return BACK * g
                return 0 * g

        for g in (hop.grad(Relu.apply), hop.jit(hop.grad(Relu.apply))):
            self.close(g(asarray(2.0)), BACK)
            self.close(g(asarray(-2.0)), 0.0)

    def test_many_sizes(self):
        g = hop.jit(hop.grad(lambda x: hop.sum(Exp.apply(x))))
        for n in (2, 3, 4, 5):
            self.close(g(hop.zeros(n, dtype=hop.float64)), [BACK] * n, 1e-12)


class Contexts(Case):
    def test_marks(self):
        class Sorted(Function):
            @staticmethod
            def forward(ctx, x):
                order = hop.argsort(x)
                y, total = x[order], hop.sum(x)
                ctx.mark_non_differentiable(order, total)
                ctx.save_for_backward(order)
                return y, order, total

            @staticmethod
            def backward(ctx, g, of_order, of_total):
                assert (of_order.dtype, of_total.shape) == (hop.int64, ())
                (order,) = ctx.saved_tensors
                return hop.zeros_like(g).at[order].set(g)

        def f(x):
            y, order, total = Sorted.apply(x)
            return y @ asarray([1.0, 2.0, 3.0]) + 100 * total

        x = asarray([3.0, 1.0, 2.0])
        self.close(f(x), 614.0, 1e-12)
        self.close(hop.grad(f)(x), [3.0, 1.0, 2.0], 1e-12)

    def test_grads_that_are_not_materialized(self):
        class Two(Function):
            @staticmethod
            def forward(ctx, x):
                ctx.set_materialize_grads(False)
                size = hop.sum(x)
                ctx.mark_non_differentiable(size)
                return x * 2, size, hop.argmax(x)

            @staticmethod
            def backward(ctx, g, of_size, of_index):
                assert of_size is None and of_index is None
                return 2 * g

        self.close(hop.grad(lambda x: hop.sum(Two.apply(x)[0]))(asarray([1.0, 2.0])), [2.0, 2.0])

    def test_grads_of_outputs_that_nothing_depends_on(self):
        def gradient(ctx, g, h):
            (x,) = ctx.saved_tensors
            if h is None:
                return 10 * g
            return 100 * h if g is None else 2 * g + 3 * x**2 * h

        class Combined(Function):
            @staticmethod
            def forward(ctx, x):
                ctx.set_materialize_grads(False)
                ctx.save_for_backward(x)
                return 2 * x, x**3

            backward = staticmethod(gradient)

        class Apart(Function):
            @staticmethod
            def forward(x):
                return 2 * x, x**3

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.set_materialize_grads(False)
                ctx.save_for_backward(*inputs)

            backward = staticmethod(gradient)

        x = asarray(2.0)
        for each in (Combined, Apart):
            uses = ((lambda a, b: a, 10.0), (lambda a, b: b, 100.0), (lambda a, b: a * b, 64.0))
            for use, expected in uses:
                f = lambda x, each=each, use=use: use(*each.apply(x))  # noqa: E731
                self.close(hop.grad(f)(x), expected)
                self.close(hop.jit(hop.grad(f))(x), expected)
                self.close(hop.vmap(hop.grad(f))(hop.stack([x, x])), [expected] * 2)

    def test_dirty(self):
        class Scale(Function):
            @staticmethod
            def forward(ctx, x, k):
                x[0] = x[0] * k
                ctx.mark_dirty(x)
                ctx.k = k
                return x

            @staticmethod
            def backward(ctx, g):
                return g.at[0].multiply(ctx.k), None

        x = asarray([1.0, 2.0])
        y = Scale.apply(x, 3.0)
        self.assertIs(y, x)
        self.equal(x, [3.0, 2.0])

        def f(x):
            z = x * 1
            self.assertIs(Scale.apply(z, 3.0), z)
            return hop.sum(z * z)

        for run in (f, hop.jit(f)):
            self.close(run(asarray([1.0, 2.0])), 13.0)
        for g in (hop.grad(f), hop.jit(hop.grad(f))):
            self.close(g(asarray([1.0, 2.0])), [18.0, 4.0])

    def test_arguments_stay_what_they_were(self):
        class Written(Function):
            @staticmethod
            def forward(ctx, x):
                x[0] = 9.0
                return x + 1

            @staticmethod
            def backward(ctx, g):
                return g

        for apply in (Written.apply, hop.jit(Written.apply)):
            x = asarray([1.0, 2.0])
            self.equal(apply(x), [10.0, 3.0])
            self.equal(x, [1.0, 2.0])

    def test_needs_input_grad(self):
        class Asked(Function):
            @staticmethod
            def forward(ctx, x, n, name, k):
                assert ctx.needs_input_grad[1:] == (False, False, False)
                return x * n * k

            @staticmethod
            def backward(ctx, g):
                assert ctx.needs_input_grad == (True, False, False, False)
                return g, None, None, None, None  # more than there are

        g = hop.grad(lambda x: Asked.apply(x, hop.asarray(3), "text", 2.0))
        self.close(g(asarray(1.0)), 1.0)

    def test_gradients_are_summed_to_the_shape(self):
        class Add(Function):
            @staticmethod
            def forward(ctx, x, b):
                return x + b

            @staticmethod
            def backward(ctx, g):
                return g, g

        f = lambda x, b: hop.sum(Add.apply(x, b) * 2)  # noqa: E731
        for shape in ((), (1,), (3,), (2, 1), (1, 3), (2, 3)):
            b = hop.ones(shape)  # float32: the gradient is converted, too
            g = hop.grad(f, 1)(hop.ones((2, 3), dtype=hop.float64), b)
            self.assertEqual((g.shape, g.dtype), (b.shape, b.dtype))
            self.close(hop.sum(g), 12.0)


class Mistakes(Case):
    def check(self, text, cls, *args, error=hop.InvalidError, call=hop.grad):
        try:
            call(lambda x: hop.sum(cls.apply(x, *args)))(hop.ones(3))
        except error as found:
            self.assertRegex(str(found), text)
            frames = traceback.extract_tb(found.__traceback__)
            self.assertEqual({f.filename for f in frames}, {__file__})
        else:
            self.fail(f"no error: {text}")

    def test_backward(self):
        def with_backward(given):
            class Wrong(Function):
                @staticmethod
                def forward(ctx, x, *more):
                    return x * 1

                @staticmethod
                def backward(ctx, g):
                    return given(g)

            return Wrong

        at = r"test_autograd.py:\d+"
        self.check(rf"{at}: Wrong: backward \(.*{at}\) gives 2 gradients, Wrong.apply was given 1 arguments",
                   with_backward(lambda g: (g, g)))  # fmt: skip
        self.check(r"gradient of argument 0 has shape \(2,\), expected \(3,\)",
                   with_backward(lambda g: g[:2]))  # fmt: skip
        self.check("gives a gradient for argument 1, which is no array", with_backward(lambda g: (g, g)), 2.0)

        def fails(g):
            raise RuntimeError("of the user's")

        self.check("of the user's", with_backward(fails), error=RuntimeError)

    def test_classes(self):
        class Nothing(Function):
            pass

        class NoGradient(Function):
            @staticmethod
            def forward(ctx, x):
                return x

        class Both(Exp):
            generate_vmap_rule = True

            @staticmethod
            def vmap(info, in_dims, x):
                return x, 0

        self.check("Nothing has no forward", Nothing)
        self.check(r"NoGradient has no gradient: give it a backward\(ctx, \*grads\)", NoGradient)
        self.check("Both has both vmap and generate_vmap_rule", Both)
        with self.assertRaisesRegex(TypeError, r"call Exp.apply\(…\)"):
            Exp()
        with self.assertRaisesRegex(TypeError, "by position alone, found 'x'"):
            Exp.apply(x=1.0)

    def test_contexts(self):
        def with_forward(forward):
            return type("Wrong", (Function,), {
                "forward": staticmethod(forward), "backward": staticmethod(lambda ctx, g: g)
            })  # fmt: skip

        self.check("ctx.mark_dirty: that is no argument of forward",
                   with_forward(lambda ctx, x: ctx.mark_dirty(x * 1) or x * 1))  # fmt: skip
        self.check("argument 0 is not among the outputs",
                   with_forward(lambda ctx, x: ctx.mark_dirty(x) or x * 1))  # fmt: skip
        self.check("ctx.mark_non_differentiable: that is no output of forward",
                   with_forward(lambda ctx, x: ctx.mark_non_differentiable(x) or x * 1))  # fmt: skip
        self.check("save_for_backward: expected arrays or None, found .*: keep other things as attributes",
                   with_forward(lambda ctx, x: ctx.save_for_backward("text") or x * 1),
                   error=TypeError)  # fmt: skip


if __name__ == "__main__":
    unittest.main()
