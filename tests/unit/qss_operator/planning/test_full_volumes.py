"""A volume with less room than pods keep back is reported while all partitions are served."""

from dataclasses import replace

from qss_core.wire.replica_reports import FullVolume
from qss_operator.planning.model import ConditionType
from qss_operator.planning.status import attention, status_of
from qss_testing.fakes.control_world import NOW, World, resource_of, spec_of

MIB = 1024 * 1024


def world_with(free: int, size: int) -> World:
    world = World(resource=resource_of(spec_of(partitions=3, replicas=3)))
    world.settle()
    world.pods[1].full_volume = FullVolume(
        free_bytes=free, kept_back_bytes=64 * MIB, size_bytes=size
    )
    return world


def test_a_full_volume_is_told_with_its_numbers_and_the_store_serves() -> None:
    world = world_with(12 * MIB + MIB // 2, 200 * MIB)
    status = world.status()
    degraded, ready = (
        status.condition(ConditionType.DEGRADED),
        status.condition(ConditionType.READY),
    )
    assert degraded is not None
    assert ready is not None
    assert (degraded.status, degraded.reason) == ("True", "VolumeFull")
    assert degraded.message == (
        "the volume of word-counts-1 has 12.5 MiB free of 200 MiB, and 64 MiB are kept back: reads "
        "are answered, and every batch waits (DISK_FULL). To go on, free space, or make it larger "
        "(spec.storage.size)"
    )
    assert ready.status == "True"
    assert attention(status) == degraded, "a table that shows Ready alone says it too"
    world.pods[1].full_volume = None
    assert world.status().condition(ConditionType.DEGRADED).reason == "Healthy"  # type: ignore[union-attr]
    assert attention(world.status()) is None


def test_of_a_volume_that_is_too_small_no_room_can_be_made() -> None:
    observation = world_with(40 * MIB, 40 * MIB).observation()
    local = replace(observation.cluster, local_option="")
    degraded = status_of(replace(observation, cluster=local), NOW).condition(ConditionType.DEGRADED)
    assert degraded is not None
    assert "has 40 MiB free of 40 MiB, and 64 MiB are kept back" in degraded.message
    assert degraded.message.endswith("To go on, give the state directory a larger volume")
