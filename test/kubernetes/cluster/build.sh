#!/usr/bin/env bash
# build.sh builds what a cluster needs, once, into $LAB (default ~/.cache/berth-k8s-1.36.3): Kubernetes 1.36.3, etcd,
# containerd 2.2.9, the CNI plugins and the schemas of the Prometheus operator from the Go module proxy, runc from
# Debian's packages. About 17 minutes on two idle cores with empty caches, nothing when all is there. It does not need
# root.
set -eu
here=$(cd "$(dirname "$0")" && pwd); . "$here/env.sh"
mkdir -p "$LAB"/{bin/cni,kube,containerd,cni,deb,images}
exec 9> "$LAB/build.lock"; flock 9 # two builds at once would ruin each other's files
export CGO_ENABLED=0 GOFLAGS="-mod=mod -buildvcs=false"
say() { printf '%s  %s\n' "$(date +%T)" "$*"; }
have() { for f in "$@"; do [ -x "$B/$f" ] || return 1; done; }
kubernetes=v1.36.3 containerd=v2.2.9 cni=v1.9.1 operator=v0.85.0

if ! have kube-apiserver kube-scheduler kube-controller-manager kubelet kubectl etcd; then
  say "building Kubernetes and etcd (about 12 minutes)"
  cd "$LAB/kube"
  # Kubernetes replaces its parts by folders of its own repository; they are published as modules of version 0.
  if [ ! -f go.mod ]; then
    source=$(go mod download -json k8s.io/kubernetes@$kubernetes | sed -n 's/.*"GoMod": "\(.*\)",/\1/p')
    sed -E "s#^module .*#module kubebuild#; s#=> ./staging/src/(k8s.io/[a-z-]+)#=> \1 v0.${kubernetes#v1.}#" "$source" > go.mod.new
    echo "require k8s.io/kubernetes $kubernetes" >> go.mod.new; mv go.mod.new go.mod
    printf '//go:build tools\npackage tools\nimport _ "k8s.io/kubernetes/cmd/kube-apiserver"\n' > tools.go
  fi
  version="-X k8s.io/component-base/version.gitVersion=$kubernetes -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"
  go build -p 2 -trimpath -ldflags "-s -w $version" -o "$B/" k8s.io/kubernetes/cmd/{kube-apiserver,kube-scheduler,kube-controller-manager,kubelet,kubectl} go.etcd.io/etcd/server/v3
  for n in v3 server; do [ ! -x "$B/$n" ] || mv "$B/$n" "$B/etcd"; done
fi
if ! have containerd containerd-shim-runc-v2 ctr; then
  say "building containerd (about 3 minutes)"
  cd "$LAB/containerd"; [ -f go.mod ] || printf 'module containerdbuild\n\ngo 1.26.0\n\nrequire github.com/containerd/containerd/v2 %s\n' $containerd > go.mod
  go build -p 2 -trimpath -ldflags "-s -w -X github.com/containerd/containerd/v2/version.Version=$containerd" -o "$B/" github.com/containerd/containerd/v2/cmd/{containerd,containerd-shim-runc-v2,ctr}
fi
if ! have cni/bridge cni/host-local cni/loopback; then
  say "building the CNI plugins"
  cd "$LAB/cni"; [ -f go.mod ] || printf 'module cnibuild\n\ngo 1.26.0\n\nrequire github.com/containernetworking/plugins %s\n' $cni > go.mod
  go build -p 2 -trimpath -ldflags "-s -w" -o "$B/cni/" github.com/containernetworking/plugins/plugins/{main/bridge,main/loopback,ipam/host-local}
fi
if ! have runc; then
  say "unpacking runc"
  cd "$LAB/deb"; chmod 1777 .; apt-get download -qq runc 2>/dev/null || { apt-get update -qq; apt-get download -qq runc; }
  dpkg-deb -x runc_*.deb .; cp usr/sbin/runc "$B/runc"
fi
if [ ! -f "$LAB/crds/servicemonitors.yaml" ]; then
  say "unpacking the schemas of the Prometheus operator"
  mkdir -p "$LAB/crds"; cd "$LAB/crds"
  source=$(go mod download -json github.com/prometheus-operator/prometheus-operator@$operator | sed -n 's/.*"Dir": "\(.*\)",/\1/p')
  for kind in podmonitors prometheusrules servicemonitors; do install -m 644 "$source/example/prometheus-operator-crd/monitoring.coreos.com_$kind.yaml" $kind.yaml; done
fi
if [ ! -f "$LAB/images/pause.tar" ]; then
  say "writing the image of pod sandboxes"
  cd "$here/.."; export GOFLAGS=-buildvcs=false
  go build -trimpath -ldflags "-s -w" -o "$LAB/images/pause" ./pause
  cd ../../kubernetes/images; go run -trimpath ./archive registry.test/pause:1 "$LAB/images/pause" "$LAB/images/pause.tar"
fi
