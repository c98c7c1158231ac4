"""Effects of the host. The Python code of a body runs while a program is captured: what it changes outside of
itself would change then, once or several times, whatever the program does when it runs. So everything that
the body can reach (as _guards.py finds it, without running code of the user's) is noted before and compared
after, and a difference is an error that names what changed and the line that changes it.

Two things may change. A body may fill what it also reads, as caches do, if capturing it again changes nothing
more. A function under jit may write down plain values that it does not read, once for each capture."""

import collections
import dis
import enum
import functools
import gc
import importlib
import io
import sys
import threading
import types
import warnings

from . import _arguments, _core
from ._arguments import place
from ._bytecode import NAMESPACES
from ._errors import InvalidError
from ._objects import (
    FUNCTIONS, MISSING, SIMPLE, Ruled, is_buffer, is_foreign, is_key, namespace, nbytes, slots, static_of,
)  # fmt: skip

_MOST_ITEMS, _MOST_BYTES, _MOST_LINES = 100_000, 1 << 16, 3

_PLAIN = frozenset((types.NoneType, bool, *SIMPLE))
_HARMLESS = {*_PLAIN, range, slice, types.EllipsisType}  # and arrays
_SUBSCRIPT = ("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE")


# ---- what is inside of things ----


class _Kind:
    """How things of a kind are noted: content(x), and what a change of a key is called. key: None where a
    content has no keys, else text and key as a text."""

    def __init__(self, content, verb="changes what is inside of", key=None, opaque=False):
        self.content, self.verb, self.key, self.opaque = content, verb, key, opaque


class _Identity:
    """A key or an element by what it is: comparing it, or hashing it, may run code of the user's."""

    __slots__ = ("x",)

    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return type(other) is _Identity and self.x is other.x

    def __hash__(self):
        return id(self.x)


def _comparable(keys):
    return keys if _PLAIN.issuperset(map(type, keys)) else [
        k if type(k) in _PLAIN else _Identity(k) for k in keys
    ]  # fmt: skip


def _dict_items(x):
    cls = collections.OrderedDict if isinstance(x, collections.OrderedDict) else dict
    return dict(zip(_comparable(list(cls.keys(x))), cls.values(x))) if len(x) <= _MOST_ITEMS else len(x)


def _row(x):
    return list(x) if len(x) <= _MOST_ITEMS else len(x)


def _elements(x):
    return dict.fromkeys(_comparable(list(set.__iter__(x))), True) if len(x) <= _MOST_ITEMS else len(x)


def _attributes(x):
    out = dict(namespace(x) or {})
    for name in slots(type(x)):
        try:
            out[name] = object.__getattribute__(x, name)
        except AttributeError:
            pass
    return out


def _of_class(x):
    return {k: v for k, v in type.__dict__["__dict__"].__get__(x).items() if k[:2] != "__"}


def _of_function(x):
    return {k: v for k, v in x.__dict__.items() if k[:2] != "__"}


def _bytes(x):
    return x.tobytes() if hasattr(x, "tobytes") else bytes(x)


def _of_iterator(x):
    """What tells how far an iterator is, without advancing it."""
    found, todo, seen = [], [x], set()
    while todo and len(seen) < 64:
        it = todo.pop()
        if id(it) in seen:
            continue
        seen.add(id(it))
        if isinstance(it, types.GeneratorType):
            frame = it.gi_frame
            found.append(None if frame is None else (frame.f_lasti, _known(frame.f_locals.values())))
            todo += _iterators_in(it)
            continue
        if hasattr(type(it), "__length_hint__"):
            found.append(it.__length_hint__())
        elif type(it).__module__ == "itertools" and hasattr(it, "__reduce__") and sys.version_info < (3, 14):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found.append(_reduced(it.__reduce__()[1:]))
        elif type(it) is enumerate:
            found.append(_reduced(it.__reduce__()[1][1:]))
        todo += _iterators_in(it)
    return found


def _iterators_in(it):
    """Those that an iterator goes on with."""
    found = gc.get_referents(it)
    found += [y for x in found if type(x) is tuple for y in x]
    return [x for x in found if _is_iterator(x)]


def _known(values):
    """Values as what can be compared without running code of the user's."""
    return tuple(
        _known(v) if type(v) is tuple else v if type(v) in _PLAIN else (type(v).__name__, id(v))
        for v in values
    )


def _reduced(values):
    """What an iterator says of itself, in which there may be others made for that."""
    out = []
    for v in values:
        hint = hasattr(type(v), "__length_hint__")
        plain = v if type(v) in _PLAIN else type(v).__name__
        out.append(_reduced(v) if type(v) is tuple else v.__length_hint__() if hint else plain)
    return out


