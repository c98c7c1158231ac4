"""Random programs with control flow over trees of arrays, as Python source that can be written for hop and
for JAX.

make(seed) gives a Program: a description in one vocabulary (`o.scan`, `o.cond`, …), arguments, and what it
contains. source(library) writes it with the names of that library, functions(library) runs that source.
Nothing here needs JAX; the arguments are nested lists, so nothing needs NumPy either.

A program is a function of (x, p, k): x a float array, p a tree of float arrays, k a dict of integers and
bools. Each value in it has a known dtype, shape and bound, and bodies see the values around them, so
programs are well typed and moderate by construction. Floats are F, and in some programs H besides, which
is shorter. Integers are I (int32) and N, another integer dtype, which each program draws.
"""

import dataclasses
import random
import re

from statements import LIMIT, Statements, size_of, tuple_of

# ---- the vocabulary ----

_HOP = {
    "cumsum": "cumulative_sum", "cumprod": "cumulative_prod", "cummax": "cumulative_max",
    "cummin": "cumulative_min", "cumlogsumexp": "cumulative_logsumexp", "concatenate": "concat",
    "transpose": "permute_dims", "I": "int32", "B": "bool",
}  # fmt: skip
_JAX = {
    **{
        name: f"jax.lax.{name}"
        for name in (
            "cond switch while_loop fori_loop scan map cummax cummin cumlogsumexp dynamic_slice "
            "dynamic_update_slice top_k stop_gradient rsqrt erf"
        ).split()
    },
    **{name: f"jax.nn.{name}" for name in "softmax log_softmax sigmoid one_hot logsumexp".split()},
    **{name: f"jax.{name}" for name in "grad value_and_grad vmap jvp jit checkpoint".split()},
    "associative_scan": "associative_scan",
    "linear_recurrence": "linear_recurrence",
    "I": "jnp.int32",
    "B": "jnp.bool_",
}  # fmt: skip
_PRELUDE = {
    "hop": "import hop\n",
    "jax": """import jax
import jax.numpy as jnp

def associative_scan(f, elems, reverse=False, axis=0):
    return jax.lax.associative_scan(jax.vmap(f, in_axes=axis, out_axes=axis), elems, \
reverse=reverse, axis=axis)

def linear_recurrence(a, b, axis=0, reverse=False):
    return associative_scan(lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (a, b), reverse, axis)[1]
""",
}

HIGHER = (
    "cond", "switch", "while_loop", "fori_loop", "fori_loop_traced", "scan", "associative_scan", "map",
    "checkpoint", "jit", "grad", "vmap", "jvp",
)
UNREVERSIBLE = ("while_loop", "fori_loop_traced")  # JAX has no reverse mode for them
PAIRS = [
    (outer, inner) for outer in HIGHER for inner in HIGHER if outer != "grad" or inner not in UNREVERSIBLE
]
SCHEDULES = (None, None, "recompute", "sqrt", "every 2")
NARROW = ("int8", "int16", "uint8", "uint16", "uint32", "int64")


def write(text, library, floats):
    """The source in the names of a library. ‹a|b› is a for hop and b for JAX; floats says what F and H
    are."""
    text = re.sub("‹([^|›]*)\\|([^›]*)›", lambda m: m[1 if library == "hop" else 2], text)

    def name(match):
        word = match[1]
        if word in floats:
            return ("hop." if library == "hop" else "jnp.") + floats[word]
        if library == "hop":
            return "hop." + _HOP.get(word, word)
        return _JAX.get(word, "jnp." + word)

    return re.sub(r"\bo\.(\w+)", name, text)


