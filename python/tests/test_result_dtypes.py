"""Products and sums in a dtype of their own: all pairs of small numbers against wide arithmetic, every way to
spell it, derivatives in the operands' dtypes, autocast, and what is refused."""

import itertools
import re
import unittest

import hop
from support import Case, needs_numpy, numpy

WHOLE = [hop.int8, hop.uint8, hop.int16, hop.int32, hop.int64, hop.uint32]


def spellings(x, y, d):
    """The product of a matrix and a matrix in dtype d, in every way there is."""
    return {
        "matmul": hop.matmul(x, y, dtype=d),
        "preferred": hop.matmul(x, y, preferred_element_type=d),
        "dot": hop.dot(x, y, dtype=d),
        "einsum": hop.einsum("ij,jk->ik", x, y, dtype=d),
        "einsum preferred": hop.einsum("ij,jk->ik", x, y, preferred_element_type=d),
        "tensordot": hop.tensordot(x, y, axes=1, dtype=d),
        "inner": hop.inner(x, y.T, dtype=d),
        "inner preferred": hop.inner(x, y.T, preferred_element_type=d),
        "vdot": hop.stack([hop.stack([hop.vdot(r, c, preferred_element_type=d) for c in y.T]) for r in x]),
        "linalg": hop.linalg.matmul(x, y, preferred_element_type=d),
        "tensordot of lists": hop.tensordot(x, y, axes=([1], [0]), preferred_element_type=d),
        "vecdot": hop.vecdot(hop.expand_dims(x, axis=1), y.T, dtype=d),
        "dot_general": hop.dot_general(x, y, (((1,), (0,)), ((), ())), preferred_element_type=d),
        "sum": hop.sum(hop.expand_dims(x.astype(d), axis=2) * y.astype(d), axis=1, dtype=d),
    }


class OfArrays(Case):
    def equal(self, x, expected, dtype):
        super().equal(x, numpy.asarray(expected).tolist(), dtype)


