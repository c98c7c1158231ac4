"""The statements of random programs that have no bodies: values of known dtypes, shapes and bounds, and
expressions of them. programs.py, which adds what has bodies, says what a program is.
"""

import dataclasses

SHAPES = [(), (), (3,), (3,), (3,), (2,), (2, 3), (3, 3), (3, 2), (4, 3)]
LIMIT = 3.0  # values above it are brought down


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


def tuple_of(items):
    items = list(items)
    return "(" + ", ".join(items) + ("," if len(items) == 1 else "") + ")"


class Statements:
    """A program that is written line by line. What makes one (Maker in programs.py) sets the fields: rng,
    lines, indent, count, scope, outer, kind, only_reversible, differences."""

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

    def bind(self, name, dtype, shape, most=LIMIT):
        value = Value(name, dtype, tuple(shape), most)
        self.scope.append(value)
        return value

    def let(self, expression, dtype, shape, most=1.0):
        if dtype in "FH" and most > LIMIT:
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
        return LIMIT

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
            return f"o.mean({name}, axis={tuple_of(map(str, range(len(have) - len(shape))))})"
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
            (f"o.hypot({a}, {b} + 0.2)", 2 * LIMIT),
            (f"(1.0 + {a} * {a}) ** (0.3 * o.tanh({b}))", 3),
            (f"o.logaddexp({a}, {b})", LIMIT + 0.7),
            (f"o.remainder({a}, 1.7) + {b}", 1.7 + n),
            (f"o.fmod({a}, 1.3) * {b}", 1.3 * n),
            (f"o.copysign({a}, {b})", m),
        ]  # fmt: skip
        text, most = self.rng.choice(rows)
        return self.let(text, d, shape, most)

    def select(self):
        d, shape = self.dtype(), self.shape()
        p = self.truth(self.rng.choice([shape, ()]))
        return self.let(f"o.where({p}, {self.want(d, shape)}, {self.want(d, shape)})", d, shape, LIMIT)

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
                    f"{tuple_of([self.integers(())] + ['o.full((), 0, dtype=o.I)'] * (len(shape) - 1))}, "
                    f"{tuple_of(map(str, (1,) + shape[1:]))})[0]"
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
            (f"{v}.at[{self.integers(())}].set({self.want('F', rest)})", LIMIT),
            (f"{v}.at[{self.index(n)}].add({self.want('F', rest)})", 2 * LIMIT),
            (f"{v}.at[1:].set(0.5)", m),
            (f"{v}.at[:{n - 1}].multiply({self.number()})", m),
            (f"{v}.at[{self.positions((3,), n)}].add({self.want('F', (3,) + rest)})", 4 * LIMIT),
            (f"{v}.at[..., 0].add({self.want('F', shape[:-1])})", 2 * LIMIT),
            (
                (
                    f"o.dynamic_update_slice({v}, {self.want('F', (1,) + rest)}, "
                    f"{tuple_of([self.integers(())] + ['o.full((), 0, dtype=o.I)'] * len(rest))})"
                ),
                LIMIT,
            ),
            (f"{v}.at[::2].set({self.want('F', rest)})", LIMIT),
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
            LIMIT,
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
