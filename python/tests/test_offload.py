"""hop.policies.offload: values that a gradient keeps in a file. Gradients are the same as without, memory is
spared, and a file that cannot be made is an error with the value, the bytes, the directory and the line."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import hop
from support import Case

P = hop.policies
SIZE = 24  # of f32: more bytes than what lives on the stack


def layer(w, x):
    x = hop.checkpoint_name(x, "in")
    a = hop.checkpoint_name(x @ w, "a")
    return hop.checkpoint_name(hop.sin(a) + 0.5 * x * x, "out")


def in_calls(f):
    return lambda w, x: hop.sum(f(w, f(w, x)))


def in_scan(f):
    return lambda w, x: hop.sum(hop.scan(lambda c, _: (f(w, c), None), x, length=5)[0])


def in_scheduled_scan(f):
    return lambda w, x: hop.sum(hop.scan(lambda c, _: (f(w, c), None), x, length=5, schedule="every 2")[0])


def in_while(f):
    def loss(w, x):
        return hop.sum(hop.while_loop(lambda c: c[0] < 20.0, lambda c: (c[0] * 2.0, f(w, c[1])), (1.0, x))[1])

    return loss


def in_cond(f):
    return lambda w, x: hop.sum(hop.cond(hop.sum(x) > 0, lambda w, x: f(w, x), lambda w, x: x * x, w, x))


def in_map(f):
    return lambda w, x: hop.sum(hop.map(lambda row: f(w, hop.stack([row] * SIZE)), x))


def in_checkpoint(f):
    return lambda w, x: hop.sum(hop.checkpoint(lambda w, x: f(w, f(w, x)), policy=P.named())(w, x))


WAYS = (in_calls, in_scan, in_scheduled_scan, in_while, in_cond, in_map, in_checkpoint)


def arguments():
    keys = hop.random.split(hop.random.key(3), 2)
    return [hop.random.normal(k, (SIZE, SIZE)) / 5 for k in keys]


def script(text, **environment):
    """What a program of its own prints."""
    done = subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, "HOP_CACHE": "off", **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


FAILS = """
import hop, resource
def layer(w, x):
    return hop.sin(hop.checkpoint_name(x @ w, "mine"))
f = hop.checkpoint(layer, policy=hop.policies.offload("mine"))
w = hop.ones((64, 64))
def called(w):
    return hop.sum(f(w, w))
def looped(w, n):
    return hop.sum(hop.while_loop(lambda c: c[0] < n, lambda c: (c[0] * 2, f(w, c[1])), (1.0, w))[1])
if {limit}:
    resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
for call in (lambda: hop.jit(hop.grad(called))(w), lambda: hop.jit(hop.grad(looped))(w, 100.0)):
    try:
        call()
        print("no error")
    except hop.FileError as error:
        print(error)
"""

PEAK = """
import hop
def kilobytes(what):
    with open("/proc/self/status") as said:
        return next(int(line.split()[1]) for line in said if line.startswith(what))
N, STEPS = 512, 128
def layer(w, x):
    x = hop.checkpoint_name(x, "in")
    return hop.sin(hop.checkpoint_name(x @ w, "a")) + x
f = hop.checkpoint(layer, policy={policy})
def loss(w, x):
    return hop.sum(hop.scan(lambda c, _: (f(w, c), None), x, length=STEPS)[0])
w, x = hop.eye(N), hop.ones((N, N))
hop.jit(hop.grad(loss)).lower(w, x).compile()
with open("/proc/self/clear_refs", "w") as peak:
    peak.write("5")  # what compiling took before does not count
