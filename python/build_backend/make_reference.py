"""Writes the reference of the Python package from its docstrings, docs/python/reference: a page for each
family of functions, with signature, text and example of each. `make docs` calls it.

make_reference.py [FOLDER]: hop must be importable. A test holds the committed pages against pages(), and runs
the examples in the docstrings themselves.
"""

import inspect
import os
import pathlib
import re
import sys
import types

import hop

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "docs" / "python" / "reference"

# Module of the package -> name of the page, its title, and what holds for all of its functions. Others get a
# page under their own name.
PAGES = {
    "hop._array": ("array", "Arrays",
        "Arrays are values: nothing changes one that somebody else holds. Operators are those of Python; "
        "`x[i]` and `x.at[i]` are in [indexing](../../indexing.md)."),
    "hop._ops.creation": ("creation", "Making arrays",
        "A shape is a tuple, or a number for one axis. float32 and int64 are the dtypes of Python's "
        "numbers."),
    "hop._ops.elementwise": (
        "elementwise",
        "Elements",
        "Each works on every element. Operands broadcast as in NumPy, and their dtypes are promoted together "
        "(hop.result_type); a Python number takes the dtype of the array that it meets. "
        "Functions whose results are real numbers give float32 of integers. All of them can be "
        "differentiated in both modes and to any order where they have a derivative; comparisons and "
        "roundings have the derivative 0.",
    ),
    "hop._ops.axes": (
        "axes",
        "Along axes",
        "Reductions, running totals, sorting, searching. axis is a number, counted from the end when it is "
        "negative, or for reductions a tuple of them; None is all axes. keepdims leaves axes of size 1 in "
        "their places.",
    ),
    "hop._ops.shape": ("shape", "Shapes",
        "Elements keep their values and dtype. Gradients go back the way that the elements "
        "came."),
    "hop._ops.parts": ("parts", "Parts of arrays",
        "Positions may be traced. Those that are out of range are brought into it when elements are read. "
        "`x[...]` and `x.at[...]` say the same in brackets."),
    "hop._ops.products": ("products", "Products",
        "Sums of products of float16 and bfloat16 are made in float32 and rounded "
        "once."),
    "hop._ops.effects": ("effects", "Effects and files",
        "What a program does besides giving results happens in the order of its text, also when it is "
        "compiled."),
    "hop._dtypes": ("dtypes", "Dtypes",
        "`hop.bool`, `int8` to `int64`, `uint8` to `uint64`, `float16`, `bfloat16`, `float32`, `float64`; "
        "`hop.pi`, `e`, `inf`, `nan` are Python floats."),
    "hop._control": ("control", "Control flow",
        "Functions that take functions. Carries, inputs and results are trees; all of it can be "
        "differentiated, batched and nested in any order."),
    "hop._sources": ("plain", "Plain loops",
        "What a plain `for` goes over as a loop of the program ([control-flow.md](../control-flow.md))."),
    "hop._transforms": ("transforms", "Transforms",
        "Functions of functions, that nest in any order. Arguments and results are trees of "
        "arrays."),
    "hop._custom": ("custom", "Rules of one's own",
        "Functions whose derivatives, or whose way over one more axis, are given by functions."),
    "hop._modes": ("modes", "Modes",
        "Constants for derivatives and mixed precision: see [modes](../modes.md)."),
    "hop._region": ("region", "Regions",
        "Bodies under a regime ([control-flow.md](../../control-flow.md#regions))."),
    "hop._engine": ("engine", "Other engines",
        "Parts of programs that something else runs ([engines.md](../engines.md))."),
    "hop._jit": ("jit", "jit", "Compilation, and what was compiled, to look at and to take along."),
    "hop._function": ("function", "Programs as values",
        "A program that was read from [text](../../ir.md) or captured: called, transformed, printed, "
        "compiled."),
    "hop._sets": ("sets", "Sets", "Sizes depend on values: a run finds them, size= fixes them."),
    "hop._errors": ("errors", "Errors",
        "Each is also one of Python's own, which code that knows nothing of hop may "
        "catch."),
    "hop._numpy": (
        "numpy",
        "Functions of NumPy",
        "What NumPy has and the standard has not, under NumPy's names; compositions of the others, so they "
        "differentiate, batch and compile as those do. Where both have the function, its page names both "
        "spellings.",
    ),
    "hop._lax": ("lax", "Names of jax.lax",
        "For programs that come from JAX; where hop has another name for the same function, both are "
        "one."),
    "hop._jax": ("jax", "Names of jax", "For programs that come from JAX."),
    "hop._solves": ("solves", "Solutions of equations",
        "Their derivatives are those of the solution, whatever solver found it "
        "([implicit differentiation](../implicit-differentiation.md))."),
    "hop.implicit": ("implicit", "hop.implicit",
        "Solutions as functions of what their equations use from outside "
        "([implicit differentiation](../implicit-differentiation.md))."),
    "hop._gradients": ("gradients", "Gradients that are changed", ""),
    "hop._object": ("object", "Objects",
        "What is no array, as a value of programs: see [objects](../../objects.md)."),
    "hop._operator": ("operator", "Operators of one's own",
        "Functions on NumPy arrays, or of C, as operators of programs: see [operators](../operators.md)."),
    "hop._check_operator": ("check_operator", "Checking operators", ""),
    "hop._callback": ("callback", "Calls of Python", ""),
    "hop._check": ("check_grads", "Checking derivatives", ""),
    "hop._printing": ("printing", "How arrays are shown", ""),
    "hop._show": ("show", "Programs as pictures", ""), "hop._info": ("info", "The array-API standard", ""),
    "hop.linalg": ("linalg", "hop.linalg",
        "Matrices are the last two axes, those in front are a batch. All of it can be differentiated; "
        "integers become float32."),
    "hop.random": ("random", "hop.random",
        "Every function takes a key, and gives the same numbers for the same key. Split keys; do not use "
        "one twice."),
    "hop.autograd": ("autograd", "hop.autograd",
        "Functions with gradients of their own as classes, in PyTorch's spelling."),
    "hop.tree": ("tree", "hop.tree",
        "A tree is made of tuples, lists, dicts, named tuples, dataclasses, None and registered classes; "
        "everything else is a leaf."),
    "hop._places": ("places", "hop.tree: places and parameters",
        "Trees with other values at some places ([parameters.md](../parameters.md)). A place is a path, a "
        "text, a function that picks it or one that says of each leaf whether it is meant: "
        "`hop.tree.places`."),
    "hop.optim": ("optim", "hop.optim",
        "An optimizer is two functions of trees; a schedule is a function from the number of updates to a "
        "learning rate."),
}  # fmt: skip


