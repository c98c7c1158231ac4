"""Functions with gradients of their own, as PyTorch writes them: a class with forward, backward and more.

>>> import hop
>>> class Square(hop.autograd.Function):
...     @staticmethod
...     def forward(x):
...         return x * x
...     @staticmethod
...     def setup_context(ctx, inputs, output):
...         ctx.save_for_backward(*inputs)
...     @staticmethod
...     def backward(ctx, grad):
...         (x,) = ctx.saved_tensors
...         return 2 * x * grad
>>> hop.grad(Square.apply)(3.0)
Array(6., dtype=float32)
"""

__all__ = ["Function", "FunctionCtx"]

import builtins
import collections

from . import _arguments, _core, tree
from ._arguments import place, twins
from ._custom import SymbolicZero, record, symbolic_zero
from ._errors import InvalidError
from ._objects import Ruled
from ._ops import broadcast_shapes, moveaxis, reshape, stop_gradient, sum as _sum
from ._trace import arrays_of_results

VmapInfo = collections.namedtuple("VmapInfo", "batch_size randomness")
_METHODS = ("forward", "setup_context", "backward", "jvp", "vmap")


class FunctionCtx:
    """What forward leaves for backward and jvp: arrays that are saved, marks, and any attributes.

    >>> ctx = hop.autograd.FunctionCtx((True,))
    >>> ctx.save_for_backward(hop.asarray(1.0), None)
    >>> ctx.saved_tensors
    (Array(1., dtype=float32), None)
    """

    def __init__(self, needs_input_grad=()):
        self.needs_input_grad = needs_input_grad
        self._saved = self._for_forward = None
        self._dirty = self._constant = ()
        self._materialize, self._in_jvp = True, False

    def save_for_backward(self, *tensors):
        """Keeps arrays, or None, for backward: ctx.saved_tensors."""
        self._saved = _checked("save_for_backward", tensors)

    def save_for_forward(self, *tensors):
        """Keeps arrays, or None, for jvp: ctx.saved_tensors there."""
        self._for_forward = _checked("save_for_forward", tensors)

    @property
    def saved_tensors(self):
        """What was saved: in jvp what save_for_forward was given, if it was called."""
        saved = self._for_forward if self._in_jvp and self._for_forward is not None else self._saved
        return saved or ()

    def mark_dirty(self, *args):
        """These inputs were changed in place, and are among the outputs: the caller's arrays become them."""
        self._dirty = args

    def mark_non_differentiable(self, *args):
        """These outputs are constants for gradients; backward gets zeros for them."""
        self._constant = args

    def set_materialize_grads(self, value):
        """Whether backward gets zeros for outputs without gradients, which are those that are no floats, that
        are marked as not differentiable, or that nothing depends on; else None. Of more than three outputs
        those that nothing depends on come as zeros."""
        self._materialize = builtins.bool(value)


def _checked(name, tensors):
    for x in tensors:
        if x is not None and not isinstance(x, _core.ArrayBase):
            raise TypeError(
                f"{place()}ctx.{name}: expected arrays or None, found {_arguments.found(x)}: "
                "keep other things as attributes, ctx.name = value"
            )
    return tensors


