"""NumPy's functions beside the array-API standard: values against NumPy's, at once and compiled,
derivatives against differences, batches against single calls."""

import unittest

import hop
from hop import _numpy
from support import Case, needs_numpy, numpy as np

if np is not None:
    rng = np.random.default_rng(0)
    A, B, C = rng.normal(size=(4, 3)), rng.normal(size=(4, 3)), rng.normal(size=(2, 3, 4))
    V, W, U = rng.normal(size=5), rng.normal(size=7), rng.normal(size=5)
    I, J = rng.integers(-9, 9, 12), rng.integers(1, 9, 12)
    N = np.where(rng.random((5, 4)) < 0.3, np.nan, rng.normal(size=(5, 4)))
    N[:, 0] = np.arange(5.0)
    S = np.asarray([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan, 0.3])

# name: calls of it; an array is an argument of the compiled function, what else is there is part of the
# program.
CALLS = {
    "absolute": lambda: [(A,)],
    "amax": lambda: [(A, 1), (A,)],
    "amin": lambda: [(A, 0)],
    "around": lambda: [(A, 2)],
    "conjugate": lambda: [(A,)],
    "concatenate": lambda: [([A, B],), ([A, B], 1), ([A, B], None)],
    "fix": lambda: [(A * 3,)],
    "rint": lambda: [(A * 3,)],
    "arccos": lambda: [(np.tanh(V),)],
    "arccosh": lambda: [(1 + V * V,)],
    "arcsin": lambda: [(np.tanh(V),)],
    "arcsinh": lambda: [(V,)],
    "arctan": lambda: [(V,)],
    "arctan2": lambda: [(V, U)],
    "arctanh": lambda: [(np.tanh(V),)],
    "bitwise_count": lambda: [(J,)],
    "invert": lambda: [(I,)],
    "left_shift": lambda: [(I, J)],
    "right_shift": lambda: [(I, J)],
    "ascontiguousarray": lambda: [(A.T,)],
    "mod": lambda: [(I, J), (V, U)],
    "power": lambda: [(np.abs(V), U)],
    "true_divide": lambda: [(V, U)],
    "cross": lambda: [(A, B)],
    "fabs": lambda: [(V,), (I,)],
    "float_power": lambda: [(J, 2)],
    "deg2rad": lambda: [(A,)],
    "rad2deg": lambda: [(A,)],
    "radians": lambda: [(A,)],
    "degrees": lambda: [(I,)],
    "sinc": lambda: [(S[:4],), (A,)],
    "heaviside": lambda: [(S, 0.5), (A, 1.0)],
    "fmax": lambda: [(S, S[::-1]), (A, B)],
    "fmin": lambda: [(S, S[::-1]), (I, J)],
    "logaddexp2": lambda: [(V, U)],
    "divmod": lambda: [(I, J), (V, U)],
    "modf": lambda: [(S[:6],), (A * 5,)],
    "ldexp": lambda: [(V, np.arange(5) - 2)],
    "gcd": lambda: [(I, J), (I * 6, 4), (np.asarray([0, 0]), np.asarray([0, 5]))],
    "lcm": lambda: [(I, J), (np.asarray([0]), np.asarray([0]))],
    "isneginf": lambda: [(S,)],
    "isposinf": lambda: [(S,)],
    "nan_to_num": lambda: [(S,), (I,)],
    "unwrap": lambda: [
        (np.cumsum(V) * 3,), (np.cumsum(C * 4, 1), None, 1), (np.asarray([0.0, 4.0, 8.0, 2.0]), 4.0),
    ],
    "identity": lambda: [(3,), (2, "int64")],
    "copy": lambda: [(A,)],
    "tri": lambda: [(3,), (3, 4, 1), (3, 2, -1)],
    "tril_indices": lambda: [(3,), (3, 1), (3, -1, 5), (4, 2, 2), (2, 9)],
    "triu_indices": lambda: [(3,), (3, 1), (3, -1, 5), (4, -2, 2), (2, 9), (2, -9)],
    "diag_indices": lambda: [(3,), (2, 3)],
    "diag": lambda: [(V,), (V, 1), (V, -2), (A,), (A, 1), (A, -2)],
    "diagflat": lambda: [(A, 1)],
    "vander": lambda: [(V,), (V, 3), (I, 2), (V, 0), (V, 1)],
    "logspace": lambda: [(0.0, 2.0), (0.0, 3.0, 4), (0, 2, 5, False)],
    "geomspace": lambda: [(1.0, 8.0, 4), (-2.0, -32.0, 5), (1, 1000, 4, False)],
    "indices": lambda: [((2, 3),)],
    "ix_": lambda: [(np.asarray([1, 0]), np.asarray([2, 0, 1]))],
    "unravel_index": lambda: [(np.asarray([0, 5, 11]), (3, 4))],
    "ravel_multi_index": lambda: [((np.asarray([0, 1, 2]), np.asarray([0, 1, 3])), (3, 4))],
    "ravel": lambda: [(A,)],
    "transpose": lambda: [(A,), (C, (2, 0, 1)), (V,)],
    "rollaxis": lambda: [(C, 2), (C, 0, 2), (C, 1, 3), (C, -1, -2)],
    "rot90": lambda: [(A,), (A, 2), (C, -1, (1, 2)), (C, 4), (C, 1, (2, 0))],
    "fliplr": lambda: [(A,)],
    "flipud": lambda: [(V,)],
    "atleast_1d": lambda: [(3.0,), (A,), (3.0, V)],
    "atleast_2d": lambda: [(3.0,), (V,), (A, V)],
    "atleast_3d": lambda: [(3.0,), (V,), (A,), (C,)],
    "vstack": lambda: [([V, U],), ([A, B],), ([A, A[0]],)],
    "hstack": lambda: [([V, W],), ([A, B],), ([1.0, 2.0],)],
    "dstack": lambda: [([V, U],), ([A, B],), ([C, C],)],
    "column_stack": lambda: [([V, U],), ([A, A[:, 0]],)],
    "block": lambda: [([[A, A], [B, B]],), ([V, W],), ([[A], [A[0]]],), (A,)],
    "append": lambda: [(A, B), (A, B, 0), (V, 3.0)],
    "delete": lambda: [(V, 1), (A, [0, -1], 0), (A, slice(0, 3, 2), 0), (A, 2, 1), (V, [])],
    "insert": lambda: [
        (V, 1, 9.0), (V, [1, 1, 4], [7.0, 8.0, 9.0]), (A, 1, B[0], 0), (A, 2, np.arange(4.0), 1),
        (A, [0, 2], 5.0, 1), (A, -1, B[:2], 0), (V, 5, [1.0, 2.0]), (A, 2, 1.0),
    ],
    "array_split": lambda: [(V, 3), (W, [2, 9]), (A, 2, 1), (V, 1)],
    "vsplit": lambda: [(A, 2)],
    "hsplit": lambda: [(A, 3), (V, [2])],
    "dsplit": lambda: [(C, 2)],
    "dot": lambda: [(V, U), (A, A.T), (C, A), (A.T, C.transpose(0, 2, 1)), (3.0, A), (C, W[:4])],
    "inner": lambda: [(V, U), (A, B), (C, C[0]), (2.0, A)],
    "vdot": lambda: [(A, B)],
    "kron": lambda: [(V, U), (A, B), (A, V), (2.0, A)],
    "convolve": lambda: [
        (a, b, m)
        for a, b in ((V, W), (W, V), (V, V[:1]), (V, V[:4]), (V[:2], W))
        for m in ("full", "same", "valid")
    ],
    "correlate": lambda: [
        (a, b, m)
        for a, b in ((V, W), (W, V), (V, V[:1]), (V, V[:4]), (V[:2], W))
        for m in ("full", "same", "valid")
    ],
    "array_equal": lambda: [(A, A), (A, B), (A, V), (S, S), (S, S, True)],
    "array_equiv": lambda: [(A, A[:1]), (np.ones((2, 2)), np.ones(2)), (A, V)],
    "isin": lambda: [(I, J), (I, [3]), (I, [])],
    "unique": lambda: [(I,), (I, True), (I, True, True, True), (I, False, False, True)],
    "union1d": lambda: [(I, J)],
    "intersect1d": lambda: [(I, J)],
    "setdiff1d": lambda: [(I, J)],
    "setxor1d": lambda: [(np.unique(I), np.unique(J))],
    "argwhere": lambda: [(A > 0,)],
    "flatnonzero": lambda: [(A > 0,)],
    "extract": lambda: [(A > 0, A)],
    "compress": lambda: [(np.asarray([True, False, True]), A, 1), (A.ravel() > 0, A)],
    "apply_along_axis": lambda: [],
    "cumsum": lambda: [(A,), (A, 0), (C, -1), (I, 0, "int64")],
    "cumprod": lambda: [(A,), (A, 1)],
    "lexsort": lambda: [((J, I),), ((I % 3, J % 2),)],
    "ptp": lambda: [(A,), (A, 1)],
    "median": lambda: [(A,), (A, 1), (C, (0, 2))],
    "percentile": lambda: [(A, 30), (A, [10.0, 50], 0)],
    "average": lambda: [
        (A,), (A, 0), (A, 1, np.abs(V[:3])), (A, None, np.abs(B)), (A, 0, np.abs(B), True),
        (A, 1, None, True),
    ],
    "cov": lambda: [(A,), (V,), (V, U), (A, None, False)],
    "corrcoef": lambda: [(A,), (V, U), (A, None, False)],
    "trapezoid": lambda: [
        (V,), (V, np.cumsum(np.abs(U))), (A, None, 0.5, 0), (A, np.arange(4.0) ** 2, 1.0, 0),
    ],
    "ediff1d": lambda: [(V,), (A, 1.0, [2.0, 3.0])],
    "gradient": lambda: [
        (V,), (A,), (A, 2.0), (V, np.cumsum(np.abs(U))), (A, 0.5, np.asarray([0.0, 1.0, 4.0])),
    ],
    "bincount": lambda: [(J,), (J, V[J % 5]), (J, None, 20), (np.asarray([], dtype=int),)],
    "digitize": lambda: [
        (V, np.asarray([-1.0, 0.0, 1.0])), (I, np.asarray([-3, 0, 3]), True), (I, np.asarray([3, 0, -3])),
        (I, np.asarray([3, 0, -3]), True),
    ],
    "histogram_bin_edges": lambda: [(W,), (W, 3), (W, 3, (-1.0, 1.0)), (np.ones(3), 2)],
    "histogram": lambda: [
        (W,),
        (W, 3),
        (W, 3, (-0.5, 0.5)),
        (W, np.asarray([-1.0, 0.0, 2.0])),
        (W, 4, None, True),
        (I * 1.0, 4, None, False, np.arange(12.0)),
        (np.ones(3), 2),
    ],
    "nansum": lambda: [(N,), (N, 0)],
    "nanprod": lambda: [(N, 1)],
    "nancumsum": lambda: [(N,), (N, 0)],
    "nancumprod": lambda: [(N, 1)],
    "nanmean": lambda: [(N,), (N, 0)],
    "nanvar": lambda: [(N,), (N, 1)],
    "nanstd": lambda: [(N, 0)],
    "nanmax": lambda: [(N,), (N, 1)],
    "nanmin": lambda: [(N,), (N, 0)],
    "nanargmax": lambda: [(N,), (N, 1)],
    "nanargmin": lambda: [(N, 0)],
    "nanquantile": lambda: [(N, 0.3), (N, [0.1, 0.5], 0), (N, 0.9, (0, 1))],
    "nanpercentile": lambda: [(N, 30.0, 1)],
    "nanmedian": lambda: [(N,), (N, 0)],
    "polyval": lambda: [(V, A), (V, 2.0), ([3.0], A)],
    "polyadd": lambda: [(V, W)],
    "polysub": lambda: [(W, V)],
    "polymul": lambda: [(V, W)],
    "polyder": lambda: [(V,), (V, 2), (V, 5)],
    "polyint": lambda: [(V,), (V, 2), (V, 2, [3.0, 4.0])],
    "shape": lambda: [(A,)],
    "ndim": lambda: [(A,)],
    "size": lambda: [(A,), (A, 1)],
    "piecewise": lambda: [],
    "partition": lambda: [],
    "argpartition": lambda: [],
}  # fmt: skip
AT_ONCE = {"bincount", "ix_", "shape", "ndim", "size"}  # sizes or numbers of Python's depend on values
SIZES_OF_VALUES = {
    "unique", "union1d", "intersect1d", "setdiff1d", "setxor1d", "argwhere", "flatnonzero", "extract",
    "compress",
}


