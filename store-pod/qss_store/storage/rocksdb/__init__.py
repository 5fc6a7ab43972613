"""RocksDB as the engine of a replica; no other package of the pod imports rocksdict.

`database` has the engine: it opens the files of one replica, writes atomic batches, makes them
durable, and creates, compacts and drops column families. `options` has the options of each family:
filters, buffers, recovery. `memory_budget` has the block cache, the row cache and the write buffers
that all databases of a pod share.

`family_view` is a view of one family at one moment. Point reads use a RocksDB snapshot. Scans use
`iterators`: several scans share one RocksDB iterator, and each seeks to its own place before it
takes a stretch of rows. An iterator holds its family, because it would read freed memory after the
family was dropped.

rocksdict raises bare exceptions with a text. `errors` tells from the text whether the disk is full,
the files are damaged, or the failure passes.

Tests: `tests/contract/test_engines`, and `tests/unit/qss_store/storage`.
"""
