"""Makes the objects that msgspec encodes as the JSON of many stored keys or values."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from qss_core.serdes.contract import Serde
from qss_core.serdes.json import JSON_REFUSALS
from qss_core.text import decode_text

# Raises MalformedBytesError for bytes of another serde, at the latest when they are iterated.
Show = Callable[[Sequence[bytes]], Iterable[Any]]

_split = msgspec.json.Decoder(list[msgspec.Raw]).decode


def show_of(serde: Serde) -> Show:
    """msgspec encodes bytes and texts itself; values of other types are given as JSON."""
    if serde.name == "bytes":
        return lambda data: data
    if serde.name == "string":
        return _texts
    one_by_one = _one_by_one(serde.json_bytes)
    if serde.name != "json":
        return one_by_one
    return lambda data: _documents(data) or one_by_one(data)


def _texts(data: Sequence[bytes]) -> Iterable[str]:
    try:
        return list(map(bytes.decode, data))
    except UnicodeDecodeError:
        return map(decode_text, data)


def _one_by_one(json_bytes: Callable[[bytes], bytes]) -> Show:
    return lambda data: map(msgspec.Raw, map(json_bytes, data))


def _documents(data: Sequence[bytes]) -> list[msgspec.Raw] | None:
    """JSON texts that are checked as one array; None where one has to be looked at by itself.

    Each element has to be its text: texts that are no JSON alone might be an array together.
    """
    joined = b",".join(data)
    if b"\n" in joined or b"\r" in joined:
        return None
    try:
        joined.decode()
        found = _split(b"[%b]" % joined)
    except JSON_REFUSALS:
        return None
    return found if list(map(bytes, found)) == list(data) else None
