"""The mirror's manifest as it is: a Deployment beside the flights' job copies the job's state."""

from collections.abc import Iterator

import pytest

from e2e import flights
from e2e.clients import start_client
from e2e.disturbances import kill
from e2e.environment import Images
from e2e.kubectl import Cluster
from e2e.namespaces import fresh_namespace
from e2e.releases import install
from qss_spark.demo.expected import expected_aircraft_stats
from qss_testing.waiting import wait_until

STORE = "aircraft-state"
MIRROR = ("pods", "--selector", "app=aircraft-mirror")
WAIT_S = 300.0


@pytest.fixture(scope="module")
def system(cluster: Cluster, images: Images) -> Iterator[Cluster]:
    """The operator of all namespaces."""
    with fresh_namespace(cluster, "qss-e2e-mirror-system") as made:
        install(made, images)
        yield made
        made.helm("uninstall", "qss", "--wait")


@pytest.mark.usefixtures("system")
def test_the_state_of_a_job_is_copied_beside_it_also_where_the_mirror_is_killed(
    namespace: Cluster, images: Images
) -> None:
    flights.start(namespace, images)
    namespace.apply(*flights.documents(namespace, flights.MIRROR, images))
    namespace.wait(f"qss/{STORE}", "condition=Ready")
    flights.wait_for_batches(namespace, 2)
    first = wait_until(lambda: flights.running_pods(namespace, MIRROR), WAIT_S)[0]
    wait_until(lambda: "batch " in namespace.kubectl("logs", first), WAIT_S)
    kill(namespace, first)
    flights.wait_for_end(namespace)
    client = start_client(namespace, images.store)
    expected = {
        tail: (one["flights"], one["distance"]) for tail, one in expected_aircraft_stats().items()
    }

    def copied() -> bool:
        held = client.read(STORE)
        return {key: (one["count"], one["sum"]) for key, one in held.items()} == expected

    wait_until(copied, WAIT_S)
    assert first not in flights.running_pods(namespace, MIRROR)
