"""What a function reads from outside, found in its code: names of globals, of the closure and of defaults,
with the attributes and constant items behind them, in the functions that it calls, too. A program is good as
long as all of that is as it was when the program was made; arrays among it are arguments, read at every call.

Collecting runs no code of the user's, and neither does checking (src/guards.c): what only such code could
tell (properties of other descriptors, __getattr__) is said to be not watched."""

import builtins
import collections
import dis
import enum
import functools
import sys
import types

from . import _core
from ._arguments import place
from ._bytecode import CALLED, FOR_HOST, NAMESPACES, WHOLE, WRITTEN, accesses, attribute_names
from ._errors import InvalidError
from ._objects import (
    CONTAINERS, FUNCTIONS, MISSING, SIMPLE, WRITES, Ruled, is_buffer, is_foreign, is_instance, is_key,
    is_plain_class, namespace, nbytes, never_changes, slots, static_of,
)  # fmt: skip

# As in src/guards.c.
(_ROOT, _CONSTANT, _ITEM, _INDEX, _ATTRIBUTE, _CELL, _NAMESPACE, _CLASS, _CLASS_ITEM) = range(9)
(_NOTHING, _ABSENT, _IS, _VALUE, _TYPE, _LENGTH, _KEYS, _SET, _SAME, _FUNCTION, _ARRAY, _CONTENT,
 _NUMBER) = range(13)  # fmt: skip

_MOST_LEAVES, _MOST_PLACES, _MOST_BYTES = 256, 4096, 4096


# ---- places ----


class _Place:
    """A value that is read: how it is got from its parent's, and what it must be."""

    __slots__ = (
        "number", "parent", "step", "name", "index", "value", "text", "check", "want", "more", "count",
        "whole", "note",
    )  # fmt: skip

    def __init__(self, number, parent, step, name, index, value, text):
        self.number, self.parent, self.step, self.name, self.index = number, parent, step, name, index
        self.value, self.text = value, text
        self.check, self.want, self.more, self.count = _NOTHING, None, None, 0
        self.whole, self.note = False, None

    def row(self):
        parent = -1 if self.parent is None else self.parent.number
        return (parent, self.step, self.check, self.index, self.name, self.want, self.more, self.count)

    @property
    def is_cell(self):
        return self.step == _CELL

    @property
    def is_namespace(self):
        """Whether it leads to names or attributes, and is nothing by itself."""
        return self.step == _NAMESPACE or self.step == _CONSTANT and type(self.value) is dict

    def must(self, check, want=None, more=None, count=0):
        self.check, self.want, self.more, self.count = check, want, more, count


class _TooMany(Exception):
    pass


