"""Writes rows into a running store like a job: open, stage, commit."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pyarrow as pa

from qss_client.chunks.chunk import Slice, encode_slice
from qss_client.http.retries import RetryLimits
from qss_client.http.sync_http import SyncHttp
from qss_client.writes.batch import WRITE_LIMITS, Run, commit, discover, open_writer, stage
from qss_core.model import StoreDefinition
from qss_core.partitioning import partition_of
from qss_core.positions import PositionJson
from qss_core.serdes.registry import Serde, serde_of

Headers = tuple[tuple[str, bytes | None], ...]
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@dataclass(frozen=True, slots=True)
class Record:
    """A row to write: key and value as JSON of their types; a None value deletes.

    A msgspec.Raw is stored byte for byte.
    """

    key: Any
    value: Any
    timestamp: int | None = None
    headers: Headers = ()
    partition: int | None = None  # For stores whose writer chooses it.


_PATIENT = replace(WRITE_LIMITS, first_contact_s=60.0)


class Writer:
    """An opened writer of one store; each `write` is a batch. `http` are options of SyncHttp."""

    def __init__(self, url: str, store: str, name: str = "test", **http: Any) -> None:
        self.http = SyncHttp(**http)
        metadata = discover(self.http, url, store, _PATIENT)
        self._definition = metadata.definition
        self.run: Run = open_writer(
            self.http, metadata, name, query_id=name, run_id=name, take_over=True
        )
        last = self.run.opened.last_batch
        self.batch = 0 if last is None else last + 1

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def write(
        self,
        rows: Iterable[Record],
        *,
        position: PositionJson | None = None,
        replace: bool = False,
        limits: RetryLimits = WRITE_LIMITS,
    ) -> None:
        """Stages and commits a batch; `limits` are those of the staging."""
        self.write_slices(slices(self._definition, rows), position, limits, replace=replace)

    def write_slices(
        self,
        pieces: list[Slice],
        position: PositionJson | None = None,
        limits: RetryLimits = WRITE_LIMITS,
        *,
        replace: bool = False,
    ) -> None:
        """Writes a batch of slices, which may have times; as `write`."""
        staged = stage(self.http, self.run, self.batch, f"b{self.batch}", pieces, limits)
        commit(
            self.http,
            self.run,
            self.batch,
            staged,
            position=position or {},
            fingerprint=str(self.batch),
            replace=replace,
        )
        self.batch += 1


def write_values(url: str, store: str, values: dict[Any, Any]) -> None:
    """Writes one batch of values by their keys, with a new writer."""
    with Writer(url, store) as writer:
        writer.write(Record(key, value) for key, value in values.items())


def slices(definition: StoreDefinition, rows: Iterable[Record]) -> list[Slice]:
    """The rows by partition, sorted, in the store's bytes."""
    key, value = serde_of(definition.key_serde), serde_of(definition.value_serde)
    by_partition: dict[int, list[tuple[bytes, bytes | None, Record]]] = {}
    for row in rows:
        data = _encoded(key, row.key)
        partition = row.partition
        if partition is None:
            partition = partition_of(data, definition.partitions)
        encoded = None if row.value is None else _encoded(value, row.value)
        by_partition.setdefault(partition, []).append((data, encoded, row))
    return [
        encode_slice(partition, _table(sorted(found, key=lambda one: one[0])))
        for partition, found in by_partition.items()
    ]


def _encoded(serde: Serde, value: Any) -> bytes:
    if isinstance(value, msgspec.Raw):
        return bytes(value)
    return serde.encode(serde.from_json(value))


def _table(rows: list[tuple[bytes, bytes | None, Record]]) -> pa.Table:
    headers = [[{"key": k, "value": v} for k, v in row.headers] for _, _, row in rows]
    return pa.table(
        {
            "key": pa.array([key for key, _, _ in rows], pa.binary()),
            "value": pa.array([value for _, value, _ in rows], pa.binary()),
            "timestamp": pa.array([row.timestamp for _, _, row in rows], pa.int64()),
            "headers": pa.array(headers, _HEADERS),
        }
    )
