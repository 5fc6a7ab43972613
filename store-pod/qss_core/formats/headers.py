"""The headers block of a row (KIP-1271): Kafka's record headers as bytes.

Layout: count, then for each header its key length, key in UTF-8, value length (-1: null), value.
All numbers are zig-zag varints. No headers are no bytes at all, not a count of 0.
"""

from qss_core.errors import MalformedBytesError
from qss_core.text import encode_text
from qss_core.varint import decode_varint, encode_varint

Header = tuple[str, bytes | None]
Headers = tuple[Header, ...]

_NULL_LENGTH = -1
_NULL_LENGTH_BYTES = encode_varint(_NULL_LENGTH)
# A header takes two bytes at least: an empty key and a null value.
_HEADER_BYTES_MIN = 2


def encode_headers(headers: Headers) -> bytes:
    """Encodes headers in order, with duplicates; a lone surrogate in a key becomes '?'."""
    if not headers:
        return b""
    parts = [encode_varint(len(headers))]
    for key, value in headers:
        key_bytes = encode_text(key)
        parts += (encode_varint(len(key_bytes)), key_bytes)
        if value is None:
            parts.append(_NULL_LENGTH_BYTES)
        else:
            parts += (encode_varint(len(value)), value)
    return b"".join(parts)


def decode_headers(block: bytes) -> Headers:
    """Decodes a whole block. Raises MalformedBytesError for bytes that Kafka never writes."""
    if not block:
        return ()
    count, offset = decode_varint(block)
    if not 0 < count <= len(block) // _HEADER_BYTES_MIN:
        raise MalformedBytesError(f"a headers block of {len(block)} bytes counts {count} headers")
    headers: list[Header] = []
    for _ in range(count):
        key_bytes, offset = _decode_sized(block, offset)
        if key_bytes is None:
            raise MalformedBytesError("a header has no key")
        value, offset = _decode_sized(block, offset)
        headers.append((_decode_key(key_bytes), value))
    if offset != len(block):
        raise MalformedBytesError(f"{len(block) - offset} bytes follow the last header")
    return tuple(headers)


def _decode_sized(block: bytes, offset: int) -> tuple[bytes | None, int]:
    size, start = decode_varint(block, offset)
    if size == _NULL_LENGTH:
        return None, start
    end = start + size
    if size < 0 or end > len(block):
        raise MalformedBytesError(f"a header part of {size} bytes does not fit its block")
    return block[start:end], end


def _decode_key(key_bytes: bytes) -> str:
    try:
        return key_bytes.decode()
    except UnicodeDecodeError as error:
        raise MalformedBytesError("a header key is not UTF-8") from error
