"""Standbys over HTTP and RocksDB: every in-sync replica has what was acknowledged."""

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from qss_core.errors import (
    CorruptionError,
    DiskFullError,
    NotReadyError,
    StaleEpochError,
)
from qss_core.model import Ordinal, PartitionId
from qss_testing.pods.stores import configuration
from qss_testing.pods.write_cluster import (
    lead,
    replica_of,
    replicated,
    rows_of,
    write,
)
from qss_testing.waiting import wait_until_async
from qss_testing.writers.copied_learner import with_a_copied_learner

ROWS = {0: {b"a": b"1", b"b": b"2"}}
_SHORT_LEASE_MS = 1500  # For tests that wait until a lease has run out.
_LONG_LEASE_MS = 600_000  # For tests that do not.


async def test_what_is_acknowledged_is_on_the_disk_of_the_standby(tmp_path: Path) -> None:
    async with replicated(tmp_path) as cluster:
        writer = cluster.writer(0)
        epoch = await writer.epoch()
        chunks = await writer.stage(epoch, 0, f"{epoch}.t.0", ROWS)
        assert replica_of(cluster, 1).changelog.durable_end == replica_of(cluster, 0).log.end
        (await writer.commit(epoch, 0, chunks)).json()
        await wait_until_async(lambda: rows_of(replica_of(cluster, 1)) == ROWS[0])


async def test_a_standby_goes_on_where_its_active_was(tmp_path: Path) -> None:
    async with replicated(tmp_path, lease_ms=_SHORT_LEASE_MS) as cluster:
        writer = cluster.writer(0)
        epoch = await writer.epoch()
        await write(writer, epoch, 0, ROWS)
        await writer.stage(epoch, 1, f"{epoch}.staged.0", {0: {b"c": b"3"}})
        await cluster.stop_pod(0)
        await lead(cluster, 1, 3)
        assert rows_of(replica_of(cluster, 1)) == ROWS[0]
        writer = cluster.writer(1)
        await write(writer, epoch, 1, {0: {b"d": b"4"}})
        assert rows_of(replica_of(cluster, 1)) == {**ROWS[0], b"d": b"4"}


async def test_a_new_active_waits_until_the_lease_of_the_old_one_has_run_out(
    tmp_path: Path,
) -> None:
    async with replicated(tmp_path, lease_ms=2 * _SHORT_LEASE_MS) as cluster:
        old, new = replica_of(cluster, 0), replica_of(cluster, 1)
        sole = configuration(0, 1, epoch=3)
        await cluster.pods[1].pod.assign(replace(cluster.assignment, partitions=(sole,)))
        with pytest.raises(NotReadyError, match="lease"):
            new.acting.check()
        await wait_until_async(lambda: new.acting.is_acting)
        assert not old.acting.is_acting, "two actives at once"


async def test_a_new_active_does_not_wait_for_an_active_that_follows_it(tmp_path: Path) -> None:
    """The old active says that it has taken the new epoch, in which it is a standby."""
    async with replicated(tmp_path, lease_ms=_LONG_LEASE_MS) as cluster:
        writer = cluster.writer(0)
        epoch = await writer.epoch()
        await write(writer, epoch, 0, ROWS)
        await writer.stage(epoch, 1, f"{epoch}.staged.0", {0: {b"c": b"3"}})
        await lead(cluster, 1, 3, standbys=[0])
        await lead(cluster, 0, 4, standbys=[1])
        await lead(cluster, 1, 5, standbys=[0])
        assert not replica_of(cluster, 0).acting.is_acting
        writer = cluster.writer(1)
        await write(writer, epoch, 1, {0: {b"d": b"4"}})
        assert rows_of(replica_of(cluster, 1)) == {**ROWS[0], b"d": b"4"}


