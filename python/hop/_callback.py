"""Python functions that programs call while they run."""

__all__ = ["debug_callback"]

import heapq
import threading
import weakref

from . import _core, _effects, tree
from ._ops import asarray
from ._trace import function_name


class _Names:
    """Names for callbacks, the smallest number that is free: a function that is captured again gives the
    same program again, which the cache of compiled code knows."""

    def __init__(self):
        # reentrant: a callback may be freed at any line
        self._free, self._next, self._lock = {}, {}, threading.RLock()

    def take(self, base):
        with self._lock:
            free = self._free.get(base)
            if free:
                return heapq.heappop(free)
            self._next[base] = self._next.get(base, 0) + 1
            return self._next[base] - 1

    def give(self, base, number):
        with self._lock:
            free = self._free.setdefault(base, [])
            heapq.heappush(free, number)
            if len(free) == self._next[base]:  # none is in use
                del self._free[base], self._next[base]


_names = _Names()
# (id of the function, structure, ids of the static leaves) -> Callback, which keeps these alive
_known = weakref.WeakValueDictionary()


class Callback(_core.CallbackBase):
    """A function with the structure of its arguments, known to the library by a name. Programs that call
    it keep it alive."""

    __slots__ = ("fun", "treedef", "static", "base", "number", "__weakref__")

    def __init__(self, fun, treedef, static):
        self.fun, self.treedef, self.static = fun, treedef, static
        self.base = function_name(fun)
        self.number = _names.take(self.base)
        self._register(f"python:{self.base}:{self.number}")

    def _call(self, arrays):
        leaves, arrays = list(self.static), iter(arrays)
        for i, (is_static, x) in enumerate(leaves):
            leaves[i] = x if is_static else next(arrays)
        args, named = tree.unflatten(self.treedef, leaves)
        with _effects.of_the_host():
            self.fun(*args, **named)

    def __del__(self, give=_names.give):
        self._unregister()  # first, so that nobody has the name then
        if hasattr(self, "number"):
            give(self.base, self.number)


def debug_callback(callback, *args, **kwargs):
    """Calls callback(*args, **kwargs) when the program runs, with arrays in place of traced values;
    outside of captures at once. What it gives is dropped.

    Arguments are trees of arrays and numbers; other leaves are passed on as they are. It is called as
    often and in the order in which the program says, also in loops; a gradient calls it once, with the
    values themselves; under vmap it is called for each lane that runs, in ascending order. The arrays may
    be kept. An exception that it raises ends the run and comes out of the call that started it.

    >>> hop.jit(lambda x: hop.debug_callback(lambda v: print("saw", v.item()), x) or x * 2)(3.0)
    saw 3.0
    Array(6., dtype=float32)
    """
    if not callable(callback):
        raise TypeError(f"debug_callback takes a function, found {type(callback).__name__}")
    leaves, treedef = tree.flatten((args, kwargs))
    static, arrays = [], []
    for i, x in enumerate(leaves):
        if not isinstance(x, _core.ArrayBase):
            try:
                x = asarray(x)
            except (TypeError, ValueError, OverflowError):
                static.append((True, x))
                continue
        static.append((False, None))
        arrays.append(x)
        leaves[i] = x
    if not _core.tracing():
        args, kwargs = tree.unflatten(treedef, leaves)
        callback(*args, **kwargs)
        return
    key = (id(callback), treedef.key, tuple(id(x) if is_static else None for is_static, x in static))
    found = _known.get(key)
    if found is None:
        found = _known[key] = Callback(callback, treedef, static)
    found._record(arrays)
