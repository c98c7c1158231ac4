"""Python's own functions as rewritten functions call them: those that ask for the truth of values, that go
over items, that make numbers of them, and those that call functions of the user's. The Python source of a
function of the standard library stands for the one in C."""

import builtins
import functools
import importlib.util
import itertools
import math
import operator
import sys
import types

from . import _arguments, _control, _core, _dtypes, _flow, _holders, _objects, _ops
from ._errors import InvalidError
from ._flow import asked
from ._flow_loops import Items
from ._sources import Enumerated, Mapped, Reversed, Source, Stack, Tail, Zipped, as_source, refused, traced
from ._sources import range as _range


def _any_traced(items):
    return builtins.any(map(traced, items))


# ---- attributes and items ----


def attribute(x, name):
    """x.name; a property of the user's is a function of theirs."""
    cls = type(x)
    if not isinstance(x, (_core.ArrayBase, type, types.ModuleType)) and cls.__module__ != "builtins":
        found = _objects.static_of(cls, name)
        if type(found) is property and type(found.fget) is types.FunctionType:
            return twin(found.fget)(x)
    return getattr(x, name)


def item(x, i):
    """x[i]; of a list by a traced number too."""
    if traced(i) and isinstance(x, (list, tuple)) and i.ndim == 0 and i.dtype.kind in "iu" and x:
        _ops.check(_ops.logical_and(i >= -len(x), i < len(x)), "IndexError: list index out of range")
        i = _ops.where(i < 0, i + len(x), i)
        for y in x[1:]:
            why = _flow.differ(x[0], y, loop=True)
            if why:
                raise refused(
                    "an item whose number only a run knows, of a list of different things: "
                    + (f"{why[0]} and {why[1]}{why[2]}" if isinstance(why, tuple) else why)
                )
        return _control.switch(i, [lambda y=y: y for y in x])
    if traced(i) and isinstance(x, dict):
        return _of_dict(x, i)
    if isinstance(x, _range) and traced(i):
        return x.at(i)
    method = _holders.own_method(x, "__getitem__")
    return twin(method)(i) if method else x[i]


def _of_dict(x, key):
    """The value of a key that only a run knows."""
    keys = list(x)
    _ops.check(_flow.contains(key, keys), "KeyError")
    found = x[keys[-1]]
    for k in reversed(keys[:-1]):
        found = _flow.choose(key == k, lambda k=k: x[k], lambda found=found: found)
    return found


# ---- patterns ----

_SEQUENCE, _MAPPING = 1 << 5, 1 << 6  # flags of types that match as such


def is_sequence(x, n, more):
    if isinstance(x, Stack):
        return len(x) >= n if more else len(x) == n
    return type(x).__flags__ & _SEQUENCE and (len(x) >= n if more else len(x) == n)


def as_list(x):
    return list(x)


def is_mapping(x, keys):
    return type(x).__flags__ & _MAPPING and builtins.all(k in x for k in keys)


def without(x, keys):
    return {k: v for k, v in x.items() if k not in keys}


_WHOLE = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)


def is_of_class(x, cls, n, names):
    if not isinstance(x, cls):
        return False
    return builtins.all(hasattr(x, name) for name in (*_positional(cls, n), *names) if name is not None)


def _positional(cls, n):
    if n == 1 and cls in _WHOLE:
        return [None]
    names = getattr(cls, "__match_args__", ())
    if n > len(names):
        raise TypeError(f"{cls.__name__}() accepts {len(names)} positional sub-patterns ({n} given)")
    return names[:n]


def class_part(x, cls, i):
    name = _positional(cls, i + 1)[i]
    return x if name is None else attribute(x, name)


# ---- numbers ----


def _number(x):
    """A traced value as the one number that Python would make of it."""
    if builtins.any(n != 1 for n in x.shape):
        raise TypeError(f"only an array of one element is a number, found {x._type}")
    return x.reshape(()) if x.ndim else x


def _real(x):
    """A real number; a whole one becomes what stands for one of Python's."""
    x = _number(x)
    return x if x.dtype.kind == "f" else _ops.astype(x, _dtypes.float64)._marked(True)


def _whole(x):
    return _ops.astype(x, _dtypes.int64)._marked(True)


def _float(*args):
    return _real(args[0]) if len(args) == 1 and traced(args[0]) else float(*args)


def _int(*args, **named):
    if len(args) == 1 and not named and traced(args[0]):
        x = _number(args[0])
        return _whole(_ops.trunc(x) if x.dtype.kind == "f" else x)
    return int(*args, **named)