def _is_iterator(x):
    return isinstance(x, types.GeneratorType) or (
        type(x).__module__ in ("builtins", "itertools") and hasattr(type(x), "__next__")
    )


def _state(x):
    """The state of a random generator."""
    cls = _random_class(x)
    if cls.__module__ == "random":
        return cls.getstate(x)
    if hasattr(x, "get_state"):  # numpy.random.RandomState
        return _plainly(x.get_state(legacy=False))
    return _plainly((x.bit_generator if hasattr(x, "bit_generator") else x).state)


def _plainly(state):
    if isinstance(state, dict):
        return {k: _plainly(v) for k, v in state.items()}
    return state.tobytes() if hasattr(state, "tobytes") else state


def _is_random(x):
    """Whether x is a generator of random numbers of the standard library or of NumPy."""
    return _random_class(x) is not None


def _random_class(x):
    for cls in type.__dict__["__mro__"].__get__(type(x)):
        module = str(cls.__module__)
        if module == "random" and cls.__name__ == "Random":
            return cls
        if module.startswith("numpy.random") and cls.__name__ in ("Generator", "RandomState", "BitGenerator"):
            return cls
        if module == "random":  # SystemRandom has no state
            return None
    return None



def _item_text(text, key):
    key = key.x if type(key) is _Identity else key
    return f"{text}[{key!r}]" if is_key(key) else text


# Methods of C's.
_BOUND = (types.BuiltinFunctionType, types.MethodWrapperType)

_DICT = _Kind(_dict_items, "changes", lambda text, k: _item_text(text, k))
_ROW, _SET = _Kind(_row), _Kind(_elements)
_OBJECT, _CLASS, _FUNCTION = (
    _Kind(content, "changes", lambda text, k: f"{text}.{k}")
    for content in (_attributes, _of_class, _of_function)
)
_BUFFER = _Kind(_bytes, opaque=True)
_STREAM = _Kind(lambda x: x.closed or (x.tell(), x.getvalue()), "writes to or reads from", opaque=True)
_ITERATOR = _Kind(_of_iterator, "advances the iterator", opaque=True)
_RANDOM = _Kind(_state, "draws from the random generator", opaque=True)
_NAME = _Kind(None, "changes", lambda text, k: text)
_GLOBALS = _Kind(_dict_items, "changes", lambda text, k: str(k))


def _kind_of(x):
    """The kinds as which x is noted: an object of a class of the user's may be a list, too."""
    cls = type(x)
    if cls in _PLAIN or isinstance(x, (_core.ArrayBase, types.ModuleType)):
        return ()
    if isinstance(x, type):
        return () if is_foreign(cls.__module__) and is_foreign(x.__module__) else (_CLASS,)
    if cls is types.FunctionType:
        return () if is_foreign(x.__module__) else (_FUNCTION,)
    if is_buffer(x) or cls is memoryview:
        return (_BUFFER,) if nbytes(x) <= _MOST_BYTES else ()
    if cls in (io.StringIO, io.BytesIO):
        return (_STREAM,)
    out = []
    if isinstance(x, dict):
        out.append(_DICT)
    elif isinstance(x, (list, collections.deque)):
        out.append(_ROW)
    elif isinstance(x, set):
        out.append(_SET)
    elif _is_iterator(x):
        return (_ITERATOR,)
    elif _is_random(x):
        return (_RANDOM,)
    if not is_foreign(cls.__module__) or cls is types.SimpleNamespace:
        out.append(_OBJECT)
    return out


# Containers of the standard library by the attribute that holds what is inside of them.
_HOLDERS = {
    "UserList": "data", "UserDict": "data", "ChainMap": "maps", "Queue": "queue", "LifoQueue": "queue",
    "PriorityQueue": "queue", "WeakKeyDictionary": "data", "WeakValueDictionary": "data", "WeakSet": "data",
}  # fmt: skip


def _held(x):
    """The containers that one of the standard library is made of."""
    for cls in type.__dict__["__mro__"].__get__(type(x)):
        if cls.__name__ in _HOLDERS and cls.__module__ in ("collections", "queue", "weakref", "_weakrefset"):
            held = (namespace(x) or {}).get(_HOLDERS[cls.__name__], ())
            return [held, *(held if type(held) is list and cls.__name__ == "ChainMap" else ())]
    return ()


# ---- notes of what a body can reach ----


class _Note:
    """A thing that a body can reach, and what was inside of it."""

    __slots__ = ("text", "thing", "kind", "before", "read")

    def __init__(self, text, thing, kind, read=None):
        self.text, self.thing, self.kind = text, thing, kind
        self.read = read or kind.content
        self.before = self.read(thing)


