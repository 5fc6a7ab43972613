"""Answers `GET /state/windows/{store}[/{key}]`, and `sessions` likewise.

With a key only its partition is read. Without one all partitions are read, one after the other by
key, or merged by time.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec
from aiohttp import web

from qss_core.errors import UnknownQueryTypeError
from qss_core.model import StoreType
from qss_core.queries.parameters import ReadOptions
from qss_core.queries.timed_parameters import (
    SESSION_KEY_PARAMETERS,
    SESSION_PARAMETERS,
    WINDOW_KEY_PARAMETERS,
    WINDOW_PARAMETERS,
    times_of,
)
from qss_store.http.content_types import negotiate
from qss_store.http.path_keys import key_text
from qss_store.http.query.point import PointApi, PointAsk, media_of_values
from qss_store.http.query.scans import ScanApi, asked, peer_requests, rows_request
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
from qss_store.reads.request import ReadRequest

_PlanOne = Callable[[dict[str, str], Codec, bytes], PointPlan]
_PlanMany = Callable[[dict[str, str], Codec, bytes | None], TimedPlan]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """The parameters and plans of queries for one type of store with times."""

    what: str
    type: StoreType
    parameters: tuple[str, ...]
    key_parameters: tuple[str, ...]
    exact: frozenset[str]  # Parameters that select one row.
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
    def __init__(self, reader: ReadContext, points: PointApi, scans: ScanApi) -> None:
        """`points` answers with one row, `scans` with many."""
        self._reader = reader
        self._points = points
        self._scans = scans

    async def of_key(self, what: str, request: web.Request) -> web.StreamResponse:
        """The windows or sessions of a key, or one of them."""
        kind = _KINDS[what]
        codec = self._checked(request.match_info["store"], kind)
        parameters, options = asked(request.rel_url.raw_query_string, kind.key_parameters)
        if kind.exact & parameters.keys():
            return await self._points.answer(_point(request, kind, codec, parameters, options))
        read = _rows_of_key(kind, codec, key_text(request), parameters, options)
        make_peer_request = peer_requests(request, parameters, is_of_key=True)
        return await self._scans.answer(request, read, make_peer_request)

    async def of_keys(self, what: str, request: web.Request) -> web.StreamResponse:
        """The windows or sessions of all keys, or of a range of them."""
        kind = _KINDS[what]
        codec = self._checked(request.match_info["store"], kind)
        parameters, options = asked(request.rel_url.raw_query_string, kind.parameters)
        read = rows_request(codec, kind.plan_many(parameters, codec, None), options, parameters)
        return await self._scans.answer(request, read, peer_requests(request, parameters))

    def of_key_at_once(self, what: str, store: str, key: str, query: str) -> bytes | None:
        """The JSON of the rows of a key; None if the ordinary way has to answer."""
        kind = _KINDS[what]
        codec = self._checked(store, kind)
        parameters, options = asked(query, kind.key_parameters)
        if kind.exact & parameters.keys():
            return None
        return self._scans.read_at_once(_rows_of_key(kind, codec, key, parameters, options))

    def of_keys_at_once(self, what: str, store: str, query: str) -> bytes | None:
        """The JSON of the rows of many keys; None if the ordinary way has to answer."""
        kind = _KINDS[what]
        codec = self._checked(store, kind)
        parameters, options = asked(query, kind.parameters)
        read = rows_request(codec, kind.plan_many(parameters, codec, None), options, parameters)
        return self._scans.read_at_once(read)

    def _checked(self, store: str, kind: _Kind) -> Codec:
        codec = self._reader.codec(store)
        if codec.type is not kind.type:
            raise UnknownQueryTypeError(
                f"/state/{kind.what} is for {kind.type} stores; {codec.name} is a {codec.type} "
                "store"
            )
        return codec


def _rows_of_key(
    kind: _Kind, codec: Codec, key: str, parameters: dict[str, str], options: ReadOptions
) -> ReadRequest[TimedPlan]:
    """The read of the rows of a key given as in a path, from the key's partition."""
    row_key = key_of_text(key, codec)
    plan = kind.plan_many(parameters, codec, row_key)
    partition = partition_of_key(row_key, options.partition, codec)
    read = rows_request(codec, plan, options, parameters)
    here = replace(options, partition=None, partitions=(partition,))
    return msgspec.structs.replace(read, options=here)


def _point(
    request: web.Request,
    kind: _Kind,
    codec: Codec,
    parameters: dict[str, str],
    options: ReadOptions,
) -> PointAsk:
    key = key_of_text(key_text(request), codec)
    plan = kind.plan_one(parameters, codec, key)
    return PointAsk(
        request=request,
        read=ReadRequest(codec, plan, options),
        partition=partition_of_key(key, options.partition, codec),
        parameters=parameters,
        media=negotiate(request, media_of_values(codec)),
        write=make_timed_writer(codec, plan.shape, times_of(parameters)),
    )
