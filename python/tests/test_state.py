"""jit and state that changes between calls: what the function reads from closures, globals, objects,
containers, defaults and helpers. Each test computes what to expect by itself. Random state is in
test_state_random.py."""

import dataclasses
import functools
import math
import types
import unittest

import hop
from support import Case, counted_captures, needs_numpy, numpy

ONE = hop.ones(1)
SCALE = 2.0
SETTINGS = {"k": 2.0, "other": 0.0}
WEIGHTS = hop.asarray([1.0, 2.0])


def scaled(x):
    return x * SCALE


def through(x):
    return scaled(x) + 0.0


class Model:
    factor = 3.0

    def __init__(self):
        self.w, self.log, self.layers = 2.0, [], [2.0, 3.0]

    def f(self, x):
        return x * self.w

    def deep(self, x):
        for layer in self.layers:
            x = x * layer
        return x

    @property
    def twice(self):
        return self.w * 2

    def __getattr__(self, name):
        if name == "missing":
            return self.w
        raise AttributeError(name)


class Watched(Case):
    def value(self, f, *args):
        return f(*(args or (ONE,)))[0].item()

    def captures(self, f, *args):
        """(first element of the result, number of captures) of a call."""
        with counted_captures() as lines:
            value = self.value(f, *args)
        return value, len(lines)


class Arrays(Watched):
    """Arrays are read at every call, wherever they were found."""

    def test_assigned_in_place(self):
        a = hop.asarray([1.0, 2.0])
        f = hop.jit(lambda x: x + a[0])
        self.assertEqual(self.captures(f), (2.0, 1))
        a[0] = 5.0
        self.assertEqual(self.captures(f), (6.0, 0))
        a[:] = 7.0
        self.assertEqual(self.captures(f), (8.0, 0))

    def test_rebound(self):
        a = hop.asarray([1.0])
        f = hop.jit(lambda x: x + a)
        self.assertEqual(self.captures(f), (2.0, 1))
        a = hop.asarray([3.0])
        self.assertEqual(self.captures(f), (4.0, 0))
        a = hop.asarray([3])
        self.assertEqual(f(ONE).dtype, hop.float32)
        a = hop.asarray([1.0, 2.0])
        self.equal(f(ONE), [2.0, 3.0])
        a = 9.0
        self.assertEqual(self.value(f), 10.0)
        a = hop.asarray([1.5])
        self.assertEqual(self.value(f), 2.5)

    def test_in_containers_and_objects(self):
        class Holder:
            pass

        holder = Holder()
        holder.arrays = {"a": [hop.asarray([1.0]), hop.asarray([2.0])]}
        precise = hop.jit(lambda x: x + holder.arrays["a"][1])
        every = hop.jit(lambda x: functools.reduce(lambda s, a: s + a, holder.arrays["a"], x))
        self.assertEqual((self.value(precise), self.value(every)), (3.0, 4.0))
        holder.arrays["a"][1][0] = 10.0
        self.assertEqual((self.captures(precise), self.captures(every)), ((11.0, 0), (12.0, 0)))
        holder.arrays["a"][1] = hop.asarray([20.0])
        self.assertEqual((self.captures(precise), self.value(every)), ((21.0, 0), 22.0))
        holder.arrays["a"].append(hop.asarray([100.0]))
        self.assertEqual((self.captures(precise), self.value(every)), ((21.0, 0), 122.0))

    def test_global(self):
        global WEIGHTS
        f = hop.jit(lambda x: x * WEIGHTS[1])
        self.assertEqual(self.value(f), 2.0)
        before = WEIGHTS
        try:
            WEIGHTS = hop.asarray([1.0, 6.0])
            self.assertEqual(self.captures(f), (6.0, 0))
        finally:
            WEIGHTS = before
        self.assertEqual(self.captures(f), (2.0, 0))

    def test_in_bodies_and_derivatives(self):
        a = hop.asarray([2.0])
        functions = [
            (hop.jit(lambda x: hop.grad(lambda q: hop.sum(q * q * a))(x)), lambda v: 2 * v),
            (hop.jit(hop.grad(lambda x: hop.sum(x * x * a))), lambda v: 2 * v),
            (hop.jit(lambda x: hop.vmap(lambda q: q * a[0])(x)), lambda v: v),
            (hop.jit(hop.vmap(lambda q: q * a[0])), lambda v: v),
            (hop.jit(lambda x: hop.scan(lambda c, q: (c * a, None), x, hop.ones(2))[0]), lambda v: v * v),
            (hop.jit(lambda x: hop.cond(x[0] > 0, lambda q: q * a, lambda q: q - a, x)), lambda v: v),
            (hop.jit(lambda x: hop.while_loop(lambda c: c[0] < 100.0, lambda c: c * 4.0 + a, x)),
             lambda v: functools.reduce(lambda c, _: c * 4 + v if c < 100 else c, range(9), 1.0)),
        ]  # fmt: skip
        for value in (2.0, 3.0, 2.0):
            a[0] = value
            for i, (f, expected) in enumerate(functions):
                with self.subTest(value=value, function=i):
                    self.assertEqual(self.value(f), expected(value))

    @needs_numpy
    def test_numpy(self):
        a = numpy.array([1.0, 2.0], dtype="float32")
        f = hop.jit(lambda x: x + hop.sum(hop.asarray(a)))
        g = hop.jit(lambda x: x * a)
        # consumed by NumPy: its content is part of the program
        h = hop.jit(lambda x: x * float(numpy.sum(a)))
        self.assertEqual([self.value(k) for k in (f, g, h)], [4.0, 1.0, 3.0])
        a[0] = 5.0
        self.assertEqual((self.captures(f), self.captures(g)), ((8.0, 0), (5.0, 0)))
        self.assertEqual(self.value(h), 7.0)
        a[0] = 1.0
        self.assertEqual([self.captures(k) for k in (f, g, h)], [(4.0, 0), (1.0, 0), (3.0, 0)])
        a = numpy.array([1.0, 2.0, 3.0])
        self.assertEqual([self.value(k) for k in (f, g, h)], [7.0, 1.0, 6.0])
        self.assertEqual(g(ONE).dtype, (ONE * a).dtype)


