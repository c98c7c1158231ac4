"""jax.tree_util's names: hop.tree under the names that it has there.

>>> import hop
>>> hop.tree_util.tree_map(lambda x: x + 1, {"a": 1, "b": (2, 3)})
{'a': 2, 'b': (3, 4)}
"""

__all__ = [
    "Partial", "all_leaves", "keystr", "register_dataclass", "register_pytree_node",
    "register_pytree_node_class", "register_pytree_with_keys", "register_pytree_with_keys_class",
    "register_static", "tree_all", "tree_flatten", "tree_flatten_with_path", "tree_leaves",
    "tree_leaves_with_path", "tree_map", "tree_map_with_path", "tree_reduce", "tree_structure",
    "tree_transpose", "tree_unflatten", "treedef_is_leaf", "treedef_tuple",
]  # fmt: skip

import functools

from . import tree
from .tree import TreeDef

tree_all = tree.all
tree_flatten = tree.flatten
tree_flatten_with_path = tree.flatten_with_path
tree_leaves = tree.leaves
tree_leaves_with_path = tree.leaves_with_path
tree_map = tree.map
tree_map_with_path = tree.map_with_path
tree_reduce = tree.reduce
tree_structure = tree.structure
tree_transpose = tree.transpose
tree_unflatten = tree.unflatten


def keystr(path):
    """A path as Python writes it: ['layer'][0].

    >>> hop.tree_util.keystr(hop.tree.leaves_with_path({"layer": [1]})[0][0])
    "['layer'][0]"
    """
    return tree.path_text(path)


def all_leaves(iterable, is_leaf=None):
    """Whether none of them is a node. None is a node without children, so it is not a leaf.

    >>> hop.tree_util.all_leaves([1, 2]), hop.tree_util.all_leaves([1, [2]])
    (True, False)
    """
    return all(tree.structure(x, is_leaf).kind is None for x in iterable)


def treedef_is_leaf(treedef):
    """Whether a structure is that of a single leaf. For functions that take structures apart.

    >>> hop.tree_util.treedef_is_leaf(hop.tree.structure(1))
    True
    """
    return treedef.kind is None


def treedef_tuple(treedefs):
    """The structure of a tuple of trees of these structures. As hop.tree.structure of such a tuple would
    give.

    >>> hop.tree_util.treedef_tuple([hop.tree.structure(1), hop.tree.structure([1])]).num_leaves
    2
    """
    return TreeDef(tuple, None, tuple(treedefs))


# ---- classes ----


def register_pytree_node(nodetype, flatten_func, unflatten_func):
    """Makes a class a node: flatten_func(node) gives (children, hashable rest), unflatten_func(rest,
    children) the node again.

    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> hop.tree_util.register_pytree_node(Pair, lambda p: ((p.a, p.b), None), lambda _, c: Pair(*c))
    >>> hop.tree.leaves(Pair(1, 2))
    [1, 2]
    """
    tree.register(nodetype, flatten_func, unflatten_func)


def register_pytree_node_class(cls):
    """Makes a class a node that has the methods tree_flatten() and, of the class, tree_unflatten(rest,
    children). A decorator.

    >>> @hop.tree_util.register_pytree_node_class
    ... class Box:
    ...     def __init__(self, x):
    ...         self.x = x
    ...     def tree_flatten(self):
    ...         return (self.x,), None
    ...     @classmethod
    ...     def tree_unflatten(cls, rest, children):
    ...         return cls(*children)
    >>> hop.tree.map(lambda v: v + 1, Box(1)).x
    2
    """
    return tree.register(cls, cls.tree_flatten, cls.tree_unflatten)


def register_pytree_with_keys(nodetype, flatten_with_keys, unflatten_func, flatten_func=None):
    """Makes a class a node: flatten_with_keys(node) gives ([(key, child), …], hashable rest). Paths count
    the children; the keys are not kept.

    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> hop.tree_util.register_pytree_with_keys(
    ...     Pair, lambda p: ((("a", p.a), ("b", p.b)), None), lambda _, c: Pair(*c)
    ... )
    >>> hop.tree.leaves(Pair(1, 2))
    [1, 2]
    """

    def flatten(node):
        pairs, rest = flatten_with_keys(node)
        return [child for _, child in pairs], rest

    tree.register(nodetype, flatten_func or flatten, unflatten_func)


def register_pytree_with_keys_class(cls):
    """The same of a class that has the methods tree_flatten_with_keys() and tree_unflatten(rest, children). A
    decorator.

    >>> @hop.tree_util.register_pytree_with_keys_class
    ... class Box:
    ...     def __init__(self, x):
    ...         self.x = x
    ...     def tree_flatten_with_keys(self):
    ...         return (("x", self.x),), None
    ...     @classmethod
    ...     def tree_unflatten(cls, rest, children):
    ...         return cls(*children)
    >>> hop.tree.leaves(Box(1))
    [1]
    """
    register_pytree_with_keys(
        cls, cls.tree_flatten_with_keys, cls.tree_unflatten, getattr(cls, "tree_flatten", None)
    )
    return cls


def register_dataclass(nodetype, data_fields=None, meta_fields=None):
    """Makes a dataclass a node whose children are the fields data_fields, while meta_fields are part of the
    structure. Without them all fields are children but for those with metadata {"static": True}. A decorator,
    too.

    >>> import dataclasses
    >>> @dataclasses.dataclass
    ... class Layer:
    ...     w: float
    ...     name: str
    >>> Layer = hop.tree_util.register_dataclass(Layer, ["w"], ["name"])
    >>> hop.tree.leaves(Layer(2.0, "first"))
    [2.0]
    """
    if data_fields is None and meta_fields is None:
        return tree.register(nodetype)
    children, fixed = tuple(data_fields or ()), tuple(meta_fields or ())

    def flatten(node):
        return [getattr(node, name) for name in children], tuple(getattr(node, name) for name in fixed)

    def unflatten(rest, values):
        return nodetype(**dict(zip(children, values)), **dict(zip(fixed, rest)))

    return tree.register(nodetype, flatten, unflatten)


def register_static(cls):
    """Makes objects of a class part of the structure of trees: they must be hashable. A decorator.

    >>> @hop.tree_util.register_static
    ... class Mode(str):
    ...     pass
    >>> hop.tree.leaves([1, Mode("fast")])
    [1]
    """
    return tree.register(cls, lambda node: ((), node), lambda node, _: node)


class Partial(functools.partial):
    """functools.partial as a node of trees: what the function is given already are its children, the function
    is part of the structure.

    >>> f = hop.tree_util.Partial(lambda w, x: w * x, hop.asarray(3.0))
    >>> hop.jit(lambda f, x: f(x))(f, 2.0)
    Array(6., dtype=float32)
    """

    __module__ = "hop.tree_util"


tree.register(
    Partial,
    lambda p: ((p.args, p.keywords), p.func),
    lambda func, children: Partial(func, *children[0], **children[1]),
)
