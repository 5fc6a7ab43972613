"""Compares a store, row by row, with the rows that Spark's own reader finds in a query's state."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa

from qss_client.store import Store
from qss_core.errors import StoreError
from qss_core.model import StoreDefinition, StoreType
from qss_core.serdes.registry import Serde, serde_of
from qss_core.wire.writer_reports import WriterReport
from qss_spark.mirroring.copies.copy_writer import BEGUN
from qss_spark.mirroring.rows.store_rows import StoreRows
from qss_spark.mirroring.state_follower import StateFollower

_SHOWN = 10
_JSON = "json"
_MISSING = object()


@dataclass(frozen=True, slots=True)
class Verdict:
    """A comparison of the rows of one batch; `differences` are the first ones, as text."""

    batch: int
    rows: int  # The number of rows that Spark finds.
    unlike: int
    differences: tuple[str, ...]


def copied_batch(follower: StateFollower, writers: Iterable[WriterReport], name: str) -> int:
    """The last batch that a store has of this part. Raises StoreError where it has none."""
    held = next((one for one in writers if one.name == name), None)
    own = f"{follower.checkpoint.query_id}.{follower.name}"
    if held is None or held.query_id.partition(BEGUN)[0] != own or held.last_batch is None:
        raise StoreError(f"the store has no batch of {own} by the writer {name}: copy it first")
    return held.last_batch


def verify(
    by_spark: pa.Table, store: Store, batch: int, rows: StoreRows, *, keep_deleted: bool
) -> Verdict:
    """Compares all rows of a store that has this batch and is not written meanwhile.

    by_spark: keys and values as `read_by_spark` finds them. Rows that the store alone has are no
    difference if it keeps deleted ones. Raises the errors of a read.
    """
    definition = store.metadata().definition
    expected: dict[str, Any] = {}
    repeated: set[str] = set()
    for key, value in _expected(rows.encoded(by_spark), definition):
        if key in expected:
            repeated.add(key)
        expected[key] = value
    found = dict(_found(store, definition))
    unlike = [
        key
        for key in {**expected, **found}
        if key in repeated
        or (
            expected.get(key, _MISSING) != found.get(key, _MISSING)
            and not (keep_deleted and key not in expected)
        )
    ]
    shown = tuple(
        f"{key} is the key of several rows of Spark"
        if key in repeated
        else _told(key, expected, found)
        for key in sorted(unlike)[:_SHOWN]
    )
    return Verdict(batch, by_spark.num_rows, len(unlike), shown)


def _told(key: str, expected: dict[str, Any], found: dict[str, Any]) -> str:
    if key not in found:
        return f"{key} is not in the store"
    if key not in expected:
        return f"{key} is in the store alone"
    return f"{key} has another value in the store"


def _expected(
    rows: Iterable[tuple[tuple[Any, ...], bytes]], definition: StoreDefinition
) -> Iterator[tuple[str, Any]]:
    key, value = serde_of(definition.key_serde), serde_of(definition.value_serde)
    for (stored, *times), held in rows:
        yield _shown(_json_of(key, stored), times), _json_of(value, held)


def _found(store: Store, definition: StoreDefinition) -> Iterator[tuple[str, Any]]:
    """The rows of a store; its client reads them as raw JSON."""
    if definition.type is StoreType.WINDOW:
        for window in store.windows(from_=0):
            yield _shown(_plain(window.key), [window.start]), _plain(window.value)
    elif definition.type is StoreType.SESSION:
        for session in store.sessions(end_from=0):
            times = [session.start, session.end]
            yield _shown(_plain(session.key), times), _plain(session.value)
    else:
        for row in store.range():
            yield _shown(_plain(row.key), []), _plain(row.value)


def _shown(key: Any, times: list[int]) -> str:
    """A key with its times as one text."""
    text = json.dumps(key, sort_keys=True, default=str, ensure_ascii=False)
    return " ".join([text, *map(str, times)])


def _json_of(serde: Serde, data: bytes) -> Any:
    if serde.name == _JSON:
        return _plain(data)
    return _plain(msgspec.json.encode(serde.to_json(serde.decode(data))))


def _plain(text: msgspec.Raw | bytes) -> Any:
    return json.loads(bytes(text), parse_float=Decimal)
