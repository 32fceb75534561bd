#!/usr/bin/env bash
# inside.sh is the first process of a cluster, in mount, network and process namespaces of its own: it starts the control
# plane and the nodes, and then waits. What ends it ends the cluster.
set -eu
here=$(cd "$(dirname "$0")" && pwd); . "$here/env.sh"; export BERTH_K8S_INSIDE=$RUN
ip link set lo up; echo 1 > /proc/sys/net/ipv4/ip_forward
ip addr add 10.96.0.1/32 dev lo # the service kubernetes: there is no proxy for services
bash "$here/control.sh"
for n in $(seq 1 "$NODES"); do bash "$here/node.sh" start "node-$n" & done; wait
for n in $(seq 1 "$NODES"); do until "$B/kubectl" --kubeconfig "$RUN/admin.kubeconfig" get node "node-$n" 2>/dev/null | grep -qw Ready; do sleep 0.2; done; done
touch "$RUN/ready"
# Bash reaps the processes that lose their parents. A signal ends only the sleep.
while :; do sleep infinity & wait; done
