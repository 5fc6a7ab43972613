"""Refuses assignments that a pod may not take. Pure."""

from qss_core.errors import MalformedRequestError, WrongStoreError
from qss_core.model import (
    Ordinal,
    PartitionConfiguration,
    PartitionId,
    StoreAssignment,
    StoreName,
)
from qss_core.spec.resource import formats_of
from qss_core.wire.retirement import RetireRequest
from qss_store.replication.log import stale_epoch


def check_assignment(
    assignment: StoreAssignment, store: StoreName, resource_uid: str, held: StoreAssignment | None
) -> None:
    """Raises WrongStoreError for an assignment of another store than the pod's or its volume's.

    An operator that was paused may send the assignment of a deleted store to the pods of a store
    that has its name. `resource_uid` is that of the pod's store; "" where the pod was not told it.

    Raises MalformedRequestError for a format that the store's type lacks.
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


def check_retirement(request: RetireRequest, held: PartitionConfiguration, pod: Ordinal) -> None:
    """Raises StaleEpochError unless the pod holds the epoch of the request, without a role."""
    if held.epoch != request.epoch or held.role_of(pod) is not None:
        raise stale_epoch(
            held,
            f"partition {held.partition} of this pod is in epoch {held.epoch}, and the request to "
            f"delete its replica is of epoch {request.epoch}",
        )


def partitions_of(assignment: StoreAssignment, ordinal: Ordinal) -> set[PartitionId]:
    """The partitions that a pod has in any role."""
    return {one.partition for one in assignment.partitions if one.role_of(ordinal) is not None}
