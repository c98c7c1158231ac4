"""Optimizers as pairs of pure functions over trees of parameters; they work at once, under jit, and in the
body of a scan.

    opt = hop.optim.adam(1e-3)
    state = opt.init(params)
    params, state = opt.update(grads, state, params)

A learning rate is a number, an array without axes, or a function of the number of updates made so far (see
constant, linear, cosine, exponential). Parameters of two bytes are updated, and their moments kept, in
float32.
"""

__all__ = [
    "Optimizer", "State", "sgd", "momentum", "adam", "adamw", "constant", "linear", "cosine", "exponential",
    "global_norm", "clip_by_global_norm",
]

import functools
import math
from typing import Any, NamedTuple

from . import _core, _ops, _shapes, tree
from ._dtypes import float32, float64, int32
from ._ops import asarray

astype = functools.partial(_ops.astype, copy=False)


class State(NamedTuple):
    """What an optimizer keeps: how many updates it has made, and trees like the parameters.

    >>> hop.optim.adam(0.1).init({"w": hop.ones(2)}).step
    Array(0, dtype=int32)
    """

    step: Any
    moments: tuple


class Optimizer:
    """init(params) gives a state, update(grads, state, params) new parameters and a new state.

    Both are functions of trees and can be part of a jitted step.

    >>> opt = hop.optim.sgd(0.1)
    >>> opt.update(hop.asarray([1.0]), opt.init(hop.asarray([0.0])), hop.asarray([0.0]))[0]
    Array([-0.1], dtype=float32)
    """

    __slots__ = ("init", "update", "_text")

    def __init__(self, init, update, text):
        self.init, self.update, self._text = _core.entry(init), _core.entry(update), text

    def __repr__(self):
        return f"hop.optim.{self._text}"


def _wide(d):
    return d if d is float64 else float32


def _zeros(params):
    """Zeros for each parameter; they must be floats."""

    def zeros(path, p):
        p = asarray(p)
        if p.dtype.kind != "f":
            raise TypeError(
                f"{tree.path_text(path, 'params')} has dtype {p.dtype}: an optimizer updates floats"
            )
        return _ops.zeros(p.shape, dtype=_wide(p.dtype))

    return tree.map_with_path(zeros, params)


def _check(name, **bounds):
    for what, (value, low, high) in bounds.items():
        if isinstance(value, (int, float)) and not low <= value < high:
            raise ValueError(
                f"hop.optim.{name}: {what} must be at least {low} and below {high}, found {value}"
            )


def _optimizer(text, moments, rate, rule):
    """An optimizer of a rule (p, g, moments, rate, t) -> (p, moments) for one parameter; t is the number
    of this update, from 1."""

    def init(params):
        return State(asarray(0, dtype=int32), tuple(_zeros(params) for _ in range(moments)))

    def update(grads, state, params):
        where = tree.difference(tree.structure(params), tree.structure(grads))
        if where:
            raise ValueError(
                f"{tree.path_text(where[0], 'grads')} has the structure {where[2]}, "
                f"the parameters have {where[1]}"
            )
        step = asarray(state.step)
        now, t = rate(step) if callable(rate) else rate, step + 1

        def one(path, p, g, *kept):
            p, g = asarray(p), asarray(g)
            if _shapes.shapes_differ(p.shape, g.shape):
                raise ValueError(f"{tree.path_text(path, 'grads')} is {g._type}, the parameter is {p._type}")
            d = _wide(p.dtype)
            r = astype(now, d) if hasattr(now, "dtype") else now
            made, *kept = rule(astype(p, d), astype(g, d), kept, r, astype(t, d))
            return (astype(made, p.dtype), *kept)

        rows = tree.map_with_path(one, params, grads, *state.moments)
        structure = tree.structure(params)
        leaves = tree._leaves_up_to(structure, rows, 1)
        columns = [tree.unflatten(structure, [row[i] for row in leaves]) for i in range(moments + 1)]
        return columns[0], State(t, tuple(columns[1:]))

    return Optimizer(init, update, text)


def sgd(learning_rate):
    """Steps against the gradient. params - learning_rate * grads; the learning rate is a number, a traced
    value or a schedule.

    >>> opt = hop.optim.sgd(0.5)
    >>> params = {"w": hop.asarray([1.0, 2.0])}
    >>> params, state = opt.update({"w": hop.asarray([1.0, -1.0])}, opt.init(params), params)
    >>> params
    {'w': Array([0.5, 2.5], dtype=float32)}
    """

    def rule(p, g, kept, rate, t):
        return (p - rate * g,)

    return _optimizer(f"sgd({learning_rate})", 0, learning_rate, rule)


def momentum(learning_rate, beta=0.9, nesterov=False):
    """Steps against a velocity v = beta v + g; with nesterov against g + beta v.

    >>> opt, p = hop.optim.momentum(0.5, beta=0.5), hop.asarray(0.0)
    >>> state = opt.init(p)
    >>> for _ in range(2):
    ...     p, state = opt.update(hop.asarray(1.0), state, p)
    >>> p
    Array(-1.25, dtype=float32)
    """
    _check("momentum", beta=(beta, 0, 1))

    def rule(p, g, kept, rate, t):
        v = beta * kept[0] + g
        return p - rate * (g + beta * v if nesterov else v), v

    return _optimizer(f"momentum({learning_rate}, beta={beta}, nesterov={nesterov})", 1, learning_rate, rule)


