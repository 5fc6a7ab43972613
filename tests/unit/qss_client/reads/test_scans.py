"""A client's requests for windows and sessions, as values."""

from typing import Any

import pytest

from qss_client.reads.keys import PATH_KEY_BYTES_MAX
from qss_client.reads.requests import DEFAULTS, HttpRequest, ReadOptions
from qss_client.reads.responses import SessionRow, WindowRow, session_row_of, window_row_of
from qss_client.reads.scans import Timed, one_request, scan_sessions, scan_windows
from qss_core.errors import MalformedRequestError
from qss_core.model import Partitioner
from qss_core.partitioning import partition_of
from qss_testing.pods.stores import make_definition

WORDS = make_definition(12)


def windows(**members: Any) -> HttpRequest:
    times = members.pop("times", {"from": None, "to": None})
    timed = Timed(times=times, options=members.pop("options", DEFAULTS), **members)
    return scan_windows(timed).request(WORDS, 10, None)


def test_the_windows_of_a_key_are_asked_of_its_active() -> None:
    request = windows(key="a/b", times={"from": 0, "to": "1970-01-01T00:00:01Z"})
    assert request.path == "/state/windows/words/a%2Fb"
    assert request.parameters == {
        "from": "0",
        "to": "1970-01-01T00:00:01Z",
        "order": "ASCENDING",
        "limit": "10",
    }
    assert request.partition == partition_of(b"a/b", 12)


def test_windows_of_many_keys_are_asked_of_any_pod() -> None:
    request = windows(key_from="a", key_to="b", order="DESCENDING", order_by="time")
    assert request.path == "/state/windows/words"
    assert request.parameters == {
        "keyFrom": "a",
        "keyTo": "b",
        "order": "DESCENDING",
        "orderBy": "time",
        "limit": "10",
    }
    assert request.partition is None
    assert windows(partitions=[3]).partition == 3
    assert windows(partitions=[3, 1]).parameters["partitions"] == "3,1"


@pytest.mark.parametrize("key", ["", ".", "..", "x" * (PATH_KEY_BYTES_MAX + 1)])
def test_a_key_that_cannot_stand_in_a_path_is_a_range_of_one(key: str) -> None:
    request = windows(key=key)
    partition = partition_of(key.encode(), 12)
    assert request.path == "/state/windows/words"
    assert request.parameters["keyFrom"] == request.parameters["keyTo"] == key
    assert request.parameters["partitions"] == str(partition)
    assert request.partition == partition
    assert one_request("windows", WORDS, key, {"start": 1}, DEFAULTS) is None


def test_a_page_goes_on_by_its_cursor_and_has_its_options() -> None:
    timed = Timed(
        times={"endFrom": 5, "startTo": None},
        key="a",
        options=ReadOptions(require_active=True, timeout_s=2),
    )
    request = scan_sessions(timed).request(WORDS, 7, "next")
    assert request.path == "/state/sessions/words/a"
    assert request.parameters == {
        "endFrom": "5",
        "order": "ASCENDING",
        "limit": "7",
        "cursor": "next",
        "requireActive": "true",
        "timeout": "2",
    }
    assert request.timeout_s == 2


def test_one_row_is_asked_for_by_its_bounds() -> None:
    request = one_request("sessions", WORDS, "a", {"start": 1, "end": 2}, DEFAULTS)
    assert request is not None
    assert request.target == "/state/sessions/words/a?start=1&end=2"
    assert request.partition == partition_of(b"a", 12)


@pytest.mark.parametrize(
    "beside", [{"key_from": "a"}, {"key_to": "b"}, {"order_by": "time"}, {"partitions": []}]
)
def test_what_is_for_many_keys_is_refused_beside_one(beside: dict[str, Any]) -> None:
    with pytest.raises(MalformedRequestError, match="rows of one key"):
        windows(key="a", **beside)


def test_a_key_of_an_explicit_store_names_its_partition() -> None:
    explicit = make_definition(12, partitioner=Partitioner.EXPLICIT)
    for key, named in (("a", "partition"), ("", "partitions")):
        timed = Timed(times={}, key=key, options=ReadOptions(partition=7))
        request = scan_windows(timed).request(explicit, 10, None)
        assert (request.partition, request.parameters[named]) == (7, "7")
    with pytest.raises(MalformedRequestError, match="partition"):
        scan_windows(Timed(times={}, key="a", options=DEFAULTS)).request(explicit, 10, None)


def test_rows_are_read_as_they_were_written() -> None:
    headers = [{"key": "h", "value": None}]
    assert window_row_of(
        {"key": 1, "windowStart": 5, "windowEnd": 9, "sequence": 2, "value": None}
    ) == WindowRow(1, 5, 9, None, sequence=2)
    assert window_row_of(
        {"key": 1, "windowStart": 5, "windowEnd": 9, "value": 3, "timestamp": 4, "headers": headers}
    ) == WindowRow(1, 5, 9, 3, 4, (("h", None),))
    assert session_row_of(
        {"key": 1, "sessionStart": 5, "sessionEnd": 9, "value": 3, "headers": []}
    ) == SessionRow(1, 5, 9, 3, ())
