"""Lets a pod that was told to stop serve on until the other pods have taken over.

Kubernetes ends a pod without asking the operator, as in the drain of a node. The pod reports that
it leaves; the operator hands its actives over, and takes it out of the in-sync sets.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress

from qss_client.clock import Clock
from qss_core.model import Ordinal, PartitionId
from qss_core.text import listed
from qss_store.replicas.replica import Replica
from qss_store.replicas.report import ReportFeed
from qss_store.runtime.settings import Settings

_LOG = logging.getLogger(__name__)
_LOOK_EVERY_S = 0.1


class Leaving:
    """The end of a pod's service, which waits for the operator's next configurations.

    It waits at most `leave_max_s` in all, and `leave_unheard_s` for the next request of the
    operator: where that is away, or the store is deleted, nobody hands anything over. It serves
    for `leave_min_s` in any case: the nodes learn a moment later that a Service has one pod less.
    """

    def __init__(
        self,
        ordinal: Ordinal,
        replicas: Mapping[PartitionId, Replica],
        report_feed: ReportFeed,
        clock: Clock,
        settings: Settings,
    ) -> None:
        self._ordinal = ordinal
        self._replicas = replicas
        self._report_feed = report_feed
        self._clock = clock
        self._settings = settings

    def counted(self) -> list[str]:
        """The partitions that count this pod, and others, as in sync: they have to go on."""
        return [
            str(number)
            for number, replica in sorted(self._replicas.items())
            if len(in_sync := replica.log.configuration.in_sync) > 1 and self._ordinal in in_sync
        ]

    async def run(self, hurry: asyncio.Event) -> None:
        """Returns when nobody needs this pod any more, at a limit, or at `hurry`."""
        if self._settings.leave_max_s <= 0:
            return
        begun_s = self._clock.monotonic_s()
        self._report_feed.is_leaving = True
        await self._report_feed.tell()
        await self._hand_over(hurry)
        served_s = self._clock.monotonic_s() - begun_s
        with suppress(TimeoutError):
            await asyncio.wait_for(hurry.wait(), max(0.0, self._settings.leave_min_s - served_s))

    async def _hand_over(self, hurry: asyncio.Event) -> None:
        if not (counted := self.counted()):
            return
        _LOG.info("the pod serves partitions %s until others have taken over", listed(counted))
        begun_s = heard_s = self._clock.monotonic_s()
        asked = self._report_feed.asked
        while counted := self.counted():
            now_s = self._clock.monotonic_s()
            if self._report_feed.asked != asked:
                asked, heard_s = self._report_feed.asked, now_s
            if hurry.is_set():
                why = "it was told to stop now"
            elif now_s - heard_s >= self._settings.leave_unheard_s:
                why = f"the operator asked nothing for {self._settings.leave_unheard_s:g} s"
            elif now_s - begun_s >= self._settings.leave_max_s:
                why = f"the limit is {self._settings.leave_max_s:g} s"
            else:
                await asyncio.sleep(_LOOK_EVERY_S)
                continue
            _LOG.warning("the pod stops while partitions %s need it: %s", listed(counted), why)
            return
        took_s = self._clock.monotonic_s() - begun_s
        _LOG.info("no partition needs the pod any more, after %.1f s", took_s)
