"""Loops of rewritten functions: over what only a run knows, and over the slices of arrays. A loop without
early exits is a scan or a fori_loop, others are a while_loop."""

import builtins
import functools
import sys

from . import _arguments, _control, _core, _effects, _flow, _identity, _index, _ops, _shapes, _syntax, tree
from ._arguments import place
from ._errors import InvalidError
from ._sources import Mapped, Stack, Tail, as_source, refused, traced


# ---- loops ----


class _Peel(_effects.Retried):
    """The first round leaves what others can go on with: it is taken apart from them."""


class _Apart(_Peel):
    """No round leaves what others can go on with: there are few, each is taken by itself."""


_MOST_APART, _MOST_PEELED = 64, 2  # rounds


class _Loop:
    """A loop of which pieces are rounds: its state is carried.

    Each variable is carried (with a bool that says whether it is bound, where that is not certain), or
    without a value at the beginning of a round (lost: why)."""

    _MOST_ROUNDS = 64

    def __init__(self, state, line, what, certain, otherwise=None):
        """certain: there is a round at least; otherwise: what is raised where rounds do not fit."""
        self.state, self.line, self.what = state, line, what
        self.certain, self.otherwise = certain, otherwise
        self.lost = {}
        self.examples, self.tracked, self.numbers = _flow._thread.learned.setdefault(
            ("loop", certain, *_flow.captured_as(state)), ({}, set(), set())
        )
        self.fixed = {}  # variables that each round begins with anew
        self.ties = _identity.Ties()

    def run(self, drive):
        """drive(init, once): the operator; once(carry, run) is a round, which gives the next carry. Gives
        what drive gives besides the carry."""
        for _ in builtins.range(self._MOST_ROUNDS):
            self.before = self.state.get()
            init = self._begin()
            try:
                out, more = drive(init, self._once)
                break
            except _flow._Missing:
                self.state.put(self.before)
            except _Peel:
                self.state.put(self.before)
                raise
        else:
            raise InvalidError(f"{place()}{self.what} in line {self.line} cannot be captured")
        self.state.put(self.before)
        self.state.put(self._end(out))
        return more

    def _begin(self):
        """The carry before the first round. kept: the indices of variables that are carried."""
        self.kept, values, defined = [], [], {}
        for i, x in enumerate(self.before):
            if i in self.fixed:
                continue
            slot = _flow._Slot(x)
            if slot.why and i not in self.lost:
                self.lost[i] = slot.why
            if i in self.lost or slot.value is _flow._ABSENT and i not in self.examples:
                continue
            if slot.defined is not True:
                self.tracked.add(i)
            value = _flow._like(self.examples[i]) if slot.value is _flow._ABSENT else slot.value
            self.kept.append(i)
            values.append(_flow.as_number(value) if i in self.numbers else value)
            defined[i] = slot.defined
        return values, {i: defined[i] for i in self.kept if i in self.tracked}

    def state_of(self, carry):
        """The state at the beginning of a round."""
        names = self.state.names
        given = dict(zip(self.kept, carry[0]))
        out = []
        for i, name in enumerate(names):
            if i in self.fixed:
                out.append(self.fixed[i])
            elif i in given and i in self.tracked and not name.startswith(_flow._OWN):
                out.append(_flow.Maybe(name, given[i], carry[1][i], self._why_unbound()))
            elif i in given:
                out.append(given[i])
            else:
                out.append(_flow.Unbound(name, self.lost.get(i)))
        return tuple(out)

    def _why_unbound(self):
        return f"it is bound in {self.what} in line {self.line} first, which may not have come there"

    def _once(self, carry, run):
        begun = self.state_of(carry)
        self.ties.begin(self.kept, self.before, carry[0])
        piece = self.state.pieces[0]
        after, error = _flow.one_round(self.state, begun, run, piece, self.line, self.what)
        if error is not None:  # no round comes behind this one
            self.after = [_flow._Slot(x) for x in begun]
            return carry
        self.after = slots = [_flow._Slot(x) for x in after]
        given, missing = dict(zip(self.kept, carry[0])), False
        values, defined = [], {}
        for i, slot in enumerate(slots):
            if i in self.fixed:
                continue
            if i not in given:
                missing |= self._found(i, slot)
                continue
            if slot.defined is not True and i not in self.tracked:
                if slot.why:
                    missing |= self._lose(i, slot.why)
                else:
                    self.tracked.add(i)
                    missing = True
            value = given[i] if slot.value is _flow._ABSENT else slot.value
            value = _flow.as_number(value) if i in self.numbers else value
            missing |= self._fits(i, given[i], value)
            values.append(value)
            defined[i] = slot.defined
        if missing or self.ties.change(self.kept, carry[0], values):
            raise _flow._Missing
        return values, {i: defined[i] for i in self.kept if i in self.tracked}

    def _found(self, i, slot):
        """A variable that had no value at the beginning of the round. Whether it is carried from now on."""
        if i in self.lost or slot.value is _flow._ABSENT:
            if slot.why and i not in self.lost:
                self.lost[i] = slot.why
            return False
        self.examples[i] = _flow._example(slot.value)
        self.tracked.add(i)
        return True

    def _lose(self, i, why):
        self.lost[i] = why
        return True

    def _fits(self, i, given, value):
        """Whether more has become known: that the loop cannot go on with what a round leaves."""
        why = _flow.differ(given, value, loop=True)
        if why is None:
            return False
        if why is _flow._NUMBER:
            self.numbers.add(i)
            return True
        if self.state.spread(i, given, value):
            return True
        if self.otherwise is not None:
            raise self.otherwise
        first = _flow.described(self.before[i]) if _flow._is_bound(self.before[i]) else why[0]
        name = self.state.names[i]
        if self.state.is_inside(i):
            raise refused(
                f"{self.what} in line {self.line} changes what is inside of {name}: {why[1]} where {why[0]} "
                f"was{why[2]}: how often that happens is known only when the program runs"
            )
        return self._lose(
            i, f"a round of {self.what} in line {self.line} makes it {why[1]}, it is {first} before{why[2]}: "
            f"begin with a value of the type that it gets{_advice(given, value)}"
        )  # fmt: skip

    def _end(self, out):
        """The state behind the loop."""
        given = dict(zip(self.kept, out[0]))
        self.ties.end(self.kept, self.before, out[0], {i: self.after[i].value for i in self.kept})
        after = []
        for i, name in enumerate(self.state.names):
            if i in self.fixed:
                after.append(self.before[i])
            elif i not in given:
                after.append(_flow.Unbound(name, self.lost.get(i)))
            else:
                after.append(self._variable(i, name, given[i], out[1].get(i, True)))
        self.state.check(after, self.before, self.what, self.line)
        return tuple(after)

    def _variable(self, i, name, value, defined):
        slot, x = self.after[i], self.before[i]
        if _flow._is_bound(x) and slot.value is not _flow._ABSENT and i not in self.numbers:
            value = _flow.same_numbers(x, slot.value, value)
        sure = defined is True or self.certain and slot.defined is True
        if sure or name.startswith(_flow._OWN):
            return value
        return _flow.Maybe(name, value, defined, self._why_unbound())


