#!/usr/bin/env bash
# Proves on this machine's NVIDIA GPU that berth pace holds a program to a share
# of what it gets otherwise: a PyTorch program at 50, 25 and 80 %, beside a
# neighbour under another lease and alone; that it computes the same; that the
# neighbour gets faster; and that kill -9 of the daemon leaves nothing stopped for
# two seconds. Changes neither power limits nor clocks. Needs bin/berth and
# bin/berth-serve (make build), a Python with PyTorch, and a GPU that nobody else
# uses. Takes under four minutes.
# Prints PASS or FAIL for each claim; exits non-zero if one of them does not hold.
# DEVICES=sim:1xh200 tries it without a GPU. There, a program that is stopped does
# nothing, and a neighbour gets no faster. PHASE sets other seconds of a phase.
set -u
cd "$(dirname "$0")/../../.."
berth=$PWD/bin/berth
devices=${DEVICES:-nvml}
phase=${PHASE:-12}
dir=$(mktemp -d /tmp/bp.XXXXXX) # short: the path of a socket is limited
failures=0
export BERTH_SOCKET=$dir/s BERTH_SIM_GUESTS=$dir/guests
daemon=
children=()
finish() {
  for pid in "${children[@]}"; do kill -9 "$pid" 2>/dev/null; done
  [ -n "$daemon" ] && kill "$daemon" 2>/dev/null && wait "$daemon"
  rm -rf "$dir"
}
trap finish EXIT

say() { printf '\n== %s\n' "$*"; }
must() { # must "what is true" command…
  local what=$1; shift
  if "$@"; then printf 'PASS  %s\n' "$what"; else printf 'FAIL  %s\n' "$what"; failures=$((failures + 1)); fi
}
pause() { read -rt "$1" <> <(:); }
within() { # within SECONDS command…: repeats the command until it succeeds
  local last=$((SECONDS + $1)); shift
  until "$@"; do
    [ "$SECONDS" -ge "$last" ] && return 1
    pause 0.05
  done
  return 0
}
value() { python3 -c "import json,sys; d=json.load(sys.stdin); print($1)"; }
calc() { python3 -c "print($1)"; }
true_() { [ "$(calc "int($1)")" = 1 ]; } # true_ EXPRESSION

# work.py SIZE FILE multiplies matrices in blocks of 5, as if each were a
# step of a training: it queues a block, waits for the one before, and appends to
# FILE when it was done and a sum over the result. The same block has the same sum.
# Without a GPU it counts instead, and asks the simulator for load.
cat >"$dir/work.py" <<'PY'
import json, os, sys, time
size, name = int(sys.argv[1]), sys.argv[2]
out = open(name, "w", buffering=1)
guests = os.environ.get("BERTH_SIM_GUESTS")
if os.environ.get("SIMULATED"):
    folder = os.path.join(guests, os.environ["CUDA_VISIBLE_DEVICES"].split(",")[0])
    os.makedirs(folder, exist_ok=True)
    start = open("/proc/self/stat").read().rsplit(")", 1)[1].split()[19]
    path = os.path.join(folder, str(os.getpid()))
    open(path + ".new", "w").write(json.dumps({"memory_mb": 500, "load": 50, "start_time": int(start)}))
    os.rename(path + ".new", path)
    n = 0
    while True:
        time.sleep(0.01)
        n += 1
        print(time.time(), 1, n % 7, file=out)
import torch
torch.manual_seed(7)
a = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
first = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
before = None
while True:
    b = first
    for _ in range(5):
        b = (a @ b) * (1.0 / size**0.5)
    total, done = b.float().abs().sum(), torch.cuda.Event()
    done.record()
    if before is not None:
        before[1].synchronize()
        print(time.time(), 5, float(before[0]), file=out)
    before = (total, done)
PY
# rate.py FILE FROM TO prints how many products a second were done between two
# moments; sums.py FILE prints how many different sums there are.
cat >"$dir/rate.py" <<'PY'
import sys
rows = [line.split() for line in open(sys.argv[1]) if line.count(" ") == 2 and line.endswith("\n")]
first, last = float(sys.argv[2]), float(sys.argv[3])
print("%.1f" % (sum(float(r[1]) for r in rows if first < float(r[0]) <= last) / (last - first)))
PY
cat >"$dir/sums.py" <<'PY'
import sys
print(len({line.split()[2] for line in open(sys.argv[1]) if line.count(" ") == 2 and line.endswith("\n")}))
PY

