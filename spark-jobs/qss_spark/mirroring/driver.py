"""`mirror`: copies of a query's state by a thread of its driver, without a second process."""

import logging
import threading
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec

from qss_client.addresses import Urls, checked_name, find_urls
from qss_client.arguments import shown_value
from qss_client.clock import SystemClock
from qss_client.http.credentials import Token
from qss_client.http.sync_http import SyncHttp
from qss_core.errors import (
    MalformedRequestError,
    NotActiveError,
    NotPresentError,
    Retry,
    StaleEpochError,
    StoreError,
)
from qss_core.wire.writer_reports import check_writer_name
from qss_spark.mirroring.copies.state_copies import StateCopies
from qss_spark.mirroring.copies.state_copy import StateCopy
from qss_spark.mirroring.follow_loop import Teller, follow, looking
from qss_spark.mirroring.metrics import MirrorMetrics
from qss_spark.mirroring.rows.opaque_buffers import note_of
from qss_spark.mirroring.state_follower import StateFollower
from qss_spark.mirroring.wanted_copies import WantedCopy
from qss_spark.state.checkpoint import Checkpoint, local_directory
from qss_spark.state.errors import CheckpointError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_LOG = logging.getLogger(__name__)
_FIRST_S, _AGAIN_S = 0.1, 2.0
_TELL_S, _TELL_AGAIN_S = 2.0, 60.0
_ASK_S = 0.5
_END_S = 60.0
DIRECTORY_WAIT_S = 60.0
# A partition has no active, or the routes to it are old, for longer than a writer tries.
_WITHOUT_ACTIVE = (NotActiveError, NotPresentError, StaleEpochError)


class LogTeller(Teller):
    """Logs the written batches in the log of the driver."""

    def __init__(self) -> None:
        """Takes nothing: the log is that of this module."""
        super().__init__(is_live=False)

    def wrote(self, text: str) -> None:
        self.rests()
        _LOG.info("%s", text)

    def tell_work(self, text: str) -> None:
        _LOG.info("%s", text)

    def end(self) -> None:
        """A log has no line to end."""


def may_pass(error: StoreError) -> bool:
    """Whether a mirror goes on after a failure, which may pass without hands."""
    return error.retry is Retry.LATER or isinstance(error, _WITHOUT_ACTIVE)


class RunningMirror:
    """Copies of a query's state, until the query ends or `stop` is called.

    It goes on while pods do not answer or a partition has no active, and begins behind the last
    batch of each store. Another failure ends it: `error` has it then, and `stop` raises it. The
    query goes on.
    """

    def __init__(
        self,
        query: "StreamingQuery | str | Path",
        wanted: Mapping[str, WantedCopy],
        writer: str,
        urls: Mapping[str, tuple[str, ...]],
        credentials: Mapping[str, Any],
        directory_wait_s: float,
    ) -> None:
        """Takes the arguments that `mirror` has checked; `start` begins."""
        self.error: Exception | None = None
        self.metrics = MirrorMetrics()
        self._query = query
        self._checkpoint = _checkpoint_of(query)
        self._group: StateCopies | None = None
        self.metrics.watch(
            looking(self._checkpoint, lambda: self._group.last if self._group else None)
        )
        self._wanted, self._writer, self._urls = dict(wanted), writer, urls
        self._credentials = credentials
        self._directory_wait_s = directory_wait_s
        self._stopped, self._copies_rest = threading.Event(), True
        self._is_waiting = False  # For pods that did not answer.
        self._clock, self._ask_s, self._has_ended = SystemClock(), 0.0, False
        self._thread = threading.Thread(target=self._run, name="qss-mirror", daemon=True)

    def start(self) -> Self:
        """Begins the thread, and returns this."""
        self._thread.start()
        return self

    def __enter__(self) -> Self:
        """Enters the block; its end stops the mirror."""
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self, timeout_s: float = _END_S, *, copies_rest: bool = True) -> None:
        """Copies the batches that are committed now, and ends. Raises the error that ended it.

        copies_rest: without it the mirror ends behind the batch that it copies. Raises StoreError
        where it has not ended in time.
        """
        self._copies_rest = copies_rest
        self._stopped.set()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            raise StoreError(f"the mirror has not ended in {timeout_s:g} s")
        if self.error is not None:
            raise self.error

    @property
    def is_running(self) -> bool:
        """Whether the thread still copies batches."""
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            if not self._wait_for_state():
                return
            while True:
                try:
                    self._follow()
                except StoreError as error:
                    if not may_pass(error) or self._wait(_AGAIN_S):
                        raise
                    self._is_waiting = True
                    _LOG.warning("the mirror goes on in %g s: %s", _AGAIN_S, error)
                else:
                    return
        except Exception as error:  # noqa: BLE001 it is raised again by `stop`.
            self.error = error
            _LOG.error("the mirror has ended: %s", error)

    def _wait_for_state(self) -> bool:
        """Whether a batch is committed; waits for the first one, and says so.

        It looks once more after the end, since the query may have committed its first batch
        meanwhile. Raises CheckpointError where a given directory is no checkpoint for too long.
        """
        waited_s, tell_s = 0.0, _TELL_S
        while (lacking := _lacking(self._checkpoint)) is not None:
            if self._wait(_FIRST_S):
                return _lacking(self._checkpoint) is None
            waited_s += _FIRST_S
            if waited_s >= tell_s:
                _LOG.info("%s: the mirror waits", lacking.what)
                tell_s += _TELL_AGAIN_S
            is_given = isinstance(self._query, str | Path)
            if is_given and not lacking.is_checkpoint and waited_s >= self._directory_wait_s:
                raise CheckpointError(
                    f"{lacking.what}, and has been so for {self._directory_wait_s:g} s: give the "
                    "checkpoint of a query, and mount its volume"
                )
        return True

    def _follow(self) -> None:
        with ExitStack() as stack:
            copies, teller = {}, stack.enter_context(LogTeller())
            for store, wanted in self._wanted.items():
                given = dict(self._credentials)
                if wanted.token_file is not None:
                    given |= {"token": None, "token_file": wanted.token_file}
                http = stack.enter_context(closing(SyncHttp(**given)))
                follower = StateFollower(self._checkpoint, wanted.operator, wanted.part)
                if note := note_of(follower.place):
                    _LOG.info("%s: %s", store, note)
                copies[store] = StateCopy(
                    follower,
                    http,
                    self._urls[store],
                    store,
                    self._writer,
                    keep_deleted=wanted.keep_deleted,
                    values=wanted.value,
                    staged=partial(teller.staged, store),
                    begins=teller.begins,
                )
                stack.callback(copies[store].close)
            checkpoint = Checkpoint(self._checkpoint)
            self._group = StateCopies(checkpoint, copies)
            if self._is_waiting:
                self._is_waiting = False
                _LOG.info("the pods answer again: the mirror goes on")
            follow(self._group, checkpoint, teller, self.metrics, once=False, wait=self._wait)
            if self._copies_rest:
                follow(self._group, checkpoint, teller, self.metrics, once=True)

    def _wait(self, seconds: float) -> bool:
        """Waits; whether it was stopped, or the query has ended: Spark is asked twice a second."""
        if self._stopped.wait(seconds):
            return True
        now_s = self._clock.monotonic_s()
        if now_s >= self._ask_s:
            self._ask_s = now_s + _ASK_S
            self._has_ended = not _is_active(self._query)
        return self._has_ended


