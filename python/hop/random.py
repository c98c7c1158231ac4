"""Random numbers from explicit keys: the same key gives the same numbers, at once and compiled, on one
thread and on many.

A key is an array uint32[2]. Nothing is kept between calls: to draw again, split the key, or fold a number
into it.

>>> import hop
>>> key, other = hop.random.split(hop.random.key(0))
>>> hop.random.randint(key, (3,), 0, 10).shape
(3,)

The functions take one key; hop.vmap(draw)(keys) draws from many, exactly as from each alone.
"""

__all__ = [
    "key", "PRNGKey", "key_data", "wrap_key_data", "split", "fold_in", "bits", "uniform", "normal",
    "exponential", "gumbel", "randint", "bernoulli", "permutation", "categorical", "choice", "cauchy",
    "laplace", "logistic", "lognormal", "multivariate_normal", "rademacher", "truncated_normal", "gamma",
    "beta", "dirichlet", "chisquare", "t",
]  # fmt: skip

import builtins
import functools
import math
import operator

from . import _core, _dtypes, _ops, _shapes
from ._dtypes import as_dtype, float32, float64, int64, uint32
from ._jit import jit
from ._ops import asarray
from ._ops.common import _dims, _text, _type

_CODE, _call = _core.codes, _core.call
astype = functools.partial(_ops.astype, copy=False)
_SEPARATE = (0x9E3779B9, 0x7F4A7C15)  # keeps what fold_in makes apart from what split makes


# ---- keys ----


def _words(number):
    """A number of 64 bits, a Python integer or an array of integers without axes, as two words uint32[2]:
    the high half, the low half."""
    if isinstance(number, builtins.int):
        number &= (1 << 64) - 1
        return asarray([number >> 32, number & 0xFFFFFFFF], dtype=uint32)
    x = asarray(number)
    if x.ndim or x.dtype.kind not in "iu":
        raise TypeError(f"expected an integer, found {x._type}")
    x = x if x.dtype is _dtypes.uint64 else astype(x, int64)
    return _ops.stack([astype((x >> 32) & 0xFFFFFFFF, uint32), astype(x & 0xFFFFFFFF, uint32)])


def _key(key, name):
    key = asarray(key)
    if key.dtype is not uint32 or key.shape != (2,):
        hint = (
            "; hop.vmap draws from many keys"
            if key.dtype is uint32 and key.ndim > 1
            else ": make one with hop.random.key(seed)"
        )
        raise TypeError(
            f"hop.random.{name}: expected a key, uint32[2], "
            f"found {key.dtype.name}[{', '.join(map(str, key.shape))}]{hint}"
        )
    return key


def key(seed):
    """The key of a seed, an integer of up to 64 bits.

    >>> hop.random.PRNGKey(0).dtype
    hop.uint32
    """
    return _words(seed)


PRNGKey = key


def key_data(keys):
    """The bits of a key, which is an array of them itself. For programs that come from JAX, where keys are
    objects.

    >>> hop.random.key_data(hop.random.key(0)).shape
    (2,)
    """
    return asarray(keys)


def wrap_key_data(key_bits_array):
    """The key that has these bits, uint32[2]. For programs that come from JAX, where keys are objects.

    >>> hop.random.wrap_key_data(hop.random.key_data(hop.random.key(0))).shape
    (2,)
    """
    return _key(key_bits_array, "wrap_key_data")


def split(key, num=2):
    """num keys, uint32[num, 2], each of which gives other numbers; num may be a shape. The key itself
    should not be used again.

    >>> a, b = hop.random.split(hop.random.key(0))
    >>> hop.all(a == b)
    Array(False, dtype=bool)
    """
    key, dims = _key(key, "split"), _dims(num)
    keys = _call(_CODE["random_split"], (key,), _shapes.text(math.prod(dims)))
    return keys if len(dims) == 1 else _ops.reshape(keys, (*dims, 2))


def fold_in(key, data):
    """A key that depends on a key and an integer: a step of a loop, the number of a worker.

    >>> hop.all(hop.random.fold_in(hop.random.key(0), 1) == hop.random.fold_in(hop.random.key(0), 2))
    Array(False, dtype=bool)
    """
    key = _key(key, "fold_in")
    apart = _call(_CODE["random_bits"], (key ^ asarray(list(_SEPARATE), dtype=uint32),), "2")
    return _call(_CODE["random_bits"], (apart ^ _words(data),), "2")