class Values(Watched):
    """Everything else is a guard: a difference captures again, and what was there is kept."""

    def test_cell(self):
        k = 2.0
        f = hop.jit(lambda x: x * k)
        self.assertEqual(self.captures(f), (2.0, 1))
        k = 3.0
        self.assertEqual(self.captures(f), (3.0, 1))
        k = 2.0
        self.assertEqual(self.captures(f), (2.0, 0))
        k = 3
        self.assertEqual(f(hop.asarray([1])).dtype, hop.int64)
        k = 3.0
        self.assertEqual(f(hop.asarray([1])).dtype, hop.float32)

    def test_unset_cell(self):
        def make():
            f = hop.jit(lambda x: x * k)
            with self.assertRaises(NameError):
                f(ONE)
            k = 4.0
            return f

        self.assertEqual(self.value(make()), 4.0)

    def test_global_of_a_helper(self):
        global SCALE
        f = hop.jit(lambda x: through(x))
        self.assertEqual(self.captures(f), (2.0, 1))
        try:
            SCALE = 7.0
            self.assertEqual(self.captures(f), (7.0, 1))
        finally:
            SCALE = 2.0
        self.assertEqual(self.captures(f), (2.0, 0))

    def test_replaced_helper(self):
        global scaled
        f = hop.jit(lambda x: through(x))
        self.assertEqual(self.value(f), 2.0)
        before = scaled
        try:
            scaled = lambda x: x - 5.0  # noqa: E731
            self.assertEqual(self.value(f), -4.0)
        finally:
            scaled = before
        self.assertEqual(self.captures(f), (2.0, 0))

    def test_global_that_appears_and_goes(self):
        space = {}
        text = """
def g(x):
    try:
        return x * later
    except NameError:
        return x
"""
        exec(text, space)
        g = hop.jit(space["g"])
        self.assertEqual(self.value(g), 1.0)
        space["later"] = 5.0
        self.assertEqual(self.value(g), 5.0)
        del space["later"]
        self.assertEqual(self.value(g), 1.0)

    def test_builtin_that_is_shadowed(self):
        space = {}
        exec("def f(x):\n    return x * max([1.0, 2.0])\n", space)
        f = hop.jit(space["f"])
        self.assertEqual(self.value(f), 2.0)
        space["max"] = min
        self.assertEqual(self.value(f), 1.0)
        del space["max"]
        self.assertEqual(self.value(f), 2.0)

    def test_dict_entry(self):
        f = hop.jit(lambda x: x * SETTINGS["k"])
        self.assertEqual(self.captures(f), (2.0, 1))
        try:
            SETTINGS["k"] = 14.0
            self.assertEqual(self.captures(f), (14.0, 1))
            SETTINGS["other"] = 1.0
            self.assertEqual(self.captures(f), (14.0, 0))
        finally:
            SETTINGS.update(k=2.0, other=0.0)
        self.assertEqual(self.captures(f), (2.0, 0))

    def test_made_twice_from_the_same_code(self):
        config = {"k": 2.0}

        def make():
            return hop.jit(lambda x: x * config["k"])

        self.assertEqual(self.value(make()), 2.0)
        config["k"] = 14.0
        self.assertEqual(self.value(make()), 14.0)
        config["k"] = 2.0
        self.assertEqual(self.captures(make()), (2.0, 0))

    def test_made_twice_with_other_state(self):
        def make(config):
            return hop.jit(lambda x: x * config["k"] + config["a"])

        functions = [make({"k": float(i), "a": hop.asarray([10.0 * i])}) for i in range(4)]
        self.assertEqual([self.value(f) for f in functions * 2], [0.0, 11.0, 22.0, 33.0] * 2)

    def test_list_element_and_length(self):
        numbers = [2.0, 3.0]
        element = hop.jit(lambda x: x * numbers[1])
        total = hop.jit(lambda x: x * sum(numbers))
        length = hop.jit(lambda x: x * len(numbers))
        product = hop.jit(lambda x: functools.reduce(lambda a, n: a * n, numbers, x))
        every = (element, total, length, product)
        self.assertEqual([self.value(f) for f in every], [3.0, 5.0, 2.0, 6.0])
        numbers[1] = 5.0
        self.assertEqual([self.value(f) for f in every], [5.0, 7.0, 2.0, 10.0])
        numbers.append(4.0)
        self.assertEqual([self.value(f) for f in every], [5.0, 11.0, 3.0, 40.0])
        numbers[:] = [2.0, 3.0]
        self.assertEqual([self.captures(f) for f in every], [(3.0, 0), (5.0, 0), (2.0, 0), (6.0, 0)])

    def test_keys(self):
        table = {"a": 2.0}
        f = hop.jit(lambda x: x * (table["b"] if "b" in table else 10.0))
        g = hop.jit(lambda x: x * table.get("b", 10.0))
        h = hop.jit(lambda x: x * sum(v for v in table.values()))
        for step, expected in ((None, [10.0, 10.0, 2.0]), (3.0, [3.0, 3.0, 5.0]), (None, [10.0, 10.0, 2.0])):
            if step is None:
                table.pop("b", None)
            else:
                table["b"] = step
            self.assertEqual([self.value(k) for k in (f, g, h)], expected)

    def test_attribute_chain(self):
        inner = types.SimpleNamespace(c=2.0, d=1.0)
        a = types.SimpleNamespace(b=[{"k": inner}], other=0)
        f = hop.jit(lambda x: x * a.b[0]["k"].c)
        self.assertEqual(self.captures(f), (2.0, 1))
        for change in ("inner.d = 2", "a.other = 1", "a.b.append(3)", "a.b[0]['z'] = 1"):
            exec(change, {"a": a, "inner": inner})
            self.assertEqual(self.captures(f), (2.0, 0), change)
        inner.c = 3.0
        self.assertEqual(self.value(f), 3.0)
        a.b[0]["k"] = types.SimpleNamespace(c=4.0)
        self.assertEqual(self.value(f), 4.0)
        a.b[0] = {"k": types.SimpleNamespace(c=5.0)}
        self.assertEqual(self.value(f), 5.0)
        a.b = ({"k": inner},)
        self.assertEqual(self.value(f), 3.0)

    def test_module(self):
        module = types.ModuleType("state_of_a_test")
        module.k = 2.0
        exec("def g(x):\n    return x * k\n", module.__dict__)
        f = hop.jit(lambda x: module.g(x) + module.k)
        self.assertEqual(self.value(f), 4.0)
        module.k = 3.0
        self.assertEqual(self.value(f), 6.0)
        exec("def g(x):\n    return x - k\n", module.__dict__)
        self.assertEqual(self.value(f), 1.0)

    def test_defaults(self):
        def f(x, k=2.0, *, more=1.0):
            return x * k + more

        g = hop.jit(f)
        self.assertEqual(self.captures(g), (3.0, 1))
        f.__defaults__ = (5.0,)
        self.assertEqual(self.value(g), 6.0)
        f.__kwdefaults__ = {"more": 2.0}
        self.assertEqual(self.value(g), 7.0)
        f.__kwdefaults__["more"] = 3.0
        self.assertEqual(self.value(g), 8.0)
        f.__defaults__, f.__kwdefaults__ = (2.0,), {"more": 1.0}
        self.assertEqual(self.captures(g), (3.0, 0))

        table = {"k": 2.0}

        def h(x, t=table):
            return x * t["k"]

        self.assertEqual(self.value(hop.jit(lambda x: h(x))), 2.0)
        k = hop.jit(lambda x: h(x))
        self.assertEqual(self.value(k), 2.0)
        table["k"] = 8.0
        self.assertEqual(self.value(k), 8.0)

    def test_code_of_a_helper(self):
        def helper(x):
            return x * 2.0

        f = hop.jit(lambda x: helper(x))
        self.assertEqual(self.value(f), 2.0)
        before = helper.__code__
        helper.__code__ = (lambda x: x * 5.0).__code__
        self.assertEqual(self.value(f), 5.0)
        helper.__code__ = before
        self.assertEqual(self.captures(f), (2.0, 0))

    def test_partial(self):
        def helper(k, x, *, more):
            return x * k + more

        part = functools.partial(helper, 2.0, more=1.0)
        f, g = hop.jit(part), hop.jit(lambda x: part(x))
        self.assertEqual((self.value(f), self.value(g)), (3.0, 3.0))
        part.keywords["more"] = 4.0
        self.assertEqual((self.value(f), self.value(g)), (6.0, 6.0))
        part = functools.partial(helper, 3.0, more=1.0)
        self.assertEqual((self.value(f), self.value(g)), (6.0, 4.0))

    def test_functions_in_containers(self):
        chain = [lambda x: x + 1.0, lambda x: x * 3.0]
        f = hop.jit(lambda x: functools.reduce(lambda a, g: g(a), chain, x))
        self.assertEqual(self.value(f), 6.0)
        chain.reverse()
        self.assertEqual(self.value(f), 4.0)
        chain.append(lambda x: -x)
        self.assertEqual(self.value(f), -4.0)
        k = 2.0
        chain[:] = [lambda x: x * k]
        self.assertEqual(self.value(f), 2.0)
        k = 5.0
        self.assertEqual(self.value(f), 5.0)

    def test_numbers_are_told_apart(self):
        k = 0.0
        f = hop.jit(lambda x: hop.copysign(x, k))
        self.assertEqual(self.value(f), 1.0)
        k = -0.0
        self.assertEqual(self.value(f), -1.0)
        k = math.nan
        g = hop.jit(lambda x: x * k)
        self.assertTrue(math.isnan(self.value(g)))
        self.assertEqual(self.captures(g)[1], 0)
        k = 1
        h = hop.jit(lambda x: x * k if k is not True else x + 5.0)
        self.assertEqual(self.value(h), 1.0)
        k = True
        self.assertEqual(self.value(h), 6.0)

    def test_dataclass_and_slots(self):
        @dataclasses.dataclass
        class Data:
            w: float
            log: int = 0

        class Slots:
            __slots__ = ("w", "log")

        data, slots = Data(2.0), Slots()
        slots.w = 2.0
        for held in (data, slots):
            f = hop.jit(functools.partial(lambda held, x: x * held.w, held))
            self.assertEqual(self.captures(f), (2.0, 1))
            held.log = 3
            self.assertEqual(self.captures(f), (2.0, 0))
            held.w = 4.0
            self.assertEqual(self.value(f), 4.0)
            held.w = 2.0
            self.assertEqual(self.captures(f), (2.0, 0))

    def test_inner_jit(self):
        k = 2.0
        inner = hop.jit(lambda x: x * k)
        f = hop.jit(lambda x: inner(x) + 1.0)
        self.assertEqual((self.value(f), self.value(inner)), (3.0, 2.0))
        k = 5.0
        self.assertEqual((self.value(f), self.value(inner)), (6.0, 5.0))
        k = 2.0
        self.assertEqual((self.captures(f), self.captures(inner)), ((3.0, 0), (2.0, 0)))

    def test_decorated_and_wrapped(self):
        k = 2.0

        def times(function):
            @functools.wraps(function)
            def wrapper(*args, **named):
                return function(*args, **named) * k

            return wrapper

        @times
        @times
        def helper(x):
            return x + 1.0

        f, g = hop.jit(helper), hop.jit(lambda x: helper(x))
        self.assertEqual((self.value(f), self.value(g)), (8.0, 8.0))
        k = 3.0
        self.assertEqual((self.value(f), self.value(g)), (18.0, 18.0))

    def test_recursion(self):
        base = 2.0

        def power(x, n):
            return x * base if n == 0 else power(x, n - 1) * base

        f = hop.jit(lambda x: power(x, 3))
        self.assertEqual(self.value(f), 16.0)
        base = 3.0
        self.assertEqual(self.value(f), 81.0)


