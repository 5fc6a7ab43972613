"""How any program talks to a store: pure routing and retries, one sync and one async shell."""

from qss_client.answers import (
    PartitionResult,
    Row,
    SessionRow,
    StateQueryResult,
    VersionRow,
    WindowRow,
)
from qss_client.async_store import AsyncStore
from qss_client.requests import ReadOptions
from qss_client.routing import RetryLimits
from qss_client.store import Store

__all__ = [
    "AsyncStore",
    "PartitionResult",
    "ReadOptions",
    "RetryLimits",
    "Row",
    "SessionRow",
    "StateQueryResult",
    "Store",
    "VersionRow",
    "WindowRow",
]
