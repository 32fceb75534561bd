# A simulated machine at work, for tmux.sh and docs/pictures/terminal.sh, which
# read this file: stage starts a daemon with leases and a queue, and curtain ends
# it. $dir is a folder for both; machine is the scenario, and held the leases, if they are
# others than those of the test.
set -eu
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
berth=$root/bin/berth
export BERTH_SOCKET=$dir/s BERTH_PATIENCE=60
machine=$root/internal/cli/top/testdata/machine.yaml
held=('embedder 16GiB 0' 'reranker 40GiB 0' 'train-vit 96GiB 1' 'segment 48GiB 2' 'notebook 8GiB 2' 'simulate-flow 120GiB 3')
daemon='' waiting=''

# stage starts the daemon, and returns when the leases and the queue are there.
# The processes of the scenario begin after the leases that they belong to.
stage() {
  "$berth" serve --devices "sim:$machine" --state-dir "$dir/state" --listen '' >"$dir/log" 2>&1 &
  daemon=$!
  until [ -S "$BERTH_SOCKET" ] && "$berth" status >/dev/null 2>&1; do
    kill -0 "$daemon" 2>/dev/null || { cat "$dir/log"; exit 1; }
    read -rt 0.1 <> <(:) || true
  done
  for lease in "${held[@]}"; do
    # shellcheck disable=SC2086 # three words
    set -- $lease
    "$berth" allocate "$1" "$2" --gpu "$3" --timeout 0 >/dev/null
  done
  for request in 'big-batch 130GiB' 'eval-nightly 100GiB'; do
    # shellcheck disable=SC2086
    "$berth" allocate $request --timeout 1h >/dev/null 2>&1 &
    waiting="$waiting $!"
    until "$berth" leases | grep -q "${request% *}"; do read -rt 0.1 <> <(:) || true; done # in this order
  done
}

curtain() {
  # shellcheck disable=SC2086 # one word for each process
  for p in $waiting $daemon; do kill "$p" 2>/dev/null || true; wait "$p" 2>/dev/null || true; done
  waiting='' daemon=''
}
