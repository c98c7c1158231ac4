"""Which sizes a program of jit is for. The first call of a function compiles for its sizes; a dim that comes
with a second size becomes a symbol, and one program serves all further ones. A program says what it needs to
be true of its sizes: calls that do not satisfy it get a program in which the sizes concerned are numbers."""

import re

from . import tree
from ._arguments import argument_names as _argument_names, found, place
from ._errors import InvalidError

_MOST_SEEN = 64
_SIZES_OF_OUTER, _SIZES_OF_INNER = 2, 3  # after how many a dim is a symbol; inner: the last one of several
_MOST_PINNED = 2  # after so many programs that needed a dim as a number it stays one
_LARGEST = (1 << 31) - 1  # of a symbol, so that indices are narrow; larger sizes get programs of their own


class Check:
    """What must hold of sizes: "T == 2*N"."""

    __slots__ = ("text", "names", "_code")

    def __init__(self, text):
        self.text, self._code = text, compile(text, "<sizes>", "eval")
        self.names = [n for n in self._code.co_names if n not in ("min", "max")]

    def holds(self, sizes):
        try:
            return eval(self._code, {"min": min, "max": max, "__builtins__": {}}, sizes)
        except ZeroDivisionError:
            return False

    def pins(self):
        """The symbol that it makes a number, or None."""
        single = re.fullmatch(r"(\w+) == (\w+)", self.text)
        return self.names[0] if single and len(self.names) == 1 else None

    def range(self):
        """(symbol, smallest, largest) where it is about a symbol's range, or None."""
        bound = re.fullmatch(r"([^\W\d]\w*) (<|<=|>|>=) (\d+)", self.text)
        if not bound:
            return None
        name, sign, n = bound[1], bound[2], int(bound[3])
        if sign in (">", ">="):
            return name, n + (sign == ">"), _LARGEST
        return name, 0, n - (sign == "<")


class Fit:
    """The sizes that a program takes: per argument and axis a number or an expression over symbols; ranges of
    symbols; what else must hold of them."""

    __slots__ = ("dims", "symbols", "ranges", "checks", "_expressions")

    def __init__(self, dims, ranges=None, checks=()):
        self.dims, self.ranges, self.checks = dims, ranges or {}, list(checks)
        texts = dict.fromkeys(d for leaf in dims for d in leaf if isinstance(d, str))
        self.symbols = [d for d in texts if d.isidentifier()]
        self._expressions = {d: Check(d) for d in texts if not d.isidentifier()}

    def bind(self, shapes):
        """(sizes of the symbols, None), or (None, (argument, axis)) where they cannot be these."""
        sizes, later = {}, []
        for i, (leaf, shape) in enumerate(zip(self.dims, shapes)):
            for axis, (d, n) in enumerate(zip(leaf, shape)):
                if isinstance(d, int):
                    if d != n:
                        return None, (i, axis)
                elif d in self._expressions:
                    later.append((d, n, i, axis))
                elif sizes.setdefault(d, n) != n:
                    return None, (i, axis)
        for d, n, i, axis in later:
            if self._expressions[d].holds(sizes) != n:
                return None, (i, axis)
        return sizes, None

    def broken(self, sizes):
        """The checks that do not hold."""
        return [c for c in self.checks if not c.holds(sizes)]

    def takes(self, shapes):
        """Whether the program is one for these sizes."""
        if len(self.dims) == len(shapes) and all(map(tuple.__eq__, self.dims, shapes)):
            return True
        return bool(self.symbols) and self.refuses(shapes, None) is None

    def refuses(self, shapes, names):
        """None, or a text that says why a program for these sizes does not take the shapes."""
        sizes, where = self.bind(shapes)
        if sizes is None:
            leaf, axis = where
            n, d = shapes[leaf][axis], self.dims[leaf][axis]
            return f"{names[leaf] if names else leaf} has size {n} along axis {axis}, not {d}"
        for name, (lo, hi) in self.ranges.items():
            if name in sizes and not (lo <= sizes[name] and (hi is None or sizes[name] <= hi)):
                return f"size {name} is {sizes[name]}, not in {lo}..{'' if hi is None else hi}"
        for check in self.broken(sizes):
            given = ", ".join(f"{n} = {sizes[n]}" for n in check.names)
            return f"{check.text} does not hold for {given}"
        return None

    def declarations(self):
        """Ranges for the header of the program."""
        ranges = {n: r for n, r in self.ranges.items() if n in self.symbols}
        parts = [f"{n} in {lo}..{'' if hi is None else hi}" for n, (lo, hi) in ranges.items()]
        return f"[{', '.join(parts)}]" if parts else ""


# ---- sizes that the user declares ----


def _type_with(text, dims):
    """The type of an array with other sizes; a distributed one lies as it does."""
    dtype, _, rest = text.partition("[")
    return f"{dtype}[{', '.join(map(str, dims))}]{rest[rest.rindex(']') + 1 :]}"


