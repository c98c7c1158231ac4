"""Gaussian-process regression: the length scale, the height and the noise of a process are those that make
the data most likely. The likelihood goes through a Cholesky decomposition; its gradient and its Hessian go
through it, too, and Newton's method needs both. The Hessian at the end says how well each parameter is
known."""

import math
import random

import hop
import plot

NAMES = ("length scale", "height", "noise")
EDGE = 6.0


def signal(x):
    return math.sin(x) + 0.5 * math.sin(2.7 * x + 1.0)


def observations(rng):
    """Places with a gap in the middle, and noisy values there."""
    xs = sorted([rng.uniform(-EDGE, -1.0) for _ in range(45)] + [rng.uniform(1.5, EDGE) for _ in range(45)])
    ys = [signal(x) + rng.gauss(0, 0.2) for x in xs]
    return hop.asarray(xs, dtype=hop.float64), hop.asarray(ys, dtype=hop.float64)


def kernel(p, a, b):
    """How much the values at a and at b have in common; p holds logarithms."""
    return hop.exp(2 * p[1] - 0.5 * ((a[:, None] - b[None, :]) * hop.exp(-p[0])) ** 2)


def covariance(p, x):
    return kernel(p, x, x) + hop.exp(2 * p[2]) * hop.eye(x.size, dtype=x.dtype)


def surprise(p, x, y):
    """The negative logarithm of the likelihood."""
    lower = hop.linalg.cholesky(covariance(p, x))
    z = hop.linalg.solve_triangular(lower, y, lower=True)
    return 0.5 * z @ z + hop.sum(hop.log(hop.diagonal(lower))) + 0.5 * x.size * math.log(2 * math.pi)


@hop.jit
def look(p, x, y):
    value, slope = hop.value_and_grad(surprise)(p, x, y)
    return value, slope, hop.hessian(surprise)(p, x, y)


@hop.jit
def step(slope, bend):
    """Newton's step along directions that bend upwards, the same distance along the others."""
    values, vectors = hop.linalg.eigh(bend)
    move = vectors @ ((vectors.T @ slope) / hop.maximum(hop.abs(values), 1.0))
    return move / hop.maximum(1.0, hop.linalg.vector_norm(move))


@hop.jit
def predict(p, x, y, at):
    """Mean and deviation of the values at other places."""
    shared = kernel(p, x, at)
    weights = hop.linalg.solve(covariance(p, x), hop.concat([y[:, None], shared], axis=1))
    mean, explained = shared.T @ weights[:, 0], hop.sum(shared * weights[:, 1:], axis=0)
    return mean, hop.sqrt(hop.exp(2 * p[1]) - explained)


def main():
    x, y = observations(random.Random(3))
    p = hop.asarray([math.log(4.0), math.log(0.3), math.log(0.5)], dtype=hop.float64)
    print("step   -log-likelihood   |gradient| " + "".join(f"{name:>14}" for name in NAMES))
    for trip in range(50):
        value, slope, bend = look(p, x, y)
        size = hop.linalg.vector_norm(slope).item()
        print(
            f"{trip:4d} {value.item():17.6f} {size:12.2e} "
            + "".join(f"{v:14.4f}" for v in hop.exp(p).tolist())
        )
        if size < 1e-8:
            break
        move = step(slope, bend)
        while surprise(p - move, x, y).item() > value.item() and hop.max(hop.abs(move)).item() > 1e-9:
            move = 0.5 * move
        p = p - move
    assert size < 1e-6

    deviation = hop.sqrt(hop.diagonal(hop.linalg.inv(bend)))
    print()
    for name, v, d in zip(NAMES, hop.exp(p).tolist(), deviation.tolist()):
        print(f"{name:14} {v:8.3f}, known to {100 * d:.0f} %")
    assert abs(math.exp(p[2].item()) - 0.2) < 0.06  # the noise that was put in

    at = hop.linspace(-EDGE, EDGE, 241, dtype=hop.float64)
    mean, wide = [v.tolist() for v in predict(p, x, y, at)]
    places = at.tolist()
    truth = [signal(v) for v in places]
    low, high = [m - 2 * s for m, s in zip(mean, wide)], [m + 2 * s for m, s in zip(mean, wide)]
    inside = sum(a <= t <= b for a, t, b in zip(low, truth, high)) / len(truth)
    print(
        f"\nthe signal is within two deviations at {inside:.0%} of the places; "
        f"widest where nothing was observed: {max(wide):.2f} at {places[wide.index(max(wide))]:.2f}"
    )
    assert inside > 0.85 and -1.0 < places[wide.index(max(wide))] < 1.5

    plot.save(
        "gaussian_process.svg",
        "A Gaussian process fitted to 90 observations",
        [("mean", places, mean), ("signal", places, truth)],
        [("observed", x.tolist(), y.tolist())],
        [("two deviations", places, low, high)],
        x_label="place",
        y_label="value",
        dashed=["signal"],
    )  # fmt: skip
    print("wrote gaussian_process.svg")


if __name__ == "__main__":
    main()
