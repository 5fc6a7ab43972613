"""The requests of a client, as values."""

import json
import math
from typing import Any

import msgspec
import pytest

from qss_client.reads.keys import PATH_KEY_BYTES_MAX
from qss_client.reads.requests import (
    DEFAULTS,
    LINE_KEYS_MAX,
    ReadOptions,
    count_request,
    get_request,
    many_request,
    page_request,
    query_request,
)
from qss_client.reads.scans import scan_keys
from qss_core.errors import MalformedRequestError, NullKeyError, PartitionDoesNotExistError
from qss_core.model import Partitioner
from qss_core.partitioning import partition_of
from qss_core.positions import Position, encode_token
from qss_testing.pods.stores import make_definition

WORDS = make_definition(12)
EVERYTHING = ReadOptions(
    position_bound=Position.of({"in": {0: 1}}), require_active=True, partition=3, timeout_s=0.5
)


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("a", "a"),
        ("a/b", "a%2Fb"),
        ("%2F", "%252F"),
        ("a b", "a%20b"),
        ("ä", "%C3%A4"),
        ("\x00", "%00"),
    ],
)
def test_a_key_stands_in_the_path_with_escapes(key: str, path: str) -> None:
    request = get_request(WORDS, key, DEFAULTS)
    assert (request.method, request.target) == ("GET", f"/state/stores/words/{path}")
    assert request.partition == partition_of(key.encode(), 12)
    assert request.data is None


@pytest.mark.parametrize("key", ["", ".", "..", "x" * (PATH_KEY_BYTES_MAX + 1)])
def test_a_key_that_cannot_stand_in_a_path_is_sent_in_a_body(key: str) -> None:
    request = get_request(WORDS, key, DEFAULTS)
    assert (request.method, request.target) == ("POST", "/state/get/words")
    assert request.data is not None
    assert json.loads(request.data) == {"keys": [key]}
    assert request.partition == partition_of(key.encode(), 12)


@pytest.mark.parametrize(
    ("serde", "key", "path"),
    [("int64", -5, "-5"), ("bytes", "AP8=", "AP8"), ("json", {"a": 1}, "%7B%22a%22%3A1%7D")],
)
def test_a_key_of_any_type_has_a_text(serde: str, key: Any, path: str) -> None:
    definition = make_definition(12, key_serde=serde)
    assert get_request(definition, key, DEFAULTS).target == f"/state/stores/words/{path}"


def test_a_key_of_another_type_is_refused() -> None:
    with pytest.raises(MalformedRequestError):
        get_request(WORDS, 5, DEFAULTS)


def test_options_are_parameters() -> None:
    explicit = make_definition(12, partitioner=Partitioner.EXPLICIT)
    request = get_request(explicit, "a", EVERYTHING)
    bound = encode_token(Position.of({"in": {0: 1}}))
    assert request.parameters == {
        "positionBound": bound,
        "requireActive": "true",
        "partition": "3",
        "timeout": "0.5",
    }
    assert (request.partition, request.timeout_s) == (3, 0.5)
    many = many_request(explicit, ["a"], EVERYTHING)
    assert many.body == {
        "keys": ["a"],
        "positionBound": bound,
        "requireActive": True,
        "partition": 3,
        "timeout": 0.5,
    }


@pytest.mark.parametrize(
    ("timeout_s", "text"), [(0.000_001, "0.000001"), (3.0, "3"), (1e6, "1000000"), (7, "7")]
)
def test_a_time_has_no_exponent(timeout_s: float, text: str) -> None:
    assert count_request(WORDS, ReadOptions(timeout_s=timeout_s)).parameters == {"timeout": text}


def test_a_chosen_partition_has_to_be_named() -> None:
    with pytest.raises(MalformedRequestError, match="name the key's partition"):
        get_request(make_definition(12, partitioner=Partitioner.EXPLICIT), "a", DEFAULTS)


@pytest.mark.parametrize("partition", [-1, 12])
def test_a_partition_that_the_store_does_not_have_is_refused(partition: int) -> None:
    explicit = make_definition(12, partitioner=Partitioner.EXPLICIT)
    with pytest.raises(PartitionDoesNotExistError, match=r"has the partitions 0\.\.11"):
        get_request(explicit, "a", ReadOptions(partition=partition))


def page(**options: Any) -> Any:
    given = {"order": "ASCENDING", "limit": 10, "cursor": None, "partitions": None, **options}
    bounds = given.pop("bounds", {"from": "a", "to": None})
    return page_request(WORDS, bounds, options=DEFAULTS, **given)


