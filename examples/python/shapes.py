"""A small convolutional network learns to tell discs, squares, crosses and rings apart, wherever they stand
in a noisy picture: two convolutions with a stride, the largest over all places, a matrix. Every batch is
drawn anew, inside of the compiled step."""

import hop
import plot

SIZE, BATCH, STEPS, CHANNELS = 20, 64, 240, (16, 32)
NAMES = ("disc", "square", "cross", "ring")
places = hop.arange(SIZE).astype(hop.float32)


def drawn(key):
    """A picture [1, SIZE, SIZE] and which shape it shows."""
    which, where, large, noise = hop.random.split(key, 4)
    kind = hop.random.randint(which, (), 0, len(NAMES))
    center = hop.random.uniform(where, (2,)) * (SIZE - 11) + 5
    radius = 3 + 1.5 * hop.random.uniform(large, ())
    down, across = places[:, None] - center[0], places[None, :] - center[1]
    distance = hop.sqrt(down**2 + across**2)
    thin = hop.minimum(abs(down), abs(across)) < 1.2
    shapes = hop.stack(
        [
            distance < radius,
            hop.maximum(abs(down), abs(across)) < 0.85 * radius,
            thin & (hop.maximum(abs(down), abs(across)) < radius),
            abs(distance - 0.8 * radius) < 0.8,
        ]
    )
    picture = shapes[kind].astype(hop.float32) + 0.3 * hop.random.normal(noise, (SIZE, SIZE))
    return picture[None], kind


def network(params, pictures):
    """What speaks for each shape: [batch, 4]."""
    x = pictures
    for w, b in params["layers"]:
        x = hop.maximum(hop.conv(x, w, strides=2, padding="SAME") + b[:, None, None], 0)
    return hop.max(x, axis=(2, 3)) @ params["last"]


def start(key):
    first, second, last = hop.random.split(key, 3)
    layers, channels = [], 1
    for k, out, size in ((first, CHANNELS[0], 5), (second, CHANNELS[1], 3)):
        scale = (2 / (channels * size * size)) ** 0.5
        layers.append((hop.random.normal(k, (out, channels, size, size)) * scale, hop.zeros(out)))
        channels = out
    return {"layers": layers, "last": hop.random.normal(last, (channels, len(NAMES))) * 0.3}


optimizer = hop.optim.adam(0.01)


@hop.jit
def step(params, state, key):
    pictures, kinds = hop.vmap(drawn)(hop.random.split(key, BATCH))

    def loss(params):
        says = hop.log_softmax(network(params, pictures), axis=-1)
        return -hop.mean(hop.sum(says * hop.one_hot(kinds, len(NAMES), dtype=hop.float32), axis=-1))

    value, grads = hop.value_and_grad(loss)(params)
    params, state = optimizer.update(grads, state, params)
    return value, params, state


@hop.jit
def share_right(params, key):
    pictures, kinds = hop.vmap(drawn)(hop.random.split(key, 512))
    return hop.mean((hop.argmax(network(params, pictures), axis=-1) == kinds).astype(hop.float32))


def main():
    params = start(hop.random.key(0))
    state, losses = optimizer.init(params), []
    for i, key in enumerate(hop.random.split(hop.random.key(1), STEPS)):
        loss, params, state = step(params, state, key)
        losses.append(loss.item())
        if i % 60 == 0:
            print(f"step {i:3}  loss {losses[-1]:.3f}")
    right = share_right(params, hop.random.key(2)).item()
    print(f"of 512 new pictures {100 * right:.1f} % are told apart rightly")
    curves = [("loss", list(range(STEPS)), losses)]
    plot.save_panels(
        "shapes.svg",
        "Discs, squares, crosses and rings, told apart by convolutions",
        [plot.panel("Loss", curves, (), (), "step", "loss")],
    )
    return 0 if right > 0.8 else 1


if __name__ == "__main__":
    raise SystemExit(main())
