"""Captures that are cut. Where Python asks a value of an un-jitted derivative for its elements (if, while,
float, int, item), what was recorded so far is a part: it is run, and the capture goes on with the numbers. A
program is its parts then, one after the other, each with the half of its derivative that runs with it; the
other halves run along the parts, backwards for a vjp. Nothing is computed twice, and nothing is kept for
other calls, which may take another way."""

import functools
import re
import weakref

from . import _core
from ._ops import add, zeros_like

_FLOATS = ("f16", "bf16", "f32", "f64")
_OFTEN, _MUCH = 64, 16384  # uses of a program, and elements, from which on it is compiled
_MOST_PROGRAMS = 512
_LOOP = re.compile(r"= (while_loop|scan|map|fori_loop|associative_scan)\b")


# ---- running parts ----


def run(function, operands):
    """The results of a part: recorded where a program is being captured around it, else run. Machine code is
    made of what is used often or takes long: a part is often as it is for one call alone."""
    if _core.tracing():
        return function.call(operands)
    known = _programs(function)
    known.uses += 1
    if known.loops or known.uses > _OFTEN or sum(x.size for x in operands) >= _MUCH:
        return derived(function, "compile").run(operands)
    return function.interpret(operands)


class _Program:
    """What is known of a program of this text: how often it ran, and what was derived of it."""

    __slots__ = ("uses", "loops", "made")

    def __init__(self, text):
        self.uses, self.made = 0, {}
        self.loops = _LOOP.search(text) is not None


def _programs(function):
    return _program_of(function.text()) if not function.callbacks else _Program(function.text())


@functools.lru_cache(_MOST_PROGRAMS)
def _program_of(text):
    return _Program(text)


def derived(function, method, *how):
    """What this method of the function gives, made once for parts that are the same."""
    made = _programs(function).made
    if (method, *how) not in made:
        made[method, *how] = getattr(function, method)(*how)
    return made[method, *how]


# ---- parts ----


class Step:
    """A part with the second half of its derivative. Arrays have numbers, their slots, so that steps keep
    none. moved: which operands have a derivative; floats: which values."""

    __slots__ = ("second", "operands", "values", "saved", "moved", "floats")

    def __init__(self, second, operands, values, saved, moved, floats):
        self.second, self.operands, self.values, self.saved = second, operands, values, saved
        self.moved = [operands[i] for i in moved]
        self.floats = [values[i] for i in floats]

    def run(self, arrays, directions):
        kept = [arrays[i] for i in (*self.operands, *self.values, *self.saved)]
        return run(self.second, [*kept, *directions])


class Parts:
    """What a capture that may be cut is given: called at a cut, it runs the part in front of it.
    moved(leaves): numbers of those that are differentiated, asked for at the first cut."""

    def __init__(self, moved):
        self._moved, self.was_cut = moved, False

    def begin(self, leaves):
        """The leaves as the capture takes them: each an array of its own, also where two are the same."""
        self._leaves = [x._alias() for x in leaves]
        return self._leaves

    def __call__(self, function, operands):
        if not self.was_cut:
            self.was_cut = True
            self._start([self._leaves[i] for i in self._moved(self._leaves)])
        return self.run(function, operands)

    def run(self, function, operands):
        """The results of a part."""
        moved = [i for i, x in enumerate(operands) if self._moving(x)]
        floats = [i for i, r in enumerate(function.results) if is_float(r)]
        if moved and floats:
            return self._differentiated(function, operands, moved, floats)
        return run(function, operands)


