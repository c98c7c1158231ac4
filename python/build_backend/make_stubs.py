"""Writes python/hop/__init__.pyi: signatures of the public names, taken from the package itself (run it with the package on the path)."""

import inspect
import os
import re

import hop

HEAD = '''"""Types of hop's public names. Written by python/build_backend/make_stubs.py."""

import builtins
from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from typing import Any, Final, TypeVar, overload

from . import optim as optim
from . import random as random
from . import tree as tree

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
class TracerError(Error, TypeError): ...
class UnavailableError(Error, NotImplementedError): ...
class FileError(Error, OSError): ...
class InternalError(Error, RuntimeError): ...

class dtype:
    name: str
    itemsize: int
    kind: str

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
    params: tuple[str, ...]
    results: tuple[str, ...]
    def text(self) -> str: ...
    def remarks(self) -> str: ...
    def interpret(self, arrays: Sequence[Array]) -> list[Array]: ...

class Executable:
    def run(self, arrays: Sequence[Array]) -> list[Array]: ...

class Lowered:
    function: Function
    in_types: tuple[str, ...]
    out_types: tuple[str, ...]
    def text(self) -> str: ...
    def explain(self) -> str: ...
    def c(self) -> str: ...
    def compile(self) -> Executable: ...

class Compiled:
    def __call__(self, *args: Any, **named: Any) -> Any: ...
    def lower(self, *args: Any, **named: Any) -> Lowered: ...
    def text(self, *args: Any, **named: Any) -> str: ...
    def explain(self, *args: Any, **named: Any) -> str: ...
    def c(self, *args: Any, **named: Any) -> str: ...
    def clear_cache(self) -> None: ...

class Shown:
    def text(self) -> str: ...
    def dot(self) -> str: ...
    def svg(self) -> str | None: ...

class IndexUpdate:
    def get(self) -> Array: ...
    def set(self, values: ArrayLike) -> Array: ...
    def add(self, values: ArrayLike) -> Array: ...
    def subtract(self, values: ArrayLike) -> Array: ...
    def mul(self, values: ArrayLike) -> Array: ...
    def multiply(self, values: ArrayLike) -> Array: ...
    def divide(self, values: ArrayLike) -> Array: ...
    def min(self, values: ArrayLike) -> Array: ...
    def max(self, values: ArrayLike) -> Array: ...
    def apply(self, function: Callable[[Array], ArrayLike]) -> Array: ...

class At:
    def __getitem__(self, key: Any) -> IndexUpdate: ...

'''
SIGNS = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()
COMPARISONS = "eq ne lt le gt ge".split()
TYPES = {
    "shape": "Shape", "axis": "Axis", "axes": "Any", "dtype": "DType | None", "keepdims": "bool", "fun": "F", "f": "Callable[..., Any]", "fn": "Callable[..., Any]", "copy": "bool | None",
    "device": "str | None", "path": "str | PathLike[str]", "reverse": "bool", "descending": "bool", "stable": "bool", "has_aux": "bool", "subscripts": "str", "format": "str", "message": "str",
    "schedule": "str | None", "max_trips": "int | None", "length": "int | None", "sequential": "bool", "k": "int", "side": "str", "argnums": "int | Sequence[int]", "cond_fun": "Callable[..., Any]", "body_fun": "Callable[..., Any]",
    "true_fun": "Callable[..., Any]", "false_fun": "Callable[..., Any]", "branches": "Sequence[Callable[..., Any]]", "in_axes": "Tree", "out_axes": "Tree", "axis_size": "int | None",
    "init": "Tree", "init_val": "Tree", "xs": "Tree", "elems": "Tree", "operands": "Tree", "primals": "Tree", "tangents": "Tree", "include_initial": "bool", "endpoint": "bool",
}  # fmt: skip
RESULTS = {
    "isdtype": "bool", "can_cast": "bool", "result_type": "dtype", "promote_types": "dtype", "broadcast_shapes": "tuple[int, ...]", "broadcast_arrays": "list[Array]", "meshgrid": "list[Array]",
    "split": "list[Array]", "unstack": "tuple[Array, ...]", "nonzero": "tuple[Array, ...]", "top_k": "tuple[Array, Array]", "print": "None", "check": "None", "save": "None", "load": "Any",
    "stop_gradient": "Any", "show": "Shown", "__array_namespace_info__": "Any",
}  # fmt: skip
FUNCTIONS = {"grad", "value_and_grad", "jacfwd", "jacrev", "hessian", "vmap"}


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
            text += ": " + TYPES.get(p.name, "Any" if p.kind is p.VAR_KEYWORD else "ArrayLike")
        if p.default is not p.empty:
            text += " = ..."
        parts.append(text)
        after = given[i + 1].kind if i + 1 < len(given) else None
        if p.kind is p.POSITIONAL_ONLY and after is not p.POSITIONAL_ONLY and not method:
            parts.append("/")
    return ", ".join(parts)


