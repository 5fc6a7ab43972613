"""The published status: it fits the CRD, and its messages say why a store waits."""

from dataclasses import replace as changed
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator
from msgspec.structs import replace

from qss_core.model import Epoch, Offset, Ordinal, Role, Sequence, StoreId
from qss_core.spec.fixed_members import OtherSchemaError, check_schema
from qss_core.wire.replica_reports import IndexReport, UnlikeRows
from qss_operator.planning.findings.other_schema import with_way_back
from qss_operator.planning.model import Condition, ConditionStatus, ConditionType, StoreStatus
from qss_operator.planning.placement.place import first_configurations, place
from qss_operator.planning.placement.sites import Site
from qss_operator.planning.status import starting_status, status_of, stopped_status
from qss_operator.resources.crd import json_schema, resource_schema
from qss_testing.fakes.control_world import NOW, World, resource_of, running, spec_of
from qss_testing.pods.stores import make_definition

LATER = "2026-11-21T12:00:09Z"


def condition(status: StoreStatus, kind: ConditionType) -> Condition:
    found = status.condition(kind)
    assert found is not None
    return found


def assert_has_the_shape_of_the_crd(status: StoreStatus) -> None:
    schema = json_schema(resource_schema()["properties"]["status"])
    Draft202012Validator(schema).validate(plain(status))


def plain(status: StoreStatus) -> Any:
    return msgspec.json.decode(msgspec.json.encode(status))


def test_a_running_store_is_ready() -> None:
    status = running().status()
    assert (status.ready, status.assigned, status.moving) == ("3/3", "6/6", "0/0")
    assert (status.replicas, status.ready_replicas, status.format) == (3, 3, "Timestamped")
    ready = condition(status, ConditionType.READY)
    assert (ready.status, ready.reason) == (ConditionStatus.TRUE, "Serving")
    assert condition(status, ConditionType.DEGRADED).status is ConditionStatus.FALSE
    assert condition(status, ConditionType.PROGRESSING).status is ConditionStatus.FALSE


def test_every_status_has_the_shape_of_the_crd() -> None:
    new, serving, broken = World(resource=resource_of()), running(), running()
    broken.pods[1].is_running = broken.pods[1].is_reachable = False
    broken.pods[1].trouble = "ended with exit code 3"
    statuses = [world.status() for world in (new, serving, broken)]
    statuses += [stopped_status(statuses[1], NOW), starting_status(None, NOW)]
    for status in statuses:
        assert_has_the_shape_of_the_crd(status)


def test_the_model_has_the_fields_of_the_crd_and_no_others() -> None:
    fields = {field.encode_name for field in msgspec.structs.fields(StoreStatus)}
    schema = resource_schema()["properties"]["status"]
    assert fields == set(schema["properties"])
    members = schema["properties"]["conditions"]["items"]["properties"]
    assert {field.encode_name for field in msgspec.structs.fields(Condition)} == set(members)
    assert [kind.value for kind in ConditionType] == members["type"]["enum"]


def test_every_condition_is_there_from_the_first_status_on() -> None:
    status = World(resource=resource_of()).status()
    assert [entry.type for entry in status.conditions or ()] == list(ConditionType)
    assert {entry.observed_generation for entry in status.conditions or ()} == {1}
    assert all(entry.message for entry in status.conditions or ())


def test_a_pod_that_ends_is_told_with_its_last_words() -> None:
    world = running()
    world.pods[1].is_running = world.pods[1].is_reachable = False
    world.pods[1].trouble = "ended with exit code 3; it said last: the disk is on fire"
    status = world.status()
    ready = condition(status, ConditionType.READY)
    assert (status.ready, status.assigned) == ("2/3", "4/6")
    assert (ready.status, ready.reason) == (ConditionStatus.FALSE, "PodsFailing")
    assert "word-counts-1 ended with exit code 3" in ready.message
    assert "the disk is on fire" in condition(status, ConditionType.DEGRADED).message


def test_pods_with_the_same_trouble_share_a_sentence() -> None:
    world = running()
    for pod in world.pods[:2]:
        pod.is_running = pod.is_reachable = False
        pod.trouble = "ended with exit code 3"
    message = condition(world.status(), ConditionType.DEGRADED).message
    assert message == "word-counts-0, word-counts-1 ended with exit code 3"


def test_a_pod_that_answers_again_is_no_trouble_any_more() -> None:
    world = running()
    world.pods[1].trouble = "was ended by SIGKILL and is started again"
    degraded = condition(world.status(), ConditionType.DEGRADED)
    assert degraded.status is ConditionStatus.FALSE


def test_a_silent_pod_is_named() -> None:
    world = running()
    world.pods[2].is_reachable = False
    ready = condition(world.status(), ConditionType.READY)
    assert ready.message == "4 of 6 partitions are served; waiting for word-counts-2 to answer"


