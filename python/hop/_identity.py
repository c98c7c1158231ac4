"""Which array an array may be. A branch or a loop of plain Python that becomes an operator gives new arrays
where Python would give one of those that there were. A write to such an array is refused while the other one
can be seen by another name: in Python that would change, too."""

import dis
import inspect
import itertools
import weakref

from . import _arguments, _core, tree
from ._arguments import place
from ._errors import InvalidError
from ._index import written_name
from ._objects import namespace

_MOST_INSIDE, _DEEP = 256, 3


def leaves(x):
    """The arrays of a tree, None where something else stands. Those without axes are numbers, which nobody
    writes to."""
    return [leaf if isinstance(leaf, _core.ArrayBase) and leaf.ndim else None for leaf in tree.leaves(x)]


def _link(x, others):
    """The array x may be one of these, and each of them may be x."""
    for y in others:
        if x is not None and y is not None and x is not y:
            _add(x, y)
            _add(y, x)


def _add(x, y):
    known = [ref for ref in x._perhaps or () if ref() is not None]
    if all(ref() is not y for ref in known):
        x._perhaps = (*known, weakref.ref(y))


def _twins(values):
    """Pairs of places (number of a value, number of a leaf) at which the same array stands."""
    first, out = {}, []
    for i, x in values:
        for j, leaf in enumerate(leaves(x)):
            if leaf is not None and first.setdefault(id(leaf), (i, j)) != (i, j):
                out.append((first[id(leaf)], (i, j)))
    return out


def _link_twins(pairs, made):
    """made: leaves of results by number."""
    for (i, j), (k, l) in pairs:
        if i in made and k in made and j < len(made[i]) and l < len(made[k]):
            _link(made[i][j], [made[k][l]])
            _link(made[k][l], [made[i][j]])


def link_branches(out, branches):
    """out: results of branches by number. branches: what each of them left, a list of values."""
    made = {i: leaves(x) for i, x in out.items()}
    for values in branches:
        for i, found in made.items():
            if i < len(values):
                for x, y in zip(found, leaves(values[i])):
                    _link(x, [y])
        _link_twins(_twins(enumerate(values)), made)


class Ties:
    """What the arrays that a loop carries may be. mixed: a round leaves one in the place of another. pairs:
    places at which a round leaves the same array. outer: (place, weak reference to an array from outside that
    a round may leave there)."""

    def __init__(self):
        self.mixed, self.pairs, self.outer = False, [], []

    def _first(self, kept, before):
        """Arrays before the loop, by the number of the variable."""
        found = {i: leaves(before[i]) for i in kept}
        every = [x for row in found.values() for x in row if x is not None] if self.mixed else []
        return {i: [[x, *every] for x in row] for i, row in found.items()}

    def begin(self, kept, before, carry):
        """carry: what a round is given for each of the variables kept."""
        made, first = {i: leaves(x) for i, x in zip(kept, carry)}, self._first(kept, before)
        for i, row in made.items():
            for x, others in zip(row, first[i]):
                _link(x, others)
        _link_twins(self.pairs, made)
        for (i, j), ref in self.outer:
            if i in made and j < len(made[i]):
                _link(made[i][j], [ref()])

    def change(self, kept, carry, values):
        """Whether what a round leaves tells more about that."""
        at = {id(x): (i, j) for i, y in zip(kept, carry) for j, x in enumerate(leaves(y)) if x is not None}
        moved = any(
            x is not None and at.get(id(x), (i, j)) != (i, j)
            for i, y in zip(kept, values)
            for j, x in enumerate(leaves(y))
        )
        pairs = _twins(zip(kept, values))
        outer = self._outer(kept, values, at)
        places = {p for p, _ in self.outer}
        self.outer += outer
        if (not moved or self.mixed) and all(p in self.pairs for p in pairs):
            if all(p in places for p, _ in outer):
                return False
        self.mixed |= moved
        self.pairs += [p for p in pairs if p not in self.pairs]
        return True

    def _outer(self, kept, values, at):
        """What is not known yet about arrays from outside that a round leaves. at: the carry's own."""
        out = []
        for i, y in zip(kept, values):
            for j, x in enumerate(leaves(y)):
                found = [] if x is None or id(x) in at else [x, *[ref() for ref in x._perhaps or ()]]
                for z in found:
                    known = any(p == (i, j) and ref() is z for p, ref in [*self.outer, *out])
                    if z is not None and id(z) not in at and not known and not _core.made_here(z):
                        out.append(((i, j), weakref.ref(z)))
        return out

    def end(self, kept, before, out, left):
        """out: what the loop gives; left: what a round left, by the number of the variable."""
        self.begin(kept, before, out)
        for i, x in zip(kept, out):
            for a, b in zip(leaves(x), leaves(left[i])):
                _link(a, [b])


