"""Which functions are captured with their control flow as operators: those given to every transform and
operator, what they call, and who says no."""

import functools
import gc
import threading
import unittest
import weakref

import hop
from support import Case


def bent(x):
    if x > 0:
        return x * x
    return -x


def slope(x):
    return 2 * x if x > 0 else -1.0


def larger(a, b):
    return a if a > b else b


XS = hop.asarray([1.0, -2.0, 3.0, -0.5])
BENT = [1, 2, 9, 0.5]


class Everywhere(Case):
    def test_loops(self):
        """Bodies of loops, outside of every program and inside of one."""
        cases = (
            (lambda xs: hop.scan(lambda c, x: (c + bent(x), c), 0.0, xs), (12.5, [0, 1, 3, 12])),
            (lambda xs: hop.while_loop(lambda c: 10 > c > -5, lambda c: c + (1 if c < 3 else 4), 0), 11),
            (lambda xs: hop.fori_loop(0, 5, lambda i, c: c + i if i % 2 == 0 else c, 0), 6),
            (lambda xs: hop.map(bent, xs), BENT),
            (lambda xs: hop.map(bent, xs, batch_size=3), BENT),
            (lambda xs: hop.associative_scan(larger, xs), [1, 1, 3, 3]),
            (lambda xs: hop.apply_along_axis(lambda r: r[0] if r[0] > r[1] else r[1], 1, xs.reshape((2, 2))),
             [1, 3]),
        )  # fmt: skip
        for k, (fun, expected) in enumerate(cases):
            for transform in (lambda f: f, hop.jit):
                with self.subTest(case=k, transform=transform.__name__):
                    found = hop.tree.leaves(transform(fun)(XS))
                    for a, b in zip(found, expected if isinstance(expected, tuple) else [expected]):
                        self.equal(a, b)

    def test_transforms(self):
        slopes = [slope(float(x)) for x in XS]
        for jit in (hop.jit, lambda f: f):
            self.equal(jit(hop.vmap(bent))(XS), BENT)
            self.equal(jit(hop.vmap(hop.grad(bent)))(XS), slopes)
            self.equal(jit(lambda xs: hop.vmap(bent)(xs))(XS), BENT)
            self.equal(jit(hop.vectorize(bent))(XS.reshape((2, 2))), [BENT[:2], BENT[2:]])
            self.equal(jit(hop.grad(lambda xs: hop.sum(hop.map(bent, xs))))(XS), slopes)
            for x in XS:
                self.equal(jit(hop.grad(bent))(x), slope(float(x)))
                self.equal(jit(hop.grad(hop.checkpoint(bent)))(x), slope(float(x)))
                self.equal(jit(hop.jacfwd(bent))(x), slope(float(x)))
                self.equal(jit(lambda v: hop.jvp(bent, (v,), (2.0,))[1])(x), 2 * slope(float(x)))
                self.equal(jit(lambda v: hop.vjp(bent, v)[1](2.0)[0])(x), 2 * slope(float(x)))
                self.equal(jit(hop.hessian(bent))(x), 2 if x > 0 else 0)

    def test_branches(self):
        f = hop.jit(lambda x: hop.cond(x > 1, lambda: bent(x - 2), lambda: bent(x - 1)))
        for x in (2.5, 1.5, 0.5):
            self.equal(f(x), bent(x - 2) if x > 1 else bent(x - 1))
        f = hop.jit(lambda i, x: hop.switch(i, [bent, lambda v: v * 2 if v > 0 else v * 3], x))
        for i in (0, 1):
            for x in (2.0, -2.0):
                self.equal(f(i, x), (bent(x), x * 2 if x > 0 else x * 3)[i])

    def test_looking_inside(self):
        f = hop.jit(bent)
        self.assertIn("switch", f.lower(1.0).text())
        self.assertIn("bent", f.c(1.0))
        self.assertEqual(hop.eval_shape(bent, XS[0]).shape, ())

    def test_static(self):
        f = hop.jit(lambda x, n: x if x > n else -x, static_argnums=1)
        self.equal(f(-3.0, 2), 3)
        self.equal(f(3.0, 2), 3)

    def test_sizes(self):
        """With sizes that are symbols."""
        inner = hop.jit(lambda xs: larger(hop.sum(xs), xs[0]))
        f = hop.jit(lambda xs: inner(xs) + bent(xs[0]))
        for n in (3, 4, 5, 6):
            xs = hop.arange(n) - 1.5
            self.equal(f(xs), max(float(hop.sum(xs)), float(xs[0])) + bent(-1.5))