# ---- draws ----


def _count(x):
    """A Python integer, of NumPy's or of an array without axes too; x itself where it is none."""
    if isinstance(x, _shapes.WHOLE) or getattr(x, "_traced", False) or getattr(x, "ndim", None) != 0:
        return x
    try:
        return operator.index(x)
    except TypeError:
        return x


def _float(dtype, name):
    d = as_dtype(dtype)
    if d.kind != "f":
        raise TypeError(f"hop.random.{name}: expected a float dtype, found {d}")
    return d


@functools.lru_cache(maxsize=256)
def _compiled(body, static):
    part = functools.partial(body, **dict(static))
    part.__name__ = body.__name__.strip("_")
    return jit(part)


def _draw(body, *arrays, **static):
    """A body that rounds more than once: at once it runs compiled too, so that it rounds in the same
    places as within a program."""
    if _core.tracing():
        return body(*arrays, **static)
    return _compiled(body, tuple(sorted(static.items())))(*arrays)


def bits(key, shape=()):
    """32 random bits per element, uint32. All 2**32 values are equally likely.

    >>> hop.random.bits(hop.random.key(0), (2,)).dtype
    hop.uint32
    """
    return _call(_CODE["random_bits"], (_key(key, "bits"),), _text(_dims(shape)))


def _unit(key, dims, d):
    return _call(_CODE["random_uniform"], (key,), _type(d, dims))


def uniform(key, shape=(), dtype=float32, minval=0.0, maxval=1.0):
    """Real numbers from minval up to, but not including, maxval, all equally likely. The bounds may be
    arrays that broadcast to the shape.

    >>> x = hop.random.uniform(hop.random.key(0), (1000,), minval=2.0, maxval=3.0)
    >>> hop.min(x) >= 2, hop.max(x) < 3
    (Array(True, dtype=bool), Array(True, dtype=bool))
    """
    key, dims, d = _key(key, "uniform"), _dims(shape), _float(dtype, "uniform")
    unit = _unit(key, dims, d)
    numbers = isinstance(minval, (builtins.int, builtins.float)) and isinstance(
        maxval, (builtins.int, builtins.float)
    )
    if numbers and minval == 0 and maxval == 1:
        return unit
    lo, hi = [_ops.broadcast_to(asarray(b, dtype=d), dims) for b in (minval, maxval)]
    x = _ops.fma(unit, hi - lo, lo)  # one rounding, wherever it is computed
    if not numbers or maxval - minval > _dtypes.finfo(d).max:  # perhaps a range that is wider than any number
        x = _ops.where(_ops.isfinite(hi - lo), x, 2 * _ops.fma(unit, hi / 2 - lo / 2, lo / 2))
    return _ops.where(x < hi, x, lo)


def _normal(key, *, type):
    return _call(_CODE["random_normal"], (key,), type)


def normal(key, shape=(), dtype=float32):
    """Normally distributed numbers with mean 0 and variance 1. float32 unless another float dtype is asked
    for. mean + std * normal(…) has another mean and deviation, and a gradient with respect to both.

    >>> x = hop.random.normal(hop.random.key(0), (10000,))
    >>> abs(x.mean().item()) < 0.05, abs(x.std().item() - 1) < 0.05
    (True, True)
    """
    return _draw(_normal, _key(key, "normal"), type=_type(_float(dtype, "normal"), _dims(shape)))


def _exponential(key, *, dims, d):
    return -_ops.log1p(-_unit(key, dims, d))


def exponential(key, shape=(), dtype=float32):
    """Exponentially distributed numbers with mean 1. Divide by a rate for another mean. float32 unless
    another float dtype is asked for.

    >>> hop.all(hop.random.exponential(hop.random.key(0), (100,)) >= 0)
    Array(True, dtype=bool)
    """
    return _draw(_exponential, _key(key, "exponential"), dims=_dims(shape), d=_float(dtype, "exponential"))


