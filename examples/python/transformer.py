"""Trains a small transformer to sort: it reads some digits and has to write them in order, one after the
other, each looking back at what is there already. Batches are drawn inside of the compiled program, fifty
steps of AdamW are one call; parameters are nested dicts and lists."""

import math
import time

import hop
import plot

DIGITS, LENGTH, WIDTH, HEADS, LAYERS, BATCH = 10, 6, 32, 4, 2, 48
TOKENS = 2 * LENGTH  # the digits, a sign that they end, and the sorted ones but for the last
END = DIGITS
CALLS, STEPS = 16, 50


def init(key):
    def matrix(key, rows, columns):
        return hop.random.normal(key, (rows, columns)) / math.sqrt(rows)

    def layer(key):
        k = hop.random.split(key, 4)
        ones = hop.ones(WIDTH)
        return {
            "look": matrix(k[0], WIDTH, 3 * WIDTH),
            "mix": matrix(k[1], WIDTH, WIDTH),
            "wide": matrix(k[2], WIDTH, 4 * WIDTH),
            "narrow": matrix(k[3], 4 * WIDTH, WIDTH),
            "scales": (ones, ones),
        }

    k = hop.random.split(key, LAYERS + 3)
    return {
        "tokens": matrix(k[0], DIGITS + 1, WIDTH),
        "places": matrix(k[1], TOKENS, WIDTH),
        "layers": [layer(k[i + 3]) for i in range(LAYERS)],
        "out": matrix(k[2], WIDTH, DIGITS),
    }


def normed(x, scale):
    return x * scale * hop.rsqrt(hop.mean(x * x, axis=-1, keepdims=True) + 1e-6)


def attend(layer, x):
    """Each place looks at those up to itself; also gives how much it looked at each: [heads, places,
    places]."""
    query, key, value = [
        part.reshape(TOKENS, HEADS, -1).transpose(1, 0, 2)
        for part in hop.split(x @ layer["look"], 3, axis=-1)
    ]
    scores = query @ key.mT / math.sqrt(WIDTH // HEADS)
    earlier = hop.tril(hop.ones((TOKENS, TOKENS), dtype=hop.bool))
    looks = hop.softmax(hop.where(earlier, scores, -hop.inf), axis=-1)
    return (looks @ value).transpose(1, 0, 2).reshape(TOKENS, WIDTH) @ layer["mix"], looks


def run(params, tokens):
    """Logarithms of the probabilities of the next digit at each place, up to a constant, and where each layer
    looked."""
    x, looks = params["tokens"][tokens] + params["places"], []
    for layer in params["layers"]:
        moved, look = attend(layer, normed(x, layer["scales"][0]))
        x = x + moved
        x = x + hop.gelu(normed(x, layer["scales"][1]) @ layer["wide"]) @ layer["narrow"]
        looks.append(look)
    return x @ params["out"], looks


def model(params, tokens):
    return run(params, tokens)[0]


def attention(params, tokens):
    """How much each place of the last layer looked at each other, the most of any head: [places, places]."""
    return hop.max(run(params, tokens)[1][-1], axis=0)


def examples(key, n):
    """(what is read, what is to be written): [n, TOKENS], [n, LENGTH]."""
    digits = hop.random.randint(key, (n, LENGTH), 0, DIGITS)
    ordered = hop.sort(digits, axis=1)
    return hop.concat([digits, hop.full((n, 1), END), ordered[:, :-1]], axis=1), ordered


def loss(params, tokens, ordered):
    scores = hop.log_softmax(hop.vmap(model, (None, 0))(params, tokens)[:, LENGTH:])
    return -hop.mean(hop.take_along_axis(scores, ordered[..., None], axis=-1))


opt = hop.optim.adamw(hop.optim.cosine(5e-3, CALLS * STEPS, warmup=50), weight_decay=0.01)


@hop.jit
def train(params, state, key):
    """STEPS steps, and their mean loss."""

    def step(carry, key):
        params, state = carry
        value, grads = hop.value_and_grad(loss)(params, *examples(key, BATCH))
        return opt.update(hop.optim.clip_by_global_norm(grads, 1.0), state, params), value

    (params, state), values = hop.scan(step, (params, state), hop.random.split(key, STEPS))
    return params, state, hop.mean(values)


@hop.jit
def write(params, digits):
    """The digits that the model writes on its own, the likeliest each time."""

    def one(digits):
        def step(i, tokens):
            best = hop.argmax(model(params, tokens)[LENGTH + i])
            return tokens.at[LENGTH + 1 + i].set(best)  # the last one falls off the end

        tokens = hop.concat([digits, hop.full((TOKENS - LENGTH,), END)])
        tokens = hop.fori_loop(0, LENGTH - 1, step, tokens)
        return hop.concat([tokens[LENGTH + 1 :], hop.argmax(model(params, tokens)[-1])[None]])

    return hop.vmap(one)(digits)


def main():
    params = init(hop.random.key(0))
    state = opt.init(params)
    print(f"{sum(leaf.size for leaf in hop.tree.leaves(params))} parameters\n\nstep      loss")
    begin, curve = time.perf_counter(), []
    for call in range(CALLS):
        params, state, value = train(params, state, hop.random.fold_in(hop.random.key(1), call))
        curve.append(value.item())
        if call % 3 == 0:
            print(f"{(call + 1) * STEPS:4d} {value:9.5f}")
    spent = time.perf_counter() - begin

    tokens, ordered = examples(hop.random.key(2), 1000)
    digits = tokens[:, :LENGTH]
    written = write(params, digits)
    right = hop.mean(hop.all(written == ordered, axis=1).astype(hop.float32)).item()
    print(
        f"\n{CALLS * STEPS} steps in {spent:.1f} s; "
        f"of 1000 new rows {right:.1%} are sorted without a mistake:"
    )
    for row, out in zip(digits[:4].tolist(), written[:4].tolist()):
        print(" ", *row, "->", *out)
    assert right > 0.9 and curve[-1] < 0.2 * curve[0]

    at = [(i + 1) * STEPS for i in range(CALLS)]
    learning = plot.panel("", [("loss", at, curve)], x_label="step", y_label="cross entropy", log=True)
    read, wrote = digits[0].tolist(), written[0].tolist()
    looks = attention(params, tokens[0])[LENGTH:, :LENGTH].tolist()
    learned = plot.field(looks, "where it looks, a row per digit it writes", 0, x_names=read, y_names=wrote)
    plot.save_panels("transformer.svg", "A small transformer learns to sort", [learning, learned], width=900)
    print("wrote transformer.svg")


if __name__ == "__main__":
    main()
