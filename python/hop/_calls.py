"""Calls of transforms and loops outside of jit: which of their arguments are arrays and which stay values of
Python's, and the programs that were made for such calls, which serve later ones of their kind.

A program is kept under the code of the function that the transform is given, so that a lambda that is made
anew at each call finds it again, with guards for all that the function reads (_guards.py). Functions of which
nothing can tell whether a capture would be the same, or that do something besides (_does_more), are captured
at each call."""

__all__ = ["clear_caches"]

import builtins
import enum
import functools
import types
import weakref

from . import _core, _effects, _lanes, _modes, _reuse, tree
from ._bytecode import writes
from ._dtypes import is_number
from ._guards import TELLING, Watch
from ._keys import value_key
from ._objects import MISSING, is_foreign, static_of
from ._ops import asarray
from ._errors import WriteError
from ._trace import array_leaf, call_names, capture, codes, is_weak, raw_leaf

_MOST_TABLES, _MOST_KINDS, _MOST_TRIES, _MOST_CHANGES = 256, 64, 4, 2


# ---- arguments ----

_VALUES = (
    str, bytes, type, range, slice, set, frozenset, complex, enum.Enum, types.ModuleType, types.FunctionType,
    types.BuiltinFunctionType, types.MethodType, functools.partial,
)  # fmt: skip


class Arguments:
    """The arguments of a call. found: arrays, those of other libraries as hop's, and Python's numbers;
    treedef: the structure of (args, named), of which everything else is part."""

    __slots__ = ("fun", "args", "named", "found", "treedef")

    def __init__(self, fun, args, named):
        self.fun, self.args, self.named = fun, args, named
        self.found, self.treedef = tree.split((args, named), self._leaf)

    def _leaf(self, x):
        if isinstance(x, (_core.ArrayBase, _core.Size)):
            return x
        if isinstance(x, _VALUES):
            return tree.CONSTANT
        if is_number(x):
            return x
        dtype = getattr(x, "dtype", None)
        if getattr(dtype, "names", None) == ("float0",):  # JAX's derivative of what has none
            return tree.CONSTANT
        try:
            return asarray(x)
        except (TypeError, ValueError, OverflowError) as error:
            if isinstance(error, TypeError) and not (dtype is not None and hasattr(x, "shape")):
                return tree.CONSTANT
            path = next(p for p, other in tree.leaves_with_path((self.args, self.named)) if other is x)
            return array_leaf(x, lambda: (path[2:], self.root(path)))

    def root(self, path):
        """The argument in which a leaf stands, for messages."""
        kind, which = path[:2]
        return f"argument {which if kind else call_names(self.fun, len(self.args))[which]}"

    def numbers(self):
        """Which leaves are numbers of Python's."""
        return [not isinstance(x, (_core.ArrayBase, _core.Size)) for x in self.found]

    def settled(self, fixed):
        """(arrays that a program is given, which of them are weak, structure): numbers that are fixed are
        part of the structure."""
        found = [x for x, f in zip(self.found, fixed) if not f]
        treedef = _with_constants(self.treedef, iter(zip(self.found, fixed))) if any(fixed) else self.treedef
        weak = [is_weak(x) for x in found]

        def where():
            path = tree.leaf_paths(treedef)[i]
            return path[2:], self.root(path)

        for i, x in enumerate(found):
            if weak[i] or not isinstance(x, _core.ArrayBase):
                found[i] = raw_leaf(x, where)
        return found, weak, treedef


def _with_constants(t, leaves):
    if t.kind is not None:
        return tree.TreeDef(t.kind, t.rest, tuple([_with_constants(c, leaves) for c in t.children]))
    x, fixed = next(leaves)
    return tree.TreeDef(tree.CONSTANT, x, ()) if fixed else t


# ---- tables ----


