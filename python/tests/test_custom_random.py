"""Random programs that call functions with rules of their own in loops, branches, regions and modes, and
every ordered pair of these (custom_programs.py): under every order of transforms they give what an
interpreter without hop gives, with the rule that has to run there. The same of hooks on gradients, with what
those of the host are called with.

HOP_TEST_SEED=N runs the program of that seed alone, HOP_TEST_SEEDS=N that many, HOP_TEST_FIRST=N from that
one on."""

import os
import random
import unittest

import custom_programs
import hop
from custom_programs import LOOPS, TIMES, Program, answer
from support import Case

SOAK = bool(os.environ.get("HOP_TEST_SOAK"))
SEEDS = int(os.environ.get("HOP_TEST_SEEDS", "1000" if SOAK else "20"))
FIRST = int(os.environ.get("HOP_TEST_FIRST", "0"))
MODES = ("no_grad", "grad in no_grad") if hasattr(hop, "no_grad") else ()
KINDS = (*LOOPS, "region", "grad", *MODES)

# ---- the program in hop ----


def with_rules(rules):
    def scaled(factor, c, w):
        return factor * hop.sin(c) * w

    if rules.has == ("vjp",):

        @hop.custom_vjp
        def f(c, w):
            return scaled(rules.body, c, w)

        def forward(c, w):
            return scaled(rules.forward, c, w), (c, w)

        def backward(saved, ct):
            c, w = saved
            return rules.by_c * hop.cos(c) * w * ct, rules.by_w * hop.sin(c) * ct

        f.defvjp(forward, backward)
        return f

    if rules.has == ("batch",):

        @hop.custom_vmap
        def f(c, w):
            return scaled(rules.body, c, w)

        @f.def_vmap
        def over_lanes(axis_size, in_batched, c, w):
            return scaled(rules.batch, c, w), True

        return f

    @hop.custom_jvp
    def f(c, w):
        return scaled(rules.body, c, w)

    @f.defjvp
    def push(primals, tangents):
        (c, w), (dc, dw) = primals, tangents
        return scaled(rules.value, c, w), rules.slope * (hop.cos(c) * w * dc + hop.sin(c) * dw)

    return f


noted = []


def note(g):
    noted.append(g.item())


def with_hook(hook, c, w):
    factor = hook.factor
    if hook.how == "host":
        return hop.hook(c, note, host=True)
    if hook.how == "state":
        state = hop.asarray(factor, dtype=hop.float64), w
        return hop.hook(c, lambda s, g: s[0] * g, state=state, when=hop.sin(w) ** 2 >= 0)
    if hook.how == "off":
        return hop.hook(c, lambda g: 100 * g, when=hop.sin(w) ** 2 > 2)
    functions = {"scale": lambda g: factor * g, "square": lambda g: factor * g * g}
    return hop.hook(c, functions.get(hook.how, lambda g: factor * w * g))


def in_hop(steps, c, w):
    times = hop.asarray(TIMES, dtype=hop.float64)
    for kind, needs, inside in steps:

        def body(c, inside=inside):
            return in_hop(inside, c, w)

        if kind == "rules":
            c = with_hook(needs, c, w) if isinstance(needs, custom_programs.Hook) else with_rules(needs)(c, w)
        elif kind == "scan":
            c = hop.scan(lambda c, x: (body(c + x), None), c, times)[0]
        elif kind == "while":
            start = c, hop.asarray(0)
            c = hop.while_loop(lambda s: s[1] < needs, lambda s: (body(s[0]), s[1] + 1), start)[0]
        elif kind == "fori":
            c = hop.fori_loop(0, needs, lambda i, c: body(c), c)
        elif kind == "map":
            c = hop.sum(hop.map(lambda x: body(c + x), times))
        elif kind == "cond":
            c = hop.cond(hop.asarray(needs == 1), body, lambda c: c * w, c)
        elif kind == "switch":
            c = hop.switch(hop.asarray(needs), [lambda c: c * w, body], c)
        elif kind == "associative":
            c = hop.associative_scan(lambda a, b: body(a) + b, c + times)[-1]
        elif kind == "checkpoint":
            c = hop.checkpoint(body)(c)
        elif kind == "call":
            c = hop.jit(body)(c)
        elif kind.startswith("region"):
            c = hop.region(needs[0], **needs[1])(body)(c)
        elif kind == "no_grad":
            with hop.no_grad():
                d = body(c)
            c = c + d
        elif kind == "grad":
            c = c + 0.5 * hop.grad(body)(c)
        elif kind == "grad in no_grad":
            with hop.no_grad():
                d = hop.grad(body)(c)
            c = c + d
        c = hop.sin(c) + w * 0.1
    return c


def tangent(f):
    return lambda c, w: hop.jvp(f, (c, w), (w, w * 0.25))[1]


def lanes(f):
    shifts = hop.asarray([shift for shift, _ in custom_programs.LANES], dtype=hop.float64)
    weights = hop.asarray([weight for _, weight in custom_programs.LANES], dtype=hop.float64)
    return lambda c, w: hop.sum(weights * hop.vmap(f, in_axes=(0, None))(c + shifts, w))


TRANSFORMS = {
    "grad": (hop.grad, custom_programs.grad),
    "jvp": (tangent, custom_programs.tangent),
    "vmap": (lanes, custom_programs.lanes),
}
# of the last one first: grad of vmap is ("vmap", "grad")
ORDERS = (
    (), ("grad",), ("jvp",), ("vmap",), ("grad", "grad"), ("grad", "vmap"), ("vmap", "grad"), ("grad", "jvp"),
    ("jvp", "grad"), ("vmap", "jvp"), ("jvp", "vmap"), ("vmap", "vmap"),
)  # fmt: skip


