"""conv and conv_transpose: against loops over NumPy arrays, gradients, lanes, layouts, names of others, and
what is refused. The operator by itself is in tests/conv_test.c."""

import itertools
import os
import random
import re
import unittest

import hop
from support import Case, needs_numpy, numpy


def plain(x, w, strides, padding, dilation, groups):
    """[batch, channels, space...] with loops over results and taps, in float64."""
    n = x.ndim - 2
    x = numpy.pad(x.astype("float64"), [(0, 0), (0, 0), *padding])
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilation)]
    sizes = [(size - r) // s + 1 for size, r, s in zip(x.shape[2:], reach, strides)]
    x = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
    w = w.astype("float64").reshape(groups, -1, *w.shape[1:])
    y = numpy.zeros((x.shape[0], groups, w.shape[1], *sizes))
    for tap in itertools.product(*[range(k) for k in w.shape[3:]]):
        at = [slice(t * d, t * d + (m - 1) * s + 1, s) for t, d, m, s in zip(tap, dilation, sizes, strides)]
        y += numpy.einsum("ngc...,goc->ngo...", x[(slice(None),) * 3 + tuple(at)], w[(..., *tap)])
    return y.reshape(y.shape[0], -1, *y.shape[3:]) if n else y


def draw(seed):
    r = random.Random(seed)
    n = r.randint(1, 3)
    groups = r.choice([1, 1, 2, 3])
    channels, out = groups * r.randint(1, 3), groups * r.randint(1, 4)
    taps = [r.randint(1, 3) for _ in range(n)]
    strides, dilation = [r.randint(1, 3) for _ in range(n)], [r.randint(1, 2) for _ in range(n)]
    padding = [(r.randint(0, 2), r.randint(0, 2)) for _ in range(n)]
    sizes = [r.randint((k - 1) * d + 1, 8) for k, d in zip(taps, dilation)]
    rng = numpy.random.default_rng(seed)
    x = rng.standard_normal((r.randint(1, 3), channels, *sizes)).astype("float32")
    w = rng.standard_normal((out, channels // groups, *taps)).astype("float32")
    return x, w, strides, padding, dilation, groups


@needs_numpy
class Random(Case):
    seeds = range(int(os.environ.get("HOP_TEST_SEED", 0)), int(os.environ.get("HOP_TEST_SEEDS", 40)))

    def test_values(self):
        for seed in self.seeds:
            x, w, *rest = draw(seed)
            with self.subTest(seed=seed):
                self.close(hop.conv(x, w, *rest), plain(x, w, *rest), 1e-4)

    def test_channels_last(self):
        for seed in self.seeds:
            x, w, *rest = draw(seed)
            n = x.ndim - 2
            with self.subTest(seed=seed):
                layout = "N" + "DHW"[3 - n :] + "C"
                last = numpy.moveaxis(x, 1, -1), numpy.moveaxis(w, (0, 1), (-1, -2))
                found = hop.jit(lambda x, w: hop.conv(x, w, *rest, layout=layout))(*last)
                self.close(hop.moveaxis(found, -1, 1), plain(x, w, *rest), 1e-4)

    def test_gradients(self):
        for seed in list(self.seeds)[::8]:
            x, w, *rest = draw(seed)
            with self.subTest(seed=seed):
                args = hop.asarray(x, dtype=hop.float64), hop.asarray(w, dtype=hop.float64)
                hop.check_grads(lambda x, w: hop.sum(hop.sin(hop.conv(x, w, *rest))), args, order=2)

    def test_transpose_is_the_gradient(self):
        for seed in self.seeds:
            x, w, strides, padding, dilation, groups = draw(seed)
            if any(p > (k - 1) * d for pair, k, d in zip(padding, w.shape[2:], dilation) for p in pair):
                continue
            with self.subTest(seed=seed):
                rest = strides, padding, dilation, groups
                y, pull = hop.vjp(lambda x: hop.conv(x, w, *rest), hop.asarray(x))
                (expected,) = pull(y)
                reach = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilation)]
                left = [
                    (size + a + b - r) % s
                    for size, (a, b), r, s in zip(x.shape[2:], padding, reach, strides)
                ]
                found = hop.conv_transpose(y, w, strides, padding, left, dilation, groups)
                self.close(found, expected, 1e-4)

    def test_lanes(self):
        x, w, *rest = draw(3)
        x, w = hop.asarray(x), hop.asarray(w)
        xs, ws = hop.stack([x, 2 * x, -x]), hop.stack([w, w + 1, 3 * w])
        f = lambda x, w: hop.conv(x, w, *rest)  # noqa: E731
        for axes in ((0, None), (None, 0), (0, 0)):
            found = hop.vmap(f, in_axes=axes)(xs if axes[0] == 0 else x, ws if axes[1] == 0 else w)
            for i in range(3):
                expected = f(xs[i] if axes[0] == 0 else x, ws[i] if axes[1] == 0 else w)
                self.close(found[i], expected, 1e-4)


class Written(Case):
    def test_padding(self):
        x, w = hop.reshape(hop.arange(5.0), (1, 1, 5)), hop.ones((1, 1, 3))
        self.equal(hop.conv(x, w), [[[3.0, 6.0, 9.0]]])
        self.equal(hop.conv(x, w, padding="SAME"), [[[1.0, 3.0, 6.0, 9.0, 7.0]]])
        self.equal(hop.conv(x, w, padding="same", strides=2), [[[1.0, 6.0, 7.0]]])
        self.equal(hop.conv(x, w, padding=1), [[[1.0, 3.0, 6.0, 9.0, 7.0]]])
        self.equal(hop.conv(x, w, padding=[(0, 1)]), [[[3.0, 6.0, 9.0, 7.0]]])
        self.equal(hop.conv(x, w, padding=[(-1, 0)]), [[[6.0, 9.0]]])

    def test_sizes_known_when_running(self):
        f = hop.jit(lambda x: hop.conv(x, hop.ones((1, 1, 3)), padding="SAME"))
        for size in (1, 2, 7):
            self.equal(f(hop.ones((1, 1, size)))[0, 0, :1], [2.0 if size > 1 else 1.0])

    def test_dtypes(self):
        x = hop.ones((1, 2, 4), dtype=hop.int8) * 100
        w = hop.ones((1, 2, 3), dtype=hop.int8) * 100
        self.equal(hop.conv(x, w, dtype=hop.int32), [[[60000, 60000]]], hop.int32)
        half = hop.conv(hop.ones((1, 300, 2), dtype=hop.bfloat16), hop.ones((1, 300, 2), dtype=hop.bfloat16))
        self.equal(half, [[[600.0]]], hop.bfloat16)
        mixed = hop.conv(hop.ones((1, 1, 2), dtype=hop.float32), hop.ones((1, 1, 1), dtype=hop.float64))
        self.assertEqual(mixed.dtype, hop.float64)
        with hop.autocast(hop.bfloat16):
            low = hop.jit(lambda x, w: hop.conv(x, w))(hop.ones((1, 1, 2)), hop.ones((1, 1, 1)))
            self.assertEqual(low.dtype, hop.bfloat16)

    def test_nothing(self):
        self.assertEqual(hop.conv(hop.ones((0, 2, 5)), hop.ones((3, 2, 2))).shape, (0, 3, 4))
        self.equal(hop.conv(hop.ones((1, 0, 3)), hop.ones((1, 0, 2))), [[[0.0, 0.0]]])

    def test_names_of_jax(self):
        lhs, rhs = hop.ones((1, 6, 6, 2)), hop.ones((3, 3, 2, 4))
        y = hop.conv_general_dilated(lhs, rhs, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        self.equal(y - hop.conv(lhs, rhs, 2, "SAME", layout="NHWC"), hop.zeros((1, 3, 3, 4)).tolist())

    def test_second_derivatives(self):
        x = hop.asarray([[[1.0, 2.0, 3.0]]], dtype=hop.float64)
        w = hop.asarray([[[2.0, -1.0]]], dtype=hop.float64)
        hop.check_grads(lambda x, w: hop.sum(hop.conv_transpose(x, w, 2) ** 3), (x, w), order=2)


class Stencils(Case):
    """Steps of the heat equation as people write them: one nest over the grid, no array but the carries."""

    five = [[0.0, 0.1, 0.0], [0.1, 0.6, 0.1], [0.0, 0.1, 0.0]]

    def forms(self):
        w = hop.asarray(self.five, dtype=hop.float64)[None, None]

        def beside(u):
            return u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]

        return {
            "roll": lambda u: 0.6 * u
            + 0.1 * sum(hop.roll(u, shift, axis=axis) for axis in (0, 1) for shift in (1, -1)),
            "slices": lambda u: 0.6 * u + 0.1 * beside(hop.pad(u, 1)),
            "at": lambda u: u.at[1:-1, 1:-1].set(0.6 * u[1:-1, 1:-1] + 0.1 * beside(u)),
            "conv": lambda u: hop.conv(u[None, None], w, padding=1)[0, 0],
        }

    def test_alike(self):
        n, steps = 96, 9
        u = hop.zeros((n, n), dtype=hop.float64).at[n // 2, n // 3].set(1.0)
        expected = [[0.0] * n for _ in range(n)]
        expected[n // 2][n // 3] = 1.0
        for _ in range(steps):  # what reaches an edge is nothing
            expected = [
                [
                    sum(
                        self.five[a][b] * expected[(i + a - 1) % n][(j + b - 1) % n]
                        for a, b in itertools.product(range(3), range(3))
                        if self.five[a][b]
                    )
                    for j in range(n)
                ]
                for i in range(n)
            ]
        slopes = {}
        for form, step in self.forms().items():
            with self.subTest(form=form):
                walk = hop.jit(lambda u, step=step: hop.fori_loop(0, steps, lambda i, u: step(u), u))
                self.close(walk(u), expected, 1e-12)
                said = walk.explain(u)
                self.assertEqual(len(re.findall("vector loop.*: add", said)), form != "conv", said)
                arrays = re.findall(r"^  t\d+ +f64\[(\d+)\]", said, re.M)
                self.assertLessEqual(sum(map(int, arrays)), 2 * n * n, said)
                slopes[form] = hop.grad(lambda u, walk=walk: hop.sum(walk(u) ** 2))(u)
        for form, slope in slopes.items():
            with self.subTest(form=form):
                self.close(slope, slopes["conv"], 1e-12)


class Refused(Case):
    def says(self, text, *args, **keywords):
        with self.assertRaisesRegex((ValueError, TypeError), text):
            hop.conv(*args, **keywords)

    def test_shapes(self):
        x, w = hop.ones((1, 3, 5)), hop.ones((2, 3, 3))
        self.says("channels of x", x, hop.ones((2, 2, 3)))
        self.says("expected 3 axes, as x has, found 4", x, hop.ones((2, 3, 3, 3)))
        self.says("at least one spatial", hop.ones((3, 5)), hop.ones((3, 5)))
        self.says("does not fit into x", x, hop.ones((2, 3, 9)))
        self.says("with its padding: 1 more element is", x, w, padding=[(-2, -1)])
        self.says("with its padding: 2 more elements", x, w, dilation=3)
        self.says("channels of x .* in 2 groups", x, w, groups=2)
        left = "groups must divide: what is left: expected 0, found 1"
        self.says(left, hop.ones((1, 4, 5)), hop.ones((3, 2, 3)), groups=2)
        self.says("3 more elements are needed", hop.ones((1, 3, 0)), w)
        self.says("letter for each of 3 axes", x, w, layout="NCHW")
        self.says("the letter C once", x, w, layout="NHW")
        self.says("the letter H once", x, w, layout="NCH", kernel_layout="OIW")

    def test_numbers(self):
        x, w = hop.ones((1, 3, 5)), hop.ones((2, 3, 3))
        self.says("strides", x, w, strides=0)
        self.says("strides", x, w, strides=(1, 1))
        self.says("strides: expected an entry at least", x, w, strides=())
        self.says("padding", x, w, padding="FULL")
        self.says("padding", x, w, padding=[(1, 2, 3)])
        self.says("dilation", x, w, dilation=-1)
        self.says("groups", x, w, groups=0)
        with self.assertRaisesRegex(ValueError, "padding"):
            hop.conv_transpose(x, hop.ones((3, 2, 3)), padding="SAME")
        with self.assertRaisesRegex(ValueError, "results along spatial dim 0: expected a size of at least 0"):
            hop.conv_transpose(x, hop.ones((3, 2, 3)), padding=9)
        with self.assertRaisesRegex(ValueError, "2 groups must divide"):
            hop.conv_transpose(x, hop.ones((3, 2, 3)), groups=2)

    def test_nothing(self):
        w = hop.ones((2, 3, 3))
        self.assertEqual(hop.conv(hop.ones((0, 3, 5)), w).shape, (0, 2, 3))
        for stride in (1, 2, 3):
            of_no_taps = hop.conv(hop.ones((1, 3, 5)), hop.ones((2, 3, 0)), stride, "SAME")
            self.assertEqual(of_no_taps.tolist(), [[[0.0] * -(-5 // stride)] * 2])
        of_no_channels = hop.conv(hop.ones((1, 0, 5)), hop.ones((2, 0, 3)))
        self.assertEqual(of_no_channels.tolist(), [[[0.0] * 3] * 2])


if __name__ == "__main__":
    unittest.main()
