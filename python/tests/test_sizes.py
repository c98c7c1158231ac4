"""Sizes as values: what can be computed with x.shape in a captured function, what is decided by proof, by a
guard and by the program, and every function that takes or looks at sizes. Each is held against the same
function without capture, for sizes that are symbols of one program, that have a hint in the call at hand, and
that only a run knows. Random programs of sizes print their seeds."""

import copy
import gc
import math
import operator
import random
import sys
import unittest

import hop
from hop import _core
from support import Case, differences

KEY = hop.random.key(0)


def array(*shape, seed=0):
    r = random.Random(repr((shape, seed)))
    return hop.reshape(hop.asarray([r.uniform(-1, 1) for _ in range(math.prod(shape))]), shape)


def leaves(x):
    return list(x) if isinstance(x, (tuple, list)) else [x]


def captured(f, types, hints=None):
    """(program, arrays from outside, constraints) of a function of values of these types."""
    return _core.capture(lambda *v: leaves(f(*v)), "f", [f"x{i}" for i in range(len(types))], types, hints)


def symbolic(f, x, compiled=False):
    """What f gives for x in a program for every size of the first axis."""
    sizes = ", ".join(["T", *map(str, x.shape[1:])])
    program, hidden, _ = captured(f, [f"f32[{sizes}]"])
    run = program.compile().run if compiled else program.interpret
    return run([x, *hidden])


