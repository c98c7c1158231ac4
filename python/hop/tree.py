"""Trees of arrays: tuples, lists, dicts, None, dataclasses, named tuples and registered classes, with
arrays (or anything else) as leaves.

Dicts are taken in the order of their sorted keys. A path is a tuple of keys; path_text writes it as Python
does: `carry['h'][0].weight`.
"""

__all__ = [
    "all", "flatten", "flatten_with_path", "leaves", "leaves_with_path", "map", "map_with_path", "path_text",
    "reduce", "register", "structure", "transpose", "unflatten", "TreeDef",
    "Parametrized", "Tied", "combine", "parametrize", "partition", "places", "replace", "resolve", "tie",
    "update",
]  # fmt: skip

import builtins
import functools

from ._keys import value_key

_NODES: dict = {}  # class -> (flatten, unflatten, field names or None, names of static fields)


class _Attribute(str):
    """A key of a path that is an attribute."""

    __slots__ = ()


def register(cls, flatten=None, unflatten=None):
    """Makes a class a node of trees. flatten(node) gives (children, hashable rest), unflatten(rest,
    children) the node again. Without functions the class must be a dataclass; all fields are children
    then, but for those with metadata {"static": True}. Works as a decorator.

    >>> import dataclasses
    >>> @dataclasses.dataclass
    ... class Point:
    ...     x: float
    ...     y: float
    >>> hop.tree.leaves(hop.tree.map(lambda v: v * 2, Point(1, 2)))
    [2, 4]
    """
    if (flatten is None) != (unflatten is None):
        raise TypeError("register needs both functions, or none for a dataclass")
    if flatten is None and not _is_dataclass(cls):
        raise TypeError(
            f"register: {cls.__name__} is no dataclass: give functions that take it apart and put it together"
        )
    _NODES[cls] = (flatten, unflatten, None, ()) if flatten else _dataclass_node(cls)
    return cls


def _is_dataclass(cls):
    return hasattr(cls, "__dataclass_fields__")


def _dataclass_node(cls):
    import dataclasses  # here, because few programs need it, and it takes longer to import than all of this

    children = tuple(f.name for f in dataclasses.fields(cls) if not f.metadata.get("static"))
    static = tuple(f.name for f in dataclasses.fields(cls) if f.metadata.get("static"))

    def apart(node):
        return [getattr(node, name) for name in children], tuple(getattr(node, name) for name in static)

    def together(rest, values):
        node = object.__new__(cls)
        for name, value in (*zip(children, values), *zip(static, rest)):
            object.__setattr__(node, name, value)
        return node

    return apart, together, children, static


def _node(cls):
    """The entry of a class; dataclasses need not be registered."""
    found = _NODES.get(cls)
    if found is None and _is_dataclass(cls):
        found = _NODES[cls] = _dataclass_node(cls)
    return found


class TreeDef:
    """The structure of a tree: which node has which children. Hashable; equal for equal structures.

    >>> hop.tree.structure({"a": [1, 2]}).num_leaves
    2
    """

    __slots__ = ("kind", "rest", "children", "num_leaves", "_key")

    def __init__(self, kind, rest, children):
        self.kind, self.rest, self.children = kind, rest, children
        self.num_leaves = 1 if kind is None else sum([c.num_leaves for c in children])
        self._key = None

    def __eq__(self, other):
        if self is other:
            return True
        return (
            isinstance(other, TreeDef)
            and self.kind is other.kind
            and _same_rest(self.kind, self.rest, other.rest)
            and self.children == other.children
        )

    def __hash__(self):
        return hash((self.kind, self.num_leaves, *[c.kind for c in self.children]))

    @property
    def key(self):
        """What programs for arguments of this structure are kept under: also tells dicts with the keys 1,
        1.0 and True apart, which compare as equal."""
        if self._key is None:
            try:
                self._key = (self.kind, value_key(self.rest), *[c.key for c in self.children])
            except TypeError:
                raise TypeError(
                    f"what a {self.kind.__name__} keeps besides its children must be hashable: {self.rest!r}"
                ) from None
        return self._key

    def __repr__(self):
        return f"TreeDef({self._text()})"

    def _text(self):
        if self.kind is None:
            return "*"
        if self.kind is type(None):
            return "None"
        if self.kind is CONSTANT:
            return _constant_text(self.rest)
        parts = [c._text() for c in self.children]
        if self.kind is dict:
            return "{" + ", ".join(f"{k!r}: {p}" for k, p in zip(self.rest, parts)) + "}"
        if self.kind is list:
            return "[" + ", ".join(parts) + "]"
        if self.kind is tuple:
            return "(" + ", ".join(parts) + ("," if len(parts) == 1 else "") + ")"
        return f"{self.kind.__name__}({', '.join(parts)})"

    def unflatten(self, leaves):
        return unflatten(self, leaves)


