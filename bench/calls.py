"""How the first call grows with the number of calls of one block: transformer blocks written as a Python loop
over calls of an inner hop.jit, one JSON object a line.

    python calls.py [--quick]

Each line is one program: weights that are a list of layers, or stacked arrays of which each call gets slices;
forward, or value and gradient for all weights; 4, 12 or 48 calls. captures is how often the block ran as
Python, functions how many the program has after differentiation, bodies how many of them are compiled once
and called, code the bytes of machine code. first_ms is the first call of a jitted function, capture,
differentiation, compilation and the run itself, run_ms a later call: the processor's time, the least of
five processes in which something trivial was compiled before, without a cache on disk, on one thread.
"""

import json
import os
import subprocess
import sys
import time

BATCH, SEQUENCE, WIDTH, HEADS = 2, 64, 128, 4
SHAPES = {
    "q": (WIDTH, WIDTH),
    "k": (WIDTH, WIDTH),
    "v": (WIDTH, WIDTH),
    "o": (WIDTH, WIDTH),
    "up": (WIDTH, 4 * WIDTH),
    "down": (4 * WIDTH, WIDTH),
    "up_bias": (4 * WIDTH,),
    "down_bias": (WIDTH,),
    "scale1": (WIDTH,),
    "shift1": (WIDTH,),
    "scale2": (WIDTH,),
    "shift2": (WIDTH,),
}


def one(weights, what, n):
    """The line of one program, measured once, in this process."""
    import hop

    captures = []

    def norm(x, scale, shift):
        x = x - hop.mean(x, axis=-1, keepdims=True)
        return x / hop.sqrt(hop.mean(x * x, axis=-1, keepdims=True) + 1e-5) * scale + shift

    def heads(x):
        return hop.permute_dims(x.reshape(BATCH, SEQUENCE, HEADS, WIDTH // HEADS), (0, 2, 1, 3))

    @hop.jit
    def block(h, w):
        captures.append(None)
        x = norm(h, w["scale1"], w["shift1"])
        q, k, v = heads(x @ w["q"]), heads(x @ w["k"]), heads(x @ w["v"])
        scores = hop.softmax(hop.einsum("bhid,bhjd->bhij", q, k) * (WIDTH // HEADS) ** -0.5, axis=-1)
        mixed = hop.permute_dims(hop.einsum("bhij,bhjd->bhid", scores, v), (0, 2, 1, 3))
        h = h + mixed.reshape(BATCH, SEQUENCE, WIDTH) @ w["o"]
        x = norm(h, w["scale2"], w["shift2"]) @ w["up"] + w["up_bias"]
        x = 0.5 * x * (1 + hop.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))
        return h + x @ w["down"] + w["down_bias"]

    def loss(ws, x):
        for i in range(n):
            x = block(x, ws[i] if weights == "list" else {name: a[i] for name, a in ws.items()})
        return hop.mean(x * x)

    def noise(seed, *shape):
        return (hop.random.uniform(hop.random.key(seed), shape) - 0.5) * 0.15

    if weights == "list":
        ws = [{name: noise(i, *shape) for i, (name, shape) in enumerate(SHAPES.items())} for _ in range(n)]
    else:
        ws = {name: noise(i, n, *shape) for i, (name, shape) in enumerate(SHAPES.items())}
    x = noise(99, BATCH, SEQUENCE, WIDTH)
    f = hop.jit(loss if what == "forward" else hop.value_and_grad(loss), threads=1)
    hop.jit(lambda x: x + 1)(x)
    start = time.process_time()
    f(ws, x)
    first = time.process_time() - start
    runs = []
    for _ in range(3):
        start = time.process_time()
        f(ws, x)
        runs.append(time.process_time() - start)
    n_captures = len(captures)
    lowered = f.lower(ws, x)
    said = json.loads(lowered.explain("json"))
    return {
        "weights": weights,
        "what": what,
        "calls": n,
        "captures": n_captures,
        "functions": lowered.text().count("\nfn "),
        "bodies": len(said["shared"]),
        "code": said["code_bytes"],
        "first_ms": round(first * 1e3, 1),
        "run_ms": round(min(runs) * 1e3, 2),
    }


def main():
    if sys.argv[1:2] == ["one"]:
        print(json.dumps(one(sys.argv[2], sys.argv[3], int(sys.argv[4]))))
        return
    times = 1 if "--quick" in sys.argv else 5
    environment = {**os.environ, "HOP_CACHE": "off"}
    for weights in ("list", "stacked"):
        for what in ("forward", "gradient"):
            for n in (4, 12, 48):
                lines = []
                for _ in range(times):
                    command = [sys.executable, __file__, "one", weights, what, str(n)]
                    said = subprocess.check_output(command, env=environment, text=True)
                    lines.append(json.loads(said))
                for key in ("first_ms", "run_ms"):
                    lines[0][key] = min(line[key] for line in lines)
                print(json.dumps(lines[0]), flush=True)


if __name__ == "__main__":
    main()
