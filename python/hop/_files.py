"""Files of arrays and of trees. A file holds arrays by name; the structure of a tree that is more than a
dict of arrays stands beside them, as JSON under the name __tree__."""

__all__ = ["save", "load"]

import json
import math

from . import _arguments, _core, _dtypes, dist, tree
from ._arguments import place
from ._errors import FileError, InvalidError
from ._ops.creation import _array, asarray

_STRUCTURE = "__tree__"
_HOLDS = "arrays, numbers, texts and None, in dicts, lists, tuples and registered classes"
_KEYS = (str, int, bool, type(None))


def _known_classes():
    """The classes that a file may name and load makes without being shown one."""
    from .optim import State

    return {"hop.optim.State": State}


def _is_array(x):
    return isinstance(x, _core.ArrayBase) or (hasattr(x, "dtype") and hasattr(x, "shape"))


# ---- writing ----


def save(path, arrays, /):
    """Writes an array (.npy), or a tree of arrays (.npz, .safetensors): dicts, lists, tuples, None,
    numbers and texts in any nesting, which load gives back as they were. Arrays stand in the file under
    their paths, such as `layers.0.w`.

    NumPy and PyTorch read the same files. Of a distributed array the whole is written, by rank 0 where
    ranks are processes, which all call save then.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     hop.save(os.path.join(folder, "w.npz"), {"w": hop.ones(2)})
    ...     hop.load(os.path.join(folder, "w.npz"))
    {'w': Array([1., 1.], dtype=float32)}
    """
    alone = str(path).endswith(".npy")
    if alone and isinstance(arrays, dict):
        raise InvalidError(f"{place()}save: a .npy file holds one array: a dict needs .npz or .safetensors")
    if alone or not _is_node(arrays):
        _write(path, {"": arrays})
    elif _is_plain(arrays):
        _write(path, arrays)
    else:
        found = _Writer()
        text = json.dumps({"hop": 1, "tree": found.described(arrays, ())}, allow_nan=False)
        structure = asarray(list(text.encode()), dtype=_dtypes.uint8)
        _write(path, {**found.arrays, _STRUCTURE: structure})


def _is_plain(x):
    """Whether it is a dict of arrays by name, which needs no description."""
    named = type(x) is dict and all(isinstance(name, str) and _is_array(a) for name, a in x.items())
    return named and _STRUCTURE not in x


def _write(path, arrays):
    found = [_array(a) for a in arrays.values()]
    if not any(_is_apart(a) for a in found):
        _core.save_file(str(path), tuple(arrays), tuple(found))
        return
    found = [_core.collect(a) if _is_apart(a) else a for a in found]
    problem = None
    if dist.rank() == 0:
        try:
            _core.save_file(str(path), tuple(arrays), tuple(found))
        except Exception as e:  # noqa: BLE001
            problem = e
    written = _meet(problem is None)
    if problem is not None:
        raise problem
    if not written:
        raise FileError(f"{place()}save: {path}: rank 0, which writes it, could not")


def _is_apart(a):
    """Whether parts of the array are in other processes."""
    return len(_core.parts(a)) == 1 and dist.size() > 1


def _meet(good):
    """Nobody goes on before the file is there; whether it is, as rank 0 says."""
    mesh = f"ranks = {dist.size()}"
    said = _core.collect(_core.distribute(asarray([int(good)] * dist.size()), mesh, "0"))
    return said.tolist()[0] == 1


def _is_node(x):
    return x is None or tree._apart(x) is not None


def _name(path):
    return ".".join(map(str, path))


class _Writer:
    """Collects the arrays of a tree by name while the tree is described."""

    def __init__(self):
        self.arrays = {}

    def described(self, x, path):
        if x is None or type(x) in (bool, int, str):
            return x
        if type(x) is float:
            return x if math.isfinite(x) else {"float": str(x)}
        if _is_array(x):
            return {"array": self.added(x, path)}
        if type(x) is dict:
            return {"dict": self.children(x.items(), path)}
        node = tree._apart(x)
        if node is None:
            where = tree.path_text(path) or "it"
            raise _arguments.wrong(f"save: {where}", f"something that a file holds ({_HOLDS})", x)
        if type(x) in (list, tuple):
            found = [self.described(child, (*path, i)) for i, child in enumerate(x)]
            return found if type(x) is list else {"tuple": found}
        kind = f"{type(x).__module__}.{type(x).__qualname__}"
        return {"node": kind, "children": self.children(zip(node[3], node[2]), path)}

    def added(self, x, path):
        """The name that an array gets."""
        name = _name(path) or "array"
        while name in self.arrays or name == _STRUCTURE:
            name += "_"
        self.arrays[name] = x
        return name

    def children(self, items, path):
        out = []
        for key, child in items:
            if not isinstance(key, _KEYS):
                where = tree.path_text(path) or "the dict"
                raise _arguments.wrong(f"save: a key of {where}", "a text or an integer", key)
            attribute = [True] if isinstance(key, tree._Attribute) else []
            plain = str(key) if isinstance(key, str) else key
            out.append([plain, self.described(child, (*path, key)), *attribute])
            if type(child) in (bool, float) or type(child) is int and abs(child) < 1 << 63:
                # for other programs; the number itself is in the description
                self.added(asarray(child), (*path, key))
        return out


