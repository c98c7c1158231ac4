"""local_map, as PyTorch has it: a function of parts with placements for each argument and each result."""

__all__ = ["local_map"]

import functools

from . import _arguments, _calls, _core, _mesh, tree
from ._arguments import place
from ._dist import Around, check_captures, key_of, layout_of, matching, ndim_of, record_parts
from ._dtypes import is_number
from ._errors import InvalidError
from ._mesh import Replicate, counted, listed, placements_of
from ._ops import asarray
from ._reuse import SIMPLE, check_pure
from ._trace import raw_leaves
from ._transforms import _callable, _wrapper


def local_map(
    func=None, out_placements=None, in_placements=None, in_grad_placements=None, device_mesh=None, *,
    redistribute_inputs=False, captures=None,
):  # fmt: skip
    """A function that calls func with the parts of its distributed arguments, and makes distributed arrays of
    what it gives. As PyTorch's: out_placements is a list of placements, one for each axis of the mesh, or a
    tuple of such lists for several results; in_placements a tuple with a list, or None, for each positional
    argument (their leaves), None for what is no array; without it arguments lie as they lie. A list may also
    be hop.P. device_mesh: that of the first distributed argument, unless it is given. Where there is no mesh,
    func is called as it is. A distributed argument that lies elsewhere is an error, or moved with
    redistribute_inputs; a plain array is cut where in_placements say so. in_grad_placements need not be
    given: gradients arrive reduced; stated ones are checked. Of a distributed array that func uses from
    around it has the part, too; captures says by names of func's variables how what they hold is to lie,
    {"w": [hop.Shard(0)]}, else a plain array is there as a whole. As a decorator without func.

    >>> mesh = hop.mesh(2, "i")
    >>> rows, whole = [hop.Shard(0)], [hop.Replicate()]
    >>> product = hop.local_map(hop.matmul, rows, in_placements=(rows, whole), device_mesh=mesh)
    >>> product(hop.eye(4), hop.ones((4, 2))).parts[0].shape
    (2, 2)
    """
    if func is None:
        return functools.partial(
            local_map, out_placements=out_placements, in_placements=in_placements,
            in_grad_placements=in_grad_placements, device_mesh=device_mesh,
            redistribute_inputs=redistribute_inputs, captures=captures,
        )  # fmt: skip
    check_pure(_callable(func, "local_map"))
    if device_mesh is not None:
        _mesh.checked_mesh("local_map: device_mesh", device_mesh)
    if out_placements is None:
        raise _arguments.wrong("local_map: out_placements", "placements of the results", None)
    check_captures("local_map: captures", captures)
    options = _Options(
        _entries("out_placements", out_placements),
        None if in_placements is None else _entries("in_placements", in_placements),
        None if in_grad_placements is None else _entries("in_grad_placements", in_grad_placements),
        device_mesh,
        _arguments.flag("local_map: redistribute_inputs", redistribute_inputs),
        captures,
    )

    @_wrapper(func, "local_map")
    def mapped(*args, **named):
        return _call(func, options, args, named)

    return mapped


def _entries(what, x):
    """Entries for several arrays, a tuple; a list of placements is that of one."""
    if x is None or _mesh.is_list(x):
        return (x,)
    if not isinstance(x, (tuple, list)) or not all(p is None or _mesh.is_list(p) for p in x):
        raise _arguments.wrong(f"local_map: {what}", "a list of placements, or a tuple of lists and None", x)
    return tuple(x)


class _Options:
    """What local_map was given besides the function: entries are tuples of lists and None."""

    __slots__ = ("out", "into", "gradients", "mesh", "move", "captures")

    def __init__(self, *given):
        self.out, self.into, self.gradients, self.mesh, self.move, self.captures = given

    def key(self):
        return key_of(self.out), key_of(self.into), key_of(self.gradients), self.move, key_of(self.captures)

    def named_entries(self):
        return (("in_placements", self.into), ("in_grad_placements", self.gradients))


def _is_array(x):
    return isinstance(x, _core.ArrayBase) or hasattr(x, "dtype") and hasattr(x, "shape")


