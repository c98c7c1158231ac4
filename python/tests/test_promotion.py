"""Dtypes of what operators give: one table for calls at once, in jit, in vmap, as carries and in branches.
Python numbers take the dtype of what they meet, wherever they come from."""

import itertools
import operator
import unittest

import hop
from support import Case, needs_numpy, numpy

DTYPES = hop._dtypes.ALL
FLOATS = [d for d in DTYPES if d.kind == "f"]
WHOLE = [d for d in DTYPES if d.kind in "iu"]
OPERATORS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "<": operator.lt,
    "==": operator.eq,
    "maximum": hop.maximum,
    "add": hop.add,
    "divide": hop.divide,
    "atan2": hop.atan2,
    "hypot": hop.hypot,
    "clip": lambda x, y: hop.clip(x, y, y),
    "where": lambda x, y: hop.where(hop.asarray(True), x, y),
    "stack": lambda x, y: hop.stack([x, y]),
    "logaddexp": hop.logaddexp,
    "outer": lambda x, y: hop.outer(hop.stack([x]), hop.stack([y])),
    "einsum": lambda x, y: hop.einsum("i,i->", hop.stack([x]), hop.stack([y])),
    "concat": lambda x, y: hop.concat([hop.stack([x]), hop.stack([y])]),
    "full_like": lambda x, y: hop.full_like(x, y),
    "set": lambda x, y: hop.stack([x]).at[0].set(y),
    "sum": lambda x, y: hop.sum(hop.stack([x, y])),
    "mean": lambda x, y: hop.mean(hop.stack([x, y])),
    "power": lambda x, y: hop.pow(x, y),
    "fma": lambda x, y: hop.fma(x, y, x),
    "sin": lambda x, y: hop.sin(x) + y,
    "square": lambda x, y: hop.square(x) - y,
}  # fmt: skip


def kind(x):
    """(dtype, whether weak) of an array or a Python number."""
    if isinstance(x, hop.Array):
        return x.dtype.name, x._weak
    return None if x is None else (hop._dtypes.weak_dtype(x).name, not isinstance(x, bool))


def number(x):
    return x.tolist() if isinstance(x, hop.Array) else x


def every(x, y):
    """All operators on two operands; None for an error."""
    out = {}
    for name, f in OPERATORS.items():
        try:
            out[name] = f(x, y)
        except (hop.Error, ZeroDivisionError):
            out[name] = None
    return out


def operands():
    """(name, operand): an array of each dtype, the Python numbers, and weak arrays."""
    yield from ((d.name, hop.asarray(1, dtype=d)) for d in DTYPES)
    yield from (("number 3", 3), ("number 1.5", 1.5), ("weak int", hop.abs(3)), ("weak real", hop.sqrt(2.25)))


