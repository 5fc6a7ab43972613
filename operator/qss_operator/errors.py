"""The control plane's expected failures."""

from qss_core.errors import Retry, StoreError


class InvalidResourceError(StoreError):
    """A resource that the CRD, or one of its rules, refuses."""

    code, http_status = "INVALID_RESOURCE", 422


class UnsupportedError(StoreError):
    """A resource that asks for something which does not exist yet, or not here."""

    code, http_status = "UNSUPPORTED", 422


class ConflictError(StoreError):
    """The resource changed since it was read: read it again."""

    code, http_status, retry, retry_after_ms = "CONFLICT", 409, Retry.LATER, 100


class NameTakenError(StoreError):
    """An object of another owner has the name that an object of the store would have."""

    code, http_status = "NAME_TAKEN", 409


class AlreadyRunningError(StoreError):
    """Another process runs the local cluster of this state directory."""

    code, http_status = "ALREADY_RUNNING", 409


class NotRunningError(StoreError):
    """No `qss up` runs the store, and the command needs its running pods."""

    code, http_status = "NOT_RUNNING", 409


class NotThereError(StoreError):
    """The store has no such partition or pod."""

    code, http_status = "NOT_THERE", 404


class StateDirectoryError(StoreError):
    """A state directory cannot be read or written, or holds files that no cluster wrote."""

    code, http_status = "STATE_DIRECTORY", 500


class StartFailedError(StoreError):
    """A store did not become ready."""

    code, http_status, retry = "NOT_READY", 503, Retry.LATER


def reason_of(error: StoreError) -> str:
    """The reason of a condition about this error."""
    return "".join(word.capitalize() for word in error.code.split("_"))
