"""Damaged state files of Spark end in an error that says so, and in nothing else."""

import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from qss_spark.state.errors import CheckpointError
from qss_spark.state.frames import decompress
from qss_spark.state.records import Kind, records_of_changelog, records_of_delta
from qss_spark.state.schemas import read_schemas
from qss_spark.state.types import arrow_of, fields_of, text_of, unique_names, width_of
from qss_spark.state.unsafe_rows import columns_of

_RECORDS = struct.pack(">i2si3si1sii", 2, b"k1", 3, b"abc", 1, b"d", -1, -1)


def lz4(data: bytes) -> bytes:
    """One stored block and the empty one at the end."""
    checksum = xxhash.xxh32_intdigest(data, 0x9747B28C) & 0x0FFFFFFF
    block = b"LZ4Block" + struct.pack("<BiiI", 0x16, len(data), len(data), checksum) + data
    return block + b"LZ4Block" + struct.pack("<BiiI", 0x16, 0, 0, 0)


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(("codec", "packed"), [("lz4", lz4), ("zstd", zstd)])
def test_a_file_is_decompressed_up_to_a_limit(codec: str, packed: Callable[[bytes], bytes]) -> None:
    assert decompress(packed(b"x" * 1000), codec) == b"x" * 1000
    with pytest.raises(CheckpointError, match="more than 999 bytes"):
        decompress(packed(b"x" * 1000), codec, bytes_max=999)


def test_a_bit_that_has_changed_is_found_by_the_checksum_of_its_block() -> None:
    packed = bytearray(lz4(b"x" * 100))
    packed[60] ^= 1
    with pytest.raises(CheckpointError, match="checksum is another one"):
        decompress(bytes(packed), "lz4")


def test_another_codec_is_refused_by_name() -> None:
    with pytest.raises(CheckpointError, match="compressed with snappy: only lz4 and zstd"):
        decompress(b"", "snappy")


@given(st.sampled_from(["lz4", "zstd"]), st.binary(max_size=200))
def test_any_bytes_are_decompressed_or_refused(codec: str, data: bytes) -> None:
    with suppress(CheckpointError):
        assert len(decompress(data, codec, bytes_max=10_000)) <= 10_000


def test_records_are_puts_and_deletes_in_the_order_of_the_file() -> None:
    found = records_of_delta(_RECORDS)
    assert found.kinds.tolist() == [Kind.PUT, Kind.DELETE]
    assert [bytes(found.data[at : at + 2]) for at in found.keys[:1]] == [b"k1"]
    assert found.value_sizes.tolist() == [3, 0]


def test_typed_records_are_chosen_by_the_family_of_their_keys() -> None:
    typed = b"\x00\x02v2"
    for kind, family, key in ((Kind.PUT, 1, b"a"), (Kind.MERGE, 2, b"b"), (Kind.PUT, 2, b"c")):
        head = struct.pack("<H", family) + key
        typed += bytes([kind]) + struct.pack(">i3si1s", 3, head, 1, b"v")
    found = records_of_changelog(typed + b"\x00").of_family(2)
    assert found.kinds.tolist() == [Kind.MERGE, Kind.PUT]
    assert bytes(found.data[found.keys]) == b"bc"


def test_a_range_of_keys_that_is_deleted_is_refused() -> None:
    ranged = b"\x00\x02v2" + bytes([Kind.DELETE_RANGE]) + struct.pack(">i1si1s", 1, b"a", 1, b"z")
    with pytest.raises(CheckpointError, match="deletes ranges of keys"):
        records_of_changelog(ranged + b"\x00")


def test_a_changelog_names_the_files_before_it() -> None:
    text = b'[{"version":3,"checkpointUniqueId":"a-b"}]'
    data = b"\x00\x02v3" + struct.pack(">H", len(text)) + text
    found = records_of_changelog(data + _RECORDS)
    assert (found.lineage, len(found)) == ({3: "a-b"}, 2)
    with pytest.raises(CheckpointError, match="lineage of a changelog is damaged"):
        records_of_changelog(b"\x00\x02v3\x00\x03[1]" + _RECORDS)
    with pytest.raises(CheckpointError, match="ends in its lineage"):
        records_of_changelog(data[:20])