def test_a_pod_that_was_ready_and_is_silent_is_in_trouble() -> None:
    world = running()
    world.pods[2].if_silent = "was ready and does not answer; its node is n2"
    assert condition(world.status(), ConditionType.DEGRADED).status is ConditionStatus.FALSE
    world.pods[2].is_reachable = False
    said = "word-counts-2 was ready and does not answer; its node is n2"
    degraded = condition(world.status(), ConditionType.DEGRADED)
    assert (degraded.reason, degraded.message) == ("PodsFailing", said)
    ready = condition(world.status(), ConditionType.READY)
    assert ready.message == f"4 of 6 partitions are served; {said}"


def test_partitions_that_answer_reads_and_take_no_batch_yet_are_counted() -> None:
    """The only pod that runs begins an epoch of its partitions: it has the rows of all six."""
    world = running()
    world.pods[1].is_reachable = world.pods[2].is_reachable = False
    world.pods[0].state = "opening"
    world.pods[0].answering = {0, 3}
    ready = condition(world.status(), ConditionType.READY)
    waits = "waiting for word-counts-1, word-counts-2 to answer"
    assert ready.message == f"0 of 6 partitions take batches, and 2 answer reads; {waits}"


def test_partitions_that_wait_for_the_same_room_are_named_together() -> None:
    world = running()
    full = "the volume is full: free space or make it larger"
    world.pods[0].lost, world.pods[0].waiting = {0: full, 3: full}, {0, 3}
    world.pods[1].lost, world.pods[1].waiting = {1: full}, {1}
    message = condition(world.status(), ConditionType.DEGRADED).message
    assert (
        message == f"partition 0, 3 on word-counts-0: {full}; partition 1 on word-counts-1: {full}"
    )


def test_a_failed_replica_is_named_with_its_error() -> None:
    world = running()
    world.pods[0].state = "failed"
    status = world.status()
    degraded = condition(status, ConditionType.DEGRADED)
    assert (degraded.status, degraded.reason) == (ConditionStatus.TRUE, "ReplicaFailed")
    assert degraded.message == "partition 0, 3: the checksum is wrong"
    ready = condition(status, ConditionType.READY)
    assert ready.message.endswith("; partition 0, 3 failed: the checksum is wrong")
    assert status.assigned == "4/6"


@pytest.mark.parametrize(
    ("option", "way", "other"),
    [
        (None, "set storage.whenDeleted: Retain first", "qss up"),
        (" --state-dir x", "`qss down --state-dir x`, then `qss up FILE... --state", "whenDeleted"),
    ],
)
def test_another_schema_than_that_of_the_rows_is_told_with_the_way_back_of_the_place(
    option: str | None, way: str, other: str
) -> None:
    """The way comes before the partitions, of which each says the same."""
    definition = make_definition(partitions=6)
    with pytest.raises(OtherSchemaError) as refused:
        check_schema(definition, replace(definition, value_serde="bytes"))
    said = f"partition 0 on words-0: {refused.value.message}"
    finding = (ConditionStatus.FALSE, "ReplicaFailed", said)
    told = with_way_back(finding, option)[2]
    assert told.startswith((way, f"make the resource anew with its schema as it was ({way}"))
    assert other not in told
    assert told.endswith(f": {said}")
    quiet = (ConditionStatus.FALSE, "ReplicaFailed", "partition 0 on words-0: the disk is full")
    assert with_way_back(quiet, option) == quiet


def test_indexes_that_are_made_anew_are_told_with_how_far_they_are() -> None:
    world = running()
    world.pods[1].state = "opening"
    world.pods[1].indexes = {
        1: IndexReport(rows_done=300, rows_left=100),
        4: IndexReport(rows_done=0, rows_left=600),
    }
    status = world.status()
    said = "the indexes of partition 1, 4 are made anew: 30% of their rows"
    ready = condition(status, ConditionType.READY)
    assert (ready.reason, ready.message) == (
        "PodsStarting",
        f"4 of 6 partitions are served; {said}",
    )
    progressing = condition(status, ConditionType.PROGRESSING)
    assert (progressing.status, progressing.message) == (ConditionStatus.TRUE, said)


def test_a_pod_without_partitions_may_be_away_and_the_store_is_ready() -> None:
    world = running(partitions=2, replicas=3)
    world.pods[2].is_reachable = False
    status = world.status()
    assert condition(status, ConditionType.READY).status is ConditionStatus.TRUE
    assert status.ready == "2/3"


def test_a_foreign_volume_makes_the_store_not_ready() -> None:
    world = running()
    world.pods[1].store_id = StoreId("another-store")
    ready = condition(world.status(), ConditionType.READY)
    assert (ready.status, ready.reason) == (ConditionStatus.FALSE, "RetainedVolumesFound")


