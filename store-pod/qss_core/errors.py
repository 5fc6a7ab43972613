"""All expected failures: wire code, HTTP status, and what a caller may do.

On the wire a failure is an RFC 9457 `application/problem+json`; `code` is stable, and `detail` says
what to do next. `codes.error_classes` finds the class of a code.

All classes are in this one module, because tracebacks and Spark's failed queries name a class with
its module: a person or a program finds the line by `qss_core.errors.`.
"""

from enum import StrEnum
from typing import Any, ClassVar, Self


class Retry(StrEnum):
    """The next step of a caller after a failure."""

    NEVER = "never"  # The request itself has to change.
    LATER = "later"  # The same request may succeed: wait for `retry_after_ms`, then repeat it.
    REFRESH_ROUTES = "refresh-routes"  # Another replica is responsible: discover, then repeat it.


class StoreError(Exception):
    """An expected failure; `details` are extra members of the problem document."""

    code: ClassVar[str] = "STORE_EXCEPTION"
    http_status: ClassVar[int] = 500
    retry: ClassVar[Retry] = Retry.NEVER
    retry_after_ms: ClassVar[int | None] = None

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details

    def __str__(self) -> str:
        """The code and the message, for tracebacks and Spark's failed queries."""
        return f"{self.code}: {self.message}"

    def once_more(self) -> Self:
        """Returns a kept error, to raise it again, without the frames of earlier callers.

        Each frame keeps its variables, and so the rows of its request, in memory.
        """
        return self.with_traceback(None)


# --- The request is wrong.


class MalformedRequestError(StoreError):
    """The request cannot be understood."""

    code, http_status = "MALFORMED_REQUEST", 400


class MalformedBytesError(StoreError):
    """The bytes do not have their format."""

    code, http_status = "MALFORMED_BYTES", 400


class UnknownParameterError(StoreError):
    """The request does not have this parameter."""

    code, http_status = "UNKNOWN_PARAMETER", 400


class MalformedCursorError(StoreError):
    """The cursor was not made for this request."""

    code, http_status = "MALFORMED_CURSOR", 400


class RangeReversedError(StoreError):
    """The lower bound is above the upper one, by serialized bytes."""

    code, http_status = "RANGE_REVERSED", 400


class NullKeyError(StoreError):
    """A row or a query has no key."""

    code, http_status = "NULL_KEY", 400


class UnknownQueryTypeError(StoreError):
    """The store does not answer this type of query."""

    code, http_status = "UNKNOWN_QUERY_TYPE", 400


class StoreTypeRefusedError(StoreError):
    """This pod cannot serve the store's custom type.

    No installed package has the type, the type does not work, or it refuses the store's options.
    """

    code, http_status = "STORE_TYPE_REFUSED", 400


class TooLargeError(StoreError):
    """A key, value, header block, body or answer exceeds its limit; `limit` names the setting."""

    code, http_status = "LIMIT_EXCEEDED", 413


class HeadTooLargeError(StoreError):
    """A request's line and headers exceed their limits (RFC 6585)."""

    code, http_status = "LIMIT_EXCEEDED", 431


class OverloadedError(StoreError):
    code, http_status, retry, retry_after_ms = "LIMIT_EXCEEDED", 429, Retry.LATER, 250


class RequestTimeoutError(StoreError):
    """The body came too slowly; the client may send the request again (RFC 9110)."""

    code, http_status, retry = "REQUEST_TIMEOUT", 408, Retry.LATER


class NotAcceptableError(StoreError):
    """The server has none of the content types that the client accepts."""

    code, http_status = "NOT_ACCEPTABLE", 406


class UnsupportedMediaError(StoreError):
    """The server does not accept the body's encoding."""

    code, http_status = "UNSUPPORTED_MEDIA", 415


class HttpVersionError(StoreError):
    code, http_status = "HTTP_VERSION_NOT_SUPPORTED", 505


# --- The caller.


class UnauthenticatedError(StoreError):
    """The token is missing or not valid here."""

    code, http_status = "UNAUTHENTICATED", 401


class ForbiddenError(StoreError):
    """The account is known and lacks a right; the message names both."""

    code, http_status = "FORBIDDEN", 403


class AccessUnknownError(StoreError):
    """The API server did not answer the review of a token or of an account's right."""

    code, http_status, retry, retry_after_ms = "ACCESS_UNKNOWN", 503, Retry.LATER, 1000


class CertificateRefusedError(StoreError):
    """The client does not trust the server's certificate, or the server speaks no TLS."""

    code = "CERTIFICATE_REFUSED"


# --- It is not here, or not there at all.


class StoreNotFoundError(StoreError):
    """This pod serves no store of that name."""

    code, http_status, retry = "STORE_NOT_FOUND", 404, Retry.REFRESH_ROUTES


class KeyNotFoundError(StoreError):
    """The key is absent; the partition of the key answered."""

    code, http_status = "KEY_NOT_FOUND", 404


class PathNotFoundError(StoreError):
    code, http_status = "PATH_NOT_FOUND", 404


class MethodNotAllowedError(StoreError):
    """The resource does not have that method."""

    code, http_status = "METHOD_NOT_ALLOWED", 405


class PartitionDoesNotExistError(StoreError):
    """The store has no partition with this number."""

    code, http_status = "DOES_NOT_EXIST", 404


