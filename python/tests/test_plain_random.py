"""Random functions of plain Python (plain_programs.py): under jit they give what Python gives, gradients are
those of differences and of grad without jit, batches are a loop.

HOP_TEST_SEED=N runs the program of that seed alone, HOP_TEST_SEEDS=N that many, HOP_TEST_FIRST=N from that
one on. What fails is made small and printed with its seed."""

import os
import random
import unittest

import hop
import plain_programs
from support import Case, needs_numpy, numpy

SEEDS = int(os.environ.get("HOP_TEST_SEEDS", "1000" if os.environ.get("HOP_TEST_SOAK") else "40"))
FIRST = int(os.environ.get("HOP_TEST_FIRST", "0"))
STEP = 1e-6


class Difference(Exception):
    pass


def arguments(seed, kind, length):
    """(a, b, v) of four calls, as Python takes them."""
    draw = random.Random(seed)
    for _ in range(4):
        b = draw.randint(-6, 12)
        if kind == "real":
            yield draw.uniform(-2, 2), b, [draw.uniform(-2, 2) for _ in range(length)]
        else:
            kind_of = int if kind == "int" else float
            yield kind_of(draw.randint(-9, 15)), b, [kind_of(draw.randint(-9, 15)) for _ in range(length)]


def leaves(x):
    """The numbers of a result, in order."""
    if isinstance(x, dict):
        return [n for key in sorted(x) for n in leaves(x[key])]
    if isinstance(x, (list, tuple)):
        return [n for y in x for n in leaves(y)]
    return leaves(x.tolist()) if hasattr(x, "tolist") else [x]


def total(out):
    """One number of a result, in which every part counts."""
    parts, sum_ = hop.tree.leaves(out), 0.0
    for i, part in enumerate(parts):
        sum_ = sum_ + (1 + 0.5 * i) * hop.sum(hop.asarray(part))
    return sum_


def plain_total(out):
    parts = hop.tree.leaves(out)
    return float(sum((1 + 0.5 * i) * numpy.sum(part) for i, part in enumerate(parts)))


class Attempt:
    """One program, in Python and in hop."""

    def __init__(self, text, seed, kind, length):
        self.text, self.seed, self.kind = text, seed, kind
        self.reference = plain_programs.loaded(text, f"<plain program {seed}, Python>", numpy)
        self.function = plain_programs.loaded(text, f"<plain program {seed}>", hop)
        self.calls = list(arguments(seed, kind, length))
        self.kinks = 0
        # machine code takes most of the time, and is no part of what is asked here; numbers that are equal by
        # chance would not be so with a product and a sum that are rounded once
        self.options = {"portable": seed % 6 != 0, "strict": True}

    def plain(self, call):
        a, b, v = call
        kinds = {"int": numpy.int64, "whole": numpy.float32, "real": numpy.float64}
        with numpy.errstate(all="ignore"):
            return self.reference(a, b, numpy.array(v, dtype=kinds[self.kind]))

    def given(self, call):
        a, b, v = call
        kind = {"int": hop.int64, "whole": hop.float32, "real": hop.float64}[self.kind]
        return hop.asarray(a, dtype=kind), hop.asarray(b), hop.asarray(v, dtype=kind)

    def tolerance(self, out):
        """Whole numbers are exact; one of hop's float32 is a Python number that met no array."""
        if self.kind != "real":
            return 0
        return 1e-6 if any(x.dtype == hop.float32 for x in map(hop.asarray, hop.tree.leaves(out))) else 1e-9

    def compare(self, what, found, expected, tolerance):
        if len(found) != len(expected):
            raise Difference(f"{what}: {found} against {expected}")
        for x, y in zip(found, expected):
            if not abs(x - y) <= tolerance * max(1, abs(y)) and not (x != x and y != y):
                raise Difference(f"{what}: {found} against {expected}")

    def values(self):
        f = hop.jit(self.function, **self.options)
        for call in self.calls:
            out = f(*self.given(call))
            self.compare(f"f{call}", leaves(out), leaves(self.plain(call)), self.tolerance(out))

    def batch(self):
        lanes = [hop.stack(list(of_one)) for of_one in zip(*map(self.given, self.calls))]
        out = hop.jit(hop.vmap(self.function), **self.options)(*lanes)
        for i, call in enumerate(self.calls):
            lane = hop.tree.map(lambda x: x[i], out)  # noqa: B023
            expected = leaves(self.plain(call))
            self.compare(f"lane {i} of vmap, f{call}", leaves(lane), expected, self.tolerance(out))

    def gradients(self):
        def loss(a, b, v):
            return total(self.function(a, b, v))

        at_once = hop.grad(loss, argnums=(0, 2))
        compiled = hop.jit(at_once, **self.options)
        for call in self.calls[:2]:
            of_a, of_v = compiled(*self.given(call))
            found = [of_a.item(), *of_v.tolist()]
            if self.seed % 6 == 0:
                again = leaves(at_once(*self.given(call)))
                self.compare(f"grad without jit, f{call}", again, found, 1e-9)
            for i in random.Random(self.seed).sample(range(len(found)), 3):
                slopes = [self.slope(call, i, step) for step in (STEP, STEP / 4)]
                if abs(slopes[0] - slopes[1]) > 1e-4 * max(1, abs(slopes[0])):
                    self.kinks += 1
                    continue
                self.compare(f"slope {i}, f{call}", [found[i]], slopes[:1], 1e-4)

    def slope(self, call, i, step):
        def at(change):
            a, b, v = call
            if i == 0:
                return plain_total(self.plain((a + change, b, v)))
            return plain_total(self.plain((a, b, [x + change * (k == i - 1) for k, x in enumerate(v)])))

        return (at(step) - at(-step)) / (2 * step)

    def run(self, everything):
        self.values()
        if self.kind == "real":
            self.gradients()
        if everything or self.seed % 4 == 0:
            self.batch()


def kind_of_failure(text, seed, program, everything):
    """What goes wrong, less its details; None when nothing does, or when Python itself raises something."""
    try:
        made = Attempt(text, seed, program.kind, program.length)
        for call in made.calls:
            made.plain(call)
    except Exception:
        return None
    try:
        made.run(everything)
    except Difference as error:
        return str(error).partition(":")[0].partition("f(")[0]
    except Exception as error:
        return type(error)
    return None


@needs_numpy
class Random(Case):
    def test_programs(self):
        one = os.environ.get("HOP_TEST_SEED")
        kinks = 0
        for seed in [int(one)] if one else range(FIRST, FIRST + SEEDS):
            program = plain_programs.Program(seed)
            attempt = Attempt(program.text, seed, program.kind, program.length)
            everything = bool(one)
            try:
                attempt.run(everything)
            except Exception as error:
                failed = kind_of_failure(program.text, seed, program, everything)
                small = plain_programs.smallest(
                    program.text,
                    lambda text: kind_of_failure(text, seed, program, everything) == failed,  # noqa: B023
                )
                with self.subTest(seed=seed):
                    said = f"{type(error).__name__}: {error}"
                    self.fail(f"HOP_TEST_SEED={seed} ({program.kind}): {said}\n{small}")
            kinks += attempt.kinks
        self.assertLessEqual(kinks, max(3, SEEDS // 20), "slopes at kinks")


if __name__ == "__main__":
    unittest.main()