@dataclasses.dataclass
class Program:
    seed: int
    text: str  # in the common vocabulary
    kind: str  # "f64", "f32" or "mixed"
    narrow: str  # what N is
    reversible: bool  # JAX has a gradient for it
    x: tuple  # (dtype, shape, nested numbers)
    p: object  # a tree of such
    k: dict
    used: set  # higher-order operators in it
    pairs: set  # (outer, inner): the one stands in a body of the other

    def floats(self, exact=False):
        """What F, H and N are; exact: F and H are float64 both."""
        return {
            "F": "float32" if self.kind == "f32" and not exact else "float64",
            "H": "float64" if exact else "float32",
            "N": self.narrow,
        }

    def source(self, library, exact=False):
        return _PRELUDE[library] + "\n" + write(self.text, library, self.floats(exact))

    def functions(self, library, exact=False):
        """The namespace in which the source ran: program, values, loss."""
        space = {}
        exec(compile(self.source(library, exact), f"<program {self.seed} in {library}>", "exec"), space)
        return space

    def arguments(self, make, exact=False):
        """(x, p, k) with make(numbers, name of the dtype) for each leaf."""
        floats = self.floats(exact)
        names = {**floats, "I": "int32", "B": "bool"}

        def build(node):
            if isinstance(node, Leaf):
                return make(node.numbers, names[node.dtype])
            if isinstance(node, dict):
                return {key: build(child) for key, child in node.items()}
            return type(node)(build(child) for child in node)

        return build(self.x), build(self.p), build(self.k)


@dataclasses.dataclass
class Leaf:
    dtype: str
    shape: tuple
    numbers: object


# ---- trees of values ----


def structure(rng, n):
    """A random tree with the leaves 0 … n-1."""
    kinds = ["tuple", "dict", "nested", "list"] if n > 1 else ["leaf", "leaf", "dict", "tuple"]
    kind = rng.choice(kinds)
    order = list(range(n))
    if kind == "leaf":
        return 0
    if kind == "tuple":
        return tuple(order)
    if kind == "list":
        return order
    if kind == "dict":
        keys = rng.sample("abcdefghij", n)
        return {key: i for key, i in zip(keys, order)}
    cut = rng.randrange(1, n)
    return {"t": tuple(order[:cut]), "s": order[cut:] if n - cut > 1 else order[cut]}


def pack(tree, texts):
    """The tree as an expression."""
    if isinstance(tree, int):
        return texts[tree]
    if isinstance(tree, dict):
        return "{" + ", ".join(f'"{key}": {pack(child, texts)}' for key, child in tree.items()) + "}"
    inner = [pack(child, texts) for child in tree]
    return tuple_of(inner) if isinstance(tree, tuple) else "[" + ", ".join(inner) + "]"


def unpack(tree, root, out=None):
    """{leaf: expression} of the leaves of a tree that the expression root has."""
    out = {} if out is None else out
    if isinstance(tree, int):
        out[tree] = root
    elif isinstance(tree, dict):
        for key, child in tree.items():
            unpack(child, f'{root}["{key}"]', out)
    else:
        for i, child in enumerate(tree):
            unpack(child, f"{root}[{i}]", out)
    return out


# ---- making a program ----


