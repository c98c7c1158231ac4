"""Effects of the host: what the Python code of a body changes outside of itself is refused, with the
operator, the name and the line; what nobody else sees, what is undone, and what is filled once is taken."""

import collections
import functools
import itertools
import linecache
import operator
import os
import queue
import random
import re
import sys
import types
import unittest

import hop
from support import Case, needs_numpy, numpy

SEEDS = int(os.environ.get("HOP_TEST_SEEDS", "60"))

# operator: (a call of it that uses body, what the body gives)
OPERATORS = {
    "cond": ("hop.cond(x > 0, body, lambda v: v, x)", "args[0]"),
    "switch": ("hop.switch(hop.astype(x, 'int64'), [lambda v: v, body], x)", "args[0]"),
    "while_loop": ("hop.while_loop(lambda c: c < 3, body, x)", "args[0] + 1"),
    "fori_loop": ("hop.fori_loop(0, 3, body, x)", "args[1] + 1"),
    "scan": ("hop.scan(body, x, hop.ones(3))[0]", "(args[0] + args[1], args[0])"),
    "map": ("hop.map(body, hop.ones(3) * x)", "args[0] * 2"),
    "associative_scan": ("hop.associative_scan(body, hop.ones(3) * x)", "args[0] + args[1]"),
    "checkpoint": ("hop.checkpoint(body)(x)", "args[0] * 2"),
    "vmap": ("hop.vmap(body)(hop.ones(3) * x)", "args[0] * 2"),
    "grad": ("hop.grad(body)(x)", "args[0] * args[0]"),
    "value_and_grad": ("hop.value_and_grad(body)(x)[0]", "args[0] * args[0]"),
    "vjp": ("hop.vjp(body, x)[0]", "args[0] * args[0]"),
    "jvp": ("hop.jvp(body, (x,), (x,))[0]", "args[0] * args[0]"),
    "linearize": ("hop.linearize(body, x)[0]", "args[0] * args[0]"),
    "jacfwd": ("hop.jacfwd(body)(x)", "args[0] * args[0]"),
    "jacrev": ("hop.jacrev(body)(x)", "args[0] * args[0]"),
    "hessian": ("hop.hessian(body)(x)", "args[0] * args[0]"),
}
# Only captures make bodies of these: outside of them they run as Python.
AT_ONCE = ("cond", "switch", "checkpoint")
# The message has the name of what stands inside.
INSIDE = {"hessian": "jac(fwd|rev)"}

# (what is there, statement with an effect, its name)
EFFECTS = [
    ("out = []", "out.append(1)", "out"),
    ("out = []", "out.append(args[0])", "out"),
    ("out = [0]", "out[0] = 1", "out"),
    ("out = [1, 2]", "del out[0]", "out"),
    ("out = [2, 1]", "out.sort()", "out"),
    ("out = []", "alias = out; alias += [1]", "out"),
    ("push = [].append", "push(1)", "push"),
    ("table = {'n': 1}", "table['n'] = 2", "table['n']"),
    ("table = {'n': 1}", "table['n'] += 1", "table['n']"),
    ("table = {}", "table.update(n=1)", "table['n']"),
    ("table = {'n': 1}", "table.pop('n')", "table['n']"),
    ("table = {'n': 1}", "del table['n']", "table['n']"),
    ("table = {'a': {'b': []}}", "table['a']['b'].append(1)", "table['a']['b']"),
    ("table = collections.defaultdict(list)", "table['n']", "table['n']"),
    ("table = collections.OrderedDict(a=1, b=2)", "table.move_to_end('a')", "table"),
    ("some = set()", "some.add(1)", "some"),
    ("some = {1, 2}", "some.discard(2)", "some"),
    ("row = collections.deque()", "row.append(1)", "row"),
    ("row = collections.deque([1, 2])", "row.rotate(1)", "row"),
    ("raw = bytearray(3)", "raw[0] = 1", "raw"),
    ("count = collections.Counter()", "count['a'] += 1", "count['a']"),
    ("space = types.SimpleNamespace(n=1)", "space.n = 2", "space.n"),
    ("class Box: pass\nbox = Box()", "box.value = args[0]", "box.value"),
    ("class Box: pass\nbox = Box(); box.n = 1", "del box.n", "box.n"),
    ("class Box: pass\nbox = Box()", "setattr(box, 'value', 1)", "box.value"),
    ("class Box: pass\nbox = Box(); box.log = []", "box.log.append(1)", "box.log"),
    ("class Box: __slots__ = ('n',)\nbox = Box(); box.n = 1", "box.n = 2", "box.n"),
    ("class Box: n = 0", "Box.n += 1", "Box.n"),
    ("class Box(list): pass\nbox = Box()", "box.append(1)", "box"),
    ("n = 0", "global n; n = n + 1", "n"),
    ("n = 0", "global n; n = args[0]", "n"),
    ("n = 0", "globals()['n'] = 1", "n"),
    ("def tool(): pass", "tool.calls = 1", "tool.calls"),
    ("it = iter([1, 2, 3])", "next(it)", "it"),
    ("it = (i for i in [1, 1, 1])", "next(it)", "it"),
    ("it = itertools.count()", "next(it)", "it"),
    ("it = zip([1, 2], [3, 4])", "list(it)", "it"),
    ("it = itertools.cycle([1, 2]); [next(it) for _ in range(3)]", "next(it)", "it"),
    ("import random", "random.random()", "random"),
    ("from random import gauss", "gauss(0, 1)", "gauss"),
    ("rng = random.Random(1)", "rng.gauss(0, 1)", "rng"),
    ("draw = random.Random(1).random", "draw()", "draw"),
]
NUMPY = [
    ("array = numpy.zeros(3)", "array[0] = 1", "array"),
    ("array = numpy.zeros(3)", "alias = array; alias += 1", "array"),
    ("array = numpy.ones(3)", "array.fill(2)", "array"),
    ("array = numpy.ones(3)", "numpy.copyto(array, 2)", "array"),
    ("", "numpy.random.normal()", "numpy.random"),
    ("import numpy as np", "np.random.rand(3)", "numpy.random"),
    ("from numpy.random import normal", "normal()", "normal"),
    ("rng = numpy.random.default_rng(1)", "rng.normal()", "rng"),
    ("rng = numpy.random.RandomState(1)", "rng.normal()", "rng"),
    ("deep = {'rng': numpy.random.default_rng(1)}", "deep['rng'].normal()", "deep['rng']"),
]

