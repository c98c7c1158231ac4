"""What rewritten functions (_rewrite.py) call: Python's control flow, which becomes operators where it meets
traced values. Here are truth, branches and exceptions; loops are in _flow_loops.py, Python's own functions in
_flow_builtins.py.

A piece is a part of a function of the user's that may run several times while it is captured. What it can
change, its state, is put back before each time: the variables that it binds, those of other functions that
functions it reaches bind, and what is inside of lists, dicts and objects that it reaches. What both branches
leave there becomes results of a cond, what a round leaves is carried by a loop."""

import builtins
import collections
import operator
import sys
import threading

from . import _arguments, _control, _core, _dtypes, _effects, _holders, _identity, _ops, _shapes, tree
from ._arguments import place
from ._errors import Error, InvalidError, TracerError
from ._sources import refused, traced
from ._trace import arrays_of_results

_OWN = "_hop_"
_DEEPEST = 24  # how often a piece may be within itself
_CALLS = 6000  # of Python's, within each other, while pieces are captured


class _Thread(threading.local):
    """regions: the code of pieces being captured, outermost first. tries: what the handlers of try statements
    at work catch. raised: exceptions of raise statements. learned: by code, what variables of pieces hold.
    filters: those of the generator expression at hand that may be traced, or None."""

    def __init__(self):
        self.regions, self.tries, self.raised, self.learned = [], [], [], {}
        self._limit = self.filters = None

    def enter(self, code):
        self.regions.append(code)
        if len(self.regions) == 8:  # each takes some thirty calls of Python's
            self._limit = sys.getrecursionlimit()
            sys.setrecursionlimit(builtins.max(self._limit, _CALLS))

    def leave(self):
        if len(self.regions) == 8:
            sys.setrecursionlimit(self._limit)
        self.regions.pop()
        if not self.regions:
            self.raised.clear()
            self.learned.clear()


_thread = _Thread()


def captures_pieces():
    """Whether only a run knows if what is captured now happens."""
    return builtins.bool(_thread.regions)


# ---- variables without a value ----


class Unbound:
    """A local variable that has no value. why: what cannot be said about it in a program."""

    __slots__ = ("_name", "_why")

    def __init__(self, name, why=None):
        self._name, self._why = name, why

    def _fail(self, *_, **__):
        if self._why:
            raise refused(f"{_said(self._name)}: {self._why}")
        raise UnboundLocalError(f"cannot access local variable '{self._name}' where it is not associated "
                                "with a value")  # fmt: skip

    __call__ = __getitem__ = __iter__ = __bool__ = __len__ = __float__ = __int__ = __index__ = _fail
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _fail
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __abs__ = _fail
    __lt__ = __le__ = __gt__ = __ge__ = __matmul__ = __rmatmul__ = __contains__ = __invert__ = _fail
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __lshift__ = __rshift__ = __pos__ = _fail
    __eq__ = __ne__ = __hash__ = _fail
    __setitem__ = __delitem__ = __str__ = __format__ = __enter__ = __next__ = __complex__ = _fail

    def __getattr__(self, name):
        self._fail()

    def __repr__(self):
        return f"<{self._name} is not bound>"


class Maybe(Unbound):
    """A variable of which only a run knows whether it has its value."""

    __slots__ = ("_value", "_defined")

    def __init__(self, name, value, defined, why):
        super().__init__(name, why)
        self._value, self._defined = value, defined

    def _read(self):
        _ops.check(self._defined, f"UnboundLocalError: {self._name}: {self._why}")
        return self._value


def _said(name):
    return {"_hop_value": "what is returned", "_hop_picked": "the value"}.get(name, name)


def unbound(name):
    return Unbound(name)


def bound(x):
    """The value of a variable that may have none."""
    if isinstance(x, Unbound):
        return x._read() if type(x) is Maybe else x._fail()
    return None if isinstance(x, End) else x


def outside(read, name):
    """What a variable of another function, or a global one, holds."""
    try:
        return read()
    except NameError:
        return Unbound(name)


class End:
    """What a function returns at its end: None, unless another branch returns something else; then its end is
    not expected to be reached, and the program checks that."""

    def __init__(self, name):
        self.name = name

    def __eq__(self, other):
        return isinstance(other, End)

    def __hash__(self):
        return 0

    def check(self):
        _ops.check(_ops.asarray(False), f"{self.name} returns nothing here, and something elsewhere")


