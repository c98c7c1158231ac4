"""Each construct of the language under jit where it meets traced values: what it gives is what Python gives,
or it is refused with the variable, the line and the reason. Loops are in test_plain_loops.py."""

import contextlib
import functools
import itertools
import math
import operator
import sys
import unittest
from unittest import mock

import hop
import plain_programs
from hop import _flow
from plain_case import LONG, Language


class Branches(Language):
    def test_match_in_a_loop(self):
        """A case that the branches around know nothing of."""

        def fun(a, b):
            i = 0
            while True:
                i += 1
                if i > 3 or a < b:
                    break
                match i % 5:
                    case 2:
                        a = a + 1
                    case 0:
                        a = a * 2
                    case k if k > 0:
                        if a > 1:
                            b = b + 1
            return a, b

        self.same(fun, (10, 3), (7, 2), (1, 4))

    def test_match(self):
        def numbers(n):
            match n:
                case 0:
                    return 10
                case 1 | 2:
                    y = n * 100
                case k if k > 5:
                    y = -k
                case _:
                    y = n
            return y + 1

        self.same(numbers, 0, 1, 2, 3, 7)

        def structures(x, y):
            match (x, [y, 1.0, 2.0], {"k": y}):
                case (a, [b, *rest], {"k": c, **others}) if a > b:
                    return a + b + len(rest) + c + len(others)
                case (a, [b, _, d], _):
                    return a * d
            return 0.0

        self.same(structures, (2.0, 1.0), (1.0, 2.0))

        class Point:
            __match_args__ = ("x", "y")

            def __init__(self, x, y):
                self.x, self.y = x, y

        def points(x):
            match Point(x, 1.0):
                case Point(0.0, y=b):
                    return b
                case Point(a, b):
                    return a - b

        self.same(points, 0.0, 3.0)

        def leaves(xs):
            n = 0
            for x in xs:
                match (x > 0) + 0:
                    case 1:
                        n += 1
                        continue
                    case 0:
                        n += 10
                if x > 3:
                    break
            return n

        self.same(leaves, LONG)

    def test_walrus(self):
        def f(a, b):
            while (rest := a % b) != 0:
                a, b = b, rest
            if b > 2 and (twice := b * 2) < 100:
                return twice
            return -b

        self.same(f, (48, 36), (7, 13), (2, 4))

        def g(x):
            y = (z := x + 1) * 2 if x > 0 else (z := x - 1) * 3
            return y + z

        self.same(g, 1.0, -1.0)

        def h(x):
            n = 0
            while (x := x / 2) > 1 and n < 5:
                n += 1
                if n == 3:
                    continue
            else:
                n += 100
            return n + x

        self.same(h, 3.0, 100.0)

    def test_variables_of_one_branch(self):
        def f(x):
            if x > 0:
                y = x
            return y if x > 0 else 0.0

        self.same(f, 1.0, -1.0)

        def bare(x):
            if x > 0:
                y = x
            return y

        g = hop.jit(bare)
        self.assertEqual(g(hop.asarray(2.0)).item(), 2.0)
        with self.assertRaisesRegex(hop.CheckError, "y: it is bound in one branch of the if in line"):
            g(hop.asarray(-2.0))

    def test_deleted(self):
        def f(x):
            y = x
            if x > 0:
                del y
            else:
                y = y - 1
            return y if x <= 0 else 5.0

        self.same(f, 1.0, -1.0)

    def test_different_things(self):
        def none(x):
            if x > 0:
                y = None
            else:
                y = x
            return y

        def text(x):
            kind = "a"
            if x > 0:
                kind = "b"
            return kind

        def lengths(x):
            t = [x]
            if x > 0:
                t = [x, x]
            return t

        def shapes(x):
            y = x
            while y.sum() < 10:
                y = hop.concat([y, y])
            return y

        def order(x):
            table = {"a": x, "b": 1.0}
            if x > 0:
                table["a"] = table.pop("a") * 2
            return list(table)[0] == "a"

        self.refused(order, r"changes what is inside of table: .*a dict with the keys \['b', 'a'\]")
        self.refused(none, r"y: the if in line \d+ makes it None .* and a number f32\[\]")
        self.refused(text, r"kind: the if in line \d+ makes it 'b' .* and 'a'")
        self.refused(lengths, r"t: the if in line \d+ makes it a list of 2 .* and a list of 1")
        self.refused(shapes, r"y: a round of the while in line \d+ makes it an array f32\[4\]", [1.0, 2.0])

        def in_a_class(x):
            if x > 0:
                kind = "a"
            else:
                kind = "b"

            class Named:
                def which(self):
                    return 1.0 if kind is None else 2.0

            return Named().which()

        self.refused(in_a_class, "kind: the if in line")

        def unread(x):
            if x > 0:
                y = None
            else:
                y = x
            y = 3.0
            return y + x

        self.same(unread, 1.0, -1.0)

    def test_numbers_of_python_stay_such(self):
        def f(x, b):
            y = x
            if b > 2:
                y = 7.0 if x > 3 else 1
            return y

        self.same(f, (4.0, 3), (1.5, 3), (1.5, 1))
        for dtype in (hop.float32, hop.float64):
            self.assertEqual(hop.jit(f)(hop.asarray(4.0, dtype=dtype), hop.asarray(3)).dtype, dtype)

    def test_known_numbers_stay_known(self):
        def f(x):
            if x > 0:
                n, y = 3, x
            else:
                n, y = 3, -x
            return [y] * n

        self.same(f, 1.0, -1.0)

    def test_membership_and_identity(self):
        def f(n, xs):
            a = 1 if n in (1, 2, 5) else 0
            b = 2 if n not in [3, n + 1] else 0
            c = 4 if n in xs else 0
            d = 8 if (n > 2) is True else 0
            e = 16 if n in range(0, 10, 2) else 0
            return a + b + c + d + e + (32 if n is not None else 0)

        self.same(f, (1, [1, 2]), (3, [7, 8]), (4, [4, 2]))

    def test_items_by_traced_numbers(self):
        def f(n):
            return [10.0, 20.0, 30.0][n % 3] + (1, 2)[n > 1 and 1 or 0]

        self.same(f, 0, 1, 5)


    def test_keys(self):
        def chosen(x):
            return {True: 1.0, False: 2.0}[x > 0] + {0: x, 1: 5.0}[(x > 1) + 0]

        self.same(chosen, 1.0, -1.0, 2.0)
        self.refused(lambda x: len({x > 0, x > 1}), "cannot be a key of a dict, nor in a set")


