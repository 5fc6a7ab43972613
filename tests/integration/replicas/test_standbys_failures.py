"""Standbys whose active fails by a bug, or is busy for long."""

import asyncio
import threading
from pathlib import Path

import pytest

from qss_core.errors import CorruptionError
from qss_core.model import Ordinal, PartitionId, Sequence, StoreSettings
from qss_core.wire.losses import BatchesHeld
from qss_store.replicas.peers import follower_progress
from qss_store.replication.entries import encode_offset
from qss_store.storage.engine import CHANGELOG
from qss_store.transactions.commands import AcceptLoss
from qss_testing.pods.stores import configuration, open_rocksdb
from qss_testing.pods.write_cluster import (
    WriteCluster,
    Writer,
    lead,
    replica_of,
    replicated,
    rows_of,
    write,
    write_cluster,
)
from qss_testing.waiting import wait_until_async

ROWS = {0: {b"a": b"1", b"b": b"2"}}
_SHORT_LEASE_MS, _LONG_LEASE_MS = 1500, 60_000


async def filled(cluster: WriteCluster) -> tuple[Writer, int]:
    """Writes the rows; returns the writer and its epoch."""
    writer = cluster.writer(0)
    epoch = await writer.epoch()
    await write(writer, epoch, 0, ROWS)
    return writer, epoch


async def test_standbys_hear_of_a_new_epoch_while_their_active_applies_a_long_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with replicated(tmp_path, pods=3) as cluster:
        await lead(cluster, 0, 3, standbys=[1, 2])
        writer, active = cluster.writer(0), replica_of(cluster, 0)
        epoch = await writer.epoch()
        chunks = await writer.stage(epoch, 0, f"{epoch}.t0.0", ROWS)
        begun, goes_on = threading.Event(), threading.Event()

        def copy(_: Path) -> None:
            begun.set()
            goes_on.wait()

        monkeypatch.setattr(active.engine, "checkpoint", copy)
        copying = asyncio.create_task(active.checkpoints.make(tmp_path / "copy", Ordinal(2)))
        try:
            await wait_until_async(begun.is_set)  # From here on the commit waits.
            commit = asyncio.create_task(writer.commit(epoch, 0, chunks))
            await wait_until_async(lambda: active.log.applied < active.log.watermark)
            await cluster.assign([configuration(0, 0, epoch=4, standbys=[1], learners=[2])])
            assert active.log.configuration.epoch == 4
            await wait_until_async(active.followers.has_lease)
            assert active.acting.silent_followers(active.apply_loop.replica_timeout_s) == ()
        finally:
            goes_on.set()
        await asyncio.gather(copying, commit)
        await cluster.until_led()
        (await writer.commit(epoch, 0, chunks)).json()


async def test_a_replica_that_failed_by_a_bug_is_made_anew_from_the_next_active(
    tmp_path: Path,
) -> None:
    async with replicated(tmp_path, lease_ms=_SHORT_LEASE_MS) as cluster:
        writer, _ = await filled(cluster)
        failed = replica_of(cluster, 0)
        failed.fail(ZeroDivisionError("a bug"))
        (report,) = cluster.pods[0].pod.report().replicas
        assert report.is_stopped
        refused = (await writer.open("run-2")).problem(503, "NOT_READY")
        assert "another one has to take over" in refused["detail"]
        await lead(cluster, 1, 3, learners=[0])
        active = replica_of(cluster, 1)
        await wait_until_async(lambda: active.followers.learners.caught_up() == (0,))
        assert replica_of(cluster, 0) is not failed
        # A learner that has all entries applies the last ones when it hears of the watermark.
        await wait_until_async(lambda: rows_of(replica_of(cluster, 0)) == ROWS[0])
        assert rows_of(active) == ROWS[0]


