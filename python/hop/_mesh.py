"""Meshes of ranks, and placements: how an array lies on a mesh. A placement per axis of the mesh, as PyTorch
writes it, or names of axes per axis of the array, as JAX does (hop.P); both mean the same."""

import math

from . import _arguments
from ._arguments import here, place
from ._errors import InvalidError

__all__ = ["mesh", "Mesh", "make_mesh", "Shard", "Replicate", "Partial", "P", "PartitionSpec"]

_MOST_AXES, _MOST_RANKS = 8, 1 << 20
_REDUCTIONS = ("sum", "max", "min", "prod", "mean")


# ---- meshes ----


class Mesh:
    """Ranks in a grid whose axes have names; hop.mesh makes one. Ranks are numbered row by row: the last axis
    runs fastest. Meshes with the same axes are equal.

    >>> m = hop.mesh((2, 3), ("data", "model"))
    >>> m.shape, m.axis_names, m.size, m["model"]
    ((2, 3), ('data', 'model'), 6, 3)
    >>> m.coordinates(4)
    (1, 1)
    """

    __slots__ = ("shape", "axis_names", "size")

    def __init__(self, shape, axis_names):
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "axis_names", axis_names)
        object.__setattr__(self, "size", math.prod(shape))

    def __setattr__(self, name, value):
        raise AttributeError("a mesh cannot be changed: hop.mesh makes another one")

    @property
    def ndim(self):
        """How many axes it has."""
        return len(self.shape)

    def __getitem__(self, name):
        """The size of the axis of this name."""
        return self.shape[self.axis(name)]

    def axis(self, name):
        """Which axis has this name, from 0 on."""
        if name not in self.axis_names:
            known = ", ".join(map(repr, self.axis_names))
            raise InvalidError(f"{place()}the mesh has no axis {name!r}: it has {known}")
        return self.axis_names.index(name)

    def coordinates(self, rank):
        """Where a rank stands along each axis."""
        rank, out = _arguments.integer("coordinates: rank", rank, 0, self.size - 1), []
        for n in reversed(self.shape):
            rank, k = divmod(rank, n)
            out.append(k)
        return tuple(reversed(out))

    def _text(self):
        """As the text form writes it."""
        return ", ".join(f"{name} = {n}" for name, n in zip(self.axis_names, self.shape))

    def __eq__(self, other):
        if not isinstance(other, Mesh):
            return NotImplemented
        return self.shape == other.shape and self.axis_names == other.axis_names

    def __hash__(self):
        return hash((self.shape, self.axis_names))

    def __reduce__(self):
        return Mesh, (self.shape, self.axis_names)

    def __repr__(self):
        return f"hop.mesh({self.shape}, {self.axis_names})"


def mesh(shape, axis_names):
    """A mesh of ranks: sizes of its axes, and their names. A number and a name make one of one axis.

    >>> hop.mesh((2, 4), ("data", "model"))
    hop.mesh((2, 4), ('data', 'model'))
    >>> hop.mesh(4, "i").size
    4
    """
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    names = tuple(axis_names) if isinstance(axis_names, (tuple, list)) else (axis_names,)
    sizes = tuple([_arguments.integer(here("shape"), n, 1, _MOST_RANKS) for n in sizes])
    for name in names:
        if not isinstance(name, str) or not name.isidentifier() or not name.isascii():
            raise _arguments.wrong(here("axis_names"), "names of axes, each a word of letters", name)
    if len(sizes) != len(names):
        raise InvalidError(
            f"{place()}{here('axis_names')}: found {len(names)} names for {len(sizes)} axes: "
            "each axis of a mesh has a name"
        )
    if not 1 <= len(sizes) <= _MOST_AXES:
        raise InvalidError(f"{place()}{here('shape')}: expected 1 to {_MOST_AXES} axes, found {len(sizes)}")
    if len(set(names)) != len(names):
        raise InvalidError(f"{place()}{here('axis_names')}: two axes have one name: {', '.join(names)}")
    if math.prod(sizes) > _MOST_RANKS:
        raise InvalidError(f"{place()}{here('shape')}: {math.prod(sizes)} ranks are too many")
    return Mesh(sizes, names)