def end(name):
    return End(name) if _thread.regions else None


# ---- truth ----


def truth(x):
    """A traced value as the bool that Python would take it for."""
    if x.ndim and builtins.any(n != 1 for n in x.shape):
        raise _core.unknown(TracerError(
            f"{place()}the truth of an array of type {x._type} is not one: hop.any or hop.all makes one of "
            "it, hop.where chooses by element"
        ))  # fmt: skip
    x = x.reshape(()) if x.ndim else x
    return x if x.dtype is _dtypes.bool else x != 0


def asked(x):
    """What a test of x tests: a traced bool, or something whose truth Python knows."""
    if isinstance(x, _core.ArrayBase):
        return truth(x) if x._traced else x
    if isinstance(x, Unbound):
        return asked(bound(x))
    method = _holders.own_method(x, "__bool__") or _holders.own_method(x, "__len__")
    return asked(twin(method)()) if method else x


def _as_truth(x):
    x = asked(x)
    return x if traced(x) else builtins.bool(x)


def not_(x):
    x = asked(x)
    return _ops.logical_not(x) if traced(x) else not x


class Filtered(Exception):
    """A filter of a generator expression that only a run knows, met where that can be said by a branch."""

    def __init__(self, test):
        super().__init__()
        self.test = test


class Filters:
    """Those of a generator expression, by its code. holding: how many are known to hold in the branch at
    hand."""

    def __init__(self, make, holding):
        codes = [c for c in make.__code__.co_consts if getattr(c, "co_name", "") == "<genexpr>"]
        self.code, self.holding = codes[0], holding


def known(x, what, line):
    """The truth of x where only one that is known will do."""
    x = asked(x)
    filters = _thread.filters
    if traced(x) and filters is not None and sys._getframe(1).f_code is filters.code:
        if not filters.holding:
            raise Filtered(x)
        filters.holding -= 1
        return True
    if traced(x):
        raise refused(
            f"{what} in line {line} asks for the truth of a traced value, which only a run knows: "
            + _KNOWN.get(what, "its statements cannot become operators: return a list or an array instead")
        )
    return x


_KNOWN = {
    "a filter": "how many items there are must be known: use hop.where, or a loop with an if",
    "the subject of a match": "this pattern cannot become an operator: use if and elif",
    "the guard of a case": "this pattern cannot become an operator: use if and elif",
}


def and_(*parts):
    return _in_turn(parts, True)


def or_(*parts):
    return _in_turn(parts, False)


def _in_turn(parts, wanted):
    """The value of and (wanted: True) or of or."""
    x = parts[0]()
    for part in parts[1:]:
        held = asked(x)
        if not traced(held):
            if builtins.bool(held) is not wanted:
                return x
            x = part()
            continue
        x = _joined(x, held, part, wanted)
    return x


def _is_truth(x):
    return isinstance(x, builtins.bool) or isinstance(x, _core.ArrayBase) and x.dtype is _dtypes.bool


def _joined(x, held, part, both):
    """x and part(), or x or part()."""

    def first():
        return held if _is_truth(x) else x

    return _pick(held, part, first, part) if both else _pick(held, first, part, part)


def both(*parts):
    """The truth of `a and b`."""
    x = True
    for part in parts:
        if traced(x):
            x = _pick(x, lambda p=part: _as_truth(p()), lambda: False, part)
        elif x:
            x = _as_truth(part())
    return x


def either(*parts):
    """The truth of `a or b`."""
    x = False
    for part in parts:
        if traced(x):
            x = _pick(x, lambda: True, lambda p=part: _as_truth(p()), part)
        elif not x:
            x = _as_truth(part())
    return x


def choose(test, then, other):
    test = asked(test)
    if not traced(test):
        return then() if test else other()
    return _pick(test, then, other)


