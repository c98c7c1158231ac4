"""Arrays: making them, memory in and out, indexing in both directions, how they are shown."""

import copy
import math
import pickle
import random
import unittest

import hop
from support import Case, needs_numpy, numpy


class Making(Case):
    def test_numbers_and_lists(self):
        self.equal(hop.asarray([[1, 2], [3, 4]]), [[1, 2], [3, 4]], hop.int64)
        self.equal(hop.asarray([1.5, 2]), [1.5, 2.0], hop.float32)
        self.equal(hop.asarray([True, False]), [True, False], hop.bool)
        self.equal(hop.asarray(3), 3, hop.int64)
        self.equal(hop.asarray(2.5, dtype=hop.float64), 2.5, hop.float64)
        self.equal(hop.asarray([]), [], hop.float32)
        self.assertEqual(hop.asarray([[], []]).shape, (2, 0))
        self.equal(hop.asarray([hop.asarray(1.0), 2.0]), [1.0, 2.0])

    def test_bad_lists(self):
        for bad in ([[1, 2], [3]], [1, [2]], ["a"], [None], "text", object(), {1: 2}, 1j):
            with self.assertRaises((TypeError, ValueError), msg=repr(bad)):
                hop.asarray(bad)
        with self.assertRaises(OverflowError):
            hop.asarray([300], dtype=hop.uint8)
        with self.assertRaises(OverflowError):
            hop.asarray([-1], dtype=hop.uint64)

    def test_creation(self):
        self.equal(hop.zeros((2, 1)), [[0.0], [0.0]], hop.float32)
        self.equal(hop.ones(2, dtype=hop.int8), [1, 1], hop.int8)
        self.equal(hop.full((2,), 7), [7, 7], hop.int64)
        self.equal(hop.arange(2, 8, 3), [2, 5], hop.int64)
        self.equal(hop.arange(3, 0, -1), [3, 2, 1])
        self.close(hop.arange(0.0, 1.0, 0.25), [0, 0.25, 0.5, 0.75])
        self.close(hop.linspace(0, 1, 5), [0, 0.25, 0.5, 0.75, 1])
        self.equal(hop.eye(2, 3, k=1), [[0, 1, 0], [0, 0, 1]])
        self.equal(hop.zeros_like(hop.ones(2, dtype=hop.float64)), [0, 0], hop.float64)
        with self.assertRaises(ValueError):
            hop.zeros((-1,))
        with self.assertRaises(ValueError):
            hop.arange(0, 1, 0)

    def test_attributes(self):
        x = hop.zeros((2, 3), dtype=hop.float64)
        self.assertEqual(
            (x.shape, x.ndim, x.size, x.dtype, x.nbytes, len(x), x.device),
            ((2, 3), 2, 6, hop.float64, 48, 2, "cpu"),
        )
        self.assertEqual(x.T.shape, (3, 2))
        self.assertIs(x.__array_namespace__(), hop)
        with self.assertRaises(TypeError):
            hash(x)
        with self.assertRaises(TypeError):
            hop.Array()

    def test_python_numbers(self):
        self.assertEqual(
            (
                int(hop.asarray(3.7)),
                float(hop.asarray(2)),
                bool(hop.asarray(0)),
                [10, 20, 30][hop.asarray(1)],
            ),
            (3, 2.0, False, 20),
        )
        self.assertEqual(f"{hop.asarray(1.5):.2f}", "1.50")
        for bad in (
            lambda: bool(hop.ones(2)),
            lambda: float(hop.ones(2)),
            lambda: [1][hop.asarray(0.0)],
            lambda: len(hop.asarray(1)),
        ):
            with self.assertRaises((TypeError, ValueError)):
                bad()

    def test_half_precision(self):
        self.equal(
            hop.asarray([1.0, 65504.0, 1e-8, 0.1], dtype=hop.float16), [1.0, 65504.0, 0.0, 0.0999755859375]
        )
        self.equal(hop.asarray([1.0, 3.140625, 257.0], dtype=hop.bfloat16), [1.0, 3.140625, 256.0])
        self.assertTrue(math.isnan(hop.asarray(math.nan, dtype=hop.bfloat16).item()))
        self.assertEqual(hop.asarray(-math.inf, dtype=hop.float16).item(), -math.inf)
        self.equal(
            hop.asarray([1.5], dtype=hop.bfloat16) + hop.asarray([1.5], dtype=hop.bfloat16),
            [3.0],
            hop.bfloat16,
        )

    def test_show(self):
        self.assertEqual(repr(hop.asarray([1.0, -2.5])), "Array([ 1. , -2.5], dtype=float32)")
        self.assertEqual(repr(hop.asarray([[1], [10]])), "Array([[ 1],\n       [10]], dtype=int64)")
        self.assertEqual(repr(hop.asarray(True)), "Array(True, dtype=bool)")
        self.assertEqual(repr(hop.zeros((0, 2))), "Array([], shape=(0, 2), dtype=float32)")
        long = repr(hop.arange(2000))
        self.assertIn("...", long)
        self.assertLess(len(long), 200)
        shown = []
        hop.jit(lambda x: shown.append(repr(x)) or x)(hop.ones((2, 3)))
        self.assertEqual(shown, ["Tracer<f32[2, 3]>"])

    def test_copies(self):
        x = hop.asarray([[1.0, 2.0]], dtype=hop.bfloat16)
        for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x)):
            self.equal(y, [[1.0, 2.0]], hop.bfloat16)
        self.equal(pickle.loads(pickle.dumps(hop.asarray(7))), 7)
        self.assertIs(pickle.loads(pickle.dumps(hop.float32)), hop.float32)

    def test_dtypes(self):
        self.assertEqual(hop.result_type(hop.int32, hop.float32), hop.float32)
        self.assertEqual(hop.result_type(hop.ones(1, dtype=hop.float16), 2.0), hop.float16)
        self.assertEqual(hop.result_type(hop.int8, hop.uint8), hop.int16)
        self.assertEqual(hop.result_type(hop.bfloat16, hop.float16), hop.float32)
        self.assertTrue(
            hop.isdtype(hop.int8, "integral")
            and hop.isdtype(hop.float32, ("bool", hop.float32))
            and not hop.isdtype(hop.bool, "numeric")
        )
        self.assertEqual(hop.float32, "float32")
        self.assertNotEqual(hop.float32, "no dtype")
        self.assertEqual(
            (hop.iinfo(hop.int8).min, hop.iinfo(hop.uint16).max, hop.finfo(hop.float32).bits),
            (-128, 65535, 32),
        )
        self.assertTrue(hop.can_cast(hop.int8, hop.int16) and hop.can_cast(hop.int64, hop.float32))
        self.assertFalse(
            hop.can_cast(hop.float32, hop.int64)
            or hop.can_cast(hop.uint64, hop.int64)
            or hop.can_cast(hop.int8, hop.uint64)
            or hop.can_cast(hop.float16, hop.bfloat16)
        )
        with self.assertRaises(TypeError):
            hop.zeros(1, dtype="complex64")
        for a in hop._dtypes.ALL:  # the table is the library's own
            for b in hop._dtypes.ALL:
                if {a, b} & {hop.uint64} and {a, b} & {hop.int8, hop.int16, hop.int32, hop.int64}:
                    with self.assertRaisesRegex(
                        hop.InvalidError, r"uint64 and int\d+: .*x\.astype\(hop\.int64\)"
                    ):
                        hop.promote_types(a, b)
                elif a is not hop.bool or b is not hop.bool:
                    found = hop.where(hop.asarray([True]), hop.ones(1, dtype=a), hop.ones(1, dtype=b)).dtype
                    self.assertIs(hop.promote_types(a, b), found, f"{a} and {b}")


