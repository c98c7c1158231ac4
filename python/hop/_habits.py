"""Calls that a function does not take: what its TypeError says. Arguments that NumPy, JAX and PyTorch have
and hop lacks are explained by one table."""

import builtins
import inspect
import re

from ._arguments import _meant, place

_CLIPPED = "indices beyond the ends are brought into range, as with mode='clip'; else give indices % n"

# What to do instead of an argument; of functions that differ, by the function's name, others under "".
# {f} is the function, {v} what was given.
_RULES = {
    "aweights": "multiply the observations by the roots of the weights",
    "bias": "use correction=0 where it is true, correction=1 where it is not",
    "edge_order": "at the ends there are differences of one neighbour, as with edge_order=1: leave it out",
    "fweights": "repeat the observations with hop.repeat",
    "axis": {"unique": "give x[…] of one line at a time; whole slices are not compared"},
    "left": {"interp": "use hop.where(x < xp[0], left, hop.interp(x, xp, fp))"},
    "right": {"interp": "use hop.where(x > xp[-1], right, hop.interp(x, xp, fp))"},
    "period": {"interp": "give x % period, and the points of one period more at each end"},
    "a_max": "use max={v}",
    "a_min": "use min={v}",
    "assume_a": "there is one method for all matrices: leave it out",
    "assume_unique": "leave it out",
    "axis1": "bring the axes to the end with hop.moveaxis first; {f} reads the last two",
    "axis2": "bring the axes to the end with hop.moveaxis first; {f} reads the last two",
    "casting": "results have the dtype that promotion gives; convert the operands with x.astype(dtype)",
    "compute_uv": "hop.linalg.svdvals gives the singular values alone",
    "copy": "arrays are values, so nothing needs a copy: leave it out",
    "ddof": "use correction={v}",
    "device_type": "there is one device, the CPU: leave it out",
    "dim": "use axis={v}",
    "dtype": "convert what comes out, hop.{f}(…).astype(dtype), or the operands",
    "generator": "random numbers come from a key: hop.random.key(seed)",
    "hermitian": "use hop.linalg.eigh for symmetric matrices",
    "high": "use maxval={v}",
    "initial": {
        "": "apply it to what comes out", "sum": "use hop.sum(x) + initial",
        "prod": "use hop.prod(x) * initial", "max": "use hop.maximum(hop.max(x), initial)",
        "min": "use hop.minimum(hop.min(x), initial)",
    },
    "interpolation": "between two elements there is a straight line, as with 'linear': leave it out",
    "keepdim": "use keepdims={v}",
    "kind": "sorting is stable: leave it out",
    "like": "there is one class of arrays: leave it out",
    "loc": "add it to what comes out",
    "low": "use minval={v}",
    "method": {
        "": "there is one method: leave it out",
        "quantile": "between two elements there is a straight line, as with method='linear': leave it out",
        "searchsorted": "there is one method: leave it out",
    },
    "mode": {"": "there is one mode: leave it out", "take": _CLIPPED, "take_along_axis": _CLIPPED},
    "ndmin": "use hop.atleast_1d, hop.atleast_2d or hop.reshape",
    "newshape": "use shape={v}",
    "num_segments": "use hop.zeros(n).at[ids].add(x)",
    "optimize": "products are ordered by the compiler: leave it out",
    "order": {
        "": "elements stand in row-major order: permute the axes with hop.permute_dims for another one",
        "sort": "arrays have no fields: leave it out", "argsort": "arrays have no fields: leave it out",
    },
    "out": "arrays are values: use what hop.{f} gives; x[…] = hop.{f}(…) makes x hold it",
    "overwrite_a": "nothing is overwritten: leave it out",
    "overwrite_b": "nothing is overwritten: leave it out",
    "overwrite_input": "nothing is overwritten: leave it out",
    "overwrite_x": "nothing is overwritten: leave it out",
    "p": {"": "use hop.{f} without it", "vector_norm": "use ord={v}", "matrix_norm": "use ord={v}"},
    "pin_memory": "leave it out",
    "precision": "products have the precision of their dtype: leave it out, or use x.astype(hop.float64)",
    "preferred_element_type": "use dtype={v} of hop.matmul, hop.einsum, hop.tensordot or hop.vecdot",
    "promote_integers": "small integers are summed as int64 or uint64; dtype= says otherwise",
    "rcond": "use rtol={v}",
    "requires_grad": "hop.grad says what is differentiated: leave it out",
    "retstep": "the step is (stop - start) / (num - 1), or / num without the endpoint",
    "return_counts": "use hop.unique_counts or hop.unique_all",
    "return_index": "use hop.unique_all",
    "return_inverse": "use hop.unique_inverse or hop.unique_all",
    "scale": "multiply what comes out by it",
    "signature": "leave it out",
    "subok": "there is one class of arrays: leave it out",
    "tol": "use rtol, a tolerance relative to the largest singular value",
    "unbiased": "use correction=1 where it is true, correction=0 where it is not",
    "unique_indices": "leave it out",
    "indices_are_sorted": "leave it out",
    "value": {"": "give the number by position", "pad": "use constant_values={v}"},
    "weights": "use hop.average, or multiply by them",
    "where": {
        "": "use hop.where(mask, hop.{f}(…), other)", "sum": "use hop.sum(hop.where(mask, x, 0))",
        "prod": "use hop.prod(hop.where(mask, x, 1))", "max": "use hop.max(hop.where(mask, x, -hop.inf))",
        "min": "use hop.min(hop.where(mask, x, hop.inf))", "mean": "use hop.average(x, weights=mask)",
        "any": "use hop.any(hop.where(mask, x, False))", "all": "use hop.all(hop.where(mask, x, True))",
        "var": "use hop.var(x[mask])", "std": "use hop.std(x[mask])",
    },
}
_RANDOM = {
    "size": "use shape={v}", "a": "give it by position", "n": "give it by position",
    "dtype": "convert what comes out with x.astype(dtype)",
}


