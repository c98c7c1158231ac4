"""Operators of the user's own: functions on NumPy arrays, or of C, that programs call as they call hop's.

A Site is what the library knows: a name, a signature, what is called. An Operator is what the user holds: a
Site with rules. In a capture a call of one is a node of the program, within the operator `custom` where there
are rules (_custom.py); outside of captures it is a small program that is run at once."""

__all__ = ["operator"]

import builtins
import functools
import itertools
import re
import threading
import weakref

from . import _arguments, _core, _dtypes, _effects, tree
from ._arguments import place
from ._custom import record
from ._errors import InvalidError, UnavailableError
from ._index import IndexUpdate, part_of
from ._object import Object
from ._objects import Ruled
from ._ops import asarray, astype
from ._trace import recorded


# ---- signatures ----


class Parameter:
    """One of a signature. kind: "r" (read), "m" (mut), "o" (out); object: the kind of object that it is,
    None: an array."""

    __slots__ = ("name", "kind", "dtype", "sizes", "is_list", "optional", "object")

    def __init__(self, text):
        head, _, rest = text.partition(":")
        words, rest = head.split(), rest.strip()
        self.kind = "r"
        if len(words) == 2 and words[0] in ("mut", "out", "reads"):
            self.kind, words = words[0][0], words[1:]
        word, _, after = rest.partition(" ")
        if word in ("mut", "out"):
            self.kind, rest = word[0], after.strip()
        self.name = words[-1] if words else ""
        self.is_list, self.optional = rest.endswith("*"), rest.endswith("?")
        self.dtype, self.sizes = _type(rest.rstrip("*? "))
        kind = re.fullmatch(r'object\s*"(.*)"', self.dtype)
        self.object = kind and kind[1]

    @property
    def letter(self):
        return self.kind.upper() if self.is_list else self.kind


def _type(text):
    """(dtype, sizes) of the text of a type; (None, ()): it is no such text, which the library will say."""
    dtype, bracket, sizes = text.partition("[")
    if not bracket:
        return dtype.strip(), ()
    return dtype.strip(), tuple(part.strip() for part in split(sizes.rpartition("]")[0]))


def split(text):
    """The parts of a text between commas that stand in no brackets."""
    parts, depth, begin = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if c == "," and not depth:
            parts.append(text[begin:i])
            begin = i + 1
    return [part for part in (*parts, text[begin:]) if part.strip()]


class Signature:
    """A signature as far as calls need it; whether it is one, the library says. known, found: names of the
    sizes that operands tell, and of those that they do not, in order."""

    __slots__ = ("text", "params", "results", "known", "found")

    def __init__(self, text):
        self.text, depth, end = text, 0, len(text)
        for i, c in enumerate(text):
            depth += (c == "(") - (c == ")")
            if c == ")" and not depth:
                end = i
                break
        self.params = tuple(Parameter(part) for part in split(text[1:end]))
        _, _, results = text[end + 1 :].partition("->")
        results = results.strip()
        inner = results[1 : results.rfind(")")] if results.startswith("(") else results
        self.results = tuple(_type(part) for part in split(inner))
        given = [s for p in self.params if p.kind != "o" for s in p.sizes]
        made = [s for p in self.params if p.kind == "o" for s in p.sizes]
        made = [*[s for _, sizes in self.results for s in sizes], *made]
        self.known = tuple(dict.fromkeys(s for s in given if s.isidentifier() and s != "_"))
        names = [n for s in made if "?" not in s for n in re.findall(r"[^\W\d]\w*", s)]
        self.found = tuple(dict.fromkeys(n for n in names if n not in self.known and n not in _WORDS))

    @property
    def operands(self):
        return [p for p in self.params if p.kind != "o"]

    @property
    def n_given(self):
        """How many results a call gives: those of the signature, then the `out`s."""
        return len(self.results) + builtins.sum(p.kind == "o" for p in self.params)


_WORDS = frozenset(("min", "max", "_"))


# ---- what the library knows ----

_sites = weakref.WeakValueDictionary()  # name -> Site
_lock = threading.RLock()