class Memory(Case):
    @needs_numpy
    def test_numpy_without_copies(self):
        a = numpy.arange(12.0).reshape(3, 4)
        x = hop.asarray(a)
        self.assertEqual(x._pointer, a.ctypes.data)
        self.assertTrue(numpy.shares_memory(numpy.asarray(x), a))
        part = hop.asarray(a[::-1, ::2])
        self.same(part + 0, a[::-1, ::2])
        self.assertEqual(part._pointer, a[::-1, ::2].ctypes.data)
        self.assertTrue(numpy.shares_memory(numpy.asarray(x[1:, ::-1]), a))
        with self.assertRaises(ValueError):
            hop.asarray([1], copy=False)
        own = hop.asarray(a, copy=True)
        a[0, 0] = 99
        self.assertEqual((x[0, 0].item(), own[0, 0].item()), (99, 0))

    @needs_numpy
    def test_numpy_with_copies(self):
        a = numpy.arange(3.0)
        a.flags.writeable = False
        self.assertEqual(hop.asarray(a)._pointer, a.ctypes.data)
        shifted = numpy.frombuffer(b"x" + a.tobytes(), dtype=numpy.uint8)[1:].view(numpy.float64)
        self.same(hop.asarray(shifted), a)
        if shifted.ctypes.data % 8:
            with self.assertRaises(ValueError):
                hop.asarray(shifted, copy=False)
        self.same(hop.asarray(numpy.broadcast_to(a, (2, 3))), numpy.broadcast_to(a, (2, 3)))
        fields = numpy.zeros(3, dtype=[("a", "i1"), ("b", "f8")])["b"]
        self.same(hop.asarray(fields), fields)
        for bad in (
            numpy.zeros(2, dtype=">f8"),
            numpy.zeros(2, dtype=complex),
            numpy.array(["a"]),
            numpy.array([None]),
        ):
            with self.assertRaises(TypeError):
                hop.asarray(bad)
        with self.assertRaises(ValueError):
            hop.asarray(numpy.zeros((1,) * 33))

    @needs_numpy
    def test_every_dtype(self):
        for d in hop._dtypes.ALL:
            if d is not hop.bfloat16:
                a = numpy.array([0, 1, 1], dtype=d.name)
                self.same(hop.asarray(a), a)
                self.same(hop.asarray(a[::2]), a[::2])
                self.assertEqual(numpy.asarray(hop.asarray([0, 1], dtype=d)).dtype, a.dtype)

    @needs_numpy
    def test_mixed_operators(self):
        a = numpy.arange(3.0)
        x = hop.asarray(a)
        self.assertIsInstance(a + x, hop.Array)
        self.assertIsInstance(x * a, hop.Array)
        self.assertIsInstance(numpy.float64(2) * x, hop.Array)
        self.same(a - x, a - a)

    @needs_numpy
    def test_dlpack(self):
        a = numpy.arange(6, dtype="f4").reshape(2, 3)
        x = hop.from_dlpack(a)
        self.assertEqual(x._pointer, a.ctypes.data)
        self.same(hop.from_dlpack(a.T), a.T)
        self.assertTrue(numpy.shares_memory(numpy.from_dlpack(x), a))
        self.same(hop.from_dlpack(x[:, ::2]), a[:, ::2])
        self.assertEqual(x.__dlpack_device__(), (1, 0))
        old = x.__dlpack__()
        self.same(hop.from_dlpack(type("Old", (), {"__dlpack__": lambda self: old})()), a)
        with self.assertRaises(TypeError):
            hop._core.from_dlpack(old)
        bf = hop.from_dlpack(hop.asarray([1.5], dtype=hop.bfloat16))
        self.equal(bf, [1.5], hop.bfloat16)

    def test_buffers(self):
        data = bytearray(b"\1\2\3")
        x = hop.asarray(data)
        data[0] = 9
        self.equal(x, [9, 2, 3], hop.uint8)
        view = memoryview(hop.asarray([[1, 2], [3, 4]], dtype=hop.int32)[:, 1])
        self.assertEqual((view.tolist(), view.format, view.strides), ([2, 4], "i", (8,)))
        with self.assertRaises(BufferError):
            memoryview(hop.zeros(1, dtype=hop.bfloat16))
        self.equal(hop.asarray(b"ab"), [97, 98])


