"""A window or session whose key cannot be in a path: the client reads pages until it finds it."""

import json
from contextlib import nullcontext
from typing import Any

import pytest

from qss_client.http.answer import HttpAnswer
from qss_client.reads import calls
from qss_client.reads.requests import DEFAULTS
from qss_client.reads.responses import SessionRow, WindowRow
from qss_client.reads.session import SessionState
from qss_core.model import StoreType
from qss_testing.pods.stores import make_definition

STORE = "http://words:1"


def answer(rows: list[dict[str, Any]], cursor: str | None) -> HttpAnswer:
    document: dict[str, Any] = {"rows": rows, "partitions": {"0": {}}, "cursor": cursor}
    return HttpAnswer(200, {}, json.dumps(document).encode())


def read(exchange: calls.Exchange[Any], *pages: HttpAnswer) -> tuple[list[str | None], Any]:
    """The cursors of the requests, and the result."""
    requests = [next(exchange), *(exchange.send(page) for page in pages[:-1])]
    cursors = [request.parameters.get("cursor") for request in requests]
    with pytest.raises(StopIteration) as end:
        exchange.send(pages[-1])
    return cursors, end.value.value


@pytest.fixture
def state() -> SessionState:
    return SessionState((STORE,), "words", monotonic=True, turn=nullcontext())


def test_a_window_behind_a_page_without_rows_is_found(state: SessionState) -> None:
    windows = make_definition(type=StoreType.WINDOW)
    row = {"key": "", "windowStart": 0, "windowEnd": 5, "value": 1}
    asked = calls.window(state, windows, "", 0, DEFAULTS)
    assert read(asked, answer([], "c"), answer([row], None)) == (
        [None, "c"],
        WindowRow("", 0, 5, 1),
    )
    asked = calls.window(state, windows, "", 0, DEFAULTS)
    assert read(asked, answer([], "c"), answer([], None)) == ([None, "c"], None)


def test_a_session_behind_others_is_found(state: SessionState) -> None:
    sessions = make_definition(type=StoreType.SESSION)
    row = {"key": "", "sessionStart": 1, "sessionEnd": 5, "value": 1}
    other = {**row, "sessionStart": 0}
    asked = calls.session(state, sessions, "", (1, 5), DEFAULTS)
    found = read(asked, answer([other], "c"), answer([other, row], "d"))
    assert found == ([None, "c"], SessionRow("", 1, 5, 1))
