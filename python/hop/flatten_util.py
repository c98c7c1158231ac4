"""jax.flatten_util's function: a tree of arrays as one vector."""

__all__ = ["ravel_pytree"]

import math

from . import _dtypes, _shapes, tree
from ._errors import InvalidError
from ._ops import asarray, astype, concat, reshape, zeros
from ._ops.creation import _array


def ravel_pytree(pytree):
    """(one vector of all elements of a tree, in the order of its leaves; a function that makes such a tree of
    such a vector). The vector has the dtype that operators on all leaves have; the tree that is made has the
    dtypes of the leaves.

    >>> vector, unravel = hop.flatten_util.ravel_pytree({"a": hop.asarray([1.0, 2.0]), "b": hop.asarray(3.0)})
    >>> vector
    Array([1., 2., 3.], dtype=float32)
    >>> unravel(vector * 10)
    {'a': Array([10., 20.], dtype=float32), 'b': Array(30., dtype=float32)}
    """
    leaves, treedef = tree.flatten(pytree)
    leaves = [asarray(x) for x in leaves]
    shapes, dtypes = [x.shape for x in leaves], [x.dtype for x in leaves]
    dtype = _dtypes.result_type(*leaves) if leaves else _dtypes.float32
    flat = concat([astype(reshape(x, (-1,)), dtype, copy=False) for x in leaves]) if leaves else zeros((0,))
    total = sum(math.prod(shape) for shape in shapes)

    def unravel(vector):
        """The tree of a vector."""
        vector = _array(vector)
        if _shapes.shapes_differ(vector.shape, (total,)):
            raise InvalidError(f"unravel: expected a vector of {total} elements, found {vector._type}")
        out, at = [], 0
        for shape, d in zip(shapes, dtypes):
            n = math.prod(shape)
            out.append(astype(reshape(vector[at : at + n], shape), d, copy=False))
            at += n
        return tree.unflatten(treedef, out)

    return flat, unravel