class Indexing(Case):
    @needs_numpy
    def test_like_numpy(self):
        a = numpy.arange(60.0).reshape(3, 4, 5)
        x = hop.asarray(a)
        i, j = numpy.array([0, 2, -1]), numpy.array([[1], [3]])
        mask = a[:, :, 0] % 3 == 0
        keys = [
            0, -1, (0, 1), (0, 1, 2), (Ellipsis, 2), slice(1, None), (slice(None), slice(None, None, -1)),
            (slice(10, 0, -2),), (None, 0), (Ellipsis, None), (0, Ellipsis, None, slice(1, 3)), slice(5, 2),
            slice(-2, None), (slice(None, None, 2), slice(3, None, -1), slice(0, 0)), (), Ellipsis, i, (i, i),
            (slice(None), i), (i, slice(None), i), (slice(None), j, i), (i, j), (0, slice(None), i), (i, 0),
            (i, None, i), mask, (mask, 0), (slice(None), a[0, :, 0] > 5), a > 30, a[0, 0, 0] == 0,
            (i, Ellipsis), [0, 1], (slice(None), [0, 3], [1, 1]), numpy.int64(1),
        ]  # fmt: skip
        for key in keys:
            expected = numpy.asarray(a[key])
            self.same(x[key], expected)
            traced = hop.jit(lambda v, key=key: v[key])(x)
            self.same(traced, expected)

    @needs_numpy
    def test_updates_like_numpy(self):
        rng = random.Random(1)
        a = numpy.arange(24.0).reshape(2, 3, 4)
        i = numpy.array([0, 2, -1])
        keys = [
            0,
            (0, 1),
            (Ellipsis, 2),
            slice(1, None),
            (slice(None), slice(None, None, -2)),
            (1, slice(0, 2), -1),
            (slice(None), i),
            (0, i),
            (slice(None), slice(0, 2), i),
            (abs(i) // 2, Ellipsis, i),
            a > 11,
            a[:, :, 0] > 3,
            (None, 1),
        ]
        updates = {
            "set": None, "add": numpy.add, "mul": numpy.multiply, "min": numpy.minimum, "max": numpy.maximum,
        }
        for key in keys:
            for mode, combine in updates.items():
                value = rng.choice([7.0, 2, numpy.asarray(a[key]) * 0 + 3.5])
                expected = a.copy()
                if combine is None:
                    expected[key] = value
                else:
                    combine.at(expected, key, value)
                self.same(getattr(hop.asarray(a).at[key], mode)(value), expected)
                self.same(
                    hop.jit(lambda v, key=key, mode=mode, value=value: getattr(v.at[key], mode)(value))(
                        hop.asarray(a)
                    ),
                    expected,
                )
        self.same(hop.asarray(a), a)

    def test_assignment(self):
        x = hop.zeros((2, 2))
        y = x + 0
        z = x[0]
        x[0, 1] = 5
        x[1] += 2.0
        self.equal(x, [[0, 5], [2, 2]])
        self.equal(z, [0, 0])
        self.equal(y, [[0, 0], [0, 0]])

        @hop.jit
        def f(v):
            v[1:] = v[:-1] * 2
            return v

        self.equal(f(hop.asarray([1.0, 1.0, 1.0])), [1, 2, 2])

    def test_in_place_operators(self):
        x = y = hop.asarray([1.0, 2.0])
        x += 1
        x *= 3
        x **= 2
        self.equal(x, [36, 81])
        self.equal(y, [1, 2])

    def test_traced_indices(self):
        x = hop.arange(5)
        self.equal(hop.jit(lambda v, i: v[i])(x, hop.asarray(-2)), 3)
        self.equal(hop.jit(lambda v, i: v.at[i].set(9))(x, hop.asarray(-1)), [0, 1, 2, 3, 9])
        self.equal(hop.jit(lambda v: v[v > 2].sum())(x), 7)
        self.equal(hop.jit(lambda v, m: v.at[m].set(0))(x, x > 2), [0, 1, 2, 0, 0])

    def test_beyond_the_end(self):
        x = hop.arange(3)
        self.equal(x[hop.asarray([5])], [2])
        self.equal(x.at[hop.asarray([5])].set(7), [0, 1, 2])
        for bad in (3, -4, (0, 0), (Ellipsis, Ellipsis), 1.5, hop.asarray([1.0]), hop.asarray([True, False])):
            with self.assertRaises(IndexError, msg=repr(bad)):
                x[bad]

    def test_iteration(self):
        self.assertEqual([r.tolist() for r in hop.asarray([[1, 2], [3, 4]])], [[1, 2], [3, 4]])
        self.assertIn(2, hop.arange(3))
        with self.assertRaises(TypeError):
            iter(hop.asarray(1))


class Files(Case):
    def test_round_trip(self):
        import os
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            for name in ("a.npz", "a.safetensors"):
                path = os.path.join(folder, name)
                hop.save(path, {"x": hop.arange(3), "y": hop.ones((2, 2))})
                back = hop.load(path)
                self.equal(back["x"], [0, 1, 2], hop.int64)
                self.equal(back["y"], [[1, 1], [1, 1]], hop.float32)
            hop.save(os.path.join(folder, "b.npy"), hop.arange(2))
            self.equal(hop.load(os.path.join(folder, "b.npy")), [0, 1])
            with self.assertRaises(OSError):
                hop.load(os.path.join(folder, "missing.npy"))


class Numbers(Case):
    def test_alone(self):
        """A Python number alone is float32 where a real number comes out, whole or not: x / hop.sqrt(d)
        stays what x is."""
        for f in (
            hop.sqrt,
            hop.exp,
            hop.log,
            hop.log10,
            hop.tanh,
            hop.sigmoid,
            hop.rsqrt,
            lambda x: hop.divide(x, 3),
            lambda x: hop.hypot(x, 3),
            lambda x: hop.atan2(x, 3),
        ):
            for g in (f, lambda x, f=f: hop.jit(lambda: f(x))()):
                self.assertEqual(g(2).dtype, hop.float32)
                self.equal(g(2), f(2.0).item())
        self.assertEqual((hop.ones(2) / hop.sqrt(64)).dtype, hop.float32)
        yes = hop.asarray(True)
        for f in (
            lambda: hop.maximum(0.5, 2),
            lambda: hop.add(1, 0.5),
            lambda: hop.where(yes, 0.5, 1),
            lambda: hop.where(yes, 1, 0.5),
            lambda: hop.where(True, 1, 0.5),
            lambda: hop.fma(2, 0.5, 1),
            lambda: hop.pow(2, 0.5),
            lambda: hop.clip(0.5, 0, 1),
        ):
            self.assertEqual((f().dtype, hop.jit(f)().dtype), (hop.float32, hop.float32))
            self.equal(hop.jit(f)(), f().item())
        self.assertEqual(hop.sqrt(hop.asarray(64)).dtype, hop.float32)
        self.equal(hop.abs(-2), 2, hop.int64)


if __name__ == "__main__":
    unittest.main()
