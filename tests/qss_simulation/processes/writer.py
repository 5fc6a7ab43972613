"""One driver of a streaming query: the client's own exchanges, over the simulated network."""

import asyncio
from random import Random  # noqa: TID251 seeded by the story.

from qss_client.http.answer import HttpAnswer
from qss_client.http.retries import RetryAt, RetryLimits, after_failure
from qss_client.writes import exchanges
from qss_client.writes.exchanges import Run
from qss_client.writes.steps import Exchange, Pause, PodRequest, Result
from qss_core.errors import (
    BatchClosedError,
    ChunkMissingError,
    OtherCheckpointError,
    StaleWriterError,
    StoreError,
)
from qss_core.model import StoreName
from qss_core.wire.messages import CommitAnswer, StoreMetadata, decode
from qss_simulation.history import Batch, Histories
from qss_simulation.parts.network import Network
from qss_simulation.parts.trace import Trace

WRITER = "writer"
_SPECULATES = 0.2
_GIVES_UP, _WHILE_COMMITTING = 0.05, 0.7
_ANSWER_S = 10.0  # A lost message is silence: the client's own 75 s only make the run longer.


class ExchangeRunner:
    """Runs exchanges as the client's shells do, with one deadline for their pauses."""

    def __init__(self, network: Network, random: Random, limits: RetryLimits) -> None:
        """`random` is the jitter of pauses."""
        self._network = network
        self._random = random
        self._limits = limits

    async def run(self, exchange: Exchange[Result]) -> Result:
        """The result of an exchange. Raises StoreError where it fails, or takes too long."""
        loop = asyncio.get_running_loop()
        began_s, attempt = loop.time(), 0
        try:
            step = next(exchange)
            while True:
                try:
                    if isinstance(step, Pause):
                        again = self._after(step.failure, attempt, loop.time() - began_s)
                        attempt += 1
                        await asyncio.sleep(again.wait_s)
                        step = exchange.send(again)
                    else:
                        step = exchange.send(await self._ask(step))
                except StoreError as error:
                    step = exchange.throw(error)
        except StopIteration as end:
            result: Result = end.value
            return result

    def _after(self, failure: StoreError, attempt: int, elapsed_s: float) -> RetryAt:
        again = after_failure(failure, attempt, elapsed_s, self._random.random(), self._limits)
        if again is None:
            raise failure
        return again

    async def _ask(self, request: PodRequest) -> HttpAnswer:
        timeout_s = min(request.timeout_s, _ANSWER_S)
        media = request.headers.get("Content-Type", "")
        body = await self._network.exchange(request.url, request.body or b"", timeout_s, media)
        return HttpAnswer(status=200, headers={}, body=body)


class Driver:
    """One run of a streaming query: opens, replays its last batch or not, and writes on."""

    def __init__(
        self,
        store: StoreName,
        pods: int,
        network: Network,
        random: Random,
        histories: Histories,
        trace: Trace,
        *,
        query: str,
        number: int,
        limits: RetryLimits,
    ) -> None:
        """`number` is the number of the run."""
        self._store = store
        self._pods = pods
        self._network = network
        self._random = random
        self._histories = histories
        self._trace = trace
        self._query = query
        self._run_id = f"run-{number}"
        self._runner = ExchangeRunner(network, random, limits)

    async def live(self, batches: int) -> int:
        """Writes up to so many batches; returns how many were acknowledged before it gave up."""
        written = 0
        try:
            metadata = await self._discover()
            run = await self._runner.run(
                exchanges.open_writer(
                    metadata,
                    WRITER,
                    query_id=self._query,
                    run_id=self._run_id,
                    open_id=f"{self._random.getrandbits(128):032x}",
                    take_over=True,
                )
            )
            last = run.opened.last_batch
            # A checkpoint lags by up to one batch: every second run replays the last one.
            replays = last is not None and self._random.random() < 0.5
            first = 0 if last is None else last if replays else last + 1
            for number in range(first, first + batches):
                await self._write(run, number)
                written += 1
                await asyncio.sleep(self._random.expovariate(1 / 0.05))
        except (StaleWriterError, OtherCheckpointError, ChunkMissingError) as error:
            self._trace.note("driver-fenced", error.code)
        except StoreError as error:
            self._trace.note("driver-gave-up", error.code)
        return written

    async def _discover(self) -> StoreMetadata:
        while True:
            host = f"pod-{self._random.randrange(self._pods)}"
            url = f"http://{host}/state/instances/{self._store}"
            try:
                return decode(await self._network.exchange(url, b"", 2.0), StoreMetadata)
            except StoreError:
                await asyncio.sleep(0.1)

    async def _write(self, run: Run, number: int) -> None:
        batch = Batch(run.opened.generation, number, self._run_id)
        position = {"flights": {"0": number}}
        history = self._histories.of(run.opened.store_id)
        history.begin(batch)
        if self._random.random() < 0.5:
            slices = batch.slices()
            answer = await self._runner.run(
                exchanges.write_batch(
                    run, number, slices, position=position, fingerprint=batch.fingerprint
                )
            )
        else:
            staged = await self._stage(run, batch)
            if self._random.random() < _GIVES_UP:
                await self._give_up(run, batch, staged)
            answer = await self._commit(run, batch, staged)
        self._trace.note("acknowledged", f"{batch} {answer.sequence}")
        history.acknowledge(
            batch, answer.sequence, self._network.now_s, replayed=answer.already_applied
        )

    async def _commit(self, run: Run, batch: Batch, staged: list[exchanges.Staged]) -> CommitAnswer:
        exchange = exchanges.commit(
            run,
            batch.number,
            staged,
            position={"flights": {"0": batch.number}},
            fingerprint=batch.fingerprint,
        )
        return await self._runner.run(exchange)

    async def _give_up(self, run: Run, batch: Batch, staged: list[exchanges.Staged]) -> None:
        """Gives the batch up, at times while its commit is on its way; then the run ends."""
        commit = asyncio.ensure_future(self._commit(run, batch, staged))
        if self._random.random() < _WHILE_COMMITTING:
            await asyncio.wait([commit], timeout=self._random.expovariate(1 / 0.02))
        commit.cancel()
        await asyncio.gather(commit, return_exceptions=True)
        answer = await self._runner.run(exchanges.abort(run, batch.number))
        self._trace.note("given-up", f"{batch} {'decided' if answer.decided else 'dropped'}")
        if not answer.decided:
            self._histories.of(run.opened.store_id).give_up(batch)
        raise StaleWriterError("the run gave its batch up")

    async def _stage(self, run: Run, batch: Batch) -> list[exchanges.Staged]:
        """Stages by up to three tasks at once."""
        tasks = self._random.randint(1, 3)
        try:
            staged = await asyncio.gather(
                *(self._stage_task(run, batch, task, tasks) for task in range(tasks))
            )
        except BatchClosedError:
            return []  # It was applied: the commit says so.
        return [one for task in staged for one in task]

    async def _stage_task(
        self, run: Run, batch: Batch, task: int, tasks: int
    ) -> list[exchanges.Staged]:
        """Stages by one or two attempts at once, as a task that speculates does."""
        slices = batch.slices(task, tasks)
        attempts = 1 + (self._random.random() < _SPECULATES)
        staged = await asyncio.gather(
            *(
                self._runner.run(exchanges.stage(run, batch.number, f"t{task}-{attempt}", slices))
                for attempt in range(attempts)
            )
        )
        return self._random.choice(staged)
