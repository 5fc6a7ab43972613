"""Rows on their way to a store: `chunk` is one stage request as Arrow IPC, `chunk_schema` its
columns by the type of the store, `carried_batch` a small batch with its commit in one request.
`partitioning` and `row_keys` compute partitions and row keys of whole columns at once.
"""
