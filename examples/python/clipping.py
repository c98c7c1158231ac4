"""Gradients that explode, clipped layer by layer: in a deep network of tanh layers whose weights are large a
gradient grows from layer to layer on its way back, a hundredfold at the first one. Hooks between the layers
keep it within a bound, without a word in the layers themselves; others, of the host, write down how large it
is where it arrives."""

import math
import random

import hop
import plot

LAYERS, WIDTH, STEPS = 16, 16, 300


def layer(p, x):
    return hop.tanh(x @ p["w"] + p["b"])


def bounded(bound, g):
    """g, no longer than the bound."""
    return g * hop.minimum(1.0, bound / (hop.sqrt(hop.sum(g * g)) + 1e-12))


def note(log, g):
    log.value.append(math.sqrt(hop.sum(g * g).item()))


def network(params, x, bound, log):
    """bound: of the gradient behind each layer; log: a list that gets its sizes, from the last layer on."""
    for p in params:
        x = layer(p, x)
        x = hop.hook(x, bounded, state=bound)
        x = hop.hook(x, note, state=log, host=True)
    return x


def loss(params, xs, ys, bound, log):
    return hop.mean((hop.sum(network(params, xs, bound, log), axis=1) - ys) ** 2)


@hop.jit
def step(params, xs, ys, bound, rate, log):
    value, g = hop.value_and_grad(loss)(params, xs, ys, bound, log)
    return value, hop.tree.map(lambda p, g: p - rate * g, params, g)


def main():
    rng = random.Random(1)

    def matrix(m, n, size):
        return hop.asarray([[rng.gauss(0, size) for _ in range(n)] for _ in range(m)])

    start = [
        {"w": matrix(WIDTH, WIDTH, 3 / math.sqrt(WIDTH)), "b": hop.zeros(WIDTH)} for _ in range(LAYERS)
    ]
    xs = matrix(64, WIDTH, 0.3)
    ys = hop.sin(hop.sum(xs, axis=1))
    first, curves = {}, []
    for name, bound in (("free", math.inf), ("clipped", 0.05)):
        params, losses = start, []
        for i in range(STEPS):
            log = hop.Object([], kind="sizes")
            value, params = step(params, xs, ys, hop.asarray(bound), hop.asarray(0.05), log)
            losses.append(value.item())
            first.setdefault(name, log.value)
        curves.append((name, list(range(STEPS)), losses))
        print(f"{name}: the gradient behind layers {LAYERS}, …, 1 at the first step, as it arrives")
        print("  " + " ".join(f"{size:.2g}" for size in first[name]))
        print(f"  loss {losses[0]:.2f} at first, {losses[-1]:.4f} after {STEPS} steps")
    assert first["free"][-1] > 50 * first["free"][0] and max(first["clipped"][1:]) < 0.2, first
    assert curves[1][2][-1] < 0.2 * curves[0][2][-1]
    numbers = list(range(LAYERS, 0, -1))
    sizes = [(name, numbers, first[name]) for name in first]
    panels = [
        plot.panel("Gradient behind each layer", sizes, (), (), "layer", "size of the gradient", (), True),
        plot.panel("Loss", curves, (), (), "step", "loss", (), True),
    ]
    plot.save_panels("clipping.svg", "Gradients that explode, and clipped by a hook at each layer", panels)
    print("wrote clipping.svg")


if __name__ == "__main__":
    main()
