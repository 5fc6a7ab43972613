"""Reads the schemas of state stores, in the versions 1 to 3 of Spark's files. Pure.

Version 1 has the JSON of the key and of the value, each as one text; version 2 has them in chunks.
Version 3 has a schema for each column family of a store: for each variable of a stateful processor.
"""

import json
import struct
from dataclasses import dataclass
from typing import Any

from qss_spark.state.errors import CheckpointError, UnknownTypeError
from qss_spark.state.types import Field, fields_of

DEFAULT = "default"
_SHORT, _INT = struct.Struct(">H"), struct.Struct(">i")
_CHUNKS_MAX = 1_000_000
_PLAIN, _PREFIX = "NoPrefixKeyStateEncoderSpec", "PrefixKeyScanStateEncoderSpec"
# The last column of a key, a time, lies behind the row of the others: joins of format 4.
TIME_BEHIND = "TimestampAsPostfixKeyStateEncoderSpec"
ENCODERS = frozenset({_PLAIN, _PREFIX, TIME_BEHIND})  # The encodings that can be read.


@dataclass(frozen=True, slots=True)
class StoreSchema:
    """The columns of one store, or of one column family of it."""

    name: str
    key: tuple[Field, ...]
    value: tuple[Field, ...]
    encoder: str  # How keys are kept, as the last part of Spark's class name.
    prefix_columns: int = 0  # So many columns of the key come first, in a row of their own.
    reason: str | None = None  # Why the columns cannot be read: there are none then.


class _Texts:
    """Java's data stream of texts and numbers."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def integer(self) -> int:
        found: int = self._number(_INT)
        return found

    def skip_short(self) -> None:
        self._number(_SHORT)

    def text(self) -> str:
        size = self._number(_SHORT)
        end = self._at + size
        if end > len(self._data):
            raise CheckpointError("a schema of the state ends within a text")
        found, self._at = self._data[self._at : end], end
        return found.decode(errors="replace")

    def chunks(self) -> str:
        """A long text: the number of its parts, and the parts."""
        count = self.integer()
        if not 0 <= count <= _CHUNKS_MAX:
            raise CheckpointError("a schema of the state is damaged")
        return "".join(self.text() for _ in range(count))

    def _number(self, form: struct.Struct) -> Any:
        if self._at + form.size > len(self._data):
            raise CheckpointError("a schema of the state ends within a number")
        (found,) = form.unpack_from(self._data, self._at)
        self._at += form.size
        return found


def read_schemas(data: bytes) -> dict[str, StoreSchema]:
    """The schemas of a file by the names of their column families; `default` where it has one.

    A type that is not known is the reason of its schema; the others can be read. Raises
    CheckpointError for other damage.
    """
    texts = _Texts(data)
    match texts.text():
        case "v1":
            key, value = texts.text(), texts.text()
            return {DEFAULT: _schema(DEFAULT, key, value)}
        case "v2":
            key, value = texts.chunks(), texts.chunks()
            return {DEFAULT: _schema(DEFAULT, key, value)}
        case "v3":
            return {one.name: one for one in (_family(texts) for _ in range(texts.integer()))}
        case other:
            raise CheckpointError(
                f"schemas of the form {other[:10]!r} are not known, only v1 to v3"
            )


def _family(texts: _Texts) -> StoreSchema:
    name = texts.text()
    texts.skip_short()  # The id of the key's schema.
    key = texts.chunks()
    texts.skip_short()
    value, encoder = texts.chunks(), texts.chunks()
    texts.chunks()  # The schema of a user's key, which the key has, too.
    return _schema(name, key, value, encoder)


def _schema(name: str, key: str, value: str, encoder: str = "") -> StoreSchema:
    try:
        spec = json.loads(encoder) if encoder else {}
        try:
            of_key, of_value = fields_of(json.loads(key)), fields_of(json.loads(value))
        except UnknownTypeError as error:
            return StoreSchema(name, (), (), _PLAIN, reason=error.message)
        kind = str(spec.get("keyStateEncoderType", _PLAIN))
        prefix = int(spec.get("numColsPrefixKey", 0)) if kind == _PREFIX else 0
    except (ValueError, AttributeError) as error:
        raise CheckpointError(f"the schema of {name} is damaged: {error}") from error
    return StoreSchema(name, of_key, of_value, kind, prefix)
