"""Claims are patched first; a new StatefulSet is made after every claim was patched."""

from typing import Any

from qss_operator.kubernetes.objects.volumes import RESIZING, largest_volume, plan_growth
from qss_operator.planning.findings.wishes import RESIZE_REFUSED
from qss_operator.planning.model import ConditionStatus


def claim(requested: str, capacity: str | None = None, waits_for: str = "") -> dict[str, Any]:
    status: dict[str, Any] = {"conditions": [{"type": waits_for}] if waits_for else []}
    if capacity is not None:
        status["capacity"] = {"storage": capacity}
    return {"spec": {"resources": {"requests": {"storage": requested}}}, "status": status}


def test_volumes_of_the_right_size_are_left_alone() -> None:
    growth = plan_growth("1Gi", {"data-0": claim("1Gi", "1Gi")}, "1024Mi", None)
    assert (growth.claims, growth.remake_set, growth.finding) == ((), False, None)


def test_sizes_are_read_as_the_api_server_writes_them_back() -> None:
    growth = plan_growth("1.1Gi", {"data-0": claim("1181116006400m", "1.5e9")}, "1.1Gi", None)
    assert (growth.claims, growth.remake_set, growth.finding) == ((), False, None)
    assert plan_growth("1.2Gi", {"data-0": claim("1181116006400m")}, None, None).claims == (
        "data-0",
    )


def test_a_volume_that_is_larger_than_asked_for_is_fine() -> None:
    assert plan_growth("1Gi", {"data-0": claim("1Gi", "3Gi")}, "1Gi", None).finding is None


def test_every_small_claim_is_patched_and_the_set_is_kept_until_then() -> None:
    claims = {"data-0": claim("1Gi", "1Gi"), "data-1": claim("2Gi", "1Gi")}
    growth = plan_growth("2Gi", claims, "1Gi", None)
    assert growth.claims == ("data-0",)
    assert not growth.remake_set
    assert growth.finding is not None
    assert growth.finding[:2] == (ConditionStatus.TRUE, RESIZING)


def test_the_set_is_made_again_when_all_claims_ask_for_the_size() -> None:
    claims = {"data-0": claim("2Gi", "1Gi", waits_for="FileSystemResizePending")}
    growth = plan_growth("2Gi", claims, "1Gi", None)
    assert (growth.claims, growth.remake_set) == ((), True)
    assert growth.finding is not None
    assert "0 of 1 volumes have 2Gi" in growth.finding[2]
    assert "waiting for the storage driver to grow data-0" in growth.finding[2]
    assert "FileSystemResizePending" in growth.finding[2]


def test_a_refusal_is_told_and_the_set_is_kept() -> None:
    why = "data-0 cannot grow to 2Gi: the class does not allow it"
    growth = plan_growth("2Gi", {"data-0": claim("1Gi", "1Gi")}, "1Gi", why)
    assert not growth.remake_set
    assert growth.finding == (ConditionStatus.FALSE, RESIZE_REFUSED, why)


def test_a_claim_without_a_volume_yet_is_not_waited_for() -> None:
    assert plan_growth("1Gi", {"data-0": claim("1Gi")}, "1Gi", None).finding is None


def test_a_size_that_the_driver_did_not_reach_can_be_taken_back() -> None:
    stuck = {"data-words-0": claim("2Gi", "1Gi"), "data-words-1": claim("1Gi", "1Gi")}
    assert plan_growth("1Gi", stuck, "1Gi", None).claims == ("data-words-0",)
    assert largest_volume(stuck.values()) == "1Gi"
    larger = {"data-words-0": claim("2Gi", "2Gi")}
    assert plan_growth("1Gi", larger, "1Gi", None).claims == (), "what it has is not taken away"
