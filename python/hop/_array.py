"""hop.Array and hop.Tracer: arrays, and values of a program being captured. One class serves both; what an
operator does is decided in C."""

import operator
import threading
from sys import getrefcount

from . import _core, _dtypes, _identity, _names, _printing
from ._errors import TracerError
from ._index import UNNAMED, IndexUpdate, check_named, getitem, setitem, stored_into


def _iterated(x):
    from ._sources import iterated  # which takes arrays

    iterated(x)


class Array(_core.ArrayBase):
    """An array: elements of one dtype in a rectangular shape.

    Arrays come from hop.asarray, hop.zeros, … and from operators. Their names are those of the array-API
    standard. An array is a value: x.at[i].set(y) gives a new one, and x[i] = y makes x hold that new one,
    whatever else refers to the old elements; so does a slice, z = x[0:2], which is a value of its own.

    >>> x = hop.asarray([[1, 2], [3, 4]])
    >>> x.shape, x.dtype, x[0, 1].item()
    ((2, 2), hop.int64, 2)
    >>> x.at[0].set(9)
    Array([[9, 9],
           [3, 4]], dtype=int64)
    """

    __slots__ = ("__weakref__",)
    __array_priority__ = 1000

    # -- about the array --

    @property
    def T(self):
        """The transpose of a matrix."""
        if self.ndim != 2:
            raise ValueError(
                f"x.T is for arrays with two axes, this one has {self.ndim}: use x.mT or hop.permute_dims"
            )
        return _ops.matrix_transpose(self)

    @property
    def mT(self):
        """The last two axes exchanged."""
        return _ops.matrix_transpose(self)

    @property
    def device(self):
        return "cpu"

    @property
    def itemsize(self):
        return self.dtype.itemsize

    @property
    def nbytes(self):
        return self.size * self.dtype.itemsize

    @property
    def at(self):
        """x.at[i].set(y), .add(y), .mul(y), .min(y), .max(y), .divide(y), .power(y), .apply(f), .get(): x
        with elements replaced or combined; x stays as it is."""
        return _At(self)

    def to_device(self, device, /, *, stream=None):
        if device != "cpu":
            raise ValueError(f"there is no device {device!r}")
        return self

    def block_until_ready(self):
        """The array itself: nothing runs in the background, results are ready."""
        return self

    def __array_namespace__(self, /, *, api_version=None):
        if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
            raise ValueError(f"there is no version {api_version!r} of the array-API standard here")
        import hop

        return hop

    def __dir__(self):
        hidden = lambda name: (  # noqa: E731
            name in _names._METHODS or (name.startswith("_") and not name.endswith("__"))
        )
        return [name for name in object.__dir__(self) if not hidden(name)]

    def __repr__(self):
        return self._unseen() or _printing.array_repr(self)

    def __str__(self):
        known = self._elements() if self._traced else None
        shown = self if known is None else known
        return shown._unseen() or _printing.array_str(shown)

    def _unseen(self):
        """The text of an array that has no elements to show."""
        if self._traced:
            return f"Tracer<{self._type}>"
        return f"Array(<donated>, dtype={self.dtype.name})" if self._donated else None

    def __format__(self, spec):
        known = self._elements() if spec and self.ndim == 0 else None
        return format(known.item(), spec) if known is not None else str(self)

    def __iter__(self):
        if self.ndim == 0:
            raise TypeError("an array without axes cannot be iterated over")
        if self._traced:
            _iterated(self)
        return (self[i] for i in range(len(self)))

    def __contains__(self, x):
        return bool(_ops.any(self == x))

    def __divmod__(self, other):
        return self // other, self % other

    def __rdivmod__(self, other):
        return other // self, other % self

    def __round__(self, ndigits=None):
        """As Python rounds numbers, halves to even."""
        if ndigits is not None:
            scale = 10.0 ** operator.index(ndigits)
            return _ops.round(self * scale) / scale
        x = _ops.astype(_ops.round(self), _dtypes.int64)
        return x._marked(True) if self._traced else int(x)

    def __complex__(self):
        return complex(float(self))

    __hash__ = None

    def __copy__(self):
        return self._alias()

    def __deepcopy__(self, memo):
        return self._alias() if self._traced else self._copy()

    def __reduce__(self):
        if self._traced:
            raise TracerError("a traced value cannot be pickled")
        flat = self._copy()
        if self.dtype is _dtypes.bfloat16:
            flat = flat._bitcast(_dtypes.uint16.code)
        return _restore, (
            self.dtype.name,
            self.shape,
            bytes(memoryview(flat).cast("B")) if self.size else b"",
        )

    # -- elements --

    def __getitem__(self, key, /):
        return getitem(self, key)

    def __setitem__(self, key, value, /):
        if getrefcount(self) == UNNAMED:
            check_named()
        if self._perhaps is not None:
            _identity.check_write(self)
        setitem(self, key, value)

    # -- exchange --

    def __array__(self, dtype=None, copy=None):
        import numpy

        if self._traced:
            known = None if _inside.numpy else self._elements()
            if known is None:
                raise _no_numpy(self)
            return known.__array__(self.dtype.name if dtype is None else dtype, copy)
        if self.dtype is _dtypes.bfloat16:
            try:
                from ml_dtypes import bfloat16
            except ImportError:
                made = numpy.asarray(memoryview(_ops.astype(self, _dtypes.float32)))
            else:
                made = numpy.asarray(memoryview(self._bitcast(_dtypes.uint16.code))).view(bfloat16)
        else:
            made = numpy.asarray(memoryview(self))
        return (
            made.astype(dtype) if dtype is not None and made.dtype != dtype else made.copy() if copy else made
        )

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if stream is not None:
            raise ValueError("arrays in the memory of the CPU have no stream")
        if dl_device is not None and tuple(dl_device) != (1, 0):
            raise BufferError(f"the array is in the memory of the CPU, not on device {dl_device}")
        return (self._copy() if copy else self)._to_dlpack(
            max_version is not None and max_version[0] >= 1, bool(copy)
        )

    def __dlpack_device__(self):
        return (1, 0)


