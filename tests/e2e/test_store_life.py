"""A store under an operator that the chart installed: status, drift, restarts, scaling."""

import signal
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from e2e.clients import PodClient
from e2e.disturbances import signal_processes
from e2e.kubectl import Cluster, Object
from e2e.stores import is_ready, is_up, pods_of, says, small_store, uids_of
from qss_testing.waiting import wait_until

CHILDREN = (
    "statefulset/{0}",
    "service/{0}",
    "service/{0}-pods",
    "poddisruptionbudget/{0}",
    "networkpolicy/{0}",
)


@pytest.fixture(scope="module")
def words(here: Cluster, client: PodClient) -> str:
    """A store of three pods, ready and with 300 rows, which all tests of this module use."""
    here.apply(small_store("words", replicas=3, partitions=12))
    here.wait("qss/words", "condition=Ready")
    client.write("words", 300, 1)
    return "words"


def kept(client: PodClient, store: str, number: int = 1) -> bool:
    """Whether the store has the rows of the fixture; other tests write other keys."""
    rows = {key: value for key, value in client.read(store).items() if key.startswith("key-")}
    return rows == {f"key-{one}": number for one in range(300)}


def test_status_and_columns_have_the_values_that_a_client_needs(here: Cluster, words: str) -> None:
    row = here.kubectl("get", "qss", words).splitlines()[1].split()
    assert row[:8] == [words, "3/3", "12/12", "12/12", "0/0", "Serving", "Healthy", "KeyValue"]
    status = here.get("qss", words)["status"]
    assert [one["active"] for one in status["assignment"]] == [0, 1, 2] * 4
    assert {one["observedGeneration"] for one in status["conditions"]} == {1}
    assert here.kubectl("get", "pods", "--selector", status["selector"]).count("words-") == 3


@pytest.mark.parametrize("child", CHILDREN)
def test_a_child_that_was_deleted_is_made_again(
    child: str, here: Cluster, words: str, client: PodClient
) -> None:
    what = child.format(words)
    before = here.get(what)["metadata"]["uid"]
    here.kubectl("delete", what, "--wait=false", "--cascade=orphan")
    here.until(what, lambda found: found["metadata"]["uid"] != before)
    here.until(f"qss/{words}", is_ready)
    assert kept(client, words)


def test_an_account_that_was_deleted_is_made_again(
    here: Cluster, words: str, client: PodClient
) -> None:
    what = f"serviceaccount/{words}-pods"
    before, uids = here.get(what)["metadata"]["uid"], uids_of(here, words)
    here.kubectl("delete", what, "--wait=false")
    here.until(what, lambda found: found["metadata"]["uid"] != before)
    # Tokens end with their account: the operator restarts the pods one at a time.
    wait_until(
        lambda: len(set(uids_of(here, words).values()) - set(uids.values())) == 3, timeout_s=120.0
    )
    here.until(f"qss/{words}", is_ready)
    assert kept(client, words)


@pytest.mark.parametrize(
    ("child", "edit"),
    [
        ("statefulset/{0}", {"spec": {"replicas": 2}}),
        ("service/{0}", {"spec": {"selector": {"queryablestate.dev/store": "nobody"}}}),
        ("service/{0}-pods", {"spec": {"publishNotReadyAddresses": False}}),
        ("serviceaccount/{0}-pods", {"metadata": {"labels": {"queryablestate.dev/store": "x"}}}),
        ("poddisruptionbudget/{0}", {"spec": {"maxUnavailable": 3}}),
        ("networkpolicy/{0}", {"spec": {"ingress": []}}),
    ],
)
def test_a_child_that_was_edited_is_repaired(
    child: str, edit: Object, here: Cluster, words: str, client: PodClient
) -> None:
    what = child.format(words)
    wanted = here.get(what)
    here.patch(what, edit)

    def is_repaired(found: Object) -> bool:
        labels = found["metadata"]["labels"] == wanted["metadata"]["labels"]
        return labels and found.get("spec") == wanted.get("spec")

    here.until(what, is_repaired)
    here.until(f"qss/{words}", is_ready)
    assert kept(client, words)


@pytest.mark.usefixtures("own_bed")
def test_a_killed_process_restarts_with_its_rows(
    here: Cluster, words: str, client: PodClient
) -> None:
    before = restarts(here, words)
    signal_processes("words-1", signal.SIGKILL)
    wait_until(lambda: restarts(here, words) > before, 90.0)
    here.until(f"qss/{words}", is_ready)
    assert kept(client, words)


def restarts(here: Cluster, store: str) -> int:
    return sum(
        one["restartCount"]
        for pod in pods_of(here, store)
        for one in pod["status"].get("containerStatuses", ())
    )


