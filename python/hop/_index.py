"""Indexing as in NumPy: slices, integers, None, ... and arrays of integers or bools, in both directions
(x[i], x.at[i].set(y)).

A key becomes one of two plans: slices alone (a view, or a slice of a traced value), or slices followed by
one gather over the axes that have arrays. Indices beyond the end are brought into range when reading and
left out when writing, unless x.at[…] is given another mode; negative ones count from the end.
"""

import ast
import builtins
import dis
import itertools
import linecache
import numbers
import operator
import sys
import threading

from . import _arguments, _core, _dtypes, _shapes
from ._errors import InvalidError, WriteError

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
    if isinstance(k, _shapes.WHOLE):
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
            raise IndexError(
                "an index must be an integer, a slice, ..., None, or an array of integers or bools, "
                f"found {type(k).__name__}"
            ) from None
    if k.dtype.kind == "f":
        raise IndexError(f"an index must be an integer or a bool, found {k.dtype}")
    return k


def _known(k, size):
    """An array that is one integer as that integer, unless it is out of range: then it is treated as a
    traced one would be."""
    if isinstance(k, _core.ArrayBase) and k.ndim == 0 and k.dtype.kind in "iu" and not k._traced:
        i = k.item()
        return i if isinstance(size, _shapes.Size) or -size <= i < size else k
    return k


def _expand(x, key):
    """One item per axis of x (besides None), with ... written out and masks taken apart into arrays of
    positions."""
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
                # one without elements fits everywhere, and finds nothing
                if not _shapes.equal(n, 0) and _shapes.differ(n, x.shape[axis + d]):
                    raise IndexError(
                        f"a mask of shape {k.shape} does not fit axis {axis + d} of size {x.shape[axis + d]}"
                    )
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


_PLAIN = (int, type(None))


def _slice_text(s, size):
    if type(size) is not int or type(s.start) not in _PLAIN or type(s.stop) not in _PLAIN:
        traced = _shapes.is_traced_integer(s.start) or _shapes.is_traced_integer(s.stop)
        if traced or _shapes.is_symbolic(size, s.start, s.stop):
            return _symbolic_slice(s, size)
    start, stop, step = s.indices(size)
    if len(range(start, stop, step)) == 0:
        return "0:0"
    if step > 0:
        return f"{start}:{stop}:{step}"
    return f"{start}::{step}" if stop < 0 else f"{start}:{stop}:{step}"


def _symbolic_slice(s, size):
    """The same where the size or a bound is no number. Whether a bound lies within the axis is decided by
    proof, by a guard, or by the program."""
    step = 1 if s.step is None else operator.index(s.step)
    if step == 0:
        raise ValueError("slice step cannot be zero")
    if step > 0:
        start, stop = _edge(s.start, size, 0, 0), _edge(s.stop, size, size, 0)
        stop = stop if _shapes.holds(start, "<=", stop) else _shapes.largest(start, stop)
        start, stop = _shapes.short(start), _shapes.short(stop)
        return f"{_shapes.text(start)}:{_shapes.text(stop)}:{step}"
    start, stop = _edge(s.start, size, size - 1, -1), _edge(s.stop, size, -1, -1)
    if _shapes.equal(start, -1) or _shapes.holds(stop, ">=", start):
        return "0:0"
    start, stop = [_shapes.short(b + 1) - 1 for b in (start, _shapes.least(start, stop))]
    return f"{_shapes.text(start)}:{'' if _shapes.equal(stop, -1) else _shapes.text(stop)}:{step}"


