"""jit(f, mut=…): arguments that a call updates. The program has them as parameters that are `mut`; a run
writes into the memory of NumPy's arrays, and into that of hop's where nobody else sees it."""

from . import _arguments, _core, tree
from ._arguments import place
from ._errors import InvalidError
from ._trace import argument_names


class Mut:
    """Which arguments a function under jit updates, by number and by name."""

    __slots__ = ("numbers", "names")

    def __init__(self, given, fun):
        many = (given,) if isinstance(given, str) or hasattr(given, "__index__") else given
        if not isinstance(many, (tuple, list, set, frozenset, range)):
            raise _arguments.wrong("jit: mut", "numbers or names of arguments", given)
        names = tuple([x for x in many if isinstance(x, str)])
        numbers = tuple([x for x in many if not isinstance(x, str)])
        self.numbers = _arguments.argument_numbers("jit: mut", numbers, fun)
        self.names = _arguments.argument_names("jit: mut", names, fun)
        known = argument_names(fun, 1 << 16 if hasattr(fun, "__code__") else 0)
        # each can be given either way
        more = tuple([known[p] for p in self.numbers if -len(known) <= p < len(known)])
        self.numbers += tuple([i for i, name in enumerate(known) if name in self.names])
        self.names += more

    def __bool__(self):
        return bool(self.numbers or self.names)

    @property
    def key(self):
        return self.numbers, self.names

    def differs_from(self, numbers, names, what):
        """An error where an argument is updated that is something else, too."""
        both = [*(set(self.numbers) & set(numbers)), *(set(self.names) & set(names))]
        if both:
            raise InvalidError(
                f"{place()}jit: argument {both[0]!r} is {what}, so a call cannot update it (mut)"
            )


def lent(numbers, leaves, weak, args, named, roots):
    """(the leaves with those of these numbers as a run updates them, which are weak)"""
    given = tree.leaves_with_path((args, named))
    leaves, weak = list(leaves), list(weak)
    for i in numbers:
        path, x = given[i]
        leaves[i], weak[i] = x, False
        if not isinstance(x, _core.ArrayBase):
            leaves[i] = _lent(x, tree.path_text(path[2:], roots[path[1]] if not path[0] else path[1]))
    return leaves, weak


def _lent(x, name):
    array = _core.lend(x) if hasattr(x, "dtype") and hasattr(x, "__setitem__") else None
    if array is None:
        raise InvalidError(
            f"{place()}jit: {name} is updated (mut): expected an array of hop or NumPy, "
            f"found {_arguments.found(x)}, which cannot be"
        )
    if array._memory == 2:
        raise InvalidError(f"{place()}jit: {name} is updated (mut), but its memory is read-only: give a copy")
    if array._memory == 0:
        raise InvalidError(
            f"{place()}jit: {name} is updated (mut), but hop cannot use its memory as it is (another byte "
            "order, or elements that are not aligned): give a copy in the order of this machine"
        )
    return array