def _bool(*args):
    return _flow._as_truth(args[0]) if len(args) == 1 else bool(*args)


def _pow(x, y, mod=None):
    if mod is None:
        return x**y if traced(x) or traced(y) else pow(x, y)
    return x**y % mod if _any_traced((x, y, mod)) else pow(x, y, mod)


def _len(x):
    if isinstance(x, _core.ArrayBase):
        return len(x)
    method = _holders.own_method(x, "__len__")
    return twin(method)() if method else len(x)


# ---- items ----


def _enumerate(over, start=0):
    source = as_source(over)
    return enumerate(over, start) if source is None else Enumerated(source, start)


def _zip(*overs, strict=False):
    sources = [as_source(x) for x in overs]
    if sources and builtins.all(s is not None for s in sources) and Zipped.can(sources):
        if strict and builtins.any(s.n != sources[0].n for s in sources):
            raise ValueError("zip(): the arguments have different lengths")
        return Zipped(sources)
    return zip(*overs, strict=strict)


def _reversed(x):
    source = as_source(x)
    if source is None and isinstance(x, _core.ArrayBase):
        return iter(list(x)[::-1])
    return reversed(x) if source is None else Reversed(source)


def _map(f, *overs):
    f = twin(f)
    if len(overs) == 1 and as_source(overs[0]) is not None:
        return Mapped(f, as_source(overs[0]))
    return map(f, *overs)


def _filter(f, over):
    line = _core.place()[1]

    def keeps(x):
        return _flow.known(x if f is None else twin(f)(x), "a filter", line)

    return filter(keeps, over)


def _made_range(*args):
    return _range(*args) if _any_traced(args) else builtins.range(*args)


def _reduce(f, over, *initial):
    f, source = twin(f), as_source(over)
    if source is None:
        return functools.reduce(f, over, *initial)
    total = initial[0] if initial else _ABSENT
    return _folded(source, total, f, "reduce")


_ABSENT = object()


def _folded(source, total, f, what):
    """total = f(total, item) for each item, as a loop."""
    if total is _ABSENT:
        if isinstance(source.n, int) and source.n < 1:
            raise TypeError(f"{what}() of an empty sequence with no initial value")
        total, at_least = source.at(0), 1
    else:
        at_least = 0

    def body(item):
        nonlocal total
        total = f(total, item)

    def read():
        return (total,)

    def write(values):
        nonlocal total
        (total,) = values

    over = source
    if at_least:
        over = Tail(source)
    _flow.for_(over, body, read, write, ("total",), _core.place()[1])
    return total


def _sum(over, /, start=0):
    source = as_source(over)
    if isinstance(over, Items):
        total = start
        for part in over.parts():
            total = _added(part, total, over)
        return total
    if source is None:
        return sum(over, start)
    return _folded(source, start, operator.add, "sum")


def _added(part, total, over):
    """total and the items of a part, which filters may leave out."""
    return filtered(part, lambda items: sum(items, total), lambda: total, over)


def filtered(part, then, other, over, holding=0):
    """then(the items of a part of the generator expression over), other() where a filter leaves them out.
    holding: how many filters are known to hold."""
    state = _flow.State(tuple, len, (), (part,))
    state.watch()
    before, noted = _flow._thread.filters, state.get()
    _flow._thread.filters = None if over.several else _flow.Filters(over.make, holding)
    try:
        items = list(part())
    except _flow.Filtered as found:
        test = found.test
    else:
        return then(items)
    finally:
        _flow._thread.filters = before
    if state.differs(noted):
        raise refused("a filter, of which only a run knows whether it holds, changes a variable or a "
                      "container: write a loop with an if")  # fmt: skip
    return _flow._pick(test, lambda: filtered(part, then, other, over, holding + 1), other, part)


def _extreme(name, before):
    plain = getattr(builtins, name)

    def extreme(*args, key=None, **named):
        if len(args) == 1 and as_source(args[0]) is not None:
            source, more = as_source(args[0]), named
            if key is None and not more:
                return _folded(source, _ABSENT, two, name)
        items = list(args[0]) if len(args) == 1 else list(args)
        key = None if key is None else twin(key)
        keys = items if key is None else [key(x) for x in items]
        if not items or not _any_traced(keys):
            given = {"default": named["default"]} if "default" in named else {}
            if builtins.any(k != "default" for k in named) or not items:
                return plain(items if len(args) == 1 else (), **named) if args else plain()
            if key is None:
                return plain(items, **given)
            return items[keys.index(plain(keys))]
        best, held = items[0], keys[0]
        for x, k in zip(items[1:], keys[1:]):
            better = before(k, held)
            best = _chosen(better, x, best)
            held = best if key is None else _chosen(better, k, held)
        return best

    def two(a, b):
        return _chosen(before(b, a), b, a)

    return extreme


