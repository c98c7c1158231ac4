"""Python functions that programs call while they run."""

__all__ = ["debug_callback", "io_callback", "pure_callback"]

import heapq
import threading
import weakref

from . import _arguments, _core, _dtypes, _effects, _operator, tree
from ._arguments import place
from ._errors import InvalidError
from ._ops import asarray, broadcast_to
from ._trace import check_same_tree, function_name, label


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


def debug_callback(callback, *args, lanes="each", **kwargs):
    """Calls callback(*args, **kwargs) when the program runs, with arrays in place of traced values;
    outside of captures at once. What it gives is dropped.

    Arguments are trees of arrays and numbers; other leaves are passed on as they are. It is called as
    often and in the order in which the program says, also in loops; a gradient calls it once, with the
    values themselves. The arrays may be kept. An exception that it raises ends the run and comes out of the
    call that started it.

    lanes: what vmap does. "each": a call for each lane that runs, in ascending order; "together": one call
    for all if any runs, with arrays that have the lanes as an axis in front, of size 1 where they share one.

    >>> hop.jit(lambda x: hop.debug_callback(lambda v: print("saw", v.item()), x) or x * 2)(3.0)
    saw 3.0
    Array(6., dtype=float32)
    """
    if lanes not in ("each", "together"):
        raise _arguments.wrong("debug_callback: lanes", '"each" or "together"', lanes)
    if not callable(callback):
        raise TypeError(f"debug_callback takes a function, found {type(callback).__name__}")
    leaves, treedef = tree.flatten((args, kwargs))
    static, arrays = _apart(leaves)
    if not _core.tracing():
        args, kwargs = tree.unflatten(treedef, leaves)
        callback(*args, **kwargs)
        return
    key = (id(callback), treedef.key, tuple(id(x) if is_static else None for is_static, x in static))
    found = _known.get(key)
    if found is None:
        found = _known[key] = Callback(callback, treedef, static)
    found._record(arrays, lanes == "together")


def _apart(leaves):
    """(for each leaf whether it is no array, and then the leaf; the arrays), which stand in leaves then."""
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
    return static, arrays


# ---- functions that give something ----

# What vmap does with a call: of the library's ways (_operator.LANES).
_VMAP_METHODS = {
    None: "refused", "sequential": "each", "sequential_unrolled": "each", "broadcast_all": "together",
    "expand_dims": "together",
}  # fmt: skip


def pure_callback(
    callback, result_shape_dtypes, *args, sharding=None, vmap_method=None, vectorized=None, **kwargs
):
    """Calls callback(*args, **kwargs), a function of Python's, when the program runs, and gives what it
    gives: a tree of arrays with the structure, shapes and dtypes of result_shape_dtypes, whose leaves are
    hop.ShapeDtypeStruct, arrays, or anything with a shape and a dtype.

    The function must give the same for the same arguments and do nothing else: a call whose result nobody
    needs is not made, one in a loop may be made once. It gets arrays of hop's, which it may keep. Arguments
    are trees; leaves that are no arrays are passed on as they are. What it raises comes out of the call that
    ran the program.

    vmap_method: what vmap does. "sequential": a call for each lane; "expand_dims": one call, with arrays that
    have the lanes as an axis in front, of size 1 where all lanes share one; "broadcast_all": the same, with
    the whole axis everywhere; None: an error. It has no derivative: give it one with hop.custom_vjp or
    hop.custom_jvp. hop.operator makes an operator of a function once and for all, and is faster.

    >>> def host(x):
    ...     return hop.asarray([float(v) ** 2 for v in x])
    >>> f = hop.jit(lambda x: hop.pure_callback(host, x, x) + 1)
    >>> f(hop.asarray([1.0, 2.0]))
    Array([2., 5.], dtype=float32)
    """
    if vectorized is not None:
        raise InvalidError(f'{place()}pure_callback: vectorized is vmap_method="broadcast_all" here')
    if vmap_method is not None and (not isinstance(vmap_method, str) or vmap_method not in _VMAP_METHODS):
        known = ", ".join(f'"{m}"' for m in _VMAP_METHODS if m)
        raise _arguments.wrong("pure_callback: vmap_method", f"None or one of {known}", vmap_method)
    return _called("pure_callback", callback, result_shape_dtypes, args, kwargs, None, vmap_method)


def io_callback(callback, result_shape_dtypes, *args, sharding=None, ordered=False, **kwargs):
    """Calls callback(*args, **kwargs), a function of Python's that may do anything, when the program runs,
    and gives what it gives, as hop.pure_callback does. Every call of the program is made, in its order, once;
    result_shape_dtypes may be None.

    Under vmap it is called for each lane, in ascending order; with ordered=True vmap is an error, as in JAX.
    Else ordered changes nothing: calls always come in order. It has no derivative.

    >>> numbers = iter(range(10))
    >>> number = hop.ShapeDtypeStruct((), hop.int32)
    >>> f = hop.jit(lambda x: x + hop.io_callback(lambda: next(numbers), number))
    >>> f(10), f(10)
    (Array(10, dtype=int32), Array(11, dtype=int32))
    """
    ordered = _arguments.flag("io_callback: ordered", ordered)
    method = None if ordered else "sequential"
    return _called("io_callback", callback, result_shape_dtypes, args, kwargs, "io", method)


class _Result:
    """A leaf of result_shape_dtypes."""

    __slots__ = ("dtype", "shape")

    def __init__(self, dtype, shape):
        self.dtype, self.shape = dtype, shape