class Function:
    """A function with a gradient of its own, written as a class with static methods; Class.apply(*args) calls
    it. Nothing is made of the class itself.

    - forward(*args) with setup_context(ctx, inputs, output), or forward(ctx, *args), which does both.
      ctx.save_for_backward keeps arrays, attributes of ctx keep anything.
    - backward(ctx, *grads) gets a gradient for each output and gives one for each argument, None where there
      is none; one that has the shape of a broadcast is summed. Without it the transpose of jvp is taken.
    - jvp(ctx, *tangents) gets a tangent for each argument, None for what is no array of floats, and gives one
      for each output. Without it the transpose of backward is taken.
    - vmap(info, in_dims, *args) gives (outputs, their axes) for arguments of which some have one more axis.
      Without it, and with generate_vmap_rule = True, forward and backward are batched.

    ctx.needs_input_grad says which arguments are arrays of floats: which of them a gradient is asked of is
    not known yet when a function is captured, and what nobody asks for is not computed. With setup_context
    the rules count for derivatives of every order; those of forward(ctx, *args) for the first, and further
    ones differentiate what forward and backward do.

    >>> class Clipped(hop.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x, limit):
    ...         ctx.limit = limit
    ...         return x * 1
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         return hop.clip(grad, -ctx.limit, ctx.limit), None
    >>> hop.grad(lambda x: 10 * Clipped.apply(x, 2.0))(1.0)
    Array(2., dtype=float32)
    """

    generate_vmap_rule = False

    def __init__(self, *args, **named):
        raise TypeError(
            f"{place()}{type(self).__name__} is not made into objects: call {type(self).__name__}.apply(…)"
        )

    def __init_subclass__(cls, **named):
        super().__init_subclass__(**named)
        cls.apply = _Apply(cls)

    @staticmethod
    def forward(*args):
        """What the function gives."""
        raise NotImplementedError

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Keeps in ctx what backward and jvp need."""
        raise NotImplementedError

    @staticmethod
    def backward(ctx, *grad_outputs):
        """Gradients of the arguments, of those of the outputs."""
        raise NotImplementedError

    @staticmethod
    def jvp(ctx, *grad_inputs):
        """Tangents of the outputs, of those of the arguments."""
        raise NotImplementedError

    @staticmethod
    def vmap(info, in_dims, *args):
        """(outputs, their axes) over lanes."""
        raise NotImplementedError


class _Apply(Ruled):
    """Class.apply. _fun and _rules: the methods of the class, as guards find them."""

    def __init__(self, cls):
        self._cls, self._fun, self._static = cls, cls.forward, ()
        self._rules = {
            name: getattr(cls, name)
            for name in _METHODS[1:]
            if getattr(cls, name) is not getattr(Function, name)
        }
        self.__name__, self.__qualname__ = "apply", f"{cls.__qualname__}.apply"
        self.__module__, self.__doc__ = cls.__module__, cls.__doc__

    def __repr__(self):
        return f"<{self.__qualname__}>"

    def __call__(self, *args, **named):
        cls, name, rules = self._cls, self._cls.__name__, self._rules
        if named:
            raise TypeError(
                f"{place()}{name}.apply: arguments are given by position alone, found {next(iter(named))!r}"
            )
        if self._fun is Function.forward:
            raise InvalidError(f"{place()}{name} has no forward: what {name}.apply gives")
        if "vmap" in rules and cls.generate_vmap_rule:
            raise InvalidError(
                f"{place()}{name} has both vmap and generate_vmap_rule = True: leave one of them out"
            )
        if not _core.tracing():
            return _applied(args, *self._run(*_own(args))[0])
        if "backward" not in rules and "jvp" not in rules:
            raise InvalidError(
                f"{place()}{name} has no gradient: give it a backward(ctx, *grads), or a jvp(ctx, *tangents)"
            )
        how, made = {}, []

        def outputs(*args):
            out, ctx = self._run(*args)
            made.append(ctx)
            return out

        def later():
            zeros = made[-1]._materialize
            if "backward" not in rules or "setup_context" in rules and zeros:
                return {}
            forward = _named(self._run, self._fun)
            return {"forward": forward, "missing": None if zeros else symbolic_zero}

        if "backward" in rules:
            how["backward"] = _named(self._backward(args), rules["backward"])
        if "jvp" in rules:
            how["jvp"] = _named(self._jvp, rules["jvp"])
        if "vmap" in rules:
            how["batch"] = _named(self._batch, rules["vmap"])
        out, marks = record(name, _named(outputs, self._fun), args, owner=self, later=later, **how)
        return _applied(args, out, marks)

    # -- running --

    def _run(self, *args):
        """((outputs, marks), ctx)"""
        ctx = FunctionCtx(tuple([_has_floats(x) for x in args]))
        if "setup_context" in self._rules:
            out = twins.of(self._fun)(*args)
            twins.of(self._rules["setup_context"])(ctx, args, out)
        else:
            out = twins.of(self._fun)(ctx, *args)
        return (out, _marks(self._cls.__name__, ctx, args, out)), ctx

    def _batch(self, size, in_batched, *args):
        """vmap, of arguments whose arrays all have the axis in front."""
        name, rule = self._cls.__name__, self._rules["vmap"]
        in_dims = tuple([0 if _has_arrays(x) else None for x in args])
        given = twins.of(rule)(VmapInfo(size, "error"), in_dims, *args)
        if not isinstance(given, tuple) or len(given) != 2:
            raise InvalidError(f"{place()}{name}: {_written(rule)} must give a pair (outputs, their axes)")
        out, dims = given
        parts = _parts(out)
        dims = list(dims) if isinstance(dims, (tuple, list)) else [dims] * len(parts)
        if len(dims) != len(parts):
            raise InvalidError(
                f"{place()}{name}: {_written(rule)} gives {len(parts)} outputs and {len(dims)} axes"
            )
        moved = [x if d is None else moveaxis(x, d, 0) for x, d in zip(parts, dims)]
        over = [d is not None for d in dims]
        whole = isinstance(out, tuple)
        marks = frozenset()
        return (tuple(moved) if whole else moved[0], marks), (tuple(over) if whole else over[0], False)

    def _backward(self, args):
        """The rule of a call. It gets ctx, or arguments and results, of which setup_context makes one."""
        rule = self._rules["backward"]

        def backward(saved, cotangent):
            ctx = saved
            if not isinstance(saved, FunctionCtx):
                inputs, (out, _) = saved
                ctx = FunctionCtx(tuple([_has_floats(x) for x in inputs]))
                twins.of(self._rules["setup_context"])(ctx, inputs, out)
            grads, marks = cotangent
            if not ctx._materialize:
                grads = _without_zeros(grads, marks)
                if all(g is None for g in tree.leaves(grads, is_leaf=lambda g: g is None)):
                    return (None,) * len(args)  # there is none but for outputs that are constants
            given = twins.of(rule)(ctx, *_parts(grads))
            return self._gradients(rule, args, given if isinstance(given, (tuple, list)) else (given,))

        return backward

    def _gradients(self, rule, args, given):
        """A gradient for each argument, as backward gives them, of the argument's shape."""
        name, n = self._cls.__name__, len(args)
        if len(given) > n and all(x is None for x in given[n:]):
            given = given[:n]
        if len(given) != n:
            raise InvalidError(
                f"{place()}{name}: {_written(rule)} gives {len(given)} gradients, {name}.apply was given {n} "
                "arguments: one is expected for each, None where there is none"
            )
        out = []
        for i, (x, g) in enumerate(zip(args, given)):
            if g is not None and not _has_arrays(x):
                raise InvalidError(
                    f"{place()}{name}: {_written(rule)} gives a gradient for argument {i}, which is no array "
                    f"({_arguments.found(x)}): give None for it"
                )
            whole = g is not None and isinstance(x, _core.ArrayBase) and isinstance(g, _core.ArrayBase)
            out.append(_summed_to(x, g, f"{name}: {_written(rule)}", i) if whole else g)
        return tuple(out)

    def _jvp(self, primals, tangents):
        (out, marks), ctx = self._run(*primals)
        ctx._in_jvp = True
        rule = self._rules["jvp"]
        moved = [t if _has_floats(x) else None for x, t in zip(primals, tangents)]
        given = twins.of(rule)(ctx, *moved)
        parts = _parts(given) if isinstance(out, tuple) else [given]
        if len(parts) != len(_parts(out)):
            raise InvalidError(
                f"{place()}{self._cls.__name__}: {_written(rule)} gives {len(parts)} tangents, forward gives "
                f"{len(_parts(out))} outputs: one is expected for each, None where it is zero"
            )
        return (out, marks), (tuple(parts) if isinstance(out, tuple) else parts[0], marks)


