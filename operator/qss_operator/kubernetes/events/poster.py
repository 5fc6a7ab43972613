"""Posts events about objects in the background, and counts repetitions.

A failure to post is logged and never raised: events are for people, not for decisions.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from qss_client.clock import Clock
from qss_core.errors import StoreError
from qss_operator.kubernetes.api.errors import NotFoundError
from qss_operator.kubernetes.api.kinds import EVENTS, Kind
from qss_operator.kubernetes.api.requests import Object
from qss_operator.kubernetes.events.event_limits import (
    MINUTE_S,
    EventKey,
    EventLimits,
    EventMemory,
    EventType,
    Happening,
    Subject,
    again_patch,
    bounded,
    event_of,
)
from qss_operator.times import utc

logger = logging.getLogger(__name__)

_QUEUE_LENGTH_MAX = 256
_LATE_MAX = 256


class EventApi(Protocol):
    """The methods of KubernetesApi that events need."""

    async def create(self, kind: Kind, namespace: str | None, body: Object) -> Object: ...

    async def merge_patch(
        self, kind: Kind, namespace: str | None, name: str, patch: Object
    ) -> Object:
        """Change these fields; raises NotFoundError."""
        ...


class Events:
    def __init__(
        self,
        api: EventApi,
        *,
        reporter: str,
        clock: Clock,
        token: Callable[[], str],
        limits: EventLimits | None = None,
    ) -> None:
        """`reporter` is this process; `token` draws a part of a name that is always new."""
        self._api = api
        self._reporter = reporter
        self._clock = clock
        self._token = token
        self._memory = EventMemory(limits or EventLimits())
        self._queue: asyncio.Queue[Happening] = asyncio.Queue(_QUEUE_LENGTH_MAX)
        self._is_failing = False
        # The newest events of groups that were too many for their minute.
        self._late: dict[EventKey, Happening] = {}

    def post(
        self, subject: Subject, type_: EventType, reason: str, message: str, group: str = ""
    ) -> None:
        """Returns at once; while the queue is full, new events are dropped."""
        said = bounded(message)
        happening = Happening(subject=subject, type=type_, reason=reason, message=said, group=group)
        try:
            self._queue.put_nowait(happening)
        except asyncio.QueueFull:
            logger.debug("%s: no room for the event %s: %s", subject.name, reason, message)

    async def run(self) -> None:
        """Posts the queued events until it is cancelled."""
        while True:
            try:
                async with asyncio.timeout(self._next_minute_s() if self._late else None):
                    happening = await self._queue.get()
            except TimeoutError:
                for late in [self._late.pop(key) for key in [*self._late]]:
                    await self._tried(late, was_counted=True)
                continue
            try:
                await self._tried(happening)
            finally:
                self._queue.task_done()

    def _next_minute_s(self) -> float:
        return MINUTE_S - self._clock.monotonic_s() % MINUTE_S

    async def _tried(self, happening: Happening, *, was_counted: bool = False) -> None:
        try:
            await self._post(happening, was_counted=was_counted)
            self._is_failing = False
        except StoreError as error:
            self._failed(error)
        except Exception:
            logger.exception("an event was not posted: %s", happening)

    async def drain(self) -> None:
        """Returns when all queued events were tried."""
        await self._queue.join()

    async def _post(self, happening: Happening, *, was_counted: bool) -> None:
        now_s = self._clock.monotonic_s()
        posted = self._memory.again(happening, now_s, counts=not was_counted)
        if not self._memory.may_post(happening.subject, now_s):
            # A repetition is counted, and posted with the next one that is allowed.
            if happening.group and (happening.key in self._late or len(self._late) < _LATE_MAX):
                self._late[happening.key] = happening
                return
            logger.debug("too many events of %s: %s", happening.subject.name, happening.reason)
            return
        self._late.pop(happening.key, None)
        namespace = happening.subject.namespace
        if posted is not None:
            try:
                patch = again_patch(posted, happening.message, utc(self._clock))
                await self._api.merge_patch(EVENTS, namespace, posted.name, patch)
            except NotFoundError:
                self._memory.forget(happening)
            else:
                return
        event = event_of(happening, self._token(), self._reporter, utc(self._clock))
        await self._api.create(EVENTS, namespace, event)
        self._memory.made(happening, event["metadata"]["name"], now_s)

    def _failed(self, error: StoreError) -> None:
        # Warn once until it works again: a missing permission would fill the log.
        log = logger.debug if self._is_failing else logger.warning
        log("an event was not posted: %s", error)
        self._is_failing = True
