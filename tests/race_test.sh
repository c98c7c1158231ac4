#!/usr/bin/env bash
# Threads under a race detector and under valgrind: the tests of threads, callbacks and ranks are built once more with the thread sanitizer, native code and
# the slow executor of loop programs both run in it; valgrind then runs the plain build and must find no error and no lost block.
set -u
export HOP_CACHE="${HOP_CACHE-off}"
cd "$(dirname "$0")/.." || exit 2
: "${BUILD:=build}"
race=$BUILD/race
passed=0 failed=0
claim() { # claim NAME COMMAND…: it ends well and says that nothing failed
    local name=$1 out
    shift
    if out=$("$@" 2>&1) && grep -qE '^[0-9]+ passed, 0 failed$' <<<"$out"; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "$name:"
        tail -n 40 <<<"$out"
    fi
}

if make -s BUILD="$race" CFLAGS='-O0 -g1 -fsanitize=thread' all "$race/tests/threads_test" "$race/tests/callback_test" "$race/tests/dist_test" "$race/tests/ranks_test" "$race/tests/mesh_fuzz"; then
    export TSAN_OPTIONS=halt_on_error=1
    claim 'race detector, native code' "$race/tests/threads_test"
    claim 'race detector, shared code' env HOP_CACHE=memory "$race/tests/threads_test"
    claim 'race detector, loop programs' "$race/tests/threads_test" --portable
    claim 'race detector, callbacks' "$race/tests/callback_test"
    claim 'race detector, ranks' "$race/tests/dist_test"
    claim 'race detector, programs on ranks' "$race/tests/ranks_test" 1 16
    claim 'race detector, programs over a mesh' "$race/tests/mesh_fuzz" 1 16
else
    failed=$((failed + 1))
fi
if command -v valgrind >/dev/null; then
    under=(valgrind -q --error-exitcode=9 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite --suppressions=tests/valgrind.txt)
    claim 'valgrind, native code' "${under[@]}" "$BUILD/tests/threads_test"
    claim 'valgrind, loop programs' "${under[@]}" "$BUILD/tests/threads_test" --portable
else
    echo 'valgrind is not installed' && failed=$((failed + 1))
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
