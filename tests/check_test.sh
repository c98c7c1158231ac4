#!/usr/bin/env bash
# What reads the sources: their layout (clang-format), cppcheck and clang-tidy. A file that is not laid out as .clang-format says is one failure, so
# is one in which a checker finds something. ANALYZE=1 lets clang-tidy follow paths as well, minutes instead of seconds.
set -u
export LC_ALL=C.UTF-8 # columns are characters
cd "$(dirname "$0")/.." || exit 2
passed=0 failed=0
claim() { # claim WHAT OUTPUT: nothing was found
    if [ -z "$2" ]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "$1:"
        head -n 20 <<<"$2"
    fi
}
is_there() { # is_there TOOL WHAT_IT_CHECKS
    command -v "$1" >/dev/null && return 0
    echo "NOT RUN: $2: $1 is not installed"
    return 1
}

mapfile -t all < <(ls include/hop/*.h src/*/*.[ch] tests/*.[ch] tests/fuzz/*.[ch] python/src/*.[ch] examples/*.c examples/*/*.c bench/*.c 2>/dev/null)
mapfile -t sources < <(ls src/*/*.c | grep -v '^src/emit/llvm')

if is_there clang-format-19 'the layout of the sources'; then
    found=$(printf '%s\n' "${all[@]}" | xargs -n 40 -P "$(nproc)" clang-format-19 --dry-run 2>&1)
    for file in "${all[@]}"; do claim "$file is not laid out by .clang-format" "$(grep -F "$file:" <<<"$found")"; done
fi
# Text that clang-format leaves alone (comments with a long word, macros) is short as well; programs of hop's own in tests are not C.
long=$(grep -nE '^.{111}' "${all[@]}" src/*/*.def | grep -vE '^tests/simplify_(programs|compositions)\.h:' | cut -c1-160)
claim 'a line is longer than 110 columns' "$long"
mapfile -t python < <(find python examples tests -name '*.py')
claim 'a line of Python is longer than 110 columns' "$(grep -nE '^.{111}' "${python[@]}" | cut -c1-160)"

# Left out are the checks that follow paths without knowing what holds on them (that two ranks are equal, that an error does not return): gcc's own
# warnings and the sanitizers look there.
if is_there cppcheck 'what cppcheck finds'; then
    claim 'cppcheck' "$(cppcheck --quiet --std=c11 --enable=warning --library=tests/cppcheck.cfg --inline-suppr --suppress=missingInclude \
        --suppress=unknownMacro --suppress=internalAstError --suppress=normalCheckLevelMaxBranches --suppress=arrayIndexOutOfBoundsCond \
        --suppress=ctunullpointer --suppress=uninitvar --suppress=objectIndex -D_GNU_SOURCE -Iinclude -Isrc "${sources[@]}" 2>&1)"
fi
if is_there clang-tidy-19 'what clang-tidy finds'; then
    more=${ANALYZE:+,clang-analyzer-deadcode.*,clang-analyzer-unix.*}
    claim 'clang-tidy' "$(printf '%s\n' "${sources[@]}" | xargs -n 8 -P "$(nproc)" sh -c \
        'clang-tidy-19 --quiet --checks="'"$more"'" "$@" -- -std=c11 -D_GNU_SOURCE -Iinclude -Isrc 2>/dev/null' tidy)"
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
