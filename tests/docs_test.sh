#!/usr/bin/env bash
# The examples in the documentation: every block that is a whole program is read and its tests are run, every `$ hop …` line is run, every link leads
# somewhere, and the files under examples that README.md shows are as it shows them.
set -u
export HOP_CACHE="${HOP_CACHE-off}"
cd "$(dirname "$0")/.." || exit 2
HOP=${HOP:-${BUILD:-build}/hop}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0
claim() { # claim WHAT CODE
    if [ "$2" -eq 0 ]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "$1"
        [ -s "$dir/log" ] && tail -n 12 "$dir/log"
    fi
    : >"$dir/log"
}
: >"$dir/log"
for page in README.md CONTRIBUTING.md docs/*.md; do
    name=$(basename "$page" .md)
    # adding-an-operator.md has a test of its own: its programs need the operator that it adds
    if [ "$name" != adding-an-operator ]; then
        awk -v to="$dir/$name" '/^```/ { if (inside) { close(file); inside = 0 } else { inside = 1; first = 1 } next }
            inside && first { first = 0; keep = $0 == "hop 1"; if (keep) file = to "_" ++n ".hop" }
            inside && keep { print >file }' "$page"
    fi
    while IFS= read -r line; do
        line=${line#\$ }
        line=${line#build/}
        bash -c "\"$HOP\" ${line#hop }" >"$dir/log" 2>&1
        claim "$page: $line" $?
    done < <(grep -E '^\$ (build/)?hop ' "$page")
    while IFS= read -r link; do
        [ -e "$(dirname "$page")/$link" ]
        claim "$page: the link $link leads nowhere" $?
    done < <(grep -oE '\]\([A-Za-z.][^)#: ]*\)' "$page" | sed 's/^](//; s/)$//')
done
for program in "$dir"/*.hop; do
    [ -e "$program" ] || continue
    "$HOP" test --quick "$program" >"$dir/log" 2>&1
    claim "$(basename "$program" .hop), a block of that page" $?
done
cmp "$dir/README_1.hop" examples/first.hop >"$dir/log" 2>&1
claim 'README.md shows examples/first.hop' $?

# The program in C, built as README.md says and run.
awk '/^```/ { inside = $0 == "```c"; next } inside' README.md >"$dir/norm.c"
lib=$(realpath "${BUILD:-build}")
${CC:-cc} -std=c11 -Wall -Wextra -Werror -Iinclude "$dir/norm.c" -o "$dir/norm" -L"$lib" -lhop -Wl,-rpath,"$lib" \
    >"$dir/log" 2>&1
claim 'README.md: its program in C does not build' $?
[ "$("$dir/norm" 2>"$dir/log")" = '5, gradient 0.6 0.8' ]
claim 'README.md: its program in C gives other numbers' $?
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
