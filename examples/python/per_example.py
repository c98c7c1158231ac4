"""Gradients of each example by itself, vmap of grad, on a small classifier: what the mean gradient hides.
Mislabelled examples show by the size of their gradients; clipping each of them before the mean keeps them
from spoiling the fit."""

import math
import random

import hop
import plot

N, WRONG = 300, 30


def data(rng):
    """Two arcs that interlock, and some labels turned over."""
    points, labels = [], []
    for i in range(N):
        t, side = rng.uniform(0, math.pi), i % 2
        x, y = (math.cos(t), math.sin(t)) if side == 0 else (1 - math.cos(t), 0.5 - math.sin(t))
        points.append([x + rng.gauss(0, 0.1), y + rng.gauss(0, 0.1)])
        labels.append(float(side))
    wrong = rng.sample(range(N), WRONG)
    given = [1 - y if i in set(wrong) else y for i, y in enumerate(labels)]
    return hop.asarray(points), hop.asarray(given), hop.asarray(labels), set(wrong)


def score(p, x):
    return hop.tanh(hop.tanh(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]) @ p["w3"]


def loss(p, x, y):
    """Of one example."""
    s = score(p, x)
    return hop.logaddexp(0.0, s) - y * s


per_example = hop.vmap(hop.grad(loss), (None, 0, 0))


def norms(g):
    return hop.sqrt(sum(hop.sum(a.reshape(a.shape[0], -1) ** 2, axis=1) for a in hop.tree.leaves(g)))


def fit(p, xs, ys, bound):
    """Descends along the mean of gradients, each of them no longer than the bound."""

    def step(p, _):
        g = per_example(p, xs, ys)
        scale = hop.minimum(1.0, bound / (norms(g) + 1e-12))
        mean = hop.tree.map(lambda a: hop.tensordot(scale, a, axes=1) / xs.shape[0], g)
        return hop.tree.map(lambda p, g: p - 0.5 * g / hop.minimum(1.0, bound), p, mean), None

    return hop.scan(step, p, length=1000)[0]


def main():
    rng = random.Random(2)
    xs, given, true, wrong = data(rng)
    matrix = lambda m, n: (  # noqa: E731
        hop.asarray([[rng.gauss(0, m**-0.5) for _ in range(n)] for _ in range(m)])
    )
    p = {
        "w1": matrix(2, 16),
        "b1": matrix(1, 16)[0],
        "w2": matrix(16, 16),
        "b2": matrix(1, 16)[0],
        "w3": 4 * matrix(16, 1)[:, 0],
    }

    g = hop.jit(per_example)(p, xs, given)
    one = hop.grad(loss)(p, xs[7], given[7])
    whole = hop.grad(lambda p: hop.mean(hop.vmap(loss, (None, 0, 0))(p, xs, given)))(p)
    for name in p:
        assert hop.max(hop.abs(g[name][7] - one[name])).item() < 1e-5
        assert hop.max(hop.abs(hop.mean(g[name], axis=0) - whole[name])).item() < 1e-5

    right = lambda p: hop.mean(  # noqa: E731
        ((hop.vmap(score, (None, 0))(p, xs) > 0) == (true > 0.5)).astype(hop.float32)
    ).item()
    print("clipped at   right labels   wrong labels among the longest gradients")
    found = {}
    for bound in (1e6, 0.2):
        q = hop.jit(fit)(p, xs, given, bound)
        lengths = norms(per_example(q, xs, given)).tolist()
        order = sorted(range(N), key=lambda i: -lengths[i])
        hits = len(wrong & set(order[:WRONG]))
        found[bound] = right(q), hits
        print(f"{'never' if bound > 1 else bound:>10} {right(q):14.1%} {hits:20d} of {WRONG}")
    assert found[0.2][0] >= found[1e6][0] and found[0.2][1] >= 0.8 * WRONG, found
    groups = [
        (name, [i for i in range(N) if (i in wrong) == turned])
        for name, turned in (("label as it was", False), ("label turned over", True))
    ]
    points = [(name, group, [lengths[i] for i in group]) for name, group in groups]
    plot.save(
        "per_example.svg", "Which labels are wrong? The length of each example's gradient", points=points,
        x_label="example", y_label="length of its gradient", log=True,
    )
    print("wrote per_example.svg")


if __name__ == "__main__":
    main()
