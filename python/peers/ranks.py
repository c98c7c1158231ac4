"""How much two ranks are worth: the programs of the examples over a mesh, larger, on one rank on one
processor and on two ranks on two, in hop and in JAX.

    python ranks.py [--list] [--rounds N] [CASE…]

hop's ranks are threads, JAX's simulated devices of the CPU. Every measurement is a process of its own, which
is held to as many processors as it has ranks; processes of both libraries, with one rank and with two, take
turns, and times are medians of their medians. A case is one function in words that serve both libraries, its
value and, where there is one, its gradient; all four find the same numbers. A line of JSON for each case has
milliseconds of one call and, for each library, `scaling`: the time on one rank divided by that on two. The
last line says how many passed and failed, and the exit code is 1 if some did.
"""

import json
import os
import subprocess
import sys

if sys.argv[1:2] == ["--child"]:
    LIBRARY, RANKS = sys.argv[2], int(sys.argv[3])
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:RANKS])
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={RANKS}"
else:
    LIBRARY, RANKS = None, 0

import beside  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from beside import clock, middle, noise, say  # noqa: E402

import hop  # noqa: E402

BOUND, CALLS, TURNS = 1e-3, 7, 3
LOOSE = {"particle_filter": 0.05}  # sums in another order draw other particles


class Hop(beside.Hop):
    P, psum, pmax, ppermute, index = hop.P, hop.psum, hop.pmax, hop.ppermute, hop.axis_index
    psum_scatter, vary, gather = hop.psum_scatter, hop.vary, hop.all_gather

    @staticmethod
    def spread(f, ins, outs):
        run = hop.shard_map(f, hop.mesh(RANKS, "i"), ins, outs)
        return lambda *args: hop.tree.map(hop.collect, run(*args))