class Objects(Watched):
    def test_bound_self(self):
        model = Model()
        f = hop.jit(model.f)
        self.assertEqual(self.value(f), 2.0)
        model.w = 5.0
        self.assertEqual(self.value(f), 5.0)
        model.log.append(1)
        model.other = 3
        self.assertEqual(self.captures(f), (5.0, 0))
        model.w = hop.asarray([7.0])
        self.assertEqual(self.value(f), 7.0)
        model.w[0] = 8.0
        self.assertEqual(self.captures(f), (8.0, 0))
        model.w = 2.0
        self.assertEqual(self.captures(f), (2.0, 0))

    def test_two_instances(self):
        a, b = Model(), Model()
        b.w = 9.0
        f, g = hop.jit(a.f), hop.jit(b.f)
        self.assertEqual([self.value(k) for k in (f, g, f, g)], [2.0, 9.0, 2.0, 9.0])
        a.w, b.w = b.w, a.w
        self.assertEqual([self.value(k) for k in (f, g)], [9.0, 2.0])

    def test_layers(self):
        model = Model()
        f = hop.jit(model.deep)
        self.assertEqual(self.value(f), 6.0)
        model.layers.append(5.0)
        self.assertEqual(self.value(f), 30.0)
        model.layers[0] = 1.0
        self.assertEqual(self.value(f), 15.0)
        model.layers = (2.0,)
        self.assertEqual(self.value(f), 2.0)

    def test_class_attributes(self):
        class Heir(Model):
            def f(self, x):
                return super().f(x) * self.factor

        model = Heir()
        f = hop.jit(model.f)
        self.assertEqual(self.value(f), 6.0)
        Heir.factor = 4.0  # beside that of the class above
        self.assertEqual(self.value(f), 8.0)
        model.factor = 5.0
        self.assertEqual(self.value(f), 10.0)
        del model.factor
        self.assertEqual(self.captures(f), (8.0, 0))
        del Heir.factor
        self.assertEqual(self.captures(f), (6.0, 0))
        before = Model.f
        try:
            Model.f = lambda self, x: x - self.w
            self.assertEqual(self.value(f), -3.0)
        finally:
            Model.f = before
        self.assertEqual(self.value(f), 6.0)

    def test_methods_are_swapped(self):
        class Net:
            def first(self, x):
                return x * 2.0

            def second(self, x):
                return x * 3.0

            def run(self, x):
                return self.first(x)

        net = Net()
        f = hop.jit(net.run)
        self.assertEqual(self.value(f), 2.0)
        Net.first, Net.second = Net.second, Net.first
        self.assertEqual(self.value(f), 3.0)
        net.first = lambda x: x * 7.0
        self.assertEqual(self.value(f), 7.0)
        del net.first
        self.assertEqual(self.captures(f), (3.0, 0))

    def test_static_and_class_methods(self):
        class Net:
            k = 2.0

            @staticmethod
            def helper(x):
                return x * SETTINGS["k"]

            @classmethod
            def make(cls, x):
                return cls.helper(x) * cls.k

        f = hop.jit(Net.make)
        self.assertEqual(self.value(f), 4.0)
        Net.k = 3.0
        self.assertEqual(self.value(f), 6.0)
        SETTINGS["k"] = 5.0
        try:
            self.assertEqual(self.value(f), 15.0)
        finally:
            SETTINGS["k"] = 2.0

    def test_callable_object(self):
        class Net:
            def __init__(self):
                self.w = 2.0

            def __call__(self, x):
                return x * self.w

        net = Net()
        f, g = hop.jit(net), hop.jit(lambda x: net(x))
        self.assertEqual((self.value(f), self.value(g)), (2.0, 2.0))
        net.w = 6.0
        self.assertEqual((self.value(f), self.value(g)), (6.0, 6.0))

    def test_replaced_object(self):
        model = Model()
        f = hop.jit(lambda x: model.f(x))
        self.assertEqual(self.value(f), 2.0)
        model = Model()
        model.w = 4.0
        self.assertEqual(self.value(f), 4.0)

    def test_class_of_an_object(self):
        class A:
            def f(self, x):
                return x * 2.0

        class B:
            def f(self, x):
                return x * 3.0

        thing = A()
        f = hop.jit(lambda x: thing.f(x))
        self.assertEqual(self.value(f), 2.0)
        thing.__class__ = B
        self.assertEqual(self.value(f), 3.0)

    def test_guards_run_no_code_of_the_user(self):
        seen = []

        class Loud:
            def __init__(self):
                self.w = 2.0

            def __getattribute__(self, name):
                seen.append(name)
                return object.__getattribute__(self, name)

            def __eq__(self, other):
                seen.append("==")
                return True

            def __hash__(self):
                seen.append("hash")
                return 1

        loud, model = Loud(), Model()
        f = hop.jit(lambda x: x * loud.w + model.twice + model.missing)
        self.value(f)
        seen.clear()
        for _ in range(3):
            self.value(f)
        self.assertEqual(seen, [])
        self.assertIn("not watched", str(f.guards()))


