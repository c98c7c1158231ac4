"""Trees: every kind of node, paths, errors that name them."""

import collections
import dataclasses
import unittest

import hop
from support import Case

Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Layer:
    weight: object
    bias: object
    name: str = dataclasses.field(default="", metadata={"static": True})


@dataclasses.dataclass(frozen=True)
class Frozen:
    value: object


class Box:
    def __init__(self, content, label):
        self.content, self.label = content, label


hop.tree.register(Box, lambda b: ([b.content], b.label), lambda label, children: Box(children[0], label))


class Trees(Case):
    TREE = {
        "b": [1, (2, None)],
        "a": Point(3, Layer(4, 5, "n")),
        "c": Box(6, "l"),
        "d": Frozen(7),
        "e": collections.OrderedDict(z=8, y=9),
    }

    def test_round_trip(self):
        leaves, treedef = hop.tree.flatten(self.TREE)
        self.assertEqual(leaves, [3, 4, 5, 1, 2, 6, 7, 8, 9])
        back = hop.tree.unflatten(treedef, [10 * n for n in leaves])
        self.assertEqual(back["a"].y, Layer(40, 50, "n"))
        self.assertEqual(
            (back["c"].content, back["c"].label, back["b"], back["d"]),
            (60, "l", [10, (20, None)], Frozen(70)),
        )
        self.assertEqual(list(back["e"].items()), [("z", 80), ("y", 90)])
        self.assertEqual(treedef, hop.tree.structure(back))
        self.assertEqual(hash(treedef), hash(hop.tree.structure(back)))
        self.assertEqual(treedef.num_leaves, 9)

    def test_map(self):
        self.assertEqual(hop.tree.map(lambda a, b: a + b, {"x": [1, 2]}, {"x": [10, 20]}), {"x": [11, 22]})
        self.assertEqual(
            hop.tree.map_with_path(lambda p, a: hop.tree.path_text(p, "t"), {"x": [1]}), {"x": ["t['x'][0]"]}
        )
        with self.assertRaisesRegex(ValueError, r"\['x'\]"):
            hop.tree.map(lambda a, b: a, {"x": [1, 2]}, {"x": [1]})

    def test_paths(self):
        paths = [hop.tree.path_text(p, "tree") for p, _ in hop.tree.leaves_with_path(self.TREE)]
        self.assertEqual(paths[:4], ["tree['a'].x", "tree['a'].y.weight", "tree['a'].y.bias", "tree['b'][0]"])

    def test_errors(self):
        with self.assertRaises(ValueError):
            hop.tree.unflatten(hop.tree.structure([1, 2]), [1])
        with self.assertRaises(TypeError):
            hop.tree.register(int)

    def test_static_rest_is_part_of_the_structure(self):
        self.assertNotEqual(hop.tree.structure(Layer(1, 2, "a")), hop.tree.structure(Layer(1, 2, "b")))
        self.assertIn("Layer(*, *)", repr(hop.tree.structure(Layer(1, 2))))

    def test_through_transforms(self):
        layer = Layer(hop.asarray([[1.0, 2.0]]), hop.asarray([3.0]), "first")
        loss = lambda p, x: hop.sum((p.weight @ x + p.bias) ** 2)  # noqa: E731
        x = hop.asarray([1.0, 1.0])
        for g in (hop.grad(loss), hop.jit(hop.grad(loss)), hop.grad(hop.jit(loss))):
            gradient = g(layer, x)
            self.assertIsInstance(gradient, Layer)
            self.assertEqual(gradient.name, "first")
            self.equal(gradient.weight, [[12, 12]])
            self.equal(gradient.bias, [12])
        point = hop.jit(lambda p: Point(p.y, (p.x, None)))(Point(hop.asarray(1), hop.asarray(2)))
        self.assertEqual((point.x.item(), point.y[0].item(), point.y[1]), (2, 1, None))
        self.equal(hop.vmap(lambda b: b.content * 2)(Box(hop.arange(3), "l")), [0, 2, 4])


if __name__ == "__main__":
    unittest.main()
