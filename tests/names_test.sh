#!/usr/bin/env bash
# Engines name no operator: what they know of one stands in its row. This reads the sources of the engines and
# fails on OP_x, row_x of a row, and a row's name compared with a text, but for the entries below: operators that
# an engine makes itself or that stand for values known beforehand, each with its reason. An entry that nothing
# needs any more fails, too.
set -u
cd "$(dirname "$0")/.." || exit 2
# FILES OPERATORS: reason. `*` stands for every engine.
allowed='
* full constant: values known beforehand; every pass may meet and make them
* invoke_subgraph: engines that split functions make calls of the parts
ir/builder.c dim_value eq check: a requirement on sizes that cannot be proved becomes a check of them
ir/builder.c reshape: results of an expansion get exactly the type that was inferred
ir/axes.c vary: a value that is the same in all lanes meets one that is not
ir/builder.c any_object: a body that is given one object under two names is told so
transform/global.c local_map: a transform of what each rank does is put into a function over whole arrays again
transform/vjp.c add: cotangents that meet are added
transform/vjp.c barrier: what a gradient computes again is kept apart from the first time
transform/debug_nans.c check_finite iota add: the checks that it puts behind operators, and the trips of loops
transform/pass_accumulate.c add sub sum: what left the loop is summed over time and added to the carry
transform/pass_slices.c sum: parts of sums over rows are added behind the map
transform/pass_beside.c concat: invariants are put side by side
transform/pass_together.c all_reduce concat: reductions over ranks become one, of their operands side by side
transform/pass_sums.c slice reshape broadcast: rows of an array are written so, and a number of each beside a row
transform/pass_sums.c add sub neg sum: the sum of the rows, with what else is added and subtracted
transform/pass_unroll.c concat: steps written out stack their rows
transform/loop_plan.c concat: the carries before each step are the first one and the stacked ones
transform/pass_lanes.c pad: a last block of fewer lanes is filled up
transform/pass_lanes.c sum cast gt: a loop ends when a few lanes are left, which are counted
transform/pass_lanes.c nonzero lt gather scatter: these are put side by side, and back where they stood
transform/pass_forward.c reshape: carries are carried in the shape that steps work with
transform/pass_pack.c slice reshape concat broadcast switch: lanes of an array are written so, and lists of values; lanes go through branches
transform/pack_build.c concat gather reverse: arrays of lanes are put together and taken apart
'
passed=0 failed=0
operators=" $(sed -nE 's/^(OP|UNARY|BINARY|TERNARY)\(([a-z0-9_]+).*/\2/p' src/ops/ops.def src/ops/elementwise.def | tr '\n' ' ') "
declare -A reason used
while read -r line; do
    [ -n "$line" ] || continue
    list=${line%%:*}
    files=${list%% *}
    for op in ${list#* }; do
        case $operators in *" $op "*) ;; *) echo "names_test.sh: there is no operator $op" && failed=$((failed + 1)) ;; esac
        reason["$files $op"]=${line#*: }
    done
done <<<"$allowed"
for file in src/{ir,interp,transform,loop,emit}/*.[ch]; do
    name=${file#src/}
    # without comments and texts of includes
    found=$(sed -e 's@/\*.*\*/@@g' -e '/^#include/d' "$file" |
        grep -oE '\b(OP|row)_[a-z][a-z0-9_]*|name, *"[a-z0-9_]+"' |
        sed -e 's/^OP_//' -e 's/^row_//' -e 's/^name, *"\(.*\)"/\1/' | sort -u)
    wrong=''
    for op in $found; do
        case $operators in *" $op "*) ;; *) continue ;; esac
        if [ -n "${reason["$name $op"]-}" ]; then used["$name $op"]=1
        elif [ -n "${reason["* $op"]-}" ]; then used["* $op"]=1
        else wrong="$wrong $op"
        fi
    done
    if [ -z "$wrong" ]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "$file names$wrong: what an engine must know of an operator is a column of its row (docs/adding-an-operator.md)"
    fi
done
for entry in "${!reason[@]}"; do
    if [ -n "${used["$entry"]-}" ]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "names_test.sh allows what is not there: $entry"
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
