"""Changes stored resources for commands; the running `qss up` takes them over.

Every change is made under the lock for edits, from the resource as it is stored then, and is
checked like the file of a store: where it is refused, nothing has changed.
"""

import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from qss_client.clock import SystemClock
from qss_core.errors import StoreError, StoreNotFoundError
from qss_core.model import Ordinal, PartitionId, StoreName
from qss_operator.errors import InvalidResourceError, NotThereError
from qss_operator.local.directory.edit_lock import editing
from qss_operator.local.directory.state import StateDirectory
from qss_operator.local.pods import check_runs, known_store, pod_names
from qss_operator.local.prepare import PreparedStore, as_stored, prepare, prepare_resource
from qss_operator.planning.annotations import (
    ACTIVES_ANNOTATION,
    RESTARTED_AT_ANNOTATION,
    decode_actives,
    encode_actives,
)
from qss_operator.times import micro_time_of, time_of, utc

ANY_POD = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A resource before and after a command."""

    store: StoreName
    before: dict[str, Any]
    after: dict[str, Any]

    @property
    def is_change(self) -> bool:
        """Whether the command has changed anything."""
        return self.before != self.after


async def apply_files(files: Sequence[Path], state: StateDirectory) -> list[Change]:
    """Store the resources of files; raises a StoreError before anything is changed.

    Raises StoreNotFoundError for a store that this state directory does not have yet.
    """
    prepared = prepare(files, state)
    for entry in prepared:
        if entry.stored is None:
            raise StoreNotFoundError(
                f"no store {entry.name!r} in {state.path}: `qss up` has to be started with its "
                f"file; its stores: {', '.join(state.stores()) or 'none'}"
            )
    async with editing(state):
        # Prepare again: another command may have changed the resources.
        return [_store(entry, state) for entry in prepare(files, state)]


async def set_replicas(state: StateDirectory, store: str, replicas: int) -> Change:
    """Ask for a number of pods; raises a StoreError where the store cannot have it."""

    def edit(resource: dict[str, Any]) -> None:
        standbys = resource["spec"].get("standbys")
        if standbys is not None and 0 < replicas <= standbys:
            raise InvalidResourceError(
                f"{store} has spec.standbys {standbys}, which needs at least {standbys + 1} pods, "
                f"not {replicas}: `qss standbys {store} {replicas - 1}{state.option}` first"
            )
        resource["spec"]["replicas"] = replicas

    return await _change(state, store, edit)


async def set_standbys(state: StateDirectory, store: str, standbys: int) -> Change:
    """Ask for a number of standbys; raises a StoreError where the store cannot have it."""

    def edit(resource: dict[str, Any]) -> None:
        replicas = resource["spec"]["replicas"]
        if standbys >= max(1, replicas):
            raise InvalidResourceError(
                f"{store} has {replicas} pods, so spec.standbys can be at most "
                f"{max(0, replicas - 1)}, not {standbys}: each replica needs its own pod"
            )
        resource["spec"]["standbys"] = standbys

    return await _change(state, store, edit)


async def ask_for_active(state: StateDirectory, store: str, partition: int, pod: str) -> Change:
    """Ask that a partition's active is on a pod, given by ordinal or name, or on `any` pod.

    Raises a StoreError where the store does not run, or has no such partition or pod.
    """
    check_runs(state, known_store(state, store))

    def edit(resource: dict[str, Any]) -> None:
        spec, metadata = resource["spec"], resource["metadata"]
        if not 0 <= partition < spec["partitions"]:
            raise NotThereError(
                f"{store} has no partition {partition}; it has 0 to {spec['partitions'] - 1}"
            )
        wanted = _pod_of(store, pod, spec["replicas"])
        # Without the entry, where it has one: an empty text is not kept.
        annotations = metadata.get("annotations") or {}
        text = merged_actives(annotations.pop(ACTIVES_ANNOTATION, None), partition, wanted)
        if text:
            metadata["annotations"] = annotations | {ACTIVES_ANNOTATION: text}

    return await _change(state, store, edit)


async def ask_for_restart(state: StateDirectory, store: str) -> Change:
    """Ask that each pod restarts, one after the other.

    Raises a StoreError where the store does not run.
    """
    check_runs(state, known_store(state, store))

    def edit(resource: dict[str, Any]) -> None:
        metadata = resource["metadata"]
        now = micro_time_of(utc(SystemClock()))
        annotations = metadata.get("annotations") or {}
        metadata["annotations"] = annotations | {RESTARTED_AT_ANNOTATION: now}

    return await _change(state, store, edit)


def merged_actives(text: str | None, partition: int, pod: Ordinal | None) -> str:
    """The annotation's text with another pod for one partition; without it for None.

    Raises InvalidResourceError if the text has another form.
    """
    asked = decode_actives(text)
    if asked is None:
        raise InvalidResourceError(
            f"the annotation {ACTIVES_ANNOTATION} says {text!r}, which is not of the form "
            "3=2,5=0: write it anew in the store's file, then `qss apply FILE`"
        )
    others = {number: at for number, at in asked.items() if number != partition}
    return encode_actives(others if pod is None else others | {PartitionId(partition): pod})


def _pod_of(store: str, pod: str, replicas: int) -> Ordinal | None:
    """The pod that a person names, of the pods that the spec asks for; None for `any`."""
    if pod == ANY_POD:
        return None
    number = pod.removeprefix(f"{store}-")
    if not re.fullmatch(r"0|[1-9][0-9]{0,8}", number) or int(number) >= replicas:
        raise NotThereError(
            f"{store} has no pod {pod!r}; give one of {pod_names(store, replicas)}, by name or "
            f"number, or `{ANY_POD}`"
        )
    return Ordinal(int(number))


async def _change(
    state: StateDirectory, store: str, edit: Callable[[dict[str, Any]], None]
) -> Change:
    name = known_store(state, store)
    async with editing(state):
        stored = state.read_resource(name)
        if stored is None:
            raise StoreNotFoundError(f"store {store} was deleted from {state.path}")
        wanted = deepcopy(stored)
        edit(wanted)
        return _store(prepare_resource(wanted, state), state)


def says_something_else(file: Path, state: StateDirectory) -> bool:
    """Whether `qss apply` of the file would change a store, or refuse the file."""
    try:
        return any(_change_of(entry).is_change for entry in prepare([file], state))
    except StoreError:
        return True


def _store(prepared: PreparedStore, state: StateDirectory) -> Change:
    change = _change_of(prepared)
    if change.is_change:
        state.write_resource(prepared.name, change.after)
    return change


def _change_of(prepared: PreparedStore) -> Change:
    after = as_stored(prepared, str(uuid4()), time_of(utc(SystemClock())))
    return Change(store=prepared.name, before=prepared.stored or {}, after=after)
