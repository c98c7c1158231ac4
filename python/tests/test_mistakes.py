"""Mistakes: every one raises an exception of a fitting class, whose message says what was expected and
found, where in a tree, and on which line of the program; and afterwards everything works as before."""

import collections
import copy
import dataclasses
import inspect
import pickle
import queue
import traceback
import unittest
import warnings
import weakref

import hop
from support import Case, needs_numpy, numpy


def line():
    """The line of the caller."""
    return inspect.currentframe().f_back.f_lineno


class Mistakes(Case):
    def fails(self, kind, text, function, *args, **named):
        """The call raises this kind of exception, and its message contains the text."""
        with self.assertRaises(kind) as caught:
            function(*args, **named)
        self.assertIn(text, str(caught.exception))
        return str(caught.exception)


class Arguments(Mistakes):
    def test_no_arrays(self):
        f = hop.jit(lambda tree: tree)
        for bad, what in (
            (object(), "object"),
            ("text", "str"),
            (1j, "complex"),
            ({1, 2}, "set"),
            (print, "builtin_function_or_method"),
        ):
            said = self.fails(TypeError, what, f, {"a": [1.0, bad]})
            self.assertIn("argument tree['a'][1]", said)
            self.assertIn("static", said)
            self.assertTrue(said.startswith(__file__), said)
        self.fails(TypeError, "argument x1", hop.jit(lambda *rest: rest), 1.0, "a")
        self.fails(TypeError, "argument named", hop.jit(lambda named: named), named="a")
        self.assertEqual(f({"a": [1.0]})["a"][0].item(), 1)

    def test_static(self):
        f = hop.jit(lambda x, n: x * len(n), static_argnums=1)
        self.fails(TypeError, "static arguments must be hashable: argument 'n' is a list", f, 1.0, [1])
        self.fails(TypeError, "hashable", hop.jit(lambda x, n: x, static_argnames="n"), 1.0, n={})
        self.assertEqual(f(2.0, (1, 2)).item(), 4)
        self.fails(TypeError, "numbers of arguments", hop.jit, lambda x: x, static_argnums="x")
        self.fails(
            TypeError,
            "hashable: argument 'n' is an array of type f32[2]; an array is an ordinary argument",
            f,
            1.0,
            hop.ones(2),
        )
        # inside of another program, too
        self.fails(TypeError, "hashable: argument 'n' is a list", hop.jit(lambda x: f(x, [1])), 1.0)

    def test_arguments_that_are_not_there(self):
        def f(x, mode="a", *, flag=False):
            return x

        class Model:
            def method(self, x, depth):
                return x

            def __call__(self, x, width):
                return x

        for given, text in (
            (
                {"static_argnames": "mod"},
                "jit: static_argnames: there is no argument 'mod': f has x, mode, flag; did you mean 'mode'?",
            ),
            ({"static_argnames": ("mode", "flags")}, "no argument 'flags'"),
            ({"static_argnames": ["zzz"]}, "no argument 'zzz': f has x, mode, flag"),
            (
                {"static_argnums": 2},
                (
                    "jit: static_argnums: there is no argument 2: "
                    "f has 2 that can be given by position (x, mode)"
                ),
            ),
            ({"static_argnums": (0, -3)}, "no argument -3"),
            ({"donate_argnums": 5}, "jit: donate_argnums: there is no argument 5"),
            ({"static_argnums": 0, "donate_argnums": 0}, "argument 0 is static"),
            ({"static_argnums": 1.0}, "numbers of arguments, found 1.0"),
            ({"static_argnums": True}, "numbers of arguments, found True"),
            ({"static_argnums": None}, "found None"),
            ({"donate_argnums": "x"}, "found 'x'"),
            ({"static_argnames": 3}, "names of arguments, found 3"),
            ({"static_argnames": [3]}, "names of arguments"),
            ({"static_argnames": None}, "names of arguments, found None"),
            ({"static_argnums": 2**70}, "static_argnums"),
            ({"strict": "yes"}, "jit: strict: expected True or False"),
            ({"threads": -1}, "jit: threads: expected a number of threads"),
            ({"threads": 1.5}, "jit: threads"),
            ({"portable": None}, "jit: portable"),
        ):  # fmt: skip
            said = self.fails(hop.InvalidError, text, hop.jit, f, **given)
            self.assertTrue(said.startswith(__file__), said)
        model = Model()
        for fun, names in ((model.method, "x, depth"), (model, "x, width")):
            self.fails(hop.InvalidError, f"has {names}", hop.jit, fun, static_argnames="self")
            self.fails(hop.InvalidError, "there is no argument 2", hop.jit, fun, static_argnums=2)
            self.equal(hop.jit(fun, static_argnums=1)(1.0, "a"), 1.0)
        several = hop.jit(lambda *xs, **named: xs[0], static_argnums=(1, 3), static_argnames="whatever")
        self.equal(several(1.0, "a", 2.0, "b", whatever="c"), 1.0)
        self.fails(
            hop.InvalidError, "static_argnums has 3, but the function was called with 2 positional arguments",
            several, 1.0, "a",
        )
        self.equal(hop.jit(f, static_argnums=1, static_argnames="flag")(1.0), 1.0)  # it has its default
        for make in (hop.grad, hop.value_and_grad, hop.jacfwd, hop.jacrev, hop.hessian):
            for bad in (2, -3, (0, 2), 2**70):
                self.fails(hop.InvalidError, f"{make.__name__}: argnums: ", make, f, bad)
            for bad in (None, "x", 1.5, True, (0, "x"), [None], {}, print):
                self.fails(
                    hop.InvalidError, f"{make.__name__}: argnums: expected numbers of arguments", make, f, bad
                )
            self.fails(hop.InvalidError, "called with 1 positional arguments", make(lambda *x: x[0], 1), 1.0)
            self.fails(hop.InvalidError, "twice", make(lambda x, y: x * y, (0, -2)), 1.0, 2.0)

    def test_axes_of_vmap(self):
        f = hop.vmap
        for bad in ("0", 1.5, (0, "x"), {"a": 1.5}, True, hop.ones(2), print):
            self.fails(hop.InvalidError, "vmap: in_axes", f, lambda x, y: x, bad)
            self.fails(hop.InvalidError, "vmap: out_axes", f, lambda x, y: x, 0, bad)
        x = hop.ones((3, 2))
        self.fails(
            ValueError,
            "vmap: out_axes: expected one number or None for an array, found (2, 3)",
            f(lambda v: v, out_axes=(2, 3)),
            x,
        )
        self.fails(
            ValueError,
            "vmap: out_axes: expected something for (*, *), found (0, 0, 0)",
            f(lambda v: (v, v), out_axes=(0, 0, 0)),
            x,
        )
        self.fails(
            ValueError,
            "vmap: in_axes[0]: expected one number or None for an array, found (0, 1)",
            f(lambda v: v, in_axes=((0, 1),)),
            x,
        )
        self.fails(
            ValueError, "vmap: out_axes has 3 for a result of type f32[2]", f(lambda v: v, out_axes=3), x
        )
        self.fails(ValueError, "vmap: out_axes", f, lambda v: v, 0, 2**70)
        for bad in (-1, "3", 1.5, [3]):
            self.fails(hop.InvalidError, "vmap: axis_size: expected a size", f, lambda v: v, 0, 0, None, bad)
        self.fails(hop.InvalidError, "axis_size= says how long the axis is, found 3", f, lambda v: v, 0, 0, 3)
        self.fails(
            hop.InvalidError,
            "vmap: spmd_axis_name is about programs on several devices",
            f,
            lambda v: v,
            spmd_axis_name="i",
        )
        self.equal(f(lambda v: (v, v[0]), out_axes=(1, 0))(x)[0], [[1, 1, 1], [1, 1, 1]])

    @needs_numpy
    def test_arrays_that_are_none(self):
        """What an array of another library says beside its elements is not dropped silently."""
        masked = numpy.ma.masked_array([1.0, 2.0], mask=[False, True])
        x = hop.ones(2)
        for use in (
            hop.asarray,
            hop.from_dlpack,
            hop.sum,
            hop.jit(lambda v: v),
            lambda m: x + m,
            lambda m: m + x,
            hop.sin,
            hop.grad(hop.sum),
            lambda m: hop.asarray([m, m]),
            lambda m: hop.scan(lambda c, v: (c + v, None), 0.0, m),
            lambda m: x.at[:].set(m),
        ):
            with self.assertRaises((TypeError, ValueError)) as caught:
                use(masked)
            self.assertIn("filled", str(caught.exception))
        self.fails(TypeError, "argument v", hop.jit(lambda v: v), masked)
        f = hop.jit(lambda v: v * 2)
        self.equal(f(numpy.array([1.0, 2.0])), [2, 4])
        self.fails(TypeError, "filled", f, masked)  # the quick way looks, too
        self.equal(hop.asarray(numpy.ma.masked_array([1.0, 2.0])), [1, 2])
        self.equal(hop.asarray(masked.filled(0.0)), [1, 0])
        self.fails(TypeError, "filled", hop.asarray, [1.0, numpy.ma.masked])
        for bad, text in (
            (numpy.array([1, None]), "Python objects"),
            (numpy.zeros(2, dtype=[("a", "f4")]), "records"),
            (numpy.array(["2020-01-01"], dtype="datetime64[D]"), "datetime64"),
            (numpy.array([1], dtype="timedelta64[s]"), "timedelta64"),
            (numpy.array(["a"]), "no numbers"),
            (numpy.zeros(2, dtype=complex), "complex"),
            (numpy.zeros(2, dtype=numpy.longdouble), "long doubles"),
            (numpy.zeros(2, dtype=">f4"), "order of other machines"),
        ):  # fmt: skip
            for use in (hop.asarray, hop.sum, lambda a: x + a, hop.jit(lambda v: v)):
                with self.assertRaises(TypeError) as caught:
                    use(bad)
                self.assertIn(text, str(caught.exception))

        class Frame:  # of a library with its own idea of arrays
            def __array__(self, dtype=None, copy=None):
                return masked

        class Nothing:
            def __array__(self, dtype=None, copy=None):
                return None

        class Sparse:
            def toarray(self):
                return numpy.ones(2)

        self.fails(TypeError, "filled", hop.asarray, Frame())
        self.fails(TypeError, "found Nothing", hop.asarray, Nothing())
        self.fails(TypeError, "x.toarray()", hop.asarray, Sparse())
        for ragged in ([[1, 2], [3]], [1, [2]], [[1], 2], [[[1]], [[1, 2]]], [[], [1]]):
            with self.assertRaises(ValueError):
                hop.asarray(ragged)
        for bad in (None, [1], "no", {}, print):
            self.fails(hop.InvalidError, "full: ", hop.full, 3, bad, dtype=hop.bool)

    def test_calls(self):
        self.fails(TypeError, "takes a function", hop.jit, 3)
        self.fails(TypeError, "positional argument", hop.jit(lambda x: x), 1.0, 2.0)
        self.fails(TypeError, "missing", hop.jit(lambda x: x))
        self.fails(TypeError, "unexpected keyword", hop.jit(lambda x: x), 1.0, z=2.0)

    def test_trees_without_end(self):
        loop = []
        loop.append(loop)
        deep = 1.0
        for _ in range(100_000):
            deep = [deep]
        for bad in (loop, deep):
            for f in (hop.jit(lambda x: x), hop.tree.leaves, hop.asarray, hop.grad(lambda x: 1.0)):
                with self.assertRaises(RecursionError):
                    f(bad)
        while isinstance(deep, list):  # taken apart by hand: freeing it at once is deep, too
            deep = deep.pop()

    def test_operands(self):
        x = hop.ones(3)
        for bad in ("text", object(), None, [1.0], 1j):
            with self.assertRaises(TypeError):
                x + bad
            with self.assertRaises(TypeError):
                bad @ x
        with self.assertRaises(OverflowError):
            hop.arange(3) + 2**70
        with self.assertRaises(OverflowError):
            hop.arange(3) + -(2**70)
        self.fails(
            hop.InvalidError, f"{__file__}:{line()}: add: shapes do not broadcast", lambda: x + hop.ones(4)
        )
        self.fails(hop.InvalidError, "matmul", lambda: hop.ones((2, 3)) @ hop.ones((2, 3)))
        self.fails(hop.InvalidError, "sum: expected an axis", lambda: x.sum(axis=1))
        self.assertFalse(x == None)  # noqa: E711
        self.assertTrue(x != "text")

    def test_sizes(self):
        for shape in ((2**40, 2**40), (2**62, 2**62), (2**63 - 1,)):
            with self.assertRaises((hop.InvalidError, MemoryError)):
                hop.zeros(shape)
        with self.assertRaises(MemoryError):
            hop.zeros((2**44,), dtype=hop.int8)
        with self.assertRaises((ValueError, OverflowError)):
            hop.zeros((2**64,))
        for shape in ("ab", 1.5, (1.5,), None, (-1,)):
            with self.assertRaises((TypeError, ValueError)):
                hop.zeros(shape)
        with self.assertRaises(ValueError):
            hop.ones(3).reshape((2, 2))

    def test_classes(self):
        for make in (
            hop.Array,
            hop.Tracer,
            lambda: object.__new__(hop.Array),
            lambda: hop.Array.__new__(hop.Tracer),
            hop._core.ArrayBase,
            hop._core.Function,
            hop._core.Executable,
        ):
            with self.assertRaises(TypeError):
                make()
        with self.assertRaises(AttributeError):
            hop.ones(1).other = 1
        with self.assertRaises((AttributeError, TypeError)):
            hop.ones(1).shape = (1, 1)

    def test_inside(self):
        """The C functions, called with nonsense."""
        x = hop.ones(3)
        for name, code in hop._core.codes.items():
            for operands in ((), (x,), (x, x), (x, x, x), (1, 2)):
                for more in (
                    (),
                    (None,),
                    ("", 5, 5),
                    ("a, b", -1, 2**40),
                    ("9999999999999999999999", 0, -1, "set"),
                    ("0", 0, 1, "nonsense"),
                ):
                    try:
                        hop._core.call(code, operands, *more)
                    except Exception as error:
                        self.assertNotIsInstance(
                            error, (SystemError, hop.InternalError), f"{name} {operands} {more}"
                        )
        for args in ((), (1,), ("a", x), (10**6, x), (0, x, x, x), (-1, x)):
            with self.assertRaises((TypeError, ValueError)):
                hop._core.op(*args)
        for make in (
            hop._core.full, hop._core.from_numbers, hop._core.progression, hop._core.from_buffer,
            hop._core.load_file, hop._core.save_file, hop._core.capture, hop._core.read, hop._core.scan,
        ):
            for args in (
                (),
                (99, (1,), 0),
                (1, 2, 3),
                ("a",),
                (None, None, None),
                (x, x, x),
                (0, (-5,), []),
                (0, (2,), [1]),
                (0, 5, 1, x),
            ):
                try:
                    make(*args)
                except Exception as error:
                    self.assertNotIsInstance(error, SystemError, f"{make} {args}")


