"""jit: a function is captured once for each kind of arguments, compiled, and from then on run without its
Python code."""

__all__ = ["jit", "Compiled", "disable_jit", "get_threads", "set_threads"]

import functools
import os
import sys
import time
import types
import weakref

from . import _arguments, _core, _export, _guards, _lanes, _modes, _mut, _profile, _reuse, _sizes, tree
from ._errors import InvalidError, WriteError
from ._function import Function
from ._index import write
from ._keys import value_key
from ._trace import (
    argument_names,
    arguments_of,
    arrays_of_results,
    body_of,
    call_names,
    capture,
    codes,
    function_name,
    given_leaves,
    marked,
    place,
    recorded,
    STATIC,
)

# code objects -> programs, and what is known of sizes: functions made anew from the same code share them,
# programs unless they hold on to something of a function's own
_SHARED = {}
_MOST_SHARED, _MOST_PROGRAMS, _MOST_TRIES = 512, 256, 8
_every = weakref.WeakSet()  # of Compiled


def get_threads():
    """How many threads programs run on that have no number of their own (jit's threads=).

    >>> hop.get_threads() >= 1
    True
    """
    return _core.threads()


def set_threads(n):
    """Programs that have no number of their own (jit's threads=) run on n threads from now on, in the whole
    process. 0: on the usual number, which HOP_NUM_THREADS in the environment says, else as many as there are
    processors that the process may use: by its affinity, and by the quota of its control groups. More than
    256, here, in the environment or as threads=, count as 256. What is compiled while there is one thread
    stays on one. Results do not depend on it.

    >>> before = hop.get_threads()
    >>> hop.set_threads(2)
    >>> hop.get_threads()
    2
    >>> hop.set_threads(0)
    """
    _core.set_threads(_arguments.integer("set_threads: n", n, 0, (1 << 31) - 1, "a number of threads"))


def jit(
    fun=None,
    *,
    static_argnums=(),
    static_argnames=(),
    donate_argnums=(),
    donate_argnames=(),
    constant_argnums=(),
    constant_argnames=(),
    mut=(),
    dims=None,
    dynamic=True,
    control=True,
    strict=False,
    threads=0,
    portable=False,
    inline=None,
):
    """fun, compiled: the first call with arguments of new types captures it, later ones run machine code.

    static_argnums, static_argnames: arguments that are Python values, part of the program; they must be
    hashable. 1, 1.0 and True are different ones, as are 0.0 and -0.0. donate_argnums, donate_argnames:
    arguments whose memory the call may use for its results; they must not be used afterwards.
    constant_argnums, constant_argnames: arguments that are most often the same arrays from call to call,
    weights: what regions of the kind "once" make of them, and of arrays that the function closes over, is
    computed at the first call and kept (hop.region). mut: numbers or
    names of arguments that a call updates: what the function writes to their arrays (y[i] = v, whole trees of
    them) the caller's arrays, hop's and NumPy's, hold afterwards; without it arguments are values, and writes
    are the function's own. strict: results are bit for bit those of the interpreter. What the function gives
    besides arrays and numbers (texts, objects, functions, None) comes back as it is. It is captured again
    when the types or the structure of its arguments, static arguments, or something that it reads from
    outside has changed:
    globals, what its closure refers to, attributes, items, defaults, in the functions that it calls, too
    (jit(f).guards() lists them). Arrays among that are arguments, read at every call. HOP_LOG=compile in the
    environment asks for a line on stderr about each program made, and why.

    The first call compiles for the sizes of its arguments; a dim that comes with a second size becomes a
    symbol, and one program serves all further ones. dims declares sizes from the start, for arguments by
    name: {"x": "T, 64"} or, with a range, {"x": "T in 1..4096, 64"}; a name is one size wherever it stands, _
    is a dim about which nothing is said; for an argument that is a tree, a tree (or a prefix of one) of such
    texts. dynamic=False: a program for each size.

    Where plain if, while, for, and, or, not, conditional expressions and assert meet values that only a run
    knows, the function, and those that it calls, are captured in a rewritten form, in which they are
    hop.cond, hop.while_loop and hop.check; jit(f).source() shows it. control=False: that is an error.

    Inside of another function under jit it is a call of one program, however often it is called: captured,
    differentiated and, where it is large enough, compiled once. inline=True: it is put in place of each call
    when the program around is compiled; inline=False: it stays a function that is called, if it can be one.

    >>> @hop.jit
    ... def norm(x):
    ...     return hop.sqrt(hop.sum(x * x))
    >>> norm(hop.asarray([3.0, 4.0]))
    Array(5., dtype=float32)
    >>> hop.jit(lambda x, n: x**n, static_argnums=1)(2.0, 3)
    Array(8., dtype=float32)
    >>> hop.jit(lambda x: hop.mean(x, axis=0), dims={"x": "T, 2"}).lower(hop.ones((5, 2))).in_types
    ('f32[T, 2]',)
    >>> @hop.jit(mut="counts")
    ... def count(counts, i):
    ...     counts[i] += 1
    >>> counts = hop.zeros(3)
    >>> count(counts, 1), count(counts, 1), counts
    (None, None, Array([0., 2., 0.], dtype=float32))
    >>> def collatz(n):
    ...     steps = 0
    ...     while n != 1:
    ...         n = n // 2 if n % 2 == 0 else 3 * n + 1
    ...         steps += 1
    ...     return steps
    >>> hop.jit(collatz)(hop.asarray(27))
    Array(111, dtype=int64)
    """
    if fun is None:
        return functools.partial(
            jit, static_argnums=static_argnums, static_argnames=static_argnames,
            donate_argnums=donate_argnums, donate_argnames=donate_argnames,
            constant_argnums=constant_argnums, constant_argnames=constant_argnames, mut=mut, dims=dims,
            dynamic=dynamic, control=control, strict=strict, threads=threads, portable=portable,
            inline=inline,
        )  # fmt: skip
    if isinstance(fun, _core.Entry):
        fun = fun.__wrapped__
    while isinstance(fun, Compiled) and fun._plain:  # one function under jit, not one in another
        fun, inline = fun._fun, fun._inline_given if inline is None else inline
    if not callable(fun):
        raise TypeError(f"jit takes a function, found {type(fun).__name__}")
    strict, portable = _arguments.flag("jit: strict", strict), _arguments.flag("jit: portable", portable)
    threads = _arguments.integer("jit: threads", threads, 0, (1 << 31) - 1, "a number of threads")
    options = {"strict": strict, "threads": threads, "portable": portable}
    sizes = (_arguments.flag("jit: dynamic", dynamic), None if dims is None else _sizes.Declared(dims, fun))
    control = _arguments.flag("jit: control", control)
    inline = None if inline is None else _arguments.flag("jit: inline", inline)
    return Compiled(
        fun, static_argnums, static_argnames, donate_argnums, donate_argnames, options, sizes, control, mut,
        constant_argnums, constant_argnames, inline,
    )  # fmt: skip


