"""Indexing as in NumPy: slices, integers, None, ... and arrays of integers or bools, in both directions (x[i], x.at[i].set(y)).

A key becomes one of two plans: slices alone (a view, or a slice of a traced value), or slices followed by one gather over the axes that have arrays.
Indices beyond the end are brought into range when reading and left out when writing; negative ones count from the end.
"""

import builtins
import operator

from . import _core, _dtypes

_CODE = _core.codes
_call = _core.call


class _NewAxis:
    """Positions (0, or none) along a new axis of size 1: what a mask without axes means."""

    def __init__(self, positions):
        self.positions = positions


def _is_bool(x):
    return isinstance(x, _core.ArrayBase) and x.dtype is _dtypes.bool


def _item(k):
    """An index of a kind that the plans know: int, slice, None, Ellipsis, or an array."""
    if k is None or k is Ellipsis or isinstance(k, slice):
        return k
    if isinstance(k, builtins.bool):
        return _core.full(_dtypes.bool.code, (), k)
    if isinstance(k, int):
        return k
    if isinstance(k, (list, tuple)) or not isinstance(k, _core.ArrayBase):
        try:
            return operator.index(k)
        except TypeError:
            pass
        from ._ops import asarray

        try:
            k = asarray(k, dtype=_dtypes.int64) if isinstance(k, (list, tuple)) and not k else asarray(k)
        except TypeError:
            raise IndexError(f"an index must be an integer, a slice, ..., None, or an array of integers or bools, found {type(k).__name__}") from None
    if k.dtype.kind == "f":
        raise IndexError(f"an index must be an integer or a bool, found {k.dtype}")
    return k


def _known(k, size):
    """An array that is one integer as that integer, unless it is out of range: then it is treated as a traced one would be."""
    if isinstance(k, _core.ArrayBase) and k.ndim == 0 and k.dtype.kind in "iu" and not k._traced:
        i = k.item()
        return i if size is None or -size <= i < size else k
    return k


def _expand(x, key):
    """One item per axis of x (besides None), with ... written out and masks taken apart into arrays of positions."""
    items = [_item(k) for k in (key if isinstance(key, tuple) else (key,))]
    used = builtins.sum(k.ndim if _is_bool(k) else 1 for k in items if k is not None and k is not Ellipsis)
    if used > x.ndim:
        raise IndexError(f"too many indices: the array has {x.ndim} axes, {used} were indexed")
    if builtins.sum(1 for k in items if k is Ellipsis) > 1:
        raise IndexError("an index has at most one ...")
    fill = [slice(None)] * (x.ndim - used)
    at = next((i for i, k in enumerate(items) if k is Ellipsis), None)
    items = items + fill if at is None else items[:at] + fill + items[at + 1 :]
    out, axis = [], 0
    for k in items:
        if _is_bool(k):
            for d, n in enumerate(k.shape):
                if n and x.shape[axis + d] is not None and n != x.shape[axis + d]:  # one without elements fits everywhere, and finds nothing
                    raise IndexError(f"a mask of shape {k.shape} does not fit axis {axis + d} of size {x.shape[axis + d]}")
            if k.ndim == 0:
                out.append(_NewAxis(_call(_CODE["nonzero"], (_call(_CODE["expand"], (k,), None, 0),))))
            else:
                found = _call(_CODE["nonzero"], (k,))
                out += found if isinstance(found, list) else [found]
            axis += k.ndim
            continue
        out.append(k if k is None else _known(k, x.shape[axis]))
        axis += k is not None
    return out


def _slice_text(s, size):
    if size is None:
        return f"{'' if s.start is None else operator.index(s.start)}:{'' if s.stop is None else operator.index(s.stop)}:{1 if s.step is None else operator.index(s.step)}"
    start, stop, step = s.indices(size)
    if len(range(start, stop, step)) == 0:
        return "0:0"
    if step > 0:
        return f"{start}:{stop}:{step}"
    return f"{start}::{step}" if stop < 0 else f"{start}:{stop}:{step}"


def _integer(k, size, axis):
    if size is not None and not -size <= k < size:
        raise IndexError(f"index {k} is outside of axis {axis}, which has size {size}")
    return str(k if size is None or k >= 0 else k + size)


def _plan(x, key):
    """(text of the slices, [(axis after the slices, array)], whether the slices do anything, whether the arrays stand side by side)"""
    items = _expand(x, key)
    arrays = any(isinstance(k, (_core.ArrayBase, _NewAxis)) for k in items)
    text, gathered, axis, result, changed, places = [], [], 0, 0, False, []
    for i, k in enumerate(items):
        if k is None:
            text.append("new")
            result += 1
            changed = True
            continue
        if isinstance(k, _NewAxis):
            text.append("new")
            gathered.append((result, k.positions))
            places.append(i)
            result += 1
            changed = True
            continue
        size = x.shape[axis]
        if isinstance(k, slice):
            part = _slice_text(k, size)
            whole = size is not None and part == f"0:{size}:1" or k == slice(None)
            text.append(":" if whole else part)
            changed |= not whole
            result += 1
        elif isinstance(k, int):
            if arrays:  # counts as an array of one, which decides where the result's axes stand
                gathered.append((result, int(_integer(k, size, axis))))
                places.append(i)
                text.append(":")
                result += 1
            else:
                text.append(_integer(k, size, axis))
                changed = True
        else:
            gathered.append((result, _wrapped(k, size, x, axis)))
            places.append(i)
            text.append(":")
            result += 1
        axis += 1
    together = not places or places[-1] - places[0] == len(places) - 1
    return ", ".join(text), gathered, changed, together