# ---- reading ----


def load(path, /, *, like=None):
    """What a file holds: an array (.npy), a dict of arrays or the tree that was saved (.npz,
    .safetensors).

    like: a tree of the same structure, which the result has then; it is needed where the tree has nodes of
    the user's own classes. Of a file by another program the arrays are taken by their names, such as
    `layers.0.w`.

    Files that are damaged, or that would run code, are refused.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     hop.save(os.path.join(folder, "x.npy"), hop.arange(3))
    ...     hop.load(os.path.join(folder, "x.npy"))
    Array([0, 1, 2], dtype=int64)
    """
    found = _core.load_file(str(path))
    structure = found.pop(_STRUCTURE, None)
    reader = _Reader(str(path), found, like is not None)
    if structure is not None:
        made = reader.read(structure)
    else:
        made = found[""] if list(found) == [""] else found
    return made if like is None else reader.matched(made, structure is not None, like)


class _Reader:
    """Puts a tree together. shown: nodes of classes become dicts, because the structure is known."""

    def __init__(self, path, arrays, shown):
        self.path, self.arrays, self.shown, self.leaves = path, arrays, shown, []

    def wrong(self, what):
        return FileError(f"{place()}load: {self.path}: {what}")

    def read(self, structure):
        try:
            described = json.loads(bytes(structure))
            if not isinstance(described, dict) or described.get("hop") != 1:
                raise ValueError("version 1 was expected")
            return self.made(described["tree"], ())
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            if isinstance(error, InvalidError):
                raise
            raise self.wrong(f"{_STRUCTURE} does not describe a tree ({error})") from None

    def made(self, node, path):
        if node is None:
            return None
        if isinstance(node, list):
            return [self.made(child, (*path, i)) for i, child in enumerate(node)]
        if not isinstance(node, dict):
            return self.leaf(node, path)
        if "array" in node:
            return self.leaf(self.arrays[node["array"]], path)
        if "float" in node:
            return self.leaf(float(node["float"]), path)
        if "tuple" in node:
            return tuple([self.made(child, (*path, i)) for i, child in enumerate(node["tuple"])])
        if "dict" in node:
            return {self.key(row): self.made(row[1], (*path, self.key(row))) for row in node["dict"]}
        children = {self.key(row): self.made(row[1], (*path, self.key(row))) for row in node["children"]}
        known = _known_classes().get(node["node"])
        if known is not None and not self.shown:
            return known(**children)
        if not self.shown:
            raise InvalidError(
                f"{place()}load: {self.path} holds a {node['node']}: "
                "give a tree of the same structure, like=…"
            )
        return children

    def key(self, row):
        if not isinstance(row[0], _KEYS):
            raise ValueError(f"a key {row[0]!r}")
        return tree._Attribute(row[0]) if len(row) > 2 else row[0]

    def leaf(self, x, path):
        self.leaves.append((path, x))
        return x

    def matched(self, made, described, like):
        """The leaves in a structure that is known."""
        if not described:
            self.leaves = (
                [((name,), x) for name, x in made.items()] if isinstance(made, dict) else [((), made)]
            )
        text = tree.path_text if described else _name
        found = {text(path): x for path, x in self.leaves}
        wanted = [(path, text(path), leaf) for path, leaf in tree.leaves_with_path(like)]
        missing = [tree.path_text(path) or "it" for path, name, _ in wanted if name not in found]
        more = sorted(set(found) - {name for _, name, _ in wanted})
        if missing or more:
            parts = [
                f"{what} {', '.join(names[:5])}{', …' * (len(names) > 5)}"
                for what, names in (("lacks", missing), ("has besides", more))
                if names
            ]
            raise InvalidError(
                f"{place()}load: {self.path} is not like the tree that was given: it {' and '.join(parts)}"
            )
        for path, name, leaf in wanted:
            shape = getattr(leaf, "shape", None)
            if shape is not None and tuple(shape) != getattr(found[name], "shape", ()):
                where = tree.path_text(path) or "it"
                here = getattr(found[name], "shape", ())
                raise InvalidError(
                    f"{place()}load: {self.path}: {where} has the shape {here}, {tuple(shape)} was expected"
                )
        return tree.unflatten(tree.structure(like), [found[name] for _, name, _ in wanted])
