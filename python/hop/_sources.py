"""What loops of rewritten functions go over without taking it apart: slices of arrays, hop.range, and what
Python's enumerate, zip, reversed and map make of them; and the list that a loop has filled."""

__all__ = ["range"]

import builtins
import operator

from . import _arguments, _core, _ops, _shapes, tree
from ._arguments import place
from ._errors import InvalidError, TracerError

_FEW = 8  # slices of an array that a loop takes one by one


def traced(x):
    return isinstance(x, _core.ArrayBase) and x._traced


def refused(text):
    """The error that something cannot be captured. A handler of the user's does not hide it."""
    return _core.unknown(InvalidError(f"{place()}{text}"))


class Source:
    """Something that a loop goes over without taking it apart. n: how many items, a number, a size or a
    traced number; at(i): an item; rows(): a tree of arrays with an item in each row; of(row): the item."""

    def __iter__(self):
        if type(self.n) is not int:
            raise refused("how many items there are is known only when the program runs: a for can go "
                                "over them, or a comprehension")  # fmt: skip
        return (self.at(i) for i in builtins.range(self.n))

    def __len__(self):
        return operator.index(self.n)

    def of(self, row):
        return row

    def arrays(self):
        """The arrays whose slices are gone over."""
        return [x for s in self._sources() for x in s.arrays()]

    def functions(self):
        """Functions that give the items."""
        return [f for s in self._sources() for f in s.functions()]

    def _sources(self):
        return [self._source] if hasattr(self, "_source") else []


class Slices(Source):
    """The slices of an array, or of a tree of arrays."""

    def __init__(self, rows):
        self._rows = rows
        self.n = tree.leaves(rows)[0].shape[0]

    def at(self, i):
        return tree.map(lambda x: x[i], self._rows)

    def rows(self):
        return self._rows

    def arrays(self):
        return tree.leaves(self._rows)


