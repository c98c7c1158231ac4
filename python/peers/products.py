"""Single products in GFLOP/s, hop beside the other libraries and NumPy, and what the machine can do at most:
multiplications with additions in registers, and bytes read from memory. dense.py calls both."""

import os
import threading
import time

import beside
import jax.numpy as jnp
import numpy as np
from beside import Hop, Jax

import hop

SQUARES = (64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)
SHAPES = {  # what it is: (batch, rows, inner, columns, the operands that are transposed)
    **{f"square_{n}": (1, n, n, n, "") for n in SQUARES},
    "square_1024_ta": (1, 1024, 1024, 1024, "a"),
    "square_1024_tb": (1, 1024, 1024, 1024, "b"),
    "tf12_project": (1, 128, 128, 128, ""),
    "tf12_up": (1, 128, 128, 512, ""),
    "tf12_down": (1, 128, 512, 128, ""),
    "tf12_up_dx": (1, 128, 512, 128, "b"),
    "tf12_up_dw": (1, 128, 128, 512, "a"),
    "tf12_scores": (8, 64, 32, 64, "b"),
    "tf12_mixed": (8, 64, 64, 32, ""),
    "batched_8": (4096, 8, 8, 8, ""),
    "batched_16": (2048, 16, 16, 16, ""),
    "batched_32": (512, 32, 32, 32, ""),
    "batched_64": (256, 64, 64, 64, ""),
    "scores": (32, 512, 64, 512, "b"),
    "rows_1": (1, 1, 4096, 4096, ""),
    "rows_8": (1, 8, 4096, 4096, ""),
    "column_1": (1, 4096, 4096, 1, ""),
    "vector_256": (1, 1, 256, 1024, ""),
    "inner_long": (1, 32, 65536, 32, ""),
    "inner_short": (1, 2048, 8, 2048, ""),
}


class Numpy:
    key = "numpy"
    asarray = staticmethod(lambda x: x)


def operands(shape, dtype):
    batch, m, k, n, turned = shape
    rng = np.random.default_rng(1)
    lead = (batch,) if batch > 1 else ()
    a, b = (k, m) if "a" in turned else (m, k), (n, k) if "b" in turned else (k, n)
    if dtype == "int8":
        return tuple(rng.integers(-100, 100, lead + s).astype("int8") for s in (a, b))
    real = "float64" if dtype == "float64" else "float32"
    return tuple((rng.random(lead + s) - 0.5).astype(real) for s in (a, b))


def product(o, shape, dtype):
    """The product as each library says it; integers are summed in 32 bits."""
    turned = shape[4]

    def run(a, b):
        a = a.swapaxes(-1, -2) if "a" in turned else a
        b = b.swapaxes(-1, -2) if "b" in turned else b
        if dtype != "int8":
            return a @ b
        if o in (Hop, Jax):
            return o.np_.matmul(a, b, preferred_element_type=o.np_.int32)
        if o is Numpy:
            return np.matmul(a.astype("int32"), b.astype("int32"))
        return o.np_._int_mm(a, b)

    return run


def call_of(o, shape, dtype):
    args = [o.asarray(x) for x in operands(shape, dtype)]
    if dtype == "bfloat16":
        if o is Numpy:
            return None
        args = [x.astype(o.np_.bfloat16) if o in (Hop, Jax) else x.to(o.np_.bfloat16) for x in args]
    f = product(o, shape, dtype)
    if o is Numpy:
        return lambda: f(*args)
    g = o.lib.jit(f)
    return lambda: o.wait(g(*args))


