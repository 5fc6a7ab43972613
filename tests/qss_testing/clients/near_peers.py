"""Carries messages between replicas without HTTP: some pods of tests have no internal port."""

import asyncio
from collections.abc import Callable
from io import BufferedIOBase, BytesIO

from qss_core.errors import MalformedRequestError, UnreachableError
from qss_store.replication.messages import (
    APPEND_PATH,
    COMPARE_PATH,
    HELLO_PATH,
    SNAPSHOT_END_PATH,
    SNAPSHOT_PART_PATH,
    SNAPSHOT_PATH,
    UNLIKE_PATH,
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
from qss_store.runtime.blocking import run_blocking
from qss_store.runtime.peer_client import Peers, PeerSession
from qss_store.writes.pod_services import PodServices


class NearPeers(Peers):
    """Asks the services of pods in this process; other messages go over HTTP."""

    def __init__(
        self, session: PeerSession, services_at: Callable[[str], PodServices | None]
    ) -> None:
        """`services_at` gives the services of the pod that runs at an address."""
        super().__init__(session)
        self._services_at = services_at

    async def send(self, url: str, body: bytes, timeout_s: float) -> bytes:
        """Has the pod at this address answer a message between replicas."""
        host, _, path = url.removeprefix("http://").partition("/")
        services = self._services_at(f"http://{host}")
        if services is None:
            raise UnreachableError(f"no pod runs at {host}")
        async with asyncio.timeout(timeout_s):
            return await answer_of_replicas(services, path, body)

    async def download(
        self, url: str, body: bytes, take: Callable[[BufferedIOBase], None], timeout_s: float
    ) -> None:
        """As `send`; a thread reads the answer."""
        await run_blocking(take, BytesIO(await self.send(url, body, timeout_s)))


async def answer_of_replicas(services: PodServices, path: str, body: bytes) -> bytes:
    """The answer of a pod to a message between replicas. Raises StoreError."""
    receiver, snapshots = services.log_receiver, services.snapshots
    match path:
        case str() if path == HELLO_PATH:
            return encode_message(await receiver.hello(decode_message(body, HelloRequest)))
        case str() if path == APPEND_PATH:
            return encode_message(await receiver.append(decode_message(body, AppendRequest)))
        case str() if path == SNAPSHOT_PATH:
            return encode_message(await snapshots.begin(decode_message(body, SnapshotRequest)))
        case str() if path == SNAPSHOT_PART_PATH:
            part = snapshots.part(decode_message(body, SnapshotPartRequest))
            return b"".join([frame async for frame in part])
        case str() if path == SNAPSHOT_END_PATH:
            await snapshots.end(decode_message(body, SnapshotEnd))
            return encode_message(Done())
        case str() if path == COMPARE_PATH:
            return encode_message(await receiver.compare(decode_message(body, CompareRequest)))
        case str() if path == UNLIKE_PATH:
            return encode_message(await receiver.unlike(decode_message(body, UnlikeRequest)))
    raise MalformedRequestError(f"no such path: {path}")
