"""Draws what timings.py printed: python picture.py TIMINGS OUT.svg. TIMINGS holds its lines; one panel shows
first calls, the other one later calls, hop beside JAX."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples" / "python"))
import plot  # noqa: E402

SHOWN = {  # the case: what it is, in a few words
    "while100k": "while loop, 100,000 trips",
    "rnn": "RNN, 1,000 steps",
    "rnn_grad": "its gradient",
    "carry60": "scan over 60 scalars",
    "carry60_grad": "its gradient",
    "assoc_scan": "associative scan",
    "assoc_grad": "its gradient",
    "tf12": "12 transformer blocks, gradient",
}


def main():
    timings, out = sys.argv[1:]
    lines = [json.loads(line) for line in pathlib.Path(timings).read_text(encoding="utf-8").splitlines()]
    cases = {line["case"]: line for line in lines if "case" in line}
    versions = next(line for line in lines if "jax" in line)
    found = [cases[name] for name in SHOWN]
    peers = (("hop", "hop"), (f"JAX {versions['jax']}", "jax"))

    def panel(title, what):
        groups = [(name, [case[f"{key}_{what}"] for case in found]) for name, key in peers]
        return plot.bars(list(SHOWN.values()), groups, title, " ms")

    panels = [panel("first call: capture, compile, run", "first_ms"), panel("a later call", "ms")]
    title = f"Milliseconds on {versions['machine']}, shorter is better"
    plot.save_panels(out, title, panels, width=1140, height=430, room=(205, 78, 34))


if __name__ == "__main__":
    main()
