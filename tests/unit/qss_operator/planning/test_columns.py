"""The texts that `kubectl get qss` shows say what is true, and change only with it."""

from dataclasses import replace as changed
from typing import Any

import pytest

from qss_operator.planning.plan import plan
from qss_operator.planning.status import old_status, stopped_status
from qss_operator.resources.crd import resource_schema
from qss_testing.fakes.control_world import NOW, World, resource_of, running, spec_of


def ask_for(world: World, **spec: Any) -> None:
    world.resource = changed(world.resource, spec=spec_of(**spec))


@pytest.mark.parametrize(("standbys", "whole"), [(0, "6/6"), (1, "12/12"), (2, "18/18")])
def test_actives_and_standbys_count_as_in_sync(standbys: int, whole: str) -> None:
    assert running(standbys=standbys).status().in_sync == whole


def test_a_store_whose_pods_do_not_run_yet_has_no_replica_in_sync() -> None:
    world = World(resource=resource_of(spec_of(standbys=1)))
    assert world.status().in_sync == "0/12"
    for step in plan(world.observation()):
        world.apply(step)
    assert world.status().in_sync == "0/12", "the first configurations name all, and none is made"
    world.settle()
    assert world.status().in_sync == "12/12"


def test_a_replica_of_a_silent_pod_is_not_counted() -> None:
    world = running(standbys=1)
    world.pods[1].is_reachable = False
    assert (world.status().ready, world.status().in_sync) == ("2/3", "8/12")


def test_the_address_of_a_store_is_that_of_a_pod_that_is_ready() -> None:
    """A pod with an emptied volume has no assignment, and refuses every read."""
    world = running(standbys=1)
    first, second, _ = (pod.address.query for pod in world.pods)
    assert query_of(world) == first
    world.pods[0].is_reachable = False
    assert query_of(world) == second
    for pod in world.pods:
        pod.is_reachable = False
    assert query_of(world) == first


def query_of(world: World) -> str | None:
    endpoints = world.status().endpoints
    assert endpoints is not None
    return endpoints.query


def test_a_new_standby_counts_when_it_has_caught_up() -> None:
    world = running(standbys=0)
    ask_for(world, standbys=1)
    world.lagging = {0, 1, 2}
    world.settle()
    assert world.status().in_sync == "6/12"
    world.lagging = set()
    world.settle(50)
    assert world.status().in_sync == "12/12"


def test_a_partition_with_a_replica_too_many_counts_no_more_than_it_is_to_have() -> None:
    world = running(standbys=1, replicas=2)
    ask_for(world, standbys=1, replicas=3)
    for _ in range(50):
        steps = plan(world.observation())
        assert world.status().in_sync == "12/12"
        for step in steps:
            world.apply(step)
    assert world.status().moving == "0/0"


def test_a_store_that_is_stopped_or_not_heard_of_keeps_the_whole_of_the_count() -> None:
    status = running(standbys=1).status()
    stopped = stopped_status(status, NOW)
    assert (stopped.in_sync, stopped.zones, stopped.versions) == ("0/12", None, None)
    assert old_status(status, "the process is suspended", NOW).in_sync == "?/12"


@pytest.mark.parametrize(
    ("zones", "shown"),
    [
        (["", "", ""], None),
        (["zone0", "zone0", "zone0"], "zone0"),
        (["zone1", "zone0", "zone0"], "zone0=2,zone1=1"),
        (["zone1", "", "zone0"], "zone0=1,zone1=1"),
        (["f", "e", "d", "c", "b", "a"], "a=1,b=1,c=1,d=1,+2"),
    ],
)
def test_zones_are_shown_with_their_pods_where_there_are_several(
    zones: list[str], shown: str | None
) -> None:
    world = running(replicas=len(zones))
    for pod, zone in zip(world.pods, zones, strict=True):
        pod.zone = zone
    assert world.status().zones == shown


def test_versions_of_pods_show_how_far_a_change_of_the_image_is() -> None:
    world = running()
    assert world.status().versions is None
    for pod, version in zip(world.pods, ("0.2.0", "0.1.0", "0.1.0"), strict=True):
        pod.version = version
    assert world.status().versions == "0.1.0=2,0.2.0=1"
    world.pods[1].version = world.pods[2].version = "0.2.0"
    assert world.status().versions == "0.2.0"


def test_the_longest_texts_fit_the_crd() -> None:
    members = resource_schema()["properties"]["status"]["properties"]
    world = running(partitions=512, replicas=6, standbys=2)
    for pod in world.pods:
        pod.zone, pod.version = f"{pod.ordinal}" * 63, f"{pod.ordinal}" * 128
    status = world.status()
    for text, name in (
        (status.in_sync, "inSync"),
        (status.zones, "zones"),
        (status.versions, "versions"),
    ):
        assert text is not None
        assert len(text) <= members[name]["maxLength"]
