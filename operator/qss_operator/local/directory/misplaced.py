"""Finds folders with another store than their name says, and the commands that put them back.

A person may have renamed the folder of a store, exchanged two of them, or copied one. A folder is
of the store that its resource names; where the resource is gone, its volumes say the store.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from qss_core.errors import MalformedRequestError
from qss_core.model import StoreAssignment, StoreDefinition, StoreName, Wire
from qss_core.quantities import shown_bytes
from qss_core.spec.fixed_members import with_schema_of
from qss_core.text import listed
from qss_core.wire.messages import decode
from qss_operator.errors import StateDirectoryError
from qss_operator.local.directory.files import read_yaml
from qss_operator.local.directory.moves import aside, move, put, put_all

Kept = TypeVar("Kept", bound=Wire)
_VOLUMES = "pod-*/data"
_SCHEMA_FILE = "schema-of-rows.json"


def refuse_beginning_empty(path: Path, store: StoreName) -> None:
    """Raises StateDirectoryError where a store without volumes has volumes in another folder.

    `path` is the state directory. The store's own volumes count, with rows or without; so do
    volumes that do not say their store.
    """
    own = {kept.name for kept in _kept_in(path / store).values()}
    if store in own or (not own and any((path / store).glob(f"{_VOLUMES}/partitions/*"))):
        return
    others = [folder for folder in _folders(path) if folder.name != store]
    ways = [
        told
        for folder in others
        if store in {kept.name for kept in _kept_in(folder).values()}
        and store_of(folder) == store
        and (told := way_back(path, folder.name))
    ]
    ways += [_pod_way_back(path, pod, store) for folder in others for pod in _pods(folder, store)]
    if ways:
        raise StateDirectoryError(
            f"store {store} would begin empty, although it has data: {'; '.join(ways)}"
        )


def way_back(path: Path, folder: str) -> str | None:
    """Names the store of a folder, and the commands that put the folder back.

    None if the folder has the store of its name. `path` is the state directory.
    """
    stores = {one.name: store for one in _folders(path) if (store := store_of(one))}
    chain = [folder]
    while (store := stores.get(chain[-1])) is not None and store not in chain:
        chain.append(store)
    if len(chain) == 1:
        return None
    if store is not None and store != chain[-1]:
        return _exchanged(path, chain[chain.index(store) :], stores)
    here, there = path / chain[-2], path / chain[-1]
    if there.exists():
        sizes = f"{here} has {_size_of(here)} of databases, and {there} has {_size_of(there)}"
        return (
            f"{here} is of store {there.name}, and {there} exists, too: {sizes}. "
            f"`{put(path, here, there)}` serves the rows of {here}, and "
            f"`{move(here, aside(path, here))}` leaves {here} aside"
        )
    held = listed([f"{path / one} is of store {of}" for one, of in pairwise(chain)])
    back = put_all(path, {path / one: path / of for one, of in pairwise(chain)})
    first = path / folder
    return (
        f"{held}: `{back}` puts it back and loses nothing; "
        f"`{move(first, aside(path, first))}` leaves {first} aside"
    )


def store_of(folder: Path) -> str | None:
    """The store that a folder is of; None where neither a resource nor a volume says it."""
    try:
        resource = read_yaml(folder / "resource.yaml")
    except StateDirectoryError:
        resource = None
    metadata = resource.get("metadata") if isinstance(resource, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if isinstance(name, str):
        return name
    return next((kept.name for kept in _kept_in(folder).values()), None)


def kept_definition(volume: Path) -> StoreDefinition | None:
    """The definition of the store that a volume was written for; None where it does not say it.

    Its schema is that of the databases where they have refused that of the assignment.
    """
    assignment = kept_assignment(volume)
    rows = schema_of_rows(volume)
    if assignment is None or rows is None:
        return rows if assignment is None else assignment.definition
    definition = assignment.definition
    return definition if rows.store_id != definition.store_id else with_schema_of(rows, definition)


def kept_assignment(volume: Path) -> StoreAssignment | None:
    """The assignment that a pod keeps on its volume; None where it cannot be read."""
    return _decoded(volume / "assignment.json", StoreAssignment)


def schema_of_rows(volume: Path) -> StoreDefinition | None:
    """The definition that the databases of a volume have; None where they refused no other one."""
    return _decoded(volume / _SCHEMA_FILE, StoreDefinition)


def has_lost_schema(volume: Path) -> bool:
    """Whether the databases of a volume refused another schema, and their own cannot be read."""
    return (volume / _SCHEMA_FILE).exists() and schema_of_rows(volume) is None


def resource_of(volume: Path, store_id: str) -> str:
    """The uid of the resource that a volume is of; its pod reads it in the same way.

    A volume that does not say it is of the resource that gave the store its id.
    """
    try:
        return (volume / "resource-uid").read_text("ascii")
    except (OSError, UnicodeDecodeError):
        return store_id


def _decoded(file: Path, kind: type[Kept]) -> Kept | None:
    try:
        return decode(file.read_bytes(), kind)
    except (OSError, MalformedRequestError):
        return None


def _exchanged(path: Path, cycle: Sequence[str], stores: Mapping[str, str]) -> str:
    """The words for folders of which each has the store of the next, and the last of the first."""
    held = listed([f"{path / one} is of store {stores[one]}" for one in cycle])
    back = put_all(path, {path / one: path / stores[one] for one in cycle})
    return f"these folders look exchanged: {held}. `{back}` puts each back and loses nothing"


def _pod_way_back(path: Path, pod: Path, store: StoreName) -> str:
    """The words for the folder of a pod that is in the folder of another store."""
    place = path / store / pod.name
    made = "" if place.parent.exists() else f"mkdir {shlex.quote(str(place.parent))} && "
    return (
        f"{pod} is of store {store}: `{made}{put(path, pod, place)}` puts it back and loses "
        f"nothing; `{move(pod, aside(path, pod))}` leaves it aside"
    )


def _pods(folder: Path, store: StoreName) -> Iterable[Path]:
    """The pods of a folder of another store that have volumes of the store.

    A volume that the other store has adopted is its own.
    """
    own = store_of(folder)
    if own == store:
        return
    for volume, kept in _kept_in(folder).items():
        if kept.name == store and resource_of(volume, kept.store_id) != _uid_in(folder):
            yield volume.parent


def _uid_in(folder: Path) -> str | None:
    try:
        uid: str | None = read_yaml(folder / "resource.yaml")["metadata"]["uid"]
    except (StateDirectoryError, TypeError, KeyError):
        return None
    return uid


def _folders(path: Path) -> list[Path]:
    return sorted(one for one in path.glob("*") if one.is_dir())


def _kept_in(folder: Path) -> dict[Path, StoreDefinition]:
    """The definitions that the volumes of a folder keep, by volume."""
    found = {volume: kept_definition(volume) for volume in sorted(folder.glob(_VOLUMES))}
    return {volume: kept for volume, kept in found.items() if kept is not None}


def _size_of(folder: Path) -> str:
    """The size of the tables and logs of a folder's databases."""
    size = sum(
        file.stat().st_size
        for kind in ("sst", "log")
        for file in folder.glob(f"{_VOLUMES}/partitions/*/*.{kind}")
    )
    return shown_bytes(size)
