"""Branches and loops on trees of arrays. Inside of a captured program they are recorded; outside, branches
run at once and loops are captured, compiled and run."""

__all__ = ["cond", "switch", "while_loop", "fori_loop", "scan", "associative_scan", "map"]

import builtins
import functools

from . import _arguments, _calls, _core, _dtypes, _effects, _modes, _plain, _shapes, tree
from ._arguments import place, twins
from ._errors import InvalidError, TracerError
from ._ops import asarray, astype, ceil, concat, maximum, moveaxis
from ._ops.creation import _strong
from ._transforms import vmap
from ._trace import (
    arrays_of, arrays_of_results, body_leaves, body_of, check_same_tree, called, given_leaves, given_to,
    is_weak, marked, raise_differences, raw_leaves, raw_result, recorded, run_or_record, type_text,
)  # fmt: skip


def _scalar(what, expected, x):
    """A Python number as it is, anything else as an array without axes. Lists, texts, None, functions and
    the like are no numbers, whatever Python's truth of them is."""
    if _dtypes.is_number(x):
        return x
    if isinstance(x, _shapes.Size):
        return x._value
    if not isinstance(x, _core.ArrayBase):
        if x is None or callable(x) or isinstance(x, (list, tuple, dict, set, str, bytes)):
            raise _arguments.wrong(what, expected, x)
        try:
            x = asarray(x)
        except (TypeError, ValueError):
            raise _arguments.wrong(what, expected, x) from None
    if x.ndim:
        raise _arguments.wrong(what, expected, x)
    return x


def _predicate(what, expected, x):
    """The same of a truth, for which an array of one element will do, whatever its axes."""
    one = getattr(x, "ndim", 0) and builtins.all(_shapes.equal(n, 1) for n in x.shape)
    return _scalar(what, expected, asarray(x).reshape(()) if one else x)


_NOTHING = object()


def _operands(what, operands, operand):
    """The operands, or the single one that was given by its name."""
    if operand is _NOTHING:
        return operands
    if operands:
        raise InvalidError(f"{place()}{what}: there are operands, and one given as operand=: expected either")
    return (operand,)


def _own(operands):
    """Operands as a body gets them that runs at once: what it writes to them is its own, as in a program."""
    if not operands:
        return operands
    return tree.map(lambda x: x._alias() if isinstance(x, _core.ArrayBase) else x, operands)


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


class _Again(_effects.Retried):
    """Leaves that are weak meet other dtypes: the bodies are captured again with these kinds."""

    def __init__(self, kinds):
        super().__init__()
        self.kinds = kinds


def _until_settled(attempt, kinds):
    """attempt(kinds), again with wider kinds until nothing widens them. Each time one at least goes up,
    and there are few above each."""
    while True:
        again, mark = False, _core.watch_writes()
        try:
            return attempt(kinds)
        except _Again as widened:
            kinds, again = widened.kinds, True
        finally:
            _core.unwatch_writes(mark, again)


# ---- branches ----


def _branches(what, names, index, funs, operands):
    leaves, weak, treedef = raw_leaves(operands, "operand", constants=True)
    out_tree = None

    def attempt(kinds):
        seen = []

        def body(k):
            def flat(*values):
                nonlocal out_tree
                found, found_tree = arrays_of_results(
                    twins.of(funs[k])(*tree.unflatten(treedef, marked(values, weak)))
                )
                seen.append((k, found_tree, found))
                if len(seen) > 1:
                    _check_branches(what, names, seen[0], seen[-1])
                out_tree = found_tree
                if kinds is not None:
                    return [_brought(x, kind) for x, kind in zip(found, kinds)]
                if len(seen) == len(funs):
                    joined = _joined_results(what, names, seen)
                    if builtins.any(
                        _kind(x) != kind for _, _, results in seen for x, kind in zip(results, joined)
                    ):
                        raise _Again(joined)
                return body_leaves(found)[0]

            return body_of(flat, funs[k], given_to(funs[k], operands, treedef))

        bodies = tuple([body(k) for k in range(len(funs))])
        out = _core.switch(index, bodies, leaves)
        return out, [is_weak(x) for x in seen[0][2]] if kinds is None else [w for _, w in kinds]

    out, weak_out = _until_settled(lambda kinds: recorded(lambda: attempt(kinds)), None)
    return tree.unflatten(out_tree, marked(out, weak_out))


