"""What programs are kept under: values that Python takes for equal but programs can tell apart are
different programs; values that are the same are one."""

import collections
import dataclasses
import decimal
import enum
import math
import queue
import struct
import unittest

import hop
from support import Case, needs_numpy, numpy

NAN, OTHER_NAN = struct.unpack("2d", struct.pack("2Q", 0x7FF8000000000000, 0x7FF8000000000001))


RUNS = []


class Level(enum.IntEnum):
    LOW = 1


class Text(str, enum.Enum):
    A = "a"


class Real(float):
    pass


Pair = collections.namedtuple("Pair", "a b")
Other = collections.namedtuple("Other", "a b")


@dataclasses.dataclass(frozen=True)
class Settings:
    scale: object
    name: str = dataclasses.field(default="", compare=False)


@dataclasses.dataclass(frozen=True)
class Rounded:
    """Says itself what is equal."""

    scale: float

    def __eq__(self, other):
        return round(self.scale) == round(other.scale)

    def __hash__(self):
        return hash(round(self.scale))


class Named:
    def __init__(self, name):
        self.name = name

    def __eq__(self, other):
        return self.name == other.name

    def __hash__(self):
        return hash(self.name)


class Renamed(Named):
    pass


# Equal for Python, and most have one hash; a program can tell each from all others of its row.
APART = [
    [0.0, -0.0, 0, False, Real(0.0), Real(-0.0)],
    [1, 1.0, True, Level.LOW, 1 + 0j, decimal.Decimal(1), decimal.Decimal("1.0"), Real(1)],
    [(1,), (1.0,), (True,), (Level.LOW,)],
    [((0.0,), "a"), ((-0.0,), "a"), ((0,), "a"), ((0.0,), Text.A)],
    [(1, 2), Pair(1, 2), Other(1, 2), Pair(1.0, 2), Pair(True, 2)],
    [frozenset((0, 2)), frozenset((0.0, 2)), frozenset((-0.0, 2)), frozenset((False, 2))],
    ["a", Text.A],
    [0j, complex(-0.0, 0.0), complex(0.0, -0.0)],
    [range(0, 3, 2), range(0, 4, 2)],
    [
        Settings(0.0),
        Settings(-0.0),
        Settings(0),
        Settings((0.0,)),
        Settings((-0.0,)),
        Settings(Settings(0.0)),
        Settings(Settings(-0.0)),
    ],
    [Named("a"), Renamed("a")],
    [NAN, -NAN, OTHER_NAN],
]

# One program serves all of a row.
TOGETHER = [
    lambda: float("nan"),
    lambda: (float("nan"), [0.5][0] * 2),
    lambda: 10**30,
    lambda: "".join(["a", "b"]),
    lambda: Settings(1.5, name=str(object())),
    lambda: Rounded(0.75),
    lambda: Named("a"),
    lambda: frozenset([1.5, "a"]),
    lambda: (None, b"a", ()),
]


def told(value):
    """Everything that a program can learn about a value, as text."""
    if isinstance(value, (tuple, frozenset)):
        return f"{type(value).__name__}({sorted(map(told, value))})"
    if isinstance(value, float):
        return f"{type(value).__name__}:{struct.pack('d', value).hex()}"
    if isinstance(value, complex):
        return f"{told(value.real)} {told(value.imag)}"
    if dataclasses.is_dataclass(value):
        return f"{type(value).__name__}({told(value.scale)})"
    return f"{type(value).__name__}:{value!r}" if not isinstance(value, Named) else type(value).__name__


