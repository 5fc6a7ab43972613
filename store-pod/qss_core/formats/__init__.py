"""The bytes of rows, as replicas store them: row keys with times, values, headers. Pure.

A row that a store applies becomes bytes here:

1. `timed_keys` encodes the row key of a window, a session or a replaced version, so that the byte
   order of one key's rows is the order of reads. Rows of a KeyValue store have the key's own bytes.
2. `headers` encodes the block of record headers, and `values` puts value, timestamp and headers
   together as the store's format wants. Functions such as `encoder_of` return functions: loops over
   many rows choose the format once.
3. `segments` has the rules by which rows with times expire, from the stream time of the partition:
   a row is hidden once its time is over, and dropped with its whole segment.

A store may change its format: rows of both are on disk until the migration ends, and `values`
converts rows at a read. The planner refuses a change that loses something (`lost_between`), unless
the spec allows it.

The bytes equal Kafka's, and are on the disks of users. A reader refuses a malformed row even if it
needs only a part. Rows of other keys may lie between those of one key.

Of the core the package imports only `model`, `errors`, `text` and `varint`.
`qss_client.chunks.row_keys` makes the same row keys for whole columns. Tests:
`tests/unit/qss_core/formats`, and against bytes made by Kafka `tests/contract/test_kafka_*.py`.
"""
