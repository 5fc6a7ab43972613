"""`spark.read.format("queryablestate")`: reads a store as a batch.

`datasource` registers the format, `reader` reads each partition of the store in one Spark
partition, `read_bounds` parses the options that choose rows, and `early_stop` ends a worker quietly
when Spark needs no more rows.
"""
