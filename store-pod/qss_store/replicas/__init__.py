"""The replicas of a pod: from an assignment to states that readers see.

1. The operator sends an assignment to `pod`, which holds the pod's share of one store. `opening`
   checks it, and `assigned_replicas` opens the replicas on the pod's `volume`, by the parts in
   `opening`. The assignment is kept on the volume, so a pod that restarts needs no operator.
2. `registry` finds a replica by its partition, or the pod that has the partition's active.
3. `writes` appends entries to a `replica` through `append_wait`, which waits for their outcomes.
   The replica adds them to its `changelog`. `group_sync` makes the writes of many replicas durable
   with one wait.
4. `transfer` sends the entries to the followers, and `peers` tracks what each follower holds. An
   entry under the high watermark may be applied.
5. The replica's task (`apply`) recovers the database once, then applies entry after entry: the pure
   machine of `transactions` plans the entry, `storage.commit_rows` writes the rows.
6. `views.current_view` publishes the new state to readers.

`format_change` prepares and takes another format of a replica, and `migration_pacing` moves its
rows in the background. `rollback_check` finds a volume that went back to an older state, by the
sequences that all partitions have applied. `pod_context` has the parts that all replicas of a pod
share; `report` makes the report for the operator.

A failure of one partition stays in that partition: `opening.take_out` takes its replica out of the
pod, and `opening.unopened_partitions` keeps the reason.
"""
