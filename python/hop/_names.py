"""What names of NumPy, JAX and PyTorch that are not here are called, or what to write instead: the AttributeError of a module or an array says it."""

from . import _core

# The texts stand behind "hop has no 'name': ".
_RENAMED = {  # the array-API standard's names
    "absolute": "abs", "amax": "max", "amin": "min", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan", "arctan2": "atan2", "arctanh": "atanh",
    "bitwise_count": "popcount", "concatenate": "concat", "conjugate": "conj", "copy": "asarray(x, copy=True)",
    "cross": "linalg.cross", "logcumsumexp": "cumulative_logsumexp", "cumprod": "cumulative_prod", "cumsum": "cumulative_sum",
    "double": "float64", "expit": "sigmoid", "fabs": "abs", "gammaln": "lgamma", "float_power": "pow", "identity": "eye", "invert": "bitwise_invert", "left_shift": "bitwise_left_shift", 
    "mod": "remainder", "norm": "linalg.vector_norm", "power": "pow", "right_shift": "bitwise_right_shift", "rint": "round", "single": "float32",
    "swish": "silu", "transpose": "permute_dims(x, axes), x.T or x.mT", "true_divide": "divide", "unique": "unique_values", "vdot": "vecdot",
}  # fmt: skip
_INSTEAD = {
    "append": "use hop.concat", "argpartition": "use hop.argsort or hop.top_k", "argwhere": "use hop.stack(hop.nonzero(x), axis=1)", "around": "use hop.round", "array_equal": "use hop.all(x == y)",
    "array_split": "use hop.split with positions", "atleast_1d": "use hop.reshape", "atleast_2d": "use hop.reshape", "average": "use hop.sum(w * x) / hop.sum(w)", "bincount": "use hop.zeros(n).at[x].add(1)",
    "block": "use hop.concat", "column_stack": "use hop.stack(arrays, axis=1)", "complex64": "there are no complex numbers", "complex128": "there are no complex numbers",
    "conv": "add products of shifted slices, or stack the slices and use hop.einsum", "convolve": "add products of shifted slices, or stack the slices and use hop.einsum",
    "custom_jvp": "stop_gradient says what is constant; see implicit differentiation in the documentation", "custom_vjp": "stop_gradient says what is constant; see implicit differentiation in the documentation",
    "digamma": "use hop.grad(hop.lgamma), by hop.vmap for arrays", "factorial": "use hop.exp(hop.lgamma(n + 1))",
    "deg2rad": "use x * (hop.pi / 180)", "devices": "there is one device, the CPU",
    "diag": "use hop.linalg.diagonal(x) for the diagonal of a matrix, hop.eye(n) * v for a matrix with a diagonal", "digitize": "use hop.searchsorted", "dot": "use x @ y",
    
    "elu": "use hop.where(x > 0, x, hop.expm1(hop.minimum(x, 0)))", "fliplr": "use hop.flip(x, axis=1)", "flipud": "use hop.flip(x, axis=0)",
    "fmax": "use hop.maximum, which gives NaN where one is", "fmin": "use hop.minimum, which gives NaN where one is", "gather": "use x[indices] or hop.take_along_axis", "glu": "use a * hop.sigmoid(b)",
    "gradient": "use hop.diff for differences, hop.grad for derivatives", "heaviside": "use hop.where", "histogram": "use hop.zeros(n).at[hop.searchsorted(edges, x)].add(1)", "hstack": "use hop.concat(arrays, axis=1)",
    "inner": "use x @ y.mT", "isin": "use hop.any(x[:, None] == y, axis=1)", "issubdtype": "use hop.isdtype(dtype, kind)", "kron": 'use hop.einsum("ij,kl->ikjl", x, y) and reshape',
    "Device": "there is one device, the CPU", "NamedSharding": "there is one device, the CPU", "all_gather": "there are no named axes: use the array that hop.vmap is given, or gives", "axis_index": "there are no named axes: map over hop.arange(n), too", "clear_caches": "use f.clear_cache() of what hop.jit gives",
    "config": "there are no settings: float64 is there whenever dtype=hop.float64 asks for it, hop.disable_jit() makes functions plain Python, hop.check and hop.isnan find NaN", "conv_general_dilated": "add products of shifted slices, or stack the slices and use hop.einsum",
    "custom_linear_solve": "hop.linalg.solve can be differentiated; see implicit differentiation in the documentation", "custom_root": "see implicit differentiation in the documentation", "default_backend": "there is one, the CPU", "erf_inv": "use hop.random.truncated_normal for what it is mostly for",
    "export": "use hop.jit(f).lower(*args), whose text() and c() are the program", "image": "use hop.interp, or hop.take at the places wanted", "local_device_count": "there is one device, the CPU", "named_scope": "leave it out: programs show the lines of the user", "pmax": "there are no named axes: use hop.max of what hop.vmap gives",
    "pmean": "there are no named axes: use hop.mean of what hop.vmap gives", "pmin": "there are no named axes: use hop.min of what hop.vmap gives", "ppermute": "there are no named axes: use hop.roll of what hop.vmap gives", "psum": "there are no named axes: use hop.sum of what hop.vmap gives",
    "profiler": "hop.show and hop.jit(f).explain(*args) say what a program does", "reduce": "use hop.sum, hop.max, … or hop.associative_scan and its last element", "reduce_window": "stack shifted slices and use hop.max or hop.sum", "shard_map": "there is one device: use hop.vmap or jit(…, threads=n)",
    "sharding": "there is one device, the CPU", "typing": "use hop.Array",
    "lax": "its functions stand in hop itself: hop.scan, hop.cond, …", "leaky_relu": "use hop.where(x > 0, x, slope * x)", "lexsort": "use hop.argsort, which is stable, once for each key", "log_sigmoid": "use -hop.softplus(-x)",
    "logspace": "use hop.exp(hop.linspace(…))", "median": "use hop.quantile(x, 0.5)", "nan_to_num": "use hop.where(hop.isnan(x), 0, x)", "nanmax": "use hop.max(hop.where(hop.isnan(x), -hop.inf, x))",
    "nanmean": "use hop.where and hop.isnan", "nanmin": "use hop.min(hop.where(hop.isnan(x), hop.inf, x))", "nansum": "use hop.sum(hop.where(hop.isnan(x), 0, x))", "ndarray": "use hop.Array", 
    "no_grad": "nothing is differentiated unless hop.grad asks; hop.stop_gradient makes a constant", "numpy": "its functions stand in hop itself: hop.sum, hop.where, …", "percentile": "use hop.quantile(x, p / 100)", "piecewise": "use hop.where", "pmap": "use hop.vmap or jit(…, threads=n)",
    "polyval": "use a loop over the coefficients", "ptp": "use hop.max(x) - hop.min(x)", "pure_callback": "hop.debug_callback calls Python, but gives nothing back", "rad2deg": "use x * (180 / hop.pi)", "ravel": "use x.reshape(-1)",
    "relu6": "use hop.clip(x, 0, 6)", "scipy": "hop.erf, hop.erfc, hop.logsumexp, hop.linalg, … stand in hop itself", "segment_max": "use hop.full(n, -hop.inf).at[ids].max(x)", "segment_sum": "use hop.zeros(n).at[ids].add(x)",
    "selu": "use hop.where", "tensor": "use hop.asarray", "trapezoid": "use hop.sum((y[1:] + y[:-1]) * hop.diff(x)) / 2", "tree_leaves": "use hop.tree.leaves", "tree_map": "use hop.tree.map",
    "tri": "use hop.tril(hop.ones((n, n)))", "tril_indices": "use hop.nonzero(hop.tril(hop.ones((n, n))))", "triu_indices": "use hop.nonzero(hop.triu(hop.ones((n, n))))",
    "unravel_index": "use // and %", "unsqueeze": "use hop.expand_dims or x[None]", "vectorize": "use hop.vmap", "vstack": "use hop.concat, or hop.stack of vectors",
}  # fmt: skip
_LINALG = {
    "cond": "use the quotient of the first and the last of hop.linalg.svdvals(x)", "eig": "hop.linalg.eigh is for symmetric matrices, others are not done", "eigvals": "hop.linalg.eigvalsh is for symmetric matrices, others are not done",
    "lstsq": "use hop.linalg.pinv(a) @ b, or hop.linalg.qr", "lu": "use hop.linalg.solve", "multi_dot": "use @", "norm": "use hop.linalg.vector_norm or hop.linalg.matrix_norm",
    "cho_solve": "use hop.linalg.solve_triangular twice",
}  # fmt: skip
_RANDOM = {
    "beta": "draw from its density with hop.random.categorical, or use NumPy and hop.asarray", "dirichlet": "there is no gamma distribution; use NumPy and hop.asarray", "gamma": "use NumPy and hop.asarray", "poisson": "use NumPy and hop.asarray",
    "rand": "use hop.random.uniform(key, shape)", "randn": "use hop.random.normal(key, shape)", "seed": "make a key with hop.random.key(seed)", "shuffle": "use hop.random.permutation(key, x)",
}  # fmt: skip
_TREE = {
    "broadcast": "use hop.tree.map with the tree of the other structure", "register_dataclass": "dataclasses are nodes already; hop.tree.register", "register_pytree_node": "use hop.tree.register or hop.tree_util.register_pytree_node",
    "register_pytree_node_class": "use hop.tree.register or hop.tree_util.register_pytree_node_class", "tree_flatten": "use hop.tree.flatten", "tree_leaves": "use hop.tree.leaves", "tree_map": "use hop.tree.map", "tree_structure": "use hop.tree.structure",
    "tree_unflatten": "use hop.tree.unflatten",
}  # fmt: skip
_TREE_UTIL = {"build_tree": "use hop.tree.unflatten", "tree_broadcast": "use hop.tree.map with the tree of the other structure", "treedef_children": "use treedef.children"}
_NN = {
    "dot_product_attention": "use hop.softmax(q @ k.mT / n**0.5) @ v", "initializers": "use hop.random.normal(key, shape) * scale", "log1mexp": "use hop.log(-hop.expm1(-x))", "normalize": "use hop.nn.standardize", "sparse_plus": "use hop.where", "sparse_sigmoid": "use hop.clip(0.5 * (x + 1), 0, 1)",
}  # fmt: skip
_DEBUG = {"breakpoint": "use breakpoint() under hop.disable_jit(), or in a hop.debug_callback", "inspect_array_sharding": "there is one device, the CPU", "visualize_array_sharding": "there is one device, the CPU"}
_OPTIM = {"apply_updates": "opt.update(grads, state, params) gives the new parameters", "chain": "change the gradients before opt.update: hop.optim.clip_by_global_norm", "cosine_decay_schedule": "use hop.optim.cosine"}
_METHODS = {
    "backward": "use hop.grad of a function", "copy": "use hop.asarray(x, copy=True)", "cpu": "an array is in the memory of the CPU", "cumprod": "use x.cumulative_prod",
    "cumsum": "use x.cumulative_sum", "detach": "use hop.stop_gradient(x)", "devices": "use x.device", "expand": "use hop.broadcast_to", "fill": "use hop.full_like", "numpy": "use numpy.asarray(x)", "permute": "use x.transpose(…)", "ptp": "use x.max() - x.min()",
    "searchsorted": "use hop.searchsorted", "split": "use hop.split", "to": "use x.astype(dtype)", "tobytes": "use bytes(x)", "unsqueeze": "use hop.expand_dims or x[None]", "view": "use x.reshape(…) or x.astype(…)",
}  # fmt: skip


def lookup(module):
    """The __getattr__ of a module: an AttributeError that says what to use instead."""
    rows = {"hop": {**_INSTEAD, **{old: f"use hop.{new}" for old, new in _RENAMED.items()}}, "hop.linalg": _LINALG, "hop.random": _RANDOM, "hop.tree": _TREE, "hop.optim": _OPTIM, "hop.nn": _NN, "hop.tree_util": _TREE_UTIL, "hop.debug": _DEBUG}.get(module, {})

    def __getattr__(name):
        if name in rows:
            raise AttributeError(f"{module} has no {name!r}: {rows[name]}")
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return _core.entry(__getattr__)


def public_names(module):
    """The __dir__ of a module: what it offers."""
    more = [name for name in vars(module) if name.startswith("__") and name.endswith("__")]
    return lambda: sorted({*module.__all__, *more})


class Absent:
    """A method that arrays do not have: reading it is an AttributeError that says what to use instead."""

    def __init__(self, name):
        self.name = name

    def __get__(self, instance, owner=None):
        raise AttributeError(f"hop.Array has no {self.name!r}: {_METHODS[self.name]}")


def absent_methods():
    return {name: Absent(name) for name in _METHODS}
