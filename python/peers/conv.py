"""Convolutions beside PyTorch and JAX: layers of ResNet-50 and MobileNet, forward and both gradients, and a
heat equation on a grid of 256 by 256, written with rolls, with slices and as a convolution; one JSON object a
line.

    python conv.py [CASE…] [--batch N…] [--rounds N] [--cpu] [--no-torch] [--no-jax] [--table FILE] [--list]

The libraries take turns; a line has the medians in ms, and ratio_best: the quickest of the others against
hop. --cpu measures time of the processor instead of time that passes, for a machine that is busy; set
HOP_NUM_THREADS=1, OMP_NUM_THREADS=1 and XLA_FLAGS=--xla_cpu_multi_thread_eigen=false with it. Results are
compared before anything is measured. --table writes the tables of a page between their marks.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import numpy as np  # noqa: E402
import several  # noqa: E402

import hop  # noqa: E402

MARKS = "<!-- conv: begin -->", "<!-- conv: end -->"
HEAT_MARKS = "<!-- heat: begin -->", "<!-- heat: end -->"

# channels in and out, pixels along a side, taps, stride, padding, groups
LAYERS = {
    "7x7/2": (3, 64, 224, 7, 2, 3, 1),
    "3x3": (64, 64, 56, 3, 1, 1, 1),
    "1x1": (256, 64, 56, 1, 1, 0, 1),
    "3x3/2": (128, 128, 56, 3, 2, 1, 1),
    "3x3_deep": (512, 512, 7, 3, 1, 1, 1),
    "depthwise": (144, 144, 56, 3, 1, 1, 144),
    "depthwise/2": (144, 144, 56, 3, 2, 1, 144),
    "1x1_wide": (32, 192, 112, 1, 1, 0, 1),
}
GRID, STEPS = 256, 200
FIVE = np.asarray([[0, 0.1, 0], [0.1, 0.6, 0.1], [0, 0.1, 0]], "float32")[None, None]


def of_hop(layer, x, w, ct):
    _, _, _, _, stride, pad, groups = layer

    def f(x, w):
        return hop.conv(x, w, stride, pad, groups=groups)

    forward, backward = hop.jit(f), hop.jit(lambda x, w, ct: hop.vjp(f, x, w)[1](ct))
    x, w, ct = (hop.asarray(a) for a in (x, w, ct))
    return (
        lambda: forward(x, w).block_until_ready(),
        lambda: [a.block_until_ready() for a in backward(x, w, ct)],
    )


def of_torch(layer, x, w, ct):
    import torch

    _, _, _, _, stride, pad, groups = layer
    x, w, ct = (torch.tensor(a) for a in (x, w, ct))

    def forward():
        with torch.no_grad():
            return torch.nn.functional.conv2d(x, w, stride=stride, padding=pad, groups=groups)

    def backward():
        a, b = x.detach().requires_grad_(), w.detach().requires_grad_()
        y = torch.nn.functional.conv2d(a, b, stride=stride, padding=pad, groups=groups)
        return torch.autograd.grad(y, (a, b), ct)

    return forward, backward


def of_jax(layer, x, w, ct):
    import jax

    _, _, _, _, stride, pad, groups = layer
    x, w, ct = (jax.numpy.asarray(a) for a in (x, w, ct))

    def f(x, w):
        pads = [(pad, pad)] * 2
        return jax.lax.conv_general_dilated(x, w, (stride, stride), pads, feature_group_count=groups)

    forward, backward = jax.jit(f), jax.jit(lambda x, w, ct: jax.vjp(f, x, w)[1](ct))
    return lambda: jax.block_until_ready(forward(x, w)), lambda: jax.block_until_ready(backward(x, w, ct))


def steps_of_heat(lib, conv):
    """One step of the heat equation, in each way in which people write it."""

    def rolled(i, u):
        beside = sum(lib.roll(u, shift, axis=axis) for axis in (0, 1) for shift in (1, -1))
        return 0.6 * u + 0.1 * beside

    def beside(u):
        return u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]

    def padded(i, u):
        return 0.6 * u + 0.1 * beside(lib.pad(u, 1))

    def updated(i, u):
        return u.at[1:-1, 1:-1].set(0.6 * u[1:-1, 1:-1] + 0.1 * beside(u))

    def convolved(i, u):
        return conv(u[None, None])[0, 0]

    return {"roll": rolled, "pad and slices": padded, "slices and at[…].set": updated, "conv": convolved}


def heat_runs(lib, transform, loop, conv, wait):
    """{form: (forward, gradient)} of 200 steps from a point."""
    u = lib.zeros((GRID, GRID)).at[GRID // 2, GRID // 2].set(1.0)

    def calls(step):
        def walk(u):
            return loop(0, STEPS, step, u)

        forward, slope = transform.jit(walk), transform.jit(transform.grad(lambda u: lib.sum(walk(u) ** 2)))
        return lambda: wait(forward(u)), lambda: wait(slope(u))

    return {form: calls(step) for form, step in steps_of_heat(lib, conv).items()}


def heat_of_hop():
    w = hop.asarray(FIVE)
    return heat_runs(
        hop, hop, hop.fori_loop, lambda u: hop.conv(u, w, padding=1), lambda out: out.block_until_ready()
    )


def heat_of_jax():
    import jax

    w = jax.numpy.asarray(FIVE)

    def conv(u):
        return jax.lax.conv_general_dilated(u, w, (1, 1), [(1, 1)] * 2)

    return heat_runs(jax.numpy, jax, jax.lax.fori_loop, conv, jax.block_until_ready)


TURNS = 3  # of a library's rounds: between them the others have theirs


def measure(runs, rounds, clock):
    """The medians. Before its turn the threads of the others get time to stop spinning."""
    times = {name: [] for name in runs}
    for _ in range(TURNS):
        for name, run in runs.items():
            time.sleep(0.03)
            run()
            for _ in range(-(-rounds // TURNS)):
                begun = clock()
                run()
                times[name].append(clock() - begun)
    return {name: round(statistics.median(t) * 1e3, 3) for name, t in times.items()}


def report(what, runs, options):
    clock = time.process_time if options.cpu else time.perf_counter
    medians = measure(runs, options.rounds, clock)
    others = [t for name, t in medians.items() if name != "hop"]
    if others:
        medians["ratio_best"] = round(min(others) / medians["hop"], 2)
    line = {**what, **medians}
    print(json.dumps(line), flush=True)
    return line


def compare(made):
    """Both parts of every library against hop's."""
    numbers = {
        name: [np.asarray(a) for a in (forward(), *backward())] for name, (forward, backward) in made.items()
    }
    for name, arrays in numbers.items():
        for a, b in zip(arrays, numbers["hop"]):
            assert np.abs(a - b).max() <= 1e-4 * max(1, np.abs(a).max()), name


