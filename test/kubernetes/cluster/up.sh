#!/usr/bin/env bash
# up.sh starts a cluster and returns when its nodes are ready: about 15 s. NODES says how many nodes (default 2; 0 is the
# control plane alone), GATES sets feature gates everywhere (DRAConsumableCapacity=false,…), IMAGES names further folders
# with archives of images to import.
set -eu
here=$(cd "$(dirname "$0")" && pwd); . "$here/env.sh"
[ "$(id -u)" = 0 ] || { echo "A cluster needs root: it makes namespaces, mounts and control groups. Run it with sudo -E." >&2; exit 1; }
for t in unshare nsenter ip openssl curl setsid flock sha256sum; do command -v $t >/dev/null || { echo "A cluster needs $t. On Debian: apt-get install util-linux iproute2 openssl curl." >&2; exit 1; }; done
bash "$here/build.sh"
# A cluster that ended without down.sh, with its machine for example, leaves its files.
if [ -e "$RUN/init.pid" ] && ! grep -q inside.sh "/proc/$(cat "$RUN/init.pid")/cmdline" 2>/dev/null; then
  ungroup "$CG"; forget
fi
[ ! -e "$RUN/init.pid" ] || { echo "A cluster runs in $RUN already: $here/down.sh ends it." >&2; exit 1; }
mkdir -p "$RUN/log"; export NODES=${NODES:-2} GATES=${GATES:-} IMAGES=${IMAGES:-}
printf 'export GATES=%q IMAGES=%q\n' "$GATES" "$IMAGES" > "$RUN/settings"
cgroup "$CG/control"
setsid nohup bash -c '. "$1/env.sh"; join "$CG/control"; exec unshare -m -n -p -f --mount-proc --kill-child --propagation private bash "$1/inside.sh"' up "$here" > "$RUN/log/up.log" 2>&1 9>&- < /dev/null &
outer=$!
until [ "$(cat /proc/$outer/comm 2>/dev/null)" = unshare ] && first=$(pgrep -P $outer | head -1) && [ -n "$first" ]; do kill -0 $outer 2>/dev/null || { cat "$RUN/log/up.log" >&2; exit 1; }; sleep 0.1; done
echo "$first" > "$RUN/init.pid"
until [ -e "$RUN/ready" ]; do kill -0 $outer 2>/dev/null || { tail -20 "$RUN/log/up.log" >&2; exit 1; }; sleep 0.2; done
