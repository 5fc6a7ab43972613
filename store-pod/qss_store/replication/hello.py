"""The identity of a database, which an active checks before it sends entries to a replica."""

from qss_core.errors import NotReadyError, WrongStoreError
from qss_core.model import Ordinal, PartitionId, StoreId, Wire
from qss_store.replication.entries import VERSIONS


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
