#!/usr/bin/env bash
# The reference under docs/reference is what the header and the operator table say now: it is generated again and compared, and every name that the compiler
# finds in the header and every operator of the table is on its page.
set -u
export HOP_CACHE="${HOP_CACHE-off}"
cd "$(dirname "$0")/.." || exit 2
HOP=${HOP:-${BUILD:-build}/hop}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0
claim() { # claim WHAT COMMAND…
    local what=$1
    shift
    if "$@" >"$dir/log" 2>&1; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "reference: $what"
        head -n 20 "$dir/log"
    fi
}
claim 'it can be generated' env HOP="$HOP" docs/generate "$dir/new"
for page in c operators; do
    claim "docs/reference/$page.md is as it was generated: run make docs" diff -u "docs/reference/$page.md" "$dir/new/$page.md"
done
printf '#include <hop/hop.h>\n' | gcc -x c -Iinclude -fsyntax-only -aux-info "$dir/aux" -
while read -r name; do
    claim "$name is in the C reference" grep -Eq "\\b(${name}|${name%_at})\\(" "$dir/new/c.md"
done < <(sed -n 's|^/\* include/hop/[^ ]* \*/ extern [^(]*\<\(hop_[a-z0-9_]*\) (.*|\1|p' "$dir/aux")
while read -r name; do
    claim "the struct $name is in the C reference" grep -q "^} $name;" "$dir/new/c.md"
done < <(sed -n 's/^} \(hop_[a-z_]*\);.*/\1/p' include/hop/hop.h)
while read -r name; do
    claim "$name has a section" grep -qx "## $name" "$dir/new/operators.md"
    claim "$name has a sample that runs" awk -v name="$name" '$0 == "## " name { here = 1; next } /^## / { here = 0 } here && /^->/ { found = 1 } END { exit !found }' "$dir/new/operators.md"
done < <(sed -nE 's/^(OP|UNARY|BINARY|TERNARY)\(([a-z0-9_]+).*/\2/p' src/ops/elementwise.def src/ops/ops.def)
claim 'it is the same twice' bash -c '"$0" ops --markdown | cmp - "$1"' "$HOP" "$dir/new/operators.md"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