@needs_numpy
class Integers(OfArrays):
    def test_all_pairs_of_bytes(self):
        """Each product of two bytes, alone and added up over all: exact in int32."""
        for left, right in itertools.product(("int8", "uint8"), repeat=2):
            a = numpy.arange(256).astype(left)
            b = numpy.arange(256).astype(right)
            wide = numpy.outer(a.astype(numpy.int64), b.astype(numpy.int64))
            x, y = hop.asarray(a), hop.asarray(b)
            column, row = x.reshape((256, 1)), y.reshape((1, 256))
            for run in (lambda f: f, hop.jit):
                each = run(lambda x, y: hop.matmul(x, y, dtype=hop.int32))(column, row)
                self.equal(each, wide.astype(numpy.int32), hop.int32)
                rolled = hop.stack([hop.roll(y, i) for i in range(0, 256, 17)])
                found = run(lambda x, y: hop.einsum("k,jk->j", x, y, dtype=hop.int32))(x, rolled)
                expected = numpy.array(rolled).astype(numpy.int64) @ a.astype(numpy.int64)
                self.equal(found, expected.astype(numpy.int32), hop.int32)

    def test_extremes_do_not_wrap(self):
        for n, (p, q) in itertools.product((1, 7, 8, 31, 64, 200), itertools.product((-128, 127), repeat=2)):
            x = hop.full((3, n), p, dtype=hop.int8)
            y = hop.full((n, 5), q, dtype=hop.int8)
            for run in (lambda f: f, hop.jit):
                found = run(lambda x, y: hop.matmul(x, y, dtype=hop.int32))(x, y)
                self.equal(found, numpy.full((3, 5), n * p * q), hop.int32)
                self.equal(run(lambda x: hop.sum(x, dtype=hop.int32))(x), 3 * n * p, hop.int32)

    def test_spellings_and_dtypes(self):
        draw = numpy.random.default_rng(1)
        for left, right, d in itertools.product(WHOLE, WHOLE, WHOLE):
            a = draw.integers(0, 100, (3, 4)).astype(left.name)
            b = draw.integers(0, 100, (4, 2)).astype(right.name)
            expected = (a.astype(numpy.int64) @ b.astype(numpy.int64)).astype(d.name)
            for name, found in spellings(hop.asarray(a), hop.asarray(b), d).items():
                with self.subTest(name, left=left, right=right, dtype=d):
                    self.equal(found, expected, d)

    def test_strict_and_default_agree(self):
        draw = numpy.random.default_rng(2)
        for rows, n, columns in ((1, 100, 1), (5, 33, 9), (40, 64, 40)):
            a = draw.integers(-128, 128, (rows, n)).astype("int8")
            b = draw.integers(-128, 128, (columns, n)).astype("int8")
            expected = a.astype(numpy.int32) @ b.astype(numpy.int32).T
            for strict in (False, True):
                f = hop.jit(lambda a, b: hop.einsum("ik,jk->ij", a, b, dtype="int32"), strict=strict)
                self.equal(f(hop.asarray(a), hop.asarray(b)), expected, hop.int32)
                g = hop.jit(lambda a, b: hop.matmul(a, b, dtype="int32"), strict=strict)
                self.equal(g(hop.asarray(a), hop.asarray(b).T), expected, hop.int32)


    def test_bytes_are_multiplied_in_16_bits(self):
        """Vectors of 32-bit integers are multiplied slowly, and products of bytes need no more than 16."""
        x = hop.ones((8, 256), dtype=hop.int8)
        along_rows = hop.jit(lambda x: hop.einsum("ik,jk->ij", x, x, dtype="int32"))
        along_columns = hop.jit(lambda x: hop.einsum("ik,ij->kj", x, x[:, :32], dtype="int32"))
        for f, x in ((along_rows, x), (along_columns, x[:, :64])):
            code = f.lower(x).emit("llvm")
            self.assertRegex(code, r"mul (?:n[us]w )*<\d+ x i16>|pmadd")
            self.assertNotRegex(code, r"mul (?:n[us]w )*<\d+ x i32>")

    def test_the_processors_dot_products(self):
        """Rows of bytes: x86 has an instruction for products of 16 bits and the sums of neighbours, or one
        that adds these up as well. LLVM makes the second of the first where the processor has it."""
        try:
            with open("/proc/cpuinfo") as f:
                able = " avx2 " in f.read()
        except OSError:
            able = False
        if not able:
            self.skipTest("the processor has no such instruction")
        for left, right in itertools.product((hop.int8, hop.uint8), repeat=2):
            x, y = hop.ones((8, 256), dtype=left), hop.ones((8, 256), dtype=right)
            f = hop.jit(lambda x, y: hop.einsum("ik,jk->ij", x, y, dtype="int32"))
            code = f.lower(x, y).emit("asm")
            self.assertGreater(len(re.findall(r"\bvpmaddwd\b|\bvpdpwssd\b", code)), 0, code)
            self.assertEqual(len(re.findall(r"\bvpmulld\b|\bvpmullw\b", code)), 0, code)

    def test_products_that_wrapped_stay_so(self):
        """255 * 255 in 16 bits is -511 with a sign, -128 * -128 + … without one stays below 2^16."""

        def squares(x, d):
            return hop.jit(lambda x: hop.sum(x.astype(d) * x.astype(d), axis=1, dtype=hop.int32))(x)

        for n in (16, 64, 200):
            x = hop.full((3, n), 255, dtype=hop.uint8)
            y = hop.full((3, n), -128, dtype=hop.int8)
            self.equal(squares(x, hop.int16), [-511 * n] * 3, hop.int32)
            self.equal(squares(x, hop.uint16), [65025 * n] * 3, hop.int32)
            self.equal(squares(y, hop.uint16), [16384 * n] * 3, hop.int32)


