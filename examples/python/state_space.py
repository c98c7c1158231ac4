"""A diagonal state-space model, h[t] = a h[t-1] + b x[t], y[t] = c h[t], three ways: a scan, an
associative scan, and the operator hop.linear_recurrence. All give the same numbers and gradients; then the
model learns the impulse response of a damped oscillation from its answers to noise."""

import math
import random
import time

import hop
import plot

STATES, LENGTH = 8, 512


def coefficients(p):
    """Each state is a damped rotation: a complex number, as the pair of its real and imaginary part."""
    decay, angle = hop.exp(-hop.exp(p["log_decay"])), p["angle"]
    return decay * hop.cos(angle), decay * hop.sin(angle)


def by_scan(p, xs):
    re, im = coefficients(p)

    def step(h, x):
        h = (re * h[0] - im * h[1] + x, re * h[1] + im * h[0])
        return h, h[0] @ p["c"] + h[1] @ p["d"]

    zero = hop.zeros(STATES, dtype=hop.float64)
    return hop.scan(step, (zero, zero), xs)[1]


def by_associative_scan(p, xs):
    """Steps h -> a h + x compose to steps of the same kind: (a, x) then (b, y) is (b a, b x + y)."""
    re, im = coefficients(p)
    times = lambda u, v: (u[0] * v[0] - u[1] * v[1], u[0] * v[1] + u[1] * v[0])  # noqa: E731

    def then(first, second):
        (a, x), (b, y) = first, second
        bx = times(b, x)
        return times(b, a), (bx[0] + y[0], bx[1] + y[1])

    n = (xs.shape[0], STATES)
    inputs = hop.broadcast_to(xs[:, None], n)
    steps = ((hop.broadcast_to(re, n), hop.broadcast_to(im, n)), (inputs, hop.zeros_like(inputs)))
    _, h = hop.associative_scan(then, steps)
    return h[0] @ p["c"] + h[1] @ p["d"]


def parameters(rng):
    vector = lambda f: hop.asarray([f(i) for i in range(STATES)], dtype=hop.float64)  # noqa: E731
    return {
        "log_decay": vector(lambda i: math.log(0.05)),
        "angle": vector(lambda i: 0.03 + 0.08 * i),
        "c": vector(lambda i: rng.gauss(0, 0.05)),
        "d": vector(lambda i: rng.gauss(0, 0.05)),
    }


def target(t):
    return math.exp(-0.03 * t) * math.sin(0.31 * t)


def main():
    rng = random.Random(5)
    noise = [rng.gauss(0, 1) for _ in range(LENGTH)]
    answer = [sum(target(t - s) * noise[s] for s in range(t + 1)) for t in range(LENGTH)]
    xs, ys = hop.asarray(noise, dtype=hop.float64), hop.asarray(answer, dtype=hop.float64)
    p = parameters(rng)

    ways = {"scan": by_scan, "associative_scan": by_associative_scan}
    losses = {name: (lambda p, run=run: hop.mean((run(p, xs) - ys) ** 2)) for name, run in ways.items()}
    print("way                    loss   gradient of an angle        ms")
    seen = []
    for name, loss in losses.items():
        f = hop.jit(hop.value_and_grad(loss))
        f(p)
        begin = time.perf_counter()
        for _ in range(20):
            value, g = f(p)
        spent = (time.perf_counter() - begin) / 20
        seen.append((value.item(), *g["angle"].tolist()))
        print(f"{name:16s} {value.item():10.6f} {g['angle'][3].item():22.6f} {1000 * spent:9.2f}")
    assert all(abs(a - b) < 1e-8 * max(1, abs(a)) for a, b in zip(*seen))

    real = hop.asarray([0.9] * STATES, dtype=hop.float64)
    a, b = hop.broadcast_to(real, (LENGTH, STATES)), hop.broadcast_to(xs[:, None], (LENGTH, STATES))
    plain = hop.scan(lambda h, x: (real * h + x, real * h + x), hop.zeros(STATES, dtype=hop.float64), b)[1]
    assert hop.max(hop.abs(hop.linear_recurrence(a, b, axis=0) - plain)).item() < 1e-12

    adam = hop.optim.adam(hop.optim.exponential(0.02, 0.99), b2=0.99)

    @hop.jit
    def train(p, state):
        value, g = hop.value_and_grad(losses["associative_scan"])(p)
        return value, *adam.update(g, state, p)

    before, state = p, adam.init(p)
    print("\n step       loss")
    for k in range(1, 601):
        value, p, state = train(p, state)
        if k % 100 == 0 or k == 1:
            print(f"{k:5d} {value.item():10.6f}")
    assert value.item() < 0.01 * seen[0][0], value

    impulse = hop.zeros(120, dtype=hop.float64).at[0].set(1.0)
    t = list(range(120))
    curves = [("learned", t, by_scan(p, impulse).tolist()), ("before", t, by_scan(before, impulse).tolist())]
    plot.save(
        "state_space.svg",
        "The impulse response of a state-space model",
        curves,
        [("target", t, [target(i) for i in t])],
        x_label="time",
        y_label="response",
        dashed=["before"],
    )
    print("wrote state_space.svg")


if __name__ == "__main__":
    main()
