"""The store's serdes and format, and the JSON of its rows.

A row is encoded to JSON bytes once, and only copied after that. It is `{"key": k, "value": v}`,
with `timestamp` (milliseconds, -1: unknown) and `headers` (a list of `{"key": name, "value": base64
or null}`, in order) if the query asks for them.
"""

import struct
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from qss_core.errors import MalformedBytesError
from qss_core.formats.headers import decode_headers
from qss_core.formats.segments import Segments, segments_of
from qss_core.formats.values import TIMESTAMP_BYTES, Format, splitter_of
from qss_core.model import Partitioner, StoreDefinition, StoreId, StoreName, StoreType
from qss_core.serdes.contract import Serde
from qss_core.serdes.registry import serde_of
from qss_store.storage.index_keys import Indexing

RowWriter = Callable[[bytes, bytes], bytes]
ToJson = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True)
class Shape:
    """The members of a row besides its key and value."""

    timestamp: bool
    headers: bool


BARE = Shape(timestamp=False, headers=False)
TIMESTAMPED = Shape(timestamp=True, headers=False)
FULL = Shape(timestamp=True, headers=True)
_SHAPES = {
    Format.Plain: BARE,
    Format.Timestamped: TIMESTAMPED,
    Format.TimestampedWithHeaders: FULL,
    Format.PlainWithHeaders: Shape(timestamp=False, headers=True),
}


@dataclass(frozen=True, slots=True)
class Codec:
    """The serdes and format of a store; `shape` has all members that its format keeps."""

    name: StoreName
    store_id: StoreId
    type: StoreType
    format: Format
    shape: Shape
    key: Serde
    value: Serde
    partitioner: Partitioner
    partitions: int
    segments: Segments | None  # None: the rows have no time.
    window_size_ms: int
    retain_duplicates: bool
    indexing: Indexing | None = None


@lru_cache(maxsize=8)
def codec_of(definition: StoreDefinition, indexing: Indexing | None = None) -> Codec:
    """The codec of a store, cached; `indexing` has the indexes of a custom store type."""
    store_format = Format(definition.format)
    return Codec(
        name=definition.name,
        store_id=definition.store_id,
        type=definition.row_type,
        format=store_format,
        shape=_SHAPES[store_format],
        key=serde_of(definition.key_serde),
        value=serde_of(definition.value_serde),
        partitioner=definition.partitioner,
        partitions=definition.partitions,
        segments=segments_of(definition),
        window_size_ms=definition.window_size_ms or 0,
        retain_duplicates=definition.retain_duplicates,
        indexing=indexing,
    )


def make_row_writer(codec: Codec, shape: Shape, tail: bytes = b"}") -> RowWriter:
    """Makes the function (key bytes, row bytes) -> JSON bytes of the row, ending in `tail`.

    The function raises MalformedBytesError for bytes of another serde or format.
    """
    key_json, value_json = codec.key.json_bytes, codec.value.json_bytes
    if codec.format is Format.Timestamped and shape == TIMESTAMPED:
        return _timestamped_writer(key_json, value_json, tail)
    split = splitter_of(codec.format)

    def write_bare(key: bytes, row: bytes) -> bytes:
        return b'{"key":%b,"value":%b%b' % (key_json(key), value_json(split(row)[2]), tail)

    def write_timestamped(key: bytes, row: bytes) -> bytes:
        _, timestamp, value = split(row)
        assert timestamp is not None, "a plan asks for what the format keeps"
        stamp = b',"timestamp":%d%b' % (timestamp, tail)
        return b'{"key":%b,"value":%b%b' % (key_json(key), value_json(value), stamp)

    def write_full(key: bytes, row: bytes) -> bytes:
        block, timestamp, value = split(row)
        stamp = b"" if timestamp is None else b'"timestamp":%d,' % timestamp
        return b'{"key":%b,"value":%b,%b"headers":%b%b' % (
            key_json(key),
            value_json(value),
            stamp,
            headers_json(block),
            tail,
        )

    if shape.headers:
        return write_full
    return write_timestamped if shape.timestamp else write_bare


def _timestamped_writer(key_json: ToJson, value_json: ToJson, tail: bytes) -> RowWriter:
    """The writer for the usual format, without a call and a tuple for each row."""
    template = b'{"key":%b,"value":%b,"timestamp":%d' + tail.replace(b"%", b"%%")
    timestamp_of = struct.Struct(">q").unpack_from

    def write(key: bytes, row: bytes) -> bytes:
        if len(row) < TIMESTAMP_BYTES:
            raise MalformedBytesError(f"a row of {len(row)} bytes ends inside its timestamp")
        value = value_json(row[TIMESTAMP_BYTES:])
        return template % (key_json(key), value, timestamp_of(row)[0])

    return write


def headers_json(block: bytes) -> bytes:
    if not block:
        return b"[]"
    return msgspec.json.encode(
        [
            {"key": key, "value": None if value is None else b64encode(value).decode()}
            for key, value in decode_headers(block)
        ]
    )
