"""Programs as values: hop.read and hop.Function."""

import math
import pathlib
import pickle
import tempfile
import unittest

import hop
from support import Case

RNN = """
hop 1
const @half: f32[] = 0.5

fn @helper(%x: f32[]) -> (f32[]) {
  %k = constant {value = @half}
  %y = mul(%x, %k)
  return %y
}

fn @rnn[T in 0..1000](%h: f32[], %w: f32[], %xs: f32[T]) -> (f32[], f32[T]) {
  %last, %all = scan carry(%c = %h) over(%x in %xs) with(%v = %w) {
    %a = mul(%v, %c)
    %b = add(%a, %x)
    %n = tanh(%b)
    next(%n) stack(%n)
  }
  return %last, %all
}
"""
SQUARES = "fn @squares(%x: f32[N], %n: i64[]) -> (f32[]) { %y = mul(%x, %x) %s = sum(%y) return %s }"


def rnn(h, w, xs):
    out = []
    for x in xs:
        h = math.tanh(w * h + x)
        out.append(h)
    return h, out


class Reading(Case):
    def test_what_it_is(self):
        f = hop.read(RNN)
        self.assertEqual((f.name, f.__name__), ("rnn", "rnn"))
        self.assertEqual(f.names, ("h", "w", "xs"))
        self.assertEqual(f.params, ("f32[]", "f32[]", "f32[T]"))
        self.assertEqual(f.results, ("f32[]", "f32[T]"))
        self.assertEqual((f.dims, f.bound, f.callbacks, f.remarks()), ((), (), (), ""))
        self.assertEqual(
            repr(f), "<hop.Function @rnn(h: f32[], w: f32[], xs: f32[T]) -> (f32[], f32[T])>"
        )
        self.assertEqual(hop.read(RNN, "helper").names, ("x",))

    def test_text_reads_back(self):
        text = hop.read(RNN).text()
        self.assertEqual(hop.read(text).text(), text)
        self.assertIn("fn @rnn[T in 0..1000]", text)

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "rnn.hop")
            path.write_text(RNN)
            self.assertEqual(hop.read(path, name="helper")(4.0).item(), 2.0)
            path.write_text("fn @f(")
            with self.assertRaisesRegex(hop.InvalidError, "test_function.py:.*read: .*rnn.hop:1:7: expected"):
                hop.read(path)
            with self.assertRaisesRegex(hop.FileError, "read: .*none.hop: No such file"):
                hop.read(pathlib.Path(folder, "none.hop"))
        with self.assertRaisesRegex(hop.InvalidError, r"hop.read\(pathlib.Path\('rnn.hop'\)\) reads a file"):
            hop.read("rnn.hop")

    def test_mistakes_have_line_and_column(self):
        cases = (
            ("fn @f(%x: f32[2]) -> (f32[2]) {\n  %y = add(%x)\n  return %y\n}", "text:2:3: add: takes 2 op"),
            ("fn @f(", "text:1:7: expected a parameter"),
            ("fn @f(%x: f32[]) -> (f32[]) {\n  return %y\n}", "text:2:10: "),
            ("", "the program has no function"),
        )
        for text, expected in cases:
            with self.assertRaisesRegex(hop.InvalidError, expected):
                hop.read(text)
        with self.assertRaisesRegex(hop.InvalidError, "no function @other; it has @helper, @rnn"):
            hop.read(RNN, "other")
        with self.assertRaisesRegex(hop.InvalidError, "expected the text of a program.*found 3"):
            hop.read(3)
        with self.assertRaisesRegex(TypeError, "programs come from hop.read"):
            hop.Function(print)