def _gumbel(key, *, dims, d):
    wide = d if d is float64 else float32  # halves have too few bits below 1
    least = 2.0**-54 if d is float64 else 2.0**-25
    made = -_ops.log(-_ops.log(_ops.maximum(_unit(key, dims, wide), least)))
    return made if wide is d else astype(made, d)


def gumbel(key, shape=(), dtype=float32):
    """Numbers of the standard Gumbel distribution, -log(-log(u)). argmax(logits + gumbel) draws from
    softmax(logits). float32 unless another float dtype is asked for.

    >>> hop.random.gumbel(hop.random.key(0), (2, 3)).shape
    (2, 3)
    """
    return _draw(_gumbel, _key(key, "gumbel"), dims=_dims(shape), d=_float(dtype, "gumbel"))


def _logistic(key, *, dims, d):
    unit = _ops.maximum(_unit(key, dims, d), _dtypes.finfo(d).smallest_normal)
    return _ops.log(unit) - _ops.log1p(-unit)


def logistic(key, shape=(), dtype=float32):
    """Numbers of the standard logistic distribution, log(u / (1 - u)). The distribution whose running
    probability is the sigmoid.

    >>> hop.random.logistic(hop.random.key(0), (3,)).shape
    (3,)
    """
    return _draw(_logistic, _key(key, "logistic"), dims=_dims(shape), d=_float(dtype, "logistic"))


def _laplace(key, *, dims, d):
    side = 2 * _unit(key, dims, d) - 1
    return _ops.where(side < 0, _ops.log1p(side), -_ops.log1p(-side))


def laplace(key, shape=(), dtype=float32):
    """Numbers of the standard Laplace distribution: exponential ones of either sign.

    >>> hop.random.laplace(hop.random.key(0), (3,)).dtype
    hop.float32
    """
    return _draw(_laplace, _key(key, "laplace"), dims=_dims(shape), d=_float(dtype, "laplace"))


def _cauchy(key, *, dims, d):
    return _ops.tan(math.pi * (_unit(key, dims, d) - 0.5))


def cauchy(key, shape=(), dtype=float32):
    """Numbers of the standard Cauchy distribution, the tangent of a random angle.

    >>> hop.random.cauchy(hop.random.key(0), (3,)).shape
    (3,)
    """
    return _draw(_cauchy, _key(key, "cauchy"), dims=_dims(shape), d=_float(dtype, "cauchy"))


def _lognormal(key, sigma, *, type):
    return _ops.exp(sigma * _normal(key, type=type))


def lognormal(key, sigma=1.0, shape=None, dtype=float32):
    """exp(sigma * a normal number); the shape is that of sigma when none is given.

    >>> hop.all(hop.random.lognormal(hop.random.key(0), shape=(9,)) > 0)
    Array(True, dtype=bool)
    """
    d, sigma = _float(dtype, "lognormal"), asarray(sigma)
    dims = sigma.shape if shape is None else _dims(shape)
    return _draw(_lognormal, _key(key, "lognormal"), astype(sigma, d), type=_type(d, dims))


def rademacher(key, shape=(), dtype=int64):
    """-1 or 1, both equally likely. float32 or an integer dtype, as dtype says.

    >>> hop.abs(hop.random.rademacher(hop.random.key(0), (4,)))
    Array([1, 1, 1, 1], dtype=int64)
    """
    return astype(2 * astype(bernoulli(key, 0.5, _dims(shape)), int64) - 1, as_dtype(dtype))


def _lower_quantile(p):
    """Where the normal distribution has p, at most 1/2, below it. Newton's steps on log(Phi(x)) = log(p):
    Phi(x) is at most exp(-x**2 / 2) / 2 there, so they begin on the left and, as log(Phi) is concave, stay
    there; six are enough for float64."""
    x = -_ops.sqrt(-2 * _ops.log(2 * p))
    for _ in range(6):
        below = 0.5 * _ops.erfc(-math.sqrt(0.5) * x)
        density = _ops.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))
        x = x + _ops.log(p / below) * below / density
    return x


