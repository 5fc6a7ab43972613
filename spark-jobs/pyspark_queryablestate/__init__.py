"""Spark imports every module named `pyspark_...` and registers what it calls `DefaultSource`."""

from qss_spark.source.datasource import QueryableStateSource as DefaultSource

__all__ = ["DefaultSource"]
