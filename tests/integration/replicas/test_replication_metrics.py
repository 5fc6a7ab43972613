"""Pods with standbys show replicas, lags, leases, takeovers, copies and bytes as metrics."""

import asyncio
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from qss_core.model import Ordinal
from qss_testing.pods.write_cluster import (
    WriteCluster,
    lead,
    replica_of,
    replicated,
    write,
)
from qss_testing.waiting import wait_until_async
from qss_testing.writers.copied_learner import with_a_copied_learner

ROWS = {0: {b"a": b"1", b"b": b"2"}}
_SHORT_LEASE_MS = 1500
_LONG_LEASE_MS = 600_000

Samples = dict[tuple[str, ...], float]  # By the name and the values of the labels.


async def shown(cluster: WriteCluster, pod: int) -> Samples:
    text = (await cluster.pods[pod].ops.get("/metrics")).body.decode()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_a_pod_shows_its_replicas_by_role_and_the_lease_of_its_actives(
    tmp_path: Path,
) -> None:
    async with replicated(tmp_path, lease_ms=_LONG_LEASE_MS) as cluster:
        active, standby = await shown(cluster, 0), await shown(cluster, 1)
        roles = ("active", "standby", "learner")
        assert [active["qss_replicas", role] for role in roles] == [1, 0, 0]
        assert [standby["qss_replicas", role] for role in roles] == [0, 1, 0]
        left_s = _LONG_LEASE_MS / 1000
        assert left_s / 2 < active["qss_lease_left_seconds", "0"] <= left_s
        assert ("qss_lease_left_seconds", "0") not in standby
        await lead(cluster, 0, 3, learners=[1])
        assert (await shown(cluster, 1))["qss_replicas", "learner"] == 1


async def test_a_lease_that_has_run_out_has_no_seconds_left(tmp_path: Path) -> None:
    async with replicated(tmp_path, lease_ms=_SHORT_LEASE_MS) as cluster:
        await cluster.stop_pod(1)
        await wait_until_async(lambda: not replica_of(cluster, 0).acting.is_acting)
        assert (await shown(cluster, 0))["qss_lease_left_seconds", "0"] == 0
        await lead(cluster, 0, 3)
        assert ("qss_lease_left_seconds", "0") not in await shown(cluster, 0), "it needs none"


async def test_a_standby_shows_how_far_it_is_behind_its_active(tmp_path: Path) -> None:
    async with replicated(tmp_path, lease_ms=_SHORT_LEASE_MS) as cluster:
        writer = cluster.writer(0)
        await write(writer, await writer.epoch(), 0, ROWS)
        active, standby = replica_of(cluster, 0), replica_of(cluster, 1)
        await wait_until_async(lambda: standby.log.applied == active.log.end)
        await wait_until_async(lambda: standby.following.stale_s() < _SHORT_LEASE_MS / 1000)
        samples = await shown(cluster, 1)
        assert samples["qss_replica_lag_offsets", "0", "standby"] == 0
        assert samples["qss_replica_lag_seconds", "0", "standby"] < 2 * _SHORT_LEASE_MS / 1000
        assert ("qss_replica_lag_offsets", "0", "active") not in await shown(cluster, 0)
        await cluster.stop_pod(0)
        late_s = 2 * _SHORT_LEASE_MS / 1000
        await wait_until_async(lambda: standby.following.stale_s() > late_s)
        samples = await shown(cluster, 1)
        assert samples["qss_replica_lag_seconds", "0", "standby"] > late_s


async def test_a_standby_shows_the_entries_that_it_has_not_applied(tmp_path: Path) -> None:
    """Entries wait in its log for another standby, which does not answer."""
    async with replicated(tmp_path, 3, lease_ms=_LONG_LEASE_MS) as cluster:
        await lead(cluster, 0, 3, standbys=[1, 2])
        active, standby = replica_of(cluster, 0), replica_of(cluster, 1)
        await wait_until_async(lambda: standby.log.applied == active.log.end)
        await cluster.stop_pod(2)
        opening = asyncio.create_task(cluster.writer(0).open())
        await wait_until_async(lambda: standby.log.end > standby.log.applied)
        waiting = standby.log.end - standby.log.applied
        assert (await shown(cluster, 1))["qss_replica_lag_offsets", "0", "standby"] == waiting
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)