def _advice(given, value):
    is_int = isinstance(given, _core.ArrayBase) and given.dtype.kind in "iu"
    is_real = isinstance(value, float) or isinstance(value, _core.ArrayBase) and value.dtype.kind == "f"
    return "; integers divided by integers, or with real numbers, are floats" if is_int and is_real else ""


def while_(test, body, get, put, names, line):
    while True:
        going = _flow.asked(test())
        if traced(going):
            break
        if not going:
            return
        body()
    state = _flow.State(get, put, names, (body, test))
    loop = _Loop(state, line, "the while", False)
    _while_loop(loop, test, body, going)


def _while_loop(loop, test, run, first=None):
    """first: what the test has said, where it is asked before the loop. A test that changes the state is
    asked at the end of each round, as a part of it."""
    part_of_round = False

    def going(carry):
        nonlocal part_of_round
        begun = loop.state_of(carry)
        loop.state.put(begun)
        names, piece = loop.state.names, loop.state.pieces[-1]
        said = _flow._as_truth(_flow._quietly(test, piece, names, loop.line, loop.what))
        if first is not None and builtins.any(a is not b for a, b in zip(begun, loop.state.get())):
            part_of_round = True
            raise _flow._Missing
        return said

    def drive(init, once):
        step = _effects.unwatched(lambda carry: once(carry, run))
        if part_of_round:
            return _asked_in_rounds(init, once)
        return _control.while_loop(_effects.unwatched(going), step, init), None

    def _asked_in_rounds(init, once):
        def step(carry):
            said = False

            def round_():
                nonlocal said
                run()
                said = _flow._as_truth(test())

            return once(carry[0], round_), said

        out = _control.while_loop(lambda carry: carry[1], _effects.unwatched(step), (init, first))
        return out[0], None

    loop.run(drive)


