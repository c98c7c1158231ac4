"""docs/python/capture.md: every test that the page names exists, and every test of
test_capture_acceptance.py is on the page."""

import ast
import functools
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "python" / "capture.md"


@functools.cache
def python_tests(path):
    """The tests of a file, as Class.test."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        f"{node.name}.{inner.name}"
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        for inner in node.body
        if isinstance(inner, ast.FunctionDef) and inner.name.startswith("test")
    }


class Listed(unittest.TestCase):
    def setUp(self):
        self.text = PAGE.read_text(encoding="utf-8")
        self.named = re.findall(r"`([\w.]+)::([\w.]+)`", self.text)

    def test_named_tests_exist(self):
        self.assertGreater(len(self.named), 80)
        for file, name in self.named:
            with self.subTest(file=file, name=name):
                if file.endswith(".c"):
                    text = (ROOT / "tests" / file).read_text(encoding="utf-8")
                    self.assertRegex(text, rf"(?m)^(static void {name}\(|BODY\({name}\))")
                else:
                    self.assertIn(name, python_tests(ROOT / "python" / "tests" / f"{file}.py"))

    def test_every_claim_is_listed(self):
        named = {name for file, name in self.named if file == "test_capture_acceptance"}
        here = ROOT / "python" / "tests" / "test_capture_acceptance.py"
        self.assertEqual(python_tests(here) - named, set())

    def test_every_row_says_something(self):
        for line in self.text.splitlines():
            if line.startswith("| ") and not line.startswith("|---"):
                cells = [cell.strip() for cell in line.strip("|").split("|")]
                self.assertEqual(len(cells), 2, line)
                self.assertTrue(all(cells), line)


if __name__ == "__main__":
    unittest.main()
