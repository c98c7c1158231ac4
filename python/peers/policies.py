"""Checkpointed programs in hop and in JAX under each policy of JAX: values and gradients have to agree, times
and saved bytes stand side by side.

    python policies.py [PROGRAM…] [--check] [--table FILE]

Each program is one function for both libraries. Claims are held in float64 at small sizes: the value, its
gradient at once and compiled, a batch of gradients, the gradient of a gradient. The table is measured in
float32 at larger sizes: the median time of a compiled gradient in milliseconds, calls in turns, and the bytes
of what the forward pass leaves for backward besides arguments, as jax.ad_checkpoint's list of residuals and
hop's explain("json") say it. --check leaves out the table; --table FILE writes it into a document. Where the
libraries disagree, the program and the claim are printed, and the exit code is 1.
"""

import functools
import json
import os
import re
import sys

os.environ.setdefault("HOP_CACHE", "off")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax.ad_checkpoint  # noqa: E402
import numpy as np  # noqa: E402
import several  # noqa: E402
import timings  # noqa: E402
from jax._src.ad_checkpoint import saved_residuals  # noqa: E402

import hop  # noqa: E402

MARKS = ("<!-- policies: begin -->", "<!-- policies: end -->")
TOLERANCE = 1e-10


class Hop(timings.Hop):
    name = staticmethod(hop.checkpoint_name)
    policies = hop.policies
    fori_loop = staticmethod(hop.fori_loop)


class Jax(timings.Jax):
    name = staticmethod(jax.ad_checkpoint.checkpoint_name)
    policies = jax.checkpoint_policies
    fori_loop = staticmethod(jax.lax.fori_loop)


# ---- policies, by JAX's names ----

POLICIES = {
    "none": lambda p: None,
    "nothing_saveable": lambda p: p.nothing_saveable,
    "everything_saveable": lambda p: p.everything_saveable,
    "dots_saveable": lambda p: p.dots_saveable,
    "dots_with_no_batch_dims_saveable": lambda p: p.dots_with_no_batch_dims_saveable,
    "save_only_these_names": lambda p: p.save_only_these_names("first"),
    "save_any_names_but_these": lambda p: p.save_any_names_but_these("first"),
    "save_anything_except_these_names": lambda p: p.save_anything_except_these_names("first"),
    "save_from_both_policies": lambda p: p.save_from_both_policies(
        p.dots_with_no_batch_dims_saveable, p.save_only_these_names("second")
    ),
}

# ---- programs: (function of (weights, x) with a scalar result, weights, x); every one has values named
# "first" and "second" under `keep`, which is checkpoint with the policy ----


def layer(o, w, x):
    a = o.name(x @ w, "first")
    return x + o.name(o.np_.tanh(a), "second") * o.np_.sin(a)


def noise(n_rows, *shape):
    return np.random.default_rng(7).standard_normal((n_rows, *shape)) / np.sqrt(shape[-1])


def mlp(o, keep, n):
    """Four layers, each checkpointed."""

    def f(ws, x):
        for i in range(4):
            x = keep(functools.partial(layer, o))(ws[i], x)
        return o.np_.sum(x * x)

    return f, noise(4, n, n), noise(4 * n, n)


def attention(o, keep, n):
    """One block of attention and a feed-forward layer in one checkpoint."""
    heads = 2

    def split(x):
        return o.permute(x.reshape((x.shape[0], x.shape[1], heads, -1)), (0, 2, 1, 3))

    def block(w, x):
        q, k, v = (split(x @ w[i]) for i in range(3))
        scores = o.name(q @ o.permute(k, (0, 1, 3, 2)), "first")
        mixed = o.permute(o.softmax(scores) @ v, (0, 2, 1, 3)).reshape(x.shape)
        x = o.name(x + mixed @ w[3], "second")
        return x + o.np_.tanh(x @ w[4])

    def f(w, x):
        return o.np_.sum(keep(block)(w, x) ** 2)

    return f, noise(5, n, n), noise(2, n, n)


def scanned(o, keep, n):
    """A scan over checkpointed layers."""

    def f(ws, x):
        def step(x, w):
            return keep(functools.partial(layer, o))(w, x), None

        return o.np_.sum(o.scan(step, x, ws)[0] ** 2)

    return f, noise(12, n, n), noise(2 * n, n)


def loop_inside(o, keep, n):
    """A loop in a checkpoint, with something before and after it."""

    def body(ws, x):
        x = layer(o, ws[0], x)
        x = o.scan(lambda x, w: (layer(o, w, x), None), x, ws)[0]
        return o.fori_loop(0, 3, lambda i, x: o.np_.sin(x + x * x), x)

    def f(ws, x):
        return o.np_.sum(keep(body)(ws, x))

    return f, noise(8, n, n), noise(2 * n, n)


def nested(o, keep, n):
    """A checkpoint in a checkpoint."""

    def inner(w, x):
        return layer(o, w, o.np_.exp(-x * x))

    def outer(ws, x):
        for i in range(3):
            x = layer(o, ws[2 * i], keep(inner)(ws[2 * i + 1], x))
        return x

    def f(ws, x):
        return o.np_.sum(keep(outer)(ws, keep(outer)(ws, x)))

    return f, noise(6, n, n), noise(2 * n, n)