async def test_an_active_that_starts_again_releases_nothing(tmp_path: Path) -> None:
    """Its process may be another one beside that which was promised support, and which may act."""
    async with replicated(tmp_path, lease_ms=_LONG_LEASE_MS) as cluster:
        await cluster.stop_pod(0)
        await cluster.start_pod(0)
        await cluster.assign([configuration(0, 1, standbys=[0], epoch=3)])
        greeted = cluster.pods[1].pod.registry.replicas[PartitionId(0)].followers.is_greeted
        await wait_until_async(lambda: greeted(Ordinal(0)))
        with pytest.raises(NotReadyError, match="lease"):
            replica_of(cluster, 1).acting.check()


async def test_a_standby_that_hears_only_an_active_without_a_lease_is_not_level(
    tmp_path: Path,
) -> None:
    """That active may be deposed: a newer one, of which this standby did not hear, may act."""
    async with replicated(tmp_path, 3, lease_ms=_SHORT_LEASE_MS) as cluster:
        await lead(cluster, 0, 3, standbys=[1, 2])
        following = replica_of(cluster, 2).following
        await wait_until_async(lambda: following.stale_s() < _SHORT_LEASE_MS / 1000)
        await cluster.stop_pod(1)
        await wait_until_async(lambda: not replica_of(cluster, 0).acting.is_acting)
        heard = following.acknowledgements
        await wait_until_async(lambda: following.stale_s() > 2 * _SHORT_LEASE_MS / 1000)
        # The active goes on sending.
        await wait_until_async(lambda: following.acknowledgements > heard)


async def test_an_active_that_started_again_waits_for_its_next_epoch(tmp_path: Path) -> None:
    async with replicated(tmp_path) as cluster:
        writer = cluster.writer(0)
        epoch = await writer.epoch()
        await write(writer, epoch, 0, ROWS)
        await cluster.stop_pod(0)
        await cluster.start_pod(0)
        assert cluster.pods[0].pod.report().replicas[0].asks_for_epoch
        with pytest.raises(NotReadyError, match="waits for an epoch"):
            replica_of(cluster, 0).acting.check()
        await lead(cluster, 0, 3, standbys=[1])
        writer = cluster.writer(0)
        await write(writer, epoch, 1, {0: {b"c": b"3"}})
        await wait_until_async(lambda: b"c" in rows_of(replica_of(cluster, 1)))


async def test_an_active_that_waits_for_a_silent_standby_reports_that_it_answers_reads(
    tmp_path: Path,
) -> None:
    async with replicated(tmp_path, lease_ms=_LONG_LEASE_MS) as cluster:
        writer = cluster.writer(0)
        await write(writer, await writer.epoch(), 0, ROWS)
        (standby,) = cluster.pods[1].pod.report().replicas
        assert (standby.state, standby.answers) == ("serving", True)
        await cluster.stop_pod(1)
        await cluster.pods[0].pod.assign(
            replace(cluster.assignment, partitions=(configuration(0, 0, standbys=[1], epoch=3),))
        )
        (active,) = cluster.pods[0].pod.report().replicas
        assert (active.configuration.epoch, active.state, active.answers) == (3, "opening", True)
        assert rows_of(replica_of(cluster, 0)) == ROWS[0]


async def test_a_promoted_standby_that_starts_again_waits_for_the_old_lease_and_a_new_epoch(
    tmp_path: Path,
) -> None:
    """It does not remember whether the lease that it gave to the old active has run out."""
    async with replicated(tmp_path, lease_ms=2 * _SHORT_LEASE_MS) as cluster:
        writer = cluster.writer(0)
        await write(writer, await writer.epoch(), 0, ROWS)
        await cluster.stop_pod(0)
        await cluster.assign([configuration(0, 1, learners=[0], epoch=3)])
        await cluster.stop_pod(1)
        await cluster.start_pod(1)
        assert cluster.pods[1].pod.report().replicas[0].asks_for_epoch
        await cluster.assign([configuration(0, 1, learners=[0], epoch=4)])
        with pytest.raises(NotReadyError, match="lease"):
            replica_of(cluster, 1).acting.check()
        await cluster.until_led()