class Attempts(Language):
    def test_deep_branches(self):
        """What a capture of a branch has learned, the captures of those around it know."""

        def f(x):
            row = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
            if x > 0:
                row[0] = x
                if x > 1:
                    row[1] = x
                    if x > 2:
                        row[2] = x
                        if x > 3:
                            row[3] = x
                            if x > 4:
                                row[4] = x
                                if x > 5:
                                    row[5] = x
            return sum(row)

        with mock.patch.object(_flow, "one_round", wraps=_flow.one_round) as rounds:
            self.same(f, (0.5,), (3.5,), (7.0,))
        self.assertLess(rounds.call_count, 100)  # of 12 branches, six of them within each other


class Functions(Language):
    def test_closures(self):
        def f(x):
            count, seen = 0, []

            def note(v, scale=2.0):
                nonlocal count
                if v > 0:
                    count += 1
                return v * scale

            y = note(x) if x > 1 else note(-x, scale=3.0)
            for k in range(3):
                seen.append(note(x - k))
            return y, count, seen

        self.same(f, 2.0, -2.0, 0.5)

    def test_methods(self):
        class Base:
            rate = 0.5

            def __init__(self, x):
                self.__x = x if x > 0 else -x

            @property
            def large(self):
                if self.__x > 2:
                    return 1.0
                return 0.0

            @classmethod
            def made(cls, x):
                return cls(x if x < 10 else 10.0)

            @staticmethod
            def cut(x):
                return x if x < 3 else 3.0

            def grown(self):
                if self.large:
                    return self.__private(2)
                return self.cut(self.__x)

            def __private(self, n):
                return self.__x * n if self.__x < 5 else n

        class Heir(Base):
            def grown(self):
                if self.large:
                    return super().grown() + 1
                return super().grown()

        def f(x):
            return Heir.made(x).grown() + Base(x).large

        self.same(f, 1.0, 4.0, -20.0)

    def test_functions_as_arguments(self):
        def positive(v):
            return v if v > 0 else 0.0

        def larger(a, b):
            if a > b:
                return a
            return b

        def f(x, y):
            a = functools.reduce(larger, map(positive, [x, y, x + y]))
            b = sum(map(functools.partial(larger, 1.0), (x, y)))
            c = sorted([x, y, 0.5], key=lambda v: -v if v > 1 else v)
            d = max([x, y], key=lambda v: v * v) + min(x, y, key=positive)
            e = sorted((x, y, 1.0), reverse=True)
            return a, b, c, d, e

        self.same(f, (1.0, 2.0), (-1.5, 3.0), (-1.0, -2.0))

        def over_rows(xs):
            return functools.reduce(larger, xs), sum(map(positive, xs)), functools.reduce(larger, xs, 100.0)

        self.same(over_rows, LONG)

    def test_numbers(self):
        def f(x):
            return (
                int(x), float(int(x)), bool(x), round(x), abs(x), divmod(x, 2), pow(x, 2), math.floor(x),
                math.sqrt(abs(x)), math.exp(x) if x < 1 else math.log(x), math.atan2(x, 2.0), round(x, 1),
            )  # fmt: skip

        self.same(f, 2.7, -2.7, 0.5, 2.5)

    def test_recursion(self):
        def power(x, n):
            if n == 0:
                return 1.0
            half = power(x, n // 2)
            return half * half * x if n % 2 else half * half

        def f(x):
            return power(x, 10) if x > 0 else power(-x, 3)

        self.same(f, 1.5, -1.5)

        def depth(x):
            def down(v, n):
                if n == 0:
                    return v
                if v > 100:
                    return down(v / 2, n - 1)
                return down(v * 2 + 1, n - 1)

            return down(x, 6)

        self.same(depth, 3.0, 90.0)

        def even(n):
            return True if n == 0 else odd(n - 1)

        def odd(n):
            return False if n == 0 else even(n - 1)

        self.refused(even, "calls itself under", 4)

    def test_generators(self):
        def around(v):
            for k in (-1, 0, 1):
                yield clip(v + k)

        def clip(v):
            if v > 2:
                return 2.0
            return v

        def f(x):
            t = 0.0
            for v in around(x):
                if v > 0:
                    t = t + v
            return t + max(around(x))

        self.same(f, 0.5, 3.0)

        def branching(x):
            def some():
                if x > 0:
                    yield x
                yield 1.0

            return sum(some())

        self.refused(branching, r"the if of a generator in line \d+ asks for the truth of a traced value")

    def test_any_and_all_stop(self):
        def f(x):
            asked = 0

            def note(v):
                nonlocal asked
                asked += 1
                return v

            found = any(s > note(x) for s in (x - 1, x + 1, x + 2))
            every = all(note(s) > x for s in (x + 1, x - 1, x + 2))
            return asked, found, every

        self.same(f, 1.0)

    def test_the_end_of_a_function(self):
        def f(x):
            y = 0.0

            def note(v):
                nonlocal y
                if v < 1:
                    return
                y = v * 3

            note(x)
            return y

        self.same(f, 0.0, 2.0)

        def some(x):
            if x > 0:
                return x

        g = hop.jit(some)
        self.assertEqual(g(hop.asarray(1.0)).item(), 1.0)
        with self.assertRaisesRegex(hop.CheckError, "some returns nothing here"):
            g(hop.asarray(-1.0))

        def endless(x):
            while True:
                x = x * 2
                if x > 100:
                    return x

        self.same(endless, 3.0)
        self.assertNotIn("check", str(hop.jit(endless).lower(3.0)))

    def test_flags_leave_no_trace(self):
        def relu(x):
            if x > 0:
                return x
            return 0.0

        self.assertNotIn("bool", hop.jit(relu).text(hop.asarray(1.0)).split("gt", 1)[1])

    def test_decorated(self):
        def clamped(f):
            @functools.wraps(f)
            def inside(*args, **named):
                y = f(*args, **named)
                return 10.0 if y > 10 else y

            return inside

        def f(x):
            @clamped
            def inner(v, *rest, scale=2.0):
                for r in rest:
                    if r > 0:
                        v = v + r * scale
                return v

            return inner(x, x + 1, -1.0, scale=0.5)

        self.same(f, 3.0, 30.0, -4.0)

    def test_async(self):
        async def helper(x):
            return x * 2 if x > 0 else -x

        def f(x):
            try:
                helper(x).send(None)
            except StopIteration as stop:
                return stop.value

        self.same(f, 2.0, -3.0)

    def test_operators(self):
        def f(x):
            return operator.not_(x > 0), operator.truth(x), operator.contains([1.0, 2.0], x)

        self.same(f, 1.0, -1.0, 0.0)

    def test_local_variables_by_name(self):
        def f(x):
            if x > 0:
                y = 1.0
            else:
                y = 2.0
            return locals()["y"]

        self.refused(f, "looks at its own variables")


class Exceptions(Language):
    def test_raise(self):
        def f(x):
            if x > 100:
                y = 1.0
            elif x > 10:
                z = x * 2
                raise ValueError(f"too large: {z.shape}")
            else:
                y = x
            return y

        g = hop.jit(f)
        self.assertEqual([g(hop.asarray(v)).item() for v in (1.0, 200.0)], [1.0, 1.0])
        with self.assertRaisesRegex(hop.CheckError, "ValueError: too large"):
            g(hop.asarray(50.0))

    def test_raise_in_a_helper(self):
        def fail(x):
            raise KeyError("no")

        def f(x):
            return fail(x) if x < 0 else x * 2

        g = hop.jit(f)
        self.assertEqual(g(hop.asarray(2.0)).item(), 4.0)
        with self.assertRaisesRegex(hop.CheckError, "KeyError"):
            g(hop.asarray(-2.0))

    def test_raise_in_a_loop(self):
        def f(xs):
            t = 0.0
            for x in xs:
                if x > 6:
                    t = t + 1
                    raise OverflowError
                t = t + x
            return t

        g = hop.jit(f)
        self.assertEqual(g(hop.asarray(LONG[:4] * 3)).item(), sum(LONG[:4] * 3))
        with self.assertRaisesRegex(hop.CheckError, "OverflowError"):
            g(hop.asarray(LONG))

    def test_handlers(self):
        def known(x):
            try:
                y = {"a": x}["b"]
            except KeyError as error:
                y = x if x > 0 else -x
                assert str(error)
            else:
                y = 0.0
            finally:
                z = 1.0
            return y + z

        self.same(known, 1.0, -1.0)

        def leaves(x):
            for k in range(3):
                try:
                    if x > k:
                        continue
                    if x < -1:
                        return -5.0
                except ValueError:
                    return 7.0
                else:
                    x = x + 0.25
                finally:
                    x = x * 2
            return x

        self.same(leaves, 0.5, 3.0, -3.0)

        def caught(x):
            try:
                if x < 0:
                    raise ValueError
                return x
            except (KeyError, ValueError):
                return 0.0

        def deep(x):
            def inner(v):
                if v > 0:
                    v = v * 2
                    raise ValueError("deep")
                return v

            try:
                return inner(x)
            except Exception:
                return 0.0

        def suppressed(x):
            y = 1.0
            with contextlib.suppress(ValueError):
                if x > 0:
                    raise ValueError
                y = 2.0
            return y

        said = r"raises ValueError, of which only a run knows, and the try in line \d+ catches"
        for fun in (caught, deep, suppressed):
            self.refused(fun, said)

        def swallowed(x):
            try:
                if x > 0:
                    y = None
                else:
                    y = x
                return y + 1
            except Exception:
                return 0.0

        self.refused(swallowed, "y: the if in line")

    def test_native_exception_in_a_branch(self):
        def f(x):
            try:
                y = {}["a"] if x > 0 else 1.0
            except KeyError:
                y = 2.0
            return y

        self.refused(f, "raises KeyError, of which only a run knows")

    def test_assert(self):
        def f(x):
            if x > 0:
                assert x < 10, "large"
            return x

        g = hop.jit(f)
        self.assertEqual([g(hop.asarray(v)).item() for v in (1.0, -20.0)], [1.0, -20.0])
        with self.assertRaisesRegex(hop.CheckError, "large"):
            g(hop.asarray(11.0))


class Others(Language):
    def test_globals(self):
        def f(x):
            global counted_by_f
            if x > 0:
                counted_by_f = 1
            return x

        self.refused(f, r"the if in line \d+ assigns the global variable counted_by_f")

    def test_finally_that_leaves(self):
        def f(x):
            try:
                if x > 0:
                    return 1.0
            finally:
                return 2.0

        self.refused(f, "finally in line .* leaves")

    def test_annotations(self):
        def f(x: float) -> float:
            y: float = 0.0
            z: int
            if x > 0:
                y: float = x
                z = 3
            else:
                z = 4
            return y + z

        self.same(f, 1.0, -1.0)

    def test_imports_and_classes(self):
        def f(x):
            if x > 0:
                import math as m

                y = m.pi
            else:
                y = 0.0
            return y + x

        self.same(f, 1.0, -1.0)

    def test_lines(self):
        def f(x):
            y = 1.0

            if x > 0:
                y = None
            return y + x

        first = f.__code__.co_firstlineno
        self.refused(f, f":{first + 5}: y: the if in line {first + 3} makes it None")

    def test_itertools(self):
        def f(x):
            t = 0.0
            for a, b in itertools.pairwise([x, 1.0, 2.0]):
                if a < b:
                    t = t + b - a
            return t

        self.same(f, 0.0, 5.0)

    def test_lambda_defaults(self):
        def f(x):
            fs = [lambda v, k=k: v * k if v > 0 else v + k for k in range(3)]
            return [g(x) for g in fs]

        self.same(f, 2.0, -2.0)


class Versions(Language):
    """Syntax of later versions of Python, where this is one."""

    def loaded(self, lines):
        return plain_programs.loaded("\n".join(lines) + "\n", f"<{self.id()} {len(lines)}>")

    def test_groups_of_exceptions(self):
        f = self.loaded([
            "def f(x):",
            "    try:",
            "        y = x if x > 0 else -x",
            "        raise ExceptionGroup('g', [ValueError(1), KeyError(2)])",
            "    except* ValueError as e:",
            "        y = y + len(e.exceptions)",
            "    except* KeyError:",
            "        if y > 2:",
            "            y = y * 2",
            "    return y",
        ])  # fmt: skip
        self.same(f, 3.0, -0.5)

    @unittest.skipIf(sys.version_info < (3, 12), "type parameters came with Python 3.12")
    def test_type_parameters(self):
        f = self.loaded([
            "class Box[T]:",
            "    def __init__(self, x: T):",
            "        self.x = x",
            "    def get[U](self, y: U) -> T:",
            "        return self.x if y > 0 else y",
            "def f[T](x: T, n: int = 3) -> T:",
            "    type Pair = tuple[T, T]",
            "    def inner[U](y: U) -> U:",
            "        if y > 0:",
            "            return y",
            "        return -y",
            "    if x > 1:",
            "        return inner(x) * 2",
            "    return inner(x) + Box(x).get(x)",
        ])  # fmt: skip
        self.same(f, 3.0, -0.5)


if __name__ == "__main__":
    unittest.main()
