"""Ranges, prefixes and full scans: `GET /state/stores/{store}`."""

import math
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import TypeVar

from aiohttp import hdrs, web

from qss_core.errors import MalformedCursorError, MalformedRequestError, TooLargeError
from qss_core.queries.parameters import (
    SCAN_PARAMETERS,
    ReadOptions,
    Scope,
    limit_of,
    options_of,
    parse_parameters,
)
from qss_store.http.content_types import ARROW, CSV, CSV_WITH_HEADER, JSON, NDJSON, negotiate
from qss_store.http.middleware import MEMORY
from qss_store.http.query.arrow import ArrowEncoder
from qss_store.http.query.fast_rows import FewRowsPlan, rows_at_once
from qss_store.http.query.streams import (
    Collected,
    EventSource,
    NdjsonEncoder,
    PodEncoder,
    StreamEncoder,
    StreamSlots,
    answers_json,
    collect,
    scan_document,
    send_csv_page,
    send_document,
    stream,
    stream_csv,
)
from qss_store.http.responses import encoded_query, forwarded_headers, seconds_text
from qss_store.reads.codec import Codec
from qss_store.reads.context import ReadContext
from qss_store.reads.encode.csv_encoder import CsvRows
from qss_store.reads.encode.json import JsonRows, ScanEncoder
from qss_store.reads.encode.rows_for_pods import ROW_KEYS_HEADER
from qss_store.reads.multi_scan import MakePeerRequest, PeerPart, Scan
from qss_store.reads.plans.dispatch import RowsPlan
from qss_store.reads.plans.keys import ScanPlan, plan_scan
from qss_store.reads.plans.times import TimedPlan
from qss_store.reads.request import ReadRequest
from qss_store.reads.routing.budget import ReadBudget
from qss_store.reads.routing.peer_reads import BYTES_MAX_HEADER, SECONDS_MAX_HEADER, PeerRequest
from qss_store.reads.scans.cursors import Piece, decode_cursor
from qss_store.reads.time_scan import TimeScan

MEDIA = (JSON, NDJSON, ARROW, CSV)
SendJson = Callable[[web.Request, Collected], Awaitable[web.StreamResponse]]
Plan = TypeVar("Plan", bound=RowsPlan)
_ASKED_MAX = 256
_ASKED_CHARACTERS_MAX = 256  # Longer ones have a cursor or bound, rarely repeated.
_OF_THE_PART = frozenset({"partitions", "cursor", "limit", "timeout", "scope"})