def _edge(b, size, otherwise, least):
    """A bound of a slice as a position from `least` (0, or -1 of one that goes backwards) to as much below
    the size."""
    most = size + least
    if b is None:
        return otherwise
    if _shapes.is_traced_integer(b):
        return _traced_edge(b, size, least)
    if not isinstance(b, _shapes.WHOLE):
        b = operator.index(b)
    negative = _shapes.holds(b, "<", 0)
    if negative is None:  # -1 or 0
        below = _shapes.largest(_shapes.least(b, 0), -1)
        b = b - below * size
    elif negative:
        b = b + size
    if _shapes.holds(b, ">=", least) is not True:
        b = _shapes.largest(b, least)
    if _shapes.holds(b, "<=", most) is True:
        return b
    # not the smaller of both: so x[1:] and x[:-1] are known to be of one length
    return most - _shapes.largest(most - b, 0) if isinstance(b, int) and not least else _shapes.least(b, most)


def _traced_edge(b, size, least):
    """The same of a bound that is a traced integer, of which the program makes a size."""
    b = wrapped(b, size)
    b = _core.op(_CODE["min"], _core.op(_CODE["max"], _wide(b), least), size + least)
    return _shapes.bound(b - least) + least


def _integer(k, size, axis):
    if type(size) is _shapes.Size or type(k) is _shapes.Size:
        return _shapes.text(_symbolic_integer(k, size, axis))
    if not -size <= k < size:
        raise IndexError(f"index {k} is outside of axis {axis}, which has size {size}")
    return str(k if k >= 0 else k + size)


def _symbolic_integer(k, size, axis):
    """The same where the size or the index is no number: that it is one of the axis is a guard, or checked by
    the program."""
    if not isinstance(k, int) and _shapes.holds(k, "<", 0) is None:
        k = k - _shapes.largest(_shapes.least(k, 0), -1) * size
    elif _shapes.holds(k, "<", 0):
        k = k + size
    if _shapes.holds(k, "<", 0) or _shapes.holds(k, ">=", size):
        raise IndexError(f"index {k} is outside of axis {axis}, which has size {size}")
    return k


def _plan(x, items):
    """(text of the slices, [(axis after the slices, array)], whether the slices do anything, whether the
    arrays stand side by side) for what _expand gives"""
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
            whole = k == slice(None) or part == f"0:{_shapes.text(size)}:1"
            text.append(":" if whole else part)
            changed |= not whole
            result += 1
        elif isinstance(k, _shapes.WHOLE):
            if arrays:  # counts as an array of one, which decides where the result's axes stand
                at = _symbolic_integer(k, size, axis) if _shapes.is_symbolic(k, size) else None
                gathered.append((result, int(_integer(k, size, axis)) if at is None else at))
                places.append(i)
                text.append(":")
                result += 1
            else:
                text.append(_integer(k, size, axis))
                changed = True
        else:
            gathered.append((result, k))
            places.append(i)
            text.append(":")
            result += 1
        axis += 1
    together = not places or places[-1] - places[0] == len(places) - 1
    return ", ".join(text), gathered, changed, together


def wrapped(k, size):
    """Positions with the negative ones counted from the end. In int64: the sum need not be a number of a
    narrower dtype."""
    if k.dtype.kind != "i":
        return k
    k = k if k.dtype is _dtypes.int64 else _call(_CODE["cast"], (k,), "i64")
    return _core.op(_CODE["select"], k < 0, k + size, k)


def _positions(x, items):
    """(number of the item, array, size of its axis) for each array of indices among what _expand gives."""
    axis = 0
    for i, k in enumerate(items):
        if isinstance(k, _core.ArrayBase):
            yield i, k, x.shape[axis]
        axis += k is not None and not isinstance(k, _NewAxis)


def _items(x, key, mode=None):
    """What _expand gives, all indices counted from the front; those beyond the ends as the mode has them.
    With a mode a Python integer may be out of range, as an array may."""
    if mode is not None:
        key = tuple(
            [_as_index(k) if _is_whole(k) else k for k in (key if isinstance(key, tuple) else (key,))]
        )
    items = _expand(x, key)
    for i, k, n in _positions(x, items):
        if mode == "wrap":
            k = _core.op(_CODE["mod"], _wide(k), n)
        else:
            k = wrapped(k, n)
        if mode == "clip":
            k = _core.op(_CODE["min"], _core.op(_CODE["max"], _wide(k), 0), n - 1)
        items[i] = k
    return items