class _Change:
    """What is different. key: of an entry, MISSING where it has none; now: what is there now."""

    __slots__ = ("note", "key", "before", "now")

    def __init__(self, note, key, before, now):
        self.note, self.key, self.before, self.now = note, key, before, now

    @property
    def text(self):
        text, of_key = self.note.text, self.note.kind.key
        return text if self.key is MISSING or of_key is None else of_key(text, self.key)

    @property
    def is_filling(self):
        """Whether something is there that was not before."""
        if self.note.kind is _SET:
            return self.before is MISSING
        if isinstance(self.note.thing, collections.defaultdict):
            return False
        absent = self.before is MISSING or self.before is None
        return self.key is not MISSING and absent and self.now is not MISSING


def _same(a, b):
    if a is b:
        return True
    return type(a) is type(b) and type(a) in _PLAIN and (a == b or a != a and b != b)


def _changes(note):
    """What is different in a thing."""
    return _differ(note, note.before, note.read(note.thing))


def _differ(note, before, now):
    if note.kind.opaque or type(before) is int or type(now) is int:
        return [] if before == now else [_Change(note, MISSING, before, now)]
    if note.kind is _DICT and list(before) != list(now) and before.keys() == now.keys():
        return [_Change(note, MISSING, before, now)]  # of the order alone
    if list(before) == list(now) if isinstance(before, dict) else len(before) == len(now):
        if _ids(before) == _ids(now):
            return []
    if isinstance(before, dict):
        keys = [*before, *[k for k in now if k not in before]]
        pairs = [(k, before.get(k, MISSING), now.get(k, MISSING)) for k in keys]
    else:
        longest = range(max(len(before), len(now)))
        pairs = [(i, *[r[i] if i < len(r) else MISSING for r in (before, now)]) for i in longest]
    return [_Change(note, *pair) for pair in pairs if not _same(*pair[1:])]


def _ids(content):
    return list(map(id, content.values() if isinstance(content, dict) else content))


class Notes:
    """What a function can reach, as it is now. given: arguments by name that are no arrays; own: names of
    variables that it may set."""

    def __init__(self, fun, given=None, own=()):
        self.fun, self.list, self.codes, self.quiet = fun, [], [], ()
        given = {text: x for text, x in given.items() if type(x) not in _HARMLESS} if given else {}
        if not _is_own(fun) and (given or not self._is_harmless(own)):
            self._look(given, own)

    def _is_harmless(self, own):
        """Whether there is nothing to note, as a quick look tells."""
        code = getattr(self.fun, "__code__", None)
        if any(code in outer.quiet for outer in _active.notes):
            return True
        look = _Quick(self.fun, own)
        harmless = look.is_harmless()
        if harmless and not look.changes:
            self.quiet = look.codes  # and so are functions that it makes, or calls
        return harmless

    def _look(self, given, own):
        from ._guards import Watch  # which is made of what _arguments gives

        watch = Watch(self.fun)
        watch.also(given)
        _follow(watch)
        self.codes, seen = watch.codes, set()
        for p in watch.places:
            if p.is_cell and is_foreign(p.parent.parent.parent.value.__module__):
                continue  # a variable of the package's or of the standard library's
            if p.is_cell and _plain_text(p.text) not in own:
                self.list.append(_Note(_plain_text(p.text), p.parent.value, _NAME, _in_cell))
            if type(p.value) is types.ModuleType and p.is_cell:
                for code in watch.codes:
                    self._module(p.value, _outline(code), seen)
            elif p.value is not MISSING and not p.is_namespace:
                self._add(_plain_text(p.text), p.value, seen)
        for name, x in watch.written:
            self._add(name, x, seen)
        for code, space in zip(watch.codes, watch.spaces):
            self._globals(code, space, seen, own)

    def _add(self, text, x, seen):
        if type(x) is types.MethodType and is_foreign(type(x.__self__).__module__):
            x = x.__self__
        elif isinstance(x, _BOUND) and not isinstance(x.__self__, types.ModuleType):
            text, x = f"the {type(x.__self__).__name__} of {text}", x.__self__
        if x is None or x is MISSING or id(x) in seen:
            return
        seen.add(id(x))
        for kind in _kind_of(x):
            self.list.append(_Note(text, x, kind))
        cls = type(x)
        for inside in _held(x):
            self._add(text, inside, seen)
        if not is_foreign(cls.__module__) and not isinstance(x, type):
            self._add(cls.__name__, cls, seen)

    def _globals(self, code, space, seen, own):
        stores = _outline(code)
        for name in stores.globals.difference(own):
            self.list.append(_Note(name, space, _NAME, functools.partial(_in_dict, name)))
        for module in _modules(stores, space):
            self._module(module, stores, seen)
        if stores.names & NAMESPACES and id(space) not in seen:
            seen.add(id(space))
            self.list.append(_Note("globals()", space, _GLOBALS))

    def _module(self, module, stores, seen):
        """A module that code names: the generator that its functions draw from, attributes that are set."""
        name = module.__dict__.get("__name__")
        if name == "random":
            self._add("random", module._inst, seen)
        elif name in ("numpy", "numpy.random") and _draws(module, stores):
            self._add("numpy.random", importlib.import_module("numpy.random").mtrand._rand, seen)
        if is_foreign(name):
            return
        for attribute in stores.attributes:
            read = functools.partial(_in_dict, attribute)
            self.list.append(_Note(f"{name}.{attribute}", module.__dict__, _NAME, read))

    def changes(self):
        return [change for note in self.list for change in _changes(note)]

    def renew(self, things):
        """What these things have inside now is as it should be."""
        for note in self.list:
            if id(note.thing) in things:
                note.before = note.read(note.thing)


