"""hop.checkpoint with policies: gradients do not depend on what is kept, bit for bit in strict numbers, and
what is kept is what the policy says."""

import json
import random
import re
import unittest

import hop
from support import Case

P = hop.policies


def weights(seed, *shapes):
    keys = hop.random.split(hop.random.key(seed), len(shapes))
    return [hop.random.normal(key, s) / 2 for key, s in zip(keys, shapes)]


def layer(w, x):
    a = hop.checkpoint_name(x @ w, "a")
    s = hop.checkpoint_name(hop.sin(a), "s")
    return hop.tanh(s @ w)


def loss(policy):
    f = hop.checkpoint(layer, policy=policy)
    return lambda w, x: hop.sum(f(w, f(w, x)))


def kept(f, *args):
    """How many values, besides arguments and results, calls of functions with one result keep."""
    text = hop.jit(hop.grad(f)).text(*args)
    calls = re.findall(
        r"^ *(%.*) = invoke_subgraph \{(?:recompute|policy)[^@]*@\w+_forward\b", text, re.MULTILINE
    )
    return sum(results.count("%") - 1 for results in calls)


class Policies(Case):
    def test_what_is_kept(self):
        """By two calls of a layer of two products: the second one is not read, its tanh is a result."""
        w, x = weights(0, (4, 4), (4, 4))
        for policy, values in (
            (P.nothing, 0), (None, 0), (P.products, 1), (P.names(save=["a"]), 1),
            (P.names(save=["a", "s"]), 2),
            (P.both(P.products, P.names(save="s")), 2), (P.save_only_these_names("s"), 1), (P.everything, 2),
            (P.names(recompute=["s"]), 1), (P.names(save=["s"], recompute=["a"]), 1),
            (P.named(), 2), (P.named(but="a"), 1), (P.save_any_names_but_these("a", "s"), 0),
            (P.both(P.named(but=["s"]), P.names(save=["s"])), 2),
        ):  # fmt: skip
            with self.subTest(policy=policy):
                self.assertEqual(kept(loss(policy), w, x), 2 * values)

    def test_function(self):
        w, x = weights(7, (4, 4), (4, 4))
        expected = hop.jit(hop.grad(loss(None)), strict=True)(w, x).tolist()
        seen = set()

        def sines(operator, type, name):
            seen.add((operator, type, name))
            return operator == "sin"

        for policy, values in (
            (P.function(sines), 1),
            (P.function(lambda operator, type, name: name == "a"), 1),
            (P.function(lambda operator, type, name: type == "f32[4]"), 0),
            (P.both(P.function(sines), P.products), 2),
        ):
            self.assertEqual(kept(loss(policy), w, x), 2 * values)
            self.assertEqual(hop.jit(hop.grad(loss(policy)), strict=True)(w, x).tolist(), expected)
        self.assertLessEqual({("matmul", "f32[4, 4]", "a"), ("sin", "f32[4, 4]", "s")}, seen)
        with self.assertRaises(ZeroDivisionError):
            hop.grad(loss(P.function(lambda *value: 1 // 0)))(w, x)
        with self.assertRaisesRegex(hop.InvalidError, "policies.function: expected a function, found 3"):
            P.function(3)

    def test_batched_products(self):
        a, b = weights(1, (2, 4, 4), (4, 4))

        def f(a, b):
            return hop.sum(hop.sin(hop.matmul(hop.sin(hop.matmul(hop.sin(a), b)), a)))

        def size(policy):
            return kept(lambda a, b: hop.checkpoint(f, policy=policy)(a, b), a, b)

        self.assertEqual(size(P.products), 2)
        self.assertEqual(size(P.products_without_batch), 1)

    def test_same_gradients(self):
        w, x = weights(2, (4, 4), (3, 4))
        expected = hop.jit(hop.grad(loss(P.everything)), strict=True)(w, x)
        for policy in (
            None,
            P.nothing,
            P.products,
            P.products_without_batch,
            P.names(save=["a"]),
            P.names(recompute=["a"]),
            P.names(save=["s"], recompute=["a"]),
            P.both(P.products, P.names(save=["s"])),
            P.named(but=["s"]),
            "names(save = [s])",
        ):
            with self.subTest(policy=policy):
                found = hop.jit(hop.grad(loss(policy)), strict=True)(w, x)
                self.assertEqual(found.tolist(), expected.tolist())
                batched = hop.jit(hop.vmap(hop.grad(loss(policy)), in_axes=(None, 0)))(w, hop.stack([x, x]))
                self.close(batched[1], expected, 1e-5)
                curved = [hop.hessian(loss(q))(w, x) for q in (policy, P.everything)]
                self.close(curved[0], curved[1], 1e-4)

    def test_inner_functions_have_their_values_kept(self):
        w, x = weights(3, (4, 4), (4, 4))
        inner = hop.jit(layer)
        f = hop.checkpoint(lambda w, x: inner(w, inner(w, x)), policy=P.names(save=["a"]))
        self.assertEqual(kept(lambda w, x: hop.sum(f(w, x)), w, x), 2)

    def test_random_numbers_are_the_same_again(self):
        (x,) = weights(4, (100,))
        key = hop.random.key(3)

        def f(x):
            mask = hop.random.bernoulli(key, 0.5, (100,))
            return hop.sum(hop.where(mask, hop.exp(hop.checkpoint_name(hop.sin(x), "s")), 0.0))

        plain = hop.jit(hop.grad(f), strict=True)(x)
        for policy in (None, P.names(save=["s"]), P.names(recompute=["s"])):
            found = hop.jit(hop.grad(hop.checkpoint(f, policy=policy)), strict=True)(x)
            self.assertEqual(found.tolist(), plain.tolist())

    def test_effects_are_not_repeated(self):
        for policy in (None, P.products, P.everything, P.names(recompute=["s"])):
            seen = []

            def f(x, seen=seen):
                y = hop.checkpoint_name(hop.sin(x), "s")
                hop.debug_callback(lambda v: seen.append(float(v)), y)
                return hop.exp(y)

            hop.jit(hop.grad(hop.checkpoint(f, policy=policy)))(0.0)
            self.assertEqual(seen, [0.0])

    def test_errors(self):
        w, x = weights(5, (2, 2), (2, 2))
        for make, message in (
            (lambda: P.names(), "expected names to save or to recompute, found none"),
            (lambda: P.names(save=["a"], recompute=["a"]), "'a' is to be saved and to be recomputed"),
            (lambda: P.names(save=[3]), "save: expected names .* found 3"),
            (lambda: P.names(save=["a,b"]), "save: expected names .* found 'a,b'"),
            (lambda: P.named(but=["a="]), "named: but: expected names .* found 'a='"),
            (lambda: hop.grad(loss(P.named(but=["b"])))(w, x), "no value has such a name; named are"),
            (lambda: hop.grad(loss("named(a)"))(w, x), r"expected but, found 'a\)'"),
            (lambda: P.both(), "expected policies, found none"),
            (lambda: P.both(P.products, 3), "policies.both: expected a policy .* found 3"),
            (lambda: hop.checkpoint(layer, policy=3), "checkpoint: policy: expected a policy .* found 3"),
            (lambda: hop.checkpoint_name(x, 3), "checkpoint_name: expected a name, found 3"),
            (lambda: hop.jit(lambda x: hop.checkpoint_name(x, ""))(x), 'name "": expected a name'),
            (
                lambda: hop.grad(loss(P.names(save=["b"])))(w, x),
                "no value has such a name; named are 'a', 's'",
            ),
            (lambda: hop.grad(loss("prod"))(w, x), r'policy "prod": expected nothing, everything, .* found'),
        ):
            with self.subTest(message=message), self.assertRaisesRegex(hop.InvalidError, message):
                make()
        for policy in (P.names(save=["b"]), P.named()):
            with self.assertRaisesRegex(hop.InvalidError, r"test_policies.py:\d+.*has a name: give one with"):
                hop.grad(lambda x, p=policy: hop.sum(hop.checkpoint(hop.sin, policy=p)(x)))(x)

    def test_plain_calls(self):
        w, x = weights(6, (3, 3), (3, 3))
        self.close(hop.checkpoint(layer, policy=P.products)(w, x), layer(w, x), 1e-6)
        tree = hop.checkpoint_name({"a": x, "b": (1.0, w)}, "t")
        self.equal(tree["a"], x.tolist())


    def test_explain_names_values_and_policies(self):
        w, x = weights(8, (4, 4), (3, 4))

        def listed(f):
            text = hop.jit(f).lower(w, x).function.grad().explain("json")
            values = json.loads(text)["kept"]["values"]
            return sorted((v["tag"], v["policy"], int(v["bytes"])) for v in values if int(v["bytes"]))

        def scanned(w, x):
            f = hop.checkpoint(layer, policy=P.products)
            return hop.sum(hop.scan(lambda c, _: (f(w, c), None), x, length=5)[0])

        def looped(w, x):
            def body(w, x):
                return hop.scan(lambda c, _: (layer(w, c), None), x, length=5)[0]

            return hop.sum(hop.checkpoint(body, policy=P.names(save="s"))(w, x))

        size = 3 * 4 * 4
        text = "names(save = [s])"
        # results of calls, which the calls' pullbacks read, have neither
        self.assertEqual(listed(loss(text)), [("", "", size)] * 2 + [("s", text, size)] * 2)
        self.assertEqual(listed(loss("products")), [("", "", size)] * 2 + [("a", "products", size)] * 2)
        self.assertEqual(listed(loss("nothing")), [("", "", size)] * 2)
        self.assertEqual(listed(scanned), [("", "", 5 * size), ("a", "products", 5 * size)])
        self.assertEqual([v for v in listed(looped) if v[0]], [("s", text, 5 * size)])


class Programs:
    """Random programs of products, elements, loops, branches and checkpointed functions in each other, as
    functions of (w, x) that depend on nothing but their seed and the policies in their order."""

    def __init__(self, seed, policies):
        self.r, self.policies = random.Random(seed), iter(policies)

    def body(self, depth):
        steps = [self.step(depth) for _ in range(self.r.randint(2, 4))]

        def f(w, x):
            for step in steps:
                x = step(w, x)
            return x

        return f

    def step(self, depth):
        kind = self.r.choice(
            ["dot", "sin", "mul", "name"] + ["scan", "cond", "checkpoint", "jit", "for"] * (depth > 0)
        )
        if kind == "dot":
            return lambda w, x: x @ w
        if kind == "sin":
            return lambda w, x: hop.sin(x)
        if kind == "mul":
            return lambda w, x: x * hop.cos(x)
        if kind == "name":
            name = self.r.choice("abc")
            return lambda w, x: hop.checkpoint_name(hop.tanh(x), name)
        f, n, schedule = self.body(depth - 1), self.r.randint(1, 3), self.r.choice([None, None, "recompute"])
        if kind == "scan":
            return lambda w, x: hop.scan(lambda c, _: (f(w, c), None), x, length=n, schedule=schedule)[0]
        if kind == "for":
            return lambda w, x: hop.fori_loop(0, n, lambda i, c: f(w, c), x)
        if kind == "cond":
            g = self.body(depth - 1)
            return lambda w, x: hop.cond(hop.sum(x) > 0, f, g, w, x)
        if kind == "jit":
            return hop.jit(f)
        policy = next(self.policies)

        def named(w, x):  # each function has each name, so that any policy names something
            for name in "abc":
                x = hop.checkpoint_name(hop.sin(x), name)
            return f(w, x)

        return hop.checkpoint(named, policy=policy)


class RandomPrograms(Case):
    def test_gradients_are_the_same_bit_for_bit(self):
        all_policies = [
            None, P.nothing, P.everything, P.products, P.products_without_batch, P.names(save=["a"]),
            P.names(save=["b", "c"]), P.names(recompute=["a", "b"]), P.names(save=["a"], recompute=["c"]),
            P.both(P.products, P.names(save=["c"])), P.both(P.everything, P.names(recompute=["a"])),
            P.named(), P.named(but=["a", "b"]), P.offload(["a"]), P.both(P.products, P.offload(["b"])),
        ]  # fmt: skip
        for seed in range(16):
            size = 24 if seed % 2 else 3  # the larger ones can be in a file
            w, x = weights(seed, (size, size), (size, size))
            choices = random.Random(seed + 1000)
            mixed = [choices.choice(all_policies) for _ in range(100)]
            found = []
            for policies in ([P.everything] * 100, [None] * 100, mixed):
                body = hop.checkpoint(
                    Programs(seed, policies).body(2), policy=P.both(P.products, P.everything)
                )
                found.append(
                    hop.jit(hop.grad(lambda w, x, f=body: hop.sum(f(w, x)), (0, 1)), strict=True)(w, x)
                )
            with self.subTest(seed=seed):
                for other in found[1:]:
                    for a, b in zip(found[0], other):
                        self.assertEqual(a.tolist(), b.tolist())


if __name__ == "__main__":
    unittest.main()
