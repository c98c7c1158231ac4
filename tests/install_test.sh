#!/usr/bin/env bash
# An installed hop, as somebody who only has the installation meets it: what the shared library exports, programs in C and C++ built with nothing but what
# pkg-config says, the static library, the command, a tree that was moved, and uninstalling.
set -u
export HOP_CACHE="${HOP_CACHE-off}"
cd "$(dirname "$0")/.." || exit 2
root=$PWD
BUILD=${BUILD:-build}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0
claim() { # claim WHAT COMMAND…
    local what=$1
    shift
    if "$@" >"$dir/log" 2>&1; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "install: $what"
        tail -n 12 "$dir/log"
    fi
}
# same FILE FILE: lists that must be equal
same() { diff "$1" "$2"; }
# says PATTERN COMMAND…
says() {
    local pattern=$1
    shift
    "$@" >"$dir/said" 2>&1 && grep -Eq -- "$pattern" "$dir/said" && return 0
    cat "$dir/said"
    return 1
}

prefix=$dir/prefix
claim 'make install' make -s BUILD="$BUILD" PREFIX="$prefix" DESTDIR= LIBDIR="$prefix/lib" install
if [ $failed -gt 0 ]; then # what follows would fail for the same reason
    echo "$passed passed, $failed failed"
    exit 1
fi
jit=--jit
[ -e "$prefix/lib/hop/libhop_llvm.so" ] || jit=--interpret
version=$(sed -n 's/^#define HOP_VERSION "\(.*\)"/\1/p' include/hop/hop.h)
numbers=$(sed -n 's/^#define HOP_VERSION_[MP][A-Z]* //p' include/hop/hop.h | paste -sd.)
claim 'the version is the same in its numbers and its text' [ "$version" = "$numbers" ]

# ---- names ----
# The header as the compiler sees it, and again as a reader sees it: every macro hop_x(…) that fills in the place calls a function hop_x_at.
printf '#include <hop/hop.h>\n' | gcc -x c -Iinclude -fsyntax-only -aux-info "$dir/aux" -
sed -n 's|^/\* include/hop/[^ ]* \*/ extern [^(]*\<\(hop_[a-z0-9_]*\) (.*|\1|p' "$dir/aux" | sort -u >"$dir/declared"
sed -n 's/^#define hop_[a-z0-9_]*(\.\.\.) \(hop_[a-z0-9_]*_at\)(HOP_HERE.*/\1/p' include/hop/hop.h | sort -u >"$dir/behind_macros"
nm -D --defined-only "$prefix/lib/libhop.so" | awk '$2 ~ /[A-Z]/ && $2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u >"$dir/exported"
claim 'some functions are declared' [ "$(wc -l <"$dir/declared")" -gt 150 ]
claim 'every declared function is exported, and nothing else' same "$dir/declared" "$dir/exported"
claim 'every function behind a macro is exported' [ -z "$(comm -23 "$dir/behind_macros" "$dir/exported")" ]
nm -g --defined-only "$prefix/lib/libhop.a" | awk 'NF == 3 { print $3 }' | sort -u >"$dir/static"
claim 'the static library has the same names' same "$dir/declared" "$dir/static"
claim 'names have a version' says "hop_version@@HOP_${version%.*}\$" nm -D --with-symbol-versions "$prefix/lib/libhop.so"
claim 'the library says its name' says "SONAME.*\[libhop.so.${version%%.*}\]" readelf -d "$prefix/lib/libhop.so"
if [ $jit = --jit ]; then
    nm -D --defined-only "$prefix/lib/hop/libhop_llvm.so" | awk '{ print $3 }' >"$dir/plug_in"
    claim 'the back end exports one name' [ "$(cat "$dir/plug_in")" = hop_llvm_generator ]
fi
if [ -e "$BUILD/libhop_mpi.so" ]; then
    nm -D --defined-only "$prefix/lib/hop/libhop_mpi.so" | awk '{ print $3 }' >"$dir/plug_in"
    claim 'ranks over MPI are installed, and export one name' [ "$(cat "$dir/plug_in")" = hop_mpi ]
    claim 'they need nothing of hop' [ -z "$(nm -D --undefined-only "$prefix/lib/hop/libhop_mpi.so" | grep -E ' (hop|dist|job|pool)_')" ]
fi

# ---- the header, under each standard it promises ----
strict='-Wall -Wextra -Werror -pedantic'
printf '#include <hop/hop.h>\nint main(void) { return hop_failed(); }\n' >"$dir/header.c"
for standard in c99 c11 c17 c2x; do
    claim "the header is $standard" gcc -std=$standard $strict -I"$prefix/include" -fsyntax-only "$dir/header.c"
done

# ---- programs ----
cat >"$dir/prog.c" <<'END'
#include <hop/hop.h>
#include <stdio.h>
#include <string.h>

/* Names that hop uses inside, which are free for everybody. */
int module_free(void) { return 1; }
int tensor_new(void) { return 2; }
int hop_throw(void) { return 3; }

