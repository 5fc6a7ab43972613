"""A client's reading of a store's answers."""

import json
from typing import Any

import pytest

from qss_client.reads.responses import (
    PartitionResult,
    Row,
    StateQueryResult,
    failure_of,
    merged,
    read_query_answer,
    row_of,
)
from qss_core.errors import NotUpToBoundError, StoreError, TooLargeError, UnreachableError
from qss_core.positions import Position, encode_token

GONE = UnreachableError("no replica answered")


def result(*parts: Any) -> StateQueryResult:
    """A result with these results or failures of partitions."""
    return StateQueryResult(
        {
            number: PartitionResult(number, failure=one)
            if isinstance(one, StoreError)
            else PartitionResult(number, one)
            for number, one in enumerate(parts)
        },
        Position.empty(),
    )


def test_of_no_results_there_is_no_only_one() -> None:
    assert result().get_only_partition_result() is None
    assert result(None).get_only_partition_result() is None
    assert result(None, None).get_only_partition_result() is None


def test_the_only_result_is_found_among_nulls() -> None:
    found = result(None, "x", None).get_only_partition_result()
    assert found is not None
    assert (found.partition, found.result) == (1, "x")


def test_an_empty_result_is_a_result() -> None:
    found = result([], None).get_only_partition_result()
    assert found is not None
    assert found.result == []


@pytest.mark.parametrize("parts", [(GONE,), (GONE, "x"), ("x", GONE), (None, GONE)])
def test_a_failure_is_raised_whatever_the_others_say(parts: Any) -> None:
    with pytest.raises(UnreachableError):
        result(*parts).get_only_partition_result()


def test_two_results_are_refused() -> None:
    with pytest.raises(ValueError, match="2 partitions have a result"):
        result("x", None, "y").get_only_partition_result()


# --- Partitions merged


def test_rows_come_partition_by_partition_or_sorted() -> None:
    found = result([{"key": "b"}, {"key": "d"}], None, [{"key": "a"}, {"key": "c"}])
    assert [row["key"] for row in found.rows()] == ["b", "d", "a", "c"]
    assert [row["key"] for row in found.rows(lambda row: row["key"])] == ["a", "b", "c", "d"]
    backward = found.rows(lambda row: row["key"], reverse=True)
    assert [row["key"] for row in backward] == ["d", "c", "b", "a"]


def test_what_there_is_is_counted() -> None:
    assert result(3, 0, 4).count() == 7
    assert result([{"key": "a"}], [], [{"key": "b"}, {"key": "c"}]).count() == 3
    assert result(None, {"key": "a"}).count() == 1
    assert result().count() == 0


def test_the_first_row_is_of_the_lowest_partition() -> None:
    assert result(None, "x", "y").first() == "x"
    assert result([], [{"key": "a"}, {"key": "b"}]).first() == {"key": "a"}
    assert result(None, None).first() is None
    assert result([]).first() is None


def test_a_result_that_is_no_list_is_a_row() -> None:
    assert result(None, {"key": "a"}).rows() == [{"key": "a"}]
    assert result(3, 0).rows() == [3, 0]
    assert result({"o1": 2}, {"o2": 1}).rows() == [{"o1": 2}, {"o2": 1}]


def test_a_part_is_taken_for_the_whole_only_where_it_was_asked_for() -> None:
    body = b'{"partitionResults":{"0":{"result":[{"key":"a"}],"end":false}},"cursor":"c"}'
    part = read_query_answer(body)
    assert (part.cursor, part.partition_results[0].end) == ("c", False)
    for merge in (part.first, part.rows, part.count, part.get_only_partition_result):
        with pytest.raises(TooLargeError, match="give limit"):
            merge()
    asked = read_query_answer(body, limit=1)
    assert (asked.count(), asked.rows(), asked.cursor) == (1, [{"key": "a"}], "c")


def test_an_answer_that_was_cut_short_is_no_answer_to_what_was_asked() -> None:
    """An answer is cut at its limit of bytes, or at its deadline."""
    body = b'{"partitionResults":{"0":{"result":[{"key":"a"}],"end":false}},"cursor":"c"}'
    cut = read_query_answer(body, limit=2)
    assert (cut.is_cut, cut.row_count) == (True, 1)
    for merge in (cut.first, cut.rows, cut.count, cut.get_only_partition_result):
        with pytest.raises(TooLargeError, match="with 1 of the 2 rows"):
            merge()
    assert cut.rows(whole=False) == [{"key": "a"}]
    assert read_query_answer(body).rows(whole=False) == [{"key": "a"}]
    end = read_query_answer(body.replace(b',"cursor":"c"', b""), limit=2)
    assert (end.is_cut, end.count()) == (False, 1)


def test_a_failure_is_no_part_of_a_merged_answer() -> None:
    found = result("x", GONE)
    assert found.failures == {1: GONE}
    for merge in (found.first, found.rows, found.count):
        with pytest.raises(UnreachableError):
            merge()
    assert result("x").failures == {}


def test_a_query_answer_is_read_whole() -> None:
    position = Position.of({"in": {0: 3}})
    body = {
        "partitionResults": {
            "0": {
                "result": None,
                "position": position.to_json(),
                "sequence": 4,
                "servedBy": "words-0",
                "role": "active",
                "epoch": 2,
                "streamTime": -1,
                "executionInfo": ["looked"],
            },
            "1": {"failure": {"reason": "UNREACHABLE", "message": "gone", "retryAfterMs": 7}},
        },
        "position": position.to_json(),
    }
    answer = read_query_answer(json.dumps(body).encode())
    first, second = answer.partition_results[0], answer.partition_results[1]
    assert answer.position == first.position == position
    assert (first.sequence, first.served_by, first.role, first.epoch, first.stream_time) == (
        4,
        "words-0",
        "active",
        2,
        -1,
    )
    assert first.execution_info == ("looked",)
    assert first.is_success
    assert first.get_result() is None
    assert isinstance(second.failure, UnreachableError)
    assert second.failure.details == {"retry_after_ms": 7}
    assert second.position is None


def test_a_failure_may_be_a_problem_document() -> None:
    problem = {"title": "t", "status": 503, "code": "NOT_UP_TO_BOUND", "detail": "behind"}
    assert isinstance(failure_of(problem), NotUpToBoundError)


def test_a_failure_of_an_unknown_kind_keeps_its_name() -> None:
    failure = failure_of({"reason": "BRAND_NEW", "message": "well"})
    assert "BRAND_NEW: well" in str(failure)


def test_a_row_has_what_its_format_keeps() -> None:
    assert row_of({"key": 1, "value": None}) == Row(1, None)
    headers = [{"key": "h", "value": "AA=="}, {"key": "h", "value": None}]
    assert row_of({"key": 1, "value": 2, "timestamp": 3, "headers": headers}) == Row(
        1, 2, 3, (("h", "AA=="), ("h", None))
    )
    assert row_of({"key": 1, "value": 2, "headers": []}).headers == ()


def test_positions_are_merged_by_the_largest_offsets() -> None:
    assert merged([]) == Position.empty()
    first, second = Position.of({"a": {0: 3}}), Position.of({"a": {0: 1, 1: 2}})
    assert encode_token(merged([first, second])) == encode_token(Position.of({"a": {0: 3, 1: 2}}))
