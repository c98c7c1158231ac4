"""Loops of plain Python under jit, what they fill and what they count: as in Python, or refused with the
variable, the line and the reason."""

import unittest

import hop
from plain_case import LONG, Language


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


class Constants(Language):
    def test_numbers_that_loops_begin_with(self):
        """They are part of the program, which may count the rounds."""

        def f(x):
            return hop.while_loop(lambda c: c[0] < 10, lambda c: (c[0] + 1, c[1] * x), (0, x))[1]

        self.assertRegex(hop.jit(f).lower(hop.asarray(2.0)).text(), r"fn @f\(%x: f32\[\]\)")
        with self.assertRaisesRegex(TypeError, r"carry\[0\]: 1180591620717411303424 does not fit"):
            hop.jit(lambda x: hop.while_loop(lambda c: c[0] < 9, lambda c: c, (2**70, x)))(hop.asarray(2.0))


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


if __name__ == "__main__":
    unittest.main()
