"""The replicas of a pod: from an assignment to states that readers see.

`pod` holds the pod's share of one store: it takes assignments, opens replicas (`opening`) on
its volume (`volume`) and closes them. `replica` is one partition: it appends entries to its
`changelog`. Its task (`apply`) recovers the database, applies the entries under the high watermark
through the pure state machine in `transactions`, has `storage.commit_rows` write the rows, and
publishes the new state (`views.current_view`).

`append_wait` tells a request the outcomes of the entries that it appended.
`group_sync` makes the writes of many replicas durable with one wait. `completion` remembers
which sequence is complete on all partitions, so that a volume that went back is noticed.
`format_change` prepares and takes another format of a replica, `migrator` moves its rows in the
background. `pod_context` is what all replicas of a pod share; `report` is what the operator
reads about them.

A failure of one partition stays in that partition: `opening.take_out` takes its replica out of
the pod and `opening.unopened` keeps the reason.
"""
