"""check_operator: whether an operator is what its signature and its rules say."""

__all__ = ["OperatorReport", "check_operator"]

from . import _arguments, tree
from ._arguments import place
from ._check import check_grads
from ._errors import GradientError, InvalidError, OperatorError
from ._jit import jit
from ._operator import Operator, values_of
from ._ops import asarray, stack
from ._transforms import vmap

_TESTS = ("schema", "mutation", "purity", "jit", "batching", "rules")


class OperatorReport:
    """What hop.check_operator tried: passed (names of tests), failed (what was wrong, by test) and skipped
    (why, by test).

    >>> import numpy as np
    >>> square = hop.operator("(x: f32[N]) -> f32[N]", lambda x: x * x)
    >>> hop.check_operator(square, (hop.ones(3),)).passed
    ('schema', 'mutation', 'purity', 'jit', 'batching')
    """

    __module__ = "hop"

    def __init__(self, name, passed, failed, skipped):
        self.name, self.passed, self.failed, self.skipped = name, passed, failed, skipped

    def __repr__(self):
        lines = [f"operator {self.name!r}:"]
        lines += [f"  {test}: well" for test in self.passed]
        lines += [f"  {test}: {said}" for test, said in self.failed.items()]
        lines += [f"  {test}: not tried, {why}" for test, why in self.skipped.items()]
        return "\n".join(lines)


class _Wrong(Exception):
    """A test failed."""


class _Skipped(Exception):
    """A test does not apply."""


def check_operator(op, args, *, tests=_TESTS, atol=None, rtol=None, raise_exception=True):
    """Tries an operator on sample arguments, a tuple, and raises hop.OperatorError with everything that is
    wrong; gives an OperatorReport.

    - "schema": results have the dtypes and shapes of the signature, and every element of an `out` is written
    - "mutation": a call changes its `mut` arguments alone
    - "purity": two calls with the same arguments give the same, unless its effect is "io"
    - "jit": compiled, portable and interpreted programs give what a plain call gives
    - "batching": vmap gives what a loop over the lanes gives
    - "rules": derivatives agree with differences, in forward and in reverse mode; atol, rtol as for
      hop.check_grads

    raise_exception=False: the report alone says what failed.

    >>> import numpy as np
    >>> @hop.operator("(x: f32[N]) -> f32[N]")
    ... def cube(x):
    ...     return x**3
    >>> cube.defvjp(None, lambda needs, g: (3 * needs[0][0] ** 2 * g,)) and None
    >>> hop.check_operator(cube, (hop.asarray([0.5, 1.0]),)).failed
    {}
    """
    if not isinstance(op, Operator):
        raise _arguments.wrong("check_operator: op", "an operator, as hop.operator makes them", op)
    if not isinstance(args, (tuple, list)):
        raise _arguments.wrong("check_operator: args", "a tuple of arguments", args)
    if any(p.object is not None for p in op._signature.params):
        raise InvalidError(
            f"{place()}check_operator: {op.name} takes an object, and each call would find it as the one "
            "before has left it"
        )
    tests = (tests,) if isinstance(tests, str) else tests
    if not isinstance(tests, (tuple, list)) or any(t not in _TESTS for t in tests):
        raise _arguments.wrong("check_operator: tests", f"some of {', '.join(_TESTS)}", tests)
    _arguments.flag("check_operator: raise_exception", raise_exception)
    check = _Check(op, tuple(args), atol, rtol)
    passed, failed, skipped = [], {}, {}
    for test in tests:
        try:
            getattr(check, test)()
            passed.append(test)
        except _Skipped as why:
            skipped[test] = str(why)
        except _Wrong as error:
            failed[test] = str(error)
        except Exception as error:  # of the function, or of hop about what it gave
            failed[test] = f"{type(error).__name__}: {error}"
        if test == "schema" and failed:
            break  # what follows would say the same
    report = OperatorReport(op.name, tuple(passed), failed, skipped)
    if failed and raise_exception:
        lines = "\n  ".join(f"{test}: {said}" for test, said in failed.items())
        raise OperatorError(f"{place()}check_operator: operator {op.name!r}:\n  {lines}", report)
    return report


def _same(a, b, exact=True):
    """Where two trees of arrays differ, as text; None: nowhere."""
    for (path, x), y in zip(tree.leaves_with_path(a), tree.leaves(b)):
        where = tree.path_text(path, "result")
        if x._type != y._type:
            return f"{where} is {x._type}, and {y._type}"
        for i, (p, q) in enumerate(zip(_numbers(x), _numbers(y))):
            near = not exact and abs(p - q) <= 1e-5 * (1 + abs(p))
            if p != q and not (p != p and q != q) and not near:
                return f"element {i} of {where} is {p!r}, and {q!r}"
    return None


def _numbers(x):
    return x.reshape((-1,)).tolist()


