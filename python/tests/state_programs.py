"""Random Python programs that read state, and changes of that state: what test_state_random.py runs.

A program is two modules of source. Its function f(x) has one to three sites; a site reads one piece of
state along a path (a root: a global, a global of another module, a closure cell, a default, self; then
attributes and items), in a frame (in place, in nested functions, helpers, methods, bodies of loops and
derivatives), and gives a value that depends on it. A change is a statement that changes the state of one
site, and one that changes it back. Sites are independent of each other, so that a failing program is made
small by leaving them out.
"""

import dataclasses
import linecache
import random
import sys
import types

PRELUDE = '''
import collections
import dataclasses
import enum
import functools
import operator
import types
import hop

class Box:
    shared = 1.0
    def __init__(self, w):
        self.w = w
        self.log = []

class Heir(Box):
    pass

class Slots:
    __slots__ = ("w", "log")
    def __init__(self, w):
        self.w, self.log = w, []

@dataclasses.dataclass
class Data:
    w: object
    log: object = 0

@dataclasses.dataclass(frozen=True)
class Frozen:
    w: object

Pair = collections.namedtuple("Pair", "w other")

class Layer:
    def __init__(self, w, b):
        self.w, self.b = w, b
    def apply(self, q):
        return q * self.w + self.b
    def __call__(self, q):
        return self.apply(q) - 1.0

class Base:
    def apply(self, q):
        return q + self.w

class Derived(Base):
    def __init__(self, w):
        self.w = w
    def apply(self, q):
        return super().apply(q) * 2.0

def passed(function):
    @functools.wraps(function)
    def wrapper(*args, **named):
        return function(*args, **named)
    return wrapper

def double(q):
    return q * 2.0

def triple(q):
    return q * 3.0

def shift(q, by=1.5, *, more=0.5):
    return q + by + more

def closed(w):
    def inner(q):
        return q * w
    return inner

class Stack:
    def __init__(self, *layers):
        self.layers, self.k = list(layers), 1.0
    def __iter__(self):
        return iter(self.layers)
    def __len__(self):
        return len(self.layers)
    def __getitem__(self, i):
        return self.layers[i]
    def __contains__(self, layer):
        return layer in self.layers
    def __bool__(self):
        return self.k > 0
    def __mul__(self, q):
        return q * self.k
    @property
    def twice(self):
        return self.k * 2

class Level(enum.Enum):
    LOW = 1.5
    HIGH = 2.5

def of_class(w):
    return type("Made", (Box,), {"w": w, "__init__": lambda self: None})()

def of_base(w):
    base = type("MadeBase", (), {"w": w})
    return type("MadeHeir", (base,), {})()

def first(v):
    return v[0] if isinstance(v, tuple) else v
'''


@dataclasses.dataclass
class Kind:
    """Values of one kind. texts: expressions, the first one is what the program begins with; uses: what a
    site does with it, of q and V; inside: a statement about V and what undoes it, None: V keeps a copy."""

    name: str
    texts: list
    uses: list
    inside: list = dataclasses.field(default_factory=list)
    numpy: bool = False


