#!/usr/bin/env bash
# Runs the programs for arm64 that make release packed under qemu: berth version, a daemon
# with simulated GPUs, a lease, and the wheel's command. Installs qemu-user-static with apt
# if it is missing.
set -eu
cd "$(dirname "$0")/../.."
archive=$(echo dist/release/berth-*-linux-arm64.tar.gz)
[ -e "$archive" ] || { echo "There is no archive for arm64 in dist/release: run make release first." >&2; exit 1; }
deploy/tools.sh cross-arm64 # its C library is what berth-serve is run with
qemu=$(command -v qemu-aarch64-static || true)
if [ -z "$qemu" ]; then
	sudo=; [ "$(id -u)" -eq 0 ] || sudo=sudo
	$sudo apt-get install -y -qq --no-install-recommends qemu-user-static >/dev/null
	qemu=$(command -v qemu-aarch64-static)
fi
work=$(mktemp -d) daemon=
finish() { [ -z "$daemon" ] || { kill "$daemon" 2>/dev/null && wait "$daemon" || true; }; rm -rf "$work"; }
trap finish EXIT
tar -xzf "$archive" -C "$work" --strip-components=1
for program in berth berth-serve; do
	file=$(od -An -tx1 -j18 -N2 "$work/bin/$program" | tr -d ' ')
	[ "$file" = b700 ] || { echo "$program is not for arm64" >&2; exit 1; }
done
run() { "$qemu" -L /usr/aarch64-linux-gnu "$work/bin/$1" "${@:2}"; }
export BERTH_SOCKET=$work/socket
run berth version
run berth version | grep -q "linux/arm64"
run berth-serve serve --devices sim:2 --listen '' --socket "$BERTH_SOCKET" --state-dir "$work/state" >"$work/log" 2>&1 &
daemon=$!
for _ in $(seq 600); do
	run berth status >"$work/status" 2>/dev/null && [ -S "$BERTH_SOCKET" ] && break
	kill -0 "$daemon" 2>/dev/null || { cat "$work/log" >&2; exit 1; }
	sleep 0.5
done
cat "$work/status"
run berth allocate arm 4GiB --id first
run berth leases | tee "$work/leases"
grep -q first "$work/leases"
run berth release first
! run berth leases | grep -q first
kill "$daemon" && wait "$daemon" || true
daemon=
if wheel=$(ls dist/release/*musllinux*_aarch64.whl 2>/dev/null); then
	python3 -m zipfile -e "$wheel" "$work/wheel"
	cmp "$work/wheel"/*.data/scripts/berth "$work/bin/berth"
fi
echo "The programs for arm64 work under qemu."