def _shape(x):
    return x.shape if isinstance(x, _core.ArrayBase) else ()


def _fits(kind, other):
    """Whether a leaf of the second kind can be one of the first, which stays as it is unless it is weak.
    Truth is no number."""
    if (kind[0] is _dtypes.bool) != (other[0] is _dtypes.bool):
        return False
    return (
        kind[1]
        or other[0] is kind[0]
        or (other[1] and _dtypes.result_type(kind[0], _sample(other)) is kind[0])
        or _modes.brings(kind[0], other[0])
    )


def _meet(x, kind, y):
    """Whether the leaf y can stand beside the leaf x of some kind, in another branch. Their sizes may differ:
    what they are is known when a branch has run."""
    same_rank = len(_shape(x)) == len(_shape(y))
    return same_rank and (_fits(kind, _kind(y)) if not kind[1] else _fits(_kind(y), kind))


def _check_branches(what, names, a, b):
    """Two branches (number, structure, leaves) must give the same."""

    def differ(i, j):
        x, y = a[2][i], b[2][j]
        shown = repr if _dtypes.is_number(x) and _dtypes.is_number(y) else type_text
        return not _meet(x, _kind(x), y) and f"{names(a[0])} gives {shown(x)}, {names(b[0])} gives {shown(y)}"

    check_same_tree(what, a[1], b[1], names(b[0]), "result", differ)


def _joined_results(what, names, seen):
    """The kinds that the results of all branches have in common. Each fits the first branch; of two others
    the one may not fit the other."""
    out_tree = seen[0][1]
    kinds, wrong = [], []
    for i in range(out_tree.num_leaves):
        first, x = seen[0][0], seen[0][2][i]  # the branch that the kind comes from
        kind = _kind(x)
        for k, _, found in seen[1:]:
            y = found[i]
            if not _meet(x, kind, y):
                path = tree.leaf_paths(out_tree)[i]
                wrong.append(
                    f"{tree.path_text(path, 'result')}: "
                    f"{names(first)} gives {type_text(x)}, {names(k)} gives {type_text(y)}"
                )
                break
            joined = _join(kind, _kind(y))
            first, x, kind = (first, x, kind) if joined == kind else (k, y, joined)
        kinds.append(kind)
    if wrong:
        raise_differences(what, wrong)
    return kinds


def _chosen(what, names, k, funs, operands):
    """Branch k, at once. Where it gives weak leaves, or floats under autocast, the others are captured for
    their types alone: what they give decides the dtype, as in a captured program."""
    given = funs[k](*_own(operands))
    found, out_tree = arrays_of_results(given)
    arrays = [x for x in found if isinstance(x, _core.ArrayBase)]
    cast = builtins.any(_modes.brings(x.dtype, x.dtype) for x in arrays)
    if not cast and not builtins.any(is_weak(x) for x in found):
        return given
    leaves, weak, treedef = raw_leaves(operands, "operand", constants=True)
    seen = [(k, out_tree, found)]

    def types(other):
        def flat(*values):
            results, other_tree = arrays_of_results(
                funs[other](*tree.unflatten(treedef, marked(values, weak)))
            )
            seen.append((other, other_tree, results))
            _check_branches(what, names, seen[0], seen[-1])
            return []

        return body_of(flat, funs[other], given_to(funs[other], operands, treedef))

    try:
        for other in builtins.range(len(funs)):
            if other != k:
                names_in = [f"x{i}" for i in builtins.range(len(leaves))]
                body = types(other)
                _effects.settled(lambda: _core.capture(body, "branch", names_in, leaves))  # noqa: B023
    except TracerError:  # a branch that looks at numbers cannot be captured
        return given
    kinds = _joined_results(what, names, seen)
    return tree.unflatten(
        out_tree, [x if _kind(x) == kind else _settled(x, kind) for x, kind in zip(found, kinds)]
    )


