"""The store's writers on the pod of partition 0: lists them, closes silent runs, deletes them."""

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
    """Reports, closes and forgets the store's writers."""

    def __init__(self, pod: Pod, settings: Settings) -> None:
        """Keeps the time of each run's last request; it counts silence from the pod's start on."""
        self._pod = pod
        self._settings = settings
        self.last_heard: dict[tuple[str, WriterEpoch], float] = {}
        # Runs without a request since this pod leads: `last_heard` has the time of the first look.
        self._unheard: set[tuple[str, WriterEpoch]] = set()

    def hear(self, writer: Writer) -> None:
        """Notes a request of the writer's open run."""
        run = (writer.name, writer.writer_epoch)
        self.last_heard[run] = self._pod.clock.monotonic_s()
        self._unheard.discard(run)

    def renew(self, name: str, writer_epoch: WriterEpoch) -> None:
        """Keeps a run open. Raises StaleWriterError where it is closed or fenced."""
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
            is_heard_of=writer.closed or self._is_heard_of(writer),
        )

    def _silent_s(self, writer: Writer) -> float:
        """The seconds of silence, or the least that they may be: see `_is_heard_of`."""
        now, run = self._pod.clock.monotonic_s(), (writer.name, writer.writer_epoch)
        if run not in self.last_heard:
            self._unheard.add(run)
        return now - self.last_heard.setdefault(run, now)

    def _is_heard_of(self, writer: Writer) -> bool:
        """Whether the writer's run has sent a request since this pod leads partition 0."""
        return (writer.name, writer.writer_epoch) not in self._unheard

    def longest_silence_s(self) -> float:
        """The longest silence of open runs, one-off writers left out; 0 where there is none."""
        if not self._pod.registry.is_active(0):
            return 0.0
        try:
            _, coordinator = active_coordinator(self._pod)
        except StoreError:
            return 0.0  # Partition 0 does not serve.
        open_ones = [one for one in coordinator.writers.values() if not (one.closed or one.one_off)]
        return max((self._silent_s(one) for one in open_ones), default=0.0)

    async def make_room(self) -> None:
        """Forgets the one-off writer that was done first, if the limit of writers is reached."""
        replica, coordinator = active_coordinator(self._pod)
        if len(coordinator.writers) >= WRITERS_MAX and (done := coordinator.oldest_done_one_off()):
            await outcome_of(replica, ForgetWriter(writer=done))

    async def delete(self, name: str, *, force: bool) -> tuple[WriterReport, WriterEpoch]:
        """Forgets a writer and its batches, and keeps its rows.

        Returns the report on the writer and its youngest writer epoch. Raises UnknownWriterError,
        BatchInProgressError, and WriterOpenError for a run that may be alive. `force` deletes such
        a writer, too: its run then ends with UnknownWriterError. A writer that opens the name again
        begins anew, even if its checkpoint has batches that were applied.
        """
        replica, coordinator = active_coordinator(self._pod)
        held = coordinator.check_delete(name)
        alive_s = self._settings.writer_alive_s
        if not (force or held.closed) and (silent_s := self._silent_s(held)) < alive_s:
            last = f"its last request came {silent_s:.0f} s ago"
            if not self._is_heard_of(held):
                last = "has sent no request since this pod leads partition 0, for at least "
                last += f"{silent_s:.0f} s"
            raise WriterOpenError(
                f"a run of writer {name} is open, and {last}: stop its query and try again after "
                f"{alive_s:g} s of silence, or delete it with `--force`"
            )
        await outcome_of(replica, DeleteWriter(writer=name, writer_epoch=held.writer_epoch))
        return self._report(held), held.writer_epoch

    async def close_silent(self) -> None:
        """Closes runs without a request for `openBatchTimeout`; forgets old one-off writers."""
        if not self._pod.registry.is_active(0):
            self.last_heard.clear()  # Another coordinator hears them: silence here says nothing.
            self._unheard.clear()
            return
        replica, coordinator = active_coordinator(self._pod)
        open_ones = [writer for writer in coordinator.writers.values() if not writer.closed]
        runs = {(writer.name, writer.writer_epoch) for writer in open_ones}
        self.last_heard = {run: at for run, at in self.last_heard.items() if run in runs}
        self._unheard &= runs
        for writer in open_ones:
            if self._silent_s(writer) > self._settings.open_batch_timeout_s:
                close = CloseWriter(writer=writer.name, writer_epoch=writer.writer_epoch)
                await outcome_of(replica, close)
        for name in coordinator.expired_one_offs(self._pod.clock.wall_ms()):
            await outcome_of(replica, ForgetWriter(writer=name))
