"""Sends the logs of this pod's actives to one other pod: one request in flight, for all of them."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress

from msgspec import structs

from qss_client.clock import Clock
from qss_core.errors import CorruptionError, StoreError
from qss_core.model import Epoch, Ordinal, PartitionId, StoreId
from qss_store.replicas.registry import Registry
from qss_store.replicas.replica import Replica
from qss_store.replication.follower import Append
from qss_store.replication.messages import (
    APPEND_PATH,
    HELLO_PATH,
    AppendAnswer,
    AppendRequest,
    Greeted,
    Held,
    HelloAnswer,
    HelloRequest,
    Refused,
    SteppedBack,
    decode_message,
    encode_message,
)
from qss_store.runtime.metrics import Carried, ReplicationMetrics
from qss_store.runtime.peer_client import Transport

_LOG = logging.getLogger(__name__)
# Entries of one request. A single entry may be larger.
_BYTES_MAX = 4 * 1024 * 1024
_GREETED_AT_ONCE = 2048
_RETRY_S, _RETRY_S_MAX = 0.05, 1.0
_TOLD_AFTER_S = 2.0
_IDLE_S = 1.0
_PAUSE_S_MIN = 0.001


class PeerSender:
    """The task that keeps the followers on one pod equal to their actives on this pod."""

    def __init__(
        self,
        here: Ordinal,
        peer: Ordinal,
        registry: Registry,
        transport: Transport,
        clock: Clock,
        timeout_s: float,
        metrics: ReplicationMetrics,
    ) -> None:
        """Sends nothing before `run`; `timeout_s` limits each request."""
        self.wake = asyncio.Event()
        self._here = here
        self._peer = peer
        self._registry = registry
        self._transport = transport
        self._clock = clock
        self._timeout_s = timeout_s
        self._metrics = metrics
        self._failures = 0
        self._answered_s = clock.monotonic_s()
        self._is_told = False

    async def run(self) -> None:
        """Sends until it is cancelled."""
        while True:
            self.wake.clear()
            for replica in list(self._registry.replicas.values()):
                replica.epochs.keep()
            replicas = self._replicas()
            try:
                if not await self._round(replicas):
                    await self._wait(replicas)
            except StoreError as error:
                await self._failed(replicas, error)
            except Exception:  # noqa: BLE001 the top of a task.
                _LOG.exception("sending logs to pod %s failed, and is tried again", self._peer)
                await asyncio.sleep(_RETRY_S_MAX)

    def _replicas(self) -> list[Replica]:
        """The actives that may send to the pod: not failed, in an epoch in which they may act.

        The data of an active is not the store's where its volume went back.
        """
        replicas = list(self._registry.replicas.values())
        return [
            one
            for one in replicas
            if one.followers.greets(self._peer)
            and not one.acting.asks_for_epoch
            and not one.health.has_failed
            and self._registry.is_the_data(one)
        ]

    async def _round(self, replicas: Sequence[Replica]) -> bool:
        """Sends the hellos, copies and entries that are due; returns whether any were."""
        ungreeted = [one for one in replicas if one.followers.owes_hello(self._peer)]
        if ungreeted:
            await self._greet(ungreeted[:_GREETED_AT_ONCE])
        now_s = self._clock.monotonic_s()
        due = [one for one in replicas if self._is_due(one, now_s)]
        appends = self._appends(due)
        sending = [one for one in replicas if one.followers.sends_to(self._peer)]
        copies = [one for one in sending if one.followers.learners.takes_copy(self._peer)]
        if appends or copies:
            await self._append(appends, copies)
        return bool(ungreeted or appends or copies)

    def _is_due(self, replica: Replica, now_s: float) -> bool:
        followers = replica.followers
        return (
            followers.sends_to(self._peer)
            and followers.is_greeted(self._peer)
            and followers.due_s(self._peer, self._lease_ms / 1000) <= now_s
        )

    def _appends(self, replicas: Sequence[Replica]) -> list[tuple[Replica, Append]]:
        """An append for each replica, with entries while the request has room."""
        found: list[tuple[Replica, Append]] = []
        room = _BYTES_MAX
        # A partition that had no room in the last request comes first in the next one.
        for replica in sorted(replicas, key=lambda one: one.followers.sent_s(self._peer)):
            if room <= 0:
                break
            try:
                append = replica.followers.next(
                    self._peer, room, is_acting=replica.acting.is_acting
                )
            except CorruptionError as error:
                replica.fail(error)
                continue
            if append is not None and replica.health.damage is not None:
                append = structs.replace(append, is_damaged=True)
            if append is not None:
                found.append((replica, append))
                room -= sum(len(one.data) + len(one.payload) for one in append.entries)
        return found

    async def _greet(self, replicas: Sequence[Replica]) -> None:
        configurations = tuple(one.log.configuration for one in replicas)
        request = HelloRequest(
            store_id=self._store_id, sender=self._here, configurations=configurations
        )
        answer = decode_message(await self._send(HELLO_PATH, encode_message(request)), HelloAnswer)
        by_partition = {one.partition: one for one in configurations}
        for result in answer.results:
            asked = by_partition.get(result.partition)
            replica = self._registry.replicas.get(result.partition)
            if replica is None or asked is None:
                continue
            if isinstance(result, Greeted):
                replica.acting.released(result.process, asked.epoch)
                try:
                    replica.followers.greeted(
                        self._peer, asked.epoch, result.hello, result.watermark
                    )
                except CorruptionError as error:
                    replica.fail(error)
            else:
                self._refused(replica, asked.epoch, result)

    async def _append(
        self, appends: Sequence[tuple[Replica, Append]], copies: Sequence[Replica]
    ) -> None:
        request = AppendRequest(
            store_id=self._store_id,
            sender=self._here,
            process=self._registry.process,
            lease_ms=self._lease_ms,
            appends=tuple(append for _, append in appends),
            copies=tuple(one.log.configuration for one in copies),
        )
        sent_s = self._clock.monotonic_s()
        data = await self._send(APPEND_PATH, encode_message(request))
        answer = decode_message(data, AppendAnswer)
        by_partition: dict[PartitionId, tuple[Replica, Append]] = {
            replica.partition: (replica, append) for replica, append in appends
        }
        for result in answer.results:
            sent = by_partition.pop(result.partition, None)
            if sent is None:
                continue
            replica, append = sent
            match result:
                case Held():
                    lease_s = request.lease_ms / 1000
                    replica.followers.held(self._peer, result, sent_s, lease_s)
                case SteppedBack():
                    replica.followers.stepped_back(self._peer, result)
                case Refused():
                    self._refused(replica, append.configuration.epoch, result)
        for replica, _ in by_partition.values():  # The answer lacks them.
            replica.followers.failed(self._peer)
        for replica, _ in appends:
            if replica.followers.learners.is_near(self._peer):
                await replica.followers.learners.count(self._peer)

    def _refused(self, replica: Replica, epoch: Epoch, result: Refused) -> None:
        if result.configuration is not None:
            with suppress(StoreError):  # A full disk: the next refusal has the configuration, too.
                replica.following.hear(result.configuration)
        replica.followers.refused(self._peer, epoch, result)

    async def _send(self, path: str, body: bytes) -> bytes:
        address = self._registry.address(self._peer)
        self._metrics.sent(Carried.CHANGELOG, len(body))
        answer = await self._transport.send(f"{address.changelog}/{path}", body, self._timeout_s)
        if self._is_told:
            _LOG.info("pod %s answers again", self._peer)
        self._failures, self._is_told = 0, False
        self._answered_s = self._clock.monotonic_s()
        return answer

    @property
    def _lease_ms(self) -> int:
        return self._registry.placed().settings.lease_ms

    @property
    def _store_id(self) -> StoreId:
        return self._registry.placed().definition.store_id

    async def _failed(self, replicas: Sequence[Replica], error: StoreError) -> None:
        """Notes that the pod did not answer, and waits before the next try."""
        for replica in replicas:
            replica.followers.failed(self._peer)
        silent_s = self._clock.monotonic_s() - self._answered_s
        if silent_s > _TOLD_AFTER_S and not self._is_told:
            self._is_told = True
            _LOG.warning(
                "pod %s has not answered for %.0f s, and its standbys wait for entries: %s",
                self._peer,
                silent_s,
                error.message,
            )
        pause_s = min(_RETRY_S_MAX, _RETRY_S * 2 ** min(self._failures, 10))
        self._failures += 1
        await asyncio.sleep(pause_s)

    async def _wait(self, replicas: Sequence[Replica]) -> None:
        """Returns when a request is due, or may be because something was appended."""
        now_s = self._clock.monotonic_s()
        dues = [
            one.followers.due_s(self._peer, self._lease_ms / 1000)
            for one in replicas
            if one.followers.sends_to(self._peer)
            or (one.followers.greets(self._peer) and not one.followers.is_greeted(self._peer))
        ]
        pause_s = max(_PAUSE_S_MIN, min([_IDLE_S, *(due - now_s for due in dues)]))
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self.wake.wait()