def parts_of_text(text):
    """What stands between commas that are not in parentheses."""
    out, depth = [""], 0
    for c in text:
        depth += (c == "(") - (c == ")")
        if c == "," and not depth:
            out.append("")
        else:
            out[-1] += c
    return [p.strip() for p in out] if text.strip() else []


def read_dims(text, what, ranges):
    """The dims of an array as jit's dims= has them, "T in 1..4096, 2*N, 64, _": numbers, names and
    expressions, None for _, which says nothing. Ranges are added to those given."""
    if not isinstance(text, str):
        raise TypeError(f'{place()}jit: {what}: expected a text like "T, 64", found {found(text)}')
    out = []
    for part in parts_of_text(text):
        ranged = re.fullmatch(r"([^\W\d]\w*)\s+in\s+(\d+)\s*\.\.\s*(\d*)", part)
        if part == "_":
            out.append(None)
        elif part.isdigit():
            out.append(int(part))
        elif ranged:
            name, lo, hi = ranged[1], int(ranged[2]), int(ranged[3]) if ranged[3] else None
            if ranges.setdefault(name, (lo, hi)) != (lo, hi) or (hi is not None and hi < lo):
                raise InvalidError(f"{place()}jit: {what}: the range of {name} is empty, or said twice")
            out.append(name)
        elif part.isidentifier():
            out.append(part)
        else:
            try:
                Check(part)
            except SyntaxError:
                part = None
            if part is None or re.search(r"[^\w\s*/%+\-(),]", part):
                raise InvalidError(
                    f'{place()}jit: {what}: "{text}" is no list of sizes: '
                    'numbers, names ("T", "T in 1..4096"), expressions of them ("2*T"), or _ for any'
                )
            out.append(part)
    return tuple(out)


class Declared:
    """What dims= of jit says: argument name -> a text, or a tree (or prefix of one) of texts and None."""

    def __init__(self, dims, fun):
        if not isinstance(dims, dict) or not all(isinstance(name, str) for name in dims):
            raise TypeError(
                f'{place()}jit: dims: expected a dict of argument names and texts like {{"x": "T, 64"}}, '
                f"found {found(dims)}"
            )
        self._dims, self.ranges = dims, {}
        for name, given in dims.items():
            for path, text in tree.leaves_with_path(given):
                read_dims(text, f"dims of {tree.path_text(path, name)}", self.ranges)
        self.key = repr(sorted(dims.items()))
        _argument_names("jit: dims", tuple(dims), fun)

    def leaves(self, arguments):
        """Per leaf of (name, argument) pairs its dims, or None where nothing is said."""
        out = []
        for name, x in arguments:
            treedef = tree.structure(x)
            given = tree.prefix_leaves(self._dims.get(name), treedef, f"{place()}jit: dims of {name}")
            out += [None if text is None else read_dims(text, f"dims of {name}", {}) for text in given]
        return out


# ---- what calls teach ----


