#!/usr/bin/env bash
# Tries jobs and services under a real systemd: boots a small Debian in a container of its
# own, with berth.service and berth-front.service, and has its users submit jobs and ask
# services (check.sh).
#
#   test/systemd/run.sh [DIR]        everything; DIR keeps the machine for the next time
#   test/systemd/run.sh services DIR the services alone
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

# build builds berth twice, as two versions, and what else the checks use.
build() {
  local version
  for version in this next; do
    go build -ldflags "-s -w -X main.version=$version" -o "$1/$version/" ./cmd/berth ./cmd/berth-serve
  done
  go test -c -o "$1/try-minder" ./internal/process/minder
  (cd test/bench/gpu/runc && go build -trimpath -tags netgo,osusergo -ldflags '-s -w -linkmode external -extldflags "-static"' -o "$1/runc" github.com/opencontainers/runc)
}

# fill puts what was built into a machine that is not running.
fill() {
  local user
  install -m 755 -t "$2/usr/local/bin" "$1"/this/* "$1/try-minder" "$1/runc" test/systemd/check.sh test/systemd/server.py
  install -D -m 755 -t "$2/opt/berth-new" "$1"/next/*
  rm -rf "$2/var/lib/berth" "$2/etc/systemd/system/berth.service.d"
  install -D -m 644 deploy/systemd/berth.service "$2/etc/systemd/system/berth.service"
  install -D -m 644 deploy/systemd/berth-front.service "$2/etc/systemd/system/berth-front.service"
  install -D -m 644 deploy/systemd/berth-front.sysusers "$2/etc/sysusers.d/berth-front.conf"
  install -d "$2/etc/berth"
  echo 'daemon: {devices: "sim:4"}' >"$2/etc/berth/berth.yaml"
  chmod 600 "$2/etc/berth/berth.yaml"
  echo "127.0.0.1 localhost $(hostname)" >"$2/etc/hosts" # sudo looks the name up
  for user in worker:1234 other:1235; do
    grep -q "^${user%:*}:" "$2/etc/passwd" || chroot "$2" useradd --create-home --uid "${user#*:}" --shell /bin/sh "${user%:*}"
    rm -rf "${2:?}/home/${user%:*}"/* "$2"/tmp/of-*
  done
  echo 'worker ALL=(ALL) NOPASSWD: ALL' >"$2/etc/sudoers.d/worker"
  # The machine has no PAM module that would say it.
  install -d "$2/etc/systemd/system/user@.service.d"
  printf '[Service]\nEnvironment=XDG_RUNTIME_DIR=/run/user/%%i\n' >"$2/etc/systemd/system/user@.service.d/runtime.conf"
}

start_machine() {
  setsid systemd-nspawn -D "$1" --boot --register=no --keep-unit --private-network --system-call-filter=@keyring --console=pipe >"$1.log" 2>&1 </dev/null &
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

only=
if [ "${1:-}" = services ]; then only=services && shift; fi
case ${1:-} in
make | start | stop) "$1_machine" "$(realpath -m "$2")" ;;
in)
  dir=$(realpath -m "$2")
  shift 2
  in_machine "$dir" "$@"
  ;;
*)
  built=$(mktemp -d)
  daemon=
  finish() {
    [ ! -e "$dir.pid" ] || stop_machine "$dir"
    [ -z "$daemon" ] || { kill "$daemon" && wait "$daemon" || true; }
    rm -rf "$built"
  }
  dir=$(realpath -m "${1:-$(mktemp -d)/machine}")
  trap finish EXIT
  [ -d "$dir/usr" ] || make_machine "$dir"
  build "$built"
  fill "$built" "$dir"
  start_machine "$dir"
  in_machine "$dir" /bin/systemctl start berth
  in_machine "$dir" /usr/local/bin/check.sh services
  [ -z "$only" ] || exit 0
  in_machine "$dir" /usr/local/bin/check.sh jobs
  # The package's own tests, as root and as a user who has a systemd.
  in_machine "$dir" /bin/systemctl start user@1234
  in_machine "$dir" /bin/sh -c 'cd /tmp && exec try-minder -test.run TestSystemd -test.v'
  in_machine "$dir" /bin/sh -c 'cd /tmp && exec setpriv --reuid=1234 --regid=1234 --init-groups env XDG_RUNTIME_DIR=/run/user/1234 try-minder -test.run TestSystemd -test.v'
  in_machine "$dir" /usr/local/bin/check.sh shutdown
  stop_machine "$dir"
  start_machine "$dir"
  in_machine "$dir" /bin/systemctl start berth
  in_machine "$dir" /usr/local/bin/check.sh rebooted
  stop_machine "$dir"
  # Where the systemd of that machine has no controllers, limits are seen with control
  # groups that berth itself makes, on this machine.
  if [ ! -S /run/systemd/private ]; then
    echo "Outside of that machine, without systemd, in control groups that berth makes:"
    chmod 755 "$built"
    install -d -m 755 -o nobody "$built/home"
    "$built/this/berth" serve --devices sim:4 --listen '' --socket "$built/socket" --state-dir "$built/state" 2>"$built/log" &
    daemon=$!
    PATH=$built/this:$PATH BERTH_SOCKET=$built/socket JOB_USER=nobody JOB_HOME=$built/home test/systemd/check.sh limits
  fi
  ;;
esac
