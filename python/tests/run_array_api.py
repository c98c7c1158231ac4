"""Runs the public conformance suite of the array-API standard (array-api-tests) against an installed hop:
make test-array-api.

In: where the suite is (a folder, or a git address with @revision behind it), a wheel of hop, a folder to
work in. Out: the suite's own report, and the share of all collected tests that pass. Exit status 0: every
failure is one that array-api-xfails.txt lists, with its reason, and every test listed there is there and
fails.
"""

import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
XFAILS = os.path.join(HERE, "array-api-xfails.txt")


def stop(message):
    sys.exit("test-array-api: " + message)


def suite_folder(source, work):
    """The suite's files: a folder as it is; a git address is fetched once."""
    if os.path.isdir(source):
        folder = os.path.abspath(source)
    else:
        address, _, revision = (
            source.removeprefix("git+").rpartition("@")
            if "@" in source.rpartition("/")[2]
            else (source.removeprefix("git+"), "", "")
        )
        folder = os.path.join(work, "array-api-tests")
        if not os.path.isdir(os.path.join(folder, ".git")):
            steps = [["git", "clone", "--quiet", address, folder]]
        else:
            steps = []
        steps += [["git", "-C", folder, "checkout", "--quiet", revision]] if revision else []
        steps += [["git", "-C", folder, "submodule", "--quiet", "update", "--init"]]
        for step in steps:
            if subprocess.run(step, check=False).returncode:
                stop(
                    f"the suite could not be fetched from {address}\n"
                    "It is not on PyPI; its home is a git repository with a submodule. "
                    "Where that can be reached:\n"
                    "    git clone --recurse-submodules https://github.com/data-apis/array-api-tests\n"
                    "and then: make test-array-api ARRAY_API_TESTS=path/to/array-api-tests"
                )
    if not os.path.isdir(os.path.join(folder, "array_api_tests")):
        stop(f"{folder} has no folder array_api_tests: this is not the suite")
    if not os.path.isdir(os.path.join(folder, "array-api", "src")):
        stop(f"{folder}/array-api is empty: the suite's submodule is missing (git submodule update --init)")
    return folder


def environment(work, wheel, folder):
    """The Python of an environment with hop, the suite's requirements and nothing else."""
    python = os.path.join(work, "venv", "bin", "python")
    if not os.path.exists(python):
        subprocess.run([sys.executable, "-m", "venv", os.path.join(work, "venv")], check=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    requirements = os.path.join(folder, "requirements.txt")
    if subprocess.run(
        [
            *pip,
            *(["-r", requirements] if os.path.exists(requirements) else []),
            "pytest",
            "pytest-json-report",
            "hypothesis",
            "ndindex",
        ],
        check=False,
    ).returncode:
        stop("the suite's requirements could not be installed with pip")
    subprocess.run([*pip, "--force-reinstall", "--no-deps", wheel], check=True)
    return python


def expected_failures():
    """The names of the tests that are expected to fail. Each stands under a comment that says why."""
    names, reason = [], False
    with open(XFAILS, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.strip()
            if line and not line.startswith("#") and not reason:
                stop(f"{XFAILS}:{number}: no reason is given above this test")
            names += [line] if line and not line.startswith("#") else []
            reason = bool(line) and (line.startswith("#") or reason)
    return names


def main(source, wheel, work, *arguments):
    expected = expected_failures()
    os.makedirs(work, exist_ok=True)
    work = os.path.abspath(work)
    folder = suite_folder(source, work)
    python = environment(work, os.path.abspath(wheel), folder)
    report = os.path.join(work, "report.json")
    settings = {
        "ARRAY_API_TESTS_MODULE": "hop",
        "ARRAY_API_TESTS_SKIP_DTYPES": "complex64,complex128",
        "HYPOTHESIS_STORAGE_DIRECTORY": os.path.join(work, "hypothesis"),
        "HOP_CACHE": "memory",
        "PYTHONPATH": os.pathsep.join((HERE, folder)),  # the plugin, and the suite for it
    }
    if os.path.exists(report):
        os.remove(report)
    pytest = [
        python, "-m", "pytest", "array_api_tests", "-q", "-p", "array_api_plugin", "-p", "no:cacheprovider",
    ]
    pytest += ["-o", "xfail_strict=true", f"--xfails-file={XFAILS}"]
    pytest += ["--json-report", "--json-report-file", report, "--json-report-omit", "log", "streams"]
    pytest += ["--rootdir", folder]  # names of tests begin at the suite's folder
    subprocess.run([*pytest, *arguments], cwd=folder, env={**os.environ, **settings}, check=False)
    if not os.path.exists(report):
        stop("the suite did not run to its end")
    with open(report, encoding="utf-8") as file:
        found = json.load(file)
    counts = found["summary"]
    names = ("total", "passed", "skipped", "xfailed", "failed", "error")
    total, passed, skipped, expected_to, failed, errors = (counts.get(name, 0) for name in names)
    print(
        f"passed {passed}, expected to fail {expected_to}, failed {failed}, errors {errors}, "
        f"skipped {skipped}"
    )
    for what, n in (("collected tests", total), ("those not skipped", total - skipped)):
        print(f"{passed} / {n} of {what} pass: {100 * passed / n if n else 0:.1f} %")
    there = {item["nodeid"] for collector in found.get("collectors", ()) for item in collector["result"]}
    stale = [name for name in expected if name not in there]
    for name in stale:
        print(f"array-api-xfails.txt: there is no test {name}")
    broken = [c for c in found.get("collectors", ()) if c["outcome"] == "failed"]
    for c in broken:
        print(f"not collected: {c['nodeid']}")
    sys.exit(1 if broken or stale or not total or failed or errors else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
