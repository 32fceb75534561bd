#!/usr/bin/env bash
# Proves on this machine's NVIDIA GPU what berth does for a pod, without Kubernetes: a
# PyTorch program in a container of runc gets what its claim was allocated. The program
# bundle leases as the driver does, writes the same CDI file, and applies it and a
# stand-in for that of NVIDIA's toolkit to an OCI spec whose root is this machine's.
# The container sees its GPU and no other device, is held to its memory, is told by its
# control group, and is stopped without losing its lease. Needs root, bin/berth,
# bin/berth-serve, bin/bundle and bin/runc (make gpu-container), and a Python with
# PyTorch. Prints PASS or FAIL for each claim, and ends with 0 if all of them hold.
set -u
cd "$(dirname "$0")/../../.."
berth=$PWD/bin/berth runc="$PWD/bin/runc"
dir=$(mktemp -d /tmp/bc.XXXXXX) # short: the path of a socket is limited
chmod 755 "$dir" # the programs run as another user
failures=0
export HOME=/tmp BERTH_SOCKET=$dir/s
declare -A process
daemon= running=() one= two= three=
finish() {
  for name in "${running[@]}"; do "$runc" --root "$dir/runc" delete --force "$name" 2>/dev/null; done
  [ -n "$daemon" ] && kill "$daemon" 2>/dev/null && wait "$daemon" 2>/dev/null
  for pod in $one $two $three; do
    find /sys/fs/cgroup -depth -type d -path "*kubepods/besteffort/pod$pod*" -exec rmdir {} + 2>/dev/null
  done
  umount -R -l "$dir/root" 2>/dev/null
  rm -rf --one-file-system "$dir"
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
begin() { # begin: starts the daemon as it runs on a node
  "$berth" serve --config "$dir/berth.yaml" --devices nvml --state-dir "$dir/state" --listen '' 2>>"$dir/log" &
  daemon=$!
  within 20 answers
}
cat >"$dir/berth.yaml" <<'Y'
daemon: {container_callers: token}
gpu: {monitor_interval: 0.5, over_limit: warn, memory_reserve_mb: 0}
services:
  strict: {over_limit: stop, max_memory_mb: 40960}
Y

# The containers have the files of this machine.
mkdir "$dir/root" && mount --rbind / "$dir/root" && mount --make-rslave "$dir/root" || exit 1

# Three pods, each with a claim of its own. The claims are as the scheduler leaves them.
one=11111111-aaaa-4aaa-8aaa-000000000001 two=22222222-aaaa-4aaa-8aaa-000000000002 three=33333333-aaaa-4aaa-8aaa-000000000003
claim() { # claim FILE NAME CLAIM-UID POD-UID MEMORY PARAMETERS
  cat >"$1" <<J
{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "$2", "namespace": "lab", "uid": "$3"},
 "status": {"reservedFor": [{"resource": "pods", "name": "$2", "uid": "$4"}],
  "allocation": {"devices": {
   "results": [{"request": "gpu", "driver": "gpu.berth.dev", "pool": "node-1", "device": "$device", "shareID": "00000000-0000-4000-8000-0000000000${3: -2}", "consumedCapacity": {"memory": "$5", "slots": "1"}}],
   "config": [{"source": "FromClaim", "requests": [], "opaque": {"driver": "gpu.berth.dev", "parameters": $6}}]}}}}
J
}
parameters() { echo "{\"apiVersion\": \"gpu.berth.dev/v1alpha1\", \"kind\": \"Lease\"$1}"; }
start() { # start NAME CLAIM-FILE UID [-bare] -- COMMAND…: runs a container in the background; its output is in NAME.log
  local name=$1 file=$2 uid=$3; shift 3
  bin/bundle -claim "$file" -cdi "$dir/cdi" -root "$dir/root" -out "$dir/$name" -uid "$uid" "$@" >"$dir/$name.lease" 2>&1 || { cat "$dir/$name.lease"; return 1; }
  running+=("$name")
  "$runc" --root "$dir/runc" run --bundle "$dir/$name" "$name" >"$dir/$name.log" 2>&1 &
  process[$name]=$!
}
ended() { ! kill -0 "${process[$1]}" 2>/dev/null; }
has() { grep -q -- "$2" "$dir/$1.log" 2>/dev/null; }
lease() { "$berth" leases --json | python3 -c 'import json, sys
l = [l for l in json.load(sys.stdin)["leases"] if l["id"] == sys.argv[1]]
print(eval(sys.argv[2], {"l": l[0] if l else None, "p": l[0].get("processes", []) if l else [], "part": l[0]["parts"][0] if l else {}}))' "$1" "$2"; }
is() { [ "$(lease "$1" "$2")" = "$3" ]; }
foreign() { curl -s --unix-socket "$BERTH_SOCKET" http://berth/api/gpu/memory/available 2>/dev/null | python3 -c 'import json,sys; print(json.load(sys.stdin)["gpus"][0]["foreign_mb"])'; }

cat >"$dir/see.py" <<'PY'
import glob, os, torch
print("gpus", torch.cuda.device_count(), torch.cuda.get_device_properties(0).uuid, flush=True)
print("nodes", " ".join(sorted(os.path.basename(p) for p in glob.glob("/dev/nvidia*"))), flush=True)
print("pid", os.getpid(), "uid", os.getuid(), "limit", os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or os.environ.get("PYTORCH_ALLOC_CONF"), "lease", os.environ.get("BERTH_LEASE"), flush=True)
PY
cat >"$dir/hold.py" <<'PY'
# hold.py GIB [limit]: takes memory, says so, and waits; with limit, goes on until there is no more.
import os, sys, signal
if os.environ.pop("FORGET", ""):
    for name in list(os.environ):
        if name.startswith(("PYTORCH", "BERTH_", "CUPY", "XLA")):
            del os.environ[name]
import torch
held = [torch.empty(1 << 30, dtype=torch.uint8, device="cuda").fill_(1) for _ in range(int(sys.argv[1]))]
torch.cuda.synchronize()
print("holds", len(held), flush=True)
if len(sys.argv) > 2:
    try:
        while True:
            held.append(torch.empty(1 << 28, dtype=torch.uint8, device="cuda"))
            if len(held) > 400:
                break
    except torch.OutOfMemoryError as e:
        print("refused after", torch.cuda.memory_reserved() >> 20, "MiB", flush=True)
signal.pause()
PY

say "machine"
echo "commit   $($berth version 2>/dev/null | head -1)"
echo "kernel   $(uname -r), $(nproc) CPUs, $(stat -fc %T /sys/fs/cgroup)"
echo "runc     $("$runc" --version | head -1)"
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
python3 -c 'import torch; print("torch   ", torch.__version__)'
must "the daemon answers" begin
uuid=$("$berth" status --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["gpus"][0]["device"]["uuid"])')
device=$(tr A-Z a-z <<<"$uuid")
# What the program before this one had may still be on its way back, and would make the
# first figure too large: the figures below are differences to it.
quiet() { # quiet: no program is on the GPU, and the figure stays as it is
  local figure; figure=$(foreign)
  [ -n "$figure" ] && [ -z "$(nvidia-smi --query-compute-apps=pid --format=csv,noheader)" ] || return 1
  for _ in 1 2 3; do
    pause 1 # the daemon measures twice a second
    [ "$(foreign)" = "$figure" ] || return 1
  done
}
must "nobody else uses the GPU" within 120 quiet
[ $failures = 0 ] || exit 1 # no figure below would mean anything
first=$(foreign)
echo "GPU      $uuid, $first MiB used by nobody's programs"
"$berth" token create kubernetes --role operator --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])' >"$dir/token"
chmod 600 "$dir/token"
export BERTH_TOKEN_FILE=$dir/token
c1=c1aaaaaa-0000-4000-8000-000000000001 c2=c2aaaaaa-0000-4000-8000-000000000002 c3=c3aaaaaa-0000-4000-8000-000000000003
claim "$dir/one.json" embedder $c1 $one 20Gi "$(parameters ', "caps": ["torch"]')"
claim "$dir/two.json" strict $c2 $two 8Gi "$(parameters ', "service": "strict", "enforce": "watchdog"')"
claim "$dir/three.json" forger $c3 $three 4Gi "$(parameters '')"

