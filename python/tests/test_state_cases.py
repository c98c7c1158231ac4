"""Ways to read state in Python and to change it, one line each: after every change jit(f) gives what f gives.
Each case is a function and the changes that are made in turn."""

import collections
import dataclasses
import enum
import functools
import operator
import sys
import threading
import types
import unittest

import hop
from support import Case, needs_numpy, numpy

ONE = hop.ones(1)


class Row:
    """Does everything by methods that Python calls."""

    def __init__(self):
        self.layers, self.k = [2.0, 3.0], 1.0

    def __iter__(self):
        return iter(self.layers)

    def __getitem__(self, i):
        return self.layers[i] * self.k

    def __len__(self):
        return len(self.layers)

    def __contains__(self, v):
        return v in self.layers

    def __mul__(self, q):
        return q * self.k

    def __bool__(self):
        return self.k > 0

    def __enter__(self):
        return self.k

    def __exit__(self, *_):
        pass

    def __eq__(self, other):
        return self.k == other

    __hash__ = None

    def __float__(self):
        return float(self.k)


class Point:
    def __init__(self, w=2.0):
        self.w = w

    def f(self, x):
        return x * self.w


@dataclasses.dataclass(frozen=True)
class Frozen:
    k: object


class Mode(enum.Enum):
    A = 1
    B = 2


class Named(dict):
    def __missing__(self, key):
        return 7.0


class SlotsAndDict:
    __slots__ = ("a", "__dict__")


def made(w):
    """A function with a cell of its own, and what sets it."""

    def inner(q):
        return q * w

    def change(v):
        nonlocal w
        w = v

    return inner, change


