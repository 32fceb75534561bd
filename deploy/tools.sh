#!/usr/bin/env bash
# Installs what the build and the demo need and a bare Debian lacks: curl, and a C compiler, because
# NVIDIA's bindings are C underneath. Does nothing where it is there already. With the word promtool it
# puts that into bin/ instead: Debian's package prometheus has it, and would start a server if installed.
# With the word chromium it installs Debian's Chromium, for the tests of the page.
# With the word sshd it installs Debian's OpenSSH, without starting its server.
# With the word prometheus it puts the server of that package there too, as bin/prometheus-debian.
# With the word cross-arm64 or cross-amd64 it installs the C compiler for that machine.
# With the word arrays it installs Debian's NumPy, and puts Debian's PyTorch into bin/arrays: berth looks
# for the PyTorch of the system when it starts a program, so the tests do not install one there.
set -eu
lock=/var/lib/apt
[ -d "$lock" ] || lock=$0
exec 9<"$lock"
flock 9 # make -j runs several of these, as do other checkouts, and apt-get does not wait for another one
missing=()
command -v gcc >/dev/null || missing+=(gcc libc6-dev)
command -v git >/dev/null || missing+=(git)
command -v curl >/dev/null || missing+=(curl ca-certificates)
sudo=; [ "$(id -u)" -eq 0 ] || sudo=sudo
if [ "${1-}" = promtool ] || [ "${1-}" = prometheus ]; then
	if [ "$1" = promtool ]; then
		command -v promtool >/dev/null || [ -x bin/promtool ] && exit 0
	else
		[ -x bin/promtool ] && [ -x bin/prometheus-debian ] && exit 0
	fi
	echo "Fetching $1 ..." >&2
	$sudo apt-get update -qq
	mkdir -p bin
	folder=$(mktemp -d)
	trap 'rm -rf "$folder"' EXIT
	chmod 1777 "$folder" # apt may write it as a user of its own
	(cd "$folder" && apt-get download -qq prometheus && dpkg-deb -x prometheus_*.deb .)
	cp "$folder/usr/bin/promtool" bin/promtool
	[ "$1" = promtool ] || cp "$folder/usr/bin/prometheus" bin/prometheus-debian
	exit 0
fi
if [ "${1-}" = sshd ]; then
	[ -x /usr/sbin/sshd ] && command -v ssh >/dev/null && exit 0
	echo "Installing OpenSSH ..." >&2
	export DEBIAN_FRONTEND=noninteractive
	running=; [ ! -d /run/systemd/system ] || running=yes
	[ -z "$running" ] || $sudo systemctl mask --runtime ssh.service ssh.socket # the package would start a server
	$sudo apt-get update -qq
	$sudo apt-get install -y -qq --no-install-recommends openssh-server openssh-client >/dev/null
	if [ -n "$running" ]; then
		$sudo systemctl disable ssh.service ssh.socket || true
		$sudo systemctl unmask --runtime ssh.service ssh.socket
	fi
	exit 0
fi
if [ "${1-}" = chromium ]; then
	command -v "${CHROMIUM:-chromium}" >/dev/null && exit 0
	echo "Installing Chromium ..." >&2
	export DEBIAN_FRONTEND=noninteractive
	$sudo apt-get update -qq
	$sudo apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
	exit 0
fi
if [ "${1-}" = cross-arm64 ] || [ "${1-}" = cross-amd64 ]; then
	machine=aarch64 name=aarch64
	[ "$1" = cross-arm64 ] || { machine=x86_64 name=x86-64; }
	command -v "$machine-linux-gnu-gcc" >/dev/null && exit 0
	echo "Installing the compiler for ${1#cross-} ..." >&2
	export DEBIAN_FRONTEND=noninteractive
	$sudo apt-get update -qq
	$sudo apt-get install -y -qq --no-install-recommends "gcc-$name-linux-gnu" "libc6-dev-${1#cross-}-cross" >/dev/null
	exit 0
fi
if [ "${1-}" = arrays ]; then
	[ -d bin/arrays/usr/lib/python3/dist-packages/torch ] && [ -d /usr/lib/python3/dist-packages/numpy ] && exit 0
	echo "Installing NumPy and what PyTorch needs ..." >&2
	export DEBIAN_FRONTEND=noninteractive
	$sudo apt-get update -qq
	needs=$(apt-cache depends python3-torch | sed -n 's/^ *Depends: \([^<].*\)/\1/p')
	$sudo apt-get install -y -qq --no-install-recommends python3-numpy $needs >/dev/null
	folder=$(mktemp -d)
	trap 'rm -rf "$folder"' EXIT
	chmod 1777 "$folder" # apt may write it as a user of its own
	(cd "$folder" && apt-get download -qq python3-torch)
	mkdir -p bin/arrays
	dpkg-deb -x "$folder"/python3-torch_*.deb bin/arrays
	ln -sfn "/usr/lib/$(gcc -print-multiarch)" "bin/arrays/usr/lib/$(gcc -print-multiarch)" # its own libraries are links to there
	exit 0
fi
[ ${#missing[@]} -eq 0 ] && exit 0
echo "Installing ${missing[*]} ..." >&2
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
$sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