def _call(func, options, args, named):
    found, treedef = tree.flatten(args, lambda x: x is None)
    mesh = options.mesh or next((layout.mesh for layout in map(layout_of, found) if layout), None)
    if mesh is None:
        return func(*args, **named)
    which = [i for i, x in enumerate(found) if _is_array(x)]
    _check_entries(options, found, which)

    def parts(*arrays):
        every = list(found)
        for i, x in zip(which, arrays):
            every[i] = x
        return _arguments.twins.of(func)(*tree.unflatten(treedef, every), **named)

    parts.__name__ = getattr(func, "__name__", "local_map")

    def record(*arrays):
        leaves, weak, arrays_tree = raw_leaves(arrays, "argument")
        lists = [_list_of(i, x, options.into and options.into[i], mesh) for i, x in zip(which, leaves)]
        gradients = options.gradients and [
            p if options.gradients[i] is None else _gradient_of(i, options.gradients[i], mesh, x.ndim)
            for i, x, p in zip(which, leaves, lists)
        ]
        leaves = [
            matching(f"local_map: argument {i}", x, layout_of(x), p, mesh, options.move)
            for i, x, p in zip(which, leaves, lists)
        ]
        return record_parts(
            Around("local_map", mesh, func, options.captures, options.move),
            parts, leaves, weak, arrays_tree, lists,
            lambda out_tree, out: _out_lists(options.out, out_tree, out, mesh),
            gradients,
        )  # fmt: skip

    arrays = tuple([asarray(found[i]) for i in which])
    rest = [x for i, x in enumerate(found) if i not in which] + list(named.values())
    if not all(isinstance(x, SIMPLE) for x in rest):
        return record(*arrays)
    fixed = (tuple(which), treedef, tuple([(type(x), x) for x in rest]), tuple(named))
    return _calls.loop(("local_map", mesh, *options.key(), fixed), func, arrays, record)


def _check_entries(options, found, which):
    for what, given in options.named_entries():
        if given is None:
            continue
        if len(given) != len(found):
            raise InvalidError(
                f"{place()}local_map: {what} has {counted(len(given), 'entry', 'entries')}, the function was "
                f"called with {counted(len(found), 'argument')}: one for each is needed"
            )
        for i, (x, p) in enumerate(zip(found, given)):
            if p is not None and i not in which:
                raise InvalidError(
                    f"{place()}local_map: argument {i} is {_arguments.found(x)}, no array: its entry of "
                    f"{what} must be None, found {_shown(p)}"
                )
            if p is None and layout_of(x) is not None:
                raise InvalidError(
                    f"{place()}local_map: argument {i} is a distributed array: its entry of {what} must be "
                    "placements, found None"
                )


def _shown(p):
    return listed(p) if isinstance(p, (tuple, list)) and not isinstance(p, _mesh.P) else repr(p)


def _list_of(i, x, entry, mesh):
    layout = layout_of(x)
    if layout is not None and layout.mesh != mesh:
        raise InvalidError(
            f"{place()}local_map: argument {i} lies on the mesh ({layout.mesh._text()}), "
            f"not on ({mesh._text()})"
        )
    if entry is not None:
        return placements_of(f"local_map: argument {i}", entry, mesh, x.ndim)
    return layout.placements if layout is not None else (Replicate(),) * mesh.ndim


def _gradient_of(i, entry, mesh, ndim):
    return placements_of(f"local_map: in_grad_placements of argument {i}", entry, mesh, ndim)


def _out_lists(entries, out_tree, found, mesh):
    """Placements of the arrays and numbers among the results."""
    every, _ = tree.flatten(tree.unflatten(out_tree, list(found)), lambda x: x is None)
    if len(entries) != len(every):
        raise InvalidError(
            f"{place()}local_map: out_placements has {counted(len(entries), 'entry', 'entries')}, the "
            f"function gave {counted(len(every), 'result')}: one for each is needed"
        )
    placed = []
    for k, (x, p) in enumerate(zip(every, entries)):
        array = isinstance(x, _core.ArrayBase)
        if layout_of(x) is not None:
            raise InvalidError(
                f"{place()}local_map: result {k} is distributed: a function of parts gives parts"
            )
        if not array and p is not None:
            raise InvalidError(
                f"{place()}local_map: result {k} is {_arguments.found(x)}, no array: its entry of "
                f"out_placements must be None, found {_shown(p)}"
            )
        if array or is_number(x):
            p = (Replicate(),) * mesh.ndim if p is None else p
            placed.append(placements_of(f"local_map: result {k}", p, mesh, ndim_of(x)))
    return placed
