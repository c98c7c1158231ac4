"""The acceptance lists for hooks on gradients and for indexing by traced scalars, a test for each entry,
named after it; and that hooks nobody asks for cost nothing: the same machine code, byte for byte."""

import math
import re
import unittest

import hop
from support import Case, differences


def f64(x):
    return hop.asarray(x, dtype=hop.float64)


def text_of(f, *args):
    return hop.jit(f).lower(*args).function.text()


class Hooks(Case):
    def test_capturing_records_one_node_and_does_not_call_the_function(self):
        log = []
        f = lambda x: hop.hook(x, log.append, host=True)  # noqa: E731
        found = re.findall("custom {.*tangent = body}", text_of(f, f64([1.0, 2.0])))
        self.assertEqual((len(found), log), (1, []))
        self.assertIn("-> (f64[2])", text_of(f, f64([1.0, 2.0])))

    def test_a_run_calls_it_once_per_call_in_order(self):
        log = []
        note = lambda name: lambda g: log.append((name, g.item()))  # noqa: E731

        def f(x):
            y = hop.hook(2 * x, note("first"), host=True)
            return hop.hook(3 * y, note("second"), host=True)

        g = hop.jit(hop.grad(f))
        for _ in range(2):
            log.clear()
            g(1.0)
            self.assertEqual(log, [("second", 1.0), ("first", 3.0)])

    def test_other_types_are_reported_at_run_time_by_what_differs(self):
        said = {"another shape": lambda g: g[:1], "another dtype": lambda g: g.astype(hop.float32)}
        for part, f in {**said, "the structure": lambda g: [g]}.items():
            g = hop.jit(hop.grad(lambda x, f=f: hop.sum(hop.hook(x, f, host=True))))
            with self.subTest(part), self.assertRaisesRegex(hop.InvalidError, part):
                g(f64([1.0, 2.0]))

    def test_operands_that_are_no_arrays_pass(self):
        """There are no kinds of operands that are refused: what has no cotangent is handed on."""
        given = {"x": 2.0, "name": "text", "n": hop.asarray(3), "f": math.sin, "none": None}

        def f(x):
            t = hop.hook({**given, "x": x}, lambda g: None)
            return t["x"] * t["n"], (t["name"], t["f"], t["none"])

        g, more = hop.grad(f, has_aux=True)(2.0)
        self.close(g, 3.0)
        self.assertEqual(more, ("text", math.sin, None))

    def test_differentiating_through_a_host_function_fails_only_when_it_is_asked_for(self):
        f = lambda x: hop.hook(x, lambda g: 3 * g, host=True) ** 2  # noqa: E731
        second = lambda x: hop.jvp(hop.grad(f), (x,), (x,))  # noqa: E731
        self.close(hop.jit(hop.grad(f))(2.0), 12.0)
        with self.assertRaisesRegex(hop.CheckError, "what the derivative of the change is, nobody knows"):
            hop.jit(lambda x: second(x)[1])(2.0)

    def test_the_replacement_is_used_and_none_keeps_the_gradient(self):
        for host in (False, True):
            f = lambda x, h, host=host: hop.sin(hop.hook(2 * x, h, host=host))  # noqa: E731
            self.close(hop.grad(lambda x: f(x, lambda g: 5 * g))(f64(1.0)), 10 * math.cos(2.0))
            self.close(hop.grad(lambda x: f(x, lambda g: None))(f64(1.0)), 2 * math.cos(2.0))

    def test_a_chain_threads_its_results(self):
        for host in (False, True):
            hooks = [lambda g: g + 1, lambda g: None, lambda g: g * 10]
            f = lambda x, host=host: hop.hook(x, hooks, host=host) * 3  # noqa: E731
            self.close(hop.grad(f)(f64(1.0)), 40.0)

    def test_unused_results_do_not_remove_it(self):
        """What passes through the hook is dropped behind it, the call is made all the same."""
        log = []
        f = lambda x, y: hop.hook(hop.stop_gradient(x) * 0 + x, log.append, host=True) * y  # noqa: E731
        g = hop.jit(lambda x, y: hop.grad(f, (0, 1))(x, y)[1])
        self.close(g(2.0, 3.0), 2.0)
        self.assertEqual([v.item() for v in log], [3.0])


