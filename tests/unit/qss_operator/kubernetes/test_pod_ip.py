"""The address of a pod, which the operator asks for a report while the process runs."""

from typing import Any

import pytest

from qss_operator.kubernetes.objects.pod_ip import ip_of

_IP = "10.1.2.3"


def pod_of(*, state: str = "running", ready: str = "True", is_ending: bool = False) -> Any:
    ending = {"deletionTimestamp": "2026-11-26T12:00:00Z"} if is_ending else {}
    return {
        "metadata": {"name": "words-0", **ending},
        "status": {
            "podIP": _IP,
            "conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": [{"name": "store", "state": {state: {}}}],
        },
    }


def test_a_running_pod_has_an_address_also_before_it_is_ready() -> None:
    assert ip_of(pod_of(ready="False"), comes_back=True) == _IP


def test_a_pod_that_is_ended_is_reached_while_it_serves() -> None:
    assert ip_of(pod_of(is_ending=True), comes_back=True) == _IP


@pytest.mark.parametrize(
    ("pod", "comes_back"),
    [
        (None, True),
        (pod_of(state="waiting"), True),
        # The node controller says so of pods on a node without power.
        (pod_of(is_ending=True, ready="False"), True),
        # Nothing is handed over by a pod of a deleted store, or of one with fewer pods.
        (pod_of(is_ending=True), False),
    ],
)
def test_no_other_pod_has_one(pod: Any, comes_back: bool) -> None:
    assert ip_of(pod, comes_back=comes_back) is None