def _settled(x, kind):
    """A weak leaf outside of programs as one of this kind."""
    if kind[1] and not isinstance(x, _core.ArrayBase):
        return float(x) if kind[0] is _dtypes.float64 else asarray(x, dtype=kind[0])._marked(False)
    return (
        astype(x, kind[0])
        if not kind[1]
        else astype(x, _dtypes.float32 if kind[0].kind == "f" else kind[0])._marked(False)
    )


def cond(pred, true_fun, false_fun, *operands, operand=_NOTHING):
    """true_fun(*operands) if pred holds, else false_fun(*operands). Both give trees of one structure with
    arrays of the same dtypes and numbers of axes; sizes may differ. operand: the only one, by its name.

    pred is one bool, or one number, which holds unless it is 0.

    >>> f = hop.jit(lambda x: hop.cond(x > 0, hop.sqrt, lambda x: -x, x))
    >>> f(4.0), f(-3.0)
    (Array(2., dtype=float32), Array(3., dtype=float32))
    """
    true_fun = _arguments.function("cond: true_fun", true_fun)
    false_fun = _arguments.function("cond: false_fun", false_fun)
    operands = _operands("cond", operands, operand)
    pred = _predicate(
        "cond: the predicate",
        "a bool scalar"
        if getattr(pred, "ndim", 0) == 0
        else "a bool scalar (hop.any or hop.all makes one, hop.where chooses by element)",
        pred,
    )
    funs = false_fun, true_fun

    def names(k):
        return called(("false_fun", "true_fun")[k], funs[k])

    if not isinstance(pred, _core.ArrayBase):
        return (true_fun if pred else false_fun)(*_own(operands))
    if not _core.tracing():
        return _chosen("cond", names, builtins.bool(pred.item()), funs, operands)
    pred = pred if pred.dtype is _dtypes.bool else pred != 0
    return _branches("cond", names, pred, funs, operands)


def switch(index, branches, *operands, operand=_NOTHING):
    """branches[index](*operands), the index brought into range. operand: the only one, by its name.

    >>> hop.switch(2, [lambda x: x, lambda x: x * x, lambda x: -x], hop.asarray(3.0))
    Array(-3., dtype=float32)
    """
    operands = _operands("switch", operands, operand)
    if not isinstance(branches, (list, tuple)):
        raise _arguments.wrong("switch: branches", "a list of functions", branches)
    branches = tuple(branches)
    if not branches:
        raise ValueError("switch needs a branch at least")
    for k, branch in enumerate(branches):
        _arguments.function(f"switch: branches[{k}]", branch)
    index = _scalar("switch: the index", "an integer scalar", index)
    array = isinstance(index, _core.ArrayBase)

    def names(k):
        return called(f"branch {k}", branches[k])

    if index.dtype.kind not in "iu" if array else not isinstance(index, int) or isinstance(index, bool):
        raise _arguments.wrong("switch: the index", "an integer scalar", index)
    if not array or not _core.tracing():
        k = builtins.max(0, builtins.min(int(index), len(branches) - 1))
        return (
            _chosen("switch", names, k, branches, operands)
            if array
            else branches[k](*_own(operands))
        )
    return _branches("switch", names, index, branches, operands)


# ---- loops ----


def _why(x, y):
    """How a float may have come in where integers were."""
    if x.dtype.kind not in "iu" or not (
        isinstance(y, float) or isinstance(y, _core.ArrayBase) and y.dtype.kind == "f"
    ):
        return ""
    return (
        "; integers divided by integers, or with real numbers, are floats: "
        f"begin with a float, or convert the result (.astype(hop.{x.dtype.name}))"
    )


