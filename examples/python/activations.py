"""What goes on inside of a deep network, seen by probes: how widely the activations of each layer are spread,
and how large the gradients are that reach them, for three scales of the initial weights. Too small, both
fade from layer to layer; too large, units are saturated and gradients grow on their way back; between, both
stay. The network knows nothing of being looked at. Writes activations.svg."""

import math

import hop
import plot

LAYERS, WIDTH, EXAMPLES = 12, 64, 128
SCALES = {"small": 0.6, "right": 1.0, "large": 3.0}


def network(weights, x):
    for i, w in enumerate(weights):

        @hop.region("named", name=f"layer{i:02d}")
        def layer(x):
            return hop.probe(hop.tanh(x @ w), "out")

        x = layer(x)
    return x


def loss(weights, x, y):
    return hop.mean((network(weights, x) - y) ** 2)


def made(scale, key):
    keys = hop.random.split(key, LAYERS)
    return [scale / math.sqrt(WIDTH) * hop.random.normal(keys[i], (WIDTH, WIDTH)) for i in range(LAYERS)]


def spread(values):
    """The root of the mean square of each layer's values, in order."""
    return [math.sqrt(hop.mean(values[name]["out"] ** 2).item()) for name in sorted(values)]


def main():
    key = hop.random.key(0)
    x = hop.random.normal(hop.random.fold_in(key, 1), (EXAMPLES, WIDTH))
    y = hop.random.normal(hop.random.fold_in(key, 2), (EXAMPLES, WIDTH))
    asked, moved = hop.jit(hop.probes(loss)), hop.perturb(loss)
    gradients = hop.jit(hop.grad(moved))
    layers, outs, backs = list(range(1, LAYERS + 1)), {}, {}
    for name, scale in SCALES.items():
        weights = made(scale, key)
        value, values = asked(weights, x, y)
        assert abs(value.item() - loss(weights, x, y).item()) < 1e-5
        outs[name] = spread(values)
        backs[name] = spread(gradients(moved.zeros(weights, x, y), weights, x, y))
        print(f"{name:6s} weights: first and last layer {outs[name][0]:.3f} {outs[name][-1]:.3f}, "
              f"gradients there {backs[name][0]:.1e} {backs[name][-1]:.1e}")  # fmt: skip
    assert outs["small"][-1] < 0.01 < 0.1 < outs["right"][-1] < 0.8 < outs["large"][-1]
    assert backs["small"][0] < 0.1 * backs["right"][0] and backs["right"][0] < 0.1 * backs["large"][0]
    left = plot.panel("activations", [(n, layers, v) for n, v in outs.items()], x_label="layer", log=True)
    right = plot.panel("gradients", [(n, layers, v) for n, v in backs.items()], x_label="layer", log=True)
    plot.save_panels("activations.svg", "Inside of a network of 12 layers", [left, right], width=900)
    print("wrote activations.svg")


if __name__ == "__main__":
    main()
