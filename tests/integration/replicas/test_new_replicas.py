"""A pod that gets new replicas keeps the ones that it has in use meanwhile."""

import asyncio
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from qss_core.errors import NotReadyError, StaleEpochError
from qss_core.model import Epoch, Ordinal, PartitionId, PodName, StoreAssignment
from qss_core.wire.messages import encode
from qss_store.storage.engine import Engine
from qss_testing.pods.stores import configuration, open_memory
from qss_testing.pods.write_cluster import WriteCluster, write_cluster
from qss_testing.waiting import wait_until_async

_NEW = PartitionId(0)  # The partition that pod 1 gets a learner of; it is the first one.


class Watched:
    """Opens databases, and notes the epochs of a pod's replicas while it makes a new one."""

    def __init__(self) -> None:
        self.cluster: WriteCluster | None = None
        self.epochs: dict[PartitionId, Epoch] = {}
        self._open = open_memory()

    def __call__(self, path: Path) -> Engine:
        if self.cluster is not None:
            replicas = self.cluster.pods[1].pod.registry.replicas
            assert _NEW not in replicas
            self.epochs = {
                number: replica.log.configuration.epoch for number, replica in replicas.items()
            }
        return self._open(path)


async def test_replicas_take_their_new_epochs_before_a_database_is_made(tmp_path: Path) -> None:
    """Writers wait for these epochs."""
    opening = Watched()
    async with write_cluster(tmp_path, open_engine=opening) as cluster:
        opening.cluster = cluster
        held = {*cluster.pods[1].pod.registry.replicas}
        grown = [
            configuration(0, 0, epoch=2, learners=[1]),
            *(configuration(number, number % 2, epoch=2) for number in range(1, 4)),
        ]
        await cluster.assign(grown)
        assert _NEW in cluster.pods[1].pod.registry.replicas
    assert opening.epochs == dict.fromkeys(held, Epoch(2))
    assert held == {1, 3}


class Held:
    """Opens databases; the one of partition 0 on pod 1 takes until `go_on` is set."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()
        self._open = open_memory()

    def __call__(self, path: Path) -> Engine:
        if (path.parts[-3], path.name) == ("1", "0"):
            self.begun.set()
            assert self.go_on.wait(60)
        return self._open(path)


def epochs_of(cluster: WriteCluster) -> dict[PartitionId, Epoch]:
    """The epochs of the replicas of pod 1."""
    replicas = cluster.pods[1].pod.registry.replicas
    return {number: replica.log.configuration.epoch for number, replica in replicas.items()}


async def test_open_replicas_take_a_newer_epoch_while_a_database_is_made(tmp_path: Path) -> None:
    """The databases of an assignment took seconds, and writers waited for the next one."""
    opening = Held()
    async with write_cluster(tmp_path, open_engine=opening) as cluster:
        pod, held = cluster.pods[1].pod, epochs_of(cluster)

        def grown(epoch: int) -> StoreAssignment:
            learning = configuration(0, 0, epoch=epoch, learners=[1])
            others = (configuration(number, number % 2, epoch=epoch) for number in range(1, 4))
            return replace(cluster.assignment, partitions=(learning, *others))

        earlier = asyncio.create_task(pod.assign(grown(2)))
        await wait_until_async(opening.begun.is_set)
        assert epochs_of(cluster) == dict.fromkeys(held, Epoch(2))
        with pytest.raises(StaleEpochError):
            await pod.assign(grown(1))
        newer = asyncio.create_task(pod.assign(grown(3)))
        await wait_until_async(lambda: epochs_of(cluster) == dict.fromkeys(held, Epoch(3)))
        assert [task.done() for task in (earlier, newer)] == [False, False]
        opening.go_on.set()
        await earlier
        await newer
        assert epochs_of(cluster) == dict.fromkeys([_NEW, *held], Epoch(3))
        assert pod.registry.placed() == grown(3).plain


async def test_an_assignment_is_taken_to_its_end_where_the_operator_goes_away(
    tmp_path: Path,
) -> None:
    """The database was opened by a thread, and nobody took it: it kept the next one out."""
    opening = Held()
    async with write_cluster(tmp_path, open_engine=opening) as cluster:
        pod = cluster.pods[1]
        learning = configuration(0, 0, epoch=2, learners=[1])
        others = (configuration(number, number % 2, epoch=2) for number in range(1, 4))
        body = encode(replace(cluster.assignment, partitions=(learning, *others)))
        asked = asyncio.create_task(pod.internal.send("PUT", "/control/assignment", body, {}))
        await wait_until_async(opening.begun.is_set)
        handlers = handlers_that_run()
        asked.cancel()
        await wait_until_async(lambda: handlers_that_run() < handlers)
        opening.go_on.set()
        await wait_until_async(lambda: _NEW in pod.pod.registry.replicas)


def handlers_that_run() -> int:
    """The connections whose requests are being answered; a client that goes ends its own."""
    return sum("RequestHandler.start" in repr(task.get_coro()) for task in asyncio.all_tasks())


async def test_a_pod_that_the_waiting_assignment_adds_is_known_later(tmp_path: Path) -> None:
    """A writer's commit got a final error, where the partition's new active was such a pod."""
    opening = Held()
    standing = [configuration(number, 0, epoch=2, standbys=[1]) for number in range(1, 4)]
    async with write_cluster(tmp_path, open_engine=opening) as cluster:
        pod = cluster.pods[1].pod
        await cluster.assign([configuration(0, 0, epoch=2), *standing])
        learning = configuration(0, 0, epoch=3, learners=[1])
        earlier = replace(cluster.assignment, partitions=(learning, *standing))
        added = replace(cluster.assignment.pods[1], ordinal=Ordinal(2), name=PodName("words-2"))
        moved = tuple(configuration(number, 2, epoch=4, standbys=[1]) for number in range(1, 4))
        newer = replace(earlier, partitions=(learning, *moved), pods=(*earlier.pods, added))

        tasks = [asyncio.create_task(pod.assign(earlier))]
        await wait_until_async(opening.begun.is_set)
        tasks.append(asyncio.create_task(pod.assign(newer)))
        await wait_until_async(lambda: pod.registry.configuration(1).active == added.ordinal)
        with pytest.raises(NotReadyError, match="address of pod 2"):
            pod.registry.address(added.ordinal)
        opening.go_on.set()
        await asyncio.gather(*tasks)
        assert pod.registry.address(added.ordinal).name == added.name