class Structure(Mistakes):
    def test_loops(self):
        state = {"h": [hop.zeros(3), hop.zeros(2)], "n": 0}

        def longer():
            return hop.scan(lambda c, x: ({**c, "h": [hop.zeros(4), c["h"][1]]}, x), state, hop.ones(5))

        self.fails(
            hop.InvalidError,
            (
                f"{__file__}:{longer.__code__.co_firstlineno + 1}: scan: carry['h'][0]: "
                "the function gives f32[4], the loop began with f32[3]"
            ),
            longer,
        )
        self.fails(
            hop.InvalidError,
            "scan: carry['h']: the function has the structure (*, *), expected [*, *]",
            hop.scan,
            lambda c, x: ({**c, "h": tuple(c["h"])}, x),
            state,
            hop.ones(5),
        )
        self.fails(
            hop.InvalidError,
            "while_loop: carry['h'][1]",
            hop.while_loop,
            lambda c: c["n"] < 3,
            lambda c: {"h": [c["h"][0], c["h"][1][:1]], "n": c["n"] + 1},
            state,
        )
        self.fails(
            hop.InvalidError, "fori_loop: carry", hop.fori_loop, 0, 3, lambda i, c: (c, c), hop.zeros(2)
        )
        self.fails(hop.InvalidError, "a pair (carry, y)", hop.scan, lambda c, x: c, 0.0, hop.ones(2))
        self.fails(
            hop.InvalidError,
            "xs['b'] has length 4, xs['a'] has 3",
            hop.scan,
            lambda c, x: (c, None),
            0.0,
            {"a": hop.ones(3), "b": hop.ones(4)},
        )
        self.fails(
            hop.InvalidError,
            "while_loop: what the condition gives: expected bool[], found a traced value of type f32[]",
            hop.while_loop,
            lambda c: c,
            lambda c: c,
            1.0,
        )

    def test_branches(self):
        f = hop.jit(lambda p: hop.cond(p, lambda: {"a": [hop.zeros(3)]}, lambda: {"a": [hop.zeros((4, 1))]}))
        text = "cond: result['a'][0]: false_fun gives f32[4, 1], true_fun gives f32[3]"
        self.fails(hop.InvalidError, text, f, True)
        g = hop.jit(lambda p: hop.cond(p, lambda: (1.0,), lambda: 1.0))
        self.fails(hop.InvalidError, "cond: result", g, True)
        self.fails(hop.InvalidError, "hop.any or hop.all", hop.cond, hop.ones(2), lambda: 1, lambda: 2)
        self.fails(
            hop.InvalidError,
            "switch: the index: expected an integer scalar",
            hop.switch,
            hop.ones(2),
            [lambda: 1],
        )

    def test_everything_that_does_not_fit(self):
        """Every leaf and every part of the structure is named, by its path, in one message."""
        state = {
            "a": hop.zeros(3),
            "b": (hop.zeros(2), None),
            "c": hop.asarray(1),
            "d": hop.zeros(1),
            "gone": hop.zeros(1),
        }

        def body(c):
            return {"a": hop.zeros(4), "b": (None, hop.zeros(2)), "c": 1.5, "d": c["d"], "new": c["d"]}

        lines = [
            "carry['b'][0]: {0} has the structure None, expected *",
            "carry['b'][1]: {0} has the structure *, expected None",
            "carry['gone']: {0} has nothing there, expected *",
            "carry['new']: {0} has the structure *, expected nothing",
            "carry['a']: {0} gives f32[4], the loop began with f32[3]",
            "carry['c']: {0} gives f32[], the loop began with i64[]",
        ]  # fmt: skip
        loops = {
            "scan": (lambda: hop.scan(lambda c, x: (body(c), x), state, hop.ones(2)), "the function"),
            "while_loop": (lambda: hop.while_loop(lambda c: c["c"] < 3, body, state), "the body 'body'"),
            "fori_loop": (lambda: hop.fori_loop(0, 2, lambda i, c: body(c), state), "the body"),
        }  # fmt: skip
        for name, (call, whose) in loops.items():
            for run in (call, lambda: hop.jit(lambda: call())()):
                said = self.fails(
                    hop.InvalidError,
                    f"{name}: 6 things do not fit:\n  " + "\n  ".join(lines).format(whose),
                    run,
                )
                self.assertNotIn("['d']", said)

        def branch(p):
            return hop.cond(p, lambda: body(state), lambda: state)

        said = self.fails(hop.InvalidError, "cond: 5 things do not fit", hop.jit(branch), True)
        self.assertNotIn("result['a']", said)  # branches may give different sizes
        self.assertIn("result['gone']: true_fun has nothing there, expected *", said)
        self.fails(
            hop.InvalidError,
            (
                "switch: 2 things do not fit:\n"
                "  result[0]: branch 0 gives f32[], branch 1 gives i64[]\n"
                "  result[1]: branch 0 gives True, branch 1 gives 1.0"
            ),
            hop.jit(
                lambda i: hop.switch(i, [lambda: (hop.asarray(1.0), True), lambda: (hop.asarray(1), 1.0)])
            ),
            1,
        )  # fmt: skip
        self.fails(
            hop.InvalidError,
            (
                "associative_scan: 2 things do not fit:\n"
                "  elems[0]: the function gives f64[] for two slices f32[]\n"
                "  elems[1]: the function gives f32[2] for two slices f32[]"
            ),
            hop.associative_scan,
            lambda a, b: (a[0].astype(hop.float64), hop.ones(2)),
            (hop.ones(3), hop.ones(3)),
        )  # fmt: skip
        many = [hop.zeros(1)] * 30
        said = self.fails(
            hop.InvalidError,
            "scan: 30 things do not fit",
            hop.scan,
            lambda c, x: ([v[0] for v in c], x),
            many,
            hop.ones(2),
        )
        self.assertIn("carry[19]: ", said)
        self.assertNotIn("carry[20]", said)
        self.assertTrue(said.endswith("\n  and 10 more"), said)

    def test_static_parts(self):
        @hop.tree.register
        @dataclasses.dataclass
        class State:
            h: hop.Array
            mode: str = dataclasses.field(default="a", metadata={"static": True})

        said = self.fails(
            hop.InvalidError,
            "scan: 2 things do not fit",
            hop.scan,
            lambda c, x: (State(c.h.astype(hop.float64), "b"), x),
            State(hop.zeros(2)),
            hop.ones(2),
        )
        self.assertIn(
            "carry: the function has the structure State(*) with ('b',), expected State(*) with ('a',)", said
        )
        self.assertIn("carry.h: the function gives f64[2], the loop began with f32[2]", said)
        self.fails(
            hop.InvalidError,
            "carry: the function has the structure OrderedDict(*, *), expected {'a': *, 'b': *}",
            hop.scan,
            lambda c, x: (collections.OrderedDict(c), x),
            {"a": 1.0, "b": 2.0},
            hop.ones(2),
        )

    def test_truth_is_no_number(self):
        for call in (
            lambda: hop.scan(lambda c, x: (True, x), hop.asarray(1.0), hop.ones(2)),
            lambda: hop.while_loop(lambda c: c < 3, lambda c: True, hop.asarray(1.0)),
            lambda: hop.fori_loop(0, 2, lambda i, c: False, 1.0),
            lambda: hop.fori_loop(0, 2, lambda i, c: c + 1, True),
            lambda: hop.scan(lambda c, x: (1.5, x), False, hop.ones(2)),
            lambda: hop.scan(lambda c, x: (True, x), 3, hop.ones(2)),
        ):  # fmt: skip
            said = self.fails(hop.InvalidError, "carry: ", call)
            self.assertIn("bool[]", said)
        self.fails(
            hop.InvalidError,
            "cond: result: false_fun gives f32[], true_fun gives bool[]",
            hop.jit(lambda p: hop.cond(p, lambda: True, lambda: hop.asarray(1.0))),
            True,
        )
        self.equal(hop.scan(lambda c, x: (True, x), False, hop.ones(2))[0], True, hop.bool)

    def test_transforms(self):
        self.fails(hop.InvalidError, "argument 0['w'] has dtype int64", hop.grad(lambda p: 1.0), {"w": 1})
        self.fails(hop.InvalidError, "one float scalar, it gives f32[3]", hop.grad(lambda x: x), hop.ones(3))
        self.fails(
            hop.InvalidError, "cotangent", hop.vjp(lambda x: {"a": x}, hop.ones(3))[1], {"a": hop.ones(4)}
        )
        self.fails(hop.InvalidError, "tangents", hop.jvp, lambda x: x, ({"a": 1.0},), ({"b": 1.0},))
        self.fails(
            hop.InvalidError,
            "argument 1 has size 4 along axis 0, argument 0 has 3",
            hop.vmap(lambda a, b: a),
            hop.ones(3),
            hop.ones(4),
        )
        self.fails(
            ValueError, "in_axes", hop.vmap(lambda a, b: a, in_axes=(0, {"x": 0})), hop.ones(3), hop.ones(3)
        )
        self.fails(ValueError, "structure at ['a']", hop.tree.map, lambda a, b: a, {"a": [1]}, {"a": (1,)})


