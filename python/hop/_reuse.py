"""Captured functions that are used again. A function made by jit that is called inside of another capture is
captured once for each kind of arguments, as a function of its own; every further call calls that, and
transforms of it are made once, too. It is used again as long as everything that its code reads is as it was
(see _guards.py); arrays among it, values of the capture around included, are further operands, read at every
call. Where that cannot be known the function is captured for the one call alone."""

import contextvars
import threading
import weakref

from . import _core, _guards, _lanes, tree
from ._arguments import place
from ._errors import InvalidError
from ._trace import capture, codes

_MOST_BODIES, _MOST_CODES = 256, 512
SIMPLE = (str, bytes, int, float, complex, bool, type, type(None))
# What gives something else each time it is asked, without being changed in a way that shows.
_MOVING = (contextvars.ContextVar, threading.local, weakref.ref)


class Bodies:
    """The captured bodies of one function by kinds of arguments: lists of (what was captured, its guards).
    shared: those that are good for other functions of the same code, too."""

    __slots__ = ("_shared", "_own")

    def __init__(self, shared=None):
        self._shared, self._own = {} if shared is None else shared, {}

    def of(self, key):
        return [*self._shared.get(key, ()), *self._own.get(key, ())]

    def keep(self, key, body, shared):
        kept = self._shared if shared else self._own
        if sum(map(len, kept.values())) >= _MOST_BODIES:
            kept.pop(next(iter(kept)))
        kept.setdefault(key, []).append(body)

    def clear(self):
        self._shared.clear()
        self._own.clear()


_shared = {}  # code objects -> bodies


def bodies_by_code(fun):
    """Bodies that are shared by all functions of fun's code."""
    code = codes(fun)
    if code is None:
        return Bodies()
    if len(_shared) > _MOST_CODES:
        _shared.clear()
    return Bodies(_shared.setdefault(code, {}))


def fixed_sizes(types):
    """Whether the sizes of arguments are numbers: what a symbol means, one capture alone knows. types: as
    capture takes them."""
    return all(type(d) is int for x in types for d in _shape(x))


def _shape(x):
    if not isinstance(x, tuple):
        return x.shape
    array, axis = x
    return array.shape[:axis] + array.shape[axis + 1 :]


def kind_of(x):
    """What a type says besides sizes: the dtype, and where a distributed array lies."""
    text = x._type
    return text[text.rindex("]") + 1 :] + x.dtype.text if "@" in text else x.dtype.text


def kinds(types, weak, treedef):
    """What a body is captured for besides static arguments."""
    found = [(kind_of(x[0] if isinstance(x, tuple) else x), _shape(x)) for x in types]
    return (treedef.key, tuple(found), tuple(weak), _core.modes())


def traced(
    bodies, key, root, given, fun, args, named, leaves, weak, types=None, in_tree=None, jit=False
):  # fmt: skip
    """fun captured for these arguments, or what was captured for such ones before. root: the function whose
    code says what fun reads; given: arguments by name that are part of the program; jit: it is a function
    under jit."""
    for t, guards in bodies.of(key):
        hidden = guards.arguments(root)
        if hidden is not None:
            return t.again(leaves, [x._raw() if x._weak else x for x in hidden])
    watch, reads = _guards.Watch(root, (), given), []
    watch.also(tree.functions((args, named)))
    before = _core.note_reads(reads)
    try:
        t = capture(fun, args, named, leaves, types, weak, jit=jit, in_tree=in_tree)
    finally:
        _core.note_reads(before)
    if before is not None:
        before.extend(reads)
    guards = None if reads else lasting_guards(watch, t, root)
    if guards is not None:
        bodies.keep(key, (t.again(None, None), guards), watch.shared and not t.function.callbacks)
    return t


def lasting_guards(watch, t, root):
    """Guards that tell whether the captured t is what a capture would give now; None: nothing can."""
    if watch.unwatched or t.constraints:
        return None
    if not all(isinstance(x, SIMPLE) for x in tree.constants(t.out_tree)):
        return None
    values = {id(p.value): p.value for p in watch.places}
    if any(isinstance(x, _MOVING) or hasattr(type(x), "__next__") for x in values.values()):
        return None
    made, sources = False, set()
    for x in t.hidden:
        source = x._origin
        made |= source is None
        sources.add(id(source))
        found_otherwise = source is not None and id(source) not in values
        if found_otherwise and isinstance(source, _core.ArrayBase):
            return None
    # an array that was made in the capture around has no place to read it from
    arrays = [x for x in values.values() if isinstance(x, _core.ArrayBase) and not x._traced]
    if made and any(id(x) not in sources for x in arrays):
        return None
    guards = watch.guards(t.hidden, ())
    return None if watch.unwatched or guards.difference(root) is not None else guards


# ---- transforms ----


def bodies_of(fun):
    """Where captures of a function are kept that a transform is given; None: it is captured each time."""
    if _core.jit_disabled():
        return None
    if isinstance(fun, _core.JitBase):
        return None if fun._static or fun._static_names else fun._bodies
    return getattr(fun.__wrapped__, "_of_jit", None) if isinstance(fun, _core.Entry) else None


def transform_of(g, fun):
    """g, a transform of fun, keeps captures of itself if fun does."""
    reusable = isinstance(fun, _core.JitBase) and not fun._static and not fun._static_names
    if isinstance(fun, _core.Entry):
        reusable = getattr(fun.__wrapped__, "_of_jit", None) is not None
    g._of_jit = Bodies() if reusable else None


def check_pure(fun):
    """An error for a function of jit that updates its arguments: those of a transform are values."""
    if isinstance(fun, _core.JitBase) and fun._mut:
        raise InvalidError(
            f"{place()}{fun!r} updates arguments (mut), which a transform cannot: give the transform a "
            "function that calls it and returns what they become"
        )


def captured(fun, args, named, leaves, types, weak, in_tree, parts=None):
    """As capture, of a function that a transform is given: one made by jit, and a transform of such a one, is
    captured once. parts: as of capture, for others."""
    check_pure(fun)
    bodies = bodies_of(fun)
    simple = all(isinstance(x, SIMPLE) for x in tree.constants(in_tree))
    if bodies is None or _lanes.any_bound() or not fixed_sizes(types or leaves) or not simple:
        return capture(fun, args, named, leaves, types, weak, in_tree=in_tree, parts=parts)
    key, root = kinds(types or leaves, weak, in_tree), fun
    if isinstance(fun, _core.JitBase):
        if tree.constants(in_tree):  # it says itself what it does not take
            return capture(fun, args, named, leaves, types, weak, in_tree=in_tree)
        key, root = fun._body_key((), (), key), fun._fun
    jit = root is not fun
    return traced(bodies, key, root, None, root, args, named, leaves, weak, types, in_tree, jit)