class Jax(beside.Jax):
    P, psum, pmax, ppermute, index = (
        jax.sharding.PartitionSpec, jax.lax.psum, jax.lax.pmax, jax.lax.ppermute, jax.lax.axis_index,
    )  # fmt: skip
    psum_scatter = jax.lax.psum_scatter

    @staticmethod
    def vary(x, axis_name):
        return jax.tree.map(lambda leaf: jax.lax.pcast(leaf, axis_name, to="varying"), x)

    @staticmethod
    def gather(x, axis_name, **how):
        return jax.lax.all_gather(x, axis_name, to="invarying", **how)

    @staticmethod
    def spread(f, ins, outs):
        mesh = jax.make_mesh((RANKS,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
        return jax.shard_map(f, mesh=mesh, in_specs=ins, out_specs=outs)


# ---- cases ----

CASES = {}


def case(make):
    """What is decorated gives a function and its arguments."""
    CASES[make.__name__] = make
    return make


def with_slopes(o, loss):
    """The value of a function and its gradient by all arguments."""

    def both(*args):
        return o.lib.value_and_grad(loss, tuple(range(len(args))))(*args)

    return both


@case
def data_parallel(o, rng):
    """Steps of training of a network; examples over the ranks, parameters everywhere."""
    np_, rows, width = o.np_, 2048, 256

    def train(u, v, x, y):
        def loss(u, v):
            left = np_.tanh(np_.tanh(x @ u) @ v)[:, 0] - y
            return o.psum(np_.sum(left * left), "i") / rows

        def step(carry, _):
            u, v = carry
            value, (du, dv) = o.lib.value_and_grad(loss, (0, 1))(u, v)
            return (u - 0.1 * du, v - 0.1 * dv), value

        return o.scan(step, (u, v), None, length=4)[1]

    cut, all_ = o.P("i"), o.P()
    layers = noise(rng, 64, width, scale=0.3), noise(rng, width, width, scale=0.3)
    examples = noise(rng, rows, 64, scale=4), noise(rng, rows)
    return o.spread(train, (all_, all_, cut, cut), all_), (*layers, *examples)


@case
def tensor_parallel(o, rng):
    """Two layers, the units between them over the ranks."""
    np_ = o.np_

    def block(x, u, v):
        inner = x @ u
        return x + o.psum((inner * o.sigmoid(inner)) @ v, "i")

    spread = o.spread(block, (o.P(), o.P(None, "i"), o.P("i")), o.P())
    both = with_slopes(o, lambda x, u, v: np_.sum(np_.sin(spread(x, u, v))))
    return both, (noise(rng, 512, 256), noise(rng, 256, 1024, scale=0.2), noise(rng, 1024, 256, scale=0.2))


@case
def ring_attention(o, rng):
    """Causal attention, keys and values going around."""
    np_, heads, length, width = o.np_, 4, 1024, 32
    part = length // RANKS
    ring = [(r, (r + 1) % RANKS) for r in range(RANKS)]

    def attention(q, k, v):
        here = o.index("i")
        rows = here * part + np_.arange(part)

        def visit(carry, trip):
            k, v, best, norm, out = carry
            columns = (here - trip) % RANKS * part + np_.arange(part)
            scores = np_.einsum("hqd,hkd->hqk", q, k) / width**0.5
            scores = np_.where(rows[:, None] >= columns, scores, -1e30)
            top = np_.maximum(best, np_.max(scores, axis=-1))
            shrunk, weights = np_.exp(best - top), np_.exp(scores - top[..., None])
            norm = norm * shrunk + np_.sum(weights, axis=-1)
            out = out * shrunk[..., None] + np_.einsum("hqk,hkd->hqd", weights, v)
            k, v = o.ppermute(k, "i", ring), o.ppermute(v, "i", ring)
            return (k, v, top, norm, out), None

        lowest = o.vary(np_.full((heads, part), -1e30, dtype=np_.float32), "i")
        none = o.vary(np_.zeros((heads, part), dtype=np_.float32), "i")
        (_, _, _, norm, out), _ = o.scan(visit, (k, v, lowest, none, 0 * q), np_.arange(RANKS))
        return out / norm[..., None]

    cut = o.P(None, "i")
    spread = o.spread(attention, (cut, cut, cut), cut)
    both = with_slopes(o, lambda q, k, v: np_.sum(np_.sin(3 * spread(q, k, v))))
    return both, tuple([noise(rng, heads, length, width, scale=4) for _ in range(3)])


@case
def halo(o, rng):
    """A stencil on strips that exchange their rims, and its gradient."""
    np_ = o.np_
    up, down = [(r + 1, r) for r in range(RANKS - 1)], [(r, r + 1) for r in range(RANKS - 1)]

    def steps(u):
        def step(u, _):
            tall = np_.concat([o.ppermute(u[-1:], "i", down), u, o.ppermute(u[:1], "i", up)], axis=0)
            side = 0 * u[:, :1]
            wide = np_.concat([side, u, side], axis=1)
            return u + 0.2 * (tall[:-2] + tall[2:] + wide[:, :-2] + wide[:, 2:] - 4 * u), None

        return o.scan(step, u, None, length=16)[0]

    spread = o.spread(steps, o.P("i"), o.P("i"))
    return with_slopes(o, lambda u: np_.sum(spread(u) ** 3)), (noise(rng, 512, 512),)


@case
def particle_filter(o, rng):
    """Particles over the ranks, drawn anew from all of them in each step."""
    np_, n, trips = o.np_, 1 << 16, 8

    def follow(x, noises, seen):
        places = (o.index("i") * (n // RANKS) + np_.arange(n // RANKS) + 0.5) / n

        def step(x, now):
            moves, value = now
            x = np_.sin(x) + 0.5 * moves
            weights = np_.exp(-2 * (x - value) ** 2)
            total = o.psum(np_.sum(weights), "i")
            mean = o.psum(np_.sum(weights * x), "i") / total
            every = o.gather(x, "i", tiled=True)
            ends = np_.cumulative_sum(o.gather(weights, "i", tiled=True)) / total
            drawn = np_.minimum(np_.searchsorted(ends, places), n - 1)
            return np_.take(every, drawn, axis=0), mean

        return o.scan(step, x, (noises, seen))[1]

    spread = o.spread(follow, (o.P("i"), o.P(None, "i"), o.P()), o.P())
    return spread, (noise(rng, n), noise(rng, trips, n, scale=2), noise(rng, trips))


@case
def sharded_adam(o, rng):
    """Steps of Adam with its moments in parts: gradients arrive summed and cut, weights are gathered."""
    np_, rows, width = o.np_, 1024, 512

    def train(w, x, y):
        def step(carry, _):
            w, first, second = carry
            slope = o.lib.grad(lambda w: np_.sum((np_.tanh(x @ w) - y) ** 2) / rows)(o.vary(w, "i"))
            slope = o.psum_scatter(slope, "i", scatter_dimension=0, tiled=True)
            first, second = 0.9 * first + 0.1 * slope, 0.99 * second + 0.01 * slope * slope
            moved = 0.01 * first / (np_.sqrt(second) + 1e-6)
            return (w - o.gather(moved, "i", tiled=True), first, second), np_.sum(w * w)

        still = o.vary(np_.zeros((width // RANKS, width), dtype=np_.float32), "i")
        return o.scan(step, (w, still, still), None, length=4)[1]

    spread = o.spread(train, (o.P(), o.P("i"), o.P("i")), o.P())
    return spread, (noise(rng, width, width, scale=0.2), noise(rng, rows, width), noise(rng, rows, width))


# ---- one process ----


def run(name):
    """Says the first call's and later calls' milliseconds, and sums of what comes out."""
    o = {"hop": Hop, "jax": Jax}[LIBRARY]
    f, args = CASES[name](o, np.random.default_rng(3))
    args = o.lib.tree.map(o.asarray, args)
    compiled = o.lib.jit(f)
    first = clock(lambda: o.wait(compiled(*args)), 1)
    times = [clock(lambda: o.wait(compiled(*args)), 1) for _ in range(CALLS)]
    sums = [float(np.sum(np.abs(np.asarray(a, "float64")))) for a in o.lib.tree.leaves(compiled(*args))]
    print(json.dumps({"first": first, "ms": middle(times), "sums": sums}))


# ---- all of them ----


def measured(library, ranks, name):
    command = [sys.executable, __file__, "--child", library, str(ranks), name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(f"{library} on {ranks} ranks: {done.stderr.strip().splitlines()[-1:]}")
    return json.loads(done.stdout.splitlines()[-1])


def compare(name, turns):
    ways = [(library, ranks) for library in ("hop", "jax") for ranks in (1, 2)]
    found = {way: [] for way in ways}
    for _ in range(turns):
        for way in ways:
            found[way].append(measured(*way, name))
    ms = {way: middle([one["ms"] for one in found[way]]) for way in ways}
    sums = [found[way][0]["sums"] for way in ways]
    pairs = [pair for other in sums for pair in zip(other, sums[0], strict=True)]
    worst = max(abs(a - b) / max(1e-30, abs(b)) for a, b in pairs)
    row = {"case": name, "difference": float(f"{worst:.1g}")}
    for library in ("hop", "jax"):
        row |= {f"{library}_{ranks}": float(f"{ms[library, ranks]:.3g}") for ranks in (1, 2)}
        row[f"{library}_scaling"] = round(ms[library, 1] / ms[library, 2], 2)
    say(**row)
    return worst < LOOSE.get(name, BOUND)


def main(wanted):
    turns = TURNS
    if "--list" in wanted:
        print("\n".join(CASES))
        return 0
    if wanted[:1] == ["--rounds"]:
        turns, wanted = int(wanted[1]), wanted[2:]
    if len(os.sched_getaffinity(0)) < 2:
        print("two ranks need two processors", file=sys.stderr)
        return 2
    beside.begin((Hop, Jax))
    failed = [name for name in wanted or CASES if not compare(name, turns)]
    for name in failed:
        print(f"{name}: what is found differs", file=sys.stderr)
    print(f"{len(wanted or CASES) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[4]) if LIBRARY else main(sys.argv[1:]))
