"""Probes: what is marked comes out, and what is added goes in, under every transform and pair of transforms,
in every place, beside the same function written with the value or the perturbation by hand."""

import os
import unittest

import hop

# Each place is a function of x (three floats) and p. Without p it marks a value; with p it adds p there. Its
# value is an array like x. `values` gives what is marked, by hand.


def top(x, p=None):
    h = hop.sin(x)
    h = hop.probe(h, "v") if p is None else h + p
    return h * x


def top_values(x):
    return hop.sin(x)


def scan(x, p=None):
    def step(c, xs):
        h = hop.tanh(c * xs[0] + 0.5)
        h = hop.probe(h, "v") if p is None else h + xs[1]
        return h, h * c

    return hop.scan(step, hop.sum(x) * 0 + 1, (x, x if p is None else p))[1]


def scan_values(x):
    out, c = [], hop.asarray(1.0)
    for i in range(3):
        c = hop.tanh(c * x[i] + 0.5)
        out.append(c)
    return hop.stack(out)


def counted(x, p=None):
    def step(i, c):
        h = hop.cos(c) * x
        return hop.probe(h, "v") if p is None else h + p[i]

    return hop.fori_loop(0, 4, step, x)


def counted_values(x):
    out, c = [], x
    for _ in range(4):
        c = hop.cos(c) * x
        out.append(c)
    return hop.stack(out)


def whiled(x, p=None):
    def step(c):
        i, c = c
        h = hop.sin(c + x)
        h = hop.probe(h, "v") if p is None else h + p[i]
        return i + 1, h

    return hop.while_loop(lambda c: c[0] < 3, step, (0, x), max_trips=4)[1]


def whiled_values(x):
    out, c = [], x
    for _ in range(3):
        c = hop.sin(c + x)
        out.append(c)
    return hop.stack([*out, hop.zeros_like(x)])


def mapped(x, p=None):
    def one(y):
        h = y[0] * y[0] + 1
        h = hop.probe(h, "v") if p is None else h + y[1]
        return hop.sqrt(h) * y[0]

    return hop.map(one, (x, x if p is None else p))


def mapped_values(x):
    return x * x + 1


def branch(x, p=None):
    def yes(x):
        h = x * x
        h = hop.probe(h, "v") if p is None else h + p
        return h * 2 + x

    return hop.cond(hop.sum(x) > -100, yes, lambda x: x, x)


def branch_values(x):
    return x * x


def kept(x, p=None):
    return hop.checkpoint(lambda x: hop.exp(top(x, p) * 0.1))(x)


@hop.jit
def inner(x):
    return top(x) + 1


def called(x, p=None):
    return inner(x) * 2 if p is None else (top(x, p) + 1) * 2


def nested(x, p=None):
    def step(c, xs):
        return c + hop.sum(mapped(xs[0] * x, None if p is None else xs[1])), None

    out, _ = hop.scan(step, hop.sum(x) * 0, (x, x if p is None else p))
    return out * x


def nested_values(x):
    return hop.stack([mapped_values(x[i] * x) for i in range(3)])


PLACES = {
    "top": (top, top_values), "scan": (scan, scan_values), "fori": (counted, counted_values),
    "while": (whiled, whiled_values), "map": (mapped, mapped_values), "cond": (branch, branch_values),
    "checkpoint": (kept, top_values), "call": (called, top_values), "nested": (nested, nested_values),
}  # fmt: skip

TRANSFORMS = {
    "jit": hop.jit,
    "grad": lambda g: hop.grad(lambda x: hop.sum(g(x))),
    "value_and_grad": lambda g: lambda x: hop.value_and_grad(lambda x: hop.sum(g(x)))(x)[1],
    "jvp": lambda g: lambda x: hop.jvp(g, (x,), (hop.ones_like(x),))[1],
    "vjp": lambda g: lambda x: hop.vjp(g, x)[1](hop.ones_like(g_shape(g, x)))[0],
    "linearize": lambda g: lambda x: hop.linearize(g, x)[1](hop.ones_like(x)),
    "vmap": hop.vmap,
    "checkpoint": hop.checkpoint,
}