class disable_jit:
    """Within `with hop.disable_jit():` functions made by jit, and loops, run as plain Python, an operator
    at a time, on this thread: what they print, or a debugger stops at, has values. disable_jit(False) has
    them compiled again inside of it. HOP_DISABLE_JIT=1 in the environment does so for a whole process.
    What grad, vmap and the like are given is captured all the same.

    >>> with hop.disable_jit():
    ...     hop.jit(lambda x: x + 1 if x > 0 else x)(1.0)
    2.0
    """

    def __init__(self, disable=True):
        self._disable, self._before = _arguments.flag("disable_jit: disable", disable), []

    def __enter__(self):
        self._before.append(_core.disable_jit(self._disable))
        return self

    def __exit__(self, *exception):
        _core.disable_jit(self._before.pop())


if os.environ.get("HOP_DISABLE_JIT", "0") not in ("", "0"):
    _core.disable_jit_everywhere()


def _logs(what):
    return what in os.environ.get("HOP_LOG", "").split(",")


def _compile(function, name, since, options, why=""):
    """An executable; with HOP_LOG=compile in the environment a line about it goes to stderr. since: when
    the capture began, None when it is long over. why: what made it necessary."""
    if not _logs("compile"):
        return function.compile(**options)
    before, begun = _core.cache_statistics(), time.perf_counter()
    exe = function.compile(**options)
    after, ended = _core.cache_statistics(), time.perf_counter()
    source = "compiled"
    if after["memory_hits"] > before["memory_hits"]:
        source = "from memory"
    elif after["disk_hits"] > before["disk_hits"]:
        source = "from disk"
    nodes = sum(
        " = " in line or line.lstrip().startswith(("check", "print", "callback"))
        for line in function.text().splitlines()
    )
    captured = "" if since is None else f"captured in {(begun - since) * 1e3:.1f} ms, "
    types = f"{name}({', '.join(function.params)}) -> ({', '.join(function.results)})"
    multiplies = any(operator in function.text() for operator in (" = dot(", " = matmul("))
    products = f"; products by {_core.blas()}" if multiplies else ""
    print(
        f"hop: {types}: {nodes} nodes, {captured}{source} in {(ended - begun) * 1e3:.1f} ms{products}"
        + (f"; captured again: {why}" if why else ""),
        file=sys.stderr,
        flush=True,
    )
    return exe


def _log(name, text):
    if _logs("compile"):
        print(f"hop: {name}: {text}", file=sys.stderr, flush=True)


