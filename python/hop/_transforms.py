"""Transforms of Python functions: each captures its function, transforms the program, and calls what comes
out, in whatever context the call stands. So they nest in any order."""

__all__ = [
    "grad", "value_and_grad", "vjp", "jvp", "linearize", "jacfwd", "jacrev", "jacobian", "hessian", "vmap",
    "vectorize", "debug_nans", "checkpoint", "remat", "Pullback", "Pushforward",
]  # fmt: skip

import functools
import re
import types

from . import (
    _arguments, _calls, _core, _cut, _effects, _lanes, _modes, _reuse, _shapes, policies as _policies, tree,
)  # fmt: skip
from ._arguments import place
from ._dtypes import float32, is_number
from ._errors import InvalidError, WriteError
from ._keys import value_key
from ._reuse import transform_of
from ._ops import (
    asarray,
    astype,
    broadcast_shapes,
    broadcast_to,
    expand_dims,
    eye,
    ones_like,
    reshape,
    zeros,
    zeros_like,
)
from ._sizes import parts_of_text
from ._trace import (
    apply,
    argument_names,
    array_leaf,
    arrays_of_results,
    body_leaves,
    body_of,
    capture,
    marked,
    named as named_body,
    recorded,
    run_or_record,
)


def _wrapper(fun, name):
    def decorate(g):
        try:
            functools.update_wrapper(g, fun)
        except (AttributeError, TypeError):
            pass
        transform_of(g, fun)
        g.__doc__ = f"{name} of {getattr(fun, '__name__', fun)!s}.\n\n{getattr(fun, '__doc__', None) or ''}"
        return _core.entry(g)

    return decorate


def _callable(fun, name):
    if not callable(fun):
        raise TypeError(f"{place()}{name} takes a function, found {_arguments.found(fun)}")
    return fun


def _argnums(argnums, fun, name):
    """argnums as it is given, of a function that has such arguments."""
    if type(fun) is types.FunctionType and type(argnums) is int and 0 <= argnums < fun.__code__.co_argcount:
        return argnums
    numbers = _arguments.argument_numbers(f"{name}: argnums", argnums, fun)
    return numbers if isinstance(argnums, (tuple, list, set, frozenset, range)) else numbers[0]


def _positions(argnums, n, name):
    """argnums as a tuple of positions."""
    out = []
    for a in argnums if isinstance(argnums, tuple) else (argnums,):
        if not -n <= a < n:
            raise InvalidError(
                f"{place()}{name}: argnums={argnums!r}, "
                f"but the function was called with {n} positional arguments"
            )
        out.append(a % n)
    if len(set(out)) != len(out):
        raise InvalidError(f"{place()}{name}: argnums={argnums!r} names an argument twice")
    return tuple(out)


def _numbers_elsewhere(arguments, positions):
    """Which leaves are numbers of Python's in arguments at other positions."""
    out = arguments.numbers()
    at = 0
    for i, part in enumerate(arguments.treedef.children[0].children):
        if i in positions:
            out[at : at + part.num_leaves] = [False] * part.num_leaves
        at += part.num_leaves
    return out


def _wrt(t, positions, name, allow_int=False):
    """The names of the leaves of these arguments that are floats, and the numbers of all leaves of these
    arguments. Others are an error unless they are allowed."""
    names, numbers, at = [], [], 0
    for i, part in enumerate(t.in_tree.children[0].children):
        if i in positions and not part.num_leaves and tree.constants(part):
            raise InvalidError(
                f"{place()}{name}: argument {i} is {_arguments.found(tree.unflatten(part, []))}: derivatives "
                "need floats; leave it out of argnums"
            )
        for path in tree.leaf_paths(part):
            if i in positions:
                leaf = t.leaves[at]
                if leaf.dtype.kind == "f":
                    names.append(t.names[at])
                elif not allow_int:
                    advice = "convert it (x.astype(hop.float32), or 1.0 for 1), or leave it out of argnums"
                    zeros = "; allow_int=True gives zeros for it" if name in _ALLOW_INT else ""
                    raise InvalidError(
                        f"{place()}{name}: {tree.path_text(path, f'argument {i}')} has dtype {leaf.dtype}: "
                        f"derivatives need floats; {advice}{zeros}"
                    )
                numbers.append(at)
            at += 1
    return names, numbers


_ALLOW_INT = ("grad", "value_and_grad", "jacrev")


def _with_zeros(t, numbers, found, axes=()):
    """Derivatives for the leaves with these numbers: of floats those found, of others zeros. axes: of the
    result, which stand before those of a leaf."""
    rest = iter(found)
    out = []
    for i in numbers:
        x = t.leaves[i]
        out.append(
            for_leaf(t, i, next(rest) if x.dtype.kind == "f" else zeros((*axes, *x.shape), dtype=x.dtype))
        )
    return out


def _real(holomorphic, name):
    if _arguments.flag(f"{name}: holomorphic", holomorphic):
        raise InvalidError(
            f"{place()}{name}: holomorphic=True is about complex numbers, which hop does not have"
        )


def _value_and_more(t, has_aux, name):
    """The structure of the value that is differentiated, which with has_aux is the first of a pair."""
    if not has_aux:
        return t.out_tree
    if t.out_tree.kind is not tuple or len(t.out_tree.children) != 2:
        found = t.out_tree._text()
        raise InvalidError(
            f"{place()}{name}: with has_aux the function must give a pair (value, more), it gives {found}"
        )
    return t.out_tree.children[0]


def for_leaf(t, i, x):
    """What belongs to a leaf of the arguments, as that is: weak, and of the dtype of real numbers, where
    it was a Python number."""
    if not t.weak[i]:
        return x
    return (x if x.dtype.kind != "f" else astype(x, float32, copy=False))._marked(False)


def by_argument(in_tree, positions, leaves, argnums):
    """Leaves in the order of the arguments, as trees of these arguments in the order of argnums. Where an
    argument has something that is no array, its derivative has it, too."""
    parts, at = {}, 0
    for p in sorted(set(positions)):
        treedef = in_tree.children[0].children[p]
        parts[p] = tree.unflatten(treedef, leaves[at : at + treedef.num_leaves])
        at += treedef.num_leaves
    return tuple(parts[p] for p in positions) if isinstance(argnums, (tuple, list)) else parts[positions[0]]


