#!/usr/bin/env bash
# The main job in about a minute: a daemon that knows every GPU, what it sees,
# what it does when one runs hot and another stops answering, and how it shares
# them, and how models take turns. Runs on real GPUs where there are any, and otherwise on simulated ones.
# Leaves nothing behind.
set -eu
cd "$(dirname "$0")/.."
berth=bin/berth
dir=$(mktemp -d)
export BERTH_SOCKET=$dir/berth.sock
daemon=; state=state; programs=; follower=
# shellcheck disable=SC2086 # one word for each process
trap 'for p in $daemon $programs $follower; do kill "$p" 2>/dev/null || true; wait "$p" 2>/dev/null || true; done; rm -rf "$dir"' EXIT

bold=; plain=
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$'\e[1m'; plain=$'\e[0m'; fi
say() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
show() { printf '%s$ %s%s\n' "$bold" "$*" "$plain"; "$@"; }
pause() { read -rt "$1" <> <(:) || true; }

start() {
  $berth serve --devices "$devices" --state-dir "$dir/$state" --listen 127.0.0.1:0 "$@" 2>>"$dir/log" &
  daemon=$!
  for _ in $(seq 100); do
    $berth status --json >/dev/null 2>&1 && [ -S "$BERTH_SOCKET" ] && return
    kill -0 "$daemon" 2>/dev/null || { cat "$dir/log"; exit 1; }
    pause 0.1
  done
  echo "the daemon did not come up:"; cat "$dir/log"; exit 1
}

if ls /dev/nvidia[0-9]* >/dev/null 2>&1; then
  devices=nvml
  say "This machine has NVIDIA GPUs: the demo runs on them."
else
  devices=sim:examples/scenarios/demo.yaml
  say "This machine has no NVIDIA GPU: the demo runs on four simulated ones."
fi

say "1. Start the daemon and look"
start
PATH=$PWD/bin:$PATH
show berth status

say "2. Watch for ten seconds"
[ "$devices" = nvml ] || echo "(the scenario makes GPU 2 hot and lets GPU 3 hang; examples/scenarios/demo.yaml)"
timeout 10 $berth events --follow || true
show berth status

say "3. Change a threshold while it runs, and kill -9 the daemon: the change is kept"
show berth config set gpu.temp_optimal=60
kill -9 "$daemon"; wait "$daemon" 2>/dev/null || true
start
show berth config get gpu.temp_optimal

say "4. A program under a lease, on its GPU alone; kill -9 it, and the lease is back"
berth exec --name train --memory 2GiB -- sleep 60 &
program=$!
for _ in $(seq 100); do berth leases | grep -q train && break; pause 0.1; done
echo '$ berth exec --name train --memory 2GiB -- sleep 60 &'
show berth leases
kill -9 "$program"; wait "$program" 2>/dev/null || true
for _ in $(seq 100); do berth leases | grep -q train || break; pause 0.1; done
show berth leases

