"""Finds the assignment that holds, from the published status and the pods' volumes.

The status may be missing, old or changed by hand (a resource made again, a restored backup). No
configuration is ever published that is older than a pod's, or differs from it in the same epoch. So
such a status is corrected from the pods, and only once every pod with a volume has answered.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from qss_core.model import Ordinal, PartitionConfiguration, PartitionId, StoreId
from qss_core.text import listed
from qss_core.wire.replica_reports import ReplicasReport
from qss_operator.planning.annotations import how_to_adopt
from qss_operator.planning.disk_claims import Claims, claims_of, decided, overrules, stranded
from qss_operator.planning.membership.epochs import next_configurations
from qss_operator.planning.membership.moves import full_pods
from qss_operator.planning.membership.standby_state import pods_without_standbys
from qss_operator.planning.model import ConditionType, Observation, PodState
from qss_operator.planning.placement.place import first_configurations, place
from qss_operator.planning.placement.sites import sites_of
from qss_operator.planning.scaling import may_hold_more, needed_pods, wanted_replicas

PODS_STARTING = "PodsStarting"
HIBERNATED = "Hibernated"
PODS_FAILING = "PodsFailing"
ASSIGNMENT_UNKNOWN = "AssignmentUnknown"
RETAINED_VOLUMES_FOUND = "RetainedVolumesFound"
NO_IN_SYNC_REPLICA = "NoInSyncReplica"
# The reason of Progressing from the first assignment until every partition has been served once.
CREATING = "Creating"
_UNOPENED_SHOWN = 3  # A message names at most so many partitions.


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownAssignment:
    """The assignment that holds, by partition.

    `unclear` has the reason by partition. Of an unclear partition `partitions` has the status's
    configuration, which may be wrong: no pod gets a new configuration of it.
    """

    store_id: StoreId
    partitions: tuple[PartitionConfiguration, ...]
    unclear: Mapping[PartitionId, str] = field(default_factory=dict)

    @property
    def certain(self) -> tuple[PartitionConfiguration, ...]:
        """The partitions whose configuration is certain."""
        if not self.unclear:
            return self.partitions
        return tuple(entry for entry in self.partitions if entry.partition not in self.unclear)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownAssignment:
    """The reason why the assignment is unknown now."""

    reason: str
    message: str


def foreign_pods(observation: Observation) -> dict[PodState, StoreId]:
    """Pods whose volumes belong to another store."""
    own = observation.resource.store_id
    found = {}
    for pod in observation.cluster.pods:
        report = observation.reports.get(pod.ordinal)
        if report is not None and report.store_id not in (None, own):
            assert report.store_id is not None
            found[pod] = report.store_id
    return found


def is_creating(observation: Observation) -> bool:
    """Whether the store is being created, so that an empty volume is no loss.

    The first entry of any changelog ends the creation, whatever the status says: no pod appends an
    entry before every partition of the store exists.
    """
    if any(_has_entries(report) for report in _own_reports(observation)):
        return False
    status = observation.resource.status
    if status is None or status.assignment is None:
        return not store_claims(observation)
    progressing = status.condition(ConditionType.PROGRESSING)
    return progressing is not None and progressing.reason == CREATING


def _own_reports(observation: Observation) -> list[ReplicasReport]:
    own = observation.resource.store_id
    return [report for report in observation.reports.values() if report.store_id == own]


def _has_entries(report: ReplicasReport) -> bool:
    return any(replica.end_offset > 0 for replica in report.replicas)


def assess(observation: Observation) -> KnownAssignment | UnknownAssignment:
    """The assignment that holds, or the reason why it is unknown."""
    partitions = observation.resource.spec.partitions
    pods = observation.cluster.pods
    if wanted_replicas(observation) == 0:
        message = "spec.replicas is 0: the pods are stopped and the volumes are kept"
        return UnknownAssignment(reason=HIBERNATED, message=message)
    if len(pods) < needed_pods(observation):
        return UnknownAssignment(reason=PODS_STARTING, message="the pods are being made")
    status = observation.resource.status
    published = {entry.partition: entry for entry in (status.assignment if status else None) or ()}
    claims = store_claims(observation)
    held = {number: decided(claimed) for number, claimed in claims.items()}
    # True also where the pods disagree: `decided` then returns None, or a higher epoch.
    is_wrong = any(
        number not in published or entry is None or overrules(entry, published[number])
        for number, entry in held.items()
    )
    if len(published) == partitions and not is_wrong:
        return _known(observation, published, {})
    silent = [pod for pod in pods if may_hold_more(pod, observation.reports.get(pod.ordinal))]
    return (
        _retained(observation)
        or _waiting(silent, is_new=not published and not held)
        or _unopened(observation, published)
        or _adopted(observation, published, held)
    )


def retained_message(observation: Observation, foreign: dict[PodState, StoreId]) -> str:
    """Tells a person how to mend volumes of another store."""
    names = listed([pod.address.name for pod in foreign])
    identity = sorted(set(foreign.values()))[0]
    return (
        f"{names}: the volume holds data of another store (id {identity}). Delete that data, or "
        f"take it over: {how_to_adopt(observation, identity)}"
    )


def store_claims(observation: Observation) -> Claims:
    """The configurations that the store's pods hold, by partition."""
    return claims_of(observation.reports.values(), observation.resource.store_id)


