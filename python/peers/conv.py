"""Convolutions beside PyTorch and JAX: layers of ResNet-50 and MobileNet, forward and both gradients, and a
heat equation on a grid as a convolution and with rolls; one JSON object a line.

    python conv.py [CASE…] [--batch N…] [--rounds N] [--cpu] [--no-torch] [--no-jax] [--list]

The calls of all libraries alternate; a line has the medians in ms, and ratio_best: the quickest of the others
against hop. --cpu measures time of the processor instead of time that passes, for a machine that is busy;
set HOP_THREADS=1, OMP_NUM_THREADS=1 and XLA_FLAGS=--xla_cpu_multi_thread_eigen=false with it. Results are
compared before anything is measured.
"""

import argparse
import json
import statistics
import time

import numpy as np

import hop

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


def heat_of_hop(as_conv):
    w, u = hop.asarray(FIVE), hop.zeros((GRID, GRID)).at[GRID // 2, GRID // 2].set(1.0)

    def rolled(i, u):
        beside = sum(hop.roll(u, shift, axis=axis) for axis in (0, 1) for shift in (1, -1))
        return 0.6 * u + 0.1 * beside

    def convolved(i, u):
        return hop.conv(u[None, None], w, padding=1)[0, 0]

    run = hop.jit(lambda u: hop.fori_loop(0, STEPS, convolved if as_conv else rolled, u))
    return lambda: run(u).block_until_ready()


def heat_of_jax(as_conv):
    import jax

    jnp = jax.numpy
    w, u = jnp.asarray(FIVE), jnp.zeros((GRID, GRID)).at[GRID // 2, GRID // 2].set(1.0)

    def rolled(i, u):
        beside = jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1)
        return 0.6 * u + 0.1 * beside

    def convolved(i, u):
        return jax.lax.conv_general_dilated(u[None, None], w, (1, 1), [(1, 1)] * 2)[0, 0]

    run = jax.jit(lambda u: jax.lax.fori_loop(0, STEPS, convolved if as_conv else rolled, u))
    return lambda: jax.block_until_ready(run(u))


def measure(runs, rounds, clock):
    times = {name: [] for name in runs}
    for run in runs.values():
        run()
    for _ in range(rounds):
        for name, run in runs.items():
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
    print(json.dumps({**what, **medians}), flush=True)


def compare(made):
    """Both parts of every library against hop's."""
    numbers = {
        name: [np.asarray(a) for a in (forward(), *backward())] for name, (forward, backward) in made.items()
    }
    for name, arrays in numbers.items():
        for a, b in zip(arrays, numbers["hop"]):
            assert np.abs(a - b).max() <= 1e-4 * max(1, np.abs(a).max()), name


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cases", nargs="*", default=[*LAYERS, "heat"])
    parser.add_argument("--batch", type=int, nargs="*", default=[1, 8])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("--no-jax", action="store_true")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.list:
        print("\n".join([*LAYERS, "heat"]))
        return
    libraries = {"hop": of_hop, "torch": of_torch, "jax": of_jax}
    if options.no_torch:
        del libraries["torch"]
    if options.no_jax:
        del libraries["jax"]
    for case in options.cases:
        if case == "heat":
            for as_conv in (True, False):
                runs = {"hop": heat_of_hop(as_conv)}
                if not options.no_jax:
                    runs["jax"] = heat_of_jax(as_conv)
                report({"case": "heat", "as": "conv" if as_conv else "roll"}, runs, options)
            continue
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
                report({"case": case, "batch": batch, "what": what}, runs, options)


if __name__ == "__main__":
    main()
