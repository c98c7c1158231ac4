"""Functions of JAX's modules that hop spells thinly (lax, nn, tree_util, flatten_util, debug, random, jax
itself): against their definitions."""

import contextlib
import dataclasses
import functools
import io
import math
import unittest

import hop
from support import Case, needs_numpy, numpy


def vector(*numbers):
    return hop.asarray(list(numbers), dtype=hop.float64)


class Lax(Case):
    def test_elements(self):
        x, y = hop.asarray([7, -7, 8]), hop.asarray([2, 2, -3])
        self.equal(hop.div(x, y), [3, -3, -2], hop.int64)
        self.equal(hop.rem(x, y), [1, -1, 2])
        self.equal(hop.div(7.0, 2), 3.5)
        self.equal(hop.sub(x, y), [5, -9, 11])
        self.equal(hop.mul(x, y), [14, -14, -24])
        self.equal(hop.neg(x), [-7, 7, -8])
        self.equal(hop.integer_pow(x, 2), [49, 49, 64])
        for name, expected in (
            ("eq", [0, 0, 0]),
            ("ne", [1, 1, 1]),
            ("lt", [0, 1, 0]),
            ("le", [0, 1, 0]),
            ("gt", [1, 0, 1]),
            ("ge", [1, 0, 1]),
        ):
            self.equal(getattr(hop, name)(x, y), [bool(e) for e in expected])
        self.equal(hop.shift_left(x, 1), [14, -14, 16])
        self.equal(hop.shift_right_arithmetic(hop.asarray([-8], dtype=hop.int8), 1), [-4])
        self.equal(hop.shift_right_arithmetic(hop.asarray([128], dtype=hop.uint8), 1), [192], hop.uint8)
        self.equal(hop.shift_right_logical(hop.asarray([-8], dtype=hop.int8), 1), [124], hop.int8)
        self.equal(hop.bitwise_not(x), [-8, 6, -9])
        self.equal(hop.population_count(hop.asarray([7, 8])), [3, 1])
        self.equal(hop.clz(hop.asarray([1], dtype=hop.uint8)), [7])
        self.equal(hop.is_finite(hop.asarray([1.0, math.inf])), [True, False])
        self.equal(hop.logistic(0.0), 0.5)
        self.equal(hop.clamp(-1.0, vector(-3, 0, 3), 2.0), [-1, 0, 2])
        self.equal(hop.convert_element_type(hop.asarray([1.5]), "int32"), [1], hop.int32)

    def test_choices(self):
        x = vector(1, -2, 3)
        self.equal(hop.select(x > 0, x, -x), [1, 2, 3])
        self.equal(hop.select([x > 2, x > 0], [x * 10, x * 100], -1.0), [100, -1, 30])
        self.equal(hop.select([x > 2], [x]), [0, 0, 3])
        self.equal(hop.select_n(x > 0, x, -x), [-1, -2, -3])
        self.equal(hop.select_n(hop.asarray([0, 1, 7]), x, x * 2, x * 3), [1, -4, 9])
        for bad in (lambda: hop.select([x > 0], [x, x]), lambda: hop.select([], [])):
            with self.assertRaisesRegex(hop.InvalidError, "select: on_true: expected a list of"):
                bad()
        with self.assertRaisesRegex(
            hop.InvalidError, "select_n: which: expected integers that number 3 cases"
        ):
            hop.select_n(x > 0, x, x, x)

    def test_shapes(self):
        x = hop.asarray([1, 2])
        self.equal(hop.broadcast(x, (2, 1)), [[[1, 2]], [[1, 2]]])
        self.equal(hop.broadcast_in_dim(x, (2, 3), (0,)), [[1, 1, 1], [2, 2, 2]])
        self.equal(hop.broadcast_in_dim(3, (2,), ()), [3, 3])
        for bad in ((), (2,), (0, 1)):
            with self.assertRaisesRegex(hop.InvalidError, "broadcast_dimensions: expected"):
                hop.broadcast_in_dim(x, (2, 3), bad)
        m = hop.arange(6).reshape((2, 3))
        self.equal(hop.rev(m, (0, 1)), [[5, 4, 3], [2, 1, 0]])
        self.equal(hop.iota(hop.float32, 3), [0, 1, 2], hop.float32)
        self.equal(hop.broadcasted_iota("int32", (2, 3), 0), [[0, 0, 0], [1, 1, 1]], hop.int32)
        self.equal(hop.broadcasted_iota(hop.int64, (2, 3), -1), [[0, 1, 2], [0, 1, 2]])
        self.equal(hop.one_hot(hop.asarray([0, 2]), 3, axis=0), [[1, 0], [0, 0], [0, 1]])

    def test_parts(self):
        m = hop.arange(12).reshape((3, 4))
        self.equal(hop.slice(m, (1, 0), (3, 4), (1, 2)), [[4, 6], [8, 10]])
        self.equal(hop.slice_in_dim(m, 1, None, 2, axis=1), [[1, 3], [5, 7], [9, 11]])
        self.equal(hop.index_in_dim(m, 1), [[4, 5, 6, 7]])
        self.equal(hop.index_in_dim(m, -1, axis=1, keepdims=False), [3, 7, 11])
        for how in (lambda f: f, hop.jit):
            i = hop.asarray(2)
            self.equal(
                how(lambda v, k: hop.dynamic_slice_in_dim(v, k, 2, axis=1))(m, i), [[2, 3], [6, 7], [10, 11]]
            )
            self.equal(
                how(lambda v, k: hop.dynamic_slice_in_dim(v, k, 2))(m, i), [[4, 5, 6, 7], [8, 9, 10, 11]]
            )
            self.equal(how(lambda v, k: hop.dynamic_index_in_dim(v, k, keepdims=False))(m, i), [8, 9, 10, 11])
            self.equal(how(lambda v, k: hop.dynamic_index_in_dim(v, k, 1))(m, i), [[2], [6], [10]])
            zeros = hop.asarray([0, 0, 0])
            updated = [[0, 1, 0, 3], [4, 5, 0, 7], [8, 9, 0, 11]]
            self.equal(how(lambda v, k: hop.dynamic_update_index_in_dim(v, zeros, k, 1))(m, i), updated)
            self.equal(
                how(lambda v, k: hop.dynamic_update_slice_in_dim(v, zeros[:, None], k, 1))(m, i), updated
            )
        for bad in (
            lambda: hop.slice(m, (0,), (3,)),
            lambda: hop.slice_in_dim(m, 0, 2, 0),
            lambda: hop.slice(m, (0, -1), (1, 1)),
        ):
            with self.assertRaises(hop.InvalidError):
                bad()

    @needs_numpy
    def test_dot_general(self):
        draw = numpy.random.default_rng(0)
        a, b = draw.normal(size=(2, 3, 4, 5)), draw.normal(size=(5, 2, 4, 6))
        found = hop.dot_general(hop.asarray(a), hop.asarray(b), (((2, 3), (2, 0)), ((0,), (1,))))
        self.close(found, numpy.einsum("bfcd,dbcg->bfg", a, b), 1e-12)
        self.close(
            hop.dot_general(hop.asarray(a[0, 0]), hop.asarray(a[1, 0]), (([0, 1], [0, 1]), ([], []))),
            (a[0, 0] * a[1, 0]).sum(),
            1e-12,
        )
        wide = hop.dot_general(
            hop.ones((2, 3), dtype=hop.int8),
            hop.ones(3, dtype=hop.int8),
            (((1,), (0,)), ((), ())),
            preferred_element_type=hop.int32,
        )
        self.equal(wide, [3, 3], hop.int32)
        for bad in (3, ((1,), (0,)), (((1,), ()), ((), ())), (((9,), (0,)), ((), ()))):
            with self.assertRaisesRegex(hop.InvalidError, "dot_general|axis"):
                hop.dot_general(hop.ones((2, 3)), hop.ones(3), bad)


