"""When a pod may be evicted."""

import pytest
from msgspec.structs import replace

from qss_core.model import Ordinal, PartitionConfiguration
from qss_operator.planning.findings.evictions import may_evict
from qss_operator.planning.model import (
    Condition,
    ConditionStatus,
    ConditionType,
    StoreStatus,
)
from qss_testing.fakes.control_world import spec_of
from qss_testing.pods.stores import configuration

SOLE = configuration(0, 0)
PAIR = replace(SOLE, replicas=(Ordinal(0), Ordinal(1)), in_sync=(Ordinal(0), Ordinal(1)))
ALONE = replace(PAIR, in_sync=(Ordinal(0),))


def status_with(*assignment: PartitionConfiguration, assigned: str = "1/1") -> StoreStatus:
    ready = Condition(
        type=ConditionType.READY,
        status=ConditionStatus.TRUE,
        reason="Serving",
        message="",
        last_transition_time="2026-11-26T00:00:00Z",
        observed_generation=1,
    )
    return StoreStatus(conditions=(ready,), assigned=assigned, assignment=assignment)


@pytest.mark.parametrize(
    ("status", "may"),
    [
        (status_with(PAIR), True),
        (status_with(SOLE), True),
        (status_with(ALONE), False),
        (status_with(PAIR, ALONE), False),
        (status_with(PAIR, assigned="0/1"), False),
        (StoreStatus(), False),
    ],
)
def test_the_last_replica_in_sync_is_not_evicted_while_a_standby_is_missing(
    status: StoreStatus, may: bool
) -> None:
    assert may_evict(spec_of(standbys=1), status) is may


@pytest.mark.parametrize(("assigned", "may"), [("1/1", True), ("0/1", False)])
def test_a_move_without_standbys_forbids_no_eviction(assigned: str, may: bool) -> None:
    assert may_evict(spec_of(standbys=0), status_with(ALONE, assigned=assigned)) is may


def test_standbys_without_room_forbid_no_eviction() -> None:
    assert may_evict(spec_of(standbys=1, replicas=1), status_with(ALONE))
