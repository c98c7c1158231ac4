"""hop.operator(c=…): functions of C as operators: pointers of ctypes and cffi, addresses; what they get,
failures, threads. The C is compiled here, with the header of the library where it needs that."""

import ctypes
import gc
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import types
import unittest
import weakref

import numpy as np

import hop

COMPILER = os.environ.get("CC", "").split()[-1:] or [x for x in ("cc", "gcc", "clang") if shutil.which(x)][:1]
INCLUDE = pathlib.Path(__file__).resolve().parents[2] / "include"
SOURCE = r"""
#include <hop/hop.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* scaled(x: f32[N], k: f32[]) -> f32[N], with nothing but what it is given */
int scaled(void *call, void *const *arrays, const int64_t *sizes)
{
    const float *x = arrays[0], *k = arrays[1];
    float *y = arrays[2];
    (void)call;
    for (int64_t i = 0; i < sizes[0]; i++) y[i] = x[i] * *k;
    return 0;
}

/* push(mut s: f32[S], x: f32[]) -> f32[]: moves x in front, gives what falls out */
int push(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    float *s = arrays[0];
    (void)call;
    *(float *)arrays[2] = s[sizes[0] - 1];
    memmove(s + 1, s, (size_t)(sizes[0] - 1) * sizeof *s);
    s[0] = *(const float *)arrays[1];
    return 0;
}

/* spread(mut a: f32[N], mut b: f32[M]): each element of a and then of b is added to the one behind it */
int spread(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    for (int k = 0; k < 2; k++) {
        float *x = arrays[k];
        const int64_t step = call->arrays[k].strides ? call->arrays[k].strides[0] : 1;
        for (int64_t i = 1; i < sizes[k]; i++) x[i * step] += x[(i - 1) * step];
    }
    return 0;
}

/* positive(x: f32[N]) -> f32[?k] */
int positive(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    const float *x = arrays[0];
    int64_t n = 0;
    for (int64_t i = 0; i < sizes[0]; i++) n += x[i] > 0;
    float *y = call->result(call, 0, &n);
    if (!y) return HOP_NOMEM;
    for (int64_t i = 0, k = 0; i < sizes[0]; i++)
        if (x[i] > 0) y[k++] = x[i];
    return 0;
}

/* root(x: f64[]) -> f64[] */
int root(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    const double x = *(const double *)arrays[0];
    (void)sizes;
    if (x < 0) {
        snprintf(call->message, call->room, "expected at least 0, found %g", x);
        return HOP_INVALID;
    }
    *(double *)arrays[1] = sqrt(x);
    return 0;
}

/* counted(x: f32[]) -> f32[]; user: a counter */
int counted(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    (void)sizes;
    ++*(int64_t *)call->user;
    *(float *)arrays[1] = *(const float *)arrays[0];
    return 0;
}

/* total(x: f32[N]) -> f32[], over lanes at once */
int total(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    const int64_t *dims = call->arrays[0].dims;
    const int64_t lanes = call->lanes ? dims[0] : 1;
    for (int64_t lane = 0; lane < lanes; lane++) {
        float sum = 0;
        for (int64_t i = 0; i < sizes[0]; i++) sum += ((const float *)arrays[0])[lane * sizes[0] + i];
        ((float *)arrays[1])[lane] = sum;
    }
    return 0;
}

/* meddles(x: f32[N]) -> f32[]: writes to what it must not */
int meddles(void *call, void *const *arrays, const int64_t *sizes)
{
    (void)call;
    (void)sizes;
    *(float *)arrays[1] = ((float *)arrays[0])[0];
    ((float *)arrays[0])[0] += 1;
    return 0;
}
"""


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not COMPILER:
            raise AssertionError("there is no C compiler: expected cc, gcc or clang")
        cls.folder = tempfile.TemporaryDirectory()
        source, library = os.path.join(cls.folder.name, "f.c"), os.path.join(cls.folder.name, "f.so")
        with open(source, "w") as out:
            out.write(SOURCE)
        subprocess.run(
            [*COMPILER, "-O1", "-shared", "-fPIC", f"-I{INCLUDE}", source, "-o", library, "-lm"], check=True
        )
        cls.lib = ctypes.CDLL(library)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def operator(self, signature, **options):
        name = signature.partition("(")[0]
        return hop.operator(signature, c=getattr(self.lib, name), **options)


