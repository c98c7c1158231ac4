"""Places of trees and functions with other parameters: every way to say a place, replace, partition, tie and
parametrize, through transforms, loops and optimizers, against the same computations written out."""

import collections
import dataclasses
import pathlib
import tempfile
import traceback
import unittest

import hop
from support import Case, counted_captures, differences

Pair = collections.namedtuple("Pair", "first second")


@dataclasses.dataclass
class Linear:
    weight: object
    bias: object
    name: str = dataclasses.field(default="", metadata={"static": True})

    def __call__(self, x):
        return x @ self.weight + self.bias


@dataclasses.dataclass
class Net:
    layers: list
    scale: object = None

    def __call__(self, x):
        for layer in self.layers:
            x = hop.tanh(layer(x))
        return x


def numbers(key, *shape):
    return hop.random.normal(hop.random.key(key), shape, dtype=hop.float64)


def net():
    first = Linear(numbers(1, 3, 4), numbers(2, 4), "in")
    return Net([first, Linear(numbers(3, 4, 3), numbers(4, 3), "out")])


def files_of(call):
    """The files in the traceback of a call that fails."""
    try:
        call()
    except Exception as error:
        return {f.filename for f in traceback.extract_tb(error.__traceback__)}
    raise AssertionError("it did not fail")


def texts(found):
    return [hop.tree.path_text(path) for path, _ in found]


class Places(Case):
    TREE = {"a": [1, {"w": 2, "b": None}], "p": Pair(3, (4, 5)), "x.y": 6, 7: 8}

    def test_texts(self):
        for text, expected in [
            ("a.0", ["['a'][0]"]),
            ("a[0]", ["['a'][0]"]),
            ("a", ["['a']"]),
            ("a.1.b", ["['a'][1]['b']"]),
            ("p.first", ["['p'].first"]),
            (".p.second[1]", ["['p'].second[1]"]),
            ("['x.y']", ["['x.y']"]),
            ('["a"][1]["w"]', ["['a'][1]['w']"]),
            ("7", ["[7]"]),
            ("p.*", ["['p'].first", "['p'].second"]),
            ("*.1", ["['a'][1]"]),
            ("**.1", ["['a'][1]", "['p'].second[1]"]),
            ("**.w", ["['a'][1]['w']"]),
            ("p.second.**.0", ["['p'].second[0]"]),
            ("a[*].w", ["['a'][1]['w']"]),
            ("", [""]),
        ]:  # fmt: skip
            with self.subTest(text=text):
                self.assertEqual(texts(hop.tree.places(self.TREE, text)), expected)

    def test_what_path_text_writes_is_read(self):
        for path, leaf in hop.tree.leaves_with_path(self.TREE):
            self.assertEqual(hop.tree.places(self.TREE, path), [(path, leaf)])
            self.assertEqual(hop.tree.places(self.TREE, hop.tree.path_text(path)), [(path, leaf)])

    def test_functions(self):
        found = hop.tree.places(self.TREE, lambda path, x: x % 2 == 0 and path[0] != 7)
        self.assertEqual([x for _, x in found], [2, 4, 6])
        self.assertEqual(hop.tree.places(self.TREE, lambda path, x: False), [])
        found = hop.tree.places(self.TREE, lambda t: t["p"].second)
        self.assertEqual(found, [(("p", "second"), (4, 5))])
        found = hop.tree.places(self.TREE, lambda t: (t["p"].second[1], t["a"][0]))
        self.assertEqual([x for _, x in found], [1, 5])
        self.assertEqual(texts(hop.tree.places(net(), lambda m: [x.bias for x in m.layers])),
                         [".layers[0].bias", ".layers[1].bias"])  # fmt: skip

    def test_lists(self):
        found = hop.tree.places(self.TREE, ["p.first", ("a", 0), lambda t: t["x.y"], "a.0"])
        self.assertEqual([x for _, x in found], [1, 3, 6])

    def test_mistakes(self):
        model = net()
        for where, error, text in [
            ("layers.0.wieght", ValueError, r"nothing at 'layers.0.wieght'; it looks like layers.0.weight"),
            (("layers", 5, "bias"), ValueError,
             r"it looks like \('layers', 1, 'bias'\), \('layers', 0, 'bias'\)"),
            ("zzz", ValueError, r"the leaves are layers.0.weight, layers.0.bias"),
            ("a..b", ValueError, r"'a\.\.b' is no place from its character 1 on"),
            ("a[b", ValueError, r"no place from its character 1 on"),
            (5, TypeError, r"expected a path, a text .* found int"),
            (lambda: 0, TypeError, r"a function of the tree, or one of \(path, leaf\); it has 0 parameters"),
            (lambda m: 3.0, TypeError, r"gave a float. A function that says of each leaf .* two parameters"),
            (lambda m: m.scale, TypeError, r"gave None"),
        ]:  # fmt: skip
            with self.subTest(where=where):
                with self.assertRaisesRegex(error, text):
                    hop.tree.replace(model, where, 1)
                self.assertEqual(files_of(lambda w=where: hop.tree.replace(model, w, 1)), {__file__})


