"""Distributed arrays, and functions of the parts that ranks have, as JAX's shard_map (_local_map.py: as
PyTorch's). The body of the operator that is recorded is captured for local types: those of the parts."""

__all__ = ["DistArray", "collect", "distribute", "redistribute", "shard_map"]

import contextlib
import functools
import re

from . import _arguments, _calls, _core, _effects, _lanes, _mesh, tree
from ._arguments import here, place, twins
from ._array import Sealed
from ._errors import InvalidError
from ._mesh import Mesh, counted, listed, of_words, placements_of, spec_of, words
from ._ops import asarray
from ._reuse import check_pure
from ._trace import (
    arrays_of_results, body_leaves, body_of, is_weak, marked, raw_leaves, raw_result, recorded, run_or_record,
)  # fmt: skip
from ._transforms import _callable, _wrapper

_MOST_SHOWN = 8


class Captured(BaseException):
    """A function of parts uses a distributed array from around, which its operator was not given: it is
    captured again, with that array as a further operand."""


# ---- where an array lies ----


class Layout:
    """A mesh, and a placement for each of its axes."""

    __slots__ = ("mesh", "placements")

    def __init__(self, mesh, placements):
        self.mesh, self.placements = mesh, placements

    def __str__(self):
        return f"{listed(self.placements)} on the mesh ({self.mesh._text()})"


@functools.lru_cache(256)
def _layout_of_text(text):
    found = re.fullmatch(r"\((.*)\)\((.*)\)", text)
    axes = [pair.split(" = ") for pair in found[1].split(", ")]
    mesh = Mesh(tuple([int(n) for _, n in axes]), tuple([name for name, _ in axes]))
    return Layout(mesh, of_words(found[2]))


def layout_of(x):
    """Where a distributed array lies, concrete or traced; None: it is none."""
    text = x._type.partition("@")[2] if isinstance(x, _core.ArrayBase) else ""
    return _layout_of_text(text) if text else None


class DistArray(Sealed):
    """An array that lies on a mesh of ranks: hop.distribute makes one, and so do hop.shard_map and
    hop.local_map. shape and dtype are those of the whole array. shard_map, local_map, redistribute, loops,
    branches and calls of functions take it; every other operator refuses it. hop.collect gives the whole.

    >>> x = hop.distribute(hop.arange(5.0), hop.mesh(2, "i"), hop.P("i"))
    >>> x
    DistArray(float32[5], (Shard(0),) on the mesh (i = 2),
      rank 0: [0. 1. 2.]
      rank 1: [3. 4.])
    >>> x.mesh, x.placements, x.spec, x.shape, x.parts[1]
    (hop.mesh((2,), ('i',)), (Shard(0),), P('i'), (5,), Array([3., 4.], dtype=float32))
    """

    __slots__ = ()

    def _layout(self):
        found = layout_of(self)
        if found is None:
            raise InvalidError(
                f"{place()}in a function of parts a distributed array from around is the rank's part, which "
                "lies on no mesh: hop.axis_size and hop.axis_index say where the rank is"
            )
        return found

    @property
    def mesh(self):
        """The mesh on which it lies."""
        return self._layout().mesh

    @property
    def placements(self):
        """A placement for each axis of the mesh."""
        return self._layout().placements

    @property
    def spec(self):
        """The same as names of axes, hop.P; of what is to be reduced there is none."""
        found = self._layout()
        if any(p.is_partial() for p in found.placements):
            raise InvalidError(f"{place()}spec: hop.P cannot say {listed(found.placements)}: placements do")
        return spec_of(found.placements, found.mesh)

    @property
    def parts(self):
        """The parts of the ranks of this process: of all, where ranks are threads, of one under MPI."""
        return [part for _, part in _core.parts(self)]

    @property
    def ranks(self):
        """Whose parts these are."""
        return [rank for rank, _ in _core.parts(self)]

    def __repr__(self):
        said = self._unseen()
        if said:
            return said
        found, parts = self._layout(), _core.parts(self)
        shape = ", ".join(map(str, self.shape))
        lines = [f"\n  rank {rank}: {str(part).replace(chr(10), chr(10) + ' ' * 10)}" for rank, part in parts]
        more = f"\n  and {len(lines) - _MOST_SHOWN} more" if len(lines) > _MOST_SHOWN else ""
        return f"DistArray({self.dtype.name}[{shape}], {found}," + "".join(lines[:_MOST_SHOWN]) + more + ")"

    def __reduce__(self):
        found = layout_of(self)
        parts = self.parts
        if len(parts) != found.mesh.size:
            raise TypeError("a distributed array whose parts are in several processes cannot be pickled")
        return _of_parts, (self._type.partition("@")[0], found.mesh, found.placements, parts)


