"""Hooks on gradients: values whose cotangents pass through functions of the user's. A hook is a call of the
operator `custom` whose body is the identity and whose backward is the function, so transforms, loops and
branches treat it as they treat every function with rules (_custom.py)."""

__all__ = ["hook"]

import functools
import inspect
import weakref

from . import _arguments, _callback, _core, tree
from ._arguments import place, twins
from ._control import cond
from ._custom import _named, record
from ._dtypes import bool as bool_, is_number
from ._errors import InvalidError
from ._jax import ShapeDtypeStruct
from ._ops import asarray, check, logical_not
from ._trace import called, function_name


def hook(x, f, *, state=None, when=None, host=False):
    """x, of which gradients pass through f on their way back: f(g) gives what takes the place of the
    cotangent g, or None for g as it is. Tangents pass as through x itself, and nothing is done where no
    gradient is taken.

    x may be a tree; g is one of the same structure then, with zeros for what is no float, and f is called
    once for all of it. f may be a list of functions, each of which gets what the one before gave. What f
    gives must have the structure, the shapes and the dtypes of g.

    f is captured with the program: it is made of hop's functions. With host=True it is a function of Python's
    that the program calls when a gradient runs, once for each trip of a loop and each lane of vmap, in the
    order of the program; it gets arrays of hop's, which it may keep, may do anything, and what it raises ends
    the run. A derivative of such a gradient is that of the identity where f gave None, else an error.

    state: a tree of arrays and hop.Objects that f gets first, f(state, g): run-time values as those that
    functions take, of which no gradient is taken. when: a bool; whether the hook is on, known when the
    program runs.

    >>> def clipped(g):
    ...     return hop.clip(g, -1, 1)
    >>> hop.grad(lambda x: 100 * hop.hook(x, clipped) ** 2)(3.0)
    Array(1., dtype=float32)
    >>> hop.grad(lambda x: hop.hook(x, lambda g: print("saw", g), host=True) ** 2)(3.0)
    saw 6.0
    Array(6., dtype=float32)
    """
    functions = _functions(f)
    host = _arguments.flag("hook: host", host)
    if not _core.tracing() or when is False or not functions:
        return x
    given = () if state is None else (state,)
    called_at = place()

    def backward(call, g):
        (_, given, when), _ = call

        def hooked(g, *given):
            for fun in functions:
                g = _by_host(fun, given, g, called_at) if host else _by_capture(fun, given, g, called_at)
            return g

        if when is not None and when is not True:
            g = cond(when, hooked, lambda g, *_: g, g, *given)
        else:
            g = hooked(g, *given)
        return g, None, None

    rule = _named(backward, functions[0])
    return record("hook", _hooked, (x, given, when), backward=rule, tangent="body")


def _hooked(x, given, when):
    return x


_hooked.__name__ = "hook"  # what texts of programs call it


def _functions(f):
    functions = tuple(f) if isinstance(f, (list, tuple)) else (f,)
    for fun in functions:
        _arguments.function("hook: f", fun)
    return functions


# ---- hooks on arguments ----


def with_hooks(fun, hooks, argnums, what):
    """fun, a function that is differentiated for arguments at argnums, with hooks on these."""
    if not isinstance(hooks, dict):
        raise _arguments.wrong(
            f"{what}: hooks", 'a dict of functions by arguments, {0: f, "params.w": g}', hooks
        )
    known = _arguments.signature(fun)
    names = list(known.positional) if known is not None else []
    numbers = argnums if isinstance(argnums, (tuple, list)) else (argnums,)
    numbers = [n + len(names) if n < 0 and names else n for n in numbers]
    planned = [_planned(key, how, names, numbers, fun, what) for key, how in hooks.items()]

    @functools.wraps(fun)
    def hooked(*args, **named):
        args = list(args)
        for number, where, how in planned:
            if number >= len(args):
                raise InvalidError(
                    f"{place()}{what}: hooks: argument {number} was not given by position, as arguments that "
                    "are differentiated are"
                )
            hooking = functools.partial(hook, **how)
            args[number] = tree.update(args[number], where, hooking) if where else hooking(args[number])
        return twins.of(fun)(*args, **named)

    return hooked


