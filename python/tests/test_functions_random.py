"""Random calls of the array functions against NumPy's: dtypes, shapes with sizes of 0, axes, options.

A seed makes one call of every function; HOP_TEST_SEED=N runs that one alone, HOP_TEST_SEEDS=N that many.
Every call is made at once and inside of jit; where NumPy refuses, hop must refuse as well.
"""

import itertools
import math
import os
import random
import unittest

import hop
from support import Case, needs_numpy, numpy as np

SEEDS = int(os.environ.get("HOP_TEST_SEEDS", "6"))
SIGNED, UNSIGNED, FLOATS = ("i1", "i2", "i4", "i8"), ("u1", "u2", "u4", "u8"), ("f2", "f4", "f8")
INTEGERS = SIGNED + UNSIGNED
NUMBERS = INTEGERS + FLOATS
ALL = ("?", *NUMBERS)
KINDS = (SIGNED, UNSIGNED, FLOATS)


class Maker:
    """Random arguments from a seed."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def shape(self, least=0, most=4, zeros=True):
        pick = (0, 1, 2, 3, 5) if zeros and self.rng.random() < 0.25 else (1, 2, 3, 4, 7)
        return tuple(self.rng.choice(pick) for _ in range(self.rng.randint(least, most)))

    def dtype(self, among=ALL):
        return self.rng.choice(among)

    def array(self, dtype, shape, low=-9, high=9, special=False):
        """Elements low … high; floats with a fraction, and with special=True some that are not finite."""
        n = math.prod(shape)
        if dtype == "?":
            made = np.array([self.rng.random() < 0.5 for _ in range(n)], dtype=bool)
        elif dtype[0] == "f":
            numbers = [
                self.rng.uniform(low, high)
                if self.rng.random() < 0.7
                else float(self.rng.randint(math.ceil(low), math.floor(high)))
                for _ in range(n)
            ]
            if special:
                numbers = [
                    self.rng.choice([math.inf, -math.inf, math.nan, -0.0, 0.0])
                    if self.rng.random() < 0.15
                    else v
                    for v in numbers
                ]
            made = np.array(numbers, dtype=dtype)
        else:
            info = np.iinfo(dtype)
            made = np.array(
                [self.rng.randint(max(low, info.min), min(high, info.max)) for _ in range(n)], dtype=dtype
            )
        made = made.reshape(shape)
        if made.ndim > 1 and self.rng.random() < 0.2:  # memory that is not row-major
            made = made.T.copy().T
        return made

    def axis(self, ndim):
        return self.rng.randint(-ndim, ndim - 1)

    def axes(self, ndim):
        """None, one axis or several."""
        how = self.rng.random()
        if how < 0.3 or ndim == 0:
            return self.rng.choice([None, ()]) if ndim == 0 and how < 0.5 else None
        if how < 0.7:
            return self.axis(ndim)
        picked = self.rng.sample(range(ndim), self.rng.randint(0, ndim))
        return tuple(self.rng.choice([a, a - ndim]) for a in picked)

    def pair(self, kinds=KINDS, **options):
        """Two arrays that broadcast, of dtypes of one kind."""
        kind, shape = self.rng.choice(kinds), self.shape(most=3)
        shapes = []
        for _ in range(2):
            cut = shape[self.rng.randint(0, len(shape)) if self.rng.random() < 0.3 else 0 :]
            shapes.append(tuple(1 if self.rng.random() < 0.2 else n for n in cut))
        return [self.array(self.dtype(kind), s, **options) for s in shapes]

    def flag(self):
        return self.rng.random() < 0.5


def rounding(*arrays):
    """How far apart results of these dtypes may be: a share of the largest element."""
    names = [a.dtype.str[1:] for a in arrays]
    return max({"f2": 4e-3, "f4": 2e-6, "f8": 1e-14}.get(name, 0) for name in names)


class Call:
    """Arrays, a function of hop's and one of NumPy's, and how far off results may be: a share of the
    largest."""

    def __init__(self, arrays, ours, theirs, tolerance=0.0, said=""):
        self.arrays, self.ours, self.theirs, self.tolerance, self.said = arrays, ours, theirs, tolerance, said


ROWS = {}


def row(function):
    ROWS[function.__name__] = function
    return function


# ---- elements ----


def binary(name, theirs=None, kinds=KINDS, tolerance=False, **options):
    def make(m):
        a, b = m.pair(kinds, **options)
        return Call(
            [a, b], getattr(hop, name), getattr(np, theirs or name), 4 * rounding(a, b) if tolerance else 0
        )

    ROWS[name] = make


def unary(name, theirs=None, dtypes=FLOATS, tolerance=False, **options):
    def make(m):
        a = m.array(m.dtype(dtypes), m.shape(), **options)
        return Call([a], getattr(hop, name), getattr(np, theirs or name), 4 * rounding(a) if tolerance else 0)

    ROWS[name] = make


BITS = (*KINDS[:2], ("?",))
for _name in ("add", "subtract", "multiply", "maximum", "minimum"):
    binary(_name, special=True)
for _name in (
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or",
    "logical_xor",
):
    binary(_name, kinds=(*KINDS, ("?",)), special=True)
for _name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    binary(_name, kinds=BITS)
for _name in ("bitwise_left_shift", "bitwise_right_shift"):
    binary(_name, kinds=KINDS[:2], low=0, high=7)
for _name in ("floor_divide", "remainder"):
    binary(_name, kinds=KINDS[:2], low=1, high=99)
binary("divide", kinds=(FLOATS,), special=True)
binary("copysign", kinds=(FLOATS,), special=True)
binary("nextafter", kinds=(("f4", "f8"),), special=True)
binary("fmod", kinds=(FLOATS,), special=True)
binary("hypot", kinds=(FLOATS,), tolerance=True, special=True)
binary("atan2", "arctan2", kinds=(FLOATS,), tolerance=True, special=True)
binary("logaddexp", kinds=(("f4", "f8"),), tolerance=True, special=True)
for _name, _theirs in {
    "sin": None, "cos": None, "tan": None, "tanh": None, "sinh": None, "cosh": None, "exp": None,
    "exp2": None, "expm1": None, "cbrt": None, "atan": "arctan", "asinh": "arcsinh",
}.items():
    unary(_name, _theirs, tolerance=True, low=-3, high=3, special=True)
for _name, _theirs in {
    "log": None, "log2": None, "log10": None, "log1p": None, "sqrt": None, "acosh": "arccosh",
    "asin": "arcsin", "acos": "arccos", "atanh": "arctanh",
}.items():
    unary(_name, _theirs, tolerance=True, low=-1, high=3, special=True)
for _name in ("abs", "negative", "positive", "sign", "square"):
    unary(_name, dtypes=NUMBERS, special=True)
for _name in ("floor", "ceil", "trunc", "round", "isnan", "isinf", "isfinite", "real", "conj"):
    unary(_name, dtypes=ALL if _name[0] == "i" else NUMBERS, special=True)
unary("signbit", special=True)
unary("reciprocal", special=True)
unary("bitwise_invert", dtypes=("?", *INTEGERS))
unary("logical_not", dtypes=ALL, special=True)


@row
def pow_of_integers(m):
    a, b = m.array(m.dtype(SIGNED), shape := m.shape()), m.array(m.dtype(SIGNED), shape, low=0, high=11)
    return Call([a, b], hop.pow, np.power)


@row
def pow_of_floats(m):
    a, b = m.pair((FLOATS,), low=0, high=4)
    return Call([a, b], hop.pow, np.power, 20 * rounding(a, b))


@row
def clip(m):
    a, b = m.pair(special=True)
    a = np.broadcast_to(a, np.broadcast_shapes(a.shape, b.shape)).copy()
    b = b.astype(a.dtype)
    low, high = m.rng.choice(
        [
            (None, None),
            (b, None),
            (None, b),
            (b, (b + 1).astype(b.dtype)),
            (1, 5),
            (None, 3),
            (2, None),
            (5, 2),
        ]
    )
    return Call(
        [a],
        lambda x: hop.clip(x, low, high),
        lambda x: x if low is None and high is None else np.clip(x, low, high),
        said=f"{low!r}, {high!r}",
    )


@row
def where(m):
    a, b = m.pair()
    c = m.array(m.dtype(("?",)), np.broadcast_shapes(a.shape, b.shape))
    return Call([c, a, b], hop.where, np.where)


@row
def astype(m):
    d, to = m.dtype(), m.dtype()
    a = m.array(d, m.shape(), low=0 if to[0] == "u" and d[0] == "f" else -9)
    return Call([a], lambda x: hop.astype(x, np.dtype(to).name), lambda x: x.astype(to), said=to)


@row
def isclose(m):
    a, b = m.pair((FLOATS,), special=True)
    b = np.where(np.isfinite(b) & (m.rng.random() < 0.5), a, b).astype(b.dtype)
    options = {"rtol": m.rng.choice([1e-5, 0.5]), "atol": m.rng.choice([1e-8, 2.0]), "equal_nan": m.flag()}
    return Call(
        [a, b],
        lambda x, y: hop.isclose(x, y, **options),
        lambda x, y: np.isclose(x, y, **options),
        said=str(options),
    )


# ---- along axes ----


def reduction(name, dtypes=ALL, share=0.0, empty=True, several=True, **given):
    def make(m):
        shape = m.shape(zeros=empty)
        a = m.array(m.dtype(dtypes), shape, special=share == 0, **given)
        axis = None
        if several:
            axis = m.axes(len(shape))
        elif shape:
            axis = m.rng.choice([None, m.axis(len(shape))])
        options = {"axis": axis, "keepdims": m.flag()}
        numpys = dict(options)
        if name in ("var", "std"):
            options["correction"] = numpys["ddof"] = m.rng.choice([0, 1, 0.5, 0.0])
        if name in ("sum", "prod") and m.rng.random() < 0.3:
            to = m.dtype(FLOATS if a.dtype.kind == "f" else NUMBERS)
            options["dtype"], numpys["dtype"] = np.dtype(to).name, to
        return Call(
            [a],
            lambda x: getattr(hop, name)(x, **options),
            lambda x: np.asarray(getattr(np, name)(x, **numpys)),
            share * rounding(a, np.empty(0, numpys.get("dtype", a.dtype))),
            str(options),
        )

    ROWS[name] = make


reduction("sum", share=8)
reduction("prod", share=30, low=-2, high=2)
reduction("mean", dtypes=FLOATS, share=8, empty=False)
for _name in ("var", "std"):
    reduction(_name, dtypes=("f4", "f8"), share=40, empty=False)
for _name in ("max", "min"):
    reduction(_name, empty=False)
for _name in ("argmax", "argmin"):
    reduction(_name, several=False)
for _name in ("any", "all", "count_nonzero"):
    reduction(_name)


def running(name, theirs, dtypes=ALL):
    def make(m):
        a = m.array(m.dtype(dtypes), shape := m.shape(least=1), low=-2, high=2)
        axis = m.axis(len(shape)) if len(shape) > 1 or m.flag() else None
        return Call(
            [a],
            lambda x: getattr(hop, name)(x, axis=axis),
            lambda x: theirs(x, axis=axis),
            30 * rounding(a),
            f"axis={axis}",
        )

    ROWS[name] = make


running("cumulative_sum", lambda x, axis: np.cumsum(x, axis=axis))
running("cumulative_prod", lambda x, axis: np.cumprod(x, axis=axis))
running("cumulative_max", lambda x, axis: np.maximum.accumulate(x, axis=axis or 0), NUMBERS)
running("cumulative_min", lambda x, axis: np.minimum.accumulate(x, axis=axis or 0), NUMBERS)


@row
def diff(m):
    a = m.array(d := m.dtype(NUMBERS), shape := m.shape(least=1))
    options = {"axis": m.axis(len(shape)), "n": m.rng.choice([0, 1, 1, 1, 2, 3])}
    for name in ("prepend", "append"):
        if m.rng.random() < 0.3:
            more = list(shape)
            more[options["axis"]] = m.rng.randint(0, 2)
            options[name] = m.array(d, tuple(more))
    return Call([a], lambda x: hop.diff(x, **options), lambda x: np.diff(x, **options), said=str(options))


@row
def sort(m):
    a = m.array(m.dtype(), shape := m.shape(least=1), special=m.flag(), high=m.rng.choice([2, 99]))
    axis, descending = m.axis(len(shape)), m.flag()

    def theirs(x):
        ascending = np.sort(x, axis=axis)
        return np.flip(ascending, axis=axis) if descending else ascending

    if descending and a.dtype.kind == "f":
        a = np.nan_to_num(a, nan=1)
    return Call(
        [a],
        lambda x: hop.sort(x, axis=axis, descending=descending),
        theirs,
        said=f"axis={axis}, descending={descending}",
    )


@row
def argsort(m):
    a = m.array(m.dtype(), shape := m.shape(least=1), special=m.flag(), high=m.rng.choice([2, 99]))
    axis = m.axis(len(shape))
    return Call(
        [a],
        lambda x: hop.argsort(x, axis=axis),
        lambda x: np.argsort(x, axis=axis, kind="stable"),
        said=f"axis={axis}",
    )


@row
def searchsorted(m):
    a, b = m.array(d := m.dtype(NUMBERS), (m.rng.choice([0, 1, 5, 40]),)), None
    b, side = m.array(d, m.shape()), m.rng.choice(["left", "right"])
    if m.flag():
        order = np.argsort(a)
        return Call(
            [a, b, order],
            lambda x, y, o: hop.searchsorted(x, y, side=side, sorter=o),
            lambda x, y, o: np.asarray(np.searchsorted(x, y, side=side, sorter=o)),
            said=side,
        )
    return Call(
        [np.sort(a), b],
        lambda x, y: hop.searchsorted(x, y, side=side),
        lambda x, y: np.asarray(np.searchsorted(x, y, side=side)),
        said=side,
    )


@row
def unique(m):
    a = m.array(m.dtype(), m.shape(), high=3, low=-3)

    def theirs(x):
        values, indices, inverse, counts = np.unique(
            x, return_index=True, return_inverse=True, return_counts=True
        )
        return values, indices, inverse.reshape(x.shape), counts

    return Call([a], lambda x: tuple(hop.unique_all(x)), theirs)


@row
def nonzero(m):
    return Call([m.array(m.dtype(), m.shape(least=1), low=-1, high=1, special=True)], hop.nonzero, np.nonzero)


@row
def top_k(m):
    a = m.array(m.dtype(NUMBERS), shape := m.shape(least=1, zeros=False), high=m.rng.choice([3, 99]))
    axis = m.axis(len(shape))
    k = m.rng.randint(0, shape[axis])

    def theirs(x):
        last = x.shape[axis] - 1
        # of equals the first comes first
        at = last - np.flip(np.argsort(np.flip(x, axis=axis), axis=axis, kind="stable"), axis=axis)
        at = np.take(at, range(k), axis=axis)
        return np.take_along_axis(x, at, axis=axis), at

    return Call([a], lambda x: hop.top_k(x, k, axis=axis), theirs, said=f"{k} axis={axis}")


@row
def interp(m):
    xp = np.sort(m.array(d := m.dtype(("f4", "f8")), (m.rng.randint(2, 9),)))
    xp = (xp + np.arange(xp.size)).astype(d)
    x, fp = m.array(d, m.shape(), low=-15, high=25), m.array(d, xp.shape)
    return Call([x, xp, fp], hop.interp, lambda *v: np.asarray(np.interp(*v)).astype(d), 40 * rounding(x))


@row
def logsumexp(m):
    a = m.array(m.dtype(("f4", "f8")), m.shape(zeros=False), low=-50, high=50)
    axis, keepdims = m.axes(a.ndim), m.flag()
    options = {"axis": axis, "keepdims": keepdims}
    return Call(
        [a],
        lambda x: hop.logsumexp(x, **options),
        lambda x: np.asarray(np.logaddexp.reduce(x, **options)) if axis != () else x,
        9 * rounding(a),
        str(options),
    )


@row
def bits(m):
    a = m.array(d := m.dtype(UNSIGNED), m.shape(), low=0, high=2**64 - 1)
    width = 8 * a.dtype.itemsize
    count = lambda f, x: np.array([f(int(v)) for v in x.ravel()], dtype=d).reshape(x.shape)  # noqa: E731
    return Call(
        [a],
        lambda x: (hop.popcount(x), hop.count_leading_zeros(x)),
        lambda x: (count(lambda v: bin(v).count("1"), x), count(lambda v: width - v.bit_length(), x)),
    )


# ---- shapes ----


@row
def reshape(m):
    a = m.array(m.dtype(), m.shape())
    factors, rest = [], a.size
    for k in (2, 3, 5, 7):
        while rest and rest % k == 0:
            factors.append(k)
            rest //= k
    shape = [1] * m.rng.randint(1 if a.size != 1 else 0, 5)
    for f in factors:
        shape[m.rng.randrange(len(shape))] *= f
    if not a.size:
        shape[m.rng.randrange(len(shape))] = 0
    if shape and m.flag():
        shape[m.rng.randrange(len(shape))] = -1
    return Call([a], lambda x: hop.reshape(x, tuple(shape)), lambda x: x.reshape(shape), said=str(shape))


@row
def permute_dims(m):
    a = m.array(m.dtype(), m.shape())
    order = tuple(m.rng.choice([i, i - a.ndim]) for i in m.rng.sample(range(a.ndim), a.ndim))
    return Call([a], lambda x: hop.permute_dims(x, order), lambda x: np.transpose(x, order), said=str(order))


@row
def moveaxis(m):
    a = m.array(m.dtype(), m.shape(least=1))
    n = m.rng.randint(1, a.ndim)
    one, two = [
        tuple(m.rng.choice([i, i - a.ndim]) for i in m.rng.sample(range(a.ndim), n)) for _ in range(2)
    ]
    if n == 1 and m.flag():
        one, two = one[0], two[0]
    return Call(
        [a], lambda x: hop.moveaxis(x, one, two), lambda x: np.moveaxis(x, one, two), said=f"{one} {two}"
    )


@row
def swapaxes(m):
    a = m.array(m.dtype(), m.shape(least=1))
    one, two = m.axis(a.ndim), m.axis(a.ndim)
    return Call(
        [a], lambda x: hop.swapaxes(x, one, two), lambda x: np.swapaxes(x, one, two), said=f"{one} {two}"
    )


@row
def matrix_transpose(m):
    return Call(
        [m.array(m.dtype(), m.shape(least=2))], hop.matrix_transpose, lambda x: np.swapaxes(x, -1, -2)
    )


@row
def expand_dims(m):
    a = m.array(m.dtype(), m.shape())
    axis = (
        m.rng.randint(-a.ndim - 1, a.ndim)
        if m.rng.random() < 0.7
        else tuple(m.rng.randint(-a.ndim - 2, a.ndim + 1) for _ in range(2))
    )
    return Call([a], lambda x: hop.expand_dims(x, axis), lambda x: np.expand_dims(x, axis), said=str(axis))


@row
def squeeze(m):
    a = m.array(m.dtype(), tuple(m.rng.choice([0, 1, 1, 1, 2]) for _ in range(m.rng.randint(0, 4))))
    axis = m.axes(a.ndim)
    return Call([a], lambda x: hop.squeeze(x, axis), lambda x: np.squeeze(x, axis), said=str(axis))


@row
def broadcast_to(m):
    shape = m.shape()
    a = m.array(
        m.dtype(), tuple(1 if m.rng.random() < 0.4 else n for n in shape[m.rng.randint(0, len(shape)) :])
    )
    return Call(
        [a], lambda x: hop.broadcast_to(x, shape), lambda x: np.broadcast_to(x, shape), said=str(shape)
    )


@row
def broadcast_arrays(m):
    arrays = m.pair()
    return Call(arrays, lambda *v: tuple(hop.broadcast_arrays(*v)), lambda *v: tuple(np.broadcast_arrays(*v)))


@row
def concat(m):
    shape, kind = m.shape(least=1), m.rng.choice(KINDS)
    axis = m.rng.choice([None, m.axis(len(shape)), m.axis(len(shape))])
    arrays = []
    for _ in range(m.rng.randint(1, 4)):
        size = list(shape)
        size[axis or 0] = m.rng.randint(0, 3)
        arrays.append(m.array(m.dtype(kind), tuple(size)))
    return Call(
        arrays,
        lambda *v: hop.concat(v, axis=axis),
        lambda *v: np.concatenate(v, axis=axis),
        said=f"axis={axis}",
    )


@row
def stack(m):
    shape, kind = m.shape(), m.rng.choice(KINDS)
    axis = m.rng.randint(-len(shape) - 1, len(shape))
    arrays = [m.array(m.dtype(kind), shape) for _ in range(m.rng.randint(1, 4))]
    return Call(
        arrays, lambda *v: hop.stack(v, axis=axis), lambda *v: np.stack(v, axis=axis), said=f"axis={axis}"
    )


@row
def unstack(m):
    a = m.array(m.dtype(), m.shape(least=1))
    axis = m.axis(a.ndim)
    return Call(
        [a],
        lambda x: hop.unstack(x, axis=axis),
        lambda x: tuple(np.moveaxis(x, axis, 0)),
        said=f"axis={axis}",
    )


@row
def split(m):
    a = m.array(m.dtype(), m.shape(least=1))
    axis = m.axis(a.ndim)
    n = a.shape[axis]
    parts = m.rng.choice([1, max(n, 1), sorted(m.rng.randint(0, n) for _ in range(m.rng.randint(0, 3)))])
    return Call(
        [a],
        lambda x: tuple(hop.split(x, parts, axis=axis)),
        lambda x: tuple(np.split(x, parts, axis=axis)),
        said=f"{parts} axis={axis}",
    )


@row
def flip(m):
    a = m.array(m.dtype(), m.shape())
    axis = m.axes(a.ndim)
    return Call([a], lambda x: hop.flip(x, axis=axis), lambda x: np.flip(x, axis=axis), said=f"axis={axis}")


@row
def roll(m):
    a = m.array(m.dtype(), m.shape())
    axis = m.axes(a.ndim) or None  # NumPy refuses no axes
    shift = (
        m.rng.randint(-9, 9)
        if not isinstance(axis, tuple) or m.flag()
        else tuple(m.rng.randint(-9, 9) for _ in axis)
    )
    return Call(
        [a],
        lambda x: hop.roll(x, shift, axis=axis),
        lambda x: np.roll(x, shift, axis=axis),
        said=f"{shift} axis={axis}",
    )


@row
def tile(m):
    a = m.array(m.dtype(), m.shape(most=3))
    times = tuple(m.rng.randint(0 if m.rng.random() < 0.2 else 1, 3) for _ in range(m.rng.randint(0, 4)))
    return Call([a], lambda x: hop.tile(x, times), lambda x: np.tile(x, times), said=str(times))


@row
def repeat(m):
    a = m.array(m.dtype(), m.shape())
    axis = m.rng.choice([None, m.axis(a.ndim)]) if a.ndim else None
    n = a.size if axis is None else a.shape[axis]
    times = m.rng.choice(
        [0, 1, 2, np.array([m.rng.randint(0, 3) for _ in range(n)], dtype=m.rng.choice(["i8", "i4"]))]
    )
    return Call(
        [a],
        lambda x: hop.repeat(x, times, axis=axis),
        lambda x: np.repeat(x, times, axis=axis),
        said=f"{times} axis={axis}",
    )


@row
def pad(m):
    a = m.array(m.dtype(NUMBERS), m.shape(least=1))
    widths = [(m.rng.randint(0, 2), m.rng.randint(0, 2)) for _ in range(a.ndim)]
    return Call(
        [a],
        lambda x: hop.pad(x, widths, constant_values=3),
        lambda x: np.pad(x, widths, constant_values=3),
        said=str(widths),
    )


@row
def triangles(m):
    a, k = m.array(m.dtype(), m.shape(least=2)), m.rng.randint(-9, 9)
    return Call(
        [a],
        lambda x: (hop.tril(x, k=k), hop.triu(x, k=k)),
        lambda x: (np.tril(x, k), np.triu(x, k)),
        said=f"k={k}",
    )


@row
def diagonal(m):
    a, k = m.array(m.dtype(INTEGERS), m.shape(least=2)), m.rng.randint(-9, 9)
    ours = lambda x: (hop.linalg.diagonal(x, offset=k), hop.linalg.trace(x, offset=k))  # noqa: E731
    return Call(
        [a], ours, lambda x: (np.diagonal(x, k, -2, -1), np.asarray(np.trace(x, k, -2, -1))), said=f"k={k}"
    )


@row
def meshgrid(m):
    arrays = [m.array(d, m.shape(1, 1)) for d in [m.dtype()] * m.rng.randint(1, 4)]
    indexing = m.rng.choice(["xy", "ij"])
    return Call(
        arrays,
        lambda *v: tuple(hop.meshgrid(*v, indexing=indexing)),
        lambda *v: tuple(np.meshgrid(*v, indexing=indexing)),
        said=indexing,
    )


@row
def take(m):
    a = m.array(m.dtype(), m.shape(least=1))
    axis = m.axis(a.ndim) if a.ndim > 1 or m.flag() else None
    n = a.shape[axis or 0]
    indices = m.array(m.rng.choice(["i8", "i4"]), m.shape() if n else (0,), low=-n, high=n - 1)
    return Call(
        [a, indices],
        lambda x, i: hop.take(x, i, axis=axis),
        lambda x, i: np.take(x, i, axis=axis),
        said=f"axis={axis}",
    )


@row
def take_along_axis(m):
    a = m.array(m.dtype(), shape := m.shape(least=1))
    axis = m.axis(a.ndim)
    n, size = shape[axis], list(shape)
    size[axis] = m.rng.randint(0, 4) if n else 0
    indices = m.array(m.rng.choice(["i8", "i4"]), tuple(size), low=-n, high=max(n - 1, -n))
    return Call(
        [a, indices],
        lambda x, i: hop.take_along_axis(x, i, axis=axis),
        lambda x, i: np.take_along_axis(x, i, axis=axis),
        said=f"axis={axis}",
    )


# ---- products ----


@row
def matmul(m):
    d, n, k, p = m.dtype(NUMBERS), *(m.rng.choice([0, 1, 2, 3, 9]) for _ in range(3))
    before = m.shape(most=2)
    left = m.rng.choice([(k,), (n, k), (*before, n, k), (*(1 for _ in before), n, k)])
    right = m.rng.choice([(k,), (k, p), (*before, k, p), (*before[1:], k, p)])
    a, b = m.array(d, left), m.array(d, right)
    return Call([a, b], lambda x, y: hop.matmul(x, y), np.matmul, 9 * rounding(a))


@row
def tensordot(m):
    d, shared = m.dtype(NUMBERS), m.shape(most=2)
    before, behind = m.shape(most=2), m.shape(most=2)
    a, b = m.array(d, before + shared), m.array(d, shared + behind)
    if m.flag():
        return Call(
            [a, b],
            lambda x, y: hop.tensordot(x, y, axes=len(shared)),
            lambda x, y: np.tensordot(x, y, axes=len(shared)),
            30 * rounding(a),
            f"axes={len(shared)}",
        )
    order = m.rng.sample(range(len(shared)), len(shared))
    axes = (
        [len(before) + i - m.rng.choice([0, a.ndim]) for i in order],
        [i - m.rng.choice([0, b.ndim]) for i in order],
    )
    return Call(
        [a, b],
        lambda x, y: hop.tensordot(x, y, axes=axes),
        lambda x, y: np.tensordot(x, y, axes=axes),
        30 * rounding(a),
        f"axes={axes}",
    )


@row
def vecdot(m):
    d, shape = m.dtype(NUMBERS), m.shape(least=1, most=3)
    a, b = m.array(d, shape), m.array(d, shape)
    axis = m.rng.randint(-len(shape), -1)
    return Call(
        [a, b],
        lambda x, y: hop.vecdot(x, y, axis=axis),
        lambda x, y: np.asarray(np.vecdot(x, y, axis=axis)),
        30 * rounding(a),
        f"axis={axis}",
    )


@row
def einsum(m):
    subscripts = m.rng.choice(
        [
            "ij,jk->ik", "ij,ij->", "i,j->ji", "bij,bjk->bki", "ii->i", "ij->j", "ij,j,k->ik",
            "...i,...i->...", "aab->b",
        ]
    )
    sizes, d = (
        {letter: m.rng.randint(0 if m.rng.random() < 0.1 else 1, 4) for letter in "abijk"},
        m.dtype(NUMBERS),
    )
    before = m.shape(most=2)
    arrays = [
        m.array(
            d,
            tuple(
                itertools.chain(before if "..." in part else (), (sizes[c] for c in part.replace(".", "")))
            ),
        )
        for part in subscripts.split("->")[0].split(",")
    ]
    return Call(
        arrays,
        lambda *v: hop.einsum(subscripts, *v),
        lambda *v: np.asarray(np.einsum(subscripts, *v)),
        60 * rounding(arrays[0]),
        subscripts,
    )


@row
def outer(m):
    d = m.dtype(NUMBERS)
    return Call([m.array(d, m.shape(1, 1)), m.array(d, m.shape(1, 1))], hop.linalg.outer, np.outer)


@row
def cross(m):
    d, shape = m.dtype(SIGNED + FLOATS), list(m.shape(most=3, least=1))
    axis = m.axis(len(shape))
    shape[axis] = 3
    a, b = m.array(d, tuple(shape)), m.array(d, tuple(shape))
    return Call(
        [a, b],
        lambda x, y: hop.linalg.cross(x, y, axis=axis),
        lambda x, y: np.cross(x, y, axis=axis),
        30 * rounding(a),
        f"axis={axis}",
    )


@row
def vector_norm(m):
    a = m.array(m.dtype(("f4", "f8")), m.shape(zeros=False))
    axis, keepdims = m.axes(a.ndim), m.flag()
    axis = None if axis == () else axis
    order = m.rng.choice([0, 1, 2, 3, 0.5, -1, -2, math.inf, -math.inf])

    def theirs(x):
        size = np.abs(x)
        if math.isinf(order):
            return np.asarray((np.max if order > 0 else np.min)(size, axis=axis, keepdims=keepdims))
        if order == 0:
            return np.asarray(np.sum(size != 0, axis=axis, keepdims=keepdims).astype(x.dtype))
        return np.asarray(
            (np.sum(size.astype("f8") ** order, axis=axis, keepdims=keepdims) ** (1 / order)).astype(x.dtype)
        )

    return Call(
        [a],
        lambda x: hop.linalg.vector_norm(x, axis=axis, keepdims=keepdims, ord=order),
        theirs,
        40 * rounding(a),
        f"axis={axis}, ord={order}",
    )


@row
def many_axes(m):
    """Up to 32 axes, most of size 1."""
    shape = [1] * m.rng.randint(13, 32)
    for n in m.rng.choices((0, 2, 3), (1, 9, 9), k=4):
        shape[m.rng.randrange(len(shape))] = n
    a = m.array(m.dtype(INTEGERS), tuple(shape))
    order, axes = m.rng.sample(range(a.ndim), a.ndim), tuple(m.rng.sample(range(a.ndim), 5))
    ours = lambda x: (  # noqa: E731
        hop.permute_dims(x, order) + hop.permute_dims(x, order),
        hop.sum(x, axis=axes),
        hop.flip(x, axis=axes),
        hop.concat([x, x], axis=axes[0]),
    )
    return Call(
        [a],
        ours,
        lambda x: (
            np.transpose(x, order) * a.dtype.type(2),
            np.asarray(np.sum(x, axis=axes)),
            np.flip(x, axis=axes),
            np.concatenate([x, x], axis=axes[0]),
        ),
        said=f"{order} {axes}",
    )


# ---- making arrays ----


@row
def arange(m):
    if m.flag():
        bounds = [m.rng.randint(-20, 20) for _ in range(m.rng.randint(1, 2))]
        bounds += [m.rng.choice([-3, -1, 1, 2, 7])] if len(bounds) == 2 else []
        return Call([], lambda: hop.arange(*bounds), lambda: np.arange(*bounds), said=str(bounds))
    start, step = m.rng.choice([0.0, -2.5, 0.25]), m.rng.choice([0.5, 1.0, -0.25])
    stop = start + step * m.rng.randint(-3, 20)
    return Call(
        [],
        lambda: hop.arange(start, stop, step, dtype=hop.float64),
        lambda: np.arange(start, stop, step),
        said=f"{start} {stop} {step}",
    )


@row
def linspace(m):
    start, stop, num, endpoint = (
        m.rng.uniform(-9, 9),
        m.rng.uniform(-9, 9),
        m.rng.choice([0, 1, 2, 7, 50]),
        m.flag(),
    )
    return Call(
        [],
        lambda: hop.linspace(start, stop, num, endpoint=endpoint, dtype=hop.float64),
        lambda: np.linspace(start, stop, num, endpoint=endpoint),
        1e-15,
        f"{start} {stop} {num} {endpoint}",
    )


@row
def eye(m):
    rows, columns, k, d = (
        m.rng.randint(0, 4),
        m.rng.choice([None, 0, 1, 3, 5]),
        m.rng.randint(-6, 6),
        m.dtype(),
    )
    return Call(
        [],
        lambda: hop.eye(rows, columns, k=k, dtype=np.dtype(d).name),
        lambda: np.eye(rows, columns, k, dtype=d),
        said=f"{rows} {columns} k={k} {d}",
    )


# ---- the test ----


class Random(Case):
    def results(self, found, expected, call, said):
        if isinstance(expected, (tuple, list)):
            self.assertEqual(len(found), len(expected), said)
            for x, y in zip(found, expected):
                self.results(x, y, call, said)
            return
        expected = np.asarray(expected)
        self.assertIsInstance(found, hop.Array, said)
        self.assertEqual((found.shape, found.dtype.name), (expected.shape, expected.dtype.name), said)
        found = np.asarray(found)
        if expected.dtype.kind != "f":
            np.testing.assert_array_equal(found, expected, said)
            return
        finite = np.isfinite(expected)
        np.testing.assert_array_equal(np.where(finite, 0, found), np.where(finite, 0, expected), said)
        a, b = found[finite].astype("f8"), expected[finite].astype("f8")
        if b.size:
            scale = 0
            if call.tolerance:
                given = [x[np.isfinite(x)].astype("f8") for x in call.arrays if x.size]
                scale = max(np.abs(b).max(), *(np.abs(x).max(initial=0) for x in given), 0)
            worst = np.abs(a - b).max()
            self.assertLessEqual(worst, call.tolerance * scale, f"{said}: {found} against {expected}")

    def attempt(self, name, seed):
        call = ROWS[name](Maker(f"{name} {seed}"))
        types = ", ".join(f"{a.dtype}{a.shape}" for a in call.arrays)
        said = f"HOP_TEST_SEED={seed}: {name} {call.said} of {types}: {call.arrays}"
        with np.errstate(all="ignore"):
            try:
                expected = call.theirs(*call.arrays)
            except (ValueError, TypeError, IndexError) as error:
                expected = error
        for how in (call.ours, hop.jit(call.ours)):
            with self.subTest(said):
                if isinstance(expected, Exception):
                    with self.assertRaises(
                        (ValueError, TypeError, IndexError, hop.Error), msg=f"{said}: NumPy says {expected}"
                    ):
                        how(*map(hop.asarray, call.arrays))
                    continue
                traced = call.arrays if how is call.ours else [hop.asarray(a) for a in call.arrays]
                self.results(how(*traced), expected, call, said)

    def test_axes_that_are_not_there(self):
        x, i = hop.ones((2, 3)), hop.zeros((2, 3), dtype=hop.int64)
        calls = {
            name: lambda a, f=getattr(hop, name): f(x, axis=a)
            for name in (
                "sum prod mean var std max min any all argmax argmin count_nonzero logsumexp softmax "
                "log_softmax cumulative_sum cumulative_prod cumulative_max cumulative_min "
                "cumulative_logsumexp diff sort argsort squeeze flip unstack"
            ).split()
        }
        calls |= {
            "var of a fraction": lambda a: hop.var(x, axis=a, correction=0.5),
            "repeat": lambda a: hop.repeat(x, 2, axis=a),
            "repeat by array": lambda a: hop.repeat(x, hop.asarray([1, 2]), axis=a),
            "roll": lambda a: hop.roll(x, 1, axis=a),
            "take": lambda a: hop.take(x, i[0], axis=a),
            "take_along_axis": lambda a: hop.take_along_axis(x, i, axis=a),
            "concat": lambda a: hop.concat([x, x], axis=a),
            "split": lambda a: hop.split(x, 1, axis=a),
            "moveaxis from": lambda a: hop.moveaxis(x, a, 0),
            "moveaxis to": lambda a: hop.moveaxis(x, 0, a),
            "swapaxes": lambda a: hop.swapaxes(x, 0, a),
            "permute_dims": lambda a: hop.permute_dims(x, (0, a)),
            "vecdot": lambda a: hop.vecdot(x, x, axis=a),
            "tensordot": lambda a: hop.tensordot(x, x, axes=([a], [0])),
            "top_k": lambda a: hop.top_k(x, 1, axis=a),
            "cross": lambda a: hop.linalg.cross(x, x, axis=a),
            "vector_norm": lambda a: hop.linalg.vector_norm(x, axis=a),
            "linear_recurrence": lambda a: hop.linear_recurrence(x, x, axis=a),
            "sum of several": lambda a: hop.sum(x, axis=(0, a)),
            "flip of several": lambda a: hop.flip(x, axis=(0, a)),
            "expand_dims": lambda a: hop.expand_dims(x, a + 1 if a > 0 else a - 1),
            "stack": lambda a: hop.stack([x], axis=a + 1 if a > 0 else a - 1),
        }
        for name, call in calls.items():
            for axis in (2, -3, 99):
                with self.subTest(name, axis=axis):
                    with self.assertRaisesRegex((ValueError, IndexError), "axis|axes|place"):
                        call(axis)
                    with self.assertRaisesRegex((ValueError, IndexError), "axis|axes|place"):
                        hop.jit(lambda v, call=call, axis=axis: (call(axis), v)[1])(x)
        for axis in (1.0, "0"):
            with self.assertRaises(TypeError):
                hop.diff(x, axis=axis)

    def test_counts_and_choices(self):
        x = hop.ones((2, 3))
        for bad, words in {
            lambda: hop.repeat(x, hop.asarray([1, 2, 3]), axis=0): "3 counts for 2",
            lambda: hop.repeat(x, hop.asarray([1, -2]), axis=0): "found -2",
            lambda: hop.repeat(x, -1): "-1",
            lambda: hop.diff(x, n=-1): "found -1",
            lambda: hop.searchsorted(x[0], 1.0, side="middle"): "middle",
            lambda: hop.roll(x, (1, 2), axis=(0,)): "2 shifts for 1 axes",
            lambda: hop.roll(x, (1, 2), axis=0): "2 shifts",
            lambda: hop.roll(x, (1, 2)): "2 shifts",
            lambda: hop.moveaxis(x, (0, 1), (0,)): "moveaxis: expected as many places as axes",
            lambda: hop.moveaxis(x, (0, 0), (0, 1)): "twice",
            lambda: hop.moveaxis(x, (0, 1), (1, 1)): "twice",
            lambda: hop.tensordot(x, x, axes=3): "as many axes as both have, found 3",
            lambda: hop.tensordot(x, x, axes=-1): "found -1",
            lambda: hop.unstack(hop.asarray(1.0)): r"an axis of f32\[\]",
            lambda: hop.argmax(hop.zeros((0, 2)), axis=0): "no elements",
            lambda: hop.argmin(hop.zeros((0, 2))): "no elements",
            lambda: hop.arange(0.0, math.inf): "finite",
            lambda: hop.expand_dims(x, (0, 0)): "twice",
        }.items():
            with self.assertRaisesRegex(ValueError, words):
                bad()
        with self.assertRaisesRegex(TypeError, "complex"):
            hop.full((2,), 1j)
        self.equal(hop.repeat(hop.asarray([1, 2]), hop.asarray([3])), [1, 1, 1, 2, 2, 2])
        self.equal(hop.argmax(hop.asarray([False, True, True])), 1)
        self.equal(hop.max(hop.asarray([[False, True], [False, False]]), axis=1), [True, False], hop.bool)
        self.equal(hop.asarray([True, False]) ** hop.asarray([True, True]), [1, 0])

    @needs_numpy
    def test_against_numpy(self):
        one = os.environ.get("HOP_TEST_SEED")
        for seed in [int(one)] if one else range(SEEDS):
            for name in ROWS:
                self.attempt(name, seed)


if __name__ == "__main__":
    unittest.main()
