"""hop.flex_attention and hop.attention beside PyTorch and JAX; one JSON object a line.

    python attention.py [CASE…] [--rounds N] [--compile] [--processor] [--limits] [--no-torch] [--no-jax]
                        [--list]

flex: causal, with ALiBi, 8 heads of size 64, 2,048 positions; plain: 4 × 8 heads of size 64, 512 positions;
window: 8 heads, 4,096 positions, 256 keys each; each forward and as a gradient. decode: one query of 8 heads
over 16,384 keys of 8 heads, decode_gqa: of 2; forward alone. The calls of all libraries alternate; a line has
the medians in ms, and ratio_best: the quickest of the others against hop. PyTorch's flex_attention is
measured with --compile alone, because it compiles for a minute; where it refuses, the line has its words.
--processor counts the time of all processors and takes the least of the rounds, for machines that others use
as well. --limits measures how fast the machine multiplies and adds in registers; limit_ms is how long the
products of the pairs that take part last at that speed, whatever the rest costs.
"""

import argparse
import functools
import json
import os
import statistics
import time

import numpy as np
import products

import hop


def data(case, size=64):
    rng = np.random.default_rng(0)
    batch, heads, length = CASES[case]
    decodes = case.startswith("decode")
    kv_heads = 2 if case == "decode_gqa" else heads
    shapes = [(batch, heads, 1 if decodes else length, size), *[(batch, kv_heads, length, size)] * 2]
    return [rng.standard_normal(shape).astype("float32") for shape in shapes]


def slopes(heads):
    return np.asarray([2.0 ** (-8 * (i + 1) / heads) for i in range(heads)], "float32")


CASES = {
    "flex": (1, 8, 2048),
    "plain": (4, 8, 512),
    "window": (1, 8, 4096),
    "decode": (1, 8, 16384),
    "decode_gqa": (1, 8, 16384),
}
MASKED = ("flex", "window")
WINDOW = 256


def causal(b, h, i, j):
    return i >= j


def near(b, h, i, j):
    return (i >= j) & (i - j < WINDOW)


def of_hop(case, arrays):
    """What hop runs: forward, gradient."""
    batch, heads, length = CASES[case]
    given = [hop.asarray(x) for x in arrays]
    alibi = hop.asarray(slopes(heads))
    block = None
    if case in MASKED:
        block = hop.create_block_mask(causal if case == "flex" else near, None, None, length, length)

    def run(q, k, v):
        if case == "plain":
            return hop.attention(q, k, v)
        score = (lambda s, b, h, i, j: s + alibi[h] * (j - i)) if case == "flex" else None
        return hop.flex_attention(q, k, v, score, block, enable_gqa=True)

    def loss(*qkv):
        return hop.sum(run(*qkv) ** 2)

    forward, backward = hop.jit(run), hop.jit(hop.grad(loss, (0, 1, 2)))
    return (
        lambda: forward(*given).block_until_ready(),
        lambda: [x.block_until_ready() for x in backward(*given)],
    )


def bias_of(case):
    """The same mask and score as one array, for those who take one."""
    batch, heads, length = CASES[case]
    if case not in MASKED:
        return None
    i, j = np.ogrid[:length, :length]
    there = causal(0, 0, i, j) if case == "flex" else near(0, 0, i, j)
    bias = np.where(there, 0, -np.inf)[None].astype("float32")
    if case == "flex":
        bias = bias + (slopes(heads)[:, None, None] * (j - i)).astype("float32")
    return bias[None]


def of_jax(case, arrays):
    import jax

    q, k, v = (jax.numpy.asarray(x.transpose(0, 2, 1, 3)) for x in arrays)
    bias = bias_of(case)
    bias = None if bias is None else jax.numpy.asarray(np.maximum(bias, -1e30))

    def run(q, k, v):
        return jax.nn.dot_product_attention(q, k, v, bias=bias)

    forward = jax.jit(run)
    backward = jax.jit(jax.grad(lambda *a: (run(*a) ** 2).sum(), (0, 1, 2)))
    return (
        lambda: forward(q, k, v).block_until_ready(),
        lambda: [x.block_until_ready() for x in backward(q, k, v)],
    )


def of_torch(case, arrays, run):
    import torch

    given = [torch.from_numpy(x) for x in arrays]

    def forward():
        with torch.no_grad():
            return run(*given)

    def backward():
        q, k, v = (x.clone().requires_grad_() for x in given)
        (run(q, k, v) ** 2).sum().backward()
        return [q.grad, k.grad, v.grad]

    return forward, backward


