"""A chunk on the wire: the rows of one stage request, as Arrow IPC.

A chunk has one complete Arrow IPC stream per partition, one after the other, each with its end
mark. The partition number is in the stream's schema metadata as `partition`. The partition's
changelog keeps exactly these bytes, and their CRC-32 is the slice's checksum: a repeated slice,
also to another pod, has the same bytes. `qss_client.chunks.chunk_schema` describes the columns.

Arrow's buffer compression and dictionaries are refused: a few bytes could expand to any amount of
memory.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from qss_client.chunks.chunk_schema import (
    KEY_VALUE,
    ChunkSchema,
    check_schema,
    check_times,
    latest_of,
    schema_of,
    undated_of,
)
from qss_client.chunks.key_hashes import partitions_of
from qss_core.errors import MalformedBytesError, MalformedRequestError, NullKeyError, TooLargeError
from qss_core.model import PartitionId

KEY_BYTES_MAX = 64 * 1024
VALUE_BYTES_MAX = 8 * 1024 * 1024
HEADERS_BYTES_MAX = 64 * 1024
CHUNK_BYTES_MAX = 32 * 1024 * 1024
SLICES_MAX = 512

_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"


@dataclass(frozen=True, slots=True)
class Slice:
    """One partition's rows of a chunk."""

    partition: PartitionId
    records: int
    checksum: str
    data: bytes | memoryview  # The Arrow IPC stream.
    deletes: int = 0  # Rows without a value.
    latest: int | None = None  # The largest time of its rows, if rows have times.
    undated: int = 0  # Versions without a timestamp, which get the time of their batch.
    batches: tuple[pa.RecordBatch, ...] = field(default=(), repr=False, compare=False)  # Decoded.


def encode_slice(partition: int, rows: pa.Table | pa.RecordBatch) -> Slice:
    """The slice of rows for a partition, with the columns of `chunk_schema`."""
    schema, head = _head_of(partition, tuple(rows.schema.names))
    batches = [rows] if isinstance(rows, pa.RecordBatch) else rows.combine_chunks().to_batches()
    messages = [batch.cast(schema).serialize() for batch in batches]
    data = b"".join([head, *messages, _END_OF_STREAM])
    return Slice(PartitionId(partition), rows.num_rows, checksum_of(data), data)


def slices_of(batches: Sequence[pa.RecordBatch]) -> list[Slice]:
    """A slice for each partition, sorted by key; of equal keys the last one wins, as they come.

    `batches` have the columns of `chunk_schema` and `partition`, int32, which no slice has.
    """
    rows = pa.Table.from_batches(batches)
    if not rows.num_rows:
        return []
    order = pc.sort_indices(rows, [("partition", "ascending"), ("key", "ascending")])
    (sorted_rows,) = rows.take(order).combine_chunks().to_batches()
    partitions = sorted_rows.column("partition").to_numpy()
    bounds = [0, *(np.flatnonzero(np.diff(partitions)) + 1).tolist(), len(partitions)]
    columns = sorted_rows.drop_columns(["partition"])
    return [
        encode_slice(int(partitions[start]), columns.slice(start, end - start))
        for start, end in pairwise(bounds)
    ]


@lru_cache(maxsize=2 * SLICES_MAX)
def _head_of(partition: int, names: tuple[str, ...]) -> tuple[pa.Schema, bytes]:
    """The schema of a slice and the first message of its stream, equal for each batch."""
    schema = schema_of(partition, names)
    return schema, schema.serialize().to_pybytes()


def checksum_of(data: bytes | memoryview) -> str:
    """The checksum of a slice's bytes: CRC-32 in hex."""
    return f"{zlib.crc32(data):08x}"


