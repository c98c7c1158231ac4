"""Functions with rules of their own for derivatives and for vmap. In a capture a call of one is the operator
`custom`: the function's program, and those of its rules, which are captured with it. Outside of captures the
function is called as it is."""

__all__ = [
    "SymbolicZero", "custom_gradient", "custom_jvp", "custom_vjp", "custom_vmap", "linear_transpose",
]  # fmt: skip

import collections
import functools
import inspect
import threading
import types

from . import _arguments, _core, _dtypes, _effects, _modes, tree
from ._arguments import place, twins
from ._errors import InvalidError
from ._objects import Ruled
from ._jax import ShapeDtypeStruct
from ._ops import broadcast_to, zeros, zeros_like
from ._sizes import parts_of_text
from ._trace import (
    apply, array_leaf, arrays_of_results, called, capture, check_constants, check_same_tree, function_name,
    given_leaves, label, marked, raw_leaves, recorded, type_text,
)  # fmt: skip
from ._transforms import by_argument, directions, for_leaf, with_zero_numbers


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

    def __reduce__(self):
        return self.__qualname__  # as functions are: found by name, and never copied

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
            f"{place()}{what}: {called('the function', fun)}: its argument {next(iter(bound.kwargs))!r} can "
            "be given by name alone, and rules get arguments by position"
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

    def defvjp(self, fwd, bwd, symbolic_zeros=False, optimize_remat=False):
        """Gives the rules: fwd(*args) -> (result, needs), bwd(needs, cotangent) -> cotangents of the
        arguments.

        With symbolic_zeros bwd gets a hop.SymbolicZero for a result that nothing depends on, where there are
        at most three results that are floats (else zeros, as without it); fwd gets objects with attributes
        value and perturbed, which is True for every float, differentiated or not. optimize_remat changes
        nothing: it is taken because JAX's programs give it."""
        rules = _arguments.function("defvjp: fwd", fwd), _arguments.function("defvjp: bwd", bwd)
        _arguments.flag("defvjp: optimize_remat", optimize_remat)
        self._rules["vjp"] = *rules, _arguments.flag("defvjp: symbolic_zeros", symbolic_zeros)

    def _recorded(self, args):
        fwd, bwd, symbolic = self._rule("vjp", "defvjp")
        static = _static_of(self._static, args)

        def forward(*args):
            return twins.of(fwd)(*[x if i in static else _primals(x) for i, x in enumerate(args)])

        def backward(needs, cotangent):
            return twins.of(bwd)(*[args[i] for i in static], needs, cotangent)

        return record(
            "custom_vjp", self._fun, args, static, forward=_named(forward, fwd) if symbolic else fwd,
            backward=_named(backward, bwd), missing=symbolic_zero if symbolic else None,
            tangent=self._tangent, owner=self,
        )  # fmt: skip


class SymbolicZero:
    """What a rule given with symbolic_zeros gets for the cotangent of a result that nothing depends on: a
    zero with a shape and a dtype. A rule may give one, too, as it may give None.

    >>> hop.SymbolicZero((2, 3), hop.float32).shape
    (2, 3)
    """

    __slots__ = ("shape", "dtype")
    __module__ = "hop"

    def __init__(self, shape, dtype):
        self.shape, self.dtype = shape, dtype

    @property
    def ndim(self):
        return len(self.shape)

    def __repr__(self):
        return f"SymbolicZero(shape={self.shape}, dtype={self.dtype})"


def symbolic_zero(x):
    return SymbolicZero(x.shape, x.dtype)


class _Primal:
    """An argument of a forward with symbolic_zeros."""

    __slots__ = ("value", "perturbed")

    def __init__(self, value):
        self.value = value
        self.perturbed = isinstance(value, _core.ArrayBase) and _is_float(value)


def _primals(x):
    return tree.map(_Primal, x)


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
            raise InvalidError(
                f"{place()}defjvps: the function has nondiff_argnums: give one rule with defjvp"
            )
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