def mirror(
    query: "StreamingQuery | str | Path",
    stores: str | Mapping[str, Mapping[str, Any]],
    *,
    url: Urls | None = None,
    writer: str | None = None,
    token: Token | None = None,
    token_file: str | Path | None = None,
    ca_file: str | Path | None = None,
    directory_wait_s: float = DIRECTORY_WAIT_S,
) -> RunningMirror:
    """Copies parts of a query's state into stores by a thread of this process, as `qss mirror`.

    query: a query that runs, or the directory of its checkpoint.
    stores: the store of the only part; or for each store its part, as
        `{"last": {"part": "last"}, "recent": {"part": "delays", "keepDeleted": True}}`.
    url: of any pod of the stores; by default as `Store` finds them. A store's own `url` and
        `tokenFile` come first. writer: the same in all stores; by default the only store's name.
    token, token_file, ca_file: as in `Store`.
    directory_wait_s: so long it waits for a given directory to be a checkpoint.

    Raises MalformedRequestError for what cannot be copied, and StoreNotFoundError without a URL.
    What needs the state, or an answer of a pod, is found out by the thread.
    """
    wanted = _wanted_of(stores)
    if writer is None:
        if len(wanted) > 1:
            raise MalformedRequestError("writer: several stores need a name for their writer")
        writer = next(iter(wanted))
    credentials = {"token": token, "token_file": token_file, "ca_file": ca_file}
    urls = {name: find_urls(checked_name(name), one.url or url) for name, one in wanted.items()}
    checked = check_writer_name(writer)
    return RunningMirror(query, wanted, checked, urls, credentials, directory_wait_s).start()


@dataclass(frozen=True, slots=True)
class _Lacking:
    """The missing parts of a checkpoint, as text; a checkpoint may lack its first batch alone."""

    what: str
    is_checkpoint: bool


def _lacking(path: Path) -> _Lacking | None:
    """The missing parts of a directory that is to be the checkpoint of a query with a batch."""
    try:
        checkpoint = Checkpoint(path)
    except CheckpointError as error:
        return _Lacking(error.message, is_checkpoint=False)
    try:
        checkpoint.newest()
    except CheckpointError as error:
        return _Lacking(error.message, is_checkpoint=True)
    except OSError as error:
        return _Lacking(f"{path} cannot be read: {error.strerror}", is_checkpoint=False)
    return None


def _wanted_of(stores: object) -> dict[str, WantedCopy]:
    if isinstance(stores, str):
        stores = {stores: {}}
    if not isinstance(stores, Mapping) or not stores:
        raise MalformedRequestError(
            'stores: a name, or a dict as {"last": {"part": "last"}}, '
            f"not {shown_value(stores)}"
        )
    try:
        return {
            name: msgspec.convert({**options, "store": name}, WantedCopy)
            for name, options in stores.items()
        }
    except (msgspec.ValidationError, TypeError) as error:
        raise MalformedRequestError(f"stores: {error}") from error


def _checkpoint_of(query: "StreamingQuery | str | Path") -> Path:
    """The directory of a query's checkpoint. Raises MalformedRequestError where it has none."""
    if isinstance(query, str | Path):
        return _local(query)
    try:
        root = str(query._jsq.streamingQuery().resolvedCheckpointRoot())  # noqa: SLF001 Spark tells it nowhere else.
    except AttributeError as error:
        raise MalformedRequestError(
            "the checkpoint of this query is not known here: give its directory instead"
        ) from error
    return _local(root)


def _local(checkpoint: str | Path) -> Path:
    try:
        return local_directory(checkpoint)
    except CheckpointError as error:
        raise MalformedRequestError(error.message) from error


def _is_active(query: "StreamingQuery | str | Path") -> bool:
    return isinstance(query, str | Path) or bool(query.isActive)