class _Check:
    def __init__(self, op, args, atol, rtol):
        self.op, self.atol, self.rtol = op, atol, rtol
        given = values_of(op._bound(args, {}))
        leaves, self.treedef = tree.flatten(given)
        self.leaves = [asarray(x, copy=True) for x in leaves]
        self.first = None

    def pure(self, *leaves):
        """A call as a function: (what it gives, new contents of `mut` arguments)."""
        own = tree.unflatten(self.treedef, [x._alias() for x in leaves])
        out = self.op(*own)
        updated = [x for p, x in zip(self.op._signature.operands, own) if p.kind == "m" and x is not None]
        return out, updated

    def copies(self):
        return [asarray(x, copy=True) for x in self.leaves]

    def schema(self):
        self.first = self.pure(*self.copies())
        outs = [p for p in self.op._signature.params if p.kind == "o"]
        if not outs or isinstance(self.op.function, int) or self.op._is_c:
            return
        filled = []
        for byte in (0x11, 0x7E):
            self._call_with_outs(byte, filled)
        if filled[0] != filled[1]:
            names = ", ".join(p.name for p, a, b in zip(outs, *filled) if a != b)
            raise _Wrong(f"elements of {names} are not written: an `out` array holds anything before")

    def _call_with_outs(self, byte, filled):
        """Calls the function itself, with arrays for `out`s that are filled with a byte."""
        import numpy

        given = iter(tree.unflatten(self.treedef, self.leaves))
        n = len(self.op._signature.results)
        made = self.first[0] if isinstance(self.first[0], tuple) else (self.first[0],)
        outs, arguments = iter(made[n:]), []
        kept = []
        for p in self.op._signature.params:
            if p.kind == "o":
                like = numpy.asarray(next(outs))
                array = numpy.frombuffer(bytearray([byte]) * like.nbytes, like.dtype).reshape(like.shape)
                kept.append(array)
                arguments.append(array)
            else:
                arguments.append(tree.map(lambda x: numpy.array(x), next(given)))
        self.op.function(*arguments)
        filled.append([a.tobytes() for a in kept])

    def mutation(self):
        own = self.copies()
        before = [asarray(x, copy=True) for x in own]
        given = tree.unflatten(self.treedef, own)
        self.op(*given)
        for p, now, old in zip(self.op._signature.operands, given, tree.unflatten(self.treedef, before)):
            said = None if p.kind == "m" or now is None else _same(old, now)
            if said:
                raise _Wrong(f"a call writes to {p.name}, which is not mut: {said} after it")

    def purity(self):
        if self.op._effect in ("io", "unordered"):
            raise _Skipped(f"its effect is {self.op._effect}")
        said = _same(self.pure(*self.copies()), self.pure(*self.copies()))
        if said:
            raise _Wrong(
                f"two calls with the same arguments differ: {said}; say effect='io' if that is meant"
            )

    def jit(self):
        if self.op._effect in ("io", "unordered"):
            raise _Skipped(f"its effect is {self.op._effect}")
        wanted = self.pure(*self.copies())
        for how in ({}, {"portable": True}):
            said = _same(wanted, jit(self.pure, **how)(*self.copies()))
            if said:
                raise _Wrong(f"under jit{' (portable)' if how else ''} it differs from a plain call: {said}")

    def batching(self):
        if self.op._effect in ("io", "unordered"):
            raise _Skipped(f"its effect is {self.op._effect}")
        if not self.leaves:
            raise _Skipped("it has no operands")
        if any("?" in s for _, sizes in self.op._signature.results for s in sizes):
            raise _Skipped("it finds sizes of its results")
        wanted = [self.pure(*self.copies()) for _ in range(3)]
        wanted = tree.map(lambda *xs: stack(list(xs)), *wanted)
        every = [stack([x, x, x]) for x in self.leaves]
        said = _same(wanted, vmap(self.pure)(*every), exact="vmap" not in self.op._rules)
        for i in range(len(every)):
            if said:
                break
            axes = tuple([0 if k == i else None for k in range(len(every))])
            some = [x if a == 0 else y for x, y, a in zip(every, self.leaves, axes)]
            found = vmap(self.pure, in_axes=axes)(*some)
            said = _same(wanted, found, exact="vmap" not in self.op._rules)
        if said:
            raise _Wrong(f"under vmap it differs from a loop over the lanes: {said}")

    def rules(self):
        if "vjp" not in self.op._rules and "jvp" not in self.op._rules:
            raise _Skipped("it has no rule for derivatives")
        floats = [i for i, x in enumerate(self.leaves) if x.dtype.kind == "f"]

        def of_floats(*xs):
            whole = list(self.leaves)
            for i, x in zip(floats, xs):
                whole[i] = x
            return self.pure(*whole)

        try:
            check_grads(
                of_floats, tuple(self.leaves[i] for i in floats), order=1, atol=self.atol, rtol=self.rtol
            )
        except GradientError as error:
            raise _Wrong(str(error)) from None