def unwrapped(value):
    """The Python function behind an entry, or the value itself."""
    while not isinstance(value, (types.FunctionType, type)) and hasattr(value, "__wrapped__"):
        value = value.__wrapped__
    return value


def is_documented(value):
    """Functions and classes are; modules, numbers and dtypes are named by their pages."""
    return callable(value) and not isinstance(value, (types.ModuleType, hop.dtype))


def public_names():
    """{value: all names that it has, the first one first} of the functions and classes that users find."""
    found = {}
    modules = [
        hop,
        *[getattr(hop, name) for name in hop.__all__ if isinstance(getattr(hop, name), types.ModuleType)],
    ]
    for module in modules:
        for name in module.__all__:
            value = getattr(module, name)
            if is_documented(value):
                found.setdefault(unwrapped(value), []).append(f"{module.__name__}.{name}")
    for value, names in found.items():
        own = getattr(value, "__name__", "")
        names.sort(key=lambda n: (n.split(".")[-1] != own, n.count("."), n))
    return found


def home(value):
    """The module of the package that defines it."""
    if isinstance(value, types.FunctionType):
        path = os.path.relpath(value.__code__.co_filename, os.path.dirname(os.path.dirname(hop.__file__)))
        module = path.removesuffix(".py").removesuffix("/__init__").replace(os.sep, ".")
        package = module.rpartition(".")[0]  # whose page has the families that have none of their own
        return package if module not in PAGES and package in PAGES else module
    for name, module in sorted(sys.modules.items()):
        if (
            name.startswith("hop.")
            and name != "hop._core"
            and getattr(module, value.__name__, None) is value
            and "class " + value.__name__ in inspect.getsource(module)
        ):
            return name
    return value.__module__ if value.__module__ in PAGES else "hop"  # a class that C defines


