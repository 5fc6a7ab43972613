"""Finishes the coordinator's tasks, also when the client of a task has gone.

A client without an answer sends its commit again: the repeat waits for the first commit, and keeps
no memory. `RecentBatches` keeps the reports of finished batches, for people.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from qss_core.model import WriterEpoch
from qss_core.wire.discovery import BatchReport
from qss_core.wire.messages import CommitAnswer, CommitRequest, Decision, rows_of
from qss_store.runtime.request_memory import MemoryShare

Answer = TypeVar("Answer")
_BATCHES_KEPT = 1000
_Run = tuple[str, WriterEpoch]
_Commit = tuple[int, CommitRequest, "asyncio.Task[CommitAnswer]"]


class CoordinatorTasks:
    """The tasks of one coordinator."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[Any]] = set()
        self._commits: dict[_Run, _Commit] = {}

    def run(self, work: Coroutine[Any, Any, Answer]) -> "asyncio.Task[Answer]":
        """Runs work to its end, also when its client goes."""
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    def commit(
        self,
        run: _Run,
        batch: int,
        request: CommitRequest,
        work: Callable[[], Coroutine[Any, Any, CommitAnswer]],
        memory: MemoryShare | None,
    ) -> Awaitable[CommitAnswer]:
        """Waits for a commit, which keeps its `memory`; a repeat releases its own `memory`."""
        held = self._commits.get(run)
        if held is not None and held[:2] == (batch, request) and not held[-1].done():
            if memory is not None:
                memory.close()
            return _of_a_repeat(held[-1])
        task = self.run(work())
        if held is None or held[-1].done():
            self._commits[run] = (batch, request, task)
        kept = None if memory is None else memory.hand_over()

        def ended(_: object) -> None:
            if run in self._commits and self._commits[run][-1] is task:
                del self._commits[run]
            if kept is not None:
                kept.close()

        task.add_done_callback(ended)
        return asyncio.shield(task)

    def _forget(self, task: "asyncio.Task[Any]") -> None:
        self.tasks.discard(task)
        if not task.cancelled():
            task.exception()  # The client has got it, or has gone.


async def _of_a_repeat(first: "asyncio.Task[CommitAnswer]") -> CommitAnswer:
    answer = await asyncio.shield(first)
    return msgspec.structs.replace(answer, already_applied=True)


class RecentBatches:
    """The newest batches that all partitions have applied, in order, up to 1000.

    It keeps batches that this pod was asked to commit, also where the request has ended before.
    """

    def __init__(self) -> None:
        self._kept: deque[BatchReport] = deque(maxlen=_BATCHES_KEPT)
        self._begun: tuple[Decision, float] | None = None

    def begin(self, decision: Decision, asked_s: float) -> None:
        """Notes the decision that will be logged next; `asked_s` is the time of its request."""
        self._begun = decision, asked_s

    def end(self, decision: Decision, now_s: float) -> None:
        """Keeps a batch that all partitions have applied now, once."""
        begun, asked_s = self._begun or (None, 0.0)
        if begun is None or _identity(begun) != _identity(decision):
            return  # It was decided on another pod, or before this one has started.
        self._begun = None
        self._keep(decision, now_s - asked_s)

    def _keep(self, decision: Decision, latency_s: float) -> None:
        self._kept.append(
            BatchReport(
                sequence=decision.sequence,
                writer=decision.writer,
                batch=decision.batch,
                rows=rows_of(decision),
                committed_at_ms=decision.wall_time_ms,
                latency_ms=round(latency_s * 1000, 3),
            )
        )

    def after(self, sequence: int) -> tuple[BatchReport, ...]:
        """The kept batches with a higher sequence."""
        return tuple(one for one in self._kept if one.sequence > sequence)


def _identity(decision: Decision) -> tuple[str, int, int, int, int]:
    """Tells decisions apart: after one that was refused, the next one gets the same sequence."""
    run = decision.writer, decision.generation, decision.writer_epoch
    return *run, decision.batch, decision.sequence
