#!/usr/bin/env bash
# What compiled loops must not do: grow with the number of trips or copy a carry that a branch passes through, read from `hop explain`; take longer for a step the
# more steps there are, read from instruction counts of emitted C.
set -u
export HOP_CACHE="${HOP_CACHE-off}"
cd "$(dirname "$0")/.." || exit 2
HOP=$(realpath "${HOP:-${BUILD:-build}/hop}")
passed=0 failed=0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 2

claim() { # claim TEXT COMMAND…: the command ends well
    local text=$1
    shift
    if "$@"; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "$text"
    fi
}

# Three loops of N trips, one for each kind, as a file.
loops() {
    cat <<HOP
hop 1
fn @by_scan(%x: f64[], %w: f64[]) -> (f64[]) {
  %y = scan {length = $1} carry(%c = %x) over() with(%w) {
    %m = mul(%c, %w)
    %s = sin(%m)
    next(%s)
  }
  return %y
}
fn @by_while(%x: f64[], %w: f64[]) -> (f64[]) {
  %zero = full {value = 0, dims = [], dtype = i64}
  %i, %y = while_loop carry(%i = %zero, %c = %x) cond {
    %n = full {value = $1, dims = [], dtype = i64}
    %p = lt(%i, %n)
    test(%p)
  } body with(%w) {
    %one = full {value = 1, dims = [], dtype = i64}
    %j = add(%i, %one)
    %m = mul(%c, %w)
    %s = sin(%m)
    next(%j, %s)
  }
  return %y
}
fn @by_limit(%x: f64[], %w: f64[]) -> (f64[]) {
  %y = while_loop carry(%c = %x) cond {
    %limit = full {value = $1, dims = [], dtype = f64}
    %p = lt(%c, %limit)
    test(%p)
  } body with(%w) {
    %m = mul(%c, %w)
    %s = sin(%m)
    %e = exp(%s)
    next(%e)
  }
  return %y
}
fn @by_fori(%x: f64[], %w: f64[]) -> (f64[]) {
  %from = full {value = 0, dims = [], dtype = i64}
  %to = full {value = $1, dims = [], dtype = i64}
  %y = fori_loop carry(%c = %x) from(%i = %from) to(%to) with(%w) {
    %m = mul(%c, %w)
    %s = sin(%m)
    next(%s)
  }
  return %y
}
HOP
}
nodes() { grep -o '"nodes": [0-9]*' "$1" | tr '\n' ' '; }
bytes() { grep -o '"code_bytes": [0-9]*' "$1" | grep -o '[0-9]*$'; }
near() { # near A B BYTES: a number of trips may be encoded in a few bytes more, and so may jumps across it
    [ "$1" -gt 0 ] && [ $(($1 - $2)) -le "$3" ] && [ $(($2 - $1)) -le "$3" ]
}

# A branch of a step that hands an array through, and one that computes it anew.
cat >branches.hop <<'HOP'
hop 1
fn @through(%h: f64[2000], %xs: f64[T]) -> (f64[2000]) {
  %y = scan carry(%c = %h) over(%x in %xs) {
    %zero = full {value = 0, dims = [], dtype = f64}
    %p = gt(%x, %zero)
    %n = switch(%p) [(%c) {
      yield(%c)
    }, (%c) {
      %s = sin(%c)
      yield(%s)
    }]
    next(%n)
  }
  return %y
}
fn @always(%h: f64[2000], %xs: f64[T]) -> (f64[2000], f64[]) {
  %zero = full {value = 0, dims = [], dtype = f64}
  %y, %a = scan carry(%c = %h, %a = %zero) over(%x in %xs) {
    %z = full {value = 0, dims = [], dtype = f64}
    %p = gt(%x, %z)
    %n, %b = switch(%p) [(%c, %a) {
      yield(%c, %a)
    }, (%c, %a) {
      %s = sum(%c)
      %b = add(%a, %s)
      yield(%c, %b)
    }]
    next(%n, %b)
  }
  return %y, %a
}
fn @open(%h: f64[2000], %k: i64[]) -> (f64[2000]) {
  %y, %left = while_loop carry(%c = %h, %left = %k) cond {
    %zero = full {value = 0, dims = [], dtype = i64}
    %p = gt(%left, %zero)
    test(%p)
  } body {
    %one = full {value = 1, dims = [], dtype = i64}
    %j = sub(%left, %one)
    %two = full {value = 2, dims = [], dtype = i64}
    %odd = rem(%j, %two)
    %n = switch(%odd) [(%c) {
      %s = cos(%c)
      yield(%s)
    }, (%c) {
      yield(%c)
    }]
    next(%n, %j)
  }
  return %y
}
test @through { h: f64[2000] = random 1  xs = [1, -1, 1]  differences(h) }
test @always { h: f64[2000] = random 1  xs = [1, -1, 1]  differences(h) }
test @open { h: f64[2000] = random 1  k = 3  differences(h) }
HOP
no_copy_in_loop() { # the loop program copies outside of its loops only, and once: to a result that is an argument as it was
    "$HOP" explain branches.hop --fn "$1" --loops >out || return 1
    grep -q 'for (' out && ! grep -qE '^    +copy\(' out && [ "$(grep -cE '^ *copy\(' out)" -le 1 ]
}

