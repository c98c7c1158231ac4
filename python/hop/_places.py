"""Places of a tree, and functions with other parameters: what stands at a place is replaced, taken out of
the tree, computed from something else (parametrize) or taken from another place (tie).

A place is said by a path, by a text, by a predicate of path and leaf or by a function that picks it; all of
them become paths here (places), and one walk puts what is new into the tree (_rebuilt). parametrize and tie
leave a node in the tree that says what its value is; resolve computes it.
"""

__all__ = [
    "Parametrized", "Tied", "combine", "parametrize", "partition", "places", "replace", "resolve", "tie",
    "update",
]  # fmt: skip

import inspect
import re

from .tree import _NODES, TreeDef, _apart, _maker, map as _map, path_text, structure


class Parametrized:
    """A node of a tree that stands for f(raw): hop.tree.parametrize puts it there, hop.tree.resolve
    computes it. `raw` is its only child, `f` and `inverse` are part of the structure.

    >>> tree = hop.tree.parametrize({"scale": hop.asarray(1.0)}, "scale", hop.exp, hop.log)
    >>> tree["scale"]
    Parametrized(exp, Array(0., dtype=float32))
    """

    __slots__ = ("raw", "f", "inverse")

    def __init__(self, f, raw, inverse=None):
        self.f, self.raw, self.inverse = f, raw, inverse

    def __repr__(self):
        return f"Parametrized({_name(self.f)}, {self.raw!r})"


class Tied:
    """A node of a tree that stands for what is at another place, or for f of that: hop.tree.tie puts it
    there, hop.tree.resolve computes it. It has no leaves.

    >>> hop.tree.tie({"a": hop.ones(2), "b": hop.zeros(2)}, "b", "a")["b"]
    Tied(['a'])
    """

    __slots__ = ("path", "f")

    def __init__(self, path, f=None):
        self.path, self.f = path, f

    def __repr__(self):
        return f"Tied({path_text(self.path)}{', ' + _name(self.f) if self.f else ''})"


_NODES[Parametrized] = (
    lambda node: ([node.raw], (node.f, node.inverse)),
    lambda rest, children: Parametrized(rest[0], children[0], rest[1]),
    ("raw",),
    (),
)
_NODES[Tied] = (
    lambda node: ([], (node.path, node.f)),
    lambda rest, _: Tied(*rest),
    None,
    (),
)
_VALUES = (Parametrized, Tied)  # what stands for one value


def _name(f):
    return getattr(f, "__name__", None) or type(f).__name__


# ---- places ----


def _walk(x, path=(), raws=()):
    """(path, what is there, which keys of the path lead into parametrised values) of every node and leaf."""
    yield path, x, raws
    node = None if x is None else _apart(x)
    if node is not None:
        inside = (*raws, len(path)) if isinstance(x, Parametrized) else raws
        for key, child in zip(node[3], node[2]):
            yield from _walk(child, (*path, key), inside)


def places(tree, where):
    """[(path, what is there), …] of the places of a tree that `where` means: leaves or whole parts.
    It may be

    - a path, as hop.tree.leaves_with_path gives it,
    - a text: keys, positions and names of fields with dots between them, as PyTorch names parameters, or as
      hop.tree.path_text writes paths; `*` is any one key, `**` any number of them (but for the key `raw` of
      a Parametrized),
    - a function of (path, leaf) that says whether,
    - a function of the tree that gives the place, or a tuple or list of places,
    - a list of all of these.

    It is an error when there is no such place.

    >>> params = {"layers": [{"w": 1.0, "b": 2.0}, {"w": 3.0, "b": 4.0}]}
    >>> hop.tree.places(params, "layers.*.w")
    [(('layers', 0, 'w'), 1.0), (('layers', 1, 'w'), 3.0)]
    >>> hop.tree.places(params, lambda path, x: x > 3)
    [(('layers', 1, 'b'), 4.0)]
    >>> hop.tree.places(params, lambda p: p["layers"][1]["w"])
    [(('layers', 1, 'w'), 3.0)]
    """
    return _places(tree, where, "places")