@needs_numpy
class Floats(OfArrays):
    def test_bfloat16_in_float32(self):
        """Products of two bfloat16 are exact in float32; a sum of few that have the same size is, too."""
        draw = numpy.random.default_rng(3)
        a, b = draw.integers(-256, 257, (6, 40)), draw.integers(-256, 257, (40, 7))
        x, y = hop.asarray(a, dtype=hop.bfloat16), hop.asarray(b, dtype=hop.bfloat16)
        for found in spellings(x, y, hop.float32).values():
            self.equal(found, (a @ b).astype(numpy.float32), hop.float32)

    def test_rounded_once(self):
        x = hop.asarray([16777216.0, 1.0, 1.0], dtype=hop.float64)
        self.equal(hop.sum(x, dtype=hop.float32), 16777218.0, hop.float32)
        one = hop.ones(3, dtype=hop.float64)
        self.equal(hop.matmul(x, one, dtype=hop.float32), 16777218.0, hop.float32)
        self.equal(hop.einsum("i,i,i->", x, one, one, dtype=hop.float32), 16777218.0, hop.float32)

    def test_cotangents_have_the_operands_dtypes(self):
        draw = numpy.random.default_rng(4)
        a, b = draw.integers(-4, 5, (3, 5)), draw.integers(-4, 5, (5, 2))
        w = draw.integers(-4, 5, (3, 2)).astype(numpy.float32)
        for left, right in itertools.product((hop.bfloat16, hop.float16, hop.float32), repeat=2):
            x, y = hop.asarray(a, dtype=left), hop.asarray(b, dtype=right)

            def loss(x, y):
                return hop.sum(hop.matmul(x, y, dtype=hop.float32) * w)

            gx, gy = hop.grad(loss, argnums=(0, 1))(x, y)
            self.equal(gx, w @ b.T, left)
            self.equal(gy, a.T @ w, right)
            value, tangent = hop.jvp(loss, (x, y), (x, y))
            self.equal(tangent, 2 * float(value), hop.float32)

    def test_gradients_against_differences(self):
        draw = numpy.random.default_rng(5)
        x = hop.asarray(draw.normal(size=(3, 4)), dtype=hop.float64)
        y = hop.asarray(draw.normal(size=(4, 2)), dtype=hop.float32)
        hop.check_grads(lambda x: hop.matmul(x, y, dtype=hop.float64), (x,), 2)
        hop.check_grads(lambda x: hop.einsum("ij,jk,il->kl", x, y, x, dtype=hop.float64), (x,), 2)
        z = x.astype(hop.float32)
        for fold in (hop.sum, hop.prod):
            value = hop.grad(lambda z: fold(z, dtype=hop.float64))(z)
            wide = hop.grad(lambda z: fold(z))(z.astype(hop.float64))
            self.equal(value, numpy.array(wide).astype(numpy.float32), hop.float32)

    def test_vmap(self):
        draw = numpy.random.default_rng(6)
        a, b = draw.integers(-128, 128, (4, 3, 5)), draw.integers(-128, 128, (4, 5, 2))
        x, y = hop.asarray(a, dtype=hop.int8), hop.asarray(b, dtype=hop.int8)

        def product(x, y):
            return hop.matmul(x, y, dtype=hop.int32), hop.sum(x, axis=0, dtype=hop.int16)

        found, sums = hop.vmap(product)(x, y)
        self.equal(found, a @ b, hop.int32)
        self.equal(sums, a.sum(1), hop.int16)
        self.equal(hop.vmap(product, in_axes=(None, 0))(x[0], y)[0], a[0] @ b, hop.int32)

    def test_autocast(self):
        """The mode says what operands are taken in, the dtype what comes out."""
        a = numpy.array([[1.0, 1.0 + 2.0**-10]], dtype=numpy.float32)  # the second is 1 in bfloat16
        x = hop.asarray(a)
        with hop.autocast(hop.bfloat16):
            self.equal(hop.matmul(x, x.T, dtype=hop.float32), [[2.0]], hop.float32)
            self.equal(hop.einsum("ij,kj->ik", x, x, dtype=hop.float32), [[2.0]], hop.float32)
            self.assertIs(hop.matmul(x, x.T).dtype, hop.bfloat16)
            f = hop.jit(lambda x: hop.matmul(x, x.T, dtype=hop.float32))
            self.equal(f(x), [[2.0]], hop.float32)
            low = x.astype(hop.bfloat16)
            self.assertIs(hop.sum(low, dtype=hop.bfloat16).dtype, hop.bfloat16)


