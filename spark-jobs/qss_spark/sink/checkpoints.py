"""Checks that all executors see a query's checkpoint before the first batch needs it.

The driver writes the log of batches there, the executors the state of stateful queries. A directory
that each pod has for itself seems to work until a pod is replaced: then the state is lost.
"""

import os
import socket
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from qss_core.errors import MalformedRequestError

_MARK = ".queryable-state-"
_LOOKS_PER_CORE = 2
_LOOKS_MAX = 256


def check_is_shared(session: SparkSession, checkpoint: Path) -> None:
    """Raises MalformedRequestError if an executor does not see the driver's directory."""
    context = session.sparkContext
    if (context.master or "local").startswith("local"):
        return
    mark = checkpoint / f"{_MARK}{uuid.uuid4().hex}"
    mark.touch()
    try:
        blind = blind_hosts(context, mark)
    finally:
        with suppress(OSError):
            mark.unlink()
    if blind:
        raise MalformedRequestError(not_shared(checkpoint, blind))


def blind_hosts(context: SparkContext, mark: Path) -> list[str]:
    """The hosts of executors that do not see a file of the driver."""
    # Several looks for each core, so that every present executor gets one.
    looks = min(_LOOKS_MAX, _LOOKS_PER_CORE * context.defaultParallelism)
    seen = context.parallelize(range(looks), looks).mapPartitions(make_look(str(mark)))
    return sorted({host for host, does_see in seen.collect() if not does_see})


def make_look(mark: str) -> Callable[[Iterable[int]], Iterator[tuple[str, bool]]]:
    """Makes the executors' function: whether it sees the mark, and may write beside it."""

    def look(_: Iterable[int]) -> Iterator[tuple[str, bool]]:
        does_see = os.path.exists(mark) and os.access(os.path.dirname(mark), os.W_OK)
        yield socket.gethostname(), does_see

    return look


def not_shared(checkpoint: Path, hosts: list[str]) -> str:
    """The error text; `hosts` are the executors that do not see the checkpoint."""
    named = ", ".join(hosts[:5])
    return (
        f"the executors on {named} do not see the checkpoint {checkpoint} of the driver: put it on "
        "a volume that all pods mount (on Kubernetes a ReadWriteMany claim, at the same path), or "
        "on an object store"
    )
