"""A store of three pods keeps its data while the operator or the API server is away."""

import signal
from collections.abc import Callable

import pytest

from e2e.clients import PodClient
from e2e.disturbances import kill, let_happen, signal_processes, without_the_api_server
from e2e.kubectl import Cluster
from e2e.releases import RELEASE, leader
from e2e.stores import is_ready, settled, small_store
from qss_testing.waiting import wait_until

pytestmark = pytest.mark.usefixtures("own_bed")

_AWAY_S = 120.0
_LOST_THE_LEASE = 3


@pytest.fixture
def words(namespace: Cluster, client: PodClient) -> str:
    """A store that serves and has 300 rows, also after an earlier test."""
    namespace.apply(small_store("words", replicas=3, partitions=12))
    namespace.until("qss/words", is_ready, 180.0)
    client.write("words", 300, 1)
    return "words"


def has_all(client: PodClient, store: str) -> bool:
    rows = {key: value for key, value in client.read(store).items() if key.startswith("key-")}
    return rows == {f"key-{one}": 1 for one in range(300)}


def scaled(here: Cluster, replicas: int) -> None:
    here.kubectl("scale", "qss/words", f"--replicas={replicas}")


def delete_a_child(here: Cluster) -> None:
    here.kubectl(
        "delete", "service/words-pods", "statefulset/words", "--cascade=orphan", "--wait=false"
    )


def delete_a_pod(here: Cluster) -> None:
    here.kubectl("delete", "pod", "words-1", "--wait=false")


def change_the_pods(here: Cluster) -> None:
    annotations = {"changed": here.get("qss", "words")["metadata"]["resourceVersion"]}
    here.patch("qss/words", {"spec": {"pod": {"annotations": annotations}}})


def hibernate_and_wake(here: Cluster) -> None:
    scaled(here, 0)
    scaled(here, 3)


def wipe_the_status(here: Cluster) -> None:
    here.patch("qss/words", {"status": None}, "--subresource=status")


@pytest.mark.parametrize("moment", [0, 1, 3])
@pytest.mark.parametrize(
    "act",
    [delete_a_child, delete_a_pod, change_the_pods, hibernate_and_wake, wipe_the_status],
)
def test_a_store_settles_after_its_operator_is_killed(
    act: Callable[[Cluster], None],
    moment: int,
    namespace: Cluster,
    own_operator: Cluster,
    words: str,
    client: PodClient,
) -> None:
    first = leader(own_operator)
    act(namespace)
    let_happen(namespace, words, moment)
    kill(own_operator, first)
    assert leader(own_operator) != first
    settled(namespace, words)
    assert has_all(client, words)


def take_the_lease(own_operator: Cluster, pod: str) -> None:
    lease = f"lease/{RELEASE}-queryable-state"
    own_operator.patch(lease, {"spec": {"holderIdentity": f"not-{pod}"}})


def sleep_over_the_lease(own_operator: Cluster, pod: str) -> None:
    signal_processes(pod, signal.SIGSTOP)
    try:
        wait_until(lambda: leader(own_operator) != pod, 60.0)
    finally:
        signal_processes(pod, signal.SIGCONT)


def endings(own_operator: Cluster, pod: str) -> tuple[int, int | None]:
    """The number of restarts of the operator's process, and its last exit code."""
    (container,) = own_operator.get("pod", pod)["status"]["containerStatuses"]
    return container["restartCount"], container["lastState"].get("terminated", {}).get("exitCode")


@pytest.mark.parametrize("lose", [take_the_lease, sleep_over_the_lease])
def test_an_operator_that_lost_its_lease_ends_at_once(
    lose: Callable[[Cluster, str], None],
    namespace: Cluster,
    own_operator: Cluster,
    words: str,
    client: PodClient,
) -> None:
    pod = leader(own_operator)
    times, _ = endings(own_operator, pod)
    lose(own_operator, pod)
    wait_until(lambda: endings(own_operator, pod) == (times + 1, _LOST_THE_LEASE), 60.0)
    leader(own_operator)
    delete_a_child(namespace)
    settled(namespace, words)
    assert has_all(client, words)


def test_reads_and_writes_continue_without_the_api_server(
    namespace: Cluster, own_operator: Cluster, words: str, client: PodClient
) -> None:
    with client.keeping(words) as story:
        without_the_api_server(namespace, _AWAY_S)
        namespace.until(f"qss/{words}", is_ready, 120.0)
    told = story.told()
    assert (told["wrong"], told["failures"]) == ([], [])
    assert told["slowest_s"] < 10.0
    namespace.kubectl("delete", "pod", "words-0", "--wait=false")
    namespace.until(f"qss/{words}", is_ready, 120.0)
    assert has_all(client, words)
