"""What calls of operators from outside cost, one JSON object a line.

    python operators.py [--quick]

Each line is one function and one size of its argument, f32[n]: plain_ns is a call of the Python function on
NumPy arrays, operator_ns a call of the same function as a hop.operator from a loop of compiled code, once_ns
one outside of programs, ratio the second beside the first. c_ns is a function of C's that copies an element,
from the same loop. Each is the least of several measurements, on one thread.
"""

import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np

import hop

FUNCTIONS = {
    "nothing": lambda x: x,
    "sin": lambda x: np.sin(x),
    "smooth": lambda x: np.convolve(x, np.ones(3, np.float32) / np.float32(3), "same"),
    "sort": lambda x: np.sort(x)[::-1],
}
SOURCE = """
int first(void *call, void *const *arrays, const long long *sizes)
{
    (void)call;
    (void)sizes;
    *(float *)arrays[1] = *(const float *)arrays[0];
    return 0;
}
"""


def least(f, times):
    """Nanoseconds of one of f's calls, of which f makes `times`."""
    found = []
    for _ in range(3 if "--quick" in sys.argv else 9):
        start = time.perf_counter()
        f()
        found.append((time.perf_counter() - start) / times * 1e9)
    return min(found)


def looped(op, times):
    """A program that calls an operator on a carry."""
    return hop.jit(lambda x: hop.fori_loop(0, times, lambda i, c: op(c), x), threads=1)


def of_python(name, fun, n):
    times = max(20, 20_000 // (1 + n // 100))
    op = hop.operator("(x: f32[N]) -> f32[N]", fun, name=f"bench_{name}", effect="io")
    x = np.linspace(0, 1, n, dtype=np.float32)
    mine = hop.asarray(x)
    program = looped(op, times)
    program(mine)

    def plain():
        y = x
        for _ in range(times):
            y = fun(y)

    def once():
        for _ in range(times):
            op(mine)

    plain_ns, operator_ns, once_ns = (
        least(plain, times),
        least(lambda: program(mine), times),
        least(once, times),
    )
    return {
        "function": name, "n": n, "plain_ns": round(plain_ns), "operator_ns": round(operator_ns),
        "once_ns": round(once_ns), "ratio": round(operator_ns / plain_ns, 2),
    }  # fmt: skip


def of_c(folder):
    compiler = next(c for c in ("cc", "gcc", "clang") if shutil.which(c))
    source, library = os.path.join(folder, "first.c"), os.path.join(folder, "first.so")
    with open(source, "w") as out:
        out.write(SOURCE)
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", source, "-o", library], check=True)
    op = hop.operator("first(x: f32[]) -> f32[]", c=ctypes.CDLL(library).first, effect="io")
    times = 1_000_000
    program = looped(op, times)
    program(1.0)
    return {"function": "first", "c_ns": round(least(lambda: program(1.0), times), 1)}


def main():
    for name, fun in FUNCTIONS.items():
        for n in (10, 1000, 100_000, 1_000_000):
            print(json.dumps(of_python(name, fun, n)), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(of_c(folder)), flush=True)


if __name__ == "__main__":
    main()
