"""Spiking neurons, trained by a gradient that is not the true one. A neuron adds up its inputs, leaks, and
gives a spike when it passes a threshold: a step, whose derivative is zero wherever there is one. A custom_vjp
gives the step the slope of a smooth function instead, and gradients go back through a scan over time."""

import random

import hop
import plot

T, INPUTS, HIDDEN, PATTERNS = 40, 12, 24, 4


@hop.custom_vjp
def spike(v):
    """1 above the threshold, 0 below."""
    return hop.where(v > 0, 1.0, 0.0)


def spike_forward(v):
    return spike(v), v


def spike_backward(v, g):
    return (g / (1 + 5 * hop.abs(v)) ** 2,)


spike.defvjp(spike_forward, spike_backward)


def run(p, train, fire):
    """How often each output neuron spikes for a train of input spikes, and the spikes of the hidden ones."""

    def step(state, now):
        hidden, out = state
        hidden = 0.9 * hidden + now @ p["in"]
        spikes = fire(hidden - 1.0)
        hidden = hidden - spikes
        out = 0.9 * out + spikes @ p["out"]
        given = fire(out - 1.0)
        return (hidden, out - given), (given, spikes)

    start = hop.zeros(HIDDEN), hop.zeros(PATTERNS)
    _, (given, spikes) = hop.scan(step, start, train)
    return hop.sum(given, axis=0), spikes


def loss(p, trains, labels, fire=spike):
    """Cross entropy of the counts, and how many patterns are told right."""
    counts, _ = hop.vmap(lambda train: run(p, train, fire))(trains)
    chosen = hop.take_along_axis(hop.log_softmax(counts, axis=1), labels[:, None], axis=1)
    return -hop.mean(chosen), hop.mean((hop.argmax(counts, axis=1) == labels).astype(hop.float32))


def data(rng):
    """Patterns that differ in which inputs spike often."""
    rates = [[rng.choice((0.05, 0.5)) for _ in range(INPUTS)] for _ in range(PATTERNS)]
    trains, labels = [], []
    for k in range(64):
        labels.append(k % PATTERNS)
        trains.append([[float(rng.random() < r) for r in rates[k % PATTERNS]] for _ in range(T)])
    return hop.asarray(trains), hop.asarray(labels)


def main():
    rng = random.Random(3)
    trains, labels = data(rng)

    def weights(rows, columns, scale):
        return hop.asarray([[rng.gauss(0.1, scale) for _ in range(columns)] for _ in range(rows)])

    p = {"in": weights(INPUTS, HIDDEN, 0.3), "out": weights(HIDDEN, PATTERNS, 0.2)}
    step = lambda v: hop.where(v > 0, 1.0, 0.0)
    true, _ = hop.grad(lambda p: loss(p, trains, labels, step), has_aux=True)(p)
    ours, _ = hop.grad(lambda p: loss(p, trains, labels), has_aux=True)(p)
    print("largest gradient  of the step itself  with the slope of its own")
    for name in p:
        sizes = [hop.max(hop.abs(g[name])).item() for g in (true, ours)]
        print(f"{name:16s} {sizes[0]:19.6f} {sizes[1]:27.6f}")
        assert sizes[0] == 0 and sizes[1] > 0

    adam = hop.optim.adam(0.02)

    @hop.jit
    def train(p, state):
        (value, right), g = hop.value_and_grad(lambda p: loss(p, trains, labels), has_aux=True)(p)
        return value, right, *adam.update(g, state, p)

    print("\n step       loss   told right")
    state, losses, rights = adam.init(p), [], []
    for k in range(121):
        value, right, p, state = train(p, state)
        losses.append(value.item())
        rights.append(right.item())
        if k % 20 == 0:
            print(f"{k:5d} {losses[-1]:10.4f} {rights[-1]:11.0%}")
    assert losses[-1] < 0.3 * losses[0] and rights[-1] > 0.95, (losses[-1], rights[-1])
    _, spikes = run(p, trains[0], spike)
    steps = list(range(len(losses)))
    curve = plot.panel("", [("loss", steps, losses)], x_label="step of training", log=True)
    field = plot.panel("", [("told right", steps, rights)], x_label="step of training")
    plot.save_panels("spikes.svg", "Training neurons that spike", [curve, field], width=900)
    print(f"hidden spikes of the first pattern: {hop.sum(spikes).item():.0f}\nwrote spikes.svg")


if __name__ == "__main__":
    main()
