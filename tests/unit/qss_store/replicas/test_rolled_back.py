"""The error of a partition that is behind says how to go on, and advises no loss beside a copy."""

from qss_core.model import Sequence
from qss_store.replicas.rollback_check import rolled_back
from qss_testing.pods.stores import configuration

HELD, COMPLETED = Sequence(3), Sequence(5)


def test_a_sole_replica_names_the_annotation_that_accepts_the_loss() -> None:
    told = rolled_back(2, HELD, COMPLETED, configuration(2, 0)).message
    assert "partition 2 holds sequence 3, and at least 5 was completed" in told
    assert "accept the loss by the annotation queryablestate.dev/accept-data-loss: 2@1" in told
    assert "Degraded says" in rolled_back(2, HELD, COMPLETED).message


def test_beside_a_standby_the_error_waits_for_it_and_names_no_annotation() -> None:
    told = rolled_back(2, HELD, COMPLETED, configuration(2, 0, standbys=(1,))).message
    assert "Another replica takes over. Where none does: bring the newer volume back" in told
    assert "accept-data-loss:" not in told
