"""Streams into stores, exactly once: `store_sink` writes one store by `foreachBatch`,
`store_sinks` several; `batch_writer` writes a batch of a DataFrame. `checkpoints`, `offset_log`
and `positions` read what Spark keeps of a batch; `batch_warnings` says what of a committed
batch may surprise.
"""