def _follow(watch):
    """Watches functions, too, that code may come to in other ways than by their names."""
    known, names, n = set(), set(), 0
    while True:
        codes, n = watch.codes[n:], len(watch.codes)
        for code in codes:
            names.update(code.co_names, [c for c in code.co_consts if type(c) is str and c.isidentifier()])
        for p in watch.places:
            if type(p.value).__module__ == "operator" and type(p.value).__name__ == "methodcaller":
                names.add(p.value.__reduce__()[1][0])
        found = {id(f): (text, f) for text, f in _hidden(watch.places, names)}
        if "globals" in names:
            spaces = {id(s): s for s in watch.spaces}.values()
            found.update({id(s[n]): (n, s[n]) for s in spaces for n in names if type(s.get(n)) in FUNCTIONS})
        fresh = {text: f for i, (text, f) in found.items() if i not in known}
        if not fresh:
            return
        known.update(map(id, fresh.values()))
        watch.also(fresh)


def _hidden(places, names):
    """(text, function) of those behind values that their own code or Python itself calls."""
    out, classes = [], {}
    for p in places:
        x = p.value
        if type(x) is functools._lru_cache_wrapper:
            out.append((p.text, x.__wrapped__))
        elif type(x) in (set, frozenset):
            out += [(f"{p.text}, {y.__qualname__}", y) for y in x if type(y) in FUNCTIONS]
        elif not is_foreign(type(x).__module__) or isinstance(x, enum.Enum):
            cls = x if isinstance(x, type) else type(x)
            classes[id(cls)] = cls
    for cls in [*classes.values(), *map(type, classes.values())]:
        for base in type.__dict__["__mro__"].__get__(cls):
            out += _called_in(base, names) if not is_foreign(base.__module__) else []
    return [(text, f) for text, f in out if type(f) in FUNCTIONS]


def _called_in(cls, names):
    """Functions of a class, and of descriptors in it, whose names code has."""
    for name, x in cls.__dict__.items():
        if name not in names:
            continue
        text = f"{cls.__name__}.{name}"
        yield text, x.fget if type(x) is property else x.__func__ if type(x) in _WRAPPED else x
        get = static_of(type(x), "__get__")
        if not is_foreign(type(x).__module__) and get is not MISSING:
            yield f"{text}.__get__", get


_WRAPPED = (staticmethod, classmethod)


def _modules(outline, space):
    """Those that code names."""
    found = [space[n] for n in outline.names if type(space.get(n)) is types.ModuleType]
    return [*found, *filter(None, [sys.modules.get(n) for n in outline.imports])]


def _draws(module, outline):
    """Whether a module that code names may draw random numbers for it."""
    name = module.__dict__.get("__name__")
    return name in ("random", "numpy.random") or name == "numpy" and "random" in outline.names


def _in_cell(cell):
    try:
        return {None: cell.cell_contents}
    except ValueError:
        return {None: MISSING}


def _in_dict(name, space):
    return {name: space.get(name, MISSING)}


def _plain_text(text):
    """The text of a place as it stands in the program."""
    for word in ("global ", "closure ", "default ", "module "):
        text = text.removeprefix(word)
    return "self" + text[len("the function") :] if text.startswith("the function") else text


# ---- code ----


class _Outline:
    """What code has: names; globals, attributes and variables from outside that it stores; modules that it
    imports; whether it has anything else that may change what exists; itself and the code in it."""

    __slots__ = ("names", "globals", "attributes", "cells", "imports", "changes", "codes")


