"""A simple model of one partition whose rows change their format, and its invariants."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from qss_core.formats.values import Format, convert_row
from qss_core.model import PartitionId
from qss_store.replicas.replica import Replica
from qss_store.storage.engine import FamilyView
from qss_store.storage.family_names import ColumnFamilies
from qss_store.storage.views.read_view import ReadView
from qss_testing.pods.stores import Cluster, configuration
from qss_testing.row_bytes import Record, encode_row

STEP_ROWS = 200
_ROWS = "rows-"


@dataclass(slots=True)
class FormatModel:
    """Each key's row, in all formats that it may have while some rows have not been moved."""

    format: Format
    rows: dict[bytes, set[tuple[Format, bytes]]] = field(default_factory=dict)

    def put(self, key: bytes, record: Record) -> None:
        self.rows[key] = {(self.format, encode_row(self.format, record))}

    def delete(self, key: bytes) -> None:
        self.rows.pop(key, None)

    def change(self, target: Format) -> None:
        """Changes the format; a row may or may not be moved before the next change."""
        for forms in self.rows.values():
            moved = {(self.format, convert_row(row, one, self.format)) for one, row in forms}
            forms |= moved
        self.format = target

    def shown(self, key: bytes) -> set[bytes]:
        """The rows that may be shown for a key."""
        return {convert_row(row, one, self.format) for one, row in self.rows[key]}

    def check(self, replica: Replica) -> None:
        """All ways of reading agree with each other and with the model."""
        view = shown(replica)
        assert view.format is self.format
        rows = dict(view.rows.scan())
        assert rows.keys() == self.rows.keys()
        assert all(row in self.shown(key) for key, row in rows.items())
        check_reads(view.rows, rows)
        check_places(replica)


def shown(replica: Replica) -> ReadView:
    """The view of a replica's readers."""
    assert replica.view is not None
    return replica.view


def check_reads(snapshot: FamilyView, rows: dict[bytes, bytes]) -> None:
    """Scans with any bounds in both directions, gets and batch gets return these rows."""
    ordered = sorted(rows.items())
    assert list(snapshot.scan()) == ordered, "one row for each key, in order"
    assert list(snapshot.scan(reverse=True)) == ordered[::-1]
    keys = sorted(rows)
    asked = [*keys, *(key + b"\x00" for key in keys), b"\xff" * 30]
    for key in asked:
        assert snapshot.get(key) == rows.get(key)
    assert snapshot.get_many(asked) == [rows.get(key) for key in asked]
    for lower, upper in _bounds(keys):
        inside = [
            row
            for row in ordered
            if (lower is None or row[0] >= lower) and (upper is None or row[0] < upper)
        ]
        assert list(snapshot.scan(lower=lower, upper=upper)) == inside
        assert list(snapshot.scan(lower=lower, upper=upper, reverse=True)) == inside[::-1]


def _bounds(keys: list[bytes]) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Bounds at rows, between rows, and open ones."""
    some = [None, *keys[:: max(1, len(keys) // 4)], *(one + b"\x00" for one in keys[-2:])]
    return ((lower, upper) for lower in some for upper in some)


def check_places(replica: Replica) -> None:
    """No key is in two families."""
    engine = replica.engine
    keys = [
        key
        for family in engine.families()
        if family.startswith(_ROWS)
        for key, _ in engine.scan(family)
    ]
    assert len(keys) == len(set(keys)), "a row lies in two families"


def families_of(replica: Replica) -> ColumnFamilies:
    """The families of the shown rows."""
    generation = replica.machine.participant.data_generation
    return ColumnFamilies.of(replica.definition, generation)


def sources_of(replica: Replica) -> list[str]:
    """The families that have rows of older formats."""
    sources = families_of(replica).sources(replica.engine.families())
    return [source.family for source in sources]


async def change_format(cluster: Cluster, target: str) -> None:
    """Assigns another format to all pods, like the operator."""
    cluster.definition = msgspec.structs.replace(cluster.definition, format=target)
    pods = len(cluster.nodes)
    await cluster.assign([configuration(p, p % pods) for p in range(cluster.partitions)])


async def move_all(replica: Replica, step_rows: int = STEP_ROWS) -> int:
    """Moves all remaining rows; returns their number."""
    moved = 0
    while step := await replica.format_change.move_rows(step_rows):
        moved += step.rows
        await asyncio.sleep(0)
    return moved


def only_replica(cluster: Cluster) -> Replica:
    """The replica of a store of one partition on one pod."""
    return cluster.nodes[0].pod.registry.replicas[PartitionId(0)]
