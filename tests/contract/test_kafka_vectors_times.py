"""Kafka's vectors of the keys of windows and sessions, both ways, and of its scans' bounds."""

from collections.abc import Callable
from typing import Any

import pytest

from qss_core.formats.timed_keys import (
    SessionKey,
    WindowKey,
    decode_session_key,
    decode_window_key,
    encode_session_key,
    encode_window_key,
    window_end,
)
from qss_testing.reference import kafka_keys
from qss_testing.reference.kafka_vectors import TIMED_KINDS, VECTORS, Vector

HERE = [vector for vector in VECTORS if vector["kind"] in TIMED_KINDS]
LOWER, UPPER = 0, 1


def key_of(vector: Vector) -> bytes:
    return bytes.fromhex(vector["input"]["key_hex"])


def window_of(vector: Vector) -> WindowKey:
    return WindowKey(key_of(vector), vector["input"]["start"], vector["input"].get("seq", 0))


def session_of(vector: Vector) -> SessionKey:
    return SessionKey(key_of(vector), vector["input"]["start"], vector["input"]["end"])


def check(
    made: Any, encode: Callable[[Any], bytes], decode: Callable[[bytes], Any], data: bytes
) -> None:
    assert encode(made) == data
    assert decode(data) == made


def bound(vector: Vector) -> bytes:
    """The bound of Kafka's scan for the request of this vector."""
    key, given = key_of(vector), vector["input"]
    _, _, what, side = vector["kind"].split("_")
    end = LOWER if side == "lower" else UPPER
    if vector["kind"].startswith("window"):
        earliest, latest = given.get("from", 0), given.get("to", 0)
        if what == "fixed":
            return kafka_keys.window_key_bounds(key, earliest, latest)[end]
        return kafka_keys.window_range_bounds(key, key, latest)[end]
    earliest_end, latest_start = given.get("earliest_end", 0), given.get("latest_start", 0)
    if what == "fixed":
        return kafka_keys.session_key_bounds(key, earliest_end, latest_start)[end]
    return kafka_keys.session_range_bounds(key, key, latest_start)[end]


@pytest.mark.parametrize(
    "vector", HERE, ids=[f"{number}-{one['kind']}" for number, one in enumerate(HERE)]
)
def test_a_vector_of_kafka_is_reproduced(vector: Vector) -> None:
    data = bytes.fromhex(vector["hex"])
    match vector["kind"]:
        case "window_key":
            check(window_of(vector), lambda key: encode_window_key(*key), decode_window_key, data)
        case "window_key_topic":
            made = (key_of(vector), vector["input"]["start"])
            encode = kafka_keys.encode_topic_key
            check(made, lambda key: encode(*key), kafka_keys.decode_topic_key, data)
        case "window_key_time_first":
            encode_key = kafka_keys.encode_time_first_window
            check(window_of(vector), encode_key, kafka_keys.decode_time_first_window, data)
        case "window_key_key_first":
            encode_key = kafka_keys.encode_key_first_window
            check(window_of(vector), encode_key, kafka_keys.decode_key_first_window, data)
        case "session_key":
            made_session = session_of(vector)
            check(made_session, lambda key: encode_session_key(*key), decode_session_key, data)
        case "session_key_time_first":
            encode_session = kafka_keys.encode_time_first_session
            check(session_of(vector), encode_session, kafka_keys.decode_time_first_session, data)
        case "session_key_key_first":
            encode_session = kafka_keys.encode_key_first_session
            check(session_of(vector), encode_session, kafka_keys.decode_key_first_session, data)
        case "window_end":
            end = window_end(vector["input"]["start"], vector["input"]["size"])
            assert (end, end.to_bytes(8, "big")) == (vector["value"], data)
        case _:
            assert bound(vector) == data


def test_every_kind_has_vectors() -> None:
    assert {vector["kind"] for vector in HERE} == TIMED_KINDS
