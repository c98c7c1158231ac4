"""Bodies under a regime: region(kind, **attributes)(f)."""

__all__ = ["region"]

import math

from . import _core, _reuse
from ._arguments import place
from ._errors import InvalidError
from ._transforms import _callable, _wrapper, in_program


def region(kind, /, **attributes):
    """A decorator: the function's part of a program is a region of this kind. It means the function; what
    else holds for it the kind says, and gradients, tangents and batches of it are regions of the same kind
    with the same attributes. Kinds that hop does not know are legal.

    Attributes are strings, numbers, bools, or lists of them.

    >>> f = hop.region("mine", bits=8)(hop.sin)
    >>> f(0.0), hop.grad(f)(0.0)
    (Array(0., dtype=float32), Array(1., dtype=float32))
    """
    if not isinstance(kind, str) or not kind:
        raise TypeError(f"{place()}region: expected the name of a kind, found {kind!r}")
    text = attributes_text(attributes)

    def decorate(fun):
        _reuse.check_pure(_callable(fun, "region"))
        called = in_program(fun, ("region", kind, text), (),
                            lambda body, values: _core.region(body, values, kind, text))

        @_wrapper(fun, "region")
        def in_region(*args, **named):
            return called(*args, **named) if _core.tracing() else fun(*args, **named)

        return in_region

    return decorate


def attributes_text(attributes):
    """The attributes as the text form writes them."""
    return ", ".join(f"{name} = {_value_text(name, value)}" for name, value in sorted(attributes.items()))


def _value_text(name, value, inside=False):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise InvalidError(f"{place()}region: attribute {name}: {value} does not fit into 64 bits")
        return str(int(value))
    if isinstance(value, float):
        if math.isfinite(value):
            text = repr(float(value))
            return text if "." in text or "e" in text else text + ".0"
        return "nan" if value != value else "inf" if value > 0 else "-inf"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, (list, tuple)) and not inside:
        return "[" + ", ".join(_value_text(name, x, True) for x in value) + "]"
    raise TypeError(
        f"{place()}region: attribute {name}: expected a string, a number, a bool or a list of them, "
        f"found {type(value).__name__}"
    )


_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def _quoted(text):
    if "\0" in text:
        raise InvalidError(f"{place()}region: a string of an attribute has a zero character")
    return '"' + "".join(_ESCAPES.get(c, c if c >= " " else f"\\x{ord(c):02x}") for c in text) + '"'
