"""Programs as C: jit(f).c compiles as it is, jit(f).export writes a folder that builds and checks itself.
What is written is given to the C compiler with all warnings as errors, and run."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import hop
from support import Case

COMPILER = os.environ.get("CC", "").split()[-1:] or [x for x in ("cc", "gcc", "clang") if shutil.which(x)][:1]
PLUS_PLUS = [x for x in ("g++", "clang++", "c++") if shutil.which(x)][:1]
FLAGS = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", "-ffp-contract=off"]
MODE = hop.asarray([[0.5, -0.25], [0.125, 0.75]])  # a global that functions close over


class Exports(Case):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def compiled(self, *arguments, folder=None):
        if not COMPILER:
            self.skipTest("NOT RUN: there is no C compiler")
        done = subprocess.run(
            [*COMPILER, *FLAGS, *arguments], cwd=folder or self.folder, capture_output=True, text=True
        )
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def checked(self, exported):
        """Builds and runs what was exported; gives what it said. The header is read by a C++ compiler,
        too."""
        self.compiled("main.c", exported.name + ".c", "-lm", "-o", "example", folder=exported.folder)
        done = subprocess.run(["./example"], cwd=exported.folder, capture_output=True, text=True)
        self.assertEqual(
            (done.returncode, done.stdout, done.stderr), (0, f"{exported.name}: all results agree\n", "")
        )
        if PLUS_PLUS:
            command = [
                *PLUS_PLUS,
                "-fsyntax-only",
                "-x",
                "c++",
                "-Wall",
                "-Wextra",
                "-Werror",
                exported.name + ".h",
            ]
            done = subprocess.run(command, cwd=exported.folder, capture_output=True, text=True)
            self.assertTrue(done.returncode == 0 or "pragma once in main file" in done.stderr, done.stderr)

    def export(self, f, *args, **named):
        exported = hop.jit(f).export(self.folder / "out", *args, **named)
        self.checked(exported)
        return exported

    def read(self, name):
        return (self.folder / "out" / name).read_text(encoding="utf-8")


class Plain(Exports):
    def test_text(self):
        f = hop.jit(lambda x: hop.sum(hop.sin(x) * MODE[0, 0]))
        vectors, plain = f.c(hop.zeros(100)), f.c(hop.zeros(100), plain=True)
        self.assertIn("vector_size", vectors)
        for word in ("__attribute__", "__builtin", "HOP_VECTOR", "HOP_PLAIN_C"):
            self.assertNotIn(word, plain)
        self.assertLess(len(plain), len(vectors))
        self.assertEqual(plain, f.lower(hop.zeros(100)).emit("c", plain=True))
        self.assertNotIn("__attribute__", f.lower(hop.zeros(100)).function.emit("c", plain=True))

    def test_folder(self):
        x = hop.arange(40, dtype="float32")
        for strict in (False, True):
            exported = hop.jit(lambda x: hop.cumsum(hop.exp(-x) * 3), strict=strict).export(
                self.folder / "out", x, name="plain", plain=True
            )
            self.checked(exported)
            self.assertNotIn("__attribute__", self.read("plain.c"))

    def test_argument_of_the_same_name(self):
        f = hop.jit(lambda x, plain: x * plain)
        self.assertIn("int ", f.lower(2.0, plain=3.0).c(plain=True))
        with self.assertRaisesRegex(hop.InvalidError, r"c: plain is an argument of the function, too"):
            f.c(2.0, plain=3.0)
        with self.assertRaisesRegex(hop.InvalidError, r"export: plain is an argument of the function, too"):
            f.export(self.folder / "out", 2.0, plain=3.0)


class Programs(Exports):
    def test_network_step(self):
        def cell(params, h, x, *, gated):
            h = hop.tanh(params["w"] @ h + params["u"][0] * x + MODE[0])
            return {"h": h, "gate": hop.sigmoid(h) if gated else h}, hop.sum(h)

        params = {"w": MODE, "u": [hop.asarray([1.0, -2.0])]}
        exported = hop.jit(cell, static_argnames="gated").export(
            self.folder / "out", params, hop.ones(2), 0.5, gated=True
        )
        self.checked(exported)
        self.assertEqual(
            exported.signature,
            "int cell(const float *params_u_0, const float *params_w, const float *h, double x, float "
            "*out_0_gate, float *out_0_h, float *out_1);",
        )
        self.assertIn("static const float MODE[", self.read("cell.c"))
        self.assertIn("| `params_u_0` | `params['u'][0]` | `f32[2]` |", self.read("README.md"))
        self.assertIn("| `out_0_gate`, written | `result[0]['gate']` | `f32[2]` |", self.read("README.md"))
        self.assertEqual(exported.files, ("Makefile", "README.md", "cell.c", "cell.h", "main.c"))
        self.assertIn(exported.command, repr(exported))
        if shutil.which("make"):
            done = subprocess.run(
                ["make", "-s", "-C", exported.folder, "check"],
                capture_output=True,
                text=True,
                env={**os.environ, "CC": COMPILER[0]},
            )
            self.assertEqual((done.returncode, done.stdout), (0, "cell: all results agree\n"), done.stderr)

    def test_gradient_of_loops(self):
        def loss(w, xs):
            def step(h, x):
                h = hop.while_loop(lambda c: hop.sum(c * c) < 4.0, lambda c: c * 1.5 + w, hop.tanh(w * h + x))
                return h, h

            return hop.sum(hop.scan(step, hop.zeros(3), xs)[1] ** 2)

        xs = hop.reshape(hop.linspace(0.1, 1.0, 12), (4, 3))
        exported = self.export(hop.value_and_grad(loss, argnums=(0, 1)), 0.5, xs)
        self.assertRegex(
            exported.signature,
            r"^int loss\(double w, const float \*xs, float \*out_0, float \*out_1_0, float \*out_1_1\b",
        )

    def test_weights(self):
        weights = {
            "first": hop.random.normal(hop.random.key(0), (256, 512)),
            "second": [hop.random.normal(hop.random.key(1), (512, 1024))],
        }

        def model(x):
            return hop.relu(x @ weights["first"]) @ weights["second"][0]

        x = hop.random.normal(hop.random.key(2), (3, 256))
        exported = self.export(model, x)  # 2.5 MiB
        self.assertEqual(
            exported.signature,
            "int model(const float *x, const float *weights_first, const float *weights_second_0, float "
            "*out);",
        )
        self.assertEqual(
            (self.folder / "out" / "model_weights.bin").stat().st_size, 4 * (256 * 512 + 512 * 1024)
        )
        self.assertIn(
            "`weights_second_0`, `f32[512, 1024]`: 2097152 bytes from byte 524288", self.read("README.md")
        )
        weights["second"][0] = hop.ones((512, 2))
        exported = self.export(hop.jit(lambda x: model(x)), x)
        self.assertNotIn("weights.bin", " ".join(exported.files))
        exported = self.export(lambda x: model(x), x, weights="file", name="small")
        self.assertIn("small_weights.bin", exported.files)

    def test_dtypes(self):
        names = [d.name for d in hop._dtypes.ALL]

        def twice(arrays):
            return [hop.logical_not(x) if x.dtype == hop.bool else x + x for x in arrays], hop.argmax(
                arrays[-1]
            )

        ends = {
            "int64": [-(2**62), 2**62 - 1],
            "uint64": [0, 2**63 - 1],
            "int32": [-(2**30), 5],
            "float64": [hop.nan, hop.inf],
            "float32": [-hop.inf, 1e-40],
        }
        arrays = [hop.asarray(ends.get(n, [0, 1]), dtype=getattr(hop, n)) for n in names]
        exported = self.export(twice, arrays)
        for part in ("int64_t *", "uint64_t *", "uint16_t *", "int8_t *", "double *", "float *"):
            self.assertIn(part, exported.signature)
        constants = hop.jit(lambda: [x for x in arrays])  # as constants of the source
        self.checked(constants.export(self.folder / "constants", name="constants"))

    def test_sizes_that_a_run_finds(self):
        self.export(lambda x: (x[x > 0.5], hop.nonzero(x)[0], hop.sum(x)), hop.asarray([0.0, 1.0, 0.25, 3.0]))

    def test_random_numbers_and_bools(self):
        def draw(key, mask):
            a, b = hop.random.split(key)
            return (
                hop.random.uniform(a, (5,)),
                hop.random.randint(b, (3,), 0, 10),
                mask & hop.random.bernoulli(b, 0.5, mask.shape),
            )

        self.export(draw, hop.random.key(7), hop.asarray([True, False, True]))

    def test_large_examples(self):
        exported = self.export(
            lambda x: (hop.sort(x), x[:0]), hop.random.uniform(hop.random.key(0), (20000,))
        )
        self.assertIn("f_example.bin", exported.files)

    def test_strict(self):
        exported = hop.jit(lambda x: hop.exp(x) / 3, strict=True).export(
            self.folder / "out", hop.linspace(-3.0, 3.0, 17)
        )
        self.checked(exported)
        self.assertIn("fabs(a - b) <= 0)", self.read("main.c"))

    def test_a_difference_is_noticed(self):
        exported = self.export(lambda x: hop.sin(x) + 1, hop.asarray([1.0, 2.0]))
        path = self.folder / "out" / "main.c"
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("1.84147096f", "1.85f"), encoding="utf-8")
        self.assertNotEqual(path.read_text(encoding="utf-8"), text)
        self.compiled("main.c", "f.c", "-lm", "-o", "example", folder=exported.folder)
        done = subprocess.run(["./example"], cwd=exported.folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"^out, element 0: expected 1\.85\d*, found 1\.84147")

    def test_names(self):
        def main(printf, int_, lambda_=2.0):
            return {"class": printf * int_, "while": lambda_ - printf}

        exported = self.export(main, 1.0, int_=hop.ones(2), lambda_=hop.asarray(3.0))
        self.assertNotEqual(exported.name, "main")
        self.assertIn("out_class", exported.signature)
        self.assertEqual(self.export(hop.jit(lambda x: x + 1), 1.0).name, "f")

    def test_checks(self):
        def root(x):
            hop.check(hop.all(x >= 0), "negative")
            return hop.sqrt(x)

        self.export(root, hop.asarray([4.0, 9.0]))
        with self.assertRaisesRegex(hop.CheckError, "negative"):
            hop.jit(root).export(self.folder / "other", hop.asarray([-1.0]))
        self.assertFalse((self.folder / "other").exists())


class Sources(Exports):
    def test_one_file(self):
        bias = hop.asarray([1.0, hop.nan])

        def affine(params, x, k):
            return hop.sum(params["w"] * x) * k + bias

        source = hop.jit(affine, static_argnums=2).c({"w": hop.ones(2)}, hop.ones(2), 3)
        self.assertIn("int affine(const float *params_w, const float *x, float *out);", source)
        self.assertIn("bias", source)
        (self.folder / "one.c").write_text(source, encoding="utf-8")
        self.compiled("-c", "one.c")

    def test_header_when_asked_for(self):
        lowered = hop.jit(lambda x: x * MODE).lower(hop.ones((2, 2)))
        (self.folder / "scale.h").write_text(lowered.emit("header", name="scale"), encoding="utf-8")
        source = lowered.emit("c", name="scale", header="scale.h")
        self.assertIn('#include "scale.h"', source)
        self.assertNotIn("enum hop_c_status {", source)
        (self.folder / "scale.c").write_text(source, encoding="utf-8")
        self.compiled("-c", "scale.c")
        self.assertIn(
            "int scale(const float *x, const float *MODE, float *out);",
            lowered.emit("header", name="scale", weights="arguments"),
        )
        with self.assertRaisesRegex(
            hop.InvalidError, "emit: weights: expected 'constants' or 'arguments', found 'none'"
        ):
            lowered.emit("c", weights="none")

    def test_too_large_for_a_text(self):
        large = hop.zeros((5 << 20,))
        with self.assertRaisesRegex(hop.InvalidError, r"20 MiB, too much for a text: .* export\(folder\)"):
            hop.jit(lambda x: x + large).c(1.0)


class Refusals(Exports):
    def test_callbacks(self):
        def f(x):
            hop.debug_callback(lambda v: None, x)
            return x

        with self.assertRaisesRegex(
            hop.InvalidError, r"export: the program calls functions of the host"
        ):
            hop.jit(f).export(self.folder / "out", 1.0)
        self.assertFalse((self.folder / "out").exists())

    def test_folders(self):
        f = hop.jit(lambda x: x + 1)
        f.export(self.folder / "again", 1.0)
        f.export(self.folder / "again", hop.ones(9000))
        # what the last one no longer has is gone
        self.assertEqual(len(f.export(str(self.folder / "again"), 2.0).files), 5)
        (self.folder / "again" / "thesis.txt").write_text("mine", encoding="utf-8")
        with self.assertRaisesRegex(
            hop.FileError,
            "again already holds thesis.txt, which export did not write: name a new or an empty folder",
        ):
            f.export(self.folder / "again", 1.0)
        self.assertTrue((self.folder / "again" / "f.c").exists())
        (self.folder / "file").write_text("", encoding="utf-8")
        with self.assertRaisesRegex(hop.FileError, "export: .*file.* cannot be written"):
            f.export(self.folder / "file" / "in", 1.0)
        with self.assertRaisesRegex(hop.FileError, "export: .*file.* cannot be written"):
            f.export(self.folder / "file", 1.0)
        if os.geteuid():
            os.mkdir(self.folder / "closed", 0o555)
            with self.assertRaisesRegex(hop.FileError, "cannot be written: Permission denied"):
                f.export(self.folder / "closed", 1.0)

    def test_options(self):
        f = hop.jit(lambda x: x + 1)
        with self.assertRaisesRegex(
            hop.InvalidError, "export: weights: expected 'auto', 'constants' or 'file', found 'none'"
        ):
            f.export(self.folder / "out", 1.0, weights="none")
        for name in ("2nd", "a b", "", 3):
            with self.assertRaisesRegex(hop.InvalidError, "export: name: expected a name that C allows"):
                f.export(self.folder / "out", 1.0, name=name)
        with self.assertRaisesRegex(hop.InvalidError, "weights is an argument of the function, too"):
            hop.jit(lambda x, weights: x + weights).export(self.folder / "out", 1.0, weights=2.0)

    def test_lines_are_short(self):
        self.export(lambda x: hop.cos(x), hop.random.normal(hop.random.key(0), (300,)))
        for line in self.read("main.c").splitlines():
            self.assertLessEqual(len(line), 160)
        self.assertTrue(re.search(r"Written by hop", self.read("main.c")))


if __name__ == "__main__":
    unittest.main()