WORDS = {
    "7x7/2": "7 × 7, stride 2, 3 to 64 channels, 224²",
    "3x3": "3 × 3, 64 to 64, 56²",
    "1x1": "1 × 1, 256 to 64, 56²",
    "3x3/2": "3 × 3, stride 2, 128 to 128, 56²",
    "3x3_deep": "3 × 3, 512 to 512, 7²",
    "depthwise": "depthwise 3 × 3, 144, 56²",
    "depthwise/2": "depthwise 3 × 3, stride 2, 144, 56²",
    "1x1_wide": "1 × 1, 32 to 192, 112²",
}


def table(lines, first, options):
    """Of lines with the same libraries; first: the heads of what says which case it is, and their texts."""
    cores = len(os.sched_getaffinity(0))
    clock = "time of the processor, on one thread" if options.cpu else f"on {cores} processors"
    names = {"hop": "hop", "torch": "PyTorch", "jax": "JAX"}
    there = [name for name in names if name in lines[0]]
    heads = [*first, *(names[name] for name in there), "quickest other / hop"]
    rows = [heads, ["---"] * len(heads)]
    for line in lines:
        cells = [str(of(line)) for of in first.values()]
        cells += [f"{line[name]:,.2f}" for name in there] + [f"{line.get('ratio_best', 0):.2f}"]
        rows.append(cells)
    versions = [f"{names[name]} {sys.modules[name].__version__.partition('+')[0]}" for name in there]
    said = f"{', '.join(versions)}; medians in ms, {clock}."
    return "\n".join([said, "", *(f"| {' | '.join(row)} |" for row in rows)])


def layer_lines(case, options, libraries):
    channels, out, size, taps, stride, pad, groups = LAYERS[case]
    for batch in options.batch:
        rng = np.random.default_rng(0)
        x = rng.standard_normal((batch, channels, size, size)).astype("float32")
        w = rng.standard_normal((out, channels // groups, taps, taps)).astype("float32")
        side = (size + 2 * pad - taps) // stride + 1
        ct = rng.standard_normal((batch, out, side, side)).astype("float32")
        made = {name: of(LAYERS[case], x, w, ct) for name, of in libraries.items()}
        compare(made)
        for part, what in enumerate(("forward", "gradients")):
            runs = {name: both[part] for name, both in made.items()}
            yield report({"case": case, "batch": batch, "what": what}, runs, options)


def heat_lines(options):
    made = {"hop": heat_of_hop()} | ({} if options.no_jax else {"jax": heat_of_jax()})
    for form in made["hop"]:
        results = {name: np.asarray(runs[form][0]()) for name, runs in made.items()}
        assert all(np.abs(found - results["hop"]).max() <= 1e-5 for found in results.values()), form
        for part, what in enumerate(("forward", "gradient")):
            runs = {name: forms[form][part] for name, forms in made.items()}
            yield report({"case": "heat", "as": form, "what": what}, runs, options)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cases", nargs="*", default=[*LAYERS, "heat"])
    parser.add_argument("--batch", type=int, nargs="*", default=[1, 8])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--table", metavar="FILE", type=pathlib.Path)
    for flag in ("--cpu", "--no-torch", "--no-jax", "--list"):
        parser.add_argument(flag, action="store_true")
    options = parser.parse_args()
    if options.list:
        print("\n".join([*LAYERS, "heat"]))
        return
    libraries = {"hop": of_hop, "torch": of_torch, "jax": of_jax}
    if options.no_torch:
        del libraries["torch"]
    if options.no_jax:
        del libraries["jax"]
    chosen = [case for case in options.cases if case in LAYERS]
    layers = [line for case in chosen for line in layer_lines(case, options, libraries)]
    heat = list(heat_lines(options)) if "heat" in options.cases else []
    if options.table and layers:
        first = {"layer": lambda line: WORDS[line["case"]], "batch": lambda line: line["batch"]}
        first[""] = lambda line: line["what"]
        several.write_table(options.table, MARKS, table(layers, first, options))
    if options.table and heat:
        first = {"heat equation": lambda line: line["as"], "": lambda line: line["what"]}
        several.write_table(options.table, HEAT_MARKS, table(heat, first, options))


if __name__ == "__main__":
    main()
