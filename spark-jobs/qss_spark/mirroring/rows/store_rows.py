"""Makes rows of a store from the keys and values of a query's state. Pure.

A key of one column is that column; several columns are JSON by their names. The columns of a value
are JSON by their names; where the store's values are no JSON, the only column is the value. A row
of a Window or a Session store has its times beside the key.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from qss_client.chunks.chunk import Slice, encode_slice
from qss_client.chunks.key_hashes import partitions_of
from qss_core.errors import MalformedRequestError
from qss_core.model import Partitioner, StoreDefinition, StoreType
from qss_core.serdes.registry import Serde, serde_of
from qss_spark.mirroring.rows.computed_values import ComputedValues
from qss_spark.mirroring.rows.json_values import json_of, python_of
from qss_spark.mirroring.rows.row_times import row_times

_JSON, _STRING = "json", "string"
_GROUP_BYTES_MAX = 8 * 1024 * 1024  # A group has at most twice as much.
_ROWS_AT_ONCE = 10_000
_OF_MAP, _OF_TIMER = ["key", "userKey"], ["key", "expiryTimestampMs"]  # Spark's names.
_Id = tuple[Any, ...]  # The serialized key of a session, its start and its end.
_ENCODE = msgspec.json.encode


@dataclass(slots=True)
class _Rows:
    """Rows column by column: serialized keys and values, and times in milliseconds."""

    keys: list[bytes]
    values: list[bytes | None]
    times: list[list[int]]

    def add(
        self, keys: list[bytes], values: Sequence[bytes | None] | None, times: list[list[int]]
    ) -> None:
        """Adds rows; they are deleted where `values` is None."""
        self.keys += keys
        self.values += [None] * len(keys) if values is None else values
        for held, more in zip(self.times, times, strict=True):
            held += more


class StoreRows:
    """Encodes the rows of one store."""

    def __init__(
        self,
        definition: StoreDefinition,
        key: pa.StructType,
        value: pa.DataType,
        *,
        keep_deleted: bool = False,
        computed: ComputedValues | None = None,
    ) -> None:
        """`key` and `value` are the types of the state's. Raises MalformedRequestError.

        keep_deleted: rows whose keys the query drops are not deleted.
        computed: the columns of the values, in place of the state's columns.
        """
        self._times = row_times(definition, key, value)
        self._computed = computed
        if computed is not None:
            value = computed.type_of(value)
        self._is_session = definition.type is StoreType.SESSION
        self._keep_deleted = keep_deleted
        if definition.partitioner is not Partitioner.MURMUR2:
            raise MalformedRequestError(
                f"the writers of store {definition.name} choose the partition of each row, which a "
                "state does not have: copy it into a store that hashes its keys"
            )
        self._partitions = definition.partitions
        self._key, self._value = serde_of(definition.key_serde), serde_of(definition.value_serde)
        columns = _flat_type(self._times.key)
        self._is_nested = _is_nested(self._times.key)
        self._is_json_key = definition.key_serde == _JSON
        self._key_json, self._value_json = json_of(columns, is_key=True), json_of(value)
        only = columns.field(0).type if columns.num_fields == 1 and not self._is_nested else None
        self._is_text = definition.key_serde == _STRING and only == pa.string()
        if columns.num_fields != 1 and not self._is_json_key:
            names = ", ".join(one.name for one in columns) or "(none)"
            raise MalformedRequestError(
                f"the keys have the columns {names}: the store needs key serde {_JSON}, not "
                f"{definition.key_serde}"
            )
        self._key_column = "" if self._is_json_key else columns.field(0).name
        self._is_json = definition.value_serde == _JSON
        if not self._is_json and not (pa.types.is_struct(value) and value.num_fields == 1):
            count = "no" if value.num_fields == 0 else "several"
            raise MalformedRequestError(
                f"the values have {count} columns: the store needs value serde {_JSON}, not "
                f"{definition.value_serde}"
            )

    def check(self, rows: pa.Table) -> None:
        """Raises MalformedRequestError for rows whose times, key or value no store row has."""
        for batch in rows.to_batches(max_chunksize=_ROWS_AT_ONCE):
            keys, values = batch.column("key"), batch.column("value")
            self._times.times_of(keys, values)
            left = self._times.keys_of(keys)
            if not self._is_json_key and not (self._is_text and not left.field(0).null_count):
                self._encoded_keys(left)
            if not self._is_json:
                self._encoded_values(values)

    def groups(
        self, changed: pa.Table, deleted: pa.StructArray, before: pa.Table
    ) -> Iterator[list[Slice]]:
        """The slices of all rows, group after group; at most one slice of a partition in each.

        `before` has the rows that the changed and the deleted keys had: a session that ends at
        another time is another row of its store. Raises MalformedRequestError as `check`.
        """
        held = self._no_rows()
        new: set[_Id] = set()
        size = 0
        fitting = changed.num_rows * _GROUP_BYTES_MAX // max(1, changed.nbytes)
        for batch in changed.to_batches(max_chunksize=max(1, min(_ROWS_AT_ONCE, fitting))):
            keys, times = self._placed(batch.column("key"), batch.column("value"))
            values = self._encoded_values(batch.column("value"))
            held.add(keys, values, times)
            if self._is_session:
                new.update(zip(keys, *times, strict=True))
            size += sum(map(len, keys)) + sum(map(len, values))
            if size >= _GROUP_BYTES_MAX:
                yield self._slices(held)
                held, size = self._no_rows(), 0
        if self._is_session:
            gone = self._gone_sessions(new, before)
            held.add([key for key, *_ in gone], None, [[one[at] for one in gone] for at in (1, 2)])
        elif not self._keep_deleted:
            keys, times = self._placed(deleted, None)
            held.add(keys, None, times)
        if held.keys:
            yield self._slices(held)

    def _gone_sessions(self, new: set[_Id], before: pa.Table) -> list[_Id]:
        """The sessions that leave the store: `new` has the sessions that this batch writes."""
        old: list[_Id] = []
        for batch in before.to_batches():
            keys, times = self._placed(batch.column("key"), batch.column("value"))
            old += (one for one in zip(keys, *times, strict=True) if one not in new)
        return _grown(old, new) if self._keep_deleted else old

    def _no_rows(self) -> _Rows:
        return _Rows([], [], [[] for _ in self._times.names])

    def _placed(
        self, keys: pa.StructArray, values: pa.StructArray | None
    ) -> tuple[list[bytes], list[list[int]]]:
        """The serialized keys, and the columns of the rows' times."""
        times = [one.to_pylist() for one in self._times.times_of(keys, values)]
        return self._encoded_keys(self._times.keys_of(keys)), times

    def encoded(self, table: pa.Table) -> Iterator[tuple[_Id, bytes]]:
        """The serialized key and the times of each row, and its serialized value."""
        for batch in table.to_batches(max_chunksize=_ROWS_AT_ONCE):
            keys, times = self._placed(batch.column("key"), batch.column("value"))
            values = self._encoded_values(batch.column("value"))
            yield from zip(zip(keys, *times, strict=True), values, strict=True)

    def _encoded_keys(self, keys: pa.StructArray) -> list[bytes]:
        if self._is_text and not (text := keys.field(0)).null_count:
            found: list[bytes] = text.cast(pa.binary()).to_pylist()
            return found
        flat = [self._flat(key) for key in python_of(keys)]
        if self._is_json_key:
            return [_ENCODE(one) for one in flat]
        return [_encoded(one, self._key, f"the key column {self._key_column}") for one in flat]

    def _flat(self, key: dict[str, Any]) -> Any:
        """The only column of a key, or its columns by their names."""
        columns: dict[str, Any] = {}
        if self._is_nested:
            for name, part in key.items():
                columns |= part if isinstance(part, dict) else {name: part}
        else:
            columns = key
        if self._key_json is not None:
            columns = self._key_json(columns)
        return next(iter(columns.values())) if len(columns) == 1 else columns

    def _encoded_values(self, values: pa.Array) -> list[bytes]:
        shown = python_of(values if self._computed is None else self._computed.of(values))
        if self._value_json is not None:
            shown = list(map(self._value_json, shown))
        if self._is_json:
            return [_ENCODE(one) for one in shown]
        return [self._only(one) for one in shown]

    def _only(self, value: dict[str, Any]) -> bytes:
        ((column, only),) = value.items()
        return _encoded(only, self._value, f"the value column {column}")

    def _slices(self, rows: _Rows) -> list[Slice]:
        """One slice for each partition, its rows in the order of their keys."""
        keys = pa.array(rows.keys, pa.binary())
        columns = {
            "partition": partitions_of(keys, self._partitions),
            "key": keys,
            "value": pa.array(rows.values, pa.binary()),
        }
        for name, times in zip(self._times.names, rows.times, strict=True):
            columns[name] = pa.array(times, pa.int64())
        table = pa.table(columns).sort_by([("partition", "ascending"), ("key", "ascending")])
        numbers = table.column("partition").to_numpy()
        bounds = [*np.flatnonzero(np.diff(numbers, prepend=-1)).tolist(), len(numbers)]
        return [
            encode_slice(int(numbers[first]), table.slice(first, end - first).drop(["partition"]))
            for first, end in pairwise(bounds)
        ]


