"""Runs a sender for each other pod of the store."""

import asyncio

from qss_client.clock import Clock
from qss_core.model import Ordinal
from qss_store.replicas.peers.send_signal import SendSignal
from qss_store.replicas.registry import Registry
from qss_store.replicas.transfer.peer_sender import PeerSender
from qss_store.runtime.metrics import ReplicationMetrics
from qss_store.runtime.peer_client import Transport


class Senders:
    """The senders of one pod, by the other pod's ordinal."""

    def __init__(
        self,
        here: Ordinal,
        registry: Registry,
        signal: SendSignal,
        transport: Transport,
        clock: Clock,
        timeout_s: float,
        metrics: ReplicationMetrics,
    ) -> None:
        """Sends nothing before `run`; `timeout_s` limits each request to another pod."""
        signal.connect(self.wake, self.assigned)
        self._here = here
        self._registry = registry
        self._transport = transport
        self._clock = clock
        self._timeout_s = timeout_s
        self._metrics = metrics
        self._assigned = asyncio.Event()
        self._senders: dict[Ordinal, PeerSender] = {}

    def assigned(self) -> None:
        """Starts the senders that a new assignment needs."""
        self._assigned.set()
        self.wake()

    def wake(self) -> None:
        """Has the senders look for entries and watermarks to send."""
        for sender in self._senders.values():
            sender.wake.set()

    async def run(self) -> None:
        """Sends to all pods of the assignment, until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._assigned.clear()
                for pod in self._missing():
                    sender = PeerSender(
                        self._here,
                        pod,
                        self._registry,
                        self._transport,
                        self._clock,
                        self._timeout_s,
                        self._metrics,
                    )
                    self._senders[pod] = sender
                    group.create_task(sender.run(), name=f"send-to-{pod}")
                await self._assigned.wait()

    def _missing(self) -> list[Ordinal]:
        """Other pods that hold a replica whose active is here, and have no sender yet."""
        assignment = self._registry.assignment
        if assignment is None:
            return []
        wanted = {
            pod
            for replica in self._registry.replicas.values()
            for pod in replica.log.configuration.replicas
            if len(replica.log.configuration.replicas) > 1
        }
        return sorted(wanted - self._senders.keys() - {self._here})
