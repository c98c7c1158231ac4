"""Parts of programs for other engines: delegate(f, engine).

A delegated function is a region of the kind "delegate" with the name of its engine. When a program is
compiled or interpreted, after all transforms, the engine gets the body; what it gives becomes an operator
(_operator.Site), which the program keeps alive, and the region a call of it."""

__all__ = ["delegate"]

import hashlib
import math
import re
import weakref

from . import _arguments, _core, _dtypes, _operator, _region
from ._arguments import place
from ._errors import CheckError, InvalidError
from ._function import Function
from ._ops import asarray
from ._trace import recorded
from ._transforms import _callable, _wrapper

_KIND = "delegate"
_engines = {}  # key -> a reference to the engine
_numbers = {}  # name -> how many engines had it; no two of a process have one key
_sites = weakref.WeakValueDictionary()  # (key, version, how it is checked, text of the body) -> Site
_BY_TEXT = {dtype.text: dtype for dtype in _dtypes.ALL}


def delegate(fun, engine, *, check=False, rtol=None, atol=0.0):
    """fun, whose part of a program another engine runs. The function stays what it means: types, gradients,
    tangents and batches come from it, and where the engine does not want a part, hop compiles it.

    An engine is an object with a name, a version (optional) and a method compile(text, params, results,
    function), which is called when a program is compiled or interpreted, after all transforms: text is the
    body in the text form, params and results are its types ("f32[N, 3]"), function is the body as a
    hop.Function, which has its nodes, and can be called. It gives what is to be run: a function of as many
    arrays that gives an array, or a tuple of them; a program, compiled (function.compile(strict=True)) or a
    hop.Function; or None: not for this engine. Gradients of a delegated function are delegated, too: their
    bodies come by as others. The function gets copies as arrays of NumPy's, or of hop's if engine.arrays is
    "hop", and may keep them.

    check: the first call of each part also computes the body, and raises hop.CheckError where a result
    differs by more than atol + rtol * the largest magnitude in it; rtol None: what fits the dtype.

    >>> class Doubling:
    ...     name, version, arrays = "doubling", 1, "hop"
    ...     def compile(self, text, params, results, function):
    ...         return (lambda x: x + x) if "add(%x, %x)" in text else None
    >>> f = hop.delegate(lambda x: x + x, Doubling())
    >>> f(2.0), hop.grad(f)(2.0)
    (Array(4., dtype=float32), Array(2., dtype=float32))
    """
    _callable(fun, "delegate")
    key = _key_of(engine)
    check = _arguments.flag("delegate: check", check)
    how = {"engine": key, "version": str(getattr(engine, "version", ""))}
    if check:
        how["rtol"] = -1.0 if rtol is None else _bound("rtol", rtol)
        how["atol"] = _bound("atol", atol)
    if _KIND not in _region._rewritten:
        _region.region_rewriting(_KIND, _rewritten)
    part = _region.region(_KIND, **how)(fun)

    @_wrapper(fun, "delegate")
    def delegated(*args, **named):
        return part(*args, **named)

    delegated.engine = engine  # which lives as long as this does
    return delegated


def _bound(name, x):
    if not _dtypes.is_number(x) or isinstance(x, complex) or not 0 <= x < math.inf:
        raise _arguments.wrong(f"delegate: {name}", "a number that is not negative", x)
    return float(x)


def _key_of(engine):
    """The name under which programs know the engine: its own, with a number where another has that."""
    name = getattr(engine, "name", None)
    if not isinstance(name, str) or not name or "\0" in name:
        raise _arguments.wrong("delegate: engine", "an object with a name, a text", engine)
    if not callable(getattr(engine, "compile", None)):
        raise _arguments.wrong("delegate: engine", "an object with a method compile", engine)
    if getattr(engine, "arrays", "numpy") not in ("numpy", "hop"):
        raise InvalidError(f'{place()}delegate: engine {name!r}: arrays: expected "numpy" or "hop"')
    for key, known in list(_engines.items()):
        if known() is engine:
            return key
    number = _numbers[name] = _numbers.get(name, 0) + 1
    key = name if number == 1 else f"{name} {number}"
    try:
        _engines[key] = weakref.ref(engine, lambda _: _engines.pop(key, None))
    except TypeError:  # of a class without weak references: it lives on
        _engines[key] = lambda: engine
    return key


# ---- what becomes of a region ----


def _rewritten(attributes, body):
    reference = _engines.get(attributes["engine"])
    engine = reference and reference()
    if engine is None or not _can_be_operator(body):
        return body
    text = body.text()
    key = (*(attributes.get(k) for k in ("engine", "version", "rtol", "atol")), text)
    site = _sites.get(key)
    if site is None:
        made = _compiled(engine, text, body)
        if made is None or isinstance(made, Function):
            return body if made is None else made
        site = _sites[key] = _site(engine, attributes, made, body, text)
    n = len(body.results)

    def call(*values):
        return tuple(recorded(lambda: site._record(list(values), None, n)))

    return call


def _compiled(engine, text, body):
    try:
        made = engine.compile(text, body.params, body.results, body)
    except Exception as error:
        error.add_note(f"in the engine {engine.name!r}, which was to compile {body!r}")
        raise
    if made is not None and not callable(made):
        raise TypeError(
            f"delegate: engine {engine.name!r}: expected a function in place of {body!r}, or None, "
            f"found {_arguments.found(made)}"
        )
    return made