class Dtypes(Case):
    def test_they_are_functions(self):
        self.equal(hop.float32(1), 1.0, hop.float32)
        self.equal(hop.float64(0.1), 0.1, hop.float64)
        self.equal(hop.int32(2.7), 2, hop.int32)
        self.equal(hop.int32([1.5, -1.5]), [1, -1], hop.int32)
        self.equal(hop.bool_(2), True, hop.bool)
        self.equal(hop.uint8(), 0, hop.uint8)
        self.equal(hop.float16(hop.arange(2)), [0, 1], hop.float16)
        self.equal(hop.jit(lambda v: hop.int8(v * 2))(hop.asarray([1.6])), [3], hop.int8)
        self.equal((hop.float32(1.5) + 1), 2.5, hop.float32)
        self.equal(hop.grad(lambda v: hop.float64(v) ** 2)(3.0), 6.0)
        self.equal(hop.map(hop.int32, hop.asarray([1.5])), [1], hop.int32)
        with self.assertRaises((ValueError, OverflowError)):
            hop.uint8(300)
        self.assertIs(hop.bool_, hop.bool)

    def test_they_are_no_numbers(self):
        with self.assertRaisesRegex(hop.InvalidError, "found the dtype float32"):
            hop.cond(hop.float32, lambda: 1, lambda: 2)


