"""Dtypes: thirteen objects, one per kind of element, and how they combine."""

__all__ = [
    "bool", "bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "bfloat16", "float32", "float64", "dtype", "finfo", "iinfo", "isdtype", "result_type", "can_cast",
    "promote_types",
]  # fmt: skip

import builtins
import math

from . import _core
from ._errors import InvalidError


class dtype:
    """A kind of element. There is one object for each: compare with `is` or `==`; names ("float32") and
    NumPy's dtypes compare too. Called with a number, lists or an array it gives an array of its kind:
    hop.float32(1).

    >>> hop.float32.itemsize, hop.asarray([1]).dtype == "int64"
    (4, True)
    """

    __slots__ = ("name", "code", "text", "itemsize", "kind")

    def __init__(self, name, code, text, itemsize, kind):
        self.name, self.code, self.text, self.itemsize, self.kind = name, code, text, itemsize, kind

    def __repr__(self):
        return f"hop.{self.name}"

    def __str__(self):
        return self.name

    def __hash__(self):
        return hash(("hop.dtype", self.name))

    def __eq__(self, other):
        if isinstance(other, dtype):
            return self is other
        try:
            return as_dtype(other) is self
        except TypeError:
            return NotImplemented

    def __call__(self, x=0, /):
        from ._ops import asarray, astype

        cut = isinstance(x, builtins.float) and self.kind in "iu"  # of a real number what is before the point
        return asarray(x, dtype=self) if is_number(x) and not cut else astype(asarray(x), self, copy=False)

    def __reduce__(self):
        return (as_dtype, (self.name,))


_ROWS = [
    ("bool", "bool", 1, "b"), ("int8", "i8", 1, "i"), ("int16", "i16", 2, "i"), ("int32", "i32", 4, "i"),
    ("int64", "i64", 8, "i"), ("uint8", "u8", 1, "u"), ("uint16", "u16", 2, "u"), ("uint32", "u32", 4, "u"),
    ("uint64", "u64", 8, "u"), ("float16", "f16", 2, "f"), ("bfloat16", "bf16", 2, "f"),
    ("float32", "f32", 4, "f"), ("float64", "f64", 8, "f"),
]  # fmt: skip
ALL = tuple(dtype(name, code, text, size, kind) for code, (name, text, size, kind) in enumerate(_ROWS))
bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32, float64 = ALL

bool_ = bool

_BY_NAME = {d.name: d for d in ALL} | {d.text: d for d in ALL}
_BY_TYPE = {builtins.bool: bool, builtins.int: int64, builtins.float: float32}


def as_dtype(x):
    """The dtype that x names: one of hop's, a name, a Python type, a NumPy dtype or scalar type."""
    if isinstance(x, dtype):
        return x
    found = _BY_TYPE.get(x) if isinstance(x, type) else None
    if found is None:
        name = x if isinstance(x, str) else getattr(x, "name", None) or getattr(x, "__name__", None)
        found = _BY_NAME.get("bool" if name == "bool_" else name) if isinstance(name, str) else None
    if found is None:
        raise TypeError(f"{_core.call_place()}expected a dtype, found {x!r:.80}")
    return found


def is_number(x):
    """Whether x is a number of Python's own, which takes the dtype of arrays that it meets. numpy.float64
    is a float too, but has a dtype."""
    return isinstance(x, (builtins.bool, builtins.int, builtins.float)) and not hasattr(x, "dtype")


def promote_types(a, b):
    """The dtype of an operator on arrays of these two: an integer with a float gives that float, two
    floats the larger (float16 with bfloat16 float32), two integers the smallest that holds both; uint64
    with a signed integer, which none holds, is an error.

    >>> hop.promote_types(hop.int8, hop.uint8), hop.promote_types(hop.int64, hop.float16)
    (hop.int16, hop.float16)
    """
    a, b = as_dtype(a), as_dtype(b)
    if a is b or b.kind == "b":
        return a
    if a.kind == "b":
        return b
    if (a.kind == "f") != (b.kind == "f"):
        return a if a.kind == "f" else b
    if a.kind == b.kind:
        return float32 if a.itemsize == b.itemsize else a if a.itemsize > b.itemsize else b
    signed, unsigned = (a, b) if a.kind == "i" else (b, a)
    if unsigned is uint64:
        from ._trace import place

        raise InvalidError(
            f"{place()}no integer dtype holds both uint64 and {signed}: "
            "convert one of them, x.astype(hop.int64) where all elements are below 2**63, "
            "x.astype(hop.uint64) where none is negative"
        )
    wider = {1: int16, 2: int32, 4: int64}[unsigned.itemsize]
    return signed if signed.itemsize > wider.itemsize else wider


