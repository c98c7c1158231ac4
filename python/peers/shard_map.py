"""hop.shard_map beside jax.shard_map on meshes of eight ranks: values and gradients have to agree.

    python shard_map.py [--list] [CASE…]

JAX has eight simulated devices of the CPU, hop eight ranks that are threads. A case is one function in words
that serve both libraries; it is compiled together with the gradient by all its arguments of a weighted sum of
its results. Values and gradients are those of JAX within 1e-5 of the largest element, float32, and hop's at
once, without compilation, are too. A line of JSON for each case has the milliseconds of the first call,
compilation included, and the medians of later ones; the last line says how many passed and failed, and the
exit code is 1 if some did.
"""

import os
import sys

N = 8
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={N}"

import beside  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from beside import say  # noqa: E402

import hop  # noqa: E402

BOUND, ROUNDS, CALLS = 1e-5, 9, 3
RING = [(k, (k + 1) % N) for k in range(N)]
LINE = [(k, k + 1) for k in range(N - 1)]  # nobody sends to the first
BACK = [(k + 1, k) for k in range(N - 1)]

# ---- words ----


def specs_of(o, x):
    """P of a text such as "_ i" or "a+b"; tuples and dicts of them likewise."""
    if isinstance(x, dict):
        return {key: specs_of(o, part) for key, part in x.items()}
    if isinstance(x, tuple):
        return tuple([specs_of(o, part) for part in x])
    dims = [None if word == "_" else tuple(word.split("+")) for word in x.split()]
    return o.P(*[d[0] if d and len(d) == 1 else d for d in dims])


class Hop(beside.Hop):
    P, fori_loop, switch, stop = hop.P, hop.fori_loop, hop.switch, hop.stop_gradient
    psum, pmean, pmax, pmin = hop.psum, hop.pmean, hop.pmax, hop.pmin
    all_gather, all_to_all, psum_scatter = hop.all_gather, hop.all_to_all, hop.psum_scatter
    ppermute, index, vary = hop.ppermute, hop.axis_index, hop.vary
    gather_shared, from_rank = staticmethod(hop.all_gather), staticmethod(hop.rank_broadcast)
    product = staticmethod(lambda x, axis_name: hop.all_reduce(x, axis_name, "prod"))
    for_branches = staticmethod(lambda w: w)

    @staticmethod
    def spread(f, ins, outs, shape=(N,), names=("i",)):
        run = hop.shard_map(f, hop.mesh(shape, names), specs_of(Hop, ins), specs_of(Hop, outs))
        return lambda *args: hop.tree.map(hop.collect, run(*args))


class Jax(beside.Jax):
    P, fori_loop, switch = jax.sharding.PartitionSpec, jax.lax.fori_loop, jax.lax.switch
    stop = staticmethod(jax.lax.stop_gradient)
    psum, pmean, pmax, pmin = jax.lax.psum, jax.lax.pmean, jax.lax.pmax, jax.lax.pmin
    all_gather, all_to_all, psum_scatter = jax.lax.all_gather, jax.lax.all_to_all, jax.lax.psum_scatter
    ppermute, index = jax.lax.ppermute, jax.lax.axis_index

    @staticmethod
    def vary(x, axis_name):
        return jax.lax.pcast(x, axis_name, to="varying")

    @staticmethod
    def for_branches(w):
        """What branches by rank read: shared, its gradient would be summed in a branch that some ranks take,
        and the others would be waited for without end."""
        return Jax.vary(w, "i")

    @staticmethod
    def gather_shared(x, axis_name, **how):
        return jax.lax.all_gather(x, axis_name, to="invarying", **how)

    @staticmethod
    def from_rank(x, axis_name, root):
        return jax.lax.psum(jnp.where(jax.lax.axis_index(axis_name) == root, x, 0.0), axis_name)

    @staticmethod
    def product(x, axis_name):
        return jnp.prod(Jax.gather_shared(x, axis_name), axis=0)

    @staticmethod
    def spread(f, ins, outs, shape=(N,), names=("i",)):
        mesh = jax.make_mesh(shape, names, axis_types=(jax.sharding.AxisType.Auto,) * len(shape))
        return jax.shard_map(f, mesh=mesh, in_specs=specs_of(Jax, ins), out_specs=specs_of(Jax, outs))


