"""Puts figures into README.md: the table of the benchmarks, and what is said of hop beside JAX.

    python readme.py README.md [--bench FILE] [--timings FILE] [--dense FILE]

Each FILE holds the lines that bench/run, timings.py or dense.py printed; what no file is given for stays.
"""

import argparse
import json
import math
import pathlib

import several

BENCH_MARKS = "<!-- bench: begin -->", "<!-- bench: end -->"
TIMES_MARKS = "<!-- times: begin -->", "<!-- times: end -->"
DENSE_MARKS = "<!-- dense: begin -->", "<!-- dense: end -->"
CASES = {  # what each benchmark is
    "while100k": "100,000 trips of `0.999 x + 0.001` on 16 floats",
    "scan1e7": "10⁷ steps of `0.9 h + x`, all stacked",
    "rnn": "1000 steps of `tanh(h W + x U)`, 64 wide",
    "rnn_grad": "its gradient with respect to W",
    "assoc_scan": "linear recurrence over 65,536 × 16",
    "assoc_grad": "its gradient",
    "assoc1_grad": "the same over 65,536 × 1",
    "carry60": "614 steps over 60 scalar carries",
    "carry60_grad": "its gradient",
    "cond": "`2 sin x` or `1 + cos x` on 1,024 floats, a call",
    "elem16M": "`tanh(a b + c) sigmoid(d)` on 2²⁴ floats",
    "nbody": "500 steps of 64 bodies",
    "lstm": "500 steps of an LSTM with 256 units, batch 1",
    "viterbi": "Viterbi, 64 states, 1,000 steps",
    "matmul1024": "1,024 × 1,024 × 1,024, C: OpenBLAS",
    "batched32": "512 products of 32 × 32",
    "columns": "column sums and row maxima of 8,192 × 2,048",
    "softmax": "rows of 4,096 × 1,024",
    "layer_norm": "rows of 4,096 × 1,024",
    "attention": "4 × 8 heads of 512 positions",
    "attention_grad": "its gradient",
    "tf12": "the gradient of 12 transformer blocks",
    "tf48": "the same of 48",
    "mlp_adam": "a step of Adam, 784-512-512-10, batch 128",
    "gru_grad": "the gradient of 256 steps of a GRU",
    "nbody_grad": "the gradient of `nbody`",
    "adaptive": "512 lanes of adaptive steps",
    "mamba": "a Mamba block, forward",
    "mamba_sample": "120 characters drawn from it",
}  # fmt: skip
TIMED = ("rnn", "rnn_grad", "while100k", "carry60_grad", "assoc_grad")
DENSE = {  # what the sentence about dense work names
    "tf12": "the gradient of twelve transformer blocks",
    "tf48": "of 48",
    "gru_grad": "of a GRU",
    "nbody_grad": "of 64 bodies",
    "attention_grad": "of attention",
    "mlp_adam": "a step of Adam for a 784-512-512-10 network",
    "lstm": "an LSTM at batch 1",
    "mamba": "a Mamba block",
    "batched_32": "512 products of 32 × 32",
    "sort_long": "a sort of 2²⁰ floats",
}


def number(x):
    return f"{x:,.0f}" if x >= 1000 else f"{x:.3g}"


def cases_of(file):
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line[:1] == "{"]
    return {line["case"]: line for line in lines if "case" in line and "program" not in line}, lines


def bench_table(file):
    found, _ = cases_of(file)
    rows = ["| case | cold ms | first ms | run ms | C ms | C / hop |", "|---|---|---|---|---|---|"]
    for name, what in CASES.items():
        if name in found:
            line = found[name]
            times = [line[k] for k in ("hop_cold_ms", "hop_first_ms", "hop_ms")]
            beside_c = [number(line["c_ms"]), f"{line['ratio_c']:.2f}"] if "c_ms" in line else ["", ""]
            rows.append("| " + " | ".join([f"`{name}`: {what}", *map(number, times), *beside_c]) + " |")
    return f"On {several.machine()}:\n\n" + "\n".join(rows)


def times_text(file):
    found, lines = cases_of(file)
    versions = next(line for line in lines if "jax" in line)
    said = [
        f"`{name}` {number(line['hop_ms'])} against {number(line['jax_ms'])} "
        f"(first call {number(line['hop_first_ms'])} against {number(line['jax_first_ms'])})"
        for name, line in found.items()
        if name in TIMED
    ]
    call, add = found["call_overhead"], found["eager_add"]
    return (
        f"Beside JAX {versions['jax']} from Python on {versions['machine']} (`make test-peers`, "
        f"[docs/python/peers.md](docs/python/peers.md); medians), ms: {', '.join(said)}. A call of a small "
        f"`jit` function takes {call['hop_us']:.2g} µs against {call['jax_us']:.2g}, `x + x` outside of "
        f"`jit` {add['hop_us']:.2g} µs against {add['jax_us']:.2g}."
    )


def dense_text(file):
    found, lines = cases_of(file)
    versions = next(line for line in lines if "jax" in line)
    mean = math.exp(sum(math.log(line["ratio_jax"]) for line in found.values()) / len(found))
    said = [
        f"{what} {number(found[name]['hop_ms'])} against {number(found[name]['jax_ms'])}"
        for name, what in DENSE.items()
        if name in found
    ]
    level = [f"`{name}` {line['ratio_best']}" for name, line in found.items() if line["ratio_best"] < 1.3]
    others = "JAX, PyTorch and `torch.compile`" if "torch" in versions else "JAX"
    return (
        f"The dense half, {len(found)} programs beside {others} on {versions['machine']} "
        f"([table](docs/python/peers.md#dense-work), `make peers-dense`): hop is {mean:.1f} × as fast as JAX "
        f"in the geometric mean. Ms, hop against JAX: {', '.join(said)}. Less than 1.3 × as quick as the "
        f"best of the others: {', '.join(level) or 'none'}."
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("page", type=pathlib.Path)
    makers = {"bench": (BENCH_MARKS, bench_table), "timings": (TIMES_MARKS, times_text)}
    makers["dense"] = DENSE_MARKS, dense_text
    for name in makers:
        parser.add_argument(f"--{name}", type=pathlib.Path, metavar="FILE")
    given = parser.parse_args()
    for name, (marks, maker) in makers.items():
        file = getattr(given, name)
        if file:
            several.write_table(given.page, marks, maker(file))


if __name__ == "__main__":
    main()
