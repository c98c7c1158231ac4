"""The reference, docs/python/reference: every public function and class has a text and an example, the
examples give what they say, and the pages are what make docs would write."""

import doctest
import inspect
import pathlib
import sys
import unittest

import hop
from support import needs_numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python" / "build_backend"))

import make_reference  # noqa: E402


class Reference(unittest.TestCase):
    def test_every_name_has_text_and_example(self):
        for value, names in make_reference.public_names().items():
            with self.subTest(name=names[0]):
                text, _, example = inspect.cleandoc(value.__doc__ or "").partition(">>> ")
                self.assertRegex(text, r"\w.*[.:)\]]\s*$", "no sentence says what it does")
                self.assertIn(
                    "hop", example,
                    "no example in the docstring (functions made from tables: _ops/examples.py)",
                )

    def test_pages_are_up_to_date(self):
        made = make_reference.pages()
        self.assertEqual(
            {p.name for p in make_reference.FOLDER.glob("*.md")}, set(made), "make docs writes the pages"
        )
        for name, text in made.items():
            self.assertTrue(
                (make_reference.FOLDER / name).read_text(encoding="utf-8") == text,
                f"{name} is out of date: make docs",
            )

    @needs_numpy
    def test_examples(self):
        """Each docstring alone: an example does not lean on another one's names."""
        parser = doctest.DocTestParser()
        for value, names in make_reference.public_names().items():
            with self.subTest(name=names[0]):
                test = parser.get_doctest(
                    inspect.cleandoc(value.__doc__ or ""), {"hop": hop}, names[0], None, 0
                )
                said = []
                result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=said.append)
                self.assertEqual(result.failed, 0, "".join(said))


if __name__ == "__main__":
    unittest.main()