_numbers = itertools.count()


def loaded(text):
    """(the names of a program, its file), whose source can be had."""
    file = f"<effect {next(_numbers)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    space = {"__name__": "effects", "hop": hop, "collections": collections, "itertools": itertools}
    space.update(random=random, types=types, functools=functools, numpy=numpy, operator=operator, sys=sys)
    exec(compile(text, file, "exec"), space)
    return space, file


def program(setup, statement, call, result):
    """(a function of x in which the statement is in a body, where the statement stands)"""
    text = f"{setup}\ndef body(*args):\n    {statement}\n    return {result}\n"
    text += f"def whole(x):\n    return {call}\n"
    space, file = loaded(text)
    return space, f"{file}:{setup.count(chr(10)) + 3}"


class Refused(Case):
    def refused(self, call, *said):
        with self.assertRaises(hop.Error) as raised:
            call()
        for part in said:
            self.assertRegex(str(raised.exception), part)
        self.assertIsInstance(raised.exception, hop.InvalidError)
        return str(raised.exception)

    def every(self, effects, operators):
        for setup, statement, name in effects:
            for operator, (call, result) in operators.items():
                for jitted in (False, True) if operator not in AT_ONCE else (True,):
                    with self.subTest(statement=statement, operator=operator, jitted=jitted):
                        space, line = program(setup, statement, call, result)
                        run = hop.jit(space["whole"]) if jitted else space["whole"]
                        self.refused(
                            lambda: run(hop.asarray(1.0)),  # noqa: B023
                            f": {INSIDE.get(operator, operator)}: the function 'body' ",
                            rf"{re.escape(name)} \({re.escape(line)}\): that happens while",
                        )

    def test_every_effect(self):
        few = {name: OPERATORS[name] for name in ("cond", "scan", "grad")}
        self.every(EFFECTS, few)

    def test_every_operator(self):
        self.every(EFFECTS[::7], OPERATORS)

    @needs_numpy
    def test_numpy(self):
        self.every(NUMPY, {name: OPERATORS[name] for name in ("scan", "vmap")})
        self.every(NUMPY[:1], OPERATORS)

    def test_conditions_of_loops(self):
        out = []
        test = lambda c: out.append(1) or c < 3  # noqa: E731
        self.refused(lambda: hop.while_loop(test, lambda c: c + 1, 0), "while_loop: .*inside of out")

    def test_variables_around_it(self):
        def make():
            total = 0

            def body(c, x):
                nonlocal total
                total = total + 1
                return c + x, x

            return body

        body = make()
        line = f"test_effects.py:{body.__code__.co_firstlineno + 2}"
        self.refused(lambda: hop.scan(body, 0.0, hop.ones(2)), rf"changes total \(.*{line}\)")

    def test_methods(self):
        class Layer:
            def __init__(self):
                self.calls, self.log = 0, {"x": []}

            def count(self, c, x):
                self.calls += 1
                return c + x, x

            def note(self, c, x):
                self.log["x"].append(x)
                return c + x, x

            def __call__(self, c, x):
                return self.count(c, x)

            @property
            def noted(self):
                self.calls = self.calls + 1
                return 2.0

        layer = Layer()
        first = Layer.count.__code__.co_firstlineno
        run = lambda f: hop.scan(f, 0.0, hop.ones(2))  # noqa: E731
        at = lambda line: rf"\(.*test_effects.py:{line}\)"  # noqa: E731
        self.refused(lambda: run(layer.count), r"'count' changes self\.calls " + at(first + 1))
        self.refused(lambda: run(layer.note), r"inside of self\.log\['x'\] " + at(first + 5))
        self.refused(lambda: run(layer), r"changes self\.calls " + at(first + 1))
        self.refused(lambda: run(lambda c, x: layer(c, x)), r"changes layer\.calls " + at(first + 1))
        noted = lambda c, x: (c * layer.noted, x)  # noqa: E731
        self.refused(lambda: run(noted), r"changes layer\.calls " + at(first + 13))
        self.refused(lambda: run(functools.partial(Layer.count, layer)), r"calls " + at(first + 1))
        held = [{"layer": layer}]
        called = r"changes held\[0\]\['layer'\]\.calls "
        self.refused(lambda: run(lambda c, x: held[0]["layer"](c, x)), called)

        def looped(c, x):
            for part in held:
                for f in part.values():
                    c, x = f(c, x)
            return c, x

        self.refused(lambda: run(looped), called + at(first + 1))

    def test_helpers(self):
        """In the function's module and in another one."""
        text = "count = 0\nlog = []\ndef tick(x):\n    global count\n    count += 1\n    return x\n"
        other, file = loaded(text + "def write(x):\n    log.append(x.shape)\n    return x\n")
        module = types.ModuleType("other")
        module.__dict__.update({k: v for k, v in other.items() if k[:2] != "__"})
        module.tick, module.write = (
            types.FunctionType(f.__code__, module.__dict__, f.__name__) for f in (module.tick, module.write)
        )
        sys.modules["other"] = module
        self.addCleanup(sys.modules.pop, "other")
        space, _ = loaded("import other\nfrom other import write\ndef helper(x):\n    return other.tick(x)\n")
        tick, write = space["helper"], space["write"]
        run = lambda f: hop.map(f, hop.ones(2))  # noqa: E731
        self.refused(lambda: run(lambda x: tick(x)), rf"changes count \({re.escape(file)}:5\)")
        self.refused(lambda: run(lambda x: write(x) * 2), rf"inside of log \({re.escape(file)}:8\)")
        space, file = loaded("import other\ndef body(x):\n    other.count = 3\n    return x\n")
        self.refused(lambda: run(space["body"]), rf"changes other.count \({re.escape(file)}:3\)")

    def test_defaults_and_operands(self):
        def body(c, x, seen=[]):  # noqa: B006
            seen.append(1)
            return c, x

        self.refused(lambda: hop.scan(body, 0.0, hop.ones(2)), "inside of seen")
        box = types.SimpleNamespace(n=0)

        def branch(x, box):
            box.n = 1
            return x

        f = hop.jit(lambda x: hop.cond(x > 0, branch, lambda x, box: x, x, box))
        self.refused(lambda: f(1.0), r"cond: the function 'branch' changes box\.n")
        steps = lambda i, c: setattr(c["box"], "n", 2) or c  # noqa: E731
        self.refused(lambda: hop.fori_loop(0, 2, steps, {"x": 1.0, "box": box}), r"changes c\['box'\]\.n")

    def test_inner_bodies(self):
        """The innermost body is named; a list that the outer one made is not the inner one's."""

        def whole(x):
            out = []

            def inner(c, v):
                out.append(c)
                return c + v, v

            return hop.cond(x > 0, lambda x: hop.scan(inner, x, hop.ones(2))[0] + len(out), lambda x: x, x)

        self.refused(lambda: hop.jit(whole)(1.0), "scan: the function 'inner' changes what is inside of out")

    def test_the_other_branch(self):
        """Outside of captures a branch runs as Python; the other one is looked at for its types alone."""
        seen = []
        note = lambda v: (seen.append(v), v)[1]  # noqa: E731
        self.equal(hop.cond(hop.asarray(True), lambda: note(hop.ones(1)), lambda: hop.zeros(1)), [1.0])
        self.assertEqual(len(seen), 1)
        self.refused(lambda: hop.cond(hop.asarray(True), lambda: 1.0, lambda: note(2.0)), "inside of seen")

    def test_the_first_capture_notices(self):
        """Whatever makes a body be captured again."""

        class Flag:
            up = False

        flag = Flag()

        def widened(c, x):
            flag.up = True
            return c + x, x

        self.refused(lambda: hop.scan(widened, 0, hop.ones(2)), r"changes flag\.up")
        flag.up = False
        f = hop.jit(lambda x: hop.cond(x > 0, widened, lambda c, x: (c, x), 1, x))
        self.refused(lambda: f(hop.asarray(1.0)), r"changes flag\.up")

    def test_what_does_not_fit_because_of_it(self):
        out = []
        f = hop.jit(lambda x: hop.cond(x > 0, lambda: out.append(1), lambda: 1.0))
        self.refused(lambda: f(1.0), "cond: .*changes what is inside of out")

    def test_a_filled_cache_that_holds_a_traced_value(self):
        cache = {}

        def body(c, x):
            if "k" not in cache:
                cache["k"] = c * 2
            return cache["k"], x

        self.refused(lambda: hop.scan(body, 0.0, hop.ones(2)), r"changes cache\['k'\]")


