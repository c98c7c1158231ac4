"""What rewritten functions (_rewrite.py) call: Python's control flow, which becomes operators where it meets
traced values."""

import builtins
import functools
import operator

from . import _arguments, _control, _core, _dtypes, _effects, _ops, tree
from ._arguments import place
from ._errors import InvalidError, TracerError


def traced(x):
    return isinstance(x, _core.ArrayBase) and x._traced


class Unbound:
    """A local variable that has no value."""

    __slots__ = ("_name", "_why")

    def __init__(self, name, why=None):
        self._name, self._why = name, why

    def _fail(self, *_, **__):
        if self._why:
            raise InvalidError(f"{place()}{self._name}: {self._why}")
        raise UnboundLocalError(f"local variable '{self._name}' has no value")

    __call__ = __getitem__ = __iter__ = __bool__ = __len__ = __float__ = __int__ = __index__ = _fail
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _fail
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __abs__ = _fail
    __lt__ = __le__ = __gt__ = __ge__ = __matmul__ = __rmatmul__ = __contains__ = _fail

    def __getattr__(self, name):
        self._fail()

    def __repr__(self):
        return f"<{self._name} is not bound>"


def unbound(name):
    return Unbound(name)


def result(x):
    if isinstance(x, Unbound):
        x._fail()
    return x


# ---- truth ----


def truth(x):
    """A traced value as the bool that Python would take it for."""
    if x.ndim and builtins.any(n != 1 for n in x.shape):
        raise TracerError(
            f"{place()}the truth of an array of type {x._type} is not one: hop.any or hop.all makes one of it"
        )
    x = x.reshape(()) if x.ndim else x
    return x if x.dtype is _dtypes.bool else x != 0


def not_(x):
    return _ops.logical_not(truth(x)) if traced(x) else not x


def _is_truth(x):
    return isinstance(x, builtins.bool) or isinstance(x, _core.ArrayBase) and x.dtype is _dtypes.bool


def and_(*parts):
    x = parts[0]()
    for part in parts[1:]:
        if not traced(x):
            if not x:
                return x
            x = part()
            continue
        x = _joined(x, part, True)
    return x


def or_(*parts):
    x = parts[0]()
    for part in parts[1:]:
        if not traced(x):
            if x:
                return x
            x = part()
            continue
        x = _joined(x, part, False)
    return x


def _joined(x, part, both):
    """x and part(), or x or part(): of truths a truth, else one of the two values."""
    held = truth(x)

    def rest():
        y = part()
        return truth(y) if traced(y) and _is_truth(x) else y

    def first():
        return held if _is_truth(x) else x

    return _control.cond(held, rest, first) if both else _control.cond(held, first, rest)


def _as_truth(x):
    return truth(x) if traced(x) else builtins.bool(x)


def both(*parts):
    """The truth of `a and b`."""
    x = True
    for part in parts:
        if traced(x):
            x = _control.cond(x, lambda p=part: _as_truth(p()), lambda: False)
        elif x:
            x = _as_truth(part())
    return x


def either(*parts):
    """The truth of `a or b`."""
    x = False
    for part in parts:
        if traced(x):
            x = _control.cond(x, lambda: True, lambda p=part: _as_truth(p()))
        elif not x:
            x = _as_truth(part())
    return x


def choose(test, then, other):
    if not traced(test):
        return then() if test else other()
    return _control.cond(truth(test), then, other)


_SIGNS = {
    "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt, "GtE": operator.ge, "Eq": operator.eq,
    "NotEq": operator.ne, "Is": operator.is_, "IsNot": operator.is_not,
    "In": lambda x, y: x in y, "NotIn": lambda x, y: x not in y,
}  # fmt: skip


def compare(left, signs, rest):
    """a < b < c: each operand is computed once, and those behind a comparison that fails are not."""
    right = rest[0]()
    said = _SIGNS[signs[0]](left, right)
    if len(signs) == 1:
        return said
    return and_(lambda: said, lambda: compare(right, signs[1:], rest[1:]))


