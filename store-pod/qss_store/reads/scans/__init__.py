"""Scans the rows of one partition, from one state of one replica.

A kind of read (`multi_scan`, `time_scan`) asks for the rows of a partition with a plan, and with
the place where an earlier page ended (`cursors`).

1. `sources` opens the scan: of a local replica, or of a replica on another pod. It is opened before
   any of its rows is sent, so that another replica can still replace it.
2. `open_scan` chooses the scan of a local replica by the plan: key ranges are in `replica_reads`,
   windows, sessions and versions in `timed_scan`, rows by an index in `index_scan`.
3. `read_ahead` takes the rows in chunks, so that other requests get turns between them.
4. `time_bounds` computes between which row keys the rows of a range of times lie, and filters rows
   of other keys and times. `version_lookup` finds the versions of a key that were valid at a time.
   `time_page` keeps the first rows by time, within the limits of a page.
5. The rows go to the caller as encoded chunks (`reads.encode`). At a limit `cursors` encodes where
   the scan stopped. A cursor is a token that any pod accepts, also after a restart.

`replica_reads` also has the reads of single keys. It never awaits, so its callers limit how long it
holds the event loop.
"""
