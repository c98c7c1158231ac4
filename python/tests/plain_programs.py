"""Random functions of plain Python: nested if, while and for with exits from the middle, over whole numbers,
so that nothing is rounded. What test_plain.py runs with and without jit."""

import linecache
import random


class Program:
    """text: two functions, helper and f(a, b). Loops end: they count."""

    def __init__(self, seed):
        self._random, self._loops, self._depth, self._lines = random.Random(seed), 0, 0, []
        self._emit("def helper(p, q):")
        self._inside("if p > q:", "    return p - q", "return q + 1")
        self._emit("def f(a, b):")
        self._inside("x, y, z = a, b, 1")
        self._block(False, 4)
        self._inside(f"return {self._number()}")
        self.text = "\n".join(self._lines) + "\n"

    def _chance(self, p):
        return self._random.random() < p

    def _one(self, *choices):
        return self._random.choice(choices)

    def _emit(self, line):
        self._lines.append("    " * self._depth + line)

    def _inside(self, *lines):
        self._depth += 1
        for line in lines:
            self._emit(line)
        self._depth -= 1

    # -- expressions --

    def _variable(self):
        return self._one(*"xyzab")

    def _number(self, depth=0):
        kind = self._random.random()
        inner = depth + 1
        if depth > 2 or kind < 0.35:
            return self._one(self._variable(), self._variable(), str(self._random.randint(-3, 9)))
        if kind < 0.75:
            return f"({self._number(inner)} {self._one('+', '-', '*')} {self._number(inner)}) % 23"
        if kind < 0.85:
            return f"({self._number(inner)} if {self._test(inner)} else {self._number(inner)})"
        name = self._one("min", "max") if kind < 0.93 else "helper"
        return f"{name}({self._number(inner)}, {self._number(inner)})"

    def _test(self, depth=0):
        kind = self._random.random()
        inner = depth + 1
        if depth > 2 or kind < 0.5:
            return f"{self._number(inner)} {self._one('<', '<=', '>', '==', '!=')} {self._number(inner)}"
        if kind < 0.65:
            return f"({self._test(inner)} {self._one('and', 'or')} {self._test(inner)})"
        if kind < 0.75:
            return f"not ({self._test(inner)})"
        if kind < 0.88:
            return f"{self._number(inner)} < {self._number(inner)} <= {self._number(inner)}"
        return f"({self._variable()} % 3)"

    # -- statements --

    def _block(self, in_loop, size):
        self._depth += 1
        for _ in range(self._random.randint(1, size)):
            self._statement(in_loop, size - 1)
        self._depth -= 1

    def _statement(self, in_loop, size):
        kind = self._random.random()
        if size <= 0 or kind < 0.45:
            sign = self._one("=", "=", "+=", "-=")
            self._emit(f"{self._variable()} {sign} {self._number(1)}")
        elif kind < 0.7:
            self._branches(in_loop, size)
        elif kind < 0.9:
            self._loop(in_loop, size, kind < 0.8)
        else:
            self._emit(f"if {self._test()}:")
            leave = in_loop and self._chance(0.7)
            self._inside(self._one("break", "continue") if leave else f"return {self._number()}")

    def _branches(self, in_loop, size):
        self._emit(f"if {self._test()}:")
        self._block(in_loop, size)
        while self._chance(0.25):
            self._emit(f"elif {self._test()}:")
            self._block(in_loop, size)
        if self._chance(0.5):
            self._emit("else:")
            self._block(in_loop, size)

    def _loop(self, in_loop, size, is_while):
        i, self._loops = f"i{self._loops}", self._loops + 1
        if is_while:
            self._emit(f"{i} = 0")
            self._emit(f"while {i} < {self._random.randint(1, 5)} and {self._test()}:")
            self._inside(f"{i} += 1")
        else:
            v = self._variable()
            ends = self._one("3", "2", f"{v} % 5", "4, 0, -1", f"{v} % 3, 4")
            self._emit(f"for {i} in range({ends}):")
            self._inside(f"{self._variable()} = ({self._variable()} + {i}) % 23")
        self._block(True, size)
        if self._chance(0.2):
            self._emit("else:")
            self._block(in_loop, size)


def loaded(text, name):
    """The function f of a text, whose lines can be found as those of a file are."""
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space = {"__name__": "plain_program"}
    exec(compile(text, name, "exec"), space)
    return space["f"]