@functools.lru_cache(maxsize=4096)
def _outline(code):
    """Of a code object and those of functions made in it."""
    out = _Outline()
    out.names, out.globals, out.attributes, out.imports = {*code.co_names}, set(), set(), set()
    out.cells, out.changes, out.codes = set(), bool(out.names & _CHANGING), {code}
    for i in dis.get_instructions(code):
        if i.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            out.globals.add(i.argval)
        elif i.opname in _SUBSCRIPT or i.opname == "BINARY_OP" and _is_in_place(i):
            out.changes = True
        elif i.opname in ("STORE_ATTR", "DELETE_ATTR"):
            out.attributes.add(i.argval)
        elif i.opname == "IMPORT_NAME":
            out.imports.add(i.argval)
        elif i.opname in ("STORE_DEREF", "DELETE_DEREF") and i.argval in code.co_freevars:
            out.cells.add(i.argval)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            more = _outline(inner)
            out.names |= more.names
            out.globals |= more.globals
            out.attributes |= more.attributes
            out.imports |= more.imports
            out.cells |= more.cells & {*code.co_freevars}
            out.changes |= more.changes
            out.codes |= more.codes
    return out


_CHANGING = frozenset(
    ("append", "appendleft", "extend", "extendleft", "insert", "add", "update", "clear", "discard", "remove",
     "pop", "popleft", "popitem", "setdefault", "sort", "reverse", "rotate", "fill", "put", "resize",
     "difference_update", "intersection_update", "symmetric_difference_update", "move_to_end",
     "__setitem__", "__delitem__", "__setattr__", "__iadd__", "subtract", "itemset", "frombytes")
)  # fmt: skip
# Builtins that change what they are given, or give what can be changed.
_DOUBTFUL = NAMESPACES | {"setattr", "delattr", "getattr", "next", "vars", "__dict__", "__import__"}


class _Quick:
    """A first look, at code and at values by their types alone: whether a function cannot have an effect,
    because nothing that it reaches can change, or no code that it reaches changes anything."""

    def __init__(self, fun, own=()):
        """own: names of variables that it may set."""
        self._todo, self._seen, self._left, self._own = [fun], set(), _MOST_VALUES, own
        self._names, self._classes, self.codes = set(), {}, set()
        self.changes = self._can_change = False

    def is_harmless(self):
        try:
            self._walk()
            while self._methods():
                self._walk()
        except _Doubtful:
            return False
        return not (self.changes and self._can_change)

    def _walk(self):
        todo, seen = self._todo, self._seen
        while todo:
            x = todo.pop()
            cls = type(x)
            if cls in _HARMLESS or id(x) in seen:
                continue
            seen.add(id(x))
            if cls is list or cls is dict:
                self._can_change = True
                self._values(x if cls is list else x.values())
            else:
                self._value(x, cls)

    def _value(self, x, cls):
        if cls is types.FunctionType:
            self._function(x)
        elif isinstance(x, (_core.ArrayBase, _core.Size)):
            if str(cls.__module__).partition(".")[0] == "hop":
                _HARMLESS.add(cls)
        elif isinstance(x, (dict, list, tuple, set, frozenset, collections.deque)):
            if isinstance(x, collections.defaultdict):  # reading it changes it
                raise _Doubtful
            self._can_change |= not isinstance(x, (tuple, frozenset))
            self._values(x.values() if isinstance(x, dict) else x)
            if not is_foreign(cls.__module__):
                self._object(x, cls)
        elif isinstance(x, types.ModuleType):
            if not is_foreign(x.__dict__.get("__name__")):
                raise _Doubtful
        elif isinstance(x, type):
            if not is_foreign(x.__module__):
                raise _Doubtful
        elif cls is types.MethodType:
            self._todo += [x.__func__, x.__self__]
        elif isinstance(x, _core.JitBase):
            self._todo.append(x.__dict__["_fun"])
        elif isinstance(x, _core.Entry):
            self._todo.append(x.__wrapped__)
        elif isinstance(x, Ruled):
            self._todo += [x._fun, *x._rules.values()]
        elif cls is types.BuiltinFunctionType:
            if type(x.__self__) is not types.ModuleType or x.__module__ not in _SAFE:
                raise _Doubtful
        elif is_buffer(x):
            self._can_change = True
        elif str(cls.__module__).partition(".")[0] == "hop":
            pass
        elif is_foreign(cls.__module__):
            raise _Doubtful
        else:
            self._object(x, cls)

    def _values(self, many):
        self._left -= len(many)
        if self._left < 0:
            raise _Doubtful
        if not _HARMLESS.issuperset(map(type, many)):
            self._todo += [y for y in many if type(y) not in _HARMLESS]

    def _object(self, x, cls):
        self._can_change = True
        self._values(_attributes(x).values())
        self._classes[id(cls)] = cls

    def _function(self, fun):
        if is_foreign(fun.__globals__.get("__name__")):
            if str(fun.__globals__["__name__"]).partition(".")[0] != "hop":
                raise _Doubtful
        else:
            outline, space = _outline(fun.__code__), fun.__globals__
            stored = outline.attributes or (outline.globals | outline.cells).difference(self._own)
            if stored or outline.imports or outline.names & _DOUBTFUL:
                raise _Doubtful
            self.changes |= outline.changes
            self.codes |= outline.codes
            self._names |= outline.names
            for name in outline.names:
                x = space.get(name)
                if type(x) is types.ModuleType:
                    self._module(x, outline)
                else:
                    self._todo.append(x)
        self._todo += [_in_cell(cell)[None] for cell in fun.__closure__ or ()]
        self._todo += fun.__defaults__ or ()
        self._values((fun.__kwdefaults__ or {}).values())

    def _module(self, module, outline):
        name = str(module.__dict__.get("__name__"))
        if is_foreign(name):
            first = name.partition(".")[0]
            if first != "numpy" and first not in _SAFE or _draws(module, outline):
                raise _Doubtful
            self.changes |= first == "numpy"
            return
        self._values([module.__dict__[n] for n in outline.names if n in module.__dict__])

    def _methods(self):
        """Methods whose names code has, and those that Python itself calls, are to be looked at."""
        before = len(self._todo)
        for cls in self._classes.values():
            for base in type.__dict__["__mro__"].__get__(cls):
                if is_foreign(base.__module__):
                    continue
                for name, x in base.__dict__.items():
                    called = name[:2] == "__" and name not in ("__init__", "__new__")
                    x = x.fget if type(x) is property else x
                    x = x.__func__ if type(x) in _WRAPPED else x
                    if id(x) in self._seen or type(x) in _HARMLESS:
                        continue
                    if name in self._names or called and type(x) is types.FunctionType:
                        self._todo.append(x)
        return len(self._todo) > before