class Replace(Case):
    def test_values(self):
        tree = {"a": [1, {"w": 2, "b": None}], "p": Pair(3, 4)}
        self.assertEqual(
            hop.tree.replace(tree, {"a.1.b": [9], "p.second": 8, "a.0": None}),
            {"a": [None, {"w": 2, "b": [9]}], "p": Pair(3, 8)},
        )
        self.assertEqual(tree, {"a": [1, {"w": 2, "b": None}], "p": Pair(3, 4)})
        self.assertEqual(hop.tree.replace(tree, "", 1), 1)
        self.assertEqual(hop.tree.replace(5, (), 6), 6)
        new = hop.tree.update(tree, "**.w", lambda x: -x)
        self.assertEqual(new["a"][1]["w"], -2)
        self.assertIs(new["p"], tree["p"])
        self.assertEqual(hop.tree.update(tree, lambda path, x: False, lambda x: 1 / 0), tree)

    def test_every_kind_of_node(self):
        tree = [collections.OrderedDict(z=1, y=2), Linear(3, 4, "n"), Pair(5, 6), (7,)]
        new = hop.tree.replace(tree, {"0.y": 20, "1.bias": 40, "2.first": 50, "3.0": 70})
        self.assertEqual(
            new, [collections.OrderedDict(z=1, y=20), Linear(3, 40, "n"), Pair(50, 6), (70,)]
        )

    def test_a_model_with_other_parameters(self):
        model, x = net(), numbers(5, 3)
        other = numbers(6, 4)
        expected = Net([Linear(model.layers[0].weight, other), model.layers[1]])(x)
        self.close(hop.tree.replace(model, "layers.0.bias", other)(x), expected, 1e-14)

        def loss(bias):
            return hop.sum(hop.tree.replace(model, lambda m: m.layers[0].bias, bias)(x) ** 2)

        self.close(hop.grad(loss)(other), differences(loss, other), 1e-5)
        self.close(hop.jit(hop.grad(loss))(other), hop.grad(loss)(other), 1e-12)

    def test_models_side_by_side(self):
        models = [hop.tree.map(lambda x, i=i: x * (1 + i), net()) for i in range(3)]
        stacked = hop.tree.map(lambda *xs: hop.stack(xs), *models)
        x = numbers(5, 3)
        self.close(hop.vmap(lambda m, x: m(x), (0, None))(stacked, x), [m(x).tolist() for m in models], 1e-12)

    def test_mistakes(self):
        tree = {"a": {"b": 1}}
        for places, text in [
            ({"a": 1, "a.b": 2}, r"one is a part of the other: \['a'\]\['b'\]"),
            ({"a.b": 1, "a": 2}, r"one is a part of the other: \['a'\]"),
            ({"a.b": 1, ("a", "b"): 2}, r"two values for \['a'\]\['b'\]"),
        ]:
            with self.assertRaisesRegex(ValueError, text):
                hop.tree.replace(tree, places)
        with self.assertRaisesRegex(TypeError, "a place and a value, or a dict"):
            hop.tree.replace(tree, "a")
        with self.assertRaisesRegex(TypeError, "a place and a value, or a dict"):
            hop.tree.replace(tree, {"a": 1}, 2)