class Site(_core.OperatorBase):
    """An operator as the library knows it. Programs that call it keep it alive."""

    __slots__ = ("name", "fun", "origin", "replaced", "__weakref__")
    __module__ = "hop"

    def __init__(self, name, fun, origin):
        self.name, self.fun, self.origin, self.replaced = name, fun, origin, False

    def __repr__(self):
        return f"<operator {self.name!r}>"

    def __del__(self):
        self._unregister()  # before its name can be another's


def _origin(fun):
    """Where a function is from: what one that is defined again has in common with the one before."""
    return getattr(fun, "__module__", None), getattr(fun, "__qualname__", type(fun).__qualname__)


def _written_at(fun):
    code = getattr(fun, "__code__", None)
    return f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""


def default_name(fun):
    module, name = _origin(fun)
    whole = f"{(module or '').strip('_')}.{name}".replace(".<locals>.", ".")
    whole = re.sub(r"\W+", "_", whole, flags=re.ASCII).strip("_") or "operator"
    return f"x{whole}" if whole[0].isdigit() else whole


def free_name(base):
    name, number = base, 1
    while name in _sites:
        number += 1
        name = f"{base}_{number}"
    return name


def _named_site(name, fun, origin):
    """A site for a function, under a name that is its own."""
    if name is None:
        name = default_name(fun)
        local = "<" in origin[1]
        return Site(free_name(name) if local else name, fun, origin)
    before = _sites.get(name)
    if before is not None and before.origin != origin and before.fun is not fun:
        raise InvalidError(
            f"{place()}operator: there is an operator {name!r} already, of {_shown(before)}: give "
            f"{_shown(Site(name, fun, origin))} another name"
        )
    return Site(name, fun, origin)


def declared(text):
    """The sites of the operators that the text of a program declares."""
    found = re.findall(r'^\s*operator\s+(?:@(\w+)|@?"((?:[^"\\]|\\.)*)")', text, re.MULTILINE)
    sites = [_sites.get(word or quoted) for word, quoted in found]
    return [site for site in sites if site is not None]


def _shown(site):
    module, name = site.origin or (None, None)
    if module is None:
        return "a function of C's" if name else "a callback"
    return f"{name} of {module}{_written_at(site.fun)}"


def register(site, signature, fun, version, effect, strided, lanes, infer, arrays=False, address=0, user=0):
    """Makes a site known; one of the same name, which was defined before, is not any more."""
    with _lock:
        kinds = "".join(p.letter for p in signature.params)
        counts = len(signature.results), len(signature.known), len(signature.found)
        objects = tuple([p.object for p in signature.params])
        how = (
            version, effect, strided, LANES.index(lanes), fun, infer, kinds, objects, counts, arrays, address,
            user,
        )  # fmt: skip
        before = _sites.get(site.name)
        if before is not None:
            other = free_name(site.name)
            site._register(other, other + signature.text, *how)  # an error leaves the one before as it was
            before._unregister()
            before.replaced = True
        site._register(site.name, site.name + signature.text, *how)
        _sites[site.name] = site


# ---- NumPy ----

_numpy_is_ready = False


def _prepare_numpy():
    global _numpy_is_ready
    if _numpy_is_ready:
        return
    try:
        import numpy
    except ImportError:
        raise UnavailableError(
            f"{place()}operator: a function of Python's gets arrays of NumPy's, which is not installed: "
            "install numpy, or use hop.pure_callback, whose functions get arrays of hop's"
        ) from None
    inside = getattr(numpy, "_core", None) or numpy.core
    dtypes = [_numpy_dtype(numpy, d) for d in _dtypes.ALL]
    probe = numpy.zeros((2, 3), numpy.float32)
    numbers = tuple([d.num if d is not None else 0 for d in dtypes])
    ready = _core.set_numpy(
        inside._multiarray_umath._ARRAY_API, numpy.asarray, numpy.ascontiguousarray, tuple(dtypes), numbers,
        probe, probe.ctypes.data,
    )  # fmt: skip
    if not ready:
        raise UnavailableError(f"{place()}operator: NumPy {numpy.__version__} is not one that hop knows")
    _numpy_is_ready = True


def _numpy_dtype(numpy, dtype):
    if dtype is not _dtypes.bfloat16:
        return numpy.dtype(dtype.name)
    try:
        import ml_dtypes
    except ImportError:
        return None
    return numpy.dtype(ml_dtypes.bfloat16)


# ---- functions of C ----


