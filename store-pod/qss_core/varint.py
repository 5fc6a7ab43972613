"""Kafka's signed varint: zig-zag, then groups of seven bits, the lowest first, at most 32 bits.

Same as `ByteUtils.writeVarint`: 5 is `0a`, -1 is `01`.
"""

from qss_core.errors import MalformedBytesError, MalformedRequestError

_INT32_MIN = -(2**31)
_INT32_MAX = 2**31 - 1
_LAST_SHIFT = 28
# The fifth byte has the last four of 32 bits.
_LAST_BYTE_MAX = 0x0F


def encode_varint(value: int) -> bytes:
    """Encodes a number as one to five bytes. Raises MalformedRequestError beyond 32 bits."""
    if not _INT32_MIN <= value <= _INT32_MAX:
        raise MalformedRequestError(f"{value} does not fit a 32-bit varint")
    rest = (value << 1) ^ (value >> 31)
    if rest < 0x80:
        return bytes((rest,))
    groups = bytearray()
    while rest >= 0x80:
        groups.append(rest & 0x7F | 0x80)
        rest >>= 7
    groups.append(rest)
    return bytes(groups)


def decode_varint(data: bytes, offset: int = 0) -> tuple[int, int]:
    """The value at `offset`, and the offset of the byte after it.

    Raises MalformedBytesError if the bytes end too early, are more than the value needs (Kafka
    never writes such bytes, but reads them), or have more than 32 bits.
    """
    rest = 0
    shift = 0
    end = len(data)
    while offset < end:
        byte = data[offset]
        offset += 1
        if byte < 0x80:
            if byte == 0 and shift:
                raise MalformedBytesError("a varint is longer than its value needs")
            if shift == _LAST_SHIFT and byte > _LAST_BYTE_MAX:
                raise MalformedBytesError("a varint holds more than 32 bits")
            rest |= byte << shift
            return (rest >> 1) ^ -(rest & 1), offset
        if shift == _LAST_SHIFT:
            raise MalformedBytesError("a varint is longer than five bytes")
        rest |= (byte & 0x7F) << shift
        shift += 7
    raise MalformedBytesError("the bytes end inside a varint")
