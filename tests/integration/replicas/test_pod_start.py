"""A pod that starts: what its log says, and an operator that already talks to it."""

import asyncio
from pathlib import Path
from random import Random  # noqa: TID251 a network without faults rolls no dice.

import pytest
from msgspec.structs import replace

from qss_core.errors import DiskFullError, WrongStoreError
from qss_core.model import Epoch, StoreAssignment
from qss_core.version import VERSION
from qss_store.storage.engine import Engine
from qss_testing.faults.faulty_cluster import FaultyNetwork, Services, make_assignment
from qss_testing.pods.pod_process import PodProcess
from qss_testing.pods.stores import open_rocksdb
from qss_testing.waiting import wait_until


def test_the_log_of_a_pod_begins_with_unknown_settings_and_its_version(tmp_path: Path) -> None:
    pod = PodProcess("words", 0, tmp_path / "0", {"QSS_STREAM_MAX": "5"})
    try:
        pod.start()
        wait_until(lambda: "has opened" in pod.log())
        log = pod.log()
    finally:
        pod.kill()
    unknown = "QSS_STREAM_MAX is no setting of a pod, and does nothing: did you mean QSS_STREAMS_"
    (warned,) = (line for line in log.splitlines() if unknown in line)
    assert "WARNING" in warned
    assert f"pod words-0 ({VERSION}) has opened 0 replicas" in log


async def make_volume(directory: Path, made: StoreAssignment, network: FaultyNetwork) -> None:
    """A pod takes an assignment on a new volume, and ends."""
    first = Services(0, directory, open_rocksdb(), network)
    await first.pod.start()
    await first.pod.assign(made)
    await first.pod.close()


async def test_a_starting_pod_takes_the_assignment_that_came_while_it_waited(
    tmp_path: Path,
) -> None:
    """A pod listens before it has opened its volume; then the assignment on the volume is old."""
    made, network = make_assignment(1, pods=1), FaultyNetwork(Random(0), 0.0)
    await make_volume(tmp_path, made, network)
    (held,) = made.partitions
    newer = replace(held, epoch=Epoch(held.epoch + 1))
    assignment = replace(made, partitions=(newer,))
    services = Services(0, tmp_path, open_rocksdb(), network)
    services.pod.remember()
    await asyncio.gather(services.pod.assign(assignment), services.pod.start())
    assert services.pod.registry.local(0).log.configuration == newer
    await services.pod.close()


def with_another_serde(made: StoreAssignment) -> StoreAssignment:
    return replace(made, definition=replace(made.definition, value_serde="int64"))


async def test_a_pod_whose_partitions_all_wait_to_be_opened_takes_no_other_schema(
    tmp_path: Path,
) -> None:
    """Their rows are on its volume: the assignment would be kept, and nothing would open again."""
    made, network = make_assignment(2, pods=1), FaultyNetwork(Random(0), 0.0)
    await make_volume(tmp_path, made, network)

    def full(path: Path) -> Engine:
        raise DiskFullError(f"the volume of {path} is full")

    services = Services(0, tmp_path, full, network)
    await services.pod.start()
    assert len(services.pod.report().lost) == 2
    with pytest.raises(WrongStoreError, match=r"spec\.store\.value\.serde"):
        await services.pod.assign(with_another_serde(made))
    assert services.pod.registry.assignment == made
    await services.pod.close()


async def test_a_pod_that_has_not_opened_its_volume_yet_takes_no_other_schema(
    tmp_path: Path,
) -> None:
    made, network = make_assignment(1, pods=1), FaultyNetwork(Random(0), 0.0)
    await make_volume(tmp_path, made, network)
    services = Services(0, tmp_path, open_rocksdb(), network)
    services.pod.remember()
    with pytest.raises(WrongStoreError, match=r"spec\.store\.value\.serde"):
        await services.pod.assign(with_another_serde(made))
    await services.pod.start()
    assert services.pod.registry.local(0).log.configuration == made.partitions[0]
    await services.pod.close()
