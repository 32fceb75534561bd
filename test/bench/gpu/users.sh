#!/usr/bin/env bash
# Proves on this machine's NVIDIA GPU that berth counts the memory of an
# application and of a service once, by the figures of NVML, although both are
# started as always: the application asks over TCP, and berth allocate asks for
# the service. Then compares berth.map with berth run (map.sh). Needs bin/berth
# and bin/berth-serve (make build) and a Python with PyTorch, and a GPU that
# nobody else uses: berth is told to end every process there that has no lease.
# Prints PASS or FAIL for each claim; exits non-zero if one of them does not hold.
# DEVICES=sim:h200 tries it without a GPU; RECORDS sets another number of records.
set -u
cd "$(dirname "$0")/../../.."
berth=$PWD/bin/berth
devices=${DEVICES:-nvml}
dir=$(mktemp -d /tmp/bu.XXXXXX) # short: the path of a socket is limited
failures=0
export BERTH_SOCKET=$dir/s
daemon=
declare -A pids
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
    pause 0.2
  done
  return 0
}
near() { local apart=$(($1 - $2)); [ "${apart#-}" -le 64 ]; } # near MIB MIB
value() { python3 -c "import json,sys; d=json.load(sys.stdin); print($1)"; }
held() { "$berth" leases --json | value "sum(l['id'] == '$1' for l in d['leases'])"; }
gone() { [ "$(held "$1")" = 0 ]; }
evidence() { # evidence LEASE PID: why the process belongs to the lease
  "$berth" leases --processes --json | value "next((p['evidence'] for l in d['leases'] if l['id'] == '$1' for p in l.get('processes') or [] if p['pid'] == $2), 'none')"
}
belongs() { [ "$(evidence "$1" "$2")" = "$3" ]; } # belongs LEASE PID EVIDENCE
measured() { "$berth" leases --json | value "next((l['parts'][0].get('measured_mb', 0) for l in d['leases'] if l['id'] == '$1'), 0)"; }
foreign() { # foreign PID: how many foreign_use events are about the process
  "$berth" events --json | python3 -c "import json,sys; print(sum(e['code'] == 'foreign_use' and (e.get('data') or {}).get('pid') == $1 for e in map(json.loads, sys.stdin)))"
}
alive() { kill -0 "${pids[$1]}" 2>/dev/null; }

# figures.py GUESTS UUID prints what the driver itself says, in MiB: a line "gpu
# TOTAL USED" with the memory of the driver in USED, and a line "PID USED" for each
# process. On a simulated H200, the processes are the files in GUESTS/UUID, and
# its total and its driver's memory are those of the model.
cat >"$dir/figures.py" <<'PY'
import json, os, subprocess, sys
guests, uuid = sys.argv[1:]
def ask(what):
    command = ["nvidia-smi", "--format=csv,noheader,nounits", "-i", uuid, what]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [list(map(int, line.split(","))) for line in text.splitlines() if line[:1].isdigit()]
if guests:
    uses = {}
    for name in os.listdir(os.path.join(guests, uuid)):
        if os.path.exists("/proc/" + name):
            with open(os.path.join(guests, uuid, name)) as file:
                uses[int(name)] = json.load(file)["memory_mb"]
    total, used = 143771, 615 + sum(uses.values())
else:
    total, used, reserved = ask("--query-gpu=memory.total,memory.used,memory.reserved")[0]
    used += reserved
    uses = dict(ask("--query-compute-apps=pid,used_memory"))
print("gpu", total, used)
for pid, use in uses.items():
    print(pid, use)
PY
figures() { python3 "$dir/figures.py" "$guests" "$uuid"; }
driver() { figures | awk -v pid="$1" '$1 == pid { mib = $2 } END { print mib + 0 }'; } # driver PID
room() { # room FIELD: a figure of GET /api/gpu/memory/available
  python3 -c "import json,urllib.request; print(next(g['$1'] for g in json.load(urllib.request.urlopen('$url/api/gpu/memory/available'))['gpus'] if g['gpu'] == '$uuid'))"
}
# formula [PID LEASED]… prints what should be available with these leases, whose
# processes use what the driver says: the total, less the reserve, the larger of
# lease and use for each lease, and all other memory in use.
formula() {
  figures | python3 -c '
import sys
reserve, rest = int(sys.argv[1]), list(map(int, sys.argv[2:]))
rows = [line.split() for line in sys.stdin]
total, used = map(int, rows[0][1:])
uses = {int(pid): int(mib) for pid, mib in rows[1:]}
leases = [(leased, uses.get(pid, 0)) for pid, leased in zip(rest[::2], rest[1::2])]
print(total - reserve - sum(map(max, leases)) - (used - sum(use for _, use in leases)))' "$(room reserve_mb)" "$@"
}
# right [PID LEASED]…: what berth says is available is what the formula gives.
right() { available=$(room available_mb) wanted=$(formula "$@"); near "$available" "$wanted"; }

