"""Every fix that `make planted` takes out is still where its plant says."""

from pathlib import Path

import pytest

from qss_testing.plants import (
    planted,
    planted_batches,
    planted_damage,
    planted_fast_path,
    planted_jobs,
    planted_reads,
    planted_replicas,
    planted_standbys,
    planted_unlike,
    planted_volumes,
)
from qss_testing.plants.planted import Plant, plant

PLANTS = (
    *planted.PLANTS,
    *planted_fast_path.PLANTS,
    *planted_standbys.STANDBY_PLANTS,
    *planted_batches.BATCH_PLANTS,
    *planted_replicas.REPLICA_PLANTS,
    *planted_damage.DAMAGE_PLANTS,
    *planted_unlike.UNLIKE_PLANTS,
    *planted_jobs.JOB_PLANTS,
    *planted_volumes.VOLUME_PLANTS,
    *planted_reads.READ_PLANTS,
)


@pytest.mark.parametrize("one", PLANTS, ids=[one.name.replace(" ", "-") for one in PLANTS])
def test_a_mend_can_be_taken_back(one: Plant, tmp_path: Path) -> None:
    assert plant(one, tmp_path)