say "5. What a program reads"
show curl -sS --unix-socket "$BERTH_SOCKET" http://berth/api/gpu/throttle/status
printf '\n'
show curl -sS --unix-socket "$BERTH_SOCKET" 'http://berth/api/gpu/temperature/trend?gpu=0&minutes=1'
printf '\n'
say "6. A batch over every GPU, with a worker killed on the way: every record comes out once"
if command -v python3 >/dev/null; then
  python3 examples/batch/records.py 1200 >"$dir/in.jsonl"
  ( # the batch has a lease on each GPU; a lease with a parent is held by a worker
    for _ in $(seq 100); do
      pause 0.1
      [ -s "$dir/out.jsonl.berth/outcomes" ] || continue
      victim=$(curl -sS --unix-socket "$BERTH_SOCKET" http://berth/api/leases | python3 -c 'import json,sys; print(next(l["holder"]["pid"] for l in json.load(sys.stdin)["leases"] if "parent" in l))')
      echo "killing worker process $victim" >&2
      kill -9 "$victim"
      break
    done
  ) &
  killer=$!
  export PYTHONPATH=$PWD/python EMBED_SECONDS=0.01
  show berth run --input "$dir/in.jsonl" --output "$dir/out.jsonl" -- python3 examples/batch/embed.py
  wait "$killer"
  echo "$(python3 -c 'import json,sys; print(len({json.loads(l)["id"] for l in open(sys.argv[1])}))' "$dir/out.jsonl") different records of 1200 are in $(wc -l <"$dir/out.jsonl") lines of output"
else
  echo "(left out: there is no python3)"
fi

say "7. Two programs that do not fit on one card together: they take turns"
if command -v python3 >/dev/null; then
  echo "(a simulated card with 8 GiB; each program needs 5 of it, and two seconds are a turn; examples/turns)"
  kill "$daemon"; wait "$daemon" 2>/dev/null || true
  found=$devices devices=sim:examples/turns/card.yaml state=turns
  export BERTH_SIM_GUESTS=$dir/guests
  start
  berth config set optimization.keep_seconds=1 optimization.time_slice_seconds=2 optimization.park_grace_seconds=0 >/dev/null
  for name in left right; do
    echo "$ berth exec --parkable --name $name --memory 5GiB -- python3 examples/turns/counter.py 30 &"
    berth exec --parkable --name $name --memory 5GiB -- python3 examples/turns/counter.py 30 &
    programs="$programs $!"
    for _ in $(seq 100); do berth leases | grep -q left && break; pause 0.1; done
  done
  berth events --follow --code lease_granted --code lease_parked --code lease_resumed --code lease_released &
  follower=$!
  pause 4.5
  show berth leases
  # shellcheck disable=SC2086 # one word for each program
  wait $programs
  programs=
  pause 0.5
  kill "$follower"; wait "$follower" 2>/dev/null || true
  follower=

  say "8. Two models that do not fit on that card together answer in turn, through one address"
  echo "(stand-ins for model servers, each with 5 GiB; examples/models)"
  kill "$daemon"; wait "$daemon" 2>/dev/null || true
  guests=$dir/guests-of-models
  export BERTH_SIM_GUESTS=$guests
  mkdir "$dir/servers" "$guests"
  chmod 755 "$dir"; chmod 777 "$guests"
  cp examples/models/*.py "$dir/servers/"
  python=$(command -v python3) runs_as='' front_as=''
  if [ "$(id -u)" = 0 ]; then # berth runs neither servers nor the front as root
    python=/usr/bin/python3 runs_as='user: nobody' front_as='user: daemon'
  fi
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  {
    printf 'optimization: {keep_seconds: 1, park_grace_seconds: 0}\nfront:\n  listen: 127.0.0.1:%s\n  %s\nservices:\n' "$port" "$front_as"
    for name in red blue; do
      printf '  %s:\n    command: %s %s/servers/server.py --port ${PORT} --name %s --memory 5GiB --load-seconds 1 --guests %s\n' "$name" "$python" "$dir" "$name" "$guests"
      printf '    memory: 5GiB\n    ready: /health\n    directory: /\n    %s\n' "$runs_as"
    done
  } >"$dir/models.yaml"
  chmod 600 "$dir/models.yaml"
  grep -A4 '^services' "$dir/models.yaml" | sed "s,$dir/,,g"
  state=models
  start --config "$dir/models.yaml"
  for _ in $(seq 100); do curl -sS "127.0.0.1:$port/v1/models" >/dev/null 2>&1 && break; pause 0.1; done
  show python3 examples/models/ask.py "http://127.0.0.1:$port" red blue --requests 6
  show berth services
  berth events --code service_ready | sed 's/^/  /' | tail -3
  sed -i '/^front/,$d' "$dir/models.yaml"; berth config reload >/dev/null # servers and front would run on without the daemon
  for _ in $(seq 300); do pgrep -f -- "$dir/" | grep -qvx "$daemon" || break; pause 0.1; done
  devices=$found
else
  echo "(left out: there is no python3)"
fi

say "That was the demo. Start your own: bin/berth serve --devices $([ $devices = nvml ] && echo auto || echo sim:4)"