def _truncated(key, lower, upper, *, dims, d):
    """The quantile of a number between the probabilities of the bounds, counted from the side where those
    are small."""
    wide = float64
    lower, upper, turned = astype(lower, wide), astype(upper, wide), lower > 0
    lo, hi = _ops.where(turned, -upper, lower), _ops.where(turned, -lower, upper)
    below = [0.5 * _ops.erfc(-b * math.sqrt(0.5)) for b in (lo, hi)]
    p = below[0] + _unit(key, dims, wide) * (below[1] - below[0])
    p = _ops.maximum(p, _dtypes.finfo(wide).smallest_normal)
    x = _ops.where(
        p <= 0.5, _lower_quantile(_ops.minimum(p, 0.5)), -_lower_quantile(_ops.minimum(1 - p, 0.5))
    )
    x = _ops.where(turned, -x, x)
    return _ops.clip(astype(_ops.clip(x, lower, upper), d), astype(lower, d), astype(upper, d))


def truncated_normal(key, lower, upper, shape=None, dtype=float32):
    """Normally distributed numbers between two bounds, numbers or arrays; the shape is that of the bounds
    when none is given.

    >>> hop.max(hop.abs(hop.random.truncated_normal(hop.random.key(0), -1.0, 1.0, (99,)))) <= 1
    Array(True, dtype=bool)
    """
    key, d = _key(key, "truncated_normal"), _float(dtype, "truncated_normal")
    bounds = [asarray(b, dtype=float64) for b in (lower, upper)]
    dims = _ops.broadcast_shapes(*[b.shape for b in bounds]) if shape is None else _dims(shape)
    return _draw(_truncated, key, *bounds, dims=tuple(dims), d=d)


def multivariate_normal(key, mean, cov, shape=None, dtype=float32):
    """Vectors that are normally distributed around mean with the covariance cov, [n, n]; shape: how many,
    by default one for each of mean and cov.

    >>> hop.random.multivariate_normal(hop.random.key(0), hop.zeros(2), hop.eye(2), (5,)).shape
    (5, 2)
    """
    from .linalg import cholesky

    key, d = _key(key, "multivariate_normal"), _float(dtype, "multivariate_normal")
    mean, cov = asarray(mean, dtype=d), asarray(cov, dtype=d)
    if not mean.ndim or cov.ndim < 2 or _shapes.shapes_differ(cov.shape[-2:], (mean.shape[-1],) * 2):
        raise ValueError(
            "hop.random.multivariate_normal: expected a mean [n] and a cov [n, n], "
            f"found {mean._type} and {cov._type}"
        )
    dims = _ops.broadcast_shapes(mean.shape[:-1], cov.shape[:-2]) if shape is None else _dims(shape)
    z = normal(key, (*dims, mean.shape[-1]), d)
    return mean + _ops.einsum("...ij,...j->...i", cholesky(cov), z)


def _63_bits(key, dims):
    """(random integers from 0 to 2**63 - 1, another key)"""
    keys = split(key)
    words = astype(bits(keys[0], (2, *dims)), int64)
    return (words[0] << 31) + (words[1] >> 1), keys[1]


def _below(key, span):
    """Integers from 0 to span - 1, an array. Of the 2**63 numbers only the largest multiple of a span is
    used, so that all are equally likely."""
    from ._control import while_loop

    def draw(key):
        drawn, key = _63_bits(key, span.shape)
        rest = drawn % span
        return rest, drawn - rest > _dtypes.iinfo(int64).max - (span - 1), key

    def again(carry):
        before, repeated, key = carry
        rest, still, key = draw(key)
        return _ops.where(repeated, rest, before), repeated & still, key

    return while_loop(lambda carry: _ops.any(carry[1]), again, draw(key))[0]


def _broadcasts(shape, dims):
    """Whether a shape may be one that is broadcast to these sizes."""
    pairs = zip(reversed(shape), reversed(dims))
    fits = [_shapes.equal(n, 1) or not _shapes.differ(n, m) for n, m in pairs]
    return len(shape) <= len(dims) and builtins.all(fits)


def _randint_between(key, dims, lo, hi):
    """Integers between bounds of their own for each element."""
    shape = _ops.broadcast_shapes(lo.shape, hi.shape)
    if dims is not None and not _broadcasts(shape, dims):
        raise ValueError(f"hop.random.randint: bounds of the shape {shape} do not broadcast to {dims}")
    lo, hi = [_ops.broadcast_to(b, shape if dims is None else dims) for b in (lo, hi)]
    return lo + _below(key, _ops.maximum(hi - lo, 1))


