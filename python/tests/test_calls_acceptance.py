"""What a call of a function under jit, inside of another program, promises: it is one operator,
invoke_subgraph, whose body is captured, differentiated and compiled once. One claim a test."""

import collections
import dataclasses
import re

import hop
from support import Case, needs_numpy, numpy

X = hop.asarray([[0.5, 1.0, -0.25], [2.0, 0.125, 1.5]])
W = hop.asarray([[0.5, 0.25, 0.0], [-0.5, 0.75, 0.25], [0.125, 0.5, -0.75]])


def block(w, x):
    return hop.tanh(x @ w) * hop.sin(x) + x


def chain(f, n=4):
    def whole(ws, x):
        for w in ws[:n]:
            x = f(w, x)
        return hop.sum(x)

    return whole


def weights(n):
    return [W * (0.5 + 0.125 * i) for i in range(n)]


def functions(text):
    """The functions of a program by name, each as (parameters, results, lines)."""
    found = re.findall(r"^fn @(\w+)[^(\n]*\((.*?)\) -> \((.*?)\)[^\n]*\{\n(.*?)^\}", text, re.M | re.S)
    return {name: (p.split(", %"), re.split(r", (?=[a-z])", r), body) for name, p, r, body in found}


def calls(text, name):
    return len(re.findall(rf"= invoke_subgraph (?:\{{[^}}]*\}} )?@{name}\(", text))


