"""Sizes in the package's own code: integers, or hop.Size where a size is no number while a program is
captured. equal and differ answer by proof alone and fix nothing: what cannot be proved is left to the
program, which checks it where it runs."""

import math
import operator

from . import _core

Size = _core.Size
WHOLE = (int, Size)
_EQUAL = 2  # of _core.order
_SIGNS = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip


def equal(a, b):
    """Whether two sizes are known to be the same."""
    if isinstance(a, Size) or isinstance(b, Size):
        return _core.order(a, b) == _EQUAL
    return a == b


def differ(a, b):
    """Whether two sizes are known not to be the same."""
    if isinstance(a, Size) or isinstance(b, Size):
        return not _core.order(a, b) & _EQUAL
    return a != b


def shapes_differ(a, b):
    """Whether two shapes are known not to be the same."""
    return len(a) != len(b) or any(differ(m, n) for m, n in zip(a, b))


def empty(shape):
    """Whether there are no elements, by proof or by a guard; where only a run knows, there may be some."""
    return any(holds(n, "==", 0) for n in shape)


def lacks_elements(shape):
    """The same where that is an error: where only a run knows, the program checks that there are some."""
    none = [holds(n, "==", 0) for n in shape]
    if None in none and True not in none:
        size = math.prod(n for n, known in zip(shape, none) if known is None)
        said = "there are elements to choose from: {}"
        _core.call(_core.codes["check"], (size._value > 0, size._value), said)
    return True in none


def is_symbolic(*sizes):
    """Whether one of them is no number."""
    return Size in map(type, sizes)


def holds(a, sign, b):
    """Whether a comparison of sizes holds: by proof, or by a guard where the call at hand knows the sizes;
    None where only a run does."""
    return _core.decided(a, sign, b) if is_symbolic(a, b) else _SIGNS[sign](a, b)


def least(a, b):
    """The smaller of two sizes."""
    return _core.size_min(a, b) if is_symbolic(a, b) else min(a, b)


def largest(a, b):
    """The larger of two sizes."""
    return _core.size_max(a, b) if is_symbolic(a, b) else max(a, b)


def text(n):
    """A size in texts that the library reads."""
    return n._handle if isinstance(n, Size) else str(n)


def texts(sizes):
    return ", ".join([n._handle if isinstance(n, Size) else str(n) for n in sizes])


_LONGEST = 120


def short(n):
    """A size whose expression has grown long as a new one, of which nothing is known but that it is as large:
    sizes of parts of parts would grow without end."""
    return bound(n._value) if isinstance(n, Size) and len(str(n)) > _LONGEST else n


def is_traced_integer(x):
    """Whether a program can make a size of it."""
    return isinstance(x, _core.ArrayBase) and x._traced and x.ndim == 0 and x.dtype.kind in "iu"


def bound(n):
    """The size that a traced integer is when the program runs; that it is none below 0 is checked there."""
    return _core.call(_core.codes["bind_dim"], (n,), None, 0, -1).shape[0]
