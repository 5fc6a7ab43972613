"""Brings the entries of one replica's changelog into its database, in order.

`apply_loop` is the task of a replica: it runs `replica_recovery` once, and then applies all entries
under the high watermark. The pure state machine plans each entry, its changes and rows become
durable, the state machine advances, and readers see the new state. `replica_recovery` plans the
steps from an opened database to a replica that serves; a full disk interrupts the plan, and it is
made again.

`pending_entries` holds the entries between their append and their apply, with the futures of their
outcomes. `replica_health` has the failure that stops a replica, or the full disk that delays it.
`dropped_rows` counts the rows of each batch that retention dropped. `replica_parts` has the parts
that all of these share with `replica`.
"""
