"""What captured functions give besides arrays: constants come back as they are, wherever the function is
captured."""

import dataclasses
import enum
import functools
import unittest

import hop


class Color(enum.Enum):
    RED = 1


class Box:
    """An object that is no node of trees."""

    def __init__(self, value):
        self.value = value


class Slots:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


@dataclasses.dataclass
class Layer:
    w: object
    name: str = dataclasses.field(default="", metadata={"static": True})


BOX = Box(3)
CONSTANTS = {
    "text": "abc",
    "bytes": b"xyz",
    "nothing": None,
    "enum": Color.RED,
    "object": BOX,
    "dtype": hop.float32,
    "function": len,
    "class": Box,
    "complex": 1j,
    "ellipsis": ...,
    "set": frozenset({"a", "b"}),
}


def mixed(x):
    """Arrays and constants at several depths."""
    return {"y": x * 2, "rest": [CONSTANTS, (x + 1, "mode")], "layer": Layer(x, "first")}


class Constants(unittest.TestCase):
    def check(self, found, y, more):
        rest, (z, mode) = found["rest"]
        self.assertEqual(sorted(rest), sorted(CONSTANTS))
        for key, value in CONSTANTS.items():
            self.assertIs(rest[key], value, key)
        self.assertEqual(mode, "mode")
        self.assertEqual(found["layer"].name, "first")
        self.assertEqual(found["y"].tolist(), y)
        self.assertEqual(z.tolist(), more)

    def test_of_jit_on_every_call(self):
        f = hop.jit(mixed)
        for _ in range(3):  # the first is captured, others go the quick way
            self.check(f(hop.asarray([1.0, 2.0])), [2.0, 4.0], [2.0, 3.0])

    def test_of_jit_alone(self):
        for value in CONSTANTS.values():
            f = hop.jit(lambda x, value=value: value)
            for _ in range(2):
                self.assertIs(f(1.0), value)

    def test_of_jit_in_jit_and_of_checkpoint(self):
        x = hop.asarray([1.0, 2.0])
        for inner in (hop.jit(mixed), hop.checkpoint(mixed), hop.remat(mixed)):
            self.check(inner(x), [2.0, 4.0], [2.0, 3.0])
            f = hop.jit(lambda x, inner=inner: inner(x))
            for _ in range(2):
                self.check(f(x), [2.0, 4.0], [2.0, 3.0])

    def test_of_vmap(self):
        self.check(hop.vmap(mixed)(hop.asarray([1.0, 2.0])), [2.0, 4.0], [2.0, 3.0])
        found = hop.vmap(lambda x: {"x": x, "s": "t"}, out_axes={"x": 0, "s": None})(hop.ones(2))
        self.assertEqual(found["s"], "t")

    def test_of_derivatives_more(self):
        def f(x):
            return hop.sum(x * x), mixed(x)

        x = hop.asarray([1.0, 2.0])
        for wrap in (lambda g: g, hop.jit):
            self.check(wrap(hop.grad(f, has_aux=True))(x)[1], [2.0, 4.0], [2.0, 3.0])
            self.check(wrap(hop.value_and_grad(f, has_aux=True))(x)[0][1], [2.0, 4.0], [2.0, 3.0])
            self.check(wrap(hop.jacrev(f, has_aux=True))(x)[1], [2.0, 4.0], [2.0, 3.0])
            self.check(wrap(hop.hessian(f, has_aux=True))(x)[1], [2.0, 4.0], [2.0, 3.0])
            self.check(wrap(lambda x: hop.vjp(f, x, has_aux=True)[2])(x), [2.0, 4.0], [2.0, 3.0])
            self.check(wrap(lambda x: hop.linearize(f, x, has_aux=True)[2])(x), [2.0, 4.0], [2.0, 3.0])
            self.check(wrap(lambda x: hop.jvp(f, (x,), (x,), has_aux=True)[2])(x), [2.0, 4.0], [2.0, 3.0])

    def test_of_values_that_are_differentiated(self):
        def f(x):
            return {"y": x * x, "name": "square"}

        value, pullback = hop.vjp(f, 3.0)
        self.assertEqual(value["name"], "square")
        for cotangent in ({"y": 1.0, "name": "square"}, {"y": 1.0, "name": None}):
            self.assertEqual(float(pullback(cotangent)[0]), 6.0)
        value, moved = hop.jvp(f, (3.0,), (1.0,))
        self.assertEqual((float(moved["y"]), moved["name"]), (6.0, "square"))

    def test_of_branches_that_agree(self):
        def f(p, x):
            return hop.cond(p, lambda x, m: (x, m, BOX), lambda x, m: (-x, m, BOX), x, "mode")

        for wrap in (lambda g: g, hop.jit):
            for p, expected in ((True, 2.0), (False, -2.0)):
                y, mode, box = wrap(f)(hop.asarray(p), hop.asarray(2.0))
                self.assertEqual((float(y), mode), (expected, "mode"))
                self.assertIs(box, BOX)
        branches = [lambda x: (x, "s"), lambda x: (x + 1, "s"), lambda x: (x + 2, "s")]
        found = hop.jit(lambda i, x: hop.switch(i, branches, x))(hop.asarray(2), 1.0)
        self.assertEqual((float(found[0]), found[1]), (3.0, "s"))

    def test_of_branches_that_differ(self):
        def f(p, x):
            return hop.cond(p, lambda x: (x, {"k": "m"}), lambda x: (-x, {"k": "q"}), x)

        expected = r"cond: result\[1\]\['k'\]: true_fun gives the constant 'm', expected the constant 'q'"
        with self.assertRaisesRegex(hop.InvalidError, expected):
            hop.jit(f)(hop.asarray(True), hop.asarray(2.0))
        expected = "result: branch 1 has the structure None, expected the constant 'a'"
        with self.assertRaisesRegex(hop.InvalidError, expected):
            hop.jit(lambda i: hop.switch(i, [lambda: "a", lambda: None]))(1)

    def test_of_carries_that_stay(self):
        xs = hop.asarray([1.0, 2.0])

        def step(c, x):
            return {"h": c["h"] + x, "mode": c["mode"]}, {"y": x, "tag": BOX}

        for wrap in (lambda g: g, hop.jit):
            last, ys = wrap(lambda xs: hop.scan(step, {"h": 0.0, "mode": "m"}, xs))(xs)
            self.assertEqual((float(last["h"]), last["mode"], ys["y"].tolist()), (3.0, "m", [1.0, 2.0]))
            self.assertIs(ys["tag"], BOX)
            twice = functools.partial(hop.while_loop, lambda c: c[0] < 5, lambda c: (c[0] + 2, c[1]))
            last = wrap(lambda x, twice=twice: twice((x, len)))(0.0)
            self.assertEqual(float(last[0]), 6.0)
            self.assertIs(last[1], len)
            last = wrap(lambda x: hop.fori_loop(0, 3, lambda i, c: (c[0] + i, c[1]), (x, "a")))(0.0)
            self.assertEqual((float(last[0]), last[1]), (3.0, "a"))
            found = wrap(lambda xs: hop.map(lambda x: (x * x, "sq"), xs))(xs)
            self.assertEqual((found[0].tolist(), found[1]), ([1.0, 4.0], "sq"))
        with hop.disable_jit():
            self.assertEqual(hop.scan(step, {"h": 0.0, "mode": "m"}, xs)[0]["mode"], "m")

    def test_of_carries_that_change(self):
        xs = hop.asarray([1.0, 2.0])
        gives = r"gives the constant 'b', expected the constant 'a'"
        with self.assertRaisesRegex(hop.InvalidError, rf"scan: carry\[1\]: the function {gives}"):
            hop.scan(lambda c, x: ((c[0] + x, "b"), x), (0.0, "a"), xs)
        with self.assertRaisesRegex(hop.InvalidError, rf"while_loop: carry\['k'\]: the body {gives}"):
            hop.while_loop(lambda c: c["x"] < 1, lambda c: {"x": c["x"] + 1, "k": "b"}, {"x": 0.0, "k": "a"})
        with self.assertRaisesRegex(hop.InvalidError, r"carry\[1\]: .*, expected the constant 'a'"):
            hop.scan(lambda c, x: ((c[0] + x, x), x), (0.0, "a"), xs)

    def test_equal_constants_are_the_same(self):
        """Texts and numbers inside of constants compare by value, other things by what they are."""
        made = functools.partial(hop.cond, hop.asarray(True))
        f = hop.jit(lambda x: hop.cond(x > 0, lambda: "".join(["a", "b"]), lambda: "".join(["ab"])))
        self.assertEqual(f(1.0), "ab")
        with self.assertRaisesRegex(hop.InvalidError, "gives the constant"):
            hop.jit(lambda x: hop.cond(x > 0, lambda: Box(1), lambda: Box(1)))(1.0)
        self.assertEqual(made(lambda: "a", lambda: "b"), "a")  # at once only one branch runs

    def test_arrays_of_other_libraries_stay_arrays(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("there is no NumPy")
        found = hop.jit(lambda x: {"a": numpy.arange(3), "s": "t"})(1.0)
        self.assertIsInstance(found["a"], hop.Array)
        self.assertEqual(found["a"].tolist(), [0, 1, 2])
        odd = numpy.asarray(["a", "b"])
        self.assertIs(hop.jit(lambda x: odd)(1.0), odd)

    def test_traced_values_inside_of_constants(self):
        cases = (
            (lambda x: Box(x), r"result: a Box holds a traced value of type f32\[2\]"),
            (lambda x: (x, Slots([x])), r"result\[1\]: a Slots holds"),
            (lambda x: {"f": lambda: x + 1}, r"result\['f'\]: the function <lambda> holds"),
            (lambda x: functools.partial(hop.add, x), "holds a traced value"),
        )
        for f, expected in cases:
            with self.assertRaisesRegex(hop.TracerError, expected):
                hop.jit(f)(hop.ones(2))
        # what belongs to an outer program may stay inside of it
        outer = hop.jit(lambda x: hop.grad(lambda y: (y * y, lambda: x), has_aux=True)(2.0)[1]())
        self.assertEqual(outer(hop.ones(2)).tolist(), [1.0, 1.0])

    def test_numbers_stay_weak_arrays(self):
        one, truth, text = hop.jit(lambda x: (1, True, "t"))(0.0)
        self.assertIsInstance(one, hop.Array)
        self.assertEqual((one.dtype, truth.dtype, text), (hop.int64, hop.bool, "t"))

    def test_of_programs_that_are_shown_and_exported(self):
        lowered = hop.jit(mixed).lower(hop.ones(2))
        self.assertEqual(len(lowered.out_types), 3)
        self.assertIn("out_y", lowered.c())
        shapes = hop.eval_shape(mixed, hop.ones(2))
        self.assertIs(shapes["rest"][0]["object"], BOX)
        self.assertEqual(shapes["y"].shape, (2,))


class Zeros(unittest.TestCase):
    """None stands for a zero among cotangents and tangents."""

    @staticmethod
    def f(p, n):
        return {"a": p["w"] * 2, "b": [hop.sum(p["w"] * p["v"]), n + 1], "c": None}

    def test_cotangents(self):
        w, v = hop.asarray([1.0, 2.0]), hop.asarray([3.0, 4.0])
        y, pullback = hop.vjp(self.f, {"w": w, "v": v}, 5)
        ones, cases = hop.ones(2), []
        cases.append(({"a": None, "b": [1.0, None], "c": None}, [3.0, 4.0], [1.0, 2.0]))
        cases.append(({"a": ones, "b": None, "c": None}, [2.0, 2.0], [0.0, 0.0]))
        cases.append(({"a": ones, "b": [None, None], "c": None}, [2.0, 2.0], [0.0, 0.0]))
        cases.append((None, [0.0, 0.0], [0.0, 0.0]))
        for cotangent, dw, dv in cases:
            for call in (pullback, hop.jit(lambda p, n, c=cotangent: hop.vjp(self.f, p, n)[1](c))):
                given = ({"w": w, "v": v}, 5) if call is not pullback else (cotangent,)
                found, dn = call(*given)
                self.assertEqual((found["w"].tolist(), found["v"].tolist(), int(dn)), (dw, dv, 0))

    def test_tangents(self):
        w, v = hop.asarray([1.0, 2.0]), hop.asarray([3.0, 4.0])
        args = {"w": w, "v": v}, 5
        for tangents in (({"w": hop.ones(2), "v": None}, None), ({"w": hop.ones(2), "v": hop.zeros(2)}, 0)):
            moved = hop.jvp(self.f, args, tangents)[1]
            again = hop.linearize(self.f, *args)[1](*tangents)
            for found in (moved, again):
                self.assertEqual(found["a"].tolist(), [2.0, 2.0])
                self.assertEqual((float(found["b"][0]), int(found["b"][1])), (7.0, 0))
        moved = hop.jvp(self.f, args, (None, None))[1]
        self.assertEqual((moved["a"].tolist(), float(moved["b"][0])), ([0.0, 0.0], 0.0))

    def test_zeros_as_jax_has_them(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("there is no NumPy")
        float0 = numpy.zeros((), dtype=numpy.dtype([("float0", numpy.void, 0)]))
        y, pullback = hop.vjp(lambda x, n: (x * n, n), 2.0, 3)
        self.assertEqual(float(pullback((1.0, float0))[0]), 3.0)
        self.assertEqual(float(hop.jvp(lambda x, n: x * n, (2.0, 3), (1.0, float0))[1]), 3.0)

    def test_mistakes(self):
        pullback = hop.vjp(lambda x: {"a": x, "b": (x, x)}, 1.0)[1]
        with self.assertRaisesRegex(
            hop.InvalidError,
            r"vjp: cotangent\['b'\]: the cotangent has the structure \(\*,\), the result has \(\*, \*\)",
        ):
            pullback({"a": None, "b": (1.0,)})
        with self.assertRaisesRegex(hop.InvalidError, r"tangents have the structure \(\*, None\), the argu"):
            hop.jvp(lambda x: x, (1.0,), (1.0, None))
        with self.assertRaisesRegex(hop.InvalidError, "the result has 'name'"):
            hop.vjp(lambda x: (x, "name"), 1.0)[1]((1.0, "other"))
        with self.assertRaisesRegex(hop.InvalidError, r"cotangent\['a'\] is f32\[2\], the result is"):
            pullback({"a": hop.ones(2), "b": None})


class Names(unittest.TestCase):
    """Bodies are called after their functions."""

    def text(self, f, *args):
        text = hop.jit(f).text(*args)
        self.assertEqual(hop.read(text).text(), text)
        return text

    def test_every_operator(self):
        x = hop.ones(3)

        def step(c, x):
            return c + x, c * x

        def square(x):
            return x * x

        def below(c):
            return c < 10

        def doubled(c):
            return 2 * c

        def counted(i, c):
            return c + i

        def near(x):
            return x

        def far(x):
            return -x

        def third(x):
            return x + 3

        def merge(a, b):
            return a * b + a

        cases = (
            (lambda x: hop.scan(step, x[0], x), "over(%x in %x) @step {"),
            (lambda x: hop.map(square, x), "@square {"),
            (lambda x: hop.while_loop(below, doubled, x[0]), "cond @below {"),
            (lambda x: hop.while_loop(below, doubled, x[0]), "body @doubled {"),
            (lambda x: hop.fori_loop(0, 3, counted, x[0]), "@counted {"),
            (lambda x: hop.cond(x[0] > 0, near, far, x), "@near {"),
            (lambda x: hop.cond(x[0] > 0, near, far, x), "@far {"),
            (lambda x: hop.switch(x[0].astype(hop.int64), [near, far, third], x), "@third {"),
            (lambda x: hop.associative_scan(merge, x), "@merge {"),
            (lambda x: hop.checkpoint(square)(x), "{recompute} with(%x) @square"),
            (lambda x: hop.jit(square)(x), "invoke_subgraph with(%x) @square {"),
            (lambda x: hop.map(functools.partial(hop.multiply, 2.0), x), "@multiply {"),
        )
        for f, expected in cases:
            self.assertIn(expected, self.text(f, x))
        self.assertNotIn("@", self.text(lambda x: hop.map(lambda y: y + 1, x), x).replace("fn @f(", ""))

    def test_transforms(self):
        def step(c, x):
            return c * x, c

        def loss(c, xs):
            return hop.scan(step, c, xs)[0]

        # the step, without what it stacks, and its backward are the same function
        text = self.text(hop.grad(loss), hop.asarray(1.0), hop.ones(3))
        self.assertIn("fn @step(", text)
        self.assertIn("@loss_value_and_grad {", text)
        text = self.text(hop.grad(lambda c, xs: hop.scan(step, c, xs)[1][1]), hop.asarray(1.0), hop.ones(3))
        self.assertIn("@step {", text)
        self.assertIn("@step_backward {", text)
        many = self.text(hop.vmap(loss, in_axes=(0, None)), hop.ones(2), hop.ones(3))
        self.assertIn("@step_vmap {", many)
        self.assertIn("scan @step", hop.jit(loss).explain(hop.asarray(1.0), hop.ones(300)))
        self.assertIn("/* scan @step */", hop.jit(loss).c(hop.asarray(1.0), hop.ones(300)))

    def test_functions_called_twice(self):
        @hop.jit
        def helper(x):
            return hop.sin(x) * x

        text = self.text(lambda x: helper(helper(x)), hop.asarray(1.0))
        self.assertEqual(text.count("fn @helper("), 1)

    def test_messages(self):
        def inner(c, x):
            return hop.reshape(c, (7,)), x

        def outer(x):
            return hop.scan(inner, x, x)[0]

        with self.assertRaises(hop.InvalidError) as caught:
            hop.jit(lambda x: hop.checkpoint(outer)(x))(hop.ones(3))
        said = str(caught.exception)
        self.assertRegex(said, r"in the step 'inner' of scan, .*test_structure.py:\d+")
        self.assertRegex(said, r"in the function 'outer', .*test_structure.py:\d+")

        def narrow(c, x):
            return c[:1], x

        def pair(x):
            return x, x

        expected = r"carry: the function 'narrow' gives f32\[1\], the loop began with f32\[2\]"
        with self.assertRaisesRegex(hop.InvalidError, expected):
            hop.scan(narrow, hop.ones(2), hop.ones(3))
        with self.assertRaisesRegex(hop.InvalidError, "true_fun 'pair' has the structure"):
            hop.jit(lambda x: hop.cond(x > 0, pair, lambda x: x, x))(1.0)


def leaf(x):
    hop.check(x > 0, "not positive", x)
    return hop.log(x)


def branch(c, x):
    return c + leaf(x), x


def root(xs):
    return hop.scan(branch, 0.0, xs)[0]


def wrong(x):
    return hop.reshape(x, (7,))


class Shapes(unittest.TestCase):
    """eval_shape on trees, with sizes that are numbers, unknown or have names."""

    def test_names_and_unknown_sizes(self):
        struct = hop.ShapeDtypeStruct

        def shape(f, *args):
            return hop.tree.map(lambda s: s.shape, hop.eval_shape(f, *args))

        x, y = struct(("T", 4), hop.float32), struct(("N", 4), hop.float32)
        self.assertEqual(shape(lambda a, b: hop.concat([a, b]), x, y), ("T + N", 4))
        self.assertEqual(shape(lambda a: hop.sum(a, axis=1), x), ("T",))
        self.assertEqual(shape(lambda p: p["a"] @ p["b"].T, {"a": x, "b": y}), ("T", "N"))
        unknown = struct((None, 4), hop.float32)
        self.assertEqual(shape(lambda a, b: hop.concat([a, b]), unknown, x), (None, 4))
        self.assertEqual(shape(lambda a: hop.scan(lambda c, v: (c + v, c), hop.zeros(4), a)[1], x), ("T", 4))
        self.assertEqual(shape(lambda a: a[a > 0], hop.ones(5)), (None,))
        found = hop.eval_shape(lambda a: {"y": a * 2, "name": "n"}, x)
        self.assertEqual((found["y"].dtype, found["name"]), (hop.float32, "n"))
        self.assertEqual((x.size, struct((2, 3), hop.int8).size), (None, 6))
        with self.assertRaisesRegex(hop.InvalidError, "contracted dims|must be|expected"):
            hop.eval_shape(lambda a, b: a @ b, struct((3, 4), hop.float32), struct((5, "T"), hop.float32))
        with self.assertRaisesRegex(hop.InvalidError, "expected a size"):
            hop.eval_shape(lambda a: a, struct(("T +",), hop.float32))


class Stacks(unittest.TestCase):
    """Errors show the frames of the user's program, also those about a program that was captured long ago."""

    def frames(self, call, kind):
        with self.assertRaises(kind) as caught:
            call()
        said = str(caught.exception).splitlines()
        self.assertRegex(said[0], r"test_structure.py:\d+: ")
        names = []
        for line in said[1:]:
            if not line.startswith("  in "):
                self.assertRegex(line, r"^  \S.*:\d+, in \S+$")
                names.append(line.split(", in ")[1])
                self.assertNotIn("/hop/", line)
        self.assertFalse([n for n in names if n in ("jit", "scan", "capture", "flat", "step")], names)
        return names

    def test_runs(self):
        f = hop.jit(root)
        f(hop.asarray([1.0, 2.0]))
        expected = ["leaf", "branch", "root", "test_runs"]
        bad = hop.asarray([1.0, -1.0])
        self.assertEqual(self.frames(lambda: f(bad), hop.CheckError)[:4], expected)
        program = f.lower(bad).function
        self.assertEqual(self.frames(lambda: program.interpret(bad), hop.CheckError)[:4], expected)
        gradient = hop.jit(hop.grad(root))
        self.assertEqual(self.frames(lambda: gradient(bad), hop.CheckError)[:3], expected[:3])
        many = hop.jit(hop.vmap(root))
        self.assertEqual(self.frames(lambda: many(bad[None]), hop.CheckError)[:3], expected[:3])

    def test_captures(self):
        def middle(x):
            return wrong(x)

        found = self.frames(lambda: hop.jit(lambda x: middle(x))(hop.ones(3)), hop.InvalidError)
        self.assertEqual(found[:3], ["wrong", "middle", "<lambda>"])

    def test_lines_are_those_of_each_call(self):
        """The same function called from two lines."""

        def twice(x):
            y = leaf(x)
            return leaf(y - 10.0) + y

        with self.assertRaises(hop.CheckError) as caught:
            hop.jit(twice)(2.0)
        lines = str(caught.exception).splitlines()
        first = twice.__code__.co_firstlineno
        self.assertIn(f":{first + 2}, in twice", lines[2])

    def test_deep_stacks_end(self):
        def deep(n, x):
            return wrong(x) if n == 0 else deep(n - 1, x)

        found = self.frames(lambda: hop.jit(lambda x: deep(100, x))(hop.ones(3)), hop.InvalidError)
        self.assertEqual(found[:3], ["wrong", "deep", "deep"])
        self.assertLess(len(found), 30)


if __name__ == "__main__":
    unittest.main()
