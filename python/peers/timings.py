"""hop and JAX side by side: the benchmark cases that both can express, in one process, one JSON object a
line.

    python timings.py [CASE…] [--quick] [--table FILE]

first is the first call of a jitted function, capture and compilation included, in a process in which each
library has compiled something trivial before and no cache on disk is used; the other times are medians of
later calls, which alternate between the libraries. ratio_jax = jax_ms / hop_ms and first_ratio =
jax_first_ms / hop_first_ms: above 1 hop is the quicker one. Each line also says by how much the results
differ, relative to the largest element (error); a case whose results differ by more than its bound ends
the program with code 1. --table puts the times between their marks into a page.
"""

import argparse
import functools
import json
import os
import pathlib
import sys

import beside
import numpy as np
import several
from beside import Hop, Jax, clock, difference, leaves, middle, noise  # noqa: F401


# ---- the cases: (function, arguments), given a library ----


def rnn(o, rng):
    h0, xs, w, u = (
        np.zeros(64, "float32"),
        noise(rng, 1000, 64),
        noise(rng, 64, 64, scale=0.4),
        noise(rng, 64, 64, scale=0.4),
    )

    def total(h0, xs, w, u):
        def step(h, x):
            h = o.np_.tanh(h @ w + x @ u)
            return h, h

        return o.np_.sum(o.scan(step, h0, xs)[1])

    return total, (h0, xs, w, u)


def rnn_grad(o, rng):
    total, args = rnn(o, rng)
    return o.lib.grad(total, 2), args


def while100k(o, rng):
    def run(x, n):
        def step(c):
            return c[0] + 1, c[1] * 0.999 + 0.001

        return o.while_loop(lambda c: c[0] < n, step, (n * 0, x))[1]

    return run, (noise(rng, 16), np.asarray(100_000, "int32"))


def scan1e7(o, rng):
    def run(h0, xs):
        def step(h, x):
            h = 0.9 * h + x
            return h, h

        return o.scan(step, h0, xs)

    return run, (np.asarray(0, "float32"), noise(rng, 10_000_000))


def carry60(o, rng):
    def run(h):
        def step(c, _):
            n = len(c)
            return tuple([o.np_.sin(c[i] * c[i - 1] + c[(i + 1) % n]) for i in range(n)]), None

        last, _ = o.scan(step, tuple([h[i] for i in range(60)]), None, length=614)
        return sum(last)

    return run, (noise(rng, 60, scale=0.5),)


def carry60_grad(o, rng):
    run, args = carry60(o, rng)
    return o.lib.grad(run), args


def _then(a, b):
    return a[0] * b[0], b[0] * a[1] + b[1]


def assoc_scan(o, rng):
    return lambda a, b: o.associative_scan(_then, (a, b)), (
        noise(rng, 65536, 16) + np.float32(0.5),
        noise(rng, 65536, 16),
    )


def assoc_grad(o, rng):
    run, args = assoc_scan(o, rng)
    return o.lib.grad(lambda a, b: o.np_.sum(run(a, b)[1])), args


def cond(o, rng):
    def run(p, x):
        return o.cond(p, lambda x: o.np_.sin(x) * 2, lambda x: o.np_.cos(x) + 1, x)

    return run, (np.asarray(True), noise(rng, 1024))


def elem16M(o, rng):
    return lambda a, b, c, d: o.np_.tanh(a * b + c) * o.sigmoid(d), tuple(
        noise(rng, 1 << 24) for _ in range(4)
    )


WIDTH, HEADS, SEQUENCE, BATCH = 128, 4, 64, 2


