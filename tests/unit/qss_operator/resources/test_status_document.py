"""The published status names the role of each replica, and is read whatever it says about roles."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from jsonschema import Draft202012Validator

from qss_core.model import Epoch, Ordinal, PartitionConfiguration, PartitionId
from qss_operator.kubernetes.status_writer import published_status
from qss_operator.local.directory.state import StateDirectory
from qss_operator.planning.model import StoreStatus
from qss_operator.resources.status_document import decode_status, encode_status
from qss_testing.fakes.simulated_pod import STORE

CRD_FILE = Path(__file__).parents[4] / "crds" / "queryablestatestores.yaml"
DOCUMENT_BYTES_MAX = 64 * 1024


def entry(partition: int, active: int, standbys: list[int], learners: list[int]) -> Any:
    in_sync = (Ordinal(active), *map(Ordinal, standbys))
    return PartitionConfiguration(
        partition=PartitionId(partition),
        epoch=Epoch(7),
        active=Ordinal(active),
        in_sync=in_sync,
        replicas=(*map(Ordinal, learners), *in_sync),
    )


STATUS = StoreStatus(assignment=(entry(0, 2, [0], [1]), entry(1, 1, [], [])))
SAID = [
    {
        "partition": 0,
        "epoch": 7,
        "active": 2,
        "inSync": [2, 0],
        "replicas": [1, 2, 0],
        "standbys": [0],
        "learners": [1],
    },
    {"partition": 1, "epoch": 7, "active": 1, "inSync": [1], "replicas": [1]},
]


def published(status: StoreStatus) -> Any:
    """The document as JSON has it."""
    return json.loads(json.dumps(encode_status(status)))


def schema_of_status() -> Any:
    crd = yaml.safe_load(CRD_FILE.read_text())
    return crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]


def test_each_replica_of_a_partition_stands_under_its_role() -> None:
    assert published(STATUS)["assignment"] == SAID


def test_the_resource_declares_all_that_the_assignment_says() -> None:
    declared = schema_of_status()["properties"]["assignment"]["items"]
    assert set(SAID[0]) == set(declared["properties"])
    Draft202012Validator(schema_of_status()).validate(published(STATUS))


def test_a_status_is_read_as_it_was_published_with_and_without_roles() -> None:
    assert decode_status(published(STATUS)) == STATUS
    assert decode_status(msgspec.to_builtins(STATUS)) == STATUS


def test_a_role_that_a_person_wrote_does_not_count() -> None:
    document = published(STATUS)
    document["assignment"][0] |= {"standbys": [1], "learners": "none"}
    assert published_status({"status": document}) == STATUS


@pytest.mark.parametrize("assignment", ["all", [None], [SAID[0] | {"witnesses": [3]}]])
def test_another_form_of_an_assignment_counts_as_missing(assignment: Any) -> None:
    assert published_status({"status": {"assignment": assignment}}) is None


def test_the_largest_usual_assignment_is_a_small_part_of_an_object() -> None:
    entries = tuple(entry(number, 511, [510, 509], []) for number in range(512))
    document = encode_status(StoreStatus(assignment=entries))
    assert len(json.dumps(document, separators=(",", ":"))) <= DOCUMENT_BYTES_MAX


def test_the_status_file_of_a_local_store_names_the_roles(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    with state.lock():
        state.write_resource(STORE, {"metadata": {"name": STORE}})
        state.write_status(STORE, STATUS)
    written = yaml.safe_load((tmp_path / STORE / "status.yaml").read_text())
    assert written["assignment"] == SAID
    assert state.read_status(STORE) == STATUS
