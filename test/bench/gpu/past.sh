#!/usr/bin/env bash
# Tries what berth remembers and shows on this machine's NVIDIA GPU: what the past
# costs an idle daemon, whether it holds what nvidia-smi saw, whether it outlives
# kill -9, what the page asks of the daemon, the names of dcgm-exporter, the
# terminal view and the report. Needs bin/berth and bin/berth-serve, and a Python
# with PyTorch. Changes nothing on the device. Prints PASS or FAIL for each claim;
# exits non-zero if one of them does not hold.
set -u
cd "$(dirname "$0")/../../.."
berth=bin/berth
dir=$(mktemp -d)
out=${OUT:-$dir}
failures=0
export BERTH_SOCKET=$dir/berth.sock
daemon= worker= watcher=
finish() { for p in $worker $watcher $daemon; do kill "$p" 2>/dev/null; done; wait; rm -rf "$dir"; }
trap finish EXIT

say() { printf '\n== %s\n' "$*"; }
must() { # must "what is true" command…
  local what=$1; shift
  if "$@"; then printf 'PASS  %s\n' "$what"; else printf 'FAIL  %s\n' "$what"; failures=$((failures + 1)); fi
}
rest() { read -rt "$1" <> <(:); }
is() { [ "$(python3 -c "print(int($1))")" = 1 ]; }
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
query() { # query EXPR [TIME]: prints the first value of the answer, or "none"
  ask "/api/v1/query?query=$(python3 -c 'import sys, urllib.parse; print(urllib.parse.quote(sys.argv[1]))' "$1")${2:+&time=$2}" |
    python3 -c 'import json, sys; r = json.load(sys.stdin)["data"]["result"]; print(r[0]["value"][1] if r else "none")'
}
busy() { cat "/proc/$1"/task/*/schedstat | awk '{ns+=$1} END {printf "%.0f", ns/1000}'; } # prints microseconds of CPU
start() { # start VARIABLE=VALUE…: starts the daemon
  env "$@" $berth serve --devices nvml --state-dir "$dir/state" --listen '' 2>>"$dir/log" &
  daemon=$!
  for _ in $(seq 100); do ask /readyz >/dev/null 2>&1 && return; rest 0.1; done
  echo "the daemon does not start"; cat "$dir/log"; exit 1
}
stop() { kill "$daemon"; wait "$daemon" 2>/dev/null; daemon=; }
cost() { # cost SECONDS: sets percent and rss
  local before after begin end
  before=$(busy $daemon); begin=$(date +%s.%N)
  rest "$1"
  after=$(busy $daemon); end=$(date +%s.%N)
  percent=$(python3 -c "print(f'{($after-$before)/1e6/($end-$begin)*100:.3f}')")
  rss=$(($(awk '/VmRSS/{print $2}' "/proc/$daemon/status") / 1024))
  echo "CPU $percent % of one core over $1 s, memory $rss MiB"
}

say "machine"
echo "commit   $($berth version 2>/dev/null | head -1)"
echo "kernel   $(uname -r), $(nproc) CPUs"
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader

say "a minute for a machine that has just started"
start BERTH_PAST_STORE=off
rest 60

say "the idle daemon without a past"
cost 60
must "under 0.1 % of a core" is "$percent < 0.1"
stop

say "the idle daemon with a past"
start BERTH_METRICS_COMPAT=dcgm
rest 20
cost 60
must "under 0.2 % of a core" is "$percent < 0.2"
must "under 120 MiB" is "$rss < 120"

say "a program under a lease, remembered"
cat >"$dir/load.py" <<'PY'
import sys, time, torch
x = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    for _ in range(50):
        y = x @ x
    torch.cuda.synchronize()
PY
nvidia-smi --query-gpu=timestamp,power.draw,temperature.gpu,memory.used,memory.reserved --format=csv,noheader,nounits -lms 500 >"$dir/smi.csv" &
watcher=$!
$berth exec --memory 4GiB --name remembered -- python3 "$dir/load.py" 90 &
worker=$!
rest 80
now=$(date +%s)
for pair in "power.draw:gpu_power_usage_watts:2" "temperature.gpu:gpu_temperature_celsius:3" "memory, what the driver reserves included,:gpu_memory_usage_mb:4"; do
  IFS=: read -r theirs ours column <<<"$pair"
  mine=$(query "avg_over_time($ours[30s])" "$now")
  smi=$(tail -60 "$dir/smi.csv" | awk -F', ' -v c="$column" '{s+=$c + (c == 4 ? $5 : 0); n++} END {printf "%.2f", s/n}')
  echo "$ours: berth $mine, nvidia-smi $smi (averages of the last 30 s)"
  must "$theirs agrees within 3 %" is "abs($mine - $smi) <= 0.03 * $smi"
done
used=$(query 'berth_lease_used_mb{lease=~".*/remembered.*"}')
echo "the lease used $used MB"
must "the store knows what the lease uses" is "'$used' != 'none' and 400 < float('$used') < 4096"
fb=$(ask /metrics | sed -n 's/^DCGM_FI_DEV_FB_USED{.*} //p')
smi=$(tail -1 "$dir/smi.csv" | awk -F', ' '{print $4 + $5}')
echo "DCGM_FI_DEV_FB_USED $fb, nvidia-smi $smi, what the driver reserves included"
must "the names of dcgm-exporter have the figures of the device" is "abs(float('${fb:-0}') - $smi) <= 0.03 * $smi"
$berth top --once 2>&1 | head -60
wait "$worker" 2>/dev/null; worker=
kill "$watcher"; watcher=

say "kill -9"
kill -9 "$daemon"; killed=$(date +%s); wait "$daemon" 2>/dev/null
start BERTH_METRICS_COMPAT=dcgm
last=$(query "max_over_time(timestamp(gpu_temperature_celsius)[2m:1s])" "$killed")
echo "the last sample before the kill is $(python3 -c "print(f'{$killed - $last:.1f}')") s older than it"
must "at most the last few seconds are lost" is "$killed - $last <= 5"

say "what a page that is open asks of the daemon, over a minute"
cat >"$dir/page.py" <<'PY'
import http.client, socket, sys, threading, time
class Local(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX); self.sock.connect(sys.argv[1])
def follow():
    c = Local("localhost"); c.request("GET", "/api/events"); r = c.getresponse()
    while r.read1(4096): pass
threading.Thread(target=follow, daemon=True).start()
c, end, n = Local("localhost"), time.monotonic() + float(sys.argv[2]), 0
while time.monotonic() < end:
    for path in ["/api/gpu/status/all"] + (["/api/leases", "/api/batches", "/api/alerts"] if n % 5 == 0 else []):
        c.request("GET", path); c.getresponse().read()
    n += 1; time.sleep(1)
PY
python3 "$dir/page.py" "$BERTH_SOCKET" 70 &
worker=$!
rest 5
cost 60
must "under 1 % of a core" is "$percent < 1"
wait "$worker"; worker=

say "the report"
$berth report --since 1h --html "$out/report.html" && ls -l "$out/report.html"
must "the report is there" test -s "$out/report.html"
$berth report --since 1h --markdown="$out/report.md"; head -40 "$out/report.md" 2>/dev/null
$berth status
$berth alerts
du -sk "$dir/state" | awk '{print "the state folder takes " $1 " KiB"}'

cat "$dir/log"
printf '\n%d failed\n' "$failures"
exit "$failures"