def getitem(x, key):
    if type(key) is int and x.ndim:  # the most frequent one
        return _read(x, _integer(key, x.shape[0], 0), (), True, True)
    if (type(key) is slice or type(key) is _shapes.Size) and x.ndim:
        if type(key) is _shapes.Size:
            return _read(x, _integer(key, x.shape[0], 0), (), True, True)
        return _read(x, _slice_text(key, x.shape[0]), (), True, True)
    return _read(x, *_plan(x, _items(x, key)))


class Part:
    """Where a part x[key] lies that is known when the program is made. text: its slices, "" for all of x;
    axes: for each axis of x the positions, a range, slice(None) for all of an axis whose size is no number,
    else None; strided: whether it is a view of x, which parts are not that go backwards; row_major: whether
    it surely lies in x row by row."""

    __slots__ = ("text", "axes", "strided", "row_major")

    def __init__(self, x, key):
        items = _items(x, key)
        text, _, changed, _ = _plan(x, items)
        kept = [k for k in items if k is not None]
        self.text = text if changed else ""
        self.axes = [_range(k, n) for k, n in zip(kept, x.shape)]
        steps = [1 if not isinstance(k, slice) or k.step is None else k.step for k in kept]
        self.strided = all(step > 0 for step in steps)
        self.row_major = _is_row_major(self.axes, steps, x.shape)

    def meets(self, other):
        """Whether they have an element in common; None: that is not known."""
        known = [_meet(a, b) for a, b in zip(self.axes, other.axes)]
        return False if False in known else None if None in known else True


def _is_row_major(axes, steps, shape):
    """Whether there is one position alone of each axis before one of which there is a part."""
    begun = False
    for axis, step, size in zip(axes, steps, shape):
        known = isinstance(axis, range)
        if begun and not (len(axis) == size if known else axis is not None):
            return False
        if not known or len(axis) > 1:
            if step != 1:
                return False
            begun = True
    return True


def part_of(x, key):
    """The part x[key], None where indices are arrays or bounds are traced."""
    for k in key if isinstance(key, tuple) else (key,):
        if isinstance(k, slice):
            if not all(b is None or _is_plain(b) for b in (k.start, k.stop, k.step)):
                return None
        elif k is not None and k is not Ellipsis and not _is_plain(k):
            return None
    return Part(x, key)


def _is_plain(k):
    return isinstance(k, (numbers.Integral, _shapes.Size)) and not isinstance(k, builtins.bool)


def _range(k, size):
    """The positions that a slice or an integer takes of an axis, in ascending order."""
    if isinstance(k, slice):
        if k == slice(None) and isinstance(size, _shapes.Size):
            return slice(None)
        if _shapes.is_symbolic(size, k.start, k.stop):
            return None
        found = range(*k.indices(size))
        return found if found.step > 0 else found[::-1]
    if _shapes.is_symbolic(k, size):
        return None
    return range(k % size, k % size + 1)


def _meet(a, b):
    """Whether two ascending ranges have a position in common; None: that is not known."""
    if a is None or b is None:
        return None
    if isinstance(a, slice) or isinstance(b, slice):
        return True if isinstance(a, slice) and isinstance(b, slice) else None
    if not a or not b:
        return False
    first, last = builtins.max(a[0], b[0]), builtins.min(a[-1], b[-1])
    a, b = (a, b) if a.step >= b.step else (b, a)
    begin = first + (a[0] - first) % a.step  # of a, whose positions repeat in b after b.step of them
    return any(p in b for p in range(begin, builtins.min(last, begin + a.step * (b.step - 1)) + 1, a.step))


