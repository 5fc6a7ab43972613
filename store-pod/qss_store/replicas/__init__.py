"""The replicas of a pod: from an assignment to states that readers see.

`pod` holds the pod's share of one store: it takes assignments, opens replicas (`opening`) on its
volume (`volume`) and closes them. `registry` finds a replica by its partition. `replica` is one
partition: it appends entries to its `changelog`. Its task (`apply`) recovers the database, applies
the entries under the high watermark through the pure state machine in `transactions`, has
`storage.commit_rows` write the rows, and publishes the new state (`views.current_view`).

`append_wait` waits for the outcomes of the entries that a request appended. `group_sync` makes the
writes of many replicas durable with one wait. `completion` finds a volume that went back to an
older state, by the sequences that all partitions have applied. `format_change` prepares and takes
another format of a replica, `migrator` moves its rows in the background. `pod_context` has the
parts that all replicas of a pod share; `report` makes the operator's report on them.

A failure of one partition stays in that partition: `opening.take_out` takes its replica out of
the pod and `opening.unopened` keeps the reason.
"""
