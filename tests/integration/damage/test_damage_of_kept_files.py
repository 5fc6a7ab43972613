"""Files beside the databases cannot be read: the pod starts, and serves only what it can check."""

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from qss_core.errors import NotReadyError, RolledBackError
from qss_core.model import Epoch, PartitionId
from qss_core.wire.losses import AcceptLossRequest
from qss_core.wire.messages import encode
from qss_testing.clients.http import Answer
from qss_testing.faults.rolled_back import (
    accept,
    cluster_of,
    losses,
    rolled_back,
    values,
    write,
)
from qss_testing.pods.write_cluster import WriteCluster

SPOILT = 1


async def accept_of_emptied(cluster: WriteCluster, partition: int) -> Answer:
    """The operator's message to a pod that reports no store, after a person accepted the loss."""
    request = AcceptLossRequest(
        store_id=cluster.definition.store_id,
        partition=PartitionId(partition),
        epoch=Epoch(1),
        assignment=cluster.assignment,
    )
    pod = cluster.pods[cluster.configurations[partition].active]
    return await pod.internal.send("POST", "/control/accept-data-loss", encode(request), {})


def empty(file: Path) -> None:
    file.write_bytes(b"")


def of_zeros(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def unreadable(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize("spoil", [empty, of_zeros, cut, unreadable])
async def test_a_pod_whose_assignment_cannot_be_read_starts_and_serves_nothing(
    tmp_path: Path, spoil: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster_of(tmp_path, pods=1) as cluster:
        (await write(cluster, 0, b"1")).json()
        await cluster.stop_pod(0)
        kept = tmp_path / "0" / "assignment.json"
        shutil.copy(kept, tmp_path / "kept.json")
        spoil(kept)
        with caplog.at_level(logging.ERROR):
            held = await cluster.start_pod(0)
        assert "assignment.json on the volume cannot be read" in caplog.text
        report = held.pod.report()
        assert (report.store_id, report.ready, report.replicas) == (None, False, ())
        with pytest.raises(NotReadyError):
            held.pod.registry.local(0)
        # The pod refuses an operator that takes the store for a new one.
        body = encode(cluster.assignment)
        refused = await held.internal.send("PUT", "/control/assignment", body, {})
        assert "cannot be read" in refused.problem(500, "STORE_EXCEPTION")["detail"]
        assert held.pod.report().store_id is None
        await cluster.stop_pod(0)
        shutil.rmtree(kept) if kept.is_dir() else kept.unlink()
        shutil.copy(tmp_path / "kept.json", kept)
        await cluster.start_pod(0)
        assert values(cluster) == [b"1"] * 3


async def test_what_is_whole_is_served_where_the_loss_of_a_partition_is_accepted(
    tmp_path: Path,
) -> None:
    async with cluster_of(tmp_path, pods=1) as cluster:
        (await write(cluster, 0, b"1")).json()
        await cluster.pods[0].coordination.driver.finish()
        await cluster.stop_pod(0)
        empty(tmp_path / "0" / "assignment.json")
        shutil.rmtree(tmp_path / "0" / "partitions" / "2")
        held = await cluster.start_pod(0)
        assert held.pod.report().unassigned == (0, 1)
        (await accept_of_emptied(cluster, SPOILT)).json()
        assert held.pod.report().unassigned == ()
        assert held.pod.is_ready
        assert cluster.rows(0) == cluster.rows(SPOILT) == {b"k": b"1"}
        assert losses(cluster, SPOILT) == []
        # Nobody has accepted the loss of this partition, and no empty one takes its place.
        assert [one.partition for one in held.pod.report().lost] == [2]
        await cluster.stop_pod(0)
        await cluster.start_pod(0)
        assert cluster.rows(0) == cluster.rows(SPOILT) == {b"k": b"1"}


async def test_a_report_without_an_assignment_does_not_look_at_the_volume(tmp_path: Path) -> None:
    """A slow volume would hold up all of the pod, each time that the operator asks."""
    async with cluster_of(tmp_path, pods=1) as cluster:
        (await write(cluster, 0, b"1")).json()
        await cluster.stop_pod(0)
        empty(tmp_path / "0" / "assignment.json")
        held = await cluster.start_pod(0)
        (tmp_path / "0" / "partitions").rename(tmp_path / "elsewhere")
        assert held.pod.report().unassigned == (0, 1, 2)
        (tmp_path / "elsewhere").rename(tmp_path / "0" / "partitions")


async def test_a_database_that_cannot_be_opened_is_reported_before_it_is_given_up(
    tmp_path: Path,
) -> None:
    """A learner may have more than what is left in it, and the operator did not know of it."""
    async with cluster_of(tmp_path, pods=1) as cluster:
        (await write(cluster, 0, b"1")).json()
        await cluster.pods[0].coordination.driver.finish()
        await cluster.stop_pod(0)
        empty(tmp_path / "0" / "assignment.json")
        (tmp_path / "0" / "partitions" / "1" / "CURRENT").write_bytes(b"garbage")
        held = await cluster.start_pod(0)
        (await accept_of_emptied(cluster, SPOILT)).problem(503, "NOT_READY")
        assert [one.partition for one in held.pod.report().lost] == [SPOILT]
        (await accept(cluster, SPOILT)).json()
        assert losses(cluster, SPOILT) == [(1, 1, 1)]


async def test_files_that_lost_synced_rows_are_missed_without_the_assignment_too(
    tmp_path: Path,
) -> None:
    async with cluster_of(tmp_path, pods=1) as cluster:
        (await write(cluster, 0, b"1")).json()
        await cluster.pods[0].coordination.driver.finish()
        await cluster.stop_pod(0)
        database = tmp_path / "0" / "partitions" / "2"
        shutil.copytree(database, tmp_path / "older")
        await cluster.start_pod(0)
        (await write(cluster, 1, b"2", "run-2")).json()
        await cluster.pods[0].coordination.driver.finish()
        await cluster.stop_pod(0)
        shutil.rmtree(database)
        (tmp_path / "older").rename(database)
        empty(tmp_path / "0" / "assignment.json")
        held = await cluster.start_pod(0)
        (await accept_of_emptied(cluster, SPOILT)).json()
        assert [one.partition for one in held.pod.report().lost] == [2]
        assert cluster.rows(0) == cluster.rows(SPOILT) == {b"k": b"2"}


async def test_a_volume_without_its_assignment_is_compared_before_it_is_served(
    tmp_path: Path,
) -> None:
    """The volume's marks went back with it: only the other pods know newer sequences."""
    async with cluster_of(tmp_path) as cluster:
        await rolled_back(cluster, tmp_path, SPOILT)
        await cluster.stop_pod(SPOILT)
        empty(tmp_path / str(SPOILT) / "assignment.json")
        held = await cluster.start_pod(SPOILT)
        await held.pod.assign(cluster.assignment, is_emptied=True)
        with pytest.raises(NotReadyError, match="compares its data with the other pods"):
            held.pod.registry.local(SPOILT)
        await held.comparison.first()
        while not await held.comparison.round():
            pass  # On a busy machine the first one has not waited for all pods.
        with pytest.raises(RolledBackError):
            held.pod.registry.local(SPOILT)


async def test_an_acceptance_compares_a_volume_without_its_assignment(tmp_path: Path) -> None:
    async with cluster_of(tmp_path) as cluster:
        await rolled_back(cluster, tmp_path, SPOILT)
        await cluster.stop_pod(SPOILT)
        empty(tmp_path / str(SPOILT) / "assignment.json")
        held = await cluster.start_pod(SPOILT)
        (await accept_of_emptied(cluster, SPOILT)).json()
        assert held.pod.is_ready
        assert losses(cluster, SPOILT) == [(2, 2, 1)]


# --- synced.json


def garbage(marks: Path) -> None:
    marks.write_bytes(b"\x00\x01")


def strange_partitions(marks: Path) -> None:
    held = json.loads(marks.read_bytes())
    held["partitions"] |= {"x": {"end": 5}, "²": {"end": 5}, "-1": {"end": 5}}
    marks.write_text(json.dumps(held))


@pytest.mark.parametrize("spoil", [garbage, strange_partitions, unreadable])
async def test_what_is_malformed_in_the_marks_is_ignored(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    async with cluster_of(tmp_path, pods=1) as cluster:
        (await write(cluster, 0, b"1")).json()
        await cluster.stop_pod(0)
        marks = tmp_path / "0" / "synced.json"
        spoil(marks)
        if marks.is_file() and spoil is strange_partitions:
            shutil.rmtree(tmp_path / "0" / "partitions" / "2")  # The other marks still count.
        held = await cluster.start_pod(0)
        assert held.pod.is_ready
        expected = [2] if spoil is strange_partitions else []
        assert [one.partition for one in held.pod.report().lost] == expected
        assert cluster.rows(0) == cluster.rows(1) == {b"k": b"1"}
