"""hop beside JAX and, where it is installed, PyTorch, on what dense work is made of: products, layers,
attention, steps of training, recurrent networks; one JSON object a line.

    python dense.py [CASE…] [--quick] [--threads N] [--no-torch] [--list]
    python dense.py [CASE…] [--table FILE] [--first FILE]                 the same, written into pages
    python dense.py --products [--dtype float32|float64|bfloat16|int8]    GFLOP/s of single products
    python dense.py --limits [CASE…]                                      what the machine can do, then cases

The lines are those of timings.py; ratio_best compares with the quickest of the others, first_beyond_run_ms
is what the first call of hop takes besides one run. With --limits, cases whose arithmetic and traffic are
known say in limit_ms how long they take at the measured peak of the machine, whichever of the two is
longer; for tables the peak is measured again behind the cases, and what a case reached counts as well, since
a machine that is shared does not give the same at all times. --table writes the times into a page, --first
what first calls take beyond a run. --threads N keeps all libraries on N CPUs. torch.compile is left out
where it would unroll a loop; there PyTorch runs as it does by itself, with loops of Python. Cases whose
results differ by more than their bound end the program with code 1.
"""

import argparse
import functools
import os
import pathlib
import sys

MARKS = "<!-- dense: begin -->", "<!-- dense: end -->"
FIRST_MARKS = "<!-- first calls: begin -->", "<!-- first calls: end -->"


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--quick", action="store_true", help="three rounds of each case")
    parser.add_argument("--threads", type=int, help="keep all libraries on this many CPUs")
    parser.add_argument("--products", action="store_true", help="GFLOP/s of single products")
    parser.add_argument("--dtype", default="float32", help="the elements of --products")
    parser.add_argument("--limits", action="store_true", help="measure peak arithmetic and bandwidth")
    parser.add_argument("--no-torch", action="store_true", help="leave PyTorch out")
    parser.add_argument("--table", type=pathlib.Path, metavar="FILE", help="put the times into this page")
    parser.add_argument("--first", type=pathlib.Path, metavar="FILE", help="put first calls into this page")
    parser.add_argument("--list", action="store_true", help="name the cases and end")
    return parser.parse_args()


