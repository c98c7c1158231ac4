"""Transforms of Python functions: each captures its function, transforms the program, and calls what comes out, in whatever context the call stands. So they
nest in any order."""

__all__ = ["grad", "value_and_grad", "vjp", "jvp", "linearize", "jacfwd", "jacrev", "hessian", "vmap", "checkpoint"]

import functools

from . import _arguments, _core, tree
from ._arguments import place
from ._dtypes import float32
from ._errors import InvalidError
from ._ops import astype, zeros_like
from ._trace import apply, arguments_of, arrays_of, arrays_of_results, body_leaves, capture, marked


def _wrapper(fun, name):
    def decorate(g):
        try:
            functools.update_wrapper(g, fun)
        except (AttributeError, TypeError):
            pass
        g.__doc__ = f"{name} of {getattr(fun, '__name__', fun)!s}.\n\n{getattr(fun, '__doc__', None) or ''}"
        return g

    return decorate


def _callable(fun, name):
    if not callable(fun):
        raise TypeError(f"{place()}{name} takes a function, found {_arguments.found(fun)}")
    return fun


def _argnums(argnums, fun, name):
    """argnums as it is given, of a function that has such arguments."""
    numbers = _arguments.argument_numbers(f"{name}: argnums", argnums, fun)
    return numbers if isinstance(argnums, (tuple, list, set, frozenset, range)) else numbers[0]


def _positions(argnums, n, name):
    """argnums as a tuple of positions."""
    out = []
    for a in argnums if isinstance(argnums, tuple) else (argnums,):
        if not -n <= a < n:
            raise InvalidError(f"{place()}{name}: argnums={argnums!r}, but the function was called with {n} positional arguments")
        out.append(a % n)
    if len(set(out)) != len(out):
        raise InvalidError(f"{place()}{name}: argnums={argnums!r} names an argument twice")
    return tuple(out)


def _wrt(t, args, positions, name, fun):
    """The names of the leaves of these arguments, which must be floats, and which leaves they are."""
    names, numbers, at = [], [], 0
    for i, x in enumerate(args):
        for path, _ in tree.leaves_with_path(x):
            if i in positions:
                leaf = t.leaves[at]
                if leaf.dtype.kind != "f":
                    raise InvalidError(
                        f"{place()}{name}: {tree.path_text(path, f'argument {i}')} has dtype {leaf.dtype}: derivatives need floats; convert it (x.astype(hop.float32), or 1.0 for 1), or leave it out of argnums"
                    )
                names.append(t.names[at])
                numbers.append(at)
            at += 1
    return names, numbers


def _for_leaf(t, i, x):
    """What belongs to a leaf of the arguments, as that is: weak, and of the dtype of real numbers, where it was a Python number."""
    if not t.weak[i]:
        return x
    return (x if x.dtype.kind != "f" else astype(x, float32, copy=False))._marked(False)


def _by_argument(args, positions, leaves, argnums):
    """Leaves in the order of the arguments, as trees of these arguments in the order of argnums."""
    parts, at = {}, 0
    for p in sorted(set(positions)):
        treedef = tree.structure(args[p])
        parts[p] = tree.unflatten(treedef, leaves[at : at + treedef.num_leaves])
        at += treedef.num_leaves
    return tuple(parts[p] for p in positions) if isinstance(argnums, (tuple, list)) else parts[positions[0]]


def value_and_grad(fun, argnums=0, has_aux=False):
    """A function that gives the value of fun, a float scalar, and its gradient for the arguments at argnums. With has_aux fun gives (value, more), and the
    result is ((value, more), gradient)."""
    _callable(fun, "value_and_grad")
    argnums, has_aux = _argnums(argnums, fun, "value_and_grad"), _arguments.flag("value_and_grad: has_aux", has_aux)

    @_wrapper(fun, "Value and gradient")
    def value_and_gradient(*args, **named):
        return _value_and_grad(fun, argnums, has_aux, args, named, "value_and_grad")

    return value_and_gradient


def grad(fun, argnums=0, has_aux=False):
    """A function that gives the gradient of fun, a float scalar, for the arguments at argnums (a number, or a tuple for several). With has_aux fun gives
    (value, more), and the result is (gradient, more)."""
    _callable(fun, "grad")
    argnums, has_aux = _argnums(argnums, fun, "grad"), _arguments.flag("grad: has_aux", has_aux)

    @_wrapper(fun, "Gradient")
    def gradient(*args, **named):
        value, gradients = _value_and_grad(fun, argnums, has_aux, args, named, "grad")
        return (gradients, value[1]) if has_aux else gradients

    return gradient


