"""Lists what the state of a checkpoint has: operators, variables, sides of joins, columns, rows.

Nothing but the checkpoint is needed, and nothing is written. The state is that of the newest
committed batch.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from qss_spark.state.checkpoint import Batch, Checkpoint, Operator, StoreInfo
from qss_spark.state.errors import CheckpointError
from qss_spark.state.schemas import DEFAULT, ENCODERS, TIME_BEHIND, StoreSchema, read_schemas
from qss_spark.state.snapshots import StorePart, column_families, raw_state
from qss_spark.state.tables import Layout, Shape, of_family, table_of
from qss_spark.state.types import Struct

_ENCODING = "unsaferow"
_INTERNAL = "$"  # Families that Spark keeps beside the variables begin with it.
_OF_JOINS = ("-keyToNumValues", "-tsWithKey")  # Spark's indexes of the rows of a side.
TIMER_FAMILIES = ("$eventTimers_keyToTimestamp", "$procTimers_keyToTimestamp")
TIMERS = "registered-timers"  # The part that has the timers of a stateful processor.
_SIDES = ("left", "right")
_WITH_EXPIRY = ["value", "ttlExpirationMs"]
# The operators in the words of Spark's guide; others keep the name of the checkpoint.
_NAMES = {
    "stateStoreSave": "aggregation",
    "sessionWindowStateStoreSaveExec": "session windows",
    "dedupe": "dropDuplicates",
    "dedupeWithinWatermark": "dropDuplicatesWithinWatermark",
    "symmetricHashJoin": "join",
    "globalLimit": "limit",
    "applyInPandasWithState": "applyInPandasWithState",
    "flatMapGroupsWithState": "flatMapGroupsWithState",
    "transformWithStateExec": "transformWithState",
    "transformWithStateInPandasExec": "transformWithState",
    "transformWithStateInPySparkExec": "transformWithState",
}


@dataclass(frozen=True, slots=True)
class Place:
    """The place of an item's bytes."""

    operator: Operator
    store: StoreInfo
    number: int  # The place of the store among those of its operator.
    schema: StoreSchema
    shape: Shape
    has_expiry: bool = False  # The columns are a value with a time to live, and its expiry.


@dataclass(frozen=True, slots=True)
class Item:
    """A part of the state that has keys and values of its own.

    `part` is a variable of a stateful processor, TIMERS, a side of a join, or "" for the only one.
    `rows` is their number, None where they were not counted, or cannot be read: `reason` says why.
    `place` is None where not even the columns are known.
    """

    operator: int
    name: str
    part: str = ""
    place: Place | None = None
    rows: int | None = None
    reason: str | None = None


class Inventory:
    """The parts of a checkpoint's state after its newest committed batch."""

    def __init__(self, path: Path) -> None:
        """Reads the state. Raises CheckpointError where no batch of it can be read.

        A part that cannot be read is listed with its reason.
        """
        self._checkpoint = Checkpoint(path)
        self.batch = self._checkpoint.batch(self._checkpoint.newest())
        self.items: list[Item] = []
        for operator in self._checkpoint.operators():
            item = Item(operator.number, _NAMES.get(operator.name, operator.name))
            try:
                places = list(_places(self._checkpoint, operator))
            except CheckpointError as error:
                self.items.append(replace(item, reason=error.message))
                continue
            for part, place in places:
                reason = place.schema.reason
                known = None if reason else place
                self.items.append(replace(item, part=part, place=known, reason=reason))

    def counted(self, item: Item) -> Item:
        """The item with the number of its rows, which are read for that, or with the reason."""
        if item.place is None:
            return item
        try:
            return replace(item, rows=self.table(item).num_rows)
        except CheckpointError as error:
            return replace(item, reason=error.message)

    def table(self, item: Item) -> pa.Table:
        """The keys and values of an item, as `tables.table_of`. Raises CheckpointError."""
        if item.place is None:
            raise CheckpointError(item.reason or "its columns are not known")
        return state_of(self._checkpoint, self.batch, item.place)