def block(o, h, w):
    """One pre-norm block on h[batch, sequence, width]."""
    xp = o.np_

    def norm(x, scale, shift):
        x = x - xp.mean(x, axis=-1, keepdims=True)
        return x / xp.sqrt(xp.mean(x * x, axis=-1, keepdims=True) + 1e-5) * scale + shift

    def heads(x):
        return o.permute(x.reshape(BATCH, SEQUENCE, HEADS, WIDTH // HEADS), (0, 2, 1, 3))

    x = norm(h, w["scale1"], w["shift1"])
    q, k, v = heads(x @ w["q"]), heads(x @ w["k"]), heads(x @ w["v"])
    scores = o.softmax(xp.einsum("bhid,bhjd->bhij", q, k) * (WIDTH // HEADS) ** -0.5, axis=-1)
    mixed = o.permute(xp.einsum("bhij,bhjd->bhid", scores, v), (0, 2, 1, 3)).reshape(BATCH, SEQUENCE, WIDTH)
    h = h + mixed @ w["o"]
    x = norm(h, w["scale2"], w["shift2"]) @ w["up"] + w["up_bias"]
    x = 0.5 * x * (1 + xp.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))
    return h + x @ w["down"] + w["down_bias"]


def _weights(rng, layers):
    shapes = {
        "q": (WIDTH, WIDTH),
        "k": (WIDTH, WIDTH),
        "v": (WIDTH, WIDTH),
        "o": (WIDTH, WIDTH),
        "up": (WIDTH, 4 * WIDTH),
        "down": (4 * WIDTH, WIDTH),
        "up_bias": (4 * WIDTH,),
        "down_bias": (WIDTH,),
    }
    out = {name: noise(rng, layers, *shape, scale=0.15) for name, shape in shapes.items()}
    for i in "12":
        out["scale" + i], out["shift" + i] = (
            np.ones((layers, WIDTH), "float32"),
            np.zeros((layers, WIDTH), "float32"),
        )
    return out


def transformer(layers):
    def case(o, rng):
        def loss(w, x):
            h, _ = o.scan(lambda h, w: (block(o, h, w), None), x, w)
            return o.np_.mean(h * h)

        return o.lib.value_and_grad(loss), (
            _weights(rng, layers),
            noise(rng, BATCH, SEQUENCE, WIDTH, scale=2.0),
        )

    return case


def unrolled(layers):
    def case(o, rng):
        def loss(w, x):
            for i in range(layers):
                x = block(o, x, {name: a[i] for name, a in w.items()})
            return o.np_.mean(x * x)

        return o.lib.value_and_grad(loss), (
            _weights(rng, layers),
            noise(rng, BATCH, SEQUENCE, WIDTH, scale=2.0),
        )

    return case


CASES = {
    # name: (case, timed rounds, calls in a round, how much results may differ)
    "rnn": (rnn, 51, 1, 1e-4),
    "rnn_grad": (rnn_grad, 51, 1, 1e-3),
    "while100k": (while100k, 51, 1, 1e-4),
    "scan1e7": (scan1e7, 5, 1, 1e-4),
    "carry60": (carry60, 51, 1, 1e-3),
    "carry60_grad": (carry60_grad, 51, 1, 1e-3),
    "assoc_scan": (assoc_scan, 21, 1, 1e-4),
    "assoc_grad": (assoc_grad, 21, 1, 1e-3),
    "cond": (cond, 31, 200, 1e-5),
    "elem16M": (elem16M, 7, 1, 1e-4),
    "tf12": (transformer(12), 11, 1, 1e-3),
    "tf48": (transformer(48), 5, 1, 1e-3),
    "tf12_unrolled": (unrolled(12), 7, 1, 1e-3),
}  # fmt: skip
SLOW = ("tf12_unrolled",)


def overhead(quick):
    """Microseconds of calls that compute next to nothing: of a jitted function, of operators, transforms and
    loops outside of jit."""

    def cubes(x):
        return (x * x * x).sum()

    def step(c, x):
        return c + x, c

    def below(c):
        return c < 10.0

    def up(c):
        return c + 1.0

    calls = {  # name: (how often a time is taken over, the call)
        "call_overhead": (2000, lambda o, f, x: f(x)),
        "eager_add": (2000, lambda o, f, x: x + x),
        "eager_grad": (50, lambda o, f, x: o.lib.grad(cubes)(x)),
        "eager_vmap": (50, lambda o, f, x: o.lib.vmap(cubes)(x)),
        "eager_scan": (50, lambda o, f, x: o.scan(step, 0.0, x)),
        "eager_while": (50, lambda o, f, x: o.while_loop(below, up, 0.0)),
    }
    given = {o: (o.lib.jit(lambda x: x + 1), o.np_.ones(16)) for o in (Hop, Jax)}
    for name, (n, call) in calls.items():
        times = {"hop": [], "jax": []}
        for _ in range(5 if quick else 31):
            for key, o in (("hop", Hop), ("jax", Jax)):
                times[key].append(clock(functools.partial(call, o, *given[o]), n) * 1e3)
        h, j = middle(times["hop"]), middle(times["jax"])
        print(
            json.dumps(
                {"case": name, "hop_us": round(h, 3), "jax_us": round(j, 3), "ratio_jax": round(j / h, 2)}
            ),
            flush=True,
        )


MARKS = "<!-- times: begin -->", "<!-- times: end -->"


def number(x):
    """Two digits at least, thousands apart."""
    return f"{x:,.0f}" if x >= 10 else f"{x:.2g}"


def put_table(path, lines):
    rows = ["| case | hop first | hop | JAX first | JAX | JAX / hop | first: JAX / hop |", "|" + 7 * "---|"]
    for line in lines:
        times = [number(line[k]) for k in ("hop_first_ms", "hop_ms", "jax_first_ms", "jax_ms")]
        ratios = [number(line[k]) for k in ("ratio_jax", "first_ratio")]
        rows.append("| " + " | ".join([line["case"], *times, *ratios]) + " |")
    said = f"{several.machine()}, hop {Hop.version}, JAX {Jax.version}. Milliseconds, medians."
    several.write_table(path, MARKS, said + "\n\n" + "\n".join(rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--quick", action="store_true", help="three rounds of each case")
    parser.add_argument("--table", type=pathlib.Path, metavar="FILE", help="put the times into this page")
    given = parser.parse_args()
    quick, wanted = given.quick, given.cases
    unknown = [w for w in wanted if w not in CASES and w != "call_overhead"]
    if unknown:
        print(f"there is no case {unknown[0]}: there are {', '.join(CASES)}, call_overhead", file=sys.stderr)
        return 2
    beside.begin(beside.BOTH)
    good, lines = True, []
    for name in wanted or [n for n in CASES if not (quick and n in SLOW)]:
        if name != "call_overhead":
            line, right = beside.measure(name, CASES[name], beside.BOTH, quick)
            lines.append(line)
            good &= right
    if given.table:
        put_table(given.table, lines)
    if not wanted or "call_overhead" in wanted:
        overhead(quick)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