class Nn(Case):
    def test_values(self):
        x = [-4.0, -1.0, 0.0, 0.5, 7.0]
        elu = [math.expm1(v) if v <= 0 else v for v in x]
        formulas = {
            "leaky_relu": [v if v >= 0 else 0.01 * v for v in x],
            "elu": elu,
            "celu": elu,
            "selu": [1.0507009873554805 * (v if v > 0 else 1.6732632423543772 * math.expm1(v)) for v in x],
            "relu6": [min(max(v, 0), 6) for v in x],
            "hard_sigmoid": [min(max(v + 3, 0), 6) / 6 for v in x],
            "hard_silu": [v * min(max(v + 3, 0), 6) / 6 for v in x],
            "hard_tanh": [min(max(v, -1), 1) for v in x],
            "log_sigmoid": [-math.log1p(math.exp(-v)) for v in x],
            "mish": [v * math.tanh(math.log1p(math.exp(v))) for v in x],
            "soft_sign": [v / (1 + abs(v)) for v in x],
            "squareplus": [(v + math.sqrt(v * v + 4)) / 2 for v in x],
            "swish": [v / (1 + math.exp(-v)) for v in x],
            "identity": x,
        }
        for name, expected in formulas.items():
            self.close(getattr(hop.nn, name)(vector(*x)), expected, 1e-12)
        for name in (
            "relu", "gelu", "silu", "softmax", "log_softmax", "sigmoid", "softplus", "one_hot", "logsumexp",
            "tanh",
        ):
            self.assertIs(getattr(hop.nn, name), getattr(hop, name))
        self.equal(hop.grad(hop.nn.elu)(-1e30), 0.0)

    def test_along_axes(self):
        x = vector(1, 2, 3, 4)
        self.close(hop.nn.glu(x), [v / (1 + math.exp(-w)) for v, w in ((1, 3), (2, 4))], 1e-12)
        with self.assertRaisesRegex(hop.InvalidError, "even number of elements"):
            hop.nn.glu(x[:3])
        root = math.sqrt(1.25 + 1e-5)
        self.close(hop.nn.standardize(x), [(v - 2.5) / root for v in (1, 2, 3, 4)], 1e-12)
        self.close(hop.nn.standardize(x, mean=1.0, variance=4.0, epsilon=0.0), [0, 0.5, 1, 1.5], 1e-12)


