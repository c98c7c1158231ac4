"""Every example in the pages of docs/python gives what the page says, and every program in
examples/python, copied to an empty folder, runs there, passes its own checks and draws its picture."""

import contextlib
import doctest
import glob
import io
import linecache
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

try:
    import numpy
except ImportError:
    numpy = None

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run_page(path):
    """(examples that failed, examples, what doctest has to say) of the blocks of a page; they share their
    names, and run in an empty folder."""
    text = re.sub(r"^```.*$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    test = doctest.DocTestParser().get_doctest(text, {"__name__": "page"}, path.name, str(path), 0)
    said = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            failed, tried = runner.run(test, out=said.append)
        finally:
            os.chdir(before)
    return failed, tried, "".join(said)


class Docs(unittest.TestCase):
    def test_pages(self):
        pages = [
            *sorted((ROOT / "docs" / "python").glob("*.md")),
            ROOT / "docs" / "emit.md",
            ROOT / "docs" / "files.md",
            ROOT / "docs" / "from-jax.md",
            ROOT / "docs" / "from-pytorch.md",
        ]
        self.assertTrue(pages)
        for page in pages:
            with self.subTest(page=page.name):
                if numpy is None and ">>> import numpy" in page.read_text(encoding="utf-8"):
                    continue
                failed, tried, said = run_page(page)
                self.assertGreater(tried, 0)
                self.assertEqual(failed, 0, said)

    def test_first_program(self):
        """README's first program prints the gradient that differences of the loss give, the second one a
        root and its slope."""
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        first, second = [part.split("```", 1)[0] for part in text.split("```python\n")[1:3]]
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            space = {}
            exec(first, space)

        def loss(w):
            h, total = 0.0, 0.0
            for x in (1.0, -1.0, 0.5):
                h = math.tanh(w * h + x)
                total += h
            return total

        slope = (loss(0.5 + 1e-5) - loss(0.5 - 1e-5)) / 2e-5
        self.assertAlmostEqual(float(said.getvalue()), slope, places=5)
        name = "<second program of README>"
        linecache.cache[name] = (len(second), None, second.splitlines(True), name)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile(second, name, "exec"), space)
        root, of_root = map(float, said.getvalue().split())
        self.assertAlmostEqual(root, 2**0.5, places=5)
        self.assertAlmostEqual(of_root, 0.5 / 2**0.5, places=5)

    def test_pages_name_every_example(self):
        text = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "python").glob("*.md"))
        for path in self.programs():
            self.assertIn(f"examples/python/{path.name}", text)

    @staticmethod
    def programs():
        return [
            p
            for p in map(pathlib.Path, sorted(glob.glob(str(ROOT / "examples" / "python" / "*.py"))))
            if p.name != "plot.py"
        ]

    def test_programs(self):
        if os.environ.get("HOP_TEST_PROGRAMS") == "elsewhere":
            self.skipTest("the programs run in the environment that has less installed")
        with tempfile.TemporaryDirectory() as folder:
            for path in (ROOT / "examples" / "python").glob("*.py"):
                shutil.copy(path, folder)
            for path in self.programs():
                with self.subTest(program=path.name):
                    done = subprocess.run(
                        [sys.executable, "-B", path.name],
                        cwd=folder,
                        capture_output=True,
                        text=True,
                        timeout=300,
                    )
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                    self.assertTrue(done.stdout)
                    root = xml.etree.ElementTree.parse(pathlib.Path(folder, path.stem + ".svg")).getroot()
                    self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
                    self.assertGreater(len(root), 10)


if __name__ == "__main__":
    unittest.main()