def test_an_emptied_volume_makes_the_store_not_ready_and_says_what_to_do() -> None:
    world = running()
    world.pods[1].store_id, world.pods[1].held = None, ()
    status = world.status()
    for kind in (ConditionType.READY, ConditionType.DEGRADED):
        assert condition(status, kind).reason == "NoInSyncReplica"
        assert "word-counts-1: the volume is empty or incomplete" in condition(status, kind).message
    assert condition(status, ConditionType.PROGRESSING).status is ConditionStatus.FALSE


def test_fewer_pods_than_standbys_need_is_degraded_and_not_refused() -> None:
    status = running(partitions=4, replicas=2, standbys=3).status()
    degraded = condition(status, ConditionType.DEGRADED)
    assert (degraded.status, degraded.reason) == (ConditionStatus.TRUE, "FewerStandbys")


def test_replicas_with_other_rows_are_named_with_what_a_person_can_do() -> None:
    observation = running().observation()
    active = observation.reports[Ordinal(1)]
    unlike = UnlikeRows(
        pods=(Ordinal(0), Ordinal(1)), epoch=Epoch(4), sequence=Sequence(17), offset=Offset(33)
    )
    one, *others = active.replicas
    told = replace(active, replicas=(replace(one, unlike=unlike), *others))
    reports = {**observation.reports, Ordinal(1): told}
    degraded = condition(
        status_of(changed(observation, reports=reports), NOW), ConditionType.DEGRADED
    )
    assert (degraded.status, degraded.reason) == (ConditionStatus.TRUE, "ReplicasDiffer")
    where = f"partition {one.configuration.partition}: active word-counts-1, compared with pod 0"
    assert where in degraded.message
    assert "set spec.standbys to 0" in degraded.message
    hurt = replace(one, unlike=unlike, has_damage=True)
    told = replace(active, replicas=(hurt, *others))
    reports = {**observation.reports, Ordinal(1): told}
    degraded = condition(
        status_of(changed(observation, reports=reports), NOW), ConditionType.DEGRADED
    )
    assert degraded.reason == "ReplicaDamaged"
    assert where in degraded.message, "both are told"


def test_a_condition_is_dated_when_its_status_changes_and_not_before() -> None:
    world = running()
    assert status_of(world.observation(), LATER) == world.status()
    world.pods[0].is_reachable = False
    status = status_of(world.observation(), LATER)
    assert condition(status, ConditionType.READY).last_transition_time == LATER
    assert condition(status, ConditionType.DEGRADED).last_transition_time == NOW


@pytest.mark.parametrize("pods", [3, 64])
def test_a_message_is_bounded(pods: int) -> None:
    world = running(partitions=512, replicas=pods)
    for pod in world.pods:
        pod.is_running = pod.is_reachable = False
        pod.trouble = f"ended with exit code {pod.ordinal}; it said last: {'x' * 200}"
    status = world.status()
    assert all(len(entry.message) <= 1024 for entry in status.conditions or ())
    assert_has_the_shape_of_the_crd(status)


def test_the_status_of_the_largest_store_is_small() -> None:
    """Three replicas of 512 partitions: an API server takes 1.5 MB, and each watcher gets it."""
    sites = [Site(ordinal=Ordinal(number), zone=f"zone-{number % 3}") for number in range(6)]
    assignment = first_configurations(place(512, sites, standbys=2))
    status = msgspec.structs.replace(running().status(), assignment=assignment)
    assert all(len(entry.replicas) == 3 for entry in assignment)
    assert_has_the_shape_of_the_crd(status)
    assert 32 * 1024 < len(msgspec.json.encode(status)) < 64 * 1024


def test_a_stopped_store_keeps_its_assignment_and_says_so() -> None:
    before = running().status()
    stopped = stopped_status(before, LATER)
    assert stopped.assignment == before.assignment
    assert stopped.store_id == before.store_id
    assert (stopped.ready, stopped.assigned) == ("0/3", "0/6")
    assert condition(stopped, ConditionType.READY).reason == "Stopped"
    assert stopped.condition(ConditionType.DEGRADED) is None


def test_a_standby_that_has_joined_and_not_applied_its_log_is_told() -> None:
    """It holds every batch, and answers no reads: the store is not as it should be."""
    world = World(resource=resource_of(spec_of(replicas=2, partitions=2, standbys=1)))
    world.settle()
    assert world.status().condition(ConditionType.DEGRADED).reason == "Healthy"  # type: ignore[union-attr]
    seen = world.observation()
    for pod, have in ((1, "partition 0 has"), (0, "partitions 0, 1 have")):
        report = seen.reports[Ordinal(pod)]
        replicas = tuple(
            replace(one, state="opening") if one.role is Role.STANDBY else one
            for one in report.replicas
        )
        report = replace(report, replicas=replicas)
        seen = changed(seen, reports={**seen.reports, Ordinal(pod): report})
        degraded = status_of(seen, NOW).condition(ConditionType.DEGRADED)
        assert degraded is not None
        assert degraded.reason == "FewerStandbys"
        assert f"{have} a standby that applies its changelog" in degraded.message