def g_shape(g, x):
    """An array like what g gives, which is like x."""
    return x


def lanes(values, n):
    """What is marked where there are n dims of lanes in front."""
    return values if not n else lambda x: hop.stack([lanes(values, n - 1)(x[i]) for i in range(x.shape[0])])


def arguments(n):
    x = hop.asarray([0.3, -0.7, 1.1])
    for k in range(n):
        x = hop.stack([x, x * 0.5 + 0.1 * k])
    return x


def pairs(place, every=4):
    """Transforms, and of the pairs of them one in four, others for each place; HOP_TEST_SEEDS: all."""
    every = 1 if "HOP_TEST_SEEDS" in os.environ else every
    at = list(PLACES).index(place)
    yield (), 0
    for i, a in enumerate(TRANSFORMS):
        yield (a,), int(a == "vmap")
        for k, b in enumerate(TRANSFORMS):
            if (i + 3 * k + at) % every == 0:
                yield (a, b), (a == "vmap") + (b == "vmap")


def made(names, g):
    for name in reversed(names):
        g = TRANSFORMS[name](g)
    return g


class UnderTransforms(unittest.TestCase):
    def close(self, a, b, said):
        self.assertEqual(a.shape, b.shape, said)
        self.assertLess(float(hop.max(hop.abs(a - b))) if a.size else 0.0, 2e-5, said)

    def test_values_come_out_of_every_pair_of_transforms(self):
        for place, (g, values) in PLACES.items():
            for names, n in pairs(place):
                with self.subTest(place=place, names=names):
                    x = arguments(n)
                    value, found = hop.probes(made(names, g))(x)
                    self.close(value, made(names, g)(x), (place, names))
                    self.assertEqual(list(found), ["v"])
                    self.close(found["v"], lanes(values, n)(x), (place, names))

    def test_values_of_a_function_that_is_then_transformed(self):
        for place, (g, values) in PLACES.items():
            x = arguments(1)
            probed = hop.vmap(hop.probes(g))
            for f in (probed, hop.jit(probed), hop.probes(hop.jit(hop.vmap(g)))):
                value, found = f(x)
                self.close(value, hop.vmap(g)(x), place)
                self.close(found["v"], lanes(values, 1)(x), place)

    def test_a_perturbation_is_added_under_every_transform(self):
        for place, (g, values) in PLACES.items():
            for names, n in pairs(place):
                if n or len(names) > 1 and names[0] == names[1]:
                    continue
                with self.subTest(place=place, names=names):
                    x = arguments(0)
                    p = values(x) * 0.3 + 0.2
                    if place == "while":
                        p = p[:4]
                    by_hand = made(names, lambda x: g(x, p))(x)
                    self.close(hop.perturb(made(names, g))({"v": p}, x), by_hand, (place, names))

    def test_gradients_of_values_inside(self):
        for place, (g, values) in PLACES.items():
            x = arguments(0)

            def loss(x):
                return hop.sum(g(x))

            zeros = hop.perturb(loss).zeros(x)
            found = hop.grad(hop.perturb(loss))(zeros, x)["v"]
            by_hand = hop.grad(lambda p: hop.sum(g(x, p)))(zeros["v"])
            self.close(found, by_hand, place)
            again = hop.jit(hop.grad(hop.perturb(loss)))(zeros, x)["v"]
            self.close(again, by_hand, place)

    def test_jacobians(self):
        for place, (g, values) in PLACES.items():
            x = arguments(0)
            for jacobian in (hop.jacfwd, hop.jacrev, hop.hessian):
                value, found = hop.probes(jacobian(g))(x)
                self.close(value, jacobian(g)(x), place)
                self.close(found["v"], values(x), place)
        p = hop.asarray([1.0, 2.0, 3.0])
        by_hand = hop.jacfwd(lambda x: top(x, p))(x)
        self.close(hop.perturb(hop.jacfwd(top))({"v": p}, x), by_hand, "perturbed")

    def test_lanes_are_perturbed_each(self):
        x = arguments(1)
        p = hop.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        self.close(hop.perturb(hop.vmap(top))({"v": p}, x), (hop.sin(x) + p) * x, "vmap")


