"""Nonsense: every public function, called with arguments of the wrong kind, raises an exception that says
which function it is about, or works; nothing crashes and nothing internal comes out.

Each function has one or more calls that work; one argument after the other is replaced by nonsense, then
several at once, drawn from a seed. HOP_TEST_SEED draws others, HOP_TEST_SEEDS more of them."""

import inspect
import os
import random
import re
import tempfile
import unittest

import hop
from support import Case, numpy

SEED = int(os.environ.get("HOP_TEST_SEED", "1"))
ROUNDS = int(os.environ.get("HOP_TEST_SEEDS", "3"))

# What an exception may be. OverflowError: of a number that does not fit, if it says so.
FAIR = (
    hop.InvalidError, hop.TracerError, hop.CheckError, hop.UnavailableError, hop.FileError, TypeError,
    ValueError, IndexError, BufferError, NotImplementedError, MemoryError,
)


class Wrong:
    """A value of the user's own class."""


class Mine(Exception):
    """What a function of the user's raises."""


def raises(*_, **__):
    raise Mine


def x(*shape):
    return hop.ones(shape)


def nonsense():
    """Everything that an argument may be by mistake."""
    loop = []
    loop.append(1.0)
    values = [
        None, True, -1, 7, 2**40, 2**63, 2**70, -(2**70), 1.5, -0.0, float("nan"), float("inf"), 1e300, 1j,
        "", "text", "0", "\x00", "a" * 300, b"bytes", (), [], {}, set(), (1, 2), [1, "a"], [[1], [2, 3]],
        {"a": 1}, (None,), slice(1, 2), ..., range(3), object(), Wrong(), Wrong, int, print, len,
        lambda *a, **k: None, lambda *a, **k: a[0] if a else 1, raises, NotImplemented, Exception("e"),
        hop.float32, "float32", hop, x(), x(0), x(1), x(2, 3), x(5, 5), hop.asarray(3), hop.asarray(True),
        hop.asarray([1, 2, 3]), hop.asarray([-(2**63)]), hop.asarray([True, False]),
        hop.asarray([float("nan")]), hop.zeros(2, dtype=hop.uint64), hop.float64,
        hop.zeros(2, dtype=hop.bfloat16), iter([1]), (i for i in range(2)),
    ]  # fmt: skip
    if numpy is not None:
        values += [
            numpy.float32(1.5),
            numpy.int8(3),
            numpy.ones(2),
            numpy.ones((2, 2), dtype=complex),
            numpy.array(["a"]),
            numpy.array([None]),
            numpy.ma.masked_array([1.0], mask=[True]),
            numpy.bool_(True),
            numpy.datetime64("2020"),
        ]
    return values


class Nobody:
    """An engine that wants nothing."""

    name = "nobody"

    def compile(self, text, params, results, function):
        return None


def square(v):
    return v * v


