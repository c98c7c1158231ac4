"""Data-parallel training: every rank of a mesh has some of the examples and all of the parameters. The loss
is the sum over the ranks, so that the gradient that each of them takes is that of all examples, and the
parameters stay the same everywhere. Training on one rank gives the same numbers. Ranks are threads, or
processes: mpirun -n 4 python data_parallel.py"""

import hop
import plot

EXAMPLES, STEPS = 250, 200
hop.dist.init()
MESH = hop.mesh(hop.dist.size() if hop.dist.size() > 1 else 4, "data")
optimizer = hop.optim.adam(0.02)


def network(params, x):
    for w, b in params[:-1]:
        x = hop.tanh(x @ w + b)
    w, b = params[-1]
    return (x @ w + b)[:, 0]


def start(key):
    sizes = [2, 24, 24, 1]
    keys = hop.random.split(key, len(sizes) - 1)
    return [
        (hop.random.normal(k, (n, m)) * (2 / n) ** 0.5, hop.zeros(m))
        for k, n, m in zip(keys, sizes, sizes[1:])
    ]


def train(total, params, x, y):
    """total: what makes the sum over the examples here the sum over all."""

    def loss(params):
        return total(hop.sum((network(params, x) - y) ** 2)) / EXAMPLES

    def step(carry, _):
        params, state = carry
        value, grads = hop.value_and_grad(loss)(params)
        return optimizer.update(grads, state, params), value

    (params, _), losses = hop.scan(step, (params, optimizer.init(params)), None, length=STEPS)
    return params, losses


def on_ranks(params, x, y):
    return train(lambda value: hop.psum(value, "data"), params, x, y)


P = hop.P
train_here = hop.jit(lambda params, x, y: train(lambda value: value, params, x, y))
train_there = hop.jit(hop.shard_map(on_ranks, MESH, (P(), P("data"), P("data")), P()))


def main():
    places, weights = hop.random.split(hop.random.key(0))
    x = hop.random.uniform(places, (EXAMPLES, 2)) * 4 - 2
    y = hop.sin(2 * x[:, 0]) * hop.cos(x[:, 1])
    params = start(weights)
    _, alone = train_here(params, x, y)
    data = hop.distribute((x, y), MESH, P("data"))
    found, together = train_there(params, *data)
    alone, together = alone.tolist(), together.tolist()
    left = hop.max(abs(network(found, x) - y)).item()
    assert abs(together[0] - alone[0]) < 1e-5 and together[-1] < 0.02 * together[0] and left < 0.5
    assert max(abs(a - b) for a, b in zip(alone[:50], together)) < 1e-3
    if hop.dist.rank() > 0:
        return
    print(f"{MESH.size} ranks; examples of each: {[len(part) for part in data[0].parts]}")
    print("step       loss   on one rank")
    for i in range(0, STEPS, 40):
        print(f"{i:4d}   {together[i]:8.5f}   {alone[i]:11.5f}")
    steps = list(range(STEPS))
    curves = [(f"{MESH.size} ranks", steps, together), ("one rank", steps, alone)]
    picture = plot.panel("mean squared error", curves, x_label="step", dashed=("one rank",), log=True)
    plot.save_panels("data_parallel.svg", "The same training on one rank and on several", [picture])


if __name__ == "__main__":
    main()