@needs_numpy
class Running(OfArrays):
    """Running values and statistics in a dtype of their own."""

    def test_against_numpy(self):
        draw = numpy.random.default_rng(7)
        names = [d.name for d in WHOLE] + ["float16", "float32", "float64"]
        pairs = ((hop.cumulative_sum, numpy.cumsum), (hop.cumulative_prod, numpy.cumprod))
        for (ours, theirs), left, right in itertools.product(pairs, names, names):
            if left.startswith("float") and not right.startswith("float"):
                continue
            a = draw.integers(0, 4, (3, 5)).astype(left)
            for axis, run in itertools.product((0, 1), (lambda f: f, hop.jit)):
                with self.subTest(theirs.__name__, left=left, right=right, axis=axis):
                    found = run(lambda x: ours(x, axis=axis, dtype=right))(hop.asarray(a))
                    expected = theirs(a.astype("float64"), axis=axis).astype(right)
                    self.equal(found, expected, getattr(hop, right))

    def test_statistics(self):
        a = numpy.random.default_rng(8).integers(-100, 100, (4, 8)).astype("int8")
        pairs = ((hop.mean, numpy.mean), (hop.var, numpy.var), (hop.std, numpy.std))
        for (ours, theirs), left, right in itertools.product(
            pairs, ("int8", "float16", "float32"), ("float32", "float64")
        ):
            for axis, keepdims in itertools.product((None, 0, (0, 1)), (False, True)):
                found = ours(hop.asarray(a.astype(left)), axis=axis, dtype=right, keepdims=keepdims)
                expected = theirs(a.astype("float64"), axis=axis, keepdims=keepdims).astype(right)
                self.assertIs(found.dtype, getattr(hop, right))
                self.assertEqual(found.shape, expected.shape)
                numpy.testing.assert_allclose(numpy.array(found), expected, rtol=1e-6)

    def test_running_values_are_rounded_once_each(self):
        x = hop.asarray([16777216.0, 1.0, 1.0, 1.0, 1.0], dtype=hop.float64)
        for run in (lambda f: f, hop.jit):
            found = run(lambda x: hop.cumulative_sum(x, dtype=hop.float32))(x)
            self.equal(found, [16777216.0, 16777216.0, 16777218.0, 16777220.0, 16777220.0], hop.float32)
        self.equal(hop.mean(x, dtype=hop.float16), float("inf"), hop.float16)
        y = hop.asarray([60000.0, 60000.0], dtype=hop.float16)
        self.equal(hop.mean(y, dtype=hop.float16), 60000.0, hop.float16)

    def test_no_copy_of_the_operand(self):
        """Elements are brought to the dtype as they are read: nothing of the operand's size is stored."""
        x = hop.ones((64, 128), dtype=hop.float16)
        calls = {
            "cumsum": lambda x, axis: hop.cumulative_sum(x, axis=axis, dtype=hop.float64),
            "cumprod": lambda x, axis: hop.cumulative_prod(x, axis=axis, dtype=hop.float32),
            "mean": lambda x, axis: hop.mean(x, axis=axis, dtype=hop.float64),
            "var": lambda x, axis: hop.var(x, axis=axis, dtype=hop.float64),
            "std": lambda x, axis: hop.std(x, axis=axis, dtype=hop.float32),
            "sum": lambda x, axis: hop.sum(x, axis=axis, dtype=hop.float64),
        }
        for (name, f), axis in itertools.product(calls.items(), (0, 1)):
            with self.subTest(name, axis=axis):
                told = hop.jit(lambda x: f(x, axis)).lower(x).explain()
                self.assertIn("copies: 0", told)
                stored = [line for line in told.splitlines() if "[8192]" in line]
                self.assertEqual(len(stored), name.startswith("cum"), told)
                taken = int(re.search(r"memory: (\d+) bytes", told)[1])
                self.assertLessEqual(taken, 8 * 128 * 2)

    def test_derivatives(self):
        draw = numpy.random.default_rng(9)
        a = draw.normal(size=(3, 4))
        w = draw.normal(size=(3, 4)).astype("float64")
        for f in (hop.cumulative_sum, hop.cumulative_prod):
            for left, right in itertools.product((hop.float16, hop.float32, hop.float64), repeat=2):
                x = hop.asarray(a, dtype=left)

                def loss(x, d):
                    return hop.sum(f(x, axis=1, dtype=d).astype(hop.float64) * w)

                found = hop.grad(lambda x: loss(x, right))(x)
                self.assertIs(found.dtype, left)
                wide = hop.grad(lambda x: loss(x, hop.float64))(x.astype(hop.float64))
                near = 4e-3 if hop.float16 in (left, right) else 1e-5
                numpy.testing.assert_allclose(
                    numpy.array(found).astype("float64"), numpy.array(wide), rtol=near, atol=near
                )
            z = hop.asarray(a)
            hop.check_grads(lambda x: f(x, axis=0, dtype=hop.float64), (z,), 2)
            hop.check_grads(lambda x: hop.vmap(lambda r: f(r, dtype=hop.float64, reverse=True))(x), (z,), 1)
        hop.check_grads(lambda x: hop.var(x, axis=0, dtype=hop.float64), (hop.asarray(a),), 2)


