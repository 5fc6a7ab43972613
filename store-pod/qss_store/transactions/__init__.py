"""Batches over many partitions (transactions.md): what is decided, never how it travels."""
