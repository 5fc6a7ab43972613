"""A cluster on one machine: pods are child processes, the resource and its status are files.

`qss up` calls `run`. It takes the lock of the state directory (`directory`), lets `prepare` check
the YAML files and store them as resources, and runs `rounds` for each store: the same reconciler
as on Kubernetes, with `cluster` and `resources` as its ports. `cluster` keeps one `supervisor` for
each pod, which starts the pod again after its end, with the pauses of `backoff`.

`background` is `qss up --detach`: it starts `qss up` in another process and waits until the stores
are ready. `stop` is `qss down`: it stops the `qss up` of a state directory, and its pods. `changes`
has `qss scale`, `standbys`, `apply` and `move`: they replace stored resources, and `resources`
takes a replaced one into the store's next round. `pods` finds pods by their names, and kills one.
`processes` identifies a process by its pid and start time, and ends children with their parent.
`status` formats the published status for `qss status`.
"""