def contains(x, y):
    """x in y."""
    if isinstance(y, _core.ArrayBase):
        return _ops.any(y == x) if traced(x) or traced(y) else x in y
    method = _holders.own_method(y, "__contains__")
    if method:
        return _as_truth(twin(method)(x))
    inside = getattr(y, "_contains", None)
    if inside is not None:
        return inside(x)
    if isinstance(y, (list, tuple, set, frozenset, dict)):
        if traced(x) or builtins.any(traced(v) for v in y):
            return either(*[lambda v=v: x is v or x == v for v in y])
    elif isinstance(y, builtins.range) and traced(x):
        first, last = (y[0], y[-1]) if y else (1, 0)
        low, high = builtins.min(first, last), builtins.max(first, last)
        return both(lambda: x >= low, lambda: x <= high, lambda: (x - first) % y.step == 0)
    return x in y


def _is(x, y):
    """x is y, where one of them may be True or False and the other a traced truth."""
    for a, b in ((x, y), (y, x)):
        if traced(a) and a.dtype is _dtypes.bool and isinstance(b, builtins.bool):
            return a if b else _ops.logical_not(a)
    return x is y


_SIGNS = {
    "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt, "GtE": operator.ge, "Eq": operator.eq,
    "NotEq": operator.ne, "Is": _is, "IsNot": lambda x, y: not_(_is(x, y)),
    "In": contains, "NotIn": lambda x, y: not_(contains(x, y)),
}  # fmt: skip


def compare(left, signs, rest):
    """a < b < c: each operand is computed once, and those behind a comparison that fails are not."""
    right = rest[0]()
    said = _SIGNS[signs[0]](left, right)
    if len(signs) == 1:
        return said
    return and_(lambda: said, lambda: compare(right, signs[1:], rest[1:]))


# ---- exceptions ----


class trying:
    """with trying(lambda: kinds, line): the body of a try whose handlers catch these kinds."""

    def __init__(self, kinds, line):
        self._entry = kinds, line

    def __enter__(self):
        _thread.tries.append(self._entry)

    def __exit__(self, *exception):
        _thread.tries.pop()


def manager(x):
    """The context manager of a with statement. One that suppresses exceptions does what a try does."""
    import contextlib

    return _Suppressing(x) if isinstance(x, contextlib.suppress) else x


class _Suppressing:
    def __init__(self, inner):
        self._inner = inner
        self._trying = trying(lambda: inner._exceptions, place().rpartition(":")[0].rpartition(":")[2])

    def __enter__(self):
        self._trying.__enter__()
        return self._inner.__enter__()

    def __exit__(self, *exception):
        self._trying.__exit__()
        return self._inner.__exit__(*exception)


def _uncaught(error, what):
    """A refusal where a handler at work would catch an exception that only a run knows of."""
    for kinds, line in reversed(_thread.tries):
        if isinstance(error, _flat(kinds())):
            name = type(error).__name__
            raise refused(
                f"{what} raises {name}, of which only a run knows, and the try in line {line} catches it by "
                "except: test for it by an if instead"
            ) from None


def _flat(kinds):
    if isinstance(kinds, tuple):
        return tuple(k for kind in kinds for k in _flat(kind))
    return (kinds,) if isinstance(kinds, type) else ()


def _error_text(error):
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def raised(error):
    """The exception of a raise statement."""
    if _thread.regions:
        error = error() if isinstance(error, type) and issubclass(error, BaseException) else error
        _thread.raised.append(error)
    return error


def assert_(test, said):
    test = asked(test)
    if not traced(test):
        if not test:
            text = said()
            raise raised(AssertionError(*([] if text is None else [text])))
        return
    text = said()
    _uncaught(AssertionError(), "this assert")
    _ops.check(test, "assertion failed" if text is None else str(text))


def raise_if(test, error):
    test = asked(test)
    if not traced(test):
        if test:
            raise raised(error())
        return
    made = error()
    made = made() if isinstance(made, type) else made
    _uncaught(made, "this raise")
    _ops.check(_ops.logical_not(test), _error_text(made))


class _Missing(_effects.Retried):
    """More is known about the state of a piece than when its capture began: it is captured again."""