class TreeUtil(Case):
    def test_names(self):
        x = {"a": (1, 2), "b": [3]}
        leaves, treedef = hop.tree_util.tree_flatten(x)
        self.assertEqual(leaves, [1, 2, 3])
        self.assertEqual(hop.tree_util.tree_unflatten(treedef, leaves), x)
        self.assertEqual(hop.tree_util.tree_map(lambda a, b: a + b, x, x), {"a": (2, 4), "b": [6]})
        self.assertEqual(hop.tree_util.tree_reduce(lambda a, b: a * 10 + b, x), 123)
        self.assertEqual(hop.tree.reduce(lambda a, b: a * 10 + b, x, 9), 9123)
        self.assertEqual(hop.tree.reduce(lambda a, b: a + b, (), 5), 5)
        self.assertTrue(hop.tree.all(x))
        self.assertFalse(hop.tree_util.tree_all({"a": True, "b": [0]}))
        self.assertTrue(hop.tree.all(()))
        paths = [hop.tree_util.keystr(path) for path, _ in hop.tree_util.tree_leaves_with_path(x)]
        self.assertEqual(paths, ["['a'][0]", "['a'][1]", "['b'][0]"])
        self.assertTrue(hop.tree_util.treedef_is_leaf(hop.tree.structure(1)))
        self.assertEqual(hop.tree_util.treedef_tuple([treedef, treedef]), hop.tree.structure((x, x)))
        self.assertTrue(hop.tree_util.all_leaves(leaves))
        self.assertFalse(hop.tree_util.all_leaves([x]))
        outer = hop.tree.structure([0, 0])
        for inner in (None, hop.tree.structure({"v": 0})):
            self.assertEqual(hop.tree.transpose(outer, inner, [{"v": 1}, {"v": 2}]), {"v": [1, 2]})

    def test_classes(self):
        @hop.tree_util.register_pytree_node_class
        class Point:
            def __init__(self, x, y):
                self.x, self.y = x, y

            def tree_flatten(self):
                return (self.x,), self.y

            @classmethod
            def tree_unflatten(cls, rest, children):
                return cls(*children, rest)

        g = hop.jit(hop.grad(lambda p: p.x**2 * p.y))(Point(3.0, 2))
        self.assertEqual((g.x.item(), g.y), (12.0, 2))

        class Box:
            def __init__(self, inside):
                self.inside = inside

        hop.tree_util.register_pytree_with_keys(
            Box, lambda b: ([("inside", b.inside)], None), lambda _, c: Box(*c)
        )
        self.assertEqual(hop.tree.map(lambda v: v + 1, Box(1)).inside, 2)

        @functools.partial(hop.tree_util.register_dataclass, data_fields=["w"], meta_fields=["name"])
        @dataclasses.dataclass
        class Layer:
            name: str
            w: object

        made = hop.tree.map(lambda v: v * 2, Layer("first", 3))
        self.assertEqual((made.name, made.w), ("first", 6))

        @hop.tree_util.register_static
        @dataclasses.dataclass(frozen=True)
        class Mode:
            name: str

        self.assertEqual(hop.tree.leaves([Mode("a"), 1]), [1])
        self.equal(hop.jit(lambda m, x: x * len(m.name))(Mode("abc"), 2.0), 6.0)

    def test_partial(self):
        p = hop.tree_util.Partial(lambda a, b, c=0: a * b + c, 2.0, c=1.0)
        self.equal(hop.jit(lambda f, x: f(x))(p, 3.0), 7.0)
        self.equal(hop.grad(lambda f: f(3.0))(p).args[0], 3.0)
        self.equal(hop.jit(lambda x: hop.tree_util.Partial(hop.add, x))(1.0)(hop.asarray(2.0)), 3.0)

    def test_ravel(self):
        x = {"b": hop.asarray([3], dtype=hop.int32), "a": vector(1, 2).reshape((1, 2)), "c": 4.0}
        flat, unravel = hop.flatten_util.ravel_pytree(x)
        self.equal(flat, [1, 2, 3, 4], hop.float64)
        again = unravel(flat * 2)
        self.equal(again["a"], [[2, 4]], hop.float64)
        self.equal(again["b"], [6], hop.int32)
        self.equal(again["c"], 8.0, hop.float32)
        g = hop.grad(lambda v: hop.sum(unravel(v)["a"] ** 2))(flat)
        self.equal(g, [2, 4, 0, 0])
        self.assertEqual(hop.flatten_util.ravel_pytree(())[0].shape, (0,))
        with self.assertRaisesRegex(hop.InvalidError, "unravel: expected a vector of 4 elements, found"):
            unravel(flat[:3])


