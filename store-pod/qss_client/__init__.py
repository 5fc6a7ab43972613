"""How any program talks to a store: pure routing and retries, one sync and one async shell."""

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
    """`AsyncStore`, imported when first asked for: its HTTP library is half of all imports."""
    if name != "AsyncStore":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from qss_client.async_store import AsyncStore

    return AsyncStore