def _chosen(test, x, y):
    test = asked(test)
    if not traced(test):
        return x if test else y
    return _flow._pick(test, lambda: x, lambda: y)


def _quantified(join, of_array, decisive):
    """any or all, as Python goes through items: up to the first one that is known to decide."""

    def quantified(items):
        if traced(items) and items.ndim:
            return of_array(items)
        source = as_source(items)
        if source is not None:
            return _searched(source, decisive)
        out = not decisive
        for part in _parts(items):
            out = join(lambda before=out: before, part)
            if out is decisive:
                break
        return out

    def _parts(items):
        """What computes each item, or whether one of several decides."""
        if not isinstance(items, Items):
            return [lambda x=x: x for x in items]
        return (
            lambda part=part: filtered(part, quantified, lambda: not decisive, items)
            for part in items.parts()
        )

    return quantified


def _searched(source, decisive):
    """Whether the truth of an item is the decisive one: items behind it are not looked at."""
    found = False

    def body(item):
        nonlocal found
        said = _flow._as_truth(item)
        found = said if decisive else _flow.not_(said)

    def read():
        return (found,)

    def write(values):
        nonlocal found
        (found,) = values

    _flow.for_(source, body, read, write, ("found",), _core.place()[1], lambda: _flow.not_(found))
    return found if decisive else _flow.not_(found)


def _sorted(over, /, *, key=None, reverse=False):
    items = list(over)
    keys = items if key is None else [twin(key)(x) for x in items]
    if not _any_traced(keys):
        if key is None:
            return sorted(items, reverse=reverse)
        order = sorted(builtins.range(len(items)), key=keys.__getitem__, reverse=reverse)
        return [items[i] for i in order]
    keys = [_ops.asarray(k) for k in keys]
    if builtins.any(k.ndim for k in keys):
        raise InvalidError(f"{_arguments.place()}sorted: arrays have no order: sort numbers, or use hop.sort")
    by = _ops.stack(keys)
    if reverse:  # which keeps the order of equal ones
        order = len(items) - 1 - _ops.flip(_ops.argsort(_ops.flip(by, axis=0), stable=True), axis=0)
    else:
        order = _ops.argsort(by, stable=True)
    return [item(items, order[i]) for i in builtins.range(len(items))]


def _next(it, *default):
    if isinstance(it, Source):
        raise refused("next: of items of a loop, only a for can take them one by one")
    return next(it, *default)


def _takewhile(f, over):
    line = _core.place()[1]
    return itertools.takewhile(lambda x: _flow.known(twin(f)(x), "a filter", line), over)


def _dropwhile(f, over):
    line = _core.place()[1]
    return itertools.dropwhile(lambda x: _flow.known(twin(f)(x), "a filter", line), over)


def _isinstance(x, kinds):
    return issubclass(list, kinds) if isinstance(x, Stack) else isinstance(x, kinds)


def _type(*args, **named):
    return list if len(args) == 1 and isinstance(args[0], Stack) else type(*args, **named)


# ---- arrays of lists that loops have filled ----


def _of_stack(function):
    """A function of hop's that makes an array of a list."""

    def made(x, *rest, **named):
        plain = isinstance(x, Stack) and not rest and named.get("axis", 0) == 0
        if plain and isinstance(x._rows, _core.ArrayBase):
            named.pop("axis", None)
            return function(x._rows, **named) if named else x._rows
        return function(list(x) if isinstance(x, Stack) else x, *rest, **named)

    return made


def _of_list(function):
    def made(x, *rest, **named):
        return function(list(x) if isinstance(x, Stack) else x, *rest, **named)

    return made


# ---- math ----


def _math(function, *names, whole=False):
    """A function of math by those of hop."""

    def computed(*args):
        if not _any_traced(args):
            return function(*args)
        out = names[0](*[_real_or_same(x) for x in args])
        return _whole(out) if whole else out

    return computed


def _real_or_same(x):
    """What a function of real numbers is given: whole numbers as reals."""
    if traced(x):
        return _real(x)
    return float(x)


