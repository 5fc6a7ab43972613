"""Writers of one pod that do each batch in the reference, too."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from qss_client.chunks.carried_batch import BATCH_MEDIA, encode_batch
from qss_core.wire.messages import ChunkReference, CommitRequest
from qss_testing.clients.http import Answer
from qss_testing.pods.one_pod import OnePod
from qss_testing.pods.stores import Put, slice_of
from qss_testing.pods.write_cluster import Writer
from qss_testing.reference.store_reference import Chunk, Reference

Puts = Mapping[int, list[Put]]
TICK_S = 60.0


@dataclass(frozen=True)
class _Sent:
    """A commit as it was sent."""

    path: str
    body: bytes
    media: str


@dataclass
class ModelWriter:
    """One writer; the reference repeats each of its actions."""

    pod: OnePod
    reference: Reference
    name: str
    generation: int = 0
    epoch: int = 0  # 0: it has no open run.
    batch: int = 0
    runs: int = 0
    chunks: int = 0
    last: _Sent | None = field(default=None)

    @property
    def _writer(self) -> Writer:
        return self.pod.cluster.writer(name=self.name)

    @property
    def _path(self) -> str:
        return f"{self._writer.path}/{self.epoch}/batches/{self.batch}"

    # --- Runs

    async def open(self, *, takes_over: bool = False) -> int | None:
        """Opens a new run, with `takes_over` of a new query; returns the last decided batch."""
        self.runs += 1
        generation = self.generation + 1 if takes_over or not self.generation else self.generation
        answer = await self._writer.open(
            f"run-{self.runs}", f"query-{generation}", takeOver=generation > self.generation
        )
        opened = answer.json()
        assert opened["generation"] == generation
        assert opened["writerEpoch"] > self.epoch
        if generation > self.generation:
            self.batch = 0
        self.generation, self.epoch = generation, opened["writerEpoch"]
        # After its answer it makes the partitions drop the chunks of older runs.
        await asyncio.gather(*self.pod.cluster.pods[0].coordination.tasks)
        self.reference.abort(self.name, self.epoch - 1)
        last: int | None = opened["lastBatch"]
        return last

    async def opened(self) -> None:
        """Opens a run if there is none."""
        if not self.epoch:
            await self.open()

    async def abort(self) -> None:
        await self.opened()
        answer = await self._writer.abort(self.epoch, self.batch, self.generation)
        assert answer.json() == {"decided": False}
        self.reference.abort(self.name, self.epoch)
        self.epoch = 0

    # --- Batches

    async def stage(self, task: int, attempt: int, puts: Puts) -> None:
        """Stages a chunk of the open batch."""
        await self.opened()
        self.pod.clock.now_s += TICK_S
        self.chunks += 1
        chunk = self._chunk(f"t{task}", attempt, f"{self.epoch}.t{task}a{attempt}-{self.chunks}.0")
        await self._send_chunk(chunk.name, puts)
        for number, rows in puts.items():
            self.reference.partitions[number].staged.append(replace(chunk, puts=rows))

    async def stage_again(self) -> None:
        """Stages the chunks of the open batch again, as if their answers were lost."""
        await self.opened()
        for name, puts in self._open_chunks().items():
            await self._send_chunk(name, puts)

    async def _send_chunk(self, name: str, puts: Puts) -> None:
        parameters = f"generation={self.generation}"
        answer = await self._writer.put(
            self.epoch, self.batch, name, self._body(puts), parameters=parameters
        )
        results = answer.json()["partitions"]
        assert len(results) == len(puts)
        assert not any(one["failure"] for one in results.values()), results

    def _chunk(self, task: str, attempt: int, name: str) -> Chunk:
        """The members that all parts of a chunk share, at this time."""
        ordinal = (self.generation, self.batch)
        time_ms = self.pod.clock.wall_ms()
        return Chunk(self.name, self.epoch, ordinal, task, attempt, name, [], time_ms)

    def _body(self, puts: Puts) -> bytes:
        definition = self.reference.definition
        return b"".join(bytes(slice_of(definition, p, rows).data) for p, rows in puts.items())

    def _open_chunks(self) -> dict[str, dict[int, list[Put]]]:
        """The chunks that this run has staged of its batch, in order of their arrival."""
        found: dict[str, dict[int, list[Put]]] = {}
        for number, partition in enumerate(self.reference.partitions):
            for one in partition.staged:
                if (one.writer, one.epoch) == (self.name, self.epoch):
                    found.setdefault(one.name, {})[number] = one.puts
        return dict(sorted(found.items(), key=lambda item: int(item[0].split("-")[1][:-2])))

    def winners(self, *, newest: bool, reverse: bool) -> list[str]:
        """The chunks of one attempt of each task, in the order of the commit."""
        of_task: dict[str, set[int]] = {}
        chunks = self._open_chunks()
        attempts = {name: _task_and_attempt(name) for name in chunks}
        for task, attempt in attempts.values():
            of_task.setdefault(task, set()).add(attempt)
        choose = max if newest else min
        wanted = {(task, choose(some)) for task, some in of_task.items()}
        listed = [name for name in chunks if attempts[name] in wanted]
        return listed[::-1] if reverse else listed

    async def commit(self, chunks: Sequence[str], *, replaces: bool) -> None:
        """Commits some of the staged chunks."""
        await self.opened()
        staged = self._open_chunks()
        references: dict[str, tuple[ChunkReference, ...]] = {}
        puts: dict[int, list[Put]] = {}
        for name in chunks:
            for number, rows in staged[name].items():
                piece = slice_of(self.reference.definition, number, rows)
                one = ChunkReference(id=name, records=piece.records, checksum=piece.checksum)
                references[str(number)] = (*references.get(str(number), ()), one)
                puts.setdefault(number, []).extend(rows)
        request = self._request(references, replaces=replaces)
        self.pod.clock.now_s += TICK_S
        await self._decide(
            _Sent(self._path, msgspec.json.encode(request), "application/json"),
            puts,
            replaces=replaces,
        )

    async def carry(self, puts: Puts, *, replaces: bool) -> None:
        """Commits a small batch with its rows."""
        await self.opened()
        self.pod.clock.now_s += TICK_S
        await self._decide(self._carried(puts, replaces=replaces), puts, replaces=replaces)

    async def carry_through_a_crash(
        self, puts: Puts, writes: int, *, replaces: bool, loses_power: bool
    ) -> None:
        """As `carry`, with a crash of the pod; the next run finds out the result."""
        await self.opened()
        self.pod.clock.now_s += TICK_S
        sent = self._carried(puts, replaces=replaces)
        await self.pod.crash_during(self._send(sent), writes, loses_power=loses_power)
        last = await self.open()
        assert last in (None, self.batch - 1, self.batch)
        if last != self.batch:
            sent = self._carried(puts, replaces=replaces)
        await self._decide(sent, puts, replaces=replaces, is_known=last == self.batch)

    def _carried(self, puts: Puts, *, replaces: bool) -> _Sent:
        slices = [slice_of(self.reference.definition, p, rows) for p, rows in puts.items()]
        body = encode_batch(self._request({}, replaces=replaces), slices)
        return _Sent(self._path, body, BATCH_MEDIA)

    def _request(
        self, chunks: dict[str, tuple[ChunkReference, ...]], *, replaces: bool
    ) -> CommitRequest:
        return CommitRequest(
            generation=self.generation,
            chunks=chunks,
            position=self._read(),
            fingerprint=f"{self.generation}-{self.batch}",
            replace=replaces,
        )

    def _read(self) -> dict[str, dict[str, int]]:
        """The position: an input that all writers share, and one of its own."""
        return {name: {"0": self.reference.sequence} for name in ("in", f"in-{self.name}")}

    async def _decide(
        self, sent: _Sent, puts: Puts, *, replaces: bool, is_known: bool = False
    ) -> None:
        position = self._read()
        # The run that is open now asks for the result of a decided batch.
        self.last = _Sent(self._path, sent.body, sent.media)
        answer = (await self._send(self.last)).json()
        self.reference.commit(self._chunk("", 0, ""), puts, position, replaces=replaces)
        assert answer["sequence"] == self.reference.sequence, answer
        assert answer["alreadyApplied"] is is_known
        assert answer["position"] == self.reference.position
        self.batch += 1

    async def _send(self, sent: _Sent) -> Answer:
        headers = {"Content-Type": sent.media}
        path = self._writer.named(f"{sent.path}/commit")
        return await self._writer.api.send("POST", path, sent.body, headers)

    async def replay(self) -> None:
        """Sends the last commit again, as if its answer was lost; it changes nothing."""
        if self.last is not None and self.epoch and f"/{self.epoch}/" in self.last.path:
            answer = (await self._send(self.last)).json()
            assert answer["alreadyApplied"]


def _task_and_attempt(name: str) -> tuple[str, int]:
    task, attempt = name.split(".")[1].split("-")[0].split("a")
    return task, int(attempt)
