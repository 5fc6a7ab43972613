"""The resources that may be stored over the volumes of local pods."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from qss_core.model import Ordinal, PodAddress, PodName, StoreAssignment, StoreId, StoreName
from qss_core.spec.resource import decode_spec, definition_of, settings_of
from qss_core.wire.messages import decode, encode
from qss_operator.errors import InvalidResourceError, StateDirectoryError
from qss_operator.local.directory.state import StateDirectory
from qss_operator.local.directory.volumes import uid_on_volumes
from qss_operator.local.prepare import (
    as_stored,
    prepare,
    prepare_resource,
    resource_of,
    stored_files,
)
from qss_operator.local.status_writer import LocalResources
from qss_operator.planning.model import StoreStatus
from qss_operator.resources.validation import validate_resource
from qss_testing.clients.qss_command import STORE, manifest
from qss_testing.pods.stores import configuration

NOW = "2026-11-26T00:00:00Z"
POD = PodAddress(
    ordinal=Ordinal(0), name=PodName("words-0"), query="http://a", changelog="http://b"
)
KEY = {"key": {"serde": "string"}, "value": {"serde": "json"}}
NUMBERS = {"type": "KeyValue", "key": {"serde": "string"}, "value": {"serde": "int64"}}


def window(retention: str) -> dict[str, Any]:
    return {"type": "Window", **KEY, "window": {"size": "1m", "retention": retention}}


def session(retention: str) -> dict[str, Any]:
    return {"type": "Session", **KEY, "session": {"gap": "1m", "retention": retention}}


def versioned(retention: str) -> dict[str, Any]:
    return {"type": "Versioned", **KEY, "versioned": {"historyRetention": retention}}


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    return StateDirectory(tmp_path / "state")


def put_volume(state: StateDirectory, pod: int, resource: str, uid: str) -> Path:
    """The volume of a pod as a pod of that resource leaves it."""
    valid = validate_resource(yaml.safe_load(resource))
    name, spec = StoreName(valid["metadata"]["name"]), decode_spec(valid["spec"])
    assignment = StoreAssignment(
        definition=definition_of(name, StoreId(uid), spec),
        settings=settings_of(spec),
        pods=(POD,),
        partitions=tuple(configuration(number, 0) for number in range(spec.partitions)),
    )
    data = state.data_directory(name, Ordinal(pod))
    data.mkdir(parents=True)
    (data / "assignment.json").write_bytes(encode(assignment))
    return data


def put_schema_of_rows(state: StateDirectory, resource: str, uid: str) -> None:
    """Keeps the schema of a resource as a pod does whose databases have it, and were asked."""
    spec = decode_spec(validate_resource(yaml.safe_load(resource))["spec"])
    file = state.data_directory(STORE, Ordinal(0)) / "schema-of-rows.json"
    file.write_bytes(encode(definition_of(STORE, StoreId(uid), spec)))


def store(state: StateDirectory, resource: str, uid: str) -> None:
    prepared = prepare_resource(yaml.safe_load(resource), state)
    state.write_resource(STORE, as_stored(prepared, uid, NOW))


def put_store(state: StateDirectory, name: str) -> None:
    """A store of that name with one pod."""
    text = manifest(name, replicas=1)
    resource = prepare_resource(yaml.safe_load(text), state)
    state.write_resource(StoreName(name), as_stored(resource, f"uid-{name}", NOW))
    put_volume(state, 0, text, f"uid-{name}")


def run(command: str) -> None:
    """Does literally what a message tells a person to do."""
    subprocess.run(command, shell=True, check=True)


@pytest.mark.parametrize(
    ("kept", "given", "message"),
    [
        (window("720h"), window("1h"), r"spec\.store\.window\.retention 720 h, not 1 h"),
        (session("720h"), session("1h"), r"spec\.store\.session\.retention 720 h, not 1 h"),
        (versioned("1h"), versioned("2h"), r"spec\.store\.versioned\.historyRetention 1 h, not 2"),
        (window("1h"), session("1h"), r"spec\.store\.type Window, not Session"),
    ],
)
def test_another_retention_hides_rows_and_is_refused_over_data(
    kept: dict[str, Any], given: dict[str, Any], message: str, state: StateDirectory, tmp_path: Path
) -> None:
    put_volume(state, 0, manifest(replicas=1, store=kept), "old")
    file = tmp_path / "store.yaml"
    file.write_text(manifest(replicas=1, store=given))
    with pytest.raises(InvalidResourceError, match=message):
        prepare([file], state)
    file.write_text(manifest(replicas=1, store=kept))
    assert [one.name for one in prepare([file], state)] == [STORE]


def test_a_volume_that_is_left_of_an_earlier_store_refuses_no_later_one(
    state: StateDirectory,
) -> None:
    store(state, manifest(replicas=2), "new")
    for pod in (0, 1):
        put_volume(state, pod, manifest(replicas=2), "new")
    put_volume(state, 2, manifest(replicas=3, store=NUMBERS), "old")
    assert prepare([state.resource_file(STORE)], state)


def test_a_volume_says_itself_of_which_resource_it_is(state: StateDirectory) -> None:
    store(state, manifest(replicas=1), "new")
    adopted = put_volume(state, 0, manifest(replicas=1, store=NUMBERS), "old")
    (adopted / "resource-uid").write_text("new")
    with pytest.raises(InvalidResourceError, match="int64, not json"):
        prepare([state.resource_file(STORE)], state)


def test_only_the_volumes_with_other_data_are_named_for_deletion(state: StateDirectory) -> None:
    good = put_volume(state, 0, manifest(replicas=2), "one")
    bad = put_volume(state, 1, manifest(replicas=2, store=NUMBERS), "two")
    with pytest.raises(InvalidResourceError) as told:
        prepare_resource(yaml.safe_load(manifest(replicas=2)), state)
    assert f"`rm -r {bad}` deletes the data of pod-1 for good" in told.value.message
    assert str(good) not in told.value.message


def test_the_file_as_it_was_mends_a_stored_resource_that_was_edited(
    state: StateDirectory,
) -> None:
    store(state, manifest(replicas=1), "one")
    put_volume(state, 0, manifest(replicas=1), "one")
    stored = yaml.safe_load(state.resource_file(STORE).read_text())
    stored["spec"]["store"] |= NUMBERS
    state.resource_file(STORE).write_text(yaml.dump(stored))
    with pytest.raises(InvalidResourceError, match="give the file of the store as it was"):
        prepare([state.resource_file(STORE)], state)
    store(state, manifest(replicas=1), "unused")
    mended = yaml.safe_load(state.resource_file(STORE).read_text())
    assert mended["spec"]["store"]["value"] == {"serde": "json"}
    assert (mended["metadata"]["uid"], mended["metadata"]["generation"]) == ("one", 2)


def test_a_renamed_folder_of_a_store_is_named_and_no_empty_store_takes_its_place(
    state: StateDirectory,
) -> None:
    store(state, manifest(replicas=1), "one")
    put_volume(state, 0, manifest(replicas=1), "one")
    (state.path / STORE).rename(state.path / "other")
    away, back = state.path / "other", f"mv {state.path / 'other'} {state.path / STORE}"
    aside = f"mv {away} {state.path}-other"
    with pytest.raises(StateDirectoryError) as told:
        stored_files(state)
    assert told.value.message == (
        f"{away} is of store {STORE}: `{back}` puts it back and loses nothing; `{aside}` leaves "
        f"{away} aside"
    )
    # The file of the store makes no empty one, also where the folder has lost its resource.
    for _ in range(2):
        with pytest.raises(StateDirectoryError) as refused:
            prepare_resource(yaml.safe_load(manifest(replicas=1)), state)
        assert f"store {STORE} would begin empty, although it has data" in refused.value.message
        assert f"`{back}`" in refused.value.message
        assert f"`{aside}`" in refused.value.message
        (away / "resource.yaml").unlink(missing_ok=True)
    run(back)
    assert prepare_resource(yaml.safe_load(manifest(replicas=1)), state)


def test_folders_of_stores_that_were_exchanged_are_exchanged_back_as_told(
    state: StateDirectory,
) -> None:
    for name in ("one", "two", "three"):
        put_store(state, name)
    # Each name has the folder of another store: that of `one` is under `two`, and so on.
    (state.path / "three").rename(state.path / "free")
    for name, to in (("two", "three"), ("one", "two"), ("free", "one")):
        (state.path / name).rename(state.path / to)
    with pytest.raises(StateDirectoryError) as told:
        prepare_resource(yaml.safe_load(manifest("one", replicas=1)), state)
    assert f"these folders look exchanged: {state.path / 'one'} is of store three" in str(
        told.value
    )
    run(told.value.message.split("`")[1])
    for name in ("one", "two", "three"):
        assert prepare_resource(yaml.safe_load(manifest(name, replicas=1)), state)
    assert len(stored_files(state)) == 3


def test_folders_that_were_renamed_one_after_the_other_are_renamed_back_in_order(
    state: StateDirectory,
) -> None:
    for name in ("one", "two"):
        put_store(state, name)
    (state.path / "two").rename(state.path / "three")
    (state.path / "one").rename(state.path / "two")
    with pytest.raises(StateDirectoryError) as told:
        stored_files(state)
    run(told.value.message.split("`")[1])
    assert [file.parent.name for file in stored_files(state)] == ["one", "two"]


def test_a_pod_in_the_folder_of_another_store_is_put_back_as_told(state: StateDirectory) -> None:
    put_store(state, "one")
    put_store(state, "two")
    (state.path / "one" / "pod-0").rename(state.path / "two" / "pod-1")
    shutil.rmtree(state.path / "one")
    with pytest.raises(StateDirectoryError) as told:
        prepare_resource(yaml.safe_load(manifest("one", replicas=1)), state)
    assert f"{state.path / 'two' / 'pod-1'} is of store one" in told.value.message
    run(told.value.message.split("`")[1])
    assert (state.path / "one" / "pod-1" / "data" / "assignment.json").exists()


def test_a_volume_that_a_store_has_adopted_is_no_data_of_the_earlier_store(
    state: StateDirectory,
) -> None:
    put_store(state, "one")
    resource = prepare_resource(yaml.safe_load(manifest("two", replicas=1)), state)
    state.write_resource(StoreName("two"), as_stored(resource, "uid-two", NOW))
    (state.path / "one" / "pod-0").rename(state.path / "two" / "pod-0")
    (state.path / "two" / "pod-0" / "data" / "resource-uid").write_text("uid-two")
    shutil.rmtree(state.path / "one")
    assert prepare_resource(yaml.safe_load(manifest("one", replicas=1)), state)


def test_folders_of_pods_that_two_stores_exchanged_are_put_back_and_not_deleted(
    state: StateDirectory,
) -> None:
    store(state, manifest(replicas=1), "one")
    kept = put_volume(state, 0, manifest(replicas=1, store=NUMBERS), "two")
    assignment = decode((kept / "assignment.json").read_bytes(), StoreAssignment)
    theirs = replace(assignment, definition=replace(assignment.definition, name=StoreName("nums")))
    (kept / "assignment.json").write_bytes(encode(theirs))
    with pytest.raises(InvalidResourceError) as told:
        prepare([state.resource_file(STORE)], state)
    assert f"the data in {kept} is that of store nums: put the folders of pods back" in str(
        told.value.message
    )
    assert "rm -r" not in told.value.message


@pytest.mark.parametrize("is_emptied", [False, True])
async def test_a_resource_that_was_deleted_while_its_store_runs_is_written_again(
    state: StateDirectory, is_emptied: bool
) -> None:
    store(state, manifest(replicas=1), "one")
    file = state.resource_file(STORE)
    kept = file.read_text()
    resources = LocalResources(state, [resource_of(yaml.safe_load(kept), None)])
    assert resources.refusal(STORE) is None
    file.write_text("") if is_emptied else file.unlink()
    assert await resources.read(STORE) is not None
    # Without a status the folder may be on its way out.
    assert resources.refusal(STORE) == f"the store goes on as before: {file} was deleted"
    state.write_status(STORE, StoreStatus())
    file.write_text("")
    assert await resources.read(STORE) is not None
    assert resources.refusal(STORE) is None
    assert yaml.safe_load(file.read_text()) == yaml.safe_load(kept)


def test_a_file_whose_stored_resource_was_moved_away_goes_on_with_the_data(
    state: StateDirectory,
) -> None:
    assert uid_on_volumes(state, STORE) is None
    for pod in (0, 1):
        (put_volume(state, pod, manifest(), "one") / "partitions" / "0").mkdir(parents=True)
    assert uid_on_volumes(state, STORE) is None, "without a status the store was deleted"
    state.write_status(STORE, StoreStatus(store_id=StoreId("one")))
    assert uid_on_volumes(state, STORE) == "one"
    (put_volume(state, 2, manifest(), "two") / "partitions" / "0").mkdir(parents=True)
    assert uid_on_volumes(state, STORE) is None, "a person has to say whose data it is"


def test_a_copy_of_a_folder_beside_its_store_is_moved_away_and_does_not_replace_it(
    state: StateDirectory,
) -> None:
    store(state, manifest(replicas=1), "one")
    copy = shutil.copytree(state.path / STORE, state.path / f"{STORE}-backup")
    with pytest.raises(StateDirectoryError) as told:
        stored_files(state)
    assert f"{state.path / STORE} exists, too: " in told.value.message
    # The store's own file starts the store as before.
    assert prepare_resource(yaml.safe_load(manifest(replicas=1)), state)
    run(f"mv {copy} {state.path}-{copy.name}")
    assert f"`mv {copy} {state.path}-{copy.name}` leaves {copy} aside" in told.value.message
    assert len(stored_files(state)) == 1


def test_the_folder_with_rows_is_named_once_an_empty_store_has_its_name(
    state: StateDirectory,
) -> None:
    store(state, manifest(replicas=1), "one")
    rows = put_volume(state, 0, manifest(replicas=1), "one") / "partitions" / "0" / "000001.sst"
    rows.parent.mkdir(parents=True)
    rows.write_bytes(b"r" * 2048)
    away = (state.path / STORE).rename(state.path / "renamed")
    own = state.path / STORE
    own.mkdir()
    (own / "resource.yaml").write_text((away / "resource.yaml").read_text())
    put_volume(state, 0, manifest(replicas=1), "two")
    with pytest.raises(StateDirectoryError) as told:
        stored_files(state)
    assert f"{away} has 2 KiB of databases, and {own} has 0 MiB" in told.value.message
    run(told.value.message.split("`")[1])
    assert (own / rows.relative_to(state.path / STORE)).read_bytes() == b"r" * 2048
    assert len(stored_files(state)) == 1


def test_an_edit_of_an_assignment_is_undone_and_its_deletion_is_not_the_only_way(
    state: StateDirectory,
) -> None:
    data = put_volume(state, 0, manifest(replicas=1, store=versioned("24h")), "one")
    with pytest.raises(InvalidResourceError) as told:
        prepare_resource(yaml.safe_load(manifest(replicas=1, store=versioned("744h"))), state)
    undo = f"{data / 'assignment.json'} says so: if it was edited, undo the edit there"
    assert undo in told.value.message
    # The databases were asked, and have the schema of the file.
    put_schema_of_rows(state, manifest(replicas=1, store=versioned("744h")), "one")
    assert prepare_resource(
        yaml.safe_load(manifest(replicas=1, store=versioned("744h"))), state
    ).name
    with pytest.raises(InvalidResourceError, match="744 h, not 24 h") as told:
        prepare_resource(yaml.safe_load(manifest(replicas=1, store=versioned("24h"))), state)
    assert "undo the edit" not in told.value.message


@pytest.mark.parametrize("has_assignment", [True, False])
def test_a_resource_that_the_databases_refused_is_replaced_by_the_one_of_their_schema(
    state: StateDirectory, *, has_assignment: bool
) -> None:
    """Its uid is not that of the volume, as its store was begun with another resource."""
    store(state, manifest(replicas=1, store=versioned("24h")), "new")
    state.write_status(STORE, StoreStatus(store_id=StoreId("one")))
    data = put_volume(state, 0, manifest(replicas=1, store=versioned("24h")), "one")
    (data / "resource-uid").write_text("new")
    put_schema_of_rows(state, manifest(replicas=1, store=versioned("744h")), "one")
    if not has_assignment:
        (data / "assignment.json").unlink()
        (data / "resource-uid").write_text("one")
    store(state, manifest(replicas=1, store=versioned("744h")), "unused")
    stored = yaml.safe_load(state.resource_file(STORE).read_text())
    assert stored["spec"]["store"]["versioned"] == {"historyRetention": "744h"}
    assert (stored["metadata"]["uid"], stored["metadata"]["generation"]) == ("new", 2)


def test_a_resource_that_no_pod_has_ever_taken_is_replaced_by_another_file(
    state: StateDirectory,
) -> None:
    store(state, manifest(replicas=1, store=versioned("24h")), "new")
    data = state.data_directory(STORE, Ordinal(0))
    (data / "partitions" / "0").mkdir(parents=True)
    with pytest.raises(InvalidResourceError, match="immutable"):
        prepare_resource(yaml.safe_load(manifest(replicas=1, store=versioned("744h"))), state)
    (data / "resource-uid").write_text("old")
    assert prepare_resource(
        yaml.safe_load(manifest(replicas=1, store=versioned("744h"))), state
    ).name
    (data / "resource-uid").write_text("new")
    with pytest.raises(InvalidResourceError, match="immutable"):
        prepare_resource(yaml.safe_load(manifest(replicas=1, store=versioned("744h"))), state)


def test_a_path_with_a_space_is_quoted_where_its_deletion_is_told(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path / "my stores")
    kept = put_volume(state, 0, manifest(replicas=1, store=NUMBERS), "one")
    with pytest.raises(InvalidResourceError) as told:
        prepare_resource(yaml.safe_load(manifest(replicas=1)), state)
    assert f"`rm -r '{kept}'` deletes" in told.value.message


def test_a_file_without_a_uid_may_stand_in_the_place_of_the_stored_resource(
    state: StateDirectory,
) -> None:
    store(state, manifest(replicas=1), "one")
    put_volume(state, 0, manifest(replicas=1), "one")
    state.resource_file(STORE).write_text(manifest(replicas=1))
    assert prepare([state.resource_file(STORE)], state)
    state.resource_file(STORE).write_text(manifest(replicas=1, store=NUMBERS))
    with pytest.raises(InvalidResourceError, match="json, not int64"):
        prepare([state.resource_file(STORE)], state)
