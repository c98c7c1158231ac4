#!/usr/bin/env bash
# Compiling takes time in proportion to the program: two programs are written at a size and at four times that size, and what is counted may grow
# five-fold at most. Counted are instructions of hop's own stages and of the C99 emitter (under callgrind; without valgrind that part is not run), and
# what LLVM is given: instructions of IR in all, and in the largest function, which LLVM's time depends on more than linearly and which must not grow.
# No time decides.
set -u
export HOP_CACHE="${HOP_CACHE-off}"
cd "$(dirname "$0")/.." || exit 2
BUILD=${BUILD:-build}
HOP=${HOP:-$BUILD/hop}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0
claim() { # claim WHAT AT_N AT_4N MOST: AT_4N is at most MOST hundredths of AT_N
    if [ "$2" -gt 0 ] && [ $(($3 * 100)) -le $(($2 * $4)) ]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "$1: from $2 to $3, more than $4 %"
    fi
}

# A loop over n carries of different sizes: as many nests that do not fuse, in the loop and behind it.
nests() { # nests N
    awk -v n="$1" '
    function list(before, name, after, i) { printf "%s", before; for (i = 0; i < n; i++) printf "%s%s%d", i ? ", " : "", name, i; printf "%s", after }
    BEGIN {
        printf "hop 1\nfn @main(%%xs: f32[T]"
        for (i = 0; i < n; i++) printf ", %%h%d: f32[%d]", i, 200 + i
        list(") -> (f32[]) {\n  ", "%r", " = scan carry(")
        for (i = 0; i < n; i++) printf "%s%%c%d = %%h%d", i ? ", " : "", i, i
        print ") over(%x in %xs) {"
        for (i = 0; i < n; i++) {
            printf "    %%a%d = broadcast {dims = [%d], at = []} (%%x)\n", i, 200 + i
            printf "    %%b%d = mul(%%c%d, %%a%d)\n    %%n%d = tanh(%%b%d)\n", i, i, i, i, i
        }
        list("    next(", "%n", ")\n  }\n")
        for (i = 0; i < n; i++) printf "  %%s%d = sum(%%r%d)\n", i, i
        for (i = 0; i < n; i++) printf "  %%t%d = add(%s, %%s%d)\n", i, i ? "%t" (i - 1) : "%s0", i
        printf "  return %%t%d\n}\n", n - 1
    }'
}

# A transformer of n blocks, written out.
blocks() { # blocks N
    awk -v n="$1" '
    function norm(x, y, gain) {
        printf "  %%%s.q = mul(%s, %s)\n  %%%s.m = mean {dims = [1]} (%%%s.q)\n  %%%s.r = rsqrt(%%%s.m)\n", y, x, x, y, y, y, y
        printf "  %%%s.rb = broadcast {dims = [T, 64], at = [0]} (%%%s.r)\n  %%%s.n = mul(%s, %%%s.rb)\n", y, y, y, x, y
        printf "  %%%s.gb = broadcast {dims = [T, 64], at = [1]} (%s)\n  %%%s = mul(%%%s.n, %%%s.gb)\n", y, gain, y, y, y
    }
    function product(result, a, b) { printf "  %%%s = matmul(%%%s, %%%s)\n", result, a, b }
    BEGIN {
        printf "hop 1\nfn @main(%%x0: f32[T, 64]"
        for (i = 0; i < n; i++) {
            for (k = 1; k <= 4; k++) printf ", %%%s%d: f32[64, 64]", substr("qkvo", k, 1), i
            printf ", %%u%d: f32[64, 256], %%d%d: f32[256, 64], %%g%d: f32[64], %%e%d: f32[64]", i, i, i, i
        }
        print ") -> (f32[]) {"
        for (i = 0; i < n; i++) {
            norm("%x" i, "a" i, "%g" i)
            product("qq" i, "a" i, "q" i)
            product("kk" i, "a" i, "k" i)
            product("vv" i, "a" i, "v" i)
            printf "  %%kt%d = permute {order = [1, 0]} (%%kk%d)\n", i, i
            product("sc" i, "qq" i, "kt" i)
            printf "  %%sm%d = softmax {dims = [1]} (%%sc%d)\n", i, i
            product("at" i, "sm" i, "vv" i)
            product("ao" i, "at" i, "o" i)
            printf "  %%y%d = add(%%x%d, %%ao%d)\n", i, i, i
            norm("%y" i, "b" i, "%e" i)
            product("up" i, "b" i, "u" i)
            printf "  %%th%d = tanh(%%up%d)\n", i, i
            product("dn" i, "th" i, "d" i)
            printf "  %%x%d = add(%%y%d, %%dn%d)\n", i + 1, i, i
        }
        printf "  %%l = sum(%%x%d)\n  return %%l\n}\n", n
    }'
}

instructions() { # instructions COMMAND…: of a run under callgrind
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$@" 2>&1 >/dev/null | sed -n 's/.*Collected : //p'
}

own() { # own WHAT PROGRAM N [OPTION]: everything but LLVM, with the C99 emitter
    local at=() n
    for n in "$3" $((4 * $3)); do
        "$2" "$n" >"$dir/p.hop"
        at+=("$(instructions "$HOP" emit c "$dir/p.hop" ${4:-} -o "$dir/p.c")")
    done
    claim "instructions to emit $1 as C" "${at[0]:-0}" "${at[1]:-0}" 500
}

llvm() { # llvm WHAT PROGRAM N [OPTION]: what LLVM is given
    local all=() largest=() n a b
    for n in "$3" $((4 * $3)); do
        "$2" "$n" >"$dir/p.hop"
        read -r a b < <("$HOP" explain "$dir/p.hop" --llvm ${4:-} | awk '/^define/ { n = 0 } /^  / { n++; all++ } /^}/ { if (n > most) most = n } END { print all + 0, most + 0 }')
        all+=("$a") largest+=("$b")
    done
    claim "instructions of LLVM for $1" "${all[0]}" "${all[1]}" 500
    claim "instructions of the largest function for $1" "${largest[0]}" "${largest[1]}" 150
}

llvm 'a loop of nests' nests 100
llvm 'a transformer' blocks 12
llvm 'the gradient of a transformer' blocks 12 --grad
if command -v valgrind >/dev/null; then
    own 'a loop of nests' nests 50
    own 'a transformer' blocks 6
    own 'the gradient of a transformer' blocks 6 --grad
else echo 'NOT RUN: growth of instructions: there is no valgrind'; fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