def _same_rest(kind, a, b):
    """Whether nodes keep the same besides their children. Keys of dicts are the same when dicts say so;
    other things when no program can tell them apart."""
    if a is b:
        return True
    if kind is CONSTANT:
        return _same_constant(a, b)
    if isinstance(kind, type) and issubclass(kind, dict):
        return a == b
    try:
        return value_key(a) == value_key(b)
    except TypeError:
        return a == b


class CONSTANT:
    """The kind of a node that stands for one thing, its rest: what a captured function gives that is no
    array."""


def _constant_text(x):
    text = repr(x)
    return text if len(text) <= 60 else text[:57] + "…"


def _same_constant(a, b):
    if a is b:
        return True
    try:
        return value_key(a) == value_key(b)
    except TypeError:
        pass
    try:
        return type(a) is type(b) and bool(a == b)
    except Exception:  # whatever a class's own comparison raises: an array has no truth
        return False


_LEAF = TreeDef(None, None, ())
_NONE = TreeDef(type(None), None, ())


def _is_named_tuple(cls):
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


def _apart(x):
    """(kind, rest, children, keys) of a node, None for a leaf."""
    cls = type(x)
    if cls is tuple or cls is list:
        return cls, None, x, range(len(x))
    if cls is dict:
        try:
            keys = tuple(sorted(x))
        except TypeError:
            keys = tuple(sorted(x, key=lambda k: (type(k).__name__, str(k))))
        return dict, keys, [x[k] for k in keys], keys
    entry = _node(cls)
    if entry is not None:
        children, rest = entry[0](x)
        children = list(children)
        return cls, rest, children, tuple(map_attribute(entry[2])) if entry[2] else range(len(children))
    if _is_named_tuple(cls):
        return cls, None, x, tuple(map_attribute(cls._fields))
    if isinstance(x, dict):  # OrderedDict, defaultdict
        keys = tuple(x)
        return cls, keys, list(x.values()), keys
    return None


def map_attribute(names):
    return [_Attribute(n) for n in names]


def _flatten(x, out, is_leaf):
    if is_leaf is not None and is_leaf(x):
        out.append(x)
        return _LEAF
    if x is None:
        return _NONE
    node = _apart(x)
    if node is None:
        out.append(x)
        return _LEAF
    return TreeDef(node[0], node[1], tuple([_flatten(c, out, is_leaf) for c in node[2]]))


def flatten(tree, is_leaf=None):
    """(leaves, structure).

    Dicts are gone through by their sorted keys. None is a node without leaves.

    >>> leaves, structure = hop.tree.flatten({"b": 1, "a": [2, 3]})
    >>> leaves
    [2, 3, 1]
    """
    out = []
    return out, _flatten(tree, out, is_leaf)


def split(tree, as_leaf):
    """(leaves, structure), where as_leaf(x) gives what stands for the leaf x, or CONSTANT where x itself is
    part of the structure."""
    out = []

    def walk(x):
        if x is None:
            return _NONE
        node = _apart(x)
        if node is not None:
            return TreeDef(node[0], node[1], tuple([walk(c) for c in node[2]]))
        leaf = as_leaf(x)
        if leaf is CONSTANT:
            return TreeDef(CONSTANT, x, ())
        out.append(leaf)
        return _LEAF

    return out, walk(tree)


def constants(treedef):
    """The things that are part of a structure."""
    return [treedef.rest] if treedef.kind is CONSTANT else [x for c in treedef.children for x in constants(c)]