def _address(c):
    """The address of a function of C's."""
    if isinstance(c, int) and not isinstance(c, bool):
        value = c
    elif isinstance(getattr(c, "address", None), int):  # a cfunc of numba's
        value = c.address
    elif type(c).__module__ == "_cffi_backend":
        import _cffi_backend

        ffi = _cffi_backend.FFI()
        value = int(ffi.cast("uintptr_t", c))
    else:
        import ctypes

        try:
            value = ctypes.cast(None if isinstance(c, (str, bytes)) else c, ctypes.c_void_p).value
        except (ctypes.ArgumentError, TypeError):
            raise _arguments.wrong(
                "operator: c", "a pointer to a function: of ctypes, cffi, numba's cfunc, or its address", c
            ) from None
    if not value or not 0 < value < 1 << 64:
        raise _arguments.wrong("operator: c", "the address of a function", c)
    return value


# ---- operators ----

_EFFECTS = (None, "none", "check", "io", "unordered")
# What vmap does with a call, as the library numbers it: one for each lane, one for all, an error.
LANES = ("each", "together", "refused")


def operator(
    signature, fun=None, *, name=None, infer=None, effect=None, version=0, strided=False, lanes="each",
    c=None, user=0,
):  # fmt: skip
    """A function of one's own as an operator that programs call: under jit, in loops and branches, under
    grad and vmap with rules of its own.

    signature says what it takes and gives, "(x: f32[N, 3], mut state: f32[S]) -> f32[N]": dtypes of hop, or a
    capital letter for any; sizes that are numbers, names, expressions of names, "_" for any, in results "?k"
    for one that is found when the function runs. A parameter that is `mut` is updated by a call, one that is
    `out` is filled and is a result; type? may be None, type* is a list.

    The function gets an array of NumPy's for each parameter, which it may keep, and which it may write to
    where that is `mut` or `out`; it gives an array, or a tuple with one for each result. What it raises comes
    out of the call that ran the program. It must give the same for the same, unless effect is "io": then
    every call is made, in order ("unordered": in any). effect "check" says that it may raise.

    Rules: op.defvjp(fwd, bwd), op.defjvp(rule), op.def_vmap(rule), as those of hop.custom_vjp,
    hop.custom_jvp, hop.custom_vmap. Without a rule for derivatives to ask for one is an error. Without one
    for vmap it is called once for each lane; lanes="together": once for all, with arrays that have the lanes
    in front.

    infer(N=…): sizes of results that operands do not tell, a number or a tuple. version: change it with what
    the function does where compiled programs are kept on a disk. c: a function of C's instead of one of
    Python's, which is called from compiled code without Python (docs/python/operators.md); user: what it gets
    as call->user; strided: it takes `mut` parts x.at[…] with strides, which come as copies otherwise.

    >>> import numpy as np
    >>> @hop.operator("(x: f32[N]) -> f32[N]")
    ... def cumulated(x):
    ...     return np.add.accumulate(x)
    >>> hop.jit(lambda x: cumulated(x) * 2)(hop.asarray([1.0, 2.0, 3.0]))
    Array([ 2.,  6., 12.], dtype=float32)
    """
    if not isinstance(signature, str):
        raise _arguments.wrong("operator: signature", 'a text such as "(x: f32[N]) -> f32[N]"', signature)
    _arguments.text("operator: name", name)
    if infer is not None:
        _arguments.function("operator: infer", infer)
    if effect not in _EFFECTS:
        raise _arguments.wrong("operator: effect", 'None, "check", "io" or "unordered"', effect)
    if lanes not in LANES[:2]:
        raise _arguments.wrong("operator: lanes", '"each" or "together"', lanes)
    _arguments.integer("operator: version", version, 0, 2**31 - 1)
    options = dict(
        infer=infer, effect=effect, version=version, strided=_arguments.flag("operator: strided", strided),
        lanes=lanes,
    )  # fmt: skip
    given, text = re.match(r"\s*([^\W\d]\w*)?\s*(.*)", signature, re.DOTALL).groups()
    if given and name is not None and given != name:
        raise InvalidError(f"{place()}operator: the signature names it {given!r}, name is {name!r}")
    name = name or given
    if not text.startswith("("):
        raise _arguments.wrong("operator: signature", 'a text such as "(x: f32[N]) -> f32[N]"', signature)
    if c is not None:
        if fun is not None:
            raise InvalidError(f"{place()}operator: give a function of Python's, or c, not both")
        if name is None:
            raise InvalidError(f"{place()}operator: a function of C's needs a name: name=…")
        address = _address(c)
        return Operator(
            text, name, c, address=address, user=_arguments.integer("operator: user", user, 0), **options
        )
    if fun is None:
        return functools.partial(_of_function, text, name, options)
    return _of_function(text, name, options, fun)