class Routes(Case):
    """Ways by which the code of a body comes to a statement with an effect. STATEMENT stands for it."""

    refused = Refused.refused
    STATEMENTS = [
        ("out = []", "out.append(1)", "out"),
        ("table = {'n': 1}", "table['n'] = 2", "table['n']"),
        ("deep = [{'a': [[]]}]", "deep[0]['a'][0].append(1)", "deep[0]['a'][0]"),
        ("number = 0", "global number; number = number + 1", "number"),
        ("", "random.random()", "random"),
    ]
    ROUTES = """
# helper
def helper():
    STATEMENT
BODY
    helper()
    LAST
# table
def helper():
    STATEMENT
table_ = {'f': helper}
BODY
    table_['f']()
    LAST
# dynkey
def helper():
    STATEMENT
table_ = {'f': helper}
key_='f'
BODY
    table_[key_]()
    LAST
# loop
def helper():
    STATEMENT
fs = [len, helper]
BODY
    for f in fs[1:]:
        f()
    LAST
# method
class A_:
    def m(self):
        STATEMENT
obj=A_()
BODY
    obj.m()
    LAST
# objinlist
class A_:
    def m(self):
        STATEMENT
objs=[A_()]
BODY
    for o in objs: o.m()
    LAST
# call
class A_:
    def __call__(self):
        STATEMENT
obj=A_()
BODY
    obj()
    LAST
# property
class A_:
    @property
    def p(self):
        STATEMENT
        return 1
obj=A_()
BODY
    return c + x * obj.p, x
# getattr
class A_:
    def __getattr__(self, nm):
        STATEMENT
        return 1
obj=A_()
BODY
    return c + x * obj.anything, x
# getitem
class A_:
    def __getitem__(self, nm):
        STATEMENT
        return 1
obj=A_()
BODY
    return c + x * obj[0], x
# add
class A_:
    def __radd__(self, nm):
        STATEMENT
        return nm
obj=A_()
BODY
    1 + obj
    LAST
# with
class A_:
    def __enter__(self):
        STATEMENT
    def __exit__(self, *a): pass
obj=A_()
BODY
    with obj: pass
    LAST
# static
class A_:
    @staticmethod
    def m():
        STATEMENT
BODY
    A_.m()
    LAST
# classm
class A_:
    @classmethod
    def m(cls):
        STATEMENT
BODY
    A_.m()
    LAST
# init
class A_:
    def __init__(self):
        STATEMENT
BODY
    A_()
    LAST
# super
class B_:
    def m(self):
        STATEMENT
class A_(B_):
    def m(self):
        super().m()
obj=A_()
BODY
    obj.m()
    LAST
# inherit
class B_:
    def m(self):
        STATEMENT
class A_(B_): pass
obj=A_()
BODY
    obj.m()
    LAST
# partial
def helper(k):
    STATEMENT
p = functools.partial(helper, 1)
BODY
    p()
    LAST
# default
def helper():
    STATEMENT
def body(c, x, h=helper):
    h()
    LAST
# kwdefault
def helper():
    STATEMENT
def body(c, x, *, h=helper):
    h()
    LAST
# decorator
def deco(f):
    @functools.wraps(f)
    def w(*a):
        STATEMENT
        return f(*a)
    return w
@deco
BODY
    LAST
# inner
BODY
    def h():
        STATEMENT
    h()
    LAST
# lambda
def helper():
    STATEMENT
body = lambda c, x: (helper(), (c + x, x))[1]
# comp
def helper():
    STATEMENT
BODY
    [helper() for _ in range(1)]
    LAST
# genfun
def gen():
    STATEMENT
    yield 1
BODY
    list(gen())
    LAST
# map
def helper(v):
    STATEMENT
BODY
    list(map(helper, [1]))
    LAST
# passed
def apply(f):
    f()
def helper():
    STATEMENT
BODY
    apply(helper)
    LAST
# sorted
def helper(v):
    STATEMENT
    return v
BODY
    sorted([1, 2], key=helper)
    LAST
# reduce
def helper(a, b):
    STATEMENT
    return a
BODY
    functools.reduce(helper, [1, 2])
    LAST
# try
BODY
    try:
        STATEMENT
        raise ValueError
    except ValueError:
        pass
    LAST
# recursion
def helper(q):
    if q:
        return helper(q - 1)
    STATEMENT
BODY
    helper(2)
    LAST
# closure
def make():
    def helper():
        STATEMENT
    BODY
        helper()
        LAST
    return body
body = make()
# attrfun
def helper():
    STATEMENT
class A_: pass
obj = A_(); obj.f = helper
BODY
    obj.f()
    LAST
# hopmap
def helper(v):
    STATEMENT
    return v
BODY
    return c + hop.map(helper, hop.ones(2))[0], x
# hopgrad
def helper(v):
    STATEMENT
    return v*v
g = hop.grad(helper)
BODY
    return c + g(x), x
# treemap
def helper(v):
    STATEMENT
    return v
BODY
    return hop.tree.map(helper, c) + x, x
# slotsobj
class A_:
    __slots__ = ('f',)
obj = A_()
def helper():
    STATEMENT
obj.f = helper
BODY
    obj.f()
    LAST
# namedtuple
P_ = collections.namedtuple('P_', 'f')
def helper():
    STATEMENT
p = P_(helper)
BODY
    p.f()
    LAST
# dataclassm
import dataclasses
@dataclasses.dataclass
class D_:
    k: int = 1
    def m(self):
        STATEMENT
d = D_()
BODY
    d.m()
    LAST
# descriptor
class De:
    def __get__(self, o, t=None):
        STATEMENT
        return 1
class A_:
    p = De()
obj = A_()
BODY
    return c + x * obj.p, x
# meta
class M_(type):
    def m(cls):
        STATEMENT
class A_(metaclass=M_): pass
BODY
    A_.m()
    LAST
# lru
@functools.lru_cache
def helper(k):
    STATEMENT
    return 1
BODY
    helper(1)
    LAST
# singledispatch
@functools.singledispatch
def helper(k):
    STATEMENT
BODY
    helper(1)
    LAST
# enumm
import enum
class E_(enum.Enum):
    A = 1
    def m(self):
        STATEMENT
BODY
    E_.A.m()
    LAST
# iterobj
class A_:
    def __iter__(self):
        STATEMENT
        return iter([1])
obj=A_()
BODY
    for _ in obj: pass
    LAST
# importin
mod = types.ModuleType('modq'); sys.modules['modq'] = mod
def helper():
    STATEMENT
mod.helper = helper
BODY
    import modq
    modq.helper()
    LAST
# importfrom
mod = types.ModuleType('modq'); sys.modules['modq'] = mod
def helper():
    STATEMENT
mod.helper = helper
BODY
    from modq import helper as hh
    hh()
    LAST
# setdef
def helper():
    STATEMENT
hs = {helper}
BODY
    for h in hs: h()
    LAST
# weird
def helper():
    STATEMENT
BODY
    (lambda: helper())()
    LAST
# boundm
class A_:
    def m(self):
        STATEMENT
m = A_().m
BODY
    m()
    LAST
# mcaller
class A_:
    def m(self):
        STATEMENT
obj = A_()
mc = operator.methodcaller('m')
BODY
    mc(obj)
    LAST
# getattrcall
class A_:
    def m(self):
        STATEMENT
obj = A_()
BODY
    getattr(obj, 'm')()
    LAST
"""

    def test_every_way(self):
        routes = self.ROUTES.split("\n# ")[1:]
        self.assertGreater(len(routes), 45)
        for route in routes:
            name, _, text = route.partition("\n")
            text = text.replace("BODY", "def body(c, x):").replace("LAST", "return c + x, x")
            for setup, statement, changed in self.STATEMENTS:
                with self.subTest(way=name, statement=statement):
                    whole = f"{setup}\n{text.replace('STATEMENT', statement)}\n"
                    space, file = loaded(whole)
                    at = next(i for i, line in enumerate(whole.splitlines(), 1) if statement in line)
                    said = rf" {re.escape(changed)} \({re.escape(file)}:{at}\)"
                    run = lambda: hop.scan(space["body"], 0.0, hop.ones(2))  # noqa: B023, E731
                    self.refused(run if len(statement) % 2 else hop.jit(run), said)

    def test_caches_of_the_standard_library(self):
        @functools.singledispatch
        def double(x):
            return 2.0

        self.equal(hop.map(lambda x: x * double(1), hop.ones(2)), [2.0, 2.0])