async def test_an_active_needs_the_lease_of_a_learner_that_counts(tmp_path: Path) -> None:
    """The operator may have taken it in, and promoted it."""
    async with replicated(tmp_path, lease_ms=_SHORT_LEASE_MS) as cluster:
        await lead(cluster, 0, 3, learners=[1])
        report = cluster.pods[0].pod.report
        await wait_until_async(lambda: report().replicas[0].caught_up == (1,))
        await wait_until_async(lambda: replica_of(cluster, 0).acting.is_acting)
        await cluster.stop_pod(1)
        await wait_until_async(lambda: not replica_of(cluster, 0).acting.is_acting)


async def test_a_learner_whose_pod_is_gone_has_not_caught_up(tmp_path: Path) -> None:
    """It may come back with an empty volume; the operator would count that one as in sync."""
    async with replicated(tmp_path) as cluster:
        await lead(cluster, 0, 3, learners=[1])
        report = cluster.pods[0].pod.report
        await wait_until_async(lambda: report().replicas[0].caught_up == (1,))
        await cluster.stop_pod(1)
        await wait_until_async(lambda: report().replicas[0].caught_up == ())
        await cluster.start_pod(1)
        await cluster.assign(cluster.configurations)
        await wait_until_async(lambda: report().replicas[0].caught_up == (1,))


async def test_a_copy_replaces_no_learner_that_has_acknowledged_entries_meanwhile(
    tmp_path: Path,
) -> None:
    async with replicated(tmp_path) as cluster:
        writer = cluster.writer(0)
        epoch = await writer.epoch()
        await lead(cluster, 0, 3, learners=[1])
        learner, held = cluster.pods[1].pod, cluster.configurations[0]
        report = cluster.pods[0].pod.report
        await wait_until_async(lambda: report().replicas[0].caught_up == (1,))
        before = learner.registry.copied_over(held)
        await write(writer, epoch, 0, ROWS)
        with pytest.raises(StaleEpochError, match="meanwhile"):
            await learner.install(held, tmp_path / "copy", before)
        with pytest.raises(StaleEpochError):
            learner.registry.copied_over(configuration(0, 0, learners=[1], epoch=2))


async def test_a_standby_that_does_not_answer_is_reported_and_commits_wait(tmp_path: Path) -> None:
    async with replicated(tmp_path, replica_timeout_ms=200, lease_ms=_SHORT_LEASE_MS) as cluster:
        writer = cluster.writer(0)
        epoch = await writer.epoch()
        await write(writer, epoch, 0, ROWS)
        report = cluster.pods[0].pod.report
        assert not report().replicas[0].lacks_lease
        await cluster.stop_pod(1)
        await wait_until_async(lambda: report().replicas[0].silent == (1,))
        await wait_until_async(lambda: report().replicas[0].lacks_lease)
        await wait_until_async(lambda: not replica_of(cluster, 0).acting.is_acting)
        await lead(cluster, 0, 3, learners=[1])
        await write(writer, epoch, 1, {0: {b"c": b"3"}})


async def test_a_standby_whose_assignment_cannot_be_read_becomes_a_learner(tmp_path: Path) -> None:
    async with replicated(tmp_path) as cluster:
        writer = cluster.writer(0)
        epoch = await writer.epoch()
        await write(writer, epoch, 0, ROWS)
        await cluster.stop_pod(1)
        (cluster.volume / "1" / "assignment.json").write_bytes(b"{")
        pod = (await cluster.start_pod(1)).pod
        with pytest.raises(CorruptionError, match="cannot be read"):
            await pod.assign(cluster.assignment)
        await lead(cluster, 0, 3, learners=[1])
        await wait_until_async(lambda: pod.report().replicas[0].configuration.epoch == 3)
        await wait_until_async(lambda: rows_of(replica_of(cluster, 1)) == ROWS[0])