def _grown(old: Iterable[_Id], new: Iterable[_Id]) -> list[_Id]:
    """The sessions that are parts of a new session of their key; others have ended."""
    by_key: dict[bytes, list[tuple[int, int]]] = {}
    for key, start, end in new:
        by_key.setdefault(key, []).append((start, end))
    return [
        (key, start, end)
        for key, start, end in old
        if any(first <= start and end <= last for first, last in by_key.get(key, ()))
    ]


def _encoded(value: Any, serde: Serde, column: str) -> bytes:
    """The bytes of a column. Raises MalformedRequestError for a value outside the serde."""
    try:
        return serde.encode(serde.from_json(value))
    except MalformedRequestError as error:
        raise MalformedRequestError(
            f"{column} of the state has a row that the store does not take ({error.message}): a "
            f"store with the serde {_JSON} for it takes all rows"
        ) from error


# --- Columns


def _flat_type(key: pa.StructType) -> pa.StructType:
    """The columns of a key; a processor's map or timer has them one level deeper."""
    return pa.struct(_inner(key)) if _is_nested(key) else key


def _is_nested(key: pa.StructType) -> bool:
    """Whether the key is that of a processor's map or timer: a grouping key and something else."""
    names = [one.name for one in key]
    if names not in (_OF_MAP, _OF_TIMER) or not pa.types.is_struct(key.field(0).type):
        return False
    inner = [one.name for one in _inner(key)]
    return len(inner) == len(set(inner))


def _inner(key: pa.StructType) -> list[pa.Field]:
    found: list[pa.Field] = []
    for one in key:
        found += list(one.type) if pa.types.is_struct(one.type) else [one]
    return found
