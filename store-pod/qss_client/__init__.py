"""The client of stores: `Store` and `AsyncStore` for readers, the writers' half, the command `qss`.

A reader calls a method of `Store` (`store`) or of `AsyncStore` (`async_store`):

1. `addresses` finds the pods' URLs if none are given: in the environment, or in the state directory
   of a local cluster. `kube` reaches stores of a Kubernetes cluster from elsewhere, by kubectl.
2. `reads` makes the call an exchange without I/O: it yields requests and takes answers.
3. Its session sends each request by `http`, to the active of the key's partition or to any pod, and
   repeats it as `http.retries` decides.
4. The answer comes back as rows, each with its key, value and time. The session keeps the newest
   position, so that later reads are at least as new if the caller wants that.

`Store` is written from `AsyncStore` by `make sync-client`, so both have the same code.

A writer uses `writes`: it opens a run, stages the rows of a batch and commits them. `chunks`
encodes these rows for the way to the pods. Spark's sink is built on both.

`cli` is the command `qss`; the operator and Spark's part add commands to it by entry points.
`clock` is the time that all programs of the project read, so that tests set it. `log_format` is the
log of pods and operators.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from qss_client.http.retries import RetryLimits
from qss_client.reads.requests import ReadOptions
from qss_client.reads.responses import (
    NewerRow,
    PartitionResult,
    Row,
    SessionRow,
    StateQueryResult,
    VersionRow,
    WindowRow,
)
from qss_core.model import Isolation
from qss_core.positions import Position

if TYPE_CHECKING:
    from qss_client.async_store import AsyncStore
    from qss_client.store import Store

__all__ = [
    "AsyncStore",
    "Isolation",
    "NewerRow",
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


# Their HTTP libraries take half of the import time, and a pod needs neither.
_AT_FIRST_USE = {"AsyncStore": "qss_client.async_store", "Store": "qss_client.store"}


def __getattr__(name: str) -> Any:
    """Imports `Store` and `AsyncStore` at their first use."""
    if name not in _AT_FIRST_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_AT_FIRST_USE[name]), name)
