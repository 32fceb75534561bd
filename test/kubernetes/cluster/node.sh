#!/usr/bin/env bash
# node.sh start|stop|reboot NAME: one node, node-1 to node-99, inside the namespaces of a cluster.
# node.sh kubelet NAME: starts the kubelet of a running node again after somebody ended it.
# A node has a mount namespace with its own /run, /etc, /var/lib and /var/log, so that everything is where it is on a real
# machine, a control group for all its processes, and a bridge for its pods. stop kills everything at once, like a power
# cut: /run is gone then, /var/lib is not. reboot is stop and start; every start has another boot id.
set -eu
here=$(cd "$(dirname "$0")" && pwd); . "$here/env.sh"
[ "${BERTH_K8S_INSIDE:-}" = "$RUN" ] || exec "$here/in" bash "$here/node.sh" "$@"
verb=$1 name=$2; number=${name##*-}; ip=10.99.0.$number R=$RUN/$name group=$CG/$name; export PATH=$B:$PATH
start() { local n=$1; shift; setsid nohup "$@" >>"$R/log/$n.log" 2>&1 </dev/null & echo $! > "$R/pids/$n"; }
start_kubelet() { start kubelet "$B/kubelet" --config "$R/kubelet.yaml" --kubeconfig "$RUN/admin.kubeconfig" --cert-dir "$R/pki" --hostname-override "$name" --node-ip "$ip" --v=2; }

stop() {
  while p=$(members "$group"); [ -n "$p" ]; do kill -9 $p 2>/dev/null || true; sleep 0.05; done
  ungroup "$group"; ip link del "cni$number" 2>/dev/null || true; rm -rf "$R/pids"
}

# prepare writes the files that the node reads, and makes its control group.
prepare() {
  mkdir -p "$R"/{lib/kubelet,lib/berth,varlog/pods,varlog/containers,etc,etcwork,containerd,log,pids,sysctl,volplugins,pki}
  cgroup "$group/system"; ip addr show dev lo | grep -q " $ip/32" || ip addr add "$ip/32" dev lo
  cat /proc/sys/kernel/random/uuid > "$R/sysctl/boot_id"
  echo "nameserver 10.96.0.10" > "$R/resolv.conf"
  cat > "$R/containerd.toml" <<C
version = 3
root = "$R/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.nri.v1.nri"]
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "registry.test/pause:1"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  disable_apparmor = true
  cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["$B/cni"]
  conf_dir = "/etc/cni/net.d"
[plugins."io.containerd.cri.v1.runtime".containerd]
  default_runtime_name = "runc"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  BinaryName = "$B/runc"
  SystemdCgroup = false
C
  cat > "$R/cni.conflist" <<C
{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "cni$number", "isGateway": true, "ipMasq": false, "hairpinMode": true,
 "ipam": {"type": "host-local", "dataDir": "/run/cni", "ranges": [[{"subnet": "10.244.$number.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
C
  cat > "$R/kubelet.yaml" <<K
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /$group
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
failSwapOn: false
oomScoreAdj: 0
makeIPTablesUtilChains: false
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
address: $ip
healthzPort: 0
readOnlyPort: 0
evictionHard: {memory.available: 100Mi}
imageGCHighThresholdPercent: 100
volumePluginDir: $R/volplugins
resolvConf: $R/resolv.conf
clusterDNS: [10.96.0.10]
nodeStatusUpdateFrequency: 2s
syncFrequency: 5s
K
  [ -z "${GATES:-}" ] || { echo "featureGates:"; tr , '\n' <<<"$GATES" | sed 's/=/: /; s/^/  /'; } >> "$R/kubelet.yaml"
}

# boot runs in the mount namespace of the node.
boot() {
  mount --make-rshared /
  mount -t overlay overlay -o "lowerdir=/etc,upperdir=$R/etc,workdir=$R/etcwork" /etc
  for d in /run /var/lib /var/log; do mount -t tmpfs -o mode=755 tmpfs $d; done
  mkdir -p /var/lib/{kubelet,berth} /var/log/{pods,containers} /run/{berth,cdi,cni,containerd} /etc/cdi /etc/cni/net.d
  mount --bind "$R/lib/kubelet" /var/lib/kubelet; mount --bind "$R/lib/berth" /var/lib/berth
  mount --bind "$R/varlog/pods" /var/log/pods; mount --bind "$R/varlog/containers" /var/log/containers
  cp "$R/cni.conflist" /etc/cni/net.d/10-pods.conflist
  # The kubelet writes these settings of the kernel: it gets files of its own instead.
  local f p i=0
  for f in vm/overcommit_memory:1 vm/panic_on_oom:0 kernel/panic:10 kernel/panic_on_oops:1 kernel/keys/root_maxkeys:1000000 kernel/keys/root_maxbytes:25000000; do
    p=/proc/sys/${f%%:*}; [ ! -e "$p" ] || { echo "${f##*:}" > "$R/sysctl/$i"; mount --bind "$R/sysctl/$i" "$p"; }; i=$((i + 1)); done
  mount --bind "$R/sysctl/boot_id" /proc/sys/kernel/random/boot_id
  start holder sleep infinity # keeps the mount namespace
  start containerd "$B/containerd" -c "$R/containerd.toml"
  until "$B/ctr" version >/dev/null 2>&1; do kill -0 "$(cat "$R/pids/containerd")" || { tail -5 "$R/log/containerd.log"; exit 1; }; sleep 0.1; done
  local dir image
  if [ ! -e "$R/imported" ]; then
    for dir in "$LAB/images" "$RUN/images" ${IMAGES:-}; do for image in "$dir"/*.tar; do [ ! -e "$image" ] || "$B/ctr" -n k8s.io images import "$image" >> "$R/log/images.log" 2>&1 || { echo "cannot import $image:"; tail -3 "$R/log/images.log"; exit 1; }; done; done
    touch "$R/imported"
  fi
  start_kubelet
}

case $verb in
start) prepare; join "$group/system"; unshare -m --propagation private bash "$0" boot "$name" ;;
boot) boot ;;
stop) stop ;;
reboot) stop; bash "$0" start "$name" ;;
kubelet) "$here/on" "$name" bash "$0" start-kubelet "$name" ;;
start-kubelet) start_kubelet ;;
*) echo "node.sh start|stop|reboot|kubelet NAME" >&2; exit 2 ;;
esac
