"""Ring attention: a sequence too long for one rank is cut over a mesh. Queries stay where they are; keys and
values go around in a ring, one rank further in each trip of a loop, and every rank puts together what it has
seen by running maxima and sums. The scores of all pairs are nowhere at once. Values and gradients are those
of attention over the whole sequence. Ranks are threads, or processes: mpirun -n 4 python ring_attention.py"""

import hop
import plot

hop.dist.init()
MESH = hop.mesh(hop.dist.size() if hop.dist.size() > 1 else 4, "ring")
PART, HEADS, WIDTH = 24, 2, 16
LENGTH = PART * MESH.size


def ring_attention(q, k, v):
    """Causal attention of one rank's part [heads, part, width] to all before it and to itself."""
    n, here = hop.axis_size("ring"), hop.axis_index("ring")
    rows = here * PART + hop.arange(PART)

    def visit(carry, trip):
        k, v, best, norm, out = carry
        columns = (here - trip) % n * PART + hop.arange(PART)  # whose keys these are
        scores = hop.einsum("hqd,hkd->hqk", q, k) / WIDTH**0.5
        scores = hop.where(rows[:, None] >= columns, scores, -1e30)
        top = hop.maximum(best, hop.max(scores, axis=-1))
        shrunk, weights = hop.exp(best - top), hop.exp(scores - top[..., None])
        norm = norm * shrunk + hop.sum(weights, axis=-1)
        out = out * shrunk[..., None] + hop.einsum("hqk,hkd->hqd", weights, v)
        k, v = hop.ppermute((k, v), "ring", [(r, (r + 1) % n) for r in range(n)])
        return (k, v, top, norm, out), None

    # The first part is a rank's own, in which every query finds itself: no row is without a key.
    begin = (k, v, hop.full((HEADS, PART), -1e30), hop.zeros((HEADS, PART)), hop.zeros_like(q))
    (_, _, _, norm, out), _ = hop.scan(visit, begin, hop.arange(n))
    return out / norm[..., None]


def whole_attention(q, k, v):
    scores = hop.einsum("hqd,hkd->hqk", q, k) / WIDTH**0.5
    places = hop.arange(LENGTH)
    scores = hop.where(places[:, None] >= places, scores, -1e30)
    return hop.einsum("hqk,hkd->hqd", hop.nn.softmax(scores, axis=-1), v)


cut = hop.P(None, "ring")
on_ring = hop.shard_map(ring_attention, MESH, cut, cut)


def gradients(attention):
    def loss(q, k, v):
        return hop.sum(hop.sin(3 * hop.collect(attention(q, k, v))))

    return hop.jit(hop.grad(loss, (0, 1, 2)))


def apart(a, b):
    return hop.max(abs(a - b)).item()


def main():
    keys = hop.random.split(hop.random.key(1), 3)
    q, k, v = [2 * hop.random.normal(key, (HEADS, LENGTH, WIDTH)) for key in keys]
    given = hop.distribute((q, k, v), MESH, cut)
    found, right = hop.collect(hop.jit(on_ring)(*given)), hop.jit(whole_attention)(q, k, v)
    found_grads = hop.collect(gradients(on_ring)(*given))
    right_grads = gradients(whole_attention)(q, k, v)
    differences = [apart(found, right)] + [apart(a, b) for a, b in zip(found_grads, right_grads)]
    assert max(differences) < 1e-3, differences
    if hop.dist.rank() > 0:
        return
    print(f"{LENGTH} places on {MESH.size} ranks, largest differences from attention over all of them:")
    for name, value in zip(("values", "gradient of q", "gradient of k", "gradient of v"), differences):
        print(f"{name:14s} {value:.1e}")
    places = list(range(LENGTH))
    curves = [("over the whole sequence", places, right[0, :, 0].tolist())]
    points = [("around the ring", places, found[0, :, 0].tolist())]
    picture = plot.panel("one channel of one head", curves, points, x_label="place")
    plot.save_panels("ring_attention.svg", f"Attention around a ring of {MESH.size} ranks", [picture])


if __name__ == "__main__":
    main()
