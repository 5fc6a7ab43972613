"""The state directory: whole files, one holder, constant ports, numbered resources."""

import errno
import os
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml

from qss_core.errors import StoreError
from qss_core.model import StoreName
from qss_operator.errors import AlreadyRunningError, InvalidResourceError, StateDirectoryError
from qss_operator.local.directory.files import overwrite_yaml, read_yaml, write_yaml
from qss_operator.local.directory.ports import LOOPBACK, PodPorts, choose_ports, is_free
from qss_operator.local.directory.state import StateDirectory
from qss_operator.local.pod_ends import failures_after, restart_delay_s
from qss_operator.local.prepare import prepare, store
from qss_operator.local.status_writer import LocalResources
from qss_operator.planning.annotations import ACCEPT_LOSS_ANNOTATION
from qss_operator.planning.model import StoreResource, StoreStatus
from qss_testing.fakes.control_world import resource_of
from qss_testing.fakes.simulated_pod import STORE

MANIFEST = """
apiVersion: queryablestate.dev/v1alpha1
kind: QueryableStateStore
metadata: {name: word-counts}
spec:
  store: {type: KeyValue, key: {serde: string}, value: {serde: json}}
  partitions: 12
  access: {authentication: None}
"""
NOW = "2026-11-21T12:00:00Z"


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    return StateDirectory(tmp_path / "state")


def manifest(directory: Path, old: str = "", new: str = "") -> Path:
    file = directory / "store.yaml"
    file.write_text(MANIFEST.replace(old, new) if old else MANIFEST)
    return file


# --- Restarts.


def test_a_pod_restarts_at_once_and_then_ever_later_up_to_ten_seconds() -> None:
    assert [restart_delay_s(n) for n in range(1, 9)] == [0, 0.5, 1, 2, 4, 8, 10, 10]
    assert restart_delay_s(10**6) == 10


def test_a_pod_that_lived_for_a_while_begins_anew() -> None:
    assert failures_after(5, lived_s=0.1) == 6
    assert failures_after(5, lived_s=10.0) == 1


# --- Files.


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    file = tmp_path / "status.yaml"
    write_yaml(file, {"a": (1, 2)})
    write_yaml(file, {"b": "12:30:00"})
    assert read_yaml(file) == {"b": "12:30:00"}
    assert [entry.name for entry in tmp_path.iterdir()] == ["status.yaml"]


@pytest.mark.parametrize("after", [{"a": 1}, {"a": 1234567890, "b": "longer than before"}])
def test_a_small_file_can_be_written_over_itself(tmp_path: Path, after: dict[str, object]) -> None:
    file = tmp_path / "file.yaml"
    write_yaml(file, {"a": 12345, "b": 1}, fills_block=True)
    before = file.stat()
    overwrite_yaml(file, after)
    assert read_yaml(file) == after
    # With another size a reader would see the new text cut at the old one's end, or the other way.
    assert (file.stat().st_ino, file.stat().st_size) == (before.st_ino, before.st_size)


def test_only_a_file_that_is_there_and_has_one_block_is_written_over_itself(
    tmp_path: Path,
) -> None:
    with pytest.raises(StateDirectoryError, match="cannot be written: No such file"):
        overwrite_yaml(tmp_path / "none.yaml", {})
    file = tmp_path / "file.yaml"
    write_yaml(file, {"a": 1})
    with pytest.raises(StateDirectoryError, match="exceeds its block"):
        overwrite_yaml(file, {"a": "x" * 600})
    assert read_yaml(file) == {"a": 1}


def test_an_absent_file_is_a_value_and_a_damaged_one_an_error(
    tmp_path: Path, state: StateDirectory
) -> None:
    assert read_yaml(tmp_path / "absent.yaml") is None
    assert state.read_status(STORE) is None
    (tmp_path / "broken.yaml").write_text("a: [")
    with pytest.raises(StateDirectoryError, match="is damaged") as damaged:
        read_yaml(tmp_path / "broken.yaml")
    # The last line of a log has the whole message.
    assert len(damaged.value.message.splitlines()) == 1
    (state.path / STORE).mkdir(parents=True)
    (state.path / STORE / "status.yaml").write_text("replicas: many\n")
    with pytest.raises(StateDirectoryError, match=r"status\.yaml is damaged"):
        state.read_status(STORE)


def test_a_state_directory_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    made = StateDirectory(tmp_path / "file" / "state")
    words = f"{made.path} cannot be made: Not a directory"
    with pytest.raises(StateDirectoryError, match=words) as told, made.lock():
        pass
    assert told.value.code == "STATE_DIRECTORY"


def test_a_file_that_cannot_be_opened_is_told_with_what_to_do(state: StateDirectory) -> None:
    (state.path / "lock").mkdir(parents=True)
    words = f"lock cannot be opened: Is a directory: let this user write {state.path}, or choose"
    with pytest.raises(StateDirectoryError, match=words), state.lock():
        pass
    with pytest.raises(StateDirectoryError, match="lock is a directory: move it away"):
        state.holder()


