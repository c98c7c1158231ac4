"""The package: its names, its version, its types."""

import ast
import doctest
import importlib.metadata
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import hop
from support import Case


class Package(Case):
    def test_names(self):
        for name in hop.__all__:
            self.assertTrue(hasattr(hop, name), name)
        self.assertRegex(hop.__version__, r"^[0-9]+\.[0-9]+\.[0-9]+$")
        for name in hop._ops.__all__:
            function = getattr(hop, name)
            if callable(function):
                self.assertTrue(function.__doc__ or name in ("conj", "real"), name)

    def test_stubs(self):
        folder = os.path.dirname(hop.__file__)
        self.assertTrue(os.path.exists(os.path.join(folder, "py.typed")))
        with open(os.path.join(folder, "__init__.pyi"), encoding="utf-8") as stub:
            found = ast.parse(stub.read())
        names = (
            {n.name for n in found.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
            | {n.target.id for n in found.body if isinstance(n, ast.AnnAssign)}
            | {"tree", "random", "optim", "linalg", "nn", "tree_util", "flatten_util", "debug", "autograd"}
            | {"dist", "implicit", "policies"}
        )
        self.assertEqual(set(hop.__all__) - names, set())

    def test_stubs_are_up_to_date(self):
        """They say what the package says now: make stubs writes them."""
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "build_backend"))
        import make_stubs

        for name, text in make_stubs.stubs().items():
            with open(os.path.join(os.path.dirname(hop.__file__), name + ".pyi"), encoding="utf-8") as stub:
                self.assertTrue(stub.read() == text, f"{name}.pyi is out of date: make stubs")
            compile(text, name + ".pyi", "exec")

    def test_command(self):
        """python -m hop, and the command that an installed package brings along."""
        commands = [[sys.executable, "-m", "hop"]]
        try:
            scripts = importlib.metadata.distribution("hop").entry_points.select(group="console_scripts")
            self.assertEqual([(s.name, s.value) for s in scripts], [("hop", "hop.__main__:main")])
            commands.append([os.path.join(os.path.dirname(sys.executable), "hop")])
        except importlib.metadata.PackageNotFoundError:
            pass
        program = "fn @main(%x: f32[2]) -> (f32[2]) {\n  %y = exp(%x)\n  %z = mul(%y, %x)\n  return %z\n}\n"
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "program.hop"), "w", encoding="utf-8") as out:
                out.write(program)
            for command in commands:
                done = [
                    subprocess.run([*command, *rest], cwd=folder, capture_output=True, text=True)
                    for rest in (
                        ["--version"],
                        ["run", "program.hop", "--in", "x=[0, 1]"],
                        ["run", "none.hop"],
                    )
                ]
                self.assertEqual([d.returncode for d in done[:2]], [0, 0], [d.stderr for d in done])
                self.assertIn(hop.__version__, done[0].stdout)
                self.assertIn("[0, 2.718", done[1].stdout)
                self.assertNotEqual(done[2].returncode, 0)
                self.assertIn("none.hop", done[2].stderr)

    def test_installed_files(self):
        """What a wheel carries, where the package is installed from one."""
        try:
            found = importlib.metadata.distribution("hop")
        except importlib.metadata.PackageNotFoundError:
            self.skipTest("hop is on the path, but not installed")
        self.assertEqual(found.version, hop.__version__)
        self.assertEqual(found.metadata["Requires-Python"], ">=3.11")
        names = {f.name for f in found.files or ()}
        if any(name.endswith(".pth") for name in names):
            self.skipTest("hop is installed in place")
        self.assertLessEqual(
            {"_core.abi3.so", "hop-command", "py.typed", "LICENSE", "__init__.pyi", "tree.pyi"}, names
        )

    def test_examples_in_docstrings(self):
        """Of modules; test_reference.py runs those of functions."""
        for module in (hop, hop.random, hop.nn, hop.tree_util):
            test = doctest.DocTestParser().get_doctest(module.__doc__, {"hop": hop}, module.__name__, None, 0)
            result = doctest.DocTestRunner().run(test)
            self.assertGreater(result.attempted, 0)
            self.assertEqual(result.failed, 0)

    def test_namespace_info(self):
        info = hop.ones(2).__array_namespace__().__array_namespace_info__()
        self.assertEqual(info.devices(), [info.default_device()])
        self.assertIs(info.default_dtypes()["real floating"], hop.asarray(1.0).dtype)
        self.assertIs(info.default_dtypes()["integral"], hop.asarray(1).dtype)
        self.assertIs(info.default_dtypes(device="cpu")["indexing"], hop.argmax(hop.ones(2)).dtype)
        # those of the standard
        self.assertEqual(set(info.dtypes()), {d.name for d in hop._dtypes.ALL} - {"float16", "bfloat16"})
        self.assertEqual(list(info.dtypes(kind="bool")), ["bool"])
        self.assertEqual(
            set(info.dtypes(kind=("bool", "unsigned integer"))),
            {"bool", "uint8", "uint16", "uint32", "uint64"},
        )
        self.assertEqual(info.dtypes(kind=()), {})
        most = info.capabilities()["max dimensions"]
        self.assertEqual(hop.zeros((1,) * most).ndim, most)
        with self.assertRaises(Exception):
            hop.zeros((1,) * (most + 1))
        with self.assertRaises(ValueError):
            info.dtypes(device="elsewhere")


if __name__ == "__main__":
    unittest.main()