class Cases(Case):
    def check(self, name, f, *changes):
        g = hop.jit(f)
        for i, change in enumerate([lambda: None, *changes]):
            change()
            with self.subTest(name, after=i):
                expected = self.outcome(f)
                self.assertEqual(self.outcome(g), expected)
                self.assertEqual(self.outcome(g), expected)

    @staticmethod
    def outcome(f):
        try:
            with hop.disable_jit(False):
                return hop.ravel(f(ONE)).tolist()
        except (AttributeError, KeyError, NameError) as error:
            return type(error)

    def test_methods_that_python_calls(self):
        def with_statement(row):
            def f(x):
                with row as k:
                    return x * k

            return f

        uses = {
            "iteration": lambda row: lambda x: sum([x * v for v in row]),
            "item": lambda row: lambda x: x * row[0],
            "length": lambda row: lambda x: x * len(row),
            "in": lambda row: lambda x: x * (2 if 4.0 in row else 3),
            "operator": lambda row: lambda x: row * x,
            "truth": lambda row: lambda x: x if row else -x,
            "==": lambda row: lambda x: x * (2 if row == 1 else 3),
            "float": lambda row: lambda x: x * float(row),
            "list": lambda row: lambda x: [x * v for v in list(row)][-1],
            "unpacking": lambda row: lambda x: (lambda *a: x * len(a) * a[0])(*row),
            "with": with_statement,
        }
        for name, use in uses.items():
            row = Row()
            self.check(
                name,
                use(row),
                lambda: setattr(row, "k", 5.0),
                lambda: row.layers.append(4.0),
                lambda: setattr(row, "k", -5.0),
            )

    def test_functions(self):
        (f, set_f), (g, set_g) = made(2.0), made(3.0)
        table = [f, g]
        self.check("cell of a helper", lambda x: f(x), lambda: set_f(5.0))
        self.check("in a list", lambda x: table[0](x) + table[1](x), lambda: set_g(9.0), table.reverse)
        self.check(
            "gone through",
            lambda x: functools.reduce(lambda a, h: h(a), table, x),
            lambda: set_f(1.5),
            lambda: table.append(f),
        )
        a, b = Point(), Point(3.0)
        bound, both = a.f, [a.f, b.f]
        self.check("bound", lambda x: bound(x), lambda: setattr(a, "w", 4.0))
        self.check("bound, in a list", lambda x: both[0](x) + both[1](x), lambda: setattr(b, "w", 6.0))
        self.check("bound, mapped", lambda x: sum(map(lambda m: m(x), both)), lambda: setattr(a, "w", 7.0))
        held = {"k": 2.0}
        partial = functools.partial(lambda c, x: x * c["k"], held)
        self.check("partial", lambda x: partial(x), lambda: held.update(k=3.0))
        self.check("partial itself", partial, lambda: held.update(k=4.0))
        self.check("method caller", lambda x: operator.methodcaller("f", x)(a), lambda: setattr(a, "w", 1.25))

        def with_default(x, *, cfg=held):
            return x * cfg["k"]

        self.check("dict as a default", lambda x: with_default(x), lambda: held.update(k=5.0))
        self.check("dict as its own default", with_default, lambda: held.update(k=6.0))

        def own(x):
            return x * own.k

        own.k = 2.0
        self.check("attribute of a function", own, lambda: setattr(own, "k", 3.0))

    def test_containers(self):
        numbers, deep = [1.0, 2.0], [[1.0, [2.0]]]
        table, some = {"a": 1.0, "b": 2.0}, {1.0, 2.0}
        count, missing = collections.Counter(a=2), Named()
        self.check("set", lambda x: x * sum(some), lambda: some.add(5.0), lambda: some.discard(1.0))
        self.check("in a set", lambda x: x * (2 if 5.0 in some else 3), lambda: some.discard(5.0))
        self.check("counter", lambda x: x * count["a"] + count["b"], lambda: count.update(a=3, b=1))
        self.check("missing", lambda x: x * missing["q"], lambda: missing.update(q=2.0), missing.clear)
        self.check("deep", lambda x: x * deep[0][1][0], lambda: deep[0][1].__setitem__(0, 3.0))
        self.check("slice", lambda x: x * sum(deep[0][1][:2]), lambda: deep[0][1].insert(0, 3.0))
        self.check("zip", lambda x: sum(x * a * b for a, b in zip(numbers, deep[0][1])), numbers.reverse)
        self.check("items", lambda x: sum({k: v * x for k, v in table.items()}.values()),
                   lambda: table.update(z=1.5), lambda: table.pop("z"))  # fmt: skip
        key = "a"

        def other_key():
            nonlocal key
            key = "b"

        self.check("key in a variable", lambda x: x * table[key], other_key, lambda: table.update(b=5.0))

        def generated(x):
            for v in deep[0][1]:
                yield x * v

        self.check("generator", lambda x: sum(generated(x)), lambda: deep[0][1].append(7.0))

        def recursive(x, i=0):
            return x if i >= len(numbers) else recursive(x * numbers[i], i + 1)

        self.check("recursion", lambda x: recursive(x), lambda: numbers.append(2.0))
        points = {"n": [Point(), Point()]}
        self.check("values of values", lambda x: sum(p.f(x) for v in points.values() for p in v),
                   lambda: setattr(points["n"][1], "w", 5.0), lambda: points.update(m=[Point()]))  # fmt: skip
        self.check("sorted", lambda x: x * sorted(points["n"], key=lambda p: p.w)[0].w,
                   lambda: setattr(points["n"][0], "w", 0.25))  # fmt: skip

        def matched(x):
            match points:
                case {"n": [a, b]}:
                    return x * a.w + b.w
                case _:
                    return x

        self.check("match", matched, lambda: setattr(points["n"][0], "w", 4.5),
                   lambda: points.update(n=[Point()]))  # fmt: skip

    def test_containers_of_other_classes(self):
        queue = collections.deque([1.0, 2.0])
        row = type("Row", (list,), {"k": 2.0})([1.0])
        number = type("Number", (float,), {})(2.0)
        number.extra = 1.0
        self.check("deque", lambda x: x * sum(queue), lambda: queue.append(3.0), queue.popleft)
        self.check("item of a deque", lambda x: x * queue[0], lambda: queue.appendleft(9.0))
        self.check("list with attributes", lambda x: x * sum(row) * row.k, lambda: row.append(2.0),
                   lambda: setattr(row, "k", 5.0))  # fmt: skip
        self.check("number with attributes", lambda x: x * number * number.extra,
                   lambda: setattr(number, "extra", 5.0))  # fmt: skip
        buffer = bytearray(b"ab")
        self.check("bytes", lambda x: x * buffer[0], lambda: buffer.__setitem__(0, 7))

    def test_imports(self):
        module = types.ModuleType("state_cases_module")
        module.k, module.inner = 2.0, types.SimpleNamespace(w=1.0)
        sys.modules[module.__name__] = module
        self.addCleanup(sys.modules.pop, module.__name__)

        def names(x):
            from state_cases_module import inner, k

            return x * k + inner.w

        def whole(x):
            import state_cases_module as m

            return x * m.k + m.inner.w

        for f in (names, whole):
            module.k, module.inner.w = 2.0, 1.0
            self.check(f.__name__, f, lambda: setattr(module, "k", 3.5),
                       lambda: setattr(module.inner, "w", 4.0))  # fmt: skip

    def test_attributes(self):
        space, frozen, both = types.SimpleNamespace(w=2.0), Frozen(2.0), SlotsAndDict()
        both.a, both.b = 1.0, 2.0
        self.check("dict of an object", lambda x: x * space.w, lambda: space.__dict__.update(w=3.0),
                   lambda: vars(space).__setitem__("w", 4.0), lambda: delattr(space, "w"),
                   lambda: setattr(space, "w", 1.0))  # fmt: skip
        self.check("hasattr", lambda x: x * 2 if hasattr(space, "z") else x, lambda: setattr(space, "z", 1.0))
        self.check("default of getattr", lambda x: x * getattr(space, "y", 7.0),
                   lambda: setattr(space, "y", 1.5), lambda: delattr(space, "y"))  # fmt: skip

        def tried(x):
            try:
                return x * space.v
            except AttributeError:
                return x * 9.0

        self.check("caught", tried, lambda: setattr(space, "v", 1.5), lambda: delattr(space, "v"))
        name = "w"

        def other_name():
            nonlocal name
            name = "z"

        self.check("name in a variable", lambda x: x * getattr(space, name), other_name)
        self.check("frozen", lambda x: x * frozen.k, lambda: object.__setattr__(frozen, "k", 3.0))
        self.check("replaced", lambda x: x * dataclasses.replace(frozen, k=frozen.k).k,
                   lambda: object.__setattr__(frozen, "k", 5.0))  # fmt: skip
        self.check("slots", lambda x: x * both.a + both.b, lambda: setattr(both, "a", 3.0),
                   lambda: setattr(both, "b", 4.0))  # fmt: skip
        self.check("identity", lambda x: x if space.w is both.a else -x, lambda: setattr(space, "w", both.a))
        self.check("text of a number", lambda x: x * len(f"{both.a}"), lambda: setattr(both, "a", 3.125))
        held = [Point()]
        self.check("class", lambda x: x if isinstance(held[0], Point) else -x,
                   lambda: held.__setitem__(0, Frozen(1)))  # fmt: skip
        self.check("name of a class", lambda x: x * len(type(held[0]).__name__),
                   lambda: held.__setitem__(0, both))  # fmt: skip
        mode = Mode.A

        def other_mode():
            nonlocal mode
            mode = Mode.B

        self.check("enum", lambda x: x * mode.value if mode is Mode.A else -x, other_mode)
        point, lock = Point(), threading.Lock()

        def locked(x):
            with lock:
                return x * point.w

        self.check("lock", locked, lambda: setattr(point, "w", 6.5))

        def walrus(x):
            if (v := point.w) > 3:
                return x * v
            return x

        self.check("walrus", walrus, lambda: setattr(point, "w", 1.0))

    def test_descriptors(self):
        class Circle:
            radius = 2.0

            @property
            def area(self):
                return 3.0 * self.radius**2

            @functools.cached_property
            def once(self):
                return self.radius * 2

        circle = Circle()
        self.check("property", lambda x: x * circle.area, lambda: setattr(circle, "radius", 3.0))
        self.check("cached property", lambda x: x * circle.once, lambda: circle.__dict__.update(once=9.0))

    def test_decorators(self):
        factor = [2.0]

        def times(held):
            def decorate(f):
                @functools.wraps(f)
                def wrapper(*args):
                    return f(*args) * held[0]

                return wrapper

            return decorate

        @times(factor)
        def decorated(x):
            return x

        @functools.singledispatch
        def chosen(v, x):
            return x * 2

        self.check("registered", lambda x: chosen(1, x), lambda: chosen.register(int, lambda v, x: x * 3))
        self.check("argument of a decorator", lambda x: decorated(x), lambda: factor.__setitem__(0, 3.0))

    def test_scopes(self):
        scale = 2.0

        def other_scale(v):
            nonlocal scale
            scale = v

        def local_class(x):
            class Local:
                k = scale

                def f(self, x):
                    return x * self.k * scale

            return Local().f(x)

        def nested(x):
            def a(y):
                def b(z):
                    return z * scale

                return b(y)

            return a(x)

        def starred(x):
            first, *rest = [scale, 2.0, scale]
            return x * first + sum(rest)

        for name, f in (("class", local_class), ("nested", nested), ("starred", starred)):
            scale = 2.0
            self.check(name, f, lambda: other_scale(6.0), lambda: other_scale(2.0))

    def test_ways_to_an_object(self):
        class Net:
            def __init__(self):
                self.a, self.n, self.config = 2.0, 2, {"k": 2.0}
                self.layer0, self.layer1, self.layers = Point(2.0), Point(3.0), [Point(1.0), Point(2.0)]

            def run(self, x):
                return x * self.a

        net = Net()
        change = lambda thing, **named: lambda: [setattr(thing, n, v) for n, v in named.items()]  # noqa: E731

        def by_name(x):
            for i in range(2):
                x = getattr(net, f"layer{i}").f(x)
            return x

        def by_alias(x):
            same, config, run = net, net.config, net.run
            return run(x) * config["k"] * (same, 1)[0].a

        def given():
            return net

        def in_a_loop(x):
            i = 0
            while i < net.n:
                x, i = x * net.layers[i % len(net.layers)].w, i + 1
            return x

        self.check("name", by_name, change(net.layer1, w=5.0), change(net, layer0=Point(7.0)))
        self.check("alias", by_alias, change(net, a=3.0), lambda: net.config.update(k=3.0))
        self.check("given", lambda x: given().layer0.f(x), change(net.layer0, w=2.5), change(net, a=1.0))
        self.check("chosen", lambda x: x * (net.layer0 if net.n > 1 else net.layer1).w,
                   change(net.layer0, w=4.5), change(net, n=0), change(net.layer1, w=9.0))  # fmt: skip
        self.check("counted", lambda x: sum(net.layers[i].f(x) for i in range(len(net.layers))),
                   change(net.layers[0], w=1.5), net.layers.pop)  # fmt: skip
        self.check("loop", in_a_loop, change(net, n=3), change(net, n=1))
        self.check("unpacked", lambda x: (lambda a, *, k: a * k)(x, **net.config),
                   lambda: net.config.update(k=9.0))  # fmt: skip

    def test_linked_objects(self):
        class Link:
            def __init__(self, w, following=None):
                self.w, self.following = w, following

            def f(self, x):
                return x * self.w if self.following is None else self.following.f(x * self.w)

        last = Link(3.0)
        first = Link(1.5, Link(2.0, last))

        def walk(x):
            link = first
            while link is not None:
                x, link = x * link.w, link.following
            return x

        for name, f in (("methods", lambda x: first.f(x)), ("walk", walk)):
            last.w, last.following = 3.0, None
            self.check(name, f, lambda: setattr(last, "w", 4.0),
                       lambda: setattr(last, "following", Link(5.0)),
                       lambda: setattr(last.following, "w", 6.0))  # fmt: skip
        ring = Point()
        ring.me, ring.all = ring, [ring]
        self.check("ring", lambda x: x * ring.me.all[0].w, lambda: setattr(ring, "w", 3.0))

    def test_objects_made_inside(self):
        scale = 2.0

        def rescale(v):
            nonlocal scale
            scale = v

        class Made:
            k = 3.0

            def __init__(self):
                self.w = scale

            def f(self, x):
                return x * self.w * self.k

        @dataclasses.dataclass
        class Data:
            numbers: list = dataclasses.field(default_factory=lambda: [scale])

        self.check("class", lambda x: Made().f(x), lambda: rescale(3.0), lambda: setattr(Made, "k", 4.0),
                   lambda: setattr(Made, "f", lambda self, x: x - self.w))  # fmt: skip
        self.check("dataclass", lambda x: x * Data().numbers[0], lambda: rescale(6.0))

        def own_objects(x):
            """Writes to what it made itself, which is nobody's state."""
            table, rows, thing, n = {}, [], Point(), 0

            def count():
                nonlocal n
                n += 1
                return n

            for i in range(3):
                table[i] = x * i
                rows.append(table[i])
                thing.w = thing.w + i
            return sum(rows) + thing.w * count() * count()

        self.check("its own", own_objects)

    def test_texts_of_objects(self):
        class Text:
            text = "ab"

            def __str__(self):
                return self.text

            def __format__(self, _):
                return self.text * 3

            def __index__(self):
                return len(self.text)

            def __lt__(self, other):
                return len(self.text) < other

            def __neg__(self):
                return -len(self.text)

        held = Text()
        uses = {
            "str": lambda x: x * len(str(held)),
            "format": lambda x: x * len(f"{held}"),
            "percent": lambda x: x * len("%s" % held),
            "index": lambda x: x * [1, 2, 3, 4, 5, 6][held],
            "compared": lambda x: x if held < 3 else -x,
            "negative": lambda x: x * -held,
        }
        for name, f in uses.items():
            held.text = "ab"
            self.check(name, f, lambda: setattr(held, "text", "abcd"), lambda: setattr(held, "text", "a"))

    def test_trees_of_arrays(self):
        tree = {"w": hop.ones(1), "b": [hop.ones(1)]}
        self.check("tree", lambda x: sum(hop.tree.leaves(hop.tree.map(lambda p: p * x, tree))),
                   lambda: tree["b"].append(hop.full((1,), 3.0)), lambda: tree["w"].__setitem__(0, 5.0),
                   lambda: tree.update(z=hop.ones(1)), tree["b"].clear)  # fmt: skip

    @needs_numpy
    def test_numpy(self):
        scalar, none, vector = numpy.float32(2.0), numpy.array(2.0), numpy.array([1.0, 2.0])

        def other_scalar(v):
            nonlocal scalar
            scalar = v

        self.check("scalar", lambda x: x * scalar, lambda: other_scalar(numpy.float32(3.0)),
                   lambda: other_scalar(numpy.float64(3.0)))  # fmt: skip
        self.check("no axes", lambda x: x * none, lambda: none.__setitem__((), 4.0))
        self.check("as a number", lambda x: x * float(none), lambda: none.__setitem__((), 5.0))
        self.check("gone through", lambda x: sum([x * v for v in vector]), lambda: vector.__setitem__(0, 4.0))
        self.check("view", lambda x: x * vector[::-1][0], lambda: vector.__setitem__(1, 9.0))
        self.check("compared", lambda x: x if vector[0] > 3 else -x, lambda: vector.__setitem__(0, 1.0))
        self.check("computed", lambda x: x * numpy.where(vector > 1, 2.0, 3.0).sum(),
                   lambda: vector.__setitem__(0, 7.0))  # fmt: skip

    def test_arrays(self):
        array = hop.asarray([1.0, 2.0])
        self.check("as a list", lambda x: x * sum(array.tolist()), lambda: array.__setitem__(0, 3.0))
        self.check("gone through", lambda x: sum([x * v for v in array]), lambda: array.__setitem__(0, 8.0))
        self.check("element", lambda x: x * array[0].item(), lambda: array.__setitem__(0, 2.5))
        self.check("as a number", lambda x: x * float(array[1]), lambda: array.__setitem__(1, 3.5))
        self.check("length of a loop", lambda x: sum([x] * int(array[0])), lambda: array.__setitem__(0, 4.0))
        self.check("shape", lambda x: x * array.shape[0], lambda: array.__setitem__(0, 9.0))


if __name__ == "__main__":
    unittest.main()
