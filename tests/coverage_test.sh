#!/usr/bin/env bash
# Coverage-guided fuzzing: each program of tests/fuzz for FUZZ_SECONDS (15), all at once, from its seeds and from what earlier runs found ($BUILD/fuzz/corpus).
# An input that crashes, hangs or breaks a claim is kept in $BUILD/fuzz/crashes and named; the fuzzer with that file as its argument shows it again.
set -u
cd "$(dirname "$0")/.." || exit 2
BUILD=${BUILD:-build}
seconds=${FUZZ_SECONDS:-15}
fuzz=$BUILD/fuzz
passed=0 failed=0
if ! ls "$fuzz"/*_fuzzer >/dev/null 2>&1; then
    echo 'NOT RUN: coverage-guided fuzzing: make fuzzers needs clang and its runtime (Debian: clang and libclang-rt-dev of one version)'
    echo '0 passed, 0 failed'
    exit 0
fi
mkdir -p "$fuzz/crashes"
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:max_allocation_size_mb=512:detect_stack_use_after_return=0
export UBSAN_OPTIONS=print_stacktrace=1
run() { # run NAME: its report in $fuzz/NAME.log
    mkdir -p "$fuzz/corpus/$1"
    "$fuzz/$1_fuzzer" -max_total_time="$seconds" -max_len=3000 -timeout=60 -rss_limit_mb=3000 -print_final_stats=1 -verbosity=1 \
        -artifact_prefix="$fuzz/crashes/$1-" "$fuzz/corpus/$1" "tests/fuzz/$1" >"$fuzz/$1.log" 2>&1
}
report() { # report NAME CODE
    if [ "$2" -eq 0 ] && grep -q 'stat::number_of_executed_units' "$fuzz/$1.log"; then
        passed=$((passed + 1))
        echo "$1: $(sed -n 's/^stat::number_of_executed_units: *//p' "$fuzz/$1.log") inputs"
    else
        failed=$((failed + 1))
        echo "$1: ended with code $2"
        grep -vE '^#[0-9]+[[:space:]]' "$fuzz/$1.log" | tail -n 40
    fi
}
names=()
for program in "$fuzz"/*_fuzzer; do names+=("$(basename "$program" _fuzzer)"); done
pids=()
for name in "${names[@]}"; do
    run "$name" &
    pids+=($!)
done
for i in "${!names[@]}"; do
    code=0
    wait "${pids[i]}" || code=$?
    report "${names[i]}" $code
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