def _transformed(transform, fun, text):
    """The function that calls of a transform of fun are calls of."""
    transform = _calls.one_of_its_kind(transform)
    table = transform.table(fun)

    @_wrapper(fun, text)
    def transformed(*args, **named):
        return _calls.run(transform, table, fun, args, named)

    return transformed


def value_and_grad(fun, argnums=0, has_aux=False, holomorphic=False, allow_int=False, *, hooks=None):
    """A function that gives the value of fun, a float scalar, and its gradient for the arguments at
    argnums. With has_aux fun gives (value, more), and the result is ((value, more), gradient). allow_int,
    holomorphic and hooks: see grad.

    >>> hop.value_and_grad(lambda p: p["w"] ** 2 + p["b"])({"w": 3.0, "b": 1.0})
    (Array(10., dtype=float32), {'b': Array(1., dtype=float32), 'w': Array(6., dtype=float32)})
    """
    _callable(fun, "value_and_grad")
    _real(holomorphic, "value_and_grad")
    has_aux = _arguments.flag("value_and_grad: has_aux", has_aux)
    allow_int = _arguments.flag("value_and_grad: allow_int", allow_int)
    argnums = _argnums(argnums, fun, "value_and_grad")
    fun = _with_hooks(fun, hooks, argnums, "value_and_grad")

    return _transformed(_Gradient("value_and_grad", argnums, has_aux, allow_int), fun, "Value and gradient")


def grad(fun, argnums=0, has_aux=False, holomorphic=False, allow_int=False, *, hooks=None):
    """A function that gives the gradient of fun, a float scalar, for the arguments at argnums (a number,
    or a tuple for several). With has_aux fun gives (value, more), and the result is (gradient, more). With
    allow_int those arguments may have leaves that are integers or bools; their gradient is zeros of their
    dtype. holomorphic is for complex numbers, which hop does not have: True is an error. Other arguments may
    be values of Python's, and stay so.

    hooks: functions through which gradients of arguments pass when all their parts are summed up (hop.hook),
    by numbers, names, or names with places in the argument: {0: f, "params.layers.*.w": g}; for a list of
    functions one after the other, or a dict of hop.hook's arguments, {"params": {"f": f, "host": True}}.

    >>> hop.grad(lambda x: hop.sum(x**3))(hop.asarray([1.0, 2.0]))
    Array([ 3., 12.], dtype=float32)
    >>> hop.grad(lambda w, b: (3 * w + b) ** 2, argnums=(0, 1))(1.0, 2.0)
    (Array(30., dtype=float32), Array(10., dtype=float32))
    >>> hop.grad(lambda x, n, f: f(x) if n == 0 else f(x) ** n)(2.0, 3, hop.square)
    Array(192., dtype=float32)
    >>> hop.grad(lambda p: p["w"] ** 2 + p["b"], hooks={"p.w": hop.sign})({"w": 3.0, "b": 1.0})
    {'b': Array(1., dtype=float32), 'w': Array(1., dtype=float32)}
    """
    _callable(fun, "grad")
    _real(holomorphic, "grad")
    has_aux, allow_int = (
        _arguments.flag("grad: has_aux", has_aux),
        _arguments.flag("grad: allow_int", allow_int),
    )
    argnums = _argnums(argnums, fun, "grad")
    fun = _with_hooks(fun, hooks, argnums, "grad")

    return _transformed(_Gradient("grad", argnums, has_aux, allow_int), fun, "Gradient")


def _with_hooks(fun, hooks, argnums, name):
    if hooks is None:
        return fun
    from ._hooks import with_hooks  # which is made of transforms

    return with_hooks(fun, hooks, argnums, name)


class _Gradient(_calls.Transform):
    def __init__(self, name, argnums, has_aux, allow_int):
        self.name, self.argnums, self.has_aux, self.allow_int = name, argnums, has_aux, allow_int
        self.what = (name, argnums if isinstance(argnums, int) else tuple(argnums), has_aux, allow_int)

    def plan(self, arguments):
        positions = _positions(self.argnums, len(arguments.args), self.name)
        return _numbers_elsewhere(arguments, positions), None

    def parts(self, given):
        return _halves("vjp", given, _positions(self.argnums, len(given.args), self.name))

    def finish(self, t, given, leaves, more, hidden):
        name, positions = self.name, _positions(self.argnums, len(given.args), self.name)
        value_tree = _value_and_more(t, self.has_aux, name)
        wrt, numbers = _wrt(t, positions, name, self.allow_int)
        _check_scalar(t, value_tree, self.has_aux, name)
        n = t.out_tree.num_leaves
        if t.parts is not None:
            values = t.parts.run(t.function, t.operands())
            ones = [ones_like(values[0]), *[None] * (sum(_float_leaves(t)) - 1)]
            out = [*values, *t.parts.along(values).call([*t.parts.arrays, *ones])]
        else:
            function = t.transform("value_and_grad", ", ".join(wrt)) if wrt else t.function
            out = apply(function, [*leaves, *hidden])
        gradients = by_argument(t.in_tree, positions, _with_zeros(t, numbers, out[n:]), self.argnums)
        value = tree.unflatten(t.out_tree, marked(out[:n], t.weak_out, False))
        if name == "value_and_grad":
            return value, gradients
        return (gradients, value[1]) if self.has_aux else gradients


def _check_scalar(t, value_tree, has_aux, name):
    first = t.function.results[0] if t.function.results else "nothing"
    if value_tree.kind is not None or not first.endswith("[]") or first[0] not in "fb" or first == "bool[]":
        found = first if value_tree.kind is None else value_tree._text()
        raise InvalidError(
            f"{place()}{name}: the function must give one float scalar, it gives {found}"
            + ("" if has_aux else "; use has_aux=True to give more besides, hop.jacrev for arrays")
        )


def _float_leaves(t):
    """Which results are floats."""
    return [_cut.is_float(r) for r in t.function.results]


def _halves(how, given, positions):
    """What runs the parts of a capture that is cut, for the floats among these arguments."""

    def moved(leaves):
        parts = given.in_tree.children[0].children
        of = [i for i, part in enumerate(parts) for _ in range(part.num_leaves)]
        return [k for k, i in enumerate(of) if i in positions and leaves[k].dtype.kind == "f"]

    return lambda: _cut.Halves(how, moved)


def _active(leaves):
    return [i for i, x in enumerate(leaves) if x.dtype.kind == "f"]