static int step(void *env, const hop_val *in, hop_val *out)
{
    (void)env;
    out[0] = hop_add(hop_mul(hop_scalar(0.5), in[0]), in[1]);
    return 0;
}
static int last_square(void *env, const hop_val *in, hop_val *out)
{
    hop_val zero = hop_scalar(0), h;
    hop_scan_spec spec = { 0 };
    (void)env;
    spec.step = step;
    spec.carry = &zero;
    spec.n_carry = 1;
    spec.xs = in;
    spec.n_xs = 1;
    hop_scan(&h, 1, &spec);
    out[0] = hop_mul(h, h);
    return 0;
}
int main(void)
{
    float xs[3] = { 4, 2, 1 }, want[3] = { 1.5f, 3, 6 };     /* h = 4/4 + 2/2 + 1 = 3, and 2 h dh/dx */
    hop_fn *f = NULL, *g = NULL;
    hop_exe *exe = NULL;
    hop_tensor *x = NULL, *out[2] = { NULL, NULL };
    hop_compile_options options = { 0 };
    options.portable = PORTABLE;
    if (strcmp(hop_version(), HOP_VERSION)) return 2;
    if (hop_capture(&f, "xs: f32[T]", 1, last_square, NULL) || hop_value_and_grad(&g, f, "xs") || hop_compile(&exe, g, &options) ||
        hop_tensor_borrow(&x, "f32[3]", xs, NULL, NULL) || hop_run(exe, &x, 1, out, 2)) {
        fprintf(stderr, "%s\n", hop_message());
        return 1;
    }
    if (*(float *)hop_data(out[0]) != 9 || memcmp(hop_data(out[1]), want, sizeof want)) return 3;
    printf("%g\n", *(float *)hop_data(out[0]));
    hop_tensor_free(out[0]);
    hop_tensor_free(out[1]);
    hop_tensor_free(x);
    hop_exe_free(exe);
    hop_fn_free(g);
    hop_fn_free(f);
    return module_free() + tensor_new() + hop_throw() != 6;
}
END
sed -e "s/PORTABLE/$([ $jit = --jit ] && echo 0 || echo 1)/" -i "$dir/prog.c"
{
    echo 'extern "C" { int module_free(void); int tensor_new(void); int hop_throw(void); }'
    sed 's/ = { 0 };/ = {};/; s/(float \*)hop_data(\([^)]*\))/static_cast<float *>(hop_data(\1))/' "$dir/prog.c"
} >"$dir/prog.cpp"
echo 'hop 1
fn @main(%x: f32[3]) -> (f32[]) {
  %y = mul(%x, %x)
  %s = sum(%y)
  return %s
}' >"$dir/square.hop"

if command -v pkg-config >/dev/null; then
    export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
    cd "$dir" || exit 2
    claim 'pkg-config knows the version' [ "$(pkg-config --modversion hop)" = "$version" ]
    claim 'a program in C' cc prog.c $(pkg-config --cflags --libs hop)
    claim 'it runs compiled code' says '^9$' ./a.out
    claim 'it uses the installed library' says "libhop.so.${version%%.*} => $prefix" ldd ./a.out
    claim 'a program with the static library' cc -Wall -Wextra -Werror prog.c $(pkg-config --cflags --libs hop-static) -o static
    claim 'it runs compiled code from anywhere' says '^9$' ./static
    claim 'it needs no libhop.so' [ "$(ldd ./static | grep -c libhop)" = 0 ]
    claim 'what the static library needs' says '-lz' pkg-config --static --libs hop
    if command -v g++ >/dev/null; then
        claim 'a program in C++' g++ -std=c++17 $strict prog.cpp $(pkg-config --cflags --libs hop) -o cpp
        claim 'it runs compiled code' says '^9$' ./cpp
        claim 'a program in C++20' g++ -std=c++20 $strict -fsyntax-only prog.cpp $(pkg-config --cflags hop)
    fi
    claim 'an example' cc "$root/examples/c/rnn.c" $(pkg-config --cflags --libs hop) -o rnn
    cd "$root" || exit 2
else
    echo 'there is no pkg-config: programs are not built with it'
fi
claim 'the command runs' says '= 14$' "$prefix/bin/hop" run "$dir/square.hop" $jit --in 'x=[1, 2, 3]'

# ---- elsewhere ----
# A package is made under DESTDIR with another LIBDIR, then unpacked where nobody said it would be.
claim 'make install into a package' make -s BUILD="$BUILD" PREFIX=/opt/hop LIBDIR=/opt/hop/lib/some-linux-gnu DESTDIR="$dir/stage" install
mkdir "$dir/moved" && mv "$dir/stage/opt/hop" "$dir/moved/hop"
there=$dir/moved/hop
claim 'nothing was put outside of it' [ -z "$(find "$dir/stage" -type f)" ]
ln -s "$there/bin/hop" "$dir/hop_link"
claim 'the moved package runs programs' env LD_LIBRARY_PATH="$there/lib/some-linux-gnu" "$dir/a.out"
claim 'the moved command runs' says '= 14$' "$there/bin/hop" run "$dir/square.hop" --in 'x=[1, 2, 3]'
if command -v pkg-config >/dev/null; then
    claim 'its package file can be told' says "^-I$there/include" pkg-config --with-path="$there/lib/some-linux-gnu/pkgconfig" --define-variable=prefix="$there" --cflags hop
fi

claim 'make install with another LIBDIR' make -s BUILD="$BUILD" PREFIX="$dir/other" LIBDIR="$dir/other/lib/some-linux-gnu" DESTDIR= install
claim 'its command runs' says '= 14$' "$dir/other/bin/hop" run "$dir/square.hop" $jit --in 'x=[1, 2, 3]'

# ---- uninstalling ----
claim 'make uninstall' make -s BUILD="$BUILD" PREFIX="$prefix" DESTDIR= LIBDIR="$prefix/lib" uninstall
claim 'nothing is left' [ -z "$(find "$prefix" -not -type d)" ]
claim 'the folders of hop are gone' [ ! -e "$prefix/include/hop" -a ! -e "$prefix/lib/hop" ]

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
