"""Probes: values inside of a function that are marked by a name, so that they can be asked for and perturbed.
A mode of the thread says that somebody asks; without it a probe is nothing at all, and costs nothing."""

__all__ = ["perturb", "probe", "probes"]

from . import _arguments, _calls, _core, _effects, _modes, tree
from ._arguments import place
from ._errors import InvalidError
from ._ops import astype, zeros_like
from ._ops.common import _CODE, _call
from ._ops.creation import _array
from ._sizes import parts_of_text
from ._trace import apply, marked
from ._transforms import _callable, _transformed, _wrapper


def probe(x, /, name):
    """x, marked by a name, "loss" or "layer1/attn": hop.probes gives the value, hop.perturb adds to it. To
    everybody else it is x, and nothing is computed or kept for it. x may be a tree: names of its leaves have
    their places behind the name. Inside of hop.region("named", name="block") the name is "block/…".

    >>> def f(x):
    ...     return hop.sum(hop.probe(x * x, "square"))
    >>> hop.probes(f)(hop.asarray([1.0, 2.0]))
    (Array(5., dtype=float32), {'square': Array([1., 4.], dtype=float32)})
    """
    if not isinstance(name, str) or not name:
        raise _arguments.wrong("probe: name", "a name", name)
    if not _core.modes() & _modes.PROBED:
        return x
    if isinstance(x, _core.ArrayBase):
        return _call(_CODE["probe"], (x,), name)
    return tree.map_with_path(lambda path, leaf: probe(_array(leaf), "/".join([name, *map(str, path)])), x)


class _Asking(_calls.Transform):
    """What captures a function with its probes. Integers and bools among the arguments stay Python's."""

    def plan(self, arguments):
        return [n and not isinstance(x, float) for n, x in zip(arguments.numbers(), arguments.found)], None

    def capture(self, fun, given):
        with _effects.operator(self.what[0]), _modes.fresh(), _modes.also(_modes.PROBED):
            return given.capture(fun)


class _Probes(_Asking):
    def __init__(self, names, repeated):
        self.names, self.repeated = names, repeated
        self.what = ("probes", names, repeated)

    def finish(self, t, given, leaves, more, hidden):
        text = None if self.names is None else ", ".join(self.names)
        function = t.transform("probes", text, self.repeated)
        out = apply(function, [*leaves, *hidden])
        n = t.out_tree.num_leaves
        value = tree.unflatten(t.out_tree, marked(out[:n], t.weak_out, False))
        return value, _nested("probes", function.probe_names(), out[n:])


class _Perturbed(_Asking):
    inner = True

    def __init__(self, repeated):
        self.repeated = repeated
        self.what = ("perturb", repeated)

    def finish(self, t, given, leaves, more, hidden):
        given_names = ["/".join(map(str, path)) for path in tree.leaf_paths(given.more_tree)]
        n = t.out_tree.num_leaves
        if not given_names:
            out = apply(t.function, [*leaves, *hidden])
            return tree.unflatten(t.out_tree, marked(out, t.weak_out, False))
        function = t.transform("perturb", ", ".join(given_names), self.repeated)
        names, types = function.probe_names(), function.params[len(leaves) + len(hidden) :]
        by_name = dict(zip(given_names, zip(more, given.more_weak)))
        added = [_fitting(name, *by_name[name], text) for name, text in zip(names, types)]
        out = apply(function, [*leaves, *hidden, *added])
        return tree.unflatten(t.out_tree, marked(out[:n], t.weak_out, False))


def _fitting(name, x, weak, text):
    """A perturbation as the program takes it, given its type as text."""
    text = text.split(": ")[-1]
    dtype, dims = text[: text.index("[")], parts_of_text(text[text.index("[") + 1 : -1])
    if weak and x.dtype.kind == "f" and x.dtype.text != dtype:
        x = astype(x, dtype)
    known = [int(d) if d.isdigit() else None for d in dims]
    fits = len(known) == len(x.shape) and all(k is None or k == s for k, s in zip(known, x.shape))
    if not fits or x.dtype.text != dtype:
        found = f"{x.dtype.text}[{', '.join(map(str, x.shape))}]"
        raise InvalidError(f"{place()}perturb: the probe '{name}' has type {text}, its perturbation {found}")
    return x