KINDS = [
    Kind(
        "float",
        ["1.5", "2.5", "-0.5", "3", "True"],
        [
            "q * V",
            "q + V",
            "(q if V > 2 else q * 3)",
            "hop.where(q > V, q, 2.0)",
            "hop.full((2,), V) + q[:2]",
        ],
    ),
    Kind(
        "int",
        ["2", "3", "1", "2.0", "False"],
        [
            "q * V",
            "q[: int(V)]",
            "q ** int(V)",
            "hop.zeros(int(V) + 1) + q[0]",
            "sum([q * (i + 1) for i in range(int(V))], q)",
        ],
    ),
    Kind("flag", ["True", "False", "None", "1"], ["(q * 2 if V else q + 1)", "(q if V is True else -q)"]),
    Kind("maybe", ["None", "2.0", "0.5"], ["(q if V is None else q * V)"]),
    Kind(
        "text",
        ['"sin"', '"cos"', '"exp"'],
        [
            '(hop.sin(q) if V == "sin" else q * len(V) * 2)',
            "getattr(hop, V)(q)",
            '{"sin": 1.0, "cos": 2.0, "exp": 3.0}[V] * q',
            '(q * 7 if "{}s".format(V) == "sins" else q)',
        ],
    ),
    Kind("dtype", ["hop.float32", "hop.float64", "hop.int32"], ["q.astype(V)", "hop.zeros(2, dtype=V)"]),
    Kind(
        "array",
        [
            "hop.asarray([1.0, 2.0])",
            "hop.asarray([3.0, 4.0])",
            "hop.asarray([1.0, 2.0, 3.0])",
            "hop.asarray([1, 2])",
            "hop.asarray([[1.0, 2.0]])",
            "hop.asarray([1.0, 2.0], dtype=hop.float64)",
        ],
        [
            "q + hop.sum(V)",
            "q * hop.ravel(V)[0]",
            "q + V.shape[0]",
            "q * len(V) + V.ndim",
            "(q * 2.0, V)",
            "hop.ravel(V) * 2.0 + q[0]",
        ],
        [("V[0] = 5.0", None), ("V[:] = V + 1.0", None), ("V[1:] = V[:1] * 4.0", None)],
    ),
    Kind(
        "numpy",
        [
            "np.array([1.0, 2.0])",
            "np.array([3.0, 4.0])",
            "np.array([1.0, 2.0, 3.0])",
            "np.array([1, 2])",
            "np.array([1.0, 2.0], dtype='float32')",
        ],
        [
            "q + hop.sum(hop.asarray(V))",
            "q * V[0]",
            "q[:2] * V[:2]",
            "q + float(np.sum(V))",
            "q * V.max()",
            "q + len(V)",
            "q * float(V[0])",
            "q + V.tolist()[1]",
        ],
        [("V[0] = 5.0", None), ("V[:] = V + 1.0", None), ("V[...] = V * 2.0", None)],
        numpy=True,
    ),
    Kind(
        "numbers",
        ["[1.0, 2.0]", "[1.0, 2.5]", "(1.0, 2.0)", "[1.0, 2.0, 0.5]", "[2, 1]"],
        [
            "q * sum(V)",
            "q * (len(V) + 1)",
            "q * V[0] + V[-1]",
            "sum([q * n for n in V])",
            "q * max(V)",
            "sum(q + n * i for i, n in enumerate(V))",
            "functools.reduce(lambda a, n: a * n, V, q)",
            "q * sorted(V)[0] + V[1]",
            "hop.asarray(V) + q[0]",
            "sum(map(lambda n: q * n, V))",
            "sum(q * n for n, _ in zip(V, [1, 2]))",
            "(lambda *n: q * n[0] + len(n))(*V)",
        ],
        [
            ("V.append(4.0)", "V.pop()"),
            ("V[0] = 9.0", "V[0] = 1.0"),
            ("V.insert(0, 3.0)", "del V[0]"),
            ("V[1] = 7", "V[1] = 2.0"),
        ],
    ),
    Kind(
        "mapping",
        [
            '{"a": 1.0, "b": 2.0}',
            '{"a": 1.5, "b": 2.0}',
            '{"a": 1.0}',
            '{"a": 1.0, "b": 2.0, "c": 3.0}',
        ],
        [
            'q * V["a"]',
            "sum([q * n for n in V.values()])",
            "q * len(V)",
            '(q if "b" in V else q * 5)',
            "sum(q * V[k] for k in sorted(V))",
            'q * V.get("b", 7.0)',
            "(lambda a, **rest: q * a + len(rest))(**V)",
            "sum(q * n * len(k) for k, n in V.items())",
            'q * {**V, "z": 1.0}["a"]',
            'q * dict(V)["a"]',
            "q * list(V.values())[0]",
        ],
        [
            ('V["a"] = 4.0', 'V["a"] = 1.0'),
            ('V["b"] = 6.0', 'V["b"] = 2.0'),
            ('V["c"] = 0.5', 'del V["c"]'),
            ('del V["b"]', 'V["b"] = 2.0'),
            ("V.update(a=8)", "V.update(a=1.0)"),
        ],
    ),
    Kind(
        "arrays",
        ["[hop.asarray([1.0, 2.0, 3.0]), hop.asarray([0.5])]", "[hop.asarray([4.0])]"],
        [
            "sum([q * a[0] for a in V])",
            "q + hop.sum(V[0])",
            "q * len(V)",
            "functools.reduce(lambda s, a: s + hop.sum(a), V, q)",
        ],
        [
            ("V.append(hop.asarray([2.0]))", "V.pop()"),
            ("kept = V[0][:]; V[0][0] = 7.0", "V[0][:] = kept"),
            ("kept = V[0]; V[0] = hop.asarray([8.0])", "V[0] = kept"),
            ("kept = V[1][:]; V[1][:] = 3.0", "V[1][:] = kept"),
        ],
    ),
    Kind(
        "function",
        [
            "double",
            "triple",
            "shift",
            "hop.sin",
            "hop.cos",
            "(lambda q: q - 4.0)",
            "functools.partial(shift, by=3.0)",
        ],
        ["V(q)", "V(V(q))", "[V][0](q)"],
    ),
    Kind(
        "partial",
        ["functools.partial(shift, by=3.0)"],
        ["V(q)"],
        [
            (
                "kept = V.func.__kwdefaults__; V.func.__kwdefaults__ = {'more': 5.0}",
                "V.func.__kwdefaults__ = kept",
            ),
            ("V.keywords['by'] = 8.0", "V.keywords['by'] = 3.0"),
        ],
    ),
    Kind(
        "defaults",
        ["shift"],
        ["V(q)", "V(q, more=2.0) + V(q)"],
        [
            ("kept = V.__defaults__; V.__defaults__ = (6.0,)", "V.__defaults__ = kept"),
            ("kept = V.__kwdefaults__; V.__kwdefaults__ = {'more': 5.0}", "V.__kwdefaults__ = kept"),
            (
                "kept = V.__kwdefaults__['more']; V.__kwdefaults__['more'] = 3.5",
                "V.__kwdefaults__['more'] = kept",
            ),
            ("kept = V.__code__; V.__code__ = (lambda q, by, *, more: q * by).__code__", "V.__code__ = kept"),
        ],
    ),
    Kind(
        "functions",
        ["[double, triple]", "[triple]", "[double, hop.sin]"],
        ["functools.reduce(lambda a, g: g(a), V, q)", "V[0](q)", "sum([g(q) for g in V])"],
        [
            ("V.append(shift)", "V.pop()"),
            ("V[0] = triple", "V[0] = double"),
            ("V.reverse()", "V.reverse()"),
        ],
    ),
    Kind(
        "table",
        ['{"f": double, "g": triple}', '{"f": hop.sin, "g": double}'],
        ['V["f"](q)', "sum([g(q) for g in V.values()])", 'V["f" if q.ndim else "g"](q)'],
        [
            ('V["f"] = triple', 'V["f"] = double'),
            ('V["f"] = (lambda q: q / 4.0)', 'V["f"] = double'),
        ],
    ),
    Kind(
        "layer",
        ["Layer(2.0, 0.5)", "Layer(3.0, 0.5)", "Layer(hop.asarray([1.0, 2.0, 3.0]), 0.5)"],
        ["V.apply(q)", "V(q)", "q * V.w", "q * V.w + V.b", '(q * V.w if hasattr(V, "w") else q)'],
        [
            ("V.w = 5.0", "V.w = 2.0"),
            ("V.b = 7", "V.b = 0.5"),
            ("V.w = hop.asarray([1.0, 5.0, 9.0])", "V.w = 2.0"),
            ("V.apply = lambda q: q * 9.0", "del V.apply"),
            ("kept = Layer.apply; Layer.apply = lambda self, q: q - self.w", "Layer.apply = kept"),
        ],
    ),
    Kind(
        "layers",
        ["[Layer(2.0, 0.5), Layer(hop.asarray([1.0, 2.0, 3.0]), 1)]", "(Layer(2.0, 1.5),)"],
        [
            "functools.reduce(lambda a, l: l.apply(a), V, q)",
            "sum([l(q) for l in V])",
            "sum([q * l.w + l.b for l in V])",
            "V[0].apply(q)",
        ],
        [
            ("V[0].w = 4.0", "V[0].w = 2.0"),
            ("V.append(Layer(0.5, 0.25))", "V.pop()"),
            ("kept = V[1].w[:]; V[1].w[0] = 6.0", "V[1].w[:] = kept"),
            ("V[0].b = hop.asarray([2.0])", "V[0].b = 0.5"),
            ("V.reverse()", "V.reverse()"),
        ],
    ),
    Kind(
        "derived",
        ["Derived(2.0)", "Derived(3.0)"],
        ["V.apply(q)", "Base.apply(V, q)", "type(V).apply(V, q)"],
        [
            ("V.w = 5.0", "V.w = 2.0"),
            ("kept = Base.apply; Base.apply = lambda self, q: q * self.w", "Base.apply = kept"),
            ("kept = Derived.apply; Derived.apply = lambda self, q: q - self.w", "Derived.apply = kept"),
            ("V.__class__ = Layer; V.b = 1.0", "V.__class__ = Derived; del V.b"),
        ],
    ),
    Kind(
        "closed",
        ["closed(2.0)", "closed(3.0)", "closed(hop.asarray([1.0, 2.0, 3.0]))"],
        ["V(q)", "sum(map(V, [q, q]))"],
        [
            ("V.__closure__[0].cell_contents = 5.0", "V.__closure__[0].cell_contents = 2.0"),
            ("V.__closure__[0].cell_contents = hop.asarray([2.0])", "V.__closure__[0].cell_contents = 2.0"),
        ],
    ),
    Kind(
        "stack",
        ["Stack(Layer(2.0, 0.5), closed(2.0))", "Stack(double)"],
        [
            "functools.reduce(lambda a, l: l(a), V, q)",
            "V[0](q)",
            "q * len(V)",
            "(q if V else -q)",
            "V * q",
            "(q if double in V else q * 2)",
            "q * V.twice",
            "[l(q) for l in V][-1]",
        ],
        [
            ("V.layers.append(double)", "V.layers.pop()"),
            ("V.layers[0].w = 5.0", "V.layers[0].w = 2.0"),
            ("V.k = -3.0", "V.k = 1.0"),
            ("V.layers.reverse()", "V.layers.reverse()"),
            ("kept = Stack.twice; Stack.twice = property(lambda self: 9.0)", "Stack.twice = kept"),
            ("kept = Stack.__mul__; Stack.__mul__ = lambda self, q: q - 1.0", "Stack.__mul__ = kept"),
        ],
    ),
    Kind(
        "enum",
        ["Level.LOW", "Level.HIGH"],
        ["q * V.value", "(q if V is Level.LOW else -q)", "q * len(V.name)", "q * (1 + [*Level].index(V))"],
    ),
    Kind(
        "set",
        ["{1.0, 2.0}", "{1.0}", "frozenset([1.0, 4.0])"],
        ["q * sum(V)", "(q if 2.0 in V else -q)", "q * len(V)", "sum([q * n for n in sorted(V)])"],
        [("V.add(5.0)", "V.discard(5.0)"), ("V.discard(2.0)", "V.add(2.0)")],
    ),
    Kind(
        "nested",
        [
            '{"a": [Layer(2.0, 0.5), {"z": (1.0, 2.0)}]}',
            '{"a": [Layer(2.5, 0.5), {"z": (1.0, 2.0)}]}',
        ],
        ['V["a"][0].apply(q) * V["a"][1]["z"][1]', 'q * V["a"][1]["z"][0] + V["a"][0].b'],
        [
            ('V["a"][0].w = 4.0', 'V["a"][0].w = 2.0'),
            ('V["a"][1]["z"] = (3.0, 5.0)', 'V["a"][1]["z"] = (1.0, 2.0)'),
            ('V["a"][0].b = 4.0', 'V["a"][0].b = 0.5'),
            ('V["a"].append(1)', 'V["a"].pop()'),
        ],
    ),
]
# of these kinds a program watches nothing but the value itself
SINGLE = ("float", "int", "flag", "maybe", "text", "dtype", "array")
FUNCTIONS = ("function", "partial", "defaults", "closed")


