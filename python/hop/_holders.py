"""What a piece of a function can change besides its own variables: lists, dicts and attributes of objects
that it reaches, and variables of other functions that functions it reaches bind. Found without running code
of the user's."""

import dis
import functools
import types

from . import _core, _objects

_OWN = "_hop_"
_MOST = 1000


def own_method(x, name):
    """A method of a class of the user's, bound to x; None where there is none."""
    cls = type(x)
    if cls.__module__ == "builtins" or isinstance(x, (_core.ArrayBase, type, types.ModuleType)):
        return None
    found = _objects.static_of(cls, name)
    return types.MethodType(found, x) if type(found) is types.FunctionType and _is_users(found) else None


def _is_users(fun):
    return not _objects.is_foreign(fun.__globals__.get("__name__"))


class Holder:
    """Something that can be changed. name: of the variable behind which it was found."""

    is_cell = False

    def __init__(self, name, thing):
        self.name, self.thing, self._before = name, thing, None

    def note(self):
        self._before = self.read()

    def put_back(self):
        """Whether what is inside has changed since it was noted; it is as before then."""
        if self._same(self._before, self.read()):
            return False
        self.write(self._before)
        return True


class Same:
    """Stands for a container of a state where another one of it, or a variable, holds it: that one itself,
    not what is inside."""

    __slots__ = ("thing",)

    def __init__(self, thing):
        self.thing = thing

    def __eq__(self, other):
        return isinstance(other, Same) and self.thing is other.thing

    def __hash__(self):
        return id(self.thing)

    def __repr__(self):
        return repr(self.thing)


class _List(Holder):
    def read(self):
        return list(self.thing)

    def write(self, items):
        self.thing[:] = items

    def mapped(self, f, items):
        return [f(x) for x in items]

    def _same(self, a, b):
        return len(a) == len(b) and all(x is y for x, y in zip(a, b))


class _Dict(Holder):
    def read(self):
        return dict(self.thing)

    def write(self, items):
        self.thing.clear()
        self.thing.update(items)

    def mapped(self, f, items):
        return type(items)({k: f(x) for k, x in items.items()})

    def _same(self, a, b):
        return len(a) == len(b) and all(x is y and p is q for (x, p), (y, q) in zip(a.items(), b.items()))


class _Cell(Holder):
    is_cell = True

    def read(self):
        return self.thing.cell_contents

    def write(self, x):
        self.thing.cell_contents = x


@functools.lru_cache(maxsize=4096)
def outline(code):
    """(names of globals that code, and code inside of it, loads; variables from outside that it binds)"""
    names, writes = set(code.co_names), set()
    for i in dis.get_instructions(code):
        if i.opname == "STORE_DEREF" and i.argval in code.co_freevars:
            writes.add(i.argval)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            more, inside = outline(inner)
            names |= more
            writes |= inside.intersection(code.co_freevars)
    return names, writes


def reachable(pieces, get, others=()):
    """The holders that pieces, and other functions that are called with them, reach. get: reads the pieces'
    own variables, which are none."""
    search = _Search({id(c) for c in getattr(get, "__closure__", None) or ()})
    for piece in pieces:
        search.function(piece, own=True)
    return search.run([(getattr(f, "__name__", ""), f) for f in others])


class _Search:
    def __init__(self, own):
        self._own, self._seen, self._todo, self._found = own, {}, [], []

    def _once(self, x):
        if id(x) in self._seen:
            return False
        self._seen[id(x)] = x  # kept, so that ids stay theirs
        return True

    def function(self, fun, own=False):
        """What a function reaches. own: it is a piece, whose variables are told apart by their cells."""
        if not self._once(fun) or len(self._seen) > _MOST:
            return
        names, writes = outline(fun.__code__)
        for name, cell in zip(fun.__code__.co_freevars, fun.__closure__ or ()):
            try:
                value = cell.cell_contents
            except ValueError:  # nothing is bound yet
                continue
            foreign = not own and name in writes and id(cell) not in self._own
            if foreign and not name.startswith(_OWN) and self._once(cell):
                self._found.append(_Cell(name, cell))
            if not name.startswith(_OWN) or isinstance(value, types.FunctionType):
                self._todo.append((name, value))
        for name in names:  # what is inside of globals is everybody's
            if isinstance(fun.__globals__.get(name), types.FunctionType):
                self._todo.append((name, fun.__globals__[name]))
        for value in (*(fun.__defaults__ or ()), *(fun.__kwdefaults__ or {}).values()):
            self._todo.append((fun.__name__, value))

    def run(self, others):
        self._todo += others
        while self._todo and len(self._seen) < _MOST:
            self._look(*self._todo.pop())
        return self._found

    def _look(self, name, x):
        if isinstance(x, types.MethodType):
            self._todo.append((name, x.__self__))
            x = x.__func__
        if isinstance(x, functools.partial):
            self._todo += [(name, y) for y in (x.func, *x.args, *x.keywords.values())]
        elif isinstance(x, types.FunctionType):
            flow = str(x.__globals__.get("__name__")).startswith("hop._flow")  # which calls users' functions
            if flow or x.__code__.co_name.startswith(_OWN) or _is_users(x):
                self.function(x)
        elif type(x) is list:
            self._inside(_List(name, x), x)
        elif type(x) is dict:
            self._inside(_Dict(name, x), x.values())
        elif isinstance(x, (tuple, set, frozenset)):
            if self._once(x):
                self._todo += [(name, y) for y in x]
        elif _objects.is_instance(x) and _objects.namespace(x) is not None:
            space = _objects.namespace(x)
            if self._once(x):
                self._inside(_Dict(name, space), space.values())
            call = _objects.static_of(type(x), "__call__")
            if isinstance(call, types.FunctionType) and _is_users(call):
                self.function(call)

    def _inside(self, holder, items):
        if self._once(holder.thing):
            self._found.append(holder)
            self._todo += [(holder.name, y) for y in items]