class Table(Case):
    def compare(self, plain, found, what):
        self.assertEqual(plain.keys(), found.keys(), what)
        for name in plain:
            self.assertEqual(kind(plain[name]), kind(found[name]), f"{name} of {what}")
            if plain[name] is not None:
                self.close(
                    hop.asarray(number(found[name]), dtype=hop.float64),
                    hop.asarray(number(plain[name]), dtype=hop.float64).tolist(),
                    2e-2 if "float16" in what else 1e-6,
                )

    def test_everywhere(self):
        """Each pair of operands, each operator: the same dtype, weakness and numbers at once, in jit and
        in vmap."""
        compiled = hop.jit(every, portable=True)
        for (a, x), (b, y) in itertools.product(operands(), operands()):
            plain = every(x, y)
            self.compare(plain, compiled(x, y), f"{a} and {b} in jit")
            self.compare(plain, compiled(x, y), f"{a} and {b} in jit once more")
            closed = hop.jit(lambda x=x: every(x, y), portable=True)()
            self.compare(plain, closed, f"{a} and {b} from outside")
        for (a, x), (b, y) in itertools.product(list(operands())[:6:2], operands()):
            rows, shared = hop.stack([x, x]), None if not isinstance(y, hop.Array) else y
            found = hop.vmap(every, in_axes=(0, None))(rows, y if shared is None else shared)
            first = {k: None if v is None else v[0] for k, v in found.items()}
            self.compare(every(x, y), first, f"{a} and {b} in vmap")

    def test_result_type(self):
        """It agrees with the operators, for arrays, dtypes and numbers in any order, and with
        promote_types."""
        for (a, x), (b, y) in itertools.product(operands(), operands()):
            if not isinstance(x, hop.Array) and not isinstance(y, hop.Array):
                continue
            try:
                found = hop.where(hop.asarray(True), x, y).dtype
            except hop.InvalidError:
                with self.assertRaisesRegex(
                    hop.InvalidError,
                    r"uint64 and int\d+: .*x\.astype\(hop\.int64\).*x\.astype\(hop\.uint64\)",
                ):
                    hop.result_type(x, y)
                continue
            self.assertIs(hop.result_type(x, y), found, f"{a} and {b}")
            self.assertIs(hop.result_type(y, x), found, f"{b} and {a}")

    def test_kinds(self):
        for f, i in itertools.product(FLOATS, [*WHOLE, hop.bool]):
            self.assertIs(hop.promote_types(f, i), f)
            self.assertIs((hop.ones(2, dtype=i) * hop.ones(2, dtype=f)).dtype, f)
        for i in [*WHOLE, hop.bool]:
            x = hop.ones((2, 2), dtype=i)
            for f in (
                hop.sin,
                hop.exp,
                hop.sqrt,
                hop.sigmoid,
                hop.mean,
                hop.var,
                hop.std,
                hop.softmax,
                hop.log_softmax,
                hop.logsumexp,
                hop.lgamma,
                lambda v: hop.quantile(v, 0.5),
                lambda v: v / v,
                lambda v: v / 2,
                lambda v: v * 0.5,
                lambda v: 0.5 - v,
                lambda v: hop.atan2(v, v),
                lambda v: hop.reciprocal(v),
                hop.gelu,
                hop.silu,
                hop.softplus,
                lambda v: hop.cumulative_logsumexp(v, axis=0),
                hop.linalg.vector_norm,
                hop.log10,
                lambda v: hop.interp(v, hop.arange(3.0), hop.arange(3)),
            ):  # fmt: skip
                self.assertIs(f(x).dtype, hop.float32, i)
                self.assertIs(hop.jit(f, portable=True)(x).dtype, hop.float32, i)
            self.close(hop.softplus(x), [[1.3132617, 1.3132617]] * 2)
            self.close(hop.logaddexp(x, hop.zeros((2, 2), dtype=i)), [[1.3132617, 1.3132617]] * 2)
        y = hop.asarray([1, 2], dtype=hop.int8)
        y += 1.5
        self.equal(y, [2.5, 3.5], hop.float32)
        self.equal(hop.asarray([1, 2], dtype=hop.int8).at[0].add(1.75), [2, 2], hop.int8)

    def test_equations(self):
        """The sides of linear equations are promoted together."""
        whole = hop.asarray([[2, 0], [0, 4]])
        for f in (hop.linalg.solve, hop.linalg.solve_triangular):
            self.equal(f(whole, whole), [[1, 0], [0, 1]], hop.float32)
            self.equal(f(whole.astype(hop.float64), whole), [[1, 0], [0, 1]], hop.float64)
            self.equal(f(whole, whole.astype(hop.float16)), [[1, 0], [0, 1]], hop.float16)

    def test_bools(self):
        """Bools alone stay bools where NumPy's do."""
        x, y = hop.asarray([True, True, False]), hop.asarray([True, False, False])
        for f, expected in (
            (operator.add, [1, 1, 0]),
            (operator.mul, [1, 0, 0]),
            (hop.maximum, [1, 1, 0]),
            (hop.minimum, [1, 0, 0]),
            (lambda x, y: abs(x), [1, 1, 0]),
            (lambda x, y: x + True, [1, 1, 1]),
        ):
            self.equal(f(x, y), [bool(e) for e in expected], hop.bool)
            self.equal(hop.jit(f)(x, y), [bool(e) for e in expected], hop.bool)
        for f, expected in (
            (lambda x, y: x + 1, [2, 2, 1]),
            (operator.floordiv, [1, 0, 0]),
            (operator.pow, [1, 1, 1]),
            (lambda x, y: hop.cumulative_sum(x), [1, 2, 2]),
        ):
            self.equal(f(x, y), expected, hop.int64)
        self.equal(hop.diff(x), [False, True], hop.bool)
        self.equal(hop.isclose(x, y), [True, False, True], hop.bool)
        with self.assertRaisesRegex(hop.InvalidError, "sub: bools have no difference: use xor"):
            x - y
        with self.assertRaisesRegex(hop.InvalidError, "neg: bools have no negative: use not"):
            hop.jit(lambda x: -x)(x)

    def test_unsigned_and_signed(self):
        x, y = hop.asarray([1], dtype=hop.uint64), hop.arange(1)
        for f in (
            operator.add,
            operator.lt,
            hop.maximum,
            hop.matmul,
            lambda a, b: hop.concat([a, b]),
            lambda a, b: hop.einsum("i,i->", a, b),
            lambda a, b: hop.where(a == 1, a, b),
        ):
            for g in (f, hop.jit(f)):
                with self.assertRaisesRegex(
                    hop.InvalidError,
                    (
                        r"test_promotion.py:\d+: .*uint64 and int64: "
                        r"convert one of them, x\.astype\(hop\.int64\)"
                    ),
                ):
                    g(x, y)
        self.equal(x + 1, [2], hop.uint64)
        self.equal(x.astype(hop.int64) + y, [1], hop.int64)

    def test_positions(self):
        """A model stays in its dtype though positions are counted in integers."""

        def model(x):
            n, d = x.shape
            angle = hop.arange(n)[:, None] / 10000 ** (hop.arange(0, d, 2) / d)
            places = hop.stack([hop.sin(angle), hop.cos(angle)], axis=-1).reshape((n, d))
            scores = (x @ x.mT) / hop.sqrt(d)
            return x + places, hop.softmax(
                hop.where(hop.tril(hop.ones((n, n))) == 0, -1e9, scores)
            ) * hop.arange(n)

        self.assertEqual([y.dtype for y in model(hop.ones((3, 4)))], [hop.float32, hop.float32])
        self.assertEqual([y.dtype for y in hop.jit(model)(hop.ones((3, 4)))], [hop.float32, hop.float32])
        self.assertIs(hop.jit(model)(hop.ones((3, 4), dtype=hop.bfloat16))[1].dtype, hop.bfloat16)
        rate = hop.exp(hop.arange(0, 4, 2) * -0.5)
        self.assertIs((hop.ones(2, dtype=hop.bfloat16) + hop.sin(hop.arange(2) * rate)).dtype, hop.bfloat16)


