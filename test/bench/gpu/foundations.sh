#!/usr/bin/env bash
# Tries berth on this machine's NVIDIA GPU and measures what monitoring costs.
# Needs bin/berth and bin/samplecost (make gpu builds both) and, for the part
# with a process, a Python with PyTorch, CuPy or JAX. Changes nothing on the
# device. Prints PASS or FAIL for each claim; exits non-zero if one of them does
# not hold.
set -u
cd "$(dirname "$0")/../../.."
berth=bin/berth
dir=$(mktemp -d)
failures=0
export BERTH_SOCKET=$dir/berth.sock
daemon= worker=
finish() { [ -n "$worker" ] && kill "$worker" 2>/dev/null; [ -n "$daemon" ] && kill "$daemon" 2>/dev/null; wait; rm -rf "$dir"; }
trap finish EXIT

say() { printf '\n== %s\n' "$*"; }
must() { # must "what is true" command…
  local what=$1; shift
  if "$@"; then printf 'PASS  %s\n' "$what"; else printf 'FAIL  %s\n' "$what"; failures=$((failures + 1)); fi
}
value() { python3 -c "import json,sys; d=json.load(sys.stdin); print($1)"; }
ask() { # ask PATH: gets a path of the API without curl, which a GPU image may not have
  python3 - "$BERTH_SOCKET" "$1" <<'PY'
import http.client, socket, sys
class Local(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX); self.sock.connect(sys.argv[1])
c = Local("localhost"); c.request("GET", sys.argv[2]); r = c.getresponse()
sys.stdout.write(r.read().decode()); sys.exit(0 if r.status == 200 else 1)
PY
}
busy() { cat "/proc/$1"/task/*/schedstat | awk '{ns+=$1} END {printf "%.0f", ns/1000}'; } # prints microseconds of CPU; ticks are too coarse

say "machine"
echo "commit   $($berth version 2>/dev/null | head -1)"
echo "kernel   $(uname -r), $(nproc) CPUs"
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader

say "the daemon finds the device"
BERTH_PAST_STORE=off $berth serve --devices nvml --state-dir "$dir/state" --listen '' 2>"$dir/log" &
daemon=$!
for _ in $(seq 100); do ask /readyz >/dev/null 2>&1 && break; read -rt 0.1 <> <(:); done
must "the daemon is ready" ask /readyz
echo
uuid=$(ask /api/gpu/status | value "d['device']['uuid']")
must "the UUID is the one nvidia-smi shows ($uuid)" [ "$uuid" = "$(nvidia-smi --query-gpu=uuid --format=csv,noheader | head -1)" ]
ask /api/gpu/status | python3 -m json.tool

say "a process and its memory"
cat >"$dir/hold.py" <<'PY'
import sys
try:
    import torch
    x = torch.zeros(3 << 28, device="cuda"); torch.cuda.synchronize()   # 3 GiB
except ImportError:
    import cupy
    x = cupy.zeros(3 << 28, dtype="float32"); cupy.cuda.Device().synchronize()
print("holding", flush=True)
sys.stdin.read()
PY
exec 9<> <(:)
mkfifo "$dir/out"
python3 "$dir/hold.py" <&9 >"$dir/out" &
worker=$!
read -r _ <"$dir/out"
read -rt 2.5 <> <(:) # two intervals, so that a sample has seen it
seen=$(ask /api/gpu/status | value "next((p.get('memory_mb') for p in d['sample']['processes'] if p['pid']==$worker), 'absent')")
echo "berth says that process $worker holds $seen MB"
must "berth sees at least the 3072 MB that it took" [ "${seen%%[!0-9]*}" -ge 3072 ]
$berth status
kill "$worker"; wait "$worker" 2>/dev/null; worker=
read -rt 2.5 <> <(:)
must "the sample no longer has it after it ended" [ "$(ask /api/gpu/status | value "len([p for p in d['sample']['processes'] if p['name']=='python3'])")" = 0 ]

say "what a reading costs"
bin/samplecost -json >"$dir/cost.json" && bin/samplecost -limit 1s
must "a fast sample has a median of at most 50 µs" [ "$(value "int(d['fast']['median_us'] <= 50)" <"$dir/cost.json")" = 1 ]

say "what the idle daemon costs, over a minute at the default interval"
fast() { ask /metrics | awk '/^berth_sample_duration_seconds_(sum|count)\{.*tier="fast"/{print $2}' | tr '\n' ' '; }
readings=$(fast); before=$(busy $daemon); start=$(date +%s.%N)
read -rt 60 <> <(:)
after=$(busy $daemon); end=$(date +%s.%N)
percent=$(python3 -c "print(f'{($after-$before)/1e6/($end-$start)*100:.3f}')")
rss=$(awk '/VmRSS/{print $2}' "/proc/$daemon/status")
echo "CPU $percent % of one core ($(((after - before) / 1000)) ms in 60 s), memory $((rss / 1024)) MiB"
must "under 0.1 % of a core" [ "$(python3 -c "print(int($percent < 0.1))")" = 1 ]
python3 - $readings $(fast) <<'PY'
import sys
sum0, count0, sum1, count1 = map(float, sys.argv[1:])
print(f"a fast (cold) reading in the idle daemon, once a second: {(sum1-sum0)/(count1-count0)*1e6:.0f} µs on average of {count1-count0:.0f}")
PY

say "doctor, trend and events"
$berth doctor
ask '/api/gpu/temperature/trend?minutes=2'; echo
$berth events
cat "$dir/log"

printf '\n%d failed\n' "$failures"
exit "$failures"