def calls():
    """name -> [(positional arguments, named ones)] of calls that work."""
    v, m, i = hop.asarray([0.5, 0.25, 0.75]), hop.asarray([[2.0, 0.5], [0.5, 1.0]]), hop.asarray([2, 0, 1])
    key = hop.random.key(0)
    out = {}

    def add(names, *args, **named):
        for name in names.split():
            out.setdefault(name, []).append((args, named))

    add("check_grads", hop.sin, (1.0,), order=1, modes=("fwd",))
    add("asarray array", [1.0, 2.0], dtype=hop.float32)
    add("from_dlpack", v)
    add("full", (2, 3), 1.5, dtype=hop.float32)
    add("zeros ones empty", (2, 3), dtype=hop.float32)
    add("full_like", v, 2)
    add("zeros_like ones_like empty_like", v, dtype=hop.float32)
    add("arange", 0, 5, 1, dtype=hop.float32)
    add("linspace", 0.0, 1.0, 5, endpoint=True)
    add("eye", 3, 4, k=1)
    add("tril triu", m, k=0)
    add("meshgrid", v, v, indexing="xy")
    add(
        "abs acos asin asinh atan atanh ceil conj cos cosh exp expm1 floor imag isfinite isinf isnan log "
        "log1p log2 log10 negative positive real reciprocal round sign signbit sin sinh square sqrt tan tanh "
        "trunc exp2 cbrt rsqrt sigmoid relu silu softplus erf erfc lgamma stop_gradient keep recompute "
        "logical_not acosh",
        v,
    )  # fmt: skip
    ranks, parts = hop.mesh(2, "i"), hop.asarray([1.0, 2.0, 3.0, 4.0])
    cut = hop.distribute(parts, ranks, hop.P("i"))
    add("mesh make_mesh", (2,), ("i",))
    add("distribute", parts, ranks, [hop.Shard(0)])
    add("collect", cut)
    add("redistribute", cut, [hop.Replicate()], ranks)
    add("local_map", square, [hop.Shard(0)], in_placements=([hop.Shard(0)],), device_mesh=ranks)
    add("shard_map", square, ranks, in_specs=hop.P("i"), out_specs=hop.P("i"))
    add("popcount count_leading_zeros bitwise_invert", i)
    add(
        (
            "add atan2 copysign divide equal floor_divide greater greater_equal hypot less less_equal "
            "logaddexp logical_and logical_or logical_xor maximum minimum multiply nextafter not_equal pow "
            "remainder subtract fmod"
        ),
        v,
        v,
    )
    add("bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor", i, i)
    add("clip", v, 0.1, 0.5)
    add("gelu", v, approximate=True)
    add("fma", v, v, v)
    add("isclose allclose", v, v, rtol=1e-5, atol=1e-8, equal_nan=True)
    add("interp", v, v, v)
    add("where", v > 0.3, v, v)
    add("astype", v, hop.float64)
    add("max min mean sum prod any all argmax argmin count_nonzero logsumexp", m, axis=0, keepdims=True)
    add("var std", m, axis=0, correction=1, keepdims=False)
    add("quantile", v, 0.5, axis=0)
    add("softmax log_softmax", m, axis=-1)
    add(
        "cumulative_sum cumulative_prod cumulative_max cumulative_min cumulative_logsumexp", v, axis=0,
        reverse=False,
    )
    add("linear_recurrence", v, v, axis=0)
    add("diff", v, axis=-1, n=1)
    add("sort argsort", v, axis=-1, descending=False)
    add("top_k", v, 2, axis=-1)
    add("searchsorted", v, v, side="left")
    add("nonzero", v, size=2, fill_value=0)
    add("reshape", m, (4,))
    add("permute_dims", m, (1, 0))
    add("matrix_transpose", m)
    add("moveaxis", m, 0, 1)
    add("swapaxes", m, 0, 1)
    add("expand_dims", m, axis=0)
    add("squeeze", x(1, 2), axis=0)
    add("broadcast_to", v, (2, 3))
    add("broadcast_shapes", (2, 1), (1, 3))
    add("broadcast_arrays", v, m[:, :1])
    add("concat stack", [v, v], axis=0)
    add("unstack", m, axis=0)
    add("split", m, 2, axis=0)
    add("split", m, [1], axis=0)
    add("flip", m, axis=0)
    add("roll", m, 1, axis=0)
    add("tile", m, (2, 1))
    add("repeat", m, 2, axis=0)
    add("pad", m, (1, 1), "constant", constant_values=0)
    add("pad", m, ((1, 1), (0, 2)), "reflect")
    add(
        "absolute around conjugate fix rint arccos arccosh arcsin arcsinh arctan arctanh ascontiguousarray "
        "fabs deg2rad rad2deg radians degrees sinc modf isneginf isposinf copy ravel flatnonzero argwhere "
        "unique diagflat polyder polyint ediff1d gradient unwrap nan_to_num",
        v,
    )  # fmt: skip
    add(
        (
            "amax amin ptp median average nansum nanprod nanmean nanvar nanstd nanmax nanmin nanargmax "
            "nanargmin nanmedian cumsum cumprod nancumsum nancumprod trapezoid size"
        ),
        m,
        axis=0,
    )
    add("percentile nanpercentile", m, 30.0, axis=0)
    add("nanquantile", m, 0.3, axis=0)
    add("bitwise_count invert", i)
    add("left_shift right_shift gcd lcm", i, 1)
    add("arctan2 mod power true_divide float_power heaviside fmax fmin logaddexp2 divmod", v, v)
    add("ldexp", v, 2)
    add("concatenate", [v, v], axis=0)
    add("vstack hstack dstack column_stack block", [v, v])
    add("cross", v, v)
    add("identity tri diag_indices tril_indices triu_indices", 3)
    add("diag vander", v, 1)
    add("logspace geomspace", 1.0, 2.0, 5, endpoint=True)
    add("indices", (2, 3))
    add("ix_ atleast_1d atleast_2d atleast_3d", v)
    add("unravel_index", i, (3, 4))
    add("ravel_multi_index", (i, i), (3, 4))
    add("shape ndim fliplr flipud rot90", m)
    add("transpose", m, (1, 0))
    add("rollaxis", m, 1, 0)
    add("append", v, v, axis=0)
    add("delete", v, 1, axis=0)
    add("insert", v, 1, 2.0, axis=0)
    add("array_split", v, 2, axis=0)
    add("vsplit hsplit", m, 1)
    add("dsplit", hop.ones((1, 1, 2)), 2)
    add(
        (
            "dot inner vdot kron convolve correlate array_equal array_equiv isin union1d intersect1d "
            "setdiff1d setxor1d polyadd polysub polymul polyval extract compress digitize"
        ),
        v,
        v,
    )
    add("piecewise", v, [v > 0], [1.0, 2.0])
    add("apply_along_axis", hop.sum, 0, m)
    add("lexsort", (v, v), axis=0)
    add("partition argpartition", v, 1, axis=0)
    add("cov corrcoef", m, None, True)
    add("bincount", i, minlength=3)
    add("histogram histogram_bin_edges", v, 3)
    add("printoptions", precision=8, threshold=1000, edgeitems=3, linewidth=75, suppress=False)
    add("take", m, i[:1], axis=0)
    add("take_along_axis", m, i[:2].reshape((2, 1)) % 2, axis=0)
    add("dynamic_slice", m, (0, 1), (1, 1))
    add("dynamic_update_slice", m, x(1, 1), (0, 1))
    add("one_hot", i, 4)
    add("reduce_window", m, 0.0, "sum", 1, window_strides=1, padding="VALID", window_dilation=1)
    add("max_pool min_pool avg_pool", x(1, 1, 2, 2), 2, strides=1, padding=0, dilation=1, layout="NCHW")
    add("adaptive_avg_pool adaptive_max_pool", x(1, 1, 2, 2), 1, layout="NCHW")
    add("resize", m, (3, 3), method="linear", align_corners=False)
    add("grid_sample", x(1, 1, 2, 2), x(1, 1, 1, 2), mode="bilinear", padding_mode="zeros")
    add("map_coordinates", v, (v,), order=1, mode="nearest")
    add("conv", x(1, 1, 4), x(1, 1, 2), strides=1, padding="SAME", dilation=1, groups=1, layout="NCW")
    add("conv_transpose", x(1, 1, 4), x(1, 1, 2), strides=1, padding=0, output_padding=0, dilation=1)
    add("conv_general_dilated", x(1, 1, 4), x(1, 1, 2), (1,), "VALID")
    add("matmul", m, m)
    add("tensordot", m, m, axes=1)
    add("vecdot", v, v, axis=-1)
    add("einsum", "ij,jk->ik", m, m)
    add("outer", v, v)
    add("diagonal trace", m, offset=0)
    add("print", "{}", v)
    add("check", v > 0, "positive", v)
    add("cond", True, square, square, v)
    add("switch", 1, [square, square], v)
    add("while_loop", lambda c: c < 3.0, lambda c: c + 1.0, 0.0, max_trips=20, stack=False)
    add("fori_loop", 0, 3, lambda k, c: c + 1.0, 0.0)
    add("scan", lambda c, e: (c + e, c), 0.0, v, length=3, reverse=False, dim=0)
    add("associative_scan", lambda a, b: a + b, v, reverse=False, axis=0)
    add("map", square, v, sequential=False, batch_size=2)
    q, later = x(1, 2, 3, 2), lambda b, h, i, j: i >= j
    add("flex_attention", q, q, q, lambda s, b, h, i, j: s + i, scale=0.5, enable_gqa=False,
        return_lse=False, kernel_options=None, mask_mod=later, return_aux=None, first_query=0)  # fmt: skip
    add("flex_attention", q, q, q, None, hop.create_block_mask(later, None, None, 3, 3))
    add("attention", q, q, q, bias=x(3, 3), mask=x(3, 3) > 0, is_causal=True, scale=0.5,
        query_seq_lengths=hop.asarray([3]), key_value_seq_lengths=hop.asarray([2]), local_window_size=(1, 1),
        layout="bhtd")  # fmt: skip
    add("create_block_mask", later, None, 2, 6, 6, 2)
    add("and_masks or_masks", later, later)
    add("noop_mask", 0, 0, 0, 0)
    add("jit", square, static_argnums=(), donate_argnums=(), static_argnames=(), donate_argnames=())
    add(
        "grad value_and_grad",
        lambda e: hop.sum(e * e),
        argnums=0,
        has_aux=False,
        allow_int=True,
        holomorphic=False,
    )
    add("jacfwd jacrev jacobian hessian", square, argnums=0, has_aux=False, holomorphic=False)
    add("vjp linearize", square, v, has_aux=False)
    add("jvp", square, (v,), (v,), has_aux=False)
    add("vmap", square, in_axes=0, out_axes=0, axis_size=None, spmd_axis_name=None)
    add("checkpoint_name", v, "a")
    add("probe", v, "a")
    add("probes", square, None, repeated="stack")
    add("perturb", square, None, repeated="stack")
    add("checkpoint remat", square, policy=hop.policies.products, static_argnums=())
    add("debug_nans", square, infinities=True)
    add("checkpoint remat", square, policy=None, static_argnums=())
    add("custom_gradient", lambda e: (e, lambda g: g))
    add("straight_through", hop.round)
    add("clip_gradient", v, -1.0, 1.0)
    add("reverse_gradient", v, 0.5)
    add("hook", v, lambda *given: given[-1], state=None, when=None, host=False)
    add("linear_transpose", lambda e: 2 * e, v)
    add("custom_root", lambda e: 2 * e - 1, v, lambda f, e: e - f(e) / 2, lambda g, y: y / 2)
    add("custom_linear_solve", lambda e: 2 * e, v, lambda f, b: b / 2, symmetric=True)
    add("region", "mine", bits=8)
    add("delegate", square, Nobody(), check=False, rtol=None, atol=0.0)
    add("region_rewriting", "nonsense", lambda attributes, body: body, version=1)
    add("debug_callback", square, v)
    add("Object", "text", kind="text")
    add("pure_callback", square, v, v, sharding=None, vmap_method="sequential", vectorized=None)
    add("io_callback", square, v, v, sharding=None, ordered=False)
    add(
        "operator", "nonsense(x: f32[N]) -> f32[N]", square, infer=None, effect=None, version=0,
        strided=False, lanes="each",
    )  # fmt: skip
    add("check_operator", hop.operator("(x: f32[N]) -> f32[N]", square), (v,), tests="schema")
    add("batch_matmul", m, m)
    add("bitwise_not clz population_count", i)
    add("is_finite logistic neg block_until_ready", v)
    add("sub mul div rem eq ne lt le gt ge integer_pow", v, v)
    add("shift_left shift_right_arithmetic shift_right_logical", i, i)
    add("cummax cummin cumlogsumexp", v, axis=0, reverse=False)
    add("clamp", 0.1, v, 0.5)
    add("select", v > 0.3, v, v)
    add("select", [v > 0.3, v > 0.6], [v, v], 0.0)
    add("select_n", i, v, v, v)
    add("convert_element_type", v, hop.float64)
    add("broadcast", v, (2,))
    add("broadcast_in_dim", v, (2, 3), (1,))
    add("rev", m, (0,))
    add("iota", hop.float32, 3)
    add("broadcasted_iota", hop.float32, (2, 3), 1)
    add("slice", m, (0, 1), (2, 2), (1, 1))
    add("slice_in_dim", m, 0, 1, stride=1, axis=0)
    add("index_in_dim dynamic_index_in_dim", m, 1, axis=0, keepdims=False)
    add("dynamic_slice_in_dim", m, 0, 1, axis=0)
    add("dynamic_update_slice_in_dim", m, x(1, 2), 0, axis=0)
    add("dynamic_update_index_in_dim", m, x(2), 0, axis=0)
    add("dot_general", m, m, (((1,), (0,)), ((), ())), preferred_element_type=None)
    add("vectorize", square, excluded=(), signature="()->()")
    add("linalg.norm", m, ord=2, axis=0, keepdims=True)
    add("eval_shape", square, v)
    add("make_jaxpr", square)
    add("read", "fn @f(%x: f32[]) -> (f32[]) { return %x }", name="f")
    add("device_put", v, device=None)
    add("nn.elu nn.celu nn.leaky_relu", v, 1.0)
    add("nn.glu", x(2, 4), axis=-1)
    add("nn.standardize", m, axis=-1, mean=None, variance=None, epsilon=1e-5)
    add(
        (
            "nn.hard_tanh nn.hard_silu nn.hard_sigmoid nn.log_sigmoid nn.mish nn.relu6 nn.selu nn.soft_sign "
            "nn.squareplus"
        ),
        v,
    )
    add("random.logistic random.laplace random.cauchy random.rademacher", key, (2,), hop.float32)
    add("random.lognormal", key, 0.5, (2,), hop.float32)
    add("random.truncated_normal", key, -1.0, 1.0, (2,), hop.float32)
    add("random.gamma random.chisquare random.t", key, 2.0, (2,), hop.float32)
    add("random.beta", key, 2.0, 3.0, (2,), hop.float32)
    add("random.dirichlet", key, v, (2,), hop.float32)
    add("random.multivariate_normal", key, v[:2], m, (3,), hop.float32)
    add("flatten_util.ravel_pytree", {"a": v})
    add("tree.all tree_util.tree_leaves", {"a": True})
    add("tree.reduce", square, (v,))
    add("isdtype", hop.float32, "integral")
    add("result_type", hop.float32, v)
    add("promote_types can_cast", hop.float32, hop.float64)
    add("finfo", hop.float32)
    add("iinfo", hop.int32)
    add("unique_all unique_counts unique_inverse unique_values", i)
    add("random.key", 3)
    add("random.split", key, 2)
    add("random.fold_in", key, 3)
    add("random.uniform random.normal", key, (2,))
    add("random.randint", key, (2,), 0, 5)
    add("random.bernoulli", key, 0.5, (2,))
    add("random.permutation", key, 4)
    add("random.shuffle", key, v)
    add("random.choice", key, v, (2,))
    add(
        (
            "linalg.cholesky linalg.det linalg.inv linalg.eigh linalg.eigvalsh linalg.qr linalg.slogdet "
            "linalg.svd linalg.svdvals linalg.pinv linalg.matrix_rank linalg.matrix_norm linalg.trace "
            "linalg.diagonal"
        ),
        m,
    )
    add("linalg.solve linalg.matmul linalg.tensordot", m, m)
    add("linalg.matrix_power", m, 2)
    add("linalg.vector_norm", v, axis=0, ord=2)
    add("linalg.cross linalg.outer linalg.vecdot", v, v)
    add("tree.leaves tree.structure tree.flatten tree.leaves_with_path tree.flatten_with_path", {"a": v})
    add("tree.map", square, {"a": v}, is_leaf=None)
    add("tree.unflatten", hop.tree.structure((1,)), [1])
    add("optim.sgd optim.adam", 0.1)
    return {name: given for name, given in out.items() if lookup(name) is not None}