async def test_a_standby_with_a_full_disk_is_reported(tmp_path: Path) -> None:
    async with replicated(tmp_path, replica_timeout_ms=200) as cluster:
        replica_of(cluster, 1).health.stall(DiskFullError("the volume is full"))
        report = cluster.pods[0].pod.report
        await wait_until_async(lambda: report().replicas[0].silent == (1,))
        replica_of(cluster, 1).health.go_on()
        await wait_until_async(lambda: report().replicas[0].silent == ())


async def test_a_learner_takes_the_log_and_then_counts(tmp_path: Path) -> None:
    async with replicated(tmp_path) as cluster:
        writer = cluster.writer(0)
        epoch = await writer.epoch()
        await lead(cluster, 0, 3, learners=[1])
        await write(writer, epoch, 0, ROWS)
        report = cluster.pods[0].pod.report
        await wait_until_async(lambda: report().replicas[0].caught_up == (1,))
        await lead(cluster, 0, 4, standbys=[1])
        await write(writer, epoch, 1, {0: {b"c": b"3"}})
        assert replica_of(cluster, 1).changelog.durable_end >= replica_of(cluster, 0).log.watermark


async def test_no_writer_waits_for_the_pod_of_a_replica_that_has_left(tmp_path: Path) -> None:
    """It is about to restart. A learner that counts would hold the writer up for as long."""
    async with replicated(tmp_path) as cluster:
        writer = cluster.writer(0)
        epoch = await writer.epoch()
        await write(writer, epoch, 0, ROWS)
        await lead(cluster, 0, 3, learners=[1])
        await write(writer, epoch, 1, ROWS)
        active, learner = replica_of(cluster, 0), replica_of(cluster, 1)
        await wait_until_async(lambda: learner.changelog.durable_end == active.log.end)
        assert active.log.counted == frozenset()
        await cluster.stop_pod(1)
        await write(writer, epoch, 2, ROWS)
        await cluster.start_pod(1)
        await cluster.assign([configuration(0, 0, learners=[1], epoch=3)])
        await wait_until_async(lambda: active.followers.learners.caught_up() == (1,))


async def test_a_learner_of_a_pod_that_was_told_to_stop_does_not_begin_to_count(
    tmp_path: Path,
) -> None:
    """Its pod may serve on for longer than a replica that has left is given to restart."""
    async with replicated(tmp_path) as cluster:
        writer = cluster.writer(0)
        epoch = await writer.epoch()
        leaving = cluster.pods[1].pod.report_feed
        leaving.is_leaving = True
        await lead(cluster, 0, 3, learners=[1])
        active, learner = replica_of(cluster, 0), replica_of(cluster, 1)
        active.followers.failed(Ordinal(1))  # As when its pod has restarted: it may count again.
        await write(writer, epoch, 0, ROWS)
        await wait_until_async(lambda: learner.log.applied == active.log.end)
        assert active.log.counted == frozenset()
        leaving.is_leaving = False
        await wait_until_async(lambda: active.followers.learners.caught_up() == (1,))


async def test_an_active_asks_for_an_epoch_once_the_pod_of_a_learner_that_counts_is_gone(
    tmp_path: Path,
) -> None:
    """A writer would wait for the learner for `replicaTimeout`, and nobody needs it."""
    async with replicated(tmp_path, replica_timeout_ms=_LONG_LEASE_MS) as cluster:
        await lead(cluster, 0, 3, learners=[1])
        active, report = replica_of(cluster, 0), cluster.pods[0].pod.report
        active.followers.failed(Ordinal(1))
        await wait_until_async(lambda: report().replicas[0].caught_up == (1,))
        assert not report().replicas[0].asks_for_epoch
        await cluster.stop_pod(1)
        await wait_until_async(lambda: report().replicas[0].asks_for_epoch)


