"""Applies a commit to the database of a replica.

1. `replicas.apply.apply_loop` plans the commit with the pure machine, and gives the plan to
   `commit_writer.CommitWriter`, with a `RowPlacer` and the batch of changed meta rows.
2. `row_slices` reads the staged payloads of the plan one after the other, has `placement` choose a
   row key and a family for each row, encodes the rows, and cuts them into slices of limited rows
   and bytes. A write holds the interpreter's lock, so every reader waits for a whole slice.
3. `commit_writer` writes each slice, and lets readers take their turn between two. The last slice
   carries the meta rows, so the new state of the batch comes with its last row.

A commit of one slice is one write. Before a second slice `applying` is written: a replica that
opens with it writes the whole commit again before it serves. So each write must give the same
result when it is repeated.

Readers keep the view before the batch until the replica shows the new one. The writer holds the
pod's `gate`, so that no other task moves rows meanwhile. Rows of an older format are deleted from
their family in the same batch.

`index_build` is apart: it makes index rows anew where a store type's indexes have changed, before
the partition serves, and keeps its progress with each write. The package is the top of `storage`,
and imports no replica. Tests: `test_row_slices` (unit), `test_writes_durability` (integration),
`tests/simulation/test_fault_at_every_write.py`.
"""