class _Carry:
    """What a loop carries: raw arrays, their structure, and for each its kind, which goes up while it is
    weak."""

    def __init__(self, what, init, body):
        self.what, self.init, self.whose = what, init, body
        self.first = arrays_of_results(init)[0]
        self.leaves, self.weak, self.treedef = raw_leaves(init, "carry", constants=True)
        self.kinds = [(x.dtype, w) for x, w in zip(self.leaves, self.weak)]
        if _plain.wanted():  # nothing stands for a number there, as outside of programs
            self.kinds = [
                (_dtypes.float32, w) if w and d is _dtypes.float64 else (d, w) for d, w in self.kinds
            ]

    def body(self, flat, fun, before=0):
        """A body that takes the carry behind so many other arguments."""
        operands = (*(None,) * before, self.init)
        return body_of(flat, fun, given_to(fun, operands, self.treedef))

    def begin(self, kinds):
        return [x if x.dtype is d else astype(x, d) for x, (d, _) in zip(self.leaves, kinds)]

    def tree(self, values, kinds):
        return tree.unflatten(self.treedef, marked(values, [w for _, w in kinds]))

    def next(self, given, kinds):
        """What the body gives, as the loop goes on with it."""
        after, out_tree = arrays_of_results(given)

        def differ(i, j):
            x, y = self.leaves[i], after[j]
            if not _shapes.shapes_differ(x.shape, _shape(y)) and _fits(kinds[i], _kind(y)):
                return None
            began = type_text(self.first[i]) if self.weak[i] else x._type
            return f"{self.whose} gives {type_text(y)}, the loop began with {began}{_why(x, y)}"

        check_same_tree(self.what, self.treedef, out_tree, self.whose, "carry", differ)
        wider = [_join(kind, _kind(y)) if kind[1] else kind for y, kind in zip(after, kinds)]
        if wider != kinds:
            raise _Again(wider)
        return [_brought(y, kind) for y, kind in zip(after, kinds)]

    def rows(self, after, kinds):
        """What the loop goes on with, as results of a program."""
        return [_strong(x) for x in marked(after, [w for _, w in kinds])]

    def end(self, out, kinds):
        """The last carry as a tree. Outside of programs there are no values that stand for numbers."""
        out = (
            out
            if _core.tracing()
            else [
                astype(x, _dtypes.float32) if w and x.dtype is _dtypes.float64 else x
                for x, (_, w) in zip(out, kinds)
            ]
        )
        return self.tree(out, kinds)


def while_loop(cond_fun, body_fun, init_val, *, max_trips=None, schedule=None, stack=False):
    """carry = init_val; while cond_fun(carry): carry = body_fun(carry). With max_trips more trips are an
    error. Can be differentiated in both modes; schedule says what a gradient keeps ("every 8"). A
    condition that is always true is an error unless max_trips, a hop.check, a print or a callback is
    there.

    With stack=True it gives (last carry, history, number of trips): the history has a row for each trip,
    what the body gave there. With max_trips it has that many rows, zeros behind the last trip.

    >>> hop.while_loop(lambda x: x < 100, lambda x: x * 2, 3)
    Array(192, dtype=int64)
    >>> hop.grad(lambda x: hop.while_loop(lambda c: c < 100.0, lambda c: c * x, x))(3.0)
    Array(405., dtype=float32)
    """
    cond_fun = _arguments.function("while_loop: cond_fun", cond_fun)
    body_fun = _arguments.function("while_loop: body_fun", body_fun)
    _arguments.text("while_loop: schedule", schedule)
    stack = _arguments.flag("while_loop: stack", stack)
    limit = None if max_trips is None else _arguments.extent("while_loop: max_trips", max_trips)
    what = ("while_loop", limit, schedule, stack)
    record = functools.partial(_while_loop, cond_fun, body_fun, limit, schedule, stack)
    return _calls.loop(what, (cond_fun, body_fun), (init_val,), record)


def _while_loop(cond_fun, body_fun, limit, schedule, stack, init_val):
    carry = _Carry("while_loop", init_val, called("the body", body_fun))
    k = len(carry.leaves)

    def attempt(kinds):
        def test(*values):
            given = twins.of(cond_fun)(carry.tree(values, kinds))
            p = _predicate("while_loop: what the condition gives", "bool[]", given)
            if p.dtype is not _dtypes.bool if isinstance(p, _core.ArrayBase) else not isinstance(p, bool):
                raise _arguments.wrong("while_loop: what the condition gives", "bool[]", p)
            # what is known now is part of the program
            return [p.item() if isinstance(p, _core.ArrayBase) and not p._traced else p]

        def step(*values):
            after = carry.next(twins.of(body_fun)(carry.tree(values, kinds)), kinds)
            return [*after, *carry.rows(after, kinds)] if stack else after

        if _plain.wanted():
            return _plain.while_loop(test, step, carry.begin(kinds), limit, stack), kinds
        steps = None if limit is None else _shapes.text(limit)
        return run_or_record(
            lambda *v: _core.while_loop(
                carry.body(test, cond_fun), carry.body(step, body_fun), v, steps, schedule, stack
            ),
            carry.begin(kinds),
            "while_loop",
        ), kinds

    out, kinds = _until_settled(attempt, carry.kinds)
    if not stack:
        return carry.end(out, kinds)
    history = tree.unflatten(carry.treedef, marked(out[k + 1 :], [w for _, w in kinds], False))
    return carry.end(out[:k], kinds), history, out[k]


