#!/usr/bin/env bash
# Ranks over MPI: the exchanges of tests/dist_test.c, the collectives of tests/ranks_test.c and the random programs of both it and tests/mesh_fuzz.c on 2 and
# 4 processes (1, 3 and 8 as well with HOP_TEST_SOAK=1), and what becomes of a job when one of them fails, is killed, ends early, hangs, or runs another
# program: all end soon, and say which rank it was.
set -u
cd "$(dirname "$0")/.." || exit 2
BUILD=${BUILD:-build}
root=$PWD
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0
end() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
    exit
}
claim() { # claim WHAT COMMAND…
    local what=$1
    shift
    if "$@"; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "mpi: $what"
        [ -e "$dir/said" ] && tail -n 25 "$dir/said"
    fi
}

test=$BUILD/tests/dist_test
# ---- without it ----
cp "$test" "$dir/dist_test"
"$dir/dist_test" --mpi >"$dir/said" 2>&1
claim 'without the plug-in it says where it looked' grep -q "^ranks over MPI need hop's plug-in for it: libhop_mpi.so was not found beside $dir/" "$dir/said"
HOP_MPI=$dir/dist_test "$dir/dist_test" --mpi >"$dir/said" 2>&1
claim 'what is no plug-in is refused' grep -q "^ranks over MPI need hop's plug-in for it: .*dist_test" "$dir/said"
if [ ! -e "$BUILD/libhop_mpi.so" ] || ! command -v mpirun >/dev/null || ! command -v "${MPICC:-mpicc}" >/dev/null; then
    echo 'NOT RUN: ranks over MPI: there is no MPI to build and run them with (libopenmpi-dev, openmpi-bin)'
    end
fi

# Open MPI asks for these before it runs as root, and more processes than there are processors.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
ranks() { # ranks N COMMAND…: into said; how long it took into seconds
    local n=$1 begun=$SECONDS
    shift
    timeout -k 5 "${LIMIT:-100}" mpirun -n "$n" "$@" >"$dir/said" 2>&1
    code=$?
    seconds=$((SECONDS - begun))
}

# ---- exchanges ----
many='2 4' # processes
[ -n "${HOP_TEST_SOAK:-}" ] && many='1 2 3 4 8'
for n in $many; do
    for most in '' 256; do # bytes of a message at most: large arrays go in many
        HOP_DIST_MESSAGE=$most ranks "$n" "$test" --mpi
        claim "exchanges between $n processes${most:+, in messages of $most bytes}" grep -qE '^[0-9]{4,} passed, 0 failed$' "$dir/said"
        claim "which end well" [ $code -eq 0 ]
    done
done
# ---- programs over a mesh ----
programs=24
[ -n "${HOP_TEST_SOAK:-}" ] && programs=300
for n in $many; do
    for each in ranks_test mesh_fuzz; do
        LIMIT=$((programs * 5)) ranks "$n" "$BUILD/tests/$each" --mpi 1 $programs
        claim "$each on $n processes" grep -qE '^[0-9]{3,} passed, 0 failed$' "$dir/said"
    done