class Table(_core.Calls):
    """Programs for calls of functions of one code. private: all of them are one function's. tries: how many
    captures could not be kept. changes: for each kind of arguments the numbers that were part of the last
    program, and how often each has changed; None where it cannot be an argument."""

    def __init__(self, what, private=False):
        self.what, self.private, self.tries, self.changes, self.own = what, private, 0, {}, False
        _every.add(self)

    def __reduce__(self):
        return Table, (self.what, self.private)

    def __deepcopy__(self, memo):
        return Table(self.what, self.private)

    def forget(self):
        self.clear()
        self.tries, self.changes = 0, {}


_every = weakref.WeakSet()
_tables = {}  # (what, code) -> Table; what was wanted last is last
_OWN = "__hop_calls__"


class _Kept(dict):
    """Programs that only one function can use, kept with it; copies of the function begin without."""

    def __reduce__(self):
        return _Kept, ()

    def __deepcopy__(self, memo):
        return _Kept()


def table(what, fun):
    """Where programs of what is done to a function (or several) are kept. what: a hashable key."""
    code = _code_of(fun)
    try:
        key = (what, code)
        found = None if code is None else _tables.pop(key, None)
    except TypeError:
        code = None
    if code is None:
        return Table(what, True)
    if found is None:
        found = Table(what)
        if len(_tables) >= _MOST_TABLES:
            _tables.pop(next(iter(_tables)), None)
    _tables[key] = found
    return found


def _code_of(fun):
    if type(fun) is types.FunctionType:
        return fun.__code__ if not fun.__dict__ else codes(fun)
    if type(fun) is tuple:
        every = tuple([_code_of(f) for f in fun])
        return None if None in every else every
    if type(fun) is functools.partial:
        return _code_of(fun.func)
    if hasattr(fun, "__code__"):
        return codes(fun)
    call = static_of(type(fun), "__call__")
    return call.__code__ if type(call) is types.FunctionType else None


def _own_table(shared, fun, make=False):
    """Where programs are kept that hold on to something of the function's own; None: nowhere."""
    if type(fun) is not types.FunctionType:
        return None
    kept = fun.__dict__.setdefault(_OWN, _Kept()) if make else fun.__dict__.get(_OWN)
    if kept is None:
        return None
    if make and shared.what not in kept:
        kept[shared.what] = Table(shared.what, True)
        shared.own = True
    return kept.get(shared.what)


def clear_caches():
    """Forgets the programs that transforms and loops outside of jit have kept; a function made by jit has a
    clear_cache of its own.

    >>> hop.clear_caches()
    """
    for every in list(_every):
        every.forget()
    _tables.clear()


# ---- calls ----


class Given:
    """What a function is captured for. leaves, weak, in_tree, args, named: those of its call. more,
    more_weak, more_tree: the same of further operands. axes: of vmap, one for each leaf; axis_name: the name
    of those that are left out, None: they have none."""

    __slots__ = (
        "leaves", "weak", "in_tree", "args", "named", "more", "more_weak", "more_tree", "axes",
        "axis_name",
    )  # fmt: skip

    def __init__(self, arguments, fixed, axes=None, inner=False):
        """inner: the function is called with the first argument's entries, the second one is more."""
        leaves, weak, treedef = arguments.settled(fixed)
        self.args, self.named = arguments.args, arguments.named
        self.more, self.more_weak, self.more_tree = [], [], None
        if inner:
            first, self.more_tree = treedef.children[0].children
            self.args, n = tuple(self.args[0]), first.num_leaves
            treedef = tree.TreeDef(tuple, None, (first, treedef.children[1]))
            leaves, self.more = leaves[:n], leaves[n:]
            weak, self.more_weak = weak[:n], weak[n:]
        self.leaves, self.weak, self.in_tree = leaves, weak, treedef
        self.axis_name = None
        self.axes = None if axes is None else [a for a, f in zip(axes, fixed) if not f]

    def _types(self):
        if self.axes is None:
            return None
        name = () if self.axis_name is None else (self.axis_name,)
        return [x if a is None else (x, a, *name) for x, a in zip(self.leaves, self.axes)]

    def capture(self, fun, parts=None):
        return _reuse.captured(
            fun, self.args, self.named, self.leaves, self._types(), self.weak, self.in_tree, parts
        )


