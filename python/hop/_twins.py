"""Which function is captured in place of one of the user's: its rewritten twin (_rewrite.py), where plain
control flow met traced values."""

import types

from . import _arguments, _core, _flow, _objects, _rewrite
from ._errors import TracerError


def twin(f):
    """What is captured in place of a function."""
    if type(f) is types.FunctionType:
        return _twin_of(f)
    if type(f) is types.MethodType and type(f.__func__) is types.FunctionType:
        other = _twin_of(f.__func__)
        return f if other is f.__func__ else types.MethodType(other, f.__self__)
    if type(f) is types.BuiltinFunctionType or isinstance(f, type):
        return _flow.BUILTINS.get(f, f)
    call = _objects.static_of(type(f), "__call__")
    if type(call) is types.FunctionType and not isinstance(f, _core.JitBase):
        other = _twin_of(call)
        return f if other is call else types.MethodType(other, f)
    return f


def _twin_of(fun):
    package = str(fun.__globals__.get("__name__")).partition(".")[0]
    if package in ("hop", "numpy") or fun.__code__.co_name.startswith(_flow._OWN):
        return fun
    if _rewrite._RUNTIME in fun.__code__.co_freevars:
        return fun
    try:
        return _rewrite.rewritten(fun, _flow)
    except _rewrite.Unsupported:
        return fun


class rewriting:
    """Within this, functions that hop's operators and transforms are given are rewritten."""

    def __enter__(self):
        self._before, _arguments.twins.of = _arguments.twins.of, twin

    def __exit__(self, *exception):
        _arguments.twins.of = self._before


def captured(capture, fun):
    """capture(fun); where that meets the truth of a traced value, capture of fun rewritten."""
    before = _flow._containers(fun) if type(fun) is types.FunctionType else []
    try:
        return capture(fun)
    except TracerError as error:
        first = error
    _flow._unchanged(before, "the function, which is captured once more because of its control flow,")
    with rewriting():
        try:
            return capture(twin(fun))
        except TracerError:
            raise first from None
