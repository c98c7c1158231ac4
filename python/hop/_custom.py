"""Functions with rules of their own for derivatives and for vmap. In a capture a call of one is the operator
`custom`: the function's program, and those of its rules, which are captured with it. Outside of captures the
function is called as it is."""

__all__ = ["custom_vjp"]

import functools
import inspect
import threading
import types

from . import _arguments, _core, _effects, tree
from ._arguments import place, twins
from ._errors import InvalidError
from ._objects import Ruled
from ._ops import zeros_like
from ._trace import (
    array_leaf, arrays_of_results, called, check_constants, check_same_tree, function_name, given_leaves, label,
    marked, raw_leaves, recorded, type_text,
)  # fmt: skip


# ---- functions with rules ----


class _WithRules(Ruled):
    """A function with rules. _rules: by name, empty until they are given."""

    def __init__(self, fun, nondiff_argnums=(), nondiff_argnames=()):
        what = type(self).__name__
        self._fun = _arguments.function(f"{what}: fun", fun)
        static = _arguments.argument_numbers(f"{what}: nondiff_argnums", nondiff_argnums, fun)
        names = _arguments.argument_names(f"{what}: nondiff_argnames", nondiff_argnames, fun)
        if names:
            known = _arguments.signature(fun)
            for name in names:
                if known is None or name not in known.positional:
                    raise InvalidError(
                        f"{place()}{what}: nondiff_argnames: {name!r} is no argument that can be given by "
                        "position: rules get arguments by position alone"
                    )
            static += tuple(known.positional.index(name) for name in names)
        self._static, self._rules = tuple(sorted(set(static))), {}
        functools.update_wrapper(self, fun)

    def __get__(self, instance, owner=None):
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self):
        return f"<hop.{type(self).__name__} of {label(self._fun) or 'a function'}>"

    def __call__(self, *args, **named):
        if not _core.tracing():
            return self._fun(*args, **named)
        return self._recorded(_positional(type(self).__name__, self._fun, args, named))

    def _rule(self, name, how):
        if name not in self._rules:
            raise InvalidError(
                f"{place()}{type(self).__name__}: {called('the function', self._fun)} has no rule: give it "
                f"one with {how}"
            )
        return self._rules[name]


def _positional(what, fun, args, named):
    """The arguments of a call in order, those by default too: rules know no names."""
    code = getattr(fun, "__code__", None)
    if not named and code is not None and len(args) == code.co_argcount and not code.co_kwonlyargcount:
        return args
    try:
        bound = inspect.signature(fun).bind(*args, **named)
    except ValueError:  # a function that does not tell its signature
        if not named:
            return args
        raise InvalidError(
            f"{place()}{what}: {called('the function', fun)} does not say what its arguments are called: "
            "give them by position"
        ) from None
    bound.apply_defaults()
    if bound.kwargs:
        raise InvalidError(
            f"{place()}{what}: {called('the function', fun)}: its argument {next(iter(bound.kwargs))!r} can be "
            "given by name alone, and rules get arguments by position"
        )
    return bound.args


class custom_vjp(_WithRules):
    """fun with a gradient of one's own: f = hop.custom_vjp(fun), then f.defvjp(forward, backward).

    forward(*args) gives (what fun gives, what backward needs), a tree of anything. backward(needs, cotangent)
    gives a tuple with the cotangent of each argument, None where it is zero. Other transforms follow from
    these: forward mode is the transpose of backward, which must be linear in the cotangent for that;
    with tangent="body" it is the derivative of fun, for a backward that is not (one that clips).
    Derivatives of the second order differentiate forward and backward.

    nondiff_argnums, nondiff_argnames: arguments without derivatives, which may be anything; backward gets
    them first: backward(*nondiff, needs, cotangent). Numbers of Python's, and other things that are no
    arrays, need not be among them.

    >>> @hop.custom_vjp
    ... def clipped(x):
    ...     return x
    >>> clipped.defvjp(lambda x: (x, None), lambda _, g: (hop.clip(g, -1, 1),))
    >>> hop.grad(lambda x: 10 * clipped(x))(2.0)
    Array(1., dtype=float32)
    """

    __module__ = "hop"

    def __new__(cls, fun=None, **options):
        return functools.partial(cls, **options) if fun is None else super().__new__(cls)

    def __init__(self, fun=None, nondiff_argnums=(), nondiff_argnames=(), *, tangent="transpose"):
        super().__init__(fun, nondiff_argnums, nondiff_argnames)
        if tangent not in ("transpose", "body"):
            raise _arguments.wrong("custom_vjp: tangent", '"transpose" or "body"', tangent)
        self._tangent = tangent

    def defvjp(self, fwd, bwd):
        """Gives the rules: fwd(*args) -> (result, needs), bwd(needs, cotangent) -> cotangents of the
        arguments."""
        self._rules["vjp"] = (
            _arguments.function("defvjp: fwd", fwd), _arguments.function("defvjp: bwd", bwd),
        )  # fmt: skip

    def _recorded(self, args):
        fwd, bwd = self._rule("vjp", "defvjp")
        static = _static_of(self._static, args)

        def backward(needs, cotangent):
            return twins.of(bwd)(*[args[i] for i in static], needs, cotangent)

        return record(
            "custom_vjp", self._fun, args, static, forward=fwd, backward=_named(backward, bwd),
            tangent=self._tangent, owner=self,
        )  # fmt: skip


