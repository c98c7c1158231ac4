"""Random programs with random operators of the user's, beside the same programs in NumPy: plain, compiled,
portable, strict, batched; and derivatives of those whose operators have rules, beside the same functions
written in hop."""

import random
import unittest

import numpy as np

import hop

N, REGISTERS, STATES = 4, 4, 2

# name -> (signature, function on NumPy arrays, options); those with "s" update a state.
PURE = {
    "wave": ("(x: f64[N]) -> f64[N]", lambda x: np.sin(x), {}),
    "turned": ("(x: T[N]) -> T[N]", lambda x: x[::-1], {}),
    "mixed": ("(x: f64[N], y: f64[N]) -> f64[N]", lambda x, y: x * 0.5 + np.roll(y, 1), {}),
    "bounded": ("(x: f64[N]) -> f64[N]", lambda x: np.tanh(x), {"lanes": "together"}),
    "summed": ("(x: f64[N]) -> f64[]", lambda x: x.sum() / 8, {}),
}


def _pushed(x, s):
    s[1:] = s[:-1].copy()
    s[0] = x[0]
    return x + s[-1]


def _filled(x, y):
    y[:] = np.cumsum(x) / 4


WRITING = {"pushed": ("(x: f64[N], mut s: f64[S]) -> f64[N]", _pushed, {})}
FILLING = {"filled": ("(x: f64[N], out y: f64[N])", _filled, {})}
OPERATORS = {
    name: hop.operator(signature, fun, name=f"random_{name}", **options)
    for table in (PURE, WRITING, FILLING)
    for name, (signature, fun, options) in table.items()
}


def program(rng, depth=2, size=6):
    """A list of instructions: (what, target register, registers or bodies)."""
    out = []
    for _ in range(size):
        t, a, b = (rng.randrange(REGISTERS) for _ in range(3))
        kind = rng.choice(("plain", "pure", "pure", "writes", "fills", "loop", "branch"))
        if kind == "plain":
            out.append((rng.choice(("add", "mul", "cos")), t, a, b))
        elif kind == "pure":
            out.append((rng.choice(list(PURE)), t, a, b))
        elif kind == "writes":
            out.append(("pushed", t, a, rng.randrange(STATES)))
        elif kind == "fills":
            out.append(("filled", t, a, b))
        elif depth and kind == "loop":
            out.append(("loop", t, rng.randrange(4), program(rng, depth - 1, 3)))
        elif depth:
            out.append(("branch", t, a, (program(rng, depth - 1, 2), program(rng, depth - 1, 2))))
    return out


def in_numpy(code, r, states):
    for what, t, a, b in code:
        if what == "add":
            r[t] = (r[a] + r[b]) / 2
        elif what == "mul":
            r[t] = r[a] * r[b]
        elif what == "cos":
            r[t] = np.cos(r[a])
        elif what == "pushed":
            r[t] = _pushed(r[a], states[b])
        elif what == "filled":
            y = np.zeros(N)
            _filled(r[a], y)
            r[t] = y
        elif what == "summed":
            r[t] = r[a] * 0 + PURE[what][1](r[a])
        elif what == "mixed":
            r[t] = PURE[what][1](r[a], r[b])
        elif what in PURE:
            r[t] = PURE[what][1](r[a])
        elif what == "loop":
            for _ in range(a):
                in_numpy(b, r, states)
        else:
            in_numpy(b[0] if r[a].sum() > 0 else b[1], r, states)
    return r


def in_hop(code, r, states):
    for what, t, a, b in code:
        if what == "add":
            r[t] = (r[a] + r[b]) / 2
        elif what == "mul":
            r[t] = r[a] * r[b]
        elif what == "cos":
            r[t] = hop.cos(r[a])
        elif what == "pushed":
            r[t] = OPERATORS[what](r[a], states[b])
        elif what == "filled":
            r[t] = OPERATORS[what](r[a])
        elif what == "summed":
            r[t] = r[a] * 0 + OPERATORS[what](r[a])
        elif what == "mixed":
            r[t] = OPERATORS[what](r[a], r[b])
        elif what in PURE:
            r[t] = OPERATORS[what](r[a])
        elif what == "loop":
            r[:] = hop.fori_loop(0, a, lambda i, c, b=b: tuple(in_hop(b, list(c), states)), tuple(r))
        else:
            first, second = b
            r[:] = hop.cond(
                hop.sum(r[a]) > 0,
                lambda *c: tuple(in_hop(first, list(c), states)),
                lambda *c: tuple(in_hop(second, list(c), states)),
                *r,
            )
    return r


