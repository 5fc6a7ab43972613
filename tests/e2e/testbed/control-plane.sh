# shellcheck shell=bash
# etcd, the API server, the controllers, the volumes' keeper and DNS, all on the machine; who may do what.

SERVICES=(etcd kube-apiserver kube-controller-manager kube-scheduler volumes coredns)
ISSUER=https://kubernetes.default.svc.cluster.local
ETCD_URL=http://127.0.0.1:12379
ETCD_PEER_URL=http://127.0.0.1:12380

kubeconfig_path() { echo "$STATE/kubeconfig/admin"; }
kubectl() { "$BIN/kubectl" --kubeconfig "$(kubeconfig_path)" "$@"; }
is_api_ready() { [ "$(kubectl get --raw /readyz --request-timeout 2s 2> /dev/null)" = ok ]; }
require_service() { [[ " ${SERVICES[*]} " == *" ${1:-} "* ]] || fail "a service is one of: ${SERVICES[*]}"; }

# Programs and configuration: a bed of another one is not this one.
identity() { echo "$BIN $(cat "$HERE"/{control-plane.sh,nodes.sh,node-init,node-runc,volumes} "$HERE"/config/* | sha256sum | cut -c1-16)"; }

is_control_plane_healthy() {
  local name
  [ "$(cat "$STATE/identity" 2> /dev/null)" = "$(identity)" ] || return 1
  for name in "${SERVICES[@]}"; do is_running "$name" || return 1; done
  is_api_ready
}

control_plane_up() {
  local name
  keys_make
  bridge_up
  for name in etcd kube-apiserver; do service_start "$name"; done
  await 60 "the API server is ready" is_api_ready
  for name in kube-controller-manager kube-scheduler coredns; do service_start "$name"; done
  kubectl apply --filename "$HERE/config/cluster.yaml" > /dev/null
  service_start volumes
  identity > "$STATE/identity"
}

control_plane_down() {
  local name
  for name in volumes coredns kube-scheduler kube-controller-manager kube-apiserver etcd; do end_processes "$name"; done
  rm -rf "$STATE/etcd" "$STATE/identity"
  bridge_down
}

service_start() { # name
  local keys=$STATE/keys kubeconfig
  kubeconfig=$(kubeconfig_path)
  is_running "$1" && return
  case $1 in
    etcd)
      process_start etcd "$BIN/etcd" --data-dir "$STATE/etcd" --unsafe-no-fsync --log-level warn \
        --listen-client-urls $ETCD_URL --advertise-client-urls $ETCD_URL \
        --listen-peer-urls $ETCD_PEER_URL --initial-advertise-peer-urls $ETCD_PEER_URL --initial-cluster default=$ETCD_PEER_URL
      ;;
    kube-apiserver)
      process_start kube-apiserver "$BIN/kube-apiserver" --etcd-servers=$ETCD_URL \
        --bind-address="$API_ADDRESS" --advertise-address="$API_ADDRESS" --secure-port=6443 \
        --tls-cert-file="$keys/api.crt" --tls-private-key-file="$keys/api.key" --client-ca-file="$keys/ca.crt" \
        --token-auth-file="$keys/tokens.csv" --authorization-mode=Node,RBAC \
        --enable-admission-plugins=NodeRestriction,ServiceAccount --allow-privileged=true --service-cluster-ip-range="$SERVICE_NETWORK" \
        --service-account-issuer=$ISSUER --api-audiences=$ISSUER \
        --service-account-key-file="$keys/service-account.pub" --service-account-signing-key-file="$keys/service-account.key" \
        --kubelet-client-certificate="$keys/kubelet-client.crt" --kubelet-client-key="$keys/kubelet-client.key" \
        --kubelet-preferred-address-types=InternalIP
      ;;
    kube-controller-manager)
      process_start kube-controller-manager "$BIN/kube-controller-manager" --kubeconfig="$kubeconfig" --bind-address=127.0.0.1 \
        --leader-elect=false --use-service-account-credentials=true --root-ca-file="$keys/ca.crt" \
        --service-account-private-key-file="$keys/service-account.key" \
        --enable-hostpath-provisioner=true --node-monitor-grace-period=20s
      ;;
    kube-scheduler)
      process_start kube-scheduler "$BIN/kube-scheduler" --kubeconfig="$kubeconfig" --bind-address=127.0.0.1 --leader-elect=false
      ;;
    volumes)
      process_start volumes env KUBECONFIG="$kubeconfig" VOLUMES="$VOLUMES" PATH="$BIN:$PATH" "$HERE/volumes"
      ;;
    coredns)
      sed "s#@KUBECONFIG@#$kubeconfig#; s#@ADDRESS@#$API_ADDRESS#" "$HERE/config/Corefile" > "$STATE/Corefile"
      process_start coredns "$BIN/coredns" -conf "$STATE/Corefile"
      ;;
  esac
}

# --- Keys: one authority, and static tokens for the administrator and the nodes. They are made once.

keys_make() (
  [ ! -e "$STATE/keys/complete" ] || return 0
  umask 077
  rm -rf "$STATE/keys" "$STATE/kubeconfig"
  mkdir -p "$STATE/keys" "$STATE/kubeconfig"
  cd "$STATE/keys"
  exec 2> openssl.log
  openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj /CN=testbed-ca -keyout ca.key -out ca.crt
  openssl genrsa -out service-account.key 2048
  openssl rsa -in service-account.key -pubout -out service-account.pub
  certificate api /CN=kube-apiserver "IP:$API_ADDRESS,IP:${SERVICE_NETWORK%.*}.1,IP:127.0.0.1,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local"
  certificate kubelet-client /O=system:masters/CN=apiserver-kubelet-client DNS:apiserver-kubelet-client
  kubeconfig_make admin admin system:masters
  for ((index = 0; index < NODES_MAX; index++)); do kubeconfig_make "node$index" "system:node:node$index" system:nodes; done
  touch complete
)

certificate() { # name subject alternative-names
  openssl req -newkey rsa:2048 -nodes -subj "$2" -keyout "$1.key" -out "$1.csr"
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 3650 -extfile <(echo "subjectAltName=$3") -out "$1.crt"
}

kubeconfig_make() { # file user group
  local token
  token=$(openssl rand -hex 16)
  echo "$token,$2,$1,\"$3\"" >> tokens.csv
  cat > "$STATE/kubeconfig/$1" << END
apiVersion: v1
kind: Config
clusters: [{name: testbed, cluster: {server: "https://$API_ADDRESS:6443", certificate-authority-data: $(base64 -w0 ca.crt)}}]
users: [{name: $1, user: {token: $token}}]
contexts: [{name: testbed, context: {cluster: testbed, user: $1}}]
current-context: testbed
END
}
