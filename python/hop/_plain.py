"""Loops as plain Python loops over arrays, for hop.disable_jit: their bodies see numbers. They take and give
what the recorded ones do: raw arrays."""

from . import _core
from ._errors import CheckError
from ._ops import asarray, stack, zeros


def wanted():
    """Whether loops run this way now."""
    return not _core.tracing() and _core.jit_disabled()


def _stacked(rows, like, n=None):
    """Rows, lists of arrays, as one array per place; n: how many there shall be, zeros behind the last one.
    like: what a row looks like where there is none."""
    out = []
    for i, x in enumerate(like):
        column = [asarray(row[i]) for row in rows]
        column += [zeros(x.shape, dtype=x.dtype)] * ((n or 0) - len(column))
        out.append(stack(column) if column else zeros((0, *x.shape), dtype=x.dtype))
    return out


def _own(arrays):
    """Arrays as a body gets them: what it writes to them is its own, as in a program."""
    return [x._alias() if isinstance(x, _core.ArrayBase) else x for x in arrays]


def while_loop(test, step, carry, limit, has_rows):
    k, rows = len(carry), []
    values, trips = list(carry), 0
    while bool(test(*_own(values))[0]):
        if trips == limit:
            raise CheckError(f"while_loop: more than max_trips trips ({limit})")
        out = step(*_own(values))
        values, trips = out[:k], trips + 1
        rows.append(out[k:])
    return [*values, asarray(trips), *_stacked(rows, values, limit)] if has_rows else values


def fori_loop(step, lower, upper, carry):
    values = list(carry)
    for i in range(int(lower), int(upper)):
        values = step(asarray(i), *_own(values))
    return values


def scan(step, carry, xs, n, reverse):
    """There is one step at least."""
    k, rows = len(carry), [None] * n
    values, xs = list(carry), _own(xs)
    for i in reversed(range(n)) if reverse else range(n):
        out = step(*_own(values), *[x[i] for x in xs])
        values, rows[i] = out[:k], [asarray(y) for y in out[k:]]
    return [*values, *_stacked(rows, rows[0])]


def associative_scan(combine, xs, n, axis, reverse):
    before = (slice(None),) * axis
    total, rows = None, [None] * n
    for i in reversed(range(n)) if reverse else range(n):
        here = [x[(*before, i)] for x in xs]
        total = here if total is None else [asarray(y) for y in combine(*total, *here)]
        rows[i] = total
    return [stack([row[i] for row in rows], axis=axis) for i in range(len(xs))]
