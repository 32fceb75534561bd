#!/usr/bin/env bash
# Draws docs/pictures/top.png: berth top in tmux on a simulated machine with sixteen
# GPUs, after the curves have filled, as a browser shows it. It takes five minutes, and needs
# make build, tmux, python3 and Chromium.
#
#   docs/pictures/terminal.sh [SECONDS [COLUMNS LINES]]
dir=$(mktemp -d)
# shellcheck source=../../internal/cli/top/stage.sh
. "$(dirname "$0")/../../internal/cli/top/stage.sh"
seconds=${1:-310} columns=${2:-128} lines=${3:-46}
mux() { tmux -L "berth-picture-$$" -f /dev/null "$@"; }
trap 'mux kill-server 2>/dev/null || true; curtain; rm -rf "$dir"' EXIT

# Twelve GPUs more than the machine of the test has, each at work in its own time.
sed 's/^devices: .*/devices: 16xh200/' "$machine" >"$dir/machine.yaml"
for gpu in $(seq 4 15); do
  name=$(printf 'decode-%02d' "$gpu") memory=$((40 + gpu * 11 % 70)) load=$((10 + gpu * 29 % 60))
  cat >>"$dir/machine.yaml" <<EOF
  - {device: $gpu, load: $((load / 3))}
  - {at: $((5 + gpu * 5))s, for: $((15 + gpu * 7 % 30))s, device: $gpu, load: $load, ramp: 6s}
  - {at: 4s, device: $gpu, process: {pid: $((5000010 + gpu)), name: $name, memory_mb: $((memory * (5 + gpu % 5) / 10))GiB, uid: 0, load: 5}}
EOF
  held+=("$name ${memory}GiB $gpu")
done
machine=$dir/machine.yaml
stage
mux new-session -d -s top -x "$columns" -y "$lines" "exec env TERM=tmux-256color COLORTERM=truecolor BERTH_SOCKET=$BERTH_SOCKET $berth top"
mux set-option -g status off >/dev/null
read -rt "$seconds" <> <(:) || true
mux send-keys -t top Tab
read -rt 2 <> <(:) || true
mux capture-pane -e -p -t top >"$dir/screen"
read -r width height < <(python3 "$root/docs/pictures/ansi.py" "$dir/screen" "$columns" "$lines" "$dir/screen.html")
chromium=$(command -v chromium || command -v chromium-browser)
"$chromium" --headless --no-sandbox --disable-gpu --hide-scrollbars --force-device-scale-factor=1.5 --user-data-dir="$dir/browser" \
  --window-size="$width,$height" --screenshot="$root/docs/pictures/top.png" "file://$dir/screen.html" 2>"$dir/said" || { cat "$dir/said"; exit 1; }
echo "docs/pictures/top.png: $columns×$lines"