# use.py: use(GIB, GUESTS, UUID) takes that much memory, says so, and keeps it.
cat >"$dir/use.py" <<'PY'
import json, os, signal
def use(gib, guests, uuid):
    if guests:
        folder, pid = os.path.join(guests, uuid), str(os.getpid())
        with open(os.path.join(folder, "new." + pid), "w") as file:
            json.dump({"memory_mb": int(gib * 1024) + 600}, file)
        os.rename(file.name, os.path.join(folder, pid))
    else:
        import torch
        kept = [torch.zeros(256 << 20, dtype=torch.uint8, device="cuda") for _ in range(int(gib * 4))]
        torch.cuda.synchronize()
    print("uses %g GiB" % gib, flush=True)
    signal.pause()
PY
cat >"$dir/application.py" <<'PY'
"""Allocates over TCP, then uses the memory in the same process."""
import json, sys, urllib.request
from use import use
url, leased, gib, guests, uuid = sys.argv[1:]
body = json.dumps({"allocation_id": "application", "memory_mb": int(leased), "gpu": uuid}).encode()
request = urllib.request.Request(url + "/api/gpu/memory/allocate", data=body, headers={"Content-Type": "application/json"})
with urllib.request.urlopen(request) as answer:
    lease = json.load(answer)
print("%s holds %d MiB, bound by %s" % (lease["id"], lease["parts"][0]["memory_mb"], lease["binding"]), flush=True)
use(float(gib), guests, uuid)
PY
cat >"$dir/embedding_service.py" <<'PY'
"""Knows nothing of berth: somebody has allocated for it."""
import sys
from use import use
gib, guests, uuid = sys.argv[1:]
use(float(gib), guests, uuid)
PY
cp "$dir/embedding_service.py" "$dir/stranger.py"

# begin NAME ARGUMENTS… starts NAME.py as always, without a variable of berth;
# uses NAME waits until it has its memory.
begin() {
  local name=$1; shift
  : >"$dir/$name.out" # whoever waits for it must not read what the last one wrote
  env -u BERTH_SOCKET -u BERTH_SIM_GUESTS CUDA_VISIBLE_DEVICES="$uuid" python3 "$dir/$name.py" "$@" "$guests" "$uuid" >"$dir/$name.out" 2>"$dir/$name.err" &
  pids[$name]=$!
}
uses() {
  took() { grep -q '^uses' "$dir/$1.out" || ! alive "$1"; }
  within 90 took "$1"
  sed "s/^/      $1: /" "$dir/$1.out" "$dir/$1.err"
  grep -q '^uses' "$dir/$1.out"
}
end() { # end NAME SIGNAL
  kill "-$2" "${pids[$1]}" 2>/dev/null
  wait "${pids[$1]}" 2>/dev/null
  unset "pids[$1]"
}

say "machine"
echo "commit   $($berth version 2>/dev/null | head -1)"
echo "kernel   $(uname -r), $(nproc) CPUs"
[ "$devices" = nvml ] && nvidia-smi --query-gpu=name,driver_version,memory.total,memory.used --format=csv,noheader
python3 -c 'import torch; print("torch   ", torch.__version__)' 2>/dev/null

guests=
if [ "$devices" != nvml ]; then
  guests=$dir/guests
  export BERTH_SIM_GUESTS=$guests
