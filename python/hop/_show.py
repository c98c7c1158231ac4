"""show: a program as a picture. The text of a program becomes a graph in the language of Graphviz, bodies
as boxes in boxes, and `dot` draws it where it is installed."""

__all__ = ["show"]

import re

from ._jit import Compiled, Lowered, jit

_NAME = r'%(?:"(?:[^"\\]|\\.)*"|[\w.]+)'
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_BOUND = re.compile(rf"({_NAME})\s+(?:=|in)\s+({_NAME})")
_ENDS = ("next", "stack", "yield", "test")  # what a body ends with
_LONGEST = 48


def show(f, *args, **named):
    """The program of f for these arguments, to look at: a notebook shows a picture where Graphviz is
    installed, print(...) its text.

    The result has text(), dot() (the graph in Graphviz's language) and svg() (the picture, None without
    Graphviz).

    >>> "sin" in hop.show(lambda x: hop.sin(x) + 1, hop.ones(3)).text()
    True
    """
    if isinstance(f, Lowered):
        return Shown(f.text())
    return Shown((f if isinstance(f, Compiled) else jit(f)).text(*args, **named))


class Shown:
    """A program to look at."""

    def __init__(self, text):
        self._text = text

    def text(self):
        return self._text

    def dot(self):
        """The graph, in Graphviz's language."""
        return _Graph(self._text).dot()

    def svg(self):
        """The picture as SVG; None where Graphviz is not installed or fails."""
        import shutil
        import subprocess

        command = shutil.which("dot")
        if not command:
            return None
        done = subprocess.run([command, "-Tsvg"], input=self.dot().encode(), capture_output=True)
        return done.stdout.decode() if done.returncode == 0 else None

    def _repr_svg_(self):
        return self.svg()

    def __repr__(self):
        return self._text

    __str__ = __repr__


class _Operator:
    """An operator whose bodies are being read."""

    def __init__(self, box, node, results, bindings):
        self.box, self.node, self.results, self.bindings = box, node, results, bindings
        self.plain = list(dict.fromkeys(bindings.values()))
        self.used = set()  # operands that a body's parameter stands for


class _Scope:
    """Names within a function or a body, and its box. operator: whose body it is, None for a function."""

    def __init__(self, outer, operator, box):
        self.outer, self.operator, self.box, self.nodes = outer, operator, box, {}


class _Graph:
    def __init__(self, text):
        self.boxes, self.edges, self.count, self.scope = [], [], 0, None
        for line in text.split("\n"):  # other ends of lines may stand in names
            self.line(line.strip())

    def dot(self):
        head = [
            "digraph program {",
            '  node [shape=box, style="rounded,filled", fillcolor=white, fontname="monospace", fontsize=10];',
            '  graph [fontname="monospace", fontsize=10, compound=true];',
        ]
        return (
            "\n".join(
                [*head, *_flat(self.boxes), *[f"  {a} -> {b};" for a, b in dict.fromkeys(self.edges)], "}"]
            )
            + "\n"
        )

    # -- parts of the graph --

    def node(self, box, label, look=""):
        self.count += 1
        name = f"n{self.count}"
        box.append(f"  {name} [label={_quoted(label)}{look}];")
        return name

    def box(self, inside, label):
        """A box in a box: a list of lines and boxes."""
        self.count += 1
        made = [
            f'  subgraph cluster_{self.count} {{ label={_quoted(label)}; style="rounded,filled"; '
            'fillcolor="#0000000a"; color="#888888";'
        ]
        inside.append(made)
        return made

    def find(self, name, scope=None):
        """The node of a value; a body's parameter gets one when it is first used."""
        scope = scope or self.scope
        if name in scope.nodes:
            return scope.nodes[name]
        at = scope
        while at.outer is not None and name not in at.operator.bindings:
            at = at.outer
            if name in at.nodes:
                return at.nodes[name]
        made = at.nodes[name] = self.node(at.box, name, ", shape=ellipse")
        if at.outer is not None:
            given = at.operator.bindings[name]
            if given is not None:
                at.operator.used.add(given)
                self.edges.append((self.find(given, at.outer), made))
        return made

    # -- lines of the text --

    def line(self, line):
        if line.startswith("fn @"):
            self.scope = _Scope(None, None, self.box(self.boxes, line[3:].split("(", 1)[0].split("[", 1)[0]))
            for name, kind in re.findall(rf"({_NAME}): (\w+\[[^\]]*\])", line.split("->")[0]):
                self.scope.nodes[name] = self.node(
                    self.scope.box, f"{name}: {kind}", ', shape=ellipse, fillcolor="#dbeafe"'
                )
        elif self.scope is None or not line:
            return
        elif line.startswith("}"):
            self.end_body(line)
        elif line.startswith("return"):
            node = self.node(self.scope.box, line.split(" ", 1)[0], ', shape=ellipse, fillcolor="#dcfce7"')
            self.edges += [(self.find(n), node) for n in _names(line)]
        else:
            results, rest = line.split(" = ", 1) if line.startswith("%") and " = " in line else ("", line)
            self.operation(_names(results), rest)

    def operation(self, results, rest):
        word = re.match(r"[\w.]*", rest).group() or rest[:_LONGEST]
        if rest.endswith("{"):
            box = self.box(self.scope.box, word)
            operator = _Operator(box, self.node(box, word, ', fillcolor="#fef3c7"'), results, _bindings(rest))
            self.scope = _Scope(self.scope, operator, self.box(box, ""))
            return
        if word in _ENDS and self.scope.operator is not None:
            node = self.node(self.scope.box, " ".join(re.findall(r"[a-z]+(?=\()", rest)))
            self.edges.append((node, self.scope.operator.node))
        else:
            attributes = re.search(r"\{(.*)\}", rest)
            more = attributes.group(1) if attributes else ""
            callee = re.search(r"@[\w.]+", _STRING.sub("", rest))
            label = " ".join(filter(None, [word, callee and callee.group()]))
            node = self.node(
                self.scope.box,
                label
                + ("\n" + (more if len(more) <= _LONGEST else more[: _LONGEST - 1] + "…") if more else ""),
            )
        self.edges += [(self.find(n), node) for n in _names(rest)]
        self.scope.nodes.update(dict.fromkeys(results, node))

    def end_body(self, line):
        operator = self.scope.operator
        if operator is None:  # of a function
            self.scope = None
            return
        outer = self.scope.outer
        if line.endswith("{"):
            operator.bindings = {**operator.bindings, **_bindings(line)}
            self.scope = _Scope(outer, operator, self.box(operator.box, ""))
            return
        self.scope = outer
        self.edges += [(self.find(n), operator.node) for n in operator.plain if n not in operator.used]
        outer.nodes.update(dict.fromkeys(operator.results, operator.node))


def _flat(parts):
    """The lines of boxes in boxes."""
    for part in parts:
        if isinstance(part, str):
            yield part
        else:
            yield from _flat(part)
            yield "  }"


def _names(text):
    return re.findall(_NAME, re.sub(r'(?<!%)"(?:[^"\\]|\\.)*"', "", text))


def _bindings(text):
    """What a body's names stand for: {inside: outside}; both are the same where the text gives one."""
    renamed = dict(_BOUND.findall(text))
    outside = set(renamed.values())
    return {**{n: n for n in _names(text) if n not in renamed and n not in outside}, **renamed}


def _quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
