"""Writes the stubs of the package and of its public modules into python/hop: signatures are taken from the
package itself (run it with the package on the path), types from the names of parameters."""

import inspect
import os
import re

import hop

HEAD = '''"""Types of hop's public names. Written by python/build_backend/make_stubs.py."""

import builtins
from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from typing import Any, Final, TypeVar, overload

from . import autograd as autograd
from . import dist as dist
from . import debug as debug
from . import implicit as implicit
from . import flatten_util as flatten_util
from . import linalg as linalg
from . import nn as nn
from . import optim as optim
from . import policies as policies
from . import random as random
from . import tree as tree
from . import tree_util as tree_util

__version__: Final[str]
__array_api_version__: Final[str]

Tree = Any
ArrayLike = Any
Shape = int | Sequence[int]
Axis = int | Sequence[int] | None
DType = Any
F = TypeVar("F", bound=Callable[..., Any])

class Error(Exception): ...
class InvalidError(Error, ValueError, TypeError): ...
class CheckError(Error, AssertionError): ...
class NotFiniteError(CheckError, FloatingPointError): ...
class GradientError(Error, AssertionError):
    mode: str
    order: int
    path: str
    found: float
    expected: float
class OperatorError(Error, AssertionError):
    report: OperatorReport
class TracerError(Error, TypeError): ...
class UnavailableError(Error, NotImplementedError): ...
class FileError(Error, OSError): ...
class InternalError(Error, RuntimeError): ...
class WriteError(InvalidError):
    array: Array

class dtype:
    name: str
    itemsize: int
    kind: str
    def __call__(self, x: ArrayLike = ..., /) -> Array: ...

_dtype = dtype

class finfo:
    dtype: _dtype
    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    def __init__(self, type: Any) -> None: ...

class iinfo:
    dtype: _dtype
    bits: int
    max: int
    min: int
    def __init__(self, type: Any) -> None: ...

class Function:
    name: str
    names: tuple[str, ...]
    params: tuple[str, ...]
    results: tuple[str, ...]
    dims: tuple[str, ...]
    bound: tuple[Array, ...]
    callbacks: tuple[Any, ...]
    def __call__(self, *args: Any, **named: Any) -> Any: ...
    def text(self) -> str: ...
    def remarks(self) -> str: ...
    def explain(self, form: str = "short", *, strict: bool = False, threads: int = 0, \
portable: bool = False) -> str: ...
    def emit(self, kind: str, *, name: str | None = None, params: str | None = None, \
results: str | None = None, header: str | None = None, strict: bool = False, plain: bool = False) -> str: ...
    def interpret(self, *args: Any, **named: Any) -> Any: ...
    def compile(self, *, strict: bool = False, threads: int = 0, \
portable: bool = False) -> Callable[..., Any]: ...
    def grad(self, wrt: Any = None) -> Function: ...
    def value_and_grad(self, wrt: Any = None) -> Function: ...
    def vjp(self, wrt: Any = None) -> Function: ...
    def jvp(self, wrt: Any = None) -> Function: ...
    def jacfwd(self, wrt: Any = None) -> Function: ...
    def jacrev(self, wrt: Any = None) -> Function: ...
    def hessian(self, wrt: Any = None) -> Function: ...
    def vmap(self, in_axes: Any = 0, out_axes: Any = 0) -> Function: ...

class Executable:
    def run(self, arrays: Sequence[Array]) -> list[Array]: ...

class Exported:
    folder: str
    files: tuple[str, ...]
    name: str
    signature: str
    command: str

class Profile:
    tree: dict[str, Any]
    runs: int
    samples: int
    seconds: float
    def table(self) -> str: ...
    def json(self) -> str: ...
    def svg(self) -> str: ...
    def folded(self) -> str: ...
    def save(self, path: str | PathLike[str]) -> None: ...

class Lowered:
    function: Function
    in_types: tuple[str, ...]
    out_types: tuple[str, ...]
    def text(self) -> str: ...
    def explain(self, form: str = "short") -> str: ...
    def emit(self, kind: str, *, name: str | None = None, header: str | None = None, \
weights: str = "constants", plain: bool = False) -> str: ...
    def c(self, *, plain: bool = False) -> str: ...
    def export(self, folder: str | PathLike[str], *, name: str | None = None, \
weights: str = "auto", plain: bool = False) -> Exported: ...
    def compile(self) -> Executable: ...
    def profile(self, *, seconds: float = 0.5, runs: int | None = None) -> Profile: ...

class Compiled:
    def __call__(self, *args: Any, **named: Any) -> Any: ...
    def lower(self, *args: Any, **named: Any) -> Lowered: ...
    def profile(self, *args: Any, seconds: float = 0.5, runs: int | None = None, **named: Any) -> Profile: ...
    def text(self, *args: Any, **named: Any) -> str: ...
    def explain(self, *args: Any, **named: Any) -> str: ...
    def c(self, *args: Any, plain: bool = False, **named: Any) -> str: ...
    def export(self, folder: str | PathLike[str], *args: Any, name: str | None = None, \
weights: str = "auto", plain: bool = False, **named: Any) -> Exported: ...
    def clear_cache(self) -> None: ...
    def kept(self) -> dict[str, int]: ...
    def refresh(self) -> None: ...

class disable_jit:
    def __init__(self, disable: bool = ...) -> None: ...
    def __enter__(self) -> disable_jit: ...
    def __exit__(self, *exception: Any) -> None: ...

class no_grad:
    @overload
    def __new__(cls, fun: None = ...) -> no_grad: ...
    @overload
    def __new__(cls, fun: F) -> F: ...
    def __enter__(self) -> no_grad: ...
    def __exit__(self, *exception: Any) -> None: ...
    def __call__(self, fun: F) -> F: ...

class enable_grad:
    @overload
    def __new__(cls, fun: None = ...) -> enable_grad: ...
    @overload
    def __new__(cls, fun: F) -> F: ...
    def __enter__(self) -> enable_grad: ...
    def __exit__(self, *exception: Any) -> None: ...
    def __call__(self, fun: F) -> F: ...

class autocast:
    def __init__(self, dtype: DType = ..., *, enabled: builtins.bool = ...) -> None: ...
    def __enter__(self) -> autocast: ...
    def __exit__(self, *exception: Any) -> None: ...
    def __call__(self, fun: F) -> F: ...

class ShapeDtypeStruct:
    shape: tuple[int, ...]
    dtype: _dtype
    ndim: int
    size: int
    def __init__(self, shape: Shape, dtype: DType) -> None: ...

class Pullback:
    def __call__(self, cotangent: Tree) -> Any: ...

class Pushforward:
    def __call__(self, *tangents: Tree) -> Any: ...

class custom_vjp:
    def __init__(self, fun: Callable[..., Any] = ..., nondiff_argnums: int | Sequence[int] = ..., \
nondiff_argnames: str | Sequence[str] = ..., *, tangent: str = ...) -> None: ...
    def __call__(self, *args: Any, **named: Any) -> Any: ...
    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any], \
symbolic_zeros: builtins.bool = ..., optimize_remat: builtins.bool = ...) -> None: ...

class custom_jvp:
    def __init__(self, fun: Callable[..., Any] = ..., nondiff_argnums: int | Sequence[int] = ..., \
nondiff_argnames: str | Sequence[str] = ...) -> None: ...
    def __call__(self, *args: Any, **named: Any) -> Any: ...
    def defjvp(self, jvp: F, symbolic_zeros: builtins.bool = ...) -> F: ...
    def defjvps(self, *jvps: Callable[..., Any] | None) -> None: ...

class custom_vmap:
    def __init__(self, fun: Callable[..., Any]) -> None: ...
    def __call__(self, *args: Any, **named: Any) -> Any: ...
    def def_vmap(self, vmap_rule: F) -> F: ...

class SymbolicZero:
    shape: tuple[int, ...]
    dtype: _dtype
    ndim: int
    def __init__(self, shape: tuple[int, ...], dtype: DType) -> None: ...

def custom_gradient(fun: Callable[..., Any]) -> Callable[..., Any]: ...
def custom_linear_solve(matvec: Callable[[Any], Any], b: Any, solve: Callable[..., Any], \
transpose_solve: Callable[..., Any] | None = ..., symmetric: bool = ..., has_aux: bool = ...) -> Any: ...
def custom_root(f: Callable[[Any], Any], initial_guess: Any, solve: Callable[..., Any], \
tangent_solve: Callable[..., Any], has_aux: bool = ...) -> Any: ...
def clip_gradient(x: Any, min: ArrayLike | None = ..., max: ArrayLike | None = ...) -> Any: ...
def reverse_gradient(x: Any, scale: ArrayLike = ...) -> Any: ...
def hook(x: Any, f: Callable[..., Any] | Sequence[Callable[..., Any]], *, state: Any = ..., \
when: ArrayLike | None = ..., host: bool = ...) -> Any: ...
def straight_through(fun: Callable[..., Any], surrogate: Callable[..., Any] | None = ...) \
-> Callable[..., Any]: ...
def linear_transpose(fun: Callable[..., Any], *primals: Tree) -> Callable[..., Any]: ...

class Object(Array):
    def __new__(cls, value: Any, /, kind: str = ..., *, address: bool = ...) -> Object: ...
    @property
    def value(self) -> Any: ...
    @property
    def kind(self) -> str: ...
    def __eq__(self, other: object) -> bool: ...  # type: ignore[override]
    def __ne__(self, other: object) -> bool: ...  # type: ignore[override]
    def __hash__(self) -> int: ...  # type: ignore[override]

class Operator:
    name: str
    @property
    def signature(self) -> str: ...
    @property
    def function(self) -> Any: ...
    def __call__(self, *args: Any, out: Any = ..., **named: Any) -> Any: ...
    def defvjp(self, fwd: Callable[..., Any] | None, bwd: F, symbolic_zeros: builtins.bool = ...) -> F: ...
    def defjvp(self, jvp: F, symbolic_zeros: builtins.bool = ...) -> F: ...
    def def_vmap(self, vmap_rule: F) -> F: ...

@overload
def operator(signature: str, fun: Callable[..., Any], *, name: str | None = ..., \
infer: Callable[..., Any] | None = ..., effect: str | None = ..., version: int = ..., \
strided: builtins.bool = ..., lanes: str = ..., c: Any = ..., user: int = ...) -> Operator: ...
@overload
def operator(signature: str, fun: None = ..., *, name: str | None = ..., \
infer: Callable[..., Any] | None = ..., effect: str | None = ..., version: int = ..., \
strided: builtins.bool = ..., lanes: str = ..., c: Any, user: int = ...) -> Operator: ...
@overload
def operator(signature: str, fun: None = ..., *, name: str | None = ..., \
infer: Callable[..., Any] | None = ..., effect: str | None = ..., version: int = ..., \
strided: builtins.bool = ..., lanes: str = ...) -> Callable[[Callable[..., Any]], Operator]: ...
def pure_callback(callback: Callable[..., Any], result_shape_dtypes: Tree, *args: Any, \
sharding: Any = ..., vmap_method: str | None = ..., vectorized: None = ..., **kwargs: Any) -> Any: ...
def io_callback(callback: Callable[..., Any], result_shape_dtypes: Tree, *args: Any, \
sharding: Any = ..., ordered: builtins.bool = ..., **kwargs: Any) -> Any: ...

class OperatorReport:
    name: str
    passed: tuple[str, ...]
    failed: dict[str, str]
    skipped: dict[str, str]
def check_operator(op: Operator, args: Sequence[Any], *, tests: str | Sequence[str] = ..., \
atol: float | None = ..., rtol: float | None = ..., raise_exception: builtins.bool = ...) \
-> OperatorReport: ...

class Shown:
    def text(self) -> str: ...
    def dot(self) -> str: ...
    def svg(self) -> str | None: ...

class IndexUpdate:
    def get(self, *, mode: str | None = ..., fill_value: ArrayLike = ..., indices_are_sorted: bool = ..., \
unique_indices: bool = ...) -> Array: ...
    def apply(self, function: Callable[[Array], ArrayLike], *, mode: str | None = ..., \
indices_are_sorted: bool = ..., unique_indices: bool = ...) -> Array: ...
@UPDATES@
class At:
    def __getitem__(self, key: Any) -> IndexUpdate: ...

'''
UPDATES = "set add subtract mul multiply divide power min max".split()
UPDATE = (
    "    def {}(self, values: ArrayLike, *, mode: str | None = ..., "
    "indices_are_sorted: bool = ..., unique_indices: bool = ...) -> Array: ...\n"
)
SIGNS = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()
COMPARISONS = "eq ne lt le gt ge".split()
TYPES = {
    "shape": "Shape", "axis": "Axis", "axes": "Any", "dtype": "DType | None", "keepdims": "bool", "fun": "F",
    "f": "Callable[..., Any]", "fn": "Callable[..., Any]", "callback": "Callable[..., Any]",
    "copy": "bool | None", "device": "str | None", "path": "str | PathLike[str]", "reverse": "bool",
    "descending": "bool", "stable": "bool", "has_aux": "bool", "holomorphic": "bool", "allow_int": "bool",
    "axis_name": "Any", "spmd_axis_name": "None", "subscripts": "str", "format": "str", "message": "str",
    "schedule": "str | None", "max_trips": "int | None", "length": "int | None", "sequential": "bool",
    "stack": "bool", "dim": "int", "batch_size": "int | None", "operand": "Tree", "k": "int", "side": "str",
    "argnums": "int | Sequence[int]", "cond_fun": "Callable[..., Any]", "body_fun": "Callable[..., Any]",
    "true_fun": "Callable[..., Any]", "false_fun": "Callable[..., Any]",
    "branches": "Sequence[Callable[..., Any]]", "in_axes": "Tree", "out_axes": "Tree",
    "axis_size": "int | None", "init": "Tree", "init_val": "Tree", "xs": "Tree", "elems": "Tree",
    "operands": "Tree", "primals": "Tree", "tangents": "Tree", "include_initial": "bool",
    "pyfunc": "Callable[..., Any]", "signature": "str | None", "excluded": "Any", "approximate": "bool",
    "precision": "int", "threshold": "float", "edgeitems": "int", "linewidth": "int", "suppress": "bool",
    "weights": "ArrayLike | None", "bins": "Any", "range": "tuple[float, float] | None", "density": "bool",
    "returned": "bool", "rowvar": "bool", "conditions": "Any", "functions": "Any",
    "function": "Callable[..., Any]", "obj": "Any", "mode": "str", "pad_width": "Any", "equal_nan": "bool",
    "endpoint": "bool", "offset": "int", "decimals": "int", "num": "int", "rtol": "float", "atol": "float",
    "n": "int", "size": "int | None", "text": "str | PathLike[str]", "name": "str | None",
}  # fmt: skip
RESULTS = {
    "isdtype": "bool", "can_cast": "bool", "result_type": "dtype", "promote_types": "dtype",
    "broadcast_shapes": "tuple[int, ...]", "broadcast_arrays": "list[Array]", "meshgrid": "list[Array]",
    "split": "list[Array]", "unstack": "tuple[Array, ...]", "nonzero": "tuple[Array, ...]",
    "top_k": "tuple[Array, Array]", "print": "None", "check": "None", "debug_callback": "None",
    "save": "None", "load": "Any", "stop_gradient": "Any", "eval_shape": "Any",
    "make_jaxpr": "Callable[..., Lowered]", "block_until_ready": "Any", "device_put": "Any",
    "device_get": "Any", "unique_all": "tuple[Array, Array, Array, Array]",
    "unique_counts": "tuple[Array, Array]", "unique_inverse": "tuple[Array, Array]", "show": "Shown",
    "shape": "tuple[int, ...]", "ndim": "int", "size": "int", "divmod": "tuple[Array, Array]",
    "modf": "tuple[Array, Array]", "tril_indices": "tuple[Array, ...]", "triu_indices": "tuple[Array, ...]",
    "diag_indices": "tuple[Array, ...]", "ix_": "tuple[Array, ...]", "unravel_index": "tuple[Array, ...]",
    "indices": "Any", "atleast_1d": "Any", "atleast_2d": "Any", "atleast_3d": "Any",
    "array_split": "list[Array]", "vsplit": "list[Array]", "hsplit": "list[Array]", "dsplit": "list[Array]",
    "unique": "Any", "average": "Any", "gradient": "Any", "histogram": "tuple[Array, Array]",
    "set_printoptions": "None", "get_printoptions": "dict[str, Any]", "printoptions": "Any",
    "__array_namespace_info__": "Any", "read": "Function",
}  # fmt: skip
FUNCTIONS = {
    "vectorize", "grad", "value_and_grad", "jacfwd", "jacrev", "jacobian", "hessian", "vmap", "debug_nans",
}


