"""Both pods of a store with standbys restart while the volume of one is full."""

from pathlib import Path

import pytest

from qss_client import Store
from qss_core.model import Ordinal
from qss_operator.planning.model import ConditionType, StoreStatus
from qss_testing.clients.qss_command import REAL_POD, STORE, Qss, manifest
from qss_testing.faults.small_disk import SmallDisk
from qss_testing.waiting import wait_until
from qss_testing.writers.writer import write_values

pytestmark = pytest.mark.long

MIB = 1024 * 1024
QUICK = {"leaseDuration": "1s", "failoverAfter": "2s", "replicaTimeout": "2s"}
PODS = [Ordinal(0), Ordinal(1)]


def status_of(qss: Qss) -> StoreStatus:
    status = qss.state.read_status(STORE)
    assert status is not None
    return status


def actives(qss: Qss) -> set[Ordinal]:
    return {one.active for one in status_of(qss).assignment or ()}


def is_redundant(qss: Qss) -> bool:
    """Whether each pod has an active, all replicas are in sync, and the status says so."""
    status = status_of(qss)
    degraded = status.condition(ConditionType.DEGRADED)
    return (
        degraded is not None
        and degraded.reason == "Healthy"
        and actives(qss) == {*PODS}
        and all(set(one.in_sync) == set(PODS) for one in status.assignment or ())
    )


def rows_of(url: str) -> dict[str, int]:
    with Store(url, STORE) as store:
        return {row.key: row.value for row in store.range()}


@pytest.mark.parametrize("free", [0, 8 * MIB], ids=["opens-nothing", "logs-nothing"])
def test_the_pod_with_room_takes_over_and_nothing_is_lost(tmp_path: Path, free: int) -> None:
    """With 8 MiB free the pod opens its databases, and cannot write down a new epoch."""
    volume = tmp_path / "state" / STORE / "pod-0" / "data"
    with SmallDisk(volume, 160 * MIB) as disk:
        qss = Qss(tmp_path, REAL_POD, prefix=disk.command)
        file = manifest(replicas=2, standbys=1, partitions=2, rebalance=QUICK)
        rows = {f"k{number}": number for number in range(20)}
        try:
            assert qss.up(file).code == 0
            write_values(qss.status()["status"]["endpoints"]["query"], STORE, rows)
            assert qss.down().code == 0
            disk.fill(leave_bytes=free)
            qss.up(file)
            wait_until(lambda: actives(qss) == {Ordinal(1)})
            url = qss.status()["status"]["endpoints"]["query"]
            assert rows_of(url) == rows
            rows |= {"k1": 100, "new": 1}
            write_values(url, STORE, {"k1": 100, "new": 1})
            assert rows_of(url) == rows
            disk.make_room()
            wait_until(lambda: is_redundant(qss))
            assert rows_of(url) == rows
        finally:
            assert qss.down().code == 0
