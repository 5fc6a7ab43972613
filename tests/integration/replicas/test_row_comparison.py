"""Replicas of a partition that have other rows are found and told."""

import asyncio
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from qss_core.errors import CorruptionError
from qss_core.model import Epoch, PartitionId, Sequence, StoreType
from qss_core.wire.retirement import RetireRequest
from qss_store.replicas.migration_pacing import Migrator
from qss_store.runtime.settings import Settings
from qss_testing.faults.unlike_rows import (
    KEYS,
    back_in_sync,
    compare,
    damaged,
    filled,
    look,
    spoil,
    told_epoch,
)
from qss_testing.pods.stores import configuration, open_rocksdb
from qss_testing.pods.write_cluster import (
    lead,
    replica_of,
    replicated,
    rows_of,
    write,
    write_cluster,
)
from qss_testing.waiting import wait_until_async

FAST = Settings(migration_share=0.9)
_LEASE_MS = 1500


async def test_equal_replicas_are_found_equal_while_batches_come(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with replicated(tmp_path, pods=3) as cluster:
        await lead(cluster, 0, 3, standbys=[1, 2])
        writer, epoch = await filled(cluster, 0, 1, 2)
        comparing = asyncio.create_task(compare(cluster))
        for batch in range(1, 4):
            rows: dict[bytes, bytes | None] = dict.fromkeys(KEYS[::batch], b"%d" % batch)
            await write(writer, epoch, batch, {0: {**rows, KEYS[batch]: None}})
        await comparing
        await compare(cluster)
        assert replica_of(cluster, 0).health.unlike is None
        assert damaged(cluster) == []
        assert "other rows" not in caplog.text


@pytest.mark.parametrize(
    ("key", "row"),
    [(KEYS[0], bytes(8) + b"2"), (KEYS[1500], None), (b"z", bytes(8) + b"1"), (b"k", bytes(9))],
    ids=["another value", "a row less", "a row more at the end", "a row more at the beginning"],
)
async def test_nobody_can_tell_which_of_unlike_replicas_is_right(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, key: bytes, row: bytes | None
) -> None:
    async with replicated(tmp_path) as cluster:
        await filled(cluster, 0, 1)
        standby = replica_of(cluster, 1)
        before = spoil(standby, key, row)
        await compare(cluster)
        (report,) = cluster.pods[0].pod.report().replicas
        assert report.unlike is not None
        assert report.unlike.pods == (0, 1)
        assert (report.unlike.epoch, report.unlike.sequence) == (2, report.sequence)
        assert report.unlike.offset <= report.applied_offset
        (said,) = [one for one in caplog.records if one.levelname == "CRITICAL"]
        assert "the replicas of partition 0 on pods 0, 1 have other rows" in said.getMessage()
        assert damaged(cluster) == []
        spoil(standby, key, before or None)
        await compare(cluster)
        assert replica_of(cluster, 0).health.unlike is None, "a person has mended it"


@pytest.mark.parametrize("odd", [0, 1, 2])
async def test_of_three_replicas_none_is_made_anew_by_itself(tmp_path: Path, odd: int) -> None:
    """Two that have the same rows may be a wrong one and its copy."""
    async with replicated(tmp_path, pods=3) as cluster:
        await lead(cluster, 0, 3, standbys=[1, 2])
        await filled(cluster, 0, 1, 2)
        spoil(replica_of(cluster, odd), KEYS[1500])
        await compare(cluster)
        found = replica_of(cluster, 0).health.unlike
        assert found is not None
        assert found.pods == (0, 1, 2)
        assert damaged(cluster) == []
        for pod in (1, 2):
            assert replica_of(cluster, pod).health.unlike == found, "it may be the next active"
            (report,) = cluster.pods[pod].pod.report().replicas
            assert report.unlike is None, "the active reports"


async def test_the_next_active_of_unlike_replicas_compares_again(tmp_path: Path) -> None:
    """A person has made it the active, to keep its rows."""
    async with replicated(tmp_path, lease_ms=_LEASE_MS) as cluster:
        await filled(cluster, 0, 1)
        spoil(replica_of(cluster, 1), KEYS[9])
        await look(cluster, 0)
        await look(cluster, 1)
        assert replica_of(cluster, 1).health.unlike is not None, "its own pass ends nothing"
        await lead(cluster, 1, 3, standbys=[0])
        assert told_epoch(cluster, 1) == 2, "nothing has compared the rows since"
        await look(cluster, 1)
        assert told_epoch(cluster, 1) == 3


async def test_an_alarm_outlives_the_time_that_a_standby_is_away(tmp_path: Path) -> None:
    """A look that falls there neither ends the alarm nor counts as a comparison."""
    async with replicated(tmp_path, lease_ms=_LEASE_MS) as cluster:
        await filled(cluster, 0, 1)
        before = spoil(replica_of(cluster, 1), KEYS[9])
        await look(cluster, 0)
        assert told_epoch(cluster, 0) == 2
        await cluster.assign([configuration(0, 0, epoch=3, learners=[1])])
        await cluster.until_led()
        assert told_epoch(cluster, 0) == 2
        await look(cluster, 0)
        assert told_epoch(cluster, 0) == 2
        await cluster.assign([configuration(0, 0, epoch=4, standbys=[1])])
        await cluster.until_led()
        await look(cluster, 0)
        assert told_epoch(cluster, 0) == 4, "the rows were compared again"
        spoil(replica_of(cluster, 1), KEYS[9], before)
        await cluster.assign([configuration(0, 0, epoch=5, standbys=[1])])
        await cluster.until_led()
        await look(cluster, 0)
        assert told_epoch(cluster, 0) is None


async def test_an_alarm_outlives_damage_of_the_active(tmp_path: Path) -> None:
    async with replicated(tmp_path) as cluster:
        await filled(cluster, 0, 1)
        spoil(replica_of(cluster, 1), KEYS[9])
        await compare(cluster)
        registry = cluster.pods[0].pod.registry
        registry.found_damage(PartitionId(0), CorruptionError("a block"), replica_of(cluster, 0))
        await compare(cluster)
        assert told_epoch(cluster, 0) == 2


async def test_an_alarm_ends_when_all_replicas_were_compared_and_the_standbys_hear_of_it(
    tmp_path: Path,
) -> None:
    """One of two unlike standbys is mended first; meanwhile the other one is away."""
    async with replicated(tmp_path, pods=3) as cluster:
        await lead(cluster, 0, 3, standbys=[1, 2])
        await filled(cluster, 0, 1, 2)
        before = {pod: spoil(replica_of(cluster, pod), KEYS[9]) for pod in (1, 2)}
        await look(cluster, 0)
        assert told_epoch(cluster, 0) == 3
        spoil(replica_of(cluster, 1), KEYS[9], before[1])
        await cluster.assign([configuration(0, 0, epoch=4, standbys=[1], learners=[2])])
        await cluster.until_led()
        await compare(cluster)
        assert told_epoch(cluster, 0) == 3, "the one that is away still differs"
        await cluster.assign([configuration(0, 0, epoch=5, standbys=[1, 2])])
        await cluster.until_led()
        await look(cluster, 0)
        assert told_epoch(cluster, 0) == 5
        spoil(replica_of(cluster, 2), KEYS[9], before[2])
        await compare(cluster)
        assert told_epoch(cluster, 0) is None
        for pod in (1, 2):
            assert replica_of(cluster, pod).health.unlike is None, "it may be the next active"


@pytest.mark.parametrize("is_deleted", [True, False])
async def test_the_alarm_ends_with_the_standbys_and_a_new_one_is_compared_soon(
    tmp_path: Path, *, is_deleted: bool
) -> None:
    """A new one is a copy of the active, unless the pod still had the replica that was left out."""
    async with replicated(tmp_path, lease_ms=_LEASE_MS) as cluster:
        await filled(cluster, 0, 1)
        spoil(replica_of(cluster, 1), KEYS[9])
        await look(cluster, 0)
        await lead(cluster, 0, 3)
        assert told_epoch(cluster, 0) is None
        await look(cluster, 0)
        if is_deleted:
            store_id = cluster.assignment.definition.store_id
            request = RetireRequest(store_id=store_id, partition=PartitionId(0), epoch=Epoch(3))
            await cluster.pods[1].pod.retire(request)
        await back_in_sync(cluster, 4)
        active = replica_of(cluster, 0)
        assert told_epoch(cluster, 0) is None
        await look(cluster, 0)
        assert told_epoch(cluster, 0) == (None if is_deleted else 5)
        assert (rows_of(replica_of(cluster, 1)) == rows_of(active)) is is_deleted


async def test_a_pass_without_a_standby_in_sync_is_made_again_when_one_is(tmp_path: Path) -> None:
    """The active has restarted, which forgets what it had found."""
    async with replicated(tmp_path, lease_ms=_LEASE_MS) as cluster:
        await filled(cluster, 0, 1)
        spoil(replica_of(cluster, 1), KEYS[9])
        await cluster.assign([configuration(0, 0, epoch=3, learners=[1])])
        await cluster.until_led()
        await look(cluster, 0)
        await cluster.assign([configuration(0, 0, epoch=4, standbys=[1])])
        await cluster.until_led()
        await look(cluster, 0)
        assert told_epoch(cluster, 0) == 4


async def test_rows_that_were_not_compared_end_nothing(tmp_path: Path) -> None:
    """Each standby shows another batch than the active, again and again."""
    async with replicated(tmp_path) as cluster:
        await filled(cluster, 0, 1)
        spoil(replica_of(cluster, 1), KEYS[9])
        await compare(cluster)
        found = replica_of(cluster, 0).health.unlike
        assert found is not None
        active = replica_of(cluster, 0)
        assert active.view is not None
        earlier = replace(active.view, sequence=Sequence(active.view.sequence - 1))
        await wait_until_async(lambda: replica_of(cluster, 1).view is not None)
        active.current_view.view = earlier
        await compare(cluster)
        assert active.health.unlike is found


async def test_a_timestamp_that_a_migration_may_have_lost_does_not_count(tmp_path: Path) -> None:
    async with replicated(tmp_path) as cluster:
        await filled(cluster, 0, 1)
        spoil(replica_of(cluster, 1), KEYS[5], b"\xff" * 8 + b"1")
        await compare(cluster)
        assert replica_of(cluster, 0).health.unlike is None


async def test_a_damaged_standby_and_one_that_is_away_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The damaged one is made anew anyway, and says nothing of the others."""
    caplog.set_level("INFO")
    async with replicated(tmp_path, pods=3) as cluster:
        await lead(cluster, 0, 3, standbys=[1, 2])
        await filled(cluster, 0, 1, 2)
        registry = cluster.pods[1].pod.registry
        registry.found_damage(PartitionId(0), CorruptionError("a block"), replica_of(cluster, 1))
        spoil(replica_of(cluster, 2), KEYS[2990])
        await compare(cluster)
        found = replica_of(cluster, 0).health.unlike
        assert found is not None
        assert found.pods == (0, 2)
        assert "pod 1 does not compare its rows" in caplog.text
        await cluster.stop_pod(2)
        await compare(cluster)
        assert "pod 2 does not compare its rows" in caplog.text
        assert replica_of(cluster, 0).health.unlike is found, "nothing says that it is over"


@pytest.mark.parametrize("is_history", [False, True], ids=["a latest version", "an older version"])
async def test_all_versions_of_a_key_are_compared(tmp_path: Path, *, is_history: bool) -> None:
    async with write_cluster(
        tmp_path, pods=2, partitions=1, open_engine=open_rocksdb(), type=StoreType.VERSIONED
    ) as cluster:
        await lead(cluster, 0, 2, standbys=[1])
        writer, epoch = await filled(cluster, 0, 1)
        await write(writer, epoch, 1, {0: {KEYS[3]: b"2"}})
        standby, active = replica_of(cluster, 1), replica_of(cluster, 0)
        await wait_until_async(lambda: standby.log.applied == active.log.applied)
        await compare(cluster)
        assert active.health.unlike is None
        families = standby.views.families
        ((_, history),) = families.segments_in(standby.engine.families())
        ((row_key, _),) = standby.engine.scan(history)
        where = (row_key, bytes(9), history) if is_history else (KEYS[3], bytes(9))
        spoil(standby, *where)
        await compare(cluster)
        assert active.health.unlike is not None


async def test_a_replica_that_has_moved_its_rows_to_another_format_has_the_same_rows(
    tmp_path: Path,
) -> None:
    async with replicated(tmp_path) as cluster:
        await filled(cluster, 0, 1)
        new_format = "TimestampedWithHeaders"
        cluster.definition = msgspec.structs.replace(cluster.definition, format=new_format)
        await cluster.assign(cluster.configurations)
        standby = replica_of(cluster, 1)
        assert await Migrator(cluster.pods[1].pod, FAST).round()
        assert not standby.views.families.sources(standby.engine.families())
        active = replica_of(cluster, 0)
        assert active.views.families.sources(active.engine.families()), "its rows lie as before"
        await compare(cluster)
        assert active.health.unlike is None
        spoil(standby, KEYS[1])
        await compare(cluster)
        assert active.health.unlike is not None


async def test_unlike_replicas_are_compared_again_in_another_epoch_and_after_a_restart(
    tmp_path: Path,
) -> None:
    """The standby may have been made anew since; until then the old finding is told."""
    async with replicated(tmp_path) as cluster:
        await filled(cluster, 0, 1)
        before = spoil(replica_of(cluster, 1), KEYS[9])
        await look(cluster, 0)
        assert replica_of(cluster, 0).health.unlike is not None
        await cluster.stop_pod(0)
        await cluster.start_pod(0)
        assert told_epoch(cluster, 0) == 2
        await lead(cluster, 0, 3, standbys=[1])
        assert told_epoch(cluster, 0) == 2
        await look(cluster, 0)
        assert replica_of(cluster, 0).health.unlike is not None
        spoil(replica_of(cluster, 1), KEYS[9], before)
        await look(cluster, 0)
        assert replica_of(cluster, 0).health.unlike is not None, "the day is not over"
        await lead(cluster, 0, 4, standbys=[1])
        assert told_epoch(cluster, 0) == 3
        await look(cluster, 0)
        assert replica_of(cluster, 0).health.unlike is None


async def test_only_the_active_compares(tmp_path: Path) -> None:
    async with replicated(tmp_path) as cluster:
        await filled(cluster, 0, 1)
        spoil(replica_of(cluster, 1), KEYS[0])
        await compare(cluster, pod=1)
        assert replica_of(cluster, 1).health.unlike is None
        assert damaged(cluster) == []
        await cluster.assign([configuration(0, 0, epoch=3, learners=[1])])
        await cluster.until_led()
        await compare(cluster)
        assert replica_of(cluster, 0).health.unlike is None, "a learner is not in sync"
