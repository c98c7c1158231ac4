"""Arrays are values: what is done to one is not seen in another, given away or not."""

import copy
import unittest
import weakref

import hop
from support import Case, needs_numpy, numpy


class Values(Case):
    """Arrays are values: what is done to one is not seen in another."""

    SAME = {
        "+x": lambda x: +x,
        "x[...]": lambda x: x[...],
        "x[()]": lambda x: x[()],
        "x[:]": lambda x: x[:],
        "astype": lambda x: x.astype(x.dtype),
        "reshape": lambda x: x.reshape(x.shape),
        "copy": copy.copy,
        "deepcopy": copy.deepcopy,
        "positive": hop.positive,
        "real": hop.real,
        "get": lambda x: x.at[...].get(),
        "clip": hop.clip,
        "round": hop.round,
        "floor": hop.floor,
        "array": hop.array,
        "asarray": lambda x: hop.asarray(x, copy=True),
        "stop": hop.stop_gradient,
        "squeeze": lambda x: hop.squeeze(x, axis=()),
        "broadcast": lambda x: hop.broadcast_to(x, x.shape),
        "flip": lambda x: hop.flip(hop.flip(x)),
        "jit": hop.jit(lambda x: x),
        "sum": lambda x: hop.sum(x, axis=()),
        "view": lambda x: x[::-1][::-1],
        "where": lambda x: hop.where(True, x, x),
        "concat": lambda x: hop.concat([x]),
    }  # fmt: skip

    def test_another_array(self):
        for name, f in self.SAME.items():
            for dtype in (hop.float32, hop.int64):
                x = hop.asarray([3, 1, 2], dtype=dtype)
                y = f(x)
                y[0] = 42
                self.equal(x, [3, 1, 2])
                self.equal(y, [42, 1, 2])
                x[1] = 7
                self.equal(y, [42, 1, 2])

                def traced(v, f=f):
                    w = f(v)
                    w[0] = 42
                    return v, w

                self.assertEqual(
                    [r.tolist() for r in hop.jit(traced)(hop.asarray([3, 1, 2], dtype=dtype))],
                    [[3, 1, 2], [42, 1, 2]],
                    name,
                )

    def test_donation_concerns_one_array_alone(self):
        f = hop.jit(lambda x: x * 2 + 1, donate_argnums=0)
        for part in (
            lambda x: x[0:3],
            lambda x: x.reshape((2, 3)),
            lambda x: x[...],
            lambda x: x[::-1],
            copy.copy,
            lambda x: x[1],
        ):
            for _ in range(2):
                x = hop.arange(0.0, 6.0, 1.0)
                y = part(x)
                expected = (y * 2 + 1).tolist()
                self.assertEqual(f(y).tolist(), expected)
                self.assertTrue(y._donated)
                self.equal(x, [0, 1, 2, 3, 4, 5])
                y = part(x)
                before = y.tolist()
                f(x)
                self.assertEqual(y.tolist(), before)
        x = hop.ones(3)
        x[0] = 5.0
        self.equal(f(x), [11, 3, 3])

    @needs_numpy
    def test_donation_spares_other_peoples_memory(self):
        f = hop.jit(lambda x: x * 2 + 1, donate_argnums=0)
        a = numpy.arange(4.0)
        for give in (
            lambda: f(a),
            lambda: f(hop.asarray(a)),
            lambda: f(hop.from_dlpack(a)),
            lambda: f({"x": a}["x"]),
        ):
            for _ in range(3):
                self.equal(give(), [1, 3, 5, 7])
                self.assertEqual(a.tolist(), [0, 1, 2, 3])
        x = hop.ones(3)
        view, b = memoryview(x), numpy.asarray(x)
        f(x)
        self.assertEqual((view.tolist(), b.tolist()), ([1, 1, 1], [1, 1, 1]))

    def test_weak_references(self):
        x = hop.ones(2)
        r = weakref.ref(x)
        self.assertIs(r(), x)
        del x
        self.assertIsNone(r())

    def test_globals_of_functions_made_anew(self):
        names = {"hop": hop, "scale": 2.0}
        source = "def f(x):\n    return hop.vmap(lambda v: v * scale)(x)\n"
        for scale in (2.0, 3.0, 2.0, True, 1.0):
            names["scale"] = scale
            exec(source, names)
            self.equal(hop.jit(names["f"])(hop.ones(2)), [scale, scale])


if __name__ == "__main__":
    unittest.main()