def _can_be_operator(body):
    """Arrays go in and out, whose sizes are known before it runs."""
    types = (*body.params, *body.results)
    if any(t.startswith("object") or "?" in t for t in types) or body.dims:
        return False
    sizes = [s.strip() for t in body.params for s in t[t.index("[") + 1 : -1].split(",")]
    told = {s for s in sizes if s.isidentifier()}
    return set(re.findall(r"[^\W\d]\w*", " ".join(t[t.index("[") :] for t in types))) <= told | {"min", "max"}


def _site(engine, attributes, made, body, text):
    """What the engine gave, as an operator."""
    digest = hashlib.blake2b(f"{attributes['version']}\n{text}".encode(), digest_size=6).hexdigest()
    word = re.sub(r"\W+", "_", f"{attributes['engine']}_{body.name}", flags=re.ASCII)
    name = _operator.free_name(f"engine_{word}_{digest}")
    exe = getattr(made, "_executable", None)
    checks = "rtol" in attributes
    if exe is not None and not checks:
        _expect_types(engine, made, body)
        site = _operator.Site(name, made, None)
        site._register_exe(name, exe, len(body.results))
        _operator._sites[name] = site
        return site
    params = ", ".join(f"x{i}: {t}" for i, t in enumerate(body.params))
    signature = _operator.Signature(f"({params}) -> ({', '.join(body.results)})")
    run = _Run(engine, made, body, (attributes["rtol"], attributes["atol"]) if checks else None)
    site = _operator.Site(name, run, None)
    _operator.register(
        site, signature, run.call, 0, body._program.effect, False, "each", None, arrays=True
    )
    return site


def _expect_types(engine, made, body):
    found = made._types
    if found != (body.params, body.results):
        shown = [f"({', '.join(p)}) -> ({', '.join(r)})" for p, r in ((body.params, body.results), found)]
        raise InvalidError(
            f"delegate: engine {engine.name!r}: expected a program {shown[0]}, found {shown[1]}"
        )


# ---- runs ----


class _Run:
    """A function of an engine's; call(arrays, shapes of the results, lanes) is what programs call."""

    def __init__(self, engine, run, body, bounds):
        self._what, self._run, self._bounds = f"engine {engine.name!r}", run, bounds
        self._numpy = _numpy() if getattr(engine, "arrays", "numpy") == "numpy" else None
        self._dtypes = [_BY_TEXT[t.partition("[")[0]] for t in body.results]
        self._body = body if bounds is not None else None

    def call(self, arrays, shapes, lanes):
        given = arrays if self._numpy is None else [self._numpy.asarray(x) for x in arrays]
        found = self._run(*given)
        n = len(shapes)
        if n == 1 and not isinstance(found, (tuple, list)):
            found = (found,)
        if not isinstance(found, (tuple, list)):
            raise InvalidError(f"{self._what}: expected {n} results, found {_arguments.found(found)}")
        if len(found) != n:
            raise InvalidError(f"{self._what}: expected {n} results, found {len(found)}")
        out = [self._result(k, found[k], tuple(shapes[k])) for k in range(n)]
        if self._body is not None:
            self._compare(arrays, out)
            self._body = None
        return out

    def _result(self, k, x, shape):
        dtype = self._dtypes[k]
        expected = f"{self._what}: result {k}: expected {dtype.text}[{', '.join(map(str, shape))}]"
        try:
            y = asarray(x, dtype=dtype) if _dtypes.is_number(x) else asarray(x)
        except (TypeError, ValueError, OverflowError):
            raise InvalidError(f"{expected}, found {_arguments.found(x)}") from None
        if y.dtype is not dtype or y.shape != shape:
            raise InvalidError(f"{expected}, found {y._type}")
        return y

    def _compare(self, arrays, out):
        wanted = self._body(*arrays)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for k, (x, y) in enumerate(zip(out, wanted)):
            rtol, atol = self._bounds
            if rtol < 0:
                rtol = _RTOL.get(self._dtypes[k].text, 0.0)
            at = _first_difference(_flat(x), _flat(y), rtol, atol)
            if at is not None:
                place, found, expected = at
                raise CheckError(
                    f"{self._what}: result {k} is not that of the body: element {place} of {x._type}: "
                    f"expected {expected!r}, found {found!r}"
                )


_RTOL = {"f16": 1e-2, "bf16": 5e-2, "f32": 1e-4, "f64": 1e-9}


def _numpy():
    try:
        import numpy
    except ImportError:
        return None
    return numpy


def _flat(x):
    out, rest = [], [x.tolist()]
    while rest:
        item = rest.pop()
        if isinstance(item, list):
            rest += item[::-1]
        else:
            out.append(item)
    return out


def _first_difference(found, expected, rtol, atol):
    """(number, found, expected) of the first element that is too far away; None: there is none."""
    largest = max((abs(v) for v in expected if math.isfinite(v)), default=0)
    bound = atol + rtol * largest
    for i, (a, b) in enumerate(zip(found, expected)):
        if a == b or (a != a and b != b):
            continue
        if not (math.isfinite(a) and math.isfinite(b) and abs(a - b) <= bound):
            return i, a, b
    return None
