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


def replicas_of(metadata: StoreMetadata, partition: PartitionId) -> list[str]:
    """The addresses of the partition's replicas that answer reads; the active comes first."""
    addresses = {one.ordinal: one.query for one in metadata.instances}
    configuration = metadata.assignment[partition]
    others = (pod for pod in configuration.in_sync if pod != configuration.active)
    return [addresses[pod] for pod in (configuration.active, *others) if pod in addresses]


def active_of(metadata: StoreMetadata, partition: PartitionId) -> Instance:
    """The pod that has the partition's active."""
    ordinal = metadata.assignment[partition].active
    return next(instance for instance in metadata.instances if instance.ordinal == ordinal)
