"""A program as a folder of C that builds and checks itself: source, header, weights, a driver with an example
and what it must give, a Makefile and a README."""

import os
import re
import struct
import types

from . import _core, _dtypes, tree
from ._arguments import place, wrong
from ._errors import FileError, InvalidError

# bytes of closed-over arrays that export writes into the source, unless told otherwise
MOST_EMBEDDED = 1 << 20
MOST_IN_TEXT = 1 << 24  # bytes of them that a source may hold at all
_MOST_LITERAL = 4096  # elements of examples that stand in main.c; more are in a file

# Per element type of a program: C's type, the code of struct, the bound of a comparison relative to the
# largest element (None: exact).
_TYPES = {
    "bool": ("uint8_t", "B", None), "i8": ("int8_t", "b", None), "i16": ("int16_t", "h", None),
    "i32": ("int32_t", "i", None), "i64": ("int64_t", "q", None), "u8": ("uint8_t", "B", None),
    "u16": ("uint16_t", "H", None), "u32": ("uint32_t", "I", None), "u64": ("uint64_t", "Q", None),
    "f16": ("uint16_t", "H", 1e-2), "bf16": ("uint16_t", "H", 5e-2),
    "f32": ("float", "f", 1e-4), "f64": ("double", "d", 1e-9),
}  # fmt: skip
_DIMS = re.compile(r"(\w+)\[(.*)\]")
_MARK = "Written by hop"


def constant_names(fun, hidden):
    """Names for the arrays that a function closes over: those of the variables that hold them,
    weight0, … for others."""
    known = {}
    for name, value in _variables(fun, 4):
        for path, leaf in tree.leaves_with_path(value):
            if isinstance(leaf, _core.ArrayBase) and not leaf._traced and not leaf._donated:
                known.setdefault(leaf._pointer, identifier("_".join([name, *map(str, path)])))
    return [known.get(x._pointer, f"weight{i}") for i, x in enumerate(hidden)]


def _variables(fun, depth):
    """(name, value) of what a function's code sees outside of itself, and of the functions that it holds."""
    if not isinstance(fun, types.FunctionType):
        fun = getattr(fun, "__wrapped__", getattr(fun, "__func__", None))
    if not isinstance(fun, types.FunctionType) or depth == 0:
        return
    found = []
    for name, cell in zip(fun.__code__.co_freevars, fun.__closure__ or ()):
        try:
            found.append((name, cell.cell_contents))
        except ValueError:  # not yet bound
            continue
    found += [(name, fun.__globals__[name]) for name in _names(fun.__code__) if name in fun.__globals__]
    for name, value in found:
        if callable(value):
            yield from _variables(value, depth - 1)
        elif not isinstance(value, types.ModuleType):
            yield name, value


def _names(code):
    out = list(code.co_names)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            out += _names(inner)
    return out


def identifier(text):
    text = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_")
    return text if text and not text[0].isdigit() else "x" + text


def result_names(out_tree):
    """Names for the leaves of a tree of results: out, out_h, out_0_1, …; each once."""
    names = []
    for path in tree.leaf_paths(out_tree):
        name = identifier("_".join(["out", *map(str, path)]))
        while name in names:
            name += "_"
        names.append(name)
    return names


class Signature:
    """The C function as the emitted header declares it, apart. symbols: how many sizes stand in front, those
    that are declared by dims=."""

    def __init__(self, header, n_symbols, n_params, n_results):
        line = next(x for x in header.splitlines() if re.match(r"int \w+\(.*\);$", x))
        self.text = line
        self.name = line[4 : line.index("(")]
        parts = [] if line.endswith("(void);") else line[line.index("(") + 1 : -2].split(", ")
        self.symbols, parts = [p.split(" ")[-1] for p in parts[:n_symbols]], parts[n_symbols:]
        self.params = [p.split(" ")[-1].lstrip("*") for p in parts[:n_params]]
        results = parts[n_params : n_params + n_results]
        self.results = [p.split(" ")[-1].lstrip("*") for p in results]
        self.grows = ["**" in p for p in results]
        rest = parts[n_params + n_results :]
        self.sizes = [p.split("*")[-1] for p in rest if p.startswith("int64_t *")]
        self.workspace, self.context = "void *workspace" in rest, "struct hop_c_context *context" in rest


