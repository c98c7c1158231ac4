"""Methods of arrays that take their arguments by position, as NumPy's do. The others are the functions of the same names."""

from . import axes
from .common import _named
from .parts import take
from .products import matmul
from .shape import permute_dims, repeat, reshape


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
    def method(x, axis=None, **named):
        for name in ("dtype", "out"):  # numpy.mean(x) and the like call methods with these
            if name in named and named[name] is None:
                del named[name]
        if "ddof" in named:
            named["correction"] = named.pop("ddof")
        return function(x, axis=axis, **named)

    return _named(method, function.__name__, function.__doc__)


for _name in ("sum", "prod", "mean", "var", "std", "max", "min", "any", "all", "argmax", "argmin", "cumulative_sum", "cumulative_prod"):
    globals()["_method_" + _name] = _by_position(getattr(axes, _name))


def _method_sort(x, axis=-1, **named):
    return axes.sort(x, axis=axis, **named)


def _method_argsort(x, axis=-1, **named):
    return axes.argsort(x, axis=axis, **named)


def _method_take(x, indices, axis=None):
    return take(x, indices, axis=axis)


def _method_repeat(x, repeats, axis=None):
    return repeat(x, repeats, axis=axis)
