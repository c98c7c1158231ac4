"""Arguments that are no arrays: what is expected of them, and errors that say where, which function, what
was expected and what was found."""

import builtins
import operator
import sys
import threading

from . import _core, _shapes
from ._errors import InvalidError, TracerError

_LARGEST = (1 << 63) - 1


def place():
    at = _core.place()
    return f"{at[0]}:{at[1]}: " if at[0] else ""


def user_frame():
    """The innermost frame of code that is not hop's own; None: there is none."""
    frame = sys._getframe(1)
    while frame is not None and _core.is_package_code(frame.f_code):
        frame = frame.f_back
    return frame


def name_of(x, frame):
    """What the code of a frame calls an object; None: nothing."""
    for names in (frame.f_locals, frame.f_globals) if frame is not None else ():
        for name, held in list(names.items()):
            if held is x and name.isidentifier():
                return name
    return None


def here(argument):
    """An argument of the function of the package that the user called, as messages begin."""
    return _Here(argument)


class _Here:
    """Made into text only when a message is."""

    __slots__ = ("argument",)

    def __init__(self, argument):
        self.argument = argument

    def __str__(self):
        called = _core.call_place()
        name = called[len(place()) :]
        return name + self.argument


def found(x):
    """What something is, in words for a message."""
    if isinstance(x, _core.ArrayBase):
        return f"a traced value of type {x._type}" if x._traced else f"an array of type {x._type}"
    if isinstance(x, _shapes.Size):
        return f"the size {x}"
    if x is None or isinstance(x, (builtins.bool, int, float, str)):
        text = repr(x)
        return text if len(text) <= 60 else text[:57] + "…"
    if callable(x) and hasattr(x, "itemsize"):
        return f"the dtype {x}"
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


def unknown(what, expected, x):
    """The error that x is known only when the program runs; the capture cannot end well after it."""
    return _core.unknown(
        TracerError(
            f"{place()}{what}: expected {expected}, known while the program is captured, found {found(x)}: "
            "make the argument static (static_argnums, static_argnames)"
        )
    )


class _Twins(threading.local):
    """of: what gives the function that is called in place of one of the user's, in a capture; control:
    whether plain control flow may become operators; tried: whether a capture around sees to that;
    cuts: how many cuts (_cut.py) there were when it began."""

    of, control, tried, cuts = staticmethod(lambda fun: fun), True, False, 0


twins = _Twins()


def function(what, x):
    """A function of the user's. In a capture it is called as twins.of(x)."""
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
    expected = expected or (
        "an integer" if least < 0 else "a size" if most == _LARGEST else f"an integer from {least} to {most}"
    )
    if isinstance(x, _core.ArrayBase) and x._traced:
        raise unknown(what, expected, x)
    if isinstance(x, builtins.bool):
        raise wrong(what, expected, x)
    try:
        n = operator.index(x)
    except TracerError:  # a size that nothing can fix
        raise
    except TypeError:
        raise wrong(what, expected, x) from None
    if not least <= n <= most:
        raise wrong(what, expected if expected != "a size" or n < 0 else "a size below 2**63", n)
    return n


def real(what, x):
    """A real number that is known now."""
    if isinstance(x, (int, float)) and not isinstance(x, builtins.bool):
        try:
            return float(x)
        except OverflowError:
            raise wrong(what, "a number that a float holds", x) from None
    if isinstance(x, _core.ArrayBase) and x._traced:
        raise unknown(what, "a number", x)
    if isinstance(x, _shapes.Size):
        return float(x)
    try:
        return float(x) if getattr(x, "ndim", 0) == 0 and not isinstance(x, (str, bytes)) else float(None)
    except (TypeError, ValueError):
        raise wrong(what, "a number", x) from None


def size(what, x):
    return integer(what, x, 0)


def extent(what, x, least=0, expected="a size"):
    """A size: an integer, a hop.Size, or a traced integer, of which the program makes one."""
    if isinstance(x, _shapes.Size):
        if _shapes.holds(x, ">=", least) is False:
            raise wrong(what, expected, x)
        return x
    if _shapes.is_traced_integer(x):
        return _shapes.bound(x)
    return integer(what, x, least, expected=expected)


# ---- arguments of functions, by number and by name ----


class Signature:
    """What a function can be called with, as far as its code says. positional: names of those that can be
    given by position; more: whether there is *args; names: all that can be given by name; any_name:
    whether there is **kwargs."""

    __slots__ = ("positional", "more", "names", "any_name")


def signature(fun):
    """The signature of a Python function, a bound method or an object with __call__; None when it is not
    known."""
    bound = hasattr(fun, "__self__")
    code = getattr(fun, "__code__", None)
    if code is None and not isinstance(fun, type) and hasattr(type(fun), "__call__"):
        code, bound = getattr(type(fun).__call__, "__code__", None), True
    if code is None:
        return None
    s, n = Signature(), code.co_argcount
    s.positional, s.more, s.any_name = (
        code.co_varnames[int(bound) : n],
        builtins.bool(code.co_flags & 4),
        builtins.bool(code.co_flags & 8),
    )
    s.names = s.positional + code.co_varnames[n : n + code.co_kwonlyargcount]
    return s


def argument_numbers(what, x, fun):
    """Numbers of positional arguments: an int, or several; those that the function cannot have are errors."""
    if isinstance(x, str) or not (
        isinstance(x, (tuple, list, set, frozenset, range)) or hasattr(x, "__index__")
    ):
        raise wrong(what, "numbers of arguments", x)
    many = (x,) if hasattr(x, "__index__") else tuple(x)
    known = signature(fun)
    for a in many:
        n = integer(what, a, expected="numbers of arguments")
        if known and not known.more and not -len(known.positional) <= n < len(known.positional):
            raise InvalidError(
                f"{place()}{what}: there is no argument {n}: "
                f"{_called(fun)} has {len(known.positional)} "
                f"that can be given by position{_listed(known.positional)}"
            )
    return tuple(operator.index(a) for a in many)


def argument_names(what, x, fun):
    """Names of arguments: a text, or several; those that the function cannot have are errors."""
    if not isinstance(x, (str, tuple, list, set, frozenset)) or not all(isinstance(n, str) for n in x):
        raise wrong(what, "names of arguments", x)
    many = (x,) if isinstance(x, str) else tuple(x)
    known = signature(fun)
    for name in many:
        if known and not known.any_name and name not in known.names:
            raise InvalidError(
                f"{place()}{what}: there is no argument {name!r}: "
                f"{_called(fun)} has {', '.join(known.names) or 'none'}{_meant(name, known.names)}"
            )
    return many


def _called(fun):
    return getattr(fun, "__name__", type(fun).__name__)


def _listed(names):
    return f" ({', '.join(names)})" if names else ""


def _meant(name, names):
    import difflib  # here, because only a mistake needs it

    near = difflib.get_close_matches(name, names, 1)
    return f"; did you mean {near[0]!r}?" if near else ""