def _read(x, text, gathered, changed, together):
    """What a plan reads."""
    if changed:
        at_once = not x._traced and "#" not in text  # sizes of a program are none of an array's own
        x = x._view(text) if at_once else _call(_CODE["slice"], (x,), text)
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
    if isinstance(k, _shapes.Size):
        return k._value._raw()
    return _core.full(_dtypes.int64.code, (), k) if isinstance(k, int) else k


# ---- x[i] = y ----


class _Counted:
    """How often an object is referred to inside of its __setitem__."""

    def __setitem__(self, key, value, /):
        value.append(sys.getrefcount(self))


def _unnamed_count():
    """The count of an object that nothing refers to but the expression x[i] = y; None: where names make no
    difference."""
    seen, named = [], _Counted()
    _Counted()[0] = seen
    named[0] = seen
    return seen[0] if seen[0] != seen[1] else None


UNNAMED = _unnamed_count()


def check_named():
    """An error where a statement x[i] = y of the caller's caller writes to an array that nothing else refers
    to, as the part y[0:2] in y[0:2][0] = 9: nobody could ever see it."""
    frame = sys._getframe(2)
    if not _stores(frame):
        return
    target, whole = _target(frame) or ("x[…]", "x")
    raise InvalidError(
        f"{_arguments.place()}{target} = …: {whole} is an array of its own that nothing refers to, so that "
        "nobody would see what is written: index once, as in y[0, i] = v instead of y[0][i] = v, or give the "
        "part a name; y.at[…].set(v) is another array with the elements replaced"
    )


def _stores(frame):
    """Whether a statement x[i] = y is at work there."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]] in ("STORE_SUBSCR", "STORE_SLICE")


def _target(frame):
    """What a statement x[i] = y writes to and its x, as texts; None: its source cannot be had."""
    at = next(itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
    if at[0] is not None and at[0] == at[1] and at[2] is not None:
        line = linecache.getline(frame.f_code.co_filename, at[0]).encode()
        text = line[at[2] : at[3]].decode(errors="replace")
        try:
            found = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError):
            found = None
        if isinstance(found, ast.Subscript):
            return text, ast.unparse(found.value)
    return None


def setitem(x, key, value):
    write(x, IndexUpdate(x, key).set(value))


class _Noted(threading.local):
    """sets: where the ids of arrays that are written to are put."""

    def __init__(self):
        self.sets = []


_noted = _Noted()


class noting:
    """with noting() as found: the ids of arrays that are written to."""

    def __enter__(self):
        _noted.sets.append(set())
        return _noted.sets[-1]

    def __exit__(self, *exception):
        _noted.sets.pop()


def write(x, value):
    """x holds the elements of value, an array of its type."""
    for found in _noted.sets:
        found.add(id(x))
    why = x._become(value)
    if why:
        raise _core.unknown(_refused(x, why))


# Why an array cannot be written: as in src/array.c.
_OF_ANOTHER_CAPTURE, _FROM_OUTSIDE, _OF_A_BODY_AROUND, _OF_A_BODY_THAT_ENDED = range(1, 5)


def written_name(x):
    """What the statement x[i] = y of the user's that is at work calls x."""
    frame = _arguments.user_frame()
    target = _target(frame) if frame is not None and _stores(frame) else None
    return target[1] if target else _arguments.name_of(x, frame) or "x"


def stored_into():
    """Why the statement a[i] = x of the user's that is at work cannot put a traced value into an array of
    another library, for a message; None: there is no such statement."""
    frame = _arguments.user_frame()
    if frame is None or not _stores(frame):
        return None
    target, whole = _target(frame) or ("a[…]", "a")
    return (
        f"{target} = …: {whole} is no array of hop's and cannot hold a value that only a run knows: write to "
        f"hop.asarray({whole}), or give {whole} to the function as an argument that it updates "
        "(jit(f, mut=…))"
    )


