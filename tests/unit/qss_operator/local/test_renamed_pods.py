"""A pod's folder that a person renamed: `qss up` says so before the pod begins empty."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from qss_core.model import Ordinal, PodAddress, PodName, StoreAssignment, StoreId, StoreName
from qss_core.spec.resource import decode_spec, definition_of, settings_of
from qss_core.wire.messages import encode
from qss_operator.errors import StateDirectoryError
from qss_operator.local.directory.state import StateDirectory
from qss_operator.local.prepare import as_stored, prepare_resource
from qss_operator.resources.validation import validate_resource
from qss_testing.clients.qss_command import manifest
from qss_testing.pods.stores import configuration

ONE = StoreName("one")


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    """A store of one pod, with a database."""
    made = StateDirectory(tmp_path / "state")
    resource = yaml.safe_load(manifest(ONE, replicas=1))
    stored = as_stored(prepare_resource(resource, made), "uid-one", "2026-11-26T12:00:00Z")
    made.write_resource(ONE, stored)
    spec = decode_spec(validate_resource(resource)["spec"])
    address = PodAddress(
        ordinal=Ordinal(0), name=PodName("one-0"), query="http://a:1", changelog="http://a:2"
    )
    assignment = StoreAssignment(
        definition=definition_of(ONE, StoreId("uid-one"), spec),
        settings=settings_of(spec),
        pods=(address,),
        partitions=tuple(configuration(number, 0) for number in range(spec.partitions)),
    )
    put_database(made, "pod-0")
    (made.data_directory(ONE, Ordinal(0)) / "assignment.json").write_bytes(encode(assignment))
    return made


def put_database(state: StateDirectory, folder: str) -> None:
    database = state.path / ONE / folder / "data" / "partitions" / "1"
    database.mkdir(parents=True)
    (database / "CURRENT").touch()


def put_owner(state: StateDirectory, folder: str, pod: str) -> None:
    """Makes a folder with the data of a pod, which the volume says."""
    volume = state.path / ONE / folder / "data"
    if not volume.exists():
        shutil.copytree(state.path / ONE / "pod-0" / "data", volume)
    (volume / "pod-ordinal").write_text(pod)


def owners(state: StateDirectory) -> dict[str, str]:
    """The pods whose data the folders have."""
    files = (state.path / ONE).glob("pod-*/data/pod-ordinal")
    return {file.parent.parent.name: file.read_text() for file in files}


def prepare(state: StateDirectory) -> None:
    prepare_resource(yaml.safe_load(manifest(ONE, replicas=1)), state)


def run(command: str) -> None:
    """Does literally what a message tells a person to do."""
    subprocess.run(command, shell=True, check=True)


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_renamed_folder_is_put_back_as_told(state: StateDirectory, is_begun: bool) -> None:
    folder = state.path / ONE
    prepare(state)
    shutil.copytree(folder / "pod-0", folder / "pod-4")
    prepare(state)
    shutil.rmtree(folder / "pod-0")
    if is_begun:
        (folder / "pod-0" / "data").mkdir(parents=True)
    with pytest.raises(StateDirectoryError) as told:
        prepare(state)
    assert f"{folder / 'pod-0'} without data, and {folder / 'pod-4'} with" in told.value.message
    run(told.value.message.split("`")[1])
    assert (folder / "pod-0" / "data" / "partitions" / "1" / "CURRENT").exists()
    prepare(state)


def test_folders_of_no_pod_can_be_left_aside(state: StateDirectory) -> None:
    shutil.rmtree(state.path / ONE / "pod-0" / "data" / "partitions")
    put_database(state, "pod-4")
    put_database(state, "pod-5")
    with pytest.raises(StateDirectoryError, match="under the number of its pod") as told:
        prepare(state)
    run(told.value.message.split("`")[-2])
    prepare(state)


@pytest.mark.parametrize(
    "held",
    [
        {"pod-0": "1", "pod-1": "0"},
        {"pod-0": "1", "pod-1": "2", "pod-2": "0"},
        {"pod-0": "1", "pod-1": "0", "pod-2": "3", "pod-3": "2"},
        {"pod-4": "0", "pod-0": "1"},
        {"pod-0": "1"},
    ],
    ids=str,
)
def test_folders_of_which_the_volumes_say_the_pods_are_put_back_as_told(
    state: StateDirectory, held: dict[str, str]
) -> None:
    """A place may have a folder without data, and that of the first way aside may be taken."""
    for folder, pod in held.items():
        put_owner(state, folder, pod)
    (state.path.parent / f"{state.path.name}-{ONE}-pod-0").mkdir()
    if "pod-1" not in held:
        (state.path / ONE / "pod-1" / "data").mkdir(parents=True)
    with pytest.raises(StateDirectoryError, match="nothing") as told:
        prepare(state)
    run(told.value.message.split("`")[1])
    assert owners(state) == {f"pod-{pod}": pod for pod in held.values()}
    assert {one.name for one in (state.path / ONE).glob("pod-*")} <= {*owners(state), "pod-1"}


@pytest.mark.parametrize(
    "held",
    [
        {"pod-0": "0", "pod-1": "0"},
        {"pod-0": "", "pod-1": "0"},
        {"pod-0": "0", "pod-1": "\0\0"},
        {"pod-0": "0", "pod-1": "7", "pod-2": "7"},
    ],
    ids=str,
)
def test_copies_and_damaged_numbers_are_left_to_the_pods(
    state: StateDirectory, held: dict[str, str]
) -> None:
    for folder, pod in held.items():
        put_owner(state, folder, pod)
    prepare(state)
