"""Profiles: where the time of a compiled program goes, as jit(f).profile(…) measures it."""

import json
import time

from . import _arguments

_FORMS = {".json": "json", ".svg": "svg", ".folded": "folded"}


class Profile:
    """Where the time of a compiled program went: str() and table() are for people, tree for programs, svg()
    is a flame graph, save(path) writes one of them.

    tree: the parts of the program, each with kind, label, place, lines, stack, samples, seconds (of all
    runs), self, share, entered, trips, bytes, operations and the parts inside.

    >>> p = hop.jit(lambda x: hop.sum(hop.exp(x))).profile(hop.ones(100000), runs=5)
    >>> p.runs, p.tree["kind"], p.svg()[:4]
    (5, 'function', '<svg')
    """

    def __init__(self, texts):
        self._table, self._json, self._svg, self._folded = texts
        found = json.loads(self._json)
        self.tree, self.runs, self.samples = found["tree"], found["runs"], found["samples"]
        self.seconds = found["seconds"]

    def table(self):
        """The parts as a table, the largest first; times are those of one run."""
        return self._table

    def json(self):
        """All of it, as JSON."""
        return self._json

    def svg(self):
        """A flame graph, one file without scripts."""
        return self._svg

    def folded(self):
        """A line for each stack, "a;b;c microseconds", which other tools read."""
        return self._folded

    def save(self, path):
        """Writes it to a file: .svg, .json or .folded, else the table."""
        text = str(path)
        form = next((form for end, form in _FORMS.items() if text.endswith(end)), "table")
        with open(path, "w", encoding="utf-8") as file:
            file.write(getattr(self, form)())

    def _repr_svg_(self):
        return self._svg

    def __repr__(self):
        return self._table.rstrip("\n")


def _bounds(seconds, runs):
    number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if not number or not 0 < seconds <= 3600:
        raise _arguments.wrong("profile: seconds", "a number above 0, an hour at most", seconds)
    whole = runs is None or (isinstance(runs, int) and not isinstance(runs, bool) and runs > 0)
    if not whole:
        raise _arguments.wrong("profile: runs", "a number above 0, or None", runs)


def measured(exe, operands, updated, seconds, runs):
    """The profile of runs of a program that was compiled for it."""
    _bounds(seconds, runs)
    exe.profile_begin(0.0)
    try:
        end = time.monotonic() + seconds
        done = 0
        while (done < runs) if runs is not None else (not done or time.monotonic() < end):
            exe.run([x + 0 if i in updated else x for i, x in enumerate(operands)])
            done += 1
    finally:
        texts = exe.profile_end()
    return Profile(texts)
