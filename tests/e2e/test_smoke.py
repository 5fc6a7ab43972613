"""The shortest test of a release: helm install, a store, a Spark job, every key compared."""

from collections.abc import Iterator

import pytest

from e2e import flights
from e2e.clients import start_client
from e2e.environment import Images
from e2e.kubectl import Cluster
from e2e.namespaces import fresh_namespace
from e2e.releases import install


@pytest.fixture(scope="module")
def system(cluster: Cluster, images: Images) -> Iterator[Cluster]:
    """The operator of all namespaces."""
    with fresh_namespace(cluster, "qss-e2e-smoke-system") as made:
        install(made, images)
        yield made
        made.helm("uninstall", "qss", "--wait")


def test_a_spark_job_fills_a_store_and_every_key_is_right(
    system: Cluster, namespace: Cluster, images: Images
) -> None:
    system.helm("test", "qss", "--logs")
    flights.start(namespace, images)
    flights.compare(namespace, start_client(namespace, images.store))
