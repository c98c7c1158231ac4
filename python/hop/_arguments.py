"""Arguments that are no arrays: what is expected of them, and errors that say where, which function, what was expected and what was found."""

import builtins
import operator

from . import _core
from ._errors import InvalidError

_LARGEST = (1 << 63) - 1


def place():
    at = _core.place()
    return f"{at[0]}:{at[1]}: " if at[0] else ""


def found(x):
    """What something is, in words for a message."""
    if isinstance(x, _core.ArrayBase):
        return f"a traced value of type {x._type}" if x._traced else f"an array of type {x._type}"
    if x is None or isinstance(x, (builtins.bool, int, float, str)):
        text = repr(x)
        return text if len(text) <= 60 else text[:57] + "…"
    if callable(x) and not isinstance(x, type):
        return f"the function {getattr(x, '__name__', type(x).__name__)}"
    if isinstance(x, type):
        return f"the class {x.__name__}"
    if hasattr(x, "dtype") and hasattr(x, "shape"):
        return f"{type(x).__module__.split('.')[0]}.{type(x).__name__} of {x.dtype} and shape {x.shape}"
    kind = type(x).__name__
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def wrong(what, expected, x):
    """The error that x is not what was expected."""
    return InvalidError(f"{place()}{what}: expected {expected}, found {found(x)}")


def function(what, x):
    """A function of the user's."""
    if not callable(x):
        raise wrong(what, "a function", x)
    return x


def flag(what, x):
    """True or False."""
    if isinstance(x, builtins.bool) or (isinstance(x, int) and x in (0, 1)):
        return builtins.bool(x)
    if type(x).__name__ in ("bool", "bool_") and type(x).__module__ == "numpy":
        return builtins.bool(x)
    raise wrong(what, "True or False", x)


def text(what, x):
    """A text, or None."""
    if x is not None and not isinstance(x, str):
        raise wrong(what, "a text", x)
    return x


def integer(what, x, least=-_LARGEST - 1, most=_LARGEST, expected=None):
    """An integer that is known now."""
    if type(x) is int and least <= x <= most:
        return x
    expected = expected or ("an integer" if least < 0 else "a size" if most == _LARGEST else f"an integer from {least} to {most}")
    if isinstance(x, _core.ArrayBase) and x._traced:
        raise wrong(what, f"{expected} that is known while the program is captured", x)
    if isinstance(x, builtins.bool):
        raise wrong(what, expected, x)
    try:
        n = operator.index(x)
    except TypeError:
        raise wrong(what, expected, x) from None
    if not least <= n <= most:
        raise wrong(what, expected if expected != "a size" or n < 0 else "a size below 2**63", n)
    return n


def size(what, x):
    return integer(what, x, 0)
