#!/usr/bin/env bash
# A program that runs with rights which its caller does not have loads no code that the caller names: no back end, no kept programs, no compiler. A copy of the
# command that belongs to another user and takes on that user's rights is run by a third one. That needs root; without, the claims are NOT RUN. Where a back end
# is looked for does not depend on how the command is called.
set -u
cd "$(dirname "$0")/.." || exit 2
BUILD=$(realpath "${BUILD:-build}")
passed=0 failed=0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
chmod 755 "$dir"
claim() { # claim WHAT COMMAND…
    local what=$1
    shift
    if "$@" >"$dir/log" 2>&1; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "secure_test.sh: $what"
        tail -n 12 "$dir/log"
    fi
}
end() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
    exit
}
is() { [ "$1" = "$2" ] || { printf 'expected %s, found %s\n' "$1" "$2"; return 1; }; }

if [ ! -e "$BUILD/libhop_llvm.so" ] || ! command -v "${CC:-cc}" >/dev/null; then
    echo 'NOT RUN: loading of the back end: there is no back end here, or no C compiler'
    end
fi
cat >"$dir/square.hop" <<'HOP'
hop 1
fn @main(%x: f32[3]) -> (f32[]) {
  %y = mul(%x, %x)
  %s = sum(%y)
  return %s
}
HOP
# A library that says in a file that it was loaded, and is no back end.
cat >"$dir/evil.c" <<'C'
#include <stdio.h>
#include <stdlib.h>
__attribute__((constructor)) static void loaded(void)
{
    FILE *f = fopen(MARK, "w");
    if (f) fclose(f);
}
C
mkdir -m 1777 "$dir/marks"
"${CC:-cc}" -shared -fPIC -DMARK="\"$dir/marks/loaded\"" -o "$dir/evil.so" "$dir/evil.c" || exit 2
chmod 644 "$dir/evil.so" "$dir/square.hop"
marked() { local there=no; [ -e "$dir/marks/loaded" ] && there=yes; rm -f "$dir/marks/loaded"; echo $there; }

# ---- how it is called does not matter ----
mkdir "$dir/plain" "$dir/here" "$dir/here/bin"
cp "$BUILD/hop" "$BUILD/libhop_llvm.so" "$dir/plain"
cp "$dir/evil.so" "$dir/here/libhop_llvm.so"
run=(run "$dir/square.hop" --in 'x=[1, 2, 3]')
answers() { "$@" 2>&1 | grep -qx '%s: f32\[\] = 14'; }
export HOP_CACHE=off
cd "$dir/here" || exit 2
claim 'argv[0] in the working directory' answers bash -c 'exec -a ./hop "$@"' - "$dir/plain/hop" "${run[@]}"
claim 'argv[0] without a slash' answers bash -c 'exec -a hop "$@"' - "$dir/plain/hop" "${run[@]}"
claim 'argv[0] of another directory' answers bash -c 'exec -a bin/hop "$@"' - "$dir/plain/hop" "${run[@]}"
claim 'nothing of the working directory was loaded' is no "$(marked)"
for named in libhop_llvm.so ./libhop_llvm.so '' ../evil.so; do
    claim "HOP_BACKEND=$named is not a path from the root" answers env HOP_BACKEND="$named" "$dir/plain/hop" "${run[@]}"
done
claim 'and was not loaded' is no "$(marked)"
HOP_BACKEND=$dir/evil.so "$dir/plain/hop" "${run[@]}" >/dev/null 2>&1
claim 'HOP_BACKEND is loaded where caller and rights are one' is yes "$(marked)"

# ---- rights of others ----
if [ "$(id -u)" -ne 0 ] || ! command -v setpriv >/dev/null; then
    echo 'NOT RUN: a command with rights that its caller does not have: this needs root and setpriv'
    end
fi
owner=4101 caller=4102
mkdir "$dir/tool"
cp "$BUILD/hop" "$dir/tool/hop"
chown $owner:$owner "$dir/tool/hop"
chmod 4755 "$dir/tool/hop"
as_caller() { setpriv --reuid=$caller --regid=$caller --clear-groups "$@"; }
cat >"$dir/secure.c" <<'C'
#include <sys/auxv.h>
int main(void) { return !getauxval(AT_SECURE); }
C
"${CC:-cc}" -o "$dir/tool/secure" "$dir/secure.c" && chown $owner:$owner "$dir/tool/secure" && chmod 4755 "$dir/tool/secure"
if ! as_caller "$dir/tool/secure"; then
    echo 'NOT RUN: a command with rights that its caller does not have: this file system does not give them'
    end
fi
mkdir -m 777 "$dir/cache"
claim 'without a back end it interprets' answers as_caller env HOP_BACKEND="$dir/evil.so" "$dir/tool/hop" "${run[@]}"
claim 'HOP_BACKEND does not count' is no "$(marked)"
cp "$BUILD/libhop_llvm.so" "$dir/tool"
generates() { "$@" 2>&1 | grep -q 'generate code'; }
claim 'it compiles with its own back end' generates as_caller env HOP_BACKEND="$dir/evil.so" "$dir/tool/hop" explain "$dir/square.hop"
claim 'and with no other' is no "$(marked)"
as_caller env HOP_CACHE="$dir/cache" HOME="$dir/cache" XDG_CACHE_HOME="$dir/cache" "$dir/tool/hop" "${run[@]}" >/dev/null
claim 'no files are kept or read' is 0 "$(find "$dir/cache" -type f | wc -l)"
as_caller env HOP_CACHE="$dir/cache" "$dir/tool/hop" cache >"$dir/said"
claim 'and it says so' grep -q 'directory: none (in memory only)' "$dir/said"
# the same command beside a back end that its caller may change
mkdir -m 755 "$dir/theirs"
cp -p "$dir/tool/hop" "$dir/theirs/hop"
chown $owner:$owner "$dir/theirs/hop"
chmod 4755 "$dir/theirs/hop"
cp "$dir/evil.so" "$dir/theirs/libhop_llvm.so"
chown $caller "$dir/theirs/libhop_llvm.so"
claim 'a back end that others may change is not loaded' answers as_caller "$dir/theirs/hop" "${run[@]}"
chown 0 "$dir/theirs/libhop_llvm.so"
chown $caller "$dir/theirs"
claim 'nor one in a directory that others may change' answers as_caller "$dir/theirs/hop" "${run[@]}"
claim 'neither was' is no "$(marked)"
# no compiler: CC and PATH are the caller's
printf '#!/bin/sh\n: >%s/marks/loaded\n' "$dir" >"$dir/cc"
chmod 755 "$dir/cc"
as_caller env CC="$dir/cc" PATH="$dir:$PATH" "$dir/tool/hop" emit so "$dir/square.hop" -o "$dir/marks/square.so" >"$dir/said" 2>&1
claim 'no compiler is run' is no "$(marked)"
claim 'and it says why' grep -q 'rights that the caller does not have' "$dir/said"
end
