"""The bytes of changelog entries and their payloads, as a replica's database keeps them."""

from collections.abc import Iterable, Iterator

from zlib_ng.zlib_ng import crc32

from qss_core.model import Offset
from qss_store.replication import log as logs
from qss_store.replication.entries import (
    Entry,
    decode_entry,
    decode_head,
    decode_offset,
    encode_offset,
)
from qss_store.replication.follower import SentEntry
from qss_store.storage.engine import CHANGELOG, PAYLOAD, Batch
from qss_store.transactions.commands import (
    Stage,
    command_of,
    payload_bytes_of,
    payload_checksum_of,
)


def payload_size_of(entry: Entry) -> int:
    """The bytes of an entry's payload; in version 1 the command tells it."""
    payload = entry.payload
    return payload_bytes_of(command_of(entry).command) if payload is None else payload.size


def is_whole(sent: SentEntry) -> bool:
    """Whether an entry has the payload that it was appended with."""
    entry = decode_entry(sent.data)
    command, payload = command_of(entry).command, entry.payload
    if len(sent.payload) != payload_size_of(entry):
        return False
    if payload is not None:
        return crc32(sent.payload) == payload.checksum
    has_checksum = isinstance(command, Stage) and bool(command.checksum)
    return not has_checksum or crc32(sent.payload) == payload_checksum_of(command, b"")


def put_entry(batch: Batch, offset: int, data: bytes, payload: bytes | memoryview) -> None:
    batch.put(CHANGELOG, encode_offset(offset), data)
    if payload:
        batch.put(PAYLOAD, encode_offset(offset), bytes(payload))


def delete_entries(batch: Batch, first: Offset, end: Offset) -> None:
    for offset in range(first, end):
        batch.delete(CHANGELOG, encode_offset(offset))
        batch.delete(PAYLOAD, encode_offset(offset))


def stored_of(key: bytes, data: bytes) -> logs.Stored:
    head = decode_head(data)
    return logs.Stored(decode_offset(key), head.wall_time_ms, head.bytes_before)


def read_and_noted(
    rows: Iterable[tuple[bytes, bytes]], noted: list[logs.Stored]
) -> Iterator[logs.Stored]:
    """Decodes the log's rows one by one, and appends each decoded row to `noted`."""
    for key, data in rows:
        noted.append(stored_of(key, data))
        yield noted[-1]