class Unasked(unittest.TestCase):
    def test_nothing_is_recorded(self):
        for place, (g, _) in PLACES.items():
            for names in (("jit",), ("jit", "grad"), ("jit", "vmap")):
                x = arguments(int("vmap" in names))
                lowered = str(made(names, g).show(x)) if hasattr(made(names, g), "show") else ""
                self.assertNotIn("probe", lowered, place)

    def test_outside_of_programs_it_is_its_argument(self):
        x = hop.asarray([1.0])
        self.assertIs(hop.probe(x, "x"), x)
        tree = {"a": x, "b": 2}
        self.assertIs(hop.probe(tree, "t"), tree)

    def test_code_is_the_same_with_and_without(self):
        def written(mark):
            def f(x):
                def step(c, x):
                    c = mark(hop.sin(c * x), "c")
                    return c, mark(c + x, "y")

                return hop.sum(mark(hop.scan(step, 1.0, x)[1], "all"))

            return f

        x = hop.asarray([1.0, 2.0])
        with_probes, without = written(hop.probe), written(lambda x, name: x)
        for transform in (lambda f: f, hop.grad, lambda f: hop.vmap(f, in_axes=None, axis_size=2)):
            self.assertEqual(hop.jit(transform(with_probes)).c(x), hop.jit(transform(without)).c(x))


class Names(unittest.TestCase):
    def network(self, x):
        for i in range(3):

            @hop.region("named", name=f"layer{i}")
            def layer(x):
                return hop.probe(hop.tanh(hop.probe(x * 2, "before")), "after")

            x = layer(x)
        return x

    def test_regions_are_paths_and_patterns_choose(self):
        x = hop.asarray([0.1])
        _, found = hop.probes(self.network)(x)
        self.assertEqual(sorted(found), ["layer0", "layer1", "layer2"])
        self.assertEqual(sorted(found["layer0"]), ["after", "before"])
        _, found = hop.probes(self.network, "layer*/after")(x)
        self.assertEqual(found["layer2"].keys(), {"after"})
        _, found = hop.probes(self.network, ["layer1/before", "layer2/*"])(x)
        self.assertEqual({k: sorted(v) for k, v in found.items()},
                         {"layer1": ["before"], "layer2": ["after", "before"]})  # fmt: skip

    def test_trees_have_their_places_behind_the_name(self):
        _, found = hop.probes(lambda x: hop.probe({"w": x, "b": (x, 2.0)}, "t")["w"])(hop.asarray(1.0))
        self.assertEqual(hop.tree.map(float, found), {"t": {"w": 1.0, "b": {"0": 1.0, "1": 2.0}}})

    def test_one_name_twice(self):
        def f(x):
            return hop.probe(x, "a") + hop.probe(x * 2, "a")

        said = "probe 'a': there is another one of this name, at .*test_probes"
        with self.assertRaisesRegex(hop.InvalidError, said):
            hop.probes(f)(1.0)
        value, found = hop.probes(f, repeated="stack")(1.0)
        self.assertEqual(found["a"].tolist(), [1.0, 2.0])
        moved = hop.perturb(f, repeated="stack")({"a": hop.asarray([10.0, 20.0])}, 1.0)
        self.assertEqual(float(moved), 33.0)

    def test_both_branches_may_mark_one_name(self):
        def f(x):
            if x > 0:
                return hop.probe(x * 2, "y")
            return hop.probe(-x, "y")

        self.assertEqual([float(hop.probes(f)(x)[1]["y"]) for x in (3.0, -3.0)], [6.0, 3.0])

    def test_a_result_that_is_not_used_is_marked_all_the_same(self):
        def f(x):
            hop.probe(x * 2, "seen")
            return x

        self.assertEqual(float(hop.probes(f)(1.0)[1]["seen"]), 2.0)
        self.assertEqual(float(hop.probes(hop.grad(f))(1.0)[1]["seen"]), 2.0)

    def test_probes_of_probes_and_of_perturbed(self):
        def f(x):
            return hop.probe(x * 2, "y") + 1

        self.assertEqual(float(hop.perturb(hop.probes(f))({"y": 1.0}, 1.0)[1]["y"]), 3.0)
        self.assertEqual(float(hop.probes(hop.perturb(f))({"y": 1.0}, 1.0)[1]["y"]), 3.0)
        self.assertEqual(hop.probes(hop.probes(f))(1.0)[1], {})


