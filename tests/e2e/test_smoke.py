"""The shortest test of a release: helm install, a store, a Spark job, a failover, every key."""

from collections.abc import Iterator

import pytest

from e2e import flights
from e2e.clients import start_client
from e2e.disturbances import kill
from e2e.environment import Images
from e2e.kubectl import Cluster
from e2e.namespaces import fresh_namespace
from e2e.releases import install
from e2e.stores import actives_of, pod_of_most_actives


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
    store = f"qss/{flights.STORE}"
    system.helm("test", "qss", "--logs")
    flights.start(namespace, images)
    flights.wait_for_batches(namespace, 1)
    busiest = pod_of_most_actives(namespace.get("qss", flights.STORE))
    kill(namespace, f"{flights.STORE}-{busiest}")
    namespace.until(store, lambda found: busiest not in actives_of(found))
    assert "completionTime" not in namespace.get(flights.JOB)["status"], "the job still runs"
    flights.compare(namespace, start_client(namespace, images.store))