def test_writes_and_reads_wait_for_a_pod_that_was_deleted(
    here: Cluster, words: str, client: PodClient
) -> None:
    with client.keeping(words) as story:
        uid = uids_of(here, words)["words-2"]
        here.kubectl("delete", "pod", "words-2", "--grace-period=0", "--force")
        wait_until(lambda: uids_of(here, words).get("words-2", uid) != uid)
        here.until(f"qss/{words}", is_ready)
    told = story.told()
    assert (told["wrong"], told["failures"]) == ([], [])
    assert told["writes"] > 10


def test_a_change_of_the_pods_restarts_them_one_at_a_time(
    here: Cluster, words: str, client: PodClient
) -> None:
    before = uids_of(here, words)
    away: list[int] = []

    def is_rolled() -> bool:
        pods = pods_of(here, words)
        away.append(3 - sum(is_up(pod) for pod in pods))
        return not set(before.values()) & {pod["metadata"]["uid"] for pod in pods}

    with client.keeping(words) as story:
        resources = {"requests": {"cpu": "25m", "memory": "96Mi"}}
        here.patch(f"qss/{words}", {"spec": {"pod": {"resources": resources}}})
        wait_until(is_rolled, 120.0)
        here.until(f"qss/{words}", is_ready)
    told = story.told()
    assert (told["wrong"], told["failures"]) == ([], [])
    assert max(away) == 1
    for pod in pods_of(here, words):
        assert pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "25m"


def test_a_wrong_image_stops_at_the_first_pod_and_is_reported(
    here: Cluster, words: str, client: PodClient
) -> None:
    wait_until(lambda: all(is_up(pod) for pod in pods_of(here, words)), 60.0)
    here.patch(f"qss/{words}", {"spec": {"pod": {"image": "queryable-state/store:nosuch"}}})
    try:
        here.until(f"qss/{words}", says("Ready", "PodsFailing", "words-", "nosuch"))
        assert sum(is_up(pod) for pod in pods_of(here, words)) == 2
    finally:
        here.patch(f"qss/{words}", {"spec": {"pod": {"image": None}}})
        here.until(f"qss/{words}", is_ready)
    assert kept(client, words)


def test_a_store_is_scaled_up_and_down_and_keeps_its_rows(
    here: Cluster, words: str, client: PodClient
) -> None:
    for replicas in (4, 3):
        here.kubectl("scale", f"qss/{words}", f"--replicas={replicas}")
        here.until(f"qss/{words}", is_balanced_over(replicas))
        wait_until(partial(has_pods, here, words, replicas), 90.0)
        assert kept(client, words)
    here.kubectl("delete", "pvc", f"data-{words}-3", "--timeout=60s", timeout_s=70)


def has_pods(here: Cluster, words: str, replicas: int) -> bool:
    """Whether that many pods exist, those that end among them."""
    return len(pods_of(here, words)) == replicas


def is_balanced_over(replicas: int) -> Callable[[Object], bool]:
    """Whether all partitions are served by that many pods, about equally, and nothing moves."""

    def holds(found: Object) -> bool:
        status = found.get("status", {})
        loads = Counter(one["active"] for one in status.get("assignment", ()))
        return (
            sorted(loads) == list(range(replicas))
            and max(loads.values()) - min(loads.values()) <= 1
            and (status.get("assigned"), status.get("moving")) == ("12/12", "0/0")
            and status.get("ready") == f"{replicas}/{replicas}"
        )

    return holds


def test_a_hibernated_store_wakes_up_with_its_rows(
    here: Cluster, words: str, client: PodClient
) -> None:
    rows = client.read(words)
    here.kubectl("scale", f"qss/{words}", "--replicas=0")
    here.until(f"qss/{words}", says("Ready", "Hibernated"))
    wait_until(lambda: not pods_of(here, words), 90.0)
    assert len(here.items("pvc", "--selector", f"queryablestate.dev/store={words}")) == 3
    here.kubectl("scale", f"qss/{words}", "--replicas=3")
    here.until(f"qss/{words}", is_ready)
    assert client.read(words) == rows


def test_a_status_that_was_wiped_is_made_anew_from_the_pods(
    here: Cluster, words: str, client: PodClient
) -> None:
    before = here.get("qss", words)["status"]
    rows = client.read(words)
    here.patch(f"qss/{words}", {"status": None}, "--subresource=status")
    found = here.until(f"qss/{words}", is_ready)
    assert found["status"]["storeId"] == before["storeId"]
    assert found["status"]["assignment"] == before["assignment"]
    assert client.read(words) == rows
