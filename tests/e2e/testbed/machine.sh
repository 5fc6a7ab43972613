# shellcheck shell=bash
# The machine below the bed: the Debian packages, processes that are known by a mark, the bridge, cgroups.

BRIDGE=tb0
BED_NETWORK=172.30.0          # The machine is .1, node I is .(10 + I).
API_ADDRESS=$BED_NETWORK.1
SERVICE_NETWORK=10.96.0.0/16
VOLUMES=/tmp/hostpath_pv      # Where the controller manager's provisioner makes its folders, always.

# What is looked for, and the package that brings it.
PACKAGE_OF=(
  containerd=containerd runc=runc /usr/lib/cni/bridge=containernetworking-plugins iptables=iptables ipset=ipset ip=iproute2
  gcc=gcc gencat=libc6-dev # gencat comes with the headers, which gcc needs.
  openssl=openssl flock=util-linux sysctl=procps buildah=buildah debootstrap=debootstrap
)

missing_packages() {
  local pair
  for pair in "${PACKAGE_OF[@]}"; do command -v "${pair%%=*}" > /dev/null || echo "${pair#*=}"; done
}

require_packages() {
  local missing
  missing=$(missing_packages | xargs)
  [ -z "$missing" ] || fail "these Debian packages are missing: $missing" \
    "install them with: apt-get install --no-install-recommends $missing    (or run .ci/install-e2e)"
}

# --- Processes. Pid files outlive processes, and pids are used again; a mark in the environment does neither. Children inherit it.

process_start() { # name command...: detached, its output in a log
  local name=$1
  shift
  mkdir -p "$STATE/log"
  TESTBED_PROCESS=$STATE/$name setsid "$@" > "$STATE/log/$name.log" 2>&1 < /dev/null &
}

processes() { # name: their pids; "" for those of the whole bed
  local end=()
  [ -z "$1" ] || end=(--line-regexp)
  grep --files-with-matches --null-data --no-messages --fixed-strings "${end[@]}" \
    "TESTBED_PROCESS=$STATE/$1" /proc/[0-9]*/environ | cut -d/ -f3 || true
}

is_running() { [ -n "$(processes "$1")" ]; }

end_processes() { # name
  local signal pids
  for signal in TERM KILL; do
    for _ in {1..20}; do
      pids=$(processes "$1")
      [ -n "$pids" ] || return 0
      # shellcheck disable=SC2086
      kill -$signal $pids 2> /dev/null || true
      sleep 0.1
    done
  done
  fail "these processes do not end: $pids"
}

await() { # seconds what command...: until the command succeeds
  local deadline=$((SECONDS + $1)) what=$2
  shift 2
  until "$@"; do
    ((SECONDS < deadline)) || fail "$what: not in time, see $STATE/*/log and $STATE/log"
    sleep 0.1
  done
}

# --- Network

bridge_up() {
  ip link show "$BRIDGE" > /dev/null 2>&1 && return
  # Without an address of its own a bridge takes the lowest one of its ports. It would change with the node of that port, and the other
  # nodes would send what is for the API server and DNS to the old one for half a minute.
  ip link add "$BRIDGE" address 02:00:00:00:00:01 type bridge
  ip addr add "$API_ADDRESS/24" dev "$BRIDGE"
  ip link set "$BRIDGE" up
}

bridge_down() { ip link del "$BRIDGE" 2> /dev/null || true; }

# --- Control groups: one for each node, in every hierarchy

cgroup_roots() {
  local directory
  if [ -e /sys/fs/cgroup/cgroup.controllers ]; then echo /sys/fs/cgroup; return; fi
  for directory in /sys/fs/cgroup/*/; do
    if [ -e "$directory/cgroup.procs" ]; then echo "${directory%/}"; fi
  done
}

cgroups_make() { # name
  local root file
  for root in $(cgroup_roots); do
    mkdir -p "$root/$1"
    if [ -e "$root/cgroup.controllers" ] && [ "$root" = /sys/fs/cgroup ]; then
      echo "+cpuset +cpu +io +memory +pids" > "$root/cgroup.subtree_control"
    fi
    for file in cpuset.cpus cpuset.mems; do # A new cpuset of version 1 is empty, and nothing may run in it.
      if [ -e "$root/$file" ]; then cat "$root/$file" > "$root/$1/$file"; fi
    done
  done
}

cgroups_remove() { # name
  local root
  for root in $(cgroup_roots); do
    [ ! -d "$root/$1" ] || find "$root/$1" -depth -type d -exec rmdir {} + 2> /dev/null || true
  done
}