class Partition(Case):
    def test_round_trip(self):
        model = hop.tree.map(lambda x: float(hop.sum(x)), net())
        for where in ["layers.0", "**.bias", lambda path, x: x > 0, [], "", ["layers.1.bias", "layers.0"]]:
            chosen, rest = hop.tree.partition(model, where)
            n = len(hop.tree.leaves(chosen))
            self.assertEqual(n + len(hop.tree.leaves(rest)), 4)
            self.assertEqual(hop.tree.combine(chosen, rest), model)
            self.assertEqual(hop.tree.combine(rest, chosen), model)
        self.assertEqual(hop.tree.combine({"a": 1}, {"a": 2}), {"a": 1})

    def test_a_gradient_of_a_part(self):
        model, x = net(), numbers(5, 3)
        trained, fixed = hop.tree.partition(model, "layers.1")
        loss = lambda t: hop.sum(hop.tree.combine(t, fixed)(x) ** 2)  # noqa: E731
        g, whole = hop.jit(hop.grad(loss))(trained), hop.grad(lambda m: hop.sum(m(x) ** 2))(model)
        self.assertIsNone(g.layers[0].weight)
        self.close(g.layers[1].weight, whole.layers[1].weight, 1e-12)
        self.close(g.layers[1].bias, whole.layers[1].bias, 1e-12)

    def test_mistakes(self):
        for a, b, text in [
            ({"a": 1}, {"b": None}, r"tree 2 has another structure than tree 1 at the root"),
            ({"a": [None]}, {"a": [1, 2]}, r"tree 2 has another structure than tree 1 at \['a'\]"),
            ({"a": [None]}, {"a": 1}, r"at \['a'\]: \* and \[None\]"),
        ]:
            with self.assertRaisesRegex(ValueError, text):
                hop.tree.combine(a, b)
        with self.assertRaisesRegex(TypeError, "at least one tree"):
            hop.tree.combine()


