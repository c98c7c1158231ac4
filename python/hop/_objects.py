"""What objects of Python are, found out without running code of the user's."""

import collections
import enum
import sys
import types

SIMPLE = (int, float, complex, str, bytes)
FUNCTIONS = (types.FunctionType,)
MISSING = object()
_FOREIGN = frozenset(("hop", "numpy", "builtins", *sys.stdlib_module_names)) - {"__main__", "test"}
_HOLDERS = (("argparse", "Namespace"), ("collections", "UserDict"), ("collections", "UserList"))
# Methods that change a container and tell nothing about it.
CONTAINERS = (list, dict, set, collections.deque, collections.defaultdict, collections.OrderedDict)
WRITES = frozenset(("append", "appendleft", "extend", "insert", "add", "update", "clear", "discard"))


def is_foreign(module):
    return str(module).partition(".")[0] in _FOREIGN


def static_of(cls, name):
    """What a class has under a name, without asking descriptors."""
    for base in type.__dict__["__mro__"].__get__(cls):
        if name in base.__dict__:
            return base.__dict__[name]
    return MISSING


def is_plain_class(cls):
    return type(cls) is type or type(cls).__getattribute__ is type.__getattribute__


def is_instance(x):
    """Whether x is an object of a class of the user's whose attributes are where Python looks for them."""
    cls = type(x)
    if cls is types.SimpleNamespace or (cls.__module__, cls.__name__) in _HOLDERS:
        return True
    if isinstance(x, (type, types.ModuleType, enum.Enum)) or is_foreign(cls.__module__):
        return False
    return cls.__getattribute__ in _PLAIN and is_plain_class(cls)


_PLAIN = tuple(c.__getattribute__ for c in (object, list, dict, tuple, set, frozenset, int, float, str))


def namespace(x):
    """The dict of an object, None where there is none."""
    if not type(x).__dictoffset__:
        return None
    try:
        return object.__getattribute__(x, "__dict__")
    except AttributeError:
        return None


def slots(cls):
    for base in type.__dict__["__mro__"].__get__(cls):
        for name, value in base.__dict__.items():
            if isinstance(value, types.MemberDescriptorType):
                yield name


def is_key(x):
    if type(x) is tuple:
        return all(map(is_key, x))
    return x is None or isinstance(x, enum.Enum) or type(x) in (bool, type, *FUNCTIONS, *SIMPLE)


def is_buffer(x):
    if type(x).__module__ == "numpy":
        return hasattr(x, "dtype") and hasattr(x, "tobytes")
    return type(x) is bytearray or (type(x).__module__, type(x).__name__) == ("array", "array")


def nbytes(x):
    return x.nbytes if hasattr(x, "nbytes") else memoryview(x).nbytes


_LASTING = frozenset(("hop", "datetime", "decimal", "fractions", "pathlib", "re", "uuid"))


def never_changes(x, cls):
    """Whether what is inside of an object that is only known by its identity stays as it is."""
    if isinstance(x, (types.BuiltinFunctionType, types.MethodWrapperType, types.WrapperDescriptorType)):
        return True
    if isinstance(x, (range, slice, type(...), type(NotImplemented), types.MethodDescriptorType)):
        return True
    module = str(cls.__module__).partition(".")[0]
    return module in _LASTING or module == "numpy" and cls.__name__ in ("dtype", "ufunc") or callable(x)


class Ruled:
    """A function with rules of the user's (_custom.py). What it does is in its attributes _fun, _static and
    _rules."""
