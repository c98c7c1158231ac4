"""Functions with rules of their own in hop and in JAX: values and derivatives have to agree.

    python rules.py [NAME…]

Programs are written in JAX's spelling; for hop `jnp.`, `lax.` and `jax.` become `hop.`, nothing else. Each
defines f(x, y) of two vectors, with a scalar result; its rules are scaled by numbers of their own, so that
the results tell which rule ran. Both libraries compute with float64. JAX has no forward mode for custom_vjp
and no reverse mode for custom_vmap: those claims are left out there. A rule that calls its own function
counts for second derivatives in hop, and in JAX outside of loops; no program here has such a call in a loop.
Disagreements are printed, and the exit code is 1. The last line is a JSON object.
"""

import json
import re
import sys

import numpy

X, Y = [0.3, -0.7, 1.1], [0.5, 1.5, -0.4]
TOLERANCE = 1e-9

PROGRAMS = {
    "custom_vjp": """
@jax.custom_vjp
def scaled(x, y):
    return jnp.sin(x) * y
def forward(x, y):
    return 3.0 * jnp.sin(x) * y, (jnp.cos(x), x, y)
def backward(saved, g):
    c, x, y = saved
    return 10.0 * c * y * g, 100.0 * jnp.sin(x) * g
scaled.defvjp(forward, backward)
def f(x, y):
    return jnp.sum(scaled(x, y) ** 2)
""",
    "custom_vjp that calls itself": """
@jax.custom_vjp
def wave(x):
    return jnp.exp(x)
wave.defvjp(lambda x: (wave(x), x), lambda x, g: (2.0 * wave(x) * g,))
def f(x, y):
    return jnp.sum(wave(x * y))
""",
    "custom_vjp with nondiff_argnums": """
from functools import partial
@partial(jax.custom_vjp, nondiff_argnums=(0, 2))
def apply(fun, x, n):
    return fun(x) * n
def forward(fun, x, n):
    return fun(x) * n, x
def backward(fun, n, x, g):
    return (fun(x) * n * 7.0 * g,)
apply.defvjp(forward, backward)
def f(x, y):
    return jnp.sum(apply(jnp.sin, x, 3) * apply(jnp.cos, y, 2))
""",
    "custom_vjp of trees": """
@jax.custom_vjp
def pair(p):
    return {"a": p["x"] * p["y"], "b": (p["x"] + p["y"],)}
def forward(p):
    return pair(p), (p["x"], {"again": p["y"]})
def backward(saved, g):
    x, rest = saved
    return ({"x": g["a"] * 5.0 + g["b"][0], "y": x * g["a"] * rest["again"]},)
pair.defvjp(forward, backward)
def f(x, y):
    out = pair({"x": x, "y": y})
    return jnp.sum(out["a"] * out["b"][0])
""",
    "custom_vjp with None": """
@jax.custom_vjp
def first(x, y):
    return x * y
first.defvjp(lambda x, y: (x * y, y), lambda y, g: (y * g, None))
def f(x, y):
    return jnp.sum(first(x, y) ** 2 + y)
""",
    "custom_vjp in a scan": """
@jax.custom_vjp
def clipped(x):
    return x
clipped.defvjp(lambda x: (x, None), lambda _, g: (jnp.clip(g, -0.5, 0.5),))
def f(x, y):
    return jnp.sum(lax.scan(lambda c, v: (clipped(jnp.sin(c) * v), c), x, jnp.stack([y, y, x]))[0])
""",
    "custom_vjp in a cond": """
@jax.custom_vjp
def cubed(x):
    return x ** 3
cubed.defvjp(lambda x: (x ** 3, x), lambda x, g: (30.0 * x ** 2 * g,))
def f(x, y):
    return jnp.sum(lax.cond(jnp.sum(y) > 0, lambda x: cubed(x), lambda x: x, x) * y)
""",
    "custom_jvp": """
@jax.custom_jvp
def scaled(x, y):
    return jnp.sin(x) * y
@scaled.defjvp
def rule(primals, tangents):
    (x, y), (dx, dy) = primals, tangents
    return scaled(x, y), 10.0 * jnp.cos(x) * y * dx + 100.0 * jnp.sin(x) * dy
def f(x, y):
    return jnp.sum(scaled(x, y) ** 2)
""",
    "custom_jvp with a rule for each argument": """
@jax.custom_jvp
def product(x, y):
    return x * y
product.defjvps(lambda t, out, x, y: 4.0 * t * y + 0.0 * out, lambda t, out, x, y: 5.0 * t * x)
def f(x, y):
    return jnp.sum(product(jnp.sin(x), y) * product(y, x))
""",
    "custom_jvp with nondiff_argnums": """
from functools import partial
@partial(jax.custom_jvp, nondiff_argnums=(1,))
def power(x, n):
    return x ** n
@power.defjvp
def rule(n, primals, tangents):
    (x,), (t,) = primals, tangents
    return power(x, n), 6.0 * x ** (n - 1) * t
def f(x, y):
    return jnp.sum(power(x * y, 3))
""",
    "custom_jvp in a loop": """
@jax.custom_jvp
def leak(x):
    return jnp.tanh(x)
@leak.defjvp
def rule(primals, tangents):
    out = jnp.tanh(primals[0])
    return out, 2.0 * tangents[0] * (1.0 - out ** 2)
def f(x, y):
    return jnp.sum(lax.fori_loop(0, 3, lambda i, c: leak(c * y + x), x))
""",
    "custom_gradient": """
@jax.custom_gradient
def norm(x):
    y = jnp.sqrt(jnp.sum(x * x))
    return y, lambda g: (3.0 * g * x / y,)
def f(x, y):
    return norm(x * y) + norm(y)
""",
    "custom_vmap": """
@jax.custom_batching.custom_vmap
def scaled(x, y):
    return jnp.sin(x) * y
@scaled.def_vmap
def rule(axis_size, in_batched, x, y):
    return 7.0 * jnp.sin(x) * y, True
def f(x, y):
    return jnp.sum(scaled(x, y))
""",
    "a root": """
@jax.custom_vjp
def root(a):
    return lax.fori_loop(0, 40, lambda i, z: z - (z * z * z + z - a) / (3.0 * z * z + 1.0), a)
def forward(a):
    z = root(a)
    return z, z
def backward(z, g):
    return (g / (3.0 * z * z + 1.0),)
root.defvjp(forward, backward)
def f(x, y):
    return jnp.sum(root(x) * root(y))
""",
    "linear_transpose": """
def linear(x):
    return 2.0 * jnp.roll(x, 1) + jnp.sum(x)
def f(x, y):
    return jnp.sum(jax.linear_transpose(linear, x)(y)[0] * x)
""",
}
FORWARD = ("custom_jvp", "linear_transpose")  # those that JAX has forward mode for begin so