def _own(args):
    """Arguments whose arrays nobody else holds: forward may write to them."""
    return tree.map(lambda x: x._alias() if isinstance(x, _core.ArrayBase) else x, args)


def _parts(x):
    return list(x) if isinstance(x, tuple) else [x]


def _has_arrays(x):
    return any(isinstance(leaf, _core.ArrayBase) for leaf in tree.leaves(x))


def _has_floats(x):
    return any(isinstance(leaf, _core.ArrayBase) and leaf.dtype.kind == "f" for leaf in tree.leaves(x))


def _named(rule, fun):
    """A rule that calls a method of the user's, which messages are about."""

    def call(*args):
        return rule(*args)

    call.__wrapped__, call.__name__ = fun, getattr(fun, "__name__", "rule")
    return call


def _written(rule):
    code = getattr(rule, "__code__", None)
    name = getattr(rule, "__name__", "a rule")
    return name if code is None else f"{name} ({code.co_filename}:{code.co_firstlineno})"


def _marks(name, ctx, args, out):
    """What forward marked, as a part of the structure of its outputs: ("constant", number of an output leaf),
    ("dirty", number of an argument, number of an output leaf)."""
    leaves, marks = arrays_of_results(out)[0], set()
    for x in ctx._constant:
        found = [j for j, y in enumerate(leaves) if y is x]
        if not found:
            raise InvalidError(f"{place()}{name}: ctx.mark_non_differentiable: that is no output of forward")
        marks.add(("constant", found[0]))
    for x in ctx._dirty:
        which = [i for i, y in enumerate(args) if y is x]
        found = [j for j, y in enumerate(leaves) if y is x]
        if not which:
            raise InvalidError(f"{place()}{name}: ctx.mark_dirty: that is no argument of forward")
        if not found:
            raise InvalidError(
                f"{place()}{name}: ctx.mark_dirty: argument {which[0]} is not among the outputs of forward: "
                "return what was changed, the same object"
            )
        marks.add(("dirty", which[0], found[0]))
    return frozenset(marks)


