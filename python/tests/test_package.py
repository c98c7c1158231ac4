"""The package: its names, its version, its types."""

import ast
import doctest
import os
import unittest

import hop
from support import Case


class Package(Case):
    def test_names(self):
        for name in hop.__all__:
            self.assertTrue(hasattr(hop, name), name)
        self.assertRegex(hop.__version__, r"^[0-9]+\.[0-9]+\.[0-9]+$")
        for name in hop._OPERATORS:
            function = getattr(hop, name)
            if callable(function):
                self.assertTrue(function.__doc__ or name in ("conj", "real"), name)

    def test_stubs(self):
        folder = os.path.dirname(hop.__file__)
        self.assertTrue(os.path.exists(os.path.join(folder, "py.typed")))
        with open(os.path.join(folder, "__init__.pyi"), encoding="utf-8") as stub:
            found = ast.parse(stub.read())
        names = {n.name for n in found.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))} | {n.target.id for n in found.body if isinstance(n, ast.AnnAssign)} | {"tree"}
        self.assertEqual(set(hop.__all__) - names, set())

    def test_examples_in_docstrings(self):
        failed, tried = doctest.testmod(hop)
        self.assertGreater(tried, 0)
        self.assertEqual(failed, 0)


if __name__ == "__main__":
    unittest.main()
