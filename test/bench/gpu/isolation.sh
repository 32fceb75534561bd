#!/usr/bin/env bash
# Proves on this machine's NVIDIA GPU that a program under --isolation cgroup uses
# the GPU that it has leased, and that the kernel does not let it open another
# one, also after the daemon was killed; then measures what that costs at exec.
# Needs root, bin/berth, bin/berth-serve and bin/filtered (make build; go build -o
# bin/filtered ./test/bench/gpu/filtered), and a Python with PyTorch. Prints PASS or
# FAIL for each claim. Ends with 0 if all of them hold, with 2 if this machine
# cannot isolate programs so, after it has shown what berth says about that, and
# else with 1. DEVICES=sim:h200 shows the refusal for a simulated GPU.
set -u
cd "$(dirname "$0")/../../.."
berth=$PWD/bin/berth
devices=${DEVICES:-nvml}
dir=$(mktemp -d /tmp/bi.XXXXXX) # short: the path of a socket is limited
failures=0
export BERTH_SOCKET=$dir/s
daemon= pids=()
finish() {
  for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null; done
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
    pause 0.1
  done
  return 0
}
answers() { "$berth" leases >/dev/null 2>&1; }
begin() { # begin: starts the daemon
  "$berth" serve --devices "$devices" --state-dir "$dir/state" --listen '' 2>>"$dir/log" &
  daemon=$!
  within 20 answers
}

# open.py FILE… prints what the kernel answers for each file.
cat >"$dir/open.py" <<'PY'
import errno, os, sys
for path in sys.argv[1:]:
    try:
        os.close(os.open(path, os.O_RDWR))
        print(os.path.basename(path), "ok")
    except OSError as e:
        print(os.path.basename(path), errno.errorcode[e.errno])
PY
cat >"$dir/multiply.py" <<'PY'
import sys, torch
a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
total = (a @ a).float().abs().sum().item()
print("multiplied on", torch.cuda.get_device_name(0), "of", torch.cuda.device_count(), flush=True)
print("groups:", open("/proc/self/cgroup").read().strip(), flush=True)
sys.exit(not total > 0)
PY

say "machine"
echo "commit   $($berth version 2>/dev/null | head -1)"
echo "kernel   $(uname -r), $(nproc) CPUs"
[ "$devices" = nvml ] && nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
must "the daemon answers" begin

say "what berth says about isolation here"
if ! $berth exec --isolation cgroup -- true 2>"$dir/refusal"; then
  sed 's/^/      /' "$dir/refusal"
  must "the refusal says why" grep -q . "$dir/refusal"
  must "nobody holds a lease afterwards" sh -c "$berth leases | grep -q ^Nobody"
  echo "could not be asked: this machine cannot isolate programs by control groups"
  exit $((failures > 0 ? 1 : 2))
fi
COLUMNS=120 $berth exec --isolation cgroup --memory 8GiB --dry-run -- true | sed 's/^/      /'

say "a program under isolation"
must "it multiplies matrices on the leased GPU" $berth exec --isolation cgroup --memory 8GiB -- python3 "$dir/multiply.py"
other=$dir/nvidia7
mknod -m 666 "$other" c 195 7
outside=$(python3 "$dir/open.py" /dev/nvidia0 "$other" /dev/nvidiactl /dev/nvidia-uvm | paste -sd' ')
inside=$($berth exec --isolation cgroup -- python3 "$dir/open.py" /dev/nvidia0 "$other" /dev/nvidiactl /dev/nvidia-uvm | paste -sd' ')
echo "      outside: $outside"
echo "      inside:  $inside"
must "it opens its own GPU, and not the device file of another one" [ "$inside" = "nvidia0 ok nvidia7 EPERM nvidiactl ok nvidia-uvm ok" ]
must "without isolation, another GPU that is not there answers otherwise" eval '! grep -q EPERM <<<"$outside"'
must "it cannot make a device file for another GPU" eval '! $berth exec --isolation cgroup -- mknod "$dir/own" c 195 8 2>/dev/null'

