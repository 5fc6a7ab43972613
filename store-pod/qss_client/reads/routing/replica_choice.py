"""Chooses the pods that may answer a request, in the order in which to ask them. Pure."""

from msgspec.structs import replace

from qss_client.reads.requests import HttpRequest
from qss_client.reads.routing.known_pods import KnownPods
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


def newer_of(known: StoreMetadata, found: StoreMetadata) -> StoreMetadata:
    """The newer configuration of each partition: a pod that was cut off has older ones.

    So do the pods' addresses of the side that is older anywhere; pods of it that have no replica
    are left out. Of a store that was made again only `found` is true.
    """
    if found.definition.store_id != known.definition.store_id:
        return found
    pairs = list(zip(known.assignment, found.assignment, strict=True))
    is_older = any(old.epoch > new.epoch for old, new in pairs)
    base, other = (known, found) if is_older else (found, known)
    assignment = tuple(old if old.epoch > new.epoch else new for old, new in pairs)
    named = {pod for entry in assignment for pod in (entry.active, *entry.replicas)}
    addresses = {one.ordinal: one for one in other.instances if one.ordinal in named}
    addresses |= {one.ordinal: one for one in base.instances}
    instances = tuple(addresses[ordinal] for ordinal in sorted(addresses))
    return replace(base, instances=instances, assignment=assignment)


def replicas_of(metadata: StoreMetadata, partition: PartitionId) -> list[str]:
    """The addresses of the partition's replicas that answer reads; the active comes first."""
    addresses = {one.ordinal: one.query for one in metadata.instances}
    configuration = metadata.assignment[partition]
    others = (pod for pod in configuration.in_sync if pod != configuration.active)
    return [addresses[pod] for pod in (configuration.active, *others) if pod in addresses]


def choices_of(
    metadata: StoreMetadata, request: HttpRequest, pods: KnownPods, now_s: float
) -> list[str]:
    """The replicas that may answer a request for one partition: the active, then the quickest.

    Pods that gave no answer a moment ago come last.
    """
    assert request.partition is not None, "any pod answers a request for no partition"
    active, *others = replicas_of(metadata, request.partition)
    if request.requires_active:
        return [active]
    return pods.in_order((active, *pods.quickest_first(others)), now_s)


def active_of(metadata: StoreMetadata, partition: PartitionId) -> Instance:
    """The pod that has the partition's active."""
    ordinal = metadata.assignment[partition].active
    return next(instance for instance in metadata.instances if instance.ordinal == ordinal)
