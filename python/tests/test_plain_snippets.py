"""Sixty functions of plain Python (plain_snippets.py) under jit: the value and the gradient are what Python
gives, also in a batch, or the function is refused with a message that names the variable and the line."""

import re
import unittest

import hop
import plain_snippets
from support import Case, numpy

STEP = 1e-6


def array(x):
    return hop.asarray(x, dtype=hop.int64 if isinstance(x, int) else hop.float64)


def plain(x):
    """An argument as Python takes it; vectors are NumPy's where that is installed."""
    if isinstance(x, list):
        return array(x) if numpy is None else numpy.array(x)
    return x


def listed(x):
    return x.tolist() if hasattr(x, "tolist") else x


class Snippets(Case):
    @classmethod
    def setUpClass(cls):
        cls.references = {s.name: s for s in plain_snippets.load(numpy or hop)}
        cls.snippets = plain_snippets.load(hop)

    def expected(self, snippet, call):
        return listed(self.references[snippet.name].function(*map(plain, call)))

    def each(self, check, wanted=lambda s: True):
        for snippet in filter(wanted, self.snippets):
            with self.subTest(snippet.name):
                check(snippet)

    def test_number(self):
        self.assertEqual(len({s.name for s in self.snippets}), 60)

    def test_values(self):
        def check(s):
            f = hop.jit(s.function)
            for call in s.calls:
                self.close(f(*map(array, call)), self.expected(s, call), 1e-9)

        self.each(check, lambda s: not s.refused)

    def test_sources(self):
        """What was rewritten can be shown, of every one."""
        self.each(lambda s: self.assertIn(f"def {s.name}(", hop.jit(s.function).source()))

    def differences(self, snippet, first, rest):
        """Of the Python function, with respect to its first argument."""

        def at(x):
            return self.expected(snippet, (x, *rest))

        if not isinstance(first, list):
            return (at(first + STEP) - at(first - STEP)) / (2 * STEP)
        out = []
        for i in range(len(first)):
            up, down = list(first), list(first)
            up[i] += STEP
            down[i] -= STEP
            out.append((at(up) - at(down)) / (2 * STEP))
        return out

    def test_gradients(self):
        def check(s):
            for derive in (lambda f: hop.jit(hop.grad(f)), lambda f: hop.grad(hop.jit(f)), hop.grad):
                slope = derive(s.function)
                for first, *rest in s.calls:
                    expected = self.differences(s, first, rest)
                    self.close(slope(array(first), *map(array, rest)), expected, 1e-7)

        self.each(check, lambda s: s.smooth)

    def test_batches(self):
        def sizes(call):
            return [len(x) if isinstance(x, list) else 0 for x in call]

        def check(s):
            calls = [c for c in s.calls if sizes(c) == sizes(s.calls[0])]
            lanes = [hop.stack(list(map(array, of_one))) for of_one in zip(*calls)]
            self.close(hop.vmap(s.function)(*lanes), [self.expected(s, call) for call in calls], 1e-9)

        self.each(check, lambda s: not s.refused)

    def test_exceptions(self):
        def check(s):
            f = hop.jit(s.function)
            for call, said in s.raises:
                args = call if isinstance(call, tuple) else (call,)
                with self.assertRaisesRegex(Exception, said):
                    self.expected(s, args)
                with self.assertRaisesRegex(hop.CheckError, said):
                    f(*map(array, args))

        self.each(check, lambda s: s.raises)

    def test_refused(self):
        def check(s):
            first = s.function.__code__.co_firstlineno
            with open(plain_snippets.__file__, encoding="utf-8") as file:
                lines = file.read().splitlines()
            after = next((i for i, x in enumerate(lines[first:], first) if x[:1] == "@"), len(lines))
            here = [n for n in range(first, after) if lines[n - 1].endswith("# here")]
            with self.assertRaises(hop.Error) as caught:
                hop.jit(s.function)(*map(array, s.calls[0]))
            said = str(caught.exception)
            self.assertRegex(said, s.refused)
            named = {int(n) for n in re.findall(r"line (\d+)|\.py:(\d+)", said) for n in n if n}
            self.assertTrue(named & set(here), f"none of the lines {here} is in: {said}")

        self.each(check, lambda s: s.refused)


if __name__ == "__main__":
    unittest.main()