def decode_chunk(
    body: bytes, partitions: int | None, layout: ChunkSchema = KEY_VALUE
) -> list[Slice]:
    """The slices of a chunk, completely checked.

    `partitions` is the store's count if keys must hash to their slice's partition, and None if the
    writer chooses (partitioner Explicit). `layout` has the columns of the store. Raises
    MalformedBytesError, NullKeyError, TooLargeError and MalformedRequestError.
    """
    slices: list[Slice] = []
    placed: list[tuple[int, pa.BinaryArray]] = []
    rest = memoryview(body)
    while len(rest):
        found, rest = _read_slice(rest, layout, placed)
        slices.append(found)
        if len(slices) > SLICES_MAX:
            raise TooLargeError(f"a chunk has at most {SLICES_MAX} slices")
    if len({found.partition for found in slices}) != len(slices):
        raise MalformedRequestError("a chunk has at most one slice for each partition")
    if partitions is not None and placed:
        _check_places(placed, partitions)
    return slices


def _read_slice(
    data: memoryview, layout: ChunkSchema, placed: list[tuple[int, pa.BinaryArray]]
) -> tuple[Slice, memoryview]:
    """The first slice and the bytes after it; adds the slice's keys to `placed`."""
    source = pa.BufferReader(pa.py_buffer(data))
    try:
        with pa.ipc.open_stream(source) as reader:
            partition = check_schema(reader.schema, layout)
            _refuse_compression(data)
            records = deletes = undated = 0
            times: list[int] = []
            batches: list[pa.RecordBatch] = []
            for batch in reader:
                batches.append(batch)
                batch.validate(full=True)
                _check_rows(batch)
                placed.append((partition, batch.column("key")))
                check_times(batch, layout)
                records += batch.num_rows
                deletes += batch.column("value").null_count
                undated += undated_of(batch, layout)
                if (latest := latest_of(batch, layout)) is not None:
                    times.append(latest)
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise MalformedBytesError(f"the chunk is not an Arrow IPC stream: {error}") from error
    end = source.tell()
    data, rest = data[:end], data[end:]
    if data[-len(_END_OF_STREAM) :] != _END_OF_STREAM:
        # Arrow accepts a stream that stops between two messages as complete.
        raise MalformedBytesError("a slice of the chunk is cut off: it has no end mark")
    checksum = checksum_of(data)
    return Slice(
        partition=PartitionId(partition),
        records=records,
        checksum=checksum,
        data=data,
        deletes=deletes,
        latest=max(times, default=None),
        undated=undated,
        batches=tuple(batches),
    ), rest


def _check_rows(batch: pa.RecordBatch) -> None:
    keys = batch.column("key")
    if keys.null_count:
        raise NullKeyError("a row has no key: every row of a store needs one")
    _check_length(keys, "a key", KEY_BYTES_MAX)
    _check_length(batch.column("value"), "a value", VALUE_BYTES_MAX)
    if "headers" in batch.schema.names:
        _check_headers(batch.column("headers"))


def _check_places(placed: list[tuple[int, pa.BinaryArray]], partitions: int) -> None:
    """Raises for keys of other partitions; one pass checks all slices."""
    counts = [len(keys) for _, keys in placed]
    said = np.repeat(np.array([partition for partition, _ in placed]), counts)
    elsewhere = partitions_of(pa.concat_arrays([keys for _, keys in placed]), partitions) != said
    if elsewhere.any():
        partition = said[elsewhere.argmax()]
        raise MalformedRequestError(
            f"a key in the slice of partition {partition} belongs to another partition: partition "
            f"by murmur2 of the serialized key, modulo {partitions}"
        )


def _check_length(column: pa.Array, what: str, limit: int) -> None:
    if column.nbytes <= limit:
        return  # All values together are within the limit of one.
    longest = pc.max(pc.binary_length(column)).as_py() or 0
    if longest > limit:
        raise TooLargeError(f"{what} has {longest} bytes, at most {limit} are allowed")


def _check_headers(column: pa.ListArray) -> None:
    if not len(column.flatten()):
        return
    names = pc.struct_field(column.flatten(), "key")
    values = pc.struct_field(column.flatten(), "value")
    if names.null_count:
        raise MalformedRequestError("a header has no key")
    sizes = pc.add(pc.binary_length(names), pc.fill_null(pc.binary_length(values), 0))
    per_row = pc.list_parent_indices(column)
    longest = pa.table({"row": per_row, "size": sizes}).group_by("row").aggregate([("size", "sum")])
    most = pc.max(longest.column("size_sum")).as_py()
    if most > HEADERS_BYTES_MAX:
        raise TooLargeError(f"headers have {most} bytes, at most {HEADERS_BYTES_MAX} are allowed")


