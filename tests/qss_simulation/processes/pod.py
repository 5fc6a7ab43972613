"""One process of a store pod: the product's services, without HTTP.

It starts as `qss_store.__main__` does and runs the same tasks. Requests come from the simulated
network; they do what the handlers of the internal port do.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from qss_client.chunks.carried_batch import BATCH_MEDIA, decode_batch
from qss_core.errors import MalformedRequestError
from qss_core.model import Ordinal, PartitionId, StoreAssignment, StoreName, WriterEpoch
from qss_core.queries.parameters import ReadOptions
from qss_core.wire.losses import AcceptLossRequest, ConfigurationsRequest, SequencesRequest
from qss_core.wire.messages import (
    AbortPartitionsRequest,
    AbortRequest,
    CommitPartitionsRequest,
    CommitRequest,
    OpenWriterRequest,
    PrepareRequest,
    ResolveRequest,
    decode,
    encode,
    metadata_of,
)
from qss_core.wire.retirement import RetireRequest
from qss_simulation.history import HistoryError
from qss_simulation.parts.clocks import MachineClock
from qss_simulation.parts.disk import SimulatedDisk
from qss_simulation.parts.network import Network, Request, SimulatedTransport
from qss_simulation.parts.store_type import extensions_of, wrong_index_rows
from qss_store.replicas.migration_pacing import Migrator
from qss_store.replicas.pod import Pod
from qss_store.replicas.pod_context import PodConfig
from qss_store.runtime.settings import Settings
from qss_store.transactions.commands import Stage
from qss_store.writes.loss_acceptance import LossAcceptance
from qss_store.writes.pod_services import build_pod
from qss_testing.clients.near_peers import answer_of_replicas
from qss_testing.clients.readings import open_reading

_FORMAT = "Timestamped"  # Readers see rows in it, whatever the store's format is by now.
_TIME_BYTES = 8
_Answer = Awaitable[object] | object


class PodProcess:
    """From the start of a process to its end, which nothing announces."""

    def __init__(
        self,
        store: StoreName,
        ordinal: int,
        volume: Path,
        disk: SimulatedDisk,
        network: Network,
        clock: MachineClock,
        settings: Settings,
        incarnation: str,
        index_version: int,
        resource_uid: str,
    ) -> None:
        """Composes the pod; make it in its own node."""
        config = PodConfig(
            store=store,
            ordinal=Ordinal(ordinal),
            directory=volume,
            incarnation=incarnation,
            resource_uid=resource_uid,
            settings=settings,
            extensions=extensions_of(index_version),
            # Its databases are not files; the story collects the garbage of its whole run.
            free_databases=lambda: None,
        )
        transport = SimulatedTransport(network)
        self.services = build_pod(config, transport, clock, disk.open, disk.salvage)
        self._losses = LossAcceptance(self.services.pod, self.services.comparison)
        self._messages = self._handlers()

    @property
    def pod(self) -> Pod:
        """The pod of this process."""
        return self.services.pod

    def may_answer_for(self, partition: int) -> bool:
        """Whether this pod may answer as the active of a partition."""
        replica = self.pod.registry.replicas.get(PartitionId(partition))
        return replica is not None and replica.acting.is_acting

    def shown_sequence(self, partition: int) -> int:
        """The sequence that readers of a partition's replica see; 0 where they see none."""
        replica = self.pod.registry.replicas.get(PartitionId(partition))
        return 0 if replica is None or replica.view is None else replica.view.sequence

    async def run(self, network: Network, host: str) -> None:
        """Serves until the node dies."""
        services, pod = self.services, self.pod
        pod.remember()
        network.listen(host, self.handle)
        await pod.start(compares=True)
        await services.comparison.first()
        works = [
            services.sweeper.run(),
            services.comparison.run(),
            pod.keep_sync_marks(),
            Migrator(pod, services.settings).run(),
            services.senders.run(),
        ]
        if services.settings.scrub_bytes_per_s:
            works.append(self._compare_rows())
        try:
            async with asyncio.TaskGroup() as group:
                for work in works:
                    group.create_task(work)
        except ExceptionGroup as several:
            raise several.exceptions[0] from None

    async def _compare_rows(self) -> None:
        """Compares the rows of this pod's actives with those of their standbys: no rows differ."""
        while True:
            await asyncio.sleep(self.services.settings.scrub_rest_s)
            for replica in [*self.pod.registry.replicas.values()]:
                if replica.view is not None and not replica.health.has_failed:
                    await self.services.row_comparison.compare(replica)
                found = replica.health.unlike or replica.health.damage
                if found is not None:
                    raise HistoryError(f"replicas of one partition have other rows: {found}")

    async def handle(self, request: Request) -> bytes:
        """The body of the answer. Raises StoreError."""
        parts = urlsplit(request.path)
        names = parts.path.split("/")
        if names[0] == "changelog":
            return await self._of_a_writer(names[2:], parts.query, request)
        if names[:2] == ["state", "instances"]:
            return encode(metadata_of(self.pod.registry.check_store(names[2])))
        if names[0] == "read":
            return self._read(int(names[1]), parse_qs(parts.query))
        if names[0] == "replication":
            return await answer_of_replicas(self.services, parts.path, request.body)
        return await self._messages[parts.path](request.body)

    def _read(self, partition: int, given: dict[str, list[str]]) -> bytes:
        """The rows of a partition, as a scan of it shows them.

        They are not older than the sequence `since` that the reader saw of this store.
        """
        store_id = self.pod.registry.placed().definition.store_id
        since = int(given["since"][0]) if given.get("storeId") == [store_id] else 0
        options = ReadOptions(
            require_active="active" in given,
            max_staleness_s=float(given["stale"][0]) if "stale" in given else None,
        )
        view = open_reading(self.pod, options, _FORMAT, partition, since).view
        if wrong := wrong_index_rows(view.rows, self.pod.indexing, _TIME_BYTES):
            raise HistoryError(f"partition {partition} has other index rows than rows: {wrong}")
        rows = [
            (key.decode(), value[_TIME_BYTES:].decode(), int.from_bytes(value[:_TIME_BYTES], "big"))
            for key, value in view.rows.scan()
        ]
        shown = {"storeId": store_id, "sequence": view.sequence, "rows": rows}
        return msgspec.json.encode(shown)

    # --- Pods and the operator

    def _handlers(self) -> dict[str, Callable[[bytes], Awaitable[bytes]]]:
        services = self.services

        def of(kind: type[Any], work: Callable[[Any], _Answer]) -> Callable[[bytes], Any]:
            async def answer(body: bytes) -> bytes:
                found = work(decode(body, kind))
                return encode(await found if isinstance(found, Awaitable) else found)

            return answer

        return {
            "transactions/prepare": of(PrepareRequest, services.participant.prepare),
            "transactions/commit": of(CommitPartitionsRequest, services.participant.commit),
            "transactions/abort": of(AbortPartitionsRequest, services.participant.abort),
            "transactions/resolve": of(ResolveRequest, services.coordinator.resolve),
            "transactions/sequences": of(SequencesRequest, services.comparison.answer),
            "transactions/configurations": of(
                ConfigurationsRequest, services.comparison.configurations
            ),
            "control/replicas": of(dict, lambda _: self.pod.report()),
            "control/assignment": of(StoreAssignment, self._assign),
            "control/accept-loss": of(AcceptLossRequest, self._accept_loss),
            "control/retire": of(RetireRequest, self._retire),
        }

    async def _assign(self, assignment: StoreAssignment) -> object:
        report = await self.pod.assign(assignment)
        self.services.coordinator.driver.go_on()
        return report

    async def _retire(self, request: RetireRequest) -> object:
        await self.pod.retire(request)
        return self.pod.report()

    async def _accept_loss(self, request: AcceptLossRequest) -> object:
        await self._losses.accept(request)
        self.services.coordinator.driver.go_on()
        return self.pod.report()

    # --- Writers

    async def _of_a_writer(self, names: list[str], query: str, request: Request) -> bytes:
        """`names` are those of the path after `changelog/stores`."""
        self.pod.registry.check_store(names[0])
        given = parse_qs(query)
        self.pod.registry.check_store_id(given["storeId"][0])
        match names[1:]:
            case ["writers", writer]:
                opens = decode(request.body, OpenWriterRequest)
                return encode(await self.services.coordinator.open(writer, opens))
            case ["writers", writer, epoch, "renew"]:
                self.services.coordinator.writers.renew(writer, WriterEpoch(int(epoch)))
                return b'{"closesAfterS": 1}'
            case ["writers", writer, epoch, "batches", batch, *what]:
                run = (writer, WriterEpoch(int(epoch)), int(batch))
                return encode(await self._of_a_batch(what, run, given, request))
        raise MalformedRequestError(f"no such path: {request.path}")

    async def _of_a_batch(
        self,
        what: list[str],
        run: tuple[str, WriterEpoch, int],
        given: dict[str, list[str]],
        request: Request,
    ) -> object:
        coordinator, participant = self.services.coordinator, self.services.participant
        writer, epoch, batch = run
        match what:
            case ["commit"] if request.media == BATCH_MEDIA:
                message, chunk = decode_batch(request.body)
                rows = tuple(participant.slices_of(chunk))
                await participant.check_rows(rows)
                return await coordinator.commit(writer, epoch, batch, message, rows)
            case ["commit"]:
                message = decode(request.body, CommitRequest)
                return await coordinator.commit(writer, epoch, batch, message)
            case ["abort"]:
                aborts = decode(request.body, AbortRequest)
                return await coordinator.abort(writer, epoch, batch, aborts)
            case ["chunks", chunk_id]:
                slices = participant.slices_of(request.body)
                await participant.check_rows(slices)
                stage = Stage(
                    writer=writer,
                    generation=int(given["generation"][0]),
                    batch=batch,
                    writer_epoch=epoch,
                    chunk=chunk_id,
                )
                return await participant.stage(stage, slices)
        raise MalformedRequestError(f"no such path: {request.path}")
