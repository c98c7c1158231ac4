"""x.at[…]: what is read and written, and what becomes of indices that are out of range, in every mode,
against a model in plain Python."""

import itertools
import math
import unittest

import hop
from support import Case

MODES = ("clip", "drop", "fill", "promise_in_bounds", "wrap")
N = 5
INDICES = (0, 4, 5, 7, -1, -5, -6, -11, 2**40)
UPDATES = {
    "set": lambda old, new: new,
    "add": lambda old, new: old + new,
    "subtract": lambda old, new: old - new,
    "multiply": lambda old, new: old * new,
    "mul": lambda old, new: old * new,
    "divide": lambda old, new: old / new,
    "power": lambda old, new: old**new,
    "min": min,
    "max": max,
}


def place(i, n, mode, writes):
    """Where an index points to, None: nowhere."""
    if mode == "wrap":
        return i % n
    i = i + n if i < 0 else i
    if 0 <= i < n:
        return i
    drops = mode in ("drop", "fill") or writes and mode in (None, "promise_in_bounds")
    return None if drops else min(max(i, 0), n - 1)


def start():
    return hop.asarray([1.0, 2.0, 4.0, 8.0, 16.0], dtype=hop.float64)


class Modes(Case):
    def test_read(self):
        x = start()
        for mode, fill in itertools.product((None, *MODES), (None, -3.0)):
            places = [place(i, N, mode, False) for i in INDICES]
            expected = [(math.nan if fill is None else fill) if p is None else 2.0**p for p in places]
            f = lambda v, i: v.at[i].get(mode=mode, fill_value=fill)  # noqa: E731
            for how in (lambda g: g, hop.jit):
                self.close(how(f)(x, hop.asarray(INDICES)), expected, 0)
            for i, e in zip(INDICES, expected):
                if mode is not None:
                    self.close(x.at[i].get(mode=mode, fill_value=fill), e, 0)

    def test_write(self):
        x = start()
        for mode, (name, rule) in itertools.product((None, *MODES), UPDATES.items()):
            for i in INDICES:
                expected = x.tolist()
                p = place(i, N, mode, True)
                if p is not None:
                    expected[p] = rule(expected[p], 3.0)
                f = lambda v, k: getattr(v.at[k], name)(3.0, mode=mode)  # noqa: E731
                self.equal(f(x, hop.asarray([i])), expected)
                self.equal(hop.jit(f)(x, hop.asarray(i)), expected)
                if mode is not None:
                    self.equal(f(x, i), expected)

    def test_python_integers_without_a_mode(self):
        for call in (lambda: start().at[5].get(), lambda: start().at[-6].set(0.0)):
            with self.assertRaisesRegex(IndexError, "is outside of axis 0, which has size 5"):
                call()

    def test_several_axes(self):
        m = hop.arange(12).reshape((3, 4))
        rows, columns = hop.asarray([0, 3, -1]), hop.asarray([1, 1, 9])
        self.equal(m.at[rows, columns].get(mode="fill", fill_value=-7), [1, -7, -7])
        self.equal(m.at[rows].get(mode="fill", fill_value=-7), [[0, 1, 2, 3], [-7] * 4, [8, 9, 10, 11]])
        self.equal(m.at[:, columns].get(mode="fill", fill_value=-7), [[1, 1, -7], [5, 5, -7], [9, 9, -7]])
        self.equal(m.at[1:, columns].get(mode="wrap"), [[5, 5, 5], [9, 9, 9]])
        self.equal(m.at[..., 9].get(mode="clip"), [3, 7, 11])
        self.equal(m.at[7, 1:3].get(mode="fill", fill_value=0), [0, 0])
        cube = hop.arange(24).reshape((2, 3, 4))
        self.equal(
            cube.at[hop.asarray([0, 5]), :, hop.asarray([1, 1])].get(mode="fill", fill_value=-1),
            [[1, 5, 9], [-1] * 3],
        )
        self.equal(
            cube.at[0, hop.asarray([[0], [9]]), 2:].get(mode="fill", fill_value=-1), [[[2, 3]], [[-1, -1]]]
        )

    def test_writing_beyond_an_end_beside_slices(self):
        """Indices out of range are dropped whatever else the key has."""
        x = hop.zeros((3, 4))
        far, near = hop.asarray([9, 1]), hop.asarray([0, 2])
        row = [0.0, 1.0, 0.0, 0.0]
        self.equal(x.at[1:, far].set(1.0), [[0] * 4, row, row])
        self.equal(x.at[far, ::2].add(1.0), [[0] * 4, [1, 0, 1, 0], [0] * 4])
        self.equal(x.at[1:, far].set(1.0, mode="clip"), [[0] * 4, [0, 1, 0, 1], [0, 1, 0, 1]])
        cube = hop.zeros((3, 2, 4)).at[far, :, near].set(1.0)
        self.equal(hop.sum(cube, axis=(0, 1)), [0, 0, 2, 0])
        self.equal(hop.jit(lambda v, i: v.at[1:, i].set(1.0))(x, far), [[0] * 4, row, row])

    def test_masks_have_no_range(self):
        x = start()
        for mode in MODES:
            self.equal(x.at[x > 3].get(mode=mode), [4, 8, 16])
            self.equal(x.at[x > 3].set(0.0, mode=mode), [1, 2, 0, 0, 0])

    def test_what_fills(self):
        for dtype, fill in ((hop.int8, -128), (hop.int64, -(2**63)), (hop.uint16, 65535), (hop.bool, True)):
            self.equal(hop.zeros(2, dtype=dtype).at[3].get(mode="fill"), fill, dtype)

    def test_kinds_of_indices(self):
        for dtype in (hop.int8, hop.uint8, hop.int32, hop.uint64):
            i = hop.asarray([1, 100], dtype=dtype)
            for mode in MODES:
                expected = [2.0, math.nan if mode in ("fill", "drop") else 1.0 if mode == "wrap" else 16.0]
                self.close(start().at[i].get(mode=mode), expected, 0)
        long = hop.zeros(300)
        self.equal(long.at[hop.asarray([-1], dtype=hop.int8)].set(1.0, mode="clip")[298:], [0, 1])

    def test_gradients(self):
        i = hop.asarray([1, 9, 1])
        f = lambda v, w: hop.sum(v.at[i].get(mode="fill", fill_value=0.0) * w)  # noqa: E731
        g, h = hop.grad(f, argnums=(0, 1))(start(), hop.asarray([1.0, 10.0, 100.0], dtype=hop.float64))
        self.equal(g, [0, 101, 0, 0, 0])
        self.equal(h, [2, 0, 2])
        hop.check_grads(lambda v, w: v.at[i].divide(w, mode="drop"), (start(), 3.0), order=1)
        hop.check_grads(lambda v, w: v.at[i].power(w, mode="clip"), (start(), 1.5), order=1)
        self.equal(
            hop.vmap(lambda k: start().at[k].get(mode="fill", fill_value=-1.0))(hop.asarray([0, 5, -5])),
            [1, -1, 1],
        )

    def test_the_same_index_twice(self):
        i = hop.asarray([1, 1])
        for name, expected in (
            ("add", 8.0),
            ("subtract", -4.0),
            ("multiply", 18.0),
            ("divide", 2 / 9),
            ("min", 2.0),
        ):
            self.close(getattr(start().at[i], name)(3.0), [1, expected, 4, 8, 16], 1e-15)

    def test_integers(self):
        x = hop.asarray([-7, 7, 8])
        self.equal(x.at[:2].divide(2), [-3, 3, 8], hop.int64)
        self.equal(x.at[1].power(2), [-7, 49, 8], hop.int64)
        self.equal(hop.asarray([3, 4], dtype=hop.uint8).at[0].subtract(4), [255, 4], hop.uint8)

    def test_hints_change_nothing(self):
        i = hop.asarray([1, 2])
        self.equal(start().at[i].add(1.0, indices_are_sorted=True, unique_indices=True), [1, 3, 5, 8, 16])
        self.equal(start().at[i].get(indices_are_sorted=True, unique_indices=True), [2, 4])
        self.equal(start().at[i].apply(hop.square, unique_indices=True), [1, 4, 16, 8, 16])

    def test_other_modes(self):
        for bad in ("nearest", 3, True, ["clip"]):
            with self.assertRaisesRegex(
                hop.InvalidError, r'x\.at\[…\]: mode: expected "clip", "drop", "fill"'
            ):
                start().at[0].get(mode=bad)
            with self.assertRaisesRegex(hop.InvalidError, r"test_at.py:\d+: x\.at\[…\]: mode"):
                start().at[0].set(1.0, mode=bad)


if __name__ == "__main__":
    unittest.main()