class Halves(Parts):
    """In two halves, of which the first runs with the part. how: "vjp", or "jvp" for a linear function."""

    def __init__(self, how, moved):
        super().__init__(moved)
        self._how, self.arrays = how, []
        self._steps, self._slots, self._active = [], {}, set()

    def _start(self, leaves):
        self._ins = [self._slot(x) for x in leaves]
        self._active.update(self._ins)

    def _slot(self, x):
        """The number of an array that is kept."""
        if id(x) not in self._slots:
            self._slots[id(x)] = len(self.arrays)
            self.arrays.append(x)
        return self._slots[id(x)]

    def _moving(self, x):
        return self._slots.get(id(x)) in self._active

    def _differentiated(self, function, operands, moved, floats):
        n_in, n = len(operands), len(function.results)
        first, second = derived(function, "halves", self._how, _numbers(moved))
        out = run(first, operands)
        slots = [self._slot(x) for x in (*operands, *out)]
        self._steps.append(
            Step(second, slots[:n_in], slots[n_in : n_in + n], slots[n_in + n :], moved, floats)
        )
        self._active.update(self._steps[-1].floats)
        return out[:n]

    def along(self, values):
        """What goes on along all parts, whose last values these are."""
        outs = [self._slots.get(id(x)) for x in values if x.dtype.kind == "f"]
        return Along(self._how, len(self.arrays), self._steps, self._ins, outs)


class Tangents(Parts):
    """Forwards at once. tangents(leaves): of those that are differentiated."""

    def __init__(self, moved, tangents):
        super().__init__(moved)
        self._tangents, self._of = tangents, {}

    def _start(self, leaves):
        for x, tangent in zip(leaves, self._tangents(self._leaves)):
            self._move(x, tangent)

    def _move(self, x, tangent):
        """Keeps a tangent as long as there is the array that moves so."""
        of, key = self._of, id(x)
        of[key] = weakref.ref(x, lambda _: of.pop(key, None)), tangent

    def _moving(self, x):
        return id(x) in self._of

    def _differentiated(self, function, operands, moved, floats):
        n = len(function.results)
        program = derived(function, "transform", "jvp", _numbers(moved))
        out = run(program, [*operands, *(self.of(operands[i]) for i in moved)])
        for i, tangent in zip(floats, out[n:]):
            self._move(out[i], tangent)
        return out[:n]

    def of(self, x):
        """The tangent of an array; None: it does not depend on the leaves."""
        return self._of[id(x)][1] if id(x) in self._of else None


def is_float(type_text):
    return type_text.partition("[")[0] in _FLOATS


def _numbers(positions):
    return ", ".join(f"#{i}" for i in positions)


class Along:
    """The second halves of the parts, one after the other: as a program it takes the operands and values of
    the function, the arrays of the parts and directions. ins: slots of the leaves that are differentiated;
    outs: of the values that are floats, None for one that does not depend on them."""

    __slots__ = ("_how", "_n_arrays", "_steps", "_ins", "_outs")

    def __init__(self, how, n_arrays, steps, ins, outs):
        self._how, self._n_arrays, self._steps, self._ins, self._outs = how, n_arrays, steps, ins, outs

    def compile(self):
        return self

    def call(self, given):
        n = len(given) - len(self._outs if self._how == "vjp" else self._ins)
        arrays, directions = given[n - self._n_arrays : n], given[n:]
        return (self._backwards if self._how == "vjp" else self._forwards)(arrays, directions)

    run = call

    def _backwards(self, arrays, cotangents):
        found = dict(zip(self._outs, cotangents))
        for step in reversed(self._steps):
            given = [found.pop(s, None) for s in step.floats]
            if all(c is None for c in given):
                continue
            given = [zeros_like(arrays[s]) if c is None else c for s, c in zip(step.floats, given)]
            for s, c in zip(step.moved, step.run(arrays, given)):
                found[s] = add(found[s], c) if s in found else c
        return [found[s] if s in found else zeros_like(arrays[s]) for s in self._ins]

    def _forwards(self, arrays, tangents):
        found = dict(zip(self._ins, tangents))
        for step in self._steps:
            given = [found.get(s) for s in step.moved]
            if all(d is None for d in given):
                continue
            given = [zeros_like(arrays[s]) if d is None else d for s, d in zip(step.moved, given)]
            found.update(zip(step.floats, step.run(arrays, given)))
        return [found.get(s) for s in self._outs]