class Exported:
    """What export wrote. folder: where; files: their names; name: of the C function; signature: its
    declaration; command: builds the example and checks it."""

    def __init__(self, folder, files, signature):
        self.folder, self.files, self.name, self.signature = (
            folder,
            tuple(files),
            signature.name,
            signature.text,
        )
        self.command = (
            f"make -C {folder} check" if re.fullmatch(r"[\w./-]+", folder) else f"make -C '{folder}' check"
        )

    def __repr__(self):
        return f"{self.folder}: {', '.join(self.files)}\n{self.signature}\nbuild and check it: {self.command}"


def export(lowered, folder, name, weights, plain):
    """Writes everything; see Lowered.export."""
    if weights not in ("auto", "constants", "file"):
        raise wrong("export: weights", "'auto', 'constants' or 'file'", weights)
    if name is not None and (not isinstance(name, str) or not re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII)):
        raise wrong("export: name", "a name that C allows", name)
    folder = os.fspath(folder)
    program = lowered._program
    if program.traced.function.callbacks:
        raise InvalidError(
            f"{place()}export: the program calls functions of the host's (hop.debug_callback, hop.operator, "
            "hop.pure_callback), and there are none where the C runs: leave them out, or write the C by "
            "jit(f).c(…), whose caller can supply them (docs/emit.md)"
        )
    hidden = program.traced.hidden
    objects = [x._type for x in [*program.traced.leaves, *hidden] if x.dtype.kind == "o"]
    if objects:
        raise InvalidError(
            f"{place()}export: the program takes an {objects[0]}, and only its host has one: write the C by "
            "jit(f).c(…), whose caller supplies it (docs/emit.md)"
        )
    if weights == "auto":
        weights = "file" if sum(x.nbytes for x in hidden) > MOST_EMBEDDED else "constants"
    by_file = weights == "file" and len(hidden) > 0
    header = lowered.emit("header", name=name, weights="arguments" if by_file else "constants")
    if re.search(r"^int \w+_init\(", header, re.MULTILINE):
        raise InvalidError(
            f"{place()}export: the program keeps what regions of the kind 'once' make of its constants: "
            "lower(…).emit('c') writes it, and its caller calls NAME_init first (docs/emit.md)"
        )
    n_params = len(program.traced.names) + (len(hidden) if by_file else 0)
    signature = Signature(header, len(program.fit.symbols), n_params, len(lowered.out_types))
    given = [*program.traced.leaves, *(hidden if by_file else [])]
    updated = program.traced.function.updated
    leaves = [x._copy() if i in updated else x for i, x in enumerate(program.traced.leaves)]
    expected = lowered.compile().run([*leaves, *hidden])
    after = {i: leaves[i] for i in updated}
    driver = _Driver(lowered, signature, given, expected, after, len(hidden) if by_file else 0)
    files = {
        f"{signature.name}.c": lowered.emit(
            "c",
            name=name,
            header=f"{signature.name}.h",
            weights="arguments" if by_file else "constants",
            plain=plain,
        ),
        f"{signature.name}.h": header,
        "main.c": driver.text(),
        "Makefile": _makefile(signature.name),
        **driver.data,
    }
    files["README.md"] = _readme(lowered, signature, driver, sorted(files))
    _write(folder, files)
    return Exported(folder, sorted(files), signature)


def _write(folder, files):
    try:
        os.makedirs(folder, exist_ok=True)
        others = sorted(x for x in os.listdir(folder) if not _is_ours(os.path.join(folder, x)))
        if others:
            shown = ", ".join(others[:3]) + (", …" if len(others) > 3 else "")
            raise FileError(
                f"{place()}export: {folder} already holds {shown}, which export did not write: name a new or "
                f"an empty folder"
            )
        for old in os.listdir(folder):
            os.remove(os.path.join(folder, old))
        for file, content in files.items():
            with open(os.path.join(folder, file), "wb") as out:
                out.write(content if isinstance(content, bytes) else content.encode())
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"{place()}export: {folder} cannot be written: {error.strerror or error}") from None


def _is_ours(path):
    """Whether an earlier export wrote it, or building one."""
    if not os.path.isfile(path):
        return False
    if path.endswith((".o", "_weights.bin", "_example.bin")) or os.path.basename(path) == "example":
        return True
    with open(path, "rb") as file:
        return _MARK.encode() in file.read(200)


# ---- the driver ----


