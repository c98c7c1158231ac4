"""Attention over documents packed into one sequence: every letter repeats the one that stood four places
before it in its document, and a table of what a distance is worth, read by the score function, learns which
place that is. No letter may look into another document, which is the mask; the blocks of the sequence that
it leaves empty are never computed, and the 4,096 × 4,096 scores are never there at once."""

import random

import hop
import plot

LENGTH, LETTERS, LOOK_BACK, SOURCE, STEPS = 4096, 16, 12, 4, 60


def packed(rng):
    """Letters, and the document that each belongs to."""
    letters, document, number = [], [], 0
    while len(letters) < LENGTH:
        size = min(rng.randint(100, 900), LENGTH - len(letters))
        text = [rng.randrange(LETTERS) for _ in range(SOURCE)]
        for i in range(SOURCE, size):
            text.append(text[i - SOURCE] if rng.random() < 0.9 else rng.randrange(LETTERS))
        letters += text[:size]
        document += [number] * size
        number += 1
    return hop.asarray(letters), hop.asarray(document)


def blocks(document):
    """Which letters each may look at: the last few of its document, itself not among them."""

    def mask(b, h, q_idx, kv_idx):
        near = (kv_idx < q_idx) & (q_idx - kv_idx <= LOOK_BACK)
        return near & (document[q_idx] == document[kv_idx])

    return hop.create_block_mask(mask, None, None, LENGTH, LENGTH)


def predicted(worth, values, mask):
    """For each place the share of each letter among those that it looks at."""

    def score(s, b, h, q_idx, kv_idx):
        return s + worth[hop.clip(q_idx - kv_idx, 0, LOOK_BACK)]

    nothing = hop.zeros_like(values)
    return hop.flex_attention(nothing, nothing, values, score_mod=score, block_mask=mask)


@hop.jit
def step(worth, letters, mask):
    values = hop.one_hot(letters, LETTERS, dtype=hop.float32)[None, None]

    def loss(worth):
        right = hop.sum(predicted(worth, values, mask) * values, axis=-1)
        return -hop.mean(hop.log(0.05 / LETTERS + 0.95 * right))

    value, slope = hop.value_and_grad(loss)(worth)
    return value, worth - 5.0 * slope


def main():
    letters, document = packed(random.Random(1))
    mask = blocks(document)
    worth = hop.zeros(LOOK_BACK + 1)
    losses = []
    for i in range(STEPS + 1):
        loss, worth = step(worth, letters, mask)
        losses.append(loss.item())
        if i % 20 == 0:
            print(f"step {i:3}  loss {losses[-1]:.3f}")
    share = hop.exp(worth - hop.max(worth))
    share = share / hop.sum(share[1:])
    for d in range(1, LOOK_BACK + 1):
        print(f"{d:2} before  {share[d].item():.3f}  " + "#" * round(50 * share[d].item()))
    places = list(range(1, LOOK_BACK + 1))
    shares = [("share", places, [share[d].item() for d in places])]
    curves = [("loss", list(range(STEPS + 1)), losses)]
    panels = [
        plot.panel("What a distance is worth", shares, (), (), "places before", "share"),
        plot.panel("Loss", curves, (), (), "step", "loss"),
    ]
    plot.save_panels("documents.svg", "Which letter each repeats, learned over packed documents", panels)
    found = hop.argmax(share[1:]).item() + 1
    print(f"letters repeat the one {found} places before; {SOURCE} is right")
    print(f"{mask.sparsity():.0f} % of the blocks are empty")
    return 0 if found == SOURCE else 1


if __name__ == "__main__":
    raise SystemExit(main())