def respelled(text):
    text = text.replace("jax.custom_batching.", "hop.")
    return re.sub(r"\b(jnp|lax|jax)\.", "hop.", text)


def claims(name, library, f):
    """{name: function of (x, y)}"""
    both = (0, 1)
    total = lambda v: v.sum()  # noqa: E731
    lanes = library.vmap(f, in_axes=(0, None))
    out = {"value": f, "jit": library.jit(f)}
    many = out["vmap"] = lambda x, y: lanes(_stacked(library, x), y)  # noqa: E731
    if name == "custom_vmap":
        return out
    out["grad"] = library.grad(f, both)
    out["jit of grad"] = library.jit(library.grad(f, both))
    out["vmap of grad"] = lambda x, y: library.vmap(library.grad(f, both), in_axes=(0, None))(
        _stacked(library, x), y
    )
    out["grad of vmap"] = library.grad(lambda x, y: total(many(x, y)), both)
    out["second"] = library.jacrev(library.grad(f))
    if name.startswith(FORWARD):
        out["jvp"] = lambda x, y: library.jvp(f, (x, y), (y, x))
        out["hessian"] = library.hessian(f)
    return out


def _stacked(library, x):
    numpy_like = library if hasattr(library, "stack") else library.numpy
    return numpy_like.stack([x, 2 * x])


def function(library, text):
    """What a program of a library defines as f."""
    space = {library.__name__: library}
    if library.__name__ == "jax":
        space.update(jnp=library.numpy, lax=library.lax)
    exec(compile(text, "<program>", "exec"), space)
    return space["f"]


def plain(x):
    return [plain(v) for v in x] if isinstance(x, (tuple, list)) else numpy.asarray(x)


def apart(a, b):
    if isinstance(a, list):
        return max([apart(x, y) for x, y in zip(a, b)], default=0.0)
    return float(numpy.max(numpy.abs(a - b) / numpy.maximum(1.0, numpy.abs(b)), initial=0.0))


def main(wanted):
    import hop
    import jax

    jax.config.update("jax_enable_x64", True)
    compared, wrong, largest = 0, 0, 0.0
    for name in wanted or PROGRAMS:
        text = PROGRAMS[name]
        expected = claims(name, jax, function(jax, text))
        for claim, fun in claims(name, hop, function(hop, respelled(text))).items():
            a = plain(fun(*[hop.asarray(v, dtype=hop.float64) for v in (X, Y)]))
            b = plain(expected[claim](*map(jax.numpy.asarray, (X, Y))))
            difference = apart(a, b)
            compared += 1
            largest = max(largest, difference)
            if not difference <= TOLERANCE:
                wrong += 1
                print(f"{name}: {claim}: hop {a}, JAX {b}\n{text}")
    print(json.dumps({"programs": len(wanted or PROGRAMS), "compared": compared, "wrong": wrong,
                      "largest difference": largest}))  # fmt: skip
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
