"""A key of a request: its stored bytes, its text in a path, and the partition that has it. Pure."""

from collections.abc import Sequence
from typing import Any

from qss_client.arguments import check_partitions
from qss_core.errors import MalformedRequestError, PartitionDoesNotExistError
from qss_core.model import Partitioner, PartitionId, StoreDefinition
from qss_core.partitioning import partition_of
from qss_core.serdes.registry import serde_of

PATH_KEY_BYTES_MAX = 2048


def encoded_key(definition: StoreDefinition, key: Any) -> bytes:
    """The stored bytes of a key."""
    serde = serde_of(definition.key_serde)
    return serde.encode(serde.from_json(key))


def path_text(definition: StoreDefinition, encoded: bytes) -> str | None:
    """A key's text in a path, before percent-encoding; None if a path cannot hold it."""
    text = serde_of(definition.key_serde).key_to_text(encoded)
    if text in ("", ".", "..") or len(encoded) > PATH_KEY_BYTES_MAX:
        return None
    return text


def only_partition(
    definition: StoreDefinition, partitions: Sequence[int] | None
) -> PartitionId | None:
    """The only named partition; None for none or several, or if the store does not have it.

    For None any pod is asked. Raises MalformedRequestError as `check_partitions` does.
    """
    check_partitions(partitions)
    if partitions is None or len(partitions) != 1 or partitions[0] >= definition.partitions:
        return None
    return PartitionId(partitions[0])


def partition_of_encoded(definition: StoreDefinition, key: bytes, given: int | None) -> PartitionId:
    """The partition of a key: by its hash, or the given one if the writer chooses.

    Raises PartitionDoesNotExistError where the store does not have the given one.
    """
    if definition.partitioner is Partitioner.MURMUR2:
        return PartitionId(partition_of(key, definition.partitions))
    if given is None:
        raise MalformedRequestError(
            f"the writer of store {definition.name} chooses partitions: name the key's partition, "
            f"as ReadOptions(partition=0), with qss --partition 0"
        )
    if not 0 <= given < definition.partitions:
        raise PartitionDoesNotExistError(
            f"store {definition.name} has the partitions 0..{definition.partitions - 1}",
            partition=given,
        )
    return PartitionId(given)