def _goes_through(run, piece, line, what):
    """run(), which calls a piece. An exception that a statement of it raises, which becomes one of the
    program where that gets there, is given back."""
    if _thread.regions.count(piece.__code__) >= _DEEPEST:
        name = piece.__code__.co_qualname.removesuffix(".<locals>.<lambda>").partition(".<locals>." + _OWN)[0]
        raise refused(
            f"{name.rpartition('.')[2]} calls itself under {what} in line {line} more than {_DEEPEST} times: "
            "how deep it goes is known only when the program runs: write it as a loop"
        )
    _thread.enter(piece.__code__)
    try:
        run()
        return None
    except (_Missing, _control._Again):
        raise
    except Exception as error:
        if isinstance(error, Error):
            for kinds, _ in _thread.tries:
                if isinstance(error, _flat(kinds())):
                    _core.unknown(error)
            raise
        _uncaught(error, f"{what} in line {line}")
        if not builtins.any(error is e for e in _thread.raised):
            raise
        _ops.check(_ops.asarray(False), _error_text(error))
        return error
    finally:
        _thread.leave()


# ---- the state of pieces ----


def _is_bound(x):
    return not isinstance(x, Unbound)


def _example(x):
    """What says how to make placeholders for x, which may be gone by then."""

    def leaf(a):
        if not isinstance(a, _core.ArrayBase):
            return lambda: a
        shape, dtype, weak = a.shape, a.dtype, a._weak

        def made():
            z = _ops.zeros(shape, dtype=dtype)
            return z._marked(False) if weak else z

        return made

    leaves, treedef = arrays_of_results(x)
    return [leaf(a) for a in leaves], treedef


def _like(example):
    """A placeholder: never read."""
    makers, treedef = example
    return tree.unflatten(treedef, [make() for make in makers])


class Ordered(dict):
    """A dict in a state: the order of its keys, which a loop over it sees, is part of the structure."""


def _ordered(x):
    if type(x) is dict:
        return Ordered({k: _ordered(v) for k, v in x.items()})
    return _rebuilt(x, _ordered)


def _unordered(x):
    if type(x) is Ordered:
        return {k: _unordered(v) for k, v in x.items()}
    return _rebuilt(x, _unordered)


def _rebuilt(x, f):
    if type(x) is not list and type(x) is not tuple:
        return x
    items = [f(y) for y in x]
    return x if builtins.all(a is b for a, b in zip(items, x)) else type(x)(items)


def _itself(x):
    return x.thing if isinstance(x, _holders.Same) else _unordered(x)


def _insides(x):
    return Ordered(x) if type(x) is dict else x


