"""`status.moves`: the replicas that are made on other pods, with what is copied of them."""

from dataclasses import replace as changed
from typing import Any

import msgspec
from jsonschema import Draft202012Validator

from qss_core.model import Ordinal
from qss_core.wire.replica_reports import CopyReport
from qss_operator.planning.model import Moves, MovingReplica, Observation, PublishAssignment
from qss_operator.planning.plan import plan
from qss_operator.planning.status import status_of
from qss_operator.reconcile.reconciler import StoreReconciler
from qss_operator.resources.crd import json_schema, resource_schema
from qss_testing.fakes.control_world import NOW, World, resource_of, spec_of
from qss_testing.fakes.simulated_pod import STORE


def growing(partitions: int, replicas: int) -> World:
    """A store that was asked for more pods, and whose first moves run."""
    world = World(resource=resource_of(spec_of(partitions=partitions, replicas=1)))
    world.settle()
    world.resource = changed(world.resource, spec=spec_of(partitions=partitions, replicas=replicas))
    world.lagging = set(range(replicas))
    for _ in range(5):
        for step in plan(world.observation()):
            world.apply(step)
    return world


def copying(world: World, pod: int, done: int, total: int) -> Observation:
    """The observation where a pod copies each replica that it is to get."""
    seen = world.observation()
    report = seen.reports[Ordinal(pod)]
    copies = tuple(
        CopyReport(partition=one.configuration.partition, done_bytes=done, total_bytes=total)
        for one in report.replicas
        if pod not in one.configuration.in_sync
    )
    report = msgspec.structs.replace(report, copies=copies)
    return changed(seen, reports={**seen.reports, Ordinal(pod): report})


def moves_of(observation: Observation) -> Moves:
    moves = status_of(observation, NOW).moves
    assert moves is not None
    return moves


def plain(moves: Moves) -> Any:
    return msgspec.json.decode(msgspec.json.encode(moves))


def test_replicas_that_are_copied_come_first_with_their_bytes_and_then_those_that_wait() -> None:
    world = growing(partitions=8, replicas=2)
    moves = moves_of(copying(world, 1, done=479, total=1000))
    assert plain(moves) == {
        "running": 2,
        "pending": 2,
        "replicas": [
            {
                "partition": number,
                "pod": 1,
                "state": "running",
                "doneBytes": 400,
                "totalBytes": 1000,
                "percent": 40,
            }
            for number in (0, 1)
        ]
        + [{"partition": number, "pod": 1, "state": "waiting"} for number in (2, 3)],
    }
    schema = json_schema(resource_schema()["properties"]["status"]["properties"]["moves"])
    Draft202012Validator(schema).validate(plain(moves))
    members = resource_schema()["properties"]["status"]["properties"]["moves"]["properties"]
    fields = {one.encode_name for one in msgspec.structs.fields(MovingReplica)}
    assert fields == set(members["replicas"]["items"]["properties"])
    assert {one.encode_name for one in msgspec.structs.fields(Moves)} == set(members)


def test_a_replica_whose_copy_has_not_begun_or_has_ended_has_no_bytes() -> None:
    world = growing(partitions=2, replicas=2)
    assert plain(moves_of(world.observation()))["replicas"] == [
        {"partition": 0, "pod": 1, "state": "running"}
    ]


def test_the_share_stays_within_its_limits() -> None:
    world = growing(partitions=2, replicas=2)
    shares = [
        [(one.percent, one.done_bytes) for one in moves_of(copying(world, 1, *sizes)).replicas]
        for sizes in ((0, 0), (999, 1000), (1000, 1000), (1200, 1000))
    ]
    assert shares == [[(0, 0)], [(90, 900)], [(100, 1000)], [(100, 1000)]]


def test_the_status_stays_the_same_between_tenths() -> None:
    world = growing(partitions=8, replicas=2)
    told = {status_of(copying(world, 1, done, 1000), NOW) for done in range(400, 500, 9)}
    assert len(told) == 1
    assert status_of(copying(world, 1, 500, 1000), NOW) not in told


def test_a_status_lists_twenty_replicas_at_most() -> None:
    world = growing(partitions=64, replicas=2)
    moves = moves_of(world.observation())
    assert (moves.running, moves.pending, len(moves.replicas)) == (2, 30, 20)
    assert [one.state for one in moves.replicas[:3]] == ["running", "running", "waiting"]


def test_an_active_that_goes_to_another_replica_is_listed_without_bytes() -> None:
    world = World(resource=resource_of(spec_of(partitions=1, replicas=2, standbys=1)))
    world.settle()
    (entry,) = world.status().assignment or ()
    other = 1 - entry.active
    world.resource = changed(world.resource, actives=f"0={other}")
    world.promised = {other}
    assert plain(moves_of(world.observation()))["replicas"] == [
        {"partition": 0, "pod": other, "state": "running"}
    ]


async def test_a_store_at_rest_has_no_list_and_writes_no_status() -> None:
    world = growing(partitions=8, replicas=2)
    world.lagging = set()
    world.settle(60)
    assert plain(moves_of(world.observation())) == {"running": 0, "pending": 0}
    reconciler = StoreReconciler(STORE, resources=world, cluster=world, pods=world, clock=world)
    for _ in range(5):
        await reconciler.run_round()
        world.seconds += 60.0
    written = len(world.published)
    for _ in range(5):
        assert await reconciler.run_round()
        world.seconds += 60.0
    assert len(world.published) == written
    assert not [step for step in plan(world.observation()) if isinstance(step, PublishAssignment)]