class Tie(Case):
    def setUp(self):
        self.params = {"embed": numbers(1, 5, 2), "mix": numbers(2, 2, 2), "out": numbers(3, 2, 5)}

    @staticmethod
    def loss(p):
        return hop.sum(hop.tanh(hop.tanh(p["embed"] @ p["mix"]) @ p["out"]) ** 2)

    def test_gradients_are_summed(self):
        tied = hop.tree.tie(self.params, "out", "embed", hop.matrix_transpose)
        self.assertEqual(len(hop.tree.leaves(tied)), 2)
        loss = lambda p: self.loss(hop.tree.resolve(p))  # noqa: E731
        written = {**self.params, "out": self.params["embed"].mT}
        of_all = hop.grad(self.loss)(written)
        for transform in (hop.grad(loss), hop.jit(hop.grad(loss)), hop.grad(hop.jit(loss))):
            g = transform(tied)
            self.assertEqual(hop.tree.structure(g), hop.tree.structure(tied))
            self.close(g["embed"], of_all["embed"] + of_all["out"].mT, 1e-12)
            self.close(g["mix"], of_all["mix"], 1e-12)
        self.close(loss(tied), self.loss(written), 1e-14)

    def test_other_transforms(self):
        tied = hop.tree.tie(self.params, "out", "embed", hop.matrix_transpose)
        loss = lambda p: self.loss(hop.tree.resolve(p))  # noqa: E731
        ones = hop.tree.map(hop.ones_like, tied)
        g = hop.grad(loss)(tied)
        slope = hop.sum(g["embed"]) + hop.sum(g["mix"])
        self.close(hop.jvp(loss, (tied,), (ones,))[1], slope, 1e-12)
        stacked = hop.tree.map(lambda x: hop.stack([x, 2 * x]), tied)
        each = [loss(tied).item(), loss(hop.tree.map(lambda x: 2 * x, tied)).item()]
        self.close(hop.vmap(loss)(stacked), each, 1e-12)

        def steps(p, _):
            return hop.tree.map(lambda x, g: x - 0.1 * g, p, hop.grad(loss)(p)), loss(p)

        last, losses = hop.jit(lambda p: hop.scan(steps, p, None, length=20))(tied)
        self.assertIsInstance(last["out"], hop.tree.Tied)
        self.assertLess(losses[-1].item(), losses[0].item())

    def test_parts_chains_and_several_places(self):
        tree = {"a": {"w": hop.asarray(2.0)}, "b": {"w": hop.asarray(0.0)}, "c": [hop.asarray(1.0)] * 2}
        tied = hop.tree.tie(tree, "b", "a")
        tied = hop.tree.tie(tied, ["c.0", "c.1"], "a.w", lambda x: 3 * x)
        self.assertEqual(len(hop.tree.leaves(tied)), 1)
        self.assertEqual(hop.tree.map(float, hop.tree.resolve(tied)),
                         {"a": {"w": 2.0}, "b": {"w": 2.0}, "c": [6.0, 6.0]})  # fmt: skip
        total = lambda p: sum(hop.tree.leaves(hop.tree.resolve(p)))  # noqa: E731
        self.close(hop.grad(total)(tied)["a"]["w"], 8.0)
        chain = hop.tree.tie(hop.tree.tie(tree, "c.0", "c.1", hop.exp), "a.w", "c.0")
        self.assertEqual(len(hop.tree.leaves(chain)), 2)
        self.close(hop.tree.resolve(chain)["a"]["w"], 2.718281828)

    def test_one_program(self):
        run = hop.jit(lambda p: self.loss(hop.tree.resolve(p)))
        tied = hop.tree.tie(self.params, "out", "embed", hop.matrix_transpose)
        with counted_captures() as lines:
            run(tied)
            run(hop.tree.map(lambda x: 2 * x, tied))
            run(hop.tree.tie(self.params, "out", "embed", hop.matrix_transpose))
        self.assertEqual(len(lines), 1)

    def test_mistakes(self):
        tree = self.params
        for where, source, f, text in [
            ("out", "embed", None, r"\['out'\] to \['embed'\]: expected float64 of shape \(2, 5\), found "
             r"float64 of shape \(5, 2\)"),
            ("out", "out", None, "are the same, or one is a part of the other"),
            ("", "out", None, "are the same, or one is a part of the other"),
            ("out", "*", None, "expected one source, found 3"),
        ]:  # fmt: skip
            with self.assertRaisesRegex(ValueError, text):
                hop.tree.tie(tree, where, source, f)
        with self.assertRaisesRegex(TypeError, "f is a function"):
            hop.tree.tie(tree, "out", "embed", 3)
        tree = {"a": hop.ones(2), "b": hop.ones(2), "c": {"d": hop.ones(2)}}
        with self.assertRaisesRegex(ValueError, r"\['[ab]'\] is tied to itself in a circle"):
            hop.tree.tie(hop.tree.tie(tree, "b", "a"), "a", "b")
        tied = hop.tree.tie(tree, "c.d", "a")
        with self.assertRaisesRegex(ValueError, r"\['d'\] is tied to \['a'\].*resolve the whole tree"):
            hop.tree.resolve(tied["c"])


