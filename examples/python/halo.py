"""A stencil on a mesh of two axes: heat spreads over a plate that is cut into tiles, one for each rank.
Before each step neighbours exchange the rims of their tiles, the halo. The gradient goes back through all
steps and exchanges, and finds where heat was put in from what is left of it at the end. Ranks are threads, or
processes: mpirun -n 4 python halo.py"""

import hop
import plot

hop.dist.init()
RANKS = hop.dist.size() if hop.dist.size() > 1 else 4
DOWN = 2 if RANKS % 2 == 0 else 1
MESH = hop.mesh((DOWN, RANKS // DOWN), ("down", "across"))
TILE, STEPS, RATE, TRIPS = 12, 60, 0.2, 60


def rims(u, axis, name):
    """The rims that the neighbours have along an axis; zeros, the temperature around it, at its ends."""
    n = hop.axis_size(name)
    first, last = (u[:1], u[-1:]) if axis == 0 else (u[:, :1], u[:, -1:])
    before = hop.ppermute(last, name, [(r, r + 1) for r in range(n - 1)])
    after = hop.ppermute(first, name, [(r + 1, r) for r in range(n - 1)])
    return before, after


def laplacian(u, rims_of):
    (above, below), (left, right) = rims_of(u, 0, "down"), rims_of(u, 1, "across")
    tall = hop.concat([above, u, below], axis=0)
    wide = hop.concat([left, u, right], axis=1)
    return tall[:-2] + tall[2:] + wide[:, :-2] + wide[:, 2:] - 4 * u


def spread(u, rims_of=rims):
    return hop.fori_loop(0, STEPS, lambda _, u: u + RATE * laplacian(u, rims_of), u)


def cold(u, axis, name):
    """Rims of the whole plate."""
    rim = hop.zeros_like(u[:1] if axis == 0 else u[:, :1])
    return rim, rim


tiles = hop.P("down", "across")
spread_tiles = hop.shard_map(spread, MESH, tiles, tiles)


def misfit(begin, end):
    """On one rank's tile."""
    return 0.5 * hop.psum(hop.sum((spread(begin) - end) ** 2), ("down", "across"))


misfit_tiles = hop.shard_map(misfit, MESH, (tiles, tiles), hop.P())


@hop.jit
def descend(begin, end):
    """Where heat was put in, by gradient descent with momentum, all of it on the tiles."""

    def of_tile(begin, end):
        def step(carry, _):
            u, speed = carry
            value, slope = hop.value_and_grad(misfit)(u, end)
            speed = 0.9 * speed - slope
            return (u + speed, speed), value

        still = hop.vary(hop.zeros_like(begin), ("down", "across"))  # each rank has a speed of its own
        (u, _), values = hop.scan(step, (begin, still), None, length=TRIPS)
        return u, values

    return hop.shard_map(of_tile, MESH, (tiles, tiles), (tiles, hop.P()))(begin, end)


def main():
    height, width = TILE * MESH["down"], TILE * MESH["across"]
    down, across = hop.arange(height)[:, None] / height, hop.arange(width) / width
    true = 1.0 * ((down - 0.4) ** 2 + (across - 0.35) ** 2 < 0.04) + 1.0 * (abs(down + across - 1.4) < 0.12)
    true, zero = true.astype(hop.float32), hop.zeros((height, width))
    end = hop.jit(spread_tiles)(hop.distribute(true, MESH, tiles))
    right = hop.jit(lambda u: spread(u, cold))(true)
    assert hop.max(abs(hop.collect(end) - right)).item() < 1e-5

    whole = hop.jit(hop.grad(lambda u: 0.5 * hop.sum((spread(u, cold) - right) ** 2)))(zero)
    slope = hop.collect(hop.jit(hop.grad(misfit_tiles))(hop.distribute(zero, MESH, tiles), end))
    assert hop.max(abs(slope - whole)).item() < 1e-5

    found, values = descend(hop.distribute(zero, MESH, tiles), end)
    found, values, end = hop.collect(found), values.tolist(), hop.collect(end)
    assert values[-1] < 0.01 * values[0]
    if hop.dist.rank() > 0:
        return
    print(f"{height} x {width} cells, {MESH}")
    for trip in range(0, TRIPS, 10):
        print(f"trip {trip:3d}   misfit {values[trip]:9.4f}")
    shown = [("put in", true), (f"after {STEPS} steps", end), ("found", found)]
    fields = [plot.field(u.tolist(), name, low=0.0, high=1.0) for name, u in shown]
    curve = plot.panel("misfit", [("misfit", list(range(TRIPS)), values)], x_label="trip", log=True)
    plot.save_panels("halo.svg", "Heat on tiles that exchange their rims", [*fields, curve], width=1200)


if __name__ == "__main__":
    main()
