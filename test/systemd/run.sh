#!/usr/bin/env bash
# Tries minders under a real systemd: boots a small Debian in a container of its own and
# runs test/systemd in it, in the unit of berth.
#
#   test/systemd/run.sh [DIR]        everything; DIR keeps the machine for the next time
#   test/systemd/run.sh make DIR     build the machine (a minute; needs mmdebstrap and systemd-nspawn)
#   test/systemd/run.sh start DIR    boot it, and return when systemd is up
#   test/systemd/run.sh in DIR COMMAND…   run a command in it, as root
#   test/systemd/run.sh stop DIR     shut it down
#
# It needs root.
set -eu
cd "$(dirname "$0")/../.."

make_machine() {
  local options=() file
  for file in $(grep -lE 'Acquire' /etc/apt/apt.conf.d/* 2>/dev/null || true); do options+=(--aptopt="$file"); done
  mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,dbus,ca-certificates,python3-minimal,sudo,procps "${options[@]}" \
    "$(. /etc/os-release; echo "$VERSION_CODENAME")" "$1" /etc/apt/sources.list.d/debian.sources
}

# fill puts berth and this test into a machine that is not running.
fill() {
  go build -o "$1/usr/local/bin/berth-serve" ./cmd/berth-serve
  go build -o "$1/usr/local/bin/try-systemd" ./test/systemd
  go test -c -o "$1/usr/local/bin/try-minder" ./internal/process/minder
  install -D -m 644 deploy/systemd/berth.service "$1/etc/systemd/system/berth.service"
  # The unit of berth, with everything that it forbids; only the program is another one.
  install -d "$1/etc/systemd/system/berth.service.d"
  printf '[Service]\nType=simple\nWatchdogSec=0\nExecStart=\nExecStart=/usr/local/bin/try-systemd serve\n' \
    >"$1/etc/systemd/system/berth.service.d/try.conf"
  grep -q ^worker: "$1/etc/passwd" || chroot "$1" useradd --create-home --uid 1234 --shell /bin/sh worker
  echo 'worker ALL=(ALL) NOPASSWD: ALL' >"$1/etc/sudoers.d/worker"
  # The machine has no PAM module that would say it.
  install -d "$1/etc/systemd/system/user@.service.d"
  printf '[Service]\nEnvironment=XDG_RUNTIME_DIR=/run/user/%%i\n' >"$1/etc/systemd/system/user@.service.d/runtime.conf"
  rm -rf "$1/var/lib/berth" "$1"/home/worker/berth-*.log
}

start_machine() {
  setsid systemd-nspawn -D "$1" --boot --register=no --keep-unit --private-network --console=pipe >"$1.log" 2>&1 </dev/null &
  local spawn=$! first
  for _ in $(seq 300); do # the first child of nspawn is the process 1 inside
    first=$(pgrep -P "$spawn" | head -1 || true)
    if [ -n "$first" ] && nsenter -t "$first" -a /bin/systemctl is-system-running 2>/dev/null | grep -qE 'running|degraded'; then
      echo "$first" >"$1.pid"
      return
    fi
    sleep 0.1
  done
  echo "systemd did not come up: see $1.log" >&2
  exit 1
}

in_machine() {
  local first
  first=$(cat "$1.pid")
  shift
  nsenter -t "$first" -a "$@"
}

stop_machine() {
  local first
  first=$(cat "$1.pid")
  nsenter -t "$first" -a /bin/systemctl poweroff || true
  for _ in $(seq 300); do
    [ -d "/proc/$first" ] || break
    sleep 0.1
  done
  rm -f "$1.pid"
}

case ${1:-} in
make | start | stop) "$1_machine" "$(realpath -m "$2")" ;;
in)
  dir=$(realpath -m "$2")
  shift 2
  in_machine "$dir" "$@"
  ;;
*)
  dir=$(realpath -m "${1:-$(mktemp -d)/machine}")
  [ -d "$dir/usr" ] || make_machine "$dir"
  fill "$dir"
  start_machine "$dir"
  trap 'stop_machine "$dir"' EXIT
  in_machine "$dir" /bin/systemctl start berth
  in_machine "$dir" /usr/local/bin/try-systemd check
  # The package's own tests, as root and as a user who has a systemd.
  in_machine "$dir" /bin/systemctl start user@1234
  in_machine "$dir" /bin/sh -c 'cd /tmp && exec try-minder -test.run TestSystemd -test.v'
  in_machine "$dir" /bin/sh -c 'cd /tmp && exec setpriv --reuid=1234 --regid=1234 --init-groups env XDG_RUNTIME_DIR=/run/user/1234 try-minder -test.run TestSystemd -test.v'
  stop_machine "$dir"
  start_machine "$dir"
  in_machine "$dir" /bin/systemctl start berth
  in_machine "$dir" /usr/local/bin/try-systemd rebooted
  ;;
esac
