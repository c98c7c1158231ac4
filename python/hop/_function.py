"""Programs as values: read from text or captured, called, transformed, printed."""

__all__ = ["Function", "read"]

import json
import os

from . import _arguments, _core, _dtypes
from ._arguments import place
from ._errors import FileError, InvalidError
from ._object import Object, kind_of
from ._ops import asarray, astype

_FLOATS = ("f16", "bf16", "f32", "f64")


def read(text, name=None):
    """A program from its text form, as a function of arrays: a hop.Function. name: which of its functions,
    without @; the last one when it is not said.

    text: the text itself, or a pathlib.Path of a file that holds it. Errors name line and column.

    >>> double = hop.read('''
    ... fn @double(%x: f32[N]) -> (f32[N]) {
    ...   %y = add(%x, %x)
    ...   return %y
    ... }''')
    >>> double([1.0, 2.0, 3.0])
    Array([2., 4., 6.], dtype=float32)
    """
    source = "text"
    if isinstance(text, os.PathLike):
        source = os.fspath(text)
        try:
            with open(text, encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or error
            raise FileError(f"{place()}read: {source}: {why}") from None
    if not isinstance(text, str):
        raise _arguments.wrong("read: text", "the text of a program, or a pathlib.Path", text)
    if "\n" not in text and "{" not in text and text.endswith(".hop"):
        raise InvalidError(
            f"{place()}read: expected the text of a program, found {text!r}: "
            f"hop.read(pathlib.Path({text!r})) reads a file"
        )
    try:
        from ._operator import declared  # which takes what is built on this module

        return Function(_core.read(text, _arguments.text("read: name", name), declared(text)))
    except InvalidError as error:
        said = str(error)
        if said.startswith(place()):
            raise
        if said.startswith("text:"):
            said = source + said.removeprefix("text")
        raise InvalidError(f"{place()}read: {said}") from None
    except ValueError as error:  # a text that C cannot hold
        raise InvalidError(f"{place()}read: {error}") from None


class Function:
    """A program: hop.read gives it, and lower(...).function of what hop.jit gives.

    f(*arrays) runs it, compiled at the first call; in a function that is being captured it is a call. Its
    arguments and results are arrays, no trees: one result is an array, several are a tuple. Arguments can be
    given by the names of the parameters, declared sizes (`dim K`) by theirs; numbers and lists get the dtype
    of the parameter, arrays must have it. An argument that the program updates (`mut`) holds its new content
    afterwards. hop.jit, hop.grad, hop.vmap and the like take it as any other function; its own methods of
    these names give programs again.

    >>> f = hop.read("fn @cube(%x: f32[]) -> (f32[]) { %y = mul(%x, %x) %z = mul(%x, %y) return %z }")
    >>> f
    <hop.Function @cube(x: f32[]) -> (f32[])>
    >>> f(2.0), f.grad()(2.0), hop.grad(f)(2.0)
    (Array(8., dtype=float32), Array(12., dtype=float32), Array(12., dtype=float32))
    """

    __module__ = "hop"
    __slots__ = (
        "_program", "_bound", "_exes", "_all_names", "_all_types", "_visible", "_dims", "__name__",
        "__weakref__",
    )  # fmt: skip

    def __init__(self, program, bound=None):
        """bound: arrays for some of the parameters, by number; a call does not give them."""
        if not isinstance(program, _core.Function):
            raise TypeError(
                f"{place()}Function: programs come from hop.read(text), "
                f"or from hop.jit(f).lower(...).function; found {_arguments.found(program)}"
            )
        self._program, self._bound, self._exes = program, dict(bound or {}), {}
        self._all_names, self._all_types = program.names, program.params
        self._visible = [i for i in range(len(self._all_types)) if i not in self._bound]
        self._dims, self.__name__ = program.dims, program.name or "f"

    # -- what it is --

    @property
    def name(self):
        """Its name, without @."""
        return self._program.name

    @property
    def names(self):
        """The names of its parameters."""
        return tuple([self._all_names[i] for i in self._visible])

    @property
    def _argument_names(self):
        return list(self.names)

    @property
    def params(self):
        """The types of its parameters: ('f32[T, 64]', …)."""
        return tuple([self._all_types[i] for i in self._visible])

    @property
    def results(self):
        """The types of its results."""
        return self._program.results

    @property
    def dims(self):
        """The names of its declared sizes, which a call must give."""
        return self._dims

    @property
    def bound(self):
        """Arrays that the captured function uses from outside: parameters of the text, behind the others,
        that a call does not give."""
        return tuple(self._bound.values())

    @property
    def callbacks(self):
        """The Python functions that it calls."""
        return self._program.callbacks

    def text(self):
        """The program as text; hop.read reads it again."""
        return self._program.text()

    def json(self):
        """The program as dicts and lists, for those who translate it: {"name", "params", "nodes", "results"}.
        A param is {"name", "type"}; a node {"op", "attributes", "operands", "results", "types", "bodies",
        "place"}; a body {"operands", "sizes", "function"}, whose function is again such a dict. Values are
        numbers: parameters first, then results of nodes. Sizes are numbers, or texts over the names that the
        types of parameters tell.

        >>> f = hop.read("fn @cube(%x: f32[N]) -> (f32[N]) { %y = mul(%x, %x) %z = mul(%x, %y) return %z }")
        >>> [(node["op"], node["operands"], node["results"]) for node in f.json()["nodes"]]
        [('mul', [0, 0], [1]), ('mul', [0, 1], [2])]
        """
        return json.loads(self._program.json())

    def remarks(self):
        """What its capture did that may surprise, a line each."""
        return self._program.remarks()

    def explain(self, form="short", *, strict=False, threads=0, portable=False):
        """What compiling does with it: "short", "all" with every stored value, or "json"."""
        return self._program.explain(form, strict=strict, threads=threads, portable=portable)

    def emit(
        self, kind, *, name=None, params=None, results=None, header=None, strict=False, plain=False
    ):
        """It as text: "c" (C99) and its "header", "loops", "llvm" or "asm".

        Of "c" and "header": name is that of the C function, params and results are names for its arguments,
        header is the file that the source includes, plain=True leaves vector types out. Bound arrays are
        constants of the source."""
        if kind not in ("c", "header"):
            return self._program.emit(kind, strict=strict)
        constants = [self._bound.get(i) for i in range(len(self._all_types))] if self._bound else None
        return self._program.emit(
            kind,
            name=name,
            params=params,
            results=results,
            header=header,
            constants=constants,
            strict=strict,
            plain=plain,
        )

    def __repr__(self):
        params = ", ".join(f"{n}: {t}" for n, t in zip(self.names, self.params))
        dims = f"[{', '.join(self._dims)}]" if self._dims else ""
        return f"<hop.Function @{self.__name__}{dims}({params}) -> ({', '.join(self.results)})>"

    def __reduce__(self):
        if self.callbacks:
            raise TypeError(f"{place()}a program that calls Python functions cannot be pickled: {self!r}")
        return _again, (self.text(), self._program.name, self._bound)

    # -- calls --

    def __call__(self, *args, **named):
        values, dims = self._values(args, named)
        if _core.tracing():
            if dims:
                raise InvalidError(
                    f"{place()}{self._what()}: declared sizes ({', '.join(self._dims)}) cannot be given "
                    "while a program is captured"
                )
            return self._given(self._program.call(values))
        return self._run(self._executable(False, 0, False), values, dims)

    def interpret(self, *args, **named):
        """The results of the reference interpreter: strict numbers, operator by operator, slowly."""
        values, dims = self._values(args, named)
        return self._run(self._program.interpret, values, dims)

    def compile(self, *, strict=False, threads=0, portable=False):
        """A function of the same arguments that runs machine code, made now. strict: results are bit for bit
        those of interpret; portable: without machine code."""
        strict = _arguments.flag("compile: strict", strict)
        threads = _arguments.integer("compile: threads", threads, 0)
        run = self._executable(strict, threads, _arguments.flag("compile: portable", portable))

        def compiled(*args, **named):
            if _core.tracing():
                return self(*args, **named)
            return self._run(run, *self._values(args, named))

        compiled.__name__ = compiled.__qualname__ = self.__name__
        compiled.__doc__ = f"{self!r}, compiled."
        compiled._argument_names = self._argument_names
        compiled._executable = None if self._bound or self._dims else run.__self__
        compiled._types = self.params, self.results
        return _core.entry(compiled)

    def _executable(self, *options):
        key = (*options, _core.region_changes())
        if key not in self._exes:
            strict, threads, portable = options
            exe = self._program.compile(strict=strict, threads=threads, portable=portable)
            self._exes[key] = exe.run
        return self._exes[key]

    def _what(self):
        return f"@{self.__name__}"

    def _values(self, args, named):
        """(an array for each parameter, values of the declared sizes)"""
        names, what = self.names, self._what()
        if len(args) > len(names):
            raise InvalidError(
                f"{place()}{what}: takes {len(names)} arguments ({', '.join(names)}), given {len(args)}"
            )
        given, sizes = dict(zip(self._visible, args)), {}
        for name, x in named.items():
            at = self._visible[names.index(name)] if name in names else None
            if at is not None and at not in given:
                given[at] = x
            elif name in self._dims and name not in sizes:
                sizes[name] = _arguments.size(f"{what}: {name}", x)
            else:
                problem = "is given twice" if at is not None else "is no parameter of it"
                raise InvalidError(f"{place()}{what}: {name} {problem}; it takes {', '.join(names)}")
        missing = [n for i, n in zip(self._visible, names) if i not in given]
        missing += [n for n in self._dims if n not in sizes] if not _core.tracing() else []
        if missing:
            raise InvalidError(f"{place()}{what}: there is nothing for {', '.join(missing)}")
        given.update(self._bound)
        values = [self._array(i, given[i]) for i in range(len(self._all_types))]
        return values, tuple([sizes[n] for n in self._dims if n in sizes])

    def _array(self, i, x):
        """An argument as an array of the dtype of its parameter."""
        if self._all_types[i].startswith("object"):
            return self._object(i, x)
        dtype = _dtypes.as_dtype(self._all_types[i].split("[")[0])
        what = f"{self._what()}: {self._all_names[i] or f'argument {i}'}"
        if isinstance(x, _core.ArrayBase):
            if x._weak and x.dtype is not dtype:
                x = astype(x, dtype)
        else:
            if i in self._program.updated:
                raise _arguments.wrong(what, "an array of hop, which the program updates", x)
            try:
                x = asarray(x) if hasattr(x, "dtype") else asarray(x, dtype=dtype)
            except (TypeError, ValueError, OverflowError) as error:
                said = str(error).removeprefix(_core.call_place())
                raise InvalidError(f"{place()}{what}: {said}") from None
        if x.dtype is not dtype:
            raise InvalidError(f"{place()}{what}: expected {self._all_types[i]}, found {x._type}")
        return x

    def _object(self, i, x):
        """An argument as an object of the kind of its parameter."""
        if not isinstance(x, _core.ArrayBase):
            x = Object(x, kind=kind_of(self._all_types[i]))
        if x._type != self._all_types[i]:
            what = f"{self._what()}: {self._all_names[i] or f'argument {i}'}"
            raise InvalidError(f"{place()}{what}: expected {self._all_types[i]}, found {x._type}")
        return x

    def _run(self, run, values, dims):
        updated = {i: values[i] for i in self._program.updated}
        for i, x in updated.items():
            values[i] = asarray(x, copy=True)
        try:
            out = run(values, dims)
        except InvalidError as error:  # about the arguments
            raise InvalidError(f"{place()}{self._what()}: {error}") from None
        for i, x in updated.items():
            x._become(values[i])
        return self._given(out)

    @staticmethod
    def _given(out):
        return out[0] if len(out) == 1 else tuple(out)

    # -- transforms --

    def grad(self, wrt=None):
        """The program of the gradient of its first result, a float scalar: (x…) -> (gradient for each wrt…).
        wrt: names or numbers of parameters; None: all that are floats.

        >>> f = hop.read("fn @f(%x: f32[], %y: f32[]) -> (f32[]) { %z = mul(%x, %y) return %z }")
        >>> f.grad("x")(2.0, 5.0), f.grad()(2.0, 5.0)
        (Array(5., dtype=float32), (Array(5., dtype=float32), Array(2., dtype=float32)))
        """
        return self._transformed("grad", wrt)

    def value_and_grad(self, wrt=None):
        """(x…) -> (results…, gradient of the first one for each wrt…)."""
        return self._transformed("value_and_grad", wrt)

    def vjp(self, wrt=None):
        """(x…, cotangent of each float result…) -> (results…, cotangent of each wrt…)."""
        return self._transformed("vjp", wrt)

    def jvp(self, wrt=None):
        """(x…, tangent of each wrt…) -> (results…, tangent of each float result…)."""
        return self._transformed("jvp", wrt)

    def jacfwd(self, wrt=None):
        """(x…) -> for each float result and each wrt the derivatives, with the axes of the result first; a
        column at a time."""
        return self._transformed("jacfwd", wrt)

    def jacrev(self, wrt=None):
        """The same as jacfwd, a row at a time."""
        return self._transformed("jacrev", wrt)

    def hessian(self, wrt=None):
        """(x…) -> the second derivatives of the first result, a float scalar, for each pair of wrt."""
        return self._transformed("hessian", wrt)

    def vmap(self, in_axes=0, out_axes=0):
        """The program over one more axis. in_axes: where it is in the arguments, one number for all, a list
        with a number or None for each, or a dict by their names, in which those that are not there have none;
        out_axes: where it is in the results, the same without names.

        >>> f = hop.read("fn @f(%x: f32[], %w: f32[]) -> (f32[]) { %z = mul(%x, %w) return %z }")
        >>> f.vmap({"x": 0})([1.0, 2.0], 3.0)
        Array([3., 6.], dtype=float32)
        """
        names, axis = self.names, "the number of an axis, or None"
        if isinstance(in_axes, dict):
            for name in in_axes:
                if name not in names:
                    known = f"{', '.join(names)}"
                    raise InvalidError(
                        f"{place()}vmap: in_axes: {self._what()} has no parameter {name!r}, it has {known}"
                    )
            axes = [in_axes.get(name) for name in names]
        else:
            axes = self._axes("vmap: in_axes", in_axes, len(names))
        texts = []
        for i, a in zip(self._visible, axes):
            if a is not None:
                _arguments.integer(f"vmap: in_axes of {self._all_names[i]}", a, expected=axis)
                texts.append(f"#{i}: {a}")
        if not texts:
            raise InvalidError(f"{place()}vmap: no argument has the axis: in_axes is None for all of them")
        outs = self._axes("vmap: out_axes", out_axes, len(self.results))
        for a in outs:
            if a is not None:
                _arguments.integer("vmap: out_axes", a, expected=axis)
        placed = ", ".join("-" if a is None else str(a) for a in outs)
        return Function(self._program.transform("vmap", ", ".join(texts), placed), self._bound)

    @staticmethod
    def _axes(what, axes, n):
        if not isinstance(axes, (tuple, list)):
            return [axes] * n
        if len(axes) != n:
            raise InvalidError(f"{place()}{what}: expected {n} entries, found {len(axes)}")
        return axes

    def _transformed(self, how, wrt):
        return Function(self._program.transform(how, self._wrt(how, wrt)), self._bound)

    def _wrt(self, how, wrt):
        names = self.names
        if wrt is None:
            floats = [i for i in self._visible if self._all_types[i].split("[")[0] in _FLOATS]
            return ", ".join(f"#{i}" for i in floats)
        if isinstance(wrt, str):
            wrt = [part.strip() for part in wrt.split(",") if part.strip()]
        out = []
        for x in wrt if isinstance(wrt, (tuple, list)) else (wrt,):
            if isinstance(x, str) and x in names:
                number = names.index(x)
            elif isinstance(x, str):
                raise InvalidError(
                    f"{place()}{how}: wrt: {self._what()} has no parameter {x!r}, it has {', '.join(names)}"
                )
            else:
                n = len(names)
                number = _arguments.integer(f"{how}: wrt", x, -n, n - 1, f"a parameter of {self._what()}")
            out.append(f"#{self._visible[number]}")
        return ", ".join(out)


def _again(text, name, bound):
    return Function(_core.read(text, name), bound)
