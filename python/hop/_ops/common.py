"""What the families of operators share: the calls of the table, axes and shapes as it takes them,
functions that others make."""

from .. import _arguments, _core, _shapes
from .._arguments import here
from .examples import EXAMPLES

_CODE = _core.codes
_op, _call = _core.op, _core.call


def _public(family):
    """The names of a family, given its globals: what it defines itself."""
    return [
        name
        for name, value in family.items()
        if not name.startswith("_") and getattr(value, "__module__", None) == family["__name__"]
    ]


def _named(function, name, doc):
    """A function that another one made, known by its own name: in tracebacks, and in messages about it."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{doc}{EXAMPLES[name]}" if name in EXAMPLES and ">>>" not in doc else doc
    function.__code__ = function.__code__.replace(co_name=name, co_qualname=name)
    return function


def _axes_text(axis):
    if axis is None:
        return "all"
    return ", ".join(str(_axis(a)) for a in axis) if isinstance(axis, (tuple, list)) else str(_axis(axis))


def _axis(axis):
    return (
        axis
        if type(axis) is int and -64 <= axis < 64
        else _arguments.integer(here("axis"), axis, -64, 64, "the number of an axis")
    )


def _along(x, axis, argument="axis"):
    """The number of an axis of x, from the front."""
    if type(axis) is int and -x.ndim <= axis < x.ndim:
        return axis % x.ndim
    return _arguments.integer(here(argument), axis, -x.ndim, x.ndim - 1, f"an axis of {x._type}") % x.ndim


def _dims(shape):
    """A shape as a tuple of sizes; a size is a shape of one axis."""
    if isinstance(shape, (tuple, list)):
        return tuple([s if type(s) is int and -1 <= s < 1 << 62 else _size(s) for s in shape])
    return (_size(shape),)


def _size(s):
    if isinstance(s, _shapes.Size):
        return s
    if _shapes.is_traced_integer(s):
        return _shapes.bound(s)
    if isinstance(s, _core.ArrayBase) and s._traced and s.dtype.kind == "f":
        expected = "sizes (integers: // divides them, .astype(hop.int64) makes one of a real number)"
        raise _arguments.wrong(here("shape"), expected, s)
    return _arguments.integer(here("shape"), s, -(1 << 62), 1 << 62, "sizes (an integer, or several)")


_text = _shapes.texts


def _on(device):
    """There is one device."""
    if device not in (None, "cpu"):
        raise ValueError(f"{_core.call_place()}there is no device {device!r}")


def _type(d, dims):
    return f"{d.text}[{_text(dims)}]"
