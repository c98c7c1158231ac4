"""Random indexing expressions and updates against NumPy's. A seed makes one expression; HOP_TEST_SEED=N
runs that one alone, HOP_TEST_SEEDS=N that many."""

import os
import random
import unittest

import hop
from support import Case, needs_numpy, numpy

SEEDS = int(os.environ.get("HOP_TEST_SEEDS", "300"))


def a_slice(rng, n):
    def end():
        return rng.choice([None, rng.randint(-n - 2, n + 2)])

    return slice(end(), end(), rng.choice([None, 1, 1, 2, 3, -1, -1, -2, -n - 1]))


def an_array(rng, n, shape):
    """Positions along an axis of size n, some negative, as NumPy array, list or hop array."""
    numbers = numpy.array(
        [rng.randrange(-n, n) for _ in range(int(numpy.prod(shape, dtype=int)))],
        dtype=rng.choice(["i8", "i4", "i2"]),
    ).reshape(shape)
    return rng.choice([numbers, numbers, numbers.tolist() if numbers.ndim and numbers.size else numbers])


def a_mask(rng, shape):
    return numpy.array(
        [rng.random() < 0.5 for _ in range(int(numpy.prod(shape, dtype=int)))], dtype=bool
    ).reshape(shape)


def a_key(rng, shape):
    """A key that fits an array of this shape."""
    items, axis, ellipsis = [], 0, False
    broadcast = rng.choice([(), (3,), (2, 1), (1, 3), (2, 3)])
    arrays = rng.random() < 0.5  # NumPy has rules of its own for keys with arrays: half of the keys have none
    while axis < len(shape):
        n = shape[axis]
        kind = rng.choice(
            [
                "int",
                "slice",
                "slice",
                "slice",
                "new",
                "stop",
                "ellipsis",
                *(["array", "array", "mask"] if arrays else []),
            ]
        )
        if kind == "stop":
            break
        if kind == "new":
            items.append(None)
            continue
        if kind == "ellipsis":
            if not ellipsis:
                items.append(Ellipsis)
                ellipsis = True
                axis += rng.randint(0, len(shape) - axis)
            continue
        if kind == "int" and n:
            items.append(rng.choice([int, numpy.int64, numpy.int8])(rng.randrange(-n, n)))
            axis += 1
        elif kind == "array" and n:
            part = rng.choice([broadcast, broadcast[-1:], ()])
            items.append(an_array(rng, n, part))
            axis += 1
        elif kind == "mask" and not any(isinstance(i, (numpy.ndarray, list)) for i in items):
            deep = rng.randint(1, min(2, len(shape) - axis))
            items.append(a_mask(rng, shape[axis : axis + deep]))
            axis += deep
            arrays = False  # what a mask picks rarely broadcasts with other arrays
        else:
            items.append(a_slice(rng, n))
            axis += 1
    return items[0] if len(items) == 1 and rng.random() < 0.5 else tuple(items)


def as_hop(key):
    """The same key with hop's arrays."""
    if isinstance(key, tuple):
        return tuple(as_hop(k) for k in key)
    return hop.asarray(key) if isinstance(key, numpy.ndarray) else key


def duplicates(shape, key):
    """Whether the key names an element twice."""
    picked = numpy.arange(int(numpy.prod(shape, dtype=int))).reshape(shape)[key].ravel()
    return len(set(picked.tolist())) < picked.size


UPDATES = {
    "set": None, "add": "add", "subtract": "subtract", "mul": "multiply", "min": "minimum", "max": "maximum",
}


class Random(Case):
    def attempt(self, seed):
        rng = random.Random(seed)
        shape = tuple(
            rng.choice([0, 1, 2, 3, 4, 5]) if rng.random() < 0.5 else rng.randint(2, 5)
            for _ in range(rng.choice([1, 1, 2, 2, 2, 3, 3, 4]))
        )
        dtype = rng.choice(["f8", "f4", "i8", "i4", "u1"])
        a = numpy.arange(int(numpy.prod(shape, dtype=int)), dtype=dtype).reshape(shape)
        if rng.random() < 0.3:  # memory that is not row-major
            a = numpy.asarray(a.T.copy()).T
        if rng.random() < 0.2:
            a = a[..., ::-1]
        key = a_key(rng, shape)
        said = f"seed {seed}: {dtype}{shape}[{key!r}]"
        try:
            expected = numpy.asarray(a[key])
        except IndexError:
            return False
        x = hop.asarray(a)
        with self.subTest(said):
            self.same(x[key], expected)
            self.same(hop.jit(lambda v: v[as_hop(key)])(x), expected)
        mode = rng.choice(list(UPDATES))
        value = rng.choice([1, 3, numpy.asarray(expected + 1, dtype=dtype), numpy.asarray(2, dtype=dtype)])
        if isinstance(value, numpy.ndarray) and value.ndim and rng.random() < 0.3:
            value = value[:1]  # broadcast along the first axis
        after = a.copy()
        if UPDATES[mode] is None:
            if duplicates(shape, key):
                value = 3  # which of several values wins is nobody's promise
            after[key] = value
        else:
            getattr(numpy, UPDATES[mode]).at(after, key, value)
        before = a.copy()
        with self.subTest(f"{said}, {mode} {value!r}"):
            self.same(getattr(x.at[key], mode)(value), after)
            self.same(hop.jit(lambda v: getattr(v.at[as_hop(key)], mode)(value))(x), after)
            self.same(x, before)
            if mode == "set":
                y = hop.asarray(a, copy=True)
                y[key] = value
                self.same(y, after)
            elif mode == "add" and not duplicates(shape, key):
                y = hop.asarray(a, copy=True)
                y[key] += value
                self.same(y, after)
        numpy.testing.assert_array_equal(a, before)  # nothing was written to NumPy's memory
        return True

    @needs_numpy
    def test_against_numpy(self):
        one = os.environ.get("HOP_TEST_SEED")
        tried = sum(self.attempt(seed) for seed in ([int(one)] if one else range(SEEDS)))
        self.assertGreater(tried, 0 if one else 0.8 * SEEDS)


if __name__ == "__main__":
    unittest.main()
