"""Pools, resize and grid_sample beside PyTorch and JAX; one JSON object a line.

    python windows.py [CASE…] [--rounds N] [--processor] [--no-torch] [--no-jax] [--list]

max: 3 × 3 windows, 2 apart, of 8 × 64 × 112 × 112; avg: 2 × 2 windows of the same; global: their mean over
112 × 112; adaptive: to 13 × 13; resize: 8 × 64 × 56 × 56 to twice the size, linearly; grid: as many bilinear
samples of 8 × 64 × 56 × 56 as it has elements. Each forward and as a gradient. The calls of all libraries
alternate; a line has the medians in ms, and ratio_best: the quickest of the others against hop. Where a
library has no such function there is nothing beside it. --processor counts the time of all processors, for
machines that are busy; taskset -c 0 before the call gives all libraries one of them.
"""

import argparse
import json
import os
import statistics
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import numpy as np  # noqa: E402

import hop  # noqa: E402

LARGE, SMALL = (8, 64, 112, 112), (8, 64, 56, 56)


def data(case):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(SMALL if case in ("resize", "grid") else LARGE).astype("float32")
    if case != "grid":
        return [x]
    turn = 0.1 * rng.standard_normal((8, 2, 3)) + np.asarray([[1, 0, 0], [0, 1, 0]])
    line = np.linspace(-1, 1, 56)
    points = np.stack([*np.meshgrid(line, line), np.ones((56, 56))], -1)
    return [x, np.einsum("nij,hwj->nhwi", turn, points).astype("float32")]


HOP = {
    "max": lambda x: hop.max_pool(x, 3, 2, 1),
    "avg": lambda x: hop.avg_pool(x, 2),
    "global": lambda x: hop.mean(x, axis=(2, 3)),
    "adaptive": lambda x: hop.adaptive_avg_pool(x, 13),
    "resize": lambda x: hop.resize(x, (112, 112), axes=(2, 3)),
    "grid": lambda x, g: hop.grid_sample(x, g),
}


def of_torch():
    import torch
    import torch.nn.functional as F

    return torch, {
        "max": lambda x: F.max_pool2d(x, 3, 2, 1),
        "avg": lambda x: F.avg_pool2d(x, 2),
        "global": lambda x: F.adaptive_avg_pool2d(x, 1),
        "adaptive": lambda x: F.adaptive_avg_pool2d(x, 13),
        "resize": lambda x: F.interpolate(x, (112, 112), mode="bilinear"),
        "grid": lambda x, g: F.grid_sample(x, g, align_corners=False),
    }


def of_jax():
    import jax
    import jax.numpy as jnp
    from jax import lax

    def pool(x, start, fold, size, stride, pad):
        pads = ((0, 0), (0, 0), (pad, pad), (pad, pad))
        return lax.reduce_window(x, start, fold, (1, 1, size, size), (1, 1, stride, stride), pads)

    def grid(x, g):
        places = [((g[..., k] + 1) * 56 - 1) / 2 for k in (1, 0)]
        one = lambda plane, at: jax.scipy.ndimage.map_coordinates(plane, list(at), 1)  # noqa: E731
        return jax.vmap(jax.vmap(one, (0, None)))(x, jnp.stack(places, 1))

    return jax, {
        "max": lambda x: pool(x, -jnp.inf, lax.max, 3, 2, 1),
        "avg": lambda x: pool(x, 0.0, lax.add, 2, 2, 0) / 4,
        "global": lambda x: jnp.mean(x, (2, 3)),
        "resize": lambda x: jax.image.resize(x, (8, 64, 112, 112), "linear"),
        "grid": grid,
    }


def calls(case, arrays, gradient, torches, jaxes):
    """A function without arguments for each library."""
    given = [hop.asarray(a) for a in arrays]
    wrt = tuple(range(len(arrays)))
    loss = lambda *a: hop.sum(HOP[case](*a) ** 2)  # noqa: E731
    run = hop.jit(hop.grad(loss, argnums=wrt) if gradient else HOP[case])
    made = {"hop": lambda: run(*given)}
    if torches:
        torch, theirs = torches
        held = [torch.tensor(a, requires_grad=gradient) for a in arrays]

        def torch_gradient():
            return torch.autograd.grad((theirs[case](*held) ** 2).sum(), held)

        made["torch"] = torch_gradient if gradient else lambda: theirs[case](*held)
    if jaxes and case in jaxes[1]:
        jax, cases = jaxes
        there = [jax.numpy.asarray(a) for a in arrays]
        jax_loss = lambda *a: (cases[case](*a) ** 2).sum()  # noqa: E731
        f = jax.jit(jax.grad(jax_loss, argnums=wrt) if gradient else cases[case])
        made["jax"] = lambda: jax.block_until_ready(f(*there))
    return made


def as_numpy(out):
    first = out[0] if isinstance(out, (tuple, list)) else out
    return np.asarray(first.detach() if hasattr(first, "detach") else first)


def measure(case, gradient, rounds, clock, torches, jaxes):
    made = calls(case, data(case), gradient, torches, jaxes)
    results = {name: as_numpy(call()) for name, call in made.items()}
    for name, found in results.items():
        error = float(np.max(np.abs(found.reshape(results["hop"].shape) - results["hop"])))
        if error > 1e-2:
            raise SystemExit(f"{case}: {name} and hop differ by {error}")
    times = {name: [] for name in made}
    for _ in range(rounds):
        for name, call in made.items():
            begin = clock()
            call()
            times[name].append(1e3 * (clock() - begin))
    line = {"case": case, "gradient": gradient}
    line.update({name: round(statistics.median(t), 2) for name, t in times.items()})
    others = [line[name] for name in made if name != "hop"]
    if others:
        line["ratio_best"] = round(min(others) / line["hop"], 2)
    print(json.dumps(line), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--rounds", type=int, default=9)
    for option in ("--processor", "--no-torch", "--no-jax", "--list"):
        parser.add_argument(option, action="store_true")
    args = parser.parse_args()
    unknown = [case for case in args.cases if case not in HOP]
    if args.list or unknown:
        raise SystemExit(" ".join(HOP) if args.list else f"no case {unknown[0]}: {' '.join(HOP)}")
    torches = None if args.no_torch else of_torch()
    jaxes = None if args.no_jax else of_jax()
    clock = time.process_time if args.processor else time.perf_counter
    for case in args.cases or HOP:
        for gradient in (False, True):
            measure(case, gradient, args.rounds, clock, torches, jaxes)


if __name__ == "__main__":
    main()