class Nothing(Case):
    """What nobody asks for costs nothing."""

    def same_code(self, with_hooks, without, *args):
        for strict in (False, True):
            made = []
            for f in (with_hooks, without):
                function = hop.jit(f).lower(*args).function
                found = {kind: function.emit(kind, strict=strict) for kind in ("asm", "llvm", "loops")}
                made.append({**found, "c": function.emit("c", name="same", strict=strict)})
            for kind in made[0]:
                plain = [re.sub(r"^source_filename.*|@\w+\b.*\n", "", m[kind]) for m in made]
                self.assertEqual(*plain, kind)

    def test_machine_code_is_the_same(self):
        def program(hook):
            def layer(x, w):
                y = hop.tanh(hook(x) @ hook(w))
                return hook(y)

            def f(x, w, n):
                x = hop.scan(lambda c, _: (hook(layer(c, w)), None), x, None, length=3)[0]
                x = hop.while_loop(lambda s: s[1] < n, lambda s: (hook(s[0] * 2), s[1] + 1), (x, 0))[0]
                x = hop.cond(n > 2, lambda x: hook(x), lambda x: -hook(x), x)
                x = hop.checkpoint(lambda x: hook(hop.sin(x)))(x)
                x = hop.vmap(lambda row: hook(row) * hop.sum(hook(row)))(x)
                return hop.map(lambda row: hook(hop.cos(row)), x)

            return f

        args = hop.ones((4, 4)), hop.ones((4, 4)), hop.asarray(3)
        log = []
        kinds = {
            "pure": lambda x: hop.hook(x, lambda g: hop.clip(g, -1, 1)),
            "host": lambda x: hop.hook(x, log.append, host=True),
            "state": lambda x: hop.hook(x, lambda s, g: s * g, state=hop.sum(x)),
            "when": lambda x: hop.hook(x, lambda g: -g, when=hop.sum(x) > 0),
        }
        for kind, hook in kinds.items():
            with self.subTest(kind):
                self.same_code(program(hook), program(lambda x: x), *args)

    def test_shared_weights_over_lanes(self):
        def program(hook):
            return hop.vmap(lambda w, x: hop.sum(hook(w) @ x), (None, 0))

        args = hop.ones((3, 4)), hop.ones((5, 4))
        self.same_code(program(lambda w: hop.hook(w, lambda g: -g)), program(lambda w: w), *args)

    def test_other_gradients(self):
        """Of a gradient that passes by."""
        with_hook = hop.grad(lambda x, y: hop.sum(hop.hook(y, lambda g: -g) * x))
        without = hop.grad(lambda x, y: hop.sum(y * x))
        self.same_code(with_hook, without, hop.ones(3), hop.ones(3))


