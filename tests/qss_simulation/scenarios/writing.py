"""The lines of writers and readers: a writer does one step of its protocol at a time.

A reader that goes on, or asks for a fresh state, gets no older one than it was told of.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

from qss_client.http.retries import RetryLimits
from qss_client.writes import exchanges
from qss_client.writes.exchanges import Run, Staged
from qss_core.errors import StoreError
from qss_core.wire.messages import CommitAnswer, StoreMetadata, decode
from qss_simulation.history import Batch, History, HistoryError
from qss_simulation.processes.reader import CLOCKS, PartitionRows, read_partition
from qss_simulation.processes.writer import WRITER, ExchangeRunner
from qss_simulation.scenarios.script import ScriptError
from qss_simulation.scenarios.stage import Stage

_DEADLINE_S = 40.0
_READ_S = 2.0
_LOOK_S = 0.02


@dataclass(slots=True)
class _Writer:
    """A run of a query, and what it has staged of each batch."""

    run: Run
    run_id: str
    next: int
    attempts: int = 0  # To stage a batch; two of them may go on at once.
    staged: dict[int, list[Staged]] = field(default_factory=dict)


class Writing:
    """Each method is a line; its pattern is in LINES."""

    def __init__(self, stage: Stage) -> None:
        """At first no run has opened."""
        self._stage = stage
        self._world = stage.world
        self._writers: dict[str, _Writer] = {}
        self._seen: dict[str, PartitionRows] = {}  # By partition, in the last read.
        self._runner = ExchangeRunner(
            self._world.network,
            self._world.random("writers"),
            RetryLimits(deadline_s=_DEADLINE_S),
        )

    async def write_some(self, batches: str) -> None:
        """A run of its own opens, and writes."""
        name = f"run-{len(self._writers) + 1}"
        await self.open(name, "query", None)
        await self.write(name, batches)

    async def open(self, name: str, query: str, take_over: str | None) -> None:
        """A run opens; a name that has opened before gets another run id."""
        metadata = await self._discover()
        run_id = f"{name}-{len(self._writers) + 1}"
        exchange = exchanges.open_writer(
            metadata,
            WRITER,
            query_id=query,
            run_id=run_id,
            open_id=f"{self._world.random(run_id).getrandbits(128):032x}",
            take_over=take_over is not None,
        )
        run = await self._runner.run(exchange)
        last = run.opened.last_batch
        self._writers[name] = _Writer(run, run_id, 0 if last is None else last + 1)

    async def write(self, name: str, batches: str, pause_s: str | None = None) -> None:
        """Stages and commits the next batches; every second one is sent with its commit."""
        writer = self._of(name)
        for _ in range(int(batches)):
            await asyncio.sleep(float(pause_s or 0))
            number = writer.next
            if number % 2:
                await self.carry(name, str(number))
            else:
                await self.stage(name, str(number))
                await self.commit(name, str(number))

    async def carry(self, name: str, batch: str) -> None:
        """Commits a small batch with its rows."""
        writer, one = self._batch(name, batch)
        exchange = exchanges.write_batch(
            writer.run,
            one.number,
            one.slices(),
            position=_position(one),
            fingerprint=one.fingerprint,
        )
        self._told(writer, one, await self._runner.run(exchange))

    async def stage(self, name: str, batch: str) -> None:
        """Stages a batch by one task."""
        writer, one = self._batch(name, batch)
        writer.attempts += 1
        task = f"t0-{writer.attempts}"
        exchange = exchanges.stage(writer.run, one.number, task, one.slices())
        writer.staged[one.number] = await self._runner.run(exchange)

    async def commit(self, name: str, batch: str) -> None:
        """Commits what was staged of a batch."""
        await self._commit(name, batch, None)

    async def commit_other(self, name: str, batch: str) -> None:
        """Commits a batch that has read other inputs than it had before."""
        await self._commit(name, batch, "other")

    async def _commit(self, name: str, batch: str, fingerprint: str | None) -> None:
        writer, one = self._batch(name, batch)
        exchange = exchanges.commit(
            writer.run,
            one.number,
            writer.staged.get(one.number, []),
            position=_position(one),
            fingerprint=fingerprint or one.fingerprint,
        )
        self._told(writer, one, await self._runner.run(exchange))

    async def abort(self, name: str, batch: str) -> None:
        """Gives a batch up, which is not decided."""
        writer, one = self._batch(name, batch)
        answer = await self._runner.run(exchanges.abort(writer.run, one.number))
        if answer.decided:
            raise ScriptError(f"batch {one} is decided")
        self._history(writer).give_up(one)

    async def abort_decided(self, name: str, batch: str) -> None:
        """Gives a batch up that is decided already."""
        writer, one = self._batch(name, batch)
        if not (await self._runner.run(exchanges.abort(writer.run, one.number))).decided:
            raise ScriptError(f"batch {one} was not decided")

    async def end(self, name: str) -> None:
        """The run's process ends; what it sent is on its way."""
        task = self._stage.background.pop(name)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def read(self, partition: str, name: str) -> None:
        """A read of a pod's replica succeeds; its rows are checked."""
        await self._read(partition, name, of_active=False)

    async def read_active(self, partition: str, name: str) -> None:
        """A read that asks for the active succeeds at a pod, and shows all that was told."""
        acknowledged = max(self._world.histories.present.acknowledged.values(), default=0)
        found = await self._read(partition, name, of_active=True)
        if found.sequence < acknowledged:
            raise ScriptError(
                f"the active shows {found.sequence}, and {acknowledged} was acknowledged"
            )

    async def read_since(self, partition: str, name: str) -> None:
        """A read of a state that has all that was acknowledged so long before."""
        until_s = self._world.loop.now_s - _READ_S * CLOCKS
        found = await self._read(partition, name, of_active=False, is_fresh=True)
        told = self._world.histories.present.told
        acknowledged = max((one for at_s, one in told if at_s <= until_s), default=0)
        if found.sequence < acknowledged:
            raise ScriptError(f"it shows {found.sequence}, and {acknowledged} was acknowledged")

    async def read_on(self, partition: str, name: str) -> None:
        """A read by a reader that has seen what the last line with a read of the partition saw."""
        await self._read(partition, name, of_active=False, since=self._seen[partition])

    async def keep_reading(self, partition: str, name: str, for_s: str) -> None:
        """Reads a pod's replica again and again; at one sequence it always has the same batches."""
        end_s, shown = self._world.loop.now_s + float(for_s), dict[int, set[str]]()
        while self._world.loop.now_s < end_s:
            with suppress(StoreError):
                found = await self._read(partition, name, of_active=False)
                if shown.setdefault(found.sequence, set(found.rows)) != set(found.rows):
                    raise HistoryError(
                        f"partition {partition} shows other batches at sequence {found.sequence}"
                    )
            await asyncio.sleep(_LOOK_S)

    async def _read(
        self,
        partition: str,
        name: str,
        *,
        of_active: bool,
        is_fresh: bool = False,
        since: PartitionRows | None = None,
    ) -> PartitionRows:
        found = await read_partition(
            self._world.network,
            int(partition),
            self._stage.number(name),
            _READ_S,
            since,
            of_active=of_active,
            stale_s=_READ_S if is_fresh else None,
        )
        if since is not None and found.sequence < since.sequence:
            raise ScriptError(f"it shows {found.sequence}, and {since.sequence} was seen")
        self._seen[partition] = found
        self._world.histories.of(found.store_id).check_rows(int(partition), found.rows)
        return found

    def _of(self, name: str) -> _Writer:
        if name not in self._writers:
            raise ScriptError(f"no run {name} has opened")
        return self._writers[name]

    def _batch(self, name: str, batch: str) -> tuple[_Writer, Batch]:
        writer = self._of(name)
        number = writer.next if batch == "the next batch" else int(batch.removeprefix("batch "))
        one = Batch(writer.run.opened.generation, number, writer.run_id)
        self._history(writer).begin(one)
        return writer, one

    def _told(self, writer: _Writer, one: Batch, answer: CommitAnswer) -> None:
        self._world.trace.note("acknowledged", f"{one} {answer.sequence}")
        self._history(writer).acknowledge(
            one, answer.sequence, self._world.loop.now_s, replayed=answer.already_applied
        )
        writer.next = max(writer.next, one.number + 1)

    def _history(self, writer: _Writer) -> History:
        return self._world.histories.of(writer.run.opened.store_id)

    async def _discover(self) -> StoreMetadata:
        for turn in range(10**6):
            url = f"http://pod-{turn % self._world.pods}/state/instances/{self._world.store}"
            try:
                return decode(await self._world.network.exchange(url, b"", 2.0), StoreMetadata)
            except StoreError:
                await asyncio.sleep(0.1)
        raise AssertionError


def _position(batch: Batch) -> dict[str, dict[str, int]]:
    return {"flights": {"0": batch.number}}


_BATCH = r"(batch \d+|the next batch)"
LINES: dict[str, str] = {
    r"write (\d+) batch(?:es)?": "write_some",
    r"(\w+) opens as (\w+)( taking over)?": "open",
    r"(\w+) writes (\d+) batch(?:es)?(?: every ([\d.]+) s)?": "write",
    rf"(\w+) carries {_BATCH}": "carry",
    rf"(\w+) stages {_BATCH}": "stage",
    rf"(\w+) commits {_BATCH}": "commit",
    rf"(\w+) commits {_BATCH} with other inputs": "commit_other",
    rf"(\w+) gives {_BATCH} up": "abort",
    rf"(\w+) gives {_BATCH} up too late": "abort_decided",
    r"(\w+) dies": "end",
    r"read (\d) at (.+)": "read",
    r"keep reading (\d) at (.+) for ([\d.]+) s": "keep_reading",
    r"read the active of (\d) at (.+)": "read_active",
    r"read (\d) further at (.+)": "read_on",
    r"read a fresh state of (\d) at (.+)": "read_since",
}
