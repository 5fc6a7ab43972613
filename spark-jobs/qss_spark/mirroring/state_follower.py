"""Reads one part of a query's state: the whole of it, then the changes of each batch."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from qss_spark.mirroring.rows.opaque_buffers import opaque_names, without
from qss_spark.mirroring.rows.time_to_live import unwrapped, unwrapped_fields
from qss_spark.state.checkpoint import Batch, Checkpoint
from qss_spark.state.errors import CheckpointError, StateGoneError
from qss_spark.state.inventory import TIMERS, Inventory, Item, Place, layout_of, parts_of
from qss_spark.state.records import Kind, Records
from qss_spark.state.snapshots import RawState, changes_of, raw_state
from qss_spark.state.tables import Layout, Shape, keys_of, of_family, table_of


@dataclass(frozen=True, slots=True)
class Folded:
    """The changes of a batch in one partition of the state, as bytes."""

    changed: RawState
    deleted: list[bytes]


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of a batch: the new values of keys, and the keys that are gone."""

    batch: int
    offsets: bytes  # The entry of the offset log, unchanged.
    identity: str  # As `Checkpoint.identity`, from before the state was read.
    changed: pa.Table
    deleted: pa.StructArray
    before: pa.Table  # The rows that the keys of both had; none where values are not kept.
    partitions: int  # In so many partitions Spark keeps the state after the batch.
    is_whole: bool
    kept: tuple[Folded, ...] = ()  # The changes of each partition, where values are kept.


class MovedStateError(StateGoneError):
    """The batch keeps its state in other partitions than before, so its changes cannot be read."""


class StateFollower:
    """Follows one part of the state of a checkpoint.

    Lists are kept in memory: a batch appends to them, and a store has whole values. Other values
    are kept after `keep_values`. `take` is called once a batch is written.
    """

    def __init__(self, path: Path, operator: int | None, part: str | None) -> None:
        """Chooses the part. Raises CheckpointError where it is not there, or not the only one."""
        found = Inventory(path)
        item = _chosen(found.items, operator, part)
        if item.place is None or item.reason is not None:
            raise CheckpointError(item.reason or "its columns are not known")
        self.checkpoint = Checkpoint(path)
        self.name = f"{item.operator}.{item.part}" if item.part else str(item.operator)
        self.place: Place = item.place
        self.opaque = opaque_names(item.place)  # Columns of the values that no store has.
        self._keeps_rows = False
        self._kept: list[RawState] = []  # Of each partition.
        self._partitions: int | None = None

    def keep_values(self) -> None:
        """Keeps all values, for `Changes.before`. Called before the first batch."""
        self._keeps_rows = True

    def whole(self, number: int) -> Changes:
        """All keys and values after a committed batch. Raises CheckpointError, StateGoneError."""
        identity = self.checkpoint.identity(number)
        batch, layout = self._batch(number)
        states = self._states(batch, layout)
        return Changes(
            batch=number,
            offsets=self.checkpoint.offsets(number),
            identity=identity,
            changed=self._tables(states, layout),
            deleted=keys_of([], layout),
            before=self._tables([{}], layout),
            partitions=batch.partitions,
            is_whole=True,
            kept=tuple(Folded(state, []) for state in states) if self._keeps else (),
        )

    def changes(self, number: int) -> Changes:
        """The changes of a committed batch. Raises CheckpointError, StateGoneError."""
        identity = self.checkpoint.identity(number)
        batch, layout = self._batch(number)
        if self._partitions not in (None, batch.partitions):
            raise MovedStateError(f"batch {number} has its state in other partitions than before")
        found: list[Folded] = []
        before: RawState = {}
        for place, part in enumerate(parts_of(batch, self.place)):
            records = changes_of(self.checkpoint, batch, part)
            if layout.family is not None:
                records = records.of_family(layout.family)
            held = self._kept[place] if self._keeps else {}
            one = _folded(records, held, layout)
            found.append(one)
            if self._keeps_rows:
                before |= {key: held[key] for key in (*one.changed, *one.deleted) if key in held}
        return Changes(
            batch=number,
            offsets=self.checkpoint.offsets(number),
            identity=identity,
            changed=self._tables([one.changed for one in found], layout),
            deleted=pa.concat_arrays([keys_of(one.deleted, layout) for one in found]),
            before=self._tables([before], layout),
            partitions=batch.partitions,
            is_whole=False,
            kept=tuple(found) if self._keeps else (),
        )

    def kept_columns(self, number: int) -> pa.Schema:
        """The columns `key` and `value` as Spark keeps them after a committed batch."""
        _, layout = self._batch(number)
        return table_of({}, layout).schema

    def shown(self, kept: pa.Table, number: int) -> pa.Table:
        """Rows with the columns of `kept_columns` as `whole` has them."""
        _, layout = self._batch(number)
        return self._shown(kept, layout)

    def take(self, changes: Changes) -> None:
        """The store has this batch: the next changes are from the batches after it."""
        self._partitions = changes.partitions
        if changes.is_whole:
            self._kept = [one.changed for one in changes.kept]
            return
        for state, one in zip(self._kept, changes.kept, strict=True):
            state |= one.changed
            for key in one.deleted:
                state.pop(key, None)

    def go_on(self, number: int) -> None:
        """Begins behind a batch that a store already has. Raises StateGoneError."""
        batch, layout = self._batch(number)
        self._partitions = batch.partitions
        if self._keeps:
            self._kept = list(self._states(batch, layout))

    @property
    def _keeps(self) -> bool:
        return self._keeps_rows or self.place.shape is Shape.LIST

    def _batch(self, number: int) -> tuple[Batch, Layout]:
        batch = self.checkpoint.batch(number)
        return batch, layout_of(self.checkpoint, batch, self.place)

    def _tables(self, states: Iterable[RawState], layout: Layout) -> pa.Table:
        return self._shown(pa.concat_tables([table_of(state, layout) for state in states]), layout)

    def _shown(self, kept: pa.Table, layout: Layout) -> pa.Table:
        """The rows, whose values with a time to live are unwrapped; nothing in them is opaque."""
        if not self.place.has_expiry:
            return without(kept, self.opaque)
        return unwrapped(kept, unwrapped_fields(layout.schema.value))

    def _states(self, batch: Batch, layout: Layout) -> tuple[RawState, ...]:
        return tuple(
            of_family(raw_state(self.checkpoint, batch, part), layout.family)
            for part in parts_of(batch, self.place)
        )


