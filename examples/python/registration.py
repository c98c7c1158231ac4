"""Finds how one picture has to be turned, scaled and moved to become another. Both show the same scene, the
second one with noise, seen through an affine transform that nobody tells. The difference between the pictures
is a function of the six numbers of the transform by way of grid_sample, and its gradient by these leads to
them: first on pictures of a quarter of the size, which avg_pool makes and on which far moves are short, then
on the pictures themselves."""

import hop
import plot

SIZE = 96
TRUTH = hop.asarray([[0.92, 0.28, 0.12], [-0.24, 1.04, -0.08]])
NOISE = 0.02
OPTIMIZER = hop.optim.adam(0.01)


def scene():
    """Rings, bars and a spot, with soft edges."""
    line = hop.linspace(-1, 1, SIZE)
    x, y = hop.meshgrid(line, line)

    def disc(across, up, radius):
        return hop.sigmoid(40.0 * (radius - hop.sqrt((x - across) ** 2 + (y - up) ** 2)))

    ring = disc(-0.3, -0.2, 0.45) - disc(-0.3, -0.2, 0.25)
    bars = (0.5 + 0.5 * hop.sin(20.0 * (x + 0.3 * y))) * disc(0.35, 0.3, 0.4)
    return (ring + bars + 0.8 * disc(0.4, -0.5, 0.12))[None, None]


def seen_through(picture, transform):
    """The picture at the places to which the transform takes those of the result."""
    height, width = picture.shape[2:]
    across, down = [(2 * hop.arange(n) + 1.0) / n - 1 for n in (width, height)]
    x, y = hop.meshgrid(across, down)
    places = hop.stack([x, y, hop.ones_like(x)], axis=-1)
    grid = (places @ hop.permute_dims(transform, (1, 0)))[None]
    return hop.grid_sample(picture, grid, padding_mode="border")


def misfit(transform, picture, target):
    return hop.mean((seen_through(picture, transform) - target) ** 2)


@hop.jit
def step(transform, state, picture, target):
    value, slope = hop.value_and_grad(misfit)(transform, picture, target)
    transform, state = OPTIMIZER.update(slope, state, transform)
    return value, transform, state


def main():
    picture = scene()
    noise = NOISE * hop.random.normal(hop.random.key(0), picture.shape)
    target = seen_through(picture, TRUTH) + noise
    transform = hop.asarray([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    print("pictures     step    misfit   largest error of the transform")
    for coarse, steps in ((4, 200), (1, 200)):
        small, wanted = hop.avg_pool(picture, coarse), hop.avg_pool(target, coarse)
        state = OPTIMIZER.init(transform)
        for k in range(steps + 1):
            value, moved, state = step(transform, state, small, wanted)
            if k % 50 == 0:
                error = hop.max(hop.abs(transform - TRUTH)).item()
                print(f"{SIZE // coarse:3} x {SIZE // coarse:3}  {k:6}  {value.item():8.5f}   {error:8.4f}")
            transform = moved
    assert hop.max(hop.abs(transform - TRUTH)).item() < 0.01

    found = seen_through(picture, transform)
    shown = [("the picture", picture), ("what it has to become", target), ("what is found", found)]
    panels = [plot.field(p[0, 0].tolist(), title, 0, 1.2) for title, p in shown]
    for title, other in ("how far apart they were", picture), ("what is left: noise", found):
        panels.append(plot.field(hop.abs(other - target)[0, 0].tolist(), title, 0, 1.2))
    title = "How a picture has to be turned, scaled and moved to become another"
    plot.save_panels("registration.svg", title, panels, width=1100, height=270, columns=5, room=(20, 46, 12))
    print("wrote registration.svg")


if __name__ == "__main__":
    main()