class custom_vmap(_WithRules):
    """fun with a rule for hop.vmap: f = hop.custom_vmap(fun), then f.def_vmap(rule).

    rule(axis_size, in_batched, *args) gets the arguments with the axis of vmap in front and gives (result,
    out_batched), where out_batched says for each part of the result whether it has that axis in front. The
    rule is captured once for all calls: axis_size is a hop.Size, arguments that all lanes share are repeated,
    and in_batched is True for every array. Derivatives are those of fun, and of the rule behind vmap.

    >>> @hop.custom_vmap
    ... def total(x):
    ...     return hop.sum(x)
    >>> @total.def_vmap
    ... def rule(axis_size, in_batched, xs):
    ...     return hop.sum(xs, axis=1), True
    >>> hop.vmap(total)(hop.ones((2, 3)))
    Array([3., 3.], dtype=float32)
    """

    __module__ = "hop"

    def __init__(self, fun):
        super().__init__(fun)

    def def_vmap(self, vmap_rule):
        """Gives the rule: vmap_rule(axis_size, in_batched, *args) -> (result, out_batched)."""
        self._rules["vmap"] = _arguments.function("def_vmap: vmap_rule", vmap_rule)
        return vmap_rule

    def _recorded(self, args):
        return record("custom_vmap", self._fun, args, batch=self._rule("vmap", "def_vmap"), owner=self)


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
                f"{place()}custom_gradient: {_whose('the function', fun)} must give a pair (result, "
                f"gradient), a function of the cotangent, it gives {_shown(given)}"
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


def linear_transpose(fun, *primals):
    """The transpose of a linear function: a function of a cotangent of fun's result that gives a tuple of
    cotangents, one for each argument. primals: arrays, or hop.ShapeDtypeStruct, whose types alone matter. A
    function that is not linear in all of them together is an error.

    >>> transposed = hop.linear_transpose(lambda x: 3 * hop.roll(x, 1), hop.ones(3))
    >>> transposed(hop.asarray([1.0, 2.0, 3.0]))
    (Array([6., 9., 3.], dtype=float32),)
    """
    _arguments.function("linear_transpose: fun", fun)
    structs = lambda x: isinstance(x, ShapeDtypeStruct)
    primals = tree.map(lambda x: zeros(x.shape, dtype=x.dtype) if structs(x) else x, primals, is_leaf=structs)
    t = capture(fun, primals)
    for path, x in zip(tree.leaf_paths(t.in_tree.children[0]), t.leaves):
        if not _is_float(x):
            raise InvalidError(
                f"{place()}linear_transpose: {tree.path_text(path[1:], f'argument {path[0]}')} has dtype "
                f"{x.dtype}: a linear function takes floats; close over what is no float"
            )
    function = t.transform("linear_transpose", ", ".join(t.names))
    operands = [*[zeros_like(x) for x in t.leaves], *t.hidden]
    types = t.function.results

    def transposed(cotangent):
        given = directions(
            t.out_tree, cotangent, "linear_transpose", "cotangent", "the cotangent has", "the result"
        )
        wanted = []
        for i, (x, expected) in enumerate(zip(given, types)):
            text, sizes = expected[:-1].split("[", 1)
            dtype = _BY_TEXT[text]
            if dtype.kind != "f":
                continue
            x = zeros(tuple(map(int, parts_of_text(sizes))), dtype=dtype) if x is None else x
            x = x.astype(dtype) if x._weak else x
            if x._type != expected:
                path = tree.path_text(tree.leaf_paths(t.out_tree)[i], "cotangent")
                raise InvalidError(
                    f"{place()}linear_transpose: {path} is {x._type}, the result is {expected}"
                )
            wanted.append(x)
        found = [for_leaf(t, i, x) for i, x in enumerate(apply(function, [*operands, *wanted]))]
        return by_argument(t.in_tree, tuple(range(len(primals))), found, tuple(range(len(primals))))

    return _core.entry(transposed)


_BY_TEXT = {dtype.text: dtype for dtype in _dtypes.ALL}


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


