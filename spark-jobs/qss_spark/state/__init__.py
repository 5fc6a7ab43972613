"""Reads the state of a Spark query from its checkpoint, without Spark and without the query.

1. `checkpoint` reads the logs: the newest committed batch, its settings, the stateful operators.
   `commits/N` alone says that batch N is over.
2. `schemas` reads the columns of each store, and `types` knows their types.
3. `snapshots` reads the state of one partition: the newest snapshot, and the changes after it. For
   that `frames` decompresses a file, and `records` finds its puts, deletes and merges.
4. `tables` makes a table of the bytes: `unsafe_rows` reads the columns of many rows at once.
5. `inventory` lists the parts of a checkpoint's state.

The files have the forms of Spark 4.3, by tests with files that it wrote: HDFS-backed deltas and
snapshots, and RocksDB's changelogs and snapshots, in lz4 and zstd. The forms are not documented, so
an unknown form is refused by name: `errors` has the error. All modules but `checkpoint`,
`snapshots` and `inventory` are pure. Nothing here writes into a checkpoint.

Tests: `test_state_files`, `test_mirror` (unit), and `test_spark_state` (contract).
"""