def lookup(name):
    at = hop
    for part in name.split("."):
        at = getattr(at, part, None)
        if at is None:
            return None
    return at


def endless(name, at, value):
    """A large number of steps is no mistake; it takes long."""
    return name == "fori_loop" and at in (0, 1) and isinstance(value, int) and abs(value) > 1000


def with_one(args, named, at, value):
    """The call with one argument replaced."""
    if isinstance(at, int):
        return (*args[:at], value, *args[at + 1 :]), named
    return args, {**named, at: value}


# What these say comes from Python itself, or from the function that they were given, and need not say their
# name.
UNNAMED = set(
    "concatenate append vsplit hsplit dsplit apply_along_axis lexsort partition argpartition from_dlpack "
    "empty empty_like arange argmax argmin cumulative_sum cumulative_prod cumulative_max cumulative_min "
    "cumulative_logsumexp linear_recurrence sort argsort top_k nonzero reshape matrix_transpose swapaxes "
    "check_grads expand_dims concat stack split roll repeat pad dynamic_slice dynamic_update_slice tensordot "
    "vecdot einsum cond switch while_loop fori_loop scan associative_scan map jit grad value_and_grad jacfwd "
    "local_map shard_map "
    "flex_attention create_block_mask "
    "jacrev jacobian hessian vjp linearize jvp vmap debug_nans checkpoint remat eval_shape make_jaxpr "
    "isdtype finfo iinfo random.key random.fold_in linalg.eigvalsh linalg.svdvals trace diagonal "
    "linalg.trace linalg.diagonal linear_transpose custom_root custom_linear_solve straight_through "
    "pure_callback io_callback check_operator".split()
)
# Functions that take functions apart from the one they are given: what that raises, it raises; anything may
# go through trees.
ANY_TREE = re.compile(r"tree\.|debug_callback|stop_gradient|print|check$")


