"""Indices of every integer dtype, on axes longer than the dtype counts, at once and in programs, against
NumPy; u64 from 2^63 on lies beyond every end."""

import unittest

import hop
from support import Case, needs_numpy, numpy

DTYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
SIZE = 200
WAYS = {
    "at once": lambda f: f,
    "jit": hop.jit,
    "strict": lambda f: hop.jit(f, strict=True),
    "portable": lambda f: hop.jit(f, portable=True),
}


@needs_numpy
class IndexDtypes(Case):
    def setUp(self):
        self.x = numpy.arange(float(SIZE))
        self.array = hop.asarray(self.x)

    def indices(self, dtype):
        info = numpy.iinfo(dtype)
        return numpy.array(
            [i for i in (0, 5, 100, 127, 150, 199, 5, -1, -100, -128) if info.min <= i <= info.max],
            dtype=dtype,
        )

    def each(self):
        for dtype in DTYPES:
            for way, wrap in WAYS.items():
                with self.subTest(dtype=dtype, way=way):
                    yield self.indices(dtype), wrap

    def test_reading(self):
        table = numpy.arange(2.0 * SIZE).reshape(2, SIZE)
        for i, wrap in self.each():
            k = hop.asarray(i)
            self.same(wrap(lambda x, k: x[k])(self.array, k), self.x[i])
            self.same(wrap(lambda x, k: x.at[k].get())(self.array, k), self.x[i])
            self.same(wrap(lambda x, k: hop.take(x, k))(self.array, k), self.x[i])
            self.same(wrap(lambda x, k: hop.take(x, k, axis=1))(hop.asarray(table), k), table[:, i])
            self.same(wrap(lambda x, k: hop.take_along_axis(x, k, axis=0))(self.array, k), self.x[i])
            self.same(
                wrap(lambda x, k: x[hop.asarray([[0], [1]]), k])(hop.asarray(table), k), table[[[0], [1]], i]
            )

    def test_writing(self):
        table = numpy.arange(2.0 * SIZE).reshape(2, SIZE)
        for i, wrap in self.each():
            k = hop.asarray(i)
            for name, ufunc, value in (
                ("add", numpy.add, 2.0),
                ("multiply", numpy.multiply, 3.0),
                ("min", numpy.minimum, 4.0),
                ("max", numpy.maximum, 140.0),
            ):
                expected = self.x.copy()
                ufunc.at(expected, i, value)
                self.same(wrap(lambda x, k: getattr(x.at[k], name)(value))(self.array, k), expected)
            expected, wide = self.x.copy(), table.copy()
            expected[i], wide[:, i] = -1.0, 0.0
            self.same(wrap(lambda x, k: x.at[k].set(-1.0))(self.array, k), expected)
            self.same(wrap(lambda x, k: x.at[:, k].set(0.0))(hop.asarray(table), k), wide)

    def test_one_position(self):
        for i, wrap in self.each():
            get, cut = wrap(lambda x, k: x[k]), wrap(lambda x, k: hop.dynamic_slice(x, (k,), (3,)))
            put = wrap(lambda x, k: hop.dynamic_update_slice(x, hop.full((2,), -1.0, dtype=x.dtype), (k,)))
            for p in i:
                at, k = int(p) % SIZE, hop.asarray(p)
                self.same(get(self.array, k), numpy.asarray(self.x[p]))
                self.same(cut(self.array, k), self.x[min(at, SIZE - 3) :][:3])
                expected = self.x.copy()
                expected[min(at, SIZE - 2) :][:2] = -1.0
                self.same(put(self.array, k), expected)

    def test_gradients_and_lanes(self):
        for i, wrap in self.each():
            k, counts = hop.asarray(i), numpy.zeros(SIZE)
            numpy.add.at(counts, i, 1.0)
            self.same(wrap(hop.grad(lambda x, k: hop.sum(x[k])))(self.array, k), counts)
            self.same(wrap(hop.grad(lambda x, k: hop.sum(hop.take(x, k))))(self.array, k), counts)
            self.same(
                wrap(hop.grad(lambda u, x, k: hop.sum(x * x.at[k].add(u))))(
                    hop.ones(len(i), dtype=hop.float64), self.array, k
                ),
                self.x[i],
            )
            self.same(wrap(hop.vmap(lambda k, x: x[k], in_axes=(0, None)))(k, self.array), self.x[i])
            lanes = numpy.stack([self.x + numpy.eye(SIZE)[p] for p in i])
            self.same(wrap(hop.vmap(lambda k, x: x.at[k].add(1.0), in_axes=(0, None)))(k, self.array), lanes)

    def test_relatives(self):
        for i, wrap in self.each():
            k, most = hop.asarray(i), min(int(numpy.iinfo(i.dtype).max), SIZE)
            hot = numpy.stack(
                [numpy.eye(300, dtype=numpy.int64)[p] * (p >= 0) for p in i.astype(numpy.int64)]
            )
            self.same(wrap(lambda k: hop.one_hot(k, 300, dtype=hop.int64))(k), hot)
            number = hop.asarray(numpy.array(most, dtype=i.dtype))
            self.equal(
                wrap(lambda n: hop.fori_loop(n - n, n, lambda j, c: c + j, hop.asarray(0)))(number),
                most * (most - 1) // 2,
            )
            self.equal(
                wrap(
                    lambda n: hop.while_loop(
                        lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] + 1), (n - n, hop.asarray(0))
                    )[1]
                )(number),
                most,
            )
            self.equal(
                wrap(lambda n: hop.switch(n, [lambda v=v: hop.asarray(v) for v in range(SIZE + 1)]))(number),
                most,
            )
            line = numpy.sort(i)
            self.same(
                wrap(lambda s, k: hop.searchsorted(s, k))(hop.asarray(line), k), numpy.searchsorted(line, i)
            )
            self.equal(wrap(lambda k: hop.argmax(k))(k), int(numpy.argmax(i)))
            self.same(wrap(lambda k: hop.argsort(k))(k), numpy.argsort(i, kind="stable"))
        for dtype in DTYPES:
            self.same(
                hop.repeat(hop.arange(3), hop.asarray([100, 2, 100], dtype=getattr(hop, dtype))),
                numpy.repeat(numpy.arange(3), [100, 2, 100]),
            )

    def test_beyond_the_end(self):
        k, last = hop.asarray(numpy.array([2**63, 2**64 - 1, 5], dtype=numpy.uint64)), SIZE - 1
        counts = numpy.zeros(SIZE)
        counts[last], counts[5] = 2.0, 1.0
        written = self.x.copy()
        written[5] = -1.0
        for way, wrap in WAYS.items():
            with self.subTest(way=way):
                self.same(wrap(lambda x, k: x[k])(self.array, k), self.x[[last, last, 5]])
                self.same(wrap(lambda x, k: hop.take(x, k))(self.array, k), self.x[[last, last, 5]])
                self.same(wrap(lambda x, k: x.at[k].set(-1.0))(self.array, k), written)
                self.same(wrap(hop.grad(lambda x, k: hop.sum(x[k])))(self.array, k), counts)
                self.same(wrap(lambda x, k: x[k])(self.array, k[0]), numpy.asarray(self.x[last]))
                self.same(wrap(lambda x, k: hop.dynamic_slice(x, (k,), (3,)))(self.array, k[1]), self.x[-3:])
                self.equal(
                    wrap(lambda k: hop.switch(k, [lambda: hop.asarray(0), lambda: hop.asarray(1)]))(k[0]), 1
                )
                self.equal(hop.sum(wrap(lambda k: hop.one_hot(k, 9, dtype=hop.int64))(k)), 1)
                lanes = numpy.stack([self.x[-2:], self.x[-2:], self.x[5:7]])
                self.same(
                    wrap(hop.vmap(lambda k, x: hop.dynamic_slice(x, (k,), (2,)), in_axes=(0, None)))(
                        k, self.array
                    ),
                    lanes,
                )


if __name__ == "__main__":
    unittest.main()
