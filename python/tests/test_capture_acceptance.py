"""What capture promises, one claim a test: what becomes an operand of a body, what comes back, what is
checked and in which words, what is left behind by a failure. docs/python/capture.md lists these tests."""

import functools
import queue
import re
import sys
import unittest

import hop
from support import Case, differences, needs_numpy, numpy

X = hop.asarray([0.5, 1.0, 2.0])
Z = hop.asarray([3.0, 4.0, 5.0])


def text_of(f, *args):
    return hop.jit(f).text(*(args or (X,)))


def operands(text, operator="invoke_subgraph"):
    """Of each such operator in a program, in order, how many operands its bodies take."""
    out = []
    for match in re.finditer(rf"= {operator}\b", text):
        rest = text[match.end() :]
        if operator == "switch":
            # the branches are written one behind the other, each with all of its operands
            listed = re.search(r"\[(@\w+)?(?:\(([^)]*)\))?", rest).group(2) or ""
        else:
            head = re.match(r"[^\n]*?\{\n|[^\n]*\n", rest).group(0)
            found = re.findall(r"(?:carry|over|with)\(([^)]*)\)", head)
            listed = ", ".join(part for part in found if part)
        out.append(len([part for part in listed.split(",") if part.strip()]))
    return out


def parameters(text):
    """How many parameters the whole program has."""
    return len(re.findall(r"%\w+: ", re.search(r"fn @\w+[^(]*\(([^{]*)\) ->", text).group(1)))