def _planned(key, how, names, numbers, fun, what):
    """(number of the argument, where in it, arguments of hook) of an entry of hooks."""
    if isinstance(key, str):
        name, _, where = key.partition(".")
        if name not in names:
            _arguments.argument_names(f"{what}: hooks", name, fun)
            raise InvalidError(
                f"{place()}{what}: hooks: {name!r} is no argument that is known to be given by position: say "
                "its number"
            )
        number = names.index(name)
    else:
        number, where = _arguments.argument_numbers(f"{what}: hooks", key, fun)[0], ""
        number += len(names) if number < 0 and names else 0
    if number not in numbers:
        raise InvalidError(
            f"{place()}{what}: hooks: argument {key!r} is not differentiated, so nothing would pass through "
            f"its hook: argnums has {', '.join(map(str, numbers))}"
        )
    how = how if isinstance(how, dict) else {"f": how}
    if "f" not in how or set(how) - {"f", "state", "when", "host"}:
        raise _arguments.wrong(
            f"{what}: hooks[{key!r}]", "a function, or what hop.hook takes, {'f': f, 'host': True}", how
        )
    _functions(how["f"])
    return number, where, how


# ---- functions that are captured ----


def _by_capture(fun, given, g, called_at):
    new = twins.of(fun)(*given, g)
    return g if new is None else _checked(fun, g, new, called_at)


def _checked(fun, g, new, called_at):
    """What a hook gives in the place of g, which must be of its type."""
    leaves, treedef = tree.flatten(g)
    found, structure = tree.flatten(new)
    whose = f"{called_at}hook: {_whose(fun)} must give what has the type of its cotangent"
    if structure != treedef:
        raise InvalidError(
            f"{whose}: it gives the structure {structure._text()}, expected {treedef._text()}"
        )
    made = [_leaf(whose, treedef, i, *pair) for i, pair in enumerate(zip(leaves, found))]
    return tree.unflatten(treedef, made)


def _leaf(whose, treedef, i, g, new):
    if not isinstance(g, _core.ArrayBase):
        return g
    where = f" for {tree.path_text(tree.leaf_paths(treedef)[i], 'g')}" if treedef.kind is not None else ""
    if not isinstance(new, _core.ArrayBase):
        try:
            new = asarray(new, dtype=g.dtype) if is_number(new) else asarray(new)
        except (TypeError, ValueError, OverflowError):
            what = _arguments.found(new)
            raise InvalidError(f"{whose}: it gives {what}{where}, expected {g._type}") from None
    if new._weak and g.dtype.kind == "f":
        new = new.astype(g.dtype)
    if new._type == g._type:
        return new
    parts = [
        part for part, a, b in (("dtype", new.dtype, g.dtype), ("shape", new.shape, g.shape)) if a != b
    ]
    raise InvalidError(
        f"{whose}: it gives another {' and '.join(parts)}{where}: {new._type}, expected {g._type}"
    )


def _whose(fun):
    """A hook in words, with the place where it is written."""
    code = getattr(inspect.unwrap(fun), "__code__", None)
    return called("the hook", fun) + (f" ({code.co_filename}:{code.co_firstlineno})" if code else "")


# ---- functions that the running program calls ----

_hosts = weakref.WeakValueDictionary()  # (id of the function, where it was made a hook) -> _Host


class _Host:
    """A function of the host as an operator: it gives what takes the place of the cotangent, and whether
    that is something else."""

    def __init__(self, fun, called_at):
        self.fun, self.called_at = fun, called_at
        self.__name__ = function_name(fun)

    def __call__(self, given, g):
        new = self.fun(*given, g)
        if new is None or new is g:
            return g, asarray(False)
        return _checked(self.fun, g, new, self.called_at), asarray(True)


def _by_host(fun, given, g, called_at):
    key = id(fun), called_at
    host = _hosts.get(key)
    if host is None:
        host = _hosts[key] = _Host(fun, called_at)
    whose = _whose(fun)

    def run(given, g):
        types = tree.map(lambda x: ShapeDtypeStruct(x.shape, x.dtype), g), ShapeDtypeStruct((), bool_)
        return _callback._called("hook", host, types, (given, g), {}, "io", "sequential")

    def backward(call, ct):
        _, (_, changed) = call
        check(
            logical_not(changed),
            f"hook: {whose} is a function of the host that changed the cotangent, and the gradient that it "
            "changed is differentiated: what the derivative of the change is, nobody knows; write the hook "
            "with hop's functions, or make it a hop.operator with rules",
        )
        return None, ct[0]

    return record("hook", run, (given, g), backward=backward)[0]
