"""A pod in memory: its disk outlives its process."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from qss_core.errors import StaleEpochError, WrongStoreError
from qss_core.model import (
    Epoch,
    Offset,
    Ordinal,
    PartitionConfiguration,
    PartitionId,
    PodAddress,
    PodName,
    Role,
    Sequence,
    StoreAssignment,
    StoreId,
    StoreName,
)
from qss_core.wire.losses import DataLoss, LostReplica
from qss_core.wire.replica_reports import (
    CopyReport,
    FullVolume,
    IndexReport,
    MigrationReport,
    ReplicaReport,
    ReplicasReport,
    VolumeUse,
)
from qss_core.wire.retirement import RetireRequest

STORE = StoreName("word-counts")


@dataclass(kw_only=True)
class SimulatedPod:
    """A pod: its disk (`held`, `store_id`) outlives its process (`is_running`, `incarnation`)."""

    ordinal: Ordinal
    is_running: bool = True
    is_reachable: bool = True
    incarnation: int = 1
    node: str = ""
    zone: str = ""
    version: str = ""
    is_cordoned: bool = False
    trouble: str | None = None
    if_silent: str | None = None
    store_id: StoreId | None = None
    held: tuple[PartitionConfiguration, ...] = ()
    pods_kept: int = 0  # In the assignment on the volume, before this process got one.
    unassigned: set[int] = field(default_factory=set)  # Databases beside a lost assignment.
    written: set[int] = field(default_factory=set)  # Partitions with entries in this pod.
    logged: set[int] = field(default_factory=set)  # Partitions with an entry that is not applied.
    state: str = "serving"
    format: str | None = None
    # Rows of older formats in its replicas, by partition.
    migrations: dict[int, MigrationReport] = field(default_factory=dict)
    # The progress of index builds in its replicas, by partition.
    indexes: dict[int, IndexReport] = field(default_factory=dict)
    is_opening: bool = False
    # For partitions that are behind: the completed sequence. For lost partitions: the reason.
    behind: dict[int, int] = field(default_factory=dict)
    lost: dict[int, str] = field(default_factory=dict)
    waiting: set[int] = field(default_factory=set)  # Lost partitions that wait for room.
    is_older: bool = False  # It tells no configuration of its lost partitions.
    answering: set[int] = field(default_factory=set)  # Partitions that readers may ask.
    misplaced: set[int] = field(default_factory=set)  # Lost partitions that are elsewhere.
    damaged: set[int] = field(default_factory=set)
    losses: dict[int, DataLoss] = field(default_factory=dict)
    full_volume: FullVolume | None = None
    volume: VolumeUse | None = None
    copying: set[int] = field(default_factory=set)  # Partitions whose copies it is making.
    deleted_volume: str | None = None  # Its claim, where the next restart makes a new volume.
    coordinated: int | None = None
    template: int = 0

    @property
    def uid(self) -> str:
        return str(self.incarnation)

    @property
    def has_data(self) -> bool:
        return self.store_id is not None

    @property
    def address(self) -> PodAddress:
        base = 9000 + 10 * self.ordinal
        return PodAddress(
            ordinal=self.ordinal,
            name=PodName(f"{STORE}-{self.ordinal}"),
            query=f"http://127.0.0.1:{base}",
            changelog=f"http://127.0.0.1:{base + 1}",
        )

    def restart(self) -> None:
        self.incarnation += 1
        if self.deleted_volume is not None:
            self.deleted_volume, self.store_id, self.held = None, None, ()

    def take(self, assignment: StoreAssignment) -> None:
        definition = assignment.definition
        if self.store_id not in (None, definition.store_id):
            raise WrongStoreError(f"the volume is of store {self.store_id}")
        held = {entry.partition: entry for entry in self.held}
        for entry in assignment.partitions:
            own = held.get(entry.partition, entry)
            if entry.epoch <= own.epoch and entry != own:
                raise StaleEpochError("a configuration is not above the one held")
        self.store_id, self.pods_kept = definition.store_id, 0
        self.format = definition.format
        self.held = tuple(
            entry
            for entry in assignment.partitions
            if entry.role_of(self.ordinal) is not None or entry.partition in held
        )

    def report(self) -> ReplicasReport:
        replicas = [
            ReplicaReport(
                configuration=entry,
                role=entry.role_of(self.ordinal) or Role.LEARNER,
                state="behind" if entry.partition in self.behind else self.state,
                applied_offset=Offset(2 * (entry.partition in self.written)),
                end_offset=self._end(entry.partition),
                sequence=Sequence(int(entry.partition in self.written)),
                error="the checksum is wrong" if self.state == "failed" else None,
                is_damaged=entry.partition in self.damaged,
                answers=entry.partition in self.answering,
                format=self.format,
                migration=self.migrations.get(entry.partition),
                index=self.indexes.get(entry.partition),
                completed=self._completed(entry.partition),
                coordinated=None if self.coordinated is None else Sequence(self.coordinated),
                accepted_in=self.losses[entry.partition].epoch
                if entry.partition in self.losses
                else None,
                losses=tuple(
                    loss for number, loss in self.losses.items() if number == entry.partition
                ),
            )
            for entry in self.held
            if entry.partition not in self.lost
        ]
        return ReplicasReport(
            store=STORE,
            store_id=None if self.is_opening else self.store_id,
            pod=self.address.name,
            ordinal=self.ordinal,
            incarnation=str(self.incarnation),
            version=1,
            ready=self.store_id is not None and self.state == "serving",
            replicas=() if self.is_opening else tuple(replicas),
            lost=tuple(self._lost()),
            full_volume=self.full_volume,
            volume=self.volume,
            copies=tuple(
                CopyReport(partition=PartitionId(one), done_bytes=90, total_bytes=100)
                for one in sorted(self.copying)
            ),
            pods_kept=self.pods_kept,
            unassigned=()
            if self.store_id is not None
            else tuple(PartitionId(one) for one in sorted(self.unassigned)),
        )

    def _lost(self) -> Iterator[LostReplica]:
        kept = {} if self.is_older else {entry.partition: entry for entry in self.held}
        for number, why in self.lost.items():
            yield LostReplica(
                partition=PartitionId(number),
                error=why,
                is_waiting=number in self.waiting,
                is_misplaced=number in self.misplaced,
                configuration=kept.get(PartitionId(number)),
            )

    def _end(self, partition: int) -> Offset:
        return Offset(2 * (partition in self.written) + (partition in self.logged))

    def _completed(self, partition: int) -> Sequence | None:
        completed = self.behind.get(partition)
        return None if completed is None else Sequence(completed)

    def retire(self, request: RetireRequest) -> None:
        """Deletes a replica like a pod."""
        self.held = tuple(one for one in self.held if one.partition != request.partition)
        self.lost.pop(request.partition, None)

    def accept_loss(
        self, partition: PartitionId, epoch: Epoch, assignment: StoreAssignment | None
    ) -> None:
        """Accepts a loss like a pod."""
        if assignment is not None and self.store_id is None:
            self.take(assignment)
            self.lost = {
                entry.partition: "gone" for entry in self.held if self.ordinal in entry.in_sync
            }
        (held,) = [entry for entry in self.held if entry.partition == partition]
        if held.epoch != epoch:
            raise StaleEpochError("another epoch")
        self.lost.pop(partition, None)
        self.damaged.discard(partition)
        completed = self.behind.pop(partition, 1)
        self.losses[partition] = DataLoss(first=Sequence(1), last=Sequence(completed), epoch=epoch)