# ---- cases ----

CASES, VALUES_ONLY = {}, set()
ROWS, SHARED = (2 * N, 3), (3,)
GRID = {"shape": (2, 4), "names": ("a", "b")}


def case(*shapes, values_only=False):
    """What is decorated gives a function of arrays of these shapes."""

    def add(make):
        name = make.__name__
        CASES[name] = (make, shapes)
        if values_only:
            VALUES_ONLY.add(name)
        return make

    return add


def body(ins, outs, *shapes, values_only=False, **mesh):
    """What is decorated is the function of one rank, after the library."""

    def add(inner):
        def make(o):
            return o.spread(lambda *parts: inner(o, *parts), ins, outs, **mesh)

        make.__name__ = inner.__name__
        case(*shapes, values_only=values_only)(make)
        return inner

    return add


# each collective, one axis


@body("i", "", ROWS)
def psum(o, x):
    return o.psum(o.np_.sin(x), "i")


@body(("i", ""), "", ROWS, SHARED)
def pmean(o, x, w):
    return o.pmean(x**2 * w, "i")


@body("i", "i", ROWS)
def pmax_in_a_softmax(o, x):
    e = o.np_.exp(x - o.pmax(o.stop(x), "i"))
    return e / o.psum(e, "i")


@body("i", "", ROWS)
def product_over_ranks(o, x):
    return o.product(o.np_.cos(x), "i")


@body("i", ("", ""), ROWS, values_only=True)
def largest_and_smallest(o, x):
    return o.pmax(x, "i"), o.pmin(x, "i")


@body("i", "i", ROWS)
def all_gather(o, x):
    return x * o.np_.sum(o.all_gather(x, "i") ** 2)


@body("i", "i", ROWS)
def all_gather_along_columns(o, x):
    return o.np_.sin(o.all_gather(x, "i", axis=1, tiled=True)) * o.np_.sum(x)


@body("i", "", ROWS)
def gathered_shared(o, x):
    return o.gather_shared(o.np_.sin(x), "i", axis=0, tiled=True)


@body("i", ("", "i"), ROWS)
def gathered_shared_and_varying(o, x):
    g = o.gather_shared(x, "i", axis=0)
    return g**2, o.np_.sum(g * x, axis=0)


@body("i", "i", (N * N, 3))
def psum_scatter(o, x):
    return o.psum_scatter(x**3, "i").reshape((1, 3))


@body(("i", ""), "i", (2 * N * N, 3), SHARED)
def psum_scatter_tiled(o, x, w):
    return o.psum_scatter(o.np_.tanh(x * w), "i", scatter_dimension=0, tiled=True)


@body("i", "i", (N * N, 3))
def all_to_all(o, x):
    return o.all_to_all(x * (o.index("i") + 1.0), "i", 0, 0) ** 2


@body("i", "_ i", (N, 2 * N))
def all_to_all_tiled(o, x):
    return o.np_.sin(o.all_to_all(x, "i", split_axis=1, concat_axis=0, tiled=True))


@body("i", "i", ROWS)
def ppermute_in_a_ring(o, x):
    return o.ppermute(x**2, "i", RING) * x


@body("i", "i", ROWS)
def ppermute_along_a_line(o, x):
    return x + 2 * o.ppermute(o.np_.sin(x), "i", LINE)


@body(("i", ""), "i", ROWS, SHARED)
def axis_index(o, x, w):
    return x * w * (o.index("i") + 1.0)


@body("i", "", ROWS)
def from_one_rank(o, x):
    return o.from_rank(x**2, "i", 3)


@body("i", "i", ROWS)
def running_sum_over_ranks(o, x):
    sums = o.all_gather(o.np_.sum(x, axis=0), "i")
    before = o.np_.where(o.np_.arange(N) < o.index("i"), 1.0, 0.0)
    return before @ sums + o.np_.cumsum(x, axis=0)


# replicated weights


@body("", "", SHARED)
def nothing_varies(o, w):
    return o.np_.sin(w) * 2


