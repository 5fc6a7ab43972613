"""The operator's own tokens for the pods of one store, by audience."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from qss_client.clock import Clock
from qss_core.errors import Retry, StoreError
from qss_operator.kubernetes.api.requests import Object

logger = logging.getLogger(__name__)

_LIFE_S = 3600
_RENEW_AT = 0.8  # Share of a token's life.
_RETRY_S = 10.0  # Between tries to renew a token that is still valid.


class TokenRequestError(StoreError):
    """The API server refuses a token of the operator for a store."""

    code, http_status, retry = "TOKEN_REQUEST", 409, Retry.NEVER


class TokenApi(Protocol):
    """The method of KubernetesApi that requests tokens."""

    async def create_token(
        self, namespace: str, account: str, audience: str, life_s: int
    ) -> Object: ...


@dataclass(slots=True)
class _Held:
    token: str
    renew_at_s: float
    ends_at_s: float


class StoreTokens:
    """Tokens from TokenRequests, renewed when a fifth of their life is left."""

    def __init__(self, api: TokenApi, service_account: str, clock: Clock) -> None:
        """`service_account` is the operator's NAMESPACE/NAME; empty: it has none."""
        self._api = api
        self._namespace, _, self._account = service_account.partition("/")
        self._clock = clock
        self._held: dict[str, _Held] = {}

    def of(self, audience: str) -> str | None:
        """The token for this audience; None if it was not requested or has expired."""
        held = self._held.get(audience)
        if held is None or self._clock.monotonic_s() >= held.ends_at_s:
            return None
        return held.token

    async def refresh(self, audiences: Iterable[str]) -> None:
        """Requests or renews tokens for these audiences, and drops all others.

        Raises TokenRequestError if there is no valid token for one.
        """
        wanted = set(audiences) if self._account else set()
        for audience in self._held.keys() - wanted:
            del self._held[audience]
        for audience in sorted(wanted):
            held = self._held.get(audience)
            if held is None or self._clock.monotonic_s() >= held.renew_at_s:
                await self._renew(audience)

    async def _renew(self, audience: str) -> None:
        asked_at_s = self._clock.monotonic_s()
        try:
            answer = await self._api.create_token(self._namespace, self._account, audience, _LIFE_S)
            token, life_s = _read(answer)
        except StoreError as error:
            held = self._held.get(audience)
            message = f"the operator has no token with the audience {audience}: {error.message}"
            if held is None or asked_at_s >= held.ends_at_s:
                raise TokenRequestError(message) from error
            held.renew_at_s = asked_at_s + _RETRY_S
            logger.warning("%s; the token from before is used until it ends", message)
            return
        self._held[audience] = _Held(token, asked_at_s + _RENEW_AT * life_s, asked_at_s + life_s)


def _read(answer: Object) -> tuple[str, float]:
    """The token and its life in seconds, which the API server may have changed."""
    token = (answer.get("status") or {}).get("token")
    if not isinstance(token, str) or not token:
        raise TokenRequestError("the API server answered a TokenRequest without a token")
    life_s = (answer.get("spec") or {}).get("expirationSeconds") or _LIFE_S
    return token, float(life_s)