def _value_and_grad(fun, argnums, has_aux, args, named, name):
    positions = _positions(argnums, len(args), name)
    t = capture(fun, args, named)
    if has_aux and (t.out_tree.kind is not tuple or len(t.out_tree.children) != 2):
        raise InvalidError(f"{place()}{name}: with has_aux the function must give a pair (value, more), it gives {t.out_tree._text()}")
    value_tree = t.out_tree.children[0] if has_aux else t.out_tree
    wrt, which = _wrt(t, args, positions, name, fun)
    first = t.function.results[0] if t.function.results else "nothing"
    if value_tree.num_leaves != 1 or value_tree.kind is not None or not first.endswith("[]") or first[0] not in "fb" or first == "bool[]":
        found = first if value_tree.kind is None else value_tree._text()
        raise InvalidError(f"{place()}{name}: the function must give one float scalar, it gives {found}" + ("" if has_aux else "; use has_aux=True to give more besides, hop.jacrev for arrays"))
    out = apply(t.function.transform("value_and_grad", ", ".join(wrt)), t.operands())
    n = t.out_tree.num_leaves
    gradients = [_for_leaf(t, i, g) for i, g in zip(which, out[n:])]
    return tree.unflatten(t.out_tree, marked(out[:n], t.weak_out, False)), _by_argument(args, positions, gradients, argnums)


def _float_leaves(t):
    """Which results are floats."""
    return [r.split("[")[0] in ("f16", "bf16", "f32", "f64") for r in t.function.results]


def _active(leaves):
    return [i for i, x in enumerate(leaves) if x.dtype.kind == "f"]


def vjp(fun, *primals, has_aux=False):
    """(fun(*primals), pullback): the pullback takes a cotangent for the result and gives a tuple of cotangents, one per argument. Leaves that are no floats get zeros."""
    _callable(fun, "vjp")
    has_aux = _arguments.flag("vjp: has_aux", has_aux)
    t = capture(fun, primals)
    if has_aux and (t.out_tree.kind is not tuple or len(t.out_tree.children) != 2):
        raise InvalidError(f"{place()}vjp: with has_aux the function must give a pair (value, more), it gives {t.out_tree._text()}")
    out_tree = t.out_tree.children[0] if has_aux else t.out_tree
    operands, floats = t.operands(), _float_leaves(t)
    active = _active(t.leaves)
    values, second, saved, skip = _halves(t, "vjp", active, operands)

    def pullback(cotangent):
        given, treedef = arrays_of(cotangent, "cotangent")
        if treedef != out_tree:
            where = tree.difference(out_tree, treedef)
            raise InvalidError(f"{place()}vjp: {tree.path_text(where[0], 'cotangent')}: the cotangent has the structure {where[2]}, the result has {where[1]}")
        given += [zeros_like(v) for v in values[len(given) :]]  # of what has_aux adds
        wanted = []
        for i, (c, v) in enumerate(zip(given, values)):
            if not floats[i]:
                continue
            if c.shape != v.shape:
                path = tree.leaves_with_path(tree.unflatten(out_tree, list(range(out_tree.num_leaves))))[i][0]
                raise InvalidError(f"{place()}vjp: {tree.path_text(path, 'cotangent')} is {c._type}, the result is {v._type}")
            wanted.append(c.astype(v.dtype) if c.dtype is not v.dtype else c)
        found = dict(zip(active, apply(second, [*operands, *saved, *wanted])[skip:])) if second else {}
        leaves = [_for_leaf(t, i, found[i] if i in found else zeros_like(x)) for i, x in enumerate(t.leaves)]
        return tree.unflatten(tree.structure(primals), leaves)

    result = tree.unflatten(t.out_tree, marked(values, t.weak_out, False))
    return (result[0], pullback, result[1]) if has_aux else (result, pullback)


def _halves(t, how, active, operands):
    """(results, the function of the rest, what it takes besides the operands and the directions, how many of its results come before the derivatives).

    At once, the derivative is taken in two halves, so that nothing is computed twice. In a program being captured the whole is recorded: there the passes
    find what is computed twice, and sizes that only a run knows need not be named."""
    n = t.out_tree.num_leaves
    if not active:
        return apply(t.function, operands), None, [], 0
    wrt = ", ".join(t.names[i] for i in active)
    if _core.tracing():
        return apply(t.function, operands), t.function.transform(how, wrt), [], n
    forward, second = t.function.halves(how, wrt)
    out = apply(forward, operands)
    return out[:n], second, out, 0


