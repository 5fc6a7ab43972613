"""A client reads a body up to its limit, and no further."""

from collections.abc import AsyncIterator

import pytest

from qss_client.http.bounded import read_bounded
from qss_core.errors import OverloadedError, TooLargeError


class Body:
    """The parts of a body, and the number of parts that were read."""

    def __init__(self, *parts: bytes) -> None:
        self.parts = parts
        self.given = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self.parts:
            self.given += 1
            yield part


def too_large() -> TooLargeError:
    return TooLargeError("too large", limit=4)


async def test_a_body_of_just_the_limit_is_whole() -> None:
    assert await read_bounded(Body(b"ab", b"cd"), 4, too_large) == b"abcd"
    assert await read_bounded(Body(), 4, too_large) == b""


async def test_a_larger_body_is_refused_and_not_read_to_its_end() -> None:
    body = Body(b"abc", b"de", b"f")
    with pytest.raises(TooLargeError):
        await read_bounded(body, 4, too_large)
    assert body.given == 2


async def test_each_part_is_counted_before_it_is_kept() -> None:
    taken: list[int] = []

    def take(size: int) -> None:
        taken.append(size)
        if len(taken) == 2:
            raise OverloadedError("no memory", limit="request_memory")

    body = Body(b"a", b"bb", b"c")
    with pytest.raises(OverloadedError):
        await read_bounded(body, 100, too_large, take)
    assert (taken, body.given) == ([1, 2], 2)
