"""The client of stores: pure routing and retries, with a sync and an async shell."""

from typing import TYPE_CHECKING, Any

from qss_client.http.retries import RetryLimits
from qss_client.reads.requests import ReadOptions
from qss_client.reads.responses import (
    PartitionResult,
    Row,
    SessionRow,
    StateQueryResult,
    VersionRow,
    WindowRow,
)
from qss_client.store import Store
from qss_core.model import Isolation
from qss_core.positions import Position

if TYPE_CHECKING:
    from qss_client.async_store import AsyncStore

__all__ = [
    "AsyncStore",
    "Isolation",
    "PartitionResult",
    "Position",
    "ReadOptions",
    "RetryLimits",
    "Row",
    "SessionRow",
    "StateQueryResult",
    "Store",
    "VersionRow",
    "WindowRow",
]


def __getattr__(name: str) -> Any:
    """Imports `AsyncStore` at its first use: its HTTP library takes half of the import time."""
    if name != "AsyncStore":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from qss_client.async_store import AsyncStore

    return AsyncStore