class Predicates(Mistakes):
    """What decides must be a number: Python's truth of anything else says nothing."""

    BAD = (
        [],
        [True],
        (),
        (1,),
        None,
        {},
        {"a": 1},
        "",
        "True",
        b"x",
        print,
        lambda c: True,
        object(),
        {1},
        bool,
        1j,
    )

    def test_cond(self):
        for bad in (*self.BAD, hop.ones(0), hop.ones(2) > 0):
            for run in (
                lambda: hop.cond(bad, lambda: 1, lambda: 2),
                lambda: hop.jit(lambda: hop.cond(bad, lambda: 1, lambda: 2))(),
            ):
                said = self.fails(hop.InvalidError, "cond: the predicate: expected a bool scalar", run)
                self.assertIn("found ", said)
                self.assertTrue(said.startswith(__file__), said)
        for good, chosen in (
            (True, 1),
            (False, 2),
            (3, 1),
            (0, 2),
            (0.5, 1),
            (0.0, 2),
            (float("nan"), 1),
            (hop.asarray(2), 1),
            (hop.asarray(0.0), 2),
        ):
            self.assertEqual(hop.cond(good, lambda: 1, lambda: 2), chosen)
            self.equal(hop.jit(lambda p: hop.cond(p, lambda: 1, lambda: 2))(good), chosen)
        if numpy is not None:
            self.assertEqual(hop.cond(numpy.bool_(False), lambda: 1, lambda: 2), 2)
            self.assertEqual(hop.cond(numpy.array(3), lambda: 1, lambda: 2), 1)
            self.fails(
                hop.InvalidError,
                "found an array of type bool[2]",
                hop.cond,
                numpy.array([True, False]),
                lambda: 1,
                lambda: 2,
            )
        for bad in (None, 3, "f", [print]):
            self.fails(hop.InvalidError, "cond: true_fun: expected a function", hop.cond, True, bad, print)

    def test_while(self):
        for bad in (*self.BAD, 1, 0, 1.5, [True, False]):
            self.fails(
                hop.InvalidError,
                "while_loop: what the condition gives: expected bool[], found ",
                hop.while_loop,
                lambda c: bad,
                lambda c: c,
                1.0,
            )
        self.equal(hop.while_loop(lambda c: False, lambda c: c + 1, 1.0), 1.0)
        self.equal(hop.while_loop(lambda c: hop.asarray(False), lambda c: c + 1, 1.0), 1.0)
        for bad in (-1, 1.5, "3", [3], None, 2**70, True):
            if bad is not None:
                self.fails(
                    hop.InvalidError,
                    "while_loop: max_trips: expected a size",
                    hop.while_loop,
                    lambda c: c < 2,
                    lambda c: c + 1,
                    1.0,
                    max_trips=bad,
                )
        f = hop.jit(lambda n: hop.while_loop(lambda c: c < 4, lambda c: c + 1, 1.0, max_trips=n))
        self.equal(f(3), 4.0)
        self.fails(hop.CheckError, "within max_trips (2)", f, 2)

    def test_endless(self):
        """A condition that is always true is refused, unless something may end the loop."""
        for always in (
            lambda c: True,
            lambda c: hop.asarray(True),
            lambda c: hop.full((), True),
            lambda c: hop.all(hop.ones(3) > 0),
            lambda c: ~hop.full((), False),
        ):
            for run in (
                lambda: hop.while_loop(always, lambda c: c * 2, 1.0),
                lambda: hop.jit(lambda x: hop.while_loop(always, lambda c: c * 2, x))(1.0),
                lambda: hop.grad(lambda x: hop.while_loop(always, lambda c: c * 2, x))(1.0),
            ):
                said = self.fails(hop.InvalidError, "while_loop: the predicate is always true", run)
                self.assertIn(f"{__file__}:", said)
            with self.assertRaises(hop.CheckError):
                hop.while_loop(always, lambda c: c * 2, 1.0, max_trips=5)

        def checked(c):
            hop.check(c < 10.0, "far enough")
            return c * 2

        self.fails(hop.CheckError, "far enough", hop.while_loop, lambda c: True, checked, 1.0)
        seen = []

        def watched(c):
            def stop(v):
                seen.append(v.item())
                if len(seen) == 3:
                    raise KeyError("enough")

            hop.debug_callback(stop, c)
            return c + 1

        self.fails(KeyError, "enough", hop.while_loop, lambda c: True, watched, 1.0)
        self.assertEqual(seen, [1.0, 2.0, 3.0])
        # a loop that is not entered, whose condition only the passes know to be true
        f = hop.jit(
            lambda p, x: hop.cond(
                p,
                lambda: hop.while_loop(lambda c: (c[1] < 5) | True, lambda c: (c[0] + 1, c[1]), (x, 1))[0],
                lambda: x,
            )
        )
        self.equal(f(False, 2.0), 2.0)
        self.equal(hop.vmap(f)(hop.asarray([False, False]), hop.asarray([2.0, 3.0])), [2, 3])

    def test_switch(self):
        for bad in (*self.BAD, 1.5, 0.0, True, hop.ones(()), hop.asarray(True), hop.ones(2), hop.arange(2)):
            for run in (
                lambda: hop.switch(bad, [lambda: 1, lambda: 2]),
                lambda: hop.jit(lambda: hop.switch(bad, [lambda: 1, lambda: 2]))(),
            ):
                self.fails(hop.InvalidError, "switch: the index: expected an integer scalar, found ", run)
        self.assertEqual(hop.switch(2**70, [lambda: 1, lambda: 2]), 2)
        for bad in (None, 3, print, "ab", {}):
            self.fails(hop.InvalidError, "switch: branches: expected a list of functions", hop.switch, 0, bad)
        self.fails(
            hop.InvalidError, "switch: branches[1]: expected a function, found 3", hop.switch, 0, [print, 3]
        )

    def test_numbers_of_steps(self):
        for bad in (*self.BAD, True, hop.ones(1), hop.arange(2), 2**70):
            self.fails(
                hop.InvalidError,
                "fori_loop: upper: expected an integer scalar, found ",
                hop.fori_loop,
                0,
                bad,
                lambda i, c: c,
                1.0,
            )
            self.fails(
                hop.InvalidError,
                "fori_loop: lower: expected an integer scalar, found ",
                hop.fori_loop,
                bad,
                3,
                lambda i, c: c,
                1.0,
            )
        for bad in (float("nan"), float("inf"), -float("inf"), 1e300):
            self.fails(
                hop.InvalidError,
                "fori_loop: upper: expected a number of steps that can be counted",
                hop.fori_loop,
                0,
                bad,
                lambda i, c: c,
                1.0,
            )
        for bad in ([], "3", 1.5, -1, {}, print, hop.ones(2), 2**70, True):
            self.fails(
                hop.InvalidError,
                "scan: length: expected a number of steps, found ",
                hop.scan,
                lambda c, x: (c, x),
                1.0,
                None,
                bad,
            )
        self.equal(hop.jit(lambda n: hop.scan(lambda c, x: (c + n, x), 1, length=n)[0])(3), 10)
        self.equal(hop.scan(lambda c, x: (c + 1, x), 1.0, length=hop.asarray(3))[0], 4.0)
        for bad in (1, -2, 5, 1.5, None, "0", 2**70):
            self.fails(
                hop.InvalidError,
                "associative_scan: axis: expected an axis of f32[3], found",
                hop.associative_scan,
                lambda a, b: a,
                hop.ones(3),
                axis=bad,
            )
        for call, what in (
            (lambda b: hop.scan(lambda c, x: (c, x), 1.0, hop.ones(2), reverse=b), "scan: reverse"),
            (lambda b: hop.map(lambda x: x, hop.ones(2), sequential=b), "map: sequential"),
        ):
            for bad in (None, "yes", [], 2, hop.ones(2)):
                self.fails(hop.InvalidError, f"{what}: expected True or False", call, bad)


