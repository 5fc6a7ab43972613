"""Reads bearer tokens from headers, hashes them, and reads the claims of JWTs. Pure.

Nothing here verifies a token: the API server does. The claims can only bring the next review
forward, or improve the text of a refusal: this node's clock may be wrong.
"""

import hashlib
import math
import re
from base64 import urlsafe_b64decode
from dataclasses import dataclass

import msgspec

from qss_core.errors import UnauthenticatedError

TOKEN_BYTES_MAX = 16 * 1024
EXPIRED = "the token has expired: send a newer one"
_SCHEME = "bearer "
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # The b64token of RFC 6750.


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims in a token; `expires_at` in seconds since 1970."""

    expires_at: float | None = None
    audiences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Audiences:
    """The audiences that callers' tokens may have.

    `own` belongs to this store only; it alone identifies the operator and other pods. Readers and
    writers may also use `common`, which several stores share. Other pods may also use `peers`: pods
    that were made before stores had their own audiences show it.
    """

    own: str
    common: str | None = None
    peers: str | None = None

    @property
    def all(self) -> tuple[str, ...]:
        """All audiences that a token may have."""
        given = (self.own, self.common, self.peers)
        return tuple(dict.fromkeys(one for one in given if one is not None))

    def bind(self, found: frozenset[str], *, is_peer: bool) -> bool:
        """Whether a token for these audiences shows that its account is the operator or a pod."""
        return self.own in found or (is_peer and self.peers in found)

    def take(self, found: frozenset[str], *, is_peer: bool) -> bool:
        """Whether this store accepts a token for these audiences at all."""
        return self.common in found or self.bind(found, is_peer=is_peer)


def bearer_token(header: str | None) -> str:
    """The token of an Authorization header."""
    if header is None:
        raise UnauthenticatedError(
            "this store checks its callers: send Authorization: Bearer TOKEN"
        )
    token = token_of(header)
    if token is None:
        raise UnauthenticatedError(
            "the header has another scheme: send Authorization: Bearer TOKEN"
        )
    return token


def token_of(header: str) -> str | None:
    """The token of a header with the scheme Bearer, in any case; None for another scheme."""
    if header[: len(_SCHEME)].lower() != _SCHEME:
        return None
    return header[len(_SCHEME) :].strip()


def digest_of(token: str) -> bytes:
    """The key under which a token is remembered."""
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()


def why_invalid(token: str) -> str | None:
    """The reason why a token is invalid; None where only a review can tell."""
    if len(token) > TOKEN_BYTES_MAX or not _TOKEN.fullmatch(token):
        return "what follows Bearer is not a token"
    return None


def seconds_left(claims: Claims, now_s: float) -> float:
    """The time in seconds until the claimed end of a token that the API server has just accepted.

    Infinity where the token claims none, and where it is over by `now_s`: then this clock is ahead
    of the API server's, and its reviews alone tell the end. `now_s` in seconds since 1970.
    """
    if claims.expires_at is None or claims.expires_at <= now_s:
        return math.inf
    return claims.expires_at - now_s


def refusal_text(claims: Claims, audiences: Audiences, now_s: float) -> str:
    """Why the API server may have refused a token, as far as its claims and this clock tell."""
    if claims.audiences and not {audiences.own, audiences.common} & set(claims.audiences):
        given = ", ".join(claims.audiences)[:200]
        return f"the token is for {given}: ask Kubernetes for one with the audience {audiences.own}"
    if claims.expires_at is not None and claims.expires_at <= now_s:
        return EXPIRED
    return "the API server does not accept the token: it may be revoked, or of another cluster"


class _Payload(msgspec.Struct):
    exp: float | None = None
    aud: str | list[str] | None = None


def claims_of(token: str) -> Claims:
    """The claims of a JWT; none for another kind of token."""
    parts = token.split(".")
    if len(parts) != 3:
        return Claims()
    try:
        data = urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        payload = msgspec.json.decode(data, type=_Payload)
    except (ValueError, msgspec.DecodeError, RecursionError):
        return Claims()
    audiences = [payload.aud] if isinstance(payload.aud, str) else payload.aud or []
    return Claims(payload.exp, tuple(audiences))
