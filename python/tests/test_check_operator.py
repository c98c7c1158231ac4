"""hop.check_operator finds what is wrong with an operator, and nothing in one that is well."""

import unittest

import numpy as np

import hop


class Well(unittest.TestCase):
    def test_rules(self):
        op = hop.operator("(x: f32[N], y: f32[N]) -> f32[]", lambda x, y: (x * y).sum(), name="checked_dot")
        op.defvjp(lambda x, y: (op(x, y), (x, y)), lambda needs, g: (needs[1] * g, needs[0] * g))
        report = hop.check_operator(op, (hop.asarray([0.5, 1.0]), hop.asarray([2.0, 3.0])))
        self.assertEqual(report.passed, ("schema", "mutation", "purity", "jit", "batching", "rules"))
        self.assertEqual((report.failed, report.skipped), ({}, {}))
        self.assertIn("rules: well", repr(report))

    def test_mutation(self):
        def f(x, s, y):
            s += x
            y[:] = 2 * x

        op = hop.operator("(x: f32[N], mut s: f32[N], out y: f32[N])", f, name="checked_mut")
        x = hop.asarray([0.5, 1.0])
        report = hop.check_operator(op, (x, hop.zeros(2)))
        self.assertEqual(report.passed, ("schema", "mutation", "purity", "jit", "batching"))
        self.assertIn("no rule", report.skipped["rules"])

    def test_effects(self):
        numbers = iter(range(100))
        op = hop.operator("() -> i64[]", lambda: next(numbers), name="checked_io", effect="io")
        report = hop.check_operator(op, ())
        self.assertEqual(report.passed, ("schema", "mutation"))
        self.assertIn("io", report.skipped["purity"])


class Wrong(unittest.TestCase):
    def failed(self, op, *args):
        with self.assertRaises(hop.OperatorError) as caught:
            hop.check_operator(op, args)
        report = hop.check_operator(op, args, raise_exception=False)
        self.assertEqual(list(report.failed), list(caught.exception.report.failed))
        for test, said in caught.exception.report.failed.items():
            self.assertIn(test, str(caught.exception))
        return report.failed

    def test_schema(self):
        op = hop.operator("(x: f32[N]) -> f32[N]", lambda x: x[1:], name="checked_short")
        failed = self.failed(op, hop.ones(3))
        self.assertEqual(list(failed), ["schema"])
        self.assertIn("expected f32[3]", failed["schema"])

    def test_outs_that_are_not_written(self):
        def f(x, y):
            y[0] = x[0]

        op = hop.operator("(x: f32[N], out y: f32[N])", f, name="checked_out")
        self.assertIn("elements of y are not written", self.failed(op, hop.ones(3))["schema"])

    def test_mutation(self):
        def f(x):
            x.flags.writeable = True
            x[0] = 7
            return x * 1

        op = hop.operator("(x: f32[N]) -> f32[N]", f, name="checked_writes")
        self.assertEqual(hop.check_operator(op, (hop.ones(3),)).failed, {})  # it has a copy

    def test_purity(self):
        state = []

        def f(x):
            state.append(1)
            return x + len(state)

        op = hop.operator("(x: f64[N]) -> f64[N]", f, name="checked_state")
        self.assertIn("two calls", self.failed(op, hop.ones(3, dtype=hop.float64))["purity"])

    def test_batching(self):
        op = hop.operator("(x: f32[N]) -> f32[]", lambda x: x.sum(), name="checked_lanes")
        op.def_vmap(lambda size, batched, x: (hop.sum(x, axis=1) + 1, True))
        self.assertEqual(list(self.failed(op, hop.ones(3))), ["batching"])
        op = hop.operator(
            "(x: f32[N]) -> f32[]", lambda x: x.sum(), name="checked_together", lanes="together"
        )
        self.assertEqual(list(self.failed(op, hop.ones(3))), ["batching"])

    def test_rules(self):
        op = hop.operator("(x: f32[N]) -> f32[N]", lambda x: x * x, name="checked_rules")
        op.defvjp(lambda x: (op(x), x), lambda x, g: (3 * x * g,))
        failed = self.failed(op, hop.ones(3))
        self.assertEqual(list(failed), ["rules"])
        self.assertIn("differences give", failed["rules"])

    def test_wrong_uses(self):
        op = hop.operator("(x: f32[N]) -> f32[N]", lambda x: x, name="checked_uses")
        for call in (
            lambda: hop.check_operator(np.sin, (1.0,)),
            lambda: hop.check_operator(op, 1.0),
            lambda: hop.check_operator(op, (hop.ones(2),), tests="all"),
        ):
            with self.assertRaises(hop.InvalidError):
                call()


if __name__ == "__main__":
    unittest.main()
