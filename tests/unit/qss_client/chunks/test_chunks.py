"""A chunk is decoded completely or refused."""

import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qss_client.chunks.chunk import (
    HEADERS_BYTES_MAX,
    KEY_BYTES_MAX,
    VALUE_BYTES_MAX,
    checksum_of,
    decode_chunk,
    encode_slice,
    read_rows,
)
from qss_client.chunks.chunk_schema import schema_of
from qss_client.chunks.key_hashes import murmur2, partitions_of, partitions_of_list
from qss_core.errors import (
    MalformedBytesError,
    MalformedRequestError,
    NullKeyError,
    StoreError,
    TooLargeError,
)
from qss_core.partitioning import murmur2 as murmur2_of_key
from qss_core.partitioning import partition_of

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def table(keys: list[bytes], values: list[bytes | None] | None = None) -> pa.Table:
    return pa.table(
        {
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values or [b"v"] * len(keys), pa.binary()),
        }
    )


def stream(schema: pa.Schema, rows: pa.Table, **options: object) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(rows.cast(schema))
    return bytes(sink.getvalue().to_pybytes())


def test_a_chunk_is_its_slices_one_after_the_other() -> None:
    headers = [{"key": "h", "value": b"x"}, {"key": "h", "value": None}]
    full = pa.table(
        {
            "key": pa.array([b"c", b"d"], pa.binary()),
            "value": pa.array([b"1", None], pa.binary()),
            "timestamp": pa.array([5, None], pa.int64()),
            "headers": pa.array([headers, []], HEADERS),
        }
    )
    first, second = encode_slice(3, table([b"a", b"b"])), encode_slice(1, full)
    body = bytes(first.data) + bytes(second.data)
    found = decode_chunk(body, None)
    assert [(one.partition, one.records, one.checksum) for one in found] == [
        (3, 2, first.checksum),
        (1, 2, second.checksum),
    ]
    assert [bytes(one.data) for one in found] == [first.data, second.data]
    (rows,) = read_rows(found[1].data, 10)
    assert rows.keys == [b"c", b"d"]
    assert rows.values == [b"1", None]
    assert rows.timestamps == [5, None]
    assert rows.headers == [(("h", b"x"), ("h", None)), ()]


def test_rows_come_in_pieces_of_a_bounded_size() -> None:
    one = encode_slice(0, table([bytes([number]) for number in range(10)]))
    assert [len(rows.keys) for rows in read_rows(one.data, 4)] == [4, 4, 2]


def test_equal_rows_have_equal_bytes() -> None:
    rows = table([b"a", b"b", b"c"])
    assert encode_slice(0, rows.slice(1)).checksum == encode_slice(0, table([b"b", b"c"])).checksum


def test_every_cut_of_a_chunk_but_between_slices_is_refused() -> None:
    one, two = encode_slice(0, table([b"a"])), encode_slice(1, table([b"b"]))
    body = bytes(one.data) + bytes(two.data)
    for end in range(1, len(body)):
        if end == len(one.data):
            assert [slice_.records for slice_ in decode_chunk(body[:end], None)] == [1]
            continue
        with pytest.raises(StoreError):
            decode_chunk(body[:end], None)


@settings(max_examples=150, deadline=None)
@given(st.integers(min_value=0), st.binary(min_size=1, max_size=8))
def test_a_damaged_chunk_never_crashes(at: int, damage: bytes) -> None:
    body = bytearray(encode_slice(0, table([b"alpha", b"beta"], [b"1", None])).data)
    at %= len(body)
    body[at : at + len(damage)] = damage
    try:
        for one in decode_chunk(bytes(body), None):
            for rows in read_rows(one.data, 100):
                assert len(rows.keys) == len(rows.values)
    except StoreError:
        pass


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_refused_in_words(body: bytes) -> None:
    if body:
        with pytest.raises(StoreError):
            decode_chunk(body, None)


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_compressed_buffers_are_refused_before_they_are_opened(codec: str) -> None:
    body = stream(schema_of(0, ("key", "value")), table([b"a" * 1000] * 100), compression=codec)
    with pytest.raises(MalformedRequestError, match="compressed"):
        decode_chunk(body, None)