class range(Source):
    """hop.range(stop), hop.range(start, stop[, step]): whole numbers for a loop. Under jit a plain for over
    them is a loop of the program, whether the bounds are known or not, while range of known numbers is taken
    apart; outside of programs it is what Python's range is.

    >>> def power(x, n):
    ...     y = 1.0
    ...     for _ in hop.range(n):
    ...         y = y * x
    ...     return y
    >>> hop.jit(power)(hop.asarray(2.0), 10), power(2.0, 3)
    (Array(1024., dtype=float32), 8.0)
    """

    def __init__(self, *bounds):
        if not 1 <= len(bounds) <= 3:
            raise TypeError(f"{place()}range: expected from 1 to 3 numbers, found {len(bounds)}")
        start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
        self.start, self.stop, self.step = (_bound(b) for b in (start, stop, step))
        if traced(self.step) or self.step == 0:
            raise _arguments.wrong("range: step", "a number known while the program is captured, not 0", step)
        self.n = self._count()

    def _count(self):
        if not traced(self.start) and not traced(self.stop):
            return len(builtins.range(self.start, self.stop, self.step))
        ahead = self.stop - self.start if self.step > 0 else self.start - self.stop
        return _ops.maximum((ahead + (builtins.abs(self.step) - 1)) // builtins.abs(self.step), 0)

    def at(self, i):
        return self.start + i * self.step

    def rows(self):
        return (_ops.arange(self.n) * self.step + self.start)._marked(False)

    def __iter__(self):
        if _core.tracing() and not rewriting():
            raise _core.unknown(TracerError(
                f"{place()}hop.range: a loop of the program: use hop.fori_loop where plain control flow is "
                "not captured"
            ))  # fmt: skip
        return super().__iter__()

    def __repr__(self):
        return f"hop.range({self.start}, {self.stop}, {self.step})"

    def __len__(self):
        if type(self.n) is not int:
            raise refused("how long this range is is known only when the program runs")
        return self.n

    def __getitem__(self, i):
        if type(self.n) is int and not traced(i):
            return builtins.range(self.start, self.stop, self.step)[i]
        return self.at(i if not isinstance(i, int) or i >= 0 else self.n + i)

    def _contains(self, x):
        last = self.at(self.n - 1)
        low, high = (self.start, last) if self.step > 0 else (last, self.start)
        from ._flow import both  # which takes this module's classes

        return both(lambda: self.n > 0, lambda: low <= x, lambda: x <= high,
                    lambda: (x - self.start) % self.step == 0)  # fmt: skip

    def __contains__(self, x):
        return builtins.bool(self._contains(x))

    def __eq__(self, other):
        return isinstance(other, range) and tuple(self) == tuple(other)

    __hash__ = None


def _bound(x):
    if traced(x):
        if x.ndim or x.dtype.kind not in "iu":
            raise _arguments.wrong("range", "an integer scalar", x)
        return x
    return operator.index(x)


def rewriting():
    """Whether functions of the user's are captured in their rewritten form."""
    from . import _twins  # which takes this module's classes

    return _arguments.twins.of is _twins.twin


def iterated(x):
    """A traced array is gone over slice by slice. Where that are many, a capture that may be done again with
    loops as operators is."""
    twins = _arguments.twins
    again = twins.control and twins.tried and not _core.behind_cut() and _core.cuts() == twins.cuts
    if again and as_source(x) is not None and not rewriting():
        raise _core.unknown(TracerError(
            f"{place()}an array of type {x._type} has more than {_FEW} slices to go over: they are a loop, "
            "where plain control flow is captured"
        ))  # fmt: skip


class Enumerated(Source):
    def __init__(self, source, start=0):
        self._source, self._start, self.n = source, start, source.n

    def at(self, i):
        return self._start + i, self._source.at(i)

    def rows(self):
        return _counted(self.n, self._start), self._source.rows()

    def of(self, row):
        return row[0], self._source.of(row[1])


def _counted(n, start):
    return (_ops.arange(n) + start)._marked(False)


class Zipped(Source):
    """n: of the shortest, which is known."""

    def __init__(self, sources):
        self._zipped = sources
        self.n = sources[0].n
        if builtins.any(not _shapes.equal(s.n, self.n) for s in sources):
            self.n = builtins.min(s.n for s in sources)

    def at(self, i):
        return tuple([s.at(i) for s in self._zipped])

    def rows(self):
        return tuple([tree.map(lambda x: x[: self.n], s.rows()) for s in self._zipped])

    def of(self, row):
        return tuple([s.of(r) for s, r in zip(self._zipped, row)])

    def _sources(self):
        return self._zipped

    @staticmethod
    def can(sources):
        n = [s.n for s in sources]
        if builtins.all(isinstance(m, int) for m in n):
            return True
        return builtins.all(isinstance(m, _shapes.WHOLE) and _shapes.equal(m, n[0]) for m in n)


class Reversed(Source):
    def __init__(self, source):
        self._source, self.n = source, source.n

    def at(self, i):
        return self._source.at(self.n - 1 - i)

    def rows(self):
        return tree.map(lambda x: _ops.flip(x, axis=0), self._source.rows())

    def of(self, row):
        return self._source.of(row)


class Mapped(Source):
    """f of each item."""

    def __init__(self, f, source):
        self._f, self._source, self.n = f, source, source.n

    def functions(self):
        return [self._f, *super().functions()]

    def at(self, i):
        return self._f(self._source.at(i))

    def rows(self):
        return self._source.rows()

    def of(self, row):
        return self._f(self._source.of(row))


class Tail(Source):
    """All but the first item."""

    def __init__(self, source):
        self._source, self.n = source, source.n - 1

    def at(self, i):
        return self._source.at(i + 1)

    def rows(self):
        return tree.map(lambda x: x[1:], self._source.rows())

    def of(self, row):
        return self._source.of(row)


class Stack(Slices):
    """A list that a loop has filled: its items are the slices of arrays. As a result of a program it is a
    list again."""

    def __getitem__(self, i):
        if isinstance(i, slice):
            return Stack(tree.map(lambda x: x[i], self._rows))
        if not traced(i) and not -self.n <= operator.index(i) < self.n:
            raise IndexError("list index out of range")
        return self.at(i)

    def __iter__(self):
        return (self.at(i) for i in builtins.range(self.n))

    def __reversed__(self):
        return (self.at(i) for i in builtins.range(self.n - 1, -1, -1))

    def add(self, more):
        """Behind its items those of another stack."""
        from ._flow import differ

        why = differ(self.at(0), more.at(0), loop=True)
        if why:
            raise refused("a list that a loop has filled gets items of another type: list(…) makes one that "
                          "can hold them")  # fmt: skip
        self._rows = tree.map(lambda a, b: _ops.concat([a, b], axis=0), self._rows, more._rows)
        self.n = self.n + more.n

    def append(self, x):
        from ._flow import captures_pieces

        if captures_pieces():
            raise refused("a list that a loop has filled is changed where only a run knows whether")
        self.add(Stack(tree.map(lambda a: _ops.expand_dims(_ops.asarray(a), axis=0), x)))

    def __bool__(self):
        return self.n > 0

    def __add__(self, other):
        return [*self, *other]

    def __radd__(self, other):
        return [*other, *self]

    def _contains(self, x):
        from ._flow import contains

        return contains(x, list(self))

    def __getattr__(self, name):
        if name in _LIST_METHODS:
            raise refused(f"{name} of a list that a loop has filled: list(…) makes one that can be changed")
        raise AttributeError(f"'list' object has no attribute {name!r}")

    def __eq__(self, other):
        return list(self) == other

    __hash__ = None


_LIST_METHODS = frozenset(name for name in dir(list) if not name.startswith("_"))


def _stack_made(n, rows):
    leaves = tree.leaves(rows)
    made = Stack.__new__(Stack)
    made._rows, made.n = rows[0], n
    if leaves and builtins.all(isinstance(x, _core.ArrayBase) and not x._traced for x in leaves):
        return list(made)
    return made


tree.register(Stack, lambda s: ((s._rows,), s.n), _stack_made)


def as_source(x):
    """What a loop over x goes over as a whole; None: Python goes over it item by item."""
    if isinstance(x, Source):
        return x
    if traced(x) and x.ndim and (not isinstance(x.shape[0], int) or x.shape[0] > _FEW):
        return Slices(x)
    return None