class Watch:
    """What a function reads, as it is now. codes, spaces: code that is reached, and its globals.
    written: (name, value) of what is not read, but has items set. foreign: (module, name or None) of what it
    uses of modules that are not watched; added: places that its code adds to."""

    def __init__(self, fun, numbers=(), given=None, objects=()):
        """fun: a function, or a tuple of functions. numbers: texts of places whose numbers are arguments.
        given: arguments by name that are part of the program. objects: further things that it may use in any
        way; with them the root is the tuple of fun and these."""
        self.places, self._known, self._objects, self._followed = [], {}, {}, {}
        self._names, self._classes, self._left = set(), {}, None
        self._numbers, self.unwatched = numbers, []
        self.codes, self.spaces, self.written = [], [], []
        self.foreign, self.added = [], []
        root = (fun, *objects) if objects else fun
        self.root = self._place(None, _ROOT, None, 0, root, getattr(fun, "__name__", "the function"))
        self._given = given or {}
        try:
            self._start(self.root, objects)
            self._methods()
        except _TooMany:
            self._unwatched(self.root, f"what is found behind the first {_MOST_PLACES} values")

    def _start(self, p, objects):
        if objects:
            p.must(_LENGTH, tuple, count=1 + len(objects))
            for i, x in enumerate(objects):
                self._whole(self._place(p, _INDEX, None, i + 1, x, f"argument {_short(x)}"))
            p = self._place(p, _INDEX, None, 0, p.value[0], p.text)
        if type(p.value) is not tuple:
            self._called(p)
            return
        p.must(_LENGTH, tuple, count=len(p.value))
        for i, x in enumerate(p.value):
            self._called(self._place(p, _INDEX, None, i, x, getattr(x, "__name__", p.text)))

    def also(self, given):
        """Watches values with these texts, too."""
        for text, x in given.items():
            self._whole(self._constant(x, text))
        if given:
            self._methods()

    # -- making places --

    def _place(self, parent, step, name, index, value, text):
        key = (parent and parent.number, step, index, id(name) if step == _CONSTANT else name, type(name))
        found = self._known.get(key)
        if found is None:
            if len(self.places) >= _MOST_PLACES:
                raise _TooMany
            found = _Place(len(self.places), parent, step, name, index, value, text)
            self.places.append(found)
            self._known[key] = found
            if value is not MISSING and not isinstance(value, (*SIMPLE, tuple)):
                self._objects.setdefault(id(value), found)
        return found

    def _constant(self, value, text):
        return self._place(None, _CONSTANT, value, 0, value, text)

    def _item(self, parent, key, text):
        return self._place(parent, _ITEM, key, 0, parent.value.get(key, MISSING), text)

    def _attribute(self, parent, name, text=None):
        value = object.__getattribute__(parent.value, name)
        return self._place(parent, _ATTRIBUTE, name, 0, value, text or f"{parent.text}.{name}")

    def _global(self, space, name):
        """A name of a dict of globals."""
        return self._item(self._constant(space, space.get("__name__", "")), name, f"global {name}")

    def _canonical(self, p):
        """The place that stands for p's object: the first at which it was found."""
        first = self._objects.get(id(p.value), p)
        if first is not p and not p.whole:
            p.must(_SAME, count=first.number)
            p.whole = True
        return first

    def _unwatched(self, p, why):
        p.note = f"not watched: {why}"
        self.unwatched.append(f"{p.text}: {p.note}")

    # -- following chains --

    def _function(self, p, bound=None, known=None):
        """Everything that a function's code reads; bound: the place of its self; known: places of other
        arguments."""
        p = self._canonical(p)
        fun = p.value
        if p.check not in (_IS, _FUNCTION):
            p.must(_FUNCTION, fun.__code__, fun.__globals__)
        known = known or {}
        key = (p.number, bound and bound.number, *sorted((n, q.number) for n, q in known.items()))
        if key in self._followed:
            return
        self._followed[key] = len(self.places)
        left, self._left = self._left, None  # what functions read is counted by itself
        try:
            self._body(p, fun, bound, known)
        finally:
            self._left = left

    def _body(self, p, fun, bound, known):
        env = self._cells(p)
        if is_foreign(fun.__globals__.get("__name__")):
            for cell in env.values():
                self._whole(cell)
            return
        env.update(self._defaults(p))
        if p.parent is None or p.parent is self.root:
            env.update({name: self._constant(x, name) for name, x in self._given.items()})
        names = fun.__code__.co_varnames
        if bound is not None and fun.__code__.co_argcount:
            env[names[0]] = bound
        env.update(known)
        self._code(fun.__code__, env, fun.__globals__)

    def _cells(self, p):
        fun = p.value
        if not fun.__closure__:
            return {}
        closure = self._attribute(p, "__closure__")
        closure.must(_LENGTH, tuple, count=len(fun.__closure__))
        out = {}
        for i, (name, cell) in enumerate(zip(fun.__code__.co_freevars, fun.__closure__)):
            held = self._place(closure, _INDEX, None, i, cell, name)
            try:
                value = cell.cell_contents
            except ValueError:
                value = MISSING
            out[name] = self._place(held, _CELL, None, 0, value, f"closure {name}")
        return out

    def _defaults(self, p):
        fun, out = p.value, {}
        code = fun.__code__
        if fun.__defaults__:
            given = self._attribute(p, "__defaults__")
            given.must(_LENGTH, tuple, count=len(fun.__defaults__))
            names = code.co_varnames[: code.co_argcount][-len(fun.__defaults__) :]
            for i, name in enumerate(names):
                out[name] = self._place(given, _INDEX, None, i, fun.__defaults__[i], f"default {name}")
        if fun.__kwdefaults__:
            given = self._attribute(p, "__kwdefaults__")
            given.must(_TYPE, dict)
            for name in fun.__kwdefaults__:
                out[name] = self._item(given, name, f"default {name}")
        return out

    def _code(self, code, env, space):
        self._names |= attribute_names(code)
        self.codes.append(code)
        self.spaces.append(space)
        for name in sorted(NAMESPACES & {*code.co_names}):
            if name not in space:
                self.unwatched.append(f"{name}() in {code.co_name}: not watched: what it gives")
        free = {*code.co_freevars, *code.co_cellvars, *code.co_varnames}
        loads, made, imports = accesses(code)
        env = {**env, **self._imported(imports, space)}
        for name, chain, use in loads:
            if use == WRITTEN:
                self.written.append((name, env[name].value if name in env else space.get(name, MISSING)))
                continue
            p = env.get(name) if name in free else self._global(space, name)
            if chain and chain[0][0] == "super":
                self._super(env.get("__class__"), p, chain[0][1])
            elif p is not None:
                self._chain(p, chain, use)
        for inner in [code.co_consts[i] for i in made]:
            self._code(inner, {n: env[n] for n in inner.co_freevars if n in env}, space)

    def _imported(self, imports, space):
        """Places of modules that code imports, by the names that it gives them."""
        out = {}
        for name, level, wanted, stored in imports:
            if level:
                package = space.get("__package__") or str(space.get("__name__")).rpartition(".")[0]
                above = package.split(".")[: package.count(".") + 2 - level]
                name = ".".join([*above, name]) if name else ".".join(above)
            whole = name if wanted else name.partition(".")[0]
            if not whole or is_foreign(whole):
                self.foreign += [(name, attribute) for attribute in wanted or (None,)]
                continue
            p = self._item(self._constant(sys.modules, "modules"), whole, f"module {whole}")
            for attribute in wanted or ():
                self._chain(p, (("attr", attribute),), WHOLE)
            if not wanted:
                out[stored] = p
        return out

    def _super(self, cls, bound, name):
        """super().name in a function of the class at the place cls; bound: the place of self, or None."""
        if cls is None or not isinstance(cls.value, type):
            return
        known = bound is not None and bound.value is not MISSING and isinstance(bound.value, cls.value)
        mro = type(bound.value).__mro__ if known else cls.value.__mro__
        if known:
            self._class_of(self._canonical(bound))
        for base in mro[mro.index(cls.value) + 1 :]:
            if name in base.__dict__ and not is_foreign(base.__module__):
                went = self._step_class(self._base(base), name)
                if went is not None and type(went[0].value) in FUNCTIONS:
                    self._function(went[0], bound if known else None)
                return

    def _base(self, cls):
        """A place of a class itself."""
        p = self._constant(cls, cls.__name__)
        p.must(_IS, cls)
        return p

    def _chain(self, p, chain, use):
        bound = None
        for kind, key in chain:
            if p.value is MISSING:
                break
            went = self._step(p, kind, key)
            if went is None:
                return
            p, bound = went
        if use == FOR_HOST and p.value is not MISSING:
            if bound is None and p.check == _NOTHING:
                p.must(_IS, p.value)
            return
        if bound is not None and _is_jit(p.value):
            p = self._canonical(p)
            p.must(_TYPE, type(p.value))
            p = self._jitted(p)
        if bound is not None and isinstance(p.value, Ruled):
            self._whole(bound)
        if bound is not None and type(p.value) in FUNCTIONS:
            self._function(p, bound)
        elif use == CALLED:
            self._called(p)
        else:
            self._whole(p)

    def _step(self, p, kind, key):
        """(the place behind p, what its function is bound to); None: there is none to go on from, and p is
        watched as needed."""
        x = p.value
        if kind == "item":
            return self._step_item(p, key)
        if isinstance(x, types.ModuleType):
            p.must(_IS, x)
            if (x.__name__, key) in (("os", "environ"), ("os", "getenv")):
                self.unwatched.append(f"os.{key}: not watched: what it gives")
            if is_foreign(x.__name__) or type(x) is not types.ModuleType:
                self.foreign.append((x.__name__, key))
                return None
            return self._global(x.__dict__, key), None
        if isinstance(x, type):
            p.must(_IS, x)
            return None if is_foreign(x.__module__) else self._step_class(p, key)
        if is_instance(x):
            return self._step_instance(self._canonical(p), key)
        if key in WRITES and type(x) in CONTAINERS:
            self.added.append(p.text)
            return None  # nothing is read
        if type(x) in FUNCTIONS and key in x.__dict__:
            p = self._canonical(p)
            p.must(_IS, x)
            space = self._place(p, _NAMESPACE, None, 0, x.__dict__, p.text)
            return self._item(space, key, f"{p.text}.{key}"), None
        self._whole(p)
        return None

    def _step_item(self, p, key):
        x = p.value
        cls = type(x)
        if isinstance(x, dict) and cls.__getitem__ is dict.__getitem__ and is_key(key):
            p = self._canonical(p)
            if p.check == _NOTHING:
                p.must(_TYPE, cls)
            return self._item(p, key, f"{p.text}[{key!r}]"), None
        if isinstance(x, (list, tuple)) and cls.__getitem__ in (list.__getitem__, tuple.__getitem__):
            if type(key) is int and -len(x) <= key < len(x):
                p = self._canonical(p)
                if p.check in (_NOTHING, _TYPE):
                    p.must(_LENGTH, cls, count=len(x)) if key < 0 else p.must(_TYPE, cls)
                at = key % len(x)
                return self._place(p, _INDEX, None, at, x[at], f"{p.text}[{key}]"), None
        self._whole(p)
        return None

    def _step_class(self, p, name):
        """An attribute of a class; p is a place of the class itself, whose identity is checked."""
        static = static_of(p.value, name)
        text = f"{p.text}.{name}"
        above = static_of(type(p.value), name)
        if static is MISSING or not is_plain_class(p.value) or hasattr(type(above), "__set__"):
            self._unwatched(p, f"only running code can tell what {text} is")
            return None
        if isinstance(static, classmethod):
            self._function(self._constant(static.__func__, text), p)
            return None
        value = static.__func__ if isinstance(static, staticmethod) else static
        if type(value) not in FUNCTIONS and hasattr(type(value), "__get__") and not _binds(value):
            self._unwatched(p, f"{text} is a descriptor")
            return None
        return self._place(p, _CLASS_ITEM, name, 0, value, text), None

    def _class_of(self, p):
        cls = type(p.value)
        if p.check == _NOTHING:
            p.must(_TYPE, cls)
        c = self._place(p, _CLASS, None, 0, cls, cls.__name__)
        c.must(_IS, cls)
        return c

    def _step_instance(self, p, name):
        x = p.value
        cls = type(x)
        static, own = static_of(cls, name), namespace(x)
        text = f"{p.text}.{name}"
        if name == "__class__":
            self._class_of(p)
            return None
        if p.check == _NOTHING:
            p.must(_TYPE, cls)
        if isinstance(static, types.MemberDescriptorType):
            try:
                return self._attribute(p, name), None
            except AttributeError:
                return self._place(p, _ATTRIBUTE, name, 0, MISSING, text), None
        if isinstance(static, property):
            self._place(self._class_of(p), _CLASS_ITEM, name, 0, static, text).must(_IS, static)
            if type(static.fget) in FUNCTIONS:
                self._function(self._constant(static.fget, text), p)
            return None
        data = static is not MISSING and hasattr(type(static), "__set__")
        if not data and own is not None:
            space = self._place(p, _NAMESPACE, None, 0, own, p.text)
            at = self._item(space, name, text)
            if name in own:
                return at, None
            at.must(_ABSENT)
            at.whole = True
        if static is MISSING or data:
            if data or static_of(cls, "__getattr__") is not MISSING:
                self._unwatched(p, f"only running code can tell what {text} is")
                self._whole(p)
            return None
        went = self._step_class(self._class_of(p), name)
        if went is None:
            return None
        return went[0], p if type(static) in FUNCTIONS or _binds(static) else None

    # -- values as wholes --

    def _called(self, p):
        """A value that is called: what its code reads of itself is known."""
        x = p.value
        if type(x) is functools.partial and type(x.func) in FUNCTIONS:
            self._partial(self._canonical(p))
        elif x is not MISSING and is_instance(x) and type(static_of(type(x), "__call__")) in FUNCTIONS:
            p = self._canonical(p)
            went = self._step_class(self._class_of(p), "__call__")
            self._function(went[0], p)
        else:
            self._whole(p)

    def _partial(self, p):
        """A function some of whose arguments are known."""
        if p.check == _NOTHING:
            p.must(_TYPE, functools.partial)
        fun, args, named = (self._attribute(p, name) for name in ("func", "args", "keywords"))
        args.must(_LENGTH, tuple, count=len(args.value))
        named.must(_KEYS, dict, tuple(named.value))
        code = fun.value.__code__
        known = {}
        for i, x in enumerate(args.value):
            at = self._place(args, _INDEX, None, i, x, f"{p.text}.args[{i}]")
            if i < code.co_argcount:
                known[code.co_varnames[i]] = at
            else:
                self._whole(at)
        for name in named.value:
            known[name] = self._item(named, name, f"{p.text}.keywords[{name!r}]")
        self._function(fun, known=known)

    def _whole(self, p):
        """Watches a value that may be used in any way."""
        if p.whole:
            return
        if p.text in self._numbers and type(p.value) in (int, float):
            p.must(_NUMBER, type(p.value))
            p.whole = True
            return
        outermost = self._left is None
        if outermost:
            self._left, mark, unwatched = _MOST_LEAVES, len(self.places), len(self.unwatched)
        try:
            self._value(p)
        except _TooMany:
            if not outermost:
                raise
            self._forget(mark)
            del self.unwatched[unwatched:]
            p.must(_IS, p.value)
            p.whole = True
            self._unwatched(p, f"more than {_MOST_LEAVES} values")
            if isinstance(p.value, (list, dict, set)) and len(self.places) < _MOST_PLACES:
                twin = _Place(len(self.places), p.parent, p.step, p.name, p.index, p.value, p.text)
                twin.must(_LENGTH, type(p.value), count=len(p.value))
                self.places.append(twin)
        finally:
            if outermost:
                self._left = None

    def _forget(self, mark):
        """Places from this number on are no more."""
        del self.places[mark:]
        for table in (self._known, self._objects):
            for key in [k for k, p in table.items() if p.number >= mark]:
                del table[key]
        for key in [k for k, at in self._followed.items() if at >= mark]:
            del self._followed[key]
        self._classes = {k: p for k, p in self._classes.items() if p.number < mark}

    def _leaf(self):
        self._left -= 1
        if self._left < 0:
            raise _TooMany

    def _value(self, p):
        x = p.value
        cls = type(x)
        if x is MISSING:
            p.must(_ABSENT)
        elif x is None or cls is bool:
            p.must(_IS, x)
            self._leaf()
        elif cls in SIMPLE:
            p.must(_VALUE, x)
            self._leaf()
        elif isinstance(x, (types.ModuleType, enum.Enum)):
            p.must(_IS, x)
        else:
            first = self._canonical(p)
            if first is p:
                p.whole = True
                self._object(p, x, cls)
            else:
                self._whole(first)
        p.whole = True

    def _object(self, p, x, cls):
        if isinstance(x, _core.ArrayBase) or is_buffer(x):
            pass  # settled when it is known whether it is an argument
        elif isinstance(x, _core.Calls):
            pass  # programs that are kept are no part of others
        elif cls in (slice, range):
            p.must(_TYPE, cls)
            for name in ("start", "stop", "step"):
                self._whole(self._attribute(p, name))
        elif cls in FUNCTIONS:
            self._function(p)
        elif cls is types.MethodType:
            self._method(p)
        elif isinstance(x, dict) and all(map(is_key, keys := tuple(x))):
            p.must(_KEYS, cls, keys)
            for key in keys:
                self._whole(self._item(p, key, f"{p.text}[{key!r}]"))
            self._attributes(p, x, cls)
        elif isinstance(x, (list, tuple)) or cls is collections.deque:
            p.must(_LENGTH, cls, count=len(x))
            for i, y in enumerate(tuple(x)):
                self._whole(self._place(p, _INDEX, None, i, y, f"{p.text}[{i}]"))
            self._attributes(p, x, cls)
        elif isinstance(x, (set, frozenset)) and all(map(is_key, x)):
            p.must(_SET, cls(x))
            self._leaf()
        elif isinstance(x, type):
            p.must(_IS, x)
            if not is_foreign(x.__module__):
                self._classes[id(x)] = p
        elif cls is functools.partial:
            p.must(_TYPE, cls)
            for name in ("func", "args", "keywords"):
                self._whole(self._attribute(p, name))
        elif _is_jit(x):
            p.must(_TYPE, cls)
            self._whole(self._jitted(p))
        elif isinstance(x, Ruled):
            p.must(_TYPE, cls)
            space = self._place(p, _NAMESPACE, None, 0, x.__dict__, p.text)
            for name in ("_fun", "_static", "_rules"):
                self._whole(self._item(space, name, p.text if name == "_fun" else f"{p.text}.{name}"))
        elif isinstance(x, _core.Entry) and getattr(x.__wrapped__, "__closure__", None):
            p.must(_TYPE, cls)
            self._whole(self._place(p, _ATTRIBUTE, "__wrapped__", 0, x.__wrapped__, p.text))
        elif is_instance(x):
            self._instance(p, x, cls)
        else:
            p.must(_IS, x)
            self._leaf()
            if not never_changes(x, cls):
                self._unwatched(p, f"what is inside of a {cls.__name__}")

    def _jitted(self, p):
        """The function that a compiled one is made of."""
        space = self._place(p, _NAMESPACE, None, 0, p.value.__dict__, p.text)
        return self._item(space, "_fun", p.text)

    def _method(self, p):
        p.must(_TYPE, types.MethodType)
        bound = self._place(p, _ATTRIBUTE, "__self__", 0, p.value.__self__, "self")
        fun = self._place(p, _ATTRIBUTE, "__func__", 0, p.value.__func__, p.text)
        if type(fun.value) not in FUNCTIONS:
            self._whole(fun)
            self._whole(bound)
            return
        if isinstance(bound.value, type):
            bound.must(_IS, bound.value)
        self._function(fun, self._canonical(bound))

    def _instance(self, p, x, cls):
        self._attributes(p, x, cls)
        if not namespace(x) and not any(True for _ in slots(cls)):
            self._leaf()

    def _attributes(self, p, x, cls):
        """Those of an object of a class of the user's."""
        if not is_instance(x):
            return
        c = self._place(p, _CLASS, None, 0, cls, cls.__name__)
        c.must(_IS, cls)
        if p.check == _NOTHING:
            p.must(_TYPE, cls)
        self._classes.setdefault(id(cls), c)
        own = namespace(x)
        if own is not None:
            space = self._place(p, _NAMESPACE, None, 0, own, p.text)
            names = tuple(own)
            if all(map(is_key, names)):
                space.must(_KEYS, dict, names)
            for name in names:
                self._whole(self._item(space, name, f"{p.text}.{name}"))
        for name in slots(cls):
            try:
                self._whole(self._attribute(p, name))
            except AttributeError:
                self._whole(self._place(p, _ATTRIBUTE, name, 0, MISSING, f"{p.text}.{name}"))

    def _methods(self):
        """Methods of classes whose objects are used as wholes: those whose names the code has."""
        done = set()
        while True:
            some = False
            for c in list(self._classes.values()):
                for base in type.__dict__["__mro__"].__get__(c.value):
                    for name, value in list(base.__dict__.items()):
                        wanted = name in self._names or name[:2] == "__"
                        if not wanted or (id(base), name) in done or is_foreign(base.__module__):
                            continue
                        done.add((id(base), name))
                        some = True
                        self._of_class(c if base is c.value else self._base(base), name, value)
            if not some:
                return

    def _of_class(self, c, name, value):
        if isinstance(value, property):
            self._place(c, _CLASS_ITEM, name, 0, value, f"{c.text}.{name}").must(_IS, value)
            value = value.fget
            if type(value) in FUNCTIONS:
                self._function(self._constant(value, f"{c.text}.{name}"))
        elif type(value) in FUNCTIONS or isinstance(value, staticmethod) or _binds(value):
            went = self._step_class(c, name)
            if went is not None:
                self._whole(went[0])
        elif name in self._names and name[:2] != "__" and not hasattr(type(value), "__get__"):
            self._whole(self._step_class(c, name)[0])

    # -- what comes of it --

    def _rows(self, hidden, read):
        """hidden, read: objects by id that are arguments of the program, or whose elements are part of it."""
        rows = []
        for p in self.places:
            x = p.value
            if p.check == _NOTHING and (isinstance(x, _core.ArrayBase) or is_buffer(x)):
                self._settle(p, x, id(x) in hidden, id(x) in read)
            rows.append(p.row())
        return rows

    def _settle(self, p, x, argument, read):
        ours = isinstance(x, _core.ArrayBase)
        known = read if ours else not argument  # by Python code
        if known and nbytes(x) > _MOST_BYTES:
            p.must(_IS, x)
            self._unwatched(p, f"the elements of an array of {nbytes(x)} bytes that Python code reads")
            return
        array = x if ours else _array_of(x)
        if array is None or ours and x._donated:
            p.must(_IS, x)
        elif read or not ours and not argument:
            p.must(_CONTENT, array if ours and x._traced else array._copy())
        else:
            p.must(_ARRAY, array)
        p.note = "an argument, read at every call" if argument else None

    def guards(self, hidden, read):
        """(Guards, lines about them) of a program that takes these arrays (what capture gave) besides its
        arguments and for which the elements of those in `read` became known."""
        sources = [x if x._origin is None else x._origin for x in hidden]
        wanted = {id(s): s for s in sources}
        self._rows(wanted, {id(x) for x in read})
        at = {id(p.value): p for p in self.places if p.check in (_ARRAY, _CONTENT, _NUMBER)}
        numbers = []
        for s, x in zip(sources, hidden):
            p = at.get(id(s))
            if p is None:
                p = self._place(None, _CONSTANT, s, 0, s, "an array found otherwise")
                at[id(s)] = p
                if x._origin is not None and (isinstance(s, _core.ArrayBase) or is_buffer(s)):
                    self._settle(p, s, True, False)
            numbers.append(p.number)
        return _core.guards([p.row() for p in self.places], numbers)

    def lines(self):
        """What is watched, in words."""
        shown = [line for line in map(_line, self.places) if line]
        return shown + [line for line in self.unwatched if line not in shown]

    def summary(self):
        """(text, number) of each place, None where it is no number."""
        return [
            (p.text, p.want if p.check == _VALUE and type(p.want) in (int, float) else None)
            for p in self.places
        ]

    @property
    def names(self):
        """Of attributes and globals, in all code."""
        return self._names

    @property
    def shared_by_code(self):
        """As shared, of a watch that knows where every array comes from: others are made by the code."""
        return self._is_shared(_core.ArrayBase)

    @property
    def shared(self):
        """Whether nothing that belongs to one function alone is held: programs are good for other functions
        of the same code."""
        return self._is_shared(())

    def _is_shared(self, besides):
        lasting = (type(None), bool, types.ModuleType, type, types.FunctionType, property, enum.Enum)
        for p in self.places:
            if p.check == _IS and not isinstance(p.want, lasting) and not never_changes(p.want, type(p.want)):
                return False
            held = p.step == _CONSTANT and type(p.name) is not dict and type(p.name) not in FUNCTIONS
            if held and not (besides and (isinstance(p.name, besides) or is_buffer(p.name))):
                return False
        return True

    def set_at(self, p):
        """file:line where code sets the name at the end of p's text, "" when it is not found."""
        name = p.text.split(" ")[-1].rstrip("]").replace("[", ".").split(".")[-1].strip("'\"")
        for code in self.codes:
            for i in dis.get_instructions(code):
                line = i.positions.lineno if i.positions else None
                if i.opname.startswith("STORE_") and i.argval == name and line:
                    return f"{code.co_filename}:{line}"
        return ""


