"""Each construct of the language under jit where it meets traced values: what it gives is what Python gives,
or it is refused with the variable, the line and the reason."""

import bisect
import colorsys
import contextlib
import functools
import itertools
import math
import operator
import sys
import unittest

import hop
import plain_programs
from support import Case

LONG = [float((7 * i) % 13) - 5.5 for i in range(12)]


class Language(Case):
    def same(self, fun, *calls, places=4):
        """fun under jit is fun in Python. Lists among arguments are vectors."""
        g = hop.jit(fun)
        for args in calls:
            args = args if isinstance(args, tuple) else (args,)
            found = self.plain(g(*[hop.asarray(a) for a in args]))
            expected = self.plain(fun(*[hop.asarray(a) if isinstance(a, list) else a for a in args]))
            self.equal_plain(found, expected, f"{fun.__name__}{args}", places)

    def plain(self, x):
        if isinstance(x, (list, tuple)):
            return [self.plain(y) for y in x]
        if isinstance(x, dict):
            return {k: self.plain(v) for k, v in x.items()}
        return x.tolist() if hasattr(x, "tolist") else x

    def equal_plain(self, found, expected, said, places):
        if isinstance(expected, (list, dict)):
            self.assertEqual(len(found), len(expected), said)
            keys = expected if isinstance(expected, dict) else range(len(expected))
            for k in keys:
                self.equal_plain(found[k], expected[k], said, places)
        elif expected is None or isinstance(expected, str):
            self.assertEqual(found, expected, said)
        else:
            self.assertAlmostEqual(found, expected, places, said)

    def refused(self, fun, said, *args):
        with self.assertRaisesRegex(hop.Error, said):
            hop.jit(fun)(*map(hop.asarray, args or (1.0,)))


class Loops(Language):
    def test_hop_range(self):
        def power(x, n):
            y = 1.0
            for _ in hop.range(n):
                y = y * x
            return y

        self.same(power, (2.0, 5), (3.0, 0))

        def counted(x):
            total = x
            for i in hop.range(2, 20, 3):
                total = total * 0.5 + i
            return total, i

        self.same(counted, 1.0)
        self.assertLess(len(str(hop.jit(counted).lower(1.0))), 2000)
        self.assertEqual(list(hop.range(1, 7, 2)), [1, 3, 5])
        self.assertEqual((len(hop.range(5)), hop.range(5)[-1], 3 in hop.range(5)), (5, 4, True))
        with self.assertRaisesRegex(hop.Error, "step"):
            hop.range(1, 2, 0)

    def test_a_loop_over_rows_is_a_scan(self):
        def total(xs):
            t = 0.0
            for x in xs:
                t = t + x * x
            return t

        self.assertIn("scan", str(hop.jit(total).lower(hop.arange(20.0))))
        self.equal(hop.jit(hop.grad(total))(hop.arange(20.0)), [2.0 * i for i in range(20)])

    def test_enumerate_zip_reversed(self):
        def f(xs):
            t = 0.0
            for i, (a, b) in enumerate(zip(xs, reversed(xs)), 1):
                if a > b:
                    t = t + i * a
                else:
                    t = t - b
            return t

        self.same(f, LONG, LONG[:4])

        def g(xs):
            t = 0.0
            for a, k in zip(xs, [1, 2, 3]):
                t = t + a * k if a > 0 else t
            return t

        self.same(g, LONG)

        def short(xs):
            return [a * b for a, b in zip(xs, xs[2:])]

        self.same(short, LONG)

    def test_early_exits(self):
        def f(xs, limit):
            for i, x in enumerate(xs):
                if x > limit:
                    break
                if x < -3:
                    continue
                last = x
            else:
                return -1.0
            return i * 100 + x + last

        self.same(f, (LONG, 3.0), (LONG, 30.0), (LONG, 5.0))

        def nested(xs):
            for x in xs:
                for y in xs:
                    if x + y > 12.0:
                        return x * y
                    if y > 6:
                        break
                else:
                    continue
                if x > 4:
                    return x
            return 0.0

        self.same(nested, LONG)

    def test_values_behind_a_loop(self):
        def last(xs):
            for x in xs:
                y = x + 1
            return x, y

        self.same(last, LONG)

    def test_the_first_round_is_different(self):
        def best(xs):
            found = None
            for x in xs:
                if found is None or x > found:
                    found = x
            return found

        def joined(xs):
            t = ()
            for x in xs:
                t = (*t, x if x > 0 else -x)
            return t

        self.same(best, LONG, LONG[:3])
        self.same(joined, LONG)
        self.refused(joined, r"t: a round of the for in line \d+ makes it a tuple of", [0.5] * 100)

    def test_whole_numbers_become_real(self):
        def f(n):
            t = 0
            for i in range(n):
                t = t + i / 2
            return t

        self.same(f, 5, 0)

    def test_truth_becomes_a_number(self):
        def f(xs):
            n = False
            for x in xs:
                n = n + (x > 0)
            return n

        self.same(f, LONG)

    def test_while_true(self):
        def f(x):
            n = 0
            while True:
                x = x / 2
                n += 1
                if x < 1:
                    return n
                elif n > 20:
                    break
            return -x

        self.same(f, 100.0, 0.5, 1e9)

    def test_containers_as_state(self):
        def f(xs):
            seen = {"n": 0, "last": [0.0, 0.0]}
            for x in xs:
                if x > 0:
                    seen["n"] += 1
                    seen["last"][0], seen["last"][1] = x, seen["last"][0]
            return seen["n"], seen["last"]

        self.same(f, LONG)

    def test_the_order_of_keys(self):
        def f(xs):
            seen, other = {"up": 0, "down": 0}, {"z": 0.0, "a": [1.0, {"y": 1.0, "b": 2.0}]}
            for x in xs:
                if x > 0:
                    seen["up"] += 1
                    other = {"z": x, "a": [x, {"y": x, "b": 3.0}]}
                else:
                    seen["down"] += 1
            keys = [list(seen)[0] == "up", list(other)[0] == "z", list(other["a"][1])[0] == "y"]
            return keys, seen, other

        self.same(f, LONG)

    def test_an_object_of_the_function(self):
        class Box:
            pass

        def f(xs):
            box = Box()
            box.total = 0.0
            for x in xs:
                if x > 0:
                    box.total += x
            return box.total

        self.same(f, LONG)


