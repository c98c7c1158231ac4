"""Random programs in hop and in JAX: values, derivatives and batches have to agree.

    python compare.py [COUNT [FIRST]] [--jobs N]     600 programs from seed 0 on
    python compare.py --seed N                       one program, with its source in both libraries

Each program (programs.py) is written for both libraries and transformed in the same ways in both; results
are compared leaf by leaf: structure, dtype, shape, elements. JAX computes with float64 where hop computes
with float32. Where JAX has no reverse mode, through while_loop and fori_loop with traced bounds, hop's
reverse mode is held against JAX's forward mode and against differences. Programs run in processes of their
own, so that one that crashes or does not end is a disagreement, not the end. A disagreement prints the
seed, the program for both libraries and the values, and the exit code is 1. The last line is a JSON
object.
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import programs  # noqa: E402

CHUNK, LIMIT = 50, 240  # programs a process does; seconds a program may take
MOST_SKIPPED = 0.05  # share of gradients whose differences have a kink
MOST_SENSITIVE = 0.02  # share of comparisons in which results depend on the last digits of the arguments


# ---- one program, in a process that has both libraries ----


class Side:
    """A library, a program in it, and the way it takes gradients of that program."""

    def __init__(self, name, library, program, exact, forward=False):
        self.name, self.lib = name, library
        space = program.functions(name, exact)
        self.program, self.values, self.loss = space["program"], space["values"], space["loss"]
        self.forward = forward  # gradients by forward mode
        self.grad = library.jacfwd if forward else library.grad
        self.hessian = (lambda f: library.jacfwd(library.jacfwd(f))) if forward else library.hessian
        self.sum, self.sin = (library.sum, library.sin) if name == "hop" else (_jnp.sum, _jnp.sin)

    def dot(self, a, b):
        leaves = (self.lib.tree.leaves(a), self.lib.tree.leaves(b))
        return sum(self.sum(u * v) for u, v in zip(*leaves))

    def vjp(self, x, p, k, c):
        f = lambda x, p: self.values(x, p, k)  # noqa: E731
        if self.forward:
            return self.grad(lambda x, p: self.dot(f(x, p), c), (0, 1))(x, p)
        return self.lib.vjp(f, x, p)[1](c)


def claims(side, case):
    """{name: (function, arguments)}: the same for both libraries."""
    lib, program, values, loss = side.lib, side.program, side.values, side.loss
    x, p, k, tx, tp, c = case["x"], case["p"], case["k"], case["tx"], case["tp"], case["c"]
    bx, bp, bk, axes, out = case["bx"], case["bp"], case["bk"], case["axes"], case["out"]
    both = (0, 1)
    gradient = side.grad(loss, both)
    lanes = lambda f, outs=0: lib.vmap(f, in_axes=axes, out_axes=outs)  # noqa: E731
    push = lambda f, k: lambda x, p, tx, tp: lib.jvp(lambda x, p: f(x, p, k), (x, p), (tx, tp))  # noqa: E731
    square = lambda x, p, k: side.dot(*[side.lib.tree.map(side.sin, gradient(x, p, k))] * 2)  # noqa: E731
    return {
        "value": (program, (x, p, k)),
        "grad": (gradient, (x, p, k)),
        "vjp": (side.vjp, (x, p, k, c)),
        "jvp": (lambda x, p, k, tx, tp: push(values, k)(x, p, tx, tp), (x, p, k, tx, tp)),
        "linearize": (
            lambda x, p, k, tx, tp: lib.linearize(lambda x, p: values(x, p, k), x, p)[1](tx, tp),
            (x, p, k, tx, tp),
        ),
        "jacfwd": (lambda x, p, k: lib.jacfwd(lambda x: values(x, p, k)[0])(x), (x, p, k)),
        "jacrev": (
            lambda x, p, k: (lib.jacfwd if side.forward else lib.jacrev)(lambda x: values(x, p, k)[0])(x),
            (x, p, k),
        ),
        "vmap": (lanes(program, out), (bx, bp, bk)),
        "vmap of grad": (lanes(gradient), (bx, bp, bk)),
        "vmap of jvp": (
            lanes(lambda x, p, k: push(values, k)(x, p, lib.tree.map(side.sin, x), p)),
            (bx, bp, bk),
        ),
        "grad of vmap": (side.grad(lambda x, p, k: side.sum(lanes(loss)(x, p, k)), both), (bx, bp, bk)),
        "jvp of grad": (lambda x, p, k, tx, tp: push(gradient, k)(x, p, tx, tp)[1], (x, p, k, tx, tp)),
        "grad of grad": (side.grad(square, both), (x, p, k)),
        "hessian": (lambda x, p, k: side.hessian(lambda x: loss(x, p, k))(x), (x, p, k)),
        "vmap of vmap": (lib.vmap(lanes(values), in_axes=(None, None, 0)), (bx, bp, case["bbk"])),
    }


ALWAYS = ("value", "grad", "jvp", "vmap")
TURNS = (
    ("vmap of grad", "vjp"),
    ("grad of vmap", "jacrev"),
    ("jvp of grad",),
    ("vmap of jvp", "linearize"),
    ("hessian",),
    ("vmap of grad", "jacfwd"),
    ("grad of grad",),
    ("vmap of vmap", "grad of vmap"),
)
SECOND = ("jvp of grad", "grad of grad", "hessian")


def _map(f, *trees):
    return _jax.tree.map(f, *trees)


def make_case(program, exact_rng):
    """Arguments, directions, cotangents and batches as NumPy arrays, floats as float64."""
    np, rng = _np, exact_rng
    x, p, k = program.arguments(
        lambda numbers, dtype: np.asarray(numbers, dtype="float64" if dtype.startswith("float") else dtype)
    )
    noise = lambda a: (  # noqa: E731
        np.asarray(rng.uniform(-1, 1, np.shape(a)), dtype="float32").astype("float64")
    )
    case = {"x": x, "p": p, "k": k, "tx": noise(x), "tp": _map(noise, p)}
    n = int(rng.choice([1, 2, 3]))

    def lane(a, axis):
        if axis is None:
            return a
        rows = [a]
        for i in range(n - 1):
            if a.dtype == np.float64:
                rows.append(noise(a))
            elif a.ndim:
                rows.append(rng.permutation(a.reshape(-1)).reshape(a.shape))
            else:
                rows.append(a + a.dtype.type(i + 1))
        if a.dtype == bool and not a.ndim:
            rows = [a ^ bool(i % 2) for i in range(n)]
        return np.stack(rows, axis=axis)

    some = lambda a: int(rng.integers(0, np.ndim(a) + 1))  # noqa: E731
    pattern = int(rng.integers(0, 5))
    # x alone; all; x along any axis and p leaf by leaf; integers alone; p and one of the integers
    ax = (some(x), None, some(x), None, None)[pattern] if pattern != 1 else 0
    ap = 0 if pattern in (1, 4) else None
    if pattern == 2:
        ap = _map(lambda a: some(a) if rng.random() < 0.6 else -1, p)
    ak = (None, 0, None, {"n": 0, "i": 0, "m": None, "t": -1}, {"n": 0, "i": None, "m": -1, "t": None})[
        pattern
    ]
    if pattern == 2:
        keep = ap
        case["bp"] = _map(lambda a, i: a if i == -1 else lane(a, i), p, keep)
        ap = _prefix(keep)
    elif ap == 0:
        case["bp"] = _map(lambda a: lane(a, 0), p)
    else:
        case["bp"] = p
    case["bx"] = lane(x, ax)
    if isinstance(ak, dict):
        case["bk"] = {key: lane(a, ak[key]) for key, a in k.items()}
    else:
        case["bk"] = _map(lambda a: lane(a, ak), k)
    case["axes"], case["out"] = (ax, ap, ak), int(rng.choice([0, 0, -1]))
    case["bbk"] = _map(lambda a: np.stack([a, a[..., ::-1] if a.ndim else a]), case["bk"])
    return case


def _prefix(tree):
    """-1 as None, which jax.tree takes for an empty tree."""
    if isinstance(tree, dict):
        return {key: _prefix(v) for key, v in tree.items()}
    if isinstance(tree, (tuple, list)):
        return type(tree)(_prefix(v) for v in tree)
    return None if tree == -1 else tree


def typed(case, make, name, exact, skip=("axes", "out")):
    """The case with arrays of a library."""
    real = "float64" if exact else name
    return {
        key: v
        if key in skip
        else _map(lambda a: make(_np.asarray(a, real if a.dtype == _np.float64 else a.dtype)), v)
        for key, v in case.items()
    }


def to_numpy(tree):
    return _hop.tree.map(lambda a: _np.asarray(a), tree)


class Run:
    """All comparisons of one program."""

    def __init__(self, seed):
        self.seed = seed
        self.p = programs.make(seed)
        self.single = self.p.kind != "f64"  # some of it is float32
        self.rng = _np.random.default_rng(seed)
        self.case = make_case(self.p, self.rng)
        out = _jax.eval_shape(Side("jax", _jax, self.p, True).values, *[self.case[n] for n in "xpk"])
        self.case["c"] = _map(lambda a: self.rng.uniform(-1, 1, a.shape), out)
        self.report = {
            "seed": seed,
            "compared": collections.Counter(),
            "sensitive": 0,
            "failures": [],
            "refused": 0,
            "differences": 0,
            "skipped": 0,
            "kind": self.p.kind,
        }

    def side(self, name, exact):
        lib = _hop if name == "hop" else _jax
        side = Side(name, lib, self.p, exact, forward=name == "jax" and not self.p.reversible)
        make = _hop.asarray if name == "hop" else _jnp.asarray
        return claims(side, typed(self.case, make, self.p.floats()["F"], exact))

    def run(self):
        names = [*ALWAYS, *TURNS[self.seed % len(TURNS)]]
        hop_claims, jax_claims = self.side("hop", False), self.side("jax", True)
        types = self.side("jax", False)
        for name in names:
            f, args = jax_claims[name]
            reference = _map(_np.asarray, _jax.jit(f)(*args))
            dtypes = _jax.eval_shape(types[name][0], *types[name][1])
            f, args = hop_claims[name]
            ways = [("jit", _hop.jit(f))]
            if name in ("value", "grad", "vjp") or self.seed % 4 == 0:
                ways.append(("at once", f))
            for way, g in ways:
                what = name if way == "jit" else f"{name}, {way}"
                try:
                    found = to_numpy(g(*args))
                except Exception as error:  # whatever hop cannot do is a disagreement
                    self.fail(what, f"hop: {type(error).__name__}: {error}")
                    continue
                self.compare(what, name, found, reference, dtypes)
        if not self.p.reversible:
            self.refused()
            self.differences()
        return self.report

    def fail(self, what, why):
        self.report["failures"].append({"claim": what, "why": why})

    def compare(self, what, name, found, reference, dtypes):
        self.report["compared"][what] += 1
        a, at = _jax.tree.flatten(found)
        b, bt = _jax.tree.flatten(reference)
        if at != bt:
            self.fail(what, f"structure: hop {at}, JAX {bt}")
            return
        tolerance = (3e-5 if name not in SECOND else 3e-4) if self.single else 1e-9
        for i, (u, v, t) in enumerate(zip(a, b, _jax.tree.leaves(dtypes))):
            if u.shape != v.shape or u.dtype != t.dtype:
                self.fail(what, f"leaf {i}: hop {u.dtype}{u.shape}, JAX {t.dtype}{v.shape}")
                return
            wrong = _distance(u, v)
            scale = max(
                1.0, float(_np.max(_np.abs(v[_np.isfinite(v)]), initial=0.0)) if v.dtype.kind == "f" else 1.0
            )
            if wrong <= tolerance * scale:
                continue
            moved = self.sensitivity(name, i)
            if 16 * moved >= wrong:
                self.report["sensitive"] += 1
                return
            self.fail(
                what,
                (
                    f"leaf {i}: they differ by {wrong:.3g}, "
                    f"and {moved:.3g} when arguments move in their last digits\n"
                    f"hop: {u!r}\n"
                    f"JAX: {v!r}"
                ),
            )
            return

    def sensitivity(self, name, leaf):
        """How much JAX's result moves with the last digits of the arguments."""
        if name not in self.__dict__.setdefault("moved", {}):
            f, args = self.side("jax", True)[name]
            g, most, step = _jax.jit(f), None, 2.0**-23 if self.single else 2.0**-50
            before = [_np.asarray(a) for a in _jax.tree.leaves(g(*args))]
            for _ in range(8):
                other = _map(
                    lambda a: (
                        a * (1 + step * self.rng.uniform(-1, 1, a.shape)) if a.dtype == _np.float64 else a
                    ),
                    args,
                )
                after = [_np.asarray(a) for a in _jax.tree.leaves(g(*other))]
                now = [_distance(a, b) for a, b in zip(after, before)]
                most = now if most is None else [max(m, n) for m, n in zip(most, now)]
            self.moved[name] = most
        return self.moved[name][leaf]

    def refused(self):
        """JAX has no reverse mode for this program."""
        side = Side("jax", _jax, self.p, True)
        try:
            _jax.eval_shape(_jax.grad(side.loss, (0, 1)), *[self.case[n] for n in "xpk"])
        except ValueError as error:
            self.report["refused"] += "Reverse-mode" in str(error)

    def differences(self):
        """hop's gradient of the float64 program along a direction, against differences of its values."""
        side = Side("hop", _hop, self.p, True)
        case = typed(self.case, lambda a: a, "float64", True)
        loss, gradient = _hop.jit(side.loss), _hop.jit(_hop.grad(side.loss, (0, 1)))
        x, p, k = case["x"], case["p"], _map(_hop.asarray, case["k"])
        # a NumPy scalar would become float32
        moved = lambda a, t, h: _hop.asarray(_np.asarray(a + h * t))  # noqa: E731
        at = lambda h: float(  # noqa: E731
            loss(moved(x, case["tx"], h), _map(lambda a, t: moved(a, t, h), p, case["tp"]), k)
        )
        g = to_numpy(gradient(_hop.asarray(x), _map(_hop.asarray, p), k))
        slope = sum(
            float(_np.sum(a * b))
            for a, b in zip(_jax.tree.leaves(g), _jax.tree.leaves((case["tx"], case["tp"])))
        )
        self.report["differences"] += 1
        steps = (1e-4, 1e-5)
        central = [(at(h) - at(-h)) / (2 * h) for h in steps]
        allowed = 1e-6 * max(1.0, abs(slope)) + 4 * abs(central[0] - central[1])
        if min(abs(slope - c) for c in central) <= allowed and abs(central[0] - central[1]) <= 1e-3 * max(
            1.0, abs(slope)
        ):
            return
        sides = [(at(h) - at(0.0)) / h - (at(0.0) - at(-h)) / h for h in (1e-5, 1e-6)]
        if min(map(abs, sides)) > 1e-3 * max(1.0, abs(slope)):  # a kink stays one however near
            self.report["skipped"] += 1
            return
        self.fail(
            "grad against differences",
            (
                f"along a direction hop's gradient gives {slope!r}, "
                f"differences {central[0]!r} and {central[1]!r}"
            ),
        )


