"""Finds a partition's replica on this pod, or the pod that has the partition's active."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from qss_core.errors import (
    CorruptionError,
    NotPresentError,
    NotReadyError,
    PartitionDoesNotExistError,
    RolledBackError,
    StaleEpochError,
    StoreError,
    StoreNotFoundError,
    WrongStoreError,
)
from qss_core.model import (
    Ordinal,
    PartitionConfiguration,
    PartitionId,
    PodAddress,
    PodName,
    Role,
    Sequence,
    StoreAssignment,
    StoreName,
)
from qss_core.wire.replica_reports import CopyReport, ReplicasReport
from qss_store.replicas.opening.assignment_checks import (
    check_assignment,
    check_not_older,
    partitions_of,
)
from qss_store.replicas.opening.take_assignment import take_configuration
from qss_store.replicas.opening.unopened_partitions import Unopened
from qss_store.replicas.pod_context import PodConfig
from qss_store.replicas.replica import Replica
from qss_store.replicas.report import ReportFeed, report_of
from qss_store.replicas.rollback_check import NO_SEQUENCE, RollbackCheck
from qss_store.replicas.volume.assignment_file import AssignmentFile
from qss_store.replicas.volume.volume_watch import VolumeWatch


class Registry:
    """The replicas of one pod, and its assignment, which names the pods of the others."""

    def __init__(
        self, store: StoreName, ordinal: Ordinal, file: AssignmentFile, process: str
    ) -> None:
        """Has no replica; the pod adds the replicas that it opens.

        `process` is the id of this process.
        """
        self.process = process
        self._store = store
        self.ordinal = ordinal
        self._pod = PodName(f"{store}-{ordinal}")
        self._file = file
        self.replicas: dict[PartitionId, Replica] = {}
        self.unopened = Unopened()
        self.completion = RollbackCheck()
        self.copies: dict[PartitionId, CopyReport] = {}  # The copies that are being made.
        # False while a pod that has started has the volume of another resource of the store's name.
        self.is_of_resource = True
        self._generation = 0  # The generation of the newest assignment that came.
        self._is_told = False  # Whether this process was sent an assignment.
        self.is_compared = True  # False while a starting pod compares sequences with other pods.

    @property
    def assignment(self) -> StoreAssignment | None:
        """The assignment; None before the pod got one."""
        return self._file.assignment

    def checked(
        self, assignment: StoreAssignment, config: PodConfig, *, has_opened: bool
    ) -> StoreAssignment:
        """The assignment as the volume keeps it; raises as `assignment_checks`.

        A pod that has not opened its replicas may have some.
        """
        held, here = self.assignment, bool(self.replicas or self.unopened.partitions)
        has_replicas = here or not has_opened
        check_assignment(
            assignment, self._store, config.resource_uid, held, has_replicas=has_replicas
        )
        known = None if held is None else self.configuration
        check_not_older(assignment, self.process, self._generation, known)
        self._generation = assignment.generation or self._generation
        self._is_told = True
        return assignment.plain

    def take_epochs(self, assignment: StoreAssignment, config: PodConfig) -> bool:
        """Has in-sync replicas take an assignment's newer epochs, for which writers wait.

        The rest of it waits until the pod has made the databases of the assignment before. Returns
        whether a replica took an epoch. Raises as `checked`, and DiskFullError.
        """
        held, took = self.assignment, False
        if held is None or held.definition != assignment.definition:
            return False
        for one in self.checked(assignment, config, has_opened=True).partitions:
            replica = self.replicas.get(one.partition)
            if replica is None or replica.health.has_failed:
                continue
            if self.ordinal in {*one.in_sync} & {*replica.log.configuration.in_sync}:
                took |= take_configuration(replica, assignment.settings, one)
        return took

    def open_first(
        self, configurations: Iterable[PartitionConfiguration]
    ) -> list[PartitionConfiguration]:
        """The configurations, those of open replicas first: writers wait for their new epochs.

        So no writer waits while a database is made for a learner.
        """
        return sorted(configurations, key=lambda one: one.partition not in self.replicas)

    def placed(self) -> StoreAssignment:
        """The assignment. Raises NotReadyError before the pod got one."""
        if self._file.assignment is None:
            raise NotReadyError(
                f"pod {self._pod} has no assignment yet: try again. If that does not end, the "
                "conditions of the store say why"
            )
        return self._file.assignment

    def check_message_store(self, store_id: str) -> StoreAssignment:
        """The assignment, for a message that names a store id. Raises WrongStoreError for another.

        Raises as `placed`, too. A writer gets `check_store_id`, which says how to go on.
        """
        assignment = self._file.assignment or self.placed()
        held = assignment.definition.store_id
        if store_id != held:
            raise WrongStoreError(
                f"this pod serves store id {held}, not {store_id}: read the routes anew"
            )
        return assignment

    def check_store(self, store: str) -> StoreAssignment:
        """The assignment. Raises StoreNotFoundError where the pod serves another store."""
        if store != self._store:
            raise StoreNotFoundError(f"this pod serves store {self._store}, not {store}")
        return self.placed()

    def check_store_id(self, named: str) -> None:
        """Refuses a writer of a deleted store with the same name. Raises WrongStoreError."""
        held = self.placed().definition.store_id
        if named != held:
            raise WrongStoreError(
                f"this is store id {held}, and the writer means {named[:80]}: the store was "
                "deleted and made again. Stop this run; a new one begins with a new checkpoint",
                store_id=held,
            )

    def configuration(self, partition: int) -> PartitionConfiguration:
        """The partition's configuration with the highest epoch that this pod knows."""
        assignment = self.placed()
        if not 0 <= partition < assignment.definition.partitions:
            raise PartitionDoesNotExistError(
                f"store {self._store} has the partitions 0..{assignment.definition.partitions - 1}",
                partition=partition,
            )
        replica = self.replicas.get(PartitionId(partition))
        known = assignment.partitions[partition]
        return replica.log.configuration if replica else known

    def address(self, ordinal: Ordinal) -> PodAddress:
        """The address of a pod of this store."""
        found = next((pod for pod in self.placed().pods if pod.ordinal == ordinal), None)
        if found is None:
            raise NotReadyError(f"this pod does not know the address of pod {ordinal} yet")
        return found

    def local(self, partition: int, commits: Sequence = NO_SEQUENCE) -> Replica:
        """The partition's replica on this pod, for a commit of the sequence `commits` or others.

        Raises NotPresentError with the pod of the partition's active, RolledBackError where the
        replica is behind, and CorruptionError where it is lost; NotReadyError where it is lost
        here, and others have its rows.
        """
        try:
            replica = self.present(partition)
        except CorruptionError as error:
            raise self.found_damage(PartitionId(partition), error) from error
        if not self.is_of_resource:
            raise NotReadyError(
                f"the volume of pod {self._pod} is of another store of this name, which was "
                "deleted: the pod serves it once the operator says so; see the store's status"
            )
        if not self.is_compared:
            raise NotReadyError(f"pod {self._pod} compares its data with the other pods: try again")
        self.completion.check(replica, commits)
        return replica

    def present(self, partition: int) -> Replica:
        """The partition's replica on this pod, whatever its state.

        Raises NotPresentError, and CorruptionError where it is lost.
        """
        replica = self.replicas.get(PartitionId(partition))
        if replica is None or replica.role is None:
            configuration = self.configuration(partition)
            if replica is None:
                self.unopened.check(PartitionId(partition), self._pod)
            raise NotPresentError(
                f"partition {partition} is not on pod {self._pod}",
                partition=partition,
                active=self.address(configuration.active).name,
                epoch=configuration.epoch,
            )
        return replica

    def copied_over(self, configuration: PartitionConfiguration) -> object:
        """The state of a learner that a copy may replace. Raises StaleEpochError for no learner."""
        partition = configuration.partition
        known = self.configuration(partition)
        newest = max(known, configuration, key=lambda one: one.epoch)
        is_learner = newest.role_of(self.ordinal) is Role.LEARNER
        if newest.epoch != configuration.epoch or not is_learner:
            raise StaleEpochError(
                f"partition {partition} has no learner here in epoch {configuration.epoch}"
            )
        replica = self.replicas.get(partition)
        if replica is None:
            return None
        return replica.following.opening, replica.following.acknowledgements

    def check_copied(
        self, configuration: PartitionConfiguration, before: object
    ) -> PartitionConfiguration:
        """The newest configuration of a partition, for a copy that began under an older one.

        The epoch may have changed meanwhile: with the copy the learner is as if it had followed its
        active, and heard nothing since. Raises StaleEpochError where the partition has another
        active than the copy's, and unless the learner is as it was `before` the copy began: entries
        that it has acknowledged since then are not in the copy, and it may be in sync by now.
        """
        newest = self.check_source(configuration)
        if self.copied_over(newest) != before:
            raise StaleEpochError(f"partition {newest.partition} has taken entries meanwhile")
        return newest

    def check_source(self, configuration: PartitionConfiguration) -> PartitionConfiguration:
        """The newest configuration of a partition that is copied from its active.

        Raises StaleEpochError where the partition has another active than the copy's.
        """
        known = self.configuration(configuration.partition)
        newest = max(known, configuration, key=lambda one: one.epoch)
        if newest.active != configuration.active:
            raise StaleEpochError(
                f"partition {newest.partition} has its active on pod {newest.active} now, and the "
                f"copy is of pod {configuration.active}"
            )
        return newest

    def found_damage(
        self, partition: PartitionId, error: CorruptionError, met_in: Replica | None = None
    ) -> StoreError:
        """The error of a reader that met damage, which the pod reports.

        The replica goes on until the operator has another one take over. A partition with other
        in-sync replicas is read from them. `met_in` is the replica that was read, where the caller
        knows it: a copy that has taken its place meanwhile is not the damaged one.
        """
        replica = self.replicas.get(partition)
        if replica is not None and (met_in is None or met_in is replica):
            replica.health.meet_damage(error)
        if not {*self.configuration(partition).in_sync} - {self.ordinal}:
            return error
        return NotReadyError(
            f"partition {partition} on pod {self._pod} is damaged, and other replicas have its "
            f"rows: {error.message}"
        )

    @contextmanager
    def until_failover(self) -> Iterator[None]:
        """Has a writer wait where an active's volume went back, and a standby takes over.

        Raises NotReadyError for the RolledBackError of a partition with standbys in sync.
        """
        try:
            yield
        except RolledBackError as error:
            if len(self.configuration(error.details.get("partition", 0)).in_sync) == 1:
                raise
            raise NotReadyError(f"a standby has to take over: {error.message}") from error

    def report(
        self, config: PodConfig, room: VolumeWatch, report_feed: ReportFeed
    ) -> ReplicasReport:
        """The report of this pod on all of its replicas."""
        held, replicas = self._file.assignment, self.replicas
        return ReplicasReport(
            store=self._store,
            store_id=held.definition.store_id if held else None,
            pod=self._pod,
            ordinal=config.ordinal,
            incarnation=self.process,
            version=report_feed.version,
            ready=self.is_ready(config.ordinal),
            replicas=tuple(
                report_of(replicas[number], self.completion) for number in sorted(replicas)
            ),
            lost=self.unopened.report(held.partitions if held else ()),
            copies=tuple(self.copies.values()),
            full_volume=room.full,
            volume=room.use,
            pods_kept=len(held.pods) if held and not self._is_told else 0,
            unassigned=() if held else self._file.unassigned,
            is_leaving=report_feed.is_leaving,
        )

    def is_ready(self, pod: Ordinal) -> bool:
        """Whether the pod has its assignment, and serves every replica that is not lost.

        Only a person can bring a lost replica back; the report names it. The operator waits for
        this before it gives a volume of another resource to this one.
        """
        assignment = self._file.assignment
        if assignment is None or not self.is_compared:
            return False
        return partitions_of(assignment, pod) <= self.served() | self.unopened.partitions

    def is_active(self, partition: int) -> bool:
        """Whether this pod has the partition's active."""
        replica = self.replicas.get(PartitionId(partition))
        return replica is not None and replica.role is Role.ACTIVE

    def is_the_data(self, replica: Replica) -> bool:
        """Whether the replica was compared, and lacks nothing that was completed."""
        return self.is_compared and self.is_of_resource and self.completion.lacks(replica) is None

    def served(self) -> set[PartitionId]:
        """The partitions whose replica serves readers."""
        return {number for number, replica in self.replicas.items() if replica.view is not None}
