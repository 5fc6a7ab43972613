"""The data source `queryablestate`: `spark.read.format("queryablestate")` reads a store as a batch.

1. `pyspark_queryablestate` registers `datasource` in each Python process that Spark starts. Spark
   asks it for the schema, which follows the store's definition, and then for a reader.
2. The driver makes `reader.StoreReader`. `columns` checks the schema, and `read_bounds` parses the
   options that choose rows. Errors belong here: Spark repeats a task that fails. So the bounds of
   an index are tried at a pod before the tasks begin.
3. Spark runs a task for each partition of the store that the options leave. The task opens a
   client, scans its partition, and yields Arrow batches with exactly the columns of the schema;
   `json_columns` parses values for which the user has given a type.
4. If Spark needs no more rows, it closes the socket of the task's worker. `early_stop` then ends
   the worker without PySpark's traceback.

`store_frame` has `read_store`, whose filters add options to the read: `query_plans` finds the
conditions in Spark's plan, and `pushed_filters` decides what they let through.

The tasks read at different times, so the whole read is no snapshot of the store. With a
`positionBound` a task gets its rows only once its partition has reached that position. A Versioned
store is no batch source, and streams are refused with the way that works.

`datasource` also makes writers, for `df.write` and for `sink.store_sink`, which passes its batch as
an option: the code of both is `sink.batch_writer`. Nothing in `sink` imports this package. Tests:
`tests/unit/qss_spark/source`, and with Spark `tests/integration/spark/test_spark_format.py`.
"""
