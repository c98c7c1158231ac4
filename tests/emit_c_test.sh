#!/usr/bin/env bash
# Emitted C: every test of the corpus through it, bit for bit; the example without hop; growing arrays with an allocator and with fixed room; failed checks and
# prints; large products; objects and libraries; what happens without a compiler. Everything compiles without a warning.
set -u
export HOP_CACHE="${HOP_CACHE-off}"
cd "$(dirname "$0")/.." || exit 2
root=$PWD
HOP=$(realpath "${HOP:-${BUILD:-build}/hop}")
if ! command -v "${CC:-cc}" >/dev/null; then
    echo 'there is no C compiler'
    echo '0 passed, 0 failed'
    exit 0
fi
passed=0 failed=0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# Default numbers of every other test, unless there are hours.
"$HOP" test --c $([ -n "${HOP_TEST_SOAK-}" ] || echo --quick) --operators "${BUILD:-build}/tests/operators.so" tests/corpus examples >"$dir/corpus" 2>&1
line=$(tail -n 1 "$dir/corpus")
case $line in
*' passed, '*' failed')
    passed=${line%% passed*}
    failed=${line#*, }
    failed=${failed%% failed}
    ;;
*) failed=1 ;;
esac
[ "$failed" -eq 0 ] || head -n 60 "$dir/corpus"

cd "$dir" || exit 2
: >log
claim() { # claim WHAT COMMAND…
    local what=$1
    shift
    if "$@" >log 2>&1; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "emitted C: $what"
        tail -n 12 log
    fi
}
# says CODE PATTERN COMMAND…: the exit code, and a regular expression somewhere in what it prints
says() {
    local code=$1 pattern=$2
    shift 2
    "$@" >said 2>&1
    [ $? -eq "$code" ] && grep -Eq -- "$pattern" said && return 0
    cat said
    return 1
}
is_one() { [ "$(nm "$1" | grep -c ' T ')" -eq 1 ] || { nm "$1"; return 1; }; } # one name is defined
is_none() { [ -z "$1" ] || { echo "$1"; return 1; }; }
strict_c() { "${CC:-cc}" -std=c99 -pedantic -Wall -Wextra -Werror -ffp-contract=off -O2 -I. "$@"; }

# ---- what is computed once: a function of its own, whose results the caller keeps ----
cat >once.hop <<'HOP'
hop 1
fn @once(%w: f64[n, 2], %b: f64[2], %x: f64[n]) -> (f64[2]) {
  %u = region {kind = "once"} with(%v = %w) {
    %r = mul(%v, %v)
    yield(%r)
  }
  %c = region {kind = "once"} with(%v = %b) {
    %r = neg(%v)
    yield(%r)
  }
  %p = matmul(%x, %u)
  %y = add(%p, %c)
  return %y
}
HOP
cat >once_main.c <<'C'
#include "once.h"
int main(void)
{
    double w[4] = { 1, 2, 3, 4 }, b[2] = { 1, -1 }, x[2] = { 1, 10 }, u[4], c[2], y[2];
    char workspace[256];
    (void)workspace;
    if (once_init(2, w, b, u, c)) return 1;
    w[0] = 100; /* nobody looks at it again */
    if (once(2, w, b, x, u, c, y) || y[0] != 90 || y[1] != 165) return 2;
    x[1] = 0;
    if (once(2, w, b, x, u, c, y) || y[0] != 0 || y[1] != 5) return 3;
    w[0] = 2;
    if (once_init(2, w, b, u, c) || once(2, w, b, x, u, c, y) || y[0] != 3) return 4;
    return 0;
}
C
claim 'once: emitted' "$HOP" emit c once.hop --constant w,b --strict -o once.c
claim 'once: compiles' strict_c once.c once_main.c -o once -lm
claim 'once: kept by the caller' ./once
claim 'once: a parameter that is not marked' says 2 'once.hop:3:3: region: once: .*%w is not marked constant' \
    "$HOP" emit c once.hop --constant b -o once.c

