"""Entries that are logged and not applied yet, and the futures that tell what each one did."""

import asyncio
from collections.abc import Hashable, Iterable
from typing import NamedTuple

from qss_core.errors import BatchClosedError, ChunkMismatchError, StoreError
from qss_core.model import Offset
from qss_core.wire.messages import PartitionCommit
from qss_store.replicas.changelog import Changelog
from qss_store.replicas.views.decoded_rows import Batches, DecodedEntries
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
        self, changelog: Changelog, recent: DecodedEntries, appended: asyncio.Event
    ) -> None:
        """Sets `appended` at each entry; `recent` keeps rows for the commits that read them."""
        self._changelog = changelog
        self._recent = recent
        self._appended = appended
        self._by_offset: dict[Offset, _Pending] = {}
        self._by_name: dict[Hashable, _Pending] = {}

    def append(
        self, command: Command, payload: bytes | memoryview = b"", decoded: Batches = ()
    ) -> "asyncio.Future[Outcome]":
        """Appends an entry, behind the Barrier of its epoch; the future tells what it did.

        Raises DiskFullError; nothing was appended then.
        """
        self.append_owed_barrier()
        return self._append(command, payload, decoded)

    def append_owed_barrier(self) -> None:
        """Appends the first entry of an epoch where it is missing."""
        if self._changelog.owes_barrier:
            self._append(Barrier(), b"", ())

    def _append(
        self, command: Command, payload: bytes | memoryview, decoded: Batches
    ) -> "asyncio.Future[Outcome]":
        offset, entry = self._changelog.append(command, payload)
        self._recent.keep(offset, decoded)
        pending = _Pending(entry, asyncio.get_running_loop().create_future())
        self._by_offset[offset] = pending
        if (name := _name_of(command)) is not None:
            self._by_name[name] = pending
        self._appended.set()
        return pending.outcome

    def entry(self, offset: Offset) -> LoggedCommand | None:
        """The entry at an offset; None for one that an earlier process has logged."""
        pending = self._by_offset.get(offset)
        return None if pending is None else pending.entry

    def copy_of(self, command: Command) -> "asyncio.Future[Outcome] | None":
        """The outcome of a logged copy of a Stage or a Commit; None where there is none.

        A repeat waits for it: to log it again would write all its rows again. Raises
        ChunkMismatchError where the logged chunk of that id has other rows.
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
        """The commits that are logged and not applied yet: the state is still that before them."""
        commands = (pending.entry.command for pending in self._by_name.values())
        return [command.commit for command in commands if isinstance(command, Commit)]

    def bytes_beside(self, chunks: Iterable[StagedChunk]) -> int:
        """Bytes of the payloads that none of these commits is about to take."""
        commits = self.commits
        return sum(
            chunk.payload_bytes
            for chunk in chunks
            if not any(is_closed_by(commit, chunk.writer, chunk.ordinal) for commit in commits)
        )

    def check_stage(self, stage: Stage) -> None:
        """Refuses a chunk of a batch whose commit is logged: it comes too late."""
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
        """The outcome of a Decide that is logged; None where there is none."""
        pending = self._by_name.get(_DECISION)
        return None if pending is None else pending.outcome

    def applied(self, offset: Offset, outcome: Outcome) -> None:
        """Tells what an entry did."""
        pending = self._by_offset.pop(offset, None)
        if pending is None:
            return
        name = _name_of(pending.entry.command)
        if name is not None and self._by_name.get(name) is pending:
            del self._by_name[name]
        if not pending.outcome.done():
            pending.outcome.set_result(outcome)

    def fail(self, failure: StoreError) -> None:
        """Tells that no entry will be applied."""
        for pending in self._by_offset.values():
            if not pending.outcome.done():
                pending.outcome.set_exception(failure)
                pending.outcome.exception()  # Nobody may wait for it; the log has it.
        self._forget()

    def cancel(self) -> None:
        """The replica is closed; the next start applies what the log holds."""
        for pending in self._by_offset.values():
            pending.outcome.cancel()
        self._forget()

    def _forget(self) -> None:
        self._by_offset.clear()
        self._by_name.clear()


def _name_of(command: Command) -> Hashable | None:
    """What copies of a command share; None for commands that carry no rows."""
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
