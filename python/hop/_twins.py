"""Which function is captured in place of one of the user's: its rewritten twin (_rewrite.py), where plain
control flow met traced values."""

import functools
import types
import weakref

from . import _arguments, _core, _effects, _flow, _objects, _rewrite
from ._errors import TracerError

_MOST_WRAPPED = 16
_flow.complete()


def twin(f):
    """What is captured in place of a function."""
    if type(f) is types.FunctionType:
        return _twin_of(f)
    if type(f) is types.MethodType and type(f.__func__) is types.FunctionType:
        other = _twin_of(f.__func__)
        return f if other is f.__func__ else types.MethodType(other, f.__self__)
    if type(f) is functools.partial:
        return functools.partial(twin(f.func), *f.args, **f.keywords)
    if isinstance(f, type) and f.__init__ is not object.__init__:
        return _constructor(f)
    if type(f) is types.BuiltinFunctionType:
        other = _flow.builtin(f)
        return _twin_of(other) if type(other) is types.FunctionType else other
    if isinstance(f, type):
        return _flow.builtin(f)
    call = _objects.static_of(type(f), "__call__")
    if type(call) is types.FunctionType and not isinstance(f, _core.JitBase):
        other = _twin_of(call)
        return f if other is call else types.MethodType(other, f)
    return f


def _constructor(cls):
    """What makes an object of a class whose __init__ is rewritten."""
    init = _objects.static_of(cls, "__init__")
    if type(cls) is not type or cls.__new__ is not object.__new__ or type(init) is not types.FunctionType:
        return _flow.builtin(cls)
    other = _twin_of(init)
    if other is init:
        return cls

    def construct(*args, **named):
        made = cls.__new__(cls)
        other(made, *args, **named)
        return made

    return construct


def _package(names):
    return str(names.get("__name__")).partition(".")[0]


def _twin_of(fun):
    if _package(fun.__globals__) in ("hop", "numpy") or fun.__code__.co_name.startswith(_flow._OWN):
        return fun
    if _rewrite._RUNTIME in fun.__code__.co_freevars:
        return fun
    try:
        return _rewrite.rewritten(fun, _flow)
    except _rewrite.Unsupported:
        return fun


class calling:
    """Within this, functions of the user's are called as of(fun) gives them."""

    def __init__(self, of, control, tried):
        self._mode = of, control, tried

    def __enter__(self):
        twins = _arguments.twins
        self._before = twins.of, twins.control, twins.tried, twins.cuts
        twins.of, twins.control, tried = self._mode
        twins.cuts = twins.cuts if twins.tried else _core.cuts()
        twins.tried = tried

    def __exit__(self, kind, error, trace):
        twins = _arguments.twins
        if not twins.control and isinstance(error, TracerError):
            error.wanted = True
        twins.of, twins.control, twins.tried, twins.cuts = self._before


def _itself(fun):
    return fun


def mode(control):
    """Within this a function is captured for which control flow may become operators, or not."""
    twins = _arguments.twins
    if control:
        return calling(twins.of, True, twins.tried and twins.control)
    return calling(_itself, False, False)


# Code of functions that have been captured with their control flow as operators: they are from the start.
_rewritten = weakref.WeakSet()


def _in_bodies(fun):
    """Behind a cut (_cut.py) nothing can be captured once more: bodies are rewritten from the start."""
    return twin(fun) if _core.behind_cut() else fun


def captured(capture, fun, cut=False):
    """capture(), which calls fun; where control flow meets traced values, that of rewritten functions. cut:
    it is one that may be cut there instead, outside of bodies."""
    fun = _inner(fun)
    code = getattr(fun, "__code__", None)
    if cut or code not in _rewritten:
        met, cuts = _core.unknowns(), _core.cuts()
        _effects.begin()
        try:
            with calling(_in_bodies if cut else _itself, True, True):
                return capture()
        except Exception as error:  # the user's function may answer a TracerError with another one
            plain = not isinstance(error, TracerError) and _core.unknowns() == met
            if plain and not _is_about_keys(error) or _core.cuts() != cuts:
                raise
        _effects.check_abandoned()
    with calling(twin, True, True):
        try:
            out = capture()
        except TracerError as error:
            why = "" if error.wanted else _why_python(error.__traceback__)
            raise (TracerError(f"{error}{why}") if why else error) from None
        except TypeError as error:
            if not _is_about_keys(error):
                raise
            where = _place(*_innermost(error.__traceback__))
            raise TracerError(
                f"{where}a traced value cannot be a key of a dict, nor in a set: which one it is is known "
                "only when the program runs"
            ) from None
    if code is not None:
        _rewritten.add(code)
    return out


def _is_about_keys(error):
    """Whether Python has asked for the hash of a traced value."""
    return type(error) is TypeError and str(error) == "unhashable type: 'Tracer'"


def _innermost(trace):
    """(code of the user's that an exception comes from, its line); None and 0: there is none."""
    found = None, 0
    while trace is not None:
        if _package(trace.tb_frame.f_globals) != "hop":
            found = trace.tb_frame.f_code, trace.tb_lineno
        trace = trace.tb_next
    return found


def _place(code, line):
    return "" if code is None else f"{code.co_filename}:{line}: "


def _inner(fun):
    """The function of the user's that a method, a partial or a transform stands for; None: there is none."""
    for _ in range(_MOST_WRAPPED):
        if type(fun) is types.FunctionType and _package(fun.__globals__) != "hop":
            return fun
        for name in ("__func__", "func", "__wrapped__"):
            if hasattr(fun, name):
                fun = getattr(fun, name)
                break
        else:
            return None
    return None


def _why_python(trace):
    """Why the function that met a traced value was run by Python as it is, in words."""
    code, _ = _innermost(trace)
    if code is None or _rewrite.is_rewritten(code):
        return ""
    try:
        _rewrite.check(code)
    except _rewrite.Unsupported as reason:
        return f"; its control flow cannot become operators: {reason}"
    return f"; {code.co_name} is called by Python itself or by code that is not rewritten"