class Parametrize(Case):
    def test_gradients(self):
        params = {"cov": hop.asarray([0.5, 2.0], dtype=hop.float64), "mean": numbers(1, 2)}
        f = lambda p: hop.sum(hop.log(p["cov"]) + p["mean"] ** 2 / p["cov"])  # noqa: E731
        made = hop.tree.parametrize(params, "cov", hop.exp, hop.log)
        self.close(hop.tree.resolve(made)["cov"], params["cov"], 1e-14)
        loss = lambda p: f(hop.tree.resolve(p))  # noqa: E731
        for transform in (hop.grad(loss), hop.jit(hop.grad(loss))):
            g = transform(made)
            self.close(g["cov"].raw, hop.grad(f)(params)["cov"] * params["cov"], 1e-12)
        at = lambda raw: loss(hop.tree.replace(made, "cov.raw", raw))  # noqa: E731
        self.close(hop.grad(loss)(made)["cov"].raw, differences(at, made["cov"].raw), 1e-5)
        self.close(hop.hessian(at)(made["cov"].raw), hop.jacfwd(hop.jacrev(at))(made["cov"].raw), 1e-10)

    def test_without_inverse(self):
        made = hop.tree.parametrize({"w": hop.asarray([[1.0, 2.0], [3.0, 4.0]])}, "w", lambda x: x + x.mT)
        self.equal(made["w"].raw, [[1.0, 2.0], [3.0, 4.0]])
        self.equal(hop.tree.resolve(made)["w"], [[2.0, 5.0], [5.0, 8.0]])

    def test_raw_is_a_tree(self):
        def normed(raw):
            return raw["g"] * raw["v"] / hop.linalg.norm(raw["v"])

        w = numbers(1, 4)
        made = hop.tree.parametrize([w], "0", normed, lambda w: {"g": hop.linalg.norm(w), "v": w})
        self.close(hop.tree.resolve(made)[0], w, 1e-12)
        g = hop.grad(lambda p: hop.sum(hop.tree.resolve(p)[0] ** 2))(made)[0].raw
        self.close(g["g"], 2 * hop.linalg.norm(w), 1e-12)
        self.close(g["v"], [0.0] * 4, 1e-12)

    def test_two_functions(self):
        one = hop.tree.parametrize({"w": hop.asarray(0.25, dtype=hop.float64)}, "w", hop.exp, hop.log)
        two = hop.tree.parametrize(one, "w", hop.sqrt, hop.square)
        self.close(hop.tree.resolve(two)["w"], 0.25, 1e-14)
        self.close(two["w"].raw.raw, hop.log(hop.asarray(0.0625, dtype=hop.float64)), 1e-14)
        self.close(hop.tree.resolve(hop.tree.parametrize(one, "w", hop.sqrt))["w"], 0.5, 1e-14)
        plain = hop.tree.parametrize({"w": hop.asarray(0.25)}, "w", hop.exp)
        with self.assertRaisesRegex(ValueError, r"\['w'\] is exp of something already, with no inverse"):
            hop.tree.parametrize(plain, "w", hop.sqrt, hop.square)

    def test_with_ties(self):
        calls = []

        def positive(x):
            calls.append(1)
            return hop.exp(x)

        made = hop.tree.parametrize({"a": hop.asarray(0.0), "b": hop.asarray(0.0)}, "a", positive)
        made = hop.tree.tie(made, "b", "a")
        calls.clear()
        self.assertEqual(hop.tree.map(float, hop.tree.resolve(made)), {"a": 1.0, "b": 1.0})
        self.assertEqual(len(calls), 1)
        product = lambda p: (lambda q: q["a"] * q["b"])(hop.tree.resolve(p))  # noqa: E731
        self.close(hop.grad(product)(made)["a"].raw, 2.0)

    def test_predicates_take_it_for_one_leaf(self):
        made = hop.tree.parametrize({"w": numbers(1, 2), "b": numbers(2, 2)}, "w", hop.exp)
        found = hop.tree.places(made, lambda path, x: True)
        self.assertEqual(texts(found), ["['b']", "['w']"])
        self.assertIsInstance(found[1][1], hop.tree.Parametrized)
        self.assertEqual(texts(hop.tree.places(made, "**.raw")), ["['w'].raw"])
        self.assertEqual(texts(hop.tree.places(made, "*.raw")), ["['w'].raw"])
        for text in ("*.*", "w.*", "**.*.*"):
            with self.assertRaisesRegex(ValueError, "nothing at"):
                hop.tree.places(made, text)
        self.assertEqual(texts(hop.tree.places(made, "w.raw")), ["['w'].raw"])
        self.assertEqual(texts(hop.tree.places(made, lambda t: t["w"].raw)), ["['w'].raw"])
        chosen, rest = hop.tree.partition(made, "w")
        self.assertEqual(len(hop.tree.leaves(chosen)), 1)
        self.assertEqual(hop.tree.structure(hop.tree.combine(chosen, rest)), hop.tree.structure(made))

    def test_a_step_of_training(self):
        """A low-rank change of a fixed weight, under an optimizer."""

        def lowered(raw):
            return hop.stop_gradient(raw["w"]) + raw["a"] @ raw["b"]

        def start(w):
            return {"w": w, "a": hop.ones((w.shape[0], 1), dtype=w.dtype) * 0.1,
                    "b": hop.zeros((1, w.shape[1]), dtype=w.dtype)}  # fmt: skip

        model = hop.tree.parametrize(net(), "**.weight", lowered, start)
        optimizer = hop.optim.adam(0.05)
        x, y = numbers(7, 6, 3), numbers(8, 6, 3) * 0.3

        @hop.jit
        def step(model, state):
            value, g = hop.value_and_grad(lambda m: hop.mean((hop.tree.resolve(m)(x) - y) ** 2))(model)
            model, state = optimizer.update(g, state, model)
            return model, state, value

        state, values = optimizer.init(model), []
        for _ in range(30):
            model, state, value = step(model, state)
            values.append(value.item())
        self.assertLess(values[-1], 0.8 * values[0])
        self.assertEqual(model.layers[0].weight.raw["w"].tolist(), net().layers[0].weight.tolist())

    def test_what_f_reads_is_followed(self):
        scale = {"by": hop.asarray(2.0)}
        made = hop.tree.parametrize({"w": hop.asarray(3.0)}, "w", lambda x: x * scale["by"])
        value = lambda p: hop.tree.resolve(p)["w"]  # noqa: E731
        run, slope = hop.jit(value), hop.grad(value)
        inner = hop.jit(lambda p: run(p))
        partial = hop.tree_util.Partial(lambda a, x: a * x * scale["by"], 1.0)
        for by in (2.0, 5.0):
            scale["by"] = hop.asarray(by)
            self.close(run(made), 3 * by)
            self.close(inner(made), 3 * by)
            self.close(slope(made)["w"].raw, by)
            self.close(hop.jit(lambda f, x: f(x))(partial, 3.0), 3 * by)

    def test_mistakes(self):
        with self.assertRaisesRegex(TypeError, "f and inverse are functions"):
            hop.tree.parametrize({"w": 1.0}, "w", 3)
        made = hop.tree.parametrize({"w": hop.ones(2)}, "w", lambda x: x @ hop.ones((3, 3)))
        self.assertEqual(files_of(lambda: hop.jit(lambda p: hop.tree.resolve(p))(made)), {__file__})

    def test_files(self):
        made = hop.tree.parametrize(net(), "**.bias", hop.exp)
        made = hop.tree.tie(made, "layers.1.bias.raw", "layers.0.bias.raw", lambda x: x[:3])
        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder, "model.npz"))
            hop.save(path, made)
            back = hop.load(path, like=made)
        self.assertEqual(hop.tree.structure(back), hop.tree.structure(made))
        for x, y in zip(hop.tree.leaves(back), hop.tree.leaves(made), strict=True):
            self.equal(x, y.tolist(), y.dtype)


if __name__ == "__main__":
    unittest.main()
