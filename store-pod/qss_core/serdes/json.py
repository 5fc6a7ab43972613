"""The `json` serde, which Kafka does not have: UTF-8 JSON text, stored and answered unchanged.

JSON is that of RFC 8259, so without NaN, and without escapes of lone surrogates (RFC 7493).
"""

import json
from dataclasses import dataclass
from typing import Any

import msgspec

from qss_core.errors import MalformedRequestError
from qss_core.serdes.contract import wrong_bytes, wrong_value
from qss_core.text import encode_text, json_problem

# Checks UTF-8 JSON without building objects, ten times faster than the standard library. It raises
# one of JSON_REFUSALS.
check_json_syntax = msgspec.json.Decoder(msgspec.Raw).decode
JSON_REFUSALS = (msgspec.DecodeError, ValueError, RecursionError)
_WRITER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
# A line break in JSON is white space: a string cannot contain one unescaped.
_LINE_BREAKS_TO_SPACES = bytes.maketrans(b"\r\n", b"  ")


def parse_json(text: str) -> Any:
    """The object of a JSON text (RFC 8259: no NaN). Raises MalformedRequestError."""
    try:
        check_json_syntax(text)
        return json.loads(text)
    except JSON_REFUSALS as error:
        problem = json_problem(text, error)
        raise MalformedRequestError(f"not JSON: {text[:60]!r}: {problem}") from error


def json_or_text(text: str) -> Any:
    """The object of a JSON text, or the text itself if it is not JSON; for a person's input."""
    try:
        return parse_json(text)
    except MalformedRequestError:
        return text


@dataclass(frozen=True, slots=True)
class JsonSerde:
    """Encodes objects compactly; a key's text is stored unchanged."""

    name: str = "json"
    item_bytes: int | None = None

    def encode(self, value: Any) -> bytes:
        try:
            return encode_text(_WRITER.encode(value))
        except (TypeError, ValueError, RecursionError) as error:
            raise wrong_value(self.name, value) from error

    def decode(self, data: bytes) -> Any:
        text = self._check(data)
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise wrong_bytes(self.name, data) from error

    def to_json(self, value: Any) -> Any:
        return value

    def from_json(self, obj: object) -> Any:
        return obj

    def json_bytes(self, data: bytes) -> bytes:
        self._check(data)
        if b"\n" in data or b"\r" in data:
            # The answer may be a stream of lines.
            return data.translate(_LINE_BREAKS_TO_SPACES)
        return data

    def key_to_text(self, data: bytes) -> str:
        return self._check(data)

    def key_from_text(self, text: str) -> bytes:
        parse_json(text)
        return encode_text(text)

    def _check(self, data: bytes) -> str:
        """The text of the stored bytes. A number in it may be too large for Python."""
        try:
            check_json_syntax(data)
            return data.decode()
        except JSON_REFUSALS as error:
            raise wrong_bytes(self.name, data) from error