class Acceptance(Case):
    def same_tree(self, a, b, tolerance=1e-5):
        a, b = hop.tree.leaves(a), hop.tree.leaves(b)
        self.assertEqual(len(a), len(b))
        for x, y in zip(a, b):
            self.close(x, y, tolerance)

    def agrees(self, f, g, *args, wrt=0):
        """f calls functions under jit, g plain ones: values and gradients, compiled and not, are the same."""
        for h in (f, hop.jit(f)):
            self.same_tree(h(*args), g(*args))
        for h in (hop.grad(f, wrt), hop.jit(hop.grad(f, wrt))):
            self.same_tree(h(*args), hop.grad(g, wrt)(*args))

    def test_an_inner_jit_is_this_operator(self):
        text = hop.jit(chain(hop.jit(block))).text(weights(4), X)
        self.assertEqual(list(functions(text)), ["block", "whole"])
        self.assertEqual(calls(text, "block"), 4)

    def test_marks_nest_harmlessly(self):
        thrice = hop.jit(hop.jit(hop.jit(block)))
        text = hop.jit(chain(thrice)).text(weights(4), X)
        self.assertEqual(list(functions(text)), ["block", "whole"])
        self.assertEqual(text.count("invoke_subgraph"), 4)
        self.agrees(chain(thrice), chain(block), weights(4), X)
        # what the inner one says of its arguments is kept
        power = hop.jit(hop.jit(lambda x, n: x**n, static_argnums=1), static_argnums=1)
        self.close(hop.jit(lambda x: power(x, 3))(X), X * X * X)
        self.assertIn("inline = no", hop.jit(lambda x: hop.jit(hop.jit(hop.sin, inline=False))(x)).text(X))

    def test_1_outside_of_programs_it_is_the_function(self):
        f = hop.jit(block)
        self.close(f(W, X), block(W, X))
        self.same_tree(hop.grad(chain(f))(weights(3), X), hop.grad(chain(block))(weights(3), X))
        with hop.disable_jit():
            self.close(f(W, X), block(W, X))

    def test_2_one_forward_and_one_backward(self):
        for n in (4, 7, 12):
            text = hop.jit(hop.grad(chain(hop.jit(block), n))).text(weights(n), X)
            self.assertEqual(sorted(functions(text)), ["block_backward", "block_forward", "whole"])
            self.assertEqual([calls(text, "block_forward"), calls(text, "block_backward")], [n, n])

    def test_3_what_differs_has_a_body_of_its_own(self):
        def scaled(x):
            return hop.sin(x) * scale * x + hop.cos(x)

        f = hop.jit(scaled)
        scale = 2.0

        def whole(x, y, n):
            nonlocal scale
            scale = 2.0
            a = f(x), f(x + 1)  # one
            b = f(y), f(y + 1)  # another shape
            z = hop.astype(x, hop.float64)
            c = f(z), f(z + 1)  # another dtype
            d = f(n), f(n + 1)  # a size that is a symbol
            e = f(n[1:]), f(n[1:] + 1)  # another one
            scale = 3.0
            return a, b, c, d, e, f(x), f(x + 1)  # another constant

        text = hop.jit(whole, dims={"n": "T"}).text(X, X[0], hop.ones(5))
        self.assertEqual(len(functions(text)), 6 + 1)
        # other derivatives: the last half of the calls is not differentiated by its weights
        def halves(ws, x):
            return chain(hop.jit(block), 8)([*ws, *weights(4)], x)

        text = hop.jit(hop.grad(halves)).text(weights(4), X)
        self.assertEqual(len([name for name in functions(text) if "backward" in name]), 2)
        self.agrees(halves, lambda ws, x: chain(block, 8)([*ws, *weights(4)], x), weights(4), X)

    def test_4_names_do_not_matter(self):
        def first(x):
            a = hop.sin(x)
            b = a * x
            return b + 1

        def second(given):
            sine = hop.sin(given)
            product = sine * given
            return product + 1

        f, g = hop.jit(first), hop.jit(second)
        text = hop.jit(lambda x: f(x) + g(x) + f(2 * x) + g(3 * x)).text(X)
        self.assertEqual(len(functions(text)), 2)
        self.assertEqual(calls(text, "first"), 4)

    def test_5_results_come_back_as_they_are(self):
        pair = collections.namedtuple("pair", "a b")

        @dataclasses.dataclass
        class Both:
            x: object
            name: str

        @hop.jit
        def f(x):
            return [x + 1, (None, {"k": pair(x * 2, None)})], Both(x * 3, "three"), "text", 4

        def whole(x):
            lists, both, text, four = f(x)
            assert text == "text" and four.shape == (), (text, four)
            assert type(lists) is list and lists[1][0] is None and lists[1][1]["k"].b is None
            assert both.name == "three"
            return lists, both.x, four

        lists, three, four = hop.jit(whole)(X)
        self.equal(four, 4, hop.int64)
        self.close(lists[0], X + 1)
        self.close(lists[1][1]["k"].a, X * 2)
        self.close(three, X * 3)

    def test_6_sizes_are_results(self):
        @hop.jit
        def f(x):
            return x * x, x.shape[0], hop.sum(x) * x.shape[0]

        def whole(x):
            a, n, s = f(x)
            b, m, t = f(a)
            return hop.sum(a) * n + hop.sum(b) * m + s * t

        def plain(x):
            a, n = x * x, x.shape[0]
            b, s = a * a, hop.sum(x) * n
            return hop.sum(a) * n + hop.sum(b) * n + s * hop.sum(a) * n

        for options in ({}, {"dims": {"x": "T"}}, {"dynamic": False}):
            for n in (1, 3, 5):
                x = hop.linspace(-1.0, 1.0, n)
                self.close(hop.jit(whole, **options)(x), plain(x))
                self.close(hop.jit(hop.grad(whole), **options)(x), hop.grad(plain)(x))

    def test_7_no_gradient_where_none_is_asked(self):
        @hop.jit
        def f(w, x, n):
            return hop.tanh(x @ w) * x, n + 1, hop.argmax(x, axis=1)

        def whole(w, x, n):
            for _ in range(4):
                x, n, i = f(w, x, n)
            return hop.sum(x * hop.astype(n, hop.float32)), i

        loss = hop.jit(hop.value_and_grad(whole, has_aux=True))
        text = loss.text(W, X, hop.asarray(1))
        backward = functions(text)["f_backward"]
        self.assertEqual(backward[1], ["f32[3, 3]", "f32[2, 3]"])  # of w and of what comes in, none of n
        (value, i), g = loss(W, X, hop.asarray(1))
        self.assertEqual(i.dtype, hop.int64)

        def plain(w, x):
            for _ in range(4):
                x = hop.tanh(x @ w) * x
            return hop.sum(x * 5.0)

        self.close(g, hop.grad(plain)(W, X))
        # nothing is asked of a call that sees no weights: it is not differentiated
        text = hop.jit(hop.grad(lambda w: hop.sum(w * hop.jit(block)(W, X)[:, :, None][0]))).text(W)
        self.assertNotIn("backward", text)

    def test_8_buffers_are_updated(self):
        def plain(b, x):
            b[1] += x
            b[0] = b[1] * 2
            return hop.sum(b)

        inner = hop.jit(plain, mut="b")

        @hop.jit(mut="b")
        def whole(b, xs):
            return [inner(b, xs[i]) for i in range(3)]

        found, expected = hop.zeros(3), hop.zeros(3)
        xs = hop.asarray([1.0, 2.0, 4.0])
        for _ in range(2):
            sums = whole(found, xs)
            self.same_tree(sums, [plain(expected, xs[i]) for i in range(3)])
            self.equal(found, expected.tolist())
        # and while a gradient is taken: what is written is a result like any other

        def loss(w):
            b = hop.zeros(3)
            out = inner(b, w) * inner(b, w * w)
            return out + b[0]

        def by_hand(w):
            first, second = w, w + w * w
            return first * 3 * (second * 3) + second * 2

        self.close(hop.jit(hop.grad(loss))(hop.asarray(1.5)), hop.grad(by_hand)(hop.asarray(1.5)))

    def test_9_random_numbers(self):
        def dropped(w, x, key):
            keep = hop.random.uniform(key, x.shape) < 0.5
            return hop.where(keep, hop.tanh(x @ w) * 2, 0.0) + x

        def whole(f):
            def loss(w, x, key):
                for k in hop.random.split(key, 4):
                    x = f(w, x, k)
                return hop.sum(x)

            return loss

        key = hop.random.key(3)
        for f in (hop.jit(dropped), hop.checkpoint(hop.jit(dropped)), hop.jit(hop.checkpoint(dropped))):
            self.agrees(whole(f), whole(dropped), W, X, key)
        text = hop.jit(whole(hop.jit(dropped))).text(W, X, key)
        self.assertEqual(functions(text)["dropped"][2].count("random"), 1)
        self.assertEqual(calls(text, "dropped"), 4)

    def test_10_sizes_that_only_a_run_knows(self):
        @hop.jit
        def positive(x):
            return x[hop.nonzero(x > 0)[0]]

        def whole(x, y):
            return hop.sum(positive(x) * positive(y) ** 2)

        f = hop.jit(whole)
        x, y = hop.asarray([1.0, -2.0, 3.0]), hop.asarray([0.5, 0.25, -1.0])
        self.assertIn("check", f.text(x, y))
        self.close(f(x, y), 1.0 * 0.25 + 3.0 * 0.0625)
        self.close(hop.jit(hop.grad(whole))(x, y), [0.25, 0.0, 0.0625])
        with self.assertRaisesRegex(hop.CheckError, "sizes agree"):
            f(x, hop.asarray([1.0, 1.0, 1.0]))

    def test_11_cotangents_that_are_one_value(self):
        def two(w, x):
            y = hop.tanh(x @ w)
            return y * 2, hop.sin(y) * x

        def whole(f):
            def loss(w, x):
                total = 0.0
                for i in range(6):
                    a, b = f(w, x)
                    # one cotangent for both, or one each; one of them is none at all in the last
                    total = total + (hop.sum(a + b) if i % 2 else hop.sum(a) + 3 * hop.sum(b * b))
                    x = a - b
                return total + hop.sum(f(w, x)[1])

            return loss

        self.agrees(whole(hop.jit(two)), whole(two), W, X)

    @needs_numpy
    def test_12_layouts_at_the_edge(self):
        def f(x, y):
            return (x.T @ y).T, hop.permute_dims(x[None] * 2.0, (2, 0, 1))

        inner = hop.jit(f)
        big = numpy.arange(48, dtype="float32").reshape(6, 8) / 7
        x, y = big[::2, ::3], big[::-2, 1:4]  # with steps, backwards
        self.assertFalse(x.flags.c_contiguous)
        whole = hop.jit(lambda x, y: (inner(x, y), inner(y.T, hop.permute_dims(x, (1, 0)))))
        for found, (a, b) in zip(whole(x, y), ((x, y), (y.T, x.T))):
            numpy.testing.assert_allclose(numpy.asarray(found[0]), (a.T @ b).T, rtol=1e-5)
            numpy.testing.assert_allclose(numpy.asarray(found[1]), numpy.transpose(a[None] * 2, (2, 0, 1)))
            self.assertTrue(all(numpy.asarray(r).flags.c_contiguous for r in found))

    def test_13_rules_and_callbacks_inside(self):
        @hop.custom_vjp
        def steep(x):
            return hop.tanh(x)

        steep.defvjp(lambda x: (hop.tanh(x), x), lambda x, ct: (ct * 10.0,))
        seen = []

        @hop.jit
        def f(w, x):
            return steep(x @ w)

        def whole(w, x):
            for _ in range(4):
                x = f(w, x)
            return hop.sum(x)

        def plain(w, x):
            for _ in range(4):
                x = steep(x @ w)
            return hop.sum(x)

        text = hop.jit(whole).text(W, X)
        self.assertEqual(text.count("= custom {"), 1)  # in the body of all four calls
        self.assertEqual(text.count("= invoke_subgraph @"), 4)
        self.agrees(whole, plain, W, X)

        @hop.jit
        def watched(x):
            hop.debug_callback(lambda v: seen.append(v.item()), hop.sum(x))
            return x * 2

        hop.jit(lambda x: watched(watched(x)))(X)
        self.assertEqual(len(seen), 2)

    def test_14_constants_and_names_of_arguments(self):
        @hop.jit
        def f(x, /, *, scale, shift=0.5):
            table = hop.asarray([1.0, 2.0, 4.0])
            return x * table * scale + shift + hop.arange(3)

        def plain(x, scale, shift=0.5):
            return x * hop.asarray([1.0, 2.0, 4.0]) * scale + shift + hop.arange(3)

        def whole(x):
            return hop.sum(f(f(x, scale=2.0), shift=x, scale=x))

        self.agrees(whole, lambda x: hop.sum(plain(plain(x, 2.0), x, x)), X)
        with self.assertRaisesRegex(TypeError, "complex"):  # there are no such arrays
            hop.jit(lambda x: f(x, scale=2.0))(1j)

    def test_15_calls_that_do_not_reach_the_loss(self):
        f = hop.jit(block)

        def whole(ws, x):
            for w in ws:
                x = f(w, x)
            aside = f(ws[0], x)
            return hop.sum(x), aside

        g = hop.jit(hop.grad(whole, has_aux=True))
        text = g.text(weights(4), X)
        self.assertEqual([calls(text, "block_forward"), calls(text, "block_backward")], [5, 4])
        self.assertEqual(sorted(functions(text)), ["block_backward", "block_forward", "whole"])
        found, aside = g(weights(4), X)
        self.same_tree(found, hop.grad(chain(block))(weights(4), X))

    def test_operands_do_not_go_through_the_body(self):
        text = hop.jit(hop.grad(chain(hop.jit(block)))).text(weights(4), X)
        parameters, results, body = functions(text)["block_forward"]
        given = re.search(r"return (.*)", body).group(1).split(", ")
        self.assertEqual(len(set(given)), len(given))
        self.assertFalse([r for r in given if r in ("%w", "%x")])
        # the gradient of the last call takes the weights as they came
        whole = functions(text)["whole"][2]
        self.assertRegex(whole, r"invoke_subgraph @block_backward\(%ws_3, ")

    def test_one_forward_for_all_backward_variants(self):
        def two(w, x):
            y = hop.tanh(x @ w)
            return y * 2, hop.sin(y) * hop.cos(x)

        def loss(f):
            def whole(w, x):
                total = 0.0
                for i in range(6):
                    a, b = f(w, x + i)
                    total = total + (hop.sum(a) if i % 2 else hop.sum(b))
                return total

            return whole

        text = hop.jit(hop.grad(loss(hop.jit(two)))).text(W, X)
        names = sorted(functions(text))
        self.assertEqual(names, ["two_backward", "two_backward_1", "two_forward", "whole"])
        self.assertEqual(calls(text, "two_forward"), 6)
        for f in (hop.jit(two), hop.checkpoint(hop.jit(two)), hop.jit(two, inline=False)):
            self.agrees(loss(f), loss(two), W, X)
            self.same_tree(
                hop.jit(hop.grad(lambda w, x: hop.sum(hop.grad(loss(f))(w, x) ** 2)))(W, X),
                hop.grad(lambda w, x: hop.sum(hop.grad(loss(two))(w, x) ** 2))(W, X), 1e-4,
            )  # fmt: skip

    def test_within_a_budget_each_call_keeps_what_it_may(self):
        def large(w, x):
            a = hop.tanh(x @ w)
            b = hop.tanh(hop.sin(a) @ w)
            return hop.sin(hop.tanh(hop.cos(b) @ w)) * a + x

        whole, ws, x = chain(hop.jit(large), 12), [hop.eye(64) * 0.5 for _ in range(12)], hop.ones((64, 64))
        expected = hop.jit(hop.grad(whole), strict=True)(ws, x)
        most = 0
        for share in (0.7, 0.3):
            within = hop.jit(hop.grad(hop.checkpoint(whole, policy=hop.policies.budget(share))), strict=True)
            text = within.text(ws, x)
            found = functions(text)
            forward = [name for name in found if name.startswith("large") and "backward" not in name]
            backward = [name for name in found if "backward" in name]
            most = max(most, len(forward))
            # one or two ways to cut the body in two, chosen call by call
            self.assertLessEqual(max(len(forward), len(backward)), 2)
            self.assertEqual(sum(calls(text, name) for name in forward), 12)
            self.assertEqual(sum(calls(text, name) for name in backward), 12)
            for a, b in zip(within(ws, x), expected):
                self.equal(a, b.tolist())
        self.assertEqual(most, 2)

    def test_forwards_that_share_little_stay_apart(self):
        def two(w, x):
            a, b = x, x
            for _ in range(4):
                a, b = hop.tanh(a @ w), hop.cos(hop.sin(b * w[0]))
            return a, b

        f = hop.jit(two)

        def whole(w, x):
            return sum(hop.sum(f(w, x + i)[i % 2]) for i in range(6))

        text = hop.jit(hop.grad(whole)).text(W, X)
        self.assertEqual(len([name for name in functions(text) if "forward" in name]), 2)
        self.agrees(whole, lambda w, x: sum(hop.sum(two(w, x + i)[i % 2]) for i in range(6)), W, X)

    def test_bodies_in_bodies(self):
        inner = hop.jit(block)

        @hop.jit
        def outer(w, x):
            return hop.cos(inner(w, inner(w, x)))

        n = 5
        text = hop.jit(hop.grad(chain(outer, n))).text(weights(n), X)
        found = functions(text)
        expected = ["block_backward", "block_forward", "outer_backward", "outer_forward", "whole"]
        self.assertEqual(sorted(found), expected)
        for half in ("forward", "backward"):
            self.assertEqual(calls(found[f"outer_{half}"][2], f"block_{half}"), 2)
            self.assertEqual(calls(found["whole"][2], f"outer_{half}"), n)
        self.agrees(chain(outer, n), chain(lambda w, x: hop.cos(block(w, block(w, x))), n), weights(n), X)
