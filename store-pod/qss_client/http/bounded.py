"""The one reader of HTTP bodies that come in parts: never more of one than a limit says."""

from collections.abc import AsyncIterable, Callable


async def read_bounded(
    parts: AsyncIterable[bytes],
    bytes_max: int,
    too_large: Callable[[], Exception],
    took: Callable[[int], None] | None = None,
) -> bytes:
    """The whole body; raises what `too_large` makes where it is larger.

    `took` is told the bytes of each part; it may refuse them by an error.
    """
    body = bytearray()
    async for part in parts:
        if took is not None:
            took(len(part))
        body += part
        if len(body) > bytes_max:
            raise too_large()
    return bytes(body)