def _of_function(text, name, options, fun):
    _arguments.function("operator: fun", fun)
    _prepare_numpy()
    return Operator(text, name, fun, **options)


class Operator(Ruled):
    """An operator; see hop.operator."""

    __module__ = "hop"

    def __init__(self, text, name, fun, *, infer, effect, version, strided, lanes, address=0, user=0):
        self._signature = s = Signature(text)
        self._operands, self._n_given = s.operands, s.n_given
        self._updates = any(p.kind == "m" for p in s.params)
        self._function, self._infer = fun, infer
        self._effect, self._version, self._is_c = effect, version, address != 0
        strided = self._strided = strided or not self._is_c  # NumPy's functions take strides
        with _lock:
            site = _named_site(name, fun, (None, text) if address else _origin(fun))
            register(
                site, s, fun, version, effect, strided, lanes,
                functools.partial(_inferred, site.name, s, infer) if infer is not None else None,
                address=address, user=user,
            )  # fmt: skip
        # as guards find them: what the host does is no part of a program, rules are
        self._fun, self._static, self._rules = site, (), {}
        self._programs = {}
        self.name = site.name
        if not self._is_c:
            functools.update_wrapper(self, fun, updated=())
            del self.__wrapped__
        else:
            self.__name__ = self.__qualname__ = site.name

    @property
    def signature(self):
        """The text of its signature."""
        return self.name + self._signature.text

    @property
    def function(self):
        """What it calls."""
        return self._function

    def __repr__(self):
        return f"<hop.operator {self.name}{self._signature.text}>"

    def __reduce__(self):
        return self.__qualname__  # as functions are: found by name, and never copied

    # -- rules --

    def defvjp(self, fwd, bwd, symbolic_zeros=False):
        """Gives it a gradient: fwd(*args) -> (what a call gives, needs), bwd(needs, cotangent) -> a tuple
        with the cotangent of each argument, None where it is zero; see hop.custom_vjp. fwd None: needs is
        (args, what the call gave). What a call gives is, for rules, its results, then the `out`s, then the
        new contents of `mut` arguments: a tuple unless it is one array."""
        from ._custom import symbolic_zero

        forward = None if fwd is None else _arguments.function("defvjp: fwd", fwd)
        rule = _arguments.function("defvjp: bwd", bwd)
        symbolic = _arguments.flag("defvjp: symbolic_zeros", symbolic_zeros) and forward is not None
        self._rules["vjp"] = forward, rule, symbolic_zero if symbolic else None
        self._rules.pop("jvp", None)
        return bwd

    def defjvp(self, jvp, symbolic_zeros=False):
        """Gives it a derivative: jvp(primals, tangents) -> (what a call gives, its tangent); see
        hop.custom_jvp."""
        _arguments.flag("defjvp: symbolic_zeros", symbolic_zeros)
        self._rules["jvp"] = _arguments.function("defjvp: jvp", jvp)
        return jvp

    def def_vmap(self, vmap_rule):
        """Gives it a rule for hop.vmap: vmap_rule(axis_size, in_batched, *args) -> (what a call gives, which
        parts of that have the axis in front); see hop.custom_vmap."""
        self._rules["vmap"] = _arguments.function("def_vmap: vmap_rule", vmap_rule)
        return vmap_rule

    # -- calls --

    def __call__(self, *args, out=None, **named):
        given = self._bound(args, named)
        if self._fun.replaced:
            raise InvalidError(
                f"{place()}operator {self.name!r}: it is not known any more: "
                "another was defined with its name"
            )
        tracing = _core.tracing()
        views = self._views(given, tracing) if self._updates else None
        values = values_of(given, views) if self._updates else given
        results = self._recorded(values, views) if tracing else self._run(values, views)
        return self._given(given, results, out, views)

    def _views(self, given, tracing):
        """Which arguments are handed on as parts of their array, so that parts that overlap mean what they
        mean to the function: for each one the slices as a text, "" for all of it, None for a value of its
        own, as of a part that is cut out and put back. None: there are none."""
        foreign, n = [], 0
        muts = []  # (its number among all, its name, the array, the key, None: all of it)
        for p, x in zip(self._operands, given):
            for target in x if p.is_list else (x,):
                if p.kind == "m" and isinstance(target, IndexUpdate):
                    muts.append((n, p.name, target.array, target.key))
                elif p.kind == "m" and isinstance(target, _core.ArrayBase):
                    muts.append((n, p.name, target, None))
                elif isinstance(target, _Foreign):
                    foreign.append((p.name, target.array))
                n += 1
        if len(foreign) > 1:
            self._expect_apart(foreign)
        views = [None] * n
        for array in {id(m[2]): m[2] for m in muts}.values():
            self._view(array, [m for m in muts if m[2] is array], tracing, views)
        return tuple(views) if any(v is not None for v in views) else None

    def _view(self, array, muts, tracing, views):
        """The same of arguments that are, or are parts of, one array."""
        if len(muts) == 1 and (not tracing or self._rules or muts[0][3] is None):
            return
        parts = [part_of(array, ... if m[3] is None else m[3]) for m in muts]
        if None in parts:  # where indices are arrays
            return
        pairs = [(i, k) for k in range(len(parts)) for i in range(k)]
        met = [(i, k, parts[i].meets(parts[k])) for i, k in pairs]
        met = [m for m in met if m[2] is not False]
        strided = all(part.strided for part in parts)
        for i, k, surely in met:
            if self._rules:
                why = "its rules see values"
            elif not strided:
                why = "those of an array of which one goes backwards are cut out and put back"
            elif not self._strided and not (parts[i].row_major and parts[k].row_major):
                why = "it gets copies of those that do not lie row by row (strided=True: as they lie)"
            else:
                continue
            names = " and ".join(f"{muts[j][1]}, {_key_text(muts[j][3])}," for j in (i, k))
            overlap = "overlap" if surely else "may overlap"
            raise InvalidError(
                f"{place()}operator {self.name!r}: {names} {overlap}: they are parts of one array, and "
                f"{why}: give it parts that do not, or copies"
            )
        # outside of programs one that cuts them out does for parts anywhere
        if strided and not self._rules and (tracing or met):
            for m, part in zip(muts, parts):
                views[m[0]] = part.text

    def _expect_apart(self, foreign):
        """An error where arrays of NumPy's overlap: they are copied and put back."""
        import numpy

        for k, (name, array) in enumerate(foreign):
            for before, other in foreign[:k]:
                try:
                    meet = numpy.shares_memory(other, array, max_work=10000)
                except RuntimeError:  # that would take too long
                    meet = True
                if meet:
                    raise InvalidError(
                        f"{place()}operator {self.name!r}: {before} and {name} overlap: arrays of NumPy's "
                        "are copied and put back: give it parts x.at[…] of one array of hop's, or copies"
                    )

    def _bound(self, args, named):
        """An argument for each operand of the signature: an array, None, or a list of these."""
        params = self._operands
        if len(args) == len(params) and not named:
            return [self._argument(p, x) if p.is_list else self._array(p, x) for p, x in zip(params, args)]
        what = f"operator {self.name!r}"
        if len(args) > len(params):
            names = ", ".join(p.name for p in params)
            raise InvalidError(f"{place()}{what}: takes {len(params)} arguments ({names}), given {len(args)}")
        given = list(args)
        for p in params[len(args) :]:
            if p.name in named:
                given.append(named.pop(p.name))
            elif p.optional:
                given.append(None)
            elif p.is_list:
                given.append([])
            else:
                raise InvalidError(f"{place()}{what}: there is nothing for {p.name}")
        for name in named:
            known = [p.name for p in params]
            problem = "is given twice" if name in known else "is no parameter of it"
            raise InvalidError(f"{place()}{what}: {name} {problem}; it takes {', '.join(known)}")
        return [self._argument(p, x) for p, x in zip(params, given)]

    def _argument(self, p, x):
        if not p.is_list:
            return self._array(p, x)
        if not isinstance(x, (list, tuple)):
            raise _arguments.wrong(f"operator {self.name!r}: {p.name}", "a list of arrays", x)
        return [self._array(p, element) for element in x]

    def _array(self, p, x):
        """An argument as an array, numbers with the dtype of the signature."""
        dtype = _BY_TEXT.get(p.dtype)
        if isinstance(x, _core.ArrayBase):
            if dtype is not None and x._weak and x.dtype is not dtype and p.kind == "r":
                return astype(x, dtype)
            return x
        what = f"operator {self.name!r}: {p.name}"
        if p.object is not None and not (x is None and (p.optional or p.is_list)):
            if _core.tracing():  # nobody would see when it is another one
                expected = f"a hop.Object of the kind {p.object!r}, made outside of the captured function"
                raise _arguments.wrong(what, expected, x)
            return Object(x, kind=p.object)
        if x is None:
            if p.optional or p.is_list:
                return None
            raise _arguments.wrong(what, "an array", x)
        if isinstance(x, _core.Size):
            x = x._value
        if p.kind == "m":
            if isinstance(x, IndexUpdate):
                return x
            if _is_ndarray(x) and x.flags.writeable and not _core.tracing():
                return _Foreign(x)
            raise _arguments.wrong(what, "an array of hop, or a part x.at[…], which the call updates", x)
        try:
            return asarray(x) if dtype is None or hasattr(x, "dtype") else asarray(x, dtype=dtype)
        except (TypeError, ValueError, OverflowError) as error:
            said = str(error).removeprefix(_core.call_place())
            raise InvalidError(f"{place()}{what}: {said}") from None

    def _recorded(self, given, views):
        """All results of a call in the capture at work: those of the signature, `out`s, new contents of
        values, new contents of arrays with parts."""
        if not self._rules:
            return self._emit(given, views)
        rules = self._rules
        how = {}
        if "vjp" in rules:
            forward, backward, missing = rules["vjp"]
            how.update(backward=backward)
            if forward is not None:
                how.update(forward=forward, missing=missing)
        if "jvp" in rules:
            how["jvp"] = rules["jvp"]
        if "vmap" in rules:
            how["batch"] = rules["vmap"]

        def call(*args):
            out = self._emit(args)
            return out[0] if len(out) == 1 else tuple(out)

        call.__name__ = self.name
        out = record("operator", call, tuple(given), owner=self, **how)
        return list(out) if isinstance(out, tuple) else [out]

    def _emit(self, given, views=None):
        """The node."""
        flat, counts, n = [], [], self._n_given
        for p, x in zip(self._operands, given):
            values = x if p.is_list else [x]
            flat += values
            counts.append(len(values))
            n += builtins.sum(v is not None for v in values) if p.kind == "m" else 0
        if views is not None:
            whole = [id(x) for x, view in zip(flat, views) if view is not None]
            n -= len(whole) - len(set(whole))
        return recorded(lambda: self._fun._record(flat, counts, n, views))

    def _run(self, given, views):
        """The same, computed now: by a program for these types, which is compiled once it is used often."""
        arrays, key = [], []
        for x in given:
            if isinstance(x, list):
                key.append(len(x))
            for element in x if isinstance(x, list) else (x,):
                if element is None:
                    key.append(None)
                    continue
                arrays.append(element)
                key.append(element._type)
        same = None
        if views is not None:  # of which array each is: parts of one are of one operand
            first = {}
            same = [first.setdefault(id(x), i) for i, x in enumerate(arrays)]
            key += [views, *same]
        key = tuple(key)
        program = self._programs.get(key)
        if program is None:
            if len(self._programs) >= _MOST_PROGRAMS:
                self._programs.clear()
            program = self._programs[key] = _Program(self, given, arrays, views, same)
        return program.run(arrays)

    def _given(self, given, results, out, views):
        """What a call gives, and `mut` arguments updated."""
        n = self._n_given
        if out is None and len(results) == n:
            return None if n == 0 else results[0] if n == 1 else tuple(results)
        contents, wholes, at = iter(results[n:]), {}, 0
        for p, x in zip(self._operands, given):
            for target in x if p.is_list else [x]:
                if p.kind == "m" and target is not None:
                    if views is None or views[at] is None:
                        _update(target, next(contents))
                    else:
                        whole = target.array if isinstance(target, IndexUpdate) else target
                        wholes[id(whole)] = whole
                at += 1
        for whole in wholes.values():
            _update(whole, next(contents))
        results = results[:n]
        if out is not None:
            targets = out if isinstance(out, (tuple, list)) else (out,)
            if len(targets) != n:
                raise InvalidError(
                    f"{place()}operator {self.name!r}: out: expected {n} arrays, found {len(targets)}"
                )
            for target, x in zip(targets, results):
                if not isinstance(target, _core.ArrayBase) and not _is_ndarray(target):
                    raise _arguments.wrong(f"operator {self.name!r}: out", "an array", target)
                _update(target, x)
            results = list(targets)
        if n == 0:
            return None
        return results[0] if n == 1 else tuple(results)