def for_(over, body, get, put, names, line, going=None, written=False):
    """written: whether a round writes to what the loop goes over, which the next ones see."""
    source = as_source(over)
    if source is None:
        _python_for(over, body, get, put, names, line, going)
        return
    peeled = 0
    while True:
        n = source.n
        if isinstance(n, int) and n <= 0:
            return
        certain = isinstance(n, int) or isinstance(n, _shapes.Size) and _shapes.holds(n, ">=", 1) is True
        certain = certain and (going is None or not traced(_flow.asked(going())))
        stacks = _stacks(names) if going is None and not traced(n) and not written else {}
        otherwise = None
        if isinstance(n, int) and n > 1 and not stacks and peeled < _MOST_PEELED:
            otherwise = _Peel
        elif isinstance(n, int) and n <= _MOST_APART:
            otherwise = _Apart
        state = _flow.State(get, put, names, (body,), source.functions())
        loop = _Loop(state, line, "the for", certain, otherwise)
        try:
            if going is not None:
                _for_with_exits(loop, source, body, going)
            elif written or traced(n):
                _for_count(loop, source, body)
            else:
                _for_rows(loop, source, body, stacks)
            return
        except _Apart:
            _python_for(source, body, get, put, names, line, going)
            return
        except _Peel:
            peeled += 1
            body(source.at(0))
            more = True if going is None else _flow.asked(going())
            if not traced(more) and not more:
                return
            source = Tail(source)


def _python_for(over, body, get, put, names, line, going):
    for item in over:
        more = True if going is None else _flow.asked(going())
        if traced(more):
            _flow.if_(more, lambda: body(item), _nothing, get, put, names, line, body)  # noqa: B023
        elif more:
            body(item)
        else:
            return


def _nothing():
    pass


def _for_with_exits(loop, source, body, going):
    at = 0  # the number of the next item

    def test():
        return _flow.both(lambda: at < source.n, going)

    def run():
        nonlocal at
        body(source.at(at))
        at = at + 1

    inner = loop.state

    def get():
        return (*inner._get(), at)

    def put(values):
        nonlocal at
        inner._put(values[:-1])
        at = values[-1]

    names = (*inner._variables, _flow._OWN + "index")
    loop.state = _flow.State(get, put, names, inner.pieces, source.functions())
    _while_loop(loop, test, run)


def _for_count(loop, source, body):
    def drive(init, once):
        def step(i, carry):
            return once(carry, lambda: body(source.at(i)))

        return _control.fori_loop(0, source.n, _effects.unwatched(step), init), None

    loop.run(drive)


def _for_rows(loop, source, body, stacks):
    names = loop.state.names
    pending = loop.state._get()
    filled = [i for i in stacks if isinstance(pending[i], tuple)]  # by a loop around this one
    del pending
    active = [i for i, (_, j) in stacks.items() if i in filled or _can_fill(loop.state, j)]
    for i in active:
        name, j = stacks[i]
        why = f"the for in line {loop.line} fills it, and what is in it is known behind the loop"
        loop.fixed[i], loop.fixed[j] = (), _flow.Unbound(name, why)

    arrays = {id(x): x for x in source.arrays()}

    def drive(init, once):
        def step(carry, row):
            with _index.noting() as written:
                after = once(carry, lambda: body(source.of(row)))
            if arrays.keys() & written:
                raise refused(
                    f"the for in line {loop.line} goes over an array that a round of it writes to: go over "
                    "its indices, range(len(…)), instead"
                )
            return after, [_appended(loop.after[i], names[stacks[i][1]], loop) for i in active]

        return _control.scan(_effects.unwatched(step), init, source.rows())

    before = loop.state.get()
    filled = loop.run(drive)
    if active:
        _fill(loop, {i: stacks[i][1] for i in active}, before, filled)


# ---- lists that loops fill ----


def append(out, x, pending):
    """out.append(x), in a loop. pending: what has been appended in this round, where the loop makes a stack
    of that."""
    if isinstance(pending, tuple):
        return (*pending, x)
    _arguments.twins.of(_flow.bound(out).append)(x)
    return pending


def _stacks(names):
    """{index of what is pending: (name, index of the list)}"""
    out = {}
    for i, name in enumerate(names):
        if name.startswith(_syntax.STACK):
            base = name.removeprefix(_syntax.STACK)
            out[i] = base, names.index(base)
    return out


