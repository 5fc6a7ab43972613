"""Decides the format of a store's rows, and reports how far the migration to it is."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from qss_core.formats.values import Format, lost_between
from qss_core.model import PodName
from qss_core.spec.resource import StoreSpec
from qss_core.wire.replica_reports import ReplicaReport
from qss_operator.planning.model import ConditionStatus, ConditionType, Finding, Observation

LOSSY_MIGRATION_NOT_ALLOWED = "LossyMigrationNotAllowed"
_QUIET: Finding = (ConditionStatus.FALSE, "NoMigration", "every row has the store's format")
_DIGITS_SHOWN = 2
_ERRORS_SHOWN_MAX = 3


@dataclass(frozen=True, slots=True)
class FormatDecision:
    """The format that pods get; `lost` names the parts of rows that the spec's format lacks."""

    format: Format
    lost: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of the migration of all replicas; `percent` is below 100 until its end."""

    percent: int
    partitions: int
    partitions_done: int
    rows_left: int
    sources: tuple[Format, ...]
    errors: tuple[str, ...]


def decide_format(observation: Observation) -> FormatDecision:
    """The spec's format, or the present format while the change would lose data.

    `spec.store.allowLossyMigration` permits the loss.
    """
    spec = observation.resource.spec
    stored = _stored_formats(observation)
    refused = [one for one in stored if lost_between(one, spec.format)]
    if spec.store.allow_lossy_migration or not refused:
        return FormatDecision(spec.format)
    # The format of the status comes first.
    return FormatDecision(refused[0], _lost(refused, spec.format))


def with_decided_format(observation: Observation) -> StoreSpec:
    """The spec with the decided format, for the pods."""
    spec = observation.resource.spec
    rows = msgspec.structs.replace(spec.store, format=decide_format(observation).format)
    return msgspec.structs.replace(spec, store=rows)


def lossy_message(old: Format, new: Format, lost: Sequence[str]) -> str:
    """Tells a person how to go on after a refused change of format."""
    return (
        f"the rows stay {old}: {new} cannot hold their {' and '.join(lost)}. To give those up, set "
        f"spec.store.allowLossyMigration: true; to keep them, set spec.store.format: {old}"
    )


def migrating(observation: Observation) -> Finding:
    decision = decide_format(observation)
    progress = progress_of(observation)
    if progress is not None:
        return _running(decision.format, progress, observation)
    if decision.lost:
        wanted = observation.resource.spec.format
        message = lossy_message(decision.format, wanted, decision.lost)
        return ConditionStatus.FALSE, LOSSY_MIGRATION_NOT_ALLOWED, message
    return _unheard(observation) or _QUIET


def progress_of(observation: Observation) -> Progress | None:
    """The progress of the migration; None where no pod reports a migration."""
    target = decide_format(observation).format
    replicas = _replicas(observation)
    moving = [one for one in replicas if one.migration or one.format not in (None, target)]
    if not moving:
        return None
    shares = [_share_moved(one, target) for one in replicas]
    told = [one.migration for one in moving if one.migration]
    formats = {Format(name) for one in told for name in one.formats}
    formats |= {Format(one.format) for one in moving if one.format}
    errors = {one.error: None for one in told if one.error}
    # Replicas on pods that do not answer count as not moved.
    partitions = max(len(replicas), _placed(observation))
    return Progress(
        percent=min(99, int(100 * sum(shares) / partitions)),
        partitions=partitions,
        partitions_done=len(replicas) - len(moving),
        rows_left=sum(one.rows_left for one in told),
        sources=tuple(sorted(formats - {target})),
        errors=tuple(errors)[:_ERRORS_SHOWN_MAX],
    )


def _running(target: Format, progress: Progress, observation: Observation) -> Finding:
    lost = _lost(progress.sources, target)
    message = (
        f"rows are moved from {' and '.join(progress.sources)} to {target}: {progress.percent}%, "
        f"{progress.partitions_done} of {progress.partitions} partitions, about "
        f"{_rounded(progress.rows_left)} rows left"
    )
    if silent := _silent(observation):
        message += f", besides those of {silent[0]}, which does not answer"
    if lost:
        message += f"; their {' and '.join(lost)} are lost, as spec.store.allowLossyMigration says"
    if progress.errors:
        message += "; it does not go on: " + "; ".join(progress.errors)
        return ConditionStatus.TRUE, "MigrationStalled", message
    return ConditionStatus.TRUE, "MovingRows", message


def _unheard(observation: Observation) -> Finding | None:
    """A pod that does not answer may still have rows to move."""
    status = observation.resource.status
    before = status.condition(ConditionType.FORMAT_MIGRATING) if status else None
    silent = _silent(observation)
    if before is None or before.status is not ConditionStatus.TRUE or not silent:
        return None
    message = f"waiting for {silent[0]} to tell whether rows are left"
    return ConditionStatus.TRUE, before.reason, message


def _silent(observation: Observation) -> list[PodName]:
    return [
        pod.address.name
        for pod in observation.cluster.pods
        if pod.ordinal not in observation.reports
    ]


def _placed(observation: Observation) -> int:
    """The number of replicas in the status."""
    status = observation.resource.status
    return sum(len(one.replicas) for one in (status and status.assignment) or ())


def _replicas(observation: Observation) -> list[ReplicaReport]:
    status = observation.resource.status
    store_id = status.store_id if status else None
    return [
        replica
        for report in observation.reports.values()
        if store_id in (None, report.store_id)
        for replica in report.replicas
    ]


def _stored_formats(observation: Observation) -> list[Format]:
    """The formats that rows may have: the status's format, then the formats in pods' reports."""
    status = observation.resource.status
    # The status may have any text: people can edit it.
    published = [one for one in Format if status and status.assignment and status.format == one]
    told = sorted({Format(one.format) for one in _replicas(observation) if one.format})
    return [*published, *(one for one in told if one not in published)]


def _share_moved(replica: ReplicaReport, target: Format) -> float:
    if replica.format not in (None, target):
        return 0.0
    if replica.migration is None:
        return 1.0
    moved, left = replica.migration.rows_moved, replica.migration.rows_left
    return moved / (moved + left) if moved + left else 0.0


def _lost(sources: Sequence[Format], target: Format) -> tuple[str, ...]:
    return tuple(sorted({what for one in sources for what in lost_between(one, target)}))


def _rounded(rows: int) -> int:
    """Rounds to two digits, so that the status is not written for each moved row."""
    return round(rows, _DIGITS_SHOWN - len(str(rows))) if rows else 0