class Numbers(Case):
    """Python numbers as arguments."""

    def test_transforms(self):
        f = lambda x, n: x * n + n / 2  # noqa: E731
        for d in DTYPES:
            for n in (2, 2.5):
                x = hop.ones(3, dtype=d)
                plain = f(x, n)
                for name, g in {
                    "jit": hop.jit(f),
                    "vmap": hop.vmap(f, in_axes=(0, None)),
                    "jit of vmap": hop.jit(hop.vmap(f, in_axes=(0, None))),
                    "checkpoint": hop.jit(hop.checkpoint(f)),
                    "jit in jit": hop.jit(lambda x, n: hop.jit(f)(x, n)),
                    "vjp": lambda x, n: hop.vjp(f, x, n)[0],
                    "jvp": lambda x, n: hop.jvp(f, (x, n), (x, n))[0],
                    "linearize": lambda x, n: hop.linearize(f, x, n)[0],
                    "tree": lambda x, n: hop.jit(lambda t: f(t["x"], t["n"][0]))({"x": x, "n": [n]}),
                    "named": lambda x, n: hop.jit(f)(x, n=n),
                }.items():  # fmt: skip
                    found = g(x, n)
                    self.assertEqual(kind(found), kind(plain), f"{name} of {d} and {n}")
                    self.equal(found, plain.tolist())

    def test_exact(self):
        """A real number is rounded where it meets an array, to that array's dtype, and not before."""
        x = hop.ones(2, dtype=hop.float64)
        f = lambda x, h: x * (h / 3) + h * h  # noqa: E731
        expected = f(x, 0.1).tolist()
        for g in (
            hop.jit(f),
            hop.vmap(f, in_axes=(0, None)),
            lambda x, h: hop.jit(lambda x: hop.cond(x[0] > 0, lambda h: f(x, h), lambda h: x, h))(x),
            hop.jit(lambda x, h: hop.checkpoint(f)(x, h)),
            lambda x, h: hop.vjp(f, x, h)[0],
            hop.jit(lambda x, h: hop.grad(lambda v: hop.sum(f(v, h) * v) / 2)(x) + (h * h) / 2),
        ):  # fmt: skip
            self.close(g(x, 0.1), expected, 1e-15)
        h = lambda x, n: (  # noqa: E731
            hop.fori_loop(0, 3, lambda i, c: (c[0] * n, c[1] + x[0] * c[0]), (0.1, 0.0))[1]
        )
        self.close(hop.jit(h)(x, 0.7), h(x, 0.7).tolist(), 1e-15)
        self.close(h(x, 0.7), 0.1 + 0.1 * 0.7 + 0.1 * 0.7 * 0.7, 1e-15)
        half = hop.ones((), dtype=hop.float16)
        # rounded once
        self.equal(
            hop.jit(lambda x, n: x * n)(half, 1 + 2.0**-11 + 2.0**-26),
            (half * (1 + 2.0**-11 + 2.0**-26)).item(),
        )

    def test_programs_apart(self):
        """Numbers, weak arrays and arrays of one type make programs of their own, also where calls are
        quick."""
        f = hop.jit(lambda x, n: x * n)
        x = hop.ones(2, dtype=hop.float16)
        for _ in range(3):
            for n, d in (
                (2, hop.float16),
                (hop.asarray(2), hop.float16),
                (2.5, hop.float16),
                (hop.asarray(2.5), hop.float32),
                (hop.sqrt(2), hop.float16),
                (hop.asarray(2.5, dtype=hop.float64), hop.float64),
            ):
                self.assertIs(f(x, n).dtype, d)
        u = hop.ones(2, dtype=hop.uint8)
        for _ in range(3):
            for n, d in (
                (2, hop.uint8),
                (hop.asarray(2), hop.int64),
                (True, hop.uint8),
                (hop.abs(2), hop.uint8),
                (2.5, hop.float32),
            ):
                self.assertIs(f(u, n).dtype, d)

    def test_results_are_weak(self):
        x = hop.ones(2, dtype=hop.float16)
        loss = lambda w, x: hop.sum(x * w * w)  # noqa: E731
        w = 0.5
        for _ in range(2):  # a number is still one after a step of descent
            self.assertIs(hop.jit(loss)(w, x).dtype, hop.float16)
            w = w - 0.1 * hop.grad(loss)(w, x)
            self.assertEqual(kind(w), ("float32", True))
        for g in (
            hop.jit(lambda n: n * 2),
            lambda n: hop.fori_loop(0, 2, lambda i, c: c * 2, n),
            lambda n: hop.vjp(lambda v: v * 2, n)[1](1.0)[0],
            lambda n: hop.jvp(lambda v: v * 2, (n,), (1.0,))[1],
        ):
            self.assertIs((x * g(1.5)).dtype, hop.float16)
            self.assertIs(hop.jit(lambda x: x * g(1.5))(x).dtype, hop.float16)  # noqa: B023
        for strong in (
            hop.asarray(1.5),
            hop.asarray(hop.sqrt(2.0)),
            hop.astype(1.5, hop.float32),
            hop.full((), 1.5),
            hop.ones(()),
            hop.asarray([1.5])[0],
        ):
            self.assertFalse(strong._weak)
        for f in (
            lambda n: hop.asarray(n),
            lambda n: hop.full((2,), n),
            lambda n: hop.astype(n, hop.float32),
            lambda n: hop.ones_like(n),
            lambda n: hop.reshape(n, (1,)),
            lambda n: hop.relu(n),
            lambda n: hop.sum(n),
        ):
            self.assertEqual(kind(f(1.5)), kind(hop.jit(f)(1.5)))
        self.equal(hop.jit(lambda n: hop.astype(n, hop.float64))(0.1), 0.1, hop.float64)

    @needs_numpy
    def test_numpy_scalars(self):
        """NumPy's scalars keep their dtype, float64 among them, though it is a Python float too."""
        x = hop.ones(2, dtype=hop.float32)
        for n in (
            numpy.float64(2),
            numpy.float32(2),
            numpy.float16(2),
            numpy.int64(2),
            numpy.int8(2),
            numpy.uint8(2),
            numpy.bool_(True),
        ):
            expected = hop.promote_types(hop.float32, str(n.dtype))
            for f in (
                lambda x, n: x * n,
                lambda x, n: n * x,
                hop.multiply,
                hop.jit(lambda x, n: x * n),
                lambda x, n: hop.jit(lambda x: x * n)(x),
                lambda x, n: hop.vmap(lambda v, n: v * n, in_axes=(0, None))(x, n),
            ):
                self.assertIs(f(x, n).dtype, expected, type(n))
                self.assertIs(f(x, n).dtype, expected, type(n))
            self.assertIs(hop.result_type(x, n), expected)
            self.assertIs(hop.asarray(n).dtype, hop._dtypes.as_dtype(str(n.dtype)))
            self.assertIs(hop.fori_loop(0, 2, lambda i, c: c, n).dtype, hop.asarray(n).dtype)
        self.assertIs(hop.where(hop.asarray(True), numpy.float64(1), 2.0).dtype, hop.float64)
        self.equal(hop.arange(numpy.int64(3)), [0, 1, 2], hop.int64)