class Calls(Case):
    def test_everywhere(self):
        scaled = self.operator("scaled(x: f32[N], k: f32[]) -> f32[N]")
        f = lambda x: scaled(x, 3) + 1
        x = hop.asarray([1.0, 2.0])
        for call in (f, hop.jit(f), hop.jit(f, portable=True), hop.jit(lambda x: hop.jit(f)(x))):
            self.assertEqual(call(x).tolist(), [4.0, 7.0])
        self.assertEqual(hop.vmap(f)(hop.stack([x, x])).tolist(), [[4.0, 7.0]] * 2)
        self.assertEqual(
            hop.scan(lambda c, _: (scaled(c, 2), None), x, None, length=3)[0].tolist(), [8.0, 16.0]
        )
        for n in (3, 4, 5):
            self.assertEqual(hop.jit(f)(hop.ones(n)).tolist(), [4.0] * n)

    def test_pointers(self):
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        address = ctypes.cast(self.lib.scaled, ctypes.c_void_p).value
        numbas = types.SimpleNamespace(address=address)
        for c in (self.lib.scaled, kind(("scaled", self.lib)), address, ctypes.c_void_p(address), numbas):
            op = hop.operator("(x: f32[N], k: f32[]) -> f32[N]", c=c, name="pointed")
            self.assertEqual(hop.jit(lambda x: op(x, 2.0))(hop.ones(2)).tolist(), [2.0, 2.0])

        @kind
        def of_python(call, arrays, sizes):
            n = ctypes.cast(sizes, ctypes.POINTER(ctypes.c_int64))[0]
            data = ctypes.cast(arrays, ctypes.POINTER(ctypes.POINTER(ctypes.c_float)))
            for i in range(n):
                data[1][i] = 5 * data[0][i]
            return 0

        op = hop.operator("(x: f32[N]) -> f32[N]", c=of_python, name="pointed_back")
        self.assertEqual(hop.jit(lambda x: op(x))(hop.ones(2)).tolist(), [5.0, 5.0])

    def test_cffi(self):
        try:
            import cffi
        except ImportError:
            self.skipTest("cffi is not installed")
        ffi = cffi.FFI()
        ffi.cdef("int scaled(void *, void **, int64_t *);")
        lib = ffi.dlopen(self.lib._name)
        op = hop.operator("(x: f32[N], k: f32[]) -> f32[N]", c=ffi.addressof(lib, "scaled"), name="of_cffi")
        self.assertEqual(op(hop.ones(2), 2.0).tolist(), [2.0, 2.0])

    def test_wrong_pointers(self):
        for c in (0, -1, 1.5, "scaled", None.__class__, ctypes.c_void_p(0)):
            with self.assertRaisesRegex(hop.InvalidError, "operator: c"):
                hop.operator("(x: f32[]) -> f32[]", c=c, name="wrong_pointer")
        with self.assertRaisesRegex(hop.InvalidError, "needs a name"):
            hop.operator("(x: f32[]) -> f32[]", c=self.lib.scaled)
        with self.assertRaisesRegex(hop.InvalidError, "not both"):
            hop.operator("f(x: f32[]) -> f32[]", np.sin, c=self.lib.scaled)

    def test_mutation(self):
        push = self.operator("push(mut s: f32[S], x: f32[]) -> f32[]")
        s = hop.asarray([1.0, 2.0, 3.0])
        self.assertEqual((push(s, 9.0).item(), s.tolist()), (3.0, [9.0, 1.0, 2.0]))

        @hop.jit
        def delayed(xs):
            line = hop.zeros(2)
            return hop.scan(lambda c, x: (c, push(line, x)), 0.0, xs)[1], line

        out, line = delayed(hop.asarray([1.0, 2.0, 3.0, 4.0]))
        self.assertEqual((out.tolist(), line.tolist()), ([0.0, 0.0, 1.0, 2.0], [4.0, 3.0]))

    def test_parts(self):
        signature = "spread(mut a: f32[N], mut b: f32[M])"

        def spread(*parts):
            for x in parts:
                np.add.accumulate(x, out=x)

        slices = [np.s_[0:4], np.s_[2:], np.s_[:], np.s_[::2], np.s_[1::3]]
        for strided in (False, True):
            op = self.operator(signature, strided=strided)
            for a in slices if strided else slices[:3]:
                for b in slices if strided else slices[:3]:
                    x = np.arange(1, 9, dtype=np.float32)

                    def f(y):
                        y = y + 0
                        op(y.at[a], y.at[b])
                        return y

                    y = hop.asarray(x.copy())
                    spread(x[a], x[b])
                    for call in (f, hop.jit(f), hop.jit(f, portable=True), hop.jit(f).lower(y).function):
                        np.testing.assert_array_equal(call(y), x, f"{strided} {a} {b}")
            lowered = hop.jit(f).lower(y)
            self.assertIn("copies: 0\n", lowered.explain())
            self.assertNotIn("slice", lowered.function.text())
            self.check_table(op, strided)

    def check_table(self, op, strided):
        def f(a, b):
            def changed(t):
                op(t.at[a], t.at[b])
                return t

            return changed

        for a, b, needs_strides, wanted in (
            (np.s_[:, 0], np.s_[1], True, [[1.0, 1.0, 1.0], [2.0, 3.0, 4.0]]),
            (np.s_[:, 0], np.s_[:, 2], False, [[1.0, 1.0, 1.0], [2.0, 1.0, 2.0]]),
            (np.s_[1, 1:], np.s_[1], False, [[1.0, 1.0, 1.0], [1.0, 2.0, 4.0]]),
        ):
            for call in (f(a, b), hop.jit(f(a, b))):
                if strided or not needs_strides:
                    self.assertEqual(call(hop.ones((2, 3))).tolist(), wanted)
                    continue
                said = r"spread': a, .at\[:, 0\], and b, .at\[1\], overlap: .* row by row"
                with self.assertRaisesRegex(hop.InvalidError, said):
                    call(hop.ones((2, 3)))

    def test_sizes_that_are_found(self):
        positive = self.operator("positive(x: f32[N]) -> f32[?k]")
        for call in (positive, hop.jit(lambda x: positive(x) * 1)):
            self.assertEqual(call(hop.asarray([1.0, -1.0, 2.0])).tolist(), [1.0, 2.0])

    def test_failures(self):
        root = self.operator("root(x: f64[]) -> f64[]", effect="check")
        f = hop.jit(lambda x: hop.fori_loop(0, 3, lambda i, c: root(c) - 1, x))
        self.assertAlmostEqual(f(1e6).item(), ((1e3 - 1) ** 0.5 - 1) ** 0.5 - 1, 9)
        with self.assertRaisesRegex(
            hop.InvalidError, "test_operator_c.py:.*root: expected at least 0, found -1"
        ):
            f(0.0)
        with self.assertRaisesRegex(hop.InvalidError, "expected at least 0, found -4"):
            root(-4.0)

    def test_user(self):
        count = ctypes.c_int64(0)
        counted = self.operator("counted(x: f32[]) -> f32[]", user=ctypes.addressof(count), effect="io")
        hop.jit(lambda x: hop.fori_loop(0, 5, lambda i, c: counted(c), x))(1.0)
        self.assertEqual(count.value, 5)

    def test_lanes(self):
        total = self.operator("total(x: f32[N]) -> f32[]", lanes="together")
        self.assertEqual(hop.vmap(total)(hop.asarray([[1.0, 2.0], [3.0, 4.0]])).tolist(), [3.0, 7.0])

    def test_rules(self):
        scaled = self.operator("scaled(x: f32[N], k: f32[]) -> f32[N]")
        scaled.defvjp(lambda x, k: (scaled(x, k), (x, k)), lambda n, g: (n[1] * g, hop.sum(n[0] * g)))
        hop.check_grads(lambda x, k: hop.sum(scaled(x, k) ** 2), (hop.asarray([0.5, 1.0]), 0.7), order=1)
        self.assertEqual(hop.check_operator(scaled, (hop.asarray([0.5, 1.0]), 0.7)).failed, {})

    def test_checks(self):
        meddles = self.operator("meddles(x: f32[N]) -> f32[]")
        with self.assertRaisesRegex(hop.OperatorError, "a call writes to x, which is not mut"):
            hop.check_operator(meddles, (hop.ones(3),), tests="mutation")

    def test_threads_and_lifetimes(self):
        scaled = self.operator("scaled(x: f32[N], k: f32[]) -> f32[N]")
        f = hop.jit(lambda x: hop.fori_loop(0, 1000, lambda i, c: scaled(c, 1.0), x))
        f(hop.ones(10))
        failed = []

        def run(k):
            if f(hop.ones(10) * k).tolist() != [k] * 10:
                failed.append(k)

        threads = [threading.Thread(target=run, args=(float(k),)) for k in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(failed, [])
        gone = weakref.ref(scaled)
        del scaled, f
        gc.collect()
        self.assertIsNone(gone())


if __name__ == "__main__":
    unittest.main()
