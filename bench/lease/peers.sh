#!/bin/sh
# Installs what berth is compared with, from the packages of Debian or Ubuntu.
# Nothing of it is started: the benchmark starts its own, in its own folder.
set -eu
packages="redis-server postgresql etcd-server"

as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

if ! command -v apt-get >/dev/null; then
	echo "there is no apt-get here: install Redis, PostgreSQL and etcd by hand" >&2
	exit 1
fi

# A package starts its service unless this says no.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	as_root sh -c "printf '#!/bin/sh\nexit 101\n' > $policy && chmod 755 $policy"
	trap 'as_root rm -f "$policy"' EXIT
fi
install() { as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages; }
install || { as_root apt-get update -qq && install; }
