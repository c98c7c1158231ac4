"""Files of trees: what is saved comes back as it was; other programs read the arrays by their paths; what
a file says is not believed."""

import collections
import dataclasses
import json
import math
import os
import tempfile
import unittest

import hop
from support import Case, needs_numpy, numpy

ENDINGS = (".npz", ".safetensors")


@dataclasses.dataclass
class Layer:
    w: hop.Array
    b: hop.Array


class Trees(Case):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def alike(self, a, b):
        self.assertIs(type(a), type(b))
        if isinstance(a, hop.Array):
            self.assertEqual((a.dtype, a.shape, a.tolist()), (b.dtype, b.shape, b.tolist()))
        elif isinstance(a, dict):
            self.assertEqual([(type(k), k) for k in a], [(type(k), k) for k in b])
            for k in a:
                self.alike(a[k], b[k])
        elif isinstance(a, (list, tuple)):
            self.assertEqual(len(a), len(b))
            for x, y in zip(a, b):
                self.alike(x, y)
        elif isinstance(a, float):
            self.assertEqual(repr(a), repr(b))
        else:
            self.assertEqual(a, b)

    def round_trip(self, t, **options):
        for ending in ENDINGS:
            path = self.path("tree" + ending)
            hop.save(path, t)
            yield hop.load(path, **options)

    def test_round_trips(self):
        x, h = hop.arange(6.0).reshape((2, 3)), hop.asarray([1.5, -2.0], dtype=hop.bfloat16)
        trees = [
            {
                "layers": [{"w": x, "b": h}, {"w": x + 1, "b": None}],
                "step": 7,
                "rate": 1e-3,
                "name": "first",
                "done": False,
            },
            [x, (h, [], (), {}), None, [None]],
            (x,),
            {"a": {"b": x}, "a.b": h},
            {"numbers": [math.inf, -math.inf, math.nan, -0.0, 0.1, 2**80, -1, True]},
            {"z": x, "a": h, 3: x, None: h, True: 1},
            {"__tree__": x},
            {"": {"": x}},
            {"a": []},
            [],
            [3],
            {"text": 'ü \n " \\ \0'},
            {"deep": [[[[[[x]]]]]]},
        ]
        for t in trees:
            for back in self.round_trip(t):
                self.alike(back, t)

    def test_optimizer(self):
        params = {"w": hop.ones((2, 2)), "b": hop.zeros(2)}
        opt = hop.optim.adam(1e-2)
        params, state = opt.update(params, opt.init(params), params)
        for back in self.round_trip((params, state)):
            self.alike(back, (params, state))
            self.assertIsInstance(back[1], hop.optim.State)
        for back in self.round_trip((params, state), like=(params, opt.init(params))):
            self.alike(back, (params, state))

    def test_like(self):
        model = {
            "first": Layer(hop.ones((2, 2)), hop.zeros(2)),
            "rest": collections.OrderedDict(k=hop.ones(1)),
        }
        other = hop.tree.map(lambda v: v * 0, model)
        for back in self.round_trip(model, like=other):
            self.assertIsInstance(back["first"], Layer)
            self.assertIs(type(back["rest"]), collections.OrderedDict)
            self.alike(hop.tree.leaves(back), hop.tree.leaves(model))
        path = self.path("tree.npz")
        with self.assertRaisesRegex(
            hop.InvalidError, r"holds a .*Layer: give a tree of the same structure, like=…"
        ):
            hop.load(path)
        with self.assertRaisesRegex(
            hop.InvalidError, r"it lacks \['second'\] and has besides \['first'\]\.b, \['first'\]\.w"
        ):
            hop.load(path, like={"second": 0, "rest": model["rest"]})
        with self.assertRaisesRegex(
            hop.InvalidError, r"\['first'\]\.b has the shape \(2,\), \(3,\) was expected"
        ):
            hop.load(path, like={**other, "first": Layer(hop.ones((2, 2)), hop.zeros(3))})

    def test_plain_files_stay_plain(self):
        hop.save(self.path("a.npz"), {"x": hop.arange(3), "y": hop.ones(2)})
        self.assertEqual(sorted(hop._core.load_file(self.path("a.npz"))), ["x", "y"])
        back = hop.load(self.path("a.npz"), like={"x": 0, "y": hop.zeros(2)})
        self.equal(back["x"], [0, 1, 2])
        hop.save(self.path("b.npz"), {"layers.0.w": hop.ones(1), "layers.1.w": hop.zeros(1)})
        back = hop.load(self.path("b.npz"), like={"layers": [{"w": 0}, {"w": 0}]})
        self.equal(back["layers"][0]["w"], [1])
        hop.save(self.path("c.npy"), [1.0, 2.0])
        self.equal(hop.load(self.path("c.npy")), [1, 2])
        self.equal(hop.load(self.path("c.npy"), like=hop.zeros(2)), [1, 2])

    @needs_numpy
    def test_others_read_them(self):
        hop.save(self.path("a.npz"), {"layers": [{"w": hop.arange(3)}, numpy.ones(2)], "n": 3})
        with numpy.load(self.path("a.npz")) as found:
            self.assertEqual(sorted(found), ["__tree__", "layers.0.w", "layers.1", "n"])
            self.assertEqual(found["layers.0.w"].tolist(), [0, 1, 2])
            self.assertEqual((found["n"].item(), found["n"].shape), (3, ()))
            described = json.loads(found["__tree__"].tobytes())
        self.assertEqual(described["tree"]["dict"][1], ["n", 3])

    def test_mistakes(self):
        x = hop.ones(1)
        for t, text in [
            ({"a": {1, 2}}, r"save: \['a'\]: expected something that a file holds .*, found a set"),
            ([lambda: 1], "found the function"),
            ({"a": {(1, 2): x}}, r"save: a key of \['a'\]: expected a text or an integer, found a tuple"),
            ({2.5: x}, "save: a key of the dict"),
        ]:
            with self.assertRaisesRegex((TypeError, ValueError), text):
                hop.save(self.path("a.npz"), t)
        with self.assertRaisesRegex(
            hop.InvalidError, "a .npy file holds one array: a dict needs .npz or .safetensors"
        ):
            hop.save(self.path("a.npy"), {"x": x})
        with self.assertRaises(hop.TracerError):
            hop.jit(lambda v: hop.save(self.path("a.npz"), {"x": [v]}))(x)
        self.assertFalse(os.path.exists(self.path("a.npz")))

    def test_wrong_files(self):
        texts = [
            "", "nonsense", "[]", "{}", '{"hop": 2, "tree": 1}', '{"hop": 1}',
            '{"hop": 1, "tree": {"array": "y"}}',
        ]
        texts += [
            '{"hop": 1, "tree": {"dict": 3}}', '{"hop": 1, "tree": {"dict": [[[], 1]]}}',
            '{"hop": 1, "tree": {"what": 1}}',
        ]
        texts += [
            '{"hop": 1, "tree": {"float": "one"}}',
            '{"hop": 1, "tree": ' + "[" * 100000,
            '{"hop": 1, "tree": {"array": [1]}}',
        ]
        texts += [
            '{"hop": 1, "tree": {"dict": [[]]}}',
            '{"hop": 1, "tree": {"node": "hop.optim.State", "children": [["x", 1]]}}',
        ]
        for text in texts:
            with self.subTest(text[:60]):
                described = hop.asarray(list(text.encode()), dtype=hop.uint8)
                hop._core.save_file(self.path("w.npz"), ("x", "__tree__"), (hop.ones(1), described))
                with self.assertRaisesRegex(hop.FileError, r"w\.npz: __tree__ does not describe a tree"):
                    hop.load(self.path("w.npz"))


if __name__ == "__main__":
    unittest.main()