@dataclasses.dataclass
class Step:
    """One step of a path; @ stands for what is before it, # for the value. make: how the value is put
    there; reads: how it is read, with nothing else; vague: how it is read through something that holds
    more; store: how another one is put there; unrelated: a change of something else that lies there; precise:
    whether the reads leave that alone."""

    make: str
    reads: list
    store: str = None
    unrelated: str = None
    vague: tuple = ()
    precise: bool = True


STEPS = [
    Step(
        "Box(#)",
        ["@.w"],
        "@.w = #",
        "@.log.append(1)",
        ('getattr(@, "w")', 'vars(@)["w"]', '@.__dict__["w"]', "operator.attrgetter('w')(@)"),
    ),
    Step("Heir(#)", ["@.w"], "@.w = #", "@.shared = 2.0"),
    Step("Slots(#)", ["@.w"], "@.w = #", "@.log = 3"),
    Step(
        "Data(#)",
        ["@.w"],
        "@.w = #",
        "@.log = 3",
        ("[getattr(@, n.name) for n in dataclasses.fields(@)][0]",),
    ),
    Step("Frozen(#)", ["@.w"]),
    Step("types.SimpleNamespace(w=#, log=1)", ["@.w"], "@.w = #", "@.log = 5"),
    Step("of_class(#)", ["@.w"], "type(@).w = #", "@.log = 5"),
    Step("of_base(#)", ["@.w"], "type(@).__mro__[1].w = #"),
    Step(
        "[0.5, #]",
        ["@[1]", "@[-1]"],
        "@[1] = #",
        None,
        ("list(@)[1]", "[e for e in @][1]", "(lambda _, e: e)(*@)", "@[1:][0]", "@[int(True)]"),
    ),
    Step(
        '{"k": #, "z": 1.0}',
        ['@["k"]'],
        '@["k"] = #',
        '@["z"] = 3.0',
        (
            '@.get("k")',
            "list(@.values())[0]",
            "{**@}['k']",
            "(lambda k, z: k)(**@)",
            "operator.itemgetter('k')(@)",
            "@[''.join(['k'])]",
            "[e for n, e in @.items() if n == 'k'][0]",
        ),
    ),
    Step("{(0, 1): #, 7: 2.0}", ["@[0, 1]"], "@[0, 1] = #", None, ("@[(0, int(True))]",), precise=False),
    Step("(#, 2.0)", ["@[0]"], None, None, ("(lambda e, _: e)(*@)", "next(iter(@))")),
    Step("Pair(#, 2.0)", ["@.w", "@[0]"], None, None, ("[*@][0]",), precise=False),
    Step("collections.OrderedDict(k=#, z=1.0)", ['@["k"]'], '@["k"] = #', None, ("[*@.values()][0]",)),
    Step("collections.defaultdict(list, k=#)", ['@["k"]'], '@["k"] = #'),
]

