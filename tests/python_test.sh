#!/usr/bin/env bash
# The Python package as its users get it: a wheel and an archive of the sources are made, each is installed into a new virtual environment, without a network, and
# tested there: with NumPy (from PyPI) everything, without NumPy what does without. What cannot be run is a failure and says why; HOP_TEST_PYTHON=off leaves
# the package out, and says so, too. PYTHON names the Python (3.11 or newer).
set -u
cd "$(dirname "$0")/.." || exit 2
build=${BUILD:-build} python=${PYTHON:-python3} work=${BUILD:-build}/python-test
passed=0 failed=0
finish() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
    exit
}
not_run() { # not_run WHY: everything that is left
    echo "NOT RUN: the tests of the Python package: $1"
    failed=$((failed + 1))
    finish
}
claim() { # claim WHAT COMMAND…
    local what=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        passed=$((passed + 1))
        return 0
    fi
    failed=$((failed + 1))
    echo "$what"
    tail -n 30 "$work/log"
    return 1
}
counted() { # counted COMMAND…: it closes with a line `N passed, M failed`
    local line
    "$@" >"$work/log" 2>&1
    line=$(grep -aE '^[0-9]+ passed, [0-9]+ failed$' "$work/log" | tail -n 1)
    line=${line:-0 passed, 1 failed}
    passed=$((passed + ${line%% passed*}))
    line=${line#*, }
    failed=$((failed + ${line%% failed}))
    grep -avE '^[0-9]+ passed, [0-9]+ failed$' "$work/log"
}

if [ "${HOP_TEST_PYTHON:-}" = off ]; then
    echo 'NOT RUN: the tests of the Python package: HOP_TEST_PYTHON=off'
    finish
fi
command -v "$python" >/dev/null || not_run "there is no $python"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || not_run "$("$python" --version) is too old: 3.11 or newer is needed (PYTHON=… names another)"
"$python" -c 'import venv, ensurepip' 2>/dev/null || not_run "$python cannot make virtual environments (Debian: python3-venv)"
"$python" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")))' ||
    not_run "$python has no headers, Python.h (Debian: python3-dev)"

rm -rf "$work"
mkdir -p "$work"
export HOP_BUILD=$build PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
unset PYTHONPATH PYTHONHOME
claim 'the wheel cannot be built' "$python" python/build_backend/hop_build.py wheel "$work/dist" || finish
wheel=$(echo "$work"/dist/hop-*.whl)
claim 'the archive of the sources cannot be made' "$python" python/build_backend/hop_build.py sdist "$work/dist"

claim 'no virtual environment can be made' "$python" -m venv "$work/numpy" || finish
claim 'no virtual environment can be made' "$python" -m venv --without-pip "$work/bare" || finish
pip=("$PWD/$work/numpy/bin/python" -m pip --python)
for environment in numpy bare; do
    claim "the wheel cannot be installed: $environment" "${pip[@]}" "$work/$environment/bin/python" install --quiet --no-index "$wheel" || finish
done

# HOP_CACHE=memory: what is tested is compiled, not found on the disk; a program that is used again and again is compiled once.
export HOP_CACHE=memory
if "${pip[@]}" "$work/numpy/bin/python" install --quiet --retries 2 --timeout 30 numpy >"$work/log" 2>&1; then
    # The programs of examples/python need no NumPy: they run where there is none.
    counted env HOP_TEST_PROGRAMS=elsewhere "$work/numpy/bin/python" python/tests/run.py --numpy
else
    tail -n 3 "$work/log"
    echo 'NOT RUN: the tests of the Python package that need NumPy: it could not be installed from PyPI (HOP_TEST_PYTHON=off leaves out all of them)'
    failed=$((failed + 1))
fi
counted "$work/bare/bin/python" python/tests/run.py --bare test_arrays test_control test_docs test_exchange test_jit test_package test_tree

# From the sources alone: pip makes a build environment of its own, needs nothing from a network, and what it installs does without the sources.
mkdir "$work/elsewhere"
claim 'the archive of the sources cannot be installed' env -u HOP_BUILD CFLAGS=-O0 "${pip[@]}" "$work/bare/bin/python" install --quiet --no-index --force-reinstall "$work"/dist/hop-*.tar.gz
claim 'what is installed from the sources does not work' bash -c "cd $work/elsewhere && ../bare/bin/python -W error -c '
import hop, importlib.metadata, pathlib
assert \"site-packages\" in hop.__file__ and importlib.metadata.version(\"hop\") == hop.__version__
assert hop.jit(hop.grad(lambda x: hop.sum(x**3)))(hop.ones(3)).tolist() == [3, 3, 3]
assert \"nodes\" in hop.jit(hop.sin).explain(1.0) and \"float\" in hop.jit(hop.sin).c(1.0)
assert importlib.metadata.requires(\"hop\") == [\"numpy; extra == \\\"numpy\\\"\"] or importlib.metadata.requires(\"hop\") == [\"numpy; extra == \\x27numpy\\x27\"], importlib.metadata.requires(\"hop\")
'"
claim 'the command that is installed from the sources does not work' bash -c "cd $work/elsewhere && ../bare/bin/hop --version && ../bare/bin/python -m hop ops"
finish
