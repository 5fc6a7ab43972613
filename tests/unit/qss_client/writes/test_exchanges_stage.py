"""The exchange that stages slices, step by step; the test gives the answers."""

from collections.abc import Mapping
from urllib.parse import urlsplit

import pytest

from qss_client.chunks.chunk import Slice
from qss_client.http.answer import HttpAnswer
from qss_client.writes import exchanges
from qss_client.writes.routes import LATE_AFTER_S
from qss_client.writes.steps import PodRequest
from qss_core.errors import (
    BatchClosedError,
    DiskFullError,
    NotActiveError,
    StoreError,
    WrongStoreError,
)
from qss_core.wire.messages import SliceResult, StageAnswer, problem_of
from qss_testing.writers.exchange_steps import (
    AT_ONCE,
    BUSY,
    LOST,
    REFRESH,
    after,
    answer,
    asked,
    metadata,
    paused,
    pod_and_path,
    query,
    result,
    rows,
    run_of,
    staged,
)


def taken(*slices: Slice, refused: Mapping[int, StoreError] | None = None) -> HttpAnswer:
    """A pod's answer to a chunk: the logged slices, and failures by partition."""
    results = {str(one.partition): SliceResult(checksum=one.checksum) for one in slices}
    for partition, error in (refused or {}).items():
        results[str(partition)] = SliceResult(failure=problem_of(error))
    return answer(StageAnswer(partitions=results))


def chunk_of(request: PodRequest) -> tuple[str, str, bytes | None]:
    """Pod, chunk id and rows of a stage request."""
    parts = urlsplit(request.url)
    return parts.netloc, parts.path.rpartition("/chunks/")[2], request.body


def test_nothing_to_stage_asks_nobody() -> None:
    with pytest.raises(StopIteration) as end:
        next(exchanges.stage(run_of(metadata(0)), 7, "t", []))
    assert end.value.value == []


def test_slices_of_one_pod_travel_together() -> None:
    exchange = exchanges.stage(run_of(metadata(1, 2, 1)), 7, "t", [rows(0), rows(1), rows(2)])
    first = asked(next(exchange))
    assert first.method == "PUT"
    path = "changelog/stores/words/writers/job/1000001/batches/7/chunks/1000001.t.0"
    assert pod_and_path(first) == f"pod-1/{path}"
    assert query(first) == {"storeId": "id-1", "generation": "3"}
    assert (first.timeout_s, first.tell_after_s) == (LATE_AFTER_S, 10.0)
    assert first.body == b"[rows of 0][rows of 2]"
    second = asked(after(exchange, taken(rows(0), rows(2))))
    assert chunk_of(second) == ("pod-2", "1000001.t.1", b"[rows of 1]")
    assert result(exchange, taken(rows(1))) == [
        staged(0, "1000001.t.0"),
        staged(2, "1000001.t.0"),
        staged(1, "1000001.t.1"),
    ]


def test_a_chunk_has_one_slice_of_a_partition_and_at_most_the_bytes_that_a_pod_takes() -> None:
    run = run_of(metadata(1, 1, 1), chunk_bytes_max=2 * len(rows(0).data))
    slices = [rows(0), rows(0, "b"), rows(1), rows(2)]
    exchange = exchanges.stage(run, 7, "t", slices)
    first = asked(next(exchange))
    second = asked(after(exchange, taken(rows(0))))
    third = asked(after(exchange, taken(rows(0, "b"))))
    assert [chunk_of(one)[1:] for one in (first, second, third)] == [
        ("1000001.t.0", b"[rows of 0]"),
        ("1000001.t.1", b"[rows of 0b]"),
        ("1000001.t.2", b"[rows of 1][rows of 2]"),
    ]


def test_slices_that_were_not_taken_go_again_with_the_same_id() -> None:
    exchange = exchanges.stage(run_of(metadata(1, 1, 1)), 7, "t", [rows(0), rows(1), rows(2)])
    next(exchange)
    full = {0: DiskFullError("full"), 2: DiskFullError("full")}
    assert paused(after(exchange, taken(rows(1), refused=full))).message == "full"
    again = asked(after(exchange, AT_ONCE))
    assert chunk_of(again) == ("pod-1", "1000001.t.0", b"[rows of 0][rows of 2]")
    assert result(exchange, taken(rows(0), rows(2))) == [
        staged(1, "1000001.t.0"),
        staged(0, "1000001.t.0"),
        staged(2, "1000001.t.0"),
    ]


def test_slices_go_again_to_their_actives_of_the_refreshed_routes() -> None:
    exchange = exchanges.stage(run_of(metadata(1, 1, 1)), 7, "t", [rows(0), rows(1), rows(2)])
    next(exchange)
    moved = {0: NotActiveError("moved"), 1: NotActiveError("moved")}
    after(exchange, taken(rows(2), refused=moved))
    after(exchange, REFRESH)
    one = asked(after(exchange, answer(metadata(0, 2, 1))))
    assert chunk_of(one) == ("pod-0", "1000001.t.0", b"[rows of 0]")
    other = asked(after(exchange, LOST))  # The exchange asks the other pod before it pauses.
    assert chunk_of(other) == ("pod-2", "1000001.t.0", b"[rows of 1]")
    assert paused(after(exchange, taken(rows(1)))) is LOST
    assert after(exchange, AT_ONCE) == one


def test_the_routes_of_one_chunk_are_those_of_the_next() -> None:
    slices = [rows(0), rows(0, "b")]
    exchange = exchanges.stage(run_of(metadata(1, 1, 1)), 7, "t", slices)
    next(exchange)
    after(exchange, LOST)
    after(exchange, REFRESH)
    after(exchange, answer(metadata(2, 1, 1)))
    second = asked(after(exchange, taken(rows(0))))
    assert chunk_of(second) == ("pod-2", "1000001.t.1", b"[rows of 0b]")


def test_of_several_failures_the_one_that_no_repeat_mends_counts() -> None:
    exchange = exchanges.stage(run_of(metadata(1, 1, 1)), 7, "t", [rows(0), rows(1), rows(2)])
    next(exchange)
    failures = {0: BUSY, 1: BatchClosedError("applied"), 2: BUSY}
    failure = paused(after(exchange, taken(refused=failures)))
    with pytest.raises(BatchClosedError, match="applied"):
        exchange.throw(failure)


def test_a_pod_that_logged_other_bytes_than_were_sent_stops_the_writer() -> None:
    exchange = exchanges.stage(run_of(metadata(1)), 7, "t", [rows(0)])
    next(exchange)
    with pytest.raises(AssertionError, match="other bytes"):
        exchange.send(taken(rows(0, "b")))


def test_a_store_that_was_made_again_takes_no_slice() -> None:
    exchange = exchanges.stage(run_of(metadata(1)), 7, "t", [rows(0)])
    next(exchange)
    after(exchange, WrongStoreError("another store id"))
    after(exchange, REFRESH)
    with pytest.raises(WrongStoreError):
        exchange.send(answer(metadata(1, store_id="id-2")))
