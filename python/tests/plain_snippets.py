"""Sixty functions of plain Python, and what each must give under jit: what Python gives, or an error that
says what and where. test_plain_snippets.py runs them in hop, python/peers/control.py in other systems too.

    load(np)    the snippets, with array functions taken from np: a list of Snippet

Scalar arguments are numbers or arrays without axes, vectors are arrays. Nothing is written to an argument in
place, and names are bound anew rather than updated where a system would change an array that has two names.
A refusal must name a line that ends with `# here`."""

import contextlib
import dataclasses
import functools
import importlib.util

np = None  # what load() was given


@dataclasses.dataclass
class Snippet:
    function: object
    calls: list  # of tuples of arguments: floats, ints, lists of them for vectors
    refused: str = None  # what the message of hop must match
    raises: list = ()  # (arguments, what the message says) of calls at which Python raises an exception
    smooth: bool = False  # the gradient with respect to the first argument exists at every call

    @property
    def name(self):
        return self.function.__name__


SNIPPETS = []


def snippet(*calls, **rest):
    """calls: tuples of arguments; one argument may stand without its tuple."""

    def note(f):
        every = [c if isinstance(c, tuple) else (c,) for c in calls]
        SNIPPETS.append(Snippet(f, every, **rest))
        return f

    return note


