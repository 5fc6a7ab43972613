"""A pod takes assignments although one of its partitions takes no writes."""

from pathlib import Path

import msgspec
import pytest

from qss_core.errors import CorruptionError
from qss_core.formats.values import Format
from qss_core.model import PartitionId, StoreSettings
from qss_store.replicas.volume.assignment_file import read_assignment
from qss_store.transactions.commands import Barrier
from qss_testing.clients.readings import open_reading
from qss_testing.faults.damage import SPOILT, spoil, spoilt_cluster
from qss_testing.faults.rolled_back import values, write
from qss_testing.pods.stores import configuration
from qss_testing.pods.write_cluster import WriteCluster

NEXT_FORMAT = Format.TimestampedWithHeaders


def states(cluster: WriteCluster) -> list[str]:
    return [one.state for one in cluster.pods[0].pod.report().replicas]


async def test_the_others_take_a_format_and_the_assignment_is_kept(tmp_path: Path) -> None:
    async with spoilt_cluster(tmp_path) as cluster:
        pod = cluster.pods[0].pod
        cluster.definition = msgspec.structs.replace(cluster.definition, format=NEXT_FORMAT.value)
        cluster.limits = StoreSettings(staged_bytes_max=12345)
        changed = [configuration(number, 0, epoch=2 if number == 2 else 1) for number in range(3)]
        await cluster.assign(changed)
        kept = read_assignment(tmp_path / "0")
        assert kept == pod.registry.assignment == cluster.assignment
        formats = [
            pod.registry.replicas[PartitionId(number)].definition.format for number in range(3)
        ]
        assert formats == [NEXT_FORMAT, "Timestamped", NEXT_FORMAT]
        assert cluster.replica(2).log.configuration.epoch == 2
        # The partition is reported, takes no writes, and is still read, in the format of the
        # assignment.
        assert states(cluster) == ["serving", "failed", "serving"]
        assert pod.report().replicas[SPOILT].error == "a block is damaged"
        with pytest.raises(CorruptionError, match="a block is damaged"):
            cluster.replica(SPOILT).append(Barrier())
        rows = [row_of(cluster, number) for number in range(3)]
        assert rows[0] == rows[1] == rows[2]
        # The pod takes later assignments, too.
        cluster.limits = StoreSettings(staged_bytes_max=54321)
        await cluster.assign(changed)
        assert pod.registry.placed().settings.staged_bytes_max == 54321
        spoil(cluster, is_spoilt=False)
        await cluster.stop_pod(0)
        await cluster.start_pod(0)
        assert states(cluster) == ["serving"] * 3
        assert cluster.replica(SPOILT).definition.format == NEXT_FORMAT
        (await write(cluster, 1, b"2", "run-2")).json()


def row_of(cluster: WriteCluster, partition: int) -> bytes | None:
    reading = open_reading(cluster.pods[0].pod, None, NEXT_FORMAT, partition)
    row = reading.view.rows.get(b"k")
    assert row is not None
    return row[-1:]


async def test_the_others_take_their_epochs_where_one_cannot_keep_its_own(tmp_path: Path) -> None:
    async with spoilt_cluster(tmp_path) as cluster:
        await cluster.assign([configuration(number, 0, epoch=3) for number in range(3)])
        epochs = [cluster.replica(number).log.configuration.epoch for number in (0, 2)]
        assert epochs == [3, 3]
        assert states(cluster) == ["serving", "failed", "serving"]
        kept = read_assignment(tmp_path / "0")
        assert kept is not None
        assert [one.epoch for one in kept.partitions] == [3, 3, 3]
        spoil(cluster, is_spoilt=False)
        await cluster.stop_pod(0)
        await cluster.start_pod(0)
        assert cluster.replica(SPOILT).log.configuration.epoch == 3
        assert values(cluster) == [b"1"] * 3