def _places(tree, where, caller):
    caller = f"hop.tree.{caller}"
    found = {}
    for one in where if isinstance(where, list) else [where]:
        for path, x in _found(tree, one, caller):
            found[path] = x
    return [(path, x) for path, x, _ in _walk(tree) if path in found]  # in the tree's order


def _found(tree, where, caller):
    if isinstance(where, str):
        pattern = _pattern(where, caller)
        out = [(p, x) for p, x, raws in _walk(tree) if _matches(pattern, p, raws)]
    elif isinstance(where, tuple):
        out = [(p, x) for p, x, _ in _walk(tree) if p == where]
    elif callable(where):
        count = _parameters(where)
        if count == 1:
            return _picked(tree, where, caller)
        if count != 2:
            raise TypeError(
                f"{caller}: {_name(where)} is to be a function of the tree, or one of (path, leaf); it has "
                f"{'parameters that cannot be counted' if count is None else f'{count} parameters'}"
            )
        return [(p, x) for p, x, raws in _walk(tree) if not raws and _is_leaf(x) and where(p, x)]
    else:
        raise TypeError(
            f"{caller}: expected a path, a text like 'layers.0.weight', a function or a list of these, "
            f"found {type(where).__name__}"
        )
    if not out:
        raise ValueError(f"{caller}: {_missing(tree, where)}")
    return out


def _is_leaf(x):
    return x is not None and (isinstance(x, _VALUES) or _apart(x) is None)


def _parameters(f):
    """How many arguments a function has to be given by position; None where Python does not know."""
    try:
        kinds = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return None
    return sum(
        p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty for p in kinds
    )


_PART = re.compile(r"""\.?([^.\[\]'"]+)|\[(-?\d+|\*{1,2})\]|\[('[^']*'|"[^"]*")\]""")


def _pattern(text, caller):
    """A text as a tuple of texts of keys."""
    parts, at = [], 0
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            raise ValueError(
                f"{caller}: {text!r} is no place from its character {at} on: write keys with dots between "
                "them, like 'layers.0.weight', or give the path as a tuple"
            )
        plain, position, quoted = part.groups()
        parts.append(quoted[1:-1] if quoted else plain or position)
        at = part.end()
    return tuple(parts)


def _matches(pattern, path, raws, at=0):
    """Whether a path is meant, from its key `at` on. Stars do not lead into parametrised values."""
    if not pattern:
        return at == len(path)
    if pattern[0] == "**" and _matches(pattern[1:], path, raws, at):
        return True
    if at == len(path):
        return False
    if pattern[0] == "**":
        return at not in raws and _matches(pattern, path, raws, at + 1)
    fits = at not in raws if pattern[0] == "*" else pattern[0] == str(path[at])
    return fits and _matches(pattern[1:], path, raws, at + 1)


def _missing(tree, where):
    """What to say when there is no such place: what looks like it, or what is there."""
    import difflib

    names = {".".join([str(k) for k in p]): p for p, x, _ in _walk(tree) if _is_leaf(x)}
    said = where if isinstance(where, str) else ".".join([str(k) for k in where])
    close = difflib.get_close_matches(said, names, n=3)
    some = close or list(names)[:8]
    if isinstance(where, tuple):
        some = [repr(names[n]) for n in some]
    more = ", …" if not close and len(names) > 8 else ""
    return (
        f"there is nothing at {where!r}; "
        + ("it looks like " if close else "the leaves are ")
        + (", ".join(some) + more or "none")
    )


class _Mark:
    """Stands for a leaf while a function picks places."""

    __slots__ = ("path",)

    def __init__(self, path):
        self.path = path


