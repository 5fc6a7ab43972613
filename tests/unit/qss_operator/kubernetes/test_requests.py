"""Paths and content types of requests, and which requests may be repeated."""

import pytest

from qss_operator.kubernetes.api.kinds import (
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    STORES,
)
from qss_operator.kubernetes.api.requests import (
    Selectors,
    apply_request,
    create_request,
    delete_request,
    list_request,
    merge_patch_request,
    replace_request,
)
from qss_testing.kinds import CONFIG_MAPS


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (PODS.path("shop"), "/api/v1/namespaces/shop/pods"),
        (PODS.path(None), "/api/v1/pods"),
        (NODES.path(None, "n"), "/api/v1/nodes/n"),
        (
            POD_DISRUPTION_BUDGETS.path("shop", "words"),
            "/apis/policy/v1/namespaces/shop/poddisruptionbudgets/words",
        ),
        (
            STORES.path("shop", "words", "status"),
            "/apis/queryablestate.dev/v1alpha1/namespaces/shop/queryablestatestores/words/status",
        ),
        (PODS.path("a/b", "?"), "/api/v1/namespaces/a%2Fb/pods/%3F"),
    ],
)
def test_an_objects_path(path: str, expected: str) -> None:
    assert path == expected


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_never_leads_to_another_path(name: str) -> None:
    with pytest.raises(AssertionError):
        PODS.path("shop", name)


def test_a_selector_is_encoded() -> None:
    request = list_request(PODS, "shop", Selectors(labels="app=a,tier in (x)"), 10, "c=")
    assert request.url_path.endswith(
        "/pods?limit=10&labelSelector=app%3Da%2Ctier+in+%28x%29&continue=c%3D"
    )


def test_a_creation_goes_to_the_collection() -> None:
    request = create_request(CONFIG_MAPS, "shop", {"metadata": {"name": "a"}})
    assert request.url_path.startswith("/api/v1/namespaces/shop/configmaps?fieldManager=")


def test_only_what_does_no_harm_twice_is_repeatable() -> None:
    version = {"metadata": {"name": "a", "resourceVersion": "7"}}
    nameless = {"metadata": {"generateName": "a-"}}
    unconditional = {"propagation": None, "grace_period_s": None}
    by_uid = delete_request(PODS, "s", "a", uid="u", resource_version=None, **unconditional)
    by_name = delete_request(PODS, "s", "a", uid=None, resource_version=None, **unconditional)
    assert by_uid.is_repeatable
    assert not by_name.is_repeatable
    assert apply_request(PODS, "s", {"metadata": {"name": "a"}}).is_repeatable
    assert merge_patch_request(PODS, "s", "a", version, None).is_repeatable
    assert not merge_patch_request(PODS, "s", "a", {"spec": {}}, None).is_repeatable
    assert replace_request(PODS, "s", "a", version, None).is_repeatable
    assert create_request(PODS, "s", version).is_repeatable
    assert not create_request(PODS, "s", nameless).is_repeatable


def test_a_replacement_without_its_version_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        replace_request(PODS, "s", "a", {"metadata": {"name": "a"}}, None)


def test_an_apply_to_a_version_without_its_uid_is_a_bug() -> None:
    body = {"metadata": {"name": "a", "resourceVersion": "7"}}
    with pytest.raises(AssertionError):
        apply_request(PODS, "s", body)
