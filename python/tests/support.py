"""What the tests share: comparison with plain Python numbers, and with NumPy where it is installed."""

import contextlib
import io
import os
import unittest

import hop

try:
    import numpy
except ImportError:
    numpy = None

needs_numpy = unittest.skipIf(numpy is None, "NumPy is not installed")


class Case(unittest.TestCase):
    def equal(self, x, expected, dtype=None):
        """An array has exactly these elements."""
        self.assertIsInstance(x, hop.Array)
        self.assertEqual(x.tolist(), expected)
        if dtype is not None:
            self.assertEqual(x.dtype, dtype)

    def close(self, x, expected, tolerance=1e-5):
        """An array has about these elements; NaN equals NaN."""
        found = x.tolist() if isinstance(x, hop.Array) else x
        expected = expected.tolist() if hasattr(expected, "tolist") else expected
        self._close(found, expected, tolerance, [])

    def _close(self, a, b, tolerance, at):
        if isinstance(b, (list, tuple)):
            self.assertEqual(len(a), len(b), f"length at {at}")
            for i, (x, y) in enumerate(zip(a, b)):
                self._close(x, y, tolerance, [*at, i])
        elif b != b:
            self.assertTrue(a != a, f"{a} is not NaN at {at}")
        elif a != b:
            self.assertLessEqual(abs(a - b), tolerance * max(1, abs(b)), f"{a} against {b} at {at}")

    def same(self, x, expected, tolerance=0):
        """An array agrees with a NumPy array in dtype, shape and elements."""
        self.assertEqual(x.shape, expected.shape)
        self.assertEqual(x.dtype.name, expected.dtype.name)
        if tolerance:
            self.close(x, expected, tolerance)
        else:
            numpy.testing.assert_array_equal(numpy.asarray(x), expected)


def differences(f, x, step=1e-3):
    """The gradient of a function of a float64 vector by central differences."""
    out = []
    for i in range(x.size):
        up, down = x.tolist(), x.tolist()
        up[i] += step
        down[i] -= step
        out.append(
            (f(hop.asarray(up, dtype=hop.float64)).item() - f(hop.asarray(down, dtype=hop.float64)).item())
            / (2 * step)
        )
    return out


@contextlib.contextmanager
def counted_captures(every=False):
    """A list that holds, after the with, the lines that HOP_LOG=compile printed about captures inside of it,
    or every line."""
    before, said, lines = os.environ.get("HOP_LOG"), io.StringIO(), []
    os.environ["HOP_LOG"] = "compile"
    try:
        with contextlib.redirect_stderr(said):
            yield lines
    finally:
        if before is None:
            del os.environ["HOP_LOG"]
        else:
            os.environ["HOP_LOG"] = before
        lines += [line for line in said.getvalue().splitlines() if every or "captured in" in line]
