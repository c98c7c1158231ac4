"""What a program does besides computing: it prints, it checks."""

import builtins
import string

from .. import _core
from .axes import all
from .common import _CODE, _call, _public
from .creation import _array
from .elementwise import _truth


def print(format, /, *values, when=True, backward=False, **named):
    """Prints a line when the program runs, the values in place of {}, {0}, {name}; {:.3f} for values
    without axes.

    Lines come in the order of the program, also from loops and under vmap. JAX's debug.print with
    ordered=True. when: a condition without axes; there is no line where it does not hold.

    With backward=True it gives the values back, one or a tuple of all, and a gradient that goes through
    what it gave prints their cotangents: "[backward] " and the line with cotangents in place of the floats.

    >>> hop.jit(lambda x: hop.print("x is {}", x) or x + 1)(hop.asarray(1.0))
    x is 1
    Array(2., dtype=float32)
    >>> hop.grad(lambda x: hop.sin(hop.print("x is {}", x, backward=True)) * 3)(0.0)
    x is 0
    [backward] x is 3
    Array(3., dtype=float32)
    """
    parts, given, plain, used = list(string.Formatter().parse(format)), [], True, 0
    for text, field, spec, conversion in parts:
        plain = plain and "{" not in text and "}" not in text and not spec and not conversion
        if field is None:
            continue
        at = used if field == "" else int(field) if field.isdigit() else field
        if at not in named if isinstance(at, str) else at >= len(values):
            raise ValueError(f"print: there is no value for {{{field}}} in {format!r}")
        given.append(named[at] if isinstance(at, str) else values[at])
        used = used if isinstance(at, str) else builtins.max(used, at + 1)
    given += values[used:]  # those without a place come last

    def line():
        _print_line(format, parts if plain else None, given, values, named)

    if when is not True and _core.tracing():
        from .._control import cond

        cond(_truth(when), line, lambda: None)
    elif when is True or _truth(when).item():
        line()
    return _with_cotangents(format, values, when, named) if backward else None


def _print_line(format, parts, given, values, named):
    """given: the values in the order of the line. parts: of its text; None: Python formats it."""
    if parts is None:
        from .._callback import debug_callback

        debug_callback(lambda v, n: builtins.print(format.format(*v, **n)), values, named)
        return
    line = "".join(text + ("{}" if field is not None else "") for text, field, _, _ in parts)
    if _core.tracing():
        _call(_CODE["print"], tuple([_array(v) for v in given]), line)
        return
    for v in given:
        text = str(_array(v).tolist())
        line = line.replace("{}", text, 1) if "{}" in line else f"{line} {text}"
    builtins.print(line)


def _with_cotangents(format, values, when, named):
    """The values, of which a gradient prints the cotangents."""
    from .._custom import custom_vjp

    arrays = [_array(v) for v in (*values, *named.values())]
    floats = [i for i, x in enumerate(arrays) if x.dtype.kind == "f"]
    others = [None if i in floats else x for i, x in enumerate(arrays)]

    def backward(needs, cotangents):
        when, shown = needs[0], list(needs[1])
        for i, ct in zip(floats, cotangents):
            shown[i] = ct
        by_name = dict(zip(named, shown[len(values) :]))
        print("[backward] " + format, *shown[: len(values)], when=when, **by_name)
        return cotangents

    if floats:
        same = custom_vjp(lambda *xs: xs, tangent="body")
        same.defvjp(lambda *xs: (same(*xs), (when, others)), backward)
        for i, x in zip(floats, same(*[arrays[i] for i in floats])):
            arrays[i] = x
    return arrays[0] if len(arrays) == 1 else tuple(arrays)


def check(condition, message="", /, *values):
    """Ends the run with hop.CheckError, the message and the values unless the condition holds everywhere.

    It works in compiled code, in loops and under vmap, and is kept in gradients. JAX has checkify for it.

    >>> def root(x):
    ...     hop.check(x >= 0, "negative: {}", x)
    ...     return hop.sqrt(x)
    >>> hop.jit(root)(4.0)
    Array(2., dtype=float32)
    """
    condition = _truth(condition)
    if _core.tracing():
        _call(_CODE["check"], (condition, *[_array(v) for v in values]), message)
    elif not all(condition).item():
        from .._errors import CheckError

        raise CheckError(message + "".join(f" {_array(v).tolist()}" for v in values))


__all__ = _public(globals())
