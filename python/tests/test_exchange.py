"""Memory in and out: what shares memory, what is copied, what is refused, who keeps whom alive. NumPy, the
buffer protocol, DLPack in both of its forms."""

import array
import ctypes
import gc
import sys
import unittest
import weakref

import hop
from support import Case, needs_numpy, numpy


class Old:
    """An array as a library from before DLPack 1.0 gives it out: no keywords."""

    def __init__(self, x):
        self.x = x

    def __dlpack__(self):
        return self.x.__dlpack__()

    def __dlpack_device__(self):
        return (1, 0)


@needs_numpy
class NumPy(Case):
    def test_read_only_memory(self):
        a = numpy.arange(6.0).reshape(2, 3)
        a.flags.writeable = False
        x = hop.asarray(a, copy=False)
        self.assertEqual(x._pointer, a.ctypes.data)
        for y in (x, x[0], x[:, ::-1], x.reshape((3, 2)), x.reshape((-1,)), x[...], +x):
            self.assertFalse(numpy.asarray(y).flags.writeable)
            self.assertTrue(memoryview(y).readonly)
            with self.assertRaises(BufferError):
                y.__dlpack__()
            self.assertFalse(numpy.from_dlpack(y).flags.writeable)
            with self.assertRaises((BufferError, TypeError)):
                ctypes.c_char.from_buffer(y)
        for y in (
            x + 0,
            hop.asarray(a, copy=True),
            x._copy(),
            hop.jit(lambda v: v)(a),
            hop.array(x),
            numpy.asarray(x).copy(),
        ):
            self.assertTrue(numpy.asarray(y).flags.writeable)
        f = hop.jit(lambda v: v * 2, donate_argnums=0)
        for _ in range(3):
            self.same(f(a), a * 2)
            self.same(f(hop.asarray(a)), a * 2)
            self.same(f(hop.asarray(a)[0]), a[0] * 2)
        x[0, 0] = 99.0  # x holds other elements from now on, a stays
        self.assertEqual((x[0, 0].item(), a[0, 0]), (99, 0))
        numpy.asarray(x)[0, 1] = 7
        self.assertEqual((x[0, 1].item(), a[0, 1]), (7, 1))
        self.equal(hop.asarray(b"\1\2\3"), [1, 2, 3], hop.uint8)
        self.assertTrue(memoryview(hop.asarray(b"\1\2")).readonly)

    def test_strides(self):
        a = numpy.arange(24, dtype="i4").reshape(2, 3, 4)
        for view in (
            a.T,
            a[:, ::-1],
            a[::-1, :, ::-2],
            a[:, 1],
            a[..., 0],
            numpy.asfortranarray(a),
            a.transpose(1, 0, 2),
            a[:0],
            a[:, :, :1],
            numpy.broadcast_to(a[0], (5, 3, 4)),
            numpy.lib.stride_tricks.sliding_window_view(a, 2, axis=2),
        ):
            x = hop.asarray(view)
            if view.size:
                self.assertEqual(x._pointer, view.ctypes.data)
            self.same(x, view)
            self.same(x * 2, view * 2)
            self.same(hop.jit(lambda v: v + 1)(view), view + 1)
            self.same(hop.asarray(view, copy=True), view)
            self.same(hop.from_dlpack(view), view)

    def test_what_is_refused(self):
        cases = {
            ">f4": "newbyteorder", ">i8": "newbyteorder", "c8": "complex", "c16": "complex",
            "O": "Python objects", "U3": "no numbers", "S3": "no numbers", "M8[s]": "datetime64[s]",
            "m8[s]": "timedelta64[s]", "f4,i4": "take one field", "g": "long double",
        }  # fmt: skip
        x = hop.ones(2)
        for dtype, text in cases.items():
            bad = numpy.zeros(2, dtype=dtype)
            for use in (
                hop.asarray,
                hop.jit(lambda v: v),
                lambda b: hop.asarray([b]),
                lambda b: hop.sum(b),
                lambda b: hop.vmap(lambda v: v)(b),
            ):
                with self.assertRaises(TypeError) as caught:
                    use(bad)
                self.assertIn(text, str(caught.exception))
            with self.assertRaises(TypeError):
                x + bad
        for good in (">f4", ">i8"):
            a = numpy.arange(2, dtype=good)
            self.equal(hop.asarray(a.astype(a.dtype.newbyteorder("="))), [0, 1])
        self.equal(hop.asarray(numpy.zeros(2, dtype="f4,i4")["f1"]), [0, 0], hop.int32)

    def test_scalars_and_lists(self):
        self.equal(hop.asarray(numpy.float32(1.5)), 1.5, hop.float32)
        self.equal(hop.asarray(numpy.float64(1.5)), 1.5, hop.float64)  # though it is a Python float too
        self.equal(hop.asarray([numpy.float64(1.5), 2]), [1.5, 2], hop.float64)
        self.equal(hop.asarray([numpy.int32(1), numpy.int32(2)]), [1, 2], hop.int32)
        self.equal(hop.ones(2) * numpy.float64(2), [2, 2], hop.float64)
        self.equal(hop.ones(2) * numpy.asarray(2.0), [2, 2], hop.float64)
        self.equal(hop.asarray([[numpy.arange(2), [5, 6]]]), [[[0, 1], [5, 6]]], hop.int64)
        self.equal(hop.asarray(numpy.bool_(True)), True, hop.bool)
        self.equal(hop.ones(2) * numpy.float32(2), [2, 2], hop.float32)
        self.equal(numpy.int32(2) + hop.ones(2, dtype=hop.int32), [3, 3], hop.int32)

    def test_out(self):
        x = hop.asarray([[1.0, 2.0], [3.0, 4.0]])
        self.assertEqual(numpy.asarray(x).ctypes.data, x._pointer)
        self.assertEqual(numpy.asarray(x[:, 1]).ctypes.data, x._pointer + 4)
        self.assertNotEqual(numpy.array(x).ctypes.data, x._pointer)
        self.assertEqual(numpy.asarray(x, dtype="f8").dtype, "f8")
        for f in (
            numpy.sum, numpy.mean, numpy.std, numpy.var, numpy.max, numpy.min, numpy.prod, numpy.argmax,
            numpy.ndim, numpy.shape, numpy.size, numpy.sort, numpy.cumsum, numpy.ravel, numpy.transpose,
            numpy.any, numpy.all,
        ):
            numpy.testing.assert_allclose(f(x), f(numpy.asarray(x)), rtol=1e-6, err_msg=f.__name__)
        self.assertEqual(numpy.stack([x, x]).shape, (2, 2, 2))
        numpy.testing.assert_array_equal(x, [[1, 2], [3, 4]])
        out = numpy.zeros((2, 2), dtype="f4")
        out[...] = x
        self.assertEqual(out.tolist(), x.tolist())
        self.assertEqual(numpy.asarray(hop.asarray(3)).shape, ())

    def test_bfloat16(self):
        x = hop.asarray([1.5, -2.0], dtype=hop.bfloat16)
        try:
            import ml_dtypes
        except ImportError:
            self.assertEqual((numpy.asarray(x).dtype, numpy.asarray(x).tolist()), ("float32", [1.5, -2.0]))
            return
        a = numpy.asarray(x)
        self.assertEqual((a.dtype, a.ctypes.data), (ml_dtypes.bfloat16, x._pointer))
        self.equal(hop.asarray(a), [1.5, -2.0], hop.bfloat16)
        self.equal(x + a, [3.0, -4.0], hop.bfloat16)
        self.equal(hop.jit(lambda v: v * 2)(a[::-1]), [-4.0, 3.0], hop.bfloat16)
        with self.assertRaisesRegex(TypeError, "float8_e4m3"):
            hop.asarray(numpy.zeros(2, dtype=ml_dtypes.float8_e4m3))

    def test_who_keeps_whom(self):
        class Kept(numpy.ndarray):
            pass

        def lend():
            a = numpy.arange(4.0).view(Kept)
            return a, weakref.ref(a)

        a, alive = lend()
        x = hop.asarray(a)
        del a
        parts = [
            x[1:],
            x.reshape((2, 2)),
            numpy.asarray(x),
            memoryview(x),
            hop.from_dlpack(x),
            x.__dlpack__(),
            numpy.from_dlpack(x),
            +x,
        ]
        del x
        while parts:
            gc.collect()
            self.assertIsNotNone(alive())
            last = parts.pop(0)
            if isinstance(last, hop.Array):
                self.equal(last[-1:].reshape((-1,))[-1:], [3])
            del last
        gc.collect()
        self.assertIsNone(alive())
        a, alive = lend()
        f = hop.jit(lambda v: v + a)  # a closure keeps it as long as the function lives
        self.equal(f(1.0), [1, 2, 3, 4])
        del a
        gc.collect()
        self.assertIsNotNone(alive())
        f.clear_cache()
        del f
        gc.collect()
        self.assertIsNone(alive())


