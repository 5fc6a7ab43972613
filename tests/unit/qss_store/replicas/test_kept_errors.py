"""Errors that a replica keeps and raises for each request."""

import pytest

from qss_core.errors import CorruptionError, DiskFullError, StoreError
from qss_core.model import PartitionId, PodName, WriterEpoch
from qss_store.replicas.opening.unopened_partitions import Unopened
from qss_store.transactions.commands import Abort
from qss_testing.memory_engine import MemoryEngine
from qss_testing.pods.one_replica import started_replica


def frames_of(error: StoreError) -> int:
    count, traceback = 0, error.__traceback__
    while traceback is not None:
        count, traceback = count + 1, traceback.tb_next
    return count


async def test_the_failure_of_a_replica_keeps_no_request_in_memory() -> None:
    """A commit driver sends its rows again and again; each frame would keep those of its try."""
    async with started_replica(MemoryEngine()) as replica:
        replica.fail(CorruptionError("takes no writes any more"))
        frames = set()
        for _ in range(3):
            with pytest.raises(CorruptionError) as refused:
                replica.append(
                    Abort(writer="w", generation=0, batch=0, writer_epoch=WriterEpoch(1))
                )
            frames.add(frames_of(refused.value))
        assert len(frames) == 1


def test_the_error_of_a_partition_that_waits_keeps_no_request_in_memory() -> None:
    unopened = Unopened()
    unopened.note(PartitionId(0), DiskFullError("the volume is full"))
    frames = set()
    for _ in range(3):
        with pytest.raises(DiskFullError) as refused:
            unopened.check(PartitionId(0), PodName("words-0"))
        frames.add(frames_of(refused.value))
    assert len(frames) == 1