@needs_numpy
class Large(OfArrays):
    """Products that go to the library for matrix products, block by block: whole numbers, so exact."""

    def draw(self, name, shape, seed):
        draw = numpy.random.default_rng(seed)
        if name == "bool":
            return draw.integers(0, 2, shape).astype(bool)
        if name.endswith("int8"):
            return draw.integers(0, 256, shape).astype("uint8").view(name)
        return draw.integers(-8, 9, shape).astype("float32")

    def test_exact(self):
        bytes_ = itertools.product(("int8", "uint8", "bool"), ("int8", "uint8"), ("int32", "int64", "uint16"))
        floats = itertools.product(("bfloat16", "float16", "float32"), ("bfloat16", "float16"), ("float32",))
        narrow = [("bfloat16", "bfloat16", "bfloat16"), ("float16", "float16", "float16")]
        for left, right, d in [*bytes_, *floats, *narrow]:
            a, b = self.draw(left, (37, 290), 1), self.draw(right, (290, 41), 2)
            x, y = hop.asarray(a).astype(getattr(hop, left)), hop.asarray(b).astype(getattr(hop, right))
            wide = a.astype("float64") @ b.astype("float64")
            chosen = getattr(hop, d)
            expected = hop.asarray(wide).astype(chosen) if "float" in d else wide.astype("int64").astype(d)
            expected = numpy.array(expected.astype(hop.float32) if d == "bfloat16" else expected)
            ways = {
                "plain": lambda x, y: hop.matmul(x, y, dtype=d),
                "transposed": lambda x, y: hop.matmul(y.T, x.T, dtype=d).T,
                "einsum": lambda x, y: hop.einsum("ik,kj->ji", x, y, dtype=d).T,
                "batch": lambda x, y: hop.vmap(lambda y: hop.matmul(x, y, dtype=d))(hop.stack([y, y]))[1],
            }
            for (name, f), strict in itertools.product(ways.items(), (False, True)):
                with self.subTest(name, left=left, right=right, dtype=d, strict=strict):
                    found = hop.jit(f, strict=strict)(x, y)
                    self.assertIs(found.dtype, chosen)
                    self.assertEqual(numpy.array(found.astype(hop.float64)).tolist(), expected.tolist())

    def test_no_copy_of_an_operand(self):
        for dtype, d in ((hop.int8, hop.int32), (hop.bfloat16, hop.float32), (hop.float16, hop.float16)):
            x = hop.ones((256, 256), dtype=dtype)
            for f in (
                lambda x: hop.matmul(x, x.T, dtype=d),
                lambda x: hop.matmul(x.astype(d), x.astype(d)),
                lambda x: hop.einsum("ij,jk->ik", x.astype(d), x),
            ):
                lowered = hop.jit(f).lower(x)
                told = lowered.explain()
                self.assertIn("copies: 0", told)
                self.assertIn("memory: 0 bytes", told)
                self.assertIn("gemm(", lowered.emit("loops"))

    def test_any_size(self):
        f = hop.jit(lambda x, y: hop.matmul(x, y, dtype=hop.int32))
        for m, k, n in ((3, 4, 5), (1, 300, 7), (0, 3, 4), (4, 0, 3), (300, 10, 1), (260, 257, 30)):
            a, b = self.draw("int8", (m, k), 3), self.draw("int8", (k, n), 4)
            self.equal(f(hop.asarray(a), hop.asarray(b)), a.astype("int32") @ b.astype("int32"), hop.int32)

    def test_gradients(self):
        a, b = self.draw("bfloat16", (40, 50), 5), self.draw("bfloat16", (50, 60), 6)
        x, y = hop.asarray(a).astype(hop.bfloat16), hop.asarray(b).astype(hop.bfloat16)
        both = hop.grad(lambda x, y: hop.sum(hop.matmul(x, y, dtype=hop.float32)), argnums=(0, 1))
        gx, gy = hop.jit(both)(x, y)
        self.assertIs(gx.dtype, hop.bfloat16)
        rows = hop.asarray(numpy.tile(b.sum(1), (40, 1))).astype(hop.bfloat16)
        columns = hop.asarray(numpy.tile(a.sum(0)[:, None], (1, 60))).astype(hop.bfloat16)
        self.assertTrue(bool(hop.all(gx == rows)) and bool(hop.all(gy == columns)))


class Refusals(Case):
    def test_messages(self):
        x = hop.ones((2, 2))
        i = hop.ones((2, 2), dtype=hop.int8)
        cases = [
            (lambda: hop.matmul(x, x, dtype=hop.int32), "matmul: .*expected a float dtype .* found i32"),
            (lambda: hop.matmul(i, i, dtype=hop.bool), "matmul: .*a dtype of numbers, found bool"),
            (lambda: hop.einsum("ij->", x, dtype=hop.int8), "einsum: .*a float dtype for operand 0"),
            (
                lambda: hop.matmul(i, i, dtype=hop.int32, preferred_element_type=hop.int16),
                r"preferred_element_type: expected the same as dtype \(int32\)",
            ),
        ]
        for call, message in cases:
            with self.assertRaisesRegex(hop.InvalidError, "test_result_dtypes.py:[0-9]+: .*" + message):
                call()
        with self.assertRaisesRegex(TypeError, "expected a dtype, found 3"):
            hop.matmul(i, i, dtype=3)

    def test_floats_in_integers_are_cut_off_first(self):
        self.equal(hop.sum(hop.asarray([1.5, 2.5]), dtype=hop.int32), 3, hop.int32)


if __name__ == "__main__":
    unittest.main()
