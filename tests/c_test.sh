#!/usr/bin/env bash
# The C surface as a user meets it: the header under each standard it promises, the programs under examples/c and those in docs/c-tour.md compiled against
# the shared library with nothing but -lhop (and -lm for their own sake), and run: each ends with 0 only when its result is right.
set -u
export HOP_CACHE="${HOP_CACHE-off}"
cd "$(dirname "$0")/.." || exit 2
BUILD=${BUILD:-build}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0
claim() { # claim WHAT CODE
    if [ "$2" -eq 0 ]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "$1"
        tail -n 12 "$dir/log"
    fi
}
strict='-Wall -Wextra -Wpedantic -Werror -Iinclude'
printf '#include <hop/hop.h>\nint main(void) { return hop_failed(); }\n' >"$dir/header.c"
cp "$dir/header.c" "$dir/header.cpp"
for standard in c99 c11 c17; do
    gcc -std=$standard $strict -fsyntax-only "$dir/header.c" >"$dir/log" 2>&1
    claim "the header is $standard" $?
done
if command -v g++ >/dev/null; then
    g++ -std=c++17 $strict -fsyntax-only "$dir/header.cpp" >"$dir/log" 2>&1
    claim 'the header is C++17' $?
fi
awk -v to="$dir/tour" '/^```c$/ { file = to "_" ++n ".c"; inside = 1; next } /^```/ { inside = 0 } inside { print >file }' docs/c-tour.md
for program in examples/c/*.c "$dir"/tour_*.c; do
    name=$(basename "$program" .c)
    gcc -std=c99 $strict "$program" -L"$BUILD" -lhop -lm -Wl,-rpath,"$(realpath "$BUILD")" -o "$dir/$name" >"$dir/log" 2>&1 && "$dir/$name" >"$dir/log" 2>&1
    claim "$name compiles and runs" $?
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
