"""A network whose layers compute with few bits. Each layer is a region of a kind of this file's own; what
becomes of such regions, numbers rounded to a grid, is said in one place, by a rewriting, and the model knows
nothing of it. Gradients go straight through: the rewriting leaves backward bodies as they are. A network that
learns some more with the rounding is better at few bits than one that was rounded when it was done."""

import hop
import plot

KEY, POINTS, HIDDEN, STEPS = 3, 256, 24, 1500


def on_grid(x, bits):
    """x at one of 2^bits equal steps between its extremes."""
    low, high = hop.min(x), hop.max(x)
    step = hop.maximum(high - low, 1e-6) / (2.0**bits - 1)
    return low + hop.round((x - low) / step) * step


def quantised(attributes, body):
    bits = attributes["bits"]
    if bits >= 16 or body.name.endswith("_backward"):
        return body
    return lambda x, w, b: body(on_grid(x, bits), on_grid(w, bits), b)


def dense(x, w, b):
    return x @ w + b


def model(p, x, bits):
    layer = hop.region("quantised", bits=bits)(dense)
    h = hop.tanh(layer(x, p["w1"], p["b1"]))
    h = hop.tanh(layer(h, p["w2"], p["b2"]))
    return layer(h, p["w3"], p["b3"])[:, 0]


def loss(p, x, y, bits):
    return hop.mean((model(p, x, bits) - y) ** 2)


def fit(p, x, y, rate, bits):
    """Plain gradient descent, all of it in one program."""

    def step(_, p):
        g = hop.grad(loss)(p, x, y, bits)
        return hop.tree.map(lambda w, d: w - rate * d, p, g)

    return hop.fori_loop(0, STEPS, step, p)


def main():
    hop.region_rewriting("quantised", quantised, version=1)
    keys = hop.random.split(hop.random.key(KEY), 3)
    x = hop.reshape(hop.linspace(-1, 1, POINTS), (POINTS, 1))
    y = hop.sin(3 * x[:, 0]) * hop.exp(-x[:, 0])
    p = {
        "w1": 2 * hop.random.normal(keys[0], (1, HIDDEN)), "b1": hop.zeros(HIDDEN),
        "w2": hop.random.normal(keys[1], (HIDDEN, HIDDEN)) / HIDDEN**0.5, "b2": hop.zeros(HIDDEN),
        "w3": hop.random.normal(keys[2], (HIDDEN, 1)) / HIDDEN**0.5, "b3": hop.zeros(1),
    }  # fmt: skip
    train = hop.jit(fit, static_argnums=4)
    error = hop.jit(loss, static_argnums=3)
    exact = train(p, x, y, 0.1, 32)
    print("bits   rounded afterwards   learned some more with rounding")
    curves, worse = [("the function", x[:, 0].tolist(), y.tolist())], 0
    for bits in (6, 4, 3):
        learned = train(exact, x, y, 0.01, bits)
        after, within = error(exact, x, y, bits).item(), error(learned, x, y, bits).item()
        worse += within > after
        print(f"{bits:4d} {after:20.5f} {within:33.5f}")
        if bits == 3:
            for name, q in (("3 bits, rounded afterwards", exact), ("3 bits, learned some more", learned)):
                curves.append((name, x[:, 0].tolist(), model(q, x, bits).tolist()))
    assert error(exact, x, y, 32).item() < 0.02 and not worse, worse
    title = "A network that computes with 3 bits"
    plot.save("quantization.svg", title, curves=curves, x_label="x", y_label="y")
    print("wrote quantization.svg")
    hop.region_rewriting("quantised", None)


if __name__ == "__main__":
    main()