class Stacks(Language):
    def test_append(self):
        def f(xs):
            out = []
            for x in xs:
                out.append(x * 2 if x > 0 else -x)
            return hop.stack(out), out[3], out[-1], len(out), sum(out)

        self.same(f, LONG, LONG[:4])

        def result(xs):
            out, t = [], 0.0
            for x in xs:
                t = t + x
                out.append((t, x))
            return out

        def more(xs):
            out = []
            for x in xs:
                out.append(x)
            out.append(7.0)
            for x in xs:
                out.append(x * 2)
            return out, isinstance(out, list), type(out) is list

        self.same(more, LONG)
        self.same(result, LONG)
        self.assertIs(type(hop.jit(result)(hop.asarray(LONG))), list)

    def test_twice_and_nested(self):
        def f(xs):
            out = []
            for x in xs:
                out.append(x)
                if x > 0:
                    out.append(x * 2)
                else:
                    out.append(-x)
            return out

        self.same(f, LONG)

        def g(xs):
            out = []
            for x in xs:
                row = []
                for y in xs:
                    row.append(x * y)
                out.append(hop.stack(row))
            return hop.stack(out)

        self.same(g, LONG)

        def h(xs):
            out = []
            for x in xs:
                for y in xs:
                    out.append(x - y)
            return hop.stack(out)

        self.same(h, LONG)

    def test_an_array_written_while_it_is_gone_over(self):
        def f(xs):
            t = 0.0
            for x in xs:
                xs[5] = 100.0
                t = t + x
            return t

        def written(w):
            w[5] = 100.0

        def hidden(xs):
            t = 0.0
            for x in xs:
                written(xs)
                t = t + x
            return t

        expected = f(hop.asarray(LONG)).item()
        self.assertEqual(hop.jit(lambda xs: f(xs + 0))(hop.asarray(LONG)).item(), expected)
        self.refused(lambda xs: hidden(xs + 0), r"the for in line \d+ goes over an array that a round", LONG)

    def test_refused(self):
        def sometimes(xs):
            out = []
            for x in xs:
                if x > 0:
                    out.append(x)
            return out

        def seen(xs):
            out = []
            other = {"a": out}
            for x in xs:
                out.append(x)
            return other

        def read(xs):
            out = []
            for x in xs:
                out.append(x + len(out))
            return out

        def unknown(n):
            out = []
            for i in range(n):
                out.append(i)
            return out

        self.refused(sometimes, "out", LONG)
        self.same(seen, LONG)  # there are few
        self.refused(seen, "out", [0.5] * 100)
        self.refused(unknown, "out", 3)
        self.refused(read, r"out: the for in line \d+ fills it", LONG)

    def test_comprehensions(self):
        def f(xs):
            ys = [x * x if x > 0 else x for x in xs]
            return hop.stack(ys), [y + 1 for y in ys][2], sum(y for y in ys), max(ys), min(y * 2 for y in ys)

        self.same(f, LONG, LONG[:4])

        def pairs(xs):
            return [x * k for x in xs for k in (1, 2)]

        self.same(pairs, LONG)

        def quantified(xs, limit):
            return any(x > limit for x in xs), all(x < limit for x in xs)

        self.same(quantified, (LONG, 3.0), (LONG, 9.0))

        def named(xs):
            return {i: x * 2 if x > 0 else x for i, x in enumerate(xs[:3])}

        self.same(named, LONG)
        def helper(v):
            return sum(k for k in (v, 1.0) if k > 2) + 1

        def filtered(x):
            return (
                sum(v for v in (x, 1.0, -2.0) if v > 0),
                any(1 / v > 0.4 for v in (x, 1.0, -2.0) if v > 0 if v < 5),
                all(v > 1 for v in (x, 2.0) if v > 0), sum(helper(v) for v in (x, 3.0) if v > 0.75),
            )  # fmt: skip

        def counting(x):
            n = 0

            def asks(v):
                nonlocal n
                n += 1
                return v > 0

            return sum(v for v in (x, 1.0) if asks(v)) + n

        self.same(filtered, 3.0, -1.0, 0.5)
        self.refused(counting, "a filter.* changes a variable")
        self.refused(lambda x: sum(v * w for v in (x, 1.0) for w in (x, 2.0) if w > 0), "a filter in line")
        self.refused(lambda x: sum(len([k for k in (v, 1.0) if k > 0]) for v in (x, 1.0)), "a filter in line")
        self.refused(lambda xs: [x for x in xs if x > 0], "a filter in line .* hop.where", LONG)
        self.refused(lambda xs: {x: 1 for x in xs[:2] if x > 0}, "a filter in line", LONG)


