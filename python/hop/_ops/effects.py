"""What a program does besides computing: it prints, it checks."""

import builtins
import string

from .. import _core
from .axes import all
from .common import _CODE, _call, _public
from .creation import _array
from .elementwise import _truth


def print(format, /, *values, **named):
    """Prints a line when the program runs, the values in place of {}, {0}, {name}; {:.3f} for values
    without axes.

    Lines come in the order of the program, also from loops and under vmap. JAX's debug.print with
    ordered=True.

    >>> hop.jit(lambda x: hop.print("x is {}", x) or x + 1)(hop.asarray(1.0))
    x is 1
    Array(2., dtype=float32)
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
    if not plain:
        from .._callback import debug_callback

        debug_callback(lambda v, n: builtins.print(format.format(*v, **n)), values, named)
        return
    given += values[used:]  # those without a place come last
    line = "".join(text + ("{}" if field is not None else "") for text, field, _, _ in parts)
    if _core.tracing():
        _call(_CODE["print"], tuple([_array(v) for v in given]), line)
        return
    for v in given:
        text = str(_array(v).tolist())
        line = line.replace("{}", text, 1) if "{}" in line else f"{line} {text}"
    builtins.print(line)


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
