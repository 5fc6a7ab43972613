"""Typed errors of the API server, which say whether a repeat may succeed."""

import re
from dataclasses import dataclass
from typing import Any

import msgspec

from qss_core.errors import Retry, StoreError
from qss_operator.errors import ConflictError
from qss_operator.kubernetes.api.requests import ApiRequest

# Some messages repeat whole objects; conditions and logs need only the beginning.
_MESSAGE_LENGTH_MAX = 2048
_CAUSES_MAX = 16


class NotFoundError(StoreError):
    """The object does not exist, as the API server itself answers with its name."""

    code, http_status = "OBJECT_NOT_FOUND", 404


class KindNotServedError(StoreError):
    """The API server does not know the kind, or another server answered.

    It says nothing about objects: taking it for an absence would delete existing ones.
    """

    code, http_status = "KIND_NOT_SERVED", 404


class AlreadyExistsError(StoreError):
    """An object of that name exists.

    `may_be_own`: the creation was sent more than once, and an earlier try may have made it.
    """

    code, http_status = "ALREADY_EXISTS", 409

    def __init__(self, message: str, *, may_be_own: bool = False, **details: Any) -> None:
        super().__init__(message, **details)
        self.may_be_own = may_be_own


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidCause:
    """One problem of an object; `field` is its path in the object, or empty."""

    field: str
    message: str


class InvalidError(StoreError):
    """The object breaks its schema, so only a change of the object helps."""

    code, http_status = "OBJECT_INVALID", 422

    def __init__(
        self, message: str, *, causes: tuple[InvalidCause, ...] = (), **details: Any
    ) -> None:
        super().__init__(message, **details)
        self.causes = causes


class ForbiddenError(StoreError):
    """A permission is missing, or admission refuses (a quota, a namespace that is deleted).

    `is_permission` distinguishes the two; `verb`, `resource` and `namespace` in the details are
    those that a Role would have to allow.
    """

    code, http_status = "FORBIDDEN", 403

    def __init__(self, message: str, *, is_permission: bool = False, **details: Any) -> None:
        super().__init__(message, **details)
        self.is_permission = is_permission


class UnauthorizedError(StoreError):
    """The API server does not accept the credentials."""

    code, http_status = "UNAUTHORIZED", 401


class GoneError(StoreError):
    """The server no longer has the state that a list or watch continues from: start over."""

    code, http_status, retry = "GONE", 410, Retry.LATER


class RefusedError(StoreError):
    """Another refusal that a repeat always gets; the message has its status."""

    code, http_status = "API_REFUSED", 400


class ListTooLongError(StoreError):
    """A list has more objects than the operator may hold."""

    code, http_status = "LIST_TOO_LONG", 413


class ThrottledError(StoreError):
    """Too many requests: the server has not carried out this one."""

    code, http_status, retry, retry_after_ms = "THROTTLED", 429, Retry.LATER, 1000


class ApiUnavailableError(StoreError):
    """The API server failed, was not reached, or did not answer in time.

    Unless `is_untouched`, it may have carried out the request.
    """

    code, http_status, retry, retry_after_ms = "API_UNAVAILABLE", 503, Retry.LATER, 1000

    def __init__(self, message: str, *, is_untouched: bool = False, **details: Any) -> None:
        super().__init__(message, **details)
        self.is_untouched = is_untouched


class _Cause(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""
    field: str = ""


class _Details(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    causes: tuple[_Cause, ...] = ()
    retry_after_seconds: float = 0


class _Status(msgspec.Struct, frozen=True):
    """The API server's form of a failure; all members are empty for other bodies."""

    kind: str = ""
    message: str = ""
    reason: str = ""
    details: _Details | None = None


def error_of(
    status: int, body: bytes, request: ApiRequest, retry_after: str | None = None
) -> StoreError:
    """The error of an answer; `retry_after` is its header of that name."""
    said = _status_of(body)
    message = f"{request}: {said.message or f'answered {status}'}"[:_MESSAGE_LENGTH_MAX]
    if status == 429:
        return ThrottledError(message, **_waits(said, retry_after))
    if status >= 500 and not any(words in said.message for words in _UNTYPED):
        return ApiUnavailableError(message, **_waits(said, retry_after))
    return _refusal(status, said, request, message)


# An apply with an unknown field, or with a value that its type cannot parse (a quantity). The
# server answers 500, although the request is wrong.
_UNTYPED = ("failed to create typed patch object", "unable to convert unstructured object to")


def _refusal(status: int, said: _Status, request: ApiRequest, message: str) -> StoreError:
    match status:
        case 401:
            return UnauthorizedError(message)
        case 403:
            return _forbidden(said, request, message)
        case 404:
            return NotFoundError(message) if _is_absence(said) else _not_served(request, message)
        case 409 if said.reason == "AlreadyExists":
            return AlreadyExistsError(message)
        case 409:
            return ConflictError(message)
        case 422 if {cause.field for cause in _causes(said)} == {"metadata.uid"}:
            # An apply to another object of the same name: a failed precondition, not an invalid
            # body.
            return ConflictError(message)
        case 410:
            return GoneError(message)
        case 422 | 500:
            return InvalidError(message, causes=_causes(said))
        case _:
            return RefusedError(f"{message} ({status})", status=status)


def _not_served(request: ApiRequest, message: str) -> KindNotServedError:
    kind = request.kind
    return KindNotServedError(
        f"the API server does not serve {kind.plural} of {kind.api_version}: {message}"
    )


def _is_absence(said: _Status) -> bool:
    return said.reason == "NotFound" and said.details is not None and said.details.name != ""


def _status_of(body: bytes) -> _Status:
    try:
        said = msgspec.json.decode(body, type=_Status)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Status()
    return said if said.kind == "Status" else _Status()


def _waits(said: _Status, header: str | None) -> dict[str, Any]:
    """The pause that the server asks for; a date in the header is ignored."""
    seconds = float(header) if header is not None and header.isascii() and header.isdigit() else 0
    if said.details is not None:
        seconds = max(seconds, said.details.retry_after_seconds)
    return {"retry_after_ms": int(seconds * 1000)} if seconds > 0 else {}


def _causes(said: _Status) -> tuple[InvalidCause, ...]:
    causes = said.details.causes if said.details is not None else ()
    return tuple(
        InvalidCause(field=cause.field, message=cause.message) for cause in causes[:_CAUSES_MAX]
    )


# The authorizer's message; every other 403 is from admission.
_DENIED = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\S+) resource "(?P<resource>[^"]*)"'
    r'(?: in API group "(?P<group>[^"]*)")?(?: in the namespace "(?P<namespace>[^"]*)")?'
)


def _forbidden(said: _Status, request: ApiRequest, message: str) -> ForbiddenError:
    denied = _DENIED.search(said.message)
    if denied is None:
        return ForbiddenError(message)
    # An apply of a missing object needs `create`, too, so take the verb of the message.
    verb, resource, group = denied["verb"], denied["resource"], denied["group"] or ""
    where = f"in the namespace {denied['namespace']}" if denied["namespace"] else "cluster-wide"
    return ForbiddenError(
        f"the operator may not {verb} {resource} {where} ({request}): a Role must allow "
        f'{denied["user"]} the verb "{verb}" on "{resource}" of the API group "{group}"',
        is_permission=True,
        verb=verb,
        resource=resource,
        namespace=denied["namespace"],
    )