class Nonsense(Case):
    def attempt(self, name, args, named, what):
        f = lookup(name)
        try:
            made = f(*args, **named)
            if name in (
                "jit", "grad", "value_and_grad", "jacfwd", "jacrev", "jacobian", "hessian", "vmap",
                "checkpoint", "remat", "local_map", "shard_map",
            ):
                made(hop.ones(3))
        except Mine:
            pass
        except OverflowError as error:
            self.assertIn("does not fit", str(error), what)
            self.names(name, error, what)
        except FAIR as error:
            self.names(name, error, what)
        except Exception as error:
            self.fail(f"{what}: {type(error).__name__}: {error}")

    def names(self, name, error, what):
        """The message says which function it is about: by its name, or that of the operator behind it."""
        self.assertFalse(type(error).__name__.startswith("_"), what)
        said = str(error)
        self.assertTrue(said, what)
        if ANY_TREE.match(name) or name in UNNAMED or isinstance(error, MemoryError):
            return
        words = set(re.findall(r"\w+", said))
        own = {name.split(".")[-1], lookup(name).__name__}  # one function may have several names
        known = bool(words & (own | self.operators))
        self.assertTrue(
            known, f"{what}: the message does not say which function: {type(error).__name__}: {said}"
        )

    @classmethod
    def setUpClass(cls):
        cls.operators = set(hop._core.codes)
        cls.calls = calls()

    def test_the_calls_work(self):
        for name, given in self.calls.items():
            for args, named in given:
                lookup(name)(*args, **named)

    def test_all_functions_are_here(self):
        """A new function gets a line above."""
        kind = type(hop.sum)
        public = {
            n for n in hop.__all__ if isinstance(getattr(hop, n, None), kind) and not n.startswith("__")
        }
        public -= {"save", "load", "show", "device_get", "get_printoptions", "set_printoptions"}
        public -= {"clear_caches", "get_threads", "set_threads"}
        public -= set(hop._lanes.__all__)  # these need lanes around them: test_axes.py
        self.assertEqual(sorted(public - set(self.calls)), [])

    def test_one_wrong_argument(self):
        for name, given in self.calls.items():
            for args, named in given:
                for at in [*range(len(args)), *named]:
                    for value in nonsense():
                        if endless(name, at, value):
                            continue
                        a, n = with_one(args, named, at, value)
                        self.attempt(name, a, n, f"{name}: argument {at!r} is {value!r:.80}")

    def test_one_traced_argument(self):
        """The same inside of a capture, with traced values where only known ones will do."""
        for name, given in self.calls.items():
            if name in (
                "jit", "grad", "value_and_grad", "jacfwd", "jacrev", "jacobian", "hessian", "vmap",
                "checkpoint", "remat", "local_map", "shard_map", "print",
                "pure_callback", "io_callback",  # what they are given is found wrong by the run
            ):
                continue
            for args, named in given:
                for at in [*range(len(args)), *named]:

                    def f(scalar, vector, whole):
                        for value in (scalar, vector, whole):
                            a, n = with_one(args, named, at, value)
                            self.attempt(name, a, n, f"{name}: argument {at!r} is {value!r}, traced")
                        return scalar

                    try:
                        hop.jit(f)(0.5, hop.ones(3), 1)
                    except FAIR as error:
                        # what only a run knows was asked for, and the capture says so at its end; or it
                        # became a size, which the run finds wrong
                        self.assertIsInstance(error, (hop.TracerError, hop.CheckError), name)

    def test_several_wrong_arguments(self):
        names = sorted(self.calls)
        for seed in range(SEED, SEED + ROUNDS):
            draw = random.Random(seed)
            for name in names:
                args, named = draw.choice(self.calls[name])
                for _ in range(4):
                    values = nonsense()
                    a = [draw.choice(values) if draw.random() < 0.6 else v for v in args]
                    a = [v if endless(name, i, w) else w for i, (v, w) in enumerate(zip(args, a))]
                    n = {k: draw.choice(values) if draw.random() < 0.6 else v for k, v in named.items()}
                    # with a body that changes nothing, the loop would be endless without it
                    if "max_trips" in n:
                        n["max_trips"] = named["max_trips"]
                    self.attempt(name, a, n, f"seed {seed}: {name}{tuple(a)!r:.300} {n!r:.200}")

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.npy")
            hop.save(path, x(2))
            for bad in nonsense():
                for call in (
                    lambda: hop.load(bad),
                    lambda: hop.save(bad, x(2)) if isinstance(bad, (int, float, type(None))) else None,
                    lambda: hop.save(path, bad),
                ):
                    try:
                        call()
                    except (*FAIR, OSError, OverflowError):
                        pass


if __name__ == "__main__":
    unittest.main()
