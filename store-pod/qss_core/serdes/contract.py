"""The protocol of serdes, and the errors that all of them raise."""

from typing import Any, Protocol

from qss_core.errors import MalformedBytesError, MalformedRequestError


class Serde(Protocol):
    """Converts between a value, its stored bytes, its JSON and its text as a key in a path.

    Decoding raises MalformedBytesError for bytes of another type; values and texts that the type
    does not have raise MalformedRequestError.
    """

    @property
    def name(self) -> str:
        """The name in a store's definition."""
        ...

    @property
    def item_bytes(self) -> int | None:
        """The size of every item, if Kafka stores lists of this type without lengths; else None."""
        ...

    def encode(self, value: Any) -> bytes:
        """Kafka's bytes of a value."""
        ...

    def decode(self, data: bytes) -> Any:
        """The value of stored bytes."""
        ...

    def to_json(self, value: Any) -> Any:
        """A JSON-able object: bytes as base64, NaN and the infinities as strings."""
        ...

    def from_json(self, obj: object) -> Any:
        """The value of a parsed JSON object; it checks type and range strictly."""
        ...

    def json_bytes(self, data: bytes) -> bytes:
        """The UTF-8 JSON text of stored bytes, in one line, for copying into an answer."""
        ...

    def key_to_text(self, data: bytes) -> str:
        """The text of a stored key in a path, before percent-encoding."""
        ...

    def key_from_text(self, text: str) -> bytes:
        """The stored bytes of a key in a path, after percent-decoding."""
        ...


def wrong_json(expected: str, obj: object) -> MalformedRequestError:
    """The error for a JSON value of another type."""
    return MalformedRequestError(f"{expected} expected, got {_json_type(obj)}")


def wrong_value(name: str, value: object) -> MalformedRequestError:
    """The error for a value that this type cannot encode."""
    return MalformedRequestError(f"{repr(value)[:60]} is no {name}")


def wrong_bytes(name: str, data: bytes) -> MalformedBytesError:
    """The error for bytes of another type."""
    return MalformedBytesError(f"{len(data)} bytes that are no {name}", bytes=data[:20].hex())


def _json_type(obj: object) -> str:
    match obj:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return f"the number {repr(obj)[:40]}"
        case str():
            return f"the string {repr(obj)[:40]}"
        case list() | tuple():
            return "an array"
        case dict():
            return "an object"
        case _:
            return type(obj).__name__
