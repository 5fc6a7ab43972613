"""The operator's own tokens for the pods of one store, by audience."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from qss_core.errors import Retry, StoreError
from qss_operator.kubernetes.api.requests import Object

logger = logging.getLogger(__name__)

_LIFE_S = 3600
_RENEW_AT = 0.8  # Of a token's life.
_RETRY_S = 10.0  # Between tries to renew a token that is still good.


class TokenRequestError(StoreError):
    """The API server gives the operator no token for a store."""

    code, http_status, retry = "TOKEN_REQUEST", 409, Retry.NEVER


class TokenApi(Protocol):
    """What a KubernetesApi does for tokens."""

    async def create_token(
        self, namespace: str, account: str, audience: str, life_s: int
    ) -> Object: ...


@dataclass(slots=True)
class _Held:
    token: str
    renew_at_s: float
    ends_at_s: float


class StoreTokens:
    """Asked for by TokenRequest, and again when a fifth of their life is left."""

    def __init__(
        self, api: TokenApi, service_account: str, monotonic_s: Callable[[], float]
    ) -> None:
        """`service_account` is NAMESPACE/NAME of the operator; empty: it has none to show."""
        self._api = api
        self._namespace, _, self._account = service_account.partition("/")
        self._monotonic_s = monotonic_s
        self._held: dict[str, _Held] = {}

    def of(self, audience: str) -> str | None:
        """The token for this audience; None where none was asked for, or it has ended."""
        held = self._held.get(audience)
        return held.token if held is not None and self._monotonic_s() < held.ends_at_s else None

    async def refresh(self, audiences: Iterable[str]) -> None:
        """Has a token for each of these audiences, and forgets the others.

        Raises TokenRequestError where there is none that is still good.
        """
        wanted = set(audiences) if self._account else set()
        for audience in self._held.keys() - wanted:
            del self._held[audience]
        for audience in sorted(wanted):
            held = self._held.get(audience)
            if held is None or self._monotonic_s() >= held.renew_at_s:
                await self._renew(audience)

    async def _renew(self, audience: str) -> None:
        asked_at_s = self._monotonic_s()
        try:
            answer = await self._api.create_token(self._namespace, self._account, audience, _LIFE_S)
            token, life_s = _read(answer)
        except StoreError as error:
            held = self._held.get(audience)
            message = f"the operator has no token with the audience {audience}: {error.message}"
            if held is None or asked_at_s >= held.ends_at_s:
                raise TokenRequestError(message) from error
            held.renew_at_s = asked_at_s + _RETRY_S
            logger.warning("not renewed: %s; the last one is shown until it ends", message)
            return
        self._held[audience] = _Held(token, asked_at_s + _RENEW_AT * life_s, asked_at_s + life_s)


def _read(answer: Object) -> tuple[str, float]:
    """The token, and how long it lives from now on: the API server may choose another time."""
    token = (answer.get("status") or {}).get("token")
    if not isinstance(token, str) or not token:
        raise TokenRequestError("the API server answered a TokenRequest without a token")
    life_s = (answer.get("spec") or {}).get("expirationSeconds") or _LIFE_S
    return token, float(life_s)