def table(torches, dtype, quick):
    if dtype == "float64":
        import jax

        jax.config.update("jax_enable_x64", True)
    for name, shape in SHAPES.items():
        batch, m, k, n, _ = shape
        operations = 2 * batch * m * k * n
        calls, refused = {}, {}
        for o in (Hop, Jax, *torches, Numpy):
            if o is Numpy and dtype == "int8" and operations > 2**28:
                continue
            try:
                call = call_of(o, shape, dtype)
                if call:
                    call()
                    calls[o.key] = call
            except Exception as problem:  # noqa: BLE001
                if o in (Hop, Jax):
                    raise
                refused[o.key] = str(problem).strip().split("\n")[0][:110]
        inner = max(1, min(200, int(2e8 // operations)))
        run = beside.in_turn(calls, 3 if quick else 15, inner)
        rates = {f"{key}_gflops": round(operations / t / 1e6, 1) for key, t in run.items()}
        best = min(t for key, t in run.items() if key != "hop")
        line = {"product": name, "dtype": dtype, "shape": shape[:4], "hop_ms": round(run["hop"], 5)}
        beside.say(**line, **rates, ratio_best=round(best / run["hop"], 2), **refused)


def together(calls):
    """Seconds until all calls are done, each on a thread of its own."""
    gate = threading.Barrier(len(calls) + 1)

    def work(call):
        gate.wait()
        call()

    threads = [threading.Thread(target=work, args=(call,)) for call in calls]
    for t in threads:
        t.start()
    gate.wait()
    start = time.perf_counter()
    for t in threads:
        t.join()
    return time.perf_counter() - start


def peak(cores, trips):
    """GFLOP/s of vectors in registers that only multiply and add: a loop whose carries are as many
    independent vectors as hide the time of one such step, each carry so small that it stays in registers."""
    best, lanes = 0.0, 32
    for carries in (2, 3, 4, 5, 6):

        def run(x, a, b, n, carries=carries):
            def step(_, xs):
                return tuple(x * a + b for x in xs)

            out = hop.fori_loop(0, n, step, tuple(x * (i + 1.0) for i in range(carries)))
            return sum(hop.sum(x) for x in out)

        f = hop.jit(run)
        args = [hop.asarray(v) for v in (np.ones(lanes, "float32"), np.float32(0.5), np.float32(0.25))]
        count = hop.asarray(np.asarray(trips, "int32"))
        f(*args, count)
        spent = min(together([lambda f=f, args=args, count=count: f(*args, count)] * cores) for _ in range(5))
        best = max(best, cores * 2 * lanes * carries * trips / spent / 1e9)
    return best


def bandwidth(cores, quick):
    """GB/s of reading more than caches hold, by sums in hop, in JAX, and in NumPy on a thread for each core;
    and of reading twice as much as is written."""
    n = 1 << 26
    x = np.ones(n, "float32")
    pieces = np.array_split(x, cores)
    h, j = hop.asarray(x), jnp.asarray(x)
    readers = {"hop": hop.jit(hop.sum), "jax": Jax.lib.jit(jnp.sum)}
    rounds = 3 if quick else 9
    read = {
        "hop": min(beside.clock(lambda: readers["hop"](h), 1) for _ in range(rounds)),
        "jax": min(beside.clock(lambda: Jax.wait(readers["jax"](j)), 1) for _ in range(rounds)),
        "numpy": min(together([lambda p=p: p.sum() for p in pieces]) for _ in range(rounds)) * 1e3,
    }
    adders = {"hop": hop.jit(lambda a, b: a + b), "jax": Jax.lib.jit(lambda a, b: a + b)}
    y = np.ones(n, "float32")
    k, q = hop.asarray(y), jnp.asarray(y)
    both = {
        "hop": min(beside.clock(lambda: adders["hop"](h, k), 1) for _ in range(rounds)),
        "jax": min(beside.clock(lambda: Jax.wait(adders["jax"](j, q)), 1) for _ in range(rounds)),
    }
    rate = lambda times, bytes: {key: bytes * n / t / 1e6 for key, t in times.items()}  # noqa: E731
    return rate(read, 4), rate(both, 12)


def limits(quick):
    """Prints and returns the limits of the machine with the CPUs that the process may use."""
    cores = len(os.sched_getaffinity(0))
    trips = 300_000 if quick else 3_000_000
    found = {"gflops_1": peak(1, trips), "gflops": peak(cores, trips)}
    read, add = bandwidth(cores, quick)
    found |= {"read_gb_s": max(read.values()), "add_gb_s": max(add.values())}
    detail = {f"read_{key}": round(v, 1) for key, v in read.items()}
    detail |= {f"add_{key}": round(v, 1) for key, v in add.items()}
    beside.say(limits=cores, **{key: round(v, 1) for key, v in found.items()}, **detail)
    return found