def start(seed):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=N) for _ in range(REGISTERS)]


class Programs(unittest.TestCase):
    def same(self, found, wanted, code):
        for x, y in zip(found, wanted):
            np.testing.assert_allclose(np.asarray(x), y, rtol=1e-9, atol=1e-9, err_msg=repr(code))

    def test_programs(self):
        for seed in range(25):
            with self.subTest(seed=seed):
                code = program(random.Random(seed))
                r = start(seed)
                states = [np.zeros(3) for _ in range(STATES)]
                wanted = [*in_numpy(code, list(r), states), *states]

                def f(*r):
                    states = [hop.zeros(3, dtype=hop.float64) for _ in range(STATES)]
                    return (*in_hop(code, list(r), states), *states)

                mine = [hop.asarray(x) for x in r]
                self.same(f(*mine), wanted, code)
                for options in ({}, {"portable": True}, {"strict": True}):
                    self.same(hop.jit(f, **options)(*mine), wanted, code)
                self.same(hop.jit(f).lower(*mine).function.interpret(*mine), wanted, code)
                other = [x + 1 for x in r]
                states = [np.zeros(3) for _ in range(STATES)]
                shifted = [*in_numpy(code, list(other), states), *states]
                both = hop.jit(hop.vmap(f))(*[hop.asarray(np.stack([x, y])) for x, y in zip(r, other)])
                self.same([x[0] for x in both], wanted, code)
                self.same([x[1] for x in both], shifted, code)

    def test_derivatives(self):
        """Operators with rules, against the same functions written in hop."""
        twins = {
            "wave": hop.sin, "turned": lambda x: x[::-1], "mixed": lambda x, y: x * 0.5 + hop.roll(y, 1),
            "bounded": hop.tanh, "summed": lambda x: hop.sum(x) / 8,
        }  # fmt: skip
        ruled = {}
        for name, (signature, fun, options) in PURE.items():
            ruled[name] = op = hop.operator(signature, fun, name=f"ruled_{name}", **options)
            twin = twins[name]
            if name in ("wave", "turned"):
                op.defjvp(lambda p, t, op=op, twin=twin: (op(*p), hop.jvp(twin, p, t)[1]))
            else:
                op.defvjp(lambda *x, op=op: (op(*x), x), lambda x, g, twin=twin: hop.vjp(twin, *x)[1](g))

        def run(code, r, of):
            for what, t, a, b in code:
                if what in ("add", "mul"):
                    r[t] = (r[a] + r[b]) / 2 if what == "add" else r[a] * r[b]
                elif what in PURE:
                    args = (r[a], r[b]) if what == "mixed" else (r[a],)
                    r[t] = of[what](*args) + (0 * r[a] if what == "summed" else 0)
                elif what == "loop":
                    r[:] = hop.fori_loop(0, a, lambda i, c, b=b: tuple(run(b, list(c), of)), tuple(r))
            return r

        for seed in range(10):
            with self.subTest(seed=seed):
                code = program(random.Random(seed), depth=1, size=8)
                mine = [hop.asarray(x) for x in start(seed)]
                loss = lambda of: lambda *r: hop.sum(hop.stack(run(code, list(r), of)) ** 2)
                every = tuple(range(REGISTERS))
                wanted = hop.grad(loss(twins), argnums=every)(*mine)
                self.same(hop.grad(loss(ruled), argnums=every)(*mine), wanted, code)
                self.same(hop.jit(hop.grad(loss(ruled), argnums=every))(*mine), wanted, code)
                along = hop.jvp(loss(twins), tuple(mine), tuple(mine))
                self.same(hop.jvp(loss(ruled), tuple(mine), tuple(mine)), along, code)


if __name__ == "__main__":
    unittest.main()