def transformed(program, seed, orders):
    """(order, the program in hop, its answer, numbers to call both with) for each order of transforms."""
    draw = random.Random(seed)
    for order in orders:
        derivatives = program.derivatives() + sum(name != "vmap" for name in order)
        if program.again and derivatives > 1:
            continue
        here, there = lambda c, w: in_hop(program.steps, c, w), lambda c, w: answer(program.steps, c, w)
        for name in order:
            here, there = TRANSFORMS[name][0](here), TRANSFORMS[name][1](there)
        yield order, here, there, (draw.uniform(-1, 1), draw.uniform(0.5, 1.5))


def as_arrays(numbers):
    return [hop.asarray(x, dtype=hop.float64) for x in numbers]


class CustomRandom(Case):
    def held(self, program, seed, orders, what):
        for order, here, there, numbers in transformed(program, seed, orders):
            given, expected = as_arrays(numbers), there(*numbers)
            found = {"in Python": here} if seed % 4 == 0 else {}
            # machine code takes most of the time
            found["portable"] = hop.jit(here, portable=True)
            if seed % 8 == 1:
                found["jit"] = hop.jit(here)
            for how, f in found.items():
                x = float(f(*given))
                if not abs(x - expected) <= 1e-9 * max(1.0, abs(expected)):
                    self.fail(f"{what}, {' of '.join(reversed(order)) or 'itself'}, {how}: "
                              f"{x!r}, expected {expected!r}\n{shown(program.steps)}")  # fmt: skip

    def test_random(self):
        seeds = range(FIRST, FIRST + SEEDS)
        if "HOP_TEST_SEED" in os.environ:
            seeds = [int(os.environ["HOP_TEST_SEED"])]
        for seed in seeds:
            orders = ORDERS if SOAK else [ORDERS[(seed + k) % len(ORDERS)] for k in (0, 5)]
            self.held(Program(seed, KINDS), seed, orders, f"seed {seed}")

    def test_pairs(self):
        kinds = (*LOOPS, "region", *MODES)
        for i, kind in enumerate(kinds):
            for k, pair in enumerate(((kind, "rules"), (kind, "region"), ("region", kind))):
                orders = ORDERS if SOAK else ORDERS[(i + k) % 3 :: 3]
                self.held(Program(i, LOOPS, *pair), i, orders, f"{pair[1]} in {pair[0]}")


class HooksRandom(Case):
    """The same of hooks on gradients. What the host notes is the same however the program is run, also in its
    order; and it is what the answer's interpreter noted, which knows lanes and trips in another order."""

    def held(self, program, seed, orders, what):
        for order, here, there, numbers in transformed(program, seed, orders):
            given, logs = as_arrays(numbers), {}
            custom_programs.seen.clear()
            expected = there(*numbers)
            try:
                interpreted = hop.jit(here).lower(*given).function.interpret
            except hop.InvalidError as error:
                # trips of a loop that nothing else knows, inside of another one, are not kept
                if "effects would happen twice" in str(error) and "while" in shown(program.steps):
                    continue
                raise
            ways = {
                "interpreted": interpreted,
                "portable": hop.jit(here, portable=True),
                "in Python": here,
                "jit": hop.jit(here),
            }
            if not SOAK and seed % 4:
                del ways["in Python"], ways["jit"]
            text = f"{what}, {' of '.join(reversed(order)) or 'itself'}"
            for how, f in ways.items():
                noted.clear()
                x = float(f(*given))
                logs[how] = list(noted)
                if x != expected and not abs(x - expected) <= 1e-9 * max(1.0, abs(expected)):
                    self.fail(f"{text}, {how}: {x!r}, expected {expected!r}\n{shown(program.steps)}")
            for how, log in logs.items():
                self.close(log, logs["interpreted"], 1e-8)
            text = f"{text}:\n{shown(program.steps)}\n{logs['interpreted']}\n{custom_programs.seen}"
            self.assertEqual(len(logs["interpreted"]), len(custom_programs.seen), text)
            for a, b in zip(sorted(logs["interpreted"]), sorted(custom_programs.seen)):
                self.assertLessEqual(abs(a - b), 1e-8 * max(1.0, abs(b)), text)

    def test_random(self):
        seeds = range(FIRST, FIRST + SEEDS)
        if "HOP_TEST_SEED" in os.environ:
            seeds = [int(os.environ["HOP_TEST_SEED"])]
        kinds = tuple(kind for kind in KINDS if kind != "associative")
        for seed in seeds:
            orders = ORDERS if SOAK else [ORDERS[(seed + k) % len(ORDERS)] for k in (1, 4)]
            program = Program(seed, kinds, hooks=custom_programs.HOOKS)
            self.held(program, seed, orders, f"seed {seed}")

    def test_every_place_under_every_pair(self):
        kinds = (*[kind for kind in LOOPS if kind != "associative"], "region", *MODES)
        for i, kind in enumerate(kinds):
            for k, how in enumerate(("host", "square")):
                orders = ORDERS if SOAK else ORDERS[(i + k) % 2 :: 2]
                program = Program(i, LOOPS[:2], kind, "rules", hooks=(how,))
                self.held(program, i if k else 4 * i + 1, orders, f"{how} in {kind}")


def shown(steps, depth=0):
    lines = []
    for kind, needs, inside in steps:
        needs = vars(needs) if kind == "rules" else needs
        lines.append(f"{'    ' * depth}{kind} {needs}")
        lines.append(shown(inside, depth + 1))
    return "\n".join(line for line in lines if line)


if __name__ == "__main__":
    unittest.main()