@body(("i", ""), "", ROWS, SHARED)
def weight_shared_and_varying(o, x, w):
    return o.np_.sum(w**2) + o.psum(o.np_.sum(w * x), "i") * w[0]


@case(ROWS, SHARED)
def weight_inside_and_outside(o):
    inner = o.spread(lambda x, w: o.psum(o.np_.sum(o.np_.sin(w * x)), "i"), ("i", ""), "")
    return lambda x, w: inner(x, w) * w + w**2


@case(ROWS, SHARED)
def weight_in_two_maps(o):
    first = o.spread(lambda x, w: o.np_.tanh(x * w), ("i", ""), "i")
    second = o.spread(lambda x, w: o.psum(x * w, "i"), ("i", ""), "")
    return lambda x, w: second(first(x, w), w) * w


@body(("i", ""), "i", ROWS, SHARED)
def sum_of_a_sum(o, x, w):
    return x * o.psum(x * o.psum(w * x, "i"), "i")


# derivatives inside


@body(("i", ""), "", ROWS, SHARED)
def gradient_inside(o, x, w):
    return o.lib.grad(lambda w: o.psum(o.np_.sum(o.np_.sin(x * w)), "i"))(w)


@body(("i", ""), "", ROWS, SHARED)
def gradient_inside_of_what_varies(o, x, w):
    return o.lib.grad(lambda w: o.np_.sum(o.np_.sin(x * w)))(w)


@body(("i", ""), "i", ROWS, SHARED)
def gradient_inside_of_each_rank(o, x, w):
    return o.lib.grad(lambda w: o.np_.sum(o.np_.sin(x * w)))(o.vary(w, "i"))


@body(("i", "i", ""), ("", ""), ROWS, (2 * N,), SHARED)
def step_of_training(o, x, y, w):
    loss, slope = o.lib.value_and_grad(lambda w: o.pmean(o.np_.sum((x @ w - y) ** 2), "i"))(w)
    return loss, w - 0.1 * slope


@body(("i", "i", ""), "", ROWS, (2 * N,), SHARED)
def steps_of_training_in_a_scan(o, x, y, w):
    slope = o.lib.grad(lambda w: o.pmean(o.np_.sum((x @ w - y) ** 2), "i"))
    return o.scan(lambda w, _: (w - 0.05 * slope(w), None), w, None, length=4)[0]


@body(("i", ""), "i", ROWS, SHARED)
def jvp_inside(o, x, w):
    return o.lib.jvp(lambda x: o.np_.sin(x) * o.psum(x * w, "i"), (x,), (o.np_.cos(x),))[1]


@body(("i", ""), "i", ROWS, (4, 3))
def vmap_inside(o, x, w):
    return o.lib.vmap(lambda w: x * o.psum(x * w, "i"), out_axes=1)(w)


@body(("i", ""), "", ROWS, SHARED)
def checkpoint_inside(o, x, w):
    keep = o.lib.checkpoint(lambda x, w: o.psum(o.np_.sin(o.np_.tanh(x * w)), "i"))
    return keep(x, w) * w


# loops and branches


@body("i", "i", ROWS)
def ring_in_a_scan(o, x):
    def step(carry, _):
        total, held = carry
        held = o.ppermute(held, "i", RING)
        return (total * 0.5 + o.np_.sin(held), held), None

    return o.scan(step, (x, x), None, length=N - 1)[0][0]


@body("i", "i", ROWS)
def ring_in_a_fori_loop(o, x):
    return o.fori_loop(0, 5, lambda k, c: o.np_.tanh(c + 0.1 * (k + 1) * o.ppermute(c, "i", RING)), x)


@body(("i", ""), "", ROWS, SHARED)
def shared_carry(o, x, w):
    return o.scan(lambda c, row: (o.np_.sin(c + o.psum(row * c, "i")), None), w, x)[0]


@body(("i", ""), ("i", "_ i"), ROWS, SHARED)
def carry_that_varies(o, x, w):
    last, rows = o.scan(lambda c, row: (o.np_.tanh(c + row), c * row), o.vary(w, "i"), x)
    return last, o.np_.sum(rows) * x


