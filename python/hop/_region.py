"""Bodies under a regime: region(kind, **attributes)(f)."""

__all__ = ["region", "region_rewriting"]

import functools
import math
import re

from . import _arguments, _calls, _core, _jit, _reuse
from ._arguments import place, twins
from ._errors import InvalidError
from ._function import Function
from ._trace import arrays_of_results, controlled, given_leaves
from ._transforms import _callable, _wrapper, in_program

_MISSING = object()
_KNOWN = {"wrap", "named", "numbers", "hints"}
_rewritten = {}  # kinds that have a rewriting, and the function


def region(kind, /, **attributes):
    """A decorator: the function's part of a program is a region of this kind. It means the function; what
    else holds for it the kind says, and gradients, tangents and batches of it are regions of the same kind
    with the same attributes. Kinds that hop does not know are legal; hop.region_rewriting says what becomes
    of them.

    "wrap": a boundary, across which nothing is fused or moved. "named", name="…": the name stands in what
    explain shows and in messages. "numbers", mode="strict": strict numbers, whatever those of the program
    are. "hints": unroll=n, vector="off", threads=n, schedule="every 8" for the loops inside. Any kind takes
    inline="yes" (it is put in place when it is compiled) and inline="no" (it is a boundary). Attributes are
    strings, numbers, bools, or lists of them; those that hop does not know are kept.

    region("once") keeps what the function makes of constant arrays: those that jit's constant_argnames names
    and those that the jitted function closes over. It is computed at the first call, and again when such an
    array is another one or was written to; jit(f).kept() says how often.

    >>> f = hop.region("mine", bits=8)(hop.sin)
    >>> f(0.0), hop.grad(f)(0.0)
    (Array(0., dtype=float32), Array(1., dtype=float32))

    >>> half = hop.region("once")(lambda w: w / 2)
    >>> g = hop.jit(lambda w, x: half(w) * x, constant_argnames="w")
    >>> w = hop.asarray([2.0, 4.0])
    >>> g(w, 1.0), g(w, 3.0), g.kept()
    (Array([1., 2.], dtype=float32), Array([3., 6.], dtype=float32), {'values': 1, 'bytes': 8, 'made': 1})
    """
    if not isinstance(kind, str) or not kind:
        raise TypeError(f"{place()}region: expected the name of a kind, found {kind!r}")
    text = attributes_text(attributes)
    if kind in _KNOWN:
        _check_kind(kind, text)

    def record(body, values):
        return _core.region(body, values, kind, text)

    def decorate(fun):
        _reuse.check_pure(_callable(fun, "region"))
        called = in_program(fun, ("region", kind, text), (), record)
        compiled = []

        @_wrapper(fun, "region")
        def in_region(*args, **named):
            if _core.tracing():
                return called(*args, **named)
            if kind not in _rewritten:
                return fun(*args, **named)
            if not compiled:
                compiled.append(_jit.jit(called))
            return compiled[0](*args, **named)

        return in_region

    return decorate


@functools.cache
def _check_kind(kind, text):
    """Attributes that the kind does not take are refused where the region is made."""
    _core.capture(lambda x: _core.region(lambda y: [y], [x], kind, text), "checked", ["x"], ["f32[]"])


def region_rewriting(kind, fun=_MISSING, *, version=None):
    """Registers what becomes of regions of a kind when a program is compiled or interpreted, after all
    transforms: fun(attributes, body) gets a dict and a hop.Function, and gives a function of the same
    arguments and results (body itself leaves it as it is). Gradients and batches of a region are regions of
    its kind, so their bodies come by as well. Regions in bodies are rewritten before; what fun gives is not
    rewritten again. It holds for the whole process, in place of one of the same kind; None as fun removes it.
    version is a part of the key under which compiled programs are kept: change it with what fun does.

    >>> @hop.region_rewriting("doubled")
    ... def doubled(attributes, body):
    ...     return lambda x: 2 * body(x)
    >>> hop.jit(hop.region("doubled")(hop.cos))(0.0)
    Array(2., dtype=float32)
    >>> hop.region_rewriting("doubled", None)
    """
    kind = _arguments.text("region_rewriting: kind", kind)
    if not kind or "\0" in kind:
        raise InvalidError(f"{place()}region_rewriting: kind: expected a name, found {kind!r}")
    version = None if version is None else str(version)
    if version is not None and "\0" in version:
        raise InvalidError(f"{place()}region_rewriting: version: found a zero character in {version!r}")

    def register(fun):
        _arguments.function("region_rewriting: fun", fun)
        _core.region_register(kind, version, _rewriter(kind, fun))
        _rewritten[kind] = fun
        _forget()
        return fun

    if fun is _MISSING:
        return register
    if fun is not None:
        return register(fun)
    if kind not in _rewritten:
        raise InvalidError(f"{place()}region_rewriting: there is no rewriting of {kind!r}")
    _core.region_unregister(kind)
    del _rewritten[kind]
    _forget()
    return None


def _forget():
    """Programs that were compiled before may be others now."""
    _calls.clear_caches()
    for compiled in list(_jit._every):
        compiled.clear_cache()


def _rewriter(kind, fun):
    """What the library calls: (attributes as text, program) -> program."""

    def rewrite(text, program):
        try:
            return _rewritten_program(kind, fun, text, program)
        except Exception as error:
            error.add_note(f"in the rewriting of regions of kind {kind!r}")
            raise

    return rewrite


def _rewritten_program(kind, fun, text, program):
    body = Function(program)
    made = fun(attributes_of(text), body)
    if isinstance(made, Function) and not made.bound:
        return made._program
    if not callable(made):
        raise TypeError(
            f"region_rewriting: expected a function in place of the body {body!r}, "
            f"found {_arguments.found(made)}"
        )

    def flat(*values):
        found, _ = arrays_of_results(twins.of(made)(*values))
        return given_leaves(found)[0]

    names = [name or f"x{i}" for i, name in enumerate(body.names)]
    got, hidden, _ = controlled(lambda: _core.capture(flat, "rewritten", names, list(body.params)), made)
    if hidden:
        raise InvalidError(
            "region_rewriting: the function that it gives uses an array from outside: make the array in that "
            "function, or give it to the region as an argument"
        )
    return got


# ---- attributes as text ----


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


_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[][,=]|[^][,="\s]+)')
_WORDS = {"true": True, "false": False, "inf": math.inf, "-inf": -math.inf}


def attributes_of(text):
    """The dict that attributes_text made the text of."""
    tokens, out, at = _TOKEN.findall(text), {}, 0
    while at < len(tokens):  # name = value ,
        name, at = tokens[at], at + 2
        if tokens[at] == "[":
            end = tokens.index("]", at)
            out[name] = [_value_of(token) for token in tokens[at + 1 : end] if token != ","]
            at = end + 2
        else:
            out[name] = _value_of(tokens[at])
            at += 2
    return out


_UNESCAPED = {v: k for k, v in _ESCAPES.items()}


def _value_of(token):
    if token[0] == '"':
        return re.sub(
            r"\\(?:x[0-9a-f]{2}|.)",
            lambda m: _UNESCAPED.get(m[0]) or chr(int(m[0][2:], 16)),
            token[1:-1],
        )
    if token in _WORDS:
        return _WORDS[token]
    if token.lstrip("-").startswith("nan"):
        return math.nan
    if "x" in token:
        return float.fromhex(token)
    return int(token) if token.lstrip("-").isdigit() else float(token)
