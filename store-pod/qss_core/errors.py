"""Every expected failure, with its wire code, its HTTP status and what a caller may do about it.

A failure on the wire is RFC 9457 `application/problem+json`; `code` is stable and `detail` says
what to do next.
"""

from enum import StrEnum
from typing import Any, ClassVar


class Retry(StrEnum):
    """What a caller should do after a failure."""

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
        """With the code: it is what tracebacks and Spark's failed queries show."""
        return f"{self.code}: {self.message}"


# --- The request is wrong.


class MalformedRequestError(StoreError):
    """The request cannot be understood."""

    code, http_status = "MALFORMED_REQUEST", 400


class MalformedBytesError(StoreError):
    """Bytes that are not what their format says."""

    code, http_status = "MALFORMED_BYTES", 400


class UnknownParameterError(StoreError):
    """A parameter that this request does not have."""

    code, http_status = "UNKNOWN_PARAMETER", 400


class MalformedCursorError(StoreError):
    """A cursor that was not given out for this request."""

    code, http_status = "MALFORMED_CURSOR", 400


class RangeReversedError(StoreError):
    """The lower bound lies above the upper one, by serialized bytes."""

    code, http_status = "RANGE_REVERSED", 400


class NullKeyError(StoreError):
    """A row or a query without a key."""

    code, http_status = "NULL_KEY", 400


class UnknownQueryTypeError(StoreError):
    """A query type that this store does not answer."""

    code, http_status = "UNKNOWN_QUERY_TYPE", 400


class StoreTypeRefusedError(StoreError):
    """A store type of a user's own that this pod cannot serve.

    No installed package has it, it does not work, or it does not take the store's options.
    """

    code, http_status = "STORE_TYPE_REFUSED", 400


class TooLargeError(StoreError):
    """A key, value, header block, body or answer over its limit; `limit` names the setting."""

    code, http_status = "LIMIT_EXCEEDED", 413


class HeadTooLargeError(StoreError):
    """A request's line and headers are over their limits (RFC 6585)."""

    code, http_status = "LIMIT_EXCEEDED", 431


class OverloadedError(StoreError):
    code, http_status, retry, retry_after_ms = "LIMIT_EXCEEDED", 429, Retry.LATER, 250


class RequestTimeoutError(StoreError):
    """The body came too slowly."""

    code, http_status = "REQUEST_TIMEOUT", 408


class NotAcceptableError(StoreError):
    """None of the content types that the client accepts is served here."""

    code, http_status = "NOT_ACCEPTABLE", 406


class UnsupportedMediaError(StoreError):
    """A body in an encoding that is not taken."""

    code, http_status = "UNSUPPORTED_MEDIA", 415


class HttpVersionError(StoreError):
    code, http_status = "HTTP_VERSION_NOT_SUPPORTED", 505


# --- The caller.


class UnauthenticatedError(StoreError):
    """No token, or one that is not valid here."""

    code, http_status = "UNAUTHENTICATED", 401


class ForbiddenError(StoreError):
    """The account is known and lacks a right; the message names both."""

    code, http_status = "FORBIDDEN", 403


class AccessUnknownError(StoreError):
    """The API server did not say whose token it is, or what that account may."""

    code, http_status, retry, retry_after_ms = "ACCESS_UNKNOWN", 503, Retry.LATER, 1000


class CertificateRefusedError(StoreError):
    """The server's certificate is not one that this client trusts, or it speaks no TLS."""

    code = "CERTIFICATE_REFUSED"


# --- It is not here, or not there at all.


class StoreNotFoundError(StoreError):
    """This pod serves no store of that name."""

    code, http_status, retry = "STORE_NOT_FOUND", 404, Retry.REFRESH_ROUTES


class KeyNotFoundError(StoreError):
    """The key is absent: the partition that owns it answered."""

    code, http_status = "KEY_NOT_FOUND", 404


class PathNotFoundError(StoreError):
    code, http_status = "PATH_NOT_FOUND", 404


class MethodNotAllowedError(StoreError):
    """The resource does not have that method."""

    code, http_status = "METHOD_NOT_ALLOWED", 405


class PartitionDoesNotExistError(StoreError):
    """A partition number outside the store."""

    code, http_status = "DOES_NOT_EXIST", 404


class NotPresentError(StoreError):
    """The partition lives on another pod."""

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
    """More rows are staged than a pod shows before they are committed; it may be over soon."""

    code, http_status, retry, retry_after_ms = "UNCOMMITTED_TOO_LARGE", 503, Retry.LATER, 1000


class UnreachableError(StoreError):
    """No replica of the partition answered."""

    code, http_status, retry, retry_after_ms = "UNREACHABLE", 503, Retry.LATER, 500