def array_class():
    lines = ["class Array:", '    shape: tuple[int, ...]', "    dtype: _dtype", "    ndim: int", "    size: int", "    itemsize: int", "    nbytes: int", "    device: str", "    T: Array", "    mT: Array", "    at: At"]
    for sign in SIGNS:
        lines += [f"    def __{sign}__(self, other: ArrayLike, /) -> Array: ...", f"    def __r{sign}__(self, other: ArrayLike, /) -> Array: ..."]
    lines += [f"    def __{c}__(self, other: ArrayLike, /) -> Array: ...  # type: ignore[override]" if c in ("eq", "ne") else f"    def __{c}__(self, other: ArrayLike, /) -> Array: ..." for c in COMPARISONS]
    lines += [f"    def __{u}__(self) -> Array: ..." for u in ("neg", "pos", "abs", "invert")]
    lines += [f"    def __{name}__(self) -> {result}: ..." for name, result in {"bool": "bool", "int": "int", "float": "float", "index": "int", "len": "int", "iter": "Iterator[Array]"}.items()]
    lines += ["    def __getitem__(self, key: Any, /) -> Array: ...", "    def __setitem__(self, key: Any, value: ArrayLike, /) -> None: ...", "    def item(self) -> Any: ...", "    def tolist(self) -> Any: ..."]
    lines += ["    def __array__(self, dtype: Any = ..., copy: bool | None = ...) -> Any: ...", "    def __dlpack__(self, **named: Any) -> Any: ...", "    def __dlpack_device__(self) -> tuple[int, int]: ..."]
    lines += ["    def __array_namespace__(self, /, *, api_version: str | None = ...) -> Any: ...", "    def to_device(self, device: str, /, *, stream: Any = ...) -> Array: ..."]
    for name in [*hop._array._METHODS, "ravel"]:
        function = getattr(hop.Array, name)
        result = RESULTS.get(name, "Array")
        first = "self"
        rest = parameters(function, method=True).split(", ", 1)
        lines.append(f"    def {name}({first}{', ' + rest[1] if len(rest) > 1 else ''}) -> {result}: ...")
    return "\n".join(lines) + "\n\nclass Tracer(Array): ...\n\n"


def main():
    out = [HEAD, array_class()]
    out += [f"{d.name}: Final[dtype]\n" for d in hop._dtypes.ALL]
    out += [f"{name}: Final[float]\n" for name in ("e", "inf", "nan", "pi")] + ["newaxis: None\n"]
    done = {"e", "inf", "nan", "pi", "newaxis", "Array", "Tracer", "tree", "random", "optim", "dtype", "finfo", "iinfo", "Compiled", "jit", "checkpoint", *[d.name for d in hop._dtypes.ALL]}
    done |= {"Error", "InvalidError", "CheckError", "TracerError", "UnavailableError", "FileError", "InternalError"}
    for name in hop.__all__:
        if name in done:
            continue
        function = getattr(hop, name)
        result = "Callable[..., Any]" if name in FUNCTIONS else RESULTS.get(name) or ("Any" if function.__module__ in ("hop._control", "hop._transforms") else "Array")
        out.append(f"def {name}({parameters(function)}) -> {result}: ...\n")
    out.append("def checkpoint(fun: F) -> F: ...\n@overload\ndef jit(fun: Callable[..., Any], **options: Any) -> Compiled: ...\n@overload\ndef jit(fun: None = ..., **options: Any) -> Callable[[Callable[..., Any]], Compiled]: ...\n")
    path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "hop", "__init__.pyi")
    text = re.sub(r"(?<=[:>|] )bool\b", "builtins.bool", "".join(out))  # hop.bool is a dtype
    with open(path, "w", encoding="utf-8") as stub:
        stub.write(text)


main()