def _retained(observation: Observation) -> UnknownAssignment | None:
    foreign = foreign_pods(observation)
    if foreign:
        return UnknownAssignment(
            reason=RETAINED_VOLUMES_FOUND,
            message=retained_message(observation, foreign),
        )
    partitions = observation.resource.spec.partitions
    beyond = sorted(number for number in store_claims(observation) if number >= partitions)
    if beyond:
        message = (
            f"the volumes hold partition {beyond[-1]}, but the resource says {partitions} "
            "partitions: set spec.partitions to the number that the data has, or delete the data"
        )
        return UnknownAssignment(reason=RETAINED_VOLUMES_FOUND, message=message)
    return None


def _waiting(silent: list[PodState], *, is_new: bool) -> UnknownAssignment | None:
    if not silent:
        return None
    names = listed([pod.address.name for pod in silent])
    if is_new:
        # The volumes may be those of an earlier store, so the reports of all pods are needed.
        reason = PODS_FAILING if any(pod.trouble for pod in silent) else PODS_STARTING
        message = f"waiting for {names} to start"
        return UnknownAssignment(reason=reason, message="; ".join([*troubles_of(silent), message]))
    return UnknownAssignment(
        reason=ASSIGNMENT_UNKNOWN,
        message="; ".join(
            [
                *troubles_of(silent),
                f"waiting for {names}: the volume may hold a newer assignment than the status",
            ]
        ),
    )


def _unopened(
    observation: Observation, published: Mapping[PartitionId, PartitionConfiguration]
) -> UnknownAssignment | None:
    """Waits for partitions whose configuration neither the status nor the pod's report tells.

    A pod of an older version reports a partition that it cannot open without its configuration.
    That configuration may be the newest one.
    """
    told = [
        f"{report.pod} has partition {lost.partition} and cannot open it: {lost.error}"
        for report in observation.reports.values()
        for lost in report.lost
        if lost.partition not in published and lost.configuration is None
    ]
    if not told:
        return None
    message = (
        f"{listed(told, _UNOPENED_SHOWN)}. The status does not say which pods have it, so no "
        "assignment is made before each pod opens its partitions: do what the error asks for "
        "(room on the volume), or write status.assignment again as it was"
    )
    return UnknownAssignment(reason=ASSIGNMENT_UNKNOWN, message=message)


def troubles_of(pods: Iterable[PodState]) -> list[str]:
    """The troubles of pods, each trouble once with the names of its pods."""
    troubles: dict[str, list[str]] = {}
    for pod in pods:
        if pod.trouble is not None:
            troubles.setdefault(pod.trouble, []).append(pod.address.name)
    return [f"{listed(names)} {trouble}" for trouble, names in troubles.items()]


