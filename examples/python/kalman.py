"""Follows a drifting object through noise: a Kalman filter as a scan, a smoother as a scan in reverse, and
the noise levels themselves estimated by the gradient of the likelihood through the filter."""

import math
import random

import hop
import plot

DT, T = 0.1, 200


def moves(log_q):
    """How the state (position, speed) moves, and the covariance of its noise."""
    f = hop.asarray([[1.0, DT], [0.0, 1.0]], dtype=hop.float64)
    g = hop.asarray([[DT**3 / 3, DT**2 / 2], [DT**2 / 2, DT]], dtype=hop.float64)
    return f, hop.exp(log_q) * g


def kalman_filter(log_noise, ys):
    """Filtered and predicted means and covariances at each time, and the log-likelihood of the
    observations."""
    (f, q), r = moves(log_noise[0]), hop.exp(log_noise[1])
    h = hop.asarray([1.0, 0.0], dtype=hop.float64)

    def step(c, y):
        m, p, score = c
        m_next, p_next = f @ m, f @ p @ f.T + q
        s = h @ p_next @ h + r
        gain, miss = p_next @ h / s, y - h @ m_next
        m, p = m_next + gain * miss, p_next - hop.outer(gain, gain) * s
        score = score - 0.5 * (hop.log(2 * math.pi * s) + miss * miss / s)
        return (m, p, score), (m, p, m_next, p_next)

    start = (
        hop.zeros(2, dtype=hop.float64),
        10.0 * hop.eye(2, dtype=hop.float64),
        hop.zeros((), dtype=hop.float64),
    )
    (_, _, score), rows = hop.scan(step, start, ys)
    return score, rows


def smooth(log_noise, rows):
    """Means and covariances given all observations: the filter's results, corrected from the end to the
    beginning."""
    f, _ = moves(log_noise[0])
    m, p, m_next, p_next = rows

    def inverse(a):
        return hop.stack([hop.stack([a[1, 1], -a[0, 1]]), hop.stack([-a[1, 0], a[0, 0]])]) / (
            a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0]
        )

    def step(c, row):
        later_m, later_p = c
        m, p, m_next, p_next = row
        gain = p @ f.T @ inverse(p_next)
        m, p = m + gain @ (later_m - m_next), p + gain @ (later_p - p_next) @ gain.T
        return (m, p), (m, p)

    rest = (m[:-1], p[:-1], m_next[1:], p_next[1:])
    return hop.scan(step, (m[-1], p[-1]), rest, reverse=True)[1]


def simulate(rng, q, r):
    x, v, truth, speeds, seen = 0.0, 1.0, [], [], []
    for _ in range(T):
        x, v = x + DT * v, v + math.sqrt(q * DT) * rng.gauss(0, 1)
        truth.append(x)
        speeds.append(v)
        seen.append(x + math.sqrt(r) * rng.gauss(0, 1))
    return truth, speeds, seen


def main():
    truth, speeds, seen = simulate(random.Random(7), 0.5, 0.4)
    ys = hop.asarray(seen, dtype=hop.float64)
    minus = lambda a: -kalman_filter(a, ys)[0] / T  # noqa: E731
    newton = hop.jit(lambda a: (minus(a), hop.grad(minus)(a), hop.hessian(minus)(a)))

    a = hop.log(hop.asarray([0.2, 1.0], dtype=hop.float64))
    print("step   -log-likelihood   speed noise   observation noise")
    for k in range(12):
        value, g, hessian = newton(a)
        print(f"{k:4d} {value.item():17.6f} {math.exp(a[0]):13.4f} {math.exp(a[1]):19.4f}")
        if hop.max(hop.abs(g)).item() < 1e-9:
            break
        damped = hessian + hop.eye(2, dtype=hop.float64) * max(
            0.0, 0.01 - min(hessian[0, 0].item(), hessian[1, 1].item())
        )
        det = damped[0, 0] * damped[1, 1] - damped[0, 1] * damped[1, 0]
        step = (
            hop.stack([damped[1, 1] * g[0] - damped[0, 1] * g[1], damped[0, 0] * g[1] - damped[1, 0] * g[0]])
            / det
        )
        a = a - hop.clip(step, -1.0, 1.0)
    assert hop.max(hop.abs(g)).item() < 1e-6, g

    _, rows = kalman_filter(a, ys)
    m, p = smooth(a, rows)
    off = lambda xs: math.sqrt(sum((x - t) ** 2 for x, t in zip(xs, truth)) / len(xs))  # noqa: E731
    errors = off(seen), off(rows[0][:, 0].tolist()), off(m[:, 0].tolist())
    print(
        f"\nroot mean square error: observed {errors[0]:.3f}, filtered {errors[1]:.3f}, "
        f"smoothed {errors[2]:.3f}"
    )
    assert errors[0] > errors[1] > errors[2]

    t = [DT * i for i in range(T)]
    mean, spread = m[:, 1], 2 * hop.sqrt(p[:, 1, 1])
    band = ("smoothed, two deviations", t[:-1], (mean - spread).tolist(), (mean + spread).tolist())
    curves = [
        ("smoothed", t[:-1], mean.tolist()),
        ("filtered", t, rows[0][:, 1].tolist()),
        ("truth", t, speeds),
    ]
    plot.save(
        "kalman.svg",
        "A speed that nobody observed, from noisy positions",
        curves,
        bands=[band],
        x_label="time",
        y_label="speed",
        dashed=["truth"],
    )
    print("wrote kalman.svg")


if __name__ == "__main__":
    main()
