"""Turns YAML files into stored resources: validates, compares and numbers them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from qss_core.errors import StoreError
from qss_core.model import StoreName
from qss_core.spec.resource import StoreSpec, decode_spec
from qss_operator.errors import AlreadyRunningError, InvalidResourceError
from qss_operator.local.directory.misplaced import refuse_beginning_empty
from qss_operator.local.directory.renamed_pods import refuse_renamed_pods
from qss_operator.local.directory.state import StateDirectory
from qss_operator.local.directory.volumes import is_of_data, refuse_other_data, uid_of
from qss_operator.planning.annotations import (
    ACCEPT_LOSS_ANNOTATION,
    ACTIVES_ANNOTATION,
    RESTARTED_AT_ANNOTATION,
    annotated_resource,
    how_to_apply,
    how_to_restart,
)
from qss_operator.planning.losses import is_acceptance
from qss_operator.planning.model import StoreResource, StoreStatus
from qss_operator.resources.manifests import read_manifests
from qss_operator.resources.support import refuse_unsupported_locally
from qss_operator.resources.validation import validate_resource

Failure = TypeVar("Failure", bound=StoreError)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedStore:
    """A valid resource, and the stored resource of the same name."""

    name: StoreName
    resource: dict[str, Any]
    spec: StoreSpec
    stored: dict[str, Any] | None


def prepare(files: Sequence[Path], state: StateDirectory) -> list[PreparedStore]:
    """The stores of some files, without writing. Raises a StoreError that names the file."""
    prepared: list[PreparedStore] = []
    for manifest in read_manifests(files):
        try:
            store = _with_what_commands_asked(prepare_resource(manifest.resource, state))
        except StoreError as error:
            raise _with_source(error, manifest.source) from error
        if any(other.name == store.name for other in prepared):
            raise InvalidResourceError(f"{manifest.source}: {store.name} is given twice")
        prepared.append(store)
    return prepared


def stored_files(state: StateDirectory) -> list[Path]:
    """The files of the stored resources.

    Raises InvalidResourceError if there are none, and StateDirectoryError for a renamed folder.
    """
    files = [state.resource_file(name) for name in state.stores() if state.read_resource(name)]
    if not files:
        raise InvalidResourceError(
            f"{state.path} has no store to start again: give the file of a store, qss up FILE"
        )
    return files


def differences(prepared: Sequence[PreparedStore], state: StateDirectory) -> list[str]:
    """The differences between the stores in files and the running ones, as messages.

    There are none while a `qss up` begins, as it has not told its stores yet.
    """
    running = state.running()
    found, how = [], how_to_apply(state.option)
    for entry in prepared if running else ():
        if entry.stored is None or entry.name not in running:
            found.append(f"store {entry.name} is not among the running stores")
            how = how_to_restart(state.option)
            continue
        if entry.stored["spec"] != entry.resource["spec"]:
            found.append(f"store {entry.name} runs with an older spec")
        if changed := _changed_annotations(entry.stored, entry.resource):
            named = ", ".join(changed)
            found.append(f"store {entry.name} runs without the annotations of its file: {named}")
    return [*found, f"to run the stores of the files: {how}"] if found else []


def _changed_annotations(stored: dict[str, Any], resource: dict[str, Any]) -> list[str]:
    """The names of annotations that differ."""
    old, new = (one["metadata"].get("annotations") or {} for one in (stored, resource))
    return sorted(name for name in {*old, *new} if old.get(name) != new.get(name))


@contextmanager
def telling_differences(prepared: Sequence[PreparedStore], state: StateDirectory) -> Iterator[None]:
    """Adds the differences between files and running stores to an AlreadyRunningError."""
    try:
        yield
    except AlreadyRunningError as error:
        lines = [error.message, *differences(prepared, state)]
        raise AlreadyRunningError("\n".join(lines)) from error


def as_stored(prepared: PreparedStore, uid: str, now: str) -> dict[str, Any]:
    """The resource as the API server would store it: with uid, generation and creation time."""
    old = prepared.stored or {}
    kept = old.get("metadata", {})
    is_changed = old.get("spec") != prepared.resource["spec"]
    metadata = prepared.resource["metadata"] | {
        "uid": kept.get("uid", uid),
        "creationTimestamp": kept.get("creationTimestamp", now),
        "generation": kept.get("generation", 0) + is_changed,
    }
    return prepared.resource | {"metadata": metadata}


def store(prepared: PreparedStore, state: StateDirectory, uid: str, now: str) -> StoreResource:
    """Store a resource, unless it is stored already; the caller holds the lock for edits."""
    resource = as_stored(prepared, uid, now)
    if resource != prepared.stored:
        state.write_resource(prepared.name, resource)
    return resource_of(resource, state.read_status(prepared.name))


def resource_of(stored: dict[str, Any], status: StoreStatus | None) -> StoreResource:
    """The stored resource as the planner sees it."""
    return annotated_resource(stored["metadata"], "1", decode_spec(stored["spec"]), status)


def prepare_resource(given: Any, state: StateDirectory) -> PreparedStore:
    """A resource that is valid as the successor of the stored one. Raises a StoreError."""
    # Validate it without the old resource first: only then its name is known to be valid.
    resource = validate_resource(given)
    name = StoreName(resource["metadata"]["name"])
    stored = state.read_resource(name)
    old_spec = None
    # Where a person edited or replaced the stored one, the store's file as it was is no change.
    if stored is not None and uid_of(stored) and is_of_data(state, name, stored):
        resource = validate_resource(given, stored)
        old_spec = decode_spec(stored["spec"])
    resource.pop("status", None)
    _check_acceptance(resource)
    spec = decode_spec(resource["spec"])
    refuse_unsupported_locally(spec, old_spec)
    refuse_beginning_empty(state.path, name)
    refuse_renamed_pods(state.path, name)
    refuse_other_data(state, name, spec, uid_of(stored or {}))
    return PreparedStore(name=name, resource=resource, spec=spec, stored=stored)


def _check_acceptance(resource: dict[str, Any]) -> None:
    """Raises InvalidResourceError for an accepted loss that cannot be read."""
    given = (resource["metadata"].get("annotations") or {}).get(ACCEPT_LOSS_ANNOTATION)
    if given is not None and not is_acceptance(given):
        raise InvalidResourceError(
            f"metadata.annotations: {ACCEPT_LOSS_ANNOTATION} names partitions with their epochs, "
            f"as 3@7 or 3@7,5@2, not {given[:80]!r}"
        )


def _with_what_commands_asked(prepared: PreparedStore) -> PreparedStore:
    """The store of a file, with the annotations that `qss move` and `qss restart` wrote.

    The annotations of the file come first.
    """
    stored = (prepared.stored or {}).get("metadata", {}).get("annotations") or {}
    asked = (ACTIVES_ANNOTATION, RESTARTED_AT_ANNOTATION)
    kept = {name: stored[name] for name in asked if name in stored}
    if not kept:
        return prepared
    metadata = prepared.resource["metadata"]
    annotations = kept | (metadata.get("annotations") or {})
    resource = prepared.resource | {"metadata": metadata | {"annotations": annotations}}
    return replace(prepared, resource=resource)


def _with_source(error: Failure, source: str) -> Failure:
    lines = "\n".join(f"{source}: {line}" for line in error.message.splitlines())
    return type(error)(lines, **error.details)
