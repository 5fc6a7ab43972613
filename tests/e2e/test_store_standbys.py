"""A store with standbys on Kubernetes: it restarts, loses pods and a volume, and goes on."""

import pytest

from e2e.clients import PodClient
from e2e.kubectl import Cluster
from e2e.stores import has_another, is_redundant, pods_of, small_store, uids_of
from qss_testing.waiting import wait_until

ROWS = 300


@pytest.fixture(scope="module")
def words(here: Cluster, client: PodClient) -> str:
    """A store of three pods that names no number of standbys, with 300 rows."""
    store = small_store("words", replicas=3, partitions=6)
    del store["spec"]["standbys"]
    here.apply(store)
    here.until("qss/words", is_redundant)
    client.write("words", ROWS, 1)
    return "words"


def kept(client: PodClient, store: str) -> bool:
    """Whether the store has the rows of the fixture; the stories write other keys."""
    rows = {key: value for key, value in client.read(store).items() if key.startswith("key-")}
    return rows == {f"key-{one}": 1 for one in range(ROWS)}


def test_a_store_of_several_pods_has_one_standby_by_default(here: Cluster, words: str) -> None:
    store = here.get("qss", words)
    assert "standbys" not in store["spec"]
    assert store["status"]["standbys"] == 1
    header, row = here.kubectl("get", "qss", words, "--output", "wide").splitlines()
    assert "STANDBYS" in header
    assert row


def test_a_restart_of_all_pods_fails_no_read_and_no_write(
    here: Cluster, words: str, client: PodClient
) -> None:
    before = set(uids_of(here, words).values())
    with client.keeping(words) as story:
        stamp = "queryablestate.dev/restarted-at=2026-11-25T12:00:00Z"
        here.kubectl("annotate", f"qss/{words}", stamp)
        wait_until(lambda: not before & set(uids_of(here, words).values()), 240.0)
        here.until(f"qss/{words}", is_redundant)
    told = story.told()
    assert (told["wrong"], told["failures"]) == ([], [])
    assert told["writes"] > 10
    assert kept(client, words)


def test_a_deleted_pod_fails_no_read_and_no_write(
    here: Cluster, words: str, client: PodClient
) -> None:
    with client.keeping(words) as story:
        for name, uid in uids_of(here, words).items():
            here.kubectl("delete", "pod", name, "--grace-period=0", "--force")
            wait_until(lambda name=name, uid=uid: has_another(here, words, name, uid))  # type: ignore[misc]
            here.until(f"qss/{words}", is_redundant)
    told = story.told()
    assert (told["wrong"], told["failures"]) == ([], [])
    assert kept(client, words)


def test_a_lost_volume_is_made_anew_from_the_other_replicas(
    here: Cluster, words: str, client: PodClient
) -> None:
    claim = here.get("pvc", f"data-{words}-1")["metadata"]["uid"]
    with client.keeping(words) as story:
        # The operator ends the pod: its claim cannot go while the pod uses it.
        here.kubectl("delete", "pvc", f"data-{words}-1", "--wait=false")
        here.until(f"pvc/data-{words}-1", lambda found: found["metadata"]["uid"] != claim)
        here.until(f"qss/{words}", is_redundant)
    told = story.told()
    assert (told["wrong"], told["failures"]) == ([], [])
    assert len(pods_of(here, words)) == 3
    assert kept(client, words)
