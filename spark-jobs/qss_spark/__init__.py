"""Writes and reads stores with Spark: `StoreSink` for streams, `queryablestate` for batches."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qss_spark.sink.store_sink import StoreSink
    from qss_spark.sink.store_sinks import StoreSinks

__all__ = ["StoreSink", "StoreSinks"]


def __getattr__(name: str) -> Any:
    """Imports Spark only for names that need it: `qss` imports this package for its commands."""
    if name == "StoreSink":
        from qss_spark.sink.store_sink import StoreSink

        return StoreSink
    if name == "StoreSinks":
        from qss_spark.sink.store_sinks import StoreSinks

        return StoreSinks
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