class Comparisons(Case):
    def test_beyond_the_dtype(self):
        """Integers compare with every Python int as what it is, at once and in jit, where it is an
        argument or part of the program."""
        signs = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)
        for d in WHOLE:
            info = hop.iinfo(d)
            elements = [info.min, 0, 1, info.max]
            x = hop.asarray(elements, dtype=d)
            numbers = {
                info.min - 1,
                info.min,
                info.max,
                info.max + 1,
                -1,
                0,
                300,
                -300,
                2**63,
                2**64,
                -(2**63),
                -(2**63) - 1,
                2**70,
                -(2**70),
            }
            for sign in signs:
                argument = hop.jit(lambda x, n: (sign(x, n), sign(n, x)), portable=True)  # noqa: B023
                for n in numbers:
                    expected = [sign(e, n) for e in elements], [sign(n, e) for e in elements]
                    self.equal(sign(x, n), expected[0], hop.bool)
                    self.equal(sign(n, x), expected[1], hop.bool)
                    if -(2**63) <= n < 2**63:
                        found = argument(x, n)
                        self.equal(found[0], expected[0], hop.bool)
                        self.equal(found[1], expected[1], hop.bool)
            for sign in signs[::4]:
                recorded = hop.jit(
                    lambda x: [(sign(x, n), sign(n, x)) for n in sorted(numbers)],  # noqa: B023
                    portable=True,
                )(x)
                self.assertEqual(
                    [(a.tolist(), b.tolist()) for a, b in recorded],
                    [
                        ([sign(e, n) for e in elements], [sign(n, e) for e in elements])
                        for n in sorted(numbers)
                    ],
                )
        self.equal(hop.ones(2) < 2**70, [True, True])
        self.equal(hop.less(hop.asarray([1], dtype=hop.int8), 300), [True])

    def test_arithmetic_stays_an_error(self):
        for f in (
            operator.add,
            operator.mul,
            hop.maximum,
            operator.floordiv,
            operator.and_,
            lambda x, n: hop.where(x == 0, x, n),
        ):
            for x, n in (
                (hop.ones(2, dtype=hop.int8), 300),
                (hop.ones(2, dtype=hop.uint8), -1),
                (hop.ones(2, dtype=hop.uint64), -1),
            ):
                with self.assertRaisesRegex(
                    hop.InvalidError,
                    rf"test_promotion.py:\d+: .*[iu]\d+ holds -?\d+\.\.\d+, which {n} is not within",
                ):
                    f(x, n)
                with self.assertRaisesRegex(hop.InvalidError, "is not within"):
                    hop.jit(lambda x: f(x, n))(x)  # noqa: B023