@dataclass(frozen=True, slots=True)
class ChunkRows:
    """Rows of a slice, column by column."""

    keys: list[bytes]
    values: list[bytes | None]
    timestamps: list[int | None] | None
    headers: list[tuple[tuple[str, bytes | None], ...]] | None


def read_batches(data: bytes | memoryview, rows_max: int) -> Iterator[pa.RecordBatch]:
    """The rows of a checked slice, at most `rows_max` at a time, without copies."""
    with pa.ipc.open_stream(pa.BufferReader(pa.py_buffer(data))) as reader:
        yield from split_batches(reader, rows_max)


def split_batches(batches: Iterable[pa.RecordBatch], rows_max: int) -> Iterator[pa.RecordBatch]:
    """The same rows, at most `rows_max` at a time, without copies."""
    for batch in batches:
        for start in range(0, batch.num_rows, rows_max):
            yield batch.slice(start, rows_max)


def read_rows(data: bytes | memoryview, rows_max: int) -> Iterator[ChunkRows]:
    return map(rows_of, read_batches(data, rows_max))


def rows_of(batch: pa.RecordBatch) -> ChunkRows:
    """The rows of a batch as values, without their times."""
    names = batch.schema.names
    return ChunkRows(
        keys=batch.column("key").to_pylist(),
        values=batch.column("value").to_pylist(),
        timestamps=batch.column("timestamp").to_pylist() if "timestamp" in names else None,
        headers=_headers_of(batch.column("headers")) if "headers" in names else None,
    )


def _headers_of(column: pa.ListArray) -> list[tuple[tuple[str, bytes | None], ...]]:
    return [
        tuple((header["key"], header["value"]) for header in row or ())
        for row in column.to_pylist()
    ]


# --- The flatbuffers of Arrow's messages, parsed only far enough to refuse compression. Message:
# table {version, header_type, header, bodyLength}; RecordBatch: table {length, nodes, buffers,
# compression}. A table starts with a signed offset back to its vtable. After two lengths of 2
# bytes, the vtable has the fields' offsets from the table, 0 for an absent field.

_CONTINUATION = 0xFFFFFFFF
_RECORD_BATCH = 3
_DICTIONARY_BATCH = 2


def _refuse_compression(stream: memoryview) -> None:
    at = 0
    while at + 8 <= len(stream):
        continuation, length = struct.unpack_from("<II", stream, at)
        if continuation != _CONTINUATION or length == 0:
            return
        metadata = stream[at + 8 : at + 8 + length]
        body_bytes = _check_message(metadata)
        at += 8 + length + body_bytes


def _check_message(metadata: memoryview) -> int:
    try:
        message = struct.unpack_from("<I", metadata, 0)[0]
        kind_at = _field(metadata, message, 1)
        kind = metadata[kind_at] if kind_at else 0
        header_at = _field(metadata, message, 2)
        body_at = _field(metadata, message, 3)
        if kind == _DICTIONARY_BATCH:
            raise MalformedRequestError("a chunk has no dictionaries: send plain columns")
        if kind == _RECORD_BATCH and header_at:
            table = header_at + struct.unpack_from("<I", metadata, header_at)[0]
            if _field(metadata, table, 3):
                raise MalformedRequestError("a chunk has no compressed buffers: send them plain")
        body_bytes: int = struct.unpack_from("<q", metadata, body_at)[0] if body_at else 0
    except (struct.error, IndexError) as error:
        raise MalformedBytesError("an Arrow message in the chunk is cut off") from error
    if body_bytes < 0:
        raise MalformedBytesError("an Arrow message in the chunk has a negative length")
    return body_bytes


def _field(data: memoryview, table: int, index: int) -> int:
    """The position of a table's field; 0 if the table does not have it."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    size = struct.unpack_from("<H", data, vtable)[0]
    entry = 4 + 2 * index
    if entry + 2 > size:
        return 0
    offset: int = struct.unpack_from("<H", data, vtable + entry)[0]
    return table + offset if offset else 0
