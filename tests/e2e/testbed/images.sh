# shellcheck shell=bash
# Images in nodes. There is no registry: archives are imported, and pods say `imagePullPolicy: IfNotPresent` or `Never`.

in_all_nodes() { # function argument...: called as `function INDEX argument...`, all nodes at a time
  local index pid pids=()
  for ((index = 0; index < NODES_MAX; index++)); do
    [ -n "$(node_pid "$index")" ] || continue
    "$1" "$index" "${@:2}" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid"; done
}

ctr_in() ( # index argument...
  in_node "$1" ctr --namespace k8s.io "${@:2}"
)

import_archives() { # index archive...
  local archive
  for archive in "${@:2}"; do ctr_in "$1" images import "$(realpath "$archive")" > /dev/null; done
}

# An image by its name, where a node does not have it yet; what the node has of the same repository goes, unless a pod runs it.
replace_image() { # index reference archive
  local index=$1 reference=$2 archive=$3 name names used
  names=$(ctr_in "$index" images list --quiet)
  used=$(ctr_in "$index" containers list | awk '{print $2}')
  for name in $names; do
    [[ $name == "${reference%:*}":* && $name != "$reference" ]] || continue
    grep -qxF "$name" <<< "$used" || ctr_in "$index" images remove "$name" > /dev/null
  done
  grep -qxF "$reference" <<< "$names" || import_archives "$index" "$archive"
  # The kubelet's side gives each image a second name, its digest, which keeps the content.
  for name in $(ctr_in "$index" images list | awk '/^sha256:/ {digest[$1] = $3} !/^sha256:/ {named[$3]} END {for (name in digest) if (!(digest[name] in named)) print name}'); do
    ctr_in "$index" images remove "$name" > /dev/null
  done
}
