"""The format in which pods are told to write, and the status of rows in another format."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from qss_core.spec.resource import decode_spec
from qss_core.wire.replica_reports import MigrationReport
from qss_operator.planning.formats import decide_format
from qss_operator.planning.model import Condition, ConditionStatus, ConditionType
from qss_operator.planning.plan import plan
from qss_testing.fakes.control_world import World, resource_of, spec_of

ROWS = {"type": "KeyValue", "key": {"serde": "string"}, "value": {"serde": "json"}}


def settled(row_format: str = "Timestamped", **world: Any) -> World:
    made = World(resource=resource_of(spec_of()), **world)
    ask_for(made, row_format)
    made.settle()
    return made


def ask_for(world: World, row_format: str, *, allowed: bool = False) -> None:
    rows = ROWS | {"format": row_format, "allowLossyMigration": allowed}
    spec = decode_spec({"store": rows, "partitions": 6, "replicas": 3, "standbys": 0})
    world.resource = replace(world.resource, spec=spec)


def told(world: World) -> set[str | None]:
    return {pod.format for pod in world.pods}


def condition(world: World) -> Condition:
    found = world.status().condition(ConditionType.FORMAT_MIGRATING)
    assert found is not None
    return found


def moving(moved: int, left: int, error: str | None = None) -> MigrationReport:
    return MigrationReport(formats=("Timestamped",), rows_moved=moved, rows_left=left, error=error)


def test_pods_are_told_a_format_that_holds_more() -> None:
    world = settled()
    ask_for(world, "TimestampedWithHeaders")
    world.settle()
    assert told(world) == {"TimestampedWithHeaders"}
    assert world.status().format == "TimestampedWithHeaders"
    assert condition(world).reason == "NoMigration"


def test_a_format_that_holds_less_changes_nothing_and_the_condition_lists_what_would_be_lost() -> (
    None
):
    world = settled("TimestampedWithHeaders")
    ask_for(world, "Plain")
    world.settle()
    assert told(world) == {"TimestampedWithHeaders"}
    assert world.status().format == "TimestampedWithHeaders"
    found = condition(world)
    assert (found.status, found.reason) == (ConditionStatus.FALSE, "LossyMigrationNotAllowed")
    assert found.message == (
        "the rows stay TimestampedWithHeaders: Plain cannot hold their headers and timestamps. To "
        "give those up, set spec.store.allowLossyMigration: true; to keep them, set "
        "spec.store.format: TimestampedWithHeaders"
    )


def test_what_is_given_up_is_said_while_it_is_lost() -> None:
    world = settled()
    ask_for(world, "Plain", allowed=True)
    world.settle()
    assert told(world) == {"Plain"}
    world.pods[0].migrations[0] = moving(10, 30)
    found = condition(world)
    assert (found.status, found.reason) == (ConditionStatus.TRUE, "MovingRows")
    assert "their timestamps are lost, as spec.store.allowLossyMigration says" in found.message


def test_the_condition_and_the_columns_tell_how_far_it_is() -> None:
    world = settled()
    ask_for(world, "TimestampedWithHeaders")
    world.settle()
    world.pods[0].migrations = {0: moving(0, 123_456), 3: moving(50, 50)}
    status = world.status()
    assert (status.format, status.migrated) == ("TimestampedWithHeaders", "75%")
    assert condition(world).message == (
        "rows are moved from Timestamped to TimestampedWithHeaders: 75%, 4 of 6 partitions, about "
        "120000 rows left"
    )
    world.pods[0].migrations.clear()
    assert world.status().migrated is None
    assert condition(world).status is ConditionStatus.FALSE


def test_a_row_that_cannot_be_moved_is_told() -> None:
    world = settled()
    ask_for(world, "TimestampedWithHeaders")
    world.settle()
    world.pods[1].migrations[1] = moving(7, 1, "a stored row is not of the store's types")
    found = condition(world)
    assert (found.status, found.reason) == (ConditionStatus.TRUE, "MigrationStalled")
    assert found.message.endswith("it does not go on: a stored row is not of the store's types")


def test_a_pod_that_was_not_told_yet_counts_as_not_moved() -> None:
    world = settled()
    world.pods[2].is_reachable = False
    ask_for(world, "TimestampedWithHeaders")
    world.settle()
    world.pods[2].is_reachable = True
    assert world.status().migrated == "66%"
    world.settle()
    assert told(world) == {"TimestampedWithHeaders"}


def test_what_a_silent_pod_holds_counts_as_not_moved() -> None:
    world = settled()
    ask_for(world, "TimestampedWithHeaders")
    world.settle()
    world.pods[0].migrations[0] = moving(1, 1)
    world.settle()
    before = condition(world).message
    assert ": 91%, 5 of 6 partitions, about 1 rows left" in before
    world.pods[1].is_reachable = False
    told = condition(world).message
    assert ": 58%, 3 of 6 partitions, about 1 rows left" in told
    assert "besides those of word-counts-1, which does not answer" in told


def test_a_silent_pod_does_not_end_a_migration() -> None:
    world = settled()
    ask_for(world, "TimestampedWithHeaders")
    world.settle()
    world.pods[0].migrations[0] = moving(1, 1)
    world.settle()
    world.pods[0].is_reachable = False
    found = condition(world)
    assert (found.status, found.reason) == (ConditionStatus.TRUE, "MovingRows")
    assert found.message == "waiting for word-counts-0 to tell whether rows are left"


def test_pods_that_another_operator_told_otherwise_are_told_again() -> None:
    world = settled()
    world.pods[1].format = "Plain"
    assert [step.ordinal for step in plan(world.observation())] == [1]  # type: ignore[union-attr]


@pytest.mark.parametrize("status_format", ["Timestamped", "nonsense"])
def test_what_the_pods_have_counts_where_the_status_is_behind(status_format: str) -> None:
    """The change back is lossy, although the status does not show the first change yet."""
    world = settled()
    for pod in world.pods:
        pod.format = "TimestampedWithHeaders"
    status = world.resource.status
    assert status is not None
    world.resource = replace(world.resource, status=with_format(status, status_format))
    decided = decide_format(world.observation())
    assert (decided.format, decided.lost) == ("TimestampedWithHeaders", ("headers",))


def with_format(status: Any, row_format: str) -> Any:
    return msgspec.structs.replace(status, format=row_format)


def test_the_way_back_in_the_middle_needs_leave_too() -> None:
    world = settled()
    ask_for(world, "TimestampedWithHeaders")
    world.settle()
    ask_for(world, "Timestamped")
    world.settle()
    assert told(world) == {"TimestampedWithHeaders"}
    ask_for(world, "Timestamped", allowed=True)
    world.settle()
    assert told(world) == {"Timestamped"}
    ask_for(world, "Timestamped")
    world.settle()
    assert told(world) == {"Timestamped"}