class _Rule:
    """What the derivative of a function is besides the arrays that it keeps. how: "vjp" or "jvp";
    value_tree: the structure of what is differentiated; table: programs of the derivative, None where the
    rule is good for one call alone."""

    __slots__ = (
        "name", "how", "function", "active", "floats", "value_tree", "out_tree", "in_tree", "weak",
        "weak_out", "table", "_programs",
    )

    def __init__(self, name, how, t, value_tree):
        self.name, self.how = name, how
        self.function, self.active, self.floats = t.function, _active(t.leaves), _float_leaves(t)
        self.value_tree, self.out_tree, self.in_tree = value_tree, t.out_tree, t.in_tree.children[0]
        self.weak, self.weak_out, self.table = t.weak, t.weak_out, None
        if t.parts is not None:  # which it must not keep: they have the arrays
            self._programs = {}
            return
        wrt = ", ".join(t.names[i] for i in self.active)
        self._programs = {
            "whole": functools.cache(lambda: t.transform(how, wrt)),
            "halves": functools.cache(lambda: t.halves(how, wrt)),
        }

    def program(self, which):
        return self._programs[which]()

    def __repr__(self):
        return f"the {self.how} of {self.name}"


class _Derivative:
    """The derivative of a function at a point. A node of trees: its leaves are the arrays that it keeps,
    so that captured functions can give it and take it.

    At once it is taken in two halves, so that nothing is computed twice: saved is what the second half
    reads besides operands and values. In a program being captured the whole is recorded (saved is None):
    there the passes find what is computed twice, and sizes that only a run knows need not be named."""

    __slots__ = ("_rule", "_operands", "_values", "_saved")

    def __init__(self, rule, operands, values, saved):
        self._rule, self._operands, self._values, self._saved = rule, operands, values, saved

    @classmethod
    def _at(cls, rule, operands):
        """(the values of the function, its derivative there)"""
        n = rule.out_tree.num_leaves
        at_once = rule.active and (not _core.tracing() or _core.modes() & _modes.PROBED)
        out = apply(rule.program("halves")[0] if at_once else rule.function, operands)
        made = cls(rule, operands, out[:n], out[n:] if at_once else None)
        return tree.unflatten(rule.out_tree, marked(out[:n], rule.weak_out, False)), made

    @classmethod
    def _behind(cls, rule, t):
        """The same of a capture that was cut."""
        values = t.parts.run(t.function, t.operands())
        along = t.parts.along(values)
        rule._programs["halves"] = lambda: (None, along)
        made = cls(rule, t.leaves, values, t.parts.arrays)
        return tree.unflatten(rule.out_tree, marked(values, rule.weak_out, False)), made

    def _called(self, *directions):
        """The derivative along directions, which _directed gives, in a program that is kept."""
        rule, parts = self._rule, (self._operands, self._values, self._saved)
        if rule.table is None or self._saved is None or _core.tracing() or _core.jit_disabled():
            return self._directed(*directions)
        args = (directions, *parts)
        found = rule.table.call(rule, args, {})
        if found is not NotImplemented:
            return found
        arguments = _calls.Arguments(self._directed, args, {})
        given = _calls.Given(arguments, [False] * len(arguments.found))

        def whole(directions, *parts):
            return type(self)(rule, *parts)._directed(*directions)

        t = capture(whole, args, {}, given.leaves, None, given.weak, in_tree=given.in_tree)
        program = _calls.program_of(t)
        if program is not None:
            objects = [x for x in tree.constants(given.in_tree) if type(x) not in (str, bytes)]
            numbers = (...,) * len(given.leaves)
            if not objects:
                _calls.keep(rule.table, args, {}, program, None, numbers, [])
        return tree.unflatten(t.out_tree, _calls.compiled(t).run([*given.leaves, *t.hidden]))

    def _along(self, directions):
        """The derivatives of those leaves that have any."""
        rule = self._rule
        if not rule.active:
            return []
        if self._saved is None:
            return apply(rule.program("whole"), [*self._operands, *directions])[len(self._values) :]
        return apply(rule.program("halves")[1], [*self._operands, *self._values, *self._saved, *directions])

    def __repr__(self):
        return f"<{type(self).__name__} of {self._rule.name}>"

    def __deepcopy__(self, memo):
        return self  # nothing can change it

    def _apart(self):
        rule, saved = self._rule, self._saved
        # it leaves the program, and takes with it what the second half reads
        if saved is None and rule.active:
            saved = apply(rule.program("halves")[0], self._operands)[len(self._values) :]
        sizes = len(self._operands), len(self._values)
        return [*self._operands, *self._values, *(saved or ())], (rule, *sizes)

    @classmethod
    def _together(cls, rest, leaves):
        rule, n, n_values = rest
        leaves = list(leaves)
        return cls(rule, leaves[:n], leaves[n : n + n_values], leaves[n + n_values :])


class Pullback(_Derivative):
    """What hop.vjp gives besides the value: pullback(cotangent of the result) is a tuple of cotangents,
    one per argument.

    >>> y, pullback = hop.vjp(hop.sin, 0.0)
    >>> pullback(2.0)
    (Array(2., dtype=float32),)
    """

    __slots__ = ()

    def __call__(self, cotangent):
        return self._called(cotangent)

    def _directed(self, cotangent):
        rule, values = self._rule, self._values
        given = directions(rule.value_tree, cotangent, "vjp", "cotangent", "the cotangent has", "the result")
        given += [None] * (len(values) - len(given))  # of what has_aux adds
        wanted = []
        for i, (c, v) in enumerate(zip(given, values)):
            if not rule.floats[i]:
                continue
            if c is None:
                c = zeros_like(v)
            if _shapes.shapes_differ(c.shape, v.shape):
                path = tree.path_text(tree.leaf_paths(rule.value_tree)[i], "cotangent")
                raise InvalidError(f"{place()}vjp: {path} is {c._type}, the result is {v._type}")
            wanted.append(c.astype(v.dtype) if c.dtype is not v.dtype else c)
        found = dict(zip(rule.active, self._along(wanted)))
        leaves = self._operands[: rule.in_tree.num_leaves]
        cotangents = [found[i] if i in found else zeros_like(x) for i, x in enumerate(leaves)]
        cotangents = iter([for_leaf(rule, i, x) for i, x in enumerate(cotangents)])
        return with_zero_numbers(rule.in_tree, cotangents)