class Model:
    def __init__(self, x):
        self.size = larger(x, -x)

    def __call__(self, x):
        return larger(x, self.size)

    def __add__(self, x):
        return self.size + bent(x) if x > 0 else x

    @property
    def positive(self):
        return self.size if self.size > 0 else 0.0

    @staticmethod
    def static(x):
        return bent(x)

    @classmethod
    def made(cls, x):
        return cls.static(x)


class Callables(Case):
    def test_kinds(self):
        wrapped = functools.wraps(bent)(lambda *args: bent(*args))
        cases = (
            functools.partial(larger, 0.0), Model(hop.asarray(0.5)), Model.static, Model.made,
            lambda x: Model(x).size, wrapped,
            lambda x: Model(x)(1.0), lambda x: Model(x).positive, lambda x: (lambda y: larger(y, x))(1.0),
        )  # fmt: skip
        for k, fun in enumerate(cases):
            f = hop.jit(fun)
            for x in (3.0, -0.5):
                with self.subTest(case=k, x=x):
                    self.equal(f(hop.asarray(x)), fun(hop.asarray(x)))

    def refused(self, fun, *said):
        with self.assertRaises(hop.TracerError) as caught:
            hop.jit(fun)(hop.asarray(1.0))
        for text in said:
            self.assertIn(text, str(caught.exception))

    def test_what_python_calls(self):
        """Python itself calls these: they are not rewritten, and the message says that."""
        at = f"{__file__}:{Model.__add__.__code__.co_firstlineno + 1}: "
        self.refused(lambda x: Model(1.0) + x, at, "hop.cond", "__add__ is called by Python itself")

    def test_without_source(self):
        names = {}
        exec("def nowhere(x):\n    return x if x > 0 else -x", names)
        self.refused(names["nowhere"], "the source of nowhere cannot be had")


class Choice(Case):
    def test_without(self):
        cases = (
            (bent, XS[0]), (hop.grad(bent), XS[0]), (hop.vmap(bent), XS),
            (lambda x: hop.scan(lambda c, v: (bent(c), v), 1.0, x), XS),
        )  # fmt: skip
        for fun, x in cases:
            with self.assertRaisesRegex(hop.TracerError, "hop.cond"):
                hop.jit(fun, control=False)(x)

    def test_functions_within(self):
        """Each function that jit made has its own choice, whatever is around it."""
        without, with_ = hop.jit(bent, control=False), hop.jit(lambda x: bent(x))
        for control in (True, False):
            with self.assertRaises(hop.TracerError) as caught:
                hop.jit(lambda x: without(x) + 1, control=control)(2.0)
            self.assertNotIn("called by Python itself", str(caught.exception))
            self.equal(hop.jit(lambda x: with_(x) + 1, control=control)(-2.0), 3)
        with self.assertRaises(hop.TracerError):
            hop.jit(lambda x: with_(x) + bent(x), control=False)(2.0)
        self.equal(hop.jit(lambda x: with_(x) + bent(x))(2.0), 8)

    def test_an_exception_that_answers(self):
        """A function that answers a TracerError with another exception gets its way only where there is no
        other."""

        def fun(x):
            try:
                return x if x > 0 else -x
            except TypeError:
                raise KeyError("mine") from None

        self.equal(hop.jit(fun)(-1.0), 1)
        with self.assertRaises(KeyError):
            hop.jit(fun, control=False)(-1.0)

    def test_a_wrong_function_is_captured_once(self):
        """An error that has nothing to do with control flow is not asked for twice."""
        calls = []

        def wrong(x):
            calls.append(1)
            raise KeyError("mine")

        with self.assertRaises(KeyError):
            hop.jit(wrong)(1.0)
        self.assertEqual(len(calls), 1)


class Lives(Case):
    def test_functions_go(self):
        def fun(x):
            return x if x > 0 else -x

        f, seen = hop.jit(fun), weakref.ref(fun)
        self.equal(f(-1.0), 1)
        del f, fun
        gc.collect()
        self.assertIsNone(seen())

    def test_threads(self):
        found = {}

        def work(k):
            f = hop.jit(lambda x: x * k if x > 0 else -x, control=bool(k % 2))
            try:
                found[k] = float(f(2.0))
            except hop.TracerError:
                found[k] = None

        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(found, {k: 2.0 * k if k % 2 else None for k in range(8)})


if __name__ == "__main__":
    unittest.main()
