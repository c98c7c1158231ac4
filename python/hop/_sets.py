"""What different elements an array has, under the names of the array-API standard; and the neighbours of
floats. All of it is made of other operators.

How many different elements there are depends on values. Such sizes work at once and in captured programs;
under vmap, where every lane has its own, size= says how many there shall be.
"""

__all__ = ["unique_all", "unique_counts", "unique_inverse", "unique_values", "nextafter"]

import collections
import math

from . import _arguments, _dtypes, _shapes
from ._ops import (
    abs, arange, argsort, asarray, astype, broadcast_arrays, concat, copysign, cumulative_min, cumulative_sum,
    exp2, floor, isinf, isnan, log2, maximum, minimum, nonzero, stop_gradient, sum, take, where, zeros_like,
)  # fmt: skip

UniqueAllResult = collections.namedtuple(
    "UniqueAllResult", ["values", "indices", "inverse_indices", "counts"]
)
UniqueCountsResult = collections.namedtuple("UniqueCountsResult", ["values", "counts"])
UniqueInverseResult = collections.namedtuple("UniqueInverseResult", ["values", "inverse_indices"])


class _Groups:
    """The elements in order, in groups of equal ones. NaN equals nothing, -0 equals 0."""

    def __init__(self, x, size):
        self.x = asarray(x)
        flat = self.x.reshape((-1,))
        size = None if size is None else _arguments.extent("size", size)
        if size is not None and _shapes.empty(flat.shape) and not _shapes.equal(size, 0):
            raise ValueError("an array without elements has none to fill up with (size= was given)")
        self.order = argsort(astype(flat, _dtypes.uint8) if flat.dtype is _dtypes.bool else flat)
        self.sorted = take(flat, self.order)
        first = self.sorted[:1]
        self.begins = concat([(first == first) | True, self.sorted[1:] != self.sorted[:-1]])
        self.starts = nonzero(self.begins, size=size)[0]
        self.size = size

    def values(self):
        return take(self.sorted, self.starts)

    def indices(self):
        return take(self.order, self.starts)

    def inverse(self):
        group = cumulative_sum(self.begins) - 1
        return zeros_like(self.order).at[self.order].set(group).reshape(self.x.shape)

    def counts(self):
        places = cumulative_sum(zeros_like(self.order) + 1) - 1
        behind = zeros_like(places[:1]) + sum(zeros_like(places) + 1)
        next_start = cumulative_min(concat([where(self.begins, places, behind)[1:], behind]), reverse=True)
        counts = take(next_start, self.starts) - self.starts
        return counts if self.size is None else where(arange(self.size) < sum(self.begins), counts, 0)


def unique_values(x, /, *, size=None):
    """The different elements of x, in ascending order; every NaN is one of its own. With size= exactly so
    many: the smallest fills up.

    >>> hop.unique_values(hop.asarray([3, 1, 3]))
    Array([1, 3], dtype=int64)
    >>> hop.unique_values(hop.asarray([3, 1, 3]), size=4)
    Array([1, 3, 1, 1], dtype=int64)
    """
    return _Groups(x, size).values()


def unique_counts(x, /, *, size=None):
    """The different elements of x, in ascending order, and how often each is there: (values, counts). What
    fills up with size= is there 0 times.

    >>> hop.unique_counts(hop.asarray([3, 1, 3]))
    UniqueCountsResult(values=Array([1, 3], dtype=int64), counts=Array([1, 2], dtype=int64))
    """
    groups = _Groups(x, size)
    return UniqueCountsResult(groups.values(), groups.counts())


def unique_inverse(x, /, *, size=None):
    """The different elements of x, in ascending order, and which of them stands where:
    values[inverse_indices] is x. (values, inverse_indices)

    >>> hop.unique_inverse(hop.asarray([3, 1, 3])).inverse_indices
    Array([1, 0, 1], dtype=int64)
    """
    groups = _Groups(x, size)
    return UniqueInverseResult(groups.values(), groups.inverse())


def unique_all(x, /, *, size=None):
    """The different elements of x, in ascending order; where each is first in x, counted without axes;
    which of them stands where; how often each is there: (values, indices, inverse_indices, counts).

    >>> hop.unique_all(hop.asarray([3, 1, 3])).values, hop.unique_all(hop.asarray([3, 1, 3])).counts
    (Array([1, 3], dtype=int64), Array([1, 2], dtype=int64))
    """
    groups = _Groups(x, size)
    return UniqueAllResult(groups.values(), groups.indices(), groups.inverse(), groups.counts())


def nextafter(x1, x2, /):
    """The next number that the dtype of x1 has on the way to x2. The derivative with respect to x1 is 1,
    to x2 0.

    >>> hop.nextafter(hop.asarray(1.0), 2.0) - 1 == hop.finfo(hop.float32).eps
    Array(True, dtype=bool)
    """
    d = _dtypes.result_type(x1, x2)
    x1, x2 = broadcast_arrays(astype(asarray(x1), d, copy=False), astype(asarray(x2), d, copy=False))
    info = _dtypes.finfo(d)
    size = abs(stop_gradient(x1))
    smallest = info.smallest_normal * info.eps
    # the power of 2 below, give or take one
    power = exp2(minimum(floor(log2(size)), math.frexp(info.max)[1] - 1))
    power = where(power > size, power / 2, where(2 * power <= size, 2 * power, power))
    inward = (x2 < x1) == (x1 > 0)
    step = maximum(where(inward & (size == power), power * (info.eps / 2), power * info.eps), smallest)
    step = where(isinf(x1) | (size < info.smallest_normal), smallest, step)
    moved = x1 + where(x2 < x1, -step, step)
    moved = where(moved == 0, copysign(zeros_like(x1), x1), moved)
    moved = where(isinf(x1), copysign(zeros_like(x1) + info.max, x1), moved)
    return where(x1 == x2, x2, where(isnan(x2), x2, moved))