class NumbersNeeded(Exception):
    """Numbers that were to be arguments have to be known while the function is captured."""


# Names whose functions tell an array that stands for a number from the number.
TELLING = frozenset(("isinstance", "issubclass", "type", "callable", "hasattr", "id"))


def watched(capture, fun, given, numbers, functions):
    """(what capture() gives, guards of it, the watch that they come from). fun: what is captured; given: its
    arguments by name that are part of the program; numbers: texts of places whose numbers are arguments;
    functions: those that its arguments bring along (tree.functions).
    What the function reads must be the same after the capture: if not, it is captured once more, for
    functions that compute something once and keep it; a second difference is an error."""
    for last in (False, True):
        watch = Watch(fun, numbers, given)
        watch.also(functions)
        reads, before = [], None
        places = [p for p in watch.places if p.check == _NUMBER]
        if places and (watch._names & TELLING or not all(map(_can_be_set, places))):
            raise NumbersNeeded
        stand = [(p, p.value, _core.number(p.value)) for p in places]
        before = _core.note_reads(reads)
        try:
            for p, _, array in stand:
                _set(p, array)
            traced = capture()
        except Exception:
            if stand:
                raise NumbersNeeded from None
            raise
        finally:
            _core.note_reads(before)
            for p, number, _ in stand:
                _set(p, number)
        for p, _, array in stand:
            if any(x is array for x in reads):
                raise NumbersNeeded
            p.value = array
        guards = watch.guards(traced.hidden, reads)
        found = guards.difference(fun)
        if found is None:
            return traced, guards, watch
        if last:
            raise _changed(fun, watch, watch.places[found[0]])
    raise AssertionError