def _static_of(positions, args):
    """The positions of arguments without derivatives in a call of so many."""
    n = len(args)
    return tuple(sorted({p % n for p in positions if -n <= p < n}))


def _named(rule, fun):
    """A rule that calls a function of the user's."""
    rule.__wrapped__ = fun
    rule.__name__ = getattr(fun, "__name__", "rule")
    return rule


# ---- calls ----


def record(
    what, fun, args, static=(), *, forward=None, backward=None, tangent="transpose", owner=None
):  # fmt: skip
    """A call fun(*args) with these rules, in the capture at work. It is what every function with rules comes
    to; rules are functions of the arguments as they stand in args, whose trees hold arrays and anything else.

    what: who calls, for messages. static: positions of arguments without derivatives.
    forward(*args) -> (what fun gives, needs); backward(needs, cotangent) -> a tuple or list with the cotangent
    of each argument that is not static, None where it is zero. It is called while forward is captured: values
    of that which it uses are what is saved, however it gets them.
    tangent: "transpose" or "body". owner: the function whose rules these are, should they call it."""
    return recorded(lambda: _Call(what, fun, args, static, owner).recorded(forward, backward, tangent))


class _Rule:
    """A captured function: its program, what it uses from outside, the structure and the types of what it
    gives."""

    __slots__ = ("function", "hidden", "out_tree", "weak_out", "types")


class _AtWork(threading.local):
    """owners: of the rules that are being captured, outermost first."""

    def __init__(self):
        self.owners = []


_at_work = _AtWork()
# How deep the calls of a function in its own rules have rules.
_MOST_INSIDE = 3


class _Call:
    """One call of a function with rules: its arguments apart, its body captured."""

    def __init__(self, what, fun, args, static, owner):
        self.what, self.fun, self.owner = what, fun, owner
        self.static, self.args = static, args
        given = tuple([x for i, x in enumerate(args) if i not in static])
        self.leaves, self.weak, self.treedef = raw_leaves(given, "argument", constants=True, numbers=False)

    def arguments(self, values):
        """All arguments, with these values for the leaves of those that have derivatives."""
        given = iter(tree.unflatten(self.treedef, marked(values, self.weak)))
        return [x if i in self.static else next(given) for i, x in enumerate(self.args)]

    def recorded(self, forward, backward, tangent):
        inside = sum([o is self.owner for o in _at_work.owners]) if self.owner is not None else 0
        if inside >= _MOST_INSIDE:
            return twins.of(self.fun)(*self.args)
        body = self._body()
        _at_work.owners.append(self.owner)
        try:
            fwd, bwd, gives = self._gradient(body, forward, backward)
        finally:
            _at_work.owners.pop()
        n, n_body = len(self.leaves), len(body.hidden)
        outside = [*body.hidden, *fwd.hidden]
        operands = [*self.leaves, *outside]
        out = _core.custom(
            _widened(body.function, operands, n, n, n_body),
            operands,
            (_widened(fwd.function, operands, n, n + n_body, len(fwd.hidden)), bwd, None, None),
            gives,
            len(outside),
            tangent == "body",
        )  # fmt: skip
        return tree.unflatten(body.out_tree, marked(out, body.weak_out, False))

    def _body(self):
        def flat(*values):
            found, out_tree = arrays_of_results(twins.of(self.fun)(*self.arguments(values)))
            check_constants(out_tree)
            return found, out_tree

        return _captured(self.fun, flat, self.leaves)

    def _gradient(self, body, forward, backward):
        """(what forward gives behind the results is what backward takes before the cotangents, the program
        of backward, numbers of the leaves that it gives cotangents for)"""
        made = []

        def flat(*values):
            given = twins.of(forward)(*self.arguments(values))
            if not isinstance(given, (tuple, list)) or len(given) != 2:
                raise InvalidError(
                    f"{place()}{self.what}: {_whose('forward', forward)} must give a pair (result, what "
                    f"backward needs), it gives {_shown(given)}"
                )
            out, needs = given
            found, out_tree = arrays_of_results(out)
            found, _ = given_leaves(found)
            self._check_result(body, out_tree, found, _whose("forward", forward))
            found = [array_leaf(x, lambda: ((), "result")) for x in found]
            bwd, gives = self._backward(backward, needs, out_tree, found)
            floats = [x for x in found if _is_float(x)]
            program = bwd.function
            if bwd.hidden:
                n = len(bwd.hidden)
                saved = [*bwd.hidden, *floats]
                program = _function("backward", lambda *v: bwd.function.call([*v[n:], *v[:n]]), saved)
            made.append((program, gives))
            return [*found, *bwd.hidden], None

        fwd = _captured(forward, flat, self.leaves)
        return fwd, *made[-1]

    def _backward(self, backward, needs, out_tree, results):
        gives = []

        def flat(*values):
            rest = iter(values)
            cotangents = [next(rest) if _is_float(x) else zeros_like(x) for x in results]
            given = twins.of(backward)(needs, tree.unflatten(out_tree, cotangents))
            found = self._cotangents(backward, given)
            gives[:] = [i for i, x in enumerate(found) if x is not None]
            return [x for x in found if x is not None], None

        bwd = _captured(backward, flat, [x for x in results if _is_float(x)])
        return bwd, gives

    def _check_result(self, body, out_tree, found, whose):
        def leaf(i, j):
            expected, is_ = body.types[i], type_text(found[j])
            return None if expected == is_ else f"{whose} gives {is_}, expected {expected}"

        what = f"{self.what}: {called('the function', self.fun)}"
        check_same_tree(what, body.out_tree, out_tree, whose, "result", leaf)

    def _cotangents(self, backward, given):
        """What backward gives, for each leaf of the arguments: an array of its type, None for a zero."""
        what, whose = f"{place()}{self.what}: ", _whose("backward", backward)
        parts = self.treedef.children
        if not isinstance(given, (tuple, list)):
            raise InvalidError(
                f"{what}{whose} must give a tuple with the cotangent of each argument, it gives {_shown(given)}"
            )
        if len(given) != len(parts):
            raise InvalidError(
                f"{what}{whose} gives {len(given)} cotangents, the function has {len(parts)} arguments with "
                "derivatives: one is expected for each, None where it is zero"
            )
        found, numbers = [], [i for i in range(len(self.args)) if i not in self.static]
        for number, part, x in zip(numbers, parts, given):
            root = f"cotangent of argument {number}"
            found += _matched(part, x, root, f"{what}{whose}")
        for i, (x, leaf) in enumerate(zip(found, self.leaves)):
            if x is None or not _is_float(leaf):
                found[i] = None
                continue
            if x._weak or self.weak[i]:
                x = x.astype(leaf.dtype)
            if x._type != leaf._type:
                path = tree.leaf_paths(self.treedef)[i]
                where = tree.path_text(path[1:], f"argument {numbers[path[0]]}")
                raise InvalidError(
                    f"{what}{whose}: the cotangent of {where} has type {x._type}, expected {leaf._type}, "
                    "the type of the argument"
                )
            found[i] = x
        return found