class DLPack(Case):
    def test_hop_to_hop(self):
        for d in hop._dtypes.ALL:
            x = hop.asarray([[0, 1, 1], [1, 0, 1]], dtype=d)
            for part in (x, x[:, ::2], x[1], x[0, 0], x[:0]):
                for give in (part, Old(part)):
                    y = hop.from_dlpack(give)
                    self.assertEqual((y.tolist(), y.dtype, y.shape), (part.tolist(), d, part.shape))
                    if part.size:
                        self.assertEqual(y._pointer, part._pointer)

    def test_copies(self):
        x = hop.ones(3)
        self.assertEqual(hop.from_dlpack(x, copy=False)._pointer, x._pointer)
        self.assertNotEqual(hop.from_dlpack(x, copy=True)._pointer, x._pointer)
        self.assertNotEqual(hop.from_dlpack(Old(x), copy=True)._pointer, x._pointer)
        read_only = hop.asarray(b"\1\2\3")
        self.equal(hop.from_dlpack(read_only), [1, 2, 3], hop.uint8)
        self.assertNotEqual(hop.from_dlpack(read_only)._pointer, read_only._pointer)
        with self.assertRaises(BufferError):
            hop.from_dlpack(read_only, copy=False)
        self.equal(hop.from_dlpack(read_only, copy=True), [1, 2, 3])

    def test_arrays_that_are_elsewhere(self):
        here, asked = hop.ones(3), []

        class Elsewhere:
            """An array on a device, whose library copies it when it is asked for one in the memory of the
            CPU."""

            def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
                asked.append((dl_device, copy))
                if dl_device != (1, 0) or copy is False:
                    raise BufferError("it is elsewhere")
                return here.__dlpack__(max_version=max_version)

            def __dlpack_device__(self):
                return (2, 0)

        self.equal(hop.from_dlpack(Elsewhere(), device="cpu"), [1, 1, 1])
        for options in ({}, {"device": "cpu", "copy": False}):
            with self.assertRaises(BufferError):
                hop.from_dlpack(Elsewhere(), **options)
        self.assertEqual(asked, [((1, 0), None), (None, None), ((1, 0), False)])
        self.assertEqual(hop.from_dlpack(here, device="cpu")._pointer, here._pointer)
        self.assertEqual(hop.from_dlpack(Old(here), device="cpu")._pointer, here._pointer)

    def test_what_is_refused(self):
        x = hop.ones(2)
        for bad in (object(), 1, "text", x.__dlpack__()):
            with self.assertRaises(TypeError):
                hop.from_dlpack(bad)
        for options in ({"stream": 1}, {"dl_device": (2, 0)}):
            with self.assertRaises((ValueError, BufferError)):
                x.__dlpack__(**options)
        with self.assertRaises(ValueError):
            hop.from_dlpack(x, device="gpu")
        for versioned in ({}, {"max_version": (1, 0)}):
            capsule = x.__dlpack__(**versioned)
            hop._core.from_dlpack(capsule)
            with self.assertRaisesRegex(TypeError, "nobody has used"):
                hop._core.from_dlpack(capsule)
        with self.assertRaises(hop.TracerError):
            hop.jit(lambda v: hop.from_dlpack(v))(x)

    def test_lifetime(self):
        count = sys.getrefcount(hop.Array)
        for _ in range(100):
            x = hop.ones(100)
            capsules = [x.__dlpack__(), x.__dlpack__(max_version=(1, 1))]  # dropped unused
            y, z = hop.from_dlpack(x), hop.from_dlpack(Old(x))
            del x, capsules
            self.assertEqual(hop.sum(y).item() + hop.sum(z).item(), 200)
            del y
            self.assertEqual(hop.sum(z).item(), 100)
            del z
        gc.collect()
        self.assertLess(abs(sys.getrefcount(hop.Array) - count), 5)

    @needs_numpy
    def test_numpy(self):
        a = numpy.arange(6, dtype="f4").reshape(2, 3)
        x = hop.from_dlpack(a.T)
        self.assertEqual(x._pointer, a.ctypes.data)
        b = numpy.from_dlpack(x)
        del x
        gc.collect()
        a[0, 0] = 42
        self.assertEqual(b[0, 0], 42)
        frozen = a.copy()
        frozen.flags.writeable = False
        y = hop.from_dlpack(frozen)
        self.assertNotEqual(y._pointer, frozen.ctypes.data)
        self.same(y, frozen)
        with self.assertRaises((BufferError, ValueError)):
            hop.from_dlpack(frozen, copy=False)