def functions(tree):
    """{text: function} of the functions that are part of the structure of a tree, kept by nodes besides their
    children: a program that is given the tree may call them, and reads what they read."""
    out, known = {}, set()

    def walk(x):
        node = None if x is None else _apart(x)
        if node is None:
            return
        if node[0] in _NODES:
            for f in node[1] if type(node[1]) is tuple else (node[1],):
                own = str(getattr(f, "__module__", "")).partition(".")[0] == "hop"
                if callable(f) and not own and not isinstance(f, type) and f not in known:
                    known.add(f)
                    name = getattr(f, "__name__", type(f).__name__)
                    out[f"{name}, function {len(known)} of the arguments' nodes"] = f
        for child in node[2]:
            walk(child)

    walk(tree)
    return out


def unflatten(treedef, leaves):
    """The tree with this structure and these leaves. The inverse of hop.tree.flatten; the number of leaves
    must fit.

    >>> leaves, structure = hop.tree.flatten({"a": [1, 2]})
    >>> hop.tree.unflatten(structure, [x * 10 for x in leaves])
    {'a': [10, 20]}
    """
    if not isinstance(treedef, TreeDef):
        raise TypeError(f"unflatten: expected a structure, found {type(treedef).__name__}")
    leaves = list(leaves)
    if len(leaves) != treedef.num_leaves:
        raise ValueError(f"unflatten: the structure has {treedef.num_leaves} leaves, given {len(leaves)}")
    return _unflatten(treedef, iter(leaves))


def _unflatten(t, leaves):
    kind = t.kind
    if kind is None:
        return next(leaves)
    if kind is type(None):
        return None
    if kind is CONSTANT:
        return t.rest
    values = [_unflatten(c, leaves) for c in t.children]
    if kind is tuple:
        return tuple(values)
    if kind is list:
        return values
    if kind is dict:
        return dict(zip(t.rest, values))
    return _maker(t)(values)


def plan(treedef):
    """The structure as nested tuples from which the extension builds trees."""
    kind = treedef.kind
    if kind is None:
        return True
    if kind is type(None):
        return ()
    if kind is CONSTANT:
        return ("=", treedef.rest)
    parts = [plan(c) for c in treedef.children]
    head = (
        "(" if kind is tuple else "[" if kind is list else treedef.rest if kind is dict else _maker(treedef)
    )
    return (head, *[None if p == () else p for p in parts])


def _maker(treedef):
    """A function that makes a node of the list of its children."""
    kind, rest = treedef.kind, treedef.rest
    entry = _node(kind)
    if entry is not None:
        together = entry[1]
        return lambda values: together(rest, values)
    if _is_named_tuple(kind):
        return lambda values: kind(*values)

    def mapping(values):
        made = kind()
        made.update(zip(rest, values))
        return made

    return mapping


def leaves(tree, is_leaf=None):
    """The leaves alone. In the order of hop.tree.flatten; is_leaf(x) says which nodes count as leaves.

    >>> hop.tree.leaves({"b": 1, "a": (2, None)})
    [2, 1]
    """
    return flatten(tree, is_leaf)[0]


def structure(tree, is_leaf=None):
    """The structure alone. Hashable, and equal for trees that differ in their leaves alone.

    >>> hop.tree.structure([1, {"a": 2}]) == hop.tree.structure([5, {"a": 6}])
    True
    """
    return flatten(tree, is_leaf)[1]


def _with_path(x, path, out, is_leaf):
    if is_leaf is not None and is_leaf(x):
        out.append((path, x))
        return
    node = None if x is None else _apart(x)
    if node is not None:
        for key, child in zip(node[3], node[2]):
            _with_path(child, (*path, key), out, is_leaf)
    elif x is not None:
        out.append((path, x))


def leaves_with_path(tree, is_leaf=None):
    """[(path, leaf), …] A path is a tuple of keys, positions and names of fields; hop.tree.path_text
    writes it as Python does.

    >>> hop.tree.leaves_with_path([{"a": 5}])
    [((0, 'a'), 5)]
    """
    out = []
    _with_path(tree, (), out, is_leaf)
    return out


