#!/usr/bin/env bash
# The page docs/adding-an-operator.md, tested as written, in a copy of the tree: its files are written and its edits made, then its commands run, so that one
# build serves all of it. Each walk changes the files that it names and no others.
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

mkdir -p "$copy/tree/tests/corpus" && cp -r src include python Makefile setup pyproject.toml README.md LICENSE "$copy/tree/" && cp tests/table_test.c tests/*.h "$copy/tree/tests/"
# In order: a heading "## …" begins a walk, "Files: `…`, `…`." says what it changes; blocks "```LANGUAGE file=PATH" are appended to PATH, "```sh edit" are
# edits, "```sh run" commands. Becomes numbered scripts, and for each walk a list of files.
awk -v to="$copy" '
    function next_step(kind) { step = sprintf("%s/%03d.%s", to, ++n, kind) }
    /^```/ && inside { if (appends) print "END_OF_BLOCK" >>step; inside = 0; close(step); next }
    /^```[a-z]+ file=/ {
        next_step("edit")
        sub(/.*file=/, "")
        print "cat >>" $0 " <<\"END_OF_BLOCK\"" >>step
        inside = appends = 1
        next
    }
    /^```sh (edit|run)/ { next_step($2); inside = 1; appends = 0; next }
    /^```/ { inside = 1; appends = 0; step = "/dev/null"; next }
    inside { print >>step; next }
    /^## / { next_step("walk"); print substr($0, 4) >step; close(step) }
    /^Files: / {
        files = to "/" sprintf("%03d.files", n)
        while (match($0, /`[^`]*`/)) {
            print substr($0, RSTART + 1, RLENGTH - 2) >files
            $0 = substr($0, RSTART + RLENGTH)
        }
        close(files)
    }' "$page"

cd "$copy/tree" || exit 2
find src include python tests Makefile -type f | sort | xargs sha256sum >"$copy/before"
: >"$copy/log"
walk='' files=''
end_of_walk() {
    [ -n "$walk" ] || return
    find src include python tests Makefile -type f | sort | xargs sha256sum >"$copy/after"
    comm -13 <(sort "$copy/before") <(sort "$copy/after") | sed 's/^[^ ]* *//' | sort >"$copy/changed"
    sort "$files" 2>/dev/null | diff - "$copy/changed" >"$copy/log"
    claim "$walk: it changes $(paste -sd ' ' "$copy/changed")" $?
    mv "$copy/after" "$copy/before"
}
for step in "$copy"/[0-9]*.{walk,edit}; do echo "$step"; done | sort >"$copy/steps"
while read -r step; do
    case $step in
    *.walk) end_of_walk; walk=$(cat "$step") files=${step%.walk}.files ;;
    *.edit) bash -e "$step" >"$copy/log" 2>&1; claim "$walk: $(basename "$step")" $? ;;
    esac
done <"$copy/steps"
end_of_walk

export CFLAGS='-O0 -g' MAKEFLAGS="-s -j$(nproc 2>/dev/null || echo 2)" HOP_SETUP=done # quick to build; the numbers are defined without optimisation
unset HOP_BUILD
for step in "$copy"/[0-9]*.run; do
    while IFS= read -r line; do
        case $line in *python*) [ "${HOP_TEST_PYTHON-}" != off ] || continue ;; esac
        bash -c "$line" >"$copy/log" 2>&1
        code=$?
        claim "$line" $code
        [ $code -eq 0 ] || break 2 # what follows would fail for the same reason
        case $line in *'hop grad'*) grep -q '= 30$' "$copy/log"; claim 'the gradient is 30' $? ;; esac
    done <"$step"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