def wrapped(k, size):
    """Positions with the negative ones counted from the end. In int64: the sum need not be a number of a narrower dtype."""
    if k.dtype.kind != "i":
        return k
    k = k if k.dtype is _dtypes.int64 else _call(_CODE["cast"], (k,), "i64")
    return _core.op(_CODE["select"], k < 0, k + size, k)


def _wrapped(k, size, x, axis):
    return wrapped(k, size if size is not None else _call(_CODE["size"], (x,), None, axis))


def getitem(x, key):
    if type(key) is int and x.ndim:  # the most frequent one
        text, gathered, changed, together = _integer(key, x.shape[0], 0), (), True, True
    elif type(key) is slice and x.ndim:
        text, gathered, changed, together = _slice_text(key, x.shape[0]), (), True, True
    else:
        text, gathered, changed, together = _plan(x, key)
    if changed:
        x = _call(_CODE["slice"], (x,), text) if x._traced else x._view(text)
    if not gathered:
        return x if changed else +x
    axes = [a for a, _ in gathered]
    out = _call(_CODE["gather"], (x, *[_as_index(k) for _, k in gathered]), ", ".join(map(str, axes)))
    if not together:
        rank = out.ndim - (x.ndim - len(axes))
        order = [*range(axes[0], axes[0] + rank), *range(axes[0]), *range(axes[0] + rank, out.ndim)]
        out = _call(_CODE["permute"], (out,), ", ".join(map(str, order)))
    return out


def _as_array(values, dtype=None):
    from ._ops import asarray

    return asarray(values, dtype=dtype)


def _as_index(k):
    return _core.full(_dtypes.int64.code, (), k) if isinstance(k, int) else k


def setitem(x, key, value):
    x._become(IndexUpdate(x, key).set(value))


class IndexUpdate:
    """x.at[key]: gives x with the elements there replaced or combined with others."""

    __slots__ = ("array", "key")

    def __init__(self, array, key):
        self.array, self.key = array, key

    def get(self):
        return getitem(self.array, self.key)

    def set(self, values):
        return self._update("set", values)

    def add(self, values):
        return self._update("add", values)

    def multiply(self, values):
        return self._update("mul", values)

    mul = multiply

    def min(self, values):
        return self._update("min", values)

    def max(self, values):
        return self._update("max", values)

    def divide(self, values):
        return self._update("set", self.get() / values)

    def subtract(self, values):
        if self.array.dtype.kind == "u":  # the difference is taken modulo 2^n
            return self._update("add", 0 - _as_array(values, self.array.dtype))
        return self._update("add", -values if isinstance(values, (int, float)) else -_as_array(values))

    def apply(self, function):
        return self._update("set", function(self.get()))

    def _update(self, mode, values):
        from ._ops import asarray

        x = self.array
        if not isinstance(values, (int, float, _core.ArrayBase)):
            values = asarray(values)
        if isinstance(values, _core.ArrayBase) and values.dtype is not x.dtype:
            values = _call(_CODE["cast"], (values,), x.dtype.text)
        mask = _item(self.key) if not isinstance(self.key, tuple) and isinstance(self.key, _core.ArrayBase) else None
        if mask is not None and _is_bool(mask) and mask.ndim == x.ndim and (not isinstance(values, _core.ArrayBase) or values.ndim == 0):
            return _masked(x, mask, mode, values)
        text, gathered, changed, together = _plan(x, self.key)
        if not gathered:
            return _call(_CODE["update_slice"], (x, values), text, 0, 0, mode)
        axes = [a for a, _ in gathered]
        if not changed and together:
            return _call(_CODE["scatter"], (x, values, *[_as_index(k) for _, k in gathered]), ", ".join(map(str, axes)), 0, 0, mode)
        return _flat_update(x, self.key, mode, values)


def _masked(x, mask, mode, values):
    op = _core.op
    new = {"set": lambda: values, "add": lambda: x + values, "mul": lambda: x * values, "min": lambda: op(_CODE["min"], x, values), "max": lambda: op(_CODE["max"], x, values)}[mode]()
    out = op(_CODE["select"], mask, new, x)
    return out if out.dtype is x.dtype else _call(_CODE["cast"], (out,), x.dtype.text)


def _flat_update(x, key, mode, values):
    """Any key: the positions of the elements in row-major order are indexed the same way, and updated in the flat array."""
    from ._ops import arange

    positions = getitem(arange(x.size).reshape(x.shape), key)
    flat = _call(_CODE["scatter"], (x.reshape((-1,)), values, positions), "0", 0, 0, mode)
    return flat.reshape(x.shape)