def _results(what, wanted):
    """(leaves, structure) of result_shape_dtypes"""
    leaves, treedef = tree.flatten(wanted)
    out = []
    for (path, _), x in zip(tree.leaves_with_path(wanted), leaves):
        where = tree.path_text(path, f"{what}: result_shape_dtypes")
        if _dtypes.is_number(x):
            x = asarray(x)
        if not hasattr(x, "shape") or not hasattr(x, "dtype"):
            raise _arguments.wrong(
                where, "something with a shape and a dtype, as hop.ShapeDtypeStruct has", x
            )
        shape = tuple(_size(where, n) for n in x.shape)
        out.append(_Result(_dtypes.as_dtype(x.dtype), shape))
    return out, treedef


def _size(where, n):
    return n if isinstance(n, _core.Size) else _arguments.size(where, n)


def _called(what, callback, wanted, args, kwargs, effect, method):
    _arguments.function(f"{what}: callback", callback)
    results, out_tree = _results(what, wanted)
    leaves, treedef = tree.flatten((args, kwargs))
    static, arrays = _apart(leaves)
    if not _core.tracing():
        function = _Function(what, callback, treedef, static, results, out_tree, method)
        return tree.unflatten(out_tree, function.call(arrays, [r.shape for r in results], 0))
    types = tuple(
        [(r.dtype.text, *[None if isinstance(n, _core.Size) else n for n in r.shape]) for r in results]
    )
    operands = tuple([(x.dtype.text, x.ndim) for x in arrays])
    key = (
        what, id(callback), treedef.key, out_tree.key, operands, types, method,
        tuple([id(x) if is_static else None for is_static, x in static]),
    )  # fmt: skip
    site = _known.get(key)
    if site is None:
        site = _known[key] = _site(
            what, callback, treedef, static, operands, results, out_tree, effect, method
        )
    site.sizes.now = [n for r in results for n in r.shape if isinstance(n, _core.Size)]
    return tree.unflatten(out_tree, site._record(arrays, None, len(results)))


def _over_lanes(arrays, shapes, lanes):
    """Arrays in which the axes of the lanes are whole, where they may be 1."""
    every = [x.shape[:lanes] for x in arrays] + [tuple(s[:lanes]) for s in shapes]
    whole = tuple([next((s[i] for s in every if s[i] != 1), 1) for i in range(lanes)])
    return [broadcast_to(x, (*whole, *x.shape[lanes:])) for x in arrays]


class _Sizes(threading.local):
    """now: the sizes of results that are no numbers, of the call that is being recorded."""

    now = ()


class _CallbackSite(_operator.Site):
    __slots__ = ("sizes",)


def _site(what, callback, treedef, static, operands, results, out_tree, effect, method):
    """A callback as an operator."""
    names, texts = [], []
    for r in results:
        sizes = []
        for n in r.shape:
            if isinstance(n, _core.Size):
                names.append(f"R{len(names)}")
                n = names[-1]
            sizes.append(str(n))
        texts.append(f"{r.dtype.text}[{', '.join(sizes)}]")
    given = [f"x{i}: {_operand_text(dtype, rank)}" for i, (dtype, rank) in enumerate(operands)]
    signature = _operator.Signature(f"({', '.join(given)}) -> ({', '.join(texts)})")
    fun = _Function(what, callback, treedef, static, results, out_tree, method)
    site = _CallbackSite(_operator.free_name(f"python_{function_name(callback)}"), fun, None)
    site.sizes = sizes = _Sizes()
    infer = (lambda *_: sizes.now) if names else None
    _operator.register(site, signature, fun.call, 0, effect, False, _VMAP_METHODS[method], infer, arrays=True)
    return site


def _operand_text(dtype, rank):
    return dtype if dtype.startswith("object") else f"{dtype}[{', '.join('_' * rank)}]"


class _Function:
    """A callback with the structure of its arguments and of its results."""

    def __init__(self, what, fun, treedef, static, results, out_tree, method):
        self.what, self.fun, self.treedef, self.static = what, fun, treedef, static
        self.results, self.out_tree, self.method = results, out_tree, method

    def call(self, arrays, shapes, lanes):
        """A list of its results, which have these shapes, of which so many axes in front are lanes."""
        if lanes and self.method == "broadcast_all":
            arrays = _over_lanes(arrays, shapes, lanes)
        leaves, rest = list(self.static), iter(arrays)
        for i, (is_static, x) in enumerate(leaves):
            leaves[i] = x if is_static else next(rest)
        args, named = tree.unflatten(self.treedef, leaves)
        given = self.fun(*args, **named)
        if given is None and not self.results:
            return []
        found, out_tree = tree.flatten(given)
        whose = label(self.fun) or "the callback"
        made = [self._leaf(r, x) for r, x in zip(self.results, found)]

        def leaf(i, j):
            r, x = self.results[i], found[j]
            expected = f"{r.dtype.text}[{', '.join(map(str, shapes[i]))}]"
            made[i] = y = self._leaf(r, x)
            if y is None:
                return f"{whose} gives {_arguments.found(x)}, expected {expected}"
            if y.dtype is r.dtype and y.shape == tuple(shapes[i]):
                return None
            return f"{whose} gives {y._type}, expected {expected}"

        check_same_tree(self.what, self.out_tree, out_tree, whose, "result", leaf)
        return made

    @staticmethod
    def _leaf(r, x):
        if isinstance(x, _core.ArrayBase):
            return x.astype(r.dtype) if x._weak else x
        try:
            return asarray(x, dtype=r.dtype) if _dtypes.is_number(x) else asarray(x)
        except (TypeError, ValueError, OverflowError):
            return None