def leaf_paths(treedef):
    """The paths of the leaves of a structure."""
    paths = []

    def walk(t, path):
        if t.kind is None:
            paths.append(path)
        for key, child in zip(t.rest if _is_mapping(t) else _node_keys(t), t.children):
            walk(child, (*path, key))

    walk(treedef, ())
    return paths


def flatten_with_path(tree, is_leaf=None):
    """([(path, leaf), …], structure) A path is a tuple of keys, positions and names of fields, from the
    root on.

    >>> hop.tree.flatten_with_path({"a": [2, 3]})[0]
    [(('a', 0), 2), (('a', 1), 3)]
    """
    return leaves_with_path(tree, is_leaf), structure(tree, is_leaf)


def path_text(path, root=""):
    """carry['h'][0].weight A path as Python would write it, behind the name of the root.

    >>> hop.tree.path_text(hop.tree.leaves_with_path({"h": [1]})[0][0], "carry")
    "carry['h'][0]"
    """
    return root + "".join(f".{k}" if isinstance(k, _Attribute) else f"[{k!r}]" for k in path)


def difference(a, b, path=()):
    """Where two structures differ, as (path, what a has there, what b has there); None when they are
    equal."""
    if a == b:
        return None
    if a.kind is not b.kind or not _same_rest(a.kind, a.rest, b.rest) or len(a.children) != len(b.children):
        return path, a._text(), b._text()
    keys = a.rest if a.kind is dict else _node_keys(a)
    for key, x, y in zip(keys, a.children, b.children):
        found = difference(x, y, (*path, key))
        if found:
            return found
    return path, a._text(), b._text()


def compare(a, b):
    """([(path, what a has there, what b has there) where the structures differ], [(path, leaf number in a,
    in b) where both have a leaf]). None: nothing is there."""
    apart, together = [], []

    def children(x, first):
        """{key: (structure, its first leaf)}"""
        out = {}
        for key, child in zip(x.rest if _is_mapping(x) else _node_keys(x), x.children):
            out[key] = child, first
            first += child.num_leaves
        return out

    def walk(x, y, path, i, j):
        if x.kind is None and y.kind is None:
            together.append((path, i, j))
            return
        keyed = _is_mapping(x)
        fits = x.kind is y.kind and (keyed or len(x.children) == len(y.children))
        if not fits or (x.kind is CONSTANT and x != y):
            apart.append((path, _said(x), _said(y)))
            return
        if not keyed and not _same_rest(x.kind, x.rest, y.rest):
            apart.append((path, f"{x._text()} with {x.rest!r}", f"{y._text()} with {y.rest!r}"))
        left, right = children(x, i), children(y, j)
        for key in [*left, *(k for k in right if k not in left)]:
            here = (*path, key)
            if key in left and key in right:
                walk(left[key][0], right[key][0], here, left[key][1], right[key][1])
            else:
                apart.append(
                    (
                        here,
                        _said(left[key][0]) if key in left else None,
                        _said(right[key][0]) if key in right else None,
                    )
                )
        if keyed and x.rest != y.rest and set(x.rest) == set(y.rest):  # an OrderedDict
            apart.append((path, f"the keys {list(x.rest)}", f"the keys {list(y.rest)}"))

    walk(a, b, (), 0, 0)
    return apart, together


def _said(t):
    return f"the constant {t._text()}" if t.kind is CONSTANT else t._text()


def _is_mapping(t):
    return isinstance(t.kind, type) and issubclass(t.kind, dict) and _node(t.kind) is None


def _node_keys(t):
    entry = _node(t.kind) if t.kind not in (tuple, list, None) else None
    if entry is not None and entry[2]:
        return map_attribute(entry[2])
    if t.kind is not None and _is_named_tuple(t.kind):
        return map_attribute(t.kind._fields)
    return range(len(t.children))


def map(f, tree, *rest, is_leaf=None):
    """f on every leaf, with the leaves of the other trees at the same places. The result has the structure of
    the first tree; where another one differs, the error names the place.

    >>> hop.tree.map(lambda p, g: p - g, {"w": 3, "b": (1,)}, {"w": 1, "b": (1,)})
    {'b': (0,), 'w': 2}
    """
    first, treedef = flatten(tree, is_leaf)
    columns = [first]
    for i, other in enumerate(rest):
        columns.append(_leaves_up_to(treedef, other, i + 1))
    return unflatten(treedef, [f(*row) for row in zip(*columns)])


