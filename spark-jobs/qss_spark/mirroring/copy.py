"""Writes the state of a query into a store, exactly once."""

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial

from qss_client.addresses import Urls
from qss_client.chunks.carried_batch import CARRIED_ROWS_BYTES_MAX
from qss_client.chunks.chunk import Slice
from qss_client.http.retries import RetryLimits
from qss_client.http.sync_http import SyncHttp
from qss_client.writes.batch import (
    WRITE_LIMITS,
    Run,
    Staged,
    abort,
    commit,
    discover,
    open_writer,
    renew,
    stage,
    write_batch,
)
from qss_client.writes.writers import delete_writer, list_writers
from qss_core.errors import BatchMismatchError, MalformedRequestError, StoreError
from qss_core.model import StoreType
from qss_core.wire.chunk_ids import name_attempt, name_group
from qss_core.wire.messages import CommitAnswer
from qss_core.wire.writer_reports import WriterReport
from qss_spark.mirroring.rows.computed_values import ComputedValues
from qss_spark.mirroring.rows.store_rows import StoreRows
from qss_spark.mirroring.state_follower import Changes, MovedStateError, StateFollower
from qss_spark.sink.positions import read_offsets
from qss_spark.state.errors import StateGoneError

# Between tries: a shared volume may show a commit before the files of its batch.
_PAUSES_S = (0.05, 0.1, 0.25, 0.5, 1.0)
_CLOSE_LIMITS = RetryLimits(deadline_s=1.0)
BEGUN = "@"  # Between the id of the query and the batch with which a copy began.
_AGAIN = "~"  # Between that batch and what tells this beginning from an earlier one.
_COMPUTED = "="  # Between them and the digest of the computed values.
_WITHOUT_OPAQUE = f"{_COMPUTED}readable"  # Instead of a digest: earlier copies had such columns.


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
        self._staged = staged
        self._computed = ComputedValues(values, follower.opaque) if values else None
        self._follower = follower
        self._http = http
        self._metadata = discover(http, urls, store, WRITE_LIMITS)
        self._writer = writer
        self._keep_deleted = keep_deleted
        if is_session := self._metadata.definition.type is StoreType.SESSION:
            follower.keep_values()
        # Sessions may have grown while nothing was copied: they cannot stay beside the newer ones.
        self._keeps_rows = keep_deleted and not is_session
        self._has_rows = False  # Of this part of the state.
        self._query = follower.checkpoint.query_id
        self._id = f"{self._query}.{follower.name}"
        self._rows: StoreRows | None = None
        self._run: Run | None = None
        self._last: int | None = None  # The newest batch that the store has.
        self._identity: str | None = None  # Of that batch, where this process has written it.
        self._list = partial(list_writers, http, urls, store, direct=direct)
        self._delete = partial(delete_writer, http, urls, store, writer, force=True, direct=direct)
        known = self._list()
        self._refuse([one for one in known if one.last_batch is not None])
        if (held := next((one for one in known if one.name == writer), None)) is None:
            return
        if (other := held.query_id.partition(BEGUN)[0]) != self._id:
            raise MalformedRequestError(
                f"the writer {writer} of store {store} copies {other}, and this is {self._id}: "
                "give each part of a state its own store"
            )
        self._has_rows = True
        begun = held.query_id.rpartition(BEGUN)[2].partition(_COMPUTED)[0]
        if held.query_id != self._named(begun):
            return  # The values were others: the first step begins anew.
        run = self._open(held.query_id)
        if self._last is None:
            return
        try:
            if self._has_decided(run, self._last):
                begins(f"{store}: begins behind batch {self._last}")
                follower.go_on(self._last)
                return
        except StateGoneError:
            pass
        self._last = None  # The first step begins anew.

    @property
    def needs_whole(self) -> bool:
        """Whether the next step begins with the whole state."""
        return self._run is None or self._last is None

    @property
    def last(self) -> int | None:
        """The newest batch that the store has; None before the first one."""
        return self._last

    def step(self) -> Written | None:
        """Writes the next committed batch; None where there is none yet.

        Begins with the whole state, and begins anew where Spark has deleted what is needed.
        """
        checkpoint = self._follower.checkpoint
        if self._run is None or self._last is None:  # As `needs_whole`.
            return self._begin()
        newest = checkpoint.newest()
        if newest == self._last:
            return None
        if newest < self._last or not self._goes_on(self._last):
            return self._begin()
        following = self._last + 1
        if not checkpoint.is_committed(following):  # Newer ones are: Spark has deleted it.
            return self._begin()
        try:
            changes = self._changes(following, is_newest=following == newest)
        except StateGoneError:
            return self._begin()
        return self._write(self._run, changes)

    def close(self) -> None:
        """Ends the run: the store need not wait for it. An error of the store is ignored."""
        if self._run is not None and self._last is not None:
            with suppress(StoreError):
                abort(self._http, self._run, self._last + 1, _CLOSE_LIMITS)

    def renew(self) -> None:
        """Keeps the run open while the query commits nothing. Raises StaleWriterError."""
        if self._run is not None:
            self._work("asks the store whether this is still its copy")
            renew(self._http, self._run)

    def keep_open(self) -> None:
        """Keeps the run open as far as the store answers; the next step says where it is closed."""
        if self._run is not None:
            with suppress(StoreError):
                renew(self._http, self._run, _CLOSE_LIMITS)

    def _begin(self) -> Written:
        """Writes the whole state of the newest batch."""
        whole = self._whole()
        number = whole.batch
        # A store that cannot take the rows gets no writer.
        self._work(f"checks {whole.changed.num_rows} rows of batch {number}")
        with _naming(number):
            self._encoder(whole).check(whole.changed)
        # A copy may have begun with the same batch and the same values before, and ended since.
        begun = f"{number}{_AGAIN}{uuid.uuid4().hex[:8]}"
        run = self._open(self._named(begun), take_over=True)
        self._stay_alone()
        return self._write(run, whole)

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
        self._begins(f"{self._metadata.definition.name}: {what}")

    def _refuse(self, writers: Iterable[WriterReport]) -> None:
        """Raises MalformedRequestError where one of these writers is another copy of a state."""
        for one in writers:
            if one.name != self._writer and BEGUN in one.query_id and not one.one_off:
                store = self._metadata.definition.name
                raise MalformedRequestError(
                    f"the writer {one.name} of store {store} copies "
                    f"{one.query_id.partition(BEGUN)[0]} into it, and this is {self._id} by the "
                    f"writer {self._writer}: give each part of a state its own store. To copy by "
                    f"another writer than before, end that copy, and delete its writer: qss "
                    f"writers {store} --delete {one.name}"
                )

    def _stay_alone(self) -> None:
        """Looks for copies that began meanwhile: of two the earlier one stays.

        Raises MalformedRequestError, and deletes the writer that has written nothing.
        """
        known = self._list()
        own = [(one.opened_at_ms, one.name) for one in known if one.name == self._writer]
        try:
            self._refuse(
                one
                for one in known
                if one.last_batch is not None or [(one.opened_at_ms, one.name)] < own
            )
        except MalformedRequestError:
            self._run = None
            self._delete()
            raise

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

    def _has_decided(self, run: Run, last: int) -> bool:
        """Whether the store's last batch is the one that the checkpoint has under its number.

        A checkpoint that was restored runs batches of the same numbers again.
        """
        checkpoint = self._follower.checkpoint
        try:
            offsets = read_offsets(checkpoint.offsets(last), self._writer)
            identity = checkpoint.identity(last)
        except StateGoneError:
            return checkpoint.newest() > last
        if checkpoint.newest() < last:
            return False
        position = offsets.position
        try:
            commit(self._http, run, last, [], position=position, fingerprint=identity)
        except BatchMismatchError:
            return False
        self._identity = identity
        return True

    def _named(self, begun: str) -> str:
        """The id of a copy in the store, by its first batch: other values are another copy."""
        values = _WITHOUT_OPAQUE if self._follower.opaque else ""
        if self._computed is not None:
            values = f"{_COMPUTED}{self._computed.digest}"
        return f"{self._id}{BEGUN}{begun}{values}"

    def _open(self, query_id: str, *, take_over: bool = False) -> Run:
        run = open_writer(
            self._http,
            self._metadata,
            self._writer,
            query_id=query_id,
            run_id=uuid.uuid4().hex,
            take_over=take_over,
        )
        self._run, self._last = run, run.opened.last_batch
        return run

    def _write(self, run: Run, changes: Changes) -> Written:
        offsets = read_offsets(changes.offsets, self._writer)
        self._work(f"writes {changes.changed.num_rows} rows of batch {changes.batch}")
        with _naming(changes.batch):
            send, rows = self._sent(run, changes)
        send(
            self._http,
            run,
            changes.batch,
            rows,
            position=offsets.position,
            fingerprint=changes.identity,
            replace=changes.is_whole and not (self._keeps_rows and self._has_rows),
        )
        self._last, self._identity = changes.batch, changes.identity
        self._has_rows = True
        self._follower.take(changes)
        gone = 0 if self._keep_deleted else len(changes.deleted)
        before, self._read_bytes = self._read_bytes, self._follower.checkpoint.read_bytes
        return Written(
            changes.batch,
            changes.changed.num_rows + gone,
            changes.is_whole,
            self._read_bytes - before,
        )

    def _sent(
        self, run: Run, changes: Changes
    ) -> tuple[Callable[..., CommitAnswer], Sequence[Slice | Staged]]:
        """How a batch is committed: with its rows, or after they are staged."""
        groups = self._encoder(changes).groups(changes.changed, changes.deleted, changes.before)
        first = next(groups, None)
        second = next(groups, None)
        size = sum(len(one.data) for one in first or ())
        if first is not None and second is None and size <= CARRIED_ROWS_BYTES_MAX:
            return write_batch, first
        of = changes.changed.num_rows + len(changes.deleted)
        stage_group = self._stager(run, changes.batch, of)
        found = (group for group in (first, second, *groups) if group is not None)
        return commit, [one for group in found for one in stage_group(group)]

    def _encoder(self, changes: Changes) -> StoreRows:
        """Encodes the rows for the store. Raises MalformedRequestError where they do not fit."""
        if self._rows is None:
            key, value = (changes.changed.schema.field(name).type for name in ("key", "value"))
            self._rows = StoreRows(
                self._metadata.definition,
                key,
                value,
                keep_deleted=self._keep_deleted,
                computed=self._computed,
            )
        return self._rows

    def _stager(self, run: Run, batch: int, of: int) -> Callable[[list[Slice]], list[Staged]]:
        attempt, number = name_attempt(0, uuid.uuid4().int >> 96), iter(range(1 << 31))
        rows = 0

        def stage_group(group: list[Slice]) -> list[Staged]:
            nonlocal rows
            found = stage(self._http, run, batch, name_group(attempt, next(number)), group)
            rows += sum(one.records for one in group)
            self._staged(rows, of)
            self.meanwhile()
            return found

        return stage_group


@contextmanager
def _naming(batch: int) -> Iterator[None]:
    """Names the batch in errors of rows that the store does not take."""
    try:
        yield
    except MalformedRequestError as error:
        raise MalformedRequestError(f"batch {batch}: {error.message}") from error
