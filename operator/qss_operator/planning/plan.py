"""Makes the next steps for one store. A plan that is interrupted and made again ends the same."""

from collections.abc import Sequence

from msgspec.structs import replace

from qss_core.model import PartitionConfiguration, StoreAssignment
from qss_core.spec.resource import definition_of, settings_of
from qss_core.wire.replica_reports import ReplicasReport
from qss_operator.planning.assignment_state import (
    KnownAssignment,
    UnknownAssignment,
    assess,
    foreign_pods,
    store_claims,
)
from qss_operator.planning.disk_claims import told_of_unclear
from qss_operator.planning.formats import with_decided_format
from qss_operator.planning.fullest_learner import may_have_fuller_learner
from qss_operator.planning.losses import accepted_losses, to_accept
from qss_operator.planning.membership.restarts import next_restart
from qss_operator.planning.membership.retirements import retirements
from qss_operator.planning.missing_data import (
    emptied_pods,
    empty_while_others_are_silent,
    held_by,
    missing_replicas,
)
from qss_operator.planning.model import (
    AcceptLoss,
    Observation,
    PodState,
    PublishAssignment,
    RestartPod,
    SendAssignment,
    SetReplicas,
    Step,
)
from qss_operator.planning.scaling import wanted_replicas


def plan(observation: Observation) -> list[Step]:
    """The next steps in their order; empty where the store is as the spec wants it."""
    steps: list[Step] = []
    wanted = wanted_replicas(observation)
    if observation.cluster.replicas != wanted:
        steps.append(SetReplicas(replicas=wanted))
    known = assess(observation)
    if isinstance(known, UnknownAssignment):
        return [*steps, *_restarts(observation, None)]
    if is_published(observation, known):
        steps += retirements(observation, known.certain, known.store_id)
        steps += _restarts(observation, known.certain)
    else:
        steps.append(PublishAssignment(store_id=known.store_id, partitions=known.partitions))
    emptied = emptied_pods(observation, known)
    left_alone = {
        *foreign_pods(observation),
        *emptied,
        *missing_replicas(observation, known),
        *empty_while_others_are_silent(observation),
    }
    assignments = Assignments(observation, known)
    for pod in observation.cluster.pods:
        if pod.ordinal >= wanted or pod in left_alone:
            continue
        assignment = assignments.of(pod)
        if assignment is not None and _has_to_be_told(observation, pod, assignment):
            steps.append(SendAssignment(ordinal=pod.ordinal, assignment=assignment))
    steps += [
        AcceptLoss(
            ordinal=one.pod, store_id=known.store_id, partition=one.partition, epoch=one.epoch
        )
        for one in to_accept(observation, known.certain)
    ]
    accepted = accepted_losses(observation)
    steps += [
        AcceptLoss(
            ordinal=pod.ordinal,
            store_id=known.store_id,
            partition=entry.partition,
            epoch=entry.epoch,
            assignment=assignments.of(pod),
        )
        for pod in emptied
        for entry in held_by(known, pod)
        if accepted.get(entry.partition) == entry.epoch
        if not may_have_fuller_learner(observation, entry)
    ]
    return steps


def _restarts(
    observation: Observation, partitions: Sequence[PartitionConfiguration] | None
) -> list[RestartPod]:
    """The pod to restart now, where there is one."""
    entries = None if partitions is None else {one.partition: one for one in partitions}
    found = next_restart(observation, entries)
    return [RestartPod(pod=found.pod)] if found.pod is not None and found.is_due else []


def places_replicas(observation: Observation, steps: Sequence[Step]) -> bool:
    """Whether a step gives a partition a replica on a pod where the published status has none."""
    status = observation.resource.status
    held = {one.partition: one.replicas for one in (status and status.assignment) or ()}
    return any(
        not set(entry.replicas) <= set(held.get(entry.partition, ()))
        for step in steps
        if isinstance(step, PublishAssignment)
        for entry in step.partitions
    )


def is_published(observation: Observation, known: KnownAssignment) -> bool:
    """Whether the status has the known assignment."""
    status = observation.resource.status
    return (
        status is not None
        and status.store_id == known.store_id
        and status.assignment == known.partitions
    )


class Assignments:
    """The assignments of one plan; the part that all pods share is made once."""

    def __init__(self, observation: Observation, known: KnownAssignment) -> None:
        """Makes the part of the assignment that all pods share."""
        resource, pods = observation.resource, observation.cluster.pods
        wanted = wanted_replicas(
            observation
        )  # A pod that was removed may still be there, and ends.
        self._reports = observation.reports
        self._claims = store_claims(observation) if known.unclear else {}
        self._pods = frozenset(pod.ordinal for pod in pods)
        self._known = known
        self._shared = StoreAssignment(
            definition=definition_of(
                resource.name, known.store_id, with_decided_format(observation)
            ),
            settings=settings_of(resource.spec),
            pods=tuple(pod.address for pod in pods if pod.ordinal < wanted),
            partitions=known.partitions,
            resource_uid=resource.uid,
            generation=resource.generation,
        )

    def of(self, pod: PodState) -> StoreAssignment | None:
        """The assignment for a pod; None where an unclear partition forbids to send any."""
        partitions = self._partitions_of(pod)
        if partitions is None:
            return None
        report = self._reports.get(pod.ordinal)
        incarnation = "" if report is None else report.incarnation
        return replace(self._shared, partitions=partitions, incarnation=incarnation)

    def _partitions_of(self, pod: PodState) -> tuple[PartitionConfiguration, ...] | None:
        if not self._known.unclear:
            return self._known.partitions
        told = []
        for entry in self._known.partitions:
            if entry.partition in self._known.unclear:
                claim = self._claims[entry.partition]
                kept = told_of_unclear(pod.ordinal, claim, entry, self._pods)
                if kept is None:
                    return None
                told.append(kept)
            else:
                told.append(entry)
        return tuple(told)


def holds(report: ReplicasReport, partitions: Sequence[PartitionConfiguration]) -> bool:
    """Whether a pod holds its replicas, but for the lost ones, in exactly these configurations.

    The same holds for replicas that it still has and should not have.
    """
    lost = {one.partition for one in report.lost}
    held = {replica.configuration.partition: replica.configuration for replica in report.replicas}
    return all(
        held.get(entry.partition) == entry
        for entry in partitions
        if entry.partition in held
        or (entry.role_of(report.ordinal) is not None and entry.partition not in lost)
    )


def _has_to_be_told(observation: Observation, pod: PodState, assignment: StoreAssignment) -> bool:
    report = observation.reports.get(pod.ordinal)
    if report is None:
        return False
    sent = observation.sent.get(pod.ordinal)
    # A report lacks settings and addresses, so each incarnation gets the assignment at least once.
    is_told = (
        sent is not None
        and sent.incarnation == report.incarnation
        and sent.assignment == assignment
    )
    return (
        not is_told
        or report.store_id is None
        or not holds(report, assignment.partitions)
        or not _writes(report, assignment.definition.format)
    )


def _writes(report: ReplicasReport, row_format: str) -> bool:
    """Whether a pod's replicas have that format; another operator may have sent another one."""
    return all(replica.format in (None, row_format) for replica in report.replicas)
