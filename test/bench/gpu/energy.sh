#!/usr/bin/env bash
# Proves on this machine's NVIDIA GPU that the energy of all leases, of others and
# of the idle device adds up to what the driver counts: one program alone, then two
# at once that do different amounts of work, and pauses in between. The
# script reads the driver's counter by itself. Needs bin/berth and bin/berth-serve
# (make build), a Python with PyTorch, and a GPU that nobody else uses. Takes about
# 85 s. Prints PASS or FAIL for each claim; exits non-zero if one does not hold.
# DEVICES=sim:h200 tries it without a GPU; the claim about the counter is left out.
set -u
cd "$(dirname "$0")/../../.."
berth=$PWD/bin/berth
devices=${DEVICES:-nvml}
dir=$(mktemp -d /tmp/be.XXXXXX) # short: the path of a socket is limited
failures=0
export BERTH_SOCKET=$dir/s
daemon=
finish() {
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
ready() { "$berth" leases --json >/dev/null 2>&1; }

guests=
case $devices in sim*)
  guests=$dir/guests
  export BERTH_SIM_GUESTS=$guests
  ;;
esac
"$berth" serve --devices "$devices" --socket "$dir/s" --state-dir "$dir/state" --listen "" >"$dir/log" 2>&1 &
daemon=$!
until ready; do
  kill -0 "$daemon" 2>/dev/null || { cat "$dir/log"; exit 1; }
  pause 0.2
done
uuid=$("$berth" status --json | python3 -c "import json,sys; print(json.load(sys.stdin)['gpus'][0]['device']['uuid'])")
[ -n "$guests" ] && mkdir -p "$guests/$uuid"

# counter.py UUID prints the joules that the driver has counted.
cat >"$dir/counter.py" <<'PY'
import ctypes, sys
nvml = ctypes.CDLL("libnvidia-ml.so.1")
handle, energy = ctypes.c_void_p(), ctypes.c_ulonglong()
for code in (nvml.nvmlInit_v2(), nvml.nvmlDeviceGetHandleByUUID(sys.argv[1].encode(), ctypes.byref(handle)),
             nvml.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(energy))):
    if code:
        sys.exit("NVML answers %d" % code)
print(energy.value / 1000)
PY
# work.py DUTY SECONDS GUESTS UUID multiplies matrices, as many as take that share of the
# time of a program that is alone: beside another one, each takes longer.
cat >"$dir/work.py" <<'PY'
import json, os, sys, time
duty, seconds, guests, uuid = float(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4]
if guests:
    path = os.path.join(guests, uuid, str(os.getpid()))
    with open(path + ".new", "w") as file:
        json.dump({"memory_mb": 600, "load": 100 * duty}, file)
    os.rename(path + ".new", path)
    time.sleep(seconds)
    os.remove(path)
    sys.exit()
import torch
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
torch.cuda.synchronize()
end, turn, one = time.monotonic() + seconds, 0.2, 1.6e-3  # what one takes on an H200
while time.monotonic() < end:
    begun = time.monotonic()
    for _ in range(round(duty * turn / one)):
        a @ a
    torch.cuda.synchronize()
    time.sleep(max(0, turn - (time.monotonic() - begun)))
PY
work() { # work NAME DUTY SECONDS
  "$berth" exec --name "$1" --memory 4GiB -- python3 "$dir/work.py" "$2" "$3" "$guests" "$uuid"
}
count() { if [ -n "$guests" ]; then echo 0; else python3 "$dir/counter.py" "$uuid"; fi; }
used() { "$berth" report --json >"$1"; }

say "idle"
pause 12 # berth learns what the device draws by itself
used "$dir/before"
first=$(count)
say "one program alone"
work alone 1 12 || exit 1
pause 4
say "two at once, six tenths and two tenths of the time"
work much 0.6 20 & much=$!
work little 0.2 20 & little=$!
wait "$much" && wait "$little" || exit 1
say "idle"
pause 6
used "$dir/after"
last=$(count)
"$berth" leases --ended --json >"$dir/past"

cat >"$dir/judge.py" <<'PY'
import json, sys
before, after, past, first, last = [json.load(open(p)) for p in sys.argv[1:4]] + [float(x) for x in sys.argv[4:6]]
was, now = before["energy"]["gpus"][0], after["energy"]["gpus"][0]
part = {k: now[k] - was[k] for k in ("energy_joules", "leases_joules", "others_joules", "idle_joules")}
lease = {l["holder"]["name"]: l.get("energy_joules", 0) for l in past["leases"]}
drew = {m["name"]: m.get("drew_watts", 0) for m in after["measurements"]}
for name in ("alone", "much", "little"):
    print("%-22s %9.0f J  %4.0f W while it worked" % ("lease " + name, lease.get(name, 0), drew.get(name, 0)))
for key in ("others", "idle"):
    print("%-22s %9.0f J" % (key, part[key + "_joules"]))
print("%-22s %9.0f J  (idle draws %.0f W)" % ("device, by berth", part["energy_joules"], now["idle_watts"]))
failed = 0
def must(what, holds):
    global failed
    failed += not holds
    print(("PASS  " if holds else "FAIL  ") + what)
total = part["energy_joules"]
parts = sum(lease.values()) + part["others_joules"] + part["idle_joules"]
must("leases, others and idle add up to the device (%.0f J of %.0f J)" % (parts, total), abs(parts - total) <= 0.001 * total + 1)
if last:
    off = 100 * (parts / (last - first) - 1)
    print("%-22s %9.0f J" % ("device, by its driver", last - first))
    must("they are what the driver counted, within 2 %% (%+.2f %%)" % off, abs(off) <= 2)
must("the program that worked more used more", lease.get("much", 0) > 1.5 * lease.get("little", 1))
must("berth remembers what each program drew", all(drew.get(n, 0) > 0 for n in lease))
sys.exit(failed)
PY
say "whose energy it was"
python3 "$dir/judge.py" "$dir/before" "$dir/after" "$dir/past" "$first" "$last"
failures=$((failures + $?))
say "what users see"
"$berth" report | sed -n '/^Energy/,/^$/p'
must "the daemon is still there" ready
exit "$failures"
