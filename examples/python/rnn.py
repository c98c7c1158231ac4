"""Trains a gated recurrent network to add up the two marked numbers of a sequence. The time steps are a
scan, the batch is a vmap, and the gradient's memory is a word at the call: the same gradients are computed
under four schedules."""

import time

import hop
import plot

HIDDEN, LENGTH, BATCH, STEPS = 24, 20, 64, 600


def parameters(key):
    def gate(key):
        a, b = hop.random.split(key)
        return {
            "x": hop.random.normal(a, (2, HIDDEN)) / 2**0.5,
            "h": hop.random.normal(b, (HIDDEN, HIDDEN)) / HIDDEN**0.5,
            "b": hop.zeros(HIDDEN),
        }

    keys = hop.random.split(key, 4)
    return {
        "update": gate(keys[0]),
        "reset": gate(keys[1]),
        "new": gate(keys[2]),
        "out": hop.random.normal(keys[3], (HIDDEN,)) / HIDDEN**0.5,
    }


def predict(p, xs, schedule=None):
    """What the network makes of one sequence xs[time, 2]."""

    def affine(gate, x, h):
        return x @ gate["x"] + h @ gate["h"] + gate["b"]

    def step(h, x):
        z, r = hop.sigmoid(affine(p["update"], x, h)), hop.sigmoid(affine(p["reset"], x, h))
        n = hop.tanh(affine(p["new"], x, r * h))
        return (1 - z) * h + z * n, None

    h, _ = hop.scan(step, hop.zeros(HIDDEN), xs, schedule=schedule)
    return h @ p["out"]


def loss(p, xs, ys, schedule=None):
    found = hop.vmap(lambda x: predict(p, x, schedule))(xs)
    return hop.mean((found - ys) ** 2)


def batch(key):
    """Sequences of (number, mark), and the sum of the two marked numbers, one in each half."""
    keys = hop.random.split(key, 3)
    numbers = hop.random.uniform(keys[0], (BATCH, LENGTH))
    early, late = (
        hop.random.randint(keys[1], (BATCH,), 0, LENGTH // 2),
        hop.random.randint(keys[2], (BATCH,), LENGTH // 2, LENGTH),
    )
    marks = hop.one_hot(early, LENGTH) + hop.one_hot(late, LENGTH)
    return hop.stack([numbers, marks], axis=-1), hop.sum(numbers * marks, axis=1)


def seconds(f, *args):
    begin = time.perf_counter()
    f(*args)
    return time.perf_counter() - begin


adam = hop.optim.adam(0.01)


@hop.jit
def train(p, state, key):
    """All of the training, as one program: each step draws its batch from a key of its own."""

    def step(c, key):
        p, state = c
        value, g = hop.value_and_grad(loss)(p, *batch(key))
        return adam.update(g, state, p), value

    (p, _), values = hop.scan(step, (p, state), hop.random.split(key, STEPS))
    return p, values


def main():
    keys = hop.random.split(hop.random.key(0), 3)
    p = parameters(keys[0])
    xs, ys = batch(keys[1])
    print("schedule      gradient ms   apart from the first")
    first = None
    for schedule in (None, "recompute", "sqrt", "every 5"):
        g = hop.jit(hop.grad(lambda p, xs, ys: loss(p, xs, ys, schedule)))
        made = g(p, xs, ys)
        spent = min(seconds(g, p, xs, ys) for _ in range(10))
        first = first or made
        apart = max(
            hop.max(hop.abs(a - b)).item() for a, b in zip(hop.tree.leaves(made), hop.tree.leaves(first))
        )
        print(f"{str(schedule):12s} {1000 * spent:12.2f} {apart:22.1e}")
        assert apart < 1e-4

    begin = time.perf_counter()
    p, values = train(p, adam.init(p), keys[2])
    spent, values = time.perf_counter() - begin, values.tolist()
    print(f"\n step       loss   ({STEPS} steps in {spent:.2f} s, compilation included)")
    for k in range(100, STEPS + 1, 100):
        print(f"{k:5d} {sum(values[k - 50 : k]) / 50:10.5f}")
    guess = 1 / 6  # the variance of the sum, what always answering 1 would cost
    final = sum(values[-50:]) / 50
    print(f"always answering 1 would cost {guess:.5f}")
    assert final < 0.1 * guess, final

    xs, sums = batch(keys[1])
    answers = hop.vmap(predict, (None, 0))(p, xs).tolist()
    curves = [("loss", list(range(STEPS)), values), ("always answering 1", [0, STEPS], [guess, guess])]
    learning = plot.panel(
        "", curves, x_label="step", y_label="mean squared error", dashed=["always answering 1"], log=True
    )
    right, asked = ("the sum", [0, 2], [0, 2]), ("new sequences", sums.tolist(), answers)
    learned = plot.panel(
        "", [right], [asked], x_label="sum of the marked numbers", y_label="answer", dashed=["the sum"]
    )
    plot.save_panels(
        "rnn.svg", "A recurrent network learns to add two marked numbers", [learning, learned], width=900
    )
    print("wrote rnn.svg")


if __name__ == "__main__":
    main()
