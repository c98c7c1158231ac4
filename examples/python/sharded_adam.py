"""Data-parallel training with sharded optimizer state: Adam's moments, twice the size of the parameters, are
cut over the ranks. In each step the gradients of the ranks' examples are summed and cut at once
(psum_scatter), each rank updates its part of the parameters with its part of the moments, and all_gather
hands all parts to everybody. The moments stay where they are from one call to the next. Ranks are threads, or
processes: mpirun -n 4 python sharded_adam.py"""

import hop
import plot
from hop.flatten_util import ravel_pytree

EXAMPLES, CALLS, STEPS = 256, 12, 15
hop.dist.init()
MESH = hop.mesh(hop.dist.size() if hop.dist.size() > 1 else 4, "data")
optimizer = hop.optim.adam(0.01)


def network(params, x):
    return hop.tanh(hop.tanh(x @ params["first"] + params["shift"]) @ params["second"]) @ params["last"]


def start(key):
    a, b, c = hop.random.split(key, 3)
    return {
        "first": hop.random.normal(a, (3, 32)),
        "shift": hop.zeros(32),
        "second": 0.2 * hop.random.normal(b, (32, 32)),
        "last": 0.2 * hop.random.normal(c, (32,)),
    }


template = start(hop.random.key(0))
count = ravel_pytree(template)[0].size
padded = -(-count // MESH.size) * MESH.size  # as many for each rank
unravel = ravel_pytree(template)[1]


def squares(flat, x, y):
    return hop.sum((network(unravel(flat[:count]), x) - y) ** 2) / EXAMPLES


def update(flat, moments, step, x, y):
    """Some steps on one rank: flat, all parameters, is the same on all; moments are of its part."""
    mine = padded // MESH.size

    def one(carry, _):
        flat, state = carry
        # The gradient by values of its own is that of a rank's own examples: not summed yet.
        value, grads = hop.value_and_grad(squares)(hop.vary(flat, "data"), x, y)
        grads = hop.psum_scatter(grads, "data", tiled=True)
        part = hop.dynamic_slice_in_dim(flat, hop.axis_index("data") * mine, mine)
        part, state = optimizer.update(grads, state, part)
        return (hop.all_gather(part, "data", tiled=True), state), hop.psum(value, "data")

    (flat, state), losses = hop.scan(one, (flat, hop.optim.State(step, moments)), None, length=STEPS)
    return flat, state.moments, state.step, losses


P = hop.P
IN, OUT = (P(), P("data"), P(), P("data"), P("data")), (P(), P("data"), P(), P())
update_on_ranks = hop.jit(hop.shard_map(update, MESH, IN, OUT))


@hop.jit
def update_here(flat, state, x, y):
    def one(carry, _):
        flat, state = carry
        value, grads = hop.value_and_grad(squares)(flat, x, y)
        return optimizer.update(grads, state, flat), value

    return hop.scan(one, (flat, state), None, length=STEPS)


def main():
    x = hop.random.normal(hop.random.key(1), (EXAMPLES, 3))
    y = hop.sin(2 * x[:, 0]) * x[:, 1] + x[:, 2]
    begin = hop.pad(ravel_pytree(template)[0], (0, padded - count))
    data = hop.distribute((x, y), MESH, P("data"))

    flat, state, alone = begin, optimizer.init(begin), []
    for _ in range(CALLS):
        (flat, state), losses = update_here(flat, state, x, y)
        alone += losses.tolist()

    state, together = optimizer.init(begin), []
    flat, step, moments = begin, state.step, hop.distribute(state.moments, MESH, P("data"))
    for _ in range(CALLS):
        flat, moments, step, losses = update_on_ranks(flat, moments, step, *data)
        together += losses.tolist()
    assert max(abs(a - b) for a, b in zip(alone[:60], together)) < 1e-3 * alone[0]
    assert together[-1] < 0.1 * together[0] and step.item() == CALLS * STEPS
    if hop.dist.rank() > 0:
        return
    print(f"{count} parameters; of each moment {MESH.size} ranks have {moments[0].parts[0].size}")
    for i in range(0, CALLS * STEPS, 3 * STEPS):
        print(f"step {i:4d}   loss {together[i]:.5f}   on one rank {alone[i]:.5f}")
    steps = list(range(CALLS * STEPS))
    curves = [(f"{MESH.size} ranks", steps, together), ("one rank", steps, alone)]
    picture = plot.panel("loss", curves, x_label="step", dashed=("one rank",), log=True)
    plot.save_panels("sharded_adam.svg", "Adam with its moments cut over ranks", [picture])


if __name__ == "__main__":
    main()
