"""Functions of the module jax itself that hop has another way for, or no need of: thin spellings for programs
that come from there."""

__all__ = ["ShapeDtypeStruct", "block_until_ready", "device_get", "device_put", "eval_shape", "make_jaxpr"]

import itertools
import math
import re

from . import _arguments, _shapes, tree
from ._dtypes import as_dtype
from ._jit import jit
from ._ops import asarray
from ._ops.common import _dims
from ._sizes import parts_of_text
from ._trace import CLOSED, capture, is_weak, raw_leaf


class ShapeDtypeStruct:
    """The shape and the dtype of an array: what eval_shape gives, and takes in the place of arrays. A size
    that only a run knows is None; one that has a name, or is computed of such, is a text.

    >>> hop.ShapeDtypeStruct((2, 3), hop.float32).shape
    (2, 3)
    >>> hop.ShapeDtypeStruct(("T", 3), hop.float32).shape
    ('T', 3)
    """

    __slots__ = ("shape", "dtype")
    __module__ = "hop"

    def __init__(self, shape, dtype):
        sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
        self.shape = tuple(n if n is None or _is_expression(n) else _dims(n)[0] for n in sizes)
        self.dtype = as_dtype(dtype)

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def size(self):
        return None if any(n is None or isinstance(n, str) for n in self.shape) else math.prod(self.shape)

    @property
    def _type(self):
        return f"{self.dtype.text}[{_shapes.texts(self.shape)}]"

    def __repr__(self):
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype})"

    def __eq__(self, other):
        if not isinstance(other, ShapeDtypeStruct):
            return NotImplemented
        return (self.shape, self.dtype) == (other.shape, other.dtype)

    def __hash__(self):
        return hash((self.shape, self.dtype))


def _is_expression(n):
    """Whether a size is a text: the name of one, or an expression of names."""
    return isinstance(n, str) and re.fullmatch(r"[\w(-][\w +*/%(),-]*", n, re.ASCII) is not None


_UNKNOWN = "unknown_size_"  # sizes without a name have names of their own while the function is captured


def eval_shape(fun, *args, **named):
    """The shapes and dtypes of what fun(*args, **named) gives, without computing it: a tree of
    ShapeDtypeStruct. They may be among the arguments, too; their sizes may be None, each one unknown for
    itself, or names: those of the results are computed of them. What fun gives besides arrays stays as it is.

    >>> hop.eval_shape(lambda a, b: a @ b, hop.ones((3, 4)), hop.ones((4, 2))).shape
    (3, 2)
    >>> x = hop.ShapeDtypeStruct(("T", 4), hop.float32)
    >>> hop.eval_shape(lambda x: {"both": hop.concat([x, x]), "unit": "m"}, x)
    {'both': ShapeDtypeStruct(shape=('2*T', 4), dtype=float32), 'unit': 'm'}
    """
    _arguments.function("eval_shape: fun", fun)
    found, treedef = tree.flatten((args, named))
    where = tree.leaf_paths(treedef)
    leaves = []
    for path, x in zip(where, found):
        at = (path[2:], f"argument {path[1]}")
        leaves.append(x if isinstance(x, ShapeDtypeStruct) else raw_leaf(x, lambda: at, CLOSED))
    weak = [not isinstance(x, ShapeDtypeStruct) and is_weak(x) for x in found]
    counter = itertools.count()

    def type_text(x):
        sizes = [f"{_UNKNOWN}{next(counter)}" if n is None else n for n in x.shape]
        return f"{x.dtype.text}[{_shapes.texts(sizes)}]"

    types = [type_text(x) if isinstance(x, ShapeDtypeStruct) else x for x in leaves]
    t = capture(fun, args, named, leaves, types, weak, jit=True)  # it is never run
    return tree.unflatten(t.out_tree, [_struct(text) for text in t.function.results])


def _struct(text):
    """Of a type as programs write it."""
    name, _, sizes = text[:-1].partition("[")
    return ShapeDtypeStruct([_size_of(n) for n in parts_of_text(sizes)], name)


def _size_of(text):
    if text.isdigit():
        return int(text)
    return None if _UNKNOWN in text or "?" in text else text


def make_jaxpr(fun):
    """A function that gives the program that jit makes of fun for its arguments; as text it is what
    hop.jit(fun).text(*args) gives.

    The program is hop's, not a jaxpr.

    >>> "sin" in str(hop.make_jaxpr(hop.sin)(1.0))
    True
    """
    _arguments.function("make_jaxpr: fun", fun)
    return jit(fun).lower


def block_until_ready(x):
    """x: nothing runs in the background, results are ready.

    For programs that come from JAX.

    >>> hop.block_until_ready(hop.ones(2))
    Array([1., 1.], dtype=float32)
    """
    return x


def device_put(x, device=None):
    """x as a tree of arrays. There is one device, the CPU. Numbers, lists of numbers and NumPy arrays become
    arrays; device must be None or "cpu".

    >>> hop.device_put([1.0, 2.0])
    [Array(1., dtype=float32), Array(2., dtype=float32)]
    """
    if device not in (None, "cpu"):
        raise _arguments.wrong("device_put: device", 'None or "cpu", the only one', device)
    return tree.map(asarray, x)


def device_get(x):
    """x as a tree of NumPy arrays. numpy.asarray(x) does the same for one array, without a copy.

    >>> type(hop.device_get({"x": hop.ones(2)})["x"]).__name__
    'ndarray'
    """
    import numpy

    return tree.map(lambda leaf: numpy.asarray(asarray(leaf)), x)