def _jvp_function(fun, primals):
    t = capture(fun, primals)
    active = _active(t.leaves)
    pushed = t.function.transform("jvp", ", ".join(t.names[i] for i in active)) if active else None
    return t, active, pushed


def _tangents(t, primals, tangents, active):
    given, treedef = arrays_of(tangents, "tangents")
    expected = tree.structure(tuple(primals))
    if treedef != expected:
        where = tree.difference(expected, treedef)
        raise InvalidError(f"{place()}jvp: {tree.path_text(where[0], 'tangents')}: the tangents have the structure {where[2]}, the arguments have {where[1]}")
    out = []
    for i in active:
        x, v = t.leaves[i], given[i]
        if v.shape != x.shape:
            path = tree.leaves_with_path(tuple(primals))[i][0]
            raise InvalidError(f"{place()}jvp: {tree.path_text(path, 'tangents')} is {v._type}, the argument is {x._type}")
        out.append(v.astype(x.dtype) if v.dtype is not x.dtype else v)
    return out


def _push(t, active, pushed, primals, tangents):
    n = t.out_tree.num_leaves
    if pushed is None:
        values = apply(t.function, t.operands())
        return values, [zeros_like(v) for v in values]
    out = apply(pushed, [*t.leaves, *t.hidden, *_tangents(t, primals, tangents, active)])
    rest = iter(out[n:])
    return out[:n], [next(rest) if f else zeros_like(v) for v, f in zip(out[:n], _float_leaves(t))]


def jvp(fun, primals, tangents):
    """(fun(*primals), its derivative there in the direction of the tangents)."""
    _callable(fun, "jvp")
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError(f"{place()}jvp: primals and tangents are tuples, with an entry per argument")
    primals, tangents = tuple(primals), tuple(tangents)
    t, active, pushed = _jvp_function(fun, primals)
    values, moved = _push(t, active, pushed, primals, tangents)
    return tree.unflatten(t.out_tree, marked(values, t.weak_out, False)), tree.unflatten(t.out_tree, marked(moved, t.weak_out, False))


def linearize(fun, *primals):
    """(fun(*primals), its derivative there, a linear function of tangents)."""
    _callable(fun, "linearize")
    t = capture(fun, primals)
    active, operands, floats = _active(t.leaves), t.operands(), _float_leaves(t)
    values, second, saved, skip = _halves(t, "jvp", active, operands)

    def derivative(*tangents):
        given = _tangents(t, primals, tangents, active)
        rest = iter(apply(second, [*operands, *saved, *given])[skip:] if second else ())
        moved = [next(rest) if f and second else zeros_like(v) for v, f in zip(values, floats)]
        return tree.unflatten(t.out_tree, marked(moved, t.weak_out, False))

    return tree.unflatten(t.out_tree, marked(values, t.weak_out, False)), derivative


def _jacobian(fun, argnums, how):
    _callable(fun, how)
    argnums = _argnums(argnums, fun, how)

    @_wrapper(fun, "Jacobian")
    def jacobian(*args, **named):
        positions = _positions(argnums, len(args), how)
        t = capture(fun, args, named)
        if not all(_float_leaves(t)):
            raise InvalidError(f"{place()}{how}: every result must be a float, found {', '.join(t.function.results)}")
        wrt, which = _wrt(t, args, positions, how, fun)
        out = apply(t.function.transform(how, ", ".join(wrt)), t.operands())
        out = [_for_leaf(t, which[i % len(wrt)], x) for i, x in enumerate(out)]
        rows = [_by_argument(args, positions, out[i * len(wrt) : (i + 1) * len(wrt)], argnums) for i in range(t.out_tree.num_leaves)]
        return tree.unflatten(t.out_tree, rows)

    return jacobian


def jacfwd(fun, argnums=0):
    """A function that gives all derivatives of fun's results, a column at a time: quick for few inputs. Axes of the result come first."""
    return _jacobian(fun, argnums, "jacfwd")


