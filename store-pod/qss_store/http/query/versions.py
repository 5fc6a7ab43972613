"""Answers `GET /state/versions/{store}/{key}`: one version of a key, or its history."""

from dataclasses import replace

from aiohttp import web

from qss_core.errors import UnknownQueryTypeError
from qss_core.model import StoreType
from qss_core.queries.parameters import options_of, parse_parameters
from qss_core.queries.timed_parameters import VERSION_PARAMETERS
from qss_store.http.content_types import negotiate
from qss_store.http.path_keys import key_text
from qss_store.http.query.point import PointApi, PointAsk, media_of_values
from qss_store.http.query.scans import ScanApi, peer_requests, rows_request
from qss_store.reads.codec import Codec
from qss_store.reads.context import ReadContext
from qss_store.reads.encode.timed_rows import make_timed_writer
from qss_store.reads.plans.keys import VersionPlan, key_of_text, partition_of_key
from qss_store.reads.plans.versions import plan_versions
from qss_store.reads.request import ReadRequest


class VersionApi:
    def __init__(self, reader: ReadContext, points: PointApi, scans: ScanApi) -> None:
        """`points` answers with one row, `scans` with many."""
        self._reader = reader
        self._points = points
        self._scans = scans

    async def of_key(self, request: web.Request) -> web.StreamResponse:
        """The version of a key as of a time, or its history."""
        codec = self._codec(request)
        parameters = parse_parameters(request.rel_url.raw_query_string, VERSION_PARAMETERS)
        options = options_of(parameters)
        key = key_of_text(key_text(request), codec)
        plan = plan_versions(parameters, codec, key)
        partition = partition_of_key(key, options.partition, codec)
        if isinstance(plan, VersionPlan):
            ask = PointAsk(
                request=request,
                read=ReadRequest(codec, plan, options),
                partition=partition,
                parameters=parameters,
                media=negotiate(request, media_of_values(codec)),
                write=make_timed_writer(codec, codec.shape, plan.times),
            )
            return await self._points.answer(ask)
        options = replace(options, partition=None, partitions=(partition,))
        read = rows_request(codec, plan, options, parameters)
        make_peer_request = peer_requests(request, parameters, is_of_key=True)
        return await self._scans.answer(request, read, make_peer_request)

    async def of_all(self, request: web.Request) -> web.StreamResponse:
        """Always refuses: versions are read by key."""
        codec = self._codec(request)
        raise UnknownQueryTypeError(
            f"versions of store {codec.name} are asked for key by key: "
            f"/state/versions/{codec.name}/<key>"
        )

    def _codec(self, request: web.Request) -> Codec:
        codec = self._reader.codec(request.match_info["store"])
        if codec.type is not StoreType.VERSIONED:
            raise UnknownQueryTypeError(
                f"/state/versions is for {StoreType.VERSIONED} stores; {codec.name} is a "
                f"{codec.type} store"
            )
        return codec
