"""Which route needs what."""

import pytest

from qss_store.access.rights import (
    NO_ROUTE,
    Identities,
    Requirement,
    Right,
    forbidden,
    requirement_of,
)

PODS, OPERATOR = "system:serviceaccount:shop:words", "system:serviceaccount:qss:operator"
OURS = Identities(store="words", namespace="shop", pods=PODS, operator=OPERATOR)


@pytest.mark.parametrize(
    "route",
    [
        "/state/stores/{store}",
        "/state/stores/{store}/{key}",
        "/state/count/{store}",
        "/state/get/{store}",
        "/state/query/{store}",
        "/state/what-is-to-come",
    ],
)
def test_reads_need_the_right_to_query(route: str) -> None:
    assert requirement_of(route, OURS) == Requirement(rights=(Right.QUERY,))


def test_writes_need_the_right_to_write() -> None:
    route = "/changelog/stores/{store}/writers/{writer}"
    assert requirement_of(route, OURS) == Requirement(rights=(Right.WRITE,))


@pytest.mark.parametrize("route", ["/transactions/prepare", "/replication/append", "/whatever"])
def test_what_is_between_pods_and_what_is_not_known_is_for_pods_only(route: str) -> None:
    assert requirement_of(route, OURS) == Requirement(accounts=frozenset({PODS}))


def test_control_is_for_the_operator_and_the_pods() -> None:
    assert requirement_of("/control/assignment", OURS).accounts == {PODS, OPERATOR}
    alone = Identities(store="words", namespace="shop", pods=PODS)
    assert requirement_of("/control/assignment", alone).accounts == {PODS}
    assert requirement_of("/control/assignment", OURS).rights == ()


@pytest.mark.parametrize(
    "route", ["/state/instances/{store}", "/state/stores", "/state/lags/{store}"]
)
def test_discovery_is_for_readers_writers_and_the_operator(route: str) -> None:
    needed = requirement_of(route, OURS)
    assert needed.rights == (Right.QUERY, Right.WRITE)
    assert needed.accounts == {PODS, OPERATOR}


@pytest.mark.parametrize("route", [NO_ROUTE, "/openapi.json"])
def test_what_tells_nothing_is_for_every_account(route: str) -> None:
    assert requirement_of(route, OURS) == Requirement(is_for_all=True)


def test_a_refusal_says_which_right_on_which_store_the_account_lacks() -> None:
    error = forbidden("system:serviceaccount:shop:app", Requirement(rights=(Right.QUERY,)), OURS)
    assert error.message == (
        "system:serviceaccount:shop:app may not get queryablestatestores/query of words: "
        "a Role in namespace shop has to allow it (API group queryablestate.dev)"
    )
    control = forbidden("a", requirement_of("/control/assignment", OURS), OURS)
    assert control.message == f"a may not do this to words: only {OPERATOR} and {PODS} may"