class Mistakes(unittest.TestCase):
    def test_what_is_said(self):
        def f(x):
            return hop.probe(x, "a")

        def within(x):
            return hop.probe(x, "a") + hop.probe(x, "a/b")

        def mask(x):
            return hop.probe(x > 0, "m")

        x = hop.asarray([1.0])
        for call, said in (
            (lambda: hop.probes(f, "b")(x), "there is no probe 'b'; there are: 'a'"),
            (lambda: hop.probes(lambda x: x, "b")(x), "there is no probe 'b'; there are none"),
            (lambda: hop.perturb(f)({"b": x}, x), "there is no probe 'b'"),
            (lambda: hop.perturb(f)({"a": hop.ones(3)}, x), r"has type f32\[1\], its perturbation f32\[3\]"),
            (lambda: hop.probes(lambda x: hop.probe(x, "a//b"))(x), "parts with one / between them"),
            (lambda: hop.probes(within)(x), "inside of another one"),
            (lambda: hop.perturb(mask)({"m": x > 0}, x), "its values are no floats"),
        ):
            with self.assertRaisesRegex(hop.InvalidError, said):
                call()
        for call in (
            lambda: hop.probe(x, 3), lambda: hop.probes(3), lambda: hop.probes(f, 3),
            lambda: hop.probes(f, repeated="no"), lambda: hop.perturb(f)(x, x),
        ):  # fmt: skip
            with self.assertRaises((TypeError, ValueError, hop.InvalidError)):
                call()

    def test_a_loop_whose_steps_nobody_knows(self):
        def f(x):
            return hop.while_loop(lambda c: c < 50, lambda c: hop.probe(c * 2, "d"), x)

        self.assertEqual(hop.probes(f)(1.0)[1]["d"].tolist(), [2.0, 4.0, 8.0, 16.0, 32.0, 64.0])
        self.assertEqual(hop.probes(hop.grad(f))(1.0)[1]["d"].shape, (6,))
        # 2 + 1, doubled until it is not below 50
        self.assertEqual(float(hop.perturb(f)({"d": hop.asarray([1.0])}, 1.0)), 96.0)
        for transform in (hop.grad, hop.jacfwd):
            with self.assertRaisesRegex(hop.InvalidError, "'d' cannot be perturbed: .* a loop without max"):
                hop.perturb(transform(f))({"d": hop.asarray([1.0])}, 1.0)
        with self.assertRaisesRegex(hop.InvalidError, "max_trips"):
            hop.probes(hop.vmap(f))(hop.asarray([1.0, 5.0]))
        with self.assertRaisesRegex(hop.InvalidError, "max_trips"):
            hop.probes(lambda x: hop.map(f, x))(hop.asarray([1.0, 5.0]))

    def test_a_combine_function_has_none_that_can_be_had(self):
        def f(x):
            return hop.associative_scan(lambda a, b: hop.probe(a + b, "t"), x)

        with self.assertRaisesRegex(hop.InvalidError, "probe 't': it stands in associative_scan"):
            hop.probes(f)(hop.arange(4.0))

    def test_rules_of_ones_own(self):
        @hop.custom_vjp
        def f(x):
            return hop.probe(x * x, "square")

        f.defvjp(lambda x: (f(x), None), lambda _, g: (10 * g,))
        value, found = hop.probes(hop.grad(f))(3.0)
        self.assertEqual((float(value), float(found["square"])), (10.0, 9.0))
        with self.assertRaisesRegex(hop.InvalidError, "rules that know nothing of a perturbation"):
            hop.perturb(f)({"square": 1.0}, 3.0)


if __name__ == "__main__":
    unittest.main()
