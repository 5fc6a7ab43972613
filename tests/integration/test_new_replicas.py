"""A pod that gets new replicas keeps the ones that it has in use meanwhile."""

from pathlib import Path

from qss_core.model import Epoch, PartitionId
from qss_store.storage.engine import Engine
from qss_testing.pods.stores import configuration, open_memory
from qss_testing.pods.write_cluster import WriteCluster, write_cluster

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
