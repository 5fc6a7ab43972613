"""The rows of batches by the type of the store: the last one of a key, or every put.

A KeyValue store shows the last batch of a key. A Window store that retains duplicates keeps every
put, so that a batch that is applied twice shows twice. There each batch has a window of its own.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

from qss_client.chunks.chunk import Slice
from qss_client.http.answer import HttpAnswer
from qss_client.reads.responses import failure_of
from qss_core.model import StoreDefinition
from qss_core.positions import Position, decode_token
from qss_faults.history import SHARED_KEYS, Batches, own_key, value_at
from qss_faults.plan import DUPLICATES
from qss_testing.pods.stores import Put, slice_of
from qss_testing.writers.writer import Record, slices

NEWEST = 60  # A scan reads the rows of so many batches.
_WINDOW_MS, _END_MS = 1000, 10**12
_SERDES = {"key": {"serde": "string"}, "value": {"serde": "json"}}


class Point(NamedTuple):
    """The answer of one replica for one shared key."""

    by: str
    position: Position
    sequence: int
    pairs: list[tuple[str, int]]


class Content(Protocol):
    """Rows are named by a text, which a pair has with its value."""

    spec: ClassVar[Mapping[str, Any]]  # `spec.store` of the resource.

    def slices(self, definition: StoreDefinition, batch: int) -> list[Slice]:
        """The rows of a batch, as its writer sends them."""
        ...

    def path(self, store: str, key: str, last: int) -> str:
        """The request for a shared key, with the newest rows up to a batch; it ends open."""
        ...

    def point(self, answer: HttpAnswer) -> Point:
        """The answer to that request. Raises the StoreError of a failure inside it."""
        ...

    def expected(self, key: str, number: int, last: int, batch: int) -> dict[str, int]:
        """The rows of that request, as of a batch; `number` is the key's among the shared ones."""
        ...

    def query(self, last: int) -> dict[str, Any]:
        """An IQv2 query for the newest rows of all partitions, up to a batch."""
        ...

    def queried(self, partition: int, last: int, batch: int) -> dict[str, int]:
        """The rows of that query in a partition, as of a batch."""
        ...

    def scan_path(self, store: str) -> str:
        """The request for all rows of some partitions; it ends open."""
        ...

    def rows_at(self, partition: int, batch: int) -> dict[str, int]:
        """All rows of a partition, as of a batch."""
        ...

    def pair(self, row: Mapping[str, Any]) -> tuple[str, int]:
        """A row of an answer: its name and its value."""
        ...


@dataclass(frozen=True, slots=True)
class KeyValues:
    """A KeyValue store: shared keys have their last value, own keys come once."""

    batches: Batches
    spec: ClassVar[Mapping[str, Any]] = {
        "type": "KeyValue",
        "key": {"serde": "string"},
        "value": {"serde": "json"},
    }

    def slices(self, definition: StoreDefinition, batch: int) -> list[Slice]:
        rows = self.batches.rows_of(batch)
        return slices(definition, [Record(key, value) for key, value in rows.items()])

    def path(self, store: str, key: str, last: int) -> str:
        return f"/state/stores/{store}/{key}?scope=local"

    def point(self, answer: HttpAnswer) -> Point:
        headers = answer.headers
        return Point(
            by=headers["queryable-state-served-by"],
            position=decode_token(headers["queryable-state-position"]),
            sequence=int(headers["queryable-state-sequence"]),
            pairs=[self.pair(json.loads(answer.body))],
        )

    def expected(self, key: str, number: int, last: int, batch: int) -> dict[str, int]:
        return {key: value_at(number, batch)}

    def query(self, last: int) -> dict[str, Any]:
        # Shared keys come after the batches' own keys.
        upper = own_key(10**8 - 1)
        return {"type": "RangeQuery", "lower": own_key(max(0, last - NEWEST)), "upper": upper}

    def queried(self, partition: int, last: int, batch: int) -> dict[str, int]:
        return self.batches.owned(partition, last - NEWEST, batch)

    def scan_path(self, store: str) -> str:
        return f"/state/stores/{store}?scope=local"

    def rows_at(self, partition: int, batch: int) -> dict[str, int]:
        return self.batches.rows_at(partition, batch)

    def pair(self, row: Mapping[str, Any]) -> tuple[str, int]:
        return row["key"], row["value"]


@dataclass(frozen=True, slots=True)
class Puts:
    """A Window store that retains duplicates: each put of each batch is a row."""

    batches: Batches
    spec: ClassVar[Mapping[str, Any]] = {
        "type": "Window",
        **_SERDES,
        "window": {"size": "1s", "retention": "744h", "retainDuplicates": True},
    }

    def slices(self, definition: StoreDefinition, batch: int) -> list[Slice]:
        puts: dict[int, list[Put]] = {}
        for key, value in sorted(self.batches.rows_of(batch).items()):
            put = Put(key.encode(), b"%d" % value, start=_WINDOW_MS * batch)
            puts.setdefault(self.batches.partition_of(key), []).append(put)
        return [slice_of(definition, partition, rows) for partition, rows in puts.items()]

    def path(self, store: str, key: str, last: int) -> str:
        return f"/state/windows/{store}/{key}?from={self._start(last)}&scope=local"

    def point(self, answer: HttpAnswer) -> Point:
        document = json.loads(answer.body)
        (partition,) = document["partitions"].values()
        if "failure" in partition:
            raise failure_of(partition["failure"])
        return Point(
            by=f"{partition['servedBy']} ({partition['role']})",
            position=Position.from_json(partition["position"]),
            sequence=partition["sequence"],
            pairs=[self.pair(row) for row in document["rows"]],
        )

    def expected(self, key: str, number: int, last: int, batch: int) -> dict[str, int]:
        found = range(max(0, last - NEWEST), batch + 1)
        return {_named(key, n): n for n in found if n % SHARED_KEYS == number}

    def query(self, last: int) -> dict[str, Any]:
        return {"type": "WindowRangeQuery", "timeFrom": self._start(last), "timeTo": _END_MS}

    def queried(self, partition: int, last: int, batch: int) -> dict[str, int]:
        return self._rows(partition, last - NEWEST, batch)

    def scan_path(self, store: str) -> str:
        return f"/state/windows/{store}?from=0&scope=local"

    def rows_at(self, partition: int, batch: int) -> dict[str, int]:
        return self._rows(partition, 0, batch)

    def pair(self, row: Mapping[str, Any]) -> tuple[str, int]:
        return _named(row["key"], row["windowStart"] // _WINDOW_MS), row["value"]

    def _start(self, last: int) -> int:
        return _WINDOW_MS * max(0, last - NEWEST)

    def _rows(self, partition: int, first: int, last: int) -> dict[str, int]:
        return {
            _named(key, batch): batch
            for batch in range(max(0, first), last + 1)
            for key in self.batches.rows_of(batch)
            if self.batches.partition_of(key) == partition
        }


def _named(key: str, batch: int) -> str:
    return f"{key}@{batch}"


def content_of(name: str, batches: Batches) -> Content:
    """The content of a store by its name in a plan."""
    return Puts(batches) if name == DUPLICATES else KeyValues(batches)
