#!/usr/bin/env bash
# The demonstration: finds the parameters of a damped, driven pendulum from a noisy record of its angle. The adaptive integrator is a
# while_loop inside a scan, its gradient comes from hop, and the descent is one compiled scan around both.
set -eu
cd "$(dirname "$0")/.."
hop=${HOP:-build/hop}
out=${BUILD:-build}/demo
mkdir -p "$out"
steps=${STEPS:-400}
start="[0.6, 2.8, 0.4]"

result() { sed -n "s/^%$1: [^=]*= //p" "$2"; } # the value of a result in the output of `hop run`

echo "A pendulum: theta'' = -c theta' - k sin(theta) + a cos(1.4 t), recorded 120 times in 12 s with noise of 0.05"
"$hop" run examples/pendulum.hop --fn instants >"$out/instants.txt"
"$hop" run examples/pendulum.hop --fn recorded >"$out/recorded.txt"
times=$(result t "$out/instants.txt")
record=$(result r "$out/recorded.txt")
{
    "$hop" grad examples/pendulum.hop --fn misfit --wrt p --value
    cat examples/pendulum_fit.part
} >"$out/fit.hop"
echo "The gradient of the misfit, as a program: $(grep -c ' = ' "$out/fit.hop") nodes in $out/fit.hop"

rates=$(awk -v n="$steps" 'BEGIN { for (i = 0; i < n; i++) printf "%s%.6g", i ? ", " : "[", 0.05 * (1 - i / n) + 0.0005; print "]" }')
fit() { "$hop" run "$out/fit.hop" --fn fit --in "p0=$start" --in "times=$times" --in "record=$record" "$@"; }

echo "Descending $steps steps, compiled:"
fit --in "rates=$rates" --time 2>"$out/time.txt" | tee "$out/fit.txt" | grep '^ ' || true
found=$(result p "$out/fit.txt")

few="[0.05, 0.05]"
fit --in "rates=$few" --interpret --time >/dev/null 2>"$out/slow.txt"

"$hop" run examples/pendulum.hop --fn trajectory --in "p=$start" --in "times=$times" >"$out/before.txt"
"$hop" run examples/pendulum.hop --fn trajectory --in "p=$found" --in "times=$times" >"$out/after.txt"
awk -v times="$times" -v record="$record" -v before="$(result angles "$out/before.txt")" -v after="$(result angles "$out/after.txt")" \
    -v svg="$out/pendulum.svg" -f examples/plot.awk
awk -v start="$start" -v found="$found" 'BEGIN {
    split("c k a", name, " "); split("0.25 4 0.9", truth, " ")
    n = split(found, f, /[][, ]+/); split(start, s, /[][, ]+/)
    printf "\n  %-10s %10s %10s %10s %10s\n", "parameter", "start", "found", "truth", "error"
    for (i = 1; i <= 3; i++) printf "  %-10s %10.4f %10.4f %10.4f %9.2f%%\n", name[i], s[i + 1], f[i + 1], truth[i], 100 * (f[i + 1] - truth[i]) / truth[i]
}'
awk -v steps="$steps" '
    FNR == NR { for (i = 1; i < NF; i++) { if ($i == "compile") compile = $(i + 1); if ($i == "run" && $(i + 1) + 0 > 0) run = $(i + 1) } next }
    { for (i = 1; i < NF; i++) if ($i == "run" && $(i + 1) + 0 > 0) slow = $(i + 1) }
    END {
        if (run > 0) printf "\n  %d steps of descent took %.1f ms after %.1f ms of compiling: %.3f ms a step\n", steps, run, compile, run / steps
        if (run > 0 && slow > 0) printf "  the interpreter needs %.1f ms a step: %.0f times as long\n", slow / 2, slow / 2 / (run / steps)
    }' "$out/time.txt" "$out/slow.txt"
echo "  the picture: $out/pendulum.svg"