class Counted(Language):
    def test_functions_of_items(self):
        """What the functions of generator expressions change is carried."""
        uses = (
            lambda v, y, note: any(s > note(y) for s in v),
            lambda v, y, note: all(s < note(y) for s in v),
            lambda v, y, note: any(note(s) > y and note(s) < 3 for s in v),
            lambda v, y, note: sum(s * note(y) for s in v),
            lambda v, y, note: max(s * note(y) for s in v),
            lambda v, y, note: sum(map(note, v)),
            lambda v, y, note: [s + note(y) for s in v][3],
            lambda v, y, note: sum(1 if note(s) > y else 0 for s in v),
        )
        for use in uses:

            def fun(v, y):
                count = 0

                def note(p):
                    nonlocal count
                    count += 1
                    return p

                z = use(v, y, note)
                if y > 0 and any(s > note(y) for s in v):
                    y = y + 1
                return z, y, count

            self.same(fun, (LONG, 3.0), (LONG, -30.0), (LONG, 30.0))

    def test_tests_of_loops(self):
        """What the test of a while changes is carried, and the last time that it is asked counts."""

        def fun(a, n):
            count, i = 0, 0

            def note(p):
                nonlocal count
                count += 1
                return p

            while i < 5 and note(a) <= n:
                i += 1
                while a > 3 and note(a) > n:
                    a = a - 1
                a = a + 2
            return i, count, a

        self.same(fun, (1, 3), (9, 3), (0, 30))
        def plain(x):
            while x < 100:
                x = x * 2
            return x

        carried = hop.jit(plain).text(hop.asarray(3))
        self.assertRegex(carried, r"(?s)cond @going .*lt\(.*test\(")  # the test stays the loop's own


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


class Library(Language):
    def test_colorsys(self):
        cases = ((0.2, 0.4, 0.4), (0.5, 0.1, 0.9), (0.3, 0.3, 0.3), (0.9, 0.2, 0.6), (0.0, 1.0, 0.5))
        for name in ("rgb_to_hsv", "hsv_to_rgb", "rgb_to_hls", "hls_to_rgb", "rgb_to_yiq", "yiq_to_rgb"):
            self.same(getattr(colorsys, name), *cases)

    def test_bisect(self):
        row = [0.5, 1.0, 1.0, 2.5, 4.0]
        for fun in (bisect.bisect_left, bisect.bisect_right, bisect.bisect):
            f = hop.jit(fun)
            for x in (0.0, 1.0, 2.0, 4.0, 9.0):
                self.assertEqual(int(f(hop.asarray(row), hop.asarray(x))), fun(row, x))
                self.assertEqual(int(f(row, x)), fun(row, x))
                self.assertEqual(int(hop.jit(lambda v, fun=fun: fun(row, v))(hop.asarray(x))), fun(row, x))
        self.assertIn("while_", hop.jit(bisect.bisect_left).source())


if __name__ == "__main__":
    unittest.main()
