#!/usr/bin/env bash
# Imports the images that make release or make images wrote into a containerd of its own, and
# runs each: their configuration, the version that their programs say, and a daemon that
# leases simulated GPUs as the user of the image.
#
#   test/release/images.sh [FILE…]   the default is those of dist/release, else those of dist/images
#
# It needs root, python3, and containerd, ctr and runc of the cluster's recipe
# (test/kubernetes/cluster/build.sh). All processes are in namespaces that end with it.
set -eu
cd "$(dirname "$0")/../.."
. test/kubernetes/cluster/env.sh
[ "$(id -u)" -eq 0 ] || { echo "make test-images runs containers, and needs root." >&2; exit 1; }
for tool in containerd containerd-shim-runc-v2 ctr runc; do
	[ -x "$B/$tool" ] || { echo "There is no $tool in $B: test/kubernetes/cluster/build.sh builds it, once (minutes)." >&2; exit 1; }
done
shopt -s nullglob
[ $# -gt 0 ] || set -- dist/release/*-image-*.tar.gz
[ $# -gt 0 ] || set -- dist/images/*.tar
[ $# -gt 0 ] || { echo "There is no image in dist/release or dist/images: run make release or make images first." >&2; exit 1; }
if [ $$ != 1 ]; then
	work=$(mktemp -d)
	trap 'rm -rf "$work"; ungroup "berth-images-${work##*/}"' EXIT
	WORK=$work unshare -m -p -f --mount-proc --kill-child --propagation private "$0" "$@"
	exit
fi

mkdir -p /run/containerd
mount -t tmpfs tmpfs /run/containerd # where the sockets of containers would be those of the machine
export CONTAINERD_SUPPRESS_DEPRECATION_WARNINGS=1 PATH=$B:$PATH CONTAINERD_ADDRESS=$WORK/socket CONTAINERD_NAMESPACE=berth-images-${WORK##*/}
cat >"$WORK/containerd.toml" <<C
version = 3
root = "$WORK/root"
state = "$WORK/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.nri.v1.nri"]
[grpc]
  address = "$CONTAINERD_ADDRESS"
C
containerd -c "$WORK/containerd.toml" >"$WORK/log" 2>&1 &
containerd=$!
until ctr version >/dev/null 2>&1; do
	kill -0 $containerd 2>/dev/null || { tail -5 "$WORK/log" >&2; exit 1; }
	sleep 0.1
done

fail() { echo "not ok  $*" >&2; exit 1; }
finish() { # ends what runs, and with it its control groups
	ctr tasks ls -q | while read -r id; do ctr tasks rm -f "$id" >/dev/null 2>&1 || true; done
	kill $containerd 2>/dev/null && wait $containerd || true
}
trap finish EXIT

# config prints the configuration of an image.
config() {
	local manifest
	manifest=$(ctr images ls "name==$1" | awk 'NR == 2 { print $3 }')
	ctr content get "$(ctr content get "$manifest" | python3 -c 'import json, sys; print(json.load(sys.stdin)["config"]["digest"])')"
}

# checked compares the configuration of an image, on stdin, with what it must be, and prints
# the version in its labels.
checked() {
	python3 -c '
import json, sys
name, reference = sys.argv[1:]
image = json.load(sys.stdin)
config = image["config"]
labels = config.get("Labels", {})
version = labels.get("org.opencontainers.image.version")
wrong = [(what, got, want) for what, got, want in [
    ("user", config.get("User"), "65532:65532"),
    ("entrypoint", config.get("Entrypoint"), ["/usr/local/bin/" + name]),
    ("command", config.get("Cmd"), None),
    ("working folder", config.get("WorkingDir"), "/"),
    ("path", config.get("Env"), ["PATH=/usr/local/bin:/usr/bin:/bin"]),
    ("system", image["os"], "linux"),
    ("title", labels.get("org.opencontainers.image.title"), name),
    ("source", labels.get("org.opencontainers.image.source"), "https://github.com/berth-gpu/berth"),
    ("licence", labels.get("org.opencontainers.image.licenses"), "Apache-2.0"),
    ("time", labels.get("org.opencontainers.image.created"), image["created"]),
    ("description", bool(labels.get("org.opencontainers.image.description")), True),
    ("tag", reference.split(":")[-1] in ("dev", version.replace("+", "-")), True),
] if got != want]
for what, got, want in wrong:
    print("its %s is %r, and not %r" % (what, got, want), file=sys.stderr)
print(version)
sys.exit(bool(wrong))' "$@"
}

until_works() { # until_works COMMAND…: as long as the container of the last job lives
	until "$@" >"$WORK/said" 2>&1; do
		kill -0 $! 2>/dev/null || { cat "$WORK/output" >&2; return 1; }
		sleep 0.1
	done
}
user_of() { awk '/^Uid:/ { print $2 }' "/proc/$(ctr tasks ls | awk -v id="$1" '$1 == id { print $2 }')/status"; }

try_berth() { # try_berth REFERENCE VERSION
	local said in="ctr tasks exec --exec-id asked daemon /usr/local/bin/berth"
	said=$(ctr run --rm "$1" version /usr/local/bin/berth version)
	[[ $said == "berth $2 ("* ]] || fail "berth version says $said, and the label $2"
	said=$(ctr run --rm "$1" alone) # the entrypoint
	grep -q '^Usage' <<<"$said" || fail "the entrypoint does not show its commands: $said"
	ctr run --env BERTH_SOCKET=/tmp/run/socket "$1" daemon /usr/local/bin/berth serve --devices sim:2 --listen '' --state-dir /tmp/state >"$WORK/output" 2>&1 &
	until_works $in status || fail "the daemon does not answer"
	[ "$(user_of daemon)" = 65532 ] || fail "the daemon runs as user $(user_of daemon)"
	[ "$($in status --json | sed -n 's/^ *"version": "\(.*\)",*/\1/p' | head -1)" = "$2" ] || fail "the daemon says another version than $2"
	$in allocate image 4GiB --id first >/dev/null
	$in leases | grep -q first || fail "the lease is not there"
	$in release first >/dev/null
	! $in leases | grep -q first || fail "the lease did not go"
	ctr tasks kill --signal SIGTERM daemon
	wait $! || fail "the daemon did not end well: $(cat "$WORK/output")"
	ctr containers rm daemon
}

# The driver gets no further here than to a cluster that does not answer.
try_berth_dra() {
	cat >"$WORK/kubeconfig" <<K
{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: c}}],
 clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}], users: [{name: c, user: {}}]}
