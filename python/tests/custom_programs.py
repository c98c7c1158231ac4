"""Random functions f(c, w) of two numbers that call functions with rules of their own in loops, branches,
regions and modes, and what must come of them under any order of transforms. What test_custom_random.py runs.

The answer comes from an interpreter that has nothing of hop: numbers that carry a tangent, numbers on a tape
and numbers per lane, each of a level of its own, so that transforms nest. Each rule is scaled by a number of
its own, so that the answer tells which of them ran: the body, forward, backward (one number for each
operand), the values and the tangents of a jvp, the rule over lanes. Hooks on gradients may stand in their
place; those of the host note what they are called with."""

import itertools
import math
import random

# ---- numbers under transforms ----


class Traced:
    """A number of a level; the highest level is taken apart first."""

    def __init__(self, level):
        self.level = level


class Dual(Traced):
    def __init__(self, level, value, tangent):
        super().__init__(level)
        self.value, self.tangent = value, tangent


class Taped(Traced):
    """parents: (Taped, what its part of the cotangent is, given that of this), with smaller numbers."""

    numbers = itertools.count()

    def __init__(self, level, value, parents):
        super().__init__(level)
        self.number = next(Taped.numbers)
        self.value, self.parents = value, parents


class Lanes(Traced):
    def __init__(self, level, values):
        super().__init__(level)
        self.values = values


_levels = 0


class Level:
    """with Level() as level: one above all that there are."""

    def __enter__(self):
        global _levels
        _levels += 1
        return _levels

    def __exit__(self, *_):
        global _levels
        _levels -= 1


def _top(args):
    return max((x for x in args if isinstance(x, Traced)), key=lambda x: x.level, default=None)


def _value(level, x):
    return x.value if isinstance(x, Traced) and x.level == level else x


def _tangent(level, x):
    return x.tangent if isinstance(x, Traced) and x.level == level else 0.0


def _lane(level, x, i):
    return x.values[i] if isinstance(x, Traced) and x.level == level else x


def _operator(run, *slopes):
    """slopes: per operand, the derivative with respect to it."""

    def apply(*args):
        top = _top(args)
        if top is None:
            return run(*args)
        level = top.level
        if isinstance(top, Lanes):
            return Lanes(level, [apply(*(_lane(level, x, i) for x in args)) for i in range(len(top.values))])
        values = [_value(level, x) for x in args]
        if isinstance(top, Dual):
            tangent = 0.0
            for x, slope in zip(args, slopes):
                tangent = add(tangent, mul(slope(*values), _tangent(level, x)))
            return Dual(level, apply(*values), tangent)
        parents = [
            (x, lambda ct, slope=slope: mul(slope(*values), ct))
            for x, slope in zip(args, slopes)
            if isinstance(x, Traced) and x.level == level
        ]
        return Taped(level, apply(*values), parents)

    return apply


add = _operator(lambda x, y: x + y, lambda x, y: 1.0, lambda x, y: 1.0)
mul = _operator(lambda x, y: x * y, lambda x, y: y, lambda x, y: x)
sin = _operator(math.sin, lambda x: cos(x))
cos = _operator(math.cos, lambda x: mul(-1.0, sin(x)))


def constant(x):
    """x without what derivatives know of it."""
    if isinstance(x, Lanes):
        return Lanes(x.level, [constant(lane) for lane in x.values])
    return constant(x.value) if isinstance(x, Traced) else x


# ---- transforms ----


def grad(f):
    def of(c, w):
        with Level() as level:
            start = Taped(level, c, [])
            end = f(start, w)
            if not (isinstance(end, Taped) and end.level == level):
                return 0.0
            return _pulled(end, start, 1.0)

    return of


def _pulled(end, start, cotangent):
    made, waiting = {}, [end]
    while waiting:
        node = waiting.pop()
        if node.number not in made:
            made[node.number] = node
            waiting += [parent for parent, _ in node.parents]
    given = {end.number: cotangent}
    for number in sorted(made, reverse=True):
        for parent, pull in made[number].parents:
            given[parent.number] = add(given.get(parent.number, 0.0), pull(given.get(number, 0.0)))
    return given.get(start.number, 0.0)


def tangent(f):
    """The derivative by forward mode, in the direction of the second argument and a third of it for w."""

    def of(c, w):
        with Level() as level:
            return _tangent(level, f(Dual(level, c, w), Dual(level, w, mul(w, 0.25))))

    return of


def lanes(f):
    """Over three lanes of c around it, their sum, each with a weight of its own."""

    def of(c, w):
        with Level() as level:
            _over.append(level)
            end = f(Lanes(level, [add(c, shift) for shift, _ in LANES]), w)
            _over.pop()
            total = 0.0
            for i, (_, weight) in enumerate(LANES):
                total = add(total, mul(weight, _lane(level, end, i)))
            return total

    return of


