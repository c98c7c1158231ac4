"""Public functions and methods as users call them: entries (python/src/entry.c), whose errors show the
user's lines alone and explain arguments that are not there."""

import types

from . import _core, _habits

_made = {}  # function -> its entry: one for each, whatever it is called


def entry(function):
    if function not in _made:
        _made[function] = _core.entry(function)
    return _made[function]


def install(module):
    """Makes entries of the functions that a module offers, and of the methods of its classes."""
    for name in module.__all__:
        value = getattr(module, name)
        if isinstance(value, types.FunctionType):
            if value.__module__ not in ("hop", module.__name__) and value not in _made:
                value.__module__ = module.__name__  # where users, and pickle, find it
            setattr(module, name, entry(value))
        elif isinstance(value, type) and value.__module__.startswith("hop"):
            install_methods(value)


def install_methods(owner):
    for name, value in list(vars(owner).items()):
        if (
            isinstance(value, types.FunctionType)
            and name not in ("__new__", "__del__")
            and not _private(name)
        ):
            setattr(owner, name, entry(value))
        elif isinstance(value, property) and not _private(name):
            setattr(owner, name, property(entry(value.fget), value.fset, value.fdel, value.__doc__))


def _private(name):
    return name.startswith("_") and not name.endswith("__")


_core.set_explain(_habits.explain)
