"""Windows, pools, resizing and sampling against plain definitions in NumPy, at random shapes, strides,
paddings and dilations, captured and at once; gradients against differences, batches, changing sizes,
mistakes."""

import itertools
import math
import unittest

import hop
from support import Case, needs_numpy, numpy


def windows(x, window, strides, padding, dilation, fold, nothing):
    """Every window folded, an element at a time."""
    spans = [(w - 1) * d + 1 for w, d in zip(window, dilation)]
    out = numpy.empty(
        [(n + lo + hi - s) // t + 1 for n, (lo, hi), s, t in zip(x.shape, padding, spans, strides)], x.dtype
    )
    for at in numpy.ndindex(*out.shape):
        found = []
        for tap in itertools.product(*map(range, window)):
            place = tuple(
                a * s - lo + k * d for a, s, (lo, _), k, d in zip(at, strides, padding, tap, dilation)
            )
            if all(0 <= i < n for i, n in zip(place, x.shape)):
                found.append(x[place])
        out[at] = fold(found) if found else nothing
    return out


def kernel(distance, method):
    t = abs(distance)
    if method == "linear":
        return max(1 - t, 0)
    if t <= 1:
        return (1.5 * t - 2.5) * t * t + 1
    return ((-0.5 * t + 2.5) * t - 4) * t + 2 if t < 2 else 0


def resized(x, size, axis, method, antialias, align):
    """One axis: for each new element the weights of all old ones."""
    n = x.shape[axis]
    weights = numpy.zeros((size, n))
    for i in range(size):
        if align:
            at = i * (n - 1) / max(size - 1, 1)
        else:
            at = (i + 0.5) * n / size - 0.5
        wide = max(n / size, 1) if antialias else 1
        row = [kernel((k - at) / wide, method) for k in range(n)]
        weights[i] = numpy.asarray(row) / sum(row)
    return numpy.moveaxis(numpy.tensordot(weights, x, (1, axis)), 0, axis)


class Windows(Case):
    @needs_numpy
    def test_reduce_window(self):
        rng = numpy.random.default_rng(0)
        folds = [
            (hop.add, "sum", sum, 0),
            (hop.multiply, "prod", math.prod, 1),
            (hop.maximum, "max", max, -math.inf),
            (hop.minimum, "min", min, math.inf),
        ]
        for trial in range(60):
            rank = int(rng.integers(1, 4))
            window, strides, dilation = ([int(n) for n in rng.integers(1, 4, rank)] for _ in range(3))
            padding = [tuple(int(n) for n in rng.integers(0, 4, 2)) for _ in range(rank)]
            spans = [(w - 1) * d + 1 for w, d in zip(window, dilation)]
            shape = [max(int(rng.integers(1, 9)), s - lo - hi) for s, (lo, hi) in zip(spans, padding)]
            x = rng.standard_normal(shape)
            function, name, fold, nothing = folds[trial % 4]
            given = name if trial % 3 else function
            expected = windows(x, window, strides, padding, dilation, fold, nothing)

            def run(x):
                return hop.reduce_window(
                    x, nothing, given, window, strides, padding, window_dilation=dilation  # noqa: B023
                )

            for f in (run, hop.jit(run)):
                self.same(f(x), expected, 1e-12)

    @needs_numpy
    def test_init_value_and_same(self):
        x = numpy.asarray([3.0, 1.0, 4.0, 1.0, 5.0])
        self.same(hop.reduce_window(x, 10.0, hop.add, 2), numpy.asarray([14.0, 15.0, 15.0, 16.0]))
        self.same(hop.reduce_window(x, 3.5, "max", 2), numpy.asarray([3.5, 4.0, 4.0, 5.0]))
        self.same(hop.reduce_window(x, 0.0, "sum", 2, 2, "SAME"), numpy.asarray([4.0, 5.0, 5.0]))
        self.same(hop.reduce_window(x, 0.0, "sum", 3, 1, "SAME"), numpy.asarray([4.0, 8.0, 6.0, 10.0, 6.0]))

    @needs_numpy
    def test_pools_and_layouts(self):
        rng = numpy.random.default_rng(1)
        x = rng.standard_normal((2, 3, 7, 6)).astype("float32")
        ones, none = (1, 1), ((0, 0), (0, 0))
        full = [(*ones, 3, 2), (*ones, 2, 1), (*none, (1, 1), (0, 1)), (1, 1, 1, 1)]
        expected = windows(x, *full, max, -math.inf)
        pads = ((1, 1), (0, 1))
        self.same(hop.max_pool(x, (3, 2), (2, 1), pads), expected)
        last = numpy.moveaxis(x, 1, -1)
        self.same(hop.max_pool(last, (3, 2), (2, 1), pads, layout="NHWC"), numpy.moveaxis(expected, 1, -1))
        self.same(hop.min_pool(-x, (3, 2), (2, 1), pads), -expected)
        mean = windows(x, *full, lambda v: sum(v) / 6, 0)
        self.same(hop.avg_pool(x, (3, 2), (2, 1), pads), mean, 1e-5)
        there = windows(x, *full, lambda v: sum(v) / len(v), math.nan)
        self.same(hop.avg_pool(x, (3, 2), (2, 1), pads, count_include_pad=False), there, 1e-5)
        self.same(hop.avg_pool(x, 2), x[:, :, :6].reshape(2, 3, 3, 2, 3, 2).mean((3, 5)), 1e-5)
        self.same(hop.max_pool(x[0, 0, 0], (2,)), x[0, 0, 0].reshape(3, 2).max(1))

    @needs_numpy
    def test_adaptive(self):
        rng = numpy.random.default_rng(2)
        x = rng.standard_normal((2, 7, 5)).astype("float32")

        def bins(n, m):
            return [slice(i * n // m, -(-(i + 1) * n // m)) for i in range(m)]

        for sizes in ((3, 4), (1, 1), (7, 2), (9, 8)):
            for pool, fold in ((hop.adaptive_avg_pool, numpy.mean), (hop.adaptive_max_pool, numpy.max)):
                grid = [[fold(x[:, r, c], (1, 2)) for c in bins(5, sizes[1])] for r in bins(7, sizes[0])]
                found = hop.jit(lambda x: pool(x, sizes))(x)  # noqa: B023
                self.same(found, numpy.moveaxis(numpy.asarray(grid), 2, 0), 1e-5)
        self.same(hop.adaptive_avg_pool(x, (None, 1)), x.mean(2, keepdims=True), 1e-5)

    @needs_numpy
    def test_resize(self):
        rng = numpy.random.default_rng(3)
        x = rng.standard_normal((6, 5))
        for method in ("linear", "cubic"):
            for sizes in ((12, 3), (4, 11), (1, 7), (6, 5)):
                for antialias, align in ((True, False), (False, False), (False, True)):
                    expected = x
                    for axis in (0, 1):
                        if sizes[axis] != x.shape[axis]:
                            expected = resized(expected, sizes[axis], axis, method, antialias, align)
                    found = hop.resize(x, sizes, method, antialias, align_corners=align)
                    self.same(found, expected, 1e-10)
        rows = [(2 * i + 1) * 6 // 16 for i in range(8)]
        self.same(hop.resize(x, 8, "nearest", axes=0), x[rows])
        self.same(hop.resize(x, scale=2, axes=(0,)), hop.resize(x, (12,), axes=(0,)).__array__())
        self.assertEqual(hop.resize(x, scale=(0.5, 1.5)).shape, (3, 7))

    @needs_numpy
    def test_grid_sample(self):
        rng = numpy.random.default_rng(4)
        x = rng.standard_normal((2, 3, 4, 5))
        grid = rng.uniform(-1.5, 1.5, (2, 3, 6, 2))
        out = numpy.zeros((2, 3, 3, 6))
        for n, i, j in numpy.ndindex(2, 3, 6):
            column, row = ((grid[n, i, j, k] + 1) * size / 2 - 0.5 for k, size in ((0, 5), (1, 4)))
            pairs = [(math.floor(at), math.floor(at) + 1) for at in (row, column)]
            for r, c in itertools.product(*pairs):
                if 0 <= r < 4 and 0 <= c < 5:
                    out[n, :, i, j] += (1 - abs(r - row)) * (1 - abs(c - column)) * x[n, :, r, c]
        self.same(hop.jit(hop.grid_sample)(x, grid), out, 1e-12)
        line = numpy.linspace(-1, 1, 5), numpy.linspace(-1, 1, 4)
        itself = numpy.broadcast_to(numpy.stack(numpy.meshgrid(*line), -1), (2, 4, 5, 2))
        paddings = ("zeros", "border", "reflection")
        for mode, padding in itertools.product(("nearest", "bilinear", "bicubic"), paddings):
            self.same(hop.grid_sample(x, itself, mode, padding, align_corners=True), x, 1e-10)
        corner = numpy.broadcast_to(x[:, :, -1:, -1:], x.shape)
        self.same(hop.grid_sample(x, 2 + itself, "bilinear", "border"), corner, 1e-12)

    @needs_numpy
    def test_map_coordinates(self):
        x = numpy.arange(12.0).reshape(3, 4)
        at = (numpy.asarray([0.5, 1.0, 5.0]), numpy.asarray([1.25, -0.25, 1.0]))
        self.same(hop.map_coordinates(x, at), numpy.asarray([3.25, 3.0, 0.0]), 1e-12)
        self.same(hop.map_coordinates(x, at, mode="nearest"), numpy.asarray([3.25, 4.0, 9.0]), 1e-12)
        self.same(hop.map_coordinates(x, at, order=0, mode="nearest"), numpy.asarray([1.0, 4.0, 9.0]))

    @needs_numpy
    def test_derivatives(self):
        rng = numpy.random.default_rng(5)
        x = hop.asarray(rng.permutation(96).reshape(2, 2, 6, 4) / 10.0)
        grid = hop.asarray(rng.uniform(-1.2, 1.2, (2, 2, 3, 2)))
        for f in (
            lambda x: hop.max_pool(x, 3, 2, 1),
            lambda x: hop.avg_pool(x, 3, 2, 1, count_include_pad=False),
            lambda x: hop.adaptive_max_pool(x, (4, 3)),
            lambda x: hop.adaptive_avg_pool(x, (4, 3)),
            lambda x: hop.resize(x, (9, 3), "cubic", axes=(2, 3)),
            lambda x: hop.reduce_window(x / 10, 1.0, hop.multiply, (1, 1, 2, 2)),
            lambda x: hop.grid_sample(x, grid),
        ):
            hop.check_grads(lambda x: hop.sum(hop.sin(f(x))), (x,), 2)  # noqa: B023
            mapped = hop.vmap(f)(hop.stack([x, 2 * x]))
            self.close(mapped[1], f(2 * x), 1e-12)
        for mode in ("bilinear", "bicubic"):
            hop.check_grads(lambda g: hop.sum(hop.sin(hop.grid_sample(x, g, mode))), (grid,), 1)  # noqa: B023

    def test_first_of_equals(self):
        x = hop.ones((1, 1, 2, 4))
        slope = hop.grad(lambda x: hop.sum(hop.max_pool(x, 2)))(x)
        self.equal(slope, [[[[1.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]]]])

    def test_changing_sizes(self):
        @hop.jit
        def f(x):
            return hop.max_pool(x, 3, 2, 1), hop.resize(x, scale=2, axes=-1), hop.adaptive_avg_pool(x, 2)

        g = hop.jit(hop.grad(lambda x: hop.sum(hop.avg_pool(x, 2, 2) ** 2)))
        for n in (4, 6, 8, 10):
            x = hop.reshape(hop.arange(2.0 * n * n), (2, 1, n, n))
            large, wide, two = f(x)
            self.assertEqual((large.shape, wide.shape), ((2, 1, n // 2, n // 2), (2, 1, n, 2 * n)))
            self.close(two, hop.mean(hop.reshape(x, (2, 1, 2, n // 2, 2, n // 2)), axis=(3, 5)), 1e-5)
            self.close(g(x)[0, 0, 0, 0], hop.mean(x[0, 0, :2, :2]) / 2, 1e-5)

    def test_mistakes(self):
        x = hop.ones((1, 1, 4, 4))
        for call, words in (
            (lambda: hop.max_pool(x, 5), "expected at most 4, found 5"),
            (lambda: hop.max_pool(x, 2, 0), "strides: expected at least 1, found 0"),
            (lambda: hop.max_pool(x, 2, -1), "strides"),
            (lambda: hop.max_pool(x, (2, 2, 2, 2, 2)), "at least 5 axes"),
            (lambda: hop.max_pool(x, 2, padding=-1), "padding"),
            (lambda: hop.max_pool(x, 2, padding="FULL"), '"SAME", "VALID" or numbers'),
            (lambda: hop.max_pool(x, 2, padding=((1, 1, 1), 0)), "(before, after)"),
            (lambda: hop.max_pool(x, 2, layout="NHW"), "a letter for each of 4 axes"),
            (lambda: hop.max_pool(hop.ones(3), 2), "[N, C] and further axes"),
            (lambda: hop.avg_pool(x, 2.5), "window"),
            (lambda: hop.adaptive_avg_pool(x, 0), "sizes"),
            (lambda: hop.adaptive_avg_pool(x, (2, 3, 4, 5, 6)), "axes"),
            (lambda: hop.reduce_window(x, 0.0, hop.sin, 2), "hop.maximum"),
            (lambda: hop.reduce_window(x, 0.0, "sum", 2, base_dilation=2), "base_dilation"),
            (lambda: hop.resize(x, (4, 4)), "one for each of 4 axes"),
            (lambda: hop.resize(x), "expected one of sizes and scale"),
            (lambda: hop.resize(x, scale=-1), "a positive number"),
            (lambda: hop.resize(x, (1, 1, 2, 2), "lanczos"), "nearest, linear or cubic"),
            (lambda: hop.resize(x, x.shape, antialias=True, align_corners=True), "antialias and align"),
            (lambda: hop.resize(hop.ones((0,)), (3,)), "dim 0: expected a size of at least 1, found 0"),
            (lambda: hop.grid_sample(x, hop.ones((1, 2, 2, 3))), "2 positions along the last"),
            (lambda: hop.grid_sample(x, hop.ones((2, 2, 2, 2))), "the grid"),
            (lambda: hop.grid_sample(x, x[..., :2], padding_mode="wrap"), "zeros, border or reflection"),
            (lambda: hop.map_coordinates(x, (x,)), "one for each of 4 axes"),
            (lambda: hop.map_coordinates(hop.ones(3), (hop.ones(2),), order=3), "0 or 1"),
        ):
            with self.assertRaises((hop.Error, ValueError, TypeError)) as caught:
                call()
            self.assertIn(words, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