class Calls(Case):
    def test_runs(self):
        f, xs = hop.read(RNN), [1.0, -1.0, 0.5]
        last, rows = rnn(0.1, 0.5, xs)
        numbers = hop.asarray(xs)
        for given in ((0.1, 0.5, xs), (hop.asarray(0.1), hop.asarray(0.5), numbers)):
            for run in (f, f.interpret, f.compile(), f.compile(strict=True), f.compile(portable=True)):
                found = run(*given)
                self.assertIsInstance(found, tuple)
                self.close(found[0], last, 1e-6)
                self.close(found[1], rows, 1e-6)
        self.close(f(xs=xs, w=0.5, h=0.1)[0], last, 1e-6)
        self.close(f(0.1, xs=xs, w=0.5)[0], last, 1e-6)
        self.equal(f(0.25, 0.5, [])[0], 0.25)  # another size, the same program
        strict = f.compile(strict=True)(0.1, 0.5, xs)[1]
        self.assertEqual(strict.tolist(), f.interpret(0.1, 0.5, xs)[1].tolist())

    def test_one_result_none(self):
        self.equal(hop.read(RNN, "helper")(4.0), 2.0)
        nothing = hop.read("fn @f(%x: f32[]) -> () { return }")
        self.assertEqual(nothing(1.0), ())

    def test_declared_sizes(self):
        f = hop.read(
            "fn @f[dim K](%x: f32[N]) -> (f32[K, N]) { "
            "%y = broadcast {dims = [K, N], at = [1]} (%x) return %y }"
        )
        self.assertEqual(f.dims, ("K",))
        for run in (f, f.interpret, f.compile()):
            self.equal(run([1.0, 2.0], K=2), [[1.0, 2.0], [1.0, 2.0]])
        with self.assertRaisesRegex(hop.InvalidError, "@f: there is nothing for K"):
            f([1.0])
        with self.assertRaisesRegex(hop.InvalidError, "@f: K: expected a size, found -1"):
            f([1.0], K=-1)

    def test_updated_arguments(self):
        f = hop.read(
            "fn @f(%s: mut f32[2], %x: f32[2]) -> (f32[2], new %s) { %y = add(%s, %x) return %x, %y }"
        )
        for run in (f, f.interpret, f.compile()):
            state = hop.asarray([1.0, 2.0])
            before = state + 0
            other = hop.asarray(before)
            self.equal(run(state, [10.0, 20.0]), [10.0, 20.0])
            self.equal(state, [11.0, 22.0])
            self.equal(other, [1.0, 2.0])
        with self.assertRaisesRegex(hop.InvalidError, "@f: s: expected an array of hop, which the prog"):
            f([1.0, 2.0], [1.0, 2.0])

    def test_names_that_are_no_words(self):
        f = hop.read(
            'fn @f(%"my value": f32[], %1: f32[]) -> (f32[]) { %y = mul(%"my value", %1) return %y }'
        )
        self.equal(f(2.0, 3.0), 6.0)
        self.equal(f.grad(1)(2.0, 3.0), 2.0)
        self.equal(f.grad("my value")(2.0, 3.0), 3.0)

    def test_mistakes(self):
        f = hop.read(RNN)
        cases = (
            (lambda: f(1.0), "@rnn: there is nothing for w, xs"),
            (lambda: f(1.0, 2.0, [1.0], 4.0), r"@rnn: takes 3 arguments \(h, w, xs\), given 4"),
            (lambda: f(1.0, 2.0, [1.0], q=3), "@rnn: q is no parameter of it"),
            (lambda: f(1.0, 2.0, [1.0], w=3.0), "@rnn: w is given twice"),
            (
                lambda: f(1.0, 2.0, hop.ones(2, dtype=hop.float64)),
                r"@rnn: xs: expected f32\[T\], found f64\[2\]",
            ),
            (lambda: f(1.0, 2.0, 3.0), r"@rnn: argument %xs: expected f32\[T\], found f32\[\]"),
            (lambda: f(1.0, 2.0, "a"), "@rnn: xs: expected an array"),
            (lambda: f.grad("q"), "grad: wrt: @rnn has no parameter 'q', it has h, w, xs"),
            (lambda: f.jvp(3), "jvp: wrt: expected a parameter of @rnn, found 3"),
            (lambda: f.vmap({"q": 0}), "vmap: in_axes: @rnn has no parameter 'q'"),
            (lambda: f.vmap([0, 0]), "vmap: in_axes: expected 3 entries, found 2"),
            (lambda: f.vmap(None), "vmap: no argument has the axis"),
        )
        for call, expected in cases:
            with self.assertRaisesRegex(hop.InvalidError, expected) as caught:
                call()
            self.assertIn("test_function.py", str(caught.exception))


