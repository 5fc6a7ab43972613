"""Bearer tokens: read from a header, hashed, and what a JWT says of itself. Pure.

Nothing here verifies a token: the API server does. What a token says of itself can only make it
count for less, and word a refusal for whoever holds it.
"""

import hashlib
import re
from base64 import urlsafe_b64decode
from dataclasses import dataclass

import msgspec

from qss_core.errors import UnauthenticatedError

TOKEN_BYTES_MAX = 16 * 1024
EXPIRED = "the token has expired: send a newer one"
_SCHEME = "bearer "
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750's b64token.


@dataclass(frozen=True, slots=True)
class Claims:
    """What a token says of itself; `expires_at` in seconds since 1970."""

    expires_at: float | None = None
    audiences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Audiences:
    """What callers' tokens are made for.

    `own` is this store's alone: the operator and other pods are known by it and nothing else.
    Readers and writers may use `common`, that of several stores, too, where there is one. Other
    pods may use `peers`, where there is one: pods that were made before stores had audiences of
    their own show it.
    """

    own: str
    common: str | None = None
    peers: str | None = None

    @property
    def all(self) -> tuple[str, ...]:
        """Those that a token may be for."""
        given = (self.own, self.common, self.peers)
        return tuple(dict.fromkeys(one for one in given if one is not None))

    def bind(self, found: frozenset[str], *, is_peer: bool) -> bool:
        """Whether a token for these audiences shows that its account is the operator or a pod."""
        return self.own in found or (is_peer and self.peers in found)

    def take(self, found: frozenset[str], *, is_peer: bool) -> bool:
        """Whether a token for these audiences may be shown to this store at all."""
        return self.common in found or self.bind(found, is_peer=is_peer)


def bearer_token(header: str | None) -> str:
    """The token of an Authorization header."""
    if header is None:
        raise UnauthenticatedError("this store wants to know who asks: Authorization: Bearer TOKEN")
    token = token_of(header)
    if token is None:
        raise UnauthenticatedError("only Authorization: Bearer TOKEN is taken")
    return token


def token_of(header: str) -> str | None:
    """The token of a header of that scheme, however it is spelled; None of another scheme."""
    if header[: len(_SCHEME)].lower() != _SCHEME:
        return None
    return header[len(_SCHEME) :].strip()


def digest_of(token: str) -> bytes:
    """What a token is remembered by."""
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()


def why_invalid(token: str, claims: Claims, now_s: float) -> str | None:
    """What is wrong with a token, where nobody needs to be asked about it."""
    if len(token) > TOKEN_BYTES_MAX or not _TOKEN.fullmatch(token):
        return "what follows Bearer is not a token"
    if claims.expires_at is not None and claims.expires_at <= now_s:
        return EXPIRED
    return None


def refusal_text(claims: Claims, audiences: Audiences) -> str:
    """Why the API server may have refused a token, as far as the token tells."""
    if claims.audiences and not {audiences.own, audiences.common} & set(claims.audiences):
        given = ", ".join(claims.audiences)[:200]
        return f"the token is for {given}: ask Kubernetes for one with the audience {audiences.own}"
    return "the API server does not accept the token: it may be revoked, or of another cluster"


class _Payload(msgspec.Struct):
    exp: float | None = None
    aud: str | list[str] | None = None


def claims_of(token: str) -> Claims:
    """The claims in a JWT; none where it is another kind of token."""
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
