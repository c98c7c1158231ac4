"""jax.nn's names: functions between layers. Those that hop itself has are the same here; others are made of
them.

>>> import hop
>>> hop.nn.leaky_relu(hop.asarray([-1.0, 2.0]))
Array([-0.01,  2.  ], dtype=float32)
"""

__all__ = [
    "celu", "elu", "gelu", "glu", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "identity",
    "leaky_relu", "log_sigmoid", "log_softmax", "logsumexp", "mish", "one_hot", "relu", "relu6", "selu",
    "sigmoid", "silu", "soft_sign", "softmax", "softplus", "squareplus", "standardize", "swish", "tanh",
]  # fmt: skip

from . import _shapes
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
    """x. Where an activation is expected and none is wanted.

    >>> hop.nn.identity(hop.asarray([-1.0, 0.0, 2.0, 8.0]))
    Array([-1.,  0.,  2.,  8.], dtype=float32)
    """
    return _array(x)


def leaky_relu(x, negative_slope=0.01):
    """x where it is not negative, negative_slope * x elsewhere. negative_slope is 0.01 unless given.

    >>> hop.nn.leaky_relu(hop.asarray([-1.0, 0.0, 2.0, 8.0]))
    Array([-0.01,  0.  ,  2.  ,  8.  ], dtype=float32)
    """
    x = _array(x)
    return where(x >= 0, x, negative_slope * x)


def elu(x, alpha=1.0):
    """x where it is above 0, alpha * (exp(x) - 1) elsewhere. It goes to -alpha far below 0.

    >>> hop.nn.elu(hop.asarray([-1.0, 0.0, 2.0, 8.0]))
    Array([-0.63212055,  0.        ,  2.        ,  8.        ], dtype=float32)
    """
    x = _array(x)
    return where(x > 0, x, alpha * expm1(minimum(x, 0)))


def celu(x, alpha=1.0):
    """x where it is above 0, alpha * (exp(x / alpha) - 1) elsewhere. Smooth at 0 for every alpha.

    >>> hop.nn.celu(hop.asarray([-1.0, 0.0, 2.0, 8.0]))
    Array([-0.63212055,  0.        ,  2.        ,  8.        ], dtype=float32)
    """
    x = _array(x)
    return where(x > 0, x, alpha * expm1(minimum(x, 0) / alpha))


def selu(x):
    """elu with the scale and the alpha that keep mean 0 and variance 1. For networks that keep mean and
    variance by themselves.

    >>> hop.nn.selu(hop.asarray([-1.0, 0.0, 2.0, 8.0]))
    Array([-1.1113307,  0.       ,  2.101402 ,  8.405608 ], dtype=float32)
    """
    return 1.0507009873554804934193349852946 * elu(x, 1.6732632423543772848170429916717)


def relu6(x):
    """x brought between 0 and 6. The relu of networks with few bits.

    >>> hop.nn.relu6(hop.asarray([-1.0, 0.0, 2.0, 8.0]))
    Array([0., 0., 2., 6.], dtype=float32)
    """
    return minimum(relu(x), 6.0)


def hard_sigmoid(x):
    """relu6(x + 3) / 6. Straight from -3 to 3, 0 below, 1 above.

    >>> hop.nn.hard_sigmoid(hop.asarray([-1.0, 0.0, 2.0, 8.0]))
    Array([0.33333334, 0.5       , 0.8333333 , 1.        ], dtype=float32)
    """
    return relu6(_array(x) + 3.0) / 6.0


def hard_silu(x):
    """x * hard_sigmoid(x). Also hard_swish: silu out of straight and quadratic pieces.

    >>> hop.nn.hard_silu(hop.asarray([-1.0, 0.0, 2.0, 8.0]))
    Array([-0.33333334,  0.        ,  1.6666666 ,  8.        ], dtype=float32)
    """
    return _array(x) * hard_sigmoid(x)


hard_swish = hard_silu


def hard_tanh(x):
    """x brought between -1 and 1. The derivative is 1 within and 0 outside.

    >>> hop.nn.hard_tanh(hop.asarray([-1.0, 0.0, 2.0, 8.0]))
    Array([-1.,  0.,  1.,  1.], dtype=float32)
    """
    return clip(_array(x), -1, 1)


def log_sigmoid(x):
    """log(sigmoid(x)) without overflow. -softplus(-x): exact where the sigmoid itself would be 0.

    >>> hop.nn.log_sigmoid(hop.asarray([-1.0, 0.0, 2.0, 8.0]))
    Array([-1.3132617e+00, -6.9314718e-01, -1.2692800e-01, -3.3540637e-04],
          dtype=float32)
    """
    return -softplus(-_array(x))


def mish(x):
    """x * tanh(softplus(x)). A smooth relu, a little below 0 for negative x.

    >>> hop.nn.mish(hop.asarray([-1.0, 0.0, 2.0, 8.0]))
    Array([-0.30340147,  0.        ,  1.943959  ,  7.999998  ], dtype=float32)
    """
    return _array(x) * tanh(softplus(x))


def soft_sign(x):
    """x / (1 + abs(x)). Between -1 and 1, slower to get there than tanh.

    >>> hop.nn.soft_sign(hop.asarray([-1.0, 0.0, 2.0, 8.0]))
    Array([-0.5      ,  0.       ,  0.6666667,  0.8888889], dtype=float32)
    """
    x = _array(x)
    return x / (1 + abs(x))


def squareplus(x, b=4.0):
    """(x + sqrt(x**2 + b)) / 2. A smooth relu without exponentials; b says how smooth.

    >>> hop.nn.squareplus(hop.asarray([-1.0, 0.0, 2.0, 8.0]))
    Array([0.618034 , 1.       , 2.4142137, 8.123106 ], dtype=float32)
    """
    x = _array(x)
    return (x + sqrt(square(x) + b)) / 2


def glu(x, axis=-1):
    """The first half along an axis times the sigmoid of the second. The axis must have an even size; the
    result has half of it.

    >>> hop.nn.glu(hop.asarray([1.0, 2.0, 0.0, 0.0]))
    Array([0.5, 1. ], dtype=float32)
    """
    x = _array(x)
    axis = _along(x, axis)
    if _shapes.differ(x.shape[axis] % 2, 0):
        raise InvalidError(
            f"hop.nn.glu: expected an even number of elements along axis {axis}, found {x._type}"
        )
    left, right = split(x, 2, axis=axis)
    return left * sigmoid(right)


def standardize(x, axis=-1, mean=None, variance=None, epsilon=1e-5):
    """Less its mean along an axis, divided by the root of its variance there (plus epsilon).

    >>> hop.nn.standardize(hop.asarray([-1.0, 0.0, 2.0, 8.0]))
    Array([-0.9309489 , -0.6445031 , -0.07161146,  1.6470635 ], dtype=float32)
    """
    x = _array(x)
    if mean is None:
        mean = _mean(x, axis)
    if variance is None:
        variance = maximum(_mean(square(x), axis) - square(_array(mean)), 0)
    return (x - mean) * rsqrt(variance + epsilon)


def _mean(x, axis):
    return _mean_of(x, axis=axis, keepdims=True)