def check_write(x):
    """An error where an array is written to that may be one that another name refers to."""
    for ref in x._perhaps:
        other = ref()
        name = None if other is None or other is x else _name_of(other)
        if name is not None:
            written = written_name(x)
            raise InvalidError(
                f"{place()}{written}[…] = …: in Python {written} and {name} may be the same array: a "
                "branch or a loop gave one of both, only a run knows which, and a write to the one would be "
                f"one to the other; write to a copy ({written} = {written} + 0 before), or in each branch"
            )


# ---- who refers to an array ----


def _name_of(x):
    """A name in the user's functions at work by which an array can still be reached; None: there is none."""
    frame, first = _arguments.user_frame(), True
    while frame is not None:
        if not _core.is_package_code(frame.f_code) and frame.f_code.co_name != "<module>":
            for name, held in list(frame.f_locals.items()):
                if name.startswith("_hop_") or name in _rest_names(frame.f_code):
                    continue
                if _holds(held, x, 0) and (first or _is_read_later(frame, name)):
                    return name
            first = False
        frame = frame.f_back
    return None


def _rest_names(code):
    """*args and **named, by which wrappers hand on what they were given."""
    n, flags = code.co_argcount + code.co_kwonlyargcount, code.co_flags
    count = bool(flags & inspect.CO_VARARGS) + bool(flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[n : n + count]


def _holds(held, x, depth):
    if held is x:
        return True
    if depth == _DEEP or isinstance(held, (_core.ArrayBase, str, bytes, int, float, type(None))):
        return False
    if isinstance(held, (list, tuple)):
        inside = list.__iter__(held) if isinstance(held, list) else tuple.__iter__(held)
    else:
        names = held if isinstance(held, dict) else None if isinstance(held, type) else namespace(held)
        inside = dict.values(names) if isinstance(names, dict) else ()
    return any(_holds(y, x, depth + 1) for y in itertools.islice(list(inside), _MOST_INSIDE))


def _is_read_later(frame, name):
    """Whether code of a frame may read a local variable after what it is at, before it is set again."""
    code = frame.f_code
    if name in code.co_cellvars or name in code.co_freevars:
        return True
    instructions = list(dis.get_instructions(code))
    at = {i.offset: k for k, i in enumerate(instructions)}
    waiting, seen = [sum(i.offset <= frame.f_lasti for i in instructions)], set()
    while waiting:
        k = waiting.pop()
        if k in seen or k >= len(instructions):
            continue
        seen.add(k)
        i = instructions[k]
        names = i.argval if isinstance(i.argval, tuple) else (i.argval,)
        if name in names and "FAST" in i.opname:
            if i.opname.startswith(("LOAD", "DELETE")) or i.opname.endswith("LOAD_FAST"):
                return True
            continue
        if i.opcode in dis.hasjrel or i.opcode in dis.hasjabs:
            waiting.append(at[i.argval])
        if not i.opname.startswith(("RETURN", "RAISE", "RERAISE")) and i.opname not in (
            "JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT",
        ):  # fmt: skip
            waiting.append(k + 1)
    return False
