"""Reads which store a volume was written for: the pod keeps its assignment beside the data.

The stored resource can be deleted or edited by a person. Rows that were written with another
schema would then be decoded wrongly, without an error.
"""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from qss_core.errors import StoreError
from qss_core.model import StoreId, StoreName
from qss_core.spec.fixed_members import schema_differences
from qss_core.spec.resource import StoreSpec, decode_spec, definition_of
from qss_core.text import listed
from qss_operator.errors import InvalidResourceError
from qss_operator.local.directory.misplaced import (
    has_lost_schema,
    kept_definition,
    resource_of,
    schema_of_rows,
)
from qss_operator.local.directory.state import StateDirectory


def refuse_other_data(
    state: StateDirectory, name: StoreName, spec: StoreSpec, uid: str | None
) -> None:
    """Raises InvalidResourceError where pods keep data that was written with another schema.

    A volume that says nothing, or whose file is damaged, is left to its pod and its databases; so
    is one of an earlier store with this name. `uid` is that of the stored resource; None where none
    is stored. Raises it also for the volume of a store with another name.
    """
    wanted = definition_of(name, StoreId(""), spec)
    status = state.read_status(name)
    others: dict[Path, list[str]] = {}
    unknown = _of_unknown_schema(state, name)
    for directory in sorted((state.path / name).glob("pod-*/data")):
        kept = kept_definition(directory)
        if kept is None:
            continue
        is_of_stored = uid is not None and (
            resource_of(directory, kept.store_id) == uid
            or (status is not None and kept.store_id == status.store_id)
        )
        if kept.name != name and not is_of_stored:
            raise InvalidResourceError(
                f"the data in {directory} is that of store {kept.name}: put the folders of pods "
                "back where they were; nothing is lost"
            )
        differences = [] if directory in unknown else schema_differences(kept, wanted)
        if differences and (is_of_stored or uid is None):
            others[directory] = differences
    if others:
        raise InvalidResourceError(_other_schema(others))


def _other_schema(others: Mapping[Path, Sequence[str]]) -> str:
    """The words for volumes with another schema, with their differences."""
    first, differences = next(iter(others.items()))
    deleted = shlex.join(str(directory) for directory in others)
    # A person can edit or exchange an assignment, and the databases were not asked yet.
    unasked = [str(one / "assignment.json") for one in others if schema_of_rows(one) is None]
    asked = ""
    if unasked:
        asked = (
            f"{listed(unasked)} says so: if it was edited, undo the edit there and nothing is "
            "lost, as the databases serve no rows of another schema. "
        )
    return (
        f"the data in {first} was written with {' and '.join(differences)}: give the file of the "
        f"store as it was, or choose another metadata.name. {asked}`rm -r {deleted}` deletes the "
        f"data of {listed([directory.parent.name for directory in others])} for good"
    )


def is_of_data(state: StateDirectory, name: StoreName, stored: dict[str, Any]) -> bool:
    """Whether the data can be read by the stored resource, which a person may have edited.

    It cannot where every volume is of another resource: no pod has ever taken the stored one. It
    may not where the databases have refused a schema, and nobody knows which.
    """
    if _of_unknown_schema(state, name):
        return False
    volumes = (state.path / name).glob("pod-*/data")
    said = {_said_resource(one) for one in volumes if any(one.glob("partitions/*"))}
    if said and None not in said and uid_of(stored) not in said:
        return False
    try:
        refuse_other_data(state, name, decode_spec(stored.get("spec") or {}), uid_of(stored))
    except StoreError:
        return False
    return True


def _of_unknown_schema(state: StateDirectory, name: StoreName) -> list[Path]:
    """The volumes whose assignments may have another schema than their databases.

    A store that runs has the schema of its databases, or its pods write it anew each second.
    """
    volumes = (state.path / name).glob("pod-*/data")
    lost = [one for one in volumes if has_lost_schema(one)]
    return lost if lost and name not in state.running() else []


def uid_of(stored: dict[str, Any]) -> str | None:
    """The uid of a stored resource; None where a person put a file without it in its place."""
    uid: str | None = (stored.get("metadata") or {}).get("uid")
    return uid


def uid_on_volumes(state: StateDirectory, name: StoreName) -> str | None:
    """The uid of the resource that all volumes of a store name, where the status is of their store.

    Where the stored resource alone was moved away, the store's file goes on with the data. None
    where the volumes differ, or the status is gone, too: then the data is that of a deleted store.
    """
    status = state.read_status(name)
    volumes = [
        one for one in (state.path / name).glob("pod-*/data") if any(one.glob("partitions/*"))
    ]
    stores = {kept.store_id if (kept := kept_definition(one)) else None for one in volumes}
    if status is None or stores != {status.store_id}:
        return None
    said = {_said_resource(one) for one in volumes}
    return said.pop() if len(said) == 1 else None


def _said_resource(volume: Path) -> str | None:
    """The uid of the resource that a volume is of; None where the volume does not say it."""
    kept = kept_definition(volume)
    return resource_of(volume, kept.store_id if kept else "") or None
