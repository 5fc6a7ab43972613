"""Reads one state of one partition.

`read_view` has the state that a reader holds: its sequence, its position and its rows. The other
modules are layers that look like one column family: `segmented` joins the segments of a Window
or Session partition, `versioned` the versions of a key, `converted` rows in an older format,
`overlaid` staged rows over committed ones, `indexed` rows with their index rows. `row_digest` makes
digests of rows, by which replicas are compared.
"""
