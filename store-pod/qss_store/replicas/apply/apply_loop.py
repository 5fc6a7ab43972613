"""The task of one replica: recovers it, and applies the entries of its log one after the other.

An entry is applied when it is under the high watermark. The high watermark of a sole replica is its
durable end.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from qss_core.errors import DiskFullError
from qss_core.model import Offset
from qss_store.replicas.apply.replica_parts import ReplicaParts
from qss_store.replicas.apply.replica_recovery import Recovery
from qss_store.replication import log as logs
from qss_store.replication.entries import encode_offset
from qss_store.storage.commit_rows.commit_writer import (
    APPLIED,
    CommitWriter,
    drop_families,
    put_or_delete,
)
from qss_store.storage.commit_rows.row_slices import LateRows
from qss_store.storage.engine import META, Batch
from qss_store.storage.placement.row_families import row_placer_of
from qss_store.transactions.commands import Commit, LoggedCommand
from qss_store.transactions.commit_plan import CommitPlan
from qss_store.transactions.machine import Outcome

_DISK_FULL_RETRY_S = 1.0


class ApplyLoop:
    """Applies the entries of one replica's log."""

    def __init__(self, parts: ReplicaParts, fail: Callable[[Exception], None]) -> None:
        """`fail` gets the error that ends the loop."""
        self.settings = parts.context.settings
        self._parts = parts
        self._changelog = parts.changelog
        self._recovery = Recovery(parts, self.apply_all)
        self._fail = fail
        # The last commit whose rows were all written, and the numbers of its late rows.
        self._written: tuple[Offset, LateRows] | None = None

    @property
    def is_recovered(self) -> bool:
        """Whether the tail of the log at the start is applied."""
        return self._recovery.is_done

    @property
    def replica_timeout_s(self) -> float:
        return self.settings.replica_timeout_ms / 1000

    def cut_soon(self) -> None:
        """Has the loop delete the entries that the changelog's retention allows to delete."""
        self._changelog.retention.is_cut_owed = True
        self._parts.wake.set()

    async def run(self) -> None:
        """Recovers the replica and applies new entries, until a failure ends the loop."""
        while True:
            try:
                if not self._recovery.is_done:
                    await self._recovery.run()
                await self._round()
            except DiskFullError as error:
                self._parts.health.stall(error)
                await asyncio.sleep(_DISK_FULL_RETRY_S)
                self._parts.wake.set()
            except Exception as error:  # noqa: BLE001 the top of a task.
                self._fail(error)
                return

    async def _round(self) -> None:
        """Waits to be woken, applies new entries, and cuts the log where a cut is due."""
        parts, changelog = self._parts, self._changelog
        parts.pending.append_owed_barrier()
        await parts.wake.wait()
        parts.wake.clear()
        end = changelog.log.end
        if self._applies_make_durable(end):
            changelog.apply_unsynced(end)
        elif changelog.owes_sync:
            await changelog.sync()
        await self.apply_all()
        if len(changelog.log.configuration.replicas) > 1:
            parts.context.send()  # The watermark may have risen.
        if changelog.is_due_to_cut and changelog.cut(self.settings, parts.machine.open_floor):
            parts.wake.set()  # Entries that came meanwhile are applied before the next cut.
            await asyncio.sleep(0)

    def _applies_make_durable(self, end: Offset) -> bool:
        """Whether the replica is sole, and all new entries are commits: these end with a sync."""
        log = self._changelog.log
        new = (self._parts.pending.entry(Offset(one)) for one in range(log.watermark, end))
        return logs.is_sole(log) and all(
            entry is not None and isinstance(entry.command, Commit) for entry in new
        )

    async def apply_all(self) -> None:
        """Applies all entries under the high watermark, and sets their outcomes."""
        parts, epoch = self._parts, None
        for number in logs.applicable(self._changelog.log):
            offset = Offset(number)
            entry = parts.pending.entry(offset) or self._changelog.read(offset)
            outcome = await self._apply(offset, entry)
            self._changelog.applied(offset)
            parts.pending.applied(offset, outcome)
            epoch = entry.epoch
        parts.catch_up.applied(self._changelog.log, epoch, parts.engine)
        parts.health.go_on()

    async def _apply(self, offset: Offset, entry: LoggedCommand) -> Outcome:
        outcome = self._parts.machine.plan(offset, entry)
        while True:  # Until the disk has space.
            try:
                await self._persist(offset, outcome)
            except DiskFullError as error:
                self._parts.health.stall(error)
                await asyncio.sleep(_DISK_FULL_RETRY_S)
            else:
                return outcome

    async def _persist(self, offset: Offset, outcome: Outcome) -> None:
        """Makes the changes of an entry durable, and then advances the state machine."""
        parts = self._parts
        batch = parts.engine.batch()
        for key, value in outcome.changes.items():
            put_or_delete(batch, META, key, value)
        batch.put(META, APPLIED, encode_offset(offset + 1))
        if outcome.plan is not None:
            await self._commit(offset, outcome, outcome.plan, batch)
            return
        parts.engine.write(batch)
        if outcome.is_shown:
            await self._changelog.sync()
        parts.machine.advance(outcome)
        if outcome.is_shown:
            parts.show_state(Offset(offset + 1))

    async def _commit(
        self, offset: Offset, outcome: Outcome, plan: CommitPlan, batch: Batch
    ) -> None:
        parts, clock = self._parts, self._parts.context.clock
        started = clock.monotonic_s()
        async with parts.changing.of_commit():
            # Rows that were written are not written again: a batch that replaces all rows begins
            # by dropping its own generation, which the meta rows may name already.
            if self._written is None or self._written[0] != offset:
                self._written = offset, await self._write_rows(offset, plan, batch)
            late = self._written[1]
            await self._changelog.sync()
            parts.machine.advance(outcome)
            parts.dropped.keep(parts.machine.participant.sequence, sum(late))
            parts.show_state(Offset(offset + 1))
            # The commit is complete. The next commit drops the families that a full disk keeps.
            with suppress(DiskFullError):
                families = parts.families()
                left = families.leftovers(parts.engine.families(), plan.stream_time)
                await drop_families(parts.engine, left)
        parts.context.metrics.committed(clock.monotonic_s() - started, plan.records, late.expired)

    async def _write_rows(self, offset: Offset, plan: CommitPlan, batch: Batch) -> LateRows:
        """Writes the rows of a commit, with `batch`; returns the numbers of late rows."""
        parts, engine = self._parts, self._parts.engine
        if view := parts.views.view:
            view.rows.pin()
        families = parts.families_of(plan.data_generation)
        if plan.replaces:
            await drop_families(engine, families.of_generation(engine.families()))
            families.open(engine)
        placer = row_placer_of(parts.views.definition, families, plan, engine)
        gate, limits = parts.context.gate, parts.context.slices
        writer = CommitWriter(engine, families, placer, gate, parts.recent.take, limits)
        return await writer.write(offset, plan, batch)
