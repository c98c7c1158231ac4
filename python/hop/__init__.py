"""hop: higher-order tensor programs.

Arrays with the names of the array-API standard, and functions of functions: jit, grad, vmap, scan, … that nest in any order.

>>> import hop
>>> hop.grad(lambda x: hop.sum(x**2))(hop.asarray([1.0, 2.0]))
Array([2., 4.], dtype=float32)
"""

import os as _os
import threading as _threading

try:
    from . import _core
except ImportError as _error:
    if "shared object" not in str(_error):
        raise
    raise ImportError(f"{_error}; hop needs the shared library of zlib (Debian: zlib1g)") from None
from . import _dtypes, _errors, tree
from ._array import Array, Tracer

_core.setup(Array, Tracer, _dtypes.ALL, _errors.ALL, _os.path.dirname(_os.path.abspath(__file__)) + _os.sep, _threading.main_thread().ident)
_core.set_nodes(tree._NODES)

from . import _ops  # noqa: E402
from ._callback import *  # noqa: E402, F403
from ._control import *  # noqa: E402, F403
from ._dtypes import *  # noqa: E402, F403
from ._errors import CheckError, Error, FileError, GradientError, InternalError, InvalidError, TracerError, UnavailableError  # noqa: E402
from ._info import __array_namespace_info__  # noqa: E402
from ._names import lookup as _lookup  # noqa: E402
from ._jit import *  # noqa: E402, F403
from ._sets import *  # noqa: E402, F403
from ._show import *  # noqa: E402, F403
from ._transforms import *  # noqa: E402, F403
from . import linalg, optim, random  # noqa: E402
from ._check import *  # noqa: E402, F403

__getattr__ = _lookup("hop")
for _module in (linalg, optim, random, tree):
    _module.__getattr__ = _lookup(_module.__name__)
__version__ = _core.version
__array_api_version__ = "2024.12"

_OPERATORS = (
    "e inf nan pi newaxis asarray array from_dlpack full zeros ones empty full_like zeros_like ones_like empty_like arange linspace eye tril triu meshgrid "
    "abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh divide "
    "equal exp expm1 floor floor_divide greater greater_equal hypot imag isfinite isinf isnan less less_equal log log1p log2 log10 logaddexp logical_and logical_not logical_or "
    "logical_xor maximum minimum multiply negative not_equal positive pow real reciprocal remainder round sign signbit sin sinh square sqrt subtract tan tanh trunc "
    "exp2 cbrt rsqrt sigmoid relu gelu silu softplus erf erfc lgamma popcount count_leading_zeros fmod fma isclose allclose interp stop_gradient keep recompute where astype "
    "max min mean sum prod var std any all argmax argmin count_nonzero quantile logsumexp softmax log_softmax cumulative_sum cumulative_prod cumulative_max cumulative_min "
    "cumulative_logsumexp linear_recurrence diff sort argsort top_k searchsorted nonzero "
    "reshape permute_dims matrix_transpose moveaxis swapaxes expand_dims squeeze broadcast_to broadcast_shapes broadcast_arrays concat stack unstack split flip roll tile repeat pad "
    "take take_along_axis dynamic_slice dynamic_update_slice one_hot matmul tensordot vecdot einsum outer diagonal trace print check save load"
).split()
for _name in _OPERATORS:
    globals()[_name] = getattr(_ops, _name)
del _name, _module

__all__ = [
    "Array", "Tracer", "tree", "random", "optim", "linalg", *_OPERATORS, *_dtypes.__all__, *_callback.__all__, *_check.__all__, *_control.__all__, *_jit.__all__, *_sets.__all__, *_show.__all__, *_transforms.__all__,  # noqa: F405
    "__array_namespace_info__",
    "Error", "InvalidError", "CheckError", "GradientError", "TracerError", "UnavailableError", "FileError", "InternalError",
]  # fmt: skip