def _of_parts(text, mesh, placements, parts):
    return _core.from_parts(text, mesh._text(), words(placements), parts)


_core.dist_setup(DistArray, Captured)


# ---- from plain arrays, and back ----


def _lists(what, placements, x, mesh):
    """(leaves of the tree x, its structure, placements of each): placements for all of them, or a tree."""
    found, treedef = tree.flatten(x)
    for i, leaf in enumerate(found):
        if not isinstance(leaf, _core.ArrayBase):
            found[i] = asarray(leaf)
    given = _prefix(placements, treedef, f"{place()}{what}")
    return found, treedef, [
        placements_of(what, p, mesh, leaf.ndim) for p, leaf in zip(given, found)
    ]  # fmt: skip


class _Kept:
    """What counts as a leaf, whatever it is."""

    __slots__ = ("x",)

    def __init__(self, x):
        self.x = x


def _prefix(specs, treedef, what):
    """What a tree of placements says of each leaf of a structure."""
    leaf = lambda x: x is None or _mesh.is_list(x)  # noqa: E731
    found, spec_tree = tree.flatten(specs, leaf)
    kept = tree.unflatten(spec_tree, [_Kept(x) for x in found])
    out = []

    def walk(p, t, path):
        if isinstance(p, _Kept):
            out.extend([p.x] * t.num_leaves)
            return
        keys = list(p) if isinstance(p, dict) else range(len(p)) if isinstance(p, (tuple, list)) else None
        alike = keys is not None and t.kind not in (None, tree.CONSTANT) and len(keys) == len(t.children)
        if not alike or isinstance(p, dict) and (t.kind is not dict or sorted(keys) != list(t.rest)):
            expected = "placements of one array" if t.kind is None else f"something for {t._text()}"
            raise InvalidError(f"{what}{tree.path_text(path)}: expected {expected}, found {_shown(p)}")
        for key, child in zip(sorted(keys) if isinstance(p, dict) else keys, t.children):
            walk(p[key], child, (*path, key))

    walk(kept, treedef, ())
    return out


def _shown(p):
    return repr(tree.map(lambda leaf: leaf.x, p)) if not isinstance(p, _Kept) else repr(p.x)


def distribute(x, mesh, placements):
    """x, an array or a tree of arrays, on a mesh: each rank gets its part. placements: one for each axis of
    the mesh (hop.Shard(0), hop.Replicate(), hop.Partial()), or hop.P with names of its axes; or a tree of
    such. An array of which each rank has all stays a plain one.

    >>> hop.distribute(hop.arange(4), hop.mesh(2, "i"), [hop.Shard(0)])
    DistArray(int64[4], (Shard(0),) on the mesh (i = 2),
      rank 0: [0 1]
      rank 1: [2 3])
    """
    _mesh.checked_mesh(here("mesh"), mesh)
    found, treedef, lists = _lists(here("placements"), placements, x, mesh)
    if _core.tracing():
        return redistribute(tree.unflatten(treedef, found), placements, mesh)
    out = []
    for leaf, p in zip(found, lists):
        if layout_of(leaf) is not None:
            raise InvalidError(
                f"{place()}distribute: the array is distributed already: hop.redistribute moves it"
            )
        out.append(_core.distribute(leaf, mesh._text(), words(p)))
    return tree.unflatten(treedef, out)


