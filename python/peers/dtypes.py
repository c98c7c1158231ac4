"""Products and sums in a dtype of their own in hop and in JAX: equal bits of whole numbers, floats within the
rounding of their sums, gradients with the operands' dtypes; and how fast large products are, in GOP/s.

    python python/peers/dtypes.py
"""

import itertools
import sys
import time

import jax
import jax.numpy as jnp
import numpy

import hop

jax.config.update("jax_enable_x64", True)

SHORT = ("bfloat16", "float16", "float32")
BYTES = ("int8", "uint8")
SIZE = 512


def draw(dtype, shape, seed):
    """Bytes of every value; floats that all three short dtypes hold."""
    r = numpy.random.default_rng(seed)
    if dtype in BYTES:
        return r.integers(0, 256, shape).astype("uint8").view(dtype)
    return (r.integers(-64, 65, shape) / 16).astype("float32")


def as_both(a, dtype):
    return hop.asarray(a).astype(getattr(hop, dtype)), jnp.asarray(a).astype(dtype)


PRODUCTS = {
    "matmul": (lambda m, x, y, d: m.matmul(x, y, preferred_element_type=d)),
    "dot": (lambda m, x, y, d: m.dot(x, y, preferred_element_type=d)),
    "inner": (lambda m, x, y, d: m.inner(x, y.T, preferred_element_type=d)),
    "einsum": (lambda m, x, y, d: m.einsum("ik,kj->ji", x, y, preferred_element_type=d)),
    "tensordot": (lambda m, x, y, d: m.tensordot(x, y, axes=1, preferred_element_type=d)),
    "vecdot": (lambda m, x, y, d: m.vecdot(x[:, None, :], y.T, preferred_element_type=d)),
    "vdot": (lambda m, x, y, d: m.vdot(x, y.T[: x.shape[0]], preferred_element_type=d)),
}
FOLDS = {
    "sum": lambda m, x, d: m.sum(x, axis=1, dtype=d),
    "prod": lambda m, x, d: m.prod(x, axis=0, dtype=d),
    "cumsum": lambda m, x, d: m.cumsum(x, axis=1, dtype=d),
    "cumprod": lambda m, x, d: m.cumprod(x[:, :4], axis=1, dtype=d),
}
MEANS = {
    "mean": lambda m, x, d: m.mean(x, axis=0, dtype=d),
    "var": lambda m, x, d: m.var(x, axis=1, dtype=d),
    "std": lambda m, x, d: m.std(x, axis=1, dtype=d),
}


class Comparison:
    def __init__(self):
        self.passed = self.failed = 0

    def equal(self, what, ours, theirs, near=0.0):
        """The same dtype, shape and numbers, these within `near` of the largest."""
        theirs = jnp.asarray(theirs)
        a = numpy.array(ours.astype(hop.float64) if ours.dtype.kind == "f" else ours)
        b = numpy.asarray(theirs.astype("float64") if "float" in theirs.dtype.name else theirs)
        same = ours.dtype.name == theirs.dtype.name and a.shape == b.shape
        largest = numpy.max(numpy.abs(b.astype("float64")), initial=0.0)
        if same:
            apart = numpy.abs(a.astype("float64") - b.astype("float64"))
            same = bool(numpy.all(apart <= near * largest))
        self.passed += same
        self.failed += not same
        if not same:
            print(f"{what}: hop {ours.dtype.name}{a.shape}, JAX {theirs.dtype.name}{b.shape}")


# How far the sum of as many numbers may be off in each dtype: hop rounds once, XLA where it likes.
NEAR = {"float64": 1e-14, "float32": 2e-6, "float16": 4e-3, "bfloat16": 3e-2}


def products(c):
    bytes_ = itertools.product(BYTES, BYTES, ("int32", "int64"))
    floats = itertools.product(SHORT, SHORT, ("float32", "float64"))
    for left, right, d in [*bytes_, *floats]:
        for shape in ((3, 5, 4), (40, 70, 44)):
            a, b = draw(left, shape[:2], 1), draw(right, shape[1:], 2)
            (x, u), (y, v) = as_both(a, left), as_both(b, right)
            for name, f in PRODUCTS.items():
                if name == "vdot" and shape[0] > shape[2]:
                    continue
                ours = hop.jit(lambda x, y: f(hop, x, y, d))(x, y)
                theirs = jax.jit(lambda u, v: f(jnp, u, v, d))(u, v)
                c.equal(f"{name} {left} {right} {d} {shape}", ours, theirs, NEAR.get(d, 0.0))


def folds(c):
    whole = itertools.product(BYTES, ("int32", "uint32", "int64"))
    floats = itertools.product(SHORT, ("float32", "float64"))
    for left, d in [*whole, *floats]:
        x, u = as_both(draw(left, (6, 33), 3), left)
        for name, f in {**FOLDS, **(MEANS if d.startswith("float") else {})}.items():
            ours, theirs = hop.jit(lambda x: f(hop, x, d))(x), jax.jit(lambda u: f(jnp, u, d))(u)
            c.equal(f"{name} {left} {d}", ours, theirs, NEAR.get(d, 0.0))


def gradients(c):
    for left, right in itertools.product(SHORT, SHORT):
        (x, u), (y, v) = as_both(draw(left, (6, 9), 4), left), as_both(draw(right, (9, 5), 5), right)

        def loss(m, x, y):
            return m.sum(m.sin(m.matmul(x, y, preferred_element_type="float32")))

        ours = hop.jit(hop.grad(lambda x, y: loss(hop, x, y), argnums=(0, 1)))(x, y)
        theirs = jax.jit(jax.grad(lambda u, v: loss(jnp, u, v), argnums=(0, 1)))(u, v)
        for name, a, b in zip("xy", ours, theirs):
            c.equal(f"gradient of {name}, {left} {right}", a, b, max(NEAR[left], NEAR[right]))


def best(f, seconds=0.5):
    f()
    least, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        f()
        least = min(least, time.perf_counter() - begin)
    return least


def rates():
    """Large products, each beside that of JAX in the same moment."""
    pairs = [*((short, "float32") for short in SHORT), ("int8", "int32")]
    for dtype, d in pairs:
        x, u = as_both(draw(dtype, (SIZE, SIZE), 6), dtype)
        ours = hop.jit(lambda x: hop.matmul(x, x, preferred_element_type=d))
        theirs = jax.jit(lambda u: jnp.matmul(u, u, preferred_element_type=d))
        work = 2 * SIZE**3 / 1e9
        mine, other = best(lambda: ours(x)), best(lambda: theirs(u).block_until_ready())
        found = f"hop {work / mine:.0f} GOP/s, JAX {work / other:.0f} GOP/s"
        print(f"{SIZE}x{SIZE}x{SIZE} {dtype} in {d}: {found}")


def main():
    c = Comparison()
    products(c)
    folds(c)
    gradients(c)
    rates()
    print(f"{c.passed} passed, {c.failed} failed")
    return c.failed != 0


if __name__ == "__main__":
    sys.exit(main())
