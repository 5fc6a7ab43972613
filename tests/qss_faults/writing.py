"""The writer: known batches to all partitions, one after the other, without a pause."""

import threading
import time
from dataclasses import dataclass, field
from typing import Any

from qss_client.http.retries import RetryLimits
from qss_client.http.sync_http import SyncHttp
from qss_client.writes.batch import Run, commit, discover, open_writer, stage, write_batch
from qss_core.errors import BatchClosedError, StoreError
from qss_faults.content import Content
from qss_faults.history import WRITER, History

_LIMITS = RetryLimits(deadline_s=60.0, longest_wait_s=0.5)
_PAUSE_S = 0.2


@dataclass(slots=True)
class FaultWriter:
    """Writes through the client's exchanges; after a failure it opens a new run, as a driver."""

    urls: list[str]
    store: str
    history: History
    content: Content
    failures: list[str] = field(default_factory=list)
    runs: int = 0
    over: threading.Event = field(default_factory=threading.Event)
    again: threading.Event = field(default_factory=threading.Event)  # Asks for a new run.

    def run(self) -> None:
        """Writes until `over` is set."""
        http = SyncHttp()
        try:
            self._write_all(http)
        finally:
            http.close()

    def _write_all(self, http: SyncHttp) -> None:
        run: Run | None = None
        before_s = time.monotonic()
        while not self.over.is_set():
            if self.again.is_set():
                run = None
                self.again.clear()
            batch = self.history.acknowledged + 1
            self.history.begun = batch
            try:
                run = run or self._opened(http)
                self._write(http, run, batch)
            except StoreError as error:
                self.failures.append(f"{self.history.now}: {error.code}: {error.message}")
                run = None
                self.over.wait(_PAUSE_S)
                continue
            self.history.acknowledged = batch
            now_s = time.monotonic()
            self.history.waits.append((now_s - before_s, self.history.now))
            before_s = now_s

    def _opened(self, http: SyncHttp) -> Run:
        self.runs += 1
        metadata = discover(http, self.urls, self.store, _LIMITS)
        run = open_writer(
            http, metadata, WRITER, query_id=WRITER, run_id=f"run-{self.runs}", limits=_LIMITS
        )
        self.history.generation = run.opened.generation
        last = -1 if run.opened.last_batch is None else run.opened.last_batch
        known = self.history.acknowledged
        if last < known:
            self.history.record("lost", f"the coordinator knows batch {last} of {known}")
        if last > self.history.begun:
            self.history.record("false", f"the coordinator knows batch {last}, never begun")
        return run

    def _write(self, http: SyncHttp, run: Run, batch: int) -> None:
        """Even batches go with the decision, odd ones are staged; a repeat has one fingerprint."""
        made = self.content.slices(run.opened.metadata.definition, batch)
        told: dict[str, Any] = {
            "position": {"input": {"0": batch}},
            "fingerprint": str(batch),
            "limits": _LIMITS,
        }
        if batch % 2 == 0:
            write_batch(http, run, batch, made, **told)
            return
        try:
            staged = stage(http, run, batch, f"task-{batch}", made, _LIMITS)
        except BatchClosedError:
            staged = []  # An earlier run committed the batch: the coordinator answers.
        commit(http, run, batch, staged, **told)
