"""Changes of stored resources: what they store, what they refuse, who takes them over."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from qss_core.errors import StoreError, StoreNotFoundError
from qss_core.model import Ordinal
from qss_operator.errors import (
    ConflictError,
    InvalidResourceError,
    NotRunningError,
    NotThereError,
    StateDirectoryError,
)
from qss_operator.local.changes import (
    apply_files,
    ask_for_active,
    merged_actives,
    set_replicas,
    set_standbys,
)
from qss_operator.local.directory.edit_lock import editing
from qss_operator.local.directory.state import StateDirectory
from qss_operator.local.pods import signal_pod
from qss_operator.local.prepare import prepare, store
from qss_operator.local.status_writer import LocalResources
from qss_operator.planning.annotations import ACTIVES_ANNOTATION
from qss_operator.planning.model import StoreResource, StoreStatus
from qss_testing.clients.qss_command import STORE, manifest

NOW = "2026-11-25T12:00:00Z"


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    """A state directory with a store of three pods and one standby."""
    state = StateDirectory(tmp_path / "state")
    stored(state, tmp_path, replicas=3, standbys=1)
    return state


def written(directory: Path, text: str) -> Path:
    file = directory / "stores.yaml"
    file.write_text(text)
    return file


def stored(state: StateDirectory, directory: Path, **spec: Any) -> StoreResource:
    (prepared,) = prepare([written(directory, manifest(**spec))], state)
    return store(prepared, state, "uid-1", NOW)


def text_of(state: StateDirectory) -> str:
    return state.resource_file(STORE).read_text()


def spec_of(state: StateDirectory) -> tuple[int, int, int]:
    resource = state.read_resource(STORE)
    assert resource is not None
    spec = resource["spec"]
    return spec["replicas"], spec["standbys"], resource["metadata"]["generation"]


# --- Numbers.


async def test_a_number_is_stored_with_the_next_generation(state: StateDirectory) -> None:
    assert (await set_replicas(state, STORE, 5)).is_change
    assert spec_of(state) == (5, 1, 2)
    assert (await set_standbys(state, STORE, 2)).is_change
    assert spec_of(state) == (5, 2, 3)
    assert not (await set_standbys(state, STORE, 2)).is_change
    assert spec_of(state) == (5, 2, 3)


async def test_a_number_that_the_store_cannot_have_changes_nothing(state: StateDirectory) -> None:
    before = text_of(state)
    with pytest.raises(InvalidResourceError, match=r"needs at least 2 pods, not 1: `qss standbys"):
        await set_replicas(state, STORE, 1)
    with pytest.raises(InvalidResourceError, match=r"has 3 pods, .* at most 2, not 3"):
        await set_standbys(state, STORE, 3)
    with pytest.raises(StoreError, match=r"spec\.replicas: 0 \(hibernation\) is for Kubernetes"):
        await set_replicas(state, STORE, 0)
    with pytest.raises(InvalidResourceError, match="at most 512"):
        await set_replicas(state, STORE, 600)
    with pytest.raises(
        StoreNotFoundError, match=r"no store 'words' in .*; its stores: word-counts"
    ):
        await set_replicas(state, "words", 2)
    assert text_of(state) == before


# --- Actives.


def test_an_asked_active_joins_replaces_or_leaves_the_others() -> None:
    assert merged_actives(None, 3, Ordinal(2)) == "3=2"
    assert merged_actives("3=2", 0, Ordinal(1)) == "0=1,3=2"
    assert merged_actives("0=1,3=2", 3, Ordinal(0)) == "0=1,3=0"
    assert merged_actives("0=1,3=2", 0, None) == "3=2"
    assert merged_actives("3=2", 3, None) == merged_actives(None, 3, None) == ""
    with pytest.raises(InvalidResourceError, match="not of the form 3=2,5=0"):
        merged_actives("nonsense", 3, Ordinal(0))


async def test_a_move_is_stored_as_an_annotation_and_taken_back(state: StateDirectory) -> None:
    with state.lock():
        state.write_holder([STORE])
        untouched = text_of(state)
        assert not (await ask_for_active(state, STORE, 5, "any")).is_change
        assert text_of(state) == untouched
        await ask_for_active(state, STORE, 5, "0")
        await ask_for_active(state, STORE, 3, f"{STORE}-2")
        resource = state.read_resource(STORE)
        assert resource is not None
        assert resource["metadata"]["annotations"] == {ACTIVES_ANNOTATION: "3=2,5=0"}
        assert resource["metadata"]["generation"] == 1
        before = text_of(state)
        with pytest.raises(NotThereError, match="no partition 6; it has 0 to 5"):
            await ask_for_active(state, STORE, 6, "0")
        for pod in ("3", f"{STORE}-3", "other-1", "-1", "1.5", ""):
            with pytest.raises(NotThereError, match=f"one of {STORE}-0, {STORE}-1, {STORE}-2"):
                await ask_for_active(state, STORE, 0, pod)
        assert text_of(state) == before
        await ask_for_active(state, STORE, 5, "any")
        await ask_for_active(state, STORE, 3, "any")
        resource = state.read_resource(STORE)
        assert resource is not None
        assert ACTIVES_ANNOTATION not in resource["metadata"]["annotations"]


async def test_a_file_keeps_what_a_move_asked_for_unless_it_says_it_itself(
    state: StateDirectory, tmp_path: Path
) -> None:
    with state.lock():
        state.write_holder([STORE])
        await ask_for_active(state, STORE, 5, "0")
    assert stored(state, tmp_path, replicas=3, standbys=2).actives == "5=0"
    told = {ACTIVES_ANNOTATION: "1=1"}
    await apply_files([written(tmp_path, manifest(annotations=told, replicas=3))], state)
    resource = state.read_resource(STORE)
    assert resource is not None
    assert resource["metadata"]["annotations"] == told


async def test_where_nothing_runs_pods_cannot_be_named(state: StateDirectory) -> None:
    before = text_of(state)
    with pytest.raises(NotRunningError, match=r"nothing runs in .*: `qss up --state-dir"):
        await ask_for_active(state, STORE, 0, "0")
    with pytest.raises(NotRunningError, match=r"nothing runs in .*: `qss up --state-dir"):
        signal_pod(state, f"{STORE}-0", signal.SIGKILL)
    with pytest.raises(NotThereError, match="no pod 'nonsense' in"):
        signal_pod(state, "nonsense", signal.SIGKILL)
    assert text_of(state) == before


# --- Files.


async def test_files_are_stored_all_or_none(state: StateDirectory, tmp_path: Path) -> None:
    known = manifest(replicas=3, standbys=2)
    before = text_of(state)
    with pytest.raises(StoreNotFoundError, match=r"no store 'others' .* `qss up` has to be"):
        await apply_files([written(tmp_path, f"{known}---\n{manifest('others')}")], state)
    with pytest.raises(InvalidResourceError, match="partitions is immutable"):
        await apply_files([written(tmp_path, manifest(partitions=7))], state)
    assert text_of(state) == before
    (change,) = await apply_files([written(tmp_path, known)], state)
    assert (change.store, change.is_change) == (STORE, True)
    assert spec_of(state) == (3, 2, 2)
    (again,) = await apply_files([written(tmp_path, known)], state)
    assert not again.is_change


# --- Several at once.


async def test_two_changes_at_the_same_time_are_both_kept(state: StateDirectory) -> None:
    await asyncio.gather(set_replicas(state, STORE, 6), set_standbys(state, STORE, 2))
    assert spec_of(state) == (6, 2, 3)


async def test_a_change_waits_for_another_one_and_not_for_ever(state: StateDirectory) -> None:
    async with editing(state):
        with pytest.raises(StateDirectoryError, match="another command has been changing"):
            async with editing(state, wait_s=0.0):
                pass
    async with editing(state, wait_s=0.0):
        pass


# --- The process that runs the store.


def running(state: StateDirectory, directory: Path) -> LocalResources:
    return LocalResources(state, [stored(state, directory, replicas=3, standbys=1)])


async def read(resources: LocalResources) -> StoreResource:
    resource = await resources.read(STORE)
    assert resource is not None
    return resource


async def test_the_next_read_takes_spec_generation_and_annotations(
    state: StateDirectory, tmp_path: Path
) -> None:
    resources = running(state, tmp_path)
    before = await read(resources)
    await resources.publish(before, StoreStatus(ready="1/3"))
    assert not resources.has_changed(STORE)
    losses = {"queryablestate.dev/accept-data-loss": "0@1", ACTIVES_ANNOTATION: "0=1"}
    await apply_files([written(tmp_path, manifest(annotations=losses, replicas=4))], state)
    assert resources.has_changed(STORE)
    taken = await read(resources)
    assert not resources.has_changed(STORE)
    assert (taken.spec.replicas, taken.generation, taken.uid) == (4, 2, before.uid)
    assert (taken.accept_data_loss, taken.actives) == ("0@1", "0=1")
    assert taken.status == StoreStatus(ready="1/3")


async def test_a_resource_that_changed_since_it_was_read_is_not_published(
    state: StateDirectory, tmp_path: Path
) -> None:
    resources = running(state, tmp_path)
    before = await read(resources)
    await set_replicas(state, STORE, 4)
    with pytest.raises(ConflictError):
        await resources.publish(before, StoreStatus(ready="1/3"))
    taken = await read(resources)
    with pytest.raises(ConflictError):
        await resources.publish(before, StoreStatus(ready="1/3"))
    assert state.read_status(STORE) is None
    await resources.publish(taken, StoreStatus(ready="2/3"))
    assert state.read_status(STORE) == StoreStatus(ready="2/3")


@pytest.mark.parametrize("damage", ["a: [", "kind: Nonsense", None])
async def test_a_damaged_resource_is_told_once_and_the_last_one_goes_on(
    state: StateDirectory, tmp_path: Path, damage: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    resources = running(state, tmp_path)
    before = await read(resources)
    if damage is None:
        state.resource_file(STORE).unlink()
    else:
        state.resource_file(STORE).write_text(damage)
    assert await read(resources) == await read(resources) == before
    (told,) = caplog.messages
    assert told.startswith(f"{STORE} goes on as before: ")
    await resources.publish(before, StoreStatus(ready="1/3"))
