#!/usr/bin/env bash
# fleet.sh [FLAGS]: measures how the slices of many nodes and the claims of many pods load a control
# plane. It builds what is missing, starts etcd, the API server, the scheduler, the controller manager
# and kwok in a network and process namespace of their own, runs the program of this folder in there
# with FLAGS, and ends all of it with the program. Needs root.
#
#   test/kubernetes/fleet/fleet.sh -nodes 20 -pods 200        # a small one, two minutes
#   FLEET_QPS=default test/kubernetes/fleet/fleet.sh          # the limits that Kubernetes sets for itself
#   FLEET_DO='bash' test/kubernetes/fleet/fleet.sh            # another command in the same place
set -eu
here=$(cd "$(dirname "$0")" && pwd)
export LAB=${LAB:-${XDG_CACHE_HOME:-$HOME/.cache}/berth-k8s-1.36.3}
export RUN=${RUN:-$LAB/run-fleet}
[ "$(id -u)" = 0 ] || { echo "fleet.sh needs root: it makes namespaces" >&2; exit 1; }
for tool in unshare setpriv flock openssl curl ip; do command -v "$tool" >/dev/null || { echo "$tool is missing; install util-linux, openssl, curl and iproute2" >&2; exit 1; }; done
for b in kube-apiserver kube-scheduler kube-controller-manager kubectl etcd; do
  [ -x "$LAB/bin/$b" ] || { bash "$here/../cluster/build.sh"; break; }
done
# kwok plays kubelet: its module also has the files that say how nodes and pods live.
if [ ! -x "$LAB/bin/kwok" ] || [ ! -d "$LAB/kwok/stages" ]; then (
  echo "$(date +%T)  building kwok v0.8.0 (about 3 minutes)"
  mkdir -p "$LAB/kwok"; cd "$LAB/kwok"; export CGO_ENABLED=0 GOFLAGS="-mod=mod -buildvcs=false"
  [ -f go.mod ] || printf 'module kwokbuild\n\ngo 1.26.0\n\nrequire sigs.k8s.io/kwok v0.8.0\n' > go.mod
  go build -trimpath -ldflags "-s -w" -o "$LAB/bin/kwok" sigs.k8s.io/kwok/cmd/kwok
  source=$(go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)/kustomize/stage; rm -rf stages.new; mkdir stages.new
  install -m 644 "$source"/node/fast/node-initialize.yaml "$source"/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml "$source"/pod/fast/pod-{ready,delete}.yaml stages.new
  mv stages.new stages
) fi
exec 9>"$RUN.lock"; flock -n 9 || { echo "another fleet.sh runs already; set RUN to another folder to run beside it" >&2; exit 1; }
rm -rf "$RUN"; mkdir -p "$RUN"; trap 'rm -rf "$RUN" "$RUN.lock"' EXIT; trap 'exit 130' INT; trap 'exit 143' TERM
(cd "$here/.." && CGO_ENABLED=0 go build -trimpath -o "$RUN/fleet" ./fleet)
FLEET_COMMIT=$(git -C "$here" describe --always --dirty 2>/dev/null || echo unknown); export FLEET_COMMIT
setpriv --pdeathsig KILL unshare -m -n -p -f --mount-proc --kill-child --propagation private bash "$here/inside.sh" "$@" 9>&-