def _log(x, *base):
    if not _any_traced((x, *base)):
        return math.log(x, *base)
    out = _ops.log(_real_or_same(x))
    return out / _ops.log(_ops.asarray(_real_or_same(base[0]))) if base else out


_SAME = (
    "sqrt exp expm1 log1p log2 log10 sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh hypot "
    "copysign isnan isinf isfinite fmod degrees radians cbrt exp2 erf erfc lgamma"
).split()


def _math_table():
    import hop

    out = {}
    for name in _SAME:
        other = getattr(_ops, name, None) or getattr(hop, name, None)
        if other is not None and hasattr(math, name):
            out[getattr(math, name)] = _math(getattr(math, name), other)
    out[math.log] = _log
    out[math.fabs] = _math(math.fabs, _ops.abs)
    out[math.pow] = _math(math.pow, lambda x, y: x**y)
    for name in ("floor", "ceil", "trunc"):
        out[getattr(math, name)] = _math(getattr(math, name), getattr(_ops, name), whole=True)
    return out


# ---- the standard library ----


@functools.lru_cache(maxsize=64)
def _python_module(name):
    """The functions of a module of the standard library as its Python source defines them, without those in
    C."""
    spec = importlib.util.find_spec(name)
    if spec is None or not str(spec.origin).endswith(".py"):
        return {}

    def importing(wanted, *rest):
        if wanted == "_" + name:
            raise ImportError(wanted)
        return builtins.__import__(wanted, *rest)

    space = {"__name__": name, "__file__": spec.origin}
    space["__builtins__"] = {**vars(builtins), "__import__": importing}
    try:
        with open(spec.origin, "rb") as file:
            exec(compile(file.read(), spec.origin, "exec", dont_inherit=True), space)
    except Exception:  # a module that needs its other half
        return {}
    return space


_WITH_SOURCE = frozenset(("bisect", "heapq", "operator", "functools"))


def python_function(f):
    """The function in Python of which f is the one in C; None where there is none."""
    if type(f) is not types.BuiltinFunctionType:
        return None
    module = str(f.__module__).removeprefix("_")
    if module not in _WITH_SOURCE or module not in sys.stdlib_module_names:
        return None
    found = _python_module(module).get(f.__name__)
    return found if type(found) is types.FunctionType else None


# ---- calls ----


def _cached(f):
    """A function with a cache, which traced values cannot be keys of."""
    inner = twin(f.__wrapped__)

    def called(*args, **named):
        if _any_traced((*args, *named.values())):
            return inner(*args, **named)
        return f(*args, **named)

    return called


_CACHED = type(functools.lru_cache(maxsize=1)(lambda: None))


def builtin(f):
    """What stands for a function of Python's own, or in C; f itself where nothing does."""
    try:
        found = BUILTINS.get(f)
    except TypeError:  # it cannot be hashed
        return f
    return found or python_function(f) or f


def twin(f):
    """A function as rewritten code calls it."""
    other = builtin(f)
    if other is not f:
        return other if type(f) is not types.BuiltinFunctionType else _arguments.twins.of(other)
    return _cached(f) if type(f) is _CACHED else _arguments.twins.of(f)


BUILTINS = {
    builtins.range: _made_range, builtins.any: _quantified(_flow.either, _ops.any, True),
    builtins.all: _quantified(_flow.both, _ops.all, False),
    builtins.min: _extreme("min", operator.lt), builtins.max: _extreme("max", operator.gt),
    builtins.sum: _sum, builtins.enumerate: _enumerate, builtins.zip: _zip, builtins.reversed: _reversed,
    builtins.map: _map, builtins.filter: _filter, builtins.sorted: _sorted, builtins.next: _next,
    builtins.float: _float, builtins.int: _int, builtins.bool: _bool, builtins.pow: _pow,
    builtins.len: _len,
    builtins.isinstance: _isinstance, builtins.type: _type,
    functools.reduce: _reduce, operator.not_: _flow.not_, operator.truth: _bool,
    operator.contains: lambda y, x: _flow.contains(x, y),
    itertools.takewhile: _takewhile, itertools.dropwhile: _dropwhile,
}  # fmt: skip


def complete():
    """Adds functions that are there when the package is."""
    import hop

    BUILTINS.update(_math_table())
    for name in ("stack", "asarray", "array", "vstack"):
        BUILTINS[getattr(hop, name)] = _of_stack(getattr(hop, name))
    for name in ("concat", "concatenate", "hstack", "dstack", "column_stack"):
        if hasattr(hop, name):
            BUILTINS[getattr(hop, name)] = _of_list(getattr(hop, name))