class Plain(Case):
    """Control flow of Python's that is captured as operators."""

    refused = Refused.refused

    def test_every_construct(self):
        for setup, block, name in (
            ("out = []", "if x > 0:\n        out.append(1)", "out"),
            ("out = []", "if x > 0:\n        pass\n    else:\n        out.append(x)", "out"),
            ("box = types.SimpleNamespace(n=0)", "while x < 3:\n        x = x + 1; box.n = 1", "box.n"),
            ("table = {}", "for i in range(hop.astype(x, 'int64')):\n        table['i'] = i", "table['i']"),
            ("it = iter([1, 2])", "if x > 0:\n        x = x + next(it)", "it"),
            ("rng = random.Random(1)", "if x > 0:\n        x = x + rng.random()", "rng"),
            ("n = 0", "if x > 0:\n        globals()['n'] = 1", "n"),
        ):
            with self.subTest(block=block):
                space, file = loaded(f"{setup}\ndef f(x):\n    {block}\n    return x\n")
                line = [i for i, s in enumerate(linecache.getlines(file), 1) if s.startswith("        ")][-1]
                said = rf"{re.escape(name)} \({re.escape(file)}:{line}\)"
                self.refused(lambda: hop.jit(space["f"])(hop.asarray(1.0)), said)  # noqa: B023

    def test_expressions(self):
        out = []
        note = lambda v: (out.append(v), v)[1]  # noqa: E731
        for f in (
            lambda x: note(x) if x > 0 else x,
            lambda x: x > 0 and note(x) > 1,
            lambda x: x > 0 or note(x) > 1,
            lambda x: 0 < x < note(x),
        ):
            with self.subTest(line=f.__code__.co_firstlineno):
                self.refused(lambda: hop.jit(f)(hop.asarray(1.0)), "inside of out")  # noqa: B023

    def test_variables_that_a_call_changes(self):
        """Those of the function itself are its own."""

        def f(x):
            count = 0

            def tick():
                nonlocal count
                count += 1

            if x > 0:
                tick()
            return x * count

        for x in (2.0, -2.0):
            self.equal(hop.jit(f)(hop.asarray(x)), f(x))

    def test_a_global_variable_in_a_branch(self):
        space, file = loaded("n = 0\ndef f(x):\n    global n\n    if x > 0:\n        n += 1\n    return x\n")
        said = rf"{re.escape(file)}:4: .*global variable n"
        self.refused(lambda: hop.jit(space["f"])(hop.asarray(1.0)), said)

    def test_abandoned_captures(self):
        seen = []

        def f(x):
            seen.append(1)
            return x if x > 0 else -x

        self.refused(lambda: hop.jit(f)(hop.asarray(1.0)), "'f' changes what is inside of seen .*twice")
        cache = {}

        def g(x):
            if "k" not in cache:
                cache["k"] = 2.0
            return x * cache["k"] if x > 0 else -x

        self.equal(hop.jit(g)(hop.asarray(3.0)), 6.0)