async def test_a_copy_of_a_damaged_active_is_damaged_too_and_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of it is better than none; it is made anew once an active has no damage."""
    # A learner that answers its active while it is copied refuses the copy.
    monkeypatch.setattr(follower_progress, "_HEARTBEAT_S_MAX", 3600.0)
    async with replicated(tmp_path, lease_ms=_LONG_LEASE_MS, pods=3) as cluster:
        await filled(cluster)
        cluster.pods[0].pod.registry.found_damage(PartitionId(0), CorruptionError("a block"))
        await cluster.assign([configuration(0, 0, epoch=3, standbys=[1], learners=[2])])
        active = replica_of(cluster, 0)
        await wait_until_async(lambda: active.followers.learners.caught_up() == (2,))
        copies, before = cluster.pods[2].services.copies, replica_of(cluster, 2)
        while replica_of(cluster, 2) is before:
            copies.begin(active.log.configuration, Ordinal(0))
            await asyncio.gather(*copies.tasks)
        await wait_until_async(lambda: active.followers.learners.caught_up() == (2,))
        copied = replica_of(cluster, 2)
        assert copied.health.damage is not None
        assert [*(tmp_path / "2/partitions").glob("0.damaged-1")], "its own files were whole"
        await wait_until_async(lambda: active.acting.is_acting)
        writer = cluster.writer(0)
        await write(writer, await writer.epoch(), 1, {0: {b"c": b"3"}})
        assert replica_of(cluster, 2) is copied, "the damaged active's entries are taken"
        await lead(cluster, 1, 4, learners=[0, 2])
        active = replica_of(cluster, 1)
        await wait_until_async(lambda: active.followers.learners.caught_up() == (0, 2))
        for pod in (0, 2):
            assert replica_of(cluster, pod).health.damage is None, "copied from the one without"


async def test_a_log_that_cannot_be_read_fails_its_replica_and_no_report(tmp_path: Path) -> None:
    async with replicated(tmp_path) as cluster:
        writer, epoch = await filled(cluster)
        await cluster.stop_pod(1)
        staging = asyncio.create_task(writer.stage(epoch, 1, f"{epoch}.t1.0", ROWS))
        pod, active = cluster.pods[0].pod, replica_of(cluster, 0)
        await wait_until_async(lambda: active.log.end > active.log.applied)
        await cluster.assign([configuration(0, 0, epoch=3, standbys=[1])])
        pod.registry.completion.learn(completed=Sequence(9))
        (report,) = pod.report().replicas
        assert (report.state, report.completed) == ("behind", 9)
        batch = active.engine.batch()
        batch.delete(CHANGELOG, encode_offset(active.log.applied))
        active.engine.write(batch)
        (report,) = pod.report().replicas
        assert (report.state, report.is_damaged) == ("failed", True)
        with pytest.raises(AssertionError):
            await staging


async def test_a_loss_that_was_accepted_in_the_log_counts_before_it_is_applied(
    tmp_path: Path,
) -> None:
    """The active that begins its epoch need not wait for another one: the person gave it up."""
    async with replicated(tmp_path) as cluster:
        await filled(cluster)
        pod, active = cluster.pods[0].pod, replica_of(cluster, 0)
        await cluster.stop_pod(1)
        nine = Sequence(9)
        held = BatchesHeld(sequence=nine, completed=nine, decided=nine, position={}, last=())
        accepting = active.append(AcceptLoss(held=held))
        await cluster.assign([configuration(0, 0, epoch=3, standbys=[1])])
        pod.registry.completion.learn(completed=nine)
        (report,) = pod.report().replicas
        assert (report.state, report.completed) == ("opening", None)
        pod.registry.completion.learn(completed=Sequence(10))
        (report,) = pod.report().replicas
        assert (report.state, report.completed) == ("behind", 10)
        assert not accepting.done(), "the standby that is away has yet to acknowledge it"


async def test_a_damaged_active_releases_its_lease_to_the_next_one(tmp_path: Path) -> None:
    """The next active waits for no lease: the damaged one says hello before it is copied."""
    async with replicated(tmp_path, lease_ms=_LONG_LEASE_MS) as cluster:
        await filled(cluster)
        cluster.pods[0].pod.registry.found_damage(PartitionId(0), CorruptionError("a block"))
        async with asyncio.timeout(_LONG_LEASE_MS / 2000):
            await lead(cluster, 1, 3, learners=[0])
            await wait_until_async(lambda: replica_of(cluster, 1).acting.is_acting)


async def test_a_replica_with_a_damaged_block_is_made_anew_once_another_one_leads(
    tmp_path: Path,
) -> None:
    async with replicated(tmp_path, lease_ms=_SHORT_LEASE_MS) as cluster:
        writer, epoch = await filled(cluster)
        damaged = replica_of(cluster, 0)
        cluster.pods[0].pod.registry.found_damage(PartitionId(0), CorruptionError("a block"))
        await write(writer, epoch, 1, {0: {b"c": b"3"}})
        await lead(cluster, 1, 3, learners=[0])
        active = replica_of(cluster, 1)
        await wait_until_async(lambda: active.followers.learners.caught_up() == (0,))
        assert replica_of(cluster, 0) is not damaged
        (report,) = cluster.pods[0].pod.report().replicas
        assert not report.has_damage
        await wait_until_async(lambda: rows_of(replica_of(cluster, 0)) == rows_of(active))


async def test_a_slow_sync_of_one_epoch_stops_no_heartbeat_of_the_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = StoreSettings(lease_ms=1000, replica_timeout_ms=1000)
    async with write_cluster(
        tmp_path, pods=2, partitions=2, limits=limits, open_engine=open_rocksdb()
    ) as cluster:
        both = [configuration(number, 0, epoch=2, standbys=[1]) for number in (0, 1)]
        await cluster.assign(both)
        await cluster.until_led()
        slow, other = (cluster.pods[0].pod.registry.replicas[PartitionId(n)] for n in (0, 1))
        goes_on, sync = threading.Event(), slow.engine.sync
        monkeypatch.setattr(slow.engine, "sync", lambda: (goes_on.wait(), sync()))
        try:
            await cluster.assign([configuration(0, 0, epoch=3, standbys=[1]), both[1]])
            before = other.followers.sent_s(Ordinal(1))
            await wait_until_async(lambda: other.followers.sent_s(Ordinal(1)) > before + 2.0)
            silent_s = other.apply_loop.replica_timeout_s
            await wait_until_async(
                lambda: other.acting.is_acting and other.acting.silent_followers(silent_s) == ()
            )
        finally:
            goes_on.set()


@pytest.mark.parametrize(
    ("standbys", "code"), [([], "ROLLED_BACK"), ([1], "NOT_READY")], ids=["alone", "with a standby"]
)
async def test_a_writer_waits_where_a_standby_takes_over_from_an_active_that_went_back(
    tmp_path: Path, standbys: list[int], code: str
) -> None:
    async with replicated(tmp_path) as cluster:
        await lead(cluster, 0, 3, standbys=standbys)
        epoch = await cluster.writer(0).epoch()
        cluster.pods[0].pod.registry.completion.learn(completed=Sequence(9))
        (await cluster.writer(0).open("run-2")).problem(503, code)
        refused = await cluster.writer(0).stage_failures(epoch, 0, f"{epoch}.t0.0", ROWS)
        assert refused == {0: code}