def make_mesh(axis_shapes, axis_names):
    """hop.mesh under JAX's name.

    >>> hop.make_mesh((2,), ("i",))
    hop.mesh((2,), ('i',))
    """
    return mesh(axis_shapes, axis_names)


def checked_mesh(what, x):
    if not isinstance(x, Mesh):
        raise _arguments.wrong(what, "a mesh, hop.mesh(shape, axis_names)", x)
    return x


# ---- placements ----


class _Placement:
    """How an array lies along one axis of a mesh."""

    __slots__ = ()

    def __setattr__(self, name, value):
        raise AttributeError("a placement cannot be changed")

    def is_shard(self, dim=None):
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self):
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op=None):
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)

    def __eq__(self, other):
        return self._key() == other._key() if isinstance(other, _Placement) else NotImplemented

    def __hash__(self):
        return hash(self._key())

    def __reduce__(self):
        return type(self), self._key()[1:]


class Shard(_Placement):
    """The array is cut along its axis `dim`, and each rank has a part: the first ranks have ceil(N / n) of N
    elements, the last ones what is left.

    >>> hop.Shard(0)
    Shard(0)
    """

    __slots__ = ("dim",)

    def __init__(self, dim):
        object.__setattr__(self, "dim", _arguments.integer("Shard: dim", dim, -32, 31))

    def _key(self):
        return "shard", self.dim

    def _word(self):
        return str(self.dim)

    def __reduce__(self):
        return Shard, (self.dim,)

    def __repr__(self):
        return f"Shard({self.dim})"


class Replicate(_Placement):
    """Each rank has the whole array.

    >>> hop.Replicate() == hop.Replicate()
    True
    """

    __slots__ = ()

    def _key(self):
        return ("replicate",)

    def _word(self):
        return "_"

    def __repr__(self):
        return "Replicate()"


class Partial(_Placement):
    """Each rank has a contribution of the array's shape; the array is their reduction: "sum", "max", "min",
    "prod" or "mean" ("avg", as PyTorch calls it).

    >>> hop.Partial(), hop.Partial("max")
    (Partial('sum'), Partial('max'))
    """

    __slots__ = ("reduce_op",)

    def __init__(self, reduce_op="sum"):
        op = {"avg": "mean", "product": "prod"}.get(reduce_op, reduce_op)
        if op not in _REDUCTIONS:
            raise _arguments.wrong(
                "Partial: reduce_op", '"sum", "max", "min", "prod" or "mean"', reduce_op
            )
        object.__setattr__(self, "reduce_op", op)

    def _key(self):
        return "partial", self.reduce_op

    def _word(self):
        return self.reduce_op

    def __reduce__(self):
        return Partial, (self.reduce_op,)

    def __repr__(self):
        return f"Partial({self.reduce_op!r})"


class P(tuple):
    """How an array lies on a mesh, axis by axis of the array: the name of the axis of the mesh over which it
    is cut, several, or None; axes of the mesh that are not named have all of it. JAX's PartitionSpec.

    >>> hop.P("data", None), hop.P(None, ("data", "model")), hop.P()
    (P('data', None), P(None, ('data', 'model')), P())
    """

    __slots__ = ()

    def __new__(cls, *dims):
        for d in dims:
            for name in d if isinstance(d, (tuple, list)) else (d,):
                if not (isinstance(name, str) or name is None and not isinstance(d, (tuple, list))):
                    raise _arguments.wrong("P", "names of axes of the mesh, or None", name)
        return super().__new__(cls, [tuple(d) if isinstance(d, list) else d for d in dims])

    def __getnewargs__(self):
        return tuple(self)

    def __repr__(self):
        return "P" + (f"({self[0]!r})" if len(self) == 1 else tuple.__repr__(self))


PartitionSpec = P


# ---- from one spelling to the other ----


def is_list(x):
    """Whether it says how one array lies: a P, a placement, or a list of placements."""
    return (
        isinstance(x, (P, _Placement))
        or isinstance(x, (tuple, list))
        and bool(x)
        and all(isinstance(p, _Placement) for p in x)
    )


