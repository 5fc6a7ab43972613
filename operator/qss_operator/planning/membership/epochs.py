"""Finds the partitions whose configuration has to get its next epoch. Pure."""

from collections.abc import Mapping

from msgspec.structs import replace

from qss_core.model import Epoch, Ordinal, PartitionConfiguration, PartitionId
from qss_core.wire.replica_reports import ReplicasReport
from qss_operator.planning.losses import with_taken_losses
from qss_operator.planning.model import Observation


def next_configurations(
    observation: Observation,
    entries: Mapping[PartitionId, PartitionConfiguration],
    *,
    is_creating: bool,
) -> tuple[PartitionConfiguration, ...]:
    """The configurations by partition, in their next epochs where one is asked for.

    A person asks by accepting a loss. An active with standbys asks after it has started again: it
    may not act in the epoch that it held, since it does not know what it sent. Its first entry in
    the next epoch ends the creation of the store, so that waits until every replica exists.
    """
    reports = observation.reports
    is_made = not is_creating or _holds_all(reports, entries)
    found = []
    for number in sorted(entries):
        entry = entries[number]
        taken = with_taken_losses(observation, entry)
        if taken is entry and is_made and _asks(reports, entry):
            taken = replace(entry, epoch=Epoch(entry.epoch + 1))
        found.append(taken)
    return tuple(found)


def _holds_all(
    reports: Mapping[Ordinal, ReplicasReport],
    entries: Mapping[PartitionId, PartitionConfiguration],
) -> bool:
    """Whether every replica of the assignment exists: each pod reports all that it should hold."""
    wanted = {(pod, number) for number, entry in entries.items() for pod in entry.replicas}
    held = {
        (ordinal, replica.configuration.partition)
        for ordinal, report in reports.items()
        for replica in report.replicas
    }
    return wanted <= held


def _asks(reports: Mapping[Ordinal, ReplicasReport], entry: PartitionConfiguration) -> bool:
    report = reports.get(entry.active)
    return report is not None and any(
        replica.asks_for_epoch and replica.configuration == entry for replica in report.replicas
    )
