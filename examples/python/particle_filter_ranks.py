"""A particle filter on a mesh: every rank moves and weighs particles of its own. The likelihood is a sum over
all of them, and so is where they are drawn anew: ranks gather the weights, and each takes the particles that
its share of the total falls on. A particle's noise belongs to its number, so that one rank and several find
the same; the model is linear, so that a Kalman filter knows what is right. Ranks are threads, or processes:
mpirun -n 4 python particle_filter_ranks.py"""

import math

import hop
import plot

STEPS, PARTICLES = 60, 4800
KEEP, PUSH, NOISE = 0.95, 0.5, 0.8  # x' = KEEP x + PUSH n, y = x + NOISE n
hop.dist.init()
MESH = hop.mesh(hop.dist.size() if hop.dist.size() > 1 else 4, "particles")
ALONE = hop.mesh(1, "particles")


def particle_filter(ys, numbers):
    """Means of x, and the logarithm of the likelihood. numbers: those of this rank's particles."""

    def noise(key):
        return hop.vmap(lambda i: hop.random.normal(hop.random.fold_in(key, i), ()))(numbers)

    def total(x):
        return hop.psum(hop.sum(x), "particles")

    def step(x, given):
        y, trip = given
        moving, drawing = hop.random.split(hop.random.fold_in(hop.random.key(7), trip))
        x = KEEP * x + PUSH * noise(moving)
        logs = -0.5 * ((y - x) / NOISE) ** 2
        best = hop.pmax(hop.max(logs), "particles")
        weights = hop.exp(logs - best)
        norm = total(weights)
        mean = total(weights * x) / norm
        likelihood = best + hop.log(norm / PARTICLES) - math.log(NOISE * math.sqrt(2 * math.pi))
        # Even steps through the total of all weights, from a place at random: those of this rank's numbers.
        every_x, every_weight = hop.all_gather((x, weights), "particles", tiled=True)
        edges = hop.cumsum(every_weight)
        steps = (numbers + hop.random.uniform(drawing, ())) / PARTICLES * edges[-1]
        chosen = hop.minimum(hop.searchsorted(edges, steps), PARTICLES - 1)
        return every_x[chosen], (mean, likelihood)

    begin = PUSH / math.sqrt(1 - KEEP**2) * noise(hop.random.key(8))
    _, (means, likelihoods) = hop.scan(step, begin, (ys, hop.arange(STEPS)))
    return means, hop.sum(likelihoods)


def on(mesh):
    P = hop.P
    return hop.jit(hop.shard_map(particle_filter, mesh, (P(), P("particles")), P()))


def kalman_filter(ys):
    mean, variance, means, total = 0.0, PUSH**2 / (1 - KEEP**2), [], 0.0
    for y in ys:
        mean, variance = KEEP * mean, KEEP**2 * variance + PUSH**2
        spread = variance + NOISE**2
        total -= 0.5 * ((y - mean) ** 2 / spread + math.log(2 * math.pi * spread))
        mean, variance = mean + variance / spread * (y - mean), variance * NOISE**2 / spread
        means.append(mean)
    return means, total


def observed():
    def step(x, key):
        push, noise = hop.random.normal(key, (2,))
        x = KEEP * x + PUSH * push
        return x, (x, x + NOISE * noise)

    return hop.scan(step, 1.0, hop.random.split(hop.random.key(3), STEPS))[1]


def main():
    true, ys = observed()
    numbers = hop.arange(PARTICLES)
    means, likelihood = on(MESH)(ys, numbers)
    right, right_likelihood = kalman_filter(ys.tolist())
    off = math.sqrt(sum((a - b) ** 2 for a, b in zip(means.tolist(), right)) / STEPS)
    assert off < 0.03 and abs(likelihood.item() - right_likelihood) < 0.5, (off, likelihood, right_likelihood)
    if hop.dist.rank() > 0:
        return
    print(f"{PARTICLES} particles on {MESH.size} ranks: off the Kalman filter by {off:.4f}")
    print(f"log-likelihood {likelihood.item():.3f}, right {right_likelihood:.3f}")
    if hop.dist.size() == 1:
        alone, alone_likelihood = on(ALONE)(ys, numbers)
        apart = hop.max(abs(means - alone)).item()
        print(f"on one rank    {alone_likelihood.item():.3f}, means apart by {apart:.1e}")
        assert apart < 0.02 and abs(alone_likelihood - likelihood).item() < 0.1
    steps = list(range(STEPS))
    curves = [("particles", means.tolist()), ("Kalman filter", right), ("truth", true.tolist())]
    curves = [(name, steps, values) for name, values in curves]
    points = [("observed", steps, ys.tolist())]
    picture = plot.panel("", curves, points, x_label="step", dashed=("Kalman filter",))
    plot.save_panels("particle_filter_ranks.svg", f"A particle filter on {MESH.size} ranks", [picture])


if __name__ == "__main__":
    main()
