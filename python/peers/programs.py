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


@dataclasses.dataclass
class Value:
    """A variable of the program."""

    name: str
    dtype: str
    shape: tuple
    most: float = 0.0  # no float is larger in magnitude
    used: bool = False


def size_of(shape):
    n = 1
    for d in shape:
        n *= d
    return n


def _tuple(items):
    items = list(items)
    return "(" + ", ".join(items) + ("," if len(items) == 1 else "") + ")"


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
    return _tuple(inner) if isinstance(tree, tuple) else "[" + ", ".join(inner) + "]"


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

SHAPES = [(), (), (3,), (3,), (3,), (2,), (2, 3), (3, 3), (3, 2), (4, 3)]
_LIMIT = 3.0  # values above it are brought down


class Maker:
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

    # -- text --

    def emit(self, line):
        self.lines.append("    " * self.indent + line)

    def fresh(self, prefix="v"):
        self.count += 1
        return f"{prefix}{self.count}"

    def number(self, low=-1.0, high=1.0):
        return repr(round(self.rng.uniform(low, high), 3))

    def chance(self, p):
        return self.rng.random() < p

    # -- values --

    def bind(self, name, dtype, shape, most=_LIMIT):
        value = Value(name, dtype, tuple(shape), most)
        self.scope.append(value)
        return value

    def let(self, expression, dtype, shape, most=1.0):
        if dtype in "FH" and most > _LIMIT:
            expression = self.lower(expression, most)
            most = 1.0
        name = self.fresh()
        self.emit(f"{name} = {expression}")
        return self.bind(name, dtype, shape, most)

    def lower(self, expression, most):
        if most == float("inf") or self.chance(0.5):
            return (
                f"o.tanh({expression})"
                if most < 6
                else f"o.tanh({min(1.0, round(4 / most, 4)) if most < 1e6 else 0.2} * ({expression}))"
            )
        return f"{round(1 / most, 6)} * ({expression})"

    def take(self, value):
        value.used = True
        return value.name

    def find(self, dtype, shape=None, where=None):
        """A value in scope of this type; those not used yet and the late ones rather than others."""
        found = [
            v
            for v in self.scope
            if v.dtype == dtype and (shape is None or v.shape == tuple(shape)) and (where is None or where(v))
        ]
        if not found:
            return None
        weights = [(1 + i) * (1 if v.used else 6) for i, v in enumerate(found)]
        return self.rng.choices(found, weights)[0]

    def bound(self, text):
        """The bound of a value by its name."""
        for v in self.scope:
            if v.name == text:
                return v.most
        return _LIMIT

    def want(self, dtype, shape):
        """An expression of exactly this type, from what is in scope."""
        shape = tuple(shape)
        if dtype == "B":
            return self.truth(shape)
        exact = self.find(dtype, shape)
        if exact is not None and self.chance(0.9):
            return self.take(exact)
        if dtype == "I":
            return self.integers(shape)
        if dtype == "N":
            return self.narrow(shape)
        other = self.find(dtype, None, lambda v: size_of(v.shape) > 0)
        if other is None:
            source = self.find("F" if dtype == "H" else "H")
            if source is None or dtype not in "FH":
                return f"o.full({shape}, {self.number()}, dtype=o.{dtype})"
            return f"o.astype({self.reshaped(source, shape)}, o.{dtype})"
        return self.reshaped(other, shape)

    def reshaped(self, value, shape):
        """A value brought to a shape by means that fit."""
        name, have = self.take(value), value.shape
        if have == shape:
            return name
        if size_of(have) == 0:
            return f"o.full({shape}, 0.5, dtype=o.{value.dtype}) + o.sum({name})"
        if len(have) <= len(shape) and all(a in (1, b) for a, b in zip(have[::-1], shape[::-1])):
            return f"o.broadcast_to({name}, {shape})"
        if len(have) > len(shape) and have[len(have) - len(shape) :] == shape:
            return f"o.mean({name}, axis={_tuple(map(str, range(len(have) - len(shape))))})"
        if size_of(have) == size_of(shape):
            return f"o.reshape({name}, {shape})"
        scalar = self.rng.choice(
            [
                f"o.mean({name})",
                f"o.max({name})",
                f"{name}[{', '.join(str(self.rng.randrange(n)) for n in have)}]" if have else name,
            ]
        )
        return scalar if shape == () else f"o.broadcast_to({scalar}, {shape})"

    def integers(self, shape):
        exact = self.find("I", shape)
        if exact is not None and self.chance(0.7):
            return self.take(exact)
        scalar = self.find("I", ())
        if scalar is not None and self.chance(0.6):
            return f"o.broadcast_to({self.take(scalar)}, {shape})" if shape else self.take(scalar)
        if self.chance(0.5):
            return f"o.astype(o.floor(2.0 * {self.want('F', shape)}), o.I)"
        return f"o.full({shape}, {self.rng.randrange(-3, 4)}, dtype=o.I)"

    def narrow(self, shape):
        """Integers of the drawn dtype."""
        exact = self.find("N", shape)
        if exact is not None and self.chance(0.7):
            return self.take(exact)
        if self.chance(0.3):
            return f"o.full({shape}, {self.rng.randrange(5)}, dtype=o.N)"
        return f"o.astype({self.integers(shape)} % 7, o.N)"

    def positions(self, shape, n):
        """Indices in 0 … n-1 of one dtype or the other."""
        return f"{self.narrow(shape) if self.chance(0.35) else self.integers(shape)} % {n}"

    def truth(self, shape):
        exact = self.find("B", shape)
        if exact is not None and self.chance(0.4):
            return self.take(exact)
        if self.chance(0.1):
            return (
                f"({self.narrow(shape)} {self.rng.choice(['<', '>=', '==', '!='])} {self.rng.randrange(4)})"
            )
        kind = self.rng.randrange(4)
        if kind == 0:
            return (
                f"({self.integers(shape)} {self.rng.choice(['<', '>=', '==', '!='])} "
                f"{self.rng.randrange(-1, 3)})"
            )
        if kind == 1 and shape == ():
            wide = self.find("F", None, lambda v: v.shape != () and size_of(v.shape) > 0)
            if wide is not None:
                return (
                    f"o.{self.rng.choice(['any', 'all'])}"
                    f"({self.take(wide)} {self.rng.choice('<>')} {self.number()})"
                )
        a, b = self.want("F", shape), self.want("F", shape) if self.chance(0.4) else self.number()
        return (
            f"({a} {self.rng.choice(['<', '>', '<=', '>='])} {b})" if a != b else f"({a} > {self.number()})"
        )

    def index(self, n):
        """A traced integer scalar in 0 … n-1."""
        return self.positions((), n)

    def dtype(self):
        return "H" if self.kind == "mixed" and self.chance(0.3) else "F"

    def shape(self):
        return self.rng.choice(SHAPES)

    # -- first-order statements --

    def unary(self):
        d = self.dtype()
        value = self.find(d) or self.find("F")
        d, v, m = value.dtype, self.take(value), value.most
        rows = [
            (f"o.sin({v})", 1),
            (f"o.cos({v})", 1),
            (f"o.tanh({v})", 1),
            (f"o.sigmoid({v})", 1),
            (f"o.atan({v})", 1.6),
            (f"-{v}", m),
            (f"o.abs({v})", m),
            (f"o.square({v})", m * m),
            (f"o.sqrt(1.0 + {v} * {v})", 1 + m),
            (f"o.log1p({v} * {v})", 2.4),
            (f"o.exp(-{v} * {v})", 1),
            (f"o.expm1(0.3 * {v})", 1.5),
            (f"o.rsqrt(2.0 + {v})" if m < 1.5 else f"o.rsqrt(1.0 + {v} ** 2)", 2),
            (f"{v} ** 3", m**3),
            (f"o.erf({v})", 1),
            (f"o.sign({v})", 1),
            (f"o.floor({v}) + {v}", 2 * m),
            (f"o.log({v} * {v} + 0.5)", 2.5),
            (f"o.maximum({v}, 0.0)", m),
            (f"o.clip({v}, -0.5, 0.7)", 0.7),
            (f"o.logaddexp({v}, o.zeros_like({v}))", m + 0.7),
            (f"o.sinh(0.4 * {v})", 1.6),
            (f"o.asin(0.3 * {v})" if m <= 3 else f"o.atan({v})", 1.6),
            (f"{v} * {v}" if self.differences else f"o.stop_gradient({v}) * {v}", m * m),
            (f"o.round({v}) - {v}", 0.5),
            (f"o.exp2(0.5 * {v})", 2.9),
            (f"o.reciprocal(1.5 + o.sin({v}))", 2),
            (f"o.cosh(0.3 * {v})", 1.5),
            (f"o.asinh({v})", 2),
            (f"o.trunc({v}) * 0.5 + {v}", 2 * m),
        ]  # fmt: skip
        text, most = self.rng.choice(rows)
        return self.let(text, d, value.shape, most)

    def binary(self):
        d = self.dtype()
        shape = self.shape()
        a = self.want(d, shape)
        b = self.want(d, self.rng.choice([shape, shape, shape[1:], ()]))
        m, n = self.bound(a), self.bound(b)
        rows = [
            (f"{a} + {b}", m + n),
            (f"{a} - 0.5 * {b}", m + n),
            (f"{a} * {b}", m * n),
            (f"{a} * {b}", m * n),
            (f"{a} / (1.5 + o.sin({b}))", 2 * m),
            (f"o.maximum({a}, {b})", max(m, n)),
            (f"o.minimum({a}, {b})", max(m, n)),
            (f"o.atan2({a}, 1.5 + {b} * {b})", 1.6),
            (f"o.hypot({a}, {b} + 0.2)", 2 * _LIMIT),
            (f"(1.0 + {a} * {a}) ** (0.3 * o.tanh({b}))", 3),
            (f"o.logaddexp({a}, {b})", _LIMIT + 0.7),
            (f"o.remainder({a}, 1.7) + {b}", 1.7 + n),
            (f"o.fmod({a}, 1.3) * {b}", 1.3 * n),
            (f"o.copysign({a}, {b})", m),
        ]  # fmt: skip
        text, most = self.rng.choice(rows)
        return self.let(text, d, shape, most)

    def select(self):
        d, shape = self.dtype(), self.shape()
        p = self.truth(self.rng.choice([shape, ()]))
        return self.let(f"o.where({p}, {self.want(d, shape)}, {self.want(d, shape)})", d, shape, _LIMIT)

    def wide(self, rank=1, dtype="F"):
        """A value with axes and elements."""
        found = self.find(dtype, None, lambda v: len(v.shape) >= rank and size_of(v.shape) > 0)
        if found is None:
            shape = (3,) if rank == 1 else (2, 3)
            found = self.let(
                (
                    f"o.sin(o.reshape(o.arange({size_of(shape)}, dtype=o.{dtype}), {shape}) "
                    f"+ {self.want(dtype, ())})"
                ),
                dtype,
                shape,
                1,
            )
        return found

    def reduction(self):
        value = self.wide()
        v, shape, axis = self.take(value), value.shape, None
        if self.chance(0.7):
            axis = self.rng.randrange(len(shape))
        keep = axis is not None and self.chance(0.3)
        n = size_of(shape) if axis is None else shape[axis]
        rest = () if axis is None else shape[:axis] + ((1,) if keep else ()) + shape[axis + 1 :]
        more = (
            ""
            if axis is None
            else f", axis={axis - len(shape) if self.chance(0.3) else axis}"
            + (", keepdims=True" if keep else "")
        )
        m = value.most
        name, most = self.rng.choice(
            [
                ("sum", n * m),
                ("sum", n * m),
                ("mean", m),
                ("max", m),
                ("min", m),
                ("logsumexp", m + 2.5),
                ("var", m * m),
                ("prod", m**n),
                ("std", m),
            ]
        )
        if name == "std":
            return self.let(f"o.sqrt(0.1 + o.var({v}{more}))", "F", rest, most + 1)
        return self.let(f"o.{name}({v}{more})", "F", rest, most)

    def along(self):
        value = self.wide()
        v, shape, m = self.take(value), value.shape, value.most
        axis = self.rng.randrange(len(shape))
        n = shape[axis]
        a = f"axis={axis}"
        rows = [
            (f"o.cumsum({v}, {a})", n * m),
            (f"o.cumprod({v}, {a})", max(1, m) ** n),
            # of equals the two take other ones
            (
                f"o.cummax({v} + o.cumsum(0.01 + 0.0 * {v}, {a}), {a}, reverse={self.chance(0.5)})",
                m + 0.01 * n,
            ),
            (f"o.cummin({v} + o.cumsum(0.01 + 0.0 * {v}, {a}), {a})", m + 0.01 * n),
            (f"o.sort({v}, {a}, descending={self.chance(0.5)})", m),
            (f"o.flip({v}, {a})", m),
            (f"o.roll({v}, {self.rng.choice([1, -1, 2])}, {a})", m),
            (f"o.softmax({v}, {a})", 1),
            (f"o.log_softmax({v}, {a})", 2 * m + 2),
            (f"o.cumlogsumexp({v}, {a})", m + 2),
            (f"o.take_along_axis({v}, o.argsort({v}, {a}), {a})", m),
            (f"o.linear_recurrence(0.5 * o.tanh({v}), {v}, {a}, reverse={self.chance(0.5)})", 2 * m),
            (f"o.cumsum({v}[::-1], {a})[::-1]", n * m),
        ]  # fmt: skip
        text, most = self.rng.choice(rows)
        return self.let(text, "F", shape, most)

    def product(self):
        kind = self.rng.randrange(8)
        d = self.dtype()
        if kind == 0:
            return self.let(f"{self.want(d, (2, 3))} @ {self.want(d, (3, 3))}", d, (2, 3), 27)
        if kind == 1:
            return self.let(f"{self.want(d, (3,))} @ {self.want(d, (3, 3))}", d, (3,), 27)
        if kind == 2:
            return self.let(f"{self.want(d, (3, 3))} @ {self.want(d, (3,))}", d, (3,), 27)
        if kind == 3:
            return self.let(f"o.vecdot({self.want(d, (3,))}, {self.want(d, (3,))})", d, (), 27)
        if kind == 4:
            return self.let(
                f'o.einsum("ij,kj->ki", {self.want(d, (2, 3))}, {self.want(d, (3, 3))})', d, (3, 2), 27
            )
        if kind == 5:
            return self.let(f"o.outer({self.want(d, (3,))}, {self.want(d, (2,))})", d, (3, 2), 9)
        if kind == 6:
            return self.let(
                f"o.tensordot({self.want(d, (3, 3))}, {self.want(d, (3, 2))}, axes=1)", d, (3, 2), 27
            )
        return self.let(
            f'o.einsum("ij,jk,k->i", {self.want(d, (2, 3))}, {self.want(d, (3, 3))}, {self.want(d, (3,))})',
            d,
            (2,),
            243,
        )

    def shaping(self):
        value = self.wide()
        v, shape, m = self.take(value), value.shape, value.most
        last = shape[-1]
        rows = [
            (f"o.concatenate([{v}, 0.5 * {v}])[{shape[0]}:]", shape),
            (f"o.stack([{v}, o.sin({v})])[1]", shape),
            (f"o.expand_dims({v}, axis=0)[0]", shape),
            (f"o.tile({v}, 2)[..., :{last}]", shape),
            (f"o.repeat({v}, 2, axis=0)[::2]", shape),
            (f"{v}[::-1]", shape),
            (f"{v}[..., ::-1]", shape),
            (f"{v}[..., :-1]", shape[:-1] + (last - 1,)),
            (
                (
                    f"o.pad({v}, [{', '.join(['(0, 0)'] * (len(shape) - 1) + ['(1, 0)'])}], "
                    f"‹value|constant_values›=0.5)[..., :{last}]"
                ),
                shape,
            ),
            (f"{v}[{self.rng.randrange(-shape[0], shape[0])}]", shape[1:]),
            (f"{v}[..., {self.rng.randrange(last)}]", shape[:-1]),
            (f"o.squeeze({v}[..., :1], axis=-1)", shape[:-1]),
        ]  # fmt: skip
        if len(shape) == 2:
            rows += [
                (f"{v}.T", shape[::-1]),
                (f"o.transpose({v}, (1, 0))", shape[::-1]),
                (f"o.reshape({v}, (-1,))", (size_of(shape),)),
                (f"o.tril({v}) - o.triu({v}, k=1)", shape),
                (f"o.swapaxes({v}, 0, 1)", shape[::-1]),
                (f"{v}[:, None, :][:, 0]", shape),
            ]
            if shape[0] == shape[1]:
                rows += [(f"o.diagonal({v})", shape[:1]), (f"o.trace({v}) + {v}", shape)]
                m = 4 * m if rows[-1] else m
        text, made = self.rng.choice(rows)
        if 0 in made:
            text, made = f"{v}[::-1]", shape
        return self.let(text, "F", made, m)

    def indexing(self):
        value = self.wide()
        v, shape, m = self.take(value), value.shape, value.most
        n = shape[0]
        rows = [
            (f"{v}[{self.index(n)}]", shape[1:]),
            (f"{v}[{self.integers(())}]", shape[1:]),
            (f"o.take({v}, {self.positions((3,), n)}, axis=0)", (3,) + shape[1:]),
            (f"{v}[{self.positions((2,), n)}]", (2,) + shape[1:]),
            (
                (
                    f"o.dynamic_slice({v}, "
                    f"{_tuple([self.integers(())] + ['o.full((), 0, dtype=o.I)'] * (len(shape) - 1))}, "
                    f"{_tuple(map(str, (1,) + shape[1:]))})[0]"
                ),
                shape[1:],
            ),
            (f"{v}[..., o.asarray([{shape[-1] - 1}, 0])]", shape[:-1] + (2,)),
        ]  # fmt: skip
        if len(shape) == 2:
            rows += [
                (f"{v}[{self.index(n)}, {self.index(shape[1])}]", ()),
                (f"{v}[:, {self.index(shape[1])}]", shape[:1]),
                (f"{v}[{self.positions((2,), n)}, {self.positions((2,), shape[1])}]", (2,)),
            ]
        text, made = self.rng.choice(rows)
        return self.let(text, "F", made, m)

    def update(self):
        value = self.wide()
        v, shape, m = self.take(value), value.shape, value.most
        n, rest = shape[0], shape[1:]
        rows = [
            (f"{v}.at[{self.integers(())}].set({self.want('F', rest)})", _LIMIT),
            (f"{v}.at[{self.index(n)}].add({self.want('F', rest)})", 2 * _LIMIT),
            (f"{v}.at[1:].set(0.5)", m),
            (f"{v}.at[:{n - 1}].multiply({self.number()})", m),
            (f"{v}.at[{self.positions((3,), n)}].add({self.want('F', (3,) + rest)})", 4 * _LIMIT),
            (f"{v}.at[..., 0].add({self.want('F', shape[:-1])})", 2 * _LIMIT),
            (
                (
                    f"o.dynamic_update_slice({v}, {self.want('F', (1,) + rest)}, "
                    f"{_tuple([self.integers(())] + ['o.full((), 0, dtype=o.I)'] * len(rest))})"
                ),
                _LIMIT,
            ),
            (f"{v}.at[::2].set({self.want('F', rest)})", _LIMIT),
        ]  # fmt: skip
        text, most = self.rng.choice(rows)
        return self.let(text, "F", shape, most)

    def integer(self):
        shape = self.rng.choice([(), (), (3,), (2,)])
        i, j = self.integers(shape), self.integers(self.rng.choice([shape, ()]))
        choices = [
            f"({i} + {j}) % 5",
            f"({i} * {j}) % 7 - 2",
            f"o.maximum({i}, {j})",
            f"{i} // 2 - {j} % 3",
            f"o.abs({i}) ^ ({j} & 3)",
            f"o.where({self.truth(shape)}, {i}, {j})",
            f"o.minimum({i}, 3) << 1",
            f"o.astype({self.truth(shape)}, o.I) + {i} % 2",
            f"o.clip({i}, -2, 3)",
        ]  # fmt: skip
        wide = self.find("F", None, lambda v: len(v.shape) > 0 and size_of(v.shape) > 0)
        if wide is not None and self.chance(0.5):
            axis = self.rng.randrange(len(wide.shape))
            op = self.rng.choice(["argmax", "argmin"])
            return self.let(
                f"o.astype(o.{op}({self.take(wide)}, axis={axis}), o.I)",
                "I",
                wide.shape[:axis] + wide.shape[axis + 1 :],
            )
        if self.chance(0.2):
            return self.let(
                f"o.astype(o.searchsorted(o.sort({self.want('F', (3,))}), {self.want('F', ())}), o.I)",
                "I",
                (),
            )
        if self.chance(0.2):
            return self.let(f"o.astype(o.sum({self.integers((3,))}), o.I)", "I", ())
        if self.chance(0.2):
            return self.let(
                f"o.sort({self.integers((3,))}).at[{self.index(3)}].max({self.integers(())})", "I", (3,)
            )
        return self.let(self.rng.choice(choices), "I", shape)

    def mask(self):
        shape = self.rng.choice([(), (3,), (2, 3)])
        a, b = self.truth(shape), self.truth(shape)
        return self.let(
            self.rng.choice(
                [
                    f"o.logical_and({a}, {b})",
                    f"o.logical_or({a}, {b})",
                    f"~{a}",
                    f"o.logical_xor({a}, {b})",
                    f"{a} & {b}",
                ]
            ),
            "B",
            shape,
        )

    def conversion(self):
        if self.kind == "mixed" and self.chance(0.7):
            value = self.find(self.rng.choice("FH")) or self.find("F")
            to = "H" if value.dtype == "F" else "F"
            return self.let(f"o.astype({self.take(value)}, o.{to})", to, value.shape, value.most)
        if self.chance(0.5):
            shape = self.rng.choice([(), (3,)])
            return self.let(f"0.3 * o.astype({self.integers(shape)}, o.F)", "F", shape, 100)
        shape = self.rng.choice([(), (3,)])
        return self.let(
            f"o.one_hot({self.positions(shape, 3)}, 3, dtype=o.F) * {self.want('F', (3,))}",
            "F",
            shape + (3,),
            _LIMIT,
        )

    def narrow_integer(self):
        shape = self.rng.choice([(), (), (3,), (2,)])
        a, b = self.narrow(shape), self.narrow(self.rng.choice([shape, ()]))
        choices = [
            f"({a} + {b}) % 5",
            f"{a} * {b} + 1",
            f"o.maximum({a}, {b})",
            f"{a} // 2",
            f"{a} ^ {b}",
            f"o.minimum({a}, 3)",
            f"o.where({self.truth(shape)}, {a}, {b})",
            f"o.clip({a}, 1, 4)",
            f"o.astype(o.sum({self.narrow((3,))}) + {a}, o.N)",
            f"o.astype({a} > {b}, o.N)",
            f"{a} << 1",
            f"~{a} & 7",
        ]  # fmt: skip
        if self.chance(0.3):
            return self.let(f"o.astype({a}, o.I) - 2", "I", shape)
        if self.chance(0.3):  # an integer array beside floats takes their dtype
            d = self.dtype()
            return self.let(f"{self.want(d, shape)} * ({a} % 4)", d, shape, 9)
        return self.let(self.rng.choice(choices), "N", shape)

    def unbounded(self):
        """By way of infinities, and of angles far from zero."""
        value = self.wide()
        v, shape, m = self.take(value), value.shape, value.most
        n = shape[-1]
        some = f"o.arange({n}) < {max(1, n - 1)}"  # not all, unless there is one
        masked = f"o.where({some}, {v}, -o.inf)"
        rows = [
            (f"o.softmax({masked}, axis=-1)", shape, 1),
            (f"o.logsumexp({masked}, axis=-1)", shape[:-1], m + 2),
            (f"o.max({masked}, axis=-1)", shape[:-1], m),
            (f"o.exp({masked})", shape, 21),
            (f"o.cumlogsumexp(o.where({some}, {v}, -o.inf), axis={len(shape) - 1})", shape, m + 2),
            (f"o.maximum({v}, -o.inf)", shape, m),
            (f"o.clip({v}, -o.inf, 0.5)", shape, m),
            (f"o.where(o.isfinite({masked}), {v}, 0.25)", shape, m),
            (f"o.min(o.where({some}, {v}, o.inf), axis=-1)", shape[:-1], m),
            (f"o.minimum({masked}, o.inf)[..., :{max(1, n - 1)}]", shape[:-1] + (max(1, n - 1),), m),
            (
                f"o.sort(o.where({some}, {v}, o.inf), axis=-1)[..., :{max(1, n - 1)}]",
                shape[:-1] + (max(1, n - 1),),
                m,
            ),
            (f"{v} + o.atan(o.full((), o.inf, dtype=o.F))", shape, m + 1.6),
        ]  # fmt: skip
        if self.chance(0.3):  # powers of 2 times a small integer are exact in every float dtype
            power = float(2 ** self.rng.choice([10, 22, 40, 60, 100]))
            far = f"{power} * o.astype({self.integers(shape)} % 5, o.F)"
            rows = [(f"{v} * o.{self.rng.choice(['sin', 'cos'])}({far})", shape, m)]
        text, made, most = self.rng.choice(rows)
        return self.let(text, "F", made, most)

    def number_carried(self):
        """Loops that begin with Python numbers, which take the dtype that the body gives."""
        d = self.dtype()
        v, start = self.want(d, ()), self.number()
        rows = [
            (
                "fori_loop",
                f"o.fori_loop(0, {self.rng.randrange(1, 4)}, lambda i, s: o.sin(s + {v}), {start})",
            ),
            ("scan", f"o.scan(lambda s, u: (s * u, s + u), {start}, o.stack([{v}, o.cos({v})]))[0]"),
        ]
        if not self.only_reversible:
            rows.append(
                (
                    "while_loop",
                    (
                        f"o.while_loop(lambda s: s[1] < 3, lambda s: (o.cos(s[0] * {v}), s[1] + 1), "
                        f"({start}, {self.rng.randrange(3)}))[0]"
                    ),
                )
            )
        operator, text = self.rng.choice(rows)
        self.note(operator, self.outer)
        return self.let(text, d, (), 10)

    def idle(self):
        """Operators that carry and give nothing."""
        v = self.take(self.find("F"))
        rows = [
            "o.fori_loop(0, 3, lambda i, s: s, ())",
            (
                f"o.fori_loop(0, {self.index(3)}, lambda i, s: s, ())"
                if not self.only_reversible
                else "o.fori_loop(1, 1, lambda i, s: s, {})"
            ),
            f"o.scan(lambda s, u: (s, None), (), o.zeros(2) + o.sum({v}))",
            f"o.scan(lambda s, u: (s, ()), None, None, length={self.rng.randrange(3)})",
            f"o.cond({self.truth(())}, lambda: (), lambda: ())",
            f"o.switch({self.integers(())}, (lambda a: None, lambda a: None), {v})",
            f"o.map(lambda u: (), o.zeros((3, 2)) + o.sum({v}))",
            f"o.jit(lambda a: ())({v})",
            f"o.checkpoint(lambda a: [])({v})",
        ]  # fmt: skip
        self.emit(f"{self.fresh('z')} = {self.rng.choice(rows)}")

    FIRST = [
        ("narrow_integer", 2),
        ("unbounded", 2),
        ("number_carried", 1),
        ("idle", 1),
        ("unary", 8),
        ("binary", 8),
        ("select", 3),
        ("reduction", 4),
        ("along", 4),
        ("product", 4),
        ("shaping", 3),
        ("indexing", 3),
        ("update", 3),
        ("integer", 2),
        ("mask", 1),
        ("conversion", 2),
    ]

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
            self.let(text, d, s, _LIMIT)

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
        self.emit(f"{name} = o.switch({', '.join([which, _tuple(branches), *texts])})")
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
            self.let(f"{name}[0]", "F", (), _LIMIT)
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
        self.let(f"{name}[0]", "F", shape, _LIMIT)
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
            _LIMIT,
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
