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
        (range(0, 84, 3), "0, 3, ..., 81"),
        ([0, 5], "0, 5"),
        ([0, 3, 6, 7], "0, 3, 6-7"),
        ([0, 3, 6, 9, 12, 13], "0, 3, ..., 12, 13"),
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
        "pod 0 is active for partitions 0, 3, ..., 81",
        "pod 1 is active for partitions 1, 4, ..., 82",
        "pod 2 is active for partitions 2, 5, ..., 83",
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


def lines_of(*conditions: tuple[ConditionType, str, str]) -> list[str]:
    """The lines of conditions that have a reason and a message each."""
    made = tuple(
        Condition(
            type=kind,
            status=ConditionStatus.FALSE,
            reason=reason,
            message=message,
            last_transition_time="2026-11-23T00:00:00Z",
            observed_generation=1,
        )
        for kind, reason, message in conditions
    )
    return [line.split("  ")[-1] for line in summary_of(StoreStatus(conditions=made)).splitlines()]


LOST = "words-1: the volume is empty; bring it back, or accept the loss of its partitions"
FULL = "the volume of words-0 has 8 MiB free of 160 MiB, and 64 MiB are kept back"


def test_a_long_message_comes_once_and_later_conditions_name_the_first() -> None:
    assert lines_of(
        (ConditionType.READY, "PodsFailing", f"2 of 4 partitions are served; {LOST}"),
        (ConditionType.PROGRESSING, "PartitionsOpening", LOST),
        (ConditionType.DEGRADED, "VolumeFull", f"{FULL}; {LOST}; {FULL} too"),
    ) == [
        f"PodsFailing: 2 of 4 partitions are served; {LOST}",
        "PartitionsOpening: as Ready says",
        f"VolumeFull: {FULL}; as Ready says; {FULL} too",
    ]


def test_a_short_message_and_a_part_of_another_sentence_are_repeated() -> None:
    waits = "waiting for words-0 to answer"
    longer = f"{FULL} by its pod"
    assert lines_of(
        (ConditionType.READY, "PodsStarting", f"{waits}; {longer}"),
        (ConditionType.PROGRESSING, "PodsStarting", f"{waits}; {FULL}"),
    ) == [f"PodsStarting: {waits}; {longer}", f"PodsStarting: {waits}; {FULL}"]