def _disputed(observation: Observation, number: PartitionId) -> str:
    """Tells a person how to mend pods that hold different configurations of one epoch."""
    names = listed([_name(observation, claim.pod) for claim in store_claims(observation)[number]])
    return (
        f"partition {number}: {names} hold different configurations of one epoch, and their data "
        "does not show which is right. The operator sends no configuration of it. Save the "
        f"volumes, delete partitions/{number} from the wrong volume, and restart its pod"
    )


def _stranded(
    observation: Observation,
    entry: PartitionConfiguration,
    holders: Iterable[Ordinal],
    heard: frozenset[Ordinal],
) -> str:
    """The message on a partition that the status places on pods without its data."""
    silent = sorted(set(entry.in_sync) - heard)
    others = (
        f"{listed([_name(observation, pod) for pod in silent])}, which did not answer yet. The "
        "operator waits for the answer"
        if silent
        else "other pods, which cannot open its data. The operator does not send it: correct "
        "status.assignment, with a pod that holds the data as the active in epoch "
        f"{entry.epoch + 1}"
    )
    return (
        f"partition {entry.partition}: its data is on "
        f"{listed([_name(observation, pod) for pod in holders])}, and its configuration of epoch "
        f"{entry.epoch} is for {others}"
    )


def _name(observation: Observation, ordinal: Ordinal) -> str:
    return f"{observation.resource.name}-{ordinal}"


def _adopted(
    observation: Observation,
    published: dict[PartitionId, PartitionConfiguration],
    held: dict[PartitionId, PartitionConfiguration | None],
) -> KnownAssignment | UnknownAssignment:
    partitions = observation.resource.spec.partitions
    if not published and not held:
        return _first(observation)
    merged = dict(published)
    unclear: dict[PartitionId, str] = {}
    for number, entry in held.items():
        if entry is None:
            unclear[number] = _disputed(observation, number)
        elif number not in merged or overrules(entry, merged[number]):
            merged[number] = entry
    # An assignment lists every partition, so one unknown partition makes all of it unknown.
    lost = sorted(number for number in unclear if number not in merged)
    if lost:
        return UnknownAssignment(reason=ASSIGNMENT_UNKNOWN, message=unclear[lost[0]])
    missing = [str(number) for number in range(partitions) if number not in merged]
    if missing:
        # An empty replica in the place of a lost one would serve wrong answers.
        message = (
            f"no pod holds partition {listed(missing)}, and the status does not say where it was. "
            "If the store had more pods before, set spec.replicas to that number: their volumes "
            "are not looked at. Otherwise bring the missing volume back"
        )
        return UnknownAssignment(reason=ASSIGNMENT_UNKNOWN, message=message)
    return _known(observation, merged, unclear)


def _known(
    observation: Observation,
    entries: dict[PartitionId, PartitionConfiguration],
    disputed: dict[PartitionId, str],
) -> KnownAssignment:
    claims, own = store_claims(observation), observation.resource.store_id
    heard = frozenset(
        ordinal for ordinal, report in observation.reports.items() if report.store_id == own
    )
    unclear = dict(disputed)
    for number, claimed in claims.items():
        holders = stranded(entries[number], claimed, heard)
        if holders and number not in unclear:
            unclear[number] = _stranded(observation, entries[number], holders, heard)
    ordered = next_configurations(
        observation, entries, is_creating=is_creating(observation), unclear=unclear
    )
    return KnownAssignment(store_id=own, partitions=ordered, unclear=unclear)


def _first(observation: Observation) -> KnownAssignment:
    spec = observation.resource.spec
    wanted = wanted_replicas(observation)  # The pods beyond that number go.
    pods = [pod for pod in observation.cluster.pods if pod.ordinal < wanted]
    sites = sites_of(pods, full_pods(observation))
    standbys = 0 if pods_without_standbys(observation) else spec.effective_standbys
    placements = place(spec.partitions, sites, standbys)
    return KnownAssignment(
        store_id=observation.resource.store_id, partitions=first_configurations(placements)
    )