def _bound(what, x):
    """A Python number, or an array that is one number; integers, or floats to count from or to."""
    x = _scalar(what, "an integer scalar", x)
    array = isinstance(x, _core.ArrayBase)
    if array and x.dtype.kind in "iuf":
        return x
    if not array and isinstance(x, float):
        if not builtins.abs(x) < 1 << 53:
            raise _arguments.wrong(what, "a number of steps that can be counted", x)
        return x
    return _arguments.integer(what, x, expected="an integer scalar")


def _is_real(x):
    return isinstance(x, float) or isinstance(x, _core.ArrayBase) and x.dtype.kind == "f"


def fori_loop(lower, upper, body_fun, init_val, *, unroll=None, schedule=None):
    """carry = init_val; for i in range(lower, upper): carry = body_fun(i, carry). The bounds may be
    traced; unroll as in scan. With bounds that are no integers i is lower, lower + 1, … as long as it is
    below upper.

    >>> hop.fori_loop(0, 5, lambda i, total: total + i, 0)
    Array(10, dtype=int64)
    """
    body_fun = _arguments.function("fori_loop: body_fun", body_fun)
    _arguments.text("fori_loop: schedule", schedule)
    for name, b in (("lower", lower), ("upper", upper)):
        if type(b) is not int:
            _bound(f"fori_loop: {name}", b)
    record = functools.partial(_fori_loop, body_fun, schedule)
    return _calls.loop(("fori_loop", schedule), body_fun, (lower, upper, init_val), record, fixed=2)


def _fori_loop(body_fun, schedule, lower, upper, init_val):
    bounds = [_bound(f"fori_loop: {name}", b) for name, b in (("lower", lower), ("upper", upper))]
    if _is_real(bounds[0]) or _is_real(bounds[1]):
        first, trips = bounds[0], maximum(ceil(bounds[1] - asarray(bounds[0])), 0)
        return fori_loop(
            0,
            astype(trips, _dtypes.int64),
            lambda i, c: twins.of(body_fun)(first + 1.0 * i, c),
            init_val,
            schedule=schedule,
        )
    carry = _Carry("fori_loop", init_val, called("the body", body_fun))
    # as range counts: in numbers that take the dtype of what they meet
    counts = is_weak(lower) and is_weak(upper)

    def attempt(kinds):
        def step(i, *values):
            at = i._marked(True) if counts else i
            return carry.next(twins.of(body_fun)(at, carry.tree(values, kinds)), kinds)

        arrays = [b for b in bounds if not isinstance(b, int)]
        if _plain.wanted():
            return _plain.fori_loop(step, *bounds, carry.begin(kinds)), kinds

        def build(*v):
            given = list(v[: len(arrays)])
            ends = [b if isinstance(b, int) else given.pop(0) for b in bounds]
            return _core.fori(carry.body(step, body_fun, 1), ends[0], ends[1], v[len(arrays) :], schedule)

        return run_or_record(build, [*arrays, *carry.begin(kinds)], "fori_loop"), kinds

    return carry.end(*_until_settled(attempt, carry.kinds))


def _lengths(what, xs, leaves, length, axis=0):
    """How many steps there are."""
    n, whose = length, "length"
    for (path, _), x in zip(tree.leaves_with_path(xs), leaves):
        text = tree.path_text(path, "xs")
        if not x.ndim:
            raise InvalidError(f"{place()}{what}: {text} is a scalar, there is nothing to go over")
        if not -x.ndim <= axis < x.ndim:
            raise InvalidError(f"{place()}{what}: {text} has type {x._type}, there is no axis {axis}")
        size = x.shape[axis]
        if n is not None and _shapes.differ(size, n):
            raise InvalidError(f"{place()}{what}: {text} has length {size}, {whose} has {n}")
        n, whose = (size, text) if n is None else (n, whose)
    return n


