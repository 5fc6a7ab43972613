"""The operator and the API server fail while a store with standbys changes, and it settles.

A client writes and reads meanwhile. No request of it may fail, and no answer may go back.
"""

from functools import partial

import pytest

from e2e.clients import PodClient
from e2e.disturbances import without_its_operator, without_the_api_server
from e2e.environment import Images
from e2e.kubectl import Cluster
from e2e.releases import RELEASE, install, leader
from e2e.standby_store import STORE, Used, has_its_rows, make_store
from e2e.stores import is_redundant, small_store, uids_of
from qss_testing.waiting import wait_until

pytestmark = pytest.mark.usefixtures("own_bed")

_QSS = f"qss/{STORE}"
# An active that was to hand over takes entries again after two seconds without an operator.
_WITHOUT_OPERATOR_S = 4.0
_AWAY_S = 120.0


@pytest.fixture(scope="module", autouse=True)
def store(here: Cluster, client: PodClient) -> None:
    """The store that the tests disturb."""
    make_store(here, client)


def scaled(here: Cluster, replicas: int) -> None:
    here.kubectl("scale", _QSS, f"--replicas={replicas}")


def has_pods(here: Cluster, number: int) -> bool:
    """Whether the store has so many pods, and each leads or stands by."""
    held = {
        pod for one in here.get("qss", STORE)["status"]["assignment"] for pod in one["replicas"]
    }
    return len(uids_of(here, STORE)) == number and held == {*range(number)}


@pytest.mark.parametrize("moment", [0, 2, 5])
def test_a_scale_goes_on_where_a_killed_operator_left_it(
    here: Cluster, own_operator: Cluster, used: Used, moment: int
) -> None:
    pods = 5 if has_pods(here, 4) else 4
    with used(_WITHOUT_OPERATOR_S):
        act = partial(scaled, here, pods)
        without_its_operator(act, moment, own_operator, here, STORE)
        wait_until(partial(has_pods, here, pods), 240.0)


def test_a_restart_of_all_pods_goes_on_where_a_killed_operator_left_it(
    here: Cluster, own_operator: Cluster, used: Used
) -> None:
    before = {*uids_of(here, STORE).values()}
    stamp = "queryablestate.dev/restarted-at=2026-11-26T12:00:00Z"
    act = partial(here.kubectl, "annotate", "--overwrite", _QSS, stamp)
    with used(_WITHOUT_OPERATOR_S):
        without_its_operator(act, 3, own_operator, here, STORE)
        wait_until(lambda: not before & {*uids_of(here, STORE).values()}, 240.0)


def test_both_operators_lose_the_lease_while_the_store_is_scaled(
    here: Cluster, own_operator: Cluster, used: Used
) -> None:
    lease = f"lease/{RELEASE}-queryable-state"
    pods = 5 if has_pods(here, 4) else 4
    with used(_WITHOUT_OPERATOR_S):
        scaled(here, pods)
        for _ in range(2):
            first = leader(own_operator)
            own_operator.patch(lease, {"spec": {"holderIdentity": f"not-{first}"}})
            wait_until(lambda: leader(own_operator), 60.0)
        wait_until(partial(has_pods, here, pods), 240.0)


def test_a_status_that_is_wiped_while_the_store_is_scaled_is_made_again(
    here: Cluster, used: Used
) -> None:
    pods = 5 if has_pods(here, 4) else 4
    with used(_WITHOUT_OPERATOR_S):
        scaled(here, pods)
        here.until(_QSS, lambda found: found["status"]["moving"] != "0/0")
        here.patch(_QSS, {"status": None}, "--subresource=status")
        here.until(_QSS, lambda found: bool((found.get("status") or {}).get("assignment")))
        wait_until(partial(has_pods, here, pods), 240.0)


def test_an_upgrade_and_a_rollback_of_the_chart_while_the_store_is_scaled(
    here: Cluster, own_operator: Cluster, images: Images, used: Used
) -> None:
    pods = 5 if has_pods(here, 4) else 4
    watched = {"watch.namespaces": f"{{{here.namespace}}}"}
    with used(_WITHOUT_OPERATOR_S):
        scaled(here, pods)
        install(own_operator, images, values={**watched, "operator.logLevel": "debug"})
        own_operator.helm("rollback", RELEASE, "--wait", "--timeout=120s")
        wait_until(partial(has_pods, here, pods), 240.0)


def test_a_horizontal_pod_autoscaler_scales_a_store(here: Cluster, used: Used) -> None:
    """It reads the number of pods and their selector, and asks for at least its minimum."""
    pods = 5 if has_pods(here, 4) else 4
    scaled(here, pods)
    wait_until(partial(has_pods, here, pods), 240.0)
    target = {"apiVersion": "queryablestate.dev/v1alpha1", "kind": "QueryableStateStore"}
    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": STORE},
        "spec": {
            "scaleTargetRef": {**target, "name": STORE},
            "minReplicas": pods + 1,
            "maxReplicas": pods + 2,
        },
    }
    with used(_WITHOUT_OPERATOR_S):
        here.apply(scaler)
        wait_until(partial(has_pods, here, pods + 1), 240.0)
        told = here.get("hpa", STORE)["status"]
        here.kubectl("delete", "hpa", STORE)
    assert told["currentReplicas"] in {pods, pods + 1}
    assert {one["type"]: one["status"] for one in told["conditions"]}["AbleToScale"] == "True"
    scaled(here, 4)
    wait_until(partial(has_pods, here, 4), 240.0)


def test_two_minutes_without_the_api_server_cost_nothing(
    here: Cluster, own_operator: Cluster, used: Used
) -> None:
    assert leader(own_operator)
    with used(_WITHOUT_OPERATOR_S):
        without_the_api_server(here, _AWAY_S)


def test_a_store_that_is_deleted_while_it_moves_is_made_again_from_its_volumes(
    here: Cluster, client: PodClient
) -> None:
    old = here.get("qss", STORE)["metadata"]["uid"]
    scaled(here, 5 if has_pods(here, 4) else 4)
    here.until(_QSS, lambda found: found["status"]["moving"] != "0/0")
    here.kubectl("delete", _QSS, "--timeout=120s", timeout_s=130)
    wait_until(lambda: not uids_of(here, STORE), 120.0)
    again = small_store(STORE, replicas=4, partitions=12, standbys=1)
    again["metadata"]["annotations"] = {"queryablestate.dev/adopt-volumes": old}
    here.apply(again)
    here.until(_QSS, is_redundant)
    assert has_its_rows(client)
