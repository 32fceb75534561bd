#!/usr/bin/env bash
# Proves on this machine's NVIDIA GPU that programs keep to their leases: their
# libraries, the driver (through MPS) and the watchdog enforce them. Needs
# bin/berth (make build) and a Python with PyTorch, JAX and CuPy; MPS needs
# nvidia-cuda-mps-control, and about 90 GiB of the GPU have to be free. Changes
# no setting of the device. Prints PASS or FAIL for each claim; exits non-zero
# if one of them does not hold.
set -u
cd "$(dirname "$0")/../../.."
berth=$PWD/bin/berth
dir=$(mktemp -d /tmp/bx.XXXXXX) # short: the path of a socket is limited
failures=0
export BERTH_SOCKET=$dir/s
daemon=
running=()
finish() {
  for pid in "${running[@]}"; do kill -9 "$pid" 2>/dev/null; done
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
value() { python3 -c "import json,sys; d=json.load(sys.stdin); print($1)"; }
lease() { "$berth" leases --json | value "next((l['$2'] for l in d['leases'] if l['holder'].get('name')=='$1'), '')"; }
measured() { "$berth" leases --json | value "next((l['parts'][0].get('measured_mb', 0) for l in d['leases'] if l['holder'].get('name')=='$1'), 0)"; }
event() { "$berth" events --json | grep -E "\"code\":\"$1\".*\"lease\":\"$2-" | head -1; }
has() { [[ $1 == *$2* ]]; }
gone() { [ -z "$(lease "$1" id)" ]; }
within() { # within SECONDS command…: repeats the command until it succeeds
  local last=$((SECONDS + $1)); shift
  until "$@"; do
    [ "$SECONDS" -ge "$last" ] && return 1
    pause 0.1
  done
  return 0
}

# take.py LIBRARY GIB takes memory in pieces of 256 MiB until it has that much or
# is refused, prints how much it got and when, and keeps it until its input ends.
cat >"$dir/take.py" <<'PY'
import sys, time
library, wanted = sys.argv[1], int(float(sys.argv[2]) * 4)
piece, kept, why = 256 << 20, [], ""
if library == "torch":
    import torch
    more = lambda: torch.zeros(piece, dtype=torch.uint8, device="cuda")
    settle = torch.cuda.synchronize
elif library == "jax":
    import jax, jax.numpy as jnp
    more = lambda: jnp.zeros(piece, dtype=jnp.uint8).block_until_ready()
    settle = lambda: None
elif library == "cupy":
    import cupy
    more = lambda: cupy.zeros(piece, dtype=cupy.uint8)
    settle = lambda: cupy.cuda.Device().synchronize()
else:  # plain CUDA, without a library that could limit itself
    import ctypes
    cuda = ctypes.CDLL("libcuda.so.1")
    def call(name, *arguments):
        result = getattr(cuda, name)(*arguments)
        if result:
            raise MemoryError("%s: CUDA error %d" % (name, result))
    device, context = ctypes.c_int(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    def more():
        address = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(piece))
        return address
    settle = lambda: None
try:
    for _ in range(wanted):
        kept.append(more())
    settle()
except Exception as error:
    why = "%s: %s" % (type(error).__name__, str(error).split("\n")[0][:100])
print("%s %d %.3f %s" % ("refused" if why else "took", len(kept) * 256, time.time(), why), flush=True)
sys.stdin.read()
PY

# begin NAME FLAGS… -- LIBRARY GIB starts take.py under a lease; answer NAME
# reads its output into $word, $mib, $when and $why; end NAME ends it.
declare -A pids ins outs
begin() {
  local name=$1; shift
  local flags=()
  while [ "$1" != -- ]; do flags+=("$1"); shift; done
  shift
  mkfifo "$dir/$name.in" "$dir/$name.out"
  ( # closes the pipes of the others, which would not end while it has them open
    for fd in "${ins[@]}" "${outs[@]}"; do eval "exec $fd>&-"; done
    exec "$berth" exec --name "$name" "${flags[@]}" -- python3 "$dir/take.py" "$@" <"$dir/$name.in" >"$dir/$name.out" 2>"$dir/$name.err"
  ) &
  pids[$name]=$!
  running+=($!)
  exec {ins[$name]}>"$dir/$name.in" {outs[$name]}<"$dir/$name.out"
}
answer() {
  if ! read -r -t 90 -u "${outs[$1]}" word mib when why; then
    word=died mib=0 when=0 why=$(tail -1 "$dir/$1.err")
  fi
  echo "      $1: $word at $mib MiB ${why:+($why)}"
}
hang_up() {
  exec {ins[$1]}>&- {outs[$1]}<&-
  unset "ins[$1]" "outs[$1]"
}
end() { hang_up "$1"; wait "${pids[$1]}"; }

say "machine"
echo "commit   $($berth version 2>/dev/null | head -1)"
echo "kernel   $(uname -r), $(nproc) CPUs"
nvidia-smi --query-gpu=name,driver_version,memory.total,memory.used --format=csv,noheader
python3 -c 'import importlib.metadata as m
for p in ("torch", "jax", "cupy-cuda13x", "cupy-cuda12x", "cupy"):
    try: print("%-8s %s" % (p, m.version(p)))
    except m.PackageNotFoundError: pass'

interval=1
cat >"$dir/berth.yaml" <<YAML
gpu: {monitor_interval: $interval}
services:
  strict: {over_limit: revoke}
optimization: {deallocation_timeout: 2}
YAML
$berth serve --config "$dir/berth.yaml" --devices nvml --state-dir "$dir/state" --listen '' 2>"$dir/log" &
daemon=$!
answers() { "$berth" leases >/dev/null 2>&1; }
must "the daemon answers" within 20 answers
uuid=$($berth status --json | value "d['gpus'][0]['device']['uuid']")

say "framework: the library refuses a program that wants 8 GiB under a lease of 4 GiB"
for library in torch jax cupy; do
  begin "$library" --memory 4GiB -- $library 8
  answer $library
  must "$library refuses more than its 4 GiB" eval '[ "$word" = refused ] && [ "$mib" -gt 2000 ] && [ "$mib" -lt 4096 ]'
  must "its lease says enforced_by framework" [ "$(lease $library enforced_by)" = framework ]
  pause 2.2
  used=$(measured $library)
  must "with its context it uses $used MiB, within the 4096 it leased" [ "$used" -le 4096 ]
  end $library
done
must "no lease was over its limit" [ -z "$(event lease_over_limit '(torch|jax|cupy)')" ]

say "watchdog: plain CUDA gets more than its lease, and berth reports that"
begin plain --enforce watchdog --memory 4GiB -- cuda 8
answer plain
must "it took all 8 GiB" [ "$word" = took ]
flagged() { [ -n "$(event lease_over_limit plain)" ]; }
must "berth reports its lease as over its limit" within 10 flagged
late=$(event lease_over_limit plain | value "f\"{__import__('datetime').datetime.fromisoformat(d['time'].replace('Z','+00:00')).timestamp() - $when:.2f}\"")
must "the report came $late s after it had the memory: within two intervals of $interval s" python3 -c "raise SystemExit(not $late <= 2 * $interval)"
event lease_over_limit plain | value "'      ' + d['text']"
must "under the policy warn it keeps running" kill -0 "${pids[plain]}"
end plain

say "watchdog: under the policy revoke, berth ends the program and its lease"
begin strict --service strict --enforce watchdog --memory 4GiB -- cuda 8
answer strict
wait "${pids[strict]}"; status=$?
hang_up strict
must "SIGTERM ended it (status $status)" [ "$status" = 143 ]
revoked() { [ -n "$(event lease_revoked strict)" ]; }
must "berth revoked its lease" within 5 revoked
event lease_revoked strict | value "'      ' + d['text']"
must "its lease is gone" within 5 gone strict

say "two programs with 40 GiB each on one GPU both want more, and do not disturb each other"
begin left --memory 40GiB --gpu "$uuid" -- torch 60
begin right --memory 40GiB --gpu "$uuid" -- torch 60
for name in left right; do
  answer $name
  must "$name gets its 40 GiB and no more" eval '[ "$word" = refused ] && [ "$mib" -ge 38000 ] && [ "$mib" -lt 40960 ]'
done
end left; end right

say "after a program is killed, its memory is free and its lease is gone"
before=$(nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits | head -1)
begin victim --memory 20GiB -- torch 18
answer victim
during=$(nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits | head -1)
kill -9 "${pids[victim]}"; began=$(date +%s%N)
until gone victim; do :; done
took=$((($(date +%s%N) - began) / 1000000))
echo "      the lease was gone after $took ms, most of which berth leases took"
must "its lease is gone" gone victim
back() { [ "$(nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits | head -1)" -le $((before + 512)) ]; }
must "its memory is free again ($before MiB before, $during with it)" within 10 back
end victim 2>/dev/null

say "MPS: the driver refuses, whatever the program uses"
if command -v nvidia-cuda-mps-control >/dev/null; then
  $berth config set mps=on >/dev/null
  for library in torch jax cupy cuda; do
    begin "mps-$library" --memory 4GiB -- $library 8
    answer "mps-$library"
    must "$library is refused within its 4 GiB" eval '[ "$word" = refused ] && [ "$mib" -gt 2000 ] && [ "$mib" -le 4096 ]'
    must "its lease says enforced_by mps" [ "$(lease mps-$library enforced_by)" = mps ]
    end "mps-$library"
  done
  begin share --memory 4GiB --compute 30% -- cuda 1
  answer share
  must "a program with 30 % of the multiprocessors runs" [ "$word" = took ]
  must "its environment has that share" has "$(tr '\0' '\n' <"/proc/${pids[share]}/environ")" CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=30
  must "berth does not count its own MPS daemon as foreign" [ "$($berth leases --orphans --json | value "len(d['foreign'])")" = 0 ]
  end share
  # For another user, no part of MPS runs as root: its daemon and the client that
  # asks it run as that user, in a folder that the user owns.
  cp "$berth" "$dir/berth" && chmod 711 "$dir"
  setpriv --reuid 65534 --regid 65534 --clear-groups env HOME=/tmp "$dir/berth" exec --name other --memory 4GiB --enforce mps -- sleep 60 &
  other=$!
  running+=("$other")
  must "another user gets a lease that MPS enforces" within 20 eval '[ "$(lease other enforced_by)" = mps ]'
  must "the MPS daemon runs as that user" eval 'pgrep -u 65534 -f "nvidia-cuda-mps-control -f" >/dev/null'
  must "no process of root uses the MPS folder of that user" eval '! grep -lz "CUDA_MPS_PIPE_DIRECTORY=.*/65534/" /proc/[0-9]*/environ 2>/dev/null | sed "s,/proc/,,;s,/environ,," | xargs -r -n1 ps -o uid= -p | grep -qw 0'
  kill "$other"
  must "its lease ends with it" within 10 gone other
else
  echo "      nvidia-cuda-mps-control is not installed: nothing to prove"
  $berth config set mps=on >/dev/null
  $berth exec --enforce mps -- true 2>"$dir/refusal"
  must "berth exec says so: $(cat "$dir/refusal")" grep -q 'nvidia-cuda-mps-control' "$dir/refusal"
fi

say "report"
$berth report
say "the log of the daemon"
cat "$dir/log"
kill "$daemon"; wait "$daemon"; daemon=
must "no MPS daemon is left" eval '! pgrep -f "nvidia-cuda-mps-control -f" >/dev/null'

printf '\n%d failed\n' "$failures"
exit "$failures"
