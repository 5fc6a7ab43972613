# shellcheck shell=bash
# Builds Kubernetes, etcd, CoreDNS, helm and kube-router from Go modules into $BIN, the pause image, and the library of a node's clock; takes
# promtool from Debian. What is there is not built again, and a build that is killed leaves nothing that looks like a program.

KUBERNETES=1.34.4 ETCD=3.6.5 COREDNS=1.13.1 HELM=4.3.1
GO_MINOR_MIN=25
PAUSE_IMAGE=registry.k8s.io/pause:3.9 # As config/containerd.toml names it.
KUBERNETES_PROGRAMS=(kube-apiserver kube-controller-manager kube-scheduler kubectl kubelet kube-proxy)
KUBE_ROUTER=2.1.0
# With its version in its name: that of the folder is the identity of the large builds, which another version of this one need not repeat.
POLICY_PROGRAM=kube-router-$KUBE_ROUTER
PROGRAMS=("${KUBERNETES_PROGRAMS[@]}" etcd coredns helm promtool "$POLICY_PROGRAM")
# `k8s.io/kubernetes` names these at v0.0.0, which exists nowhere: each is replaced by its published version.
KUBERNETES_STAGING=(api apiextensions-apiserver apimachinery apiserver cli-runtime client-go cloud-provider cluster-bootstrap
  code-generator component-base component-helpers controller-manager cri-api cri-client csi-translation-lib
  dynamic-resource-allocation endpointslice externaljwt kms kube-aggregator kube-controller-manager kube-proxy kube-scheduler
  kubectl kubelet metrics mount-utils pod-security-admission sample-apiserver sample-cli-plugin sample-controller)

versions_key() { echo "kubernetes-$KUBERNETES,etcd-$ETCD,coredns-$COREDNS,helm-$HELM"; }

missing_programs() { # program...: those that are not built
  local program
  for program in "$@"; do [ -x "$BIN/$program" ] || echo "$program"; done
}

is_built() { [ -z "$(missing_programs "${PROGRAMS[@]}")" ] && [ -e "$(pause_archive)" ] && [ -e "$(clock_library)" ]; }

require_go() {
  local version
  version=$(go env GOVERSION 2>/dev/null) || version=none
  [[ $version =~ ^go1\.([0-9]+) ]] && ((BASH_REMATCH[1] >= GO_MINOR_MIN)) && return
  fail "Go 1.$GO_MINOR_MIN or newer is needed to build the test bed, and go on the PATH is: $version" \
    ".ci/install-e2e installs it, with all else that the test bed needs, and prints the folder to put on the PATH"
}

build() {
  ! is_built || return 0
  require_go
  mkdir -p "$BIN" "$WORK"
  (
    flock 9 # Two builds at a time would only take twice as long.
    build_kubernetes
    build_module go.etcd.io/etcd/server/v3 "$ETCD" go.etcd.io/etcd/server/v3 etcd
    build_module github.com/coredns/coredns "$COREDNS" github.com/coredns/coredns coredns
    build_module helm.sh/helm/v4 "$HELM" helm.sh/helm/v4/cmd/helm helm "-X helm.sh/helm/v4/internal/version.version=v$HELM"
    build_module github.com/cloudnativelabs/kube-router/v2 "$KUBE_ROUTER" github.com/cloudnativelabs/kube-router/v2/cmd/kube-router "$POLICY_PROGRAM"
    extract_promtool
    build_pause
    build_clock
  ) 9> "$WORK/lock"
}

build_kubernetes() (
  local flags module program stamp=k8s.io/component-base/version
  [ -n "$(missing_programs "${KUBERNETES_PROGRAMS[@]}")" ] || return 0
  enter_module kubernetes k8s.io/kubernetes "$KUBERNETES" "${KUBERNETES_PROGRAMS[@]/#/k8s.io/kubernetes/cmd/}"
  for module in "${KUBERNETES_STAGING[@]}"; do echo "replace k8s.io/$module => k8s.io/$module v0${KUBERNETES#1}"; done >> go.mod
  tidy_module
  flags="-X $stamp.gitVersion=v$KUBERNETES -X $stamp.gitMajor=1 -X $stamp.gitMinor=$(cut -d. -f2 <<< "$KUBERNETES") -X $stamp.gitTreeState=clean"
  for program in "${KUBERNETES_PROGRAMS[@]}"; do
    build_program "$program" "k8s.io/kubernetes/cmd/$program" -ldflags "-s -w $flags" -tags providerless,notest
  done
)

build_module() ( # module version package program [link-flags]
  [ -n "$(missing_programs "$4")" ] || return 0
  enter_module "$4" "$1" "$2" "$3"
  tidy_module
  build_program "$4" "$3" -ldflags "-s -w ${5:-}"
)

enter_module() { # name module version package...: a module that needs these packages, as the current directory
  local directory=$WORK/$1 requirement="$2 v$3"
  shift 3
  rm -rf "$directory"
  mkdir -p "$directory"
  cd "$directory"
  printf 'module build\n\ngo 1.%s\n\nrequire %s\n\n' "$GO_MINOR_MIN" "$requirement" > go.mod
  { printf '//go:build tools\n\npackage build\n\nimport (\n'; printf '\t_ "%s"\n' "$@"; printf ')\n'; } > tools.go
}

tidy_module() { go mod tidy > tidy.log 2>&1 || { cat tidy.log >&2; fail "go mod tidy failed in $PWD"; }; }

build_program() { # program package flag...: in the module of the current directory
  local program=$1 package=$2 began=$SECONDS
  [ ! -x "$BIN/$program" ] || return 0
  CGO_ENABLED=0 go build -buildvcs=false -trimpath "${@:3}" -o "$WORK/$program.draft" "$package"
  mv "$WORK/$program.draft" "$BIN/$program"
  echo "built $program in $((SECONDS - began)) s"
}

extract_promtool() ( # Out of Debian's package: installed, that would run a server. From its Go module it takes as long as Kubernetes.
  [ -n "$(missing_programs promtool)" ] || return 0
  rm -rf "$WORK/promtool"
  mkdir -p "$WORK/promtool"
  cd "$WORK/promtool"
  apt-get download -qq -o APT::Sandbox::User=root prometheus || fail "promtool is in Debian's package prometheus: run apt-get update"
  dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool
  mv usr/bin/promtool "$BIN/promtool"
  echo "extracted promtool"
)

pause_archive() { echo "$BIN/../pause.tar"; }

build_pause() ( # The program that keeps a pod's namespaces, as an image.
  [ ! -e "$(pause_archive)" ] || return 0
  rm -rf "$WORK/pause"
  mkdir -p "$WORK/pause"
  cd "$WORK/pause"
  CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o pause "$HERE/pause.go"
  printf 'FROM scratch\nCOPY pause /pause\nUSER 65535:65535\nENTRYPOINT ["/pause"]\n' > Dockerfile
  buildah bud --quiet --pull-never --format docker --tag "$PAUSE_IMAGE" . > /dev/null
  buildah push --quiet "$PAUSE_IMAGE" "docker-archive:pause.tar:$PAUSE_IMAGE"
  buildah rmi "$PAUSE_IMAGE" > /dev/null
  mv pause.tar "$(pause_archive)"
  echo "built the pause image"
)

build_clock() {
  [ ! -e "$(clock_library)" ] || return 0
  gcc -O2 -s -shared -fPIC -Wall -Werror -o "$(clock_library).draft" "$HERE/clock.c"
  mv "$(clock_library).draft" "$(clock_library)"
}