def parts(x):
    return [p for part in x for p in parts(part)] if isinstance(x, (tuple, list)) else [x]


class Values(Case):
    def test_all_names_are_here(self):
        functions = {
            n
            for n in _numpy.__all__
            if callable(getattr(hop, n)) and not isinstance(getattr(hop, n), type(hop.float32))
        }
        self.assertEqual(functions - set(CALLS), set())

    def alike(self, found, expected, what):
        found, expected = parts(found), parts(expected)
        self.assertEqual(len(found), len(expected), what)
        for x, y in zip(found, expected):
            y = np.asarray(y)
            self.assertEqual(np.shape(x), y.shape, what)
            if isinstance(x, hop.Array):
                self.assertEqual(x.dtype.kind == "f", y.dtype.kind == "f", what)
            self.assertTrue(
                np.allclose(np.asarray(x, dtype="f8"), y.astype("f8"), rtol=2e-6, atol=1e-6, equal_nan=True),
                (what, x, y),
            )

    @needs_numpy
    def test_against_numpy(self):
        for name, calls in CALLS.items():
            for args in calls():
                with self.subTest(f"{name}{args!r:.200}"), np.errstate(all="ignore"):
                    function, wanted = getattr(hop, name), getattr(np, name)
                    expected = wanted(*args)
                    self.alike(function(*args), expected, name)
                    given = [a for a in args if isinstance(a, np.ndarray)]
                    if name in AT_ONCE or not given:
                        continue

                    def whole(*arrays, args=args, function=function):
                        rest = iter(arrays)
                        return function(*[next(rest) if isinstance(a, np.ndarray) else a for a in args])

                    self.alike(hop.jit(whole)(*given), expected, name)
                    first = given[0]
                    if name in SIZES_OF_VALUES or name in ("atleast_1d", "array_equal") or not first.size:
                        continue
                    lanes = [np.stack([g, g]) for g in given]
                    self.alike(hop.tree.map(lambda x: x[1], hop.vmap(whole)(*lanes)), expected, name)

    @needs_numpy
    def test_options(self):
        self.alike(hop.vander(V, increasing=True), np.vander(V, increasing=True), "vander")
        self.alike(hop.logspace(0, 4, 5, base=2.0), np.logspace(0, 4, 5, base=2.0), "logspace")
        self.alike(
            hop.nan_to_num(S, nan=1.0, posinf=2.0, neginf=3.0),
            np.nan_to_num(S, nan=1.0, posinf=2.0, neginf=3.0),
            "nan_to_num",
        )
        self.alike(hop.unwrap(W * 9, period=2.0), np.unwrap(W * 9, period=2.0), "unwrap")
        self.alike(hop.indices((2, 3), sparse=True), np.indices((2, 3), sparse=True), "indices")
        self.alike(hop.isin(I, J, invert=True), np.isin(I, J, invert=True), "isin")
        self.alike(hop.cov(A, correction=0), np.cov(A, ddof=0), "cov")
        self.alike(hop.nanvar(N, 0, correction=1), np.nanvar(N, 0, ddof=1), "nanvar")
        for name in ("nansum", "nanmean", "nanmax", "nanmedian", "nanstd", "median", "ptp", "average"):
            self.alike(
                getattr(hop, name)(N if name[0] == "n" else A, 1, keepdims=True),
                getattr(np, name)(N if name[0] == "n" else A, 1, keepdims=True),
                name,
            )
        self.alike(hop.gradient(C, axis=(0, 2)), np.gradient(C, axis=(0, 2)), "gradient")
        self.alike(
            hop.apply_along_axis(lambda v: v[:2] * hop.sum(v), 1, C),
            np.apply_along_axis(lambda v: v[:2] * v.sum(), 1, C),
            "apply",
        )
        self.alike(hop.apply_along_axis(hop.sum, -1, C), np.apply_along_axis(np.sum, -1, C), "apply")
        self.alike(
            hop.apply_along_axis(lambda v: hop.outer(v, v), 0, A),
            np.apply_along_axis(lambda v: np.outer(v, v), 0, A),
            "apply",
        )
        for functions in (
            [lambda x: -x, lambda x: x * 2],
            [1.0, 2.0, 3.0],
            [lambda x: x, 0.0, lambda x: x - 7],
        ):
            self.alike(
                hop.piecewise(V, [V < -0.5, V > 0.5], functions),
                np.piecewise(V, [V < -0.5, V > 0.5], functions),
                "piecewise",
            )
        self.alike(hop.partition(A, 1, 0), np.sort(A, 0), "partition")
        self.alike(hop.argpartition(A, 1, None), np.argsort(A, None), "argpartition")
        self.alike(hop.bincount(hop.asarray(J), length=4), np.bincount(J, minlength=20)[:4], "bincount")
        self.alike(hop.jit(lambda j: hop.bincount(j, length=9))(J), np.bincount(J, minlength=9), "bincount")
        self.alike(
            hop.delete(A, np.asarray([True, False, True]), 1), np.delete(A, [True, False, True], 1), "delete"
        )
        every = np.asarray([[np.nan, 1.0], [np.nan, np.nan]])
        with np.testing.suppress_warnings() as quiet:
            quiet.filter(RuntimeWarning)
            for name in ("nanmax", "nanmin", "nanmean", "nanvar", "nanmedian"):
                self.alike(getattr(hop, name)(every, 0), getattr(np, name)(every, 0), name)
        x = hop.asarray(A)
        self.alike(
            (x.cumsum(), x.cumsum(0), x.cumprod(1), x.copy()),
            (A.cumsum(), A.cumsum(0), A.cumprod(1), A),
            "methods",
        )
        self.assertNotEqual(x.copy()._pointer, x._pointer)

    @needs_numpy
    def test_derivatives(self):
        h = [hop.asarray(x) for x in (A, B, V, U, W, C)]
        a, b, v, u, w, c = h
        points = hop.cumsum(hop.abs(v) + 0.1)
        scalars = [
            (lambda x, y: hop.vstack([x, y]), (a, b)),
            (lambda x, y: hop.dstack([x, y]), (v, u)),
            (lambda x: hop.block([[x, x], [x, x * 2]]), (a,)),
            (lambda x, y: hop.insert(x, [1, 3], y[:2]), (v, u)),
            (lambda x: hop.delete(x, 2), (v,)),
            (lambda x, y: hop.dot(x, y.T), (a, b)),
            (hop.inner, (a, b)),
            (hop.vdot, (a, b)),
            (hop.kron, (a, b)),
            (lambda x, y: hop.convolve(x, y, "same"), (v, w)),
            (lambda x, y: hop.correlate(x, y, "full"), (v, w)),
            (hop.sinc, (a,)),
            (hop.diag, (v,)),
            (hop.vander, (v,)),
            (lambda x: hop.average(x, 0, hop.abs(b) + 1), (a,)),
            (lambda x: hop.average(a, 1, x), (hop.abs(v[:3]) + 1,)),
            (hop.cov, (a,)),
            (hop.corrcoef, (a,)),
            (lambda x: hop.trapezoid(x, points), (v,)),
            (lambda x: hop.trapezoid(v, x), (points,)),
            (lambda x: hop.gradient(x, points), (v,)),
            (hop.median, (v,)),
            (lambda x: hop.percentile(x, 30), (v,)),
            (hop.ptp, (v,)),
            (lambda x: hop.nan_to_num(x), (v,)),
            (lambda p, x: hop.polyval(p, x), (v, a)),
            (hop.polymul, (v, w)),
            (hop.polyder, (v,)),
            (hop.polyint, (v,)),
            (hop.logaddexp2, (v, u)),
            (hop.fmax, (v, u)),
            (lambda x: hop.rot90(x, 1, (0, 2)), (c,)),
            (lambda x: hop.cumsum(x), (a,)),
            (lambda x: hop.cumprod(x, 1), (a,)),
            (lambda x: hop.nanquantile(x, 0.3, 0), (a,)),
            (lambda x: hop.nanvar(x, 1), (a,)),
            (hop.unwrap, (v * 0.1,)),
            (lambda x: hop.apply_along_axis(lambda l: l / hop.sum(l * l), 0, x), (a,)),
        ]  # fmt: skip
        for i, (f, args) in enumerate(scalars):
            with self.subTest(i):
                hop.check_grads(lambda *xs, f=f: hop.sum(hop.sin(f(*xs))), args, order=1)
        slopes = hop.grad(lambda x: hop.nansum(x) + hop.nanmean(x) + hop.nanmax(x))(
            hop.asarray([1.0, np.nan, 3.0])
        )
        self.equal(slopes, [1.5, 0, 2.5])
        self.equal(hop.grad(hop.sinc)(0.0), 0)

    @needs_numpy
    def test_mistakes(self):
        x = hop.asarray(A)
        for call, text in [
            (lambda: hop.geomspace(-1.0, 1.0), "geomspace: expected two numbers of one sign"),
            (lambda: hop.convolve(x, V), "convolve: x1: expected a vector"),
            (lambda: hop.convolve(V, V, "all"), "convolve: mode"),
            (lambda: hop.rot90(x, 1, (0, 0)), "rot90: axes"),
            (lambda: hop.vstack(3), "vstack: arrays: expected several arrays"),
            (lambda: hop.block([[x], x]), "block: expected lists nested to one depth"),
            (lambda: hop.bincount(np.asarray([-1])), "bincount: expected integers of at least 0, found -1"),
            (lambda: hop.jit(lambda j: hop.bincount(j))(J), "bincount: x: expected integers, known while"),
            (lambda: hop.average(x, 0, weights=W), "average: weights: expected the shape of"),
            (lambda: hop.delete(V, 9), "delete: obj"),
            (lambda: hop.ix_(x), "ix_: argument 0"),
            (lambda: hop.gradient(V[:1]), "gradient: expected two elements at least"),
            (
                lambda: hop.piecewise(V, [V > 0], [1, 2, 3]),
                "piecewise: functions: expected 1 functions, or one more",
            ),
            (lambda: hop.gcd(1.5, 2), "gcd: expected integers"),
            (lambda: hop.cov(x, ddof=0), "use correction=0"),
            (lambda: hop.nanmedian(hop.zeros(0)), "nanmedian: there are no elements"),
            (lambda: hop.histogram(V, bins=0), "histogram: bins"),
            (lambda: hop.array_split(V, 0), "array_split: parts"),
        ]:  # fmt: skip
            with self.assertRaisesRegex((TypeError, ValueError), text):
                call()


if __name__ == "__main__":
    unittest.main()