before = kilobytes("VmRSS:")
hop.jit(hop.grad(loss))(w, x)
print(kilobytes("VmHWM:") - before)
"""


class Offload(Case):
    def test_gradients_are_the_same_bit_for_bit(self):
        w, x = arguments()
        moved = [P.offload(["a"]), P.offload(["in", "a", "out"]), P.both(P.products, P.offload("in"))]
        for way in WAYS:
            plain = hop.jit(hop.grad(way(hop.checkpoint(layer)), (0, 1)), strict=True)(w, x)
            for policy in moved:
                loss = way(hop.checkpoint(layer, policy=policy))
                with self.subTest(way=way.__name__, policy=policy.text):
                    found = hop.jit(hop.grad(loss, (0, 1)), strict=True)(w, x)
                    for a, b in zip(found, plain):
                        self.assertEqual(a.tolist(), b.tolist())
                    quick = hop.jit(hop.grad(loss, (0, 1)))(w, x)
                    self.close(quick[0], plain[0], 1e-3)

    def test_batches_second_derivatives_and_threads(self):
        w, x = arguments()
        for way in (in_calls, in_scan):
            moved, plain = (way(hop.checkpoint(layer, policy=p)) for p in (P.offload(["in", "a"]), None))

            def curved(f):
                return hop.jit(hop.grad(lambda w, x: hop.sum(hop.grad(f)(w, x) ** 2)))

            def batched(f):
                return hop.jit(hop.vmap(hop.grad(f), in_axes=(None, 0)))

            self.close(curved(moved)(w, x), curved(plain)(w, x), 1e-3)
            many = hop.stack([x, 2 * x, 3 * x])
            self.close(batched(moved)(w, many), batched(plain)(w, many), 1e-3)
            serial = hop.jit(hop.grad(moved), strict=True, threads=1)(w, x)
            self.assertEqual(serial.tolist(), hop.jit(hop.grad(moved), strict=True)(w, x).tolist())
            program = hop.jit(moved).lower(w, x).function.grad()
            self.close(program.interpret(w, x)[0], serial, 1e-3)

    def test_explain_says_where_it_lies(self):
        w, x = arguments()
        loss = in_scan(hop.checkpoint(layer, policy=P.offload("a")))
        text = hop.jit(loss).lower(w, x).function.grad().explain("json")
        explained = json.loads(text)
        kept = [v for v in explained["kept"]["values"] if v["tag"] == "a"]
        self.assertEqual([(v["why"], v["policy"]) for v in kept], [("kept in a file", "offload([a])")])
        files = [v["size"] for v in explained["stored"] if v["where"] == "file"]
        self.assertEqual(files, [f"f32[{5 * SIZE * SIZE}]"])

    def test_small_values_stay_and_others_leave_no_file(self):
        with tempfile.TemporaryDirectory() as folder:
            text = """
import hop
f = hop.checkpoint(lambda x: hop.sin(hop.checkpoint_name(hop.exp(x), "e")), policy=hop.policies.offload("e"))
print(hop.jit(hop.grad(lambda x: hop.sum(f(x))))(hop.zeros(SIZE))[0])
"""
            small = script(text.replace("SIZE", "3"), HOP_OFFLOAD=folder + "/nowhere")
            large = script(text.replace("SIZE", "100000"), HOP_OFFLOAD=folder)
            self.assertEqual(small, large)
            self.assertEqual(os.listdir(folder), [])

    def test_errors(self):
        w, x = arguments()
        for make, message in (
            (lambda: P.offload([]), "policies.offload: expected names, found none"),
            (lambda: P.offload(["a,b"]), "policies.offload: expected names .* found 'a,b'"),
            (lambda: hop.grad(in_calls(hop.checkpoint(layer, policy=P.offload("b"))))(w, x),
             "no value has such a name; named are 'in', 'a', 'out'"),
            (lambda: hop.grad(in_calls(hop.checkpoint(layer, policy="offload(a)")))(w, x), r"expected \["),
        ):  # fmt: skip
            with self.subTest(message=message), self.assertRaisesRegex(hop.InvalidError, message):
                make()

    def test_files_that_cannot_be_made(self):
        with tempfile.TemporaryDirectory() as folder:
            for limit, where, why in (
                (0, folder + "/nowhere", "No such file or directory"),
                (0, "x" * 5000, "File name too long"),
                (10000, folder, "File too large"),
            ):
                lines = script(FAILS.format(limit=limit), HOP_OFFLOAD=where).splitlines()
                self.assertEqual(len(lines), 2)
                for line, sizes in zip(lines, (r"16384", r"\d+")):
                    head = rf"^<string>:4: offload: 'mine': {sizes} bytes"
                    expected = f"{head} cannot be moved to a file in '.*': {why}"
                    self.assertRegex(line, expected)
                self.assertIn("HOP_OFFLOAD", lines[0])

    @unittest.skipUnless(sys.platform == "linux", "peaks are in kilobytes there")
    def test_memory_is_spared(self):
        """128 rows of 1 MiB of each of two values are kept."""
        peaks = {
            policy: int(script(PEAK.format(policy=policy)))
            for policy in ('hop.policies.names(save=["in", "a"])', 'hop.policies.offload(["in", "a"])')
        }
        kept, moved = peaks.values()
        self.assertGreater(kept, 200 << 10)
        self.assertLess(moved, 60 << 10)

    def test_spelling_of_jax(self):
        policy = P.save_and_offload_only_these_names(
            names_which_can_be_saved=["a"], names_which_can_be_offloaded=["b"], offload_src="device",
            offload_dst="pinned_host",
        )  # fmt: skip
        self.assertEqual(policy.text, "both(names(save = [a]), offload([b]))")
        only = P.save_and_offload_only_these_names(
            names_which_can_be_saved=[], names_which_can_be_offloaded=["b"]
        )
        self.assertEqual(only, P.offload("b"))


if __name__ == "__main__":
    unittest.main()
