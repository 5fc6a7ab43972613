"""The pod that a client asks for a partition."""

import pytest
from msgspec.structs import replace

from qss_client.reads.routing.replica_choice import active_of, newer_of
from qss_core.model import Epoch, PartitionId
from qss_core.wire.messages import metadata_of
from qss_testing.pods.pod_process import PodCluster
from qss_testing.writers.exchange_steps import metadata


def test_the_active_is_where_the_assignment_says(tmp_path_factory: pytest.TempPathFactory) -> None:
    cluster = PodCluster(tmp_path_factory.mktemp("none"), pods=2, partitions=4)
    metadata = metadata_of(cluster.assignment)
    assert [active_of(metadata, PartitionId(number)).ordinal for number in range(4)] == [0, 1, 0, 1]


def test_a_pod_that_was_cut_off_makes_no_route_older() -> None:
    old, new = metadata(0, 1), metadata(1, 1, epoch=2)
    assert newer_of(new, old) == new
    assert newer_of(old, new) == new
    assert newer_of(new, metadata(2, 2, store_id="id-2")) == metadata(2, 2, store_id="id-2")


def test_the_newer_half_of_each_side_is_kept() -> None:
    known, found = metadata(0, 1), metadata(2, 0, epoch=3)
    mixed = replace(known, assignment=(found.assignment[0], known.assignment[1]))
    ahead = replace(known.assignment[1], epoch=Epoch(9))
    known = replace(known, assignment=(known.assignment[0], ahead))
    assert newer_of(known, found).assignment == (mixed.assignment[0], ahead)


def test_a_pod_that_was_removed_leaves_the_routes() -> None:
    known, moved = metadata(0, 1, 2), metadata(0, 1, 0, epoch=2)
    few = tuple(
        replace(entry, replicas=entry.replicas[:2], in_sync=entry.in_sync[:2])
        for entry in moved.assignment
    )
    fewer = replace(moved, instances=known.instances[:2], assignment=few)
    assert [one.ordinal for one in newer_of(known, fewer).instances] == [0, 1]
    assert [one.ordinal for one in newer_of(fewer, known).instances] == [0, 1]
