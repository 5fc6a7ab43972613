"""The bytes of rows: `values` encodes values in each store format and converts between formats,
`headers` encodes record headers, `timed_keys` the row keys of windows, sessions and versions,
and `segments` has the rules by which rows expire.
"""
