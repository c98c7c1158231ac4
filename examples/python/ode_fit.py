"""Fits the four rates of a predator-prey model to noisy observations. The solver chooses its own step
sizes: an adaptive while_loop inside of a scan over the observations, and the gradient runs backwards
through both."""

import time

import hop
import plot

TOLERANCE = 1e-7


def field(rates, y):
    prey, hunters = y[0], y[1]
    return hop.stack([prey * (rates[0] - rates[1] * hunters), hunters * (rates[2] * prey - rates[3])])


def advance(rates, y, t, end, step):
    """From (t, y) to end: steps of order 3 with an error estimate of order 2; a step is taken again,
    smaller, where the estimate is too large."""

    def trip(c):
        h = hop.minimum(c["h"], end - c["t"])
        k1 = field(rates, c["y"])
        k2 = field(rates, c["y"] + h / 2 * k1)
        k3 = field(rates, c["y"] + 3 * h / 4 * k2)
        y = c["y"] + h * (2 * k1 + 3 * k2 + 4 * k3) / 9
        k4 = field(rates, y)
        error = h * hop.max(hop.abs(-5 / 72 * k1 + k2 / 12 + k3 / 9 - k4 / 8)) / TOLERANCE
        fits = error <= 1
        grow = hop.stop_gradient(hop.clip(0.9 * (error + 1e-12) ** (-1 / 3), 0.2, 3.0))
        return {
            "t": hop.where(fits, c["t"] + h, c["t"]),
            "y": hop.where(fits, y, c["y"]),
            "h": h * grow,
            "trips": c["trips"] + 1,
        }

    start = {"t": t, "y": y, "h": step, "trips": 0}
    done = hop.while_loop(lambda c: c["t"] < end - 1e-9, trip, start, max_trips=10_000)
    return done["y"], done["h"], done["trips"]


def solve(rates, y0, times):
    """The state at each time, and how many steps led there."""

    def to_next(c, end):
        t, y, h = c
        y, h, trips = advance(rates, y, t, end, h)
        return (end, y, hop.maximum(h, 1e-3)), (y, trips)

    return hop.scan(to_next, (times[0] * 0, y0, times[0] * 0 + 0.05), times)[1]


def main():
    times = hop.linspace(0.5, 15, 30, dtype=hop.float64)
    y0 = hop.asarray([1.0, 0.6], dtype=hop.float64)
    true = hop.asarray([1.1, 0.8, 0.5, 0.7], dtype=hop.float64)
    clean, trips = hop.jit(solve)(true, y0, times)
    data = clean * (1 + 0.03 * hop.random.normal(hop.random.key(1), (30, 2), dtype=hop.float64))

    def loss(log_rates):
        return hop.mean((hop.log(solve(hop.exp(log_rates), y0, times)[0]) - hop.log(data)) ** 2)

    adam = hop.optim.adam(0.03, b2=0.99)

    @hop.jit
    def descend(x, state):
        value, g = hop.value_and_grad(loss)(x)
        return value, *adam.update(g, state, x)

    x = hop.log(hop.asarray([0.8, 1.0, 0.7, 0.9], dtype=hop.float64))
    first = hop.exp(x)
    g = hop.grad(loss)(x)
    by_differences = []
    for i in range(4):
        d = x.at[i].add(1e-3) - x
        by_differences.append((loss(x + d) - loss(x - d)).item() / 2e-3)
    assert all(abs(a - b) < 1e-3 * max(1.0, abs(b)) for a, b in zip(g.tolist(), by_differences)), (
        g, by_differences,
    )

    print(
        f"{int(hop.sum(trips))} adaptive steps between {len(times)} observations\n\n step       loss   rates"
    )
    begin, state = time.perf_counter(), adam.init(x)
    for k in range(401):
        value, x, state = descend(x, state)
        if k % 80 == 0:
            print(f"{k:5d} {value.item():10.6f}   " + "  ".join(f"{r:.3f}" for r in hop.exp(x).tolist()))
    found = hop.exp(x)
    print(
        " true              "
        + "  ".join(f"{r:.3f}" for r in true.tolist())
        + f"\n\n{1000 * (time.perf_counter() - begin) / 401:.2f} ms a step, gradient included"
    )
    assert hop.max(hop.abs(found / true - 1)).item() < 0.05, found

    fine = hop.linspace(0.05, 15, 300, dtype=hop.float64)
    before, after = solve(first, y0, fine)[0], solve(found, y0, fine)[0]
    curves = [
        ("prey, fitted", fine.tolist(), after[:, 0].tolist()),
        ("hunters, fitted", fine.tolist(), after[:, 1].tolist()),
        ("prey, first guess", fine.tolist(), before[:, 0].tolist()),
    ]
    plot.save(
        "ode_fit.svg",
        "Predators and prey, fitted through an adaptive solver",
        curves,
        [("observed", times.tolist() * 2, data[:, 0].tolist() + data[:, 1].tolist())],
        x_label="time",
        y_label="how many",
        dashed=["prey, first guess"],
    )
    print("wrote ode_fit.svg")


if __name__ == "__main__":
    main()