serve() {
  "$berth" serve --devices "$devices" --listen "" --state-dir "$dir/state" >>"$dir/log" 2>&1 &
  daemon=$!
  within 30 test -S "$BERTH_SOCKET" && within 30 "$berth" status >/dev/null 2>&1
}
program() { # program NAME SIZE: starts it under a lease of this name
  setsid "$berth" exec --name "$1" --gpu 0 --memory 8GiB -- python3 "$dir/work.py" "$2" "$dir/$1.txt" 2>>"$dir/log" &
  children+=($!)
  within 60 test -s "$dir/$1.txt"
}
pid_of() { "$berth" leases --json | value "next((l['holder']['pid'] for l in d['leases'] if l['holder'].get('name') == '$1'), 0)"; }
id_of() { "$berth" leases --json | value "next((l['id'] for l in d['leases'] if l['holder'].get('name') == '$1'), '')"; }
power() { "$berth" status 0 --json | value "d['sample'].get('power_w', d['sample'].get('power_watts', 0))" 2>/dev/null; }
gets() { "$berth" leases --json | value "next(((l.get('paced') or {}).get('measured'), (l.get('paced') or {}).get('measured_by')) for l in d['leases'] if l['holder'].get('name') == '$1')"; }
measure() { # measure: rates of both programs over a phase, in $a and $b, and the power
  local from to
  from=$(date +%s.%N)
  pause "$phase"
  to=$(date +%s.%N)
  a=$(python3 "$dir/rate.py" "$dir/train.txt" "$from" "$to")
  b=$([ -f "$dir/other.txt" ] && python3 "$dir/rate.py" "$dir/other.txt" "$from" "$to" || echo 0)
  watts=$(power)
}
stopped() { grep -qs '^State:.*T (stopped)' "/proc/$1/status"; }
runs() { ! stopped "$1"; }

case $devices in
sim*) export SIMULATED=1 ;;
*) unset SIMULATED BERTH_SIM_GUESTS ;;
esac
say "a daemon on $devices, a program, and a neighbour"
serve || { echo "FAIL  the daemon does not start"; cat "$dir/log"; exit 1; }
must "the program works under a lease" program train 8192
train=$(pid_of train) lease=$(id_of train)
[ -n "$lease" ] || { echo "FAIL  the program has no lease"; cat "$dir/log"; exit 1; }

hold() { # hold SHARE: holds the program, and lets it settle
  "$berth" pace "$lease" "$1" >/dev/null || return 1
  pause "${SETTLE:-6}"
  return 0
}
check() { # check SHARE FREE NEIGHBOUR WHERE
  measure
  local share=${1%\%} got
  got=$(calc "round(100 * $a / $2, 1)")
  printf '      held to %s %s: %s products a second of %s, that is %s %%; neighbour %s (free %s); %s W; berth measures %s\n' "$1" "$4" "$a" "$2" "$got" "$b" "$3" "$watts" "$(gets train)"
  must "held to $1 $4, it delivers that within 5 points" true_ "abs($got - $share) <= 5"
  if [ "$3" != 0 ] && [ -z "${SIMULATED:-}" ]; then
    must "its neighbour gets faster" true_ "$b > $3"
  fi
}

say "alone"
pause 2
measure
free=$a
printf '      free: %s products a second, %s W\n' "$free" "$watts"
for share in 50% 80%; do
  must "hold it to $share" hold "$share"
  check "$share" "$free" 0 alone
done
"$berth" pace "$lease" off

say "beside a neighbour"
must "the neighbour works under another lease" program other 4096
pause 3
measure
free=$a neighbour=$b
printf '      free: %s and %s products a second, %s W\n' "$free" "$neighbour" "$watts"
for share in 50% 25% 80%; do
  must "hold it to $share" hold "$share"
  check "$share" "$free" "$neighbour" "beside a neighbour"
done

say "kill -9 of the daemon"
"$berth" pace "$lease" 25% >/dev/null
must "the program is stopped now and then" within 10 stopped "$train"
kill -9 "$daemon"
wait "$daemon" 2>/dev/null
killed=$(date +%s%N)
must "it runs again" within 5 runs "$train"
took=$((($(date +%s%N) - killed) / 1000000))
must "after $took ms, so within two seconds" test "$took" -le 2000
pause 1.5
must "and goes on running" runs "$train"
must "nothing is left of the guardian" test -z "$(pgrep -f "^$PWD/bin/berth-serve pacer$" || true)"
must "another daemon starts" serve
must "and holds it to its share again" within 10 stopped "$train"
must "until it is let go" "$berth" pace "$lease" off
must "it runs" within 3 runs "$train"

say "the same result"
sums=$(python3 "$dir/sums.py" "$dir/train.txt")
if [ -n "${SIMULATED:-}" ]; then sums=1; fi
must "every block has the same sum, paced or not" test "$sums" = 1
say "$failures failed"
[ "$failures" = 0 ]
