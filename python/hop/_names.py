"""What names of NumPy, JAX and PyTorch that are not here are called, or what to write instead: the
AttributeError of a module or an array says it."""

from . import _core

# The texts stand behind "hop has no 'name': ".
_RENAMED = {  # the array-API standard's names
    "logcumsumexp": "cumulative_logsumexp",
    "expit": "sigmoid", "gammaln": "lgamma",
    "norm": "linalg.norm",
    "swish": "silu",
}  # fmt: skip
_INSTEAD = {
    "functional_call": "use hop.tree.replace(model, {\"layers.0.weight\": w})(x)",
    "stack_module_state": "use hop.tree.map(lambda *xs: hop.stack(xs), *models)",
    "tree_at": "use hop.tree.replace or hop.tree.update",
    "choose": "use hop.select or hop.take_along_axis",
    "put": "use x.at[i].set(y)",
    "put_along_axis": "use x.at[…].set(y)",
    "place": "use hop.where(mask, y, x)",
    "putmask": "use hop.where(mask, y, x)",
    "copyto": "use hop.where(mask, y, x)",
    "fill_diagonal": "use hop.where(hop.eye(n, dtype=hop.bool), v, x)",
    "trim_zeros": "use hop.nonzero and a slice",
    "roots": "use NumPy on the coefficients and hop.asarray",
    "polyfit": "use hop.linalg.pinv(hop.vander(x, n)) @ y",
    "poly": "multiply the factors with hop.polymul",
    "polydiv": "use NumPy on the coefficients",
    "frexp": "use hop.floor(hop.log2(hop.abs(x))) for the exponent",
    "spacing": "use hop.nextafter(x, hop.inf) - x",
    "i0": "there are no Bessel functions",
    "kaiser": "there are no Bessel functions",
    "hanning": "use 0.5 - 0.5 * hop.cos(hop.linspace(0, 2 * hop.pi, n))",
    "hamming": "use 0.54 - 0.46 * hop.cos(hop.linspace(0, 2 * hop.pi, n))",
    "bartlett": "use 1 - hop.abs(hop.linspace(-1, 1, n))",
    "blackman": "add cosines of hop.linspace(0, 2 * hop.pi, n)",
    "histogram2d": "use hop.digitize for each axis and hop.bincount of hop.ravel_multi_index",
    "histogramdd": "use hop.digitize for each axis and hop.bincount of hop.ravel_multi_index",
    "mgrid": "use hop.meshgrid or hop.indices",
    "ogrid": "use hop.ix_ of hop.arange",
    "c_": "use hop.column_stack",
    "r_": "use hop.concat",
    "s_": "use slice(…)",
    "fromfunction": "call the function with hop.indices(shape)",
    "fromiter": "use hop.asarray(list(x))",
    "frombuffer": "use hop.asarray(buffer)",
    "apply_over_axes": "use axis=(…) of the function",
    "packbits": "there are no packed bits",
    "unpackbits": "there are no packed bits",
    "angle": "there are no complex numbers",
    "iscomplex": "there are no complex numbers",
    "iscomplexobj": "there are no complex numbers",
    "isreal": "there are no complex numbers",
    "isscalar": "use hop.ndim(x) == 0",
    "fft": "there are no complex numbers; use NumPy outside of programs",
    "ma": "there are no masks: hop.where and hop.nansum, … do most of it",
    "polynomial": "use hop.polyval, hop.polyadd, …",
    "testing": "use hop.allclose or numpy.testing",
    "savez": "use hop.save(path, dict)",
    "savetxt": "use numpy.savetxt",
    "loadtxt": "use hop.asarray(numpy.loadtxt(path))",
    "genfromtxt": "use hop.asarray(numpy.genfromtxt(path))",
    "array2string": "use str(x) under hop.printoptions",
    "array_repr": "use repr(x)",
    "array_str": "use str(x)",
    "may_share_memory": "arrays are values",
    "shares_memory": "arrays are values",
    "require": "use hop.asarray",
    "asanyarray": "use hop.asarray",
    "asfortranarray": "elements stand in row-major order: hop.permute_dims",
    "asarray_chkfinite": "use hop.asarray and hop.check(hop.all(hop.isfinite(x)))",
    "nditer": "use a loop, hop.scan or hop.vmap",
    "ndenumerate": "use hop.indices",
    "ndindex": "use hop.indices or itertools.product",
    "errstate": "nothing warns: leave it out",
    "seterr": "nothing warns: leave it out",
    "int_": "use hop.int64",
    "float_": "use hop.float64",
    "uint": "use hop.uint64",
    "intp": "use hop.int64",
    "longlong": "use hop.int64",
    "object_": "there are no objects in arrays",
    "str_": "there are no texts in arrays",
    "datetime64": "there are no dates in arrays",
    "timedelta64": "there are no dates in arrays",
    "Inf": "use hop.inf",
    "NaN": "use hop.nan",
    "NAN": "use hop.nan",
    "in1d": "use hop.isin",
    "trapz": "use hop.trapezoid",
    "product": "use hop.prod",
    "cumproduct": "use hop.cumprod",
    "sometrue": "use hop.any",
    "alltrue": "use hop.all",
    "row_stack": "use hop.vstack",
    "round_": "use hop.round",
    "msort": "use hop.sort(x, 0)",
    "sort_complex": "there are no complex numbers",
    "matvec": "use x @ y",
    "vecmat": "use x @ y",
    "complex64": "there are no complex numbers",
    "complex128": "there are no complex numbers",
    "conv1d": "use hop.conv, which has any number of spatial axes",
    "conv2d": "use hop.conv, which has any number of spatial axes",
    "conv3d": "use hop.conv, which has any number of spatial axes",
    "conv_transpose2d": "use hop.conv_transpose, which has any number of spatial axes",
    "digamma": "use hop.grad(hop.lgamma), by hop.vmap for arrays",
    "factorial": "use hop.exp(hop.lgamma(n + 1))",
    "devices": "there is one device, the CPU",
    "elu": "use hop.where(x > 0, x, hop.expm1(hop.minimum(x, 0)))",
    "gather": "use x[indices] or hop.take_along_axis",
    "glu": "use a * hop.sigmoid(b)",
    "issubdtype": "use hop.isdtype(dtype, kind)",
    "Device": "there is one device, the CPU",
    "NamedSharding": "there is one device, the CPU",
    "config": (
        "there are no settings: float64 is there whenever dtype=hop.float64 asks for it, "
        "hop.disable_jit() makes functions plain Python, hop.check and hop.isnan find NaN"
    ),
    "conv_with_general_padding": "use hop.conv(x, w, strides, padding)",
    "default_backend": "there is one, the CPU",
    "erf_inv": "use hop.random.truncated_normal for what it is mostly for",
    "export": "use hop.jit(f).lower(*args), whose text() and c() are the program",
    "image": "use hop.interp, or hop.take at the places wanted",
    "local_device_count": "there is one device, the CPU",
    "named_scope": "leave it out: programs show the lines of the user",
    "pshuffle": "use hop.ppermute with the pairs (from, to)",
    "pswapaxes": "use hop.all_to_all",
    "profiler": "hop.jit(f).profile(*args) says where the time goes, and hop.jit(f).explain(*args) what a "
    "program does",
    "reduce": "use hop.sum, hop.max, … or hop.associative_scan and its last element",
    "sharding": "there is one device, the CPU",
    "typing": "use hop.Array",
    "custom_batching": "its functions stand in hop itself: hop.custom_vmap",
    "custom_derivatives": "its functions stand in hop itself: hop.custom_vjp, hop.linear_transpose, …",
    "inference_mode": "use hop.no_grad()",
    "lax": "its functions stand in hop itself: hop.scan, hop.cond, …",
    "leaky_relu": "use hop.where(x > 0, x, slope * x)",
    "log_sigmoid": "use -hop.softplus(-x)",
    "ndarray": "use hop.Array",
    "numpy": "its functions stand in hop itself: hop.sum, hop.where, …",
    "pmap": "use hop.vmap or jit(…, threads=n)",
    "call_tf": "use hop.pure_callback", "custom_op": "use hop.operator",
    "ffi": "use hop.operator(signature, c=pointer)", "opcheck": "use hop.check_operator",
    "relu6": "use hop.clip(x, 0, 6)",
    "scipy": "hop.erf, hop.erfc, hop.logsumexp, hop.linalg, … stand in hop itself",
    "segment_max": "use hop.full(n, -hop.inf).at[ids].max(x)",
    "set_grad_enabled": "use hop.no_grad() or hop.enable_grad()",
    "segment_sum": "use hop.zeros(n).at[ids].add(x)",
    "selu": "use hop.where",
    "tensor": "use hop.asarray",
    "tree_leaves": "use hop.tree.leaves",
    "tree_map": "use hop.tree.map",
    "unsqueeze": "use hop.expand_dims or x[None]",
}  # fmt: skip
_LINALG = {
    "cond": "use the quotient of the first and the last of hop.linalg.svdvals(x)",
    "eig": "hop.linalg.eigh is for symmetric matrices, others are not done",
    "eigvals": "hop.linalg.eigvalsh is for symmetric matrices, others are not done",
    "lstsq": "use hop.linalg.pinv(a) @ b, or hop.linalg.qr", "lu": "use hop.linalg.solve",
    "multi_dot": "use @", "cho_solve": "use hop.linalg.solve_triangular twice",
}  # fmt: skip
_RANDOM = {
    "poisson": "use NumPy and hop.asarray", "rand": "use hop.random.uniform(key, shape)",
    "randn": "use hop.random.normal(key, shape)", "seed": "make a key with hop.random.key(seed)",
    "shuffle": "use hop.random.permutation(key, x)",
}  # fmt: skip
_TREE = {
    "at": "use hop.tree.replace or hop.tree.update", "tree_at": "use hop.tree.replace or hop.tree.update",
    "broadcast": "use hop.tree.map with the tree of the other structure",
    "register_dataclass": "dataclasses are nodes already; hop.tree.register",
    "register_pytree_node": "use hop.tree.register or hop.tree_util.register_pytree_node",
    "register_pytree_node_class": "use hop.tree.register or hop.tree_util.register_pytree_node_class",
    "tree_flatten": "use hop.tree.flatten", "tree_leaves": "use hop.tree.leaves",
    "tree_map": "use hop.tree.map", "tree_structure": "use hop.tree.structure",
    "tree_unflatten": "use hop.tree.unflatten",
}  # fmt: skip
_TREE_UTIL = {
    "build_tree": "use hop.tree.unflatten",
    "tree_broadcast": "use hop.tree.map with the tree of the other structure",
    "treedef_children": "use treedef.children",
}
_NN = {
    "dot_product_attention": "use hop.attention(q, k, v, layout=\"bthd\")",
    "initializers": "use hop.random.normal(key, shape) * scale", "log1mexp": "use hop.log(-hop.expm1(-x))",
    "normalize": "use hop.nn.standardize", "sparse_plus": "use hop.where",
    "sparse_sigmoid": "use hop.clip(0.5 * (x + 1), 0, 1)",
}  # fmt: skip
_DEBUG = {
    "breakpoint": "use breakpoint() under hop.disable_jit(), or in a hop.debug_callback",
    "inspect_array_sharding": "there is one device, the CPU",
    "visualize_array_sharding": "there is one device, the CPU",
}
_OPTIM = {
    "apply_updates": "opt.update(grads, state, params) gives the new parameters",
    "chain": "change the gradients before opt.update: hop.optim.clip_by_global_norm",
    "cosine_decay_schedule": "use hop.optim.cosine",
}
_METHODS = {
    "backward": "use hop.grad of a function", "cpu": "an array is in the memory of the CPU",
    "detach": "use hop.stop_gradient(x)", "devices": "use x.device", "expand": "use hop.broadcast_to",
    "fill": "use hop.full_like", "numpy": "use numpy.asarray(x)", "permute": "use x.transpose(…)",
    "ptp": "use x.max() - x.min()", "searchsorted": "use hop.searchsorted", "split": "use hop.split",
    "to": "use x.astype(dtype)", "tobytes": "use bytes(x)", "unsqueeze": "use hop.expand_dims or x[None]",
    "view": "use x.reshape(…) or x.astype(…)",
}  # fmt: skip


def lookup(module):
    """The __getattr__ of a module: an AttributeError that says what to use instead."""
    rows = {
        "hop": {**_INSTEAD, **{old: f"use hop.{new}" for old, new in _RENAMED.items()}},
        "hop.linalg": _LINALG,
        "hop.random": _RANDOM,
        "hop.tree": _TREE,
        "hop.optim": _OPTIM,
        "hop.nn": _NN,
        "hop.tree_util": _TREE_UTIL,
        "hop.debug": _DEBUG,
    }.get(module, {})

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
