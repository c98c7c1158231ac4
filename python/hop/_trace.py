"""Capturing Python functions: trees of arguments become parameters, what a function uses from outside
becomes further ones, results become a tree again."""

import functools
import keyword
import re
import types

from . import _core, _dtypes, _effects, tree
from ._arguments import found as _found, place, twins
from ._dtypes import is_number
from ._errors import InvalidError, TracerError, WriteError
from ._ops import asarray
from ._ops.creation import _strong


_MOST_LISTED, _MOST_WRAPPED = 20, 16


# What to do with an argument that is no array: of jit, of the other transforms.
STATIC = "mark the argument as static if it is no array: static_argnums, static_argnames"
CLOSED = "what is no array must not be an argument here: close over it, as in hop.grad(lambda x: f(x, mode))"


def array_leaf(x, where, advice=None):
    """A leaf as an array with a dtype of its own; the error names where() it stands: a path and its root."""
    if isinstance(x, _core.ArrayBase):
        return _strong(x)
    try:
        return asarray(x)
    except (TypeError, ValueError, OverflowError) as error:
        hint = f" ({advice})" if isinstance(error, TypeError) and advice else ""
        raise TypeError(
            f"{place()}{tree.path_text(*where())}: {str(error).removeprefix(_core.call_place())}{hint}"
        ) from None


# ---- weak leaves: Python numbers, and arrays made of them alone ----
#
# Programs and bodies take and give plain arrays. A leaf that is weak is carried raw (a real Python number as
# float64, so that nothing is lost before it is known
# what it meets), and marked again on the other side.


def is_weak(x):
    """Whether a leaf takes the dtype of arrays that it meets."""
    if isinstance(x, _core.ArrayBase):
        return x._weak
    return isinstance(x, _core.Size) or is_number(x) and not isinstance(x, bool)


def raw_leaf(x, where, advice=None):
    """What a program is given for a leaf."""
    if isinstance(x, _core.Size):
        x = x._value
    if isinstance(x, _core.ArrayBase):
        return x._raw() if x._weak else x
    if type(x) in _TYPES_OF_NUMBERS and _core.tracing() and (type(x) is float or x in _INT64):
        return _constant(x)
    return (
        asarray(x, dtype=_dtypes.float64)
        if isinstance(x, float) and is_number(x)
        else array_leaf(x, where, advice)
    )


_TYPES_OF_NUMBERS = {bool: "bool[]", int: "i64[]", float: "f64[]"}
_INT64 = range(-(2**63), 2**63)


def _constant(x):
    """A number of Python as part of the program that is being captured."""
    return _core.call(_core.codes["full"], (x,), _TYPES_OF_NUMBERS[type(x)])


def raw_leaves(x, root, constants=False, numbers=True):
    """(arrays that a program or a body is given for the leaves of a tree, which of them are weak,
    structure). constants: what is no array is part of the structure; numbers: those of Python's are
    leaves all the same."""
    found, treedef = tree.split(x, _array_or_constant(x, root, numbers)) if constants else tree.flatten(x)
    weak = [is_weak(leaf) for leaf in found]
    for i, leaf in enumerate(found):
        found[i] = raw_leaf(leaf, lambda: (tree.leaf_paths(treedef)[i], root))
    return found, weak, treedef


def marked(values, weak, number=True):
    """Values with the marks that the leaves had; those that came from outside of every program stand for
    numbers where they can."""
    return [v._marked(number) if w else v for v, w in zip(values, weak)] if any(weak) else values


def given_leaves(found):
    """(leaves with dtypes of their own, which of them were weak) for the results of a program."""
    return [_strong(x) if isinstance(x, _core.ArrayBase) else x for x in found], [is_weak(x) for x in found]


def body_leaves(found):
    """(raw leaves, which of them are weak) for the results of a body inside of a program."""
    return [raw_result(x) for x in found], [is_weak(x) for x in found]


def raw_result(x):
    if isinstance(x, _core.Size):
        x = x._value
    if isinstance(x, _core.ArrayBase):
        return x._raw() if x._weak else x
    return _constant(x) if type(x) in (float, bool) else x


def arrays_of(x, root):
    """(arrays, structure) of a tree of arrays and numbers."""
    found, treedef = tree.flatten(x)
    for i, leaf in enumerate(found):
        found[i] = array_leaf(leaf, lambda: (tree.leaves_with_path(x)[i][0], root))
    return found, treedef