def _distance(a, b):
    """The largest difference of elements; infinite where one is finite and the other not, or integers
    differ."""
    if a.dtype.kind != "f":
        return 0.0 if _np.array_equal(a, b) else _np.inf
    a, b = a.astype("float64"), b.astype("float64")
    finite = _np.isfinite(a) & _np.isfinite(b)
    if not _np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return _np.inf
    return float(_np.max(_np.abs(a[finite] - b[finite]), initial=0.0))


def worker(first, count):
    global _hop, _jax, _jnp, _np
    os.environ.setdefault("HOP_CACHE", "off")
    # What counts here is how quickly JAX compiles; results are the same.
    os.environ["XLA_FLAGS"] = (
        os.environ.get("XLA_FLAGS", "")
        + " --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    )
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import jax.numpy
    import numpy

    import hop

    jax.config.update("jax_enable_x64", True)
    _hop, _jax, _jnp, _np = hop, jax, jax.numpy, numpy
    for seed in range(first, first + count):
        print(json.dumps({"begin": seed}), flush=True)
        try:
            report = Run(seed).run()
        except Exception as error:
            import traceback

            report = {
                "seed": seed,
                "compared": {},
                "failures": [
                    {
                        "claim": "the comparison itself",
                        "why": f"{type(error).__name__}: {error}\n{traceback.format_exc()}",
                    }
                ],
            }
        p = programs.make(seed)
        print(
            json.dumps(
                {
                    **report,
                    "used": sorted(p.used),
                    "pairs": sorted(p.pairs),
                    "kind": p.kind,
                    "reversible": p.reversible,
                }
            ),
            flush=True,
        )
        if (seed - first) % 10 == 9:
            jax.clear_caches()


# ---- all of them ----


class Summary:
    def __init__(self):
        self.lock = threading.Lock()
        self.programs, self.counts = 0, collections.Counter()
        self.claims, self.kinds, self.operators, self.pairs = [collections.Counter() for _ in range(4)]
        self.failed = []

    def add(self, report):
        with self.lock:
            self.programs += 1
            total = sum(report["compared"].values())
            for key in ("sensitive", "refused", "differences", "skipped"):
                self.counts[key] += report.get(key, 0)
            self.counts["comparisons"] += total + report.get("differences", 0)
            self.claims.update(report["compared"])
            self.kinds[report.get("kind", "?")] += 1
            for name in report.get("used", ()):
                self.operators[name] += 1
            for pair in report.get("pairs", ()):
                self.pairs[tuple(pair)] += total
            if report["failures"]:
                self.failed.append(report["seed"])
                show_failure(report)
            if self.programs % 50 == 0:
                print(
                    (
                        f"{self.programs} programs, {self.counts['comparisons']} comparisons, "
                        f"{len(self.failed)} programs disagree"
                    ),
                    flush=True,
                )


def show_failure(report, most=2):
    p = programs.make(report["seed"])
    print(f"\n==== program {report['seed']} disagrees: {len(report['failures'])} claims ====")
    for library in ("hop", "jax"):
        print(f"---- in {library} ({p.kind}) ----\n{p.source(library)}")
    print("---- arguments ----")
    print(p.arguments(lambda numbers, dtype: numbers))
    for failure in report["failures"][:most]:
        print(f"---- {failure['claim']} ----\n{failure['why']}")
    if len(report["failures"]) > most:
        print("---- and:", ", ".join(f["claim"] for f in report["failures"][most:]))
    sys.stdout.flush()


def supervise(seeds, summary):
    """Runs ranges of seeds in processes, one after the other; a process that dies or hangs costs the
    program it was at."""
    while True:
        with summary.lock:
            if not seeds:
                return
            first, count = seeds.pop(0)
        arguments = [sys.executable, os.path.abspath(__file__), "--worker", str(first), str(count)]
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        errors = []
        reader = threading.Thread(target=lambda: errors.append(process.stderr.read()), daemon=True)
        reader.start()
        at, done = None, first
        timer = threading.Timer(LIMIT, process.kill)
        timer.start()
        for line in process.stdout:
            report = json.loads(line)
            timer.cancel()
            timer = threading.Timer(LIMIT, process.kill)
            timer.start()
            if "begin" in report:
                at = report["begin"]
                continue
            summary.add(report)
            done, at = report["seed"] + 1, None
        timer.cancel()
        process.wait()
        reader.join()
        if done < first + count:
            lost = at if at is not None else done
            why = (
                "it took longer than it may"
                if process.returncode == -9
                else f"the process ended with code {process.returncode}"
            )
            summary.add(
                {
                    "seed": lost,
                    "compared": {},
                    "failures": [{"claim": "running at all", "why": why + "\n" + "".join(errors)[-2000:]}],
                }
            )
            with summary.lock:
                if lost + 1 < first + count:
                    seeds.insert(0, (lost + 1, first + count - lost - 1))


def tell(summary, first, count, seconds):
    print(
        f"\n{summary.programs} programs (seeds {first} to {first + count - 1}), "
        f"{summary.counts['comparisons']} comparisons, {seconds:.0f} s"
    )
    print("  floats:      " + ", ".join(f"{k} {n}" for k, n in sorted(summary.kinds.items())))
    print("  comparisons: " + ", ".join(f"{k} {n}" for k, n in sorted(summary.claims.items())))
    print("  programs with: " + ", ".join(f"{k} {n}" for k, n in sorted(summary.operators.items())))
    print("  comparisons of programs in which one operator (row) has another (column) in a body:")
    names = [n for n in programs.HIGHER]
    short = [
        n.replace("associative_scan", "assoc")
        .replace("fori_loop_traced", "fori_t")
        .replace("_loop", "")
        .replace("checkpoint", "ckpt")
        for n in names
    ]
    print(" " * 12 + "".join(f"{s:>7}" for s in short))
    for outer, s in zip(names, short):
        print(f"    {s:<8}" + "".join(f"{summary.pairs[(outer, inner)]:>7}" for inner in names))
    c = summary.counts
    print(
        f"  JAX has no reverse mode for {c['refused']} programs; "
        f"{c['differences']} gradients against differences, {c['skipped']} skipped at kinks"
    )
    print(f"  {c['sensitive']} comparisons in which the last digits of the arguments decide")
    possible = programs.PAIRS
    missing = [p for p in possible if not summary.pairs[p]]
    too_many = []
    if c["skipped"] > MOST_SKIPPED * max(1, c["differences"]) and c["skipped"] > 1:
        too_many.append("too many gradients at kinks")
    if c["sensitive"] > MOST_SENSITIVE * max(1, c["comparisons"]) and c["sensitive"] > 1:
        too_many.append("too many comparisons that the last digits decide")
    for text in too_many:
        print(f"  {text}")
    print(
        f"  {len(summary.failed)} programs disagree"
        + (f": seeds {sorted(summary.failed)}" if summary.failed else "")
    )
    print(json.dumps({
        "programs": summary.programs, "first": first, "comparisons": c["comparisons"],
        "disagree": sorted(summary.failed), "sensitive": c["sensitive"], "refused_by_jax": c["refused"],
        "differences": c["differences"], "kinks_skipped": c["skipped"], "pairs": len(possible) - len(missing),
        "pairs_missing": len(missing), "seconds": round(seconds, 1),
    }))  # fmt: skip
    return bool(summary.failed or too_many)


def main():
    parser = argparse.ArgumentParser(description="Random programs in hop and JAX have to agree.")
    parser.add_argument("count", nargs="?", type=int, default=600)
    parser.add_argument("first", nargs="?", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--worker", nargs=2, type=int)
    given = parser.parse_args()
    if given.worker:
        worker(*given.worker)
        return 0
    if given.seed is not None:
        p = programs.make(given.seed)
        for library in ("hop", "jax"):
            print(f"---- in {library} ({p.kind}) ----\n{p.source(library)}")
        given.count, given.first = 1, given.seed
    print(f"seeds {given.first} to {given.first + given.count - 1}", flush=True)
    start, summary = time.monotonic(), Summary()
    last = given.first + given.count
    size = max(1, min(CHUNK, -(-given.count // given.jobs)))
    seeds = [(s, min(size, last - s)) for s in range(given.first, last, size)]
    threads = [threading.Thread(target=supervise, args=(seeds, summary)) for _ in range(given.jobs)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return tell(summary, given.first, given.count, time.monotonic() - start)


if __name__ == "__main__":
    sys.exit(main())
