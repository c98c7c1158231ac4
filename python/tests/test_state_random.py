"""Random programs that read state (state_programs.py), whose state changes between calls: whatever changed,
jit(f) gives what f gives; what is changed back is not captured again, nor is what f does not read.
HOP_TEST_SEED=N runs the program of that seed alone, HOP_TEST_SEEDS=N that many. A failure prints the
smallest part of the program that fails, and the changes that lead there."""

import collections
import dataclasses
import functools
import os
import random
import re
import types
import unittest

import hop
import state_programs
from support import Case, counted_captures, numpy

SEEDS = int(os.environ.get("HOP_TEST_SEEDS", "2000" if os.environ.get("HOP_TEST_SOAK") else "120"))


def outcome(function, x, disable=False):
    """What a call gives, or the class of what it raises."""
    try:
        with hop.disable_jit(disable):
            return function(x)
    except Exception as error:
        return type(error)


def differ(a, b):
    """Why two outcomes are not the same, or None."""
    if isinstance(a, type) or isinstance(b, type):
        return None if a == b else f"jit gives {a}, the function {b}"
    leaves, others = hop.tree.leaves(a), hop.tree.leaves(b)
    if hop.tree.structure(a) != hop.tree.structure(b):
        return f"jit gives {a}, the function {b}"
    for found, expected in zip(leaves, others):
        found, expected = hop.asarray(found), hop.asarray(expected)
        if found.shape != expected.shape or found.dtype != expected.dtype:
            return f"jit gives {found!r}, the function {expected!r}"
        wrong = hop.abs(found.astype(hop.float64) - expected.astype(hop.float64))
        bound = 1e-4 * (1 + hop.abs(expected.astype(hop.float64)))
        if found.size and not hop.all((wrong <= bound) | (hop.isnan(found) & hop.isnan(expected))).item():
            return f"jit gives {found!r}, the function {expected!r}"
    return None


@dataclasses.dataclass
class Change:
    """One step of a run. claim: "equal" alone, or that nothing is captured either. number: the same for a
    change and what undoes it."""

    site: object
    statement: str
    claim: str
    number: int


def steps_of(program, seed):
    """The changes of a run: some, each undone later, the last one first, and changes of unrelated state."""
    rng, out, number = random.Random(seed + 1), [], 0

    def change(sites):
        nonlocal number
        site = rng.choice(sites)
        number += 1
        own = number
        # a change inside of another keeps what was there under a name of its own
        statement, undo = [
            re.sub(r"\b(saved|kept)\b", rf"\1_{number}", text) for text in rng.choice(site.changes)
        ]
        others = [s for s in sites if s is not site]
        out.append(Change(site, statement, "equal", own))
        if others and rng.random() < 0.4:
            change(others)
        out.append(Change(site, undo, "kept", own))
        if site.unrelated and rng.random() < 0.7:
            number += 1
            out.append(Change(site, rng.choice(site.unrelated), "unrelated", number))

    for _ in range(rng.choice([1, 2, 3])):
        change(program.sites)
    return out


# how f comes under jit
WAYS = [
    lambda f: hop.jit(f),
    lambda f: hop.jit(f),
    lambda f: hop.jit(lambda x: f(x)),
    lambda f: hop.jit(functools.partial(f)),
    lambda f: hop.jit(hop.checkpoint(f)),
    lambda f: lambda x: hop.jit(f)(x),
    lambda f: hop.jit(types.MethodType(lambda self, x: self(x), f)),
]
ARGUMENTS = [
    hop.asarray([0.5, 1.25, 2.0]),
    hop.asarray([0.5, 1.25, 2.0, 4.0]),
    hop.asarray([0.5, 1.25, 2.0, 3.0, 2.5]),
    hop.asarray([1, 2, 3]),
]


def call(compiled, f, x, claim):
    """What is wrong with a call, or None."""
    with counted_captures() as lines:
        found = outcome(compiled, x)
    expected = outcome(f, x, disable=True)
    wrong = differ(found, expected)
    if not wrong and lines and claim != "equal" and not isinstance(found, type):
        wrong = f"{claim} state was captured again: {lines[0]}"
    if not wrong:
        with counted_captures() as lines:
            wrong = differ(outcome(compiled, x), expected)
        if lines and not isinstance(found, type):
            wrong = f"nothing changed, and was captured again: {lines[0]}"
    if not wrong:  # an inner jit is made anew by each call, from the same code
        wrong = differ(outcome(f, x), expected)
        wrong = wrong and f"{wrong} (of an inner jit)"
    return wrong


def run(program, steps):
    """(what failed, the steps up to there) or None."""
    space = program.load()
    try:
        f, x, rng = space["f"], ARGUMENTS[0], random.Random(program.seed + 2)
        compiled = rng.choice(WAYS)(f)
        for i, step in enumerate([Change(None, "", "equal", 0), *steps]):
            exec(step.statement, space)
            wrong = call(compiled, f, x, step.claim)
            if not wrong and rng.random() < 0.2:  # other arguments in between
                wrong = call(compiled, f, rng.choice(ARGUMENTS[1:]), "equal")
            if wrong:
                return wrong, steps[:i]
    finally:
        program.unload()
    return None


def smallest(program, steps, failure):
    """Fewer sites and steps that fail as well."""
    for site in program.sites:
        alone = dataclasses.replace(program, sites=[site])
        fewer = [s for s in steps if s.site is site]
        found = run(alone, fewer)
        if found:
            program, steps, failure = alone, found[1], found
            break
    for number in {step.number for step in steps}:
        found = run(program, [step for step in steps if step.number != number])
        if found:
            steps, failure = found[1], found
    return program, steps, failure[0]


def report(seed, program, steps, wrong):
    said = [f"seed {seed}: {wrong}", *[site.about for site in program.sites], program.text(), "# changes"]
    return "\n".join([*said, *[f"{step.statement}    # {step.claim}" for step in steps]])


class State(Case):
    def attempt(self, seed):
        program = state_programs.make(seed, numpy is not None)
        steps = steps_of(program, seed)
        failure = run(program, steps)
        if failure:
            program, steps, wrong = smallest(program, failure[1], failure)
            with self.subTest(seed=seed):
                self.fail(report(seed, program, steps, wrong))
        return program

    def test_changed_state(self):
        one, words = os.environ.get("HOP_TEST_SEED"), collections.Counter()
        for seed in [int(one)] if one else range(SEEDS):
            for site in self.attempt(seed).sites:
                words[site.about.split()[0]] += 1
        if not one and SEEDS >= 120:
            self.assertGreater(len(words), 15, "kinds of state that programs read")


if __name__ == "__main__":
    unittest.main()
