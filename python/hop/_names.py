"""What names of NumPy, JAX and PyTorch that are not here are called, or what to write instead: the AttributeError of a module or an array says it."""

from . import _core

# The texts stand behind "hop has no 'name': ".
_RENAMED = {  # the array-API standard's names
    "absolute": "abs", "amax": "max", "amin": "min", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan", "arctan2": "atan2", "arctanh": "atanh",
    "bitwise_not": "bitwise_invert", "bitwise_count": "popcount", "bool_": "bool", "clamp": "clip", "clz": "count_leading_zeros", "concatenate": "concat", "conjugate": "conj", "copy": "asarray(x, copy=True)",
    "cross": "linalg.cross", "cumlogsumexp": "cumulative_logsumexp", "logcumsumexp": "cumulative_logsumexp", "cummax": "cumulative_max", "cummin": "cumulative_min", "cumprod": "cumulative_prod", "cumsum": "cumulative_sum",
    "double": "float64", "expit": "sigmoid", "fabs": "abs", "gammaln": "lgamma", "float_power": "pow", "identity": "eye", "invert": "bitwise_invert", "left_shift": "bitwise_left_shift", "logistic": "sigmoid",
    "mod": "remainder", "norm": "linalg.vector_norm", "population_count": "popcount", "power": "pow", "rem": "fmod", "right_shift": "bitwise_right_shift", "rint": "round", "single": "float32",
    "swish": "silu", "transpose": "permute_dims(x, axes), x.T or x.mT", "true_divide": "divide", "unique": "unique_values", "vdot": "vecdot",
}  # fmt: skip
_INSTEAD = {
    "append": "use hop.concat", "argpartition": "use hop.argsort or hop.top_k", "argwhere": "use hop.stack(hop.nonzero(x), axis=1)", "around": "use hop.round", "array_equal": "use hop.all(x == y)",
    "array_split": "use hop.split with positions", "atleast_1d": "use hop.reshape", "atleast_2d": "use hop.reshape", "average": "use hop.sum(w * x) / hop.sum(w)", "bincount": "use hop.zeros(n).at[x].add(1)",
    "block": "use hop.concat", "block_until_ready": "nothing runs in the background, results are ready", "column_stack": "use hop.stack(arrays, axis=1)", "complex64": "there are no complex numbers", "complex128": "there are no complex numbers",
    "conv": "add products of shifted slices, or stack the slices and use hop.einsum", "convolve": "add products of shifted slices, or stack the slices and use hop.einsum",
    "custom_jvp": "stop_gradient says what is constant; see implicit differentiation in the documentation", "custom_vjp": "stop_gradient says what is constant; see implicit differentiation in the documentation",
    "digamma": "use hop.grad(hop.lgamma), by hop.vmap for arrays", "factorial": "use hop.exp(hop.lgamma(n + 1))",
    "debug": "use hop.print, hop.debug_callback", "deg2rad": "use x * (hop.pi / 180)", "device_get": "use numpy.asarray(x)", "device_put": "use hop.asarray(x)", "devices": "there is one device, the CPU",
    "diag": "use hop.linalg.diagonal(x) for the diagonal of a matrix, hop.eye(n) * v for a matrix with a diagonal", "digitize": "use hop.searchsorted", "dot": "use x @ y",
    "dynamic_index_in_dim": "use x[i] or hop.take", "dynamic_slice_in_dim": "use hop.dynamic_slice", "dynamic_update_index_in_dim": "use x.at[i].set(y)", "dynamic_update_slice_in_dim": "use hop.dynamic_update_slice",
    "elu": "use hop.where(x > 0, x, hop.expm1(hop.minimum(x, 0)))", "eval_shape": "use hop.jit(f).lower(*args).out_types", "fliplr": "use hop.flip(x, axis=1)", "flipud": "use hop.flip(x, axis=0)",
    "fmax": "use hop.maximum, which gives NaN where one is", "fmin": "use hop.minimum, which gives NaN where one is", "gather": "use x[indices] or hop.take_along_axis", "glu": "use a * hop.sigmoid(b)",
    "gradient": "use hop.diff for differences, hop.grad for derivatives", "heaviside": "use hop.where", "histogram": "use hop.zeros(n).at[hop.searchsorted(edges, x)].add(1)", "hstack": "use hop.concat(arrays, axis=1)",
    "inner": "use x @ y.mT", "iota": "use hop.arange", "isin": "use hop.any(x[:, None] == y, axis=1)", "issubdtype": "use hop.isdtype(dtype, kind)", "kron": 'use hop.einsum("ij,kl->ikjl", x, y) and reshape',
    "lax": "its functions stand in hop itself: hop.scan, hop.cond, …", "leaky_relu": "use hop.where(x > 0, x, slope * x)", "lexsort": "use hop.argsort, which is stable, once for each key", "log_sigmoid": "use -hop.softplus(-x)",
    "logspace": "use hop.exp(hop.linspace(…))", "make_jaxpr": "use hop.jit(f).text(*args)", "median": "use hop.quantile(x, 0.5)", "nan_to_num": "use hop.where(hop.isnan(x), 0, x)", "nanmax": "use hop.max(hop.where(hop.isnan(x), -hop.inf, x))",
    "nanmean": "use hop.where and hop.isnan", "nanmin": "use hop.min(hop.where(hop.isnan(x), hop.inf, x))", "nansum": "use hop.sum(hop.where(hop.isnan(x), 0, x))", "ndarray": "use hop.Array", "nn": "its functions stand in hop itself: hop.relu, hop.softmax, …",
    "no_grad": "nothing is differentiated unless hop.grad asks; hop.stop_gradient makes a constant", "numpy": "its functions stand in hop itself", "percentile": "use hop.quantile(x, p / 100)", "piecewise": "use hop.where", "pmap": "use hop.vmap or jit(…, threads=n)",
    "polyval": "use a loop over the coefficients", "ptp": "use hop.max(x) - hop.min(x)", "pure_callback": "hop.debug_callback calls Python, but gives nothing back", "rad2deg": "use x * (180 / hop.pi)", "ravel": "use x.reshape(-1)",
    "relu6": "use hop.clip(x, 0, 6)", "scipy": "hop.erf, hop.erfc, hop.logsumexp, hop.linalg, … stand in hop itself", "segment_max": "use hop.full(n, -hop.inf).at[ids].max(x)", "segment_sum": "use hop.zeros(n).at[ids].add(x)",
    "select": "use hop.where", "selu": "use hop.where", "tensor": "use hop.asarray", "trapezoid": "use hop.sum((y[1:] + y[:-1]) * hop.diff(x)) / 2", "tree_leaves": "use hop.tree.leaves", "tree_map": "use hop.tree.map",
    "tree_util": "use hop.tree", "tri": "use hop.tril(hop.ones((n, n)))", "tril_indices": "use hop.nonzero(hop.tril(hop.ones((n, n))))", "triu_indices": "use hop.nonzero(hop.triu(hop.ones((n, n))))",
    "unravel_index": "use // and %", "unsqueeze": "use hop.expand_dims or x[None]", "vectorize": "use hop.vmap", "vstack": "use hop.concat, or hop.stack of vectors",
}  # fmt: skip
_LINALG = {
    "cond": "use the quotient of the first and the last of hop.linalg.svdvals(x)", "eig": "hop.linalg.eigh is for symmetric matrices, others are not done", "eigvals": "hop.linalg.eigvalsh is for symmetric matrices, others are not done",
    "lstsq": "use hop.linalg.pinv(a) @ b, or hop.linalg.qr", "lu": "use hop.linalg.solve", "multi_dot": "use @", "norm": "use hop.linalg.vector_norm or hop.linalg.matrix_norm",
    "cho_solve": "use hop.linalg.solve_triangular twice",
}  # fmt: skip
_RANDOM = {
    "PRNGKey": "use hop.random.key", "cauchy": "use hop.tan(hop.pi * (u - 0.5)) of a uniform u", "laplace": "use hop.sign(u) * hop.log1p(-hop.abs(u)) of a uniform u from -1 to 1", "logistic": "use hop.log(u) - hop.log1p(-u) of a uniform u",
    "lognormal": "use hop.exp(hop.random.normal(…))", "multivariate_normal": "use mean + hop.linalg.cholesky(cov) @ hop.random.normal(key, mean.shape)", "rademacher": "use 2 * hop.random.bernoulli(…) - 1", "rand": "use hop.random.uniform(key, shape)",
    "randn": "use hop.random.normal(key, shape)", "seed": "make a key with hop.random.key(seed)", "shuffle": "use hop.random.permutation(key, x)",
}  # fmt: skip
_TREE = {
    "all": "use all(hop.tree.leaves(x))", "reduce": "use functools.reduce(f, hop.tree.leaves(x))", "register_dataclass": "dataclasses are nodes already; hop.tree.register", "register_pytree_node": "use hop.tree.register",
    "register_pytree_node_class": "use hop.tree.register", "tree_flatten": "use hop.tree.flatten", "tree_leaves": "use hop.tree.leaves", "tree_map": "use hop.tree.map", "tree_structure": "use hop.tree.structure",
    "tree_unflatten": "use hop.tree.unflatten",
}  # fmt: skip
_OPTIM = {"apply_updates": "opt.update(grads, state, params) gives the new parameters", "chain": "change the gradients before opt.update: hop.optim.clip_by_global_norm", "cosine_decay_schedule": "use hop.optim.cosine"}
_METHODS = {
    "backward": "use hop.grad of a function", "block_until_ready": "nothing runs in the background, results are ready", "copy": "use hop.asarray(x, copy=True)", "cpu": "an array is in the memory of the CPU", "cumprod": "use x.cumulative_prod",
    "cumsum": "use x.cumulative_sum", "detach": "use hop.stop_gradient(x)", "devices": "use x.device", "expand": "use hop.broadcast_to", "fill": "use hop.full_like", "numpy": "use numpy.asarray(x)", "permute": "use x.transpose(…)", "ptp": "use x.max() - x.min()",
    "searchsorted": "use hop.searchsorted", "split": "use hop.split", "to": "use x.astype(dtype)", "tobytes": "use bytes(x)", "unsqueeze": "use hop.expand_dims or x[None]", "view": "use x.reshape(…) or x.astype(…)",
}  # fmt: skip


def lookup(module):
    """The __getattr__ of a module: an AttributeError that says what to use instead."""
    rows = {"hop": {**_INSTEAD, **{old: f"use hop.{new}" for old, new in _RENAMED.items()}}, "hop.linalg": _LINALG, "hop.random": _RANDOM, "hop.tree": _TREE, "hop.optim": _OPTIM}[module]

    def __getattr__(name):
        if name in rows:
            raise AttributeError(f"{module} has no {name!r}: {rows[name]}")
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return _core.entry(__getattr__)


class Absent:
    """A method that arrays do not have: reading it is an AttributeError that says what to use instead."""

    def __init__(self, name):
        self.name = name

    def __get__(self, instance, owner=None):
        raise AttributeError(f"hop.Array has no {self.name!r}: {_METHODS[self.name]}")


def absent_methods():
    return {name: Absent(name) for name in _METHODS}