class _Driver:
    """main.c, and the data that is too long for it. after: what the parameters that are updated become."""

    def __init__(self, lowered, signature, given, expected, after, n_weights):
        self.signature, self.given, self.expected, self.after = signature, given, expected, after
        self.strict = lowered._options["strict"]
        self.in_types = lowered.in_types[: len(given)]
        self.out_types = lowered.out_types
        fit, leaves = lowered._program.fit, lowered._program.traced.leaves
        sizes, _ = fit.bind([x.shape for x in leaves])
        self.symbols = {identifier(name): n for name, n in sizes.items()}
        self.first_weight = len(given) - n_weights
        inputs = given[: self.first_weight]
        self.checked = [*expected, *after.values()]
        self.literal = sum(x.size for x in [*inputs, *self.checked]) <= _MOST_LITERAL
        self.data = {}
        if n_weights:
            self.data[f"{signature.name}_weights.bin"] = b"".join(
                _bytes(x) for x in given[self.first_weight :]
            )
        if not self.literal:
            self.data[f"{signature.name}_example.bin"] = b"".join(
                _bytes(x) for x in [*inputs, *self.checked]
            )

    def text(self):
        s = self.signature
        kinds = sorted({_kind(x._type) for x in self.checked})
        out = [
            f"/* {_MARK}: calls {s.name} with the arguments of an example and compares what it gives with "
            f"what hop gave.\n"
            f" * make check, or: cc -O2 -std=c99 -ffp-contract=off main.c {s.name}.c -lm -o example && "
            f"./example */\n"
            f'#include "{s.name}.h"\n\n#include <float.h>\n#include <math.h>\n#include <stdio.h>\n#include '
            f"<stdlib.h>\n#include <string.h>\n"
        ]
        if self.data:
            out.append(_READ)
        out += [_comparison(kind, self.strict) for kind in kinds]
        if s.context:
            out.append(_RESIZE)
        out.append("int main(void)\n{")
        out += [
            self._array("in_" + n, x, not self._from_file(i), "" if i in self.after else "const ")
            for i, (n, x) in enumerate(zip(s.params, self.given))
        ]
        out += [self._array("expected_" + n, x, self.literal) for n, x in zip(self._names(), self.checked)]
        for name, x, grows in zip(s.results, self.expected, s.grows):
            kind = _TYPES[_kind(x._type)][0]
            out.append(
                f"    {kind} *found_{name} = NULL;"
                if grows
                else f"    static {kind} found_{name}[{max(x.size, 1)}];"
            )
        out += [f"    int64_t size_{name} = 0;" for name in s.sizes]
        out.append(self._calls())
        return "\n".join(out) + "\n"

    def _from_file(self, i):
        return not self.literal or i >= self.first_weight

    def _names(self):
        """Of everything that is compared: the results, and the parameters that are updated."""
        return [*self.signature.results, *[self.signature.params[i] for i in self.after]]

    def _array(self, name, x, literal, const="const "):
        kind, code, _ = _TYPES[_kind(x._type)]
        if not literal:
            return f"    static {kind} {name}[{max(x.size, 1)}];"
        values = struct.unpack(f"={x.size}{code}", _bytes(x))
        lines = _lines([_literal(v, _kind(x._type)) for v in values] or ["0"])
        return f"    static {const}{kind} {name}[{max(x.size, 1)}] = {{\n{lines}\n    }};"

    def _calls(self):
        s, out = self.signature, []
        for file, arrays in self._files():
            out.append(f"    void *const of_{file}[] = {{ {', '.join(arrays)} }};")
            out.append(
                f"    const size_t bytes_of_{file}[] = {{ {', '.join('sizeof ' + a for a in arrays)} }};"
            )
            out.append(
                f'    if (read_arrays("{s.name}_{file}.bin", of_{file}, bytes_of_{file}, {len(arrays)})) '
                f"return 2;"
            )
        if s.context:
            out.append("    struct hop_c_context context = { 0 };\n    context.resize = resize;")
        if s.workspace:
            sizes = ", ".join(str(self.symbols[n]) for n in s.symbols)
            out.append(
                f"    void *workspace = malloc({s.name}_workspace({sizes}));\n    if (!workspace) return 2;"
            )
        arguments = [str(self.symbols[n]) for n in s.symbols]
        arguments += [
            f"in_{n}[0]" if "[]" in t and i not in self.after else "in_" + n
            for i, (n, t) in enumerate(zip(s.params, self.in_types))
        ]
        arguments += [("&found_" if g else "found_") + n for n, g in zip(s.results, s.grows)]
        arguments += ["&size_" + n for n in s.sizes] + ["workspace"] * s.workspace + ["&context"] * s.context
        out.append(f"    const int status = {s.name}({', '.join(arguments)});")
        out.append("    if (status != HOP_C_OK) {")
        more = (
            ' %s%s\\n", status, context.place ? context.place : "", context.message ? context.message : "");'
            if s.context
            else '\\n", status);'
        )
        out.append(
            f'        printf("{s.name} returned status %d'
            + more
            + "\n        return 1;\n    }\n    int differing = 0;"
        )
        for name, size in self._sizes():
            out.append(
                f'    if (size_{name} != {size}) {{\n        printf("{name}: expected {size}, found '
                f'%lld\\n", (long long)size_{name});\n        return 1;\n    }}'
            )
        found = [*["found_" + n for n in s.results], *["in_" + s.params[i] for i in self.after]]
        for name, array, x in zip(self._names(), found, self.checked):
            out.append(
                f'    differing += compare_{_kind(x._type)}("{name}", {array}, expected_{name}, {x.size});'
            )
        out += [f"    free(found_{n});" for n, grows in zip(s.results, s.grows) if grows] + [
            "    free(workspace);"
        ] * s.workspace
        out.append(
            f'    if (!differing) printf("{s.name}: all results agree\\n");\n    return differing ? 1 : 0;\n'
            f"}}"
        )
        return "\n".join(out)

    def _files(self):
        """(word of the file's name, arrays in it)"""
        inputs = ["in_" + n for n in self.signature.params]
        example = [n for n, x in zip(inputs, self.given[: self.first_weight]) if x.size]
        example += ["expected_" + n for n, x in zip(self._names(), self.checked) if x.size]
        weights = [n for n, x in zip(inputs[self.first_weight :], self.given[self.first_weight :]) if x.size]
        return [("weights", weights)] * bool(weights) + [("example", example)] * (not self.literal)

    def _sizes(self):
        """(C name, what it must be) of sizes that are axes of a result."""
        known = {}
        for text, x in zip(self.out_types, self.expected):
            for axis, size in zip(_DIMS.fullmatch(text)[2].split(", "), x.shape):
                known[identifier(axis)] = size
        return [(n, known[n]) for n in self.signature.sizes if n in known]