def assert_(test, said):
    if not traced(test):
        if not test:
            text = said()
            raise AssertionError(*([] if text is None else [text]))
        return
    text = said()
    _ops.check(truth(test), "assertion failed" if text is None else str(text))


def raise_if(test, error):
    if not traced(test):
        if test:
            raise error()
        return
    raised = error()
    kind = raised.__name__ if isinstance(raised, type) else type(raised).__name__
    text = str(raised) if not isinstance(raised, type) else ""
    _ops.check(not_(test), f"{kind}: {text}" if text else kind)


# ---- branches and loops ----

_OWN = "_hop_"


class _Missing(_effects.Retried):
    """A variable is bound where it was not thought to be: the pieces are captured again."""


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

    leaves, treedef = tree.flatten(x)
    return [leaf(a) for a in leaves], treedef


def _like(example):
    """A placeholder: never read."""
    makers, treedef = example
    return tree.unflatten(treedef, [make() for make in makers])


def _quietly(run, piece, names, line, what):
    """run(), which calls a piece of the user's function that sets these variables; what else it changes is
    refused."""
    what = f"{what} in line {line}, of which only a run knows whether it is taken,"
    with _effects.watching(piece, own=names, what=what):
        return run()


def if_(test, then, other, get, put, names, line, seen=None):
    """seen: the function of the user's that both call, where they are none themselves."""
    what = "the for" if seen else "the if"
    if not traced(test):
        (then if test else other)()
        return
    before, held = get(), truth(test)
    examples, bound = {}, {}  # a value of each variable that a branch binds; those that each of them binds

    def run(piece, which):
        def body():
            put(before)
            _quietly(piece, seen or piece, names, line, what)
            after = dict(zip(names, get()))
            bound[which] = {n for n, x in after.items() if _is_bound(x)}
            for n in bound[which]:
                examples.setdefault(n, _example(after[n]))
            return {n: x if _is_bound(x) else _like(examples[n]) for n, x in after.items() if n in examples}

        return _effects.unwatched(body)

    def attempt():
        out = _control.cond(held, run(then, 1), run(other, 0))
        return out if set(out) == set(examples) else None

    # what the second branch binds and the first does not is known when both have run
    out = None
    while out is None:
        known = len(examples)
        try:
            out = attempt()
        except InvalidError:
            if len(examples) == known:
                raise
    put(before)
    after = []
    for name in names:
        if name not in out:
            after.append(Unbound(name))
        elif name in bound[0] & bound[1] or name.startswith(_OWN):
            after.append(out[name])
        else:
            after.append(Unbound(name, f"it is bound in one branch of the if in line {line} only, and which "
                                       "one is taken is known only when the program runs"))  # fmt: skip
    put(tuple(after))


def while_(test, body, get, put, names, line):
    while True:
        going = test()
        if traced(going):
            break
        if not going:
            return
        body()
    _loop(test, body, body, get, put, names, line, "the while")


