"""check_grads: derivatives against differences."""

__all__ = ["check_grads"]

import math

from . import _arguments, _dtypes, random, tree
from ._errors import Error, GradientError, InvalidError
from ._jit import jit
from ._ops import abs, asarray, astype, max, sum
from ._transforms import jvp, vjp

# By dtype: the step of a difference, and how far it may be from the derivative beside the largest element.
_STEPS = {"float64": 1e-5, "float32": 5e-3, "float16": 0.1, "bfloat16": 0.2}
_BOUNDS = {"float64": 1e-5, "float32": 2e-2, "float16": 0.15, "bfloat16": 0.3}
_MODES = {"fwd": "forward", "rev": "reverse"}


def check_grads(f, args, order=2, modes=("fwd", "rev"), atol=None, rtol=None, eps=None):
    """Holds derivatives of f at args, a tuple of arguments, against differences, and raises GradientError
    where they disagree.

    modes: "fwd" (jvp), "rev" (vjp), or both. order, 1 to 8: how many derivatives: with 2, the derivatives
    of both modes are differentiated again in both modes. Arguments and results are trees; derivatives are
    taken for floats, all else is passed on as it is. Everything is computed in float64 where f allows
    that, else in the dtypes that it is given. A difference may be atol + rtol * (the largest element)
    away; the step is eps. Left out, they are chosen by dtype. At a kink (of abs, max, where, …)
    differences and derivatives rightly disagree: choose a point beside it.

    It gives nothing when all is well. Functions that allow it are tried in float64.

    >>> hop.check_grads(lambda x: hop.sum(hop.sin(x) ** 2), (hop.asarray([0.5, 1.0]),), order=2)
    """
    _arguments.function("check_grads: f", f)
    if not isinstance(args, (tuple, list)):
        raise _arguments.wrong("check_grads: args", "a tuple of arguments", args)
    modes = (modes,) if isinstance(modes, str) else modes
    if (
        not isinstance(modes, (tuple, list))
        or not modes
        or any(not isinstance(m, str) or m not in _MODES for m in modes)
    ):
        raise _arguments.wrong("check_grads: modes", '"fwd", "rev" or both', modes)
    _arguments.integer("check_grads: order", order, 1, 8, "an order from 1 to 8")
    for name, x in (("atol", atol), ("rtol", rtol), ("eps", eps)):
        if x is not None and not (_dtypes.is_number(x) and x > 0):
            raise _arguments.wrong(f"check_grads: {name}", "a positive number", x)
    level = _first_level(f, tuple(args))
    least = min([x.dtype for x in level.xs] + level.dtypes, key=lambda d: -_STEPS[d.name])
    bound = _BOUNDS[least.name]
    _Check(
        modes,
        order,
        bound if atol is None else atol,
        bound if rtol is None else rtol,
        _STEPS[least.name] if eps is None else eps,
    ).run(level, ())


class _Level:
    """A function of float arrays that gives a list of float arrays, where it is looked at, and what its
    arguments and results are called."""

    def __init__(self, function, xs, names, results, dtypes):
        self.function, self.xs, self.names, self.results, self.dtypes = function, xs, names, results, dtypes


def _is_float(x):
    return isinstance(x, float) or (hasattr(x, "dtype") and asarray(x).dtype.kind == "f")


def _first_level(f, args):
    leaves, treedef = tree.flatten(args)
    floats = [i for i, x in enumerate(leaves) if _is_float(x)]
    if not floats:
        raise InvalidError("check_grads: there are no floats among the arguments")
    paths = [path for path, _ in tree.leaves_with_path(args)]
    names = [tree.path_text(paths[i][1:], f"argument {paths[i][0]}") for i in floats]
    results = []

    def function(*xs):
        whole = list(leaves)
        for i, x in zip(floats, xs):
            whole[i] = x
        out = tree.flatten_with_path(f(*tree.unflatten(treedef, whole)))[0]
        kept = [(path, x) for path, x in out if _is_float(x)]
        results[:] = [tree.path_text(path, "result") for path, _ in kept]
        return [asarray(x) for _, x in kept]

    given = [asarray(leaves[i]) for i in floats]
    wide = [astype(x, _dtypes.float64) for x in given]
    for xs in (wide, given):
        try:
            dtypes = [y.dtype for y in jit(function)(*xs)]
        except (Error, TypeError, ValueError):  # a function that is made for other dtypes says so
            if xs is given:
                raise
            continue
        if xs is given or all(d is _dtypes.float64 for d in dtypes):
            break
    if not dtypes:
        raise InvalidError("check_grads: there are no floats among the results")
    return _Level(function, xs, names, list(results), dtypes)