# ---- parameters that are updated ----
cat >step.hop <<'HOP'
hop 1
fn @step(%w: mut f32[N], %x: f32[N], %n: mut i64[], %seen: mut f32[N]) -> (new %w, f32[], new %n) {
  %y = mul(%w, %x)
  %s = sum(%y)
  %one = full {value = 1, dims = [], dtype = i64}
  %k = add(%n, %one)
  return %y, %s, %k
}
HOP
cat >use_step.c <<'C'
#include "step.h"
#include <stdio.h>
int main(void)
{
    float w[2] = { 1, 2 }, s;
    const float x[2] = { 3, 4 };
    int64_t n = 6;
    for (int i = 0; i < 2; i++)
        if (step(2, w, x, &n, x, &s)) return 1;
    printf("%g %g %g %d\n", w[0], w[1], s, (int)n);
    return 0;
}
C
claim 'a function that updates is emitted' "$HOP" emit c step.hop -o step.c
claim 'its header says so' grep -q 'int step(int64_t N, float \*w, const float \*x, int64_t \*n, const float \*seen, float \*s);' step.h
claim 'it compiles' strict_c use_step.c step.c -lm -o use_step
claim 'it updates' says 0 '^9 32 41 8$' ./use_step

# ---- the example ----
claim 'the example is emitted' "$HOP" emit c "$root/examples/emitted/rnn.hop" --grad --value --wrt w,u -o rnn.c
claim 'the example compiles' strict_c "$root/examples/emitted/main.c" rnn.c -lm -o rnn
claim 'the example learns' says 0 '^loss 0\.[0-9]+, then 0\.000' ./rnn
if command -v c++ >/dev/null; then
    printf '#include "rnn.h"\nint main() { return loss_grad_workspace(3) == 0; }\n' >use.cpp
    claim 'the header is C++ too' c++ -Wall -Wextra -Werror -I. -c use.cpp -o use.o
fi
if command -v clang >/dev/null; then claim 'clang is content' clang -std=c99 -pedantic -Wall -Wextra -Werror -O2 -c rnn.c -o rnn_clang.o; fi

# ---- arrays of data-dependent size ----
cat >orbit.hop <<'END'
hop 1
fn @orbit(%x: f64[], %c: f64[]) -> (f64[], f64[?n]) {
  %last, %n, %xs: f64[?n] = while_loop carry(%v = %x) cond {
    %abs = abs(%v)
    %four = full {value = 4, dims = [], dtype = f64}
    %lt = lt(%abs, %four)
    test(%lt)
  } body with(%c) {
    %half = full {value = 0.5, dims = [], dtype = f64}
    %mul = mul(%half, %v)
    %mul2 = mul(%mul, %v)
    %add = add(%mul2, %c)
    next(%add) stack(%v)
  }
  return %last, %xs
}
END
cat >orbit_main.c <<'END'
#include "orbit.h"
#include <stdio.h>
#include <stdlib.h>
static int live;
static void *resize(void *user, void *block, size_t bytes)
{
    (void)user;
    live += !block - !bytes;
    if (bytes) return realloc(block, bytes);
    free(block);
    return NULL;
}
int main(void)
{
    struct hop_c_context context = { 0 };
    double last, *xs = NULL;
    int64_t n = -1;
    context.resize = resize;
    if (orbit(1, 0.75, &last, &xs, &n, &context) != HOP_C_OK || n != 5 || xs[1] != 1.25 || live != 1) return 1;
    resize(NULL, xs, 0);
    if (orbit(1, 0.75, &last, &xs, &n, NULL) != HOP_C_NOMEM) return 2;
    return live;
}
END
claim 'a growing result is emitted' "$HOP" emit c orbit.hop --strict -o orbit.c
claim 'a growing result compiles' strict_c orbit_main.c orbit.c -lm -o orbit_run
claim 'a growing result comes from the allocator, and nothing leaks' ./orbit_run
cat >room_main.c <<'END'
#include "room.h"
int main(void)
{
    double last, xs[6];
    int64_t n = -1;
    if (orbit(1, 0.75, &last, xs, &n) != HOP_C_OK || n != 5 || xs[4] < 2.59 || xs[4] > 2.6) return 1;
    return orbit(1, 0.25, &last, xs, &n) != HOP_C_CAPACITY; /* converges: never leaves */
}
END
claim 'fixed room is emitted' "$HOP" emit c orbit.hop --capacity 6 -o room.c
claim 'fixed room compiles' strict_c room_main.c room.c -lm -o room_run
claim 'fixed room is enough or a status' ./room_run
cat >tape_main.c <<'END'
#include "tape.h"
int main(void)
{
    double d_x = 0, d_c = 0;
    if (final_grad(1, 0.75, &d_x, &d_c) != HOP_C_OK || d_x < 9.55 || d_x > 9.57) return 1; /* the product of the orbit */
    return final_grad(1, 0.25, &d_x, &d_c) != HOP_C_CAPACITY;
}
END
sed 's/@orbit/@final/; s/-> (f64\[\], f64\[?n\])/-> (f64[])/; s/return %last, %xs/return %last/; s/ stack(%v)//; s/%last, %n, %xs: f64\[?n\] = /%last = /' orbit.hop >final.hop
claim 'a gradient with a tape is emitted' "$HOP" emit c final.hop --grad --capacity 64 -o tape.c
claim 'a gradient with a tape compiles' strict_c tape_main.c tape.c -lm -o tape_run
claim 'a tape has fixed room' ./tape_run

