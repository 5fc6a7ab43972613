"""Copies of parts of a state, each into a store of its own.

1. `state_copies` has the copies of one query. It writes each batch into all stores that lack it
   before the next one, so no store is more than one batch ahead, and keeps the runs of all open.
2. `state_copy` is one copy: it chooses the next batch of the query, reads its changes by
   `state_follower`, and tells what it has written. Where Spark has deleted a batch that is still
   needed, it begins anew with the whole state.
3. `copy_writer` is the writer of that copy in its store. It opens a run, refuses the writers of
   other copies, stages the rows in slices and commits them as one batch, which replaces all rows
   where the copy begins anew.

The number of a batch in the store is that of the query's batch, so a repeat after a crash changes
nothing. A second copy by the same writer ends the first one.

The package knows `state_follower` and `rows`, and no command line: `commands`, `driver` and
`follow_loop` use it.
"""