def _picked(tree, where, caller):
    was = {path: x for path, x, _ in _walk(tree)}
    marked = _rebuilt(
        tree, {p: _Mark(p) for p, x in was.items() if x is not None and _apart(x) is None}, caller
    )
    kept = list(_walk(marked))  # so that no other object has the identity of a node
    paths = {id(x): path for path, x, _ in kept if x is not None and _apart(x) is not None}

    def found(x, outer):
        if isinstance(x, _Mark):
            return [x.path]
        if id(x) in paths and x != ():
            return [paths[id(x)]]
        if outer and isinstance(x, (tuple, list)):
            return [path for y in x for path in found(y, False)]
        raise TypeError(
            f"{caller}: a function of the tree gives places of it, as lambda p: p.layers[0].weight does; "
            f"{_name(where)} gave {'None' if x is None else 'a ' + type(x).__name__}. A function that says "
            "of each leaf whether it is meant has two parameters, the path and the leaf"
        )

    return [(path, was[path]) for path in found(where(marked), True)]


def _rebuilt(tree, changes, caller):
    """The tree with other things at the paths of a dict. Parts without a change stay the same objects."""
    steps = {}
    for path, value in changes.items():
        at = steps
        for key in path:
            at = at.setdefault(key, {})
            if None in at:
                break
        if at:
            raise ValueError(
                f"{caller}: two of the places are the same, or one is a part of the other: "
                f"{path_text(path) or 'the root'}"
            )
        at[None] = value  # None is no key of a path

    def walk(x, steps):
        if None in steps:
            return steps[None]
        kind, rest, children, keys = _apart(x)
        values = [walk(c, steps[k]) if k in steps else c for k, c in zip(keys, children)]
        return _made(kind, rest, values)

    return walk(tree, steps) if changes else tree


def _made(kind, rest, children):
    """A node of a kind."""
    if kind in (tuple, list):
        return kind(children)
    return dict(zip(rest, children)) if kind is dict else _maker(TreeDef(kind, rest, ()))(children)


# ---- other values at places ----

_NOTHING = object()


def replace(tree, where, value=_NOTHING):
    """The tree with another value at the places of `where` (hop.tree.places says how they are written): one
    value for all of them, or a dict of places and values. Values may be whole trees, of any shapes. The tree
    that was given stays as it is.

    >>> params = {"layers": [{"w": 1.0, "b": 2.0}, {"w": 3.0, "b": None}]}
    >>> hop.tree.replace(params, "layers.*.w", 0.0)
    {'layers': [{'b': 2.0, 'w': 0.0}, {'b': None, 'w': 0.0}]}
    >>> hop.tree.replace(params, {"layers.0.w": 5.0, "layers.1.b": 6.0})
    {'layers': [{'b': 2.0, 'w': 5.0}, {'b': 6.0, 'w': 3.0}]}
    """
    if isinstance(where, dict) == (value is not _NOTHING):
        raise TypeError("hop.tree.replace: expected a place and a value, or a dict of places and values")
    rows = where.items() if isinstance(where, dict) else [(where, value)]
    changes = {}
    for one, new in rows:
        for path, _ in _places(tree, one, "replace"):
            if path in changes:
                raise ValueError(f"hop.tree.replace: two values for {path_text(path) or 'the root'}")
            changes[path] = new
    return _rebuilt(tree, changes, "hop.tree.replace")


def update(tree, where, f):
    """The tree with f of what is there at the places of `where` (hop.tree.places says how they are
    written).

    >>> hop.tree.update({"w": 1.0, "b": 2.0}, "w", lambda x: x * 10)
    {'b': 2.0, 'w': 10.0}
    """
    return _rebuilt(tree, {p: f(x) for p, x in _places(tree, where, "update")}, "hop.tree.update")


def partition(tree, where):
    """(the tree with the places of `where` alone, the tree with the others), with None in the places of what
    is missing. hop.tree.combine puts them together again: so a function is differentiated with respect to a
    part of its parameters.

    >>> trained, fixed = hop.tree.partition({"body": 1.0, "head": 2.0}, "head")
    >>> trained, fixed
    ({'body': None, 'head': 2.0}, {'body': 1.0, 'head': None})
    >>> hop.grad(lambda t: (lambda p: p["body"] * p["head"] ** 2)(hop.tree.combine(t, fixed)))(trained)
    {'body': None, 'head': Array(4., dtype=float32)}
    """
    chosen = {path for path, _ in _places(tree, where, "partition")}
    kept, left = {}, {}
    for path, x, _ in _walk(tree):
        if x is not None and (isinstance(x, Tied) or _apart(x) is None):
            meant = any(path[:n] in chosen for n in range(len(path) + 1))
            (left if meant else kept)[path] = None
    name = "hop.tree.partition"
    return _rebuilt(tree, kept, name), _rebuilt(tree, left, name)


