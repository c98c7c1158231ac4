#!/usr/bin/env bash
# What multiplies, as the command sees it: hop itself where it has kernels for the processor, without loading anything; the library that HOP_BLAS names, by explain; and a library that is older than every processor, whose
# choice of a kernel is corrected: a small stand-in that takes a kernel of 2004 unless OPENBLAS_CORETYPE says otherwise.
set -u
export HOP_CACHE="${HOP_CACHE-off}"
unset OPENBLAS_CORETYPE # each claim says what the user has set
cd "$(dirname "$0")/.." || exit 2
: "${BUILD:=build}" "${HOP:=$BUILD/hop}"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0
claim() { # claim NAME COMMAND…
    local name=$1
    shift
    if "$@"; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "$name"
    fi
}
says() { # says PATTERN COMMAND…: its output has a line like that
    local pattern=$1 out
    shift
    out=$("$@" 2>&1)
    grep -qE -e "$pattern" <<<"$out" || { echo "expected $pattern in:" && tail -n 12 <<<"$out" && false; }
}
silent() { # silent PATTERN COMMAND…: it has none
    local pattern=$1 out
    shift
    out=$("$@" 2>&1)
    ! grep -qE -e "$pattern" <<<"$out"
}

cat >"$dir/product.hop" <<'END'
hop 1
fn @main(%x: f32[40, 40]) -> (f32[40, 40]) {
  %y = matmul(%x, %x)
  return %y
}
END
cat >"$dir/sum.hop" <<'END'
hop 1
fn @main(%x: f32[3]) -> (f32[]) {
  %s = sum(%x)
  return %s
}
END
cat >"$dir/old.c" <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static char core[64] = "Prescott";
__attribute__((constructor)) static void choose(void)
{
    const char *wish = getenv("OPENBLAS_CORETYPE"), *threads = getenv("OPENBLAS_NUM_THREADS");
    if (wish) snprintf(core, sizeof core, "%s", wish);
    fprintf(stderr, "loaded with %s, %s thread\n", core, threads ? threads : "every");
}
char *openblas_get_corename(void) { return core; }
char *openblas_get_config(void) { return "OpenBLAS 0.0.1 OLD"; }
void openblas_set_num_threads(int n) { fprintf(stderr, "threads %d\n", n); }
void cblas_sgemm(void) {}
void cblas_dgemm(void) {}
void cblas_sgemv(void) {}
void cblas_dgemv(void) {}
END
claim 'the stand-in is built' "${CC:-cc}" -shared -fPIC -o "$dir/old.so" "$dir/old.c"
claim 'nothing is loaded without a product' silent openblas env LD_DEBUG=libs "$HOP" run "$dir/sum.hop" --in 'x=[1, 2, 3]'
claim 'nor named' silent '^products' "$HOP" explain "$dir/sum.hop"
claim 'explain names the kernel' says '^products: (OpenBLAS [^ ]+, kernel [A-Za-z]+|hop.s own kernels)' "$HOP" explain "$dir/product.hop"
if grep -qw avx2 /proc/cpuinfo; then
    claim 'hop has kernels for this processor' says "^products: hop's own kernels for AVX" "$HOP" explain "$dir/product.hop"
    claim 'and loads no library' silent openblas env LD_DEBUG=libs "$HOP" run "$dir/product.hop" --in 'x=random(0)'
fi
claim 'as JSON, too' says '"products": \["' "$HOP" explain --json "$dir/product.hop"
claim 'hop multiplies itself' says "^products: hop's own kernels.*: HOP_BLAS is off" env HOP_BLAS=off "$HOP" explain "$dir/product.hop"
claim 'what the user has set is respected' says '^products: OpenBLAS 0.0.1, kernel Penryn' env OPENBLAS_CORETYPE=Penryn HOP_BLAS="$dir/old.so" "$HOP" explain "$dir/product.hop"
claim 'and it is loaded once' says '^1$' env OPENBLAS_CORETYPE=Penryn HOP_BLAS="$dir/old.so" sh -c "'$HOP' explain '$dir/product.hop' 2>&1 | grep -c '^loaded'"
if grep -qw avx2 /proc/cpuinfo; then
    claim 'a kernel that fits is chosen' says '^products: OpenBLAS 0.0.1, kernel (SkylakeX|Haswell|Zen)$' env HOP_BLAS="$dir/old.so" "$HOP" explain "$dir/product.hop"
    claim 'by loading it again' says '^loaded with (SkylakeX|Haswell|Zen), 1 thread' env HOP_BLAS="$dir/old.so" "$HOP" explain "$dir/product.hop"
    claim 'not when somebody else has loaded it' says '^products: .*kernel Prescott, .*; loaded by another' env LD_PRELOAD="$dir/old.so" HOP_BLAS="$dir/old.so" "$HOP" explain "$dir/product.hop"
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
