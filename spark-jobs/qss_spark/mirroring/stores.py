"""Makes the resources of stores that fit the parts of a state, as YAML for `qss up` and kubectl."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import yaml

from qss_core.errors import MalformedRequestError
from qss_spark.mirroring.rows.opaque_buffers import note_of
from qss_spark.state.inventory import TIMERS, Inventory, Item
from qss_spark.state.types import Field, Struct

_JSON = "json"  # Each column of the state may be null, and no other serde has null.
_NO_NAME = re.compile("[^a-z0-9]+")
_NAME_MAX = 50
_PARTITIONS_MAX = 84
_WINDOW, _SESSION = "window", "session_window"
_TIMES = ("timestamp", "timestamp_ntz")
_US = 1000


@dataclass(frozen=True, slots=True)
class FittingStore:
    """The resource of a store for one part of a state; `notes` are for the person who uses it."""

    item: Item
    resource: dict[str, Any]
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the store."""
        return str(self.resource["metadata"]["name"])


def fitting_stores(found: Inventory, name: str, *, is_local: bool) -> list[FittingStore]:
    """A store for each part that can be copied, named after the query and the part.

    Timers get one where some are registered.

    is_local: for `qss up`, whose pods check no callers. Raises MalformedRequestError where no part
    can be copied.
    """
    items = [
        one
        for one in map(found.counted, found.items)
        if one.place and not one.reason and (one.rows or one.part != TIMERS)
    ]
    if not items:
        raise MalformedRequestError("no part of this state can be copied: see the list for why")
    several = len({one.operator for one in items}) > 1
    made: list[FittingStore] = []
    for one in items:
        parts = [name, *([str(one.operator)] if several else []), *([one.part] if one.part else [])]
        taken = {store.name for store in made}
        made.append(_store(found, one, _other_than(taken, name_of("-".join(parts)))))
    if is_local:
        for store in made:
            store.resource["spec"]["access"] = {"authentication": "None"}
    return made


def yaml_of(stores: list[FittingStore]) -> str:
    """The resources as YAML documents, each below its notes."""
    texts = []
    for one in stores:
        notes = "".join(f"# {note}\n" for note in one.notes)
        texts.append(notes + yaml.safe_dump(one.resource, sort_keys=False, width=120))
    return "---\n".join(texts)


def mirror_file_of(stores: list[FittingStore], writer: str) -> str:
    """The file of `qss mirror --file` that copies each part into its store."""
    copies = [
        {"store": one.name, "operator": one.item.operator, "part": one.item.part} for one in stores
    ]
    return yaml.safe_dump({"writer": writer, "stores": copies}, sort_keys=False, width=120)


def name_of(text: str) -> str:
    """A name of Kubernetes made of any text."""
    name = _NO_NAME.sub("-", text.lower())[:_NAME_MAX].strip("-")
    return name or "state"


def _other_than(taken: set[str], name: str) -> str:
    """The name, with a number where it is taken: variables may differ in letters a name lacks."""
    numbered = (f"{name}-{number}" for number in count(2))
    return next(one for one in chain((name,), numbered) if one not in taken)


def has_windows(columns: Sequence[Field]) -> bool:
    """Whether keys have Spark's windows beside other columns; a user's column may be so named."""
    spans = [one.type for one in columns if one.name == _WINDOW and isinstance(one.type, Struct)]
    return len(columns) > 1 and any(
        [member.name for member in span.fields] == ["start", "end"]
        and all(member.type in _TIMES for member in span.fields)
        for span in spans
    )


def _store(found: Inventory, item: Item, name: str) -> FittingStore:
    assert item.place is not None, "it can be copied"
    columns = item.place.schema.key
    kind: dict[str, Any] = {"type": "KeyValue"}
    notes = [one] if (one := note_of(item.place)) else []
    if has_windows(columns):
        size_ms = _window_ms(found.table(item))
        if size_ms is None:
            notes += [
                "No window is open now. A Window store needs the size of the query's windows."
            ]
        else:
            kind = {
                "type": "Window",
                "window": {"size": _duration(size_ms), "retention": _duration(_retained(size_ms))},
            }
            notes += ["Windows older than the retention are not kept: see --keep-deleted."]
    elif any(one.name == _SESSION for one in item.place.schema.value):
        notes += ["A Session store (type: Session) needs the gap of the query's sessions."]
    return FittingStore(
        item=item,
        notes=tuple(notes),
        resource={
            "apiVersion": "queryablestate.dev/v1alpha1",
            "kind": "QueryableStateStore",
            "metadata": {"name": name},
            "spec": {
                "store": {**kind, "key": {"serde": _JSON}, "value": {"serde": _JSON}},
                "partitions": min(found.batch.partitions, _PARTITIONS_MAX),
            },
        },
    )


def _window_ms(table: pa.Table) -> int | None:
    """The length of the windows of a state; None where none is open."""
    if table.num_rows == 0:
        return None
    window = pc.struct_field(table.column("key"), _WINDOW)
    start, end = (
        pc.struct_field(window, one)[0].cast(pa.int64()).as_py() for one in ("start", "end")
    )
    return int(end - start) // _US


def _retained(size_ms: int) -> int:
    """A day, or ten windows if they are longer."""
    return max(24 * 3_600_000, 10 * size_ms)


def _duration(ms: int) -> str:
    for unit, name in ((3_600_000, "h"), (60_000, "m"), (1000, "s")):
        if ms % unit == 0:
            return f"{ms // unit}{name}"
    return f"{ms}ms"