# ---- checks and prints ----
cat >told.hop <<'END'
hop 1
fn @told(%x: f32[3]) -> (f32[]) {
  %zero = full {value = 0, dims = [], dtype = f32}
  %s = sum(%x)
  %good = gt(%s, %zero)
  check {message = "the sum is positive"} (%good, %x)
  print {format = "the sum is {}"} (%s)
  return %s
}
END
cat >told_main.c <<'END'
#include "told.h"
#include <stdio.h>
#include <string.h>
static void print(void *user, const char *format, int n, const struct hop_c_value *values)
{
    *(int *)user += n == 1 && values->dtype == HOP_C_F32 && values->rank == 0 && *(const float *)values->data == 6 && !strcmp(format, "the sum is {}");
}
static void fails(void *user, const char *place, const char *message, int n, const struct hop_c_value *values)
{
    *(int *)user += n == 1 && values->rank == 1 && values->dims[0] == 3 && ((const float *)values->data)[2] == -3 && strstr(place, "told.hop:") && !strcmp(message, "the sum is positive");
}
int main(void)
{
    const float good[] = { 1, 2, 3 }, bad[] = { 1, 0, -3 };
    int seen = 0;
    float s;
    struct hop_c_context context = { 0 };
    context.user = &seen;
    context.print = print;
    context.failed = fails;
    if (told(good, &s, &context) != HOP_C_OK || s != 6 || seen != 1) return 1;
    if (told(bad, &s, &context) != HOP_C_CHECK || seen != 2 || strcmp(context.message, "the sum is positive")) return 2;
    return told(good, &s, NULL) != HOP_C_OK || told(bad, &s, NULL) != HOP_C_CHECK;
}
END
claim 'a check and a print are emitted' "$HOP" emit c told.hop -o told.c
claim 'a check and a print compile' strict_c told_main.c told.c -lm -o told_run
claim 'a check and a print reach the callbacks' ./told_run

