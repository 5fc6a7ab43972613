"""Finds partitions that lost data, and reads the losses that a person accepted.

The annotation `queryablestate.dev/accept-data-loss` names partitions with their epoch, as `3@7` or
`3@7,5@2`. A loss is accepted for one epoch: after the pod took the loss, the partition gets the
next epoch.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from qss_core.model import Epoch, Ordinal, PartitionConfiguration, PartitionId, Role
from qss_core.text import by_reason, listed
from qss_core.wire.losses import DataLoss
from qss_core.wire.replica_reports import ReplicaReport, ReplicasReport
from qss_operator.planning.annotations import ACCEPT_LOSS_ANNOTATION, how_to_annotate
from qss_operator.planning.fullest_learner import (
    SERVING,
    active_replicas,
    fullest_learner,
    is_damaged,
    lost_replica,
    may_have_fuller_learner,
)
from qss_operator.planning.model import Observation

PARTITION_ROLLED_BACK = "PartitionRolledBack"
DATA_LOST = "DataLost"
_ACCEPTED = re.compile(r"\s*(0|[1-9][0-9]{0,3})@([1-9][0-9]{0,17})\s*")
_BEHIND = "behind"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lacking:
    """A partition that lacks batches, the pod of its active, and why, after "partition N"."""

    partition: PartitionId
    epoch: Epoch
    pod: Ordinal
    why: str
    is_open: bool
    is_misplaced: bool


def accepted_losses(observation: Observation) -> dict[PartitionId, Epoch]:
    """The accepted epochs by partition; empty where the annotation cannot be read."""
    return _parsed(observation.resource.accept_data_loss) or {}


def is_acceptance(text: str) -> bool:
    """Whether the annotation's value names partitions with their epochs."""
    return _parsed(text) is not None


def _parsed(text: str | None) -> dict[PartitionId, Epoch] | None:
    """The epochs by partition; None for text in another form."""
    if text is None:
        return {}
    parts = [_ACCEPTED.fullmatch(part) for part in text.split(",")]
    if not all(parts):
        return None
    return {PartitionId(int(part[1])): Epoch(int(part[2])) for part in parts if part is not None}


def with_taken_losses(
    observation: Observation, entry: PartitionConfiguration
) -> PartitionConfiguration:
    """The configuration, in its next epoch after its partition has taken the accepted loss.

    The annotation then names an old epoch: a person has to accept the next loss again.
    """
    if accepted_losses(observation).get(entry.partition) != entry.epoch:
        return entry
    report = observation.reports.get(entry.active)
    taken = report is not None and any(
        replica.accepted_in == entry.epoch
        for replica in report.replicas
        if replica.configuration.partition == entry.partition
    )
    return replace(entry, epoch=Epoch(entry.epoch + 1)) if taken else entry


def lacking(
    observation: Observation, partitions: tuple[PartitionConfiguration, ...]
) -> list[Lacking]:
    """The partitions whose active lacks completed batches, or cannot be opened."""
    found = []
    for entry in partitions:
        report = observation.reports.get(entry.active)
        if report is None:
            continue
        unopened = _why_unopened(entry, report, observation.completed)
        why = unopened or _why_behind_of(observation, entry, report)
        if why is not None:
            found.append(
                Lacking(
                    partition=entry.partition,
                    epoch=entry.epoch,
                    pod=entry.active,
                    why=why,
                    is_open=unopened is None and not is_damaged(entry, report),
                    is_misplaced=any(
                        lost.partition == entry.partition and lost.is_misplaced
                        for lost in report.lost
                    ),
                )
            )
    return found


def to_accept(
    observation: Observation, partitions: tuple[PartitionConfiguration, ...]
) -> list[Lacking]:
    """The losses that a person has accepted; partition 0 first, since others depend on it."""
    accepted, entries = accepted_losses(observation), {one.partition: one for one in partitions}
    return [
        one
        for one in lacking(observation, partitions)
        if accepted.get(one.partition) == one.epoch
        if one.is_open or not may_have_fuller_learner(observation, entries[one.partition])
    ]