def load(array_functions):
    """The snippets of a new copy of this file."""
    spec = importlib.util.spec_from_file_location(__name__ + "_copy", __file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.np = array_functions
    return module.SNIPPETS


SHORT, LONG = [1.5, -2.0, 3.0, 0.5], [float((7 * i) % 13) - 5.5 for i in range(12)]


# ---- branches ----


@snippet(2.0, -1.0, 12.0, smooth=True)
def early_return(x):
    if x < 0:
        return -x
    if x > 10:
        return 10 + (x - 10) / 2
    return x * x


@snippet(0.5, 1.5, 2.5, -1.0, smooth=True)
def elif_chain(x):
    if x < 0:
        y = 0.0 * x
    elif x < 1:
        y = x
    elif x < 2:
        y = x * x
    else:
        y = 4 * x - 4
    return y


@snippet((2.0, 3.0), (3.0, 2.0), (-1.0, 2.0), (-3.0, -2.0), smooth=True)
def nested_branches(x, y):
    if x > 0:
        if x < y:
            z = x * y
        else:
            z = x + y
        z = z * 2
    else:
        if y < 0:
            return x - y
        z = -x
    return z + y


@snippet(3.0, -3.0, 0.25, smooth=True)
def conditional_expressions(x):
    sign = 1.0 if x > 0 else -1.0
    return sign * (x if abs(x) > 1 else x * x if x > 0.5 else 0.5)


@snippet((1.0, 0.0), (0.0, 0.0), (2.0, 3.0), (0.0, 5.0))
def values_of_and_and_or(x, y):
    return (x or 7.0) + (x and y or 0.5) + (not x)


@snippet((1.0, 2.0, 3.0), (3.0, 2.0, 1.0), (1.0, 1.0, 1.0), (2.0, 1.0, 3.0))
def chained_comparisons(a, b, c):
    if a < b <= c:
        return 1.0
    return 2.0 if a == b == c else 3.0


@snippet((4.0, 2.0), (4.0, 0.0), (0.0, 0.0))
def what_is_behind_and_is_not_computed(x, y):
    if y != 0 and x / y > 1:
        return x / y
    return y


@snippet((1.0, 5.0, 3.0), (7.0, 5.0, 3.0), (2.25, 2.5, 9.0), smooth=True)
def min_and_max(a, b, c):
    low = min(a, b, c)
    high = max([a, b, c])
    return (high - low) * max(a, 2.0) + min(low, 2.0)


@snippet((1.0, 2.0), (5.0, -2.0), (-1.0, -2.0))
def any_and_all(x, y):
    if any(v > 4 for v in (x, y)) or all([x < 0, y < 0]):
        return x + y
    return x - y


@snippet(0, 1, 2, 3, 7)
def match_numbers(n):
    match n:
        case 0:
            return 10
        case 1 | 2:
            found = n * 100
        case _ if n > 5:
            found = -n
        case _:
            found = n
    return found + 1


@snippet((1.0, 2.0), (3.0, 2.0))
def match_structure(x, y):
    match (x, {"y": y}):
        case (a, {"y": b}) if a < b:
            return a - b
        case (a, _):
            return a * 2
    return 0.0


@snippet(1, 2, 5)
def membership(n):
    if n in (1, 2, 3):
        return n * 10
    return 0 if n not in [5, 6] else -n


@snippet(3.0, -3.0)
def bound_in_both_branches(x):
    if x > 0:
        sign, size = 1, x
    else:
        sign, size = -1, -x
    return sign * size + sign


@snippet(3.0, raises=[(-3.0, "'y'|y: it is bound in one branch")])
def bound_in_one_branch(x):
    if x > 0:
        y = x
    return y


@snippet(1.0, refused="None")
def none_or_a_value(x):
    if x > 0:  # here
        return None
    return x


@snippet(3.0, -3.0)
def whole_or_real(x):
    if x > 0:
        return 1
    return x / 2


# ---- loops ----


@snippet(27, 1, 6)
def collatz(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


@snippet((1.0, 30.0), (100.0, 3.0), (0.0, 0.5), smooth=True)
def while_with_several_conditions(x, limit):
    n = 0
    while x < limit and n < 5 or n == 0:
        x = x * 1.5 + 1
        n += 1
    return x * n


@snippet((48, 36), (7, 13), (5, 0))
def greatest_common_divisor(a, b):
    while b:
        a, b = b, a % b
    return a


@snippet((48, 36), (7, 13))
def walrus(a, b):
    while (rest := a % b) != 0:
        a, b = b, rest
    if (twice := b * 2) > 10:
        return twice
    return b


@snippet(2.0, 9.0, 0.3, smooth=True)
def newton_until_done(a):
    x = a
    while True:
        step = (x * x - a) / (2 * x)
        x = x - step
        if abs(step) < 1e-12:
            break
    return x


@snippet(20.0, 3.0, 1000.0)
def while_with_else(x):
    n = 0
    while x > 1:
        x = x / 2
        n += 1
        if n == 5:
            break
    else:
        n += 100
    return n


@snippet(LONG, SHORT, [4.0] * 3)
def for_with_else(xs):
    for x in xs:
        if x > 4.25:
            found = x * 2
            break
    else:
        found = -1.0
    return found


@snippet((5, 12), (9, 100), (0, 0), (30, 90))
def nested_breaks(n, limit):
    total = 0
    for i in range(n):
        j = 0
        while True:
            j += 1
            if j > i:
                break
            if (i + j) % 3 == 0:
                continue
            total += j
        if total > limit:
            break
    return total


@snippet((7, 12), (20, 35), (4, 100))
def return_from_two_loops(n, wanted):
    for i in range(1, n):
        for j in range(i, n):
            if i * j == wanted:
                return i * 1000 + j
    return -1


@snippet(SHORT, LONG, smooth=True)
def loop_over_an_array(xs):
    total = 0.0
    for x in xs:
        if x < 0:
            continue
        total = total + x * x
    return total


@snippet(LONG, SHORT)
def enumerate_an_array(xs):
    best, at = xs[0], 0
    for i, x in enumerate(xs):
        if x > best:
            best, at = x, i
    return at * 10 + best


@snippet((LONG, [v * v for v in LONG]), (SHORT, [2.0, 1.0, 0.5, 3.0]), smooth=True)
def zip_arrays(xs, ys):
    total = 0.0
    for x, y in zip(xs, ys):
        if x < y:
            total = total + x * y
    return total


@snippet(6, 0, 11)
def range_with_steps(n):
    total = 0
    for i in range(n, 0, -2):
        total = total * 2 + i
    for i in range(2, n):
        if i % 2:
            total -= i
    return total


@snippet((2.0, 10), (1.5, 3), (3.0, 0), smooth=True)
def power_by_squaring(x, n):
    out = 1.0
    while n > 0:
        if n % 2 == 1:
            out = out * x
        x = x * x
        n = n // 2
    return out


@snippet(SHORT, LONG)
def whole_becomes_real_in_a_loop(xs):
    total = 0
    for x in xs:
        if x > 0:
            total += x
    return total


@snippet(LONG, raises=[([200.0] * 12, "'last'|last: it is bound")])
def bound_by_a_loop(xs):
    for x in xs:
        if x > 100:
            break
        last = x
    return last  # here


@snippet(SHORT, LONG)
def none_first(xs):
    best = None
    for x in xs:
        if best is None or x > best:
            best = x
    return best


@snippet((1.0, 0.01), (-2.0, 0.1))
def adaptive_steps(y, tolerance):
    t, h, taken = 0.0, 0.5, 0
    while t < 1.0:
        if t + h > 1.0:
            h = 1.0 - t
        coarse = y + h * -y
        half = y + h / 2 * -y
        fine = half + h / 2 * -half
        if abs(fine - coarse) <= tolerance:
            t = t + h
            y = fine
            taken += 1
            h = h * 1.5
        else:
            h = h / 2
    return y * 100 + taken


@snippet((0.0, 2.0), (0.0, 4.0), (1.0, 1.0))
def bisection(low, high):
    def f(x):
        return x * x * x - 2

    if f(low) * f(high) > 0:
        return -1.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        if f(low) * f(middle) <= 0:
            high = middle
        else:
            low = middle
    return (low + high) / 2


@snippet((LONG, 3.5), (LONG, -9.0), (LONG, 99.0), (SHORT, 1.0))
def search_in_order(xs, x):
    xs = np.sort(xs)
    low, high = 0, len(xs)
    while low < high:
        middle = (low + high) // 2
        if xs[middle] < x:
            low = middle + 1
        else:
            high = middle
    return low


# ---- functions ----


@snippet((2.0, 1.0), (2.0, 5.0), smooth=True)
def closures(x, limit):
    scale = 3.0

    def inner(y):
        if y > limit:
            return y * scale
        return y - scale

    return inner(x) + (lambda y: y * y if y > limit else -y)(x + 1)


@snippet(3.0, -1.0)
def nonlocal_counter(x):
    count = 0

    def note(v):
        nonlocal count
        if v > 0:
            count += 1
        return v

    note(x)
    if x > 2:
        note(x + 1)
    return count * 10 + note(1.0)


calls_made = 0


@snippet(3.0, refused="calls_made")
def global_in_a_branch(x):
    global calls_made
    if x > 0:  # here
        calls_made += 1  # here
    return x


def clamped(f):
    @functools.wraps(f)
    def inside(x, *rest, **named):
        y = f(x, *rest, **named)
        return 10.0 if y > 10 else y

    return inside


@snippet(3.0, 30.0, -4.0)
def decorators_and_keywords(x):
    @clamped
    def inner(v, *rest, scale=2.0):
        for r in rest:
            if r > 0:
                v = v + r * scale
        return v

    return inner(x, x + 1, -1.0, scale=0.5)


class Account:
    rate = 0.5

    def __init__(self, balance):
        self.balance = balance

    @property
    def rich(self):
        return self.balance > 10

    def grown(self, years):
        balance = self.balance
        for _ in range(years):
            balance = balance * (1 + self.rate)
            if balance > 40:
                return self.cut(balance)
        return balance

    @staticmethod
    def cut(x):
        return 40.0 if x < 50 else 50.0


class Savings(Account):
    def grown(self, years):
        if self.rich:
            return self.balance
        return super().grown(years) + 1


@snippet((3.0, 4), (9.0, 9), (20.0, 2))
def methods(x, years):
    return Account(x).grown(years) + Savings(x).grown(years)


class Counter:
    def __init__(self):
        self.seen = 0


@snippet(3.0, -3.0)
def attribute_of_a_local_object(x):
    counter = Counter()
    if x > 0:
        counter.seen += 2
    return counter.seen + x


shared = Counter()


@snippet(3.0, refused="shared")
def attribute_of_a_shared_object(x):
    if x > 0:  # here
        shared.seen = shared.seen + 1  # here
    return x


@snippet(([1.0, -2.0, 3.0, 4.0],), ([-1.0, -2.0, -3.0, 5.0],))
def recursion_over_a_structure(xs):
    def total(node):
        if isinstance(node, tuple):
            return sum(total(child) for child in node)
        return node if node > 0 else 0.0

    return total((xs[0], (xs[1], (xs[2],)), xs[3]))


@snippet(5, refused="factorial calls itself")
def recursion_of_unknown_depth(n):
    def factorial(k):
        return 1 if k <= 1 else k * factorial(k - 1)  # here

    return factorial(n)


@snippet(2.0, -2.0)
def generator(x):
    def around(v):
        yield v - 1
        yield v
        yield v + 1

    total = 0.0
    for v in around(x):
        if v > 0:
            total = total + v
    return total


@snippet(2.0, refused="yield|generator")
def generator_that_branches(x):
    def some():
        if x > 0:  # here
            yield x
        yield 1.0

    return sum(some())


@snippet((1.0, 2.0), (-1.0, 2.0), (-1.0, -2.0))
def map_filter_reduce(x, y):
    def positive(v):
        return v if v > 0 else 0.0

    def larger(a, b):
        return a if a > b else b

    return functools.reduce(larger, map(positive, [x, y, x + y])) + sum(map(positive, (x, y)))


# ---- containers and writes ----


@snippet(SHORT, LONG, smooth=True)
def comprehension(xs):
    return sum([x * x if x > 0 else -x for x in xs])


@snippet(SHORT, LONG)
def append_in_a_loop(xs):
    out = []
    last = 0.0 * xs[0]
    for x in xs:
        last = last / 2 + x if x > 0 else last
        out.append(last)
    return np.stack(out)


@snippet(2.0, refused="out")
def append_in_a_branch(x):
    out = []
    if x > 0:  # here
        out.append(x)  # here
    return len(out)


@snippet((2.0, 1.0), (-2.0, 1.0))
def items_of_a_dict(x, y):
    table = {"a": x, "b": y}
    if x > 0:
        table["a"] = y * 2
    else:
        table["b"] = x * 3
    return table["a"] - table["b"]


@snippet((2.0, 1.0), (-2.0, 1.0))
def swap_in_a_list(x, y):
    pair = [x, y]
    if pair[0] > pair[1]:
        pair[0], pair[1] = pair[1], pair[0]
    return pair[1] * 10 + pair[0]


@snippet(SHORT, [-1.0, 2.0], smooth=True)
def item_written_in_a_branch(xs):
    ys = np.copy(xs)
    if xs[0] > 0:
        ys[1] = xs[0] * 5
    else:
        ys[0] = 1.0
    return np.sum(ys * ys)


@snippet(LONG, SHORT)
def insertion_sort(xs):
    ys = np.copy(xs)
    for i in range(1, len(ys)):
        x = ys[i] * 1
        j = i
        while j > 0 and ys[j - 1] > x:
            ys[j] = ys[j - 1]
            j -= 1
        ys[j] = x
    return ys


@snippet((SHORT, 3), (LONG, 5), (SHORT, 0))
def added_in_place(xs, n):
    ys = np.copy(xs)
    for i in range(n):
        if xs[i] > 0:
            ys += xs[i]
            ys[i] -= 1
    return ys


# ---- exceptions ----


@snippet(4.0, 9.0, raises=[(-1.0, "negative"), (200.0, "too large")], smooth=True)
def checks(x):
    assert x < 100, "too large"
    if x < 0:
        raise ValueError("negative")
    return np.sqrt(x)


@snippet(3.0, -3.0)
def try_and_finally(x):
    with contextlib.nullcontext(2.0) as two:
        try:
            if x > 0:
                return x * two
            y = -x
        finally:
            z = 1.0
    return y + z


@snippet(4.0, -4.0, refused="except|try|caught")
def exception_that_is_caught(x):
    try:
        if x < 0:  # here
            raise ValueError("negative")  # here
        y = x * 2
    except ValueError:
        y = 0.0
    return y


@snippet((2.0, 1), (-2.0, 1))
def exception_of_known_cause(x, n):
    table = {"one": x}
    try:
        y = table["two"]
    except KeyError:
        y = x if x > 0 else -x
    return y + n
