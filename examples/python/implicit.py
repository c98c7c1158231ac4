"""The gradient of a solution without the gradient of its solver. A layer whose output z solves z = tanh(W
z + U x + b) is trained: its gradient comes from one linear equation at the solution, in memory that does
not depend on how long the solver ran; the gradient through the solver's own while_loop is the check."""

import random

import hop
import plot

D, N = 12, 64


def layer(p, x, z):
    return hop.tanh(z @ p["w"] + x @ p["u"] + p["b"])


def iterate(f, start):
    """z with f(z) = z, by going on until nothing changes, and the number of steps."""
    z, _, n = hop.while_loop(
        lambda c: hop.max(hop.abs(c[0] - c[1])) > 1e-13,
        lambda c: (f(c[0]), c[0], c[2] + 1),
        (f(start), start, 0),
        max_trips=1000,
    )
    return z, n


START = hop.zeros((N, D), dtype=hop.float64)


def loss_at(p, z, y):
    return hop.mean((z @ p["out"] - y) ** 2)


def loss_through(p, x, y):
    """Plain: the gradient goes back through every step of the solver."""
    return loss_at(p, iterate(lambda z: layer(p, x, z), START)[0], y)


def loss_implicit(p, x, y):
    """The same value and gradient, from the solution alone: the solver is not differentiated."""
    z = hop.implicit.fixed_point(lambda z: layer(p, x, z), START, lambda f, z: iterate(f, z)[0], tol=1e-13)
    return loss_at(p, z, y)


def main():
    rng = random.Random(3)
    matrix = lambda m, n, s: hop.asarray(  # noqa: E731
        [[rng.gauss(0, s) for _ in range(n)] for _ in range(m)], dtype=hop.float64
    )
    x = matrix(N, 2, 1.0)
    y = hop.sin(2 * x[:, :1]) * x[:, 1:]
    p = {
        "w": matrix(D, D, 0.5 / D**0.5),
        "u": matrix(2, D, 1.0),
        "b": matrix(1, D, 0.1),
        "out": matrix(D, 1, 0.3),
    }

    a, b = hop.grad(loss_implicit)(p, x, y), hop.grad(loss_through)(p, x, y)
    print("parameter   largest gradient   difference of the two ways")
    for name in p:
        apart = hop.max(hop.abs(a[name] - b[name])).item()
        print(f"{name:9s} {hop.max(hop.abs(a[name])).item():18.6f} {apart:28.1e}")
        assert apart < 1e-10

    descent = hop.optim.momentum(0.03)

    @hop.jit
    def step(p, state):
        value, g = hop.value_and_grad(loss_implicit)(p, x, y)
        return value, *descent.update(g, state, p)

    trips = hop.jit(lambda p: iterate(lambda z: layer(p, x, z), START)[1])
    print("\n step       loss   steps of the solver")
    state, losses, solved = descent.init(p), [], []
    for k in range(301):
        value, p, state = step(p, state)
        losses.append(value.item())
        solved.append(trips(p).item())
        if k % 60 == 0:
            print(f"{k:5d} {losses[-1]:10.6f} {solved[-1]:21d}")
    assert losses[-1] < 0.2 * losses[0], losses
    steps = list(range(len(losses)))
    loss = plot.panel("", [("loss", steps, losses)], x_label="step of training", log=True)
    solver = plot.panel("", [("steps of the solver", steps, solved)], x_label="step of training")
    title = "Training a layer that is the solution of an equation"
    plot.save_panels("implicit.svg", title, [loss, solver], width=900)
    print("wrote implicit.svg")


if __name__ == "__main__":
    main()
