"""hop: higher-order tensor programs.

Arrays with the names of the array-API standard, and functions of functions: jit, grad, vmap, scan, … that
nest in any order.

>>> import hop
>>> hop.grad(lambda x: hop.sum(x**2))(hop.asarray([1.0, 2.0]))
Array([2., 4.], dtype=float32)
"""

import os as _os
import sys as _sys
import threading as _threading

try:
    from . import _core
except ImportError as _error:
    if "shared object" not in str(_error):
        raise
    raise ImportError(f"{_error}; hop needs the shared library of zlib (Debian: zlib1g)") from None
from . import _dtypes, _errors, tree
from ._array import Array, Tracer

_core.setup(
    Array,
    Tracer,
    _dtypes.ALL,
    _errors.ALL,
    _os.path.dirname(_os.path.abspath(__file__)) + _os.sep,
    _threading.main_thread().ident,
)
_core.set_nodes(tree._NODES)

from . import _ops  # noqa: E402
from ._ops import *  # noqa: E402, F403
from ._operator import *  # noqa: E402, F403
from ._attention import *  # noqa: E402, F403
from ._callback import *  # noqa: E402, F403
from ._calls import *  # noqa: E402, F403
from ._control import *  # noqa: E402, F403
from ._custom import *  # noqa: E402, F403
from ._dtypes import *  # noqa: E402, F403
from ._object import *  # noqa: E402, F403
from ._errors import (  # noqa: E402
    CheckError,
    Error,
    FileError,
    GradientError,
    InternalError,
    InvalidError,
    NotFiniteError,
    OperatorError,
    TracerError,
    UnavailableError,
    WriteError,
)
from ._engine import *  # noqa: E402, F403
from ._files import *  # noqa: E402, F403
from ._function import *  # noqa: E402, F403
from ._gradients import *  # noqa: E402, F403
from ._hooks import *  # noqa: E402, F403
from ._info import __array_namespace_info__  # noqa: E402
from ._names import lookup as _lookup, public_names as _public_names  # noqa: E402
from ._jax import *  # noqa: E402, F403
from ._jit import *  # noqa: E402, F403
from ._lanes import *  # noqa: E402, F403
from ._lax import *  # noqa: E402, F403
from ._mesh import *  # noqa: E402, F403
from ._modes import *  # noqa: E402, F403
from ._printing import *  # noqa: E402, F403
from ._probes import *  # noqa: E402, F403
from ._region import *  # noqa: E402, F403
from ._sets import *  # noqa: E402, F403
from ._show import *  # noqa: E402, F403
from ._solves import *  # noqa: E402, F403
from ._sources import *  # noqa: E402, F403
from ._transforms import *  # noqa: E402, F403
from ._dist import *  # noqa: E402, F403
from ._local_map import *  # noqa: E402, F403
from . import (  # noqa: E402
    _entries, autograd, debug, dist, flatten_util, implicit, linalg, nn, optim, policies, random, tree_util,
)  # fmt: skip
from ._check import *  # noqa: E402, F403
from ._check_operator import *  # noqa: E402, F403
from ._numpy import *  # noqa: E402, F403

Size = _core.Size
__version__ = _core.version
__array_api_version__ = "2024.12"

__all__ = [
    "Array", "Tracer", "Size",
    "tree", "random", "optim", "linalg", "nn", "tree_util", "flatten_util", "debug", "autograd",
    "dist",
    "implicit", "policies",
    *_jax.__all__, *_lax.__all__, *_numpy.__all__, *_ops.__all__, *_dtypes.__all__,  # noqa: F405
    *_attention.__all__, *_lanes.__all__, *_mesh.__all__, *_dist.__all__, *_local_map.__all__,  # noqa: F405
    *_callback.__all__, *_calls.__all__, *_check.__all__, *_check_operator.__all__,  # noqa: F405
    *_control.__all__, *_custom.__all__, *_engine.__all__,  # noqa: F405
    *_files.__all__, *_function.__all__, *_gradients.__all__, *_hooks.__all__,  # noqa: F405
    *_jit.__all__, *_printing.__all__,  # noqa: F405
    *_modes.__all__, *_object.__all__, *_operator.__all__, *_probes.__all__, *_region.__all__,  # noqa: F405
    *_sets.__all__,  # noqa: F405
    *_show.__all__, *_solves.__all__, *_sources.__all__, *_transforms.__all__,  # noqa: F405
    "__array_namespace_info__",
    "Error", "InvalidError", "CheckError", "NotFiniteError", "GradientError", "TracerError",
    "UnavailableError", "FileError", "InternalError", "OperatorError", "WriteError",
]  # fmt: skip

_entries.install(_sys.modules["hop"])
for _module in (
    autograd, debug, dist, flatten_util, implicit, linalg, nn, optim, policies, random, tree, tree_util,
):  # fmt: skip
    _entries.install(_module)
    _module.__getattr__, _module.__dir__ = _lookup(_module.__name__), _public_names(_module)
for _module in (
    _array._At, _array.IndexUpdate, _info.Info, _jit.Lowered, _names.Absent, _show.Shown,
    _transforms.Pullback, _transforms.Pushforward, _jax.ShapeDtypeStruct, _custom._WithRules,
    _operator.Operator, autograd._Apply,
):
    _entries.install_methods(_module)
__getattr__, __dir__ = _lookup("hop"), _public_names(_sys.modules["hop"])
del _module