def _chosen(items: list[Item], operator: int | None, part: str | None) -> Item:
    found = [
        one
        for one in items
        if (operator is None or one.operator == operator) and (part is None or one.part == part)
    ]
    if part is None and len(found) > 1:
        found = [one for one in found if one.part != TIMERS]  # Spark keeps them with any variable.
    if len(found) == 1:
        return found[0]
    there = ", ".join(f"--operator {one.operator} --part {one.part or repr('')}" for one in items)
    if not items:
        raise CheckpointError("the query keeps no state")
    what = "has no such part" if not found else "has several parts"
    raise CheckpointError(f"the state {what}: choose one of {there}")


def _folded(records: Records, held: RawState, layout: Layout) -> Folded:
    """The new values and the keys that are gone: of several records of a key the last one counts.

    `held` is the state before, if values are lists.
    """
    data = records.data.tobytes()
    changed: RawState = {}
    deleted: dict[bytes, None] = {}
    columns = (records.kinds, records.keys, records.key_sizes, records.values, records.value_sizes)
    for kind, key_at, key_size, at, size in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        key, value = data[key_at : key_at + key_size], data[at : at + size]
        if kind == Kind.DELETE:
            changed.pop(key, None)
            deleted[key] = None
            continue
        if kind == Kind.MERGE:
            if layout.shape is not Shape.LIST:
                raise CheckpointError("a value is appended to, and is no list: it cannot be read")
            is_new = key in deleted or key not in held
            value = changed.get(key, b"" if is_new else held[key]) + value
        changed[key] = value
        deleted.pop(key, None)
    return Folded(changed, list(deleted))