class Transform:
    """What is done to a function when it is called: a transform, or a loop of which it is the body.

    what: a hashable key. plan(arguments): which numbers are part of a program, and for vmap the axes of all
    leaves, else None. finish(t, given, leaves, more, hidden): the result, from the captured t and its
    operands. inner: as in Given. program(t, given), where that is not what finish gives: (executable,
    structure of its results, or a function of them and the operands). capture: what captures the function
    for what is given, if not Given does. parts(given): what runs the parts of a capture that may be cut, as
    capture takes it; None: it may not."""

    inner, program = False, None

    def parts(self, given):
        return None

    def table(self, fun):
        return table(self.what, fun)

    def capture(self, fun, given):
        with _effects.operator(self.what[0]), _modes.fresh():
            return given.capture(fun, None if _lanes.any_bound() else self.parts(given))


_kinds = {}  # (class, what) -> Transform


def one_of_its_kind(transform):
    """The transform that was first made of those that do the same: guards of functions that are made of
    others know it by its identity."""
    try:
        if len(_kinds) >= _MOST_TABLES:
            _kinds.clear()
        return _kinds.setdefault((type(transform), transform.what), transform)
    except TypeError:
        return transform


def run(transform, table, fun, args, named):
    """A call of a transform of fun."""
    found = kept(table, fun, args, named)
    return made(transform, table, fun, args, named) if found is NotImplemented else found


def kept(table, fun, args, named):
    """What a program that was kept gives, NotImplemented where there is none."""
    found = table.call(fun, args, named)
    if found is NotImplemented and table.own:
        own = _own_table(table, fun)
        return NotImplemented if own is None else own.call(fun, args, named)
    return found


def made(transform, table, fun, args, named):
    """A call for which no program is kept."""
    arguments = Arguments(fun, args, named)
    fixed, axes = transform.plan(arguments)
    if isinstance(fun, _core.JitBase) and not fun._static and not fun._static_names:
        fixed = [False] * len(fixed)  # numbers are arrays to it
    if _core.tracing() or _core.jit_disabled() or table.tries >= _MOST_TRIES:
        given = Given(arguments, fixed, axes, transform.inner)
        t = transform.capture(fun, given)
        return transform.finish(t, given, given.leaves, given.more, t.hidden)
    return _Attempt(transform, table, fun, arguments, axes).made(fixed)


