"""Mixed precision: a small network is trained in float32 and under autocast, from the same weights on the
same data, two spirals that it learns to tell apart. Under autocast products are in bfloat16, sums and tanh in
float32; weights and gradients stay in float32, and both losses go down together."""

import hop
import plot

POINTS, HIDDEN, STEPS = 256, 32, 300


def spirals(key):
    """Points on two arms that wind about each other, and which arm each is on."""
    t = 0.5 + 2.5 * hop.random.uniform(key, (POINTS,))
    arm = hop.arange(POINTS) % 2
    angle = 2 * t + 3.14159 * arm
    return hop.stack([t * hop.cos(angle), t * hop.sin(angle)], axis=1) / 3, arm


def weights(key):
    a, b, c = hop.random.split(key, 3)
    return {
        "in": hop.random.normal(a, (2, HIDDEN)),
        "hidden": hop.random.normal(b, (HIDDEN, HIDDEN)) / HIDDEN**0.5,
        "out": hop.random.normal(c, (HIDDEN, 2)) / HIDDEN**0.5,
    }


def loss(p, x, arm):
    h = hop.tanh(x @ p["in"])
    h = hop.tanh(h @ p["hidden"])
    scores = hop.log_softmax(h @ p["out"], axis=1)
    return -hop.mean(hop.take_along_axis(scores, arm[:, None], axis=1))


adam = hop.optim.adam(0.01)


@hop.jit  # captured once for each mode in which it is called
def train(p, state, x, arm):
    value, g = hop.value_and_grad(loss)(p, x, arm)
    return value, *adam.update(g, state, p)


def losses(mode, x, arm):
    p, found = weights(hop.random.key(1)), []
    state = adam.init(p)
    with mode:
        for _ in range(STEPS):
            value, p, state = train(p, state, x, arm)
            found.append(value.item())
    assert all(w.dtype == hop.float32 for w in p.values())
    return found


def main():
    x, arm = spirals(hop.random.key(0))
    whole = losses(hop.autocast(enabled=False), x, arm)
    mixed = losses(hop.autocast(hop.bfloat16), x, arm)
    print(" step    float32   bfloat16")
    for k in (*range(0, STEPS, 60), STEPS - 1):
        print(f"{k:5d} {whole[k]:10.4f} {mixed[k]:10.4f}")
    assert whole[-1] < 0.2 * whole[0] and mixed[-1] < 0.2 * mixed[0], (whole[-1], mixed[-1])
    assert whole != mixed
    steps = list(range(STEPS))
    curves = [("float32", steps, whole), ("products in bfloat16", steps, mixed)]
    plot.save("mixed_precision.svg", "The same training twice", curves, x_label="step of training", log=True)
    print("wrote mixed_precision.svg")


if __name__ == "__main__":
    main()
