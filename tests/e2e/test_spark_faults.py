"""The flights' job writes the same rows when a pod of Spark is killed."""

from collections.abc import Iterator

import pytest

from e2e import flights
from e2e.clients import start_client
from e2e.disturbances import kill
from e2e.environment import Images
from e2e.kubectl import Cluster
from e2e.namespaces import fresh_namespace
from e2e.releases import install


@pytest.fixture(scope="module")
def system(cluster: Cluster, images: Images) -> Iterator[Cluster]:
    """The operator of all namespaces."""
    with fresh_namespace(cluster, "qss-e2e-spark-system") as made:
        install(made, images)
        yield made
        made.helm("uninstall", "qss", "--wait")


@pytest.mark.parametrize("victim", ["executor", "driver"])
def test_a_killed_pod_of_spark_does_not_change_the_result(
    victim: str, system: Cluster, cluster: Cluster, images: Images
) -> None:
    with fresh_namespace(cluster, f"qss-e2e-spark-{victim}") as here:
        flights.start(here, images)
        client = start_client(here, images.store)
        flights.wait_for_batches(here, 2)
        before = flights.running_pods(here, flights.DRIVERS)
        executors = flights.running_pods(here, flights.EXECUTORS)
        kill(here, before[0] if victim == "driver" else executors[0])
        flights.compare(here, client)
        ran = {one["metadata"]["name"] for one in here.items(*flights.DRIVERS)}
        if victim == "driver":
            assert not ran & set(before), "another driver has finished the job"
        else:
            assert ran == set(before), "the same driver has finished the job"