def _can_be_set(p):
    return p.step in (_ITEM, _CELL) or p.step == _INDEX and type(p.parent.value) is list


def _set(p, value):
    if p.step == _CELL:
        p.parent.value.cell_contents = value
    else:
        p.parent.value[p.index if p.step == _INDEX else p.name] = value


def _changed(fun, watch, p):
    at = watch.set_at(p)
    where = f" (set at {at})" if at else ""
    return InvalidError(
        f"{place()}jit: {getattr(fun, '__name__', 'the function')} reads {p.text} and changes it{where}: a "
        "compiled function runs without its Python code, so that would happen only once; return the new "
        "value, or give it as an argument"
    )


def _array_of(x):
    try:
        return _core.from_buffer(x, -1)
    except (TypeError, ValueError):
        return None


def _is_jit(x):
    return isinstance(x, _core.JitBase)


def _binds(x):
    """Whether it is a function that is no Python function, and becomes a method as those do."""
    return _is_jit(x) or isinstance(x, Ruled)


def _is_builtin(name):
    return isinstance(name, str) and hasattr(builtins, name)


def _short(x):
    text = builtins.repr(x)
    return text if len(text) <= 60 else text[:57] + "…"


def _line(p):
    """A place in words; None for those that only lead to others."""
    if p.note and p.note.startswith("not watched"):
        return f"{p.text}: {p.note}"
    if p.check == _VALUE or p.check == _IS and (p.want is None or type(p.want) is bool):
        return f"{p.text} is {_short(p.want)}"
    if p.check == _IS and isinstance(p.want, types.ModuleType):
        return f"{p.text} is the module {p.want.__name__}"
    if p.check == _IS and p.step not in (_CLASS,):
        return f"{p.text} is the same {type(p.want).__name__}"
    if p.check in (_ARRAY, _CONTENT):
        said = p.note or ("its elements" if p.check == _CONTENT else "its type")
        return f"{p.text}: {p.want._type}, {said}"
    if p.check == _NUMBER:
        return f"{p.text}: a number, an argument"
    if p.check == _FUNCTION and p.step != _ROOT:
        return f"{p.text}: the code of the function"
    if p.check in (_LENGTH, _KEYS) and p.name not in ("__closure__", "__defaults__", "__kwdefaults__"):
        count = p.count if p.check == _LENGTH else len(p.more)
        return f"{p.text}: a {p.want.__name__} with {count} {'entry' if count == 1 else 'entries'}"
    if p.check == _ABSENT and p.step == _ITEM and p.parent.step != _NAMESPACE and not _is_builtin(p.name):
        return f"{p.text} is not there"
    return f"{p.text}: the same set" if p.check == _SET else None