class Carries(Case):
    def every(self, body, init, *args):
        """The last carry of each kind of loop, at once and in jit, which must agree."""
        loops = {
            "fori_loop": lambda *a: hop.fori_loop(0, 3, lambda i, c: body(c, *a), init),
            "while_loop": lambda *a: hop.while_loop(
                lambda c: c[0] < 3, lambda c: (c[0] + 1, body(c[1], *a)), (0, init),
            )[1],
            "scan": lambda *a: hop.scan(lambda c, _: (body(c, *a), None), init, None, length=3)[0],
            "no trips": lambda *a: hop.fori_loop(0, 0, lambda i, c: body(c, *a), init),
        }  # fmt: skip
        out = {}
        for name, loop in loops.items():
            plain, compiled = loop(*args), hop.jit(loop)(*args)
            self.assertEqual(
                [kind(x) for x in hop.tree.leaves(plain)], [kind(x) for x in hop.tree.leaves(compiled)], name
            )
            self.assertEqual(
                [x.tolist() for x in hop.tree.leaves(plain)],
                [x.tolist() for x in hop.tree.leaves(compiled)],
                name,
            )
            out[name] = plain
        kinds = [[kind(x) for x in hop.tree.leaves(v)] for v in out.values()]
        self.assertTrue(all(k == kinds[0] for k in kinds), kinds)
        return out["fori_loop"]

    def test_dtypes(self):
        """A number as a carry takes the dtype of what the body makes of it."""
        for d in DTYPES:
            x = hop.asarray(1, dtype=d)
            for init in (0, 0.5):
                found = self.every(lambda c, x: c + x, init, x)
                self.equal(found, init + 3, hop.result_type(d, init))
        self.equal(self.every(lambda c, x: c + x, 0, hop.asarray(100, dtype=hop.uint8)), 300 % 256, hop.uint8)
        self.equal(
            self.every(lambda c, x: c + x, 0, hop.asarray(2**62, dtype=hop.uint64)), 3 * 2**62, hop.uint64
        )
        self.equal(self.every(lambda c: c + 1, 5), 8, hop.int64)
        self.equal(self.every(lambda c: c / 2, 8), 1.0, hop.float32)
        self.equal(self.every(lambda c: hop.sqrt(c), 256), 2.0, hop.float32)

    def test_fixed_point(self):
        self.assertEqual(
            [kind(x) for x in hop.fori_loop(0, 3, lambda i, c: (c[1], c[0]), (0, 1.5))],
            [("float32", True)] * 2,
        )
        self.assertEqual([x.item() for x in self.every(lambda c: (c[1], c[0]), (0, 1.5))], [1.5, 0])
        x = hop.asarray(2, dtype=hop.float16)
        # goes up one at a time
        found = self.every(lambda c, x: (c[1], c[2], c[3], c[3] * x), (0, 1, 2, 3), x)
        self.assertEqual([kind(v) for v in found], [("float16", False)] * 4)
        self.equal(hop.stack(list(found)), [3, 6, 12, 24])
        found = self.every(lambda c, x: (c[0] * c[1], c[1] + x), (2, 1), hop.asarray(1, dtype=hop.int32))
        self.assertEqual([kind(v) for v in found], [("int32", False)] * 2)

    def test_counters(self):
        """The counter of fori_loop is a number, as that of range is, unless a bound is an array."""
        for d in DTYPES[1:]:
            self.assertIs(hop.fori_loop(0, 3, lambda i, c: c + i, hop.zeros(2, dtype=d)).dtype, d)
            self.assertIs(
                hop.jit(lambda x: hop.fori_loop(0, 3, lambda i, c: c + i, x))(hop.zeros(2, dtype=d)).dtype, d
            )
        self.equal(hop.fori_loop(hop.asarray(0), 3, lambda i, c: c + i, 0), 3, hop.int64)

    def test_strong_carries(self):
        with self.assertRaisesRegex(
            hop.InvalidError,
            (
                r"carry\[1\]: the body gives f32\[\], the loop began with i64\[\]; "
                "integers divided by integers, or with real numbers, are floats"
            ),
        ):
            hop.fori_loop(0, 3, lambda i, c: (c[0], c[1] * 0.5), (0, hop.asarray(1)))
        self.equal(hop.fori_loop(0, 3, lambda i, c: 7, hop.asarray(1, dtype=hop.uint8)), 7, hop.uint8)
        self.equal(
            hop.scan(lambda c, x: (1, c), hop.asarray(0.5, dtype=hop.float16), hop.ones(2))[0],
            1.0,
            hop.float16,
        )

    def test_gradients(self):
        f = lambda w: hop.fori_loop(0, 3, lambda i, c: c * w, 1.0)  # noqa: E731
        self.equal(hop.grad(f)(2.0), 12.0, hop.float32)
        self.equal(hop.grad(f)(hop.asarray(2.0, dtype=hop.float64)), 12.0, hop.float64)
        self.equal(hop.vmap(hop.grad(f))(hop.asarray([1.0, 2.0], dtype=hop.float16)), [3, 12], hop.float16)


