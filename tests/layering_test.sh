#!/usr/bin/env bash
# Checks the includes: base <- ir <- engines (interp, transform, loop, emit) <- rows (ops, hops) <- runtime, io, capture <- api, check <- cli. A row includes no other
# row's file, only src/emit/llvm*.c includes LLVM and only src/dist/mpi* MPI, and the public header includes nothing of ours.
set -u
cd "$(dirname "$0")/.." || exit 2
passed=0 failed=0
claim() { # claim FILE INCLUDE REASON|''
    if [ -z "$3" ]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "$1 includes $2: $3"
    fi
}
rank() {
    case $1 in
    include) echo 0 ;; base) echo 1 ;; ir) echo 2 ;; interp | transform | loop | emit) echo 3 ;; ops | hops) echo 4 ;; runtime | io | capture | dist) echo 5 ;; api | check) echo 6 ;; cli) echo 7 ;; *) echo 9 ;;
    esac
}
# Contracts that lower layers may see, each with its reason:
#   ops/ops.def    the list of operators, which the table's header is made of
#   ops/build.h    emitting operators: transforms and passes make nodes (add for cotangents, …)
#   ops/dot.h      which dims of a product play which part: passes that move products out of loops
allowed='ops/ops.def ops/build.h ops/dot.h'
for file in src/*/*.[ch]; do
    layer=$(basename "$(dirname "$file")")
    while read -r include; do
        to=${include%%/*}
        why=''
        if [ "$(rank "$to")" -gt "$(rank "$layer")" ]; then
            case " $allowed " in *" $include "*) ;; *) why="$to stands above $layer" ;; esac
        elif [ "$layer" = ops ] || [ "$layer" = hops ]; then
            of=$(basename "${include%.*}")
            case $include in
            *.c) why='a row includes no file of another row' ;;
            ops/* | hops/*) if [ "$of" != "$(basename "${file%.*}")" ] && grep -qE "^(OP|UNARY|BINARY|TERNARY)\($of[,)]" src/ops/*.def; then why='a row includes no file of another row'; fi ;;
            esac
        fi
        claim "$file" "$include" "$why"
    done < <(sed -n 's/^#include "\([^"]*\/[^"]*\)".*/\1/p' "$file")
    while read -r include; do
        case $file in src/emit/llvm*) claim "$file" "$include" '' ;; *) claim "$file" "$include" 'only src/emit/llvm*.c includes LLVM' ;; esac
    done < <(sed -n 's/^#include <\(llvm[^>]*\)>.*/\1/p' "$file")
    while read -r include; do
        case $file in src/dist/mpi*) claim "$file" "$include" '' ;; *) claim "$file" "$include" 'only src/dist/mpi* includes MPI' ;; esac
    done < <(sed -n 's/^#include <\(mpi[^>]*\)>.*/\1/p' "$file")
done
while read -r include; do claim include/hop "$include" 'the public header includes nothing private'; done < <(sed -n 's/^#include "\([^"]*\)".*/\1/p' include/hop/*.h)
# What rows share is in a header without rows of its own.
for header in src/ops/*.h src/hops/*.h; do
    [ -e "$header" ] || continue
    if grep -q 'struct op_row row_' "$header"; then claim "$header" '(itself)' 'a shared header defines no row'; else claim "$header" '' ''; fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
