#!/usr/bin/env bash
# Runs every fuzz target beside this script and prints a table:
#
#   run.sh 30s            each target for that long
#   run.sh 100000         each target with that many inputs
#   run.sh 30s Request    only targets with this in their name
#
# An input that fails is kept in testdata/fuzz of its package, and the script ends
# with 1. Copy it into the source: from then on it is a seed.
set -u
limit=${1:?say how long or how many inputs: run.sh 30s, or run.sh 100000}
only=${2:-}
case $limit in *[0-9]) go_limit=${limit}x ;; *) go_limit=$limit ;; esac
cd "$(dirname "$0")" || exit 1
here=$PWD
[ -w /dev/shm ] && export TMPDIR=/dev/shm # many targets write files, and sync them
mkdir -p logs cache
sum=0 failed=0
row() { # target, inputs, new, result
	printf '%-44s %12s %6s  %s\n' "$@"
	[[ $2 =~ ^[0-9]+$ ]] && sum=$((sum + $2))
	[ "$4" = ok ] || failed=1
}
printf '%-44s %12s %6s  %s\n' target inputs new result
while read -r package target; do
	[[ $package.$target == *$only* ]] || continue
	log=$here/logs/${package//\//.}.$target
	result=ok
	(cd "$here/$package" && exec ./fuzz -test.run='^$' -test.fuzz="^$target\$" -test.fuzztime="$go_limit" -test.fuzzminimizetime=10x \
		-test.fuzzcachedir="$here/cache/$package") >"$log" 2>&1 </dev/null || result="FAILED: $log"
	# Go ends some runs so when their time is over, with no input that fails.
	grep -q 'context deadline exceeded' "$log" && ! grep -q 'Failing input\|panic:' "$log" && result=ok
	grep -q 'not built with coverage' "$log" && result="FAILED: the binary does not measure coverage"
	last=$(grep -o 'execs: [0-9]*.*' "$log" | tail -1)
	new=$(sed -n 's/.*new interesting: \([0-9]*\).*/\1/p' <<<"$last")
	last=${last#execs: }
	[ "$result" != ok ] || [ -n "$last" ] || result="FAILED: it did not run: $log"
	row "$package.$target" "${last%% *}" "${new:-0}" "$result"
done <targets
if [[ python.events == *$only* ]] && command -v python3 >/dev/null; then
	log=$here/logs/python result=ok processes=$(nproc) inputs=0
	each=$limit
	[[ $limit =~ ^[0-9]+$ ]] && each=$((limit / processes + 1))
	running=()
	for n in $(seq "$processes"); do
		(cd python && exec python3 -m tests.fuzz "$each") >"$log.$n" 2>&1 &
		running+=($!)
	done
	for pid in "${running[@]}"; do wait "$pid" || result="FAILED: $log.*"; done
	for n in $(seq "$processes"); do
		got=$(sed -n 's/^\([0-9]*\) inputs.*/\1/p' "$log.$n")
		inputs=$((inputs + ${got:-0}))
	done
	row python.events "$inputs" - "$result"
fi
printf '%-44s %12s\n' "all" "$sum"
exit $failed
