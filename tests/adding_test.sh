#!/usr/bin/env bash
# The page docs/adding-an-operator.md, tested as written: its files are written and its commands run in a copy of the tree.
set -u
export HOP_CACHE="${HOP_CACHE-off}"
cd "$(dirname "$0")/.." || exit 2
page=docs/adding-an-operator.md
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
passed=0 failed=0
claim() { # claim NAME CODE
    if [ "$2" -eq 0 ]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "$page: $1"
        tail -n 30 "$copy/log"
    fi
}

mkdir -p "$copy/tree/tests/corpus" && cp -r src include Makefile setup "$copy/tree/" && cp tests/table_test.c tests/isolated.h "$copy/tree/tests/"
# Blocks "```LANGUAGE file=PATH" are appended to PATH, blocks "```sh run" become numbered scripts.
awk -v root="$copy/tree" -v scripts="$copy" '
    /^```/ && inside { inside = 0; close(to); next }
    /^```[a-z]+ file=/ { to = $0; sub(/.*file=/, "", to); to = root "/" to; inside = 1; next }
    /^```sh run/ { to = scripts "/step" n++; inside = 1; next }
    /^```/ { inside = 1; to = "/dev/null"; next }
    inside { print >>to }' "$page"
[ -s "$copy/tree/src/hops/twice.c" ]
claim 'the row is on the page' $?
cd "$copy/tree" || exit 2
export CFLAGS='-O0 -g' MAKEFLAGS="-j$(nproc 2>/dev/null || echo 2)" # quick to build; the numbers are defined without optimisation
: >"$copy/log"
for step in "$copy"/step*; do
    while IFS= read -r line; do
        bash -c "$line" >"$copy/log" 2>&1
        code=$?
        claim "$line" $code
        [ $code -eq 0 ] || break 2 # what follows would fail for the same reason
        case $line in *'hop grad'*) grep -q '= 30$' "$copy/log"; claim 'the gradient is 30' $? ;; esac
    done <"$step"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