def scan(f, init, xs=None, length=None, reverse=False, unroll=1, *, dim=0, schedule=None):
    """carry, y = f(carry, x) for each slice x of xs along its first axis (or another one: dim): gives the
    last carry and the ys, stacked along the first axis. Without xs there are `length` steps and x is None.
    schedule says what a gradient keeps: None everything it needs, "recompute", "sqrt", "every 8", …;
    unroll changes nothing, the compiler decides: it is taken because JAX's programs give it.

    >>> hop.scan(lambda total, x: (total + x, total * 10), 0, hop.asarray([1, 2, 3]))
    (Array(6, dtype=int64), Array([ 0, 10, 30], dtype=int64))
    """
    f = _arguments.function("scan: f", f)
    _arguments.text("scan: schedule", schedule)
    reverse = _arguments.flag("scan: reverse", reverse)
    length = (
        None
        if length is None
        else _arguments.extent("scan: length", length, expected="a number of steps")
    )
    dim = _arguments.integer("scan: dim", dim, expected="the number of an axis")
    what = ("scan", length, reverse, dim, schedule)
    return _calls.loop(what, f, (init, xs), functools.partial(_scan, f, length, reverse, dim, schedule))


def _scan(f, length, reverse, dim, schedule, init, xs):
    slices, weak, xs_tree = raw_leaves(xs, "scan: xs")
    carry = _Carry("scan", init, called("the function", f))
    n = _lengths("scan", xs, slices, length, dim)
    if not slices and n is None:
        raise ValueError("scan: there are no xs: length must say how many steps there are")
    k = len(carry.leaves)
    seen = []

    def attempt(kinds):
        seen.clear()

        def step(*values):
            x = tree.unflatten(xs_tree, marked(values[k:], weak, False))
            out = twins.of(f)(carry.tree(values[:k], kinds), x)
            if not isinstance(out, tuple) or len(out) != 2:
                found = f"a tuple of {len(out)}" if isinstance(out, tuple) else _arguments.found(out)
                what = called("the function", f)
                raise InvalidError(f"{place()}scan: {what} must give a pair (carry, y), it gives {found}")
            after = carry.next(out[0], kinds)
            ys, ys_tree = arrays_of_results(out[1])
            ys, weak_ys = given_leaves(ys)
            seen.append((ys_tree, weak_ys))
            return [*after, *ys]

        steps, given = None if slices else _shapes.text(n), [*carry.begin(kinds), *slices]
        if _plain.wanted() and n:
            return _plain.scan(step, given[:k], [moveaxis(x, dim, 0) for x in slices], n, reverse), kinds

        def build(*v):
            rows = [moveaxis(x, dim, 0) if dim else x for x in v[k:]]
            return _core.scan(carry.body(step, f), v[:k], rows, steps, reverse, schedule)

        return run_or_record(build, given, "scan"), kinds

    out, kinds = _until_settled(attempt, carry.kinds)
    ys_tree, weak_ys = seen[-1]
    return carry.end(out[:k], kinds), tree.unflatten(ys_tree, marked(out[k:], weak_ys, False))


def associative_scan(fn, elems, reverse=False, axis=0):
    """Running totals along an axis: fn(a, b) combines two slices (trees like elems, without the axis) and
    should be associative.

    >>> hop.associative_scan(hop.add, hop.asarray([1, 2, 3, 4]))
    Array([ 1,  3,  6, 10], dtype=int64)
    >>> elems = hop.asarray([0.5, 0.5]), hop.ones(2)
    >>> hop.associative_scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), elems)[1]
    Array([1. , 1.5], dtype=float32)
    """
    fn = _arguments.function("associative_scan: fn", fn)
    reverse = _arguments.flag("associative_scan: reverse", reverse)
    record = functools.partial(_associative_scan, fn, reverse, axis)
    return _calls.loop(("associative_scan", reverse, type(axis), axis), fn, (elems,), record)


