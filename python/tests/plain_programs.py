"""Random functions f(a, b, v) of plain Python: nested if, while, for and match with exits from the middle,
over numbers and vectors, with helpers, closures, items written in place, containers and exceptions. What
test_plain_random.py runs with and without jit.

A program has one of three kinds:

    int      all numbers are whole, a and v too: nothing is rounded
    whole    a and v are float32 that hold whole numbers, small enough that nothing is rounded
    real     a and v are float64, and between its branches the function is smooth

b is an int64 in each. Loops end, because they count; indices are within range; every variable has a value
before it is read."""

import ast
import copy
import linecache
import random

KINDS = ("int", "whole", "real")
LENGTHS = (3, 10)  # of v: taken apart, and a loop


class Program:
    """text: helpers, and f."""

    def __init__(self, seed):
        self._random, self._count, self._depth, self._lines = random.Random(seed), 0, 0, []
        self.kind, self.length = self._one(*KINDS), self._one(*LENGTHS)
        self._numbers, self._wholes, self._items = ["p", "q"], [], False
        self._in_helper, self._returned = True, "{}"
        self._helper("helper")
        self._box()
        self._main()
        self.text = "\n".join(self._lines) + "\n"

    # -- the random generator, lines --

    def _chance(self, p):
        return self._random.random() < p

    def _one(self, *choices):
        return self._random.choice(choices)

    def _emit(self, *lines):
        for line in lines:
            self._lines.append("    " * self._depth + line)

    def _inside(self, *lines):
        self._depth += 1
        self._emit(*lines)
        self._depth -= 1

    def _new(self, letter):
        self._count += 1
        return f"{letter}{self._count}"

    # -- functions --

    def _helper(self, name):
        self._emit(f"def {name}(p, q):")
        if self._chance(0.5):
            self._block(False, 2)
        else:
            self._inside("if p > q:", "    return p - q")
        self._inside(f"return {self._number()}")

    def _box(self):
        self._emit("class Box:")
        self._depth += 1
        self._emit("def __init__(self, p):", "    self.p = p")
        self._emit("def over(self, q):", "    if q > self.p:", "        return q - self.p")
        self._emit("    return self.p")
        self._depth -= 1

    def _main(self):
        self._emit("def f(a, b, v):")
        self._numbers, self._in_helper = [*"xyza"], False
        self._wholes = ["b", "m"] if self.kind != "int" else []
        if self.kind == "int":
            self._numbers.append("b")
        one = self._literal()
        # a second name of w: w is not bound anew then, which could make it one of two arrays
        self._alias = self._chance(0.3)
        self._inside(f"x, y, z = a, {self._mixed('a', one)}, {one}", "m = b % 7", "w = v + 0", "box = Box(x)")
        self._inside("u = w" if self._alias else "u = v * 2")
        self._inside("table = {'p': x, 'q': y}", f"row = [x, {self._literal()}]", "count = 0")
        self._inside("def near(p):", f"    return {self._closure()}")
        self._inside("def fill(t, i, p):", "    if p > x:", "        t[i] = p")
        self._inside("    else:", "        t[0] += 1")
        self._inside("def note(p):", "    nonlocal count", "    count += 1", "    return p")
        self._returned = self._one("{}", "({}, w)", "{{'number': {}, 'vector': w}}", "[{}, count]")
        self._items = True
        self._block(False, self._one(2, 3, 3, 3, 4), top=True)
        self._inside(self._return())
        self._items = False

    def _closure(self):
        return self._one(
            "p - x if p > x else y", "p if p > y else z", "x if p < z and z > y else p", "min(p, x, y)"
        )

    def _return(self):
        if self._in_helper:
            return f"return {self._number()}"
        number = self._number()
        if self.kind == "real":  # a number alone would come back as float32
            number = f"{number} + 0 * v[0]"
        return "return " + self._returned.format(number)

    # -- expressions --

    def _literal(self):
        if self.kind == "real":
            return f"{self._random.uniform(-2, 2):.2f}"
        return str(self._random.randint(-3, 9)) + (".0" if self.kind == "whole" else "")

    def _mixed(self, one, other):
        """Two numbers made one, not large."""
        if self.kind != "real":
            return f"({one} {self._one('+', '-', '*')} {other}) % 23"
        forms = [f"(0.6 * {one} - 0.7 * {other})", f"({one} / (1.5 + {other} * {other}))"]
        if not self._in_helper:  # np.sin of a number that met no array is a float32
            forms += [f"np.sin({one} + {other} + 0 * v[0])", f"np.tanh({one} * {other} + 0 * v[1])"]
        return self._one(*forms)

    def _number(self, depth=0):
        kind, inner = self._random.random(), depth + 1
        variable = self._one(*self._numbers)
        if depth > 2 or kind < 0.35:
            return self._one(variable, variable, self._literal())
        if kind < 0.6:
            return self._mixed(self._number(inner), self._number(inner))
        if kind < 0.7:
            return f"({self._number(inner)} if {self._test(inner)} else {self._number(inner)})"
        if kind < 0.78:
            return f"{self._one('min', 'max')}({self._number(inner)}, {self._number(inner)})"
        if self._in_helper:
            return f"abs({variable})"
        name = self._one("helper", "near", "box.over", "note", "w", "table", "row", "sum", "max", "step")
        argument = self._number(inner)
        if name == "helper":
            return f"helper({argument}, {self._number(inner)})"
        if name == "w":
            return f"{self._one('w', 'v', 'u')}[{self._index()}]"
        if name == "table":
            return f"table[{self._one(repr('p'), repr('q'))}]"
        if name == "row":
            return f"row[{self._one('0', '1', '-1')}]"
        if name == "sum":
            over = self._one("(x, y, z)", "row", "v", "w")
            each = self._one("s if s > {} else 1", "s", "helper(s, {})", "near(s)").format(argument)
            total = f"sum([{each} for s in {over}])"
            return f"({total} % 23)" if self.kind != "real" else f"np.sin({total} + 0 * v[0])"
        if name == "max":
            return f"max([{argument}, *row])"
        if name == "step":
            return self._mixed(argument, f"int({self._test(inner)})")
        return f"{name}({argument})"

    def _whole(self):
        """An expression of whole numbers, for indices and ends of loops."""
        if self.kind == "int":
            return self._one(self._one(*self._numbers), f"({self._number(2)})")
        return self._one(*self._wholes)

    def _index(self):
        if self._chance(0.2):
            return self._one("0", "1", "-1")
        return f"{self._whole()} % {self.length}"

    def _test(self, depth=0):
        kind, inner = self._random.random(), depth + 1
        number = self._number(inner)
        if depth > 2 or kind < 0.45:
            return f"{number} {self._one('<', '<=', '>', '>=')} {self._number(inner)}"
        if kind < 0.6:
            return f"({self._test(inner)} {self._one('and', 'or')} {self._test(inner)})"
        if kind < 0.68:
            return f"not ({self._test(inner)})"
        if kind < 0.78:
            return f"{number} < {self._number(inner)} <= {self._number(inner)}"
        if kind < 0.83 and self._wholes:
            return f"{self._whole()} {self._one('==', '!=')} {self._random.randint(0, 4)}"
        if kind < 0.87 and self.kind != "real":
            return f"({number} % 3 {self._one('==', '!=')} 1)"
        if kind < 0.9 and self.kind == "int":
            return f"({number} % 3)"
        if kind < 0.94 and self.kind != "real":
            return f"{number} {self._one('in', 'not in')} (1, 2, 5, 7)"
        if self._in_helper:
            return f"p > {number}"
        over = self._one("(x, y)", "row", "v", "w")
        return f"{self._one('any', 'all')}(s > {number} for s in {over})"

    # -- statements --

    def _block(self, in_loop, size, top=False):
        self._depth += 1
        for _ in range(self._random.randint(1, size)):
            self._statement(in_loop, size - 1, top)
        self._depth -= 1

    def _statement(self, in_loop, size, top=False):
        kind = self._random.random()
        if size <= 0 or kind < 0.4:
            self._assign(top)
        elif kind < 0.6:
            self._branches(in_loop, size)
        elif kind < 0.78:
            self._one(self._while, self._for)(in_loop, size)
        elif kind < 0.84:
            self._match(in_loop, size)
        elif kind < 0.9:
            self._try(in_loop, size)
        else:
            self._emit(f"if {self._test()}:")
            leave = in_loop and self._chance(0.7)
            self._inside(self._one("break", "continue") if leave else self._return())

    def _assign(self, top):
        variable, number = self._one(*self._numbers), self._number(1)
        kind = self._random.random()
        if not self._items or kind < 0.45:
            self._emit(f"{variable} {self._one('=', '=', '+=', '-=')} {number}")
        elif kind < 0.55:
            self._emit(f"x, y = {self._one('y, x', f'{number}, x', f'y, {number}')}")
        elif kind < 0.66 or kind < 0.8 and self._alias:
            self._emit(f"{self._one('w', 'w', 'u')}[{self._index()}] {self._one('=', '+=')} {number}")
        elif kind < 0.7:
            self._emit(f"fill({self._one('w', 'u')}, {self._index()}, {number})")
        elif kind < 0.74:
            self._emit(f"w = w + {number}")
        elif kind < 0.8:
            self._emit(f"w = {self._one('w[::-1] + 0', 'v + w', 'w - u', f'w * {self._literal()}')}")
            self._emit("w = np.sin(w)" if self.kind == "real" else "w = w % 23")
        elif kind < 0.86:
            self._emit(f"table[{self._one(repr('p'), repr('q'))}] = {number}")
        elif kind < 0.92:
            self._emit(f"row[{self._one('0', '1')}] {self._one('=', '+=')} {number}")
        elif kind < 0.95:
            self._emit(f"if (t := {number}) > {self._number(2)}:")
            self._inside(f"{variable} = t")
        elif kind < 0.97:
            self._emit(f"assert {variable} - 1 < {variable} or True, 'never'")
        elif kind < 0.985 or not top:
            self._emit(f"if abs({variable}) > 1e6:")
            self._inside(f"raise ValueError({variable!r})")
        else:
            self._emit("items = []", f"for s in {self._one('v', 'w', 'row')}:")
            self._inside(f"items.append(s if s > {number} else {variable})")
            self._emit(f"{variable} = {self._mixed('items[-1]', 'items[0]')}")

    def _branches(self, in_loop, size):
        self._emit(f"if {self._test()}:")
        self._block(in_loop, size)
        while self._chance(0.25):
            self._emit(f"elif {self._test()}:")
            self._block(in_loop, size)
        if self._chance(0.5):
            self._emit("else:")
            self._block(in_loop, size)

    def _match(self, in_loop, size):
        if self._in_helper:
            self._branches(in_loop, size)
            return
        self._emit(f"match {self._whole()} % 5:")
        self._depth += 1
        for pattern in self._random.sample(["0", "1", "2 | 3"], 2):
            self._emit(f"case {pattern}:")
            self._block(in_loop, size)
        if self._chance(0.5):
            self._emit(f"case k if k > {self._random.randint(0, 3)}:")
            self._block(in_loop, size)
        if self._chance(0.5):
            self._emit("case _:")
            self._block(in_loop, size)
        self._depth -= 1

    def _try(self, in_loop, size):
        if self._chance(0.3):
            self._emit("with contextlib.nullcontext():")
            self._block(in_loop, size)
            return
        self._emit("try:")
        self._block(in_loop, size)
        self._emit("finally:")
        variable = self._one(*self._numbers)
        self._inside(f"{variable} = {self._mixed(variable, self._literal())}")

    def _while(self, in_loop, size):
        i = self._new("i")
        self._emit(f"{i} = 0")
        most = self._random.randint(1, 5)
        if self._chance(0.3):
            self._emit("while True:")
            self._inside(f"{i} += 1", f"if {i} > {most} or {self._test()}:", "    break")
        else:
            self._emit(f"while {i} < {most} and {self._test()}:")
            self._inside(f"{i} += 1")
        self._body(in_loop, size, whole=i)

    def _for(self, in_loop, size):
        i, e = self._new("i"), self._new("e")
        ends = ["3", "2", "4, 0, -1"]
        if self._items:
            n = self._whole()
            ends += [f"{n} % 5", f"{n} % 3, 4", f"{n} % 4, -1, -1"]
        over = self._one("range", "v", "enumerate", "zip", "other") if self._items else "range"
        if over == "range":
            self._emit(f"for {i} in range({self._one(*ends)}):")
            self._body(in_loop, size, whole=i)
        elif over == "enumerate":
            self._emit(f"for {i}, {e} in enumerate(v):")
            self._body(in_loop, size, whole=i, number=e)
        elif over == "zip":
            self._emit(f"for {e}, {e}b in zip(v, w + 0):")
            self._body(in_loop, size, number=self._one(e, e + "b"))
        else:
            self._emit(f"for {e} in {self._one('v', 'v[::-1]', 'w + 0', '(x, y, z)', 'list(row)')}:")
            self._body(in_loop, size, number=e)

    def _body(self, in_loop, size, whole=None, number=None):
        """The block of a loop, in which its variables can be read, and what follows it."""
        numbers, wholes = self._numbers, self._wholes
        if whole and self.kind == "int":
            number = whole
        elif whole and not self._in_helper:
            self._wholes = [*wholes, whole]
        variable = self._one(*numbers)
        if number:
            self._inside(f"{variable} = {self._mixed(variable, number)}")
        before = len(self._lines)
        self._numbers = numbers if not number else [*numbers, number]
        self._block(True, size)
        self._protect(before, number)
        self._numbers, self._wholes = numbers, wholes
        if self._chance(0.2):
            self._emit("else:")
            self._block(in_loop, size)

    def _protect(self, first, name):
        """Loops count: a body does not assign to the variable of its loop."""
        other = "p" if self._in_helper else "z"
        for i in range(first, len(self._lines)):
            line = self._lines[i]
            for sign in (" = ", " += ", " -= "):
                if name and line.strip().startswith(name + sign):
                    self._lines[i] = line.replace(name + sign, other + sign, 1)


