"""Windows and sessions: `GET /state/windows/{store}[/{key}]`, and the same of sessions.

With a key only its partition is asked; without one all are, one after the other by key, or merged
by time.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from aiohttp import web

from qss_core.errors import MalformedRequestError, TooLargeError, UnknownQueryTypeError
from qss_core.model import StoreType
from qss_core.queries.parameters import ReadOptions, limit_of, options_of, parse_parameters
from qss_core.queries.timed_parameters import (
    SESSION_KEY_PARAMETERS,
    SESSION_PARAMETERS,
    WINDOW_KEY_PARAMETERS,
    WINDOW_PARAMETERS,
    times_of,
)
from qss_store.http.content_types import JSON, OCTETS, negotiate
from qss_store.http.middleware import MEMORY
from qss_store.http.path_keys import key_text
from qss_store.http.query.fast_rows import rows_at_once
from qss_store.http.query.point import PointApi, PointAsk
from qss_store.http.query.scans import MEDIA, ScanApi, make_encoder, peer_requests
from qss_store.http.query.streams import EventSource
from qss_store.reads.codec import Codec
from qss_store.reads.context import ReadContext
from qss_store.reads.encode.timed_rows import make_timed_writer
from qss_store.reads.plans.keys import PointPlan, key_of_text, partition_of_key
from qss_store.reads.plans.times import (
    TimedPlan,
    plan_session,
    plan_sessions,
    plan_window,
    plan_windows,
)
from qss_store.reads.time_scan import TimeScan

_ASKED_MAX = 256
_ASKED_CHARACTERS_MAX = 256  # Longer ones have a cursor or a bound, which changes all the time.
_PlanOne = Callable[[dict[str, str], Codec, bytes], PointPlan]
_PlanMany = Callable[[dict[str, str], Codec, bytes | None], TimedPlan]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """What is asked of one type of store."""

    what: str
    type: StoreType
    parameters: tuple[str, ...]
    key_parameters: tuple[str, ...]
    exact: frozenset[str]  # Parameters that name one row.
    plan_one: _PlanOne
    plan_many: _PlanMany


_WINDOWS = _Kind(
    what="windows",
    type=StoreType.WINDOW,
    parameters=WINDOW_PARAMETERS,
    key_parameters=WINDOW_KEY_PARAMETERS,
    exact=frozenset({"start"}),
    plan_one=plan_window,
    plan_many=plan_windows,
)
_SESSIONS = _Kind(
    what="sessions",
    type=StoreType.SESSION,
    parameters=SESSION_PARAMETERS,
    key_parameters=SESSION_KEY_PARAMETERS,
    exact=frozenset({"start", "end"}),
    plan_one=plan_session,
    plan_many=plan_sessions,
)


_KINDS = {kind.what: kind for kind in (_WINDOWS, _SESSIONS)}


class TimedApi:
    """The handlers of windows and sessions."""

    def __init__(self, reader: ReadContext, points: PointApi, scans: ScanApi) -> None:
        """Answers from `reader`; one row by `points`, many by `scans`."""
        self._reader = reader
        self._points = points
        self._scans = scans

    async def windows_of_key(self, request: web.Request) -> web.StreamResponse:
        """The windows of a key, or one of them."""
        return await self._of_key(request, _WINDOWS)

    async def windows(self, request: web.Request) -> web.StreamResponse:
        """The windows of all keys, or of a range of them."""
        return await self._of_keys(request, _WINDOWS)

    async def sessions_of_key(self, request: web.Request) -> web.StreamResponse:
        """The sessions of a key, or one of them."""
        return await self._of_key(request, _SESSIONS)

    async def sessions(self, request: web.Request) -> web.StreamResponse:
        """The sessions of all keys, or of a range of them."""
        return await self._of_keys(request, _SESSIONS)

    async def _of_key(self, request: web.Request, kind: _Kind) -> web.StreamResponse:
        codec, parameters, options = self._parse(request, kind, kind.key_parameters)
        key = key_of_text(key_text(request), codec)
        if kind.exact & parameters.keys():
            plan = kind.plan_one(parameters, codec, key)
            return await self._points.answer(_point(request, codec, parameters, options, plan, key))
        rows_plan = kind.plan_many(parameters, codec, key)
        partition = partition_of_key(key, options.partition, codec)
        options = replace(options, partition=None, partitions=(partition,))
        return await self._scan(request, codec, parameters, options, rows_plan, is_of_key=True)

    async def _of_keys(self, request: web.Request, kind: _Kind) -> web.StreamResponse:
        codec, parameters, options = self._parse(request, kind, kind.parameters)
        plan = kind.plan_many(parameters, codec, None)
        return await self._scan(request, codec, parameters, options, plan, is_of_key=False)

    def of_key_at_once(self, what: str, store: str, key_text: str, query: str) -> bytes | None:
        """The JSON of many rows of a key, where they are here; None: the ordinary way has to."""
        kind = _KINDS[what]
        codec = self._checked(store, kind)
        parameters, options = asked(query, kind.key_parameters)
        if kind.exact & parameters.keys() or "cursor" in parameters:
            return None
        key = key_of_text(key_text, codec)
        plan = kind.plan_many(parameters, codec, key)
        partition = partition_of_key(key, options.partition, codec)
        limit = limit_of(parameters)
        return rows_at_once(self._reader, codec, plan, options, partition, limit)

    def _parse(
        self, request: web.Request, kind: _Kind, allowed: tuple[str, ...]
    ) -> tuple[Codec, dict[str, str], ReadOptions]:
        codec = self._checked(request.match_info["store"], kind)
        parameters, options = asked(request.rel_url.raw_query_string, allowed)
        return codec, parameters, options

    def _checked(self, store: str, kind: _Kind) -> Codec:
        codec = self._reader.codec(store)
        if codec.type is not kind.type:
            raise UnknownQueryTypeError(
                f"/state/{kind.what} is for {kind.type} stores; {codec.name} is a {codec.type} "
                "store"
            )
        return codec

    async def _scan(
        self,
        request: web.Request,
        codec: Codec,
        parameters: dict[str, str],
        options: ReadOptions,
        plan: TimedPlan,
        *,
        is_of_key: bool,
    ) -> web.StreamResponse:
        media = negotiate(request, MEDIA)
        encoder = make_encoder(media, codec, plan)
        limit, cursor = limit_of(parameters), parameters.get("cursor")
        make_peer_request = peer_requests(request, parameters, is_of_key=is_of_key)
        scan: EventSource
        if plan.by_time:
            self._check_page(limit, media)
            settings = self._reader.settings
            budget = self._scans.budget(request, options, limit, media)
            budget.bytes_left = min(budget.bytes_left, settings.answer_bytes_max)
            budget.deadline = self._reader.deadline(options)
            scan = TimeScan(
                pod=self._reader.pod,
                peers=self._reader.peers,
                codec=codec,
                plan=plan,
                options=options,
                pieces=self._scans.pieces(cursor, plan, options, codec),
                budget=budget,
                encoder=encoder,
                make_peer_request=make_peer_request,
                memory=request.get(MEMORY),
            )
        else:
            scan = self._scans.scan(
                request,
                codec,
                plan,
                options,
                limit=limit,
                cursor=cursor,
                media=media,
                encoder=encoder,
                make_peer_request=make_peer_request,
            )
        with self._scans.slot(options):
            return await self._scans.answer(request, scan, encoder)

    def _check_page(self, limit: int | None, media: str) -> None:
        """Refuses a page by time that no memory bounds."""
        rows_max = self._reader.settings.rows_by_time_max
        if limit is None and media != JSON:
            raise MalformedRequestError(
                f"orderBy=time gives pages of up to {rows_max} rows: say a limit, and follow the "
                "cursor"
            )
        if limit is not None and limit > rows_max:
            raise TooLargeError(
                f"limit: a page with orderBy=time has up to {rows_max} rows; follow the cursor",
                limit=rows_max,
            )


def asked(query: str, allowed: tuple[str, ...]) -> tuple[dict[str, str], ReadOptions]:
    """What a query string asks for, not to be changed: clients ask the same of many keys."""
    ask = remembered if len(query) <= _ASKED_CHARACTERS_MAX else _parsed
    return ask(query, allowed)


def _parsed(query: str, allowed: tuple[str, ...]) -> tuple[dict[str, str], ReadOptions]:
    parameters = parse_parameters(query, allowed)
    return parameters, options_of(parameters)


remembered = lru_cache(maxsize=_ASKED_MAX)(_parsed)


def _point(
    request: web.Request,
    codec: Codec,
    parameters: dict[str, str],
    options: ReadOptions,
    plan: PointPlan,
    key: bytes,
) -> PointAsk:
    offered = (JSON, OCTETS) if codec.value.name == "bytes" else (JSON,)
    return PointAsk(
        request=request,
        codec=codec,
        parameters=parameters,
        options=options,
        media=negotiate(request, offered),
        plan=plan,
        partition=partition_of_key(key, options.partition, codec),
        write=make_timed_writer(codec, plan.shape, times_of(parameters)),
    )