def test_dictionaries_are_refused() -> None:
    rows = pa.table({"key": table([b"a"]).column("key").dictionary_encode(), "value": [b"v"]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    with pytest.raises(MalformedRequestError, match="columns"):
        decode_chunk(sink.getvalue().to_pybytes(), None)


def test_a_bomb_that_claims_endless_rows_is_refused() -> None:
    body = bytearray(encode_slice(0, table([b"a"] * 7)).data)
    rows = struct.pack("<q", 7)
    bomb = struct.pack("<q", 2**60)
    assert body.count(rows) >= 1
    with pytest.raises(StoreError):
        decode_chunk(bytes(body.replace(rows, bomb)), None)


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        (table([b"k" * (KEY_BYTES_MAX + 1)]), TooLargeError),
        (table([b"k"], [b"v" * (VALUE_BYTES_MAX + 1)]), TooLargeError),
    ],
)
def test_a_key_and_a_value_have_limits(rows: pa.Table, error: type[StoreError]) -> None:
    with pytest.raises(error):
        decode_chunk(encode_slice(0, rows).data, None)  # type: ignore[arg-type]


def test_headers_have_a_limit_for_each_row() -> None:
    half = {"key": "h", "value": b"x" * (HEADERS_BYTES_MAX // 2)}
    fine = pa.table(
        {
            "key": [b"a", b"b"],
            "value": [b"1", b"2"],
            "headers": pa.array([[half], [half]], HEADERS),
        }
    )
    decode_chunk(bytes(encode_slice(0, fine).data), None)
    heavy = fine.set_column(2, "headers", pa.array([[half, half], []], HEADERS))
    with pytest.raises(TooLargeError):
        decode_chunk(bytes(encode_slice(0, heavy).data), None)


def test_a_row_without_a_key_is_refused() -> None:
    schema = pa.schema([("key", pa.binary()), ("value", pa.binary())], {"partition": "0"})
    rows = pa.table({"key": pa.array([None], pa.binary()), "value": [b"v"]})
    with pytest.raises(NullKeyError):
        decode_chunk(stream(schema, rows), None)


def test_a_slice_names_its_partition_and_a_chunk_has_one_slice_for_each() -> None:
    with pytest.raises(MalformedRequestError, match="partition"):
        decode_chunk(stream(table([b"a"]).schema, table([b"a"])), None)
    one = bytes(encode_slice(0, table([b"a"])).data)
    with pytest.raises(MalformedRequestError, match="one slice"):
        decode_chunk(one + one, None)


def test_a_key_that_hashes_elsewhere_is_refused() -> None:
    home = partition_of(b"alice", 12)
    decode_chunk(bytes(encode_slice(home, table([b"alice"])).data), 12)
    with pytest.raises(MalformedRequestError, match="belongs to another partition"):
        decode_chunk(bytes(encode_slice((home + 1) % 12, table([b"alice"])).data), 12)


def test_a_checksum_tells_rows_apart() -> None:
    assert checksum_of(b"a") != checksum_of(b"b")
    assert checksum_of(b"") == "00000000"


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(1, 512), st.integers(0, 5))
def test_the_vectorised_partitioner_is_kafkas(keys: list[bytes], count: int, skip: int) -> None:
    column = pa.array(keys, pa.binary()).slice(skip)
    kept = keys[skip:]
    assert murmur2(column).tolist() == [murmur2_of_key(key) for key in kept]
    wanted = [partition_of(key, count) for key in kept]
    assert partitions_of(column, count).tolist() == wanted
    assert partitions_of_list(kept, count).tolist() == wanted


def test_the_vectorised_partitioner_takes_long_keys_and_long_offsets() -> None:
    keys = [np.random.default_rng(1).bytes(size) for size in (70_000, 300, 257, 3)]
    wanted = [murmur2_of_key(key) for key in keys]
    assert murmur2(pa.array(keys, pa.binary())).tolist() == wanted
    assert murmur2(pa.array(keys, pa.large_binary())).tolist() == wanted
    with pytest.raises(NullKeyError):
        murmur2(pa.array([b"a", None], pa.binary()))
    assert isinstance(MalformedBytesError("x"), StoreError)