# ---- callbacks ----
cat >heard.hop <<'END'
hop 1
fn @heard(%x: f32[3], %p: bool[3]) -> (f32[]) {
  callback {name = "each \"x\"", lanes = 1, masked} (%p, %x)
  %s = sum(%x)
  callback {name = "all"} (%x, %s)
  callback {name = "end"} ()
  return %s
}
END
cat >heard_main.c <<'END'
#include "heard.h"
#include <string.h>
struct heard { int each, all, end, stop; };
static int callback(void *user, const char *name, int n, const struct hop_c_value *values)
{
    struct heard *h = user;
    h->each += !strcmp(name, "each \"x\"") && n == 1 && values->dtype == HOP_C_F32 && values->rank == 0 && *(const float *)values->data > 1;
    h->all += !strcmp(name, "all") && n == 2 && values[0].rank == 1 && values[0].dims[0] == 3 && ((const float *)values[0].data)[2] == 3 && *(const float *)values[1].data == 6;
    h->end += !strcmp(name, "end") && n == 0;
    return h->stop && h->all;
}
int main(void)
{
    const float x[] = { 1, 2, 3 };
    const unsigned char p[] = { 0, 1, 1 };
    struct heard h = { 0, 0, 0, 0 }, again = { 0, 0, 0, 1 };
    float s;
    struct hop_c_context context = { 0 };
    context.user = &h;
    context.callback = callback;
    if (heard(x, p, &s, &context) != HOP_C_OK || s != 6 || h.each != 2 || h.all != 1 || h.end != 1) return 1;
    context.user = &again;
    if (heard(x, p, &s, &context) != HOP_C_CALLBACK || again.each != 2 || again.all != 1 || again.end != 0) return 2;
    if (strcmp(context.message, "all") || !strstr(context.place, "heard.hop:5")) return 3;
    context.callback = 0;
    return heard(x, p, &s, &context) != HOP_C_CALLBACK || heard(x, p, &s, 0) != HOP_C_CALLBACK;
}
END
claim 'callbacks are emitted' "$HOP" emit c heard.hop -o heard.c
claim 'callbacks compile' strict_c heard_main.c heard.c -lm -o heard_run
claim 'callbacks reach the host, which may end the run' ./heard_run

# ---- large products, sizes ----
cat >layer.hop <<'END'
hop 1
fn @layer[N in 1..1000](%x: f32[N, 130], %w: f32[130, 67]) -> (f32[N, 67], f32[67, 130]) {
  %y = matmul(%x, %w)
  %t = permute {order = [1, 0]} (%y)
  %z = matmul(%t, %x)
  return %y, %z
}
END
cat >layer_main.c <<'END'
#include "layer.h"
#include <math.h>
enum { N = 70, K = 130, M = 67 };
static float x[N * K], w[K * M], y[N * M], z[M * K];
int main(void)
{
    for (int i = 0; i < N * K; i++) x[i] = (float)(i % 17 - 8) / 8;
    for (int i = 0; i < K * M; i++) w[i] = (float)(i % 13 - 6) / 8;
    if (layer(0, x, w, y, z) != HOP_C_SIZE || layer(N, x, w, y, z) != HOP_C_OK) return 1;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < M; j++) {
            double sum = 0;
            for (int p = 0; p < K; p++) sum += (double)x[i * K + p] * w[p * M + j];
            if (fabs(sum - y[i * M + j]) > 1e-3) return 2;
        }
    for (int i = 0; i < M; i++)
        for (int j = 0; j < K; j++) {
            double sum = 0;
            for (int p = 0; p < N; p++) sum += (double)y[p * M + i] * x[p * K + j];
            if (fabs(sum - z[i * K + j]) > 1e-3 * (1 + fabs(sum))) return 3;
        }
    return 0;
}
END
claim 'products are emitted' "$HOP" emit c layer.hop -o layer.c
claim 'they are products of the unit, not loops' grep -q 'hop_gemm_f32(' layer.c
claim 'products compile' strict_c layer_main.c layer.c -lm -o layer_run
claim 'products are right and sizes are checked' ./layer_run
claim 'products compile in the vector types of this machine' strict_c -march=native layer_main.c layer.c -lm -o layer_run
claim 'products in vector types are right' ./layer_run
claim 'products compile as plain C99' strict_c -DHOP_PLAIN_C layer_main.c layer.c -lm -o layer_run
claim 'plain products are right' ./layer_run
claim 'plain products are emitted' "$HOP" emit c --plain layer.hop -o layer.c
claim 'and compile' strict_c layer_main.c layer.c -lm -o layer_run
claim 'and are right' ./layer_run

