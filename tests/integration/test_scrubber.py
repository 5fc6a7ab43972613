"""Rows that nobody reads: damage to them is found, and the replica is made anew."""

from dataclasses import replace
from pathlib import Path

import pytest

from qss_core.errors import CorruptionError
from qss_core.model import PartitionId, StoreSettings
from qss_store.replicas.volume.scrubber import Scrubber
from qss_testing.pods.stores import configuration, open_rocksdb
from qss_testing.pods.write_cluster import WriteCluster, write_cluster

KEYS = 2000
P0 = PartitionId(0)


async def filled(cluster: WriteCluster) -> None:
    """Writes many rows, and has them in files."""
    writer = cluster.writer(0)
    epoch = await writer.epoch()
    rows = {0: {f"k{number:05}".encode(): bytes(100) for number in range(KEYS)}}
    chunks = await writer.stage(epoch, 0, f"{epoch}.t0.0", rows)
    (await writer.commit(epoch, 0, chunks)).json()
    cluster.pods[0].pod.registry.replicas[P0].engine.flush()


def damage(volume: Path) -> tuple[Path, bytes]:
    """Changes a byte in the first block of the largest table of a partition.

    Returns the table's path, and its bytes before.
    """
    table = max((volume / "partitions" / "0").glob("*.sst"), key=lambda one: one.stat().st_size)
    whole = table.read_bytes()
    spoilt = bytearray(whole)
    spoilt[100] ^= 0xFF
    _write_over(table, bytes(spoilt))
    return table, whole


def _write_over(table: Path, data: bytes) -> None:
    """Keeps the file's inode, which the database has open."""
    with table.open("r+b") as file:
        file.write(data)


def scrubber(cluster: WriteCluster) -> Scrubber:
    registry = cluster.pods[0].pod.registry
    settings = replace(cluster.pods[0].services.settings, scrub_bytes_per_s=1 << 40)
    return Scrubber(registry.replicas, registry.found_damage, settings)


@pytest.mark.parametrize("standbys", [[], [1]], ids=["alone", "with a standby"])
async def test_damage_that_nobody_reads_is_found_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, standbys: list[int]
) -> None:
    async with write_cluster(
        tmp_path, pods=2, partitions=1, limits=StoreSettings(), open_engine=open_rocksdb()
    ) as cluster:
        await cluster.assign([configuration(0, 0, standbys=standbys, epoch=2)])
        await cluster.until_led()
        await filled(cluster)
        await scrubber(cluster).round()
        assert "damaged block" not in caplog.text
        table, whole = damage(tmp_path / "0")
        await scrubber(cluster).round()
        assert "partition 0 has a damaged block" in caplog.text
        (report,) = cluster.pods[0].pod.report().replicas
        assert report.has_damage
        assert report.state == "serving", "it goes on until another one takes over"
        _write_over(table, whole)
        await scrubber(cluster).round()
        (report,) = cluster.pods[0].pod.report().replicas
        assert not report.has_damage, "a whole pass has met none"


async def test_known_damage_is_kept_and_forgotten_with_a_pass_that_meets_none(
    tmp_path: Path,
) -> None:
    async with write_cluster(
        tmp_path, pods=1, partitions=1, limits=StoreSettings(), open_engine=open_rocksdb()
    ) as cluster:
        await cluster.until_led()
        await filled(cluster)
        cluster.pods[0].pod.registry.found_damage(P0, CorruptionError("a block"))
        await cluster.stop_pod(0)
        await cluster.start_pod(0)
        replica = cluster.pods[0].pod.registry.replicas[P0]
        assert replica.health.damage is not None
        assert replica.health.damage.message == "a block"
        await scrubber(cluster).round()
        await cluster.stop_pod(0)
        await cluster.start_pod(0)
        assert cluster.pods[0].pod.registry.replicas[P0].health.damage is None