def collect(x):
    """The whole of a distributed array, or of each in a tree, on every rank: a plain array.

    >>> hop.collect(hop.distribute(hop.arange(4), hop.mesh(2, "i"), hop.P("i")))
    Array([0, 1, 2, 3], dtype=int64)
    """

    def whole(leaf):
        found = layout_of(leaf)
        if found is None:
            return leaf
        if not _core.tracing():
            return _core.collect(leaf)
        return moved(leaf, found.mesh, (_mesh.Replicate(),) * found.mesh.ndim)

    return tree.map(whole, x)


def moved(x, mesh, placements):
    return _core.redistribute(x, mesh._text(), words(placements))


def redistribute(x, placements, mesh=None):
    """x, an array or a tree of arrays, with other placements, on its mesh; a plain array is one of which each
    rank has all, on the mesh that is given. The cheapest exchange for each pair of placements is what runs.

    >>> x = hop.distribute(hop.arange(6.0).reshape(2, 3), hop.mesh(2, "i"), hop.P("i"))
    >>> hop.redistribute(x, hop.P(None, "i")).parts[0].shape
    (2, 2)
    """
    found, treedef = tree.flatten(x)
    layouts = [layout_of(leaf) for leaf in found]
    on = mesh if mesh is not None else next((found.mesh for found in layouts if found), None)
    if on is None:
        raise InvalidError(
            f"{place()}redistribute: the array lies on no mesh: mesh= says on which one it is to be"
        )
    _mesh.checked_mesh(here("mesh"), on)
    found, treedef, lists = _lists(here("placements"), placements, x, on)
    for layout in layouts:
        if layout is not None and layout.mesh != on:
            raise InvalidError(
                f"{place()}redistribute: the array lies on the mesh ({layout.mesh._text()}), "
                f"not on ({on._text()})"
            )

    def record(*leaves):
        return tuple([moved(leaf, on, p) for leaf, p in zip(leaves, lists)])

    if _core.tracing():
        return tree.unflatten(treedef, record(*found))
    out = _calls.loop(("redistribute", on, tuple(lists)), moved, tuple(found), record)
    return tree.unflatten(treedef, out)


# ---- functions of parts ----


def _bind_all(mesh):
    from contextlib import ExitStack

    stack = ExitStack()
    for name, size in zip(mesh.axis_names, mesh.shape):
        stack.enter_context(_lanes.binding(name, size))
    return stack


def _check_free(what, mesh):
    for name in mesh.axis_names:
        if any(name == bound for bound, _ in _lanes._around.axes):
            raise InvalidError(
                f"{place()}{what}: the axis {name!r} is bound around it already: a function of one rank's "
                "part cannot be mapped over the same axis again"
            )


def _variable(what, fun, name):
    """What a function's variable from around holds."""
    while isinstance(fun, functools.partial) or hasattr(fun, "__wrapped__") or hasattr(fun, "__func__"):
        inner = "func" if isinstance(fun, functools.partial) else "__wrapped__"
        fun = getattr(fun, inner if hasattr(fun, inner) else "__func__")
    code = getattr(fun, "__code__", None)
    try:
        if code is not None and name in code.co_freevars:
            return fun.__closure__[code.co_freevars.index(name)].cell_contents
        if code is not None and _names(code, name):
            return fun.__globals__[name]
    except (ValueError, KeyError):  # it has no value yet
        pass
    raise InvalidError(f"{place()}{what}: the function uses no variable {name!r} from around it")


def _names(code, name):
    return name in code.co_names or any(_names(c, name) for c in code.co_consts if hasattr(c, "co_names"))


