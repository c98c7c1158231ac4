"""Branches and loops on trees of arrays. Inside of a captured program they are recorded; outside, branches run at once and loops are captured, compiled and run."""

__all__ = ["cond", "switch", "while_loop", "fori_loop", "scan", "associative_scan", "map"]

import builtins

from . import _core, _dtypes, tree
from ._errors import InvalidError, TracerError
from ._ops import asarray, astype
from ._trace import (
    arrays_of, arrays_of_results, body_leaves, check_same_structure, given_leaves, is_weak, marked, place, raw_leaves, raw_result, run_or_record, type_text,
)  # fmt: skip


# ---- dtypes of leaves that come from several places: branches, a loop's beginning and its body ----


def _kind(x):
    """(dtype inside, whether weak) of a leaf that a body gives or gets."""
    if isinstance(x, _core.ArrayBase):
        return (_dtypes.float64 if x._number and x.dtype is _dtypes.float32 else x.dtype), x._weak
    d = _dtypes.weak_dtype(x)
    return (_dtypes.float64 if d is _dtypes.float32 else d), d is not _dtypes.bool


def _sample(kind):
    """A number or a dtype that promotes as leaves of this kind do."""
    dtype, weak = kind
    return dtype if not weak else 0.0 if dtype.kind == "f" else 0


def _join(a, b):
    """The kind of a leaf that is sometimes of the one kind, sometimes of the other."""
    if a == b:
        return a
    if a[1] and b[1]:
        real = [d for d, _ in (a, b) if d.kind == "f"]
        return (_dtypes.float32 if _dtypes.float32 in real else real[0] if real else _dtypes.int64), True
    dtype = _dtypes.result_type(_sample(a), _sample(b))
    return dtype, dtype not in (a[0] if not a[1] else None, b[0] if not b[1] else None)


def _brought(x, kind):
    """A leaf as one of this kind, raw."""
    x = raw_result(x)
    return x if isinstance(x, _core.ArrayBase) and x.dtype is kind[0] else astype(x, kind[0])


class _Again(Exception):
    """Leaves that are weak meet other dtypes: the bodies are captured again with these kinds."""

    def __init__(self, kinds):
        super().__init__()
        self.kinds = kinds


def _until_settled(attempt, kinds):
    """attempt(kinds), again with wider kinds until nothing widens them. Each time one at least goes up, and there are few above each."""
    while True:
        try:
            return attempt(kinds)
        except _Again as again:
            kinds = again.kinds


# ---- branches ----


def _branches(what, names, index, funs, operands):
    leaves, weak, treedef = raw_leaves(operands, "operand")
    out_tree = None

    def attempt(kinds):
        seen = []

        def body(k):
            def flat(*values):
                nonlocal out_tree
                found, found_tree = arrays_of_results(funs[k](*tree.unflatten(treedef, marked(values, weak))))
                seen.append((k, found_tree, found))
                if len(seen) > 1:
                    check_same_structure(what, seen[0][1], found_tree, names(k), "result")
                out_tree = found_tree
                if kinds is not None:
                    return [_brought(x, kind) for x, kind in zip(found, kinds)]
                if len(seen) == len(funs):
                    joined = _joined_results(what, names, seen)
                    if builtins.any(_kind(x) != kind for _, _, results in seen for x, kind in zip(results, joined)):
                        raise _Again(joined)
                return body_leaves(found)[0]

            return flat

        out = _core.switch(index, tuple([body(k) for k in range(len(funs))]), leaves)
        return out, [is_weak(x) for x in seen[0][2]] if kinds is None else [w for _, w in kinds]

    out, weak_out = _until_settled(attempt, None)
    return tree.unflatten(out_tree, marked(out, weak_out))


def _joined_results(what, names, seen):
    """The kinds that the results of all branches have in common."""
    out_tree = seen[0][1]
    kinds = []
    for i in range(out_tree.num_leaves):
        (first, x), kind = (seen[0][0], seen[0][2][i]), _kind(seen[0][2][i])  # the branch that the kind comes from
        for k, _, found in seen[1:]:
            y = found[i]
            wrong = not kind[1] and not is_weak(y) and kind[0] is not _kind(y)[0] or _shape(x) != _shape(y)
            if not wrong:
                joined = _join(kind, _kind(y))
                wrong = not builtins.all(w or d is joined[0] for d, w in (kind, _kind(y)))
            if wrong:
                path = tree.leaves_with_path(tree.unflatten(out_tree, list(range(out_tree.num_leaves))))[i][0]
                raise InvalidError(f"{place()}{what}: {tree.path_text(path, 'result')}: {names(first)} gives {type_text(x)}, {names(k)} gives {type_text(y)}")
            first, x, kind = (first, x, kind) if joined == kind else (k, y, joined)
        kinds.append(kind)
    return kinds


