"""Makes rows of a KeyValue store from the keys and values of a query's state. Pure.

A key of one column is that column; several columns are JSON by their names. The columns of a value
are JSON by their names; where the store's values are no JSON, the only column is the value. JSON is
as Spark's `to_json` writes it, but for numbers that are none: they are null.
"""

import base64
import math
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa

from qss_client.chunks.chunk import Slice, encode_slice
from qss_core.errors import MalformedRequestError
from qss_core.model import Partitioner, StoreDefinition, StoreType
from qss_core.partitioning import partition_of
from qss_core.serdes.registry import serde_of

_JSON = "json"
_GROUP_BYTES_MAX = 8 * 1024 * 1024  # The rows that are encoded at once.
_ENCODE = msgspec.json.Encoder(decimal_format="number").encode


class StoreRows:
    """Encodes the rows of one store."""

    def __init__(self, definition: StoreDefinition, key: pa.StructType, value: pa.DataType) -> None:
        """`key` and `value` are the types of the state's. Raises MalformedRequestError."""
        if definition.type is not StoreType.KEY_VALUE:
            raise MalformedRequestError(
                f"store {definition.name} is a {definition.type} store: state is copied into "
                "KeyValue stores alone"
            )
        if definition.partitioner is not Partitioner.MURMUR2:
            raise MalformedRequestError(
                f"the writer of store {definition.name} chooses partitions, and state has none"
            )
        self._partitions = definition.partitions
        self._key, self._value = serde_of(definition.key_serde), serde_of(definition.value_serde)
        self._key_names = _flat_names(key)
        self._key_type, self._value_type = key, value
        if len(self._key_names) > 1 and definition.key_serde != _JSON:
            names = ", ".join(self._key_names)
            raise MalformedRequestError(
                f"the keys have the columns {names}: the store needs key serde {_JSON}, not "
                f"{definition.key_serde}"
            )
        self._is_json = definition.value_serde == _JSON
        if not self._is_json and not (pa.types.is_struct(value) and value.num_fields == 1):
            raise MalformedRequestError(
                f"the values have several columns: the store needs value serde {_JSON}, not "
                f"{definition.value_serde}"
            )

    def groups(self, changed: pa.Table, deleted: pa.StructArray) -> Iterator[list[Slice]]:
        """The slices of all rows, group after group; at most one slice of a partition in each."""
        held: dict[int, list[tuple[bytes, bytes | None]]] = defaultdict(list)
        size = 0
        for key, value in self._rows(changed, deleted):
            held[partition_of(key, self._partitions)].append((key, value))
            size += len(key) + len(value or b"")
            if size >= _GROUP_BYTES_MAX:
                yield _slices(held)
                held, size = defaultdict(list), 0
        if held:
            yield _slices(held)

    def _rows(
        self, changed: pa.Table, deleted: pa.StructArray
    ) -> Iterator[tuple[bytes, bytes | None]]:
        for batch in changed.to_batches(max_chunksize=10_000):
            values = batch.column("value")
            for key, value in zip(batch.column("key").to_pylist(), values.to_pylist(), strict=True):
                yield self._key_bytes(key), self._value_bytes(value)
        for key in deleted.to_pylist():
            yield self._key_bytes(key), None

    def _key_bytes(self, key: dict[str, Any]) -> bytes:
        flat = list(_flat(key, self._key_type))
        given = flat[0] if len(flat) == 1 else dict(zip(self._key_names, flat, strict=True))
        if self._key.name == _JSON:
            return _ENCODE(given)
        return self._key.encode(self._key.from_json(given))

    def _value_bytes(self, value: Any) -> bytes:
        shown = _json(value, self._value_type)
        if self._is_json:
            return _ENCODE(shown)
        (only,) = shown.values()
        if only is None:
            raise MalformedRequestError(
                f"a value of the state is null, and the serde {self._value.name} has no null: give "
                f"the store value serde {_JSON}"
            )
        return self._value.encode(self._value.from_json(only))


def _slices(rows: dict[int, list[tuple[bytes, bytes | None]]]) -> list[Slice]:
    return [
        encode_slice(
            partition,
            pa.table(
                {
                    "key": pa.array([key for key, _ in ordered], pa.binary()),
                    "value": pa.array([value for _, value in ordered], pa.binary()),
                }
            ),
        )
        for partition, found in sorted(rows.items())
        for ordered in [sorted(found, key=lambda row: row[0])]
    ]


# --- Columns


def _flat_names(key: pa.StructType) -> list[str]:
    """The names of a key's columns; those of a processor's keys lie one level deeper."""
    if not _is_nested(key):
        return [one.name for one in key]
    return [inner.name for one in key for inner in one.type]


def _is_nested(key: pa.StructType) -> bool:
    """Whether the key is that of a processor's map: a grouping key and the user's key."""
    if not all(pa.types.is_struct(one.type) for one in key) or key.num_fields < 2:
        return False
    names = [inner.name for one in key for inner in one.type]
    return len(names) == len(set(names))


def _flat(key: dict[str, Any], kind: pa.StructType) -> Iterator[Any]:
    for one in kind:
        shown = _json(key[one.name], one.type)
        if _is_nested(kind):
            yield from shown.values()
        else:
            yield shown


def _json(value: Any, kind: pa.DataType) -> Any:
    """A value of Arrow as JSON has it."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {one.name: _json(value[one.name], one.type) for one in kind}
    if pa.types.is_list(kind):
        return [_json(one, kind.value_type) for one in value]
    if pa.types.is_map(kind):
        return {_text(key, kind.key_type): _json(one, kind.item_type) for key, one in value}
    return _scalar(value)


def _scalar(value: Any) -> Any:
    match value:
        case datetime():
            return _time(value)
        case date():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode()
        case float() if not math.isfinite(value):
            return None
        case Decimal() if value == value.to_integral_value():
            return msgspec.Raw(f"{value:f}".encode())
    return value


def _time(value: datetime) -> str:
    """The time as RFC 3339 has it, with as many digits of a second as it needs."""
    is_zoned = value.tzinfo is not None
    plain = value.astimezone(UTC).replace(tzinfo=None) if is_zoned else value
    return f"{plain.isoformat()}{'Z' if is_zoned else ''}"


def _text(key: Any, kind: pa.DataType) -> str:
    """A key of a map as the name of a member."""
    shown = _json(key, kind)
    return shown if isinstance(shown, str) else _ENCODE(shown).decode()