@body("i", ("", "i"), ROWS, values_only=True)
def while_a_sum_is_large(o, x):
    large = lambda c: o.psum(o.np_.sum(c[1] ** 2), "i") > 0.1  # noqa: E731
    return o.while_loop(large, lambda c: (c[0] + 1.0, c[1] * 0.7), (0.0, x))


@body("i", "i", ROWS)
def cond_by_rank(o, x):
    return o.cond(o.index("i") >= 3, lambda x: o.np_.sin(x), lambda x: x**2, x)


@body(("i", ""), "i", ROWS, SHARED)
def switch_by_rank(o, x, w):
    w = o.for_branches(w)
    branches = [lambda x: x * w, lambda x: o.np_.exp(x), lambda x: x - w]
    return o.switch(o.index("i") % 3, branches, x)


@body(("i", ""), "i", ROWS, SHARED)
def cond_with_a_sum_in_it(o, x, w):
    some = o.psum(o.np_.sum(x), "i") > -100.0
    return o.cond(some, lambda x: x * o.psum(x * w, "i"), lambda x: x * 2.0, x)


# products


@body(("", "_ i", "i"), "", (4, 6), (6, 2 * N), (2 * N, 5))
def tensor_parallel_layers(o, x, first, second):
    return o.psum(o.np_.tanh(x @ first) @ second, "i")


@body(("_ i", "i"), "i", (2 * N, 2 * N), (2 * N, 5))
def product_with_scattered_sum(o, x, w):
    return o.psum_scatter(x @ w, "i", scatter_dimension=0, tiled=True)


@body(("i", "i"), "", (2 * N, N), (N, 5))
def weights_gathered_for_use(o, x, w):
    whole = o.gather_shared(w, "i", axis=0, tiled=True)
    return o.pmean(o.np_.sum(o.np_.tanh(x @ whole) ** 2), "i")


@body(("i", "i", "i"), "i", (2 * N, 4), (2 * N, 4), (2 * N, 4))
def ring_attention(o, q, k, v):
    def step(carry, _):
        above, below, k, v = carry
        scores = o.np_.exp(q @ k.T)
        above, below = above + scores @ v, below + o.np_.sum(scores, axis=1, keepdims=True)
        return (above, below, o.ppermute(k, "i", RING), o.ppermute(v, "i", RING)), None

    start = (o.np_.zeros_like(q), o.np_.sum(o.np_.zeros_like(q), axis=1, keepdims=True), k, v)
    above, below, _, _ = o.scan(step, start, None, length=N)[0]
    return above / below


@body("i", "i", (4 * N,))
def stencil_with_halos(o, x):
    def step(x, _):
        left, right = o.ppermute(x[-1:], "i", LINE), o.ppermute(x[:1], "i", BACK)
        wide = o.np_.concatenate([left, x, right])
        return x + 0.2 * (wide[:-2] - 2 * x + wide[2:]) + 0.1 * x**2, None

    return o.scan(step, x, None, length=6)[0]


# two axes


@body(("a b", "_ b"), ("", "a"), (4, 8), (4, 8), **GRID)
def sums_over_one_and_both(o, x, y):
    return o.psum(o.np_.sum(o.np_.sin(x)), ("a", "b")), o.psum(x @ y.T, "b")


@body(("a", "_ b", "b"), ("", "a"), (4, 6), (6, 8), (8, 3), **GRID)
def data_and_tensor_parallel(o, x, first, second):
    out = o.psum(o.np_.tanh(x @ first) @ second, "b")
    return o.pmean(o.np_.sum(out**2), "a"), out


@body("a+b", ("a+b", "_ a"), (2 * N, 4), **GRID)
def one_axis_over_two(o, x):
    turned = o.ppermute(x, "b", [(0, 1), (1, 2), (2, 3), (3, 0)]) * (o.index("a") + 1.0)
    summed = o.psum(o.all_to_all(turned, "a", 1, 0, tiled=True), "b")
    return turned * x, summed


# around


@case((3, 2 * N), SHARED)
def vmap_and_jvp_around(o):
    inner = o.spread(lambda x, w: o.psum(o.np_.sum(o.np_.sin(w * x)), "i"), ("i", ""), "")

    def f(x, w):
        rows = o.lib.vmap(inner)(x, w)
        return rows, o.lib.jvp(lambda w: o.lib.vmap(inner)(x, w), (w,), (w**2,))[1]

    return f