def _bytes(x):
    """The elements as they lie in memory; of bfloat16 by way of float32, whose upper half it is."""
    if x.dtype is not _dtypes.bfloat16:
        return memoryview(x).tobytes()  # bytes(x) of one integer would be so many zeros
    wide, out = memoryview(x.astype(_dtypes.float32)).tobytes(), bytearray(x.nbytes)
    out[0::2], out[1::2] = wide[2::4], wide[3::4]
    return bytes(out)


def _kind(text):
    return text.split("[", 1)[0]


def _literal(value, kind):
    if kind in ("f32", "f64"):
        if value != value:
            return "NAN"
        if value in (float("inf"), float("-inf")):
            return "INFINITY" if value > 0 else "-INFINITY"
        text = f"{value:.9g}" if kind == "f32" else f"{value:.17g}"
        text = text if re.search(r"[.e]", text) else text + ".0"
        return text + "f" * (kind == "f32")
    if kind == "i64" and value == -(1 << 63):
        return "INT64_MIN"
    if kind == "i32" and value == -(1 << 31):
        return "INT32_MIN"
    return f"{value}{'ll' if kind == 'i64' else 'ull' if kind == 'u64' else 'u' if kind == 'u32' else ''}"


def _lines(words):
    lines, line = [], "       "
    for word in words:
        if len(line) + len(word) > 100:
            lines.append(line)
            line = "       "
        line += f" {word},"
    return "\n".join([*lines, line])


_READ = """
static int read_arrays(const char *path, void *const *arrays, const size_t *bytes, size_t n)
{
    FILE *file = fopen(path, "rb");
    for (size_t i = 0; file && i < n; i++) {
        if (fread(arrays[i], 1, bytes[i], file) == bytes[i]) continue;
        fclose(file);
        file = NULL;
    }
    if (!file) {
        printf("%s cannot be read\\n", path);
        return 1;
    }
    fclose(file);
    return 0;
}
"""
_RESIZE = """
static void *resize(void *user, void *block, size_t bytes)
{
    (void)user;
    if (bytes) return realloc(block, bytes);
    free(block);
    return NULL;
}
"""
_VALUES = {
    "f16": """static double value_f16(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double size = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    if (exponent == 31) size = fraction ? NAN : INFINITY;
    return bits >> 15 ? -size : size;
}
""",
    "bf16": """static double value_bf16(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}
""",
}