def _associative_scan(fn, reverse, axis, elems):
    leaves, treedef = arrays_of(elems, "associative_scan: elems")
    if not leaves:
        raise ValueError("associative_scan: there are no arrays")
    for (path, _), x in zip(tree.leaves_with_path(elems), leaves):
        if not x.ndim:
            raise InvalidError(
                f"{place()}associative_scan: {tree.path_text(path, 'elems')} is a scalar, "
                "there is nothing to go over"
            )
    rank = leaves[0].ndim
    axis = (
        _arguments.integer("associative_scan: axis", axis, -rank, rank - 1, f"an axis of {leaves[0]._type}")
        % rank
    )
    n = len(leaves)

    def combine(*values):
        found, out_tree = arrays_of_results(
            twins.of(fn)(tree.unflatten(treedef, values[:n]), tree.unflatten(treedef, values[n:]))
        )

        def differ(i, j):
            x, y = values[i], found[j]
            fits = not _shapes.shapes_differ(x.shape, _shape(y)) and _fits(_kind(x), _kind(y))
            return not fits and f"{called('the function', fn)} gives {type_text(y)} for two slices {x._type}"

        check_same_tree("associative_scan", treedef, out_tree, "what the function gives", "elems", differ)
        return [_brought(y, _kind(x)) for x, y in zip(values, found)]

    length = leaves[0].shape[axis]
    if _plain.wanted() and length:
        out = _plain.associative_scan(combine, leaves, length, axis, reverse)
    else:
        out = run_or_record(
            lambda *v: _core.associative_scan(body_of(combine, fn), v, axis, reverse),
            leaves,
            "associative_scan",
        )
    return tree.unflatten(treedef, out)


def map(f, xs, *, batch_size=None, sequential=False):
    """f on each slice of xs along its first axis, the results stacked. Slices may be done all at once;
    sequential=True asks for one after the other, batch_size for so many at a time.

    >>> hop.map(lambda x: x * x, hop.asarray([1, 2, 3]))
    Array([1, 4, 9], dtype=int64)
    """
    f = _arguments.function("map: f", f)
    sequential = _arguments.flag("map: sequential", sequential)
    if batch_size is not None:
        batch_size = _arguments.integer("map: batch_size", batch_size, 1, expected="a number of slices")
    what = ("map", batch_size, sequential)
    return _calls.loop(what, f, (xs,), functools.partial(_map, f, batch_size, sequential))


def _map(f, batch_size, sequential, xs):
    leaves, weak, treedef = raw_leaves(xs, "map: xs")
    n = _lengths("map", xs, leaves, None)
    if not leaves:
        raise ValueError("map: there are no xs")
    if batch_size is not None:
        return _map_in_batches(f, xs, n, batch_size)
    seen = []

    def body(*values):
        found, out_tree = arrays_of_results(twins.of(f)(tree.unflatten(treedef, marked(values, weak, False))))
        found, weak_out = given_leaves(found)
        seen.append((out_tree, weak_out))
        return found

    if _plain.wanted() and n:
        out = _plain.scan(body, [], leaves, n, False)
    else:
        out = run_or_record(lambda *v: _core.map(body_of(body, f), v, None, sequential), leaves, "map")
    out_tree, weak_out = seen[-1]
    return tree.unflatten(out_tree, marked(out, weak_out, False))


def _map_in_batches(f, xs, n, size):
    """As many whole batches as there are, one after the other, then what is left over."""
    whole, together = n - n % size, vmap(f)
    known = not _shapes.is_symbolic(n)  # else there may be no batches, or nothing left over
    if known and whole < size:
        return together(xs)
    xs = tree.map(asarray, xs)
    batches = tree.map(lambda x: x[:whole].reshape((whole // size, size, *x.shape[1:])), xs)
    done = tree.map(lambda y: y.reshape((whole, *y.shape[2:])), map(together, batches, sequential=True))
    if known and whole == n:
        return done
    rest = together(tree.map(lambda x: x[whole:], xs))
    return tree.map(lambda a, b: concat([a, b], axis=0), done, rest)
