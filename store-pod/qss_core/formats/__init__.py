"""The bytes of rows, as replicas store them.

`values` encodes a value with its timestamp and headers in each store format, and converts rows
between formats; `headers` encodes the block of record headers. `timed_keys` encodes the row keys of
windows, sessions and versions, so that their byte order is the order of reads.

`segments` has the rules by which rows with times expire: a row is hidden once its time is over, and
dropped with its whole segment.
"""