class Pushforward(_Derivative):
    """What hop.linearize gives besides the value: pushforward(*tangents of the arguments) is the tangent
    of the result.

    >>> y, push = hop.linearize(hop.sin, 0.0)
    >>> push(2.0)
    Array(2., dtype=float32)
    """

    __slots__ = ()

    def __call__(self, *tangents):
        return self._called(*tangents)

    def _directed(self, *tangents):
        rule = self._rule
        leaves = self._operands[: rule.in_tree.num_leaves]
        given = _tangents(rule.in_tree, rule.active, leaves, tangents, "linearize")
        moved = _moved(self._values, rule.floats, self._along(given))
        moved = marked(moved, rule.weak_out, False)
        return tree.unflatten(rule.value_tree, moved[: rule.value_tree.num_leaves])


def with_zero_numbers(t, leaves):
    """A tree of cotangents: numbers that are part of the structure have zeros, other things stay."""
    if t.kind is None:
        return next(leaves)
    if t.kind is tree.CONSTANT and is_number(t.rest):
        return asarray(False) if isinstance(t.rest, bool) else asarray(0)._marked(False)
    made = [with_zero_numbers(c, leaves) for c in t.children]
    leaf = tree.structure(0)
    return tree.unflatten(tree.TreeDef(t.kind, t.rest, (leaf,) * len(made)), made)


for _class in (Pullback, Pushforward):
    _class.__module__ = "hop"
    tree.register(_class, _class._apart, _class._together)
del _class


def vjp(fun, *primals, has_aux=False):
    """(fun(*primals), pullback): the pullback takes a cotangent for the result and gives a tuple of
    cotangents, one per argument. Leaves that are no floats get zeros. None, for a leaf of the cotangent or
    for a whole part of it, is a zero. With has_aux fun gives (value, more), and the result is (value,
    pullback, more). A captured function may give a pullback: it is a tree of the arrays that it keeps.

    >>> y, pullback = hop.vjp(lambda x, y: x * y, 2.0, 5.0)
    >>> y, pullback(1.0)
    (Array(10., dtype=float32), (Array(5., dtype=float32), Array(2., dtype=float32)))
    >>> hop.vjp(lambda x: {"a": x * x, "b": hop.exp(x)}, 3.0)[1]({"a": 1.0, "b": None})
    (Array(6., dtype=float32),)
    """
    _callable(fun, "vjp")
    return _derivative(Pullback, fun, primals, _arguments.flag("vjp: has_aux", has_aux), "vjp", "vjp")


def linearize(fun, *primals, has_aux=False):
    """(fun(*primals), its derivative there, a linear function of tangents). With has_aux fun gives (value,
    more), and the result is (value, derivative, more). None among the tangents is a zero. A captured
    function may give the derivative: it is a tree of the arrays that it keeps.

    >>> y, derivative = hop.linearize(lambda x: x**3, 2.0)
    >>> y, derivative(1.0), derivative(0.5)
    (Array(8., dtype=float32), Array(12., dtype=float32), Array(6., dtype=float32))
    """
    _callable(fun, "linearize")
    return _derivative(
        Pushforward, fun, primals, _arguments.flag("linearize: has_aux", has_aux), "jvp", "linearize"
    )


def _derivative(cls, fun, primals, has_aux, how, name):
    transform = _DERIVATIVES[name, has_aux]
    return _calls.run(transform, transform.table(fun), fun, primals, {})


class _Halved(_calls.Transform):
    """vjp and linearize: the value and the derivative there."""

    def __init__(self, cls, how, name, has_aux):
        self.cls, self.how, self.name, self.has_aux = cls, how, name, has_aux
        self.what = (name, has_aux)

    def plan(self, arguments):
        return _not_real(arguments, len(arguments.found)), None

    def _rule(self, t):
        return _Rule(t.name, self.how, t, _value_and_more(t, self.has_aux, self.name))

    def parts(self, given):
        return lambda: _cut.Halves(self.how, _active)

    def finish(self, t, given, leaves, more, hidden):
        if t.parts is not None:
            return self._results(*self.cls._behind(self._rule(t), t))
        return self._results(*self.cls._at(self._rule(t), [*leaves, *hidden]))

    def _results(self, value, derivative):
        return (value[0], derivative, value[1]) if self.has_aux else (value, derivative)

    def program(self, t, given):
        rule = self._rule(t)
        rule.table = _calls.Table((self.what, "derivative"), True)
        n, treedef, weak = t.out_tree.num_leaves, t.out_tree, t.weak_out
        function = rule.program("halves")[0] if rule.active else rule.function

        def results(out, operands):
            value = tree.unflatten(treedef, marked(out[:n], weak, False))
            return self._results(value, self.cls(rule, operands, out[:n], out[n:]))

        return function.compile(), results


_DERIVATIVES = {
    (name, has_aux): _Halved(cls, how, name, has_aux)
    for cls, how, name in ((Pullback, "vjp", "vjp"), (Pushforward, "jvp", "linearize"))
    for has_aux in (False, True)
}


def _not_real(arguments, n):
    """Which of the first n leaves are integers and truths of Python's: they have no derivatives."""
    found = zip(arguments.found, arguments.numbers())
    return [i < n and number and not isinstance(x, float) for i, (x, number) in enumerate(found)]


def directions(treedef, given, name, root, they_have, others):
    """An array for each leaf of a structure, None for a zero: where None is given for a leaf or for a whole
    part, and for JAX's zeros of what is no float. Where the structure has a constant, it may stand again."""
    out = []

    def walk(t, x, path):
        if x is None:
            out.extend([None] * t.num_leaves)
            return
        node = tree._apart(x)
        if t.kind is None and node is None:
            is_zero = getattr(getattr(x, "dtype", None), "names", None) == ("float0",)
            out.append(None if is_zero else array_leaf(x, lambda: (path, root)))
            return
        if t.kind is tree.CONSTANT and node is None and _stands_for(x, t):
            return
        fits = node is not None and node[0] is t.kind and len(node[2]) == len(t.children)
        if not fits or not tree._same_rest(t.kind, node[1], t.rest):
            found, expected = tree.structure(x)._text(), t._text()
            have = "have" if others.endswith("s") else "has"
            raise InvalidError(
                f"{place()}{name}: {tree.path_text(path, root)}: {they_have} the structure {found}, "
                f"{others} {have} {expected}"
            )
        for key, part, child in zip(node[3], t.children, node[2]):
            walk(part, child, (*path, key))

    walk(treedef, given, ())
    return out