done
hop=$root/$BUILD/hop
program=$root/tests/corpus/mesh/uneven.hop
given='x=[[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12], [13, 14, 15]]'
"$hop" run "$program" --in "$given" >"$dir/threads" 2>&1
ranks 4 "$hop" run "$program" --in "$given"
claim 'a program over a mesh gives on processes what it gives on threads, and one of them says it' cmp -s "$dir/threads" "$dir/said"
ranks 2 "$hop" run "$program" --in "$given"
claim 'a job of another size than the mesh is refused' grep -q 'is for the 4 ranks of the mesh (data = 4), and the job has 2' "$dir/said"
cat >"$dir/one.hop" <<'HOP'
hop 1
mesh @m = (i = 2)
fn @main(%x: f64[2]@m(0)) -> (f64[2]@m(0)) {
  %y = local_map {mesh = "m", in = "0", out = "0"} part(%a = %x) {
    %c = full {value = 2.0, dims = [], dtype = f64}
    %b = scan {length = 2} carry(%d = %a) with(%e = %c) {
      %s = sin(%d)
      %k = broadcast {dims = [1], at = []} (%e)
      %n = mul(%s, %k)
      next(%n)
    }
    yield(%b)
  }
  return %y
}
HOP
ranks 2 "$hop" run "$dir/one.hop" --in 'x=[1, 2]'
claim 'a program that is the same on both ranks' grep -qx '%y: f64\[2\] = \[1.9874365302721515, 1.9389094530685567\]' "$dir/said"
ranks 2 "$hop" run "$root/tests/corpus/mesh/prints.hop" --fn one --in 'x=[1, -2]'
claim 'a rank whose check fails is named' grep -q 'rank 1 failed: .*check: negative (-2)' "$dir/said"
claim 'and the job fails' [ $code -ne 0 ]
# Programs that differ in a constant deep inside, or in an operator: no rank gets a number.
for other in 's/value = 2.0/value = 3.0/' 's/sin(/cos(/'; do
    sed "$other" "$dir/one.hop" >"$dir/other.hop"
    timeout 60 mpirun -n 1 "$hop" run "$dir/one.hop" --in 'x=[1, 2]' : -n 1 "$hop" run "$dir/other.hop" --in 'x=[1, 2]' >"$dir/said" 2>&1
    claim "ranks with other programs ($other)" [ "$(grep -c 'the program, its sizes or its options: expected the same on all ranks, found another one on rank 1' "$dir/said")" -ge 1 ]
    claim "give nothing" [ -z "$(grep '^%' "$dir/said")" ]
done
if [ -n "${HOP_TEST_SOAK:-}" ]; then
    LIMIT=600 ranks 2 "$test" --mpi large
    claim 'more than 2^31 bytes' grep -qx 'rank 1: all bytes are right' "$dir/said"
fi
PMI_SIZE=4 timeout 60 "$test" --mpi >"$dir/said" 2>&1
claim 'processes of an MPI that the plug-in does not know' grep -q '^this process was started as one of 4, and the MPI that .*libhop_mpi.so is built with knows of none but it' "$dir/said"

