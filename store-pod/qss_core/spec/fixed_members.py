"""The members of a store's definition that stay as long as its rows: another one misreads them."""

from msgspec.structs import replace

from qss_core.errors import WrongStoreError
from qss_core.model import StoreDefinition, StoreType
from qss_core.quantities import shown_duration

# With the place where the resource has them; the schema of the resource lets none of them change.
_PLACES = {
    "type": "spec.store.type",
    "key_serde": "spec.store.key.serde",
    "value_serde": "spec.store.value.serde",
    "partitioner": "spec.store.partitioner",
    "partitions": "spec.partitions",
    "window_size_ms": "spec.store.window.size",
    "retain_duplicates": "spec.store.window.retainDuplicates",
    "session_gap_ms": "spec.store.session.gap",
    # The length of a segment comes from it, and the name of a column family has only its number.
    "retention_ms": "spec.store.{block}.retention",
    "history_retention_ms": "spec.store.versioned.historyRetention",
    "custom_name": "spec.store.custom.name",
    "custom_options": "spec.store.custom.options",
}

WRITTEN_WITH = "the data on this volume was written with"


class OtherSchemaError(WrongStoreError):
    """Rows were written with another schema; `kept` is the definition that they have."""

    def __init__(self, message: str, kept: StoreDefinition) -> None:
        super().__init__(message)
        self.kept = kept


def schema_differences(kept: StoreDefinition, wanted: StoreDefinition) -> list[str]:
    """The members that differ, for a person: `spec.store.value.serde json, not int64`."""
    block = "session" if StoreType.SESSION in (kept.type, wanted.type) else "window"
    return [
        f"{place.format(block=block)} {_told(member, before)}, not {_told(member, after)}"
        for member, place in _PLACES.items()
        if (before := getattr(kept, member)) != (after := getattr(wanted, member))
    ]


def check_schema(kept: StoreDefinition, wanted: StoreDefinition) -> None:
    """Raises OtherSchemaError where rows of the definition `kept` would be misread by another."""
    if differences := schema_differences(kept, wanted):
        raise OtherSchemaError(
            f"{WRITTEN_WITH} {' and '.join(differences)}: the resource has to have its schema as "
            "it was",
            kept,
        )


def with_schema_of(kept: StoreDefinition, definition: StoreDefinition) -> StoreDefinition:
    """A definition with the schema of rows that have the definition `kept`."""
    members = {member: getattr(kept, member) for member in _PLACES}
    # Another type may lack the format.
    form = definition.format if kept.type == definition.type else kept.format
    return replace(definition, **members, format=form)


def _told(member: str, value: object) -> str:
    match value:
        case None:
            return "unset"
        case bool():
            return str(value).lower()
        case tuple():
            return str(dict(value))
        case int() if member.endswith("_ms"):
            return shown_duration(value)
    return str(value)
