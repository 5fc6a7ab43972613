"""Ranges, prefixes and full scans: `GET /state/stores/{store}`."""

import math
from contextlib import AbstractContextManager

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
from qss_store.http.content_types import ARROW, JSON, NDJSON, negotiate
from qss_store.http.query.arrow import ArrowEncoder
from qss_store.http.query.streams import (
    EventSource,
    NdjsonEncoder,
    StreamEncoder,
    StreamSlots,
    answers_json,
    collect,
    scan_document,
    send_document,
    stream,
)
from qss_store.http.responses import encoded_query, forwarded_headers, seconds_text
from qss_store.reads.codec import Codec
from qss_store.reads.context import ReadContext
from qss_store.reads.encode.json import JsonRows, RowEncoder
from qss_store.reads.multi_scan import MakePeerRequest, PeerPart, Scan
from qss_store.reads.plans.dispatch import RowsPlan
from qss_store.reads.plans.keys import plan_scan
from qss_store.reads.routing.budget import ReadBudget
from qss_store.reads.routing.peer_reads import BYTES_MAX_HEADER, SECONDS_MAX_HEADER, PeerRequest
from qss_store.reads.scans.cursors import Piece, decode_cursor

MEDIA = (JSON, NDJSON, ARROW)
_OF_THE_PART = frozenset({"partitions", "cursor", "limit", "timeout", "scope"})


class ScanApi:
    """The handler of scans, and the making of scans for IQv2."""

    def __init__(self, reader: ReadContext) -> None:
        self._reader = reader
        streams_max = reader.settings.streams_max
        # Apart: a scan here must not wait for one elsewhere that waits for it.
        self._slots = {scope: StreamSlots(streams_max) for scope in Scope}

    async def get(self, request: web.Request) -> web.StreamResponse:
        """Rows in order, partition by partition."""
        reader = self._reader
        codec = reader.codec(request.match_info["store"])
        parameters = parse_parameters(request.rel_url.raw_query_string, SCAN_PARAMETERS)
        options = options_of(parameters)
        media = negotiate(request, MEDIA)
        plan = plan_scan(parameters, codec)
        encoder = make_encoder(media, codec, plan)
        scan = self.scan(
            request,
            codec,
            plan,
            options,
            limit=limit_of(parameters),
            cursor=parameters.get("cursor"),
            media=media,
            encoder=encoder,
            make_peer_request=peer_requests(request, parameters),
        )
        with self.slot(options):
            return await self.answer(request, scan, encoder)

    def slot(self, options: ReadOptions) -> AbstractContextManager[None]:
        """Holds one of the scans that may run. Raises OverloadedError where there is none."""
        return self._slots[options.scope].taken()

    async def answer(
        self, request: web.Request, scan: EventSource, encoder: JsonRows | StreamEncoder
    ) -> web.StreamResponse:
        """A scan as the client takes it; the encoder is the one that it was made with."""
        if request.method == hdrs.METH_HEAD:
            media = JSON if isinstance(encoder, JsonRows) else encoder.media
            return web.Response(headers={hdrs.CONTENT_TYPE: media})
        if not isinstance(encoder, JsonRows):
            return await stream(request, scan, encoder, self._reader.settings.write_stall_max_s)
        found = await collect(request, scan)
        parts = scan_document(found.all_rows, answers_json(found.answers), found.cursor)
        del found
        return await send_document(request, parts, self._reader.settings.write_stall_max_s)

    def scan(
        self,
        request: web.Request,
        codec: Codec,
        plan: RowsPlan,
        options: ReadOptions,
        *,
        limit: int | None,
        cursor: str | None,
        media: str,
        encoder: RowEncoder,
        make_peer_request: MakePeerRequest,
    ) -> Scan:
        """The scan that a request asks for. Raises for a limit or a cursor that cannot be."""
        pieces = self.pieces(cursor, plan, options, codec)
        budget = self.budget(request, options, limit, media)
        return Scan(
            pod=self._reader.pod,
            peers=self._reader.peers,
            codec=codec,
            plan=plan,
            options=options,
            pieces=pieces,
            budget=budget,
            encoder=encoder,
            is_streamed=not isinstance(encoder, JsonRows),
            make_peer_request=make_peer_request,
        )

    def pieces(
        self, cursor: str | None, plan: RowsPlan, options: ReadOptions, codec: Codec
    ) -> tuple[Piece, ...]:
        """What is to be read, by a cursor or from the start. Raises MalformedCursorError."""
        if cursor is None:
            partitions = self._reader.partitions(options, codec)
            # A cursor cannot go on with a partition that the store does not have: the first page
            # tells of it, whatever its limit is.
            missing_first = sorted(partitions, key=lambda number: number < codec.partitions)
            return tuple(Piece(partition) for partition in missing_first)
        pieces = decode_cursor(cursor, plan, codec)
        wanted = options.partitions
        if wanted is not None and any(piece.partition not in wanted for piece in pieces):
            raise MalformedCursorError(
                "the cursor goes on with partitions that the request does not name"
            )
        return pieces

    def budget(
        self, request: web.Request, options: ReadOptions, limit: int | None, media: str
    ) -> ReadBudget:
        """How much the answer may have. Raises for a limit that cannot be."""
        settings = self._reader.settings
        if limit is not None and limit < 1:
            raise MalformedRequestError("limit: 1 or more rows")
        if media != JSON:
            now = self._reader.pod.clock.monotonic()
            bytes_max = min(settings.stream_bytes_max, _peer_limit(request, BYTES_MAX_HEADER))
            seconds = min(settings.stream_max_s, _peer_limit(request, SECONDS_MAX_HEADER))
            return ReadBudget(limit, int(bytes_max), now + seconds)
        rows = settings.rows_default if limit is None else limit
        if rows > settings.rows_per_answer_max:
            raise TooLargeError(
                f"limit: a JSON answer has up to {settings.rows_per_answer_max} rows; use the "
                f"cursor, or accept {NDJSON}",
                limit=settings.rows_per_answer_max,
            )
        return ReadBudget(rows, settings.answer_bytes_max, self._reader.deadline(options))


def make_encoder(media: str, codec: Codec, plan: RowsPlan) -> JsonRows | StreamEncoder:
    """How the rows of a plan are given in a content type. Raises MalformedRequestError."""
    if media == JSON:
        return JsonRows(codec, plan)
    return ArrowEncoder(codec, plan) if media == ARROW else NdjsonEncoder(codec, plan)


def peer_headers(request: web.Request, part: PeerPart) -> dict[str, str]:
    """The headers of a request for a part of a scan."""
    return {
        **forwarded_headers(request),
        hdrs.ACCEPT: NDJSON,
        BYTES_MAX_HEADER: str(part.bytes_max),
        SECONDS_MAX_HEADER: seconds_text(part.seconds_max),
    }


def peer_requests(
    request: web.Request, parameters: dict[str, str], *, is_of_key: bool = False
) -> MakePeerRequest:
    """Makes requests for parts of a GET; one for a key names no partitions: it has its key's."""
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
    """What another pod, which has promised its own client no more, wants at most."""
    text = request.headers.get(name)
    if text is None:
        return math.inf
    try:
        return max(0.0, float(text))
    except ValueError as error:
        raise MalformedRequestError(f"{name} is a number, not {text[:40]!r}") from error
