#!/usr/bin/env bash
# Proves on this machine's NVIDIA GPU that berth's check works: a quick check of
# all free memory passes in under 20 s, an error that is planted is found where it
# was planted, no residue of another process is left, memory is overwritten, a
# busy device is tested as far as it is free, and the process of a check takes no
# more memory than it may and ends with whoever asked. Prints every line that the
# process writes, with the second it came in, and PASS or FAIL for each claim;
# exits non-zero if one of them does not hold.
# Needs bin/berth and bin/berth-serve (make build), Python, and for the residue and
# the busy device PyTorch; and a GPU that nobody else uses. GPU=1 takes another one
# than the first; LONG=1 adds the long check (four minutes). DEVICES=sim:h200 tries
# only what goes through the daemon.
set -u
cd "$(dirname "$0")/../../.."
berth=$PWD/bin/berth
devices=${DEVICES:-nvml}
dir=$(mktemp -d /tmp/bc.XXXXXX) # short: the path of a socket is limited
failures=0
export BERTH_SOCKET=$dir/s
daemon= holder=
finish() {
  [ -n "$holder" ] && kill -9 "$holder" 2>/dev/null
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
smi() { nvidia-smi -i "$uuid" --format=csv,noheader,nounits "$@"; }
free_mib() { smi --query-gpu=memory.free | tr -d ' '; }
unused() { [ "$(smi --query-compute-apps=pid | grep -c '[0-9]')" = 0 ]; }

# ask.py NAME ASK [SECONDS] runs the process of a check as the daemon does, prints
# what it says, and writes a summary to NAME.json. With SECONDS it closes the
# process's input after so long, as a daemon that dies does.
cat >"$dir/ask.py" <<'PY'
import json, os, subprocess, sys, threading, time
name, ask = sys.argv[1], sys.argv[2]
early = float(sys.argv[3]) if len(sys.argv) > 3 else None
environ = {k: v for k, v in os.environ.items() if k in ("PATH", "LD_LIBRARY_PATH")}
environ.update(CUDA_VISIBLE_DEVICES=json.loads(ask)["gpu"], CUDA_DEVICE_ORDER="PCI_BUS_ID", CUDA_CACHE_DISABLE="1", CUDA_MPS_PIPE_DIRECTORY="/nonexistent")
start = time.monotonic()
p = subprocess.Popen(["bin/berth-serve", "prove"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ, start_new_session=True)
summary = {"steps": {}, "most_mib": 0, "opened": False, "done": False, "unable": ""}


def watch():  # the most memory that the driver charges to the process
    while p.poll() is None:
        text = subprocess.run(["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"], capture_output=True, text=True).stdout
        for line in text.splitlines():
            pid, _, used = line.partition(",")
            if pid.strip() == str(p.pid) and used.strip().isdigit():
                summary["most_mib"] = max(summary["most_mib"], int(used))
        time.sleep(0.2)


watcher = threading.Thread(target=watch)
watcher.start()
p.stdin.write(ask + "\n")
p.stdin.flush()
if early:
    threading.Timer(early, lambda: (summary.update(closed=time.monotonic()), p.stdin.close())).start()
for line in p.stdout:
    print("  %6.2f  %s" % (time.monotonic() - start, line.rstrip()), flush=True)
    try:
        said = json.loads(line)
    except ValueError:
        continue
    summary["opened"] |= said.get("opened", False)
    summary["done"] |= said.get("done", False)
    summary["unable"] = said.get("unable", summary["unable"])
    step = said.get("step")
    if step and step.get("verdict"):
        summary["steps"][step["name"]] = step
if not early:
    p.stdin.close()
code = p.wait()
end = time.monotonic()
watcher.join()
summary.update(code=code, seconds=end - start, after_close=end - summary["closed"] if "closed" in summary else None)
summary.pop("closed", None)
print("  %6.2f  it ended with %s; at most %d MiB were charged to it" % (end - start, code, summary["most_mib"]))
json.dump(summary, open(name + ".json", "w"))
PY
ask() { # ask NAME VERB MORE [SECONDS]: MORE is what is added to the ask, as JSON without braces
  local what="{\"verb\":\"$2\",\"gpu\":\"$uuid\"${3:+,$3}}"
  printf '%s\n' "$what"
  python3 "$dir/ask.py" "$dir/$1" "$what" ${4:+"$4"}
}
is() { # is NAME EXPRESSION: s is the summary
  python3 -c "import json,sys
s = json.load(open('$dir/$1.json'))
steps = s['steps']
sys.exit(0 if ($2) else 1)"
}

if [ "$devices" = nvml ]; then
  uuid=$(nvidia-smi -i "${GPU:-0}" --query-gpu=uuid --format=csv,noheader) || { echo "nvidia-smi shows no GPU ${GPU:-0}"; exit 2; }
  nvidia-smi -i "$uuid" --query-gpu=name,driver_version,memory.total,memory.free,pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,pcie.link.width.max,clocks.sm,clocks.max.sm --format=csv
  must "nobody else uses the GPU" unused

  say "a quick check of all free memory"
  before=$(free_mib)
  ask quick check '"kind":"quick"'
  must "it came to its end" is quick "s['done'] and s['code'] == 0"
  for step in memory copy_to_device copy_from_device compute clocks link errors; do
    must "$step passed" is quick "steps['$step']['verdict'] == 'passed'"
  done
  must "it took less than 20 s" is quick "s['seconds'] < 20"
  must "it tested what was free ($before MiB), but for 2 GiB" is quick "steps['memory']['memory_mb'] >= $before - 2048"
  must "the GPU is free again" within 10 unused

  say "an error that is planted"
  ask plant check '"kind":"quick","plant":true'
  must "the memory failed" is plant "steps['memory']['verdict'] == 'failed'"
  must "one word, in the middle of the memory" is plant "steps['memory']['detail'].startswith('1 word ') and 'the first at byte %#x:' % (steps['memory']['memory_mb'] << 19) in steps['memory']['detail']"
  must "the bit that was flipped" is plant "'expected 0x00000000, found 0x00020000' in steps['memory']['detail']"
  must "nothing else failed" is plant "[n for n, x in steps.items() if x['verdict'] == 'failed'] == ['memory']"

  say "a check that may take 4 GiB"
  ask small check '"kind":"quick","memory_mb":4096'
  must "it passed" is small "steps['memory']['verdict'] == 'passed' and steps['compute']['verdict'] == 'passed'"
  must "it took no more than 4096 MiB" is small "s['most_mib'] <= 4096"

  say "residue of a process that filled 20 GiB"
  python3 - <<'PY' || echo "(no PyTorch: nothing was filled)"
import torch
piles = [torch.full((1 << 28,), 0x5a5a5a5a, dtype=torch.int32, device="cuda") for _ in range(20)]
torch.cuda.synchronize()
PY
  within 10 unused
  ask residue residue ''
  must "nothing is left" is residue "steps['residue']['verdict'] == 'passed' and steps['residue'].get('left_bytes', 0) == 0"
  ask seen residue '"plant":true'
  must "a word that is planted is seen" is seen "steps['residue']['verdict'] == 'failed' and steps['residue']['left_bytes'] == 4"

  say "scrub"
  ask scrub scrub ''
  must "all free memory was overwritten" is scrub "steps['scrub']['verdict'] == 'passed' and steps['scrub']['memory_mb'] >= $before - 2048"

  say "whoever asked goes away after 6 s of a long check"
  ask orphan check '"kind":"long"' 6
  must "the process ended within 2 s" is orphan "s['after_close'] < 2 and not s['done']"
  must "the GPU is free again" within 10 unused

  say "a busy device: another process holds 60 GiB and computes"
  python3 - "$dir/holding" <<'PY' &
import sys, torch
pile = torch.empty(60 << 30, dtype=torch.uint8, device="cuda")
a = torch.randn(4096, 4096, device="cuda")
torch.cuda.synchronize()
open(sys.argv[1], "w").close()
while True:
    for _ in range(50):
        b = a @ a
    torch.cuda.synchronize()
PY
  holder=$!
  if within 60 test -e "$dir/holding"; then
    left=$(free_mib)
    ask busy check '"kind":"quick"'
    must "it tested what was left ($left MiB), but for 2 GiB" is busy "steps['memory']['memory_mb'] >= $left - 2048"
    must "memory and computation passed beside it" is busy "steps['memory']['verdict'] == 'passed' and steps['compute']['verdict'] == 'passed'"
    must "it took less than 20 s" is busy "s['seconds'] < 20"
    must "the other process still runs" kill -0 "$holder"
  else
    echo "(no PyTorch: not tried)"
  fi
  kill -9 "$holder" 2>/dev/null; wait "$holder" 2>/dev/null; holder=
  within 10 unused

  if [ -n "${LONG:-}" ]; then
    say "a long check"
    ask long check '"kind":"long"'
    must "it passed" is long "s['done'] and all(x['verdict'] == 'passed' for x in steps.values())"
  fi
fi

if ! "$berth" check --help >/dev/null 2>&1; then
  say "this berth has no command check: nothing goes through the daemon"
else
  say "through the daemon, on $devices"
  "$berth" serve --devices "$devices" --state-dir "$dir/state" --listen '' --socket "$BERTH_SOCKET" 2>"$dir/log" &
  daemon=$!
  within 20 "$berth" status >/dev/null 2>&1
  begin=$SECONDS
  must "berth check passes" "$berth" check "${GPU:-0}" --quick
  echo "it took $((SECONDS - begin)) s"
  must "berth check --json says passed" bash -c "'$berth' check '${GPU:-0}' --quick --json | tee '$dir/check.json' | grep -q '\"verdict\": *\"passed\"'"
  cat "$dir/check.json"
  must "berth check --residue passes" "$berth" check "${GPU:-0}" --residue
  "$berth" events --code device_check 2>/dev/null | tail -5
  grep -iE 'warn|error' "$dir/log" | head -20
fi

say "$failures claims do not hold"
[ "$failures" = 0 ]