# Functions of a matrix with three columns. Each gives an array, a size or a number, or several.
FUNCTIONS = {
    "zeros": lambda x: hop.zeros(x.shape[0]),
    "ones": lambda x: hop.ones((2, x.shape[0] + 1)),
    "empty": lambda x: hop.empty((x.shape[0] // 2,)),
    "full": lambda x: hop.full(x.shape, 2.5),
    "full of a size": lambda x: hop.full((2,), x.shape[0]),
    "zeros_like": hop.zeros_like,
    "arange": lambda x: hop.arange(x.shape[0]),
    "arange with bounds": lambda x: hop.arange(1, 2 * x.shape[0], 3),
    "arange backwards": lambda x: hop.arange(x.shape[0], 0, -2),
    "arange of real numbers": lambda x: hop.arange(0, x.shape[0], 0.5),
    "arange of floats": lambda x: hop.arange(x.shape[0] - 1, dtype=hop.float32),
    "iota": lambda x: hop.iota(hop.int32, x.shape[0]),
    "linspace": lambda x: hop.linspace(0, 1, x.shape[0]),
    "linspace without its end": lambda x: hop.linspace(-1, 3, x.shape[0] + 1, endpoint=False),
    "logspace": lambda x: hop.logspace(0, 1, x.shape[0]),
    "geomspace": lambda x: hop.geomspace(1, 8, x.shape[0]),
    "eye": lambda x: hop.eye(x.shape[0]),
    "eye above": lambda x: hop.eye(x.shape[0], 3, k=1),
    "identity": lambda x: hop.identity(x.shape[0]),
    "tri": lambda x: hop.tri(x.shape[0]),
    "tril": hop.tril,
    "triu": lambda x: hop.triu(x, 1),
    "reshape": lambda x: x.reshape((-1,)),
    "reshape to a product": lambda x: x.reshape((x.shape[0] * 3,)),
    "reshape to three": lambda x: x.reshape((3, x.shape[0])),
    "flatten": lambda x: x.flatten(),
    "broadcast_to": lambda x: hop.broadcast_to(x[:, :1], x.shape),
    "broadcast_to of a number": lambda x: hop.broadcast_to(hop.asarray(1.0), (x.shape[0], 2)),
    "broadcast_arrays": lambda x: hop.broadcast_arrays(x, x[:, :1]),
    "tile": lambda x: hop.tile(hop.asarray([1.0, 2.0]), x.shape[0]),
    "tile both": lambda x: hop.tile(x, (2, 2)),
    "repeat": lambda x: hop.repeat(hop.asarray([1.0, 2.0]), x.shape[0]),
    "repeat rows": lambda x: hop.repeat(x, 2, axis=0),
    "repeat by counts": lambda x: hop.repeat(x, hop.astype(x[:, 0] > 0, hop.int64) * 2, axis=0),
    "one_hot": lambda x: hop.one_hot(hop.asarray([0, 1]), x.shape[0]),
    "random.uniform": lambda x: hop.random.uniform(KEY, x.shape),
    "random.normal": lambda x: hop.random.normal(KEY, (x.shape[0],)),
    "random.bits": lambda x: hop.random.bits(KEY, x.shape[0]),
    "random.randint": lambda x: hop.random.randint(KEY, (x.shape[0],), 0, 10),
    "random.bernoulli": lambda x: hop.random.bernoulli(KEY, 0.5, x.shape),
    "random.permutation": lambda x: hop.random.permutation(KEY, x.shape[0]),
    "random.choice": lambda x: hop.random.choice(KEY, x.shape[0], (3,)),
    "random.choice of rows": lambda x: hop.random.choice(KEY, x, (2,)),
    "random.choice of many": lambda x: hop.random.choice(KEY, 20, (x.shape[0],)),
    "random.choice once": lambda x: hop.random.choice(KEY, x.shape[0], (2,), replace=False),
    "random.split": lambda x: hop.random.split(KEY, x.shape[0]),
    "random.gumbel": lambda x: hop.random.gumbel(KEY, x.shape),
    "random.gamma": lambda x: hop.random.gamma(KEY, 2.0, x.shape),
    "random.categorical": lambda x: hop.random.categorical(KEY, x, axis=0),
    "scan": lambda x: hop.scan(lambda c, _: (c + 1.0, c), 0.0, None, length=x.shape[0]),
    "scan over rows": lambda x: hop.scan(lambda c, v: (c + v, c * 2), hop.zeros(3), x, length=x.shape[0]),
    "fori_loop": lambda x: hop.fori_loop(0, x.shape[0], lambda i, c: c + x[i], hop.zeros(3)),
    "fori_loop to a half": lambda x: hop.fori_loop(1, x.shape[0] // 2, lambda i, c: c * 2, 1.0),
    "while_loop": lambda x: hop.while_loop(
        lambda c: c < 3, lambda c: c + 1, 0, max_trips=x.shape[0] + 5, stack=True
    ),
    "while_loop to a size": lambda x: hop.while_loop(
        lambda c: c[0] < x.shape[0], lambda c: (c[0] + 1, c[1] + 0.5), (0, 0.0)
    ),
    "map": lambda x: hop.map(lambda r: r * 2, x),
    "map in batches": lambda x: hop.map(lambda r: r * 2, x, batch_size=2),
    "associative_scan": lambda x: hop.associative_scan(hop.add, x),
    "[:2]": lambda x: x[:2],
    "[1:]": lambda x: x[1:],
    "[:-1]": lambda x: x[:-1],
    "[-2:]": lambda x: x[-2:],
    "[-3:-1]": lambda x: x[-3:-1],
    "[100:]": lambda x: x[100:],
    "[:100]": lambda x: x[:100],
    "[::2]": lambda x: x[::2],
    "[::-1]": lambda x: x[::-1],
    "[::-2]": lambda x: x[::-2],
    "[5:1:-1]": lambda x: x[5:1:-1],
    "[-2:0:-1]": lambda x: x[-2:0:-1],
    "[:0:-3]": lambda x: x[:0:-3],
    "[:n//2]": lambda x: x[: x.shape[0] // 2],
    "[n//2:]": lambda x: x[x.shape[0] // 2 :],
    "[-n:]": lambda x: x[-x.shape[0] :],
    "[n-3:]": lambda x: x[x.shape[0] - 3 :],
    "[n-1]": lambda x: x[x.shape[0] - 1],
    "[-1]": lambda x: x[-1],
    "[0]": lambda x: x[0],
    "[n//2, 1]": lambda x: x[x.shape[0] // 2, 1],
    "[:, None, 1:]": lambda x: x[:, None, 1:],
    "[[0, -1]]": lambda x: x[hop.asarray([0, -1])],
    "differences of neighbours": lambda x: x[1:] - x[:-1],
    "an array from outside": lambda x: hop.arange(12)[: x.shape[0]],
    "at[0]": lambda x: x.at[0].set(7.0),
    "at[1:]": lambda x: x.at[1:].add(1.0),
    "at[-1, 0]": lambda x: x.at[-1, 0].set(3.0),
    "at[n-1]": lambda x: x.at[x.shape[0] - 1].set(1.0),
    "at[::2]": lambda x: x.at[::2].set(1.0),
    "at[:, [0, 2]]": lambda x: x.at[:, hop.asarray([0, 2])].multiply(2.0),
    "at[1:, [0, 2]]": lambda x: x.at[1:, hop.asarray([0, 2])].set(1.0),
    "pad": lambda x: hop.pad(x, 1),
    "pad by sizes": lambda x: hop.pad(x, ((x.shape[0], 0), (0, 1))),
    "pad with values": lambda x: hop.pad(x, ((1, 1), (0, 1)), constant_values=((1, 2), (3, 4))),
    "pad reflect": lambda x: hop.pad(x, ((2, 1), (0, 0)), mode="reflect"),
    "pad edge": lambda x: hop.pad(x, 2, mode="edge"),
    "pad wrap": lambda x: hop.pad(x, 2, mode="wrap"),
    "pad symmetric": lambda x: hop.pad(x, 2, mode="symmetric"),
    "roll": lambda x: hop.roll(x, 1),
    "roll by a size": lambda x: hop.roll(x, x.shape[0] // 2, axis=0),
    "split": lambda x: hop.split(hop.concat([x, x]), 2),
    "split at sizes": lambda x: hop.split(x, [x.shape[0] // 3, x.shape[0] // 2]),
    "array_split": lambda x: hop.array_split(x, 2),
    "take": lambda x: hop.take(x, hop.asarray([0, -1]), axis=0),
    "take at a size": lambda x: hop.take(x, x.shape[0] - 1, axis=0),
    "top_k": lambda x: hop.top_k(x[:, 0], x.shape[0] // 2),
    "dynamic_slice": lambda x: hop.dynamic_slice(x, (x.shape[0] - 2, 0), (2, 3)),
    "dynamic_slice of a size": lambda x: hop.dynamic_slice(x, (0, 0), (x.shape[0] // 2, 3)),
    "dynamic_update_slice": lambda x: hop.dynamic_update_slice(x, hop.ones((1, 3)), (-1, 0)),
    "vmap": lambda x: hop.vmap(lambda r: r.sum())(x),
    "vmap of columns": lambda x: hop.vmap(lambda c: c / c.shape[0], in_axes=1)(x),
    "vmap with axis_size": lambda x: hop.vmap(lambda: hop.asarray(1.0), axis_size=x.shape[0])(),
    "vmap with the last axis": lambda x: hop.vmap(lambda c: c[:2], in_axes=1, out_axes=-1)(x),
    "expand_dims": lambda x: hop.expand_dims(x, axis=1),
    "moveaxis": lambda x: hop.moveaxis(x, 0, 1),
    "permute_dims": lambda x: hop.permute_dims(x, (1, 0)),
    "concat": lambda x: hop.concat([x, x[1:]]),
    "stack": lambda x: hop.stack([x, x * 2]),
    "flip": hop.flip,
    "meshgrid": lambda x: hop.meshgrid(x[:, 0], x[:, 1]),
    "mean by hand": lambda x: hop.sum(x) / x.shape[0],
    "mean": lambda x: hop.mean(x, axis=0),
    "var": lambda x: hop.var(x, axis=0, correction=0.5),
    "argmax": lambda x: hop.argmax(x, axis=0),
    "sort": lambda x: hop.sort(x, axis=0),
    "quantile": lambda x: hop.quantile(x, 0.3, axis=0),
    "median": hop.median,
    "cumulative_sum": lambda x: hop.cumulative_sum(x, axis=0, include_initial=True),
    "diff": lambda x: hop.diff(x, axis=0),
    "diff twice": lambda x: hop.diff(x, n=2, axis=0),
    "searchsorted": lambda x: hop.searchsorted(hop.sort(x[:, 0]), 0.3),
    "nonzero": lambda x: hop.nonzero(x[:, 0] > 0),
    "a mask": lambda x: x[x > 0],
    "interp": lambda x: hop.interp(0.3, hop.sort(x[:, 0]), x[:, 1]),
    "matmul": lambda x: x @ x.T,
    "einsum": lambda x: hop.einsum("ij,ik->jk", x, x),
    "tensordot": lambda x: hop.tensordot(x, x, axes=((0,), (0,))),
    "vecdot": lambda x: hop.vecdot(x, x),
    "diagonal": hop.diagonal,
    "softmax": lambda x: hop.softmax(x, axis=0),
    "nn.glu": lambda x: hop.nn.glu(hop.concat([x, x])[:, 0]),
    "nn.standardize": lambda x: hop.nn.standardize(x, axis=0),
    "unique_values": hop.unique_values,
    "isin": lambda x: hop.isin(x, x[:1]),
    "bincount": lambda x: hop.bincount(hop.astype(x[:, 0] > 0, hop.int64), length=x.shape[0]),
    "digitize": lambda x: hop.digitize(x, hop.sort(x[:, 0])),
    "convolve": lambda x: hop.convolve(x[:, 0], x[:, 1]),
    "convolve same": lambda x: hop.convolve(x[:, 0], hop.asarray([1.0, 2.0]), "same"),
    "convolve valid": lambda x: hop.convolve(x[:, 0], hop.asarray([1.0, 2.0]), "valid"),
    "gradient": lambda x: hop.gradient(x, axis=0),
    "trapezoid": lambda x: hop.trapezoid(x, axis=0),
    "kron": lambda x: hop.kron(x, x),
    "vander": lambda x: hop.vander(x[:, 0]),
    "diag": lambda x: hop.diag(x[:, 0]),
    "average": lambda x: hop.average(x, axis=0, weights=x[:, 0] + 2),
    "polyval": lambda x: hop.polyval(x[:, 0], 0.5),
    "polymul": lambda x: hop.polymul(x[:, 0], x[:, 1]),
    "polyder": lambda x: hop.polyder(x[:, 0]),
    "triu_indices": lambda x: hop.triu_indices(x.shape[0]),
    "tril_indices": lambda x: hop.tril_indices(x.shape[0], 1),
    "indices": lambda x: hop.indices(x.shape),
    "unravel_index": lambda x: hop.unravel_index(hop.asarray([1]), x.shape[::-1]),
    "nanquantile": lambda x: hop.nanquantile(x, 0.4, axis=0),
    "array_equal": lambda x: hop.array_equal(x, x),
    "linalg.qr": lambda x: hop.linalg.qr(x).R,
    "linalg.vector_norm": lambda x: hop.linalg.vector_norm(x, axis=0),
    "linalg.inv": lambda x: hop.linalg.inv(x @ x.T + 5 * hop.eye(x.shape[0])),
    "linalg.det": lambda x: hop.linalg.det(x @ x.T + 5 * hop.eye(x.shape[0])),
    "ravel_pytree": lambda x: hop.flatten_util.ravel_pytree({"a": x, "b": x[:1]})[0],
    "minimum": lambda x: hop.zeros(hop.minimum(x.shape[0], 4)),
    "maximum": lambda x: hop.arange(hop.maximum(x.shape[0], 4)),
    "a size": lambda x: x.shape[0],
    "x.size": lambda x: x.size * 2 + 1,
    "asarray": lambda x: hop.asarray([x.shape[0], 1]),
    "a power": lambda x: x.shape[0] ** 2,
    "a quotient": lambda x: x.shape[0] / 2,
    "float16 times a size": lambda x: hop.astype(x, hop.float16) * x.shape[0],
    "sqrt": lambda x: hop.sqrt(x.shape[0]),
    "clip": lambda x: hop.clip(x.shape[0], 0, 4),
    "where": lambda x: hop.where(x > 0, x.shape[0], 0.0),
    "grad": lambda x: hop.grad(lambda v: hop.sum(v * v) / v.shape[0])(x),
    "grad of a loop": lambda x: hop.grad(
        lambda v: hop.scan(lambda c, r: (c * 0.5 + hop.sum(r), None), 0.0, v)[0]
    )(x),
    "grad of a mask": lambda x: hop.grad(lambda v: hop.sum(v[v > 0] ** 2) / v.shape[0])(x),
    "grad with a size from outside": lambda x: hop.grad(
        lambda v: hop.sum(hop.arange(x.shape[0]) * v[:, 0]) * x.shape[0]
    )(x),
    "jvp": lambda x: hop.jvp(lambda v: v * v.shape[0], (x,), (x,)),
    "checkpoint": lambda x: hop.checkpoint(lambda v: hop.sin(v) * v.shape[0])(x),
    "jit": lambda x: hop.jit(lambda v: hop.sin(v) * v.shape[0])(x),
    "cond with other sizes": lambda x: hop.cond(hop.sum(x) > 0, lambda: hop.zeros(2), lambda: hop.ones(3)),
    "cond with other parts": lambda x: hop.cond(hop.sum(x) > 0, lambda v: v, lambda v: v[1:], x),
    "switch with other sizes": lambda x: hop.switch(
        hop.astype(hop.sum(x) > 0, hop.int64) + 1,
        [lambda v: v[:1], lambda v: v[::2], lambda v: hop.concat([v, v])],
        x,
    ),
    "cond by a size": lambda x: hop.cond(
        hop.asarray(x[x > 0].shape[0]) > 3, lambda: 1.0, lambda: 2.0
    ),
    "zeros of a traced integer": lambda x: hop.zeros(hop.astype(hop.sum(x * 0) + 3, hop.int64)),
    "arange of a traced integer": lambda x: hop.arange(hop.sum(hop.astype(x > 0, hop.int64))),
    "arange of traced bounds": lambda x: hop.arange(
        1, hop.sum(hop.astype(x > 0, hop.int64)) * 2, hop.astype(hop.sum(x * 0), hop.int64) + 2
    ),
    "zeros of what a mask leaves": lambda x: hop.zeros(x[x > 0].shape[0]) + x[x > 0],
}  # fmt: skip

class Functions(Case):
    def agree(self, name, n, expected, found):
        self.assertEqual(len(found), len(expected), f"{name} of {n} rows")
        for a, b in zip(found, expected):
            self.assertEqual((a.shape, a.dtype), (b.shape, b.dtype), f"{name} of {n} rows")
            try:
                self.close(a, b, 1e-3)
            except AssertionError as error:
                raise AssertionError(f"{name} of {n} rows: {error}") from None

    def each(self, lengths, run):
        """run(name, function, n, x, what it gives by itself) for all functions and numbers of rows."""
        for name, f in FUNCTIONS.items():
            for n in lengths:
                x = array(n, 3)
                try:
                    expected = [hop.asarray(y) for y in leaves(f(x))]
                except (hop.Error, ValueError, IndexError):
                    expected = None
                with self.subTest(name, n=n):
                    run(name, f, n, x, expected)

    def test_one_program_for_all_sizes(self):
        programs = {}

        def run(name, f, n, x, expected):
            if name not in programs:
                program, hidden, constraints = captured(f, ["f32[T, 3]"])
                self.assertEqual(constraints, (), name)
                programs[name] = program, hidden
            if expected is not None:
                program, hidden = programs[name]
                self.agree(name, n, expected, program.interpret([x, *hidden]))

        self.each((6, 3, 2, 1, 0), run)

    def test_with_a_hint(self):
        def run(name, f, n, x, expected):
            if expected is None:
                with self.assertRaises((hop.Error, ValueError, IndexError), msg=f"{name} of {n} rows"):
                    program, hidden, _ = captured(f, ["f32[T, 3]"], {"T": n})
                    program.interpret([x, *hidden])
                return
            program, hidden, constraints = captured(f, ["f32[T, 3]"], {"T": n})
            self.agree(name, n, expected, program.interpret([x, *hidden]))
            for text in constraints:
                self.assertTrue(eval(text, {"T": n}), f"{name}: {text}")

        self.each((6, 1, 0), run)

    def test_sizes_of_a_run(self):
        def run(name, f, n, x, expected):
            wide = hop.concat([x, hop.full((2, 3), -9.0)])
            program, hidden, _ = captured(lambda v: f(v[v[:, 0] > -8]), [wide])
            if expected is not None:
                self.agree(name, n, expected, program.interpret([wide, *hidden]))

        self.each((5, 2, 0), run)

    def test_jit(self):
        """Compiled, for sizes that change from call to call."""
        functions = {name: hop.jit(lambda x, f=f: tuple(leaves(f(x)))) for name, f in FUNCTIONS.items()}

        def run(name, f, n, x, expected):
            if expected is not None:
                self.agree(name, n, expected, functions[name](x))
            else:
                with self.assertRaises((hop.Error, ValueError, IndexError), msg=f"{name} of {n} rows"):
                    functions[name](x)

        self.each((4, 6, 0, 1, 9), run)



# ---- what sizes are by themselves ----

SIGNS = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
    "min": hop.minimum, "max": hop.maximum,
}  # fmt: skip
COMPARISONS = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip


def expression(r, depth):
    """A random expression over sizes a and b: a function of both, of integers too."""
    if depth == 0 or r.random() < 0.2:
        k = r.randint(-3, 5)
        return r.choice([lambda a, b: a, lambda a, b: b, lambda a, b: k])
    sign = r.choice([*SIGNS, "+", "-"])
    x = expression(r, depth - 1)
    if sign in ("//", "%"):
        k = r.choice([-3, -2, 1, 2, 3, 4])
        return lambda a, b: SIGNS[sign](x(a, b), k)
    y = expression(r, depth - 1)
    if sign in ("min", "max"):
        pick = {"min": min, "max": max}[sign]

        def extreme(a, b):
            u, v = x(a, b), y(a, b)
            return SIGNS[sign](u, v) if isinstance(u, hop.Size) or isinstance(v, hop.Size) else pick(u, v)

        return extreme
    return lambda a, b: SIGNS[sign](x(a, b), y(a, b))


class Values(Case):
    def test_random_expressions(self):
        """Sums, products, quotients, … are what Python's integers are, as values, as sizes and compiled."""
        for seed in range(30):
            with self.subTest(seed=seed):
                r = random.Random(seed)
                parts = [expression(r, 4) for _ in range(3)]

                def f(x, y):
                    sizes = [e(x.shape[0], y.shape[0]) for e in parts]
                    lengths = [hop.maximum(n, 0) if isinstance(n, hop.Size) else max(n, 0) for n in sizes]
                    return [*[hop.asarray(n) for n in sizes], *[hop.zeros(n) for n in lengths]]

                program, hidden, constraints = captured(f, ["f32[T]", "f32[N]"])
                self.assertEqual(constraints, ())
                exe = program.compile()
                for a, b in ((0, 3), (1, 1), (5, 2), (2, 7)):
                    expected = [e(a, b) for e in parts]
                    arrays = [hop.zeros(a), hop.zeros(b), *hidden]
                    for found in (program.interpret(arrays), exe.run(arrays)):
                        self.assertEqual([v.item() for v in found[:3]], expected)
                        self.assertEqual([v.shape for v in found[3:]], [(max(n, 0),) for n in expected])

    def test_operators(self):
        def f(x):
            n = x.shape[0]
            self.assertIsInstance(n, hop.Size)
            texts = [
                (n + 1, "T + 1"), (1 + n, "T + 1"), (n - 1, "T - 1"), (7 - n, "-T + 7"), (2 * n, "2*T"),
                (n * n, "T*T"), (n // 2, "T // 2"), (n % 3, "T % 3"), (-n, "-T"), (+n, "T"), (n << 1, "2*T"),
                (n >> 1, "T // 2"), (~n, "-T - 1"), (n**2, "T*T"), (abs(n), "T"), (x.size, "3*T"),
            ]  # fmt: skip
            for size, text in texts:
                self.assertIsInstance(size, hop.Size)
                self.assertEqual(str(size), text)
            for number, expected in ((n - n, 0), (n + 2 - n, 2), (n * 0, 0)):
                self.assertIs(type(number), int)
                self.assertEqual(number, expected)
            self.assertEqual([str(v) for v in divmod(n, 2)], ["T // 2", "T % 2"])
            for same in (copy.copy(n), copy.deepcopy([n])[0], math.floor(n), math.ceil(n), round(n)):
                self.assertIs(same, n)
            self.assertEqual(str(x.shape), "(T, 3)")
            self.assertEqual(x.T._type, "f32[3, T]")
            self.assertEqual(x[: n // 2]._type, "f32[T // 2, 3]")
            with self.assertRaises(ZeroDivisionError):
                n // 0
            with self.assertRaises(TypeError):
                n + "1"
            for value, dtype in ((n / 2, hop.float32), (n * 1.5, hop.float32), (n * x, hop.float32)):
                self.assertIsInstance(value, hop.Tracer)
                self.assertIs(value.dtype, dtype)
            for d in (hop.float16, hop.float64, hop.int8):
                self.assertIs((hop.astype(x, d) * n).dtype, d)
            self.assertIs((hop.sum(hop.astype(x, hop.float16)) / n).dtype, hop.float16)
            return x

        captured(f, ["f32[T, 3]"])

    def test_proofs(self):
        """What follows from the form and the ranges of sizes needs no guard."""

        def f(x, y):
            n, m = x.shape[0], y.shape[0]
            self.assertTrue(2 * (n // 2) <= n <= 2 * ((n + 1) // 2) and n - hop.maximum(n - 2, 0) <= 2)
            for holds in (n >= 0, n + 1 > n, n == n, 2 * n == n + n, n != n + 1, n // 2 <= n, m <= 9, m > 0):
                self.assertIs(holds, True)
            for fails in (n < 0, n == n + 1, n - 1 >= n, m > 9, m == 12, n < -0.5, n == 2.5, n == "n"):
                self.assertIs(fails, False)
            self.assertTrue(m)
            self.assertEqual(min(m, 10), m)
            return x

        program, _, constraints = _core.capture(
            lambda x, y: [f(x, y)], "f[N in 1..9]", ["x", "y"], ["f32[T]", "f32[N]"], {"T": 3, "N": 4}
        )
        self.assertEqual(constraints, ())

    def test_guards(self):
        """What is not proved is answered for the call at hand, and noted in one form."""
        for use, answer, text in (
            (lambda n: n > 3, True, "T >= 4"),
            (lambda n: 3 < n, True, "T >= 4"),
            (lambda n: n - 1 >= 3, True, "T >= 4"),
            (lambda n: n <= 3, False, "T >= 4"),
            (lambda n: n == 5, True, "T == 5"),
            (lambda n: n != 5, False, "T == 5"),
            (lambda n: n == 4, False, "T != 4"),
            (lambda n: n < 5.5, True, "T <= 5"),
            (lambda n: bool(n), True, "T != 0"),
            (lambda n: 2 * n + 1 > 10, True, "2*T >= 10"),
            (lambda n: n % 2 == 1, True, "T % 2 == 1"),
            (lambda n: n // 2 > n - 4, True, "T - (T // 2) <= 3"),
            (lambda n: len(range(n)), 5, "T == 5"),
            (lambda n: int(n + 1), 6, "T == 5"),
            (lambda n: float(n), 5.0, "T == 5"),
            (lambda n: hash(n), hash(5), "T == 5"),
            (lambda n: {5: "a"}[n], "a", "T == 5"),
            (lambda n: [0, 1, 2, 3, 4, 5][n], 5, "T == 5"),
            (lambda n: operator.index(n), 5, "T == 5"),
            (lambda n: min(n, 3), 3, "T >= 4"),
        ):
            with self.subTest(text=text):
                found = []
                f = lambda x: found.append(use(x.shape[0])) or x  # noqa: E731
                _, _, constraints = captured(f, ["f32[T]"], {"T": 5})
                self.assertEqual((found, constraints), ([answer], (text,)))
        for use, answer, text in (
            (len, 5, "T == 5"),
            (lambda x: len(list(x)), 5, "T == 5"),
            (lambda x: len(hop.unstack(x)), 5, "T == 5"),
            (lambda x: len(x[::2]), 3, "(T + 1) // 2 == 3"),
        ):
            found = []
            _, _, constraints = captured(lambda x: found.append(use(x)) or x, ["f32[T]"], {"T": 5})
            self.assertEqual((found, constraints[-1]), ([answer], text))

    def test_sizes_without_a_hint_are_compared_by_the_program(self):
        def f(x):
            n = x[x > 0].shape[0]
            few = n < 3
            self.assertIsInstance(few, hop.Tracer)
            self.assertIs(few.dtype, hop.bool)
            return [
                hop.cond(few, lambda: 1.0, lambda: 2.0),
                hop.where(n == 2, 10, 20),
                hop.cond((n > 0) & (n != 3), lambda: n, lambda: -1),
                hop.switch(n, [lambda: 0, lambda: 10, lambda: 20]),
            ]

        g = hop.jit(f)
        for x in ([1.0, -1.0, 2.0], [1.0, 2.0, 3.0], [-1.0, -2.0, -3.0]):
            n = sum(v > 0 for v in x)
            third = n if n not in (0, 3) else -1
            expected = [1.0 if n < 3 else 2.0, 10 if n == 2 else 20, third, 10 * min(n, 2)]
            self.assertEqual([v.item() for v in g(hop.asarray(x))], expected)

    def test_nothing_keeps_sizes(self):
        """Every size is gone when its capture is, after errors and guards too: each refers to its class."""

        def f(x):
            n, k = x.shape[0], x[x > 0].shape[0]
            for use in (
                lambda: n > 3, lambda: n < 2.5, lambda: k == 2, lambda: k < 1.5, lambda: divmod(n, 2),
                lambda: n**3, lambda: abs(n - 4), lambda: {n: 1}, lambda: min(n, 3), lambda: n // k,
                lambda: n + "a", lambda: n // 0, lambda: hop.minimum(n, k), lambda: x[n - 1 :], lambda: x[k:],
                lambda: float(n), lambda: n == "n",
            ):  # fmt: skip
                try:
                    use()
                except (TypeError, ZeroDivisionError):
                    pass
            return x * n + hop.zeros(n)

        captured(f, ["f32[T]"], {"T": 4})  # what is made once is made
        gc.collect()
        before = sys.getrefcount(hop.Size)
        for _ in range(5):
            captured(f, ["f32[T]"], {"T": 4})
        gc.collect()
        self.assertEqual(sys.getrefcount(hop.Size), before)

    def test_loops_are_bounded_by_sizes(self):
        """A loop over a size takes no guard, and its gradient neither."""

        def loss(w, x):
            h = hop.fori_loop(0, x.shape[0], lambda i, h: hop.tanh(w * h + x[i]), 0.0)
            return h + hop.scan(lambda c, _: (c * w, None), 1.0, length=x.shape[0])[0]

        gradient = lambda w, x: hop.grad(loss)(w, x)  # noqa: E731
        program, hidden, constraints = captured(gradient, ["f64[]", "f64[T]"], {"T": 5})
        self.assertEqual(constraints, ())
        exe = program.compile()
        for n in (0, 1, 2, 7):
            x = hop.astype(array(n), hop.float64)
            w = hop.asarray([0.3], dtype=hop.float64)
            found = exe.run([w[0], x, *hidden])[0]
            self.close(found, differences(lambda v: loss(v[0], x), w)[0], 1e-5)

    def test_nested(self):
        """Sizes from outside are the same sizes inside of bodies and of transforms."""

        def f(x):
            n = x.shape[0]
            k = x[x > 0].shape[0]

            def step(c, r):
                inner = hop.vmap(lambda v: hop.sum(hop.ones(n) * v) + hop.arange(k).shape[0])(x)
                return c + hop.zeros(n) + r, hop.sum(inner[: n // 2])

            carry, ys = hop.scan(step, hop.zeros(n), x)
            slope = hop.grad(lambda v: hop.sum(hop.cond(n > k, lambda: v * n, lambda: v[:n] * k)))(x)
            positive = hop.grad(lambda v: hop.sum(v[v > 0] ** 2 * hop.arange(v[v > 0].shape[0])))(x)
            return carry, ys, slope, positive, hop.reshape(hop.outer(x, x), (n * n,))

        g = hop.jit(f)
        program, hidden, constraints = captured(f, ["f32[T]"])
        self.assertEqual(constraints, ())
        for n in (4, 7, 2, 5, 1, 0):
            x = array(n, seed=n)
            expected = [hop.asarray(v) for v in hop.jit(f, dynamic=False)(x)]
            for found in (g(x), program.interpret([x, *hidden])):
                for a, b in zip(found, expected):
                    self.assertEqual(a.shape, b.shape)
                    self.close(a, b, 1e-4)

    def test_eval_shape(self):
        def f(x):
            n = x.shape[0]
            half = hop.ShapeDtypeStruct((n // 2,), x.dtype)
            made = hop.eval_shape(lambda a, b: (a + b, a[:2]), x[: n // 2], half)
            return x * len(made) + (made[0].dtype is x.dtype)

        program, hidden, _ = captured(f, ["f32[T]"])
        self.equal(program.interpret([hop.ones(3), *hidden])[0], [3.0] * 3)
        self.assertEqual(hop.eval_shape(lambda x: x[x > 0][:2], hop.ones((4,))).shape, (None,))

    def test_the_larger_of_two_sizes(self):
        """The same function for sizes that are numbers at first, then symbols."""

        def both(x, y):
            n = hop.maximum(x.shape[0], y.shape[0])
            return hop.stack([hop.pad(v, (0, n - v.shape[0])) for v in (x, y)])

        f = hop.jit(both)
        for a, b in ((2, 3), (4, 3), (5, 9), (9, 1), (6, 6), (0, 2)):
            self.assertEqual(f(hop.ones(a), hop.ones(b)).shape, (2, max(a, b)))
        self.assertEqual(len(f.guards()), 3)  # none a symbol, one of them, both

    def test_arguments_and_results(self):
        """A size is a weak integer where a value is wanted: as a result, an operand, a carry."""
        f = hop.jit(lambda x: {"n": x.shape[0], "two": 2 * x.shape[0], "k": x[x > 0].shape[0]})
        for n in (3, 5, 8):
            found = f(hop.asarray([1.0] * (n - 1) + [-1.0]))
            self.assertEqual({k: v.item() for k, v in found.items()}, {"n": n, "two": 2 * n, "k": n - 1})
            self.assertIs(found["n"].dtype, hop.int64)
        step = lambda c: (c[0] - 2, c[1] + 1)  # noqa: E731
        g = hop.jit(lambda x: hop.while_loop(lambda c: c[0] > 0, step, (x.shape[0], 0))[1])
        self.assertEqual([g(hop.zeros(n)).item() for n in (3, 4, 9)], [2, 2, 5])
        h = hop.jit(lambda x: hop.grad(lambda v, n: hop.sum(v) * n)(x, x.shape[0]))
        self.assertEqual([h(hop.zeros(n)).tolist() for n in (2, 3, 1)], [[2.0] * 2, [3.0] * 3, [1.0]])

    def test_one_row_of_a_size_of_a_run_broadcasts(self):
        f = hop.jit(lambda x: (lambda y: (y - y[:1], y * y[-1:], hop.where(y[:1] > 0, y, 0)))(x[x > 0]))
        for x in ([1.0, -1.0, 3.0], [-1.0, -2.0], [2.0]):
            y = hop.asarray([v for v in x if v > 0], dtype=hop.float32)
            for found, expected in zip(f(hop.asarray(x)), (y - y[:1], y * y[-1:], y)):
                self.equal(found, expected.tolist())
        g = hop.jit(lambda x, y: x[x > 0][:1] + y)
        self.equal(g(hop.ones(3), hop.ones(4)), [2.0] * 4)
        with self.assertRaisesRegex(hop.CheckError, "sizes agree"):
            g(-hop.ones(3), hop.ones(4))
        h = hop.jit(hop.grad(lambda x: hop.sum(x[x > 0] * x[x > 0][:1])))
        self.equal(h(hop.asarray([1.0, -1.0, 3.0])), [5.0, 0.0, 1.0])

    def test_bound_sizes(self):
        """Traced integers become sizes."""
        f = hop.jit(lambda n: (hop.arange(n), hop.zeros((n, 2)), hop.ones(n + 1)))
        for n in (0, 1, 4):
            a, b, c = f(n)
            self.assertEqual((a.tolist(), b.shape, c.shape), (list(range(n)), (n, 2), (n + 1,)))
        self.assertEqual(hop.jit(lambda n: hop.arange(n))(-2).shape, (0,))
        with self.assertRaises(hop.Error):
            hop.jit(lambda n: hop.zeros(n))(-2)
        g = hop.jit(lambda x, n: hop.repeat(x, n))
        self.assertEqual(g(hop.asarray([1, 2]), 3).tolist(), [1, 1, 1, 2, 2, 2])
        counts = hop.jit(lambda x, c: hop.repeat(x, c))
        self.assertEqual(counts(hop.asarray([5, 6, 7]), hop.asarray([2, 0, 1])).tolist(), [5, 5, 7])
        row = list(range(7))
        for part in (
            lambda x, n: x[:n], lambda x, n: x[n:], lambda x, n: x[1:n], lambda x, n: x[n::2],
            lambda x, n: x[n::-1], lambda x, n: x[:n:-2],
        ):  # fmt: skip
            cut = hop.jit(part)
            for n in (-9, -3, -1, 0, 1, 2, 5, 7, 20):
                self.assertEqual(cut(hop.asarray(row), n).tolist(), part(row, n))
        self.equal(hop.jit(lambda x, n: x.at[:n].set(0))(hop.ones(4), 2), [0.0, 0.0, 1.0, 1.0])
        self.equal(hop.jit(hop.grad(lambda x, n: hop.sum(x[:n] ** 2)))(hop.ones(3), 2), [2.0, 2.0, 0.0])
        wide = hop.jit(lambda x, n: hop.pad(x, (0, n)))
        self.equal(wide(hop.ones(1), 2), [1.0, 0.0, 0.0])
        slope = hop.jit(hop.grad(lambda x, n: hop.sum(hop.repeat(x, n) ** 2)))
        self.assertEqual(slope(hop.asarray([1.0, 3.0]), 2).tolist(), [4.0, 12.0])


class Mistakes(Case):
    def fails(self, kind, f, *parts, types=("f32[T, 3]",), hints=None):
        with self.assertRaises(kind) as caught:
            captured(f, list(types), hints)
        said = str(caught.exception)
        for part in parts:
            self.assertIn(part, said)
        return said

    def test_what_needs_a_number(self):
        declared = "the size T (of a value made at", "is declared to be any"
        for use in (
            lambda x: range(x.shape[0]), lambda x: int(x.shape[0]), lambda x: [0][x.shape[0]], len,
            lambda x: hash(x.shape[0]), lambda x: float(x.shape[0]), lambda x: {x.shape[0]: 1}, list,
            lambda x: hop.unstack(x), lambda x: operator.index(x.shape[0]),
        ):  # fmt: skip
            self.fails(hop.TracerError, use, __file__, *declared, "hop.fori_loop")
        of_run = "the size ?", "is known only when the program runs", "hop.scan(length=...)"
        self.fails(hop.TracerError, lambda x: range(x[x > 0].shape[0]), __file__, *of_run)
        self.fails(hop.TracerError, lambda x: len(x[x > 0]), *of_run, "len() or iteration")
        square = lambda x: hop.linalg.eigh(x[x > 0] * hop.eye(x[x > 0].shape[0]))  # noqa: E731
        self.fails(hop.TracerError, square, "eigh: ")
        self.fails(hop.TracerError, lambda x: hop.split(x, x.shape[0]), "number")

    def test_a_caught_error_ends_the_capture(self):
        def f(x):
            try:
                range(x[x > 0].shape[0])
            except TypeError:
                pass
            return x

        self.fails(hop.TracerError, f, "is known only when the program runs")

    def test_truth(self):
        said = self.fails(hop.TracerError, lambda x: 1 if x[x > 0].shape[0] > 2 else 0, "hop.cond")
        self.assertIn("hop.where", said)
        self.fails(hop.TracerError, lambda x: 1 if x[x > 0].shape[0] else 0, "whether the size ?", "hop.cond")

    def test_sizes_that_do_not_fit(self):
        for f, *parts in (
            (lambda x: x + hop.zeros((x.shape[0] + 1, 3)), "T"),
            (
                lambda x: hop.scan(lambda c, r: (hop.concat([c, hop.ones((1, 3))]), r), x, x),
                "the loop began with f32[T, 3]",
                "gives f32[T + 1, 3]",
            ),
            (lambda x: hop.vjp(lambda v: v, x)[1](hop.zeros((x.shape[0] + 1, 3))), "T + 1", "vjp"),
            (lambda x: hop.scan(lambda c, r: (c, r), 0.0, x, length=x.shape[0] + 1), "has length T", "T + 1"),
            (lambda x: hop.concat([x, hop.zeros((1, 2))]), "expected 3, found 2"),
            (lambda x: hop.zeros((x.shape[0], -2)), "-2"),
            (lambda x: hop.reshape(x, (-1, -1)), "-1"),
            (lambda x: hop.vmap(lambda a, b: a)(x, hop.zeros(x.shape[0] + 2)), "T", "T + 2"),
            (lambda x: hop.top_k(x[:, 0], -x.shape[0] - 1), "size"),
            (lambda x: hop.arange("3", x.shape[0]), "arange"),
            (lambda x: hop.zeros(x.shape[0] / 2), "zeros: shape: expected sizes", "// divides", "type f32[]"),
            (lambda x: hop.arange(0, x.shape[0], 0), "the step is 0"),
        ):
            with self.subTest(parts=parts):
                self.fails((hop.InvalidError, ValueError), f, *parts)
        self.fails(IndexError, lambda x: x[x.shape[0]], "index T is outside of axis 0, which has size T")
        self.fails(IndexError, lambda x: x[-x.shape[0] - 1], "outside of axis 0")

    def test_after_its_end(self):
        kept = []
        captured(lambda x: kept.append(x.shape[0]) or x, ["f32[T]"])
        self.assertIn("has ended", repr(kept[0]))
        for use in (lambda n: n + 1, lambda n: n > 1, int, hash, lambda n: hop.zeros(n), bool):
            with self.assertRaises(hop.TracerError) as caught:
                use(kept[0])
            self.assertIn("has ended", str(caught.exception))

    def test_checked_by_the_program(self):
        for f, x, text in (
            (lambda x: x[x > 0][2], [1.0, -1.0, -2.0], ""),
            (lambda x: hop.argmax(x[x > 0]), [-1.0], "there are elements"),
            (lambda x: x[x > 0] + x[x < 0], [1.0, 2.0, -1.0], "sizes agree"),
            (lambda x: hop.zeros(x.shape[0] // x[x > 0].shape[0]), [-1.0], "divided by one above 0"),
            (lambda x: hop.reshape(x[x > 0], (2, -1)), [1.0, 2.0, 3.0], ""),
        ):
            with self.assertRaises(hop.CheckError) as caught:
                hop.jit(f)(hop.asarray(x))
            self.assertIn(text, str(caught.exception))


# ---- random programs ----


class Program:
    """A random chain of steps on vectors: parts, sums, joins, loops by sizes. The same function runs at once,
    in a program for all sizes, and on sizes that only a run knows."""

    STEPS = "part join pad tile flip size loop mask choose made square index repeat at".split()

    def __init__(self, seed):
        r = self.random = random.Random(seed)
        self.steps = [(r.choice(self.STEPS), r.randint(0, 5), r.randint(-3, 4), r.random()) for _ in range(7)]

    def __call__(self, x):
        """A vector, whose elements depend on the sizes of all that came before."""
        y = x
        for kind, a, b, p in self.steps:
            y = getattr(self, kind)(x, y, a, b, p)
        return y

    def part(self, x, y, a, b, p):
        n = y.shape[0]
        edges = [None, a, b, n // 2, n - a, -(n // 3), n // (a + 1)]
        step = [1, 1, 2, -1, -2][a % 5]
        return y[edges[a] : edges[(a + b) % 7] : step] if p < 0.7 else y[edges[b % 7] :: step]

    def join(self, x, y, a, b, p):
        if p < 0.5:
            return hop.concat([y, x[:a], y[::2]])
        return hop.concat([hop.full(x.shape[0] // (a + 1), 0.5), y])

    def pad(self, x, y, a, b, p):
        return hop.pad(y, (a, x.shape[0] // 2 if p < 0.5 else 1), constant_values=b)

    def tile(self, x, y, a, b, p):
        return hop.tile(y[: 3 + a], x.shape[0] % 3 + 1)

    def flip(self, x, y, a, b, p):
        return hop.roll(hop.flip(y), b + (y.shape[0] // 2 if p < 0.5 else 0))

    def size(self, x, y, a, b, p):
        n, m = x.shape[0], y.shape[0]
        return y * ((n + b) % 5) + (m - n * a) / (n + 1)

    def loop(self, x, y, a, b, p):
        if p < 0.5:
            return hop.fori_loop(0, x.shape[0] % 4, lambda i, c: hop.sin(c) + i * 0.1, y)
        return hop.scan(lambda c, v: (c * 0.5 + v, c), 0.0, y)[1]

    def mask(self, x, y, a, b, p):
        y = hop.concat([y, hop.asarray([0.25])])
        return y[hop.sin(y * 3) > b * 0.2]

    def choose(self, x, y, a, b, p):
        if p < 0.5:
            return hop.cond(hop.sum(y) > b, lambda v: v[1:], lambda v: hop.concat([v, v[:a]]), y)
        return hop.where(hop.arange(y.shape[0]) < x.shape[0] // 2, y, -y)

    def made(self, x, y, a, b, p):
        n = hop.asarray(y.shape[0]) % 3 + a
        return hop.concat([y, hop.astype(hop.arange(n), hop.float32) * 0.5])

    def square(self, x, y, a, b, p):
        y = y[: 2 + a]
        return hop.reshape(hop.outer(y, y) + hop.eye(y.shape[0], k=b), (y.shape[0] * y.shape[0],))

    def index(self, x, y, a, b, p):
        y = hop.concat([y, hop.asarray([0.5, -0.5])])
        return y * y[y.shape[0] - 1] + y[(y.shape[0] - 1) // 2] - y[-2]

    def repeat(self, x, y, a, b, p):
        return hop.repeat(y[: 3 + a], x.shape[0] % 2 + 1)

    def at(self, x, y, a, b, p):
        y = hop.concat([y, hop.asarray([1.0])])
        return y.at[y.shape[0] // 2 :].add(b).at[-1].set(0.5).at[::2].multiply(1.5)


class RandomPrograms(Case):
    LENGTHS = (6, 3, 1, 0, 9)

    def check(self, name, found, expected, n):
        self.assertEqual([v.shape for v in found], [v.shape for v in expected], f"{name}, length {n}")
        for a, b in zip(found, expected):
            self.close(a, b, 2e-3)

    def test_values_and_gradients(self):
        for seed in range(40):
            with self.subTest(seed=seed):
                program = Program(seed)

                def both(x):
                    return program(x), hop.grad(lambda v: hop.sum(hop.sin(program(v))))(x)

                everything, hidden, constraints = captured(both, ["f32[T]"])
                self.assertEqual(constraints, ())
                g = hop.jit(both)
                for n in self.LENGTHS:
                    x = array(n, seed=seed)
                    numbers, more, _ = captured(both, [x])
                    expected = [program(x), numbers.interpret([x, *more])[1]]
                    self.check("all sizes", everything.interpret([x, *hidden]), expected, n)
                    wide = hop.concat([x, hop.full(2, -9.0)])
                    cut, more, _ = captured(lambda v: program(v[v > -8]), [wide])
                    self.check("sizes of a run", cut.interpret([wide, *more]), expected[:1], n)
                    if seed % 10 == 0:
                        self.check("jit", g(x), expected, n)


if __name__ == "__main__":
    unittest.main()