def combine(*trees):
    """One tree of several of the same structure but for None: at each place what the first of them has that
    has something there. hop.tree.partition makes such trees.

    >>> hop.tree.combine({"a": None, "b": 2}, {"a": 1, "b": None})
    {'a': 1, 'b': 2}
    """
    if not trees:
        raise TypeError("hop.tree.combine: expected at least one tree")

    def walk(parts, path):
        present = [(i, x) for i, x in parts if x is not None]
        if not present:
            return None
        first, x = present[0]
        node = _apart(x)
        if node is None or isinstance(x, Tied):
            return x
        kind, rest, children, keys = node
        columns = []
        for i, y in present:
            other = _apart(y)
            if other is None or other[0] is not kind or [*other[3]] != [*keys]:
                raise ValueError(
                    f"hop.tree.combine: tree {i + 1} has another structure than tree {first + 1} at "
                    f"{path_text(path) or 'the root'}: {structure(y)._text()} and {structure(x)._text()}"
                )
            columns.append([(i, child) for child in other[2]])
        values = [walk(column, (*path, key)) for key, column in zip(keys, zip(*columns))]
        return _made(kind, rest, values)

    return walk(list(enumerate(trees)), ())


# ---- values that are computed ----


def parametrize(tree, where, f, inverse=None):
    """The tree with Parametrized nodes at the places of `where` (hop.tree.places says how they are written):
    the value there is f(raw), and raw is what is trained. hop.tree.resolve gives the tree of values, to be
    called where the parameters are used. With an inverse the values stay what they were: raw is inverse of
    the value, which may be a whole tree; without one raw is the value itself.

    f and inverse are part of the structure of the tree, so that a function that is made anew for each call is
    a new program each time.

    >>> params = hop.tree.parametrize({"variance": hop.asarray(4.0)}, "variance", hop.exp, hop.log)
    >>> hop.tree.leaves(params)
    [Array(1.3862944, dtype=float32)]
    >>> hop.grad(lambda p: hop.tree.resolve(p)["variance"])(params)["variance"].raw
    Array(4., dtype=float32)
    """
    if not callable(f) or not (inverse is None or callable(inverse)):
        raise TypeError("hop.tree.parametrize: f and inverse are functions")
    changes = {}
    for path, x in _places(tree, where, "parametrize"):
        raw = x
        if inverse is not None:
            raw = _assigned(x, inverse(_resolved(x, tree, {}, path)), path)
        changes[path] = Parametrized(f, raw, inverse)
    return _rebuilt(tree, changes, "hop.tree.parametrize")


def _assigned(old, value, path):
    """What makes the value of `old` another one: a parametrised value is set through its inverse."""
    if not isinstance(old, Parametrized):
        return value
    if old.inverse is None:
        raise ValueError(
            f"hop.tree.parametrize: {path_text(path) or 'the root'} is {_name(old.f)} of something already, "
            "with no inverse: a second function with an inverse needs one of the first, too"
        )
    return Parametrized(old.f, _assigned(old.raw, old.inverse(value), path), old.inverse)


