"""Decides which row key and which column family a row of a batch gets.

1. `row_families.row_placer_of` makes a `RowPlacer` for a commit in one partition, by the store's
   type: `versions` for a Versioned store, `indexes` for a store type with indexes, segments for
   windows and sessions, and one family for the rest. `placed_rows` has the protocol and the values
   between them.
2. `commit_rows.row_slices` calls `place` for some thousand rows: it makes row keys, drops rows of
   expired segments, and counts rows that retention hides. Times come from Arrow columns at once.
3. `commit_writer` calls `split` for each slice just before the slice is written. It returns rows by
   family, in which a later row wins and None deletes.

The two calls may read different rows. `place` depends on the batch alone. `split` of `versions` and
`indexes` reads the rows that are present, with those of earlier slices: it must be called in order.

A commit may be applied again after any of its writes, and has to give the same rows: `indexes`
writes a row with its index rows in one batch, and `version_history` (pure) computes intervals that
depend on the puts of a key and not on their order.

`replicas.views.uncommitted` places staged rows by the same code, over a view in the place of the
engine. A change here changes both. The package uses `family_names`, `index_keys` and `engine`, and
writes nothing itself. Tests: `test_placement`, `test_version_history` and `test_index_keys` (unit),
`tests/contract/test_versions.py` and `test_segmented.py`.
"""