def _numbers(x):
    return x.tolist() if x.ndim else [x.item()]


class _Check:
    def __init__(self, modes, order, atol, rtol, eps):
        self.modes, self.order, self.atol, self.rtol, self.eps = modes, order, atol, rtol, eps
        self.draws = 0

    def direction(self, like):
        """Elements between 1/2 and 1, of either sign."""
        self.draws += 1
        size = random.uniform(
            random.key(self.draws), like.shape, dtype=_dtypes.float32, minval=-1.0, maxval=1.0
        )
        return astype((abs(size) + 1) / 2 * (2 * astype(size > 0, _dtypes.float32) - 1), like.dtype)

    def run(self, level, before):
        """before: the modes of the derivatives that the function is made of."""
        level.values = jit(level.function)
        vs = [self.direction(x) for x in level.xs]
        cts = [self.direction(y) for y in level.values(*level.xs)]
        level.shapes = [y.shape for y in cts]
        if "fwd" in self.modes:
            self.forward(level, vs, before)
        if "rev" in self.modes:
            self.reverse(level, vs, cts, before)
        if len(before) + 1 == self.order:
            return
        f = level.function
        for mode in self.modes:
            if mode == "fwd":
                names = [f"the tangent of {name}" for name in level.results]
                next_level = _Level(lambda *xs: jvp(f, xs, vs)[1], level.xs, level.names, names, level.dtypes)
            else:
                names = [f"the cotangent of {name}" for name in level.names]
                next_level = _Level(
                    lambda *xs: list(vjp(f, *xs)[1](cts)),
                    level.xs,
                    level.names,
                    names,
                    [x.dtype for x in level.xs],
                )
            self.run(next_level, (*before, mode))

    def difference(self, level, vs, eps=None, sides=(1, -1)):
        """Of the results along a direction, as float64; sides (1, 0) is the slope ahead."""
        eps = self.eps if eps is None else eps
        ends = [
            level.values(
                *[
                    x if not side else x + astype(asarray(side * eps, dtype=_dtypes.float64), x.dtype) * v
                    for x, v in zip(level.xs, vs)
                ]
            )
            for side in sides
        ]
        return [
            (astype(a, _dtypes.float64) - astype(b, _dtypes.float64)) / ((sides[0] - sides[1]) * eps)
            for a, b in zip(*ends)
        ]

    def off(self, found, expected, scale):
        """Whether two numbers differ by more than they may. NaN equals NaN."""
        if math.isnan(found) or math.isnan(expected):
            return math.isnan(found) != math.isnan(expected)
        return found != expected and not math.fabs(found - expected) <= self.atol + self.rtol * scale

    def forward(self, level, vs, before):
        """Tangents along a direction: of all arguments together, and where they are wrong along each
        alone, to name it."""
        push = jit(lambda xs, vs: jvp(level.function, xs, vs)[1])
        wrong = self.forward_part(level, push, vs, range(len(vs)))
        if not wrong:
            return
        whose = ""
        for i in range(len(vs)) if len(vs) > 1 else ():
            alone = self.forward_part(level, push, vs, [i])
            if alone:
                wrong, whose = alone, f" along {level.names[i]}"
                break
        k, i, found, expected, part = wrong
        place = level.results[k] + _position(i, level.shapes[k]) + whose
        raise self.error(
            "fwd",
            before,
            place,
            found,
            expected,
            self.kink(level, part, lambda slopes: _numbers(slopes[k].reshape((-1,)))[i]),
        )

    def forward_part(self, level, push, vs, which):
        part = [v if i in which else v * 0 for i, v in enumerate(vs)]
        for k, (found, expected) in enumerate(
            zip(push(tuple(level.xs), tuple(part)), self.difference(level, part))
        ):
            flat, wanted = astype(found, _dtypes.float64).reshape((-1,)), expected.reshape((-1,))
            scale = max(abs(wanted)).item() if wanted.size else 0.0
            for i, (a, b) in enumerate(zip(_numbers(flat), _numbers(wanted))):
                if self.off(a, b, scale):
                    return k, i, a, b, part
        return None

    def reverse(self, level, vs, cts, before):
        """Products of the cotangents with a direction: of all arguments together, and where they are wrong
        of each alone."""
        gradients = jit(lambda xs, cts: list(vjp(level.function, *xs)[1](list(cts))))(
            tuple(level.xs), tuple(cts)
        )
        if not self.reverse_part(level, vs, cts, gradients, range(len(vs))):
            return
        for i in [[i] for i in range(len(vs))] + [range(len(vs))]:
            wrong = self.reverse_part(level, vs, cts, gradients, i)
            if wrong:
                found, expected, part = wrong
                place = level.names[i[0]] if len(i) == 1 else "all arguments together"
                raise self.error(
                    "rev",
                    before,
                    place,
                    found,
                    expected,
                    self.kink(level, part, lambda slopes: _product(cts, slopes)[0]),
                )

    def reverse_part(self, level, vs, cts, gradients, which):
        part = [v if i in which else v * 0 for i, v in enumerate(vs)]
        found, size = _product([part[i] for i in which], [gradients[i] for i in which])
        expected, other = _product(cts, self.difference(level, part))
        return (found, expected, part) if self.off(found, expected, size if size > other else other) else None

    def kink(self, level, vs, pick):
        """What shows that the function is not smooth there: slopes ahead and behind, close by, that
        differ, or differences that change with the step."""
        ahead, behind = [pick(self.difference(level, vs, self.eps / 8, sides)) for sides in ((1, 0), (0, -1))]
        if self.off(ahead, behind, math.fabs(ahead) + math.fabs(behind)):
            return (
                f"; the slopes on the two sides are {behind:.6g} and {ahead:.6g}: "
                "there is a kink, where differences say nothing. Choose a point beside it"
            )
        wide, narrow = [pick(self.difference(level, vs, eps)) for eps in (self.eps, self.eps / 8)]
        if self.off(wide, narrow, 8 * math.fabs(wide)):
            return (
                f"; with a step an eighth as long differences give {narrow:.6g}: "
                "there is a jump or a kink, or the step is too long. Choose a point beside it, or another eps"
            )
        return ""

    def error(self, mode, before, place, found, expected, kink):
        what = " of ".join(f"the {_MODES[m]} derivative" for m in reversed((*before, mode)))
        hint = kink or "; if f has a kink there (abs, max, where, …), choose a point beside it"
        return GradientError(
            f"check_grads: order {len(before) + 1}, mode {mode!r}: {what} is wrong for {place}: "
            f"found {found:.9g}, differences give {expected:.9g} "
            f"(atol={self.atol:g}, rtol={self.rtol:g}, eps={self.eps:g}){hint}",
            mode, len(before) + 1, place, found, expected,
        )  # fmt: skip


def _product(xs, ys):
    """The sum of the products of their elements, and how large the terms are."""
    terms = [astype(x, _dtypes.float64) * astype(y, _dtypes.float64) for x, y in zip(xs, ys)]
    return math.fsum(sum(t).item() for t in terms), math.fsum(sum(abs(t)).item() for t in terms)


def _position(i, shape):
    """[2, 3] for an element's number."""
    if not shape:
        return ""
    at = []
    for n in reversed(shape):
        i, k = divmod(i, n)
        at.append(k)
    return f"[{', '.join(map(str, reversed(at)))}]"
