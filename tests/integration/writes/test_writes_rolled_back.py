"""A volume that went back to an older state is reported, and its rows are not served."""

import shutil
from pathlib import Path

import pytest

from qss_core.errors import RolledBackError
from qss_core.model import PartitionId
from qss_store.replicas.rollback_check import RollbackCheck
from qss_testing.faults.rolled_back import (
    PARTITIONS,
    accept,
    cluster_of,
    losses,
    rolled_back,
    values,
    write,
)
from qss_testing.pods.stores import raised_to
from qss_testing.waiting import wait_until_async

# --- Reports


@pytest.mark.parametrize("pod", [0, 1])
async def test_a_volume_that_went_back_is_reported_when_its_pod_starts(
    tmp_path: Path, pod: int
) -> None:
    async with cluster_of(tmp_path) as cluster:
        await rolled_back(cluster, tmp_path, pod)
        held = cluster.pods[pod].pod
        with pytest.raises(
            RolledBackError, match=f"partition {pod} holds sequence 1, and at least 2"
        ):
            held.registry.local(pod)
        (report,) = held.report().replicas
        assert (report.state, report.sequence, report.completed) == ("behind", 1, 2)
        assert report.error is not None
        epoch = report.configuration.epoch
        assert report.error.endswith(f"accept-data-loss: {pod}@{epoch}")
        others = [number for number in range(PARTITIONS) if number != pod]
        assert [cluster.rows(number) for number in others] == [{b"k": b"2"}] * 2


@pytest.mark.parametrize("pod", [0, 1])
async def test_no_batch_is_decided_on_a_volume_that_went_back(tmp_path: Path, pod: int) -> None:
    """Prepare refuses the batch, also before a comparison of the pods."""
    async with cluster_of(tmp_path) as cluster:
        await rolled_back(cluster, tmp_path, pod)
        for held in cluster.pods.values():
            held.pod.registry.completion = RollbackCheck()
        # Another writer: the run that wrote the second batch may be unknown to partition 0.
        writer = cluster.writer(name="other")
        epoch = await writer.epoch()
        answer = await writer.commit(epoch, 0, {})
        detail = answer.problem(503, "ROLLED_BACK")["detail"]
        assert f"partition {pod} holds sequence 1, and at least 2 was completed" in detail
        assert "EPOCH" not in detail
        coordinator = cluster.replica(0).machine.coordinator
        assert coordinator is not None
        assert coordinator.unfinished is None, "nothing is decided"
        (await writer.commit(epoch, 0, {})).problem(503, "ROLLED_BACK")


async def test_one_partition_that_went_back_is_found_by_comparison_with_the_others(
    tmp_path: Path,
) -> None:
    """The marks of synced entries are gone too, so that only the sequences show the loss."""
    async with cluster_of(tmp_path, pods=1) as cluster:
        (await write(cluster, 0, b"1")).json()
        await cluster.stop_pod(0)
        shutil.copytree(tmp_path / "0", tmp_path / "backup")
        await cluster.start_pod(0)
        (await write(cluster, 1, b"2", "run-2")).json()
        await cluster.pods[0].coordination.driver.finish()
        await cluster.stop_pod(0)
        shutil.rmtree(tmp_path / "0" / "partitions" / "2")
        (tmp_path / "backup" / "partitions" / "2").rename(tmp_path / "0" / "partitions" / "2")
        (tmp_path / "0" / "synced.json").unlink()
        held = await cluster.start_pod(0)
        with pytest.raises(RolledBackError):
            held.pod.registry.local(2)
        assert cluster.rows(0) == cluster.rows(1) == {b"k": b"2"}


async def test_newer_files_are_accepted_after_the_older_files_took_an_epoch(tmp_path: Path) -> None:
    """A new epoch logs a Barrier in the older files; the newer files have another entry there."""
    async with cluster_of(tmp_path, pods=1) as cluster:
        (await write(cluster, 0, b"1")).json()
        await cluster.stop_pod(0)
        shutil.copytree(tmp_path / "0", tmp_path / "older")
        await cluster.start_pod(0)
        (await write(cluster, 1, b"2", "run-2")).json()
        await cluster.pods[0].coordination.driver.finish()
        await cluster.stop_pod(0)
        partition = tmp_path / "0" / "partitions" / "2"
        partition.rename(tmp_path / "newer")
        (tmp_path / "older" / "partitions" / "2").rename(partition)
        # The marks of synced entries come from the older files.
        shutil.copy(tmp_path / "older" / "synced.json", tmp_path / "0")
        held = await cluster.start_pod(0)
        replica = held.pod.registry.replicas[PartitionId(2)]
        end = replica.log.end
        await cluster.assign(raised_to(cluster.configurations, 2))
        await wait_until_async(lambda: replica.changelog.durable_end == end + 1)
        await cluster.stop_pod(0)
        shutil.rmtree(partition)
        (tmp_path / "newer").rename(partition)
        held = await cluster.start_pod(0)
        assert held.pod.report().lost == ()
        assert values(cluster) == [b"2"] * 3


async def test_a_pod_that_starts_alone_serves_its_partitions(tmp_path: Path) -> None:
    async with cluster_of(tmp_path) as cluster:
        (await write(cluster, 0, b"1")).json()
        for pod in range(3):
            await cluster.stop_pod(pod)
        held = await cluster.start_pod(1)
        assert held.pod.is_ready
        assert cluster.rows(1) == {b"k": b"1"}
        for pod in (0, 2):
            await cluster.start_pod(pod)
        (await write(cluster, 1, b"2", "run-2")).json()
        assert values(cluster) == [b"2"] * 3


async def test_a_stopped_pod_is_not_behind_when_it_starts_again(tmp_path: Path) -> None:
    async with cluster_of(tmp_path) as cluster:
        for batch in range(4):
            (await write(cluster, batch, b"%d" % batch, f"run-{batch}")).json()
            await cluster.stop_pod(batch % 3)
            await cluster.start_pod(batch % 3)
            assert values(cluster) == [b"%d" % batch] * 3


# --- New stores


async def test_a_store_takes_no_writer_before_every_partition_is_made(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, pods=2) as cluster:
        await cluster.stop_pod(1)
        (await cluster.writer().open()).problem(503, "UNREACHABLE")
        assert cluster.replica(0).log.end == 0
        await cluster.start_pod(1)
        (await cluster.writer().open()).json()


async def test_a_pod_that_went_back_by_one_batch_serves_none_of_its_partitions(
    tmp_path: Path,
) -> None:
    """Partition 0 went back too, so that no coordinator drives the batch that partition 2 lacks."""
    async with cluster_of(tmp_path, pods=2) as cluster:
        await rolled_back(cluster, tmp_path, 0)
        pod = cluster.pods[0].pod
        for number in (0, 2):
            with pytest.raises(
                RolledBackError, match="holds sequence 1, and at least 2 was completed"
            ):
                pod.registry.local(number)
        assert [report.state for report in pod.report().replicas] == ["behind"] * 2
        (await accept(cluster, 0)).json()
        with pytest.raises(RolledBackError):
            pod.registry.local(2)
        (await accept(cluster, 2)).json()
        assert [losses(cluster, number) for number in (0, 2)] == [[(2, 2, 1)]] * 2
        (await write(cluster, 2, b"3", "run-3")).json()
        assert values(cluster) == [b"3"] * 3