def _stands_for(x, t):
    """Whether x may be given as the direction of a constant: the same again, and for numbers anything."""
    return is_number(t.rest) or tree.TreeDef(tree.CONSTANT, x, ()) == t


def _tangents(in_tree, active, leaves, tangents, name):
    """Tangents for the leaves of the arguments that are floats."""
    given = directions(in_tree, tangents, name, "tangents", "the tangents have", "the arguments")
    out = []
    for i in active:
        x, v = leaves[i], given[i]
        if v is None:
            v = zeros_like(x)
        if _shapes.shapes_differ(v.shape, x.shape):
            path = tree.path_text(tree.leaf_paths(in_tree)[i], "tangents")
            raise InvalidError(f"{place()}{name}: {path} is {v._type}, the argument is {x._type}")
        out.append(v.astype(x.dtype) if v.dtype is not x.dtype else v)
    return out


def _moved(values, floats, found):
    """Tangents of all results: of floats those found, if any depends on the arguments, of others zeros."""
    rest = iter(found)
    found = [next(rest) if f and found else None for f in floats]
    return [zeros_like(v) if x is None else x for v, x in zip(values, found)]


def jvp(fun, primals, tangents, has_aux=False):
    """(fun(*primals), its derivative there in the direction of the tangents). With has_aux fun gives
    (value, more), and the result is (value, derivative, more). None among the tangents is a zero.

    Forward mode: about twice the work of fun, whatever the number of results.

    >>> hop.jvp(lambda x: x**3, (2.0,), (1.0,))
    (Array(8., dtype=float32), Array(12., dtype=float32))
    """
    _callable(fun, "jvp")
    has_aux = _arguments.flag("jvp: has_aux", has_aux)
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError(f"{place()}jvp: primals and tangents are tuples, with an entry per argument")
    transform = _JVP[has_aux]
    return _calls.run(transform, transform.table(fun), fun, (tuple(primals), tuple(tangents)), {})


class _Along(_calls.Transform):
    """jvp: the function's arguments are the first one's entries, the second one is the tangents."""

    inner = True

    def __init__(self, has_aux):
        self.has_aux, self.what = has_aux, ("jvp", has_aux)

    def plan(self, arguments):
        return _not_real(arguments, arguments.treedef.children[0].children[0].num_leaves), None

    def parts(self, given):
        in_tree = given.in_tree.children[0]
        return lambda: _cut.Tangents(
            _active, lambda leaves: self.directions(given, in_tree, _active(leaves), leaves, given.more)
        )

    def directions(self, given, in_tree, active, leaves, more):
        tangents = tree.unflatten(given.more_tree, marked(more, given.more_weak, False))
        return _tangents(in_tree, active, leaves, tangents, "jvp")

    def finish(self, t, given, leaves, more, hidden):
        rule, n = _Rule(t.name, "jvp", t, _value_and_more(t, self.has_aux, "jvp")), t.out_tree.num_leaves
        if t.parts is not None:
            values = t.parts.run(t.function, t.operands())
            out = [*values, *(t.parts.of(x) for x, f in zip(values, rule.floats) if f)]
        else:
            directions = self.directions(given, rule.in_tree, rule.active, leaves, more)
            program = rule.program("whole") if rule.active else rule.function
            out = apply(program, [*leaves, *hidden, *directions])
        value = tree.unflatten(t.out_tree, marked(out[:n], t.weak_out, False))
        moved = marked(_moved(out[:n], rule.floats, out[n:]), t.weak_out, False)
        derivative = tree.unflatten(rule.value_tree, moved[: rule.value_tree.num_leaves])
        return (value[0], derivative, value[1]) if self.has_aux else (value, derivative)


_JVP = {has_aux: _Along(has_aux) for has_aux in (False, True)}


def _jacobian(fun, argnums, has_aux, allow_int, how):
    _callable(fun, how)
    argnums, has_aux = _argnums(argnums, fun, how), _arguments.flag(f"{how}: has_aux", has_aux)

    return _transformed(_Jacobian(how, argnums, has_aux, allow_int), fun, "Jacobian")


class _Jacobian(_calls.Transform):
    def __init__(self, how, argnums, has_aux, allow_int):
        self.how, self.argnums, self.has_aux, self.allow_int = how, argnums, has_aux, allow_int
        self.what = (how, argnums if isinstance(argnums, int) else tuple(argnums), has_aux, allow_int)

    def plan(self, arguments):
        positions = _positions(self.argnums, len(arguments.args), self.how)
        return _numbers_elsewhere(arguments, positions), None

    def parts(self, given):
        positions = _positions(self.argnums, len(given.args), self.how)
        return _halves("jvp" if self.how == "jacfwd" else "vjp", given, positions)

    def finish(self, t, given, leaves, more, hidden):
        how, has_aux = self.how, self.has_aux
        positions = _positions(self.argnums, len(given.args), how)
        value_tree = _value_and_more(t, has_aux, how)
        n = value_tree.num_leaves
        if not all(_float_leaves(t)[:n]):
            raise InvalidError(
                f"{place()}{how}: every result must be a float, found {', '.join(t.function.results[:n])}"
            )
        wrt, numbers = _wrt(t, positions, how, self.allow_int)
        derivatives = t.transform(how, ", ".join(wrt)) if wrt and t.parts is None else None
        found, operands = n * len(wrt), [*leaves, *hidden]

        def both(*values):
            out = derivatives.call(values)[:found] if wrt else []
            return [*out, *t.function.call(values)]

        if t.parts is not None:
            out = _jacobian_along(t, n, [t.leaves[i] for i in numbers], how)
        elif has_aux or not wrt or len(wrt) < len(numbers):
            out = run_or_record(both, operands, how)
        else:
            out = apply(derivatives, operands)
        values = out[found:]
        rows = []
        for i in range(n):
            axes = values[i].shape if values else ()
            row = _with_zeros(t, numbers, out[i * len(wrt) : (i + 1) * len(wrt)], axes)
            rows.append(by_argument(t.in_tree, positions, row, self.argnums))
        jacobians = tree.unflatten(value_tree, rows)
        if not has_aux:
            return jacobians
        return jacobians, tree.unflatten(t.out_tree, marked(values, t.weak_out, False))[1]


