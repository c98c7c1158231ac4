"""jax.tree_util's names: hop.tree under the names that it has there.

>>> import hop
>>> hop.tree_util.tree_map(lambda x: x + 1, {"a": 1, "b": (2, 3)})
{'a': 2, 'b': (3, 4)}
"""

__all__ = [
    "Partial", "all_leaves", "keystr", "register_dataclass", "register_pytree_node", "register_pytree_node_class",
    "register_pytree_with_keys", "register_pytree_with_keys_class", "register_static", "tree_all", "tree_flatten", "tree_flatten_with_path", "tree_leaves",
    "tree_leaves_with_path", "tree_map", "tree_map_with_path", "tree_reduce", "tree_structure", "tree_transpose",
    "tree_unflatten", "treedef_is_leaf", "treedef_tuple",
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
    """A path as Python writes it: ['layer'][0]."""
    return tree.path_text(path)


def all_leaves(iterable, is_leaf=None):
    """Whether none of them is a node."""
    return all(tree.structure(x, is_leaf).kind is None for x in iterable)


def treedef_is_leaf(treedef):
    """Whether a structure is that of a single leaf."""
    return treedef.kind is None


def treedef_tuple(treedefs):
    """The structure of a tuple of trees of these structures."""
    return TreeDef(tuple, None, tuple(treedefs))


# ---- classes ----


def register_pytree_node(nodetype, flatten_func, unflatten_func):
    """Makes a class a node: flatten_func(node) gives (children, hashable rest), unflatten_func(rest, children) the node again."""
    tree.register(nodetype, flatten_func, unflatten_func)


def register_pytree_node_class(cls):
    """Makes a class a node that has the methods tree_flatten() and, of the class, tree_unflatten(rest, children). A decorator."""
    return tree.register(cls, cls.tree_flatten, cls.tree_unflatten)


def register_pytree_with_keys(nodetype, flatten_with_keys, unflatten_func, flatten_func=None):
    """Makes a class a node: flatten_with_keys(node) gives ([(key, child), …], hashable rest). Paths count the children; the keys are not kept."""

    def flatten(node):
        pairs, rest = flatten_with_keys(node)
        return [child for _, child in pairs], rest

    tree.register(nodetype, flatten_func or flatten, unflatten_func)


def register_pytree_with_keys_class(cls):
    """The same of a class that has the methods tree_flatten_with_keys() and tree_unflatten(rest, children). A decorator."""
    register_pytree_with_keys(cls, cls.tree_flatten_with_keys, cls.tree_unflatten, getattr(cls, "tree_flatten", None))
    return cls


def register_dataclass(nodetype, data_fields=None, meta_fields=None):
    """Makes a dataclass a node whose children are the fields data_fields, while meta_fields are part of the structure. Without them all fields are children but for those with
    metadata {"static": True}. A decorator, too."""
    if data_fields is None and meta_fields is None:
        return tree.register(nodetype)
    children, fixed = tuple(data_fields or ()), tuple(meta_fields or ())

    def flatten(node):
        return [getattr(node, name) for name in children], tuple(getattr(node, name) for name in fixed)

    def unflatten(rest, values):
        return nodetype(**dict(zip(children, values)), **dict(zip(fixed, rest)))

    return tree.register(nodetype, flatten, unflatten)


def register_static(cls):
    """Makes objects of a class part of the structure of trees: they must be hashable. A decorator."""
    return tree.register(cls, lambda node: ((), node), lambda node, _: node)


class Partial(functools.partial):
    """functools.partial as a node of trees: what the function is given already are its children, the function is part of the structure."""

    __module__ = "hop.tree_util"


tree.register(
    Partial,
    lambda p: ((p.args, p.keywords), p.func),
    lambda func, children: Partial(func, *children[0], **children[1]),
)