def test_a_status_takes_the_place_of_its_reserve_on_a_full_disk(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    (state.path / STORE).mkdir(parents=True)
    state.write_status(STORE, StoreStatus(ready="1/3"))
    reserve = state.path / STORE / "status.reserve"
    assert reserve.stat().st_size >= 16 * 1024
    real = os.fsync

    def sync_where_the_reserve_is_gone(descriptor: int) -> None:
        if reserve.exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    def never_sync(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", sync_where_the_reserve_is_gone)
    state.write_status(STORE, StoreStatus(ready="2/3"))
    assert state.read_status(STORE) == StoreStatus(ready="2/3")
    assert reserve.exists(), "the next status needs it"
    monkeypatch.setattr(os, "fsync", never_sync)
    with pytest.raises(StateDirectoryError, match="free some MiB on its disk"):
        state.write_status(STORE, StoreStatus(ready="3/3"))


# --- The lock.


def test_a_lock_without_a_block_is_taken_on_a_full_disk(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older program left it empty."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    state.path.mkdir()
    (state.path / "lock").touch()
    monkeypatch.setattr(os, "pwrite", full)
    with state.lock(), pytest.raises(StateDirectoryError, match="free some MiB"):
        state.write_holder()
    assert state.holder() is None


def test_a_shorter_holder_takes_the_place_of_a_long_one_at_once(state: StateDirectory) -> None:
    """A reader between two writes would take the rest of the long one for damage."""
    stores = [StoreName(f"store-{number:03}") for number in range(60)]
    with state.lock():
        state.write_holder(stores)
        size = (state.path / "lock").stat().st_size
        assert state.running() == tuple(stores)
        state.write_holder([STORE])
        assert state.running() == (STORE,)
    assert (state.path / "lock").read_bytes() == b"\n" * size


def test_one_at_a_time_holds_a_state_directory(state: StateDirectory) -> None:
    with state.lock():
        state.write_holder()
        assert state.holder() is not None
        with pytest.raises(AlreadyRunningError, match="`qss down`"), state.lock():
            pass
        assert state.holder() is not None, "the refused one has changed nothing"
    assert state.holder() is None
    with state.lock():
        assert state.holder() is None


# --- Ports.


def test_ports_are_distinct_free_and_below_the_ephemeral_ones() -> None:
    ports = [port for pod in choose_ports((), 8, seed="a") for port in pod.all()]
    assert len(set(ports)) == 24
    assert all(18000 <= port < 32000 and is_free(port) for port in ports)


def test_recorded_ports_are_kept_unless_somebody_listens_there() -> None:
    recorded = choose_ports((), 2, seed="a")
    assert choose_ports(recorded, 2, seed="b") == recorded
    with socket.socket() as other:
        other.bind((LOOPBACK, recorded[0].internal))
        other.listen()
        again = choose_ports(recorded, 2, seed="a")
    assert again[1] == recorded[1]
    assert not set(again[0].all()) & set(recorded[0].all())


def test_ports_of_other_stores_are_left_to_them() -> None:
    first = choose_ports((), 1, seed="a")
    second = choose_ports((), 1, seed="a", taken=first[0].all())
    assert not set(first[0].all()) & set(second[0].all())


def test_recorded_ports_that_another_pod_has_too_are_chosen_anew() -> None:
    (first,) = choose_ports((), 1, seed="a")
    own = choose_ports((first, first), 2, seed="a")
    assert own[0] == first
    assert not set(own[1].all()) & set(first.all())
    (elsewhere,) = choose_ports((first,), 1, seed="a", taken=first.all())
    assert not set(elsewhere.all()) & set(first.all())


def test_ports_survive_the_state_directory(state: StateDirectory) -> None:
    ports = (PodPorts(query=18000, internal=18001, ops=18002),)
    assert state.read_ports(STORE) == ()
    (state.path / STORE).mkdir(parents=True)
    state.write_ports(STORE, ports)
    assert state.read_ports(STORE) == ports


# --- Resources.


def test_a_resource_is_stored_with_defaults_uid_and_generation(
    tmp_path: Path, state: StateDirectory
) -> None:
    (prepared,) = prepare([manifest(tmp_path)], state)
    assert state.stores() == [], "preparing writes nothing"
    resource = store(prepared, state, "uid-1", NOW)
    assert (resource.uid, resource.generation) == ("uid-1", 1)
    stored = state.read_resource(STORE)
    assert stored is not None
    assert stored["metadata"]["creationTimestamp"] == NOW
    assert stored["spec"]["changelog"] == {"retention": "24h", "retentionBytes": "256Mi"}


def test_the_generation_rises_with_the_spec_alone_and_the_uid_stays(
    tmp_path: Path, state: StateDirectory
) -> None:
    store(prepare([manifest(tmp_path)], state)[0], state, "uid-1", NOW)
    same = store(prepare([manifest(tmp_path)], state)[0], state, "uid-2", NOW)
    assert (same.uid, same.generation) == ("uid-1", 1)
    noted = manifest(tmp_path, "metadata: {", "metadata: {annotations: {note: x}, ")
    assert store(prepare([noted], state)[0], state, "uid-2", NOW).generation == 1
    edited = manifest(tmp_path, "access:", "changelog: {retention: 1h}\n  access:")
    assert store(prepare([edited], state)[0], state, "uid-2", NOW).generation == 2


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("partitions: 12", "partitions: 8", "spec.partitions: partitions is immutable"),
        ("serde: string", "serde: int64", "spec.store.key: store.key is immutable"),
        ("partitions: 12", "partitons: 12", "did you mean partitions?"),
    ],
)
def test_an_edit_that_may_not_be_is_refused_with_file_and_field(
    tmp_path: Path, state: StateDirectory, old: str, new: str, message: str
) -> None:
    store(prepare([manifest(tmp_path)], state)[0], state, "uid-1", NOW)
    with pytest.raises(StoreError) as caught:
        prepare([manifest(tmp_path, old, new)], state)
    assert message in caught.value.message
    assert str(tmp_path / "store.yaml") in caught.value.message
    stored = state.read_resource(STORE)
    assert stored is not None
    assert stored["spec"]["partitions"] == 12


def test_a_store_is_given_once(tmp_path: Path, state: StateDirectory) -> None:
    file = tmp_path / "twice.yaml"
    file.write_text(f"{MANIFEST}---{MANIFEST}")
    with pytest.raises(InvalidResourceError, match="word-counts is given twice"):
        prepare([file], state)


def test_a_name_that_is_a_path_never_reaches_the_disk(
    tmp_path: Path, state: StateDirectory
) -> None:
    file = manifest(tmp_path, "name: word-counts", "name: ../word-counts")
    with pytest.raises(InvalidResourceError, match="DNS-1035"):
        prepare([file], state)


async def published(state: StateDirectory) -> tuple[LocalResources, StoreResource]:
    """The resources after a first status, and the resource as it was before."""
    (state.path / STORE).mkdir(parents=True)
    resources = LocalResources(state, [resource_of()])
    before = await resources.read(STORE)
    assert before is not None
    await resources.publish(before, StoreStatus(ready="1/3"))
    return resources, before


async def test_a_status_is_published_as_a_file_and_guarded_by_its_version(
    state: StateDirectory,
) -> None:
    resources, before = await published(state)
    assert state.read_status(STORE) == StoreStatus(ready="1/3")
    assert yaml.safe_load((state.path / STORE / "status.yaml").read_text()) == {"ready": "1/3"}
    with pytest.raises(StoreError, match="changed since it was read"):
        await resources.publish(before, StoreStatus(ready="2/3"))
    assert await resources.read(StoreName("absent")) is None


@pytest.mark.parametrize("is_deleted", [True, False])
async def test_a_status_that_another_program_changed_is_written_again(
    state: StateDirectory, *, is_deleted: bool
) -> None:
    """Commands of people read it."""
    resources, _before = await published(state)
    file = state.path / STORE / "status.yaml"
    if is_deleted:
        file.unlink()
    else:
        file.write_text("{{{")
    await resources.read(STORE)
    assert state.read_status(STORE) == StoreStatus(ready="1/3")


async def test_a_write_that_failed_is_not_mended_by_an_older_status(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file may have the newer status: its directory was not synced."""
    resources, _before = await published(state)
    real = StateDirectory.write_status

    def written_and_failed(directory: StateDirectory, *what: Any) -> None:
        real(directory, *what)
        raise StateDirectoryError("the directory was not synced")

    monkeypatch.setattr(StateDirectory, "write_status", written_and_failed)
    again = await resources.read(STORE)
    assert again is not None
    with pytest.raises(StateDirectoryError):
        await resources.publish(again, StoreStatus(ready="2/3"))
    monkeypatch.setattr(StateDirectory, "write_status", real)
    await resources.read(STORE)
    assert state.read_status(STORE) == StoreStatus(ready="2/3")


def test_a_damaged_lock_that_nobody_holds_is_none(state: StateDirectory) -> None:
    state.path.mkdir(exist_ok=True)
    (state.path / "lock").write_text("{{{")
    assert state.holder() is None
    assert state.running() == ()
    with state.lock():
        (state.path / "lock").write_text("{{{")
        with pytest.raises(StateDirectoryError, match=f"`fuser {state.path / 'lock'}` names"):
            state.running()


def test_an_accepted_loss_that_cannot_be_read_is_refused(
    state: StateDirectory, tmp_path: Path
) -> None:
    for given in ("foo", "3", "3@", "3@7;5@2", "3@7,5@2"):
        said = f"{{name: word-counts, annotations: {{{ACCEPT_LOSS_ANNOTATION}: '{given}'}}}}"
        file = manifest(tmp_path, "{name: word-counts}", said)
        if given == "3@7,5@2":
            assert prepare([file], state)
        else:
            with pytest.raises(InvalidResourceError, match="as 3@7 or 3@7,5@2, not '"):
                prepare([file], state)
