"""Leadership by a Lease: at most one operator acts; another takes over when it is silent.

Clocks of two machines are never compared. A candidate waits until the lease has not changed for the
duration in it, by the candidate's own monotonic clock. The holder stops earlier, counted from
before it sent the last successful renewal. Still, a process that pauses in the middle of a write
may continue the write later, so critical writes carry a version.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Protocol, assert_never

from qss_client.clock import Clock
from qss_core.errors import StoreError
from qss_operator.errors import ConflictError
from qss_operator.kubernetes.api.errors import AlreadyExistsError, NotFoundError
from qss_operator.kubernetes.api.kinds import LEASES, Kind
from qss_operator.kubernetes.api.requests import Object
from qss_operator.kubernetes.leadership.lease_rules import (
    LeaseSettings,
    MakeLease,
    Sighting,
    TakeLease,
    WaitForLease,
    decide,
    holder_of,
    look,
    new_lease,
    released_lease,
    taken_lease,
)
from qss_operator.times import utc

logger = logging.getLogger(__name__)


class LeaseApi(Protocol):
    """The methods of KubernetesApi that a lease needs."""

    async def find(self, kind: Kind, namespace: str | None, name: str) -> Object | None: ...

    async def create(self, kind: Kind, namespace: str | None, body: Object) -> Object:
        """Create the object; raises AlreadyExistsError."""
        ...

    async def replace(self, kind: Kind, namespace: str | None, name: str, body: Object) -> Object:
        """Replace one version of the object; raises ConflictError."""
        ...


class Leadership:
    """One process's claim to the lease."""

    def __init__(
        self,
        api: LeaseApi,
        settings: LeaseSettings,
        *,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]],
        chance: Callable[[], float],
        on_lost: Callable[[str], None],
    ) -> None:
        """`on_lost` must end the process at once: another operator may act from then on."""
        self._api = api
        self._settings = settings
        self._clock = clock
        self._sleep = sleep
        self._chance = chance
        self._on_lost = on_lost
        self._lease: Object | None = None
        self._held_until_s: float | None = None
        self._sighting: Sighting | None = None
        self._said: str | None = None

    @property
    def held_until_s(self) -> float | None:
        """The monotonic time until which this process may act; None if it may not."""
        return self._held_until_s

    @property
    def is_held(self) -> bool:
        """Whether this process may act; check it before each critical step."""
        until_s = self._held_until_s
        return until_s is not None and self._clock.monotonic_s() < until_s

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Waits for the lease, renews it during the block, and releases it."""
        await self.acquire()
        holding = asyncio.create_task(self.hold())
        try:
            yield
        finally:
            holding.cancel()
            await asyncio.wait([holding])
            await self.release()

    async def acquire(self) -> None:
        """Returns when the lease is held; it may wait without limit."""
        while not await self._attempt_to_acquire():
            # Random pauses: candidates in step would write at the same time.
            await self._sleep(self._settings.retry_s * (1 + 0.2 * self._chance()))
        logger.info("%s leads", self._settings.identity)

    async def hold(self) -> None:
        """Renews until cancelled; returns after it called `on_lost`."""
        try:
            lost = await self._renew_until_lost()
        except Exception:
            # After any error the lease is no longer renewed.
            logger.exception("the lease's loop failed")
            lost = "cannot be renewed"
        self._lease = self._held_until_s = None
        logger.critical("the lease %s", lost)
        self._on_lost(lost)

    async def _renew_until_lost(self) -> str:
        lost = None
        while lost is None:
            await self._sleep(max(0.0, min(self._settings.retry_s, self._left_s())))
            if (left_s := self._left_s()) <= 0:
                return "was not renewed in time"
            lost = await self._attempt_to_renew(left_s)
        return lost

    def _left_s(self) -> float:
        assert self._held_until_s is not None, "only what was acquired can be held"
        return self._held_until_s - self._clock.monotonic_s()

    async def release(self) -> None:
        """Releases the lease, so that a successor need not wait for its end."""
        lease, self._lease, self._held_until_s = self._lease, None, None
        try:
            async with asyncio.timeout(self._settings.attempt_s):
                if lease is not None and not await self._has_released(lease):
                    # An interrupted renewal had reached the server.
                    lease = await self._find()
                    if lease is not None and holder_of(lease) == self._settings.identity:
                        await self._has_released(lease)
        except (StoreError, TimeoutError) as error:
            logger.warning("the lease was not released; a successor waits for its end: %s", error)

    async def _has_released(self, lease: Object) -> bool:
        try:
            await self._replace(released_lease(lease, utc(self._clock)))
        except ConflictError:
            return False
        return True

    async def _attempt_to_acquire(self) -> bool:
        try:
            async with asyncio.timeout(self._settings.attempt_s):
                return await self._try_to_acquire()
        except (ConflictError, AlreadyExistsError):
            return False  # Another candidate was faster.
        except (StoreError, TimeoutError) as error:
            self._say_once(
                f"the API server gave no answer about the lease: {error or 'no answer in time'}"
            )
            return False

    async def _try_to_acquire(self) -> bool:
        lease = await self._find()
        # Take the time after the answer: an earlier time would shorten the holder's lease.
        seen_s = self._clock.monotonic_s()
        self._sighting = look(self._sighting, lease, seen_s)
        action = decide(self._sighting, lease, self._settings, seen_s)
        match action:
            case WaitForLease():
                self._say_once(f"{action.holder} leads; this operator waits")
                return False
            case MakeLease():
                body = new_lease(self._settings, utc(self._clock))
                self._keep(await self._api.create(LEASES, self._settings.namespace, body), seen_s)
            case TakeLease():
                assert lease is not None
                body = taken_lease(lease, self._settings, utc(self._clock))
                self._keep(await self._replace(body), seen_s)
            case _:
                assert_never(action)
        return True

    async def _attempt_to_renew(self, left_s: float) -> str | None:
        """Tries once; returns the reason if the lease is certainly lost."""
        try:
            async with asyncio.timeout(min(self._settings.attempt_s, left_s)):
                return await self._try_to_renew()
        except NotFoundError:
            return "was deleted"
        except (StoreError, TimeoutError) as error:
            self._say_once(f"the lease is not renewed: {error or 'no answer in time'}")
            return None

    async def _try_to_renew(self) -> str | None:
        started_s = self._clock.monotonic_s()
        assert self._lease is not None
        body = taken_lease(self._lease, self._settings, utc(self._clock))
        try:
            self._keep(await self._replace(body), started_s)
        except ConflictError:
            # Another client changed the object, or an own renewal without an answer did.
            lease = await self._find()
            if lease is None:
                return "was deleted"
            if holder_of(lease) != self._settings.identity:
                return f"was taken by {holder_of(lease) or 'nobody'}"
            body = taken_lease(lease, self._settings, utc(self._clock))
            self._keep(await self._replace(body), started_s)
        return None

    def _keep(self, lease: Object, started_s: float) -> None:
        self._lease = lease
        self._held_until_s = started_s + self._settings.renew_deadline_s
        self._said = None

    async def _find(self) -> Object | None:
        return await self._api.find(LEASES, self._settings.namespace, self._settings.name)

    async def _replace(self, body: Object) -> Object:
        settings = self._settings
        return await self._api.replace(LEASES, settings.namespace, settings.name, body)

    def _say_once(self, message: str) -> None:
        if message != self._said:
            logger.warning("%s", message)
        self._said = message
