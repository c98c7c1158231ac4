"""What tests of plain control flow share: a function under jit is held to what Python gives."""

import hop
from support import Case

LONG = [float((7 * i) % 13) - 5.5 for i in range(12)]


class Language(Case):
    def same(self, fun, *calls, places=4):
        """fun under jit is fun in Python. Lists among arguments are vectors."""
        g = hop.jit(fun)
        for args in calls:
            args = args if isinstance(args, tuple) else (args,)
            found = self.plain(g(*[hop.asarray(a) for a in args]))
            expected = self.plain(fun(*[hop.asarray(a) if isinstance(a, list) else a for a in args]))
            self.equal_plain(found, expected, f"{fun.__name__}{args}", places)

    def plain(self, x):
        if isinstance(x, (list, tuple)):
            return [self.plain(y) for y in x]
        if isinstance(x, dict):
            return {k: self.plain(v) for k, v in x.items()}
        return x.tolist() if hasattr(x, "tolist") else x

    def equal_plain(self, found, expected, said, places):
        if isinstance(expected, (list, dict)):
            self.assertEqual(len(found), len(expected), said)
            keys = expected if isinstance(expected, dict) else range(len(expected))
            for k in keys:
                self.equal_plain(found[k], expected[k], said, places)
        elif expected is None or isinstance(expected, str):
            self.assertEqual(found, expected, said)
        else:
            self.assertAlmostEqual(found, expected, places, said)

    def refused(self, fun, said, *args):
        with self.assertRaisesRegex(hop.Error, said):
            hop.jit(fun)(*map(hop.asarray, args or (1.0,)))
