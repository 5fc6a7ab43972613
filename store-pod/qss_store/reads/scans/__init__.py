"""Scans the rows of one partition.

`sources` opens a partition's scan here or on another pod. `open_scan`, `timed_scan` and
`index_scan` read one replica's rows; `replica_reads` reads its points and key ranges; `read_ahead`
takes rows in chunks. `time_bounds` and `time_page` find rows by time, `version_lookup` the versions
of a key. `cursors` encodes where a scan stopped, so that any pod can continue it.
"""