def _references(state, i):
    return sys.getrefcount(state._get()[i])


@functools.cache
def _fewest_references():
    """How many references to a list there are that a variable alone holds."""
    out = []

    def get():
        return (out,)

    return _references(_flow.State(get, None, ("out",), (get,)), 0)


def _can_fill(state, i):
    """Whether a loop can fill a list: it is empty, and nothing but the variable sees it."""
    x = state._get()[i]
    fits = type(x) is list and not x
    if isinstance(x, Stack):
        return True
    del x
    return fits and _references(state, i) <= _fewest_references()


def _appended(slot, name, loop):
    if slot.value is _flow._ABSENT or slot.defined is not True:
        why = slot.why or "not in every round"
        raise refused(f"{name}.append in {loop.what} in line {loop.line}: {why}: how many items there are "
                            "must be known: append in every round, or use an array")  # fmt: skip
    return slot.value


def _fill(loop, stacks, before, filled):
    """Puts what the rounds have appended into the lists."""
    after = list(loop.state.get())
    for (i, j), items in zip(stacks.items(), filled):
        if not items:  # nothing was appended
            continue
        made = _interleaved(items, loop.state.names[j], loop)
        pending = before[i]
        if isinstance(pending, tuple):  # a loop around this one fills the list
            after[i], after[j] = (*pending, made), before[j]
        elif isinstance(before[j], Stack):
            before[j].add(made)
        else:
            after[j] = made
    loop.state.put(tuple(after))


def _interleaved(items, name, loop):
    """One stack of what each round has appended: items, of which each has a row per round."""

    def wide(item):
        """The rows of one append, with an axis of how many items it stands for."""
        if isinstance(item, Stack):
            return item._rows
        return tree.map(lambda x: _ops.expand_dims(x, axis=1), item)

    every = [wide(item) for item in items]
    first = tree.structure(every[0])
    if builtins.any(tree.structure(e) != first for e in every[1:]):
        raise refused(f"{name}.append in {loop.what} in line {loop.line}: items of one round have different "
                            "structures")  # fmt: skip
    joined = every[0] if len(every) == 1 else tree.map(lambda *xs: _ops.concat(xs, axis=1), *every)
    return Stack(tree.map(lambda x: x.reshape((x.shape[0] * x.shape[1], *x.shape[2:])), joined))


# ---- comprehensions ----


def comprehension(over, make, line):
    """make(over), a list comprehension; over a source a stack."""
    source = as_source(over)
    if source is None:
        return make(over)
    if traced(source.n):
        raise refused(f"the comprehension in line {line}: how many items there are is known only when the "
                            "program runs: sum, min, max, any and all can take them one by one")  # fmt: skip
    if isinstance(source.n, int) and source.n <= 0:
        return []
    out, items = [], None

    def body(item):
        nonlocal items
        items = tuple(make((item,)))

    def get():
        return (items,)

    def put(values):
        nonlocal items
        (items,) = values

    loop = _Loop(_flow.State(get, put, ("_hop_items",), (make,)), line, "the comprehension", True)
    loop.fixed[0] = None

    def drive(init, once):
        def step(carry, row):
            return once(carry, lambda: body(source.of(row))), loop.after[0].value

        return _control.scan(_effects.unwatched(step), init, source.rows())

    items_of = loop.run(drive)
    return _interleaved(items_of, "the list", loop) if items_of else out


def generator(over, make, line, several=False):
    """make(over), a generator expression; over a source what gives its items to loops. several: each item of
    what it goes over may give more than one."""
    source = as_source(over)
    if source is None:
        return Items(over, make, several)

    def only(item):
        found = list(make((item,)))
        if len(found) != 1:
            raise refused(f"the generator expression in line {line} gives {len(found)} items for each of a "
                                "loop: write it as a list")  # fmt: skip
        return found[0]

    return Mapped(only, source)


class Items:
    """A generator expression over items of Python's, of which any and all compute no more than they need."""

    def __init__(self, over, make, several):
        self._over, self.make, self._made, self.several = iter(over), make, None, several

    def __iter__(self):
        return self

    def __next__(self):
        if self._made is None:
            self._made = self.make(self._over)
        return next(self._made)

    def parts(self):
        """A function for each item of what it goes over: it gives a list of those that come of it."""
        if self._made is not None:
            yield from (lambda x=x: [x] for x in self._made)
            return
        for x in self._over:
            yield lambda x=x, make=self.make: make((x,))
