"""Encodes and decodes TokenReview and SubjectAccessReview. Pure."""

from dataclasses import dataclass
from typing import Any

import msgspec

from qss_store.access.rights import GROUP, RESOURCE, Identities, Right

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """A token's account, with all attributes that a Role can be bound to."""

    username: str = ""  # Empty for a refused token: the API server sends `user: {}`.
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class NoReviewError(Exception):
    """There is no answer to a review; the text says why, and contains no token.

    `is_unreached` means that no connection was made, so every other review fails, too.
    """

    def __init__(self, why: str, *, is_unreached: bool = False) -> None:
        super().__init__(why)
        self.is_unreached = is_unreached


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A token's account, and the requested audiences that the token is for."""

    account: Account
    audiences: frozenset[str]


def encode_token_review(token: str, audiences: tuple[str, ...]) -> bytes:
    """Asks for the account of a token."""
    return _encode(
        "authentication.k8s.io/v1", "TokenReview", {"token": token, "audiences": audiences}
    )


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    audiences: tuple[str, ...] = ()
    user: Account | None = None


class _TokenReview(msgspec.Struct):
    status: _TokenStatus


def decode_token_review(body: bytes, audiences: tuple[str, ...]) -> Reviewed | None:
    """The account; None if the token is valid for none of the audiences."""
    try:
        status = msgspec.json.decode(body, type=_TokenReview).status
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NoReviewError("the API server's TokenReview cannot be read") from error
    # An authenticator without audiences accepts any token and names no audience.
    found = frozenset(audiences).intersection(status.audiences)
    if not status.authenticated or not found:
        return None
    if status.user is None or not status.user.username:
        return None
    return Reviewed(status.user, found)


def encode_access_review(account: Account, right: Right, identities: Identities) -> bytes:
    """Asks whether an account has a right on the store."""
    spec = {
        "user": account.username,
        "uid": account.uid,
        "groups": account.groups,
        "extra": account.extra,
        "resourceAttributes": {
            "group": GROUP,
            "resource": RESOURCE,
            "subresource": right.value,
            "verb": right.verb,
            "name": identities.store,
            "namespace": identities.namespace,
        },
    }
    return _encode("authorization.k8s.io/v1", "SubjectAccessReview", spec)


class _AccessStatus(msgspec.Struct):
    allowed: bool
    denied: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus


def decode_access_review(body: bytes) -> bool:
    try:
        status = msgspec.json.decode(body, type=_AccessReview).status
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NoReviewError("the API server's SubjectAccessReview cannot be read") from error
    return status.allowed and not status.denied


def _encode(version: str, kind: str, spec: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"apiVersion": version, "kind": kind, "spec": spec})