LANES = ((0.1, 1.0), (-0.2, 0.5), (0.3, -0.75))
_over = []  # the levels of lanes that all run now


# ---- rules ----


class Rules:
    """The function b sin(c) w with rules; has: which of "vjp", "jvp", "batch" are given. loud: values of
    forward and of the jvp too are scaled otherwise than the body."""

    def __init__(self, draw, has, loud):
        numbers = [0.5 + 0.125 * k for k in range(12)]
        draw.shuffle(numbers)
        self.has = has
        self.body, self.forward, self.by_c, self.by_w, self.value, self.slope, self.batch = numbers[:7]
        if not loud:
            self.forward = self.value = self.body


def called(rules, c, w):
    """The answer's call of a function with rules."""

    def body(factor, c, w):
        return mul(factor, mul(sin(c), w))

    def backward(c, w, ct):
        return mul(rules.by_c, mul(mul(cos(c), w), ct)), mul(rules.by_w, mul(sin(c), ct))

    def push(c, w, dc, dw):
        return mul(rules.slope, add(mul(mul(cos(c), w), dc), mul(sin(c), dw)))

    top = _top((c, w))
    if top is None:
        return body(rules.body, c, w)
    level = top.level
    if isinstance(top, Lanes):
        if "batch" in rules.has:
            return body(rules.batch, c, w)
        each = ((_lane(level, c, i), _lane(level, w, i)) for i in range(len(top.values)))
        return Lanes(level, [called(rules, *lane) for lane in each])
    values = _value(level, c), _value(level, w)
    if isinstance(top, Dual):
        moved = _tangent(level, c), _tangent(level, w)
        if "jvp" in rules.has:
            return Dual(level, body(rules.value, *values), push(*values, *moved))
        if "vjp" not in rules.has:
            return body(rules.body, c, w)
        by = backward(*values, 1.0)
        return Dual(level, body(rules.forward, *values), add(mul(by[0], moved[0]), mul(by[1], moved[1])))
    if "vjp" in rules.has:
        end, pulls = rules.forward, (lambda ct: backward(*values, ct)[0], lambda ct: backward(*values, ct)[1])
    elif "jvp" in rules.has:
        end, pulls = rules.value, (lambda ct: push(*values, ct, 0.0), lambda ct: push(*values, 0.0, ct))
    else:
        return body(rules.body, c, w)
    parents = [(x, pull) for x, pull in zip((c, w), pulls) if isinstance(x, Traced) and x.level == level]
    return Taped(level, body(end, *values), parents)


# ---- hooks ----

HOOKS = ("scale", "square", "weight", "state", "off", "host")
seen = []  # what hooks of the host were called with


class Hook:
    """A hook on c. how: what is done to a cotangent g, one of HOOKS: a g, a g g, a g w, a handed in as state,
    nothing because it is off, noted by the host."""

    def __init__(self, draw, how):
        self.how, self.factor = how, 0.5 + 0.125 * draw.randrange(12)

    def pulled(self, g, w):
        if self.how == "host":
            _noted(g, _over)
        if self.how in ("off", "host"):
            return g
        more = {"square": g, "weight": w}.get(self.how, 1.0)
        return mul(self.factor, mul(more, g))


def _noted(g, levels):
    """Every lane of these levels calls the host with its number."""
    if levels:
        for i in range(len(LANES)):
            _noted(_lane_of(levels[-1], g, i), levels[:-1])
        return
    while isinstance(g, Traced):
        g = g.value
    seen.append(g)


def _lane_of(level, x, i):
    """A lane of a level, which may stand inside of others."""
    if not isinstance(x, Traced) or x.level < level:
        return x
    if x.level == level:
        return x.values[i]
    if isinstance(x, Lanes):
        return Lanes(x.level, [_lane_of(level, lane, i) for lane in x.values])
    return _lane_of(level, x.value, i)


def hooked(hook, c, w):
    """The answer's value with a hook."""
    if not isinstance(c, Traced):
        return c
    level, w_there = c.level, _value(c.level, w) if isinstance(c, (Dual, Taped)) else w
    if isinstance(c, Lanes):
        return Lanes(level, [hooked(hook, lane, _lane(level, w, i)) for i, lane in enumerate(c.values)])
    inner = hooked(hook, c.value, w_there)
    if isinstance(c, Dual):
        return Dual(level, inner, c.tangent)
    return Taped(level, inner, [(c, lambda ct: hook.pulled(ct, w_there))])


