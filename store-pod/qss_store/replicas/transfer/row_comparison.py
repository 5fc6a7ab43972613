"""Compares the rows of an active with those of its in-sync standbys, some rows at a time.

The active makes the digest of some rows in the state that its readers see, and asks each standby
for the digest of the same rows after the same batch: then all replicas have the same rows, whatever
their files look like. No state is held between two stretches of rows.
"""

import asyncio
import logging
from collections.abc import Mapping

from qss_core.errors import StoreError
from qss_core.model import Ordinal, Role
from qss_core.text import listed
from qss_core.wire.replica_reports import UnlikeRows
from qss_store.replicas.registry import Registry
from qss_store.replicas.replica import Replica
from qss_store.replication.messages import (
    COMPARE_PATH,
    DIGEST_VERSION,
    UNLIKE_PATH,
    CompareAnswer,
    CompareRequest,
    Done,
    UnlikeRequest,
    decode_message,
    encode_message,
)
from qss_store.runtime.peer_client import Transport
from qss_store.runtime.settings import Settings
from qss_store.storage.views.read_view import ReadView
from qss_store.storage.views.row_digest import RowsDigest, digest_next, parts_of

_LOG = logging.getLogger(__name__)
_TRIES = 5  # So often a stretch is tried: a batch may come before a standby is asked.
_FOUND_AGAIN = 2  # Times that a stretch has to differ.


class RowComparison:
    """The comparisons of one pod's actives."""

    def __init__(self, registry: Registry, transport: Transport, settings: Settings) -> None:
        self._registry = registry
        self._transport = transport
        self._settings = settings

    async def compare(self, replica: Replica) -> bool:
        """Compares all rows of an active that has standbys without damage; others have no work.

        Where rows differ, the active's report says so: of replicas that were copied from each other
        most may be wrong, so nobody can tell which one is right. The standbys hear of it, since one
        of them may be the next active. The finding holds until the rows of all replicas were
        compared again. Raises CorruptionError where the active has damage.

        Returns False where rows wait to be compared: no other replica is in sync, or the comparison
        broke off. The wait of a replica with no work goes on.
        """
        configuration, own = replica.log.configuration, replica.log.pod
        standbys = [pod for pod in configuration.in_sync if pod != own]
        if replica.role is not Role.ACTIVE or replica.health.damage is not None:
            return not replica.health.waits_for_comparison
        if not standbys:
            return len(configuration.replicas) == 1 and not replica.health.waits_for_comparison
        one = _Comparison(replica, self._registry, self._transport, self._settings, standbys)
        if await one.run() and {*configuration.replicas} == {*configuration.in_sync}:
            replica.alarm.compared(None)
            await one.tell(None)
        return one.has_ended


