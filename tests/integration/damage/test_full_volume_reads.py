"""A pod that restarts on a full volume forwards the reads of partitions that it cannot open."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from qss_client.http.sync_http import SyncHttp
from qss_core.errors import DiskFullError, StoreError
from qss_core.model import Epoch, Ordinal
from qss_core.partitioning import partition_of
from qss_core.serdes.registry import serde_of
from qss_testing.faults.small_disk import SmallDisk
from qss_testing.pods.pod_process import PodCluster, PodProcess
from qss_testing.waiting import wait_until
from qss_testing.writers.writer import write_values

pytestmark = pytest.mark.long

MIB = 1024 * 1024
VALUES = {f"k{number}": number for number in range(8)}
OF_ACTIVE = "?requireActive=true"


@contextmanager
def restarted_on_a_full_volume(
    directory: Path, standbys: int
) -> Iterator[tuple[PodCluster, SmallDisk]]:
    """Two pods with rows, the first of which has started again and can open no partition."""
    cluster = PodCluster(directory, pods=2, standbys=standbys)
    pod = cluster.pods[0]
    with SmallDisk(pod.volume, 160 * MIB) as disk:
        pod.prefix = disk.command
        with cluster:
            write_values(cluster.url, cluster.store, VALUES)
            wait_until(cluster.is_level)  # Standbys answer reads without a bound.
            pod.kill()
            disk.fill(leave_bytes=0)
            pod.start()
            wait_until(lambda: len(waiting(pod)) == (4 if standbys else 2))
            yield cluster, disk


def waiting(pod: PodProcess) -> list[int]:
    """The partitions that the pod waits to open."""
    report = pod.report()
    return [lost.partition for lost in report.lost if lost.is_waiting] if report else []


def one(pod: PodProcess, key: str, parameters: str = "") -> int:
    """The value of a key, as the pod answers it over HTTP."""
    with closing(SyncHttp()) as http:
        value: int = http.get(f"{pod.query}/state/stores/words/{key}{parameters}", dict)["value"]
        return value


def several(pod: PodProcess) -> dict[str, Any]:
    """The status or value of each key in one batch get of the pod."""
    with closing(SyncHttp()) as http:
        answer = http.post(f"{pod.query}/state/get/words", {"keys": list(VALUES)}, dict)
    return {row["key"]: row.get("value", row["status"]) for row in answer["results"]}


def scanned(pod: PodProcess) -> dict[str, int]:
    """The rows of a scan over the whole store, as the pod answers it."""
    with closing(SyncHttp()) as http:
        answer = http.get(f"{pod.query}/state/stores/words", dict)
    return {row["key"]: row["value"] for row in answer["rows"]}


def has_every_active(pod: PodProcess) -> bool:
    """Whether each key is read from an active of the pod itself."""
    try:
        return {key: one(pod, key, f"{OF_ACTIVE}&scope=local") for key in VALUES} == VALUES
    except StoreError:
        return False


def is_of_full_pod(key: str) -> bool:
    return partition_of(serde_of("string").encode(key), 4) % 2 == 0


def test_what_a_full_volume_keeps_from_being_opened_is_read_from_the_standbys(
    tmp_path: Path,
) -> None:
    with restarted_on_a_full_volume(tmp_path, standbys=1) as (cluster, disk):
        pod = cluster.pods[0]
        assert {key: one(pod, key) for key in VALUES} == VALUES
        assert several(pod) == VALUES
        assert scanned(pod) == VALUES
        with pytest.raises(DiskFullError):
            one(pod, "k0", "?scope=local")
        disk.make_room()
        wait_until(cluster.is_level)
        assert not waiting(pod)
        assert scanned(pod) == VALUES


def test_without_standbys_only_what_a_full_volume_has_is_refused(tmp_path: Path) -> None:
    with restarted_on_a_full_volume(tmp_path, standbys=0) as (cluster, disk):
        for pod in cluster.pods:
            for key, value in VALUES.items():
                if is_of_full_pod(key):
                    with pytest.raises(DiskFullError, match="too little to open a database"):
                        one(pod, key)
                else:
                    assert one(pod, key) == value
        disk.make_room()
        wait_until(lambda: not waiting(cluster.pods[0]))
        assert {key: one(cluster.pods[1], key) for key in VALUES} == VALUES


def test_a_successor_that_a_full_pod_was_not_told_of_answers_for_the_active(
    tmp_path: Path,
) -> None:
    with restarted_on_a_full_volume(tmp_path, standbys=1) as (cluster, _):
        full, other = cluster.pods
        alone = (Ordinal(1),)
        cluster.assignment = msgspec.structs.replace(
            cluster.assignment,
            partitions=tuple(
                msgspec.structs.replace(
                    placed, epoch=Epoch(2), active=Ordinal(1), in_sync=alone, replicas=alone
                )
                for placed in cluster.assignment.partitions
            ),
        )
        with pytest.raises(DiskFullError):
            cluster.assign(full)
        cluster.assign(other)
        wait_until(lambda: has_every_active(other))
        # The operator moves the active, and the full pod cannot keep the new assignment.
        assert {key: one(full, key, OF_ACTIVE) for key in VALUES} == VALUES