# ---- plain C99: the text without vector types, for every compiler that is here, gives the same bits ----
cat >plain_main.c <<'END'
#include "plain.h"
#include <stdio.h>
enum { N = 70 };
static float x[N * 3], y[N], z[N * 3];
int main(void)
{
    float least = 0;
    int64_t place = 0;
    for (int i = 0; i < N * 3; i++) x[i] = (float)(i * 37 % 101 - 50) / 16;
    if (plain(x, y, z, &least, &place) != HOP_C_OK) return 1;
    for (int i = 0; i < N; i++) printf("%a\n", (double)y[i]);
    for (int i = 0; i < N * 3; i++) printf("%a\n", (double)z[i]);
    printf("%a %lld\n", (double)least, (long long)place);
    return 0;
}
END
cat >plain.hop <<'END'
hop 1
fn @plain(%x: f32[70, 3]) -> (f32[70], f32[70, 3], f32[], i64[]) {
  %s = sum {dims = [1]} (%x)
  %e = sin(%s)
  %zero = full {value = 0.0, dims = [], dtype = f32}
  %down = broadcast {dims = [70], at = []} (%zero)
  %low = lt(%e, %down)
  %y = select(%low, %e, %s)
  %column = broadcast {dims = [70, 3], at = [0]} (%y)
  %z = mul(%column, %x)
  %least = reduce_min(%z)
  %place = argmax {dim = 0} (%y)
  return %y, %z, %least, %place
}
END
claim 'plain C99 is emitted' "$HOP" emit c --strict --plain plain.hop -o plain.c
claim 'it has no word beyond C99' is_none "$(grep -En '__attribute__|__builtin|vector_size|HOP_VECTOR|HOP_PLAIN_C|__GNUC__ >=' plain.c)"
claim 'vector types are emitted otherwise' "$HOP" emit c --strict plain.hop -o vectors.c
claim 'and make the text longer' [ "$(wc -c <vectors.c)" -gt "$(wc -c <plain.c)" ]
sed 's/"plain.h"/"vectors.h"/' plain_main.c >vectors_main.c
claim 'they compile' strict_c -march=native vectors_main.c vectors.c -lm -o vectors_run
claim 'and run' says 0 . ./vectors_run
cp said expected
for compiler in gcc clang clang-19; do
    command -v $compiler >/dev/null || continue
    for level in -O0 -O3 '-O3 -march=native'; do
        claim "$compiler $level compiles plain C99" $compiler -std=c99 -pedantic -Wall -Wextra -Werror -ffp-contract=off $level -I. plain_main.c plain.c -lm -o plain_run
        claim "$compiler $level: it runs" says 0 . ./plain_run
        claim "$compiler $level: it gives the bits of vector types" cmp said expected
    done
done
claim 'obj and so may be plain' "$HOP" emit obj --plain plain.hop -o plain.o

# ---- functions that call each other many times over: parts of the file, called, with fixed memory and with a workspace ----
for rows in 8 T; do
    {
        printf 'hop 1\nfn @f0(%%x: f32[%s]) -> (f32[%s]) {\n  %%a = sin(%%x)\n  %%b = mul(%%a, %%x)\n  return %%b\n}\n' $rows $rows
        for i in {1..13}; do
            printf 'fn @f%d(%%x: f32[%s]) -> (f32[%s]) {\n  %%a = invoke_subgraph @f%d(%%x)\n  %%b = invoke_subgraph @f%d(%%a)\n  return %%b\n}\n' "$i" $rows $rows $((i - 1)) $((i - 1))
        done
    } >"twice_$rows.hop"
    claim "parts are emitted, $rows rows" "$HOP" emit c "twice_$rows.hop" --fn f13 --strict -o "twice_$rows.c"
    claim "they are functions, $rows rows" grep -q 'hop_part0_f[0-9]*_of_f13(' "twice_$rows.c"