class _Comparison:
    """One pass over the rows of one active."""

    def __init__(
        self,
        replica: Replica,
        registry: Registry,
        transport: Transport,
        settings: Settings,
        standbys: list[Ordinal],
    ) -> None:
        self._replica = replica
        self._registry = registry
        self._transport = transport
        self._settings = settings
        self._configuration = replica.log.configuration
        self._standbys = standbys  # The standbys that answer.
        self._skipped = 0
        self.has_ended = False  # All standbys were asked, up to the last row or to a difference.

    async def run(self) -> bool:
        """Returns whether all standbys have the same rows, but for stretches that were skipped."""
        count, part = len(self._standbys), 0
        after: bytes | None = None
        while (view := self._view()) is not None and self._standbys:
            if part == len(parts_of(view)):
                break
            found = await self._stretch(part, after)
            if found is None:
                return False
            after = found.last_key
            part += after is None
            await asyncio.sleep(found.size / self._settings.scrub_bytes_per_s)
        else:
            return False
        if self._skipped:
            _LOG.info(
                "partition %s: %s stretches of rows were not compared, since batches came too fast",
                self._replica.partition,
                self._skipped,
            )
        self.has_ended = len(self._standbys) == count
        return self.has_ended and not self._skipped

    def _view(self) -> ReadView | None:
        """The state that readers see; None where the comparison has to end."""
        replica = self._replica
        is_here = self._registry.replicas.get(replica.partition) is replica
        if not is_here or replica.log.configuration != self._configuration:
            return None
        return replica.view

    async def _stretch(self, part: int, after: bytes | None) -> RowsDigest | None:
        """Compares some rows; None where the comparison has to end."""
        differed, own = 0, None
        for _ in range(_TRIES):
            if (view := self._view()) is None:
                return None
            own = digest_next(view, part, after)
            digests = await self._digests(view, part, after, own)
            if None not in digests.values():
                known = {pod: one for pod, one in digests.items() if one is not None}
                known[self._replica.log.pod] = own.digest
                if len({*known.values()}) == 1:
                    return own
                differed += 1
                if differed == _FOUND_AGAIN:
                    await self._differ(view, known)
                    return None
        self._skipped += 1
        return own

    async def _digests(
        self, view: ReadView, part: int, after: bytes | None, own: RowsDigest
    ) -> dict[Ordinal, bytes | None]:
        """The digests of the standbys in the same state; None where one shows another state."""
        request = CompareRequest(
            store_id=self._replica.definition.store_id,
            sender=self._replica.log.pod,
            configuration=self._configuration,
            sequence=view.sequence,
            part=part,
            after=after,
            last_key=own.last_key,
            rows=own.rows,
            version=DIGEST_VERSION,
        )
        body, standbys = encode_message(request), [*self._standbys]
        answers = await asyncio.gather(
            *(self._send(pod, COMPARE_PATH, body) for pod in standbys), return_exceptions=True
        )
        digests: dict[Ordinal, bytes | None] = {}
        for pod, answer in zip(standbys, answers, strict=True):
            try:
                if isinstance(answer, BaseException):
                    raise answer
                digests[pod] = decode_message(answer, CompareAnswer).digest
            except StoreError as error:
                told = "partition %s: pod %s does not compare its rows: %s"
                _LOG.info(told, self._replica.partition, pod, error.message)
                self._standbys.remove(pod)
        return digests

    async def _differ(self, view: ReadView, digests: Mapping[Ordinal, bytes]) -> None:
        """Says that the rows differ, here and to the standbys."""
        if self._view() is None:
            return
        replica, pods = self._replica, tuple(sorted(digests))
        _LOG.critical(
            "the replicas of partition %s on pods %s have other rows after batch %s, with the "
            "entries below %s, and nobody can tell which are right",
            replica.partition,
            listed([str(pod) for pod in pods]),
            view.sequence,
            view.applied,
        )
        unlike = UnlikeRows(
            pods=pods,
            epoch=self._configuration.epoch,
            sequence=view.sequence,
            offset=view.applied,
        )
        replica.alarm.compared(unlike)
        await self.tell(unlike)
        self.has_ended = replica.health.unlike is unlike  # No configuration has ended it meanwhile.

    async def tell(self, unlike: UnlikeRows | None) -> None:
        """Tells the standbys the result; None where all rows are the same."""
        for pod in [*self._standbys]:
            await self._tell(pod, unlike)

    async def _tell(self, pod: Ordinal, unlike: UnlikeRows | None) -> None:
        request = UnlikeRequest(
            store_id=self._replica.definition.store_id,
            sender=self._replica.log.pod,
            configuration=self._configuration,
            unlike=unlike,
        )
        try:
            decode_message(await self._send(pod, UNLIKE_PATH, encode_message(request)), Done)
        except StoreError as error:
            told = "partition %s: pod %s does not take the result of comparing its rows: %s"
            _LOG.error(told, self._replica.partition, pod, error.message)

    async def _send(self, pod: Ordinal, path: str, body: bytes) -> bytes:
        address = self._registry.address(pod)
        timeout_s = self._settings.replica_timeout_s
        return await self._transport.send(f"{address.changelog}/{path}", body, timeout_s)