class Traced(Mistakes):
    def test_truth(self):
        def f(x):
            if x > 0:
                return x
            return -x

        at = f"{__file__}:{f.__code__.co_firstlineno + 1}: "
        wide = "hop.any or hop.all makes one of it"
        self.assertIn(wide, self.fails(hop.TracerError, at, hop.jit(f), hop.ones(2)))
        for fun, x in ((f, 1.0), (f, hop.ones(2)), (hop.grad(f), 1.0), (hop.vmap(f), hop.ones(2))):
            said = self.fails(hop.TracerError, at, hop.jit(fun, control=False), x)
            for advice in ("hop.cond", "hop.where", "hop.while_loop", "&, |, ~", "static"):
                self.assertIn(advice, said)

    def test_numbers(self):
        x = hop.asarray(2)
        for use, advice in (
            (int, "astype"),
            (float, "astype"),
            (range, "hop.fori_loop"),
            (lambda v: [1, 2, 3][v], "x[i]"),
            (lambda v: v.item(), "known while"),
            (lambda v: v.tolist(), "hop.print"),
            (bytes, ""),
        ):
            with self.assertRaises(TypeError) as caught:
                hop.jit(lambda v: use(v), control=False)(x)
            self.assertIn(advice, str(caught.exception))
        for use in (pickle.dumps, memoryview, hop.from_dlpack, lambda v: hop.save("/nowhere/x.npy", v)):
            with self.assertRaises((hop.TracerError, BufferError)):
                hop.jit(lambda v: use(v))(x)
        self.assertEqual(hop.jit(lambda v: (repr(v), f"{v:.2f}", str([v])) and v)(1.0).item(), 1)

    @needs_numpy
    def test_numpy_functions(self):
        said = self.fails(hop.TracerError, f"{__file__}:{line()}: ", hop.jit(lambda x: numpy.sin(x)), 1.0)
        self.assertIn("use hop's functions instead of NumPy's", said)
        self.fails(hop.TracerError, "NumPy", hop.jit(lambda x: numpy.ones(3) + numpy.asarray(x)), 1.0)

    def test_leaks(self):
        way = queue.SimpleQueue()  # of which nobody knows what is inside
        made = line() + 1
        hop.jit(lambda x: way.put(x * 2) or x)(1.0)
        kept = [way.get()]
        used = f"{__file__}:{line() + 1}: a traced value that was made at {__file__}:{made} is used after"
        self.fails(hop.TracerError, used, lambda: kept[0] + 1)
        for use in (
            lambda: hop.jit(lambda x: x + kept[0])(1.0),
            lambda: hop.jit(lambda: kept[0])(),
            lambda: hop.scan(lambda c, x: (c + kept[0], x), 0.0, hop.ones(2)),
            lambda: kept[0][None],
            lambda: hop.sum(kept[0]),
        ):
            self.fails(hop.TracerError, f"made at {__file__}:{made}", use)
        self.fails(hop.TracerError, f"{__file__}:{made}", lambda: kept[0].item())
        self.assertEqual(repr(kept[0]), "Tracer<f32[]>")

        def inner(c, x):
            way.put(c * 3)
            return c, x

        self.fails(
            hop.InvalidError,
            f"made at {__file__}:{inner.__code__.co_firstlineno + 1} inside the step of scan",
            hop.jit(lambda x: hop.scan(inner, x, hop.ones(3))[0] + way.get()),
            1.0,
        )

    def test_writing_to_arrays_from_outside(self):
        x = hop.zeros(3)

        def f(v):
            x[0] = v
            return v

        said = self.fails(
            hop.WriteError, f"{__file__}:{f.__code__.co_firstlineno + 1}: x[…] = …: x", hop.grad(f), 1.0
        )
        self.assertIn("give it as an argument", said)
        self.equal(x, [0, 0, 0])

    def test_exceptions_of_bodies(self):
        class Mine(Exception):
            pass

        def body(*_):
            raise Mine("here")

        x = hop.ones(3)
        calls = [
            lambda: hop.jit(body)(x),
            lambda: hop.grad(body)(x),
            lambda: hop.vmap(body)(x),
            lambda: hop.scan(body, 0.0, x),
            lambda: hop.while_loop(lambda c: c < 1.0, body, 0.0),
            lambda: hop.while_loop(body, lambda c: c, 0.0),
            lambda: hop.fori_loop(0, 3, body, 0.0),
            lambda: hop.map(body, x),
            lambda: hop.associative_scan(body, x),
            lambda: hop.cond(True, body, body),
            lambda: hop.jit(lambda p: hop.cond(p, body, body))(True),
            lambda: hop.jit(lambda i: hop.switch(i, [body, body]))(1),
            lambda: hop.vjp(body, x),
            lambda: hop.jvp(body, (x,), (x,)),
            lambda: hop.hessian(body)(x),
            lambda: hop.grad(lambda v: hop.sum(hop.scan(lambda c, y: (hop.vmap(body)(v), y), 0.0, v)[0]))(x),
        ]  # fmt: skip
        for call in calls:
            try:
                call()
                self.fail("nothing was raised")
            except Mine as error:
                self.assertEqual([f.name for f in traceback.extract_tb(error.__traceback__)][-1], "body")
            self.assertFalse(hop._core.tracing())
        self.equal(hop.jit(lambda v: hop.scan(lambda c, y: (c + y, c), 0.0, v)[1])(x), [0, 1, 2])

    def test_a_body_that_catches(self):
        """A failed operator, or a failed loop, leaves the capture around it as it was."""

        def f(x):
            for bad in (
                lambda: x + hop.ones(7),
                lambda: hop.scan(lambda c, v: 1 / 0, 0.0, x),
                lambda: hop.vmap(lambda v: v.nothing)(x),
                lambda: x[99],
                lambda: x.reshape((5,)),
                lambda: x.nothing,
            ):
                try:
                    bad()
                except Exception:
                    pass
            return x * 2

        self.equal(hop.jit(f)(hop.ones(2)), [2, 2])
        self.equal(hop.grad(lambda x: hop.sum(f(x)))(hop.ones(2)), [2, 2])

    def test_a_body_that_catches_what_only_a_run_knows(self):
        """Code that asked a traced value for its elements and went on without them would be captured with
        a way that nobody chose: the capture ends with that exception."""
        uses = [
            bool,
            int,
            float,
            complex,
            lambda v: v.item(),
            lambda v: v.tolist(),
            lambda v: [1, 2, 3][v.astype(hop.int64)],
            lambda v: 1 in v.reshape((1,)),
            memoryview,
            lambda v: list(hop.nonzero(v.reshape((1,)))[0]),
            lambda v: len(hop.nonzero(v.reshape((1,)))[0]),
            lambda v: hop.arange(v),
            lambda v: v and 1,
            lambda v: hop.zeros(v.astype(hop.int64)),
        ]  # fmt: skip
        if numpy is not None:
            uses += [numpy.asarray, numpy.sin]
        for use in uses:

            def f(x):
                try:
                    return x * 2 if use(x) else x
                except Exception:
                    return x * 3

            asked = f"{__file__}:"
            for transform in (
                hop.jit(f, control=False),
                hop.jit(hop.grad(f), control=False),
                hop.jit(lambda v: hop.scan(lambda c, x: (f(c), x), v, hop.ones(2)), control=False),
            ):
                said = self.fails(hop.TracerError, asked, transform, hop.asarray(1.0))
                self.assertNotIn("hop/_", said)
            self.assertFalse(hop._core.tracing())
            try:
                given = hop.jit(f)(hop.asarray(1.0))
            except hop.TracerError as error:
                self.assertIn(asked, str(error))
            else:  # as operators it has the way that Python would choose
                self.equal(given, f(hop.asarray(1.0)))

        def first(x):
            for use in (bool, int):
                try:
                    use(x)
                except TypeError:
                    pass
            return x

        at = first.__code__.co_firstlineno + 3
        try:
            hop.jit(first, control=False)(1.0)
            self.fail("nothing was raised")
        except hop.TracerError as error:
            self.assertTrue(str(error).startswith(f"{__file__}:{at}: a traced value has no truth"), error)
            self.assertIn("first", [f.name for f in traceback.extract_tb(error.__traceback__)])

        def outer(x):  # caught around another capture: the one around it knows as much
            try:
                return hop.vmap(lambda v: v if v > 0 else -v)(x)
            except hop.TracerError:
                return x

        self.fails(hop.TracerError, "has no truth", hop.jit(outer, control=False), hop.ones(2))
        self.equal(outer(hop.asarray([1.0, -2.0])), [1, 2])  # nothing is captured around it
        self.equal(hop.jit(outer)(hop.asarray([1.0, -2.0])), [1, 2])

        def other(x):  # an exception of the user's that comes later goes first
            try:
                bool(x)
            except TypeError:
                raise KeyError("mine") from None

        self.fails(KeyError, "mine", hop.jit(other, control=False), 1.0)
        self.equal(hop.jit(lambda v: v * 2)(hop.ones(2)), [2, 2])

    def test_asking_around(self):
        """What libraries, debuggers and printing ask of any object does no harm."""

        def f(x):
            for name in dir(x):
                try:
                    getattr(x, name)
                except Exception:
                    pass
            probes = [
                repr,
                str,
                lambda v: f"{v} {v:.3f} {v!r}",
                lambda v: v == None,  # noqa: E711
                lambda v: v != "text",
                lambda v: isinstance(v, hop.Tracer),
                lambda v: hasattr(v, "__array_interface__"),
                copy.copy,
                copy.deepcopy,
                pickle.dumps,
                lambda v: v is None,
                hash,
                callable,
                lambda v: len(v),
                lambda v: v.shape,
                lambda v: v.no_such_name,
                lambda v: iter(v),
                lambda v: [v] + [1],
                id,
                type,
                vars,
                lambda v: inspect.getmembers(v),
                weakref.ref,
                lambda v: v @ hop.ones((9, 9)),
                lambda v: getattr(v, "__cuda_array_interface__", None),
                lambda v: traceback.format_exc(),
            ]  # fmt: skip
            for probe in probes:
                try:
                    probe(x)
                except Exception:
                    pass
            if numpy is not None:
                numpy.shape(x), numpy.ndim(x), numpy.isscalar(x), numpy.ones(2) + x
            return x * 2

        self.equal(hop.jit(f)(hop.ones(2)), [2, 2])

    def test_checks(self):
        f = hop.jit(lambda x: (hop.check(hop.all(x > 0), "must be positive"), x)[1])
        said = self.fails(hop.CheckError, "must be positive", f, hop.zeros(2))
        self.assertIn(__file__, said)
        self.equal(f(hop.ones(2)), [1, 1])