def _nested(what, names, values):
    """Values in dicts by the parts of their names."""
    out = {}
    for name, value in zip(names, values):
        *parts, last = name.split("/")
        at = out
        for part in parts:
            at = at.setdefault(part, {})
            if not isinstance(at, dict):
                break
        if not isinstance(at, dict) or last in at:
            raise InvalidError(
                f"{place()}{what}: the probe '{name}' would stand inside of another one, or around it: "
                "choose names none of which begins with another"
            )
        at[last] = value
    return out


def _names(what, names):
    if names is None:
        return None
    names = (names,) if isinstance(names, str) else names
    if not isinstance(names, (tuple, list)) or not all(isinstance(n, str) and n for n in names):
        raise _arguments.wrong(f"{what}: names", "a name or a list of names", names)
    return tuple(names)


def _repeated(what, repeated):
    if repeated not in ("error", "stack"):
        raise _arguments.wrong(f"{what}: repeated", '"error" or "stack"', repeated)
    return "stacked" if repeated == "stack" else None


def probes(fun, names=None, *, repeated="error"):
    """A function that gives the value of fun and the values that hop.probe marks in it, in dicts by the parts
    of their names. names: those wanted, names or patterns ("layer*/attn"); None: all.

    A value in the body of a loop has a row for each step, one in a branch that does not run is zeros, one
    inside of vmap has the lanes in front, and of a function that is differentiated inside of fun the values
    are those of its run. Two probes of one name are an error; repeated="stack": they are one array with a
    dim more, in order of the program.

    >>> def f(x):
    ...     def step(c, x):
    ...         c = hop.probe(c + x, "sum")
    ...         return c, None
    ...     return hop.scan(step, 0.0, x)[0]
    >>> hop.probes(f)(hop.asarray([1.0, 2.0, 3.0]))
    (Array(6., dtype=float32), {'sum': Array([1., 3., 6.], dtype=float32)})
    >>> hop.probes(hop.grad(f))(hop.asarray([1.0, 2.0, 3.0]))[1]
    {'sum': Array([1., 3., 6.], dtype=float32)}
    """
    _callable(fun, "probes")
    names, repeated = _names("probes", names), _repeated("probes", repeated)
    return _transformed(_Probes(names, repeated), fun, "Value and probes")


def perturb(fun, names=None, *, repeated="error"):
    """A function of perturbations and the arguments of fun, in which each perturbation is added to the value
    that hop.probe marks by its name. Perturbations are dicts as hop.probes gives them; what is missing is not
    perturbed. hop.perturb(fun).zeros(*args) gives zeros for all of them, or those in names. So derivatives of
    values inside are those of their perturbations:

    >>> def f(x):
    ...     return hop.sum(hop.probe(2 * x, "h") ** 2)
    >>> g, x = hop.perturb(f), hop.asarray([1.0, 3.0])
    >>> hop.grad(g)(g.zeros(x), x)
    {'h': Array([ 4., 12.], dtype=float32)}
    """
    _callable(fun, "perturb")
    wanted, stacked = _names("perturb", names), _repeated("perturb", repeated)
    transform = _calls.one_of_its_kind(_Perturbed(stacked))
    table = transform.table(fun)

    @_wrapper(fun, "Perturbed")
    def perturbed(perturbations, /, *args, **named):
        if not isinstance(perturbations, dict):
            raise _arguments.wrong("perturb: perturbations", "a dict of names", perturbations)
        return _calls.run(transform, table, fun, (args, perturbations), named)

    asked = probes(fun, wanted, repeated=repeated)

    def zeros(*args, **named):
        """Zeros for every probe that is a float."""
        return _zeros(asked(*args, **named)[1])

    perturbed.zeros = zeros
    return perturbed


def _zeros(values):
    out = {}
    for key, value in values.items():
        if isinstance(value, dict):
            inside = _zeros(value)
            if inside:
                out[key] = inside
        elif value.dtype.kind == "f":
            out[key] = zeros_like(value)
    return out
