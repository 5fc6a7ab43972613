"""Spark imports every module named `pyspark_...` and registers what it calls `DefaultSource`."""

from qss_spark.early_stop import end_quietly_when_stopped
from qss_spark.source.datasource import QueryableStateSource as DefaultSource

__all__ = ["DefaultSource"]

# Also a worker that only looks data sources up, or makes one, may find its socket closed.
end_quietly_when_stopped()