# expressions of q as one of x, in bodies of operators and transforms
BODIES = [
    "hop.jit(lambda q: #)(x)",
    "hop.checkpoint(lambda q: #)(x)",
    "hop.vmap(lambda q: hop.sum(first(#)).astype(hop.float32))(hop.stack([x, x + 1.0]))",
    "hop.grad(lambda q: hop.sum(q) * hop.sum(first(#)).astype(hop.float32))(x)",
    "hop.scan(lambda c, q: (c + hop.sum(first(#)).astype(hop.float32), None), hop.asarray(0.0),"
    " hop.stack([x, x + 1.0]))[0]",
    "hop.cond(hop.sum(x) > 0, lambda q: hop.sum(first(#)).astype(hop.float32),"
    " lambda q: hop.sum(q) * 1.0, x)",
    "hop.fori_loop(0, 2, lambda i, c: c + hop.sum(first((lambda q: #)(x))).astype(hop.float32),"
    " hop.asarray(0.0))",
    "hop.tree.map(lambda q: #, {'a': x})['a']",
]


def put(template, before, value=""):
    return template.replace("#", "\0").replace("@", before).replace("\0", value)


def built(steps, value):
    for step in reversed(steps):
        value = put(step.make, "", value)
    return value


def indented(lines, head):
    return [head, *["    " + line for line in lines]]