fi
port=$(python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
url=http://127.0.0.1:$port
printf 'gpu: {monitor_interval: 1}\noptimization: {deallocation_timeout: 2}\n' >"$dir/berth.yaml"
$berth serve --config "$dir/berth.yaml" --devices "$devices" --state-dir "$dir/state" --listen "127.0.0.1:$port" 2>"$dir/log" &
daemon=$!
answers() { "$berth" leases >/dev/null 2>&1; }
must "the daemon answers" within 20 answers
uuid=$($berth status --json | value "d['gpus'][0]['device']['uuid']")
[ -n "$guests" ] && mkdir -p "$guests/$uuid"
if [ "$(figures | wc -l)" != 1 ]; then
  must "nobody else uses the GPU" false
  exit 1
fi
must "what is available is what the formula gives" within 10 right
before=$available
echo "      $before MiB are available, the formula gives $wanted"

leased=20480
say "an application allocates 20 GiB over TCP, and uses 18 GiB in the same process"
begin application "$url" $leased 18
must "it gets the lease, and its memory" uses application
app=${pids[application]}
must "it has no variable of berth" eval '! tr "\0" "\n" <"/proc/$app/environ" | grep -q ^BERTH'
must "it belongs to its lease, which it holds" within 10 belongs application "$app" descent
COLUMNS=120 $berth leases --processes | sed 's/^/      /'
must "what is available is what the formula gives" within 10 right "$app" $leased
echo "      $available MiB are available, the formula gives $wanted; the driver says that it uses $(driver "$app") MiB"
must "20 GiB fewer are available than before: $((before - available)) MiB" near $((before - available)) $leased
must "berth measures $(measured application) MiB, as the driver does" near "$(measured application)" "$(driver "$app")"
must "berth does not report it as foreign" [ "$(foreign "$app")" = 0 ]

say "the application is killed"
end application KILL
began=$(date +%s%N)
must "its lease is gone" within 5 gone application
echo "      after $((($(date +%s%N) - began) / 1000000)) ms, most of which it took to ask"
restored() { right && near "$available" "$before"; }
must "its memory is available again" within 10 restored
echo "      $available MiB are available"

say "20 GiB are allocated for a service that is started as always, while foreign is kill"
must "foreign is set to kill" $berth config set foreign=kill
must "the service gets a lease" $berth allocate embedding-service 20GiB --gpu "$uuid"
begin embedding_service 18
must "it gets its memory" uses embedding_service
service=${pids[embedding_service]}
must "it belongs to the lease, by the name of its program" within 10 belongs embedding-service "$service" program
COLUMNS=120 $berth leases --processes | sed 's/^/      /'
must "what is available is what the formula gives" within 10 right "$service" $leased
echo "      $available MiB are available, the formula gives $wanted; the driver says that it uses $(driver "$service") MiB"
must "20 GiB fewer are available than before: $((before - available)) MiB" near $((before - available)) $leased
must "berth measures $(measured embedding-service) MiB, as the driver does" near "$(measured embedding-service)" "$(driver "$service")"

say "a stranger uses 2 GiB beside it"
begin stranger 2
stranger=${pids[stranger]}
dead() { ! alive stranger; }
must "berth ends it" within 60 dead
wait "$stranger"; status=$?
unset 'pids[stranger]'
must "by a signal (status $status)" eval '[ "$status" = 143 ] || [ "$status" = 137 ]'
must "berth reports it as foreign" [ "$(foreign "$stranger")" -gt 0 ]
must "the service lives" alive embedding_service
must "berth does not report the service as foreign" [ "$(foreign "$service")" = 0 ]
must "the memory of the stranger is available again" within 10 right "$service" $leased

say "the application starts again, beside the service"
begin application "$url" $leased 18
must "it gets a lease with the same id, and its memory" uses application
app=${pids[application]}
must "it belongs to its lease" within 10 belongs application "$app" descent
must "the service belongs to its own" belongs embedding-service "$service" program
COLUMNS=120 $berth leases --processes | sed 's/^/      /'
must "what is available is what the formula gives" within 10 right "$app" $leased "$service" $leased
echo "      $available MiB are available, the formula gives $wanted; the driver says that they use $(driver "$app") and $(driver "$service") MiB"
must "40 GiB fewer are available than before: $((before - available)) MiB" near $((before - available)) $((2 * leased))
must "both live" eval 'alive application && alive embedding_service'
must "berth reports neither as foreign" [ "$(foreign "$app") $(foreign "$service")" = "0 0" ]
$berth status | sed 's/^/      /'
end application KILL
must "the lease of the application ends with it" within 5 gone application
end embedding_service TERM
must "that of the service stands without it" [ "$(held embedding-service)" = 1 ]
must "and ends when it is deallocated" $berth deallocate embedding-service 0
must "all is available again" within 10 restored

say "the log of the daemon"
cat "$dir/log"
kill "$daemon"; wait "$daemon"; daemon=

say "berth.map beside berth run"
if python3 -c 'import torch' 2>/dev/null; then
  must "berth.map is at most a tenth slower (map.sh)" env -u BERTH_SOCKET -u BERTH_SIM_GUESTS test/bench/gpu/map.sh
else
  echo "      PyTorch is not installed: nothing to compare"
fi

printf '\n%d failed, after %d s\n' "$failures" "$SECONDS"
exit "$failures"
