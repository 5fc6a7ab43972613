"""Spark writes and reads stores: `StoreSink` for streams, `queryablestate` for batches."""

from qss_spark.sink import StoreSink
from qss_spark.sinks import StoreSinks

__all__ = ["StoreSink", "StoreSinks"]
