"""A program that comes as text: a pendulum with friction, read, differentiated and fitted to noisy angles by
Gauss's and Newton's method; then the same program written as C."""

import math
import random

import hop
import plot

DT, T = 0.02, 500

# Angle and speed by half-implicit Euler steps; %k is gravity over length, %d the friction.
PENDULUM = f"""
hop 1

fn @pendulum[T in 1..100000](%k: f64[], %d: f64[], %time: f64[T]) -> (f64[T]) {{
  %angle0 = full {{value = 1.2, dims = [], dtype = f64}}
  %speed0 = full {{value = 0.0, dims = [], dtype = f64}}
  %dt = full {{value = {DT}, dims = [], dtype = f64}}
  %angle, %speed, %angles = scan carry(%a = %angle0, %s = %speed0) over(%t in %time)
      with(%stiff = %k, %friction = %d, %h = %dt) {{
    %sine = sin(%a)
    %pull = mul(%stiff, %sine)
    %drag = mul(%friction, %s)
    %force = add(%pull, %drag)
    %change = mul(%force, %h)
    %faster = sub(%s, %change)
    %way = mul(%faster, %h)
    %further = add(%a, %way)
    next(%further, %faster) stack(%further)
  }}
  return %angles
}}
"""


def simulated(k, d):
    """The same steps in plain Python."""
    a, s, out = 1.2, 0.0, []
    for _ in range(T):
        s -= (k * math.sin(a) + d * s) * DT
        a += s * DT
        out.append(a)
    return out


def main():
    pendulum = hop.read(PENDULUM)
    print(pendulum)
    time = hop.arange(T, dtype=hop.float64) * DT
    assert max(abs(x - y) for x, y in zip(pendulum(9.0, 0.3, time).tolist(), simulated(9.0, 0.3))) < 1e-12

    rng, truth = random.Random(5), (9.81, 0.35)
    seen = [x + 0.05 * rng.gauss(0, 1) for x in simulated(*truth)]
    ys = hop.asarray(seen, dtype=hop.float64)
    jacobian = pendulum.jacfwd("k, d")  # a program again: (dangles/dk, dangles/dd)
    print(f"its derivatives: {jacobian}, {len(jacobian.text().splitlines())} lines of text\n")

    k, d = 8.5, 0.1
    print("step     misfit   gravity/length   friction")
    for step in range(20):
        miss = ys - pendulum(k, d, time)
        jk, jd = jacobian(k, d, time)
        print(f"{step:4d} {math.sqrt(hop.mean(miss * miss).item()):10.6f} {k:16.4f} {d:10.4f}")
        kk, kd, dd = (float(hop.dot(*pair)) for pair in ((jk, jk), (jk, jd), (jd, jd)))
        gk, gd = float(hop.dot(jk, miss)), float(hop.dot(jd, miss))
        det = kk * dd - kd * kd
        dk, move = (dd * gk - kd * gd) / det, (kk * gd - kd * gk) / det
        k, d = k + dk, d + move
        if abs(dk) + abs(move) < 1e-9:
            break
    assert abs(k - truth[0]) < 0.05 and abs(d - truth[1]) < 0.02, (k, d)

    # It is a function like any other: sampled frictions side by side, the gradient under jit.
    frictions = hop.asarray([0.0, d, 1.0], dtype=hop.float64)
    curves = hop.vmap(lambda friction: pendulum(k, friction, time))(frictions)
    slope = hop.jit(hop.grad(lambda k: hop.sum(pendulum(k, d, time) ** 2)))
    energy = slope(hop.asarray(k, dtype=hop.float64))
    expected = 2 * float(hop.dot(pendulum(k, d, time), jacobian(k, d, time)[0]))
    assert abs(energy.item() - expected) < 1e-6 * abs(expected)
    source = pendulum.emit("c")
    declaration = next(line for line in source.splitlines() if "int pendulum(" in line)
    print(f"\nas C99, {len(source.splitlines())} lines: {declaration}")

    t = time.tolist()
    plot.save(
        "pendulum.svg",
        "A pendulum from text, fitted to noisy angles",
        [("fitted", t, curves[1].tolist()), ("no friction", t, curves[0].tolist()),
         ("friction 1", t, curves[2].tolist())],
        points=[("observed", t[::5], seen[::5])],
        x_label="time",
        y_label="angle",
        dashed=["no friction", "friction 1"],
    )  # fmt: skip
    print("wrote pendulum.svg")


if __name__ == "__main__":
    main()
