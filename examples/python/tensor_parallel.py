"""A block of a transformer whose weights are cut over a mesh, while its examples are cut over another axis of
it: each rank has some heads of the attention and some units of the layers behind it. The first matrix of a
pair is cut by columns, the second by rows, so that one sum over the ranks is all that a pair needs. Values,
gradients and training are those of the block on one rank. Ranks are threads, or processes: mpirun -n 4 python
tensor_parallel.py"""

import functools

import hop
import plot

hop.dist.init()
RANKS = hop.dist.size() if hop.dist.size() > 1 else 4
DATA = 2 if RANKS % 2 == 0 else 1
MESH = hop.mesh((DATA, RANKS // DATA), ("data", "model"))
EXAMPLES, LENGTH, WIDTH, UNITS, STEPS = 8, 10, 16, 48, 60
HEADS = 2 * MESH["model"]
DEPTH = 8  # of each head
optimizer = hop.optim.adam(0.005)


def normalized(x):
    return hop.nn.standardize(x, axis=-1)


def block(p, x, total):
    """x [examples, length, width]; total: the sum over those who have the other heads and units."""
    h = normalized(x)
    q, k, v = [hop.einsum("blw,whd->bhld", h, p[name]) for name in ("q", "k", "v")]
    scores = hop.nn.softmax(hop.einsum("bhld,bhmd->bhlm", q, k) / DEPTH**0.5, axis=-1)
    heads = hop.einsum("bhlm,bhmd->bhld", scores, v)
    x = x + total(hop.einsum("bhld,hdw->blw", heads, p["out"]))
    return x + total(hop.nn.gelu(normalized(x) @ p["up"]) @ p["down"])


def start(key):
    keys = hop.random.split(key, 6)
    shapes = {"q": (WIDTH, HEADS, DEPTH), "k": (WIDTH, HEADS, DEPTH), "v": (WIDTH, HEADS, DEPTH),
              "out": (HEADS, DEPTH, WIDTH), "up": (WIDTH, UNITS), "down": (UNITS, WIDTH)}  # fmt: skip
    return {name: 0.2 * hop.random.normal(key, shape) for key, (name, shape) in zip(keys, shapes.items())}


def squares(p, x, y, total):
    return hop.sum((block(p, x, total) - y) ** 2) / (EXAMPLES * LENGTH)


def loss(p, x, y):
    return squares(p, x, y, lambda part: part)


def loss_of_part(p, x, y):
    return hop.psum(squares(p, x, y, lambda part: hop.psum(part, "model")), "data")


P = hop.P
by_heads = P(None, "model")
PLACES = {"q": by_heads, "k": by_heads, "v": by_heads, "out": P("model"), "up": by_heads, "down": P("model")}
loss_on_ranks = hop.shard_map(loss_of_part, MESH, (PLACES, P("data"), P("data")), P())


def train(loss, axes, p, x, y):
    """axes: those of the mesh over which parameters are cut; a rank keeps and updates its parts of them."""

    def step(carry, _):
        p, state = carry
        value, grads = hop.value_and_grad(loss)(p, x, y)
        return optimizer.update(grads, state, p), value

    state = optimizer.init(p)
    state = state._replace(moments=hop.vary(state.moments, axes))
    return hop.scan(step, (p, state), None, length=STEPS)[1]


train_here = hop.jit(lambda p, x, y: train(loss, (), p, x, y))
train_part = functools.partial(train, loss_of_part, "model")
train_there = hop.jit(hop.shard_map(train_part, MESH, (PLACES, P("data"), P("data")), P()))


def main():
    key, more, last = hop.random.split(hop.random.key(3), 3)
    params, x = start(key), hop.random.normal(more, (EXAMPLES, LENGTH, WIDTH))
    y = block(start(last), x, lambda part: part)
    spread = hop.distribute(params, MESH, PLACES), *hop.distribute((x, y), MESH, P("data"))

    value, grads = hop.jit(hop.value_and_grad(loss))(params, x, y)
    found, found_grads = hop.jit(hop.value_and_grad(loss_on_ranks))(*spread)
    assert abs(found - value).item() < 1e-5 * abs(value).item()
    found_grads = hop.collect(found_grads)
    apart = {
        name: (hop.max(abs(found_grads[name] - slope)) / hop.max(abs(slope))).item()
        for name, slope in grads.items()
    }
    assert max(apart.values()) < 1e-4, apart

    alone, together = train_here(params, x, y).tolist(), train_there(*spread).tolist()
    assert max(abs(a - b) for a, b in zip(alone, together)) < 1e-2 * alone[0]
    assert together[-1] < 0.3 * together[0]
    if hop.dist.rank() > 0:
        return
    print(f"{MESH}, {HEADS} heads; gradients beside those on one rank:")
    for name, part in spread[0].items():
        mine = part.parts[0].shape
        print(f"{name:5s} {str(part.shape):13s} of which a rank has {str(mine):13s} {apart[name]:.0e}")
    print(f"loss {together[0]:.4f}, after {STEPS} steps {together[-1]:.4f}")
    steps = list(range(STEPS))
    curves = [(f"{MESH.size} ranks", steps, together), ("one rank", steps, alone)]
    picture = plot.panel("loss", curves, x_label="step", dashed=("one rank",), log=True)
    plot.save_panels("tensor_parallel.svg", "A transformer's block, its weights cut over ranks", [picture])


if __name__ == "__main__":
    main()