class Jit(Case):
    """The function under jit itself, and one that is called inside of another."""

    refused = Refused.refused

    def test_traced_values_in_outer_state(self):
        for setup, statement, name in (
            ("out = []", "out.append(x)", "out"),
            ("out = []", "out.append({'a': (x * 2, 1)})", "out"),
            ("table = {}", "table['x'] = x", "table['x']"),
            ("class Box: pass\nbox = Box()", "box.value = x", "box.value"),
            ("n = 0", "global n; n = x", "n"),
            ("some = types.SimpleNamespace(log=[])", "some.log.append(x + 1)", "some.log"),
        ):
            text = f"{setup}\ndef f(x):\n    {statement}\n    return x * 2\n"
            line = setup.count("\n") + 3
            for inside in (False, True):
                with self.subTest(statement=statement, inside=inside):
                    space, file = loaded(text)
                    f = hop.jit(space["f"])
                    run = hop.jit(lambda x: f(x) + 1) if inside else f  # noqa: B023
                    said = rf"jit: the function 'f' puts a traced value into {re.escape(name)} "
                    said += rf"\({re.escape(file)}:{line}\)"
                    self.refused(lambda: run(hop.ones(2)), said)  # noqa: B023

    def test_captures_may_be_counted(self):
        """What is written down is no array, and is not read: once for each capture."""
        shapes, calls, last = [], [], types.SimpleNamespace()

        @hop.jit
        def f(x):
            shapes.append(x.shape)
            last.dtype = x.dtype
            return x * 2

        @hop.jit
        def g(x):
            calls.append("g")
            return f(f(x))

        for _ in range(3):
            f(hop.ones(2))
            g(hop.ones(2))
        self.assertEqual((shapes, calls, last.dtype), ([(2,)] * len(shapes), ["g"], hop.float32))
        self.assertLessEqual(len(shapes), 2)
        self.equal(hop.grad(lambda x: hop.sum(f(x)))(hop.ones(3)), [2.0] * 3)
        self.assertEqual(shapes[-1], (3,))

    def test_random_numbers_and_iterators(self):
        rng, it = random.Random(1), iter([1.0, 2.0])
        said = "jit: .*draws from .* rng .*hop.random"
        self.refused(lambda: hop.jit(lambda x: x * rng.random())(1.0), said)
        self.refused(lambda: hop.jit(lambda x: x * random.random())(1.0), "random generator random ")
        self.refused(lambda: hop.jit(lambda x: x * next(it))(1.0), "jit: .*advances the iterator it ")

    @needs_numpy
    def test_numpy(self):
        rng, buffer = numpy.random.default_rng(1), numpy.zeros(2)
        self.refused(lambda: hop.jit(lambda x: x * rng.normal())(1.0), "draws from the random generator rng ")
        self.refused(lambda: hop.jit(lambda x: x * numpy.random.rand())(1.0), "generator numpy.random ")

        def counts(x):
            buffer[0] += 1
            return x * buffer[0]

        self.refused(lambda: hop.jit(counts)(1.0), "jit: .*changes what is inside of buffer ")

    def test_static_arguments(self):
        class Box:
            pass

        def f(x, box):
            box.value = x
            return x

        self.refused(lambda: hop.jit(f, static_argnums=1)(1.0, Box()), r"into box\.value ")

    def test_lowering(self):
        kept = []
        self.refused(lambda: hop.jit(lambda x: kept.append(x) or x).lower(1.0), "into kept ")