def _gamma(key, a, *, dims, d):
    """Marsaglia's and Tsang's method: the cube of a normal number, drawn again where it is rejected. It is
    for a >= 1; below, a number for a + 1 is multiplied by u**(1 / a)."""
    from ._control import while_loop

    a = _ops.broadcast_to(a, dims)
    small = a < 1
    level = _ops.where(small, a + 1, a) - 1 / 3
    width = 1 / _ops.sqrt(9 * level)

    def again(carry):
        made, waits, key = carry
        keys = split(key, 3)
        x, u = _normal(keys[0], type=_type(d, dims)), _unit(keys[1], dims, d)
        v = (1 + width * x) ** 3
        positive = _ops.where(v > 0, v, 1)
        bound = 0.5 * x * x + level * (1 - v + _ops.log(positive))
        good = (v > 0) & (_ops.log1p(-u) < bound)
        return _ops.where(waits & good, level * v, made), waits & ~good, keys[2]

    first, rest = split(key)
    # what has no distribution is NaN
    begun = _ops.full(dims, math.nan, dtype=d), (a > 0) & _ops.isfinite(a), first
    made = while_loop(lambda carry: _ops.any(carry[1]), again, begun)[0]
    power = _ops.exp(_ops.log1p(-_unit(rest, dims, d)) / _ops.where(small, a, 1))
    return _ops.where(small, made * power, made)


def _positive(name, what, x, dtype):
    x = asarray(x)
    if x.dtype.kind not in "iuf":
        raise TypeError(f"hop.random.{name}: {what} must be numbers above 0, found {x._type}")
    return astype(_ops.stop_gradient(x), dtype)


def gamma(key, a, shape=None, dtype=float32):
    """Numbers of the gamma distribution with the shape parameter a, a number or an array; their mean and
    their variance are a, which must be above 0: others give NaN. The shape is that of a when none is
    given. Numbers have no gradient for a.

    >>> hop.random.gamma(hop.random.key(0), 2.5, (3,)).shape
    (3,)
    """
    key, d = _key(key, "gamma"), _float(dtype, "gamma")
    a = _positive("gamma", "a", a, d)
    return _draw(_gamma, key, a, dims=a.shape if shape is None else _dims(shape), d=d)


def beta(key, a, b, shape=None, dtype=float32):
    """Numbers between 0 and 1 of the beta distribution with the parameters a and b, above 0; their mean is
    a / (a + b). The shape is that of a and b when none is given.

    >>> hop.random.beta(hop.random.key(0), 2.0, 3.0, (3,)).shape
    (3,)
    """
    key, d = _key(key, "beta"), _float(dtype, "beta")
    a, b = [_positive("beta", name, x, d) for name, x in (("a", a), ("b", b))]
    dims = _ops.broadcast_shapes(a.shape, b.shape) if shape is None else _dims(shape)
    x, y = [gamma(k, p, dims, d) for k, p in zip(split(key), (a, b))]
    return x / (x + y)


def dirichlet(key, alpha, shape=None, dtype=float32):
    """Vectors of positive numbers whose sum is 1, of the Dirichlet distribution with the parameters alpha,
    along its last axis. shape: how many, by default one for each vector of alpha.

    >>> hop.random.dirichlet(hop.random.key(0), hop.ones(3), (2,)).shape
    (2, 3)
    """
    key, d = _key(key, "dirichlet"), _float(dtype, "dirichlet")
    alpha = _positive("dirichlet", "alpha", alpha, d)
    if not alpha.ndim:
        raise ValueError(f"hop.random.dirichlet: alpha must have an axis, found {alpha._type}")
    dims = alpha.shape[:-1] if shape is None else _dims(shape)
    x = gamma(key, alpha, (*dims, alpha.shape[-1]), d)
    return x / _ops.sum(x, axis=-1, keepdims=True)