K
	install -d -o 65532 "$WORK/node"
	ctr run --mount "type=bind,src=$WORK/node,dst=/node,options=rbind:rw" --mount "type=bind,src=$WORK/kubeconfig,dst=/kubeconfig,options=rbind:ro" "$1" driver \
		/usr/local/bin/berth-dra --node here --kubeconfig /kubeconfig --kubelet-registry /node/registry --kubelet-plugins /node/plugins --cdi-dir /node/cdi >"$WORK/output" 2>&1 &
	until_works grep -q 'msg="driver starts"' "$WORK/output" || fail "the driver does not start"
	grep -qF " version=$2 node=here " "$WORK/output" || fail "the driver says another version than $2: $(cat "$WORK/output")"
	ctr tasks kill --signal SIGTERM driver 2>/dev/null || true
	wait $! || true
	ctr containers rm driver
}

version=
for file; do
	ctr images import "$file" >"$WORK/imported"
	reference=$(ctr images ls -q | grep -vxFf <(printf '%s\n' "${seen[@]:-none}"))
	seen+=("$reference")
	name=${reference##*/} name=${name%%:*}
	[ "$reference" = "ghcr.io/berth-gpu/$name:${reference##*:}" ] || fail "$file has the image $reference"
	own=$(config "$reference" | checked "$name" "$reference") || fail "the configuration of $reference"
	[ "${version:=$own}" = "$own" ] || fail "$reference has version $own, and another image $version"
	case $file in *-image-*) [[ ${file##*/} == "$name-$own-image-"* ]] || fail "$file has version $own" ;; esac
	"try_${name//-/_}" "$reference" "$own"
	echo "ok      $reference imports and runs: $own"
done
echo "The images work in containerd."