def misplaced_message(observation: Observation) -> str | None:
    """The pods with files of other replicas, with the first reason of each pod, or None."""
    told = {
        report.pod: f"{report.pod}: {lost.error}"
        for report in observation.reports.values()
        for lost in reversed(report.lost)
        if lost.is_misplaced
    }
    return "; ".join(told.values()) or None


def last_resort(observation: Observation, misplaced: Mapping[PartitionId, Epoch]) -> str:
    """Tells the cost of accepting a loss whose rows are in another place, and how to accept it."""
    return (
        "Only if the right volume or directory is gone for good: accepting the loss gives up all "
        f"rows of partition {listed([str(number) for number in sorted(misplaced)])}, which begins "
        f"empty: {how_to_accept(observation, misplaced)}"
    )


def how_to_accept(observation: Observation, lost: Mapping[PartitionId, Epoch]) -> str:
    """Tells how to accept the loss of these partitions, with the annotation's present value."""
    wanted = ",".join(f"{partition}@{epoch}" for partition, epoch in sorted(lost.items()))
    accepted = accepted_losses(observation)
    command = how_to_annotate(observation, ACCEPT_LOSS_ANNOTATION, wanted)
    given = observation.resource.accept_data_loss
    if given is None or all(accepted.get(number) == epoch for number, epoch in lost.items()):
        return command
    return f"{command} (it says {given[:80]!r})"


def waiting_message(
    observation: Observation, partitions: tuple[PartitionConfiguration, ...]
) -> str | None:
    """The partitions that their pods will try to open again, with the reasons, or None.

    Without replicas that are left: nobody reads them.
    """
    entries = {entry.partition: entry for entry in partitions}
    told = by_reason(
        (lost.partition, f"on {report.pod}: {lost.error}")
        for report in observation.reports.values()
        for lost in report.lost
        if lost.is_waiting
        if (entry := entries.get(lost.partition)) is None or entry.role_of(report.ordinal)
    )
    return "; ".join(f"partition {numbers} {why}" for numbers, why in told) or None


def losses_message(observation: Observation) -> str | None:
    """The accepted losses, until a batch replaces all rows, or None."""
    told = [
        f"partition {replica.configuration.partition} lacks the batches of sequence "
        f"{_range_of(loss)}, accepted in epoch {loss.epoch}"
        for replica in active_replicas(observation.reports)
        for loss in replica.losses
    ]
    if not told:
        return None
    return f"{'; '.join(told)}. Replace all rows of the store to make it whole"


def _range_of(loss: DataLoss) -> str:
    if loss.last < loss.first:
        return f"{loss.first} and later, if there were any"
    return str(loss.first) if loss.first == loss.last else f"{loss.first} to {loss.last}"


def _why_unopened(
    entry: PartitionConfiguration, report: ReplicasReport, completed: int | None
) -> str | None:
    if (lost := lost_replica(report, entry)) is None:
        return None
    held = f" (batches up to sequence {completed} were completed)" if completed else ""
    return f"on {report.pod} cannot be opened{held}: {lost.error}"


def _why_behind_of(
    observation: Observation, entry: PartitionConfiguration, report: ReplicasReport
) -> str | None:
    for replica in report.replicas:
        if replica.configuration.partition != entry.partition:
            continue
        if replica.is_damaged:
            why = f"on {report.pod} takes no batches any more: {replica.error}"
            if fullest_learner(observation, entry) is not None:
                return why
            return f"{why}; after you accept its loss, write its rows again"
        if replica.state == _BEHIND:
            return _why_behind(report, replica, replica.completed)
        # Every active has applied the batches that were complete in the round before; a standby
        # that becomes the active tells its own state until it has taken the epoch.
        before = observation.completed
        if before is not None and replica.sequence < before and _is_led(replica, entry):
            return _why_behind(report, replica, before)
    return None


def _is_led(replica: ReplicaReport, entry: PartitionConfiguration) -> bool:
    """Whether the report is of an active that has applied its log in the epoch that holds."""
    is_active = replica.role is Role.ACTIVE and replica.state == SERVING
    return is_active and replica.configuration.epoch >= entry.epoch


def _why_behind(report: ReplicasReport, replica: ReplicaReport, completed: int | None) -> str:
    return (
        f"on {report.pod} holds sequence {replica.sequence}, and at least {completed} was "
        "completed: its volume went back"
    )
