"""The shortest test of a release: helm install, a store, a Spark job, a failover, every key."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from e2e import flights
from e2e.clients import start_client
from e2e.disturbances import kill, signal_processes
from e2e.environment import Images, is_own_bed
from e2e.kubectl import Cluster, Object
from e2e.namespaces import fresh_namespace
from e2e.releases import install
from e2e.stores import pod_of_most_actives


@pytest.fixture(scope="module")
def system(cluster: Cluster, images: Images) -> Iterator[Cluster]:
    """The operator of all namespaces."""
    with fresh_namespace(cluster, "qss-e2e-smoke-system") as made:
        install(made, images)
        yield made
        made.helm("uninstall", "qss", "--wait")


def test_a_spark_job_fills_a_store_through_a_failover_and_every_key_is_right(
    system: Cluster, namespace: Cluster, images: Images
) -> None:
    system.helm("test", "qss", "--logs")
    flights.start(namespace, images)
    flights.wait_for_batches(namespace, 1)
    before = namespace.get("qss", flights.STORE)
    busiest = pod_of_most_actives(before)
    led = {number: epoch for number, epoch in epochs_of(before).items() if epoch[0] == busiest}
    with struck(namespace, f"{flights.STORE}-{busiest}"):
        namespace.until(
            f"qss/{flights.STORE}",
            lambda found: all(epochs_of(found)[number] != was for number, was in led.items()),
        )
        assert "completionTime" not in namespace.get(flights.JOB)["status"], "the job still runs"
    flights.compare(namespace, start_client(namespace, images.store))


@contextmanager
def struck(here: Cluster, pod: str) -> Iterator[None]:
    """The pod stands still in the block, or is killed where its processes are on other machines.

    A killed pod may be back before a standby has taken over: then it leads again, in a new epoch.
    """
    if not is_own_bed():
        kill(here, pod)
        yield
        return
    signal_processes(pod, signal.SIGSTOP)
    try:
        yield
    finally:
        signal_processes(pod, signal.SIGCONT)


def epochs_of(store: Object) -> dict[int, tuple[int, int]]:
    """The active and the epoch of each partition."""
    return {
        one["partition"]: (one["active"], one["epoch"]) for one in store["status"]["assignment"]
    }
