"""The writer of a copy in its store: a store has one copy of a state at most."""

import uuid
from collections.abc import Iterable
from contextlib import suppress
from functools import partial

from qss_client.addresses import Urls
from qss_client.http.retries import RetryLimits
from qss_client.http.sync_http import SyncHttp
from qss_client.writes.batch import WRITE_LIMITS, Run, abort, discover, open_writer, renew
from qss_client.writes.writers import delete_writer, list_writers
from qss_core.errors import MalformedRequestError, StoreError
from qss_core.wire.writer_reports import WriterReport

BEGUN = "@"  # In the id of a copy: between the part of the state and the first batch.
_CLOSE_LIMITS = RetryLimits(deadline_s=1.0)


class CopyWriter:
    """Opens and closes the writer of one copy, and refuses other copies in its store."""

    def __init__(
        self, http: SyncHttp, urls: Urls, store: str, name: str, copied: str, *, direct: bool
    ) -> None:
        """`copied` is the id of the query and the part of its state that the writer copies."""
        self.name = name
        self.metadata = discover(http, urls, store, WRITE_LIMITS)
        self.run: Run | None = None
        self._http = http
        self._store = self.metadata.definition.name
        self._copied = copied
        self._list = partial(list_writers, http, urls, store, direct=direct)
        self._delete = partial(delete_writer, http, urls, store, name, force=True, direct=direct)

    def held(self) -> WriterReport | None:
        """The writer as the store knows it; None before its first copy.

        Raises MalformedRequestError where the store has another copy of a state.
        """
        known = self._list()
        self._refuse([one for one in known if one.last_batch is not None])
        held = next((one for one in known if one.name == self.name), None)
        if held is not None and (other := held.query_id.partition(BEGUN)[0]) != self._copied:
            raise MalformedRequestError(
                f"the writer {self.name} of store {self._store} copies {other}, and this is "
                f"{self._copied}: give each part of a state its own store"
            )
        return held

    def open(self, query_id: str, *, take_over: bool = False) -> Run:
        """Opens a run of the writer; a run before it is fenced."""
        self.run = open_writer(
            self._http,
            self.metadata,
            self.name,
            query_id=query_id,
            run_id=uuid.uuid4().hex,
            take_over=take_over,
        )
        return self.run

    def stay_alone(self) -> None:
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

    def renew(self) -> None:
        """Keeps the run open while the query commits nothing. Raises StaleWriterError."""
        if self.run is not None:
            renew(self._http, self.run)

    def close(self, last_batch: int) -> None:
        """Ends the run: the store need not wait for it. An error of the store is ignored."""
        if self.run is not None:
            with suppress(StoreError):
                abort(self._http, self.run, last_batch + 1, _CLOSE_LIMITS)

    def _refuse(self, writers: Iterable[WriterReport]) -> None:
        """Raises MalformedRequestError where one of these writers is another copy of a state."""
        for one in writers:
            if one.name != self.name and BEGUN in one.query_id and not one.one_off:
                store, other = self._store, one.query_id.partition(BEGUN)[0]
                raise MalformedRequestError(
                    f"the writer {one.name} of store {store} copies {other} into it, and this is "
                    f"{self._copied} by the writer {self.name}: give each part of a state its own "
                    "store. To copy by another writer than before, end that copy, and delete its "
                    f"writer: qss writers {store} --delete {one.name}"
                )