def _whose(what, rule):
    """A rule in words, with the place where it is written."""
    fun = inspect.unwrap(rule)
    code = getattr(fun, "__code__", None)
    return called(what, fun) + (f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else "")


def _is_float(x):
    return x.dtype.kind == "f"


def _shown(x):
    return _arguments.found(x) if tree._apart(x) is None else f"a tree {tree.structure(x)}"


def _matched(t, x, root, whose, path=()):
    """An array for each leaf of a structure, of a tree that has it; None for a zero: for a leaf, or a whole
    part. Where the structure has a constant, anything may stand."""
    if x is None:
        return [None] * t.num_leaves
    if t.kind is tree.CONSTANT:
        return []
    node = tree._apart(x)
    if t.kind is None and node is None:
        if getattr(getattr(x, "dtype", None), "names", None) == ("float0",):
            return [None]
        return [array_leaf(x, lambda: (path, root))]
    if node is None or node[0] is not t.kind or len(node[2]) != len(t.children) or not tree._same_rest(
        t.kind, node[1], t.rest
    ):
        raise InvalidError(
            f"{whose}: {tree.path_text(path, root)} has the structure {tree.structure(x)._text()}, expected "
            f"{t._text()}"
        )
    out = []
    for key, part, child in zip(node[3], t.children, node[2]):
        out += _matched(part, child, root, whose, (*path, key))
    return out


def _captured(fun, flat, types):
    """flat(*values) -> (leaves, their structure), which calls fun, captured on values of these types."""
    rule, seen = _Rule(), []

    def body(*values):
        with _effects.watching(fun):
            found, out_tree = flat(*values)
        found, weak_out = given_leaves(found)
        seen.append((out_tree, weak_out, [type_text(x) for x in found]))
        return found

    names = [f"x{i}" for i in range(len(types))]
    rule.function, rule.hidden, _ = _core.capture(body, function_name(fun), names, list(types))
    rule.out_tree, rule.weak_out, rule.types = seen[-1]
    return rule


def _function(name, flat, types):
    """A function of values that calls others."""
    return _core.capture(flat, name, [f"x{i}" for i in range(len(types))], list(types))[0]


def _widened(function, operands, n, at, count):
    """A function of all operands that calls this one with the first n, and count of them from a number on."""
    if len(operands) == n:
        return function
    return _function(
        function.name, lambda *values: function.call([*values[:n], *values[at : at + count]]), operands
    )