@pytest.mark.parametrize("version", [b"v5", b"vx", b"v0"])
def test_a_version_of_changelogs_that_is_not_known_is_refused(version: bytes) -> None:
    with pytest.raises(CheckpointError, match="only 1 to 4"):
        records_of_changelog(b"\x00\x02" + version)


def test_records_without_their_end_are_refused_wherever_they_end() -> None:
    """Spark writes a file under another name and renames it, but a disk may lose its end."""
    for end in range(len(_RECORDS)):
        with pytest.raises(CheckpointError):
            records_of_delta(_RECORDS[:end])


@given(st.binary(max_size=60))
def test_any_bytes_are_records_or_refused(data: bytes) -> None:
    for read in (records_of_delta, records_of_changelog):
        with suppress(CheckpointError):
            found = read(data)
            assert all(0 <= at <= len(data) for at in (found.values + found.value_sizes).tolist())


# --- Rows

_FIELDS = fields_of(
    {
        "fields": [
            {"name": "s", "type": "string"},
            {"name": "n", "type": "long"},
            {"name": "w", "type": "decimal(30,2)"},
            {"name": "a", "type": {"type": "array", "elementType": "string"}},
            {"name": "m", "type": {"type": "map", "keyType": "string", "valueType": "integer"}},
            {"name": "r", "type": {"type": "struct", "fields": [{"name": "z", "type": "binary"}]}},
        ]
    }
)


@given(st.binary(min_size=200, max_size=200), st.integers(0, 199), st.integers(0, 255))
def test_damaged_rows_are_refused_or_read_and_never_read_outside_of_the_file(
    damaged: bytes, row: int, kept: int
) -> None:
    """Many bytes are 0, so that some lengths and places are small."""
    data = np.frombuffer(damaged, dtype=np.uint8)
    data = np.where(data > kept, data, 0).astype(np.uint8)
    with suppress(CheckpointError):
        columns = columns_of(data, np.array([row]), _FIELDS)
        assert [len(one) for one in columns] == [1] * len(_FIELDS)


def test_a_row_outside_of_the_file_is_refused() -> None:
    with pytest.raises(CheckpointError, match="outside of the file"):
        columns_of(np.zeros(20, dtype=np.uint8), np.array([0]), _FIELDS)


# --- Schemas


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("variant", "variant"),
        ({"type": "udt", "class": "x"}, "udt"),
        ("interval", "interval"),
        ("interval second to day", "interval second to day"),
        ("time(6)", r"time\(6\)"),
    ],
)
def test_a_type_that_is_not_known_is_refused_by_name(kind: Any, name: str) -> None:
    said = f"column k: the type {name} cannot be read from state"
    with pytest.raises(CheckpointError, match=said):
        fields_of({"fields": [{"name": "k", "type": kind}]})
    inside = {"type": "struct", "fields": [{"name": "k", "type": kind}]}
    for one in (inside, {"type": "array", "elementType": inside}):
        with pytest.raises(CheckpointError, match=f"column s: {said}"):
            fields_of({"fields": [{"name": "s", "type": one}]})


def test_intervals_are_numbers_of_months_and_of_microseconds() -> None:
    for name, width in (("year", 4), ("year to month", 4), ("day", 8), ("hour to second", 8)):
        (found,) = fields_of({"fields": [{"name": "i", "type": f"interval {name}"}]})
        assert arrow_of(found.type) == (pa.int32() if width == 4 else pa.int64())
        assert (width_of(found.type), text_of(found.type)) == (width, f"interval {name}")


def test_types_are_written_as_in_sql_and_repeated_names_are_numbered() -> None:
    assert [text_of(one.type) for one in _FIELDS] == [
        "string",
        "bigint",
        "decimal(30,2)",
        "array<string>",
        "map<string,int>",
        "struct<z:binary>",
    ]
    twice = fields_of({"fields": [{"name": "sum", "type": "long"}] * 2})
    assert unique_names(twice) == ["sum", "sum_1"]
    clashing = fields_of({"fields": [{"name": name, "type": "long"} for name in ("a", "a", "a_1")]})
    assert unique_names(clashing) == ["a", "a_2", "a_1"]


@given(st.binary(max_size=80))
def test_any_bytes_are_a_schema_or_refused(data: bytes) -> None:
    for start in (b"", b"\x00\x02v1", b"\x00\x02v2", b"\x00\x02v3"):
        with suppress(CheckpointError):
            assert all(name == one.name for name, one in read_schemas(start + data).items())