def names(o, keep, n):
    """Many small steps, of which two in five have names."""

    def body(w, x):
        for i in range(3):
            a = o.name(o.np_.sin(x * w[i]), "first")
            b = o.np_.exp(o.np_.tanh(a) * x)
            x = o.name(b / (1.0 + o.np_.sum(b, axis=-1, keepdims=True)), "second") @ w[i]
        return x

    def f(w, x):
        return o.np_.sum(keep(body)(w, x) ** 2)

    return f, noise(3, n, n), noise(n, n)


PROGRAMS = {p.__name__: p for p in (mlp, attention, scanned, loop_inside, nested, names)}
LARGE = {"mlp": 256, "attention": 256, "scanned": 256, "loop_inside": 256, "nested": 256, "names": 512}
SMALL = 6


def made(o, program, policy, n, dtype):
    """(f, its arguments)"""
    keep = functools.partial(o.lib.checkpoint, policy=POLICIES[policy](o.policies))
    f, *args = PROGRAMS[program](o, keep, n)
    return f, [o.asarray(a.astype(dtype)) for a in args]


# ---- claims ----


def claims(o, f):
    lib, total = o.lib, o.np_.sum
    grad = lib.grad(f, (0, 1))

    def of_gradient(w, x):
        dw, dx = grad(w, x)
        return total(dw * dw * dw) + total(dx * x)

    return {
        "value": f,
        "value, compiled": lib.jit(f),
        "gradient": grad,
        "gradient, compiled": lib.jit(grad),
        "batch of gradients": lib.jit(
            lambda w, x: lib.vmap(grad, in_axes=(None, 0))(w, o.np_.stack([x, 2 * x]))
        ),
        "gradient of a gradient": lib.jit(lib.grad(of_gradient, (0, 1))),
    }


def compare(program, policy):
    """Names of claims in which the libraries disagree, and how many there are."""
    wrong = []
    made_by = {o: made(o, program, policy, SMALL, "float64") for o in (Hop, Jax)}
    expected = claims(Jax, made_by[Jax][0])
    found = claims(Hop, made_by[Hop][0])
    for claim, call in found.items():
        a = timings.leaves(Hop, call(*made_by[Hop][1]))
        b = timings.leaves(Jax, expected[claim](*made_by[Jax][1]))
        apart = timings.difference(a, b)
        if not apart <= TOLERANCE:
            wrong.append(f"{claim}: {apart:.2g} apart")
    return wrong, len(found)


# ---- what is saved, and times ----


def hop_bytes(f, args):
    """Of what the gradient keeps, arguments left out."""
    program = hop.jit(f).lower(*args).function
    kept = json.loads(program.grad().explain("json"))["kept"]
    return sum(int(v["bytes"]) for v in kept["values"])


def jax_bytes(f, args):
    """The same of JAX: residuals that are neither arguments nor constants."""
    residuals = saved_residuals(f, *args)
    given = re.compile("from the argument|from a constant|from a literal")
    return sum(a.size * a.dtype.itemsize for a, where in residuals if not given.match(where))


def measure(program, policy, rounds=11):
    row = {"program": program, "policy": policy}
    calls = {}
    for key, o in (("hop", Hop), ("jax", Jax)):
        f, args = made(o, program, policy, LARGE[program], "float32")
        row[f"{key}_bytes"] = (hop_bytes if o is Hop else jax_bytes)(f, args)
        grad = o.lib.jit(o.lib.grad(f, (0, 1)))
        calls[key] = lambda grad=grad, args=args, wait=o.wait: wait(grad(*args))
        calls[key]()
    times = {key: [] for key in calls}
    for _ in range(rounds):
        for key, call in calls.items():
            times[key].append(timings.clock(call, 1))
    return row | {f"{key}_ms": round(timings.middle(t), 2) for key, t in times.items()}


def kilobytes(n):
    return f"{round(n / 1024):,}"


def table(rows):
    lines = [f"hop {hop.__version__}, JAX {jax.__version__}, {os.cpu_count()} cores.", ""]
    lines += ["| program | policy | hop KB | JAX KB | hop ms | JAX ms |", "|---|---|---|---|---|---|"]
    for r in rows:
        policy = f"`{r['policy']}`" if r["policy"] != "none" else "`checkpoint` without one"
        lines.append(
            f"| {r['program'].replace('_', ' ')} | {policy} | {kilobytes(r['hop_bytes'])} | "
            f"{kilobytes(r['jax_bytes'])} | {r['hop_ms']:.1f} | {r['jax_ms']:.1f} |"
        )
    return "\n".join(lines)


def main():
    options = several.options_of(__doc__, "program", PROGRAMS, (), ["--check"])
    jax.config.update("jax_enable_x64", True)
    compared, disagree, rows = 0, 0, []
    for program in options.wanted:
        for policy in POLICIES:
            wrong, n = compare(program, policy)
            compared += n
            disagree += len(wrong)
            for claim in wrong:
                print(f"{program}, {policy}: {claim}")
            if not options.check:
                rows.append(measure(program, policy))
                print(json.dumps(rows[-1]), flush=True)
    if options.table:
        several.write_table(options.table, MARKS, table(rows))
    print(json.dumps({"programs": len(options.wanted), "policies": len(POLICIES),
                      "compared": compared, "disagree": disagree}))  # fmt: skip
    return 1 if disagree else 0


if __name__ == "__main__":
    sys.exit(main())
