#!/usr/bin/env bash
# Compiling takes time in proportion to the program: programs are written at a size and at four times that
# size, and what is counted may grow five-fold at most. Counted are instructions of hop's own stages and of
# the C99 emitter (under callgrind; without valgrind that part is not run), and what LLVM is given:
# instructions of IR in all, and in the largest function and the largest basic block, which LLVM's time
# depends on more than linearly and which are bounded. Running attention takes instructions in proportion to
# the blocks that take part, not to all pairs of positions. No time decides.
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
bound() { # bound WHAT AT_4N MOST
    if [ "$2" -gt 0 ] && [ "$2" -le "$3" ]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "$1: $2, more than $3"
    fi
}

# A loop over n carries of different sizes: as many nests that do not fuse, in the loop and behind it.
nests() { # nests N
    awk -v n="$1" '
    function list(before, name, after, i) {
        printf "%s", before
        for (i = 0; i < n; i++) printf "%s%s%d", i ? ", " : "", name, i
        printf "%s", after
    }
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
        printf "  %%%s.q = mul(%s, %s)\n  %%%s.m = mean {dims = [1]} (%%%s.q)\n", y, x, x, y, y
        printf "  %%%s.r = rsqrt(%%%s.m)\n", y, y
        printf "  %%%s.rb = broadcast {dims = [T, 64], at = [0]} (%%%s.r)\n", y, y
        printf "  %%%s.n = mul(%s, %%%s.rb)\n", y, x, y
        printf "  %%%s.gb = broadcast {dims = [T, 64], at = [1]} (%s)\n", y, gain
        printf "  %%%s = mul(%%%s.n, %%%s.gb)\n", y, y, y
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

# n calls of one function, a block of two products; in a gradient one body forward and one backward.
calls() { # calls N
    awk -v n="$1" 'BEGIN {
        print "hop 1\nfn @block(%x: f32[T, 64], %u: f32[64, 256], %d: f32[256, 64]) -> (f32[T, 64]) {"
        print "  %q = mul(%x, %x)\n  %m = mean {dims = [1]} (%q)\n  %r = rsqrt(%m)"
        print "  %b = broadcast {dims = [T, 64], at = [0]} (%r)\n  %n = mul(%x, %b)\n  %p = matmul(%n, %u)"
        print "  %t = tanh(%p)\n  %s = sin(%t)\n  %w = mul(%s, %p)\n  %o = matmul(%w, %d)"
        print "  %y = add(%x, %o)\n  %z = tanh(%y)\n  return %z\n}"
        printf "fn @main(%%x0: f32[T, 64]"
        for (i = 0; i < n; i++) printf ", %%u%d: f32[64, 256], %%d%d: f32[256, 64]", i, i
        print ") -> (f32[]) {"
        for (i = 0; i < n; i++) printf "  %%x%d = invoke_subgraph @block(%%x%d, %%u%d, %%d%d)\n", i + 1, i, i, i
        printf "  %%l = sum(%%x%d)\n  return %%l\n}\n", n
    }'
}

# n values one after the other, each made of the one before.
chain() { # chain N
    awk -v n="$1" 'BEGIN {
        printf "hop 1\nfn @main(%%x0: f32[T], %%y: f32[T]) -> (f32[]) {\n"
        for (i = 0; i < n; i++) printf "  %%a%d = mul(%%x%d, %%y)\n  %%x%d = sin(%%a%d)\n", i, i, i + 1, i
        printf "  %%l = sum(%%x%d)\n  return %%l\n}\n", n
    }'
}

# n branches, each in the one before.
branches() { # branches N
    awk -v n="$1" 'BEGIN {
        printf "hop 1\nfn @main(%%v0: f32[], %%w: f32[]) -> (f32[]) {\n"
        for (i = 0; i < n; i++) {
            printf "  %%k%d = full {value = %d, dims = []}\n  %%p%d = lt(%%k%d, %%v%d)\n", i, i, i, i, i
            printf "  %%r%d = switch(%%p%d) [(%%a%d = %%v%d, %%b%d = %%w) {\n", i, i, i, i, i
            printf "    %%f%d = mul(%%a%d, %%b%d)\n    yield(%%f%d)\n", i, i, i, i
            printf "  }, (%%u%d = %%v%d, %%w = %%w) {\n    %%v%d = add(%%u%d, %%w)\n", i, i, i + 1, i
        }
        printf "    yield(%%v%d)\n", n
        for (i = n - 1; i > 0; i--) printf "  }]\n  yield(%%r%d)\n", i
        printf "  }]\n  return %%r0\n}\n"
    }'
}