def _adam(text, learning_rate, b1, b2, eps, weight_decay):
    def rule(p, g, kept, rate, t):
        m = b1 * kept[0] + (1 - b1) * g
        v = b2 * kept[1] + (1 - b2) * (g * g)
        # 1 - b**t, exact also where b is close to 1
        first = 1.0 if b1 == 0 else -_ops.expm1(t * math.log(b1))
        second = 1.0 if b2 == 0 else -_ops.expm1(t * math.log(b2))
        move = (m / first) / (_ops.sqrt(v / second) + eps)
        if weight_decay:
            move = move + weight_decay * p
        return p - rate * move, m, v

    return _optimizer(text, 2, learning_rate, rule)


def adam(learning_rate, b1=0.9, b2=0.999, eps=1e-8):
    """Steps along the mean of the gradients, each element divided by the root of the mean of its squares;
    both means fade with b1 and b2 and are corrected for having begun with zeros.

    >>> opt, p = hop.optim.adam(0.5), hop.asarray(3.0)
    >>> opt.update(hop.asarray(7.0), opt.init(p), p)[0]
    Array(2.5, dtype=float32)
    """
    _check("adam", b1=(b1, 0, 1), b2=(b2, 0, 1))
    return _adam(f"adam({learning_rate}, b1={b1}, b2={b2}, eps={eps})", learning_rate, b1, b2, eps, 0.0)


def adamw(learning_rate, b1=0.9, b2=0.999, eps=1e-8, weight_decay=1e-2):
    """adam, and parameters shrink by learning_rate * weight_decay of themselves.

    >>> opt, p = hop.optim.adamw(0.5, weight_decay=0.1), hop.asarray(2.0)
    >>> opt.update(hop.asarray(0.0), opt.init(p), p)[0]
    Array(1.9, dtype=float32)
    """
    _check("adamw", b1=(b1, 0, 1), b2=(b2, 0, 1))
    return _adam(
        f"adamw({learning_rate}, b1={b1}, b2={b2}, eps={eps}, weight_decay={weight_decay})",
        learning_rate,
        b1,
        b2,
        eps,
        weight_decay,
    )


# ---- learning rates that change ----


def constant(value):
    """The same learning rate always. A schedule, where one is expected.

    >>> hop.optim.constant(0.1)(100)
    0.1
    """
    return lambda step: value


def _fraction(step, steps):
    if steps < 1:
        raise ValueError(f"a schedule needs at least one step, found {steps}")
    return _ops.clip(astype(asarray(step), float32) / float(steps), 0.0, 1.0)


def linear(first, last, steps):
    """From first to last within this many updates, then last. A schedule: straight between the two.

    >>> rate = hop.optim.linear(1.0, 0.0, 4)
    >>> rate(1), rate(9)
    (Array(0.75, dtype=float32), Array(0., dtype=float32))
    """
    return lambda step: first + (last - first) * _fraction(step, steps)


def cosine(peak, steps, warmup=0, last=0.0):
    """Up from 0 to peak within `warmup` updates, then down to last along half a wave; steps counts all of
    them.

    >>> rate = hop.optim.cosine(1.0, 10, warmup=2)
    >>> rate(1), rate(2), rate(10)
    (Array(1., dtype=float32), Array(1., dtype=float32), Array(0., dtype=float32))
    """
    if not 0 <= warmup < steps:
        raise ValueError(f"cosine: warmup must be at least 0 and below steps, found {warmup} and {steps}")

    def rate(step):
        down = last + (peak - last) * 0.5 * (
            1.0 + _ops.cos(math.pi * _fraction(asarray(step) - warmup, steps - warmup))
        )
        return (
            _ops.where(asarray(step) < warmup, peak * _fraction(asarray(step) + 1, warmup), down)
            if warmup
            else down
        )

    return rate


def exponential(first, decay, steps=1):
    """first * decay ** (step / steps). A schedule: multiplied by decay within every `steps` updates.

    >>> hop.optim.exponential(1.0, 0.5, 10)(20)
    Array(0.25, dtype=float32)
    """
    if not 0 < decay:
        raise ValueError(f"exponential: decay must be above 0, found {decay}")
    return lambda step: first * _ops.exp(astype(asarray(step), float32) * (math.log(decay) / steps))


# ---- gradients ----


def global_norm(grads):
    """The root of the sum of the squares of all elements of a tree. As if all leaves were one vector.

    >>> hop.optim.global_norm({"a": hop.asarray([3.0]), "b": hop.asarray(4.0)})
    Array(5., dtype=float32)
    """
    leaves = [asarray(g) for g in tree.leaves(grads)]
    total = asarray(0.0)
    for g in leaves:
        g = astype(g, _wide(g.dtype))
        total = total + _ops.sum(g * g)
    return _ops.sqrt(total)


def clip_by_global_norm(grads, max_norm):
    """The gradients, made smaller together where their norm is above max_norm.

    >>> hop.optim.clip_by_global_norm([hop.asarray(3.0), hop.asarray(4.0)], 1.0)
    [Array(0.6, dtype=float32), Array(0.8, dtype=float32)]
    """
    norm = global_norm(grads)
    scale = _ops.where(norm > max_norm, max_norm / norm, 1.0)
    return tree.map(
        lambda g: astype(astype(asarray(g), _wide(asarray(g).dtype)) * scale, asarray(g).dtype), grads
    )
