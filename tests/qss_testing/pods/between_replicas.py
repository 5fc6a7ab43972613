"""Answers messages between replicas without HTTP, as the internal port does."""

from qss_core.errors import MalformedRequestError
from qss_store.replication.messages import (
    APPEND_PATH,
    HELLO_PATH,
    SNAPSHOT_END_PATH,
    SNAPSHOT_PART_PATH,
    SNAPSHOT_PATH,
    AppendRequest,
    Done,
    HelloRequest,
    SnapshotEnd,
    SnapshotPartRequest,
    SnapshotRequest,
    decode_message,
    encode_message,
)
from qss_store.writes.pod_services import PodServices


async def answer_of_replicas(services: PodServices, path: str, body: bytes) -> bytes:
    """The answer of a pod to a message between replicas. Raises StoreError."""
    receiver, snapshots = services.receiver, services.snapshots
    match path:
        case str() if path == HELLO_PATH:
            return encode_message(await receiver.hello(decode_message(body, HelloRequest)))
        case str() if path == APPEND_PATH:
            return encode_message(await receiver.append(decode_message(body, AppendRequest)))
        case str() if path == SNAPSHOT_PATH:
            return encode_message(await snapshots.begin(decode_message(body, SnapshotRequest)))
        case str() if path == SNAPSHOT_PART_PATH:
            return encode_message(await snapshots.part(decode_message(body, SnapshotPartRequest)))
        case str() if path == SNAPSHOT_END_PATH:
            await snapshots.end(decode_message(body, SnapshotEnd).snapshot)
            return encode_message(Done())
    raise MalformedRequestError(f"no such path: {path}")
