#!/usr/bin/env bash
# berth top in a real terminal: tmux at three sizes, against a simulated machine
# with leases and a queue. It presses keys as a person would, and holds every
# screen to its size: no line is longer than the terminal is wide, none was
# wrapped, and boxes are whole. `make test-top` builds what it needs and runs it.
dir=$(mktemp -d)
# shellcheck source=stage.sh
. "$(dirname "$0")/stage.sh"
mux() { tmux -L "berth-top-$$" -f /dev/null "$@"; }
trap 'mux kill-server 2>/dev/null || true; curtain; rm -rf "$dir"' EXIT

# screen writes what is on the terminal.
screen() { mux capture-pane -p -t top; }

# shows waits until the screen has a line that matches and is whole: right after a
# resize it still is what the terminal made of the last one.
shows() { comes grep -qE -- "$1"; }

# hides waits until no line matches any more, and the screen is whole.
hides() { comes lacks "$1"; }

lacks() { ! grep -qE -- "$1" "$2"; }

comes() {
  for _ in $(seq 300); do
    screen >"$dir/screen"
    if "$@" "$dir/screen" && fits; then return; fi
    read -rt 0.1 <> <(:) || true
  done
  echo "this never came: $*"; cat "$dir/wrong" "$dir/screen"; exit 1
}

# press sends keys. After Escape it waits until the screen says what it closed:
# a terminal takes Escape and a key right behind it for one key.
press() { for key in "$@"; do mux send-keys -t top "$key"; done; }

# fits fails unless the screen is whole.
fits() {
  python3 - "$dir/screen" "$(mux display-message -p -t top '#{pane_width} #{pane_height}')" >"$dir/wrong" <<'EOF'
import sys, unicodedata
width, height = map(int, sys.argv[2].split())
lines = open(sys.argv[1], encoding="utf-8").read().split("\n")[:-1]
columns = lambda text: sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
wrong = [f"{len(lines)} lines on a terminal of {height}"] * (len(lines) != height)
wrong += [f"line {i} has {columns(l)} columns of {width}: {l}" for i, l in enumerate(lines) if columns(l) > width]
if not lines[0].startswith(" berth top"):
    wrong.append("the first line is not the title: something was wrapped")
top = [i for i, l in enumerate(lines) if "╭" in l]
end = [i for i, l in enumerate(lines) if "╰" in l]
if len(top) != len(end) or len(top) > 1:
    wrong.append("a box is broken")
for a, b in zip(top, end):
    left, right = columns(lines[a].split("╭")[0]), columns(lines[a].split("╮")[0])
    for l in lines[a + 1 : b]:
        parts = l.split("│")
        if columns(parts[0]) != left or columns("│".join(parts[:-1])) != right:
            wrong.append("a box is broken: " + l)
    if columns(lines[b].split("╰")[0]) != left or columns(lines[b].split("╯")[0]) != right:
        wrong.append("a box does not close")
if wrong:
    print("\n".join(wrong))
    sys.exit(1)
EOF
}

stage
for size in '80 24' '120 40' '200 50'; do
  read -r width height <<<"$size"
  echo "$width×$height"
  mux new-session -d -s top -x "$width" -y "$height" "exec env TERM=tmux-256color BERTH_SOCKET=$BERTH_SOCKET $berth top --interval 500ms"
  mux set-option -g status off >/dev/null
  shows 'LEASES 6'
  shows 'WAITING 2'
  shows 'GPU 0 needs 130 GiB'
  shows 'simulate-flow +root +'
  press Tab
  shows '▸ simulate-flow'
  press s
  shows 'sorted by USED'
  press s
  shows 'AGE▼'
  press S
  shows 'AGE▲'
  press s s s s s
  shows 'MEMORY GiB▼'
  press /; mux send-keys -t top -l embed
  shows 'LEASES 1 of 6'
  press Enter Enter
  shows 'Lease embedder'
  shows 'belongs to it by program'
  press Escape
  shows 'filter: embed'
  press Escape
  shows 'LEASES 6'
  press z
  hides 'EVENTS'
  press z '!'
  shows 'What needs a person'
  press Escape
  hides 'What needs a person'
  press '?'
  shows 'Keys and columns'
  press Escape
  hides 'Keys and columns'
  press 1 Enter
  shows 'slows itself down at 89'
  press G
  shows 'SIM-h200-0'
  press Escape
  hides 'SIM-h200-0'
  press 3 Enter
  shows 'Request big-batch'
  press Escape
  hides 'Request big-batch'
  press 7
  shows 'COMMAND 6'
  shows '5000006 .* simulate-flow'
  press s
  shows 'GPU GiB▼'
  press Enter
  shows 'Process 5000006'
  press Escape
  hides 'Process 5000006'
  press c
  shows 'Cancel simulate-flow of root\?'
  shows 'The programs of root under it get SIGTERM'
  press n
  shows 'Nothing was changed'
  press s s s s s 8
  shows 'USERS 2'
  shows 'root .* 6 +4 '
  press Enter
  shows 'User root'
  press Escape
  hides 'User root'
  press Escape
  shows 'EVENTS'
  press 4 Enter
  shows 'severity'
  press Escape
  hides 'severity'
  # a click chooses: the mouse as xterm reports it, button 0, with the place counted from 1
  row=$(screen | grep -n '^  embedder' | head -1 | cut -d: -f1)
  mux send-keys -t top -l "$(printf '\033[<0;5;%dM\033[<0;5;%dm' "$row" "$row")"
  shows '▸ embedder'
  press g
  press 2 r
  shows 'Release simulate-flow of root\?'
  mux resize-window -t top -x $((width - 15)) -y $((height - 5))
  shows 'Release simulate-flow of root\?'
  mux resize-window -t top -x "$width" -y "$height"
  press n
  shows 'Nothing was changed'
  press /; mux send-keys -t top -l notebook
  press Enter r y
  shows 'notebook is released'
  press Escape
  shows 'LEASES 5'
  mux resize-window -t top -x 50 -y 12
  for _ in $(seq 100); do screen | grep -q 'too small' && break; read -rt 0.1 <> <(:) || true; done
  screen | grep -q 'too small'
  mux resize-window -t top -x "$width" -y "$height"
  shows 'LEASES 5'
  press 1 d
  shows 'Drain GPU 0\?'
  press y
  shows 'GPU 0 is drained by root'
  press d y
  shows 'GPU 0 is not drained any more|OPTIMAL'
  hides 'is drained by root'
  "$berth" allocate notebook 8GiB --gpu 2 --timeout 0 >/dev/null
  shows 'LEASES 6'
  press q
  for _ in $(seq 100); do mux has-session -t top 2>/dev/null || break; read -rt 0.1 <> <(:) || true; done
  if mux has-session -t top 2>/dev/null; then echo 'q did not end it'; exit 1; fi
done

echo 'a daemon that goes away and comes back'
mux new-session -d -s top -x 100 -y 30 "exec env TERM=tmux-256color BERTH_SOCKET=$BERTH_SOCKET $berth top --interval 500ms"
shows 'LEASES 6'
kill -9 "$daemon"; wait "$daemon" 2>/dev/null || true
shows 'No answer from the daemon since'
shows 'simulate-flow'
"$berth" serve --devices "sim:$machine" --state-dir "$dir/state" --listen '' >>"$dir/log" 2>&1 &
daemon=$!
hides 'No answer'
shows 'LEASES 6'
press q
echo 'berth top kept to its size on every screen'