_MOST_PROGRAMS, _MOST_INTERPRETED = 64, 50  # of an operator; calls of a program before it is compiled
_BY_TEXT = {dtype.text: dtype for dtype in _dtypes.ALL}


class _Foreign:
    """An array of NumPy's that a call outside of captures updates."""

    __slots__ = ("array",)

    def __init__(self, array):
        self.array = array


def _is_ndarray(x):
    return type(x).__module__ == "numpy" and hasattr(x, "flags")


class _Program:
    """A call of an operator for operands of these types, outside of captures."""

    __slots__ = ("_function", "_left", "_run")

    def __init__(self, op, given, arrays, views, same):
        treedef = tree.structure(given)
        names = [f"x{i}" for i in range(len(arrays))]

        def call(*values):
            if same is not None:
                values = [values[i] for i in same]
            return op._emit(tree.unflatten(treedef, values), views)

        self._function = _core.capture(call, op.name, names, list(arrays))[0]
        self._left, self._run = _MOST_INTERPRETED, None

    def run(self, arrays):
        if self._run is not None:
            return self._run(arrays)
        self._left -= 1
        if self._left == 0:
            self._run = self._function.compile().run
        return self._function.interpret(arrays)


def _key_text(key):
    """A key as it is written, for a message."""
    if key is None:
        return "all of the array"
    shown = [_item_text(k) for k in (key if isinstance(key, tuple) else (key,))]
    return f".at[{', '.join(shown)}]"