def rule(function, name, value):
    """What to do instead of giving a function an argument of this name; None when nobody knows."""
    found = _RANDOM.get(name) if function.__module__ == "hop.random" else None
    found = found or _RULES.get(name)
    if isinstance(found, dict):
        found = found.get(function.__name__) or found.get("")
    other = re.match(r"use (\w+)=", found or "")
    if other and other[1] not in inspect.signature(function).parameters:
        return None
    return found.format(f=function.__name__, v=_shown(value)) if found else None


def _shown(value):
    text = repr(value)
    return text if len(text) <= 40 and "\n" not in text else "…"


def explain(function, given, names, values):
    """What is wrong with a call that the function does not take; None when Python says it as well."""
    signature, called = inspect.signature(function), function.__name__
    if called == "__init__":  # of a class, which is what the user has called
        signature = signature.replace(parameters=[*signature.parameters.values()][1:])
        called, given = function.__qualname__.split(".")[-2], given[1:]
    parameters = signature.parameters
    by_position = [p for p in parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    said = (
        _wrong_name(function, parameters, by_position[: len(given)], names or (), values)
        or _too_many(parameters, by_position, given)
        or _missing(function, by_position[len(given) :], names or ())
    )
    return f"{place()}{called}: {said}; it is {called}{signature}" if said else None


def _wrong_name(function, parameters, filled, names, values):
    named = [p.name for p in parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    if builtins.any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return None
    for name, value in zip(names, values):
        found = parameters.get(name)
        if found is not None and found.kind is found.POSITIONAL_ONLY:
            return f"give {name} by position, not by name"
        if found is not None and builtins.any(p.name == name for p in filled):
            return f"{name} is given twice, by position and by name"
        if name not in named:
            return (
                f"there is no argument {name!r}: {rule(function, name, value) or _names_there(name, named)}"
            )
    return None


def _names_there(name, named):
    return (f"those given by name are {', '.join(named)}" if named else "all are given by position") + _meant(
        name, named
    )


def _too_many(parameters, by_position, given):
    if len(given) <= len(by_position) or builtins.any(
        p.kind is p.VAR_POSITIONAL for p in parameters.values()
    ):
        return None
    named = [p.name for p in parameters.values() if p.kind is p.KEYWORD_ONLY]
    more = given[len(by_position) :]
    if len(more) == len(named) == 1:
        return f"pass {named[0]} by name: {named[0]}={_shown(more[0])}"
    count = f"it takes {len(by_position)} arguments by position, found {len(given)}"
    return f"{count}: pass the others by name: {', '.join(n + '=' for n in named)}" if named else count


# What a call without some arguments means elsewhere.
_SHORTER = {"where": "hop.nonzero(condition) says where it holds"}


def _missing(function, by_position, names):
    missing = [p.name for p in by_position if p.default is p.empty and p.name not in names]
    if not missing:
        return None
    advice = f" ({_SHORTER[function.__name__]})" if function.__name__ in _SHORTER else ""
    return f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing{advice}"