def stay_on(n):
    """Before the libraries count CPUs: they all see as many as the process may use."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:n])
    for name in ("HOP_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(n)


GIVEN = options() if __name__ == "__main__" else None
if GIVEN and GIVEN.threads:
    stay_on(GIVEN.threads)
import beside  # noqa: E402
import numpy as np  # noqa: E402
import products  # noqa: E402
import several  # noqa: E402
import timings  # noqa: E402
from beside import noise  # noqa: E402

import hop  # noqa: E402

# ---- single operators ----


def matmul(n):
    def case(o, rng):
        return lambda a, b: a @ b, (noise(rng, n, n), noise(rng, n, n))

    return case


def matvec(n):
    def case(o, rng):
        return lambda a, x: a @ x, (noise(rng, n, n), noise(rng, n))

    return case


def batched(count, n):
    def case(o, rng):
        return lambda a, b: a @ b, (noise(rng, count, n, n), noise(rng, count, n, n))

    return case


def dense_gelu(o, rng):
    def layer(x, w, b):
        y = x @ w + b
        return 0.5 * y * (1 + o.np_.tanh(0.7978845608 * (y + 0.044715 * y * y * y)))

    return layer, (noise(rng, 1024, 768), noise(rng, 768, 3072, scale=0.1), noise(rng, 3072))


def layer_norm(o, rng):
    def norm(x, scale, shift):
        x = x - o.np_.mean(x, axis=-1, keepdims=True)
        return x / o.np_.sqrt(o.np_.mean(x * x, axis=-1, keepdims=True) + 1e-5) * scale + shift

    return norm, (noise(rng, 4096, 1024), noise(rng, 1024), noise(rng, 1024))


def softmax(o, rng):
    return lambda x: o.softmax(x, axis=-1), (noise(rng, 4096, 1024, scale=8.0),)


def sums_and_maxima(o, rng):
    return lambda x: (o.np_.sum(x, axis=0), o.np_.max(x, axis=1)), (noise(rng, 8192, 2048),)


def column_sums(o, rng):
    return lambda x: o.np_.sum(x, axis=0), (noise(rng, 8192, 2048),)


def running_sums(axis):
    def case(o, rng):
        return lambda x: o.np_.cumsum(x, axis), (noise(rng, 4096, 1024),)

    return case


def sort_rows(o, rng):
    return lambda x: o.np_.sort(x, -1), (noise(rng, 1024, 1024),)


def sort_long(o, rng):
    return lambda x: o.np_.sort(x, -1), (noise(rng, 1 << 20),)


def scatter_add(o, rng):
    def run(table, rows, at):
        return table.at[at].add(rows)

    return run, (noise(rng, 8192, 64), noise(rng, 65536, 64), rng.integers(0, 8192, 65536).astype("int32"))


# ---- attention and networks ----


def attention(o, rng, batch=4, heads=8, sequence=512, size=64):
    def run(q, k, v):
        scores = o.np_.einsum("bhid,bhjd->bhij", q, k) * size**-0.5
        return o.np_.einsum("bhij,bhjd->bhid", o.softmax(scores, axis=-1), v)

    return run, tuple(noise(rng, batch, heads, sequence, size, scale=4.0) for _ in range(3))


def attention_grad(o, rng, **sizes):
    run, args = attention(o, rng, **sizes)

    def loss(*qkv):
        out = run(*qkv)
        return o.np_.mean(out * out)

    return o.lib.grad(loss, (0, 1, 2)), args


def mlp_adam(o, rng, sizes=(784, 512, 512, 10), batch=128):
    """One step of training a network of dense layers with Adam."""
    pairs = list(zip(sizes, sizes[1:], strict=False))
    params = [(noise(rng, n, m, scale=2 * n**-0.5), np.zeros(m, "float32")) for n, m in pairs]
    zeros = [(np.zeros_like(w), np.zeros_like(b)) for w, b in params]
    x, label = noise(rng, batch, sizes[0]), np.eye(10, dtype="float32")[rng.integers(0, 10, batch)]

    def loss(params, x, label):
        for i, (w, b) in enumerate(params):
            x = x @ w + b
            if i + 1 < len(params):
                x = o.np_.maximum(x, x * 0)
        top = o.np_.max(x, axis=-1, keepdims=True)
        scale = o.np_.log(o.np_.sum(o.np_.exp(x - top), axis=-1, keepdims=True)) + top
        return -o.np_.mean(o.np_.sum((x - scale) * label, axis=-1))

    def step(params, first, second, count, x, label):
        value, slopes = o.lib.value_and_grad(loss)(params, x, label)
        count = count + 1
        tree = o.lib.tree.map
        first = tree(lambda m, g: 0.9 * m + 0.1 * g, first, slopes)
        second = tree(lambda v, g: 0.999 * v + 0.001 * g * g, second, slopes)
        fix1, fix2 = 1 - 0.9**count, 1 - 0.999**count

        def moved(p, m, v):
            return p - 1e-3 * (m / fix1) / (o.np_.sqrt(v / fix2) + 1e-8)

        return value, tree(moved, params, first, second), first, second, count

    return step, (params, zeros, zeros, np.asarray(3.0, "float32"), x, label)


def gru_grad(o, rng, units=128, batch=32, steps=256):
    weights = {
        "x": noise(rng, units, 3 * units, scale=0.2),
        "h": noise(rng, units, 3 * units, scale=0.2),
        "b": noise(rng, 3 * units),
    }

    def loss(w, h, xs):
        def step(h, x):
            a, b = x @ w["x"] + w["b"], h @ w["h"]
            reset = o.sigmoid(a[:, :units] + b[:, :units])
            keep = o.sigmoid(a[:, units : 2 * units] + b[:, units : 2 * units])
            new = o.np_.tanh(a[:, 2 * units :] + reset * b[:, 2 * units :])
            h = keep * h + (1 - keep) * new
            return h, h

        hs = o.scan(step, h, xs)[1]
        return o.np_.mean(hs * hs)

    return o.lib.grad(loss), (weights, np.zeros((batch, units), "float32"), noise(rng, steps, batch, units))


def lstm(o, rng, units=256, steps=500, apart=False):
    """With one matrix for all gates, or one for each of them."""

    def run(w, u, b, h, c, xs):
        def gates(x, h):
            if apart:
                return (x @ w[k] + h @ u[k] + b[k] for k in range(4))
            g = x @ w + h @ u + b
            return (g[:, k * units : (k + 1) * units] for k in range(4))

        def step(carry, x):
            h, c = carry
            i, f, o_, n = gates(x, h)
            c = o.sigmoid(f) * c + o.sigmoid(i) * o.np_.tanh(n)
            h = o.sigmoid(o_) * o.np_.tanh(c)
            return (h, c), h

        return o.scan(step, (h, c), xs)[1]

    zero = np.zeros((1, units), "float32")
    wide = units, 4 * units
    given = noise(rng, *wide, scale=0.2), noise(rng, *wide, scale=0.2), noise(rng, 4 * units)
    if apart:
        given = tuple(tuple(np.ascontiguousarray(p) for p in np.split(x, 4, axis=-1)) for x in given)
    return run, (*given, zero, zero, noise(rng, steps, 1, units))


def nbody_grad(o, rng, bodies=64, steps=500):
    mass = (rng.random(bodies) + 0.5).astype("float32") / bodies

    def pull(x, mass):
        d = x[None, :, :] - x[:, None, :]
        r2 = o.np_.sum(d * d, axis=-1) + 0.01
        return o.np_.sum(d * (mass[None, :] * r2**-1.5)[:, :, None], axis=1)

    def loss(x, v, mass):
        def step(state, _):
            x, v = state
            v = v + 0.001 * pull(x, mass)
            return (x + 0.001 * v, v), None

        (x, v), _ = o.scan(step, (x, v), None, length=steps)
        return o.np_.sum(x * x) + o.np_.sum(v * v)

    return o.lib.grad(loss, (0, 1)), (noise(rng, bodies, 3, scale=2.0), noise(rng, bodies, 3), mass)


def viterbi(o, rng, states=64, steps=1000):
    def run(start, moves, seen):
        def forward(score, e):
            ways = score[:, None] + moves
            return o.np_.max(ways, axis=0) + e, o.np_.argmax(ways, axis=0)

        last, back = o.scan(forward, start, seen)
        end = o.np_.argmax(last)

        def backward(state, back):
            return back[state], state

        first, path = o.scan(backward, end, back, reverse=True)
        return last, first, path

    moves, seen = noise(rng, states, states, scale=6.0), noise(rng, steps, states, scale=6.0)
    return run, (noise(rng, states), moves, seen)


def adaptive(o, rng, lanes=512):
    """Van der Pol oscillators by the pair of Bogacki and Shampine, each with its own steps."""

    def one(mu, y0):
        def slope(y):
            return o.np_.stack([y[1], mu * (1 - y[0] * y[0]) * y[1] - y[0]])

        def step(state):
            t, h, y, n = state
            h = o.np_.minimum(h, 10.0 - t)
            k1 = slope(y)
            k2 = slope(y + 0.5 * h * k1)
            k3 = slope(y + 0.75 * h * k2)
            new = y + h * (2 / 9 * k1 + 1 / 3 * k2 + 4 / 9 * k3)
            k4 = slope(new)
            apart = h * (-5 / 72 * k1 + 1 / 12 * k2 + 1 / 9 * k3 - 1 / 8 * k4)
            error = o.np_.sqrt(o.np_.sum(apart * apart)) / 1e-4
            good = error <= 1.0
            grown = h * o.np_.clip(0.9 * (error + 1e-10) ** (-1 / 3), 0.2, 5.0)
            return o.np_.where(good, t + h, t), grown, o.np_.where(good, new, y), n + 1

        start = (mu * 0, mu * 0 + 0.01, y0, mu * 0)
        return o.while_loop(lambda s: s[0] < 10.0 - 1e-5, step, start)[2]

    mu = np.linspace(0.5, 4.0, lanes, dtype="float32")
    return o.lib.vmap(one), (mu, noise(rng, lanes, 2, scale=2.0) + np.float32(1.0))


def _mamba_weights(rng, width, inner, states, rank):
    return {
        "in": noise(rng, width, 2 * inner, scale=0.2),
        "conv": noise(rng, 4, inner),
        "conv_bias": noise(rng, inner),
        "x": noise(rng, inner, rank + 2 * states, scale=0.2),
        "dt": noise(rng, rank, inner, scale=0.5),
        "dt_bias": noise(rng, inner) - np.float32(2.0),
        "log_a": np.log(np.tile(np.arange(1, states + 1, dtype="float32"), (inner, 1))),
        "d": np.ones(inner, "float32"),
        "out": noise(rng, inner, width, scale=0.2),
    }


def _softplus(o, x):
    return o.np_.log1p(o.np_.exp(x))


def _selected(o, w, x, states, rank):
    """What of a Mamba block depends on each position: steps, and the maps into and out of the state."""
    made = x @ w["x"]
    dt = _softplus(o, made[..., :rank] @ w["dt"] + w["dt_bias"])
    return dt, made[..., rank : rank + states], made[..., rank + states :]


def mamba(o, rng, batch=2, sequence=256, width=128, states=16, rank=8):
    inner = 2 * width

    def block(w, x):
        both = x @ w["in"]
        x, gate = both[..., :inner], both[..., inner:]
        padded = o.np_.concatenate([x[:, :3] * 0, x], axis=1)
        x = sum(padded[:, i : i + sequence] * w["conv"][i] for i in range(4)) + w["conv_bias"]
        x = x * o.sigmoid(x)
        dt, b, c = _selected(o, w, x, states, rank)
        a = -o.np_.exp(w["log_a"])

        def step(h, at):
            x, dt, b, c = at
            h = o.np_.exp(dt[..., None] * a) * h + (dt * x)[..., None] * b[:, None, :]
            return h, o.np_.sum(h * c[:, None, :], axis=-1)

        first = tuple(o.permute(z, (1, 0, 2)) for z in (x, dt, b, c))
        h = o.np_.zeros((batch, inner, states), dtype=o.np_.float32)
        y = o.permute(o.scan(step, h, first)[1], (1, 0, 2)) + x * w["d"]
        return (y * gate * o.sigmoid(gate)) @ w["out"]

    return block, (_mamba_weights(rng, width, inner, states, rank), noise(rng, batch, sequence, width))


def mamba_sample(o, rng, keyed=False, length=120, letters=64, width=128, states=16, rank=8):
    """Characters from an embedding, a Mamba block and a product, one after another; drawn with noise that is
    given, so that the libraries agree, or each with a key of its own."""
    inner = 2 * width
    w = _mamba_weights(rng, width, inner, states, rank)
    w |= {"letters": noise(rng, letters, width), "head": noise(rng, width, letters)}

    def sample(w, gumbel):
        a = -o.np_.exp(w["log_a"])

        def step(carry, gumbel):
            letter, past, h = carry
            both = w["letters"][letter] @ w["in"]
            x, gate = both[:inner], both[inner:]
            window = o.np_.concatenate([past, x[None]], axis=0)
            x = o.np_.sum(window * w["conv"], axis=0) + w["conv_bias"]
            x = x * o.sigmoid(x)
            dt, b, c = _selected(o, w, x, states, rank)
            h = o.np_.exp(dt[:, None] * a) * h + (dt * x)[:, None] * b[None, :]
            y = h @ c + x * w["d"]
            scores = (y * gate * o.sigmoid(gate)) @ w["out"] @ w["head"]
            letter = o.lib.random.categorical(gumbel, scores) if keyed else o.np_.argmax(scores + gumbel)
            return (letter, window[1:], h), (letter, o.np_.max(scores, axis=0))

        past = o.np_.zeros((3, inner), dtype=o.np_.float32)
        h = o.np_.zeros((inner, states), dtype=o.np_.float32)
        first = o.np_.argmax(w["letters"][:, 0])
        if keyed:
            gumbel = o.lib.random.split(o.lib.random.PRNGKey(3), length)
            first = first.astype(o.lib.random.categorical(gumbel[0], w["letters"][0]).dtype)
        return o.scan(step, (first, past, h), gumbel)[1]

    return sample, (w, -np.log(-np.log(rng.random((length, letters)))).astype("float32"))


FEW_HEADS = {"batch": 1, "heads": 2, "sequence": 1024}
CASES = {
    # name: (case, timed rounds, calls in a round, how much results may differ)
    "tf12": (timings.transformer(12), 11, 1, 1e-3),
    "tf48": (timings.transformer(48), 5, 1, 1e-3),
    "mlp_adam": (mlp_adam, 31, 3, 1e-3),
    "gru_grad": (gru_grad, 9, 1, 1e-3),
    "lstm": (lstm, 15, 1, 1e-3),
    "lstm_gates": (functools.partial(lstm, apart=True), 15, 1, 1e-3),
    "nbody_grad": (nbody_grad, 7, 1, 1e-2),
    "matmul_1024": (matmul(1024), 15, 3, 1e-4),
    "matvec_4096": (matvec(4096), 31, 5, 1e-4),
    "batched_32": (batched(512, 32), 31, 10, 1e-4),
    "dense_gelu": (dense_gelu, 15, 2, 1e-4),
    "attention": (attention, 11, 1, 1e-4),
    "attention_grad": (attention_grad, 7, 1, 1e-3),
    "attention_2_heads": (functools.partial(attention, **FEW_HEADS), 15, 2, 1e-4),
    "attention_2_heads_grad": (functools.partial(attention_grad, **FEW_HEADS), 11, 1, 1e-3),
    "layer_norm": (layer_norm, 21, 2, 1e-4),
    "softmax": (softmax, 21, 2, 1e-4),
    "sums_and_maxima": (sums_and_maxima, 15, 2, 1e-3),
    "column_sums": (column_sums, 15, 2, 1e-3),
    "cumsum_rows": (running_sums(1), 15, 2, 1e-3),
    "cumsum_columns": (running_sums(0), 15, 2, 1e-3),
    "sort_rows": (sort_rows, 9, 1, 0),
    "sort_long": (sort_long, 5, 1, 0),
    "scatter_add": (scatter_add, 11, 1, 1e-4),
    "viterbi": (viterbi, 21, 1, 1e-4),
    "adaptive": (adaptive, 21, 1, 0.02),
    "mamba": (mamba, 11, 1, 1e-3),
    "mamba_sample": (mamba_sample, 21, 1, 1e-3),
    "mamba_sample_keys": (functools.partial(mamba_sample, keyed=True), 21, 1, None),  # generators differ
}  # fmt: skip

# what PyTorch has words for: by itself, and without a loop that torch.compile would unroll
EAGER = ("tf12", "gru_grad", "lstm", "mamba")
COMPILED = (
    "mlp_adam", "matmul_1024", "matvec_4096", "batched_32", "dense_gelu", "attention", "attention_grad",
    "layer_norm", "softmax", "sums_and_maxima", "column_sums", "cumsum_rows", "cumsum_columns",
)  # fmt: skip

LIBRARIES = ("hop", "jax", "torch", "torch_compile")
_MIB = 2**20
WORK = {  # name: operations, bytes that come from or go to memory at least
    "matmul_1024": (2 * 1024**3, 12 * _MIB),
    "matvec_4096": (2 * 4096**2, 64 * _MIB),
    "batched_32": (2 * 512 * 32**3, 6 * _MIB),
    "dense_gelu": (2 * 1024 * 768 * 3072, 24 * _MIB),
    "attention": (4 * 32 * 512 * 512 * 64, 16 * _MIB),
    "attention_grad": (14 * 32 * 512 * 512 * 64, 28 * _MIB),
    "attention_2_heads": (4 * 2 * 1024 * 1024 * 64, 2 * _MIB),
    "attention_2_heads_grad": (14 * 2 * 1024 * 1024 * 64, 4 * _MIB),
    "layer_norm": (0, 32 * _MIB),
    "softmax": (0, 32 * _MIB),
    "sums_and_maxima": (0, 64 * _MIB),
    "column_sums": (0, 64 * _MIB),
    "cumsum_rows": (0, 32 * _MIB),
    "cumsum_columns": (0, 32 * _MIB),
    # forward and gradient, 128 rows each: six products of the layers, their bytes the parameters of Adam
    "mlp_adam": (6 * 128 * (784 * 512 + 512 * 512 + 512 * 10), 28 * (784 * 512 + 512 * 512 + 512 * 10)),
    "gru_grad": (6 * 256 * 32 * 128 * 768, 0),
    "lstm": (4 * 500 * 256 * 1024, 0),
    "lstm_gates": (4 * 500 * 256 * 1024, 0),
    # four products of all positions; three multiplications and additions a state, its exponential apart
    "mamba": (2 * 2 * 256 * (128 * 512 + 256 * 40 + 8 * 256 + 256 * 128 + 3 * 256 * 16), 0),
    # 12 d² weights in each block, scores and mixtures; tokens are 128
    "tf12": (12 * (6 * 128 * 12 * 128**2 + 12 * 8 * 64 * 64 * 32), 0),
    "tf48": (48 * (6 * 128 * 12 * 128**2 + 12 * 8 * 64 * 64 * 32), 0),
}  # fmt: skip


def limit(name, found):
    operations, traffic = WORK[name]
    return round(max(operations / found["gflops"], traffic / found["read_gb_s"]) / 1e6, 4)


def number(x):
    """Three digits, thousands apart; nothing for what was not measured."""
    if x is None:
        return ""
    return f"{x:,.0f}" if x >= 100 else f"{x:.3g}"


def best_of(found, again, lines):
    """What the machine gave at most: before the cases, behind them, and to any library in a case."""
    most = {key: max(value, again[key]) for key, value in found.items()}
    for line in lines:
        operations = WORK.get(line["case"], (0, 0))[0]
        quickest = min(line[key] for key in line if key.endswith("_ms") and key[:-3] in LIBRARIES)
        most["gflops"] = max(most["gflops"], operations / quickest / 1e6)
    return most


def rows_of(columns, lines):
    shown = {head: key for head, key in columns.items() if any(line.get(key) is not None for line in lines)}
    rows = [list(shown), ["---"] * len(shown)]
    for line in lines:
        rows.append([line[k] if k == "case" else number(line.get(k)) for k in shown.values()])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def put_table(path, lines, found):
    columns = {
        "case": "case", "hop": "hop_ms", "JAX": "jax_ms", "PyTorch": "torch_ms",
        "torch.compile": "torch_compile_ms", "best / hop": "ratio_best", "at the limit": "limit_ms",
        "hop first": "hop_first_ms", "JAX first": "jax_first_ms",
    }  # fmt: skip
    said = [f"{several.machine()}, hop {hop.__version__}, JAX {beside.Jax.version}, {len(lines)} programs"]
    if found:
        rates = found["gflops"], found["read_gb_s"]
        said.append(f"at most {rates[0]:,.0f} GFLOP/s and {rates[1]:,.0f} GB/s read in this run")
    several.write_table(path, MARKS, "; ".join(said) + ". Milliseconds.\n\n" + rows_of(columns, lines))


def put_first_calls(path, lines):
    columns = {
        "case": "case", "beyond a run": "first_beyond_run_ms", "a run": "hop_ms",
        "JAX beyond a run": "jax_beyond_run_ms",
    }  # fmt: skip
    for line in lines:
        line["jax_beyond_run_ms"] = line["jax_first_ms"] - line["jax_ms"]
    said = f"{several.machine()}, hop {hop.__version__}, JAX {beside.Jax.version}. Milliseconds."
    several.write_table(path, FIRST_MARKS, said + "\n\n" + rows_of(columns, lines))


def main():
    unknown = [name for name in GIVEN.cases if name not in CASES]
    if unknown:
        print(f"there is no case {unknown[0]}: there are {', '.join(CASES)}", file=sys.stderr)
        return 2
    if GIVEN.list:
        print("\n".join(CASES))
        return 0
    torches = () if GIVEN.no_torch else beside.torches()
    beside.begin(beside.BOTH + torches[:1])
    found = products.limits(GIVEN.quick) if GIVEN.limits else None
    if GIVEN.products:
        products.table(torches[:1], GIVEN.dtype, GIVEN.quick)
    if GIVEN.products and not GIVEN.cases:
        return 0
    good, lines = True, []
    for name in GIVEN.cases or CASES:
        peers = torches if name in COMPILED else torches[:1] if name in EAGER else ()
        more = {"limit_ms": limit(name, found)} if found and name in WORK else {}
        line, right = beside.measure(name, CASES[name], beside.BOTH + peers, GIVEN.quick, **more)
        lines.append(line)
        good &= right
    if found and GIVEN.table:
        found = best_of(found, products.limits(True), lines)
        for line in lines:
            line |= {"limit_ms": limit(line["case"], found)} if line["case"] in WORK else {}
    if GIVEN.table:
        put_table(GIVEN.table, lines, found)
    if GIVEN.first:
        put_first_calls(GIVEN.first, lines)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