class Taken(Case):
    def runs(self, body, *state):
        """A body of scan is taken, jitted or not, and state is as it was."""
        before = [repr(s) for s in state]
        expected = 0.0
        for x in (1.0, 2.0):
            expected, _ = body(expected, x)
        run = lambda xs: hop.scan(body, 0.0, xs)[0]  # noqa: E731
        for f in (run, hop.jit(run), hop.jit(run)):
            self.close(f(hop.asarray([1.0, 2.0])), expected)
        self.assertEqual([repr(s) for s in state], before)

    def test_what_the_body_makes(self):
        def build(x):
            made = {"parts": []}
            made["parts"].append(x)
            return made

        class Sum:
            def __init__(self):
                self.total, self.seen = 0.0, []

            def add(self, x):
                self.total = self.total + x
                self.seen.append(x)
                return self.total

        def body(c, x):
            out, table, some, it = [], {}, set(), iter([1.0, 2.0])
            out.append(c)
            out += [x]
            table["x"] = build(x)["parts"][0]
            some.add(1)
            total = 0.0

            def count():
                nonlocal total
                total = total + next(it)

            count()
            rng, s = random.Random(3), Sum()
            return out[0] + table["x"] * total + len(some) + s.add(x) + rng.random() * 0, x

        self.runs(body)

    def test_what_is_undone(self):
        log, table, box = [1], {"a": 1}, types.SimpleNamespace(training=True)

        def body(c, x):
            log.append(x)
            log.pop()
            before, table["a"] = table["a"], 2
            table["a"] = before
            box.training = False
            try:
                return c + x, x
            finally:
                box.training = True

        self.runs(body, log, table, box)

    def test_what_is_filled_once(self):
        cache, seen, box = {}, set(), types.SimpleNamespace(w=None)

        @functools.lru_cache
        def kept(n):
            return 2.0 * n

        class Lazy:
            @functools.cached_property
            def weight(self):
                return 3.0

        lazy = Lazy()

        def body(c, x):
            if "k" not in cache:
                cache["k"] = 2.0
            if box.w is None:
                box.w = 1.5
            if 1 not in seen:
                seen.add(1)
            return c * cache["k"] + x * box.w * kept(2) * lazy.weight, x

        run = lambda: hop.scan(body, 0.0, hop.asarray([1.0, 2.0]))[0]  # noqa: E731
        expected = (1.0 * 1.5 * 4 * 3) * 2 + 2.0 * 1.5 * 4 * 3
        self.close(run(), expected)
        self.assertEqual((cache, box.w, seen), ({"k": 2.0}, 1.5, {1}))
        self.close(hop.jit(run)(), expected)
        first, second = {}, {}

        def through(cache, k):
            def branch(x):
                if k not in cache:
                    cache[k] = k
                return x * cache[k]

            return branch

        f = hop.jit(lambda x: hop.cond(x > 0, through(first, 2.0), through(second, 3.0), x))
        self.equal(f(1.0), 2.0)
        self.assertEqual((first, second), ({2.0: 2.0}, {3.0: 3.0}))

    def test_what_is_written_and_not_read_is_no_cache(self):
        shapes = {}

        def body(c, x):
            shapes["x"] = x.shape
            return c, x

        with self.assertRaisesRegex(hop.InvalidError, r"changes shapes\['x'\]"):
            hop.scan(body, 0.0, hop.ones(2))

    def test_functions_for_the_host(self):
        seen = []

        def body(c, x):
            hop.debug_callback(lambda v: seen.append(v.item()), x)
            hop.debug_callback(seen.append, c)
            return c + x, x

        hop.scan(body, 0.0, hop.asarray([1.0, 2.0]))
        self.assertEqual([float(x) for x in seen], [1.0, 0.0, 2.0, 1.0])

    def test_without_jit_bodies_are_python(self):
        seen = []
        with hop.disable_jit():
            hop.scan(lambda c, x: (seen.append(x.item()) or c + x, x), hop.zeros(()), hop.asarray([1.0, 2.0]))
        self.assertEqual(seen, [1.0, 2.0])

    def test_what_nobody_can_look_into(self):
        way = queue.SimpleQueue()
        hop.scan(lambda c, x: (way.put(x.shape) or c + x, x), 0.0, hop.ones(2))
        self.assertEqual(way.get(), ())

    def test_code_of_the_user_is_not_run(self):
        """Comparing what is inside of containers asks objects for nothing."""

        class Loud:
            def __eq__(self, other):
                raise AssertionError("compared")

            def __hash__(self):
                if asleep:
                    raise AssertionError("hashed")
                return 1

            def __getattr__(self, name):
                raise AssertionError(f"asked for {name}")

            def __repr__(self):
                raise AssertionError("shown")

            __len__ = __iter__ = __bool__ = __repr__

        asleep = False
        table, row, some = {"loud": Loud(), Loud(): 1}, [Loud()], {Loud()}
        asleep = True

        def body(c, x):
            row.append(Loud())
            row.pop()
            return c + x * len(table) + len(row) * len(some), x

        self.close(hop.scan(body, 0.0, hop.ones(2))[0], 6.0)

        def changes(c, x):
            nonlocal asleep
            asleep = False
            table[Quiet()] = 1
            asleep = True
            return c, x

        class Quiet:
            pass

        with self.assertRaisesRegex(hop.InvalidError, "changes table "):
            hop.scan(changes, 0.0, hop.ones(2))


