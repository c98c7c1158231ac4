"""Functions of NumPy that the array-API standard has no name for, or another one: spellings of what is there
(below), and short compositions of it, in families, which differentiate, batch and compile because their parts
do."""

from .._array import METHODS, Array
from .._dtypes import float16, float32, float64
from .._ops import (
    abs, acos, acosh, asarray, asin, asinh, atan, atan2, atanh, bitwise_invert, bitwise_left_shift,
    bitwise_right_shift, concat, conj, divide, max, min, popcount, pow, remainder, round, trunc,
)  # fmt: skip
from ..linalg import cross  # noqa: F401
from . import arranging, choosing, elements, making, polynomials, products, statistics
from .arranging import *  # noqa: F403
from .choosing import *  # noqa: F403
from .elements import *  # noqa: F403
from .making import *  # noqa: F403
from .polynomials import *  # noqa: F403
from .products import *  # noqa: F403
from .statistics import *  # noqa: F403

absolute, amax, amin, around, conjugate, concatenate, fix, rint = (
    abs, max, min, round, conj, concat, trunc, round,
)
arccos, arccosh, arcsin, arcsinh, arctan, arctan2, arctanh = acos, acosh, asin, asinh, atan, atan2, atanh
bitwise_count, invert, left_shift, right_shift = (
    popcount, bitwise_invert, bitwise_left_shift, bitwise_right_shift,
)
ascontiguousarray, mod, power, true_divide = asarray, remainder, pow, divide
double, half, single = float64, float16, float32
euler_gamma = 0.5772156649015329

_SPELLINGS = (
    "absolute amax amin around conjugate concatenate fix rint arccos arccosh arcsin arcsinh arctan arctan2 "
    "arctanh bitwise_count invert left_shift right_shift ascontiguousarray mod power true_divide double half "
    "single euler_gamma cross"
).split()

__all__ = [
    *_SPELLINGS,
    *[
        name
        for family in (elements, making, arranging, products, choosing, statistics, polynomials)
        for name in family.__all__
    ],
]

for _name in ("copy", "cumprod", "cumsum"):
    setattr(Array, _name, globals()[_name])
    METHODS.append(_name)
