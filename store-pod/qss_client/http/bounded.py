"""Reads HTTP bodies that come in parts, up to a limit."""

from collections.abc import AsyncIterable, Callable


async def read_bounded(
    parts: AsyncIterable[bytes],
    bytes_max: int,
    too_large: Callable[[], Exception],
    took: Callable[[int], None] | None = None,
) -> bytes:
    """The whole body; raises the error of `too_large` if the body is larger than the limit.

    `took` is called with the bytes of each part, and may raise to refuse the part.
    """
    body, received = list[bytes](), 0
    async for part in parts:
        if took is not None:
            took(len(part))
        received += len(part)
        if received > bytes_max:
            raise too_large()
        body.append(part)
    return b"".join(body)
