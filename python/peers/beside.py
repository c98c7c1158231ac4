"""What the programs that time hop beside other libraries share: the words in which one case is said in each
of them, and the clock.

A case is a function of a library (Hop, Jax, Torch, Compiled) and a random generator; it returns a function
and its arguments, arrays of NumPy in trees. A row of cases says besides how many rounds are timed, how many
calls a round has, and by how much results may differ (None: they are not compared).
"""

import json
import os
import sys
import time
import types

os.environ.setdefault("HOP_CACHE", "off")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import several  # noqa: E402

import hop  # noqa: E402


class Hop:
    """What the cases say differently in the libraries."""

    key = "hop"
    version = hop.__version__
    lib = np_ = hop
    scan, cond, while_loop, softmax, sigmoid = hop.scan, hop.cond, hop.while_loop, hop.softmax, hop.sigmoid
    asarray = staticmethod(hop.asarray)
    associative_scan = staticmethod(hop.associative_scan)
    permute = staticmethod(hop.permute_dims)
    wait = staticmethod(lambda out: out)


class Jax:
    key = "jax"
    version = jax.__version__
    lib, np_ = jax, jnp
    scan, cond, while_loop, softmax, sigmoid = (
        jax.lax.scan, jax.lax.cond, jax.lax.while_loop, jax.nn.softmax, jax.nn.sigmoid,
    )  # fmt: skip
    asarray = staticmethod(jnp.asarray)
    # elementwise combinations look the same with the axis and without
    associative_scan = staticmethod(jax.lax.associative_scan)
    permute = staticmethod(jnp.transpose)
    wait = staticmethod(jax.block_until_ready)


BOTH = (Hop, Jax)


def torches():
    """PyTorch as it runs by itself and torch.compile, or nothing where it is not installed."""
    try:
        import torch
        import torch.utils._pytree as pytree
    except ImportError:
        return ()

    def value_and_grad(f, argnums=0):
        both = torch.func.grad_and_value(f, argnums)

        def run(*args):
            slopes, value = both(*args)
            return value, slopes

        return run

    def python_loop(step, carry, xs, length=None):
        """What PyTorch has for everybody."""
        outs = []
        n = length if xs is None else pytree.tree_leaves(xs)[0].shape[0]
        for i in range(n):
            carry, out = step(carry, pytree.tree_map(lambda x, i=i: x[i], xs))
            outs.append(out)
        if outs[0] is None:
            return carry, None
        return carry, pytree.tree_map(lambda *a: torch.stack(a), *outs)

    class Words:
        """The functions of torch under the names that NumPy has for them."""

        max = staticmethod(lambda x, axis, keepdims=False: torch.amax(x, axis, keepdims))
        float32 = torch.float32

        def __getattr__(self, name):
            return getattr(torch, name)

    class Torch:
        key = "torch"
        version = torch.__version__
        np_ = Words()
        lib = types.SimpleNamespace(
            jit=lambda f: f,
            grad=torch.func.grad,
            value_and_grad=value_and_grad,
            vmap=torch.vmap,
            tree=types.SimpleNamespace(leaves=pytree.tree_leaves, map=pytree.tree_map),
        )
        softmax, sigmoid = staticmethod(torch.softmax), staticmethod(torch.sigmoid)
        scan = staticmethod(python_loop)
        asarray = staticmethod(torch.asarray)
        permute = staticmethod(torch.permute)
        wait = staticmethod(lambda out: out)

    class Compiled(Torch):
        key = "torch_compile"
        lib = types.SimpleNamespace(**vars(Torch.lib) | {"jit": torch.compile})

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    return Torch, Compiled


def noise(rng, *shape, scale=1.0):
    return ((rng.random(shape) - 0.5) * scale).astype("float32")


def clock(call, n):
    start = time.perf_counter()
    for _ in range(n):
        call()
    return (time.perf_counter() - start) * 1e3 / n


def middle(times):
    return sorted(times)[len(times) // 2]


def leaves(o, out):
    return [np.asarray(a, "float64") for a in o.lib.tree.leaves(out)]


def difference(found, expected):
    worst = 0.0
    for a, b in zip(found, expected, strict=True):
        worst = max(
            worst,
            float(np.max(np.abs(a - b), initial=0.0)) / max(1e-30, float(np.max(np.abs(b), initial=0.0))),
        )
    return worst


def say(**line):
    print(json.dumps(line), flush=True)


def begin(libraries):
    """Each library compiles something trivial; then a line says what is compared, and on how many cores."""
    for o in libraries:
        o.wait(o.lib.jit(lambda x: x * 2)(o.np_.ones(3)))
    versions = {o.key: o.version for o in libraries}
    say(**versions, cores=len(os.sched_getaffinity(0)), threads=hop.get_threads(), machine=several.machine())


BLOCKS = 3  # of a call's rounds: between them others have their turn


def in_turn(calls, rounds, inner):
    """The median milliseconds of each call. Before its turn the threads of the others get time to stop
    spinning, and a call that is not counted brings its own data into the caches and its own threads up."""
    times = {key: [] for key in calls}
    for _ in range(BLOCKS):
        for key, call in calls.items():
            time.sleep(0.25 if len(calls) > 2 else 0.03)
            call()
            times[key] += [clock(call, inner) for _ in range(max(1, rounds // BLOCKS))]
    return {key: middle(t) for key, t in times.items()}


def first_call(o, case):
    """The milliseconds of the first call, its result, and the call."""
    f, args = case(o, np.random.default_rng(1))
    args = o.lib.tree.map(o.asarray, args)
    o.wait(args)
    start = time.perf_counter()
    g = o.lib.jit(f)
    out = o.wait(g(*args))
    spent = (time.perf_counter() - start) * 1e3
    return spent, leaves(o, out), lambda: o.wait(g(*args))


def measure(name, row, libraries, quick, **more):
    """Prints the line of a case; returns it, and whether results differ by no more than the row permits."""
    case, rounds, inner, bound = row
    calls, first, results, refused = {}, {}, {}, {}
    for o in libraries:
        try:
            first[o.key], results[o.key], calls[o.key] = first_call(o, case)
        except Exception as problem:  # noqa: BLE001
            if o in BOTH:
                raise
            refused[o.key] = str(problem).strip().split("\n")[0][:110]
    run = in_turn(calls, 3 if quick else rounds, inner)
    error = difference(results["hop"], results["jax"]) if bound is not None else 0.0
    line = {"case": name}
    for key in calls:
        line |= {f"{key}_first_ms": round(first[key], 2), f"{key}_ms": round(run[key], 4)}
    best = min(time for key, time in run.items() if key != "hop")
    line |= {
        "ratio_jax": round(run["jax"] / run["hop"], 2),
        "ratio_best": round(best / run["hop"], 2),
        "first_ratio": round(first["jax"] / first["hop"], 1),
        "first_beyond_run_ms": round(first["hop"] - run["hop"], 1),
        "error": float(f"{error:.2g}"),
    }  # fmt: skip
    line |= more | refused
    say(**line)
    good = bound is None or error <= bound
    if not good:
        print(f"{name}: the results differ by more than {bound}", file=sys.stderr)
    return line, good