class ScanApi:
    """Answers scans, and makes the scans of IQv2 queries."""

    def __init__(self, reader: ReadContext) -> None:
        self._reader = reader
        streams_max = reader.settings.streams_max
        # Scopes have separate slots: a global scan waits for local scans of other pods.
        self._slots = {scope: StreamSlots(streams_max) for scope in Scope}

    async def get(self, request: web.Request) -> web.StreamResponse:
        store, query = request.match_info["store"], request.rel_url.raw_query_string
        read, parameters = self._asked(store, query)
        return await self.answer(request, read, peer_requests(request, parameters))

    def at_once(self, store: str, query: str) -> bytes | None:
        """The JSON of a range's rows; None if the ordinary way has to answer."""
        read, _ = self._asked(store, query)
        return self.read_at_once(read)

    def read_at_once(self, read: ReadRequest[FewRowsPlan]) -> bytes | None:
        """The JSON that `answer` sends; None if the ordinary way has to answer."""
        if self._slots[read.options.scope].is_full:
            return None
        return rows_at_once(self._reader, read, pieces_of(self._reader, read))

    def _asked(self, store: str, query: str) -> tuple[ReadRequest[ScanPlan], dict[str, str]]:
        codec = self._reader.codec(store)
        parameters, options = asked(query, SCAN_PARAMETERS)
        return rows_request(codec, plan_scan(parameters, codec), options, parameters), parameters

    async def answer(
        self,
        request: web.Request,
        read: ReadRequest[RowsPlan],
        make_peer_request: MakePeerRequest,
        send_json: SendJson | None = None,
    ) -> web.StreamResponse:
        """Sends the rows as the client takes them; `send_json` sends a different JSON document."""
        media = negotiate(request, MEDIA)
        encoder = make_encoder(media, read.codec, read.plan)
        if media == NDJSON and ROW_KEYS_HEADER in request.headers:
            encoder = PodEncoder(read.codec, read.plan)
        # A page of CSV needs its cursor before the first row.
        is_page = media == JSON or (media == CSV and read.limit is not None)
        scan = self._scan(request, read, encoder, make_peer_request, is_page=is_page)
        stall_max_s = self._reader.settings.write_stall_max_s
        with self.slot(read.options):
            if request.method == hdrs.METH_HEAD:
                shown = CSV_WITH_HEADER if media == CSV else media
                return web.Response(headers={hdrs.CONTENT_TYPE: shown})
            if isinstance(encoder, CsvRows):
                send_csv = send_csv_page if is_page else stream_csv
                return await send_csv(request, scan, encoder, stall_max_s)
            if not isinstance(encoder, JsonRows):
                return await stream(request, scan, encoder, stall_max_s)
            found = await collect(request, scan)
            if send_json is not None:
                return await send_json(request, found)
            parts = scan_document(found.all_rows, answers_json(found.answers), found.cursor)
            del found
            return await send_document(request, parts, stall_max_s)

    def slot(self, options: ReadOptions) -> AbstractContextManager[None]:
        """Holds the slot of one scan. Raises OverloadedError if none is free."""
        return self._slots[options.scope].taken()

    def _scan(
        self,
        request: web.Request,
        read: ReadRequest[RowsPlan],
        encoder: ScanEncoder,
        make_peer_request: MakePeerRequest,
        *,
        is_page: bool,
    ) -> EventSource:
        """The scan of a request. Raises for an invalid limit or cursor."""
        plan = read.plan
        if isinstance(plan, TimedPlan) and plan.by_time:
            self._check_page(read.limit, is_page=is_page)
            budget = self._budget(request, read, is_page=is_page)
            budget.bytes_left = min(budget.bytes_left, self._reader.settings.answer_bytes_max)
            budget.deadline = self._reader.deadline(read.options)
            return TimeScan(
                reader=self._reader,
                request=ReadRequest(read.codec, plan, read.options),
                pieces=pieces_of(self._reader, read),
                budget=budget,
                encoder=encoder,
                make_peer_request=make_peer_request,
                memory=request.get(MEMORY),
            )
        return Scan(
            reader=self._reader,
            request=read,
            pieces=pieces_of(self._reader, read),
            budget=self._budget(request, read, is_page=is_page),
            encoder=encoder,
            is_streamed=not is_page,
            make_peer_request=make_peer_request,
        )

    def _budget(
        self, request: web.Request, read: ReadRequest[RowsPlan], *, is_page: bool
    ) -> ReadBudget:
        """The limits of the answer. Raises for an invalid limit."""
        settings, limit = self._reader.settings, read.limit
        if limit is not None and limit < 1:
            raise MalformedRequestError("limit: 1 or more rows")
        if not is_page:
            now = self._reader.pod.clock.monotonic_s()
            bytes_max = min(settings.stream_bytes_max, _peer_limit(request, BYTES_MAX_HEADER))
            seconds = min(settings.stream_max_s, _peer_limit(request, SECONDS_MAX_HEADER))
            return ReadBudget(limit, int(bytes_max), now + seconds)
        rows = settings.rows_default if limit is None else limit
        if rows > settings.rows_per_answer_max:
            raise TooLargeError(
                f"limit: a JSON answer or a page of CSV has up to {settings.rows_per_answer_max} "
                f"rows; use the cursor, or accept {NDJSON}",
                limit=settings.rows_per_answer_max,
            )
        return ReadBudget(rows, settings.answer_bytes_max, self._reader.deadline(read.options))

    def _check_page(self, limit: int | None, *, is_page: bool) -> None:
        """Refuses a page by time that is larger than memory allows."""
        rows_max = self._reader.settings.rows_by_time_max
        if limit is None and not is_page:
            raise MalformedRequestError(
                f"orderBy=time needs a limit of up to {rows_max} rows: give one, and continue with "
                "the cursor"
            )
        if limit is not None and limit > rows_max:
            raise TooLargeError(
                f"limit: a page with orderBy=time has up to {rows_max} rows; follow the cursor",
                limit=rows_max,
            )


