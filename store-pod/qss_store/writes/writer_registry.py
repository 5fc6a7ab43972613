"""Who writes a store, as the pod that has partition 0 knows: heard of, silent, forgotten."""

from qss_core.errors import StoreError, WriterOpenError
from qss_core.model import WriterEpoch
from qss_core.wire.writer_reports import WriterReport, WritersAnswer
from qss_store.replicas.append_wait import outcome_of
from qss_store.replicas.pod import Pod
from qss_store.runtime.settings import Settings
from qss_store.transactions.commands import CloseWriter, DeleteWriter, ForgetWriter
from qss_store.transactions.coordinator import WRITERS_MAX
from qss_store.transactions.writers import Writer
from qss_store.writes.commit_driver import active_coordinator


class WriterRegistry:
    """The store's writers and their life, from the first open until nobody knows them."""

    def __init__(self, pod: Pod, settings: Settings) -> None:
        """Holds only who was heard of when; a pod that starts has heard of all of them now."""
        self._pod = pod
        self._settings = settings
        self.last_heard: dict[tuple[str, WriterEpoch], float] = {}

    def hear(self, writer: Writer) -> None:
        """Its open run has asked for something."""
        self.last_heard[writer.name, writer.writer_epoch] = self._pod.clock.monotonic()

    def renew(self, name: str, writer_epoch: WriterEpoch) -> None:
        """Keeps a run open; StaleWriterError where it is not."""
        _, coordinator = active_coordinator(self._pod)
        held = coordinator.writer(name)
        self.hear(coordinator.check_run(name, writer_epoch, held.generation))

    def report(self) -> WritersAnswer:
        _, coordinator = active_coordinator(self._pod)
        known = sorted(coordinator.writers.values(), key=lambda writer: writer.name)
        return WritersAnswer(writers=tuple(self._report(writer) for writer in known))

    def _report(self, writer: Writer) -> WriterReport:
        return WriterReport(
            name=writer.name,
            query_id=writer.query_id,
            generation=writer.generation,
            opened_at_ms=writer.opened_at_ms,
            last_batch=writer.last_batch,
            one_off=writer.one_off,
            silent_s=None if writer.closed else round(self._silent_s(writer), 3),
        )

    def _silent_s(self, writer: Writer) -> float:
        now = self._pod.clock.monotonic()
        return now - self.last_heard.setdefault((writer.name, writer.writer_epoch), now)

    def longest_silence_s(self) -> float:
        """Of the open runs of writers that write again and again; 0 where there is none."""
        if not self._pod.is_active(0):
            return 0.0
        try:
            _, coordinator = active_coordinator(self._pod)
        except StoreError:
            return 0.0  # Partition 0 is not open yet.
        open_ones = [one for one in coordinator.writers.values() if not (one.closed or one.one_off)]
        return max((self._silent_s(one) for one in open_ones), default=0.0)

    async def make_room(self) -> None:
        """Forgets the one-off writer that was done first where no other could be opened."""
        replica, coordinator = active_coordinator(self._pod)
        if len(coordinator.writers) >= WRITERS_MAX and (done := coordinator.oldest_done_one_off()):
            await outcome_of(replica, ForgetWriter(writer=done))

    async def delete(self, name: str, *, force: bool) -> tuple[WriterReport, WriterEpoch]:
        """Forgets a writer and its batches, never its rows; what it was, and its youngest run.

        Raises UnknownWriterError, BatchInProgressError, and WriterOpenError for one whose run may
        be alive, unless it is forced: then that run ends with UnknownWriterError. Whoever opens
        the name again begins anew, also where its checkpoint has batches that were applied.
        """
        replica, coordinator = active_coordinator(self._pod)
        held = coordinator.check_delete(name)
        alive_s = self._settings.writer_alive_s
        if not (force or held.closed) and (silent_s := self._silent_s(held)) < alive_s:
            raise WriterOpenError(
                f"a run of writer {name} is open, and was heard of {silent_s:.0f} s ago: stop its "
                f"query and ask again when it was silent for {alive_s:g} s, or force it"
            )
        await outcome_of(replica, DeleteWriter(writer=name, writer_epoch=held.writer_epoch))
        return self._report(held), held.writer_epoch

    async def close_silent(self) -> None:
        """Closes runs not heard of for `openBatchTimeout`; forgets old one-off writers."""
        if not self._pod.is_active(0):
            return
        replica, coordinator = active_coordinator(self._pod)
        open_ones = [writer for writer in coordinator.writers.values() if not writer.closed]
        runs = {(writer.name, writer.writer_epoch) for writer in open_ones}
        self.last_heard = {run: at for run, at in self.last_heard.items() if run in runs}
        for writer in open_ones:
            if self._silent_s(writer) > self._settings.open_batch_timeout_s:
                close = CloseWriter(writer=writer.name, writer_epoch=writer.writer_epoch)
                await outcome_of(replica, close)
        for name in coordinator.expired_one_offs(self._pod.clock.wall_ms()):
            await outcome_of(replica, ForgetWriter(writer=name))