# ---- programs ----

TIMES = (0.1, -0.2, 0.3)  # what loops go over
LOOPS = ("scan", "while", "fori", "map", "cond", "switch", "associative", "checkpoint", "call")
REGIONS = (
    ("wrap", {}),
    ("wrap", {"inline": True}),
    ("named", {"name": "part"}),
    ("numbers", {"mode": "strict"}),
    ("hints", {"unroll": 2, "vector": "off", "threads": 1}),
    ("hints", {"schedule": "sqrt"}),
    ("mine", {"bits": 8, "levels": [0.5, 1.0], "mode": "even"}),
)
AGAIN = {"associative", "checkpoint"}  # run again for their gradients, with rules where others ran forward
# Where either the body or a rule may run: forward mode has values of the rule also of what is a constant.
QUIET = AGAIN | {"no_grad", "grad in no_grad"}


class Program:
    """steps: of c, each (kind, what it needs, steps inside). around, inside: kinds that must be there, the
    one in a body of the other; "rules" is one. hooks: which kinds of these stand in the place of rules."""

    def __init__(self, seed, kinds, around=None, inside=None, hooks=()):
        self._random, self._kinds, self._hooks = random.Random(seed), kinds, hooks
        self.again = False
        self._loud = self._random.random() < 0.6
        if around is not None:
            self._loud &= not {around, inside} & QUIET
            step = self._step(inside, 1)
            if inside != "rules":
                step = (*step[:2], [self._step("rules", 2), *step[2]])
            outer = self._step(around, 1)
            self.steps = [(*outer[:2], [step, *outer[2][:1]]), self._step("rules", 2)]
        else:
            self.steps = self._some(0)
            if not _holds(self.steps, "rules"):
                self.steps.append(self._step("rules", 2))
        self.again = any(_holds(self.steps, kind) for kind in AGAIN) or _holds(self.steps, "region hints")

    def derivatives(self):
        """How many are taken inside of it."""
        return int(_holds(self.steps, "grad"))

    def _some(self, depth):
        steps = []
        for _ in range(self._random.randint(1, 3 if depth < 2 else 2)):
            kind = self._random.choice(self._kinds) if depth < 3 and self._random.random() < 0.6 else "rules"
            if kind in QUIET and self._loud:
                kind = "scan"
            steps.append(self._step(kind, depth))
        return steps

    def _step(self, kind, depth):
        draw = self._random
        if kind == "rules" and self._hooks:
            return kind, Hook(draw, draw.choice(self._hooks)), []
        if kind == "rules":
            known = ("vjp", "jvp", "vjp", "jvp", "batch")
            given = (draw.choice(known if self._loud else known[:2]),)
            return kind, Rules(draw, given, self._loud), []
        if kind == "region":
            which = draw.choice(REGIONS)
            if "schedule" in which[1] and self._loud:
                which = REGIONS[0]
            name = "region hints" if "schedule" in which[1] else kind
            return name, which, self._some(depth + 1) if depth < 3 else []
        needs = draw.randint(0, 3) if kind in ("while", "fori") else draw.choice((0, 1))
        return kind, needs, self._some(depth + 1) if depth < 3 else []


def _holds(steps, kind):
    return any(step[0] == kind or _holds(step[2], kind) for step in steps)


def answer(steps, c, w):
    for kind, needs, inside in steps:

        def body(c, inside=inside):
            return answer(inside, c, w)

        if kind == "rules":
            c = hooked(needs, c, w) if isinstance(needs, Hook) else called(needs, c, w)
        elif kind == "scan":
            for x in TIMES:
                c = body(add(c, x))
        elif kind in ("while", "fori"):
            for _ in range(needs):
                c = body(c)
        elif kind == "map":
            total = 0.0
            for x in TIMES:
                total = add(total, body(add(c, x)))
            c = total
        elif kind in ("cond", "switch"):
            c = body(c) if needs else mul(c, w)
        elif kind == "associative":
            rows = [add(c, x) for x in TIMES]
            c = rows[0]
            for row in rows[1:]:
                c = add(body(c), row)
        elif kind in ("checkpoint", "call") or kind.startswith("region"):
            c = body(c)
        elif kind == "no_grad":
            c = add(c, answer(inside, constant(c), constant(w)))
        elif kind == "grad":
            c = add(c, mul(0.5, grad(lambda c, w: body(c))(c, w)))
        elif kind == "grad in no_grad":
            still = constant(w)
            c = add(c, grad(lambda c, _, inside=inside, w=still: answer(inside, c, w))(constant(c), still))
        else:
            raise AssertionError(kind)
        c = add(sin(c), mul(w, 0.1))
    return c