class _Doubtful(Exception):
    pass


_MOST_VALUES = 20_000
# Modules whose functions change nothing that they are given.
_SAFE = frozenset(
    ("hop", "math", "cmath", "builtins", "functools", "itertools", "typing", "dataclasses", "enum")
)  # fmt: skip


@functools.lru_cache(maxsize=1024)
def _sites(code):
    """(kind, name, name of what it is a part of or None, line) of what code loads and stores."""
    given, out, line = list(dis.get_instructions(code)), [], code.co_firstlineno
    for i, x in enumerate(given):
        line = x.positions.lineno if x.positions and x.positions.lineno else line
        op = x.opname
        if op in ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF", "DELETE_DEREF", "STORE_NAME"):
            out.append(("name", x.argval, None, line))
        elif op in ("STORE_ATTR", "DELETE_ATTR"):
            out.append(("attribute", x.argval, _base(given, i - 1), line))
        elif op in _SUBSCRIPT:
            constant = _is_constant(given[i - 1])
            out.append(("item", given[i - 1].argval if constant else MISSING, _base(given, i - 2), line))
        elif op == "CONTAINS_OP":
            out.append(("lookup", None, _base(given, i - 1), line))
        elif op == "BINARY_SUBSCR" or op == "BINARY_OP" and x.argrepr == "[]":
            out.append(("lookup", None, _base(given, i - 2), line))
        elif op in ("LOAD_ATTR", "LOAD_METHOD"):
            kind = "method" if x.argval in _CHANGING else "load"
            out.append((kind, x.argval, _base(given, i - 1), line))
        elif op == "BINARY_OP" and _is_in_place(x):
            out.append(("in place", None, None, line))
        elif op.startswith("LOAD_") and isinstance(x.argval, (str, tuple)) and "CONST" not in op:
            out += [("load", n, None, line) for n in ((x.argval,) if type(x.argval) is str else x.argval)]
    return out


def _is_constant(instruction):
    return instruction.opname in ("LOAD_CONST", "LOAD_SMALL_INT")


def _is_in_place(instruction):
    return instruction.argrepr.endswith("=")


def _base(given, i):
    """The last part of the chain that ends at an instruction: a name, an attribute, the text of an item."""
    if i < 0:
        return None
    x = given[i]
    if x.opname == "BINARY_SUBSCR" or x.opname == "BINARY_OP" and x.argrepr == "[]":
        return repr(given[i - 1].argval) if _is_constant(given[i - 1]) else None
    named = x.opname.startswith("LOAD_") and "CONST" not in x.opname
    return (x.argval[-1] if isinstance(x.argval, tuple) else x.argval) if named else None


def _last(text):
    """The last part of a text of a place: log of self.log, 'a' of config['a']."""
    if text.endswith("]"):
        return text[text.rindex("[") + 1 : -1]
    return text.rpartition(" ")[2].rpartition(".")[2]


