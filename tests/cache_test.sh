#!/usr/bin/env bash
# The cache from outside: hop cache, --no-cache, HOP_CACHE and HOP_CACHE_SIZE, what explain says, and caches that are damaged or out of reach.
set -u
cd "$(dirname "$0")/.." || exit 2
HOP=$(realpath "${HOP:-${BUILD:-build}/hop}")
root=$PWD
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 2
unset HOP_CACHE HOP_CACHE_SIZE XDG_CACHE_HOME
export HOME=$dir/home
mkdir home
passed=0 failed=0
claim() { # claim WHAT COMMAND…
    local what=$1
    shift
    if "$@"; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "cache_test.sh: $what"
    fi
}
has() { # has TEXT COMMAND…: it ends well and prints the text
    local text=$1 out
    shift
    out=$("$@" 2>&1) && grep -qF -- "$text" <<<"$out" && return 0
    echo "expected '$text', found: $out"
    return 1
}
fails() { ! "$@" >/dev/null 2>&1; }
entries() { "$HOP" cache --json | sed 's/.*"entries": \([0-9]*\).*/\1/'; }
is() { [ "$1" = "$2" ] || { echo "expected $1, found $2"; return 1; }; }

cat >square.hop <<'P'
hop 1
fn @square(%x: f32[3]) -> (f32[]) {
  %y = mul(%x, %x)
  %s = sum(%y)
  return %s
}
P
run=("$HOP" run square.hop --in 'x=[1, 2, 3]')
if ! "${run[@]}" --jit >/dev/null 2>&1; then
    echo 'no back end: nothing is kept'
    echo '0 passed, 0 failed'
    exit 0
fi
"$HOP" cache clear >/dev/null

claim 'the place' has "directory: $HOME/.cache/hop" "$HOP" cache
claim 'nothing is kept yet' is 0 "$(entries)"
claim 'the first run' has '= 14' "${run[@]}"
claim 'is kept' is 1 "$(entries)"
claim 'the second run' has '= 14' "${run[@]}"
claim 'adds nothing' is 1 "$(entries)"
claim 'explain finds it' has 'cache: it is there' "$HOP" explain square.hop
claim 'explain in JSON' has '"from": "disk"' "$HOP" explain square.hop --json
claim 'explain without it' has 'cache: not asked' "$HOP" explain square.hop --no-cache
claim 'explain of another program' has 'cache: it was not there' "$HOP" explain square.hop --strict
claim 'which is kept as well' is 2 "$(entries)"
claim '--no-cache' has '= 14' "${run[@]}" --no-cache --threads 1
claim 'keeps nothing' is 2 "$(entries)"
claim 'list' is 2 "$("$HOP" cache list | grep -cE '^[0-9a-f]{32}\.hopc +[0-9]+  20[0-9-]+T[0-9:]+Z$')"
claim 'list in JSON' is 2 "$("$HOP" cache list --json | grep -c '"name": "[0-9a-f]*\.hopc", "bytes": [0-9]*, "used": "')"
claim 'clear' has 'removed 2' "$HOP" cache clear
claim 'clear in JSON' has '{"removed": 0}' "$HOP" cache clear --json
claim 'is empty' is 0 "$(entries)"
claim 'a word that is none' fails "$HOP" cache wipe
claim 'two words' fails "$HOP" cache list clear

claim 'HOP_CACHE=off' has 'directory: none (off)' env HOP_CACHE=off "$HOP" cache
claim 'HOP_CACHE=memory' has 'directory: none (in memory only)' env HOP_CACHE=memory "$HOP" cache
HOP_CACHE=off "${run[@]}" >/dev/null
claim 'off keeps nothing' is 0 "$(entries)"
claim 'off has nothing to clear' fails env HOP_CACHE=off "$HOP" cache clear
claim 'XDG_CACHE_HOME' has "directory: $dir/xdg/hop" env XDG_CACHE_HOME="$dir/xdg" "$HOP" cache
claim 'a relative XDG_CACHE_HOME does not count' has "directory: $HOME/.cache/hop" env XDG_CACHE_HOME=xdg "$HOP" cache
claim 'no home, no files' has 'directory: none' env -u HOME "$HOP" cache
claim 'HOP_CACHE=DIR' has "directory: $dir/mine" env HOP_CACHE="$dir/mine" "$HOP" cache
HOP_CACHE=$dir/mine "${run[@]}" >/dev/null
claim 'is made for the user alone' is 700 "$(stat -c %a "$dir/mine")"
claim 'and its files' is 600 "$(stat -c %a "$dir"/mine/*.hopc)"
claim 'HOP_CACHE_SIZE' has 'of 3.0 MiB' env HOP_CACHE_SIZE=3M "$HOP" cache
claim 'a size that is none does not count' has 'of 256.0 MiB' env HOP_CACHE_SIZE=many "$HOP" cache
HOP_CACHE_SIZE=0 "${run[@]}" >/dev/null
claim 'no room keeps nothing' is 0 "$(entries)"

# What is wrong with a cache never shows in a result.
export HOP_CACHE=$dir/bad
"${run[@]}" >/dev/null
for damage in ': >' 'printf x >>' 'head -c 200 /dev/urandom >' 'cp square.hop' 'ln -sf /etc/passwd'; do
    rm -f bad/*.hopc
    "${run[@]}" >/dev/null
    entry=$(echo bad/*.hopc)
    eval "$damage $entry"
    claim "damaged by $damage" has '= 14' "${run[@]}"
    claim "mended after $damage" has '"from": "disk"' "$HOP" explain square.hop --json
done
chmod 777 bad
claim 'a directory that others may write to is not used' has 'others may write to it' "$HOP" cache
claim 'and says so' has 'others may write to it' "$HOP" explain square.hop
claim 'and programs run' has '= 14' "${run[@]}"
claim 'and it is not cleared' fails "$HOP" cache clear
chmod 700 bad
ln -s bad link
for link in link link/ link/. link//./; do
    claim "a link is not followed: $link" has 'is a symbolic link' env HOP_CACHE="$dir/$link" "$HOP" cache
done
rm link
for relative in bad ./bad ../bad 'bad/'; do
    claim "a path from the working directory does not count: $relative" has 'directory: none (in memory only)' env HOP_CACHE="$relative" "$HOP" cache
done
HOP_CACHE=/dev/null claim 'no directory at all' has '= 14' "${run[@]}"
HOP_CACHE=/proc/none claim 'a directory that cannot be made' has '= 14' "${run[@]}"

# Many processes at once on one directory.
export HOP_CACHE=$dir/shared HOP_CACHE_SIZE=20K
for i in 1 2 3 4 5 6 7 8; do
    for option in '' --strict '--without fuse' '--without vector'; do
        # shellcheck disable=SC2086
        "${run[@]}" $option --threads 1
    done >"out$i" 2>&1 &
done
wait
claim 'many processes' is 32 "$(cat out? | grep -cxF '%s: f32[] = 14')"
claim 'nothing is left behind' is 0 "$(find shared -name '.new-*' | wc -l)"

# What other tests claim of compiled programs holds of kept ones: each runs twice, the second time from files.
export HOP_CACHE=$dir/tests
unset HOP_CACHE_SIZE
good() { grep -qE '^[1-9][0-9]* passed, 0 failed$' <<<"$("$@" 2>&1 | tail -n 1)"; }
for round in first second; do
    for test in api capture run; do claim "${test}_test, $round time" good "$(dirname "$HOP")/tests/${test}_test"; done
    for part in effects symbols index while; do claim "corpus/$part, $round time" good "$HOP" test --quick "$root/tests/corpus/$part"; done
done

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
