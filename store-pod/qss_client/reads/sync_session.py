# `make sync-client` writes this module from async_session.py.
"""A session with one store: it finds the pods, sends requests and repeats them."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from qss_client.arguments import check_limit
from qss_client.http.answer import HttpAnswer
from qss_client.http.retries import RetryLimits, no_answer
from qss_client.http.sync_http import Retrier, SyncHttp
from qss_client.reads import calls
from qss_client.reads.calls import Exchange, Result
from qss_client.reads.requests import PAGE_ROWS, TABLE_ROWS, HttpRequest
from qss_client.reads.routing.attempt import ELSEWHERE
from qss_client.reads.routing.replica_choice import named_by_partition
from qss_client.reads.scans import RowType, Scan
from qss_client.reads.session import SessionState
from qss_client.reads.tables import Scanned
from qss_core.errors import (
    NotUpToBoundError,
    StoreError,
    StoreNotFoundError,
    WrongStoreError,
)
from qss_core.model import StoreDefinition
from qss_core.wire.messages import StoreMetadata, decode

if TYPE_CHECKING:
    import pyarrow as pa

_AT_ONCE_S = 0.5
_DISCOVERY_S = 5.0


class Session:
    """Runs exchanges: finds the pods, sends requests, and repeats them by the rules."""

    def __init__(self, state: SessionState, http: SyncHttp, limits: RetryLimits) -> None:
        """Sends nothing yet; `close` closes `http`."""
        self.state = state
        self._http = http
        self._limits = limits
        self._is_closed = False

    def close(self) -> None:
        self._is_closed = True
        self._http.close()

    def metadata(self) -> StoreMetadata:
        """The store's pods and partitions, as of the last discovery."""
        if self._is_closed:
            raise StoreError("this client of the store was closed: make another one")
        if self.state.metadata is None:
            self._discover(Retrier(self._limits))
        assert self.state.metadata is not None
        return self.state.metadata

    def scanned(self, scan: Scan[RowType], limit: int | None) -> Scanned[RowType]:
        """The rows of a scan, read as they are taken; at most `limit`."""
        check_limit(limit)
        return Scanned(self.pages(scan, limit), lambda: self.tables(scan, limit))

    def tables(self, scan: Scan[Any], limit: int | None) -> "Iterator[pa.Table]":
        """The rows of a scan as tables, one for each page."""
        definition = self.definition()
        cursor, left = None, limit
        while True:
            rows = min(TABLE_ROWS, scan.rows_max, TABLE_ROWS if left is None else left)
            table, cursor = self.run(calls.table_page(self.state, definition, scan, rows, cursor))
            yield table
            left = None if left is None else left - table.num_rows
            if cursor is None or left == 0:
                return

    def pages(self, scan: Scan[RowType], limit: int | None) -> Iterator[RowType]:
        """The rows of a scan, page by page."""
        definition = self.definition()
        cursor = None
        left = limit
        while left is None or left > 0:
            page = self.run(
                calls.page(
                    self.state,
                    definition,
                    scan,
                    PAGE_ROWS if left is None else min(PAGE_ROWS, left),
                    cursor,
                )
            )
            yield from page.rows
            left = None if left is None else left - len(page.rows)
            cursor = page.cursor
            if cursor is None:
                return

    def run(self, exchange: Exchange[Result]) -> Result:
        try:
            request = next(exchange)
            while True:
                if request.after is None:
                    retrier = Retrier(self._limits.within(request.timeout_s))
                try:
                    answer = self._ask(request, retrier)
                except StoreError as error:
                    request = exchange.throw(error)
                else:
                    request = exchange.send(answer)
        except StopIteration as end:
            result: Result = end.value
            return result

    def _ask(self, request: HttpRequest, retrier: Retrier) -> HttpAnswer:
        failure = request.after
        while True:
            if failure is not None and (retrier.after(failure)).refresh:
                self._discover(retrier, failure)
            asked_of = self.state.store_id
            try:
                answer = self._ask_in_turn(request, retrier)
            except StoreError as error:
                failure = named_by_partition(error, request)
            else:
                if self.state.store_id == asked_of:
                    return answer
            if self.state.store_id != asked_of:
                # This may be a late answer of the store before: the new one may never reach its
                # position. The waits and the limit are those of every other failure.
                failure = WrongStoreError("the store was made again while it was asked")

    def _ask_in_turn(self, request: HttpRequest, retrier: Retrier) -> HttpAnswer:
        """Asks the pods that may answer, one after the other while none gives an answer."""
        attempt = self.state.attempt(request, retrier.now_s)
        while True:
            base, limit_s = attempt.take(retrier.now_s)
            asked = partial(
                self._http.request,
                request.method,
                base + self.state.target(request),
                body=self.state.data(request),
                headers=request.headers,
                timeout_s=limit_s,
                telling=retrier.telling,
            )
            try:
                if attempt.is_watched:
                    works = partial(self._refresh, base)
                    answer = self._http.watched(base, asked, works)
                else:
                    answer = asked()
            except ELSEWHERE as error:
                attempt.missed(error, retrier.now_s)
            else:
                if attempt.answered(retrier.now_s):
                    self._refresh(base)
                return answer

    def _refresh(self, base: str) -> bool:
        """Takes newer routes from a pod; returns whether it has answered at once."""
        url, asked_of = self.state.discovery_url(base), self.state.store_id
        try:
            answer = self._http.request("GET", url, timeout_s=_AT_ONCE_S)
            self.state.learn(decode(answer.body, StoreMetadata), asked_of)
        except StoreError:
            return False
        return True

    def definition(self) -> StoreDefinition:
        metadata = self.metadata()
        return metadata.definition

    def _discover(self, retrier: Retrier, reason: StoreError | None = None) -> None:
        """Asks the pods for the store's metadata, one after the other, until one answers.

        Warnings tell the `reason` why the request needs other routes, if there is one. After a
        NotUpToBoundError each pod is asked once, and the request goes on with the known routes: the
        pod that was behind has answered, so the request waits for no silent pod.
        """
        is_first = self.state.metadata is None
        is_behind = isinstance(reason, NotUpToBoundError)
        while True:
            failures: list[StoreError] = []
            urls = self.state.discovery_urls(retrier.now_s)
            for number, url in enumerate(urls):
                asked_of = self.state.store_id
                timeout_s = _AT_ONCE_S if is_behind else _DISCOVERY_S
                if is_first:
                    left = len(urls) - number
                    timeout_s = self._limits.share_of_first_contact(retrier.elapsed_s, left)
                try:
                    answer = self._http.request(
                        "GET", url, timeout_s=timeout_s, telling=retrier.telling
                    )
                except StoreError as error:
                    failures.append(error)
                else:
                    self.state.learn(decode(answer.body, StoreMetadata), asked_of)
                    return
            # Pods of other stores will not serve this one later.
            if all(isinstance(one, StoreNotFoundError) for one in failures):
                raise failures[-1]
            if is_behind:
                return
            if is_first:
                failure = no_answer(self.state.store, failures)
                retrier.after(failure, self._limits.of_first_contact(failures))
            else:
                retrier.after(reason or failures[-1])
