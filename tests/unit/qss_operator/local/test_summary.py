"""The status of a store as text for people."""

import pytest

from qss_core.model import Epoch, Ordinal, PartitionConfiguration, PartitionId
from qss_operator.local.status.summary import ranges, summary_of
from qss_operator.planning.model import (
    Condition,
    ConditionStatus,
    ConditionType,
    Moves,
    StoreStatus,
)


@pytest.mark.parametrize(
    ("numbers", "shown"),
    [
        ([], ""),
        ([4], "4"),
        ([0, 1, 2, 3, 7, 9, 10, 11], "0-3, 7, 9-11"),
        (range(0, 84, 3), "0-81 by 3"),
        ([0, 5], "0, 5"),
        ([0, 1], "0-1"),
    ],
)
def test_partitions_are_told_in_runs(numbers: list[int], shown: str) -> None:
    assert ranges(numbers) == shown


def test_a_store_of_many_partitions_takes_a_line_for_each_pod() -> None:
    ready = Condition(
        type=ConditionType.READY,
        status=ConditionStatus.TRUE,
        reason="Serving",
        message="all 84 partitions are served",
        last_transition_time="2026-11-23T00:00:00Z",
        observed_generation=1,
    )
    assignment = tuple(
        PartitionConfiguration(
            partition=PartitionId(number),
            epoch=Epoch(1),
            active=Ordinal(number % 3),
            in_sync=(Ordinal(number % 3),),
            replicas=(Ordinal(number % 3),),
        )
        for number in range(84)
    )
    shown = summary_of(StoreStatus(conditions=(ready,), assignment=assignment))
    assert shown.splitlines() == [
        "Ready  True     Serving: all 84 partitions are served",
        "pod 0 is active for partitions 0-81 by 3",
        "pod 1 is active for partitions 1-82 by 3",
        "pod 2 is active for partitions 2-83 by 3",
    ]


def test_a_pod_is_told_with_each_of_its_roles_and_the_moves_with_their_number() -> None:
    entry = PartitionConfiguration(
        partition=PartitionId(3),
        epoch=Epoch(2),
        active=Ordinal(1),
        in_sync=(Ordinal(1), Ordinal(0)),
        replicas=(Ordinal(1), Ordinal(0), Ordinal(2)),
    )
    moves = Moves(running=1, pending=2)
    shown = summary_of(StoreStatus(assignment=(entry,), moving="1/3", moves=moves))
    assert shown.splitlines() == [
        "pod 0 is standby for 3",
        "pod 1 is active for partitions 3",
        "pod 2 is learner for 3",
        "moving 1/3: 1 running, 2 pending",
    ]