class Sizes:
    """Of the calls with one structure, one set of dtypes and ranks: the sizes that made programs so far.
    arguments: (name, tree) pairs; declared: what dims= says, or None."""

    __slots__ = ("names", "_dynamic", "_declared", "_ranges", "_seen", "_pinned", "_refused")

    def __init__(self, arguments, dynamic=True, declared=None):
        paths = [(path, name) for name, x in arguments for path, _ in tree.leaves_with_path(x)]
        self.names = [tree.path_text(path, name) for path, name in paths]
        self._dynamic, self._ranges = dynamic, declared.ranges if declared else {}
        self._declared = declared.leaves(arguments) if declared else None
        self._seen, self._pinned, self._refused = [], {}, set()

    def check(self, shapes):
        """An error where an argument is not what dims= declares."""
        if self._declared is None:
            return
        for leaf, shape, name in zip(self._declared, shapes, self.names):
            if leaf is not None and len(leaf) != len(shape):
                raise InvalidError(
                    f"{place()}jit: argument {name} has {len(shape)} axes, dims= declares {len(leaf)}: "
                    + ", ".join("_" if d is None else str(d) for d in leaf)
                )
        dims = [
            tuple(n if leaf is None or leaf[a] is None else leaf[a] for a, n in enumerate(shape))
            for leaf, shape in zip(self._declared, shapes)
        ]
        said = Fit(dims, self._ranges).refuses(shapes, [f"argument {n}" for n in self.names])
        if said:
            raise InvalidError(f"{place()}jit: {said}, as dims= declares")

    def _plan(self, shapes, fixed, ranges):
        """The sizes of a program for these shapes, in which positions that are fixed are numbers, and symbols
        have these ranges."""
        flat = tuple(n for shape in shapes for n in shape)
        vectors = [*self._seen, flat]
        free, inner, at = {}, {}, 0  # histories: of symbols, of what becomes one if another position does
        taken = {d for leaf in self._declared or () for d in leaf or () if isinstance(d, str)}
        dims = []
        for i, shape in enumerate(shapes):
            declared = self._declared[i] if self._declared else None
            leaf = []
            for axis, n in enumerate(shape):
                d, history = n, tuple(v[at] for v in vectors)
                if declared is not None and declared[axis] is not None:
                    d = declared[axis]
                elif self._may_vary(at, n, fixed):
                    last = axis == len(shape) - 1 and len(shape) > 1
                    kinds = len(set(history))
                    if kinds >= (_SIZES_OF_INNER if last else _SIZES_OF_OUTER):
                        free.setdefault(history, [])
                    elif kinds > 1:
                        inner[i, axis] = history
                    d = history if history in free else d
                leaf.append(d)
                at += 1
            dims.append(leaf)
        # one that is equal to another, which is a symbol, in all calls is that symbol, too
        for (i, axis), history in inner.items():
            if history in free:
                dims[i][axis] = history
        names = _names(taken)
        symbols = {history: next(names) for history in free}
        dims = [tuple(symbols[d] if isinstance(d, tuple) else d for d in leaf) for leaf in dims]
        of_symbols = {name: ranges.get(name, (0, _LARGEST)) for name in symbols.values()}
        return Fit(dims, {**self._ranges, **of_symbols}), {symbols[h]: h[-1] for h in free}

    def _may_vary(self, at, n, fixed):
        """Whether a position, of size n, may be a symbol."""
        return self._dynamic and at not in fixed and n <= _LARGEST and self._pinned.get(at, 0) < _MOST_PINNED

    def capture(self, leaves, make, log=None):
        """(what make(types, declarations, hints) gives for these arguments, the sizes that it is for). log:
        told why a capture with symbols was given up."""
        shapes = [x.shape for x in leaves]
        fixed, ranges = set(), {}
        made = fit = None
        while made is None:
            fit, hints = self._plan(shapes, fixed, ranges)
            signature = tuple(fit.dims)
            if hints and signature in self._refused:
                fixed = self._all(shapes)
                continue
            try:
                made = self._captured(leaves, fit, hints, make)
            except Exception as error:
                if not hints:
                    raise
                self._refused.add(signature)
                fixed = self._all(shapes)
                if log is not None:
                    log(f"its sizes are numbers, since a capture without them failed: {_first_line(error)}")
                continue
            unfit = self._unfit(shapes, fit, hints)
            tighter = _tighter(fit, hints)
            if unfit:
                fixed, ranges, made = fixed | unfit, {}, None
            elif tighter != ranges:  # what the compiler knows of a size, it need not provide for
                ranges, made = tighter, None
        flat = tuple(n for shape in shapes for n in shape)
        if flat not in self._seen:
            self._seen = [*self._seen[-_MOST_SEEN:], flat]
        return made, fit

    def _captured(self, leaves, fit, hints, make):
        symbolic = hints or fit.symbols
        types = [
            x._type if x.dtype.kind == "o" else _type_with(x._type, dims)
            for x, dims in zip(leaves, fit.dims)
        ]
        made = make(types if symbolic else None, fit.declarations(), hints)
        fit.checks = [Check(text) for text in dict.fromkeys([*made.function.requires, *made.constraints])]
        return made

    def _all(self, shapes):
        return set(range(sum(map(len, shapes))))

    def _unfit(self, shapes, fit, hints):
        """The positions that must be numbers in a program for these shapes: the program would not take them
        (those of size 0 and 1 first: they are the ones that differ), or takes this size alone."""
        flat_dims = [d for leaf in fit.dims for d in leaf]
        names, pinned = set(), set()
        sizes, _ = fit.bind(shapes)
        for check in fit.broken(sizes):
            mentioned = [n for n in check.names if n in hints]
            names.update([n for n in mentioned if hints[n] < 2] or mentioned)
        if not names:
            pinned = {check.pins() for check in fit.checks} & set(hints)
        out = {p for p, d in enumerate(flat_dims) if isinstance(d, str) and d in names | pinned}
        for p in out:
            if flat_dims[p] in pinned:
                self._pinned[p] = self._pinned.get(p, 0) + 1
        return out


def _tighter(fit, hints):
    """The ranges of symbols with a hint that the checks leave."""
    out = {}
    for name, lo, hi in filter(None, (check.range() for check in fit.checks)):
        if name in hints:
            before = out.get(name) or fit.ranges[name]
            out[name] = max(before[0], lo), min(before[1], hi)
    return {name: fit.ranges[name] for name in hints if fit.ranges[name] != (0, _LARGEST)} | out


def _names(taken):
    """Names for symbols."""
    i = 0
    while True:
        name = "NMLKPQRSUV"[i % 10] + (str(i // 10) if i >= 10 else "")
        i += 1
        if name not in taken:
            yield name


def _first_line(error):
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