@pytest.mark.parametrize("is_lost", [True, False], ids=["lost volume", "cut log"])
async def test_a_learner_whose_entries_were_cut_copies_the_database(
    tmp_path: Path, *, is_lost: bool
) -> None:
    async with with_a_copied_learner(tmp_path, ROWS, is_lost=is_lost, lease_ms=_SHORT_LEASE_MS) as (
        cluster,
        writer,
        epoch,
    ):
        active = replica_of(cluster, 0)
        await lead(cluster, 0, 4, standbys=[1])
        await write(writer, epoch, 4, {0: {b"last": b"5"}})
        await wait_until_async(lambda: rows_of(replica_of(cluster, 1)) == rows_of(active))
        assert replica_of(cluster, 1).hello.database != active.hello.database
        await wait_until_async(lambda: not list((tmp_path / "0" / "snapshots").iterdir()))
        assert not list((tmp_path / "1" / "incoming").iterdir())
        # The copy survives its next start, and the new active after it.
        await cluster.stop_pod(1)
        await cluster.start_pod(1)
        await cluster.stop_pod(0)
        await lead(cluster, 1, 5)
        assert b"last" in rows_of(replica_of(cluster, 1))


async def test_a_learner_that_meets_damage_while_it_takes_entries_copies_the_database(
    tmp_path: Path,
) -> None:
    """The active sends heartbeats, or a writer's entries, more often than it asks for copies."""
    async with replicated(tmp_path, lease_ms=2 * _SHORT_LEASE_MS) as cluster:
        writer = cluster.writer(0)
        await write(writer, await writer.epoch(), 0, ROWS)
        await lead(cluster, 0, 3, learners=[1])
        active, learner = replica_of(cluster, 0), replica_of(cluster, 1)
        await wait_until_async(lambda: learner.changelog.durable_end == active.log.end)
        learner.fail(CorruptionError("a block is damaged"))
        replicas = cluster.pods[1].pod.registry.replicas
        await wait_until_async(lambda: replicas.get(PartitionId(0), learner) is not learner)
        await wait_until_async(lambda: active.followers.learners.caught_up() == (1,))
        assert rows_of(replica_of(cluster, 1)) == ROWS[0]


async def test_an_active_whose_volume_went_back_is_found_by_its_standby(tmp_path: Path) -> None:
    async with replicated(tmp_path) as cluster:
        writer = cluster.writer(0)
        epoch = await writer.epoch()
        await write(writer, epoch, 0, ROWS)
        await cluster.stop_pod(0)
        shutil.copytree(tmp_path / "0", tmp_path / "older")
        await cluster.start_pod(0)
        await lead(cluster, 0, 3, standbys=[1])
        await write(writer, epoch, 1, {0: {b"c": b"3"}})
        standby = replica_of(cluster, 1)
        await wait_until_async(lambda: b"c" in rows_of(standby))
        await cluster.stop_pod(0)
        shutil.rmtree(tmp_path / "0")
        (tmp_path / "older").rename(tmp_path / "0")
        await cluster.start_pod(0)
        await cluster.assign([configuration(0, 0, standbys=[1], epoch=4)])
        report = cluster.pods[0].pod.report
        await wait_until_async(lambda: report().replicas[0].is_damaged)
        assert "went back to an older state" in (report().replicas[0].error or "")
        assert standby.failure is None
        assert b"c" in rows_of(standby)


async def test_many_batches_at_full_speed_leave_both_replicas_equal(tmp_path: Path) -> None:
    async with replicated(tmp_path, changelog_retention_bytes=10_000) as cluster:
        writer = cluster.writer(0)
        epoch = await writer.epoch()
        for batch in range(20):
            rows = {f"{batch}/{n}".encode(): b"v" * 50 for n in range(100)}
            await write(writer, epoch, batch, {0: rows})
        active, standby = replica_of(cluster, 0), replica_of(cluster, 1)
        await wait_until_async(lambda: standby.log.applied == active.log.end)
        assert rows_of(standby) == rows_of(active)
        assert len(rows_of(active)) == 2000