def _refused(x, why):
    name, at = written_name(x), _arguments.place()
    begun = "{}:{}".format(*_core.capture_place())
    if why == _OF_A_BODY_THAT_ENDED:
        said = "was made in a body that has ended: give it as a result of that"
    elif why == _OF_A_BODY_AROUND:
        said = "was made outside of the body being captured"
    else:
        made = "{}:{}".format(*x._made) if why == _OF_ANOTHER_CAPTURE else ""
        said = (
            f"{f'was made at {made}, ' if made else 'is an array from '}outside of the function captured at "
            f"{begun}, which cannot change it: give it as an argument and return what it becomes"
        )
    return WriteError(f"{at}{name}[…] = …: {name} {said}", x)


# ---- indices that are out of range ----

_MODES = {
    "clip": "they are brought into range",
    "drop": "what is written there is dropped, and what is read there is fill_value", "fill": "the same",
    "promise_in_bounds": "there are none, says the user; if there are, they are clipped or dropped",
    "wrap": "they are taken modulo the size",
}


def _mode(mode):
    if mode is None or isinstance(mode, str) and mode in _MODES:
        return mode
    raise _arguments.wrong("x.at[…]: mode", ", ".join(f'"{m}"' for m in _MODES), mode)


def _is_whole(k):
    return isinstance(k, _shapes.WHOLE) and not isinstance(k, builtins.bool)


def _wide(k):
    """Indices in a dtype that holds every size."""
    return k if k.dtype.itemsize == 8 else _call(_CODE["cast"], (k,), "i64")


def _fill_value(d):
    """What stands for nothing: NaN, the least of signed integers, the largest of unsigned ones, true."""
    if d.kind == "f":
        return float("nan")
    return True if d.kind == "b" else _dtypes.iinfo(d).min if d.kind == "i" else _dtypes.iinfo(d).max


def _filled(x, items, fill_value):
    """What items read, with fill_value where an index is out of range."""
    plan = _plan(x, items)
    out = _read(x, *plan)
    good = None
    for _, k, n in _positions(x, items):
        within = (k >= 0) & (k < n)
        good = within if good is None else good & within
    if good is None:
        return out
    _, gathered, _, together = plan
    first = gathered[0][0] if together else 0  # of the axes that the arrays have in the result
    good = good[(..., *[None] * (out.ndim - first - good.ndim))]
    return _core.op(_CODE["select"], good, out, _as_array(fill_value, x.dtype))