class _Attempt:
    def __init__(self, transform, table, fun, arguments, axes):
        self.transform, self.table, self.fun = transform, table, fun
        self.arguments, self.axes = arguments, axes
        self.objects = [x for x in tree.constants(arguments.treedef) if type(x) not in (str, bytes)]

    def made(self, fixed):
        """The result; the program is kept if that can be."""
        wanted = self._without_changing(fixed)
        if wanted == fixed:
            return self._once(fixed, False)
        cuts = _core.cuts()
        try:
            return self._once(wanted, True)
        except Exception:  # it comes again below where it is not about these numbers
            if _core.cuts() != cuts:  # part of it has run
                raise
            counts = self.table.changes[self._kind()][1]
            counts[:] = [None if f != w else c for f, w, c in zip(fixed, wanted, counts)]
        return self._once(fixed, False)

    def _kind(self):
        return tuple(
            [(x.dtype, x.shape) if isinstance(x, _core.ArrayBase) else type(x) for x in self.arguments.found]
        )

    def _without_changing(self, fixed):
        """Which numbers are part of the program: not those that change from call to call."""
        if not any(fixed):
            return fixed
        changes, kind = self.table.changes, self._kind()
        numbers = [x if f else None for x, f in zip(self.arguments.found, fixed)]
        if len(changes) > _MOST_KINDS and kind not in changes:
            changes.clear()
        last, counts = changes.get(kind) or (numbers, [0] * len(numbers))
        for i, (x, y) in enumerate(zip(last, numbers)):
            if value_key(x) != value_key(y) and type(y) is not bool and counts[i] is not None:
                counts[i] += 1
        changes[kind] = numbers, counts
        return [f and (c is None or c < _MOST_CHANGES) for f, c in zip(fixed, counts)]

    def _once(self, fixed, changing):
        """changing: numbers are arguments that could be part of the program."""
        given = Given(self.arguments, fixed, self.axes, self.transform.inner)
        watch, reads = Watch(self.fun, objects=self.objects), []
        watch.also(tree.functions((self.arguments.args, self.arguments.named)))
        lasting = not watch.unwatched and not _does_more(watch)
        if changing and (not lasting or watch.names & TELLING):
            raise _Needed
        before = _core.note_reads(reads)
        try:
            t = self.transform.capture(self.fun, given)
        finally:
            _core.note_reads(before)
        root = (self.fun, *self.objects) if self.objects else self.fun
        lasting &= not reads and not t.cut
        guards = _reuse.lasting_guards(watch, t, root) if lasting else None
        if changing and guards is None and not t.cut:
            raise _Needed
        operands = [*given.leaves, *given.more, *t.hidden]
        program = self._program(t, given, operands) if guards is not None else None
        if program is None:
            self.table.tries += not self.table.count()
            return self.transform.finish(t, given, given.leaves, given.more, t.hidden)
        self._keep(program, guards, watch.shared_by_code and not t.function.callbacks, fixed)
        exe, unflatten = program
        out = exe.run(operands)
        return unflatten(out, operands) if callable(unflatten) else tree.unflatten(unflatten, out)

    def _program(self, t, given, operands):
        """(executable, structure of its results or a function of them and the operands); None: it cannot be
        kept."""
        if self.transform.program is not None:
            return self.transform.program(t, given)
        n, m = len(given.leaves), len(given.more)

        def whole(*values):
            return self.transform.finish(t, given, values[:n], values[n : n + m], values[n + m :])

        return program_of(capture(whole, tuple(operands), {}, operands, None, [False] * len(operands)))

    def _keep(self, program, guards, shared, fixed):
        place = self.table if shared or self.table.private else _own_table(self.table, self.fun, True)
        numbers = tuple([x if f else ... for x, f in zip(self.arguments.found, fixed)])
        done = place is not None and keep(
            place, self.arguments.args, self.arguments.named, program, guards, numbers, self.objects
        )
        self.table.tries += not done


class _Needed(Exception):
    """Numbers that were to be arguments have to be known."""


def program_of(t):
    """What is run for a captured function, and the structure of its results; None where it holds something
    that is no part of a program."""
    if t.hidden or t.constraints or not all(isinstance(x, _reuse.SIMPLE) for x in tree.constants(t.out_tree)):
        return None
    return compiled(t), t.out_tree


def compiled(t):
    return t.function.compile(**({"weak": bytes(t.weak_out)} if any(t.weak_out) else {}))


def keep(table, args, named, program, guards, numbers, objects):
    """Whether such calls run the program from now on."""
    exe, unflatten = program
    if not callable(unflatten):
        unflatten = None if unflatten.kind is None else tree.plan(unflatten) or None
    return table.keep(args, named, exe, guards, unflatten, numbers, objects)


