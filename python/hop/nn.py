"""jax.nn's names: functions between layers. Those that hop itself has are the same here; others are made of them.

>>> import hop
>>> hop.nn.leaky_relu(hop.asarray([-1.0, 2.0]))
Array([-0.01,  2.  ], dtype=float32)
"""

__all__ = [
    "celu", "elu", "gelu", "glu", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "identity", "leaky_relu",
    "log_sigmoid", "log_softmax", "logsumexp", "mish", "one_hot", "relu", "relu6", "selu", "sigmoid", "silu",
    "soft_sign", "softmax", "softplus", "squareplus", "standardize", "swish", "tanh",
]  # fmt: skip

from ._errors import InvalidError
from ._ops import (
    abs, clip, expm1, gelu, log_softmax, logsumexp, maximum, minimum, one_hot, relu, rsqrt, sigmoid, silu,
    softmax, softplus, split, sqrt, square, tanh, where,
)  # fmt: skip
from ._ops import mean as _mean_of
from ._ops.common import _along
from ._ops.creation import _array

swish = silu


def identity(x):
    """x."""
    return _array(x)


def leaky_relu(x, negative_slope=0.01):
    """x where it is not negative, negative_slope * x elsewhere."""
    x = _array(x)
    return where(x >= 0, x, negative_slope * x)


def elu(x, alpha=1.0):
    """x where it is above 0, alpha * (exp(x) - 1) elsewhere."""
    x = _array(x)
    return where(x > 0, x, alpha * expm1(minimum(x, 0)))


def celu(x, alpha=1.0):
    """x where it is above 0, alpha * (exp(x / alpha) - 1) elsewhere."""
    x = _array(x)
    return where(x > 0, x, alpha * expm1(minimum(x, 0) / alpha))


def selu(x):
    """elu with the scale and the alpha that keep mean 0 and variance 1."""
    return 1.0507009873554804934193349852946 * elu(x, 1.6732632423543772848170429916717)


def relu6(x):
    """x brought between 0 and 6."""
    return minimum(relu(x), 6.0)


def hard_sigmoid(x):
    """relu6(x + 3) / 6."""
    return relu6(_array(x) + 3.0) / 6.0


def hard_silu(x):
    """x * hard_sigmoid(x)."""
    return _array(x) * hard_sigmoid(x)


hard_swish = hard_silu


def hard_tanh(x):
    """x brought between -1 and 1."""
    return clip(_array(x), -1, 1)


def log_sigmoid(x):
    """log(sigmoid(x)) without overflow."""
    return -softplus(-_array(x))


def mish(x):
    """x * tanh(softplus(x))."""
    return _array(x) * tanh(softplus(x))


def soft_sign(x):
    """x / (1 + abs(x))."""
    x = _array(x)
    return x / (1 + abs(x))


def squareplus(x, b=4.0):
    """(x + sqrt(x**2 + b)) / 2."""
    x = _array(x)
    return (x + sqrt(square(x) + b)) / 2


def glu(x, axis=-1):
    """The first half along an axis times the sigmoid of the second."""
    x = _array(x)
    axis = _along(x, axis)
    if x.shape[axis] is None or x.shape[axis] % 2:
        raise InvalidError(f"hop.nn.glu: expected an even number of elements along axis {axis}, found {x._type}")
    left, right = split(x, 2, axis=axis)
    return left * sigmoid(right)


def standardize(x, axis=-1, mean=None, variance=None, epsilon=1e-5):
    """Less its mean along an axis, divided by the root of its variance there (plus epsilon)."""
    x = _array(x)
    if mean is None:
        mean = _mean(x, axis)
    if variance is None:
        variance = maximum(_mean(square(x), axis) - square(_array(mean)), 0)
    return (x - mean) * rsqrt(variance + epsilon)


def _mean(x, axis):
    return _mean_of(x, axis=axis, keepdims=True)
