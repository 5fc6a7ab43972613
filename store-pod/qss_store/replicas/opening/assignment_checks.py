"""Refuses assignments that a pod may not take. Pure."""

from collections.abc import Callable

from qss_core.errors import MalformedRequestError, StaleEpochError, WrongStoreError
from qss_core.model import (
    Ordinal,
    PartitionConfiguration,
    PartitionId,
    StoreAssignment,
    StoreName,
)
from qss_core.spec.fixed_members import check_schema
from qss_core.spec.resource import formats_of
from qss_core.wire.retirement import RetireRequest
from qss_store.replication.log import stale_epoch


def check_assignment(
    assignment: StoreAssignment,
    store: StoreName,
    resource_uid: str,
    held: StoreAssignment | None,
    *,
    has_replicas: bool,
) -> None:
    """Raises WrongStoreError for an assignment of another store than the pod's or its volume's.

    An operator that was paused may send the assignment of a deleted store to the pods of a store
    that has its name. `resource_uid` is that of the pod's store; "" where the pod was not told it.

    Raises it also for another number of partitions, for another schema in a pod that
    `has_replicas`, open or not, and MalformedRequestError for a format that the store's type lacks.
    """
    definition = assignment.definition
    if definition.name != store:
        raise WrongStoreError(f"this pod serves store {store}, not {definition.name}")
    if resource_uid and assignment.resource_uid not in ("", resource_uid):
        raise WrongStoreError(
            f"this pod was made for the store of uid {resource_uid}; the assignment is of uid "
            f"{assignment.resource_uid}, a store of the same name that was deleted"
        )
    if definition.format not in formats_of(definition.type):
        raise MalformedRequestError(
            f"a store of type {definition.type} has no format {definition.format}"
        )
    if held and held.definition.store_id != definition.store_id:
        raise WrongStoreError(
            f"this volume belongs to store id {held.definition.store_id}, not "
            f"{definition.store_id}: delete the volume, or set the annotation "
            "queryablestate.dev/adopt-volumes",
            store_id=held.definition.store_id,
        )
    if held and (has_replicas or held.definition.partitions != definition.partitions):
        check_schema(held.definition, definition)


def check_not_older(
    assignment: StoreAssignment,
    process: str,
    generation: int,
    known: Callable[[PartitionId], PartitionConfiguration] | None,
) -> None:
    """Raises StaleEpochError for an assignment that an operator sent long ago.

    It names an older epoch than the pod knows of a partition, or another configuration of the same
    epoch; or it was made for an earlier process of the pod, whose volume may have been another one.
    A replica that it names may have been deleted since then, and must not be made anew. A pod
    without an assignment knows no configurations.

    Or it carries out an older spec than that of `generation`, which the pod has taken, in the same
    epochs. Only an operator that sees the pods' configurations can name a newer epoch; its resource
    may have been restored to an older state.
    """
    if assignment.incarnation not in ("", process):
        raise StaleEpochError(
            "the assignment was made for an earlier process of this pod: read its report, and send "
            "the present assignment"
        )
    if known is None:
        return
    for entry in assignment.partitions:
        held = known(entry.partition)
        if entry.epoch < held.epoch or (entry.epoch == held.epoch and entry != held):
            raise stale_epoch(
                held,
                f"the assignment has partition {entry.partition} in epoch {entry.epoch}, and this "
                f"pod knows epoch {held.epoch}",
            )
    if 0 < assignment.generation < generation and not any(
        entry.epoch > known(entry.partition).epoch for entry in assignment.partitions
    ):
        raise StaleEpochError(
            f"the assignment carries out generation {assignment.generation} of the resource, and "
            f"this pod has carried out generation {generation}: an operator that was deposed may "
            "have sent it. If the resource was restored to an older state, restart the store's pods"
        )


def check_retirement(
    request: RetireRequest, held: PartitionConfiguration, kept: PartitionConfiguration, pod: Ordinal
) -> None:
    """Raises StaleEpochError unless the pod holds the epoch of the request, without a role.

    The assignment on the volume has to have it, too: where only the replica's own database had it,
    the pod would forget the epoch with the replica.
    """
    if kept != held:
        raise stale_epoch(
            kept,
            f"the assignment on the volume of this pod has partition {kept.partition} in epoch "
            f"{kept.epoch}: send the assignment before its replica is deleted",
        )
    if held.epoch != request.epoch or held.role_of(pod) is not None:
        raise stale_epoch(
            held,
            f"partition {held.partition} of this pod is in epoch {held.epoch}, and the request to "
            f"delete its replica is of epoch {request.epoch}",
        )


def partitions_of(assignment: StoreAssignment, ordinal: Ordinal) -> set[PartitionId]:
    """The partitions that a pod has in any role."""
    return {one.partition for one in assignment.partitions if one.role_of(ordinal) is not None}