class Random(Case):
    """Bodies of random statements, some with effects: refused if and only if one of these runs, else equal to
    Python, and nothing has changed."""

    QUIET = [
        "l = []; l.append(c); t = t + l[0]", "d = {'a': x}; d['b'] = c; t = t + d['b']", "t = t + k * x",
        "out.append(t); out.pop()", "keep, box.n = box.n, 5; box.n = keep", "t = t + table['a'] + box.n",
        "s = Box(); s.n = 3; t = t + s.n", "t = t + sum(v for v in out)", "t = t + helper(x)",
        "t = t + len(sorted(table)) + inner(x)", "it = iter([1.0, 2.0]); t = t + next(it)",
        "if len(out) > 1: out.append(1)", "t = t + cached()",
    ]  # fmt: skip
    LOUD = [
        ("out.append(1)", "out"), ("table['a'] = 7.0", "table['a']"), ("table['b'] = x", "table['b']"),
        ("box.n = box.n + 1", "box.n"), ("touch(x)", "out"), ("next(steps)", "steps"),
        ("rng.random()", "rng"), ("box.part['q'].append(2)", "box.part['q']"), ("global k; k = k + 1.0", "k"),
        ("if len(out) == 1: out[0] = 2.0", "out"), ("for b in [box]: b.extra = x", "box.extra"),
        ("list(map(out.append, [1.0]))", "out"), ("(lambda v: table.update(z=v))(1.0)", "table['z']"),
    ]  # fmt: skip
    SETUP = """
class Box:
    pass
out, table, rng, k = [1.0], {'a': 2.0}, random.Random(1), 1.5
box, steps, cache = Box(), iter(range(100)), {}
box.n, box.part = 1, {'q': []}
def helper(x):
    made = []
    made.append(x)
    return made[0] * k
def touch(x):
    out.extend([1.0])
def inner(x):
    def put(v):
        here.append(v)
    here = []
    put(x)
    return here[0]
def cached():
    if 'c' not in cache:
        cache['c'] = 2.5
    return cache['c']
"""

    def test_bodies(self):
        one = os.environ.get("HOP_TEST_SEED")
        for seed in [int(one)] if one else range(SEEDS):
            with self.subTest(seed=seed):
                self.attempt(seed)

    def attempt(self, seed):
        r = random.Random(seed)
        chosen = [(s, None) for s in r.sample(self.QUIET, r.randrange(1, 6))]
        if r.random() < 0.5:
            chosen.insert(r.randrange(len(chosen) + 1), r.choice(self.LOUD))
        names = [name for _, name in chosen if name]
        lines = [s for s, _ in chosen]
        first = [s.partition(";")[0] for s in lines if s.startswith("global")]
        lines = [s.partition("; ")[2] if s.startswith("global") else s for s in lines]
        depth = r.randrange(2)
        body = [f"    {s}" for s in [*first, "t = c + x", *lines, "return t, x"]]
        text = self.SETUP + "def body(c, x):\n" + "\n".join(body) + "\n"
        text += "def nested(c, x):\n    return hop.scan(body, c, hop.ones(2) * x)[0], x\n" if depth else ""
        space, file = loaded(text)
        start = self.state(space)
        f = lambda xs: hop.scan(space["nested" if depth else "body"], 0.0, xs)[0]  # noqa: E731
        f = hop.jit(f) if r.random() < 0.5 else f
        xs = hop.asarray([1.0, 2.0])
        if names:
            at = text.splitlines().index(f"    {next(s for (_, n), s in zip(chosen, lines) if n)}") + 1
            where = rf"\(.*{re.escape(file)}:{at}\b" if "touch(x)" not in lines else ""
            with self.assertRaisesRegex(hop.InvalidError, rf" {re.escape(names[0])} {where}", msg=text):
                f(xs)
            return
        found = f(xs)
        self.assertEqual(self.state(space), start, text)
        expected = 0.0
        for x in (1.0, 2.0):
            for _ in range(2 if depth else 1):
                expected, _ = space["body"](expected, x)
        self.close(found, expected, 1e-4)

    def state(self, space):
        named = [repr(space[n]) for n in ("out", "table", "k")]
        return [*named, repr(vars(space["box"])), repr(space["steps"].__reduce__()), space["rng"].getstate()]


if __name__ == "__main__":
    unittest.main()