def chisquare(key, df, shape=None, dtype=float32):
    """Sums of the squares of df normal numbers; df, above 0, need not be an integer. The shape is that of
    df when none is given.

    >>> hop.random.chisquare(hop.random.key(0), 4, (3,)).shape
    (3,)
    """
    key, d = _key(key, "chisquare"), _float(dtype, "chisquare")
    return 2 * gamma(key, _positive("chisquare", "df", df, d) / 2, shape, d)


def t(key, df, shape=(), dtype=float32):
    """Numbers of Student's distribution with df degrees of freedom.

    >>> hop.random.t(hop.random.key(0), 5.0, (3,)).shape
    (3,)
    """
    key, d, dims = _key(key, "t"), _float(dtype, "t"), _dims(shape)
    first, second = split(key)
    df = _positive("t", "df", df, d)
    return normal(first, dims, d) * _ops.sqrt(df / chisquare(second, df, dims, d))


def randint(key, shape, minval, maxval, dtype=int64):
    """Integers from minval to maxval - 1, all equally likely. The bounds are integers, or arrays of them
    that broadcast to the shape; shape=None is the shape of the bounds.

    >>> x = hop.random.randint(hop.random.key(0), (100,), 0, 3)
    >>> hop.unique_values(x)
    Array([0, 1, 2], dtype=int64)
    """
    key, dims, d = _key(key, "randint"), None if shape is None else _dims(shape), as_dtype(dtype)
    if d.kind not in "iu":
        raise TypeError(f"hop.random.randint: expected an integer dtype, found {d}")
    bounds = []
    for name, b in (("minval", minval), ("maxval", maxval)):
        b = b if isinstance(b, _shapes.WHOLE) else asarray(b)
        if not isinstance(b, _shapes.WHOLE) and b.dtype.kind not in "iu":
            raise TypeError(
                f"hop.random.randint: {name} must be an integer or an array of integers, found {b._type}"
            )
        bounds.append(b)
    if builtins.all(isinstance(b, _shapes.WHOLE) for b in bounds) and _shapes.is_symbolic(*bounds):
        if _shapes.holds(bounds[0], ">=", bounds[1]):
            raise ValueError(
                f"hop.random.randint: there are no integers from {bounds[0]} to {bounds[1]} - 1"
            )
    elif builtins.all(isinstance(b, builtins.int) for b in bounds):
        least, most = _dtypes.iinfo(d).min, _dtypes.iinfo(d).max
        if bounds[0] >= bounds[1] or bounds[0] < least or bounds[1] - 1 > most:
            raise ValueError(
                f"hop.random.randint: there are no integers from {bounds[0]} to {bounds[1]} - 1 in {d}"
            )
        if bounds[1] - bounds[0] >= 1 << 63 or bounds[1] > _dtypes.iinfo(int64).max:
            raise ValueError(
                f"hop.random.randint: from {bounds[0]} to {bounds[1]} - 1 "
                "are more integers than can be drawn from"
            )
    if builtins.any(getattr(b, "ndim", 0) for b in bounds):
        drawn = _randint_between(key, dims, *[asarray(b, dtype=int64) for b in bounds])
    else:
        drawn = _call(
            _CODE["randint"],
            (key, *[b if isinstance(b, builtins.int) else astype(b, int64) for b in bounds]),
            _type(int64, dims or ()),
        )
    return drawn if d is int64 else astype(drawn, d)


def bernoulli(key, p=0.5, shape=None):
    """True with probability p, a number or an array; the shape is that of p when none is given.

    >>> hop.random.bernoulli(hop.random.key(0), 0.0, (3,))
    Array([False, False, False], dtype=bool)
    """
    key, p = _key(key, "bernoulli"), asarray(p)
    p = p if p.dtype.kind == "f" else astype(p, float32)
    dims = p.shape if shape is None else _dims(shape)
    p = p if not p.ndim else _ops.broadcast_to(p, dims)
    return _call(_CODE["bernoulli"], (key, p), _text(dims))


