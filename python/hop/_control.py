"""Branches and loops on trees of arrays. Inside of a captured program they are recorded; outside, branches run at once and loops are captured, compiled and run."""

__all__ = ["cond", "switch", "while_loop", "fori_loop", "scan", "associative_scan", "map"]

import builtins
import functools

from . import _core, _dtypes, tree
from ._errors import InvalidError
from ._ops import asarray, astype
from ._trace import arrays_of, arrays_of_results, check_same_structure, place, run_or_record, type_text

_NUMBERS = (bool, int, float)


def _flat_body(fun, treedef, seen):
    """fun on trees as a function of leaves; the structure of what it gives goes to seen."""

    def flat(*values):
        found, out_tree = arrays_of_results(fun(*tree.unflatten(treedef, values)))
        seen.append((out_tree, found))
        return found

    return flat


# ---- branches ----


def _branches(what, names, index, funs, operands):
    leaves, treedef = arrays_of(operands, "operand")
    seen = []

    def body(k):
        inner = []
        run = _flat_body(funs[k], treedef, inner)

        def flat(*values):
            found = run(*values)
            for other in seen:
                _same_branches(what, names, other, (k, *inner[-1]))
            seen.append((k, *inner[-1]))
            return found

        return flat

    out = _core.switch(index, tuple([body(k) for k in range(len(funs))]), leaves)
    return tree.unflatten(seen[0][1], out)


def _number_beside(x, y):
    """A Python number as an array of the dtype of y where that holds it."""
    return x if not isinstance(x, _NUMBERS) else asarray(x, dtype=y.dtype) if _dtypes.result_type(y.dtype, x) is y.dtype else asarray(x)


def _same_branches(what, names, a, b):
    check_same_structure(what, a[1], b[1], f"{names(b[0])}", "result")
    paths = tree.leaves_with_path(tree.unflatten(a[1], list(range(a[1].num_leaves))))
    for (path, _), x, y in zip(paths, a[2], b[2]):
        if isinstance(x, _NUMBERS) and isinstance(y, _NUMBERS):
            continue
        x, y = _number_beside(x, y), _number_beside(y, x)
        if x.dtype is not y.dtype or x.ndim != y.ndim:
            raise InvalidError(f"{place()}{what}: {tree.path_text(path, 'result')}: {names(a[0])} gives {x._type}, {names(b[0])} gives {y._type}")
        for m, n in zip(x.shape, y.shape):
            if m != n:
                raise InvalidError(f"{place()}{what}: {tree.path_text(path, 'result')}: {names(a[0])} gives {x._type}, {names(b[0])} gives {y._type}")


def cond(pred, true_fun, false_fun, *operands):
    """true_fun(*operands) if pred holds, else false_fun(*operands). Both give trees of one structure and type."""
    if not callable(true_fun) or not callable(false_fun):
        raise TypeError("cond takes (pred, true_fun, false_fun, *operands)")
    if isinstance(pred, _NUMBERS) or not isinstance(pred, _core.ArrayBase):
        return (true_fun if pred else false_fun)(*operands)
    if pred.ndim:
        raise InvalidError(f"{place()}cond: the predicate must be a scalar, found {pred._type}: reduce it with hop.any or hop.all, or use hop.where")
    if not _core.tracing():
        return (true_fun if pred.item() else false_fun)(*operands)
    pred = pred if pred.dtype is _dtypes.bool else pred != 0
    return _branches("cond", lambda k: ("false_fun", "true_fun")[k], pred, (false_fun, true_fun), operands)


def switch(index, branches, *operands):
    """branches[index](*operands), the index brought into range."""
    branches = tuple(branches)
    if not branches:
        raise ValueError("switch needs a branch at least")
    concrete = not isinstance(index, _core.ArrayBase) or not _core.tracing()
    if isinstance(index, _core.ArrayBase) and (index.ndim or index.dtype.kind not in "iu"):
        raise InvalidError(f"{place()}switch: the index must be an integer scalar, found {index._type}")
    if concrete:
        k = int(index)
        return branches[builtins.max(0, builtins.min(k, len(branches) - 1))](*operands)
    return _branches("switch", lambda k: f"branch {k}", index, branches, operands)


# ---- loops ----


class _Widen(Exception):
    """A carry that began as a Python number meets another dtype: the loop begins again with it."""

    def __init__(self, dtypes):
        super().__init__()
        self.dtypes = dtypes


def _why(x, y):
    """How a wider dtype may have come in."""
    if x.dtype.kind != "f" or y.dtype is not _dtypes.float64 or x.shape != y.shape:
        return ""
    return f"; integers with floats give float64, as in NumPy: convert the integers first (i.astype(hop.{x.dtype.name})), or the result"


def _check_carry(what, treedef, before, out_tree, after, numbers, body):
    check_same_structure(what, treedef, out_tree, body, "carry")
    wider = {}
    for i, (x, y) in enumerate(zip(before, after)):
        if isinstance(y, _NUMBERS):
            y = _number_beside(y, x)
            if x.ndim == 0 and x.dtype is y.dtype:
                continue
        if x.dtype is not y.dtype and x.shape == y.shape and i in numbers:
            wider[i] = y.dtype
        elif x.dtype is not y.dtype or x.shape != y.shape:
            path = tree.leaves_with_path(tree.unflatten(treedef, list(range(treedef.num_leaves))))[i][0]
            raise InvalidError(f"{place()}{what}: {tree.path_text(path, 'carry')}: {body} gives {type_text(y)}, the loop began with {x._type}{_why(x, y)}")
    if wider:
        raise _Widen(wider)