def _applied(args, out, marks):
    """The outputs, with what their marks say done."""
    if not marks:
        return out
    leaves, structure = arrays_of_results(out)
    for kind, *numbers in sorted(marks):
        if kind == "constant":
            leaves[numbers[0]] = stop_gradient(leaves[numbers[0]])
        else:
            i, j = numbers
            args[i][...] = leaves[j]
            leaves[j] = args[i]
    return tree.unflatten(structure, leaves)


def _without_zeros(grads, marks):
    """None in the places of outputs that have no gradients."""
    constant = {numbers[0] for kind, *numbers in marks if kind == "constant"}
    leaves, structure = tree.flatten(grads)

    def is_zero(j, x):
        return j in constant or isinstance(x, SymbolicZero) or x.dtype.kind != "f"

    return tree.unflatten(structure, [None if is_zero(j, x) else x for j, x in enumerate(leaves)])


def _summed_to(x, g, whose, number):
    """A gradient with the shape and dtype of its argument: the sum over axes along which it was broadcast."""
    if g.shape != x.shape:
        try:
            fits = broadcast_shapes(x.shape, g.shape) == g.shape
        except ValueError:
            fits = False
        if not fits:
            raise InvalidError(
                f"{place()}{whose}: the gradient of argument {number} has shape {g.shape}, expected "
                f"{x.shape}, that of the argument"
            )
        more = g.ndim - x.ndim
        along = [i for i in range(g.ndim) if i < more or x.shape[i - more] == 1 and g.shape[i] != 1]
        g = reshape(_sum(g, axis=tuple(along)), x.shape)
    return g if g.dtype == x.dtype else g.astype(x.dtype)
