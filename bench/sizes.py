"""Compiled code for any size beside code for one: each case is called with two lengths, so that it has a
program with a symbol for it, and timed with the second, against jit(dynamic=False). Called by
`make bench-sizes [BENCH="rnn map"]`; a line per case, the best of many runs on one thread, interleaved."""

import random
import sys
import time

import hop

ROUNDS, SECONDS = 60, 0.002


def array(*shape, seed=0):
    r, n = random.Random(repr((shape, seed))), 1
    for size in shape:
        n *= size
    return hop.reshape(hop.asarray([r.uniform(-1, 1) for _ in range(n)], dtype=hop.float32), shape)


def rnn(w, h0, xs, u):
    def step(h, x):
        h = hop.tanh(h @ w + x @ u)
        return h, h

    return hop.sum(hop.scan(step, h0, xs)[1])


def scan(h0, xs):
    def step(h, x):
        h = 0.9 * h + x
        return h, h

    return hop.scan(step, h0, xs)


def trips(x, n):
    return hop.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, 0.999 * c[1] + 0.001), (0, x))[1]


def attention(q, k, v):
    return hop.softmax(q @ k.T / 8.0, axis=-1) @ v


def layer_norm(x):
    centred = x - hop.mean(x, axis=-1, keepdims=True)
    return centred / hop.sqrt(hop.mean(centred**2, axis=-1, keepdims=True) + 1e-5)


def recurrence(a, b):
    return hop.associative_scan(lambda l, r: (l[0] * r[0], l[1] * r[0] + r[1]), (a, b))[1]


def heat(u):
    return hop.fori_loop(0, 200, lambda i, u: u + 0.1 * (hop.roll(u, 1) - 2 * u + hop.roll(u, -1)), u)


def square(n):
    return array(n, n) * 0.1


# name: (function, arguments for a length, the length)
CASES = {
    "rnn": (rnn, lambda n: (square(64), array(64), array(n, 64), square(64)), 1000),
    "rnn_grad": (hop.grad(rnn), lambda n: (square(64), array(64), array(n, 64), square(64)), 1000),
    "scan": (scan, lambda n: (0.0, array(n)), 200_000),
    "scan_grad": (hop.grad(lambda h, x: hop.sum(scan(h, x)[1])), lambda n: (0.0, array(n)), 100_000),
    "while": (trips, lambda n: (array(n), 20_000), 16),
    "while_wide": (trips, lambda n: (array(n), 1000), 4096),
    "map": (lambda x: hop.map(lambda r: hop.sum(hop.sin(r) * r), x), lambda n: (array(n, 64),), 2000),
    "vmap": (lambda x: hop.vmap(lambda r: hop.sum(hop.sin(r) * r))(x), lambda n: (array(n, 64),), 2000),
    "cumsum": (hop.cumulative_sum, lambda n: (array(n),), 200_000),
    "cumsum_rows": (lambda x: hop.cumulative_sum(x, axis=0), lambda n: (array(n, 64),), 4000),
    "elementwise": (lambda a, b: hop.tanh(a * b + a) * hop.exp(b), lambda n: (array(n), array(n)), 100_000),
    "small": (lambda a, b: hop.tanh(a * b) + a, lambda n: (array(n), array(n)), 64),
    "bias": (lambda a, b: hop.tanh(a * 2 + b), lambda n: (array(n, 64), array(64)), 1000),
    "softmax": (lambda x: hop.softmax(x, axis=-1), lambda n: (array(n, 128),), 2000),
    "layer_norm": (layer_norm, lambda n: (array(n, 128),), 2000),
    "sum_rows": (lambda x: hop.sum(x, axis=0), lambda n: (array(n, 128),), 2000),
    "sum": (hop.sum, lambda n: (array(n),), 200_000),
    "matmul": (lambda x, w: hop.tanh(x @ w), lambda n: (array(n, 128), array(128, 128)), 256),
    "attention": (attention, lambda n: (array(n, 64),) * 3, 256),
    "attention_grad": (hop.grad(lambda *x: hop.sum(attention(*x))), lambda n: (array(n, 64),) * 3, 256),
    "assoc": (recurrence, lambda n: (array(n, 16),) * 2, 10_000),
    "assoc_grad": (hop.grad(lambda a, b: hop.sum(recurrence(a, b))), lambda n: (array(n, 16),) * 2, 10_000),
    "differences": (lambda x: x[1:] - x[:-1], lambda n: (array(n),), 200_000),
    "heat": (heat, lambda n: (array(n),), 1000),
    "sort": (hop.sort, lambda n: (array(n),), 20_000),
}


def best_of(functions, args):
    begun = time.perf_counter()
    functions[0](*args)
    times = max(1, int(SECONDS / max(time.perf_counter() - begun, 1e-7)))
    best = [float("inf")] * len(functions)
    for _ in range(ROUNDS):
        for i, f in enumerate(functions):
            begun = time.perf_counter()
            for _ in range(times):
                f(*args)
            best[i] = min(best[i], (time.perf_counter() - begun) / times)
    return best


def main():
    print(f"{'case':16} {'one size':>12} {'any size':>12}  ratio")
    for name in sys.argv[1:] or CASES:
        fun, arguments, n = CASES[name]
        fixed, free = (hop.jit(fun, dynamic=dynamic, threads=1) for dynamic in (False, True))
        args = arguments(n)
        free(*arguments(n - 1))
        free(*args)
        fixed(*args)
        one, any_size = best_of((fixed, free), args)
        print(f"{name:16} {one * 1e6:9.1f} us {any_size * 1e6:9.1f} us  {any_size / one:.2f}", flush=True)


if __name__ == "__main__":
    main()