def torch_sdpa(case, arrays, only_causal=False):
    import torch

    bias = None if only_causal else bias_of(case)
    bias = None if bias is None else torch.from_numpy(bias)
    attend = torch.nn.functional.scaled_dot_product_attention
    grouped = case == "decode_gqa"
    return of_torch(
        case, arrays, functools.partial(attend, attn_mask=bias, is_causal=only_causal, enable_gqa=grouped)
    )


def torch_flex(case, arrays):
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    batch, heads, length = CASES[case]
    alibi = torch.from_numpy(slopes(heads))
    mask = causal if case == "flex" else near
    block = create_block_mask(mask, None, None, length, length, device="cpu") if case in MASKED else None
    score = (lambda s, b, h, i, j: s + alibi[h] * (j - i)) if case == "flex" else None
    compiled = torch.compile(flex_attention)
    grouped = case == "decode_gqa"
    return of_torch(
        case,
        arrays,
        lambda q, k, v: compiled(q, k, v, score_mod=score, block_mask=block, enable_gqa=grouped),
    )


def refusals(calls):
    """Calls that fail, with the first words of what they say; the others stay in calls."""
    out = {}
    for name, call in list(calls.items()):
        try:
            call()
        except Exception as error:  # what a library cannot do is told, not hidden
            out[name] = str(error).strip().splitlines()[0][:120]
            del calls[name]
    return out


def pairs(case):
    """How many pairs of query and key take part, of all heads."""
    batch, heads, length = CASES[case]
    each = length * length
    if case == "flex":
        each = length * (length + 1) // 2
    if case == "window":
        each = WINDOW * length - WINDOW * (WINDOW - 1) // 2
    if case.startswith("decode"):
        each = length
    return batch * heads * each


def limit(case, gradient, gflops, size=64):
    """ms: forward two products of 2 · size operations for each pair, a gradient five more."""
    products = 7 if gradient else 2
    return products * 2 * size * pairs(case) / gflops / 1e6


def measured(calls, rounds, clock, chosen):
    """What is chosen of the times in ms, of calls that alternate."""
    times = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            start = clock()
            call()
            times[name].append((clock() - start) * 1e3)
    return {name: chosen(t) for name, t in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--compile", action="store_true", help="PyTorch's flex_attention, too")
    parser.add_argument("--processor", action="store_true", help="the least time of all processors")
    parser.add_argument("--limits", action="store_true", help="what the products take at the machine's peak")
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("--no-jax", action="store_true")
    parser.add_argument("--list", action="store_true")
    o = parser.parse_args()
    if o.list:
        print("\n".join(CASES))
        return
    clock, chosen = (time.process_time, min) if o.processor else (time.perf_counter, statistics.median)
    cores = 1 if o.processor else len(os.sched_getaffinity(0))
    gflops = products.peak(cores, 3_000_000) if o.limits else None
    for case in o.cases or CASES:
        arrays = data(case)
        libraries = {"hop": of_hop(case, arrays)}
        if not o.no_jax:
            libraries["jax"] = of_jax(case, arrays)
        if not o.no_torch:
            libraries["sdpa"] = torch_sdpa(case, arrays)
            if case == "flex":
                libraries["sdpa_causal_only"] = torch_sdpa(case, arrays, True)
            if o.compile:
                libraries["torch_flex"] = torch_flex(case, arrays)
        expected = np.asarray(libraries["hop"][0]())
        for name, (forward, _) in libraries.items():
            found = np.asarray(forward())
            found = found.transpose(0, 2, 1, 3) if name == "jax" else found
            if name != "sdpa_causal_only" and np.abs(found - expected).max() > 1e-4:
                raise SystemExit(f"{case}: hop and {name} differ by {np.abs(found - expected).max()}")
        for which, what in enumerate(("forward", "gradient")):
            if which and case.startswith("decode"):
                continue
            calls = {name: both[which] for name, both in libraries.items() if both[which]}
            refused = refusals(calls)
            times = measured(calls, o.rounds, clock, chosen)
            others = [t for name, t in times.items() if name not in ("hop", "sdpa_causal_only")]
            line = {"case": case, "what": what, **{f"{n}_ms": round(t, 2) for n, t in times.items()}}
            if others:
                line["ratio_best"] = round(min(others) / times["hop"], 2)
            if gflops:
                line["limit_ms"] = round(limit(case, which, gflops), 2)
            line.update({f"{name}_says": text for name, text in refused.items()})
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
