"""Calls with changed state and with changed sizes in hop, JAX and torch.compile: is the result right, how
often is something compiled, how long do calls take.

    python state.py [CASE…] [--quick] [--table FILE]

Each system runs in a process of its own, without a cache on disk; one JSON object a line says, for a case
and every system, the outcome, the number of compilations over all calls, the milliseconds of the first
call, of the second (the first one with another state or size) and the median of the later ones, each of
which has yet another state or size, unless the case says otherwise. The outcome is

    right      every call gives what the state or size of that moment asks for
    wrong      a call gives what an earlier state asked for
    refused    an error
    -          the change cannot be written there (JAX's arrays cannot be assigned to)

What to expect is computed by NumPy or by hand. --table writes a Markdown table of all cases between the
two comments that mark its place in FILE. --quick makes fewer calls. A case in which hop is not right ends
the program with code 1.
"""

import json
import os
import sys
import time
import warnings

import several

SYSTEMS = ("hop", "jax", "torch")
MARKS = "<!-- state: begin -->", "<!-- state: end -->"


# ---- the systems ----


class Hop:
    def __init__(self):
        os.environ["HOP_CACHE"], os.environ["HOP_LOG"] = "off", "compile"
        import hop

        self.np, self.array, self.made = hop, hop.asarray, []
        self.lines, sys.stderr = 0, self

    def jit(self, f):
        self.made.append(self.np.jit(f))
        return self.made[-1]

    def write(self, text):
        """HOP_LOG's lines."""
        self.lines += text.count("captured in")

    def flush(self):
        pass

    def compilations(self):
        return self.lines

    def loop(self):
        def loss(w, xs):
            def step(h, x):
                h = self.np.tanh(w * h + x)
                return h, h

            return self.np.sum(self.np.scan(step, self.np.asarray(0.0), xs)[1])

        return self.jit(self.np.grad(loss))

    def reset(self):
        """Forgets what other cases compiled."""
        for f in self.made:
            f.clear_cache()

    def wait(self, out):
        return float(out)


class Jax:
    def __init__(self):
        os.environ["JAX_PLATFORMS"] = "cpu"
        import jax
        import jax.monitoring
        import jax.numpy

        self.count = 0
        jax.monitoring.register_event_duration_secs_listener(self.event)
        self.jax, self.np, self.jit, self.array = jax, jax.numpy, jax.jit, jax.numpy.asarray

    def event(self, name, *_, **__):
        self.count += name.endswith("backend_compile_duration")

    def compilations(self):
        return self.count

    def loop(self):
        def loss(w, xs):
            def step(h, x):
                h = self.np.tanh(w * h + x)
                return h, h

            return self.np.sum(self.jax.lax.scan(step, self.np.asarray(0.0), xs)[1])

        return self.jit(self.jax.grad(loss))

    def reset(self):
        self.jax.clear_caches()

    def wait(self, out):
        return float(out)


class Torch:
    def __init__(self):
        os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
        warnings.simplefilter("ignore")
        import logging

        import torch
        from torch._inductor.compile_fx import compile_fx

        logging.disable(logging.WARNING)
        torch._dynamo.config.capture_dynamic_output_shape_ops = True
        torch._dynamo.config.capture_scalar_outputs = True
        self.np, self.count, self.compile_fx = torch, 0, compile_fx
        self.array = torch.as_tensor

    def backend(self, graph, inputs):
        self.count += 1
        return self.compile_fx(graph, inputs)

    def jit(self, f):
        return self.np.compile(f, backend=self.backend)

    def compilations(self):
        return self.count

    def loop(self):
        """What one writes: a Python loop, compiled, and the gradient of the loss."""

        def loss(w, xs):
            h = total = self.np.zeros(())
            for x in xs:
                h = self.np.tanh(w * h + x)
                total = total + h
            return total

        compiled = self.jit(loss)

        def gradient(w, xs):
            w = w.detach().requires_grad_()
            return self.np.autograd.grad(compiled(w, xs), w)[0]

        return gradient

    def reset(self):
        self.np._dynamo.reset()

    def wait(self, out):
        return float(out)


# ---- changed state: (compiled function, change(i), expected value) of x = [1, 1] ----


class Impossible(Exception):
    """The system has no such change."""


GLOBAL = 1.0


def _helper(x):
    return x * GLOBAL


def cell_number(o):
    """a number in a closure, one of two"""
    k = 1.0

    def change(i):
        nonlocal k
        k = 1.0 + i % 2

    return o.jit(lambda x: o.np.sum(x * k)), change, lambda: 2 * k


def learning_rate(o):
    """a number in a closure, another one at every call"""
    k = 1.0

    def change(i):
        nonlocal k
        k = 1.0 / (i + 1)

    return o.jit(lambda x: o.np.sum(x * k)), change, lambda: 2 * k