class Sealed(Array):
    """Arrays at whose elements Python does not look: nothing changes them, so that a copy is the same."""

    __slots__ = ()

    def __str__(self):
        return repr(self)

    def __format__(self, spec):
        return format(str(self), spec)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self


class Tracer(Array):
    """A value of a program being captured: what it will hold is known only when the program runs.

    >>> hop.jit(lambda x: x + isinstance(x, hop.Tracer))(1)
    Array(2, dtype=int64)
    """

    __slots__ = ()

    # NumPy's functions would compute with the elements, and no derivative would know of it.

    def __array_ufunc__(self, ufunc, method, *inputs, **named):
        sign = _SIGNS.get(ufunc.__name__) if method == "__call__" and not named else None
        if sign is None:
            raise _no_numpy(self)
        return sign(*map(_ops.asarray, inputs))

    def __array_function__(self, func, types, args, named):
        before, _inside.numpy = _inside.numpy, True
        try:
            return func._implementation(*args, **named)
        finally:
            _inside.numpy = before


class _Inside(threading.local):
    """numpy: whether a function of NumPy's is at work on traced values."""

    numpy = False


_inside = _Inside()


def _no_numpy(x):
    at, made, said = _core.place(), x._made, stored_into()
    if said:
        return _core.unknown(TracerError(f"{at[0]}:{at[1]}: {said}"))
    return _core.unknown(
        TracerError(
            f"{at[0]}:{at[1]}: a traced value (made at {made[0]}:{made[1]}) cannot become a NumPy array "
            "while the program is captured: use hop's functions instead of NumPy's"
        )
    )


# What stands for an operator of Python's beside an array of NumPy's.
_SIGNS = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv,
    "true_divide": operator.truediv, "floor_divide": operator.floordiv, "remainder": operator.mod,
    "power": operator.pow, "matmul": operator.matmul, "bitwise_and": operator.and_,
    "bitwise_or": operator.or_, "bitwise_xor": operator.xor, "left_shift": operator.lshift,
    "right_shift": operator.rshift,
    "equal": operator.eq, "not_equal": operator.ne, "less": operator.lt, "less_equal": operator.le,
    "greater": operator.gt, "greater_equal": operator.ge,
}  # fmt: skip


class _At:
    __slots__ = ("array",)

    def __init__(self, array):
        self.array = array

    def __getitem__(self, key):
        return IndexUpdate(self.array, key)


def _restore(name, shape, data):
    d = _dtypes.as_dtype(name)
    stored = _dtypes.uint16 if d is _dtypes.bfloat16 else d
    made = _from_bytes(data, stored, shape)
    return made._bitcast(d.code) if d is not stored else made


def _from_bytes(data, d, shape):
    formats = {
        "bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B", "uint16": "H",
        "uint32": "I", "uint64": "Q", "float16": "e", "float32": "f", "float64": "d",
    }
    if not data:
        return _core.full(d.code, shape, 0)
    view = memoryview(bytearray(data)).cast(formats[d.name])
    return _core.from_buffer(view, 1)._reshaped(shape)


from . import _ops  # noqa: E402: the operators need the class
from ._ops import methods as _methods  # noqa: E402

METHODS = (
    "sum prod mean var std max min any all argmax argmin cumulative_sum cumulative_prod sort argsort reshape "
    "astype squeeze take repeat clip round "
    "nonzero flatten transpose swapaxes diagonal trace dot conj"
).split()
for _name in METHODS:
    setattr(Array, _name, getattr(_methods, "_method_" + _name, None) or getattr(_ops, _name))
Array.ravel = Array.flatten
for _name, _absent in _names.absent_methods().items():
    setattr(Array, _name, _absent)