class State:
    """What pieces can change. names: of the variables, of cells of other functions, of containers; get and
    put: all of these. others: functions that are called with them."""

    def __init__(self, get, put, names, pieces, others=()):
        self._get, self._put, self._variables, self.pieces = get, put, names, pieces
        self._found = found = _holders.reachable(pieces, get, others)
        self._cells = [c for c in found if c.is_cell]
        self._things = {id(h.thing) for h in found if not h.is_cell}
        # labels of the containers whose insides a piece has been seen to change, also when these pieces were
        # captured before; variables that hold other containers too: what is inside of them counts
        self._changed, self._spread = _thread.learned.setdefault(("state", *captured_as(self)), ([], set()))
        labels = self._labels()
        known = builtins.all(label in labels for label in self._changed)
        self._holders = [labels[label] for label in self._changed] if known else []

    @property
    def names(self):
        return (*self._variables, *[h.name for h in (*self._cells, *self._holders)])

    def _labels(self):
        """The containers, by the variable behind which they are and how many of it come before."""
        labels, count = {}, collections.Counter()
        for h in self._found:
            if not h.is_cell:
                labels[h.name, count[h.name]] = h
                count[h.name] += 1
        return labels

    def is_global(self, i):
        return i < len(self._variables) and self._variables[i] in _holders.outline(self._get.__code__)[0]

    def check(self, values, before, what, line):
        """A refusal where others would see what only a run knows."""
        for i, (name, x) in enumerate(zip(self.names, values)):
            if isinstance(x, Unbound) and self.is_inside(i):
                raise refused(f"{what} in line {line} changes what is inside of {name}: {x._why}")
            if self.is_global(i) and x is not before[i]:
                if not _is_bound(before[i]):
                    self._get.__globals__.pop(name, None)
                raise refused(
                    f"{what} in line {line} assigns the global variable {name}, and only a run knows "
                    "whether or what: return it instead"
                )

    def is_inside(self, i):
        """Whether the i-th is what is inside of a container."""
        return i >= len(self._variables) + len(self._cells)

    def get(self):
        own = [*self._get(), *[h.read() for h in self._cells]]
        own = [_ordered(x) if i in self._spread else self._referred(x) for i, x in enumerate(own)]
        return (*own, *[h.mapped(self._referred, _insides(h.read())) for h in self._holders])

    def put(self, values):
        n, m = len(self._variables), len(self._variables) + len(self._cells)
        self._put(tuple(map(_itself, values[:n])))
        for holder, x in zip(self._cells, values[n:m]):
            holder.write(_itself(x))
        for holder, x in zip(self._holders, values[m:]):
            holder.write(holder.mapped(_itself, x))

    def _referred(self, x):
        return _holders.Same(x) if id(x) in self._things else _ordered(x)

    def spread(self, i, *values):
        """Whether one of these values of a variable is a container of the state, of which what is inside
        counts from now on: another branch or round has another one."""
        same = builtins.any(isinstance(x, _holders.Same) for x in values)
        if not same or i in self._spread or self.is_inside(i):
            return False
        self._spread.add(i)
        return True

    def watch(self):
        """What the insides of containers are now."""
        for h in self._found:
            h.note()

    def differs(self, before):
        """Whether something is not as in an earlier state, or as it was noted; containers are put back."""
        cells = builtins.any(a is not b for a, b in zip(before, self.get()))
        return cells or builtins.any([h.put_back() for h in self._found if not h.is_cell])

    def put_back(self):
        """Puts back what was inside of the containers that belong to this state."""
        for h in self._holders:
            h.put_back()

    def settle(self):
        """Puts back what pieces have changed besides this state, which contains it from now on."""
        found = self._labels().items()
        changed = {label: h for label, h in found if h not in self._holders and h.put_back()}
        self._holders += changed.values()
        self._changed += [label for label in changed if label not in self._changed]
        if changed:
            raise _Missing


def _quietly(run, piece, names, line, what):
    """run(), which calls a piece of the user's function that sets these variables; what else it changes is
    refused."""
    what = f"{what} in line {line}, of which only a run knows whether it is taken,"
    with _effects.watching(piece, own=names, what=what):
        return run()


# ---- branches ----

_ABSENT = object()


class _Slot:
    """What a variable holds at the end of a piece. defined: whether it does, True, False or a traced bool;
    why: what cannot be said about it, None when nothing is wrong."""

    __slots__ = ("value", "defined", "why")

    def __init__(self, x):
        if type(x) is Maybe:
            self.value, self.defined, self.why = x._value, x._defined, None
        elif isinstance(x, Unbound):
            self.value, self.defined, self.why = _ABSENT, False, x._why
        else:
            self.value, self.defined, self.why = x, True, None


_NUMBER = "a truth and a number"


def differ(a, b, loop=False):
    """Why one variable cannot hold both values: (what one is, what the other is, where), _NUMBER where it can
    when truth is a number, None where it can. loop: sizes count, and what comes later must fit what was
    there first."""
    try:
        xs, first = arrays_of_results(a)
        ys, second = arrays_of_results(b)
    except (TypeError, ValueError, OverflowError):
        return None if a is b else (described(a), described(b), "")
    if first != second:
        return _differences(a, b, first, second)
    numbers = False
    for x, y in zip(xs, ys):
        k, m = _control._kind(x), _control._kind(y)
        fits = _control._fits(k, m) if loop else _control._meet(x, k, y)
        shapes = _control._shape(x), _control._shape(y)
        apart = _shapes.shapes_differ(*shapes) if loop else len(shapes[0]) != len(shapes[1])
        if fits and not apart:
            continue
        if apart or (k[0] is _dtypes.bool) == (m[0] is _dtypes.bool):
            return described(x), described(y), ""
        numbers = True
    return _NUMBER if numbers else None


