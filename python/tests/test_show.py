"""hop.show and HOP_LOG: programs as graphs, a line per compilation."""

import contextlib
import io
import os
import re
import stat
import tempfile
import unittest
from unittest import mock

import hop
from support import Case


def model(x, ws):
    def step(c, w):
        return hop.cond(hop.sum(c) > 0, lambda c: hop.tanh(w @ c), lambda c: c * 2, c), hop.sum(c)

    c, ys = hop.scan(step, x, ws)
    return hop.while_loop(lambda c: hop.max(c) < 3, lambda c: c + 1, c), hop.fori_loop(
        0, 3, lambda i, s: s + i.astype(hop.float32), ys.sum()
    )


def graph(shown):
    """(labels of nodes, edges, boxes of each node) of a graph; fails when it is not well formed."""
    labels, edges, boxes, open_boxes = {}, [], {}, []
    for line in shown.dot().splitlines()[1:-1]:
        line = line.strip()
        node = re.fullmatch(r'(n\d+) \[label="((?:[^"\\]|\\.)*)"(?:, [a-z]+=(?:\w+|"[^"]*"))*\];', line)
        edge = re.fullmatch(r"(n\d+) -> (n\d+);", line)
        box = re.match(r'subgraph cluster_\d+ \{ label="([^"]*)";', line)
        if node:
            labels[node[1]], boxes[node[1]] = node[2], [b for b in open_boxes if b]
        elif edge:
            edges.append((edge[1], edge[2]))
        elif box:
            open_boxes.append(box[1])
        elif line == "}":
            open_boxes.pop()
        elif not line.startswith(("node [", "graph [")):
            raise AssertionError(line)
    assert not open_boxes and all(n in labels for e in edges for n in e)
    return labels, edges, boxes


class Graphs(Case):
    def test_straight(self):
        shown = hop.show(lambda x, y: hop.sin(x) * y, hop.ones(3), hop.ones(3))
        labels, edges, _ = graph(shown)
        self.assertEqual(
            {(labels[a], labels[b]) for a, b in edges},
            {("%x: f32[3]", "sin"), ("sin", "mul"), ("%y: f32[3]", "mul"), ("mul", "return")},
        )
        self.assertEqual(str(shown), shown.text())
        self.assertIn("sin(%x)", repr(shown))

    def test_bodies(self):
        shown = hop.show(model, hop.ones(3), hop.ones((4, 3, 3)))
        labels, edges, boxes = graph(shown)
        named = {v: k for k, v in labels.items()}
        self.assertEqual(boxes[named["tanh"]], ["@model", "scan", "switch"])
        self.assertEqual(boxes[named["reduce_max"]], ["@model", "while_loop"])
        self.assertEqual(boxes[named["return"]], ["@model"])
        reached, todo = set(), [named["%ws: f32[4, 3, 3]"]]
        while todo:
            n = todo.pop()
            if n not in reached:
                reached.add(n)
                todo += [b for a, b in edges if a == n]
        self.assertLessEqual(
            {named["matmul"], named["tanh"], named["scan"], named["while_loop"], named["return"]}, reached
        )

    def test_what_can_be_shown(self):
        x = hop.ones(3)
        f = hop.jit(lambda x: hop.check(hop.all(x > 0), 'a "quoted" } {') or hop.checkpoint(hop.sin)(x))
        for shown in (
            hop.show(f, x),
            hop.show(f.lower(x)),
            hop.show(hop.grad(lambda v: hop.sum(f(v))), x),
            hop.show(hop.vmap(f), hop.ones((2, 3))),
            hop.show(hop.jit(model), x, hop.ones((4, 3, 3))),
        ):
            labels, edges, _ = graph(shown)
            self.assertIn("return", labels.values())
            self.assertTrue(edges)
        labels, _, _ = graph(hop.show(hop.grad(lambda v: hop.sum(model(v, hop.ones((4, 3, 3)))[0])), x))
        self.assertIn("scan", labels.values())

    def test_pictures(self):
        shown = hop.show(hop.sin, hop.ones(3))
        with tempfile.TemporaryDirectory() as folder:
            with mock.patch.dict(os.environ, PATH=folder):
                self.assertIsNone(shown._repr_svg_())
            dot = os.path.join(folder, "dot")
            with open(dot, "w", encoding="utf-8") as out:
                out.write('#!/bin/sh\necho "<svg $1>"\ncat\necho "</svg>"\n')
            os.chmod(dot, stat.S_IRWXU)
            with mock.patch.dict(os.environ, PATH=folder + os.pathsep + os.environ["PATH"]):
                self.assertEqual(shown._repr_svg_(), "<svg -Tsvg>\n" + shown.dot() + "</svg>\n")
            with open(dot, "w", encoding="utf-8") as out:
                out.write("#!/bin/sh\nexit 1\n")
            with mock.patch.dict(os.environ, PATH=folder + os.pathsep + os.environ["PATH"]):
                self.assertIsNone(shown.svg())


class Log(Case):
    def lines(self, run, **environment):
        err = io.StringIO()
        with mock.patch.dict(os.environ, environment), contextlib.redirect_stderr(err):
            run()
        return err.getvalue().splitlines()

    def test_lines(self):
        def wave(x, y):
            return hop.sin(x) * 1.625 + y

        f, x = hop.jit(wave), hop.ones(7)
        lines = self.lines(lambda: (f(x, x), f(x, x), f(x, 2.0)), HOP_LOG="compile")
        self.assertEqual(len(lines), 2)
        pattern = (
            r"hop: wave\(f32\[7\], (f32\[7\]|f64\[\])\) -> \(f32\[7\]\): \d+ nodes, "
            r"captured in [\d.]+ ms, (compiled|from memory|from disk) in [\d.]+ ms"
        )
        for line in lines:
            self.assertRegex(line, pattern)
        f.clear_cache()
        again = self.lines(lambda: f(x, x), HOP_LOG="compile")
        self.assertRegex(again[0], pattern)
        if os.environ.get("HOP_CACHE") != "off":
            self.assertIn("from memory", again[0])
        lowered = self.lines(lambda: f.lower(x, x).compile(), HOP_LOG="other,compile")
        self.assertRegex(lowered[0], r"hop: wave\(.*nodes, (compiled|from)")

    def test_products(self):
        lines = self.lines(lambda: hop.jit(lambda x: x @ x)(hop.ones((64, 64))), HOP_LOG="compile")
        self.assertRegex(lines[0], r" ms; products by (OpenBLAS \S+, kernel \w+|hop's own kernels)")

    def test_silence(self):
        for value in ("", "other"):
            self.assertEqual(self.lines(lambda: hop.jit(lambda x: x + 0.375)(hop.ones(5)), HOP_LOG=value), [])


if __name__ == "__main__":
    unittest.main()
