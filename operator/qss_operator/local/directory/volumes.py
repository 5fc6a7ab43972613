"""Reads which store a volume was written for: the pod keeps its assignment beside the data.

The stored resource can be deleted or edited by a person. Rows that were written with another
schema would then be decoded wrongly, without an error.
"""

from pathlib import Path

from qss_core.errors import MalformedRequestError
from qss_core.model import StoreAssignment, StoreDefinition, StoreId, StoreName
from qss_core.spec.resource import StoreSpec, definition_of
from qss_core.wire.messages import decode
from qss_operator.errors import InvalidResourceError
from qss_operator.local.directory.state import StateDirectory

# The members of a definition that no resource may change, and where the resource has them.
_FIXED = {
    "type": "spec.store.type",
    "key_serde": "spec.store.key.serde",
    "value_serde": "spec.store.value.serde",
    "partitioner": "spec.store.partitioner",
    "partitions": "spec.partitions",
    "window_size_ms": "spec.store.window.size",
    "retain_duplicates": "spec.store.window.retainDuplicates",
    "session_gap_ms": "spec.store.session.gap",
    "custom_name": "spec.store.custom.name",
    "custom_options": "spec.store.custom.options",
}


def refuse_other_data(state: StateDirectory, name: StoreName, spec: StoreSpec) -> None:
    """Raises InvalidResourceError where a pod keeps data that was written with another schema.

    A volume that says nothing, or whose file is damaged, is left to its pod.
    """
    wanted = definition_of(name, StoreId(""), spec)
    for directory in sorted((state.path / name).glob("pod-*/data")):
        kept = _kept_definition(directory)
        other = [] if kept is None else _differences(kept, wanted)
        if other:
            raise InvalidResourceError(
                f"the data in {directory} was written with {' and '.join(other)}: give the file "
                f"of the store as it was, or choose another metadata.name; `rm -r "
                f"{state.path / name}` deletes the data and lets the name begin anew"
            )


def _kept_definition(directory: Path) -> StoreDefinition | None:
    try:
        return decode((directory / "assignment.json").read_bytes(), StoreAssignment).definition
    except (OSError, MalformedRequestError):
        return None


def _differences(kept: StoreDefinition, wanted: StoreDefinition) -> list[str]:
    return [
        f"{path} {_told(before)}, not {_told(after)}"
        for member, path in _FIXED.items()
        if (before := getattr(kept, member)) != (after := getattr(wanted, member))
    ]


def _told(value: object) -> str:
    match value:
        case None:
            return "unset"
        case tuple():
            return str(dict(value))
    return str(value)
