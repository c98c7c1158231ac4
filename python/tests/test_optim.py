"""hop.optim: rules against plain Python, under jit and scan, dtypes, schedules, what is refused."""

import math
import unittest

import hop
from hop import optim
from support import Case


def by_hand(name, gradients, p, rate=0.1):
    """The rules, on one number."""
    v = m = 0.0
    for t, g in enumerate(gradients, 1):
        if name == "sgd":
            p -= rate * g
        elif name in ("momentum", "nesterov"):
            v = 0.9 * v + g
            p -= rate * (g + 0.9 * v if name == "nesterov" else v)
        else:
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            move = m / (1 - 0.9**t) / (math.sqrt(v / (1 - 0.999**t)) + 1e-8)
            p -= rate * (move + (0.01 * p if name == "adamw" else 0))
    return p


RULES = {
    "sgd": optim.sgd(0.1),
    "momentum": optim.momentum(0.1),
    "nesterov": optim.momentum(0.1, nesterov=True),
    "adam": optim.adam(0.1),
    "adamw": optim.adamw(0.1),
}


def loss(params, x, y):
    return hop.mean((hop.tanh(x @ params["w"][0]) @ params["w"][1] + params["b"] - y) ** 2)


def problem():
    a, b, c = hop.random.split(hop.random.key(0), 3)
    x = hop.random.normal(a, (32, 3))
    params = {"w": (hop.random.normal(b, (3, 8)), hop.random.normal(c, (8,))), "b": hop.asarray(0.0)}
    return params, x, hop.sin(x[:, 0])


class Rules(Case):
    def test_by_hand(self):
        gradients = [1.0, -0.5, 2.0, 0.25]
        for name, opt in RULES.items():
            with self.subTest(name):
                p = hop.asarray([1.5, 1.5], dtype=hop.float64)
                state = opt.init(p)
                for g in gradients:
                    p, state = opt.update(hop.full(2, g, dtype=hop.float64), state, p)
                self.close(p, [by_hand(name, gradients, 1.5)] * 2, 1e-12)
                self.assertEqual(int(state.step), 4)

    def test_loop_and_jit_and_scan(self):
        for name, opt in RULES.items():
            with self.subTest(name):
                params, x, y = problem()

                def step(carry, _):
                    p, s = carry
                    value, g = hop.value_and_grad(loss)(p, x, y)
                    return opt.update(g, s, p), value

                start = (params, opt.init(params))
                by_loop, compiled = start, start
                once = hop.jit(lambda c: step(c, None)[0])
                for _ in range(6):
                    by_loop, compiled = step(by_loop, None)[0], once(compiled)
                scanned, losses = hop.jit(lambda c: hop.scan(step, c, length=6))(start)
                for a, b, c in zip(
                    hop.tree.leaves(by_loop), hop.tree.leaves(compiled), hop.tree.leaves(scanned)
                ):
                    self.close(b, a, 1e-4)
                    self.close(c, a, 1e-4)
                self.assertLess(float(losses[-1]), float(losses[0]))
                self.assertEqual(hop.tree.structure(scanned), hop.tree.structure(start))

    def test_learns(self):
        params, x, y = problem()
        opt = optim.adam(0.02)

        @hop.jit
        def train(params):
            def step(carry, _):
                p, s = carry
                return opt.update(hop.grad(loss)(p, x, y), s, p), None

            return hop.scan(step, (params, opt.init(params)), length=300)[0][0]

        self.assertLess(float(loss(train(params), x, y)), 0.05)

    def test_through_an_update(self):
        """The derivative of what a step reaches, for the learning rate."""

        def reached(rate):
            p = hop.asarray(2.0)
            opt = optim.sgd(rate)
            p, _ = opt.update(hop.grad(lambda q: q**2)(p), opt.init(p), p)
            return p

        self.close(hop.grad(reached)(0.1), -4.0)

    def test_many_at_once(self):
        opt = optim.adam(0.1)

        def final(p):
            s = opt.init(p)
            for _ in range(3):
                p, s = opt.update(2 * p, s, p)
            return p

        p = hop.asarray([[1.0, -2.0], [3.0, 0.5]])
        self.close(hop.vmap(final)(p), [final(p[0]).tolist(), final(p[1]).tolist()])


class Types(Case):
    def test_dtypes_stay(self):
        for d in (hop.float16, hop.bfloat16, hop.float32, hop.float64):
            for opt in RULES.values():
                p = hop.ones(3, dtype=d)
                s = opt.init(p)
                for _ in range(2):
                    p, s = opt.update(hop.full(3, 1e-4, dtype=d), s, p)
                self.assertIs(p.dtype, d)
                self.assertTrue(
                    all(
                        m.dtype is (hop.float64 if d is hop.float64 else hop.float32)
                        for m in hop.tree.leaves(s.moments)
                    )
                )
                self.assertTrue(bool(hop.all(hop.isfinite(p))))

    def test_refused(self):
        with self.assertRaisesRegex(TypeError, r"params\['n'\] has dtype int64"):
            optim.adam(0.1).init({"n": hop.asarray(3), "w": hop.ones(2)})
        opt, p = optim.sgd(0.1), {"w": hop.ones(2)}
        with self.assertRaisesRegex(ValueError, "structure"):
            opt.update({"v": hop.ones(2)}, opt.init(p), p)
        with self.assertRaisesRegex(ValueError, r"grads\['w'\]"):
            opt.update({"w": hop.ones(3)}, opt.init(p), p)
        with self.assertRaisesRegex(ValueError, "b1"):
            optim.adam(0.1, b1=1.0)


class Schedules(Case):
    def test_values(self):
        self.assertEqual(optim.constant(0.5)(3), 0.5)
        self.close([float(optim.linear(1.0, 0.0, 4)(i)) for i in range(6)], [1, 0.75, 0.5, 0.25, 0, 0])
        rate = optim.cosine(2.0, 10, warmup=2, last=1.0)
        self.close([float(rate(i)) for i in (0, 1, 2, 6, 10, 20)], [1, 2, 2, 1.5, 1, 1])
        self.close([float(optim.exponential(1.0, 0.5, 2)(i)) for i in (0, 2, 4)], [1, 0.5, 0.25])
        with self.assertRaises(ValueError):
            optim.cosine(1.0, 3, warmup=3)

    def test_another_structure(self):
        opt, p = optim.adam(0.1), {"w": [hop.ones(2), hop.ones(3)]}
        with self.assertRaisesRegex(
            ValueError, r"grads\['w'\] has the structure \[\*\], the parameters have \[\*, \*\]"
        ):
            opt.update({"w": [hop.ones(2)]}, opt.init(p), p)

    def test_in_an_optimizer(self):
        opt = optim.sgd(optim.linear(1.0, 0.0, 2))
        p = hop.asarray(0.0)
        (p, _), seen = hop.scan(
            lambda c, _: (opt.update(hop.asarray(-1.0), c[1], c[0]), c[0]), (p, opt.init(p)), length=4
        )
        self.equal(seen, [0, 1, 1.5, 1.5])

    def test_norms(self):
        g = {"a": hop.asarray([3.0, 0.0]), "b": hop.asarray(4.0)}
        self.close(optim.global_norm(g), 5.0)
        clipped = hop.jit(lambda g: optim.clip_by_global_norm(g, 1.0))(g)
        self.close(clipped["a"], [0.6, 0])
        self.close(clipped["b"], 0.8)
        self.close(optim.clip_by_global_norm(g, 10.0)["a"], [3, 0])


if __name__ == "__main__":
    unittest.main()
