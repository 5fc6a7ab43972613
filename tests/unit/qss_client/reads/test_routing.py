"""The pod that a client asks for a partition."""

import pytest

from qss_client.reads.routing.replicas import active_of
from qss_core.model import PartitionId
from qss_core.wire.messages import metadata_of
from qss_testing.pods.pod_process import PodCluster


def test_the_active_is_where_the_assignment_says(tmp_path_factory: pytest.TempPathFactory) -> None:
    cluster = PodCluster(tmp_path_factory.mktemp("none"), pods=2, partitions=4)
    metadata = metadata_of(cluster.assignment)
    assert [active_of(metadata, PartitionId(number)).ordinal for number in range(4)] == [0, 1, 0, 1]
