"""Identities with gradients of their own, and functions with the gradient of another one."""

__all__ = ["clip_gradient", "reverse_gradient", "straight_through"]

import functools

from . import _arguments, _core, tree
from ._arguments import place
from ._custom import record
from ._errors import InvalidError
from ._ops import clip
from ._trace import called, type_text


def _arrays(f, x):
    """f on the arrays of a tree; what else there is stays."""
    return tree.map(lambda leaf: f(leaf) if isinstance(leaf, _core.ArrayBase) else leaf, x)


def _same(x, *more):
    return x


def clip_gradient(x, min=None, max=None):
    """x, but gradients on their way back through it are clipped to between min and max. x may be a tree;
    the bounds are numbers or arrays, as those of hop.clip.

    Clipping is not linear, so forward mode does not see it: tangents pass as through x itself.

    >>> hop.grad(lambda x: 100 * hop.clip_gradient(x, -1, 1) ** 2)(3.0)
    Array(1., dtype=float32)
    """
    if min is None and max is None:
        raise InvalidError(f"{place()}clip_gradient: expected a bound: min, max or both")
    if not _core.tracing():
        return x

    def backward(call, g):
        return _arrays(lambda leaf: clip(leaf, *call[0][1:]), g), None, None

    return record("clip_gradient", _same, (x, min, max), backward=backward, tangent="body")


def reverse_gradient(x, scale=1.0):
    """x, but gradients on their way back through it, and tangents, are multiplied by -scale: what is before
    it climbs where what is behind it descends, as in adversarial training. x may be a tree.

    >>> hop.grad(lambda x: hop.reverse_gradient(x) ** 2)(3.0)
    Array(-6., dtype=float32)
    """
    if not _core.tracing():
        return x

    def backward(call, g):
        return _arrays(lambda leaf: -call[0][1] * leaf, g), None

    return record("reverse_gradient", _same, (x, scale), backward=backward)


def straight_through(fun, surrogate=None):
    """fun with the derivatives of another function, which gives arrays of the same types: a straight-through
    estimator. Without a surrogate it is the identity of the first argument. For functions whose own
    derivative is zero or does not exist: rounding, signs, choices.

    >>> rounded = hop.straight_through(hop.round)
    >>> rounded(hop.asarray(1.7)), hop.grad(lambda x: rounded(x) ** 2)(1.7)
    (Array(2., dtype=float32), Array(4., dtype=float32))
    >>> pick = hop.straight_through(lambda x: hop.one_hot(hop.argmax(x), 3), hop.softmax)
    >>> hop.grad(lambda x: pick(x) @ hop.arange(3.0))(hop.asarray([0.0, 1.0, 0.0]))
    Array([-0.21194156,  0.        ,  0.21194156], dtype=float32)
    """
    _arguments.function("straight_through: fun", fun)
    if surrogate is not None:
        _arguments.function("straight_through: surrogate", surrogate)
    smooth = surrogate or _same

    @functools.wraps(fun)
    def estimated(*args):
        if not _core.tracing():
            return fun(*args)
        from ._transforms import vjp

        def backward(call, g):
            args, out = call
            stands, pull = vjp(smooth, *args)
            _check_stands(fun, surrogate, out, stands)
            return pull(g)

        return record("straight_through", fun, args, backward=backward)

    return estimated


def _check_stands(fun, surrogate, out, stands):
    """An error where the function whose derivatives are taken gives something of another kind."""
    whose = "its first argument" if surrogate is None else called("the surrogate", surrogate)
    texts = []
    for x in (out, stands):
        leaves, structure = tree.flatten(x)
        texts.append((structure, [type_text(leaf) for leaf in leaves]))
    if texts[0] != texts[1]:
        said = [t[1][0] if t[0].kind is None else f"{t[0]._text()} of {', '.join(t[1])}" for t in texts]
        raise InvalidError(
            f"{place()}straight_through: {called('the function', fun)} gives {said[0]}, {whose} is "
            f"{said[1]}: derivatives of one can stand for those of the other where both have the same type"
        )
