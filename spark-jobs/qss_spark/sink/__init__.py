"""Writes streams into stores, exactly once.

`store_sink` writes one store by `foreachBatch`, `store_sinks` several; `batch_writer` writes a
batch of a DataFrame. `checkpoints`, `offset_log` and `positions` read Spark's records of a batch;
`batch_warnings` warns of surprising rows in a committed batch.
"""