def array_rebound(o):
    """an array in a closure, rebound"""
    a = o.array([1.0, 1.0])

    def change(i):
        nonlocal a
        a = o.array([1.0 + i, 1.0])

    return o.jit(lambda x: o.np.sum(x * a)), change, lambda: float(a[0]) + 1


def array_in_place(o):
    """an array in a closure, `a[0] = v`"""
    a = o.array([1.0, 1.0])

    def change(i):
        try:
            a[0] = 1.0 + i
        except TypeError:
            raise Impossible from None

    return o.jit(lambda x: o.np.sum(x * a)), change, lambda: float(a[0]) + 1


def numpy_in_place(o):
    """a NumPy array in a closure, `a[0] = v`"""
    import numpy

    a = numpy.ones(2, "float32")

    def change(i):
        a[0] = 1.0 + i

    return o.jit(lambda x: o.np.sum(x * o.array(a))), change, lambda: float(a[0]) + 1


def helper_global(o):
    """a global that a helper reads, one of two"""

    def change(i):
        global GLOBAL
        GLOBAL = 1.0 + i % 2

    change(0)
    return o.jit(lambda x: o.np.sum(_helper(x))), change, lambda: 2 * GLOBAL


def dict_entry(o):
    """an entry of a dict, one of two"""
    config = {"k": 1.0, "other": 0}

    def change(i):
        config["k"] = 1.0 + i % 2

    return o.jit(lambda x: o.np.sum(x * config["k"])), change, lambda: 2 * config["k"]


def list_element(o):
    """an element of a list, one of two"""
    numbers = [3.0, 1.0]

    def change(i):
        numbers[1] = 1.0 + i % 2

    return o.jit(lambda x: o.np.sum(x * numbers[1])), change, lambda: 2 * numbers[1]


def default(o):
    """a default of a helper, one of two"""

    def helper(x, k=1.0):
        return x * k

    def change(i):
        helper.__defaults__ = (1.0 + i % 2,)

    return o.jit(lambda x: o.np.sum(helper(x))), change, lambda: 2 * helper.__defaults__[0]


class Model:
    def __init__(self, o):
        self.o, self.w, self.log, self.layers = o, 1.0, 0, [1.0]

    def f(self, x):
        return self.o.np.sum(x * self.w)

    def deep(self, x):
        for layer in self.layers:
            x = x * layer
        return self.o.np.sum(x)


def attribute_of_self(o):
    """`jit(model.f)`, `self.w` one of two"""
    model = Model(o)

    def change(i):
        model.w = 1.0 + i % 2

    return o.jit(model.f), change, lambda: 2 * model.w


def unrelated_attribute(o):
    """`jit(model.f)`, an attribute that it does not read"""
    model = Model(o)

    def change(i):
        model.log = i

    return o.jit(model.f), change, lambda: 2 * model.w


def appended_layer(o):
    """`for l in self.layers`, a layer appended or removed"""
    model = Model(o)

    def change(i):
        model.layers = [1.0, 2.0] if i % 2 else [1.0]

    return o.jit(model.deep), change, lambda: 2.0 if len(model.layers) == 1 else 4.0


def made_again(o):
    """`jit` of a new function with the same code, an entry of a dict one of two"""
    config = {"k": 1.0}

    def make():
        return o.jit(lambda x: o.np.sum(x * config["k"]))

    def change(i):
        config["k"] = 1.0 + i % 2

    return lambda x: make()(x), change, lambda: 2 * config["k"]


STATE = {
    case.__name__: case
    for case in (
        array_rebound, array_in_place, numpy_in_place, cell_number, learning_rate, helper_global, dict_entry,
        list_element, default, attribute_of_self, unrelated_attribute, appended_layer, made_again,
    )
}  # fmt: skip


# ---- changed sizes: (function of an array, arrays, expected values) ----


def _vector(n):
    import numpy

    return numpy.linspace(-1, 1, n).astype("float32")


def _slope(w, xs):
    """The derivative of the sum of h = tanh(w h + x) with respect to w."""
    import numpy

    h = slope = total = 0.0
    for x in xs:
        before, h = h, float(numpy.tanh(w * h + x))
        slope = (1 - h * h) * (before + w * slope)
        total += slope
    return total


def _loop(o, lengths):
    f, w = o.loop(), o.array(0.5)
    arrays = [_vector(n) for n in lengths]
    return lambda x: f(w, x), arrays, [_slope(0.5, a) for a in arrays]


def four_lengths(o, quick):
    """the gradient of a loop, 4 lengths"""
    return _loop(o, (10, 13, 7, 16))


def thousand_lengths(o, quick):
    """the gradient of a loop, 1,000 lengths"""
    return _loop(o, range(10, 40 if quick else 1010))


