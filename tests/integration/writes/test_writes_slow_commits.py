"""A partition that writes the rows of a commit answers from the state before the commit."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from qss_core.errors import NotReadyError
from qss_core.model import Epoch, PartitionId, Sequence, StoreId, WriterEpoch
from qss_core.wire.messages import PrepareRequest
from qss_store.writes.commit_driver import active_coordinator
from qss_testing.faults.rolled_back import cluster_of, write
from qss_testing.pods.write_cluster import WriteCluster
from qss_testing.waiting import wait_until_async

SLOW = 1


@asynccontextmanager
async def committing(directory: Path) -> AsyncIterator[WriteCluster]:
    """A store whose second batch is decided, and is not yet applied in one partition."""
    async with cluster_of(directory, pods=1) as cluster:
        (await write(cluster, 0, b"1")).json()
        replica = cluster.replica(SLOW)
        async with replica.format_change.redefining(replica.definition):
            commit = asyncio.ensure_future(write(cluster, 1, b"2"))
            await wait_until_async(lambda: bool(replica.pending.commits))
            assert replica.machine.participant.sequence == 1
            yield cluster
        (await commit).json()
        assert replica.machine.participant.sequence == 2


async def test_no_other_batch_is_prepared_at_the_sequence_of_the_commit(tmp_path: Path) -> None:
    async with committing(tmp_path) as cluster:
        request = PrepareRequest(
            store_id=StoreId(str(cluster.definition.store_id)),
            epochs={str(SLOW): Epoch(cluster.configurations[SLOW].epoch)},
            writer="other",
            generation=1,
            batch=0,
            writer_epoch=WriterEpoch(1_000_001),
            chunks={},
            sequence=Sequence(2),  # As from a partition 0 that lost its decision.
        )
        answer = await cluster.pods[0].batches.prepare(request)
        failure = answer.partitions[str(SLOW)]
        assert failure is not None
        assert failure.code == "NOT_READY"


async def test_a_late_chunk_of_the_batch_is_refused_and_no_bytes_count_as_staged(
    tmp_path: Path,
) -> None:
    async with committing(tmp_path) as cluster:
        writer = cluster.writer()
        _, coordinator = active_coordinator(cluster.pods[0].pod)
        epoch = coordinator.writer("job").writer_epoch
        end = cluster.replica(SLOW).log.end
        failures = await writer.stage_failures(epoch, 1, f"{epoch}.late.0", {SLOW: {b"k": b"3"}})
        assert failures == {SLOW: "BATCH_CLOSED"}
        assert cluster.replica(SLOW).log.end == end, "nothing was logged"
        assert cluster.pods[0].batches.staged_bytes() == 0


async def test_a_failed_partition_reports_no_batches(
    tmp_path: Path,
) -> None:
    async with cluster_of(tmp_path, pods=1) as cluster:
        (await write(cluster, 0, b"1")).json()
        comparison = cluster.pods[0].comparison
        assert comparison.held(PartitionId(SLOW)) is not None
        cluster.replica(SLOW).fail(RuntimeError("no more"))
        with pytest.raises(NotReadyError):
            comparison.held(PartitionId(SLOW))
