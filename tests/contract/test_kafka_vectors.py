"""Byte vectors that Kafka Streams 4.3.0 made, both ways, for the layouts that are Kafka's."""

import json
import struct
from collections.abc import Callable
from typing import Any

import pytest

from qss_core.formats.headers import Headers, decode_headers, encode_headers
from qss_core.formats.values import Format, convert_row, decode_value, encoder_of
from qss_core.partitioning import murmur2, partition_of
from qss_core.positions import Position, decode_position, encode_position
from qss_core.serdes.registry import serde_of
from qss_core.varint import decode_varint, encode_varint
from qss_testing.reference.kafka_vectors import TIMED_KINDS, VECTORS, Vector
from qss_testing.row_bytes import Record, decode_row, encode_row

# test_kafka_vectors_times has the keys of windows and sessions, test_kafka_versions the versions.
COVERED_ELSEWHERE = TIMED_KINDS | {
    "versioned_key",
    "versioned_latest_value",
    "versioned_segment_value",
}

SCALARS = {
    "serde_string": "string",
    "serde_short": "int16",
    "serde_integer": "int32",
    "serde_long": "int64",
    "serde_float": "float32",
    "serde_double": "float64",
    "serde_boolean": "boolean",
    "serde_uuid": "uuid",
    "serde_byte_array": "bytes",
    "serde_bytes": "bytes",
    "serde_byte_buffer": "bytes",
}
LIST_ITEMS = {
    "string": "string",
    "short": "int16",
    "integer": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "boolean": "boolean",
    "uuid": "uuid",
    "byte_array": "bytes",
}
CONVERSIONS = {
    "convert_plain_to_timestamped": (Format.Plain, Format.Timestamped),
    "convert_timestamped_to_headers": (Format.Timestamped, Format.TimestampedWithHeaders),
    "convert_plain_to_timestamped_headers": (Format.Plain, Format.TimestampedWithHeaders),
    "convert_session_to_headers": (Format.Plain, Format.PlainWithHeaders),
    "strip_headers_to_timestamped": (Format.TimestampedWithHeaders, Format.Timestamped),
    "strip_headers_to_plain": (Format.TimestampedWithHeaders, Format.Plain),
    "strip_session_headers": (Format.PlainWithHeaders, Format.Plain),
}


def headers_of(vector: Vector) -> Headers:
    """The headers of a vector's input; none when it has no such member."""
    return tuple(
        (key, None if value is None else bytes.fromhex(value))
        for key, value in vector["input"].get("headers", ())
    )


def typed(serde_name: str, given: Any) -> Any:
    """The Python value for a value of this type in a vector."""
    if given is None:
        return None
    if serde_name == "bytes":
        return bytes.fromhex(given)
    if serde_name == "float32":
        return struct.unpack("f", struct.pack("f", float(given)))[0]
    if serde_name == "float64":
        return float(given)
    return serde_of(serde_name).from_json(given)


def check_varint(vector: Vector) -> None:
    data = bytes.fromhex(vector["hex"])
    assert encode_varint(vector["input"]["value"]) == data
    assert decode_varint(data) == (vector["input"]["value"], len(data))


def check_headers(vector: Vector) -> None:
    block = bytes.fromhex(vector["hex"])
    assert encode_headers(headers_of(vector)) == block
    assert decode_headers(block) == headers_of(vector)


def check_row(row_format: Format, vector: Vector) -> None:
    value_hex = vector["input"]["value_hex"]
    if value_hex is None:
        # A null value is a delete: there is no row.
        assert vector["hex"] is None
        return
    record = Record(bytes.fromhex(value_hex), vector["input"].get("timestamp"), headers_of(vector))
    row = bytes.fromhex(vector["hex"])
    assert encode_row(row_format, record) == row
    encode = encoder_of(row_format)
    assert encode(record.value, record.timestamp or 0, record.headers) == row
    assert decode_row(row_format, row) == record
    assert decode_value(row_format, row) == record.value
    assert decode_row(row_format, row).timestamp == record.timestamp


def check_conversion(vector: Vector) -> None:
    source, target = CONVERSIONS[vector["kind"]]
    stored = bytes.fromhex(vector["input"]["stored_hex"])
    assert convert_row(stored, source, target) == bytes.fromhex(vector["hex"])


def check_position(vector: Vector) -> None:
    data = bytes.fromhex(vector["hex"])
    position = Position.from_json(vector["input"]["position"])
    assert encode_position(position) == data
    assert decode_position(data) == position
    # As Kafka stores it.
    assert decode_position(data.ljust(vector["stored_length"], b"\x00")) == position


def check_murmur2(vector: Vector) -> None:
    key = bytes.fromhex(vector["input"]["key_hex"])
    assert murmur2(key) == vector["value"]
    assert murmur2(key) & 0xFFFFFFFF == int(vector["hex"], 16)
    assert {str(n): partition_of(key, int(n)) for n in vector["partitions"]} == vector["partitions"]


def check_value(serde_name: str, value: Any, data_hex: str | None) -> None:
    if value is None or data_hex is None:
        # A null is the absence of a value: no serde gets it.
        assert value is None
        assert data_hex is None
        return
    serde = serde_of(serde_name)
    data = bytes.fromhex(data_hex)
    assert serde.encode(value) == data
    decoded = serde.decode(data)
    # The text of NaN equals itself, and that of -0.0 differs from 0.0.
    assert repr(decoded) == repr(value)
    assert serde.encode(serde.from_json(serde.to_json(decoded))) == data
    assert serde.encode(serde.from_json(json.loads(serde.json_bytes(data)))) == data
    assert serde.key_from_text(serde.key_to_text(data)) == data


def check_scalar(vector: Vector) -> None:
    name = SCALARS[vector["kind"]]
    check_value(name, typed(name, vector["input"]["value"]), vector["hex"])


def check_list(vector: Vector) -> None:
    inner = LIST_ITEMS[vector["input"]["inner"]]
    items = [typed(inner, item) for item in vector["input"]["items"]]
    check_value(f"list<{inner}>", items, vector["hex"])


def check_void(vector: Vector) -> None:
    assert vector["hex"] is None


CHECKS: dict[str, Callable[[Vector], None]] = {
    "varint": check_varint,
    "headers_block": check_headers,
    "value_timestamp": lambda vector: check_row(Format.Timestamped, vector),
    "value_timestamp_headers": lambda vector: check_row(Format.TimestampedWithHeaders, vector),
    "aggregation_headers": lambda vector: check_row(Format.PlainWithHeaders, vector),
    "position": check_position,
    "murmur2": check_murmur2,
    "serde_list": check_list,
    "serde_void": check_void,
    **dict.fromkeys(SCALARS, check_scalar),
    **dict.fromkeys(CONVERSIONS, check_conversion),
}

COVERED_HERE = [vector for vector in VECTORS if vector["kind"] in CHECKS]


@pytest.mark.parametrize(
    "vector", COVERED_HERE, ids=[f"{i}-{vector['kind']}" for i, vector in enumerate(COVERED_HERE)]
)
def test_a_vector_of_kafka_is_reproduced(vector: Vector) -> None:
    CHECKS[vector["kind"]](vector)


def test_every_kind_of_vector_has_a_home() -> None:
    assert {vector["kind"] for vector in VECTORS} == COVERED_ELSEWHERE | CHECKS.keys()
    assert not COVERED_ELSEWHERE & CHECKS.keys()


def test_the_whole_set_of_vectors_is_here() -> None:
    assert len(VECTORS) == 290