class Transforms(Case):
    def test_own(self):
        f, x = hop.read(SQUARES), [1.0, 2.0]
        self.equal(f.grad()(x, 7), [2.0, 4.0])
        value, gradient = f.value_and_grad("x")(x, 7)
        self.equal(value, 5.0)
        self.equal(gradient, [2.0, 4.0])
        self.equal(f.vjp(0)(x, 7, 3.0)[1], [6.0, 12.0])
        self.equal(f.jvp(["x"])(x, 7, [1.0, 0.0])[1], 2.0)
        self.equal(f.hessian()(x, 7), [[2.0, 0.0], [0.0, 2.0]])
        for jacobian in (f.jacfwd, f.jacrev):
            self.equal(jacobian()(x, 7), [2.0, 4.0])
        self.equal(f.vmap({"x": 1})([[1.0, 3.0], [2.0, 4.0]], 7), [5.0, 25.0])
        self.equal(f.vmap((0, None))([[1.0, 2.0], [3.0, 4.0]], 7), [5.0, 25.0])
        self.equal(f.grad().vmap({"x": 0}, 1)([[1.0, 2.0], [3.0, 4.0]], 7), [[2.0, 6.0], [4.0, 8.0]])
        for g in (f.grad(), f.vmap(), f.vjp(), f.jvp()):
            self.assertIsInstance(g, hop.Function)
            self.assertEqual(hop.read(g.text()).text(), g.text())

    def test_as_a_python_function(self):
        f, x = hop.read(SQUARES), hop.asarray([1.0, 2.0])
        self.equal(hop.jit(f)(x, 7), 5.0)
        self.equal(hop.jit(f)(x=x, n=7), 5.0)
        self.equal(hop.grad(f)(x, 7), [2.0, 4.0])
        self.equal(hop.jit(hop.grad(f))(x, 7), [2.0, 4.0])
        self.equal(hop.vmap(f, in_axes=(0, None))(hop.stack([x, x + 1]), 7), [5.0, 13.0])
        self.equal(hop.hessian(f)(x, 7), [[2.0, 0.0], [0.0, 2.0]])
        self.equal(hop.jit(lambda y: f(y, 1) * f(2 * y, 2))(x), 100.0)
        self.equal(hop.scan(lambda c, y: (c + f(y[None], 0), None), 0.0, x)[0], 5.0)
        self.equal(hop.checkpoint(f)(x, 3), 5.0)
        text = hop.jit(lambda y: f(y, 1) + f(y, 2)).text(x)
        self.assertEqual((text.count("invoke_subgraph @squares("), text.count("fn @squares(")), (2, 1))

    def test_a_call_that_updates_is_refused_in_captures(self):
        f = hop.read("fn @f(%s: mut f32[]) -> (new %s) { %y = add(%s, %s) return %y }")
        with self.assertRaisesRegex(hop.InvalidError, "is updated by the function"):
            hop.jit(lambda x: f(x))(1.0)


class Captured(Case):
    def test_of_lowered(self):
        w = hop.asarray([1.0, 2.0])
        f = hop.jit(lambda x: hop.sum(x * x * w)).lower(hop.ones(2)).function
        self.assertIsInstance(f, hop.Function)
        self.assertEqual((f.names, len(f.bound)), (("x",), 1))
        self.equal(f([3.0, 4.0]), 41.0)
        self.equal(f.grad()([3.0, 4.0]), [6.0, 16.0])
        self.equal(f.vjp()([3.0, 4.0], 1.0)[1], [6.0, 16.0])
        self.equal(f.vmap()([[3.0, 4.0], [1.0, 1.0]]), [41.0, 3.0])
        self.equal(hop.grad(f)(hop.asarray([3.0, 4.0])), [6.0, 16.0])
        self.assertIn("0x1p+1", f.emit("c", name="g") + "0x1p+1")
        self.assertIn("int g(", f.emit("c", name="g"))

    def test_shown(self):
        f = hop.read(SQUARES)
        self.assertIn("passes", f.explain())
        self.assertIn('"function"', f.explain("json") + '"function"')
        self.assertIn("int squares(", f.emit("header"))
        self.assertTrue(f.emit("loops"))

    def test_pickled(self):
        w = hop.asarray([1.0, 2.0])
        f = hop.jit(lambda x: hop.sum(x * w)).lower(hop.ones(2)).function
        for program, given, expected in ((f, ([3.0, 4.0],), 11.0), (hop.read(SQUARES), ([3.0], 1), 9.0)):
            again = pickle.loads(pickle.dumps(program))
            self.equal(again(*given), expected)
            self.assertEqual(again.text(), program.text())

    def test_effects(self):
        f = hop.read('fn @f(%x: f32[]) -> (f32[]) { %z = full {value = 0, dims = []} %p = gt(%x, %z) '
                     'check {message = "not positive"} (%p) return %x }')  # fmt: skip
        self.equal(f(1.0), 1.0)
        for run in (f, f.interpret, hop.jit(f)):
            with self.assertRaisesRegex(hop.CheckError, "not positive"):
                run(-1.0)


if __name__ == "__main__":
    unittest.main()
