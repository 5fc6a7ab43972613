"""The right that each path requires, and the callers that have it."""

from typing import Any

import pytest

from qss_store.access.rights import (
    NO_ROUTE,
    Caller,
    Identities,
    Requirement,
    Right,
    forbidden,
    requirement_of,
)
from qss_store.http.internal.routes import INTERNAL_ROUTES
from qss_store.http.query.routes import CONSOLE_ROUTES, QUERY_ROUTES
from qss_store.http.routes import Route, callers_by_path

PODS, OPERATOR = "system:serviceaccount:shop:words", "system:serviceaccount:qss:operator"
OURS = Identities(store="words", namespace="shop", pods=PODS, operator=OPERATOR)
DISCOVERY = (
    *("/state/stores", "/state/instances", "/state/instance/", "/state/lags/"),
    *("/state/status/", "/state/batches/"),
)


@pytest.mark.parametrize(
    ("caller", "requirement"),
    [
        (Caller.ANYBODY, Requirement(is_for_all=True)),
        (Caller.BROWSER, None),
        (Caller.READER, Requirement(rights=(Right.QUERY,))),
        (Caller.WRITER, Requirement(rights=(Right.WRITE,))),
        (
            Caller.CLIENT,
            Requirement(accounts=frozenset({PODS, OPERATOR}), rights=(Right.QUERY, Right.WRITE)),
        ),
        (Caller.OPERATOR, Requirement(accounts=frozenset({PODS, OPERATOR}))),
        (Caller.POD, Requirement(accounts=frozenset({PODS}))),
    ],
)
def test_a_caller_needs_a_right_or_to_be_an_account(
    caller: Caller, requirement: Requirement | None
) -> None:
    assert requirement_of(caller, OURS) == requirement


def test_control_is_for_the_pods_where_there_is_no_operator() -> None:
    alone = Identities(store="words", namespace="shop", pods=PODS)
    assert requirement_of(Caller.OPERATOR, alone) == Requirement(accounts=frozenset({PODS}))


@pytest.mark.parametrize("route", [*QUERY_ROUTES, *INTERNAL_ROUTES], ids=lambda route: route.path)
def test_the_first_words_of_a_path_say_whom_it_is_for(route: Route[Any]) -> None:
    path, caller = route.path, route.caller
    if path == "/openapi.json":
        assert caller is Caller.ANYBODY
    elif path == "/state/stores" or path.startswith(DISCOVERY[1:]):
        assert caller is Caller.CLIENT
    else:
        first = path.split("/")[1]
        expected = {
            "state": Caller.READER,
            "changelog": Caller.WRITER,
            "control": Caller.OPERATOR,
            "transactions": Caller.POD,
            "replication": Caller.POD,
        }
        assert caller is expected[first]


def test_only_the_files_of_the_console_need_no_token() -> None:
    callers = callers_by_path([*QUERY_ROUTES, *CONSOLE_ROUTES, *INTERNAL_ROUTES])
    open_paths = {path for path, caller in callers.items() if requirement_of(caller, OURS) is None}
    assert open_paths == {"/", "/console", "/console/{file}"}


def test_a_path_that_nothing_serves_tells_nothing_and_is_for_everybody() -> None:
    assert callers_by_path(INTERNAL_ROUTES)[NO_ROUTE] is Caller.ANYBODY


def test_a_refusal_says_which_right_on_which_store_the_account_lacks() -> None:
    error = forbidden("system:serviceaccount:shop:app", Requirement(rights=(Right.QUERY,)), OURS)
    assert error.message == (
        "system:serviceaccount:shop:app may not get queryablestatestores/query of words: "
        "a Role in namespace shop has to allow it (API group queryablestate.dev)"
    )
    of_operator = requirement_of(Caller.OPERATOR, OURS)
    assert of_operator is not None
    control = forbidden("a", of_operator, OURS)
    assert control.message == f"a may not do this to words: only {OPERATOR} and {PODS} may"