def arguments_of(fun, args, named, advice=CLOSED):
    """(arrays that a program is given, which of the arguments are weak, structure) of the arguments of a
    call; errors name the argument."""
    found, treedef = tree.flatten((args, named))
    weak = [is_weak(leaf) for leaf in found]

    def where():
        path = tree.leaves_with_path((args, named))[i][0]
        return path[2:], f"argument {path[1] if path[0] else call_names(fun, len(args))[path[1]]}"

    for i, leaf in enumerate(found):
        if weak[i] or not isinstance(leaf, _core.ArrayBase):
            found[i] = raw_leaf(leaf, where, advice)
    return found, weak, treedef


def function_name(fun):
    name = getattr(fun, "__name__", type(fun).__name__)
    name = re.sub(r"\W", "_", name)
    return "f" if not name or name == "_lambda_" or name[0].isdigit() else name


def codes(fun):
    """The code of a function and of those that it wraps: a transform's own code is that of all of its kind.
    None where it has none."""
    if not hasattr(fun, "__code__"):
        return None
    out = []
    while fun is not None and len(out) < _MOST_WRAPPED:
        out.append(getattr(fun, "__code__", None))
        fun = getattr(fun, "__wrapped__", None)
    return tuple(out)


def label(fun):
    """What the user calls a function, for texts and messages; None for a lambda."""
    while isinstance(fun, functools.partial):
        fun = fun.func
    name = getattr(fun, "__name__", None) or type(fun).__name__
    return None if name == "<lambda>" else name


def named(body, fun):
    """A body that stands for a function of the user's, with its name."""
    body._name = label(fun)
    return body


def body_of(flat, fun, given=None, jit=False):
    """The same, which runs that function: its effects on the host are errors. given: arguments by name that
    are no arrays; jit: it is a function under jit."""

    def body(*values):
        with _effects.watching(fun, given, jit=jit):
            return flat(*values)

    return named(body, fun)


def given_to(fun, operands, treedef):
    """What a body is given that is no array, by texts: constants of the structure of its operands."""
    out = {}
    if tree.constants(treedef):
        for (path, x), root in zip(tree.leaves_with_path(operands), _roots(fun, operands)):
            if not (isinstance(x, (_core.ArrayBase, str, bytes, type)) or is_number(x)):
                out[tree.path_text(path[1:], root)] = x
    return out


def _roots(fun, operands):
    names = call_names(fun, len(operands))
    return [names[path[0]] for path, _ in tree.leaves_with_path(operands)]


def called(what, fun):
    """the function 'step', for messages."""
    name = label(fun)
    return what if name is None else f"{what} '{name}'"


def argument_names(fun, n):
    """The names of the first n parameters that can be given by position, as far as they are known."""
    code = getattr(fun, "__code__", None)
    skip = 1 if hasattr(fun, "__self__") and code is not None else 0
    return (list(code.co_varnames[skip : code.co_argcount]) if code is not None else [])[:n]


def call_names(fun, n):
    """A name for each of n positional arguments: those of the function's code, or of what it stands for."""
    names = list(getattr(fun, "_argument_names", ()))[:n] or argument_names(fun, n)
    while not names and hasattr(fun, "__wrapped__"):
        fun = fun.__wrapped__
        names = argument_names(fun, n)
    return names + [f"x{i}" for i in range(len(names), n)]


def parameter_names(in_tree, roots):
    """Names for the leaves of the arguments: h, params_w, xs_0, …; each once."""
    out, seen = [], set()
    args, named = in_tree.children
    for root, part in (*zip(roots, args.children), *zip(named.rest, named.children)):
        for path in tree.leaf_paths(part):
            text = re.sub(r"\W+", "_", "_".join([root, *map(str, path)])).strip("_") or "x"
            if text[0].isdigit() or keyword.iskeyword(text):
                text = "x" + text
            while text in seen:
                text += "_"
            seen.add(text)
            out.append(text)
    return out


class Traced:
    """A captured function: its program, what it uses from outside, the structure of its results, and which
    leaves of arguments and results are weak. constraints: what the sizes of arguments must satisfy. updates:
    which arrays from outside it writes to, by number; what they become are results behind the others. parts:
    of a capture that was cut (_cut.py) what ran before function, which is the last part; else None."""

    __slots__ = (
        "function", "hidden", "constraints", "out_tree", "names", "leaves", "in_tree", "weak", "weak_out",
        "updates", "name", "parts", "_made",
    )  # fmt: skip

    def __init__(self):
        self.updates, self._made, self.parts = (), {}, None

    @property
    def cut(self):
        """Whether it is good for the values of these arguments alone."""
        return self.parts is not None

    def operands(self):
        return [*self.leaves, *self.hidden] if self.parts is None else list(self.hidden)

    def again(self, leaves, hidden):
        """The same for other arguments of these types."""
        t = Traced()
        for name in (
            "function", "constraints", "out_tree", "names", "in_tree", "weak", "weak_out", "name", "_made",
        ):  # fmt: skip
            setattr(t, name, getattr(self, name))
        t.leaves, t.hidden = leaves, hidden
        return t

    def transform(self, *how):
        """What the program's method of that name gives, made once."""
        return self._made_by(self.function.transform, how)

    def halves(self, *how):
        return self._made_by(self.function.halves, how)

    def _made_by(self, method, how):
        key = (method.__name__, *how)
        if key not in self._made:
            self._made[key] = method(*how)
        return self._made[key]