def test_a_page_says_what_it_is_of() -> None:
    assert page().parameters == {"from": "a", "order": "ASCENDING", "limit": "10"}
    assert page(cursor="c", partitions=[0, 3]).parameters == {
        "from": "a",
        "order": "ASCENDING",
        "limit": "10",
        "cursor": "c",
        "partitions": "0,3",
    }
    assert page(bounds={"prefix": ""}).parameters["prefix"] == ""


@pytest.mark.parametrize(
    ("partitions", "asked"), [(None, None), ([3], 3), ([0, 3], None), ([99], None)]
)
def test_one_partition_is_asked_of_its_active(partitions: Any, asked: int | None) -> None:
    assert page(partitions=partitions).partition == asked
    query = query_request(WORDS, {"type": "RangeQuery"}, partitions, DEFAULTS, execution_info=False)
    assert query.partition == asked


def test_how_stale_an_answer_may_be_is_asked_for() -> None:
    options = ReadOptions(max_staleness_s=0.0)
    assert get_request(WORDS, "a", options).parameters["maxStaleness"] == "0"
    query = query_request(WORDS, {"type": "RangeQuery"}, None, options, execution_info=False)
    assert query.body["maxStaleness"] == 0


def test_no_partition_is_no_question() -> None:
    with pytest.raises(MalformedRequestError, match="name one at least"):
        page(partitions=[])


def test_a_query_is_kafkas_with_its_options() -> None:
    request = query_request(
        WORDS, {"type": "KeyQuery", "key": "a"}, [0], EVERYTHING, execution_info=True
    )
    assert request.body["query"] == {"type": "KeyQuery", "key": "a"}
    assert request.body["partitions"] == [0]
    assert request.body["executionInfo"] is True
    assert request.body["requireActive"] is True


@pytest.mark.parametrize(
    "bound",
    [
        Position.of({"in": {0: 7}}),
        {"in": {"0": 7}},
        {"in": {0: 7}},
        encode_token(Position.of({"in": {0: 7}})),
    ],
)
def test_a_bound_is_given_as_a_position_as_json_or_as_its_token(bound: Any) -> None:
    assert ReadOptions(position_bound=bound).bound == Position.of({"in": {0: 7}})


@pytest.mark.parametrize("bound", ["no token", {"in": 7}, {"in": {"x": 7}}, 7])
def test_a_bound_that_is_no_position_is_refused(bound: Any) -> None:
    with pytest.raises(MalformedRequestError, match="positionBound"):
        _ = ReadOptions(position_bound=bound).bound


def test_no_prefix_is_not_everything() -> None:
    with pytest.raises(NullKeyError, match="prefix is None"):
        scan_keys({"prefix": None}, "ASCENDING", None, DEFAULTS)


@pytest.mark.parametrize(
    ("kept", "query"),
    [
        ("Plain", "RangeQuery"),
        ("Timestamped", "TimestampedRangeQuery"),
        ("TimestampedWithHeaders", "TimestampedRangeWithHeadersQuery"),
    ],
)
def test_keys_that_are_too_long_for_a_line_are_asked_for_in_a_body(kept: str, query: str) -> None:
    definition = msgspec.structs.replace(WORDS, format=kept)
    long = "x" * LINE_KEYS_MAX
    given: dict[str, Any] = {"order": "DESCENDING", "limit": 5, "cursor": "c", "partitions": [2]}
    asked = page_request(definition, {"from": long, "to": None}, options=DEFAULTS, **given)
    assert (asked.method, asked.partition) == ("POST", 2)
    assert asked.body == {
        "query": {"type": query, "lower": long, "upper": None, "order": "DESCENDING"},
        "limit": 5,
        "cursor": "c",
        "partitions": [2],
    }
    assert page_request(definition, {"from": "x"}, options=DEFAULTS, **given).method == "GET"
    given["cursor"] = long
    prefix = page_request(definition, {"prefix": "x"}, options=DEFAULTS, **given)
    assert prefix.body["query"] == {"type": "PrefixQuery", "prefix": "x", "order": "DESCENDING"}


@pytest.mark.parametrize("seconds", [math.nan, math.inf])
@pytest.mark.parametrize("name", ["timeout_s", "max_staleness_s"])
def test_a_time_that_is_no_number_is_refused(name: str, seconds: float) -> None:
    with pytest.raises(MalformedRequestError, match=name):
        ReadOptions(**{name: seconds})  # type: ignore[arg-type]


def test_a_partition_that_is_no_number_is_refused() -> None:
    with pytest.raises(MalformedRequestError, match="whole numbers, not '0'"):
        page(partitions=["0"])
