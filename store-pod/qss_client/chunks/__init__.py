"""Rows on their way to a store, in Arrow's format: encoded by writers, checked by pods.

1. A writer (Spark's `rows`) has the rows as Arrow columns. `key_hashes` computes the partition of
   each key for the whole column, equal to `qss_core.partitioning`.
2. `chunk.encode_slice` makes the slice of one partition: a complete Arrow stream with the columns
   of `chunk_schema`, which depend on the type of the store. `writes` puts slices of several
   partitions into one request. `carried_batch` encodes a small batch and its commit as one request
   instead.
3. The pod decodes the body with `chunk.decode_chunk`, which checks all of it: columns, lengths,
   times, end marks, and that each key belongs to its partition. A client is not trusted.
4. The changelog keeps the bytes of the slice as they came, and the checksum is that of these bytes.
   So a repeated request sends the same bytes again, and never encodes the rows anew.
5. At the commit the pod reads the slice with `chunk.read_batches`, and `row_keys` makes the row
   keys of windows and sessions for whole columns, equal to `qss_core.formats.timed_keys`.

Compression and dictionaries of Arrow are refused, since a few bytes could fill any memory. The
limits of keys, values, headers, slices and chunks are in `chunk`; a carried batch has at most 512
KiB, because all pods keep it in log and memory.

This package needs numpy and pyarrow. It imports nothing else of the client, and the store's pod,
Spark's part and `writes` import it. A change of bytes is a change of the changelog on disk. Tests:
`tests/unit/qss_client/chunks`, and `test_writes_bad_input` and `test_fuzz_http` (integration).
"""