class Refused(Watched):
    def test_read_and_written(self):
        class Counter:
            def __init__(self):
                self.n = 0

            def f(self, x):
                self.n += 1
                return x * self.n

        counter = Counter()
        with self.assertRaisesRegex(hop.Error, r"(?s)test_state\.py.*\bn\b"):
            hop.jit(counter.f)(ONE)
        calls = 0

        def f(x):
            nonlocal calls
            calls += 1
            return x * calls

        with self.assertRaisesRegex(hop.Error, r"(?s)test_state\.py.*calls"):
            hop.jit(f)(ONE)


class Numbers(Watched):
    def test_learning_rate(self):
        """A number that changes at every call is an argument from its third value on."""
        rate = 1.0
        f = hop.jit(lambda x: x * rate)
        captures = []
        for i in range(12):
            rate = 1.0 / (i + 1)
            value, count = self.captures(f)
            self.assertAlmostEqual(value, rate, places=6)
            captures.append(count)
        self.assertLessEqual(sum(captures), 3)
        self.assertEqual(captures[4:], [0] * 8)
        self.assertEqual(f(hop.ones(1, dtype=hop.float16)).dtype, hop.float16)  # as weak as a number is

    def test_attribute_that_counts(self):
        model = Model()
        f = hop.jit(model.f)
        captures = []
        for i in range(10):
            model.w = i * 0.5
            value, count = self.captures(f)
            self.assertEqual(value, i * 0.5)
            captures.append(count)
        self.assertEqual(captures[4:], [0] * 6)

    def test_number_that_decides(self):
        """One that the function looks at stays a guard: each value has its program."""
        n = 1
        f = hop.jit(lambda x: functools.reduce(lambda a, _: a * 2.0, range(n), x))
        for value in (1, 2, 3, 4, 5, 2, 1):
            n = value
            self.assertEqual(self.value(f), 2.0**value)
        n = 3
        self.assertEqual(self.captures(f), (8.0, 0))


