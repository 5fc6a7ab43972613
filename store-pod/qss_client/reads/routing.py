"""Finds the pod of a partition, and adds the partition to its failures. Pure."""

from qss_client.reads.requests import HttpRequest
from qss_core.errors import StoreError, UnreachableError
from qss_core.model import PartitionId
from qss_core.wire.messages import Instance, StoreMetadata


def named_by_partition(error: StoreError, request: HttpRequest) -> StoreError:
    """The failure; UnreachableError gets the request's partition in its message."""
    if error.code != UnreachableError.code or request.partition is None:
        return error
    named = UnreachableError(f"partition {request.partition}: {error.message}", **error.details)
    named.__cause__ = error
    return named


def active_of(metadata: StoreMetadata, partition: PartitionId) -> Instance:
    """The pod that has the partition's active."""
    ordinal = metadata.assignment[partition].active
    return next(instance for instance in metadata.instances if instance.ordinal == ordinal)
