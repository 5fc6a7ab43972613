"""Spark writes and reads stores: `StoreSink` for streams, `queryablestate` for batches."""

from qss_spark.sink import StoreSink

__all__ = ["StoreSink"]