def _shape(x):
    return x.shape if isinstance(x, _core.ArrayBase) else ()


def _chosen(what, names, k, funs, operands):
    """Branch k, at once. Where it gives weak leaves the others are captured for their types alone: what they give decides the dtype, as in a captured program."""
    given = funs[k](*operands)
    found, out_tree = arrays_of_results(given)
    if not builtins.any(is_weak(x) for x in found):
        return given
    leaves, weak, treedef = raw_leaves(operands, "operand")
    seen = [(k, out_tree, found)]

    def types(other):
        def flat(*values):
            results, other_tree = arrays_of_results(funs[other](*tree.unflatten(treedef, marked(values, weak))))
            check_same_structure(what, out_tree, other_tree, names(other), "result")
            seen.append((other, other_tree, results))
            return []

        return flat

    try:
        for other in builtins.range(len(funs)):
            if other != k:
                _core.capture(types(other), "branch(" + ", ".join(f"x{i}: {x._type}" for i, x in enumerate(leaves)) + ")", len(leaves))
    except TracerError:  # a branch that looks at numbers cannot be captured
        return given
    kinds = _joined_results(what, names, seen)
    return tree.unflatten(out_tree, [x if _kind(x) == kind else _settled(x, kind) for x, kind in zip(found, kinds)])


def _settled(x, kind):
    """A weak leaf outside of programs as one of this kind."""
    if kind[1] and not isinstance(x, _core.ArrayBase):
        return float(x) if kind[0] is _dtypes.float64 else asarray(x, dtype=kind[0])._marked(False)
    return astype(x, kind[0]) if not kind[1] else astype(x, _dtypes.float32 if kind[0].kind == "f" else kind[0])._marked(False)


def cond(pred, true_fun, false_fun, *operands):
    """true_fun(*operands) if pred holds, else false_fun(*operands). Both give trees of one structure and type."""
    if not callable(true_fun) or not callable(false_fun):
        raise TypeError("cond takes (pred, true_fun, false_fun, *operands)")
    if not isinstance(pred, _core.ArrayBase):
        return (true_fun if pred else false_fun)(*operands)
    if pred.ndim:
        raise InvalidError(f"{place()}cond: the predicate must be a scalar, found {pred._type}: reduce it with hop.any or hop.all, or use hop.where")
    names, funs = lambda k: ("false_fun", "true_fun")[k], (false_fun, true_fun)
    if not _core.tracing():
        return _chosen("cond", names, builtins.bool(pred.item()), funs, operands)
    pred = pred if pred.dtype is _dtypes.bool else pred != 0
    return _branches("cond", names, pred, funs, operands)


def switch(index, branches, *operands):
    """branches[index](*operands), the index brought into range."""
    branches = tuple(branches)
    if not branches:
        raise ValueError("switch needs a branch at least")
    if isinstance(index, _core.ArrayBase) and (index.ndim or index.dtype.kind not in "iu"):
        raise InvalidError(f"{place()}switch: the index must be an integer scalar, found {index._type}")
    if not isinstance(index, _core.ArrayBase) or not _core.tracing():
        k = builtins.max(0, builtins.min(int(index), len(branches) - 1))
        chosen = isinstance(index, _core.ArrayBase)
        return _chosen("switch", lambda k: f"branch {k}", k, branches, operands) if chosen else branches[k](*operands)
    return _branches("switch", lambda k: f"branch {k}", index, branches, operands)


# ---- loops ----


def _why(x, y):
    """How a float may have come in where integers were."""
    if x.dtype.kind not in "iu" or not (isinstance(y, float) or isinstance(y, _core.ArrayBase) and y.dtype.kind == "f"):
        return ""
    return f"; integers divided by integers, or with real numbers, are floats: begin with a float, or convert the result (.astype(hop.{x.dtype.name}))"


