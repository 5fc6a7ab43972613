"""Copies the state of a Spark query into stores, batch by batch and exactly once.

1. `commands` has `qss mirror`: `listing` lists the state of a checkpoint, and parts of it are
   copied as options or a file of several stores say (`wanted_copies`).
2. `state_follower` begins with the whole state of the newest committed batch, and then reads the
   changes of each further batch, by `state`.
3. `rows` makes rows of a store from keys and values of the state; `stores` makes the resources of
   stores that fit them.
4. `copies` chooses the next batch, and writes it under its own number, with the position of the
   query: a repeat changes nothing, as with `sink`. Where Spark has deleted a batch that is still
   needed, the copy begins anew with the whole state, which replaces all rows at once.
5. `follow_loop` goes on with the copies of all stores, tells each batch, and keeps `metrics`.
   `driver` does it in a thread of the query's driver.

The store keeps the id of the query and the last batch, so a mirror that starts again goes on behind
it, and a second mirror by the same writer ends the first one; another writer is refused. A batch
that was decided before a crash is the last batch of the store then, and is not read again.
Nothing here writes into a checkpoint, and a copy needs no Spark. `verification` compares a store
with the rows of Spark's reader (`rows.spark_rows`).

Tests: `test_mirror` and those beside it (unit), `test_mirror_copies`, `test_mirror_stores`,
`test_mirror_verified` and `test_spark_mirror` (integration).
"""