def record(what, fun, args, static=(), *, owner=None, later=None, **rules):
    """A call fun(*args) with these rules, in the capture at work. It is what every function with rules comes
    to; rules are functions of the arguments as they stand in args, whose trees hold arrays and anything else.

    what: who calls, for messages. static: positions of arguments without derivatives.
    forward(*args) -> (what fun gives, needs); backward(needs, cotangent) -> a tuple or list with the
    cotangent of each argument that is not static, None where it is zero. It is called while forward is
    captured: values of that which it uses are what is saved, however it gets them. Without forward it is
    backward((args, what fun gives), cotangent), and what fun gives has these rules, too: they count for
    derivatives of every order.
    jvp(primals, tangents) -> (what fun gives, its tangent), of the arguments that are not static.
    batch(axis_size, in_batched, *args) -> (what fun gives, which parts of that have the axis in front), of
    arguments that all have one more axis in front, but for static ones.
    missing(result): what backward gets in the place of the cotangent of a result, an array, that nothing
    depends on; None: zeros. There is a backward for each set of cotangents then, so it is called several
    times; with more than _MOST_ASKED results that are floats all are zeros.
    tangent: "transpose" or "body". owner: the function whose rules these are, should they call it.
    later(): further rules by name, which are asked for when fun, which decides of them, is captured."""
    return recorded(lambda: _Call(what, fun, args, static, owner).recorded(rules, later))


_RULES = dict(dict.fromkeys(("forward", "backward", "jvp", "batch", "missing")), tangent="transpose")
_Rules = collections.namedtuple("_Rules", _RULES, defaults=_RULES.values())


class _Rule:
    """A captured function: its program, what it uses from outside, the structure and the types of what it
    gives."""

    __slots__ = ("function", "hidden", "out_tree", "weak_out", "types", "leaves")


# A program, numbers of the leaves that it gives cotangents for, whether it asks which cotangents there are.
_Backward = collections.namedtuple("_Backward", "program gives asks")


class _AtWork(threading.local):
    """owners: of the rules that are being captured, outermost first."""

    def __init__(self):
        self.owners = []