say "a pod of 20 GiB, as user 1000"
must "it starts" start see "$dir/one.json" 1000 -- python3 "$dir/see.py"
must "it ends" within 60 ended see
sed 's/^/      /' "$dir/see.lease" "$dir/see.log"
must "it sees one GPU, the leased one" has see "gpus 1 ${uuid#GPU-}"
must "it has the device files of its GPU and no other" has see "nodes nvidia-uvm nvidia-uvm-tools nvidia0 nvidiactl"
must "it is process 1 of its own namespace, and not root" has see "pid 1 uid 1000"
must "its environment names its lease and its limit" has see "per_process_memory_fraction:0.*lease $c1"
[ $failures = 0 ] || exit 1 # nothing below can hold
fence=$(lease $c1 'l["fence"]')

say "held to its memory"
must "it starts again with the same lease" start held "$dir/one.json" 1000 -- python3 "$dir/hold.py" 10 limit
must "the lease stood" grep -q "fence $fence stood true" "$dir/held.lease"
must "PyTorch refuses more than the lease" within 90 has held "refused after"
sed 's/^/      /' "$dir/held.log"
must "it stays within 20 GiB with its context" within 10 eval '[ "$(lease $c1 "19000 < part.get(\"measured_mb\", 0) <= 20480")" = True ]'
echo "      measured $(lease $c1 'part.get("measured_mb")') MiB of $(lease $c1 'part["memory_mb"]')"

