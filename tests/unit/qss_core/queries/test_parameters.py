"""The parameters of a GET, and the options of a body."""

import pytest

from qss_core.errors import (
    MalformedBytesError,
    MalformedRequestError,
    StoreError,
    UnknownParameterError,
)
from qss_core.model import Isolation
from qss_core.positions import Position, encode_token
from qss_core.queries.parameters import (
    PARAMETERS,
    POINT_PARAMETERS,
    SCAN_PARAMETERS,
    ReadOptions,
    Scope,
    limit_of,
    options_of,
    options_of_body,
    order_of,
    parse_parameters,
)
from qss_core.queries.requests import BatchRequest
from qss_core.queries.types import Order


def options(query_string: str) -> ReadOptions:
    return options_of(parse_parameters(query_string, tuple(PARAMETERS)))


def test_nothing_asked_is_the_defaults() -> None:
    assert options("") == ReadOptions()
    assert ReadOptions().timeout_s == 10


def test_every_common_parameter_is_read() -> None:
    bound = Position.of({"in": {0: 5}})
    text = (
        f"positionBound={encode_token(bound)}&requireActive=true&isolation=READ_UNCOMMITTED"
        "&timeout=2.5&maxStaleness=0&executionInfo=true&scope=local&partitions=3,0,3&partition=7"
    )
    assert options(text) == ReadOptions(
        bound=bound,
        require_active=True,
        isolation=Isolation.READ_UNCOMMITTED,
        timeout_s=2.5,
        max_staleness_s=0,
        execution_info=True,
        scope=Scope.LOCAL,
        partitions=(0, 3),  # type: ignore[arg-type]
        partition=7,  # type: ignore[arg-type]
    )


def test_a_text_is_decoded_once() -> None:
    found = parse_parameters("from=a%2Bb+c%252F%26&to=", SCAN_PARAMETERS)
    assert found == {"from": "a+b c%2F&", "to": ""}


def test_an_unknown_parameter_is_refused_by_name_with_what_there_is() -> None:
    with pytest.raises(UnknownParameterError, match="'positionbound'") as refused:
        parse_parameters("positionbound=x", POINT_PARAMETERS)
    assert "positionBound" in refused.value.message
    assert refused.value.details["parameter"] == "positionbound"


@pytest.mark.parametrize("text", ["limit=1", "cursor=x", "partitions=0"])
def test_a_parameter_of_another_request_is_unknown(text: str) -> None:
    with pytest.raises(UnknownParameterError):
        parse_parameters(text, POINT_PARAMETERS)


@pytest.mark.parametrize(
    "text",
    [
        "timeout=0",
        "timeout=60.1",
        "timeout=-1",
        "timeout=1e1",
        "timeout=nan",
        "timeout=",
        "maxStaleness=-1",
        "maxStaleness=inf",
        "requireActive=1",
        "requireActive=True",
        "executionInfo=",
        "isolation=read_committed",
        "scope=here",
        "partitions=",
        "partitions=1,",
        "partitions=-1",
        "partitions=a",
        "partitions=" + ",".join(map(str, range(513))),
        "partition=1.5",
        "partition=%C2%B2",
        "from=a&from=b",
        "from=%ff",
    ],
)
def test_a_malformed_parameter_is_refused(text: str) -> None:
    with pytest.raises(MalformedRequestError):
        options(text)


@pytest.mark.parametrize("token", ["!", "AAAA", "AQ", ""])
def test_a_malformed_position_is_refused(token: str) -> None:
    with pytest.raises(MalformedRequestError, match="positionBound"):
        options(f"positionBound={token}")


def test_order_and_limit() -> None:
    assert order_of({}) is Order.ANY
    assert order_of({"order": "DESCENDING"}) is Order.DESCENDING
    assert limit_of({}) is None
    assert limit_of({"limit": "0"}) == 0
    for wrong in ({"order": "down"}, {"order": ""}):
        with pytest.raises(MalformedRequestError):
            order_of(wrong)
    for wrong in ({"limit": "-1"}, {"limit": "1e3"}, {"limit": "9999999999"}):
        with pytest.raises(MalformedRequestError):
            limit_of(wrong)


@pytest.mark.parametrize(
    "members",
    [
        {"timeout": 0.0},
        {"timeout": 61.0},
        {"max_staleness": -0.1},
        {"max_staleness": float("inf")},
        {"position_bound": 5},
        {"position_bound": "!"},
        {"position_bound": {"in": {"0": -1}}},
        {"partition": -1},
    ],
)
def test_a_body_is_refused_for_the_same(members: dict[str, object]) -> None:
    with pytest.raises(StoreError) as refused:
        options_of_body(BatchRequest(keys=(), **members), Scope.ALL)  # type: ignore[arg-type]
    assert isinstance(refused.value, MalformedRequestError | MalformedBytesError)


def test_a_bound_in_a_body_is_a_token_or_an_object() -> None:
    bound = Position.of({"in": {0: 5}})
    for given in (encode_token(bound), {"in": {"0": 5}}):
        read = options_of_body(BatchRequest(keys=(), position_bound=given), Scope.LOCAL)
        assert (read.bound, read.scope) == (bound, Scope.LOCAL)