class _Carry:
    """What a loop carries: raw arrays, their structure, and for each its kind, which goes up while it is weak."""

    def __init__(self, what, init, body):
        self.what, self.body = what, body
        self.first = tree.leaves(init)
        self.leaves, self.weak, self.treedef = raw_leaves(init, "carry")
        self.kinds = [(x.dtype, w) for x, w in zip(self.leaves, self.weak)]

    def begin(self, kinds):
        return [x if x.dtype is d else astype(x, d) for x, (d, _) in zip(self.leaves, kinds)]

    def tree(self, values, kinds):
        return tree.unflatten(self.treedef, marked(values, [w for _, w in kinds]))

    def next(self, given, kinds):
        """What the body gives, as the loop goes on with it."""
        after, out_tree = arrays_of_results(given)
        check_same_structure(self.what, self.treedef, out_tree, self.body, "carry")
        wider = []
        for i, (x, y, kind) in enumerate(zip(self.leaves, after, kinds)):
            found = _kind(y)
            fits = x.shape == _shape(y) and (kind[1] or found[0] is kind[0] or found[1] and _dtypes.result_type(kind[0], _sample(found)) is kind[0])
            if not fits:
                path = tree.leaves_with_path(tree.unflatten(self.treedef, list(range(len(self.leaves)))))[i][0]
                began = type_text(self.first[i]) if self.weak[i] else x._type
                raise InvalidError(f"{place()}{self.what}: {tree.path_text(path, 'carry')}: {self.body} gives {type_text(y)}, the loop began with {began}{_why(x, y)}")
            wider.append(_join(kind, found) if kind[1] else kind)
        if wider != kinds:
            raise _Again(wider)
        return [_brought(y, kind) for y, kind in zip(after, kinds)]

    def end(self, out, kinds):
        """The last carry as a tree. Outside of programs there are no values that stand for numbers."""
        out = out if _core.tracing() else [astype(x, _dtypes.float32) if w and x.dtype is _dtypes.float64 else x for x, (_, w) in zip(out, kinds)]
        return self.tree(out, kinds)


def while_loop(cond_fun, body_fun, init_val, *, max_trips=None, schedule=None):
    """carry = init_val; while cond_fun(carry): carry = body_fun(carry). With max_trips more trips are an error. Can be differentiated in both modes;
    schedule says what a gradient keeps ("every 8")."""
    carry = _Carry("while_loop", init_val, "the body")

    def attempt(kinds):
        def test(*values):
            held = arrays_of_results(cond_fun(carry.tree(values, kinds)))[0]
            if len(held) != 1:
                raise InvalidError(f"{place()}while_loop: the condition must give one bool, it gives {len(held)} values")
            p = held[0]
            if isinstance(p, _core.ArrayBase) and (p.ndim or p.dtype is not _dtypes.bool):
                raise InvalidError(f"{place()}while_loop: the condition must give bool[], it gives {p._type}")
            return held

        def step(*values):
            return carry.next(body_fun(carry.tree(values, kinds)), kinds)

        trips = None if max_trips is None else str(max_trips)
        return run_or_record(lambda *v: _core.while_loop(test, step, v, trips, schedule), carry.begin(kinds), "while_loop"), kinds

    return carry.end(*_until_settled(attempt, carry.kinds))


def fori_loop(lower, upper, body_fun, init_val, *, unroll=None, schedule=None):
    """carry = init_val; for i in range(lower, upper): carry = body_fun(i, carry). The bounds may be traced; unroll as in scan."""
    carry = _Carry("fori_loop", init_val, "the body")
    counts = is_weak(lower) and is_weak(upper)  # as range counts: in numbers that take the dtype of what they meet
    bounds = [b if isinstance(b, int) else asarray(b) for b in (lower, upper)]

    def attempt(kinds):
        def step(i, *values):
            return carry.next(body_fun(i._marked(True) if counts else i, carry.tree(values, kinds)), kinds)

        arrays = [b for b in bounds if not isinstance(b, int)]

        def build(*v):
            given = list(v[: len(arrays)])
            ends = [b if isinstance(b, int) else given.pop(0) for b in bounds]
            return _core.fori(step, ends[0], ends[1], v[len(arrays) :], schedule)

        return run_or_record(build, [*arrays, *carry.begin(kinds)], "fori_loop"), kinds

    return carry.end(*_until_settled(attempt, carry.kinds))