async def test_a_standby_that_was_never_level_shows_the_seconds_since_it_was_opened(
    tmp_path: Path,
) -> None:
    async with replicated(tmp_path) as cluster:
        await cluster.stop_pod(0)
        await cluster.stop_pod(1)
        await cluster.start_pod(1)
        assert replica_of(cluster, 1).following.stale_s() == float("inf")
        assert 0 <= (await shown(cluster, 1))["qss_replica_lag_seconds", "0", "standby"] < 60


async def test_an_active_shows_the_entries_that_its_last_follower_lacks(tmp_path: Path) -> None:
    async with replicated(tmp_path) as cluster:
        writer = cluster.writer(0)
        epoch = await writer.epoch()
        await lead(cluster, 0, 3, learners=[1])
        active = replica_of(cluster, 0)
        await wait_until_async(lambda: active.log.durable.get(Ordinal(1)) == active.log.end)
        assert (await shown(cluster, 0))["qss_follower_lag_offsets", "0"] == 0
        assert ("qss_follower_lag_offsets", "0") not in await shown(cluster, 1)
        await cluster.stop_pod(1)
        await lead(cluster, 0, 4, learners=[1])
        held = active.log.end
        await write(writer, epoch, 0, ROWS)
        assert active.log.end > held
        lacked = (await shown(cluster, 0))["qss_follower_lag_offsets", "0"]
        assert lacked == active.log.end - active.log.start


async def test_a_takeover_is_shown_with_the_seconds_without_an_active(tmp_path: Path) -> None:
    async with replicated(tmp_path, lease_ms=_SHORT_LEASE_MS) as cluster:
        writer = cluster.writer(0)
        await write(writer, await writer.epoch(), 0, ROWS)
        assert (await shown(cluster, 1))["qss_takeover_seconds_count",] == 0
        await cluster.stop_pod(0)
        await lead(cluster, 1, 3)
        samples = await shown(cluster, 1)
        assert samples["qss_takeover_seconds_count",] == 1
        assert samples["qss_takeover_seconds_sum",] >= _SHORT_LEASE_MS / 1000
        await lead(cluster, 1, 4)
        assert (await shown(cluster, 1))["qss_takeover_seconds_count",] == 1, "it was the active"


async def test_both_pods_count_the_bytes_of_the_changelog(tmp_path: Path) -> None:
    async with replicated(tmp_path, lease_ms=_LONG_LEASE_MS) as cluster:
        writer = cluster.writer(0)
        epoch = await writer.epoch()
        sent, received = "qss_replication_sent_bytes_total", "qss_replication_received_bytes_total"
        before = [await shown(cluster, pod) for pod in (0, 1)]
        await write(writer, epoch, 0, {0: {b"large": b"x" * 100_000}})
        after = [await shown(cluster, pod) for pod in (0, 1)]
        for name, pod in ((sent, 0), (received, 1)):
            more = after[pod][name, "changelog"] - before[pod][name, "changelog"]
            assert 100_000 < more < 400_000
            assert after[pod][name, "snapshot"] == 0


@pytest.mark.parametrize("is_lost", [True, False], ids=["new", "rebuilt"])
async def test_a_copied_database_is_counted_with_its_bytes(
    tmp_path: Path, *, is_lost: bool
) -> None:
    async with with_a_copied_learner(tmp_path, ROWS, is_lost=is_lost, lease_ms=_SHORT_LEASE_MS) as (
        cluster,
        _,
        _,
    ):
        copied = await shown(cluster, 1)
        kinds = [copied["qss_copied_replicas_total", kind] for kind in ("new", "rebuilt")]
        assert kinds == ([1, 0] if is_lost else [0, 1])
        read = copied["qss_replication_received_bytes_total", "snapshot"]
        assert read > 3000, "the rows are in it"
        sent = await shown(cluster, 0)
        with_frames = sent["qss_replication_sent_bytes_total", "snapshot"]
        assert read < with_frames < 1.1 * read
