"""The fast path takes only requests that it understands completely."""

import pytest

from qss_store.http.query import scans
from qss_store.http.query.fast_path import Head, parse_head


@pytest.mark.parametrize(
    ("lines", "head"),
    [
        (b"Host: a", Head(None, 0, "a")),
        (b"host: a\r\nACCEPT: */*\r\nConnection: Keep-Alive", Head(None, 0, "a")),
        (b"Host: a\r\nAccept: application/json\r\nUser-Agent: x y", Head(None, 0, "a")),
        (
            b"Host: a\r\nAuthorization: Bearer abc\r\nContent-Length: 12",
            Head("Bearer abc", 12, "a"),
        ),
    ],
)
def test_plain_headers_are_understood(lines: bytes, head: Head) -> None:
    assert parse_head(lines + b"\r\n\r\n") == head


@pytest.mark.parametrize(
    "lines",
    [
        b"Accept: */*",
        b"Host: ",
        b"Host: a\r\nHost: b",
        b"Host: a\r\nHost : b",
        b"Host: a\r\n folded",
        b"Host: a\nAccept: */*",
        b"Host: a\r\nAccept: text/html",
        b"Host: a\r\nAccept: application/json;q=0.5",
        b"Host: a\r\nConnection: close",
        b"Host: a\r\nConnection: upgrade",
        b"Host: a\r\nIf-None-Match: *",
        b"Host: a\r\nTransfer-Encoding: chunked",
        b"Host: a\r\nContent-Encoding: gzip",
        b"Host: a\r\nExpect: 100-continue",
        b"Host: a\r\nX-Any: 1",
        b"Host: a\r\nContent-Length: 1\r\nContent-Length: 1",
        b"Host: a\r\nContent-Length: -1",
        b"Host: a\r\nContent-Length: +1",
        b"Host: a\r\nContent-Length: 1234567",
        b"Host: a\r\nUser-Agent: \xc3\xa9",
        b"Host: a\r\nUser-Agent: a\x00b",
        b"",
    ],
)
def test_anything_else_is_left_to_the_ordinary_way(lines: bytes) -> None:
    assert parse_head(lines + b"\r\n\r\n") is None


def test_a_block_that_does_not_end_is_none() -> None:
    assert parse_head(b"Host: a\r\n") is None


def test_what_is_asked_once_only_is_not_remembered() -> None:
    allowed = ("cursor", "limit")
    before = scans.remembered.cache_info().currsize
    for number in range(50):
        asked, _ = scans.asked(f"cursor={'x' * 300}{number}", allowed)
        assert asked["cursor"].endswith(str(number))
    assert scans.remembered.cache_info().currsize == before
    first = scans.asked("limit=17", allowed)
    assert scans.asked("limit=17", allowed) is first