def asked(query: str, allowed: tuple[str, ...]) -> tuple[dict[str, str], ReadOptions]:
    """The parameters and options of a query string. They are cached: do not change them."""
    ask = remembered if len(query) <= _ASKED_CHARACTERS_MAX else _parsed
    return ask(query, allowed)


def _parsed(query: str, allowed: tuple[str, ...]) -> tuple[dict[str, str], ReadOptions]:
    parameters = parse_parameters(query, allowed)
    return parameters, options_of(parameters)


remembered = lru_cache(maxsize=_ASKED_MAX)(_parsed)


def pieces_of(reader: ReadContext, read: ReadRequest[RowsPlan]) -> tuple[Piece, ...]:
    """The partitions to read, from the cursor if there is one. Raises MalformedCursorError."""
    codec, options = read.codec, read.options
    if read.cursor is None:
        partitions = reader.partitions(options, codec)
        # A cursor cannot continue with a partition that the store does not have, so the first page
        # reports such partitions, whatever its limit.
        missing_first = sorted(partitions, key=lambda number: number < codec.partitions)
        return tuple(Piece(partition) for partition in missing_first)
    pieces = decode_cursor(read.cursor, read.plan, codec)
    wanted = options.partitions
    if wanted is not None and any(piece.partition not in wanted for piece in pieces):
        raise MalformedCursorError("the cursor has partitions that the request does not name")
    return pieces


def rows_request(
    codec: Codec, plan: Plan, options: ReadOptions, parameters: dict[str, str]
) -> ReadRequest[Plan]:
    """The read of rows that a GET asks for, with its limit and cursor."""
    return ReadRequest(codec, plan, options, limit_of(parameters), parameters.get("cursor"))


def make_encoder(media: str, codec: Codec, plan: RowsPlan) -> JsonRows | CsvRows | StreamEncoder:
    """The encoder of a plan's rows in a content type. Raises MalformedRequestError."""
    if media == JSON:
        return JsonRows(codec, plan)
    if media == CSV:
        return CsvRows(codec, plan)
    return ArrowEncoder(codec, plan) if media == ARROW else NdjsonEncoder(codec, plan)


def peer_headers(request: web.Request, part: PeerPart) -> dict[str, str]:
    return {
        **forwarded_headers(request),
        hdrs.ACCEPT: NDJSON,
        BYTES_MAX_HEADER: str(part.bytes_max),
        SECONDS_MAX_HEADER: seconds_text(part.seconds_max),
        ROW_KEYS_HEADER: "1",
    }


def peer_requests(
    request: web.Request, parameters: dict[str, str], *, is_of_key: bool = False
) -> MakePeerRequest:
    """Makes the requests for parts of a GET; requests for a key name no partitions."""
    kept = {name: value for name, value in parameters.items() if name not in _OF_THE_PART}

    def make(part: PeerPart) -> PeerRequest:
        asked = {
            **kept,
            "scope": Scope.LOCAL.value,
            "timeout": seconds_text(part.timeout_s),
        }
        if not is_of_key:
            asked["partitions"] = str(part.partition)
        if part.cursor is not None:
            asked["cursor"] = part.cursor
        if part.limit is not None:
            asked["limit"] = str(part.limit)
        path = f"{request.rel_url.raw_path}?{encoded_query(asked)}"
        return PeerRequest(method="GET", path=path, headers=peer_headers(request, part))

    return make


def _peer_limit(request: web.Request, name: str) -> float:
    """The limit that another pod sends with a part of its own client's request."""
    text = request.headers.get(name)
    if text is None:
        return math.inf
    try:
        return max(0.0, float(text))
    except ValueError as error:
        raise MalformedRequestError(f"{name} is a number, not {text[:40]!r}") from error