class Maker(Statements):
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.lines, self.indent, self.count = [], 0, 0
        self.scope = []
        self.outer = []  # higher-order operators whose bodies are open
        self.used, self.pairs = set(), set()
        self.only_reversible = self.rng.random() < 0.55
        self.kind = self.rng.choices(["f64", "f32", "mixed"], [6, 3, 1])[0]
        self.narrow_dtype = self.rng.choice(NARROW)
        self.unreversible = False
        self.room = 60  # statements left
        # operators of which one shall stand in a body of the other
        self.wish = PAIRS[seed % len(PAIRS)] if seed % 4 else None
        if self.wish and set(self.wish) & set(UNREVERSIBLE):
            self.only_reversible = False
        # its gradients are held against differences, which do not see stop_gradient
        self.differences = not self.only_reversible
        self.granted = False

    # -- bodies --

    def statements(self, n, depth):
        for _ in range(n):
            self.room -= 1
            if depth > 0 and self.room > 0 and self.chance(0.45):
                self.higher(depth)
            else:
                names, weights = zip(*self.FIRST)
                getattr(self, self.rng.choices(names, weights)[0])()

    def body(self, operator, name, params, types, depth, finish, n=None):
        """def name(params): some statements, then return finish(expressions of these types). params: the
        values that the parameters are, bound by opening(): a list of (text of a parameter, {expression:
        (dtype, shape)})."""
        mark, room = len(self.scope), self.indent
        self.emit(f"def {name}({', '.join(text for text, _ in params)}):")
        self.indent += 1
        self.outer.append(operator)
        own = []
        for text, leaves in params:
            for expression, (dtype, shape) in leaves.items():
                if expression == text:
                    own.append(self.bind(text, dtype, shape))
                else:
                    local = self.fresh("c")
                    self.emit(f"{local} = {expression}")
                    own.append(self.bind(local, dtype, shape))
        if self.wish and operator == self.wish[0] and not self.granted:
            self.granted = True
            self.higher(max(1, depth - 1), self.wish[1])
        self.statements(self.rng.choice([1, 1, 2, 3]) if n is None else n, depth - 1)
        texts = [self.want(d, s) for d, s in types]
        unused = [v for v in self.scope[mark:] if not v.used and v.dtype in "FH"]
        for i, (d, s) in enumerate(types):
            if d in "FH" and unused:
                extra = " + ".join(self.folded(v, d) for v in unused)
                texts[i] = f"o.tanh({texts[i]} + {extra})"
                break
            if (
                d in "FH"
                and operator in ("while_loop", "fori_loop", "fori_loop_traced", "scan")
                and self.chance(0.5)
            ):
                texts[i] = f"o.{self.rng.choice(['tanh', 'sin'])}({texts[i]})"
        self.emit("return " + finish(texts))
        self.outer.pop()
        del self.scope[mark:]
        self.indent = room

    def folded(self, value, dtype):
        """A small scalar that depends on a value."""
        text = f"o.sum({self.take(value)})" if value.shape else self.take(value)
        text = text if value.dtype == dtype else f"o.astype({text}, o.{dtype})"
        return f"0.1 * {text}"

    def types(self, n, whole=True):
        out = [(self.dtype(), self.rng.choice([(), (3,), (3,), (2, 3)])) for _ in range(n)]
        if whole and self.chance(0.3):
            out[-1] = ("I", ()) if n > 1 or self.chance(0.2) else out[-1]
        return out

    def results(self, name, tree, types, prefix=""):
        """Names for the leaves of a result."""
        for i, text in unpack(tree, name).items():
            d, s = types[i]
            self.let(text, d, s, LIMIT)

    def higher(self, depth, operator=None):
        operators = [
            "cond", "switch", "fori_loop", "scan", "scan", "associative_scan", "map", "checkpoint", "jit",
            "grad", "vmap", "jvp",
        ]
        if not self.only_reversible:
            operators += ["while_loop"] * 3 + ["fori_loop_traced"] * 2
        operator = operator or self.rng.choice(operators)
        self.note(operator, self.outer)
        getattr(self, "make_" + operator)(depth)

    def note(self, operator, outer):
        self.used.add(operator)
        self.pairs |= {(o, operator) for o in outer}
        self.unreversible |= operator in UNREVERSIBLE

    def operands(self, n):
        """Values in scope as operands: (texts, parameters of a function for them)."""
        picked = [self.find("F") if self.chance(0.8) else self.rng.choice(self.scope) for _ in range(n)]
        names = [self.fresh("a") for _ in picked]
        return [self.take(v) for v in picked], [
            (name, {name: (v.dtype, v.shape)}) for name, v in zip(names, picked)
        ]

    def renamed(self, params):
        out = []
        for _, leaves in params:
            name = self.fresh("a")
            out.append((name, {name: t for t in leaves.values()}))
        return out

    # -- higher-order statements --

    def make_cond(self, depth):
        texts, params = self.operands(self.rng.randrange(3))
        types = self.types(self.rng.choice([1, 1, 2, 3]))
        tree = structure(self.rng, len(types))
        then, other = self.fresh("then"), self.fresh("other")
        self.body("cond", then, params, types, depth, lambda t: pack(tree, t))
        self.body("cond", other, self.renamed(params), types, depth, lambda t: pack(tree, t), 1)
        name = self.fresh("r")
        self.emit(f"{name} = o.cond({', '.join([self.truth(()), then, other, *texts])})")
        self.results(name, tree, types)

    def make_switch(self, depth):
        texts, params = self.operands(self.rng.randrange(3))
        types = self.types(self.rng.choice([1, 2]))
        tree = structure(self.rng, len(types))
        branches = []
        for _ in range(self.rng.choice([1, 2, 3, 3])):
            branches.append(self.fresh("branch"))
            self.body("switch", branches[-1], self.renamed(params), types, depth, lambda t: pack(tree, t), 1)
        name = self.fresh("r")
        which = self.narrow(()) if self.chance(0.3) else self.integers(())
        self.emit(f"{name} = o.switch({', '.join([which, tuple_of(branches), *texts])})")
        self.results(name, tree, types)

    def make_jit(self, depth, operator="jit"):
        texts, params = self.operands(self.rng.choice([1, 2]))
        types = self.types(self.rng.choice([1, 2]))
        tree = structure(self.rng, len(types))
        f, name = self.fresh("f"), self.fresh("r")
        self.body(operator, f, params, types, depth, lambda t: pack(tree, t))
        self.emit(f"{name} = o.{operator}({f})({', '.join(texts)})")
        self.results(name, tree, types)

    def make_checkpoint(self, depth):
        self.make_jit(depth, "checkpoint")

    def carried(self, counter=False):
        """(types, initial texts, structure) of a carry."""
        types = [
            (self.dtype(), self.rng.choice([(), (3,), (3,), (2, 3)]))
            for _ in range(self.rng.choice([1, 1, 2, 3]))
        ]
        if self.chance(0.25):
            types.append(self.rng.choice([("I", ()), ("I", (3,)), ("B", ()), ("N", ()), ("N", (3,))]))
        texts = [self.want(d, s) for d, s in types]
        if counter:
            types.append((self.rng.choice("IIN"), ()))
            texts.append(f"o.full((), {self.rng.randrange(2)}, dtype=o.{types[-1][0]})")
        return types, texts, structure(self.rng, len(types))

    def make_while_loop(self, depth):
        types, texts, tree = self.carried(counter=True)
        count = len(types) - 1
        test, body, name, c = self.fresh("test"), self.fresh("body"), self.fresh("r"), self.fresh("s")
        limit = self.rng.choice(
            [f"o.full((), {self.rng.randrange(6)}, dtype=o.I)", f"o.astype({self.index(4)} + 1, o.I)"]
        )
        limit_name = self.let(limit, "I", ()).name
        leaves = unpack(tree, c)
        self.emit(f"def {test}({c}):")
        condition = f"{leaves[count]} < {limit_name}"
        d, s = types[0]
        if d in "FH" and self.chance(0.4):
            first = f"o.sum({leaves[0]})" if s else leaves[0]
            condition = f"({condition}) & ({first} < {self.number(-0.5, 2.5)})"
        self.emit(f"    return {condition}")
        c = self.fresh("s")
        params = [(c, {text: types[i] for i, text in unpack(tree, c).items() if i != count})]
        step = unpack(tree, c)[count]
        self.body("while_loop", body, params, types[:count], depth, lambda t: pack(tree, [*t, f"{step} + 1"]))
        schedule = self.rng.choice([None, None, None, "recompute", "every 2"])
        self.emit(f"{name} = o.while_loop({test}, {body}, {pack(tree, texts)}{self.schedule(schedule)})")
        self.results(name, tree, types)

    def schedule(self, given="any"):
        picked = self.rng.choice(SCHEDULES) if given == "any" else given
        return f'‹, schedule="{picked}"|›' if picked else ""

    def make_fori_loop(self, depth, operator="fori_loop"):
        types, texts, tree = self.carried()
        body, name, c, i = self.fresh("body"), self.fresh("r"), self.fresh("s"), self.fresh("i")
        low = self.rng.choice(["0", "0", "1", "-1"])
        high = str(self.rng.choice([0, 1, 2, 3, 4]))
        if operator == "fori_loop_traced":
            bounds = self.rng.choice("IIN")  # JAX wants one dtype for both
            high = self.let(
                f"o.astype({self.index(4)} + {self.rng.randrange(2)}, o.{bounds})", bounds, ()
            ).name
            low = f"o.full((), {self.rng.randrange(2)}, dtype=o.N)" if bounds == "N" else low
            if self.chance(0.3):
                low = self.let(f"o.astype({self.index(2)}, o.{bounds})", bounds, ()).name
        params = [
            (i, {f"o.astype({i}, o.I)": ("I", ())}),
            (c, {text: types[k] for k, text in unpack(tree, c).items()}),
        ]
        self.body(operator, body, params, types, depth, lambda t: pack(tree, t))
        self.emit(
            f"{name} = o.fori_loop({low}, {high}, {body}, {pack(tree, texts)}"
            f"{self.schedule() if operator == 'fori_loop' else ''})"
        )
        self.results(name, tree, types)

    def make_fori_loop_traced(self, depth):
        self.make_fori_loop(depth, "fori_loop_traced")

    def slices(self, length=None):
        """Arrays to go over: (length, texts, types of a slice)."""
        found = self.find("F", None, lambda v: len(v.shape) > 0 and (length is None or v.shape[0] == length))
        if found is not None and self.chance(0.5):
            length = found.shape[0]
            texts, types = [self.take(found)], [("F", found.shape[1:])]
        else:
            length = self.rng.choice([0, 1, 1, 2, 3, 4, 5]) if length is None else length
            texts, types = (
                [f"o.sin(o.arange({length}, dtype=o.F)[:, None] + {self.want('F', (3,))})"],
                [("F", (3,))],
            )
        if self.chance(0.4):
            kind = self.rng.randrange(4)
            texts.append(
                [
                    f"o.arange({length}, dtype=o.I)",
                    f"o.arange({length}, dtype=o.F) * {self.want('F', ())}",
                    f"o.arange({length}) % 2 == 0",
                    f"o.arange({length}, dtype=o.N)",
                ][kind]
            )
            types.append([("I", ()), ("F", ()), ("B", ()), ("N", ())][kind])
        return length, texts, types

    def make_scan(self, depth):
        types, texts, tree = self.carried()
        outs = self.types(self.rng.choice([0, 1, 1, 2]), whole=False) if self.chance(0.85) else []
        out_tree = structure(self.rng, len(outs)) if outs else None
        body, name, c, u = self.fresh("body"), self.fresh("r"), self.fresh("s"), self.fresh("u")
        params = [(c, {text: types[k] for k, text in unpack(tree, c).items()})]
        if self.chance(0.2):
            length, over = self.rng.choice([0, 1, 3, 4]), None
            params.append((u, {}))
        else:
            length, over, each = self.slices()
            xs_tree = structure(self.rng, len(over))
            params.append((u, {text: each[k] for k, text in unpack(xs_tree, u).items()}))
        n = len(types)
        self.body(
            "scan",
            body,
            params,
            types + outs,
            depth,
            lambda t: f"{pack(tree, t[:n])}, {pack(out_tree, t[n:]) if outs else None}",
        )
        xs = f"None, length={length}" if over is None else pack(xs_tree, over)
        reverse = ", reverse=True" if self.chance(0.35) else ""
        self.emit(f"{name} = o.scan({body}, {pack(tree, texts)}, {xs}{reverse}{self.schedule()})")
        self.results(f"{name}[0]", tree, types)
        if outs:
            self.results(f"{name}[1]", out_tree, [(d, (length, *s)) for d, s in outs])

    def make_map(self, depth):
        length, over, each = self.slices()
        xs_tree, u = structure(self.rng, len(over)), self.fresh("u")
        outs = self.types(self.rng.choice([1, 1, 2]))
        tree = structure(self.rng, len(outs))
        body, name = self.fresh("f"), self.fresh("r")
        self.body(
            "map",
            body,
            [(u, {text: each[k] for k, text in unpack(xs_tree, u).items()})],
            outs,
            depth,
            lambda t: pack(tree, t),
        )
        self.emit(
            f"{name} = o.map({body}, {pack(xs_tree, over)}"
            f"{'‹, sequential=True|›' if self.chance(0.3) else ''})"
        )
        self.results(name, tree, [(d, (length, *s)) for d, s in outs])

    def make_grad(self, depth):
        value = self.find("F", None, lambda v: size_of(v.shape) > 0)
        v, f, name = self.fresh("a"), self.fresh("f"), self.fresh("r")
        text = self.take(value)
        before, self.only_reversible = self.only_reversible, True  # JAX has no gradient of the others
        self.body("grad", f, [(v, {v: ("F", value.shape)})], [("F", ())], depth, lambda t: t[0])
        self.only_reversible = before
        if self.chance(0.3):
            self.emit(f"{name} = o.value_and_grad({f})({text})")
            self.let(f"{name}[0]", "F", (), LIMIT)
            self.let(f"{name}[1]", "F", value.shape, float("inf"))
        else:
            self.let(f"o.grad({f})({text})", "F", value.shape, float("inf"))

    def make_jvp(self, depth):
        value = self.find("F")
        v, f, name = self.fresh("a"), self.fresh("f"), self.fresh("r")
        text, along = self.take(value), self.want("F", value.shape)
        shape = self.rng.choice([(), (3,), (2, 3)])
        self.body("jvp", f, [(v, {v: ("F", value.shape)})], [("F", shape)], depth, lambda t: t[0])
        self.emit(f"{name} = o.jvp({f}, ({text},), ({along},))")
        self.let(f"{name}[0]", "F", shape, LIMIT)
        self.let(f"{name}[1]", "F", shape, float("inf"))

    def make_vmap(self, depth):
        value = self.wide(self.rng.choice([1, 2]))
        v, f = self.fresh("a"), self.fresh("f")
        text = self.take(value)
        axis = self.rng.randrange(len(value.shape))
        n, inner = value.shape[axis], value.shape[:axis] + value.shape[axis + 1 :]
        params, texts, axes = [(v, {v: ("F", inner)})], [text], [axis]
        if self.chance(0.5):
            shared = self.find("F")
            w = self.fresh("a")
            params.append((w, {w: ("F", shared.shape)}))
            texts.append(self.take(shared))
            axes.append(None)
        shape = self.rng.choice([(), (3,), (2, 3)])
        self.body("vmap", f, params, [("F", shape)], depth, lambda t: t[0])
        out = self.rng.randrange(len(shape) + 1)
        self.let(
            f"o.vmap({f}, in_axes={tuple(axes)}, out_axes={out})({', '.join(texts)})",
            "F",
            shape[:out] + (n,) + shape[out:],
            LIMIT,
        )

    def make_associative_scan(self, depth):
        kind = self.rng.choice(
            ["sum", "affine", "affine", "matrix", "max", "product", "inner", "inner"]
            if depth > 1
            else ["sum", "affine", "matrix", "max", "product"]
        )
        wished = (
            self.wish[1] if self.wish and self.wish[0] == "associative_scan" and not self.granted else None
        )
        if wished:
            self.granted, kind = True, "inner"
        length = self.rng.choice([1, 2, 3, 5])
        reverse = ", reverse=True" if self.chance(0.3) else ""
        f, name, p, q = self.fresh("combine"), self.fresh("r"), self.fresh("p"), self.fresh("q")
        base = f"o.arange({length}, dtype=o.F)"
        if kind in ("sum", "max", "product"):
            length, texts, types = self.slices(length)
            text, (_, shape) = texts[0], types[0]
            body = {"sum": f"{p} + {q}", "max": f"o.maximum({p}, {q})", "product": f"0.5 * {p} * {q}"}[kind]
            axis, elems, whole = 0, text, (length, *shape)
            if len(shape) == 1 and shape[0] > 0 and length > 0 and self.chance(0.4):
                axis = 1
            self.emit(f"def {f}({p}, {q}):")
            self.emit(f"    return {body}")
            self.let(
                f"o.associative_scan({f}, {elems}{reverse}, axis={axis})",
                "F",
                whole,
                {"sum": 3 * (length + 3), "max": 3, "product": 3**5}[kind],
            )
            return
        if kind == "matrix":
            self.emit(f"def {f}({p}, {q}):")
            self.emit(f"    return 0.5 * {q} @ {p}")
            self.let(
                f"o.associative_scan({f}, o.sin({base}[:, None, None] + {self.want('F', (3, 3))}){reverse})",
                "F",
                (length, 3, 3),
                27,
            )
            return
        self.emit(f"def {f}({p}, {q}):")
        if kind == "affine":
            self.emit(f'    return {{"m": {p}["m"] * {q}["m"], "b": {q}["m"] * {p}["b"] + {q}["b"]}}')
        else:
            self.indent += 1
            self.roundabout(f'{q}["m"]', f'{p}["b"]', f'{q}["b"]', name, wished)
            self.emit(f'return {{"m": {p}["m"] * {q}["m"], "b": {name}}}')
            self.indent -= 1
        elems = (
            f'{{"m": 0.8 * o.sin({base}[:, None] + {self.want("F", (3,))}), '
            f'"b": o.cos({base}[:, None] * {self.want("F", (3,))})}}'
        )
        out = self.fresh("r")
        self.emit(f"{out} = o.associative_scan({f}, {elems}{reverse})")
        self.let(f'{out}["b"]', "F", (length, 3), 6)
        self.let(f'{out}["m"]', "F", (length, 3), 1)

    def roundabout(self, m, b, d, name, inner=None):
        """name = m * b + d, vectors of three, by way of another higher-order operator, so that the
        combination stays associative."""
        inner = inner or self.rng.choice(
            [n for n in HIGHER if n not in UNREVERSIBLE or not self.only_reversible]
        )
        self.note(inner, {*self.outer, "associative_scan"})
        text = {
            "cond": f"o.cond(o.sum({d}) > 0.1, lambda: {m} * {b} + {d}, lambda: {d} + {b} * {m})",
            "switch": (
                f"o.switch(o.astype({d}[0] > 0.0, o.I), "
                f"(lambda v: {m} * v + {d}, lambda v: {d} + v * {m}), {b})"
            ),
            "while_loop": (
                f"o.while_loop(lambda s: s[1] < 3, lambda s: (s[0] + {m} * {b} / 3.0, s[1] + 1), "
                f"({d}, o.full((), 0, dtype=o.I)))[0]"
            ),
            "fori_loop": f"o.fori_loop(0, 2, lambda i, s: s + {m} * {b} / 2.0, {d})",
            "fori_loop_traced": (
                f"o.fori_loop(0, o.astype({d}[0] * 0.0, o.I) + 2, "
                f"lambda i, s: s + {m} * {b} / 2.0, {d})"
            ),
            "grad": f"o.grad(lambda v: o.sum({m} * {b} * v + 0.5 * v * v))({d})",
            "jvp": f"o.jvp(lambda v: 0.5 * {m} * v * v + {d} * v, ({b},), (o.ones_like({b}),))[1]",
            "scan": f"o.scan(lambda s, u: (s + {m} * u, None), {d}, o.stack([0.25 * {b}, 0.75 * {b}]))[0]",
            "associative_scan": f"o.associative_scan(lambda y, z: y + z, o.stack([{m} * {b}, {d}]))[1]",
            "map": f"o.map(lambda u: u[0] * u[1] + u[2], ({m}, {b}, {d}))",
            "checkpoint": f"o.checkpoint(lambda u, v, w: u * v + w)({m}, {b}, {d})",
            "jit": f"o.jit(lambda u, v, w: u * v + w)({m}, {b}, {d})",
            "vmap": f"o.vmap(lambda u, v, w: u * v + w)({m}, {b}, {d})",
        }[inner]
        self.emit(f"{name} = {text}")

    # -- the whole --

    def numbers(self, dtype, shape):
        if shape:
            return [self.numbers(dtype, shape[1:]) for _ in range(shape[0])]
        if dtype == "I":
            return self.rng.randrange(-2, 5)
        if dtype == "N":
            return self.rng.randrange(0, 6)
        if dtype == "B":
            return self.chance(0.5)
        return self.rng.randrange(-1 << 20, 1 << 20) / (1 << 20)  # the same number in float32

    def leaf(self, dtype, shape):
        return Leaf(dtype, tuple(shape), self.numbers(dtype, shape))

    def make(self, seed):
        x_shape = self.rng.choice([(3,), (3,), (2, 3), (3, 3), ()])
        p_shapes = [self.rng.choice([(), (3,), (3, 3), (2, 3)]) for _ in range(self.rng.choice([1, 2, 3]))]
        p_tree = structure(self.rng, len(p_shapes))
        k = {
            "n": self.leaf("I", ()),
            "i": self.leaf("I", (3,)),
            "m": self.leaf("B", (3,)),
            "t": self.leaf("N", (3,)),
        }
        self.emit("def program(x, p, k):")
        self.indent = 1
        self.bind("x", "F", x_shape, 1.0)
        for i, text in unpack(p_tree, "p").items():
            self.let(text, "F", p_shapes[i], 1.0)
        self.let('k["n"]', "I", ())
        self.let('k["i"]', "I", (3,))
        self.let('k["m"]', "B", (3,))
        self.let('k["t"]', "N", (3,))
        depth = self.rng.choice([2, 3] if self.wish else [1, 2, 2, 3])
        self.statements(self.rng.choice([0, 1, 2]), 0)
        self.higher(depth, self.wish and self.wish[0])
        self.statements(self.rng.choice([0, 1, 2, 3]), depth)
        for v in self.scope[:2]:
            v.used = v.used and self.chance(0.5)
        y = self.want("F", self.rng.choice([(3,), (2, 3), ()]))
        whole = self.find(self.rng.choice("IIN")) or self.find("I")
        unused = [v for v in self.scope if not v.used and v.dtype in "FH"]
        s = " + ".join(self.folded(v, "F") for v in unused) or self.want("F", ())
        self.emit(f'return {{"y": {y}, "s": (o.sin({s}), {self.take(whole)}), "b": {self.truth(())}}}')
        self.indent = 0
        self.emit("")
        self.emit("def values(x, p, k):")
        self.emit("    out = program(x, p, k)")
        self.emit('    return out["y"], out["s"][0]')
        self.emit("")
        self.emit("def loss(x, p, k):")
        self.emit("    y, s = values(x, p, k)")
        self.emit(f"    return o.sum(y * {self.number(0.3, 1)}) + o.sum(o.sin(y)) + s")
        leaves = [self.leaf("F", s) for s in p_shapes]

        def fill(node):
            if isinstance(node, int):
                return leaves[node]
            if isinstance(node, dict):
                return {key: fill(child) for key, child in node.items()}
            return type(node)(fill(child) for child in node)

        reversible = not self.unreversible
        return Program(
            seed,
            "\n".join(self.lines) + "\n",
            self.kind,
            self.narrow_dtype,
            reversible,
            self.leaf("F", x_shape),
            fill(p_tree),
            k,
            self.used,
            self.pairs,
        )


def make(seed):
    """The program of a seed."""
    return Maker(seed).make(seed)