# Of each public module: what its stub begins with, and what its functions give where it is no array. Classes
# stand in the heads.
MODULES = {
    "tree": ('''from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

Tree = Any
Path = tuple[Any, ...]
C = TypeVar("C", bound=type)

class TreeDef:
    kind: type | None
    children: tuple[TreeDef, ...]
    num_leaves: int
    def unflatten(self, leaves: Sequence[Any]) -> Tree: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...

class Parametrized:
    f: Callable[[Any], Any]
    raw: Tree
    inverse: Callable[[Any], Any] | None
    def __init__(self, f: Callable[[Any], Any], raw: Tree, inverse: Callable[[Any], Any] | None = ...) \
-> None: ...

class Tied:
    path: Path
    f: Callable[[Any], Any] | None
    def __init__(self, path: Path, f: Callable[[Any], Any] | None = ...) -> None: ...

Where = str | Path | Callable[..., Any] | list[Any]

def register(cls: C, flatten: Callable[[Any], tuple[Sequence[Any], Hashable]] | None = ..., \
unflatten: Callable[[Any, Sequence[Any]], Any] | None = ...) -> C: ...
def replace(tree: Tree, where: Where | dict[Any, Any], value: Any = ...) -> Tree: ...
def update(tree: Tree, where: Where, f: Callable[[Any], Any]) -> Tree: ...
def partition(tree: Tree, where: Where) -> tuple[Tree, Tree]: ...
def combine(*trees: Tree) -> Tree: ...
def places(tree: Tree, where: Where) -> list[tuple[Path, Any]]: ...
def parametrize(tree: Tree, where: Where, f: Callable[[Any], Any], \
inverse: Callable[[Any], Any] | None = ...) -> Tree: ...
def tie(tree: Tree, where: Where, source: Where, f: Callable[[Any], Any] | None = ...) -> Tree: ...
''', {
    "flatten": "tuple[list[Any], TreeDef]", "flatten_with_path": "tuple[list[tuple[Path, Any]], TreeDef]",
    "leaves": "list[Any]", "leaves_with_path": "list[tuple[Path, Any]]", "map": "Tree",
    "map_with_path": "Tree", "path_text": "str", "all": "bool", "reduce": "Any", "structure": "TreeDef",
    "transpose": "Tree", "unflatten": "Tree", "resolve": "Tree",
    }),
    "tree_util": ('''from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from .tree import Path, Tree, TreeDef

C = TypeVar("C", bound=type)

class Partial(partial[Any]): ...

def register_pytree_node(nodetype: type, flatten_func: Callable[[Any], tuple[Sequence[Any], Hashable]], \
unflatten_func: Callable[[Any, Any], Any]) -> None: ...
def register_pytree_with_keys(nodetype: type, flatten_with_keys: Callable[[Any], Any], \
unflatten_func: Callable[[Any, Any], Any], flatten_func: Callable[[Any], Any] | None = ...) -> None: ...
def register_pytree_node_class(cls: C) -> C: ...
def register_pytree_with_keys_class(cls: C) -> C: ...
def register_static(cls: C) -> C: ...
def register_dataclass(nodetype: C, data_fields: Sequence[str] | None = ..., \
meta_fields: Sequence[str] | None = ...) -> C: ...
def all_leaves(iterable: Iterable[Any], is_leaf: Callable[[Any], bool] | None = ...) -> bool: ...
def treedef_tuple(treedefs: Iterable[TreeDef]) -> TreeDef: ...
''', {
    "keystr": "str", "tree_all": "bool", "tree_flatten": "tuple[list[Any], TreeDef]",
    "tree_flatten_with_path": "tuple[list[tuple[Path, Any]], TreeDef]", "tree_leaves": "list[Any]",
    "tree_leaves_with_path": "list[tuple[Path, Any]]", "tree_map": "Tree", "tree_map_with_path": "Tree",
    "tree_reduce": "Any", "tree_structure": "TreeDef", "tree_transpose": "Tree", "tree_unflatten": "Tree",
    "treedef_is_leaf": "bool",
    }),
    "flatten_util": ('''from collections.abc import Callable

from . import Array, Tree
''', {"ravel_pytree": "tuple[Array, Callable[[Array], Tree]]"}),
    "policies": ('''from collections.abc import Sequence
from typing import Any

class Policy:
    text: str | None
    def __init__(self, text: str | None, asks: tuple[Any, ...] = ...) -> None: ...

nothing: Policy
everything: Policy
products: Policy
products_without_batch: Policy
nothing_saveable: Policy
everything_saveable: Policy
dots_saveable: Policy
checkpoint_dots: Policy
dots_with_no_batch_dims_saveable: Policy
checkpoint_dots_with_no_batch_dims: Policy
''', {"names": "Policy", "named": "Policy", "offload": "Policy", "both": "Policy", "function": "Policy",
        "save_only_these_names": "Policy", "save_any_names_but_these": "Policy",
        "save_and_offload_only_these_names": "Policy",
        "save_anything_except_these_names": "Policy", "save_from_both_policies": "Policy"}),
    "autograd": ('''from typing import Any, ClassVar

from . import Array

class FunctionCtx:
    needs_input_grad: tuple[bool, ...]
    def __init__(self, needs_input_grad: tuple[bool, ...] = ...) -> None: ...
    def save_for_backward(self, *tensors: Array | None) -> None: ...
    def save_for_forward(self, *tensors: Array | None) -> None: ...
    @property
    def saved_tensors(self) -> tuple[Any, ...]: ...
    def mark_dirty(self, *args: Array) -> None: ...
    def mark_non_differentiable(self, *args: Array) -> None: ...
    def set_materialize_grads(self, value: bool) -> None: ...
    def __getattr__(self, name: str) -> Any: ...
    def __setattr__(self, name: str, value: Any) -> None: ...

class Function:
    generate_vmap_rule: ClassVar[bool]
    @classmethod
    def apply(cls, *args: Any) -> Any: ...
    @staticmethod
    def forward(*args: Any) -> Any: ...
    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None: ...
    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any: ...
    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any: ...
    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any: ...
''', {}),
    "implicit": ('''from collections.abc import Callable
from typing import Any

from . import Tree

def root(f: Callable[[Any], Tree], initial_guess: Tree, solve: Callable[..., Tree] | None = ..., \
tangent_solve: Callable[..., Tree] | None = ..., *, tol: float | None = ..., max_trips: int = ...) -> Any: ...
def fixed_point(g: Callable[[Any], Tree], initial_guess: Tree, solve: Callable[..., Tree] | None = ..., \
tangent_solve: Callable[..., Tree] | None = ..., *, tol: float | None = ..., max_trips: int = ...) -> Any: ...
def minimum(cost: Callable[[Any], Any], initial_guess: Tree, solve: Callable[..., Tree] | None = ..., \
tangent_solve: Callable[..., Tree] | None = ..., *, tol: float | None = ..., max_trips: int = ...) -> Any: ...
''', {}),
    "debug": ('''from collections.abc import Callable
from typing import Any

from . import ArrayLike
''', {"print": "None", "callback": "None"}),
    "dist": ('''''', {"init": "None", "rank": "int", "size": "int"}),
    "nn": ('''from . import Array, ArrayLike, Axis, DType
''', {}),
    "random": ('''from collections.abc import Sequence
from typing import Any

from . import Array, ArrayLike, Axis, DType, Shape
''', {}),
    "optim": ('''from collections.abc import Callable
from typing import Any, NamedTuple

from . import Array, ArrayLike, Tree

Schedule = Callable[[Any], Any]
Rate = ArrayLike | Schedule

class State(NamedTuple):
    step: Any
    moments: tuple[Any, ...]

class Optimizer:
    init: Callable[[Tree], State]
    update: Callable[[Tree, State, Tree], tuple[Tree, State]]
''', {
    "sgd": "Optimizer", "momentum": "Optimizer", "adam": "Optimizer", "adamw": "Optimizer",
    "constant": "Schedule", "linear": "Schedule", "cosine": "Schedule", "exponential": "Schedule",
    "clip_by_global_norm": "Tree",
    }),
    "linalg": ('''from collections.abc import Sequence
from typing import Any, NamedTuple

from . import Array, ArrayLike, Axis, DType

class QRResult(NamedTuple):
    Q: Array
    R: Array

class SlogdetResult(NamedTuple):
    sign: Array
    logabsdet: Array

class EighResult(NamedTuple):
    eigenvalues: Array
    eigenvectors: Array

class SVDResult(NamedTuple):
    U: Array
    S: Array
    Vh: Array
''', {"qr": "QRResult", "slogdet": "SlogdetResult", "eigh": "EighResult", "svd": "SVDResult"}),
}  # fmt: skip
MODULE_TYPES = {
    "seed": "int", "num": "int", "pytree": "Tree", "initializer": "Any", "function": "Callable[..., Any]",
    "fmt": "str", "ordered": "bool", "tree": "Tree", "rest": "Tree",
    "is_leaf": "Callable[[Any], bool] | None", "treedef": "TreeDef", "leaves": "Sequence[Any]",
    "path": "Path", "root": "str", "outer": "TreeDef", "inner": "TreeDef", "learning_rate": "Rate",
    "grads": "Tree", "nesterov": "bool", "steps": "int", "warmup": "int", "replace": "bool", "upper": "bool",
    "lower": "bool", "mode": "str", "full_matrices": "bool", "n": "int", "ord": "Any", "offset": "int",
    "decimals": "int", "num": "int", "rtol": "float", "atol": "float", "n": "int", "f": "Callable[..., Any]",
}  # fmt: skip