def batch_of_one(o, quick):
    """batches of 8, 1, 5, 2, 9, … rows"""
    import numpy

    sizes = (8, 1, 5, 2, 9, 1, 6, 3, 12, 4)
    arrays = [numpy.stack([_vector(16)] * n) for n in sizes]
    w = o.array(_vector(16))
    f = o.jit(lambda x: o.np.sum(x @ w))
    return f, arrays, [float(n * numpy.sum(_vector(16) ** 2)) for n in sizes]


def size_as_value(o, quick):
    """`x.shape[0]` as a number, in arithmetic and in `zeros`, 10 sizes"""
    sizes = (5, 8, 3, 9, 6, 4, 7, 10, 11, 12)

    def f(x):
        n = x.shape[0]
        return o.np.sum(x * x) / n + o.np.sum(o.np.zeros(n + 1) + n)

    expected = [float((_vector(n) ** 2).sum()) / n + n * (n + 1) for n in sizes]
    return o.jit(f), [_vector(n) for n in sizes], expected


def size_of_data(o, quick):
    """`x[x > 0]`, whose size only the values know, 10 sizes"""
    sizes = (5, 8, 3, 9, 6, 4, 7, 10, 11, 12)

    def f(x):
        y = x[x > 0]
        return o.np.sum(y) * y.shape[0]

    kept = [_vector(n)[_vector(n) > 0] for n in sizes]
    return o.jit(f), [_vector(n) for n in sizes], [float(y.sum()) * len(y) for y in kept]


SIZES = {
    case.__name__: case
    for case in (four_lengths, thousand_lengths, batch_of_one, size_as_value, size_of_data)
}
CASES = {**STATE, **SIZES}


# ---- one system ----


def timed(o, f, x):
    """(value, milliseconds, compilations) of a call"""
    before, start = o.compilations(), time.perf_counter()
    value = o.wait(f(x))
    return value, (time.perf_counter() - start) * 1e3, o.compilations() - before


def calls(o, name, quick):
    """Yields what is expected of each call, and what timed says about it."""
    if name in STATE:
        f, change, expected = STATE[name](o)
        x = o.array([1.0, 1.0])
        for i in range(8 if quick else 40):
            if i:
                change(i)
            yield expected(), *timed(o, f, x)
    else:
        f, arrays, expected = SIZES[name](o, quick)
        for array, right in zip(arrays, expected):
            yield right, *timed(o, f, o.array(array))


def measure(o, name, quick):
    outcome, times, compilations = "right", [], 0
    o.reset()
    try:
        for expected, value, ms, compiled in calls(o, name, quick):
            times.append(ms)
            compilations += compiled
            if abs(value - expected) > 1e-3 * max(1.0, abs(expected)):
                outcome = "wrong"
    except Impossible:
        return {"outcome": "-"}
    except Exception as error:
        return {"outcome": "refused", "error": f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"}
    later = sorted(times[2:])[len(times[2:]) // 2]
    return {
        "outcome": outcome,
        "calls": len(times),
        "compilations": compilations,
        "first_ms": round(times[0], 2),
        "second_ms": round(times[1], 4),
        "later_ms": round(later, 4),
    }


def run_system(name, wanted, quick):
    o = {"hop": Hop, "jax": Jax, "torch": Torch}[name]()
    o.wait(o.jit(lambda x: o.np.sum(x * 2))(o.array([1.0, 2.0])))
    for case in wanted:
        print(json.dumps([case, measure(o, case, quick)]), flush=True)


# ---- all of them ----


def cell(found):
    if found["outcome"] != "right":
        return found["outcome"], "", ""
    times = [found[k] for k in ("first_ms", "second_ms", "later_ms")]
    return "right", str(found["compilations"]), " / ".join(text_of(t) for t in times)


def text_of(ms):
    """Milliseconds with two digits that mean something."""
    if ms >= 9.95:
        return f"{ms:,.0f}"
    return f"{ms:.2g}" if ms >= 0.001 else f"{ms:.4f}"


def table(results):
    lines = [
        f"{several.versions()}; times in milliseconds: first call / second call / median of later calls.",
        "",
        "| what changes from call to call | calls | hop | programs | ms | JAX | programs | ms | torch.compile"
        " | programs | ms |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for case, found in results.items():
        cells = [text for system in SYSTEMS for text in cell(found[system])]
        lines.append(f"| {CASES[case].__doc__} | {found['hop'].get('calls', '')} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main():
    options = several.options_of(__doc__, "case", CASES, SYSTEMS, flags=["--quick"])
    if options.system:
        run_system(options.system, options.wanted, options.quick)
        return 0
    flags = ["--quick"] * options.quick
    results = several.collected(__file__, "case", options.wanted, SYSTEMS, flags)
    if options.table:
        several.write_table(options.table, MARKS, table(results))
    return 0 if all(found["hop"]["outcome"] == "right" for found in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