_at_work = _AtWork()
# How deep the calls of a function in its own rules have rules; how many results may be asked for cotangents.
_MOST_INSIDE, _MOST_ASKED = 3, 3


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

    def recorded(self, rules, later):
        body, inside = self._captured_body(), 0
        rules = _Rules(**rules, **(later() if later is not None else {}))
        if self.owner is not None:
            inside = sum([o is self.owner for o in _at_work.owners])
        if inside >= _MOST_INSIDE:
            derived = rules.backward is not None or rules.jvp is not None
            out = self._emitted(body, None, None, None, None, "none" if derived else "body", False)
            return tree.unflatten(body.out_tree, marked(out, body.weak_out, False))
        fwd = push = over = None
        back = _Backward(None, None, False)
        _at_work.owners.append(self.owner)
        try:
            if rules.forward is not None:
                fwd, back = self._gradient(body, rules)
            elif rules.backward is not None:
                whole, gives = self._gradient_of_call(body, rules)
                back = _Backward(whole, gives, False)
            if rules.jvp is not None:
                push = self._pushforward(body, rules.jvp)
            if rules.batch is not None and self.leaves:
                over = self._over_lanes(body, rules.batch)
        finally:
            _at_work.owners.pop()
        out = self._emitted(body, fwd, push, over, back.gives, rules.tangent, back.asks, back.program)
        return tree.unflatten(body.out_tree, marked(out, body.weak_out, False))

    def _emitted(self, body, fwd, push, over, gives, tangent, asks, bwd=None):
        """The operator. What any of its functions uses from outside are further operands of all of them."""
        n, at, whole = len(self.leaves), {}, bwd if fwd is None else None
        parts = [r for r in (body, fwd, push, over, whole) if r is not None]
        outside = [x for r in parts for x in r.hidden]
        operands = [*self.leaves, *outside]
        for r in parts:
            at[r] = n + sum([len(other.hidden) for other in at]), len(r.hidden)

        def wide(rule, more=(), leaves=None):
            """A rule as a function of all operands; more: its further parameters, which come last; leaves:
            the types of the first ones."""
            if rule is None or not outside:
                return rule and rule.function
            first, count = at[rule]

            def call(*values):
                rest = values[len(operands) :]
                return rule.function.call([*values[:n], *rest, *values[first : first + count]])

            return _function(rule.function.name, call, [*(leaves or self.leaves), *outside, *more])

        moved = [x for x in self.leaves if _is_float(x)]
        if whole is not None and outside:
            bwd = self._with_results(body, operands, lambda results, _: wide(whole, _with_floats(results)))
        elif whole is not None:
            bwd = whole.function
        rules = wide(fwd), bwd, wide(push, moved), wide(over, leaves=over and over.leaves)
        return _core.custom(wide(body), operands, rules, gives, len(outside), tangent, asks)

    def _captured_body(self):
        def flat(*values):
            found, out_tree = arrays_of_results(twins.of(self.fun)(*self.arguments(values)))
            check_constants(out_tree)
            return found, out_tree

        return _captured(self.fun, flat, self.leaves)

    def _gradient(self, body, rules):
        """(forward, _Backward): what forward gives behind the results is what backward takes before the
        cotangents."""
        made, forward = [], rules.forward

        def flat(*values):
            given = twins.of(forward)(*self.arguments(values))
            self._check_pair(given, _whose("forward", forward), "what backward needs")
            out, needs = given
            found, out_tree = arrays_of_results(out)
            found, _ = given_leaves(found)
            self._check_result(body, out_tree, found, _whose("forward", forward))
            found = [array_leaf(x, lambda: ((), "result")) for x in found]
            back, saved = self._backwards(rules, needs, out_tree, found)
            made.append(back)
            return [*found, *saved], None

        fwd = _captured(forward, flat, self.leaves)
        return fwd, made[-1]

    def _gradient_of_call(self, body, rules):
        """(backward as a function of the leaves, the results, then the cotangents; numbers of the leaves that
        it gives cotangents for), where there is no forward"""
        n = len(self.leaves)

        def needs(*values):
            out = tree.unflatten(body.out_tree, marked(values[n:], body.weak_out, False))
            return tuple(self.arguments(values[:n])), out

        def made(results, values):
            bwd, gives = self._backward(rules, needs, body.out_tree, results, saved=[*values, *results])
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

    def _backwards(self, rules, needs, out_tree, results):
        """(_Backward, the values that it saves)"""
        floats = [x for x in results if _is_float(x)]
        if rules.missing is None or not 1 < len(floats) <= _MOST_ASKED:
            bwd, gives = self._backward(rules, lambda: needs, out_tree, results)
            n, saved, program = len(bwd.hidden), bwd.hidden, bwd.function
            if saved:
                program = _function(
                    "backward", lambda *v: bwd.function.call([*v[n:], *v[:n]]), [*saved, *floats]
                )
            return _Backward(program, gives, False), saved
        # one for each set of cotangents that there are, of which the operator's question chooses
        sets = range(1, 1 << len(floats))
        every = [self._backward(rules, lambda: needs, out_tree, results, there)[0] for there in sets]
        saved = [x for bwd in every for x in bwd.hidden]

        def branch(there, bwd, first):
            def call(*values):
                cotangents = [x for k, x in enumerate(values[len(saved) :]) if there >> k & 1]
                return bwd.function.call([*cotangents, *values[first : first + len(bwd.hidden)]])

            return call

        def chosen(*values):
            n, first, branches = len(saved), 0, []
            for there, bwd in zip(sets, every):
                branches.append(branch(there, bwd, first))
                first += len(bwd.hidden)
            return _core.switch(values[n] - 1, tuple(branches), [*values[:n], *values[n + 1 :]])

        gives = [i for i, x in enumerate(self.leaves) if _is_float(x)]
        return _Backward(_function("backward", chosen, [*saved, "i32[]", *floats]), gives, True), saved

    def _backward(self, rules, needs, out_tree, results, there=None, saved=()):
        """(backward as a function of values like these that are saved, of which needs gives its first
        argument, and of the cotangents; numbers of the leaves that it gives cotangents for). there: which
        cotangents there are, a bit for each float, where it is one of several; these give those of all."""
        gives, n, backward = [], len(saved), rules.backward
        floats = [x for x in results if _is_float(x)]
        every = (1 << len(floats)) - 1 if there is None else there
        present = [x for k, x in enumerate(floats) if every >> k & 1]

        def flat(*values):
            rest, bits = iter(values[n:]), iter([every >> k & 1 for k in range(len(floats))])
            cotangents = []
            for x in results:
                if not _is_float(x):
                    cotangents.append(zeros_like(x))
                else:
                    cotangents.append(next(rest) if next(bits) else rules.missing(x))
            given = twins.of(backward)(needs(*values[:n]), tree.unflatten(out_tree, cotangents))
            found = self._cotangents(backward, given)
            if there is not None:
                found = [
                    zeros_like(x) if d is None and _is_float(x) else d for d, x in zip(found, self.leaves)
                ]
            gives[:] = [i for i, x in enumerate(found) if x is not None]
            return [x for x in found if x is not None], None

        return _captured(backward, flat, [*saved, *present]), gives

    def _over_lanes(self, body, batch):
        """The rule for vmap, captured for arguments that all have the axis."""
        whose = _whose("the rule", batch)
        lanes = f"lanes{len(_at_work.owners)}"

        def flat(*values):
            size = values[0].shape[0]
            batched = iter(_with_constants(self.treedef, False, [True] * len(values)))
            batched = [False if i in self.static else next(batched) for i in range(len(self.args))]
            given = twins.of(batch)(size, batched, *self.arguments(values))
            self._check_pair(given, whose, "which parts of it have the axis in front")
            found, out_tree = arrays_of_results(given[0])
            found, _ = given_leaves(found)
            what = f"{self.what}: {called('the function', self.fun)}"
            check_same_tree(what, body.out_tree, out_tree, whose, "result")
            has = tree.prefix_leaves(given[1], out_tree, f"{place()}{self.what}: {whose}: out_batched")
            found = [array_leaf(x, lambda: ((), "result")) for x in found]
            if any(self.weak):  # which the axis has made arrays of: results have the dtypes of the function's
                dtypes = [_BY_TEXT[text.partition("[")[0]] for text in body.types]
                found = [x.astype(dtype, copy=False) for x, dtype in zip(found, dtypes)]
            return [x if b else broadcast_to(x, (size, *x.shape)) for x, b in zip(found, has)], None

        types = [(x, lanes) for x in self.leaves]
        over = _captured(batch, flat, types)
        over.leaves = types
        return over

    def _pushforward(self, body, jvp):
        n, floats = len(self.leaves), [_is_float(x) for x in self.leaves]
        whose = _whose("the rule", jvp)

        def flat(*values):
            rest = iter(values[n:])
            moved = [next(rest) if f else zeros_like(x) for f, x in zip(floats, values)]
            tangents = with_zero_numbers(self.treedef, iter(marked(moved, self.weak)))
            given = twins.of(jvp)(self.given(values[:n]), tangents)
            self._check_pair(given, whose, "its tangent")
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
            if t is None:
                t = zeros_like(y)
            elif t._weak or _modes.brings(y.dtype, t.dtype):
                t = t.astype(y.dtype)
            if t._type != y._type:
                where = tree.path_text(tree.leaf_paths(out_tree)[i], "the result")
                raise InvalidError(
                    f"{place()}{self.what}: {whose}: the tangent of {where} has type {t._type}, expected "
                    f"{y._type}, the type of the result"
                )
            out.append(t)
        return out

    def _check_pair(self, given, whose, second):
        if not isinstance(given, (tuple, list)) or len(given) != 2:
            raise InvalidError(
                f"{place()}{self.what}: {whose} must give a pair (result, {second}), it gives {_shown(given)}"
            )

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
                f"{what}{whose} must give a tuple with the cotangent of each argument, it gives "
                f"{_shown(given)}"
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
            if x._weak or self.weak[i] or _modes.brings(leaf.dtype, x.dtype):
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
    if x is None or isinstance(x, SymbolicZero):
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


def _with_constants(t, constant, leaves):
    """A tree of this structure with something else in the place of its constants."""
    rest = iter(leaves)

    def made(t):
        if t.kind is None:
            return next(rest)
        if t.kind is tree.CONSTANT:
            return constant
        parts = [made(c) for c in t.children]
        return tree.unflatten(tree.TreeDef(t.kind, t.rest, (tree.structure(0),) * len(parts)), parts)

    return made(t)


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
    with _modes.fresh():
        rule.function, rule.hidden, _ = _core.capture(body, function_name(fun), names, list(types))
    rule.out_tree, rule.weak_out, rule.types = seen[-1]
    return rule


def _function(name, flat, types):
    """A function of values that calls others."""
    with _modes.fresh():
        return _core.capture(flat, name, [f"x{i}" for i in range(len(types))], list(types))[0]

