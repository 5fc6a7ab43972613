"""The store pod: HTTP, reads, transactions, the replicated changelog and the RocksDB engine."""
