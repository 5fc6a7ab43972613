"""The writer of a copy in its store: it refuses other copies, and writes each batch of the copy."""

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
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
from qss_core.positions import PositionJson
from qss_core.wire.chunk_ids import name_attempt, name_group
from qss_core.wire.messages import CommitAnswer
from qss_core.wire.writer_reports import WriterReport
from qss_spark.mirroring.rows.computed_values import ComputedValues
from qss_spark.mirroring.rows.store_rows import StoreRows
from qss_spark.mirroring.state_follower import Changes, StateFollower

_CLOSE_LIMITS = RetryLimits(deadline_s=1.0)
BEGUN = "@"  # Between the id of the query and the batch with which a copy began.
_AGAIN = "~"  # Between that batch and the random part, which each beginning has.
_COMPUTED = "="  # Between the random part and the digest of the computed values.
_WITHOUT_OPAQUE = f"{_COMPUTED}readable"  # Instead of a digest: earlier copies had such columns.


class CopyWriter:
    """The writer of one copy, and its run; `last` is the newest batch that the store has."""

    def __init__(
        self,
        follower: StateFollower,
        http: SyncHttp,
        urls: Urls,
        store: str,
        writer: str,
        *,
        direct: bool,
        keep_deleted: bool,
        values: Sequence[str],
        staged: Callable[[int, int], object],
    ) -> None:
        """The arguments are those of `StateCopy`; `staged` is called after each staged chunk."""
        self._staged = staged
        self._computed = ComputedValues(values, follower.opaque) if values else None
        self._follower = follower
        self._http = http
        self._metadata = discover(http, urls, store, WRITE_LIMITS)
        self.name = writer
        self._keep_deleted = keep_deleted
        if is_session := self._metadata.definition.type is StoreType.SESSION:
            follower.keep_values()
        # Sessions may have grown while nothing was copied: they cannot stay beside the newer ones.
        self._keeps_rows = keep_deleted and not is_session
        self._has_rows = False  # Of this part of the state.
        self._id = f"{follower.checkpoint.query_id}.{follower.name}"
        self._rows: StoreRows | None = None
        self.run: Run | None = None
        self.last: int | None = None
        self._list = partial(list_writers, http, urls, store, direct=direct)
        self._delete = partial(delete_writer, http, urls, store, writer, force=True, direct=direct)

    @property
    def store(self) -> str:
        """The name of the store."""
        return self._metadata.definition.name

    # --- Runs of the writer

    def resume(self) -> None:
        """Opens the run of the copy that the store has; a copy with other values begins anew.

        Raises MalformedRequestError where the store has another copy of a state.
        """
        known = self._list()
        self._refuse([one for one in known if one.last_batch is not None])
        if (held := next((one for one in known if one.name == self.name), None)) is None:
            return
        if (other := held.query_id.partition(BEGUN)[0]) != self._id:
            raise MalformedRequestError(
                f"the writer {self.name} of store {self.store} copies {other}, and this is "
                f"{self._id}: give each part of a state its own store"
            )
        self._has_rows = True
        begun = held.query_id.rpartition(BEGUN)[2].partition(_COMPUTED)[0]
        if held.query_id == self._named(begun):
            self._open(held.query_id)

    def begin(self, number: int) -> None:
        """Opens the run of a copy that begins with this batch.

        Raises MalformedRequestError, and deletes the writer, where another copy began before.
        """
        # A copy may have begun with the same batch and the same values before, and ended since.
        begun = f"{number}{_AGAIN}{uuid.uuid4().hex[:8]}"
        self._open(self._named(begun), take_over=True)
        self._stay_alone()

    def renew(self) -> None:
        """Keeps the run open. Raises StaleWriterError."""
        if self.run is not None:
            renew(self._http, self.run)

    def keep_open(self) -> None:
        """Keeps the run open as far as the store answers; the next step says where it is closed."""
        if self.run is not None:
            with suppress(StoreError):
                renew(self._http, self.run, _CLOSE_LIMITS)

    def close(self) -> None:
        """Ends the run: the store need not wait for it. An error of the store is ignored."""
        if self.run is not None and self.last is not None:
            with suppress(StoreError):
                abort(self._http, self.run, self.last + 1, _CLOSE_LIMITS)

    def _refuse(self, writers: Iterable[WriterReport]) -> None:
        """Raises MalformedRequestError where one of these writers is another copy of a state."""
        for one in writers:
            if one.name != self.name and BEGUN in one.query_id and not one.one_off:
                store = self.store
                raise MalformedRequestError(
                    f"the writer {one.name} of store {store} copies "
                    f"{one.query_id.partition(BEGUN)[0]} into it, and this is {self._id} by the "
                    f"writer {self.name}: give each part of a state its own store. To copy by "
                    f"another writer than before, end that copy, and delete its writer: qss "
                    f"writers {store} --delete {one.name}"
                )

    def _stay_alone(self) -> None:
        """Looks for copies that began meanwhile: of two the earlier one stays.

        Raises MalformedRequestError, and deletes the writer that has written nothing.
        """
        known = self._list()
        own = [(one.opened_at_ms, one.name) for one in known if one.name == self.name]
        try:
            self._refuse(
                one
                for one in known
                if one.last_batch is not None or [(one.opened_at_ms, one.name)] < own
            )
        except MalformedRequestError:
            self.run = None
            self._delete()
            raise

    def _named(self, begun: str) -> str:
        """The id of a copy in the store, by its first batch: other values are another copy."""
        values = _WITHOUT_OPAQUE if self._follower.opaque else ""
        if self._computed is not None:
            values = f"{_COMPUTED}{self._computed.digest}"
        return f"{self._id}{BEGUN}{begun}{values}"

    def _open(self, query_id: str, *, take_over: bool = False) -> None:
        self.run = open_writer(
            self._http,
            self._metadata,
            self.name,
            query_id=query_id,
            run_id=uuid.uuid4().hex,
            take_over=take_over,
        )
        self.last = self.run.opened.last_batch

    # --- Batches

    def has_decided(self, number: int, position: PositionJson, identity: str) -> bool:
        """Whether the store has decided this batch with this position and identity."""
        assert self.run is not None, "`resume` opened the run"
        try:
            commit(self._http, self.run, number, [], position=position, fingerprint=identity)
        except BatchMismatchError:
            return False
        return True

    def check(self, changes: Changes) -> None:
        """Raises MalformedRequestError, with the batch, for rows that the store does not take."""
        with _naming(changes.batch):
            self._encoder(changes).check(changes.changed)

    def write(self, changes: Changes, position: PositionJson) -> None:
        """Writes a batch under its own number; a whole state replaces the rows of the store."""
        assert self.run is not None, "`resume` or `begin` opened the run"
        with _naming(changes.batch):
            send, rows = self._sent(self.run, changes)
        send(
            self._http,
            self.run,
            changes.batch,
            rows,
            position=position,
            fingerprint=changes.identity,
            replace=changes.is_whole and not (self._keeps_rows and self._has_rows),
        )
        self.last = changes.batch
        self._has_rows = True

    def _sent(
        self, run: Run, changes: Changes
    ) -> tuple[Callable[..., CommitAnswer], Sequence[Slice | Staged]]:
        """The call that commits the batch, and the rows: carried by the call, or staged before."""
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
            return found

        return stage_group


@contextmanager
def _naming(batch: int) -> Iterator[None]:
    """Names the batch in errors of rows that the store does not take."""
    try:
        yield
    except MalformedRequestError as error:
        raise MalformedRequestError(f"batch {batch}: {error.message}") from error
