"""Copies the state of a query into a store: chooses the next batch, and waits for its files."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from qss_client.addresses import Urls
from qss_client.http.sync_http import SyncHttp
from qss_core.errors import MalformedRequestError
from qss_spark.mirroring.copies.copy_writer import CopyWriter
from qss_spark.mirroring.state_follower import Changes, MovedStateError, StateFollower
from qss_spark.sink.positions import read_offsets
from qss_spark.state.errors import StateGoneError

# Between tries: a shared volume may show a commit before the files of its batch.
_PAUSES_S = (0.05, 0.1, 0.25, 0.5, 1.0)


@dataclass(frozen=True, slots=True)
class Written:
    """A batch that the store has."""

    batch: int
    rows: int
    is_whole: bool  # The rows are the whole state.
    read_bytes: int = 0  # Of the files with changes, since the batch before.


def _sleep(seconds: float) -> None:
    """Waits: nobody tells that a volume shows a file."""
    time.sleep(seconds)  # noqa: TID251 the files of a checkpoint are looked at.


class StateCopy:
    """Copies one part of a state into one store.

    The writer belongs to the query's checkpoint, so a copy that starts again goes on behind the
    last batch, and a second copy ends the first one (StaleWriterError).
    """

    def __init__(
        self,
        follower: StateFollower,
        http: SyncHttp,
        urls: Urls,
        store: str,
        writer: str,
        *,
        direct: bool = True,
        keep_deleted: bool = False,
        values: Sequence[str] = (),
        staged: Callable[[int, int], object] = lambda *_: None,
        begins: Callable[[str], object] = lambda _: None,
        pause: Callable[[float], object] = _sleep,
    ) -> None:
        """Raises MalformedRequestError where the store has another copy of a state.

        keep_deleted: rows whose keys the query drops stay in the store.
        values: the columns of the store's values, as `ComputedValues` reads them.
        staged: called with the rows of a large batch that are staged, and all of them.
        begins: called with work that begins and may take long.
        pause: waits so many seconds for a file of the newest batch.
        """
        self.meanwhile: Callable[[], object] = lambda: None  # Called while a large batch is staged.
        self._begins = begins
        begins(f"{store}: asks the store for its last batch")
        self._pause = pause
        self._read_bytes = 0
        self._follower = follower
        self._query = follower.checkpoint.query_id
        self._keep_deleted = keep_deleted
        self._identity: str | None = None  # Of the last batch, where this process has written it.

        def after_chunk(rows: int, of: int) -> None:
            staged(rows, of)
            self.meanwhile()

        self._writer = CopyWriter(
            follower,
            http,
            urls,
            store,
            writer,
            direct=direct,
            keep_deleted=keep_deleted,
            values=values,
            staged=after_chunk,
        )
        self._writer.resume()
        if (last := self.last) is None:
            return
        try:
            if self._has_decided(last):
                begins(f"{store}: begins behind batch {last}")
                follower.go_on(last)
                return
        except StateGoneError:
            pass
        self._writer.last = None  # The first step begins anew.

    @property
    def needs_whole(self) -> bool:
        """Whether the next step begins with the whole state."""
        return self._writer.run is None or self._writer.last is None

    @property
    def last(self) -> int | None:
        """The newest batch that the store has; None before the first one."""
        return self._writer.last

    def step(self) -> Written | None:
        """Writes the next committed batch; None where there is none yet.

        Begins with the whole state, and begins anew where Spark has deleted what is needed.
        """
        checkpoint = self._follower.checkpoint
        if self._writer.run is None or (last := self.last) is None:  # As `needs_whole`.
            return self._begin()
        newest = checkpoint.newest()
        if newest == last:
            return None
        if newest < last or not self._goes_on(last):
            return self._begin()
        following = last + 1
        if not checkpoint.is_committed(following):  # Later ones are, so Spark has deleted it.
            return self._begin()
        try:
            changes = self._changes(following, is_newest=following == newest)
        except StateGoneError:
            return self._begin()
        return self._write(changes)

    def close(self) -> None:
        """Ends the run: the store need not wait for it. An error of the store is ignored."""
        self._writer.close()

    def renew(self) -> None:
        """Keeps the run open while the query commits nothing. Raises StaleWriterError."""
        if self._writer.run is not None:
            self._work("asks the store whether this is still its copy")
            self._writer.renew()

    def keep_open(self) -> None:
        """Keeps the run open as far as the store answers; the next step says where it is closed."""
        self._writer.keep_open()

    def _begin(self) -> Written:
        """Writes the whole state of the newest batch."""
        whole = self._whole()
        number = whole.batch
        # A store that cannot take the rows gets no writer.
        self._work(f"checks {whole.changed.num_rows} rows of batch {number}")
        self._writer.check(whole)
        self._writer.begin(number)
        return self._write(whole)

    def _whole(self) -> Changes:
        """The state of the newest batch, which Spark may delete while it is read."""
        for pause_s in _PAUSES_S:
            try:
                return self._newest_whole()
            except StateGoneError:
                self._pause(pause_s)
        return self._newest_whole()

    def _newest_whole(self) -> Changes:
        number = self._follower.checkpoint.newest()
        self._work(f"reads the whole state of batch {number}")
        return self._follower.whole(number)

    def _changes(self, number: int, *, is_newest: bool) -> Changes:
        """The changes of a batch; Spark deletes no file of the newest one, so it is waited for."""
        self._work(f"reads batch {number}")
        for pause_s in _PAUSES_S if is_newest else ():
            try:
                return self._follower.changes(number)
            except MovedStateError:
                break
            except StateGoneError:
                self._pause(pause_s)
        return self._follower.changes(number)

    def _work(self, what: str) -> None:
        self._begins(f"{self._writer.store}: {what}")

    def _goes_on(self, last: int) -> bool:
        """Whether the batch that was written last is still the checkpoint's own.

        Raises MalformedRequestError where the checkpoint is another query's now.
        """
        checkpoint = self._follower.checkpoint
        if (found := checkpoint.query_id) != self._query:
            raise MalformedRequestError(
                f"{checkpoint.path} is the checkpoint of another query now ({found}): give its "
                "state a store of its own"
            )
        try:
            found_now = checkpoint.identity(last)
        except StateGoneError:
            return True  # Spark has deleted it as an old one.
        return self._identity in (None, found_now)

    def _has_decided(self, last: int) -> bool:
        """Whether the store's last batch is the one that the checkpoint has under its number.

        A checkpoint that was restored runs batches of the same numbers again.
        """
        checkpoint = self._follower.checkpoint
        try:
            offsets = read_offsets(checkpoint.offsets(last), self._writer.name)
            identity = checkpoint.identity(last)
        except StateGoneError:
            return checkpoint.newest() > last
        if checkpoint.newest() < last:
            return False
        if not self._writer.has_decided(last, offsets.position, identity):
            return False
        self._identity = identity
        return True

    def _write(self, changes: Changes) -> Written:
        offsets = read_offsets(changes.offsets, self._writer.name)
        self._work(f"writes {changes.changed.num_rows} rows of batch {changes.batch}")
        self._writer.write(changes, offsets.position)
        self._identity = changes.identity
        self._follower.take(changes)
        gone = 0 if self._keep_deleted else len(changes.deleted)
        before, self._read_bytes = self._read_bytes, self._follower.checkpoint.read_bytes
        return Written(
            changes.batch,
            changes.changed.num_rows + gone,
            changes.is_whole,
            self._read_bytes - before,
        )