def _loop(test, step, piece, get, put, names, line, what):
    """while test(): step(), of which it is known only when the program runs how often. piece: the function of
    the user's that step calls."""
    before = list(get())
    late = [not _is_bound(x) for x in before]  # bound by the body first
    fresh = {}

    def state(carry):
        given = iter(carry)
        put(tuple(x if not _is_bound(x) else next(given) for x in before))

    @_effects.unwatched
    def going(carry):
        state(carry)
        return _as_truth(_quietly(test, test, names, line, what))

    @_effects.unwatched
    def once(carry):
        state(carry)
        _quietly(step, piece, names, line, what)
        after = get()
        for i, (x, y) in enumerate(zip(before, after)):
            if not _is_bound(x) and _is_bound(y):
                fresh[i] = _example(y)
        if fresh:
            raise _Missing
        for n, x, y in zip(names, before, after):
            if _is_bound(x) and not _is_bound(y):
                raise InvalidError(f"{place()}{n} is deleted in {what} in line {line}")
        return [y for y in after if _is_bound(y)]

    for _ in range(len(before) + 1):
        try:
            out = _control.while_loop(going, once, [x for x in before if _is_bound(x)])
            break
        except _Missing:
            before = [_like(fresh.pop(i)) if i in fresh else x for i, x in enumerate(before)]
    given, after = iter(out), []
    for name, x, unset in zip(names, before, late):
        value = next(given) if _is_bound(x) else Unbound(name)
        if unset and _is_bound(value) and not name.startswith(_OWN):
            value = Unbound(name, f"it is bound in {what} in line {line} first, which may not run at all: "
                                  "give it a value before")  # fmt: skip
        after.append(value)
    put(tuple(after))


_FEW = 8  # slices of an array that a loop takes one by one


def for_(over, body, get, put, names, line, going=None):
    if isinstance(over, Range):
        _for_range(over, lambda i: i, body, get, put, names, line, going)
        return
    if traced(over) and over.ndim and (not isinstance(over.shape[0], int) or over.shape[0] > _FEW):
        every = Range(0, over.shape[0], 1)
        _for_range(every, lambda i: over[i], body, get, put, names, line, going)
        return
    for item in over:
        more = True if going is None else going()
        if traced(more):
            if_(more, lambda: body(item), lambda: None, get, put, names, line, body)  # noqa: B023
        elif more:
            body(item)
        else:
            return


def _for_range(r, item, body, get, put, names, line, going):
    at = r.start

    def test():
        ahead = at < r.stop if r.step > 0 else at > r.stop
        return ahead if going is None else both(lambda: ahead, going)

    def step():
        nonlocal at
        i = at
        body(item(i))
        at = i + r.step

    def read():
        return (at, *get())

    def write(values):
        nonlocal at
        at = values[0]
        put(values[1:])

    _loop(test, step, body, read, write, (_OWN + "index", *names), line, "the for")


class Range:
    """range of traced numbers, for loops."""

    def __init__(self, start, stop, step):
        self.start, self.stop, self.step = start, stop, step

    def __iter__(self):
        raise TracerError(
            f"{place()}range: how often this goes is known only when the program runs: a plain for can do it"
        )


# ---- calls ----


def twin(f):
    """A function as rewritten code calls it."""
    return _arguments.twins.of(f)


def _range(*args):
    if not builtins.any(map(traced, args)):
        return builtins.range(*args)
    start, stop, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
    if traced(step) or step == 0:
        raise _arguments.wrong("range: step", "a number known while the program is captured, not 0", step)
    return Range(start, stop, step)


def _extreme(name, of_two, of_axis):
    plain = getattr(builtins, name)

    def extreme(*args, **named):
        if named or not args:
            return plain(*args, **named)
        items = list(args[0]) if len(args) == 1 and not traced(args[0]) else args
        if not builtins.any(map(traced, items)):
            return plain(*(args if len(args) > 1 else (items,)))
        return of_axis(items[0]) if len(items) == 1 and items[0].ndim else functools.reduce(of_two, items)

    return extreme


def _quantified(join, of_array, decisive):
    """any or all, as Python goes through items: up to the first one that is known to decide."""

    def quantified(items):
        if traced(items):
            return of_array(items)
        out = not decisive
        for x in items:
            out = join(lambda before=out: before, lambda x=x: x)
            if out is decisive:
                break
        return out

    return quantified


BUILTINS = {
    builtins.range: _range, builtins.any: _quantified(either, _ops.any, True),
    builtins.all: _quantified(both, _ops.all, False),
    builtins.min: _extreme("min", _ops.minimum, _ops.min),
    builtins.max: _extreme("max", _ops.maximum, _ops.max),
}  # fmt: skip