say "told by its control group"
must "the process belongs to the lease by its scope" is $c1 '[q["evidence"] for q in p]' "['scope']"
must "nothing of it counts as foreign" eval '[ $(( $(foreign) - first )) -lt 600 ]'
must "a pod that names the lease of another, and has none, starts" start forger "$dir/three.json" 0 -bare -- env BERTH_LEASE=$c1 BERTH_FENCE=$fence python3 "$dir/hold.py" 3
must "it takes 3 GiB" within 60 has forger "holds 3"
must "its memory is foreign" within 10 eval '[ $(( $(foreign) - first )) -gt 3000 ]'
must "and the lease that it names still has one process" is $c1 'len(p)' 1
"$runc" --root "$dir/runc" kill forger KILL
must "it ends" within 20 ended forger

say "stopped without losing its lease"
must "a pod of 8 GiB starts" start strict "$dir/two.json" 1000 -- env FORGET=1 python3 "$dir/hold.py" 6
must "it takes 6 GiB, with its environment thrown away" within 60 has strict "holds 6"
must "it belongs to its lease by its scope" within 10 is $c2 '[q["evidence"] for q in p]' "['scope']"
strict=$(lease $c2 'l["fence"]')
"$runc" --root "$dir/runc" kill strict KILL
must "it ends" within 20 ended strict
must "started again, it takes more than its lease" start over "$dir/two.json" 1000 -- env FORGET=1 python3 "$dir/hold.py" 12
must "it takes 12 GiB" within 60 has over "holds 12"
begun=$(date +%s%N)
must "berth ends it" within 30 ended over
echo "      $((($(date +%s%N) - begun) / 1000000)) ms after it had all of it; the first process of a container ignores SIGTERM, so it ends by SIGKILL"
must "the lease stands, with its fence" is $c2 'l["state"], l["fence"]' "('active', $strict)"
must "its neighbour runs on" eval '! ended held'
must "the daemon runs on" kill -0 "$daemon"
must "it starts once more under the same lease" start again "$dir/two.json" 1000 -- env FORGET=1 python3 "$dir/hold.py" 5
must "the lease stood" grep -q "fence $strict stood true" "$dir/again.lease"
must "and works" within 60 has again "holds 5"
must "its memory is charged to its lease" within 10 eval '[ "$(lease $c2 "part.get(\"measured_mb\", 0) > 5000")" = True ]'
"$berth" events 2>/dev/null | grep -i "over\|stop\|limit" | tail -4 | sed 's/^/      /'

say "kill -9 of the daemon"
kill -9 "$daemon"; wait "$daemon" 2>/dev/null
must "the daemon answers again" begin
must "both leases stand, with their fences" eval 'is $c1 "l[\"fence\"]" "$fence" && is $c2 "l[\"fence\"]" "$strict"'
must "both programs still belong to them" within 10 eval 'is $c1 "len(p)" 1 && is $c2 "len(p)" 1'
for name in held again; do "$runc" --root "$dir/runc" kill "$name" KILL; done
must "the containers end" within 20 eval 'ended held && ended again'
must "the leases are released" eval "$berth release $c1 >/dev/null && $berth release $c2 >/dev/null"
must "nobody holds a lease" sh -c "$berth leases | grep -q ^Nobody"
must "nothing is left on the GPU" within 10 eval '[ $(( $(foreign) - first )) -lt 600 ]'

say "$([ $failures = 0 ] && echo "all claims hold" || echo "$failures claims do not hold")"
exit $((failures > 0))
