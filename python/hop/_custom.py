"""Functions with rules of their own for derivatives and for vmap. In a capture a call of one is the operator
`custom`: the function's program, and those of its rules, which are captured with it. Outside of captures the
function is called as it is."""

__all__ = ["custom_gradient", "custom_jvp", "custom_vjp"]

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
from ._transforms import with_zero_numbers


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


class custom_jvp(_WithRules):
    """fun with a derivative of one's own: f = hop.custom_jvp(fun), then f.defjvp(rule), or f.defjvps with a
    rule for each argument. Reverse mode is the transpose of the rule, which must be linear in the tangents.

    rule(primals, tangents) gives (what fun gives, its tangent); both arguments are tuples.
    nondiff_argnums, nondiff_argnames: arguments without derivatives, which may be anything; the rule gets
    them first: rule(*nondiff, primals, tangents).

    >>> @hop.custom_jvp
    ... def log1pexp(x):
    ...     return hop.log(1 + hop.exp(x))
    >>> @log1pexp.defjvp
    ... def rule(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return log1pexp(x), (1 - 1 / (1 + hop.exp(x))) * t
    >>> hop.grad(log1pexp)(100.0)
    Array(1., dtype=float32)
    """

    __module__ = "hop"

    def __new__(cls, fun=None, *args, **options):
        return functools.partial(cls, *args, **options) if fun is None else super().__new__(cls)

    def defjvp(self, jvp, symbolic_zeros=False):
        """Gives the rule: jvp(primals, tangents) -> (result, its tangent). Tangents that are zero come as
        zeros, whatever symbolic_zeros says."""
        _arguments.flag("defjvp: symbolic_zeros", symbolic_zeros)
        self._rules["jvp"] = _arguments.function("defjvp: jvp", jvp)
        return jvp

    def defjvps(self, *jvps):
        """Gives a rule for each argument: jvp(tangent, result, *primals) -> the part of the tangent that
        comes of this argument; None: there is none."""
        if self._static:
            raise InvalidError(f"{place()}defjvps: the function has nondiff_argnums: give one rule with defjvp")
        for jvp in jvps:
            if jvp is not None:
                _arguments.function("defjvps: jvps", jvp)
        fun = self._fun

        def rule(primals, tangents):
            if len(jvps) != len(primals):
                raise InvalidError(
                    f"{place()}custom_jvp: {called('the function', fun)} has {len(primals)} arguments, "
                    f"defjvps was given {len(jvps)} rules: one is expected for each, or None"
                )
            out = self(*primals)
            parts = [twins.of(f)(t, out, *primals) for f, t in zip(jvps, tangents) if f is not None]
            return out, functools.reduce(_added, parts, None)

        self._rules["jvp"] = rule

    def _recorded(self, args):
        rule = self._rule("jvp", "defjvp")
        static = _static_of(self._static, args)

        def jvp(primals, tangents):
            return twins.of(rule)(*[args[i] for i in static], primals, tangents)

        return record("custom_jvp", self._fun, args, static, jvp=_named(jvp, rule), owner=self)


def _added(a, b):
    """The sum of two trees of tangents; None is a zero."""
    if a is None or b is None:
        return b if a is None else a
    return tree.map(lambda x, y: x + y, a, b)