def state_of(checkpoint: Checkpoint, batch: Batch, place: Place) -> pa.Table:
    """The keys and values of a place after a batch, as `tables.table_of`."""
    layout = layout_of(checkpoint, batch, place)
    states = (raw_state(checkpoint, batch, part) for part in parts_of(batch, place))
    return pa.concat_tables([table_of(of_family(state, layout.family), layout) for state in states])


def parts_of(batch: Batch, place: Place) -> list[StorePart]:
    """The partitions of a place's store: one for an aggregation of all rows, which has no key."""
    partitions = batch.partitions if place.schema.key else 1
    return [
        StorePart(place.operator.number, partition, place.store.name, place.number)
        for partition in range(partitions)
    ]


def layout_of(checkpoint: Checkpoint, batch: Batch, place: Place) -> Layout:
    """The layout of the bytes of a place. Raises CheckpointError for files that cannot be read."""
    _check(batch, place.schema)
    families = {}
    if batch.is_rocksdb:
        families = column_families(checkpoint, parts_of(batch, place)[0])
    if place.schema.name != DEFAULT and place.schema.name not in families:
        raise CheckpointError(f"no snapshot names the column family of {place.schema.name} yet")
    return Layout(
        schema=place.schema,
        is_rocksdb=batch.is_rocksdb,
        prefix_columns=place.schema.prefix_columns or place.store.prefix_columns,
        family=families.get(place.schema.name),
        shape=place.shape,
    )


def _places(checkpoint: Checkpoint, operator: Operator) -> Iterator[tuple[str, Place]]:
    """The parts of an operator by their names, and where they are."""
    variables: dict[str, dict[str, Any]] = {
        str(one.get("stateName")): one for one in operator.properties.get("stateVariables", ())
    }
    for number, store in enumerate(operator.stores):
        for schema in _schemas(checkpoint, operator, store).values():
            part = _part_of(schema, store, set(variables))
            if part is None:
                continue
            variable = variables.get(schema.name, {})
            is_list = (
                variable.get("stateVariableType") == "ListState" or schema.encoder == TIME_BEHIND
            )
            yield (
                part,
                Place(
                    operator=operator,
                    store=store,
                    number=number,
                    schema=schema,
                    shape=Shape.LIST if is_list else Shape.ROW,
                    has_expiry=variable.get("ttlEnabled") is True and _has_expiry(schema),
                ),
            )


def _part_of(schema: StoreSchema, store: StoreInfo, variables: set[str]) -> str | None:
    """The name of the part that has this schema; None for a part that is not the query's own."""
    if schema.name in TIMER_FAMILIES:
        return TIMERS
    if variables:
        is_own = schema.name in variables and not schema.name.startswith(_INTERNAL)
        return schema.name if is_own else None
    # A join of format 3 keeps in families of one store what older ones keep in stores.
    name = store.name if schema.name == DEFAULT else schema.name
    if name.startswith(_INTERNAL) or name.endswith(_OF_JOINS):
        return None
    side = name.partition("-")[0]
    return side if side in _SIDES else ""


def _has_expiry(schema: StoreSchema) -> bool:
    names = [one.name for one in schema.value]
    return names == _WITH_EXPIRY and isinstance(schema.value[0].type, Struct)


def _schemas(
    checkpoint: Checkpoint, operator: Operator, store: StoreInfo
) -> dict[str, StoreSchema]:
    newer = checkpoint.path / "state" / str(operator.number) / "_stateSchema" / store.name
    files = [one for one in newer.glob("*_*") if one.name.partition("_")[0].isdigit()]
    if files:
        file = max(files, key=lambda one: int(one.name.partition("_")[0]))
    else:
        directory = checkpoint.store_directory(operator.number, 0, store.name)
        file = directory / "_metadata" / "schema"
    try:
        return read_schemas(file.read_bytes())
    except OSError as error:
        raise CheckpointError(f"{file} cannot be read: {error.strerror}") from error


def _check(batch: Batch, schema: StoreSchema) -> None:
    if batch.encoding != _ENCODING:
        raise CheckpointError(f"state in the encoding {batch.encoding} cannot be read")
    if batch.has_checksums:
        raise CheckpointError("state with checksums of rows cannot be read")
    if schema.encoder not in ENCODERS:
        raise CheckpointError(f"state whose keys are kept by {schema.encoder} cannot be read")
