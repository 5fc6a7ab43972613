"""The handlers for other pods' replicas: hello, entries of changelogs, and snapshots."""

import asyncio
from contextlib import aclosing

from aiohttp import hdrs, web

from qss_store.http.internal.kept_work import KeptWork
from qss_store.http.large_answers import patience
from qss_store.http.middleware import BodyPace, read_body, takes_memory
from qss_store.replicas.transfer.log_receiver import LogReceiver
from qss_store.replicas.transfer.snapshots import Snapshots
from qss_store.replication.frames import FRAME_BYTES_MAX, frames_bytes
from qss_store.replication.messages import (
    AppendRequest,
    CompareRequest,
    Done,
    HelloRequest,
    SnapshotEnd,
    SnapshotPartRequest,
    SnapshotRequest,
    UnlikeRequest,
    decode_message,
    encode_message,
)
from qss_store.runtime.metrics import Carried, ReplicationMetrics
from qss_store.runtime.peer_client import REPLICATION_MEDIA
from qss_store.runtime.settings import Settings

_HELLO_BYTES_MAX = 1024 * 1024  # To decode a message holds the event loop.
_FRAMES_AT_ONCE = 2  # One is read while the other one is sent.
_SLICE_BYTES = 256 * 1024  # Written at once: the event loop rests between two of them.
_GREET_FEWER = "greet fewer partitions at once"
_SPLIT = "a request has 4 MiB of entries, or one entry that is larger"


class ReplicationApi:
    """Decodes MessagePack bodies, and encodes the receiver's answers."""

    def __init__(
        self,
        receiver: LogReceiver,
        snapshots: Snapshots,
        settings: Settings,
        metrics: ReplicationMetrics,
        kept: KeptWork,
    ) -> None:
        self._kept = kept
        self._metrics = metrics
        self._receiver = receiver
        self._snapshots = snapshots
        self._bytes_max = settings.replication_bytes_max
        self._pace = BodyPace(total_s=settings.body_deadline_s)
        self._stall_max_s = settings.write_stall_max_s

    async def hello(self, request: web.Request) -> web.Response:
        """Answers what the pod's replicas are, once they have taken the epochs."""
        body = await read_body(request, _HELLO_BYTES_MAX, self._pace, _GREET_FEWER)
        self._metrics.received(Carried.CHANGELOG, len(body))
        message = decode_message(body, HelloRequest)
        return _response(await self._receiver.hello(message))

    async def append(self, request: web.Request) -> web.Response:
        """Takes the entries and watermarks of other pods' actives."""
        body = await self._body(request)
        self._metrics.received(Carried.CHANGELOG, len(body))
        message = decode_message(body, AppendRequest)
        return _response(await self._receiver.append(message))

    async def snapshot(self, request: web.Request) -> web.Response:
        """Makes a snapshot of a partition for a learner."""
        message = decode_message(await self._body(request), SnapshotRequest)
        return _response(await self._kept.finish(self._snapshots.begin(message)))

    async def snapshot_part(self, request: web.Request) -> web.StreamResponse:
        """Sends bytes of one file of a snapshot, in frames.

        Not by `write_in_slices`: its small slices are for clients that read slowly.
        """
        message = decode_message(await self._body(request), SnapshotPartRequest)
        self._snapshots.check_part(message)
        takes_memory(request, _FRAMES_AT_ONCE * FRAME_BYTES_MAX)
        response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: REPLICATION_MEDIA})
        response.content_length = frames_bytes(message.size)
        async with aclosing(self._snapshots.part(message)) as frames:
            async for frame in frames:
                if not response.prepared:
                    await response.prepare(request)
                with patience(request):
                    async with asyncio.timeout(self._stall_max_s):
                        for start in range(0, len(frame), _SLICE_BYTES):
                            await response.write(frame[start : start + _SLICE_BYTES])
                self._metrics.sent(Carried.SNAPSHOT, len(frame))
        await response.write_eof()
        return response

    async def snapshot_end(self, request: web.Request) -> web.Response:
        """Deletes a snapshot that its learner has read."""
        message = decode_message(await self._body(request), SnapshotEnd)
        await self._kept.finish(self._snapshots.end(message))
        return _response(Done())

    async def compare(self, request: web.Request) -> web.Response:
        """Answers the digest of some rows of a standby."""
        message = decode_message(await self._body(request), CompareRequest)
        return _response(await self._receiver.compare(message))

    async def unlike(self, request: web.Request) -> web.Response:
        """Tells a standby that replicas of its partition have other rows."""
        message = decode_message(await self._body(request), UnlikeRequest)
        return _response(await self._receiver.unlike(message))

    async def _body(self, request: web.Request) -> bytes:
        return await read_body(request, self._bytes_max, self._pace, _SPLIT)


def _response(message: object) -> web.Response:
    return web.Response(body=encode_message(message), content_type=REPLICATION_MEDIA)