def _leaf_numbers(numbers, names, dynamic, static, named):
    """The leaves of the arguments with these numbers and names, by number."""
    if not numbers and not names:
        return []
    total, fixed = len(dynamic) + len(static), {i for i, _ in static}
    chosen = {p % total for p in numbers if -total <= p < total}
    arguments = [(i in chosen, x) for i, x in zip([i for i in range(total) if i not in fixed], dynamic)]
    arguments += [(name in names, named[name]) for name in sorted(named)]
    found, at = [], 0
    for is_chosen, x in arguments:
        n = tree.structure(x).num_leaves
        if is_chosen:
            found.extend(range(at, at + n))
        at += n
    return found


def _may_fail(function):
    """Whether a run ends with an error for some values of its arguments."""
    text = function.text()
    return "\noperator " in text or any(f"{n} " in text or f"{n}(" in text for n in ("check", "callback"))


def _mutable(types, leaves, updated):
    """Types of parameters, those with these numbers as ones that a run updates."""
    if not updated:
        return types
    texts = [x._type for x in leaves] if types is None else types
    return [f"mut {text}" if i in updated else text for i, text in enumerate(texts)]


def _own(x):
    """A tree with arrays of its own: what is written to them is seen by nobody else."""
    return tree.map(lambda leaf: leaf._alias() if isinstance(leaf, _core.ArrayBase) else leaf, x)


class _Programs(dict):
    """Programs by key, kept with the function that they are made of; copies of the function begin without."""

    def __reduce__(self):
        return _Programs, ()

    def __deepcopy__(self, memo):
        return _Programs()


class _Program:
    """guards: what must be as it was. lines: that in words. places: (text, number) of each place that is
    checked, None where it is no number. shared: it is good for other functions of the same code. fit: the
    sizes that it is for."""

    __slots__ = (
        "name", "fun", "traced", "exe", "unflatten", "guards", "lines", "places", "shared", "types", "fit",
    )  # fmt: skip


class Lowered:
    """What jit made of a call: text() is the program, explain() what becomes of it, emit() and c() write
    it in another language, export() as a folder of C, compile() makes an executable."""

    def __init__(self, program, options):
        self._program, self._options = program, options

    @property
    def function(self):
        """The program itself, a hop.Function; arrays that it uses from outside are bound."""
        traced = self._program.traced
        n = len(traced.names)
        return Function(traced.function, {n + i: x for i, x in enumerate(traced.hidden)})

    @property
    def in_types(self):
        return self._program.traced.function.params

    @property
    def out_types(self):
        return self._program.traced.function.results

    def text(self):
        return self._program.traced.function.text()

    def explain(self, form="short"):
        """What compiling does with it: "short", "all" with every stored value, or "json"."""
        return self._program.traced.function.explain(form, **self._options)

    def emit(self, kind, *, name=None, header=None, weights="constants", plain=False):
        """It as text: "c" (C99) and its "header", "loops", "llvm" or "asm".

        name: of the C function; header: the file that the source includes, None: its declarations stand in
        the source. weights: arrays that the function closes over are "constants" of the source, or
        "arguments" of the C function behind its own. plain: C99 without vector types, a smaller text."""
        if kind not in ("c", "header"):
            return self._program.traced.function.emit(kind, **self._options)
        if weights not in ("constants", "arguments"):
            raise _arguments.wrong("emit: weights", "'constants' or 'arguments'", weights)
        traced = self._program.traced
        constants = [*[None] * len(traced.names), *traced.hidden] if weights == "constants" else None
        total = sum(x.nbytes for x in traced.hidden)
        if constants and total > _export.MOST_IN_TEXT:
            raise InvalidError(
                f"{place()}emit: the arrays that the function closes over have {total >> 20} MiB, "
                "too much for a text: make them arguments of the function, "
                "use export(folder), which writes them to a file, "
                'or lower(…).emit("c", weights="arguments")'
            )
        params = ", ".join(
            [
                *map(_export.identifier, traced.names),
                *_export.constant_names(self._program.fun, traced.hidden),
            ]
        )
        results = ", ".join(_export.result_names(traced.out_tree))
        name = name or function_name(self._program.fun)
        return traced.function.emit(
            kind,
            name=name,
            header=header,
            params=params,
            results=results,
            constants=constants,
            plain=plain,
            **self._options,
        )

    def c(self, *, plain=False):
        """It as C99 source that needs nothing else: one file, declarations and closed-over arrays in it.
        plain: without vector types."""
        return self.emit("c", plain=plain)

    def export(self, folder, *, name=None, weights="auto", plain=False):
        """Writes it into a folder as C that builds and checks itself: NAME.c, NAME.h, a driver main.c with
        these arguments and what the program gives for them, a Makefile and a README.

        name: of the C function. weights: closed-over arrays are "constants" of the source or in a "file"
        that main.c reads and the C function takes as arguments; "auto": a file from 1 MiB on. plain: C99
        without vector types. The folder is made; one that holds other files than an export's is an error.
        The result says how to build it."""
        return _export.export(self, folder, name, weights, plain)

    def _paths(self):
        """The arguments as Python writes them: params['w'], n."""
        traced = self._program.traced
        args, named = tree.unflatten(traced.in_tree, [0] * len(traced.names))
        roots = [*zip(call_names(self._program.fun, len(args)), args), *sorted(named.items())]
        return [tree.path_text(path, root) for root, x in roots for path, _ in tree.leaves_with_path(x)]

    def _result_paths(self):
        return [tree.path_text(path, "result") for path in tree.leaf_paths(self._program.traced.out_tree)]

    def compile(self):
        return _compile(self._program.traced.function, self._program.name, None, self._options)

    def profile(self, *, seconds=0.5, runs=None):
        """Where the time goes: see jit(f).profile."""
        traced = self._program.traced
        function = traced.function
        options = {**self._options, "profile": True}
        exe = _compile(function, self._program.name, None, options)
        return _profile.measured(exe, traced.operands(), function.updated, seconds, runs)

    def __repr__(self):
        return self.text()


