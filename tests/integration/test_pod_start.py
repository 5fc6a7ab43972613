"""A pod that starts while the operator already talks to it."""

import asyncio
from pathlib import Path
from random import Random  # noqa: TID251 a network without faults rolls no dice.

from msgspec.structs import replace

from qss_core.model import Epoch
from qss_testing.faults.faulty_cluster import FaultyNetwork, Services, make_assignment
from qss_testing.pods.stores import open_rocksdb


async def test_a_starting_pod_takes_the_assignment_that_came_while_it_waited(
    tmp_path: Path,
) -> None:
    """A pod listens before it has opened its volume; then the assignment on the volume is old."""
    made, network = make_assignment(1, pods=1), FaultyNetwork(Random(0), 0.0)
    first = Services(0, tmp_path, open_rocksdb(), network)
    await first.pod.start()
    await first.pod.assign(made)
    await first.pod.close()
    (held,) = made.partitions
    newer = replace(held, epoch=Epoch(held.epoch + 1))
    assignment = replace(made, partitions=(newer,))
    services = Services(0, tmp_path, open_rocksdb(), network)
    services.pod.remember()
    await asyncio.gather(services.pod.assign(assignment), services.pod.start())
    assert services.pod.registry.local(0).log.configuration == newer
    await services.pod.close()
