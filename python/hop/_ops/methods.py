"""Methods of arrays that take other arguments than the functions of the same names, as NumPy's do."""

from .. import _core
from . import axes
from .common import _named
from .products import matmul
from .shape import permute_dims, reshape


def _method_reshape(x, *shape, copy=None):
    return reshape(x, shape[0] if len(shape) == 1 else shape, copy=copy)


def _method_transpose(x, *axes):
    if len(axes) == 1 and isinstance(axes[0], (tuple, list, type(None))):
        axes = axes[0]
    return permute_dims(x, axes or tuple(range(x.ndim))[::-1])


def _method_flatten(x):
    return reshape(x, (-1,))


def _method_dot(x, y):
    return matmul(x, y)


def _by_position(function):
    called = _core.entry(function)  # it explains what it does not take

    def method(x, /, *args, **named):
        if named.get("out", 0) is None:  # numpy.mean(x) and the like call methods with these
            del named["out"]
        if "ddof" in named:
            named["correction"] = named.pop("ddof")
        return called(x, *args, **named)

    method.__wrapped__ = function  # whose signature it has
    return _named(method, function.__name__, function.__doc__)


for _name in ("sum", "prod", "mean", "var", "std", "max", "min", "any", "all", "argmax", "argmin"):
    globals()["_method_" + _name] = _by_position(getattr(axes, _name))
