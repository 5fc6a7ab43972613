"""The annotations of a store: their texts, and how a person is told to set them."""

from dataclasses import replace

import pytest

from qss_core.model import Ordinal, PartitionId
from qss_operator.kubernetes.status_writer import resource_of
from qss_operator.planning.annotations import (
    ACTIVES_ANNOTATION,
    decode_actives,
    encode_actives,
    how_to_annotate,
)
from qss_testing.fakes.control_world import World
from qss_testing.fakes.control_world import resource_of as resource_of_world


def test_the_actives_are_partitions_with_a_pod_each_in_the_order_of_partitions() -> None:
    asked = {PartitionId(12): Ordinal(0), PartitionId(5): Ordinal(0), PartitionId(3): Ordinal(2)}
    assert encode_actives(asked) == "3=2,5=0,12=0"
    assert decode_actives("3=2,5=0,12=0") == asked
    assert decode_actives(" 5=0 , 3=2,12=0") == asked
    assert decode_actives(None) == decode_actives("") == {}


@pytest.mark.parametrize("text", ["3", "3=", "3=a", "3=2;5=0", "3=2,", "-1=2", "03=2", "3@2"])
def test_actives_of_another_form_are_none(text: str) -> None:
    assert decode_actives(text) is None


def test_the_actives_of_a_resource_of_kubernetes_reach_the_planner() -> None:
    spec = {
        "store": {"type": "KeyValue", "key": {"serde": "string"}, "value": {"serde": "json"}},
        "partitions": 6,
    }
    metadata = {"name": "words", "uid": "u", "generation": 1, "resourceVersion": "7"}
    assert resource_of({"metadata": metadata, "spec": spec}).actives is None
    annotated = metadata | {"annotations": {ACTIVES_ANNOTATION: "3=2"}}
    assert resource_of({"metadata": annotated, "spec": spec}).actives == "3=2"


def test_an_annotation_of_a_local_store_is_written_in_its_file_and_applied() -> None:
    observation = World(resource=resource_of_world()).observation()
    told = how_to_annotate(observation, "a", "b")
    assert told.startswith("kubectl annotate qss ")
    cluster = replace(observation.cluster, local_option=" --state-dir x")
    told = how_to_annotate(replace(observation, cluster=cluster), "a", "b")
    assert told == (
        'write a: "b" under metadata.annotations in the store\'s file, then run '
        "`qss apply FILE --state-dir x`"
    )
