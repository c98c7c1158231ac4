"""Finds what is hidden in a plate from temperatures at its rim. The plate is heated at one side; a disc
inside conducts worse than the rest. The heat equation is a scan over time steps made of shifted slices,
and jacfwd of all of it, by where the disc is, how large it is and how well it conducts, is what the method
of Gauss and Newton needs."""

import time

import hop
import plot

SIZE, STEPS, EVERY, NOISE = 32, 2400, 60, 0.002
RATE = 0.2  # of the plate: how much of a difference goes over to a neighbour in a step
NAMES = ("across", "up", "radius", "conductivity")
TRUTH = hop.asarray([19.0, 13.5, 5.0, 0.15], dtype=hop.float64)
START = hop.asarray([15.5, 15.5, 7.0, 0.6], dtype=hop.float64)
SENSORS = hop.asarray(
    [
        [3, 4],
        [3, 10],
        [3, 16],
        [3, 22],
        [3, 28],
        [10, 2],
        [17, 2],
        [24, 2],
        [10, 29],
        [17, 29],
        [24, 29],
        [29, 7],
        [29, 13],
        [29, 19],
        [29, 25],
    ]
)

places = hop.arange(SIZE).astype(hop.float64)


def conductivity(disc):
    """RATE outside of the disc, a part of it inside, with an edge about a cell wide, so that its place
    matters smoothly."""
    across, up, radius, part = disc
    distance = hop.sqrt((places[None, :] - across) ** 2 + (places[:, None] - up) ** 2)
    return RATE * (part + (1 - part) * hop.sigmoid(2.0 * (distance - radius)))


def plates(disc, seen):
    """What `seen` makes of the plate every EVERY steps, stacked."""
    k = conductivity(disc)
    right, below = 0.5 * (k[:, 1:] + k[:, :-1]), 0.5 * (k[1:] + k[:-1])

    def step(u, _):
        flow = right * (u[:, 1:] - u[:, :-1])
        u = u.at[:, :-1].add(flow).at[:, 1:].add(-flow)
        flow = below * (u[1:] - u[:-1])
        u = u.at[:-1].add(flow).at[1:].add(-flow)
        return u.at[0].set(1.0).at[-1].set(0.0), None  # one side is hot, the other one cold

    def look(u, _):
        # a gradient in reverse keeps the plate where the sensors are read, no more
        u, _ = hop.scan(step, u, length=EVERY, schedule="recompute")
        return u, seen(u)

    return hop.scan(look, hop.zeros((SIZE, SIZE), dtype=hop.float64), length=STEPS // EVERY)[1]


def temperatures(disc):
    """What the sensors see, every EVERY steps: [times, sensors]."""
    return plates(disc, lambda u: u[SENSORS[:, 0], SENSORS[:, 1]])


@hop.jit
def improve(disc, seen, damping):
    """One step of Gauss's and Newton's method, damped as Levenberg and Marquardt do."""
    off = temperatures(disc) - seen
    slopes = hop.jacfwd(temperatures)(disc).reshape(-1, 4)
    matrix = slopes.T @ slopes
    scale = damping * hop.diagonal(matrix)
    move = hop.linalg.solve(matrix + scale * hop.eye(4, dtype=hop.float64), slopes.T @ off.reshape(-1))
    return hop.sum(off**2), disc - move, matrix


def main():
    truth = temperatures(TRUTH)
    seen = truth + NOISE * hop.random.normal(hop.random.key(1), truth.shape, dtype=hop.float64)
    misfit = hop.jit(lambda disc: hop.sum((temperatures(disc) - seen) ** 2))
    begin = time.perf_counter()
    disc, damping, way = START, 0.1, [START]
    before = misfit(disc).item()
    print("step    misfit  " + "".join(f"{name:>14}" for name in NAMES))
    for trip in range(30):
        print(f"{trip:4d} {before:9.5f}  " + "".join(f"{x:14.4f}" for x in disc.tolist()))
        _, tried, matrix = improve(disc, seen, damping)
        after = misfit(tried).item()
        if after < before:
            done = before - after < 1e-9 * before
            disc, before, damping = tried, after, damping / 10
            way.append(disc)
            if done:
                break
        else:
            damping *= 10
    spent = time.perf_counter() - begin

    deviation = hop.sqrt(hop.diagonal(hop.linalg.inv(matrix))) * NOISE
    print(f"\n{'':14}{'found':>16}{'truth':>18}   ({spent:.1f} s)")
    for name, found, wide, true in zip(NAMES, disc.tolist(), deviation.tolist(), TRUTH.tolist()):
        print(f"{name:14}{found:9.3f} +-{wide:6.3f}{true:16.3f}")
        assert abs(found - true) < 5 * wide

    # Both modes give the same slope of the misfit.
    slope = hop.jit(hop.grad(misfit))(START)
    forward = 2 * hop.jacfwd(temperatures)(START).reshape(-1, 4).T @ (temperatures(START) - seen).reshape(-1)
    assert hop.allclose(slope, forward, rtol=1e-9)

    draw(hop.jit(lambda disc: plates(disc, lambda u: u))(disc), way)
    print("wrote heat.svg")


def draw(shown, way):
    """The plate at four times, with the sensors and the disc that was found; below it how well the plate
    conducts: the first guess, two steps of the search, and the truth, each with the true disc's rim."""
    marks = [(column, row) for row, column in SENSORS.tolist()]
    found, truth = way[-1].tolist(), TRUTH.tolist()
    panels = []
    for i in (0, 4, 14, STEPS // EVERY - 1):
        title = f"temperature, step {EVERY * (i + 1)}"
        panels.append(plot.field(shown[i].tolist(), title, 0, 1, marks, found[:3]))
    for title, disc in (("first guess", way[0]), ("step 2", way[2]), ("found", way[-1]), ("truth", TRUTH)):
        rows = conductivity(disc).tolist()
        panels.append(plot.field(rows, f"conductivity: {title}", 0, RATE, ring=truth[:3]))
    title = "What is hidden in a plate, from temperatures at its rim"
    plot.save_panels("heat.svg", title, panels, width=900, height=520, columns=4, room=(20, 46, 12))


if __name__ == "__main__":
    main()