def weak_dtype(number, strong=None):
    """The dtype of a Python number, beside arrays of a dtype or alone."""
    if isinstance(number, builtins.float):
        return strong if strong is not None and strong.kind == "f" else float32
    if isinstance(number, builtins.bool):
        return bool if strong is None else strong
    return int64 if strong is None or strong is bool else strong


def result_type(*arrays_and_dtypes):
    """The dtype of an operator on these arrays, dtypes and Python numbers. A Python number counts only where
    no array or dtype of its kind is there.

    >>> hop.result_type(hop.asarray([1]), hop.float16, 2.5)
    hop.float16
    """
    strong, numbers = None, []
    for x in arrays_and_dtypes:
        if is_number(x):
            numbers.append(x)
        elif isinstance(x, _core.Size):
            numbers.append(0)
        elif getattr(x, "_weak", False):  # made of numbers alone
            numbers.append(0.0 if x.dtype is float32 else 0)
        else:
            d = x.dtype if hasattr(x, "dtype") and not isinstance(x, (dtype, type)) else x
            strong = as_dtype(d) if strong is None else promote_types(strong, d)
    for x in sorted(numbers, key=lambda n: (isinstance(n, builtins.float), not isinstance(n, builtins.bool))):
        strong = weak_dtype(x, strong)
    if strong is None:
        raise ValueError("result_type needs an array, a dtype or a number")
    return strong


def can_cast(from_, to, /):
    """Whether promotion takes the one dtype to the other: operators on arrays of both give the second.

    >>> hop.can_cast(hop.int8, hop.int32), hop.can_cast(hop.float32, hop.int32)
    (True, False)
    """
    from_, to = from_.dtype if hasattr(from_, "dtype") else as_dtype(from_), as_dtype(to)
    if from_.kind == "u" and to.kind == "i":
        return from_.itemsize < to.itemsize
    return (from_.kind, to.kind) != ("i", "u") and promote_types(from_, to) is to


_KINDS = {
    "bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu", "real floating": "f",
    "complex floating": "", "numeric": "iuf",
}  # fmt: skip


def isdtype(dtype, kind):
    """Whether a dtype is of a kind ("integral", "real floating", …), equal to a dtype, or any of a tuple
    of these.

    >>> hop.isdtype(hop.float16, "real floating"), hop.isdtype(hop.int8, ("bool", hop.int8))
    (True, True)
    """
    d = as_dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(d, k) for k in kind)
    if isinstance(kind, str) and kind in _KINDS:
        return d.kind in _KINDS[kind] and builtins.bool(_KINDS[kind])
    if isinstance(kind, str):
        raise ValueError(f"there is no kind of dtype {kind!r}")
    return d is as_dtype(kind)


class finfo:
    """What a float dtype can hold: bits, eps, max, min, smallest_normal, dtype. Attributes are Python
    numbers. Of a dtype or an array.

    >>> hop.finfo(hop.float32).eps, hop.finfo(hop.float16).max
    (1.1920928955078125e-07, 65504.0)
    """

    def __init__(self, type, /):
        d = as_dtype(type.dtype if hasattr(type, "dtype") and not isinstance(type, dtype) else type)
        digits, top = (
            {"float16": (10, 15), "bfloat16": (7, 127), "float32": (23, 127), "float64": (52, 1023)}[d.name]
            if d.kind == "f"
            else (None, None)
        )
        if digits is None:
            raise TypeError(f"finfo is about floats, not {d}")
        self.dtype, self.bits = d, 8 * d.itemsize
        self.eps = 2.0**-digits
        self.max = math.ldexp(2.0 - 2.0**-digits, top)
        self.min = -self.max
        self.smallest_normal = math.ldexp(1.0, 1 - top)

    def __repr__(self):
        return f"finfo({self.dtype}, eps={self.eps}, max={self.max}, smallest_normal={self.smallest_normal})"


class iinfo:
    """What an integer dtype can hold: bits, max, min, dtype. Attributes are Python numbers. Of a dtype or an
    array.

    >>> hop.iinfo(hop.int8).min, hop.iinfo(hop.uint8).max
    (-128, 255)
    """

    def __init__(self, type, /):
        d = as_dtype(type.dtype if hasattr(type, "dtype") and not isinstance(type, dtype) else type)
        if d.kind not in "iu":
            raise TypeError(f"iinfo is about integers, not {d}")
        self.dtype, self.bits = d, 8 * d.itemsize
        self.min = -(1 << (self.bits - 1)) if d.kind == "i" else 0
        self.max = (1 << (self.bits - (d.kind == "i"))) - 1

    def __repr__(self):
        return f"iinfo({self.dtype}, min={self.min}, max={self.max})"
