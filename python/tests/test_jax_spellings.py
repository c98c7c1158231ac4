"""Programs in JAX's spelling, jax_snippets.txt: `jnp.`, `lax.` and `jax.` become `hop.`, nothing else. Most
run as they are; the others fail with a message that names what to write.

`python test_jax_spellings.py --jax`, with a Python that has JAX, runs the same texts with JAX itself and
holds the expected numbers against its results.
"""

import json
import pathlib
import re
import sys
import unittest

SNIPPETS = pathlib.Path(__file__).resolve().with_name("jax_snippets.txt")
COUNT, LEAST_UNCHANGED = 76, 74

# Snippets that do not run as they are: what the message says instead. Whoever makes one run takes its line
# away.
INSTEAD = {
    "config: double precision": (
        "hop has no 'config': there are no settings: "
        "float64 is there whenever dtype=hop.float64 asks for it"
    ),
    "numpy: axes by position": "there is no argument 'ddof': use correction=1",
}


def snippets():
    """[(name, text, what JAX gives)]"""
    found = []
    for part in SNIPPETS.read_text(encoding="utf-8").split("\n== ")[1:]:
        name, rest = part.split("\n", 1)
        text, expected = rest.split("\n-> ")
        found.append((name, text, json.loads(expected)))
    return found


def respelled(text):
    """The text with hop in the place of JAX and its modules."""
    text = re.sub(r"\bfrom jax\b", "from hop", text)
    text = re.sub(r"\b(jax\.)?(numpy|lax)\.", "hop.", text)
    return re.sub(r"\b(jnp|jax)\.", "hop.", text)


def plain(x):
    """Trees of arrays as lists, dicts and Python numbers."""
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [plain(v) for v in x]
    return x.tolist() if hasattr(x, "tolist") else x


def differ(found, expected, at="out"):
    """Where two plain trees differ, None when they agree to five digits."""
    if isinstance(expected, dict) or isinstance(found, dict):
        if not (isinstance(expected, dict) and isinstance(found, dict) and set(found) == set(expected)):
            return f"{at}: {found} against {expected}"
        return next(filter(None, (differ(found[k], expected[k], f"{at}[{k!r}]") for k in expected)), None)
    if isinstance(expected, list) or isinstance(found, list):
        if not (isinstance(expected, list) and isinstance(found, list) and len(found) == len(expected)):
            return f"{at}: {found} against {expected}"
        pairs = enumerate(zip(found, expected))
        return next(filter(None, (differ(f, e, f"{at}[{i}]") for i, (f, e) in pairs)), None)
    number = isinstance(expected, (int, float)) and not isinstance(expected, bool)
    if number and isinstance(found, (int, float)) and not isinstance(found, bool):
        same = abs(found - expected) <= 1e-5 * max(1, abs(expected))
    else:
        same = found == expected and type(found) is type(expected)
    return None if same else f"{at}: {found!r} against {expected!r}"


def run(text, names):
    names = {"__name__": "snippet", **names}
    exec(compile(text, "snippet", "exec"), names)
    return plain(names["out"])


class Spellings(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import hop

        cls.hop = hop

    def test_count(self):
        names = [name for name, _, _ in snippets()]
        self.assertEqual((len(names), len(set(names))), (COUNT, COUNT))
        self.assertLessEqual(set(INSTEAD), set(names))
        self.assertGreaterEqual(COUNT - len(INSTEAD), LEAST_UNCHANGED)

    def test_snippets(self):
        for name, text, expected in snippets():
            with self.subTest(snippet=name):
                try:
                    found = run(respelled(text), {"hop": self.hop})
                except Exception as error:
                    said = f"{type(error).__name__}: {error}"
                    if name not in INSTEAD:
                        raise
                    self.assertIn(INSTEAD[name], said)
                    continue
                self.assertNotIn(name, INSTEAD, "it runs: take it from the list")
                self.assertIsNone(differ(found, expected))


def with_jax():
    import jax

    names = {"jax": jax, "jnp": jax.numpy, "lax": jax.lax}
    wrong = 0
    for name, text, expected in snippets():
        jax.config.update("jax_enable_x64", False)
        found = run(text, names)
        said = differ(found, expected)
        if said:
            wrong += 1
            print(f"{name}: {said}\n-> {json.dumps(found)}")
    print(f"{COUNT - wrong} passed, {wrong} failed")
    return 1 if wrong else 0


def present():
    """Prints how each snippet ends that does not run."""
    import hop

    for name, text, expected in snippets():
        try:
            said = differ(run(respelled(text), {"hop": hop}), expected)
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        if said:
            print(f"{name}\n    {said}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--jax"]:
        sys.exit(with_jax())
    if sys.argv[1:] == ["--present"]:
        sys.exit(present())
    unittest.main()
