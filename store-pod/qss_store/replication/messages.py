"""The messages between the pods of a store that keep the logs of a partition equal. Pure.

One request has the entries of many partitions, and one answer a result for each. Messages are
MessagePack: entries and rows stay the bytes that the active stores.
"""

from typing import TypeVar

import msgspec

from qss_core.errors import MalformedRequestError
from qss_core.model import (
    Epoch,
    Offset,
    Ordinal,
    PartitionConfiguration,
    PartitionId,
    Sequence,
    StoreId,
)
from qss_core.wire.messages import Problem
from qss_core.wire.replica_reports import UnlikeRows
from qss_store.replication.digest import LogPoint
from qss_store.replication.follower import Append, Moment, StepBack
from qss_store.replication.hello import Hello

HELLO_PATH = "replication/hello"
APPEND_PATH = "replication/append"
SNAPSHOT_PATH = "replication/snapshot"
SNAPSHOT_PART_PATH = "replication/snapshot-part"
SNAPSHOT_END_PATH = "replication/snapshot-end"
COMPARE_PATH = "replication/compare"
UNLIKE_PATH = "replication/unlike"
Message = TypeVar("Message")


class HelloRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An active asks a pod for its replicas of these partitions, in these epochs."""

    store_id: StoreId
    sender: Ordinal
    configurations: tuple[PartitionConfiguration, ...]


class AppendRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Entries and watermarks of the partitions whose active is on the pod `sender`.

    A replica that acknowledges an append supports its active for `lease_ms`, and no other one for a
    tenth longer.
    """

    store_id: StoreId
    sender: Ordinal
    lease_ms: int
    appends: tuple[Append, ...]
    process: str = ""  # The id of the sender's process.
    # The log of these partitions no longer has the entries that the pod's learner lacks: the
    # learner has to copy the sender's database.
    copies: tuple[PartitionConfiguration, ...] = ()


class Greeted(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The follower has taken the epoch, durably.

    Every in-sync replica holds all entries below its `watermark`: an active that does not has a
    volume that went back to an older state.
    """

    partition: PartitionId
    hello: Hello
    watermark: LogPoint
    process: str = ""  # The id of the follower's process, which acts in no earlier epoch any more.


class Held(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The follower holds everything below `matched` durably, as the active has it.

    The active sends `answered` back with its next entries.
    """

    partition: PartitionId
    epoch: Epoch
    matched: Offset
    answered: Moment | None = None
    leaves: bool = False  # Its pod was told to stop: it does not begin to count.


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


class SnapshotRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The learner of the pod `sender` asks a partition's active for a snapshot of its database."""

    store_id: StoreId
    sender: Ordinal
    configuration: PartitionConfiguration


class SnapshotFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a snapshot; its size is in bytes."""

    name: str
    size: int


class SnapshotManifest(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot's own name, and its files."""

    snapshot: str
    files: tuple[SnapshotFile, ...]


class SnapshotPartRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Asks for `size` bytes of a file, from `offset` on; the answer is `frames`."""

    store_id: StoreId
    snapshot: str
    file: str
    offset: int
    size: int


class SnapshotEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The learner needs the snapshot no longer."""

    snapshot: str
    is_installed: bool = False  # The learner follows from the copy: it says hello anew.


DIGEST_VERSION = 1  # Replicas of another one say that they cannot be compared.


class CompareRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An active asks a standby for the digest of some rows, in the state after one batch.

    These are the rows of a part of the store behind the key `after` (None: the first ones) up to
    `last_key` (None: to the end). The active has `rows` of them.
    """

    store_id: StoreId
    sender: Ordinal
    configuration: PartitionConfiguration
    sequence: Sequence  # The sequence of the batch.
    part: int = 0
    after: bytes | None = None
    last_key: bytes | None = None
    rows: int
    version: int = 1  # The senders of before there were versions make digests of version 1.


class CompareAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The digest; None where the standby has none of the same state, rows and version."""

    digest: bytes | None


class UnlikeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An active tells a standby whether their rows differ; `unlike` is None where they do not."""

    store_id: StoreId
    sender: Ordinal
    configuration: PartitionConfiguration
    unlike: UnlikeRows | None


class Done(msgspec.Struct, frozen=True):
    """The answer to a message that asks for nothing."""


def encode_message(message: object) -> bytes:
    return msgspec.msgpack.encode(message)


def decode_message(data: bytes, kind: type[Message]) -> Message:
    """Raises MalformedRequestError for bytes that are no message of this kind."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    # A RecursionError comes of arrays within arrays, thousands deep.
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        raise MalformedRequestError(f"this is no message between replicas: {error}") from error
