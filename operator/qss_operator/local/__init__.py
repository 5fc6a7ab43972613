"""A cluster on one machine: pods are child processes, the resource and its status are files.

`qss up` calls `run`, or `background` with `--detach`, which starts `qss up` in another process and
waits until the stores are ready.

1. `prepare` reads the YAML files, checks them by the rules of the CRD, and compares them with the
   stored resources. `run` takes the lock of the state directory (`directory`) and stores them.
2. `run` starts a task for each store. `rounds` runs the store's rounds: the same reconciler as on
   Kubernetes, with `status_writer` and `cluster` as its ports.
3. `status_writer` reads the stored resource and writes the status. `cluster` starts the pods: one
   `supervisor` for each, which starts its pod again after its end, with the pauses of `pod_ends`.
4. A round ends with the new status in a file. The next one begins after a pause, or when a pod has
   started or ended, or when the resource has changed.

Other commands work beside the running `qss up`, through files. `changes` has `qss scale`,
`standbys`, `apply` and `move`: they replace stored resources, and `run` wakes the round that reads
them. `pods` finds pods by their names, and kills one. `status` formats the published status for
`qss status`. `stop` is `qss down`: it ends the `qss up` of a state directory, and its pods.

`processes` identifies a process by its pid and start time, so that no command signals another
process which got the same pid. It also ends children with their parent.
"""