def jacrev(fun, argnums=0):
    """A function that gives all derivatives of fun's results, a row at a time: quick for few results. Axes of the result come first."""
    return _jacobian(fun, argnums, "jacrev")


def hessian(fun, argnums=0):
    """A function that gives all second derivatives."""
    _callable(fun, "hessian")
    argnums = _argnums(argnums, fun, "hessian")
    return jacfwd(jacrev(fun, argnums), argnums)


# ---- over one more axis ----


def vmap(fun, in_axes=0, out_axes=0, axis_size=None):
    """fun over one more axis. in_axes says for each argument (or each part of one) which axis that is, None for what all share; out_axes where it is in the results."""
    _callable(fun, "vmap")
    for what, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        for path, a in tree.leaves_with_path(axes):
            _arguments.integer(f"vmap: {tree.path_text(path, what)}", a, expected="the number of an axis, or None")
    axis_size = None if axis_size is None else _arguments.size("vmap: axis_size", axis_size)

    @_wrapper(fun, "vmap")
    def batched(*args, **named):
        leaves, weak, treedef = arguments_of(fun, args, named)
        axes_in = tuple(in_axes) if isinstance(in_axes, list) else in_axes
        if isinstance(axes_in, tuple) and len(axes_in) != len(args):
            raise ValueError(f"{place()}vmap: in_axes has {len(axes_in)} entries, the function was called with {len(args)} arguments")
        args_tree = treedef.children[0]
        axes = tree.prefix_leaves(axes_in, args_tree, f"{place()}vmap: in_axes") + [0] * treedef.children[1].num_leaves
        axes, types, size = _inner_types(leaves, axes, (args, named), axis_size)
        t = capture(fun, args, named, leaves, types, weak)
        spec = ", ".join(f"{n}: {a}" for n, a in zip(t.names, axes) if a is not None)
        placed = tree.prefix_leaves(out_axes, t.out_tree, f"{place()}vmap: out_axes")
        texts = []
        for a, r in zip(placed, t.function.results):
            rank = 0 if r.endswith("[]") else r.count(",") + 1
            if a is not None and not -rank - 1 <= a <= rank:
                raise ValueError(f"{place()}vmap: out_axes has {a} for a result of type {r}")
            texts.append("-" if a is None else str(a if a >= 0 else a + rank + 1))
        out = apply(t.function.transform("vmap", spec, ", ".join(texts)), t.operands())
        return tree.unflatten(t.out_tree, marked(out, t.weak_out, False))

    return batched


def _inner_types(leaves, axes, args, axis_size):
    """The axes counted from the front, the types without them, and the size that all have in common."""
    out, types, size, whose = [], [], axis_size, None
    paths = tree.leaves_with_path(args)
    for (path, _), x, a in zip(paths, leaves, axes):
        what = tree.path_text(path[2:], f"argument {path[1]}")
        if a is None:
            out.append(None)
            types.append(x._type)
            continue
        if not isinstance(a, int) or not -x.ndim <= a < x.ndim:
            raise ValueError(f"{place()}vmap: in_axes has {a!r} for {what}, which is {x._type}")
        a %= x.ndim
        shape = list(x.shape)
        n = shape.pop(a)
        if size is not None and n != size:
            raise InvalidError(f"{place()}vmap: {what} has size {n} along axis {a}, {whose or 'axis_size'} has {size}")
        size, whose = n, whose or what
        out.append(a)
        types.append(f"{x.dtype.text}[{', '.join(map(str, shape))}]")
    if size is None or all(a is None for a in out):
        raise ValueError(f"{place()}vmap: no argument has an axis to map over: in_axes is None for all of them")
    return out, types, size


def checkpoint(fun):
    """fun, but a gradient keeps its arguments only and runs it again instead of keeping what it computed."""
    _callable(fun, "checkpoint")

    @_wrapper(fun, "checkpoint")
    def checkpointed(*args, **named):
        if not _core.tracing():
            return fun(*args, **named)
        leaves, weak, treedef = arguments_of(fun, args, named)
        seen = []

        def flat(*values):
            a, k = tree.unflatten(treedef, marked(values, weak))
            found, out_tree = arrays_of_results(fun(*a, **k))
            found, weak_out = body_leaves(found)
            seen.append((out_tree, weak_out))
            return found

        out = _core.invoke(flat, leaves, True)
        out_tree, weak_out = seen[0]
        return tree.unflatten(out_tree, marked(out, weak_out))

    return checkpointed