@case(ROWS, SHARED)
def loop_and_branch_around(o):
    inner = o.spread(lambda x, w: (o.np_.sin(x * w), o.psum(x * w, "i")[0]), ("i", ""), ("i", ""))

    def f(x, w):
        def step(carry, k):
            x, w = carry
            x, total = o.cond(k % 2 == 0, lambda: inner(x, w), lambda: (x * 0.5, w))
            return (x, w + 0.1 * total), o.np_.sum(x)

        return o.scan(step, (x, w), o.np_.arange(5))

    return f


@case(ROWS, SHARED)
def second_derivatives_around_a_tree(o):
    ins, outs = ({"x": "i", "w": ""},), {"all": "", "each": ("i",)}

    def inner(t):
        out = o.np_.sin(t["x"] * t["w"])
        return {"all": o.psum(o.np_.sum(out), "i"), "each": (out * t["w"],)}

    spread = o.lib.jit(o.spread(inner, ins, outs))

    def loss(w, x):
        found = spread({"x": x, "w": w})
        return found["all"] ** 2 + o.np_.sum(found["each"][0] ** 2)

    return lambda x, w: o.lib.grad(lambda w: o.np_.sum(o.lib.grad(loss)(w, x) ** 2))(w)


# ---- comparison ----


def weighted(o, out):
    """A sum of all results, each element with a weight of its own."""
    total = 0.0
    for k, part in enumerate(o.lib.tree.leaves(out)):
        weights = np.cos(np.arange(part.size, dtype="float32") + k).reshape(part.shape)
        total = total + o.np_.sum(part * o.asarray(weights))
    return total


def whole(name):
    """A case as the others here have them: results and gradients of one program."""
    make, shapes = CASES[name]

    def of(o, rng):
        f, args = make(o), [beside.noise(rng, *shape, scale=2.0) for shape in shapes]

        def loss(*args):
            out = f(*args)
            return weighted(o, out), out

        def both(*args):
            (_, out), slopes = o.lib.value_and_grad(loss, tuple(range(len(args))), has_aux=True)(*args)
            return out, slopes

        return (f if name in VALUES_ONLY else both), args

    return of


def at_once(name):
    f, args = whole(name)(Hop, np.random.default_rng(1))
    return beside.leaves(Hop, f(*map(hop.asarray, args)))


def distance(found, expected):
    shapes = [[x.shape for x in xs] for xs in (found, expected)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"shapes differ: hop {shapes[0]}, JAX {shapes[1]}")
    return beside.difference(found, expected)


def compare(name):
    first, results, calls = {}, {}, {}
    for o in (Hop, Jax):
        first[o.key], results[o.key], calls[o.key] = beside.first_call(o, whole(name))
    run = beside.in_turn(calls, ROUNDS, CALLS)
    error = distance(results["hop"], results["jax"])
    error_at_once = distance(at_once(name), results["jax"])
    line = {"case": name, "gradients": name not in VALUES_ONLY}
    for key in calls:
        line |= {f"{key}_first_ms": round(first[key], 2), f"{key}_ms": round(run[key], 4)}
    say(**line, error=float(f"{error:.2g}"), error_at_once=float(f"{error_at_once:.2g}"))
    return error <= BOUND and error_at_once <= BOUND


def main(wanted):
    if "--list" in wanted:
        print("\n".join(CASES))
        return 0
    unknown = [name for name in wanted if name not in CASES]
    if unknown:
        print(f"there is no case {unknown[0]}: there are {', '.join(CASES)}", file=sys.stderr)
        return 2
    beside.begin((Hop, Jax))
    failed = []
    for name in wanted or CASES:
        try:
            good = compare(name)
        except Exception as problem:  # noqa: BLE001
            good = False
            print(f"{name}: {type(problem).__name__}: {problem}", file=sys.stderr)
        if not good:
            failed.append(name)
            print(f"{name}: hop and JAX do not agree", file=sys.stderr)
    print(f"{len(wanted or CASES) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