def without(path, library):
    """A shared object that needs a library that nobody has."""
    with open(path, "rb") as file:
        return file.read().replace(library, library[:3] + b"XXX" + library[6:])


class Warned(Case):
    def test_no_compiler(self):
        import os
        import shutil
        import subprocess
        import sys
        import tempfile

        package = os.path.dirname(hop.__file__)
        program = (
            "import hop\n"
            "f = hop.jit(lambda x: hop.sum(hop.sin(x) * x))\n"
            "print(f(hop.ones(3)).item(), f(hop.ones(4)).item(), hop.grad(f)(hop.ones(2)).shape)\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(
                package,
                os.path.join(folder, "hop"),
                ignore=shutil.ignore_patterns("libhop_llvm.so", "__pycache__"),
            )

            def run():
                return subprocess.run(
                    [sys.executable, "-c", program],
                    env={**os.environ, "PYTHONPATH": folder, "HOP_CACHE": "off"},
                    capture_output=True,
                    text=True,
                    timeout=60,
                )

            back_end, extension = (
                os.path.join(folder, "hop", name) for name in ("libhop_llvm.so", "_core.abi3.so")
            )
            for content, names in (
                (None, "libhop_llvm.so"),
                (b"no library", "libhop_llvm.so"),
                (without(os.path.join(package, "libhop_llvm.so"), b"libLLVM"), "libXXXM"),
            ):
                if content:
                    with open(back_end, "wb") as out:
                        out.write(content)
                done = run()
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(
                    done.stderr.count("RuntimeWarning: hop runs programs without compiling them"),
                    1,
                    done.stderr,
                )
                self.assertIn(names, done.stderr)
                self.assertAlmostEqual(float(done.stdout.split()[0]), 3 * 0.8414709848, places=5)
            changed = without(extension, b"libz.so")
            with open(extension, "wb") as out:
                out.write(changed)
            done = run()
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, r"ImportError: .*XXX.*zlib1g")

    def test_nothing_to_warn_of(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            hop.jit(lambda x: x + 1)(hop.ones(17))


if __name__ == "__main__":
    unittest.main()