def tie(tree, where, source, f=None):
    """The tree with Tied nodes at the places of `where`, whose values are what is at the place `source`, or
    f of it (hop.tree.places says how places are written): one parameter in several places. The leaf at the
    source is the only one, so that gradients of all uses come together in it. hop.tree.resolve gives the
    tree of values, to be called where the parameters are used.

    >>> params = {"embed": hop.ones((3, 2)), "readout": hop.ones((2, 3))}
    >>> params = hop.tree.tie(params, "readout", "embed", hop.matrix_transpose)
    >>> len(hop.tree.leaves(params))
    1
    >>> hop.tree.resolve(params)["readout"].shape
    (2, 3)
    """
    if not (f is None or callable(f)):
        raise TypeError("hop.tree.tie: f is a function of what is at the source")
    sources = _places(tree, source, "tie")
    if len(sources) != 1:
        raise ValueError(f"hop.tree.tie: expected one source, found {len(sources)}: {source!r}")
    path, value = sources[0]
    found = _resolved(value, tree, {}, path)
    found = found if f is None else f(found)
    changes = {}
    for place, old in _places(tree, where, "tie"):
        if place[: len(path)] == path or path[: len(place)] == place:
            raise ValueError(
                f"hop.tree.tie: {path_text(place) or 'the root'} and its source "
                f"{path_text(path) or 'the root'} are the same, or one is a part of the other"
            )
        _check_fits(_resolved(old, tree, {}, place), found, place, path)
        changes[place] = Tied(path, f)
    made = _rebuilt(tree, changes, "hop.tree.tie")
    resolve(made)  # finds circles
    return made


def _check_fits(old, new, place, source):
    where = f"{path_text(place)} to {path_text(source)}"
    if structure(old) != structure(new):
        raise ValueError(
            f"hop.tree.tie: {where}: expected {structure(old)._text()}, found {structure(new)._text()}"
        )

    def check(a, b):
        kinds = [(getattr(x, "shape", ()), getattr(x, "dtype", type(x).__name__)) for x in (a, b)]
        if kinds[0] != kinds[1]:
            (shape, dtype), (other, other_dtype) = kinds
            raise ValueError(
                f"hop.tree.tie: {where}: expected {dtype} of shape {shape}, found {other_dtype} of shape "
                f"{other}; f makes one of the other, as hop.matrix_transpose does"
            )

    _map(check, old, new)


def resolve(tree):
    """The tree of values: f(raw) for each Parametrized node, what is at the other place for each Tied node.
    For the whole tree that hop.tree.parametrize and hop.tree.tie gave, in the function that uses it. A tree
    without such nodes is given back.

    >>> params = hop.tree.tie({"a": hop.asarray(3.0), "b": hop.asarray(0.0)}, "b", "a")
    >>> def product(params):
    ...     p = hop.tree.resolve(params)
    ...     return p["a"] * p["b"]
    >>> hop.grad(product)(params)["a"]
    Array(6., dtype=float32)
    """
    return _resolved(tree, tree, {}, ())


def _resolved(x, root, known, path):
    """The value of the part x of a tree, at a path. `known`: values of nodes at paths; None while one is
    being found."""
    if x is None:
        return None
    if path in known:
        if known[path] is None:
            raise ValueError(f"hop.tree.resolve: {path_text(path)} is tied to itself in a circle")
        return known[path][0]
    if isinstance(x, Tied):
        known[path] = None
        value = _resolved(_at(root, x.path, path), root, known, x.path)
        known[path] = [value if x.f is None else x.f(value)]
        return known[path][0]
    if isinstance(x, Parametrized):
        known[path] = None
        known[path] = [x.f(_resolved(x.raw, root, known, (*path, "raw")))]
        return known[path][0]
    node = _apart(x)
    if node is None:
        return x
    kind, rest, children, keys = node
    values = [_resolved(c, root, known, (*path, k)) for k, c in zip(keys, children)]
    if all(a is b for a, b in zip(values, children)):
        return x
    return _made(kind, rest, values)


def _at(root, path, wanted):
    x = root
    for key in path:
        node = None if x is None else _apart(x)
        found = dict(zip(node[3], node[2])) if node is not None else {}
        if key not in found:
            raise ValueError(
                f"hop.tree.resolve: {path_text(wanted)} is tied to {path_text(path)}, which is not there: "
                "resolve the whole tree that hop.tree.tie gave"
            )
        x = found[key]
    return x