def _lengths(what, xs, leaves, length):
    """How many steps there are."""
    n, whose = length, "length"
    for (path, _), x in zip(tree.leaves_with_path(xs), leaves):
        text = tree.path_text(path, "xs")
        if not x.ndim:
            raise InvalidError(f"{place()}{what}: {text} is a scalar, there is nothing to go over")
        if n is not None and x.shape[0] is not None and x.shape[0] != n:
            raise InvalidError(f"{place()}{what}: {text} has length {x.shape[0]}, {whose} has {n}")
        n, whose = (x.shape[0], text) if n is None else (n, whose)
    return n


def scan(f, init, xs=None, length=None, reverse=False, unroll=1, *, schedule=None):
    """carry, y = f(carry, x) for each slice x of xs along its first axis: gives the last carry and the ys, stacked. Without xs there are `length` steps and x is
    None. schedule says what a gradient keeps: None everything it needs, "recompute", "sqrt", "every 8", …; unroll changes nothing, the compiler decides: it is taken
    because JAX's programs give it."""
    slices, weak, xs_tree = raw_leaves(xs, "xs")
    carry = _Carry("scan", init, "the function")
    n = _lengths("scan", xs, slices, length)
    if not slices and n is None:
        raise ValueError("scan: there are no xs: length must say how many steps there are")
    k = len(carry.leaves)
    seen = []

    def attempt(kinds):
        seen.clear()

        def step(*values):
            out = f(carry.tree(values[:k], kinds), tree.unflatten(xs_tree, marked(values[k:], weak, False)))
            if not isinstance(out, tuple) or len(out) != 2:
                raise InvalidError(f"{place()}scan: the function must give a pair (carry, y), it gives {type(out).__name__}")
            after = carry.next(out[0], kinds)
            ys, ys_tree = arrays_of_results(out[1])
            ys, weak_ys = given_leaves(ys)
            seen.append((ys_tree, weak_ys))
            return [*after, *ys]

        length = None if slices else str(n)
        return run_or_record(lambda *v: _core.scan(step, v[:k], v[k:], length, builtins.bool(reverse), schedule), [*carry.begin(kinds), *slices], "scan"), kinds

    out, kinds = _until_settled(attempt, carry.kinds)
    ys_tree, weak_ys = seen[0]
    return carry.end(out[:k], kinds), tree.unflatten(ys_tree, marked(out[k:], weak_ys, False))


def associative_scan(fn, elems, reverse=False, axis=0):
    """Running totals along an axis: fn(a, b) combines two slices (trees like elems, without the axis) and should be associative."""
    leaves, treedef = arrays_of(elems, "elems")
    if not leaves:
        raise ValueError("associative_scan: there are no arrays")
    axis = axis % leaves[0].ndim if leaves[0].ndim else 0
    n = len(leaves)

    def combine(*values):
        found, out_tree = arrays_of_results(fn(tree.unflatten(treedef, values[:n]), tree.unflatten(treedef, values[n:])))
        check_same_structure("associative_scan", treedef, out_tree, "what the function gives", "elems")
        return found

    out = run_or_record(lambda *v: _core.associative_scan(combine, v, axis, builtins.bool(reverse)), leaves, "associative_scan")
    return tree.unflatten(treedef, out)


def map(f, xs, *, sequential=False):
    """f on each slice of xs along its first axis, the results stacked. Slices may be done all at once; sequential=True asks for one after the other."""
    leaves, weak, treedef = raw_leaves(xs, "xs")
    if _lengths("map", xs, leaves, None) is None:
        raise ValueError("map: there are no xs")
    seen = []

    def body(*values):
        found, out_tree = arrays_of_results(f(tree.unflatten(treedef, marked(values, weak, False))))
        found, weak_out = given_leaves(found)
        seen.append((out_tree, weak_out))
        return found

    out = run_or_record(lambda *v: _core.map(body, v, None, builtins.bool(sequential)), leaves, "map")
    out_tree, weak_out = seen[0]
    return tree.unflatten(out_tree, marked(out, weak_out, False))
