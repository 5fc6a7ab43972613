"""Makes rows of a KeyValue store from the keys and values of a query's state. Pure.

A key of one column is that column; several columns are JSON by their names. The columns of a value
are JSON by their names; where the store's values are no JSON, the only column is the value. In JSON
times are RFC 3339, bytes are base64, and decimals keep their digits; NaN and infinity are null.
"""

import base64
import math
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from qss_client.chunks.chunk import Slice, encode_slice
from qss_client.chunks.partitioning import partitions_of
from qss_core.errors import MalformedRequestError
from qss_core.model import Partitioner, StoreDefinition, StoreType
from qss_core.serdes.registry import serde_of

_JSON = "json"
_GROUP_BYTES_MAX = 8 * 1024 * 1024  # A group has at most twice as much.
_ROWS_AT_ONCE = 10_000
_ToJson = Callable[[Any], Any]
_Row = tuple[bytes, bytes | None]
_ENCODE = msgspec.json.encode


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
        columns = _flat_type(key)
        self._is_nested, self._is_json_key = _is_nested(key), definition.key_serde == _JSON
        self._key_json, self._value_json = _json_of(columns), _json_of(value)
        if columns.num_fields > 1 and not self._is_json_key:
            names = ", ".join(one.name for one in columns)
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
        held: list[_Row] = []
        size = 0
        fitting = changed.num_rows * _GROUP_BYTES_MAX // max(1, changed.nbytes)
        for batch in changed.to_batches(max_chunksize=max(1, min(_ROWS_AT_ONCE, fitting))):
            keys = self._encoded_keys(batch.column("key").to_pylist())
            values = self._encoded_values(batch.column("value").to_pylist())
            held += zip(keys, values, strict=True)
            size += sum(map(len, keys)) + sum(map(len, values))
            if size >= _GROUP_BYTES_MAX:
                yield self._slices(held)
                held, size = [], 0
        held += ((key, None) for key in self._encoded_keys(deleted.to_pylist()))
        if held:
            yield self._slices(held)

    def _encoded_keys(self, keys: list[dict[str, Any]]) -> list[bytes]:
        flat = [self._flat(key) for key in keys]
        if self._is_json_key:
            return [_ENCODE(one) for one in flat]
        return [self._key.encode(self._key.from_json(one)) for one in flat]

    def _flat(self, key: dict[str, Any]) -> Any:
        """The only column of a key, or its columns by their names."""
        if self._is_nested:
            columns = {name: one for part in key.values() for name, one in part.items()}
        else:
            columns = key
        if self._key_json is not None:
            columns = self._key_json(columns)
        return columns if len(columns) > 1 else next(iter(columns.values()))

    def _encoded_values(self, values: list[Any]) -> list[bytes]:
        shown = values if self._value_json is None else list(map(self._value_json, values))
        if self._is_json:
            return [_ENCODE(one) for one in shown]
        return [self._only(one) for one in shown]

    def _only(self, value: dict[str, Any]) -> bytes:
        (only,) = value.values()
        if only is None:
            raise MalformedRequestError(
                f"a value of the state is null, and the serde {self._value.name} has no null: give "
                f"the store value serde {_JSON}"
            )
        return self._value.encode(self._value.from_json(only))

    def _slices(self, rows: list[_Row]) -> list[Slice]:
        """One slice for each partition, its rows in the order of their keys."""
        keys = pa.array([key for key, _ in rows], pa.binary())
        table = pa.table(
            {
                "partition": partitions_of(keys, self._partitions),
                "key": keys,
                "value": pa.array([value for _, value in rows], pa.binary()),
            }
        ).sort_by([("partition", "ascending"), ("key", "ascending")])
        numbers = table.column("partition").to_numpy()
        bounds = [*np.flatnonzero(np.diff(numbers, prepend=-1)).tolist(), len(numbers)]
        return [
            encode_slice(int(numbers[first]), table.slice(first, end - first).drop(["partition"]))
            for first, end in pairwise(bounds)
        ]


# --- Columns


def _flat_type(key: pa.StructType) -> pa.StructType:
    """The columns of a key; those of a processor's map lie one level deeper."""
    return pa.struct([inner for one in key for inner in one.type]) if _is_nested(key) else key


def _is_nested(key: pa.StructType) -> bool:
    """Whether the key is that of a processor's map: a grouping key and the user's key."""
    if key.num_fields < 2 or not all(pa.types.is_struct(one.type) for one in key):
        return False
    names = [inner.name for one in key for inner in one.type]
    return len(names) == len(set(names))


def _json_of(kind: pa.DataType) -> _ToJson | None:
    """What makes JSON of a value of Arrow; None where it is JSON already."""
    if pa.types.is_struct(kind):
        return _struct_json({one.name: _json_of(one.type) for one in kind})
    if pa.types.is_list(kind):
        element = _json_of(kind.value_type)
        return None if element is None else _nullable(lambda held: list(map(element, held)))
    if pa.types.is_map(kind):
        name, item = _json_of(kind.key_type), _json_of(kind.item_type)
        return _nullable(
            lambda held: {_text(key, name): item(one) if item else one for key, one in held}
        )
    if pa.types.is_timestamp(kind):
        return _nullable(_time)
    if pa.types.is_date(kind):
        return _nullable(date.isoformat)
    if pa.types.is_binary(kind):
        return _nullable(lambda held: base64.b64encode(held).decode())
    if pa.types.is_floating(kind):
        return _nullable(lambda held: held if math.isfinite(held) else None)
    if pa.types.is_decimal(kind):
        return _nullable(_number)
    return None


def _struct_json(members: dict[str, _ToJson | None]) -> _ToJson | None:
    """Changes only the members that are no JSON."""
    changing = {name: made for name, made in members.items() if made is not None}
    if not changing:
        return None
    return _nullable(
        lambda held: {**held, **{name: made(held[name]) for name, made in changing.items()}}
    )


def _nullable(made: _ToJson) -> _ToJson:
    return lambda held: None if held is None else made(held)


def _number(value: Decimal) -> Any:
    """The digits of a decimal, all of them and without an exponent."""
    return msgspec.Raw(f"{value:f}".encode())


def _time(value: datetime) -> str:
    """The time as RFC 3339 has it, with as many digits of a second as it needs."""
    is_zoned = value.tzinfo is not None
    plain = value.astimezone(UTC).replace(tzinfo=None) if is_zoned else value
    return f"{plain.isoformat()}{'Z' if is_zoned else ''}"


def _text(key: Any, made: _ToJson | None) -> str:
    """A key of a map as the name of a member."""
    shown = key if made is None else made(key)
    return shown if isinstance(shown, str) else _ENCODE(shown).decode()