def placements_of(what, x, on, ndim=None):
    """A placement for each axis of the mesh `on`. ndim: how many axes the array has; None: not known."""
    if isinstance(x, P):
        return _of_names(what, x, on, ndim)
    if isinstance(x, _Placement):
        x = (x,)
    if not isinstance(x, (tuple, list)) or not all(isinstance(p, _Placement) for p in x):
        raise _arguments.wrong(
            what,
            "placements (hop.Shard(0), hop.Replicate(), hop.Partial()) for each axis of the mesh, or "
            "hop.P(…)",
            x,
        )
    if len(x) != on.ndim:
        raise InvalidError(
            f"{place()}{what}: found {listed(x)}, {counted(len(x), 'placement')}, for a mesh of "
            f"{counted(on.ndim, 'axis', 'axes')} ({on._text()}): one for each axis of the mesh is needed"
        )
    return tuple([_counted_from_front(what, p, ndim) for p in x])


def _counted_from_front(what, p, ndim):
    if not isinstance(p, Shard):
        return p
    if ndim is None:
        if p.dim < 0:
            raise InvalidError(f"{place()}{what}: {p} counts from the end: give the axis as it counts from 0")
        return p
    if not -ndim <= p.dim < ndim:
        axes = counted(ndim, "axis", "axes") if ndim else "no axes"
        raise InvalidError(f"{place()}{what}: {p} of an array that has {axes}")
    return Shard(p.dim % ndim)


def _of_names(what, spec, on, ndim):
    if ndim is not None and len(spec) > ndim:
        raise InvalidError(
            f"{place()}{what}: {spec!r} is about {counted(len(spec), 'axis', 'axes')}, the array has {ndim}"
        )
    out = [Replicate()] * on.ndim
    for dim, names in enumerate(spec):
        names = names if isinstance(names, tuple) else () if names is None else (names,)
        axes = []
        for name in names:
            if name not in on.axis_names:
                known = ", ".join(map(repr, on.axis_names))
                raise InvalidError(
                    f"{place()}{what}: {spec!r}: the mesh has no axis {name!r}: it has {known}"
                )
            axes.append(on.axis_names.index(name))
            if isinstance(out[axes[-1]], Shard):
                raise InvalidError(f"{place()}{what}: {spec!r} names the axis {name!r} twice")
            out[axes[-1]] = Shard(dim)
        if axes != sorted(axes):
            order = ", ".join(on.axis_names[a] for a in sorted(axes))
            raise InvalidError(
                f"{place()}{what}: {spec!r}: several axes of the mesh cut an axis in the order of the mesh: "
                f"{order}"
            )
    return tuple(out)


def spec_of(placements, on):
    """The same as names, where there is no Partial."""
    dims = max([p.dim + 1 for p in placements if isinstance(p, Shard)], default=0)
    out = []
    for d in range(dims):
        names = tuple([n for n, p in zip(on.axis_names, placements) if p.is_shard(d)])
        out.append(None if not names else names[0] if len(names) == 1 else names)
    return P(*out)


def words(placements):
    """As the text form writes them in attributes: "0 _"."""
    return " ".join([p._word() for p in placements])


def listed(placements):
    return f"({', '.join(map(repr, placements))}{',' if len(placements) == 1 else ''})"


def counted(n, one, many=None):
    return f"{n} {one if n == 1 else many or one + 's'}"


def of_words(text):
    """Placements as types and attributes write them: ["0", "_", "sum"]."""
    return tuple(
        [
            Shard(int(w)) if w.isdigit() else Replicate() if w == "_" else Partial(w)
            for w in text.replace(",", " ").split()
        ]
    )


def part_sizes(n, parts):
    """How many of n elements each of so many ranks has."""
    most = -(-n // parts)
    return [max(0, min(most, n - r * most)) for r in range(parts)]


def part_box(shape, placements, on, rank):
    """(begins, sizes) of the part of a rank, per axis of the array."""
    begins, sizes = [0] * len(shape), list(shape)
    for p, n, k in zip(placements, on.shape, on.coordinates(rank)):
        if isinstance(p, Shard):
            parts = part_sizes(sizes[p.dim], n)
            begins[p.dim] += sum(parts[:k])
            sizes[p.dim] = parts[k]
    return tuple(begins), tuple(sizes)