class Shown(Watched):
    def test_guards(self):
        model, k = Model(), 3.0
        f = hop.jit(lambda x: x * model.w * SETTINGS["k"] + k + through(x))
        self.value(f)
        said = str(f.guards())
        for name in ("model", "w", "SETTINGS", "k", "SCALE"):
            self.assertIn(name, said)

    def test_log(self):
        k = 3.0
        f = hop.jit(lambda x: x * k)
        self.value(f)
        k = 4.0
        with counted_captures(every=True) as lines:
            self.value(f)
        self.assertRegex("\n".join(lines), r"\bk\b.*3\.0")

    def test_beyond_the_bounds(self):
        """What is too large is not watched, and said to be; everything else is."""
        large, k, half, other = [1.0] * 1000, 2.0, [1.0] * 200, [1.0] * 200
        f = hop.jit(lambda x: x * sum(large) * k)
        self.assertEqual(self.value(f), 2000.0)
        self.assertRegex(str(f.guards()), "large: not watched")
        k = 3.0
        self.assertEqual(self.value(f), 3000.0)
        large.append(1.0)
        self.assertEqual(self.value(f), 3003.0)
        g = hop.jit(lambda x: x * sum(half) * sum(other))
        self.assertEqual(self.value(g), 40000.0)
        other[199] = 2.0
        self.assertEqual(self.value(g), 40200.0)
        self.assertNotIn("not watched", str(g.guards()))

    @needs_numpy
    def test_beyond_the_bounds_of_numpy(self):
        data = numpy.ones(4096)
        g = hop.jit(lambda x: x * float(numpy.sum(data)))
        self.value(g)
        self.assertIn("not watched", str(g.guards()))

    def test_nothing_but_hop_is_guarded_by_identity(self):
        f = hop.jit(lambda x: hop.sin(x) + math.pi)
        self.assertAlmostEqual(self.value(f), math.sin(1.0) + math.pi, places=5)
        self.assertNotIn("not watched", str(f.guards()))