class NotReadyError(StoreError):
    """The pod has no assignment yet, or is still recovering."""

    code, http_status, retry, retry_after_ms = "NOT_READY", 503, Retry.LATER, 500


class DeadlineExceededError(StoreError):
    """The request's own timeout passed."""

    code, http_status = "DEADLINE_EXCEEDED", 504


class CorruptionError(StoreError):
    """The disk gave back something else than was written."""

    code, http_status = "STORE_EXCEPTION", 500


class StoreTypeFailedError(StoreError):
    """A store type of a user's own cannot say which index rows a row has.

    The message names the row by a digest; `text` quotes it, for who may read it.
    """

    code, http_status = "STORE_TYPE_FAILED", 500

    def __init__(self, message: str, *, text: str = "", **details: Any) -> None:
        super().__init__(message, **details)
        self.text = text or message


class DiskFullError(StoreError):
    """No space is left for staged or applied rows; what was acknowledged is safe."""

    code, http_status, retry, retry_after_ms = "DISK_FULL", 507, Retry.LATER, 5000


# --- Configuration and fencing.


class StaleEpochError(StoreError):
    """A newer configuration of the partition exists."""

    code, http_status, retry = "STALE_EPOCH", 409, Retry.REFRESH_ROUTES


class WrongStoreError(StoreError):
    """The request names another store id: a volume or an address was reused."""

    code, http_status, retry = "WRONG_STORE", 409, Retry.REFRESH_ROUTES


class StaleWriterError(StoreError):
    """A younger run of this writer has opened, or this one was closed."""

    code, http_status = "STALE_WRITER", 409


class OtherCheckpointError(StoreError):
    """The writer belongs to another checkpoint."""

    code, http_status = "OTHER_CHECKPOINT", 409


class WriterOpenError(StoreError):
    """A run of the writer that is to be deleted is open, and was heard of."""

    code, http_status = "WRITER_OPEN", 409


class UnknownWriterError(StoreError):
    """No run of that writer was ever opened."""

    code, http_status = "UNKNOWN_WRITER", 404


# --- Batches.


class BatchInProgressError(StoreError):
    """A decided batch is being completed; it takes no help."""

    code, http_status, retry, retry_after_ms = "BATCH_IN_PROGRESS", 503, Retry.LATER, 20


class BatchClosedError(StoreError):
    """The batch was applied here already: ask the coordinator what became of it."""

    code, http_status = "BATCH_CLOSED", 409


class BatchGapError(StoreError):
    """A batch before this one was never decided."""

    code, http_status = "BATCH_GAP", 409


class BatchMismatchError(StoreError):
    """The batch was decided with other contents."""

    code, http_status = "BATCH_MISMATCH", 409


class ChunkMismatchError(StoreError):
    """A chunk of the same id with another checksum is staged already."""

    code, http_status = "CHUNK_MISMATCH", 409


class ChunkMissingError(StoreError):
    """A commit names a chunk that is not staged; nothing was decided."""

    code, http_status = "CHUNK_MISSING", 409


class RolledBackError(StoreError):
    """A replica holds less than was completed: its volume went back to an older state.

    `partition` is the one that is behind, `sequence` the one that it holds, `completed` the one
    that was completed.
    """

    code, http_status = "ROLLED_BACK", 503


class SequenceTakenError(StoreError):
    """Another batch was applied at the sequence of a commit: two coordinators decided apart."""

    code, http_status = "SEQUENCE_TAKEN", 409


class OutOfOrderError(StoreError):
    """A commit came before the one that precedes it; it is sent again."""

    code, http_status, retry, retry_after_ms = "OUT_OF_ORDER", 409, Retry.LATER, 20


class TooManyWritersError(StoreError):
    """The store remembers as many writers as it may."""

    code, http_status = "TOO_MANY_WRITERS", 409


def unreadable(error: MalformedBytesError) -> StoreError:
    """A stored row that the store's own serdes and format cannot read: not the client's mistake."""
    return StoreError(
        f"a stored row is not of the store's types: {error.message}. Its writer used other serdes "
        "or another format: write the row again"
    )


def _concrete(base: type[StoreError]) -> list[type[StoreError]]:
    return [base, *(leaf for sub in base.__subclasses__() for leaf in _concrete(sub))]


ERRORS: dict[tuple[str, int], type[StoreError]] = {
    (error.code, error.http_status): error for error in _concrete(StoreError)
}


def error_from_wire(code: str, status: int, message: str, details: dict[str, Any]) -> StoreError:
    """The error that a problem document stands for; an unknown code becomes a plain StoreError."""
    known = ERRORS.get((code, status))
    if known is None:
        known = next((error for error in ERRORS.values() if error.code == code), None)
    if known is not None:
        return known(message, **details)
    return StoreError(f"{code}: {message}", **{**details, "status": status})