class IndexUpdate:
    """x.at[key]: gives x with the elements there replaced or combined with others, or the elements alone.

    mode says what becomes of indices that are out of range: "clip" brings them into range; "drop" and
    "fill" leave out what would be written there, and read fill_value (by default NaN, the least of signed
    integers, the largest of unsigned ones, True); "wrap" takes them modulo the size; "promise_in_bounds"
    says that there are none. Without a mode they are clipped when reading and dropped when writing, and a
    Python integer out of range is an error. indices_are_sorted and unique_indices change nothing: they are
    taken because JAX's programs give them."""

    __slots__ = ("array", "key")

    def __init__(self, array, key):
        self.array, self.key = array, key

    def get(self, *, mode=None, fill_value=None, indices_are_sorted=False, unique_indices=False):
        """The elements themselves."""
        mode, x = _mode(mode), self.array
        if mode is None:
            return getitem(x, self.key)
        items = _items(x, self.key, mode)
        if mode not in ("fill", "drop"):
            return _read(x, *_plan(x, items))
        return _filled(x, items, _fill_value(x.dtype) if fill_value is None else fill_value)

    def set(self, values, *, mode=None, indices_are_sorted=False, unique_indices=False):
        """Replaced."""
        return self._update("set", values, mode)

    def add(self, values, *, mode=None, indices_are_sorted=False, unique_indices=False):
        """With values added; where an index comes twice, both."""
        return self._update("add", values, mode)

    def multiply(self, values, *, mode=None, indices_are_sorted=False, unique_indices=False):
        """Multiplied by values; where an index comes twice, by both."""
        return self._update("mul", values, mode)

    mul = multiply

    def min(self, values, *, mode=None, indices_are_sorted=False, unique_indices=False):
        """The smaller of them and values."""
        return self._update("min", values, mode)

    def max(self, values, *, mode=None, indices_are_sorted=False, unique_indices=False):
        """The larger of them and values."""
        return self._update("max", values, mode)

    def divide(self, values, *, mode=None, indices_are_sorted=False, unique_indices=False):
        """Divided by values; where an index comes twice, by both. Of integers the quotient without its
        fraction."""
        x, divisors = self.array, self._factors(values, mode)
        if x.dtype.kind == "f":
            return x / divisors
        return (x - _core.op(_CODE["rem"], x, divisors)) // divisors

    def power(self, values, *, mode=None, indices_are_sorted=False, unique_indices=False):
        """Raised to values."""
        return self.array ** self._factors(values, mode)

    def subtract(self, values, *, mode=None, indices_are_sorted=False, unique_indices=False):
        """With values subtracted; where an index comes twice, both."""
        if self.array.dtype.kind == "u":  # the difference is taken modulo 2^n
            return self._update("add", 0 - _as_array(values, self.array.dtype), mode)
        return self._update("add", -values if isinstance(values, (int, float)) else -_as_array(values), mode)

    def apply(self, function, *, mode=None, indices_are_sorted=False, unique_indices=False):
        """What the function, which works by element, makes of them."""
        return self._update("set", function(self.get(mode=mode)), mode)

    def _factors(self, values, mode):
        """1 everywhere but here."""
        from ._ops import ones_like

        return IndexUpdate(ones_like(self.array), self.key).multiply(values, mode=mode)

    def _update(self, how, values, mode):
        from ._ops import asarray

        x, mode = self.array, _mode(mode)
        if not isinstance(values, (int, float, _core.ArrayBase)):
            values = asarray(values)
        if isinstance(values, _core.ArrayBase) and values.dtype is not x.dtype:
            values = _call(_CODE["cast"], (values,), x.dtype.text)
        mask = (
            _item(self.key)
            if not isinstance(self.key, tuple) and isinstance(self.key, _core.ArrayBase)
            else None
        )
        if (
            mask is not None
            and _is_bool(mask)
            and mask.ndim == x.ndim
            and (not isinstance(values, _core.ArrayBase) or values.ndim == 0)
        ):
            return _masked(x, mask, how, values)
        items = _items(x, self.key, mode)
        text, gathered, changed, together = _plan(x, items)
        if not gathered:
            return _call(_CODE["update_slice"], (x, values), text, 0, 0, how)
        axes = [a for a, _ in gathered]
        if not changed and together:
            return _call(
                _CODE["scatter"],
                (x, values, *[_as_index(k) for _, k in gathered]),
                ", ".join(map(str, axes)),
                0,
                0,
                how,
            )
        return _flat_update(x, items, how, values)


def _masked(x, mask, mode, values):
    op = _core.op
    new = {
        "set": lambda: values,
        "add": lambda: x + values,
        "mul": lambda: x * values,
        "min": lambda: op(_CODE["min"], x, values),
        "max": lambda: op(_CODE["max"], x, values),
    }[mode]()
    out = op(_CODE["select"], mask, new, x)
    return out if out.dtype is x.dtype else _call(_CODE["cast"], (out,), x.dtype.text)


def _flat_update(x, items, how, values):
    """Any key: the positions of the elements in row-major order are indexed the same way, and updated in
    the flat array; those out of range stand behind its end."""
    from ._ops import arange

    every = arange(x.size).reshape(x.shape)
    positions = _filled(every, items, x.size)
    flat = _call(_CODE["scatter"], (x.reshape((-1,)), values, positions), "0", 0, 0, how)
    return flat.reshape(x.shape)
