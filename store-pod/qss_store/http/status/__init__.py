"""The facts that a person sees of a whole store: its pods and replicas, its writers and batches.

`replicas` answers `GET /state/status/{store}`: each pod of the store with its replicas, their
lags, sizes, failures, and the progress of migrations and copies. The pod that is asked asks all
other pods once, at the same time and for two seconds at most; the answer names a pod that is
silent, with the reason, so that one pod that is away hides nothing of the others. It has the
conditions of the resource, too, from the pod that the operator told them last.

`batches` answers `GET /state/batches/{store}`: the writers, and the newest batches that all
partitions have applied. Another pod passes the request on to the coordinator. It keeps its batches
in memory; `earlier_batches` reads those from before it started from the log of partition 0.

Both show no row, so the rights are those of discovery. `scope=local` asks no other pod: pods ask
each other so, and forward the caller's token, so that a pod gives its callers no right that they
lack.

The answers are structs of `qss_core.wire.discovery`. They are extended by new members, which older
pods and clients ignore. A status reads counters and the sizes that RocksDB keeps, and no row, so
that a page may ask each second.
"""
