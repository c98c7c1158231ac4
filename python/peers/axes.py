"""Named axes in hop and in JAX: values and derivatives have to agree.

    python axes.py [NAME…]

Programs are written in JAX's spelling; for hop `jnp.`, `lax.` and `jax.` become `hop.`, nothing else. Each
is the body of f(x, w) of one lane: x has lanes along the axis "i", w is the same in all of them; the result
is a number. Values and outer derivatives are compared with those of jax.vmap(axis_name="i"); derivatives
that are taken in one lane's function with those of jax.shard_map, which knows what varies. jax.vmap does not,
and has others there; nor does it take a ppermute in which some lanes get nothing. Both libraries compute with
float64. Disagreements are printed, and the exit code is 1. The last line is a JSON object.
"""

import json
import os
import re
import sys

N = 4
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={N}"

import numpy  # noqa: E402

X = numpy.random.default_rng(5).uniform(-1, 1, (N, 3))
W = numpy.array([0.5, 1.5, -0.4])
TOLERANCE = 1e-9

PROGRAMS = {
    "psum": "return jnp.sum(x * lax.psum(jnp.sin(x * w), 'i'))",
    "psum alone": "return jnp.sum(lax.psum(jnp.sin(x * w), 'i') ** 2)",
    "pmean": "return jnp.sum(lax.pmean(x * w, 'i') ** 2 * x)",
    "shared both ways": "return jnp.sum(w**2) + jnp.sum(w * x) * jnp.sum(lax.psum(w * x, 'i'))",
    "all_gather": "return jnp.sum(lax.all_gather(x * w, 'i') ** 2 * x)",
    "tiled all_gather": "return jnp.sum(lax.all_gather(x * w, 'i', tiled=True) ** 2) * jnp.sum(x)",
    "ppermute": "return jnp.sum(lax.ppermute(x * w, 'i', [(0, 1), (1, 2), (2, 3), (3, 0)]) ** 3)",
    "psum_scatter": "return jnp.sum(lax.psum_scatter(jnp.outer(jnp.arange(1.0, 5.0) * x[0], w), 'i') ** 2)",
    "all_to_all": "return jnp.sum(lax.all_to_all(jnp.outer(jnp.arange(1.0, 5.0), x * w), 'i', 0, 0) ** 3)",
    "axis_index": "return jnp.sum(x * w) * (lax.axis_index('i') + 1.0)",
    "scan": """
    step = lambda c, k: (jnp.sin(c + lax.pmean(c * w, 'i') * x), None)
    return jnp.sum(lax.scan(step, x, None, length=3)[0])
""",
    "cond": """
    some = lax.psum(jnp.sum(x), 'i') > -100
    return jnp.sum(lax.cond(some, lambda: lax.psum(x * w, 'i') * x, lambda: x * w))
""",
}


def numbers(x):
    return [numpy.asarray(part, dtype="float64") for part in (x if isinstance(x, tuple) else (x,))]


def of_hop(text):
    import hop

    names = {"hop": hop}
    exec("def f(x, w):\n    " + re.sub(r"\b(jnp|lax|jax)\.", "hop.", text).strip(), names)
    f, x, w = names["f"], hop.asarray(X), hop.asarray(W)

    def whole(x, w):
        return hop.vmap(f, in_axes=(0, None), axis_name="i")(x, w)

    inside = hop.vmap(hop.grad(f, (0, 1)), in_axes=(0, None), out_axes=(0, None), axis_name="i")
    return {
        "value": numbers(whole(x, w)),
        "gradient outside": numbers(hop.grad(lambda x, w: hop.sum(whole(x, w)), (0, 1))(x, w)),
        "tangent outside": numbers(hop.jvp(whole, (x, w), (x, w))[1]),
        "gradient inside": numbers(inside(x, w)),
    }


def of_jax(text):
    import jax

    jax.config.update("jax_enable_x64", True)
    names = {"jnp": jax.numpy, "lax": jax.lax, "jax": jax}
    exec("def f(x, w):\n    " + text.strip(), names)
    f, P = names["f"], jax.sharding.PartitionSpec
    mesh = jax.make_mesh((N,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))

    def whole(x, w):
        return jax.vmap(f, in_axes=(0, None), axis_name="i")(x, w)

    def lane(x, w):
        dx, dw = jax.grad(lambda x, w: f(x[0], w), (0, 1))(x, w)
        return dx, dw

    inside = jax.shard_map(lane, mesh=mesh, in_specs=(P("i"), P()), out_specs=(P("i"), P()))
    return {
        "value": numbers(whole(X, W)),
        "gradient outside": numbers(jax.grad(lambda x, w: jax.numpy.sum(whole(x, w)), (0, 1))(X, W)),
        "tangent outside": numbers(jax.jvp(whole, (X, W), (X, W))[1]),
        "gradient inside": numbers(inside(X, W)),
    }


def main(chosen):
    agree, differ = 0, []
    for name, text in PROGRAMS.items():
        if chosen and name not in chosen:
            continue
        ours, theirs = of_hop(text), of_jax(text)
        for claim in ours:
            pairs = list(zip(ours[claim], theirs[claim]))
            if all(a.shape == b.shape and numpy.allclose(a, b, TOLERANCE, TOLERANCE) for a, b in pairs):
                agree += 1
                continue
            differ.append(f"{name}: {claim}")
            print(f"{name}: {claim}: hop {ours[claim]}, JAX {theirs[claim]}")
    print(json.dumps({"agree": agree, "differ": differ}))
    return bool(differ)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
