"""Entries between their append and their apply, with the futures of their outcomes."""

import asyncio
from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

from qss_core.errors import BatchClosedError, ChunkMismatchError, StoreError
from qss_core.model import Offset
from qss_core.wire.messages import PartitionCommit
from qss_store.replicas.changelog.changelog import Changelog
from qss_store.replicas.views.decoded_rows import DecodedEntries, RecordBatches
from qss_store.transactions.commands import Barrier, Command, Commit, Decide, LoggedCommand, Stage
from qss_store.transactions.machine import Outcome
from qss_store.transactions.staged import StagedChunk, is_closed_by

_DECISION = "decision"


class _Pending(NamedTuple):
    entry: LoggedCommand
    outcome: "asyncio.Future[Outcome]"


class PendingEntries:
    """The entries of one log between their append and their apply."""

    def __init__(
        self,
        changelog: Changelog,
        recent: DecodedEntries,
        appended: asyncio.Event,
        send: Callable[[], None],
    ) -> None:
        """Sets `appended` at each entry; `recent` keeps rows for the commits that read them.

        Calls `send` at each entry that other replicas get.
        """
        self._send = send
        self._changelog = changelog
        self._recent = recent
        self._appended = appended
        self._by_offset: dict[Offset, _Pending] = {}
        self._by_name: dict[Hashable, _Pending] = {}

    def append(
        self, command: Command, payload: bytes | memoryview = b"", decoded: RecordBatches = ()
    ) -> "asyncio.Future[Outcome]":
        """Appends an entry after the Barrier of its epoch; the future gets the outcome.

        Raises DiskFullError; then no entry was appended.
        """
        self.append_owed_barrier()
        return self._append(command, payload, decoded)

    def append_owed_barrier(self) -> None:
        """Appends the Barrier of the epoch where it is missing."""
        if self._changelog.owes_barrier:
            self._append(Barrier(), b"", ())

    def _append(
        self, command: Command, payload: bytes | memoryview, decoded: RecordBatches
    ) -> "asyncio.Future[Outcome]":
        offset, entry = self._changelog.append(command, payload)
        self._recent.keep(offset, decoded)
        pending = _Pending(entry, asyncio.get_running_loop().create_future())
        self._by_offset[offset] = pending
        if (name := _name_of(command)) is not None:
            self._by_name[name] = pending
        self._appended.set()
        if len(self._changelog.log.configuration.replicas) > 1:
            self._send()
        return pending.outcome

    def entry(self, offset: Offset) -> LoggedCommand | None:
        """The entry at an offset; None for an entry that an earlier process appended."""
        pending = self._by_offset.get(offset)
        return None if pending is None else pending.entry

    def copy_of(self, command: Command) -> "asyncio.Future[Outcome] | None":
        """The outcome of a pending copy of a Stage or a Commit; None where there is none.

        A repeat waits for the copy, as a second append would write all rows again. Raises
        ChunkMismatchError where the pending chunk of that id has other rows.
        """
        name = _name_of(command)
        pending = None if name is None else self._by_name.get(name)
        if pending is None:
            return None
        logged = pending.entry.command
        if isinstance(command, Stage) and isinstance(logged, Stage) and command != logged:
            raise ChunkMismatchError(
                f"chunk {command.chunk} is being staged with other rows: give every attempt its "
                "own id"
            )
        return pending.outcome

    @property
    def commits(self) -> list[PartitionCommit]:
        """The commits that are pending: the state does not have them yet."""
        commands = (pending.entry.command for pending in self._by_name.values())
        return [command.commit for command in commands if isinstance(command, Commit)]

    def bytes_beside(self, chunks: Iterable[StagedChunk]) -> int:
        """Payload bytes of the chunks that no pending commit will apply or drop."""
        commits = self.commits
        return sum(
            chunk.payload_bytes
            for chunk in chunks
            if not any(is_closed_by(commit, chunk.writer, chunk.ordinal) for commit in commits)
        )

    def check_stage(self, stage: Stage) -> None:
        """Raises BatchClosedError for a chunk of a batch whose commit is pending."""
        for commit in self.commits:
            if is_closed_by(commit, stage.writer, (stage.generation, stage.batch)):
                raise BatchClosedError(
                    f"batch {stage.batch} of writer {stage.writer} is being applied: ask the "
                    "coordinator",
                    batch=commit.batch,
                    generation=commit.generation,
                )

    @property
    def decision(self) -> "asyncio.Future[Outcome] | None":
        """The outcome of a pending Decide; None where there is none."""
        pending = self._by_name.get(_DECISION)
        return None if pending is None else pending.outcome

    def applied(self, offset: Offset, outcome: Outcome) -> None:
        """Sets the outcome of an entry."""
        pending = self._by_offset.pop(offset, None)
        if pending is None:
            return
        self._forget_name(pending)
        if not pending.outcome.done():
            pending.outcome.set_result(outcome)

    def cut(self, offset: Offset, failure: StoreError) -> None:
        """Ends the waits for entries from `offset` on, whose place other entries take."""
        for number in [number for number in self._by_offset if number >= offset]:
            pending = self._by_offset.pop(number)
            self._forget_name(pending)
            _fail(pending, failure)

    def fail(self, failure: StoreError) -> None:
        """Sets the failure as the outcome of all pending entries."""
        for pending in self._by_offset.values():
            _fail(pending, failure)
        self._forget()

    def cancel(self) -> None:
        """Cancels all outcomes; the next start of the replica applies the entries."""
        for pending in self._by_offset.values():
            pending.outcome.cancel()
        self._forget()

    def _forget_name(self, pending: _Pending) -> None:
        name = _name_of(pending.entry.command)
        if name is not None and self._by_name.get(name) is pending:
            del self._by_name[name]

    def _forget(self) -> None:
        self._by_offset.clear()
        self._by_name.clear()


def _fail(pending: _Pending, failure: StoreError) -> None:
    if not pending.outcome.done():
        pending.outcome.set_exception(failure)
        pending.outcome.exception()  # asyncio would warn where no request waits for it.


def _name_of(command: Command) -> Hashable | None:
    """The name that copies of a command share; None for commands that have no rows."""
    match command:
        case Stage():
            return ("stage", command.writer, command.chunk)
        case Commit():
            part = command.commit
            return ("commit", part.sequence, part.writer, part.generation, part.batch)
        case Decide():
            return _DECISION
        case _:
            return None
