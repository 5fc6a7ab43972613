"""Scans: rows of one partition after the other.

`sources` opens a partition's scan here or on another pod. `open_scan`, `timed_scan` and
`index_scan` read one replica's rows; `replica_reads` holds the state that they read; `read_ahead`
takes rows in chunks. `time_bounds` and `time_page` find rows by time, `version_lookup` the
versions of a key. `cursors` encodes where a scan stopped, so that any pod can go on.
"""
