#!/bin/sh
# Installs the programs that berth is compared with, from the packages of Debian
# or Ubuntu. Starts none of them: the benchmark does, in a folder of its own.
set -eu
packages="redis-server postgresql etcd-server"

as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

if ! command -v apt-get >/dev/null; then
	echo "cannot install the peers: there is no apt-get here; install Redis, PostgreSQL and etcd by hand, or name those that are there with -peers" >&2
	exit 1
fi

# A package starts its service unless this program refuses.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	as_root sh -c "printf '#!/bin/sh\nexit 101\n' > $policy && chmod 755 $policy"
	trap 'as_root rm -f "$policy"' EXIT
fi
install() { as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages; }
install || { as_root apt-get update -qq && install; }