def _jacobian_along(t, n, leaves, how):
    """The derivatives of the first n values of a capture that was cut for these leaves, and the values: along
    its parts, in all directions at once."""
    values = t.parts.run(t.function, t.operands())
    along, arrays = t.parts.along(values), t.parts.arrays
    leaves = [x for x in leaves if x.dtype.kind == "f"]
    floats = [y for y in values if y.dtype.kind == "f"]
    sides = leaves if how == "jacfwd" else floats

    def column(k):
        def one(direction):
            return along.call([*arrays, *(direction if i == k else None for i in range(len(sides)))])

        basis = reshape(eye(sides[k].size, dtype=sides[k].dtype), (sides[k].size, *sides[k].shape))
        return vmap(one, out_axes=-1 if how == "jacfwd" else 0)(basis)

    columns = [column(k) for k in range(len(leaves) if how == "jacfwd" else n)]
    found = []
    for i, y in enumerate(values[:n]):
        for k, x in enumerate(leaves):
            d = columns[k][i] if how == "jacfwd" else columns[i][k]
            shape = (*y.shape, *x.shape)
            found.append(zeros(shape, dtype=y.dtype) if d is None else reshape(d, shape))
    return [*found, *values]


def jacfwd(fun, argnums=0, has_aux=False, holomorphic=False):
    """A function that gives all derivatives of fun's results, a column at a time: quick for few inputs.
    Axes of the result come first. With has_aux fun gives (value, more), and the result is (derivatives,
    more).

    >>> hop.jacfwd(lambda x: hop.stack([x[0] * x[1], x[1] ** 2]))(hop.asarray([2.0, 3.0]))
    Array([[3., 2.],
           [0., 6.]], dtype=float32)
    """
    _real(holomorphic, "jacfwd")
    return _jacobian(fun, argnums, has_aux, False, "jacfwd")


def jacrev(fun, argnums=0, has_aux=False, holomorphic=False, allow_int=False):
    """A function that gives all derivatives of fun's results, a row at a time: quick for few results. Axes
    of the result come first. With has_aux fun gives (value, more), and the result is (derivatives, more).
    With allow_int those arguments may have leaves that are no floats; their derivatives are zeros of their
    dtype.

    Another name of jacrev.

    >>> hop.jacobian(lambda x: x**2)(hop.asarray([2.0, 3.0]))
    Array([[4., 0.],
           [0., 6.]], dtype=float32)
    """
    _real(holomorphic, "jacrev")
    return _jacobian(fun, argnums, has_aux, _arguments.flag("jacrev: allow_int", allow_int), "jacrev")


jacobian = jacrev


def hessian(fun, argnums=0, has_aux=False, holomorphic=False):
    """A function that gives all second derivatives. With has_aux fun gives (value, more), and the result
    is (derivatives, more).

    >>> hop.hessian(lambda x: x[0] ** 2 * x[1])(hop.asarray([2.0, 3.0]))
    Array([[6., 4.],
           [4., 0.]], dtype=float32)
    """
    _callable(fun, "hessian")
    _real(holomorphic, "hessian")
    argnums = _argnums(argnums, fun, "hessian")
    return jacfwd(jacrev(fun, argnums, has_aux), argnums, has_aux)


# ---- over one more axis ----


def vmap(fun, in_axes=0, out_axes=0, axis_name=None, axis_size=None, spmd_axis_name=None):
    """fun over one more axis. in_axes says for each argument (or each part of one) which axis that is,
    None for what all share; out_axes where it is in the results. axis_size: how long it is, needed where
    no argument has it. axis_name: under this name fun's operators across lanes (hop.psum, hop.all_gather,
    hop.axis_index, …) know the axis.

    >>> xs, w = hop.asarray([[1.0, 2.0], [3.0, 4.0]]), hop.asarray([1.0, -1.0])
    >>> hop.vmap(lambda x, w: hop.sum(x * w), in_axes=(0, None))(xs, w)
    Array([-1., -1.], dtype=float32)
    """
    _callable(fun, "vmap")
    if spmd_axis_name is not None:
        raise InvalidError(
            f"{place()}vmap: spmd_axis_name is about programs on several devices, hop has one: leave it out"
        )
    if isinstance(axis_name, int):  # before there was such a parameter, this was the place of axis_size
        raise _arguments.wrong("vmap: axis_name", "a name; axis_size= says how long the axis is", axis_name)
    axis_name = None if axis_name is None else _lanes.checked_name("vmap: axis_name", axis_name)
    for what, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        for path, a in () if type(axes) is int and abs(axes) < 64 else tree.leaves_with_path(axes):
            _arguments.integer(
                f"vmap: {tree.path_text(path, what)}", a, expected="the number of an axis, or None"
            )
    axis_size = None if axis_size is None else _arguments.extent("vmap: axis_size", axis_size)

    in_axes = tuple(in_axes) if isinstance(in_axes, list) else in_axes
    return _transformed(_Batched(in_axes, out_axes, axis_size, axis_name), fun, "vmap")


def _axes_key(axes):
    if type(axes) is int:
        return axes
    leaves, treedef = tree.flatten(axes, lambda x: x is None)
    return treedef, tuple(leaves)