def custom_gradient(fun):
    """A function with a gradient of its own: fun(*args) gives (result, gradient), and gradient(cotangent)
    gives the cotangents of the arguments: a tuple, or the one of the only argument. What it uses of fun is
    what is saved.

    >>> @hop.custom_gradient
    ... def square(x):
    ...     return x * x, lambda g: 3 * x * g
    >>> square(4.0), hop.grad(square)(4.0)
    (16.0, Array(12., dtype=float32))
    """
    _arguments.function("custom_gradient: fun", fun)

    def pair(args, named=None):
        given = twins.of(fun)(*args, **(named or {})) if _core.tracing() else fun(*args, **named)
        if not isinstance(given, (tuple, list)) or len(given) != 2 or not callable(given[1]):
            raise InvalidError(
                f"{place()}custom_gradient: {_whose('the function', fun)} must give a pair (result, gradient), a "
                f"function of the cotangent, it gives {_shown(given)}"
            )
        return given

    @functools.wraps(fun)
    def with_gradient(*args, **named):
        if not _core.tracing():
            return pair(args, named)[0]
        args = _positional("custom_gradient", fun, args, named)

        def backward(gradient, cotangent):
            given = twins.of(gradient)(cotangent)
            return (given,) if len(args) == 1 and not isinstance(given, (tuple, list)) else given

        body, forward = (lambda *args: pair(args)[0]), lambda *args: pair(args)
        return record(
            "custom_gradient", _named(body, fun), args, forward=_named(forward, fun),
            backward=_named(backward, fun), owner=with_gradient,
        )  # fmt: skip

    return _core.entry(with_gradient)


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
    what, fun, args, static=(), *, forward=None, backward=None, jvp=None, tangent="transpose", owner=None
):  # fmt: skip
    """A call fun(*args) with these rules, in the capture at work. It is what every function with rules comes
    to; rules are functions of the arguments as they stand in args, whose trees hold arrays and anything else.

    what: who calls, for messages. static: positions of arguments without derivatives.
    forward(*args) -> (what fun gives, needs); backward(needs, cotangent) -> a tuple or list with the cotangent
    of each argument that is not static, None where it is zero. It is called while forward is captured: values
    of that which it uses are what is saved, however it gets them. Without forward it is
    backward((args, what fun gives), cotangent), and what fun gives has these rules, too: they count for
    derivatives of every order.
    jvp(primals, tangents) -> (what fun gives, its tangent), of the arguments that are not static.
    tangent: "transpose" or "body". owner: the function whose rules these are, should they call it."""
    return recorded(lambda: _Call(what, fun, args, static, owner).recorded(forward, backward, jvp, tangent))


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

    def given(self, values):
        """The arguments that have derivatives, with these values for their leaves."""
        return tree.unflatten(self.treedef, marked(values, self.weak))

    def arguments(self, values):
        """All of them."""
        given = iter(self.given(values))
        return [x if i in self.static else next(given) for i, x in enumerate(self.args)]

    def recorded(self, forward, backward, jvp, tangent):
        inside = sum([o is self.owner for o in _at_work.owners]) if self.owner is not None else 0
        if inside >= _MOST_INSIDE:
            return twins.of(self.fun)(*self.args)
        body = self._captured_body()
        fwd = bwd = push = gives = None
        _at_work.owners.append(self.owner)
        try:
            if forward is not None:
                fwd, bwd, gives = self._gradient(body, forward, backward)
            elif backward is not None:
                bwd, gives = self._gradient_of_call(body, backward)
            if jvp is not None:
                push = self._pushforward(body, jvp)
        finally:
            _at_work.owners.pop()
        out = self._emitted(body, fwd, bwd, push, gives, tangent)
        return tree.unflatten(body.out_tree, marked(out, body.weak_out, False))

    def _emitted(self, body, fwd, bwd, push, gives, tangent):
        """The operator. What any of its functions uses from outside are further operands of all of them."""
        n, at, whole = len(self.leaves), {}, bwd if fwd is None else None
        parts = [r for r in (body, fwd, push, whole) if r is not None]
        outside = [x for r in parts for x in r.hidden]
        operands = [*self.leaves, *outside]
        for r in parts:
            at[r] = n + sum([len(other.hidden) for other in at]), len(r.hidden)

        def wide(rule, more=()):
            """A rule as a function of all operands; more: its further parameters, which come last."""
            if rule is None or not outside:
                return rule and rule.function
            first, count = at[rule]

            def call(*values):
                rest = values[len(operands) :]
                return rule.function.call([*values[:n], *rest, *values[first : first + count]])

            return _function(rule.function.name, call, [*operands, *more])

        moved = [x for x in self.leaves if _is_float(x)]
        if whole is not None and outside:
            bwd = self._with_results(body, operands, lambda results, _: wide(whole, _with_floats(results)))
        elif whole is not None:
            bwd = whole.function
        rules = wide(fwd), bwd, wide(push, moved), None
        return _core.custom(wide(body), operands, rules, gives, len(outside), tangent == "body")

    def _captured_body(self):
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
            bwd, gives = self._backward(backward, lambda: needs, out_tree, found)
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

    def _gradient_of_call(self, body, backward):
        """(backward as a function of the leaves, the results, then the cotangents; numbers of the leaves that
        it gives cotangents for), where there is no forward"""
        n = len(self.leaves)

        def needs(*values):
            out = tree.unflatten(body.out_tree, marked(values[n:], body.weak_out, False))
            return tuple(self.arguments(values[:n])), out

        def made(results, values):
            bwd, gives = self._backward(backward, needs, body.out_tree, results, [*values, *results])
            bwd.hidden = [x if x._origin is None else x._origin for x in bwd.hidden]
            return bwd, gives

        return self._with_results(body, self.leaves, made)

    def _with_results(self, body, operands, made):
        """made(results of the body, operands), inside of a capture that serves for their types alone."""
        out, n = [], len(self.leaves)

        def flat(*values):
            out.append(made(body.function.call([*values[:n], *body.hidden]), values))
            return (), None

        _captured(self.fun, flat, operands)
        return out[-1]

    def _backward(self, backward, needs, out_tree, results, saved=()):
        """(backward as a function of values like these that are saved, of which needs gives its first
        argument, and of the cotangents; numbers of the leaves that it gives cotangents for)"""
        gives, n = [], len(saved)

        def flat(*values):
            rest = iter(values[n:])
            cotangents = [next(rest) if _is_float(x) else zeros_like(x) for x in results]
            given = twins.of(backward)(needs(*values[:n]), tree.unflatten(out_tree, cotangents))
            found = self._cotangents(backward, given)
            gives[:] = [i for i, x in enumerate(found) if x is not None]
            return [x for x in found if x is not None], None

        bwd = _captured(backward, flat, [*saved, *[x for x in results if _is_float(x)]])
        return bwd, gives

    def _pushforward(self, body, jvp):
        n, floats = len(self.leaves), [_is_float(x) for x in self.leaves]
        whose = _whose("the rule", jvp)

        def flat(*values):
            rest = iter(values[n:])
            moved = [next(rest) if f else zeros_like(x) for f, x in zip(floats, values)]
            tangents = with_zero_numbers(self.treedef, iter(marked(moved, self.weak)))
            given = twins.of(jvp)(self.given(values[:n]), tangents)
            if not isinstance(given, (tuple, list)) or len(given) != 2:
                raise InvalidError(
                    f"{place()}{self.what}: {whose} must give a pair (result, its tangent), it gives "
                    f"{_shown(given)}"
                )
            found, out_tree = arrays_of_results(given[0])
            found, _ = given_leaves(found)
            self._check_result(body, out_tree, found, whose)
            tangents = _matched(out_tree, given[1], "tangent", f"{place()}{self.what}: {whose}")
            return [*found, *self._tangents(found, tangents, out_tree, whose)], None

        return _captured(jvp, flat, [*self.leaves, *[x for x, f in zip(self.leaves, floats) if f]])

    def _tangents(self, results, tangents, out_tree, whose):
        out = []
        for i, (y, t) in enumerate(zip(results, tangents)):
            y = array_leaf(y, lambda: ((), "result"))
            if not _is_float(y):
                continue
            t = zeros_like(y) if t is None else t.astype(y.dtype) if t._weak else t
            if t._type != y._type:
                where = tree.path_text(tree.leaf_paths(out_tree)[i], "the result")
                raise InvalidError(
                    f"{place()}{self.what}: {whose}: the tangent of {where} has type {t._type}, expected "
                    f"{y._type}, the type of the result"
                )
            out.append(t)
        return out

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


def _with_floats(results):
    return [*results, *[x for x in results if _is_float(x)]]


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

