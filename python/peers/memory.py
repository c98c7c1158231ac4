"""Memory and time of the gradient of twelve transformer blocks: hop within budgets, JAX under its policies.

    python memory.py [--quick] [--table FILE] [--picture FILE]

Every point is measured in a process of its own, which compiles, then runs: planned is what the compiled
program says it will ask for besides arguments and results (hop: memory of explain; JAX: its
memory_analysis), measured how much the resident memory of the process grew while it ran, results not
counted, ms the median time of later runs, first the seconds until it is compiled. A budget that cannot be
met is said with the least that can. hop has the blocks as calls of one jitted function in a Python loop,
under one checkpoint around all of them; JAX as a Python loop and as a scan, with a checkpoint around each
block. Gradients are compared: a point that differs by more than a thousandth ends the program with code 1,
and so does one of hop's that takes more than a tenth more or less than planned.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import time

os.environ.setdefault("HOP_CACHE", "off")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

MARKS = "<!-- memory: begin -->", "<!-- memory: end -->"
BLOCKS, BATCH, SEQUENCE, WIDTH = 12, 4, 128, 256
SHARES = (100, 90, 80, 70, 60, 50, 40, 30, 25, 20, 15, 10)
POLICIES = (
    "none", "everything_saveable", "dots_saveable", "dots_with_no_batch_dims_saveable", "nothing_saveable",
)  # fmt: skip


def weights(np):
    rng = np.random.default_rng(3)
    shapes = {
        "q": (WIDTH, WIDTH), "k": (WIDTH, WIDTH), "v": (WIDTH, WIDTH), "o": (WIDTH, WIDTH),
        "up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH), "scale1": (WIDTH,), "shift1": (WIDTH,),
        "scale2": (WIDTH,), "shift2": (WIDTH,), "up_bias": (4 * WIDTH,), "down_bias": (WIDTH,),
    }  # fmt: skip

    def one(shape):
        return (rng.standard_normal(shape) / shape[0] ** 0.5).astype("float32")

    x = rng.standard_normal((BATCH, SEQUENCE, WIDTH)).astype("float32")
    return [{name: one(shape) for name, shape in shapes.items()} for _ in range(BLOCKS)], x


def resident():
    status = pathlib.Path("/proc/self/status").read_text(encoding="ascii")
    return {name: int(re.search(rf"{name}:\s+(\d+)", status).group(1)) * 1024 for name in ("VmRSS", "VmHWM")}


def measured(run, bytes_of):
    """How much the process grows in the first run, its results not counted."""
    pathlib.Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forgets the peak
    before = resident()["VmRSS"]
    out = run()
    return resident()["VmHWM"] - before - bytes_of(out), out


def milliseconds(run, n):
    times = []
    for _ in range(n):
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e3)
    return sorted(times)[n // 2]


def hop_point(policy, n):
    import numpy as np
    import timings

    import hop

    timings.BATCH, timings.SEQUENCE, timings.WIDTH = BATCH, SEQUENCE, WIDTH
    block = hop.jit(lambda x, w: timings.block(timings.Hop, x, w))

    def loss(ws, x):
        for w in ws:
            x = block(x, w)
        return hop.mean(x * x)

    ws, x = weights(np)
    ws, x = [{name: hop.asarray(a) for name, a in w.items()} for w in ws], hop.asarray(x)
    f = hop.jit(hop.grad(loss if policy == "none" else hop.checkpoint(loss, policy=policy)))
    start = time.perf_counter()
    try:
        lowered = f.lower(ws, x)
    except hop.InvalidError as error:
        return {"least": int(re.search(r"at least (\d+) bytes", str(error)).group(1))}
    executable = lowered.compile()
    first = time.perf_counter() - start
    args = hop.tree.leaves((ws, x))

    def run():
        return executable.run(args)

    grew, out = measured(run, lambda out: sum(a.nbytes for a in out))
    planned = json.loads(lowered.explain("json"))["memory_bytes"]
    return {
        "planned": planned, "measured": grew, "ms": milliseconds(run, n), "first": first,
        "norm": float(sum(np.sum(np.asarray(a, "float64") ** 2) for a in out)),
    }  # fmt: skip


def jax_point(policy, n, scanned=False):
    import jax
    import numpy as np
    import timings

    timings.BATCH, timings.SEQUENCE, timings.WIDTH = BATCH, SEQUENCE, WIDTH

    def block(x, w):
        return timings.block(timings.Jax, x, w)

    if policy != "none":
        chosen = getattr(jax.checkpoint_policies, policy)
        block = jax.checkpoint(block, policy=chosen, prevent_cse=not scanned)

    def loss(ws, x):
        if scanned:
            x = jax.lax.scan(lambda x, w: (block(x, w), None), x, ws)[0]
        else:
            for w in ws:
                x = block(x, w)
        return jax.numpy.mean(x * x)

    ws, x = jax.tree.map(jax.numpy.asarray, weights(np))
    if scanned:
        ws = jax.tree.map(lambda *rows: jax.numpy.stack(rows), *ws)
    start = time.perf_counter()
    compiled = jax.jit(jax.grad(loss)).lower(ws, x).compile()
    first = time.perf_counter() - start

    def run():
        return jax.block_until_ready(compiled(ws, x))

    def total(out):
        return sum(a.nbytes for a in jax.tree.leaves(out))

    grew, out = measured(run, total)
    return {
        "planned": compiled.memory_analysis().temp_size_in_bytes, "measured": grew,
        "ms": milliseconds(run, n), "first": first,
        "norm": float(sum(np.sum(np.asarray(a, "float64") ** 2) for a in jax.tree.leaves(out))),
    }  # fmt: skip


def points(quick):
    """Every point, as (system, policy, what was found), printed as it is found."""
    shares = SHARES[::3] if quick else SHARES
    wanted = [("hop", "none"), *(("hop", f"budget({share}%)") for share in shares)]
    wanted += [(system, policy) for system in ("JAX, loop", "JAX, scan") for policy in POLICIES]
    for system, policy in wanted:
        command = [sys.executable, __file__, "--point", system, policy, *["--quick"] * quick]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        print(json.dumps({"system": system, "policy": policy, **found}), flush=True)
        yield system, policy, found


def table_of(found):
    lines = ["| | policy | planned MB | measured MB | ms | compiled in s |", "|---|---|---|---|---|---|"]
    for system, policy, p in found:
        if "least" in p:
            lines.append(f"| {system} | `{policy}` | cannot be met: at least {p['least'] / 1e6:.1f} | | | |")
            continue
        mb = [f"{p[key] / 1e6:.1f}" for key in ("planned", "measured")]
        lines.append(f"| {system} | `{policy}` | {mb[0]} | {mb[1]} | {p['ms']:.0f} | {p['first']:.2f} |")
    return "\n".join(lines)


def draw(found, out):
    sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples" / "python"))
    import plot

    met = [(system, policy, p) for system, policy, p in found if "least" not in p]
    hop = sorted((p["measured"] / 1e6, p["ms"]) for system, policy, p in met if "budget" in policy)
    curves = [("hop within budgets", [a for a, _ in hop], [b for _, b in hop])]
    dots = []
    for name in ("JAX, loop", "JAX, scan"):
        jax = [(p["measured"] / 1e6, p["ms"]) for system, _, p in met if system == name]
        dots.append((f"{name}, its policies", [a for a, _ in jax], [b for _, b in jax]))
    title = f"The gradient of {BLOCKS} transformer blocks: memory against time"
    plot.save(out, title, curves, dots, x_label="MB at the peak", y_label="milliseconds")


def main():
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--quick", action="store_true", help="fewer budgets and runs")
    parser.add_argument("--table", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--picture", metavar="FILE")
    parser.add_argument("--point", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.point:
        system, policy = options.point
        n = 3 if options.quick else 9
        found = hop_point(policy, n) if system == "hop" else jax_point(policy, n, system == "JAX, scan")
        print(json.dumps(found))
        return 0
    found = list(points(options.quick))
    if options.table:
        import several

        several.write_table(options.table, MARKS, table_of(found))
    if options.picture:
        draw(found, options.picture)
    bad = 0
    norm = found[0][2]["norm"]
    for system, policy, p in found:
        if "least" in p:
            continue
        if abs(p["norm"] - norm) > 1e-3 * norm:
            bad += 1
            print(f"{system}, {policy}: the gradient's norm is {p['norm']}, expected {norm}", file=sys.stderr)
        if system == "hop" and abs(p["measured"] - p["planned"]) > 0.1 * p["planned"]:
            bad += 1
            print(f"{policy}: {p['measured']} bytes measured, {p['planned']} planned", file=sys.stderr)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