class Lifting(Case):
    """Whatever a body uses from outside is an operand of the operator that holds it: once, when it is
    used."""

    def test_one_argument_is_one_operand(self):
        inner = hop.jit(lambda q: hop.sin(q))
        self.assertEqual(operands(text_of(lambda x: inner(x))), [1])

    def test_what_a_closure_has_and_does_not_use_is_none(self):
        def f(x):
            unused = hop.cos(x)
            inner = hop.jit(lambda q: (hop.sin(q), unused)[0])
            return inner(x)

        self.assertEqual(operands(text_of(f)), [1])

    def test_a_body_that_gives_what_it_closes_over(self):
        text = text_of(lambda x: hop.jit(lambda: (x, Z, x))())
        self.assertEqual(operands(text), [2])
        self.assertIn("yield", text)
        a, b, c = hop.jit(lambda x: hop.jit(lambda: (x, Z, x))())(X)
        self.assertEqual((a.tolist(), b.tolist(), c.tolist()), (X.tolist(), Z.tolist(), X.tolist()))

    def test_used_and_given_is_one_operand(self):
        text = text_of(lambda x: hop.jit(lambda: (Z * 2, Z))())
        self.assertEqual(operands(text), [1])

    def test_used_twice_is_one_operand(self):
        self.assertEqual(operands(text_of(lambda x: hop.jit(lambda q: q * Z + Z)(x))), [2])

    def test_wherever_it_was_found(self):
        held, table = hop.asarray([1.0, 1.0, 1.0]), {"a": [hop.asarray([2.0, 2.0, 2.0])]}
        for f in (
            lambda x: hop.jit(lambda q: q * Z)(x),
            lambda x: hop.jit(lambda q: q * held)(x),
            lambda x: hop.jit(lambda q: q * table["a"][0])(x),
            lambda x: hop.jit(lambda q, h=held: q * h)(x),
        ):
            self.assertEqual(operands(text_of(f)), [2])
            self.assertEqual(parameters(text_of(f)), 2)

    def test_one_array_found_twice_is_one_parameter(self):
        again = {"z": Z}
        self.assertEqual(parameters(text_of(lambda x: x * Z + again["z"])), 2)

    def test_through_levels(self):
        def f(x):
            def outer(q):
                between = hop.sin(q)
                inner = hop.jit(lambda r: r * between)
                return inner(q) + hop.jit(lambda r: r - between)(q)

            return hop.jit(outer)(x)

        text = text_of(f)
        self.assertEqual(operands(text), [1, 2, 2])
        self.assertEqual(parameters(text), 1)

    def test_from_the_outside_through_two_bodies(self):
        f = lambda x: hop.jit(lambda q: hop.jit(lambda r: r * Z)(q))(x)  # noqa: E731
        self.assertEqual(operands(text_of(f)), [2, 2])
        self.equal(hop.jit(f)(X), [1.5, 4.0, 10.0])

    def test_numbers_are_literals(self):
        k = 2.0
        f = hop.jit(lambda x: hop.jit(lambda q: q * k)(x))
        self.assertEqual(operands(f.text(X)), [1])
        self.equal(f(X), [1.0, 2.0, 4.0])
        k = 3.0
        self.equal(f(X), [1.5, 3.0, 6.0])

    @needs_numpy
    def test_scalars_of_numpy(self):
        k = numpy.float32(2.0)
        self.equal(hop.jit(lambda x: hop.jit(lambda q: q * k)(x))(X), [1.0, 2.0, 4.0])

    def test_trees_as_arguments(self):
        class Held:
            pass

        held = Held()
        held.w = Z
        inner = hop.jit(lambda d, t: d["a"] * t[1] + held.w)
        f = lambda x: inner({"a": x, "b": x * 2}, (x, [x * 3][0]))  # noqa: E731
        self.close(hop.jit(f)(X), [0.5 * 1.5 + 3, 1.0 * 3 + 4, 2.0 * 6 + 5])

    def test_arguments_by_name(self):
        inner = hop.jit(lambda a, *, b: a - b)
        f = lambda x: inner(b=x, a=Z)  # noqa: E731
        self.equal(hop.jit(f)(X), [2.5, 3.0, 3.0])
        self.assertEqual(operands(text_of(f)), [2])

    def test_data_dependent_scalar_through_levels(self):
        def f(x):
            n = hop.sum(x > 0.75)
            return hop.jit(lambda q: hop.jit(lambda r: r * n)(q))(x)

        self.equal(hop.jit(f)(X), [1.0, 2.0, 4.0])
        self.assertEqual(operands(text_of(f)), [2, 2])

    def test_weights_of_objects_are_parameters(self):
        class Linear:
            def __init__(self):
                self.w, self.b = hop.ones((3, 3)), hop.zeros(3)

            def __call__(self, q):
                return q @ self.w + self.b

        layer = Linear()
        text = text_of(lambda x: hop.jit(lambda q: layer(q))(x))
        self.assertEqual((operands(text), parameters(text)), ([3], 3))
        self.assertNotIn("const ", text)