class Branches(Case):
    def test_numbers(self):
        """Numbers that branches give take the dtype that the others give: at once, where one branch runs,
        as in jit."""
        cases = [(d, hop.asarray(1, dtype=d), n) for d in DTYPES for n in (2, 2.5)]
        for d, x, n in cases:
            fits = hop.result_type(d, n) is d
            for swap in (False, True):
                funs = (lambda x: x, lambda x: n)[:: -1 if swap else 1]  # noqa: B023
                for p in (False, True):
                    plain, compiled = (
                        lambda p, x: hop.cond(p, *funs, x),  # noqa: B023
                        hop.jit(lambda p, x: hop.cond(p, *funs, x)),  # noqa: B023
                    )
                    if fits:
                        self.assertEqual(
                            (kind(plain(hop.asarray(p), x)), kind(compiled(p, x))),
                            ((d.name, False),) * 2,
                            f"{d} {n} {p} {swap}",
                        )
                        self.equal(plain(hop.asarray(p), x), compiled(p, x).item())
                        continue
                    with self.assertRaisesRegex(
                        hop.InvalidError, "cond: result: false_fun gives .*true_fun gives"
                    ):
                        compiled(p, x)

    def test_switch(self):
        f = lambda k, x: (  # noqa: E731
            hop.switch(k, [lambda x: (1, x), lambda x: (2.5, 1), lambda x: (x * 2, 0.5)], x)
        )
        x = hop.asarray(3, dtype=hop.float16)
        for k in range(3):
            plain, compiled = f(hop.asarray(k), x), hop.jit(f)(k, x)
            self.assertEqual([kind(v) for v in plain], [("float16", False)] * 2)
            self.assertEqual([(kind(v), v.item()) for v in compiled], [(kind(v), v.item()) for v in plain])
        g = lambda k: hop.switch(k, [lambda: 1, lambda: 2.5])  # noqa: E731
        for k in (0, 1):
            self.assertEqual((kind(g(hop.asarray(k))), kind(hop.jit(g)(k))), (("float32", True),) * 2)
            self.assertEqual((hop.ones(2, dtype=hop.float16) * g(hop.asarray(k))).dtype, hop.float16)

    def test_operands(self):
        f = lambda p, x, n: hop.cond(p, lambda n: x * n, lambda n: x + n, n)  # noqa: E731
        for d in DTYPES[1:]:
            x = hop.ones(2, dtype=d)
            for p in (False, True):
                self.assertEqual(kind(hop.jit(f)(p, x, 2)), (d.name, False))
                self.assertEqual(kind(f(hop.asarray(p), x, 2)), (d.name, False))

    def test_a_branch_that_looks(self):
        """What cannot be captured still runs at once."""
        self.assertEqual(hop.cond(hop.asarray(True), lambda x: 1, lambda x: int(x), hop.asarray(2)), 1)


if __name__ == "__main__":
    unittest.main()