@dataclasses.dataclass
class Site:
    """f computes value from x; lines go into the module, the other module, make and f. changes:
    (statement, what undoes it); unrelated: statements after which nothing has to be captured."""

    lines: dict
    value: str
    changes: list
    unrelated: list
    about: str


class Maker:
    """Makes one site."""

    def __init__(self, rng, number, numpy):
        self.rng, self.name = rng, f"s{number}"
        self.lines = {"module": [], "other": [], "make": [], "f": []}
        self.kind = rng.choice([k for k in KINDS if numpy or not k.numpy])
        # a function in a class would be a method
        steps = [s for s in STEPS if not (s.make.startswith("of_") and self.kind.name in FUNCTIONS)]
        self.steps = [rng.choice(steps) for _ in range(rng.choice([0, 0, 1, 1, 1, 2, 3]))]
        self.root = rng.choice(["global", "cell", "other", "default", "self"])
        self.initial = built(self.steps, self.kind.texts[0])
        self.precise = self.kind.name in SINGLE

    def site(self):
        name, use = self.name, self.rng.choice(self.kind.uses)
        where, read = {
            "global": (name, name),
            "other": (f"other.{name}", f"other.{name}"),
            "cell": (f"get_{name}()", name),
            "default": (f"with_{name}.__defaults__[0]", "v"),
            "self": (f"{name}.held", "self.held"),
        }[self.root]
        here, unrelated = where, []
        for step in self.steps:
            vague = bool(step.vague) and self.rng.random() < 0.3
            self.precise = self.precise and step.precise and not vague
            read = put(self.rng.choice(step.vague if vague else step.reads), read)
            if step.unrelated:
                unrelated.append(put(step.unrelated, here))
            here = put(step.reads[0], here)
        self.use, self.read, self.text = use, read, use.replace("V", read)
        frame = {"default": self.in_default, "self": self.in_method}.get(self.root, self.in_frame)
        value, word = frame()
        changes = self.changes(where, here)
        about = f"{self.kind.name} read as {read}, {word}"
        return Site(self.lines, value, changes, unrelated if self.precise else [], about)

    # -- what can be changed --

    def changes(self, where, here):
        out, name, texts = [], self.name, self.kind.texts[1:]
        for change, undo in self.kind.inside:
            if undo is None:
                change, undo = f"kept = V[:] + 0; {change}", "V[:] = kept"
            out.append((change.replace("V", here), undo.replace("V", here)))
        at = where
        for depth, step in enumerate(self.steps, 1):
            before, at = at, put(step.reads[0], at)
            if step.store:
                for text in texts:
                    new = built(self.steps[depth:], text)
                    change = put(step.store, before, new)
                    out.append((f"saved = {at}; {change}", put(step.store, before, "saved")))
        for text in texts:
            new = built(self.steps, text)
            if self.root == "cell":
                out.append((f"saved = {where}; set_{name}({new})", f"set_{name}(saved)"))
            elif self.root == "default":
                target = f"with_{name}.__defaults__"
                out.append((f"saved = {target}; {target} = ({new},)", f"{target} = saved"))
            else:
                out.append((f"saved = {where}; {where} = {new}", f"{where} = saved"))
        return out

    # -- where it is read: (the site's value, a word about the frame) --

    def in_default(self):
        name, text = self.name, self.text
        body = indented([f"return {text}"], f"def with_{name}(q, v={self.initial}):")
        word = self.rng.choice(["helper", "keyword", "method", "nested"])
        if word == "keyword":
            self.lines["module"] += [*body, f"def call_{name}(*, q):", f"    return with_{name}(q)"]
            return f"call_{name}(q=x)", "a default, by a helper with keywords"
        if word == "method":
            method = indented([f"return {text}"], f"def run(self, q, v={self.initial}):")
            self.lines["module"] += indented(method, f"class Holds_{name}:")
            self.lines["module"].append(f"with_{name} = Holds_{name}.run")
            return f"Holds_{name}().run(x)", "a default of a method"
        if word == "nested":
            self.lines["make"] += [*body, f"globals()['with_{name}'] = with_{name}"]
            return self.of_x(f"with_{name}(q)"), "a default of a nested function"
        self.lines["module"] += body
        return self.of_x(f"with_{name}(q)"), "a default of a helper"

    def in_method(self):
        name, word = self.name, self.rng.choice(["method", "inherited", "super", "called", "two", "nested"])
        made, body = f"Holds_{name}", [f"return {self.text}"]
        if word == "nested":
            body = [f"return [({self.text}) for q in (q,)][0]"]
        methods = indented([f"self.held, self.log = {self.initial}, 0"], "def __init__(self):")
        if word == "two":
            methods += indented(body, "def inner(self, q):")
            body = ["return self.inner(q)"]
        methods += indented(body, "def __call__(self, q):" if word == "called" else "def run(self, q):")
        self.lines["module"] += indented(methods, f"class {made}:")
        if word in ("inherited", "super"):
            made = f"Heir_{name}"
            more = indented(["return super().run(q)"], "def run(self, q):") if word == "super" else ["pass"]
            self.lines["module"] += indented(more, f"class {made}(Holds_{name}):")
        self.lines["module"].append(f"{name} = {made}()")
        return self.of_x(f"{name}(q)" if word == "called" else f"{name}.run(q)"), f"self, {word}"

    def in_frame(self):
        name, text = self.name, self.text
        words = ["inline", "nested", "lambda", "body", "passed on", "comprehension"]
        if self.root == "cell":
            words.append("sibling")
            self.lines["make"] += [
                f"{name} = {self.initial}",
                *indented([f"nonlocal {name}", f"{name} = v"], f"def set_{name}(v):"),
                f"globals()['set_{name}'], globals()['get_{name}'] = set_{name}, lambda: {name}",
            ]
        else:
            words += ["helper", "deep", "decorated", "held", "static", "class", "partial", "generator"]
            self.lines["module" if self.root == "global" else "other"].append(f"{name} = {self.initial}")
        if self.root == "other":
            words += ["other's", "other's", "taken"]
        word = self.rng.choice(words)
        if word == "nested":
            self.lines["f"] += indented([f"return {text}"], f"def inner_{name}(q):")
            text = f"inner_{name}(q)"
        elif word == "sibling":
            self.lines["make"] += indented([f"return {text}"], f"def side_{name}(q):")
            text = f"side_{name}(q)"
        elif word == "lambda":
            text = f"(lambda q: {text})(q)"
        elif word == "comprehension":
            text = f"[{text} for q in [q]][0]"
        elif word == "passed on":
            self.precise = False
            body = [f"return {self.use.replace('V', 'v')}"]
            self.lines["module"] += indented(body, f"def takes_{name}(q, v):")
            text = f"takes_{name}(q, {self.read})"
        elif word in ("other's", "taken"):
            inside = text.replace(f"other.{name}", name)
            self.lines["other"] += indented([f"return {inside}"], f"def help_{name}(q):")
            text = f"other.help_{name}(q)"
            if word == "taken":
                self.lines["module"].append(f"taken_{name} = other.help_{name}")
                text = f"taken_{name}(q)"
        elif word not in ("inline", "body"):
            text = self.helper(word)
        return self.of_x(text, word == "body"), f"{self.root}, {word}"

    def helper(self, word):
        name, lines = self.name, self.lines["module"]
        if word in ("static", "class"):
            head = "def help(q):" if word == "static" else "def help(cls, q):"
            method = [f"@{word}method", *indented([f"return {self.text}"], head)]
            lines += indented(method, f"class Holds_{name}:")
            return f"Holds_{name}.help(q)"
        if word == "generator":
            lines += indented([f"yield {self.text}"], f"def help_{name}(q):")
            return f"list(help_{name}(q))[0]"
        if word == "decorated":
            lines.append("@passed")
        lines += indented([f"return {self.text}"], f"def help_{name}(q):")
        called = f"help_{name}"
        if word == "deep":
            for i in range(self.rng.choice([1, 2, 3])):
                lines += indented([f"return {called}(q)"], f"def deep{i}_{name}(q):")
                called = f"deep{i}_{name}"
        elif word == "held":
            held, read = self.rng.choice(
                [("[double, #]", "[1]"), ('{"h": #}', '["h"]'), ("(lambda q: #(q),)", "[0]")]
            )
            lines.append(f"table_{name} = {put(held, '', called)}")
            called = f"table_{name}{read}"
        elif word == "partial":
            lines += indented([f"return {called}(q) * a + b"], f"def two_{name}(a, q, *, b):")
            lines.append(f"part_{name} = functools.partial(two_{name}, 2.0, b=1.0)")
            called = f"part_{name}"
        return f"{called}(q)"

    def of_x(self, text, body=False):
        """An expression of q as one of x: as it is, or in the body of an operator or a transform."""
        if body or self.rng.random() < 0.25:
            if "(q * 2.0, V)" == self.use:
                text = f"first({text})"
            return put(self.rng.choice(BODIES), "", text)
        return f"(lambda q: {text})(x)"