def capture(
    fun, args, named=None, leaves=None, types=None, weak=None, sizes="", hints=None, jit=False,
    may_write=False, in_tree=None, parts=None,
):  # fmt: skip
    """fun on traced values with the types of these arguments. leaves and weak: what arguments_of gave, and
    in_tree where constants are part of it. types: one per leaf, a text, an array that has the type, or such
    an array and the axis that it is without. sizes: declarations of sizes, "[T in 1..9]"; hints: those of the
    call at hand, by name. jit: the function is one under jit. may_write: arrays of numbers from outside that
    it writes to are updated by those who run it. parts(): what runs the parts of a capture that may be cut
    (_cut.py)."""
    named = named or {}
    roots = call_names(fun, len(args))
    t = Traced()
    if leaves is None:
        leaves, weak, in_tree = arguments_of(fun, args, named)
    elif in_tree is None:
        in_tree = tree.structure((args, named))
    t.leaves, t.weak, t.in_tree = leaves, weak, in_tree
    t.name = getattr(fun, "__name__", type(fun).__name__)
    t.names, seen = parameter_names(in_tree, roots), []
    once = None if parts is None else lambda asked=_core.asked(): _core.asked() != asked
    watching = _effects.watching(*getattr(fun, "_partly", (fun, None)), jit=jit, once=once)

    def flat(*values):
        a, k = tree.unflatten(in_tree, marked(values, weak))
        with watching:
            given = twins.of(fun)(*a, **k)
        found, out_tree = arrays_of_results(given)
        check_constants(out_tree)
        found, weak_out = given_leaves(found)
        seen.append((out_tree, weak_out))
        return found

    name, types = function_name(fun) + sizes, list(leaves if types is None else types)

    def record():
        if parts is None:
            return _capture_writing(flat, name, t.names, types, hints, may_write)
        cut = parts()
        made = _core.capture(flat, name, t.names, cut.begin(leaves), hints, [], cut)
        t.parts = cut if cut.was_cut else None
        return made, []

    made, written = controlled(record, fun, parts is not None)
    t.function, t.hidden, t.constraints = made
    t.out_tree, t.weak_out = seen[-1]
    t.updates = tuple([next(i for i, x in enumerate(t.hidden) if x._origin is y) for y in written])
    return t


def _capture_writing(fun, name, names, types, hints, may_write):
    """(what _core.capture gives, the arrays of numbers from outside that fun writes to: what they become are
    results behind the others)"""
    written = []
    while True:
        try:
            return _core.capture(fun, name, names, types, hints, written), written
        except WriteError as error:
            if not may_write or error.array._traced or any(error.array is x for x in written):
                raise
            written.append(error.array)


def controlled(capture, fun=None, cut=False):
    """capture(), which calls fun; where control flow meets values that only a run knows, the outermost
    capture is made once more, of functions in which it is operators. cut: it may be cut there instead."""
    if twins.tried or not twins.control:
        return _effects.settled(capture)
    from . import _twins  # which takes this module's functions

    return _twins.captured(lambda: _effects.settled(capture), fun, cut)


def arrays_of_results(x):
    """(leaves, structure) of what a function gives; Python numbers stay as they are. What is no array is part
    of the structure: it comes back as it is."""
    return tree.split(x, _array_or_constant(x, "result"))


def _array_or_constant(x, root, numbers=True):
    """What stands for a leaf of the tree x: arrays and numbers themselves, arrays of other libraries as
    arrays, tree.CONSTANT for anything else."""

    def as_leaf(leaf):
        if isinstance(leaf, _core.ArrayBase):
            return leaf
        if is_number(leaf):
            return leaf if numbers else tree.CONSTANT
        if isinstance(leaf, _core.Size):
            return leaf._value
        if isinstance(leaf, (str, bytes, type)):
            return tree.CONSTANT
        try:
            return asarray(leaf)
        except TypeError:
            return tree.CONSTANT
        except (ValueError, OverflowError):
            path = next(path for path, other in tree.leaves_with_path(x) if other is leaf)
            return array_leaf(leaf, lambda: (path, root))

    return as_leaf


