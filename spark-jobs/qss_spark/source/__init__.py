"""`spark.read.format("queryablestate")`: `datasource` registers it, `reader` reads one partition
of the store in one Spark partition, `read_bounds` are its options that choose rows,
`early_stop` ends a worker quietly when Spark wants no more rows.
"""