def loaded(text, name, np=None):
    """The function f of a text, whose lines can be found as those of a file are."""
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space = {"__name__": "plain_program", "np": np, "contextlib": __import__("contextlib")}
    exec(compile(text, name, "exec"), space)
    return space["f"]


# ---- smaller ones ----


def smaller(text):
    """Texts with a statement less, or with a part of an expression in place of the whole."""
    tree = ast.parse(text)
    sites = []
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody", "cases"):
            block = getattr(node, field, None)
            if isinstance(block, list) and not isinstance(node, ast.ClassDef):
                sites += [(node, field, i) for i in range(len(block))]
    for node, field, i in sites:
        for put in ([], *_parts(getattr(node, field)[i])):
            yield from _changed(tree, node, field, i, put)
    for node in list(ast.walk(tree)):
        for field, value in ast.iter_fields(node):
            if isinstance(value, (ast.BinOp, ast.IfExp, ast.BoolOp, ast.Compare, ast.Call, ast.UnaryOp)):
                truth = isinstance(value, (ast.BoolOp, ast.Compare))
                parts = [c for c in ast.iter_child_nodes(value) if isinstance(c, ast.expr)]
                parts = [c for c in parts if isinstance(c, (ast.BoolOp, ast.Compare)) == truth]
                for part in parts:
                    setattr(node, field, part)
                    made = _unparsed(tree)
                    setattr(node, field, value)
                    if made is not None:
                        yield made


def _parts(statement):
    """What can stand in place of a statement that has blocks."""
    blocks = [getattr(statement, field, None) for field in ("body", "orelse", "finalbody")]
    return [b for b in blocks if b] if isinstance(statement, ast.stmt) else []


def _changed(tree, node, field, i, put):
    block = getattr(node, field)
    setattr(node, field, [*block[:i], *put, *block[i + 1 :]] or ([ast.Pass()] if field == "body" else []))
    made = _unparsed(tree)
    setattr(node, field, block)
    if made is not None:
        yield made


def _unparsed(tree):
    try:
        made = ast.unparse(ast.fix_missing_locations(copy.deepcopy(tree))) + "\n"
        compile(made, "<smaller>", "exec")
    except (SyntaxError, ValueError, AttributeError):
        return None
    return made


def smallest(text, fails, tries=400):
    """A smaller text of which fails(text) holds, as of this one."""
    going = True
    while going and tries > 0:
        going = False
        for made in smaller(text):
            if len(made) >= len(text):
                continue
            tries -= 1
            if fails(made):
                text, going = made, True
                break
            if tries <= 0:
                break
    return text
