"""Arrays as text: the same as NumPy's, digit for digit and line for line, for every dtype and option."""

import math
import random
import unittest

import hop
from support import Case, needs_numpy, numpy

FLOATS = ("float16", "float32", "float64")
DTYPES = (*FLOATS, "bool", "int8", "int64", "uint8", "uint64")


def numpy_repr(a):
    """What NumPy shows, with the class's name and the dtype always there, as hop has them."""
    with numpy.printoptions():
        head = numpy.array2string(a, separator=", ", prefix="Array(", suffix=",") if a.size else "[]"
    options = numpy.get_printoptions()
    kind = f"dtype={a.dtype.name})"
    if a.size > options["threshold"] or (not a.size and a.shape != (0,)):
        kind = f"shape={a.shape}, {kind}"
    text = f"Array({head},"
    last = len(text) - (text.rfind("\n") + 1)
    fits = last + len(kind) + 1 <= options["linewidth"]
    return text + (" " if fits or not a.size else "\n" + " " * 6) + kind


class Printing(Case):
    def same_text(self, a):
        x = hop.asarray(a)
        self.assertEqual(repr(x), numpy_repr(a))
        self.assertEqual(str(x), str(a))
        self.assertEqual(f"{x}", str(x))

    @needs_numpy
    def test_random(self):
        draw = random.Random(0)
        for trial in range(1500):
            dtype = draw.choice(DTYPES)
            shape = tuple(draw.choice([0, 1, 2, 3, 5, 17]) for _ in range(draw.randint(0, 3)))
            n = math.prod(shape)
            scale = 10.0 ** draw.choice([-6, -3, 0, 0, 1, 4, 7, 9])
            numbers = [
                draw.choice([draw.gauss(0, scale), round(draw.gauss(0, scale), 2), draw.randint(-9, 9)])
                for _ in range(n)
            ]
            if dtype in FLOATS and draw.random() < 0.3:
                for _ in range(min(n, 2)):
                    numbers[draw.randrange(n)] = draw.choice(
                        [math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-5, 1e30]
                    )
            with numpy.errstate(all="ignore"):
                a = numpy.asarray(numbers, dtype="float64").reshape(shape)
                a = (a > 0 if dtype == "bool" else numpy.abs(a) if dtype[0] == "u" else a).astype(dtype)
            with self.subTest(trial=trial, dtype=dtype, a=a.tolist()):
                self.same_text(a)

    @needs_numpy
    def test_all_halves(self):
        a = numpy.arange(1 << 16, dtype=numpy.uint16).view(numpy.float16)
        for x in a[::7]:
            self.assertEqual(repr(hop.asarray(x)), numpy_repr(numpy.asarray(x)))

    @needs_numpy
    def test_digits(self):
        for dtype in FLOATS:
            for number in (
                1 / 3,
                2 / 3,
                0.1,
                1e-5 / 3,
                1e5 / 3,
                123456.789,
                1e8,
                99999999.0,
                65504.0,
                1e-7,
                5e-324,
                1.7976931348623157e308,
            ):
                with numpy.errstate(all="ignore"):
                    self.same_text(numpy.asarray(number, dtype=dtype))
        for numbers in ([1e-4], [1e-4, 0.1], [1e-4, 1.0], [1.0, 1000.0], [1.0, 1001.0], [0.001, 1.0]):
            for dtype in FLOATS:
                self.same_text(numpy.asarray(numbers, dtype=dtype))
        self.assertEqual(repr(hop.asarray(1 / 3, dtype=hop.float64)), "Array(0.33333333, dtype=float64)")
        self.assertEqual(str(hop.asarray(1 / 3, dtype=hop.float64)), "0.3333333333333333")
        self.assertEqual(repr(hop.asarray([0.1, 1 / 3])), "Array([0.1       , 0.33333334], dtype=float32)")

    def test_bfloat16(self):
        self.assertEqual(
            repr(hop.asarray([1.5, 0.1, -2.0], dtype=hop.bfloat16)),
            "Array([ 1.5, 0.1, -2. ], dtype=bfloat16)".replace(" 1.5, 0.1", " 1.5,  0.1"),
        )
        for text in ("0.1", "3.14", "1e+20", "1e-30", "0.3339"):
            number = hop.asarray(float(text), dtype=hop.bfloat16)
            self.assertEqual(hop.asarray(float(str(number)), dtype=hop.bfloat16).item(), number.item())

    @needs_numpy
    def test_long(self):
        for a in (
            numpy.arange(2000),
            numpy.arange(2000.0),
            numpy.arange(2000).reshape(2, 1000),
            numpy.arange(4096.0).reshape(16, 16, 16),
            numpy.arange(1001) / 7,
            numpy.zeros((2, 0, 3)),
            numpy.zeros(0, dtype="int8"),
            numpy.arange(30) * 1e5,
            numpy.ones((40, 3, 9)),
            numpy.arange(300) % 2 == 0,
        ):
            self.same_text(a)

    @needs_numpy
    def test_options(self):
        a = numpy.concatenate([numpy.linspace(-3, 1e3, 30), [1e-10]])
        for options in (
            {"precision": 3},
            {"precision": 0},
            {"precision": 17},
            {"suppress": True},
            {"suppress": True, "precision": 2},
            {"threshold": 5},
            {"threshold": 5, "edgeitems": 1},
            {"linewidth": 40},
            {"linewidth": 200},
            {"threshold": math.inf},
        ):
            theirs = {**options, "threshold": 10**9} if options.get("threshold") == math.inf else options
            with self.subTest(options), numpy.printoptions(**theirs), hop.printoptions(**options):
                self.same_text(a)
                self.same_text(a.astype("float32"))
                self.same_text(numpy.arange(12))
        before = hop.get_printoptions()
        self.assertEqual(
            before, {"precision": 8, "threshold": 1000, "edgeitems": 3, "linewidth": 75, "suppress": False}
        )
        with self.assertRaises(ZeroDivisionError), hop.printoptions(precision=2):
            self.assertEqual(str(hop.asarray([1 / 3])), "[0.33]")
            raise ZeroDivisionError
        hop.set_printoptions(precision=2, edgeitems=4)
        try:
            self.assertEqual(hop.get_printoptions(), {**before, "precision": 2, "edgeitems": 4})
            self.assertEqual(str(hop.asarray([1 / 3])), "[0.33]")
        finally:
            hop.set_printoptions(**before)
        for bad in ({"precision": -1}, {"precision": "many"}, {"suppress": 3}, {"threshold": 1.5}):
            with self.assertRaisesRegex(hop.InvalidError, "set_printoptions: " + next(iter(bad))):
                hop.set_printoptions(**bad)
        self.assertEqual(hop.get_printoptions(), before)


if __name__ == "__main__":
    unittest.main()