say "a program that has leased another GPU than the one of this machine"
if [ -x bin/filtered ]; then
  foreign=$(bin/filtered 7 -- python3 "$dir/open.py" /dev/nvidia0 /dev/nvidiactl | paste -sd' ')
  echo "      $foreign"
  must "it cannot open /dev/nvidia0" [ "$foreign" = "nvidia0 EPERM nvidiactl ok" ]
  must "PyTorch finds no GPU there" bin/filtered 7 -- python3 -c 'import torch; raise SystemExit(torch.cuda.is_available())'
  must "the same with its own GPU finds it" bin/filtered 0 -- python3 -c 'import torch; raise SystemExit(not torch.cuda.is_available())'
  find /sys/fs/cgroup -depth -type d -name 'berth-*-bench' -exec rmdir {} + 2>/dev/null
else
  must "bin/filtered is built" false
fi

say "the workers of a run"
cat >"$dir/worker.py" <<'PY'
import os, sys
sys.path.insert(0, os.environ["BERTH_PYTHON"])
import berth, errno
def work(records):
    try:
        os.close(os.open(os.environ["OTHER"], os.O_RDWR)); other = "ok"
    except OSError as e:
        other = errno.errorcode[e.errno]
    os.close(os.open("/dev/nvidia0", os.O_RDWR))
    return [{"id": r["id"], "other": other, "group": open("/proc/self/cgroup").read().split("/")[-1].strip()} for r in records]
berth.worker(work)
PY
for i in 1 2 3; do echo "{\"id\": $i}"; done >"$dir/in.jsonl"
must "they do their work" env BERTH_PYTHON="$PWD/python" OTHER="$other" "$berth" run --isolation cgroup --input "$dir/in.jsonl" --output "$dir/out.jsonl" -- python3 "$dir/worker.py"
sed 's/^/      /' "$dir/out.jsonl" 2>/dev/null
must "none of them opens another GPU" eval '[ "$(grep -c EPERM "$dir/out.jsonl")" = 3 ]'

say "the daemon is killed"
$berth exec --isolation cgroup --name survivor -- sh -c 'touch "$0/began"; while ! [ -e "$0/go" ]; do sleep 0.1; done; python3 "$0/open.py" /dev/nvidia0 "$0/nvidia7" >"$0/after"' "$dir" &
pids+=($!)
holds() { "$berth" leases --json 2>/dev/null | python3 -c 'import json,sys; sys.exit(not any(l["id"].startswith("survivor-") and l.get("isolated_by") == "cgroup" for l in json.load(sys.stdin)["leases"]))' 2>/dev/null; }
must "a program begins" within 10 [ -e "$dir/began" ]
must "its lease says isolated_by cgroup" holds
kill -9 "$daemon"; wait "$daemon" 2>/dev/null
must "the daemon is back" begin
must "the lease still says isolated_by cgroup" within 10 holds
touch "$dir/go"
wait "${pids[0]}"; pids=()
echo "      $(paste -sd' ' "$dir/after")"
must "the filter held all the while" [ "$(paste -sd' ' "$dir/after")" = "nvidia0 ok nvidia7 EPERM" ]
tag=$(basename "$(find /sys/fs/cgroup -type d -name 'berth-*' | head -1)" 2>/dev/null)
none() { ! find /sys/fs/cgroup -type d -name 'berth-*' | grep -q .; }
must "no control group is left${tag:+ ($tag goes)}" within 10 none

say "what it costs"
for way in env cgroup env cgroup; do
  began=$(date +%s%N)
  for _ in $(seq 100); do $berth exec --isolation $way -- /bin/true; done
  printf '      100 times berth exec --isolation %-6s  %d us each\n' "$way" $((($(date +%s%N) - began) / 100000))
done
must "no control group is left" within 10 none

say "the log of the daemon"
cat "$dir/log"
printf '\n%d failed, after %d s\n' "$failures" "$SECONDS"
exit $((failures > 0))
