"""pad: every mode against NumPy's, at random shapes and widths, those beyond the array's own size among them;
derivatives, batches, mistakes."""

import unittest

import hop
from support import Case, needs_numpy, numpy

MODES = ("constant", "edge", "reflect", "symmetric", "wrap")


class Pad(Case):
    @needs_numpy
    def test_random(self):
        rng = numpy.random.default_rng(0)
        for trial in range(400):
            shape = tuple(rng.integers(1, 5, rng.integers(1, 4)).tolist())
            widths = [tuple(w) for w in rng.integers(0, 12 if trial % 2 else 4, (len(shape), 2)).tolist()]
            a = rng.integers(0, 100, shape).astype(rng.choice(["float32", "int64", "uint8"]))
            for mode in MODES:
                self.same(hop.pad(a, widths, mode), numpy.pad(a, widths, mode))
            values = rng.integers(0, 9, (len(shape), 2)).tolist()
            self.same(
                hop.pad(a, widths, constant_values=values), numpy.pad(a, widths, constant_values=values)
            )

    @needs_numpy
    def test_forms_of_widths(self):
        a = numpy.arange(6.0).reshape(2, 3)
        for widths in (
            2,
            (1,),
            (1, 2),
            ((1, 2),),
            [[1, 2], [3, 0]],
            [(1,), (2,)],
            numpy.asarray([[1, 2], [0, 1]]),
            numpy.int64(2),
        ):
            for mode in MODES:
                self.same(hop.pad(a, widths, mode=mode), numpy.pad(a, widths, mode=mode))
        self.same(hop.pad(a, {-1: (1, 2)}, "wrap"), numpy.pad(a, ((0, 0), (1, 2)), "wrap"))
        self.same(hop.pad(a, 1, constant_values=(3, 4)), numpy.pad(a, 1, constant_values=(3, 4)))
        self.same(
            hop.pad(numpy.ones((0, 2)), ((0, 0), (1, 1)), "edge"),
            numpy.pad(numpy.ones((0, 2)), ((0, 0), (1, 1)), "edge"),
        )
        self.equal(hop.pad(5.0, 3), 5)

    @needs_numpy
    def test_derivatives_and_batches(self):
        rng = numpy.random.default_rng(1)
        x, w = hop.asarray(rng.normal(size=(2, 3))), hop.asarray(rng.normal(size=(9, 8)))
        for mode in MODES:
            f = lambda v, mode=mode: hop.pad(v, ((3, 4), (5, 0)), mode)  # noqa: E731
            hop.check_grads(lambda v: hop.sum(w * f(v) ** 2), (x,), order=2)
            xs = hop.asarray(rng.normal(size=(4, 2, 3)))
            for g in (hop.vmap(f), hop.jit(hop.vmap(f)), hop.vmap(hop.jit(f))):
                self.close(g(xs), hop.stack([f(v) for v in xs]).tolist(), 0)
        hop.check_grads(
            lambda v, c: hop.sum(hop.pad(v, 2, constant_values=(c, 2 * c)) ** 2),
            (x, hop.asarray(3.0, dtype=hop.float64)),
            order=2,
        )

    def test_mistakes(self):
        x = hop.ones((2, 3))
        for call, text in [
            (
                lambda: hop.pad(x, 1, "mirror"),
                "pad: mode: expected one of constant, edge, wrap, symmetric, reflect, found 'mirror'",
            ),
            (lambda: hop.pad(x, (1, 2, 3)), "pad_width: expected a value"),
            (lambda: hop.pad(x, [(1, 1)] * 3), "for each of 2 axes"),
            (lambda: hop.pad(x, (-1, 0), "edge"), "widths of at least 0"),
            (lambda: hop.pad(hop.ones((0, 2)), 1, "edge"), "no elements to go on with"),
            (lambda: hop.pad(x, 1.5), "pad_width: expected an integer, found 1.5"),
            (lambda: hop.pad(x, {2: 1}), "axes of an array that has 2"),
            (lambda: hop.pad(x, 1, value=3), "use constant_values=3"),
            (lambda: hop.pad(x, [1, [2]]), "for each"),
        ]:
            with self.assertRaisesRegex((TypeError, ValueError), text):
                call()


if __name__ == "__main__":
    unittest.main()