class _Batched(_calls.Transform):
    def __init__(self, in_axes, out_axes, axis_size, axis_name=None):
        self.in_axes, self.out_axes, self.axis_size = in_axes, out_axes, axis_size
        self.axis_name = axis_name
        # a size that is no number means something in one capture alone
        size = axis_size if axis_size is None or isinstance(axis_size, int) else object()
        self.what = ("vmap", size, axis_name, *map(_axes_key, (in_axes, out_axes)))

    def plan(self, arguments):
        in_axes, n = self.in_axes, len(arguments.args)
        if isinstance(in_axes, tuple) and len(in_axes) != n:
            raise ValueError(
                f"{place()}vmap: in_axes has {len(in_axes)} entries, "
                f"the function was called with {n} arguments"
            )
        args_tree, named_tree = arguments.treedef.children
        axes = tree.prefix_leaves(in_axes, args_tree, f"{place()}vmap: in_axes")
        axes = _axes_in(arguments, [*axes, *[0] * named_tree.num_leaves], self.axis_size)
        return [x and a is None for x, a in zip(arguments.numbers(), axes)], axes

    def capture(self, fun, given):
        if self.axis_name is None:
            return super().capture(fun, given)
        sizes = [x.shape[a] for x, a in zip(given.leaves, given.axes) if a is not None]
        if not sizes:
            raise InvalidError(
                f"{place()}vmap: axis_name={self.axis_name!r}: no argument has the axis; map over "
                "hop.arange(axis_size), too"
            )
        given.axis_name = self.axis_name
        with _lanes.binding(self.axis_name, sizes[0]):
            return super().capture(fun, given)

    def finish(self, t, given, leaves, more, hidden):
        sizes = [x.shape[a] for x, a in zip(given.leaves, given.axes) if a is not None]
        spec = ", ".join(f"{n}: {a}" for n, a in zip(t.names, given.axes) if a is not None)
        placed = _out_axes(
            tree.prefix_leaves(self.out_axes, t.out_tree, f"{place()}vmap: out_axes"), t.function.results
        )
        if spec:
            texts = ["-" if a is None else str(a) for a in placed]
            out = apply(t.transform("vmap", spec, ", ".join(texts), self.axis_name), [*leaves, *hidden])
        else:  # every lane has the same
            size = sizes[0] if sizes else self.axis_size
            out = [
                x if a is None else _repeated(x, a, size)
                for x, a in zip(apply(t.function, [*leaves, *hidden]), placed)
            ]
        return tree.unflatten(t.out_tree, marked(out, t.weak_out, False))


def debug_nans(fun, *, infinities=True):
    """fun, but a call ends with hop.NotFiniteError, a FloatingPointError, where an operator makes a NaN, or
    with infinities also an infinity, that is not in what it computes from. The message names the operator,
    the line, the element, the trips of the loops around it, the lane of vmap, and whether it belongs to a
    derivative. An argument with a NaN is named, too; infinite arguments and constants are no fault.

    >>> def f(xs):
    ...     return hop.scan(lambda c, x: (c + hop.sqrt(x), None), 0.0, xs)[0]
    >>> try:
    ...     hop.debug_nans(f)(hop.asarray([1.0, 4.0, -1.0]))
    ... except FloatingPointError as error:
    ...     print("sqrt made a NaN: nan of -1" in str(error), "in trip 2 of the scan" in str(error))
    True True
    """
    _callable(fun, "debug_nans")
    infinities = _arguments.flag("debug_nans: infinities", infinities)
    return _transformed(_DebugNans(infinities), fun, "debug_nans")


class _DebugNans(_calls.Transform):
    def __init__(self, infinities):
        self.what = ("debug_nans", infinities)

    def plan(self, arguments):
        """Floats are looked at; other numbers stay Python's."""
        return [n and type(x) is not float for n, x in zip(arguments.numbers(), arguments.found)], None

    def capture(self, fun, given):
        modes = _modes.DEBUG_INFINITIES if self.what[1] else _modes.DEBUG_NANS
        with _effects.operator(self.what[0]), _modes.fresh(), _modes.also(modes):
            return given.capture(fun)

    def finish(self, t, given, leaves, more, hidden):
        name = "debug_nans_and_infinities" if self.what[1] else "debug_nans"
        out = apply(t.transform(name), [*leaves, *hidden])
        return tree.unflatten(t.out_tree, marked(out, t.weak_out, False))


def _out_axes(axes, results):
    """The axes of results of these types counted from the front."""
    out = []
    for a, r in zip(axes, results):
        if r.startswith("object"):  # one for all lanes
            out.append(None)
            continue
        rank = len(parts_of_text(r[r.index("[") + 1 : r.index("]")]))
        if a is not None and not -rank - 1 <= a <= rank:
            raise ValueError(f"{place()}vmap: out_axes has {a} for a result of type {r}")
        out.append(a if a is None or a >= 0 else a + rank + 1)
    return out


def _repeated(x, axis, size):
    """x in every place along a new axis."""
    return broadcast_to(expand_dims(x, axis=axis), (*x.shape[:axis], size, *x.shape[axis:]))


def vectorize(pyfunc, *, excluded=frozenset(), signature=None):
    """A function that applies pyfunc along all axes but those that the signature names: "(n),(n)->()" for
    one of two vectors, by default none. Arguments broadcast along the others. excluded: numbers of
    arguments that are passed on as they are.

    >>> hop.vectorize(lambda a, b: hop.dot(a, b), signature="(n),(n)->()")(hop.ones((2, 3)), hop.ones(3))
    Array([3., 3.], dtype=float32)
    """
    _arguments.function("vectorize: pyfunc", pyfunc)
    if not isinstance(excluded, (set, frozenset, tuple, list)):
        raise _arguments.wrong("vectorize: excluded", "numbers of arguments", excluded)
    fixed = {_arguments.integer("vectorize: excluded", i, 0) for i in excluded}
    ranks = None if signature is None else _signature(signature)

    def record(*args):
        arrays = {i: asarray(x) for i, x in enumerate(args) if i not in fixed}
        inner = ranks if ranks is not None else [0] * len(arrays)
        if len(inner) != len(arrays):
            found = f"the signature {signature} has {len(inner)} arguments, found {len(arrays)}"
            raise InvalidError(f"{place()}vectorize: {found}")
        lanes = {}
        for (i, x), rank in zip(arrays.items(), inner):
            if x.ndim < rank:
                found = f"argument {i} has type {x._type}, the signature {signature} has {rank} axes"
                raise InvalidError(f"{place()}vectorize: {found}")
            lanes[i] = x.shape[: x.ndim - rank]
        shape = broadcast_shapes(*lanes.values()) if lanes else ()
        wide = {
            i: broadcast_to(x, (*shape, *x.shape[len(lanes[i]) :])) if lanes[i] else x
            for i, x in arrays.items()
        }

        def call(*values):
            rest = iter(values)
            every = [next(rest) if i in arrays else x for i, x in enumerate(args)]
            return _arguments.twins.of(pyfunc)(*every)

        for _ in shape:
            call = vmap(call, in_axes=tuple(0 if lanes[i] else None for i in arrays))
        return call(*wide.values())

    transform = _Vectorized(("vectorize", signature, frozenset(fixed)), record, fixed)
    table = transform.table(pyfunc)

    def vectorized(*args):
        if _core.tracing() or _core.jit_disabled():
            return record(*args)
        args = tuple([x if i in fixed else asarray(x) for i, x in enumerate(args)])
        return _calls.run(transform, table, pyfunc, args, {})

    return vectorized


