"""The identity of a database, which an active checks before it sends entries to a replica."""

from qss_core.errors import CorruptionError, NotReadyError, WrongStoreError
from qss_core.model import Ordinal, PartitionId, StoreId, Wire
from qss_store.replication.digest import LogPoint
from qss_store.replication.entries import VERSIONS
from qss_store.replication.log import Log


class Hello(Wire, frozen=True, kw_only=True):
    """The store, partition and pod that a database was made for, and its own id.

    `database` is None before the replica has begun. `reads` are the versions of changelog entries
    that the program reads.
    """

    store_id: StoreId
    partition: PartitionId
    ordinal: Ordinal
    database: str | None
    reads: tuple[int, ...]


def check_hello(own: Hello, other: Hello, pod: Ordinal, known: str | None = None) -> None:
    """Raises WrongStoreError where the answer at `pod`'s address is not that pod's replica.

    `known` is the id of the database that took entries of this epoch before: another one in its
    place lacks them. Raises NotReadyError for a pod that cannot read the entries that this program
    writes: it cannot be in sync.
    """
    if (other.store_id, other.partition) != (own.store_id, own.partition):
        raise WrongStoreError(
            f"pod {pod} answers for partition {other.partition} of store id {other.store_id}, not "
            f"for partition {own.partition} of {own.store_id}"
        )
    if other.ordinal != pod:
        raise WrongStoreError(
            f"the volume of pod {other.ordinal} answers at the address of pod {pod}: the volumes "
            "were mixed up; give each pod its own"
        )
    if known is not None and other.database != known:
        raise WrongStoreError(
            f"pod {pod} has another database of partition {own.partition} than the one that took "
            "entries in this epoch: it lacks them, and has to be made anew"
        )
    if VERSIONS[-1] not in other.reads:
        raise NotReadyError(
            f"pod {pod} reads changelog entries of the versions {list(other.reads)}, and this pod "
            f"writes version {VERSIONS[-1]}: upgrade pod {pod}"
        )


def other_entries(log: Log, pod: Ordinal, watermark: LogPoint) -> CorruptionError:
    """The error of an active that lacks entries below the watermark of a standby in sync.

    Every in-sync replica held these entries, so one of the two volumes was replaced or went back.
    """
    partition = log.configuration.partition
    told = f"partition {partition} ends at entry {log.end}, and its standby on pod {pod} has "
    if watermark.offset > log.end:
        return CorruptionError(
            f"{told}entries up to {watermark.offset}, which every in-sync replica held: the volume "
            "went back to an older state"
        )
    return CorruptionError(
        f"{told}other entries below {watermark.offset}: one of the two volumes went back to an "
        f"older state, or is of before a loss that was accepted. If that is the one of pod {pod}, "
        f"empty it and restart pod {pod}, which then copies this pod's rows"
    )