def permutation(key, x, axis=0):
    """0 to x - 1 in random order; of an array the slices along the axis. All orders are equally likely;
    slices stay whole.

    >>> hop.sort(hop.random.permutation(hop.random.key(0), 5))
    Array([0, 1, 2, 3, 4], dtype=int64)
    """
    key, x = _key(key, "permutation"), _count(x)
    if isinstance(x, _shapes.WHOLE):
        return _call(_CODE["permutation"], (key,), _shapes.text(x))
    x = asarray(x)
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"hop.random.permutation: there is no axis {axis} in {x._type}")
    return _call(_CODE["shuffle"], (key, x), None, axis % x.ndim)


def _categorical(key, logits, *, dims, axis, d):
    return _ops.argmax(astype(logits, d) + _gumbel(key, dims=dims, d=d), axis=axis)


def categorical(key, logits, axis=-1, shape=None):
    """Positions along the axis, drawn with probabilities softmax(logits). shape is that of the result, by
    default the shape of logits without the axis, to which that must broadcast.

    >>> hop.random.categorical(hop.random.key(0), hop.asarray([-hop.inf, 0.0, -hop.inf]), shape=(3,))
    Array([1, 1, 1], dtype=int64)
    """
    key, logits = _key(key, "categorical"), asarray(logits)
    if not -logits.ndim <= axis < logits.ndim:
        raise ValueError(f"hop.random.categorical: there is no axis {axis} in {logits._type}")
    logits = _ops.moveaxis(logits, axis, -1)
    batch, n = logits.shape[:-1], logits.shape[-1]
    out = batch if shape is None else _dims(shape)
    if not _broadcasts(batch, out):
        raise ValueError(
            f"hop.random.categorical: the shape of the logits without the axis, {batch}, "
            f"does not broadcast to {out}"
        )
    if _shapes.lacks_elements((n,)):
        raise ValueError("hop.random.categorical: there is nothing to choose from")
    d = logits.dtype if logits.dtype in (float32, float64) else float32
    return _draw(_categorical, key, logits, dims=(*out, n), axis=-1, d=d)


def _weighted(key, p, *, dims, d):
    total = _ops.cumulative_sum(p)
    at = _ops.searchsorted(total, _unit(key, dims, d) * total[-1], side="right")
    return _ops.minimum(at, p.shape[0] - 1)


def _weighted_once(key, p, *, n, d):
    return _ops.argsort(_ops.log(p) + _gumbel(key, dims=p.shape, d=d), descending=True)[:n]


def choice(key, a, shape=(), replace=True, p=None, axis=0):
    """Slices of an array along an axis, or integers below a, drawn with or without repetition; p gives
    them weights, which need not sum to 1.

    >>> hop.random.choice(hop.random.key(0), hop.asarray([10, 20, 30]), (3,), p=hop.asarray([0.0, 1.0, 0.0]))
    Array([20, 20, 20], dtype=int64)
    """
    key, dims, a = _key(key, "choice"), _dims(shape), _count(a)
    whole = isinstance(a, _shapes.WHOLE)
    a = a if whole else asarray(a)
    if not whole and not -a.ndim <= axis < a.ndim:
        raise ValueError(f"hop.random.choice: there is no axis {axis} in {a._type}")
    n, wanted = a if whole else a.shape[axis], math.prod(dims)
    none = _shapes.equal(wanted, 0)
    if not none and _shapes.lacks_elements((n,)):
        raise ValueError("hop.random.choice: there is nothing to choose from")
    if not replace and _shapes.holds(wanted, ">", n):
        raise ValueError(f"hop.random.choice: {wanted} of {n} without repetition")
    if p is not None:
        p = asarray(p)
        if _shapes.shapes_differ(p.shape, (n,)):
            raise ValueError(f"hop.random.choice: p must have one weight for each of {n}, found {p._type}")
        p = p if p.dtype in (float32, float64) else astype(p, float32)
        at = (
            _draw(_weighted, key, p, dims=dims, d=p.dtype)
            if replace
            else _draw(_weighted_once, key, p, n=wanted, d=p.dtype)
        )
    else:
        at = randint(key, (wanted,), 0, n) if replace and not none else permutation(key, n)[:wanted]
    at = _ops.reshape(at, dims)
    if whole:
        return at
    axis %= a.ndim
    taken = _ops.take(a, _ops.reshape(at, (wanted,)), axis=axis)
    return _ops.reshape(taken, (*a.shape[:axis], *dims, *a.shape[axis + 1 :]))