class Jax(Case):
    def test_shapes_without_numbers(self):
        ran = []

        def f(p, n, scale=1.0):
            ran.append(isinstance(p["w"], hop.Tracer))
            return {
                "y": p["w"] @ hop.ones((4, 2), dtype=hop.float64) * scale,
                "n": n + 1,
                "kept": p["w"][p["w"] > 0],
            }

        big = hop.ShapeDtypeStruct((1 << 40, 4), hop.float64)
        out = hop.eval_shape(f, {"w": big}, 3, scale=2.0)
        self.assertEqual(
            (out["y"].shape, out["y"].dtype, out["y"].ndim, out["y"].size),
            ((1 << 40, 2), hop.float64, 2, 1 << 41),
        )
        self.assertEqual(out["n"], hop.ShapeDtypeStruct((), hop.int64))
        self.assertEqual((out["kept"].shape, out["kept"].size), ((None,), None))
        self.assertEqual(ran, [True])
        self.assertEqual(repr(out["n"]), "ShapeDtypeStruct(shape=(), dtype=int64)")
        self.assertEqual(len({out["n"], hop.ShapeDtypeStruct((), "int64")}), 1)
        with self.assertRaisesRegex(TypeError, "argument 0"):
            hop.eval_shape(lambda v: v, object())

    def test_programs(self):
        made = hop.make_jaxpr(lambda v: hop.sin(v) + 1)(0.5)
        self.assertIn("sin", str(made))
        self.assertEqual(str(made), hop.jit(lambda v: hop.sin(v) + 1).text(0.5))

    def test_nothing_runs_in_the_background(self):
        x = hop.ones(2)
        self.assertIs(x.block_until_ready(), x)
        tree = {"a": x}
        self.assertIs(hop.block_until_ready(tree), tree)
        self.equal(hop.device_put([1.0, x])[0], 1.0)
        with self.assertRaisesRegex(hop.InvalidError, "device_put: device"):
            hop.device_put(x, "gpu")

    @needs_numpy
    def test_device_get(self):
        out = hop.device_get({"a": hop.ones(2), "b": 3})
        self.assertIsInstance(out["a"], numpy.ndarray)
        self.assertEqual(out["b"], 3)

    def test_debug(self):
        seen = []
        with contextlib.redirect_stdout(io.StringIO()) as out:
            hop.jit(lambda v: hop.debug.print("v is {v}, {}", v + 1, v=v, ordered=True))(hop.asarray([1, 2]))
        self.assertEqual(out.getvalue(), "v is [1, 2], [2, 3]\n")
        hop.jit(
            lambda v: hop.debug.callback(
                lambda a, b: seen.append((a.item(), b.item())), v, b=v * 2, ordered=True
            )
        )(3)
        self.assertEqual(seen, [(3, 6)])