if "$HOP" explain branches.hop --fn through >/dev/null 2>&1; then # else there is no compiler
    for n in 10 1000 1000000; do loops $n >loops$n.hop; done
    for f in by_scan by_while by_limit by_fori; do
        for how in '' --grad --jvp; do
            for n in 10 1000 1000000; do "$HOP" explain loops$n.hop --fn $f $how --json >$n.json; done
            for n in 1000 1000000; do
                claim "@$f $how: other nodes with 10 trips than with $n" [ "$(nodes 10.json)" = "$(nodes $n.json)" ]
                claim "@$f $how: $(bytes 10.json) bytes of code with 10 trips, $(bytes $n.json) with $n" near "$(bytes 10.json)" "$(bytes $n.json)" 32
            done
            claim "@$f $how: $(bytes 1000.json) bytes of code with 1000 trips, $(bytes 1000000.json) with 1000000" near "$(bytes 1000.json)" "$(bytes 1000000.json)" 4
        done
    done
    for f in through always open; do claim "@$f: a carry that a branch passes through is copied in the loop" no_copy_in_loop $f; done
fi

# Gradients of loops that stack a row a trip, one scanning and one open with a tape that grows: instructions a step between 1,000 and 10,000 steps and between
# 10,000 and 100,000.
cat >rows.hop <<'HOP'
hop 1
fn @open(%x: f64[], %n: f64[]) -> (f64[]) {
  %last, %at, %k, %ys: f64[?k] = while_loop carry(%c = %x, %i = %n) cond {
    %zero = full {value = 0, dims = [], dtype = f64}
    %p = gt(%i, %zero)
    test(%p)
  } body with(%x) {
    %one = full {value = 1, dims = [], dtype = f64}
    %j = sub(%i, %one)
    %s = mul(%c, %c)
    %d = sub(%s, %x)
    next(%d, %j) stack(%d)
  }
  %q = mul(%ys, %ys)
  %s = sum(%q)
  return %s
}
fn @scanned[dim T](%x: f64[], %n: f64[]) -> (f64[]) {
  %last, %ys = scan {length = T} carry(%c = %x) over() with(%x) {
    %s = mul(%c, %c)
    %d = sub(%s, %x)
    next(%d) stack(%d)
  }
  %q = mul(%ys, %ys)
  %s = sum(%q)
  return %s
}
HOP
cat >count.c <<'C'
#include "open.h"
#include "scanned.h"
#include <stdlib.h>
static void *resize(void *user, void *block, size_t bytes)
{
    (void)user;
    if (bytes) return realloc(block, bytes);
    free(block);
    return NULL;
}
int main(int argc, char **argv)
{
    struct hop_c_context context = { .resize = resize };
    long n = atol(argv[2]);
    double slope = 0;
    void *workspace = malloc(scanned_grad_workspace(n) + 1);
    int status = argc != 3 || (*argv[1] == 'o' ? open_grad(0.3, (double)n, &slope, &context) : scanned_grad(n, 0.3, 0, &slope, workspace));
    free(workspace);
    return status || slope == 0;
}
C
steps() { valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null ./count "$1" "$2" 2>&1 | sed -n 's/.*I *refs: *//p' | tr -d ,; }
level() { # level FUNCTION: a step costs the same, within a tenth: how often a tape has doubled depends on where it ends
    local few more many
    few=$(steps "$1" 1000) more=$(steps "$1" 10000) many=$(steps "$1" 100000)
    [ -n "$few" ] && [ -n "$many" ] && [ $(((more - few) * 11)) -ge $((many - more)) ] && [ $(((more - few) * 9)) -le $((many - more)) ]
}
if command -v valgrind >/dev/null; then
    for f in open scanned; do claim "@$f: C is not emitted" "$HOP" emit c rows.hop --fn $f --grad --wrt x -o $f.c; done
    claim 'emitted C does not compile' "${CC:-cc}" -O2 -w -o count count.c open.c scanned.c -lm
    for f in open scanned; do claim "@$f: instructions a step differ between 10,000 and 100,000 steps" level $f; done
fi
claim 'branches that pass a carry through give other numbers' "$HOP" test --quick branches.hop >/dev/null
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
