"""Draws from a curved distribution (a banana) by Hamiltonian Monte Carlo: a scan of leapfrog steps inside
of a scan of draws inside of a vmap over chains, with a gradient at the heart, compiled as one program.
Moments of the draws are checked against the exact ones."""

import time

import hop
import plot

CHAINS, WARM, DRAWS, LEAPS, STEP = 16, 200, 4000, 24, 0.1


def log_density(x):
    """x[0] is normal with deviation 1, x[1] is normal with deviation 0.5 around x[0]**2: so E x[1] = 1,
    var x[1] = 2.25."""
    return -0.5 * x[0] ** 2 - 0.5 * ((x[1] - x[0] ** 2) / 0.5) ** 2


force = hop.grad(log_density)


def leapfrog(x, v):
    def leap(c, _):
        x, v = c
        v = v + STEP / 2 * force(x)
        x = x + STEP * v
        return (x, v + STEP / 2 * force(x)), None

    return hop.scan(leap, (x, v), length=LEAPS)[0]


def chain(key):
    """The draws of one chain, and whether each proposal was taken."""

    def draw(x, key):
        push, decide = hop.random.split(key)
        v = hop.random.normal(push, (2,))
        x_new, v_new = leapfrog(x, v)
        gain = log_density(x_new) - 0.5 * v_new @ v_new - log_density(x) + 0.5 * v @ v
        taken = hop.log(hop.random.uniform(decide)) < gain
        x = hop.where(taken, x_new, x)
        return x, (x, taken)

    keys = hop.random.split(key, WARM + DRAWS + 1)
    return hop.scan(draw, hop.random.normal(keys[0], (2,)), keys[1:])[1]


def main():
    keys = hop.random.split(hop.random.key(1), CHAINS)
    sample = hop.jit(hop.vmap(chain))
    sample(keys)
    begin = time.perf_counter()
    draws, taken = sample(keys)
    spent = time.perf_counter() - begin
    draws = draws[:, WARM:]

    means = hop.mean(draws, axis=1)
    within, between = hop.mean(hop.var(draws, axis=1), axis=0), hop.var(means, axis=0)
    agreement = hop.sqrt(1 + between / within)
    mean, variance = hop.mean(means, axis=0).tolist(), hop.var(draws.reshape(-1, 2), axis=0).tolist()
    print(
        f"{CHAINS} chains of {WARM + DRAWS} draws of {LEAPS} leaps: "
        f"{spent * 1000:.1f} ms, {hop.mean(taken.astype(hop.float32)).item():.0%} taken\n"
    )
    print("         mean   exact   variance   exact   between chains")
    for i, (m, s) in enumerate(((0.0, 1.0), (1.0, 2.25))):
        print(f"x[{i}] {mean[i]:8.3f} {m:7.3f} {variance[i]:10.3f} {s:7.3f} {agreement[i].item():16.4f}")
        assert abs(mean[i] - m) < 0.1 and abs(variance[i] - s) < 0.15 * s and agreement[i].item() < 1.05

    some = draws.reshape(-1, 2)[:: CHAINS * DRAWS // 1500].tolist()
    ridge = [-3 + 0.05 * i for i in range(121)]
    plot.save(
        "hmc.svg",
        "Draws from a banana",
        [("ridge", ridge, [x * x for x in ridge])],
        [("draws", [p[0] for p in some], [p[1] for p in some])],
        x_label="x[0]",
        y_label="x[1]",
    )
    print("wrote hmc.svg")


if __name__ == "__main__":
    main()
