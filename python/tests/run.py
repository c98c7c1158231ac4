"""Runs the tests with the Python that runs this, several files at once, each in a process of its own:
run.py [--numpy | --bare] [--jobs N] [FILE…].

Out: what failed, what was skipped and why, a line per file, and at the end `N passed, M failed`. With
--numpy NumPy must be there; with --bare it must not. A file whose process crashes, hangs or says nothing
is one failure.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
LIMIT = 600  # seconds for a file
MARK = "result of the file: "


class Result(unittest.TestResult):
    """Keeps what is printed about failures; counts tests, each with all of its subtests once."""

    def __init__(self):
        super().__init__()
        self.buffer = True
        self.ended = 0

    def stopTest(self, test):
        super().stopTest(test)
        self.ended += 1


def run_one(name):
    """Runs one file in this process and prints what came of it."""
    sys.path.insert(0, str(HERE))
    result = Result()
    unittest.defaultTestLoader.loadTestsFromName(name).run(result)
    bad = [
        *result.failures,
        *result.errors,
        *[(t, "succeeded, though expected to fail") for t in result.unexpectedSuccesses],
    ]
    for test, text in bad:
        print(f"FAILED {test.id()}\n{text}")
    failed = len({getattr(test, "test_case", test).id() for test, _ in bad})
    skipped = [(test.id(), reason) for test, reason in result.skipped]
    print(
        MARK
        + json.dumps(
            {"passed": max(0, result.ended - failed - len(skipped)), "failed": failed, "skipped": skipped}
        ),
        flush=True,
    )
    return 1 if failed else 0


def run_file(name):
    """(name, passed, failed, skipped, seconds, what it printed)"""
    begun = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, "-B", str(HERE / "run.py"), "--one", name],
            cwd=HERE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LIMIT,
            check=False,
        )
        text, code = done.stdout.decode(errors="replace"), done.returncode
    except subprocess.TimeoutExpired as error:
        text, code = (
            (error.stdout or b"").decode(errors="replace") + f"\n{name} took more than {LIMIT} seconds",
            -1,
        )
    lines = text.splitlines()
    found = [json.loads(line[len(MARK) :]) for line in lines if line.startswith(MARK)]
    text = "\n".join(line for line in lines if not line.startswith(MARK))
    seconds = time.monotonic() - begun
    if not found or (code and not found[0]["failed"]):
        return name, 0, 1, [], seconds, f"{text}\n{name} ended with code {code}"
    return name, found[0]["passed"], found[0]["failed"], found[0]["skipped"], seconds, text


def check_environment(options):
    try:
        import numpy
    except ImportError:
        numpy = None
    if options.numpy and numpy is None:
        sys.exit("NumPy is not installed in this environment\n0 passed, 1 failed")
    if options.bare and numpy is not None:
        sys.exit("NumPy is installed in this environment, which should have none\n0 passed, 1 failed")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--numpy", action="store_true")
    parser.add_argument("--bare", action="store_true")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--one")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    if options.one:
        return run_one(options.one)
    check_environment(options)
    names = [pathlib.Path(f).stem for f in options.files] or sorted(p.stem for p in HERE.glob("test_*.py"))
    passed = failed = 0
    reasons = {}
    with concurrent.futures.ThreadPoolExecutor(max(1, options.jobs)) as pool:
        for name, good, bad, skipped, seconds, text in pool.map(run_file, names):
            if options.numpy:  # nothing may be missing here
                for test, reason in skipped:
                    if "NumPy" in reason:
                        bad += 1
                        text += f"\n{test} was skipped: {reason}"
            if bad:
                print(text)
            print(
                f"{name:24} {good:5} passed {bad:4} failed {len(skipped):4} skipped {seconds:6.1f} s",
                flush=True,
            )
            passed, failed = passed + good, failed + bad
            for _, reason in skipped:
                reasons[reason] = reasons.get(reason, 0) + 1
    for reason, count in sorted(reasons.items()):
        print(f"skipped: {count} tests: {reason}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    # a run in the background ignores it, and its children would, too
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())