def module_stub(name):
    head, results = MODULES[name]
    module = getattr(hop, name)
    before = dict(TYPES)
    TYPES.update(MODULE_TYPES)
    out = [f'"""Types of hop.{name}. Written by python/build_backend/make_stubs.py."""\n\n', head, "\n"]
    for public in sorted(module.__all__):
        if not any(f"\n{written}" in head for written in (f"class {public}", f"def {public}", f"{public}: ")):
            out.append(
                f"def {public}({parameters(getattr(module, public))}) "
                f"-> {results.get(public, 'Array')}: ...\n"
            )
    TYPES.clear()
    TYPES.update(before)
    return "".join(out)


def parameters(function, method=False):
    parts, star, slash = [], False, False
    given = list(inspect.signature(function).parameters.values())
    for i, p in enumerate(given):
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        text = ("*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else "") + p.name
        star |= p.kind is p.VAR_POSITIONAL
        if not (method and i == 0):
            kind = TYPES.get(p.name, "Any" if p.kind is p.VAR_KEYWORD else "ArrayLike")
            text += ": " + kind
            takes_none = kind in ("Any", "ArrayLike", "Axis", "Tree") or "None" in kind
            if p.default is None and not takes_none:
                text += " | None"
        if p.default is not p.empty:
            text += " = ..."
        parts.append(text)
        after = given[i + 1].kind if i + 1 < len(given) else None
        if p.kind is p.POSITIONAL_ONLY and after is not p.POSITIONAL_ONLY and not method:
            parts.append("/")
    return ", ".join(parts)


def array_class():
    lines = ["class Array:"]
    for name, kind in {
        "shape": "tuple[int, ...]", "dtype": "_dtype", "ndim": "int", "size": "int", "itemsize": "int",
        "nbytes": "int", "device": "str", "T": "Array", "mT": "Array", "at": "At",
    }.items():
        lines += ["    @property", f"    def {name}(self) -> {kind}: ..."]
    for sign in SIGNS:
        lines += [
            f"    def __{sign}__(self, other: ArrayLike, /) -> Array: ...",
            f"    def __r{sign}__(self, other: ArrayLike, /) -> Array: ...",
        ]
    lines += [
        f"    def __{c}__(self, other: ArrayLike, /) -> Array: ...  # type: ignore[override]"
        if c in ("eq", "ne")
        else f"    def __{c}__(self, other: ArrayLike, /) -> Array: ..."
        for c in COMPARISONS
    ]
    lines += [f"    def __{u}__(self) -> Array: ..." for u in ("neg", "pos", "abs", "invert")]
    lines += [
        f"    def __{name}__(self) -> {result}: ..."
        for name, result in {
            "bool": "bool", "int": "int", "float": "float", "index": "int", "len": "int",
            "iter": "Iterator[Array]",
        }.items()
    ]
    lines += [
        "    def __getitem__(self, key: Any, /) -> Array: ...",
        "    def __setitem__(self, key: Any, value: ArrayLike, /) -> None: ...",
        "    def item(self) -> Any: ...", "    def tolist(self) -> Any: ...",
        "    def block_until_ready(self) -> Array: ...",
    ]
    lines += [
        "    def __array__(self, dtype: Any = ..., copy: bool | None = ...) -> Any: ...",
        (
            "    def __dlpack__(self, *, stream: Any = ..., max_version: tuple[int, int] | None = ..., "
            "dl_device: tuple[int, int] | None = ..., copy: bool | None = ...) -> Any: ..."
        ),
        "    def __dlpack_device__(self) -> tuple[int, int]: ...",
    ]
    lines += [
        "    def __array_namespace__(self, /, *, api_version: str | None = ...) -> Any: ...",
        "    def to_device(self, device: str, /, *, stream: Any = ...) -> Array: ...",
    ]
    for name in [*hop._array.METHODS, "ravel"]:
        function = getattr(hop.Array, name)
        result = RESULTS.get(name, "Array")
        first = "self"
        rest = parameters(function, method=True).split(", ", 1)
        lines.append(f"    def {name}({first}{', ' + rest[1] if len(rest) > 1 else ''}) -> {result}: ...")
    return "\n".join(lines) + "\n\nclass Tracer(Array): ...\nclass Size(int): ...\n\n"


# Names that are described one by one, not from their signatures.
DESCRIBED = {
    "e", "euler_gamma", "double", "half", "single", "inf", "nan", "pi", "newaxis", "Array", "Tracer",
    "Size", "tree", "random", "optim", "linalg", "nn", "tree_util", "flatten_util", "debug", "autograd",
    "dist", "implicit", "policies", "ShapeDtypeStruct", "dtype", "finfo", "iinfo", "bool_", "Compiled",
    "jit", "disable_jit", "no_grad", "enable_grad", "autocast", "Pullback", "Pushforward", "Function",
    "checkpoint", "remat", "region", "region_rewriting", "delegate", "check_grads", "io_callback",
    "pure_callback", "Error", "InvalidError", "CheckError", "NotFiniteError", "GradientError",
    "TracerError", "UnavailableError", "FileError", "InternalError", "OperatorError", "WriteError",
    *[d.name for d in hop._dtypes.ALL],
    *hop._custom.__all__, *hop._gradients.__all__, *hop._hooks.__all__, *hop._solves.__all__,
    *hop._object.__all__, *hop._operator.__all__, *hop._check_operator.__all__,
}  # fmt: skip


def stubs():
    """The text of each stub."""
    out = [HEAD.replace("@UPDATES@\n", "".join(UPDATE.format(name) for name in UPDATES)), array_class()]
    out += [f"{d.name}: Final[dtype]\n" for d in hop._dtypes.ALL]
    out += [f"{name}: Final[dtype]\n" for name in ("bool_", "double", "half", "single")]
    out += [f"{name}: Final[float]\n" for name in ("e", "euler_gamma", "inf", "nan", "pi")] + [
        "newaxis: None\n"
    ]
    for name in hop.__all__:
        if name in DESCRIBED:
            continue
        function = getattr(hop, name)
        of_functions = (*hop._control.__all__, *hop._sources.__all__, *hop._transforms.__all__)
        usual = "Any" if name in of_functions else "Array"
        result = "Callable[..., Any]" if name in FUNCTIONS else RESULTS.get(name) or usual
        out.append(f"def {name}({parameters(function)}) -> {result}: ...\n")
    options = (
        "*, static_argnums: int | Sequence[int] = ..., static_argnames: str | Sequence[str] = ..., "
        "donate_argnums: int | Sequence[int] = ..., donate_argnames: str | Sequence[str] = ..., "
        "constant_argnums: int | Sequence[int] = ..., constant_argnames: str | Sequence[str] = ..., "
        "strict: bool = ..., threads: int = ..., portable: bool = ..."
    )
    check = (
        "args: Sequence[Any], order: int = ..., modes: str | Sequence[str] = ..., "
        "atol: float | None = ..., rtol: float | None = ..., eps: float | None = ..."
    )
    out.append(
        "def region_rewriting(kind: str, fun: Callable[[dict[str, Any], Function], Callable[..., Any]] "
        "| None = ..., *, version: Any = ...) -> Any: ...\n"
    )
    out.append(
        "def delegate(fun: F, engine: Any, *, check: bool = ..., rtol: float | None = ..., "
        "atol: float = ...) -> F: ...\n"
    )
    out.append("def region(kind: str, /, **attributes: Any) -> Callable[[F], F]: ...\n")
    out.append(f"def check_grads(f: Callable[..., Any], {check}) -> None: ...\n")
    for name in ("checkpoint", "remat"):
        more = (
            "*, policy: policies.Policy | str | None = ..., prevent_cse: bool = ..., "
            "static_argnums: int | Sequence[int] = ..."
        )
        out.append(
            "@overload\n"
            f"def {name}(fun: F, {more}) -> F: ...\n"
            "@overload\n"
            f"def {name}(fun: None = ..., {more}) -> Callable[[F], F]: ...\n"
        )
    out.append(
        "@overload\n"
        f"def jit(fun: Callable[..., Any], {options}) -> Compiled: ...\n"
        "@overload\n"
        f"def jit(fun: None = ..., {options}) -> Callable[[Callable[..., Any]], Compiled]: ...\n"
    )
    text = re.sub(r"(?<=[:>|] )bool\b", "builtins.bool", "".join(out))  # hop.bool is a dtype
    return {"__init__": text, **{name: module_stub(name) for name in MODULES}}


def main():
    folder = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "hop")
    for name, text in stubs().items():
        with open(os.path.join(folder, name + ".pyi"), "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