def _rank(change, site):
    """How well a place in the code explains a change; 0: not at all."""
    kind, name, base, _ = site
    note, style = change.note, change.note.kind
    last = _last(note.text)
    if style is _NAME:
        wanted = _last(change.text)
        return 9 if kind in ("name", "attribute") and name == wanted else 0
    if style in (_OBJECT, _CLASS, _FUNCTION):
        if kind == "attribute" and name == change.key:
            return 9 if base in (None, last, "self") else 8
        return 5 if kind == "load" and name in ("setattr", "delattr", "__dict__", "vars") else 0
    if style in (_RANDOM, _ITERATOR):
        return 9 if kind == "load" and base == last else 8 if kind == "load" and name == last else 0
    if style is _GLOBALS:
        return 9 if kind == "item" and _same(name, change.key) else 5 if name in NAMESPACES else 0
    exact = base == last
    if kind == "item":
        return (9 if exact else 4) + (_same(name, change.key) if style is _DICT else 0)
    if kind == "method":
        return 8 if exact else 3
    if kind == "in place":
        return 2
    return 1 if kind == "load" and name == last else 0


def _line(change, codes):
    """file:line where code makes a change, "" when that is not known."""
    found = [(_rank(change, site), site[3], code) for code in codes for site in _sites(code)]
    best = max([rank for rank, _, _ in found], default=0)
    found = [f for f in found if f[0] == best]
    found = [f for f in found if f[2].co_name != "__init__"] or found
    lines = {(code.co_filename, line): None for _, line, code in found}
    if not best or len(lines) > 1 and best < 5:
        return ""
    return " or ".join(f"{file}:{line}" for file, line in [*lines][:_MOST_LINES])


def _is_read(change, codes):
    """Whether code looks up what it fills, as caches do."""
    found = [_reads_and_writes(change, _sites(code)) for code in codes]
    if not any(writes for _, writes in found):  # by code that is not looked at
        return any(reads for reads, _ in found)
    return any(reads > 0 and writes for reads, writes in found)


def _reads_and_writes(change, sites):
    """How often code looks up, and writes, what is changed."""
    style, last, reads, writes = change.note.kind, _last(change.note.text), 0, 0
    for kind, name, base, _ in sites:
        if style in (_OBJECT, _CLASS, _FUNCTION):
            writes += kind == "attribute" and name == change.key
            reads += kind == "load" and name in (change.key, "hasattr", "getattr")
        elif style is _NAME:
            writes += kind in ("name", "attribute") and name == last
            reads += kind == "load" and name == last
        elif style in (_DICT, _SET):
            writes += kind in ("item", "method") and base == last
            reads += base == last and (kind == "lookup" or name in ("get", "setdefault"))
        else:
            writes += kind in ("item", "method", "in place") and base == last
            reads += (kind == "load" and name == last) - (kind in ("item", "method") and base == last)
    return reads, writes


# ---- checks ----


class Filled(Exception):
    """A body has filled something that it reads: it is captured again, and must not change it again."""


class _Active(threading.local):
    """notes: of the bodies at work, outermost first. filled: for each operator at work the bodies that have
    filled something. abandoned: the error about effects of a capture that ended with an exception.
    operators: names of the transforms at work, outermost first."""

    def __init__(self):
        self.notes, self.filled, self.abandoned, self.operators = [], [], None, []


_active = _Active()


def begin():
    """A capture begins that may be abandoned for another one."""
    _active.abandoned = None


def check_abandoned():
    """A capture was abandoned: an error about its effects."""
    if _active.abandoned is not None:
        raise _active.abandoned from None


def settled(run):
    """run(), which captures bodies; again where one has filled what it reads."""
    _active.filled.append(set())
    try:
        while True:
            try:
                return run()
            except Filled:
                pass
    finally:
        _active.filled.pop()


class operator:
    """Within this a transform of this name captures the function that it was given."""

    def __init__(self, name):
        self._name = name

    def __enter__(self):
        _active.operators.append(self._name)

    def __exit__(self, *exception):
        _active.operators.pop()