class Sizes(Case):
    """A size travels with the types of arrays; a body that needs one that no operand has takes it as such."""

    def text(self, f, **options):
        return hop.jit(f, dims={"x": "T"}, **options).text(hop.ones(5))

    def test_a_size_that_operands_have_is_no_operand(self):
        self.assertEqual(operands(text_of(lambda x: hop.jit(lambda q: q * q.shape[0])(x))), [1])
        self.assertEqual(operands(self.text(lambda x: hop.jit(lambda q: q * q.shape[0])(x))), [1])
        self.assertEqual(operands(self.text(lambda x: hop.jit(lambda q: q * x.shape[0])(x))), [1])

    def test_a_size_that_is_an_argument(self):
        f = lambda x: hop.jit(lambda q, n: q * n)(x, x.shape[0])  # noqa: E731
        self.assertEqual(operands(self.text(f)), [2])
        g = hop.jit(f)
        for n in (3, 4, 5, 1):
            self.equal(g(hop.ones(n)), [float(n)] * n)

    def test_expressions_of_sizes(self):
        f = lambda x: hop.jit(lambda q: q[: x.shape[0] // 2])(x)  # noqa: E731
        self.assertEqual(operands(self.text(f)), [1])
        self.assertIn("T // 2", self.text(f))
        g = hop.jit(f)
        for n in (4, 7, 9, 0, 1):
            self.equal(g(hop.arange(float(n))), [float(i) for i in range(n // 2)])

    def test_a_size_of_the_data_through_levels(self):
        def f(x):
            y = x[x > 0.75]
            return hop.jit(lambda q: hop.jit(lambda r: r * y.shape[0])(q))(x)

        self.equal(hop.jit(f)(X), [1.0, 2.0, 4.0])
        self.assertEqual(operands(text_of(f)), [1, 1])

    def test_decisions_about_sizes_are_guards(self):
        f = hop.jit(lambda x: x * 2 if x.shape[0] > 3 else x)
        for n in (2, 5, 3, 7, 4):
            self.equal(f(hop.ones(n)), [2.0 if n > 3 else 1.0] * n)

    def test_branches_of_several_sizes(self):
        f = hop.jit(lambda x: hop.sum(hop.cond(x[0] > 0, lambda: x[:2], lambda: x)))
        self.assertEqual((f(X).item(), f(-X).item()), (1.5, -3.5))


class Results(Case):
    def test_structure_comes_back(self):
        def body(q):
            return {"b": (q * 2, [q]), "a": 5.0, "n": None, "t": "text", "k": (1, True)}

        for f in (hop.jit(body), hop.jit(hop.checkpoint(body)), hop.jit(lambda x: hop.jit(body)(x))):
            out = f(X)
            self.equal(out["b"][0], [1.0, 2.0, 4.0])
            self.assertEqual((out["n"], out["t"]), (None, "text"))
            self.assertEqual((type(out["b"]), type(out["b"][1])), (tuple, list))
            self.assertEqual((float(out["a"]), int(out["k"][0]), bool(out["k"][1])), (5.0, 1, True))

    def test_the_same_result_twice(self):
        a, b, c = hop.jit(lambda x: hop.jit(lambda q: (q, hop.sin(q), q))(x))(X)
        self.assertEqual((a.tolist(), c.tolist()), (X.tolist(), X.tolist()))

    def test_results_may_be_operands(self):
        """Values are not aliased: what a body gives may be what it was given."""
        self.equal(hop.cond(hop.asarray(True), lambda q: q, lambda q: q * 2, X), X.tolist())
        self.equal(hop.jit(lambda x: hop.cond(x[0] > 0, lambda q: q, lambda q: q * 2, x))(X), X.tolist())
        last, all_ = hop.jit(lambda x: hop.scan(lambda c, e: (c, e), x[0], x))(X)
        self.assertEqual((last.item(), all_.tolist()), (0.5, X.tolist()))
        self.equal(hop.jit(lambda x: hop.while_loop(lambda c: c[0] < 0, lambda c: c, x))(X), X.tolist())
        self.equal(hop.jit(lambda x: hop.map(lambda e: e, x))(X), X.tolist())
        self.equal(hop.jit(lambda x: hop.associative_scan(lambda a, b: b, x))(X), X.tolist())

    def test_operands_may_be_equal(self):
        """Nor are operands: one array may be given twice, and be closed over besides."""
        f = hop.jit(lambda x: hop.map(lambda p: p[0] * p[1] + hop.sum(x), (x, x)))
        self.equal(f(X), [0.25 + 3.5, 1 + 3.5, 4 + 3.5])

    def test_what_went_out_of_scope_is_an_error_with_both_places(self):
        kept = queue.SimpleQueue()

        def f(x):
            hop.scan(lambda c, e: (c, kept.put(e * 2)), x[0], x)
            return kept.get() + 1

        with self.assertRaisesRegex(hop.Error, r"(?s)test_capture_acceptance.*test_capture_acceptance"):
            hop.jit(f)(X)


class Names(Case):
    def test_bodies_are_named_after_their_functions(self):
        @hop.jit
        def attention(q):
            return hop.sin(q)

        text = text_of(lambda x: attention(x) + attention(x * 2))
        self.assertIn("@attention", text)

    def test_nested_operators(self):
        def f(x):
            def outer(q):
                return hop.cond(q[0] > 1, lambda r: hop.sin(r), lambda r: r, q)

            return hop.cond(x[0] > 0, outer, lambda q: q, x)

        text = text_of(f)
        self.assertEqual(text.count("= switch("), 2)
        self.assertLess(text.index("= switch("), text.index("sin("))
        self.close(hop.jit(f)(hop.asarray([2.0])), [0.9092974])

    def test_equal_bodies_are_one_function(self):
        def layer(q):
            return hop.tanh(q) * 2.0

        first, second = hop.jit(lambda q: layer(q)), hop.jit(lambda q: layer(q))
        text = text_of(lambda x: first(second(first(x))))
        self.assertEqual(text.count("tanh("), 1)


class Transactions(Case):
    """A body that fails leaves nothing behind."""

    def test_a_caught_failure(self):
        def fails(q):
            held = hop.sin(q) * Z
            raise KeyError(held.shape)

        def f(x, also):
            if also:
                try:
                    hop.jit(fails)(x)
                except KeyError:
                    pass
                try:
                    hop.scan(lambda c, e: (fails(c), e), x, x)
                except KeyError:
                    pass
            return hop.cos(x)

        self.assertEqual(text_of(lambda x: f(x, True)), text_of(lambda x: f(x, False)))

    def test_the_exception_is_the_users(self):
        class Mine(Exception):
            pass

        def fails(q):
            raise Mine("here")

        for use in (
            lambda x: hop.jit(fails)(x),
            lambda x: hop.cond(x[0] > 0, fails, lambda q: q, x),
            lambda x: hop.scan(lambda c, e: fails(c), x, x),
            lambda x: hop.while_loop(fails, lambda c: c, x),
            lambda x: hop.map(fails, x),
            lambda x: hop.associative_scan(lambda a, b: fails(a), x),
            lambda x: hop.checkpoint(fails)(x),
            lambda x: hop.grad(fails)(x),
            lambda x: hop.vmap(fails)(x),
        ):
            with self.assertRaisesRegex(Mine, "here"):
                hop.jit(use)(X)
            self.equal(hop.jit(lambda x: x + 1)(X), [1.5, 2.0, 3.0])

    def test_lists_of_the_body_itself(self):
        def body(q):
            parts = []
            for i in range(3):
                parts.append(q * i)
            return sum(parts)

        self.equal(hop.jit(lambda x: hop.checkpoint(body)(x))(X), [1.5, 3.0, 6.0])


class Cond(Case):
    def test_closures_alone(self):
        text = text_of(lambda x: hop.cond(x[0] > 0, lambda: x * Z, lambda: x - Z))
        self.assertEqual(operands(text, "switch"), [2])
        text = text_of(lambda x: hop.cond(x[0] > 0, lambda: 1.0, lambda: 2.0))
        self.assertEqual(operands(text, "switch"), [0])

    def test_each_branch_may_close_over_other_values(self):
        a, b = hop.asarray([1.0] * 3), hop.asarray([2.0] * 3)
        f = hop.jit(lambda x: hop.cond(x[0] > 0, lambda: x + a, lambda: x * b))
        self.equal(f(X), [1.5, 2.0, 3.0])
        self.equal(f(-X), [-1.0, -2.0, -4.0])

    def test_known_predicate_chooses_at_capture(self):
        seen = []
        f = lambda x: hop.cond(True, lambda q: q * 2, lambda q: seen.append(1) or q, x)  # noqa: E731
        self.equal(hop.jit(f)(X), [1.0, 2.0, 4.0])
        self.equal(hop.cond(1, lambda q: q * 2, lambda q: q, X), [1.0, 2.0, 4.0])
        self.assertNotIn("switch", text_of(lambda x: hop.cond(True, lambda q: q * 2, lambda q: q, x)))

    def test_known_predicate_that_changes(self):
        training = True
        f = hop.jit(lambda x: hop.cond(training, lambda q: q * 2, lambda q: q, x))
        self.equal(f(X), [1.0, 2.0, 4.0])
        training = False
        self.equal(f(X), X.tolist())

    def test_structures_must_agree(self):
        f = hop.jit(lambda x: hop.cond(x[0] > 0, lambda q: {"a": q, "b": q}, lambda q: {"a": q}, x))
        with self.assertRaisesRegex(hop.InvalidError, r"test_capture_acceptance\.py.*cond.*(structure|'b')"):
            f(X)

    def test_types_must_agree_and_every_difference_is_said(self):
        def f(x):
            other = lambda q: (q[:2], hop.zeros((3, 1)), q.astype("int32"))  # noqa: E731
            return hop.cond(x[0] > 0, lambda q: (q[:2], q, q > 0), other, x)

        said = r"(?s)cond.*result\[1\].*f32\[3, 1\].*f32\[3\].*result\[2\].*i32\[3\].*bool\[3\]"
        with self.assertRaisesRegex(hop.InvalidError, said):
            hop.jit(f)(X)

    def test_arguments_are_checked_before_anything_is_captured(self):
        seen = []
        branch = lambda q: seen.append(1) or q  # noqa: E731
        with self.assertRaisesRegex(TypeError, "cond.*function"):
            hop.jit(lambda x: hop.cond(x[0] > 0, branch, 3, x))(X)
        with self.assertRaises(TypeError):
            hop.jit(lambda x: hop.cond(x[0] > 0, branch))(X)
        with self.assertRaises((TypeError, hop.Error)):
            hop.jit(lambda x: hop.cond("yes", branch, branch, x))(X)
        with self.assertRaises((TypeError, hop.Error)):
            hop.jit(lambda x: hop.cond(x > 0, branch, branch, x))(X)
        self.assertEqual(seen, [])

    def test_numbers_and_none_as_results(self):
        f = hop.jit(lambda x: hop.cond(x[0] > 0, lambda: (1, None, 2.5, True), lambda: (2, None, 3.5, False)))
        self.assertEqual([None if v is None else v.item() for v in f(X)], [1, None, 2.5, True])
        self.assertEqual([None if v is None else v.item() for v in f(-X)], [2, None, 3.5, False])

    def test_switch_clamps(self):
        f = hop.jit(lambda i: hop.switch(i, [lambda: 1.0, lambda: 2.0, lambda: 3.0]))
        self.assertEqual([f(hop.asarray(i)).item() for i in (-5, 0, 1, 2, 9)], [1, 1, 2, 3, 3])
        self.assertEqual(hop.jit(lambda: hop.switch(9, [lambda: hop.ones(1)]))().tolist(), [1.0])
        with self.assertRaises((ValueError, hop.Error)):
            hop.jit(lambda i: hop.switch(i, []))(hop.asarray(0))


class While(Case):
    def test_what_cond_and_body_close_over(self):
        limit, step = hop.asarray(10.0), hop.asarray(3.0)
        f = hop.jit(lambda x: hop.while_loop(lambda c: c < limit, lambda c: c + step, x))
        self.assertEqual(f(1.0).item(), 10.0)
        limit[...] = 20.0
        self.assertEqual(f(1.0).item(), 22.0)

    def test_carries_keep_their_order(self):
        """However bodies use them."""

        def body(c):
            a, b, n = c["z"], c["a"], c["n"]
            return {"n": n + 1, "a": a, "z": b + 1.0}

        out = hop.jit(lambda x: hop.while_loop(lambda c: c["n"] < 3, body, {"z": x, "a": x * 10, "n": 0}))(X)
        a, b = X.tolist(), [10 * v for v in X.tolist()]
        for _ in range(3):
            a, b = [v + 1 for v in b], a
        self.assertEqual((out["z"].tolist(), out["a"].tolist(), out["n"].item()), (a, b, 3))

    def test_the_first_carry_is_not_a_constant(self):
        f = hop.jit(lambda: hop.while_loop(lambda c: c < 5, lambda c: c + 1, hop.asarray(0)))
        self.assertEqual(f().item(), 5)
        g = hop.jit(lambda x: hop.while_loop(lambda c: c[0] < 4, lambda c: (c[0] + 1, c[1] * 2), (0, x))[1])
        self.equal(g(X), [8.0, 16.0, 32.0])

    def test_predicates_are_scalars(self):
        with self.assertRaisesRegex(hop.Error, r"(?s)while_loop.*(scalar|bool\[3\])"):
            hop.jit(lambda x: hop.while_loop(lambda c: c < 5, lambda c: c + 1, x))(X)

    def test_never_and_for_ever(self):
        self.equal(hop.jit(lambda x: hop.while_loop(lambda c: False, lambda c: c + 1, x))(X), X.tolist())
        with self.assertRaisesRegex(hop.Error, r"while_loop.*"):
            hop.jit(lambda x: hop.while_loop(lambda c: True, lambda c: c + 1, x))(X)

    def test_carries_keep_their_types(self):
        with self.assertRaisesRegex(hop.InvalidError, r"(?s)while_loop.*carry\['a'\].*f32\[2\].*f32\[3\]"):
            hop.jit(
                lambda x: hop.while_loop(lambda c: c["a"][0] < 1, lambda c: {"a": c["a"][:2]}, {"a": x})
            )(X)

    def test_history(self):
        f = hop.jit(lambda x: hop.while_loop(lambda c: c < 9, lambda c: c * 2, x, stack=True))
        last, all_, n = f(1.0)
        self.assertEqual((last.item(), n.item(), all_[: n.item()].tolist()), (16.0, 4, [2.0, 4.0, 8.0, 16.0]))


class Scan(Case):
    def test_trees_reverse_and_axes(self):
        xs = {"a": hop.arange(6.0).reshape(2, 3), "b": hop.ones((2, 3))}
        step = lambda c, e: (c + e["a"] * e["b"], {"y": c})  # noqa: E731
        last, ys = hop.jit(lambda x: hop.scan(step, hop.zeros(2), x, dim=1))(xs)
        self.equal(last, [3.0, 12.0])
        self.equal(ys["y"], [[0.0, 0.0], [0.0, 3.0], [1.0, 7.0]])
        last, ys = hop.jit(lambda x: hop.scan(lambda c, e: (c + e, c), hop.asarray(0.0), x, reverse=True))(X)
        self.assertEqual((last.item(), ys.tolist()), (3.5, [3.0, 2.0, 0.0]))

    def test_no_steps(self):
        last, ys = hop.jit(lambda x: hop.scan(lambda c, e: (c + e, c * 2), hop.asarray(1.0), x))(hop.zeros(0))
        self.assertEqual((last.item(), ys.shape), (1.0, (0,)))

    def test_nothing_to_go_over(self):
        last, ys = hop.jit(lambda x: hop.scan(lambda c, _: (c * 2, None), x, None, length=3))(X)
        self.assertEqual((last.tolist(), ys), ([4.0, 8.0, 16.0], None))

    def test_two_parts(self):
        with self.assertRaisesRegex((TypeError, hop.Error), r"(?s)scan.*"):
            hop.jit(lambda x: hop.scan(lambda c, e: c + e, x[0], x))(X)

    def test_lengths_must_agree(self):
        with self.assertRaisesRegex((ValueError, hop.Error), r"scan.*3.*2|scan.*2.*3"):
            hop.jit(lambda x: hop.scan(lambda c, e: (c, e), x[0], {"a": x, "b": x[:2]}))(X)

    def test_carry_of_another_type(self):
        with self.assertRaisesRegex(hop.InvalidError, r"(?s)scan.*carry.*f32\[3\].*f32\[\]"):
            hop.jit(lambda x: hop.scan(lambda c, e: (c * x, e), x[0], x))(X)

    def test_numbers_as_carries(self):
        last, _ = hop.jit(lambda x: hop.scan(lambda c, e: ((c[0] + 1, c[1] * e), None), (0, 1.0), x))(X)
        self.assertEqual((last[0].item(), last[1].item()), (3, 1.0))


class Associative(Case):
    def test_any_combination(self):
        """Not elementwise ones alone."""
        matrices = hop.stack([hop.asarray([[1.0, 1.0], [0.0, 1.0]])] * 4)
        out = hop.jit(lambda m: hop.associative_scan(hop.matmul, m))(matrices)
        self.equal(out[3], [[1.0, 4.0], [0.0, 1.0]])

    def test_structure_and_types_stay(self):
        with self.assertRaisesRegex(hop.Error, r"(?s)associative_scan"):
            hop.jit(lambda x: hop.associative_scan(lambda a, b: (a, b), x))(X)
        with self.assertRaisesRegex(hop.Error, r"(?s)associative_scan"):
            hop.jit(lambda x: hop.associative_scan(lambda a, b: (a + b).astype("float64"), x))(X)

    def test_length_zero_and_reverse(self):
        self.equal(hop.jit(lambda x: hop.associative_scan(hop.add, x))(hop.zeros(0)), [])
        self.equal(hop.jit(lambda x: hop.associative_scan(hop.add, x, reverse=True))(X), [3.5, 3.0, 2.0])

    def test_closures(self):
        k = hop.asarray(2.0)
        f = hop.jit(lambda x: hop.associative_scan(lambda a, b: hop.maximum(a, b) * k / k, x))
        self.equal(f(X), [0.5, 1.0, 2.0])


class Map(Case):
    def test_trees_and_closures(self):
        out = hop.jit(lambda x: hop.map(lambda e: {"s": e["a"] + hop.sum(Z), "n": None}, {"a": x}))(X)
        self.assertEqual((out["s"].tolist(), out["n"]), ([12.5, 13.0, 14.0], None))

    def test_length_zero(self):
        self.assertEqual(hop.jit(lambda x: hop.map(lambda e: e * 2, x))(hop.zeros((0, 2))).shape, (0, 2))

    def test_lengths_must_agree(self):
        with self.assertRaisesRegex((ValueError, hop.Error), "map"):
            hop.jit(lambda x: hop.map(lambda p: p[0] + p[1], (x, x[:2])))(X)


class Regions(Case):
    def test_checkpoint_takes_trees_and_keywords(self):
        region = hop.checkpoint(lambda d, *, k: (d["a"] * k, None, "text"))
        out, none, text = hop.jit(lambda x: region({"a": x}, k=Z))(X)
        self.equal(out, [1.5, 4.0, 10.0])
        self.assertEqual((none, text), (None, "text"))

    def test_checkpoint_changes_no_gradient(self):
        f = lambda x: hop.sum(hop.sin(x * Z) ** 2)  # noqa: E731
        slope = hop.jit(hop.grad(hop.checkpoint(f)))(X)
        self.close(slope, hop.grad(f)(X))
        self.assertIn("recompute", text_of(lambda x: hop.checkpoint(f)(x)))

    def test_inner_jit_is_captured_once(self):
        @hop.jit
        def layer(q):
            return hop.tanh(q) * 2.0

        def f(x):
            return functools.reduce(lambda q, _: layer(q), range(6), x)

        runs = []
        before = sys.getprofile()
        sys.setprofile(lambda frame, event, _: runs.append((frame.f_code.co_name, event)))
        try:
            text = text_of(f)
        finally:
            sys.setprofile(before)
        self.assertEqual(runs.count(("layer", "call")), 1)
        self.assertEqual((text.count("tanh("), text.count("invoke_subgraph")), (1, 6))
        self.close(hop.jit(f)(X), f(X))

    def test_gradient_of_captured_arrays(self):
        """A gradient reaches arrays that bodies close over, when they are arguments further out."""

        def loss(w, x):
            return hop.sum(hop.checkpoint(lambda q: hop.jit(lambda r: r * w)(q))(x))

        self.equal(hop.jit(hop.grad(loss))(Z, X), X.tolist())

    def test_transforms_are_operators_on_programs(self):
        """Nothing of a transform is left in a program but what it computes; any order works."""

        def f(x):
            return hop.vmap(hop.grad(lambda q: hop.sin(q) * q))(x)

        text = text_of(f)
        self.assertIn("cos(", text)
        slope = [differences(lambda v: hop.sum(hop.sin(v) * v), hop.asarray([a], dtype="float64"))[0]
                 for a in X.tolist()]  # fmt: skip
        self.close(hop.jit(f)(X), slope, 1e-4)


class Rules(Case):
    """What helpers around higher-order operators have to keep."""

    def test_cotangents_that_are_none(self):
        y, pull = hop.vjp(lambda a, b: (a * b, hop.sin(a)), X, Z)
        a, b = pull((hop.ones(3), None))
        self.assertEqual((a.tolist(), b.tolist()), (Z.tolist(), X.tolist()))

    def test_gradients_that_are_zero(self):
        """A result that does not depend on an argument has zeros, in loops too."""
        a, b = hop.grad(lambda a, b: hop.sum(a * 2), argnums=(0, 1))(X, Z)
        self.assertEqual((a.tolist(), b.tolist()), ([2.0] * 3, [0.0] * 3))
        f = lambda a, b: hop.scan(lambda c, e: (c + e, b), a[0], a)[0]  # noqa: E731
        self.assertEqual(hop.grad(f, argnums=1)(X, Z).tolist(), [0.0] * 3)

    def test_integers_have_no_gradient(self):
        self.equal(hop.grad(lambda x, n: hop.sum(x) * n)(X, 3), [3.0] * 3)
        self.equal(hop.grad(lambda x: hop.sum(x[hop.asarray([0, 0, 1])]))(X), [2.0, 1.0, 0.0])

    def test_gradients_share_no_memory(self):
        a, b = hop.grad(lambda a, b: hop.sum(a + b), argnums=(0, 1))(X, X)
        a[0] = 9.0
        self.assertEqual((b.tolist(), X.tolist()), ([1.0] * 3, [0.5, 1.0, 2.0]))

    def test_captured_twice_is_the_same_program(self):
        f = lambda x: hop.scan(lambda c, e: (hop.sin(c) * e, c), x[0], x)  # noqa: E731
        self.assertEqual(text_of(f), text_of(f))

    def test_slices_and_pieces(self):
        """A body sees one slice, without its axis; results are stacked, None stays None."""
        seen = queue.SimpleQueue()
        body = lambda c, e: (c, seen.put(e.shape))  # noqa: E731
        _, ys = hop.jit(lambda x: hop.scan(body, x[0], hop.zeros((3, 2, 4))))(X)
        self.assertEqual((seen.get(), ys), ((2, 4), None))

    def test_a_captured_body_has_no_elements(self):
        with self.assertRaisesRegex(hop.TracerError, r"test_capture_acceptance\.py:\d+"):
            hop.jit(lambda x: hop.map(lambda e: e.item(), x))(X)

    def test_places_survive_transforms(self):
        def f(x):
            hop.check(x < 1.5, "too large")
            return hop.sum(x * x)

        said = rf"test_capture_acceptance\.py:{f.__code__.co_firstlineno + 1}: check: too large"
        for g in (hop.grad(f), hop.vmap(hop.grad(lambda q: f(q[None]))), hop.grad(hop.checkpoint(f))):
            with self.assertRaisesRegex(hop.CheckError, said):
                hop.jit(g)(X)

    def test_errors_name_the_innermost_place(self):
        def f(x):
            def body(c, e):
                return hop.cond(e > 0, lambda: c @ hop.ones((2, 2)), lambda: c), e

            return hop.scan(body, x, x)

        with self.assertRaisesRegex(hop.Error, r"test_capture_acceptance\.py:\d+.*matmul"):
            hop.jit(f)(X)


if __name__ == "__main__":
    unittest.main()
