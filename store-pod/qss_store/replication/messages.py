"""The messages between the pods of a store that keep the logs of a partition equal. Pure.

One request has the entries of many partitions, and one answer a result for each. Messages are
MessagePack: entries and rows stay the bytes that the active stores.
"""

from typing import TypeVar

import msgspec

from qss_core.errors import MalformedRequestError
from qss_core.model import Epoch, Offset, Ordinal, PartitionConfiguration, PartitionId, StoreId
from qss_core.wire.messages import Problem
from qss_store.replication.follower import Append, StepBack
from qss_store.replication.hello import Hello

HELLO_PATH = "replication/hello"
APPEND_PATH = "replication/append"
Message = TypeVar("Message")


class HelloRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An active asks a pod for its replicas of these partitions, in these epochs."""

    store_id: StoreId
    sender: Ordinal
    configurations: tuple[PartitionConfiguration, ...]


class AppendRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Entries and watermarks of the partitions whose active is on the pod `sender`."""

    store_id: StoreId
    sender: Ordinal
    appends: tuple[Append, ...]


class Greeted(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The follower has taken the epoch, durably."""

    partition: PartitionId
    hello: Hello


class Held(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The follower holds everything below `matched` durably, as the active has it."""

    partition: PartitionId
    epoch: Epoch
    matched: Offset


class SteppedBack(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The follower took nothing, and wants earlier entries."""

    partition: PartitionId
    epoch: Epoch
    back: StepBack


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The reason why the follower took nothing, and the configuration that it holds."""

    partition: PartitionId
    problem: Problem
    configuration: PartitionConfiguration | None = None


class HelloAnswer(msgspec.Struct, frozen=True):
    results: tuple[Greeted | Refused, ...]


class AppendAnswer(msgspec.Struct, frozen=True):
    results: tuple[Held | SteppedBack | Refused, ...]


def encode_message(message: object) -> bytes:
    return msgspec.msgpack.encode(message)


def decode_message(data: bytes, kind: type[Message]) -> Message:
    """Raises MalformedRequestError for bytes that are no message of this kind."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise MalformedRequestError(f"this is no message between replicas: {error}") from error