class Loop(Transform):
    """A loop outside of programs. record(*args) records it; fixed: how many of its arguments are numbers
    that may be part of the program."""

    def __init__(self, what, record, fixed=0):
        self.what, self.record, self.fixed = what, record, fixed

    def plan(self, arguments):
        n = sum([part.num_leaves for part in arguments.treedef.children[0].children[: self.fixed]])
        return [i < n and x for i, x in enumerate(arguments.numbers())], None

    def capture(self, fun, given):
        def whole(*args):
            return self.record(*args)

        _effects.unwatched(whole)
        whole.__wrapped__ = fun[0] if type(fun) is tuple else fun
        whole._argument_names = [f"x{i}" for i in range(len(given.args))]
        return capture(whole, given.args, {}, given.leaves, None, given.weak, in_tree=given.in_tree)

    def finish(self, t, given, leaves, more, hidden):
        return tree.unflatten(t.out_tree, compiled(t).run([*leaves, *hidden]))

    def program(self, t, given):
        if t.constraints or not all(isinstance(x, _reuse.SIMPLE) for x in tree.constants(t.out_tree)):
            return None
        return compiled(t), t.out_tree


def loop(what, fun, args, record, fixed=0):
    """record(*args), a loop whose functions are fun: outside of programs in one that is kept. what: its name
    and options; fixed: how many of the arguments are numbers that may be part of the program."""
    if _core.tracing() or _core.jit_disabled():
        return record(*args)
    found = table(what, fun)
    out = kept(found, fun, args, {})
    if out is not NotImplemented:
        return out
    if found.tries >= _MOST_TRIES:
        return record(*args)
    try:
        return made(Loop(what, record, fixed), found, fun, args, {})
    except WriteError:  # it updates arrays from outside, which are written after the run
        found.tries = _MOST_TRIES
        return record(*args)


# ---- what a function does besides ----

# Modules whose functions give what their arguments say and do nothing else.
_PURE = frozenset(
    ("hop", "numpy", "builtins", "math", "cmath", "operator", "functools", "itertools", "collections",
     "typing", "types", "dataclasses", "enum", "abc", "numbers", "fractions", "decimal", "string", "re",
     "copy", "statistics", "bisect", "heapq", "colorsys", "struct", "array", "keyword", "__future__")
)  # fmt: skip
_IMPURE = {
    "builtins": frozenset(
        ("print", "open", "input", "breakpoint", "exec", "eval", "compile", "globals", "locals", "vars",
         "setattr", "delattr", "id", "__import__")
    ),
    "numpy": frozenset(
        ("random", "save", "savez", "savez_compressed", "savetxt", "load", "loadtxt", "genfromtxt",
         "fromfile", "memmap", "seterr", "errstate", "set_printoptions")
    ),
    "hop": frozenset(("save", "load")),
}  # fmt: skip


def _is_pure(module, name):
    top, _, inside = str(module).partition(".")
    if top not in _PURE:
        return False
    impure = _IMPURE.get(top, ())
    return name not in impure and inside.partition(".")[0] not in impure


def _does_more(watch):
    """Whether a function may do something besides giving a result, or take it from somewhere that guards do
    not know: writing what others see, files, clocks, generators of random numbers."""
    if watch.added or not all(_is_pure(*used) for used in watch.foreign):
        return True
    inner = {c for code in watch.codes for c in code.co_consts if isinstance(c, types.CodeType)}
    if any(writes(code) for code in watch.codes if code not in inner):
        return True
    return not all(_uses_well(p) for p in watch.places)


def _uses_well(p):
    x = p.value
    if x is MISSING:
        return not (isinstance(p.name, str) and hasattr(builtins, p.name)) or _is_pure("builtins", p.name)
    if isinstance(x, types.BuiltinFunctionType):
        owner = x.__self__
        if not (owner is None or isinstance(owner, (type, types.ModuleType))):
            return False
        return _is_pure(x.__module__ or "builtins", x.__name__)
    if isinstance(x, (types.FunctionType, type, _core.Entry)) and is_foreign(x.__module__):
        return _is_pure(x.__module__, x.__name__)
    if isinstance(x, types.ModuleType) and is_foreign(x.__name__):
        return _is_pure(x.__name__, None)
    return True