def _comparison(kind, strict):
    c, _, bound = _TYPES[kind]
    head = (
        f"static int compare_{kind}(const char *name, const {c} *found, const {c} *expected, size_t n)\n{{\n"
    )
    if bound is None:
        show = "unsigned long long" if kind.startswith("u") else "long long"
        form = "%llu" if kind.startswith("u") else "%lld"
        return (
            f"\n{head}    for (size_t i = 0; i < n; i++) {{\n        if (found[i] == expected[i]) continue;\n"
            f'        printf("%s, element %zu: expected {form}, found {form}\\n", name, i, '
            f"({show})expected[i], ({show})found[i]);\n        return 1;\n    }}\n    return 0;\n}}\n"
        )
    value = f"value_{kind}(%s)" if kind in _VALUES else "(double)%s"
    limit = "0" if strict else f"{bound:g} * largest"
    largest = "" if strict else (
        "    double largest = 0;\n    for (size_t i = 0; i < n; i++) {\n"
        f"        const double size = fabs({value % 'expected[i]'});\n        if (size <= DBL_MAX && size > "
        f"largest) largest = size;\n    }}\n"
    )  # fmt: skip
    return (
        f"\n{_VALUES.get(kind, '')}{head}{largest}    for (size_t i = 0; i < n; i++) {{\n"
        f"        const double a = {value % 'found[i]'}, b = {value % 'expected[i]'};\n"
        f"        if (a == b || (a != a && b != b) || fabs(a - b) <= {limit}) continue;\n"
        '        printf("%s, element %zu: expected %.9g, found %.9g\\n", name, i, b, a);\n        return 1;\n'
        "    }\n    return 0;\n}\n"
    )


# ---- how to build it ----


def _makefile(name):
    return f"""# {_MARK}. make builds the example, make check runs it; {name}.c alone is what a program needs.
CC ?= cc
CFLAGS ?= -O2 -std=c99 -Wall -Wextra

example: main.c {name}.c {name}.h
\t$(CC) $(CFLAGS) -ffp-contract=off -o $@ main.c {name}.c -lm

check: example
\t./example

clean:
\trm -f example

.PHONY: check clean
"""


def _readme(lowered, signature, driver, files):
    s = signature
    lines = [
        f"# {s.name}", "",
            f"{_MARK} {_core.version} from a Python function. It needs a C99 "
            f"compiler and libm, nothing else.", "", "```c", s.text, "```", "",
        f"`make check` builds an example and compares its results with what hop gave. A program of one's "
        f"own: `cc -O2 -std=c99 -ffp-contract=off -c {s.name}.c`, then link it with `-lm` and include "
        f"`{s.name}.h` (also from C++).",
        "", "| argument | in Python | type |", "|---|---|---|",
    ]  # fmt: skip
    paths = lowered._paths()
    lines += [f"| `{name}` | a size | `int64_t` |" for name in s.symbols]
    for i, (name, kind) in enumerate(zip(s.params, driver.in_types)):
        lines.append(f"| `{name}` | {'`' + paths[i] + '`' if i < len(paths) else 'a weight'} | `{kind}` |")
    for name, path, kind in zip(s.results, lowered._result_paths(), lowered.out_types):
        lines.append(f"| `{name}`, written | `{path}` | `{kind}` |")
    lines += [
        "",
        "Arrays are contiguous and row-major and do not overlap. A bool is a byte, f16 and bf16 are their "
        "bits in a `uint16_t`. The function returns 0, or a status that the header lists.",
    ]
    for file in files:
        if file.endswith("_weights.bin"):
            lines += [
                "",
                f"`{file}` holds the arrays that the function closes over, one after another, "
                f"little-endian; `main.c` shows how to read it:",
                "",
            ]
            at = 0
            for name, x in zip(s.params[driver.first_weight :], driver.given[driver.first_weight :]):
                lines.append(f"- `{name}`, `{x._type}`: {x.nbytes} bytes from byte {at}")
                at += x.nbytes
        if file.endswith("_example.bin"):
            lines += [
                "",
                f"`{file}` holds the arguments and the expected results of the example; only `main.c` reads "
                f"it.",
            ]
    return "\n".join(lines) + "\n"