# A program that has MPI already, and goes on with it.
cat >"$dir/own.c" <<'C'
#include "dist/dist.h"
#include <mpi.h>
int main(int argc, char **argv)
{
    int level, done, sum = 0;
    struct rank *r;
    struct comm *all;
    MPI_Init_thread(&argc, &argv, argc > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, &level);
    if (dist_mpi(&r) || dist_along(r, 1, (const int64_t[]){ r->size }, 1, &all)) return puts(hop_message());
    int32_t x = r->number + 1;
    if (dist_do(all, &(struct dist_call){ .kind = DIST_ALL_REDUCE, .dtype = DT_I32, .in = &x, .out = &x, .size = 1 })) return puts(hop_message());
    MPI_Allreduce(&x, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    MPI_Finalized(&done);
    return printf("%d %d %d\n", x, sum, done) < 0;
}
C
"${MPICC:-mpicc}" -std=c11 -D_GNU_SOURCE -Iinclude -Isrc "$dir/own.c" "$BUILD/libhop.a" -lz -lm -lpthread -ldl -o "$dir/own" >"$dir/said" 2>&1
for way in '' all; do
    HOP_MPI=$(realpath "$BUILD/libhop_mpi.so") ranks 2 "$dir/own" $way
    claim 'an MPI that is there already' [ "$code $(grep -cx '3 6 1' "$dir/said")" = '0 2' ]
done

# A system of 5,000 processors: two ranks have halves in common, the third one has its own.
cat >"$dir/large.c" <<'C'
#include "base/memory.h"
#include "dist/dist.h"
#include "runtime/pool.h"
#include <errno.h>
#include <limits.h>
enum { SYSTEM = 5000, EACH = 100 };
static int number(void)
{
    const char *text = getenv("OMPI_COMM_WORLD_RANK");
    if (!text) text = getenv("PMI_RANK");
    return text ? atoi(text) : 0;
}
static int asked(pid_t pid, size_t size, cpu_set_t *set)
{
    static const int first[] = { 4000, 4050, 4500 };
    if (pid || size * CHAR_BIT < SYSTEM) return errno = EINVAL, -1;
    CPU_ZERO_S(size, set);
    for (int i = 0; i < EACH; i++) CPU_SET_S((size_t)(first[number()] + i), size, set);
    return 0;
}
int main(void)
{
    struct rank *r;
    limits_root = "/nowhere"; /* control groups say nothing */
    pool_ask_processors = asked;
    if (dist_mpi(&r)) return puts(hop_message());
    return printf("rank %d: %u\n", r->number, r->cores) < 0;
}
C
"${MPICC:-mpicc}" -std=c11 -D_GNU_SOURCE -Iinclude -Isrc "$dir/large.c" "$BUILD/libhop.a" -lz -lm -lpthread -ldl -o "$dir/large" >"$dir/said" 2>&1
HOP_MPI=$(realpath "$BUILD/libhop_mpi.so") ranks 3 "$dir/large"
claim 'a system with many processors' [ "$code $(grep '^rank' "$dir/said" | sort | tr '\n' ' ')" = '0 rank 0: 50 rank 1: 50 rank 2: 100 ' ]

# ---- faults ----
export HOP_DIST_TIMEOUT=30
# fault N FAULT MANY SECONDS PATTERN: of N ranks so many say it, and mpirun ends soon
fault() {
    ranks "$1" "$test" --mpi "$2"
    claim "$2 on $1 processes: $3 ranks say $5" [ "$(grep -cE -- "$5" "$dir/said")" -eq "$3" ]
    claim "$2 on $1 processes: a job that has failed stays so" [ -z "$(grep 'not for good' "$dir/said")" ]
    claim "$2 on $1 processes: an error" [ $code -ne 0 ]
    claim "$2 on $1 processes: ends in $4 s, found $seconds" [ "$seconds" -le "$4" ]
}
fault 4 raise 4 15 '^rank ([023] told: rank 1 failed|1 failed): its own error$'
fault 2 end 1 15 '^rank 0 told: all_reduce: rank 1 has ended, rank 0 waits for it$'
# Open MPI's mpirun kills the others soon after one has died, unless it is told to leave them alone.
ranks 4 "$test" --mpi kill
claim 'kill: somebody names the rank' grep -qE 'rank 1 (has ended|with PID)|RANK 1 PID' "$dir/said"
claim 'kill: an error, soon' [ $code -ne 0 -a "$seconds" -le 20 ]
if mpirun --version 2>&1 | grep -q 'Open MPI'; then
    OMPI_MCA_orte_enable_recovery=1 ranks 4 "$test" --mpi kill
    claim 'kill: three ranks go on, name the one that did not, and end' [ "$(grep -cE '^rank [023] told: .*all_reduce: rank 1 has ended, rank [023] waits for it$' "$dir/said")" -eq 3 ]
    claim 'kill: soon' [ "$seconds" -le 20 ]
fi
HOP_DIST_TIMEOUT=1 fault 4 late 3 20 '^rank [023] told: .*rank [023] has waited for rank 1 for 1 s$'
fault 4 interrupt 4 15 '^rank ([023] cancelled: rank 1 failed|1 cancelled): cancelled in all_reduce$'
fault 4 differ 4 15 '^rank [0123] told: .*(rank 1 sent 100 bytes, rank [023] expected [0-9]+: their programs differ|a message from rank [023]: .*)$'

# An interrupt from the terminal, which mpirun passes on.
mpirun -n 4 "$test" --mpi wait >"$dir/said" 2>&1 &
job=$!
for _ in $(seq 100); do [ "$(grep -c waits "$dir/said")" = 4 ] && break || sleep 0.1; done
mapfile -t processes < <(sed -n 's/^process \([0-9]*\) waits$/\1/p' "$dir/said")
kill -INT $job
wait $job
there() { # is any of them?
    local p
    for p in "${processes[@]}"; do kill -0 "$p" 2>/dev/null && return 0; done
    return 1
}
for _ in $(seq 100); do there && sleep 0.1 || break; done
claim 'four processes wait' [ ${#processes[@]} -eq 4 ]
claim 'an interrupt ends all of them' eval '! there'
end
