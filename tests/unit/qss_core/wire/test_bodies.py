"""A body in which a member comes twice is refused, at any depth."""

import sys
from collections.abc import Iterator

import pytest

from qss_core.errors import MalformedRequestError
from qss_core.queries.requests import BatchRequest, QueryRequest
from qss_core.wire.bodies import decode_request


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ('{"query": {"type": "KeyQuery"}, "limit": 1, "limit": 2}', "limit"),
        ('{"query": {"type": "KeyQuery", "key": "a", "key" : "b"}}', "key"),
        ('{"query": {"type": "KeyQuery", "key": "a", "k\\u0065y": "b"}}', "key"),
        ('{"query": {"type": "KeyQuery", "key": {"n": {"m": 1, "m": 1}}}}', "m"),
    ],
)
def test_a_member_that_is_twice_in_an_object_is_refused(body: str, name: str) -> None:
    with pytest.raises(MalformedRequestError, match=f"the member '{name}' twice"):
        decode_request(body.encode(), QueryRequest)


@pytest.mark.parametrize(
    "body",
    [
        '{"keys": ["a", "a"]}',
        '{"keys": [{"n": 1}, {"n": 1}, {"m": {"n": 1}}]}',
        '{"keys": ["{\\"n\\": 1, \\"n\\": 1}", "x: y, x: z"]}',
        '{"keys": [1.5, 1e99], "timeout": 3}',
        '{"keys": [], "partition": 3}',
    ],
)
def test_what_is_in_several_objects_or_in_texts_is_taken(body: str) -> None:
    assert isinstance(decode_request(body.encode(), BatchRequest), BatchRequest)


@pytest.mark.parametrize(
    "body",
    [
        b'{"query": {"\x80ype": "KeyQuery", "key": {"\\u001f": null}}}',
        b'{"query": {"type": "KeyQuery", "key": "\\u0041\xff"}}',
    ],
)
def test_a_body_that_is_not_utf_8_is_refused(body: bytes) -> None:
    """The first one was a failure of the pod: the names of tags are not decoded."""
    with pytest.raises(MalformedRequestError, match=r"not UTF-8|not a valid QueryRequest"):
        decode_request(body, QueryRequest)


@pytest.fixture
def limit() -> Iterator[int]:
    """The interpreter's limit of nested calls, which other tests may have raised."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1500)
    yield 1500
    sys.setrecursionlimit(before)


def test_a_body_of_any_depth_is_taken_or_refused(limit: int) -> None:
    taken = 0
    for depth in range(limit - 600, limit + 50):
        key = "[" * depth + '"\\u0041"' + "]" * depth
        try:
            decode_request(
                f'{{"query": {{"type": "KeyQuery", "key": {key}}}}}'.encode(), QueryRequest
            )
            taken += 1
        except MalformedRequestError:
            continue
    assert 0 < taken < 650
