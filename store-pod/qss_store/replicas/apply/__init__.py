"""Brings the entries of one replica's changelog into its database, in order.

`apply_loop` is the task of a replica: it runs `replica_recovery` once, and then applies whatever
comes under the high watermark. Each entry is planned by the pure state machine, its changes and
rows become durable, the state machine advances, and readers see the new state. `replica_recovery`
plans the steps from a database that was just opened to a replica that serves; a full disk cuts the
plan short, and it is made again.

`pending_entries` holds the entries between their append and their apply, with the futures of their
outcomes. `replica_health` holds the failure that stops a replica, or the full disk that holds it
up. `dropped_rows` counts the rows of each batch that were too old to be kept. `replica_parts` is
what all of these share with `replica`.
"""