class Buffers(Case):
    def test_in(self):
        numbers = array.array("d", [1, 2, 3])
        x = hop.asarray(numbers)
        numbers[0] = 9
        self.equal(x, [9, 2, 3], hop.float64)
        with self.assertRaises(BufferError):
            numbers.append(4)  # its memory is lent
        del x
        gc.collect()
        numbers.append(4)
        for code, d in (
            ("b", hop.int8),
            ("B", hop.uint8),
            ("h", hop.int16),
            ("H", hop.uint16),
            ("i", hop.int32),
            ("I", hop.uint32),
            ("l", hop.int64),
            ("L", hop.uint64),
            ("q", hop.int64),
            ("Q", hop.uint64),
            ("f", hop.float32),
        ):
            self.equal(hop.asarray(array.array(code, [0, 1])), [0, 1], d)
        self.equal(hop.asarray((ctypes.c_int32 * 3)(1, 2, 3)), [1, 2, 3], hop.int32)
        self.equal(
            hop.asarray(memoryview(bytearray(range(6))).cast("B", (2, 3))), [[0, 1, 2], [3, 4, 5]], hop.uint8
        )
        self.equal(hop.asarray(memoryview(b"abcdef")[::-2]), [102, 100, 98], hop.uint8)
        with self.assertRaises(TypeError):
            hop.asarray(array.array("u", "ab"))
        with self.assertRaises(ValueError):
            hop.asarray(memoryview(bytearray(1)).cast("B", (1,) * 33))

    def test_out(self):
        x = hop.asarray([[1, 2], [3, 4]], dtype=hop.int16)
        self.assertEqual(memoryview(x).tolist(), [[1, 2], [3, 4]])
        self.assertEqual(bytes(x), b"\1\0\2\0\3\0\4\0")
        self.assertEqual(bytes(x[:, 1]), b"\2\0\4\0")
        view = memoryview(x)
        view[0, 0] = 7  # the array's own memory
        self.equal(x, [[7, 2], [3, 4]])
        x[0, 0] = 1  # x holds other memory now
        self.assertEqual((view[0, 0], x[0, 0].item()), (7, 1))
        self.assertEqual(bytearray(hop.zeros((0, 3))), b"")
        self.assertEqual(memoryview(hop.asarray(True)).tolist(), True)
        with self.assertRaisesRegex(BufferError, "bfloat16"):
            memoryview(hop.ones(2, dtype=hop.bfloat16))
        with self.assertRaisesRegex(RuntimeError, "donated"):
            memoryview(_donated())

    def test_views_outlive_arrays(self):
        views = [memoryview(hop.full((1000,), k))[::7] for k in range(20)]
        gc.collect()
        junk = [hop.zeros(1000) for _ in range(20)]
        self.assertEqual([v[3] for v in views], list(range(20)))
        del junk


def _donated():
    x = hop.ones(2)
    hop.jit(lambda v: v + 1, donate_argnums=0)(x)
    return x


if __name__ == "__main__":
    unittest.main()