class Kept(Watched):
    def test_many_programs_and_back(self):
        mode = "a"
        f = hop.jit(lambda x: x * len(mode))
        for n in range(1, 9):
            mode = "a" * n
            self.assertEqual(self.value(f), float(n))
        for n in range(1, 9):
            mode = "a" * n
            self.assertEqual(self.captures(f), (float(n), 0))

    def test_functions_are_copied_without_programs(self):
        import copy
        import pickle

        marker = object()  # a program is good for this function alone

        def fun(x):
            return x * (2.0 if marker else 1.0)

        f = hop.jit(fun)
        f(ONE)
        kept = vars(fun)
        self.assertEqual([*map(len, kept.values())], [1])
        for other in (pickle.loads(pickle.dumps(kept)), copy.deepcopy(kept)):
            self.assertEqual([*map(len, other.values())], [0])
            self.assertEqual(list(other), list(kept))

    def test_state_does_not_stay_alive(self):
        class Large:
            w = 2.0

        import gc
        import weakref

        def make():
            held = Large()
            f = hop.jit(lambda x: x * held.w)
            self.value(f)
            return weakref.ref(held), f

        ref, f = make()
        self.assertIsNotNone(ref())
        del f
        gc.collect()
        self.assertIsNone(ref())

    def test_threads(self):
        import threading

        k, wrong = 2.0, []
        f = hop.jit(lambda x, n: x * k + n)

        def work(n):
            for _ in range(200):
                value = f(ONE, float(n))[0].item()
                if value not in (2.0 + n, 3.0 + n):
                    wrong.append(value)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for i in range(200):
            k = 2.0 if i % 2 else 3.0
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()