# How many things are looked at to see whether a constant holds a traced value.
_MOST_INSIDE = 1000


def check_constants(treedef):
    """An error where a constant among the results of a program holds values of that program: they mean
    nothing outside of it."""
    if not tree.constants(treedef):
        return
    marks = tree.unflatten(treedef, [0] * treedef.num_leaves)
    for path, x in tree.leaves_with_path(marks):
        inside = None if is_number(x) else traced_inside(x, _core.traced_here)
        if inside is not None:
            where = tree.path_text(path, "result")
            raise TracerError(
                f"{place()}{where}: {_found(x)} holds a traced value of type {inside._type}, "
                "which means nothing outside of the captured function: give the arrays themselves, "
                "or make the class a node of trees (hop.tree.register)"
            )


def traced_inside(x, wanted):
    """An array for which wanted() holds that an object holds, None when none is found."""
    waiting, seen = [x], {}  # which keeps what it has seen alive, so that ids stay theirs
    while waiting and len(seen) < _MOST_INSIDE:
        x = waiting.pop()
        if id(x) in seen:
            continue
        seen[id(x)] = x
        if isinstance(x, _core.ArrayBase):
            if wanted(x):
                return x
        elif isinstance(x, (list, tuple, set, frozenset)):
            waiting.extend(x)
        elif isinstance(x, dict):
            waiting.extend(x.values())
        elif not isinstance(x, (str, bytes, int, float, type, types.ModuleType)):
            waiting.extend(_held_by(x))
    return None


def _held_by(x):
    """What an object's attributes and a function's closure refer to, found without running code of theirs."""
    out = []
    for cls in type(x).__mro__:
        for name, slot in vars(cls).items():
            if isinstance(slot, types.MemberDescriptorType) and name != "__globals__":
                try:
                    out.append(slot.__get__(x))
                except AttributeError:  # empty
                    pass
    try:
        out.append(object.__getattribute__(x, "__dict__"))
    except AttributeError:
        pass
    if isinstance(x, types.CellType):
        try:
            out.append(x.cell_contents)
        except ValueError:  # not yet bound
            pass
    return out


def apply(function, operands):
    """A program on values: a call in the program being captured, or a run."""
    if _core.tracing():
        return function.call(operands)
    return function.compile().run(operands)


def run_or_record(build, leaves, name):
    """build(*values) -> values, which records operators that take functions: in the program at work, or in
    one that is run at once."""
    if _core.tracing():
        return recorded(lambda: build(*leaves))
    names = [f"x{i}" for i in range(len(leaves))]
    made, written = controlled(lambda: _capture_writing(build, name, names, list(leaves), None, True))
    function, hidden, _ = made
    out = function.compile().run([*leaves, *hidden])
    n = len(out) - len(written)
    for x, now in zip(written, out[n:]):
        x._become(now)
    return out[:n]


def recorded(build):
    """What build() gives, which records an operator that takes functions. An array of numbers known now that
    one of these writes to is made a value of the program, and they are captured again."""
    while True:
        try:
            return _effects.settled(build)
        except WriteError as error:
            if not _core.trace_here(error.array):
                raise
            _core.known(error)


def raise_differences(what, lines):
    """One error about everything that does not fit."""
    if len(lines) == 1:
        raise InvalidError(f"{place()}{what}: {lines[0]}")
    shown = lines[:_MOST_LISTED] + (
        [f"and {len(lines) - _MOST_LISTED} more"] if len(lines) > _MOST_LISTED else []
    )
    raise InvalidError(f"{place()}{what}: {len(lines)} things do not fit:\n  " + "\n  ".join(shown))


def check_same_tree(what, expected, found, whose, root, leaf=None):
    """An error that names every place where a tree differs from what is expected: its structure, and
    leaves of which leaf(i, j) has something to say."""
    apart, together = ([], None) if expected == found else tree.compare(expected, found)
    lines = []
    for path, a, b in apart:
        there = f"has the structure {b}" if b is not None else "has nothing there"
        if b is not None and b.startswith("the constant "):
            there = f"gives {b}"
        lines.append(
            f"{tree.path_text(path, root)}: {whose} {there}, expected {a if a is not None else 'nothing'}"
        )
    if leaf is not None:
        numbers = together if together is not None else ((None, i, i) for i in range(expected.num_leaves))
        for path, i, j in numbers:
            said = leaf(i, j)
            if said and path is None:
                path = tree.compare(expected, expected)[1][i][0]
            if said:
                lines.append(f"{tree.path_text(path, root)}: {said}")
    if lines:
        raise_differences(what, lines)


def type_text(x):
    return x._type if isinstance(x, _core.ArrayBase) else asarray(x)._type
