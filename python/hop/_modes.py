"""Modes: how the operators that come next are made, on this thread. The library keeps them
(src/capture/modes.c) and acts on each operator as it is made; here they are blocks and decorators."""

__all__ = ["autocast", "enable_grad", "no_grad"]

import functools

from . import _arguments, _core
from ._arguments import twins
from ._dtypes import as_dtype, bfloat16
from ._errors import InvalidError

# enum hop_mode of the C header
_NO_GRAD, _AUTOCAST = 1, 6
PROBED = 8  # somebody asks for probes (_probes.py)
DEBUG_NANS, DEBUG_INFINITIES = 16, 48
_CASTS = {"f16": 2, "bf16": 4, "f32": 6}


class _Mode:
    """A block, or a decorator of functions. Subclasses say which modes there are inside, given those
    around."""

    def __init__(self):
        self._before = []

    def __enter__(self):
        now = _core.modes()
        self._before.append(now)
        _core.set_modes(self._within(now))
        return self

    def __exit__(self, *exception):
        _core.set_modes(self._before.pop())

    def __call__(self, fun):
        fun = _arguments.function(f"{type(self).__name__}: fun", fun)

        @functools.wraps(fun)
        def within(*args, **named):
            with self._again():
                return twins.of(fun)(*args, **named)

        return within

    def _again(self):
        """A mode like this one: calls of a decorated function may be under way on several threads."""
        return type(self)()


class _GradientMode(_Mode):
    def __new__(cls, fun=None):
        return super().__new__(cls) if fun is None else cls()(fun)

    def __init__(self, fun=None):
        super().__init__()


class no_grad(_GradientMode):
    """What is made inside is a constant to derivatives: with hop.no_grad(): …, or @hop.no_grad.

    Derivatives of what is made inside, by whatever it is made of, are zero, in reverse and in forward mode.
    A loop, a branch or a call counts as a whole, unless something in its bodies is made under enable_grad. A
    transform inside differentiates as ever: its function is captured without the mode, and what it gives is a
    constant. Calls of functions made by jit are captured for each mode in which they are called. Outside of
    transforms nothing is different: nothing is differentiated there anyway.

    >>> def f(x):
    ...     with hop.no_grad():
    ...         scale = hop.sum(x * x)
    ...     return scale * hop.sum(x)
    >>> hop.grad(f)(hop.asarray([1.0, 2.0]))
    Array([5., 5.], dtype=float32)
    """

    __module__ = "hop"

    def _within(self, now):
        return now | _NO_GRAD


class enable_grad(_GradientMode):
    """Inside of no_grad: what is made here has derivatives again.

    >>> def f(x, y):
    ...     with hop.no_grad():
    ...         a = x * 2
    ...         with hop.enable_grad():
    ...             return a * y + x * y
    >>> hop.grad(f, argnums=(0, 1))(3.0, 5.0)
    (Array(5., dtype=float32), Array(9., dtype=float32))
    """

    __module__ = "hop"

    def _within(self, now):
        return now & ~_NO_GRAD


class autocast(_Mode):
    """Mixed precision: inside, products take float32 (and lower) in dtype, bfloat16 or float16, and add up in
    float32; sums, normalisations and transcendental functions take what is lower in float32; everything else
    follows promotion. float64, integers and bools are left alone.

    with hop.autocast(hop.bfloat16): …, or @hop.autocast(hop.bfloat16). Casts are operators like others, so
    that gradients have the dtypes of the parameters. A carry of a loop keeps its dtype, branches give the
    wider of theirs. enabled=False: no casts inside of a block that has them. dtype=hop.float32: products in
    float32, of lower floats too.

    >>> x, w = hop.ones((2, 3)), hop.ones((3, 4))
    >>> with hop.autocast(hop.bfloat16):
    ...     y = x @ w
    ...     z = hop.sum(y)
    >>> y.dtype, z.dtype
    (hop.bfloat16, hop.float32)
    >>> def loss(w):
    ...     with hop.autocast(hop.bfloat16):
    ...         return hop.mean(hop.tanh(x @ w))
    >>> hop.grad(loss)(w).dtype
    hop.float32
    """

    __module__ = "hop"

    def __init__(self, dtype=bfloat16, *, enabled=True):
        super().__init__()
        self._dtype = as_dtype(dtype)
        self._enabled = _arguments.flag("autocast: enabled", enabled)
        if self._dtype.text not in _CASTS:
            raise InvalidError(
                f"{_arguments.place()}autocast: dtype: expected hop.bfloat16, hop.float16 or hop.float32, "
                f"found {self._dtype!r}"
            )

    def _again(self):
        return type(self)(self._dtype, enabled=self._enabled)

    def _within(self, now):
        return now & ~_AUTOCAST | (_CASTS[self._dtype.text] if self._enabled else 0)


def brings(dtype, other):
    """Whether, under autocast, a float that was to be of some dtype is cast to it, without a word."""
    return bool(_core.modes() & _AUTOCAST) and dtype.kind == "f" and other.kind == "f"


class fresh:
    """Within this the function of a transform is captured: without no_grad, casts are as they are around."""

    __slots__ = ("_before",)

    def __enter__(self):
        self._before = _core.modes()
        if self._before & _NO_GRAD:
            _core.set_modes(self._before & ~_NO_GRAD)

    def __exit__(self, *exception):
        if self._before & _NO_GRAD:
            _core.set_modes(self._before)


class also:
    """Within this the thread has these modes, too."""

    __slots__ = ("_modes", "_before")

    def __init__(self, modes):
        self._modes = modes

    def __enter__(self):
        self._before = _core.modes()
        _core.set_modes(self._before | self._modes)

    def __exit__(self, *exception):
        _core.set_modes(self._before)
