"""What the comparisons of several systems share: the command line, a process for each system, one JSON object
a line, what the machine is, and a table in a page of the documentation."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
from importlib.metadata import version


def options_of(text, kind, names, systems, flags=()):
    """The command line: which of the names are wanted, all of them when none is given."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=text, formatter_class=layout)
    parser.add_argument("wanted", nargs="*", metavar=kind.upper(), help=", ".join(names))
    for flag in flags:
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--table", metavar="FILE", type=pathlib.Path)
    parser.add_argument("--system", choices=systems, help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = [name for name in options.wanted if name not in names]
    if unknown:
        parser.error(f"there is no {kind} {unknown[0]}: there are {', '.join(names)}")
    options.wanted = options.wanted or list(names)
    return options


def collected(script, kind, wanted, systems, flags=()):
    """{name: {system: what it found}}, from a process for each system that prints [name, found] a line."""
    results = {name: {} for name in wanted}
    for system in systems:
        command = [sys.executable, script, *wanted, "--system", system, *flags]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        for line in done.stdout.splitlines():
            name, found = json.loads(line)
            results[name][system] = found
    for name, found in results.items():
        print(json.dumps({kind: name, **found}), flush=True)
    return results


def versions():
    torch = version("torch").partition("+")[0]
    return f"hop {version('hop')}, JAX {version('jax')}, PyTorch {torch}"


def machine():
    """How many CPUs of which name."""
    said = {}
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                key, _, value = line.partition(":")
                said.setdefault(key.strip(), value.strip())
    except OSError:
        pass
    name = said.get("model name", "an unknown processor").replace("(R)", "").replace("(TM)", "")
    wide = " with AVX-512" if "avx512f" in said.get("flags", "") else ""
    return f"{len(os.sched_getaffinity(0))} CPUs ({name}{wide})"


def write_table(file, marks, table):
    """Puts the table between the two comments that mark its place in a page."""
    page = file.read_text(encoding="utf-8")
    begin, end = marks
    before, after = page.split(begin)[0], page.split(end)[1]
    file.write_text(f"{before}{begin}\n{table}\n{end}{after}", encoding="utf-8")
