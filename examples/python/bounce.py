"""A ball is thrown, flies through air, bounces, and is to come down the third time at a given place. The
flight is plain Python: a solver that chooses its own steps, with while, if, continue, return and a search for
the moment at which the ball meets the ground. Python runs it as it is; hop.jit compiles it; hop.grad goes
through all of it, steps that were tried and given up included, and aims the throw."""

import hop
import plot

GRAVITY, DRAG, BACK, ALONG = 9.81, 0.02, 0.8, 0.9
LANDINGS, TOLERANCE = 3, 1e-6


def slope(x, y, vx, vy):
    speed = (vx * vx + vy * vy) ** 0.5
    return vx, vy, -DRAG * speed * vx, -GRAVITY - DRAG * speed * vy


def step(state, h):
    """A step of Heun's method, and how far it is from one of Euler's."""
    first = slope(*state)
    tried = [s + h * d for s, d in zip(state, first)]
    second = slope(*tried)
    better = [s + h / 2 * (d + e) for s, d, e in zip(state, first, second)]
    return better, max(abs(b - t) for b, t in zip(better, tried))


def ground(state, h):
    """The state in the moment, h away or less, at which the height is 0: Newton's method."""
    t = h / 2
    there, _ = step(state, t)
    while abs(there[1]) > 1e-12:
        t = t - there[1] / there[3]
        there, _ = step(state, t)
    return there


def flight(vx, vy, note=None):
    """How far the ball is when it comes down for the last time. note is told where it has been."""
    state, h, landed = [0.0 * vx, 0.0 * vx, vx, vy], 0.01, 0
    while True:
        if note:
            note(state[:2])
        after, error = step(state, h)
        if error > TOLERANCE * 100:
            h = h / 2
            continue
        if after[1] < 0 and after[3] < 0:
            x, y, vx, vy = ground(state, h)
            landed += 1
            if landed == LANDINGS:
                if note:
                    note((x, y))
                return x
            state = [x, 0.0 * y, ALONG * vx, -BACK * vy]
            continue
        state = after
        if error < TOLERANCE * 20:
            h = h * 1.5


@hop.jit
def aim(vx, vy, target):
    """The speed upwards at which a ball lands at the target: Newton's method, with at most half a change."""
    tries = 0
    while True:
        landing, slope = hop.value_and_grad(flight, argnums=1)(vx, vy)
        if abs(landing - target) < 1e-9:
            return vy, tries
        assert tries < 50, "no throw lands there"
        change = (target - landing) / slope
        vy = vy + max(-vy / 2, min(vy / 2, change))
        tries += 1


def real(x):
    return hop.asarray(x, dtype=hop.float64)


def main():
    along, up = 6.0, 5.0
    compiled = hop.jit(flight)
    far = compiled(real(along), real(up)).item()
    print(f"Python: {flight(along, up):.9f}   compiled: {far:.9f}")
    assert abs(far - flight(along, up)) < 1e-9
    by_hop = hop.grad(flight, argnums=1)(real(along), real(up)).item()
    around = (flight(along, up + 1e-6) - flight(along, up - 1e-6)) / 2e-6
    print(f"metres for each m/s upwards: {by_hop:.6f}, by differences {around:.6f}")
    assert abs(by_hop - around) < 1e-3

    print("\ntarget   speed upwards   tries   lands at")
    throws = []
    for target in (8.0, 12.0, 16.0, 20.0):
        vy, tries = aim(real(along), real(up), real(target))
        landing = flight(along, vy.item())
        print(f"{target:6.1f} {vy.item():15.9f} {tries.item():7d} {landing:10.6f}")
        assert abs(landing - target) < 1e-6
        throws.append((target, vy.item()))

    lines = []
    for target, vy in throws:
        places = []
        flight(along, vy, places.append)
        lines.append((f"{target:g} m", [p[0] for p in places], [p[1] for p in places]))
    speeds = [1.0 + 0.05 * k for k in range(200)]
    landings = hop.vmap(flight, in_axes=(None, 0))(real(along), real(speeds))
    paths = plot.panel("", lines, x_label="metres")
    reach = plot.panel("", [("third landing", speeds, landings.tolist())], x_label="speed upwards, m/s")
    title = "Throws that come down the third time at a given place"
    plot.save_panels("bounce.svg", title, [paths, reach], width=900)
    print("wrote bounce.svg")


if __name__ == "__main__":
    main()