class _Vectorized(_calls.Loop):
    """fixed: positions of arguments that are passed on as they are."""

    def plan(self, arguments):
        return _numbers_elsewhere(arguments, set(range(len(arguments.args))) - self.fixed), None


def _signature(text):
    """How many axes each argument has in it."""
    one = r"\(\s*(?:\w+\s*(?:,\s*\w+\s*)*)?\)"
    if not isinstance(text, str) or not re.fullmatch(
        rf"\s*{one}(\s*,\s*{one})*\s*->\s*{one}(\s*,\s*{one})*\s*", text
    ):
        raise _arguments.wrong("vectorize: signature", 'a text like "(n,k),(k)->(n)"', text)
    return [len(re.findall(r"\w+", part)) for part in re.findall(one, text.split("->")[0])]


def _axes_in(arguments, axes, axis_size):
    """The axes of all leaves counted from the front; they must be of one size."""
    out, size, whose = [], axis_size, None
    for path, x, a in zip(tree.leaf_paths(arguments.treedef), arguments.found, axes):
        what = tree.path_text(path[2:], f"argument {path[1]}")
        if a is None:
            out.append(None)
            continue
        x = x if isinstance(x, _core.ArrayBase) else asarray(x)
        if x.dtype.kind == "o":  # one for all lanes
            out.append(None)
            continue
        if not isinstance(a, int) or not -x.ndim <= a < x.ndim:
            raise ValueError(f"{place()}vmap: in_axes has {a!r} for {what}, which is {x._type}")
        a %= x.ndim
        n = x.shape[a]
        if size is not None and _shapes.differ(n, size):
            raise InvalidError(
                f"{place()}vmap: {what} has size {n} along axis {a}, {whose or 'axis_size'} has {size}"
            )
        size, whose = n, whose or what
        out.append(a)
    if axis_size is None and whose is None:
        raise ValueError(
            f"{place()}vmap: no argument has an axis to map over: "
            "in_axes is None for all of them, and there is no axis_size"
        )
    return out


def checkpoint(fun=None, *, policy=None, prevent_cse=True, static_argnums=()):
    """fun, but a gradient keeps its arguments only and runs it again instead of keeping what it computed.
    static_argnums: arguments that are no arrays.

    policy says what is kept besides: hop.policies.products, hop.policies.names(save=["a"]) with
    hop.checkpoint_name(x, "a") in fun, …, or such a policy as text; None: nothing. hop.keep(x) inside of fun
    keeps one value in spite of any. prevent_cse changes nothing, because what is run again is never merged
    with what was run before: it is taken because JAX's programs give it.

    >>> hop.grad(hop.remat(hop.cos))(0.0)
    Array(-0., dtype=float32)
    >>> @hop.checkpoint(policy=hop.policies.products)
    ... def layer(w, x):
    ...     return hop.sin(x @ w)
    >>> hop.grad(lambda w: hop.sum(layer(w, hop.ones((2, 2)))))(hop.zeros((2, 2)))
    Array([[2., 2.],
           [2., 2.]], dtype=float32)
    """
    if fun is None:
        return functools.partial(
            checkpoint, policy=policy, prevent_cse=prevent_cse, static_argnums=static_argnums
        )
    _reuse.check_pure(_callable(fun, "checkpoint"))
    chosen = _policies.policy_of("nothing" if policy is None else policy, "checkpoint: policy")
    text, keeps = None if policy is None else chosen.text, chosen.keeps()
    whole = text is None and keeps is None
    static = _arguments.argument_numbers("checkpoint: static_argnums", static_argnums, fun)
    called = in_program(
        fun, "checkpoint", static, lambda body, values: _core.invoke(body, values, whole, text, keeps)
    )

    @_wrapper(fun, "checkpoint")
    def checkpointed(*args, **named):
        return called(*args, **named) if _core.tracing() else fun(*args, **named)

    return checkpointed


def in_program(fun, what, static, invoke):
    """fun as a body of its own in the program that is being captured: invoke(body, values) makes the node.
    static: numbers of arguments that are no arrays."""
    bodies = _reuse.bodies_by_code(fun)

    def called(*args, **named):
        fixed = {p % len(args): args[p] for p in static if -len(args) <= p < len(args)}
        dynamic = tuple(x for i, x in enumerate(args) if i not in fixed)
        arguments = _calls.Arguments(fun, dynamic, named)
        leaves, weak, treedef = arguments.settled(arguments.numbers())

        def partly(*dynamic, **named):
            rest = iter(dynamic)
            every = [fixed[i] if i in fixed else next(rest) for i in range(len(args))]
            return _arguments.twins.of(fun)(*every, **named)

        whole = partly if fixed else fun
        t = _kept_body(bodies, what, fun, whole, fixed, dynamic, named, leaves, weak, treedef)
        if t is not None:
            def kept(*values):
                with _modes.fresh():  # what it was captured under is in it
                    return t.function.call(values)

            out = invoke(named_body(kept, fun), t.operands())
            return tree.unflatten(t.out_tree, out)
        seen = []

        def flat(*values):
            a, k = tree.unflatten(treedef, marked(values, weak))
            found, out_tree = arrays_of_results(_arguments.twins.of(whole)(*a, **k))
            found, weak_out = body_leaves(found)
            seen.append((out_tree, weak_out))
            return found

        body = body_of(flat, fun)
        out = recorded(lambda: invoke(body, leaves))
        out_tree, weak_out = seen[-1]
        return tree.unflatten(out_tree, marked(out, weak_out))

    return called


def _kept_body(bodies, what, fun, whole, fixed, dynamic, named, leaves, weak, treedef):
    """What is captured of the function once; None: it is captured in place."""
    if not _reuse.fixed_sizes(leaves):
        return None
    if not all(isinstance(x, _reuse.SIMPLE) for x in tree.constants(treedef)):
        return None
    try:
        key = (what, value_key(tuple(sorted(fixed.items()))), _reuse.kinds(leaves, weak, treedef))
        hash(key)
    except TypeError:
        return None
    names = argument_names(fun, len(dynamic) + len(fixed))
    given = {names[i]: x for i, x in fixed.items() if i < len(names)}
    try:
        t = _reuse.traced(bodies, key, fun, given, whole, dynamic, named, leaves, weak, in_tree=treedef)
    except WriteError as error:  # an array of the program around
        _core.known(error)
        return None
    return None if any(t.weak_out) else t


remat = checkpoint