def map_with_path(f, tree, *rest, is_leaf=None):
    """f(path, leaf, …) on every leaf. For what depends on the place: other learning rates for biases,
    names in messages.

    >>> hop.tree.map_with_path(lambda path, x: hop.tree.path_text(path, "p"), {"w": [1, 2]})
    {'w': ["p['w'][0]", "p['w'][1]"]}
    """
    paths = [path for path, _ in leaves_with_path(tree, is_leaf)]
    first, treedef = flatten(tree, is_leaf)
    columns = [paths, first, *[_leaves_up_to(treedef, other, i + 1) for i, other in enumerate(rest)]]
    return unflatten(treedef, [f(*row) for row in zip(*columns)])


def _leaves_up_to(treedef, tree, number):
    """What stands in a tree at the places of the leaves of treedef: leaves, or whole trees."""
    out = []

    def walk(t, x, path):
        if t.kind is None:
            out.append(x)
            return
        node = (type(None), None, (), ()) if x is None else _apart(x)
        if (
            node is None
            or node[0] is not t.kind
            or not _same_rest(t.kind, node[1], t.rest)
            or len(node[2]) != len(t.children)
        ):
            raise ValueError(
                f"tree {number} has another structure at {path_text(path) or 'its root'}: "
                f"expected {t._text()}, found {structure(x)._text()}"
            )
        for key, c, child in zip(node[3], t.children, node[2]):
            walk(c, child, (*path, key))

    walk(treedef, tree, ())
    return out


def prefix_leaves(prefix, tree, what):
    """A leaf of the prefix for each leaf of the tree: where the prefix has a leaf (None is one), it counts
    for the whole tree there."""
    out = []

    def walk(p, t, path):
        node = None if p is None else _apart(p)
        if node is None:
            out.extend([p] * t.num_leaves)
            return
        if (
            t.kind is None
            or len(node[2]) != len(t.children)
            or (t.kind is dict) != (node[0] is dict)
            or (t.kind is dict and node[1] != t.rest)
        ):
            expected = "one number or None for an array" if t.kind is None else f"something for {t._text()}"
            raise ValueError(f"{what}{path_text(path)}: expected {expected}, found {p!r}")
        for key, child, c in zip(node[3], node[2], t.children):
            walk(child, c, (*path, key))

    walk(prefix, tree, ())
    return out


_NOTHING = object()


def reduce(function, tree, initializer=_NOTHING, is_leaf=None):
    """function(function(first leaf, second), third) and so on; it begins with the initializer where there
    is one.

    >>> hop.tree.reduce(lambda a, b: a + b, {"a": 1, "b": [2, 3]})
    6
    """
    first = () if initializer is _NOTHING else (initializer,)
    return functools.reduce(function, leaves(tree, is_leaf), *first)


def all(tree, *, is_leaf=None):
    """Whether all leaves are true. True of a tree without leaves.

    >>> hop.tree.all({"a": True, "b": [True]})
    True
    """
    return builtins.all(leaves(tree, is_leaf))


def transpose(outer, inner, tree):
    """A tree of structure `outer` whose leaves have the structure `inner`, turned inside out. Without an
    inner structure (None) it is that of the first leaf.

    >>> pairs = {"a": (1, 2), "b": (3, 4)}
    >>> hop.tree.transpose(hop.tree.structure({"a": 0, "b": 0}), hop.tree.structure((0, 0)), pairs)
    ({'a': 1, 'b': 3}, {'a': 2, 'b': 4})
    """
    if inner is None:
        inner = structure(_leaves_up_to(outer, tree, 1)[0])
    rows = [flatten(x)[0] for x in _leaves_up_to(outer, tree, 1)]
    return unflatten(inner, [unflatten(outer, list(column)) for column in zip(*rows)])


from ._places import (  # noqa: E402, F401 -- here, because it is made of what stands above
    Parametrized,
    Tied,
    combine,
    parametrize,
    partition,
    places,
    replace,
    resolve,
    tie,
    update,
)