class Random(Case):
    N = 20000

    def setUp(self):
        self.key = hop.random.PRNGKey(11)

    def moments(self, x, mean, variance):
        self.assertEqual(x.shape, (self.N,))
        self.close(hop.mean(x), mean, 0.05)
        self.close(hop.var(x), variance, 0.15)

    def test_keys(self):
        self.equal(hop.random.PRNGKey(3), hop.random.key(3).tolist())
        self.equal(hop.random.wrap_key_data(hop.random.key_data(self.key)), self.key.tolist())

    def test_moments(self):
        for dtype in (hop.float32, hop.float64):
            self.moments(hop.random.logistic(self.key, (self.N,), dtype), 0, math.pi**2 / 3)
            self.moments(hop.random.laplace(self.key, (self.N,), dtype), 0, 2)
            self.moments(
                hop.random.lognormal(self.key, 0.5, (self.N,), dtype),
                math.exp(0.125),
                (math.exp(0.25) - 1) * math.exp(0.25),
            )
            self.moments(hop.random.rademacher(self.key, (self.N,), dtype), 0, 1)
            cauchy = hop.random.cauchy(self.key, (self.N,), dtype)
            self.close(hop.mean((hop.abs(cauchy) < 1).astype(hop.float32)), 0.5, 0.02)
        self.assertEqual(set(hop.random.rademacher(self.key, (50,)).tolist()), {-1, 1})
        self.assertEqual(hop.random.lognormal(self.key, vector(0.5, 1)).shape, (2,))

    def test_truncated_normal(self):
        phi = lambda v: math.exp(-v * v / 2) / math.sqrt(2 * math.pi)  # noqa: E731
        below = lambda v: 0.5 * math.erfc(-v / math.sqrt(2))  # noqa: E731
        above = lambda v: 0.5 * math.erfc(v / math.sqrt(2))  # noqa: E731
        for lo, hi in (
            (-1.0, 1.0),
            (0.5, 3.0),
            (-math.inf, 0.0),
            (6.0, 8.0),
            (-40.0, -30.0),
            (2.0, math.inf),
        ):
            for dtype in (hop.float32, hop.float64):
                x = hop.random.truncated_normal(self.key, lo, hi, (self.N,), dtype)
                self.assertEqual(x.dtype, dtype)
                self.assertTrue(bool(hop.all((x >= lo) & (x <= hi))), (lo, hi, dtype))
                if abs(lo) < 30:
                    mass = above(lo) - above(hi) if lo > 0 else below(hi) - below(lo)
                    self.close(hop.mean(x), (phi(lo) - phi(hi)) / mass, 0.02)
        x = hop.random.truncated_normal(self.key, vector(-1, 5), vector(1, 6))
        self.assertEqual(x.shape, (2,))
        self.assertTrue(bool(x[1] >= 5))
        f = lambda k: hop.random.truncated_normal(k, -2.0, 2.0, (5,))  # noqa: E731
        self.equal(hop.jit(f)(self.key), f(self.key).tolist())

    def test_truncated_normal_quantiles(self):
        """Sorted numbers are where the distribution function has as many below them."""
        x = hop.sort(hop.random.truncated_normal(self.key, -math.inf, math.inf, (self.N,), hop.float64))
        for q, expected in ((0.1, -1.2815515655446004), (0.5, 0.0), (0.9, 1.2815515655446004)):
            self.close(x[int(q * self.N)], expected, 0.05)

    def test_gamma_and_what_follows(self):
        for dtype in (hop.float32, hop.float64):
            for a in (0.3, 1.0, 2.5, 20.0):
                x = hop.random.gamma(self.key, a, (self.N,), dtype)
                self.assertEqual(x.dtype, dtype)
                self.assertTrue(bool(hop.all(x >= 0)))
                self.close(hop.mean(x) / a, 1, 0.05)
                self.close(hop.var(x) / a, 1, 0.15)
        x = hop.random.gamma(self.key, 1.0, (self.N,))  # exponential
        self.close(hop.mean((x < 1).astype(hop.float32)), 1 - math.exp(-1), 0.02)
        self.moments(hop.random.beta(self.key, 2.0, 3.0, (self.N,)), 0.4, 0.04)
        self.moments(hop.random.chisquare(self.key, 3, (self.N,)), 3, 6)
        self.moments(hop.random.t(self.key, 10.0, (self.N,)), 0, 1.25)
        p = hop.random.dirichlet(self.key, hop.asarray([1.0, 2.0, 5.0]), (self.N,))
        self.close(hop.mean(p, axis=0), [0.125, 0.25, 0.625], 0.02)
        self.close(hop.sum(p, axis=1)[:3], [1, 1, 1], 1e-5)
        self.assertEqual(hop.random.gamma(self.key, vector(1, 2)).shape, (2,))
        f = lambda k: hop.random.gamma(k, 0.5, (4,))  # noqa: E731
        self.equal(hop.jit(f)(self.key), f(self.key).tolist())
        keys = hop.random.split(self.key, 3)
        self.equal(hop.vmap(f)(keys)[1], f(keys[1]).tolist())
        self.equal(hop.grad(lambda a: hop.random.gamma(self.key, a))(2.0), 0.0)
        self.close(hop.random.gamma(self.key, vector(-1, 0, math.inf, math.nan)), [math.nan] * 4)
        with self.assertRaisesRegex(TypeError, "hop.random.gamma: a must be numbers above 0"):
            hop.random.gamma(self.key, True)

    def test_multivariate_normal(self):
        mean, cov = vector(1, -1), hop.asarray([[2.0, 0.5], [0.5, 1.0]], dtype=hop.float64)
        x = hop.random.multivariate_normal(self.key, mean, cov, (self.N,), hop.float64)
        self.close(hop.mean(x, axis=0), [1, -1], 0.05)
        centred = x - mean
        self.close(centred.mT @ centred / self.N, cov, 0.1)
        self.assertEqual(hop.random.multivariate_normal(self.key, mean, cov).shape, (2,))
        with self.assertRaisesRegex(ValueError, "expected a mean"):
            hop.random.multivariate_normal(self.key, mean, cov[:1])


class Messages(Case):
    def test_what_there_is_not(self):
        for name in (
            "pmap", "lax", "numpy", "config", "pshuffle", "pswapaxes", "ffi", "named_scope",
            "scipy", "sharding", "typing",
        ):
            with self.assertRaisesRegex(AttributeError, f"hop has no '{name}': .+"):
                getattr(hop, name)
        with self.assertRaisesRegex(AttributeError, "hop.nn has no 'initializers': use hop.random.normal"):
            hop.nn.initializers
        with self.assertRaisesRegex(AttributeError, "hop.random has no 'poisson': "):
            hop.random.poisson


if __name__ == "__main__":
    unittest.main()