@dataclasses.dataclass
class Program:
    seed: int
    sites: list
    numpy: bool

    def sources(self):
        """{name of a module: its source}: the other module, then the main one."""
        other, main = f"state_other_{self.seed}", f"state_main_{self.seed}"
        lines = {at: [] for at in ("module", "other", "make", "f")}
        for site in self.sites:
            for at in lines:
                lines[at] += site.lines[at]
        function = [*lines["f"], f"return [{', '.join(site.value for site in self.sites)}]"]
        make = [*lines["make"], *indented(function, "def f(x):"), "return f"]
        imports = [f"import {other} as other", f"from {other} import *"]
        return {
            other: PRELUDE + "\n".join([*["import numpy as np"] * self.numpy, *lines["other"], ""]),
            main: "\n".join([*imports, *lines["module"], *indented(make, "def make():"), "f = make()", ""]),
        }

    def load(self):
        """The namespace of the main module, made anew."""
        for name, text in self.sources().items():
            module, path = types.ModuleType(name), f"/made/{name}.py"
            module.__file__ = path
            linecache.cache[path] = (len(text), None, text.splitlines(True), path)
            sys.modules[name] = module
            exec(compile(text, path, "exec"), module.__dict__)
        return module.__dict__

    def unload(self):
        for name in self.sources():
            del sys.modules[name], linecache.cache[f"/made/{name}.py"]

    def text(self):
        """The program without what every program begins with."""
        return "\n".join(f"# {name}\n{text.replace(PRELUDE, '')}" for name, text in self.sources().items())


def make(seed, numpy=True):
    """The program of a seed."""
    rng = random.Random(seed)
    count = rng.choice([1, 1, 2, 3])
    return Program(seed, [Maker(rng, n, numpy).site() for n in range(count)], numpy)
