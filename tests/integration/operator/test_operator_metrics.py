"""The operator counts failovers and moves of a store, and shows partitions that lack replicas."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from qss_core.model import StoreName
from qss_operator.kubernetes.api.kinds import STORES
from qss_operator.kubernetes.store_loop import StoreLoop
from qss_testing.fakes.simulated_pod import STORE
from qss_testing.fakes.toy_cluster import NAMESPACE, PODS_OF_STORE, ToyCluster, toy_cluster

_PREFIX = "qss_operator_"
_SHORT = "store_under_replicated_partitions"
_NONE = "store_partitions_without_in_sync_replica"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[ToyCluster]:
    async with toy_cluster(tmp_path) as made:
        yield made


def shown(cluster: ToyCluster, name: str, **labels: str) -> float | None:
    """The value of the store's metric; None where it is absent."""
    text = cluster.shared.metrics.render(lambda: None).decode()
    wanted = {"namespace": NAMESPACE, "store": STORE, **labels}
    return next(
        (
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == _PREFIX + name and sample.labels == wanted
        ),
        None,
    )


async def rounds(cluster: ToyCluster, number: int) -> None:
    for _ in range(number):
        await cluster.store_loop.run_round()
        cluster.forget_publish_pace()


def lost(cluster: ToyCluster, pod: str) -> None:
    """The pod's process does not answer; a minute passes."""
    cluster.disks[pod].is_running = False
    cluster.clock.ahead_s += 60.0


async def test_a_store_that_serves_shows_no_failover_no_move_and_no_shortage(
    cluster: ToyCluster,
) -> None:
    cluster.make_store(standbys=1)
    await cluster.settle()
    for name in ("failovers_total", "handovers_total", _SHORT, _NONE):
        assert shown(cluster, name) == 0, name
    for result in ("begun", "done", "cancelled"):
        assert shown(cluster, "moves_total", result=result) == 0
    for state in ("running", "waiting"):
        assert shown(cluster, "store_moves", state=state) == 0


async def test_a_failover_is_counted_by_partition_and_leaves_partitions_short(
    cluster: ToyCluster,
) -> None:
    cluster.make_store(standbys=1)
    await cluster.settle()
    await rounds(cluster, 1)
    led = cluster.get(STORES, STORE)["status"]["assignment"]
    lost(cluster, PODS_OF_STORE[0])
    await rounds(cluster, 5)
    assert shown(cluster, "failovers_total") == sum(one["active"] == 0 for one in led) == 2
    assert shown(cluster, "handovers_total") == 0
    assert shown(cluster, _SHORT) == sum(0 in one["inSync"] for one in led) == 4
    assert shown(cluster, _NONE) == 0


async def test_partitions_without_any_copy_are_shown(cluster: ToyCluster) -> None:
    cluster.make_store(standbys=1)
    await cluster.settle()
    for pod in PODS_OF_STORE:
        cluster.disks[pod].is_running = False
    await rounds(cluster, 1)
    assert (shown(cluster, _SHORT), shown(cluster, _NONE)) == (6, 6)


async def test_moves_that_a_person_takes_back_are_counted_as_cancelled(
    cluster: ToyCluster,
) -> None:
    """The learners of the new pod never catch up: a move that has begun goes on."""
    cluster.lagging.add(3)
    cluster.make_store(standbys=1)
    await cluster.settle()
    cluster.edit(STORES, STORE, {"spec": {"replicas": 4}})
    await cluster.settle()
    begun = shown(cluster, "moves_total", result="begun")
    assert begun
    assert shown(cluster, "store_moves", state="running") == begun
    assert shown(cluster, "store_moves", state="waiting")
    cluster.edit(STORES, STORE, {"spec": {"replicas": 3}})
    await cluster.settle()
    assert shown(cluster, "moves_total", result="cancelled") == begun
    assert shown(cluster, "moves_total", result="done") == 0
    await rounds(cluster, 1)
    assert shown(cluster, "store_moves", state="running") == 0


async def test_a_new_operator_counts_nothing_that_happened_before(cluster: ToyCluster) -> None:
    cluster.make_store(standbys=1)
    await cluster.settle()
    cluster.shared.metrics.forget(NAMESPACE, STORE)
    cluster.store_loop = StoreLoop(NAMESPACE, StoreName(STORE), cluster.shared)
    await cluster.settle()
    assert shown(cluster, "failovers_total") == 0
    assert shown(cluster, "moves_total", result="begun") == 0
