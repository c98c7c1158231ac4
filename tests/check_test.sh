#!/usr/bin/env bash
# What reads the sources: their layout (clang-format), cppcheck and clang-tidy. A file that is not laid out as .clang-format says is one failure, so
# is one in which a checker finds something. ANALYZE=1 lets clang-tidy follow paths as well, minutes instead of seconds. A file in which nothing was
# found is not looked at again until it changes, or what it is looked at with: $BUILD/checked remembers.
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
mapfile -t sources < <(ls src/*/*.c | grep -vE '^src/(emit/llvm|dist/mpi)')

checked=${BUILD:-build}/checked
mkdir -p "$checked/cppcheck"
declare -A sum
while read -r hash file; do sum[$file]=$hash; done < <(sha256sum "${all[@]}")
key() { cat "$@" | sha256sum | cut -c1-16; }
fresh() { # fresh KEY FILE…: those that were not found good before
    local key=$1 file
    shift
    for file; do [ -e "$checked/$key-${sum[$file]}" ] || echo "$file"; done
}
good() { # good KEY FOUND FILE…: remembers those that FOUND does not name
    local key=$1 found=$2 file
    shift 2
    for file; do grep -qF "$file:" <<<"$found" || : >"$checked/$key-${sum[$file]}"; done
}

if is_there clang-format-19 'the layout of the sources'; then
    layout=format-$(key .clang-format)
    mapfile -t some < <(fresh "$layout" "${all[@]}")
    found=$(printf '%s\n' "${some[@]}" | xargs -r -n 40 -P "$(nproc)" clang-format-19 --dry-run 2>&1)
    good "$layout" "$found" "${some[@]}"
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
    claim 'cppcheck' "$(cppcheck --quiet -j "$(nproc)" --cppcheck-build-dir="$checked/cppcheck" --std=c11 --enable=warning --library=tests/cppcheck.cfg --inline-suppr --suppress=missingInclude \
        --suppress=unknownMacro --suppress=internalAstError --suppress=normalCheckLevelMaxBranches --suppress=arrayIndexOutOfBoundsCond \
        --suppress=ctunullpointer --suppress=uninitvar --suppress=objectIndex -D_GNU_SOURCE -Iinclude -Isrc "${sources[@]}" 2>&1)"
fi
if is_there clang-tidy-19 'what clang-tidy finds'; then
    more=${ANALYZE:+,clang-analyzer-deadcode.*,clang-analyzer-unix.*}
    tidy=tidy-${ANALYZE:+analyze-}$(key .clang-tidy include/hop/*.h src/*/*.h src/*/*.def)
    mapfile -t some < <(fresh "$tidy" "${sources[@]}")
    found=$(printf '%s\n' "${some[@]}" | xargs -r -n 8 -P "$(nproc)" sh -c \
        'clang-tidy-19 --quiet --checks="'"$more"'" "$@" -- -std=c11 -D_GNU_SOURCE -Iinclude -Isrc 2>/dev/null' tidy)
    claim 'clang-tidy' "$found"
    grep -q '\.h:' <<<"$found" || good "$tidy" "$found" "${some[@]}"
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
