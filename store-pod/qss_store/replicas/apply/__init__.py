"""Brings the entries of one replica's changelog into its database, in order.

1. `replica` loads `replica_parts`, which all modules here share, and starts `apply_loop` as a task.
   It runs `replica_recovery` once: a plan of steps from the opened database to a replica that
   serves. A full disk interrupts the plan, and it is made again; a step that was done changes
   nothing then.
2. An append puts an entry into the changelog and into `pending_entries`, with the future of its
   outcome, and wakes the loop. A repeat of a pending Stage or Commit waits for the first one.
3. The loop applies all entries under the high watermark. The pure state machine plans each entry,
   its changes and rows become durable, the state machine advances, and readers see the new state.
4. `pending_entries` sets the outcome, which the waiting request gets. An entry of an earlier
   process has no future: the loop reads it from the changelog.

A commit holds the lock `changing` (`row_lock`) from its first row until readers see it, as does all
other code that moves rows, changes their format or copies the database (`checkpoints`).

Any other error than a full disk ends the loop: `replica_health` keeps the failure, and all pending
requests get it. A full disk only delays: entries stay in the log, and the loop tries again each
second. With a damaged block that a reader met, the replica goes on.

`catch_up` says whether a standby has applied enough to answer reads. `dropped_rows` counts the rows
of each batch that retention dropped. The package does not import `replica`. Tests:
`test_apply_loop`, `test_replica_recovery` (unit), `test_joined_standbys` (integration), and
`tests/simulation`.
"""
