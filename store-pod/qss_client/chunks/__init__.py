"""Rows on their way to a store, in Arrow's format.

`chunk` encodes the rows of one stage request, `chunk_schema` has the columns for each type of
store, and `carried_batch` encodes a small batch with its commit in one request. `partitioning` and
`row_keys` compute partitions and row keys of whole columns.
"""