def _carry(init, others=()):
    """(arrays, structure, which of them were Python numbers). A real number begins with the dtype of the floats around it."""
    raw = tree.leaves(init)
    leaves, treedef = arrays_of(init, "carry")
    numbers = {i for i, x in enumerate(raw) if isinstance(x, _NUMBERS)}
    floats = [x.dtype for i, x in enumerate([*leaves, *others]) if i not in numbers and x.dtype.kind == "f"]
    if floats:
        dtype = functools.reduce(_dtypes.promote_types, floats)
        leaves = [asarray(raw[i], dtype=dtype) if i in numbers and isinstance(raw[i], float) else x for i, x in enumerate(leaves)]
    return leaves, treedef, numbers


def _widened(attempt, leaves):
    """attempt(leaves), again with other dtypes where carries that were Python numbers need them."""
    for _ in range(4):
        try:
            return attempt(leaves)
        except _Widen as w:
            leaves = [astype(x, w.dtypes[i]) if i in w.dtypes else x for i, x in enumerate(leaves)]
    return attempt(leaves)


def while_loop(cond_fun, body_fun, init_val, *, max_trips=None, schedule=None):
    """carry = init_val; while cond_fun(carry): carry = body_fun(carry). With max_trips more trips are an error. Can be differentiated in both modes;
    schedule says what a gradient keeps ("every 8")."""
    init, treedef, numbers = _carry(init_val)

    def attempt(leaves):
        def test(*values):
            held = arrays_of_results(cond_fun(tree.unflatten(treedef, values)))[0]
            if len(held) != 1:
                raise InvalidError(f"{place()}while_loop: the condition must give one bool, it gives {len(held)} values")
            p = held[0]
            if isinstance(p, _core.ArrayBase) and (p.ndim or p.dtype is not _dtypes.bool):
                raise InvalidError(f"{place()}while_loop: the condition must give bool[], it gives {p._type}")
            return held

        def step(*values):
            found, out_tree = arrays_of_results(body_fun(tree.unflatten(treedef, values)))
            _check_carry("while_loop", treedef, leaves, out_tree, found, numbers, "the body")
            return found

        return run_or_record(lambda *v: _core.while_loop(test, step, v, None if max_trips is None else str(max_trips), schedule), leaves, "while_loop")

    return tree.unflatten(treedef, _widened(attempt, init))


def fori_loop(lower, upper, body_fun, init_val, *, unroll=None, schedule=None):
    """carry = init_val; for i in range(lower, upper): carry = body_fun(i, carry). The bounds may be traced; unroll as in scan."""
    init, treedef, numbers = _carry(init_val)
    bounds = [b if isinstance(b, int) else asarray(b) for b in (lower, upper)]

    def attempt(leaves):
        def step(i, *values):
            found, out_tree = arrays_of_results(body_fun(i, tree.unflatten(treedef, values)))
            _check_carry("fori_loop", treedef, leaves, out_tree, found, numbers, "the body")
            return found

        arrays = [b for b in bounds if not isinstance(b, int)]

        def build(*v):
            given = list(v[: len(arrays)])
            ends = [b if isinstance(b, int) else given.pop(0) for b in bounds]
            return _core.fori(step, ends[0], ends[1], v[len(arrays) :], schedule)

        return run_or_record(build, [*arrays, *leaves], "fori_loop")

    return tree.unflatten(treedef, _widened(attempt, init))


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
    slices, xs_tree = arrays_of(xs, "xs")
    first, treedef, numbers = _carry(init, slices)
    n = _lengths("scan", xs, slices, length)
    if not slices and n is None:
        raise ValueError("scan: there are no xs: length must say how many steps there are")
    k = len(first)
    seen = []

    def attempt(leaves):
        seen.clear()

        def step(*values):
            out = f(tree.unflatten(treedef, values[:k]), tree.unflatten(xs_tree, values[k:]))
            if not isinstance(out, tuple) or len(out) != 2:
                raise InvalidError(f"{place()}scan: the function must give a pair (carry, y), it gives {type(out).__name__}")
            carry, carry_tree = arrays_of_results(out[0])
            _check_carry("scan", treedef, leaves, carry_tree, carry, numbers, "the function")
            ys, ys_tree = arrays_of_results(out[1])
            seen.append(ys_tree)
            return [*carry, *ys]

        return run_or_record(lambda *v: _core.scan(step, v[:k], v[k:], None if slices else str(n), builtins.bool(reverse), schedule), [*leaves, *slices], "scan")

    out = _widened(attempt, first)
    return tree.unflatten(treedef, out[:k]), tree.unflatten(seen[0], out[k:])


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
    leaves, treedef = arrays_of(xs, "xs")
    if _lengths("map", xs, leaves, None) is None:
        raise ValueError("map: there are no xs")
    seen = []

    def body(*values):
        found, out_tree = arrays_of_results(f(tree.unflatten(treedef, values)))
        seen.append(out_tree)
        return found

    out = run_or_record(lambda *v: _core.map(body, v, None, builtins.bool(sequential)), leaves, "map")
    return tree.unflatten(seen[0], out)