class Programs(Case):
    """A function that counts its captures and gives back a number for each value that it was captured
    with."""

    def counted(self, **options):
        seen, numbers = [], queue.SimpleQueue()

        def function(x, s):
            seen.append(told(s))
            numbers.put(None)
            return x + numbers.qsize()

        return hop.jit(function, **options), seen

    def check_apart(self, call, seen, values):
        numbers = {}
        for _ in range(3):  # the first call of each captures, later ones are quick
            for value in values:
                got = call(value)
                text = told(value)
                self.assertEqual(
                    numbers.setdefault(text, got), got, f"{value!r} ran a program of another value"
                )
                self.assertEqual(seen[got - 1], text)
        self.assertEqual(len(seen), len(set(map(told, values))))

    def test_static_arguments_that_python_takes_for_equal(self):
        for row in APART:
            for values in (row, row[::-1]):
                with self.subTest(values=values):
                    f, seen = self.counted(static_argnums=1)
                    self.check_apart(lambda s: int(f(hop.asarray(0), s)), seen, values)

    def test_static_arguments_by_name(self):
        for row in APART:
            with self.subTest(values=row):
                f, seen = self.counted(static_argnames="s")
                self.check_apart(lambda s: int(f(hop.asarray(0), s=s)), seen, row)

    def test_equal_values_share_a_program(self):
        for make in TOGETHER:
            with self.subTest(value=make()):
                f, seen = self.counted(static_argnums=1)
                for _ in range(4):
                    f(hop.asarray(0), make())
                self.assertEqual(len(seen), 1)

    def test_a_class_says_itself_what_is_equal(self):
        f, seen = self.counted(static_argnums=1)
        f(hop.asarray(0), Rounded(0.75))
        f(hop.asarray(0), Rounded(1.25))
        self.assertEqual(len(seen), 1)
        f(hop.asarray(0), Rounded(1.75))
        self.assertEqual(len(seen), 2)

    @needs_numpy
    def test_scalars_of_numpy(self):
        rows = [
            [numpy.float64(0.0), numpy.float64(-0.0), 0.0, -0.0, numpy.float32(0.0), numpy.float32(-0.0)],
            [numpy.int32(1), numpy.int64(1), 1, numpy.bool_(True), True],
        ]
        for row in rows:
            numbers = queue.SimpleQueue()
            f = hop.jit(lambda x, s: x + (numbers.put(s) or numbers.qsize()), static_argnums=1)  # noqa: B023
            for _ in range(2):
                got = [int(f(hop.asarray(0), s)) for s in row]
                self.assertEqual(got, list(range(1, len(row) + 1)))

    def test_the_sign_of_zero_reaches_the_result(self):
        f = hop.jit(lambda x, s: hop.copysign(x, s), static_argnums=1)
        for _ in range(3):
            self.equal(f(hop.asarray(2.0), 0.0), 2.0)
            self.equal(f(hop.asarray(2.0), -0.0), -2.0)

    def test_number_and_truth(self):
        f = hop.jit(lambda x, s: x * s[0], static_argnums=1)
        x = hop.asarray([2], dtype=hop.int8)
        for _ in range(3):
            self.equal(f(x, (1,)), [2], hop.int8)
            self.assertEqual(f(x, (1.0,)).dtype.kind, "f")
            self.equal(f(x, (True,)), [2], hop.int8)

    def test_closures_and_defaults(self):
        x = hop.asarray(1.0)

        def closing(k):
            return hop.jit(lambda x: hop.copysign(x, k))

        def defaulting(k):
            def f(x, s=k):
                return hop.copysign(x, s)

            return hop.jit(f, static_argnums=1)

        for make in (closing, defaulting):
            for k in (0.0, -0.0, 0.0, -0.0):
                f = make(k)
                self.assertEqual([f(x).item() for _ in range(3)], [math.copysign(1, k)] * 3)
        k = 0.0
        f = hop.jit(lambda x: hop.copysign(x, k))
        for k in (0.0, -0.0, 0, 0.0, -0.0):
            self.assertEqual([f(x).item() for _ in range(3)], [math.copysign(1, k)] * 3)

    def test_a_closure_of_equal_numbers_is_quick(self):
        """A number that is computed anew is another object each time: the program is found by its value,
        and remembered under the new object."""
        RUNS.clear()

        def make(k):
            return hop.jit(lambda x: RUNS.append(k) or x * k)

        x = hop.ones(2)
        for _ in range(5):
            f = make(float(f"{1.5}"))
            slow = f._slow
            f(x)
            f._slow = None  # from here on a call that is not quick fails
            self.equal(f(x), [1.5, 1.5])
            f._slow = slow
        self.assertEqual(len(RUNS), 1)

    def test_keys_of_dicts(self):
        x = hop.asarray(1.0)
        f = hop.jit(lambda d: [hop.copysign(v, k) for k, v in d.items()])
        for _ in range(3):
            for k in (0.0, -0.0, 0, False):
                self.assertEqual(f({k: x})[0].item(), math.copysign(1, k))
        same = hop.jit(lambda d: d)
        for _ in range(3):
            for k in (1, 1.0, True, Level.LOW, "a", Text.A, "a\0", "a\0b", (1,), (1.0,)):
                found = list(same({k: x}))[0]
                self.assertEqual((type(found), found), (type(k), k))

    def test_keys_of_dicts_with_a_nul(self):
        x = hop.asarray(1.0)
        f = hop.jit(lambda d: hop.asarray(len("".join(d))))
        for _ in range(2):
            for keys in (("a",), ("a\0",), ("a", "b"), ("a\0b", "c"), ("a\0\0\0",)):
                self.assertEqual(f(dict.fromkeys(keys, x)).item(), len("".join(keys)))

    def test_what_nodes_keep(self):
        @hop.tree.register
        @dataclasses.dataclass
        class Scaled:
            x: object
            by: object = dataclasses.field(metadata={"static": True})

        class Custom:
            def __init__(self, x, by):
                self.x, self.by = x, by

        hop.tree.register(Custom, lambda n: ((n.x,), n.by), lambda by, xs: Custom(xs[0], by))
        for cls in (Scaled, Custom):
            f = hop.jit(lambda n: hop.copysign(n.x, n.by))
            g = hop.jit(lambda n: n)
            for _ in range(3):
                for by in (0.0, -0.0, 0):
                    self.assertEqual(f(cls(hop.asarray(1.0), by)).item(), math.copysign(1, by))
                    self.assertEqual(told(g(cls(hop.asarray(1.0), by)).by), told(by))

    def test_branches_keep_the_same(self):
        @hop.tree.register
        @dataclasses.dataclass
        class Scaled:
            x: object
            by: float = dataclasses.field(metadata={"static": True})

        def f(p, x):
            return hop.cond(p, lambda x: Scaled(x, 0.0), lambda x: Scaled(x, -0.0), x)

        with self.assertRaisesRegex(hop.InvalidError, "structure"):
            hop.jit(f)(hop.asarray(True), hop.asarray(1.0))

    def test_callbacks(self):
        seen = []

        def note(d):
            seen.append([told(k) for k in d])

        @hop.jit
        def f(x):
            hop.debug_callback(note, {0.0: x})
            hop.debug_callback(note, {-0.0: x})
            hop.debug_callback(note, {0: x})
            return x

        f(hop.asarray(1.0))
        self.assertEqual(seen, [[told(0.0)], [told(-0.0)], [told(0)]])

    def test_structures(self):
        structure = hop.tree.structure
        self.assertEqual(structure({1: 5}), structure({1.0: 5}))  # as the dicts' keys are
        self.assertEqual(hash(structure({1: 5})), hash(structure({1.0: 5})))
        self.assertNotEqual(structure({1: 5}).key, structure({1.0: 5}).key)
        self.assertEqual(structure({"a": [1, (2,)]}).key, structure({"a": [3, (4,)]}).key)

    def test_what_is_not_hashable(self):
        f = hop.jit(lambda x, s: x, static_argnums=1)
        for value in ([1], ({},), (1, [2]), frozenset, Settings([1])):
            if value is frozenset:
                f(hop.ones(2), value)  # a class is a value like another
                continue
            with self.assertRaisesRegex(TypeError, "static arguments must be hashable"):
                f(hop.ones(2), value)


if __name__ == "__main__":
    unittest.main()