def signature(value):
    try:
        text = str(inspect.signature(value))
    except (TypeError, ValueError):
        return "(…)"
    text = re.sub(r"<[^<>]*>", "…", text)
    return re.sub(r"\bself, |\(self\)", lambda m: "()" if m[0] == "(self)" else "", text)


def escaped(text):
    """Text of a docstring as Markdown: what stands in backquotes stays."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([*_<\[\]|])", r"\\\1", p) for p in parts[::2]]
    return "`".join(parts)


def body(doc):
    """A docstring as Markdown: paragraphs, and examples as code."""
    out, code = [], []
    for line in [*inspect.cleandoc(doc).splitlines(), ""]:
        if line.startswith(">>> ") or (code and line):
            if not code and out and out[-1]:
                out.append("")
            code.append(line)
            continue
        if code:
            out += ["```python", *code, "```"]
            code = []
        out.append(escaped(line))
    return "\n".join(out).strip()


def entry(value, names):
    kind = "class " if isinstance(value, type) else ""
    bare = isinstance(value, type) and signature(value) in ("()", "(*args, **kwargs)", "(…)")
    shown = "" if bare or "Error" in names[0] or value is hop.Compiled else signature(value)
    lines = [f"### `{kind}{names[0]}{shown}`", "", body(value.__doc__ or "")]
    if len(names) > 1:
        lines += ["", "Also " + ", ".join(f"`{n}`" for n in names[1:]) + "."]
    return "\n".join(lines)


def methods(owner):
    """The methods and attributes of a class, as a table."""
    lines = ["", "| | |", "|---|---|"]
    for name, value in sorted(vars(owner).items()):
        function = unwrapped(value.fget if isinstance(value, property) else value)
        doc = (value.__doc__ or "").strip().split("\n")[0] if not name.startswith("_") else ""
        if doc and (isinstance(value, property) or isinstance(function, types.FunctionType)):
            shown = (
                name
                if isinstance(value, property)
                else name + re.sub(r"^\(x(, /)?(, )?", "(", signature(function))
            )
            lines.append(f"| `{shown}` | {escaped(doc)} |")
    return "\n".join(lines)


def pages():
    """{file name: text}"""
    groups = {}
    for value, names in public_names().items():
        groups.setdefault(home(value), []).append((names, value))
    out, index = (
        {},
        [
            "# Reference of the Python package", "",
            "Written from the docstrings by `make docs`; every example is run by the tests.", "",
        ],
    )
    order = [*[m for m in PAGES if m in groups], *sorted(m for m in groups if m not in PAGES)]
    for module in order:
        page, title, intro = PAGES.get(module) or (
            module.removeprefix("hop.").lstrip("_").replace("._", "."),
            module.replace("._", "."),
            "",
        )
        lines = [f"# {title}"] + ["", intro] * bool(intro)
        groups[module].sort(key=lambda item: item[0][0].lower())
        for names, value in groups[module]:
            lines += ["", entry(value, names)]
            if value is hop.Array:
                lines.append(methods(hop.Array))
        out[page + ".md"] = "\n".join(lines) + "\n"
        listed = ", ".join(f"`{names[0].removeprefix('hop.')}`" for names, _ in groups[module])
        index += [f"- [{title}]({page}.md): {listed}"]
    out["README.md"] = "\n".join(index) + "\n"
    return out


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    made = pages()
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.md"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
