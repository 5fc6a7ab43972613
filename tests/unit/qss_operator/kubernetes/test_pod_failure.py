"""Why a pod does not run, with the text of the kubelet, the scheduler or the pod itself."""

from typing import Any

import pytest

from qss_operator.kubernetes.objects.pod_failure import silence_of, trouble_of, wait_of


def pod(phase: str = "Pending", **members: Any) -> dict[str, Any]:
    return {"status": {"phase": phase, **members}}


def container(state: dict[str, Any], last: dict[str, Any] | None = None, restarts: int = 0) -> Any:
    return [{"state": state, "lastState": last or {}, "restartCount": restarts}]


@pytest.mark.parametrize(
    "found",
    [
        None,
        pod("Running", containerStatuses=container({"running": {}})),
        pod(containerStatuses=container({"waiting": {"reason": "ContainerCreating"}})),
        pod(),
    ],
    ids=["no pod yet", "running", "on its way", "just made"],
)
def test_a_pod_that_runs_or_is_on_its_way_has_no_trouble(found: dict[str, Any] | None) -> None:
    assert trouble_of(found) is None
    assert wait_of(found, None) is None


def test_an_image_that_cannot_be_pulled_is_named_by_the_kubelet() -> None:
    waiting = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "nowhere/x:1"'}
    trouble = trouble_of(pod(containerStatuses=container({"waiting": waiting})))
    assert trouble == 'is in ImagePullBackOff: Back-off pulling image "nowhere/x:1"'


def test_a_crash_loop_says_how_the_pod_ended_and_its_last_line() -> None:
    last = {"exitCode": 1, "reason": "Error", "message": "Traceback\nValueError: no volume\n"}
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off 10s"}
    statuses = container({"waiting": waiting}, {"terminated": last}, restarts=4)
    trouble = trouble_of(pod("Running", containerStatuses=statuses))
    assert trouble == (
        "is in CrashLoopBackOff (4 restarts): Error with exit code 1; it said last: "
        "ValueError: no volume"
    )


def test_a_pod_without_a_node_says_what_the_scheduler_says() -> None:
    unscheduled = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/2 nodes are available: 2 Insufficient cpu.",
    }
    assert wait_of(pod(conditions=[unscheduled]), None) == (
        "has no node: 0/2 nodes are available: 2 Insufficient cpu."
    )


def test_a_pending_claim_is_told() -> None:
    claim = {"status": {"phase": "Pending"}}
    assert wait_of(pod(), claim) == "waits for its volume: the claim is Pending"


def test_what_is_told_is_bounded() -> None:
    waiting = {"reason": "CreateContainerError", "message": "x" * 10_000}
    trouble = trouble_of(pod(containerStatuses=container({"waiting": waiting})))
    assert trouble is not None
    assert len(trouble) < 400


def pod_on_n2(
    pod_ready: str, container_ready: bool, metadata: dict[str, Any] | None = None
) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": pod_ready}]
    containers = [{"ready": container_ready, "state": {"running": {}}}]
    found = pod("Running", conditions=conditions, containerStatuses=containers)
    return {"metadata": metadata or {}, "spec": {"nodeName": "n2"}, **found}


def test_a_node_without_power_is_named_without_reading_nodes() -> None:
    said = "was ready and does not answer; its node n2 does not report any more"
    assert silence_of(pod_on_n2("False", container_ready=True)) == said
    deleted = {"deletionTimestamp": "2026-11-21T12:00:00Z"}
    assert silence_of(pod_on_n2("False", container_ready=True, metadata=deleted)) == said


def test_a_pod_whose_node_was_not_missed_yet_is_named_with_its_node() -> None:
    said = "was ready and does not answer; its node is n2"
    assert silence_of(pod_on_n2("True", container_ready=True)) == said


def test_a_pod_that_starts_or_stops_may_be_silent() -> None:
    deleted = {"deletionTimestamp": "2026-11-21T12:00:00Z"}
    assert silence_of(pod_on_n2("False", container_ready=False)) is None
    assert silence_of(pod_on_n2("True", container_ready=True, metadata=deleted)) is None
    assert silence_of(pod()) is None
    assert silence_of(None) is None
