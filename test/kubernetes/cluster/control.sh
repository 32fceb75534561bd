#!/usr/bin/env bash
# control.sh starts etcd, the API server, the scheduler and the controller manager in the namespaces of the cluster.
set -eu
here=$(cd "$(dirname "$0")" && pwd); . "$here/env.sh"
mkdir -p "$RUN"/{log,pids}; cd "$RUN"
token=$(openssl rand -hex 16); (umask 077; echo "$token,admin,admin,\"system:masters\"" > tokens.csv)
[ -f sa.key ] || openssl genrsa -out sa.key 2048 2>/dev/null
cat > admin.kubeconfig <<K
apiVersion: v1
kind: Config
clusters: [{name: berth, cluster: {server: "https://10.96.0.1:443", insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: $token}}]
contexts: [{name: berth, context: {cluster: berth, user: admin}}]
current-context: berth
K
chmod 600 admin.kubeconfig
gates=${GATES:+--feature-gates=$GATES}
start() { local n=$1; shift; setsid nohup "$@" >"log/$n.log" 2>&1 </dev/null & echo $! > "pids/$n"; }
answers() { local n=$1; shift; until curl -fsSk "$@" >/dev/null 2>&1; do kill -0 "$(cat "pids/$n")" 2>/dev/null || { echo "$n ended:"; tail -5 "log/$n.log"; exit 1; }; sleep 0.1; done; }
start etcd "$B/etcd" --data-dir "$RUN/etcd" --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380 --unsafe-no-fsync
answers etcd http://127.0.0.1:2379/health
start apiserver "$B/kube-apiserver" --etcd-servers=http://127.0.0.1:2379 --bind-address=0.0.0.0 --advertise-address=10.96.0.1 --secure-port=443 --cert-dir="$RUN/apiserver-certs" \
  --endpoint-reconciler-type=none --service-account-issuer=https://kubernetes.default.svc --service-account-key-file=sa.key --service-account-signing-key-file=sa.key --service-cluster-ip-range=10.96.0.0/24 \
  --token-auth-file=tokens.csv --authorization-mode=Node,RBAC --allow-privileged=true --kubelet-preferred-address-types=InternalIP $gates ${APISERVER_EXTRA:-}
answers apiserver -H "Authorization: Bearer $token" https://10.96.0.1:443/readyz
start scheduler "$B/kube-scheduler" --kubeconfig=admin.kubeconfig --leader-elect=false --bind-address=127.0.0.1 --authentication-skip-lookup $gates ${SCHEDULER_EXTRA:-}
start kcm "$B/kube-controller-manager" --kubeconfig=admin.kubeconfig --leader-elect=false --bind-address=127.0.0.1 --authentication-skip-lookup --service-account-private-key-file=sa.key --root-ca-file="$RUN/apiserver-certs/apiserver.crt" $gates ${KCM_EXTRA:-}
answers scheduler https://127.0.0.1:10259/healthz; answers kcm https://127.0.0.1:10257/healthz
until "$B/kubectl" --kubeconfig admin.kubeconfig get sa default >/dev/null 2>&1; do sleep 0.1; done