done
cat >twice_main.c <<'END'
#ifdef SIZED
#include "twice_T.h"
#else
#include "twice_8.h"
#endif
#include <stdio.h>
#include <stdlib.h>
int main(void)
{
    const float x[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    float y[8];
#ifdef SIZED
    void *workspace = malloc(f13_workspace(8));
    if (f13(8, x, y, workspace)) return 1;
    free(workspace);
#else
    if (f13(x, y)) return 1;
#endif
    for (int i = 0; i < 8; i++) printf("%.9g\n", (double)y[i]);
    return 0;
}
END
claim 'parts compile' strict_c twice_main.c twice_8.c -lm -o twice_8
claim 'parts with a workspace compile' strict_c -DSIZED twice_main.c twice_T.c -lm -o twice_T
claim 'parts run' ./twice_8
./twice_8 >twice_8.out
./twice_T >twice_T.out
claim 'both give the same bits' cmp twice_8.out twice_T.out
"$HOP" run twice_8.hop --fn f13 --interpret --in 'x=[1, 2, 3, 4, 5, 6, 7, 8]' | sed 's/.*= \[//; s/\]//; s/, /\n/g' >twice.right
claim 'which are those of the interpreter' awk 'NR == FNR { right[FNR] = $1; next } $1 - right[FNR] > 1e-6 || right[FNR] - $1 > 1e-6 { exit 1 }' twice.right twice_8.out

# ---- names that C has other plans for ----
cat >names.hop <<'END'
hop 1
fn @double[int, v_1 in 2..9](%float: f32[int], %v_3: f32[v_1], %hop_max_f32: f32[], %INT64_MAX: f64[], %at: bool[], %s_0: i32[int]) -> (f32[int], f32[int], f64[], bool[], i32[]) {
  %b = broadcast {dims = [int], at = []} (%hop_max_f32)
  %context = max(%float, %b)
  %x = neg(%INT64_MAX)
  %q = not(%at)
  %z = sum(%s_0)
  return %context, %context, %x, %q, %z
}
END
claim 'strange names are emitted' "$HOP" emit c names.hop -o names.c
claim 'strange names compile' strict_c -c names.c -o names.o

# Whatever a function, its parameters, results, messages and prints are called, the text has no C of theirs: `evil` is no word of the program, and all compiles.
hostile=('*/ int evil = 1; /*' '\n*/ int evil = 1; /*' '*\\\n/ int evil; /*' '??/\n*/ int evil; /*' '*??/\n/int evil;/*' '*/x evil/*' '\\' 'a\\' '??/' '"; int evil; "'
    "'; int evil; '" '#include <evil>' '\n#define double evil\n' '%s%n%s' '\x01\x02\xff\xfe' '/*' '*/' '//' '/' '*' 'é ü 漢字' ' ' '' '0' '9lives' '_' '__x' '_X' 'a b' 'a.b' 'a-b'
    '$(x evil)' '`x evil`' 'x; evil' '|x evil' '&&x evil' '-x evil' '@x evil' 'sin' 'main' 'int' 'malloc' 'free' 'printf' 'read' 'write' 'exit' 'abort' 'errno' 'environ' 'stdin' 'y0' 'j1'
    'memcpy' 'sqrt' 'fma' 'NULL' 'NAN' 'INFINITY' 'HUGE_VAL' 'M_PI' 'isnan' 'signbit' 'offsetof' 'linux' 'unix' 'restrict' 'inline' '_Bool' 'bool' 'true' 'class' 'template'
    'constexpr' 'typeof' 'thread_local' 'nullptr' 'size_t' 'int64_t' 'context' 'workspace' 'status' 'leave' 'v_1' 't_0' 'c_0' 'arena_f32' 'hop_max_f32' 'HOP_C_OK' 'hop_c_context'
    'enum hop_c_status' 'x_sin' 'f_workspace' 'f_call' 'INT64_C' 'UINT8_MAX' '__FILE__' '__GNUC__' 'defined' 'pragma' 'f(void);int evil')
hostile+=("$(printf 'n%.0s' {1..4000})")
clean_c() { ! { "${CC:-cc}" -std=c99 -E -P "$1" | sed 's/"\(\\.\|[^"\\]\)*"/""/g' | grep -w 'evil'; }; } # the compiler takes the comments away, sed the strings
number=0
for name in "${hostile[@]}"; do
    number=$((number + 1))
    quoted=$name
    case $name in *'"'*) quoted=${name//\"/\\\"} ;; esac
    cat >hostile.hop <<END
hop 1
fn @"$quoted"(%"$quoted": f32[T], %"${quoted}2": f64[], %k: i32[]) -> (f32[T], f64[]) effects(check, io) {
  %"${quoted}3" = neg(%"$quoted")
  %z = full {value = 0, dims = [], dtype = i32}
  %c = ge(%k, %z)
  check {message = "$quoted"} (%c, %k)
  print {format = "$quoted"} (%k)
  callback {name = "$quoted"} (%k)
  %"${quoted}4" = exp(%"${quoted}2")
  return %"${quoted}3", %"${quoted}4"
}
END
    [ -n "$quoted" ] || sed -i 's/@""/@f/; s/%""/%e/g; s/name = ""/name = "n"/' hostile.hop
    claim "the name '$name' is read and printed back" "$HOP" check hostile.hop
    claim "the name '$name' is emitted" "$HOP" emit c hostile.hop -o hostile.c
    claim "the name '$name' compiles" strict_c -O0 -c hostile.c -o hostile.o
    claim "the name '$name' adds nothing" clean_c hostile.c
    claim 'nor to the header' clean_c hostile.h
    claim "the name '$name' defines one function" is_one hostile.o
    # one call of the compiler for each is enough; libraries now and then
    [ $((number % 8)) -eq 0 ] || continue
    claim "a library with the name '$name'" "$HOP" emit so hostile.hop -o hostile.so
done
for name in sin main int malloc; do
    printf 'hop 1\nfn @%s(%%x: f32[]) -> (f32[]) {\n  %%y = neg(%%x)\n  return %%y\n}\n' "$name" >called.hop
    claim "a library of @$name" "$HOP" emit so called.hop --fn "$name" -o called.so
    claim "its function" says 0 ' T (x_|called)' nm called.so
done

# ---- files with names that shells and compilers have other plans for ----
printf 'hop 1\nfn @main(%%x: f32[]) -> (f32[]) {\n  %%y = neg(%%x)\n  return %%y\n}\n' >plain.hop
mkdir -p 'a folder'
for out in 'a b' '-o' '-shared' '@args' 'semi;colon' '$HOME' '`id`' 'quo"te' "quo'te" 'back\slash' 'what??' 'new
line' 'a folder/x y' './-c' 'int' '9' 'é'; do
    claim "emit c -o '$out.c'" "$HOP" emit c plain.hop -o "$out.c"
    case $out in -* | @*) path=./$out ;; *) path=$out ;; esac
    claim "'$out.c' compiles" strict_c -I"$(dirname "$path")" -c "$path.c" -o out.o
    claim "emit so -o '$out.so'" "$HOP" emit so plain.hop -o "$out.so"
    claim "emit obj -o '$out.o'" "$HOP" emit obj plain.hop -o "$out.o"
    claim "'$out.so' is there" test -s "./$out.so"
    claim "its header compiles" strict_c -fsyntax-only -include "$path.h" -x c /dev/null