def _differences(a, b, first, second):
    apart, _ = tree.compare(first, second)
    path = apart[0][0] if apart else ()
    x, y = a, b
    for key in path:  # down to where they differ
        try:
            x = getattr(x, key) if isinstance(key, tree._Attribute) else x[key]
            y = getattr(y, key) if isinstance(key, tree._Attribute) else y[key]
        except (KeyError, IndexError, AttributeError, TypeError):
            return described(a), described(b), ""
    where = f" at {tree.path_text(path)}" if path else ""
    if isinstance(x, dict) and isinstance(y, dict) and set(x) == set(y):
        return f"a dict with the keys {list(x)}", f"one with the keys {list(y)}", where
    return described(x), described(y), where


def described(x):
    x = _itself(x)
    if isinstance(x, _core.ArrayBase):
        return f"an array {x._type}" if x.ndim else f"a number {x._type}"
    if isinstance(x, (list, tuple, dict)):
        return f"a {'dict' if type(x) is Ordered else type(x).__name__} of {len(x)}"
    return _arguments.found(x)


def as_number(x):
    """Truth among the leaves as 0 and 1."""

    def leaf(a):
        if isinstance(a, builtins.bool):
            return int(a)
        is_array = isinstance(a, _core.ArrayBase) and a.dtype is _dtypes.bool
        return _ops.astype(a, _dtypes.int64)._marked(False) if is_array else a

    return tree.map(leaf, x)


def same_numbers(a, b, merged):
    """merged, where leaves of both that are the same number of Python's stay that."""
    (xs, treedef), (ys, _) = arrays_of_results(a), arrays_of_results(b)
    if not builtins.any(map(_same_number, xs, ys)):
        return merged
    zs = arrays_of_results(merged)[0]
    return tree.unflatten(treedef, [x if _same_number(x, y) else z for x, y, z in zip(xs, ys, zs)])


def _same_number(x, y):
    return type(x) is type(y) and _dtypes.is_number(x) and repr(x) == repr(y)


def one_round(state, values, run, piece, line, what):
    """(what a piece leaves in a state that begins with these values, None), or (None, the exception that it
    raises)."""
    state.put(values)
    state.watch()
    left = []

    def watched():
        run()
        left.append(state.get())
        state.put_back()
        state.settle()

    try:
        names = state.names
        error = _goes_through(lambda: _quietly(watched, piece, names, line, what), piece, line, what)
    finally:
        state.put_back()
    return (None, error) if error is not None else (left[0], None)