def _item_text(k):
    if k is Ellipsis:
        return "..."
    if not isinstance(k, slice):
        return str(k)
    bounds = ["" if b is None else str(b) for b in (k.start, k.stop, k.step)]
    return ":".join(bounds if k.step is not None else bounds[:2])


def values_of(given, views=None):
    """What the arguments of a call hold before it; of those that are handed on as parts, the whole array."""
    number = itertools.count()

    def value(x):
        at = next(number)
        if views is None or views[at] is None:
            return _value(x)
        return x.array if isinstance(x, IndexUpdate) else x

    return [[value(e) for e in x] if isinstance(x, list) else value(x) for x in given]


def _value(x):
    """What an argument that is updated holds before."""
    if isinstance(x, IndexUpdate):
        return x.get()
    return asarray(x.array) if isinstance(x, _Foreign) else x


def _update(target, x):
    if isinstance(target, IndexUpdate):
        target.array[target.key] = x
        return
    if isinstance(target, _Foreign):
        target = target.array
    if isinstance(target, _core.ArrayBase):
        target[...] = x
    else:
        import numpy

        target[...] = numpy.asarray(x)


def _called_in_capture(fun, args):
    """A function that a program calls while another is captured: what it changes is not what the body at
    work does."""
    with _effects.of_the_host():
        return fun(*args)


_core.set_host(_called_in_capture)


def _inferred(name, signature, infer, *sizes):
    """The sizes that infer gives, in order."""
    what = f"operator {name!r}: infer"
    given = infer(**dict(zip(signature.known, sizes)))
    if isinstance(given, dict):
        missing = [n for n in signature.found if n not in given]
        if missing:
            raise InvalidError(f"{place()}{what} gives nothing for {', '.join(missing)}")
        given = tuple(given[n] for n in signature.found)
    given = given if isinstance(given, (tuple, list)) else (given,)
    if len(given) != len(signature.found):
        wanted = ", ".join(signature.found)
        raise InvalidError(f"{place()}{what}: expected {wanted}, found {len(given)} sizes")
    for n, x in zip(signature.found, given):
        if not isinstance(x, _core.Size):
            _arguments.size(f"{what}: {n}", x)
    return tuple(given)
