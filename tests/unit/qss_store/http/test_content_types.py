"""The content type of an answer."""

import pytest
from aiohttp.test_utils import make_mocked_request

from qss_core.errors import NotAcceptableError
from qss_store.http.content_types import JSON, NDJSON, negotiate

OFFERED = (JSON, NDJSON)


def chosen(accept: str | None) -> str:
    headers = {} if accept is None else {"Accept": accept}
    return negotiate(make_mocked_request("GET", "/", headers=headers), OFFERED)


@pytest.mark.parametrize(
    ("accept", "media"),
    [
        (None, JSON),
        ("*/*", JSON),
        ("application/*", JSON),
        (NDJSON, NDJSON),
        (f"{JSON};q=0.5, {NDJSON}", NDJSON),
        (f"{NDJSON};q=0.5, {JSON}", JSON),
        (f"{NDJSON}, */*;q=0.1", NDJSON),
        (f"{JSON};q=0, */*", NDJSON),
        ("text/html, application/xhtml+xml, */*;q=0.8", JSON),
        (NDJSON.upper(), NDJSON),
        (f"{JSON}; charset=utf-8", JSON),
    ],
)
def test_the_best_of_what_is_offered(accept: str | None, media: str) -> None:
    assert chosen(accept) == media


@pytest.mark.parametrize(
    "accept", ["text/html", "application/vnd.apache.arrow.stream", "*/*;q=0", "", "nonsense"]
)
def test_none_of_it_is_refused_with_what_there_is(accept: str) -> None:
    with pytest.raises(NotAcceptableError, match=NDJSON):
        chosen(accept)
