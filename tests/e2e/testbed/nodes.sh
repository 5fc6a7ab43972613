# shellcheck shell=bash
# Nodes: each is a set of namespaces that begins with `node-init` as its process 1, and a folder that outlives it.

NODES_MAX=4

node_address() { echo "$BED_NETWORK.$((10 + $1))"; }

node_pid() { # index: the pid of its process 1, nothing when it does not run
  local pid
  for pid in $(processes "node$1"); do
    # A process in a namespace of its own has two pids: the machine's and its own.
    if grep -qsE $'^NSpid:\t[0-9]+\t1$' "/proc/$pid/status"; then echo "$pid"; fi
  done
}

has_begun() { [ -e "$STATE/node$1/ready" ] && [ -n "$(node_pid "$1")" ]; }

in_node() { # index command...
  local pid
  pid=$(node_pid "$1")
  [ -n "$pid" ] || fail "node$1 does not run"
  exec nsenter --target "$pid" --mount --net --pid --uts --ipc "${@:2}"
}

node_start() { # index
  local index=$1 node=$STATE/node$1 file
  [ -z "$(node_pid "$index")" ] || return 0
  rm -f "$node"/{ready,go}
  mkdir -p "$node"/{log,cni,state/containerd,state/kubelet,state/cni,state/log}
  for file in cni.conflist kubelet.yaml kube-proxy.yaml; do
    sed "s#@STATE@#$STATE#g; s#@INDEX@#$index#g" "$HERE/config/$file" > "$node/$file"
  done
  mv "$node/cni.conflist" "$node/cni/10-testbed.conflist"
  : > "$node/resolv.conf" # Pods have the cluster's DNS and no way out.
  cgroups_make "testbed-node$index"
  date -u +%FT%TZ > "$node/started"
  process_start "node$index" env NODE="$node" INDEX="$index" ADDRESS="$(node_address "$index")" \
    HERE="$HERE" BIN="$BIN" KUBECONFIG="$STATE/kubeconfig/node$index" PAUSE="$(pause_archive)" \
    unshare --mount --net --pid --uts --ipc --fork --mount-proc --kill-child --propagation shared "$HERE/node-init"
  await 20 "node$index has its namespaces" has_begun "$index"
  node_connect "$index"
  touch "$node/go"
  if [ -e "$STATE/policies" ]; then policies_start "$index"; fi
}

node_connect() { # index
  local index=$1 pid other
  pid=$(node_pid "$index")
  ip link add "tbnode$index" type veth peer name eth0 netns "$pid"
  ip link set "tbnode$index" master "$BRIDGE" up
  nsenter --target "$pid" --net sh -c "ip addr add $(node_address "$index")/24 dev eth0 && ip link set eth0 up && ip route add default via $API_ADDRESS"
  for ((other = 0; other < NODES_MAX; other++)); do
    [ "$other" = "$index" ] || nsenter --target "$pid" --net ip route replace "10.244.$other.0/24" via "$(node_address "$other")"
  done
  ip route replace "10.244.$index.0/24" via "$(node_address "$index")"
  route_services
}

route_services() { # The machine reaches services through the kube-proxy of the first node that runs.
  local index
  for ((index = 0; index < NODES_MAX; index++)); do
    [ -n "$(node_pid "$index")" ] || continue
    ip route replace "$SERVICE_NETWORK" via "$(node_address "$index")"
    return
  done
}

clock_library() { echo "$BIN/../clock-$(sha256sum "$HERE/clock.c" | cut -c1-16).so"; }

# The seconds by which the clock of a node's pods is ahead of the machine's. Programs that run keep the file, so it is written in place.
clock_set() { # index seconds|off
  local folder=$STATE/node$1/clock
  if [ "$2" = off ]; then
    [ ! -e "$folder/text" ] || printf '%+012d\n' 0 1<> "$folder/text"
    rm -f "$folder/text"
    return
  fi
  mkdir -p "$folder"
  chmod 755 "$folder"
  install --mode 644 "$(clock_library)" "$folder/clock.so.draft"
  mv "$folder/clock.so.draft" "$folder/clock.so"
  printf '%+012d\n' "$2" 1<> "$folder/text"
  chmod 644 "$folder/text"
}

# --- NetworkPolicies, from `testbed policies on` until `off`; also on nodes that start meanwhile

policies_start() { # index
  (in_node "$1" sysctl -qw net.bridge.bridge-nf-call-iptables=1) # Pods of one node reach each other over a bridge.
  process_start "policies$1" nsenter --target "$(node_pid "$1")" --mount --net --pid --uts --ipc "$BIN/$POLICY_PROGRAM" \
    --run-firewall --run-router=false --run-service-proxy=false --kubeconfig="$(kubeconfig_path)" --hostname-override="node$1" \
    --service-cluster-ip-range="$SERVICE_NETWORK" --health-port=0 --metrics-port=0
}

policies_stop() { # index: without these jumps nothing reaches the chains that it made; its own clean-up needs the whole kube-router
  end_processes "policies$1"
  [ -z "$(node_pid "$1")" ] ||
    in_node "$1" sh -c "iptables-save -t filter | sed -n 's/^-A \\(.* -j KUBE-ROUTER-.*\\)/-D \\1/p' | xargs -r -L1 iptables"
}

policies() { # on|off
  local index
  if [ "$1" = on ]; then touch "$STATE/policies"; else rm -f "$STATE/policies"; fi
  for ((index = 0; index < NODES_MAX; index++)); do
    (policies_stop "$index") # in_node becomes its command.
    if [ "$1" = on ] && [ -n "$(node_pid "$index")" ]; then policies_start "$index"; fi
  done
}

is_node_ready() { # index: its kubelet has said so since it was started
  local said
  [ -n "$(node_pid "$1")" ] || return 1
  said=$(kubectl get node "node$1" --request-timeout 5s \
    --output jsonpath='{range .status.conditions[?(@.type=="Ready")]}{.status} {.lastHeartbeatTime}{end}' 2> /dev/null) || return 1
  [ "${said%% *}" = True ] && [[ ! ${said#* } < $(cat "$STATE/node$1/started") ]]
}

await_node() { # index
  await 60 "node$1 is ready" is_node_ready "$1"
  echo "node$1 is ready"
}

node_down() { # index
  local pid
  pid=$(node_pid "$1")
  if [ -n "$pid" ]; then
    kill -KILL "$pid" 2> /dev/null || true # The kernel then ends all of the namespace.
  fi
  end_processes "policies$1"
  end_processes "node$1"
  rm -f "$STATE/node$1"/{ready,go}
  cgroups_remove "testbed-node$1"
  ip link del "tbnode$1" 2> /dev/null || true
  if ip link show "$BRIDGE" > /dev/null 2>&1; then route_services; fi
}