class Indexing(Case):
    """Tables read at traced scalars, as score functions do."""

    table = f64([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0], [1.5, 2.5, 3.5]])

    def scatters(self, f, *args):
        """How many scatters there are, and the types of what they are into."""
        text = hop.jit(f).lower(*args).function.text()
        types = dict(re.findall(r"(%\d+) = full \{value = 0\.0, dims = \[([^\]]*)\]", text))
        return [types[into] for into in re.findall(r"= scatter \{[^}]*mode = add[^}]*\} \((%\d+)", text)]

    def test_a_gather_is_advanced_indexing_and_its_gradient_adds_up(self):
        i, j = hop.asarray([0, 2, 2, -1, 2]), hop.asarray([1, 1, 0, 2, 1])
        rows = self.table.tolist()
        self.equal(self.table[i, j], [2.0, 8.0, 7.0, 3.5, 8.0])
        f = lambda t: hop.sum(t[i, j] ** 2)  # noqa: E731
        expected = [[0.0] * 3 for _ in rows]
        for a, b in zip(i.tolist(), j.tolist()):
            expected[a][b] += 2 * rows[a][b]
        self.close(hop.grad(f)(self.table), expected, 1e-12)
        self.assertEqual(self.scatters(hop.grad(f), self.table), ["4, 3"])

    def test_fewer_indices_than_axes(self):
        i = hop.asarray([[0, 3], [3, 3]])
        self.equal(self.table[i], [[self.table.tolist()[a] for a in row] for row in i.tolist()])
        g = hop.grad(lambda t: hop.sum(t[i]))(self.table)
        self.equal(g, [[1.0] * 3, [0.0] * 3, [0.0] * 3, [3.0] * 3])

    def test_lanes_that_share_a_table_scatter_into_one(self):
        """Sixteen lanes, one table: no table per lane."""
        q = hop.asarray([0, 1, 1, 3] * 4)
        score = lambda t, q: hop.sin(t[q, 1])  # noqa: E731
        f = lambda t: hop.sum(hop.vmap(score, (None, 0))(t, q))  # noqa: E731
        expected = sum(
            (hop.grad(score)(self.table, hop.asarray(k)) for k in q.tolist()), hop.zeros_like(self.table)
        )
        self.close(hop.jit(hop.grad(f))(self.table), expected, 1e-12)
        self.assertEqual(self.scatters(hop.grad(f), self.table), ["4, 3"])
        stored = hop.jit(hop.grad(f)).lower(self.table).function.explain("all")
        self.assertNotIn("f64[192]", stored)

    def test_four_nested_lanes(self):
        """Over batch, head, query and key, as attention's score functions."""
        table, sizes = f64([0.5, -1.0, 2.0]), (2, 3, 4, 5)

        def total(t):
            score = lambda b, h, q, k: hop.sin(t[(b + h + q + k) % 3]) * (1 + b)  # noqa: E731
            for axis in range(4):
                score = hop.vmap(score, tuple(0 if a == 3 - axis else None for a in range(4)))
            return hop.sum(score(*[hop.arange(n) for n in sizes]))

        expected = [0.0] * 3
        for b in range(2):
            for h in range(3):
                for q in range(4):
                    for k in range(5):
                        at = (b + h + q + k) % 3
                        expected[at] += math.cos(table.tolist()[at]) * (1 + b)
        self.close(hop.grad(total)(table), expected, 1e-10)
        self.assertEqual(self.scatters(hop.grad(total), table), ["3"])

    def test_lanes_with_tables_of_their_own(self):
        tables, q = hop.stack([self.table, 2 * self.table]), hop.asarray([1, 3])
        score = lambda t, q: t[q, 0] ** 2  # noqa: E731
        g = hop.grad(lambda ts: hop.sum(hop.vmap(score)(ts, q)))(tables)
        each = [hop.grad(score)(t, hop.asarray(k)) for t, k in zip((self.table, 2 * self.table), (1, 3))]
        self.close(g, [x.tolist() for x in each], 1e-12)
        g = hop.vmap(hop.grad(score))(tables, q)
        self.close(g, [x.tolist() for x in each], 1e-12)

    def test_two_uses_of_one_table(self):
        f = lambda t: hop.sum(  # noqa: E731
            hop.vmap(lambda q, k: t[q, k] * hop.sin(t[k, q]))(hop.asarray([0, 1, 2]), hop.asarray([2, 1, 0]))
        )
        flat = lambda v: f(hop.reshape(v, (4, 3)))  # noqa: E731
        v = hop.reshape(self.table, (12,))
        self.close(hop.grad(flat)(v), differences(flat, v), 1e-5)

    def test_numbers_and_traced_scalars_have_the_same_gradient(self):
        for q in (0, 2):
            fixed = hop.grad(lambda t, q=q: t[q, 1] ** 2)(self.table)
            traced = hop.jit(hop.grad(lambda t, q: t[q, 1] ** 2))(self.table, hop.asarray(q))
            self.equal(fixed, traced.tolist())

    def test_second_derivatives(self):
        i = hop.asarray([2, 2, 0])
        f = lambda t: hop.sum(t[i, 1] ** 3)  # noqa: E731
        h = hop.jvp(hop.grad(f), (self.table,), (hop.ones_like(self.table),))[1]
        expected = [[0.0] * 3 for _ in range(4)]
        for a in i.tolist():
            expected[a][1] += 6 * self.table.tolist()[a][1]
        self.close(h, expected, 1e-12)

    def test_slices_masks_and_lists_mean_what_they_mean(self):
        """A bool is a mask and no 0 or 1, a list is one index, a slice beside a scalar stays a slice."""
        q = hop.asarray(1)
        t = self.table
        self.equal(hop.jit(lambda t, q: t[q, 1:])(t, q), [5.0, 6.0])
        self.equal(hop.jit(lambda t, q: t[[0, q]])(t, q), [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        self.equal(hop.jit(lambda t: t[True])(t), [t.tolist()])
        self.assertEqual(hop.jit(lambda t: t[False])(t).shape, (0, 4, 3))
        self.assertEqual(hop.jit(lambda t, q: t[q, True])(t, q).shape, (1, 3))
        self.equal(hop.jit(lambda t, q: t[q, None, 2])(t, q), [6.0])
        g = hop.grad(lambda t: hop.sum(hop.vmap(lambda q: hop.sum(t[q, 1:]))(hop.arange(2))))(t)
        self.equal(g, [[0.0, 1.0, 1.0], [0.0, 1.0, 1.0], [0.0] * 3, [0.0] * 3])


if __name__ == "__main__":
    unittest.main()