class Around:
    """Arrays from around that a function of parts uses, further operands of its operator, each with its
    placements and whether it is weak."""

    __slots__ = ("what", "mesh", "arrays", "lists", "weak")

    def __init__(self, what, mesh, fun, captures, move):
        """captures: by names of variables how they are to lie, as the user has said; move: distributed ones
        that lie elsewhere are moved there."""
        self.what, self.mesh, self.arrays, self.lists, self.weak = what, mesh, [], [], []
        for name, given in (captures or {}).items():
            value = _variable(f"{what}: captures", fun, name)
            self._add_named(f"{what}: captures[{name!r}]", value, given, move)

    def _add_named(self, what, value, given, move):
        found, treedef = tree.flatten(value)
        for x, p in zip(found, _prefix(given, treedef, f"{place()}{what}")):
            if not isinstance(x, _core.ArrayBase):
                raise _arguments.wrong(what, "a variable that holds arrays of hop's", x)
            p = placements_of(what, p, self.mesh, x.ndim)
            if any(x is y and p != q for y, q in zip(self.arrays, self.lists)):
                raise InvalidError(f"{place()}{what}: the array is to lie in two ways, {listed(p)} is one")
            layout = self._layout(x, what)
            if layout is not None and not move:
                matching(what, x, layout, p, self.mesh, move)
            self._add(x, p)

    def _layout(self, x, what):
        layout = layout_of(x)
        if layout is None or layout.mesh == self.mesh:
            return layout
        raise InvalidError(
            f"{place()}{what}: an array from around lies on the mesh ({layout.mesh._text()}), "
            f"not on ({self.mesh._text()})"
        )

    def _add(self, x, placements):
        self.arrays.append(x)
        self.lists.append(placements)
        self.weak.append(is_weak(x))

    def add_used(self, x):
        """A distributed one of which nothing was said."""
        self._add(x, self._layout(x, self.what).placements)

    def operands(self):
        """In a capture: the arrays, where they are to lie."""
        return [
            matching(self.what, raw_result(x), layout_of(x), p, self.mesh, True)
            for x, p in zip(self.arrays, self.lists)
        ]

    @contextlib.contextmanager
    def parts(self, values):
        """Within this they are parts."""
        before = _core.captures(list(zip(self.arrays, marked(values, self.weak))))
        try:
            yield
        finally:
            _core.captures(before)


def record_parts(around, fun, leaves, weak, treedef, lists, out_lists, gradients=None):
    """The results of fun on the parts of these leaves. lists: placements of each; out_lists(out_tree,
    leaves): those of the results; gradients: those stated of gradients."""
    what, mesh, seen, n = around.what, around.mesh, [], len(leaves)

    def flat(*values):
        with _bind_all(mesh), around.parts(values[n:]):
            given = twins.of(fun)(*tree.unflatten(treedef, marked(values[:n], weak)))
            found, out_tree = arrays_of_results(given)
            found = [_core.part(x) for x in found]
            placed = out_lists(out_tree, found)
            found, weak_out = body_leaves(found)
        seen.append((out_tree, weak_out))
        body._placements = ", ".join(map(words, placed))
        return found

    body = body_of(flat, fun)

    def build(*values):
        while True:
            operands = [*values, *around.operands()]
            given = ", ".join(map(words, [*lists, *around.lists]))
            stated = None if gradients is None else ", ".join(map(words, [*gradients, *around.lists]))
            try:
                return _effects.settled(
                    lambda: _core.local_map(body, operands, mesh._text(), given, stated)
                )
            except Captured as used:
                around.add_used(used.args[0])

    _check_free(what, mesh)
    out = recorded(lambda: build(*leaves)) if _core.tracing() else run_or_record(build, leaves, what)
    out_tree, weak_out = seen[-1]
    return tree.unflatten(out_tree, marked(out, weak_out))


def matching(what, x, layout, wanted, mesh, move):
    """The operand x, which lies as it is to, or is moved there."""
    if layout is None or layout.placements == wanted:
        return x
    if move:
        return moved(x, mesh, wanted)
    raise InvalidError(
        f"{place()}{what}: lies as {listed(layout.placements)}, {listed(wanted)} is required: "
        "hop.redistribute(x, …) first, or redistribute_inputs=True"
    )