class watching:
    """with watching(fun, …): the function runs. Its effects are an error."""

    def __init__(self, fun, given=None, own=(), what=None, jit=False, once=None):
        """what: who has the effect, as messages begin, else the operator that is called and its body. jit:
        the function is one under jit. once(): whether it runs again for every call, as behind a cut
        (_cut.py), so that its effects are the call's."""
        self._how = (fun, given, own)
        self._what, self._jit, self._once = what, jit, once

    def __enter__(self):
        self.notes = Notes(*self._how)
        _active.notes.append(self.notes)

    def __exit__(self, kind, error, trace):
        _active.notes.pop()
        if kind is None or issubclass(kind, Retried):
            if self._once is None or not self._once():
                self.check()
        elif not self._jit and issubclass(kind, InvalidError) and not getattr(error, "effect", False):
            if self._once is None or not self._once():
                self.check()  # what does not fit may come of an effect: Python's None of an append
        elif self.notes.list and _active.abandoned is None:
            _active.abandoned = self._left_behind()

    def _left_behind(self):
        """The error about effects of a function that ended with an exception, should it be run again."""
        for change in self.notes.changes():
            if not self._is_filling(change):
                text = change.note.kind.verb, f"{change.text}{self._at(change)}"
                return InvalidError(
                    f"{place()}{_called(self.notes.fun)} {' '.join(text)} before its control flow meets a "
                    "value that only a run knows: it is captured once more then, so that would happen "
                    "twice; return what is to be kept"
                )
        return None

    def _is_filling(self, change):
        return change.is_filling and not _traced_in(change.now) and _is_read(change, self.notes.codes)

    def check(self):
        found = self.notes.changes() if self.notes.list else None
        if not found:
            return
        if self._jit:
            wrong = [c for c in found if self._is_wrong_for_jit(c)]
            if not wrong:
                things = {id(c.note.thing) for c in found if c.note.kind is not _ITERATOR}
                for outer in _active.notes:
                    outer.renew(things)
                return
            raise self._error(wrong[0]) from None
        body = id(self.notes.fun)
        if all(map(self._is_filling, found)):
            filled = _active.filled[-1] if _active.filled else None
            if filled is not None and body not in filled:
                filled.add(body)
                raise Filled
        raise self._error(next((c for c in found if not self._is_filling(c)), found[0])) from None

    def _is_wrong_for_jit(self, change):
        kind = change.note.kind
        if kind is _BUFFER:
            return _is_read(change, self.notes.codes)
        if kind is _ITERATOR:  # inside of another capture it is captured at every call
            return not _active.notes
        return kind is _RANDOM or _traced_in(change.now)

    def _error(self, change):
        error = InvalidError(self._text(change))
        error.effect = True
        return error

    def _at(self, change):
        at = _line(change, self.notes.codes)
        return f" ({at})" if at else ""

    def _text(self, change):
        kind, name, where = change.note.kind, change.text, self._at(change)
        called = str(_arguments.here("")).removesuffix(": ")
        if called == "transformed" and _active.operators:
            called = _active.operators[-1]
        called, who = _OPERATORS.get(called, called) or "jit", self._what
        if called in _FLOW:
            who = f"{_FLOW[called]}, of which only a run knows what it takes,"
        elif who is None:
            who = f"{called}: {_called(self.notes.fun)}"
        if self._jit and not kind.opaque:
            return (
                f"{place()}{who} puts a traced value into {name}{where}: it means nothing outside of the "
                "captured function: return it"
            )
        if kind in (_ITERATOR, _RANDOM):
            advice = _TAKE if kind is _ITERATOR else _DRAW
        elif self._what or called in _FLOW:
            advice = f"assign to a variable instead, or make {name} an array"
        else:
            advice = f"{_ADVICE.get(called, 'return it')}, or hand it to hop.debug_callback, which "
            advice += "calls a function of the host whenever the program gets there"
        return f"{place()}{who} {kind.verb} {name}{where}: {_WHY}; {advice}"


_UNWATCHED = "_hop_unwatched"


def _is_own(fun):
    return type(fun) is types.FunctionType and _UNWATCHED in fun.__dict__


def unwatched(fun):
    """fun, a function of the package whose effects are its own affair."""
    setattr(fun, _UNWATCHED, True)
    return fun


class of_the_host:
    """Within this a program runs that calls back: what that changes is not what a body at work does."""

    def __enter__(self):
        self._before = [[n.read(n.thing) for n in notes.list] for notes in _active.notes]

    def __exit__(self, *exception):
        for notes, contents in zip(_active.notes, self._before):
            for note, content in zip(notes.list, contents):
                if _differ(note, content, note.read(note.thing)):
                    note.before = note.read(note.thing)


class Retried(Exception):
    """What is raised to capture a body again: its effects count all the same."""


def _called(fun):
    from ._trace import called

    return called("the function", fun)


def _traced_in(x):
    from ._trace import traced_inside

    return x is not MISSING and traced_inside(x, lambda a: a._traced) is not None


_WHY = "that happens while the program is captured, not when it runs"
_DRAW = "draw with hop.random, from a key that is an argument"
_TAKE = "take the items before, and give them as arguments"
_OPERATORS = {"checkpointed": "checkpoint", "in_region": "region", "vectorized": "vectorize"}
# Plain Python that is captured as operators.
_FLOW = {
    "choose": "the conditional expression", "and_": "and", "or_": "or", "both": "and", "either": "or",
    "compare": "the chain of comparisons", "any": "any", "all": "all",
}  # fmt: skip
_ADVICE = {
    "cond": "return it from both branches", "switch": "return it from every branch",
    "while_loop": "carry it", "fori_loop": "carry it", "scan": "carry it, or give it as a y",
    "grad": "return it (has_aux=True)", "value_and_grad": "return it (has_aux=True)",
}  # fmt: skip