class _Flag:
    """A flag of a rewritten function that is known."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, _Flag) and self.value is other.value

    def __hash__(self):
        return hash(self.value)


class _Learned:
    """What is known of two pieces when they are captured again. examples: by variable, of what the second one
    binds; kinds: of the leaves of variables, where they become others; flags: variables of rewritten
    functions that are not known; numbers: variables whose truth is a number; wanted: those of which only a
    run knows whether they are bound; nothing: those where the end of a function gives None."""

    def __init__(self):
        self.examples, self.kinds, self.flags = {}, {}, set()
        self.numbers, self.wanted, self.nothing = set(), set(), set()


def captured_as(state):
    """What tells one capture of pieces from another: their code and the types of what they see."""
    return *[p.__code__ for p in state.pieces], _signature(state)


def _signature(state):
    seen = [c.cell_contents for p in state.pieces for c in p.__closure__ or () if _has_contents(c)]
    return tuple(map(_seen_as, seen))


def _seen_as(x):
    if isinstance(x, _core.ArrayBase):
        return x._type, x._weak
    return x if isinstance(x, (builtins.bool, str)) else type(x)


def _has_contents(cell):
    try:
        cell.cell_contents
    except ValueError:
        return False
    return True


def _of_kinds(x, kinds):
    """x with leaves of these kinds."""
    leaves, treedef = arrays_of_results(x)
    out = []
    for leaf, kind in zip(leaves, kinds):
        if not isinstance(leaf, _core.ArrayBase) and kind[1] and kind[0].kind == "f":
            leaf = float(leaf)  # as which it stays a number of Python's
        if _control._kind(leaf) != kind:
            if kind == (_dtypes.float64, True) and not isinstance(leaf, _core.ArrayBase):
                leaf = float(leaf)  # stays a number of Python's
            else:
                leaf = _control._brought(leaf, kind)
                leaf = leaf._marked(True) if kind[1] else leaf
        out.append(leaf)
    return tree.unflatten(treedef, out)


class _Choice:
    """Two pieces of which one is taken: what both leave in a state as results of a cond."""

    _MOST_ROUNDS = 64

    def __init__(self, held, runs, state, line, what):
        self.held, self.runs, self.state, self.line, self.what = held, runs, state, line, what
        self.learned = _thread.learned.setdefault(captured_as(state), _Learned())
        self.examples, self.numbers = self.learned.examples, self.learned.numbers
        self.wanted, self.nothing = self.learned.wanted, self.learned.nothing
        # what is longer binds more: the other branch needs placeholders for it
        sizes = [len(p.__code__.co_code) for p in state.pieces]
        self.order = (1, 0) if sizes[0] >= sizes[1] else (0, 1)

    def run(self):
        held = self.held if self.order == (1, 0) else _ops.logical_not(self.held)
        for _ in range(self._MOST_ROUNDS):
            self.before, self.left, self.reasons = self.state.get(), {}, {}
            try:
                out = _control.cond(held, self._body(self.order[0]), self._body(self.order[1]))
                break
            except _Missing:
                self.state.put(self.before)
        else:
            raise InvalidError(f"{place()}{self.what} in line {self.line} cannot be captured")
        self.state.put(self.before)
        self.state.put(self._after(out))

    def _body(self, k):
        def body():
            if k in self.left:  # once more, with other dtypes
                self.left.clear()
                self.reasons.clear()
            after, error = one_round(
                self.state, self.before, self.runs[k], self.state.pieces[k], self.line, self.what
            )
            names = self.state.names
            slots = [_Slot(x) for x in after] if error is None else [_Slot(Unbound(n)) for n in names]
            ends = error is not None or self._returns(slots)
            for name, slot in zip(names, slots):
                if ends or name.startswith(_OWN):  # what comes behind does not look at it
                    slot.defined = True if slot.value is _ABSENT and not slot.why else slot.defined
            for i, slot in enumerate(slots):
                if isinstance(slot.value, End) and i in self.nothing:
                    slot.value = None
                elif isinstance(slot.value, End) and i in self.examples:
                    slot.value.check()
                    slot.value = _ABSENT
            self.left[k] = slots, error
            return self._first(slots) if len(self.left) == 1 else self._second(slots)

        return _effects.unwatched(body)

    def _returns(self, slots):
        names = self.state.names
        return "_hop_returned" in names and slots[names.index("_hop_returned")].value is True

    def _given(self, i, x):
        x = as_number(x) if i in self.numbers else x
        if type(x) is bool and i not in self.learned.flags and self.state.names[i].startswith(_OWN):
            return _Flag(x)
        return x

    def _joined(self, i, a, b):
        """(b with leaves of the kinds that it has in common with a, whether a must be captured again to have
        them too)"""
        kinds = [_control._kind(x) for x in arrays_of_results(a)[0]]
        both = [_control._join(k, _control._kind(x)) for k, x in zip(kinds, arrays_of_results(b)[0])]
        if both != kinds:
            self.learned.kinds[i] = both
            return b, True
        return _of_kinds(b, both), False

    def _first(self, slots):
        values = {i: s.value for i, s in enumerate(slots) if s.value is not _ABSENT}
        for i, example in self.examples.items():
            if i not in values and i < len(slots):
                values[i] = _like(example)
        self.emitted = {i: self._given(i, x) for i, x in values.items()}
        for i, kinds in self.learned.kinds.items():
            x = self.emitted.get(i)
            if x is not None and len(arrays_of_results(x)[0]) == len(kinds):
                self.emitted[i] = _of_kinds(x, kinds)
        return {"v": self.emitted, "d": {i: slots[i].defined for i in self.wanted}}

    def _second(self, slots):
        values, missing, first = {}, False, self.left[self._other(slots)][0]
        for i, slot in enumerate(slots):
            a, b = self.emitted.get(i, _ABSENT), slot.value
            unknown = [s for s in (slot, first[i]) if traced(s.defined)]
            if unknown and i not in self.wanted:
                self.wanted.add(i)
                missing = True
            if b is _ABSENT:
                if a is not _ABSENT:
                    values[i] = _like(_example(a))
                continue
            if isinstance(b, End) and a is None:
                slot.value = b = None
            if isinstance(a, End) and b is None:
                self.nothing.add(i)
                missing = True
                continue
            if isinstance(b, End) and a is not _ABSENT and not isinstance(a, End):
                b.check()
                slot.value, values[i] = _ABSENT, _like(_example(a))
                continue
            b = self._given(i, b)
            why = None if a is _ABSENT else differ(a, b)
            if a is _ABSENT or why and (first[i].value is _ABSENT or isinstance(a, End)):
                self.examples[i] = _example(b)
                missing = True
            elif isinstance(a, _Flag) != isinstance(b, _Flag) or isinstance(a, _Flag) and a != b:
                self.learned.flags.add(i)
                missing = True
            elif why is _NUMBER:
                self.numbers.add(i)
                missing = True
            elif why and self.state.spread(i, a, b):
                missing = True
            elif why:
                self.reasons[i] = why
                values[i] = _like(_example(a))
            else:
                values[i], again = self._joined(i, a, b)
                missing |= again
        if missing:
            raise _Missing
        return {"v": values, "d": {i: slots[i].defined for i in self.wanted}}

    def _other(self, slots):
        return next(k for k, (s, _) in self.left.items() if s is not slots)

    def _after(self, out):
        """The state behind the branches."""
        if self.left[0][1] is not None and self.left[1][1] is not None:
            raise self.left[1][1]  # nothing comes behind
        after = tuple([self._variable(i, name, out) for i, name in enumerate(self.state.names)])
        _identity.link_branches(out["v"], [[slot.value for slot in self.left[k][0]] for k in (0, 1)])
        self.state.check(after, self.before, self.what, self.line)
        return after

    def _variable(self, i, name, out):
        no, yes = self.left[0][0][i], self.left[1][0][i]
        for slot in (no, yes):
            if slot.why:
                return Unbound(name, slot.why)
        if i in self.reasons:
            first, second, where = self.reasons[i]
            yes, no = (second, first) if self.order == (1, 0) else (first, second)
            return Unbound(
                name, f"{self.what} in line {self.line} makes it {yes} where its condition holds and {no} "
                f"where it does not{where}, and only a run knows which: give it values of one type and "
                "structure"
            )  # fmt: skip
        if no.value is _ABSENT and yes.value is _ABSENT:
            return Unbound(name)
        both_there = no.value is not _ABSENT and yes.value is not _ABSENT
        value = out["v"].get(i)
        if isinstance(value, _Flag):
            value = value.value
        elif both_there and no.value is yes.value:
            value = no.value
        elif both_there and i not in self.numbers:
            value = same_numbers(no.value, yes.value, value)
        if i in self.wanted:
            defined = out["d"][i]
        elif no.defined is yes.defined:
            defined = no.defined
        else:
            defined = self.held if yes.defined else _ops.logical_not(self.held)
        if defined is True or name.startswith(_OWN):
            return value
        why = f"it is bound in one branch of {self.what} in line {self.line} only"
        return Maybe(name, value, defined, why)


def if_(test, then, other, get, put, names, line, seen=None):
    """seen: the function of the user's that then calls, where it is none itself."""
    test = asked(test)
    if not traced(test):
        (then if test else other)()
        return
    state = State(get, put, names, (other, seen or then))
    _Choice(test, (other, then), state, line, "the for" if seen else "the if").run()


def _pick(held, then, other, behind=None):
    """then() if held else other(). behind: the function of the user's that is called by one of them."""
    value = Unbound("_hop_picked")

    def get():
        return (value,)

    def put(values):
        nonlocal value
        value = values[0]

    def run(part):
        def piece():
            nonlocal value
            value = part()

        return piece

    pieces = (other, then) if behind is None else (behind, behind)
    state = State(get, put, ("_hop_picked",), pieces)
    _Choice(held, (run(other), run(then)), state, _core.place()[1], "the condition").run()
    return bound(value)


# ---- what else rewritten functions call ----

from ._flow_loops import append, comprehension, for_, generator, while_  # noqa: E402, F401 (they take these)
from ._flow_builtins import (  # noqa: E402, F401
    as_list, attribute, builtin, class_part, complete, is_mapping, is_of_class, is_sequence, item,
    python_function, twin, without,
)  # fmt: skip
