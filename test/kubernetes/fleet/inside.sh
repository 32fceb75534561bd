#!/usr/bin/env bash
# inside.sh [FLAGS] is the first process of the namespaces that fleet.sh makes. When it ends, the kernel
# ends every other process in there.
set -eu
here=$(cd "$(dirname "$0")" && pwd); at=$PWD
ip link set lo up; ip addr add 10.96.0.1/32 dev lo
# The clients of the scheduler and of the controller manager may send as much as they can, because the
# question is what the machine does: their own limits (50 and 20 requests a second) are far below it.
if [ "${FLEET_QPS:-}" != default ]; then
  export SCHEDULER_EXTRA="--kube-api-qps=5000 --kube-api-burst=5000 ${SCHEDULER_EXTRA:-}"
  export KCM_EXTRA="--kube-api-qps=5000 --kube-api-burst=5000 ${KCM_EXTRA:-}"
fi
# Two cores may be too busy for the heartbeats of a thousand nodes. They still come every ten seconds, but
# a late one does not make a node unready, which would put taints and evictions into the measurement.
export KCM_EXTRA="--node-monitor-grace-period=10m ${KCM_EXTRA:-}"
bash "$here/../cluster/control.sh"
cd "$RUN"; stages=(); for f in "$LAB"/kwok/stages/*.yaml; do stages+=(--config "$f"); done
HOME=$RUN setsid nohup "$LAB/bin/kwok" --kubeconfig admin.kubeconfig --manage-all-nodes --cidr 10.128.0.0/10 --node-lease-duration-seconds 40 --server-address 127.0.0.1:10247 "${stages[@]}" > log/kwok.log 2>&1 & echo $! > pids/kwok
until curl -fsS http://127.0.0.1:10247/healthz >/dev/null 2>&1; do kill -0 "$(cat pids/kwok)" 2>/dev/null || { echo "kwok ended:"; tail -3 log/kwok.log; exit 1; }; sleep 0.1; done
cd "$at"
export KUBECONFIG=$RUN/admin.kubeconfig
if [ -n "${FLEET_DO:-}" ]; then bash -c "$FLEET_DO"; else "$RUN/fleet" -run "$RUN" -versions "kubernetes $("$LAB/bin/kube-apiserver" --version | cut -d' ' -f2), $("$LAB/bin/etcd" --version | sed -n 's/^etcd Version: /etcd /p'), kwok v0.8.0" -commit "$FLEET_COMMIT" -limits "${FLEET_QPS:-raised}" "$@"; fi
