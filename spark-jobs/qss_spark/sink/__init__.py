"""Writes streams into stores, exactly once.

Spark calls `store_sink` with each micro-batch of a query (`store_sinks` once for several stores; it
caches the batch, and calls a `store_sink` for each store in turn):

1. At the first batch of a run, `streaming_query` finds the running query and its checkpoint.
   `checkpoints` checks that the executors see the checkpoint, and the sink opens the writer at the
   store. A thread renews it, and closes it when the query ends.
2. `streaming_query` reads the raw entry of the batch, which Spark wrote before the batch began.
   `positions` makes the position and the fingerprint of it.
3. `batch_steps` has the steps of a batch. The driver encodes and stages a small one; a very small
   one goes with its commit in one request. Other batches go through the data source: `batch_writer`
   stages in the tasks. PySpark 3.5 has no data sources, so there `map_stage` does it.
4. The driver commits the chunks of the tasks that won. `batch_warnings` then tells of dropped rows,
   and of windows that do not start where a reader looks for them.

The driver keeps the pods that a batch found after a failover for the next one, and a worker of
Spark keeps them by `batch_steps.run_of`. `failure_lines` logs a store's error as one line before
Spark prints its traces.

The id of the batch and the fingerprint make a repeat harmless: a batch that an earlier run decided
is not written again, but its plan still runs, since it makes the state of a stateful query. An
error ends the query; the restarted query continues with the same batch.

`df.write` is a batch job, for which `batch_writer` opens a writer of its own. No thread of the
driver renews its run, so `kept_open` does so in each task.

Spark pickles `batch_writer.StoreWriter` to tasks and to another process of the driver: it opens its
connections there. Only `source.datasource` uses `batch_writer` from outside; `sink` imports no
`source`. Tests: `tests/unit/qss_spark/sink`, and with Spark `tests/integration/spark`.
"""