class NotPresentError(StoreError):
    """Another pod has the partition."""

    code, http_status, retry = "NOT_PRESENT", 421, Retry.REFRESH_ROUTES


# --- It is here, and cannot answer now.


class NotActiveError(StoreError):
    """This replica is not the partition's active."""

    code, http_status, retry = "NOT_ACTIVE", 409, Retry.REFRESH_ROUTES


class NotUpToBoundError(StoreError):
    """The replica has not reached the position bound."""

    code, http_status, retry, retry_after_ms = "NOT_UP_TO_BOUND", 503, Retry.LATER, 50


class TooStaleError(StoreError):
    """The replica has not heard from its active for longer than `maxStaleness`."""

    code, http_status, retry, retry_after_ms = "TOO_STALE", 503, Retry.LATER, 250


class UncommittedTooLargeError(StoreError):
    """More rows are staged than a pod shows before their commit; a repeat may succeed."""

    code, http_status, retry, retry_after_ms = "UNCOMMITTED_TOO_LARGE", 503, Retry.LATER, 1000


class UnreachableError(StoreError):
    """No replica of the partition answered."""

    code, http_status, retry, retry_after_ms = "UNREACHABLE", 503, Retry.LATER, 50


class NotReadyError(StoreError):
    """The pod has no assignment yet, or is still recovering."""

    code, http_status, retry, retry_after_ms = "NOT_READY", 503, Retry.LATER, 20


class DeadlineExceededError(StoreError):
    """The request's own timeout passed."""

    code, http_status = "DEADLINE_EXCEEDED", 504


class CorruptionError(StoreError):
    """The disk returned other bytes than were written."""

    code, http_status = "STORE_EXCEPTION", 500


class StoreTypeFailedError(StoreError):
    """The store's custom type cannot compute the index rows of a row.

    The message names the row by a digest; `text` has its key, for readers with the right to see it.
    """

    code, http_status = "STORE_TYPE_FAILED", 500

    def __init__(self, message: str, *, text: str = "", **details: Any) -> None:
        super().__init__(message, **details)
        self.text = text or message


class DiskFullError(StoreError):
    """No space is left for staged or applied rows; acknowledged rows are safe."""

    code, http_status, retry, retry_after_ms = "DISK_FULL", 507, Retry.LATER, 5000


# --- Configuration and fencing.


class StaleEpochError(StoreError):
    """A newer configuration of the partition exists."""

    code, http_status, retry = "STALE_EPOCH", 409, Retry.REFRESH_ROUTES


class WrongStoreError(StoreError):
    """The request names another store id: a volume or an address was reused."""

    code, http_status, retry = "WRONG_STORE", 409, Retry.REFRESH_ROUTES


class StaleWriterError(StoreError):
    """A younger run of this writer was opened, or this run was closed."""

    code, http_status = "STALE_WRITER", 409


class OtherCheckpointError(StoreError):
    """The writer belongs to another checkpoint."""

    code, http_status = "OTHER_CHECKPOINT", 409


class WriterOpenError(StoreError):
    """The writer to delete has an open run that sent requests lately."""

    code, http_status = "WRITER_OPEN", 409


class UnknownWriterError(StoreError):
    """No run of that writer was ever opened."""

    code, http_status = "UNKNOWN_WRITER", 404


# --- Batches.


class BatchInProgressError(StoreError):
    """A decided batch is being completed, without the writer."""

    code, http_status, retry, retry_after_ms = "BATCH_IN_PROGRESS", 503, Retry.LATER, 20


class BatchClosedError(StoreError):
    """The batch was applied here already: ask the coordinator for its result."""

    code, http_status = "BATCH_CLOSED", 409


class BatchGapError(StoreError):
    """The batch before this one was never decided."""

    code, http_status = "BATCH_GAP", 409


class BatchMismatchError(StoreError):
    """The batch was decided with other content."""

    code, http_status = "BATCH_MISMATCH", 409


class ChunkMismatchError(StoreError):
    """A chunk with the same id and another checksum is staged."""

    code, http_status = "CHUNK_MISMATCH", 409


class ChunkMissingError(StoreError):
    """A chunk of the commit is not staged; nothing was decided."""

    code, http_status = "CHUNK_MISSING", 409


class RolledBackError(StoreError):
    """A replica lacks completed batches: its volume went back to an older state.

    `partition` is behind: it holds `sequence`, and `completed` was completed.
    """

    code, http_status = "ROLLED_BACK", 503


class SequenceTakenError(StoreError):
    """Another batch was applied at the commit's sequence: two coordinators have decided."""

    code, http_status = "SEQUENCE_TAKEN", 409


class OutOfOrderError(StoreError):
    """A commit came before its predecessor; it will be sent again."""

    code, http_status, retry, retry_after_ms = "OUT_OF_ORDER", 409, Retry.LATER, 20


class TooManyWritersError(StoreError):
    """The store remembers as many writers as its limit allows."""

    code, http_status = "TOO_MANY_WRITERS", 409


def unreadable(error: MalformedBytesError) -> StoreError:
    """The error of a stored row that the store's serdes and format cannot read."""
    return StoreError(
        f"a stored row is not of the store's types: {error.message}. Its writer used other serdes "
        "or another format: write the row again"
    )