# Attention over n rows of 64 positions, each of which sees its own block, by a mask, and all of the one before it: 2 n - 1 blocks of n n.
window() { # window N
    local s=$((64 * $1)) list="[1, 1, $1]" lists="[1, 1, $1, $1]"
    cat <<TEXT
hop 1
fn @main(%q: f32[1, 1, $s, 32], %k: f32[1, 1, $s, 32], %v: f32[1, 1, $s, 32]) -> (f32[]) {
  %zero = full {value = 0, dims = [], dtype = i64}
  %scale = full {value = 0.2, dims = [], dtype = f32}
  %row = iota {dims = $lists, dim = 2, dtype = i32}
  %ones = full {value = 1, dims = $lists, dtype = i32}
  %back = sub(%row, %ones)
  %first = full {value = 0, dims = $lists, dtype = i32}
  %before = max(%back, %first)
  %rows = iota {dims = $list, dim = 2, dtype = i32}
  %one = full {value = 1, dims = $list, dtype = i32}
  %none_of_first = min(%rows, %one)
  %o, %l, %m = flex_attention {block = [64, 64]} (%q, %k, %v) from(%s = %scale, %b = %zero, %h = %zero, %i = %zero, %j = %zero)
      blocks(%one, %row, %none_of_first, %before) score {
    yield(%s)
  } mask {
    %t = ge(%i, %j)
    yield(%t)
  }
  %square = mul(%o, %o)
  %sum = sum(%square)
  return %sum
}
TEXT
}

runs() { # runs WHAT COMMAND…: of window, by 8 blocks and by 32
    local at=() n what=$1
    shift
    for n in 8 32; do
        window $n >"$dir/p.hop"
        at+=("$(HOP_NUM_THREADS=1 valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect=exe_run \
            "$HOP" "$1" "$dir/p.hop" "${@:2}" --in q=random:1 --in k=random:2 --in v=random:3 2>&1 >/dev/null |
            sed -n 's/.*Collected : //p')")
    done
    claim "instructions to run $what" "${at[0]:-0}" "${at[1]:-0}" 440
}

instructions() { # instructions COMMAND…: of a run under callgrind
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$@" 2>&1 >/dev/null |
        sed -n 's/.*Collected : //p'
}

own() { # own WHAT PROGRAM N [OPTION]: everything but LLVM, with the C99 emitter
    local at=() n
    for n in "$3" $((4 * $3)); do
        "$2" "$n" >"$dir/p.hop"
        at+=("$(instructions "$HOP" emit c "$dir/p.hop" ${4:-} -o "$dir/p.c")")
    done
    claim "instructions to emit $1 as C" "${at[0]:-0}" "${at[1]:-0}" 500
}

# llvm WHAT FUNCTION BLOCK PROGRAM N [OPTION [MOST]]: what LLVM is given, and the most that one may have
llvm() {
    local at=() n
    for n in "$5" $((4 * $5)); do
        "$4" "$n" >"$dir/p.hop"
        at+=($("$HOP" explain "$dir/p.hop" --llvm ${6:-} | awk '
            /^define/ { on = 1; n = 0 }
            /^[^ ]*:/ || /^define/ { block = 0 }
            on && /^  / { n++; all++; block++; if (block > longest) longest = block; if (n > most) most = n }
            /^}/ { on = 0 }
            END { print all + 0, most + 0, longest + 0 }'))
    done
    claim "instructions of LLVM for $1" "${at[0]:-0}" "${at[3]:-0}" "${7:-500}"
    bound "instructions of the largest function for $1" "${at[4]:-0}" "$2"
    bound "instructions of the largest block for $1" "${at[5]:-0}" "$3"
}

llvm 'a loop of nests' 14000 550 nests 100
llvm 'the gradient of a loop of nests' 18000 550 nests 100 --grad
llvm 'a transformer' 5000 400 blocks 12
llvm 'the gradient of a transformer' 12000 450 blocks 12 --grad
llvm 'a chain' 6000 100 chain 100
llvm 'the gradient of a chain' 5000 1000 chain 50 --grad
llvm 'branches in branches' 1000 20 branches 25
llvm 'the gradient of branches in branches' 1000 20 branches 10 --grad
llvm 'calls of one function' 3000 400 calls 12 '' 200
llvm 'the gradient of calls of one function' 6000 400 calls 12 --grad 300
if command -v valgrind >/dev/null; then
    own 'a loop of nests' nests 50
    own 'a transformer' blocks 6
    own 'the gradient of a transformer' blocks 6 --grad
    own 'a chain' chain 50
    own 'the gradient of calls of one function' calls 6 --grad
    runs 'attention' run
    runs 'the gradient of attention' grad --run --wrt q,k,v
else echo 'NOT RUN: growth of instructions: there is no valgrind'; fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