def _chosen(what, numbers, names, fun, known):
    """(numbers, names) of arguments that are chosen by either; both say all of them, where the names of the
    function's arguments are known."""
    numbers = _arguments.argument_numbers(f"jit: {what}_argnums", numbers, fun)
    names = _arguments.argument_names(f"jit: {what}_argnames", names, fun)
    named = tuple(i for i, name in enumerate(known) if name in names and i not in numbers)
    numbered = tuple(known[p] for p in numbers if 0 <= p < len(known) and known[p] not in names)
    return numbers + named, names + numbered


class Compiled(_core.JitBase):
    """What jit gives: call it like the function. lower(*args) is the program for these arguments without
    running it; text, explain and c show it, export writes it as a folder of C; clear_cache forgets what
    was compiled.

    >>> f = hop.jit(lambda x: hop.sin(x) * 2)
    >>> f.lower(hop.ones(3)).out_types
    ('f32[3]',)
    >>> "int f(double x, float *out);" in hop.jit(lambda x: hop.sin(x)).c(1.0)
    True
    """

    def __init__(
        self, fun, static_argnums, static_argnames, donate_argnums, donate_argnames, options,
        sizes=(True, None), control=True, mut=(), constant_argnums=(), constant_argnames=(),
        inline=None,
    ):  # fmt: skip
        self._fun, self._control = fun, control
        self._inline_given, self._inlining = inline, None if inline is None else ("no", "yes")[inline]
        self._dynamic, self._declared = sizes
        self._options = options
        known = argument_names(fun, 1 << 16 if hasattr(fun, "__code__") else 0)
        self._static, self._static_names = _chosen("static", static_argnums, static_argnames, fun, known)
        self._donate, self._donate_names = _chosen("donate", donate_argnums, donate_argnames, fun, known)
        both = [
            *(set(self._static) & set(self._donate)),
            *(set(self._static_names) & set(self._donate_names)),
        ]
        if both:
            raise InvalidError(
                f"{place()}jit: argument {both[0]!r} is static, "
                "so there is no memory to donate (donate_argnums, donate_argnames)"
            )
        self._constant, self._constant_names = _chosen(
            "constant", constant_argnums, constant_argnames, fun, known
        )
        both = [
            *(set(self._constant) & set(self._donate)),
            *(set(self._constant_names) & set(self._donate_names)),
        ]
        if both:
            raise InvalidError(
                f"{place()}jit: argument {both[0]!r} is donated, so it is not constant "
                "(constant_argnums, constant_argnames)"
            )
        self._mut = _mut.Mut(mut, fun)
        self._plain = not (
            self._static or self._static_names or self._donate or self._donate_names or self._constant
            or self._constant_names or self._mut or not self._dynamic or self._declared or not control
        )  # fmt: skip
        self._mut.differs_from(self._constant, self._constant_names, "constant")
        self._mut.differs_from(self._static, self._static_names, "static")
        self._mut.differs_from(self._donate, self._donate_names, "donated")
        self._signature = _arguments.signature(fun)
        functools.update_wrapper(self, fun, updated=())
        self._set(fun, self._static, self._static_names)
        code = codes(fun)
        self._shared, self._sizes, bodies = {}, {}, {}
        if code is not None:
            if len(_SHARED) > _MOST_SHARED:
                _SHARED.clear()
            self._shared, self._sizes, bodies = _SHARED.setdefault(code, ({}, {}, {}))
        self._bodies = _reuse.Bodies(bodies)
        self._identity = (
            self._static, self._static_names, self._donate, self._donate_names, tuple(options.items()),
            self._dynamic, self._declared and self._declared.key, control, self._mut.key,
            self._constant, self._constant_names,
            _core.region_changes(),
        )  # fmt: skip
        self._own, self._latest, self._changes = {}, None, {}
        _every.add(self)
        if type(fun) is types.FunctionType:  # another jit of the same function finds them there
            self._own = fun.__dict__.setdefault("__hop_programs__", _Programs())

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self):
        return f"<hop.jit of {getattr(self._fun, '__name__', self._fun)!s}>"

    # -- calls that are not quick --

    def _slow(self, *args, **named):
        dynamic, static, named_dynamic, named_static = self._split(args, named)
        if _core.tracing():
            return self._inline(dynamic, static, named_dynamic, named_static, len(args))
        program, operands = self._program(dynamic, static, named_dynamic, named_static, len(args))
        out = program.exe.run(operands)
        updates = program.traced.updates
        if not updates:
            self._remember(args, named, program.exe, program.guards, program.unflatten)
            return tree.unflatten(program.traced.out_tree, out)
        n, given = len(out) - len(updates), len(program.traced.names)
        for i, now in zip(updates, out[n:]):
            operands[given + i]._become(now)
        return tree.unflatten(program.traced.out_tree, out[:n])

    def _split(self, args, named):
        n = len(args)
        # others have their default or are given by name
        positions = {p % n for p in self._static if -n <= p < n}
        dynamic = tuple(x for i, x in enumerate(args) if i not in positions)
        static = tuple((i, args[i]) for i in sorted(positions))
        named_static = tuple(sorted((k, v) for k, v in named.items() if k in self._static_names))
        self._check_static(static, named_static, n)
        return dynamic, static, {k: v for k, v in named.items() if k not in self._static_names}, named_static

    def _check_static(self, static, named_static, n):
        known = self._signature
        for which, numbers in (("static_argnums", self._static), ("donate_argnums", self._donate)):
            for p in numbers:
                # others have their default or are given by name
                if not -n <= p < n and (p < 0 or (known is not None and p >= len(known.positional))):
                    raise InvalidError(
                        f"{place()}jit: {which} has {p}, "
                        f"but the function was called with {n} positional arguments"
                    )
        for which, value in (*static, *named_static):
            try:
                hash(value)
            except TypeError:
                name = str(which)
                if isinstance(which, str):
                    name = repr(which)
                elif known and which < len(known.positional):
                    name = repr(known.positional[which])
                advice = (
                    "; an array is an ordinary argument"
                    if isinstance(value, _core.ArrayBase) or hasattr(value, "dtype")
                    else "; a tuple is, for example"
                )
                raise TypeError(
                    f"{place()}jit: static arguments must be hashable: "
                    f"argument {name} is {_arguments.found(value)}{advice}"
                ) from None

    def _captured(self, static, named_static, n, *how, may_write=False):
        """The function, captured (how: the further arguments of capture)."""
        with self._mode():
            return capture(self._whole(static, named_static, n), *how, jit=True, may_write=may_write)

    def _mode(self):
        """Within this, the function is captured."""
        from . import _twins  # which takes this module's functions

        return _twins.mode(self._control)

    def _whole(self, static, named_static, n):
        """The function of the dynamic arguments alone."""
        fun = self._fun
        if not static and not named_static:
            return fun
        fixed, more = dict(static), dict(named_static)

        def partly(*dynamic, **named):
            rest = iter(dynamic)
            every = [fixed[i] if i in fixed else next(rest) for i in range(n)]
            return _arguments.twins.of(fun)(*every, **named, **more)

        partly.__name__, partly.__wrapped__ = getattr(fun, "__name__", "f"), fun
        partly._partly = fun, self._given(static, named_static, n)
        partly._argument_names = [x for i, x in enumerate(call_names(fun, n)) if i not in fixed]
        return partly

    def _inline(self, dynamic, static, named, named_static, n):
        """Inside of another program: a call of what was captured once."""
        fun = self._whole(static, named_static, n)
        if self._mut:
            return self._update_in_place(fun, dynamic, static, named)
        leaves, weak, treedef = arguments_of(self._fun, dynamic, named, STATIC)
        if _lanes.any_bound() or not _reuse.fixed_sizes(leaves):
            return self._put_in_place(fun, leaves, weak, treedef)
        key = self._body_key(static, named_static, _reuse.kinds(leaves, weak, treedef))
        given = self._given(static, named_static, n)
        try:
            with self._mode():
                how = (dynamic, named, leaves, weak)
                t = _reuse.traced(self._bodies, key, self._fun, given, fun, *how, jit=True)
        except WriteError as error:  # an array of the program around
            _core.known(error)
            return self._put_in_place(fun, leaves, weak, treedef)
        with _modes.fresh():  # what it was captured under is in it
            out = t.function.call(t.operands(), self._inlining)
        return tree.unflatten(t.out_tree, marked(out, t.weak_out, False))

    def _body_key(self, static, named_static, kinds):
        fixed = value_key(static), value_key(named_static)
        return (self._static, self._static_names, self._control, *fixed, kinds)

    def _update_in_place(self, fun, dynamic, static, named):
        """Inside of another program, whose arrays among the arguments the function updates."""
        updated = _leaf_numbers(self._mut.numbers, self._mut.names, dynamic, static, named)
        given = tree.leaves((dynamic, named))
        for i in updated:
            if not isinstance(given[i], _core.ArrayBase):
                raise InvalidError(
                    f"{place()}jit: an argument is updated (mut): expected an array of hop, "
                    f"found {_arguments.found(given[i])}"
                )
        leaves, weak, treedef = arguments_of(self._fun, dynamic, named, STATIC)
        weak = [w and i not in updated for i, w in enumerate(weak)]
        return self._put_in_place(fun, leaves, weak, treedef, given, updated)

    def _put_in_place(self, fun, leaves, weak, treedef, given=(), updated=()):
        """Inside of another program whose sizes are symbols, which mean something there alone, or whose
        arrays the function writes to."""
        seen = []

        def flat(*values):
            a, k = tree.unflatten(treedef, marked(values, weak))
            found, out_tree = arrays_of_results(_arguments.twins.of(fun)(*a, **k))
            found, weak_out = given_leaves(found)
            seen.append((out_tree, weak_out))
            return [*found, *[values[i] for i in updated]]

        with self._mode():
            body = body_of(flat, *getattr(fun, "_partly", (fun, None)), jit=True)
            out = recorded(lambda: _core.invoke(body, leaves, False))
        out_tree, weak_out = seen[-1]
        results, now = out[: out_tree.num_leaves], out[out_tree.num_leaves :]
        for i, x in zip(updated, now):
            write(given[i], x)
        return tree.unflatten(out_tree, marked(results, weak_out, False))

    def _given(self, static, named_static, n):
        """Static arguments by name."""
        names = argument_names(self._fun, n)
        return {names[i]: x for i, x in static if i < len(names)} | dict(named_static)

    def _program(self, dynamic, static, named, named_static, n):
        """(a program for these arguments, what it is run with)"""
        leaves, weak, treedef, updated = self._leaves_of(dynamic, static, named)
        try:
            shapes = [x.shape for x in leaves]
            kinds = tuple([(_reuse.kind_of(x), x.ndim if self._dynamic else x.shape) for x in leaves])
            key = (
                self._identity, treedef.key, kinds, tuple(weak), value_key(static), value_key(named_static),
                _core.modes(),
            )  # fmt: skip
            known = [*self._shared.get(key, ()), *self._own.get(key, ())]
        except TypeError as error:
            raise TypeError(f"{place()}jit: static arguments must be hashable: {error}") from None
        sizes = self._sizes.get(key) or self._new_sizes(key, dynamic, static, named, named_static, n)
        sizes.check(shapes)
        for p in known:
            hidden = p.guards.arguments(self._fun) if p.fit.takes(shapes) else None
            if hidden is not None:
                self._latest = p
                return p, [*leaves, *hidden]
        types = tuple([x._type for x in leaves])
        for _ in range(_MOST_TRIES):
            why = self._why(known, key, types, shapes)
            p = self._make(dynamic, static, named, named_static, n, leaves, weak, key, why, sizes, updated)
            hidden = p.guards.arguments(self._fun)
            if hidden is not None:
                self._keep(key, p)
                return p, [*leaves, *hidden]
            known = [p]
        why = self._why([p], key, types, shapes)
        raise InvalidError(f"{place()}jit: {p.name}: another thread changes what it reads: {why}")

    def _new_sizes(self, key, dynamic, static, named, named_static, n):
        if len(self._sizes) > _MOST_PROGRAMS:
            self._sizes.clear()
        roots = call_names(self._whole(static, named_static, n), len(dynamic))
        sizes = self._sizes[key] = _sizes.Sizes(
            [*zip(roots, dynamic), *sorted(named.items())], self._dynamic, self._declared
        )
        return sizes

    def _keep(self, key, p):
        """What a program holds on to, and what it calls, is kept alive by this function alone, not by others
        made from the same code."""
        programs = self._shared if p.shared else self._own
        if sum(map(len, programs.values())) >= _MOST_PROGRAMS:
            programs.pop(next(iter(programs)))
            _log(p.name, f"{_MOST_PROGRAMS} programs are kept: the oldest are forgotten")
        programs.setdefault(key, []).append(p)
        self._latest = p

    def _why(self, known, key, types, shapes):
        """Why a program must be made, in words; notes numbers that changed."""
        latest = self._latest if self._latest in known else known[-1] if known else None
        if latest is None:
            if self._latest is None or self._latest.types == types:
                return "" if self._latest is None else "other static arguments, modes, or another structure"
            return f"types ({', '.join(types)}), before ({', '.join(self._latest.types)})"
        said = latest.fit.refuses(shapes, self._sizes[key].names)
        if said:
            return said
        found = latest.guards.difference(self._fun)
        if found is None:
            return "what it reads changed meanwhile"
        (text, before), now = latest.places[found[0]], found[1]
        if before is None:
            return f"{text} changed"
        count = self._changes.get((key, text), 0)
        self._changes[key, text] = None if count is None else count + 1
        return f"{text} was {before!r}, is {_arguments.found(now)}"

    def _make(self, dynamic, static, named, named_static, n, leaves, weak, key, why, sizes, updated):
        p, since = _Program(), time.perf_counter()
        p.name = getattr(self._fun, "__name__", type(self._fun).__name__)
        given, functions = self._given(static, named_static, n), tree.functions((dynamic, named))
        numbers = {text for (k, text), count in self._changes.items() if k == key and (count or 0) >= 2}

        watch = None

        def once(types, declared, hints):
            nonlocal watch

            def captured():
                how = (dynamic, named, leaves, _mutable(types, leaves, updated), weak, declared, hints)
                return self._captured(static, named_static, n, *how, may_write=True)

            try:
                traced, p.guards, watch = _guards.watched(captured, self._fun, given, numbers, functions)
            except _guards.NumbersNeeded:
                self._changes.update({(key, text): None for text in numbers})
                traced, p.guards, watch = _guards.watched(captured, self._fun, given, (), functions)
            return traced

        p.traced, p.fit = sizes.capture(leaves, once, functools.partial(_log, p.name))
        p.lines, p.places, p.shared = watch.lines(), watch.summary(), watch.shared
        p.shared &= not p.traced.function.callbacks
        p.types = tuple([x._type for x in leaves])
        p.traced.leaves = p.traced.hidden = None
        options = {
            "donate": self._donated(dynamic, static, named),
            "constant": self._constants(p.traced, dynamic, static, named),
            **self._options,
        }
        if p.traced.function.updated:
            options["keep"] = _may_fail(p.traced.function)
        if any(p.traced.weak_out):
            options["weak"] = bytes([*p.traced.weak_out, *[False] * len(p.traced.updates)])
        p.exe = _compile(p.traced.function, p.name, since, options, why)
        out_tree = p.traced.out_tree
        p.unflatten = (
            None
            if out_tree.kind is None
            else tree.plan(out_tree) or functools.partial(tree.unflatten, out_tree)
        )
        return p

    def _donated(self, dynamic, static, named):
        """Which of the program's arguments are donated."""
        return _leaf_numbers(self._donate, self._donate_names, dynamic, static, named)

    def _constants(self, traced, dynamic, static, named):
        """Which of the program's arguments are constant: arrays that it closes over are, but for those that
        it writes to."""
        chosen = _leaf_numbers(self._constant, self._constant_names, dynamic, static, named)
        given = len(traced.names)
        hidden = range(given, len(traced.function.params))
        return [*chosen, *[i for i in hidden if i - given not in traced.updates]]

    def _leaves_of(self, dynamic, static, named):
        """As arguments_of, and which leaves a call updates."""
        leaves, weak, treedef = arguments_of(self._fun, dynamic, named, STATIC)
        if not self._mut:
            return leaves, weak, treedef, []
        updated = _leaf_numbers(self._mut.numbers, self._mut.names, dynamic, static, named)
        roots = call_names(self._whole(static, (), len(dynamic) + len(static)), len(dynamic))
        leaves, weak = _mut.lent(updated, leaves, weak, dynamic, named, roots)
        return leaves, weak, treedef, updated

    def _plainly(self, *args, **named):
        """As plain Python, with arrays of its own but for those that it updates."""
        total = len(args)
        updated = {p % total for p in self._mut.numbers if -total <= p < total}
        args = [x if i in updated else _own(x) for i, x in enumerate(args)]
        return self._fun(*args, **{k: x if k in self._mut.names else _own(x) for k, x in named.items()})

    # -- looking inside --

    def lower(self, *args, **named):
        """The program for these arguments, without running it."""
        dynamic, static, named_dynamic, named_static = self._split(args, named)
        p = _Program()
        p.name = getattr(self._fun, "__name__", type(self._fun).__name__)
        leaves, weak, _, updated = self._leaves_of(dynamic, static, named_dynamic)
        p.fun = self._whole(static, named_static, len(args))
        roots = call_names(p.fun, len(dynamic))
        sizes = _sizes.Sizes([*zip(roots, dynamic), *sorted(named_dynamic.items())], False, self._declared)
        sizes.check([x.shape for x in leaves])

        def once(types, declared, hints):
            types = _mutable(types, leaves, updated)
            how = (dynamic, named_dynamic, leaves, types, weak, declared, hints)
            return self._captured(static, named_static, len(args), *how)

        p.traced, p.fit = sizes.capture(leaves, once)
        constant = self._constants(p.traced, dynamic, static, named_dynamic)
        return Lowered(p, {**self._options, "constant": constant})

    def text(self, *args, **named):
        """The program for these arguments as text."""
        return self.lower(*args, **named).text()

    def explain(self, *args, **named):
        """What compiling does with the program for these arguments."""
        return self.lower(*args, **named).explain()

    def profile(self, *args, seconds=0.5, runs=None, **named):
        """Where the time goes: calls the program for these arguments again and again for so many seconds,
        or so many times (runs), and gives a profile, with the time of each nest, product, loop, branch,
        call, region and operator of it and the lines that they come from.

        What the function prints or does to others, it does at every call; arrays that it updates are
        copies. Arguments of the function that are called seconds or runs: lower(…).profile(seconds=…).

        >>> @hop.jit
        ... def f(x):
        ...     return hop.scan(lambda c, row: (hop.tanh(c @ x) + row, None), x[0], x)[0]
        >>> p = f.profile(hop.ones((200, 200)), runs=3)
        >>> p.tree["label"], p.runs, p.tree["inside"][0]["kind"]
        ('@f', 3, 'loop')
        """
        if self._signature and not {"seconds", "runs"}.isdisjoint(self._signature.names):
            raise InvalidError(
                f"{place()}profile: the function has arguments called seconds or runs: "
                "write lower(…).profile(seconds=…)"
            )
        return self.lower(*args, **named).profile(seconds=seconds, runs=runs)

    def c(self, *args, plain=False, **named):
        """The program for these arguments as C99 source: one file that compiles as it is, with the arrays
        that the function closes over in it. plain: without vector types, a smaller text.

        >>> text = hop.jit(hop.tanh).c(hop.zeros(3), plain=True)
        >>> "__attribute__" in text
        False
        """
        self._no_arguments("c", "", ("plain", plain, False))
        return self.lower(*args, **named).c(plain=plain)

    def export(self, folder, *args, name=None, weights="auto", plain=False, **named):
        """Writes the program for these arguments into a folder, as C that builds and checks itself; name,
        weights, plain and the rest are those of Lowered.export."""
        self._no_arguments(
            "export", "folder, ", ("name", name, None), ("weights", weights, "auto"), ("plain", plain, False)
        )
        return self.lower(*args, **named).export(folder, name=name, weights=weights, plain=plain)

    def _no_arguments(self, method, before, *options):
        """Options of a method, (name, value, default) each, that are not also arguments of the function."""
        for option, value, default in options:
            if value != default and self._signature and option in self._signature.names:
                raise InvalidError(
                    f"{place()}{method}: {option} is an argument of the function, too: "
                    f"write lower(…).{method}({before}{option}=…)"
                )

    def guards(self):
        """What the programs made so far were made of besides the types of their arguments, a list of lines
        for each: a program is used as long as all of it is as it was. Arrays are arguments of the program,
        read at every call.

        >>> scale = {"k": 2}
        >>> f = hop.jit(lambda x: x * scale["k"])
        >>> f(1.0), scale.update(k=14), f(1.0)
        (Array(2., dtype=float32), None, Array(14., dtype=float32))
        >>> [line for line in f.guards()[1] if "scale" in line]
        ["global scale['k'] is 14"]
        """
        return [list(p.lines) for p in self._programs()]

    def kept(self):
        """What its programs keep of regions of the kind "once": how many values, their bytes, and how often
        they were computed."""
        found = [p.exe.kept() for p in self._programs()]
        return dict(zip(("values", "bytes", "made"), map(sum, zip((0, 0, 0), *found))))

    def refresh(self):
        """What is kept is computed anew by the next call. From the first call of this on, memory that hop
        cannot watch, NumPy's for example, counts as unchanged until the next one: without it, what is made
        of such memory is computed at every call."""
        for p in self._programs():
            p.exe.refresh()

    def _programs(self):
        return [p for family in (*self._shared.values(), *self._own.values()) for p in family]

    def source(self):
        """The function as it is captured where its control flow meets traced values, as text."""
        from . import _rewrite

        return _rewrite.text(self._fun)

    def clear_cache(self):
        """Forgets the programs made so far."""
        self._forget()
        self._shared.clear()
        self._own.clear()
        self._sizes.clear()
        self._bodies.clear()