def shard_map(
    f=None, mesh=None, in_specs=None, out_specs=None, *, check_vma=True, redistribute_inputs=False,
    captures=None,
):  # fmt: skip
    """A function that runs f on every rank of the mesh, each on its parts of the arguments, and puts the
    results together. in_specs, out_specs: hop.P, names of axes of the mesh along which each axis of an array
    is cut, for all arguments, one for each, or trees of them; placements will do as well. Plain arrays are
    cut; distributed ones must lie as in_specs say, or are moved with redistribute_inputs. In f the axes of
    the mesh have names: hop.psum(x, "data"), hop.axis_index("data"), …; sizes are those of parts. A result
    of which out_specs name no axis must be the same on all ranks along it, which is checked. Of a distributed
    array that f uses from around it has the part, too; captures says by names of f's variables how what they
    hold is to lie, {"w": hop.P("i")}, else a plain array is there as a whole. As a decorator without f.

    >>> mesh = hop.mesh(4, "i")
    >>> mean = hop.shard_map(lambda x: hop.psum(hop.sum(x), "i") / 8, mesh, hop.P("i"), hop.P())
    >>> mean(hop.arange(8.0))
    Array(3.5, dtype=float32)
    >>> hop.grad(mean)(hop.ones(8))[:2]
    Array([0.125, 0.125], dtype=float32)
    """
    if f is None:
        return functools.partial(
            shard_map, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=check_vma,
            redistribute_inputs=redistribute_inputs, captures=captures,
        )  # fmt: skip
    check_pure(_callable(f, "shard_map"))
    _mesh.checked_mesh("shard_map: mesh", mesh)
    if not _arguments.flag("shard_map: check_vma", check_vma):
        raise InvalidError(
            f"{place()}shard_map: check_vma=False: what varies is part of every type, and is always checked"
        )
    if out_specs is None:
        raise _arguments.wrong("shard_map: out_specs", "hop.P, or a tree of them", None)
    move = _arguments.flag("shard_map: redistribute_inputs", redistribute_inputs)
    check_captures("shard_map: captures", captures)
    in_specs = tuple(in_specs) if isinstance(in_specs, list) and not _mesh.is_list(in_specs) else in_specs

    def record(*args):
        leaves, weak, treedef = raw_leaves(args, "argument", constants=True)
        given = _prefix(in_specs, treedef, f"{place()}shard_map: in_specs")
        lists, paths = [], tree.leaf_paths(treedef)
        for i, (x, p) in enumerate(zip(leaves, given)):
            what = f"shard_map: {tree.path_text(paths[i][1:], f'argument {paths[i][0]}')}"
            layout = layout_of(x)
            if layout is not None and layout.mesh != mesh:
                raise InvalidError(
                    f"{place()}{what}: lies on the mesh ({layout.mesh._text()}), not on ({mesh._text()})"
                )
            p = _mesh.P() if p is None else p
            lists.append(placements_of(what, p, mesh, x.ndim))
            leaves[i] = matching(what, x, layout, lists[i], mesh, move)

        def out_lists(out_tree, found):
            given = _prefix(out_specs, out_tree, f"{place()}shard_map: out_specs")
            return [
                placements_of(f"shard_map: result {k}", _mesh.P() if p is None else p, mesh, ndim_of(x))
                for k, (p, x) in enumerate(zip(given, found))
            ]

        around = Around("shard_map", mesh, f, captures, move)
        return record_parts(around, f, leaves, weak, treedef, lists, out_lists)

    key = ("shard_map", mesh, key_of(in_specs), key_of(out_specs), move, key_of(captures))

    @_wrapper(f, "shard_map")
    def mapped(*args):
        return _calls.loop(key, f, args, record)

    return mapped


def check_captures(what, x):
    if x is not None and not (isinstance(x, dict) and all(isinstance(name, str) for name in x)):
        raise _arguments.wrong(what, "placements by names of variables, a dict", x)


def key_of(specs):
    found, treedef = tree.flatten(specs, lambda x: x is None or _mesh.is_list(x))
    return treedef, tuple([tuple(x) if isinstance(x, list) else (type(x).__name__, x) for x in found])


def ndim_of(x):
    return x.ndim if isinstance(x, _core.ArrayBase) else 0
