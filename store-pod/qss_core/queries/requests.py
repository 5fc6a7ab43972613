"""The bodies of query requests and their answers, as IQv2 has them (KIP-796).

`types` has the query types, `parameters` the parameters of a GET.
"""

from enum import StrEnum
from typing import Any

import msgspec

from qss_core.codes.error_classes import error_from_wire
from qss_core.errors import MalformedBytesError, Retry, StoreError
from qss_core.model import Epoch, Isolation, PartitionId, PodName, Role, Sequence
from qss_core.positions import PositionJson
from qss_core.queries.types import Member
from qss_core.times import Times


class QueryRequest(Member, frozen=True):
    """`POST /state/query/{store}`. `limit` and `cursor` are for queries that scan."""

    query: msgspec.Raw
    partitions: tuple[int, ...] | None = None
    partition: int | None = None
    require_active: bool = False
    position_bound: Any = None
    isolation: Isolation | None = None
    timeout: float | None = None
    max_staleness: float | None = None
    execution_info: bool = False
    limit: int | None = None
    cursor: str | None = None
    times: Times | None = None  # For rows that have times; None is milliseconds.


class BatchRequest(Member, frozen=True):
    """`POST /state/get/{store}`: many keys, as JSON of the key serde."""

    keys: tuple[Any, ...]
    partition: int | None = None
    require_active: bool = False
    position_bound: Any = None
    isolation: Isolation | None = None
    timeout: float | None = None
    max_staleness: float | None = None
    execution_info: bool = False


# --- Answers


class Reason(StrEnum):
    """Why a partition did not answer: KIP-796's reasons, then ours."""

    UNKNOWN_QUERY_TYPE = "UNKNOWN_QUERY_TYPE"
    NOT_ACTIVE = "NOT_ACTIVE"
    NOT_UP_TO_BOUND = "NOT_UP_TO_BOUND"
    NOT_PRESENT = "NOT_PRESENT"
    DOES_NOT_EXIST = "DOES_NOT_EXIST"
    STORE_EXCEPTION = "STORE_EXCEPTION"
    UNREACHABLE = "UNREACHABLE"
    DEADLINE_EXCEEDED = "DEADLINE_EXCEEDED"
    TOO_STALE = "TOO_STALE"
    LIMIT_EXCEEDED = "LIMIT_EXCEEDED"
    NOT_READY = "NOT_READY"
    UNCOMMITTED_TOO_LARGE = "UNCOMMITTED_TOO_LARGE"
    DISK_FULL = "DISK_FULL"
    ROLLED_BACK = "ROLLED_BACK"


class Failure(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Why a partition, or a key of a batch get, has no result."""

    reason: Reason
    message: str
    retry_after_ms: int | None = None
    active: PodName | None = None  # The pod to ask instead, where it is known.
    epoch: Epoch | None = None


_REASONS = {reason.value: reason for reason in Reason}


def failure_of(error: StoreError) -> Failure:
    """The failure of a partition for an error; a temporary one without a reason is NOT_READY."""
    other = Reason.NOT_READY if error.retry is Retry.LATER else Reason.STORE_EXCEPTION
    return Failure(
        reason=_REASONS.get(error.code, other),
        message=error.message,
        retry_after_ms=error.details.get("retry_after_ms", error.retry_after_ms),
        active=error.details.get("active"),
        epoch=error.details.get("epoch"),
    )


def error_of_failure(failure: Failure) -> StoreError:
    """The error that a failure stands for."""
    told = {
        "retry_after_ms": failure.retry_after_ms,
        "active": failure.active,
        "epoch": failure.epoch,
    }
    details = {name: value for name, value in told.items() if value is not None}
    return error_from_wire(failure.reason, 0, failure.message, details)


class PartitionAnswer(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True
):
    """One partition's part of an answer: a result and the state it was taken from, or a failure.

    Only scans set `end`; false means that rows are left. In a stream the rows are earlier lines,
    and `result` is absent.
    """

    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    end: bool | msgspec.UnsetType = msgspec.UNSET
    position: PositionJson | None = None
    served_by: PodName | None = None
    role: Role | None = None
    epoch: Epoch | None = None
    sequence: Sequence | None = None
    stream_time: int | None = None
    execution_info: tuple[str, ...] | None = None
    failure: Failure | None = None


class QueryAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The answer to a QueryRequest: by partition number. `cursor` is for scans with rows left."""

    partition_results: dict[str, PartitionAnswer]
    position: PositionJson
    cursor: str | msgspec.UnsetType | None = msgspec.UNSET


class PartitionMark(PartitionAnswer, frozen=True, kw_only=True):
    """The line after a partition's rows in a stream; `cursor` continues with all rows left."""

    partition: PartitionId
    cursor: str | None = None


# The first member distinguishes the two kinds of lines: a row begins with its key.
ROW_START = b'{"key":'
MARK_START = b'{"partition":'


def encode_mark(partition: int, answer: PartitionAnswer, cursor: str | None) -> bytes:
    """The line of a PartitionMark; `answer` has its `end` set."""
    members = msgspec.json.encode(answer)[1:-1]
    return b'%b%d,%b,"cursor":%b}' % (
        MARK_START,
        partition,
        members,
        msgspec.json.encode(cursor),
    )


def decode_mark(line: bytes) -> PartitionMark:
    """The mark in a line that starts with MARK_START. Raises MalformedBytesError."""
    try:
        mark = msgspec.json.decode(line, type=PartitionMark)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedBytesError(
            f"the line that should end a partition's rows is not a valid PartitionMark: {error}"
        ) from error
    if mark.failure is None and (mark.position is None or mark.end is msgspec.UNSET):
        raise MalformedBytesError(
            "a PartitionMark has neither a failure nor both position and `end`"
        )
    return mark


class KeyStatus(StrEnum):
    """The result of one key of a batch get."""

    FOUND = "FOUND"
    ABSENT = "ABSENT"
    FAILED = "FAILED"
