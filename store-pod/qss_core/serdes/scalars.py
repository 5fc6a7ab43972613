"""Kafka's serdes of bytes, string, boolean and uuid, byte for byte."""

import re
from base64 import b64decode, b64encode
from binascii import b2a_base64
from dataclasses import dataclass
from uuid import UUID

import msgspec

from qss_core.serdes.contract import wrong_bytes, wrong_json, wrong_value
from qss_core.text import (
    decode_base64url,
    decode_text,
    encode_base64url,
    encode_text,
    is_whole,
)

# Java's UUID.fromString accepts upper case, and groups without leading zeros.
_UUID_GROUP_DIGITS = (8, 4, 4, 4, 12)
_UUID_TEXT = re.compile("-".join(f"([0-9A-Fa-f]{{1,{digits}}})" for digits in _UUID_GROUP_DIGITS))
_UUID_TEXT_BYTES = 36
_encode_json = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class BytesSerde:
    name: str = "bytes"
    item_bytes: int | None = None

    def encode(self, value: bytes) -> bytes:
        return value

    def decode(self, data: bytes) -> bytes:
        return data

    def to_json(self, value: bytes) -> str:
        return b64encode(value).decode()

    def from_json(self, obj: object) -> bytes:
        if not isinstance(obj, str):
            raise wrong_json("bytes (a base64 string)", obj)
        try:
            return b64decode(obj, validate=True)
        except ValueError as error:
            raise wrong_json("bytes (a base64 string)", obj) from error

    def json_bytes(self, data: bytes) -> bytes:
        return b'"%b"' % b2a_base64(data, newline=False)

    def key_to_text(self, data: bytes) -> str:
        return encode_base64url(data)

    def key_from_text(self, text: str) -> bytes:
        return decode_base64url(text)


@dataclass(frozen=True, slots=True)
class StringSerde:
    name: str = "string"
    item_bytes: int | None = None

    def encode(self, value: str) -> bytes:
        return encode_text(value)

    def decode(self, data: bytes) -> str:
        return decode_text(data)

    def to_json(self, value: str) -> str:
        return value

    def from_json(self, obj: object) -> str:
        if not isinstance(obj, str):
            raise wrong_json("string", obj)
        if not (obj.isascii() or is_whole(obj)):
            raise wrong_json("string of whole characters", obj)
        return obj

    def json_bytes(self, data: bytes) -> bytes:
        try:
            return _encode_json(data.decode())
        except UnicodeDecodeError:
            return _encode_json(decode_text(data))

    def key_to_text(self, data: bytes) -> str:
        return decode_text(data)

    def key_from_text(self, text: str) -> bytes:
        return encode_text(text)


@dataclass(frozen=True, slots=True)
class BooleanSerde:
    """One byte, 00 or 01. In a list each boolean has a length, as in Kafka."""

    name: str = "boolean"
    item_bytes: int | None = None

    def encode(self, value: bool) -> bytes:  # noqa: FBT001 (the value is the point)
        return b"\x01" if value else b"\x00"

    def decode(self, data: bytes) -> bool:
        if data == b"\x01":
            return True
        if data == b"\x00":
            return False
        raise wrong_bytes(self.name, data)

    def to_json(self, value: bool) -> bool:  # noqa: FBT001
        return value

    def from_json(self, obj: object) -> bool:
        if not isinstance(obj, bool):
            raise wrong_json(self.name, obj)
        return obj

    def json_bytes(self, data: bytes) -> bytes:
        return b"true" if self.decode(data) else b"false"

    def key_to_text(self, data: bytes) -> str:
        return "true" if self.decode(data) else "false"

    def key_from_text(self, text: str) -> bytes:
        if text not in ("true", "false"):
            raise wrong_value(self.name, text)
        return self.encode(text == "true")


@dataclass(frozen=True, slots=True)
class UuidSerde:
    """The 36 characters of the text form, not 16 bytes; accepts Java's forms, writes lower case."""

    name: str = "uuid"
    item_bytes: int | None = _UUID_TEXT_BYTES

    def encode(self, value: UUID) -> bytes:
        return str(value).encode()

    def decode(self, data: bytes) -> UUID:
        value = _parse_uuid(decode_text(data))
        if value is None:
            raise wrong_bytes(self.name, data)
        return value

    def to_json(self, value: UUID) -> str:
        return str(value)

    def from_json(self, obj: object) -> UUID:
        if not isinstance(obj, str):
            raise wrong_json(self.name, obj)
        value = _parse_uuid(obj)
        if value is None:
            raise wrong_value(self.name, obj)
        return value

    def json_bytes(self, data: bytes) -> bytes:
        return b'"%b"' % self.encode(self.decode(data))

    def key_to_text(self, data: bytes) -> str:
        return str(self.decode(data))

    def key_from_text(self, text: str) -> bytes:
        return self.encode(self.from_json(text))


def _parse_uuid(text: str) -> UUID | None:
    match = _UUID_TEXT.fullmatch(text)
    if match is None:
        return None
    groups = zip(match.groups(), _UUID_GROUP_DIGITS, strict=True)
    return UUID("".join(group.zfill(digits) for group, digits in groups))