done
claim 'no source is left behind' is_none "$(find . -name '*.so.*' -o -name '*.o.*')"

# ---- operators from outside: functions that are linked; one definition for hop and for emitted C ----
cat >filtered.hop <<'END'
hop 1
operator @filter(x: f32[N, 3], mut state: f32[S]) -> f32[N]
fn @main(%x: f32[N, 3], %state: mut f32[S]) -> (f32[N], new %state) {
  %y, %s = filter(%x, %state)
  %z, %t = filter(%x, %s)
  %r = add(%y, %z)
  return %r, %t
}
END
cat >even.hop <<'END'
hop 1
operator @evens(x: i64[N]) -> i64[?k]
fn @main(%x: i64[N]) -> (i64[?k]) {
  %y: i64[?k] = evens(%x)
  return %y
}
END
cat >operators.c <<'END'
#include <hop/hop.h>
#include "filtered.h"
#include "even.h"
int filter(struct hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    const float *x = arrays[0];
    float *state = arrays[1], *y = arrays[2];
    (void)call;
    for (int64_t i = 0; i < sizes[0]; i++) y[i] = x[3 * i] + state[0];
    state[0] += 1;
    return 0;
}
int evens(struct hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    const int64_t *x = arrays[0];
    int64_t k = 0, n = 0;
    for (int64_t i = 0; i < sizes[0]; i++) k += x[i] % 2 == 0;
    int64_t *y = call->result(call, 0, &k);
    if (!y) return 1;
    for (int64_t i = 0; i < sizes[0]; i++)
        if (x[i] % 2 == 0) y[n++] = x[i];
    return k > 3 ? 7 : 0;
}
END
cat >operators_main.c <<'END'
#include "filtered.h"
#include "even.h"
#include <stdlib.h>
#include <string.h>
static int told;
static void *resize(void *user, void *block, size_t bytes)
{
    (void)user;
    if (bytes) return realloc(block, bytes);
    free(block);
    return NULL;
}
static void failed(void *user, const char *place, const char *message, int n, const struct hop_c_value *values)
{
    (void)user, (void)n, (void)values;
    told = strstr(place, "even.hop:4:3") && !strcmp(message, "evens");
}
int main(void)
{
    float x[6] = { 1, 2, 3, 4, 5, 6 }, state[1] = { 10 }, r[2], work[64];
    int64_t v[6] = { 1, 2, 4, 5, 6, 8 }, *out = NULL, k = 0;
    struct hop_c_context c = { .resize = resize, .failed = failed };
    if (filtered(2, 1, x, state, r, work, NULL) || r[0] != 23 || r[1] != 29 || state[0] != 12) return 1;
    if (even(5, v, &out, &k, &c) || k != 3 || out[2] != 6) return 2;
    free(out);
    if (even(5, v, &out, &k, NULL) != HOP_C_NOMEM) return 3;
    return even(6, v, &out, &k, &c) != HOP_C_OPERATOR || !told;
}
END
claim 'operators: emitted' "$HOP" emit c filtered.hop -o filtered.c
claim 'operators: sizes that are found' "$HOP" emit c even.hop -o even.c
claim 'operators: the header declares them' grep -q '^extern int filter(struct hop_operator_call \*call' filtered.h
claim 'operators: compile, beside hop.h as well' strict_c -I"$root/include" filtered.c even.c operators.c operators_main.c -o operators -lm
claim 'operators: are called' ./operators
claim 'operators: with fixed room' "$HOP" emit c even.hop --capacity 4 -o even4.c
claim 'operators: compile with fixed room' strict_c -c even4.c -o even4.o
claim 'operators: a library that leaves them open' "$HOP" emit so filtered.hop -o filtered.so
claim 'operators: which it says' says 0 ' U filter' nm filtered.so

# ---- objects, libraries, mistakes ----
claim 'an object' "$HOP" emit obj told.hop -o object.o
claim 'an object has the function' says 0 ' T told' nm object.o
claim 'a library' "$HOP" emit so told.hop -o library.so
claim 'a library has the function' says 0 ' T told' nm library.so
claim 'no compiler' says 2 'C compiler .*none.* cannot be run' env CC=/none/cc "$HOP" emit so told.hop -o none.so
claim 'a wrong kind' says 2 "expected c, obj or so, found 'rust'" "$HOP" emit rust told.hop -o x.c
claim 'a wrong suffix' says 2 'ends in .c' "$HOP" emit c told.hop -o x.o
claim 'no target' says 2 'needs one -o' "$HOP" emit c told.hop
claim 'a target that cannot be written' says 2 'cannot be written' "$HOP" emit c told.hop -o missing/x.c

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
